"""Fits that end at the highest maximum, where noise leaves room for several."""

from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest

import dpcontingency as dpc
from dpcontingency.errors import ModelError
from dpcontingency.inference.bootstrap import draw_tables
from dpcontingency.inference.loglinear import LogLinearResults
from dpcontingency.inference.margin_replicates import replicates_of
from dpcontingency.inference.maxima import highest, may_be_several
from dpcontingency.inference.newton import maximise

QUIET = {"warn_convergence": False}


def table(shape, seed, mean, mu):
    """A release of uneven cells, and its model of all two-way terms."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    counts = rng.multinomial(mean * size, rng.dirichlet(np.full(size, 0.7))).reshape(shape)
    domain = dpc.Domain({n: list(range(k)) for n, k in zip("ABCDEF", shape, strict=False)})
    mechanism = dpc.RankDeficientGaussian()
    release = dpc.simulate_release(counts, domain, dpc.GDP(mu), rng, mechanism=mechanism)
    return dpc.LogLinearModel(release, list(combinations(domain.names, 2)))


def example():
    """Its first search ends at -32.03, with A:B = -8.7."""
    return table((2, 2, 2, 2), 2, 20, 0.3)


def first_end(model):
    return maximise(model._at, model._start()[0])


def best_of_many(model, k=20):
    """The highest end of searches from random starts: the oracle."""
    rng = np.random.default_rng(0)
    shape = k, model._design.n_columns
    starts = model._flat() + rng.normal(size=shape) * rng.uniform(0.3, 2.5, (k, 1))
    return max(maximise(model._at, start).point.value for start in starts)


def test_the_fit_is_not_the_first_maximum_on_the_way():
    model = example()
    first = first_end(model)
    result = model.fit(**QUIET)
    assert first.converged
    assert first.point.value == pytest.approx(-32.028, abs=0.01)
    assert result.llf == pytest.approx(-30.343, abs=0.001)
    assert result.params["A[T.1]:B[T.1]"] == pytest.approx(0.38, abs=0.005)


HARD = [((2, 2, 2, 2), 2, 20, 0.3), ((2,) * 5, 7, 5, 0.3), ((2,) * 5, 11, 20, 0.1),
        ((3, 4, 5), 3, 5, 0.3), ((3, 2, 2, 2), 5, 10, 0.1)]  # fmt: skip


@pytest.mark.parametrize("case", HARD)
def test_no_random_start_leads_higher(case):
    model = table(*case)
    assert model.fit(**QUIET).llf > best_of_many(model) - 1e-3


@pytest.mark.parametrize("case", HARD[:3])
def test_relabelling_leads_to_the_same_fit(case):
    model = table(*case)
    one = model.fit(**QUIET)
    release = model.release
    order = list(permutations(range(len(release.domain.shape))))[-2]
    noisy = np.flip(release.noisy).transpose(order)
    names = [release.domain.names[k] for k in order]
    domain = dpc.Domain({name: release.domain.levels[name][::-1] for name in names})
    moved = dpc.Release.from_noisy_table(
        noisy, domain, sigma=release.sigma, n_total=release.n_total
    )
    other = dpc.LogLinearModel(moved, model.generators).fit(**QUIET)
    assert other.llf == pytest.approx(one.llf, abs=1e-6)
    again = np.flip(other.fittedvalues.to_numpy().reshape(noisy.shape).transpose(np.argsort(order)))
    np.testing.assert_allclose(again.ravel(), one.fittedvalues, atol=1e-4 * release.n_total)


def test_where_noise_is_narrow_one_search_is_enough():
    model = table((2, 2, 2), 4, 200, 1.0)
    first = first_end(model)
    assert not may_be_several(first.point)
    assert highest(model, first).best is first


def test_a_search_starts_where_it_is_told_and_ends_no_lower():
    model = example()
    best = model.fit(**QUIET)
    for start in (np.zeros(best.params.size), first_end(model).beta, best.params.clip(-9, 9)):
        again = model.fit(start_params=start, **QUIET)
        assert again.llf == pytest.approx(best.llf, abs=1e-6)
    coded = dpc.LogLinearModel(model.release, model.generators, coding="sum")
    expected = coded.fit(**QUIET)
    again = coded.fit(start_params=expected.params.clip(-9, 9), **QUIET)
    pd.testing.assert_series_equal(again.params, expected.params, atol=1e-4)


@pytest.mark.parametrize(
    ("start", "says"),
    [([1.0, 2.0], "has 10 parameters"), ([np.nan] * 10, "finite numbers"), ("x", "are numbers")],
)
def test_what_is_no_start_is_refused(start, says):
    with pytest.raises(ModelError, match=says):
        example().fit(start_params=start)


def second_within_a_tenth():
    for seed in range(40):
        result = table((2,) * 4, seed, 5, 0.1).fit(**QUIET)
        if result.second_maximum is not None:
            return result
    raise AssertionError("no such table")


def test_a_second_maximum_that_is_nearly_as_high_is_said(tmp_path):
    result = second_within_a_tenth()
    assert 0 <= result.second_maximum < 0.1
    said = " ".join(str(result.summary()).split())
    assert "Another maximum of the likelihood, elsewhere, is only" in said
    result.save(tmp_path / "fit.json")
    assert LogLinearResults.load(tmp_path / "fit.json").second_maximum == result.second_maximum
    assert table((2, 2, 2), 4, 200, 1.0).fit(**QUIET).second_maximum is None


def test_many_fits_at_once_end_as_high_as_single_ones():
    model = table((2,) * 4, 3, 5, 0.1)
    rng = np.random.default_rng(5)
    truth = np.full(16, 5.0)
    noisy = draw_tables(model.cells, truth, 40, rng)
    tables = replicates_of(model.cells, noisy)
    fits = tables.fit(model._design, model._offset, model._flat())
    lower = 0
    for row, loglik in zip(noisy, fits.loglik, strict=True):
        moved = dpc.Release.from_noisy_table(
            row.reshape(model.release.domain.shape), model.release.domain,
            sigma=model.release.sigma, n_total=80,
        )  # fmt: skip
        lower += dpc.LogLinearModel(moved, model.generators).fit(**QUIET).llf > loglik + 1e-3
    assert lower <= 4  # of 40, and the first ends of more
