"""Coefficients whose standard error says little: what is printed of them holds, at every door."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpcontingency import GDP, Domain, LogLinearModel, Release, simulate_release
from dpcontingency.inference import wide
from dpcontingency.inference.printing import number_text
from dpcontingency.report import plain

COUNTS = np.array([[[40, 12, 9], [22, 30, 14]], [[11, 25, 31], [3, 16, 27]]])
DOMAIN = Domain({"A": ["a0", "a1"], "B": ["b0", "b1"], "C": ["c0", "c1", "c2"]})
ROOT = Path(__file__).parents[2]
TWO_WAY = "[A B][A C][B C]"


def noisy(mu, seed, counts=COUNTS, domain=DOMAIN, model=TWO_WAY, **options):
    release = simulate_release(counts, domain, GDP(mu), np.random.default_rng(seed))
    return LogLinearModel(release, model).fit(warn_convergence=False, **options)


@pytest.fixture(scope="module")
def mixed():
    """A fit some of whose standard errors are wide."""
    return noisy(0.3, 0)


@pytest.fixture(scope="module")
def czech():
    counts, domain = data()
    release = simulate_release(counts, domain, GDP(0.1), np.random.default_rng(3))
    formula = f"({' + '.join(domain.names)})**2"
    return LogLinearModel.from_formula(formula, release).fit(warn_convergence=False)


def data():
    frame = pd.read_csv(ROOT / "data" / "czech_autoworkers.csv", dtype=str)
    *factors, _ = frame.columns
    domain = Domain({f: list(dict.fromkeys(frame[f])) for f in factors})
    counts = np.zeros(domain.shape, dtype=np.int64)
    for row in frame.itertuples(index=False):
        cell = tuple(domain.index(f, v) for f, v in zip(factors, row, strict=False))
        counts[cell] += int(row[-1])
    return counts, domain


def test_a_row_agrees_with_the_likelihood_ratio_where_the_standard_error_does_not(czech):
    """Wald's p is .071 and its interval (-10.7, 0.43) where the term's p-value is 2.4e-26."""
    frame = czech.coefficients()
    row = frame.loc["B[T.yes]:C[T.yes]"]
    assert row["method"] == "score"
    assert row["pvalue"] < 1e-15
    assert row["lower"] == -np.inf
    assert -3 < row["upper"] < -2.2
    assert czech.pvalues["B[T.yes]:C[T.yes]"] == pytest.approx(0.071, abs=1e-3)
    assert (frame["method"] == np.where(czech.bse_privacy > 0.5, "score", "wald")).all()
    page = str(czech.summary())
    line = next(line for line in page.splitlines() if line.startswith("B[T.yes]:C[T.yes]"))
    assert line.split()[1:] == [
        "-5.1453", "2.8465", f"{row['z']:.3f}", "<0.001", "-inf", f"{row['upper']:.3f}", "99%",
        "score",
    ]  # fmt: skip
    assert max(map(len, page.splitlines())) <= 78
    assert "Rows by refits that hold the coefficient at values (by): 8." in " ".join(page.split())


@pytest.mark.parametrize("alpha", [0.05, 0.3])
@pytest.mark.parametrize(("mu", "model"), [(0.1, "[A B][C]"), (0.3, TWO_WAY)])
def test_an_interval_holds_0_if_and_only_if_the_test_does_not_reject(mu, model, alpha):
    methods = set()
    for seed in range(3):
        frame = noisy(mu, seed, model=model).coefficients(alpha)
        methods |= set(frame["method"])
        excludes = (frame["lower"] > 0) | (frame["upper"] < 0)
        assert (excludes == (frame["pvalue"] < alpha)).all()
        assert (frame["lower"] < frame["upper"]).all()
        inside = (frame["lower"] <= frame["estimate"]) & (frame["estimate"] <= frame["upper"])
        assert inside[frame["estimate"].notna()].all()
        known = frame["estimate"].notna() & (frame["z"].abs() > 1e-6)
        assert (np.sign(frame["z"]) == np.sign(frame["estimate"]))[known].all()
        np.testing.assert_allclose(
            frame["pvalue"], 2 * stats.norm.sf(np.abs(frame["z"])), rtol=1e-12
        )
    assert "score" in methods


def test_the_score_test_is_that_of_a_fit_without_the_column():
    fit = noisy(0.15, 1, model="[A B][A C]")
    frame = fit.coefficients()
    name = "A[T.a1]:B[T.b1]"
    assert frame.loc[name, "method"] == "score"
    null = LogLinearModel(fit.model.release, "[A C][B]").fit(warn_convergence=False)
    params = null.params.reindex(fit.params.index, fill_value=0.0).to_numpy()
    score = fit.model.score(params)
    design, cells = fit.model._design, fit.model.cells
    information = design.compress(cells.information(null.fittedvalues.to_numpy()))
    statistic = score @ np.linalg.solve(information, score)
    assert frame.loc[name, "z"] ** 2 == pytest.approx(statistic, rel=1e-4)


def test_without_noise_or_with_little_rows_are_those_of_standard_errors():
    exact = LogLinearModel(Release.exact(COUNTS, DOMAIN), TWO_WAY).fit()
    for fit in (exact, noisy(20.0, 0), noisy(5.0, 1)):
        frame = fit.coefficients()
        assert (frame["method"] == "wald").all()
        pd.testing.assert_series_equal(frame["z"], fit.tvalues, check_names=False)
        pd.testing.assert_series_equal(frame["pvalue"], fit.pvalues, check_names=False)
        np.testing.assert_array_equal(frame[["lower", "upper"]], fit.conf_int())
        assert "refits" not in str(fit.summary())
    sparse = np.minimum(COUNTS, 3)
    release = Release.exact(sparse, DOMAIN)
    assert (LogLinearModel(release, "[A B C]").fit().coefficients()["method"] == "wald").all()


def test_every_door_shows_the_same_numbers(mixed):
    fit, frame = mixed, mixed.coefficients()
    assert {"wald", "score"} <= set(frame["method"])
    page, html, latex = str(fit.summary()), fit.summary().as_html(), fit.summary().as_latex()
    second = fit.summary2().tables[1]
    written = json.loads(json.dumps(plain.of_fit(fit)))["coefficients"]
    for (name, row), found in zip(frame.iterrows(), written, strict=True):
        line = next(text for text in page.splitlines() if text.startswith(f"{name} "))
        cells = [cell for cell in line.removeprefix(str(name)).split() if cell]
        for cell in cells:
            assert f">{cell.replace('<', '&lt;')}<" in html or f">{cell}<" in html
        assert cells[2] in latex
        assert (cells[-1] == "score") == (row["method"] == "score")
        assert float(cells[2]) == pytest.approx(row["z"], abs=6e-4)
        assert second.loc[name, "z"] == row["z"]
        assert second.loc[name, "by"] == ("score" if row["method"] == "score" else "")
        ends = [None if np.isinf(end) else end for end in (row["lower"], row["upper"])]
        assert found["interval"] == ends
        assert (found["z"], found["method"]) == (row["z"], row["method"])


def test_estimates_at_infinity_have_one_end_and_a_p_value():
    counts = np.array([[41, 190], [0, 377]])
    release = Release.exact(counts, Domain({"A": [0, 1], "B": [0, 1]}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = LogLinearModel(release, "[A B]").fit()
    row = fit.coefficients().loc["A[T.1]:B[T.1]"]
    assert row["estimate"] == row["upper"] == np.inf
    expected = stats.chi2_contingency(counts, correction=False, lambda_="log-likelihood")
    assert row["z"] ** 2 == pytest.approx(expected.statistic, rel=1e-4)
    assert row["pvalue"] == pytest.approx(expected.pvalue, rel=1e-3)
    lines = str(fit.summary()).splitlines()
    line = next(line for line in lines if line.startswith("A[T.1]:B[T.1]")).split()
    assert line[1] == "+inf"
    assert line[-2:] == ["inf", "LR"]


def test_beyond_the_cap_a_row_has_no_test_known_to_be_wrong(mixed, monkeypatch):
    fit, full = mixed, mixed.coefficients()
    wide_rows = full["method"] == "score"
    monkeypatch.setattr(wide, "MOST_WORK", 1)
    frame = fit.coefficients()
    assert frame.loc[wide_rows, ["z", "pvalue", "lower", "upper"]].isna().all(axis=None)
    assert (frame.loc[wide_rows, "method"] == "").all()
    assert frame.loc[~wide_rows].equals(full.loc[~wide_rows])
    page = " ".join(str(fit.summary()).split())
    assert "result.coefficients(refit=True)" in page
    assert max(map(len, str(fit.summary()).splitlines())) <= 78
    pd.testing.assert_frame_equal(fit.coefficients(refit=True), full)
    name = str(full.index[wide_rows][0])
    assert fit.coefficients(cols=[name], refit=True).equals(full.loc[[name]])


def test_fits_that_do_not_maximise_the_likelihood():
    normal = noisy(0.2, 2, method="normal")
    frame = normal.coefficients(refit=True)
    assert (frame["method"] == np.where(normal.bse_privacy > 0.5, "", "wald")).all()
    assert "a fit by maximum likelihood" in " ".join(str(normal.summary()).split())
    penalised = noisy(0.15, 2, penalty="jeffreys", model="[A B][C]")
    frame = penalised.coefficients()
    chosen = frame["method"] == "profile"
    assert chosen.any()
    excludes = (frame["lower"] > 0) | (frame["upper"] < 0)
    assert (excludes == (frame["pvalue"] < 0.05)).all()


def test_odds_ratios_have_the_intervals_of_their_coefficients():
    fit = noisy(0.15, 1, model="[A B][C]")
    row, ratios = fit.coefficients().loc["A[T.a1]:B[T.b1]"], fit.odds_ratios("A", "B")
    assert row["method"] == "score"
    expected = np.exp(row[["lower", "upper"]].astype(float))
    np.testing.assert_allclose(ratios[["lower", "upper"]].iloc[0], expected, rtol=1e-5)
    unsought = fit.odds_ratios("A", "B", profile=False)
    assert unsought[["lower", "upper"]].isna().all(axis=None)


def test_the_header_has_a_calibrated_p_value_or_none(czech):
    """A chi-square p-value of .82 stands for one of .29."""
    page = str(czech.summary())
    assert f"{czech.deviance:.3f} (see note)" in page
    said = " ".join(page.split())
    assert re.search(r"noise-aware LR: .*because the fitted mean of 46 of 64", said)
    assert f"{czech.pearson_chi2:.3f} (0.1336)" in page
    quiet = noisy(5.0, 1, 10 * COUNTS)
    assert f"({quiet.gof()['pvalue'].iloc[0]:.4f})" in str(quiet.summary())
    assert "no p-value" not in str(quiet.summary())


def test_no_zero_has_a_sign():
    assert number_text(-1e-9, 0.5) == "0.0000"
    counts = np.outer([30, 20], [12, 8])
    exact = Release.exact(counts, Domain({"A": [0, 1], "B": [0, 1]}))
    for model in ("[A][B]", "[A B]"):
        assert "-0.000 " not in str(LogLinearModel(exact, model).fit().summary())
