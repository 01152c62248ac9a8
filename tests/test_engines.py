"""The same records in every engine: the same counts to the bit, or the same refusal."""

import datetime
import itertools
import math
import warnings
from collections import Counter
from decimal import Decimal
from pathlib import Path

import ibis
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcontingency.bins import Bins
from dpcontingency.domain import Domain, label_text
from dpcontingency.errors import RecordsError
from dpcontingency.tabulate import tabulate, tabulate_margins

from . import engines

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of PySpark's sockets

ENGINES = ["duckdb", "polars", "postgres", "spark"]

SQL_TYPES = {
    "string": "text", "int64": "bigint", "double": "double precision", "bool": "boolean",
    "float": "real", "date32[day]": "date", "decimal128(9, 2)": "numeric(9, 2)",
    "timestamp[us]": "timestamp", "timestamp[us, tz=UTC]": "timestamptz",
}  # fmt: skip


def on_duckdb(connection, name, table):
    connection.con.register(name, table)
    return connection.table(name)


def on_polars(connection, name, table):
    connection._add_table(name, pl.from_arrow(table))
    return connection.table(name)


def on_postgres(connection, name, table):
    columns = ", ".join(f'"{f.name}" {SQL_TYPES[str(f.type)]}' for f in table.schema)
    with connection.con.cursor() as cursor:
        cursor.execute(f'create table "{name}" ({columns})')
        holders = ", ".join(["%s"] * table.num_columns)
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        cursor.executemany(f'insert into "{name}" values ({holders})', rows)
    return connection.table(name)


def on_spark(connection, name, table, folder):
    path = folder / f"{name}.parquet"
    pq.write_table(table, path)
    connection._session.read.parquet(str(path)).createOrReplaceTempView(name)
    return connection.table(name)


@pytest.fixture(scope="module")
def connections(tmp_path_factory):
    """A function from the name of an engine to how a table is put there, started when asked."""
    with engines.contextlib.ExitStack() as stack:
        started = {}

        def start(name):
            if name == "duckdb":
                connection = ibis.duckdb.connect()
                stack.callback(connection.disconnect)
                return lambda *args: on_duckdb(connection, *args)
            if name == "polars":
                connection = ibis.polars.connect()
                return lambda *args: on_polars(connection, *args)
            if name == "postgres":
                connection = stack.enter_context(engines.postgres())
                return lambda *args: on_postgres(connection, *args)
            connection = stack.enter_context(engines.spark())
            folder = tmp_path_factory.mktemp("spark")
            return lambda *args: on_spark(connection, *args, folder)

        yield lambda name: started.setdefault(name, started.get(name) or start(name))


@pytest.fixture(params=ENGINES)
def put(request, connections):
    """A function from an Arrow table to an Ibis table in one of the engines."""
    numbers = request.getfixturevalue("numbers")

    def into(table):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return connections(request.param)(f"t{next(numbers)}", table)

    return into


@pytest.fixture(scope="module")
def numbers():
    return itertools.count()


def stupid(table, domain, weights=None, missing="error", recode=None):
    """Count one record after the other, in Python."""
    columns = {name: table.column(name).to_pylist() for name in domain.names}
    # float32 has texts of its own
    columns |= {
        name: list(table.column(name).to_numpy())
        for name in domain.names
        if table.schema.field(name).type == pa.float32()
    }
    seen = Counter()
    loads = [1] * table.num_rows if weights is None else table.column(weights).to_pylist()
    for record, load in zip(zip(*columns.values(), strict=True), loads, strict=True):
        cell = [stupid_level(v, n, domain, (recode or {}).get(n, {}))
                for v, n in zip(record, domain.names, strict=True)]  # fmt: skip
        if None not in cell or missing != "drop":
            seen[tuple(missing if text is None else text for text in cell)] += int(load)
    return [seen[tuple(map(label_text, cell))] for cell in domain.cells()]


def stupid_level(value, name, domain, mapping):
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return None
    for source, level in mapping.items():
        if label_text(source) == label_text(value):
            return label_text(level)
    if name in domain.bins:
        cut = domain.bins[name]
        for i, (low, high, low_in, high_in) in enumerate(cut.intervals()):
            if low < value < high or (low_in and value == low) or (high_in and value == high):
                return label_text(domain.levels[name][i])
    return label_text(value)


# ------------------------------------------------------------------ the same counts


RNG = np.random.default_rng(7)


def column(values, kind, holes=True, size=400):
    drawn = [values[i] for i in RNG.integers(0, len(values), size)]
    return pa.array([None if holes and i % 9 == 4 else v for i, v in enumerate(drawn)], kind)


RECORDS = pa.table(
    {
        "text": column(["", " x", "x", "NA", "α β", "it's", 'q"', "01", "Ä", "🙂"], pa.string()),
        "whole": column([0, -3, 2**53 + 1, 2**62], pa.int64()),
        "real": column([0.0, -0.0, 0.1, 1e300, math.nan], pa.float64()),
        "flag": column([True, False], pa.bool_()),
        "age": column([0, 17, 18, 64, 65, 120], pa.int64()),
        "size": column([0.0, 0.1, 1.5, 2.0, 7e9, math.nan], pa.float64()),
        "load": column([0, 1, 5, 2**31], pa.int64(), holes=False),
        "loadf": column([0.0, 1.0, 2.0**31], pa.float64(), holes=False),
        "loadd": column([Decimal("0.00"), Decimal("7.00")], pa.decimal128(9, 2), holes=False),
    }
)
MANY = {
    "text": ["", " x", "x", "NA", "α β", "it's", 'q"', "01", "Ä", "🙂", "?"],
    "whole": [0, -3, 2**53 + 1, 2**62, "?"],
    "real": [0, 0.1, 1e300, "?"],
    "flag": [False, True, "?"],
    "age": ["child", "adult", "old", "?"],
    "size": ["small", "large", "?"],
}
BINS = {
    "age": Bins([0, 18, 65, 120]),
    "size": Bins([-math.inf, 1.5, math.inf], closed="right"),
}
DOMAIN = Domain(MANY, bins=BINS)
RECODE = {
    "text": {"x": "NA", "01": "NA"},
    "whole": {2**53 + 1: 0},
    "real": {0.1: 0},
    "age": {120: "?"},
    "size": {2: "small"},
    "flag": {True: "yes", "False": "no"},
}
RECODED = Domain(
    {**{k: v for k, v in MANY.items() if k not in ("text", "whole", "real", "flag")},
     "flag": ["no", "yes", "?"],
     "text": ["", " x", "NA", "α β", "it's", 'q"', "Ä", "🙂", "?"],
     "whole": [0, -3, 2**62, "?"], "real": [0, 1e300, "?"]}, bins=BINS,
)  # fmt: skip
PAIRS = [*itertools.combinations(DOMAIN.names, 2), ("size", "flag", "age")]
WAYS = {
    "level": {"missing": "?"},
    "drop": {"missing": "drop"},
    "weights": {"missing": "?", "weights": "load"},
    "float weights": {"missing": "drop", "weights": "loadf"},
    "decimal weights": {"missing": "drop", "weights": "loadd"},
    "recode": {"missing": "?", "recode": RECODE, "weights": "load"},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_counts_and_margins_are_the_same_to_the_bit(put, way):
    domain = RECODED if "recode" in way else DOMAIN
    unweighted = RECORDS.drop_columns(["load", "loadf", "loadd"])
    records = put(RECORDS if "weights" in way else unweighted)
    expected = stupid(RECORDS, domain, **way)
    table = tabulate(records, domain, **way)
    assert table.counts.dtype == np.int64
    assert table.counts.ravel().tolist() == expected
    margins = tabulate_margins(records, domain, PAIRS, **way)
    assert margins.margins == tuple(PAIRS)
    for names in PAIRS:
        assert (margins.margin(*names).counts == table.margin(*names).counts).all()


ODD = {
    "date": (
        pa.array([datetime.date(2020, 1, 1), None, datetime.date(1999, 12, 31)]),
        ["2020-01-01", "1999-12-31", "?"],
    ),
    "decimal": (
        pa.array([Decimal("1.00"), Decimal("-2.50"), None, Decimal("100")], pa.decimal128(9, 2)),
        [1, -2.5, 100, "?"],
    ),
    "timestamp": (
        pa.array([datetime.datetime(2020, 1, 1, 12), None, datetime.datetime(2020, 1, 1)]),
        ["2020-01-01 12:00:00", "2020-01-01 00:00:00", "?"],
    ),
    "float32": (
        pa.array([0.1, 2, None, math.nan, -0.0, 0.0], pa.float32()), [0.1, 2, 0, "?"],
    ),
    "only nulls": (pa.array([None, None], pa.int64()), [1, "?"]),
    "nothing": (pa.array([], pa.string()), ["a", "?"]),
    "moment": (
        pa.array([datetime.datetime(2020, 1, 1, 12), None], pa.timestamp("us", "UTC")),
        ["2020-01-01 12:00:00+00:00", "?"],
    ),
    "true as text": (pa.array(["true", "True", None]), ["true", "True", "?"]),
    "one as text": (pa.array(["1", "1.0", "01", None]), ["1", "1.0", "01", "?"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(ODD))
def test_odd_types_have_the_same_texts(put, kind):
    values, levels = ODD[kind]
    domain = Domain({"v": levels, "w": ["k"]})
    table = pa.table({"v": values, "w": pa.array(["k"] * len(values), pa.string())})
    records = put(table)
    assert tabulate(records, domain, missing="?").counts.ravel().tolist() == stupid(
        table, domain, missing="?"
    )


# ------------------------------------------------------------------ the same refusals


AB = Domain({"a": ["x", "y"], "b": [1, 2]})
REFUSED = {
    "missing": ({"a": ["x", None], "b": [1, 2]}, AB, {}),
    "missing number": ({"a": ["x", "x"], "b": [1.0, math.nan]}, AB, {}),
    "undeclared text": ({"a": ["x", "secret"], "b": [1, 2]}, AB, {}),
    "undeclared number": ({"a": ["x", "x"], "b": [1, 7919]}, AB, {}),
    "identifiers": ({"a": [f"secret{i}" for i in range(300)], "b": [1] * 300}, AB, {}),
    "no column": ({"a": ["x"], "c": [1]}, AB, {}),
    "unasked count": ({"a": ["x"], "b": [1], "n": [3]}, AB, {}),
    "structural zero": (
        {"a": ["x"], "b": [1]},
        Domain(dict(AB.levels), structural_zeros=[{"a": "x", "b": 1}]),
        {},
    ),
    "fraction": ({"a": ["x", "x"], "b": [1, 2], "w": [1.0, 2.5]}, AB, {"weights": "w"}),
    "negative": ({"a": ["x", "x"], "b": [1, 2], "w": [7919, -1]}, AB, {"weights": "w"}),
    "null weight": ({"a": ["x", "x"], "b": [1, 2], "w": [1, None]}, AB, {"weights": "w"}),
    "nan weight": ({"a": ["x", "x"], "b": [1, 2], "w": [1, math.nan]}, AB, {"weights": "w"}),
    "huge": ({"a": ["x", "x"], "b": [1, 2], "w": [1, 2**43]}, AB, {"weights": "w"}),
    "huge sum": ({"a": ["x"] * 4, "b": [1] * 4, "w": [2**42] * 4}, AB, {"weights": "w"}),
    "infinite": ({"a": ["x", "x"], "b": [1, 2], "w": [1, math.inf]}, AB, {"weights": "w"}),
    "text weight": ({"a": ["x"], "b": [1], "w": ["7919"]}, AB, {"weights": "w"}),
    "outside the bins": (
        {"a": ["x", "x"], "b": [1, 7919]},
        Domain({"a": ["x"]}, bins={"b": Bins([0, 2])}),
        {},
    ),
    "text in bins": (
        {"a": ["x", "x"], "b": ["1", "secret"]},
        Domain({"a": ["x"]}, bins={"b": Bins([0, 2])}),
        {},
    ),
    "infinity in open bins": (
        {"a": ["x", "x"], "b": [1.0, math.inf]},
        Domain({"a": ["x"]}, bins={"b": Bins([0, math.inf])}),
        {},
    ),
    "recoded, undeclared": (
        {"a": ["x", "secret"], "b": [1, 2]},
        AB,
        {"recode": {"a": {"xx": "x"}}},
    ),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_refusals_are_the_same(put, case):
    columns, domain, options = REFUSED[case]
    table = pa.table(columns)
    with pytest.raises(RecordsError) as reference:
        tabulate(table, domain, **options)
    records = put(table)
    for count in (
        lambda: tabulate(records, domain, **options),
        lambda: tabulate_margins(records, domain, [("a",), ("b",)], **options),
    ):
        with pytest.raises(RecordsError) as caught:
            count()
        assert str(caught.value) == str(reference.value)
        assert caught.value.__cause__ is caught.value.__context__ is None
        assert "secret" not in str(caught.value)
        assert "7919" not in str(caught.value)
        if case != "identifiers":
            assert caught.value.labels == reference.value.labels


def test_the_engine_s_own_words_are_withheld(put, capfd):
    records = put(pa.table({"a": ["x", "secret"], "b": [1, 2]}))
    broken = records.mutate(b=records.a.cast("int64"))
    with pytest.raises(RecordsError, match=r"withheld|does not declare|has missing") as caught:
        tabulate(broken, AB)
    assert "secret" not in str(caught.value)
    assert "secret" not in "".join(capfd.readouterr())
    assert caught.value.__cause__ is caught.value.__context__ is None


# ------------------------------------------------------------------ nothing is left behind


@pytest.mark.parametrize("name", ["duckdb", "postgres"])
def test_identifiers_that_the_engine_has_a_type_for(name, connections, numbers):
    texts = [f"00000000-0000-0000-0000-00000000000{i}" for i in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        records = connections(name)(f"t{next(numbers)}", pa.table({"v": texts}))
    records = records.mutate(v=records.v.cast("uuid"))
    assert tabulate(records, Domain({"v": texts})).counts.tolist() == [1, 1, 1]
    with pytest.raises(RecordsError, match="does not declare"):
        tabulate(records, Domain({"v": texts[:2]}))


def test_a_session_goes_on_after_a_count(put):
    records = put(pa.table({"a": ["x", "y"], "b": [1, 2]}))
    for _ in range(2):
        assert tabulate(records, AB).counts.tolist() == [[1, 0], [0, 1]]
    connection = records.get_backend()
    if connection.name == "pyspark":  # whose answers come by way of pandas, with a deprecated word
        assert connection.raw_sql("select 42").collect() == [(42,)]
    else:
        assert records.count().to_pyarrow().as_py() == 2


def test_ci_does_not_skip_what_is_absent(monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="must have it"):
        engines.absent("Java")
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception):
        engines.absent("Java")


def test_ci_installs_what_the_engines_need():
    script = (Path(__file__).parents[1] / ".ci" / "run").read_text()
    assert "default-jre-headless" in script
    assert "postgresql" in script
    assert "CI=true" in script
