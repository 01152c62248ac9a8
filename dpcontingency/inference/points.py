"""Public totals of strata, and the log-likelihood of log rates at one value of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcontingency.errors import ModelError
from dpcontingency.inference.hidden_sum import HiddenSums, can_be_integrated
from dpcontingency.inference.kernels import CellMoments
from dpcontingency.inference.lowrank import DiagonalPlusLowRank, sum_by_stratum
from dpcontingency.inference.quotient import over

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True)
class LikelihoodPoint:
    """The log-likelihood at one value of the log rates, with its derivatives in them.

    Attributes
    ----------
    parts : ndarray
        The log-likelihood of each stratum, shape (G,), where totals are known, and of each cell,
        shape (p,), where none is. Up to a constant of the noise alone; never a density in the
        counts.
    score : ndarray of shape (p,)
        Gradient of `loglik` in the log rates.
    fitted : ndarray of shape (p,)
        Expected counts before any data: the rates, or ``n pi``.
    moments : CellMoments
        Of the hidden counts given the data.
    tilt : ndarray of shape (G,) or None
        log(t / n) of each stratum, where totals are known.
    """

    parts: Floats
    score: Floats
    fitted: Floats
    moments: CellMoments
    tilt: Floats | None

    @property
    def loglik(self) -> float:
        """The log-likelihood: the sum of its independent parts."""
        return float(self.parts.sum())

    def by_part(self, cells: Floats) -> Floats:
        """Sum cell values over the cells of each part."""
        return cells

    def of_part(self, parts: Floats) -> Floats:
        """The value of its part for each cell."""
        return parts

    @property
    def posterior_mean(self) -> Floats:
        """Expected hidden counts given the data; with known totals they add up to them."""
        return self.moments.mean

    def hessian(self) -> DiagonalPlusLowRank:
        """Second derivative of `loglik` in the log rates."""
        return _diagonal(self.moments.variance - self.fitted)

    def rough_hessian(self) -> DiagonalPlusLowRank:
        """About the same, for steps that are to cost little."""
        return self.hessian()

    def complete_information(self) -> DiagonalPlusLowRank:
        """Information about the log rates that the hidden counts themselves would carry."""
        return _diagonal(self.fitted)

    def log_pressure(self) -> Floats:
        """Return what decides, with (y - 1/2) / v, whether a cell can be empty.

        At rate 0 the log-likelihood rises with the rate of a noisy cell if their sum is positive.
        """
        return np.zeros_like(self.fitted)


@dataclass(frozen=True)
class MultinomialPoint(LikelihoodPoint):
    """A point with known totals.

    Where a stratum is integrated, `hidden` is the law of its counts given the total: the score is
    m - n pi, m their means, and the hessian their covariance less n (diag(pi) - pi pi'). `moments`
    then has these m, and no further cumulants.

    Elsewhere `peak` holds h(V), h'(V), h''(V) of the saddlepoint of each stratum, and with
    q = s / V the derivatives in the log rates are

        d V / d eta    = u = k3 - q K3
        score          = m - n pi + h' u
        hessian        = diag(s - n pi) + n pi pi' - V q q' + h' du/deta + h'' u u'
        du/deta        = diag(k4 - k3 K3/V) - q k4' - k4 q' + (q k3' + k3 q') K3/V
                         + q q' (K4 - K3^2/V)

    because d log lam_c / d eta_j = [c = j] - q_j keeps the posterior means on the total.
    """

    tilt: Floats
    known: KnownTotals
    peak: tuple[Floats, Floats, Floats]
    hidden: HiddenSums | None = None

    def by_part(self, cells: Floats) -> Floats:
        """Sum cell values over each stratum."""
        return self.known.sum(cells)

    def of_part(self, parts: Floats) -> Floats:
        """The value of its stratum for each cell."""
        return np.asarray(parts[self.known.strata])

    def hessian(self) -> DiagonalPlusLowRank:
        """Second derivative of `loglik` in the log rates."""
        saddle = self._saddle(self.moments)
        return saddle if self.hidden is None else saddle.plus(self.hidden.covariance())

    def rough_hessian(self) -> DiagonalPlusLowRank:
        """The same by the saddlepoint alone, which has few vectors."""
        return self._saddle(self.moments if self.hidden is None else self.hidden.free)

    def _saddle(self, moments: CellMoments) -> DiagonalPlusLowRank:
        s, k3, k4 = moments[2:]
        strata, n = self.known.strata, self.known.totals
        v, v3, v4 = (self.known.sum(a) for a in (s, k3, k4))
        _, h1, h2 = self.peak
        skew = over(v3, v)
        cores = np.zeros((n.size, 4, 4))
        cores[:, 0, 0] = n
        cores[:, 1, 1] = -v + h1 * (v4 - v3 * skew) + h2 * v3**2
        cores[:, 1, 2] = cores[:, 2, 1] = h1 * skew - h2 * v3
        cores[:, 1, 3] = cores[:, 3, 1] = -h1
        cores[:, 2, 2] = h2
        diagonal = s - self.fitted + h1[strata] * (k4 - k3 * skew[strata])
        pi, shares = over(self.fitted, n[strata]), over(s, v[strata])
        return DiagonalPlusLowRank(diagonal, np.stack([pi, shares, k3, k4]), cores, strata)

    def complete_information(self) -> DiagonalPlusLowRank:
        """What the counts, adding up to the totals, would tell of the log rates."""
        strata, n = self.known.strata, self.known.totals
        pi = over(self.fitted, n[strata])
        return DiagonalPlusLowRank(self.fitted, pi[None, :], -n[:, None, None], strata)

    def log_pressure(self) -> Floats:
        """As of a `LikelihoodPoint`, with the tilt of the stratum."""
        v, v3 = self.known.sum(self.moments.variance), self.known.sum(self.moments.third)
        factor = 1.0 + self.peak[1] * (1.0 - over(v3, v)) * (v > 0.0)
        log_factor = np.log(factor, out=np.full_like(factor, -np.inf), where=factor > 0.0)
        if self.hidden is not None:
            log_factor = log_factor + self.hidden.log_ratio
        return (self.tilt + log_factor)[self.known.strata]


@dataclass(frozen=True)
class KnownTotals:
    """Public totals of strata of cells.

    `all_exact` marks strata without a noisy cell, `integrated` those whose total is dealt with
    exactly, and not by the saddlepoint.
    """

    strata: Ints
    totals: Floats
    all_exact: NDArray[np.bool_]
    integrated: NDArray[np.bool_]

    def sum(self, cells: Floats) -> Floats:
        """Sum cell values over each stratum."""
        return sum_by_stratum(self.strata, cells, self.totals.size)

    def log_probabilities(self, eta: Floats) -> Floats:
        """`eta` less a constant in each stratum, so that exponentials add up to 1."""
        top = np.full(self.totals.size, -np.inf)
        np.maximum.at(top, self.strata, eta)
        if (np.isneginf(top) & (self.totals > 0.0)).any():
            raise ModelError("every cell of a stratum with records is ruled out; free one of them.")
        eta = eta - np.where(np.isfinite(top), top, 0.0)[self.strata]
        return eta - log(self.sum(np.exp(eta)), empty=0.0)[self.strata]


def known_totals(
    strata: ArrayLike | None, totals: ArrayLike, noisy: Floats, variances: Floats
) -> KnownTotals:
    """Check public totals against the noisy cells.

    Raises
    ------
    ModelError
        If they are no totals of these strata, or exact cells contradict them.
    """
    n = np.atleast_1d(np.asarray(totals, dtype=np.float64))
    if n.ndim != 1 or not (np.isfinite(n).all() and (n >= 0.0).all()):
        raise ModelError("totals must be one finite number >= 0 for each stratum.")
    labels = np.zeros(noisy.size, np.intp) if strata is None else np.asarray(strata)
    if labels.shape != noisy.shape or labels.dtype.kind not in "iu":
        raise ModelError("strata must hold one integer for each cell.")
    if noisy.size and (labels.min() < 0 or labels.max() >= n.size):
        raise ModelError(f"strata must lie in 0 .. {n.size - 1}, one for each of the totals.")
    labels, exact = labels.astype(np.intp), variances == 0.0
    all_exact = sum_by_stratum(labels, (~exact).astype(np.float64), n.size) == 0.0
    excess = sum_by_stratum(labels, np.where(exact, noisy, 0.0), n.size) - n
    if (np.where(all_exact, np.abs(excess), excess) > 1e-9 * np.maximum(n, 1.0)).any():
        raise ModelError("exact cells contradict the total of their stratum; correct one of them.")
    integrated = ~all_exact & can_be_integrated(variances, labels, -excess)
    return KnownTotals(labels, n, all_exact, integrated)


def _diagonal(entries: Floats) -> DiagonalPlusLowRank:
    p = entries.size
    return DiagonalPlusLowRank(
        entries, np.empty((0, p)), np.empty((1, 0, 0)), np.zeros(p, dtype=np.intp)
    )


def log(x: Floats, empty: float = -np.inf) -> Floats:
    """Return log x, and `empty` where x is 0."""
    return np.log(x, out=np.full(x.shape, empty), where=x > 0.0)
