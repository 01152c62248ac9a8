"""Maximisation of a log-likelihood by Newton steps that cannot be misled by luck.

The observed information gives the step; where it is not positive definite the complete information
does while that pays, and then the absolute value of the observed one in the metric of the complete.
Either way the step is halved until the log-likelihood rises, or doubled where it was cut short and
goes on rising.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from dpcontingency.inference.lowrank import sum_by_stratum

Array = npt.NDArray[np.float64]

MAX_ITERATIONS = 400  # only tables of mostly empty cells, where noise is wide, take above 100
MAX_STEP = 5.0  # in eta: a cell's rate never changes by more than a factor e^5 in one step
RIDGE = 1e-10  # of the largest diagonal entry, where the information is singular
FLOOR = 1e-6  # of the observed relative to the complete information
DEAD = 1e-30  # of the largest diagonal entry: a direction whose cells have died out
NOTHING = 1e-150  # of information, whose quotients would overflow
WORTH = 1e-2  # of log-likelihood, that a step by the complete information is taken for
NO_SLOPE = 1e-9  # relative to 1 + |value|: rounding, of posterior means that add up to totals
TOLERANCE = 1e-11  # the rise in log-likelihood that the next step would still promise
# Of the information in the counts, below which a likelihood may have several maxima: see `maxima`.
LEFT = 0.25
SHORTEST = 1e-9  # of a step, before it is given up
# Where some cells have died out, rounding in what they promise can make steps short for the others.
PATIENCE, STANDSTILL = 20, 1e-9  # steps, and a rise in all of them, relative, that ends the search
ROUNDING = 1e-7  # a promised rise, relative to 1 + |value|, that rounding can hide


class Point(Protocol):
    """The log-likelihood and its derivatives at one parameter value."""

    @property
    def value(self) -> float:
        """The log-likelihood."""

    @property
    def gradient(self) -> Array:
        """Its gradient, shape (q,)."""

    def observed(self) -> Array:
        """Minus its Hessian, shape (q, q)."""

    def complete(self) -> Array:
        """A positive semi-definite information matrix to fall back on, shape (q, q)."""

    def reach(self, step: Array) -> float:
        """How far a step moves the linear predictor at most."""


P = TypeVar("P", bound=Point)
Q = TypeVar("Q", bound=Point)


@dataclass(frozen=True)
class Maximum(Generic[P]):
    """Where the search ended.

    Attributes
    ----------
    beta : ndarray
        The parameter value.
    point : Point
        The log-likelihood there.
    iterations : int
        Steps taken.
    converged : bool
        Whether a further step, of at most 5 in the linear predictor, promises a rise of less
        than 1e-11 relative to 1 + |value| 1e-3, or twenty steps rose no more than 1e-9.
    reason : str
        Why not, if not.
    last_step : ndarray
        The full step that was still open: near 0 at an interior maximum, about 1 in the
        direction of parameters whose maximum is at infinity.
    """

    beta: Array
    point: P
    iterations: int
    converged: bool
    reason: str
    last_step: Array

    def seen_as(self, beta: Array, last_step: Array, point: Q) -> Maximum[Q]:
        """The same end of a search, in other coordinates and as a point of another function."""
        return Maximum(beta, point, self.iterations, self.converged, self.reason, last_step)


@dataclass(frozen=True)
class DesignPoint:
    """A point of the likelihood of log rates seen through a design, in treatment coding.

    Attributes
    ----------
    design : Design
        The columns.
    cells : LikelihoodPoint, InteractionPoint or CountsPoint
        The log-likelihood and its derivatives in the log rates.
    strata : ndarray of int, shape (p,), or None
        Of the cells where totals are public.
    """

    design: Any
    cells: Any
    strata: npt.NDArray[np.intp] | None = None

    @property
    def value(self) -> float:
        """The log-likelihood."""
        return float(self.cells.loglik)

    @cached_property
    def gradient(self) -> Array:
        """Its gradient in the coefficients."""
        return np.asarray(self.design.tdot(self.cells.score))

    def observed(self) -> Array:
        """Minus its Hessian."""
        return np.asarray(-self.design.compress(self.cells.hessian()))

    def complete(self) -> Array:
        """The information that the counts themselves would carry."""
        return np.asarray(self.design.compress(self.cells.complete_information()))

    def reach(self, step: Array) -> float:
        """How far a step moves the linear predictor at most."""
        change, fitted = self.design.dot(step), self.cells.fitted
        if self.strata is not None:  # a constant of a stratum changes nothing
            groups = int(self.strata.max(initial=0)) + 1
            sums = sum_by_stratum(self.strata, np.stack([fitted, fitted * change]), groups)
            change = change - (sums[1] / np.maximum(sums[0], 1e-300))[self.strata]
        return float(np.abs(change).max(initial=0.0))


def maximise(at: Callable[[Array], P], start: Array, rounds: int = MAX_ITERATIONS) -> Maximum[P]:
    """Climb from ``start`` to a maximum of the log-likelihood that ``at`` evaluates."""
    beta, point = start, at(start)
    before = point.value
    for iteration in range(rounds):
        step = newton_step(point)
        if iteration % PATIENCE == PATIENCE - 1:
            if point.value - before <= STANDSTILL * (1 + abs(point.value)):
                return Maximum(beta, point, iteration, True, "", step)
            before = point.value
        length = min(1.0, MAX_STEP / max(point.reach(step), 1e-300))
        # Where information is nil a floor stands for it, and the full step promises anything.
        rise = float(point.gradient @ step) / 2 * length
        if rise <= TOLERANCE * (1 + 1e-3 * abs(point.value)):
            # The step in hand is free, and doubles the digits of an interior maximum.
            last = at(beta + length * step)
            if last.value >= point.value:
                beta, point = beta + length * step, last
            return Maximum(beta, point, iteration, True, "", step)
        first, shortest = length, SHORTEST * length
        while True:
            candidate = at(beta + length * step)
            if candidate.value > point.value:
                break
            length /= 2
            if length < shortest:
                # No float further along is higher: either the top, to rounding, or a fault.
                top = rise < ROUNDING * (1 + abs(point.value))
                reason = "" if top else "no step along the ascent direction raised the likelihood"
                return Maximum(beta, point, iteration, top, reason, step)
        # A step that was cut goes on while that pays: toward infinity only the cut is in its way.
        while first <= length <= 0.5:
            further = at(beta + 2 * length * step)
            if further.value <= candidate.value:
                break
            length, candidate = 2 * length, further
        beta, point = beta + length * step, candidate
    reason = f"the likelihood was still rising after {rounds} steps"
    return Maximum(beta, point, rounds, False, reason, newton_step(point))


def newton_step(point: Point) -> Array:
    """The Newton step; where the observed information is not definite, a step that is safe.

    First with the complete information in its place, which is a step of gradient EM (METHODS 2.2),
    as long as the largest curvature allows: smooth, so that rounding does not grow along the way.
    Steps by the absolute value are far longer where curvature changes its sign, and of two orders
    of the same factors each would then reach a maximum of its own. They end the search, where EM
    has little more to win.

    In the metric of the complete information the observed one has eigenvalues at most 1. Taking
    each by its absolute value (and not below 1e-6) keeps every step uphill, and as long where
    noise leaves little information as where it leaves much. A direction without information stays
    as it is unless its slope is more than rounding.
    """
    observed = point.observed()
    step = _solve(observed, point.gradient)
    if step is not None:
        return step
    complete = point.complete()
    largest = float(np.max(np.diag(complete), initial=0.0))
    if largest < NOTHING:
        return point.gradient
    ridge = RIDGE * largest * np.eye(len(complete))
    try:
        # What is added depends on the coding, and so would the way from there.
        bare = is_definite(complete - ridge)
        values, vectors = eigh(observed, complete if bare else complete + ridge)
    except LinAlgError:  # not finite
        return point.gradient
    slopes, sizes = vectors.T @ point.gradient, np.abs(values)
    sharpest = max(float(sizes.max()), FLOOR)
    if slopes @ slopes > WORTH * sharpest:
        return np.asarray(vectors @ (slopes / sharpest))
    lengths = np.sqrt((vectors**2).sum(axis=0))
    dead = (sizes < FLOOR) & (np.abs(slopes) <= NO_SLOPE * (1 + abs(point.value)) * lengths)
    return np.asarray(vectors @ np.where(dead, 0.0, slopes / np.maximum(sizes, FLOOR)))


def is_definite(matrix: Array) -> bool:
    """Whether a symmetric matrix is positive definite, to working precision."""
    return _solve(matrix, np.zeros(len(matrix))) is not None


def _solve(matrix: Array, rhs: Array) -> Array | None:
    """The solution for a positive definite matrix, scaled to unit diagonal; else None."""
    diagonal = np.diag(matrix)
    if not (diagonal > DEAD * np.max(diagonal, initial=0.0)).all():
        return None
    scale = 1 / np.sqrt(diagonal)
    try:
        factor = cho_factor(matrix * scale[:, None] * scale[None, :])
    except LinAlgError:
        return None
    with np.errstate(over="ignore"):  # where information is all but gone, there is no step
        solution = np.asarray(scale * cho_solve(factor, scale * rhs))
    return solution if np.isfinite(solution).all() else None
