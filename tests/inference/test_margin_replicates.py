"""The bootstrap of released margins: its draws, its fits all at once, and its p-values."""

import numpy as np
import pytest

from dpcontingency.domain import Domain
from dpcontingency.inference import margin_space
from dpcontingency.inference.bootstrap import draw_tables
from dpcontingency.inference.hypothesis import independence_test, model_test
from dpcontingency.inference.interactions import InteractionLikelihood
from dpcontingency.inference.junction import JunctionTree
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.margin_replicates import InteractionReplicates
from dpcontingency.inference.naive import noise_ignored
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish_margins import simulate_margins

DOMAIN = Domain({"A": [0, 1, 2], "B": [0, 1], "C": [0, 1]})
MARGINS = [("A", "B"), ("B", "C")]
COUNTS = np.random.default_rng(5).integers(5, 60, DOMAIN.shape)
BOTH = ["replace-one", "add-remove"]


def released(mu, neighbours="replace-one"):
    rng = np.random.default_rng(1)
    return simulate_margins(COUNTS, DOMAIN, MARGINS, GDP(mu), rng, neighbours=neighbours)


@pytest.mark.parametrize("neighbours", BOTH)
def test_all_at_once_are_the_fits_one_by_one(neighbours):
    model = LogLinearModel(released(0.1, neighbours), [("A",), ("B", "C")])
    fit = model.fit(warn_convergence=False)
    drawn = draw_tables(model.cells, fit._fit.fitted, 25, np.random.default_rng(2))
    together, apart = (InteractionReplicates(model.cells, drawn) for _ in range(2))
    assert together.together
    apart.together = False
    start = model.classical_fit(fit._fit.fitted)
    for call in (
        lambda tables: tables.saturated(),
        lambda tables: tables.fit(model._design, model._offset, start),
    ):
        ours, theirs = call(together), call(apart)
        assert theirs.converged.all()
        assert ours.converged.all()
        np.testing.assert_allclose(ours.loglik, theirs.loglik, atol=1e-5)
        np.testing.assert_allclose(ours.fitted, theirs.fitted, atol=0.02)


@pytest.mark.parametrize("by_tree", [False, True])
@pytest.mark.parametrize("neighbours", BOTH)
def test_draws_have_the_law_of_the_release(monkeypatch, neighbours, by_tree):
    release = released(0.3, neighbours)
    if by_tree:
        monkeypatch.setattr(margin_space, "MAX_CELLS", 1)
    cells = InteractionLikelihood(release)
    assert cells.space.is_joint != by_tree
    log_rates = np.random.default_rng(3).normal(size=cells.space.size) + 3
    means = cells.at(log_rates).fitted
    n = 4_000
    drawn = draw_tables(cells, means, n, np.random.default_rng(4))
    expected = cells.covariance + cells.spread(means)
    error = np.sqrt(np.diag(expected) / n)
    assert (np.abs(drawn.mean(axis=0) - cells.design.tdot(means)) < 5 * error).all()
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(np.cov(drawn.T) / scale, expected / scale, atol=5 / np.sqrt(n))


def test_drawn_cliques_agree():
    tree = JunctionTree((2, 3, 2, 2), [(0, 1), (1, 2), (3,)])
    _, margins = tree.sums(np.random.default_rng(1).normal(size=tree.size))
    counts = tree.drawn(500 * margins, 500, np.random.default_rng(2))
    parts = {
        c: counts[p].reshape([tree.shape[k] for k in c])
        for c, p in zip(tree.cliques, tree.places, strict=True)
    }
    assert all(part.sum() == 500 for part in parts.values())
    np.testing.assert_array_equal(parts[0, 1].sum(axis=0), parts[1, 2].sum(axis=1))


@pytest.mark.parametrize("statistic", ["lr", "score"])
def test_where_nothing_is_in_doubt_it_agrees_with_chi_square(statistic):
    release = released(2.0)
    options = {"statistic": statistic, "rng": 5, "n_boot": 399}
    for test in (
        lambda p: independence_test(release, "B", "C", pvalue=p, **options),
        lambda p: model_test(LogLinearModel(release, [("A",), ("B", "C")]), pvalue=p, **options),
    ):
        asymptotic, boot = test("asymptotic"), test("bootstrap")
        assert boot.n_boot == 399
        assert boot.statistic == asymptotic.statistic
        error = np.sqrt(asymptotic.pvalue * (1 - asymptotic.pvalue) / 399) + 1 / 400
        assert abs(boot.pvalue - asymptotic.pvalue) < 4 * error
        assert test("bootstrap").pvalue == boot.pvalue
    chosen = independence_test(release, "B", "C")
    assert chosen.n_boot is None
    assert noise_ignored(chosen) is None


def test_on_a_junction_tree(monkeypatch):
    release = released(0.5)
    monkeypatch.setattr(margin_space, "MAX_CELLS", 1)
    model = LogLinearModel(release, [("A",), ("B", "C")])
    test = model_test(model, pvalue="bootstrap", n_boot=39, rng=1)
    asymptotic = model_test(model, pvalue="asymptotic")
    assert test.statistic == asymptotic.statistic
    assert abs(test.pvalue - asymptotic.pvalue) < 0.3
