"""Which coefficients a normal approximation misleads about, and what is said of them instead.

Where noise takes most of what a coefficient stands on, its likelihood is far from a parabola: a
Wald interval may hold 0 where the likelihood ratio is 100, and covers 0.88 to 0.99 of 0.95. There
the coefficient is held at values and everything else fitted anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# Of the noise's part of a standard error on the log scale: an error of half of the mean. Coverage
# of what is printed by this rule is measured in benchmarks/validity.py.
WIDE_ERROR = 0.5
# A row takes 40 to 100 fits: half a second where cells are few.
MAX_ROWS, MAX_CELLS = 24, 1024


def is_wide(se: Array, sampling: Array) -> Mask:
    """Whether the noise's part of standard errors on the log scale is wide.

    Examples
    --------
    >>> is_wide(np.array([0.6, 0.6, 0.2]), np.array([0.1, 0.5, 0.1])).tolist()
    [True, False, False]
    """
    return np.asarray(np.maximum(se**2 - sampling**2, 0.0) > WIDE_ERROR**2)


def affordable(rows: int, cells: int) -> bool:
    """Whether the refits of so many rows are made unasked."""
    return rows <= MAX_ROWS and cells <= MAX_CELLS


def coefficient_frame(
    results: Any, alpha: float, places: npt.NDArray[np.intp], refit: bool | None
) -> pd.DataFrame:
    """The frame of `CoefficientResults.coefficients`, for coefficients at some places."""
    model, lost = results.model, results.params[~np.isfinite(results.params)].index
    se, sampling = (results.bse * model._units).abs(), (results.bse_sampling * model._units).abs()
    wide = is_wide(se.to_numpy(), sampling.to_numpy()) | results.params.index.isin(lost)
    if refit is None:
        refit = affordable(int(wide.sum()), model.space.size)
    half = stats.norm.isf(alpha / 2) * results.bse
    frame = pd.DataFrame(
        {
            "estimate": results.params,
            "se_sampling": results.bse_sampling,
            "se_privacy": results.bse_privacy,
            "se": results.bse,
            "z": results.tvalues,
            "pvalue": results.pvalues,
            "lower": results.params - half,
            "upper": results.params + half,
            "privacy_share": results.privacy_share,
            "method": np.where(wide, "", "wald").astype(object),
        }
    )
    tested = ["z", "pvalue", "lower", "upper", "method"]
    frame.loc[wide, tested[:-1]] = np.nan
    method = results.refit_method if refit else ""
    for j in filter(wide.__getitem__, places if method else ()):
        held = results.held(int(j), alpha, method)
        frame.loc[frame.index[j], tested] = [
            held.z, 2 * stats.norm.sf(abs(held.z)), held.lower, held.upper, held.method,
        ]  # fmt: skip
    return frame.iloc[places]
