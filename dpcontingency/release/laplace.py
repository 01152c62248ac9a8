"""How much Laplace noise mu-GDP takes, exactly.

The trade-off curve of Laplace noise is not that of any pair of Gaussians, so its mu is the one
whose Gaussian curve touches it from below.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.special import ndtri_exp

from dpcontingency._language import phrase
from dpcontingency.errors import PrivacyError
from dpcontingency.privacy.gdp import GDP, float_up, last_certified
from dpcontingency.privacy.neighbours import ADD_REMOVE, REPLACE_ONE

MAX_MU = 100.0  # beyond, the search below would need a finer grid, and nothing is protected
GRID = 2048
# More than the error of ndtri_exp and its argument, relative to 1 + mu.
SLACK = 1e-12


def laplace_scale(privacy: GDP, relation: str) -> float:
    """Return the smallest b for which Laplace(b) noise on every cell is mu-GDP, rounded up.

    Parameters
    ----------
    privacy : GDP
        The loss to spend.
    relation : {"replace-one", "add-remove"}
        Neighbouring tables differ by 1 in two cells, or in one.

    Raises
    ------
    PrivacyError
        If mu is above 100.

    Examples
    --------
    >>> round(laplace_scale(GDP(1), "replace-one"), 6)
    1.358905
    """
    if privacy.mu > MAX_MU:
        raise PrivacyError(
            f"Laplace noise is calibrated up to mu = {MAX_MU:g}, which protects nothing already; "
            f"got {privacy.mu:g}. Choose a smaller mu, or "
            f"{phrase('Gaussian()', '--mechanism Gaussian')}, which takes any."
        )
    level = LEVELS[relation]
    # Noise of inverse scale s is (2 s, 0)-DP, hence mu-GDP for mu = -2 Phi^-1(1 / (1 + e^(2s))),
    # which is below 2.6 s: this much s is safe without a computation.
    safe = privacy.mu / 2.6
    if safe == 0:
        return math.inf  # as the inverse of a number below the smallest float
    unsafe = 2 * safe
    while level(unsafe) <= privacy.mu:
        unsafe *= 2
    s = last_certified(safe, unsafe, lambda s: level(s) <= privacy.mu)
    return float_up(1 / Fraction(s))


def two_cell_level(s: float) -> float:
    """Return the mu of Laplace(1/s) noise on two cells that move by 1 each, never understated.

    Parameters
    ----------
    s : float
        The inverse scale, positive.

    Returns
    -------
    float
        max over 0 <= w <= s of h(w) = -Phi^-1((1+w) e^(w-2s) / 4) - Phi^-1((3+w) e^-w / 4), the two
        arguments the errors of the test that rejects at a log-likelihood ratio of 2 (s - w)
        (METHODS 1.3; the comparison of arXiv 2211.15019).

    Notes
    -----
    The first argument is at most 1/4 and the second at most 3/4; on that range |h''| < 8. So h
    exceeds its values on a grid of step g that holds 0 and s by at most g^2, and only where a
    value comes that near the largest can the maximum lie. The search narrows to there.
    """
    low, high = 0.0, s
    while True:
        w, step = np.linspace(low, high, GRID, retstep=True)
        h = -ndtri_exp(np.log1p(w) + w - 2 * s - math.log(4)) - ndtri_exp(np.log((3 + w) / 4) - w)
        best, excess = float(h.max()), float(step) ** 2
        if excess <= SLACK * best / 2:
            return best + excess + SLACK * (1 + best)
        near = w[h >= best - excess]
        low, high = max(low, near[0] - step), min(high, near[-1] + step)


def one_cell_level(s: float) -> float:
    """Return the mu of Laplace(1/s) noise on one cell that moves by 1, never understated.

    Notes
    -----
    Between the means the errors are e^-x / 2 and e^(x-s) / 2, 0 <= x <= s. Because
    -Phi^-1(e^-x / 2) is concave in x (its slope is Mills' ratio, which falls), the sum of the two
    quantiles is largest at x = s / 2: mu = -2 Phi^-1(e^(-s/2) / 2).
    """
    mu = -2 * float(ndtri_exp(-s / 2 - math.log(2)))
    return mu + SLACK * (1 + mu)


LEVELS = {REPLACE_ONE: two_cell_level, ADD_REMOVE: one_cell_level}
