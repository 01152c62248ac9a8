"""The results object: residuals, predictions, odds ratios, intervals, hypotheses, tables."""

import inspect
import itertools
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import gammaln, xlogy
from statsmodels.stats.contingency_tables import Table, Table2x2

from dpcontingency.domain import Domain
from dpcontingency.errors import DomainError, ExistenceWarning, ModelError, ReleaseError
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.profile import Profile
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.risks import odds_ratio
from dpcontingency.inference.rows import CellRows
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release import files
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

SCHEMES = ["total", "strata", "nothing", "third-party"]
CODINGS = ["treatment", "sum"]
DOSE = np.array([[30, 10], [22, 18], [12, 28]])
ZERO = np.array([[41, 0], [190, 377]])  # CASES C5
ODD = ["my a", "b-c", "1st", "class", "C", "Q", "np", "Intercept", "x:y", "α", "a=b", "(p", "-q,"]


def fit(release, generators, coding="treatment"):
    return LogLinearModel(release, generators, coding=coding).fit(warn_convergence=False)


def square(counts, names=("A", "B")):
    return Domain({name: list(range(n)) for name, n in zip(names, counts.shape, strict=True)})


def exact(counts, names=("A", "B")):
    return Release.exact(counts, square(counts, names))


def noisy_release(scheme, sigma=4.0, seed=8):
    rng = np.random.default_rng(seed)
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y"]})
    counts = rng.multinomial(600, rng.dirichlet(np.full(12, 3.0))).reshape(domain.shape)
    if scheme == "total":
        return simulate_release(counts, domain, GDP(np.sqrt(2) / sigma), rng)
    if scheme == "strata":
        return simulate_release(counts, domain, GDP(np.sqrt(2) / sigma), rng, strata=["B"])
    if scheme == "nothing":
        return simulate_release(counts, domain, GDP(1 / sigma), rng, neighbours="add-remove")
    noisy = counts + sigma * rng.standard_normal(domain.shape)
    return Release.from_noisy_table(noisy, domain, sigma=sigma, n_total=600)


def poisson_limit(counts, domain):
    """A release with no public total and next to no noise: a Poisson GLM in all but name."""
    return Release.from_noisy_table(counts, domain, sigma=1e-4, neighbours="add-remove")


def glm(formula, counts, domain):
    frame = pd.DataFrame(list(domain.cells()), columns=list(domain.names)).astype(str)
    for name in domain.names:
        levels = [str(level) for level in domain.levels[name]]
        frame[name] = pd.Categorical(frame[name], levels)
    frame["y"] = counts.ravel()
    model = sm.GLM.from_formula(formula, frame, family=sm.families.Poisson())
    return model.fit(tol=1e-12, tol_criterion="params")


@pytest.fixture(scope="module")
def ucb(load_table):
    counts, domain = load_table("ucb_admissions")
    return counts, domain, fit(Release.exact(counts, domain), "[Admit Dept][Gender Dept]")


# -- rows of the design -------------------------------------------------------------------------


@pytest.mark.parametrize("strata", [None, (), (1,), (0, 2)], ids=str)
@pytest.mark.parametrize("within", [None, (), (0,), (1,), (1, 2), (0, 1, 2)], ids=str)
def test_variances_of_logs_are_those_of_dense_algebra(strata, within, monkeypatch):
    monkeypatch.setattr("dpcontingency.inference.rows.BLOCK", 16)  # several blocks
    rng = np.random.default_rng(4)
    shape = (2, 3, 2)
    model = LogLinearModel(noisy_release("nothing"), "[AB][BC]")
    rows = CellRows(shape, model._design.codes)
    x = model._design.matrix().toarray()
    np.testing.assert_array_equal(rows.of(np.arange(12)), x)
    root = rng.normal(size=(x.shape[1], x.shape[1]))
    covariance, means = root @ root.T, rng.uniform(1, 9, size=12)
    levels = np.stack(np.unravel_index(np.arange(12), shape), axis=1)

    def centred(table, axes):
        if axes is None:
            return table
        out = table.copy()
        for c in range(12):
            same = (levels[:, list(axes)] == levels[c, list(axes)]).all(axis=1)
            out[c] -= np.average(table[same], axis=0, weights=means[same])
        return out

    gradient = centred(centred(x, strata), within)
    dense = np.einsum("cj,jk,ck->c", gradient, covariance, gradient)
    found = rows.log_variances(covariance, means, strata, within)
    np.testing.assert_allclose(found, dense, atol=1e-10)


# -- residuals ----------------------------------------------------------------------------------


def test_adjusted_residuals_of_a_textbook_table():
    # CASES C7.
    result = fit(exact(DOSE), "[A][B]")
    expected = [[3.3641, -3.3641], [0.2588, -0.2588], [-3.6228, 3.6228]]
    np.testing.assert_allclose(result.resid_adjusted, np.ravel(expected), atol=5e-5)
    oracle = Table(DOSE, shift_zeros=False).standardized_resids
    np.testing.assert_allclose(result.standardized_resids, np.ravel(oracle), atol=1e-8)


@pytest.mark.parametrize("formula", ["Admit*Dept + Gender*Dept", "(Admit + Gender + Dept)**2"])
@pytest.mark.parametrize("limit", ["exact", "strata", "poisson"])
def test_residuals_are_those_of_a_glm_without_noise(load_table, formula, limit):
    counts, domain = load_table("ucb_admissions")
    oracle = glm("y ~ " + formula, counts, domain)
    leverage = oracle.get_influence().hat_matrix_diag
    if limit == "poisson":
        release = poisson_limit(counts, domain)
    else:
        release = Release.exact(counts, domain)
        if limit == "strata":
            rng = np.random.default_rng(1)
            release = simulate_release(counts, domain, GDP(1e7), rng, strata=["Gender", "Dept"])
    result = LogLinearModel.from_formula(formula, release).fit()
    np.testing.assert_allclose(
        result.resid_adjusted, oracle.resid_pearson / np.sqrt(1 - leverage), atol=2e-5
    )
    np.testing.assert_allclose(result.resid_deviance, oracle.resid_deviance, atol=2e-5)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("coding", CODINGS)
def test_adjusted_residuals_are_those_of_dense_algebra(scheme, coding):
    result = fit(noisy_release(scheme), "[AB][BC]", coding)
    model, mean = result.model, result.fittedvalues.to_numpy()
    v, strata = model.cells.variances, model.cells.strata
    sampling, noise = np.diag(mean), np.diag(v)
    if strata is not None:
        same = strata[:, None] == strata
        sampling -= np.where(same, np.outer(mean, mean), 0) / np.bincount(strata, mean)[strata]
        noise -= np.where(same, np.outer(v, v), 0) / np.bincount(strata, v)[strata]
    sigma = sampling + noise
    x = sampling @ model._design.matrix().toarray()  # V X
    inside = np.linalg.inv(x.T @ np.linalg.pinv(sigma, 1e-10, hermitian=True) @ x)
    left = sigma - x @ inside @ x.T
    expected = result.resid_response / np.sqrt(np.diag(left))
    np.testing.assert_allclose(result.resid_adjusted, expected, rtol=1e-7)


@pytest.mark.parametrize("strata", [(), ("B",)], ids=str)
def test_adjusted_residuals_have_variance_one(strata):
    """Under the model, with as much noise as sampling: 250 releases of 12 cells."""
    rng = np.random.default_rng(77)
    domain = square(np.zeros((3, 4)))
    probabilities = np.outer([0.5, 0.3, 0.2], [0.4, 0.3, 0.2, 0.1])
    squares = np.empty((250, 12))
    for row in squares:
        counts = rng.multinomial(1000, probabilities.ravel()).reshape(3, 4)
        release = simulate_release(counts, domain, GDP(np.sqrt(2) / 8), rng, strata=list(strata))
        row[:] = fit(release, "[A][B]").resid_adjusted ** 2
    means = squares.mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(len(means))
    assert error < 0.045
    assert abs(means.mean() - 1) < 3.5 * error
    each = squares.mean(axis=0)
    assert (abs(each - 1) < 4 * squares.std(axis=0) / np.sqrt(len(squares))).all()


def test_a_saturated_model_leaves_no_adjusted_residual():
    assert fit(noisy_release("total"), "[ABC]").resid_adjusted.isna().all()


@pytest.mark.parametrize("sigma", [0.5, 10, 300])
def test_a_saturated_penalised_fit_leaves_no_adjusted_residual(sigma):
    noisy = np.array([[91.5, 38.2, 3.1], [47.7, 55.4, -4.2]])
    release = Release.from_noisy_table(noisy, square(noisy), sigma=sigma, n_total=232)
    result = LogLinearModel(release, "[A B]").fit(penalty="jeffreys")
    assert result.resid_adjusted.isna().all()


def test_squared_deviance_residuals_add_up_to_the_deviance():
    result = fit(noisy_release("nothing"), "[AB][C]")
    assert (result.resid_deviance**2).sum() == pytest.approx(result.deviance, rel=1e-7)
    result = fit(Release.exact(DOSE, square(DOSE)), "[A][B]")
    assert (result.resid_deviance**2).sum() == pytest.approx(result.deviance, rel=1e-9)


def test_deviance_residuals_by_direct_summation():
    result = fit(
        Release.from_noisy_table(
            [[12.3, -5.2, 4.0], [9.1, 3.3, -0.4]],
            square(np.zeros((2, 3))),
            sigma=3.0,
            neighbours="add-remove",
        ),
        "[A][B]",
    )
    k = np.arange(200)

    def log_weight(rate, y):
        terms = xlogy(k, rate) - rate - gammaln(k + 1) - (y - k) ** 2 / 18
        return np.logaddexp.reduce(terms)

    for y, mean, residual in zip(
        result.model.cells.noisy, result.fittedvalues, result.resid_deviance, strict=True
    ):
        best = minimize_scalar(
            lambda rate, y=y: -log_weight(rate, y),
            bounds=(1e-9, 60),
            method="bounded",
            options={"xatol": 1e-9},
        )
        lack = 2 * (-best.fun - log_weight(mean, y))
        assert residual == pytest.approx(np.sign(best.x - mean) * np.sqrt(max(lack, 0)), abs=2e-4)


# -- predictions --------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize(
    ("what", "given"),
    [("mean", ()), ("proportion", ()), ("conditional", "B"), ("conditional", ("A", "C"))],
    ids=str,
)
def test_errors_of_predictions_by_finite_differences(scheme, coding, what, given):
    result = fit(noisy_release(scheme), "[AB][BC]", coding)
    model, at = result.model, result.params.to_numpy()

    def values(params):
        table = pd.Series(model.predict(params), index=result.fittedvalues.index)
        if what == "proportion":
            table = table / table.sum()
        elif what == "conditional":
            names = [given] if isinstance(given, str) else list(given)
            table = table / table.groupby(names).transform("sum")
        return table.to_numpy()

    steps = np.eye(at.size) * 1e-5
    jacobian = np.array([(values(at + e) - values(at - e)) / 2e-5 for e in steps]).T
    errors = np.sqrt(np.einsum("cj,jk,ck->c", jacobian, result.cov_params(), jacobian))
    found = result.get_prediction(what, given)
    np.testing.assert_allclose(found.predicted_mean, values(at), rtol=1e-10)
    np.testing.assert_allclose(found.se, errors, rtol=1e-5, atol=1e-9)
    interval = found.conf_int(0.1)
    assert (interval["lower"] < found.predicted_mean).all()
    assert (interval["upper"] > found.predicted_mean).all()
    assert (interval["lower"] > 0).all()
    if what != "mean":
        assert (interval["upper"] < 1).all()


def test_means_are_those_that_a_glm_predicts(load_table):
    counts, domain = load_table("hair_eye_color")
    result = fit(poisson_limit(counts, domain), "[Hair Eye][Sex]")
    frame = result.get_prediction().summary_frame(0.1)
    oracle = glm("y ~ Hair*Eye + Sex", counts, domain).get_prediction().summary_frame(0.1)
    columns = ["mean", "mean_se", "mean_ci_lower", "mean_ci_upper"]
    np.testing.assert_allclose(frame[columns], oracle[columns], rtol=1e-5)
    assert list(frame.index.names) == ["Hair", "Eye", "Sex"]
    assert (frame["reason"] == "").all()


def test_conditional_probabilities_are_those_of_a_logistic_regression(load_table):
    counts, domain = load_table("ucb_admissions")
    release = Release.exact(counts, domain)
    result = LogLinearModel.from_formula("(Admit + Gender + Dept)**2", release).fit()
    found = result.get_prediction("conditional", given=["Gender", "Dept"]).summary_frame()
    frame = pd.Series(counts.ravel(), index=found.index, name="y").unstack("Admit").reset_index()
    oracle = sm.GLM.from_formula(
        "np.column_stack((Admitted, Rejected)) ~ Gender + Dept",
        frame,
        family=sm.families.Binomial(),
    ).fit(tol=1e-12, tol_criterion="params")
    expected = oracle.get_prediction().summary_frame()
    admitted = found.loc["Admitted"]
    order = pd.MultiIndex.from_frame(frame[["Gender", "Dept"]])
    for column in expected:
        np.testing.assert_allclose(admitted[column].loc[order], expected[column], rtol=1e-6)


def test_the_noise_is_in_the_errors_of_predictions(ucb):
    counts, domain, exact_fit = ucb
    release = Release.from_noisy_table(counts, domain, sigma=20.0, n_total=int(counts.sum()))
    noisy_fit = fit(release, "[Admit Dept][Gender Dept]")
    ratio = noisy_fit.get_prediction().se / exact_fit.get_prediction().se
    assert (ratio > 1.01).all()


def test_a_cell_at_zero_has_a_value_and_a_reason_and_the_others_intervals():
    frame = fit(exact(ZERO), "[A B]").get_prediction().summary_frame()
    lost = frame["mean"] < 1e-6
    assert lost.tolist() == [False, True, False, False]
    ends = frame[["mean_ci_lower", "mean_ci_upper"]].to_numpy()
    assert ends[lost].tolist() == [[0, np.inf]]
    assert np.isfinite(ends[~lost]).all()
    assert (frame["reason"] != "").tolist() == lost.tolist()
    p = ZERO[~(ZERO == 0)] / 608
    np.testing.assert_allclose(frame["mean_se"][~lost], np.sqrt(608 * p * (1 - p)), rtol=1e-6)


def test_structural_zeros_and_certain_cells_have_intervals_of_no_width():
    domain = Domain({"A": [0, 1], "B": [0, 1]}, structural_zeros=[{"A": 0, "B": 1}])
    result = fit(Release.exact([[30, 0], [20, 10]], domain), "[A][B]")
    frame = result.get_prediction("conditional", "A").summary_frame()
    assert frame.loc[(0, 1)].tolist() == [0, 0, 0, 0, "structural zero"]
    assert frame.loc[(0, 0)].tolist() == [1, 0, 1, 1, ""]
    assert frame["mean_se"][(1, 0)] > 0


def test_predict_names_cells(ucb):
    result = ucb[2]
    pd.testing.assert_series_equal(result.predict(), result.fittedvalues)
    frame = pd.DataFrame(
        {"Dept": ["F", "A"], "Gender": ["Female", "Male"], "Admit": ["Rejected", "Admitted"]},
        index=["one", "two"],
    )
    found = result.predict(frame)
    assert found["one"] == result.fittedvalues["Rejected", "Female", "F"]
    assert found["two"] == result.fittedvalues["Admitted", "Male", "A"]
    with pytest.raises(DomainError, match=r"Dept.*'G'.*'A', 'B'"):  # CASES C19
        result.predict(frame.assign(Dept="G"))
    with pytest.raises(ModelError, match="'Gender'"):
        result.predict(frame[["Dept", "Admit"]])
    for call in (
        lambda: result.get_prediction("median"),
        lambda: result.get_prediction("conditional"),
        lambda: result.get_prediction("mean", given="Dept"),
    ):
        with pytest.raises(ModelError):
            call()
    with pytest.raises(DomainError):
        result.get_prediction("conditional", "Depp")


def test_large_tables_need_no_rows(monkeypatch):
    """12,288 cells by 91 parameters, and no dense row is asked for."""
    monkeypatch.setattr(CellRows, "of", None)
    rng = np.random.default_rng(0)
    shape = (4, 4, 4, 4, 4, 4, 3)
    domain = Domain({f"F{k}": list(range(n)) for k, n in enumerate(shape)})
    counts = rng.poisson(40.0, size=shape)
    release = simulate_release(counts, domain, GDP(1.0), rng)
    result = LogLinearModel.from_formula("F0*F1*F2 + F3*F4 + F5 + F6", release).fit()
    frame = result.get_prediction("conditional", ["F0", "F3", "F6"]).summary_frame()
    assert len(frame) == 12288
    assert np.isfinite(frame["mean_se"]).all()
    adjusted = result.resid_adjusted
    assert (adjusted**2).mean() == pytest.approx(1, abs=0.06)


# -- odds ratios --------------------------------------------------------------------------------


def test_odds_ratios_of_a_two_by_two_table():
    counts = np.array([[12, 7], [9, 25]])
    domain = Domain({"Admit": ["Admitted", "Rejected"], "Gender": ["Male", "Female"]})
    row = fit(Release.exact(counts, domain), "[Admit Gender]").odds_ratios(alpha=0.1).iloc[0]
    oracle = Table2x2(counts, shift_zeros=False)
    assert row["odds_ratio"] == pytest.approx(oracle.oddsratio, rel=1e-8)
    assert row["log_or"] == pytest.approx(oracle.log_oddsratio, rel=1e-8)
    assert row["se"] == pytest.approx(oracle.log_oddsratio_se, rel=1e-8)
    assert (row["lower"], row["upper"]) == pytest.approx(oracle.oddsratio_confint(0.1), rel=1e-8)
    assert row["in_words"] == (
        "odds of Admit = Admitted rather than Rejected, for Gender = Male relative to Female"
    )


def test_odds_ratios_vary_only_with_what_they_depend_on(ucb):
    counts, domain, conditional = ucb
    pairs = conditional.odds_ratios()
    assert len(pairs) == 5 + 5  # Admit with Dept, Gender with Dept; neither varies
    saturated = fit(Release.exact(counts, domain), "[Admit Gender Dept]")
    frame = saturated.odds_ratios("Admit", "Gender")
    assert list(frame.index.get_level_values("at")) == [f"Dept = {d}" for d in "ABCDEF"]
    for k, (_, row) in enumerate(frame.iterrows()):
        oracle = Table2x2(counts[:, :, k], shift_zeros=False)
        assert row["odds_ratio"] == pytest.approx(oracle.oddsratio, rel=1e-7)
        assert row["se"] == pytest.approx(oracle.log_oddsratio_se, rel=1e-7)
    assert frame["in_words"].iloc[0] == (
        "odds of Admit = Admitted rather than Rejected, for Gender = Male relative to Female, "
        "at Dept = A"
    )
    turned = saturated.odds_ratios("Gender", "Admit")
    np.testing.assert_allclose(turned["odds_ratio"], frame["odds_ratio"], rtol=1e-10)
    assert turned["in_words"].iloc[0].startswith("odds of Gender = Male rather than Female")
    assert set(saturated.odds_ratios(column="Dept").index.get_level_values("at")) == {
        "Gender = Male", "Gender = Female", "Admit = Admitted", "Admit = Rejected"
    }  # fmt: skip


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("coding", CODINGS)
def test_odds_ratios_say_what_their_error_would_be_without_noise(scheme, coding):
    release = noisy_release(scheme)
    result = fit(release, "[A B][B C]", coding)
    frame = result.odds_ratios()
    assert (frame["se_sampling"] < frame["se"]).all()
    # In treatment coding each ratio is one coefficient, up to its sign.
    plain = fit(release, "[A B][B C]")
    names = ["A[T.b]:B[T.v]", "A[T.b]:B[T.w]", "B[T.v]:C[T.y]", "B[T.w]:C[T.y]"]
    np.testing.assert_allclose(frame["se_sampling"], plain.bse_sampling[names], rtol=1e-6)
    # Of a saturated pair, what the fitted cells would have as counts.
    whole = fit(release.margin("A", "C"), "[A C]", coding)
    alone = np.sqrt((1 / whole.fittedvalues).sum())
    assert whole.odds_ratios()["se_sampling"].iloc[0] == pytest.approx(alone, rel=1e-6)


def test_without_noise_both_errors_of_an_odds_ratio_are_the_same():
    counts = np.array([[12, 7, 30], [9, 25, 0]])
    frame = fit(exact(counts), "[A B]").odds_ratios()
    np.testing.assert_allclose(frame["se_sampling"], frame["se"], rtol=1e-6)
    assert frame["se_sampling"].isna().tolist() == [False, True]  # infinite: it has none


def test_no_association_is_said_to_be_none(ucb):
    with pytest.raises(ModelError, match="'Admit' and 'Gender', so those odds ratios are 1"):
        ucb[2].odds_ratios("Admit", "Gender")
    with pytest.raises(ModelError, match="'Admir' is no factor"):
        ucb[2].odds_ratios("Admir")
    with pytest.raises(ModelError, match="'conditional' or 'local'"):
        ucb[2].odds_ratios(kind="global")
    assert fit(exact(DOSE), "[A][B]").odds_ratios().empty


@pytest.mark.parametrize("kind", ["conditional", "local"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_odds_ratios_by_finite_differences(scheme, kind):
    release = noisy_release(scheme)
    result = fit(release, "[AB][BC]")
    model, at = result.model, result.params.to_numpy()
    frame = result.odds_ratios(kind=kind)
    in_sum_coding = fit(release, "[AB][BC]", "sum").odds_ratios(kind=kind)
    pd.testing.assert_frame_equal(frame, in_sum_coding, rtol=1e-5)
    steps = [(0, 1), (1, 2)] if kind == "local" else [(0, 1), (0, 2)]

    def logs(params):
        table = np.log(model.predict(params).reshape(2, 3, 2))
        ab, bc = table[:, :, 0], table[0]
        return np.array(
            [ab[0, j] + ab[1, m] - ab[0, m] - ab[1, j] for j, m in steps]
            + [bc[j, 0] + bc[m, 1] - bc[j, 1] - bc[m, 0] for j, m in steps]
        )

    jacobian = np.array([(logs(at + e) - logs(at - e)) / 2e-5 for e in np.eye(at.size) * 1e-5]).T
    errors = np.sqrt(np.einsum("cj,jk,ck->c", jacobian, result.cov_params(), jacobian))
    np.testing.assert_allclose(frame["log_or"], logs(at), rtol=1e-8)
    np.testing.assert_allclose(frame["se"], errors, rtol=1e-5)
    np.testing.assert_allclose(
        np.log(frame["upper"]), frame["log_or"] + 1.959963984540054 * frame["se"], rtol=1e-9
    )


def test_both_factors_in_the_strata():
    """The association is partly public: its error is that of the rest."""
    release = noisy_release("total")
    rng = np.random.default_rng(5)
    counts = np.maximum(release.noisy.round(), 1).astype(int)
    stratified = simulate_release(counts, release.domain, GDP(0.5), rng, strata=["A", "B"])
    result = fit(stratified, "[AB][AC][BC]")
    frame = result.odds_ratios("A", "B")
    at = result.params.to_numpy()

    def logs(params, c):
        log = np.log(result.model.predict(params).reshape(2, 3, 2))[:, :, c]
        return np.array([log[0, 0] + log[1, m] - log[0, m] - log[1, 0] for m in (1, 2)])

    steps = np.eye(at.size) * 1e-5
    for c in (0, 1):
        jacobian = np.array([(logs(at + e, c) - logs(at - e, c)) / 2e-5 for e in steps]).T
        errors = np.sqrt(np.einsum("cj,jk,ck->c", jacobian, result.cov_params(), jacobian))
        np.testing.assert_allclose(frame["log_or"], logs(at, c), rtol=1e-6)
        np.testing.assert_allclose(frame["se"], errors, rtol=1e-5)


def multinomial_profile(counts, value):
    """Largest log-likelihood of a 2x2 multinomial with its log odds ratio held at a value."""
    oracle = sm.GLM(
        counts.ravel(),
        np.array([[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]),
        family=sm.families.Poisson(),
        offset=value * np.array([1.0, 0, 0, 0]),
    ).fit(tol=1e-13, tol_criterion="params", maxiter=300)
    p = np.maximum(oracle.fittedvalues / counts.sum(), 1e-300)
    return counts.ravel() @ np.log(p)


def test_an_infinite_odds_ratio_has_one_finite_end():
    # CASES C5: never 24.07 with a standard error of 11,323.
    result = fit(exact(ZERO), "[A B]")
    row = result.odds_ratios().iloc[0]
    assert (row["odds_ratio"], row["log_or"], row["upper"]) == (np.inf, np.inf, np.inf)
    assert np.isnan(row["se"])
    top = (ZERO[ZERO > 0] * np.log(ZERO[ZERO > 0] / ZERO.sum())).sum()
    cut = stats.chi2.isf(0.05, 1)
    lower = brentq(lambda t: 2 * (top - multinomial_profile(ZERO, t)) - cut, 1, 12)
    assert np.log(row["lower"]) == pytest.approx(lower, abs=1e-5)
    mirrored = fit(exact(ZERO[:, ::-1]), "[A B]").odds_ratios().iloc[0]
    assert (mirrored["odds_ratio"], mirrored["lower"]) == (0, 0)
    assert np.log(mirrored["upper"]) == pytest.approx(-lower, abs=1e-5)


def test_a_ratio_is_taken_where_it_is_finite():
    # One level of C loses a cell, but the ratio of A and B is the same at the other.
    counts = np.array([[[9, 0], [7, 5]], [[4, 0], [6, 8]]]).transpose(0, 2, 1)
    domain = Domain({"A": [0, 1], "C": [0, 1], "B": [0, 1]})
    result = fit(Release.exact(counts, domain), "[A C][C B]")
    frame = result.odds_ratios("A", "C")
    assert np.isfinite(frame[["log_or", "se"]].to_numpy()).all()
    oracle = Table2x2(counts.sum(axis=2), shift_zeros=False)
    assert frame["log_or"].item() == pytest.approx(oracle.log_oddsratio, rel=1e-7)
    assert frame["se"].item() == pytest.approx(oracle.log_oddsratio_se, rel=1e-7)
    assert result.odds_ratios("C", "B")["odds_ratio"].item() in (0, np.inf)


def test_a_ratio_without_standard_error_has_a_reason():
    hole = Domain({"A": [0, 1], "B": [0, 1, 2]}, structural_zeros=[{"A": 0, "B": 1}])
    frame = fit(Release.exact([[8, 0, 12], [30, 7, 9]], hole), "[A B]").odds_ratios()
    assert list(frame["reason"]) == ["structural zero", ""]
    assert list(frame["se"].isna()) == [True, False]
    infinite = fit(exact(ZERO), "[A B]").odds_ratios().iloc[0]
    assert infinite["reason"] == "depends on a parameter at infinity"
    lost = fit(exact(np.array([[0, 5], [0, 3]])), "[A B]").odds_ratios().iloc[0]
    assert np.isnan(lost["odds_ratio"])
    assert "at 0" in lost["reason"]


def test_only_what_is_undefined_by_definition_has_no_interval():
    """CASES D13: what the data leave open may be anything, and has its whole range."""
    empty_row = exact(np.array([[0, 0], [8, 5]]))
    lost = fit(empty_row, "[A B]")
    ratio = lost.odds_ratios().iloc[0]
    assert ratio[["lower", "upper"]].tolist() == [0, np.inf]
    assert (lost.conf_int()[lost.params.isna()] == [-np.inf, np.inf]).all(axis=None)
    shares = fit(empty_row, "[A B]").get_prediction("conditional", "A").summary_frame()
    nothing = shares.loc[[(0, 0), (0, 1)]]
    assert nothing["mean"].isna().all()
    assert (nothing[["mean_ci_lower", "mean_ci_upper"]] == [0, 1]).all(axis=None)
    infinite = fit(exact(ZERO), "[A B]").odds_ratios(profile=False).iloc[0]
    assert infinite[["odds_ratio", "lower", "upper"]].tolist() == [np.inf, 0, np.inf]

    hole = Domain({"A": [0, 1], "B": [0, 1]}, structural_zeros=[{"A": 0}])
    impossible = LogLinearModel(Release.exact([[0, 0], [8, 5]], hole), "[B]", left_out="uniform")
    impossible = impossible.fit()
    shares = impossible.get_prediction("conditional", "A").summary_frame()
    ends = shares[["mean_ci_lower", "mean_ci_upper"]]
    assert ends.loc[[(0, 0), (0, 1)]].isna().all(axis=None)
    assert (shares.loc[[(0, 0), (0, 1)], "reason"] == "structural zero").all()


def test_noise_that_excludes_nothing_leaves_both_ends_of_a_ratio_open():
    """What the docstring says of an infinite ratio: the likelihood never falls below the cut."""
    release = Release.from_noisy_table([[10, -6], [20, 30]], square(ZERO), sigma=20, n_total=54)
    result = fit(release, "[A B]")
    row = result.odds_ratios().iloc[0]
    assert (row["odds_ratio"], row["lower"], row["upper"]) == (np.inf, 0, np.inf)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_margin_that_noise_has_eaten_gives_a_one_sided_interval(coding):
    domain = square(ZERO)
    release = Release.from_noisy_table([[41, -6], [190, 377]], domain, sigma=4.0, n_total=608)
    result = fit(release, "[A B]", coding)
    row = result.odds_ratios().iloc[0]
    assert (row["odds_ratio"], row["upper"]) == (np.inf, np.inf)
    model = LogLinearModel(release, "[A B]")

    def excess(value):
        def lack(rest):
            return -model.loglike(np.append(rest, value))

        options = {"xatol": 1e-8, "fatol": 1e-10}
        starts = [[1.5, start] for start in (-1.0, -3.0)]
        best = min(minimize(lack, s, method="Nelder-Mead", options=options).fun for s in starts)
        return 2 * (result.llf + best) - stats.chi2.isf(0.05, 1)

    assert np.log(row["lower"]) == pytest.approx(brentq(excess, 1, 5), abs=1e-5)


def test_a_likelihood_with_a_limit_above_the_cut_has_an_infinite_end():
    """An estimate that is finite, where the noise does not exclude that the cell is empty."""
    release = Release.from_noisy_table([[41, 1], [190, 377]], square(ZERO), sigma=4.0, n_total=609)
    result = fit(release, "[A B]")
    assert np.isfinite(result.params).all()
    ends = result.conf_int(method="profile")
    assert ends.loc["A[T.1]:B[T.1]", 1] == np.inf
    assert ends.loc["B[T.1]", 0] == -np.inf
    assert np.isfinite(ends.loc["A[T.1]"]).all()
    limit = LogLinearModel(release, "[A B]").loglike([result.params.iloc[0], -30.0, 30.7])
    assert 2 * (result.llf - limit) < stats.chi2.isf(0.05, 1)


# -- denoised tables ----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_shrunken_table_is_the_formula(scheme):
    release = noisy_release(scheme, sigma=12.0)
    result = fit(release, "[A][B][C]")
    d = {"total": 11, "third-party": 11, "strata": 9, "nothing": 12}[scheme]
    q = {"total": 4, "third-party": 4, "strata": 2, "nothing": 5}[scheme]
    y, t = result.model.cells.noisy, result.fittedvalues.to_numpy()
    sigma2 = result.model.cells.variances[0]
    factor = max(0.0, 1 - (d - q - 2) * sigma2 / ((y - t) ** 2).sum())
    assert 0 < factor < 1
    expected = (t + factor * (y - t)).reshape(release.domain.shape)
    table = result.shrunken_table()
    np.testing.assert_allclose(table, expected, rtol=1e-10)
    if scheme != "nothing":
        assert table.sum() == pytest.approx(600, rel=1e-9)


def test_shrunken_table_without_room_or_without_noise_is_the_table():
    release = noisy_release("total")
    np.testing.assert_allclose(fit(release, "[ABC]").shrunken_table(), release.noisy)
    np.testing.assert_allclose(fit(exact(DOSE), "[A][B]").shrunken_table(), DOSE)


def test_shrunken_table_refuses_unequal_noise():
    domain = Domain(
        {"A": [0, 1], "B": [0, 1, 2], "C": [0, 1]}, structural_zeros=[{"A": 0, "B": 0, "C": 0}]
    )
    rng = np.random.default_rng(3)
    counts = np.where(domain.possible(), 30, 0)
    release = simulate_release(counts, domain, GDP(0.5), rng, neighbours="add-remove")
    with pytest.raises(ModelError, match="one variance in all cells"):
        fit(release.margin("A", "B"), "[A][B]").shrunken_table()
    whole = fit(release, "[A][B][C]").shrunken_table()
    assert whole[0, 0, 0] == 0


# -- intervals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "generators"),
    [
        ([[12, 3], [5, 9]], "[A B]"),
        ([[12, 3], [5, 9]], "[A][B]"),
        ([[8, 3, 1], [4, 6, 2], [1, 5, 9]], "[A B]"),
        ([[8, 3, 1], [4, 6, 2], [1, 5, 9]], "[A][B]"),
    ],
    ids=str,
)
def test_profile_intervals_are_those_of_a_poisson_glm(counts, generators):
    """The oracle holds one coefficient by an offset and refits: R's confint."""
    counts = np.array(counts)
    domain = square(counts)
    formula = "y ~ A*B" if generators == "[A B]" else "y ~ A + B"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a saturated GLM has no df for a scale
        oracle = glm(formula, counts, domain)
    x = oracle.model.exog
    cut = stats.chi2.isf(0.1, 1)

    def excess(value, j):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            held = sm.GLM(
                counts.ravel(),
                np.delete(x, j, axis=1),
                family=sm.families.Poisson(),
                offset=value * x[:, j],
            ).fit(tol=1e-12, tol_criterion="params")
        return held.deviance - oracle.deviance - cut

    result = fit(Release.exact(counts, domain), generators)
    found = result.conf_int(0.1, method="profile")
    for j, name in enumerate(oracle.params.index):
        if name == "Intercept":
            continue
        estimate, step = oracle.params[name], 6 * oracle.bse[name]
        expected = [
            brentq(excess, *sorted((estimate, estimate + side * step)), args=(j,), xtol=1e-10)
            for side in (-1, 1)
        ]
        np.testing.assert_allclose(found.loc[name], expected, atol=2e-6)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("scheme", ["total", "strata", "nothing"])
def test_profile_intervals_with_noise_end_where_the_likelihood_has_fallen(scheme, coding):
    result = fit(noisy_release(scheme, sigma=8.0), "[A][B][C]", coding)
    model = result.model
    name = "A[T.b]" if coding == "treatment" else "A[S.a]"
    j = list(result.params.index).index(name)
    ends = result.conf_int(0.05, [j], method="profile").loc[name]
    assert ends[0] < result.params[name] < ends[1]
    for end in ends:
        start = np.delete(result.params.to_numpy(), j)
        best = minimize(
            lambda rest, end=end: -model.loglike(np.insert(rest, j, end)),
            start,
            jac=lambda rest, end=end: -np.delete(model.score(np.insert(rest, j, end)), j),
            method="BFGS",
            options={"gtol": 1e-7},
        )
        assert 2 * (result.llf + best.fun) == pytest.approx(stats.chi2.isf(0.05, 1), abs=1e-5)


def test_profile_intervals_approach_wald_and_are_one_sided_at_infinity():
    counts = np.array([[40000, 30000], [35000, 50000]])
    result = fit(exact(counts), "[A B]")
    np.testing.assert_allclose(
        result.conf_int(method="profile"), result.conf_int(), rtol=2e-3, atol=1e-5
    )
    lost = fit(exact(ZERO), "[A B]")
    found = lost.conf_int(method="profile")
    assert found.loc["B[T.1]", 0] == -np.inf
    assert np.isfinite(found.loc["B[T.1]", 1])
    assert found.loc["A[T.1]:B[T.1]", 1] == np.inf
    assert np.isfinite(found.loc["A[T.1]:B[T.1]", 0])
    assert lost.conf_int().loc["B[T.1]"].isna().all() or np.isinf(lost.conf_int().loc["B[T.1]", 0])
    with pytest.raises(ModelError, match="'wald', 'score' or 'profile'"):
        lost.conf_int(method="exact")


def test_score_intervals_are_those_of_a_poisson_glm():
    """Without noise they hold the values that Pearson's X2 on one df does not reject."""
    counts = np.array([[12, 5], [7, 9]])
    found = fit(exact(counts), "[A B]").conf_int(0.1, method="score")
    design = np.array([[1, 0, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]], float)
    for j in range(1, 4):
        for end in found.iloc[j - 1]:
            rest = sm.GLM(
                counts.ravel(),
                np.delete(design, j, axis=1),
                family=sm.families.Poisson(),
                offset=end * design[:, j],
            ).fit(tol=1e-12)
            assert rest.pearson_chi2 == pytest.approx(stats.chi2.isf(0.1, 1), abs=1e-4)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("scheme", ["total", "strata", "nothing"])
def test_score_intervals_with_noise_end_where_the_score_test_rejects(scheme, coding):
    result = fit(noisy_release(scheme, sigma=8.0), "[A][B][C]", coding)
    model = result.model
    name = "A[T.b]" if coding == "treatment" else "A[S.a]"
    j = list(result.params.index).index(name)
    ends = result.conf_int(0.05, [name], method="score").loc[name]
    assert ends[0] < result.params[name] < ends[1]
    for end in ends:
        best = minimize(
            lambda rest, end=end: -model.loglike(np.insert(rest, j, end)),
            np.delete(result.params.to_numpy(), j),
            jac=lambda rest, end=end: -np.delete(model.score(np.insert(rest, j, end)), j),
            method="BFGS",
            options={"gtol": 1e-8},
        )
        params = np.insert(best.x, j, end)
        # the information in dense matrices: mean of the noisy cells by the coefficients
        step = 1e-5
        slopes = np.column_stack(
            [
                (model.predict(params + step * e) - model.predict(params - step * e)) / (2 * step)
                for e in np.eye(params.size)
            ]
        )
        mean, v = model.predict(params), model.cells.variances
        covariance = np.diag(mean + v)
        if scheme != "nothing":
            for s in np.unique(model.cells.strata):
                inside = (model.cells.strata == s).astype(float)
                for part in (mean * inside, v * inside):
                    covariance -= np.outer(part, part) / part.sum()
        information = slopes.T @ np.linalg.pinv(covariance, rcond=1e-10) @ slopes
        score = model.score(params)
        statistic = score @ np.linalg.solve(information, score)
        assert statistic == pytest.approx(stats.chi2.isf(0.05, 1), abs=1e-3)


def test_score_intervals_are_one_sided_at_infinity_and_need_the_maximum():
    lost = fit(exact(ZERO), "[A B]")
    ends = lost.conf_int(method="score").loc["B[T.1]"]
    assert ends[0] == -np.inf
    assert np.isfinite(ends[1])
    release = noisy_release("total", sigma=8.0)
    for options in ({"method": "normal"}, {"penalty": "jeffreys"}):
        result = LogLinearModel(release, "[A][B]").fit(**options)
        with pytest.raises(ModelError, match="A score interval starts at the maximum"):
            result.conf_int(method="score")


def test_the_summary_has_score_intervals_where_standard_errors_are_wide():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    for sigma, pointed in ((1.0, False), (25.0, True)):
        release = Release.from_noisy_table(
            [[91.0, 60.0], [55.0, 44.0]], domain, sigma=sigma, n_total=250
        )
        result = fit(release, "[A B]")
        assert ("score" in result.coefficients()["method"].to_numpy()) == pointed
        assert ("by refits" in str(result.summary())) == pointed


# -- linear hypotheses --------------------------------------------------------------------------


@pytest.mark.parametrize("names", list(itertools.combinations(ODD, 3))[::23], ids=str)
def test_hypotheses_in_words_take_any_name(names):
    domain = Domain({name: ["yes", "a = b, `c`"] for name in names})
    counts = np.array([911, 3, 44, 2, 538, 43, 456, 279]).reshape(2, 2, 2).T
    result = fit(Release.exact(counts, domain), list(itertools.combinations(names, 2)))
    for j, name in enumerate(result.params.index):
        found = result.t_test(f"{name} = 0")
        assert found.effect.item() == pytest.approx(result.params.iloc[j])
        assert found.sd.item() == pytest.approx(result.bse.iloc[j])
    one, other = result.params.index[-2:]
    found = result.t_test(f"2 * `{one}` - {other} = 1.5")
    weights = np.zeros(len(result.params))
    weights[-2:] = 2, -1
    again = result.t_test((weights, 1.5))
    assert found.tvalue.item() == pytest.approx(again.tvalue.item())
    assert result.wald_test({one: 0, other: 0}).statistic == pytest.approx(
        result.wald_test(f"{one} = 0, {other} = 0").statistic
    )


def test_hypotheses_that_cannot_be_tested_are_refused_in_a_sentence(ucb):
    result, lost = ucb[2], fit(exact(ZERO), "[A B]")
    for call, word in (
        (lambda: result.t_test("Admit[T.Rejected"), "give an array"),
        (lambda: result.t_test("Nobody = 0"), "give an array"),
        (lambda: result.wald_test({"Nobody": 0}), "give an array"),
        (lambda: result.t_test("Admit[T.Rejected] ** 2 = 1"), "give an array"),
        (lambda: result.wald_test(np.eye(3)), "parameters"),
        (lambda: lost.t_test("B[T.1] = 0"), "at infinity"),
        (lambda: lost.wald_test(np.eye(3)), "at infinity"),
    ):
        with pytest.raises(ModelError, match=word) as caught:
            call()
        assert "\n" not in str(caught.value)
    found = lost.t_test("A[T.1] = 0")
    assert found.sd.item() == pytest.approx(np.sqrt(1 / 41 + 1 / 190), rel=1e-6)


def test_wald_tests_of_terms_are_those_of_a_glm(load_table):
    counts, domain = load_table("hair_eye_color")
    formula = "Hair*Eye + Sex"
    oracle = glm("y ~ " + formula, counts, domain).wald_test_terms(scalar=True).table
    result = LogLinearModel.from_formula(formula, poisson_limit(counts, domain)).fit()
    found = result.wald_test_terms()
    for name, row in oracle.iterrows():
        assert found.table.loc[name, "statistic"] == pytest.approx(row["statistic"], rel=1e-5)
        assert found.table.loc[name, "pvalue"] == pytest.approx(row["pvalue"], rel=1e-3, abs=1e-300)
        assert found.table.loc[name, "df_constraint"] == row["df_constraint"]
    assert len(found.table) == len(oracle)
    assert list(found.summary_frame().columns) == ["chi2", "P>chi2", "df constraint"]
    assert "Sex" not in result.wald_test_terms(skip_single=True).table.index
    combined = result.wald_test_terms(combine_terms=["Hair"]).table
    columns = [k for k, name in enumerate(result.params.index) if "Hair[" in name]
    joint = result.wald_test(np.eye(len(result.params))[columns])
    assert combined.loc["Hair", "df_constraint"] == len(columns) == 12
    assert combined.loc["Hair", "statistic"] == pytest.approx(joint.statistic, rel=1e-6)


def test_f_test_is_the_wald_test_over_its_df(ucb):
    rows = np.eye(len(ucb[2].params))[:3]
    f, chi2 = ucb[2].f_test(rows), ucb[2].wald_test(rows)
    assert float(np.squeeze(f.statistic)) * 3 == pytest.approx(float(np.squeeze(chi2.statistic)))
    expected = float(np.squeeze(chi2.pvalue))
    assert float(np.squeeze(f.pvalue)) == pytest.approx(expected, rel=1e-4, abs=0)


@pytest.mark.parametrize("alpha", [-1, 0, 1, 2, float("nan"), "a", None])
def test_an_interval_has_a_level(ucb, alpha):
    result = ucb[2]
    prediction = result.get_prediction()
    for call in (
        result.conf_int,
        prediction.conf_int,
        prediction.summary_frame,
        lambda a: result.odds_ratios(alpha=a),
        result.summary,
        result.summary2,
    ):
        with pytest.raises(ModelError, match="between 0 and 1"):
            call(alpha)


def test_coefficients_are_chosen_by_place_or_name(ucb):
    result = ucb[2]
    names, every = list(result.params.index), result.conf_int()
    mask = np.arange(len(names)) == 2
    for cols in ([2], [2 - len(names)], names[2], [names[2]], mask):
        assert result.conf_int(cols=cols).equals(every.iloc[[2]])
    assert result.conf_int(cols=[names[3], 0]).equals(every.iloc[[3, 0]])
    variance = result.cov_params().to_numpy()
    assert result.cov_params(column=names[1]) == variance[1, 1]
    np.testing.assert_array_equal(
        result.cov_params(column=names[1:3]), variance[np.ix_([1, 2], [1, 2])]
    )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda r: r.conf_int(cols=[99]), "its name in params or its place, 0 to 16; got 99"),
        (lambda r: r.conf_int(cols=["zork"]), "got 'zork'"),
        (lambda r: r.conf_int(cols=[0.5]), "got 0.5"),
        (lambda r: r.cov_params(column="zork"), "got 'zork'"),
        (lambda r: r.t_test(""), "cannot be read"),
        (lambda r: r.wald_test([]), "cannot be read"),
        (lambda r: r.wald_test_terms(combine_terms=["zork"]), "No term of the model holds 'zork'"),
        (lambda r: r.get_prediction("conditional", 3), "a sequence of factors; got 3"),
        (lambda r: r.predict("x"), "column of levels for every factor"),
        (lambda r: r.odds_ratios("Dept", "Dept"), "two factors; got 'Dept' twice"),
        (lambda r: r.model.loglike("a"), "Parameters are numbers; got 'a'"),
        (lambda r: r.model.fit(start_params=[0]), "The model has 17 parameters"),
        (lambda r: LogLinearModel.from_formula("A", None), "or a MarginRelease; got NoneType"),
        (lambda r: LogLinearModel(r.model.release, [], special_terms=None), "sequence of texts"),
        (lambda r: LogLinearModel(r.model.release, [], offset="x"), "offset are numbers"),
    ],
)
def test_misuse_is_one_sentence(ucb, call, says):
    with pytest.raises(ModelError, match=says) as caught:
        call(ucb[2])
    assert "\n" not in str(caught.value)


# -- habits of statsmodels' users ---------------------------------------------------------------


def test_json_is_what_save_writes_and_there_is_no_data_to_remove(ucb, tmp_path):
    result, path = ucb[2], tmp_path / "results.json"
    result.remove_data()
    result.save(path, remove_data=True)
    assert path.read_text(encoding="utf-8") == result.to_json()
    again = LogLinearResults.load(path)
    assert again.to_json() == result.to_json()
    assert again.params.equals(result.params)
    for nowhere in (None, 3):
        with pytest.raises(ReleaseError, match="given by its path"):
            result.save(nowhere)
        with pytest.raises(ReleaseError, match="given by its path"):
            LogLinearResults.load(nowhere)


def test_linear_predictions_are_log_means():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]}, structural_zeros=[{"A": "a", "B": "u"}])
    release = Release.exact([[0, 12], [30, 7]], domain)
    result = fit(release, "[A][B]")
    linear = result.predict(linear=True)
    assert linear["a", "u"] == -np.inf
    np.testing.assert_allclose(np.exp(linear), result.fittedvalues)
    rows = {"A": ["b", "a"], "B": ["u", "v"]}
    np.testing.assert_allclose(result.predict(rows, linear=True), np.log(result.predict(rows)))
    prediction = result.get_prediction()
    np.testing.assert_allclose(prediction.var_pred_mean, prediction.se_mean**2)


def test_a_fit_prints_nothing_and_takes_disp(capsys):
    model = LogLinearModel(exact(DOSE), "[A][B]")
    assert model.fit(disp=True, start_params=None).llf == model.fit().llf
    assert capsys.readouterr().out == ""


# -- what is inherited --------------------------------------------------------------------------

ARGUMENTS = {
    "fitted_margin": ("Admit", "Dept"),
    "margin_residuals": ("Admit", "Dept"),
    "compare": None,  # tested with the comparison of models
    "drop1": None,
    "load": None,  # tested with the files
    "save": None,
    "remove_data": None,  # does nothing
    "initialize": None,
    "t_test": ("Admit[T.Rejected] = 0",),
    "wald_test": ("Admit[T.Rejected] = 0",),
    "f_test": ("Admit[T.Rejected] = 0",),
}
REFUSED = {"t_test_pairwise"}


def test_every_public_member_works_or_says_why_not(ucb):
    result = ucb[2]
    seen = set()
    for name in dir(LogLinearResults):
        if name.startswith("_") or ARGUMENTS.get(name, ()) is None:
            continue
        seen.add(name)
        if name in REFUSED:
            with pytest.raises(ModelError) as caught:
                getattr(result, name)()
            assert "\n" not in str(caught.value)
            continue
        value = getattr(result, name)
        if inspect.ismethod(value):
            value = value(*ARGUMENTS.get(name, ()))
        assert value is not None or name in ("penalty", "second_maximum")
        assert str(value)
    assert {"predict", "summary2", "standardized_resids", *REFUSED} <= seen


# -- the printed page ---------------------------------------------------------------------------


def test_summaries_keep_their_width_and_say_the_same_twice(load_table):
    rng = np.random.default_rng(3)
    domain = Domain({"occupation": ["a", "b", "c"], "age": ["young", "aged"]})
    counts = np.array([[90000, 120000], [150000, 70000], [30, 500000]])
    release = simulate_release(counts, domain, GDP(0.1), rng)
    result = fit(release, [("occupation",), ("age",)])
    long = fit(release, [("occupation", "age")])
    assert max(map(len, long.params.index)) > 20
    assert max(len(name) for name in result.params.index) < 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = str(result.summary())
        assert max(map(len, page.splitlines())) <= 78
        assert page == str(fit(release, [("occupation",), ("age",)]).summary())
        assert max(map(len, str(long.summary()).splitlines())) <= 78
        second = result.summary2()
        text = second.as_text()
    for word in ("occupation[T.b]", "priv.", "treatment", "NOT PRIVATE: simulated"):
        assert word in text
    assert second.tables[1].shape == (3, 7)
    assert "<table" in second.as_html()
    assert r"\begin{table" in second.as_latex()
    assert "<table" in result.summary().as_html()
    assert "tabular" in result.summary().as_latex()


def test_twenty_characters_fit_on_the_page():
    rng = np.random.default_rng(3)
    domain = Domain({"x" * 15: ["a", "b"], "y" * 15: ["c", "d"]})
    counts = np.array([[900000, 1], [150000, 700000]])
    for neighbours in ("replace-one", "add-remove"):
        release = simulate_release(counts, domain, GDP(0.1), rng, neighbours=neighbours)
        result = fit(release, [("x" * 15,), ("y" * 15,)])
        assert max(map(len, result.params.index)) == 20
        assert max(map(len, str(result.summary()).splitlines())) <= 78


@pytest.mark.parametrize(
    ("noisy", "n_total"),
    [
        ([[34.68, 30.67], [-9.73, 26.7]], None),
        ([[12.3125, 2.2525], [16.0425, 29.4025]], 60.01),
        ([[12.02, 3.11], [32.97, 27.32]], None),
        ([[12.9, 29.55], [17.06, 0.49]], 60),
    ],
)
def test_profile_ends_do_not_depend_on_the_reference_where_maxima_are_several(noisy, n_total):
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})

    def log_ends(table):
        table = np.array(table)
        if n_total is not None:
            table = table + (60 - table.sum()) / 4
        total = None if n_total is None else 60
        release = Release.from_noisy_table(table, domain, sigma=12.0, n_total=total)
        with np.errstate(divide="ignore"):
            return np.log(odds_ratio(release, "A", "B", method="profile").interval)

    y = np.array(noisy)
    ends = log_ends(y)
    assert log_ends(y.T) == pytest.approx(ends, abs=1e-4)
    assert -log_ends(y[::-1])[::-1] == pytest.approx(ends, abs=1e-4)
    assert -log_ends(y[:, ::-1])[::-1] == pytest.approx(ends, abs=1e-4)


def test_a_score_interval_of_an_infinite_estimate_ends_where_the_statistic_crosses():
    domain = Domain({"A": ["a0", "a1", "a2"], "B": ["b0", "b1"], "C": ["c0", "c1"]})
    counts = [[[4, 1], [2, 0]], [[0, 0], [17, 1]], [[0, 0], [2, 2]]]
    with pytest.warns(ExistenceWarning):
        fit = LogLinearModel(Release.exact(counts, domain), "[AB][BC][AC]").fit()
    low, high = fit.conf_int(method="score").loc["B[T.b1]:C[T.c1]"]
    assert low == -np.inf
    # Rao's statistic, with the coefficient held at a value by an offset, is the quantile there.
    offset = np.zeros(domain.shape)
    offset[:, 1, 1] = high
    part = LogLinearModel(Release.exact(counts, domain), "[AB][AC]", offset=offset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExistenceWarning)
        null = part.fit()
    fitted = np.maximum(null.fittedvalues.to_numpy(), 1e-12)
    design = np.asarray(fit.model._design.matrix().toarray())
    score = design.T @ (np.ravel(counts) - fitted)
    moments = design.T @ (fitted[:, None] * design)
    means = design.T @ fitted
    information = moments - np.outer(means, means) / fitted.sum()
    assert score @ np.linalg.pinv(information) @ score == pytest.approx(3.8415, abs=1e-2)


class TwoHills:
    """A likelihood of a coefficient and a nuisance: the lower hill is wider and far to the left."""

    def __init__(self, at):
        offsets = np.array([at - [0.0, 0.0], at - [-3.0, 5.0]])
        slopes = -offsets * [1.0, 50.0]
        logs = (offsets * slopes).sum(axis=1) / 2 - [0.0, 0.3]
        self.value = np.logaddexp(*logs)
        share = np.exp(logs - self.value)
        self.gradient = share @ slopes
        self._spread = (slopes.T * share) @ slopes - np.outer(self.gradient, self.gradient)

    def observed(self):
        return np.diag([1.0, 50.0]) - self._spread

    def complete(self):
        return np.diag([1.0, 50.0])

    def reach(self, step):
        return float(np.abs(step).max())


def test_the_second_end_of_an_interval_is_sought_from_the_estimate():
    """The first one lies on another hill, from which no way leads back."""
    profile = Profile(TwoHills, np.zeros(2), np.array([1.0, 0.0]), np.diag([1.0, 0.02]))
    lower, upper = profile.interval(TwoHills(np.zeros(2)).value, 0.05)
    half = stats.chi2.isf(0.05, 1) / 2
    assert lower == pytest.approx(-3 - np.sqrt(2 * (half - 0.3)), abs=1e-3)
    assert upper == pytest.approx(np.sqrt(2 * half), abs=1e-3)


@pytest.mark.parametrize(
    ("noisy", "sigma", "generators"),
    [
        # The statistic jumps over its quantile and has no root there.
        (
            [[[0.18, 22.11], [-5.27, -2.1]], [[21.42, 6.27], [-6.59, -6.03]]],
            14.142,
            [("A", "B"), ("B", "C")],
        ),
        # The search ends on the way to infinity, where the statistic is above its quantile.
        ([[-9.67, 0.2], [30.85, 8.63]], 4.714, [("A", "B")]),
        ([[-2.79, -1.78], [22.08, 15.53], [-1.02, -2.03]], 7.07, [("A", "B")]),
    ],
)
def test_a_score_interval_has_ends_beside_infinite_estimates(noisy, sigma, generators):
    noisy = np.array(noisy)
    domain = Domain({name: range(n) for name, n in zip("ABC", noisy.shape, strict=False)})
    release = Release.from_noisy_table(noisy, domain, sigma=sigma, n_total=30)
    fit = LogLinearModel(release, generators).fit(warn_convergence=False)
    assert not fit.existence.exists
    ends = fit.conf_int(method="score").to_numpy()
    assert not np.isnan(ends).any()
    known = fit.params.notna()
    assert (ends[known, 0] <= fit.params[known]).all()
    assert (fit.params[known] <= ends[known, 1]).all()


def test_results_are_never_unpickled_whichever_module_comes_first(tmp_path):
    """statsmodels' `load` runs what a pickle says."""
    code = (
        "import pickle\n"
        "class Evil:\n"
        "    def __reduce__(self):\n"
        "        return print, ('run',)\n"
        "pickle.dump(Evil(), open('evil.json', 'wb'))\n"
        "from dpcontingency.inference.results import LogLinearResults\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        LogLinearResults.load('evil.json')\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__)\n"
        "    import dpcontingency.inference.loglinear\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["ModelError", "ReleaseError"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("params", [1.0]),
        ("fitted", "many"),
        ("covariance", [[1.0]]),
        ("llf", None),
        ("converged", 1),
        ("method", "magic"),
        ("penalty", True),
        ("direction", [10**400, 0.0, 0.0]),
    ],
)
def test_a_file_of_results_that_contradicts_itself_is_refused(tmp_path, field, value):
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    release = Release.from_noisy_table([[9.5, 4.0], [5.2, 6.1]], domain, sigma=2.0, n_total=25)
    content = LogLinearModel(release, "[A B]").fit().to_dict()
    path = tmp_path / "fit.json"
    path.write_text(files.text_of(content, files.RESULTS), encoding="utf-8")
    assert repr(LogLinearResults.load(path)) == repr(LogLinearModel(release, "[A B]").fit())
    changed = {**content, "fit": {**content["fit"], field: value}}
    path.write_text(files.text_of(changed, files.RESULTS), encoding="utf-8")
    with pytest.raises(ReleaseError, match="This is no file of results"):
        LogLinearResults.load(path)
    path.write_text(files.text_of({**content, "more": 1}, files.RESULTS), encoding="utf-8")
    with pytest.raises(ReleaseError, match="'more' is unknown"):
        LogLinearResults.load(path)
