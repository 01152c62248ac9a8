"""Fits of one model to many draws of the same released margins.

On small joint tables all replicates are fitted together: dense arrays with a row a replicate, and
Newton's steps solved for all at once, as `replicates` does it for tables. Larger ones, and those on
a junction tree, are fitted one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.curvature import MeasuredCurvature
from dpcontingency.inference.design import Design
from dpcontingency.inference.interactions import LARGEST_RATE, MAX_STEPS, InteractionLikelihood
from dpcontingency.inference.likelihood import NoisyTableLikelihood
from dpcontingency.inference.newton import DesignPoint, maximise
from dpcontingency.inference.replicates import (
    MAX_ROUNDS,
    ReplicateFits,
    Replicates,
    Search,
    ends_of,
)

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


class InteractionReplicates:
    """Measured numbers of margins, one replicate a row, that share a law.

    Parameters
    ----------
    cells : InteractionLikelihood
        The law.
    noisy : ndarray, shape (B, m)
        The measured numbers.
    """

    def __init__(self, cells: InteractionLikelihood, noisy: Array) -> None:
        self.cells, self.noisy = cells, noisy
        self.together = cells.fits_together

    @cached_property
    def columns(self) -> Array:
        """B' written out, shape (p, m)."""
        return self.cells.columns

    @cached_property
    def pairs(self) -> Array:
        """The products of each two columns, shape (p, m m)."""
        p, m = self.columns.shape
        return (self.columns[:, :, None] * self.columns[:, None, :]).reshape(p, m * m)

    def likelihood(self, rows: Rows) -> _Together:
        """The likelihood of some replicates."""
        return _Together(self, self.noisy[rows])

    def saturated(self) -> ReplicateFits:
        """The largest log-likelihood that any cell probabilities give to each."""
        cells = self.cells
        if cells.can_look_for_tables:
            tables = cells.nearest_tables(self.noisy)
            heights = -cells.forms(self.noisy - tables @ self.columns) / 2
            return ReplicateFits(heights, tables, np.ones(len(tables), dtype=np.bool_))
        start = cells.saturated_from(cells.equal()).beta
        return self.fit(cells.design, np.zeros(cells.space.size), start)

    def fit(self, design: Design, offset: Array, start: Array) -> ReplicateFits:
        """Maximise the likelihood of each over a model; see `Replicates.fit`."""
        if self.together:
            return ends_of(self, design, offset, start)

        def of(one: InteractionLikelihood, begin: Array) -> Any:
            return maximise(
                lambda b: DesignPoint(design, one.at(design.dot(b) + offset)), begin, MAX_ROUNDS
            )

        starts = np.broadcast_to(start, (len(self.noisy), design.n_columns))
        ends = [of(one, begin) for one, begin in zip(self._each(), starts, strict=True)]
        return ReplicateFits(
            np.array([end.point.value for end in ends]),
            np.array([end.point.cells.fitted for end in ends]),
            np.array([end.converged for end in ends], dtype=np.bool_),
        )

    def of(self, rows: Rows) -> InteractionReplicates:
        """Some of the replicates."""
        return InteractionReplicates(self.cells, self.noisy[rows])

    def search(self, design: Design, offset: Array, start: Array) -> Search:
        """The searches of `fit` on small tables, before they are made."""
        dense = np.asarray(design.matrix().toarray())
        unit = MeasuredCurvature(self.cells.design, np.eye(self.noisy.shape[1]))
        return Search(self, dense, offset, start, _Blocks(unit, design))

    def score_statistics(self, fitted: Array, larger: Design | None) -> Array:
        """The score statistic of each at its fit against a larger model; see `Replicates`."""
        pairs = zip(self._each(), fitted, strict=True)
        if larger is None:
            return np.array([one.score_statistic(means) for one, means in pairs])
        return np.array([one.nested_score_statistic(means, larger) for one, means in pairs])

    def _each(self) -> Iterator[InteractionLikelihood]:
        return (self.cells.with_measured(row) for row in self.noisy)


class _Blocks:
    """Forms in the measured columns as forms in those of a design."""

    def __init__(self, unit: MeasuredCurvature, design: Design) -> None:
        places = unit.columns(design)
        self.coordinates = np.hstack(
            [np.eye(len(unit.matrix))[:, places], unit.combinations(design)]
        )

    def compress(self, curvature: Array, n: int) -> Array:
        """One q x q matrix a replicate, shape (n, q, q)."""
        return np.asarray(self.coordinates.T @ curvature @ self.coordinates)


@dataclass(frozen=True)
class _Together:
    """`InteractionLikelihood` for many replicates at once; a row each, shape (n, m)."""

    tables: InteractionReplicates
    measured: Array

    def at(self, eta: Array, tilt: Array | None) -> _Points:
        """Evaluate at log rates, flat (n p,); `tilt` is a guess of the multipliers, flat (n m,)."""
        n, m = self.measured.shape
        eta = eta.reshape(n, -1)
        base, fitted = self._cumulants(eta)
        multipliers = np.zeros((n, m)) if tilt is None else tilt.reshape(n, m).copy()
        height, table = self._values(eta, base, multipliers, self.measured)
        lost = ~(height < 0)  # which it is at 0
        multipliers[lost] = 0.0
        height, table = self._values(eta, base, multipliers, self.measured)
        noise, columns = self.tables.cells.covariance, self.tables.columns
        rows = np.arange(n)
        for _ in range(MAX_STEPS):
            gradient = table[rows] @ columns - self.measured[rows] + multipliers[rows] @ noise
            step = -np.linalg.solve(self.spread(table[rows]) + noise, gradient[:, :, None])[:, :, 0]
            promise = -(gradient * step).sum(axis=1)
            open_ = promise > 1e-13 * (1 + np.abs(height[rows]))
            rows, step = rows[open_], step[open_]
            rows = self._climb(eta, base, rows, step, multipliers, height, table)
            if not rows.size:
                break
        return _Points(self, height, fitted, table, multipliers)

    def spread(self, means: Array) -> Array:
        """B V B' of each row of means, shape (n, m, m)."""
        n, m = len(means), self.measured.shape[1]
        out = (means @ self.tables.pairs).reshape(n, m, m)
        totals = self.tables.cells.totals
        if totals is None or totals[0] == 0:
            return np.asarray(out)
        first = means @ self.tables.columns
        return np.asarray(out - first[:, :, None] * first[:, None, :] / totals[0])

    def _climb(
        self,
        eta: Array,
        base: Array,
        rows: Rows,
        step: Array,
        multipliers: Array,
        height: Array,
        table: Array,
    ) -> Rows:
        """Halve each step until the value falls, in place; the rows that moved."""
        length = np.ones(rows.size)
        moved, pending = [], np.arange(rows.size)
        while pending.size:
            at = rows[pending]
            trial = multipliers[at] + length[pending, None] * step[pending]
            value, means = self._values(eta[at], base[at], trial, self.measured[at])
            lower = value < height[at]
            done = at[lower]
            multipliers[done], height[done], table[done] = trial[lower], value[lower], means[lower]
            moved.append(done)
            pending = pending[~lower]
            length[pending] /= 2
            pending = pending[length[pending] >= 1e-9]
        return np.sort(np.concatenate([rows[:0], *moved]))

    def _values(
        self, eta: Array, base: Array, multipliers: Array, measured: Array
    ) -> tuple[Array, Array]:
        total, table = self._cumulants(eta + multipliers @ self.tables.columns.T)
        pull = (multipliers @ self.tables.cells.covariance * multipliers).sum(axis=1) / 2
        return total - base + pull - (multipliers * measured).sum(axis=1), table

    def _cumulants(self, eta: Array) -> tuple[Array, Array]:
        totals = self.tables.cells.totals
        if totals is None:
            means = np.exp(np.minimum(eta, LARGEST_RATE))
            return means.sum(axis=1), means
        top = eta.max(axis=1, keepdims=True)
        weights = np.exp(eta - top)
        sums = weights.sum(axis=1, keepdims=True)
        return totals[0] * (top + np.log(sums))[:, 0], weights * (totals[0] / sums)


@dataclass(frozen=True)
class _Points:
    """`InteractionPoint` for many replicates at once, as a search reads it."""

    cells: _Together
    parts: Array
    means: Array
    table: Array
    multipliers: Array

    @property
    def fitted(self) -> Array:
        return self.means.ravel()

    @property
    def score(self) -> Array:
        return (self.table - self.means).ravel()

    @property
    def tilt(self) -> Array:
        return self.multipliers.ravel()

    def hessian(self) -> Array:
        """-V(mu) + V(m) - V(m) B' (S + B V(m) B')^-1 B V(m), in the measured columns."""
        inside = self.cells.spread(self.table)
        noise = self.cells.tables.cells.covariance
        known = inside @ np.linalg.solve(inside + noise, inside)
        return np.asarray(inside - known - self.complete_information())

    def complete_information(self) -> Array:
        return self.cells.spread(self.means)


@singledispatch
def replicates_of(cells: Any, noisy: Array) -> Replicates | InteractionReplicates:
    """What `bootstrap.draw_tables` drew, with the law that it was drawn from."""
    raise TypeError(type(cells).__name__)


@replicates_of.register
def _of_table(cells: NoisyTableLikelihood, noisy: Array) -> Replicates:
    return Replicates(noisy, cells.variances, cells.strata, cells.totals)


@replicates_of.register
def _of_interactions(cells: InteractionLikelihood, noisy: Array) -> InteractionReplicates:
    return InteractionReplicates(cells, noisy)
