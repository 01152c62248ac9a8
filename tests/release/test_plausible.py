"""What is refused and warned of in numbers made elsewhere, and what lies in impossible cells."""

import warnings

import numpy as np
import pytest

import dpcontingency as dpc
from dpcontingency.errors import (
    DPContingencyError,
    ModelError,
    PlausibilityWarning,
    RecordsError,
    ReleaseError,
)

DOMAIN = dpc.Domain({"A": ["a", "b"], "B": ["u", "v"]})
SHARES = np.array([[0.18, 0.32], [0.33, 0.17]])
NOISY = np.array([[18.0, 32], [33, 17]])


def by_exact(values):
    return dpc.Release.exact(values, DOMAIN)


def by_noisy(values, sigma=5.0, **kwargs):
    return dpc.Release.from_noisy_table(values, DOMAIN, sigma=sigma, **kwargs)


# -- proportions and percentages -----------------------------------------------------------------


@pytest.mark.parametrize("door", [by_exact, by_noisy])
def test_proportions_are_no_counts_and_the_way_out_is_right(door):
    """CASES D1."""
    with pytest.raises(ReleaseError, match=r"look like proportions.*Multiply them by n, n being"):
        door(SHARES)
    test = dpc.independence_test(by_exact(SHARES * 100), "A", "B", statistic="score")
    assert (test.statistic, test.pvalue) == pytest.approx((9.003601, 0.002694), abs=5e-7)


def test_percentages_are_no_counts_and_the_ways_out_are_right():
    percent = [[18.5, 31.5], [33, 17]]
    with pytest.raises(ReleaseError, match=r"look like percentages.*by n / 100"):
        by_exact(percent)
    assert by_exact(np.multiply(percent, 400 / 100)).n_total == 400
    weighted = by_noisy(percent, sigma=0, n_total=100)
    assert weighted.noise.is_exact
    assert dpc.independence_test(weighted, "A", "B").pvalue > 0
    with pytest.warns(PlausibilityWarning, match="percentages"):
        by_noisy(percent)


def test_rounded_shares_are_seen_through_their_rounding():
    thirds = [[0.33, 0.33], [0.33, 0]]
    with pytest.raises(ReleaseError, match="proportions"):
        by_exact(thirds)
    with pytest.warns(PlausibilityWarning, match="proportions"):
        by_noisy(thirds)


@pytest.mark.parametrize(
    "values",
    [
        [[1, 0], [0, 0]],  # one record
        [[1.0, 0], [0, 0]],
        [[25, 25], [25, 25]],  # a hundred
        [[0.29 * 100, 0.21 * 100], [30, 20]],  # whole but for the rounding of floats
        [[0.5, 0.25], [0.75, 0.75]],  # weighted counts of small tables
        [[40.5, 30.5], [20.5, 9.5]],
        [[0, 0], [0, 0]],
    ],
)
def test_small_tables_of_counts_are_counts(values):
    assert by_exact(values).n_total_estimate == pytest.approx(np.sum(values))


def test_noise_that_leaves_the_unit_interval_is_no_share():
    assert by_noisy([[0.7, -0.4], [0.5, 0.2]]).n_total_estimate == pytest.approx(1)
    assert by_noisy([[0.3, 0.2], [0.4, 0.1]], sigma=0.5, n_total=1).n_total == 1


# -- totals and cells that noise does not make ---------------------------------------------------


@pytest.mark.parametrize(("n_total", "away"), [(206, 10.6), (150, 5.0), (50, 5.0)])
def test_a_total_that_is_not_of_the_table_is_refused(n_total, away):
    assert abs(n_total - NOISY.sum()) / 10 == pytest.approx(away)
    with pytest.raises(ReleaseError, match=r"away from the public one.*Check n_total and sigma"):
        by_noisy(NOISY, n_total=n_total)


def test_a_total_is_warned_of_before_it_is_refused():
    with pytest.warns(PlausibilityWarning, match="45 away from the public one"):
        release = by_noisy(NOISY, n_total=145)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_noisy(NOISY, n_total=139)
        release.margin("A")  # what is known is not said again
    with pytest.warns(PlausibilityWarning):
        dpc.Release.from_dict(release.to_dict())


def test_totals_of_strata_are_held_to_the_same_chance():
    content = by_noisy(NOISY).to_dict()
    content |= {"strata": ["A"], "totals": [50, 50 + 37]}  # 5.2 standard deviations
    with pytest.raises(ReleaseError, match="37 away from the public one"):
        dpc.Release.from_dict(content)
    content["totals"] = [50, 50 + 32]  # 4.5
    with pytest.warns(PlausibilityWarning, match="32 away"):
        dpc.Release.from_dict(content)


def test_a_clamped_table_is_warned_of_and_an_honest_one_is_not():
    """CASES D6: 500 cells, 668 records, noise of standard deviation 10."""
    rng = np.random.default_rng(6)
    domain = dpc.Domain({"A": range(500)})
    counts = rng.multinomial(668, rng.dirichlet(np.full(500, 0.3)))
    rounded = np.rint(counts + rng.normal(0, 10, 500))
    with pytest.warns(PlausibilityWarning, match="looks clamped at 0"):
        dpc.Release.from_noisy_table(np.maximum(rounded, 0), domain, sigma=10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dpc.Release.from_noisy_table(rounded, domain, sigma=10.0)
        dpc.Release.from_noisy_table(counts, domain, sigma=0.1)  # too little for any -1
        dpc.Release.from_noisy_table(counts, domain, sigma=0.0)


# -- impossible cells ----------------------------------------------------------------------------

HOLE = dpc.Domain(DOMAIN.levels, structural_zeros=[{"A": "a", "B": "v"}])
TABLE = np.array([[18.0, np.nan], [33, 17]])
PROBABILITIES = np.array([[0.5, np.nan], [0.25, 0.25]])


def fitted(offset):
    release = dpc.Release.exact(TABLE, HOLE)
    return dpc.LogLinearModel(release, "[A][B]", offset=offset).fit()


def noisy(values):
    return dpc.Release.from_noisy_table(values, HOLE, sigma=np.where(np.isnan(TABLE), np.nan, 2.0))


def simulated(values):
    whole = np.isnan(values).any()
    counts = values if whole else values.astype(np.int64)
    if not np.array_equal(counts, values, equal_nan=True):
        counts = values
    return dpc.simulate_release(counts, HOLE, dpc.GDP(1), np.random.default_rng(1))


def fit_tested(probabilities):
    return dpc.goodness_of_fit_test(dpc.Release.exact(TABLE, HOLE), probabilities)


def planned(probabilities):
    return dpc.power(HOLE, probabilities, n=100, privacy=dpc.GDP(1), test="model", model="[B]")


@pytest.mark.parametrize(
    ("door", "values", "held"),
    [
        (lambda x: dpc.Release.exact(x, HOLE), TABLE, ReleaseError),
        (noisy, TABLE, None),
        (simulated, TABLE, RecordsError),
        (fit_tested, PROBABILITIES, ModelError),
        (planned, PROBABILITIES, ModelError),
        (fitted, np.where(np.isnan(TABLE), -np.inf, 0.0), None),
        (fitted, np.where(np.isnan(TABLE), np.nan, 0.0), None),
    ],
)
def test_an_impossible_cell_is_masked_before_anything_is_checked(door, values, held):
    door(values)
    door(np.where(np.isfinite(values), values, 0))
    if held is not None:  # where a number there is a claim that somebody is
        with pytest.raises(held):
            door(np.where(np.isfinite(values), values, 0.25))
    possible = values.copy()
    possible[0, 0] = np.nan
    with pytest.raises(DPContingencyError):
        door(possible)


def test_what_an_impossible_cell_is_said_to_hold_changes_nothing():
    assert noisy(np.where(np.isnan(TABLE), np.inf, TABLE)).noisy[0, 1] == 0
    whole = simulated(np.where(np.isnan(TABLE), 0, TABLE).astype(int))
    np.testing.assert_array_equal(simulated(TABLE).noisy, whole.noisy)
    plain = fitted(None).params
    np.testing.assert_allclose(fitted(np.where(np.isnan(TABLE), -np.inf, 0.0)).params, plain)
