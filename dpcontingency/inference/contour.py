"""Smooth functions of a table: their gradients, and how far they reach inside a likelihood contour.

The least and the greatest value of a function among the cell probabilities whose log-likelihood
is within half a chi-square quantile of the maximum are the ends of its profile-likelihood interval.
That is used where the delta method says little: where a row may be within noise of 0, and at the
ends of the range of a measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from dpcontingency.inference.cells import Likelihood
from dpcontingency.inference.noncentral import GaussianCells

Array = npt.NDArray[np.float64]

# A measure: tables of shape (..., K, r, c), real or complex, to numbers of shape (...).
Measure = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]

STEP = 1e-30  # of the imaginary part: no difference is taken, so no digit is lost
BLOCK = 1 << 20  # complex numbers at once
FARTHEST = 40.0  # a log rate this much further down is that of an empty cell
MISSED = 1e-3  # of log-likelihood, by which an extreme may lie outside its contour
AGREEMENT = 1e-6  # of two searches for the same extreme
FLOOR = 0.02  # share of the even table in each start: a rate of 0 could not move


def gradient_of(measure: Measure, means: Array) -> Array:
    """The gradient of a measure by complex steps, exact to rounding, shape (p,).

    Examples
    --------
    >>> gradient_of(lambda m: m[..., 0, 0, 0] ** 2 * m[..., 0, 0, 1], np.array([[[3.0, 2.0]]]))
    array([12.,  9.])
    """
    size = means.size
    out = np.empty(size)
    for start in range(0, size, max(1, BLOCK // size)):
        cells = np.arange(start, min(start + max(1, BLOCK // size), size))
        moved = np.tile(means.ravel().astype(np.complex128), (cells.size, 1))
        moved[np.arange(cells.size), cells] += 1j * STEP
        with np.errstate(divide="ignore", invalid="ignore"):
            values = measure(moved.reshape(cells.size, *means.shape))
        out[cells] = values.imag / STEP
    return out


@dataclass(frozen=True, eq=False)
class Contour:
    """The tables whose log-likelihood is at most ``fall`` below the maximum.

    Parameters
    ----------
    likelihood : NoisyTableLikelihood or InteractionLikelihood
        Of p cells.
    possible : ndarray of bool, shape (p,)
        The cells that can hold records.
    means : ndarray, shape (K, r, c)
        The maximum.
    top, fall : float
        The log-likelihood there, and half a chi-square quantile.
    """

    likelihood: Likelihood
    possible: npt.NDArray[np.bool_]
    means: Array
    top: float
    fall: float

    def extreme(self, measure: Measure, side: float) -> float | None:
        """The least (side -1) or greatest (side 1) value of a measure; None if none was found.

        Sequential quadratic programming in the log rates, from several tables inside the contour
        until two searches agree.
        """
        cells, possible = self.likelihood, self.possible

        latest: dict[bytes, Any] = {}  # goal and contour are asked for one point after the other

        def at(free: Array) -> Any:
            key = free.tobytes()
            if key not in latest:
                eta = np.full(cells.noisy.size, -np.inf)
                eta[possible] = free
                tilt = next((point.tilt for point in latest.values()), None)
                latest.clear()
                latest[key] = cells.at(eta, tilt)
            return latest[key]

        def signed(means: npt.NDArray[Any]) -> npt.NDArray[Any]:
            with np.errstate(divide="ignore", invalid="ignore"):  # a search may touch an end
                return np.asarray(-side * measure(means))

        def goodness(value: float) -> float:
            return side * value

        def goal(free: Array) -> tuple[float, Array]:
            fitted = at(free).fitted
            table = fitted.reshape(self.means.shape)
            counts = GaussianCells(fitted, np.zeros(fitted.size), cells.strata)
            slope = counts.sampling(gradient_of(signed, table)[:, None])
            return float(signed(table)), slope[possible, 0]

        room: Any = {
            "type": "ineq",
            "fun": lambda free: at(free).loglik - self.top + self.fall,
            "jac": lambda free: at(free).score[possible],
        }
        found: list[float] = []
        for start in self._starts():
            free = np.log(start[possible])
            bounds = [(x - FARTHEST, x + 1 + np.log(start.sum())) for x in free]
            done = minimize(
                goal,
                free,
                jac=True,
                method="SLSQP",
                bounds=bounds,
                constraints=[room],
                options={"maxiter": 200, "ftol": 1e-9},
            )
            if np.isfinite(done.fun) and at(done.x).loglik - self.top + self.fall > -MISSED:
                found.append(-side * float(done.fun))
            if len(found) > 1 and abs(found[-1] - max(found[:-1], key=goodness)) < AGREEMENT:
                break
        return max(found, key=goodness) if found else None

    def _starts(self) -> Iterator[Array]:
        """Tables well inside the contour: the maximum mixed with an even one and with diagonals."""
        _, rows, columns = self.means.shape
        distance = np.abs(np.linspace(0, 1, rows)[:, None] - np.linspace(0, 1, columns)[None, :])
        even = np.ones((rows, columns))
        for pattern in (even, distance < 0.5, distance >= 0.5):
            table = np.broadcast_to(FLOOR + pattern, self.means.shape).ravel() * self.possible
            table = table * self.means.sum() / table.sum()
            share = 0.5
            while share > 1e-12:
                start = np.where(self.possible, (1 - share) * self.means.ravel() + share * table, 1)
                eta = np.where(self.possible, np.log(start), -np.inf)
                if self.likelihood.at(eta).loglik > self.top - self.fall / 2:
                    yield start
                    break
                share /= 2
