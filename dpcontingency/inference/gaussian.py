"""The Gaussian approximation to a released table: y ~ N(mu, Sigma) (METHODS 2.3).

Under a fitted model with cell means mu the released table has covariance
D_mu - mu mu'/n + D_v - v v'/V inside each stratum whose total n is public, V = sum v, and
D_mu + D_v where none is: sampling plus noise. Everything here is O(p).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]


def score_statistic(
    residual: Array, fitted: Array, variances: Array, strata: Labels | None
) -> float:
    """The quadratic form x' Sigma^- x of a residual x = y - mu.

    Parameters
    ----------
    residual, fitted, variances : ndarray, shape (p,)
        y - mu, mu and v; with strata the residual sums to 0 in each.
    strata : ndarray of int or None
        The stratum of each cell, or None where no total is public.

    Returns
    -------
    float
        Pearson's X2 when there is no noise; the score statistic of Kifer and Rogers 2017 when
        the mean is fitted by minimum chi-square.

    Notes
    -----
    With a = mu + v and, in a stratum, pi = mu/n: sum x^2/a + n (sum pi x/a)^2 / sum(pi v/a).
    A cell with a = 0 is impossible under the model and known exactly; a residual there makes the
    statistic infinite.
    """
    total = fitted + variances
    alive = total > 0
    if (np.abs(residual[~alive]) > 1e-9).any():
        return np.inf
    safe = np.where(alive, total, 1.0)
    scaled = np.where(alive, residual / safe, 0.0)
    out = float(residual @ scaled)
    if strata is None:
        return out
    groups = int(strata.max()) + 1
    cross = np.bincount(strata, fitted * scaled, groups)
    shared = np.bincount(strata, np.where(alive, fitted * variances / safe, 0.0), groups)
    return out + float(np.sum(np.divide(cross**2, shared, out=np.zeros(groups), where=shared > 0)))
