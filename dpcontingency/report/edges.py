"""Names of levels along the edges of a plot, with the name of the factor beyond them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from matplotlib.axes import Axes

from dpcontingency.report.drawing import FONT, INK, clean, distinct, ems, short

Side = Literal["bottom", "left", "top", "right"]

NEAR, BEYOND = 7.0, 12.0  # points: from the edge to the levels, from these to the name


@dataclass(frozen=True)
class Label:
    """The name of a level, at a place along an edge: a fraction of its length."""

    text: str
    at: float


def write_edge(ax: Axes, side: Side, name: str, labels: Sequence[Label]) -> float:
    """Write the levels along an edge of the axes and the name of the factor beyond them.

    Names side by side that would touch are turned; where even lines of text have no room, the
    first of a crowd is shown. Text is never read as TeX.

    Returns
    -------
    float
        How far it reaches from the edge, in points.
    """
    whole = [label.text for label in labels]
    labels = [Label(text, label.at) for text, label in zip(distinct(whole), labels, strict=True)]
    full = {label.text: text for label, text in zip(labels, whole, strict=True)}
    across = side in ("bottom", "top")
    far = side in ("top", "right")
    sign, edge = (1, 1.0) if far else (-1, 0.0)
    inches = ax.bbox.transformed(ax.figure.dpi_scale_trans.inverted())
    sides = (inches.width, inches.height)
    length = sides[not across] if ax.get_aspect() == "auto" else min(sides)
    length *= 72 / FONT  # in ems
    turned = across and _overlap(labels, length)

    def put(text: str, at: float, distance: float, **look: Any) -> None:
        ax.annotate(
            text,
            (at, edge) if across else (edge, at),
            xycoords="axes fraction",
            xytext=(0, distance * sign) if across else (distance * sign, 0),
            textcoords="offset points",
            ha="center" if across else ("left" if far else "right"),
            va=("bottom" if far else "top") if across else "center",
            fontsize=FONT,
            color=INK,
            parse_math=False,
            annotation_clip=False,
            **look,
        )

    shown = _legible(labels, length) if turned or not across else labels
    for label in shown:
        name_of = full[label.text]
        put(label.text, label.at, NEAR, rotation=90 if turned else 0,
            label="" if clean(name_of) == label.text else name_of)  # fmt: skip
    longest = max((ems(label.text) for label in shown), default=1.0)
    room = FONT * (longest if turned or not across else 1.0)
    if name:
        put(short(name), 0.5, room + BEYOND, rotation=0 if across else 90, fontweight="bold")
    return room + BEYOND + 1.4 * FONT


def _overlap(labels: Sequence[Label], length: float) -> bool:
    """Whether labels side by side on an edge so many ems long would touch."""
    return any(
        (ems(one.text) + ems(other.text)) / 2 + 0.6 > abs(other.at - one.at) * length
        for one, other in pairwise(labels)
    )


def _legible(labels: Sequence[Label], length: float) -> list[Label]:
    """The labels that have room for a line of text each, the first of a crowd."""
    shown: list[Label] = []
    for label in labels:
        if not shown or abs(label.at - shown[-1].at) * length >= 1.1:
            shown.append(label)
    return shown
