"""Records in, counts out: the same counts from every engine, and no record in any message."""

import datetime
import math
import pickle
import time
import traceback
import warnings
from collections import Counter
from decimal import Decimal
from pathlib import Path

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcontingency.bins import Bins
from dpcontingency.domain import Domain, label_text
from dpcontingency.errors import (
    DomainError,
    DPContingencyError,
    PrecisionWarning,
    RecordsError,
)
from dpcontingency.tabulate import LOOK, MAX_LABELS, tabulate, tabulate_margins

DATA = Path(__file__).parents[1] / "data"
ODD_NAMES = ["my a", "b-c", "1st", "class", "C", "np", "x:y", "α", 'q"u', "a", "A", "it's"]
ODD_NAMES += ["c0", "n", "fault", "count", "columns", "select", "None", "[A B]", "f{x}", "%s", "ß"]


def on_duckdb(frame):
    """The frame as an Ibis table in a DuckDB connection of its own, by way of a view."""
    connection = duckdb.connect()
    connection.register("records", frame)
    with warnings.catch_warnings():  # Ibis calls DuckDB by names that DuckDB has deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        return ibis.duckdb.from_connection(connection).table("records")


def as_csv(frame, folder):
    path = folder / "records.csv"
    frame.to_csv(path, index=False)
    return path


def as_parquet(frame, folder):
    path = folder / "records.parquet"
    frame.to_parquet(path, index=False)
    return path


HOMES = {
    "pandas": lambda frame, folder: frame,
    "polars": lambda frame, folder: pl.from_pandas(frame),
    "arrow": lambda frame, folder: pa.Table.from_pandas(frame, preserve_index=False),
    "csv": as_csv,
    "parquet": as_parquet,
    "ibis": lambda frame, folder: on_duckdb(frame),
}

anywhere = pytest.mark.parametrize("home", HOMES.values(), ids=list(HOMES))


def counts(records, domain, **options):
    return tabulate(records, domain, **options).counts.tolist()


def refusal(records, domain, **options):
    """The error, after a look at all that it could show to somebody."""
    with pytest.raises(RecordsError) as caught:
        tabulate(records, domain, **options)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "secret" not in "".join(traceback.format_exception_only(error))
    assert b"secret" not in pickle.dumps(error)
    assert str(error).endswith((".", "?"))
    return error


AB = Domain({"a": ["x", "y"], "b": ["u", "v", "w"]})
FRAME = pd.DataFrame({"a": ["x", "y", "y", "y"], "b": ["u", "u", "w", "w"]})


# ------------------------------------------------------------------ every home of records


@anywhere
def test_the_same_counts_wherever_the_records_live(home, tmp_path):
    table = tabulate(home(FRAME, tmp_path), AB)
    assert table.counts.tolist() == [[1, 0, 0], [1, 0, 2]]
    assert table.counts.dtype == np.int64
    assert table.domain is AB
    assert table.n_is_public


@anywhere
def test_berkeley_equals_its_frequency_form(home, tmp_path):
    frame = pd.read_csv(DATA / "ucb_admissions_records.csv")
    frequencies = pd.read_csv(DATA / "ucb_admissions.csv")
    domain = Domain.from_yaml(DATA / "ucb_admissions_domain.yaml")
    table = tabulate(home(frame, tmp_path), domain)
    assert table.counts.sum() == 4526
    assert table.counts[0, 0].tolist() == [512, 353, 120, 138, 53, 22]
    weighted = tabulate(home(frequencies, tmp_path), domain, weights="count")
    assert (weighted.counts == table.counts).all()


@anywhere
def test_no_records_give_the_table_of_zeros(home, tmp_path):
    assert counts(home(FRAME.iloc[:0], tmp_path), AB) == [[0, 0, 0], [0, 0, 0]]
    frame = FRAME.iloc[:0].assign(n=np.array([], dtype=int))
    assert counts(home(frame, tmp_path), AB, weights="n") == [[0, 0, 0], [0, 0, 0]]


@anywhere
def test_other_columns_are_left_alone(home, tmp_path):
    frame = FRAME.assign(note=["secret"] * 4, age=[1.5, math.nan, 3, 4])
    assert counts(home(frame, tmp_path), AB) == [[1, 0, 0], [1, 0, 2]]


def test_order_of_columns_and_levels_is_the_domains():
    domain = Domain({"b": ["w", "v", "u"], "a": ["y", "x"]})
    assert counts(FRAME, domain) == [[2, 0], [0, 0], [1, 1]]


def test_one_factor():
    assert counts(FRAME, Domain({"a": ["y", "x"]})) == [3, 1]


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".csv.zst", ".CSV"])
def test_csv_files(ending, tmp_path):
    path = tmp_path / f"r{ending}"
    if ending.endswith("zst"):
        with pa.output_stream(path, compression="zstd") as stream:
            stream.write(FRAME.to_csv(index=False).encode())
    else:
        FRAME.to_csv(path, index=False)
    assert counts(str(path), AB) == counts(path, AB) == [[1, 0, 0], [1, 0, 2]]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_globs_match_columns_by_name(ending, tmp_path):
    parts = [FRAME, FRAME[["b", "a"]], FRAME.iloc[:1]]
    for i, frame in enumerate(parts):
        path = tmp_path / f"part-{i}.{ending}"
        frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path, index=False)
    assert counts(str(tmp_path / f"part-*.{ending}"), AB) == [[3, 0, 0], [2, 0, 4]]
    assert counts(str(tmp_path / f"**/*.{ending}"), AB) == [[3, 0, 0], [2, 0, 4]]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_of_a_glob_that_lacks_a_factor_is_refused(ending, tmp_path):
    for name, frame in {"0": FRAME, "1": FRAME[["a"]]}.items():
        path = tmp_path / f"{name}.{ending}"
        frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path, index=False)
    refusal(str(tmp_path / f"*.{ending}"), AB)
    refusal(str(tmp_path / f"*.{ending}"), AB, missing="drop")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("folder", ["a=y", "b=v", "a=1", "day=2"])
def test_a_folder_named_like_a_column_is_only_a_folder(folder, ending, tmp_path):
    (tmp_path / folder).mkdir()
    home = as_csv if ending == "csv" else as_parquet
    assert counts(home(FRAME, tmp_path / folder), AB) == counts(FRAME, AB)
    assert counts(str(tmp_path / f"*/*.{ending}"), AB) == counts(FRAME, AB)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("counted", [0, 1, 2])
def test_files_of_a_glob_have_the_same_columns(counted, ending, tmp_path):  # C20
    home = as_csv if ending == "csv" else as_parquet
    for i in range(3):
        (tmp_path / f"k[{i}").mkdir()
        home(FRAME.assign(count=7) if i == counted else FRAME, tmp_path / f"k[{i}")
    error = refusal(str(tmp_path / f"*/*.{ending}"), AB)
    assert "the same columns" in str(error) or "'count'" in str(error)


def test_nothing_in_a_csv_file_is_inferred(tmp_path):
    texts = ["01", "1", "1.0", "1e3", "yes", "no", "true", "NULL", "null", "NA", "nan", "None"]
    texts += ["~", "-", " x", "x ", "#1", "//", "2020-01-01", "1:30", "1,5", "a;b", "a\tb", "a|b"]
    texts += ['q"q', "'s'", "α", "two\nlines", "\\N", "\\", "N/A", "0x1F", "1_0", "+1", "-0", "inf"]
    domain = Domain({"v": texts, "w": ["k"]})
    for quoting in (0, 1):
        path = tmp_path / f"{quoting}.csv"
        pd.DataFrame({"v": texts, "w": "k"}).to_csv(path, index=False, quoting=quoting)
        assert counts(path, domain) == [[1]] * len(texts)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_csv_line_ends_and_byte_order_mark(newline, bom, end, tmp_path):
    path = tmp_path / "r.csv"
    text = bom + "a,b\nx,u\ny,w" + end
    path.write_bytes(text.replace("\n", newline).encode())
    assert counts(path, AB) == [[1, 0, 0], [0, 0, 1]]


def test_csv_with_a_header_only(tmp_path):
    (tmp_path / "r.csv").write_text("a,b\n")
    assert counts(tmp_path / "r.csv", AB) == [[0, 0, 0], [0, 0, 0]]


MALFORMED = {
    "too few fields": b"a,b\nsecret,u\nsecret\n",
    "too many fields": b"a,b\nx,u,secret\n" * 3,
    "open quote": b'a,b\nx,"secret\n',
    "not utf-8": b"a,b\nsecret\xe9,u\n",
    "nothing": b"",
    "binary": bytes(range(256)) * 9,
    "late too many": b"a,b\n" + b"x,u\n" * 100_000 + b"x,u,secret\n",
    "late not utf-8": b"a,b\n" + b"x,u\n" * 100_000 + b"secret\xe9,u\n",
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=list(MALFORMED))
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_a_malformed_file_is_refused_in_our_words(content, ending, tmp_path):
    path = tmp_path / f"r.{ending}"
    path.write_bytes(content)
    error = refusal(path, AB)
    assert "sniff" not in str(error)
    assert ending != "parquet" or "CSV" not in str(error)


def test_files_of_unlike_types_are_refused_without_their_values(tmp_path):
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "0.parquet")
    pd.DataFrame({"a": ["secret"]}).to_parquet(tmp_path / "1.parquet")
    refusal(str(tmp_path / "*.parquet"), Domain({"a": [1, 2]}))


NO_RECORDS = [None, 3, [1], {"a": ["x"]}, FRAME["a"], FRAME.to_numpy(), pl.LazyFrame({"a": ["x"]}),
              pl.Series("a", ["x"]), b"r.csv", "r.txt", "r.xlsx", "nowhere.csv", "no*.parquet", "",
              "."]  # fmt: skip


@pytest.mark.parametrize("i", range(len(NO_RECORDS)))
def test_what_is_no_records(i):
    message = str(refusal(NO_RECORDS[i], AB))
    assert "engine" not in message
    assert len(message) < 250


def test_an_ibis_expression_is_counted_where_it_stands():
    table = on_duckdb(pd.concat([FRAME] * 3))
    assert counts(table.filter(table.a == "y").limit(100), AB) == [[0, 0, 0], [3, 0, 6]]
    assert counts(ibis.memtable(pa.table(FRAME)), AB) == [[1, 0, 0], [1, 0, 2]]


def test_an_ibis_table_without_an_engine_is_refused():
    refusal(ibis.table({"a": "string", "b": "string"}, name="nowhere"), AB)


def test_the_users_default_engine_is_not_touched(tmp_path):
    before = ibis.options.default_backend
    tabulate(FRAME, AB)
    tabulate(as_csv(FRAME, tmp_path), AB)
    assert ibis.options.default_backend is before


def test_the_caller_s_frame_is_not_changed():
    before = FRAME.copy(deep=True)
    tabulate(FRAME, AB)
    pd.testing.assert_frame_equal(FRAME, before)


# ------------------------------------------------------------------ names (C11)


@anywhere
def test_names_are_opaque(home, tmp_path):
    # DuckDB takes a and A for one name, and Ibis then counts one of them twice.
    for names in np.array_split([n for n in ODD_NAMES if n != "A"], 4):
        frame = pd.DataFrame({n: [i % 2, i % 3 % 2, 1, 1] for i, n in enumerate(names, start=1)})
        cells = tuple(frame[name].to_numpy() for name in names)
        expected = np.zeros((2,) * len(names), dtype=int)
        np.add.at(expected, cells, 1)
        table = tabulate(home(frame, tmp_path), Domain({name: [0, 1] for name in names.tolist()}))
        assert (table.counts == expected).all()


@pytest.mark.parametrize("home", [v for k, v in HOMES.items() if k not in ("ibis", "parquet")])
def test_names_that_differ_in_case_only(home, tmp_path):
    frame = pd.DataFrame({"a": [1, 1, 2], "A": ["x", "y", "y"]})
    assert counts(home(frame, tmp_path), Domain({"a": [1, 2], "A": ["x", "y"]})) == [[1, 1], [0, 1]]
    assert counts(home(frame, tmp_path), Domain({"A": ["x", "y"]})) == [1, 2]
    assert counts(home(frame, tmp_path), Domain({"a": [1, 2]})) == [2, 1]


def test_where_the_engine_folds_case_it_is_an_error():
    frame = pd.DataFrame({"a": [1, 1, 2], "A": ["x", "y", "y"]})
    assert "case" in str(refusal(ibis.memtable(pa.table(frame)), Domain({"a": [1, 2]})))


@pytest.mark.parametrize("names", [("my a", "x:y", "class"), ("1st", "Intercept", "α")])
def test_table_b1_under_odd_names(names):
    cells = [911, 3, 44, 2, 538, 43, 456, 279]
    domain = Domain({name: ["yes", "no"] for name in names})
    # First factor fastest.
    levels = [("yes", "no")[i // 2**k % 2] for i in range(8) for k in range(3)]
    frame = pd.DataFrame(np.reshape(levels, (8, 3)), columns=list(names)).assign(n=cells)
    table = tabulate(frame, domain, weights="n")
    assert table.counts.ravel(order="F").tolist() == cells
    rows = frame.loc[frame.index.repeat(frame["n"]), list(names)]
    assert (tabulate(rows, domain).counts == table.counts).all()


@pytest.mark.parametrize("near", ["gender", " Gender", "GENDER ", "\uff27ender", "Gendre"])
def test_a_missing_column_is_named_with_the_kind_of_difference(near):
    error = refusal(pd.DataFrame({near: ["secret"], "x": [1]}), Domain({"Gender": ["m", "f"]}))
    assert "no column 'Gender' (factor)" in str(error)
    assert ("differs from it in capitals, spaces or" in str(error)) == (near != "Gendre")
    assert near not in str(error)
    assert error.labels == (near, "x")


def test_duplicate_columns(tmp_path):
    frame = pd.DataFrame([["x", "u", 1, 2]], columns=["a", "b", "z", "z"])
    assert counts(frame, AB) == [[1, 0, 0], [0, 0, 0]]
    doubled = frame.set_axis(["a", "b", "a", "z"], axis=1)
    assert "several columns 'a'" in str(refusal(doubled, AB))
    arrow = pa.table([["x"], ["u"], ["x"]], names=["a", "b", "a"])
    assert "several columns 'a'" in str(refusal(arrow, AB))
    (tmp_path / "r.csv").write_text("a,b,a\nx,u,y\n")
    assert "several columns 'a'" in str(refusal(tmp_path / "r.csv", AB))


def test_pandas_columns_that_are_numbers():
    assert counts(pd.DataFrame([["x", "u"]]), Domain({"0": ["x"], "1": ["u"]})) == [[1]]


# ------------------------------------------------------------------ values and levels


COLUMNS = {
    "int": ([1, 2, 2], [1, 2], [1, 2]),
    "int as text": ([1, 2, 2], ["1", "2"], [1, 2]),
    "text as int": (["1", "2", "2"], [1, 2], [1, 2]),
    "float, whole": ([1.0, 2.0, 2.0], [1, 2], [1, 2]),
    "float": ([0.1, 0.25, 0.25], [0.1, 0.25], [1, 2]),
    "float32": (np.array([0.1, 2, 2], np.float32), [0.1, 2], [1, 2]),
    "zeros": ([0.0, -0.0, 1.0], [0, 1], [2, 1]),
    "int8": (np.array([-1, 2, 2], np.int8), [-1, 2], [1, 2]),
    "uint64": (np.array([2**64 - 1, 0, 0], np.uint64), [2**64 - 1, 0], [1, 2]),
    "int64, 2**53 + 1": ([2**53 + 1, 2**53, 2**53], [2**53 + 1, 2**53], [1, 2]),
    "bool": ([True, False, False], [True, False], [1, 2]),
    "bool as text": ([True, False, False], ["True", "False"], [1, 2]),
    "text, 01": (["01", "1", "1"], ["01", "1"], [1, 2]),
    "empty text": (["", "x", "x"], ["", "x"], [1, 2]),
    "categorical": (pd.Categorical(["x", "y", "y"], ["z", "y", "x"]), ["x", "y", "z"], [1, 2, 0]),
    "ordered": (pd.Categorical(["x", "y", "y"], ["y", "x"], ordered=True), ["x", "y"], [1, 2]),
    "categorical int": (pd.Categorical([1, 2, 2]), [1, 2], [1, 2]),
    "categorical float": (pd.Categorical([1.0, 2.5, 2.5]), [1, 2.5], [1, 2]),
    "categorical bool": (pd.Categorical([True, False, False]), [True, False], [1, 2]),
    "date": ([datetime.date(2020, 1, 1)] * 3, ["2020-01-01"], [3]),
    "decimal": ([Decimal("1.00"), Decimal("2.50"), Decimal("2.50")], [1, 2.5], [1, 2]),
    "object int": (pd.Series([1, 2, 2], dtype=object), [1, 2], [1, 2]),
    "object bool": (pd.Series([True, False, False], dtype=object), [True, False], [1, 2]),
    "nullable int": (pd.array([1, 2, 2], dtype="Int64"), [1, 2], [1, 2]),
    "arrow string": (pd.array(["x", "y", "y"], dtype="string[pyarrow]"), ["x", "y"], [1, 2]),
    "large": ([1e22, 1.0, 1.0], [10**22, 1], [1, 2]),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=list(COLUMNS))
def test_levels_match_by_their_text(column, tmp_path):
    values, levels, expected = column
    frame, domain = pd.DataFrame({"v": values}), Domain({"v": levels})
    assert counts(frame, domain) == expected
    if not isinstance(frame["v"].dtype, pd.CategoricalDtype):  # to_parquet makes its own choices
        assert counts(as_parquet(frame, tmp_path), domain) == expected
        assert counts(on_duckdb(pa.Table.from_pandas(frame)), domain) == expected


MIXED = {
    "int and text": ([1, "x", "x"], [1, "x"], [1, 2]),
    "bool and int": ([True, 1, 1], [True, 1], [1, 2]),
    "text and float": (["x", 1.0, 1.0], ["x", 1], [1, 2]),
    "text and NaN": (["x", "y", "y"], ["x", "y"], [1, 2]),
    "huge int": ([2**70, 1, 1], [2**70, 1], [1, 2]),
    "text and date": (["x", datetime.date(2020, 1, 1), "x"], ["x", "2020-01-01"], [2, 1]),
    "category": (pd.Categorical([1, "x", "x"]), [1, "x"], [1, 2]),
    "interval": (pd.cut([1, 5, 6], [0, 2, 10]), ["(0, 2]", "(2, 10]"], [1, 2]),
    "period": (pd.PeriodIndex(["2020-01", "2020-02", "2020-02"], freq="M"),
               ["2020-01", "2020-02"], [1, 2]),
    "sparse": (pd.arrays.SparseArray([1, 0, 0]), [1, 0], [1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("column", MIXED.values(), ids=list(MIXED))
def test_pandas_columns_of_mixed_types(column):
    values, levels, expected = column
    assert counts(pd.DataFrame({"v": values}), Domain({"v": levels})) == expected
    holed = pd.concat([pd.DataFrame({"v": values}).astype(object), pd.DataFrame({"v": [None]})])
    assert counts(holed, Domain({"v": levels}), missing="drop") == expected


@pytest.mark.parametrize(
    "values",
    [[1, "secret"], ["x", b"secret"], [{"secret"}, 1], ["x", ["secret"]], [{"secret": 1}] * 2,
     ["\ud800secret", "x"], [True, "secret"], [1j, 2], [b"secret", b"x"]],
    ids=ascii,
)  # fmt: skip
def test_odd_objects_are_refused_without_a_traceback_from_the_depths(values):
    refusal(pd.DataFrame({"v": pd.Series(values, dtype=object)}), Domain({"v": [1, "x"]}))


@pytest.mark.parametrize("values", [[["secret"]], [{"k": 1}], [b"secret"]], ids=repr)
def test_types_that_hold_no_levels(values):
    assert "type" in str(refusal(pa.table({"v": values}), Domain({"v": ["x"]})))


def test_integer_codes_are_levels_like_any_other():  # C8
    frame = pd.DataFrame(
        {"dose": [1, 1, 2, 2, 3, 3], "r": [0, 1] * 3, "n": [30, 10, 22, 28, 12, 18]}
    )
    domain = Domain({"dose": [1, 2, 3], "r": [0, 1]})
    assert counts(frame, domain, weights="n") == [[30, 10], [22, 28], [12, 18]]


@anywhere
def test_an_undeclared_value_is_carried_but_not_said(home, tmp_path):
    frame = FRAME.assign(b=["u", "secret", "w", "w"])
    error = refusal(home(frame, tmp_path), AB)
    assert error.labels == ("secret",)
    assert "'b'" in str(error)
    assert "Declare" in str(error)
    assert "recode" in str(error)
    assert error.args == (str(error),)


@anywhere
def test_a_column_of_identifiers_is_refused_with_few_labels(home, tmp_path):
    frame = pd.DataFrame({"a": [f"secret{i:06}" for i in range(50_000)], "b": "u"})
    error = refusal(home(frame, tmp_path), AB)
    assert 0 < len(error.labels) <= MAX_LABELS


@pytest.mark.parametrize("missing", ["error", "drop", "lost"])
@pytest.mark.parametrize("extra", [[], [None], [math.nan], [-0.0], [None, -0.0]])
def test_a_full_table_is_never_cut_short(missing, extra):
    # Every cell is there once, in each way an engine may hold it, and nothing else is.
    if missing == "error":
        extra = [v for v in extra if v == 0]
    levels = [0, 1, 0.5]
    domain = Domain({"a": [*levels, "lost"], "b": [*levels, "lost"]})
    column = pl.Series([*map(float, levels), *extra], dtype=pl.Float64)
    frame = pl.DataFrame({"a": column}).join(pl.DataFrame({"b": column}), how="cross")
    table = tabulate(frame, domain, missing=missing)
    lost = 0 if missing == "drop" else sum(v is None or math.isnan(v) for v in extra)
    seen = [1 + extra.count(-0.0), 1, 1, lost]
    assert table.counts.tolist() == np.outer(seen, seen).tolist()


def test_numbers_beside_the_full_table_are_found():
    # All cells and one undeclared value: the one group too many.
    frame = pd.DataFrame({"a": [0, 1, 0, 1, 7], "b": [0, 0, 1, 1, 1]})
    assert refusal(frame, Domain({"a": [0, 1], "b": [0, 1]})).labels == (7,)


def test_declared_but_unobserved_levels_are_in_the_table():  # C16, C17
    domain = Domain({"grade": ["lo", "mid", "hi"], "ans": ["no", "yes", "dk"]}, ordered=["grade"])
    frame = pd.DataFrame({"grade": ["lo", "hi", "hi"], "ans": ["no", "yes", "no"]})
    assert counts(frame, domain) == [[1, 0, 0], [0, 0, 0], [1, 1, 0]]


def test_a_column_nobody_is_in():  # C1
    frame = pd.DataFrame({"r": [1, 1, 2, 2], "c": ["p", "q", "p", "q"], "n": [12, 7, 9, 14]})
    domain = Domain({"r": [1, 2], "c": ["p", "none", "q"]})
    assert counts(frame, domain, weights="n") == [[12, 0, 7], [9, 0, 14]]


def test_a_combination_absent_from_long_data_is_an_empty_cell():  # C3
    frame = pd.DataFrame({"row": [1, 1, 2, 2, 2], "col": [1, 3, 1, 2, 3], "n": [12, 7, 9, 5, 14]})
    table = tabulate(frame, Domain({"row": [1, 2], "col": [1, 2, 3]}), weights="n")
    assert table.counts.tolist() == [[12, 0, 7], [9, 5, 14]]
    assert table.domain.possible().all()


# ------------------------------------------------------------------ missing values (C13, C15)


C13 = pd.DataFrame(
    {"g": ["t", "t", "d", None, "u", "u"], "h": ["m", None, "f", "f", "m", None]}, dtype=object
)
GH = Domain({"g": ["t", "d", "u"], "h": ["m", "f"]})
GH_MISSING = Domain({"g": ["t", "d", "u", "missing"], "h": ["m", "f", "missing"]})


@anywhere
def test_missing_values(home, tmp_path):
    records = home(C13, tmp_path)
    error = refusal(records, GH)
    assert "'g'" in str(error)
    for way in ("missing='drop'", "declare a level", "mend"):
        assert way in str(error)
    table = tabulate(records, GH, missing="drop")
    assert table.counts.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert not table.n_is_public
    assert not table.margin("g").n_is_public
    kept = tabulate(records, GH_MISSING, missing="missing")
    assert kept.counts.tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert kept.counts.sum() == 6
    assert kept.n_is_public


@anywhere
def test_a_factor_with_missing_values_that_does_not_declare_the_level(home, tmp_path):
    domain = Domain({"g": GH_MISSING.levels["g"], "h": ["m", "f"]})
    error = refusal(home(C13, tmp_path), domain, missing="missing")
    assert "'h'" in str(error)
    assert "does not declare" in str(error)
    whole = C13[C13["h"].notna()]
    assert counts(home(whole, tmp_path), domain, missing="missing") == [
        [1, 0],
        [0, 1],
        [1, 0],
        [0, 1],
    ]


def test_drop_hides_the_total_whether_or_not_anything_was_dropped():
    assert not tabulate(FRAME, AB, missing="drop").n_is_public


def test_listwise_deletion_empties_a_level():  # C15
    frame = pd.DataFrame({"A": [1, 1, 2, 2, 1, 2, 3], "B": [*"uvuvuv", None]})
    domain = Domain({"A": [1, 2, 3], "B": ["u", "v"]})
    assert counts(frame, domain, missing="drop") == [[2, 1], [1, 2], [0, 0]]


@pytest.mark.parametrize("missing", ["Drop", "ignore", "", None, True, 9])
def test_a_policy_that_is_no_policy(missing):
    error = refusal(FRAME, AB, missing=missing)
    assert "'error'" in str(error)
    assert "'drop'" in str(error)
    assert "declare" in str(error).lower()


@pytest.mark.parametrize("hole", [None, math.nan, pd.NA, pd.NaT, np.float64("nan")], ids=repr)
@pytest.mark.parametrize("other", [1, 2.5, "x", True, pd.Timestamp("2020-01-01")], ids=repr)
def test_every_kind_of_null(hole, other):
    frame = pd.DataFrame({"v": pd.Series([other, hole, other], dtype=object)})
    domain = Domain({"v": [label_text(other), "none"]})
    assert counts(frame, domain, missing="none") == [2, 1]
    assert counts(frame, domain, missing="drop") == [2, 0]
    refusal(frame, domain)


def test_whole_numbers_that_a_null_made_floats():
    frame = pd.DataFrame({"v": [1, 2, None, 2]})
    assert frame["v"].dtype == np.float64
    assert counts(frame, Domain({"v": [1, 2]}), missing="drop") == [1, 2]
    assert counts(frame, Domain({"v": [1, 2, 9]}), missing=9) == [1, 2, 1]


@pytest.mark.parametrize("dtype", [object, "float64", "Int64", "string", "boolean", "category"])
def test_a_column_of_nulls_only(dtype):
    frame = pd.DataFrame({"v": pd.Series([None, None], dtype=dtype)})
    assert counts(frame, Domain({"v": [1, "none"]}), missing="none") == [0, 2]
    assert counts(frame, Domain({"v": [1]}), missing="drop") == [0]
    refusal(frame, Domain({"v": [1]}))


def test_nan_and_null_are_one_in_every_engine():
    frame = pl.DataFrame({"v": [1.0, math.nan, None]})
    domain = Domain({"v": [1, "none"]})
    for records in (frame, frame.to_arrow(), on_duckdb(frame.to_arrow())):
        assert counts(records, domain, missing="none") == [1, 2]
        assert counts(records, domain, missing="drop") == [1, 0]
        refusal(records, domain)


NAN = math.nan
WITH_NAN = [[10.0, 20, 30, NAN], [1.0, 1, NAN], [0.0, -0.0, NAN], [NAN, NAN], [-5.0, 3, NAN, None],
            [1.0] * LOOK + [7.0] * LOOK + [NAN] * 9]  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("home", "kind"), [("path", "float"), ("duckdb", "double")])
@pytest.mark.parametrize("values", WITH_NAN, ids=range(len(WITH_NAN)))
def test_nan_that_the_statistics_of_a_parquet_file_leave_out(values, home, kind, tmp_path):
    path = tmp_path / "r.parquet"
    column, weights = pa.array(values).cast(kind), [v or 1 for v in values]
    table = pa.table({"x": column, "y": column, "w": pa.array(weights)})
    pyarrow.parquet.write_table(table, path, row_group_size=max(2, len(values) // 4))
    records = path if home == "path" else ibis.duckdb.connect().read_parquet(path)
    missing = sum(v is None or math.isnan(v) for v in values)
    known = len(values) - missing
    below = sum(v < 5 for v in values if v is not None)
    bins = Bins([-5, 5, 30 if home == "path" else math.inf])
    domain = Domain({n: ["low", "high", "?"] for n in "xy"}, bins={"x": bins, "y": bins})
    filled = [below, known - below, missing]
    assert counts(records, domain, missing="?") == np.diag(filled).tolist()
    margins = tabulate_margins(records, domain, [("x",), ("y",)], missing="drop")
    assert [margins.margin(n).counts.tolist() for n in "xy"] == [[*filled[:2], 0]] * 2
    assert "missing values" in str(refusal(records, domain.project(["x"])))
    levels = sorted({v for v in values if v is not None and not math.isnan(v)}) or [1.0]
    assert sum(counts(records, Domain({"x": levels}), missing="drop")) == known
    recoded, recode = Domain({"x": ["known", "?"]}), {"x": dict.fromkeys(levels, "known")}
    assert counts(records, recoded, missing="?", recode=recode) == [known, missing]
    if None not in values:
        error = refusal(records, domain, weights="w", missing="?")
        assert "some are missing" in str(error)


def test_text_that_reads_like_a_null_is_text():
    texts = ["nan", "NaN", "None", "null", "NA", "<NA>", "NaT"]
    assert counts(pd.DataFrame({"v": texts}), Domain({"v": texts})) == [1] * len(texts)


def test_the_empty_field_of_a_csv_file_is_missing(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text('a,b\nx,u\n,u\n"",u\nx,\n')
    domain = Domain({"a": ["x", "?"], "b": ["u", "?"]})
    assert counts(path, domain, missing="?") == [[1, 1], [2, 0]]
    refusal(path, domain)


# ------------------------------------------------------------------ structural zeros


@anywhere
def test_a_record_in_an_impossible_cell(home, tmp_path):
    domain = Domain(
        {"sex": ["m", "f"], "pregnant": ["yes", "no"]},
        structural_zeros=[{"sex": "m", "pregnant": "yes"}],
    )
    frame = pd.DataFrame({"sex": ["m", "f", "m"], "pregnant": ["no", "yes", "no"]})
    assert counts(home(frame, tmp_path), domain) == [[0, 2], [1, 0]]
    wrong = pd.concat([frame] * 7919).assign(pregnant="yes")
    error = refusal(home(wrong, tmp_path), domain)
    assert "structural zero" in str(error)
    assert not any(digit in str(error) for digit in "0123456789")
    weighted = frame.assign(pregnant="yes", n=[0, 3, 0])
    assert counts(home(weighted, tmp_path), domain, weights="n") == [[0, 0], [3, 0]]


# ------------------------------------------------------------------ weights (C20, C28)


WEIGHTED = FRAME.assign(n=[3, 0, 2**40, 5])


@anywhere
def test_frequency_form(home, tmp_path):
    table = tabulate(home(WEIGHTED, tmp_path), AB, weights="n")
    assert table.counts.tolist() == [[3, 0, 0], [0, 0, 2**40 + 5]]
    assert table.n_is_public


@pytest.mark.parametrize(
    "name", ["n", "N", "count", "Count ", "Counts", "FREQ", "frequency", "Weight", "weights"]
)
def test_a_count_column_is_never_guessed(name):  # C20
    frame = pd.DataFrame({"A": ["y", "n"], "C": ["y", "n"], name: [7, 9]})
    domain = Domain({"A": ["y", "n"], "C": ["y", "n"]})
    error = refusal(frame, domain)
    assert "Column 3 of 3 is named as counts are" in str(error)
    assert "name it by weights=...; if it holds something else, drop the column" in str(error)
    assert error.labels == (name,)
    assert counts(frame, domain, weights=name, weights_are="frequency") == [[7, 0], [0, 9]]
    assert counts(frame.drop(columns=name), domain) == [[1, 0], [0, 1]]
    if name not in domain.names:
        as_factor = Domain({"A": ["y", "n"], name: [7, 9]})
        assert counts(frame, as_factor) == [[1, 0], [0, 1]]


BAD_WEIGHTS = {
    "fractional": ([10.5, 20.25, 30.75, 5.5], "sensitivity"),
    "one fractional": ([1, 2, 3, 0.5], "sensitivity"),
    "negative": ([1, 2, 3, -1], "negative"),
    "null": ([1, 2, 3, None], "missing"),
    "infinite": ([1, 2, 3, math.inf], "too large"),
    "minus infinite": ([1, 2, 3, -math.inf], "negative"),
    "huge": ([1.0, 2.0, 3.0, 1e19], "too large"),
    "text": (["1", "2", "3", "secret"], "not numbers"),
}


@anywhere
@pytest.mark.parametrize("bad", BAD_WEIGHTS.values(), ids=list(BAD_WEIGHTS))
def test_weights_that_cannot_be_used(bad, home, tmp_path):  # C28
    values, reason = bad
    error = refusal(home(FRAME.assign(w=values), tmp_path), AB, weights="w")
    assert "'w'" in str(error)
    assert reason in str(error)


def test_weights_of_other_types():
    for values in ([True] * 4, ["1"] * 4, [b"1"] * 4, [[1]] * 4, pd.date_range("2020", periods=4)):
        assert "not numbers" in str(refusal(FRAME.assign(w=values), AB, weights="w"))
    for values in (
        np.array([1, 2, 3, 4], np.int8),
        np.array([1, 2, 3, 4], np.uint64),
        [1.0, 2.0, 3.0, 4.0],
        [Decimal("1.00"), Decimal(2), Decimal(3), Decimal(4)],
        pd.array([1, 2, 3, 4], dtype="Int64"),
        pd.Series([1, 2, 3, 4], dtype=object),
    ):
        assert counts(FRAME.assign(w=values), AB, weights="w") == [[1, 0, 0], [2, 0, 7]]
    assert "fractional" in str(refusal(FRAME.assign(w=[Decimal("0.5")] * 4), AB, weights="w"))
    nan = pl.from_pandas(FRAME).with_columns(w=pl.Series([1.0, 2.0, 3.0, math.nan]))
    assert "missing" in str(refusal(nan, AB, weights="w"))


def test_weights_in_single_precision():  # C24
    frame = FRAME.assign(w=np.array([16777217, 0, 0, 0], np.float32))
    for records in (frame, on_duckdb(frame)):
        with pytest.warns(PrecisionWarning, match="float32") as caught:
            assert counts(records, AB, weights="w")[0][0] == 16777216
        assert len(caught) == 1
        with pytest.warns(PrecisionWarning) as small:
            assert counts(FRAME.assign(w=np.ones(4, np.float32)), AB, weights="w")[0][0] == 1
        assert str(small[0].message) == str(caught[0].message)


def test_weights_beside_missing_factors():
    frame = FRAME.assign(w=[1, 2, 3, 4], b=["u", None, "w", "w"])
    assert counts(frame, AB, weights="w", missing="drop") == [[1, 0, 0], [0, 0, 7]]
    domain = Domain({"a": ["x", "y"], "b": ["u", "w", "?"]})
    assert counts(frame, domain, weights="w", missing="?") == [[1, 0, 0], [0, 7, 2]]


def test_weights_that_are_no_column():
    assert "no column 'ks' (weights)" in str(refusal(FRAME.assign(k=1), AB, weights="ks"))
    assert "both a factor" in str(refusal(FRAME, AB, weights="a"))
    assert "name of a column" in str(refusal(FRAME, AB, weights=[1, 2, 3, 4]))
    assert refusal(FRAME, AB, weights="")


def test_counts_beyond_32_bits():
    n = 3 * 2**32 + 1
    frame = pd.DataFrame({"a": ["x"] * 3, "b": ["u", "v", "v"], "n": [n, 2**31, 2**31]})
    for records in (frame, on_duckdb(frame)):
        assert counts(records, AB, weights="n") == [[n, 2**32, 0], [0, 0, 0]]


def test_counts_too_large_for_a_table_are_refused():
    for n in (2**42, 2**61, 2**62):  # too many for a table, for int64, and for int64 by overflow
        frame = FRAME.assign(n=[n] * 4, a="x", b="u")
        refusal(frame, AB, weights="n")


# ------------------------------------------------------------------ bins


AGES = Domain({"a": ["x", "y"]}, bins={"age": Bins([0, 18, 65, 120])})
AGED = pd.DataFrame({"a": ["x", "x", "y", "y", "y", "y"], "age": [0, 17, 18, 64, 65, 120]})


@anywhere
def test_numbers_fall_into_bins(home, tmp_path):
    assert counts(home(AGED, tmp_path), AGES) == [[2, 0, 0], [0, 2, 2]]
    right = Domain({"a": ["x", "y"]}, bins={"age": Bins([0, 18, 65, 120], closed="right")})
    assert counts(home(AGED, tmp_path), right) == [[2, 0, 0], [1, 2, 1]]
    halves = AGED.assign(age=AGED["age"] / 2)
    assert counts(home(halves, tmp_path), AGES) == [[2, 0, 0], [1, 3, 0]]


@anywhere
def test_numbers_outside_the_bins_are_not_declared(home, tmp_path):
    for odd in (-1, 121, 7919):
        frame = AGED.assign(age=[0, 17, 18, 64, 65, odd])
        error = refusal(home(frame, tmp_path), AGES)
        assert "none of its bins" in str(error)
        assert "7919" not in str(error)
        assert [label_text(v) for v in error.labels] == [str(odd)]
    ends = Domain({"a": ["x", "y"]}, bins={"age": Bins([-math.inf, 18, 65, math.inf])})
    frame = AGED.assign(age=[-1e300, 17, 18, 64, 65, 1e300])
    assert counts(home(frame, tmp_path), ends) == [[2, 0, 0], [0, 2, 2]]
    refusal(home(AGED.assign(age=[0, 17, 18, 64, 65, math.inf]), tmp_path), ends)


@anywhere
def test_missing_numbers(home, tmp_path):
    frame = AGED.assign(age=[0, None, 18, 64, 65, 120])
    assert "missing values" in str(refusal(home(frame, tmp_path), AGES))
    assert counts(home(frame, tmp_path), AGES, missing="drop") == [[1, 0, 0], [0, 2, 2]]
    levels = {"a": ["x", "y"], "age": [*AGES.levels["age"], "?"]}
    domain = Domain(levels, bins=AGES.bins)
    assert counts(home(frame, tmp_path), domain, missing="?") == [[1, 0, 0, 1], [0, 2, 2, 0]]


WHOLE = [0, 17, 18, 64, 65, 120]
NUMBERS = {
    "uint64": np.array(WHOLE, np.uint64),
    "int8": np.array(WHOLE, np.int8),
    "float32": np.array([0, 17.5, 18, 64, 65, 120], np.float32),
    "float64": [0.0, -0.0, 18, 20, 65.5, 120],
    "decimal": [Decimal("0.00"), Decimal("17.99"), *map(Decimal, WHOLE[2:])],
    "Int64": pd.array(WHOLE, dtype="Int64"),
    "category": pd.Categorical(WHOLE),
    "object": pd.Series(WHOLE, dtype=object),
}


@pytest.mark.parametrize("kind", list(NUMBERS))
def test_numbers_of_every_type(kind):
    assert counts(AGED.assign(age=NUMBERS[kind]), AGES) == [[2, 0, 0], [0, 2, 2]]


@pytest.mark.parametrize(
    "values",
    [["1"] * 6, [True] * 6, pd.date_range("2020", periods=6), pd.Categorical(["1"] * 6)],
    ids=["text", "bool", "date", "category"],
)
def test_bins_need_numbers(values):
    assert "bins need a column of numbers" in str(refusal(AGED.assign(age=values), AGES))


@pytest.mark.parametrize("text", ["secret", "1 2", "0x1F", "nan", "inf", "-", "17,5", "[0, 18)"])
def test_a_field_that_is_no_number_is_not_declared(text, tmp_path):
    (tmp_path / "r.csv").write_text(f'a,age\nx,17\ny,"{text}"\n')
    error = refusal(tmp_path / "r.csv", AGES)
    assert error.labels == (text,)
    assert "(in which NaN and NA are text too)" in str(error)
    (tmp_path / "r.csv").write_text("a,age\nx,17\ny,1.8e1\ny,\n")
    assert counts(tmp_path / "r.csv", AGES, missing="drop") == [[1, 0, 0], [0, 1, 0]]


def test_whole_numbers_beyond_floating_point():
    domain = Domain({}, bins={"v": Bins([2**53, 2**53 + 1, 2**53 + 2])})
    assert counts(pd.DataFrame({"v": [2**53, 2**53 + 1, 2**53 + 2]}), domain) == [1, 2]


def spy_on_duckdb(monkeypatch):
    """The queries that DuckDB is asked from here on, and how many rows each returned."""
    asked, returned = [], []
    run = ibis.backends.duckdb.Backend.to_pyarrow

    def spy(self, query, *args, **kwargs):
        table = run(self, query, *args, **kwargs)
        asked.append(query)
        returned.append(table.num_rows)
        return table

    monkeypatch.setattr(ibis.backends.duckdb.Backend, "to_pyarrow", spy)
    return asked, returned


def test_a_column_of_measurements_is_not_downloaded(monkeypatch):
    _, returned = spy_on_duckdb(monkeypatch)
    frame = pd.DataFrame({"age": np.linspace(0, 120, 50_000)})
    assert sum(counts(frame, AGES.project(["age"]))) == 50_000
    refusal(frame + 1000, AGES.project(["age"]))
    assert returned[0] == 3
    assert returned[1] <= 5


# ------------------------------------------------------------------ recoding


@anywhere
def test_values_stand_for_levels(home, tmp_path):
    frame = FRAME.assign(a=["1", "2", "b", "x"])
    recode = {"a": {1: "x", "2": "y", "b": "y"}}
    assert counts(home(frame, tmp_path), AB, recode=recode) == [[1, 0, 1], [1, 0, 1]]
    error = refusal(home(frame, tmp_path), AB, recode={"a": {1: "x", 2: "y"}})
    assert error.labels == ("b",)


RECODED = {
    "int": ([1, 2, 2], {1: "x", "2": "y"}),
    "int beside null": ([1, 2, 2, None], {1: "x", "2": "y"}),
    "int8": (np.array([1, 2, 2, 7], np.int8), {1.0: "x", 2: "y", 7: "?", 300: "x"}),
    "float": ([1.5, 2.0, 2.0, None], {1.5: "x", "2": "y", "2.0": "x"}),
    "float32": (np.array([0.1, 2, 2], np.float32), {0.1: "x", 2: "y", 1e-50: "y"}),
    "bool": ([True, False, False], {True: "x", "False": "y"}),
    "object bool": ([True, False, False, None], {True: "x", "False": "y"}),
    "decimal": (
        [Decimal("1.50"), Decimal(2), Decimal("2.00"), None],
        {"1.5": "x", 2: "y", "1.999": "x", 10**40: "x"},
    ),
    "text": (["x", "b", "y", None], {"b": "y"}),
    "text and itself": (["x", "b", "y", None], {"b": "y", "x": "x"}),
    "category": (pd.Categorical(["1", "2", "2", None]), {1: "x", 2: "y"}),
    "object": (pd.Series([1, "b", "b", None], dtype=object), {1: "x", "b": "y"}),
    "nothing": ([None] * 4, {1: "x"}),
}


@pytest.mark.parametrize("kind", list(RECODED))
def test_recoding_goes_by_the_text_of_a_value(kind):
    values, mapping = RECODED[kind]
    domain = Domain({"v": ["x", "y", "?"]})
    frame = pd.DataFrame({"v": values})
    texts = {label_text(source): level for source, level in mapping.items()}
    seen = [
        "?" if pd.isna(v) else texts.get(label_text(v), label_text(v))
        for v in frame["v"].to_numpy()
    ]
    expected = [seen.count(level) for level in ("x", "y", "?")]
    options = {"recode": {"v": mapping}, "missing": "?"}
    assert counts(frame, domain, **options) == expected
    assert counts(frame.assign(w=3), domain, weights="w", **options) == [3 * n for n in expected]


def test_many_codes_come_back_as_few_levels(monkeypatch):
    _, returned = spy_on_duckdb(monkeypatch)
    codes = [f"c{i}" for i in range(1000)]
    recode = {"v": {code: "low" if i < 300 else "high" for i, code in enumerate(codes)}}
    frame = pd.DataFrame({"v": codes * 7})
    assert counts(frame, Domain({"v": ["low", "high"]}), recode=recode) == [2100, 4900]
    assert returned == [2]


def test_recoding_and_bins():
    domain = Domain({"age": [*AGES.levels["age"], "unknown"]}, bins=AGES.bins)
    frame = pd.DataFrame({"age": [5, 999, None, 30, 998]})
    recode = {"age": {999: "unknown", 998: "[0, 18)"}}
    assert counts(frame, domain, recode=recode, missing="unknown") == [2, 1, 0, 2]


@pytest.mark.parametrize(
    ("recode", "says"),
    [
        ({"c": {"M": "x"}}, "no factor"),
        ({"A": {"M": "x"}}, "did you mean 'a'"),
        ({"a": {"M": "z"}}, "no level 'z'"),
        ({"a": ["M", "x"]}, "maps the values of 'a'"),
        ({"a": {"x": "y"}}, "is a level itself"),
        ({"a": {1: "x", "1": "y"}}, "same text"),
        (["a"], "maps factors"),
    ],
)
def test_a_recoding_that_is_none(recode, says):
    with pytest.raises(DomainError, match=says):
        tabulate(FRAME, AB, recode=recode)


@pytest.mark.parametrize("null", [None, math.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_missing_values_are_not_recoded(null):
    domain = Domain({"a": ["x", "y"]})
    with pytest.raises(DomainError, match="missing='<the level>'"):
        tabulate(FRAME, domain, recode={"a": {null: "y"}})


@pytest.mark.parametrize("domain", [{"a": ["x"]}, None, "a"])
def test_a_domain_that_is_none(domain):
    with pytest.raises(DomainError, match="counted over a Domain"):
        tabulate(FRAME, domain)
    with pytest.raises(DomainError, match="counted over a Domain"):
        tabulate_margins(FRAME, domain, [("a",)])


def test_digits_in_groups_are_no_number(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("v,w\n1_000,1\n")
    assert "none of its bins" in str(refusal(path, Domain({}, bins={"v": Bins([0, 5000])})))
    path.write_text("v,w\nx,1_000\n")
    assert "not numbers" in str(refusal(path, Domain({"v": ["x"]}), weights="w"))


def test_dates_are_not_recoded():
    frame = pd.DataFrame({"v": [datetime.date(2020, 1, 1)]})
    assert "recode takes" in str(refusal(frame, Domain({"v": ["x"]}), recode={"v": {"M": "x"}}))


# ------------------------------------------------------------------ limits


def test_a_wrong_column_is_found_before_the_long_scan(monkeypatch, tmp_path):
    frame = pd.DataFrame({"a": [f"secret{i}" for i in range(3 * LOOK)], "b": "u"})
    path = as_parquet(frame, tmp_path)
    asked, _ = spy_on_duckdb(monkeypatch)
    for records in (path, on_duckdb(frame)):
        del asked[:]
        refusal(records, AB)
        (query,) = asked
        assert LOOK in [limit.n for limit in query.op().find(ibis.expr.operations.Limit)]
    del asked[:]
    assert counts(as_parquet(frame.assign(a="x"), tmp_path), AB) == [[3 * LOOK, 0, 0], [0, 0, 0]]
    assert len(asked) == 2


def test_a_joint_too_large_is_refused_before_the_records_are_touched():
    domain = Domain({f"f{i}": list("abcd") for i in range(40)})
    start = time.perf_counter()
    error = refusal("no such file", domain)
    assert f"{4**40:,}" in str(error)
    assert time.perf_counter() - start < 1


def test_the_engine_returns_no_more_rows_than_cells(monkeypatch):
    returned = []
    run = ibis.backends.duckdb.Backend.to_pyarrow

    def spy(self, *args, **kwargs):
        table = run(self, *args, **kwargs)
        returned.append(table.num_rows)
        return table

    monkeypatch.setattr(ibis.backends.duckdb.Backend, "to_pyarrow", spy)
    frame = pd.DataFrame({"a": [f"id{i}" for i in range(10_000)], "b": "u"})
    refusal(frame, AB)
    refusal(frame.assign(w=1), AB, weights="w")
    assert returned == [AB.size + 1] * 2


def test_arguments_after_the_domain_go_by_name():
    with pytest.raises(TypeError):
        tabulate(FRAME, AB, "n")


# ------------------------------------------------------------------ laws


LEVELS = {
    "text": ["x", "y", "01", "1", "α β", 'q"', "NA"],
    "int": [0, 1, -3, 7, 2**40],
    "float": [0.0, 1.5, -2.0, 1e300],
    "bool": [True, False],
}


@st.composite
def frames(draw):
    """A frame of up to 30 records, and the domain, for which "?" is where nulls go."""
    names = draw(st.lists(st.sampled_from([n for n in ODD_NAMES if n != "A"]),
                          min_size=1, max_size=3, unique=True))  # fmt: skip
    size = draw(st.integers(0, 30))
    columns, levels = {}, {}
    for name in names:
        kind = draw(st.sampled_from(sorted(LEVELS)))
        pool = draw(st.permutations(LEVELS[kind]))
        nulls = draw(st.booleans())
        value = st.sampled_from([*pool, None] if nulls else pool)
        values = draw(st.lists(value, min_size=size, max_size=size))
        dtype = {"text": object, "int": "Int64", "float": "Float64", "bool": "boolean"}[kind]
        columns[name] = pd.Series(values, dtype=dtype)
        levels[name] = [*pool, "?"]
    return pd.DataFrame(columns), Domain(levels)


def stupid(frame, domain, missing):
    """Count with a Counter, one record after the other."""
    seen = Counter()
    for record in frame.itertuples(index=False, name=None):
        texts = tuple("?" if pd.isna(v) else label_text(v) for v in record)
        if missing == "error" and "?" in texts:
            return None
        if missing == "?" or "?" not in texts:
            seen[texts] += 1
    return [seen[tuple(map(label_text, cell))] for cell in domain.cells()]


@settings(max_examples=12, deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(frames(), st.sampled_from(["error", "drop", "?"]), st.randoms(use_true_random=False))
def test_tabulate_is_counting(tmp_path, drawn, missing, random):
    frame, domain = drawn
    expected = stupid(frame, domain, missing)
    order = list(range(len(frame)))
    random.shuffle(order)
    shuffled = frame.iloc[order]
    chunks = pa.concat_tables(
        [
            pa.Table.from_pandas(shuffled.iloc[i : i + 3], frame_schema(frame))
            for i in range(0, 30, 3)
        ]
    )
    homes = [home(frame, tmp_path) for name, home in HOMES.items() if name != "csv"]
    # As text, a whole number in floating point is written like any whole number: 1, not 1.0.
    texts = frame.apply(lambda column: column.map(label_text, na_action="ignore"))
    homes += [as_csv(texts, tmp_path), shuffled, chunks]
    for records in homes:
        if expected is None:
            assert "missing values" in str(refusal(records, domain))
        else:
            table = tabulate(records, domain, missing=missing)
            assert table.counts.ravel().tolist() == expected


def frame_schema(frame):
    kinds = {"Int64": pa.int64(), "Float64": pa.float64(), "boolean": pa.bool_()}
    return pa.schema([(n, kinds.get(str(t), pa.string())) for n, t in frame.dtypes.items()])


@settings(max_examples=12, deadline=None, derandomize=True)
@given(frames(), st.data())
def test_the_frequency_form_equals_the_expanded_form(drawn, data):
    frame, domain = drawn
    weights = data.draw(
        st.lists(st.integers(0, 9), min_size=len(frame), max_size=len(frame)), label="weights"
    )
    expanded = frame.loc[frame.index.repeat(weights)]
    frequencies = frame.assign(w=np.array(weights, dtype=np.int64))
    for missing in ("drop", "?"):
        table = tabulate(frequencies, domain, weights="w", missing=missing)
        assert table.counts.ravel().tolist() == stupid(expanded, domain, missing)


def test_every_refusal_is_of_the_package():
    assert issubclass(RecordsError, DPContingencyError)


def test_a_file_without_a_header_quotes_no_record(tmp_path):
    path = tmp_path / "nohead.csv"
    path.write_text("M,HIV,Jane Doe 1961\nF,none,John Roe 1950\n")
    with pytest.raises(RecordsError) as caught:
        tabulate(path, Domain({"Sex": ["M", "F"]}))
    assert "Jane" not in str(caught.value)
    assert "HIV" not in str(caught.value)
    assert "first line" in str(caught.value)
    assert "HIV" in caught.value.labels
