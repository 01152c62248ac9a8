"""Fits of one model to many noisy tables of the same law at once.

Replicates are independent, as strata are, so that all of them are one table with a stratum (or a
set of strata) for each: one evaluation of the likelihood serves them all, and Newton's steps are
solved together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.design import Design
from dpcontingency.inference.gaussian import nested_score_statistic, score_statistic
from dpcontingency.inference.likelihood import NoisyTableLikelihood
from dpcontingency.inference.lowrank import DiagonalPlusLowRank
from dpcontingency.inference.newton import FLOOR, LEFT, MAX_STEP, RIDGE

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Labels = npt.NDArray[np.intp]

MAX_ROUNDS = 60
AWAY = 0.8  # standard deviation of the coefficients of further starts
GAIN = 1e-8  # a rise in log-likelihood that does not show in a statistic
MAX_STRIDE = 15.0  # in eta, of steps that are taken again and again
SAME = 0.2  # relative change of a step that still counts as the same step
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

    def score_statistics(self, fitted: Array, larger: Design | None) -> Array:
        """The score statistic of each table at its fit, shape (B, p), against a larger model.

        None stands for the saturated one.
        """
        out = []
        for noisy, means in zip(self.noisy, fitted, strict=True):
            at = (noisy - means, means, self.variances, self.strata)
            if larger is None:
                out.append(score_statistic(*at))
            else:
                out.append(nested_score_statistic(*at, larger))
        return np.array(out)

    def fit(self, design: Design, offset: Array, start: Array) -> ReplicateFits:
        """Maximise the likelihood of each table over the model ``design @ beta + offset``.

        Parameters
        ----------
        design : Design
            The columns of the model, which are written out.
        offset : ndarray, shape (p,)
            0, or -inf in cells that cannot hold a record, or log probabilities.
        start : ndarray, shape (q,) or (B, q)
            Where all searches start, or each of them.
        """
        return ends_of(self, design, offset, start)

    def of(self, rows: Rows) -> Replicates:
        """Some of the tables."""
        return Replicates(self.noisy[rows], self.variances, self.strata, self.totals)

    def search(self, design: Design, offset: Array, start: Array) -> Search:
        """The searches of `fit`, before they are made."""
        dense = np.asarray(design.matrix().toarray())
        return Search(self, dense, offset, start, _Blocks(dense, self.strata))


def ends_of(tables: Any, design: Design, offset: Array, start: Array) -> ReplicateFits:
    """Where searches of replicates end; those that may have several maxima are made again.

    They start from halfway back, and from two ways off the common start; the highest end counts.
    """
    search: Search = tables.search(design, offset, start)
    ends = search.ends()
    rows = np.flatnonzero(search.several)
    if rows.size:
        some, first = tables.of(rows), np.broadcast_to(start, search.beta.shape)[rows]
        away = AWAY * np.random.default_rng(0).standard_normal((2, 1, first.shape[1]))
        for begin in ((search.beta[rows] + first) / 2, first + away[0], first + away[1]):
            again = some.search(design, offset, begin).ends()
            higher = again.loglik > ends.loglik[rows]
            ends.loglik[rows[higher]] = again.loglik[higher]
            ends.fitted[rows[higher]] = again.fitted[higher]
            ends.converged[rows[higher]] = again.converged[higher]
    return ends


class Tables(Protocol):
    """Replicates as a search sees them."""

    @property
    def noisy(self) -> Array:
        """One a row."""

    def likelihood(self, rows: Rows) -> Any:
        """The likelihood of some of them, by ``at(eta, tilt)``."""


class Blocks(Protocol):
    """How curvatures of many replicates become matrices in the coefficients."""

    def compress(self, curvature: Any, n: int) -> Array:
        """One q x q matrix a replicate, shape (n, q, q)."""


@dataclass(frozen=True)
class _Standing:
    """Where the searches of some replicates stand, one row of each array a replicate.

    Attributes
    ----------
    rows : ndarray of int, shape (n,)
        The replicates.
    value, gradient : ndarray, shapes (n,) and (n, q)
        The log-likelihood and its slope.
    gain : ndarray, shape (n,)
        What a whole step has just added to the log-likelihood; infinite after a shorter one.
    observed, complete : ndarray, shape (n, q, q)
        The observed information and that of the hidden counts.
    tilt : ndarray, shape (n, G), or None
        The tilts, from which those of the next point are guessed.
    """

    rows: Rows
    value: Array
    gain: Array
    gradient: Array
    observed: Array
    complete: Array
    tilt: Array | None

    @classmethod
    def together(cls, parts: list[_Standing]) -> _Standing:
        """Several of them as one."""
        if len(parts) == 1:
            return parts[0]
        tilts = [part.tilt for part in parts if part.tilt is not None]
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.value for part in parts]),
            np.concatenate([part.gain for part in parts]),
            np.concatenate([part.gradient for part in parts]),
            np.concatenate([part.observed for part in parts]),
            np.concatenate([part.complete for part in parts]),
            np.concatenate(tilts) if tilts else None,
        )


class Search:
    """Newton's ascent of every replicate; those that have arrived leave ``here``."""

    def __init__(
        self, tables: Tables, design: Array, offset: Array, start: Array, blocks: Blocks
    ) -> None:
        n = len(tables.noisy)
        self.tables = tables
        self.design = design
        self.offset = offset
        self.blocks = blocks
        self.beta = np.array(np.broadcast_to(start, (n, design.shape[1])))
        self.loglik = np.full(n, -np.inf)
        self.fitted = np.empty((n, len(design)))
        self.converged = np.zeros(n, dtype=np.bool_)
        self.several = np.zeros(n, dtype=np.bool_)  # whether there may be other maxima
        self.rounds = 0
        self.step = np.zeros(self.beta.shape)  # the last one of each replicate,
        self.stride = np.ones(n)  # and how many of it to try at once
        rows = np.arange(n)
        whole = np.zeros(n)
        self.here = self.stand(rows, self.evaluate(rows, self.beta, None), rows >= 0, whole)

    def ends(self) -> ReplicateFits:
        """Where all searches end."""
        while self.here.rows.size:
            self.advance()
        return ReplicateFits(self.loglik, self.fitted, self.converged)

    def evaluate(self, rows: Rows, beta: Array, tilt: Array | None) -> Any:
        """The likelihood of some replicates at coefficients of their own."""
        eta = beta @ self.design.T + self.offset
        guess = None if tilt is None else tilt.ravel()
        return self.tables.likelihood(rows).at(eta.ravel(), guess)

    def stand(
        self, rows: Rows, point: Any, taken: npt.NDArray[np.bool_], length: Array
    ) -> _Standing:
        """Take note of a point in the replicates that go there, by so much of their steps."""
        n = rows.size
        value = _by_row(point.parts, n)[taken]
        gain = np.where(length[taken] >= 1.0, value - self.loglik[rows[taken]], np.inf)
        self.loglik[rows[taken]] = value
        self.fitted[rows[taken]] = point.fitted.reshape(n, -1)[taken]
        return _Standing(
            rows[taken],
            value,
            gain,
            (point.score.reshape(n, -1) @ self.design)[taken],
            -self.blocks.compress(point.hessian(), n)[taken],
            self.blocks.compress(point.complete_information(), n)[taken],
            None if point.tilt is None else point.tilt.reshape(n, -1)[taken],
        )

    def advance(self) -> None:
        """Move the searches that are not at the top."""
        here = self.here
        step, left = _newton_steps(here.observed, here.complete, here.gradient)
        rise = np.einsum("bq,bq->b", here.gradient, step) / 2
        nothing = GAIN * (1 + 1e-6 * np.abs(here.value))
        top = (rise <= nothing) | ((here.gain <= nothing) & (rise <= 100 * nothing))
        self.converged[here.rows[top]] = True
        self.several[here.rows] = left < LEFT
        self.rounds += 1
        if self.rounds == MAX_ROUNDS:
            top[:] = True
        tilt = None if here.tilt is None else here.tilt[~top]
        self.climb(here.rows[~top], here.value[~top], step[~top], rise[~top], tilt)

    def climb(self, rows: Rows, value: Array, step: Array, rise: Array, tilt: Array | None) -> None:
        """Halve each step until the log-likelihood rises."""
        length = self.lengths(rows, step)
        start = self.beta[rows]
        pending = np.arange(rows.size)
        reached = []
        while pending.size:
            trial = start[pending] + length[pending, None] * step[pending]
            point = self.evaluate(rows[pending], trial, None if tilt is None else tilt[pending])
            higher = _by_row(point.parts, pending.size) > value[pending]
            self.beta[rows[pending[higher]]] = trial[higher]
            if higher.any():
                reached.append(self.stand(rows[pending], point, higher, length[pending]))
            pending = pending[~higher]
            length[pending] /= 2
            self.stride[rows[pending]] = 1.0
            lost = pending[length[pending] < SHORTEST]
            # No float further along is higher: the top, to rounding, or a fault.
            self.converged[rows[lost]] = rise[lost] < 1e-6 * (1 + np.abs(value[lost]))
            length[lost] = 0.0
            pending = pending[length[pending] > 0.0]
        self.here = _Standing.together(reached or [self.nowhere()])

    def lengths(self, rows: Rows, step: Array) -> Array:
        """How much of each step to try first: more than 1 where the last step comes again.

        A margin that noise has eaten goes to 0, its log rate to minus infinity; what is left of
        the rise is proportional to the rate, so that Newton's step in the log is 1 each time.
        """
        reach = np.abs(step @ self.design.T).max(axis=1, initial=1e-300)
        again = np.abs((step - self.step[rows]) @ self.design.T).max(axis=1, initial=0.0)
        self.stride[rows] = np.where(again < SAME * reach, 2 * self.stride[rows], 1.0)
        self.step[rows] = step
        farthest = np.where(self.stride[rows] > 1.0, MAX_STRIDE, MAX_STEP)
        return np.asarray(np.minimum(self.stride[rows], farthest / reach))

    def nowhere(self) -> _Standing:
        """No replicate."""
        q = self.design.shape[1]
        slope, square = np.empty((0, q)), np.empty((0, q, q))
        return _Standing(np.arange(0), np.empty(0), np.empty(0), slope, square, square, None)


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


def _newton_steps(observed: Array, complete: Array, gradient: Array) -> tuple[Array, Array]:
    """`newton.newton_step` for each replicate, always in the metric of the complete information.

    And the least share of that information which is left in any direction.
    """
    q = gradient.shape[1]
    top = np.einsum("bqq->bq", complete).max(axis=1, initial=1.0)
    root = np.linalg.cholesky(complete + (RIDGE * top)[:, None, None] * np.eye(q))
    half = np.linalg.solve(root, observed)
    values, vectors = np.linalg.eigh(np.linalg.solve(root, half.swapaxes(-1, -2)))
    along = vectors.swapaxes(-1, -2) @ np.linalg.solve(root, gradient[:, :, None])
    along /= np.maximum(np.abs(values), FLOOR)[:, :, None]
    steps = np.linalg.solve(root.swapaxes(-1, -2), vectors @ along)[:, :, 0]
    return np.asarray(steps), values.min(axis=1, initial=1.0)
