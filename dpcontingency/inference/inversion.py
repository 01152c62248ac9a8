"""Intervals of measures that are 0 at independence, by inverting a test of each value.

The statistic is the root of the noise-aware score statistic of independence. Its law at a value of
the measure is simulated at the table nearest to the release among those with that value, so that a
rare level, whose part of an association noise hides, is no better seen there than in the release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.noncentral import GaussianCells
from dpcontingency.inference.surface import Nearest, Square, Surface, non_negative, product

Array = npt.NDArray[np.float64]

DRAWS = 800
SEED = 20_240_229  # of the draws, the same for all tables: the same release, the same interval
MIDDLE = 0.16  # quantile at independence below which a statistic bounds no measure further
SEARCHED = 100  # cells, beyond which the nearest table is sought along one line, and not projected
ROOM = 1e-9  # of the mean cell, added to each
CLOSE = 1e-3  # relative precision of the ends
LEVEL = 2e-3  # precision of the statistic there
STEPS = 9
GROWTH = 1.5  # of the search for a value that is too large
NEARLY = 0.98  # of the largest value, which no table near the release has


class Ends(NamedTuple):
    """Roots of the square: the ends of an interval, and the estimate."""

    lower: float
    estimate: float
    upper: float


@dataclass(frozen=True, eq=False)
class Law:
    """Simulated statistics at one value of the measure, and those that noise alone makes."""

    statistics: Array
    by_noise: Array

    def quantile(self, level: float) -> float:
        """Of the statistic of a release."""
        return float(np.quantile(self.statistics, level))


@dataclass(frozen=True, eq=False)
class Inversion:
    """Tests of all values of a measure.

    Parameters
    ----------
    noisy : ndarray, shape (p,)
        The released two-way table, in groups.
    noise : ndarray, shape (p, p)
        The covariance of its noise.
    strata : ndarray of int, shape (p,), or None
        The stratum of each cell where totals are public.
    shape : tuple of int
        Groups K, rows r and columns c.
    square : callable
        The square of the measure: 0 at independence, of degree 0.
    largest : float
        The largest root of it.

    Notes
    -----
    With m the released table without negative cells, e(m) the product of its margins and Q the
    form of the score test at e(m), the statistic is T with T^2 = (m - e(m))' Q (m - e(m)), without
    noise Pearson's X2. A value is tested at the constrained fit: the table nearest to the release,
    by its covariance at (m + e(m)) / 2, among those with that value. T's law there is that of
    `DRAWS` tables, that fit plus N(0, sampling + noise), made non-negative.
    """

    noisy: Array
    noise: Array
    strata: npt.NDArray[np.intp] | None
    shape: tuple[int, int, int]
    square: Square
    largest: float

    def ends(self, alpha: float) -> Ends:
        """The values that are not rejected.

        Notes
        -----
        A statistic below its `MIDDLE` quantile at independence is taken for that quantile where the
        upper end is sought, so that a fit too good does not exclude what no test could see. Values
        that are below every upper end are tested on one side, at alpha; all others on both, at
        alpha / 2 each. So each value is rejected with probability alpha. The estimate is the value
        at which noise alone puts the statistic above and below with even odds, which without noise
        is the measure of the table; where sampling makes that too large it is the upper end.
        """
        t = self.statistic
        least = self._law(0.0).quantile(MIDDLE)
        upper = self._crossing(lambda law: law.quantile(alpha / 2), max(t, least))
        estimate = self._crossing(lambda law: float(np.median(law.by_noise)), t)
        lower = self._crossing(lambda law: law.quantile(1 - alpha / 2), t)
        if self._law(lower).quantile(alpha / 2) < least:
            alone = self._crossing(lambda law: law.quantile(1 - alpha), t)
            if alone > lower:
                bound = self._crossing(lambda law: law.quantile(alpha / 2), least)
                lower = min(alone, max(lower, bound))
        return Ends(lower, min(max(estimate, lower), upper), upper)

    @cached_property
    def statistic(self) -> float:
        """T of the release."""
        return float(self._statistics(self._inside[None])[0])

    # -- parts ---------------------------------------------------------------------------------

    @cached_property
    def _inside(self) -> Array:
        """The released table without negative cells."""
        pilot = np.maximum(self.noisy, 0.0) + ROOM * self._total / self.noisy.size
        pilot *= self._total / pilot.sum()
        room = ROOM * self._total / self.noisy.size
        return np.asarray(self._cleaned(self.noisy[None], self._covariance(pilot), 60)[0] + room)

    @cached_property
    def _total(self) -> float:
        return max(float(self.noisy.sum()), 1.0)

    @cached_property
    def _even(self) -> Array:
        """The table of independence with its margins."""
        return product(self._inside.reshape(self.shape)).ravel()

    @cached_property
    def _root(self) -> Array:
        """L with L L' = Q: Sigma^- less what the margins' own directions take up of it."""
        inverse = np.linalg.pinv(self._covariance(self._even), rcond=1e-10, hermitian=True)
        tangent = self._sampling(self._even) @ _margin_columns(self.shape)
        scale = np.sqrt(np.einsum("pq,pr,rq->q", tangent, inverse, tangent))
        tangent *= np.divide(1.0, scale, out=np.zeros(scale.size), where=scale > 1e-12)
        inner = np.linalg.pinv(tangent.T @ inverse @ tangent, rcond=1e-9, hermitian=True)
        form = inverse - inverse @ tangent @ inner @ tangent.T @ inverse
        values, vectors = np.linalg.eigh((form + form.T) / 2)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    @cached_property
    def _draws(self) -> tuple[Array, Array]:
        """Standard normal draws for noise and for sampling, each with its opposite."""
        half = np.random.default_rng(SEED).standard_normal((2, DRAWS // 2, self.noisy.size))
        noise, sampling = np.concatenate([half, -half], axis=1)
        return noise @ _factor(self.noise).T, sampling

    @cached_property
    def _known(self) -> dict[float, Law]:
        return {}

    def _law(self, root: float) -> Law:
        if root not in self._known:
            theta = self._nearest(root)
            noise, sampling = self._draws
            covariance = self._sampling(theta)
            moved = theta + noise
            whole = moved + sampling @ _factor(covariance).T
            covariance = covariance + self.noise
            self._known[root] = Law(
                self._statistics(self._cleaned(whole, covariance)),
                self._statistics(self._cleaned(moved, covariance)),
            )
        return self._known[root]

    def _nearest(self, root: float) -> Array:
        """The constrained fit."""
        if root == 0:
            return self._even
        surface, middle = Surface(self.square, self.shape, root), (self._inside + self._even) / 2
        if self.noisy.size > SEARCHED:
            return np.asarray(surface.stretched(middle[None])[0])
        starts = [surface.stretched(self._inside[None]), surface.stretched(middle[None])]
        known = float(surface.slope(self._inside[None])[0][0])
        if root > known:
            starts.append(surface.corners(self._inside))
        return Nearest(self.noisy, self._covariance(middle)).on(surface, np.vstack(starts), known)

    def _crossing(self, of: Callable[[Law], float], level: float) -> float:
        """The root at which a number of its law, which grows with it, reaches a level."""

        def gap(root: float) -> float:
            return of(self._law(root)) - level

        low, below = 0.0, gap(0.0)
        if below >= 0:
            return 0.0
        known = Surface(self.square, self.shape, 1.0).slope(self._inside[None])[0][0]
        high = min(max(float(known), 1e-3), NEARLY * self.largest)
        while (above := gap(high)) < 0:
            if high >= NEARLY * self.largest:
                return self.largest
            low, below, high = high, above, min(GROWTH * high, NEARLY * self.largest)
        middle = high
        for _ in range(STEPS):
            middle = low + (high - low) * float(np.clip(-below / (above - below), 0.1, 0.9))
            found = gap(middle)
            if abs(found) < LEVEL:
                break
            if found < 0:
                low, below = middle, found
            else:
                high, above = middle, found
            if high - low < CLOSE * high:
                break
        return middle

    def _statistics(self, tables: Array) -> Array:
        inside = tables.reshape(-1, *self.shape)
        away = (inside - product(inside)).reshape(tables.shape)
        return np.asarray(np.sqrt(((away @ self._root) ** 2).sum(axis=1)))

    def _cleaned(self, tables: Array, covariance: Array, rounds: int = 15) -> Array:
        """Tables without negative cells."""
        if self.noisy.size <= SEARCHED:
            return non_negative(tables, covariance, rounds)
        clipped = np.maximum(tables, 0.0)
        totals = np.maximum(tables.sum(axis=1, keepdims=True), 0.0)
        return np.asarray(clipped * totals / np.maximum(clipped.sum(axis=1, keepdims=True), 1e-300))

    def _sampling(self, means: Array) -> Array:
        """The covariance of the counts themselves."""
        return GaussianCells(means, np.zeros(means.size), self.strata).covariance()

    def _covariance(self, means: Array) -> Array:
        return self._sampling(means) + self.noise


def _factor(covariance: Array) -> Array:
    """The symmetric root of a covariance, which moves little when that does."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)


def _margin_columns(shape: tuple[int, int, int]) -> Array:
    """Indicators of the rows and of the columns of each group, shape (p, K (r + c))."""
    groups, rows, columns = shape
    k, i, j = (axis.ravel() for axis in np.indices(shape))
    of_rows = (k * rows + i)[:, None] == np.arange(groups * rows)
    of_columns = (k * columns + j)[:, None] == np.arange(groups * columns)
    return np.hstack([of_rows, of_columns]).astype(np.float64)


def canonical(table: Array, *, symmetric: bool) -> npt.NDArray[np.intp]:
    """The cells of a table, shape (K, r, c), in an order that does not depend on labels.

    Levels are ordered by their noisy margins and, where rows and columns mean the same, the side
    with fewer levels or smaller margins makes the rows. Draws belong to cells by their place, so
    that relabelling would else change an interval by chance.
    """
    places = np.arange(table.size).reshape(table.shape)
    for axis in range(3):
        others = tuple({0, 1, 2} - {axis})
        places = places.take(np.argsort(table.sum(axis=others), kind="stable"), axis=axis)
    sides = [(table.shape[axis], *np.sort(table.sum(axis=(0, 3 - axis)))) for axis in (1, 2)]
    return np.asarray(places.swapaxes(1, 2) if symmetric and sides[0] > sides[1] else places)
