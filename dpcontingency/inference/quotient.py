"""Quotients where nothing over nothing is nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]  # real, or complex where a derivative is taken by a complex step


def over(a: Numbers, b: Numbers) -> Numbers:
    """Return a / b, and 0 where b (its real part) is 0.

    Parameters
    ----------
    a, b : ndarray
        Real or complex, of shapes that broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> over(np.array([3.0, 0.0]), np.array([2.0, 0.0])).tolist()
    [1.5, 0.0]
    """
    out = np.zeros(np.broadcast(a, b).shape, np.result_type(a, b, float))
    return np.divide(a, b, out=out, where=np.real(b) != 0)
