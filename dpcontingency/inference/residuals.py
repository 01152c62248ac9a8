"""Residuals whose scale allows for the noise of the release."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.kernels import cell_moments
from dpcontingency.inference.likelihood import NoisyTableLikelihood
from dpcontingency.inference.lowrank import sum_by_stratum
from dpcontingency.inference.quotient import over

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

ROUNDING = 1e-8  # of a variance


def cell_variances(fitted: Array, variances: Array, strata: Labels | None) -> Array:
    """The diagonal of Sigma: sampling and noise variance of each released cell."""
    out = fitted + variances
    if strata is None:
        return out
    groups = int(strata.max()) + 1
    for part in (fitted, variances):
        out = out - over(part**2, sum_by_stratum(strata, part, groups)[strata])
    return out


def adjusted_residuals(residual: Array, variance: Array, explained: Array) -> Array:
    """Residuals over the root of their variance: a cell's own less what the fit follows.

    nan where the fit follows the cell whatever the data are, so that nothing but rounding is left.
    """
    left = variance - explained
    alive = left > ROUNDING * variance
    return np.where(alive, residual / np.sqrt(np.where(alive, left, 1.0)), np.nan)


def deviance_residuals(noisy: Array, fitted: Array, variances: Array) -> Array:
    """Signed roots of twice what each cell's own log-likelihood lacks to its maximum.

    Notes
    -----
    The cell's log-likelihood of its rate is that of a Poisson count behind its own noise (the
    kernel's log weight); its maximum may be at rate 0. The sign is that of the best rate less the
    fitted one. Squares add up to the deviance where no total is public; where one is they leave
    out what the shared total says, which vanishes with the noise.
    """
    best = NoisyTableLikelihood(noisy, variances).saturated()
    with np.errstate(invalid="ignore"):
        lack = best.moments.log_weight - cell_moments(noisy, fitted, variances).log_weight
    return np.asarray(np.sign(best.fitted - fitted) * np.sqrt(2 * np.maximum(lack, 0.0)))
