"""How numbers are printed in a report: digits, shares, spreads."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.printing import number_text

Array = npt.NDArray[np.float64]


def digits_for(spread: Array, values: Array) -> int:
    """Decimals of a printed cell: two digits of its noise, or as few as exact cells need.

    Examples
    --------
    >>> digits_for(np.array([14.1]), np.array([31.234])), digits_for(np.zeros(2), np.ones(2))
    (0, 0)
    """
    noisy = spread[spread > 0]
    if not noisy.size:
        return 0 if np.allclose(values, np.rint(values), rtol=0, atol=1e-6) else 2
    return int(np.clip(1 - math.floor(math.log10(float(noisy.min()))), 0, 4))


def spread(sd: float) -> str:
    """A standard deviation with three digits.

    Examples
    --------
    >>> spread(1.41421), spread(0.0), spread(12345.6)
    ('1.41', '0', '12,346')
    """
    if sd >= 1000 or sd == 0:
        return f"{sd:,.0f}"
    return f"{sd:#.3g}".rstrip(".")


def fixed(value: float, digits: int) -> str:
    """A number with so many decimals, and no minus before a 0.

    Examples
    --------
    >>> fixed(-1234.567, 1), fixed(-0.001, 1)
    ('-1,234.6', '0.0')
    """
    return f"{value:z,.{digits}f}"


def ratio(value: float) -> str:
    """A ratio with three digits, such as an odds ratio; open ends too.

    Examples
    --------
    >>> ratio(1.23456), ratio(0.0), ratio(math.inf), ratio(12345.6), ratio(1e25), ratio(math.nan)
    ('1.23', '0', '∞', '12,346', '1e+25', 'unknown')
    """
    if math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "∞"
    if value >= 1e6:
        return f"{value:.3g}"
    if value >= 1000:
        return f"{value:,.0f}"
    return "0" if value == 0 else f"{value:#.3g}".rstrip(".")


def end(value: float, se: float) -> str:
    """An end of the interval of a coefficient; open ones too.

    Examples
    --------
    >>> end(-0.12345, 0.5), end(-math.inf, 0.5)
    ('-0.123', '−∞')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return number_text(value, se, 3)
