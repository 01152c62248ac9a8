"""Minimum chi-square: dense algebra, Kifer and Rogers' statistic, and the classical limit."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from dpcontingency.domain import Domain
from dpcontingency.errors import ConvergenceWarning, ExistenceWarning, ModelError
from dpcontingency.inference.comparison import compare
from dpcontingency.inference.design import HierarchicalDesign
from dpcontingency.inference.likelihood import NoisyTableLikelihood
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.normal import NormalPoint, fit_by_chi_square, minimum_chi_square
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.selection import step
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release import files
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

SCHEMES = ["total", "strata", "nothing", "third-party"]
SHAPE, TERMS = (2, 3, 2), [(0,), (1,), (2,), (0, 1), (1, 2)]


def noisy_release(scheme, sigma=6.0, seed=8, n=600):
    rng = np.random.default_rng(seed)
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y"]})
    counts = rng.multinomial(n, rng.dirichlet(np.full(12, 3.0))).reshape(domain.shape)
    if scheme == "total":
        return simulate_release(counts, domain, GDP(np.sqrt(2) / sigma), rng)
    if scheme == "strata":
        return simulate_release(counts, domain, GDP(np.sqrt(2) / sigma), rng, strata=["B"])
    if scheme == "nothing":
        return simulate_release(counts, domain, GDP(1 / sigma), rng, neighbours="add-remove")
    noisy = counts + sigma * rng.standard_normal(domain.shape)
    return Release.from_noisy_table(noisy, domain, sigma=sigma, n_total=n)


def fit(release, generators, **options):
    model = LogLinearModel(release, generators, **options)
    return model.fit(method="normal", warn_convergence=False)


def covariances(mean, v, strata):
    """V and the noise covariance, dense."""

    def given_totals(part):
        if strata is None:
            return np.diag(part)
        total = np.bincount(strata, part)[strata]
        same = strata[:, None] == strata
        return np.diag(part) - np.where(same, np.outer(part, part), 0) / np.maximum(total, 1e-300)

    return given_totals(mean), given_totals(v)


def awkward_cells(scheme, kind):
    """Noisy cells with the variances that a margin or a third party may have."""
    rng = np.random.default_rng(5)
    counts = rng.poisson(40, size=12)
    v = {
        "equal": np.full(12, 36.0),
        "unequal": rng.uniform(1, 90, size=12),
        "some exact": rng.uniform(1, 90, size=12) * (np.arange(12) % 3 > 0),
    }[kind]
    noise = np.sqrt(v) * rng.standard_normal(12)
    if scheme == "nothing":
        return NoisyTableLikelihood(counts + noise, v)
    strata = (np.arange(12) // 2) % 3 if scheme == "strata" else np.zeros(12, dtype=np.intp)
    noise -= v * (np.bincount(strata, noise) / np.bincount(strata, v))[strata]
    totals = np.bincount(strata, counts)
    return NoisyTableLikelihood(counts + noise, v, strata=strata, totals=totals)


def awkward_design(scheme):
    if scheme == "nothing":
        return HierarchicalDesign(SHAPE, [(), *TERMS])
    free = [term for term in TERMS if term != (1,)] if scheme == "strata" else TERMS
    return HierarchicalDesign(SHAPE, free, (1,) if scheme == "strata" else ())


# -- no noise: the textbooks ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ucb_admissions", "hair_eye_color", "czech_autoworkers"])
def test_without_noise_it_is_maximum_likelihood(load_table, name):
    counts, domain = load_table(name)
    model = LogLinearModel.from_formula(
        f"({' + '.join(domain.names)})**2", Release.exact(counts, domain)
    )
    ml, normal = model.fit(), model.fit(method="normal")
    np.testing.assert_allclose(normal.params, ml.params, atol=1e-8)
    np.testing.assert_allclose(normal.bse, ml.bse, rtol=1e-7)
    np.testing.assert_allclose(normal.bse_sampling, ml.bse_sampling, rtol=1e-7)
    assert normal.deviance == pytest.approx(ml.deviance, rel=1e-9)
    assert normal.maximises_likelihood
    pd.testing.assert_frame_equal(normal.gof(), ml.gof())
    assert compare(normal).table["lr"].iloc[0] == pytest.approx(ml.deviance, rel=1e-9)


def test_without_noise_zero_margins_and_structural_zeros_are_those_of_maximum_likelihood():
    zeros = [{"R": level, "S": level} for level in "abc"]
    domain = Domain({"R": list("abc"), "S": list("abc"), "T": [0, 1]}, structural_zeros=zeros)
    counts = np.array([[0, 20, 31], [14, 0, 22], [9, 17, 0]])
    release = Release.exact(np.stack([counts, counts[::-1, ::-1].T], axis=-1), domain)
    model = LogLinearModel(release, "[R][S][T]")
    ml, normal = model.fit(), model.fit(method="normal")
    np.testing.assert_allclose(normal.params, ml.params, atol=1e-8)
    assert normal.pearson_chi2 == pytest.approx(ml.pearson_chi2, rel=1e-8)

    release = Release.exact([[41, 0], [190, 377]], Domain({"A": [0, 1], "B": [0, 1]}))
    model = LogLinearModel(release, "[AB]")
    with pytest.warns(ExistenceWarning, match="penalty='jeffreys'"):
        normal = model.fit(method="normal")
    ml = model.fit(warn_convergence=False)
    assert normal.existence == ml.existence
    np.testing.assert_array_equal(np.isinf(normal.params), np.isinf(ml.params))
    np.testing.assert_allclose(normal.bse, ml.bse, rtol=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("sigma", [1e-2, 1e-4])
def test_the_limit_of_no_noise(scheme, sigma):
    # Noise moves the cells, which ML sees through: counts are integers.
    model = LogLinearModel(noisy_release(scheme, sigma=sigma), "[AB][BC]")
    ml, normal = model.fit(), model.fit(method="normal")
    np.testing.assert_allclose(normal.params, ml.params, atol=0.3 * sigma)
    np.testing.assert_allclose(normal.bse, ml.bse, rtol=0.3 * sigma)


# -- dense algebra --------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["total", "strata", "nothing"])
@pytest.mark.parametrize("kind", ["equal", "unequal", "some exact"])
def test_the_fit_solves_its_equations_and_minimises_at_its_own_weights(scheme, kind):
    cells, design = awkward_cells(scheme, kind), awkward_design(scheme)
    best = fit_by_chi_square(cells, design, np.zeros(12), np.zeros(design.n_columns))
    assert best.converged
    x, mean, strata = design.matrix().toarray(), best.point.fitted, cells.strata
    sampling, noise = covariances(mean, cells.variances, strata)
    weights = np.linalg.pinv(sampling + noise, 1e-11, hermitian=True)
    np.testing.assert_allclose(x.T @ sampling @ weights @ (cells.noisy - mean), 0, atol=1e-6)

    def criterion(beta):
        rate = np.exp(x @ beta)
        if strata is not None:
            rate *= (cells.totals / np.bincount(strata, rate))[strata]
        return (cells.noisy - rate) @ weights @ (cells.noisy - rate)

    there = minimize(criterion, best.beta + 0.05, method="BFGS", options={"gtol": 1e-8})
    assert criterion(best.beta) <= there.fun + 1e-9
    np.testing.assert_allclose(best.beta, there.x, atol=1e-4)
    assert -2 * best.point.value == pytest.approx(criterion(best.beta), rel=1e-9)


@pytest.mark.parametrize("scheme", ["total", "strata", "nothing"])
@pytest.mark.parametrize("kind", ["equal", "unequal", "some exact"])
def test_slope_is_the_derivative_of_the_equations(scheme, kind):
    cells, design = awkward_cells(scheme, kind), awkward_design(scheme)

    def at(beta):
        fitted = cells.as_counts(design.dot(beta), cells.noisy).fitted
        return NormalPoint(design, cells.noisy, cells.variances, fitted, cells.strata)

    rng = np.random.default_rng(3)
    beta = rng.normal(scale=0.3, size=design.n_columns)
    if scheme == "nothing":
        beta[0] = 3.0
    steps = 1e-5 * np.eye(beta.size)
    slope = -np.array([(at(beta + e).gradient - at(beta - e).gradient) / 2e-5 for e in steps]).T
    np.testing.assert_allclose(at(beta).slope, slope, atol=1e-5 * np.abs(slope).max())
    one, other = at(beta), at(beta + 1e-4 * rng.normal(size=beta.size))
    x = design.matrix().toarray()
    sampling, _ = covariances(one.fitted, cells.variances, cells.strata)
    np.testing.assert_allclose(one.complete(), x.T @ sampling @ x, rtol=1e-9, atol=1e-9)
    # Along a short way the shifted Poisson counts gain what the equations promise.
    way = np.linalg.lstsq(x, np.log(other.fitted / one.fitted), rcond=None)[0]
    if scheme == "nothing":
        assert one.rise(other) == pytest.approx(one.gradient @ way, rel=1e-2)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("coding", ["treatment", "sum"])
def test_errors_are_those_of_dense_algebra(scheme, coding):
    result = fit(noisy_release(scheme), "[AB][BC]", coding=coding)
    model, cells = result.model, result.model.cells
    x = model._design.matrix().toarray()
    if coding == "sum":
        x = x @ np.linalg.inv(model._recode)
    sampling, noise = covariances(result.fittedvalues.to_numpy(), cells.variances, cells.strata)
    vx = sampling @ x
    information = vx.T @ np.linalg.pinv(sampling + noise, 1e-11, hermitian=True) @ vx
    np.testing.assert_allclose(result.cov_params(), np.linalg.inv(information), rtol=1e-6)
    without = np.linalg.inv(x.T @ vx)
    np.testing.assert_allclose(result.bse_sampling, np.sqrt(np.diag(without)), rtol=1e-6)
    np.testing.assert_allclose(
        result.bse**2, result.bse_sampling**2 + result.bse_privacy**2, rtol=1e-10
    )
    assert ((result.privacy_share > 0) & (result.privacy_share < 1)).all()


def test_the_projected_statistic_of_kifer_and_rogers():
    """Their middle matrix, projection and pilot, on noise of full rank: as their paper has it."""
    release = noisy_release("third-party", sigma=9.0)
    result = fit(release, "[AB][C]")
    y, n, x = release.noisy.ravel(), 600, result.model._design.matrix().toarray()
    project = np.eye(12) - 1 / 12

    def probabilities(beta):
        rate = np.exp(x @ beta)
        return rate / rate.sum()

    pilot = probabilities(result.params.to_numpy())
    full = n * (np.diag(pilot) - np.outer(pilot, pilot)) + 81.0 * np.eye(12)
    middle = project @ np.linalg.inv(full) @ project

    def statistic(beta):
        return (y - n * probabilities(beta)) @ middle @ (y - n * probabilities(beta))

    there = minimize(statistic, np.zeros(x.shape[1]), method="BFGS", options={"gtol": 1e-9})
    assert result.pearson_chi2 == pytest.approx(there.fun, rel=1e-8)
    np.testing.assert_allclose(result.params, there.x, atol=1e-4)


# -- laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_codings_and_the_order_of_factors_change_nothing(scheme):
    release = noisy_release(scheme)
    one, other = fit(release, "[AB][BC]"), fit(release, "[AB][BC]", coding="sum")
    np.testing.assert_allclose(one.fittedvalues, other.fittedvalues, rtol=1e-6)
    assert one.llf == pytest.approx(other.llf, abs=1e-8)
    moved = fit(release.margin("C", "A", "B"), "[AB][BC]")
    assert moved.pearson_chi2 == pytest.approx(one.pearson_chi2, rel=1e-6)
    for column in one.params.index:
        match = next(c for c in moved.params.index if set(c.split(":")) == set(column.split(":")))
        assert one.params[column] == pytest.approx(moved.params[match], abs=1e-6)
        assert one.bse[column] == pytest.approx(moved.bse[match], rel=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_large_counts_make_it_maximum_likelihood(scheme):
    release = noisy_release(scheme, n=300_000)
    model = LogLinearModel(release, "[ABC]")
    ml, normal = model.fit(), model.fit(method="normal")
    assert (np.abs(normal.params - ml.params) < 0.01 * ml.bse).all()
    np.testing.assert_allclose(normal.bse, ml.bse, rtol=1e-2)
    assert 0 <= ml.llf - normal.llf < 1e-3


@pytest.mark.parametrize("scheme", SCHEMES)
def test_larger_models_have_smaller_statistics_at_shared_weights(scheme):
    release = noisy_release(scheme)
    fits = [fit(release, g) for g in ("[A][B][C]", "[AB][C]", "[AB][BC]", "[ABC]")]
    for smaller, larger in itertools.pairwise(fits):
        assert larger.pearson_chi2 < smaller.pearson_chi2
    assert fits[-1].pearson_chi2 == pytest.approx(0, abs=1e-8)


def test_size_and_law_of_the_statistic_and_of_the_estimates():
    """Under the model, with as much noise as sampling: 300 releases of 12 cells."""
    rng = np.random.default_rng(21)
    domain = Domain({"A": [0, 1, 2], "B": [0, 1, 2, 3]})
    rows, columns = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.2, 0.1])
    truth = np.log([*(rows[1:] / rows[0]), *(columns[1:] / columns[0])])
    statistics, inside = np.empty(300), np.empty((300, 5))
    for k in range(300):
        counts = rng.multinomial(1000, np.outer(rows, columns).ravel()).reshape(3, 4)
        release = simulate_release(counts, domain, GDP(np.sqrt(2) / 10), rng)
        result = fit(release, "[A][B]")
        statistics[k] = result.pearson_chi2
        inside[k] = np.abs(result.params - truth) < 1.96 * result.bse
    assert abs(statistics.mean() - 6) < 3 * np.sqrt(2 * 6 / 300)
    rejected = (statistics > 12.5916).mean()  # the 5 % point on 6 df
    assert abs(rejected - 0.05) < 3 * np.sqrt(0.05 * 0.95 / 300)
    assert abs(inside.mean() - 0.95) < 3 * inside.mean(axis=1).std() / np.sqrt(300)


# -- where there is no estimate, and other ends ---------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_an_eaten_margin_is_infinite_and_says_so(neighbours):
    noisy = [[80.0, 55.0], [61.0, 44.0], [-13.0, -9.0]]
    domain = Domain({"A": ["a", "b", "c"], "B": ["u", "v"]})
    known = {"n_total": 240} if neighbours == "replace-one" else {"neighbours": neighbours}
    release = Release.from_noisy_table(noisy, domain, sigma=10.0, **known)
    model = LogLinearModel(release, "[A][B]")
    with pytest.warns(ExistenceWarning, match="A\\[T.c\\]"):
        result = model.fit(method="normal")
    assert result.converged
    assert result.params["A[T.c]"] == -np.inf
    assert np.isnan(result.bse["A[T.c]"])
    assert np.isfinite(result.bse.drop("A[T.c]")).all()
    np.testing.assert_allclose(result.fittedvalues.iloc[4:], 0, atol=1e-6)
    ratios = fit(release, "[AB]").odds_ratios()
    assert not np.isfinite(ratios["se"].iloc[1])


def test_a_search_that_is_cut_short_says_so(monkeypatch):
    cells, design = awkward_cells("total", "equal"), awkward_design("total")

    def at(beta):
        fitted = cells.as_counts(design.dot(beta), cells.noisy).fitted
        return NormalPoint(design, cells.noisy, cells.variances, fitted, cells.strata)

    best = minimum_chi_square(at, np.full(design.n_columns, 0.7), rounds=1)
    assert not best.converged
    assert "weights" in best.reason
    name = "dpcontingency.inference.normal.minimum_chi_square"
    monkeypatch.setattr(name, lambda at, start: minimum_chi_square(at, start, rounds=0))
    with pytest.warns(ConvergenceWarning, match="method='ml'"):
        result = LogLinearModel(noisy_release("total"), "[A][B]").fit(method="normal")
    assert not result.converged


@pytest.mark.parametrize("scheme", ["total", "strata", "nothing"])
def test_it_converges_where_noise_dominates(scheme):
    """Sparse tables behind much noise, half of them without finite estimates."""
    infinite = 0
    for seed in range(25):
        release = noisy_release(scheme, sigma=25.0, seed=seed, n=60 + 20 * seed)
        result = fit(release, "[AB][AC][BC]")
        assert result.converged
        infinite += not result.existence.exists
        known = np.isfinite(result.params)
        assert (result.bse[known] > 0).all()
        assert (result.bse[known] >= result.bse_sampling[known] * (1 - 1e-9)).all()
    assert 0 < infinite < 25


def test_structural_zeros_hold_no_records_behind_noise():
    domain = Domain({"R": list("abc"), "S": list("abc")}, structural_zeros=[{"R": "a", "S": "a"}])
    counts = np.array([[0, 80, 70], [60, 90, 55], [40, 75, 66]])
    release = simulate_release(counts, domain, GDP(0.3), np.random.default_rng(4))
    result = fit(release, "[R][S]")
    assert result.converged
    assert result.fittedvalues.iloc[0] == 0
    assert result.fittedvalues.sum() == pytest.approx(counts.sum())
    assert result.df_resid == 3


# -- what the results say of themselves -----------------------------------------------------------


def test_misuse_is_one_sentence():
    model = LogLinearModel(noisy_release("total"), "[AB][C]")
    normal = model.fit(method="normal")
    for call, word in (
        (lambda: model.fit(method="gauss"), "'ml' or 'normal'"),
        (lambda: model.fit(penalty="lasso"), "'jeffreys'"),
        (lambda: model.fit(method="normal", penalty="jeffreys"), "method='ml'"),
        (lambda: compare(normal), "method='normal'"),
        (lambda: compare(model.fit(), normal), "method='normal'"),
        (normal.drop1, "likelihood ratio"),
        (lambda: step(normal), "likelihood ratio"),
        (lambda: normal.conf_int(method="profile"), "profile"),
    ):
        with pytest.raises(ModelError, match=word) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_the_page_and_the_file_say_how_it_was_fitted(tmp_path):
    result = fit(noisy_release("strata"), "[AB][C]", coding="sum")
    page = str(result.summary())
    assert "min. chi-square" in page
    assert "none (see note)" in page
    assert "no LR test" in " ".join(page.split())
    assert max(map(len, page.splitlines())) <= 78
    assert result.gof()["statistic"].isna().tolist() == [True, False]
    result.save(tmp_path / "fit.json")
    again = LogLinearResults.load(tmp_path / "fit.json")
    assert (again.method, again.penalty) == ("normal", None)
    assert str(again.summary()) == page


def test_a_file_from_before_there_was_a_choice_is_maximum_likelihood(tmp_path):
    result = LogLinearModel(noisy_release("total"), "[AB][C]").fit()
    result.save(tmp_path / "fit.json")
    content = files.read(tmp_path / "fit.json", files.RESULTS)
    del content["fit"]["method"], content["fit"]["penalty"]
    files.write(tmp_path / "old.json", content, files.RESULTS)
    again = LogLinearResults.load(tmp_path / "old.json")
    assert (again.method, again.penalty) == ("ml", None)
    assert str(again.summary()) == str(result.summary())


def test_no_warning_of_the_solver_leaks(load_table):
    # Warnings are errors here; both systems are singular to working precision on the way.
    counts, domain = load_table("dayton_survey")
    release = simulate_release(counts, domain, GDP(mu=1), np.random.default_rng(7))
    model = LogLinearModel(release, [domain.names])
    assert model.fit(method="normal", warn_convergence=False).converged
    counts = np.array([[10**9, 10**9 + 5, 3], [7, 10**9, 1]])
    domain = Domain({"A": [0, 1], "B": [0, 1, 2]})
    for seed in range(3):
        release = simulate_release(counts, domain, GDP(mu=0.1), np.random.default_rng(seed))
        for generators in ("[A][B]", "[AB]"):
            result = LogLinearModel(release, generators).fit(
                method="normal", warn_convergence=False
            )
            assert result.converged, result.reason
