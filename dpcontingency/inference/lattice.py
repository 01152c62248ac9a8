"""The probability that a lattice variable hits its mean, given its variance."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_PEAK_ROUNDS = 6
_WIDE = 2.5  # from this variance on the Gaussian density at the mean is exact to rounding
_NARROW = 1e-3  # up to this one, -1, 0 and 1 carry all the mass


def log_lattice_peak(variance: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Log probability that a lattice variable hits its mean, given its variance.

    The variable is taken to be discrete Gaussian, P(j) proportional to exp(-beta j^2). Then the
    value is -log(2 pi V) / 2 to 1e-16 from V = 2.5 on (a theta function identity), and
    log(1 - V) for small V, so that exact counts are a smooth limit.

    Parameters
    ----------
    variance : array_like of shape (G,)
        V, ``>= 0``.

    Returns
    -------
    value, first, second : ndarray of shape (G,)
        The log probability and its first two derivatives in V.
    """
    v = np.atleast_1d(np.asarray(variance, dtype=np.float64))
    wide = np.maximum(v, _WIDE)
    out = np.stack([-0.5 * np.log(2.0 * np.pi * wide), -0.5 / wide, 0.5 / wide**2])
    narrow = v < _NARROW
    rest = 1.0 - v[narrow]
    out[:, narrow] = np.log(rest), -1.0 / rest, -1.0 / rest**2
    between = ~narrow & (v < _WIDE)
    if between.any():
        out[:, between] = _theta(v[between])
    return out[0], out[1], out[2]


def _theta(v: Floats) -> tuple[Floats, Floats, Floats]:
    """The three numbers from sums over the lattice, at the beta whose variance is v."""
    j2 = np.arange(-16.0, 17.0)[:, None] ** 2
    beta = np.where(v > 0.25, 0.5 / v, -np.log(0.5 * v / (1 - 0.25 * v)))
    for _ in range(_PEAK_ROUNDS):
        weight = np.exp(-beta * j2)
        mass = weight.sum(axis=0)
        mean = (weight * j2).sum(axis=0) / mass
        spread = (weight * (j2 - mean) ** 2).sum(axis=0) / mass
        # Newton's step on log V, which is nearly linear in beta where V is small
        beta = beta + mean / spread * np.log(mean / v)
    skewness = (weight * (j2 - mean) ** 3).sum(axis=0) / mass
    # d log(mass) / d beta = -V, and d/d beta takes each cumulant of j^2 to minus the next
    return -np.log(mass), -mean / spread, (mean * skewness / spread**2 - 1.0) / spread
