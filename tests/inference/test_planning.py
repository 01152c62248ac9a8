"""Planning: closed forms, the plain way on every test, inverses, and simulation."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from statsmodels.stats.gof import chisquare_effectsize
from statsmodels.stats.power import GofChisquarePower

import dpcontingency as dpc
from dpcontingency.domain import Domain
from dpcontingency.errors import DomainError, ModelError, PlanningWarning, PrivacyError
from dpcontingency.inference import nulls
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.inference.planning import power, two_by_two
from dpcontingency.inference.plans import Plan
from dpcontingency.inference.questions import TESTS
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.noise import GaussianNoise
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

TWO = Domain({"A": ["a", "b"], "B": ["u", "v"]})
LEVELS = ["x", "y", "z"]
THREE = Domain({"A": LEVELS, "B": LEVELS}, ordered=["A", "B"])
CUBE = Domain({"A": ["a", "b"], "B": ["u", "v"], "G": LEVELS})

SQUARE = np.array([[0.20, 0.09, 0.06], [0.06, 0.22, 0.08], [0.04, 0.05, 0.20]])
STRATA = np.stack([two_by_two(r, 0.4, 0.3 + 0.1 * k) for k, r in enumerate((0.8, 1.5, 3))], -1) / 3

QUESTIONS = [
    ("independence", TWO, two_by_two(1.5, 0.4, 0.3), {}, 1),
    ("independence", THREE, SQUARE, {}, 4),
    ("independence", CUBE, STRATA, {}, 7),  # mutual
    ("independence", CUBE, STRATA, {"factors": [("A", "B"), "G"]}, 6),  # joint
    ("independence", CUBE, STRATA, {"given": ["G"]}, 3),
    ("independence", CUBE, STRATA, {"factors": ["A", "B"]}, 1),  # a margin
    ("homogeneity", THREE, SQUARE, {"strata": ["A"]}, 4),
    ("goodness-of-fit", THREE, SQUARE, {"null": np.full((3, 3), 1 / 9)}, 8),
    ("goodness-of-fit", THREE, SQUARE, {"null": np.full((3, 3), 1 / 9), "strata": ["A"]}, 6),
    ("symmetry", THREE, SQUARE, {}, 3),
    ("marginal-homogeneity", THREE, SQUARE, {}, 2),
    ("trend", THREE, SQUARE, {}, 1),
    ("cmh", CUBE, STRATA, {"given": ["G"]}, 1),
    ("no-three-way", CUBE, STRATA, {"given": ["G"]}, 2),
    ("model", CUBE, STRATA, {"model": "[AG][BG]"}, 3),
]


def test_every_test_is_asked_about():
    assert {question[0] for question in QUESTIONS} == set(TESTS)


# ------------------------------------------------------------------ noncentralities


@pytest.mark.parametrize("mu", [0.05, 0.3, 2.0])
def test_two_by_two_in_closed_form(mu):
    # METHODS 2.3: 16 n^2 d^2 / (n + 4 sigma^2), sigma = root 2 / mu.
    n, d = 1500, 0.02
    table = np.array([[0.25 + d, 0.25 - d], [0.25 - d, 0.25 + d]])
    (row,) = dpc.power_curve(TWO, table, n, mu).itertuples()
    assert row.noncentrality == pytest.approx(16 * n**2 * d**2 / (n + 8 / mu**2), rel=1e-9)
    assert row.noise_sd == pytest.approx(math.sqrt(2) / mu)


def test_the_power_of_a_chi_square_without_noise():
    null = np.full((3, 3), 1 / 9)
    effect = chisquare_effectsize(null.ravel(), SQUARE.ravel())
    expected = GofChisquarePower().power(effect, 60, 0.01, n_bins=9)
    found = power(THREE, SQUARE, 60, None, "goodness-of-fit", 0.01, null=null)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("test", "domain", "table", "options", "df"), QUESTIONS)
def test_the_noncentrality_is_the_least_distance_to_the_null(
    test, domain, table, options, df, neighbours
):
    # delta' Sigma^- delta minimised over the tangent of the null, by dense least squares.
    if neighbours == "add-remove":
        if "strata" in options:
            return
        options = {**options, "neighbours": neighbours}
    plan = Plan.of(domain, table, test, 0.05, options)
    assert plan.df == df
    n, sigma = 800, 9.0
    law = plan.law(n, sigma)
    inverse = np.linalg.pinv(law.covariance(), 1e-11, hermitian=True)
    values, vectors = np.linalg.eigh(inverse)
    root = (vectors * np.sqrt(np.maximum(values, 0))).T
    sampling = dense_sampling(law)
    null = plan.null
    free = sampling @ null.columns if null.in_logs else null.columns
    shift = n * (plan.alternative - null.nearest)

    def left(columns):
        columns = columns[:, np.abs(columns).max(axis=0) > 1e-9]
        fit = np.linalg.lstsq(root @ columns, root @ shift, rcond=1e-10)[0]
        return np.sum((root @ (shift - columns @ fit)) ** 2)

    expected = left(free)
    if null.more is not None:
        expected -= left(np.hstack([free, sampling @ null.more]))
    assert plan.noncentrality(n, sigma) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert plan.noncentrality(n, 0.0) > plan.noncentrality(n, sigma) > 0
    assert power(domain, table, n, GDP(0.2), test, **options) <= power(
        domain, table, n, None, test, **options
    )


def dense_sampling(law):
    mean = law.mean
    if law.strata is None:
        return np.diag(mean)
    same = law.strata[:, None] == law.strata[None, :]
    total = np.array([mean[law.strata == g].sum() for g in law.strata])
    return np.diag(mean) - np.where(same, np.outer(mean, mean / total), 0)


def divergence(table, null):
    return float(np.sum(table * np.log(table / null)))


def test_the_nearest_null_is_the_projection():
    # Against a general optimiser over the cell probabilities.
    index = np.arange(3)
    constraints = {
        "symmetric": lambda p: (p - p.T)[np.triu_indices(3, 1)],
        "marginally_homogeneous": lambda p: (p.sum(0) - p.sum(1))[:2],
    }
    for name, equal in constraints.items():
        nearest = getattr(nulls, name)(SQUARE).nearest.reshape(3, 3)
        assert nearest.sum() == pytest.approx(1)
        assert np.abs(equal(nearest)).max() < 1e-10
        found = minimize(
            lambda p: divergence(SQUARE, p.reshape(3, 3)),
            np.full(9, 1 / 9),
            bounds=[(1e-6, 1)] * 9,
            constraints=[
                {"type": "eq", "fun": lambda p: p.sum() - 1},
                {"type": "eq", "fun": lambda p, equal=equal: equal(p.reshape(3, 3))},
            ],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert nearest == pytest.approx(found.x.reshape(3, 3), abs=1e-5)
    margins = np.outer(SQUARE.sum(1), SQUARE.sum(0))
    plan = Plan.of(THREE, SQUARE, "independence", 0.05, {})
    assert plan.null.nearest.reshape(3, 3)[index, index] == pytest.approx(np.diag(margins))


def test_mcnemar_without_noise():
    # Symmetry and marginal homogeneity are one thing in a 2 x 2 table: n (b - c)^2 / (b + c).
    table = np.array([[0.4, 0.25], [0.15, 0.2]])
    domain = Domain({"A": ["yes", "no"], "B": ["yes", "no"]})
    for test in ("symmetry", "marginal-homogeneity"):
        plan = Plan.of(domain, table, test, 0.05, {})
        assert plan.noncentrality(300, 0.0) == pytest.approx(300 * 0.1**2 / 0.4, rel=1e-9)


def test_the_trend_sees_with_one_df_what_is_linear():
    table = np.outer([0.2, 0.3, 0.5], [0.3, 0.3, 0.4])
    table = table * np.exp(0.1 * np.outer([-1, 0, 1], [-1, 0, 1]))
    table /= table.sum()
    trend = Plan.of(THREE, table, "trend", 0.05, {})
    general = Plan.of(THREE, table, "independence", 0.05, {})
    assert trend.noncentrality(1000, 5.0) == pytest.approx(
        general.noncentrality(1000, 5.0), rel=0.02
    )
    assert power(THREE, table, 1000, GDP(0.3), "trend") > power(THREE, table, 1000, GDP(0.3))


def test_the_noise_is_that_of_the_margin():
    # Two of four factors: each cell of the margin sums 2 x 3 noisy ones.
    domain = Domain({**TWO.levels, "C": ["c", "d"], "E": LEVELS})
    table = two_by_two(1.5)[..., None, None] * np.full((2, 3), 1 / 6)
    found = power(domain, table, 2000, GDP(0.2), factors=["B", "A"])
    same = power(TWO, two_by_two(1.5), 2000, GDP(0.2 / math.sqrt(6)))
    assert found == pytest.approx(same, rel=1e-9)


def test_relabelling_changes_nothing():
    order = [2, 0, 1]
    for test in ("independence", "symmetry", "marginal-homogeneity"):
        one = power(THREE, SQUARE, 400, GDP(0.3), test)
        other = power(THREE, SQUARE[np.ix_(order, order)], 400, GDP(0.3), test)
        assert other == pytest.approx(one, rel=1e-9)


def test_structural_zeros_are_no_cells():
    domain = Domain(
        {"A": LEVELS, "B": LEVELS},
        structural_zeros=[{"A": level, "B": level} for level in LEVELS],
    )
    off = np.where(np.eye(3) > 0, 0, SQUARE)
    off /= off.sum()
    plan = Plan.of(domain, off, "symmetry", 0.05, {})
    assert plan.df == 3  # Bowker's test does not look at the diagonal
    assert isinstance(plan.noise, GaussianNoise)
    assert not plan.noise.variances[np.eye(3) > 0].any()
    assert plan.noncentrality(400, 5.0) > 0


# ------------------------------------------------------------------ inverses


@pytest.mark.filterwarnings("ignore:The power is rough")
@pytest.mark.parametrize(("test", "domain", "table", "options", "df"), QUESTIONS[:6])
def test_the_inverses_reach_the_power_and_no_more(test, domain, table, options, df):
    n = dpc.minimum_n(domain, table, GDP(0.2), 0.9, test, **options)
    assert power(domain, table, n, GDP(0.2), test, **options) >= 0.9
    assert power(domain, table, n - 1, GDP(0.2), test, **options) < 0.9
    mu = dpc.minimum_mu(domain, table, 3 * n, 0.9, test, **options)
    assert power(domain, table, 3 * n, GDP(mu), test, **options) >= 0.9
    assert power(domain, table, 3 * n, GDP(mu * (1 - 1e-4)), test, **options) < 0.9
    assert len(f"{mu:.10g}".replace(".", "").lstrip("0")) <= 5


def test_a_plan_says_where_the_chi_square_power_is_rough():
    # 9 cells of about 18 records behind noise of sd 7.1: the tests themselves take a bootstrap.
    for call in (
        lambda: power(THREE, SQUARE, 159, GDP(0.2)),
        lambda: dpc.minimum_mu(THREE, SQUARE, 159, 0.9),
        lambda: dpc.minimum_n(THREE, SQUARE, GDP(0.2), 0.9),
    ):
        with pytest.warns(PlanningWarning, match="9 of 9 cells .* often higher") as said:
            call()
        assert len(said) == 1
    curve = dpc.power_curve(THREE, SQUARE, [159, 5000], [0.2, math.inf])
    assert list(curve.attrs["notes"]) == [0]
    assert "often higher" in curve.attrs["notes"][0]
    release = Release.from_noisy_table(159 * SQUARE, THREE, sigma=7.07, n_total=159)
    assert independence_test(release, "A", "B", n_boot=9, rng=0).n_boot == 9
    # Nothing is said (and a warning would be an error) where chi-square holds, or without noise.
    power(THREE, SQUARE, 5000, GDP(0.2))
    power(THREE, SQUARE, 30, None)
    # One odds ratio for all strata is seen in the margin, whose cells are not faint.
    power(CUBE, STRATA, 700, GDP(0.12), "cmh", given=["G"])
    with pytest.warns(PlanningWarning, match="12 cells"):
        power(CUBE, STRATA, 700, GDP(0.12), given=["G"])


def test_what_cannot_be_reached_is_refused():
    with pytest.raises(ModelError, match="at least 770 records"):
        dpc.minimum_mu(TWO, two_by_two(1.5), 300)
    for call in (
        lambda: dpc.minimum_mu(TWO, two_by_two(1.0, 0.3, 0.4), 300),
        lambda: dpc.minimum_n(TWO, two_by_two(1.0, 0.3, 0.4), GDP(1)),
    ):
        with pytest.raises(ModelError, match="inside the null"):
            call()
    with pytest.warns(PlanningWarning, match="the power is the level, 0.05"):
        assert power(TWO, two_by_two(1.0), 300, GDP(1)) == pytest.approx(0.05)
    with pytest.warns(PlanningWarning, match="nothing to see"):
        frame = dpc.power_curve(TWO, two_by_two(1.0), 300, [0.1, 1], alpha=0.1)
    assert frame["power"].to_list() == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize("odd", ["x", None, [0.1], True, np.array([0.1])], ids=repr)
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda odd: power(TWO, two_by_two(2), 300, GDP(1), alpha=odd), "alpha is the level"),
        (lambda odd: power(TWO, two_by_two(2), odd, GDP(1)), "n is a number of records"),
        (lambda odd: power(TWO, odd, 300, GDP(1)), "is an array of cell probabilities"),
        (lambda odd: power(TWO, two_by_two(2), 300, GDP(1), odd), "no test"),
        (lambda odd: dpc.minimum_mu(TWO, two_by_two(2), 300, odd), "The power wanted"),
        (two_by_two, "An odds ratio to plan with"),
        (lambda odd: two_by_two(2, odd), "row is the probability"),
        (lambda odd: two_by_two(2, 0.5, odd), "column is the probability"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused_in_a_sentence(call, said, odd):
    with pytest.raises(ModelError, match=said):
        call(odd)


def test_grids_and_factors_of_a_wrong_type_are_refused_in_a_sentence():
    for n, mu in (("many", 1), (300, "much")):
        with pytest.raises(ModelError, match="a number or a sequence of numbers; got 'm"):
            dpc.power_curve(TWO, two_by_two(2), n, mu)
    with pytest.raises(ModelError, match="`factors` is a sequence of factors; got 3"):
        power(TWO, two_by_two(2), 300, GDP(1), factors=3)


def test_two_by_two_has_its_odds_ratio_and_margins():
    for ratio in (0.01, 0.5, 1.0, 1 + 1e-9, 3.0, 400.0):
        table = two_by_two(ratio, 0.2, 0.7)
        assert (table > 0).all()
        assert table[0, 0] * table[1, 1] / table[0, 1] / table[1, 0] == pytest.approx(ratio)
        assert table.sum(axis=1)[0] == pytest.approx(0.2)
        assert table.sum(axis=0)[0] == pytest.approx(0.7)


# ------------------------------------------------------------------ misuse


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"test": "indepndence"}, ModelError, "did you mean 'independence'"),
        ({"alpha": 5}, ModelError, "between 0 and 1"),
        ({"n": -3}, ModelError, "n is a number of records"),
        ({"privacy": 0.5}, ModelError, "such as GDP"),
        ({"alternative": SQUARE[:2]}, ModelError, "shape"),
        ({"alternative": 100 * SQUARE}, ModelError, "adds up to 100"),
        ({"alternative": -SQUARE}, ModelError, "at least 0"),
        ({"factors": ["A"]}, ModelError, "two factors or more"),
        ({"factors": ["A", "A"]}, ModelError, "named once"),
        ({"factors": ["A", "Q"]}, DomainError, "'Q'"),
        ({"test": "goodness-of-fit"}, ModelError, "needs the null probabilities"),
        ({"test": "model"}, ModelError, "needs its generating class"),
        ({"test": "no-three-way"}, ModelError, "needs a third factor"),
        ({"test": "symmetry", "strata": ["A"]}, ModelError, "neither of its own in the strata"),
        ({"test": "trend", "given": ["B"]}, ModelError, "about two factors"),
        ({"neighbours": "nobody"}, PrivacyError, "no neighbour relation"),
        ({"givn": ["B"]}, TypeError, "did you mean 'given'"),
    ],
)
def test_misuse_says_what_to_do(change, error, said):
    options = {
        "domain": THREE, "alternative": SQUARE, "n": 500, "privacy": GDP(1), **change
    }  # fmt: skip
    with pytest.raises(error, match=said):
        power(**options)


def test_more_misuse():
    plain = Domain({"A": LEVELS, "B": LEVELS})
    with pytest.raises(ModelError, match="order of the levels"):
        power(plain, SQUARE, 500, GDP(1), "trend")
    other = Domain({"A": LEVELS, "B": ["x", "z", "y"]})
    with pytest.raises(ModelError, match="same levels in the same order"):
        power(other, SQUARE, 500, GDP(1), "symmetry")
    with pytest.raises(ModelError, match="no degrees of freedom"):
        power(Domain({"A": ["a"], "B": ["u", "v"]}), [[0.5, 0.5]], 500, GDP(1))
    with pytest.raises(ModelError, match="between the level"):
        dpc.minimum_n(TWO, two_by_two(2), None, 0.01)
    with pytest.raises(ModelError, match="positive and finite"):
        two_by_two(0)
    with pytest.raises(ModelError, match="between 0 and 1"):
        two_by_two(2, 0.5, 1)
    zero = Domain(TWO.levels, structural_zeros=[{"A": "a", "B": "u"}])
    with pytest.raises(ModelError, match="structural zero"):
        power(zero, two_by_two(2), 500, GDP(1))


# ------------------------------------------------------------------ simulation


@pytest.mark.parametrize(
    ("domain", "table", "n", "given"),
    [(TWO, two_by_two(1.6, 0.4, 0.3), 900, ()), (CUBE, STRATA[..., ::-1], 700, ("G",))],
)
def test_the_planned_power_is_had(domain, table, n, given):
    # 150 releases, MC se of the power 0.04: within three of them.
    loss, rng, hits = GDP(0.15), np.random.default_rng(8), np.zeros(2)
    for _ in range(150):
        counts = rng.multinomial(n, table.ravel()).reshape(domain.shape)
        release = simulate_release(counts, domain, loss, rng)
        fit = independence_test(release, "A", "B", given=given).null_fit
        hits += np.array([fit.deviance, fit.pearson_chi2]) > stats.chi2.isf(0.05, fit.df_resid)
    planned = power(domain, table, n, loss, given=given)
    assert 0.2 < planned < 0.9
    se = math.sqrt(planned * (1 - planned) / 150)
    assert np.abs(hits / 150 - planned).max() < 3 * se
