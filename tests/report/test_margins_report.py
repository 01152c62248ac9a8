"""The report of a release of margins: its plan, its margins, its pairs, and what it cannot have."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dpcontingency.domain import Domain
from dpcontingency.errors import ReleaseError
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.overview import association_overview
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish_margins import release_margins, simulate_margins
from dpcontingency.report.document import document_of, render
from dpcontingency.table import ConfidentialMargins, ContingencyTable

DOMAIN = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y"], "D": ["p", "q"]})
COUNTS = np.random.default_rng(7).integers(20, 90, DOMAIN.shape)
WANTED = [("A", "B"), ("B", "C")]


def simulated(seed=5, wanted=WANTED, counts=COUNTS, mu=1.0):
    rng = np.random.default_rng(seed)
    made = simulate_margins(counts, DOMAIN, wanted, GDP(mu), rng)
    return replace(made, origin="released")  # seeded, so that the tests are too


@pytest.fixture(scope="module")
def release():
    return simulated()


@pytest.fixture(scope="module")
def fit(release):
    return LogLinearModel(release, "[A B][B C]").fit()


@pytest.fixture(scope="module")
def test(release):
    return independence_test(release, "A", "B")


@pytest.fixture(scope="module")
def sections(release, fit, test):
    return json.loads(render(release, ".json", models=[fit], tests=[test]))["sections"]


def rows(section, key):
    table = section["tables"][key]
    keys = [column["key"] for column in table["columns"]]
    return [dict(zip(keys, row, strict=True)) for row in table["rows"]]


def test_it_has_a_plan_in_the_place_of_cells(sections, release):
    assert list(sections) == [
        "protection", "plan", "margins", "associations", "tests", "models", "gaps", "guarantee",
        "again",
    ]  # fmt: skip
    plan = rows(sections["plan"], "plan")
    assert [row["margin"] for row in plan] == ["A, B", "B, C"]
    assert [row["noise_sd"] for row in plan] == [release.plan.sd(*m) for m in WANTED]
    scales = {row["interaction"]: row["scale"] for row in rows(sections["plan"], "scales")}
    assert scales == {", ".join(a): scale for a, scale in release.plan.scales.items()}
    loss = {row["measure"]: row["value"] for row in rows(sections["protection"], "loss")}
    assert loss["mu"] == release.privacy.mu
    assert loss["largest_sd"] == release.noise_range[1]


def test_it_says_what_it_is_of_and_what_its_saturated_model_is(sections, release, fit):
    assert document_of(release).title == "Contingency margins of A, B, C and D"
    (said,) = [text for text in sections["models"]["text"] if text.startswith("Margins were")]
    assert "the saturated model is that of these margins" in said
    assert "computed from the released numbers alone" in sections["protection"]["parts"]["learnt"][
        "text"
    ][1]  # fmt: skip


def test_margins_have_intervals_for_the_noise(sections, release):
    one_way = rows(sections["margins"], "one_way")
    assert {row["factor"] for row in one_way} == {"A", "B", "C"}
    (only,) = [row for row in one_way if row["level"] == "v"]
    margin = release.margin("B")
    assert only["noisy"] == margin.values[1]
    assert only["noise_sd"] == margin.sd
    assert only["interval"] == pytest.approx(
        margin.values[1] + np.array([-1, 1]) * 1.959964 * margin.sd
    )
    cells = rows(sections["margins"]["parts"]["wanted"], "margin: A, B")
    assert [row["noisy"] for row in cells] == release.margin("A", "B").values.ravel().tolist()
    assert cells[0]["noise_sd"] == release.plan.sd("A", "B")


def test_pairs_are_those_inside_a_margin(sections, release):
    pairs = rows(sections["associations"], "pairs")
    assert [(row["row"], row["column"]) for row in pairs] == WANTED
    assert [row["estimate"] for row in pairs] == association_overview(release)["estimate"].tolist()


def test_models_and_tests_are_shown(sections, fit, test):
    (row,) = rows(sections["tests"]["parts"]["test1"], "result")
    assert row == {"statistic": test.statistic, "df": test.df, "pvalue": test.pvalue}
    model = sections["models"]["parts"]["model1"]
    estimates = rows(model["parts"]["coefficients"], "coefficients")
    assert [row["estimate"] for row in estimates] == fit.params.tolist()
    assert rows(model["parts"]["odds_ratios"], "odds_ratios")[0]["odds_ratio"] == pytest.approx(
        fit.odds_ratios()["odds_ratio"].iloc[0]
    )
    assert "residuals" not in model["parts"]


def test_what_it_cannot_have_is_said(sections):
    gaps = dict(sections["gaps"]["tables"]["gaps"]["rows"])
    assert "lies in none of the margins" in gaps["Margin of D"]
    assert "margins were released" in gaps["Model [A B][B C]: residuals of cells"]


def test_the_page_holds_the_pictures(release, fit, test):
    text = render(release, models=[fit], tests=[test])
    labels = [part.split('"')[0] for part in text.split('<svg role="img" aria-label="')[1:]]
    starts = ["Trade-off", "Noise", "Cramer", "Coefficients", "Odds ratios"]
    assert [label[:5] for label in labels] == [start[:5] for start in starts]
    assert "NOT PRIVATE" not in text


def test_models_and_tests_of_a_part_belong_and_others_do_not(release):
    part = LogLinearModel(release.margin("B", "A"), "[A][B]").fit()
    code = render(release, ".md", models=[part])
    assert "dpc.MarginRelease.load(" in code
    assert "dpc.LogLinearModel(release.collapse('B', 'A'), [('B',), ('A',)]).fit()" in code
    other = LogLinearModel(simulated(seed=6), "[A B]").fit()
    with pytest.raises(ReleaseError, match="was fitted to another release"):
        render(release, ".md", models=[other])


def test_a_model_of_some_of_the_margins_belongs(release):
    some = release.restrict([("A", "B")])
    code = render(release, ".md", models=[LogLinearModel(some, "[A B]").fit()])
    assert "dpc.LogLinearModel(release, [('A', 'B')]).fit()" in code  # which restricts it itself
    other = simulated(seed=6).restrict([("A", "B")])
    with pytest.raises(ReleaseError, match="was fitted to another release"):
        render(release, ".md", models=[LogLinearModel(other, "[A B]").fit()])
    scales = {a: 2 * scale for a, scale in some.plan.cell_scales.items()}
    louder = replace(some, plan=replace(some.plan, cell_scales=scales))
    with pytest.raises(ReleaseError, match="was fitted to another release"):
        render(release, ".md", models=[LogLinearModel(louder, "[A B]").fit()])


def test_simulated_margins_say_so(release):
    text = render(replace(release, origin="simulated"), ".md")
    assert "> **NOT PRIVATE: the noise of this table came from a seeded generator" in text


def test_planted_counts_are_nowhere():
    counts = np.full(DOMAIN.shape, 31)
    counts[0, 0], counts[1, 1] = 0, 0
    counts[0, 0, 0, 0], counts[1, 1, 0, 0] = 7919, 10007
    made = simulated(seed=3, wanted=[("A", "B", "C", "D")], counts=counts, mu=0.2)
    fit = LogLinearModel(made, "[A B][C][D]").fit()
    text = render(made, ".md", models=[fit], tests=[independence_test(made, "A", "B")])
    assert "7919" not in text.replace(",", "")
    assert "10007" not in text.replace(",", "")


def test_many_margins_are_cut_and_say_so():
    names = [f"F{k:02}" for k in range(24)]
    domain = Domain({name: ["x", "y", "z"] for name in names})
    wanted = list(pairwise(names))
    tables = [ContingencyTable(np.full((3, 3), 50), domain.project(m)) for m in wanted]
    made = release_margins(
        ConfidentialMargins(tables, domain), wanted, GDP(1), neighbours="add-remove"
    )
    document = document_of(made)
    text = render(made, ".md")
    assert document.title == "Contingency margins of 24 factors"
    cells = [t for t in document.tables() if t.key.startswith("margin: ")]
    assert sum(len(table.rows) for table in cells) == 200
    assert "The first 2 of 9 cells are shown." in text
    assert "release.to\\_frame('F22', 'F23')" in text


def test_a_margin_of_all_factors_has_the_residuals_of_its_cells(release):
    whole = release.margin("A", "B")
    fit = LogLinearModel(whole, "[A][B]").fit()
    text = render(whole, ".md", models=[fit])
    assert "margins were released, and not the cells of the joint table" not in text
    assert "The largest adjusted residuals" in text
    worst = fit.resid_adjusted.abs().idxmax()
    place = fit.resid_adjusted.index.get_loc(worst)
    noisy = float(fit.resid_response.iloc[place] + fit.fittedvalues.iloc[place])
    assert (
        f"| {worst[0]} | {worst[1]} | {noisy:,.1f} | {fit.fittedvalues[worst]:,.1f} | "
        f"{fit.resid_adjusted[worst]:.2f} |"
    ) in text
    part = render(release, ".md", models=[LogLinearModel(release, "[A B][C]").fit()])
    assert "margins were released, and not the cells of the joint table" in part
