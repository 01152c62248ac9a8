"""Levels that a data frame or an Arrow table declares in its types; values are never looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpcontingency._declared import unquoted_levels
from dpcontingency._labels import Label, label_text
from dpcontingency._lazy import later
from dpcontingency.errors import DomainError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
else:
    pd, pa = later("pandas"), later("pyarrow")

Declared = tuple[dict[str, tuple[Label, ...]], list[str]]


def declared_levels(source: object) -> Declared:
    """The levels of every column in order, and which columns are ordinal.

    A categorical, a dictionary and a polars Enum may as well hold the values that occur, in which
    case nothing tells. No message quotes a name or a level: without a header they are a record.
    """
    if isinstance(source, pd.DataFrame):
        return _of_pandas(source)
    if isinstance(source, pa.Schema | pa.DataType):
        raise DomainError(
            "An Arrow schema says that a column is a dictionary, but not what is in it: pass a "
            "table of dictionary columns."
        )
    if hasattr(source, "__arrow_c_stream__") and hasattr(source, "columns"):
        return _of_arrow(pa.table(source))
    raise DomainError(
        "A domain is taken from a pandas DataFrame of categorical columns, a table of Arrow "
        f"dictionary columns, or the path of a YAML or JSON file; got {type(source).__name__}."
    )


def _of_pandas(frame: pd.DataFrame) -> Declared:
    levels, ordered = {}, []
    for name, title, (_, column) in zip(*_names(frame.columns), frame.items(), strict=True):
        if not isinstance(column.dtype, pd.CategoricalDtype):
            raise _undeclared(title, str(column.dtype))
        levels[name] = unquoted_levels(title, name, _labels(column.cat.categories))
        if column.dtype.ordered:
            ordered.append(name)
    return levels, ordered


def _of_arrow(table: pa.Table) -> Declared:
    levels: dict[str, tuple[Label, ...]] = {}
    ordered = []
    # A table may hold another dictionary in each of its chunks.
    columns = table.unify_dictionaries().columns
    for name, title, column in zip(*_names(table.column_names), columns, strict=True):
        if not pa.types.is_dictionary(column.type):
            raise _undeclared(title, str(column.type))
        told = table.schema.field(len(levels)).metadata or {}
        if any(key.startswith(b"_PL_CATEGORICAL") for key in told):
            raise DomainError(
                f"{title} is a polars Categorical, whose categories are the values that "
                "occurred: cast it to a polars Enum of the levels that are publicly known."
            )
        if not column.num_chunks:
            raise DomainError(
                f"{title} has no chunk and so no dictionary: keep a row of the table."
            )
        labels = _labels(column.chunk(0).dictionary.to_pylist())
        levels[name] = unquoted_levels(title, name, labels)
        if column.type.ordered:
            ordered.append(name)
    return levels, ordered


def _names(columns: Iterable[object]) -> tuple[list[str], list[str]]:
    """The names of the columns, and what messages call them."""
    names = list(map(str, columns))
    titles = [f"Column {place} of {len(names)}" for place in range(1, len(names) + 1)]
    times = Counter(names)
    for name, title in zip(names, titles, strict=True):
        if times[name] > 1:
            raise DomainError(f"{title} has the name of another one: keep one of them.")
    return names, titles


def _labels(categories: Iterable[object]) -> list[Label]:
    """Categories as labels; those of another type (dates, intervals) by their text."""
    plain = (v.item() if hasattr(v, "item") and not isinstance(v, str) else v for v in categories)
    return [v if isinstance(v, str | int | float | bool) else label_text(v) for v in plain]


def _undeclared(title: str, kind: str) -> DomainError:
    return DomainError(
        f"{title} is of type {kind}, which declares no levels: make it categorical with "
        "the categories that are publicly known, or leave it out. Levels are never collected from "
        "values."
    )
