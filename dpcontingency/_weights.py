"""Whether weights are frequencies, and not how many people a person in a sample stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from dpcontingency._language import argument
from dpcontingency._lazy import later
from dpcontingency.errors import RecordsError, did_you_mean, shown

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = later("pyarrow.compute")

WeightsAre: TypeAlias = Literal["frequency", "survey"]

COUNT_NAMES = frozenset({"n", "count", "counts", "freq", "frequency", "weight", "weights"})

# PWGTP, WTINT2YR, perwt, hhwt, finalwt, fnlwgt, sampweight, pspwght, _LLCPWT2.
_SURVEY_NAME = re.compile(r"w(ei)?gh?t|(^|[^a-z])wt|wt($|[^a-z])", re.IGNORECASE)

# What persons in a sample look like. A table has one row a cell, and some rows a group where
# factors are left out; and its counts, if they are so many, are often 0 or 1.
MANY_ROWS = 100
ROWS_A_GROUP = 10
SHARE_UP_TO_ONE = 0.05


@dataclass(frozen=True)
class Weights:
    """The column that says how many records a row stands for.

    Attributes
    ----------
    column : str
        Its name.
    are : str, optional
        What the caller says that they are.
    """

    column: str
    are: WeightsAre | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise RecordsError(
                "`weights` is the name of a column of the records; got "
                f"{type(self.column).__name__}."
            )
        if self.are is None:
            if _SURVEY_NAME.search(self.column):
                self._refuse("it is named like one")
        elif self.are not in get_args(WeightsAre):
            raise RecordsError(
                f"There is no {argument('weights_are', self.are)}; "
                f"{did_you_mean(str(self.are), get_args(WeightsAre))}"
            )
        elif self.are == "survey":
            raise RecordsError(
                "Survey weights cannot be counted yet, because one row of weight 298, say, may "
                "move 298 records, while the loss is stated for one: count the rows without them, "
                "which makes a release about the sample."
            )

    def check_rows(self, groups: Sequence[dict[str, Any]]) -> None:
        """Refuse rows that look like persons in a sample, unless it is said what weights are."""
        if self.are is not None or not groups:
            return
        # Where several blocks of factors were counted, the one that tells most rows apart.
        finest = max(groups, key=lambda found: len(found["rows"]))
        rows = pc.sum(finest["rows"]).as_py() or 0
        small = pc.sum(finest["small"]).as_py() or 0
        many = rows >= max(MANY_ROWS, ROWS_A_GROUP * len(finest["rows"]))
        if many and small < SHARE_UP_TO_ONE * rows:
            self._refuse("rows that agree in all factors come many times over, as persons do")

    def _refuse(self, sign: str) -> None:
        raise RecordsError(
            f"The weights in {shown(self.column)} look like weights of a survey ({sign}): taken "
            "for frequencies, one row of weight 298, say, may move 298 records, while the loss is "
            f"stated for one. Pass {argument('weights_are', 'frequency')} if a row of weight w is "
            "w records of w people; if it is one person, count the rows without weights."
        )


def checked_weights(
    column: str | None, are: WeightsAre | None, columns: Sequence[str], factors: Sequence[str]
) -> Weights | None:
    """The weights of records with these columns; none are guessed, and none overlooked.

    Raises
    ------
    RecordsError
        If they are no weights, look like others than frequencies, or are not named while some
        column is named like one of counts.
    """
    if column is not None:
        weights = Weights(column, are)
        if column in factors:
            raise RecordsError(f"Column {shown(column)} cannot be both a factor and the weights.")
        return weights
    if are is not None:
        raise RecordsError(
            f"{argument('weights_are', are)} says what weights are: name their column by "
            f"{argument('weights', ...)}"
        )
    for place, name in enumerate(columns, start=1):
        if name.strip().casefold() in COUNT_NAMES and name not in factors:
            # Its name is not quoted: without a header it is a value, such as N for no.
            raise RecordsError(
                f"Column {place} of {len(columns)} is named as counts are, such as n, count, freq "
                "or weight: if it says how many records a row stands for, name it by "
                f"{argument('weights', ...)}; if it holds something else, drop the column.",
                labels=(name,),
            )
    return None
