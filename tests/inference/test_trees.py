"""Models of margins whose joint table cannot exist: by a junction tree.

Where the joint table can be written down both ways give the same; where it cannot, a chain of 40
factors has the classical estimates that are known in closed form.
"""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError, PrivacyError
from dpcontingency.inference import margin_space, results
from dpcontingency.inference.comparison import compare
from dpcontingency.inference.hypothesis import independence_test, model_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.contrasts import contrast_exponent, contrasts
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.publish_margins import simulate_margins
from dpcontingency.release.workload import plan_margins

SMALL = Domain({"A": [1, 2], "B": [1, 2, 3], "C": [1, 2], "E": [1, 2, 3], "F": [1, 2], "G": ["x"]})
CHAIN = [("A", "B"), ("B", "C"), ("C", "E"), ("E", "F")]
WIDE = [("A", "B", "C"), ("B", "C", "E"), ("F",), ("G",)]
CYCLE = [("A", "B"), ("B", "C"), ("C", "E"), ("A", "E"), ("F",)]
COUNTS = np.random.default_rng(7).integers(0, 40, SMALL.shape)


def both(monkeypatch, release, generators, **options):
    """The fit by the joint table, and that by a junction tree."""
    one = LogLinearModel(release, generators, **options).fit(warn_convergence=False)
    monkeypatch.setattr(margin_space, "MAX_CELLS", 1)
    model = LogLinearModel(release, generators, **options)
    assert not model.space.is_joint
    two = model.fit(warn_convergence=False)
    monkeypatch.undo()
    return one, two


@pytest.mark.parametrize("coding", ["treatment", "sum"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("margins", [CHAIN, WIDE, CYCLE])
def test_it_is_what_the_joint_table_gives(monkeypatch, margins, neighbours, coding):
    rng = np.random.default_rng(1)
    release = simulate_margins(COUNTS, SMALL, margins, GDP(0.3), rng, neighbours=neighbours)
    models = [margins, [*margins[1:], *((name,) for name in margins[0])], [("A",), ("B",)]]
    fits = []
    for generators in models:
        one, two = both(monkeypatch, release, generators, coding=coding, left_out="uniform")
        fits.append(two)
        assert two.llf == pytest.approx(one.llf, abs=1e-8)
        np.testing.assert_allclose(two.params, one.params, atol=1e-7)
        for name in ("bse", "bse_sampling"):
            np.testing.assert_allclose(getattr(two, name), getattr(one, name), atol=1e-8)
        assert two.deviance == pytest.approx(one.deviance, abs=1e-8)
        assert two.pearson_chi2 == pytest.approx(one.pearson_chi2, abs=1e-7)
        assert (two.df_resid, two.df_model, two.nobs) == (one.df_resid, one.df_model, one.nobs)
        cells = one.fittedvalues.to_numpy().reshape(SMALL.shape)
        for names in (("A",), ("F", "A"), ("E", "B", "A")):
            axes = [SMALL.axis(name) for name in names]
            others = tuple(k for k in range(6) if k not in axes)
            expected = cells.sum(axis=others).transpose(np.argsort(np.argsort(axes)))
            np.testing.assert_allclose(two.fitted_margin(*names), expected.ravel(), rtol=1e-6)
            for what, given in (("mean", ()), ("proportion", ()), ("conditional", names[:1])):
                ours, theirs = (f.get_prediction(what, given, margin=names) for f in (two, one))
                np.testing.assert_allclose(ours.se, theirs.se, atol=1e-7)
    table = compare(*fits[1:]).table
    assert (table["df_diff"].dropna() > 0).all()
    assert (table["lr_diff"].dropna() > 0).all()


@pytest.mark.parametrize("margins", [CHAIN, WIDE])
def test_tests_and_odds_ratios_are_the_same(monkeypatch, margins):
    release = simulate_margins(COUNTS, SMALL, margins, GDP(0.5), np.random.default_rng(2))
    one, two = both(monkeypatch, release, margins)
    assert list(two.odds_ratios().index) == list(one.odds_ratios().index)
    pd.testing.assert_frame_equal(two.odds_ratios(), one.odds_ratios(), rtol=1e-6)
    pd.testing.assert_frame_equal(
        two.odds_ratios("B", "A", kind="local"), one.odds_ratios("B", "A", kind="local"), rtol=1e-6
    )
    asked = []  # the covariances take longer than all else and are those of all pairs
    known = results.sampling_covariance
    monkeypatch.setattr(results, "sampling_covariance", lambda *of: asked.append(of) or known(*of))
    assert len(two.odds_ratios().index.droplevel("at").unique()) > len(asked) == 1
    monkeypatch.undo()
    profile = {"cols": [0], "method": "profile"}
    np.testing.assert_allclose(two.conf_int(**profile), one.conf_int(**profile), atol=1e-5)
    smaller = margins[1:]
    for statistic in ("lr", "score", "wald"):
        here = model_test(LogLinearModel(release, smaller, left_out="uniform"), statistic=statistic)
        monkeypatch.setattr(margin_space, "MAX_CELLS", 1)
        there = model_test(
            LogLinearModel(release, smaller, left_out="uniform"), statistic=statistic
        )
        monkeypatch.undo()
        assert there.statistic == pytest.approx(here.statistic, rel=1e-6)
        assert there.df == here.df


def test_margins_that_noise_has_eaten_are_the_same(monkeypatch):
    domain = SMALL.project(["A", "B", "C", "E"])
    rng = np.random.default_rng(4)
    lost = 0
    forms = [CHAIN[:3], [("A", "B"), ("B", "C"), ("B", "E")]]
    for k, gone in enumerate((np.s_[:, 2], np.s_[:, 2], np.s_[:, 2, 1], np.s_[:, :, 0, 2])):
        counts = rng.integers(0, 40, domain.shape)
        counts[gone] = 0
        for margins in forms[k % 2 :: 2]:
            release = simulate_margins(counts, domain, margins, GDP(0.3), rng)
            one, two = both(monkeypatch, release, margins)
            lost += len(one.existence.parameters)
            assert two.existence.parameters == one.existence.parameters
            np.testing.assert_allclose(two.params, one.params, atol=1e-4)
            np.testing.assert_allclose(two.bse, one.bse, rtol=1e-3, atol=1e-4)
            assert two.df_model == one.df_model
            assert list(two.odds_ratios()["reason"]) == list(one.odds_ratios()["reason"])
    assert lost > 5


# ------------------------------------------------------------------ forty factors

NAMES = [f"q{k:02d}" for k in range(40)]
FORTY = Domain({name: [0, 1, 2] if k % 4 == 0 else [0, 1] for k, name in enumerate(NAMES)})
LINKS = [(NAMES[k], NAMES[k + 1]) for k in range(39)]
STAR = [(NAMES[0], name) for name in NAMES[1:]]


def records(n=4000, seed=1):
    """Each answer is mostly drawn anew, else it is the one before."""
    rng = np.random.default_rng(seed)
    out = np.zeros((n, 40), dtype=np.intp)
    for k, size in enumerate(FORTY.shape):
        fresh = rng.integers(size, size=n)
        out[:, k] = np.where(rng.random(n) < 0.4, np.minimum(out[:, k - 1], size - 1), fresh)
    return out


def release_of(data, margins, mu, seed=1):
    """What `release_margins` would make of records whose joint table cannot exist."""
    plan = plan_margins(FORTY, margins, GDP(mu))
    rng = np.random.default_rng(seed)
    parts = {}
    for a, scale in plan.cell_scales.items():
        axes = [FORTY.axis(name) for name in a]
        shape = tuple(FORTY.shape[k] for k in axes)
        flat = np.ravel_multi_index(tuple(data[:, axes].T), shape)
        counts = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
        noisy = contrasts(counts + scale * rng.standard_normal(shape))
        grid = contrast_exponent(scale, len(a))
        parts[a] = np.ldexp(np.rint(np.ldexp(noisy, grid)), -grid)
    return MarginRelease(plan, parts, len(data), "simulated", {})


def pair_of(data, names):
    axes = [FORTY.axis(name) for name in names]
    counts = np.zeros([FORTY.shape[k] for k in axes])
    np.add.at(counts, tuple(data[:, axes].T), 1)
    return counts


@pytest.mark.parametrize("margins", [LINKS, STAR])
def test_without_noise_a_decomposable_model_fits_its_margins(margins):
    data = records()
    fit = LogLinearModel(release_of(data, margins, 3e4), margins).fit()
    assert fit.existence.exists
    for pair in margins[::13]:
        counts = pair_of(data, pair)
        np.testing.assert_allclose(fit.fitted_margin(*pair), counts.ravel(), rtol=1e-3)
        ratio = fit.odds_ratios(*pair).iloc[0]
        classical = counts[0, 0] * counts[1, 1] / counts[0, 1] / counts[1, 0]
        assert ratio["odds_ratio"] == pytest.approx(classical, rel=1e-3)
        four = counts[:2, :2]
        assert ratio["se"] == pytest.approx(np.sqrt((1 / four).sum()), rel=1e-3)


def test_forty_factors_end_to_end(tmp_path):
    data = records()
    release = release_of(data, LINKS, 0.5)
    full = LogLinearModel(release, LINKS).fit()
    assert full.converged
    assert full.nobs == FORTY.size == 3**10 * 2**30
    assert (full.bse > full.bse_sampling).all()
    # What a pair says by itself, though here its neighbours tell of it too.
    pair = release.margin(*LINKS[5])
    alone = LogLinearModel(pair, [LINKS[5]]).fit()
    np.testing.assert_allclose(
        full.odds_ratios(*LINKS[5])["log_or"], alone.odds_ratios()["log_or"], atol=1e-3
    )
    # q03 and q04 are linked, and q03 and q39 are nearly independent, in a margin never released.
    smaller = LogLinearModel(release, [*LINKS[:3], *LINKS[4:]]).fit()
    table = compare(smaller, full).table
    assert table["pvalue_diff"].iloc[1] < 1e-6
    tested = independence_test(release, *LINKS[3])
    assert tested.df == table["df_diff"].iloc[1]
    far = full.get_prediction("conditional", NAMES[3], margin=(NAMES[3], NAMES[39]))
    np.testing.assert_allclose(far.predicted_mean, 0.5, atol=0.05)
    assert (far.conf_int()["lower"] < far.predicted_mean).all()
    full.save(tmp_path / "fit.json")
    assert (tmp_path / "fit.json").stat().st_size < 500_000
    again = LogLinearResults.load(tmp_path / "fit.json")
    pd.testing.assert_series_equal(again.params, full.params)
    pd.testing.assert_series_equal(again.fitted_margin("q07"), full.fitted_margin("q07"))
    assert "q00" in str(again.summary())


def test_a_chain_of_forty_covers():
    """Intervals at heavy noise: samples of one truth, 195 intervals."""
    exact = {}
    data = records(15_000, seed=9)
    for pair in LINKS:
        counts = pair_of(data, pair)
        exact[pair] = np.log(counts[0, 0] * counts[1, 1] / counts[0, 1] / counts[1, 0])
    covered = []
    for seed in range(5):
        part = data[seed * 3000 : (seed + 1) * 3000]
        fit = LogLinearModel(release_of(part, LINKS, 0.3, seed), LINKS).fit()
        for pair in LINKS:
            row = fit.odds_ratios(*pair).iloc[0]
            covered.append(row["lower"] < np.exp(exact[pair]) < row["upper"])
    # The truth here is that of all samples together, which takes a little off their own error.
    assert 0.91 < np.mean(covered) < 0.995


def test_more_margins_than_a_tree_holds_are_left_out_and_said():
    data, pairs = records(500), list(combinations(NAMES, 2))
    release = release_of(data, pairs, 1.0)
    model = LogLinearModel(release, LINKS)
    assert model.release.margins == tuple(LINKS)
    fit = model.fit()
    again = LogLinearModel(release.restrict(LINKS), LINKS).fit()
    assert fit.llf == again.llf
    # A model that leaves a factor out is compared on the margins of the one that does not.
    other = LogLinearModel(release, LINKS[1:]).fit()
    same = LogLinearModel(release.restrict(LINKS), LINKS[1:], left_out="uniform").fit()
    pd.testing.assert_frame_equal(compare(other, fit).table, compare(same, fit).table)
    with pytest.raises(PrivacyError, match="lies in none"):
        release.restrict([NAMES[:3]])


def test_what_is_too_large_is_refused_with_its_size():
    pairs = list(combinations(NAMES[:30], 2))
    plan = plan_margins(FORTY, pairs, GDP(1))
    cells = {
        a: contrasts(np.zeros([FORTY.shape[FORTY.axis(x)] for x in a])) for a in plan.cell_scales
    }
    release = MarginRelease(plan, cells, 500, "simulated", {})
    with pytest.raises(ModelError, match=r"cells, more than 1,000,000.*restrict"):
        LogLinearModel(release, pairs)
    fit = LogLinearModel(release, LINKS[:3], left_out="uniform").fit()
    np.testing.assert_allclose(fit.fitted_margin("q00", "q01"), 500 / 6, rtol=1e-6)
    np.testing.assert_allclose(fit.fitted_margin("q39"), 250, rtol=1e-6)
    for what in ("fittedvalues", "resid_response"):
        with pytest.raises(ModelError, match="margin"):
            getattr(fit, what)
    for call in (fit.posterior_mean, fit.get_prediction, fit.predict, fit.shrunken_table):
        with pytest.raises(ModelError, match="margin"):
            call()
    with pytest.raises(ModelError, match="smaller one"):
        fit.fitted_margin(*NAMES)
    with pytest.raises(ModelError, match="offset"):
        LogLinearModel(release, LINKS[:3], offset=np.zeros(3))


def test_a_margin_of_a_joint_release_has_the_same_errors_as_its_cells():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    counts, rng = [[91, 38, 62], [47, 55, 80]], np.random.default_rng(1)
    for options in ({}, {"strata": ["A"]}, {"neighbours": "add-remove"}):
        release = simulate_release(counts, domain, GDP(0.3), rng, **options)
        fit = LogLinearModel(release, "[A][B]").fit()
        for what, given in (("mean", ()), ("proportion", ()), ("conditional", ("B",))):
            cells = fit.get_prediction(what, given)
            part = fit.get_prediction(what, given, margin=("A", "B"))
            np.testing.assert_allclose(part.predicted_mean, cells.predicted_mean)
            np.testing.assert_allclose(part.se, cells.se, atol=1e-9)
            np.testing.assert_allclose(part.conf_int(), cells.conf_int())
    with pytest.raises(ModelError, match="among those of the margin"):
        fit.get_prediction("conditional", "B", margin="A")
