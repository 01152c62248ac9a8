"""The Gaussian approximation to a released table: y ~ N(mu, Sigma) (METHODS 2.3).

Under a fitted model with cell means mu the released table has covariance
D_mu - mu mu'/n + D_v - v v'/V inside each stratum whose total n is public, V = sum v, and
D_mu + D_v where none is: sampling plus noise. Everything here is O(p).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from dpcontingency.inference.design import Design
from dpcontingency.inference.lowrank import DiagonalPlusLowRank, sum_by_stratum
from dpcontingency.inference.quotient import over

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

NO_INFORMATION = 1e-11  # of a column or direction, relative to the most informative one
NO_RECORD = 1e-6  # expected in a cell that a fit at the boundary sends to 0
ROUNDING = 1e-9  # of a residual in a cell that the model and the release both hold at 0


def score_statistic(
    residual: Array, fitted: Array, variances: Array, strata: Labels | None
) -> float:
    """The quadratic form x' Sigma^- x of a residual x = y - mu, less what no model can mend.

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
    statistic infinite. Of noisy cells that the model holds at 0 a larger model can raise the means
    and never lower them: `_irreparable` is the form of what is left at the best of those.
    """
    total = fitted + variances
    alive = total > 0
    if (np.abs(residual[~alive]) > ROUNDING).any():
        return np.inf
    safe = np.where(alive, total, 1.0)
    scaled = np.where(alive, residual / safe, 0.0)
    out = float(residual @ scaled) - _irreparable(residual, fitted, variances, strata)
    if strata is None:
        return out
    groups = int(strata.max()) + 1
    cross = np.bincount(strata, fitted * scaled, groups)
    shared = np.bincount(strata, np.where(alive, fitted * variances / safe, 0.0), groups)
    return out + float(np.sum(np.divide(cross**2, shared, out=np.zeros(groups), where=shared > 0)))


def _irreparable(residual: Array, fitted: Array, variances: Array, strata: Labels | None) -> float:
    """The least that the form can be when means of 0 are raised and others moved freely.

    Notes
    -----
    With r the residual left in the cells at 0, V' the noise variances of the other cells of a
    stratum added up, the form is sum r^2/v + (sum r)^2/V'; where no total is public the second term
    is absent. By the conditions of Kuhn and Tucker r = min(x, k v) with k V' + sum r = 0 (k = 0
    where no total is public), which Newton's steps solve for k exactly, as it is concave and made
    of straight lines.
    """
    at_zero = (fitted < NO_RECORD) & (variances > 0)
    if not at_zero.any():
        return 0.0
    x, v = residual[at_zero], variances[at_zero]
    if strata is None:
        return float(np.sum(np.minimum(x, 0.0) ** 2 / v))
    labels, groups = strata[at_zero], int(strata.max()) + 1
    others = np.bincount(strata, np.where(at_zero, 0.0, variances), groups)
    k, stays = np.zeros(groups), x < 0
    while True:
        rest = others + np.bincount(labels, np.where(stays, 0.0, v), groups)
        k = -over(np.bincount(labels, np.where(stays, x, 0.0), groups), rest)
        more = stays | (x < k[labels] * v)
        if (more == stays).all():
            break
        stays = more
    left = np.where(stays, x, k[labels] * v)
    shared = over(np.bincount(labels, left, groups) ** 2, others)
    return float(np.sum(left**2 / v) + np.sum(shared))


class GaussianScore(NamedTuple):
    """What the release says of the log rates: ``cells`` V Sigma^- (y - mu), shape (p,).

    ``tilt``, shape (G,), are the multipliers that make it sum to 0 in each stratum.
    """

    cells: Array
    tilt: Array


def gaussian_score(
    residual: Array, fitted: Array, variances: Array, strata: Labels | None
) -> GaussianScore:
    """The score V Sigma^- (y - mu) of the log rates, in the Gaussian approximation.

    Parameters
    ----------
    residual, fitted, variances : ndarray, shape (p,)
        y - mu, mu and v; with strata the residual sums to 0 in each.
    strata : ndarray of int or None
        The stratum of each cell, or None where no total is public.

    Notes
    -----
    With x = y - mu and a = mu + v it is mu (x - k v)/a, with one k a stratum such that it sums to
    0 (k = 0 where no total is public). Added to mu it is the expected count given the release.
    """
    weight = over(fitted, fitted + variances)
    if strata is None:
        return GaussianScore(weight * residual, np.zeros(0))
    groups = int(strata.max()) + 1
    surplus = sum_by_stratum(strata, weight * residual, groups)
    tilt = over(surplus, sum_by_stratum(strata, weight * variances, groups))
    return GaussianScore(weight * (residual - tilt[strata] * variances), tilt)


def nested_score_statistic(
    residual: Array,
    fitted: Array,
    variances: Array,
    strata: Labels | None,
    design: Design,
) -> float:
    """The score statistic of a fitted model against a larger one.

    Parameters
    ----------
    residual, fitted, variances : ndarray, shape (p,)
        y - mu, mu and v, at the fit of the smaller model.
    strata : ndarray of int or None
        The stratum of each cell, or None where no total is public.
    design : Design
        The free columns X1 of the larger model, whose strata are these.

    Returns
    -------
    float
        u' I1^- u with u = X1' V Sigma^- (y - mu) and I1 = X1' V Sigma^- V X1. Chi-square under
        the smaller model, on the difference of the ranks of the two designs. Against the
        saturated model it is `score_statistic`, and without noise Rao's score statistic.

    Notes
    -----
    METHODS 2.3. A generalised inverse: columns that are combinations of others, or belong to
    cells with fitted mean 0, change nothing. O(p) a pair of terms, and O(q^3).
    """
    dead = fitted + variances <= 0
    if (np.abs(residual[dead]) > ROUNDING).any():
        return np.inf
    score = design.tdot(gaussian_score(residual, fitted, variances, strata).cells)
    information = design.compress(gaussian_information(fitted, variances, strata))
    if not score.size:
        return 0.0
    scale = 1 / np.sqrt(np.maximum(np.diag(information), 1e-300))
    scale[np.diag(information) <= NO_INFORMATION * np.max(np.diag(information))] = 0.0
    values, vectors = eigh(information * np.outer(scale, scale))
    kept = values > NO_INFORMATION * values.max(initial=0.0)
    return float(np.sum((vectors[:, kept].T @ (scale * score)) ** 2 / values[kept]))


def gaussian_information(
    fitted: Array, variances: Array, strata: Labels | None
) -> DiagonalPlusLowRank:
    """What the released table says of the log rates, in the Gaussian approximation: V Sigma^- V.

    Parameters
    ----------
    fitted, variances : ndarray, shape (p,)
        Means mu and variances v of the independent noise.
    strata : ndarray of int or None
        The stratum of each cell where totals are public.

    Returns
    -------
    DiagonalPlusLowRank
        To be compressed by a design into the information about its coefficients.

    Notes
    -----
    V = D_mu - mu mu'/n and Sigma = V + D_v - v v'/sum(v) in each stratum (METHODS 2.3), or V = D_mu
    and Sigma = V + D_v where no total is public. With w = mu^2/(mu + v), e = mu v/(mu + v),
    W and H their sums, pi = mu/n and x = mu (u - pi'u), the O(p) form of x' Sigma^- x gives

        u' V Sigma^- V u = sum w (u - pi'u)^2 + ((H pi - e)'u)^2 / H,

    whose last term is absent without noise (e = 0, w = mu).
    """
    known = over(fitted**2, fitted + variances)
    if strata is None:
        labels = np.zeros(fitted.size, dtype=np.intp)
        return DiagonalPlusLowRank(known, np.empty((0, fitted.size)), np.empty((1, 0, 0)), labels)
    hidden = over(fitted * variances, fitted + variances)
    groups = int(strata.max()) + 1
    total, sum_known, sum_hidden = (
        sum_by_stratum(strata, part, groups) for part in (fitted, known, hidden)
    )
    share = over(fitted, total[strata])
    cores = np.zeros((groups, 3, 3))
    cores[:, 0, 1] = cores[:, 1, 0] = -1.0
    cores[:, 1, 1] = sum_known
    cores[:, 2, 2] = over(np.ones(groups), sum_hidden)
    vectors = np.stack([known, share, sum_hidden[strata] * share - hidden])
    return DiagonalPlusLowRank(known, vectors, cores, strata)
