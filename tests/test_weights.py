"""Weights of a survey, which are no frequencies: one row of weight w would move w records."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpcontingency import tabulate, tabulate_margins
from dpcontingency.domain import Domain
from dpcontingency.errors import RecordsError
from tests.command_line import refused, run

AB = Domain({"a": ["x", "y"], "b": ["u", "v"]})
SURVEY_NAMES = ["PWGTP", "weight", "Weights", "wgt", "WTINT2YR", "WTMEC2YR", "perwt", "hhwt", "wt",
                "finalwt", "sampweight", "fnlwgt", "pspwght", "_LLCPWT2", "final_wt"]  # fmt: skip
OTHER_NAMES = ["n", "N", "count", "Freq", "number", "w", "growth", "heights", "newton", "two", "u"]


def four(name):
    """Four respondents with the weights of a survey."""
    return pd.DataFrame({"a": list("xxyy"), "b": list("uvuv"), name: [298, 1, 7, 90]})


def persons(rows=400, seed=3, least=20):
    """A survey under a name that says nothing."""
    some = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": some.choice(["x", "y"], rows),
            "b": some.choice(["u", "v"], rows),
            "k": some.integers(least, 500, rows),
        }
    )


def refusal(records, **options):
    with pytest.raises(RecordsError) as caught:
        tabulate(records, AB, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", SURVEY_NAMES)
def test_weights_named_like_those_of_a_survey_need_a_word(name):  # D2
    said = refusal(four(name), weights=name)
    assert "it is named like one" in said
    assert "one row of weight 298, say, may move 298 records" in said
    with pytest.raises(RecordsError, match="named like one"):
        tabulate_margins(four(name), AB, [("a",)], weights=name)
    table = tabulate(four(name), AB, weights=name, weights_are="frequency")
    assert table.counts.tolist() == [[298, 1], [7, 90]]


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_other_names_need_none(name):
    assert tabulate(four(name), AB, weights=name).counts.tolist() == [[298, 1], [7, 90]]


@pytest.mark.parametrize("home", [lambda records: records, pl.from_pandas])
@pytest.mark.parametrize("missing", ["error", "drop"])
def test_rows_that_are_persons_are_refused(home, missing):
    records = home(persons())
    said = refusal(records, weights="k", missing=missing)
    assert "rows that agree in all factors come many times over" in said
    recode = {"a": {"X": "x"}}
    assert refusal(records, weights="k", recode=recode) == said
    with pytest.raises(RecordsError, match="many times over"):
        tabulate_margins(records, AB, [("a",), ("b",)], weights="k")
    frame = persons()
    expected = [
        [frame.k[(frame.a == a) & (frame.b == b)].sum() for b in AB.levels["b"]]
        for a in AB.levels["a"]
    ]
    counted = tabulate(records, AB, weights="k", weights_are="frequency")
    assert counted.counts.tolist() == expected


def test_the_refusal_says_nothing_of_the_records():
    assert refusal(persons(), weights="k") == refusal(persons(900, 4, 50), weights="k")


def test_tables_are_no_surveys():
    """One row a cell; a table with factors left out; and one of few rows."""
    cells = pd.MultiIndex.from_product([range(20), range(20), ["x", "y"], ["u", "v"]])
    wide = cells.to_frame(index=False, name=["c", "d", "a", "b"])
    wide["k"] = np.random.default_rng(1).poisson(1.5, len(wide))  # many cells of 0 and 1
    full = Domain({"c": range(20), "d": range(20), **AB.levels})
    assert tabulate(wide.assign(k=500), full, weights="k").counts.min() == 500
    assert tabulate(wide, AB, weights="k").counts.sum() == wide["k"].sum()
    assert tabulate(persons(99), AB, weights="k").counts.sum() == persons(99)["k"].sum()


def test_what_weights_may_be():
    assert "cannot be counted yet" in refusal(four("k"), weights="k", weights_are="survey")
    said = refusal(four("k"), weights="k", weights_are="frequencies")
    assert "did you mean 'frequency'?" in said
    assert "name their column by weights=..." in refusal(four("k"), weights_are="frequency")


def test_the_word_on_the_command_line(tmp_path):
    four("PWGTP").to_csv(tmp_path / "r.csv", index=False)
    AB.to_yaml(tmp_path / "d.yaml")
    command = ("release", tmp_path / "r.csv", "--domain", tmp_path / "d.yaml", "--mu", 1,
               "--output", tmp_path / "r.json", "--weights", "PWGTP")  # fmt: skip
    assert "Pass --weights-are frequency if" in refused(*command)
    assert "cannot be counted yet" in refused(*command, "--weights-are", "survey")
    assert "did you mean 'survey'?" in refused(*command, "--weights-are", "surveys")
    for margins in ((), ("--margins", "a;b")):
        run(*command, "--weights-are", "frequency", "--force", *margins)
