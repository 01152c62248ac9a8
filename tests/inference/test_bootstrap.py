"""The parametric bootstrap: its law, when it is chosen, and that it can be repeated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError, ReleaseError
from dpcontingency.inference.bootstrap import bootstrap_pvalue, draw_tables
from dpcontingency.inference.calibration import faint
from dpcontingency.inference.hypothesis import (
    goodness_of_fit_test,
    homogeneity_test,
    independence_test,
    model_test,
)
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.statistic import means_to_draw_from
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

DOMAIN = Domain({"R": list("abc"), "S": list("wxyz")})
BOOT = {"pvalue": "bootstrap", "n_boot": 199}


def release_of(counts, mu, seed=0, domain=DOMAIN, **options):
    return simulate_release(counts, domain, GDP(mu), np.random.default_rng(seed), **options)


def independent(n, seed=0):
    p = np.outer([0.2, 0.3, 0.5], [0.1, 0.2, 0.3, 0.4]).ravel()
    return np.random.default_rng(seed).multinomial(n, p).reshape(3, 4)


# ------------------------------------------------------------------ the draws


@pytest.mark.parametrize("options", [{}, {"strata": ("R",)}, {"neighbours": "add-remove"}], ids=str)
def test_tables_are_drawn_from_the_law_of_the_release(options):
    """20,000 tables: means, variances and totals of table and noise together."""
    release = release_of(independent(600), 0.5, **options)
    cells = LogLinearModel(release, "[R][S]").cells
    null = np.outer([1, 2, 3], [4, 3, 2, 1]).ravel() * 10.0
    if cells.totals is not None:
        null *= (cells.totals / np.bincount(cells.strata, null))[cells.strata]
    tables = draw_tables(cells, null, 20_000, np.random.default_rng(1))
    assert (np.abs(tables.mean(axis=0) - null) < 5 * tables.std(axis=0) / 20_000**0.5).all()
    covariance = np.diag(null) + np.diag(cells.variances)
    if cells.totals is not None:
        for g, total in enumerate(cells.totals):
            inside = (cells.strata == g).astype(float)
            v = cells.variances * inside
            covariance -= np.outer(null * inside, null * inside) / total
            covariance -= np.outer(v, v) / v.sum()
            assert tables @ inside == pytest.approx(np.full(20_000, total))
    gap = np.cov(tables.T) - covariance
    assert np.abs(gap).max() < 6 * covariance.max() * (2 / 20_000) ** 0.5


@given(st.lists(st.floats(0, 50), min_size=1, max_size=40), st.floats(0, 50))
def test_a_bootstrap_pvalue_counts_the_observed_table(replicates, observed):
    replicates = np.array(replicates)
    pvalue = bootstrap_pvalue(observed, replicates)
    assert 1 / (replicates.size + 1) <= pvalue <= 1
    assert pvalue >= (1 + (replicates >= observed).sum()) / (replicates.size + 1)
    assert bootstrap_pvalue(observed + 1, replicates) <= pvalue


def test_without_noise_the_null_is_drawn_from_as_it_was_fitted():
    model = LogLinearModel(Release.exact(independent(60), DOMAIN), "[R][S]")
    fitted = model.fit().fittedvalues.to_numpy()
    assert (means_to_draw_from(model, fitted) == fitted).all()


def test_with_noise_the_null_is_drawn_toward_equal_cells_and_stays_a_null():
    model = LogLinearModel(release_of(independent(200), 0.1), "[R][S]")
    fitted = model.fit(warn_convergence=False).fittedvalues.to_numpy()
    drawn = means_to_draw_from(model, fitted)
    assert drawn.sum() == pytest.approx(200)
    assert drawn.min() > fitted.min()
    assert drawn.std() < fitted.std()
    table = drawn.reshape(3, 4)
    product = np.outer(table.sum(axis=1), table.sum(axis=0)) / 200
    assert table == pytest.approx(product, rel=1e-6)


# ------------------------------------------------------------------ when


def test_auto_takes_chi_square_where_cells_stand_clear_of_noise():
    result = independence_test(release_of(independent(5000), 0.5), "R", "S")
    assert result.n_boot is None
    assert result.seed is None
    assert "asymptotic" in result.calibration


def test_auto_takes_the_bootstrap_where_noise_dominates_and_says_why():
    result = independence_test(release_of(independent(200), 0.1), "R", "S")
    assert result.n_boot == 999
    (note,) = [note for note in result.notes if "bootstrap was chosen" in note]
    assert "less than 2.5 standard deviations" in note
    assert "999 bootstrap replicates" in repr(result)
    assert str(result.seed) in result.summary()


def test_auto_never_takes_the_bootstrap_without_noise():
    result = independence_test(
        Release.exact([[12, 0, 7], [9, 5, 14]], Domain({"A": [0, 1], "B": [0, 1, 2]})), "A", "B"
    )
    assert result.n_boot is None
    assert round(result.pvalue, 6) == 0.018261  # CASES C2


def test_the_rule_is_two_and_a_half_standard_deviations():
    possible = np.ones(2, dtype=bool)
    v = np.array([25.0, 25.0])
    edge = 3.125 + np.sqrt(3.125**2 + 6.25 * 25)  # m = 2.5 sqrt(m + 25)
    assert faint(np.array([80.0, edge + 1e-6]), v, possible) == ""
    assert "1 of 2 cells" in faint(np.array([80.0, edge - 1e-6]), v, possible)
    assert faint(np.array([80.0, 0.0]), v, np.array([True, False])) == ""
    assert faint(np.array([80.0, 0.0]), 0 * v, possible) == ""


# ------------------------------------------------------------------ what


def test_a_bootstrap_can_be_repeated():
    release = release_of(independent(300), 0.2)
    one = independence_test(release, "R", "S", rng=5, **BOOT)
    assert one == independence_test(release, "R", "S", rng=5, **BOOT)
    fresh = independence_test(release, "R", "S", **BOOT)
    assert fresh.seed is not None
    assert independence_test(release, "R", "S", rng=fresh.seed, **BOOT).pvalue == fresh.pvalue
    rng = np.random.default_rng(5)
    mine = independence_test(release, "R", "S", rng=rng, **BOOT)
    assert mine == independence_test(release, "R", "S", rng=np.random.default_rng(5), **BOOT)
    next_one = independence_test(release, "R", "S", rng=rng, **BOOT)
    assert next_one.seed != mine.seed  # the generator has moved on
    namespace = {"dpc": __import__("dpcontingency"), "release": release}
    for result in (fresh, mine, next_one):
        assert eval(result.call, namespace) == result


def test_a_generator_that_is_not_needed_is_not_moved():
    rng = np.random.default_rng(5)
    independence_test(release_of(independent(5000), 0.5), "R", "S", rng=rng)
    assert rng.random() == np.random.default_rng(5).random()


@pytest.mark.parametrize("statistic", ["lr", "score"])
def test_in_large_tables_bootstrap_and_chi_square_agree(statistic):
    counts = independent(4000) + np.array([[25, 0, 0, 0], [0, -20, 0, 0], [0, 0, 0, 0]])
    release = release_of(counts, 0.5)
    asymptotic = independence_test(release, "R", "S", statistic=statistic, pvalue="asymptotic")
    boot = independence_test(
        release, "R", "S", statistic=statistic, pvalue="bootstrap", n_boot=1999, rng=1
    )
    assert boot.statistic == asymptotic.statistic
    p = asymptotic.pvalue
    assert 0.01 < p < 0.9
    assert boot.pvalue == pytest.approx(p, abs=4 * (p * (1 - p) / 1999) ** 0.5 + 0.005)


def test_no_noise_and_many_replicates_give_the_exact_tail_of_a_small_table():
    """Goodness of fit of 6 records to thirds: every outcome can be listed."""
    domain = Domain({"A": list("abc")})
    p = np.array([0.5, 0.3, 0.2])
    release = Release.exact([5, 1, 0], domain)
    statistic = goodness_of_fit_test(release, p, statistic="score").statistic
    exact = sum(
        stats.multinomial.pmf([i, j, 6 - i - j], 6, p)
        for i in range(7)
        for j in range(7 - i)
        if (((np.array([i, j, 6 - i - j]) - 6 * p) ** 2) / (6 * p)).sum() >= statistic - 1e-9
    )
    result = goodness_of_fit_test(
        release, p, statistic="score", pvalue="bootstrap", n_boot=20_000, rng=3
    )
    assert result.pvalue == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 20_000) ** 0.5)


def test_a_nested_alternative_is_refitted_too():
    domain = Domain({"A": [0, 1], "B": [0, 1], "K": [0, 1]})
    counts = np.random.default_rng(4).integers(40, 90, (2, 2, 2))
    release = release_of(counts, 0.3, domain=domain)
    from_dense = model_test(LogLinearModel(release, "[AK][BK][AB]"), rng=1, **BOOT)
    assert 0 < from_dense.pvalue <= 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"statistic": "fisher"}, "'lr', 'score', 'wald' or 'js-pearson'"),
        ({"pvalue": "exact"}, "'auto', 'asymptotic' or 'bootstrap'"),
        ({"n_boot": 0}, "whole number of replicates"),
        ({"n_boot": 99.5}, "whole number of replicates"),
        ({"rng": -1, "pvalue": "bootstrap"}, "at least 0"),
        ({"rng": "seed", "pvalue": "bootstrap"}, "Generator"),
        ({"rng": 1.5}, "at least 0"),
        ({"given": None}, "named by text"),
        ({"given": 5}, "named by text"),
        ({"statistic": "wald", "pvalue": "bootstrap"}, "asymptotic p-value only"),
        ({"statistic": "js-pearson", "pvalue": "asymptotic"}, "no chi-square law"),
    ],
)
def test_misuse_is_one_sentence(options, words):
    with pytest.raises(ModelError, match=words):
        independence_test(release_of(independent(300), 1.0), "R", "S", **options)


# ------------------------------------------------------------------ goodness of fit, homogeneity


def test_goodness_of_fit_is_pearsons_and_the_likelihood_ratio():
    domain = Domain({"A": list("abcd")})
    counts, p = np.array([315, 108, 101, 32]), np.array([9, 3, 3, 1]) / 16
    release = Release.exact(counts, domain)
    score = goodness_of_fit_test(release, p, statistic="score")
    oracle = stats.chisquare(counts, counts.sum() * p)
    assert (score.statistic, score.pvalue) == pytest.approx((oracle.statistic, oracle.pvalue))
    ratio = goodness_of_fit_test(release, p)
    oracle = stats.power_divergence(counts, counts.sum() * p, lambda_="log-likelihood")
    assert (ratio.statistic, ratio.pvalue) == pytest.approx((oracle.statistic, oracle.pvalue))
    wald = goodness_of_fit_test(release, p, statistic="wald")
    assert wald.df == ratio.df == 3
    assert wald.statistic == pytest.approx(ratio.statistic, rel=0.1)
    assert score.null_fit.fittedvalues.to_numpy() == pytest.approx(counts.sum() * p)


def test_goodness_of_fit_without_a_public_total_estimates_it():
    domain = Domain({"A": list("abcd")})
    p = np.array([0.4, 0.3, 0.2, 0.1])
    counts = np.random.default_rng(2).multinomial(3000, p)
    release = release_of(counts, 0.5, domain=domain, neighbours="add-remove")
    result = goodness_of_fit_test(release, p)
    assert result.df == 3
    assert result.pvalue > 1e-4
    wald = goodness_of_fit_test(release, p, statistic="wald")
    assert wald.statistic == pytest.approx(result.statistic, rel=0.1)
    assert goodness_of_fit_test(release, p[::-1]).pvalue < 1e-100


@pytest.mark.parametrize(
    ("probabilities", "words"),
    [
        ([0.5, 0.5], "shape"),
        ([0.5, 0.2, 0.2, 0.2], "add up to 1"),
        ([0.5, 0.5, 0.0, 0.0], "positive"),
        ([np.nan, 0.5, 0.25, 0.25], "positive"),
        ("abcd", "shape"),
        (None, "Goodness of fit to what"),
    ],
)
def test_goodness_of_fit_to_no_distribution_is_refused(probabilities, words):
    release = Release.exact([3, 4, 5, 6], Domain({"A": list("abcd")}))
    with pytest.raises(ModelError, match=words):
        goodness_of_fit_test(release, probabilities)


def test_goodness_of_fit_within_strata():
    domain = Domain({"G": ["x", "y"], "A": list("abc")})
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    counts = np.stack([np.random.default_rng(k).multinomial(900, p[k]) for k in range(2)])
    release = release_of(counts, 1.0, domain=domain, strata=("G",))
    result = goodness_of_fit_test(release, p)
    assert result.df == 4
    assert result.pvalue > 1e-4
    assert np.isfinite(goodness_of_fit_test(release, p, statistic="js-pearson", **BOOT).pvalue)
    with pytest.raises(ModelError, match="in each combination of G"):
        goodness_of_fit_test(release, p / 2)


def test_an_offset_is_kept_in_files(tmp_path):
    release = Release.exact([3, 4, 5, 6], Domain({"A": list("abcd")}))
    p = [0.1, 0.2, 0.3, 0.4]
    fit = goodness_of_fit_test(release, p).null_fit
    fit.save(tmp_path / "null.json")
    again = type(fit).load(tmp_path / "null.json")
    assert again.deviance == fit.deviance
    with pytest.raises(ModelError, match="different offsets"):
        fit.compare(LogLinearModel(release, "[A]").fit())


def test_homogeneity_of_strata_is_independence_given_them():
    counts = independent(2000, 3)
    release = release_of(counts, 0.5, strata=("R",))
    result = homogeneity_test(release, "S")
    assert result.statistic == independence_test(release, "R", "S").statistic
    assert result.df == 6
    with pytest.raises(ModelError, match="groups"):
        homogeneity_test(release_of(counts, 0.5), "S")
    assert homogeneity_test(release_of(counts, 0.5), "S", by="R").df == 6


def test_samples_are_different_releases_of_one_domain():
    domain, other = Domain({"S": list("wxyz")}), Domain({"S": list("zyxw")})
    one = release_of([30, 20, 40, 10], 1.0, domain=domain)
    for pair, words in (
        ([one, one], "given twice"),
        ([one], "two Releases or more"),
        ([one, release_of([9, 9, 9, 9], 1.0, domain=other)], "different domains"),
        (
            [one, release_of([9, 9, 9, 9], 1.0, domain=domain, neighbours="add-remove")],
            "public total",
        ),
        ("SS", "list of two Releases"),
    ):
        with pytest.raises(ReleaseError, match=words):
            homogeneity_test(pair)


def test_wald_statistics_leave_structural_zeros_out():
    domain = Domain({"A": list("pqr"), "B": list("uvw")}, structural_zeros=[{"A": "p", "B": "u"}])
    counts = [[0, 50, 50], [50, 100, 50], [50, 50, 100]]
    release = release_of(counts, 0.3, domain=domain)
    wald = independence_test(release, "A", "B", statistic="wald")
    ratio = independence_test(release, "A", "B", pvalue="asymptotic")
    assert wald.df == ratio.df == 3
    assert wald.statistic == pytest.approx(ratio.statistic, rel=0.3)


def test_samples_without_noise_are_the_rows_of_one_table():
    counts, domain = independent(500, 5), Domain({"S": list("wxyz")})
    samples = [Release.exact(row, domain) for row in counts]
    one = independence_test(Release.exact(counts, DOMAIN), "R", "S")
    several = homogeneity_test(samples)
    assert several.statistic == pytest.approx(one.statistic)
    assert (several.df, several.pvalue) == (one.df, pytest.approx(one.pvalue))


def test_samples_with_different_noise_have_the_right_size():
    """300 pairs of samples, mu = 0.2 and 1: Monte-Carlo standard error 0.013."""
    rng, domain = np.random.default_rng(6), Domain({"S": list("wxyz")})
    p = [0.1, 0.2, 0.3, 0.4]
    rejected = 0
    for _ in range(300):
        pair = [
            simulate_release(rng.multinomial(n, p), domain, GDP(mu), rng)
            for n, mu in ((400, 0.2), (900, 1.0))
        ]
        rejected += homogeneity_test(pair, pvalue="asymptotic").pvalue < 0.05
    assert 0.01 < rejected / 300 < 0.09


# ------------------------------------------------------------------ the paper's statistic


def test_pearson_on_the_james_stein_table_is_that_of_the_mechanism():
    from dpcontingency.release.mechanisms import RankDeficientJamesStein

    release = release_of(independent(400), 0.2, mechanism=RankDeficientJamesStein(target="mean"))
    table = release.estimate
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    x2 = ((table - expected) ** 2 / expected)[expected > 0].sum()
    result = independence_test(release, "R", "S", statistic="js-pearson", **BOOT)
    assert result.statistic == pytest.approx(x2, rel=1e-9)
    assert result.n_boot == 199
    p = np.full((3, 4), 1 / 12)
    result = goodness_of_fit_test(release, p, statistic="js-pearson", **BOOT)
    assert result.statistic == pytest.approx(((table - 400 / 12) ** 2 / (400 / 12)).sum())


def test_pearson_on_the_james_stein_table_needs_alike_noise():
    domain = Domain({"S": list("wxyz")})
    pair = [release_of([30, 20, 40, 10], mu, domain=domain) for mu in (0.5, 1.0)]
    with pytest.raises(ModelError, match="one variance"):
        homogeneity_test(pair, statistic="js-pearson")
    with pytest.raises(ModelError, match="offered for goodness of fit"):
        model_test(LogLinearModel(release_of(independent(99), 1), "[R][S]"), statistic="js-pearson")
