"""Where records live, and how a question is put to the engine that holds them."""

from __future__ import annotations

import contextlib
import functools
import glob
import logging
import os
import re
import sys
import tempfile
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from dpcontingency._declared import unquoted_levels
from dpcontingency._labels import Label, label_text
from dpcontingency._language import phrase
from dpcontingency._lazy import later
from dpcontingency._watch import run_in_duckdb, waiting
from dpcontingency.errors import DPContingencyError, RecordsError, shown

if TYPE_CHECKING:
    import ibis
    import pandas as pd
    import pyarrow as pa
else:
    ibis, pd, pa = later("ibis"), later("pandas"), later("pyarrow")

P = ParamSpec("P")
T = TypeVar("T")

MAX_OBSERVED = 1000  # more values than this are identifiers or measurements, no levels

WITHHELD = "the engine's own words are withheld, because they may quote records"
_CSV_IS = (
    "A CSV file must be UTF-8 and comma-separated, with one header line and as many fields on every"
    " line."
)

# A folder called key=value would be a column, in the place of one that the file has.
_FILES = {"hive_partitioning": False}

# Said in full, because whatever DuckDB is not told it guesses from the records.
_CSV = {"all_varchar": True, "delim": ",", "quote": '"', "escape": '"', "comment": "", "skip": 0,
        **_FILES}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """Records in an engine. Columns go by position, because engines fold or mend their names."""

    columns: tuple[str, ...]
    take: Callable[[Sequence[int]], Any]  # the columns at these positions, as c0, c1, ...
    engine: Any  # the Ibis backend
    is_text: bool = False  # numbers arrive as text
    size: float = float("inf")  # how many records there are, where that is known
    plain: bool = True  # the engine knows every table that a query names

    def run(self, query: Any) -> Any:
        """The answer to an Ibis expression, as a pyarrow Table, while somebody may watch."""
        if self.engine.name == "duckdb":
            return run_in_duckdb(functools.partial(self.engine.to_pyarrow, query), self.engine.con)
        with waiting():
            if self.engine.name == "pyspark":
                # By way of pandas, which Ibis goes, a whole number beside a null is a float.
                with _without_log("SQLQueryContextLogger"):
                    return self.engine.raw_sql(self.engine.compile(query)).toArrow()
            return self.engine.to_pyarrow(query)


@contextlib.contextmanager
def _without_log(name: str) -> Iterator[None]:
    """Silence a logger: PySpark prints errors, with the values they quote, as well as raising."""
    logger = logging.getLogger(name)
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


@contextlib.contextmanager
def source_of(records: object, *, remote: bool = False) -> Iterator[Source]:
    """Records where they are; by an embedded DuckDB unless they are in an engine already.

    Raises
    ------
    RecordsError
        If this is no kind of records, they cannot be read, or they are on another machine and
        that is not asked for by ``remote``.
    """
    path = os.fspath(records) if isinstance(records, str | os.PathLike) else None
    is_csv = path is not None and _is_csv(path)
    embedded = _embedded()
    spill = tempfile.TemporaryDirectory(prefix="dpcontingency-")  # of this user alone
    try:
        embedded.con.execute("SET temp_directory = ?", [spill.name])
        if sys.stderr.isatty():  # in a notebook the setting itself would ask for ipywidgets
            embedded.con.execute(
                "SET enable_progress_bar = true; SET enable_progress_bar_print = false"
            )
        if path is not None:
            shielded(_check_place, path, remote, embedded)
        yield shielded(_kinds(), records, embedded)
    except RecordsError as error:
        # Not another error, whose context would be this one.
        if is_csv and WITHHELD in str(error):
            error.args = (f"{error} {_CSV_IS}",)
        raise
    finally:
        embedded.disconnect()
        spill.cleanup()


def _embedded() -> Any:
    """A DuckDB that fetches no code, whatever a path would need."""
    engine = ibis.duckdb.connect()
    engine.con.execute("SET autoinstall_known_extensions = false")
    return engine


def is_remote(path: str) -> bool:
    """Whether a path or glob is an address, as in ``https://`` and ``s3://``."""
    return "://" in path.removeprefix("file:")


def _check_place(path: str, remote: bool, engine: Any) -> None:
    """Refuse an address that was not asked for, or that needs code which is not installed.

    The address is not quoted: it may hold a key.
    """
    if not is_remote(path):
        return
    scheme = path.partition("://")[0].casefold()
    if not remote:
        raise RecordsError(
            f"The records are at an address ({shown(scheme)}), not in files of this machine: "
            f"download them first, or pass {phrase('remote=True', '--remote')} to read them there."
        )
    needed = "azure" if scheme in ("az", "azure", "abfss") else "httpfs"
    found = "SELECT installed FROM duckdb_extensions() WHERE extension_name = ?"
    if not engine.con.execute(found, [needed]).fetchone()[0]:
        raise RecordsError(
            f"DuckDB reads such an address by its extension {needed!r}, which is not installed: "
            f"run INSTALL {needed} once in DuckDB, or download the files."
        )


def _in_memory(
    columns: Sequence[object], column: Callable[[int], Any], engine: Any, size: int
) -> Source:
    def take(positions: Sequence[int]) -> Any:
        chosen = pa.table({f"c{i}": _of_some_type(column(p)) for i, p in enumerate(positions)})
        engine.con.register("records", chosen)
        return engine.table("records")

    return Source(tuple(map(str, columns)), take, engine, size=size)


def _of_some_type(column: Any) -> Any:
    """The column; of nulls only, with a type that Ibis has a name for."""
    return column.cast(pa.int64()) if pa.types.is_null(column.type) else column


def _in_engine(
    table: Any, columns: Sequence[str], engine: Any, is_text: bool = False, plain: bool = True
) -> Source:
    def take(positions: Sequence[int]) -> Any:
        return table.select(
            [table[table.columns[p]].name(f"c{i}") for i, p in enumerate(positions)]
        )

    return Source(tuple(columns), take, engine, is_text, plain=plain)


@functools.cache
def _kinds() -> functools._SingleDispatchCallable[Source]:
    """Where to count each kind of records; the first ones load what knows the kinds."""
    kinds = functools.singledispatch(_in_arrow)
    kinds.register(pd.DataFrame, _in_pandas)
    kinds.register(ibis.Table, _in_ibis)
    kinds.register(str, _in_files)
    kinds.register(os.PathLike, _in_files)
    return kinds


def _in_arrow(records: Any, engine: Any) -> Source:
    """Whatever hands over its columns by Arrow (polars, pyarrow)."""
    if not (hasattr(records, "__arrow_c_stream__") and hasattr(records, "columns")):
        raise RecordsError(
            "Records are a pandas or polars DataFrame, a pyarrow Table, an Ibis table, or the path "
            f"of CSV or Parquet files; got {type(records).__name__}."
        )
    table = pa.table(records)
    return _in_memory(table.column_names, table.column, engine, table.num_rows)


def _in_pandas(records: pd.DataFrame, engine: Any) -> Source:
    return _in_memory(
        list(records.columns),
        lambda position: _arrow(records.iloc[:, position]),
        engine,
        len(records),
    )


def _in_ibis(records: Any, engine: Any) -> Source:
    columns = tuple(records.columns)
    folded = {name.casefold() for name in columns}
    backend = ibis.get_backend(records)
    if len(folded) < len(columns) and backend.name == "duckdb":
        raise RecordsError(
            "Two columns of the records differ in upper and lower case only, which DuckDB confuses:"
            " rename one of them, or drop the one that is not needed."
        )
    plain = not records.op().find(ibis.expr.operations.InMemoryTable)
    return _in_engine(records, columns, backend, plain=plain)


def _in_files(records: str | os.PathLike[str], engine: Any) -> Source:
    path = os.path.expanduser(os.fspath(records))
    is_text = _is_csv(path)
    if not is_text and not path.lower().endswith((".parquet", ".pq")):
        raise RecordsError(
            f"Files of records end in .csv or .parquet, also as a glob such as 'folder/*.csv'; got "
            f"{path!r}. "
            + phrase(
                "Read any other file yourself and pass the data frame or an Ibis table.",
                "Convert any other file.",
            )
        )
    if "://" not in path and not glob.glob(path, recursive=True):
        raise RecordsError(f"There is no file {path!r}: check the path.")
    found = _found(path, engine)
    folders = [name for name in glob.glob(path, recursive=True) if os.path.isdir(name)]
    if "://" not in path and folders:
        raise RecordsError(
            f"{path!r} stands for a folder: name the files in it, as in 'folder/*.csv'.",
            labels=(folders[0],),
        )
    # A name in some files only would be passed over: that of a column of counts, for one.
    first, *others = found or [path]
    names = _column_names(first, path, is_text, engine)
    if not names:
        raise RecordsError(f"{path!r} is empty: the first line of a CSV file names its columns.")
    for file in others:
        if sorted(_column_names(file, path, is_text, engine)) != sorted(names):
            raise RecordsError(
                f"The files of {path!r} do not all have the same columns"
                + phrase(" (one that differs is in the `labels` of this error)", "")
                + ": give all of them the same, in any order, or count the files one by one.",
                labels=(file,),
            )
    read = engine.read_csv if is_text else engine.read_parquet
    return _in_engine(
        read(path, **(_CSV | {"header": True} if is_text else _FILES)), names, engine, is_text
    )


def files_of(records: str) -> list[str]:
    """The files on this machine that a path or glob of records stands for; none if it is no such.

    Raises
    ------
    RecordsError
        If DuckDB cannot say.
    """
    path = os.path.expanduser(records)
    if is_remote(path):
        return []  # which is not asked without need
    engine = _embedded()
    try:
        return shielded(_found, path, engine)
    finally:
        engine.disconnect()


def _found(path: str, engine: Any) -> list[str]:
    return [file for (file,) in engine.con.execute("SELECT file FROM glob(?)", [path]).fetchall()]


def _is_csv(path: str) -> bool:
    return path.lower().removesuffix(".gz").removesuffix(".zst").endswith(".csv")


def _column_names(file: str, path: str, is_text: bool, engine: Any) -> list[str]:
    """The names of the columns of a file that a path or glob stands for."""
    name = file if file == path else re.sub(r"([\[*?])", r"[\1]", file)
    if not is_text:
        return list(engine.read_parquet(name, **_FILES).columns)
    header = engine.to_pyarrow(engine.read_csv(name, header=False, **_CSV).limit(1)).to_pylist()
    return [text or "" for line in header for text in line.values()]


def _arrow(series: pd.Series[Any]) -> Any:
    """Convert a pandas column: to level texts where Arrow has no plain type (mixed objects)."""
    try:
        column = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return _as_text(series)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    odd = pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType)
    return _as_text(series) if odd or pa.types.is_binary(kind) else column


def _as_text(series: pd.Series[Any]) -> Any:
    values = zip(series, series.isna(), strict=True)
    return pa.array([None if null else label_text(v) for v, null in values], pa.string())


def shielded(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call what may fail in words that quote records: only the name of the failure comes through.

    The error is raised outside the handler, so that not even its context holds the first one.
    """
    try:
        with warnings.catch_warnings():  # Ibis calls DuckDB by names that DuckDB has deprecated
            warnings.simplefilter("ignore", DeprecationWarning)
            return work(*args, **kwargs)
    except (DPContingencyError, MemoryError):
        raise
    except Exception as error:
        failure = type(error).__name__
    raise RecordsError(f"The records cannot be read or counted ({failure}; {WITHHELD}).")


def column_positions(
    source: Source, names: Sequence[str] | None, what: str = "factor"
) -> list[int]:
    """Where the columns of these names are, each there once; None stands for all columns.

    Names that the caller did not say are never quoted: without a header they are a record.
    """
    times = Counter(source.columns)
    if names is None:
        twins = [i for i, name in enumerate(source.columns, start=1) if times[name] > 1]
        if twins:
            raise RecordsError(
                f"Column {twins[0]} of {len(source.columns)} has the name of another one: keep one "
                "of them.",
                labels=source.columns,
            )
        return list(range(len(source.columns)))
    for name in names:
        if not times[name]:
            raise RecordsError(
                f"The records have no column {shown(name)} ({what}); "
                f"{_kind_of_difference(name, source.columns)}{_header_hint(source)}",
                labels=source.columns,
            )
        if times[name] > 1:
            raise RecordsError(f"The records have several columns {shown(name)}: keep one of them.")
    return [source.columns.index(name) for name in names]


def column_titles(source: Source, names: Sequence[str] | None) -> list[str]:
    """What messages call columns: by their names only where the caller said them."""
    if names is not None:
        return [f"Column {shown(name)}" for name in names]
    size = len(source.columns)
    return [f"Column {i} of {size}" for i in range(1, size + 1)]


def _kind_of_difference(name: str, columns: Sequence[str]) -> str:
    """How a column differs from a name that is missing, if by little; which one is not said."""

    def plain(text: str) -> str:
        return unicodedata.normalize("NFKC", text).strip().casefold()

    near = plain(name) in map(plain, columns)
    return "one differs from it in capitals, spaces or the form of its signs only; " * near


def _header_hint(source: Source) -> str:
    """What may be wrong with the names of columns, which are not quoted: they may be a record."""
    columns = source.columns
    if source.is_text and len(columns) == 1:
        for sign, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if sign in columns[0]:
                return f"its first line is one column that holds {word}. Save it with commas."
    what = "column" if len(columns) == 1 else f"{len(columns)} columns"
    whose = (
        "the first line of the file must name its" if source.is_text else "check the names of its"
    )
    shows = phrase(" (in Python the `labels` of this error show them)", "")
    return f"{whose} {what}{shows}."


def distinct_values(
    records: object, names: Sequence[str] | None, *, remote: bool = False
) -> dict[str, tuple[Label, ...]]:
    """The values that occur in each column, in increasing order: not private.

    Raises
    ------
    RecordsError
        If a column has more than `MAX_OBSERVED` values, or none.
    DomainError
        If a column has no name, or values that are no levels.
    """
    with source_of(records, remote=remote) as source:
        table = shielded(source.take, column_positions(source, names))
        titles = column_titles(source, names)
        return {
            name: unquoted_levels(title, name, observed_labels(source, table.select(key), title))
            for key, name, title in zip(
                table.columns, source.columns if names is None else names, titles, strict=True
            )
        }


def observed_labels(source: Source, column: Any, title: str) -> list[Label]:
    """The values that occur in a table of one column, as `distinct_values` gives them."""
    check_kind(column[column.columns[0]].type(), title)
    found = shielded(source.run, column.distinct().limit(MAX_OBSERVED + 1))
    if found.num_rows > MAX_OBSERVED:
        raise RecordsError(
            f"{title} has more than {MAX_OBSERVED:,} values, so it is no factor: name the "
            "columns that are, or declare a domain with bins."
        )
    by_text = {}
    for value in python_values(found.column(0)):
        if not pd.isna(value):
            by_text[label_text(value)] = value
    if not by_text:
        raise RecordsError(f"{title} has no value but missing ones: leave it out.")
    values = {text: _label(value) for text, value in by_text.items()}
    numeric = all(isinstance(value, int | float) for value in values.values())
    return sorted(values.values(), key=None if numeric else label_text)


def _label(value: Any) -> Label:
    if isinstance(value, np.floating):
        value = float(label_text(value))  # in float32 the text of 0.1 is "0.1", its number another
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and value.is_integer():
        return int(value)  # a null made whole numbers floats
    return value if isinstance(value, str | int | float | bool) else label_text(value)


def check_kind(kind: Any, title: str) -> None:
    """Refuse a column whose type has no levels."""
    if kind.is_nested() or kind.is_binary():
        raise RecordsError(
            f"{title} has values of type {type(kind).__name__}, which are no levels: "
            "recode them to text, numbers or booleans."
        )


def python_values(column: Any) -> Any:
    """The values of an Arrow column, float32 kept: in it the text of 0.1 is "0.1"."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        # A moment has one text wherever it is read.
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    if pa.types.is_floating(column.type):
        return shielded(column.to_numpy, zero_copy_only=False)
    return shielded(column.to_pylist)
