"""Comparison of nested models: classical values with no noise, right size with it, refusals."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.comparison import compare, without
from dpcontingency.inference.families import all_kway, conditional, mutual
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

# CASES B1. Alcohol, cigarettes, marijuana: 911 3 44 2 538 43 456 279, first factor fastest.
STUDENTS = np.array([911, 3, 44, 2, 538, 43, 456, 279]).reshape(2, 2, 2).T
TITLES = ("Alcohol", "Cigarettes", "Marijuana")


def students():
    return Release.exact(STUDENTS, Domain({name: ["yes", "no"] for name in TITLES}))


def quiet(release, generators, **options):
    return LogLinearModel(release, generators, **options).fit(warn_convergence=False)


def poisson_fits(counts, domain, classes):
    """The same models as Poisson GLMs."""
    plain = {name: f"f{k}" for k, name in enumerate(domain.names)}
    frame = pd.DataFrame(list(domain.cells()), columns=list(plain.values()))
    frame["y"] = counts.ravel()
    for generators in classes:
        terms = " + ".join("*".join(f"C({plain[n]})" for n in margin) for margin in generators)
        model = sm.GLM.from_formula(f"y ~ {terms}", frame, family=sm.families.Poisson())
        yield model.fit(tol=1e-12, tol_criterion="params")


# -- no noise: the textbooks ----------------------------------------------------------------------


def test_the_students():
    # CASES C35
    release = students()
    classes = ["[Alcohol Marijuana][Cigarettes Marijuana]", all_kway(release, 2)]
    fits = [quiet(release, c) for c in classes]
    table = compare(*fits).table
    assert table["lr"].round(4).tolist() == [187.7543, 0.3740, 0.0]
    assert table["df"].tolist() == [2, 1, 0]
    assert table["lr_diff"].round(4).tolist()[1:] == [187.3803, 0.3740]
    assert table["df_diff"].tolist()[1:] == [1, 1]
    assert table["pvalue_diff"].iloc[1] == pytest.approx(stats.chi2.sf(187.38030, 1), rel=1e-4)
    # USERS 4.3: the step from this model to the saturated one in R's AIC, G2 - 2 df
    assert table["aic"].iloc[1] - table["aic"].iloc[2] == pytest.approx(0.373986 - 2, abs=1e-5)
    assert np.isnan([table["lr_diff"].iloc[0], table["pvalue"].iloc[-1]]).all()


@pytest.mark.parametrize("name", ["ucb_admissions", "hair_eye_color", "czech_autoworkers"])
def test_differences_are_those_of_poisson_glms(load_table, name):
    counts, domain = load_table(name)
    release = Release.exact(counts, domain)
    classes = [mutual(domain), all_kway(domain, 2)]
    if len(domain.names) == 3:
        classes.insert(1, conditional(domain, given=domain.names[2]))
    fits = [quiet(release, c) for c in classes]
    table = compare(*fits).table
    oracles = list(poisson_fits(counts, domain, classes))
    for i, glm in enumerate(oracles):
        assert table["lr"].iloc[i] == pytest.approx(glm.deviance, rel=1e-8)
        assert table["df"].iloc[i] == glm.df_resid
        assert table["pvalue"].iloc[i] == pytest.approx(stats.chi2.sf(glm.deviance, glm.df_resid))
    for i, (small, large) in enumerate(itertools.pairwise(oracles), 1):
        lr, df = small.deviance - large.deviance, small.df_resid - large.df_resid
        assert table["lr_diff"].iloc[i] == pytest.approx(lr, rel=1e-8)
        assert table["df_diff"].iloc[i] == df
        assert table["pvalue_diff"].iloc[i] == pytest.approx(stats.chi2.sf(lr, df), rel=1e-6)
        step = table["aic"].iloc[i] - table["aic"].iloc[i - 1]
        assert step == pytest.approx(large.aic - small.aic, rel=1e-8)
        n = counts.sum()
        step = table["bic"].iloc[i] - table["bic"].iloc[i - 1]
        assert step == pytest.approx(np.log(n) * df - lr, rel=1e-8)


def test_df_is_counted_on_the_facial_set(load_table):
    # METHODS 2.4: R prints 15 and 10 here, a difference of 5 as well, and 10 against saturated.
    counts, domain = load_table("titanic")
    release = Release.exact(counts, domain)
    result = compare(
        quiet(release, "[Class Sex Age][Survived]"),
        quiet(release, "[Class Sex Age][Class Survived][Sex Survived][Age Survived]"),
    )
    assert result.table["df"].tolist() == [13, 8, 0]
    assert result.table["lr"].tolist() == pytest.approx([671.9622152, 112.5666112, 0], rel=1e-6)
    assert result.table["df_diff"].tolist()[1:] == [5, 8]
    notes = " ".join(result.notes)
    assert "at infinity" in notes
    model, larger = result.table.index[:2]
    assert f"The df of {model}, {larger} are adjusted for zeros" in notes


def test_terms_whose_df_are_not_their_parameters_are_named():
    domain = Domain({name: [0, 1] for name in "ABC"})
    full = np.array([[[0, 5], [4, 6]], [[7, 3], [8, 0]]])
    # A pattern of zeros that only the larger model sees takes nothing off its terms.
    plain = quiet(Release.exact(full, domain), "[AB][AC][BC]").drop1()
    assert list(plain.table["df"]) == [0, 1, 1, 1]
    assert "facial" not in " ".join(plain.notes)
    full[:, 0] = 0  # nobody has the first level of B, so that nothing can be told of it
    tests = quiet(Release.exact(full, domain), "[AB][AC][BC]").drop1()
    assert list(tests.table["df"]) == [0, 0, 1, 0]
    assert "The df of [A B], [B C] is not" in " ".join(tests.notes)


def test_drop1_is_a_comparison_for_each_term(load_table):
    counts, domain = load_table("ucb_admissions")
    release = Release.exact(counts, domain)
    whole = quiet(release, all_kway(domain, 2))
    table = whole.drop1().table
    assert list(table.index) == ["(none)", "[Admit Gender]", "[Admit Dept]", "[Gender Dept]"]
    assert table["aic"].iloc[0] == whole.aic
    classes = [without(whole.generators, term) for term in whole.generators]
    full = next(poisson_fits(counts, domain, [whole.generators]))
    for i, glm in enumerate(poisson_fits(counts, domain, classes), 1):
        row = table.iloc[i]
        lr, df = glm.deviance - full.deviance, glm.df_resid - full.df_resid
        assert (row["lr"], row["df"]) == (pytest.approx(lr, rel=1e-7), df)
        assert row["pvalue"] == pytest.approx(stats.chi2.sf(lr, df), rel=1e-6)
        assert row["aic"] - whole.aic == pytest.approx(glm.aic - full.aic, rel=1e-7)


def test_terms_of_the_strata_are_not_dropped():
    rng = np.random.default_rng(3)
    domain = Domain({"A": [0, 1], "B": [0, 1, 2], "C": [0, 1]})
    counts = rng.multinomial(900, np.full(12, 1 / 12)).reshape(domain.shape)
    release = simulate_release(counts, domain, GDP(1), rng, strata=("A", "B"))
    tests = quiet(release, "[A B][A C][B C]").drop1()
    assert list(tests.table.index) == ["(none)", "[A C]", "[B C]"]
    assert tests.table["generating_class"].tolist()[1:] == ["[A B][B C]", "[A B][A C]"]
    # the parts of a term stay, and the strata with them
    whole = quiet(release, "[A B C]").drop1().table
    assert whole["generating_class"].iloc[1] == "[A B][A C][B C]"
    assert list(quiet(release, "[A B][C]").drop1().table.index) == ["(none)", "[C]"]
    compared = compare(quiet(release, "[A B][C]"), quiet(release, "[A B][A C]"))
    assert compared.table["df"].tolist() == [5, 4, 0]


# -- laws -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.default_rng(17)
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y"]})
    counts = rng.multinomial(900, rng.dirichlet(np.full(12, 4.0))).reshape(domain.shape)
    return simulate_release(counts, domain, GDP(0.4), rng)


def test_the_order_of_the_arguments_changes_nothing(noisy):
    fits = [quiet(noisy, g) for g in ("[A][B][C]", "[A B][C]", "[A B][B C]")]
    tables = [compare(*order).table for order in itertools.permutations(fits)]
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])
    pd.testing.assert_frame_equal(fits[2].compare(fits[0], fits[1]).table, tables[0])


def test_differences_add_up_and_the_last_row_is_saturated(noisy):
    fits = [quiet(noisy, g) for g in ("[A][B][C]", "[A B][C]", "[A B][B C]")]
    table = compare(*fits).table
    assert list(table.index)[-1] == "[A B C]"
    assert table["lr_diff"].iloc[1:].sum() == pytest.approx(table["lr"].iloc[0], abs=1e-6)
    assert table["df_diff"].iloc[1:].sum() == table["df"].iloc[0]
    assert (table["lr"].diff().iloc[1:] <= 0).all()
    # given or not, the saturated model is one row, with the same numbers
    given = compare(*fits, quiet(noisy, "[A B C]")).table
    pd.testing.assert_frame_equal(given, table, check_exact=False, atol=1e-6, rtol=1e-6)


def test_coding_changes_nothing(noisy):
    pair = ("[A B][C]", "[A B][B C]")
    one = compare(*(quiet(noisy, g) for g in pair)).table
    other = compare(*(quiet(noisy, g, coding="sum") for g in pair)).table
    pd.testing.assert_frame_equal(one, other, check_exact=False, atol=1e-6, rtol=1e-7)
    assert quiet(noisy, pair[1], coding="sum").drop1().table["lr"].iloc[1:].tolist() == (
        pytest.approx(quiet(noisy, pair[1]).drop1().table["lr"].iloc[1:].tolist(), abs=1e-6)
    )


def test_a_release_read_from_a_file_is_the_same_release(noisy, tmp_path):
    small, large = quiet(noisy, "[A][B][C]"), quiet(noisy, "[A B][C]")
    large.save(tmp_path / "fit.json")
    again = LogLinearResults.load(tmp_path / "fit.json")
    pd.testing.assert_frame_equal(compare(small, again).table, compare(small, large).table)


def test_size_of_the_difference_under_noise():
    """2x3x2, n = 600, mu = 0.15 (sigma = 9.4); [AC][BC], which is true, in all two-way: 2 df.

    400 releases, so the Monte-Carlo standard error of the size at 5 % is 0.0109. With the noisy
    cells taken for counts (100 releases, so 0.05) the same difference rejects in about 40 %.
    """
    rng = np.random.default_rng(20262)
    domain = Domain({"A": [0, 1], "B": [0, 1, 2], "C": [0, 1]})
    a, b = np.array([[0.6, 0.4], [0.3, 0.7]]), np.array([[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]])
    truth = np.einsum("c,ca,cb->abc", [0.5, 0.5], a, b).ravel()
    replicates = 400
    pvalues, naive = np.empty(replicates), np.empty(100)
    for i in range(replicates):
        counts = rng.multinomial(600, truth).reshape(domain.shape)
        release = simulate_release(counts, domain, GDP(0.15), rng)
        null, alternative = quiet(release, "[A C][B C]"), quiet(release, "[A B][A C][B C]")
        pvalues[i] = compare(null, alternative).table["pvalue_diff"].iloc[1]
        if i < naive.size:
            clamped = Release.exact(np.maximum(release.noisy, 0.5), domain)
            pair = (quiet(clamped, g) for g in (null.generators, alternative.generators))
            naive[i] = compare(*pair).table["pvalue_diff"].iloc[1]
    assert 0.05 - 3 * 0.0109 <= (pvalues < 0.05).mean() <= 0.05 + 3 * 0.0109
    assert (naive < 0.05).mean() > 0.25
    assert stats.kstest(pvalues, "uniform").pvalue > 0.001


# -- refusals -------------------------------------------------------------------------------------


def failing(fit, **changes):
    """The same results with a fit that went otherwise."""
    return LogLinearResults(fit.model, replace(fit._fit, **changes))


def test_what_cannot_be_compared_is_refused(noisy):
    small, large = quiet(noisy, "[A][B][C]"), quiet(noisy, "[A B][C]")
    moved = replace(noisy, noisy=noisy.noisy + np.eye(2, 3)[:, :, None] - 1 / 3)
    unknown = Release.from_noisy_table(noisy.noisy, noisy.domain, sigma=noisy.sigma)
    total = Release.from_noisy_table(noisy.noisy, noisy.domain, sigma=noisy.sigma, n_total=900)
    louder = Release.from_noisy_table(noisy.noisy, noisy.domain, sigma=2 * noisy.sigma)
    stuck = failing(large, converged=False, reason="it was stopped")
    cases = [
        ([], "one fit or more"),
        ([small, large.model], "got a LogLinearModel"),
        ([small, small], "given twice"),
        ([quiet(noisy, "[A B][C]"), quiet(noisy, "[A C][B]")], "is not nested in"),
        ([small, quiet(noisy, "[A C][B]"), quiet(noisy, "[A B][B C]")], "is not nested in"),
        ([small, quiet(moved, "[A B][C]")], "different releases"),
        ([quiet(unknown, "[A][B][C]"), quiet(louder, "[A B][C]")], "different releases"),
        ([quiet(unknown, "[A][B][C]"), quiet(total, "[A B][C]")], "different sampling schemes"),
        ([small, stuck], r"\[A B\]\[C\] did not converge: it was stopped"),
        ([failing(small, llf=large.llf + 1e-3), large], r"fit of \[A B\]\[C\] failed"),
        ([small, failing(large, llf=large.model.saturated_loglike + 1e-3)], r"\[A B C\] failed"),
    ]
    for fits, says in cases:
        with pytest.raises(ModelError, match=says) as caught:
            compare(*fits)
        assert "\n" not in str(caught.value)
    ours, of_margin = quiet(noisy, "[A][B]"), quiet(noisy.margin("A", "B"), "[A][B]")
    assert compare(ours, large).table.equals(compare(of_margin, large).table)
    compare(failing(small, llf=large.llf + 1e-7), large)  # within the tolerance of a fit
    with pytest.raises(ModelError, match="did not converge"):
        stuck.drop1()


# -- printing -------------------------------------------------------------------------------------


def test_the_page(noisy):
    text = repr(compare(quiet(noisy, "[A][B][C]"), quiet(noisy, "[A B][C]")))
    assert max(map(len, text.split("\n"))) <= 78
    assert "account for sampling and for the noise" in " ".join(text.split())
    assert "nan" not in text.lower()
    exact = compare(quiet(students(), mutual(students())))
    assert "there is no noise" in " ".join(exact.summary().split())


def test_a_tail_beyond_floats_is_no_zero():
    release = Release.exact([[9100, 12], [6, 71880]], Domain({"A": [0, 1], "B": [0, 1]}))
    tests = quiet(release, "[A B]").drop1()
    assert tests.table["pvalue"].iloc[1] == 0
    assert "< 1e-300" in str(tests)
    assert "< 1e-300" in str(compare(quiet(release, "[A][B]")))


def test_long_names_stay_inside_the_page():
    names = [f"a factor with a name of some length, number {i}" for i in range(3)]
    release = Release.exact(STUDENTS, Domain({name: ["yes", "no"] for name in names}))
    fit = quiet(release, all_kway(release, 2))
    for text in (str(compare(fit)), str(fit.drop1())):
        assert max(map(len, text.split("\n"))) <= 78
        for name in names:
            assert name in " ".join(text.split())


def test_a_factor_of_one_level_has_nothing_to_test():
    release = Release.exact([[5], [9]], Domain({"A": [0, 1], "B": ["only"]}))
    row = quiet(release, "[A B]").drop1().table.iloc[1]
    assert (row["df"], row["lr"]) == (0, pytest.approx(0, abs=1e-9))
    assert np.isnan(row["pvalue"])
