"""The O(p) score statistics equal the dense quadratic forms."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from dpcontingency.domain import Domain
from dpcontingency.inference.design import HierarchicalDesign
from dpcontingency.inference.gaussian import (
    gaussian_score,
    nested_score_statistic,
    score_statistic,
)
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release


def covariance(part, strata):
    """Independent variances, given zero sum in each stratum; dense."""
    if strata is None:
        return np.diag(part)
    out = np.zeros((part.size, part.size))
    for g in range(strata.max() + 1):
        inside = np.where(strata == g, part, 0.0)
        if inside.sum() > 0:
            out += np.diag(inside) - np.outer(inside, inside) / inside.sum()
    return out


def inverse(fitted, variances, strata):
    sigma = covariance(fitted, strata) + covariance(variances, strata)
    return np.linalg.pinv(sigma, 1e-12, hermitian=True)


def dense(residual, fitted, variances, strata):
    return residual @ inverse(fitted, variances, strata) @ residual


def variances_of(noise, rng):
    return {
        "equal": np.full(12, 9.0),
        "unequal": rng.uniform(0.5, 40, size=12),
        "none": np.zeros(12),
        "some cells exact": rng.uniform(0.5, 40, size=12) * (rng.random(12) < 0.6),
    }[noise]


@pytest.mark.parametrize("groups", [None, 1, 3])
@pytest.mark.parametrize("noise", ["equal", "unequal", "none", "some cells exact"])
def test_equals_the_dense_form(groups, noise):
    rng = np.random.default_rng(6)
    fitted = rng.uniform(1, 30, size=12)
    variances = variances_of(noise, rng)
    strata = None if groups is None else np.arange(12) % groups
    residual = rng.normal(scale=5, size=12)
    if strata is not None:
        residual -= (np.bincount(strata, residual) / np.bincount(strata))[strata]
    expected = dense(residual, fitted, variances, strata)
    assert score_statistic(residual, fitted, variances, strata) == pytest.approx(expected)


def test_a_record_where_the_model_has_none_is_infinitely_bad():
    cells = np.array([0.0, 4.0, 6.0])
    assert score_statistic(np.array([1.0, -1, 0]), cells, np.zeros(3), None) == np.inf
    assert score_statistic(np.array([0.0, 0, 0]), cells, np.zeros(3), None) == 0


@pytest.mark.parametrize("groups", [None, 1, 3])
@pytest.mark.parametrize("noise", ["equal", "unequal", "some cells exact"])
@pytest.mark.parametrize("seed", range(4))
def test_what_no_counts_can_mend_is_no_misfit(groups, noise, seed):
    """Of cells at 0: the form less its least value over means that are raised there."""
    rng = np.random.default_rng(seed)
    fitted = rng.uniform(1, 30, size=12) * (rng.random(12) < 0.5)
    variances = variances_of(noise, rng)
    fitted[:3], variances[:3] = 5.0, 8.0  # a noisy cell in each stratum that takes up the rest
    strata = None if groups is None else np.arange(12) % groups
    residual = rng.normal(scale=5, size=12) * (fitted + variances > 0)
    if strata is not None:
        sizes = np.maximum(np.bincount(strata, fitted + variances > 0), 1)
        residual -= (np.bincount(strata, residual) / sizes)[strata] * (fitted + variances > 0)
    values, vectors = np.linalg.eigh(inverse(fitted, variances, strata))
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    at_zero = (fitted == 0) & (variances > 0)
    bounds = np.where(at_zero, 0.0, -np.inf)
    sums = np.zeros((1, 12)) if strata is None else 1e4 * np.eye(strata.max() + 1)[:, strata]
    aim = np.concatenate([root @ residual, np.zeros(len(sums))])
    free = fitted + variances > 0  # of an exact cell at 0 nothing is left to move
    moves = np.vstack([root, sums])[:, free]
    best = lsq_linear(moves, aim, (bounds[free], np.inf), tol=1e-14)
    expected = dense(residual, fitted, variances, strata) - 2 * best.cost
    found = score_statistic(residual, fitted, variances, strata)
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("options", [{}, {"n_total": 3}])
def test_a_table_below_zero_is_no_evidence_against_independence(options):
    values = np.array([[-10.0, -6.0], [-7.0, -12.0]])
    if options:  # one cell holds the records and noise has pulled the others down
        values = np.array([[15.0, -4.0], [-5.0, -3.0]])
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    release = Release.from_noisy_table(
        values, domain, sigma=4.0, neighbours="add-remove", **options
    )
    fit = LogLinearModel(release, "[A][B]").fit(warn_convergence=False)
    assert not fit.existence.exists
    assert fit.pearson_chi2 == pytest.approx(fit.deviance, abs=0.2)
    held = LogLinearModel(release, "[A][B]").fit(penalty="jeffreys")
    assert held.pearson_chi2 < 2  # nor does the penalty's pull on the margins count


def test_records_where_the_model_has_none_are_as_much_evidence_as_ever():
    residual = np.array([20.0, -6.0, -7.0, -12.0])
    assert score_statistic(residual, np.zeros(4), np.full(4, 16.0), None) == 25


# -- against a larger model -----------------------------------------------------------------------

TERMS = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]


@pytest.mark.parametrize("strata", [None, (), (1,)], ids=str)
@pytest.mark.parametrize("noise", ["equal", "unequal", "none", "some cells exact"])
@pytest.mark.parametrize("terms", [TERMS[:3], TERMS[:5], TERMS], ids=["main", "some", "all"])
def test_nested_statistic_equals_dense_algebra(strata, noise, terms):
    rng = np.random.default_rng(9)
    fitted, variances = rng.uniform(1, 30, size=12), variances_of(noise, rng)
    residual = rng.normal(scale=5, size=12)
    labels, free = None, [(), *terms]
    if strata is not None:
        labels = (np.arange(12) // 2) % 3 if strata else np.zeros(12, dtype=np.intp)
        residual -= (np.bincount(labels, residual) / np.bincount(labels))[labels]
        free = [term for term in terms if term != strata]
    design = HierarchicalDesign((2, 3, 2), free, strata or ())
    x, v = design.matrix().toarray(), covariance(fitted, labels)
    weights = inverse(fitted, variances, labels)
    u = x.T @ v @ weights @ residual
    np.testing.assert_allclose(
        design.tdot(gaussian_score(residual, fitted, variances, labels).cells), u, atol=1e-9
    )
    expected = u @ np.linalg.inv(x.T @ v @ weights @ v @ x) @ u
    found = nested_score_statistic(residual, fitted, variances, labels, design)
    assert found == pytest.approx(expected, rel=1e-8)
    if len(terms) == len(TERMS):
        assert found == pytest.approx(score_statistic(residual, fitted, variances, labels))


@pytest.mark.parametrize("method", ["ml", "normal"])
def test_against_the_saturated_model_it_is_the_statistic_of_the_fit(method):
    rng = np.random.default_rng(3)
    counts = rng.multinomial(500, np.full(12, 1 / 12)).reshape(2, 3, 2)
    domain = Domain({"A": [0, 1], "B": [0, 1, 2], "C": [0, 1]})
    for release in (
        Release.exact(counts, domain),
        simulate_release(counts, domain, GDP(0.4), rng, strata=["B"]),
        simulate_release(counts, domain, GDP(0.4), rng, neighbours="add-remove"),
    ):
        fit = LogLinearModel(release, "[A][B][C]").fit(method=method)
        larger = LogLinearModel(release, "[ABC]")
        cells, mean = larger.cells, fit.fittedvalues.to_numpy()
        law = (cells.noisy - mean, mean, cells.variances, cells.strata)
        assert nested_score_statistic(*law, larger._design) == pytest.approx(fit.pearson_chi2)
        between = LogLinearModel(release, "[AB][C]")._design
        assert 0 < nested_score_statistic(*law, between) < fit.pearson_chi2
        own = 0.0 if method == "normal" or release.noise.is_exact else 1.0
        assert nested_score_statistic(*law, fit.model._design) == pytest.approx(0, abs=own + 1e-9)


def test_columns_that_say_nothing_change_nothing():
    """Cells of mean 0, and columns that are combinations of others there."""
    rng = np.random.default_rng(4)
    fitted = rng.uniform(5, 30, size=12) * (np.arange(12) % 6 > 0)
    residual = np.where(fitted > 0, rng.normal(scale=5, size=12), 0.0)
    whole = HierarchicalDesign((2, 3, 2), [(), *TERMS])
    alive = fitted > 0
    found = nested_score_statistic(residual, fitted, np.zeros(12), None, whole)
    assert found == pytest.approx((residual[alive] ** 2 / fitted[alive]).sum())
    residual[0] = 1.0
    assert nested_score_statistic(residual, fitted, np.zeros(12), None, whole) == np.inf
    assert nested_score_statistic(residual, fitted, np.ones(12), None, whole) < np.inf
    nothing = HierarchicalDesign((2, 3, 2), [])
    assert nested_score_statistic(residual, fitted, np.ones(12), None, nothing) == 0
