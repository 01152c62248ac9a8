"""Where records come from: what no message may say of them, and from where they are not fetched."""

import traceback
import warnings

import duckdb
import ibis
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpcontingency import _records, tabulate, tabulate_margins
from dpcontingency.domain import Domain
from dpcontingency.errors import DPContingencyError
from tests.command_line import invoke, refused

# A first record in the place of names: text that is near a factor's, an N that reads as a count,
# and what could be a level or a number.
FIRST = ["Dept SECRET", "dept", "N", "SECRET 7919", "Weight "]
ROWS = [["A", "x", "n", f"SECRET {i}", i % 3] for i in range(1200)]
DOMAIN = Domain({"Dept": ["A", "B"]})


def frame(width=5, names=FIRST):
    return pd.DataFrame([row[:width] for row in ROWS], columns=names[:width])


def as_parquet(records, folder):
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    records.to_parquet(path)
    return str(path)


def as_csv(records, folder):
    path = folder / f"{len(list(folder.iterdir()))}.csv"
    records.to_csv(path, index=False)
    return str(path)


HOMES = {
    "pandas": lambda records, _: records,
    "polars": lambda records, _: pl.from_pandas(records),
    "arrow": lambda records, _: pa.table(records),
    "ibis": lambda records, _: ibis.memtable(pa.table(records)),
    "parquet": as_parquet,
    "csv": as_csv,
}


def said_by(call):
    """All that a refusal says, warnings on the way to it included."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(DPContingencyError) as error:
            call()
    return "".join(traceback.format_exception_only(error.value)) + str([str(w) for w in caught])


def is_quiet(text):
    return not any(value.strip() in text for value in FIRST if value not in ("N", "dept")) and (
        "'N'" not in text and "'dept'" not in text
    )


@pytest.mark.parametrize("home", HOMES.values(), ids=list(HOMES))
def test_a_first_record_in_the_place_of_names_is_never_quoted(home, tmp_path):
    records = home(frame(), tmp_path)
    calls = [
        lambda: tabulate(records, DOMAIN),  # a column like one of counts
        lambda: tabulate(records, DOMAIN, weights="x"),
        lambda: tabulate(home(frame(2), tmp_path), DOMAIN),
        lambda: tabulate_margins(records, DOMAIN, [("Dept",)]),
        lambda: tabulate_margins(home(frame(2), tmp_path), DOMAIN, [("Dept",)]),
        lambda: Domain.observed(records),  # too many values
        lambda: Domain.observed(records, ["Dept"]),
        lambda: Domain.observed(home(frame().assign(**{FIRST[3]: None}), tmp_path)),
    ]
    for call in calls:
        said = said_by(call)
        assert is_quiet(said), said
    assert "Column 4 of 5 has more than 1,000 values" in said_by(lambda: Domain.observed(records))


def test_columns_that_are_no_factors_are_named_by_their_place():
    nested = pa.table({"SECRET 1": ["x"], "SECRET 2": [["x"]]})
    doubled = pa.table([["x"], ["y"]], names=["SECRET 1", "SECRET 1"])
    endless = pd.DataFrame({"SECRET 1": [1.0, float("inf")]})
    nameless = pd.DataFrame({"": ["SECRET 1"]})
    for records, place in ((nested, "2 of 2"), (doubled, "1 of 2"), (endless, "1 of 1"),
                           (nameless, "1 of 1")):  # fmt: skip
        said = said_by(lambda records=records: Domain.observed(records))
        assert f"Column {place}" in said
        assert "SECRET" not in said


SCHEMAS = {
    "text": frame(3),
    "arrow text": pa.table(frame(3)),
    "polars text": pl.from_pandas(frame(3)),
    "polars categorical": pl.DataFrame({"SECRET": pl.Series(["SECRET"], dtype=pl.Categorical)}),
    "twice": pd.concat([frame(1).astype("category")] * 2, axis=1),
    "level twice": pd.DataFrame({"SECRET": pd.Categorical([1], categories=[1, "1"])}),
    "endless level": pd.DataFrame({"SECRET": pd.Categorical([], categories=[float("inf")])}),
    "no level": pd.DataFrame({"SECRET": pd.Categorical([], categories=[])}),
    "no chunk": pa.table({"SECRET": pa.chunked_array([], pa.dictionary(pa.int8(), pa.string()))}),
}


@pytest.mark.parametrize("source", SCHEMAS.values(), ids=list(SCHEMAS))
def test_a_schema_is_not_quoted(source):
    said = said_by(lambda: Domain.from_schema(source, public=True))
    assert "Column 1 of " in said
    assert is_quiet(said)
    assert "SECRET" not in said


@pytest.mark.parametrize("home", [as_csv, as_parquet])
def test_the_command_line_does_not_quote_a_first_record(home, tmp_path):
    DOMAIN.to_yaml(tmp_path / "d.yaml")
    path = home(frame(), tmp_path)
    release = ("release", path, "--domain", tmp_path / "d.yaml", "--mu", 1,
               "--output", tmp_path / "r.json")  # fmt: skip
    for command in (
        release,
        (*release, "--weights", "x"),
        (*release, "--margins", "Dept"),
        ("init", path, "--factor", "Dept", "--output", tmp_path / "new.yaml"),
        ("init", home(frame()[[FIRST[3]]], tmp_path), "--output", tmp_path / "new.yaml"),
    ):
        assert is_quiet(refused(*command))


# ------------------------------------------------------------------ addresses

ADDRESSES = ["http://127.0.0.1:9/r.csv", "https://example.org/r.parquet", "s3://bucket/*.parquet",
             "S3://bucket/r.csv", "gs://bucket/r.csv", "az://box/r.csv", "hf://datasets/a/r.csv",
             "file:http://127.0.0.1:9/r.csv", "http://user:SECRET@127.0.0.1:9/r.csv"]  # fmt: skip


@pytest.fixture
def no_extensions(tmp_path, monkeypatch):
    """A home in which DuckDB has no extension, and whoever would fetch one is caught."""
    monkeypatch.setenv("HOME", str(tmp_path))
    asked = []
    execute = ibis.backends.duckdb.Backend._load_extensions
    monkeypatch.setattr(
        ibis.backends.duckdb.Backend,
        "_load_extensions",
        lambda *args, **kwargs: (asked.append(args), execute(*args, **kwargs)),
    )
    return asked


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_not_read_unasked(address, no_extensions, tmp_path):
    for call in (
        lambda: tabulate(address, DOMAIN),
        lambda: tabulate_margins(address, DOMAIN, [("Dept",)]),
        lambda: Domain.observed(address),
    ):
        said = said_by(call)
        assert "pass remote=True to read them there" in said
        assert "SECRET" not in said
    DOMAIN.to_yaml(tmp_path / "d.yaml")
    for command in (("init",), ("release", "--domain", tmp_path / "d.yaml", "--mu", 1)):
        said = refused(*command, address, "--output", tmp_path / "out")
        assert "pass --remote to read them there" in said
    assert not no_extensions


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_code_is_fetched_for_an_address(address, no_extensions):
    said = said_by(lambda: tabulate(address, DOMAIN, remote=True))
    assert "which is not installed" in said
    assert not no_extensions


def test_duckdb_installs_nothing_by_itself():
    setting = "SELECT current_setting('autoinstall_known_extensions')"
    assert duckdb.connect().execute(setting).fetchone() == (True,)  # DuckDB's own default
    engine = _records._embedded()
    assert engine.con.execute(setting).fetchone() == (False,)
    engine.disconnect()


def test_files_of_this_machine_need_no_word(tmp_path):
    path = as_csv(pd.DataFrame({"Dept": ["A", "B", "A"]}), tmp_path)
    (tmp_path / "link.csv").symlink_to(path)
    for name in (path, tmp_path / "link.csv", f"file://{path}", f"{tmp_path}/l*.csv"):
        assert tabulate(name, DOMAIN).counts.tolist() == [2, 1]
        assert tabulate(name, DOMAIN, remote=True).counts.tolist() == [2, 1]


def test_init_takes_the_word(tmp_path):
    path = as_csv(pd.DataFrame({"Dept": ["A", "B", "A"]}), tmp_path)
    assert invoke("init", path, "--remote", "--output", tmp_path / "d.yaml").exit_code == 0
