"""Jeffreys' penalty: log-likelihood + 1/2 log det I, whose maximum is finite (Firth 1993).

I = X'(D_mu - mu mu'/n)X is the information that the counts themselves would carry (X' D_mu X where
no total is public). Where noise or an empty margin lets the likelihood rise toward infinity, the
determinant falls to 0 and holds the estimate back. Without noise this is Firth's estimate of a
Poisson or multinomial model: one half more in each cell of a saturated table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dpcontingency.inference.design import Design
from dpcontingency.inference.lowrank import DiagonalPlusLowRank, sum_by_stratum
from dpcontingency.inference.newton import Maximum, maximise
from dpcontingency.inference.points import LikelihoodPoint
from dpcontingency.inference.rows import CellRows

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PenalisedLikelihood:
    """The likelihood of a model with the penalty, as a function to climb.

    Attributes
    ----------
    likelihood : callable
        The likelihood at coefficients b, shape (q,).
    design : Design
        The free columns, in treatment coding.
    axes : tuple of int or None
        The axes inside whose cells totals are public; None where none is.
    strata : ndarray of int, shape (p,), or None
        The stratum of each cell where totals are public.
    basis : ndarray, shape (q, r)
        The directions that records could say something of, orthonormal; the identity for all.
    """

    likelihood: Callable[[Array], LikelihoodPoint]
    design: Design
    axes: tuple[int, ...] | None
    strata: npt.NDArray[np.intp] | None
    basis: Array

    @cached_property
    def rows(self) -> CellRows:
        """The rows of the design."""
        return CellRows(self.design.shape, self.design.codes, self.design.extra)

    def at(self, inside: Array) -> PenalisedPoint:
        """The penalised log-likelihood at coordinates, shape (r,)."""
        return PenalisedPoint(self, self.likelihood(self.basis @ inside))

    def maximum(self, starts: Sequence[Array]) -> Maximum[PenalisedPoint]:
        """Climb from the best of some coefficients, shape (q,); it has to be finite at one."""
        inside = [self.basis.T @ start for start in starts]
        return maximise(self.at, max(inside, key=lambda start: self.at(start).value))


@dataclass(frozen=True)
class PenalisedPoint:
    """The penalised log-likelihood at one point, in the coordinates of the basis.

    Notes
    -----
    The derivative of 1/2 log det I in the log rates is t/2 less, where totals are public, the
    shares of their stratum in its sum T: t_c = mu_c x_c' I^-1 x_c is the leverage of a cell, x_c
    its row less the mean row of its stratum. So cells act as if t/2 records were added to them.

    Up to constants of the strata log det I is the logarithm of a sum of exponentials of sums of
    log rates (Cauchy and Binet), which is convex, so minus its second derivative is at most that
    of (T + 1) records a stratum. Steps take T + min(T, 1): all of it in a saturated table, and
    not too much where many strata share few parameters.
    """

    model: PenalisedLikelihood
    cells: LikelihoodPoint

    @property
    def value(self) -> float:
        """Log-likelihood + 1/2 log det I, -inf where I is singular."""
        if self._factor is None:
            return -np.inf
        return self.cells.loglik + float(np.log(np.diag(self._factor)).sum())

    @cached_property
    def gradient(self) -> Array:
        """Its gradient."""
        added, model = self._leverage / 2, self.model
        if model.strata is not None:
            totals = sum_by_stratum(model.strata, added, self._sizes.size)
            added = added - self._shares * totals[model.strata]
        return np.asarray(model.basis.T @ model.design.tdot(self.cells.score + added))

    def observed(self) -> Array:
        """Minus the Hessian of the log-likelihood, and a bound for that of the penalty."""
        return self._compressed(self.cells.hessian(), -1.0) + self._added

    def complete(self) -> Array:
        """A positive definite matrix to fall back on."""
        return self._compressed(self.cells.complete_information()) + self._added

    def reach(self, step: Array) -> float:
        """How far a step moves the linear predictor at most."""
        moved = self.model.design.dot(self.model.basis @ step)
        return float(np.abs(moved).max(initial=0.0))

    # -- parts ---------------------------------------------------------------------------------

    @cached_property
    def _factor(self) -> Array | None:
        """The Cholesky factor of I, or None where it is singular."""
        information = self._compressed(self.cells.complete_information())
        try:
            return np.asarray(cho_factor(information)[0])
        except LinAlgError:
            return None

    @cached_property
    def _leverage(self) -> Array:
        model, mu = self.model, self.cells.fitted
        assert self._factor is not None  # the search never stands where the value is -inf
        inverse = cho_solve((self._factor, False), model.basis.T)
        return mu * model.rows.log_variances(model.basis @ inverse, mu, model.axes, None)

    @cached_property
    def _added(self) -> Array:
        """The curvature of the records that the penalty adds, given the totals."""
        if self.model.strata is None:
            return np.zeros((self.model.basis.shape[1],) * 2)
        sums = sum_by_stratum(self.model.strata, self._leverage, self._sizes.size)
        halves = (sums + np.minimum(sums, 1.0)) / 2
        added = DiagonalPlusLowRank(
            self._shares * halves[self.model.strata],
            self._shares[None, :],
            -halves[:, None, None],
            self.model.strata,
        )
        return self._compressed(added)

    @cached_property
    def _sizes(self) -> Array:
        assert self.model.strata is not None
        return sum_by_stratum(
            self.model.strata, self.cells.fitted, int(self.model.strata.max()) + 1
        )

    @cached_property
    def _shares(self) -> Array:
        """Fitted shares of the cells in their strata."""
        assert self.model.strata is not None
        total = self._sizes[self.model.strata]
        return np.divide(self.cells.fitted, total, out=np.zeros(total.size), where=total > 0)

    def _compressed(self, curvature: DiagonalPlusLowRank, sign: float = 1.0) -> Array:
        full, basis = self.model.design.compress(curvature), self.model.basis
        if basis.shape[0] > basis.shape[1]:  # else it is the identity
            full = basis.T @ full @ basis
        return np.asarray(sign * full)
