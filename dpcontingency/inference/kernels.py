"""Moments of a count hidden behind Gaussian noise, cell by cell, in compiled code.

A cell holds an unseen count ``k`` with a Poisson(``rate``) law and is observed as
``y = k + N(0, variance)``. Given ``y`` the count has weights

    w_k = exp(-rate) rate^k / k! exp(-(y - k)^2 / (2 variance)),    k = 0, 1, 2, ...

Everything inference needs of a cell is the logarithm of their sum and four cumulants.
The log weight is concave in ``k``, so the work is a sum outward from the mode. A posterior
narrower than `_LATTICE_SD` is summed over the integers. A wider one is summed with a step of
`_STEP` posterior standard deviations over real ``k``: both are trapezoidal rules for the same
smooth integrand, whose error is super-exponentially small, so the cost per cell is bounded
whatever the counts and the noise.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

__all__ = ["CellMoments", "cell_moments", "log_poisson"]

Floats = NDArray[np.float64]

_LATTICE_SD = 10.0
_STEP = 0.75  # its error is exp(-2 pi^2 / 0.75^2), 6e-16
_NEGLIGIBLE = 1e-16
_TAIL = 1e-15  # the next node, three quarters of a standard deviation on, holds 1e-18
# Contraction (fused multiply-add) only ever removes a rounding.
_compiled = njit(cache=True, nogil=True, fastmath={"contract"})
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class CellMoments(NamedTuple):
    """What the data say about the hidden counts, one entry per cell."""

    log_weight: Floats
    mean: Floats
    variance: Floats
    third: Floats
    fourth: Floats


def cell_moments(y: ArrayLike, rate: ArrayLike, variance: ArrayLike) -> CellMoments:
    """Log marginal weight and first four cumulants of the hidden count of each cell.

    Parameters
    ----------
    y : array_like of float
        Noisy counts; any real numbers. Where `variance` is 0, the counts themselves (``>= 0``).
    rate : array_like of float
        Poisson rates, ``>= 0``. A rate of 0 says that the count is 0 with certainty.
    variance : array_like of float
        Noise variances, ``>= 0``. A variance of 0 says that the count is `y` with certainty.
        The three arguments broadcast to one dimension.

    Returns
    -------
    CellMoments
        ``log_weight``: log of the sum of the weights (the log density of `y` up to
        ``log(2 pi variance) / 2``). ``mean``, ``variance``, ``third``, ``fourth``: cumulants of
        the count given `y`. Their derivatives in log rate are a chain: that of ``log_weight`` is
        ``mean - rate``, and that of each cumulant is the next one.

    Examples
    --------
    >>> moments = cell_moments([3.2, -1.0], rate=2.5, variance=1.0)
    >>> moments.mean.round(4)
    array([2.9188, 0.4186])
    """
    columns = np.broadcast_arrays(np.atleast_1d(y), rate, variance)
    # Copies: contiguous and writable, whatever came, so that one compiled version serves all
    a, b, c = (np.array(column, dtype=np.float64, order="C") for column in columns)
    out = np.empty((5, a.size))
    _fill(a, b, c, out)
    return CellMoments(*out)


@_compiled
def _fill(y: Floats, rate: Floats, variance: Floats, out: Floats) -> None:
    for c in range(y.size):
        out[0, c], out[1, c], out[2, c], out[3, c], out[4, c] = _cell(y[c], rate[c], variance[c])


@_compiled
def fold_axis(cells: Floats, before: int, n: int, after: int) -> None:
    """Add all levels of the middle axis of a flat (before, n, after) array to its first level."""
    for b in range(before):
        first = b * n * after
        for j in range(1, n):
            level = first + j * after
            for a in range(after):
                cells[first + a] += cells[level + a]


@_compiled
def unfold_axis(cells: Floats, before: int, n: int, after: int) -> None:
    """Add the first level of the middle axis of a flat (before, n, after) array to the others."""
    for b in range(before):
        first = b * n * after
        for j in range(1, n):
            level = first + j * after
            for a in range(after):
                cells[level + a] += cells[first + a]


Five = tuple[float, float, float, float, float]


@_compiled
def _cell(y: float, rate: float, variance: float) -> Five:
    if variance == 0.0:
        return log_poisson(y, rate), y, 0.0, 0.0, 0.0
    if rate == 0.0:
        return -0.5 * y * y / variance, 0.0, 0.0, 0.0, 0.0
    log_rate = math.log(rate)
    if log_rate + (y - 0.5) / variance <= 0.0:  # w_1 <= w_0
        return _lattice(0.0, y, rate, log_rate, variance)
    z = _crossing(log_rate + (y + 0.5) / variance, variance)
    if 1.0 / variance + 1.0 / z > 1.0 / _LATTICE_SD**2:
        return _lattice(math.floor(z), y, rate, log_rate, variance)
    return _trapezoid(z, y, rate, log_rate, variance)


@_compiled
def _crossing(target: float, variance: float) -> float:
    """Solve log z + z / variance = target: where w(z) = w(z - 1), half a unit above the mode.

    In z / variance this is the Wright omega function; the fourth-order step of Fritsch, Shafer
    & Crowley (1973) reaches full precision in two rounds.
    """
    level = target - math.log(variance)
    x = level - math.log(level) if level > 1.0 else 1.0 / (1.0 + math.exp(-level))
    for _ in range(2):
        gap = level - x - math.log(x)
        slope = 2.0 * (1.0 + x) * (1.0 + x + 2.0 * gap / 3.0)
        x *= 1.0 + gap / (1.0 + x) * (slope - gap) / (slope - 2.0 * gap)
    return x * variance


@_compiled
def _lattice(mode: float, y: float, rate: float, log_rate: float, variance: float) -> Five:
    """Sum over the integers, outward from the mode, by the ratio of neighbouring weights."""
    up = log_rate - math.log(mode + 1.0) + (y - mode - 0.5) / variance
    while up > 0.0:  # rounding may have put the mode one off: ratios above 1 could overflow
        mode += 1.0
        up = log_rate - math.log(mode + 1.0) + (y - mode - 0.5) / variance
    down = -math.inf
    if mode > 0.0:
        down = math.log(mode) - log_rate - (y - mode + 0.5) / variance
        while down > 0.0:
            mode -= 1.0
            up = -down
            down = -math.inf
            if mode > 0.0:
                down = math.log(mode) - log_rate - (y - mode + 0.5) / variance
    shrink = math.exp(-1.0 / variance)

    s0, s1, s2, s3, s4 = 1.0, 0.0, 0.0, 0.0, 0.0
    weight, ratio, k, d = 1.0, math.exp(up), mode, 0.0
    while weight > _NEGLIGIBLE:
        weight *= ratio
        d += 1.0
        k += 1.0
        ratio *= shrink * (k / (k + 1.0))
        a, b = weight * d, d * d
        s0 += weight
        s1 += a
        s2 += weight * b
        s3 += a * b
        s4 += weight * b * b
    weight, ratio, k, d = 1.0, math.exp(down), mode, 0.0
    while weight > _NEGLIGIBLE and k > 0.0:
        weight *= ratio
        d -= 1.0
        k -= 1.0
        ratio *= shrink * (k / (k + 1.0))
        a, b = weight * d, d * d
        s0 += weight
        s1 += a
        s2 += weight * b
        s3 += a * b
        s4 += weight * b * b
    peak = log_poisson(mode, rate) - 0.5 * (y - mode) ** 2 / variance
    return _cumulants(peak, mode, 1.0, s0, s1, s2, s3, s4)


@_compiled
def _trapezoid(z: float, y: float, rate: float, log_rate: float, variance: float) -> Five:
    """Sum over an equispaced grid of real counts centred on the mode ``z - 1/2``.

    log k! = z log z - z - 1/(24 z) + ... with z = k + 1/2, so the log weight relative to the
    mode is a tilt (0 but for rounding), a deviance, a Stirling difference and a parabola.
    """
    mode = z - 0.5
    tilt = log_rate - math.log(z) + (y - mode) / variance
    sd = 1.0 / math.sqrt(1.0 / variance + 1.0 / z)
    step = _STEP * sd
    origin = _half_stirling(1.0 / z)
    half_precision = 0.5 / variance
    per_z = 1.0 / z

    s0, s1, s2, s3, s4 = 1.0, 0.0, 0.0, 0.0, 0.0
    for direction in (1.0, -1.0):
        j = 0.0
        while True:
            j += direction
            d = j * step
            if z + d < 1.0:  # the mode is above sd^2: nothing is left there
                break
            x = d * per_z
            both = 1.0 / ((1.0 + x) * (2.0 + x))  # one division for 1 / (1 + x) and x / (2 + x)
            deviance = z * _excess(x, x * (1.0 + x) * both) + d * d * half_precision
            stirling = _half_stirling(per_z * (2.0 + x) * both)
            weight = math.exp(tilt * d - deviance - (stirling - origin))
            a, b = weight * j, j * j
            s0 += weight
            s1 += a
            s2 += weight * b
            s3 += a * b
            s4 += weight * b * b
            if weight < _TAIL:
                break
    peak = log_poisson(mode, rate) - half_precision * (y - mode) ** 2
    return _cumulants(peak, mode, step, s0, s1, s2, s3, s4)


@_compiled
def _cumulants(
    peak: float, mode: float, step: float, s0: float, s1: float, s2: float, s3: float, s4: float
) -> Five:
    """Log sum and cumulants from power sums of grid positions (mode + position * step)."""
    m = s1 / s0
    r2, r3, r4 = s2 / s0, s3 / s0, s4 / s0
    c2 = r2 - m * m
    c3 = r3 - 3.0 * m * r2 + 2.0 * m**3
    c4 = r4 - 4.0 * m * r3 + 6.0 * m * m * r2 - 3.0 * m**4 - 3.0 * c2 * c2
    return (
        peak + math.log(s0 * step),
        mode + m * step,
        c2 * step**2,
        c3 * step**3,
        c4 * step**4,
    )


@_compiled
def log_poisson(k: float, rate: float) -> float:
    """Log Poisson probability of `k` (real, >= 0) at `rate`, in Loader's (2000) form.

    Never a difference of huge terms: a deviance, Stirling's error and half a logarithm.
    """
    if rate == 0.0:
        return 0.0 if k == 0.0 else -math.inf
    if k == 0.0:
        return -rate
    return -_deviance(k, rate) - _stirling(k) - 0.5 * math.log(k) - _HALF_LOG_2PI


@_compiled
def _deviance(k: float, rate: float) -> float:
    """Return k log(k / rate) + rate - k, without cancellation."""
    gap = k - rate
    if abs(gap) < 0.1 * (k + rate):
        u = gap / (k + rate)  # log(k / rate) = 2 atanh(u)
        total, term, n = gap * u, 2.0 * k * u, 1.0
        while True:
            term *= u * u
            n += 2.0
            refined = total + term / n
            if refined == total:
                return total
            total = refined
    quotient = k / rate
    log_quotient = math.log(quotient) if quotient < math.inf else math.log(k) - math.log(rate)
    return k * log_quotient - gap


@_compiled
def _excess(x: float, r: float) -> float:
    """Return (1 + x) log(1 + x) - x, for x > -1 and r = x / (2 + x), without cancellation."""
    if abs(x) > 0.3:
        return (1.0 + x) * math.log(1.0 + x) - x
    # log(1 + x) = 2 atanh(r) = 2 (r + r^3 t)
    q = r * r
    t = 1 / 11 + q * (1 / 13 + q * (1 / 15 + q * (1 / 17 + q * (1 / 19 + q / 21))))
    t = 1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * t)))
    return q * (2.0 + x) * (1.0 + (1.0 + r) * r * t)  # 1 - r = 2 / (2 + x)


@_compiled
def _stirling(k: float) -> float:
    """Return log k! - (k + 1/2) log k + k - log(2 pi) / 2, for real k > 0."""
    if k < 16.0:
        return math.lgamma(k + 1.0) - (k + 0.5) * math.log(k) + k - _HALF_LOG_2PI
    u = 1.0 / (k * k)
    return (1 / 12 - u * (1 / 360 - u * (1 / 1260 - u * (1 / 1680 - u / 1188)))) / k


@_compiled
def _half_stirling(r: float) -> float:
    """Return log (z - 1/2)! - z log z + z - log(2 pi) / 2, for r = 1 / z far below 1."""
    u = r * r
    return -r * (1 / 24 - u * (7 / 2880 - u * (31 / 40320)))
