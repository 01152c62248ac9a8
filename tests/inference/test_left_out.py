"""Factors that a model leaves out are summed over, unless it says that their levels are alike."""

from itertools import chain, combinations

import numpy as np
import pandas as pd
import pytest

import dpcontingency as dpc
from dpcontingency.errors import ModelError
from dpcontingency.inference.loglinear import LogLinearResults
from tests.command_line import refused, run

DOMAIN = dpc.Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y"], "D": ["p", "q"]})
FITS = {"warn_convergence": False}


def random_release(seed, strata=()):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(900, rng.dirichlet(np.full(24, 0.8))).reshape(DOMAIN.shape)
    return dpc.simulate_release(counts, DOMAIN, dpc.GDP(0.5), rng, strata=strata)


def uneven_release():
    """A 2 x 2 table of log odds ratio 1.695, and a factor Z of 60 uneven levels beside it."""
    rng = np.random.default_rng(1)
    pair = np.array([[0.35, 0.15], [0.15, 0.35]])
    levels = 0.9 ** np.arange(60)
    counts = rng.multinomial(6000, np.multiply.outer(pair, levels / levels.sum()).ravel())
    domain = dpc.Domain({"A": [0, 1], "B": [0, 1], "Z": list(range(60))})
    return dpc.simulate_release(counts.reshape(2, 2, 60), domain, dpc.GDP(0.3), rng)


def test_uneven_levels_of_another_factor_do_not_bias_an_odds_ratio():
    release = uneven_release()
    margin = dpc.LogLinearModel(release, "[A B]").fit()
    joint = dpc.LogLinearModel(release, "[A B]", left_out="uniform").fit(**FITS)
    name = "A[T.1]:B[T.1]"
    assert margin.params[name] == pytest.approx(1.695, abs=3 * margin.bse[name])
    assert joint.params[name] > margin.params[name] + 0.15  # 1.96 and 1.70 in METHODS 3.1
    ratio = dpc.odds_ratio(release, "A", "B")
    assert ratio.estimate == pytest.approx(np.exp(margin.params[name]), rel=1e-6)


def subsets_of_factors():
    names = DOMAIN.names
    return list(chain.from_iterable(combinations(names, k) for k in (1, 2, 3)))


@pytest.mark.parametrize("names", subsets_of_factors(), ids="".join)
@pytest.mark.parametrize("coding", ["treatment", "sum"])
def test_it_is_the_fit_of_the_margin(names, coding):
    release = random_release(sum(map(ord, names)))
    generators = [names[:2], *((name,) for name in names[2:])]
    fit = dpc.LogLinearModel(release, generators, coding=coding).fit(**FITS)
    same = dpc.LogLinearModel(release.margin(*names), generators, coding=coding).fit(**FITS)
    pd.testing.assert_series_equal(fit.params, same.params)
    pd.testing.assert_series_equal(fit.bse, same.bse)
    assert (fit.llf, fit.df_resid, fit.aic) == (same.llf, same.df_resid, same.aic)
    assert fit.model.release.domain.names == names
    assert fit.model.source is release


def test_strata_stay():
    release = random_release(4, strata=["D"])
    fit = dpc.LogLinearModel(release, "[A B]").fit(**FITS)
    assert fit.model.release.domain.names == ("A", "B", "D")
    same = dpc.LogLinearModel(release.margin("A", "B", "D"), "[A B][D]").fit(**FITS)
    assert fit.llf == same.llf


def test_released_margins_are_restricted_to_the_factors_named():
    rng = np.random.default_rng(8)
    counts = rng.multinomial(900, rng.dirichlet(np.full(24, 0.8))).reshape(DOMAIN.shape)
    margins = [("A", "B"), ("B", "C"), ("C", "D")]
    release = dpc.simulate_margins(counts, DOMAIN, margins, dpc.GDP(0.3), rng)
    fit = dpc.LogLinearModel(release, "[A B]").fit(**FITS)
    assert fit.model.release.domain.names == ("A", "B")
    same = dpc.LogLinearModel(release.collapse("A", "B"), "[A B]").fit(**FITS)
    pd.testing.assert_series_equal(fit.params, same.params)
    name = "A[T.b]:B[T.v]"
    ratio = dpc.odds_ratio(release, "A", "B").estimate if fit.params.size == 1 else None
    if ratio is None:  # B has three levels: the ratio is that of the margin's fitted cells
        cells = fit.fittedvalues.to_numpy().reshape(2, 3)
        ratio = cells[0, 0] * cells[1, 1] / cells[0, 1] / cells[1, 0]
    assert fit.params[name] == pytest.approx(np.log(ratio), abs=1e-6)


def test_without_noise_nothing_changes():
    counts = np.random.default_rng(3).multinomial(500, np.full(24, 1 / 24)).reshape(DOMAIN.shape)
    release = dpc.Release.exact(counts, DOMAIN)
    one = dpc.LogLinearModel(release, "[A B]").fit()
    other = dpc.LogLinearModel(release, "[A B]", left_out="uniform").fit()
    np.testing.assert_allclose(one.params, other.params, atol=1e-8)
    np.testing.assert_allclose(one.bse, other.bse, atol=1e-8)


def test_formulas_and_special_terms_name_their_factors():
    release = random_release(5)
    fit = dpc.LogLinearModel.from_formula("A*B", release).fit(**FITS)
    assert fit.llf == dpc.LogLinearModel(release, "[A B]").fit(**FITS).llf
    uniform = dpc.LogLinearModel.from_formula("A*B", release, left_out="uniform").fit(**FITS)
    assert uniform.model.release is release
    square = dpc.Domain({"A": [1, 2], "B": [1, 2], "Z": [1, 2, 3]})
    table = dpc.Release.exact(np.arange(12).reshape(2, 2, 3), square)
    model = dpc.LogLinearModel.from_formula("Symm(A, B)", table)
    assert model.release.domain.names == ("A", "B")


def test_a_model_of_no_factor_is_of_equal_cells():
    release = random_release(6)
    fit = dpc.LogLinearModel(release, []).fit()
    np.testing.assert_allclose(fit.fittedvalues, 900 / 24)


def test_comparisons_work_on_the_table_that_holds_every_model():
    release = random_release(7)
    small, large = (dpc.LogLinearModel(release, g).fit(**FITS) for g in ("[A][B]", "[A B][C]"))
    table = dpc.compare(small, large)
    on_one = [
        dpc.LogLinearModel(release.margin("A", "B", "C"), g, left_out="uniform").fit(**FITS)
        for g in ("[A][B]", "[A B][C]")
    ]
    pd.testing.assert_frame_equal(table.table, dpc.compare(*on_one).table)
    assert "Compared on A x B x C" in table.notes[1]
    assert "[A][B]" in table.notes[1]
    dropped = large.drop1().table
    assert dropped.loc["[C]", "df"] == 1  # of C alike, on the same table
    searched = dpc.step(dpc.LogLinearModel(release, "[A][B]"))
    assert any("margin A x B" in note for note in searched.notes)


def test_a_fit_from_a_file_knows_its_own_table_alone(tmp_path):
    release = random_release(7)
    for left_out in ("margin", "uniform"):
        fit = dpc.LogLinearModel(release, "[A B]", left_out=left_out).fit(**FITS)
        fit.save(tmp_path / "fit.json")
        again = LogLinearResults.load(tmp_path / "fit.json")
        pd.testing.assert_series_equal(again.params, fit.params)
        assert again.model.fitted_to == fit.model.fitted_to
        assert again.to_json() == fit.to_json()
    small = dpc.LogLinearModel(release, "[A][B]").fit(**FITS)
    small.save(tmp_path / "small.json")
    dpc.LogLinearModel(release, "[A C]").fit(**FITS).save(tmp_path / "fit.json")
    fits = [LogLinearResults.load(tmp_path / name) for name in ("small.json", "fit.json")]
    with pytest.raises(ModelError, match="none of these fits knows a release of all of them"):
        dpc.compare(*fits)


def test_the_header_says_which_table(tmp_path):
    release = random_release(7)
    fit = dpc.LogLinearModel(release, "[A B]").fit(**FITS)
    lines = [line.strip() for line in str(fit.summary()).splitlines()]
    assert lines[:2] == ["Log-linear model [A B]", "Fitted to: margin A x B"]
    uniform = dpc.LogLinearModel(release, "[A B]", left_out="uniform").fit(**FITS)
    said = " ".join(str(uniform.summary()).split())
    assert "Fitted to: A x B x C x D, levels of C and D equally likely" in said
    assert "Fitted to" not in str(dpc.LogLinearModel(release, "[A B][C][D]").fit().summary())
    dpc.write_report(release, tmp_path / "r.md", models=[fit])
    assert "margin A x B" in (tmp_path / "r.md").read_text()


def test_the_command_line_says_it_too(tmp_path):
    release = random_release(7)
    release.save(tmp_path / "r.json")
    assert "Fitted to: margin A x B" in run("fit", tmp_path / "r.json", "[A B]")
    said = run("fit", tmp_path / "r.json", "[A B]", "--left-out", "uniform")
    assert "equally likely" in said
    refused("fit", tmp_path / "r.json", "[A B]", "--left-out", "none")


def test_what_is_neither_is_refused():
    with pytest.raises(ModelError, match=r"`left_out` is 'margin', .* got 'joint'"):
        dpc.LogLinearModel(random_release(1), "[A]", left_out="joint")


def test_a_test_of_a_model_says_which_model_and_can_be_repeated():
    release = random_release(2)
    test = dpc.model_test(dpc.LogLinearModel(release, "[A][B]"), pvalue="asymptotic")
    same = dpc.independence_test(release, "A", "B", pvalue="asymptotic")
    assert (test.statistic, test.df) == (pytest.approx(same.statistic), same.df)
    again = eval(test.call, {"dpc": dpc, "release": release})
    assert again.statistic == test.statistic
    uniform = dpc.model_test(
        dpc.LogLinearModel(release, "[A][B]", left_out="uniform"), pvalue="asymptotic"
    )
    assert "equally likely" in uniform.null
    again = eval(uniform.call, {"dpc": dpc, "release": release})
    assert (again.statistic, again.df) == (uniform.statistic, uniform.df)
