"""The model: classical answers with no noise, exact enumeration with it, laws on both."""

import itertools
import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import gammaln

from dpcontingency.domain import Domain
from dpcontingency.errors import DPContingencyError, ExistenceWarning, ModelError
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

ODD = ["my a", "b-c", "1st", "class", "C", "Q", "np", "Intercept", "x:y", "α"]
# Alcohol, cigarettes, marijuana: 911 3 44 2 538 43 456 279, first factor fastest.
STUDENTS = np.array([911, 3, 44, 2, 538, 43, 456, 279]).reshape(2, 2, 2).T


def quiet(model):
    return model.fit(warn_convergence=False)


def poisson_glm(formula, frame):
    model = sm.GLM.from_formula(formula, frame, family=sm.families.Poisson())
    return model.fit(tol=1e-12, tol_criterion="params")


# -- no noise: the textbooks --------------------------------------------------------------------


def reference_rows(data_folder):
    """R's figures: those of data/, and the same fits at a tolerance that six digits need."""
    first = pd.read_csv(data_folder / "reference_loglm.csv")
    converged = data_folder.parent / "tests/inference/reference/loglm_converged.csv"
    return first, pd.read_csv(converged)


def test_every_reference_fit_of_r(data_folder, load_table):
    published, converged = reference_rows(data_folder)
    assert len(published) == len(converged) == 15
    for row, exact in zip(published.itertuples(), converged.itertuples(), strict=True):
        counts, domain = load_table(row.data)
        formula = row.model.replace("^", "**")
        result = quiet(LogLinearModel.from_formula(formula, Release.exact(counts, domain)))
        assert result.converged
        assert result.n_total == row.n
        # R counts cells and parameters that a zero margin has killed.
        dead = {"titanic": {15: 13, 10: 8}}.get(row.data, {})
        assert result.df_resid == dead.get(row.df, row.df)
        assert result.deviance == pytest.approx(exact.G2, rel=1e-7)
        assert result.deviance == pytest.approx(row.G2, rel=2e-6)
        if row.data != "titanic":  # R has no X2 where a fitted margin is zero
            assert result.pearson_chi2 == pytest.approx(exact.X2, rel=1e-7)


@pytest.mark.parametrize("name", ["ucb_admissions", "hair_eye_color", "czech_autoworkers"])
@pytest.mark.parametrize("coding", ["treatment", "sum"])
def test_coefficients_and_errors_of_a_poisson_glm(load_table, name, coding):
    counts, domain = load_table(name)
    plain = [f"f{k}" for k in range(len(domain.names))]  # a factor called C is no patsy name
    frame = pd.DataFrame(list(domain.cells()), columns=plain)
    for f, levels in zip(plain, domain.levels.values(), strict=True):
        frame[f] = pd.Categorical(frame[f], levels)
    frame["y"] = counts.ravel()
    style = "Treatment" if coding == "treatment" else "Sum"
    terms = " + ".join(f"C({f}, {style})" for f in plain)
    glm = poisson_glm(f"y ~ ({terms})**2", frame)
    model = LogLinearModel.from_formula(
        f"({' + '.join(domain.names)})**2", Release.exact(counts, domain), coding=coding
    )
    result = model.fit()
    renamed = [
        re.sub(rf"C\(f(\d), {style}\)", lambda m: domain.names[int(m[1])], column)
        for column in glm.params.index
    ]
    params, errors = (dict(zip(renamed, v, strict=True)) for v in (glm.params, glm.bse))
    for column in result.params.index:
        assert result.params[column] == pytest.approx(params[column], abs=1e-6)
        assert result.bse[column] == pytest.approx(errors[column], rel=1e-6)
    np.testing.assert_allclose(result.fittedvalues, glm.fittedvalues, rtol=1e-6)
    np.testing.assert_allclose(result.resid_pearson, glm.resid_pearson, atol=1e-6)
    assert result.deviance == pytest.approx(glm.deviance, rel=1e-8)
    assert (result.privacy_share.abs() < 1e-9).all()


@pytest.mark.parametrize("names", list(itertools.combinations(ODD, 3))[::7], ids=str)
def test_names_are_opaque(names):
    domain = Domain({name: ["yes", "no"] for name in names})
    release = Release.exact(STUDENTS, domain)
    pairs = list(itertools.combinations(names, 2))
    quoted = " + ".join(f"`{name}`" for name in names)
    for model in (
        LogLinearModel(release, pairs),
        LogLinearModel(release, "".join(f"[`{a}` `{b}`]" for a, b in pairs)),
        LogLinearModel.from_formula(f"({quoted})**2", release),
    ):
        result = model.fit()
        assert result.deviance == pytest.approx(0.373986, abs=1e-5)
        assert result.df_resid == 1
        assert f"{names[0]}[T.no]" in result.params.index
        assert f"{names[0]}[T.no]" in str(result.summary())


def test_integer_levels_are_categories():
    # CASES C8: as categories G2 = 11.861103 on 2 df; as a number it would be 15.66 on 3 df.
    counts = np.array([[30, 10], [22, 28], [12, 18]])
    release = Release.exact(counts, Domain({"dose": [1, 2, 3], "r": [0, 1]}))
    result = LogLinearModel.from_formula("dose + r", release).fit()
    assert (round(result.deviance, 6), result.df_resid) == (11.861103, 2)


def test_fractional_exact_counts():
    # CASES C28.
    release = Release.exact([[10.5, 20.25], [30.75, 5.5]], Domain({"A": [0, 1], "B": [0, 1]}))
    result = LogLinearModel(release, "[A][B]").fit()
    assert result.pearson_chi2 == pytest.approx(18.060147, abs=1e-6)
    assert result.deviance == pytest.approx(18.917734, abs=1e-6)


# -- noise: exact enumeration -------------------------------------------------------------------


def exact_loglike(model, params, n):
    """The multinomial likelihood by convolution over every table that adds up to n."""
    given = model.release.conditioned()
    y, v = given.noisy.ravel(), given.noise.variances.ravel()
    eta = model._design.dot(model._treatment(params))
    pi = np.exp(eta - eta.max())
    pi /= pi.sum()
    k = np.arange(n + 1)
    total, scale = np.eye(1, n + 1)[0], 0.0
    for cell, probability, variance in zip(y, pi, v, strict=True):
        log_weight = k * np.log(n * probability) - gammaln(k + 1) - (cell - k) ** 2 / 2 / variance
        top = log_weight.max()
        total = np.convolve(total, np.exp(log_weight - top))[: n + 1]
        scale += top + np.log(total.max())
        total /= total.max()
    return np.log(total[n]) + scale - n * np.log(n) + gammaln(n + 1)


def derivatives(function, x, h=3e-3):
    """Gradient and Hessian by central differences."""
    steps = np.eye(x.size) * h
    gradient = np.array([(function(x + e) - function(x - e)) / (2 * h) for e in steps])
    hessian = np.array(
        [
            [
                function(x + e + f) - function(x + e - f) - function(x - e + f)
                + function(x - e - f)
                for f in steps
            ]
            for e in steps
        ]
    ) / (4 * h * h)  # fmt: skip
    return gradient, hessian


def test_estimate_and_errors_of_the_exact_likelihood(data_folder):
    """4x4, n = 96, sigma = 2.83: small enough that the saddlepoint's corrections count."""
    cases = json.loads((data_folder / "reference_noise_aware.json").read_text())
    case = next(c for c in cases if c["table"] == "job_satisfaction")
    release = Release.from_noisy_table(
        np.reshape(case["noisy"], case["shape"]),
        Domain(case["levels"]),
        sigma=case["sigma"],
        n_total=case["n_total"],
    )
    model = LogLinearModel(release, case["fits"][0]["generators"], coding="sum")
    result = model.fit()
    at = result.params.to_numpy()

    def exact(params):
        return exact_loglike(model, params, case["n_total"])

    gradient, hessian = derivatives(exact, at)
    errors = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    # One Newton step of the exact likelihood leads from our estimate to its own.
    assert np.abs(np.linalg.solve(hessian, gradient) / errors).max() < 5e-4
    np.testing.assert_allclose(result.bse, errors, rtol=5e-4)
    assert result.llf == pytest.approx(exact(at), abs=4e-3)


def test_reference_fits_with_noise(data_folder):
    """An independent implementation that left one small term out of the score."""
    for case in json.loads((data_folder / "reference_noise_aware.json").read_text()):
        release = Release.from_noisy_table(
            np.reshape(case["noisy"], case["shape"]),
            Domain(case["levels"]),
            sigma=case["sigma"],
            n_total=case["n_total"],
        )
        slack = 3e-2 if case["table"] == "job_satisfaction" else 8e-3
        for fit in case["fits"]:
            model = LogLinearModel(release, fit["generators"], coding="sum")
            assert model.loglike(fit["params_sum_coding"]) == pytest.approx(fit["loglik"], abs=1e-8)
            result = model.fit()
            assert 0 <= result.llf - fit["loglik"] < 1e-3
            difference = result.params - np.array(fit["params_sum_coding"])
            assert np.abs(difference / result.bse).max() < slack
            np.testing.assert_allclose(result.bse, fit["bse"], rtol=slack)
            np.testing.assert_allclose(result.bse_sampling, fit["bse_sampling"], rtol=slack)
            np.testing.assert_allclose(
                result.posterior_mean().ravel(), fit["posterior_mean"], atol=0.05
            )


# -- laws ---------------------------------------------------------------------------------------


def noisy_release(scheme, rng=None, sigma=4.0):
    rng = rng or np.random.default_rng(8)
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


SCHEMES = ["total", "strata", "nothing", "third-party"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("coding", ["treatment", "sum"])
def test_score_and_hessian_are_the_derivatives_of_loglike(scheme, coding):
    model = LogLinearModel(noisy_release(scheme), "[AB][BC]", coding=coding)
    start = model.fit().params.to_numpy()
    at = start + np.random.default_rng(2).normal(scale=0.05, size=start.size)
    gradient, hessian = derivatives(model.loglike, at, h=1e-3)
    np.testing.assert_allclose(model.score(at), gradient, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(model.hessian(at), hessian, rtol=1e-3, atol=0.05)
    np.testing.assert_array_equal(model.information(at), -model.hessian(at))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_codings_are_the_same_model(scheme):
    release = noisy_release(scheme)
    one = LogLinearModel(release, "[AB][BC]").fit()
    other = LogLinearModel(release, "[AB][BC]", coding="sum").fit()
    assert one.llf == pytest.approx(other.llf, abs=1e-9)
    np.testing.assert_allclose(one.fittedvalues, other.fittedvalues, rtol=1e-6)
    assert one.deviance == pytest.approx(other.deviance, abs=1e-8)
    assert one.pearson_chi2 == pytest.approx(other.pearson_chi2, abs=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_relabelling_changes_nothing(scheme):
    release = noisy_release(scheme)
    moved = release.margin("C", "A", "B")
    one = LogLinearModel(release, "[AB][BC]").fit()
    other = LogLinearModel(moved, "[AB][BC]").fit()
    assert one.llf == pytest.approx(other.llf, abs=1e-8)
    for column in one.params.index:
        names = column.split(":")
        match = next(c for c in other.params.index if set(c.split(":")) == set(names))
        assert one.params[column] == pytest.approx(other.params[match], abs=1e-6)
        assert one.bse[column] == pytest.approx(other.bse[match], rel=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_more_parameters_never_fit_worse(scheme):
    release = noisy_release(scheme)
    chain = ["[A][B][C]", "[AB][C]", "[AB][BC]", "[AB][BC][AC]", "[ABC]"]
    fits = [quiet(LogLinearModel(release, g)) for g in chain]
    assert all(f.converged for f in fits)
    for smaller, larger in itertools.pairwise(fits):
        assert larger.llf >= smaller.llf - 1e-8
        assert larger.df_resid < smaller.df_resid
    assert fits[-1].df_resid == 0
    assert fits[-1].deviance == pytest.approx(0, abs=1e-6)
    assert fits[-1].pearson_chi2 == pytest.approx(0, abs=2.0)


def test_strata_totals_are_fitted_and_have_no_parameter():
    release = noisy_release("strata")
    result = LogLinearModel(release, "[A][C]").fit()
    assert result.generating_class == "[A][B][C]"
    assert list(result.params.index) == ["A[T.b]", "C[T.y]"]
    assert result.df_resid == 12 - 3 - 2
    fitted = result.fittedvalues.groupby("B").sum()
    np.testing.assert_allclose(fitted, release.margin("B").noisy, rtol=1e-9)


def test_intercept_where_nothing_is_public():
    result = LogLinearModel(noisy_release("nothing"), "[A][B][C]").fit()
    assert result.params.index[0] == "Intercept"
    assert result.df_resid == 12 - 5


def test_known_total_and_full_rank_noise_equal_the_rank_deficient_release():
    release = noisy_release("third-party")
    given = release.conditioned()
    assert given.noisy.sum() == pytest.approx(600)
    again = LogLinearModel(given, "[AB][C]").fit()
    result = LogLinearModel(release, "[AB][C]").fit()
    np.testing.assert_allclose(result.params, again.params, rtol=1e-12)


def test_little_noise_is_no_noise(load_table):
    counts, domain = load_table("hair_eye_color")
    exact = LogLinearModel.from_formula("Hair*Eye + Sex", Release.exact(counts, domain)).fit()
    for sigma in (1e-3, 0.05):
        noisy = Release.from_noisy_table(counts, domain, sigma=sigma, n_total=int(counts.sum()))
        result = LogLinearModel.from_formula("Hair*Eye + Sex", noisy).fit()
        np.testing.assert_allclose(result.params, exact.params, atol=1e-6)
        np.testing.assert_allclose(result.bse, exact.bse, rtol=1e-5)
        assert result.llf == pytest.approx(exact.llf, abs=1e-6)
        assert result.deviance == pytest.approx(exact.deviance, abs=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_parts_of_the_variance_add_up(scheme):
    result = LogLinearModel(noisy_release(scheme), "[AB][BC]").fit()
    np.testing.assert_allclose(
        result.bse**2, result.bse_sampling**2 + result.bse_privacy**2, rtol=1e-10
    )
    assert ((result.privacy_share > 0) & (result.privacy_share < 1)).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_posterior_mean_is_a_table_of_expected_counts(scheme):
    release = noisy_release(scheme)
    mean = LogLinearModel(release, "[AB][BC]").fit().posterior_mean()
    assert mean.shape == release.domain.shape
    assert (mean >= 0).all()
    if release.totals is not None:
        assert mean.sum() == pytest.approx(600, rel=1e-9)


def test_negative_cells_are_accepted():
    # CASES C42.
    release = Release.from_noisy_table(
        [[120.4, -3.1], [88.2, 95.7]], Domain({"A": [0, 1], "B": [0, 1]}), sigma=4.0
    )
    result = LogLinearModel(release, "[A][B]").fit()
    assert result.converged
    assert np.isfinite(result.bse).all()
    assert (result.fittedvalues > 0).all()


# -- structural zeros and estimates at infinity -------------------------------------------------


def test_structural_zeros_are_no_cells():
    # Quasi-independence off the diagonal of a 3x3 table, checked against a Poisson GLM.
    levels = ["a", "b", "c"]
    zeros = [{"R": level, "S": level} for level in levels]
    domain = Domain({"R": levels, "S": levels}, structural_zeros=zeros)
    counts = np.array([[0, 20, 31], [14, 0, 22], [9, 17, 0]])
    result = LogLinearModel(Release.exact(counts, domain), "[R][S]").fit()
    frame = pd.DataFrame(list(domain.cells()), columns=["R", "S"])
    frame["y"] = counts.ravel()
    glm = poisson_glm("y ~ R + S", frame[frame.R != frame.S])
    np.testing.assert_allclose(result.params, glm.params[1:], atol=1e-7)
    assert result.df_resid == glm.df_resid == 1
    assert result.nobs == 6
    assert result.deviance == pytest.approx(glm.deviance, rel=1e-8)


def test_a_zero_in_a_saturated_table_is_infinite_and_says_so():
    # CASES C5: not 24.07 with a standard error of 11,323.
    release = Release.exact([[41, 0], [190, 377]], Domain({"A": [0, 1], "B": [0, 1]}))
    model = LogLinearModel(release, "[AB]")
    with pytest.warns(ExistenceWarning, match="B\\[T.1\\]"):
        result = model.fit()
    assert result.converged
    assert not result.existence.exists
    assert result.params["A[T.1]:B[T.1]"] == np.inf
    assert result.params["B[T.1]"] == -np.inf
    assert np.isnan(result.bse["B[T.1]"])
    assert result.bse["A[T.1]"] == pytest.approx(np.sqrt(1 / 41 + 1 / 190), rel=1e-6)
    page = str(result.summary())
    assert "not estimable" in " ".join(page.split())
    assert "no finite estimate" in " ".join(page.split())


# -- misuse -------------------------------------------------------------------------------------


def test_misuse_is_one_sentence():
    release = noisy_release("total")
    for call in (
        lambda: LogLinearModel(release, "[AD]"),
        lambda: LogLinearModel(release, "A*B"),
        lambda: LogLinearModel(release.noisy, "[A]"),
        lambda: LogLinearModel(release, "[A]", coding="helmert"),
        lambda: LogLinearModel(release, "[A]").fit(method="mcmc"),
        lambda: LogLinearModel(release, "[A]").loglike([1.0, 2.0]),
        lambda: LogLinearModel.from_formula("A + f(B)", release),
    ):
        with pytest.raises(ModelError) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_results_survive_a_file(tmp_path):
    result = LogLinearModel(noisy_release("strata"), "[AB][C]", coding="sum").fit()
    result.save(tmp_path / "fit.json")
    again = LogLinearResults.load(tmp_path / "fit.json")
    pd.testing.assert_series_equal(again.params, result.params, check_exact=True)
    pd.testing.assert_frame_equal(again.cov_params(), result.cov_params(), check_exact=True)
    assert str(again.summary()) == str(result.summary())
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "fit.json").read_bytes()
    result.model.release.save(tmp_path / "release.json")
    with pytest.raises(DPContingencyError, match="dpcontingency-results"):
        LogLinearResults.load(tmp_path / "release.json")


def test_results_with_infinite_estimates_survive_a_file(tmp_path):
    release = Release.exact([[41, 0], [190, 377]], Domain({"A": [0, 1], "B": [0, 1]}))
    result = quiet(LogLinearModel(release, "[AB]"))
    result.save(tmp_path / "fit.json")
    again = LogLinearResults.load(tmp_path / "fit.json")
    pd.testing.assert_series_equal(again.params, result.params)
    assert str(again.summary()) == str(result.summary())


def test_statsmodels_tests_of_hypotheses(load_table):
    counts, domain = load_table("ucb_admissions")
    result = LogLinearModel.from_formula("Admit*Dept + Gender*Dept",
                                         Release.exact(counts, domain)).fit()  # fmt: skip
    z = result.t_test("Admit[T.Rejected] = 0")
    assert z.tvalue.item() == pytest.approx(result.tvalues["Admit[T.Rejected]"])
    assert z.pvalue.item() == pytest.approx(result.pvalues["Admit[T.Rejected]"])
    rows = np.eye(result.df_model)[:2]
    chi2 = result.wald_test(rows)
    block = result.cov_params().iloc[:2, :2]
    b = result.params.iloc[:2]
    assert chi2.statistic == pytest.approx(b @ np.linalg.solve(block, b))
    interval = result.conf_int()
    assert (interval[0] < result.params).all()
    assert (result.params < interval[1]).all()
    pd.testing.assert_series_equal(
        interval[1] - interval[0], 2 * 1.959963984540054 * result.bse, check_names=False
    )


def test_the_printed_page(load_table):
    counts, domain = load_table("ucb_admissions")
    release = simulate_release(counts, domain, GDP(0.2), np.random.default_rng(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = str(LogLinearModel(release, "[Admit Dept][Gender Dept]").fit().summary())
    for text in (
        "[Admit Dept][Gender Dept]",
        "treatment",
        "4,526 (public)",
        "mu = 0.2",
        "replace-one",
        "priv.",
        "NOT PRIVATE: simulated",
        "sampling and the noise",
    ):
        assert text in page
    assert "reject" not in page.replace("Rejected", "").lower()


def test_the_name_of_a_model_says_what_of_what_and_no_count():
    domain = Domain({"A": ["a", "b"], "B": [0, 1, 2]}, ordered=["B"])
    counts = np.array([[7919, 10007, 7919], [10007, 7919, 10007]])
    release = simulate_release(counts, domain, GDP(0.25), np.random.default_rng(5))
    name = repr(LogLinearModel.from_formula("A + B + A:score(B)", release))
    assert name.startswith("<LogLinearModel [A][B] + A:score(B) of <Release A: 2, B: 3; ")
    assert "mu = 0.25 (replace-one)" in name
    assert "7919" not in name
    assert "10007" not in name
    assert "\n" not in name
