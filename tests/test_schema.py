"""Domains from what declares levels, and from records, which do not."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpcontingency as dpc
from dpcontingency import _writing
from dpcontingency._draft import look_at, text_of
from dpcontingency.domain import Domain
from dpcontingency.errors import DomainError, ObservedDomainWarning, RecordsError
from dpcontingency.tabulate import tabulate, tabulate_margins

DOSE = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
FRAME = pd.DataFrame(
    {"dose": pd.Categorical(["low", "high", None], dtype=DOSE),
     "code": pd.Categorical([3, 1, 3], categories=[3, 2, 1])}
)  # fmt: skip
DECLARED = Domain({"dose": ["low", "mid", "high"], "code": [3, 2, 1]}, ordered=["dose"])


def test_pandas_categoricals_declare_levels_that_nobody_has():
    domain = Domain.from_schema(FRAME, public=True)
    assert domain == DECLARED
    assert Domain.from_schema(FRAME.iloc[:0], public=True) == DECLARED
    assert domain.is_public
    assert tabulate(FRAME, domain, missing="drop").counts.sum() == 2


def test_arrow_dictionaries_declare_levels():
    table = pa.table(
        {
            "dose": pa.DictionaryArray.from_arrays(
                pa.array([0, 2, None], pa.int8()), ["low", "mid", "high"], ordered=True
            ),
            "code": pa.DictionaryArray.from_arrays(pa.array([0, 2, 0], pa.int8()), [3, 2, 1]),
        }
    )
    assert Domain.from_schema(table, public=True) == DECLARED
    assert Domain.from_schema(table.slice(2, 1), public=True) == DECLARED
    with pytest.raises(DomainError, match="no chunk"):
        Domain.from_schema(table.slice(0, 0), public=True)
    assert Domain.from_schema(table.to_batches()[0], public=True).levels == DECLARED.levels
    chunks = [pa.DictionaryArray.from_arrays([0], [text]) for text in ("b", "a")]
    table = pa.table({"v": pa.chunked_array(chunks)})
    assert Domain.from_schema(table, public=True).levels["v"] == ("b", "a")


def test_categories_that_may_be_values_are_not_public():
    text = pd.Series(["b", "a", "b"])
    for source in (
        pd.DataFrame({"v": text.astype("category")}),
        pa.table({"v": pa.array(text).dictionary_encode()}),
        pl.DataFrame({"v": text}).with_columns(w=pl.Series(["x"] * 3, dtype=pl.Enum(["x"])))
        .to_arrow().set_column(0, "v", pa.array(text).dictionary_encode()),
        pl.DataFrame({"v": text}).cast(pl.Enum(text.unique().tolist())),
    ):  # fmt: skip
        with pytest.warns(ObservedDomainWarning, match="public=True"):
            domain = Domain.from_schema(source)
        assert not domain.is_public
        assert Domain.from_schema(source, public=True).is_public
    frame = pl.DataFrame({"v": pl.Series(["secret"], dtype=pl.Categorical)})
    for public in (False, True):
        with pytest.raises(DomainError, match="polars Categorical") as caught:
            Domain.from_schema(frame, public=public)
        assert "secret" not in str(caught.value)


def test_polars_enums_declare_levels():
    frame = pl.DataFrame({"v": pl.Series(["b"], dtype=pl.Enum(["c", "b", "a"]))})
    domain = Domain.from_schema(frame, public=True)
    assert domain.levels["v"] == ("c", "b", "a")
    assert domain.is_public


def test_files_declare_levels(tmp_path):
    DECLARED.to_yaml(tmp_path / "d.yaml")
    (tmp_path / "d.json").write_text(json.dumps(DECLARED.to_dict()))
    for name in ("d.yaml", "d.json"):
        assert Domain.from_schema(tmp_path / name) == DECLARED
        assert Domain.from_schema(str(tmp_path / name)) == DECLARED


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"SECRET-VALUE: [7919\nx,y\n", "not well-formed YAML (line "),
        (b"a: 7919\n'SECRET-VALUE': 1\nSECRET-VALUE: 2\n", "has a key twice (line 3, column 1)"),
        (b"SECRET-VALUE: !SECRET 7919\n", "(line 1, column 15)"),
        (b"SECRET-VALUE 7919 \x01\n", "not well-formed YAML"),
        (b"SECRET-VALUE 7919 \xe9\n", "not UTF-8"),
    ],
)
def test_a_file_that_is_no_domain_is_not_quoted(text, says, tmp_path):
    (tmp_path / "r.yaml").write_bytes(text)
    with pytest.raises(DomainError) as caught:
        Domain.from_yaml(tmp_path / "r.yaml")
    assert says in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    shown = f"{caught.value} {pickle.dumps(caught.value)!r}"
    assert "SECRET" not in shown
    assert "7919" not in shown


def test_categories_of_other_types_go_by_their_text():
    when = pd.Categorical([], categories=pd.to_datetime(["2020-01-01", "2021-01-01"]))
    cut = pd.cut([1, 5], [0, 2, 10])
    flags = pd.Categorical([True], categories=[True, False])
    domain = Domain.from_schema(pd.DataFrame({"when": when}), public=True)
    assert domain.levels["when"] == ("2020-01-01 00:00:00", "2021-01-01 00:00:00")
    frame = pd.DataFrame({"cut": cut, "flag": pd.Categorical(flags[[0, 0]])})
    domain = Domain.from_schema(frame, public=True)
    assert domain.levels["cut"] == ("(0, 2]", "(2, 10]")
    assert domain.levels["flag"] == (True, False)
    frame = pd.DataFrame({"cut": cut})
    assert tabulate(frame, Domain.from_schema(frame, public=True)).counts.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (pd.DataFrame({"a": FRAME["dose"], "b": ["secret"] * 3}), "Column 2 of 2 is of type str"),
        (pd.DataFrame({"b": [True]}), "Column 1 of 1 is of type bool"),
        (pa.table({"b": ["secret"]}), "Column 1 of 1 is of type string"),
        (pl.DataFrame({"b": ["secret"]}), "Column 1 of 1 is of type"),
        (pa.schema([("b", pa.dictionary(pa.int8(), pa.string()))]), "not what is in it"),
        (pa.dictionary(pa.int8(), pa.string()), "not what is in it"),
        (pd.concat([FRAME, FRAME], axis=1), "Column 1 of 4 has the name of another one"),
        (pd.DataFrame(), "at least one factor"),
        (FRAME["dose"], "got Series"),
        ({"a": ["x"]}, "got dict"),
        (None, "got NoneType"),
        ("no such file.yaml", "Cannot read"),
    ],
)
def test_what_declares_no_levels(source, says):
    with pytest.raises(DomainError, match=says) as caught:
        Domain.from_schema(source)
    assert "secret" not in str(caught.value)


# ------------------------------------------------------------------ read off the records


RECORDS = pd.DataFrame(
    {"b": ["y", "x", None, "y"], "i": [10, 9, 9, 10], "f": [1.0, np.nan, 2.0, -0.5],
     "t": [True, False, True, True]}
)  # fmt: skip
LEVELS = {"b": ("x", "y"), "i": (9, 10), "f": (-0.5, 1, 2), "t": (False, True)}


def observe(*args):
    with pytest.warns(ObservedDomainWarning, match="not private"):
        return Domain.observed(*args)


def test_levels_in_increasing_order(tmp_path):
    RECORDS.to_parquet(tmp_path / "r.parquet")
    homes = (RECORDS, pl.from_pandas(RECORDS), pa.table(RECORDS), tmp_path / "r.parquet")
    for records in homes:
        domain = observe(records)
        assert dict(domain.levels) == LEVELS
        assert not domain.is_public
    assert observe(RECORDS, ["i"]).names == ("i",)
    RECORDS[["b", "i"]].to_csv(tmp_path / "r.csv", index=False)
    assert observe(str(tmp_path / "r.csv")).levels["i"] == ("10", "9")  # in CSV all is text


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_observed_numbers_are_those_of_the_same_records(kind):
    values = np.array([0.1, 1e-4, 1e-7, 2.5, 3, 60000, 1 / 3], kind)
    records = pa.table({"v": values})
    assert tabulate(records, observe(records)).counts.tolist() == [1] * 7
    assert tabulate(records.slice(0, 2), Domain({"v": [0.1, 0.0001]})).counts.tolist() == [1, 1]


def test_the_stamp_goes_wherever_the_levels_go(tmp_path):
    domain = observe(RECORDS, ["b", "i"])
    declared = Domain(dict(domain.levels))
    assert declared.is_public
    assert domain != declared
    assert domain == observe(RECORDS, ["b", "i"])
    assert "NOT PRIVATE: levels read off the records" in repr(domain)
    domain.to_yaml(tmp_path / "d.yaml")
    table = tabulate(RECORDS, domain, missing="drop")
    margins = tabulate_margins(RECORDS, domain, [("i",)])
    release = dpc.release_table(table, dpc.GDP(1), neighbours="add-remove")
    release.save(tmp_path / "r.json")
    again = dpc.load_release(tmp_path / "r.json")
    for holder in (table, margins, margins.margin("i"), release, again, again.margin("b")):
        assert not holder.domain.is_public
        assert "NOT PRIVATE: levels read off the records" in repr(holder) or holder is margins
    for copied in (Domain.from_yaml(tmp_path / "d.yaml"), pickle.loads(pickle.dumps(domain)),
                   domain.project(["i"])):  # fmt: skip
        assert not copied.is_public
    for made in (release, again, again.margin("i")):
        assert not made.private
        assert made.statement()["Privacy"].startswith("NOT PRIVATE: levels read off the records")
    assert json.loads((tmp_path / "r.json").read_text())["domain"]["observed"] is True
    dpc.write_report(release, tmp_path / "r.html")
    assert "NOT PRIVATE: the levels were read off" in (tmp_path / "r.html").read_text()
    assert dpc.release_table(tabulate(RECORDS, Domain({"i": [9, 10]})), dpc.GDP(1)).private


def test_no_beginning_of_a_stamped_file_is_one_of_a_declared_domain(tmp_path):
    """As a full disk or a broken copy leaves it."""
    path = tmp_path / "d.yaml"
    observe(RECORDS).to_yaml(path)
    draft = tmp_path / "draft.yaml"
    draft.write_text(text_of(look_at(RECORDS)))
    for whole in (path.read_bytes(), draft.read_bytes()):
        read = 0
        for end in range(len(whole) + 1):
            path.write_bytes(whole[:end])
            try:
                domain = Domain.from_yaml(path)
            except DomainError:
                continue
            read += 1
            assert not domain.is_public
        assert read > 1  # such as a file that lacks its last level


def test_a_domain_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "d.yaml"
    DECLARED.to_yaml(path)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_writing.os, "fsync", full)
        with pytest.raises(DomainError, match="No space left on device"):
            Domain({"a": list(range(100))}).to_yaml(path)
    assert Domain.from_yaml(path) == DECLARED
    assert [file.name for file in tmp_path.iterdir()] == ["d.yaml"]


@pytest.mark.parametrize(
    ("records", "factors", "says"),
    [
        (pd.DataFrame({"a": [f"secret{i}" for i in range(1001)]}), None, "more than 1,000 values"),
        (pd.DataFrame({"a": [None, None]}), None, "no value but missing"),
        (RECORDS, ["c"], "no column 'c'"),
        (pa.table({"a": [["secret"]]}), None, "no levels"),
        (pd.DataFrame({"a": [np.inf]}), None, "finite"),
        ("nowhere.csv", None, "no file"),
        (3, None, "got int"),
    ],
)
def test_records_without_levels(records, factors, says):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ObservedDomainWarning)
        with pytest.raises((RecordsError, DomainError), match=says) as caught:
            Domain.observed(records, factors)
    assert "secret" not in str(caught.value)


def test_factors_are_a_sequence():
    with pytest.warns(ObservedDomainWarning), pytest.raises(DomainError, match=r"write \['i'\]"):
        Domain.observed(RECORDS, "i")
