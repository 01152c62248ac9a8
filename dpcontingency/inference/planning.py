"""Planning before privacy is spent: the power of a test on a table that is yet to be released."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import brentq

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError, real_number, shown
from dpcontingency.inference.plans import Plan
from dpcontingency.inference.questions import Question
from dpcontingency.privacy.gdp import GDP

Array = npt.NDArray[np.float64]

LARGEST_RATIO = 1e12  # an odds ratio to plan with, beyond which probabilities are rounding
LOG_SIGMA = (-30.0, 60.0)  # where the noise makes no difference, and where nothing else does


def power(
    domain: Domain,
    alternative: npt.ArrayLike,
    n: float,
    privacy: GDP | None,
    test: str = "independence",
    alpha: float = 0.05,
    **question: Unpack[Question],
) -> float:
    """The power that a noise-aware test will have on a Gaussian release of a table.

    Parameters
    ----------
    domain : Domain
        The table to be released.
    alternative : array_like, shape ``domain.shape``
        Cell probabilities under which the power is asked for; see `two_by_two`.
    n : float
        The number of records.
    privacy : GDP or None
        The loss to be spent on the table; None for the power with no noise.
    test : str
        ``"independence"`` and ``"homogeneity"`` (of ``factors``, in each combination of
        ``given``), ``"goodness-of-fit"`` (to ``null``), ``"symmetry"``,
        ``"marginal-homogeneity"``, ``"trend"`` (linear by linear, one df), ``"cmh"`` (conditional
        independence against one odds ratio for all strata), ``"no-three-way"`` (one odds ratio
        against any), ``"model"`` (``model`` against the saturated one).
    alpha : float
        The level of the test.
    factors, given, null, model, neighbours, strata
        See `Question`; by default all factors, no condition, replace-one and no strata.

    Returns
    -------
    float
        Between alpha and 1.

    Raises
    ------
    ModelError
        If the alternative, the level, n or the question makes no sense.
    PrivacyError
        If the neighbours or strata make none.

    Warns
    -----
    PlanningWarning
        If the alternative lies inside the null, so that the power is ``alpha`` whatever is spent;
        or if some mean that the null expects is within 2.5 standard deviations of 0, so that the
        power is rough.

    Notes
    -----
    By the noncentral chi-square (METHODS 2.3): with pi0 the distribution of the null model that is
    nearest to the alternative pi1 (Kullback-Leibler), delta = n (pi1 - pi0) and Sigma the
    covariance of the release under pi0, sampling and noise, the noncentrality is
    delta' Sigma^- delta less what the free parameters of the null take up. Likelihood-ratio and
    score tests share it. Where expected means are within noise of 0 that chi-square law is poor
    and tests take a bootstrap by default, whose power is often higher: plans err on the side of
    too much loss and too many records there, and say so. Testing fewer factors than are released
    is testing a noisier margin.

    References
    ----------
    Agresti, "Categorical Data Analysis" (3rd ed., 2013), 6.6 for the chi-square without noise.

    Examples
    --------
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> alternative = two_by_two(odds_ratio=1.5)
    >>> round(power(domain, alternative, 2000, GDP(0.25)), 3)
    0.992
    >>> round(power(domain, alternative, 2000, GDP(0.05)), 3)
    0.8
    """
    plan = Plan.of(domain, alternative, test, alpha, question)
    plan.warn_blind()
    records, sigma = _records(n), _sigma(plan, privacy)
    plan.warn_doubt(records, sigma)
    return plan.power(records, sigma)


def minimum_mu(
    domain: Domain,
    alternative: npt.ArrayLike,
    n: float,
    power: float = 0.8,
    test: str = "independence",
    alpha: float = 0.05,
    **question: Unpack[Question],
) -> float:
    """The smallest loss mu at which a test reaches a power.

    Parameters
    ----------
    domain, alternative, n, test, alpha, factors, given, null, model, neighbours, strata
        As in `power`.
    power : float
        The power wanted.

    Returns
    -------
    float
        mu, rounded up to five digits, so that the power is reached.

    Raises
    ------
    ModelError
        If the power is out of reach even without noise, or is had for nothing.

    Examples
    --------
    Which loss shows an odds ratio of 1.5 in 2,000 records with power 0.8?

    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> minimum_mu(domain, two_by_two(odds_ratio=1.5), 2000, power=0.8)
    0.049994
    """
    plan = Plan.of(domain, alternative, test, alpha, question)
    records, wanted = _records(n), _wanted(power, alpha)
    plan.check_alternative()
    best = plan.power(records, 0.0)
    if best < wanted:
        needed = plan.smallest_n(wanted, 0.0)
        raise ModelError(
            f"With {records:g} records the test has power {best:.3g} even without noise, less than "
            f"{wanted:g}. Collect at least {needed:,} records, ask for less power or look for a "
            "larger effect."
        )
    if plan.power(records, math.exp(LOG_SIGMA[0])) < wanted:
        raise ModelError(
            f"Power {wanted:g} is reached only without noise; ask for a little less power."
        )

    def lacking(log_sigma: float) -> float:
        return wanted - plan.power(records, math.exp(log_sigma))

    root = float(brentq(lacking, *LOG_SIGMA, xtol=1e-12))
    mu = _rounded_up(plan.sensitivity / math.exp(root))
    while plan.power(records, plan.sensitivity / mu) < wanted:
        mu = _rounded_up(mu * (1 + 1e-5))
    plan.warn_doubt(records, plan.sensitivity / mu)
    return mu


def minimum_n(
    domain: Domain,
    alternative: npt.ArrayLike,
    privacy: GDP | None,
    power: float = 0.8,
    test: str = "independence",
    alpha: float = 0.05,
    **question: Unpack[Question],
) -> int:
    """The smallest number of records at which a test reaches a power.

    Parameters
    ----------
    domain, alternative, privacy, test, alpha, factors, given, null, model, neighbours, strata
        As in `power`.
    power : float
        The power wanted.

    Returns
    -------
    int
        The first n with that power.

    Raises
    ------
    ModelError
        If the alternative is inside the null, so that no n is enough.

    Examples
    --------
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> minimum_n(domain, two_by_two(odds_ratio=1.5), GDP(0.25), power=0.8)
    881
    >>> minimum_n(domain, two_by_two(odds_ratio=1.5), None, power=0.8)
    770
    """
    plan = Plan.of(domain, alternative, test, alpha, question)
    plan.check_alternative()
    sigma = _sigma(plan, privacy)
    needed = plan.smallest_n(_wanted(power, alpha), sigma)
    plan.warn_doubt(needed, sigma)
    return needed


def power_curve(
    domain: Domain,
    alternative: npt.ArrayLike,
    n: float | Sequence[float],
    mu: float | Sequence[float],
    test: str = "independence",
    alpha: float = 0.05,
    **question: Unpack[Question],
) -> pd.DataFrame:
    """The power over a grid of record numbers and losses; ``plots.power_curve`` draws it.

    Parameters
    ----------
    domain, alternative, test, alpha, factors, given, null, model, neighbours, strata
        As in `power`.
    n : float or sequence of float
        Numbers of records.
    mu : float or sequence of float
        Losses; ``math.inf`` stands for no noise.

    Returns
    -------
    DataFrame
        A row for each n and mu: ``n``, ``mu``, ``noise_sd`` (sigma, of one released cell),
        ``noncentrality``, ``df`` and ``power``. ``attrs["notes"]`` says, by row, where that power
        is rough and why: what `power` would warn of, as a grid is meant to reach into the noise.

    Examples
    --------
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> power_curve(domain, two_by_two(1.5), [1000, 2000], [0.1, math.inf]).round(3)
          n   mu  noise_sd  noncentrality  df  power
    0  1000  0.1    14.142          5.670   1  0.663
    1  1000  inf     0.000         10.205   1  0.892
    2  2000  0.1    14.142         14.579   1  0.968
    3  2000  inf     0.000         20.410   1  0.995
    """
    plan = Plan.of(domain, alternative, test, alpha, question)
    plan.warn_blind()
    rows = []
    for records in _several(n, "n"):
        for loss in _several(mu, "mu"):
            sigma = _sigma(plan, None if loss == math.inf else GDP(float(loss)))
            noncentrality = plan.noncentrality(_records(float(records)), sigma)
            rows.append(
                (records, loss, sigma, noncentrality, plan.df, plan.power(float(records), sigma))
            )
    names = ["n", "mu", "noise_sd", "noncentrality", "df", "power"]
    frame = pd.DataFrame(rows, columns=names)
    whole = frame["n"] == frame["n"].round()
    frame = frame.astype({"n": np.int64}) if whole.all() else frame
    frame.attrs["notes"] = {
        at: doubt for at, row in enumerate(rows) if (doubt := plan.doubt(float(row[0]), row[2]))
    }
    return frame


def two_by_two(odds_ratio: float, row: float = 0.5, column: float = 0.5) -> Array:
    """The 2 x 2 probabilities with an odds ratio and margins: an alternative to plan with.

    Parameters
    ----------
    odds_ratio : float
        p11 p22 / (p12 p21), positive.
    row, column : float
        The probabilities of the first row and of the first column.

    Returns
    -------
    ndarray, shape (2, 2)
        Cell probabilities.

    Raises
    ------
    ModelError
        If the odds ratio is not positive or a margin is not inside (0, 1).

    References
    ----------
    Plackett 1965, "A class of bivariate distributions", J. American Statistical Association 60.

    Examples
    --------
    >>> two_by_two(4.0)
    array([[0.33333333, 0.16666667],
           [0.16666667, 0.33333333]])
    """
    odds_ratio = real_number(odds_ratio, "An odds ratio to plan with is positive and finite")
    row = real_number(row, "row is the probability of the first row, between 0 and 1")
    column = real_number(column, "column is the probability of the first column, between 0 and 1")
    if not 1 / LARGEST_RATIO <= odds_ratio <= LARGEST_RATIO:
        raise ModelError(
            f"An odds ratio to plan with is positive and finite, from {1 / LARGEST_RATIO:g} to "
            f"{LARGEST_RATIO:g}; got {odds_ratio}."
        )
    if not (0 < row < 1 and 0 < column < 1):
        raise ModelError(
            "row and column are the probabilities of the first row and column, between 0 and 1; "
            f"got {row} and {column}."
        )
    excess = odds_ratio - 1
    middle = 1 + excess * (row + column)
    root = math.sqrt(middle**2 - 4 * odds_ratio * excess * row * column)
    first = 2 * odds_ratio * row * column / (middle + root)
    return np.array([[first, row - first], [column - first, 1 - row - column + first]])


# ------------------------------------------------------------------ checks


def _records(n: float) -> float:
    n = real_number(n, "n is a number of records, positive")
    if not (math.isfinite(n) and n > 0):
        raise ModelError(f"n is a number of records, positive; got {n}.")
    return float(n)


def _several(values: float | Sequence[float], name: str) -> Array:
    """One number or several, as an array."""
    try:
        return np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise ModelError(
            f"{name} is a number or a sequence of numbers; got {shown(values)}."
        ) from None


def _wanted(power: float, alpha: float) -> float:
    power = real_number(power, "The power wanted is a number, such as 0.8")
    if not alpha < power < 1:
        raise ModelError(
            f"The power wanted lies between the level, {alpha:g}, and 1, both excluded; got "
            f"{power:g}."
        )
    return float(power)


def _sigma(plan: Plan, privacy: GDP | None) -> float:
    if privacy is None:
        return 0.0
    if not isinstance(privacy, GDP):
        raise ModelError(
            f"The loss is a GDP, such as GDP(0.5), or None for no noise; got {privacy!r}."
        )
    return privacy.sigma(plan.sensitivity)


def _rounded_up(mu: float) -> float:
    """Five digits, rounded up: more loss is more power."""
    digits = 4 - math.floor(math.log10(mu))
    return float(f"{math.ceil(mu * 10.0**digits * (1 - 1e-13)) / 10.0**digits:.5g}")
