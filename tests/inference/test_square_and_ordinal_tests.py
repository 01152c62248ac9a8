"""Tests of symmetry, margins, trends and strata: the textbook's statistics with no noise."""

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import SquareTable, StratifiedTable

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.association_tests import cmh_test, trend_test
from dpcontingency.inference.hypothesis import independence_test, model_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.square_tests import marginal_homogeneity_test, symmetry_test
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

C7 = np.array([[30, 10], [22, 18], [12, 28]])
C31 = np.array([[31, 9, 4], [5, 22, 11], [8, 6, 27]])
DOSES = ["low", "medium", "high"]


def doses(**options):
    return Domain({"Dose": DOSES, "Cured": ["no", "yes"]}, **options)


def square(k):
    levels = list("abcdefg"[:k])
    return Domain({"Before": levels, "After": levels}, ordered=("Before", "After"))


# ------------------------------------------------------------------ trend


def test_cochran_armitage():
    # CASES C7.
    release = Release.exact(C7, doses(ordered=("Dose",)))
    trend = trend_test(release, "Dose", "Cured")
    assert trend.statistic == pytest.approx(16.27232, abs=5e-6)
    assert trend.df == 1
    overall = independence_test(release, "Dose", "Cured", statistic="score")
    assert overall.statistic == pytest.approx(16.339286, abs=5e-7)
    # The order is the domain's, and scores can be given: the wrong order is another statistic.
    wrong = Domain({"Dose": ["high", "low", "medium"], "Cured": ["no", "yes"]}, ordered=("Dose",))
    other = trend_test(Release.exact(C7[[2, 0, 1]], wrong), "Dose", "Cured")
    assert other.statistic == pytest.approx(5.02232, abs=5e-6)


def test_a_trend_that_separates_the_groups_has_one_df():
    # R: prop.trend.test(c(9, 7, 2, 0, 0), c(9, 7, 6, 8, 9)) and the deviances of binomial glms.
    # Under independence every cell can hold records; that the trend then sends some of them to 0
    # takes no df.
    counts = np.array([[9, 7, 2, 0, 0], [0, 0, 4, 8, 9]])
    domain = Domain({"A": [0, 1], "B": list(range(5))}, ordered=["B"])
    releases = [
        Release.exact(counts, domain),
        Release.from_noisy_table(counts.astype(float), domain, sigma=1e-3, n_total=counts.sum()),
    ]
    for release in releases:
        score = trend_test(release, "A", "B", pvalue="asymptotic")
        assert (score.df, score.pvalue) == (1, pytest.approx(4.336774707e-08, rel=1e-5))
        ratio = trend_test(release, "A", "B", statistic="lr", pvalue="asymptotic")
        assert (ratio.df, ratio.statistic) == (1, pytest.approx(46.19631271, rel=1e-6))


def test_strata_with_nothing_to_compare_take_no_df():
    counts = np.array([[[0, 0], [6, 9]], [[8, 5], [4, 3]]])
    domain = Domain({"A": [0, 1], "B": [0, 1], "C": [0, 1]})
    exact = cmh_test(Release.exact(counts, domain), "A", "B", "C")
    assert (exact.df, exact.statistic) == (1, pytest.approx(19.466, abs=5e-4))
    counts[:, :, 1] = [[5, 0], [7, 0]]  # all of the second stratum have one level of B
    one = cmh_test(Release.exact(counts, domain), "A", "B", "C")
    alone = independence_test(
        Release.exact(counts[:, :, 0], Domain({"A": [0, 1], "B": [0, 1]})), "A", "B"
    )
    assert (one.df, one.statistic) == (1, pytest.approx(alone.statistic, rel=1e-8))
    assert one.homogeneity.df == 0
    counts[:, :, 0] = [[3, 0], [4, 0]]
    none = cmh_test(Release.exact(counts, domain), "A", "B", "C")
    assert none.df == 0
    assert "zeros leave nothing to compare" in none.reason


def test_a_factor_without_order_has_no_trend():
    with pytest.raises(ModelError, match="Dose"):
        trend_test(Release.exact(C7, doses()), "Dose", "Cured")


@pytest.mark.parametrize("scores", [(0.0, 1.0, 2.0), (10.0, 12.0, 14.0), (0.0, 1.0, 5.0)])
def test_the_trend_statistic_is_n_times_the_squared_correlation(scores):
    release = Release.exact(
        C31,
        Domain(
            {"Before": list("abc"), "After": list("abc")},
            scores={"Before": scores, "After": (1.0, 2.0, 4.0)},
        ),
    )
    rows, columns = np.repeat([0, 1, 2], 3), np.tile([0, 1, 2], 3)
    x, y = np.array(scores)[rows], np.array([1.0, 2.0, 4.0])[columns]
    correlation = np.corrcoef(np.repeat(x, C31.ravel()), np.repeat(y, C31.ravel()))[0, 1]
    trend = trend_test(release, "Before", "After")
    assert trend.statistic == pytest.approx(C31.sum() * correlation**2, rel=1e-8)


def test_two_levels_each_need_no_order():
    release = Release.exact([[30, 10], [12, 28]], Domain({"A": ["b", "a"], "B": [1, 0]}))
    trend = trend_test(release, "A", "B")
    overall = independence_test(release, "A", "B", statistic="score")
    assert (trend.statistic, trend.df) == (pytest.approx(overall.statistic), 1)


def test_a_trend_by_other_statistics_is_near_in_large_tables():
    release = Release.exact(C7 * 200, doses(ordered=("Dose",)))
    kinds = [trend_test(release, "Dose", "Cured", statistic=s) for s in ("score", "lr", "wald")]
    values = [result.statistic for result in kinds]
    assert values == pytest.approx([values[0]] * 3, rel=0.1)
    assert [result.method for result in kinds] == ["score", "likelihood-ratio", "Wald"]


# ------------------------------------------------------------------ square tables


def test_bowker_stuart_maxwell_and_bhapkar():
    # CASES C31.
    release = Release.exact(C31, square(3))
    bowker = symmetry_test(release, "Before", "After")
    assert bowker.statistic == pytest.approx(3.946779, abs=5e-7)
    assert (bowker.df, round(bowker.pvalue, 6)) == (3, 0.267269)
    stuart = marginal_homogeneity_test(release, "Before", "After")
    assert stuart.statistic == pytest.approx(0.042623, abs=5e-7)
    assert (stuart.df, round(stuart.pvalue, 6)) == (2, 0.978914)
    bhapkar = marginal_homogeneity_test(release, "Before", "After", statistic="wald")
    assert bhapkar.statistic == pytest.approx(0.042638, abs=5e-7)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_square_tables_against_statsmodels(k):
    rng = np.random.default_rng(k)
    counts = rng.integers(3, 60, (k, k))
    release, oracle = Release.exact(counts, square(k)), SquareTable(counts, shift_zeros=False)
    bowker = oracle.symmetry()
    ours = symmetry_test(release, "Before", "After")
    assert (ours.statistic, ours.pvalue) == pytest.approx((bowker.statistic, bowker.pvalue))
    for method, statistic in (("stuart_maxwell", "score"), ("bhapkar", "wald")):
        theirs = oracle.homogeneity(method=method)
        ours = marginal_homogeneity_test(release, "Before", "After", statistic=statistic)
        assert (ours.statistic, ours.pvalue) == pytest.approx((theirs.statistic, theirs.pvalue))


def test_mcnemar_is_symmetry_of_a_two_by_two_table():
    release = Release.exact([[20, 15], [5, 30]], square(2))
    assert symmetry_test(release, "Before", "After").statistic == pytest.approx(100 / 20)
    lr = symmetry_test(release, "Before", "After", statistic="lr").statistic
    assert lr == pytest.approx(2 * (15 * np.log(15 / 10) + 5 * np.log(5 / 10)))


def test_square_tests_refuse_other_tables():
    release = Release.exact(C7, doses())
    for test in (symmetry_test, marginal_homogeneity_test):
        with pytest.raises(ModelError, match="different levels"):
            test(release, "Dose", "Cured")
        with pytest.raises(ModelError, match="Two factors"):
            test(release, "Dose", "Dose")


def test_a_diagonal_table_has_nothing_to_test():
    release = Release.exact(np.diag([4, 5, 6]), square(3))
    result = marginal_homogeneity_test(release, "Before", "After")
    assert np.isnan(result.pvalue)
    assert "off the diagonal" in result.reason
    assert np.isnan(symmetry_test(release, "Before", "After").pvalue)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_size_with_noise(neighbours):
    """200 releases of a symmetric 3 x 3 table, mu = 0.3: Monte-Carlo standard error 0.015."""
    rng = np.random.default_rng(31)
    p = np.array([[0.2, 0.08, 0.05], [0.08, 0.22, 0.06], [0.05, 0.06, 0.2]]).ravel()
    pvalues = []
    for _ in range(200):
        counts = rng.multinomial(2000, p).reshape(3, 3)
        release = simulate_release(counts, square(3), GDP(0.3), rng, neighbours=neighbours)
        pvalues.append(
            [
                symmetry_test(release, "Before", "After", pvalue="asymptotic").pvalue,
                marginal_homogeneity_test(release, "Before", "After").pvalue,
                marginal_homogeneity_test(release, "Before", "After", statistic="wald").pvalue,
            ]
        )
    rejected = (np.array(pvalues) < 0.05).mean(axis=0)
    assert (rejected > 0.005).all()
    assert (rejected < 0.1).all()


# ------------------------------------------------------------------ across strata


def strata(shape=(2, 2, 4), seed=2):
    rng = np.random.default_rng(seed)
    counts = rng.integers(8, 60, shape)
    levels = {name: list(range(n)) for name, n in zip("ABK", shape, strict=True)}
    return counts, Domain(levels)


def test_cochran_mantel_haenszel_of_two_by_two_tables():
    counts, domain = strata()
    result = cmh_test(Release.exact(counts, domain), "A", "B", "K", statistic="score")
    n = counts.sum(axis=(0, 1))
    row, column = counts.sum(axis=1)[0], counts.sum(axis=0)[0]
    variance = row * (n - row) * column * (n - column) / n**3  # Cochran: n^3, not n^2 (n - 1)
    gap = (counts[0, 0] - row * column / n).sum()
    assert result.statistic == pytest.approx(gap**2 / variance.sum(), rel=1e-8)
    assert result.df == 1
    oracle = StratifiedTable(counts.astype(float))
    assert result.statistic == pytest.approx(oracle.test_null_odds().statistic, rel=0.02)
    assert result.common_odds_ratio.estimate == pytest.approx(oracle.oddsratio_pooled, rel=0.05)
    model = LogLinearModel(Release.exact(counts, domain), "[AK][BK][AB]")
    assert result.homogeneity.statistic == pytest.approx(model.fit().deviance)
    assert result.homogeneity.df == 3
    for text in ("odds ratio", "[A B][A K][B K]", "Cochran-Mantel-Haenszel"):
        assert text in result.summary()


def test_cmh_of_larger_tables_has_more_df_and_no_single_odds_ratio():
    counts, domain = strata((3, 4, 2))
    release = Release.exact(counts, domain)
    result = cmh_test(release, "A", "B", "K")
    assert result.df == 6
    assert result.common_odds_ratio is None
    null = LogLinearModel(release, "[AK][BK]").fit().deviance
    shared = LogLinearModel(release, "[AK][BK][AB]").fit().deviance
    assert result.statistic == pytest.approx(null - shared)
    assert model_test(LogLinearModel(release, "[AK][BK]")).df == 12


def test_cmh_needs_strata():
    counts, domain = strata()
    with pytest.raises(ModelError, match="strata"):
        cmh_test(Release.exact(counts, domain), "A", "B", ())
    with pytest.raises(ModelError, match="named once"):
        cmh_test(Release.exact(counts, domain), "A", "B", "B")


@pytest.mark.parametrize("statistic", ["score", "wald"])
def test_margins_of_nobody_are_not_compared(statistic):
    noisy = [[3.0, -2.0, 5.0], [4.0, -10.0, 0.0], [-3.0, 2.0, 1.0]]
    domain = Domain({"A": [1, 2, 3], "B": [1, 2, 3]})
    release = Release.from_noisy_table(noisy, domain, sigma=10.0, n_total=0)
    test = marginal_homogeneity_test(release, "A", "B", statistic=statistic)
    assert np.isnan(test.pvalue)
    assert test.reason == "there are no records"
