"""Plans of margin releases: the loss by brute force over neighbours, the variances by dense
algebra, the optimum by an independent solver, and published values.
"""

import json
import math
import pickle
import time
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy.optimize import minimize

from dpcontingency.domain import Domain
from dpcontingency.errors import DomainError, PrivacyError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release import layout, scales
from dpcontingency.release.layout import CLOSED, EXACT, SAFE, Classes, _meetings
from dpcontingency.release.workload import MarginPlan, plan_margins

ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
CPS = (50, 100, 7, 4, 2)
OBJECTIVES = ["total-variance", "max-variance"]


def domain_of(shape):
    return Domain({f"f{i}": list(range(n)) for i, n in enumerate(shape)})


def ways(shape, *orders):
    names = [f"f{i}" for i in range(len(shape))]
    return [m for k in orders for m in combinations(names, k)]


def plan_of(shape, margins, mu=1.0, **options):
    return plan_margins(domain_of(shape), margins, GDP(mu), **options)


def kron(parts):
    return reduce(np.kron, parts, np.eye(1))


def projection(plan, a):
    """P_A on the joint table."""
    sizes = zip(plan.domain.names, plan.domain.shape, strict=True)
    return kron([np.eye(n) - 1 / n if name in a else np.full((n, n), 1 / n) for name, n in sizes])


def summing(plan, margin):
    """The matrix that sums the joint table to a margin, axes in the domain's order."""
    sizes = zip(plan.domain.names, plan.domain.shape, strict=True)
    return kron([np.eye(n) if name in margin else np.ones((1, n)) for name, n in sizes])


# Awkward ones too: not all of an order, factors in no margin, one level, overlap.
CASES = [
    ((2, 3, 4), ways((2, 3, 4), 2)),
    ((2,) * 5, ways((2,) * 5, 2)),
    ((2, 3, 4), [("f2", "f0"), ("f1",)]),
    ((2,) * 5, [("f0", "f1", "f2"), ("f2", "f3"), ("f3", "f4")]),
    ((3, 1, 2, 2), [("f0", "f1", "f2"), ("f3", "f2"), ("f0", "f2")]),
    ((3, 3, 2), [("f0",)]),
]
IDS = ["234", "2^5", "some-234", "chain", "one-level", "single"]


@pytest.mark.parametrize(("shape", "margins"), CASES, ids=IDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_loss_by_brute_force(shape, margins, objective, neighbours):
    """Over every pair of neighbouring tables, from the projections themselves."""
    plan = plan_of(shape, margins, 0.7, objective=objective, neighbours=neighbours)
    p = plan.domain.size
    metric = sum(projection(plan, a) / scale**2 for a, scale in plan.scales.items())
    if neighbours == "add-remove":
        squared = np.diag(metric).max()
        assert plan.bound == CLOSED
    else:
        d = np.diag(metric)
        squared = (d[:, None] + d[None, :] - 2 * metric).max()
        assert plan.bound == EXACT
    assert p == metric.shape[0]
    assert math.sqrt(squared) == pytest.approx(0.7, rel=1e-9)


def exact_loss(plan):
    """mu^2 in rational arithmetic, at the scales as they are: the largest over all patterns."""
    n = dict(zip(plan.domain.names, plan.domain.shape, strict=True))

    def term(a, differ):
        share = math.prod((1 - Fraction(1, n[k]) for k in a), start=Fraction(1))
        meet = math.prod((Fraction(-1, n[k] - 1) for k in a if k in differ), start=Fraction(1))
        return share * (1 - meet) * 2 / Fraction(plan.cell_scales[a]) ** 2

    if plan.neighbours == "add-remove":
        return sum(
            math.prod((1 - Fraction(1, n[k]) for k in a), start=Fraction(1)) / Fraction(s) ** 2
            for a, s in plan.cell_scales.items()
        )
    free = [k for k in n if n[k] > 1]
    patterns = [d for size in range(1, len(free) + 1) for d in combinations(free, size)]
    return max(sum(term(a, d) for a in plan.cell_scales) for d in patterns)


@pytest.mark.parametrize("seed", range(12))
def test_the_loss_is_never_above_the_budget(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, rng.integers(2, 6)))
    if max(shape) == 1:
        shape = (2, *shape)
    pool = ways(shape, 1, 2, 3)
    some = rng.permutation(len(pool))[: rng.integers(1, len(pool) + 1)]
    margins = [pool[i] for i in some]
    several = (f"f{int(np.argmax(shape))}",)
    if several not in margins:  # so that something can change
        margins.append(several)
    for objective, neighbours in product(OBJECTIVES, ["replace-one", "add-remove"]):
        mu = float(rng.uniform(0.01, 3))
        weights = rng.uniform(0.1, 10, len(margins))
        options = {"objective": objective, "neighbours": neighbours, "weights": weights}
        plan = plan_of(shape, margins, mu, **options)
        spent = exact_loss(plan)
        assert spent <= Fraction(mu) ** 2
        assert spent >= Fraction(mu) ** 2 * Fraction(999_999, 1_000_000)


@pytest.mark.parametrize(("shape", "margins"), CASES, ids=IDS)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_variances_by_dense_algebra(shape, margins, neighbours):
    plan = plan_of(shape, margins, neighbours=neighbours)
    covariance = sum(projection(plan, a) * scale**2 for a, scale in plan.scales.items())
    total = 0.0
    for wanted in plan.margins:
        for size in range(1, len(wanted) + 1):
            for margin in combinations(wanted, size):
                onto = summing(plan, margin)
                cells = np.diag(onto @ covariance @ onto.T)
                np.testing.assert_allclose(cells, plan.variance(*margin), rtol=1e-10, atol=1e-12)
                assert plan.sd(*margin) == plan.sd(margin) == math.sqrt(plan.variance(*margin))
        total += plan.variance(*wanted) * plan.domain.project(wanted).size
    assert plan.total_variance == pytest.approx(total, rel=1e-12)
    assert plan.max_variance == max(plan.variance(*m) for m in plan.margins)


# 16551.68 is the minimum on a grid of ratios u_2 / u_1 with the loss over all numbers of factors
# that differ; METHODS 1.5 prints 16550.4.
@pytest.mark.parametrize(
    ("shape", "orders", "total"),
    [
        ((2, 3, 4), [2], 97.93),
        ((2,) * 5, [2], 240.0),
        ((2,) * 8, [2], 1385.9),
        ((10,) * 5, [2], 16551.68),
        ((3,) * 6, [1, 2, 3], 11556.0),
    ],
    ids=str,
)
def test_total_variances_of_methods(shape, orders, total):
    assert plan_of(shape, ways(shape, *orders)).total_variance == pytest.approx(total, rel=5e-5)


# ResidualPlanner (NeurIPS 2023): root mean squared error of a cell at mu = 1.
@pytest.mark.parametrize(
    ("shape", "orders", "rms"),
    [
        (ADULT, [1], 3.047),
        (ADULT, [2], 6.359),
        (ADULT, [3], 10.515),
        (ADULT, [1, 2, 3], 10.665),
        (CPS, [1], 1.744),
        (CPS, [2], 2.035),
        (CPS, [3], 2.048),
    ],
    ids=str,
)
def test_published_errors_under_add_remove(shape, orders, rms):
    plan = plan_of(shape, ways(shape, *orders), neighbours="add-remove")
    cells = sum(plan.domain.project(m).size for m in plan.margins)
    assert math.sqrt(plan.total_variance / cells) == pytest.approx(rms, abs=6e-4)


def test_published_error_with_the_total_among_the_margins():
    """CPS, 0- to 3-way: 2.276. The layout takes the empty margin too."""
    sets = [frozenset(c) for k in range(4) for c in combinations(range(5), k)]
    whole = layout.Layout(CPS, dict.fromkeys(sets, 1.0), with_total=True)
    loss = layout.loss_of(whole, replace_one=False)
    u = scales.best_precisions(whole, loss, "total-variance")
    squared, _ = loss.worst(u)
    value = squared * float(whole.total_weights @ (whole.cell_variances(whole.kinds) @ (1 / u)))
    cells = sum(math.prod(CPS[k] for k in s) for s in sets)
    assert math.sqrt(value / cells) == pytest.approx(2.276, abs=6e-4)


# ------------------------------------------------------------------ the best scales


def by_another_solver(plan):
    """The least objective by SLSQP in the logarithms of u, with a constraint for every pattern."""
    n = dict(zip(plan.domain.names, plan.domain.shape, strict=True))
    sets = list(plan.cell_scales)
    free = [k for k in n if n[k] > 1]
    patterns = [d for size in range(1, len(free) + 1) for d in combinations(free, size)]
    shares = np.array([math.prod(1 - 1 / n[k] for k in a) for a in sets])
    if plan.neighbours == "add-remove":
        rows = shares[None, :]
    else:
        meets = [[math.prod(-1 / (n[k] - 1) for k in a if k in d) for a in sets] for d in patterns]
        rows = 2 * shares * (1 - np.array(meets))
        rows = rows[rows.any(axis=1)]
    adds = np.array(
        [
            [
                w * s * math.prod(n[k] ** -2.0 for k in m if k not in a) * (set(a) <= set(m))
                for a, s in zip(sets, shares, strict=True)
            ]
            for m, w in zip(plan.margins, plan.weights, strict=True)
        ]
    )
    if plan.objective == "total-variance":
        adds = np.array([plan.domain.project(m).size for m in plan.margins]) @ adds
        adds = adds[None, :]
    budget = plan.privacy.mu**2
    start = np.full(len(sets), math.log(budget / rows.sum(axis=1).max()))
    scale = (adds @ np.exp(-start)).max()
    # The last variable is the logarithm of the largest objective.
    found = minimize(
        lambda z: z[-1],
        np.append(start, math.log(scale)),
        jac=lambda z: np.eye(z.size)[-1],
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda z: -np.log(rows @ np.exp(z[:-1]) / budget)},
            {"type": "ineq", "fun": lambda z: z[-1] - np.log(adds @ np.exp(-z[:-1]))},
        ],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.success
    return math.exp(found.x[-1]), float(
        (adds @ np.array([s**2 for s in plan.cell_scales.values()])).max()
    )


@pytest.mark.parametrize(("shape", "margins"), CASES, ids=IDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_another_solver_finds_nothing_better(shape, margins, objective, neighbours):
    weights = [1 + i % 3 for i in range(len(margins))]
    plan = plan_of(shape, margins, objective=objective, neighbours=neighbours, weights=weights)
    best, ours = by_another_solver(plan)
    assert ours == pytest.approx(best, rel=2e-5)


def test_classes_are_only_a_shortcut(monkeypatch):
    shape, margins = (2, 3, 3, 2, 2), ways((2, 3, 3, 2, 2), 2, 3)

    def singles(shape, _):
        return Classes(tuple((i,) for i in range(5)), shape)

    for objective in OBJECTIVES:
        fast = plan_of(shape, margins, objective=objective)
        with monkeypatch.context() as patch:
            patch.setattr(Classes, "of", singles)
            slow = plan_of(shape, margins, objective=objective)
        assert fast.total_variance == pytest.approx(slow.total_variance, rel=2e-6)
        assert fast.max_variance == pytest.approx(slow.max_variance, rel=1e-3)
        assert fast.bound == slow.bound == EXACT


def test_only_exchangeable_factors_share_a_class():
    weights = dict.fromkeys([frozenset({0, 1}), frozenset({1, 2}), frozenset({3, 4})], 1.0)
    classes = Classes.of((2, 2, 2, 2, 2, 2), weights)
    assert classes.members == ((0, 2), (1,), (3, 4))
    assert Classes.of((2, 2, 2, 3, 2), weights).members == ((0, 2), (1,), (3,), (4,))
    weights[frozenset({3, 4})] = 2.0
    assert Classes.of((2,) * 5, weights).members == ((0, 2), (1,), (3, 4))
    weights[frozenset({1, 2})] = 2.0
    assert Classes.of((2,) * 5, weights).members == ((0,), (1,), (2,), (3, 4))


def test_relabelling_changes_nothing():
    levels = {"A": [0, 1], "B": [0, 1, 2], "C": [0, 1, 2, 3], "D": [0, 1]}
    margins = [("A", "B"), ("B", "C"), ("C", "D", "A")]
    plans = [
        plan_margins(Domain({n: levels[n] for n in order}), margins, GDP(1))
        for order in list(permutations(levels))[::4]
    ]
    for plan in plans[1:]:
        for m in margins:
            assert plan.sd(*m) == pytest.approx(plans[0].sd(*m), rel=1e-3)
        assert plan.total_variance == pytest.approx(plans[0].total_variance, rel=2e-6)


def test_a_heavier_margin_is_known_better():
    margins = [("f0", "f1"), ("f1", "f2"), ("f0", "f2")]
    even = plan_of((3, 3, 3), margins)
    heavy = plan_of((3, 3, 3), margins, weights={("f1", "f0"): 20.0})
    assert heavy.weights == (20.0, 1.0, 1.0)
    assert heavy.sd("f0", "f1") < even.sd("f0", "f1") < heavy.sd("f0", "f2")
    worst = plan_of((3, 4, 5), margins, objective="max-variance")
    np.testing.assert_allclose([worst.sd(*m) for m in margins], worst.sd("f0", "f1"), rtol=1e-4)
    assert worst.max_variance <= plan_of((3, 4, 5), margins).max_variance


# ------------------------------------------------------------------ many factors


def test_the_safe_bound_never_understates(monkeypatch):
    for shape, margins in CASES:
        exact = plan_of(shape, margins, 0.9)
        with monkeypatch.context() as patch:
            patch.setattr(layout, "MAX_PATTERNS", 1)
            safe = plan_of(shape, margins, 0.9)
        assert safe.bound == SAFE
        assert exact_loss(safe) <= Fraction(0.9) ** 2
        assert safe.total_variance >= exact.total_variance * (1 - 1e-6)


def test_a_hundred_factors():
    shape = tuple(2 + i % 50 for i in range(100))
    pairs = [(f"f{i}", f"f{i + 1}") for i in range(99)]
    plan = plan_of(shape, [*pairs, ("f0", "f50", "f99")])
    assert plan.bound == SAFE
    assert len(plan.cell_scales) == 100 + 99 + 4
    assert 0 < plan.sd("f98", "f99") < math.inf
    alike = plan_of((10,) * 100, ways((10,) * 100, 1))
    assert alike.bound == EXACT  # exchangeable factors: 101 kinds of disagreement
    # Two records that differ everywhere: 100 margins, sensitivity sqrt 2 in each.
    assert alike.sd("f0") == pytest.approx(math.sqrt(2 * 100) * math.sqrt(0.9), rel=1e-6)


def test_planning_is_quick():
    start = time.perf_counter()
    plan_of((10,) * 20, ways((10,) * 20, 1, 2, 3), neighbours="add-remove")
    middle = time.perf_counter()
    plan = plan_of(ADULT, ways(ADULT, 1, 2, 3))
    end = time.perf_counter()
    assert middle - start < 5
    assert end - middle < 30
    assert plan.bound == EXACT


# ------------------------------------------------------------------ as a value


def test_a_plan_is_plain_data():
    plan = plan_of((2, 3, 4), [("f2", "f0"), ("f1",)], objective="max-variance", weights=[1, 2])
    content = json.loads(json.dumps(plan.to_dict()))
    again = MarginPlan.from_dict(content)
    assert again == plan
    assert again.to_dict() == content
    assert pickle.loads(pickle.dumps(plan)) == plan
    with pytest.raises(TypeError):
        plan.cell_scales[("f0",)] = 0.0
    frame = plan.to_frame()
    assert list(frame["margin"]) == ["f2, f0", "f1"]
    assert list(frame["cells"]) == [8, 3]
    assert list(frame["sd"]) == [plan.sd("f2", "f0"), plan.sd("f1")]


@pytest.mark.parametrize("seed", range(5))
def test_a_read_plan_is_checked(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 5, 4))
    plan = plan_of(shape, ways(shape, 1, 2), float(rng.uniform(0.1, 2)))
    content = plan.to_dict()
    assert MarginPlan.from_dict(content) == plan
    content["scales"][seed][1] *= 1 - 1e-5
    with pytest.raises(PrivacyError, match="spend more than the loss"):
        MarginPlan.from_dict(content)
    with pytest.raises(PrivacyError, match="has no scale"):
        MarginPlan.from_dict({**content, "scales": plan.to_dict()["scales"][1:]})
    odd = [*plan.to_dict()["scales"], [["f0", "f1", "f2"], 3.0]]
    with pytest.raises(PrivacyError, match="of no interaction"):
        MarginPlan.from_dict({**content, "scales": odd})
    with pytest.raises(PrivacyError, match="no known way"):
        MarginPlan.from_dict({**plan.to_dict(), "bound": "by magic"})


@pytest.mark.parametrize(
    ("shape", "margins", "kept", "options"),
    [
        ((2, 2, 2), [("f0",), ("f1",)], ("f0", "f1"), {"weights": [1, 10]}),
        ((2, 2, 2), [("f2",), ("f1", "f2")], ("f1", "f2"), {"neighbours": "add-remove"}),
        ((2,) * 4, [("f0", "f1", "f2", "f3"), ("f0", "f2")], ("f0", "f1", "f2", "f3"), {}),
        ((2, 1), [("f0", "f1")], ("f1",), {}),
    ],
)
def test_a_part_can_be_read_back(shape, margins, kept, options):
    part = plan_of(shape, margins, **options).collapse(kept)
    assert MarginPlan.from_dict(json.loads(json.dumps(part.to_dict()))) == part


@pytest.mark.parametrize("seed", range(300))
def test_every_part_can_be_read_back_and_no_smaller_noise(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 5))
    shape = (2, *rng.integers(1, 4, size - 1)) if seed % 2 else (2,) * size
    pool = ways(shape, *range(1, size + 1))
    margins = [pool[i] for i in rng.permutation(len(pool))[: rng.integers(1, 5)]]
    if not any("f0" in m for m in margins):  # so that something can change
        margins.append(("f0",))
    options = {
        "neighbours": "replace-one" if seed % 3 else "add-remove",
        "objective": OBJECTIVES[seed % 5 == 0],
        "weights": 10 ** rng.uniform(-2, 2, len(margins)) if seed % 4 else None,
    }
    plan = plan_of(shape, margins, float(10 ** rng.uniform(-2, 2)), **options)
    wanted = {name for m in margins for name in m}
    for kept in ways(shape, *range(1, size + 1)):
        if not wanted & set(kept):
            continue
        part = plan.collapse([kept[i] for i in rng.permutation(len(kept))])
        content = part.to_dict()
        assert MarginPlan.from_dict(content) == part
        if not content["scales"]:
            continue
        content["scales"][int(rng.integers(len(content["scales"])))][1] *= 0.999
        less = {tuple(a): s for a, s in content["scales"]}
        # A part spends less than the whole, so it may bear it.
        if exact_loss(replace(part, cell_scales=less)) > Fraction(part.privacy.mu) ** 2:
            with pytest.raises(PrivacyError, match="spend more than the loss"):
                MarginPlan.from_dict(content)
        else:
            assert set(kept) < set(plan.domain.names)
            MarginPlan.from_dict(content)


def test_what_is_not_in_the_plan_is_refused_by_name():
    plan = plan_of((2, 3, 4), [("f0", "f1"), ("f2",)])
    assert plan.sd("f1", "f0") == plan.sd("f0", "f1")
    with pytest.raises(PrivacyError, match=r"margin of f1, f2 lies in none .*\[f0 f1\], \[f2\]"):
        plan.sd("f1", "f2")
    with pytest.raises(DomainError, match="'f9'"):
        plan.sd("f9")


@pytest.mark.parametrize(
    ("margins", "options", "message"),
    [
        ([], {}, "at least one margin"),
        ("f0", {}, r"write \['f0'\]"),
        ([("f0", "f1"), ("f1", "f0")], {}, "f1, f0 is named twice"),
        ([()], {}, "names at least one factor"),
        ([("f3",)], {}, "a single level each"),
        ([("f0",)], {"objective": "mean"}, "no objective 'mean'"),
        ([("f0",)], {"neighbours": "none"}, "no neighbour relation 'none'"),
        ([("f0",)], {"weights": [1, 2]}, "1 margins and 2 weights"),
        ([("f0",)], {"weights": [0]}, "positive finite"),
        ([("f0",)], {"weights": ["x"]}, "positive finite"),
        ([("f0",)], {"weights": {"f1": 2}}, "weight for the margin of f1"),
    ],
)
def test_refusals(margins, options, message):
    with pytest.raises(PrivacyError, match=message):
        plan_of((2, 3, 4, 1), margins, **options)


def test_more_refusals():
    domain = domain_of((2, 3))
    with pytest.raises(DomainError, match="'g'"):
        plan_margins(domain, [("f0", "g")], GDP(1))
    with pytest.raises(PrivacyError, match="GDP object"):
        plan_margins(domain, [("f0",)], 1.0)
    with pytest.raises(PrivacyError, match="is a Domain; got dict"):
        plan_margins({}, [("f0",)], GDP(1))
    with pytest.raises(PrivacyError, match="interactions"):
        plan_of((2,) * 25, [tuple(f"f{i}" for i in range(25))], neighbours="add-remove")
    zeros = Domain({"A": [0, 1], "B": [0, 1], "C": [0, 1]}, structural_zeros=[{"A": 0, "B": 0}])
    with pytest.raises(PrivacyError, match="A, B has structural zeros"):
        plan_margins(zeros, [("A", "B")], GDP(1))
    assert plan_margins(zeros, [("A", "C")], GDP(1)).margins == (("A", "C"),)


def test_a_text_is_one_factor():
    domain = Domain({"A": [0, 1], "AB": [0, 1]})
    assert plan_margins(domain, ["AB", ("A",)], GDP(1)).margins == (("AB",), ("A",))
    with pytest.raises(DomainError, match="'BA'"):
        plan_margins(domain, ["BA"], GDP(1))


def test_a_plan_says_what_it_is():
    plan = plan_of((2, 3), [("f0", "f1")], 0.5)
    assert repr(plan) == (
        "<MarginPlan 1 margin, 3 interactions; mu = 0.5 (replace-one); SD of a cell 2.58>"
    )
    said = plan.statement()
    assert said["Loss"] == EXACT
    assert said["Public"] == "the number of records"
    assert "mu = 0.5" in said["Privacy"]


def test_many_factors_that_are_alike_are_planned_at_once():
    """300 one-way margins, and counts of sets that no float holds."""
    domain = Domain({f"q{k}": [0, 1] for k in range(1500)})
    names = domain.names
    plan = plan_margins(domain, [(name,) for name in names[:300]], GDP(1))
    # n independent binary margins: two records differ in all of them at worst.
    assert plan.variance("q0") == pytest.approx(300, rel=1e-9)
    assert plan_margins(domain, names, GDP(1)).variance("q0") == pytest.approx(1500, rel=1e-9)
    with pytest.raises(PrivacyError, match=r"more than 10\^451 interactions"):
        plan_margins(domain, [names], GDP(1))
    wide = Domain({f"w{k}": list(range(1000)) for k in range(40)})
    with pytest.raises(PrivacyError, match=r"cells|interactions"):
        plan_margins(wide, [wide.names], GDP(1))


@pytest.mark.parametrize("r", [-1.0, -0.25])
def test_meetings_are_counted(r):

    m, most = 6, 3
    expected = [
        [
            sum(r ** len(set(a) & set(range(d))) for a in combinations(range(m), size))
            for d in range(m + 1)
        ]
        for size in range(most + 1)
    ]
    np.testing.assert_allclose(_meetings(m, most, r), expected, atol=1e-12)


def test_factors_of_one_level_cost_nothing():
    domain = Domain({**{f"one{k}": ["x"] for k in range(60)}, "A": [0, 1], "B": [0, 1, 2]})
    plan = plan_margins(domain, [domain.names], GDP(1))
    alone = plan_margins(domain.project(["A", "B"]), [("A", "B")], GDP(1))
    assert plan.sd(*domain.names) == pytest.approx(alone.sd("A", "B"), rel=1e-9)
    assert plan.total_variance == pytest.approx(alone.total_variance, rel=1e-9)


def test_a_plan_over_levels_that_were_observed_says_so():
    observed = Domain.from_dict({**Domain({"A": [0, 1]}).to_dict(), "observed": True})
    plan = plan_margins(observed, ["A"], GDP(1))
    assert "NOT PRIVATE: levels read off the records" in repr(plan)
    assert plan.statement()["Privacy"].startswith("NOT PRIVATE: levels read off the records")
    public = plan_margins(Domain({"A": [0, 1]}), ["A"], GDP(1))
    assert "NOT PRIVATE" not in repr(public) + public.statement()["Privacy"]
