"""Junction trees: everything they say against the joint table, written down."""

from itertools import combinations, permutations

import numpy as np
import pytest

from dpcontingency.inference.junction import JunctionTree

SHAPES = {
    "chain": ((2, 3, 2, 2, 3), [(0, 1), (1, 2), (2, 3), (3, 4)]),
    "cycle": ((2, 3, 2, 2), [(0, 1), (1, 2), (2, 3), (0, 3)]),
    "forest with one level": ((2, 3, 2, 2, 1, 3), [(0, 1), (3,), (2, 5)]),
    "star": ((2, 2, 3, 2), [(0, 1), (0, 2), (0, 3)]),
    "wide separator": ((2, 2, 3, 2), [(0, 1, 2), (1, 2, 3)]),
    "no set": ((2, 3), []),
    "one factor": ((3,), [(0,)]),
}


def joint_of(tree, parts):
    """The sum of clique tables, over the joint table; leading axes stay."""
    ahead = parts.shape[:-1]
    out = np.zeros((*ahead, *tree.shape))
    for place, clique in zip(tree.places, tree.cliques, strict=True):
        sizes = [n if k in clique else 1 for k, n in enumerate(tree.shape)]
        out = out + parts[..., place].reshape(*ahead, *sizes)
    return out


def margin_of(table, axes):
    out = table.sum(axis=tuple(k for k in range(table.ndim) if k not in axes))
    return out.transpose([sorted(axes).index(k) for k in axes])


def cliques_of(tree, table):
    return np.concatenate([margin_of(table, clique).ravel() for clique in tree.cliques])


@pytest.fixture(params=SHAPES)
def tree(request):
    return JunctionTree(*SHAPES[request.param])


@pytest.fixture(params=["all cells", "dead cells"])
def logs(request, tree):
    rng = np.random.default_rng(3)
    values = 3 * rng.normal(size=tree.size)
    if request.param == "dead cells":
        for place in tree.places:
            if place.stop - place.start > 1:
                values[place.start + rng.integers(place.stop - place.start)] = -np.inf
    return values


def test_the_cliques_hold_the_sets_and_run_along_the_tree(tree):
    axes = {axis for clique in tree.cliques for axis in clique}
    assert axes == set(range(len(tree.shape)))
    assert len(tree.edges) == len(tree.cliques) - 1
    parents = {edge.child: edge.parent for edge in tree.edges}
    for (
        axis
    ) in axes:  # the cliques that hold an axis hang together: one of them has no parent in it
        inside = [i for i, clique in enumerate(tree.cliques) if axis in clique]
        tops = [i for i in inside if parents.get(i) not in inside]
        assert len(tops) == 1
    assert not any(set(a) <= set(b) for a, b in permutations(tree.cliques, 2))


def test_a_chordal_graph_gets_no_links():
    rng = np.random.default_rng(1)
    for _ in range(20):  # cliques that grow out of parts of earlier ones
        sets = [tuple(range(3))]
        for new in range(3, 12):
            old = sets[rng.integers(len(sets))]
            kept = rng.permutation(old)[: rng.integers(1, 3)]
            sets.append((*map(int, kept), new))
        linked = {frozenset(pair) for one in sets for pair in combinations(one, 2)}
        tree = JunctionTree([2] * 12, sets)
        assert {frozenset(p) for clique in tree.cliques for p in combinations(clique, 2)} == linked


def test_sums_and_margins(tree, logs):
    table = np.exp(joint_of(tree, logs))
    log_sum, margins = tree.sums(logs)
    assert log_sum == pytest.approx(np.log(table.sum()), abs=1e-12)
    np.testing.assert_allclose(margins, cliques_of(tree, table / table.sum()), atol=1e-14)
    for size in range(len(tree.shape) + 1):
        for axes in permutations(range(len(tree.shape)), size):
            np.testing.assert_allclose(
                tree.margin(7 * margins, axes), margin_of(7 * table / table.sum(), axes), atol=1e-13
            )


def test_expectations(tree, logs):
    table = np.exp(joint_of(tree, logs))
    _, margins = tree.sums(logs)
    functions = np.random.default_rng(4).normal(size=(3, tree.size))
    weighted = [cliques_of(tree, g * table / table.sum()) for g in joint_of(tree, functions)]
    expected = np.divide(weighted, margins, out=np.zeros((3, tree.size)), where=margins > 0)
    np.testing.assert_allclose(tree.expectations(margins, functions), expected, atol=1e-12)


def test_extreme_logs_neither_overflow_nor_vanish():
    tree = JunctionTree([2] * 50, [(k, k + 1) for k in range(49)])
    logs = np.tile([-800.0, 800.0, 800.0, -800.0], 49)
    log_sum, margins = tree.sums(logs)
    assert log_sum == pytest.approx(49 * 800 + np.log(2))
    np.testing.assert_allclose(margins, np.tile([0, 0.5, 0.5, 0], 49), atol=1e-12)


def test_sizes_are_exact_before_anything_is_built():
    tree = JunctionTree([10] * 120, combinations(range(120), 2))
    assert tree.size == tree.largest == 10**120
    assert JunctionTree([10] * 120, [(k, k + 1) for k in range(119)]).size == 119 * 100
