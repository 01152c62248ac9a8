"""Measures, square tables, trends and strata on released margins.

Without noise they are the classical ones; where the layout happens to be that of a table with
independent noise, they are those of the table.
"""

import numpy as np
import pytest

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError, PrivacyError
from dpcontingency.inference import association
from dpcontingency.inference.association_tests import cmh_test, trend_test
from dpcontingency.inference.hypothesis import (
    goodness_of_fit_test,
    homogeneity_test,
    independence_test,
)
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.noncentral import CorrelatedCells, GaussianCells
from dpcontingency.inference.square_tests import marginal_homogeneity_test, symmetry_test
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.publish_margins import simulate_margins
from dpcontingency.release.release import Release
from dpcontingency.release.workload import plan_margins

DOMAIN = Domain(
    {"A": ["a", "b", "c"], "B": ["a", "b", "c"], "C": [0, 1], "D": [0, 1]}, ordered=["A", "B"]
)
MARGINS = [("A", "B"), ("C", "D", "A")]
COUNTS = np.random.default_rng(5).integers(20, 300, DOMAIN.shape)
EXACT = Release.exact(COUNTS, DOMAIN)
BOTH = ["replace-one", "add-remove"]


def released(mu, neighbours="replace-one", seed=1, margins=MARGINS):
    rng = np.random.default_rng(seed)
    return simulate_margins(COUNTS, DOMAIN, margins, GDP(mu), rng, neighbours=neighbours)


CALLS = {
    "odds ratio": lambda r: association.odds_ratio(r, "C", "D"),
    "common odds ratio": lambda r: association.odds_ratio(r, "C", "D", given=["A"]),
    "relative risk": lambda r: association.relative_risk(r, "C", "D"),
    "risk difference": lambda r: association.risk_difference(r, "C", "D", given=["A"]),
    "phi": lambda r: association.phi(r, "C", "D"),
    "V": lambda r: association.cramers_v(r, "A", "B"),
    "V given": lambda r: association.cramers_v(r, "C", "D", given=["A"]),
    "contingency": lambda r: association.contingency_coefficient(r, "A", "B"),
    "uncertainty": lambda r: association.uncertainty_coefficient(r, "A", "B"),
    "gamma": lambda r: association.gamma(r, "A", "B"),
    "tau-b": lambda r: association.kendall_tau_b(r, "A", "B"),
    "d": lambda r: association.somers_d(r, "A", "B"),
}


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("name", CALLS)
def test_without_noise_measures_are_classical(name, neighbours):
    ours, textbook = CALLS[name](released(3e4, neighbours)), CALLS[name](EXACT)
    assert ours.estimate == pytest.approx(textbook.estimate, rel=2e-3, abs=1e-4)
    # Without a public total a measure of degree 0 has the same errors.
    if not np.isnan(textbook.se):
        assert ours.se == pytest.approx(textbook.se, rel=2e-3)
    # The ends are simulated, to some thousandths.
    np.testing.assert_allclose(ours.interval, textbook.interval, rtol=5e-3, atol=4e-3)
    assert ours.accounts_for == ("sampling", "noise")


@pytest.mark.parametrize("name", CALLS)
def test_noise_widens_them(name):
    ours, textbook = CALLS[name](released(0.2)), CALLS[name](EXACT)
    width, narrow = np.diff(ours.interval), np.diff(textbook.interval)
    assert width > 0.97 * narrow  # ends are simulated
    assert ours.interval[0] <= ours.estimate <= ours.interval[1]


def test_a_measure_of_a_margin_that_was_not_released_is_refused():
    with pytest.raises(PrivacyError, match="B, C lies in none"):
        association.cramers_v(released(1.0), "B", "C")


def as_independent():
    """Two binary factors, and one scale for all interactions: noise of a table of equal cells."""
    domain = Domain({"A": [0, 1], "B": [0, 1]})
    counts = np.array([[310, 120], [90, 280]])
    plan = plan_margins(domain, [("A", "B")], GDP(0.3))
    release = simulate_margins(counts, domain, [("A", "B")], GDP(0.3), np.random.default_rng(3))
    return domain, plan, release


def test_equal_scales_are_a_table_with_independent_noise():
    domain, plan, release = as_independent()
    # In a 2 x 2 table s_A^2 prod over the others of 1/n is the variance of each interaction.
    sigma = plan.scales[("A", "B")]
    equal = {a: sigma * np.sqrt(2.0 ** (2 - len(a))) for a in plan.cell_scales}
    object.__setattr__(plan, "cell_scales", equal)
    same = MarginRelease(plan, release.contrasts, release.total, "simulated", {})
    table = Release.from_noisy_table(same.values, domain, sigma=sigma, n_total=same.total)
    covariance = plan.covariance("A", "B")
    np.testing.assert_allclose(covariance, sigma**2 * (np.eye(4) - 1 / 4), atol=1e-9)
    for call in (association.phi, association.cramers_v, association.uncertainty_coefficient):
        ours, theirs = call(same, "A", "B"), call(table, "A", "B")
        assert ours.estimate == pytest.approx(theirs.estimate, rel=2e-3)
        assert ours.se == pytest.approx(theirs.se, rel=0.02)
        np.testing.assert_allclose(ours.interval, theirs.interval, rtol=0.03)
    for statistic in ("score", "wald"):
        ours, theirs = (
            marginal_homogeneity_test(r, "A", "B", statistic=statistic) for r in (same, table)
        )
        assert ours.statistic == pytest.approx(theirs.statistic, rel=2e-3)


def test_correlated_cells_of_independent_noise_are_gaussian_cells():
    rng = np.random.default_rng(2)
    mean, v = rng.uniform(5, 50, 6), rng.uniform(1, 9, 6)
    for strata in (np.zeros(6, dtype=np.intp), None):
        plain = GaussianCells(mean, v, strata)
        ours = CorrelatedCells(mean, v, strata, plain.noise())
        x, z = (plain.centred(rng.normal(size=(6, 2))) for _ in range(2))
        np.testing.assert_allclose(ours.form(x, z), plain.form(x, z), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(ours.covariance(), plain.covariance())


TESTS = {
    "symmetry": lambda r, s: symmetry_test(r, "A", "B", statistic=s),
    "trend": lambda r, s: trend_test(r, "A", "B", statistic=s),
    "trend of two levels": lambda r, s: trend_test(r, "C", "D", given="A", statistic=s),
    "homogeneity": lambda r, s: homogeneity_test(r, "B", by="A", statistic=s),
    "cmh": lambda r, s: cmh_test(r, "C", "D", "A", statistic=s),
    "fit": lambda r, s: goodness_of_fit_test(r.margin("A"), [0.3, 0.3, 0.4], statistic=s),
    "model": lambda r, s: independence_test(r, "C", "D", given="A", statistic=s),
}


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("statistic", ["lr", "score", "wald"])
@pytest.mark.parametrize("name", TESTS)
def test_without_noise_tests_are_classical(name, statistic, neighbours):
    if name == "fit" and statistic == "wald" and neighbours == "add-remove":
        pytest.skip("the alternative has an intercept that an exact table has not")
    ours, textbook = (TESTS[name](r, statistic) for r in (released(3e4, neighbours), EXACT))
    assert ours.df == textbook.df
    assert ours.statistic == pytest.approx(textbook.statistic, rel=5e-3, abs=0.02)


@pytest.mark.parametrize("statistic", ["score", "wald"])
def test_marginal_homogeneity_without_noise(statistic):
    ours, textbook = (
        marginal_homogeneity_test(r, "A", "B", statistic=statistic) for r in (released(3e4), EXACT)
    )
    assert ours.df == textbook.df == 2
    assert ours.statistic == pytest.approx(textbook.statistic, rel=5e-3)


@pytest.mark.parametrize(
    "formula",
    ["A + B + Diag(A, B)", "A + B + Symm(A, B)", "A + B + score(A):score(B)", "A*C + D*score(A)"],
)
def test_special_terms_without_noise(formula):
    ours = LogLinearModel.from_formula(
        formula, released(3e4).margin(*("ACD" if "C" in formula else "AB"))
    ).fit()
    textbook = LogLinearModel.from_formula(
        formula, EXACT.margin(*("ACD" if "C" in formula else "AB"))
    ).fit()
    np.testing.assert_allclose(ours.params, textbook.params, atol=2e-3)
    np.testing.assert_allclose(ours.bse, textbook.bse, rtol=2e-3)
    assert ours.deviance == pytest.approx(textbook.deviance, rel=5e-3, abs=0.02)
    assert ours.df_resid == textbook.df_resid


def test_special_terms_lie_in_a_released_margin():
    release = released(1.0)
    whole = LogLinearModel.from_formula("A + B + C + D + score(A):score(B)", release).fit()
    part = LogLinearModel.from_formula("A + B + score(A):score(B)", release.margin("A", "B")).fit()
    name = "score(A):score(B)"
    # A, B alone do not tell of C and D: what is added here is what their own margin tells of A.
    assert whole.params[name] == pytest.approx(part.params[name], abs=0.05)
    with pytest.raises(ModelError, match="margin of B, C was not released"):
        LogLinearModel.from_formula("A + B + C + D + score(B):C", release)
