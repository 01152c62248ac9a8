"""Measures of association of two factors, with intervals that cover sampling and noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpcontingency.errors import ModelError
from dpcontingency.inference import strength
from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.estimates import FISHER, ROOT, Estimate
from dpcontingency.inference.ordinal import gamma, kendall_tau_b, somers_d
from dpcontingency.inference.quotient import over
from dpcontingency.inference.risks import odds_ratio, relative_risk, risk_difference
from dpcontingency.inference.saturated import Side, TwoFactors, check_side, estimate, of_side

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


def phi(
    release: AnyRelease,
    row: str,
    column: str,
    given: Sequence[str] = (),
    alpha: float = 0.05,
) -> Estimate:
    """The phi coefficient of two factors of two levels: their correlation, with its sign.

    Parameters
    ----------
    release : Release or MarginRelease
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
        From noise-aware maximum likelihood of the cell probabilities, standard error by the delta
        method. The interval is by profile likelihood, as in `risk_difference`.

    Raises
    ------
    ModelError
        If a factor has more than two levels, for which there is `cramers_v`.

    Notes
    -----
    Without noise the absolute value is Cramer's V: the root of Pearson's X2 over n.

    Examples
    --------
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> phi(Release.exact([[18, 32], [33, 17]], domain), "A", "B")
    <phi of A and B: -0.3001 (se 0.0954), 95 % interval -0.4777 to -0.1072; accounts for sampling>
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    if max(about.shape[1:]) > 2:
        raise ModelError(
            f"phi is for two factors of two levels, and this table is {about.shape[1]} x "
            f"{about.shape[2]}; use cramers_v."
        )

    def correlation(m: Numbers) -> Numbers:
        total = m.sum(axis=(-1, -2))
        crossed = m[..., 0, 0] * m[..., 1, 1] - m[..., 0, 1] * m[..., 1, 0]
        spread = [
            over(side[..., 0] * side[..., 1], total).sum(axis=-1)
            for side in (m.sum(axis=-1), m.sum(axis=-2))
        ]
        return np.asarray(over(crossed, total).sum(axis=-1) / np.sqrt(spread[0] * spread[1]))

    return estimate(about, "phi", about.in_words, correlation, FISHER, by_likelihood=True)


def cramers_v(
    release: AnyRelease,
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
        With noise the interval holds the values that a test of each does not reject, the estimate
        among them; its ends are simulated, to some thousandths, and the same for the same release.
        Without noise it is that of the noncentrality divided by n (not of noncentrality + df), as
        in R's effectsize, widened to hold the estimate where it would not.

    Notes
    -----
    A noncentrality would take every direction of departure from independence to be seen equally
    well. Noise hides the part of a rare level, so that each value is tested at the table nearest
    to the release among those that have it (METHODS 2.6): the statistic is the noise-aware score
    statistic (2.3) of the released table without its negative cells, and its law that of tables
    simulated there. The estimate is the value at which noise alone puts the statistic above and
    below with even odds. Without noise the statistic is X2, and all is classical.

    References
    ----------
    Cramer 1946, 21.9; Smithson 2003, "Confidence Intervals", for lambda / n; Bergsma 2013, J.
    Korean Statistical Society 42.

    Examples
    --------
    >>> from dpcontingency import Domain, Release
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
    release: AnyRelease,
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
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.exact([[50, 70], [60, 35]], domain)
    >>> round(contingency_coefficient(release, "A", "B").estimate, 6)
    0.208806
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    return strength.measure(about, "contingency coefficient", strength.contingency)


def uncertainty_coefficient(
    release: AnyRelease,
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
        Estimate and interval are made as for `cramers_v`. Without noise the interval is that of
        the noncentrality, never narrower than the delta method's and widened to hold the estimate
        where it would not.

    Notes
    -----
    U = (H(row) + H(column) - H(both)) / H(dependent). Near independence it is biased upward by
    sampling and by noise, as a square is, and no normal law holds: without noise 2 n H(dependent)
    U is then X2, whose score statistic T has a noncentral chi-square law. So the
    noncentralities lambda that T does not rule out stand for U = lambda (X2 / T) U(m) / X2(m),
    m the fitted table, which is lambda / (2 n H) near independence without noise. Further off
    the root of U varies by another amount than that of lambda: where the delta method (a cell
    that the fit leaves at 0 adds nothing to it) says more, the interval is stretched by the
    ratio on the scale of the root, about its median-unbiased middle. In a table with structural
    zeros the interval is the delta method's on the scale of the arcsine of the root.

    References
    ----------
    Theil 1970; Agresti 2013, 2.4; Smithson 2003, "Confidence Intervals", for lambda / n.

    Examples
    --------
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.exact([[50, 70], [60, 35]], domain)
    >>> uncertainty_coefficient(release, "A", "B")
    <uncertainty coefficient (symmetric) of A and B: 0.03335 (se 0.0209), ...>
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    check_side(dependent, ("symmetric", "row", "column"))

    def entropies(m: Numbers) -> tuple[Numbers, Numbers]:
        """Mutual information and the entropy that is explained, both times the records."""
        axes: tuple[int, ...] = (-1, -2, -3)
        both = _entropy(m).sum(axis=axes)
        rows, columns = (_entropy(m.sum(axis=k)).sum(axis=(-1, -2)) for k in (-1, -2))
        groups = _entropy(m.sum(axis=(-1, -2))).sum(axis=-1)
        whole = {"row": rows, "column": columns, "symmetric": (rows + columns) / 2}
        return np.asarray(rows + columns - both - groups), np.asarray(whole[dependent] - groups)

    def square(m: Array) -> tuple[Array, Array]:
        """The coefficient of tables, shape (B, K, r, c), and its gradient."""
        rows, columns, group = (m.sum(axis=k, keepdims=True) for k in (-1, -2, (-1, -2)))
        ratios = {"row": over(group, rows), "column": over(group, columns)}
        logs = {k: np.log(np.where(ratio > 0, ratio, 1.0)) for k, ratio in ratios.items()}
        slope = logs.get(dependent, sum(logs.values()) / 2)
        ratio = over(m * group, rows * columns)
        shared, whole = (part[..., None, None, None] for part in entropies(m))
        of_shared = np.log(np.where(ratio > 0, ratio, 1.0))
        value = over(shared, whole)
        return value[..., 0, 0, 0], np.asarray(over(of_shared - value * slope, whole))

    name = f"uncertainty coefficient ({of_side(about, dependent)})"
    return strength.explained(
        about, name, entropies, square, ROOT, symmetric=dependent == "symmetric"
    )


# ------------------------------------------------------------------ parts


def _entropy(m: Numbers) -> Numbers:
    """Entropy terms -m log m, up to what cancels in differences; a cell of 0 stays 0."""
    alive = m.real > 0
    return np.where(alive, -m * np.log(np.where(alive, m, 1.0)), 0.0)
