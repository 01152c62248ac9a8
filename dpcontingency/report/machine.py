"""A report as JSON, for programs: the same sections, with numbers as numbers.

``report.schema.json`` says what is in it.
"""

from __future__ import annotations

import json
from functools import singledispatch
from typing import Any

from dpcontingency._labels import json_on_lines
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

FORMAT = "dpcontingency-report"
VERSION = 1


def machine(document: Document) -> str:
    """The document as JSON; what is not finite is null."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "dpcontingency": document.version,
        "title": document.title,
        "lead": document.lead,
        "warning": document.warning,
        "sections": {section.key: _section(section) for section in document.sections},
    }
    return json_on_lines(json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)) + "\n"


def _section(section: Section) -> dict[str, Any]:
    out: dict[str, Any] = {
        "title": section.title,
        "text": [],
        "notes": [],
        "facts": {},
        "tables": {},
        "code": {},
        "parts": {part.key: _section(part) for part in section.parts},
    }
    for block in section.blocks:
        _add(block, out)
    return out


@singledispatch
def _add(block: Block, section: dict[str, Any]) -> None:
    """Put a block where it belongs in its section."""
    raise TypeError(f"There is no JSON of a {type(block).__name__}.")


@_add.register
def _(block: Text, section: dict[str, Any]) -> None:
    section["text"].append(block.text)


@_add.register
def _(block: Note, section: dict[str, Any]) -> None:
    section["notes"].append(block.text)


@_add.register
def _(block: Bullets, section: dict[str, Any]) -> None:
    section["text"] += block.items


@_add.register
def _(block: Facts, section: dict[str, Any]) -> None:
    for fact in block.facts:
        entry = {"label": fact.label, "text": fact.text}
        section["facts"][fact.key] = entry | ({} if fact.value is None else {"value": fact.value})


@_add.register
def _(block: Table, section: dict[str, Any]) -> None:
    section["tables"][block.key] = {
        "caption": block.caption,
        "columns": [{"key": column.key, "head": column.head} for column in block.columns],
        "rows": [[cell.value for cell in row] for row in block.rows],
        "cut": block.cut,
    }


@_add.register
def _(block: Picture, section: dict[str, Any]) -> None:
    pass  # its numbers are in the tables


@_add.register
def _(block: Code, section: dict[str, Any]) -> None:
    section["code"][block.key] = block.text
