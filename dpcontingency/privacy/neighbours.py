"""The names of the neighbour relations: what a privacy loss protects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpcontingency._language import argument
from dpcontingency.errors import PrivacyError, did_you_mean, shown

REPLACE_ONE = "replace-one"
ADD_REMOVE = "add-remove"
RELATIONS = (REPLACE_ONE, ADD_REMOVE)


def checked_relation(relation: str) -> str:
    """A known relation, or an error that names the nearest one."""
    if relation not in RELATIONS:
        raise PrivacyError(
            f"There is no neighbour relation {shown(relation)}; "
            f"{did_you_mean(str(relation), RELATIONS)}"
        )
    return relation


def checked_strata(strata: object, relation: str) -> tuple[str, ...]:
    """The names of strata under a relation, each once, or an error that shows how to write them."""
    if isinstance(strata, str):
        raise PrivacyError(f"`strata` is a sequence of factor names: write [{strata!r}].")
    if not isinstance(strata, Iterable):
        raise PrivacyError(f"`strata` is a sequence of factor names; got {shown(strata)}.")
    names = tuple(strata)
    for name in names:
        if not isinstance(name, str):
            raise PrivacyError(
                "Only one joint margin can be public, given by its factors such as "
                f"['Sex', 'Age']; got {shown(name)}. Two public margins that overlap leave no "
                "neighbouring pair to protect."
            )
    if names and relation == ADD_REMOVE:
        raise PrivacyError(
            "Under add-remove no total is public, so there are no strata: use "
            f"{argument('neighbours', REPLACE_ONE)} with strata, or drop the strata."
        )
    return tuple(dict.fromkeys(names))


def in_words(relation: str, strata: Sequence[str]) -> str:
    """A relation with the strata inside which it holds.

    Examples
    --------
    >>> in_words("replace-one", ["Sex"])
    'replace-one within each Sex'
    """
    return relation + (f" within each {', '.join(strata)}" if strata else "")
