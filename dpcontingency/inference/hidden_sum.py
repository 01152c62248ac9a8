"""Hidden counts given that they add up to a public total: exact, by Fourier inversion.

Behind noise the counts of a stratum are independent lattice variables with weights that fall off
as fast as the noise does. Their sum S hits the total n with probability

    P(S = n) = 1/M sum_j prod_c phi_c(angle_j) exp(-i n angle_j),   angle_j = 2 pi (j + 1/2) / M,

phi_c the characteristic functions, up to P(S = n + M) and the like, which M makes negligible. So
do conditional means and covariances, with derivatives of phi_c in the place of phi_c. The angles
keep off pi, where a count that is as likely odd as even has phi_c = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import erfc

from dpcontingency.inference.kernels import CellMoments
from dpcontingency.inference.lowrank import DiagonalPlusLowRank
from dpcontingency.inference.quotient import over

Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]
Ints = NDArray[np.intp]
Flags = NDArray[np.bool_]

LARGEST_BLUR = 10.0  # from here on the saddlepoint is as good as wide noise lets it be
_NEGLIGIBLE = 1e-17  # weight, relative to the largest
_NARROWEST = 1e-15  # variance of a count that is no longer known for certain
_REACH = (6.0, 8.0)  # of the lattice around its mean: so many points, and standard deviations
_LEAST = 1e-300
_ROUNDING = 1e-9


def can_be_integrated(variances: Floats, strata: Ints, remaining: Floats) -> Flags:
    """Which strata have few or narrow cells, so that their totals are dealt with exactly.

    Parameters
    ----------
    variances : ndarray of shape (p,)
        Noise variances of the cells.
    strata : ndarray of int of shape (p,)
        The stratum of each cell.
    remaining : ndarray of shape (G,)
        The total of each stratum less its exact cells. No lattice holds a fraction of a record.
    """
    whole = np.abs(remaining - np.rint(remaining)) <= _ROUNDING * np.maximum(remaining, 1.0)
    return whole & (np.bincount(strata, blur(variances), remaining.size) < LARGEST_BLUR)


def blur(variances: Floats) -> Floats:
    """What noise can hide of a count: its variance times the chance that it exceeds 1/2.

    Added up over the cells of a stratum it says how smooth the law of their sum is.

    Examples
    --------
    >>> blur(np.array([0.0, 0.01, 1.0, 100.0])).round(3)
    array([ 0.   ,  0.   ,  0.617, 96.012])
    """
    sd = np.sqrt(variances)
    return np.asarray(variances * erfc(over(np.full_like(sd, 0.5 / math.sqrt(2.0)), sd)))


@dataclass(frozen=True, eq=False)
class HiddenSums:
    """Counts of the strata that are integrated, given their totals.

    Attributes
    ----------
    free : CellMoments
        Of the independent counts, no total imposed.
    log_probability : ndarray of shape (G,)
        log P(S = n) of each stratum, under independent counts.
    log_ratio : ndarray of shape (G,)
        log P(S = n - 1) / P(S = n); 0 for other strata.
    mean : ndarray of shape (p,)
        Expected counts given that S = n.
    integrated : ndarray of bool of shape (G,)
        The strata that these are about.
    strata : ndarray of int of shape (p,)
        The stratum of each cell.
    cells : ndarray of int of shape (m,)
        The cells that are not known for certain; others vary with none.
    weights : ndarray of complex of shape (G, J)
        Of the angles: their real parts add up to 1.
    slopes, bends : ndarray of complex of shape (m, J)
        First and second derivative of each log phi_c in i angle.
    """

    free: CellMoments
    log_probability: Floats
    log_ratio: Floats
    mean: Floats
    integrated: Flags
    strata: Ints
    cells: Ints
    weights: Complex
    slopes: Complex
    bends: Complex

    def settled(self) -> CellMoments:
        """Moments with the means that the totals lead to, and no further cumulants there."""
        inside, free = self.integrated[self.strata], self.free
        rest = (np.where(inside, 0.0, cumulant) for cumulant in free[2:])
        return CellMoments(free.log_weight, np.where(inside, self.mean, free.mean), *rest)

    def covariance(self) -> DiagonalPlusLowRank:
        """The covariance of the counts given their totals.

        That of two cells is the real part of sum_j w_j e_j e'_j, e the slopes less the means. With
        the root of w_j taken into e_j it is a sum of squares of real, less those of imaginary,
        parts. Of a cell and itself the bends are to be added.
        """
        used = np.abs(self.weights).max(axis=0) > _NEGLIGIBLE
        own = self.weights[:, used][self.strata[self.cells]]
        parts = np.sqrt(own) * self.slopes[:, used]
        rank = 2 * parts.shape[1]
        vectors = np.zeros((rank, self.mean.size))
        vectors[:, self.cells] = np.hstack([parts.real, parts.imag]).T
        diagonal = np.zeros(self.mean.size)
        diagonal[self.cells] = (own * self.bends[:, used]).sum(axis=1).real
        core = np.diag(np.repeat([1.0, -1.0], rank // 2))
        cores = np.broadcast_to(core, (len(self.weights), rank, rank))
        return DiagonalPlusLowRank(diagonal, vectors, cores, self.strata)


def hidden_sums(
    noisy: Floats,
    variances: Floats,
    log_rates: Floats,
    free: CellMoments,
    strata: Ints,
    totals: Floats,
    integrated: Flags,
) -> HiddenSums:
    """The law of the counts of the strata that are `integrated`, given their totals.

    Parameters
    ----------
    noisy, variances, log_rates : ndarray of shape (p,)
        Of the cells.
    free : CellMoments
        Of the counts at these rates, no total imposed. The means add up to about the totals.
    strata : ndarray of int of shape (p,)
        The stratum of each cell.
    totals : ndarray of shape (G,)
        Of the strata; whole numbers, once exact cells are taken off.
    integrated : ndarray of bool of shape (G,)
        The strata to do.
    """
    n_strata = totals.size
    cells = np.flatnonzero(integrated[strata] & (free.variance > _NARROWEST))
    own = strata[cells]
    spread = np.bincount(own, free.variance[cells] + blur(variances[cells]), n_strata)
    n_angles = math.ceil(0.5 * (_REACH[0] + _REACH[1] * math.sqrt(spread.max(initial=0.0))))
    angles = np.pi * (np.arange(n_angles) + 0.5) / n_angles
    turns = np.exp(1j * angles)
    mean = np.where(variances > 0.0, np.rint(free.mean), noisy)
    at = (noisy[cells], variances[cells], log_rates[cells])
    mean[cells] = _summits(*at, mean[cells])
    products = np.ones((n_strata, n_angles), np.complex128)
    slopes, bends = np.empty((2, cells.size, n_angles), np.complex128)
    _transform(*at, mean[cells], own, turns, products, slopes, bends)

    missing = np.rint(totals - np.bincount(strata, mean, n_strata))
    weights = products * np.exp(-1j * np.where(integrated, missing, 0.0)[:, None] * angles)
    mass = np.maximum(weights.real.sum(axis=1), _LEAST)
    weights /= mass[:, None]
    lower = (weights * turns).real.sum(axis=1)
    shift = (weights[own] * slopes).real.sum(axis=1)
    slopes -= shift[:, None]
    mean[cells] += shift
    return HiddenSums(
        free=free,
        log_probability=np.log(mass / n_angles),
        log_ratio=np.where(integrated, np.log(np.maximum(lower, _NEGLIGIBLE)), 0.0),
        mean=mean,
        integrated=integrated,
        strata=strata,
        cells=cells,
        weights=weights,
        slopes=slopes,
        bends=bends,
    )


_compiled = njit(cache=True, nogil=True)


@_compiled
def _summits(y: Floats, variance: Floats, log_rate: Floats, near: Floats) -> Floats:
    """The most likely count of each cell; the log weights are concave."""
    out = near.copy()
    for c in range(y.size):
        k = max(near[c], 0.0)
        while log_rate[c] - math.log(k + 1.0) + (y[c] - k - 0.5) / variance[c] > 0.0:
            k += 1.0
        while k > 0.0 and log_rate[c] - math.log(k) + (y[c] - k + 0.5) / variance[c] < 0.0:
            k -= 1.0
        out[c] = k
    return out


@_compiled
def _transform(
    y: Floats,
    variance: Floats,
    log_rate: Floats,
    summit: Floats,
    strata: Ints,
    turns: Complex,
    products: Complex,
    slopes: Complex,
    bends: Complex,
) -> None:
    """Characteristic functions about the summits, multiplied up, with their log derivatives."""
    phi = np.empty(turns.size, np.complex128)
    here = np.empty(turns.size, np.complex128)
    for c in range(y.size):
        first, second = slopes[c], bends[c]
        phi[:], first[:], second[:] = 1.0, 0.0, 0.0
        total = 1.0
        for side in (1.0, -1.0):
            here[:] = 1.0
            weight, k = 1.0, summit[c]
            while True:
                if side > 0.0:
                    ratio = log_rate[c] - math.log(k + 1.0) + (y[c] - k - 0.5) / variance[c]
                elif k > 0.0:
                    ratio = math.log(k) - log_rate[c] - (y[c] - k + 0.5) / variance[c]
                else:
                    break
                weight *= math.exp(ratio)
                if weight < _NEGLIGIBLE:
                    break
                k += side
                d = k - summit[c]
                total += weight
                for j in range(turns.size):
                    here[j] *= turns[j] if side > 0.0 else turns[j].conjugate()
                    term = weight * here[j]
                    phi[j] += term
                    first[j] += d * term
                    second[j] += d * d * term
        for j in range(turns.size):
            products[strata[c], j] *= phi[j] / total
            first[j] /= phi[j]
            second[j] = second[j] / phi[j] - first[j] ** 2
