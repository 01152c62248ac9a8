"""Stepwise search and tests by order: classical answers with no noise, rules of the search."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.families import all_kway, conditional, mutual, saturated
from dpcontingency.inference.formula import generating_class
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.order_tests import kway_tests, partial_association
from dpcontingency.inference.selection import Selection, step
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.publish_margins import simulate_margins
from dpcontingency.release.release import Release

FACTORS = ("A", "B", "C")
THREE = [
    generating_class([*margins, *FACTORS], FACTORS)
    for k in range(4)
    for margins in itertools.combinations(list(itertools.combinations(FACTORS, 2)), k)
] + [(FACTORS,)]  # every hierarchical model of three factors with all main effects


def quiet(release, generators):
    return LogLinearModel(release, generators).fit(warn_convergence=False)


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.default_rng(17)
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y"]})
    counts = rng.multinomial(900, rng.dirichlet(np.full(12, 6.0))).reshape(domain.shape)
    return simulate_release(counts, domain, GDP(0.4), rng)


# -- tests by order -------------------------------------------------------------------------------


def test_a_search_shows_its_progress_on_a_terminal_only(load_table, monkeypatch, capsys):
    counts, domain = load_table("titanic")
    release = Release.exact(counts, domain)
    start = LogLinearModel(release, mutual(release))
    quietly = step(start, direction="forward", upper="[Class Sex][Survived][Age]")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    shown = step(start, direction="forward", upper="[Class Sex][Survived][Age]")
    assert "Searching" in capsys.readouterr().err
    pd.testing.assert_frame_equal(shown.path, quietly.path)


def test_kway_tests_are_differences_of_deviances(load_table):
    counts, domain = load_table("hair_eye_color")
    release = Release.exact(counts, domain)
    table = kway_tests(release).table
    g2 = [quiet(release, all_kway(domain, k)).deviance for k in range(4)]
    flat = stats.power_divergence(counts.ravel(), lambda_="log-likelihood")
    assert table["lr"].tolist() == pytest.approx(g2[:3], rel=1e-8)
    assert g2[0] == pytest.approx(flat.statistic, rel=1e-9)
    assert g2[1:3] == pytest.approx([166.3001395, 6.761257933], rel=2e-6)  # R
    assert table["df"].tolist() == [31, 24, 9]
    assert table["lr_diff"].tolist() == pytest.approx(-np.diff(g2), abs=1e-6)
    assert table["df_diff"].tolist() == [7, 15, 9]
    assert table["pvalue"].tolist() == pytest.approx(stats.chi2.sf(g2[:3], [31, 24, 9]), rel=1e-6)


def test_partial_association_drops_each_term_from_its_order(noisy):
    table = partial_association(noisy).table
    assert list(table.index) == [
        "[A]", "[B]", "[C]", "[A B]", "[A C]", "[B C]", "[A B C]",
    ]  # fmt: skip
    whole = quiet(noisy, all_kway(noisy, 2))
    for name in FACTORS:
        rest = [other for other in FACTORS if other != name]
        fit = quiet(noisy, conditional(FACTORS, given=name))
        row = table.loc[f"[{rest[0]} {rest[1]}]"]
        assert row["lr"] == pytest.approx(2 * (whole.llf - fit.llf), abs=1e-6)
        assert row["df"] == fit.df_resid - whole.df_resid
    # the highest term has one test, by order or alone
    order = kway_tests(noisy).table.loc[3]
    top = table.loc["[A B C]", ["lr", "df"]].tolist()
    assert top == pytest.approx([order["lr"], order["df"]], abs=1e-6)


def test_strata_are_in_every_model_of_an_order():
    rng = np.random.default_rng(3)
    domain = Domain({"A": [0, 1], "B": [0, 1, 2], "C": [0, 1]})
    counts = rng.multinomial(900, np.full(12, 1 / 12)).reshape(domain.shape)
    release = simulate_release(counts, domain, GDP(1), rng, strata=("A", "B"))
    assert kway_tests(release).table["df_diff"].tolist() == [1, 3, 2]
    assert list(partial_association(release).table.index) == ["[C]", "[A C]", "[B C]", "[A B C]"]
    found = step(LogLinearModel(release, saturated(release)), direction="backward")
    assert found.results.generating_class == "[A B][C]"


# -- the search -----------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["aic", "bic"])
@pytest.mark.parametrize("seed", range(4))
def test_no_neighbour_of_the_selected_model_is_better(criterion, seed):
    """A search in both directions ends where no term more or less improves the criterion."""
    rng = np.random.default_rng(seed)
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y"]})
    counts = rng.multinomial(400, rng.dirichlet(np.full(12, 9.0))).reshape(domain.shape)
    release = simulate_release(counts, domain, GDP(1), rng)
    values = {g: getattr(quiet(release, g), criterion) for g in THREE}
    size = {g: len({t for m in g for k in (1, 2, 3) for t in itertools.combinations(m, k)})
            for g in THREE}  # fmt: skip
    for start in THREE:
        found = step(LogLinearModel(release, start), criterion=criterion)
        end = found.results.generators
        inside = {frozenset(m) for m in end}
        neighbours = [
            g
            for g in THREE
            if abs(size[g] - size[end]) == 1
            and (
                all(any(set(m) <= set(o) for o in g) for m in end)
                or all(any(set(m) <= o for o in inside) for m in g)
            )
        ]
        assert neighbours
        assert values[end] <= min(values[g] for g in neighbours) + 1e-6
        path = found.path["criterion"].to_numpy()
        assert (np.diff(path) < 1e-6).all()
        assert path[-1] == pytest.approx(values[end], abs=1e-6)


def test_steps_are_the_best_ones(load_table):
    counts, domain = load_table("ucb_admissions")
    release = Release.exact(counts, domain)
    start = quiet(release, mutual(domain))
    found = step(start)
    assert found.path["action"].tolist() == ["start", "add [Gender Dept]", "add [Admit Dept]"]
    assert found.path["step"].tolist() == [0, 1, 2]
    assert found.path["generating_class"].iloc[-1] == "[Admit Dept][Gender Dept]"
    assert found.path["criterion"].iloc[-1] == found.results.bic
    # AIC stops there too, for [Admit Gender] has G2 = 1.53 on 1 df; but it keeps the three-way
    # term, G2 = 20.2 on 5 df, when it starts from it. One term at a time finds no more.
    assert step(start, criterion="aic").results.generating_class == "[Admit Dept][Gender Dept]"
    top = step(LogLinearModel(release, saturated(domain)), criterion="aic")
    assert top.path["action"].tolist() == ["start"]
    assert step(LogLinearModel(release, saturated(domain))).results.bic == found.results.bic


def test_backward_by_lr_drops_the_least_needed_term(load_table):
    counts, domain = load_table("hair_eye_color")
    release = Release.exact(counts, domain)
    found = step(LogLinearModel(release, saturated(domain)), criterion="lr", direction="backward")
    first = found.path.iloc[1]
    assert first["action"] == "drop [Hair Eye Sex]"
    assert first["criterion"] == pytest.approx(stats.chi2.sf(6.761257933, 9), rel=5e-6)
    # every term that is left is significant, and none that was dropped was
    assert (found.path["criterion"].iloc[1:] > 0.05).all()
    assert (found.results.drop1().table["pvalue"].iloc[1:] <= 0.05).all()
    strict = step(
        LogLinearModel(release, saturated(domain)), criterion="lr", direction="backward", alpha=1e-6
    )
    assert strict.results.generating_class == "[Hair Eye][Sex]"


def test_forward_by_lr_adds_the_most_needed_term_even_beyond_floats():
    # Both tails underflow; the one with more evidence comes first.
    counts = np.zeros((2, 2, 2))
    counts[0, 0, 0], counts[1, 1, 1] = 90000, 80000
    counts += 50
    counts[0, 0, 1] += 500
    release = Release.exact(counts, Domain({name: [0, 1] for name in FACTORS}))
    found = step(LogLinearModel(release, mutual(release)), criterion="lr", direction="forward")
    assert found.path["criterion"].iloc[1] == 0
    assert found.path["action"].iloc[1] == "add [A B]"
    assert "< 1e-300" in str(found)


def test_directions_and_the_upper_model(noisy):
    model = LogLinearModel(noisy, "[A B][C]")
    forward = step(model, criterion="aic", direction="forward")
    assert all(action.startswith(("start", "add")) for action in forward.path["action"])
    backward = step(model, criterion="aic", direction="backward")
    assert all(action.startswith(("start", "drop")) for action in backward.path["action"])
    for alpha in (0.9, 0.999):
        found = step(
            LogLinearModel(noisy, mutual(noisy)), criterion="lr", alpha=alpha, upper="[A B][B C]"
        )
        assert found.results.generating_class in ("[A B][B C]", "[A B][C]", "[A][B C]")
    everything = step(LogLinearModel(noisy, mutual(noisy)), criterion="lr", alpha=1 - 1e-9)
    assert everything.results.generating_class == "[A B C]"


def test_the_search_is_deterministic_and_starts_from_models_and_fits_alike(noisy):
    model = LogLinearModel(noisy, mutual(noisy))
    runs = [step(start, criterion="aic") for start in (model, model, model.fit())]
    for run in runs[1:]:
        pd.testing.assert_frame_equal(run.path, runs[0].path)
    assert isinstance(runs[0], Selection)


def test_noise_finds_no_terms_where_there_are_none():
    """Mutual independence, heavy noise: BIC with log n = 6.9 keeps to main effects.

    40 releases. A term of 2 or 1 df enters with probability 0.03 at most in all, so more than
    8 false finds are next to impossible.
    """
    rng = np.random.default_rng(5)
    domain = Domain({"A": [0, 1], "B": [0, 1, 2], "C": [0, 1]})
    truth = np.einsum("a,b,c->abc", [0.4, 0.6], [0.2, 0.3, 0.5], [0.5, 0.5]).ravel()
    false = 0
    for _ in range(40):
        counts = rng.multinomial(1000, truth).reshape(domain.shape)
        release = simulate_release(counts, domain, GDP(0.2), rng)
        found = step(LogLinearModel(release, mutual(domain)), direction="forward")
        false += found.results.generating_class != "[A][B][C]"
    assert false <= 8


def test_a_term_without_parameters_is_dropped():
    domain = Domain({"A": [0, 1], "B": ["only"], "C": [0, 1]})
    release = Release.exact([[[40, 10]], [[10, 40]]], domain)
    for criterion in ("bic", "aic", "lr"):
        found = step(LogLinearModel(release, "[A B C]"), criterion=criterion)
        assert found.results.generating_class == "[A C][B]"


def test_fits_that_fail_are_left_out_and_named(noisy, monkeypatch):
    honest = LogLinearModel.fit

    def fit(self, **options):
        result = honest(self, **options)
        if self.generating_class == "[A B][C]":
            result.converged, result.reason = False, "it was stopped"
        return result

    monkeypatch.setattr(LogLinearModel, "fit", fit)
    found = step(LogLinearModel(noisy, mutual(noisy)), criterion="lr", alpha=0.999)
    assert "The fit of [A B][C] did not converge: it was stopped." in found.notes
    assert "[A B][C]" not in set(found.path["generating_class"])
    table = partial_association(noisy)
    assert np.isfinite(table.table["lr"]).all()
    with pytest.raises(ModelError, match="it was stopped"):
        step(LogLinearModel(noisy, "[A B][C]"))


def test_estimates_at_infinity_are_named(load_table):
    counts, domain = load_table("titanic")
    release = Release.exact(counts, domain)
    found = step(LogLinearModel(release, "[Class Sex Age][Survived]"), direction="forward")
    assert found.at_infinity[0] == "[Class Sex Age][Survived]"
    assert "at infinity" in found.summary()


def test_what_the_page_says(noisy):
    text = " ".join(step(LogLinearModel(noisy, mutual(noisy))).summary().split())
    assert "P-values and intervals of the selected model are not valid" in text
    assert "costs no privacy" in text
    lines = step(LogLinearModel(noisy, saturated(noisy))).summary().split("\n")
    assert max(map(len, lines)) <= 78


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m: step(m, criterion="cp"), "criterion is one of 'bic', 'aic', 'lr'; got 'cp'"),
        (lambda m: step(m, direction="up"), "direction is one of 'both', 'forward', 'backward'"),
        (lambda m: step("x"), "starts from a model, .* got str"),
        (lambda m: step(m.release), "starts from a model, .* got Release"),
        (lambda m: step(m, alpha="x"), "between 0 and 1; got 'x'"),
        (lambda m: kway_tests(3), "or a MarginRelease; got int"),
        (lambda m: partial_association(None), "or a MarginRelease; got NoneType"),
        (lambda m: step(m, alpha=5), "between 0 and 1"),
        (
            lambda m: step(LogLinearModel(m.release, "[A B]", left_out="uniform")),
            "keeps all main effects",
        ),
        (lambda m: step(m, upper="[A B][B C]"), "not inside the upper model"),
    ],
)
def test_misuse_is_one_sentence(noisy, call, says):
    with pytest.raises(ModelError, match=says) as caught:
        call(LogLinearModel(noisy, "[A C][B]"))
    assert "\n" not in str(caught.value)


def test_a_search_stays_inside_the_released_margins():
    domain = Domain({name: ["x", "y"] for name in "ABC"})
    counts = np.array([[[60, 20], [25, 40]], [[30, 50], [10, 80]]])
    rng = np.random.default_rng(2)
    release = simulate_margins(counts, domain, [("A", "B"), ("B", "C")], GDP(1), rng)
    for start in ("[A][B][C]", "[A B][B C]"):
        found = step(LogLinearModel(release, start))
        assert all(any(set(g) <= set(m) for m in release.margins) for g in found.results.generators)
