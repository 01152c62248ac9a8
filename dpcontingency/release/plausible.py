"""Whether numbers made elsewhere can be what they are said to be: noisy counts, and their total.

A number is refused where chance gives it once in a million tables or less, and warned of where it
does so a hundred times as often.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import numpy.typing as npt

from dpcontingency.errors import PlausibilityWarning, ReleaseError

Array = npt.NDArray[np.float64]

REFUSED, WARNED = 5.0, 4.0  # standard deviations of the noise, of a single number
DIGITS = 6  # decimals to which shares are published
NEAR = 0.02  # how far rounded shares are from their sum at most, relatively
ROUNDING = 1e-9
CLAMPED = 14.0  # minus the log of the chance that clamping is suspected where there was none


def limit(single: float, count: int) -> float:
    """How many standard deviations the largest of some numbers may be away, for those of one.

    The chance that any of ``count`` normal numbers is further away is no more than that of a single
    one: the normal tail falls faster than exp(-x^2 / 2).

    Examples
    --------
    >>> limit(5.0, 1), round(limit(5.0, 1000), 2)
    (5.0, 6.23)
    """
    return math.sqrt(single**2 + 2 * math.log(max(count, 1)))


def check_shares(values: Array, *, exact: bool, n_total: float | None = None) -> None:
    """Refuse proportions and percentages in the place of counts.

    Parameters
    ----------
    values : ndarray
        The cells that can hold records.
    exact : bool
        Whether there is no noise, which could make the sum what it is.
    n_total : float, optional
        The number of records, where it is stated.

    Raises
    ------
    ReleaseError
        If the cells are proportions, or exact ones percentages. What may be counts after all is
        warned of.
    """
    total = float(values.sum())
    for whole, what, by in ((1.0, "proportions", "n"), (100.0, "percentages", "n / 100")):
        near = abs(total - whole) <= NEAR * whole and n_total != whole
        if not near or (values < 0).any() or (values > whole).any() or _decimals(values) == 0:
            continue
        slack = values.size * 0.5 * 10.0 ** -_decimals(values)
        adds_up = abs(total - whole) <= ROUNDING * whole
        if not adds_up and abs(total - whole) > slack + ROUNDING:
            continue
        found = f"No cell is below 0, and all add up to {total:.6g}: these look like {what}"
        advice = f"Multiply them by {by}, n being the number of records"
        if (adds_up and exact) or (whole == 1 and (adds_up or exact)):
            own = ""
            if whole > 1:
                own = (
                    "; weighted counts of 100 records in all enter by Release.from_noisy_table("
                    "values, domain, sigma=0, n_total=100)"
                )
            raise ReleaseError(f"{found}, and a table of counts is needed. {advice}{own}.")
        _warn(f"{found}. {advice}, if they are.")


def check_cells(noisy: Array, sd: Array) -> None:
    """Warn of cells that look clamped at 0.

    Parameters
    ----------
    noisy, sd : ndarray
        The cells that can hold records, and the standard deviations of their noise.

    Notes
    -----
    A cell of a count c up to 3 standard deviations s, s at least 1, is below 0 at least 0.1 s times
    as often as it is 0 after rounding to a whole number: where none of z cells is below 0 although
    z are 0, chance has had at most a probability of (1 + 0.1 s)^-z to spare the others.
    """
    zeros = (noisy == 0) & (sd >= 1)
    if not (noisy < 0).any() and np.log1p(0.1 * sd[zeros]).sum() > CLAMPED:
        _warn(
            f"No cell is below 0 although {int(zeros.sum()):,} are exactly 0, which noise of this "
            "standard deviation hardly gives: the table looks clamped at 0. Sums and tests of it "
            "are then biased; ask the publisher for the table before clamping."
        )


def _decimals(values: Array) -> float:
    """To how many decimals numbers are written; infinity where to more than anyone prints."""
    for digits in range(DIGITS + 1):
        scaled = values * 10.0**digits
        if np.allclose(scaled, np.rint(scaled), rtol=0, atol=1e-6):
            return digits
    return math.inf


def _warn(text: str) -> None:
    # The caller of the classmethod that asked.
    warnings.warn(text, PlausibilityWarning, stacklevel=4)
