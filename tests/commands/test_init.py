"""Drafts of domain files: what becomes a factor, what is left out, and the mark until confirmed."""

import json

import numpy as np
import pandas as pd
import pytest

from dpcontingency._draft import look_at, text_of
from dpcontingency.domain import Domain
from dpcontingency.errors import RecordsError
from dpcontingency.release.release import load_release
from tests.command_line import invoke, refused, run

N = 200
OPINIONS = ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"]
ODD = ["a,b", "c|d", "'q'", "NA", "null", "~", "#", "no", "1:30", " lead"]


@pytest.fixture(scope="module")
def frame():
    """A column of every kind."""
    some = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "id": np.arange(1, N + 1),
            "name": [f"Person {i}" for i in range(N)],
            "age": some.integers(18, 90, N),
            "income": some.normal(3e4, 1e4, N).round(2),
            "visit": pd.date_range("2020-01-01", periods=N).strftime("%Y-%m-%d"),
            "year": np.resize([2021, 2020, 2022], N),
            "opinion": np.resize(OPINIONS, N),
            "smokes": np.resize(["yes", "no"], N),
            "code": np.resize(["01", "10", "02"], N),
            "x: #y\nz": np.resize(ODD, N),
            "empty": [None] * N,
            "severity": np.resize(["mild", "none", None, "severe"], N),
            "zip": [f"{i % 90:05d}" for i in range(N)],
            "n": np.resize([1, 2], N),
        }
    )


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    """The records as CSV and as Parquet."""
    out = tmp_path_factory.mktemp("init")
    frame.to_csv(out / "r.csv", index=False)
    frame.to_parquet(out / "r.parquet")
    return out


KINDS = {
    "id": "identifier", "name": "identifier", "age": "numbers", "income": "numbers",
    "visit": "dates", "year": "factor", "opinion": "factor", "smokes": "factor", "code": "factor",
    "x: #y\nz": "factor", "empty": "empty", "severity": "factor", "zip": "many", "n": "counts",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_every_kind_of_column(files, kind):
    columns = look_at(str(files / f"r.{kind}"))
    assert {column.name: column.kind for column in columns} == KINDS


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_draft_is_an_observed_domain_that_reads_back(files, tmp_path, kind):
    content = json.loads(
        run("init", files / f"r.{kind}", "--output", tmp_path / "d.yaml", "--json")
    )
    domain = Domain.from_yaml(tmp_path / "d.yaml")
    assert not domain.is_public
    assert dict(domain.levels) == {
        "year": (2020, 2021, 2022),
        "opinion": tuple(OPINIONS),
        "smokes": ("no", "yes"),
        "code": ("01", "02", "10"),
        "x: #y\nz": tuple(sorted(ODD)),
        "severity": ("none", "mild", "severe"),
    }
    assert domain.ordered == ("opinion", "severity")
    assert content["factors"] == {name: len(levels) for name, levels in domain.levels.items()}
    assert content["bins"] == ["age", "income"]
    assert content["left_out"] == {
        name: kind for name, kind in KINDS.items() if kind not in ("factor", "numbers")
    }
    assert content["observed"] is True


def test_edges_are_never_learnt_and_no_comment_holds_a_value(files, frame, tmp_path):
    run("init", files / "r.csv", "--output", tmp_path / "d.yaml")
    text = (tmp_path / "d.yaml").read_text(encoding="utf-8")
    comments = "".join(line for line in text.splitlines() if line.lstrip().startswith("#"))
    assert "age: [TODO, TODO]" in comments
    assert not any(character.isdigit() for character in comments)
    for name in ("name", "visit", "zip"):
        assert frame[name].iloc[0] not in text
    assert "CONFIDENTIAL" in comments
    assert text.count("observed: confirm these are public") == 6
    assert max(map(len, text.splitlines())) <= 88


def test_a_todo_becomes_bins_once_edges_are_chosen(files, tmp_path):
    run("init", files / "r.csv", "--output", tmp_path / "d.yaml", "--factor", "age",
        "--factor", "smokes")  # fmt: skip
    path = tmp_path / "d.yaml"
    text = path.read_text(encoding="utf-8")
    edited = text.replace("# bins:", "bins:").replace(
        "#   age: [TODO, TODO]", "  age: [0, 40, 120]"
    )
    path.write_text(edited.replace("observed: true\n", ""), encoding="utf-8")
    domain = Domain.from_yaml(path)
    assert domain.is_public
    assert domain.levels["age"] == ("[0, 40)", "[40, 120]")
    run("release", files / "r.csv", "--domain", path, "--mu", 1, "--output", tmp_path / "r.json",
        "--weights", "n", "--neighbours", "add-remove")  # fmt: skip


def test_until_it_is_confirmed_a_release_is_not_private(tmp_path):
    (tmp_path / "r.csv").write_text("A,B\n" + "a,u\nb,v\na,v\n" * 30)
    path = tmp_path / "domain.yaml"
    printed = run("init", tmp_path / "r.csv", "--output", path)
    assert "CONFIDENTIAL until you have confirmed" in printed
    release = ("release", tmp_path / "r.csv", "--domain", path, "--mu", 1, "--force",
               "--output", tmp_path / "r.json")  # fmt: skip
    result = invoke(*release)
    assert result.exit_code == 0
    assert "still says observed: true, so this release is stamped NOT PRIVATE" in result.stderr
    assert "NOT PRIVATE: levels read off the records" in result.stdout
    assert not load_release(tmp_path / "r.json").private
    path.write_text(path.read_text().replace("observed: true\n", ""))
    assert "NOT PRIVATE" not in run(*release)
    assert load_release(tmp_path / "r.json").private


def test_a_draft_is_not_replaced_unasked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.csv").write_text("A,B\na,u\nb,v\n")
    run("init", "r.csv")
    (tmp_path / "domain.yaml").write_text("edited")
    assert "domain.yaml exists already" in refused("init", "r.csv")
    assert (tmp_path / "domain.yaml").read_text() == "edited"
    run("init", "r.csv", "--force")
    assert "There is no folder no/such" in refused("init", "r.csv", "--output", "no/such/d.yaml")


def test_a_small_table_of_counts(tmp_path):
    (tmp_path / "f.csv").write_text("A,B,freq\na,u,4\na,v,3\nb,u,2\nb,v,6\n")
    columns = look_at(str(tmp_path / "f.csv"))
    assert [column.kind for column in columns] == ["factor", "factor", "counts"]
    assert "--weights" in columns[2].reason


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"A,B\n", "There is no record"),
        (b"A;B\na;u\n", "holds semicolons"),
        (b"A\tB\na\tu\n", "holds tabs"),
        (bytes(range(256)) * 20, "cannot be read or counted"),
        ("A,B\na,é\n".encode("utf-16"), "UTF-8"),
        (b"A,B\na,\xe9\n", "UTF-8"),
        (b"A,B\n1,2,3\n", "as many fields on every line"),
        (b"id\n" + b"\n".join(b"%d" % i for i in range(50)), "looks like a factor"),
    ],
)
def test_records_that_make_no_domain(tmp_path, content, said):
    (tmp_path / "r.csv").write_bytes(content)
    assert said in refused("init", tmp_path / "r.csv", "--output", tmp_path / "d.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["r.csv"]


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfA,B\na,u\nb,v\n", b"A,B\r\na,u\r\nb,v\r\n"])
def test_marks_and_line_ends_of_other_systems(tmp_path, content):
    (tmp_path / "r.csv").write_bytes(content)
    run("init", tmp_path / "r.csv", "--output", tmp_path / "d.yaml")
    domain = Domain.from_yaml(tmp_path / "d.yaml")
    assert dict(domain.levels) == {"A": ("a", "b"), "B": ("u", "v")}


def test_columns_asked_for_are_factors_if_they_can_be(files, tmp_path):
    columns = look_at(str(files / "r.csv"), ["n", "smokes"])
    assert [(c.name, c.kind, c.levels) for c in columns] == [
        ("n", "factor", (1, 2)),
        ("smokes", "factor", ("no", "yes")),
    ]
    said = refused("init", files / "r.csv", "--output", tmp_path / "d.yaml", "--factor", "smoke")
    assert "no column 'smoke'" in said


def test_without_a_factor_there_is_no_file(frame):
    with pytest.raises(RecordsError, match="Column 1 of 2: nearly every record"):
        text_of(look_at(frame[["id", "age"]]))


@pytest.mark.parametrize("value", ["NaN", "inf", "-Infinity", "12345678901234567890", "1e400"])
def test_numbers_that_fit_no_integer_are_looked_at(tmp_path, value):
    (tmp_path / "r.csv").write_text("g,x\n" + "a,1\n" * 20 + f"b,{value}\n" * 20)
    assert [column.name for column in look_at(tmp_path / "r.csv")] == ["g", "x"]


def test_a_column_without_a_name_is_left_out_and_one_named_twice_taken_once(tmp_path):
    (tmp_path / "r.csv").write_text("g,\n" + "a,1\nb,2\n" * 10)
    columns = look_at(tmp_path / "r.csv")
    assert [column.kind for column in columns] == ["factor", "no name"]
    assert [column.name for column in look_at(tmp_path / "r.csv", ["g", "g"])] == ["g"]


@pytest.mark.parametrize("sign", ["\u2028", "\u0085", "\x7f", "\x1b", "\n"])
def test_no_sign_in_a_name_ends_a_comment(tmp_path, sign):
    frame = pd.DataFrame({"g": ["a", "b"] * 20, f"x{sign}ordered: [g]{sign}# ": range(40)})
    (tmp_path / "d.yaml").write_text(text_of(look_at(frame)), encoding="utf-8")
    domain = Domain.from_yaml(tmp_path / "d.yaml")
    assert domain.names == ("g",)
    assert not domain.ordered
