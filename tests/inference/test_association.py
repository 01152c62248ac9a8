"""Measures of association: classical values and errors with no noise, honest intervals with it."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import contingency
from statsmodels.stats.contingency_tables import StratifiedTable, Table2x2

import dpcontingency as dpc
from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.saturated import SaturatedTable, TwoFactors
from dpcontingency.inference.strength import Contingency, _interaction
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

REFERENCE = pd.read_csv(Path(__file__).parent / "reference" / "measures.csv")
RISKS = pd.read_csv(Path(__file__).parent / "reference" / "risks.csv")

DOSE = [[30, 10], [22, 18], [12, 28]]
SPARSE = [[10, 3, 1], [4, 8, 0], [0, 2, 9]]

SIGNED = ("phi", "gamma", "tau_b", "somers_column", "risk_difference")
RATIOS = ("odds_ratio", "relative_risk")
ALL = {
    "phi": dpc.phi,
    "cramers_v": dpc.cramers_v,
    "contingency": dpc.contingency_coefficient,
    "uncertainty_symmetric": dpc.uncertainty_coefficient,
    "gamma": dpc.gamma,
    "tau_b": dpc.kendall_tau_b,
    "somers_column": dpc.somers_d,
    "odds_ratio": dpc.odds_ratio,
    "relative_risk": dpc.relative_risk,
    "risk_difference": dpc.risk_difference,
}
ORDINAL = ("gamma", "tau_b", "somers_column")


def domain_of(shape):
    names = "RSG"[: len(shape)]
    return Domain(
        {name: list(range(k)) for name, k in zip(names, shape, strict=True)}, ordered=tuple(names)
    )


def exact(counts):
    counts = np.asarray(counts)
    return Release.exact(counts, domain_of(counts.shape))


def noisy(values, sigma, **kwargs):
    values = np.asarray(values)
    return Release.from_noisy_table(values, domain_of(values.shape), sigma=sigma, **kwargs)


def holds(estimate):
    lower, upper = estimate.interval
    return lower <= estimate.estimate <= upper


# ------------------------------------------------------------------ no noise: the classical values


@pytest.fixture(scope="module")
def table(load_table):
    counts, _ = load_table("mental_impairment")
    return {"dose": exact(DOSE), "sparse": exact(SPARSE), "mental_impairment": exact(counts)}


@pytest.mark.parametrize(
    "row", list(REFERENCE[:-1].itertuples()), ids=lambda r: f"{r.data}-{r.measure}"
)
def test_r_with_no_noise(row, table):
    if row.measure == "uncertainty_column":
        found = dpc.uncertainty_coefficient(table[row.data], "R", "S", dependent="column")
    else:
        found = ALL[row.measure](table[row.data], "R", "S")
    assert found.estimate == pytest.approx(row.estimate, rel=1e-9)
    if not math.isnan(row.se):
        assert found.se == pytest.approx(row.se, rel=1e-8)
    assert holds(found)
    assert found.accounts_for == ("sampling",)


@pytest.mark.parametrize("counts", [[[18, 32], [33, 17]], [[50, 70], [60, 35]], [[7, 2], [1, 9]]])
def test_scipy_and_statsmodels_with_no_noise(counts):
    release, table = exact(counts), Table2x2(np.asarray(counts, float), shift_zeros=False)
    ratio = dpc.odds_ratio(release, "R", "S")
    assert ratio.estimate == pytest.approx(contingency.odds_ratio(counts, kind="sample").statistic)
    assert ratio.link_se == pytest.approx(table.log_oddsratio_se, rel=1e-9)
    assert ratio.interval == pytest.approx(table.oddsratio_confint(), rel=1e-9)
    assert ratio.se == pytest.approx(ratio.estimate * ratio.link_se)
    risk = dpc.relative_risk(release, "R", "S")
    (a, b), (c, d) = counts
    oracle = contingency.relative_risk(a, a + b, c, c + d)
    assert risk.estimate == pytest.approx(oracle.relative_risk)
    assert risk.link_se == pytest.approx(table.log_riskratio_se, rel=1e-9)
    difference = dpc.risk_difference(release, "R", "S")
    p, q = a / (a + b), c / (c + d)
    assert difference.estimate == pytest.approx(p - q)
    assert difference.se == pytest.approx(
        math.sqrt(p * (1 - p) / (a + b) + q * (1 - q) / (c + d)), rel=1e-9
    )


@pytest.mark.parametrize("row", list(RISKS.itertuples()), ids=lambda r: f"{r.data}-{r.measure}")
def test_intervals_of_risks_with_no_noise_are_by_profile_likelihood(row):
    found = ALL[row.measure](exact([[row.a, row.b], [row.c, row.d]]), "R", "S")
    assert found.interval == pytest.approx((row.lower, row.upper), rel=1e-5)
    assert found.link == "likelihood"


def test_expanded_data_with_no_noise(load_table):
    counts, _ = load_table("mental_impairment")
    x, y = (np.repeat(axis.ravel(), counts.ravel()) for axis in np.indices(counts.shape))
    release = exact(counts)
    assert dpc.kendall_tau_b(release, "R", "S").estimate == pytest.approx(
        stats.kendalltau(x, y).statistic, rel=1e-9
    )
    assert dpc.somers_d(release, "R", "S").estimate == pytest.approx(
        stats.somersd(counts).statistic, rel=1e-9
    )
    assert dpc.somers_d(release, "R", "S", dependent="row").estimate == pytest.approx(
        stats.somersd(counts.T).statistic, rel=1e-9
    )
    for method, measure in (("cramer", dpc.cramers_v), ("pearson", dpc.contingency_coefficient)):
        oracle = contingency.association(counts, method=method, correction=False)
        assert measure(release, "R", "S").estimate == pytest.approx(oracle, rel=1e-9)


@pytest.mark.parametrize(
    ("counts", "v", "interval"),
    [
        ([[50, 70], [60, 35]], 0.213512, (0.079834, 0.347181)),
        ([[50, 50], [49, 51]], 0.010001, (0, 0.123038)),
        (DOSE, 0.369000, (0.173670, 0.538558)),
    ],
)
def test_v_and_its_interval(counts, v, interval):
    # CASES C30.
    for values in (np.asarray(counts), np.asarray(counts).T):
        found = dpc.cramers_v(exact(values), "R", "S")
        assert found.estimate == pytest.approx(v, abs=6e-7)
        assert found.interval == pytest.approx(interval, abs=6e-7)
        assert holds(found)


@pytest.mark.parametrize("counts", [[[50, 50], [49, 51]], [[50, 70], [60, 35]]])
@pytest.mark.parametrize("dependent", ["row", "symmetric"])
def test_the_uncertainty_coefficient_goes_to_0_with_v(counts, dependent):
    # Near independence 2 H U = V^2, and so are the ends; H is log 2 but for a per mille or two.
    p = np.sum(counts, axis=1) / np.sum(counts), np.sum(counts, axis=0) / np.sum(counts)
    h = [-(q * np.log(q)).sum() for q in p]
    h = h[0] if dependent == "row" else np.mean(h)
    u = dpc.uncertainty_coefficient(exact(counts), "R", "S", dependent=dependent)
    v = dpc.cramers_v(exact(counts), "R", "S")
    assert np.sqrt(2 * h * np.array(u.interval)) == pytest.approx(v.interval, rel=0.02)
    assert (u.interval[0] == 0) == (counts[0] == [50, 50])
    assert holds(u)


def test_the_uncertainty_coefficient_far_from_independence_is_by_the_delta_method():
    # On the scale of its root; the chi-square law keeps it from being narrower than it says.
    def over_delta(counts):
        u = dpc.uncertainty_coefficient(exact(counts), "R", "S")
        root = math.sqrt(u.estimate)
        return (np.sqrt(u.interval) - root) / (stats.norm.isf(0.025) * u.se / (2 * root))

    assert over_delta([[3000, 10], [10, 20]]) == pytest.approx([-1, 1], rel=1e-6)
    assert over_delta([[3000, 30], [40, 300]]) == pytest.approx([-1.14236, 1.14236], rel=1e-4)


def test_the_uncertainty_coefficient_of_independence_itself_is_0():
    u = dpc.uncertainty_coefficient(exact([[10, 20], [10, 20]]), "R", "S")
    assert (u.estimate, u.interval) == (0.0, (0.0, 0.0))
    assert any("too good" in note for note in u.notes)


def test_an_interval_that_ends_at_the_largest_value_is_not_called_too_good():
    perfect, even = exact([[50, 0], [0, 50]]), exact([[25, 25], [25, 25]])
    for measure in (dpc.cramers_v, dpc.contingency_coefficient):
        found = measure(perfect, "R", "S")
        assert found.interval[1] == found.estimate
        assert not any("too good" in note for note in found.notes)
        assert any("too good" in note for note in measure(even, "R", "S").notes)


def test_v_has_a_bias_corrected_variant_below_it():
    corrected = dpc.cramers_v(exact([[50, 70], [60, 35]]), "R", "S", bias_corrected=True)
    assert corrected.estimate == pytest.approx(0.202748, abs=6e-7)  # CASES C30
    assert holds(corrected)
    assert dpc.cramers_v(exact([[50, 50], [49, 51]]), "R", "S", bias_corrected=True).estimate == 0


def test_no_yates_correction_in_v():
    assert dpc.cramers_v(exact([[18, 32], [33, 17]]), "R", "S").estimate == pytest.approx(
        0.300060, abs=6e-7
    )  # CASES C29


@pytest.mark.parametrize("counts", [[[18, 32], [33, 17]], DOSE, SPARSE])
def test_the_error_of_v_is_that_of_differences(counts):
    # The multinomial delta method with a numerical gradient.
    p = np.asarray(counts, float) / np.sum(counts)

    def v(cells):
        cells = cells.reshape(p.shape)
        e = np.outer(cells.sum(1), cells.sum(0)) / cells.sum()
        return math.sqrt(((cells - e) ** 2 / e).sum() / cells.sum() / (min(p.shape) - 1))

    steps = np.eye(p.size) * 1e-6
    slope = np.array([(v(p.ravel() + h) - v(p.ravel() - h)) / 2e-6 for h in steps])
    covariance = (np.diag(p.ravel()) - np.outer(p, p)) / np.sum(counts)
    found = dpc.cramers_v(exact(counts), "R", "S")
    assert found.se == pytest.approx(math.sqrt(slope @ covariance @ slope), rel=1e-5)
    if p.shape == (2, 2):
        assert found.se == pytest.approx(dpc.phi(exact(counts), "R", "S").se, rel=1e-6)


# ------------------------------------------------------------------ conditional measures


@pytest.fixture(scope="module")
def ucb(load_table):
    counts, domain = load_table("ucb_admissions")
    return counts, domain


def test_the_common_odds_ratio_is_that_of_the_model(ucb):
    counts, domain = ucb
    release = Release.exact(counts, domain)
    found = dpc.odds_ratio(release, "Gender", "Admit", given=["Dept"])
    expected = REFERENCE.iloc[-1]
    assert math.log(found.estimate) == pytest.approx(expected["estimate"], abs=1e-9)
    assert found.link_se == pytest.approx(expected["se"], rel=1e-6)
    # Mantel and Haenszel's estimator of the same thing.
    strata = [counts[..., k].T for k in range(6)]
    assert found.estimate == pytest.approx(StratifiedTable(strata).oddsratio_pooled, rel=2e-3)
    # And what a fit says of itself, with noise too.
    made = simulate_release(counts, domain, GDP(0.3), np.random.default_rng(2))
    fit = LogLinearModel(made, "[Admit Gender][Admit Dept][Gender Dept]").fit()
    said = fit.odds_ratios("Gender", "Admit").iloc[0]
    found = dpc.odds_ratio(made, "Gender", "Admit", given="Dept")
    assert [found.estimate, found.link_se, *found.interval] == pytest.approx(
        [said["odds_ratio"], said["se"], said["lower"], said["upper"]], rel=1e-9
    )


def test_conditional_measures_in_closed_form(ucb):
    counts, domain = ucb
    release = Release.exact(counts, domain)
    strata = counts.transpose(2, 1, 0).astype(float)  # Dept, Gender, Admit
    share = strata.sum(axis=(1, 2)) / strata.sum()
    risk = strata[..., 0] / strata.sum(axis=2)
    options = {"given": ["Dept"]}
    men, women = share @ risk[:, 0], share @ risk[:, 1]
    assert dpc.risk_difference(release, "Gender", "Admit", **options).estimate == pytest.approx(
        men - women
    )
    assert dpc.relative_risk(release, "Gender", "Admit", **options).estimate == pytest.approx(
        men / women
    )
    # Partial gamma counts pairs inside strata; in a 2 x 2 table they are products of diagonals.
    good = (strata[:, 0, 0] * strata[:, 1, 1]).sum()
    bad = (strata[:, 0, 1] * strata[:, 1, 0]).sum()
    assert dpc.gamma(release, "Gender", "Admit", **options).estimate == pytest.approx(
        (good - bad) / (good + bad)
    )
    chi = [stats.chi2_contingency(s, correction=False).statistic for s in strata]
    assert dpc.cramers_v(release, "Gender", "Admit", **options).estimate == pytest.approx(
        math.sqrt(sum(chi) / strata.sum())
    )

    def entropy(p, *kept):
        p = p.sum(axis=tuple(set(range(3)) - set(kept))).ravel() / p.sum()
        return -(p[p > 0] * np.log(p[p > 0])).sum()

    dept, both = entropy(strata, 0), entropy(strata, 0, 1, 2)
    gender, admit = entropy(strata, 0, 1) - dept, entropy(strata, 0, 2) - dept
    assert dpc.uncertainty_coefficient(
        release, "Gender", "Admit", dependent="column", **options
    ).estimate == pytest.approx((gender + admit - (both - dept)) / admit)


def test_conditional_phi_is_the_partial_correlation(ucb):
    counts, domain = ucb
    admit, gender, dept = (np.repeat(a.ravel(), counts.ravel()) for a in np.indices(counts.shape))
    dummies = np.eye(6)[dept]
    left = [v - dummies @ np.linalg.lstsq(dummies, v, rcond=None)[0] for v in (admit, gender)]
    found = dpc.phi(Release.exact(counts, domain), "Gender", "Admit", given=["Dept"])
    assert found.estimate == pytest.approx(np.corrcoef(*left)[0, 1], rel=1e-9)


def test_a_condition_of_one_level_changes_nothing():
    counts = np.array([[18, 32], [33, 17]])
    domain = Domain({"R": [0, 1], "S": [0, 1], "G": ["all"]}, ordered=["R", "S"])
    for measure in ALL.values():
        plain = measure(exact(counts), "R", "S")
        given = measure(Release.exact(counts[..., None], domain), "R", "S", given=["G"])
        assert given.estimate == pytest.approx(plain.estimate, rel=1e-8)
        assert given.interval == pytest.approx(plain.interval, rel=1e-6)


# ------------------------------------------------------------------ laws


NOISY = [[141.3, 88.2, 31.4], [77.9, 95.1, 60.2], [30.3, 71.6, 104.8]]


@pytest.mark.parametrize("name", ["cramers_v", "contingency", "uncertainty_symmetric", *ORDINAL])
def test_relabelling(name):
    release = noisy(NOISY, 8.0, n_total=701)
    there = noisy(np.asarray(NOISY)[::-1], 8.0, n_total=701)
    one, other = (ALL[name](source, "R", "S") for source in (release, there))
    sign = -1 if name in ORDINAL else 1
    assert other.estimate == pytest.approx(sign * one.estimate, rel=1e-6)
    assert other.se == pytest.approx(one.se, rel=1e-5)
    lower, upper = sorted(sign * end for end in other.interval)
    assert (lower, upper) == pytest.approx(one.interval, rel=1e-5)
    if name != "somers_column":
        swapped = ALL[name](release, "S", "R")
        assert swapped.estimate == pytest.approx(one.estimate, rel=1e-6)


@pytest.mark.parametrize("values", [[[91.5, 38.0], [47.7, 55.2]], [[318.0, 232.0], [8.0, -5.0]]])
def test_the_rows_of_a_risk_can_change_places(values):
    one, other = (noisy(v, 14.0, n_total=round(np.sum(v))) for v in (values, values[::-1]))
    difference, back = (dpc.risk_difference(release, "R", "S") for release in (one, other))
    assert sorted(-end for end in back.interval) == pytest.approx(difference.interval, abs=1e-5)
    ratio, back = (dpc.relative_risk(release, "R", "S") for release in (one, other))
    assert sorted(1 / end if end else math.inf for end in back.interval) == pytest.approx(
        ratio.interval, rel=1e-4
    )
    assert dpc.risk_difference(one, "R", "S", row_levels=(1, 0)).interval == pytest.approx(
        dpc.risk_difference(other, "R", "S").interval, abs=1e-5
    )


def test_odds_ratios_of_any_levels_and_their_inverses():
    release = noisy(NOISY, 8.0, n_total=701)
    options = {"row_levels": (0, 2), "column_levels": (1, 2)}
    one = dpc.odds_ratio(release, "R", "S", **options)
    inverse = dpc.odds_ratio(release, "R", "S", row_levels=(2, 0), column_levels=(1, 2))
    assert inverse.estimate == pytest.approx(1 / one.estimate)
    assert inverse.interval == pytest.approx((1 / one.interval[1], 1 / one.interval[0]))
    assert "R = 0 rather than 2, for S = 1 relative to 2" in one.of
    profile = dpc.odds_ratio(release, "R", "S", method="profile", **options)
    assert profile.estimate == one.estimate
    assert np.log(profile.interval) == pytest.approx(np.log(one.interval), abs=0.2)


@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize("sigma", [1.0, 15.0, 60.0])
def test_an_interval_holds_its_estimate_and_stays_in_range(name, sigma):
    rng = np.random.default_rng(7)
    signed = name not in ("cramers_v", "contingency", "uncertainty_symmetric")
    ratio = name in ("odds_ratio", "relative_risk")
    low, high = (0, math.inf) if ratio else (-1 if signed else 0, 1)
    for _ in range(4):
        values = rng.multinomial(300, [0.3, 0.2, 0.1, 0.4]).reshape(2, 2)
        release = noisy(values + sigma * rng.standard_normal((2, 2)), sigma, n_total=300)
        found = ALL[name](release, "R", "S")
        assert math.isnan(found.estimate) == bool(found.reason)
        if not found.reason:
            assert holds(found)
            assert low <= found.interval[0] < found.interval[1] <= high
            assert found.accounts_for == ("sampling", "noise")


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("strata", [(), ("R",)])
def test_noise_widens_and_vanishes(neighbours, strata):
    if strata and neighbours == "add-remove":
        return
    counts = np.array([[210, 90, 60], [140, 160, 120]])
    domain = Domain({"R": [0, 1], "S": [0, 1, 2]}, ordered=["R", "S"])
    widths = []
    for mu in (0.1, 1000.0):
        release = simulate_release(
            counts, domain, GDP(mu), np.random.default_rng(5), neighbours=neighbours, strata=strata
        )
        found = dpc.gamma(release, "R", "S")
        widths.append(found.se)
    classical = dpc.gamma(Release.exact(counts, domain), "R", "S")
    assert widths[0] > 1.3 * widths[1]
    if not strata:
        assert widths[1] == pytest.approx(classical.se, rel=1e-3)


# ------------------------------------------------------------------ edges


@pytest.mark.parametrize(
    ("counts", "ratio"), [([[41, 0], [190, 377]], math.inf), ([[14, 23], [31, 0]], 0.0)]
)
def test_an_odds_ratio_at_infinity_has_one_end(counts, ratio):
    # CASES C5 and C32: nothing is added to cells.
    found = dpc.odds_ratio(exact(counts), "R", "S")
    assert found.estimate == ratio
    assert math.isnan(found.se)
    finite = found.interval[0] if ratio else 1 / found.interval[1]
    assert 1 < finite < math.inf
    assert ratio in found.interval
    # Yule's Q is a function of the odds ratio: two ways to one contour.
    q = dpc.gamma(exact(counts), "R", "S")
    ends = [(end - 1) / (end + 1) if end < math.inf else 1.0 for end in found.interval]
    assert q.interval == pytest.approx(ends, abs=2e-4)


def test_an_infinite_relative_risk_by_a_search_of_its_own():
    # The likelihood ratio of p = (a/x, 0) against risks with p1 = t p2, by brute force.
    counts = np.array([[6, 14], [0, 25]])
    found = dpc.relative_risk(exact(counts), "R", "S")
    assert found.estimate == math.inf
    assert found.interval[1] == math.inf

    def fall(ratio):
        q = np.linspace(1e-6, min(1 / ratio, 1) - 1e-9, 200001)
        p = ratio * q
        ll = 6 * np.log(p) + 14 * np.log1p(-p) + 25 * np.log1p(-q)
        top = 6 * np.log(0.3) + 14 * np.log(0.7)
        return 2 * (top - ll.max())

    assert fall(found.interval[0]) == pytest.approx(stats.chi2.isf(0.05, 1), abs=0.01)


def test_the_ends_of_a_noisy_risk_difference_by_a_search_of_its_own():
    # The largest likelihood among tables with that difference, in a grid over the rest.
    release = noisy([[61.0, 46.0], [9.0, 16.0]], 8.0, n_total=132)
    about = TwoFactors.of(release, "R", "S", (), 0.05)
    table = SaturatedTable.fit(about)
    for end in dpc.risk_difference(release, "R", "S").interval:

        def loss(at, end=end):
            share, where = expit(at)
            q = max(0.0, -end) + where * (1 - abs(end))
            p = np.array([share * (q + end), share * (1 - q - end)])
            p = np.array([*p, (1 - share) * q, (1 - share) * (1 - q)])
            return -table.likelihood.at(np.log(np.maximum(p, 1e-300))).loglik

        best = -minimize(loss, [1.5, 0.0], method="Nelder-Mead", options={"xatol": 1e-6}).fun
        assert 2 * (table.top - best) == pytest.approx(stats.chi2.isf(0.05, 1), abs=1e-3)


def test_a_row_that_noise_has_nearly_eaten_says_nothing_of_its_risk():
    release = noisy([[318.0, 232.0], [8.0, -5.0]], 14.0, n_total=553)
    difference = dpc.risk_difference(release, "R", "S")
    assert difference.interval[0] < 0
    assert difference.interval[1] > 0.4
    ratio = dpc.relative_risk(release, "R", "S")
    assert ratio.interval[0] < 1
    assert ratio.interval[1] > 10
    phi = dpc.phi(release, "R", "S")
    assert phi.interval[0] < 0 < phi.interval[1] < 0.3  # few records can move it


def test_a_large_table_has_a_normal_interval():
    # Beyond 100 cells the search would take long.
    counts = np.random.default_rng(4).poisson(20, (11, 10))
    found = dpc.risk_difference(exact(counts), "R", "S", row_levels=(0, 1), event=0)
    assert found.link == "Fisher z"
    assert holds(found)


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_negative_cell_is_accepted(name):
    # CASES C42.
    found = ALL[name](noisy([[120.4, -3.1], [88.2, 95.7]], 2.0, n_total=301), "R", "S")
    assert holds(found)
    assert found.interval[0] < found.interval[1]


@pytest.mark.parametrize("name", sorted(ALL))
def test_one_level_is_a_reason_and_no_nan_unexplained(name):
    # CASES C9.
    found = ALL[name](exact([[4], [9]]), "R", "S")
    assert math.isnan(found.estimate)
    assert "single level" in found.reason
    assert "undefined, because S has a single level" in repr(found)
    assert "Undefined:" in found.summary()
    assert np.isnan(found.interval).all()


@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize("counts", [[[5, 5], [0, 0]], [[5, 0], [0, 0]], [[0, 0], [0, 0]]])
def test_records_in_one_level_are_a_reason(name, counts):
    found = ALL[name](exact(counts), "R", "S")
    assert math.isnan(found.estimate)
    assert found.reason
    most = math.sqrt(0.5) if name == "contingency" else math.inf if name in RATIOS else 1.0
    assert found.interval == pytest.approx((-1.0 if name in SIGNED else 0.0, most))
    assert "left open (" in repr(found)
    assert "because" in repr(found)
    assert found.reason in found.summary()


@pytest.mark.parametrize("name", sorted(ALL))
def test_an_impossible_level_leaves_nothing_to_estimate(name):
    domain = Domain({"R": ["a", "b"], "S": ["u", "v"]}, structural_zeros=[{"R": "b"}])
    found = ALL[name](Release.exact([[5, 5], [0, 0]], domain), "R", "S")
    assert "undefined, because R has a single level that is possible" in repr(found)
    assert np.isnan([found.estimate, *found.interval]).all()


def test_an_odds_ratio_of_which_nothing_is_known_may_be_anything():
    """CASES D13: n = 300 in 2x2x2 cells under noise of standard deviation 500."""
    rng = np.random.default_rng(13)
    domain = Domain({name: ["a", "b"] for name in "ABC"})
    open_ = 0
    for _ in range(10):
        counts = rng.multinomial(300, np.full(8, 1 / 8)).reshape(2, 2, 2)
        values = counts + rng.normal(0, 500, (2, 2, 2))
        release = Release.from_noisy_table(values, domain, sigma=500.0, n_total=300)
        for pair in ("AB", "AC", "BC"):
            found = dpc.odds_ratio(release, *pair)
            assert not np.isnan(found.interval).any()
            if math.isnan(found.estimate):
                assert found.reason
                assert found.interval == (0, math.inf)
                open_ += 1
    assert open_ > 10


def test_an_empty_level_is_left_out():
    # CASES C1: the level nobody has counts neither in X2 nor in the smaller number of levels.
    found = dpc.cramers_v(exact([[12, 0, 7], [9, 0, 14]]), "R", "S")
    assert found.estimate == pytest.approx(math.sqrt(2.402746 / 42), abs=1e-6)


def test_order_must_be_declared():
    # CASES C7.
    domain = Domain({"dose": ["low", "medium", "high"], "ill": ["no", "yes"]})
    release = Release.exact(DOSE, domain)
    for measure in (dpc.gamma, dpc.kendall_tau_b, dpc.somers_d):
        with pytest.raises(ModelError, match=r"ordered=\['dose'\]"):
            measure(release, "dose", "ill")
    scored = Domain(domain.levels, scores={"dose": [3, 2, 1]})
    found = dpc.gamma(Release.exact(DOSE, scored), "dose", "ill")
    assert found.estimate == pytest.approx(-0.564263322884)  # down the declared scores
    tied = Domain(domain.levels, scores={"dose": [1, 1, 2]})
    merged = exact([[52, 28], [12, 28]])
    assert dpc.gamma(Release.exact(DOSE, tied), "dose", "ill").estimate == pytest.approx(
        dpc.gamma(merged, "R", "S").estimate
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda r: dpc.odds_ratio(r, "R", "R"), "named once"),
        (lambda r: dpc.odds_ratio(r, "R", "S"), "3 levels: name the two to compare by row_levels="),
        (lambda r: dpc.odds_ratio(r, "R", "S", row_levels=(0,), column_levels=(0, 1)), "a pair"),
        (lambda r: dpc.odds_ratio(r, "R", "S", row_levels=(0, 0)), "two levels"),
        (lambda r: dpc.odds_ratio(r, "R", "S", method="exact"), "'wald' or 'profile'"),
        (lambda r: dpc.relative_risk(r, "R", "S", row_levels=(0, 1)), "which is the event"),
        (lambda r: dpc.phi(r, "R", "S"), "use cramers_v"),
        (lambda r: dpc.gamma(r, "R", "S", alpha=5), "between 0 and 1"),
        (lambda r: dpc.cramers_v(r, "R", "S", alpha="x"), "between 0 and 1; got 'x'"),
        (lambda r: dpc.odds_ratio(r, "R", "S", alpha=None), "between 0 and 1; got None"),
        (lambda r: dpc.phi(r, "R", "S", alpha=[0.1]), "between 0 and 1; got"),
        (lambda r: dpc.somers_d(r, "R", "S", dependent="symmetric"), "'row', 'column'"),
        (lambda r: dpc.cramers_v(r.noisy, "R", "S"), "from a Release"),
    ],
)
def test_misuse_says_what_to_do(call, said):
    with pytest.raises(ModelError, match=said):
        call(exact(NOISY))


def test_a_public_margin_is_no_estimate():
    counts = np.arange(8).reshape(2, 2, 2) + 5
    release = simulate_release(
        counts, domain_of(counts.shape), GDP(1), np.random.default_rng(1), strata=["R", "S"]
    )
    with pytest.raises(ModelError, match="is public"):
        dpc.cramers_v(release, "R", "S")


def test_structural_zeros_leave_no_v():
    domain = Domain({"R": [0, 1], "S": [0, 1, 2]}, structural_zeros=[{"R": 0, "S": 2}])
    found = dpc.cramers_v(Release.exact([[5, 6, 0], [3, 4, 5]], domain), "R", "S")
    assert "structural zeros" in found.reason


# ------------------------------------------------------------------ parts, against the plain way


def test_what_noise_adds_to_chi_square():
    # The trace of D_e^-1 A N A' with A by differences and N dense.
    release = simulate_release(
        np.array(NOISY).astype(int), domain_of((3, 3)), GDP(0.2), np.random.default_rng(3)
    )
    about = TwoFactors.of(release, "R", "S", (), 0.05)
    of = Contingency.of(about)
    y = release.noisy
    e = np.outer(y.sum(1), y.sum(0)) / y.sum()

    def shift(cells):
        cells = cells.reshape(3, 3)
        return (cells - np.outer(cells.sum(1), cells.sum(0)) / cells.sum()).ravel()

    a = np.array([(shift(e.ravel() + h) - shift(e.ravel() - h)) / 2e-4 for h in 1e-4 * np.eye(9)]).T
    plain = np.trace(np.diag(1 / e.ravel()) @ a @ release.noise.covariance() @ a.T)
    assert of.due_to_noise == pytest.approx(plain, rel=1e-4)
    assert of.chi_square == pytest.approx(((y - e) ** 2 / e).sum(), rel=1e-3)
    z = np.random.default_rng(1).standard_normal((3, 3))
    assert _interaction(e, z).ravel() == pytest.approx(a @ z.ravel(), abs=1e-5)


def test_the_covariance_of_the_table_is_that_of_the_fit():
    release = noisy(NOISY, 8.0, n_total=701)
    table = SaturatedTable.fit(TwoFactors.of(release, "R", "S", (), 0.05))
    fit = LogLinearModel(release, "[R S]").fit()
    assert table.means.ravel() == pytest.approx(fit.fittedvalues.to_numpy(), rel=1e-5)
    se = fit.get_prediction("mean").se.to_numpy()
    assert np.sqrt(np.diag(table.covariance)) == pytest.approx(se, rel=1e-4)


# ------------------------------------------------------------------ simulation


def test_v_is_covered_where_noise_rules():
    # 100 releases, MC se of a coverage of 0.95: 0.022. The noise more than doubles X2.
    p = np.multiply.outer([0.2, 0.3, 0.5], [0.2, 0.3, 0.5])
    p = p * np.exp(0.2 * np.multiply.outer([-1, 0, 1], [-1, 0, 1]))
    p /= p.sum()
    domain, n = domain_of(p.shape), 500
    square = dpc.cramers_v(Release.exact(1e9 * p, domain), "R", "S").estimate ** 2 * 2
    rng = np.random.default_rng(11)
    inside, naive, found = 0, 0, []
    for _ in range(100):
        counts = rng.multinomial(n, p.ravel()).reshape(p.shape)
        release = simulate_release(counts, domain, GDP(0.1), rng)
        lifted = Release.exact(np.maximum(release.noisy, 0.5), domain)
        aware, ignored = (
            Contingency.of(TwoFactors.of(r, "R", "S", (), 0.05)) for r in (release, lifted)
        )
        inside += aware.interval(0.05)[0] <= square <= aware.interval(0.05)[1]
        naive += ignored.interval(0.05)[0] <= square <= ignored.interval(0.05)[1]
        found.append((aware.chi_square - aware.due_to_noise, aware.due_to_noise))
    assert inside / 100 >= 0.88
    assert naive / 100 < 0.7
    # X2 less what the noise adds has the mean of an X2 of counts: n V^2 (k - 1) + df.
    left, added = np.mean(found, axis=0)
    error = np.std([row[0] for row in found]) / 10
    assert added > 4
    assert left == pytest.approx(n * square + 4, abs=4 * error)


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_the_uncertainty_coefficient_is_covered_near_independence(slope):
    # 50 releases, MC se of a coverage of 0.95: 0.031. On the logit scale it was 0 at independence.
    p = np.multiply.outer([0.2, 0.3, 0.5], [0.1, 0.2, 0.3, 0.4])
    p = p * np.exp(slope * np.multiply.outer([-1, 0, 1], [-1.5, -0.5, 0.5, 1.5]))
    p /= p.sum()
    domain = domain_of(p.shape)
    truth = dpc.uncertainty_coefficient(Release.exact(1e9 * p, domain), "R", "S").estimate
    truth = truth if slope else 0.0
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(50):
        counts = rng.multinomial(400, p.ravel()).reshape(p.shape)
        found = dpc.uncertainty_coefficient(
            simulate_release(counts, domain, GDP(0.3), rng), "R", "S"
        )
        assert holds(found)
        inside += found.interval[0] <= truth <= found.interval[1]
    assert inside / 50 >= 0.86


def test_what_an_estimate_says():
    found = dpc.odds_ratio(exact([[18, 32], [33, 17]]), "R", "S")
    assert repr(found) == (
        "<odds ratio of R = 0 rather than 1, for S = 0 relative to 1: 0.2898 (se 0.122), "
        "95 % interval 0.1274 to 0.6593; accounts for sampling>"
    )
    assert f"Std. error:   {found.se:.4g}" in found.summary()
    assert any("NOT PRIVATE" in note.upper() for note in found.notes)
    assert "\n" not in repr(found)


# ------------------------------------------------------------------ rare levels


def rare_margin(seed):
    """A 4 x 3 margin with a level of 0.3 %, all of the association in it; noise of 40 levels."""
    row = np.array([0.003, *(0.997 * np.array([2, 3, 4]) / 9)])
    column = np.array([2, 3, 4]) / 9
    even = np.outer(row, column)
    far = even.copy()
    far[0] = [0.003, 0, 0]
    far[1:] -= np.outer(row[1:] / row[1:].sum(), far[0] - even[0])
    truth = np.sqrt(((far - even) ** 2 / even).sum() / 2)
    rng = np.random.default_rng(seed)
    sd = np.sqrt(2 * 40) / 0.4
    noise = sd * rng.standard_normal(even.shape)
    cells = rng.multinomial(8000, far.ravel()).reshape(even.shape) + noise - noise.mean()
    domain = Domain({"R": list(range(4)), "S": list(range(3))})
    return Release.from_noisy_table(cells, domain, sigma=sd, n_total=8000), truth


@pytest.mark.parametrize("seed", range(12))
def test_noise_that_hides_a_rare_level_leaves_its_part_open(seed):
    release, truth = rare_margin(seed)
    found = dpc.cramers_v(release, "R", "S")
    assert found.interval[0] <= found.estimate <= found.interval[1]
    assert found.interval[0] <= truth <= found.interval[1]


def test_the_old_way_stopped_below_a_rare_level():
    missed = 0
    for seed in range(12):
        release, truth = rare_margin(seed)
        of = Contingency.of(TwoFactors.of(release, "R", "S", (), 0.05))
        missed += np.sqrt(of.interval(0.05)[1] / 2) < truth
    assert missed >= 2


def test_little_noise_comes_near_the_classical_interval():
    table = np.array([[50.0, 70], [60, 35]])
    classical = dpc.cramers_v(exact(table), "R", "S")
    for sigma in (0.2, 1.0):
        near = dpc.cramers_v(noisy(table, sigma, n_total=215), "R", "S")
        assert near.estimate == pytest.approx(classical.estimate, rel=5e-3)
        assert near.interval == pytest.approx(classical.interval, abs=0.04)


@pytest.mark.parametrize("seed", range(15))
def test_intervals_of_strength_hold_their_estimates_in_any_table(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 5, size=2))
    cells = rng.normal(rng.uniform(0, 60), 1 + rng.uniform(0, 20), shape)
    release = Release.from_noisy_table(
        cells, Domain({"R": list(range(shape[0])), "S": list(range(shape[1]))}), sigma=12.0
    )
    for measure in (dpc.cramers_v, dpc.contingency_coefficient, dpc.uncertainty_coefficient):
        found = measure(release, "R", "S")
        if not np.isnan(found.estimate):
            assert 0 <= found.interval[0] <= found.estimate <= found.interval[1] <= 1
            assert measure(release, "R", "S") == found
