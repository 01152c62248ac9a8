"""A domain file to edit, drafted from what records hold: not private until it is confirmed.

What the file says of a column is what a custodian must decide about. Levels are those that occur,
marked as observed; edges of bins are never read off values; columns that are no factors are left
out, and a comment says why. No comment holds a value or a count.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import ibis
import pandas as pd

from dpcontingency import _yaml
from dpcontingency._labels import Label, label_text
from dpcontingency._language import phrase
from dpcontingency._records import (
    Source,
    column_positions,
    column_titles,
    observed_labels,
    shielded,
    source_of,
)
from dpcontingency._weights import COUNT_NAMES
from dpcontingency.errors import RecordsError
from dpcontingency.privacy.stamp import NOT_PRIVATE

Kind = Literal[
    "factor", "numbers", "counts", "dates", "identifier", "many", "empty", "no levels", "no name"
]

MANY_NUMBERS = 20  # distinct numbers, above which bins are proposed in the place of levels
MANY_LEVELS = 50  # distinct texts, above which a column is no factor as it is
NEARLY_UNIQUE = 0.9  # distinct values a record, from which a column identifies records
FEW = 10  # records, below which nothing is called an identifier

# Scales whose order is plain; levels that all lie in one are put in its order.
_SCALES = tuple(
    scale.split(", ")
    for scale in (
        "none, very low, low, mild, medium, middle, moderate, high, severe, very high",
        "never, rarely, seldom, sometimes, often, usually, always",
        "strongly disagree, disagree, neither, neutral, agree, strongly agree",
        "very poor, poor, bad, fair, average, good, very good, excellent",
        "very dissatisfied, dissatisfied, neutral, satisfied, very satisfied",
        "very small, small, medium, large, very large",
        "xs, s, m, l, xl, xxl",
        "primary, secondary, tertiary",
        "young, middle-aged, old",
        "monday, tuesday, wednesday, thursday, friday, saturday, sunday",
        "mon, tue, wed, thu, fri, sat, sun",
        "january, february, march, april, may, june, july, august, september, october, november, "
        "december",
        "jan, feb, mar, apr, may, jun, jul, aug, sep, oct, nov, dec",
        "1st, 2nd, 3rd, 4th, 5th, 6th, 7th, 8th, 9th, 10th",
        "first, second, third, fourth, fifth",
    )
)
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?([T ]\d{2}:\d{2}.*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}")

_WHY = {
    "numbers": "numbers of many values: choose edges from public knowledge, never from the "
    "records, and write them under bins",
    "counts": "it looks like a column that says how many records a row stands for: name it by "
    "--weights when you release",
    "dates": "dates of many values: make a column of periods that are publicly known, such as "
    "years",
    "identifier": "nearly every record has a value of its own, as names and numbers of persons "
    "have: that identifies records and is no factor; measurements need bins",
    "many": "too many values for a factor: group them in the records, or declare the levels that "
    "are publicly known",
    "empty": "all its values are missing",
    "no name": "it has no name: give it one in the records",
    "no levels": "values of its type are no levels: recode them to text, numbers or booleans",
}


@dataclass(frozen=True)
class Column:
    """What a column of records looks like.

    Attributes
    ----------
    name : str
        The column.
    title : str
        What messages call it: without its name, unless the caller said it.
    kind : str
        "factor", or why it is none.
    levels : tuple of labels
        Of a factor: the values that occur, in an order that makes sense.
    ordered : bool
        Whether the levels lie on a scale whose order is plain.
    numeric : bool
        Whether all levels are numbers.
    lacking : bool
        Whether some value is missing.
    """

    name: str
    title: str
    kind: Kind
    levels: tuple[Label, ...] = ()
    ordered: bool = False
    numeric: bool = False
    lacking: bool = False

    @property
    def reason(self) -> str:
        """Why it is no factor, in words; empty where it is one."""
        return _WHY.get(self.kind, "")


def look_at(
    records: object, names: Sequence[str] | None = None, *, remote: bool = False
) -> list[Column]:
    """What each column looks like, by two passes over the records: not private.

    Parameters
    ----------
    records : DataFrame, pyarrow Table, Ibis table, str or path
        As in `tabulate`.
    names : sequence of str, optional
        The columns to look at, as factors whatever they look like; by default all.
    remote : bool, optional
        As in `tabulate`.

    Raises
    ------
    RecordsError
        If the records cannot be read, hold no record, or lack a column.
    """
    with source_of(records, remote=remote) as source:
        if names is None and source.is_text and len(source.columns) == 1:
            _check_separator(source.columns[0])
        asked = None if names is None else tuple(dict.fromkeys(names))
        table = shielded(source.take, column_positions(source, asked))
        columns = zip(
            table.columns,
            source.columns if asked is None else asked,
            column_titles(source, asked),
            strict=True,
        )
        (facts,) = shielded(source.run, _facts(table)).to_pylist()
        if not facts["rows"]:
            raise RecordsError("There is no record, so there is nothing to draft a domain from.")
        return [
            _column(
                source,
                table.select(key),
                Column(name, title, "factor"),
                {k: facts.get(f"{key}_{k}") for k in _FACTS} | {"rows": facts["rows"]},
                asked=asked is not None,
            )
            for key, name, title in columns
        ]


_FACTS = ("present", "distinct", "numbers", "whole", "codes")


def _facts(table: Any) -> Any:
    """One row: of each column, how many values are there, are distinct, are numbers."""
    out = {"rows": table.count()}
    for key in table.columns:
        column = table[key]
        if column.type().is_nested() or column.type().is_binary():
            continue
        out |= {f"{key}_{fact}": ibis.literal(0) for fact in ("numbers", "whole", "codes")}
        number = None
        if column.type().is_string():
            column = column.nullif("")
            number = column.try_cast("float64")
            out[f"{key}_codes"] = column.re_search("^[-+]?0[0-9]").sum()
        elif column.type().is_numeric():
            number = column.cast("float64")
        out[f"{key}_present"] = column.count()
        out[f"{key}_distinct"] = column.nunique()
        if number is not None:
            out[f"{key}_numbers"] = number.count()
            out[f"{key}_whole"] = (number % 1 == 0).sum()  # of any size, and of no inf or nan
    return table.aggregate(**out)


def _column(
    source: Source, column: Any, plain: Column, facts: dict[str, Any], *, asked: bool
) -> Column:
    """What a column looks like; one that was asked for by name is a factor if it can be."""
    name, looks = plain.name, functools.partial(replace, plain)
    present, distinct = facts["present"], facts["distinct"]
    if not name:
        return looks(kind="no name")
    if present is None:
        return looks(kind="no levels")
    if not present:
        return looks(kind="empty", lacking=True)
    lacking = present < facts["rows"]
    numeric = facts["numbers"] == present and not facts["codes"]
    counts = numeric and facts["whole"] == present and name.strip().casefold() in COUNT_NAMES
    if counts and not asked:
        return looks(kind="counts", lacking=lacking)
    unique = present >= FEW and distinct >= NEARLY_UNIQUE * present
    many = distinct > (MANY_NUMBERS if numeric else MANY_LEVELS)
    # Measurements with decimals are nearly unique, too; whole numbers that are may count persons.
    unique = unique and not (numeric and facts["whole"] < present)
    if (unique or many) and not numeric and _all_match(source, column, _DATE.fullmatch):
        return looks(kind="dates", lacking=lacking)
    if unique and (many or not asked):
        return looks(kind="identifier", lacking=lacking)
    if many:
        return looks(kind="numbers" if numeric else "many", numeric=numeric, lacking=lacking)
    levels, ordered = _in_order(observed_labels(source, column, plain.title), numeric)
    return looks(levels=levels, ordered=ordered, numeric=numeric, lacking=lacking)


def _all_match(source: Source, column: Any, matches: Callable[[str], object]) -> bool:
    """Whether the first values look like something."""
    values = shielded(source.run, column.distinct().limit(200)).column(0).to_pylist()
    return all(matches(str(v)) for v in values if v is not None and not pd.isna(v) and str(v))


def _in_order(levels: Sequence[Label], numeric: bool) -> tuple[tuple[Label, ...], bool]:
    """The levels by number, by a scale, or as they are; and whether it was by a scale."""
    if numeric:
        return tuple(sorted(map(_as_number, levels), key=float)), False
    texts = [label_text(level).strip().casefold() for level in levels]
    for scale in _SCALES:
        if len(levels) > 1 and set(texts) <= set(scale) and len(set(texts)) == len(texts):
            place = dict(zip(texts, levels, strict=True))
            return tuple(place[text] for text in sorted(texts, key=scale.index)), True
    return tuple(levels), False


def _as_number(level: Label) -> Label:
    """The number that a text stands for, where the number is written as that text."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            if label_text(kind(level)) == level:
                return kind(level)
    return level


def _check_separator(header: str) -> None:
    """Refuse a file of another separator; the message does not quote its first line."""
    for sign, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if sign in header:
            raise RecordsError(
                f"The first line of the file is one column that holds {word}: a CSV file must be "
                "comma-separated. Save it with commas"
                + phrase(", or read it yourself and pass the data frame.", ".")
            )


# ------------------------------------------------------------------ the file

_HEAD = f"""\
# Domain file, drafted from records by "dpcontingency init". CONFIDENTIAL
# until you have confirmed it: it shows which values occur in the records.
#
# To confirm it, make the levels of each factor those that are publicly known
# to be possible: add levels that do not occur, take out what tells of a
# person, put them in order. Then delete these comments and the line
# "observed: true". Until then all that is released with it says {NOT_PRIVATE}.
"""


def text_of(columns: Sequence[Column]) -> str:
    """The text of the domain file.

    Raises
    ------
    RecordsError
        If no column is a factor.
    """
    factors = [column for column in columns if column.kind == "factor"]
    if not factors:
        raise RecordsError(
            "No column of the records looks like a factor, a column of a few values: "
            + "; ".join(f"{c.title}: {c.reason}" for c in columns[:3])
            + ". Declare the domain yourself, with bins for numbers."
        )
    parts = [_HEAD, "observed: true\n\nfactors:\n"]
    for column in factors:
        parts.append("  # observed: confirm these are public\n")
        if column.lacking:
            parts.append(
                "  # Some values are missing: add a level such as 'missing', and release with\n"
                "  # --missing missing; or release with --missing drop.\n"
            )
        parts.append(_indented(_yaml.text({column.name: list(column.levels)})))
    if ordered := [column.name for column in factors if column.ordered]:
        parts.append("\n# The order of these levels looks meant: confirm it.\n")
        parts.append(_yaml.text({"ordered": ordered}))
    numeric = [c.name for c in factors if c.numeric and len(c.levels) > 2]
    if numeric:
        parts.append(
            "\n# TODO: if the order of these numbers has a meaning, add them to ordered:\n"
        )
        parts.append(_commented(_yaml.text({"ordered": [*ordered, *numeric]})))
    if bins := [column.name for column in columns if column.kind == "numbers"]:
        parts.append(
            "\n# TODO: numbers of many values. Choose edges from public knowledge, never from the\n"
            "# records, and take out the signs before bins and before each factor wanted:\n"
        )
        parts.append(_commented(_yaml.text({"bins": {name: ["TODO", "TODO"] for name in bins}})))
    if left := [column for column in columns if column.kind not in ("factor", "numbers")]:
        parts.append("\n# Left out:\n")
        parts += [_wrapped(f"{_quoted(c.name)}: {c.reason}.") for c in left]
    return "".join(parts)


def _quoted(name: str) -> str:
    """A name in a comment, which no sign in it may end."""
    return json.dumps(name if name.isprintable() else ascii(name)[1:-1], ensure_ascii=False)


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def _commented(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines())


def _wrapped(text: str) -> str:
    """A comment of lines of at most 78 columns."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) > 72:
            lines.append("  ")
        lines[-1] += f" {word}" if lines[-1].strip() else word
    return "".join(f"# {line}\n" for line in lines)
