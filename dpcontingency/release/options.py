"""The options of a mechanism: names, or public numbers held as a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpcontingency._arrays import read_only
from dpcontingency.errors import PrivacyError, did_you_mean, shown

Array = npt.NDArray[np.float64]


class PublicArray:
    """Public numbers as part of a mechanism: immutable, hashable, equal by value.

    Parameters
    ----------
    values : array_like of float
        Finite numbers; copied.
    """

    __slots__ = ("values",)

    values: Array

    def __init__(self, values: npt.ArrayLike) -> None:
        array = np.array(values, dtype=np.float64) + 0.0  # -0.0 equals 0.0, to the hash too
        object.__setattr__(self, "values", read_only(array))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("A PublicArray is immutable.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicArray) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.values.shape, self.values.tobytes()))

    def __reduce__(self) -> tuple[type[PublicArray], tuple[Array]]:
        return type(self), (self.values,)

    def __repr__(self) -> str:
        return f"<{' x '.join(map(str, self.values.shape))} array>"

    def tolist(self) -> list[Any]:
        """Return the numbers as nested lists."""
        return list(self.values.tolist())


def plain(option: Any) -> Any:
    """Return an option as JSON can hold it."""
    return option.tolist() if isinstance(option, PublicArray) else option


def name_or_array(
    option: str, value: str | npt.ArrayLike | PublicArray, names: tuple[str, ...]
) -> str | PublicArray:
    """Return an option that is one of some names or an array, checked.

    Raises
    ------
    PrivacyError
        If it is neither.
    """
    if isinstance(value, str):
        return require(option, value, names)
    if isinstance(value, PublicArray):
        return value
    try:
        array = PublicArray(value)
    except (TypeError, ValueError):
        array = PublicArray(np.nan)
    if not array.values.size or not array.values.ndim or not np.isfinite(array.values).all():
        raise PrivacyError(
            f"The {option} is one of {', '.join(map(repr, names))}, or an array of finite numbers, "
            f"0 in structural zeros; got a {type(value).__name__}."
        )
    return array


def require(option: str, value: str, names: tuple[str, ...]) -> str:
    """Return an option that is one of some names, checked.

    Raises
    ------
    PrivacyError
        If it is not.
    """
    if not isinstance(value, str) or value not in names:
        raise PrivacyError(
            f"There is no {option} {shown(value)}; {did_you_mean(str(value), names)}"
        )
    return value
