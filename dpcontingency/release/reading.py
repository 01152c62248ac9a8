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
        if made.to_dict() == content:
            return made
    except DPContingencyError as error:
        reason = str(error).rstrip(".")
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
        pass  # whichever nested field it was: the reason is the same
    raise ReleaseError(f"This is no {what}: {reason}. Ask the publisher for the original file.")


def is_words(value: object) -> bool:
    """Whether a value is a mapping to text, as a provenance is."""
    return type(value) is dict and all(type(text) is str for text in value.values())
