"""One document in three formats: the same numbers in each, and what each format needs."""

import json
import re
from importlib.resources import files as resources
from itertools import combinations, pairwise

import jsonschema
import numpy as np
import pytest
from markdown_it import MarkdownIt

from dpcontingency.domain import Domain
from dpcontingency.errors import ReleaseError
from dpcontingency.inference.comparison import compare
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.overview import association_overview
from dpcontingency.release.release import Release
from dpcontingency.report.document import document_of, render, write_report
from dpcontingency.report.html import html
from dpcontingency.report.machine import machine
from dpcontingency.report.markdown import escaped, markdown

DOMAIN = Domain({"A": ["a", "b"], "B": ["u", "v"], "C": ["x", "y", "z"]})
CELLS = np.array(
    [[[91.5, 38.0, 17.2], [47.7, 55.2, -1.4]], [[33.0, 71.3, 28.8], [60.1, 12.9, 44.4]]]
)


@pytest.fixture(scope="module")
def release():
    return Release.from_noisy_table(CELLS, DOMAIN, sigma=4.0, neighbours="add-remove")


@pytest.fixture(scope="module")
def found(release):
    smaller = LogLinearModel(release, "[A B][C]").fit()
    larger = LogLinearModel(release, "[A B][B C]").fit()
    return {"models": [smaller, larger], "tests": [independence_test(release, "A", "B", given="C")]}


@pytest.fixture(scope="module")
def document(release, found):
    return document_of(release, **found)


@pytest.fixture(scope="module")
def report(document):
    return json.loads(machine(document))


def rows(section, key):
    """The rows of a table of a JSON report, as dictionaries."""
    table = section["tables"][key]
    keys = [column["key"] for column in table["columns"]]
    return [dict(zip(keys, row, strict=True)) for row in table["rows"]]


# ------------------------------------------------------------------ JSON


def test_json_keeps_to_its_schema(report):
    path = resources("dpcontingency.report").joinpath("report.schema.json")
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(report, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**report, "extra": 1}, schema)


def test_json_numbers_are_those_of_the_objects(report, release, found):
    sections = report["sections"]
    loss = {row["measure"]: row["value"] for row in rows(sections["protection"], "loss")}
    assert loss["mu"] == release.privacy.mu == 0.25
    assert loss["epsilon"] == release.privacy.epsilon(1e-6)
    assert loss["rho"] == release.privacy.rho
    assert loss["sigma"] == 4.0
    cells = rows(sections["cells"], "cells")
    assert [row["noisy"] for row in cells] == CELLS.ravel().tolist()
    assert {row["noise_sd"] for row in cells} == {4.0}
    one_way = [row for row in rows(sections["margins"], "one_way") if row["factor"] == "C"]
    margin = release.margin("C")
    assert [row["noisy"] for row in one_way] == margin.noisy.tolist()
    half = 1.959963984540054 * margin.noise_sd
    np.testing.assert_allclose([row["interval"][0] for row in one_way], margin.noisy - half)
    np.testing.assert_allclose([row["interval"][1] for row in one_way], margin.noisy + half)
    pairs = rows(sections["associations"], "pairs")
    overview = association_overview(release)
    for row, (_, line) in zip(pairs, overview.iterrows(), strict=True):
        assert (row["row"], row["column"]) == (line["row"], line["column"])
        assert row["estimate"] == line["estimate"]
        assert row["interval"] == [line["lower"], line["upper"]]
        assert (row["statistic"], row["pvalue"]) == (line["statistic"], line["pvalue"])
    (test,) = found["tests"]
    (row,) = rows(sections["tests"]["parts"]["test1"], "result")
    assert row == {"statistic": test.statistic, "df": test.df, "pvalue": test.pvalue}
    smaller, larger = found["models"]
    change = rows(sections["models"], "differences")[0]
    assert change["lr"] == compare(smaller, larger).table["lr_diff"].iloc[1]
    model = sections["models"]["parts"]["model2"]
    assert model["facts"]["aic"]["value"] == larger.aic
    assert model["facts"]["llf"]["value"] == larger.llf
    coefficients = rows(model["parts"]["coefficients"], "coefficients")
    assert [row["estimate"] for row in coefficients] == larger.params.tolist()
    assert [row["se_sampling"] for row in coefficients] == larger.bse_sampling.tolist()
    assert [row["se_privacy"] for row in coefficients] == larger.bse_privacy.tolist()
    ratios = rows(model["parts"]["odds_ratios"], "odds_ratios")
    frame = larger.odds_ratios()
    assert [row["odds_ratio"] for row in ratios] == frame["odds_ratio"].tolist()
    assert [row["interval"] for row in ratios] == frame[["lower", "upper"]].to_numpy().tolist()
    residuals = rows(model["parts"]["residuals"], "residuals")
    assert residuals[0]["resid_adjusted"] == pytest.approx(
        larger.resid_adjusted.iloc[larger.resid_adjusted.abs().argmax()]
    )
    assert "parts" in sections["models"]["parts"]["model1"]
    assert sections["models"]["parts"]["model1"]["parts"] == {}


def test_a_factor_may_have_the_name_of_a_column():
    domain = Domain({"noisy": ["a", "b"], "estimate": ["u", "v"]})
    made = Release.from_noisy_table([[5.0, 8.0], [9.0, 3.5]], domain, sigma=1.0)
    table = json.loads(render(made, ".json"))["sections"]["cells"]["tables"]["cells"]
    assert [column["key"] for column in table["columns"]] == [
        "noisy",
        "estimate",
        "noisy",
        "noise_sd",
    ]
    assert table["rows"][0] == ["a", "u", 5.0, 1.0]


# ------------------------------------------------------------------ Markdown


def test_markdown_has_every_table_and_every_heading(document):
    text = markdown(document)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    tables = [k for k, token in enumerate(tokens) if token.type == "table_open"]
    assert len(tables) == len(list(document.tables()))
    levels = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
    assert levels[0] == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))
    cells = [t.content for t in tokens if t.type == "inline" and t.level == 4]
    for table in document.tables():
        for row in table.rows:
            assert all(escaped(cell.text) in cells for cell in row)
    assert "<svg" not in text
    assert all(ord(c) >= 32 or c == "\n" for c in text)


def test_markdown_says_where_a_picture_is_and_leaves_no_section_empty(document):
    text = markdown(document)
    for picture in document.pictures():
        assert f"*A picture, in the HTML form of this report:* {escaped(picture.caption)}" in text
    heads = re.findall(r"^(#+) .*\n\n(#*)", text, re.MULTILINE)
    assert len(heads) > 10
    assert not [head for head, following in heads if following and len(following) <= len(head)]


def test_what_markdown_would_read_is_shown_as_it_is():
    odd = {"a|b": ["*1*", "<b>"], "# x": ["`y`", "[z](u)"], "\\": ["&amp;", "~~no~~"]}
    made = Release.from_noisy_table(np.arange(8).reshape(2, 2, 2) + 9.0, Domain(odd), sigma=1.0)
    reader = MarkdownIt("commonmark").enable("table")
    shown = reader.render(render(made, ".md", title="1. <i>title</i> *x*"))
    assert "<h1>1. &lt;i&gt;title&lt;/i&gt; *x*</h1>" in shown
    for text in ("a|b", "*1*", "&lt;b&gt;", "`y`", "[z](u)", "\\", "&amp;amp;", "~~no~~"):
        assert f">{text}</" in shown
    for text in ("1. a", "- a", "+ a", "12) a", "=== a", "> a", "a_b_c", "![x](y)", "a" * 3):
        assert reader.render(escaped(text)).count("<p>") == 1
        assert "<li>" not in reader.render(escaped(text))
        assert "<em>" not in reader.render(escaped(text))


def test_dollars_in_names_make_no_formula():
    """GitHub and notebooks read $x$ as mathematics."""
    odd = Domain({"$x$": ["$1", "$2"], "B": ["u", "v"]})
    text = render(Release.from_noisy_table(np.eye(2) + 9.0, odd, sigma=1.0), ".md")
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert r"\$x\$" in prose
    assert not re.search(r"(?<!\\)\$", prose)


def test_the_formats_hold_the_same_numbers(document):
    texts = [cell.text for table in document.tables() for row in table.rows for cell in row]
    page = html(document)
    plain = markdown(document)
    for text in filter(None, texts):
        assert escaped(text) in plain
        assert text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in page


# ------------------------------------------------------------------ the file


@pytest.mark.parametrize("name", ["report.html", "report.md", "report.json", "REPORT.HTML"])
def test_the_suffix_is_the_format(release, tmp_path, name):
    small = release.margin("A", "B")
    write_report(small, tmp_path / name)
    start = (tmp_path / name).read_text(encoding="utf-8")[:10]
    assert start.startswith({"h": "<!DOCTYPE", "m": "# ", "j": "{"}[name.split(".")[1][0].lower()])


@pytest.mark.parametrize("name", ["report", "report.txt", "report.htm"])
def test_an_unknown_suffix_is_refused(release, tmp_path, name):
    with pytest.raises(ReleaseError, match=r"Name the file report.html, report.md or report.json"):
        write_report(release, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_what_is_no_path_is_refused(release):
    with pytest.raises(ReleaseError, match="given by its path"):
        write_report(release, 7)


# ------------------------------------------------------------------ size


def test_a_large_table_has_a_small_report():
    domain = Domain({f"F{k}": list(range(10)) for k in range(5)})
    values = np.random.default_rng(3).normal(2, 5, domain.shape)
    made = Release.from_noisy_table(values, domain, sigma=5.0, n_total=200_000)
    document = document_of(made)
    assert max(len(table.rows) for table in document.tables()) <= 200
    assert sum(len(table.rows) for table in document.tables()) < 500
    text = machine(document)
    assert len(text) < 200_000
    assert "99,800 are left out" in text
    assert "release.to_csv" in text


def test_six_factors_with_their_models_stay_small():
    rng = np.random.default_rng(6)
    domain = Domain({name: ["no", "yes"] for name in "ABCDEF"})
    values = rng.normal(30, 5, domain.shape)
    made = Release.from_noisy_table(values, domain, sigma=5.0, n_total=1900)
    pairs = list(combinations("ABCDEF", 2))
    models = [LogLinearModel(made, g).fit() for g in ([(n,) for n in "ABCDEF"], pairs)]
    text = render(made, models=models, tests=[independence_test(made, "A", "B")])
    assert len(text) < 600_000
    assert text.count("<svg") <= 6
