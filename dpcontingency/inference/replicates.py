"""Fits of one model to many noisy tables of the same law at once.

Replicates are independent, as strata are, so that all of them are one table with a stratum (or a
set of strata) for each: one evaluation of the likelihood serves them all, and Newton's steps are
solved together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.likelihood import LikelihoodPoint, NoisyTableLikelihood
from dpcontingency.inference.lowrank import DiagonalPlusLowRank
from dpcontingency.inference.newton import FLOOR, MAX_STEP, RIDGE

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Labels = npt.NDArray[np.intp]

MAX_ROUNDS = 60
GAIN = 1e-8  # a rise in log-likelihood that does not show in a statistic
SHORTEST = 1e-6  # of a step, before the search of a replicate is given up


@dataclass(frozen=True)
class ReplicateFits:
    """Where the searches ended, one row a replicate.

    Attributes
    ----------
    loglik : ndarray, shape (B,)
        The log-likelihoods.
    fitted : ndarray, shape (B, p)
        The fitted cell means.
    converged : ndarray of bool, shape (B,)
        Whether a further step promises no rise.
    """

    loglik: Array
    fitted: Array
    converged: npt.NDArray[np.bool_]


class Replicates:
    """Noisy tables, one a row, that share variances, strata and totals.

    Parameters
    ----------
    noisy : ndarray, shape (B, p)
        The noisy tables.
    variances : ndarray, shape (p,)
        Noise variances of the cells.
    strata : ndarray of int, shape (p,), or None
        The stratum, 0 to G - 1, of each cell whose totals are public.
    totals : ndarray, shape (G,), or None
        Those totals.

    Examples
    --------
    >>> tables = Replicates(
    ...     np.array([[11.0, 9.0], [14.0, 6.0]]),
    ...     np.ones(2),
    ...     np.zeros(2, dtype=int),
    ...     np.array([20.0]),
    ... )
    >>> tables.saturated().fitted.round(1)
    array([[11.,  9.],
           [14.,  6.]])
    """

    def __init__(
        self, noisy: Array, variances: Array, strata: Labels | None, totals: Array | None
    ) -> None:
        self.noisy = noisy
        self.variances = variances
        self.strata = strata
        self.totals = totals

    def likelihood(self, rows: Rows) -> NoisyTableLikelihood:
        """The likelihood of some replicates, as one long table."""
        noisy = self.noisy[rows].ravel()
        variances = np.tile(self.variances, rows.size)
        if self.strata is None or self.totals is None:
            return NoisyTableLikelihood(noisy, variances)
        shift = self.totals.size * np.arange(rows.size)
        return NoisyTableLikelihood(
            noisy,
            variances,
            strata=(self.strata + shift[:, None]).ravel(),
            totals=np.tile(self.totals, rows.size),
        )

    def saturated(self) -> ReplicateFits:
        """The largest log-likelihood that any cell probabilities give to each table."""
        n = len(self.noisy)
        point = self.likelihood(np.arange(n)).saturated()
        return ReplicateFits(
            point.parts.reshape(n, -1).sum(axis=1),
            point.fitted.reshape(n, -1),
            np.ones(n, dtype=np.bool_),
        )

    def fit(self, design: Array, offset: Array, start: Array) -> ReplicateFits:
        """Maximise the likelihood of each table over the model ``design @ beta + offset``.

        Parameters
        ----------
        design : ndarray, shape (p, q)
            The columns of the model.
        offset : ndarray, shape (p,)
            0, or -inf in cells that cannot hold a record, or log probabilities.
        start : ndarray, shape (q,)
            Where all searches start.
        """
        search = _Search(self, design, offset, start)
        while search.rows.size:
            search.advance()
        return ReplicateFits(search.loglik, search.fitted, search.converged)


class _Search:
    """Newton's ascent of every replicate; those that have arrived leave ``rows``."""

    def __init__(self, tables: Replicates, design: Array, offset: Array, start: Array) -> None:
        n = len(tables.noisy)
        self.tables = tables
        self.design = design
        self.offset = offset
        self.blocks = _Blocks(design, tables.strata)
        self.beta = np.tile(start, (n, 1))
        self.loglik = np.full(n, -np.inf)
        self.fitted = np.empty_like(tables.noisy)
        self.converged = np.zeros(n, dtype=np.bool_)
        self.rounds = 0
        self.rows = np.arange(n)
        self.point = self.evaluate(self.rows, self.beta, None)

    def evaluate(self, rows: Rows, beta: Array, tilt: Array | None) -> LikelihoodPoint:
        eta = beta @ self.design.T + self.offset
        return self.tables.likelihood(rows).at(eta.ravel(), tilt)

    def advance(self) -> None:
        """Take note of where the searches stand, and move those that are not at the top."""
        rows, n = self.rows, self.rows.size
        value = _by_row(self.point.parts, n)
        self.loglik[rows] = value
        self.fitted[rows] = self.point.fitted.reshape(n, -1)
        gradient = self.point.score.reshape(n, -1) @ self.design
        step = _newton_steps(
            -self.blocks.compress(self.point.hessian(), n),
            self.blocks.compress(self.point.complete_information(), n),
            gradient,
        )
        rise = np.einsum("bq,bq->b", gradient, step) / 2
        top = rise <= GAIN * (1 + 1e-6 * np.abs(value))
        self.converged[rows[top]] = True
        self.rounds += 1
        if self.rounds == MAX_ROUNDS:
            top[:] = True
        tilt = None if self.point.tilt is None else self.point.tilt.reshape(n, -1)[~top]
        self.climb(rows[~top], value[~top], step[~top], rise[~top], tilt)

    def climb(self, rows: Rows, value: Array, step: Array, rise: Array, tilt: Array | None) -> None:
        """Halve each step until the log-likelihood rises."""
        reach = np.abs(step @ self.design.T).max(axis=1, initial=1e-300)
        length = np.minimum(1.0, MAX_STEP / reach)
        start = self.beta[rows]
        pending = np.arange(rows.size)
        first = True
        while pending.size:
            trial = start[pending] + length[pending, None] * step[pending]
            guess = None if tilt is None else tilt[pending].ravel()
            point = self.evaluate(rows[pending], trial, guess)
            higher = _by_row(point.parts, pending.size) > value[pending]
            self.beta[rows[pending[higher]]] = trial[higher]
            if first and higher.all():
                self.rows, self.point = rows, point
                return
            first = False
            pending = pending[~higher]
            length[pending] /= 2
            lost = pending[length[pending] < SHORTEST]
            # No float further along is higher: the top, to rounding, or a fault.
            self.converged[rows[lost]] = rise[lost] < 1e-6 * (1 + np.abs(value[lost]))
            length[lost] = 0.0
            pending = pending[length[pending] > 0.0]
        self.rows = rows[length > 0.0]
        if self.rows.size:
            guess = None if tilt is None else tilt[length > 0.0].ravel()
            self.point = self.evaluate(self.rows, self.beta[self.rows], guess)


class _Blocks:
    """X' (diagonal + low rank) X of each replicate, from one dense X."""

    def __init__(self, design: Array, strata: Labels | None) -> None:
        p, q = design.shape
        self.design = design
        labels = np.zeros(p, dtype=np.intp) if strata is None else strata
        self.n_strata = int(labels.max(initial=0)) + 1
        self.by_stratum = np.zeros((p, self.n_strata, q))
        self.by_stratum[np.arange(p), labels] = design

    def compress(self, curvature: DiagonalPlusLowRank, n: int) -> Array:
        """One q x q matrix a replicate, shape (n, q, q)."""
        p, q = self.design.shape
        weighted = curvature.diagonal.reshape(n, p)[:, :, None] * self.design
        out = np.asarray(self.design.T @ weighted)
        rank = len(curvature.vectors)
        if rank:
            vectors = curvature.vectors.reshape(rank * n, p)
            rows = vectors @ self.by_stratum.reshape(p, -1)
            rows = rows.reshape(rank, n, self.n_strata, q).transpose(1, 2, 0, 3)
            cores = curvature.cores.reshape(n, self.n_strata, rank, rank)
            out += (rows.swapaxes(-1, -2) @ cores @ rows).sum(axis=1)
        return out


def _by_row(parts: Array, n: int) -> Array:
    return np.asarray(parts.reshape(n, -1).sum(axis=1))


def _newton_steps(observed: Array, complete: Array, gradient: Array) -> Array:
    """`newton.newton_step` for each replicate, always in the metric of the complete information."""
    q = gradient.shape[1]
    top = np.einsum("bqq->bq", complete).max(axis=1, initial=1.0)
    root = np.linalg.cholesky(complete + (RIDGE * top)[:, None, None] * np.eye(q))
    half = np.linalg.solve(root, observed)
    values, vectors = np.linalg.eigh(np.linalg.solve(root, half.swapaxes(-1, -2)))
    along = vectors.swapaxes(-1, -2) @ np.linalg.solve(root, gradient[:, :, None])
    along /= np.maximum(np.abs(values), FLOOR)[:, :, None]
    return np.asarray(np.linalg.solve(root.swapaxes(-1, -2), vectors @ along)[:, :, 0])
