"""A report as Markdown that can be read as it is; of a picture it says where there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import singledispatch

from dpcontingency._labels import on_lines, on_one_line
from dpcontingency.report.parts import (
    Block,
    Bullets,
    Code,
    Document,
    Facts,
    Note,
    Picture,
    Section,
    Table,
    Text,
)

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~&#$])")
_AT_START = re.compile(r"^(\s*)([-+=]|\d+[.)])(?=\s|$)")


def markdown(document: Document) -> str:
    """The document as Markdown, with tables as GitHub has them."""
    lines = [f"# {escaped(document.title)}", "", escaped(document.lead)]
    if document.warning:
        lines += ["", f"> **{escaped(document.warning)}**"]
    for section in document.sections:
        lines += _section(section, 2)
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""A text that Markdown shows as it is, on one line.

    Examples
    --------
    >>> print(escaped("a|b *c* [d]"))
    a\|b \*c\* \[d\]
    >>> print(escaped("1. not a list"))
    1\. not a list
    """
    text = _SPECIAL.sub(r"\\\1", on_one_line(" ".join(text.split())))
    return _AT_START.sub(lambda found: f"{found[1]}{found[2][:-1]}\\{found[2][-1]}", text)


def _section(section: Section, level: int) -> Iterator[str]:
    yield from ("", f"{'#' * level} {escaped(section.title)}")
    for block in section.blocks:
        yield from _lines(block)
    for part in section.parts:
        yield from _section(part, level + 1)


@singledispatch
def _lines(block: Block) -> Iterator[str]:
    """A block as lines, an empty one before it."""
    raise TypeError(f"There is no Markdown of a {type(block).__name__}.")


@_lines.register
def _(block: Text) -> Iterator[str]:
    yield from ("", escaped(block.text))


@_lines.register
def _(block: Note) -> Iterator[str]:
    yield from ("", f"> {escaped(block.text)}")


@_lines.register
def _(block: Bullets) -> Iterator[str]:
    yield ""
    yield from (f"- {escaped(item)}" for item in block.items)


@_lines.register
def _(block: Facts) -> Iterator[str]:
    yield ""
    yield from (f"- **{escaped(fact.label)}**: {escaped(fact.text)}" for fact in block.facts)


@_lines.register
def _(block: Table) -> Iterator[str]:
    yield from ("", f"**{escaped(block.caption)}**", "")
    yield _row(escaped(column.head) for column in block.columns)
    yield _row(":---" if k < block.stubs else "---:" for k in range(len(block.columns)))
    for row in block.rows:
        yield _row(escaped(cell.text) for cell in row)
    if block.cut:
        yield from ("", f"*{escaped(block.cut)}*")


@_lines.register
def _(block: Picture) -> Iterator[str]:
    yield from ("", f"*A picture, in the HTML form of this report:* {escaped(block.caption)}")


@_lines.register
def _(block: Code) -> Iterator[str]:
    fence = "```"
    while fence in block.text:
        fence += "`"
    yield from ("", f"{fence}{block.language}", on_lines(block.text), fence)


def _row(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"
