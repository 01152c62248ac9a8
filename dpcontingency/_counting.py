"""The question that is put to the engine: how many records there are in each group."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpcontingency._labels import label_text
from dpcontingency._lazy import later
from dpcontingency._records import Source, check_kind, python_values, shielded
from dpcontingency.bins import Bins
from dpcontingency.errors import RecordsError
from dpcontingency.table import MAX_COUNT

if TYPE_CHECKING:
    import ibis
    import pandas as pd
    import pyarrow as pa
    import sqlglot as sg
    from sqlglot import expressions as sge
else:
    ibis, pd, pa = later("ibis"), later("pandas"), later("pyarrow")
    sg, sge = later("sqlglot"), later("sqlglot.expressions")

# Tried with 40 factors of 4 levels and all 780 pairs: one pass over blocks of this size takes a
# tenth of the time of a grouping set for each pair, and larger blocks take longer again.
BLOCK = 4096

SETS = 1000  # in one query; PostgreSQL takes 4096 at most

# Other engines may have them too, but these are the ones that are tested.
HAVE_GROUPING_SETS = frozenset({"duckdb", "postgres", "pyspark"})

TOO_MANY = 2 * MAX_COUNT  # stands for sums that may not fit into 64 bits

FAULTS = {
    1: "some are missing",
    2: "some are negative",
    3: "some are too large to count with",
    4: "some are fractional, which leaves unknown how far one record can move a count: the "
    "sensitivity, on which the noise rests",
    5: "some are not numbers",
}

Groups = dict[str, Any]  # the columns of an answer
_TALLY = {"n", "rows", "small", "fault"}


# ------------------------------------------------------------------ one factor


@dataclass(frozen=True)
class Factor:
    """How the values of one column become positions of levels.

    In the engine a value is found in a bin or in the recoding, and `position` is not null; or it
    is not, and `rest` is the value itself, which is matched by its text when it comes back.
    """

    name: str
    axis: int
    size: int
    by_text: Mapping[str, int]
    bins: Bins | None
    fill: int | None
    recoded: Mapping[str, int]

    MISSING: ClassVar[int] = -1
    UNDECLARED: ClassVar[int] = -2

    @property
    def rest(self) -> str:
        """The column of values that are matched by text."""
        return f"c{self.axis}"

    @property
    def position(self) -> str:
        """The column of positions that the engine found."""
        return f"k{self.axis}"

    @property
    def remedy(self) -> str:
        """What to do about undeclared values."""
        if self.bins:
            return (
                "Declare wider bins, leave missing values empty where the column is text (in which "
                "NaN and NA are text too),"
            )
        return "Declare them as levels,"

    def room(self, kind: Any) -> int:
        """How many groups the declared values can make: one more proves that some are not."""
        null = self.fill is not None
        # Beside the levels: a null and, in floating point, -0.0 and NaN. A level may come in two
        # ways where values are recoded.
        levels = self.size * (2 if self.recoded else 1)
        return int(levels + null + kind.is_floating() * (1 + null))

    def found(self, table: Any, text: bool) -> dict[str, Any]:
        """The two columns, for a factor with bins or a recoding."""
        raw = table[self.rest]
        conditions = self._recoding(raw)
        if self.bins is not None:
            conditions += self._binning(raw, text)
        if not conditions:
            return {self.position: ibis.null("int64"), self.rest: raw}
        if raw.type().is_floating():  # before any comparison
            conditions = [(_is_nan(raw), -1), *conditions]
        position = ibis.cases(*conditions, else_=-1).cast("int64")
        return {
            self.position: position.nullif(-1),
            self.rest: ibis.cases((position == -1, raw), else_=ibis.null(raw.type())),
        }

    def _recoding(self, raw: Any) -> list[tuple[Any, int]]:
        values: dict[int, list[Any]] = {}
        for text, position in self.recoded.items():
            value = _typed(text, raw.type(), self.name)
            if value is not None:
                values.setdefault(position, []).append(value)
        return [(raw.isin(known), position) for position, known in values.items()]

    def _binning(self, raw: Any, text: bool) -> list[tuple[Any, int]]:
        kind = raw.type()
        if text or kind.is_null():
            number = _number(raw) if text else raw.cast("float64")
        elif kind.is_numeric() and not kind.is_boolean():
            number = raw if kind.is_integer() else raw.cast("float64")
        else:
            raise RecordsError(
                f"Factor {self.name!r} has bins, and its column is of type {type(kind).__name__}: "
                "bins need a column of numbers. Convert it, or declare levels instead of bins."
            )
        out = []
        for i, (low, high, low_in, high_in) in enumerate(
            self.bins.intervals() if self.bins else ()
        ):
            sides = []
            # A whole number is never infinite, and not every engine compares it with infinity.
            if math.isfinite(low) or not number.type().is_integer():
                sides.append(number >= low if low_in else number > low)
            if math.isfinite(high) or not number.type().is_integer():
                sides.append(number <= high if high_in else number < high)
            out.append((ibis.and_(*sides) if sides else number.notnull(), i))
        return out

    def codes(self, groups: Groups) -> tuple[npt.NDArray[np.intp], Sequence[Any], list[int]]:
        """The position of each group, and the different values with theirs."""
        column = groups[self.rest]
        if pa.types.is_null(column.type):
            column = column.cast(pa.string())
        encoded = column.dictionary_encode().combine_chunks()
        values = python_values(encoded.dictionary)
        fill = self.MISSING if self.fill is None else self.fill
        known = [
            fill if pd.isna(v) else self.by_text.get(label_text(v), self.UNDECLARED) for v in values
        ]
        lookup = np.array([*known, fill], dtype=np.intp)
        codes = lookup[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
        if self.position in groups:
            found = groups[self.position].combine_chunks().fill_null(-1)
            found = found.to_numpy(zero_copy_only=False)
            codes = np.where(found >= 0, found, codes)
        return codes, values, known


def _typed(text: str, kind: Any, name: str) -> Any:
    """A value of a recoding as the column has it; None where the column cannot hold it."""
    if kind.is_string():
        return text
    try:
        if kind.is_boolean():
            return {"True": True, "False": False}.get(text)
        if kind.is_null():
            return None
        if kind.is_numeric():
            number = (
                int(text) if kind.is_integer() else (float if kind.is_floating() else Decimal)(text)
            )
            if not math.isfinite(number) or label_text(number) != text:
                return None
            if kind.is_decimal() and None not in (kind.precision, kind.scale):
                # Written into the column's type it would be rounded.
                if abs(number) >= 10 ** (kind.precision - kind.scale):
                    return None
                if number != round(number, kind.scale):
                    return None
            return ibis.literal(number, kind)
    except (ValueError, ArithmeticError, TypeError):
        return None
    raise RecordsError(
        f"Factor {name!r} is recoded, and its column is of type {type(kind).__name__}: recode "
        "takes text, numbers and booleans. Convert the column, or declare its values as levels."
    )


# ------------------------------------------------------------------ all groups


def cover(sets: Sequence[frozenset[int]], shape: Sequence[int]) -> list[frozenset[int]]:
    """Blocks of factors such that each set lies inside one, of few cells each.

    A block begins with a set that lies in none yet, and takes in the factor that completes the most
    others, as long as it keeps to `BLOCK` cells.
    """
    # As bits, because there may be tens of thousands of sets.
    left, blocks = [sum(1 << factor for factor in one) for one in sets], []
    smallest = min(shape, default=1)
    while left:
        block = left[0]
        cells = math.prod(n for factor, n in enumerate(shape) if block >> factor & 1)
        while cells * smallest <= BLOCK:
            alone = (rest for one in left if (rest := one & ~block) and not rest & (rest - 1))
            gains = Counter(alone)
            fitting = {
                bit: n for bit in gains if cells * (n := shape[bit.bit_length() - 1]) <= BLOCK
            }
            if not fitting:
                break
            best = max(fitting, key=lambda bit: gains[bit] / math.log(1 + fitting[bit]))
            block |= best
            cells *= fitting[best]
        left = [one for one in left if one & ~block]
        blocks.append(frozenset(f for f in range(len(shape)) if block >> f & 1))
    return blocks


@dataclass(frozen=True)
class Count:
    """A grouped count over each of some blocks of factors."""

    factors: Sequence[Factor]
    blocks: Sequence[frozenset[int]]
    source: Source
    drop: bool
    weighted: bool

    @property
    def fills(self) -> bool:
        """Whether there is a level that missing values count as."""
        return any(factor.fill is not None for factor in self.factors)

    def groups(self, table: Any) -> Iterator[tuple[frozenset[int], Groups]]:
        """The groups of each block, with a column ``n``, the sum of weights.

        Of weighted records also with ``rows``, of which ``small`` have a weight of 0 or 1, and
        ``fault``.
        """
        kinds = {factor.axis: table[factor.rest].type() for factor in self.factors}
        for factor in self.factors:
            check_kind(kinds[factor.axis], f"Factor {factor.name!r}")
        rooms = {
            block: math.prod(self.factors[axis].room(kinds[axis]) for axis in block)
            for block in self.blocks
        }
        table = shielded(self._prepared, table)
        at_once = self.source.plain and self.source.engine.name in HAVE_GROUPING_SETS
        if at_once and len(self.blocks) > 1:
            for start in range(0, len(self.blocks), SETS):
                yield from self._in_one_pass(table, self.blocks[start : start + SETS], rooms)
            return
        for block in self.blocks:
            query = shielded(self._grouped, table, sorted(block))
            found = shielded(self.source.run, query.limit(rooms[block] + 1))
            yield block, dict(zip(found.column_names, found.columns, strict=True))

    def _prepared(self, table: Any) -> Any:
        """The records to count, with what is found row by row."""
        columns = list(table.columns)
        for factor in self.factors:
            if table[factor.rest].type().is_uuid():  # which Arrow has no plain type for
                table = table.mutate(**{factor.rest: table[factor.rest].cast("string")})
        if self.drop:
            for factor in self.factors:
                table = table.filter(~_is_null(table[factor.rest]))
        for factor in self.factors:
            if factor.bins is not None:
                table = table.mutate(**factor.found(table, self.source.is_text))
        if self.weighted:
            table = table.mutate(**_weights(table[columns[-1]], self.source.is_text))
            table = table.drop(columns[-1])
        return table

    def _keys(self, axes: Sequence[int], table: Any) -> list[str]:
        names = [name for axis in axes for name in (f"k{axis}", f"c{axis}")]
        return [name for name in names if name in table.columns]

    def _grouped(self, table: Any, axes: Sequence[int]) -> Any:
        keys = self._keys(axes, table)
        return self._recoded(table.group_by(keys).agg(**self._tally(table)), axes, keys)

    def _tally(self, table: Any) -> dict[str, Any]:
        if not self.weighted:
            return {"n": table.count()}
        # Where 64 bits may not do, the sum in floating point says so.
        fits = table.w.cast("float64").sum() <= TOO_MANY
        n = ibis.cases((fits, table.w.sum().cast("int64")), else_=TOO_MANY)
        small = (table.w <= 1).sum().cast("int64")
        tally = {"n": n.cast("int64"), "rows": table.count().cast("int64"), "small": small}
        return tally | {"fault": table.fault.max()}

    def _recoded(self, groups: Any, axes: Sequence[int], keys: list[str]) -> Any:
        """The groups by level instead of by value, for the factors that are recoded.

        Values are compared with a long list only when they are few: after the grouping.
        """
        late = [f for f in self.factors if f.axis in axes and f.recoded and f.bins is None]
        if not late:
            return groups
        for factor in late:
            groups = groups.mutate(**factor.found(groups, text=False))
        keys = [*keys, *(factor.position for factor in late)]
        sums = ("n", "rows", "small") if self.weighted else ("n",)
        tally = {name: groups[name].sum().cast("int64") for name in sums}
        if self.weighted:
            tally["fault"] = groups.fault.max()
        return groups.group_by(keys).agg(**tally)

    def _in_one_pass(
        self, table: Any, blocks: Sequence[frozenset[int]], rooms: Mapping[frozenset[int], int]
    ) -> Iterator[tuple[frozenset[int], Groups]]:
        """Blocks by one query with grouping sets, which Ibis has no words for."""
        axes = sorted(frozenset().union(*blocks))
        query = shielded(self._grouping_sets, table, blocks, axes)
        query = shielded(self._recoded, query, axes, [c for c in query.columns if c[0] in "kcg"])
        room = sum(rooms[block] for block in blocks)
        found = shielded(self.source.run, query.limit(room + 1))
        absent = np.array([found[f"g{axis}"].to_numpy() for axis in axes], dtype=np.uint8)
        packed = np.packbits(absent, axis=0).T
        for block in blocks:
            mine = np.packbits(np.array([axis not in block for axis in axes], dtype=np.uint8))
            rows = pa.array((packed == mine).all(axis=1))
            wanted = {f"{kind}{axis}" for axis in block for kind in "kc"} | _TALLY
            yield block, {c: found[c].filter(rows) for c in found.column_names if c in wanted}

    def _grouping_sets(
        self, table: Any, blocks: Sequence[frozenset[int]], axes: Sequence[int]
    ) -> Any:
        """The grouped count, rewritten; ``g0``, ... are 1 where the factor is summed out."""
        engine, keys = self.source.engine, self._keys(axes, table)
        grouped = table.group_by(keys).agg(**self._tally(table))
        select = sg.parse_one(engine.compile(grouped), dialect=engine.dialect)
        columns = {part.alias_or_name: part.unalias() for part in select.expressions[: len(keys)]}
        sets = [
            sge.Tuple(expressions=[columns[key].copy() for key in self._keys(sorted(b), table)])
            for b in blocks
        ]
        select.set("group", sge.Group(grouping_sets=[sge.GroupingSets(expressions=sets)]))
        schema = dict(grouped.schema().items())
        for axis in axes:
            flag = sge.Anonymous(this="GROUPING", expressions=[columns[f"c{axis}"].copy()])
            as_integer = sge.Cast(this=flag, to=sge.DataType.build("bigint"))
            select.append("expressions", sge.alias_(as_integer, f"g{axis}", quoted=True))
            schema[f"g{axis}"] = "int64"
        return engine.sql(select.sql(engine.dialect), schema=schema, dialect=engine.dialect)


def _number(text: Any) -> Any:
    """The number that a text reads as, or null; DuckDB would read 1_000 as well."""
    return ibis.cases((text.contains("_"), ibis.null("string")), else_=text).try_cast("float64")


def _is_nan(column: Any) -> Any:
    """Whether a number is NaN, asked of something that is NaN whenever the number is.

    The statistics of a Parquet file leave out NaN, and from them DuckDB concludes that the column
    has none, and that every value lies between the smallest and the largest. Of arc tangents it
    knows no bounds.
    """
    return column.atan2(1).isnan()


def _is_null(column: Any) -> Any:
    null = column.isnull()
    return null | _is_nan(column) if column.type().is_floating() else null


def _weights(weight: Any, text: bool) -> dict[str, Any]:
    """The weights in int64, and the gravest of their faults, 0 for none."""
    number = _number(weight) if text else weight
    kind = number.type()
    if kind.is_boolean() or not kind.is_numeric():
        return {"w": ibis.literal(0, "int64"), "fault": ibis.literal(5, "int64")}
    exact = number
    if kind.is_decimal():  # whose bounds need not fit into their type
        number = number.cast("float64")
    within = ibis.cases((_is_null(number), 0), (number.between(0, MAX_COUNT), exact), else_=0)
    fault = ibis.cases(
        (weight.isnull(), 1),
        (number.isnull(), 5),
        (_is_null(number), 1),
        (number < 0, 2),
        (number > MAX_COUNT, 3),
        (ibis.literal(False) if kind.is_integer() else within.floor() != within, 4),
        else_=0,
    )
    return {"w": within.cast("int64"), "fault": fault.cast("int64")}
