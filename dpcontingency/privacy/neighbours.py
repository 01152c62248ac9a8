"""The names of the neighbour relations: what a privacy loss protects."""

from __future__ import annotations

from collections.abc import Sequence

from dpcontingency.errors import PrivacyError, did_you_mean

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


def in_words(relation: str, strata: Sequence[str]) -> str:
    """A relation with the strata inside which it holds.

    Examples
    --------
    >>> in_words("replace-one", ["Sex"])
    'replace-one within each Sex'
    """
    return relation + (f" within each {', '.join(strata)}" if strata else "")
