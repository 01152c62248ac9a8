"""Publication-ready tables: non-negative integers that add up, and that carry no noise law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpcontingency._arrays import read_only
from dpcontingency.domain import Domain
from dpcontingency.errors import ReleaseError
from dpcontingency.release import exports

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MAX_TOTAL = 2**53  # beyond, the cells of a float table are not known to a unit
METHOD = (
    "the estimate, projected on non-negative tables with the same totals (least squares), then "
    "rounded by largest remainders"
)

_NO_LAW = (
    "It carries no noise law, so nothing can be inferred from it: use the release that it was made "
    "from."
)


@dataclass(frozen=True, eq=False, repr=False)
class IntegerTable:
    """A release made presentable: whole numbers of at least 0 that add up to the total.

    Made by `Release.to_integer_table`. For printing and for maps, not for inference: projection
    and rounding have no noise law, so tests, models and `Release.from_noisy_table` refuse it.

    Attributes
    ----------
    domain : Domain
        Factors and levels.
    values : ndarray of int64, shape ``domain.shape``
        The numbers; 0 in structural zeros. Read-only.
    facts : dict of str to str
        What a reader must know: the release's statement, and how the integers were made.
    """

    domain: Domain
    values: Integers
    facts: dict[str, str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", read_only(self.values))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.domain, self.values, self.facts)

    def statement(self) -> dict[str, str]:
        """What a reader must know, as short labelled sentences."""
        return dict(self.facts)

    def to_frame(self) -> pd.DataFrame:
        """One row a cell: the factors, then ``integer``."""
        return exports.frame_of(self.domain, {"integer": self.values})

    def to_csv(self, path: str | Path, *, spreadsheet_safe: bool = True) -> None:
        """Write the columns of `to_frame` as CSV; the file appears whole or not at all.

        Where the release was not private, with the column of `Release.to_csv` that says so; and
        with ``spreadsheet_safe`` as there.
        """
        exports.write_csv(
            path,
            self.domain,
            {"integer": self.values},
            self.statement(),
            spreadsheet_safe=spreadsheet_safe,
        )

    def to_parquet(self, path: str | Path) -> None:
        """Write the columns of `to_frame` as Parquet, `statement` in its metadata."""
        exports.write_parquet(path, self.domain, {"integer": self.values}, self.statement())

    # Whatever takes a release or an array, and gets this, ends in one of these two sentences.

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"An integer table has no {name!r}. {_NO_LAW}")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise ReleaseError(f"An integer table is no array of counts; it has .values. {_NO_LAW}")

    def __repr__(self) -> str:
        factors = repr(self.domain).removeprefix("Domain(").removesuffix(")")
        return f"<IntegerTable {factors}; for printing, not for inference>"


def integer_cells(
    estimate: Array, possible: npt.NDArray[np.bool_], totals: Integers, strata: Sequence[int]
) -> Integers:
    """Return the integers of at least 0 nearest to an estimate that have given totals.

    Parameters
    ----------
    estimate : ndarray of float
        Cell values of any sign.
    possible : ndarray of bool
        Cells that may be positive.
    totals : ndarray of int
        What the cells of each stratum add up to, 0 or more; an axis a stratum factor.
    strata : sequence of int
        The axes of the strata, in the order of ``totals``.

    Notes
    -----
    In each stratum x is projected on {z >= 0, sum z = n} in the Euclidean norm: z = max(x - t, 0)
    with the t that gives the sum (Held, Wolfe and Crowder 1974; t is negative where x adds up to
    less than n). The projections are rounded down, and the units that are missing go to the cells
    with the largest remainders, of equal ones to that which comes first in C order. No cell is
    further than 1 from its projection.
    """
    inside = [i for i in range(estimate.ndim) if i not in strata]
    order = [*strata, *inside]
    moved = [estimate.shape[i] for i in order]
    n = totals.reshape(-1)
    cells = estimate.transpose(order).reshape(n.size, -1)
    open_cells = possible.transpose(order).reshape(n.size, -1)
    out = _largest_remainders(_projected(cells, open_cells, n), open_cells, n)
    return np.asarray(out.reshape(moved).transpose(np.argsort(order)))


def _projected(x: Array, possible: npt.NDArray[np.bool_], n: Integers) -> Array:
    """Project each row on the non-negative vectors with sum n that are 0 in impossible cells."""
    # Measured from the largest, which is positive in the projection if any is: no cancellation.
    top = np.where(possible, x, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    with np.errstate(over="ignore"):
        fall = np.where(possible, np.where(possible, top, 0) - x, np.inf)
    # A cell that is n below the top stays dry, however deep it is.
    fall = np.where(possible, np.minimum(fall, n[:, None] + 1.0), np.inf)
    ranked = np.sort(fall, axis=1)
    finite = np.isfinite(ranked)
    sums = np.cumsum(np.where(finite, ranked, 0), axis=1)
    k = np.arange(1, x.shape[1] + 1)
    # The level of the water over the first k cells, the largest being 0 deep at level 0.
    level = (n[:, None] + sums) / k
    wet = finite & ((ranked < level) | (k == 1))
    last = np.maximum(wet.sum(axis=1) - 1, 0)
    depth = np.take_along_axis(level, last[:, None], axis=1)
    return np.maximum(np.where(possible, depth - np.where(possible, fall, 0), 0), 0)


def _largest_remainders(x: Array, possible: npt.NDArray[np.bool_], n: Integers) -> Integers:
    """Round each row, non-negative with sum n up to rounding error, to integers with sum n."""
    whole = np.floor(x).astype(np.int64)
    remainder = np.where(possible, x - whole, -1.0)
    while (units := n - whole.sum(axis=1)).any():
        # One round, except where sums of large floats are off by more than all cells can take.
        short = units[:, None] > 0
        room = np.where(short, possible, whole > 0)
        key = np.where(room, np.where(short, -remainder, remainder), np.inf)
        rank = np.argsort(np.argsort(key, axis=1, kind="stable"), axis=1, kind="stable")
        chosen = room & (rank < np.abs(units)[:, None])
        whole += np.where(chosen, np.where(short, 1, -1), 0)
    return whole
