"""Planning before privacy is spent: the power of a test on a table that is yet to be released."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import brentq

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError, did_you_mean
from dpcontingency.inference.noncentral import (
    GaussianCells,
    chi_square_power,
    rank_of,
    taken_up,
)
from dpcontingency.inference.nulls import Null
from dpcontingency.inference.questions import (
    NULLS,
    Asked,
    Question,
    margin_of,
    probabilities_of,
)
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.neighbours import REPLACE_ONE
from dpcontingency.release.noise import GaussianNoise, stratum_labels
from dpcontingency.release.sensitivity import Neighbours

Array = npt.NDArray[np.float64]

NOTHING_TO_SEE = 1e-12  # noncentrality a record: the alternative is inside the null
MOST_RECORDS = 2**53
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

    Notes
    -----
    By the noncentral chi-square (METHODS 2.3): with pi0 the distribution of the null model that is
    nearest to the alternative pi1 (Kullback-Leibler), delta = n (pi1 - pi0) and Sigma the
    covariance of the release under pi0, sampling and noise, the noncentrality is
    delta' Sigma^- delta less what the free parameters of the null take up. Likelihood-ratio and
    score tests share it. Testing fewer factors than are released is testing a noisier margin.

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
    plan = _Plan.of(domain, alternative, test, alpha, question)
    return plan.power(_records(n), _sigma(plan, privacy))


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
    plan = _Plan.of(domain, alternative, test, alpha, question)
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
    plan = _Plan.of(domain, alternative, test, alpha, question)
    plan.check_alternative()
    return plan.smallest_n(_wanted(power, alpha), _sigma(plan, privacy))


def power_curve(
    domain: Domain,
    alternative: npt.ArrayLike,
    n: float | Sequence[float],
    mu: float | Sequence[float],
    test: str = "independence",
    alpha: float = 0.05,
    **question: Unpack[Question],
) -> pd.DataFrame:
    """The power over a grid of record numbers and losses; `plots.power_curve` draws it.

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
        ``noncentrality``, ``df`` and ``power``.

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
    plan = _Plan.of(domain, alternative, test, alpha, question)
    rows = []
    for records in np.atleast_1d(np.asarray(n, dtype=np.float64)):
        for loss in np.atleast_1d(np.asarray(mu, dtype=np.float64)):
            sigma = _sigma(plan, None if loss == math.inf else GDP(float(loss)))
            noncentrality = plan.noncentrality(_records(float(records)), sigma)
            rows.append(
                (records, loss, sigma, noncentrality, plan.df, plan.power(float(records), sigma))
            )
    names = ["n", "mu", "noise_sd", "noncentrality", "df", "power"]
    frame = pd.DataFrame(rows, columns=names)
    whole = frame["n"] == frame["n"].round()
    return frame.astype({"n": np.int64}) if whole.all() else frame


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
    if not (math.isfinite(odds_ratio) and odds_ratio > 0):
        raise ModelError(f"An odds ratio to plan with is positive and finite; got {odds_ratio}.")
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


# ------------------------------------------------------------------ what is planned


@dataclass(frozen=True, eq=False)
class _Plan:
    """A test on a margin of a table to be released: all but n and sigma.

    Attributes
    ----------
    null : Null
        The null hypothesis at the distribution nearest to the alternative.
    alternative : ndarray, shape (p,)
        The alternative on the margin.
    noise : GaussianNoise
        The law of the margin's noise for sigma = 1.
    sensitivity, alpha : float
        sigma mu, and the level.
    """

    null: Null
    alternative: Array
    noise: GaussianNoise
    sensitivity: float
    alpha: float
    df: int

    @classmethod
    def of(
        cls,
        domain: Domain,
        alternative: npt.ArrayLike,
        test: str,
        alpha: float,
        question: Question,
    ) -> _Plan:
        if not 0 < alpha < 1:
            raise ModelError(f"alpha is the level of the test, between 0 and 1; got {alpha}.")
        if test not in NULLS:
            raise ModelError(f"There is no test {test!r} to plan; {did_you_mean(test, NULLS)}")
        unknown = [name for name in question if name not in Question.__annotations__]
        if unknown:
            raise TypeError(
                f"There is no option {unknown[0]!r}; "
                f"{did_you_mean(unknown[0], Question.__annotations__)}"
            )
        space = Neighbours(domain, question.get("neighbours", REPLACE_ONE),
                           question.get("strata", ()))  # fmt: skip
        asked = Asked.of(domain, question, tuple(space.strata))
        probabilities = margin_of(
            probabilities_of(domain, alternative, "alternative"), domain, asked
        )
        null = NULLS[test](asked, probabilities)
        fixed = space.fixed
        axes = [domain.axis(name) for name in asked.domain.names]
        law = GaussianNoise(domain.possible().astype(np.float64), fixed).margin(axes)
        plan = cls(null, probabilities.ravel(), law, space.l2_sensitivity, float(alpha), 0)
        object.__setattr__(plan, "df", plan._degrees_of_freedom())
        if plan.df < 1:
            raise ModelError(
                "This test has no degrees of freedom on this domain, so nothing can be seen by "
                "it; name factors with two levels or more."
            )
        return plan

    def law(self, n: float, sigma: float) -> GaussianCells:
        """The release under the null, around its means."""
        strata = self.noise.strata
        labels = None if strata is None else stratum_labels(self.noise.shape, strata)
        return GaussianCells(n * self.null.nearest, sigma**2 * self.noise.variances.ravel(), labels)

    def noncentrality(self, n: float, sigma: float) -> float:
        """The form delta' Sigma^- delta, less what the null takes up."""
        law = self.law(n, sigma)
        shift = n * (self.alternative - self.null.nearest)
        shift = np.where(law.alive, shift, 0.0)
        free = self._free(law)
        if self.null.more is None:
            whole = float(law.form(shift, shift))
        else:
            whole = taken_up(law, shift, np.hstack([free, law.sampling(self.null.more)]))
        return max(whole - taken_up(law, shift, free), 0.0)

    def power(self, n: float, sigma: float) -> float:
        """The upper tail of the noncentral chi-square."""
        return chi_square_power(self.noncentrality(n, sigma), self.df, self.alpha)

    def smallest_n(self, wanted: float, sigma: float) -> int:
        """The first n with the power wanted: doubling, then bisection."""
        high = 1
        while self.power(high, sigma) < wanted:
            high *= 2
            if high > MOST_RECORDS:
                raise ModelError(
                    f"No more than 2^53 records can be planned, and power {wanted:g} needs more. "
                    "Look for a larger effect."
                )
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.power(middle, sigma) < wanted else (low, middle)
        return high

    def check_alternative(self) -> None:
        """Refuse an alternative that the null model holds: no test can see it."""
        if self.noncentrality(1.0, 0.0) < NOTHING_TO_SEE:
            raise ModelError(
                "The alternative lies inside the null model, so no test can see it. Give "
                "probabilities that differ from it, for instance two_by_two(odds_ratio=1.5)."
            )

    def _free(self, law: GaussianCells) -> Array:
        """Changes of the means that the null leaves free."""
        if self.null.in_logs:
            return law.sampling(self.null.columns)
        return np.where(law.alive[:, None], self.null.columns, 0.0)

    def _degrees_of_freedom(self) -> int:
        law = self.law(1.0, 1.0)
        columns = self.null.columns
        rank = rank_of(law, columns)
        if self.null.more is None:
            return law.free_cells() - rank
        return rank_of(law, np.hstack([columns, self.null.more])) - rank


# ------------------------------------------------------------------ checks


def _records(n: float) -> float:
    if not (math.isfinite(n) and n > 0):
        raise ModelError(f"n is a number of records, positive; got {n}.")
    return float(n)


def _wanted(power: float, alpha: float) -> float:
    if not alpha < power < 1:
        raise ModelError(
            f"The power wanted lies between the level, {alpha:g}, and 1, both excluded; got "
            f"{power:g}."
        )
    return float(power)


def _sigma(plan: _Plan, privacy: GDP | None) -> float:
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
