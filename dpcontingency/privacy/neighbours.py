"""The names of the neighbour relations: what a privacy loss protects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dpcontingency.errors import PrivacyError, did_you_mean, shown

REPLACE_ONE = "replace-one"
ADD_REMOVE = "add-remove"
RELATIONS = (REPLACE_ONE, ADD_REMOVE)


def checked_relation(relation: str) -> str:
    """A known relation, or an error that names the nearest one."""
    if relation not in RELATIONS:
        raise PrivacyError(
            f"There is no neighbour relation {relation!r}; {did_you_mean(str(relation), RELATIONS)}"
        )
    return relation


def checked_strata(strata: object) -> tuple[Any, ...]:
    """The names in a sequence of strata, or an error that shows how to write one."""
    if isinstance(strata, str):
        raise PrivacyError(f"`strata` is a sequence of factor names: write [{strata!r}].")
    if not isinstance(strata, Iterable):
        raise PrivacyError(f"`strata` is a sequence of factor names; got {shown(strata)}.")
    return tuple(strata)


def in_words(relation: str, strata: Sequence[str]) -> str:
    """A relation with the strata inside which it holds.

    Examples
    --------
    >>> in_words("replace-one", ["Sex"])
    'replace-one within each Sex'
    """
    return relation + (f" within each {', '.join(strata)}" if strata else "")
