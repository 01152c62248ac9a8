"""Which coefficients a normal approximation misleads about.

Where noise takes most of what a coefficient stands on, its likelihood is far from a parabola: a
Wald interval may hold 0 where the likelihood ratio is 100, and covers 0.88 to 0.99 of 0.95. There
the coefficient is held at values and everything else fitted anew.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# Of the noise's part of a standard error on the log scale: an error of half of the mean. Coverage
# of what is printed by this rule is measured in benchmarks/validity.py.
WIDE_ERROR = 0.5
# A row takes 40 to 100 fits. Of rows times (cells + OVERHEAD): ten seconds or so.
MOST_WORK, OVERHEAD = 12_000, 400


def is_wide(se: Array, sampling: Array) -> Mask:
    """Whether the noise's part of standard errors on the log scale is wide.

    Examples
    --------
    >>> is_wide(np.array([0.6, 0.6, 0.2]), np.array([0.1, 0.5, 0.1])).tolist()
    [True, False, False]
    """
    return np.asarray(np.maximum(se**2 - sampling**2, 0.0) > WIDE_ERROR**2)


def affordable(rows: int, cells: int) -> bool:
    """Whether the refits of so many rows are made unasked.

    Examples
    --------
    >>> affordable(20, 64), affordable(20, 1000), affordable(8, 1000)
    (True, False, True)
    """
    return rows * (cells + OVERHEAD) <= MOST_WORK
