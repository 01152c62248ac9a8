"""A report as one self-contained HTML file."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from dpcontingency._labels import on_lines
from dpcontingency.report.parts import Document


def _visible(value: object) -> object:
    """Text with control characters as escapes, and what is markup still as markup."""
    return type(value)(on_lines(value)) if isinstance(value, str) else value


_TEMPLATES = Environment(
    loader=PackageLoader("dpcontingency", "report/templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_visible,
)


def html(document: Document) -> str:
    """The document as HTML: style and pictures inside, and nothing asked of the network."""
    return _TEMPLATES.get_template("report.html.j2").render(document=document)
