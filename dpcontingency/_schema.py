"""Levels that a data frame or an Arrow table declares in its types; values are never looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpcontingency._labels import Label, label_text
from dpcontingency._lazy import later
from dpcontingency.errors import DomainError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
else:
    pd, pa = later("pandas"), later("pyarrow")

Declared = tuple[dict[str, list[Label]], list[str], bool]


def declared_levels(source: object) -> Declared:
    """The levels of every column in order, which columns are ordinal, and whether all declare them.

    The type of a polars Enum says its levels. Another categorical or dictionary may as well hold
    the values that occur, in which case nothing tells.
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
    names = _names(map(str, frame.columns))
    levels, ordered = {}, []
    for name, (_, column) in zip(names, frame.items(), strict=True):
        if not isinstance(column.dtype, pd.CategoricalDtype):
            raise _undeclared(name, str(column.dtype))
        levels[name] = _labels(column.cat.categories)
        if column.dtype.ordered:
            ordered.append(name)
    return levels, ordered, False


def _of_arrow(table: pa.Table) -> Declared:
    names = _names(table.column_names)
    levels: dict[str, list[Label]] = {}
    ordered, declared = [], True
    # A table may hold another dictionary in each of its chunks.
    for name, column in zip(names, table.unify_dictionaries().columns, strict=True):
        if not pa.types.is_dictionary(column.type):
            raise _undeclared(name, str(column.type))
        told = table.schema.field(len(levels)).metadata or {}
        if any(key.startswith(b"_PL_CATEGORICAL") for key in told):
            raise DomainError(
                f"Column {name!r} is a polars Categorical, whose categories are the values that "
                "occurred: cast it to a polars Enum of the levels that are publicly known."
            )
        declared &= any(key.startswith(b"_PL_ENUM") for key in told)
        if not column.num_chunks:
            raise DomainError(
                f"Column {name!r} has no chunk and so no dictionary: keep a row of the table."
            )
        levels[name] = _labels(column.chunk(0).dictionary.to_pylist())
        if column.type.ordered:
            ordered.append(name)
    return levels, ordered, declared


def _names(names: Iterable[str]) -> list[str]:
    out = list(names)
    for name in out:
        if out.count(name) > 1:
            raise DomainError(f"There are several columns {name!r}: keep one of them.")
    return out


def _labels(categories: Iterable[object]) -> list[Label]:
    """Categories as labels; those of another type (dates, intervals) by their text."""
    plain = (v.item() if hasattr(v, "item") and not isinstance(v, str) else v for v in categories)
    return [v if isinstance(v, str | int | float | bool) else label_text(v) for v in plain]


def _undeclared(name: str, kind: str) -> DomainError:
    return DomainError(
        f"Column {name!r} is of type {kind}, which declares no levels: make it categorical with "
        "the categories that are publicly known, or leave it out. Levels are never collected from "
        "values."
    )
