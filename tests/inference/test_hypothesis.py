"""Tests of independence: classical values with no noise, right size with it."""

import itertools

import numpy as np
import pytest
from scipy import stats

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.gaussian import score_statistic
from dpcontingency.inference.hypothesis import TestResult, homogeneity_test, independence_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.pvalues import chi2_logsf
from dpcontingency.inference.replicates import Replicates
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release


def exact(counts):
    counts = np.asarray(counts)
    rows, columns = counts.shape
    return Release.exact(counts, Domain({"R": list(range(rows)), "S": list(range(columns))}))


@pytest.mark.parametrize(
    ("counts", "x2", "g2", "df"),
    [
        ([[12, 0, 7], [9, 5, 14]], 6.268349, 8.006005, 2),  # C2
        ([[30, 10], [22, 18], [12, 28]], 16.339286, 16.914533, 2),  # C7
        ([[45, 2], [1, 44]], 80.4293144, None, 1),  # C23
        ([[9, 24, 6], [14, 21, 13]], 2.966617, None, 2),  # C26
        ([[10.5, 20.25], [30.75, 5.5]], 18.060147, 18.917734, 1),  # C28
        ([[18, 32], [33, 17]], 9.003601, None, 1),  # C29: no Yates correction
        ([[1200, 4], [5, 0]], 0.016666, None, 1),  # C29
        ([[50, 70], [60, 35]], 9.801302, None, 1),  # C30
        ([[14, 23], [31, 0]], None, None, 1),  # C32: nothing is added to cells
        ([[3, 0, 11], [4, 2, 1], [2, 0, 1]], 11.057387, None, 4),  # C32
    ],
)
def test_classical_values_with_no_noise(counts, x2, g2, df):
    for table in (np.asarray(counts), np.asarray(counts).T):
        score = independence_test(exact(table), "R", "S", statistic="score")
        ratio = independence_test(exact(table), "R", "S")
        oracle = stats.chi2_contingency(table, correction=False)
        assert score.df == ratio.df == oracle.dof == df
        assert score.statistic == pytest.approx(oracle.statistic, rel=1e-9)
        assert score.pvalue == pytest.approx(oracle.pvalue, rel=1e-8)
        g_oracle = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
        assert ratio.statistic == pytest.approx(g_oracle.statistic, rel=1e-9)
        if x2 is not None:
            assert score.statistic == pytest.approx(x2, abs=6e-7)
        if g2 is not None:
            assert ratio.statistic == pytest.approx(g2, abs=6e-7)
        assert score.accounts_for == ("sampling",)


def test_tails_beyond_floats():
    # CASES C22 and C23.
    huge = independence_test(exact([[910, 120], [61, 71880]]), "R", "S", statistic="score")
    assert huge.statistic == pytest.approx(60254.09813, abs=1e-4)
    assert huge.pvalue == 0
    assert "< 1e-300" in repr(huge)
    assert "< 1e-300" in huge.summary()
    assert huge.log_pvalue / np.log(10) == pytest.approx(-13086, abs=1)
    small = independence_test(exact([[45, 2], [1, 44]]), "R", "S", statistic="score")
    assert small.pvalue == pytest.approx(3.012922e-19, rel=1e-6)


@pytest.mark.parametrize("df", [1, 2, 3, 10, 57])
def test_the_logarithm_of_the_tail_is_continuous_where_floats_end(df):
    x = np.linspace(1300, 1600, 61)
    values = np.array([chi2_logsf(v, df) for v in x])
    assert np.isfinite(values).all()
    # log sf has derivative near -1/2 and no jump where the direct evaluation gives out.
    slopes = np.diff(values) / np.diff(x)
    assert (np.abs(np.diff(slopes)) < 1e-4).all()
    assert values[0] == pytest.approx(stats.chi2.logsf(1300, df), rel=1e-12)


def test_one_level_is_not_testable():
    # CASES C9.
    result = independence_test(exact([[4, 9, 7]]), "R", "S")
    assert np.isnan(result.pvalue)
    assert np.isnan(result.statistic)
    assert result.df == 0
    assert "single level" in result.reason
    assert "not done" in repr(result)
    assert result.reason in result.summary()


@pytest.mark.parametrize(
    ("counts", "x2", "g2", "df", "p"),
    [
        ([[12, 0, 7], [9, 0, 14]], 2.402746, 2.427097, 1, (0.12112, 0.11925)),  # C1
        ([[2, 1], [1, 2], [0, 0]], 0.666667, None, 1, None),  # C15
        ([[0, 5, 0, 9], [0, 7, 0, 3], [0, 0, 0, 0]], None, None, 1, None),
    ],
)
def test_a_level_nobody_has_is_left_out_of_the_test_and_named(counts, x2, g2, df, p):
    score = independence_test(exact(counts), "R", "S", statistic="score")
    ratio = independence_test(exact(counts), "R", "S")
    kept = np.asarray(counts)
    kept = kept[kept.sum(axis=1) > 0][:, kept.sum(axis=0) > 0]
    oracle = stats.chi2_contingency(kept, correction=False)
    assert score.df == ratio.df == df == oracle.dof
    assert score.statistic == pytest.approx(oracle.statistic, rel=1e-8)
    assert score.pvalue == pytest.approx(oracle.pvalue, rel=1e-8)
    for result, value in ((score, x2), (ratio, g2)):
        if value is not None:
            assert result.statistic == pytest.approx(value, abs=6e-7)
    if p is not None:
        assert (round(score.pvalue, 5), round(ratio.pvalue, 5)) == p
    assert any("S[T.1]" in note or "R[T.2]" in note for note in score.notes)
    assert any(
        note.startswith(("No record has S = 1", "No record has R = 2")) for note in ratio.notes
    )


def test_records_that_share_one_level_leave_nothing_to_test():
    result = independence_test(exact([[5, 0], [0, 0]]), "R", "S")
    assert (result.df, np.isnan(result.pvalue)) == (0, True)
    assert "all records share one" in result.reason


def test_conditional_independence_is_the_loglinear_model(load_table):
    counts, domain = load_table("ucb_admissions")
    release = Release.exact(counts, domain)
    result = independence_test(release, "Admit", "Gender", given=("Dept",))
    assert (result.df, result.statistic) == (6, pytest.approx(21.73550678, rel=1e-8))
    assert result.null_fit.generating_class == "[Admit Dept][Gender Dept]"
    # the sum over departments of the G2 of each
    parts = [
        stats.chi2_contingency(counts[:, :, k], correction=False, lambda_="log-likelihood")
        for k in range(6)
    ]
    assert result.statistic == pytest.approx(sum(p.statistic for p in parts), rel=1e-9)
    marginal = independence_test(release, "Admit", "Gender")
    assert marginal.statistic == pytest.approx(93.4494, abs=1e-3)


def test_mutual_independence_of_three(load_table):
    counts, domain = load_table("hair_eye_color")
    result = independence_test(Release.exact(counts, domain), "Hair", "Eye", "Sex")
    assert (result.df, result.statistic) == (24, pytest.approx(166.3001395, rel=1e-8))


def test_order_of_names_changes_nothing():
    rng = np.random.default_rng(9)
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y"]})
    counts = rng.multinomial(900, rng.dirichlet(np.full(12, 4.0))).reshape(domain.shape)
    release = simulate_release(counts, domain, GDP(0.3), rng)
    values = [
        independence_test(release, *pair, given=("C",)).statistic
        for pair in itertools.permutations(["A", "B"])
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-8)
    nested = LogLinearModel(release.margin("A", "B"), "[A][B]").fit()
    assert independence_test(release, "A", "B").statistic == pytest.approx(nested.deviance)


def test_demo_story_at_mu_1(load_table):
    """Admission depends on gender in the margin; given the department most of it is gone."""
    counts, domain = load_table("ucb_admissions")
    for seed in range(20):
        release = simulate_release(counts, domain, GDP(1), np.random.default_rng(seed))
        marginal = independence_test(release, "Admit", "Gender")
        given = independence_test(release, "Admit", "Gender", given=("Dept",))
        assert marginal.pvalue < 1e-15
        assert given.statistic < marginal.statistic / 2
        assert given.accounts_for == ("sampling", "noise")


def test_size_of_the_tests_under_heavy_noise():
    """3x4, n = 1000, mu = 0.1 (sigma = 14.1), true independence, level 5 %.

    2,000 releases, so the Monte-Carlo standard error is 0.0049. Pearson's test on the noisy
    table rejects most of the time.
    """
    rng = np.random.default_rng(20261)
    domain = Domain({"R": list("abc"), "S": list("wxyz")})
    rows, columns = np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.2, 0.3, 0.4])
    probabilities = np.outer(rows, columns).ravel()
    replicates = 2000
    score, naive, releases = np.empty(replicates), np.empty(replicates), []
    for i in range(replicates):
        counts = rng.multinomial(1000, probabilities).reshape(3, 4)
        releases.append(simulate_release(counts, domain, GDP(0.1), rng))
        clamped = np.maximum(releases[i].noisy, 0.5)
        naive[i] = stats.chi2_contingency(clamped, correction=False).pvalue
    model = LogLinearModel(releases[0], "[R][S]")
    cells = model.cells
    tables = Replicates(
        np.stack([release.noisy.ravel() for release in releases]),
        cells.variances,
        cells.strata,
        cells.totals,
    )
    start = model.classical_fit(1000 * probabilities)
    fits = tables.fit(model._design, model._offset, start)
    ratio = stats.chi2.sf(2 * (tables.saturated().loglik - fits.loglik), 6)
    gaps = tables.noisy - fits.fitted
    for i, (gap, fitted) in enumerate(zip(gaps, fits.fitted, strict=True)):
        score[i] = stats.chi2.sf(score_statistic(gap, fitted, cells.variances, cells.strata), 6)
    for i in range(25):  # all at once is what one by one is
        for values, statistic in ((ratio, "lr"), (score, "score")):
            alone = independence_test(
                releases[i], "R", "S", statistic=statistic, pvalue="asymptotic"
            )
            assert alone.pvalue == pytest.approx(values[i], rel=1e-5)
    assert 0.04 <= (ratio < 0.05).mean() <= 0.06
    assert 0.035 <= (score < 0.05).mean() <= 0.065
    assert (naive < 0.05).mean() > 0.7
    # The whole distribution of p-values, not only the 5 % point.
    assert stats.kstest(ratio, "uniform").pvalue > 0.001


def test_misuse_is_one_sentence():
    release = exact([[3, 4], [5, 6]])
    for call in (
        lambda: independence_test(release, "R"),
        lambda: independence_test(release, "R", "R"),
        lambda: independence_test(release, "R", "S", given="S"),
        lambda: independence_test(release, "R", "S", statistic="fisher"),
    ):
        with pytest.raises(ModelError) as caught:
            call()
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="did you mean 'R'"):
        independence_test(release, "r", "S")


def test_a_result_is_a_value():
    one = independence_test(exact([[3, 4], [5, 6]]), "R", "S")
    assert isinstance(one, TestResult)
    assert one == independence_test(exact([[3, 4], [5, 6]]), "R", "S")
    with pytest.raises(AttributeError):
        one.pvalue = 0.0


@pytest.mark.parametrize("statistic", ["lr", "score"])
def test_no_records_leave_nothing_to_test(statistic):
    domain = Domain({"R": ["a", "b"], "S": ["u", "v", "w"]})
    rng = np.random.default_rng(4)
    for counts, strata in ((np.zeros((2, 3), int), ()), ([[0, 0, 0], [1, 2, 3]], ("R",))):
        release = simulate_release(counts, domain, GDP(1), rng, strata=strata)
        result = independence_test(release, "R", "S", statistic=statistic)
        assert np.isnan(result.pvalue)
        assert "no degrees of freedom" in result.reason
    fit = LogLinearModel(
        simulate_release(np.zeros((2, 3), int), domain, GDP(1), rng), "[R][S]"
    ).fit(warn_convergence=False)
    assert fit.params.isna().all()
    assert fit.bse.isna().all()


def test_no_score_test_where_noise_has_eaten_a_margin():
    domain = Domain({"R": ["a", "b"], "S": ["u", "v", "w"]})
    release = Release.from_noisy_table(np.full((2, 3), -5.0), domain, sigma=2.0)
    score = independence_test(release, "R", "S", statistic="score", pvalue="asymptotic")
    assert np.isnan(score.pvalue)
    assert "likelihood ratio" in score.reason
    assert score.df == 2
    ratio = independence_test(release, "R", "S", pvalue="asymptotic")
    assert ratio.pvalue == pytest.approx(1)
    assert any("Within noise of 0" in note for note in ratio.notes)


def test_values_that_no_noise_can_have_made_are_refused():
    domain = Domain({"R": ["a", "b"], "S": ["u", "v"]})
    for values, sigma in (([[120.4, -3.1], [88.2, 5]], 1e-12), ([[1e300, 1], [1, 1]], 2.0)):
        release = Release.from_noisy_table(values, domain, sigma=sigma)
        with pytest.raises(ModelError):
            independence_test(release, "R", "S")


def test_hardly_any_information_still_converges():
    """n = 1000 in six cells under noise of sigma = 141: the EM metric alone would take for ever."""
    domain = Domain({"R": ["a", "b"], "S": ["u", "v", "w"]})
    rng = np.random.default_rng(0)
    for _ in range(40):
        counts = rng.multinomial(1000, np.full(6, 1 / 6)).reshape(2, 3)
        release = simulate_release(counts, domain, GDP(0.01), rng)
        fit = LogLinearModel(release, "[R][S]").fit(warn_convergence=False)
        assert fit.converged
        assert fit.iterations < 60


def test_samples_together_state_their_losses():
    domain, rng = Domain({"S": ["u", "v", "w"]}), np.random.default_rng(0)
    samples = [simulate_release([100, 200, 300], domain, GDP(mu), rng) for mu in (0.5, 1)]
    test = homogeneity_test(samples)
    assert "not stated" not in test.summary()
    table = test.null_fit.model.release
    assert table.privacy == GDP(1)  # no record is in both samples
    assert "1: " in table.provenance["samples"]
    assert "mu = 0.5" in table.provenance["samples"]
    third = Release.from_noisy_table([99.0, 200.0, 301.0], domain, sigma=2.0, n_total=600)
    assert homogeneity_test([*samples, third]).null_fit.model.release.privacy is None


def test_a_stratum_named_as_the_response_is_refused_with_what_to_name():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    rng = np.random.default_rng(1)
    release = simulate_release([[30, 10], [12, 40]], domain, GDP(1), rng, strata=["A"])
    for factors in (("A", "B"), ("B", "A")):
        with pytest.raises(
            ModelError, match=r"by being a stratum .* name only 'B' as the response"
        ):
            homogeneity_test(release, *factors)
    with pytest.raises(ModelError, match="name another factor as the response"):
        homogeneity_test(release, "A")
    with pytest.raises(ModelError, match=r"^B makes the groups and is named .* name only 'A' as"):
        homogeneity_test(release, "A", "B", by="B")
    assert homogeneity_test(release, "B").null == "B alike in each A"
