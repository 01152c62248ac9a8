"""Arrays of cell values: as they come in, and as they are kept."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dpcontingency.errors import DomainError

T = TypeVar("T", bound=np.generic)


def unlabelled_array(values: Any) -> npt.NDArray[Any]:
    """Cell values as an array; labels and masks, which an array would drop, are refused.

    Raises
    ------
    DomainError
        If the values are a pandas object or a masked array.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise DomainError(
            "The cells come as a masked array, whose mask would be lost. Fill it first, and "
            "declare impossible cells in Domain(structural_zeros=...)."
        )
    if hasattr(values, "iloc"):
        raise DomainError(
            "The cells come as a pandas object, whose labels would be ignored. Put rows and "
            "columns in the domain's order and pass .to_numpy()."
        )
    return np.asarray(values)


def without_nan(values: npt.NDArray[Any], possible: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Numbers of a table, 0 in an impossible cell that holds NaN: nothing is said of it.

    Examples
    --------
    >>> without_nan(np.array([1.0, np.nan, np.nan]), np.array([True, False, True]))
    array([ 1.,  0., nan])
    """
    if values.dtype.kind != "f" or values.shape != possible.shape:
        return values
    return np.where(~possible & np.isnan(values), 0.0, values)


def read_only(values: npt.NDArray[T]) -> npt.NDArray[T]:
    """The same cells as an array that nobody can make writable, as a mere flag could be undone.

    Examples
    --------
    >>> read_only(np.arange(3)).setflags(write=True)
    Traceback (most recent call last):
    ValueError: cannot set WRITEABLE flag to True of this array
    """
    return np.asarray(memoryview(values).toreadonly())  # type: ignore[arg-type]
