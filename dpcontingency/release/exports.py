"""Tables as data frames, CSV and Parquet: one row a cell, last factor fastest."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpcontingency import _writing
from dpcontingency._lazy import later
from dpcontingency.domain import Domain, Label, label_text
from dpcontingency.errors import ReleaseError
from dpcontingency.privacy.stamp import NOT_PRIVATE

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = later("pyarrow"), later("pyarrow.parquet")

METADATA_KEY = b"dpcontingency"


def frame_of(domain: Domain, cells: Mapping[str, npt.NDArray[Any]]) -> pd.DataFrame:
    """One row a cell: the factors with their levels, then the named arrays of cell values.

    A factor that has the name of an array keeps it: address the columns by position.

    Raises
    ------
    ReleaseError
        If the name of a factor is no Unicode text.
    """
    if not _is_text(domain.names):
        raise ReleaseError(
            "A data frame takes no factor name that is no Unicode text: rename the factor."
        )
    columns = []
    for axis, (name, levels) in enumerate(domain.levels.items()):
        # Labels of several kinds stay what they are, 1 and True being two levels; so does text
        # that is no Unicode, which pandas' own type for text does not hold.
        plain = len({type(level) for level in levels}) == 1 and _is_text(levels)
        kind = None if plain else object
        labels = pd.Series(list(levels), dtype=kind, name=name)
        columns.append(labels.take(_positions(domain, axis)).reset_index(drop=True))
    columns += [pd.Series(values.ravel(), name=name) for name, values in cells.items()]
    return pd.concat(columns, axis=1)


def write_csv(
    path: str | Path,
    domain: Domain,
    cells: Mapping[str, npt.NDArray[Any]],
    statement: Mapping[str, str],
    *,
    spreadsheet_safe: bool = True,
) -> None:
    """Write `frame_of` as CSV: UTF-8, text in quotes, numbers to the last bit.

    Rows have no place for a statement, so what is not private says why in a column of its own.
    With ``spreadsheet_safe``, factors and levels are written as `inert` makes them.

    Raises
    ------
    ReleaseError
        If the file cannot be written, or a label is no Unicode text.
    """
    _require_unicode(path, domain)
    if spreadsheet_safe:
        levels = {str(inert(name)): list(map(inert, vs)) for name, vs in domain.levels.items()}
        domain = Domain(levels)
    frame = frame_of(domain, cells)
    stamp, _, reason = statement["Privacy"].partition(": ")
    if stamp == NOT_PRIVATE:
        frame.insert(frame.shape[1], NOT_PRIVATE, reason, allow_duplicates=True)
    # Quoted, because 01 and an empty text would come back as a number and as a missing value.
    text = frame.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    _writing.write_text(path, text)


# What a spreadsheet takes for a formula: first signs that begin one (full-width ones in some
# languages), and white space that is stripped before one. Apostrophes before them are counted in,
# so that different labels stay different. A number is none, whatever its sign.
_FORMULA = re.compile("'*[=+\\-@\uff1d\uff0b\uff0d\uff20\\t\\r\\n]")
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")


def inert(label: Label) -> Label:
    """A label that no spreadsheet runs: with an apostrophe before what would begin a formula.

    Examples
    --------
    >>> inert("=1+1"), inert("-5"), inert("-5+1"), inert("'=1"), inert("it's")
    ("'=1+1", '-5', "'-5+1", "''=1", "it's")
    """
    runs = isinstance(label, str) and _FORMULA.match(label) and not _NUMBER.fullmatch(label)
    return f"'{label}" if runs else label


def write_parquet(
    path: str | Path,
    domain: Domain,
    cells: Mapping[str, npt.NDArray[Any]],
    statement: Mapping[str, str],
) -> None:
    """Write the columns of `frame_of` as Parquet, with a statement in the file's metadata.

    Labels of several kinds, or integers beyond 64 bits, are written as their text.

    Raises
    ------
    ReleaseError
        If the file cannot be written, a label is no Unicode text, or a factor has the name of
        another column.
    """
    for name in cells:
        if name in domain.names:
            raise ReleaseError(
                f"A Parquet file needs columns of different names, and {name!r} is a factor too. "
                "Rename the factor, or export to CSV."
            )
    _require_unicode(path, domain)
    arrays = {
        name: pa.array(_arrow_labels(levels)).take(pa.array(_positions(domain, axis)))
        for axis, (name, levels) in enumerate(domain.levels.items())
    }
    arrays |= {name: pa.array(values.ravel()) for name, values in cells.items()}
    said = {METADATA_KEY: json.dumps(dict(statement), ensure_ascii=False).encode()}
    buffer = io.BytesIO()
    pq.write_table(pa.table(arrays, metadata=said), buffer)
    _writing.write_bytes(path, buffer.getvalue())


def _positions(domain: Domain, axis: int) -> npt.NDArray[np.intp]:
    """Return the position of each cell's level of the factor on an axis."""
    along = [-1 if i == axis else 1 for i in range(len(domain.shape))]
    position = np.arange(domain.shape[axis]).reshape(along)
    return np.broadcast_to(position, domain.shape).ravel()


def _arrow_labels(levels: tuple[Label, ...]) -> list[Label]:
    kinds = {type(level) for level in levels}
    fits = all(abs(level) < 2**63 for level in levels if isinstance(level, int))
    return list(levels) if len(kinds) == 1 and fits else [label_text(level) for level in levels]


def is_unicode(domain: Domain) -> bool:
    """Whether all factors and levels are Unicode text, as files and pandas' indices need."""
    return all(_is_text((name, *levels)) for name, levels in domain.levels.items())


def _is_text(labels: Iterable[Label]) -> bool:
    """Whether no text holds half a surrogate pair, as file names that are no UTF-8 do."""
    text = "".join(label for label in labels if isinstance(label, str))
    return text.encode("utf-8", "replace") == text.encode("utf-8", "surrogatepass")


def _require_unicode(path: str | Path, domain: Domain) -> None:
    if not is_unicode(domain):
        raise ReleaseError(
            f"Cannot write {path}: a factor or level is no Unicode text. Rename it; Release.save "
            "takes any label."
        )
