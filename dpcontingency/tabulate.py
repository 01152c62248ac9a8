"""From records to confidential counts, counted in the engine that holds the records."""

from __future__ import annotations

import functools
import glob
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import ibis
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from dpcontingency.domain import Domain, label_text
from dpcontingency.errors import DPContingencyError, RecordsError, did_you_mean
from dpcontingency.table import MAX_COUNT, ContingencyTable, check_joint_size

P = ParamSpec("P")
T = TypeVar("T")

COUNT_NAMES = frozenset({"n", "count", "counts", "freq", "frequency", "weight", "weights"})
MAX_LABELS = 20

# Said in full, because whatever DuckDB is not told it guesses from the records.
_CSV = {"all_varchar": True, "delim": ",", "quote": '"', "escape": '"', "comment": "", "skip": 0}

_MISSING, _UNDECLARED = -1, -2

_FAULTS = {
    1: "some are missing",
    2: "some are negative",
    3: "some are too large to count with",
    4: "some are fractional, which leaves unknown how far one record can move a count: the "
    "sensitivity, on which the noise rests",
    5: "some are not numbers",
}


def tabulate(
    records: object, domain: Domain, *, weights: str | None = None, missing: str = "error"
) -> ContingencyTable:
    """Count records into the cells of a declared domain.

    Parameters
    ----------
    records : DataFrame, pyarrow Table, Ibis table, str or path
        One row a record, with a column for each factor; other columns are ignored. A pandas or
        polars DataFrame, a pyarrow Table, the path or glob of CSV (comma-separated, UTF-8, one
        header line, ``.gz`` and ``.zst`` too) or Parquet files, or an Ibis table, which is counted
        in its own engine. In CSV every field is text, so that ``01`` stays ``01``, and an empty
        field is a missing value.
    domain : Domain
        The public factors and levels. Values match levels by their text: ``1``, ``1.0`` and
        ``"1"`` are the same level.
    weights : str, optional
        The column that says how many records a row stands for (frequency form). It is never
        guessed: records with a column named like one are refused until it is named or dropped.
    missing : str, optional
        What to do with nulls and NaN: ``"error"``; ``"drop"``, which leaves out each record that
        lacks a factor; or the text of a level, which counts each of them as that level of its
        factor.

    Returns
    -------
    ContingencyTable
        The confidential counts, one for every declared cell.

    Raises
    ------
    RecordsError
        If a factor has no column, or a value that is missing or not declared; if a record lies in
        a structural zero; if the weights are not whole non-negative numbers; if the joint table is
        too large; or if the records cannot be read. Undeclared values are in the ``labels`` of the
        error and never in its message; what the engine says is withheld, for it may quote records.

    Notes
    -----
    The domain must be public knowledge: levels read off the records would reveal which values
    occur. The table that `missing` = ``"drop"`` makes has ``n_is_public`` False, whether or not
    anything was dropped, because the number of complete records is a fact about the records.

    One grouped count runs in the engine and only distinct combinations come back, at most one more
    than declared values can make: a column of identifiers given by mistake is not downloaded.

    Examples
    --------
    >>> import pandas as pd
    >>> domain = Domain({"dose": ["low", "mid", "high"], "ill": ["no", "yes"]})
    >>> records = pd.DataFrame({"dose": ["low", "high", "high"], "ill": ["no", "no", "yes"]})
    >>> table = tabulate(records, domain)
    >>> table
    <ContingencyTable dose: 3, ill: 2; counts confidential>
    >>> table.counts.tolist()
    [[1, 0], [0, 0], [1, 1]]
    """
    check_joint_size(domain)
    fills = _fills(missing, domain)
    engine = ibis.duckdb.connect()
    try:
        source = _shielded(_source, records, engine)
        wanted = _positions(source.columns, domain, weights, header=source.is_text)
        table = _shielded(source.take, wanted)
        query = _grouped_count(table, domain, fills, drop=missing == "drop", text=source.is_text)
        groups = _shielded(source.run, query)
    finally:
        engine.disconnect()
    cells = tuple(
        _codes(groups.column(f"c{axis}"), name, domain.positions(name), fills)
        for axis, name in enumerate(domain.names)
    )
    if fault := max(groups.column("fault").to_pylist(), default=0):
        raise RecordsError(
            f"The weights in {weights!r} cannot be used: {_FAULTS[fault]}. Weights are "
            "non-negative whole numbers: how many records a row stands for."
        )
    counts = np.zeros(domain.shape, dtype=np.int64)
    np.add.at(counts, cells, groups.column("n").to_numpy())
    return ContingencyTable(counts, domain, n_is_public=missing != "drop", missing=str(missing))


# ------------------------------------------------------------------ where records come from


@dataclass(frozen=True)
class _Source:
    """Records in an engine. Columns go by position, because engines fold or mend their names."""

    columns: tuple[str, ...]
    take: Callable[[Sequence[int]], Any]  # the columns at these positions, as c0, c1, ...
    run: Callable[[Any], Any]  # an Ibis expression on them, as a pyarrow Table
    is_text: bool = False  # numbers arrive as text


def _in_memory(columns: Sequence[object], column: Callable[[int], Any], engine: Any) -> _Source:
    def take(positions: Sequence[int]) -> Any:
        return ibis.memtable(pa.table({f"c{i}": column(p) for i, p in enumerate(positions)}))

    return _Source(tuple(map(str, columns)), take, engine.to_pyarrow)


def _in_engine(table: Any, columns: Sequence[str], is_text: bool = False) -> _Source:
    def take(positions: Sequence[int]) -> Any:
        return table.select(
            [table[table.columns[p]].name(f"c{i}") for i, p in enumerate(positions)]
        )

    return _Source(tuple(columns), take, lambda query: query.to_pyarrow(), is_text)


@functools.singledispatch
def _source(records: object, engine: Any) -> _Source:
    """Where to count; here whatever hands over its columns by Arrow (polars, pyarrow)."""
    if not (hasattr(records, "__arrow_c_stream__") and hasattr(records, "columns")):
        raise RecordsError(
            "Records are a pandas or polars DataFrame, a pyarrow Table, an Ibis table, or the path "
            f"of CSV or Parquet files; got {type(records).__name__}."
        )
    table = pa.table(records)
    return _in_memory(table.column_names, table.column, engine)


@_source.register
def _(records: pd.DataFrame, engine: Any) -> _Source:
    return _in_memory(
        list(records.columns), lambda position: _arrow(records.iloc[:, position]), engine
    )


@_source.register(ibis.Table)
def _(records: Any, engine: Any) -> _Source:
    columns = tuple(records.columns)
    folded = {name.casefold() for name in columns}
    if len(folded) < len(columns) and ibis.get_backend(records).name == "duckdb":
        raise RecordsError(
            "Two columns of the records differ in upper and lower case only, which DuckDB confuses:"
            " rename one of them, or drop the one that is not needed."
        )
    return _in_engine(records, columns)


@_source.register(str)
@_source.register(os.PathLike)
def _(records: str | os.PathLike[str], engine: Any) -> _Source:
    path = os.path.expanduser(os.fspath(records))
    name = path.lower().removesuffix(".gz").removesuffix(".zst")
    if not name.endswith((".csv", ".parquet", ".pq")):
        raise RecordsError(
            f"Files of records end in .csv or .parquet, also as a glob such as 'folder/*.csv'; got "
            f"{path!r}. Read any other file yourself and pass the data frame or an Ibis table."
        )
    if "://" not in path and not glob.glob(path, recursive=True):
        raise RecordsError(f"There is no file {path!r}: check the path.")
    if not name.endswith(".csv"):
        table = engine.read_parquet(path)
        return _in_engine(table, table.columns)
    header = engine.to_pyarrow(engine.read_csv(path, header=False, **_CSV).limit(1)).to_pylist()
    if not header:
        raise RecordsError(f"{path!r} is empty: the first line of a CSV file names its columns.")
    table = engine.read_csv(path, header=True, **_CSV)
    return _in_engine(table, [text or "" for text in header[0].values()], True)


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


def _shielded(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
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
    raise RecordsError(
        f"The records cannot be read or counted ({failure}; the engine's own words are withheld, "
        "because they may quote records). A CSV file must be UTF-8 and comma-separated, with one "
        "header line and as many fields on every line."
    )


# ------------------------------------------------------------------ what is counted


def _fills(missing: str, domain: Domain) -> dict[str, int]:
    """For each factor in which a null counts as a level, the position of that level."""
    if missing in ("error", "drop"):
        return {}
    text = label_text(missing)
    positions = {name: domain.positions(name) for name in domain.names}
    fills = {name: known[text] for name, known in positions.items() if text in known}
    if not fills:
        raise RecordsError(
            f"missing={missing!r} is neither 'error' nor 'drop', and no factor declares it as a "
            "level. Declare that level in the domain to count missing values in it."
        )
    return fills


def _positions(
    columns: Sequence[str], domain: Domain, weights: str | None, *, header: bool
) -> list[int]:
    """Find the columns to read: the factors in order, then the weights if there are any."""
    if weights is None:
        for name in columns:
            if name.casefold() in COUNT_NAMES and name not in domain.names:
                raise RecordsError(
                    f"Does column {name!r} say how many records a row stands for? Then pass "
                    f"weights={name!r}; if it holds something else, drop the column."
                )
    elif not isinstance(weights, str):
        raise RecordsError(
            f"`weights` is the name of a column of the records; got {type(weights).__name__}."
        )
    elif weights in domain.names:
        raise RecordsError(f"Column {weights!r} cannot be both a factor and the weights.")
    for name in (*domain.names, *([] if weights is None else [weights])):
        if name not in columns:
            what = "weights" if name == weights else "factor"
            # Without a header line the first record stands in the place of the names.
            hint = (
                f"the first line of the file must name its {len(columns)} columns (what it says "
                "is in the `labels` of this error)."
                if header
                else did_you_mean(name, columns)
            )
            raise RecordsError(
                f"The records have no column {name!r} ({what}); {hint}", labels=tuple(columns)
            )
        if columns.count(name) > 1:
            raise RecordsError(f"The records have several columns {name!r}: keep one of them.")
    return [columns.index(name) for name in (*domain.names, *([weights] if weights else []))]


def _grouped_count(
    table: Any, domain: Domain, fills: Mapping[str, int], *, drop: bool, text: bool
) -> Any:
    """Ask for the distinct combinations of factors: ``n`` of each, and the ``fault`` of weights."""
    keys, weights = table.columns[: len(domain.names)], table.columns[len(domain.names) :]
    room = 1  # how many groups declared values can make: one more proves that some are undeclared
    for key, name in zip(keys, domain.names, strict=True):
        kind = table[key].type()
        if kind.is_nested() or kind.is_binary():
            raise RecordsError(
                f"Factor {name!r} has values of type {type(kind).__name__}, which are no levels: "
                "recode them to text, numbers or booleans."
            )
        null = name in fills
        # Beside the levels: a null and, in floating point, -0.0 and NaN.
        room *= len(domain.levels[name]) + null + kind.is_floating() * (1 + null)
        if drop:
            table = table.filter(~_is_null(table[key]))
    n, fault = table.count(), ibis.literal(0)
    if weights:
        n, fault = _weighted(table[weights[0]], text)
    return table.group_by(keys).agg(n=n, fault=fault).limit(room + 1)


def _is_null(column: Any) -> Any:
    null = column.isnull()
    return null | column.isnan() if column.type().is_floating() else null


def _weighted(weight: Any, text: bool) -> tuple[Any, Any]:
    """Sum the weights in int64, with the gravest of their faults, 0 for none."""
    number = weight.try_cast("float64") if text else weight
    kind = number.type()
    if kind.is_boolean() or not kind.is_numeric():
        return ibis.literal(0), ibis.literal(5)
    fault = ibis.cases(
        (weight.isnull(), 1),
        (number.isnull(), 5),
        (_is_null(number), 1),
        (number < 0, 2),
        (number > MAX_COUNT, 3),
        (ibis.literal(False) if kind.is_integer() else number % 1 != 0, 4),
        else_=0,
    )
    whole = weight.try_cast("int64") if text else weight.cast("int64")
    return ibis.cases((fault == 0, whole), else_=0).sum().cast("int64"), fault.max()


# ------------------------------------------------------------------ from values to levels


def _codes(
    column: Any, name: str, positions: Mapping[str, int], fills: Mapping[str, int]
) -> npt.NDArray[np.intp]:
    """Find the position of each group's level, or say what is wrong with the values."""
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    encoded = column.dictionary_encode().combine_chunks()
    values = encoded.dictionary
    # NumPy keeps float32, in which the text of 0.1 is "0.1".
    floating = pa.types.is_floating(values.type)
    values = (
        _shielded(values.to_numpy, zero_copy_only=False)
        if floating
        else _shielded(values.to_pylist)
    )
    fill = fills.get(name, _MISSING)
    known = [fill if pd.isna(v) else positions.get(label_text(v), _UNDECLARED) for v in values]
    lookup = np.array([*known, fill], dtype=np.intp)
    codes: npt.NDArray[np.intp] = lookup[encoded.indices.fill_null(-1).to_numpy()]
    if (codes == _UNDECLARED).any():
        labels = [v for v, code in zip(values, known, strict=True) if code == _UNDECLARED]
        raise RecordsError(
            f"Factor {name!r} has values that the domain does not declare (see the `labels` of "
            "this error: they are confidential). Declare them as levels, or recode the records.",
            labels=tuple(sorted(labels, key=label_text)[:MAX_LABELS]),
        )
    if (codes == _MISSING).any():
        also = ", and does not declare the level that stands for them" if fills else ""
        raise RecordsError(
            f"Factor {name!r} has missing values{also}. Pass missing='drop' to leave out every "
            f"record that lacks a factor; or declare a level for them in {name!r} and pass "
            "missing='<that level>'; or mend the records."
        )
    return codes
