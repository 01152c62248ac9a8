"""The inverse of an information matrix that may be singular."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

TINY = 1e-300  # in the place of a diagonal entry of 0
SINGULAR = 1e-13  # relative to the most informative direction, all coefficients at one scale


def generalised_inverse(information: Array) -> Array:
    """A generalised inverse: right for all combinations of coefficients that can be estimated.

    Parameters
    ----------
    information : ndarray, shape (q, q)
        Symmetric and nonnegative definite.

    Notes
    -----
    Each coefficient is first scaled to an information of 1, so that what counts as singular does
    not depend on units.

    Examples
    --------
    >>> import numpy as np
    >>> generalised_inverse(np.diag([4.0, 0.0])).tolist()
    [[0.25, 0.0], [0.0, 0.0]]
    """
    scale = 1 / np.sqrt(np.maximum(np.diag(information), TINY))
    inverse = np.linalg.pinv(information * np.outer(scale, scale), SINGULAR, hermitian=True)
    return np.asarray(inverse * np.outer(scale, scale), dtype=np.float64)
