"""Moments of a count hidden behind Gaussian noise, cell by cell, in compiled code.

A cell holds an unseen count ``k`` with a Poisson(``rate``) law and is observed as
``y = k + N(0, variance)``. Given ``y`` the count has weights

    w_k = exp(-rate) rate^k / k! exp(-(y - k)^2 / (2 variance)),    k = 0, 1, 2, ...

Everything inference needs of a cell is the logarithm of their sum and four cumulants.
The log weight is concave in ``k``. A narrow or skewed posterior is summed over the integers,
outward from the mode. One that is wide (from `_LATTICE_SD` standard deviations on, where sum and
integral over real ``k`` differ by less than exp(-2 pi^2 25)) and little skewed is a Gaussian times
a smooth factor near 1, and integrated by a Gauss-Hermite rule. A posterior is skewed only where
its count is small, so the cost per cell is bounded whatever the counts and the noise.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numba import get_num_threads, njit
from numpy.typing import ArrayLike, NDArray

__all__ = ["CellMoments", "cell_moments", "log_poisson"]

Floats = NDArray[np.float64]

_LATTICE_SD = 5.0
_SKEWED = 0.06  # sd / mode; up to here 20 nodes are exact to rounding, and lie within 0.46 modes
_NEGLIGIBLE = 1e-16
_CELLS_PER_THREAD = 2**15  # ten milliseconds of work
_NODES, _NODE_WEIGHTS = (array[10:] for array in np.polynomial.hermite_e.hermegauss(20))
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
    (size,) = np.broadcast_shapes((1,), np.shape(y), np.shape(rate), np.shape(variance))
    a, b, c = (_column(values, size) for values in (y, rate, variance))
    out = np.empty((5, a.size))
    n_parts = min(get_num_threads(), a.size // _CELLS_PER_THREAD)
    if n_parts <= 1:
        _fill(a, b, c, out, 0, a.size)
    else:  # cell by cell, so the number of threads changes no digit
        ends = [a.size * part // n_parts for part in range(n_parts + 1)]
        with ThreadPoolExecutor(n_parts) as pool:
            list(pool.map(lambda start, end: _fill(a, b, c, out, start, end), ends, ends[1:]))
    return CellMoments(*out)


def _column(values: ArrayLike, size: int) -> Floats:
    """Contiguous and writable, whatever came, so that one compiled version serves all."""
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (size,):
        column = np.broadcast_to(column, size)
    return np.require(column, requirements=["C", "A", "W"])


@_compiled
def _fill(y: Floats, rate: Floats, variance: Floats, out: Floats, start: int, end: int) -> None:
    for c in range(start, end):
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
    sd = 1.0 / math.sqrt(1.0 / variance + 1.0 / z)
    if sd < _LATTICE_SD or sd > _SKEWED * z:
        return _lattice(math.floor(z), y, rate, log_rate, variance)
    return _hermite(z, sd, y, rate, log_rate, variance)


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
def _hermite(z: float, sd: float, y: float, rate: float, log_rate: float, variance: float) -> Five:
    """Integrate over real counts by a Gauss-Hermite rule centred on the mode ``z - 1/2``.

    log k! = z log z - z - 1/(24 z) + ... with z = k + 1/2, so at k = mode + u sd, x = u sd / z,
    the log weight relative to the mode is -u^2/2 less z (x^4/12 + x^6/30 + ...), plus
    z (x^3/6 + x^5/20 + ...), a difference of Stirling's errors and a tilt (0 but for rounding).
    Nodes come in pairs u and -u, which share the even part of that and differ in the sign of the
    odd part: their weights are exp(even) (cosh odd +- sinh odd).
    """
    mode = z - 0.5
    tilt = (log_rate - math.log(z) + (y - mode) / variance) * sd
    r = 1.0 / z
    scale = sd * r
    origin = _half_stirling(r)

    s0, s1, s2, s3, s4 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(_NODES.size):
        u = _NODES[i]
        x = u * scale
        q = x * x
        a = 1 / 240 + q * (1 / 306 + q * (1 / 380 + q / 462))
        a = 1 / 12 + q * (
            1 / 30 + q * (1 / 56 + q * (1 / 90 + q * (1 / 132 + q * (1 / 182 + q * a))))
        )
        b = 1 / 272 + q * (1 / 342 + q / 420)
        b = 1 / 6 + q * (
            1 / 20
            + q * (1 / 42 + q * (1 / 72 + q * (1 / 110 + q * (1 / 156 + q * (1 / 210 + q * b)))))
        )
        shared = r / (1.0 - q)
        above, below = _half_stirling(shared - shared * x), _half_stirling(shared + shared * x)
        even = origin - 0.5 * (above + below) - z * q * q * a
        odd = 0.5 * (below - above) + z * q * x * b + tilt * u
        both = 2.0 * _NODE_WEIGHTS[i] * _exp(even)
        cosh, sinh = _cosh_sinh(odd)
        c, s, u2 = both * cosh, both * sinh * u, u * u
        s0 += c
        s1 += s
        s2 += c * u2
        s3 += s * u2
        s4 += c * u2 * u2
    peak = log_poisson(mode, rate) - 0.5 * (y - mode) ** 2 / variance
    return _cumulants(peak, mode, sd, s0, s1, s2, s3, s4)


@_compiled
def _exp(x: float) -> float:
    """Return exp(x) to rounding for |x| < 1, and roughly to |x| = 2 (at nodes without weight)."""
    t = 1 / 5040 + x * (1 / 40320 + x * (1 / 362880 + x * (1 / 3628800 + x / 39916800)))
    t = 1 / 6 + x * (1 / 24 + x * (1 / 120 + x * (1 / 720 + x * t)))
    return 1.0 + x * (1.0 + x * (1 / 2 + x * t))


@_compiled
def _cosh_sinh(x: float) -> tuple[float, float]:
    """Return cosh(x) and sinh(x), to rounding for |x| < 2, and roughly to |x| = 6."""
    p = x * x
    c = 1 / 3628800 + p * (1 / 479001600 + p * (1 / 87178291200 + p / 20922789888000))
    c = 1.0 + p * (1 / 2 + p * (1 / 24 + p * (1 / 720 + p * (1 / 40320 + p * c))))
    s = 1 / 39916800 + p * (1 / 6227020800 + p * (1 / 1307674368000 + p / 355687428096000))
    s = x * (1.0 + p * (1 / 6 + p * (1 / 120 + p * (1 / 5040 + p * (1 / 362880 + p * s)))))
    return c, s


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
    return -r * (1 / 24 - u * (7 / 2880 - u * (31 / 40320 - u * (127 / 215040))))
