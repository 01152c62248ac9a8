"""Minimum chi-square: the fit of the Gaussian approximation y ~ N(mu(b), Sigma(b)) (METHODS 2.3).

Minimise (y - mu(b))' W (y - mu(b)) with the weights W = Sigma^- held, put the weights at the
solution and repeat: the end of that, where the weights are those of the estimate itself, solves

    X' V Sigma^- (y - mu) = 0.

Without noise V Sigma^- leaves y - mu alone, and these are the equations of maximum likelihood. By
`gaussian_score` the cells enter as mu (y' - mu)/(mu + v), y' = y - k v. With k held this is the
derivative of sum (y' + v) log(mu + v) - mu, the log-likelihood of counts that are Poisson when v
is added to them: it tells which steps go uphill.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpcontingency._language import argument
from dpcontingency.inference.design import Design
from dpcontingency.inference.gaussian import (
    GaussianScore,
    gaussian_score,
    score_statistic,
)
from dpcontingency.inference.likelihood import NoisyTableLikelihood
from dpcontingency.inference.lowrank import DiagonalPlusLowRank, sum_by_stratum
from dpcontingency.inference.newton import (
    MAX_ITERATIONS,
    MAX_STEP,
    ROUNDING,
    SHORTEST,
    TOLERANCE,
    Maximum,
    is_definite,
    newton_step,
)
from dpcontingency.inference.quotient import over

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]


@dataclass(frozen=True)
class NormalPoint:
    """The Gaussian approximation at one value of the cell means.

    Attributes
    ----------
    design : Design
        The free columns, in treatment coding.
    noisy, variances, fitted : ndarray, shape (p,)
        y, v and mu; with strata y and mu have the same total in each.
    strata : ndarray of int, shape (p,), or None
        The stratum of each cell where totals are public.
    """

    design: Design
    noisy: Array
    variances: Array
    fitted: Array
    strata: Labels | None

    @property
    def value(self) -> float:
        """Minus half the criterion, at the weights of this point itself."""
        return -0.5 * score_statistic(
            self.noisy - self.fitted, self.fitted, self.variances, self.strata
        )

    @cached_property
    def score(self) -> GaussianScore:
        """V Sigma^- (y - mu) and its multipliers."""
        return gaussian_score(self.noisy - self.fitted, self.fitted, self.variances, self.strata)

    @cached_property
    def gradient(self) -> Array:
        """X' V Sigma^- (y - mu), shape (q,)."""
        return self.design.tdot(self.score.cells)

    @cached_property
    def slope(self) -> Array:
        """Minus the derivative of `gradient` in b, shape (q, q); not quite symmetric.

        Notes
        -----
        With f = y' - mu, a = mu + v, d = mu v f/a^2 - mu^2/a and h = mu v/a, and the multiplier
        moving so that the score keeps its sum 0:  -(I - h 1'/1'h) D (I - 1 pi').
        """
        mu, v = self.fitted, self.variances
        a = mu + v
        free = self._aim - mu
        bend = over(mu * v * free, a * a) - over(mu * mu, a)
        if self.strata is None:
            return self.design.compress(_diagonal(-bend))
        groups = self.score.tilt.size
        hidden = over(mu * v, a)
        total, sum_bend, sum_hidden = (
            sum_by_stratum(self.strata, part, groups) for part in (mu, bend, hidden)
        )
        shares = over(mu, total[self.strata])
        cores = np.zeros((groups, 3, 3))
        cores[:, 0, 1] = 1.0
        cores[:, 2, 0] = over(np.ones(groups), sum_hidden)
        cores[:, 2, 1] = -sum_bend * cores[:, 2, 0]
        vectors = np.stack([bend, shares, hidden])
        return self.design.compress(DiagonalPlusLowRank(-bend, vectors, cores, self.strata))

    def observed(self) -> Array:
        """The symmetric part of `slope`."""
        return np.asarray((self.slope + self.slope.T) / 2)

    def complete(self) -> Array:
        """X' V X: unlike X' V Sigma^- V X it fades no faster than `slope` where cells die out."""
        if self.strata is None:
            return self.design.compress(_diagonal(self.fitted))
        total = sum_by_stratum(self.strata, self.fitted, self.score.tilt.size)
        shares = over(self.fitted, total[self.strata])
        cores = -total[:, None, None]
        return self.design.compress(
            DiagonalPlusLowRank(self.fitted, shares[None, :], cores, self.strata)
        )

    def reach(self, step: Array) -> float:
        """How far a step moves the linear predictor at most."""
        return float(np.abs(self.design.dot(step)).max(initial=0.0))

    def step(self) -> Array:
        """Newton's step for the estimating equations where it leads uphill, else a safe one."""
        observed = self.observed()
        if self.strata is not None and is_definite(observed):
            try:
                step = np.linalg.solve(self.slope, self.gradient)
                if self.gradient @ step >= 0:  # not where rounding has made it up
                    return np.asarray(step)
            except np.linalg.LinAlgError:
                pass
        return newton_step(self)

    def rise(self, other: NormalPoint) -> float:
        """What the log-likelihood of the shifted Poisson counts gains on the way to another point.

        The multipliers are held. Written for small steps: a (log(1 + t) - t) + f log(1 + t).
        """
        a = self.fitted + self.variances
        alive = a > 0
        change = (other.fitted - self.fitted)[alive]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log1p(change / a[alive])
            free = (self._aim - self.fitted)[alive]
            gain = a[alive] * ratio - change + np.where(free == 0.0, 0.0, free * ratio)
        return float(gain.sum())

    @property
    def _aim(self) -> Array:
        """What the means are drawn to: y - k v."""
        if self.strata is None:
            return self.noisy
        return np.asarray(self.noisy - self.score.tilt[self.strata] * self.variances)


def minimum_chi_square(
    at: Callable[[Array], NormalPoint], start: Array, rounds: int = MAX_ITERATIONS
) -> Maximum[NormalPoint]:
    """Solve X' V Sigma^- (y - mu) = 0, the weights moving with every step.

    Parameters
    ----------
    at : callable
        The point at coefficients b, shape (q,).
    start : ndarray, shape (q,)
        The pilot.
    rounds : int
        Steps after which to give up.

    Returns
    -------
    Maximum
        Converged where the next step promises a rise of less than 1e-11; the full last step is
        about 1 in a direction along which the solution is at infinity.
    """
    beta, point = start, at(start)
    for iteration in range(rounds):
        step = point.step()
        length = min(1.0, MAX_STEP / max(point.reach(step), 1e-300))
        promise = float(point.gradient @ step) / 2 * length
        if promise <= TOLERANCE:
            last = at(beta + length * step)
            if point.rise(last) >= 0:
                beta, point = beta + length * step, last
            return Maximum(beta, point, iteration, True, "", step)
        shortest = SHORTEST * length
        while True:
            candidate = at(beta + length * step)
            if point.rise(candidate) > 0:
                break
            length /= 2
            if length < shortest:
                top = promise < ROUNDING + 1e-15 * float(point.fitted.sum())
                reason = "" if top else "no step along the ascent direction improved the fit"
                return Maximum(beta, point, iteration, top, reason, step)
        beta, point = beta + length * step, candidate
    reason = (
        f"the weights of the Gaussian approximation were still moving after {rounds} steps, on "
        f"which {argument('method', 'ml')} does not rest"
    )
    return Maximum(beta, point, rounds, False, reason, point.step())


def fit_by_chi_square(
    cells: NoisyTableLikelihood, design: Design, offset: Array, start: Array
) -> Maximum[NormalPoint]:
    """The minimum chi-square fit of a design to noisy cells.

    Parameters
    ----------
    cells : NoisyTableLikelihood
        Noisy counts, variances and public totals; its likelihood is not evaluated.
    design : Design
        The free columns, in treatment coding.
    offset : ndarray, shape (p,)
        Added to the log rates; -inf in a cell that is impossible.
    start : ndarray, shape (q,)
        The pilot.
    """

    def at(beta: Array) -> NormalPoint:
        fitted = cells.as_counts(design.dot(beta) + offset, cells.noisy).fitted
        return NormalPoint(design, cells.noisy, cells.variances, fitted, cells.strata)

    return minimum_chi_square(at, start)


def _diagonal(entries: Array) -> DiagonalPlusLowRank:
    p = entries.size
    return DiagonalPlusLowRank(
        entries, np.empty((0, p)), np.empty((1, 0, 0)), np.zeros(p, dtype=np.intp)
    )
