"""Public objects from the plain data of their files, and the reason where it is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, Protocol, TypeVar

from dpcontingency.errors import DPContingencyError, ReleaseError


class Plain(Protocol):
    """What has plain data."""

    def to_dict(self) -> dict[str, Any]:
        """The plain data."""


T = TypeVar("T", bound=Plain)


def read_back(
    what: str, names: Set[str], content: Mapping[str, Any], read: Callable[[Mapping[str, Any]], T]
) -> T:
    """What `to_dict` made content of, read and compared with it.

    Parameters
    ----------
    what : str
        A word for it.
    names : set of str
        Its fields.
    content : mapping
        The plain data.
    read : callable
        Makes the object of content that has these fields, but perhaps the wrong values.

    Raises
    ------
    ReleaseError
        If a field is missing, unknown, or not what it should be.
    """
    if not isinstance(content, Mapping):
        raise ReleaseError(f"A {what} is a mapping of its fields; got {type(content).__name__}.")
    if odd := names ^ set(content):
        raise ReleaseError(
            f"This is no {what}: the field {min(odd)!r} is "
            f"{'missing' if min(odd) in names else 'unknown'}. Ask the publisher for the "
            "original file."
        )
    reason = "some field is not of the kind that it should be"
    try:
        made = read(content)
        # Whatever NumPy or a constructor mended on the way (texts, nulls) shows here.
        if _alike(made.to_dict(), content):
            return made
    except DPContingencyError as error:
        reason = str(error).rstrip(".")
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
        pass  # whichever nested field it was: the reason is the same
    raise ReleaseError(f"This is no {what}: {reason}. Ask the publisher for the original file.")


def _alike(made: Any, given: Any) -> bool:
    """Whether plain data are equal, true and 1 being two things."""
    if isinstance(made, dict) and isinstance(given, dict):
        return made.keys() == given.keys() and all(_alike(made[k], given[k]) for k in made)
    if isinstance(made, list) and isinstance(given, list):
        if {*map(type, made), *map(type, given)} <= {int, float}:
            return made == given
        return len(made) == len(given) and all(map(_alike, made, given))
    return bool(made == given) and (type(made) is bool) == (type(given) is bool)


def is_words(value: object) -> bool:
    """Whether a value is a mapping to text, as a provenance is."""
    return type(value) is dict and all(type(text) is str for text in value.values())
