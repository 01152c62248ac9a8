"""Quadratic forms of a released table near a distribution, and the noncentral chi-square.

Under cell means mu the released table has covariance Sigma, sampling plus noise (METHODS 2.3). A
shift delta of the means away from a null model is seen by a test with noncentrality
delta' Sigma^- delta, less what the free parameters of the null model take up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import brentq

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

RANK_TOLERANCE = 1e-9
ROUNDING = 1e-12
LARGE, HUGE = 1e4, 1e8  # statistics, where the series of the tails fail far out and nearby


@dataclass(frozen=True, eq=False)
class GaussianCells:
    """The Gaussian law of a released table around its means.

    Parameters
    ----------
    mean, variances : ndarray, shape (p,)
        Cell means mu, and the v of the noise law `GaussianNoise`.
    strata : ndarray of int, shape (p,), or None
        The stratum of each cell where totals are public, None where none is.

    Notes
    -----
    With a = mu + v, and in a stratum of total n with pi = mu / n,

        x' Sigma^- z = sum x z / a + n (sum pi x / a) (sum pi z / a) / sum (pi v / a)

    for x and z that sum to 0 in each stratum; the last term is absent where no total is public,
    and 0 without noise. Nothing p x p is formed.

    Examples
    --------
    The 2 x 2 table with uniform margins and a shift d of each cell: 16 n^2 d^2 / (n + 4 sigma^2).

    >>> law = GaussianCells(np.full(4, 250.0), np.full(4, 200.0), np.zeros(4, dtype=int))
    >>> shift = 1000 * 0.02 * np.array([1.0, -1.0, -1.0, 1.0])
    >>> round(float(law.form(shift, shift)), 4), round(16 * 1000**2 * 0.02**2 / 1800, 4)
    (3.5556, 3.5556)
    """

    mean: Array
    variances: Array
    strata: Labels | None

    @cached_property
    def alive(self) -> npt.NDArray[np.bool_]:
        """The cells that vary at all."""
        return np.asarray(self._total > 0)

    def form(self, x: Array, z: Array) -> Array:
        """The forms x' Sigma^- z of columns that sum to 0 in each stratum, shapes (p, ...)."""
        over = np.divide(1.0, self._total, out=np.zeros(self._total.size), where=self.alive)
        left = (x.T * over).T
        out = left.T @ z
        if self.strata is None:
            return np.asarray(out)
        shared = self._by_stratum(self.mean * self.variances * over)
        inverse = np.divide(1.0, shared, out=np.zeros(shared.size), where=shared > 0)
        one, other = (self._by_stratum((part.T * (self.mean * over)).T) for part in (x, z))
        return np.asarray(out + (one.T * inverse) @ other)

    def centred(self, x: Array) -> Array:
        """Columns made to sum to 0 in each stratum, by what each cell has of its variance."""
        if self.strata is None:
            return x
        share = np.divide(
            self._total,
            self._by_stratum(self._total)[self.strata],
            out=np.zeros(self._total.size),
            where=self.alive,
        )
        return np.asarray(x - (share * self._by_stratum(x)[self.strata].T).T)

    def sampling(self, x: Array) -> Array:
        """V x, V the covariance of the counts themselves, shape (p, q) to (p, q)."""
        if self.strata is None:
            return np.asarray((x.T * self.mean).T)
        total = self._by_stratum(self.mean)
        sums = self._by_stratum((x.T * self.mean).T)
        centre = np.divide(sums.T, total, out=np.zeros(sums.T.shape), where=total > 0).T
        out = ((x - centre[self.strata]).T * self.mean).T
        # A column that is constant in each stratum has no covariance, and must leave no rounding.
        whole = np.abs(x.T * self.mean).max(axis=-1)
        return np.asarray(np.where(np.abs(out).max(axis=0) > ROUNDING * whole, out, 0.0))

    def covariance(self) -> Array:
        """Sigma itself, dense: of small tables only."""
        out = np.diag(self._total)
        if self.strata is None:
            return out
        same = self.strata[:, None] == self.strata[None, :]
        for part in (self.mean, self.variances):
            total = self._by_stratum(part)[self.strata]
            share = np.divide(part, total, out=np.zeros(part.size), where=total > 0)
            out = out - np.where(same, np.outer(part, share), 0.0)
        return np.asarray(out)

    def noise(self) -> Array:
        """The noise's part of Sigma, dense: of small tables only."""
        return GaussianCells(np.zeros(self.mean.size), self.variances, self.strata).covariance()

    def free_cells(self) -> int:
        """The number of cells that vary, less the public totals of their strata."""
        fixed = 0 if self.strata is None else np.unique(self.strata[self.alive]).size
        return int(self.alive.sum()) - fixed

    def _by_stratum(self, values: Array) -> Array:
        """Sums over the cells of each stratum, along the first axis."""
        labels = np.zeros(self.mean.size, np.intp) if self.strata is None else self.strata
        out = np.zeros((int(labels.max()) + 1, *values.shape[1:]))
        np.add.at(out, labels, values)
        return out

    @property
    def _total(self) -> Array:
        return self.mean + self.variances


@dataclass(frozen=True, eq=False)
class CorrelatedCells(GaussianCells):
    """The same where the noise of different cells is correlated, of small tables.

    Parameters
    ----------
    mean, variances, strata
        As in `GaussianCells`; the variances are the diagonal of ``noise_covariance``.
    noise_covariance : ndarray, shape (p, p)
        Of the noise, whose rows sum to 0 in each stratum.
    """

    noise_covariance: Array

    def form(self, x: Array, z: Array) -> Array:
        """The forms x' Sigma^- z of columns that sum to 0 in each stratum, shapes (p, ...)."""
        return np.asarray((self._root.T @ x).T @ (self._root.T @ z))

    def covariance(self) -> Array:
        """Sigma itself."""
        counts = GaussianCells(self.mean, np.zeros(self.mean.size), self.strata)
        return counts.covariance() + self.noise_covariance

    def noise(self) -> Array:
        """The noise's part of Sigma."""
        return self.noise_covariance

    @cached_property
    def _root(self) -> Array:
        """R with R R' = Sigma^-."""
        values, vectors = np.linalg.eigh(self.covariance())
        kept = values > ROUNDING * max(float(values.max(initial=0.0)), 1e-300) * values.size
        return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def taken_up(law: GaussianCells, shift: Array, directions: Array) -> float:
    """How much of shift' Sigma^- shift the best combination of some directions explains.

    Parameters
    ----------
    law : GaussianCells
        Sigma.
    shift : ndarray, shape (p,)
        A change of the means.
    directions : ndarray, shape (p, q)
        Changes of the means, linearly dependent or not.
    """
    if not directions.shape[1]:
        return 0.0
    gram = law.form(directions, directions)
    scale = np.sqrt(np.maximum(np.diag(gram), 0.0))
    scale = np.divide(1.0, scale, out=np.zeros(scale.size), where=scale > 0)
    values, vectors = np.linalg.eigh(gram * np.outer(scale, scale))
    kept = values > RANK_TOLERANCE * max(float(values.max()), 1.0)
    along = vectors.T @ (scale * law.form(directions, shift))
    return float((along[kept] ** 2 / values[kept]).sum())


def rank_of(law: GaussianCells, columns: Array) -> int:
    """The rank of columns on the cells that vary, beside the constants of the strata."""
    if not columns.shape[1]:
        return 0
    flat = GaussianCells(law.alive.astype(np.float64), np.zeros(law.mean.size), law.strata)
    centred = flat.sampling(columns)
    size = np.linalg.norm(centred, axis=0)
    centred = centred[:, size > ROUNDING] / size[size > ROUNDING]
    return int(np.linalg.matrix_rank(centred, RANK_TOLERANCE)) if centred.size else 0


def chi_square_power(noncentrality: float, df: int, alpha: float) -> float:
    """The probability that a noncentral chi-square exceeds the 1 - alpha quantile of the central.

    Examples
    --------
    >>> round(chi_square_power(7.849, 1, 0.05), 4)
    0.8
    """
    if noncentrality <= 0:
        return alpha
    return float(stats.ncx2.sf(stats.chi2.isf(alpha, df), df, noncentrality))


def noncentrality_interval(statistic: float, df: int, alpha: float) -> tuple[float, float]:
    """The noncentralities at which a statistic is in neither tail of alpha / 2.

    Each end is 0 where even the central chi-square puts the statistic further down its tail.

    Examples
    --------
    >>> [round(end, 4) for end in noncentrality_interval(9.801302, 1, 0.05)]
    [1.3703, 25.9149]
    """
    ends = []
    for tail in (alpha / 2, 1 - alpha / 2):
        if stats.chi2.sf(statistic, df) >= tail:
            ends.append(0.0)
            continue

        def excess(root: float, tail: float = tail) -> float:
            return float(stats.ncx2.sf(statistic, df, root**2)) - tail

        low, high = _bracket(statistic, df, tail)
        root = low if low == high else float(brentq(excess, low, high, xtol=1e-13, rtol=1e-13))
        ends.append(root**2)
    return ends[0], ends[1]


def _bracket(statistic: float, df: int, tail: float) -> tuple[float, float]:
    """Roots of noncentralities around that whose upper tail at a statistic is given.

    The root of a noncentral chi-square is nearly normal around root + (df - 1) / (2 root), with
    variance 1. A large statistic needs the bracket narrow, because its tails far out are beyond
    the series that computes them; a huge one needs none, because normal is exact to six digits.
    """
    shifted = math.sqrt(statistic) - float(stats.norm.isf(tail))
    size = statistic / max(1, df / 100)
    if size <= LARGE:
        return 0.0, max(shifted, 0.0) + 3
    guess = (shifted + math.sqrt(max(shifted**2 - 2 * (df - 1), 0.0))) / 2
    return (guess, guess) if size > HUGE else (guess - 3, guess + 3)
