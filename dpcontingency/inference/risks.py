"""Comparisons of two rows of a release: odds ratio, relative risk, risk difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpcontingency.domain import Label, label_text
from dpcontingency.errors import ModelError
from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.estimates import FISHER, LOG, Estimate, Scale
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.odds import log_odds_ratio
from dpcontingency.inference.saturated import SaturatedTable, TwoFactors

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]


def odds_ratio(
    release: AnyRelease,
    row: str,
    column: str,
    given: Sequence[str] = (),
    alpha: float = 0.05,
    *,
    row_levels: Sequence[Label] | None = None,
    column_levels: Sequence[Label] | None = None,
    method: Literal["wald", "profile"] = "wald",
) -> Estimate:
    """The odds ratio of two rows and two columns.

    Parameters
    ----------
    release : Release or MarginRelease
        The noisy table; the measure works on its margin over the factors named.
    row, column : str
        The factors.
    given : sequence of str
        Factors to condition on. The odds ratio is then the common one of the model without
        three-way interaction, [row column][row given][column given], by maximum likelihood: what
        the Mantel-Haenszel estimator estimates.
    alpha : float
        1 - the level of the interval.
    row_levels, column_levels : pair of levels, optional
        The levels to compare, the numerator first; by default the two levels in their order.
    method : {"wald", "profile"}
        The interval: normal on the log scale, or by profile likelihood, which follows the
        likelihood where a cell is within noise of 0.

    Returns
    -------
    Estimate
        Of the odds of the first row level rather than the second, at the first column level
        relative to the second. 0 and infinity are estimates, with one finite end by profile
        likelihood; where the data tell nothing the interval is 0 to infinity. ``link_se`` is the
        standard error of the logarithm.

    Raises
    ------
    ModelError
        If a factor has more than two levels and the two to compare are not named.

    Notes
    -----
    The delta method on the observed information (METHODS 2.2, 2.6). Nothing is added to cells.

    References
    ----------
    Mantel and Haenszel 1959; Agresti 2013, 3.1 and 6.4.

    Examples
    --------
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.from_noisy_table(
    ...     [[91.5, 38.0], [47.7, 55.2]], domain, sigma=5.0, n_total=232
    ... )
    >>> odds_ratio(release, "A", "B")
    <odds ratio of A = a rather than b, for B = u relative to v: 2.798 (se 0.946), ...>
    """
    about = TwoFactors.of(release, row, column, given, alpha)
    if method not in ("wald", "profile"):
        raise ModelError(f"The method of an interval is 'wald' or 'profile'; got {method!r}.")
    reason = about.one_level()
    if reason:
        return about.undefined("odds ratio", about.in_words, reason)
    rows = _two_levels(about, row, "row_levels", row_levels)
    columns = _two_levels(about, column, "column_levels", column_levels)
    (one, other), (here, there) = (
        [label_text(about.domain.levels[name][k]) for k in pair]
        for name, pair in ((row, rows), (column, columns))
    )
    of = f"{row} = {one} rather than {other}, for {column} = {here} relative to {there}"
    name = "common odds ratio" if about.given else "odds ratio"
    generators = [(row, column), (row, *about.given), (column, *about.given)]
    fit = LogLinearModel(about.margin, generators).fit(warn_convergence=False)
    if not fit.converged:
        reason = f"the fit failed: {fit.reason}"
        return about.left_open(name, of + about.condition, reason, LOG.low, LOG.high)
    table = np.arange(about.domain.size).reshape(about.shape)
    four = np.stack(
        [table[:, i, j] for i, j in zip(rows * 2, (*columns, *columns[::-1]), strict=True)], axis=1
    )
    return _odds_estimate(about, fit, name, of + about.condition, four, method)


def relative_risk(
    release: AnyRelease,
    row: str,
    column: str,
    given: Sequence[str] = (),
    alpha: float = 0.05,
    *,
    row_levels: Sequence[Label] | None = None,
    event: Label | None = None,
) -> Estimate:
    """The probability of an event in one row over that in another.

    Parameters
    ----------
    release, row, column, alpha
        As in `odds_ratio`.
    given : sequence of str
        Factors to standardise over: both risks are averaged over the combinations of the given
        factors, weighted by their fitted proportions in the whole table, before they are divided.
    row_levels : pair of levels, optional
        The rows to compare, the numerator first; by default the two levels in their order.
    event : level, optional
        The column that is the event; by default the first of two.

    Returns
    -------
    Estimate
        From noise-aware maximum likelihood of the cell probabilities, standard error by the delta
        method. The interval is by profile likelihood, as in `risk_difference`; ``link_se`` is the
        standard error of the logarithm.

    Raises
    ------
    ModelError
        If a factor has more than two levels and the levels meant are not named.

    Examples
    --------
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"A": ["a", "b"], "B": ["yes", "no"]})
    >>> relative_risk(Release.exact([[18, 32], [33, 17]], domain), "A", "B")
    <relative risk of B = yes, A = a over b: 0.5455 (se 0.117), 95 % interval 0.3455 to 0.8117; ...>
    """
    return _compare_risks(
        "relative risk", release, row, column, given, alpha, row_levels, event,
        lambda one, other: np.asarray(one / other), LOG,
    )  # fmt: skip


def risk_difference(
    release: AnyRelease,
    row: str,
    column: str,
    given: Sequence[str] = (),
    alpha: float = 0.05,
    *,
    row_levels: Sequence[Label] | None = None,
    event: Label | None = None,
) -> Estimate:
    """The probability of an event in one row less that in another.

    Parameters
    ----------
    release, row, column, given, alpha, row_levels, event
        As in `relative_risk`: with ``given``, the difference is standardised over the given
        margin.

    Returns
    -------
    Estimate
        Between -1 and 1; standard error by the delta method, interval by profile likelihood.

    Notes
    -----
    The interval holds the differences d for which twice the log of (the largest likelihood over
    the largest among the tables whose difference is d) stays below the chi-square quantile of
    one degree of freedom, all under the likelihood of the noisy table (METHODS 2.2). Without
    noise it is the profile-likelihood interval of a binomial regression with the identity link
    (for `relative_risk`, with the log link). It follows the likelihood where a row is within
    noise of 0, and then says that nothing is known of its risk; a normal interval has no standard
    error to go by there. A search in a table of more than 100 cells would take long: there the
    interval is normal on Fisher's z scale (on the log scale).

    References
    ----------
    Venzon and Moolgavkar 1988, Applied Statistics 37.

    Examples
    --------
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"A": ["a", "b"], "B": ["yes", "no"]})
    >>> risk_difference(Release.exact([[18, 32], [33, 17]], domain), "A", "B")
    <risk difference of B = yes, A = a less b: -0.3 (se 0.0954), 95 % interval -0.4776 to ...>
    """
    return _compare_risks(
        "risk difference", release, row, column, given, alpha, row_levels, event,
        lambda one, other: np.asarray(one - other), FISHER,
    )  # fmt: skip


# ------------------------------------------------------------------ parts


def _odds_estimate(
    about: TwoFactors, fit: Any, name: str, of: str, four: npt.NDArray[np.intp], method: str
) -> Estimate:
    """The estimate from the four cells of each group."""
    # An interval by the likelihood says by its ends what is left open.
    is_open = (lambda _: False) if method == "profile" else fit._is_open
    found = log_odds_ratio(fit._cells, four, is_open)
    if not about.possible.ravel()[four].all(axis=1).any():
        return about.undefined(name, of, "one of its cells is impossible wherever it is compared")
    if math.isnan(found.value):
        return about.left_open(
            name,
            of,
            "cells of both its numerator and its denominator are at 0, or the release tells next "
            "to nothing of it",
            LOG.low,
            LOG.high,
        )
    value, log_se = math.exp(min(found.value, 709.0)), found.se
    if math.isinf(found.value):
        value, log_se = math.exp(found.value), math.nan
    by_likelihood = method == "profile" or math.isinf(found.value)
    if by_likelihood:
        profile = fit._profile(found.combination)
        drift = float(np.sign(found.value)) if math.isinf(found.value) else 0.0
        ends = profile.interval(fit.llf, about.alpha, 1.0 if drift else log_se, drift)
        lower, upper = (math.exp(min(end, 709.0)) if end < math.inf else end for end in ends)
        interval = (min(lower, value), max(upper, value))
    else:
        interval = LOG.interval(value, value * log_se, about.alpha)
    return Estimate(
        name, of, value, value * log_se, interval, 1 - about.alpha,
        "likelihood" if by_likelihood else "log", log_se, about.accounts_for, "", about.notes,
    )  # fmt: skip


def _compare_risks(
    name: str,
    release: AnyRelease,
    row: str,
    column: str,
    given: Sequence[str],
    alpha: float,
    row_levels: Sequence[Label] | None,
    event: Label | None,
    compare: Callable[[Numbers, Numbers], Numbers],
    scale: Scale,
) -> Estimate:
    """Two standardised risks, compared."""
    about = TwoFactors.of(release, row, column, given, alpha)
    reason = about.one_level()
    if reason:
        return about.undefined(name, about.in_words, reason)
    one, other = _two_levels(about, row, "row_levels", row_levels)
    hit = _event(about, event)
    texts = [label_text(about.domain.levels[row][k]) for k in (one, other)]
    word = "over" if scale is LOG else "less"
    of = (
        f"{column} = {label_text(about.domain.levels[column][hit])}, {row} = {texts[0]} {word} "
        f"{texts[1]}{about.condition}"
    )
    table = SaturatedTable.fit(about)
    groups = table.means.sum(axis=2)
    alive = groups.sum(axis=1) > 0
    where = " in some combination of the given factors" if about.given else ""
    possible = np.asarray(about.possible.any(axis=2))
    if not possible[possible.any(axis=1)][:, [one, other]].all():
        return about.undefined(name, of, f"one of the two rows is impossible{where}")
    if not groups[alive][:, [one, other]].all() or not alive.any():
        reason = f"one of the two rows holds no records{where}, as far as can be told"
        return about.left_open(name, of, reason, scale.low, scale.high)

    def compared(m: Numbers) -> Numbers:
        m = m[..., alive, :, :]
        weights = m.sum(axis=(-1, -2))
        risks = [
            (weights * m[..., k, hit] / m[..., k, :].sum(axis=-1)).sum(axis=-1)
            / weights.sum(axis=-1)
            for k in (one, other)
        ]
        return compare(*risks)

    empty = "the risk is 0 in both rows"
    return table.estimate(name, of, compared, scale, empty, by_likelihood=True)


def _two_levels(
    about: TwoFactors, name: str, option: str, levels: Sequence[Label] | None
) -> tuple[int, int]:
    """The positions of the two levels to compare."""
    known = about.domain.levels[name]
    if levels is None:
        if len(known) != 2:
            raise ModelError(
                f"{name!r} has {len(known)} levels: name the two to compare by {option}=, such as "
                f"{option}=({known[0]!r}, {known[1]!r})."
            )
        return 0, 1
    if isinstance(levels, str) or len(levels) != 2:
        raise ModelError(f"{option} is a pair of levels of {name!r}; got {levels!r}.")
    one, other = (about.domain.index(name, level) for level in levels)
    if one == other:
        raise ModelError(f"{option} names two levels of {name!r} that differ; got {levels!r}.")
    return one, other


def _event(about: TwoFactors, event: Label | None) -> int:
    """The position of the column that is the event."""
    known = about.domain.levels[about.column]
    if event is not None:
        return about.domain.index(about.column, event)
    if len(known) != 2:
        raise ModelError(
            f"{about.column!r} has {len(known)} levels: say which is the event, such as "
            f"event={known[0]!r}."
        )
    return 0
