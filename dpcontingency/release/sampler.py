"""Noise rounded to a dyadic grid, sampled exactly from the operating system's entropy.

For integer counts N and a grid g that divides 1, round_g(N + sigma z) = N + round_g(sigma z), so
adding noise drawn here is post-processing of the ideal mechanism, Gaussian or Laplace: its mu-GDP
guarantee holds as stated and the low-order bits of the output say nothing of N (Mironov 2012
describes the attack that this rules out).

A draw is an interval of probabilities [m, m + 1) 2^-64, m from 63 uniform bits, with a sign from
the 64th. The magnitude is the upper quantile of the law at a point in it. Where rounding error and
the width of the interval leave the nearest grid point certain, as nearly always, the float
answer is the exact one; elsewhere bits are added until ball arithmetic decides.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dpcontingency._lazy import later
from dpcontingency.errors import PrivacyError

if TYPE_CHECKING:
    import flint
else:
    flint = later("flint")

GRID_STEPS_PER_SIGMA = 2**10
FINEST_GRID = 20  # 2^-20: counts up to 2^42 plus noise stay within 64-bit integers of grid steps
LARGEST_SIGMA = 2.0**42  # the largest count that a table holds
CHUNK = 2**18

# The quantile function is evaluated with a relative error near 1e-15; this is the slack in the
# quantile that is granted to it. Its only cost is how many draws go to ball arithmetic.
QUANTILE_SLACK = 1e-12

Entropy = Callable[[int], bytes]
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """A law of noise of unit scale, symmetric about 0.

    Parameters
    ----------
    name : str
        What it is called in print.
    variance : float
        Its variance.
    quantile : callable
        The x >= 0 that is exceeded with probability p <= 1/2, in floats.
    upper_tail : callable
        The probability beyond x >= 0, in ball arithmetic.
    simulate : callable
        Draws from a seeded generator, for simulation.

    Notes
    -----
    At the quantile of an upper tail p the density must be at least p / 1.3, which is what the
    sampler's slack grants.
    """

    name: str
    variance: float
    quantile: Callable[[Array], Array]
    upper_tail: Callable[[flint.arb], flint.arb]
    simulate: Callable[[np.random.Generator, int], Array]


GAUSSIAN = Law(
    name="Gaussian",
    variance=1.0,
    quantile=lambda p: np.asarray(-ndtri(p)),
    upper_tail=lambda x: (x / flint.arb(2).sqrt()).erfc() / 2,
    simulate=lambda rng, size: rng.standard_normal(size),
)

LAPLACE = Law(
    name="Laplace",
    variance=2.0,
    quantile=lambda p: -np.log(2 * p),
    upper_tail=lambda x: (-x).exp() / 2,
    simulate=lambda rng, size: rng.laplace(size=size),
)


def grid_exponent(sigma: float) -> int:
    """The smallest b >= 0 for which the grid 2^-b has at least 2^10 steps to a sigma.

    At most 20: a coarser grid than asked costs accuracy where sigma < 0.001, never privacy.

    Raises
    ------
    PrivacyError
        If sigma is above 2^42, where draws would not fit 64-bit integers.

    Examples
    --------
    >>> grid_exponent(1.0), grid_exponent(1e6)
    (10, 0)
    """
    if not sigma <= LARGEST_SIGMA:
        raise PrivacyError(
            f"The loss is so small that its noise, of standard deviation {sigma:.3g}, exceeds any "
            "count that a table can hold (2^42). Spend a larger mu, or release nothing."
        )
    steps = GRID_STEPS_PER_SIGMA.bit_length()
    return min(FINEST_GRID, max(0, steps - math.frexp(sigma)[1]))


def rounded_gaussian(
    size: int, sigma: float, exponent: int, *, entropy: Entropy = secrets.token_bytes
) -> npt.NDArray[np.int64]:
    """Independent draws of the integer nearest to sigma z 2^exponent, z standard normal.

    Parameters
    ----------
    size, sigma, exponent, entropy
        As in `rounded_noise`.

    Returns
    -------
    ndarray of int64, shape (size,)
        P(j) = Phi((j + 1/2) / s) - Phi((j - 1/2) / s), s = sigma 2^exponent, exactly.
        Variance s^2 + 1/12 to within exp(-2 pi^2 s^2).

    Examples
    --------
    >>> noise = rounded_gaussian(4, sigma=2.0, exponent=9)
    >>> noise.shape, noise.dtype
    ((4,), dtype('int64'))
    """
    return rounded_noise(GAUSSIAN, size, sigma, exponent, entropy=entropy)


def rounded_noise(
    law: Law, size: int, scale: float, exponent: int, *, entropy: Entropy = secrets.token_bytes
) -> npt.NDArray[np.int64]:
    """Independent draws of the integer nearest to scale x 2^exponent, x from the law.

    Parameters
    ----------
    law : Law
        `GAUSSIAN` or `LAPLACE`.
    size : int
        How many draws.
    scale : float
        The scale before rounding; taken as the exact dyadic number that it is.
    exponent : int
        The grid is 2^-exponent; a draw times the grid is the rounded noise.
    entropy : callable, optional
        Returns so many uniform bytes. Production code leaves it at the operating system's
        cryptographic generator; there is no seed.

    Returns
    -------
    ndarray of int64, shape (size,)
        P(j) = F((j + 1/2) / s) - F((j - 1/2) / s), s = scale 2^exponent and F the distribution
        function of the law, exactly.

    Examples
    --------
    >>> rounded_noise(LAPLACE, 4, scale=2.0, exponent=9).shape
    (4,)
    """
    steps = math.ldexp(scale, exponent)
    out = np.empty(size, dtype=np.int64)
    for start in range(0, size, CHUNK):
        stop = min(size, start + CHUNK)
        words = np.frombuffer(entropy(8 * (stop - start)), dtype=np.uint64)
        out[start:stop] = _from_words(words, steps, entropy, law)
    return out


def read_words(
    words: npt.NDArray[np.uint64], law: Law = GAUSSIAN
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_], Array, Array]:
    """The draws in words of 64 bits, as far as these bits tell.

    Returns
    -------
    numerator, negative, quantile, slack : ndarray, shape (size,)
        The draw is the upper quantile at some point of [numerator, numerator + 1) 2^-64, negated
        where ``negative``. That quantile is within ``slack`` of the float ``quantile``.
    """
    numerator = words >> np.uint64(1)
    negative = (words & np.uint64(1)).astype(np.bool_)
    middle = numerator.astype(np.float64) + 0.5
    quantile = law.quantile(np.ldexp(middle, -64))
    # For p < 1/2 the density at the quantile is at least sqrt(2/pi) p, so the interval is at most
    # sqrt(pi/2) / m wide (the Laplace density is p itself); at m = 0 it is unbounded and the draw
    # goes to ball arithmetic.
    with np.errstate(divide="ignore"):
        slack = 1.3 / numerator + QUANTILE_SLACK * (1 + quantile)
    return numerator, negative, quantile, slack


def _from_words(
    words: npt.NDArray[np.uint64], scale: float, entropy: Entropy, law: Law = GAUSSIAN
) -> npt.NDArray[np.int64]:
    numerator, negative, quantile, slack = read_words(words, law)
    steps = quantile * scale
    magnitude = np.rint(steps)
    doubtful = np.abs(np.abs(steps - magnitude) - 0.5) <= slack * scale
    out = np.where(doubtful, 0.0, magnitude).astype(np.int64)
    for i in np.flatnonzero(doubtful):
        out[i] = _decide(int(numerator[i]), 64, scale, entropy, law)
    np.negative(out, out=out, where=negative)
    return out


def _decide(numerator: int, bits: int, scale: float, entropy: Entropy, law: Law = GAUSSIAN) -> int:
    """The rounded magnitude of the draw in [numerator, numerator + 1) 2^-bits, to the last bit."""
    while True:
        numerator = (numerator << 64) | int.from_bytes(entropy(8), "little")
        bits += 64
        if numerator == 0:
            continue
        # One rounding boundary is near: find the grid point by the quantile, then test the
        # interval of probabilities against the exact boundaries on either side of it.
        with flint.ctx.workprec(bits + 128):
            low = flint.arb(numerator) * flint.arb(2) ** -bits
            high = flint.arb(numerator + 1) * flint.arb(2) ** -bits
            guess = float(law.quantile(np.asarray(float(low.mid())))) * scale
            for candidate in {max(0, round(guess) + shift) for shift in (-1, 0, 1)}:
                outer = law.upper_tail(flint.arb(2 * candidate + 1) / 2 / scale)
                inner = law.upper_tail(flint.arb(max(0, 2 * candidate - 1)) / 2 / scale)
                if bool(outer <= low) and bool(high <= inner):
                    return candidate
