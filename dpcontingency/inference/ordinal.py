"""Measures of association of two ordinal factors: from pairs of records that agree in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.estimates import FISHER, Estimate
from dpcontingency.inference.saturated import Side, TwoFactors, check_side, estimate, of_side
from dpcontingency.inference.scores import scores_of

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]


def gamma(
    release: AnyRelease,
    row: str,
    column: str,
    given: Sequence[str] = (),
    alpha: float = 0.05,
) -> Estimate:
    """Goodman and Kruskal's gamma: (C - D) / (C + D) of concordant and discordant pairs.

    Parameters
    ----------
    release, row, column, alpha
        As in `phi`; ordinal factors, or factors of two levels.
    given : sequence of str
        Factors to condition on: pairs are then counted inside their combinations and pooled
        (partial gamma, Davis 1967).

    Returns
    -------
    Estimate
        Delta method, interval on Fisher's z scale.

    Raises
    ------
    ModelError
        If a factor of three levels or more is not declared to be ordered.

    References
    ----------
    Goodman and Kruskal 1963; Agresti 2013, 2.4 and 3.4 for the standard error.

    Examples
    --------
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"dose": ["low", "mid", "high"], "ill": ["no", "yes"]}, ordered=["dose"])
    >>> gamma(Release.exact([[30, 10], [22, 18], [12, 28]], domain), "dose", "ill")
    <gamma of dose and ill: 0.5643 (se 0.11), 95 % interval 0.3124 to 0.742; ...>
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    pairs = _Pairs.of(about, "gamma")
    return estimate(
        about,
        "gamma",
        about.in_words,
        lambda m: pairs.difference(m) / pairs.untied(m),
        FISHER,
        "no pair of records differs in both factors",
    )


def kendall_tau_b(
    release: AnyRelease,
    row: str,
    column: str,
    given: Sequence[str] = (),
    alpha: float = 0.05,
) -> Estimate:
    """Kendall's tau-b: gamma with pairs tied on one factor in the denominator.

    Parameters
    ----------
    release, row, column, given, alpha
        As in `gamma`.

    Returns
    -------
    Estimate
        Delta method, interval on Fisher's z scale.

    Notes
    -----
    (C - D) / root of (pairs untied on the row) times (pairs untied on the column).

    Examples
    --------
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"dose": ["low", "mid", "high"], "ill": ["no", "yes"]}, ordered=["dose"])
    >>> kendall_tau_b(Release.exact([[30, 10], [22, 18], [12, 28]], domain), "dose", "ill")
    <tau-b of dose and ill: 0.3472 (se 0.0777), 95 % interval 0.1869 to 0.4894; ...>
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    pairs = _Pairs.of(about, "tau-b")
    return estimate(
        about,
        "tau-b",
        about.in_words,
        lambda m: pairs.difference(m) / np.sqrt(pairs.untied_rows(m) * pairs.untied_columns(m)),
        FISHER,
    )


def somers_d(
    release: AnyRelease,
    row: str,
    column: str,
    given: Sequence[str] = (),
    alpha: float = 0.05,
    *,
    dependent: Side = "column",
) -> Estimate:
    """Somers' d: (C - D) over the pairs that are not tied on the explaining factor.

    Parameters
    ----------
    release, row, column, given, alpha
        As in `gamma`.
    dependent : {"column", "row"}
        The factor that is explained; "column" as in `scipy.stats.somersd`.

    Returns
    -------
    Estimate
        Delta method, interval on Fisher's z scale.

    Examples
    --------
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"dose": ["low", "mid", "high"], "ill": ["no", "yes"]}, ordered=["dose"])
    >>> somers_d(Release.exact([[30, 10], [22, 18], [12, 28]], domain), "dose", "ill")
    <Somers' d (ill explained) of dose and ill: 0.3 (se 0.0672), ...>
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    check_side(dependent, ("row", "column"))
    pairs = _Pairs.of(about, "Somers' d")
    free = pairs.untied_rows if dependent == "column" else pairs.untied_columns
    return estimate(
        about, f"Somers' d ({of_side(about, dependent)})", about.in_words,
        lambda m: pairs.difference(m) / free(m), FISHER,
    )  # fmt: skip


class _Pairs:
    """Counts of ordered pairs of records in a group, all of degree 2 in the table.

    The sign of the difference of two levels' scores says whether a pair goes up, is tied or goes
    down; twice the number of concordant less discordant pairs is sum m (S m T'), S and T the signs.
    """

    def __init__(self, rows: Array, columns: Array) -> None:
        self._rows = np.sign(rows[None, :] - rows[:, None])
        self._columns = np.sign(columns[None, :] - columns[:, None])

    @classmethod
    def of(cls, about: TwoFactors, what: str) -> _Pairs:
        domain = about.domain
        return cls(*(scores_of(domain, name, what) for name in (about.row, about.column)))

    def difference(self, m: Numbers) -> Numbers:
        return self._count(m, self._rows, self._columns)

    def untied(self, m: Numbers) -> Numbers:
        return self._count(m, np.abs(self._rows), np.abs(self._columns))

    def untied_rows(self, m: Numbers) -> Numbers:
        return self._count(m, np.abs(self._rows), np.ones_like(self._columns))

    def untied_columns(self, m: Numbers) -> Numbers:
        return self._count(m, np.ones_like(self._rows), np.abs(self._columns))

    @staticmethod
    def _count(m: Numbers, rows: Array, columns: Array) -> Numbers:
        return np.asarray((m * (rows @ m @ columns.T)).sum(axis=(-1, -2, -3)))
