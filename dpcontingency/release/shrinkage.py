"""James-Stein shrinkage: the operator, its exact risk, and the split of a table it works on.

All of it is post-processing of a noisy table: nothing here sees a confidential count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc, gammaln, xlogy

Array = npt.NDArray[np.float64]

#: James-Stein shrinkage is defined from three dimensions.
LEAST_DIMENSION = 3


@dataclass(frozen=True)
class Block:
    """A part of a table in a subspace of known dimension, to be shrunk toward 0."""

    residual: Array
    dimension: int

    @property
    def squared_norm(self) -> float:
        """The sum of squares of the residual."""
        return float(np.vdot(self.residual, self.residual))

    def joined(self, other: Block) -> Block:
        """Return the part in the sum of both subspaces, which are orthogonal."""
        return Block(self.residual + other.residual, self.dimension + other.dimension)


def merge_narrow(blocks: Iterable[Block], least_dimension: int) -> tuple[Block, ...]:
    """Join blocks, in order, until each has a least dimension.

    A block that is narrower takes in the next one; a last block that is narrower joins the one
    before it. One block may remain that is narrower than asked, when all together are.
    """
    merged: list[Block] = []
    for block in blocks:
        if merged and merged[-1].dimension < least_dimension:
            merged[-1] = merged[-1].joined(block)
        else:
            merged.append(block)
    if len(merged) > 1 and merged[-1].dimension < least_dimension:
        merged[-2:] = [merged[-2].joined(merged[-1])]
    return tuple(merged)


@dataclass(frozen=True)
class Split:
    """A table as a part that is kept and orthogonal parts that are shrunk, each by itself.

    Parameters
    ----------
    kept : ndarray
        What no shrinkage touches: public totals, a target, a mean.
    kept_dimension : int
        The dimension of the noise in ``kept``; 0 when that part is public.
    blocks : tuple of Block
        Orthogonal residuals. The table is ``kept`` plus all of them.

    Notes
    -----
    Every mechanism is one such split followed by m_0, James-Stein toward the origin (METHODS
    1.3), in each block. The split of a noisy table gives the estimate, that of the true table
    the expected cost, because the noise in a block is N(0, sigma^2) on its subspace, independent
    of the other blocks.
    """

    kept: Array
    kept_dimension: int
    blocks: tuple[Block, ...] = ()

    def shrunken(self, sigma: float, *, positive_part: bool) -> Array:
        """The kept part plus each block times its James-Stein factor."""
        out = self.kept
        for block in self.blocks:
            factor = james_stein_factor(
                block.squared_norm, block.dimension, sigma, positive_part=positive_part
            )
            out = out + factor * block.residual
        return out

    def risk(self, sigma: float, *, positive_part: bool) -> float:
        """E |estimate - theta|^2 / sigma^2 when this is the split of the true table theta."""
        return self.kept_dimension + sum(
            james_stein_risk(
                block.squared_norm / sigma**2, block.dimension, positive_part=positive_part
            )
            for block in self.blocks
        )


def james_stein_factor(
    squared_norm: float, dimension: int, sigma: float, *, positive_part: bool
) -> float:
    """The factor 1 - (k - 2) sigma^2 / |x|^2 of m_0 for a vector x of dimension k.

    Raised to 0 where it is negative when ``positive_part`` is True (uniformly better, Baranchik
    1964). Vectors of dimension 2 or less are left as they are.
    """
    if dimension < LEAST_DIMENSION:
        return 1.0
    if squared_norm == 0:  # any factor gives the same vector
        return 0.0
    factor = 1 - (dimension - 2) * sigma**2 / squared_norm
    return max(0.0, factor) if positive_part else factor


def james_stein_risk(tau: float, dimension: int, *, positive_part: bool) -> float:
    """E |m_0(x) - m|^2 for x ~ N_k(m, I), tau = |m|^2, k the dimension.

    Parameters
    ----------
    tau : float
        The squared length of the mean in units of the noise, at least 0.
    dimension : int
        k; up to 2 nothing is shrunk and the risk is k.
    positive_part : bool
        Whether a negative factor is raised to 0.

    Notes
    -----
    With K ~ Poisson(tau / 2) and c = k - 2 the risk of m_0 is k - c^2 E 1/(c + 2K) (arXiv
    2211.15019, as in METHODS 1.3), written here as 2 + c tau E 1/(k + 2K), which cancels
    nothing. By Stein's identity on |x|^2 <= c the positive part lowers it by

        E { [2 - 4 K^2 / (c + 2K)] F_(k+2K)(c) + 2 c K / (c + 2K) g_(k+2K-2) },

    F_m the chi-square distribution function and g_m = F_m(c) - F_(m+2)(c): a finite sum in effect,
    because F_(k+2K)(k - 2) vanishes as K grows.

    Examples
    --------
    >>> round(james_stein_risk(10.0, 9, positive_part=False), 4)
    5.9
    >>> round(james_stein_risk(10.0, 9, positive_part=True), 4)
    5.8135
    """
    if dimension < LEAST_DIMENSION:
        return float(dimension)
    c = dimension - 2
    risk = 2 + c * tau * mean_inverse(dimension, tau / 2)
    return risk - _positive_part_gain(tau / 2, dimension) if positive_part else risk


def mean_inverse(a: float, rate: float) -> float:
    """E 1 / (a + 2K) for K ~ Poisson(rate) and a > 0.

    Notes
    -----
    1/2 times the integral over s > 0 of exp(-rate (1 - e^-s) - a s / 2), by the double exponential
    rule for integrands that decay exponentially; relative error below 1e-12 for any rate.
    """
    t = np.arange(-4.2, 5.6, _STEP)
    y = np.exp(t - np.exp(-t))
    scale = rate + a / 2
    s = y / scale
    values = np.exp(rate * np.expm1(-s) - a * s / 2) * y * (1 + np.exp(-t))
    return float(values.sum()) * _STEP / (2 * scale)


_STEP = 0.05


def _positive_part_gain(rate: float, dimension: int) -> float:
    """What raising negative factors to 0 takes off the risk; see `james_stein_risk`."""
    c = dimension - 2
    # Beyond these K, F_(k+2K)(c) < exp(-100) by Chernoff's bound.
    K = np.arange(60 + 10 * math.isqrt(dimension), dtype=np.float64)
    weight = np.exp(xlogy(K, rate) - rate - gammaln(K + 1))
    half = c / 2 + K
    below = gammainc(half + 1, c / 2)
    step = np.exp(xlogy(half, c / 2) - c / 2 - gammaln(half + 1))
    gain = (2 - 2 * K**2 / half) * below + c * K / half * step
    return float(weight @ gain)
