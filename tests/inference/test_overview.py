"""The overview of all pairs: against one pair at a time, the classical answers, and margins."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import dpcontingency as dpc
from dpcontingency.errors import DomainError, ModelError, PrivacyError
from dpcontingency.inference.overview import COLUMNS
from dpcontingency.inference.saturated import TwoFactors
from dpcontingency.inference.strength import Contingency
from dpcontingency.release.noise import GaussianNoise
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.publish_margins import simulate_margins

DOMAIN = dpc.Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y", "z"]})
COUNTS = np.array([[[30, 12, 5], [14, 25, 9], [3, 8, 22]], [[21, 9, 17], [11, 30, 8], [16, 7, 41]]])


def simulated(mu=0.7, seed=4, **options):
    rng = np.random.default_rng(seed)
    return simulate_release(COUNTS * 4, DOMAIN, dpc.GDP(mu), rng, **options)


@pytest.mark.parametrize("options", [{}, {"neighbours": "add-remove"}, {"strata": ("A",)}])
def test_rows_are_those_of_one_pair_at_a_time(options):
    release = simulated(**options)
    overview = dpc.association_overview(release, alpha=0.1)
    assert list(overview.columns) == COLUMNS
    assert overview[["row", "column"]].to_numpy().tolist() == [["A", "B"], ["A", "C"], ["B", "C"]]
    for line in overview.itertuples():
        v = dpc.cramers_v(release, line.row, line.column, alpha=0.1)
        assert (line.estimate, (line.lower, line.upper)) == (v.estimate, v.interval)
        test = dpc.independence_test(
            release, line.row, line.column, statistic="score", pvalue="asymptotic"
        )
        assert (line.statistic, line.df, line.pvalue) == (test.statistic, test.df, test.pvalue)
        assert line.reason == ""


def test_without_noise_all_is_classical():
    for line in dpc.association_overview(dpc.Release.exact(COUNTS, DOMAIN)).itertuples():
        others = tuple(i for i, n in enumerate("ABC") if n not in (line.row, line.column))
        table = COUNTS.sum(axis=others)
        x2, p, df, _ = stats.chi2_contingency(table, correction=False)
        assert (line.statistic, line.df) == (pytest.approx(x2, rel=1e-9), df)
        assert line.pvalue == pytest.approx(p, rel=1e-7)
        v = np.sqrt(x2 / table.sum() / (min(table.shape) - 1))
        assert line.estimate == pytest.approx(v, rel=1e-9)
        assert line.lower <= line.estimate <= line.upper


def margins(mu=0.7, seed=4, wanted=(("A", "B"), ("B", "C"))):
    return simulate_margins(COUNTS * 4, DOMAIN, wanted, dpc.GDP(mu), np.random.default_rng(seed))


def test_of_margins_only_the_pairs_that_were_released_are_shown():
    release = margins()
    overview = dpc.association_overview(release)
    assert overview[["row", "column"]].to_numpy().tolist() == [["A", "B"], ["B", "C"]]
    assert "Pairs that lie in no released margin together: 1." in overview.notes
    for line in overview.itertuples():
        test = dpc.independence_test(
            release.margin(line.row, line.column), line.row, line.column,
            statistic="score", pvalue="asymptotic",
        )  # fmt: skip
        assert (line.statistic, line.df, line.pvalue) == (test.statistic, test.df, test.pvalue)
        assert 0 <= line.lower <= line.estimate <= line.upper <= 1
    assert any("NOT PRIVATE" in note for note in overview.notes)


def test_margins_with_even_noise_are_a_table_with_even_noise():
    """With one scale in all interactions the release of a margin is the rank-deficient one."""
    sigma = 9.0
    release = margins(wanted=(("B", "C"),)).collapse("B", "C")
    n = dict(zip(release.domain.names, release.domain.shape, strict=True))
    even = {
        a: sigma * np.sqrt(np.prod([n[name] for name in n if name not in a]))
        for a in release.plan.cell_scales
    }
    release = replace(release, plan=replace(release.plan, cell_scales=even))
    table = dpc.Release.from_noisy_table(
        release.values, release.domain, sigma=sigma, n_total=release.n_total
    )
    noise = GaussianNoise(np.full(release.domain.shape, sigma**2), ())
    table = replace(table, noise=noise)
    np.testing.assert_allclose(release.covariance("B", "C"), table.noise.covariance(), atol=1e-9)
    one, other = (dpc.association_overview(r).iloc[0] for r in (release, table))
    columns = ["estimate", "lower", "upper", "statistic", "pvalue"]
    # The fitted margins differ a little: one likelihood is of counts, the other Gaussian.
    np.testing.assert_allclose(
        one[columns].astype(float), other[columns].astype(float), rtol=0.02, atol=1e-12
    )


def test_what_the_noise_of_margins_adds_to_chi_square():
    """The part due to noise against the mean of X2 over noise drawn around independence."""
    release = margins(mu=1.0, wanted=(("B", "C"), ("A",))).margin("B", "C")
    of = Contingency.of(TwoFactors.of(release, "B", "C", (), 0.05))
    rows, columns = (release.margin(name).values for name in ("B", "C"))
    e = np.outer(rows, columns) / rows.sum()
    rng = np.random.default_rng(8)
    noise = rng.multivariate_normal(np.zeros(9), release.covariance("B", "C"), 20_000)
    tables = e + noise.reshape(-1, 3, 3)
    rows, columns, n = tables.sum(axis=2), tables.sum(axis=1), tables.sum(axis=(1, 2))
    fitted = rows[:, :, None] * columns[:, None, :] / n[:, None, None]
    x2 = ((tables - fitted) ** 2 / fitted).sum(axis=(1, 2))
    error = x2.std() / np.sqrt(len(x2))
    assert abs(of.due_to_noise - x2.mean()) < 4 * error


def test_what_cannot_be_said_has_a_reason():
    zeros = dpc.Domain(
        {"A": ["a", "b"], "B": ["u", "v"], "C": ["x"]}, structural_zeros=[{"A": "a", "B": "u"}]
    )
    overview = dpc.association_overview(
        dpc.Release.from_noisy_table([[[0], [31.5]], [[20.2], [17.1]]], zeros, sigma=1.0)
    )
    assert (overview["estimate"].isna() == (overview["reason"] != "")).all()
    first, second, _ = overview["reason"]
    assert "structural zeros" in first
    assert "single level" in second
    strata = dpc.association_overview(simulated(strata=("A", "B")))
    assert "joint margin is public" in strata["reason"].iloc[0]
    assert strata["reason"].iloc[1:].eq("").all()
    laplace = dpc.association_overview(simulated(mechanism=dpc.Laplace()))
    assert laplace["reason"].str.contains("Gaussian").all()
    assert "nan" not in laplace.summary()


def test_a_margin_with_one_level_has_no_association():
    domain = dpc.Domain({"A": ["a"], "B": ["u", "v"], "C": ["x", "y"]})
    release = simulate_margins(
        np.full(domain.shape, 40), domain, [("A", "B"), ("B", "C")], dpc.GDP(1),
        np.random.default_rng(3),
    )  # fmt: skip
    reasons = dpc.association_overview(release)["reason"].tolist()
    assert "A has a single level" in reasons[0]
    assert reasons[1] == ""


def test_one_factor_has_no_pairs():
    overview = dpc.association_overview(dpc.Release.exact([5, 3], dpc.Domain({"A": [0, 1]})))
    assert len(overview) == 0
    assert overview.summary().startswith("No pairs of factors.")


def test_what_is_no_release_is_refused():
    with pytest.raises(ModelError, match="Release or a MarginRelease; got ndarray"):
        dpc.association_overview(COUNTS)
    with pytest.raises(ModelError, match="alpha"):
        dpc.association_overview(simulated(), alpha=2)


def test_planted_counts_are_not_in_it():
    counts = np.array([[7919, 10007], [12, 3]])
    domain = dpc.Domain({"A": ["a", "b"], "B": ["u", "v"]})
    release = simulate_release(counts, domain, dpc.GDP(0.3), np.random.default_rng(2))
    text = dpc.association_overview(release).summary()
    assert "7919" not in text
    assert "10007" not in text


def test_some_pairs_can_be_asked_for():
    release = simulated()
    whole = dpc.association_overview(release)
    part = dpc.association_overview(release, [("B", "C"), ("A", "B")])
    assert part["statistic"].tolist() == whole["statistic"].iloc[[2, 0]].tolist()
    assert "Tests: 2." in part.notes[1]
    with pytest.raises(DomainError, match="Z"):
        dpc.association_overview(release, [("A", "Z")])
    with pytest.raises(PrivacyError, match="A, C"):
        dpc.association_overview(margins(), [("A", "C")])


def test_only_tests_that_were_done_are_counted():
    domain = dpc.Domain({"A": ["a", "b"], "B": ["u", "v"], "one": ["x"]})
    overview = dpc.association_overview(dpc.Release.exact([[[40], [30]], [[20], [50]]], domain))
    assert overview["pvalue"].notna().tolist() == [True, False, False]
    assert "Tests: 1." in overview.notes[1]


def test_an_interval_that_ends_at_its_estimate_is_explained():
    domain = dpc.Domain({"A": ["a", "b"], "B": ["u", "v"]})
    cells = [[100.1, 99.9], [99.9, 100.1]]
    wide = dpc.association_overview(dpc.Release.from_noisy_table(cells, domain, sigma=20.0))
    assert wide["lower"][0] == 0
    assert wide["upper"][0] > 0.15  # noise does not let a test see what is below
    assert not any("lower tail" in note for note in wide.notes)
    overview = dpc.association_overview(dpc.Release.exact(cells, domain))
    assert overview["upper"][0] == overview["estimate"][0] < 0.01
    assert any("A and B is in the lower tail" in note for note in overview.notes)
    assert "says nothing of how small" in overview.summary().replace("\n    ", " ")
    uneven = dpc.Release.from_noisy_table([[130.0, 70.0], [70.0, 130.0]], domain, sigma=20.0)
    assert not any("lower tail" in note for note in dpc.association_overview(uneven).notes)
    # Nor is a perfect association, whose interval ends at 1.
    perfect = dpc.Release.exact([[50, 0], [0, 50]], domain)
    assert not any("lower tail" in note for note in dpc.association_overview(perfect).notes)


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda one: one.copy()])
def test_a_copy_keeps_its_notes_and_shares_no_number(again):
    overview = dpc.association_overview(dpc.Release.exact(COUNTS, DOMAIN))
    other = again(overview)
    assert other.notes == overview.notes
    assert repr(other) == repr(overview)
    other.loc[0, "pvalue"] = 0.5
    assert repr(other) != repr(overview)
