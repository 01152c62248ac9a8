"""What a report is made of, before anyone decides how it looks: sections, facts, tables, pictures.

A cell of a table and a fact carry both what a reader sees and the number behind it, so that the
same document can be printed and read by a program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

Value: TypeAlias = "str | float | int | bool | tuple[float | None, ...] | None"


@dataclass(frozen=True)
class Cell:
    """What is printed, and what it stands for."""

    text: str
    value: Value


@dataclass(frozen=True)
class Column:
    """The key of a column for a program, and its head for a reader."""

    key: str
    head: str


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Note:
    """A paragraph that stands out."""

    kind: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    kind: ClassVar[str] = "bullets"
    items: Sequence[str]


@dataclass(frozen=True)
class Fact:
    """A labelled fact; its value is its text unless there is a better one for a program."""

    key: str
    label: str
    text: str
    value: Value = None


@dataclass(frozen=True)
class Facts:
    """Labelled facts, one below the other."""

    kind: ClassVar[str] = "facts"
    facts: Sequence[Fact]


@dataclass(frozen=True)
class Table:
    """A table: the first ``stubs`` columns name the row, the others are numbers.

    Attributes
    ----------
    key : str
        Its name for a program.
    caption : str
        Its name for a reader.
    columns : sequence of Column
        From left to right.
    rows : sequence of sequences of Cell
        One cell a column.
    stubs : int
        How many columns name the row.
    cut : str
        What was left out, and where to get it.
    """

    kind: ClassVar[str] = "table"
    key: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    stubs: int
    cut: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture that is drawn when it is asked for, and the sentence under it.

    Attributes
    ----------
    key : str
        Its name for a program, unique in its document; the ids inside the drawing begin with it.
    caption : str
        The sentence under it.
    draw : callable
        From the prefix of its ids to an ``<svg>`` element that says in words what it shows.
    """

    kind: ClassVar[str] = "picture"
    key: str
    caption: str
    draw: Callable[[str], str] = field(compare=False)

    def svg(self) -> str:
        """The drawing."""
        return self.draw(self.key)


@dataclass(frozen=True)
class Code:
    """Lines for a computer, in the language named."""

    kind: ClassVar[str] = "code"
    key: str
    language: str
    text: str


Block: TypeAlias = Text | Note | Bullets | Facts | Table | Picture | Code


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, then sections of the next level.

    Attributes
    ----------
    key : str
        Its name for a program, unique among its siblings; at the top level its anchor too.
    title : str
        The heading.
    blocks : sequence of Block
        What it holds.
    parts : sequence of Section
        One level down.
    """

    key: str
    title: str
    blocks: Sequence[Block] = ()
    parts: Sequence[Section] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not self.blocks and not self.parts


@dataclass(frozen=True)
class Document:
    """A report.

    Attributes
    ----------
    title, lead : str
        The heading, and the line under it.
    warning : str
        Why what it reports protects nobody; empty where it does.
    version : str
        Of the package that made it.
    sections : sequence of Section
        In the order in which they are read.
    """

    title: str
    lead: str
    warning: str
    version: str
    sections: Sequence[Section]

    def tables(self) -> Iterator[Table]:
        """Every table, wherever it stands."""
        for section in _below(self.sections):
            yield from (block for block in section.blocks if isinstance(block, Table))

    def pictures(self) -> Iterator[Picture]:
        """Every picture, wherever it stands."""
        for section in _below(self.sections):
            yield from (block for block in section.blocks if isinstance(block, Picture))


def _below(sections: Sequence[Section]) -> Iterator[Section]:
    for section in sections:
        yield section
        yield from _below(section.parts)


def label(text: Any) -> Cell:
    """A cell that names something.

    Examples
    --------
    >>> label("Dept")
    Cell(text='Dept', value='Dept')
    """
    return Cell(str(text), str(text))


def number(value: float, text: str) -> Cell:
    """A number as printed; what is not finite is no number for a program.

    Examples
    --------
    >>> number(3.14159, "3.14"), number(float("inf"), "∞")
    (Cell(text='3.14', value=3.14159), Cell(text='∞', value=None))
    """
    value = value.item() if hasattr(value, "item") else value
    return Cell(text, value if math.isfinite(value) else None)


def span(ends: Sequence[float], texts: Sequence[str]) -> Cell:
    """An interval as printed; an end that is not finite is None for a program.

    Examples
    --------
    >>> span([1.25, float("inf")], ["1.2", "∞"])
    Cell(text='1.2 to ∞', value=(1.25, None))
    """
    finite = tuple(float(end) if math.isfinite(end) else None for end in ends)
    return Cell(" to ".join(texts), finite)


BLANK = Cell("", None)
