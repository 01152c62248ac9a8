"""Models of released margins: against dense algebra, finite differences, the classical limit and
simulation.
"""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import approx_fprime, minimize

from dpcontingency.domain import Domain
from dpcontingency.errors import DomainError, ModelError, PrivacyError
from dpcontingency.inference.comparison import compare
from dpcontingency.inference.hypothesis import (
    goodness_of_fit_test,
    independence_test,
    model_test,
)
from dpcontingency.inference.interactions import InteractionLikelihood
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.order_tests import kway_tests
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish_margins import simulate_margins, simulate_plan
from dpcontingency.release.release import Release
from dpcontingency.release.workload import plan_margins

DOMAIN = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": [1, 2, 3]})
PAIRS = [("A", "B"), ("A", "C"), ("B", "C")]
COUNTS = np.random.default_rng(5).integers(20, 200, DOMAIN.shape)
BOTH = ["replace-one", "add-remove"]


def released(mu, margins=PAIRS, seed=1, **options):
    rng = np.random.default_rng(seed)
    return simulate_margins(COUNTS, DOMAIN, margins, GDP(mu), rng, **options)


def columns(likelihood):
    """B' as a matrix."""
    return likelihood.design.matrix().toarray()


@pytest.mark.parametrize("neighbours", BOTH)
def test_the_covariance_is_that_of_the_measured_interactions(neighbours):
    release = released(0.4, neighbours=neighbours)
    likelihood = InteractionLikelihood(release)
    # From the dense covariance of each margin, for the columns that lie in it.
    for margin in PAIRS:
        axes = [DOMAIN.axis(name) for name in margin]
        others = [k for k in range(3) if k not in axes]
        inside = (likelihood.design.codes[:, others] == 0).all(axis=1)
        sub = columns(likelihood)[:, inside].reshape(*DOMAIN.shape, -1)
        onto = sub.take(0, axis=others[0]).reshape(-1, inside.sum())
        dense = onto.T @ release.covariance(*margin) @ onto
        np.testing.assert_allclose(
            likelihood.covariance[np.ix_(inside, inside)], dense, rtol=1e-9, atol=1e-7
        )


@pytest.mark.parametrize("neighbours", BOTH)
def test_the_value_is_the_largest_over_tables(neighbours):
    """The dual is what a maximisation over the tables themselves finds."""
    release = released(0.3, neighbours=neighbours)
    likelihood = InteractionLikelihood(release)
    rng = np.random.default_rng(2)
    eta = rng.normal(size=18) + 4.0
    point = likelihood.at(eta)
    B, y, precision = (
        columns(likelihood).T,
        likelihood.measured,
        np.linalg.inv(likelihood.covariance),
    )
    mu = point.fitted

    def height(free):
        m = np.exp(free)
        if release.total is not None:
            m *= release.total / m.sum()
        gap = y - B @ m
        return -float((m * np.log(mu / m) + m - mu).sum() - gap @ precision @ gap / 2)

    found = minimize(height, np.log(mu), method="BFGS", options={"gtol": 1e-7, "maxiter": 2000})
    assert point.loglik == pytest.approx(-found.fun, rel=1e-6, abs=1e-6)
    best = np.exp(found.x)
    best *= 1 if release.total is None else release.total / best.sum()
    np.testing.assert_allclose(point.posterior_mean, best, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("neighbours", BOTH)
def test_derivatives(neighbours):
    model = LogLinearModel(released(0.3, neighbours=neighbours), PAIRS[:2])
    beta = model.fit().params.to_numpy() + 0.1 * np.sin(np.arange(model.df_model))
    numeric = approx_fprime(beta, model.loglike, 1e-6)
    np.testing.assert_allclose(model.score(beta), numeric, rtol=1e-4, atol=1e-3)
    second = np.array(
        [(model.score(beta + e) - model.score(beta - e)) / 2e-5 for e in 1e-5 * np.eye(beta.size)]
    )
    np.testing.assert_allclose(model.hessian(beta), second, atol=2e-5 * np.abs(second).max())


@pytest.mark.parametrize("coding", ["treatment", "sum"])
@pytest.mark.parametrize("neighbours", BOTH)
def test_without_noise_it_is_the_classical_fit(coding, neighbours):
    exact = Release.exact(COUNTS, DOMAIN)
    release = released(3e4, neighbours=neighbours)
    fits, classical = [], []
    for generators in (PAIRS[:2], PAIRS):
        fits.append(LogLinearModel(release, generators, coding=coding).fit())
        classical.append(LogLinearModel(exact, generators, coding=coding).fit())
        # Where the total is not public there is an intercept, and the same other coefficients.
        names = list(classical[-1].params.index)
        np.testing.assert_allclose(fits[-1].params[names], classical[-1].params, atol=1e-5)
        np.testing.assert_allclose(fits[-1].bse[names], classical[-1].bse, rtol=1e-4)
        np.testing.assert_allclose(fits[-1].fittedvalues, classical[-1].fittedvalues, rtol=1e-4)
    ratio = classical[0].deviance - classical[1].deviance
    assert compare(*fits).table["lr_diff"].iloc[1] == pytest.approx(ratio, rel=1e-4)
    assert fits[0].deviance == pytest.approx(ratio, rel=1e-4)
    assert fits[1].deviance == pytest.approx(0.0, abs=1e-6)
    assert (fits[0].df_resid, fits[1].df_resid) == (4, 0)


@pytest.mark.parametrize("statistic", ["lr", "score", "wald"])
def test_without_noise_the_tests_are_classical(statistic):
    exact, release = Release.exact(COUNTS, DOMAIN), released(3e4)
    for factors in (("A", "B"), ("C", "B")):
        ours = independence_test(release, *factors, statistic=statistic)
        textbook = independence_test(exact, *factors, statistic=statistic)
        assert ours.statistic == pytest.approx(textbook.statistic, rel=1e-4)
        assert (ours.df, ours.accounts_for) == (textbook.df, ("sampling", "noise"))
    if statistic != "wald":
        p = np.full(2, 0.5)
        ours = goodness_of_fit_test(release.margin("A"), p, statistic=statistic)
        textbook = goodness_of_fit_test(exact.margin("A"), p, statistic=statistic)
        assert ours.statistic == pytest.approx(textbook.statistic, rel=1e-4)


def test_standard_errors_are_those_of_generalised_least_squares():
    release = released(0.2)
    model = LogLinearModel(release, PAIRS[:2])
    fit = model.fit()
    likelihood, mu = model.cells, fit.fittedvalues.to_numpy()
    V = np.diag(mu) - np.outer(mu, mu) / mu.sum()
    B, X = columns(likelihood).T, model._design.matrix().toarray()
    slope = B @ V @ X
    information = slope.T @ np.linalg.inv(likelihood.covariance + B @ V @ B.T) @ slope
    np.testing.assert_allclose(fit.cov_params(), np.linalg.inv(information), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fit.bse_sampling, np.sqrt(np.diag(np.linalg.inv(X.T @ V @ X))))
    residual = likelihood.measured - B @ mu
    distance = residual @ np.linalg.solve(likelihood.covariance + B @ V @ B.T, residual)
    assert fit.pearson_chi2 == pytest.approx(distance)
    alternative = LogLinearModel(release, PAIRS)
    nested = likelihood.nested_score_statistic(mu, alternative._design)
    assert nested == pytest.approx(
        distance, rel=1e-3
    )  # the alternative explains all that was measured


def test_size_and_coverage():
    """Independence of A and B given C, at heavy noise; 150 simulated releases, seeded."""
    rng = np.random.default_rng(8)
    truth = LogLinearModel(Release.exact(COUNTS, DOMAIN), PAIRS[1:]).fit()
    probabilities = truth.fittedvalues.to_numpy() / COUNTS.sum()
    plan = plan_margins(DOMAIN, PAIRS, GDP(0.2))
    covered, pvalues = [], []
    for _ in range(150):
        counts = rng.multinomial(2000, probabilities).reshape(DOMAIN.shape)
        fit = LogLinearModel(simulate_plan(counts, plan, rng), PAIRS[1:]).fit(
            warn_convergence=False
        )
        assert fit.converged
        interval = fit.conf_int()
        covered.append(((interval[0] < truth.params) & (truth.params < interval[1])).mean())
        pvalues.append(fit.gof()["pvalue"].to_numpy())
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)
    for column in np.array(pvalues).T:
        assert stats.kstest(column, "uniform").pvalue > 1e-3
        assert (column < 0.05).mean() < 0.11


def test_order_of_factors_and_generators_changes_nothing():
    release = released(0.3)
    fit = LogLinearModel(release, PAIRS[:2]).fit()
    turned = release.collapse("C", "A", "B")
    again = LogLinearModel(turned, [("C", "A"), ("B", "A")]).fit()
    assert again.llf == pytest.approx(fit.llf, abs=1e-8)
    table = fit.fittedvalues.to_numpy().reshape(DOMAIN.shape)
    other = again.fittedvalues.to_numpy().reshape(turned.domain.shape)
    np.testing.assert_allclose(other.transpose(1, 2, 0), table, rtol=1e-6)


def test_collapsing_keeps_what_is_known():
    release = released(0.3)
    pair = release.collapse("B", "A")
    assert pair.is_whole
    assert not release.is_whole
    np.testing.assert_array_equal(pair.values, release.margin("B", "A").values)
    assert pair.sd == release.plan.sd("A", "B")
    assert pair.margins == (("A", "B"),)
    both = release.collapse("A", "C", "B")
    np.testing.assert_allclose(both.noisy.transpose(0, 2, 1), release.noisy, atol=1e-9)
    with pytest.raises(PrivacyError, match="margin of A, B, C lies in none"):
        release.values  # noqa: B018
    with pytest.raises(DomainError):
        release.collapse("X")
    assert pickle.loads(pickle.dumps(pair)).to_dict() == pair.to_dict()


def test_a_margin_that_noise_has_eaten_is_named():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    counts = np.array([[900, 700, 0], [800, 600, 0]])
    rng = np.random.default_rng(4)
    seen = 0
    for _ in range(10):
        release = simulate_margins(counts, domain, [("A",), ("B",)], GDP(0.1), rng)
        fit = LogLinearModel(release, [("A",), ("B",)]).fit(warn_convergence=False)
        low = release.margin("B").values[2] < 0
        assert fit.existence.exists != low
        if low:
            seen += 1
            assert fit.existence.parameters == ("B[T.w]",)
            assert fit.params["B[T.w]"] == -math.inf
            assert math.isfinite(fit.llf)
    assert 0 < seen < 10


def test_results_are_saved_and_read_back(tmp_path):
    fit = LogLinearModel(released(0.3), PAIRS).fit()
    fit.save(tmp_path / "fit.json")
    again = LogLinearResults.load(tmp_path / "fit.json")
    pd.testing.assert_series_equal(again.params, fit.params)
    pd.testing.assert_frame_equal(again.cov_params(), fit.cov_params())
    assert again.llf == fit.llf
    assert again.deviance == pytest.approx(fit.deviance, abs=1e-7)
    text = str(fit.summary())
    assert "laid out by interaction" in text
    assert "NOT PRIVATE" in text


def test_the_usual_results_are_there():
    fit = LogLinearModel(released(0.5), PAIRS).fit()
    ratios = fit.odds_ratios("A", "B")
    assert (
        (ratios["lower"] < ratios["odds_ratio"]) & (ratios["odds_ratio"] < ratios["upper"])
    ).all()
    assert fit.posterior_mean().sum() == pytest.approx(COUNTS.sum())
    profile, wald = fit.conf_int(cols=[0], method="profile"), fit.conf_int(cols=[0])
    np.testing.assert_allclose(profile, wald, atol=0.1)
    assert len(fit.drop1().table) == 4
    tests = kway_tests(released(0.5)).table
    assert tests["df_diff"].iloc[1] == 8
    assert (fit.get_prediction().se > 0).all()
    assert model_test(LogLinearModel(released(0.5), [("A", "B"), ("C",)])).df == 6


def test_what_is_refused():
    release = released(0.5, margins=[("A", "B"), ("C",)])
    with pytest.raises(ModelError, match=r"margin of A, C was not released.*\[A B\]\[C\]"):
        LogLinearModel(release, [("A", "C"), ("B",)])
    with pytest.raises(PrivacyError, match="margin of A, C lies in none"):
        independence_test(release, "A", "C")
    model = LogLinearModel(release, [("A", "B"), ("C",)])
    for options in ({"method": "normal"}, {"penalty": "jeffreys"}):
        with pytest.raises(ModelError, match="without options"):
            model.fit(**options)
    fit = model.fit()
    for name in ("resid_response", "resid_pearson", "resid_adjusted", "resid_deviance"):
        with pytest.raises(ModelError, match=r"no such residuals in the cells.*margin_residuals"):
            getattr(fit, name)
    with pytest.raises(ModelError, match="no such residuals"):
        fit.shrunken_table()
    with pytest.raises(PrivacyError, match="margin of A, C lies in none"):
        fit.margin_residuals("A", "C")
    with pytest.raises(ModelError, match="independent noise on its cells"):
        independence_test(release, "A", "B", statistic="js-pearson", pvalue="bootstrap")
    with pytest.raises(ModelError, match="Release or a MarginRelease; got list"):
        LogLinearModel([1, 2], [("A",)])


@pytest.mark.parametrize("neighbours", BOTH)
def test_residuals_of_released_margins(neighbours):
    """Without noise those of a table; with noise by dense algebra, and of unit variance."""
    classical = LogLinearModel(Release.exact(COUNTS, DOMAIN).margin("A", "B"), "[A][B]").fit()
    release = released(3e4, neighbours=neighbours).margin("A", "B")
    fit = LogLinearModel(release, "[A][B]").fit()
    frame = fit.margin_residuals("A", "B")
    for name in ("resid_response", "resid_pearson", "resid_adjusted"):
        np.testing.assert_allclose(frame[name], getattr(classical, name), rtol=5e-3, atol=5e-3)
        np.testing.assert_array_equal(getattr(fit, name), frame[name])
    table = LogLinearModel(Release.exact(COUNTS, DOMAIN), PAIRS[1:]).fit()
    np.testing.assert_allclose(
        table.margin_residuals(*DOMAIN.names)["resid_adjusted"], table.resid_adjusted, rtol=1e-6
    )
    noisy = released(0.2, neighbours=neighbours)
    model = LogLinearModel(noisy, PAIRS[1:])
    fit, cells = model.fit(), model.cells
    mu = fit.fittedvalues.to_numpy()
    V = np.diag(mu) - (np.outer(mu, mu) / mu.sum() if noisy.total is not None else 0)
    B, X = columns(cells).T, model._design.matrix().toarray()
    inverse = np.linalg.inv(cells.covariance + B @ V @ B.T)
    slope = B @ V @ X
    onto = np.kron(np.eye(6), np.ones(3))  # cells of A, B
    of_mean = onto @ V @ X @ np.linalg.inv(slope.T @ inverse @ slope) @ X.T @ V @ onto.T
    spread = onto @ V @ onto.T + noisy.covariance("A", "B")
    gap = noisy.margin("A", "B").values.ravel() - onto @ mu
    frame = fit.margin_residuals("A", "B")
    np.testing.assert_allclose(
        frame["resid_adjusted"], gap / np.sqrt(np.diag(spread - of_mean)), rtol=1e-6
    )


@pytest.mark.filterwarnings("ignore::dpcontingency.errors.ExistenceWarning")
def test_margins_of_no_records_say_so():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    release = simulate_margins(
        np.zeros((2, 2), dtype=int), domain, [("A", "B")], GDP(1.0), np.random.default_rng(3)
    )
    fit = LogLinearModel(release, "[A][B]").fit()
    assert fit.existence.open == tuple(fit.params.index)
    assert fit.df_resid == 0
    np.testing.assert_array_equal(fit.fittedvalues, 0)
    assert "no degrees of freedom" in independence_test(release, "A", "B").reason
