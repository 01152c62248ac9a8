"""Measures of association of two factors, with intervals that cover sampling and noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpcontingency.errors import ModelError
from dpcontingency.inference import strength
from dpcontingency.inference.estimates import FISHER, LOGIT, Estimate
from dpcontingency.inference.risks import odds_ratio, relative_risk, risk_difference
from dpcontingency.inference.saturated import SaturatedTable, TwoFactors
from dpcontingency.inference.scores import scores_of
from dpcontingency.release.release import Release

__all__ = [
    "contingency_coefficient",
    "cramers_v",
    "gamma",
    "kendall_tau_b",
    "odds_ratio",
    "phi",
    "relative_risk",
    "risk_difference",
    "somers_d",
    "uncertainty_coefficient",
]

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]
Side = Literal["row", "column"]


def phi(
    release: Release,
    row: str,
    column: str,
    given: Sequence[str] = (),
    alpha: float = 0.05,
) -> Estimate:
    """The phi coefficient of two factors of two levels: their correlation, with its sign.

    Parameters
    ----------
    release : Release
        The noisy table; the measure works on its margin over the factors named.
    row, column : str
        Two factors of two levels; phi is positive where first levels go together.
    given : sequence of str
        Factors to condition on: phi is then the correlation within their combinations, pooled
        (sum of n_k cov_k over root of sum n_k var_k(row) times sum n_k var_k(column)), the partial
        correlation given their indicators.
    alpha : float
        1 - the level of the interval.

    Returns
    -------
    Estimate
        From noise-aware maximum likelihood of the cell probabilities; delta method, interval on
        Fisher's z scale.

    Raises
    ------
    ModelError
        If a factor has more than two levels, for which there is `cramers_v`.

    Notes
    -----
    Without noise the absolute value is Cramer's V: the root of Pearson's X2 over n.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> phi(Release.exact([[18, 32], [33, 17]], domain), "A", "B")
    <phi of A and B: -0.3001 (se 0.0954), 95 % interval -0.4739 to -0.1038; accounts for sampling>
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    if max(about.shape[1:]) > 2:
        raise ModelError(
            f"phi is for two factors of two levels, and this table is {about.shape[1]} x "
            f"{about.shape[2]}; use cramers_v."
        )

    def correlation(m: Numbers) -> Numbers:
        total = m.sum(axis=(-1, -2))
        ones = m.sum(axis=-1)[..., 0], m.sum(axis=-2)[..., 0]
        together = _over(m[..., 0, 0] * total - ones[0] * ones[1], total).sum(axis=-1)
        spread = [_over(one * (total - one), total).sum(axis=-1) for one in ones]
        return np.asarray(together / np.sqrt(spread[0] * spread[1]))

    return _estimate(about, "phi", about.in_words, correlation, FISHER)


def cramers_v(
    release: Release,
    row: str,
    column: str,
    given: Sequence[str] = (),
    alpha: float = 0.05,
    *,
    bias_corrected: bool = False,
) -> Estimate:
    """Cramer's V: the root of X2 / (n (min(rows, columns) - 1)), corrected for the noise.

    Parameters
    ----------
    release, row, column, alpha
        As in `phi`; any numbers of levels.
    given : sequence of str
        Factors to condition on: X2 is then the sum over their combinations (the statistic of
        conditional independence), so V^2 is the mean of the V_k^2, weighted by records.
    bias_corrected : bool
        Whether to take off what sampling adds too (Bergsma 2013).

    Returns
    -------
    Estimate
        The interval is that of the noncentrality divided by n (not of noncentrality + df), as in
        R's effectsize; it is widened to hold the estimate where it would not.

    Notes
    -----
    With e the table that independence makes of the fitted margins and y the noisy one, X2 =
    sum (y - e)^2 / e has expectation n V^2 (k - 1) + (what sampling adds) + tau, where tau =
    trace of D_e^-1 A N A' is due to the noise of covariance N, and A y is y - e(y) to first
    order. V is the root of (X2 - tau) / (n (k - 1)), or 0. The interval inverts the
    noncentral chi-square law of the noise-aware score statistic T (METHODS 2.3); along the
    direction of y - e a noncentrality lambda of T stands for n V^2 (k - 1) = lambda X2 / T.
    Without noise tau = 0 and T = X2, and all is classical.

    References
    ----------
    Cramer 1946, 21.9; Smithson 2003, "Confidence Intervals", for lambda / n; Bergsma 2013, J.
    Korean Statistical Society 42.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> v = cramers_v(Release.exact([[50, 70], [60, 35]], domain), "A", "B")
    >>> round(v.estimate, 6), [round(end, 6) for end in v.interval]
    (0.213512, [0.079834, 0.347181])
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    name = "Cramer's V, bias-corrected" if bias_corrected else "Cramer's V"
    return strength.measure(
        about, name, strength.bias_corrected_v if bias_corrected else strength.v
    )


def contingency_coefficient(
    release: Release,
    row: str,
    column: str,
    given: Sequence[str] = (),
    alpha: float = 0.05,
) -> Estimate:
    """Pearson's contingency coefficient: the root of X2 / (X2 + n), corrected for the noise.

    Parameters
    ----------
    release, row, column, given, alpha
        As in `cramers_v`, of which this is a function.

    Returns
    -------
    Estimate
        Between 0 and the root of (k - 1) / k, k the smaller number of levels.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.exact([[50, 70], [60, 35]], domain)
    >>> round(contingency_coefficient(release, "A", "B").estimate, 6)
    0.208806
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    return strength.measure(about, "contingency coefficient", strength.contingency)


def uncertainty_coefficient(
    release: Release,
    row: str,
    column: str,
    given: Sequence[str] = (),
    alpha: float = 0.05,
    *,
    dependent: Side | Literal["symmetric"] = "symmetric",
) -> Estimate:
    """Theil's uncertainty coefficient: the share of entropy that the other factor explains.

    Parameters
    ----------
    release, row, column, alpha
        As in `phi`; any numbers of levels.
    given : sequence of str
        Factors to condition on: the mutual information given them over the entropy given them.
    dependent : {"symmetric", "row", "column"}
        Which factor is explained; "symmetric" divides twice the mutual information by the sum of
        both entropies.

    Returns
    -------
    Estimate
        Delta method, interval on the logit scale.

    Notes
    -----
    (H(row) + H(column) - H(both)) / H(dependent). Near independence it is biased upward by
    sampling and by noise, as a square is.

    References
    ----------
    Theil 1970; Agresti 2013, 2.4.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.exact([[50, 70], [60, 35]], domain)
    >>> uncertainty_coefficient(release, "A", "B")
    <uncertainty coefficient (symmetric) of A and B: 0.03335 (se 0.0209), ...>
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    _check_side(dependent, ("symmetric", "row", "column"))

    def explained(m: Numbers) -> Numbers:
        axes: tuple[int, ...] = (-1, -2, -3)
        both = _entropy(m).sum(axis=axes)
        rows, columns = (_entropy(m.sum(axis=k)).sum(axis=(-1, -2)) for k in (-1, -2))
        groups = _entropy(m.sum(axis=(-1, -2))).sum(axis=-1)
        shared = rows + columns - both - groups
        whole = {
            "row": rows - groups,
            "column": columns - groups,
            "symmetric": (rows + columns) / 2 - groups,
        }
        return np.asarray(shared / whole[dependent])

    return _estimate(
        about, f"uncertainty coefficient ({_of_side(about, dependent)})", about.in_words,
        explained, LOGIT,
    )  # fmt: skip


def gamma(
    release: Release,
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
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"dose": ["low", "mid", "high"], "ill": ["no", "yes"]}, ordered=["dose"])
    >>> gamma(Release.exact([[30, 10], [22, 18], [12, 28]], domain), "dose", "ill")
    <gamma of dose and ill: 0.5643 (se 0.11), 95 % interval 0.3124 to 0.742; ...>
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    pairs = _Pairs.of(about, "gamma")
    return _estimate(
        about,
        "gamma",
        about.in_words,
        lambda m: pairs.difference(m) / pairs.untied(m),
        FISHER,
        "no pair of records differs in both factors",
    )


def kendall_tau_b(
    release: Release,
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
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"dose": ["low", "mid", "high"], "ill": ["no", "yes"]}, ordered=["dose"])
    >>> kendall_tau_b(Release.exact([[30, 10], [22, 18], [12, 28]], domain), "dose", "ill")
    <tau-b of dose and ill: 0.3472 (se 0.0777), 95 % interval 0.1869 to 0.4894; ...>
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    pairs = _Pairs.of(about, "tau-b")
    return _estimate(
        about,
        "tau-b",
        about.in_words,
        lambda m: pairs.difference(m) / np.sqrt(pairs.untied_rows(m) * pairs.untied_columns(m)),
        FISHER,
    )


def somers_d(
    release: Release,
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
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"dose": ["low", "mid", "high"], "ill": ["no", "yes"]}, ordered=["dose"])
    >>> somers_d(Release.exact([[30, 10], [22, 18], [12, 28]], domain), "dose", "ill")
    <Somers' d (ill explained) of dose and ill: 0.3 (se 0.0672), ...>
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    _check_side(dependent, ("row", "column"))
    pairs = _Pairs.of(about, "Somers' d")
    free = pairs.untied_rows if dependent == "column" else pairs.untied_columns
    return _estimate(
        about, f"Somers' d ({_of_side(about, dependent)})", about.in_words,
        lambda m: pairs.difference(m) / free(m), FISHER,
    )  # fmt: skip


# ------------------------------------------------------------------ parts


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


def _estimate(
    about: TwoFactors, name: str, of: str, measure: Any, scale: Any, empty: str = ""
) -> Estimate:
    """A measure of the saturated table, or the reason why it has none."""
    reason = about.one_level()
    if reason:
        return about.undefined(name, of, reason)
    table = SaturatedTable.fit(about)
    reason = table.records()
    if reason:
        return about.undefined(name, of, reason)
    constant = f"{about.row} or {about.column} does not vary where records can be compared"
    return table.estimate(name, of, measure, scale, empty or constant)


def _entropy(m: Numbers) -> Numbers:
    """Entropy terms -m log m, up to what cancels in differences; a cell of 0 stays 0."""
    alive = m.real > 0
    return np.where(alive, -m * np.log(np.where(alive, m, 1.0)), 0.0)


def _over(a: Numbers, b: Numbers) -> Numbers:
    """Return a / b, and 0 where b is 0."""
    alive = b.real != 0
    return np.where(alive, a / np.where(alive, b, 1.0), 0.0)


def _check_side(dependent: str, known: tuple[str, ...]) -> None:
    if dependent not in known:
        raise ModelError(
            f"dependent says which factor is explained, one of {', '.join(map(repr, known))}; got "
            f"{dependent!r}."
        )


def _of_side(about: TwoFactors, dependent: str) -> str:
    if dependent == "symmetric":
        return dependent
    return f"{about.row if dependent == 'row' else about.column} explained"
