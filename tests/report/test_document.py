"""The report: its structure, its numbers against the objects, and what must never be in it."""

import ast
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest

from dpcontingency._demo_data import demo_file
from dpcontingency.domain import Domain
from dpcontingency.errors import ReleaseError
from dpcontingency.inference.comparison import compare
from dpcontingency.inference.families import all_kway, links
from dpcontingency.inference.formula import generating_class
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.naive import noise_ignored
from dpcontingency.inference.overview import association_overview
from dpcontingency.inference.printing import pvalue_text
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.mechanisms import Laplace
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release
from dpcontingency.report.document import document_of, render, write_report
from dpcontingency.report.parts import Bullets, Code, Facts, Note, Table, Text
from dpcontingency.report.words import _without_term, best_power, model_in_words

LOSS = "The privacy loss, rounded up, and the noise"
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """What a test asks of a page: headings, tables by caption, pictures, links, visible text."""

    def __init__(self, text):
        super().__init__()
        self.headings, self.svgs, self.links, self.scopes, self.ids = [], [], [], [], []
        self.tables, self.facts, self.text = {}, [], ""
        self._open, self._cells = [], None
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.links += [given[key] for key in ("href", "src", "xlink:href") if key in given]
        self.ids += [given["id"]] if "id" in given else []
        if tag == "svg":
            self.svgs.append(given)
        if tag == "th":
            self.scopes.append(given.get("scope"))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append([int(tag[1]), ""])
        if tag == "caption":
            self._cells = []
            self.tables.setdefault("", [])
        if tag == "tr":
            self._cells.append([])
        if tag in ("td", "th"):
            self._cells[-1].append("")
        if tag in ("dt", "dd"):
            self.facts.append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        given = dict(attrs)
        self.links += [given[key] for key in ("href", "src") if key in given]
        self.ids += [given["id"]] if "id" in given else []

    def handle_endtag(self, tag):
        assert self._open.pop() == tag
        if tag == "table":
            self.tables[self._caption] = self.tables.get(self._caption, []) + self._cells

    def handle_data(self, data):
        if {"style", "svg"} & set(self._open):
            return
        self.text += data
        inside = self._open[-1] if self._open else ""
        if re.fullmatch("h[1-6]", inside):
            self.headings[-1][1] += data
        elif inside == "caption":
            self._caption = data
        elif inside in ("td", "th"):
            self._cells[-1][-1] += data
        elif inside in ("dt", "dd"):
            self.facts[-1] += data

    def fact(self, name):
        return [self.facts[k + 1] for k, text in enumerate(self.facts[:-1]) if text == name]


class Read:
    """A report before it is printed, with what `Page` has of an HTML page; nothing is drawn."""

    def __init__(self, *args, **options):
        self.document = document_of(*args, **options)
        self.facts, self.tables, self.code = [], {}, {}
        self.lines = [self.document.title, self.document.lead, self.document.warning]
        self._sections(self.document.sections)
        self.text = "\n".join(self.lines)

    def _sections(self, sections):
        for section in sections:
            self.lines.append(section.title)
            for block in section.blocks:
                self._block(block)
            self._sections(section.parts)

    def _block(self, block):
        if isinstance(block, Text | Note):
            self.lines.append(block.text)
        elif isinstance(block, Bullets):
            self.lines += block.items
        elif isinstance(block, Facts):
            self.facts += block.facts
            self.lines += [f"{fact.label} {fact.text}" for fact in block.facts]
        elif isinstance(block, Table):
            rows = [[cell.text for cell in row] for row in block.rows]
            known = self.tables.setdefault(block.caption, [])
            known += [[column.head for column in block.columns], *rows]
            self.lines += [block.caption, *map(" ".join, rows), block.cut]
        elif isinstance(block, Code):
            self.code[block.key] = block.text
            self.lines.append(block.text)
        else:
            self.lines.append(block.caption)

    def fact(self, name):
        return [fact.text for fact in self.facts if fact.label == name]


def ucb(mu=1.0, seed=7, **options):
    domain = Domain.from_yaml(demo_file("ucb_admissions_domain.yaml"))
    records = pd.read_csv(demo_file("ucb_admissions_records.csv"))
    cells = [domain.index(n, v) for n in domain.names for v in domain.levels[n]]
    assert len(cells) == 10
    codes = tuple(records[n].map(dict(domain.positions(n))) for n in domain.names)
    counts = np.zeros(domain.shape, dtype=np.int64)
    np.add.at(counts, codes, 1)
    rng = np.random.default_rng(seed)
    simulated = simulate_release(counts, domain, GDP(mu), rng, **options)
    return replace(simulated, origin="released")  # seeded, so that the tests are too


@pytest.fixture(scope="module")
def release():
    return ucb()


@pytest.fixture(scope="module")
def tests(release):
    return [
        independence_test(release, "Admit", "Gender"),
        independence_test(release, "Admit", "Gender", given=("Dept",)),
    ]


@pytest.fixture(scope="module")
def fit(release):
    return LogLinearModel(release, "[Admit Dept][Gender Dept]").fit()


@pytest.fixture(scope="module")
def text(release, tests, fit):
    return render(release, models=[fit], tests=tests)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


# ------------------------------------------------------------------ structure


def test_headings_come_in_order(page):
    levels = [level for level, _ in page.headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))
    assert [title for level, title in page.headings if level == 2] == [
        "What was released and how it was protected",
        "The released table",
        "Margins and noise",
        "Mosaic plot",
        "Association of each pair of factors",
        "Tests",
        "Models",
        "What could not be estimated, and why",
        "The guarantee, point by point",
        "How to reproduce",
    ]


def test_pictures_say_what_they_show(page):
    assert all(svg["role"] == "img" for svg in page.svgs)
    starts = [
        "Trade-off curve at mu = 1.",
        "Noise in a cell of each margin",
        "Mosaic plot of ",
        "Cramer's V of ",
        "Coefficients of [Admit Dept][Gender Dept]",
        "Odds ratios",
        "Mosaic plot of ",
    ]
    labels = [svg["aria-label"] for svg in page.svgs]
    assert len(labels) == len(starts)
    assert all(label.startswith(start) for label, start in zip(labels, starts, strict=True))


def test_table_heads_have_a_scope(page):
    assert page.scopes
    assert set(page.scopes) == {"col", "row"}


def test_nothing_comes_from_outside(text, page):
    assert "http" not in text
    assert "@import" not in text
    assert "<script" not in text
    assert all(link == "data:," or link[1:] in page.ids for link in page.links)


def test_ids_are_unique(page):
    assert len(page.ids) == len(set(page.ids))


def test_what_was_done_with_missing_values_is_said_once(release):
    said = "records that lack a factor are dropped"
    stated = replace(release, provenance={**release.provenance, "missing": said})
    read = Read(stated)
    assert read.text.count(said) == 1
    assert read.fact("Missing values") == [said]
    assert Read(release).fact("Missing values") == []


def test_same_input_same_bytes(release, tests, fit, text, tmp_path):
    for name in ("a.html", "a.md", "b.md", "a.json", "b.json"):
        write_report(release, tmp_path / name, models=[fit], tests=tests)
    for name in ("a.md", "a.json"):
        assert (tmp_path / name).read_bytes() == (tmp_path / f"b{name[1:]}").read_bytes()
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == text
    assert len(list(tmp_path.iterdir())) == 5


def test_the_checksum_is_the_one_in_the_file_and_not_of_it(page, release, tmp_path):
    release.save(tmp_path / "release.json")
    content = (tmp_path / "release.json").read_bytes()
    (said,) = page.fact("Entry “checksum” of the release file")
    assert said.startswith(f"{json.loads(content)['checksum']}, of all other entries;")
    assert hashlib.sha256(content).hexdigest() not in page.text


def test_no_verdict_and_no_clock(page):
    assert not re.search(r"\b(reject|significan\w*|accept)\b", page.text)  # Rejected is a level
    assert not re.search(r"\b20[2-9]\d\b|\d\d:\d\d", page.text)


# ------------------------------------------------------------------ numbers


def test_the_privacy_numbers(page, release):
    values = dict(page.tables[LOSS][1:])
    assert values["mu (Gaussian differential privacy)"] == "1"
    assert values["epsilon at delta = 1e-06"] == "4.8866"  # C47
    assert float(values["epsilon at delta = 1e-06"]) >= release.privacy.epsilon(1e-6)
    assert values["rho (zero-concentrated)"] == "0.5"
    (sigma,) = [value for name, value in values.items() if name.startswith("sigma")]
    assert sigma == f"{release.sigma:.5g}" == "1.4142"
    power = 1 - float(release.privacy.trade_off(0.05))
    assert power <= best_power(release.privacy) <= power + 1e-3
    assert f"rightly names it in at most {100 * best_power(release.privacy):.1f} %." in page.text
    assert page.fact("Neighbours") == [
        "replace-one: data sets that differ in the value of one record"
    ]
    assert "for two records it is mu = 2." in page.text
    assert "under the same neighbours and strata, makes mu = 1.4143 for both together" in page.text


def test_the_cells(page, release):
    rows = page.tables["The released cells"]
    assert rows[0] == ["Admit", "Gender", "Dept", "Noisy", "Noise SD", "Estimate"]
    frame = release.to_frame()
    assert len(rows) == 1 + len(frame) == 25
    for row, (_, cell) in zip(rows[1:], frame.iterrows(), strict=True):
        assert row[:3] == [cell["Admit"], cell["Gender"], cell["Dept"]]
        assert row[3] == f"{cell['noisy']:,.1f}"
        assert row[4] == f"{cell['noise_sd']:.2f}"
        assert row[5] == f"{cell['estimate']:,.1f}"


def test_the_margins_say_what_the_noise_does(page, release):  # C46
    rows = page.tables["One-way margins"][1:]
    assert len(rows) == 10
    margin = release.margin("Dept")
    factor, level, noisy, sd, interval, sampling, share = rows[4]
    assert (factor, level) == ("Dept", "A")
    assert noisy == f"{margin.noisy[0]:,.1f}"
    assert float(sd) == pytest.approx(margin.noise_sd[0], rel=5e-3)
    ends = margin.noisy[0] + np.array([-1.959964, 1.959964]) * margin.noise_sd[0]
    assert interval == f"{ends[0]:,.1f} to {ends[1]:,.1f}"
    p = margin.noisy[0] / release.n_total
    assert float(sampling) == pytest.approx(np.sqrt(release.n_total * p * (1 - p)), rel=5e-3)
    assert share == "< 1 %"


def test_the_tests(page, tests):
    results = page.tables["Result"]
    for head, row, test in zip(results[::2], results[1::2], tests, strict=True):
        assert head == ["Statistic", "Df", "P-value"]
        assert row == [f"{test.statistic:.4f}", str(test.df), pvalue_text(test.pvalue)]
    assert page.fact("Null hypothesis") == [
        "Admit independent of Gender",
        "Admit independent of Gender given Dept",
    ]
    assert page.fact("Accounts for") == ["sampling and noise"] * 2


def test_the_model(page, fit):
    assert "Admit and Gender are independent given Dept." in page.text
    assert page.fact("Log-likelihood") == [f"{fit.llf:.3f}"]
    assert page.fact("AIC") == [f"{fit.aic:.2f}"]
    gof = page.tables["Goodness of fit, against the saturated model"]
    assert gof[1][1:] == [f"{fit.deviance:.3f}", "6", pvalue_text(fit.gof()["pvalue"].iloc[0])]
    assert gof[2][1] == f"{fit.pearson_chi2:.3f}"
    rows = {row[0]: row[1:] for row in page.tables["Coefficients"][1:]}
    assert list(rows) == list(fit.params.index)
    for name, row in rows.items():
        assert row[0] == f"{fit.params[name]:.4f}"
        assert row[1] == f"{fit.bse_sampling[name]:.4f}"
        assert row[2] == f"{fit.bse_privacy[name]:.4f}"
        assert row[3] == f"{fit.bse[name]:.4f}"
        assert row[4] == f"{fit.tvalues[name]:.3f}"
        assert row[5] == pvalue_text(fit.pvalues[name])
        low, high = fit.conf_int().loc[name]
        assert row[6] == f"{low:.3f} to {high:.3f}"


def test_models_side_by_side(release, fit):
    other = LogLinearModel(release, "[Admit Dept][Gender Dept][Admit Gender]").fit()
    page = Read(release, models=[fit, other])
    rows = page.tables["The models side by side"]
    assert [row[0] for row in rows[1:]] == [fit.generating_class, other.generating_class]
    assert [row[1] for row in rows[1:]] == [f"{fit.aic:.2f}", f"{other.aic:.2f}"]
    table = compare(fit, other).table
    changes = page.tables["Each model against the next larger one"]
    assert [row[:2] for row in changes[1:]] == list(map(list, pairwise(table.index)))
    assert [row[2] for row in changes[1:]] == [f"{x:.3f}" for x in table["lr_diff"].iloc[1:]]
    assert "There is no interaction of Admit, Gender and Dept together" in page.text


def test_criteria_side_by_side_count_what_the_tests_count(load_table):
    counts, domain = load_table("titanic")
    exact = Release.exact(counts, domain)
    fits = [
        LogLinearModel(exact, all_kway(domain, k)).fit(warn_convergence=False) for k in (1, 2, 3)
    ]
    page = Read(exact, models=fits)
    side = page.tables["The models side by side"]
    changes = page.tables["Each model against the next larger one"]
    assert [row[3] for row in changes[1:3]] == ["12", "8"]
    aic = [float(row[1]) for row in side[1:]]
    steps = [float(row[2]) - 2 * float(row[3]) for row in changes[1:3]]
    np.testing.assert_allclose(-np.diff(aic), steps, atol=0.02)
    assert "In a comparison AIC and BIC count the same." in page.text


@pytest.mark.parametrize(
    ("options", "words"),
    [({"method": "normal"}, "min. chi-square"), ({"penalty": "jeffreys"}, "ML, Jeffreys")],
)
def test_the_method_of_a_fit_is_shown(release, fit, options, words):
    other = fit.model.fit(**options)
    page = Read(release, models=[other])
    assert words in page.text
    none = "none (no maximum of the likelihood)"
    assert page.fact("AIC") == page.fact("BIC, with log n") == [none]
    assert page.tables["Goodness of fit, against the saturated model"][1][3] == none
    assert page.tables["Gaps and their reasons"][1][0].endswith("the likelihood ratio")
    code = page.code["python"]
    ((name, value),) = options.items()
    assert f".fit({name}='{value}')" in code
    assert words not in Read(release, models=[fit]).text
    side = Read(release, models=[fit, other]).tables["The models side by side"]
    assert side[1][1] == f"{fit.aic:.2f}"
    assert side[2][1:3] == [none, none]


def test_the_code_is_python_that_names_what_is_shown(page):
    start = page.text.index("import dpcontingency")
    code = page.text[start : page.text.index("Or on the command line")].strip()
    assert len(ast.parse(code).body) == 6
    assert "dpc.LogLinearModel(release, [('Admit', 'Dept'), ('Gender', 'Dept')]).fit()" in code
    assert "dpc.independence_test(release, 'Admit', 'Gender', given=['Dept'])" in code
    assert 'dpc.write_report(release, "report.html", models=[model1], tests=[test1, test2])' in code


# ------------------------------------------------------------------ what it must say, and not


def test_planted_counts_are_nowhere():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    counts = np.array([[7919, 10007, 12], [3, 8, 7919]])
    simulated = simulate_release(counts, domain, GDP(0.3), np.random.default_rng(11))
    made = replace(simulated, origin="released")
    planted = made.noisy[counts > 100]
    assert not {7919, 10007} & set(np.rint(planted))  # the noise did not draw one of them again
    found = {
        "models": [LogLinearModel(made, "[A][B]").fit()],
        "tests": [independence_test(made, "A", "B")],
    }
    for suffix in (".html", ".md", ".json"):
        text = render(made, suffix, **found)
        assert not re.search(r"(?<![\d.,])(7,?919|10,?007)(?![\d.])", text)
        assert "NOT PRIVATE" not in text


@pytest.mark.parametrize("origin", ["exact", "simulated"])
def test_what_is_not_private_says_so(origin, release):
    source = (
        Release.exact([[5, 3], [2, 8]], Domain({"A": ["a", "b"], "B": ["u", "v"]}))
        if origin == "exact"
        else replace(release, origin="simulated")
    )
    text = render(source, ".md")
    assert "> **NOT PRIVATE:" in text
    assert "What can be learnt about one record" not in text
    assert "There is none: the records behind this table were not protected" in text


def test_an_exact_table_is_printed_as_it_is():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    rows = Read(Release.exact([[5, 0], [12345, 8]], domain)).tables["The released cells"]
    assert rows[0] == ["A", "B", "Exact", "Noise SD"]
    assert [row[2:] for row in rows[1:]] == [["5", "0"], ["0", "0"], ["12,345", "0"], ["8", "0"]]


def test_negative_cells_are_explained():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    made = Release.from_noisy_table([[31.5, -1.2], [17.7, 25.2]], domain, sigma=2.0)
    text = render(made, tests=[independence_test(made, "A", "B")])
    page = Page(text)
    assert "Negative: 1 of 4 cells." in page.text
    assert "The publisher's privacy loss is not stated" in page.text
    assert page.tables["The released cells"][2][2] == "-1.2"  # C42: not clamped
    assert "without area: 1 cell." in page.text


def test_a_third_party_table_with_neighbours_states_its_loss():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    made = Release.from_noisy_table(
        [[31.5, 1.2], [17.7, 25.2]], domain, sigma=2.0, neighbours="add-remove"
    )
    page = Read(made)
    assert dict(page.tables[LOSS][1:])["mu (Gaussian differential privacy)"] == "0.5"
    assert "whether this record is in the data at all" in page.text
    assert page.fact("Source") == ["noisy table made elsewhere"]


def test_large_tables_are_cut_and_say_so():
    values = np.random.default_rng(5).normal(20, 5, (9, 8, 7))
    levels = {name: list(range(n)) for name, n in zip("ABC", values.shape, strict=True)}
    made = Release.from_noisy_table(values, Domain(levels), sigma=5.0)
    page = Read(made)
    rows = page.tables["The released cells"]
    assert len(rows) == 201
    assert "Shown are the 200 of 504 cells that are largest beside their noise" in page.text
    assert "304 are left out" in page.text
    least = np.sort(values.ravel())[-200]
    assert min(float(row[3]) for row in rows[1:]) == pytest.approx(least, abs=0.06)
    places = [tuple(map(int, row[:3])) for row in rows[1:]]
    assert places == sorted(places)


def test_six_factors_have_no_mosaic_but_a_report():
    values = np.random.default_rng(5).normal(30, 5, (2,) * 6)
    domain = Domain({name: ["no", "yes"] for name in "ABCDEF"})
    made = Release.from_noisy_table(values, domain, sigma=5.0, n_total=1900)
    fit = LogLinearModel(made, "[AB][CD][EF]").fit()
    text = render(made, models=[fit], tests=[independence_test(made, "A", "B")])
    page = Page(text)
    assert not any("Mosaic" in svg["aria-label"] for svg in page.svgs)
    assert "A mosaic plot shows up to 4 factors" in page.text
    assert len(text) < 500_000


@pytest.mark.parametrize("exact", [True, False])
def test_parameters_at_infinity_are_shown_as_such(exact):
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    counts = [[41, 0], [190, 377]]
    made = Release.exact(counts, domain)
    if not exact:
        made = Release.from_noisy_table([[41, -3.1], [190, 377]], domain, sigma=1.0, n_total=605)
    fit = LogLinearModel(made, "[A B]").fit(warn_convergence=False)
    assert fit.existence.parameters
    page = Read(made, models=[fit])
    rows = {row[0]: row[1:] for row in page.tables["Coefficients"][1:]}
    for name in fit.existence.parameters:
        assert rows[name][:2] in (["−∞", "not estimable"], ["∞", "not estimable"])
        low, high = fit.conf_int(method="profile").loc[name]
        ends = [f"{end:.3f}" if np.isfinite(end) else f"{'−' * (end < 0)}∞" for end in (low, high)]
        assert rows[name][2:4] == ["", ""]
        assert rows[name][6:] == [" to ".join(ends), "", "likelihood ratio"]
    assert fit.existence.reason in page.text
    assert "nan" not in page.text


def test_a_test_that_cannot_be_done_says_why():
    domain = Domain({"A": ["a"], "B": ["u", "v", "w"]})
    made = Release.exact([[4, 9, 7]], domain)
    test = independence_test(made, "A", "B")
    page = Read(made, tests=[test])
    assert page.fact("Not done, because") == [test.reason]
    assert "Result" not in page.tables


def test_odd_names_are_escaped_and_shown():
    odd = {"<b>": ["<i>1", "&amp;"], "x:y": ["{{ 7 * 7 }}", '"'], "α": ["'", "日本"]}
    values = np.arange(8).reshape(2, 2, 2) + 20.0
    made = Release.from_noisy_table(values, Domain(odd), sigma=1.0)
    fit = LogLinearModel(made, [("<b>", "x:y"), ("α",)]).fit()
    test = independence_test(made, "<b>", "α", given=["x:y"])
    text = render(made, models=[fit], tests=[test], title="<script>alert(1)</script>")
    assert "<b>" not in text
    assert "<script" not in text
    page = Page(text)
    assert page.headings[0][1] == "<script>alert(1)</script>"
    assert page.tables["The released cells"][0][:3] == ["<b>", "x:y", "α"]
    assert page.tables["The released cells"][1][:3] == ["<i>1", "{{ 7 * 7 }}", "'"]
    assert "&amp;" in page.tables["The released cells"][8]
    assert page.fact("Null hypothesis") == [test.null]
    assert page.fact("Generating class") == ["[<b> x:y][α]"]
    assert "given=['x:y']" in page.text


def test_strata_and_add_remove_are_explained():
    page = Read(ucb(strata=("Dept",)))
    assert page.fact("Public") == ["the number of records in each combination of Dept"]
    assert "The number of records in each combination of Dept, printed" in page.text
    rows = [row for row in page.tables["One-way margins"] if row[0] == "Dept"]
    assert [row[3] for row in rows] == ["0"] * 6
    page = Read(ucb(neighbours="add-remove"))
    assert page.fact("Public") == ["nothing"]
    assert "(noisy, SE" in page.text


# ------------------------------------------------------------------ refusals


def test_a_folder_that_is_not_there_is_refused(release, tmp_path):
    with pytest.raises(ReleaseError, match="Choose a folder that exists and is writable"):
        write_report(release, tmp_path / "no" / "report.md")


def test_what_is_not_of_this_release_is_refused(release, fit):
    other = ucb(seed=8)
    with pytest.raises(ReleaseError, match="was fitted to another release"):
        render(other, models=[fit])
    with pytest.raises(ReleaseError, match="was fitted to another release"):
        render(other, tests=[independence_test(release, "Admit", "Dept")])
    with pytest.raises(ReleaseError, match=r"Call .fit\(\) on a LogLinearModel first"):
        render(release, models=[fit.model])
    with pytest.raises(ReleaseError, match="`tests` holds TestResult objects; got LogLinear"):
        render(release, tests=[fit])
    with pytest.raises(ReleaseError, match="written about a Release or a MarginRelease; got"):
        render(release.noisy)


def test_models_of_a_margin_belong(release):
    fit = LogLinearModel(release.margin("Gender", "Admit"), "[Admit][Gender]").fit()
    page = Read(release, models=[fit])
    assert "dpc.LogLinearModel(release.margin('Gender', 'Admit'), [('Gender',)" in page.text


# ------------------------------------------------------------------ models in words


@pytest.mark.parametrize(
    ("generators", "words"),
    [
        ([("A", "B", "C")], ["No restriction on A, B and C (saturated model)."]),
        ([("A",), ("B",), ("C",)], ["A, B and C are independent of each other."]),
        (
            [("A", "B"), ("C",)],
            ["These groups of factors are independent of each other: A and B; C."],
        ),
        (
            [("A", "B"), ("A", "C"), ("B", "C")],
            [
                "There is no interaction of A, B and C together: the association of any two of "
                "them does not depend on the third."
            ],
        ),
        (
            [("A", "B")],
            [
                "No restriction on A and B (saturated model).",
                "C is not in the model: its levels are taken to be equally likely.",
            ],
        ),
    ],
)
def test_model_in_words(generators, words):
    assert model_in_words(tuple(generators), ["A", "B", "C"]) == words


def test_many_factors_are_described_in_few_words():
    names = [f"Q{k}" for k in range(30)]
    chain = model_in_words(tuple(pairwise(names)), names)
    assert chain[:2] == [
        "Q0 is independent of all other factors given Q1.",
        "Q1 is independent of all other factors given Q0 and Q2.",
    ]
    assert chain[12:] == ["So is each of 18 more factors, given those that it has a term with."]
    assert model_in_words(tuple(combinations(names[:6], 2)), names[:6]) == [
        "There is no interaction of any 3 of Q0, Q1, Q2, Q3, Q4 and Q5 together: the association "
        "of any two of them does not depend on a third, the others held fixed."
    ]
    assert model_in_words(tuple(combinations(names[:6], 3)), names[:6]) == [
        "There is no joint interaction of any 4 of Q0, Q1, Q2, Q3, Q4 and Q5."
    ]
    some = [pair for pair in combinations(names[:7], 2) if pair != ("Q0", "Q1")]
    said = model_in_words(tuple(some), names[:7])
    assert said[0] == "Q0 and Q1 are independent given Q2, Q3, Q4, Q5 and Q6."
    # 35 triples less the 5 with both.
    assert said[13:] == ["Nor is there one of 18 more sets of factors."]
    (left,) = model_in_words((("Q0", "Q1", "Q2"),), names[:5])[1:]
    assert left.startswith("Q3 and Q4 are not in the model: the levels of each")


def test_the_smallest_sets_without_a_term_are_those_of_a_search_through_all():
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(300):
        names = "ABCDEFG"[: rng.integers(3, 8)]
        margins = [
            tuple(rng.choice(list(names), rng.integers(1, len(names) + 1), replace=False))
            for _ in range(rng.integers(1, 9))
        ]
        margins = generating_class(margins, list(names))
        linked, want = links(margins, list(names)), []
        for size in range(3, len(linked) + 1):
            for group in combinations(linked, size):
                whole = all(b in linked[a] for a, b in combinations(group, 2))
                inside = any(set(group) <= set(margin) for margin in margins)
                if whole and not inside and not any(set(known) <= set(group) for known in want):
                    want.append(list(group))
        assert _without_term(margins, linked) == want
        found += len(want)
    assert found > 20


def test_the_scale_of_the_noise_is_told_from_the_noise_in_a_cell(page):
    (scale,) = [row for row in page.tables[LOSS] if row[0].startswith("sigma")]
    assert scale[0].endswith("on a cell, before it is made to leave the public totals as they are")
    (noise,) = page.fact("Noise")
    assert noise.endswith("1.384")
    assert scale[1] == "1.4142"
    whole = Read(ucb(neighbours="add-remove"))
    assert "sigma, scale of the noise on a cell" in dict(whole.tables[LOSS][1:])


def test_a_report_with_laplace_noise_names_its_scale_and_draws_no_empty_heat_map():
    made = ucb(neighbours="add-remove", mechanism=Laplace())
    page = Read(made)
    scale, sd = made.sigma, float(made.noise_sd.flat[0])
    assert dict(page.tables[LOSS][1:])[
        "b, scale of the Laplace noise on a cell, whose standard deviation is b √2"
    ] == f"{scale:.5g}"  # fmt: skip
    assert sd == pytest.approx(scale * 2**0.5, rel=1e-3)
    assert [picture.key for picture in page.document.pictures()] == [
        "trade-off",
        "signal",
        "mosaic",
    ]
    assert "not adjusted for the number of tests. Tests: 0." in page.text


def test_a_test_that_ignores_the_noise_is_no_result(page, tests):
    (said, *_) = page.fact("If the noise were ignored")
    size = noise_ignored(tests[0]).size
    assert said.startswith("no result, but a warning: Pearson's chi-square on the noisy cells")
    assert f"Monte Carlo SE {100 * (size * (1 - size) / 2000) ** 0.5:.1f} %)" in said


def test_the_sampling_error_of_strata_is_that_inside_them():
    made = ucb(mu=50.0, strata=("Dept",))
    rows = Read(made).tables["One-way margins"][1:]
    shown = {(row[0], row[1]): float(row[5]) for row in rows}
    by_dept = made.margin("Gender", "Dept").noisy
    inside = (by_dept[0] * by_dept[1] / made.totals).sum()
    assert shown["Gender", "Male"] == pytest.approx(np.sqrt(inside), rel=0.01)
    p = by_dept[0].sum() / made.n_total
    assert inside < 0.8 * made.n_total * p * (1 - p)
    assert {sd for (name, _), sd in shown.items() if name == "Dept"} == {0.0}


def test_pages_do_not_remember(release):
    assert render(release, ".md") == render(release, ".md")


# ------------------------------------------------------------------ the guarantee, and the gaps


def test_the_guarantee_names_every_point(release):
    read = Read(release)
    (section,) = [s for s in read.document.sections if s.key == "guarantee"]
    (facts,) = section.blocks
    said = {fact.key: fact.text for fact in facts.facts}
    assert list(said) == [
        "unit", "parameters", "mechanism", "post_processing", "public", "trust", "composition",
        "utility", "side_channels", "custody",
    ]  # fmt: skip
    assert "mu = 1." in said["parameters"]
    assert "epsilon = 4.8866 at delta = 1e-06" in said["parameters"]
    assert "the number of records" in said["public"]
    assert "in the value of one record, but not in its Dept." in Read(ucb(strata=("Dept",))).text
    noisy = Read(ucb(neighbours="add-remove")).text
    assert "differ by the presence of one record" in noisy
    assert "; the number of records" not in noisy


def test_the_unit_of_a_guarantee_that_is_not_stated_is_not_made_up():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    made = Release.from_noisy_table([[31.5, -1.2], [17.7, 25.2]], domain, sigma=2.0)
    page = Read(made)
    assert page.fact("Unit of privacy") == ["Not stated by the publisher."]
    assert page.fact("Privacy parameters") == ["Not stated by the publisher."]


def test_the_best_attack_is_that_of_the_trade_off_curve(page, release):
    rows = page.tables["The best test between neighbouring data sets"][1:]
    assert [row[0] for row in rows] == ["1 %", "5 %", "10 %", "20 %", "50 %"]
    for alarms, power in rows:
        least = 1 - float(release.privacy.trade_off(float(alarms[:-2]) / 100))
        assert least <= float(power[:-2]) / 100 <= least + 1e-3


def test_all_pairs_are_shown(page, release):
    rows = page.tables["All pairs of factors"][1:]
    for row, line in zip(rows, association_overview(release).itertuples(), strict=True):
        assert row[:2] == [line.row, line.column]
        assert row[2:4] == [f"{line.estimate:.3f}", f"{line.lower:.3f} to {line.upper:.3f}"]
        assert row[4:] == [f"{line.statistic:.3f}", str(line.df), pvalue_text(line.pvalue)]
    assert "not adjusted for the number of tests. Tests: 3." in page.text


def test_odds_ratios_and_residuals_of_the_chosen_model(release, fit):
    other = LogLinearModel(release, "[Admit][Gender Dept]").fit()
    read = Read(release, models=[fit, other], chosen=fit)
    rows = read.tables["Odds ratios"][1:]
    frame = fit.odds_ratios()
    assert [row[0] for row in rows] == frame["in_words"].tolist()
    for row, line in zip(rows, frame.itertuples(), strict=True):
        assert float(row[1]) == pytest.approx(line.odds_ratio, rel=5e-3)
        assert row[3:] == [f"{line.se:.4f}", f"{line.se_sampling:.4f}"]
    residuals = read.tables["The largest adjusted residuals, noise allowed for"][1:]
    size = fit.resid_adjusted.abs().sort_values(ascending=False)
    assert [abs(float(row[-1])) for row in residuals] == [round(x, 2) for x in size.head(12)]
    with pytest.raises(ReleaseError, match="`chosen` is one of `models`"):
        render(release, models=[other], chosen=fit)


def test_gaps_say_what_is_missing_and_why(release):
    assert "Nothing: every estimate and test" in Read(release).text
    domain = Domain({"A": ["a"], "B": ["u", "v"], "C": ["x", "y"]})
    made = Release.exact([[[41, 0], [190, 377]]], domain)
    fit = LogLinearModel(made, "[B C]").fit(warn_convergence=False)
    test = independence_test(made, "A", "B")
    gaps = dict(Read(made, models=[fit], tests=[test]).tables["Gaps and their reasons"][1:])
    assert gaps["Independence test: A independent of B"] == test.reason
    assert "single level" in gaps["Association of A and B"]
    assert gaps[f"Model [B C]: {', '.join(fit.existence.parameters)}"] == fit.existence.reason
    assert any(what.startswith("Odds of B") for what in gaps)


def test_an_interval_of_laplace_noise_is_its_own():
    made = ucb(mechanism=Laplace())
    rows = Read(made).tables["One-way margins"][1:]
    half = made.margin("Dept").noise.half_widths(0.95)
    assert half[0] != pytest.approx(1.96 * made.margin("Dept").noise_sd[0], rel=1e-3)
    middle = made.margin("Dept").noisy[0]
    assert rows[4][4] == f"{middle - half[0]:,.1f} to {middle + half[0]:,.1f}"


def test_a_public_total_under_add_remove_tells_who_is_there():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    options = {"sigma": 2.0, "neighbours": "add-remove"}
    values = [[31.5, 1.2], [17.7, 25.2]]
    without = render(Release.from_noisy_table(values, domain, **options), ".md")
    known = render(Release.from_noisy_table(values, domain, n_total=76, **options), ".md")
    said = "learns from it whether this one is in the data"
    assert said in known
    assert "This holds whatever else" not in known
    assert said not in without
