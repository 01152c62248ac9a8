"""A heat map of the association of all pairs of factors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from dpcontingency.errors import ModelError
from dpcontingency.report.drawing import (
    FAINT,
    FONT,
    INK,
    describe,
    legend,
    new_axes,
    text_on,
    with_room,
)
from dpcontingency.report.edges import Label, write_edge

MAX_FACTORS = 40
CELL = 0.62  # inches
WITH_INTERVALS = 9  # factors up to which the cells say their intervals


@dataclass(frozen=True)
class Strength:
    """How the cells of one class of association look."""

    label: str
    below: float
    colour: str


# Steps of Cohen (1988) for w, which V is in tables with two rows; ColorBrewer's Blues, whose
# lightness falls with the association.
STRENGTHS = (
    Strength("below 0.1", 0.1, "#eff3ff"),
    Strength("0.1 to 0.3", 0.3, "#bdd7e7"),
    Strength("0.3 to 0.5", 0.5, "#6baed6"),
    Strength("0.5 and more", math.inf, "#08519c"),
)
MISSING: dict[str, Any] = {
    "facecolor": "none",
    "edgecolor": FAINT,
    "linewidth": 0.6,
    "hatch": "////",
}
COLUMNS = ("row", "column", "estimate", "lower", "upper", "reason")


def heat_map(overview: pd.DataFrame, ax: Axes | None = None) -> Axes:
    r"""Noise-aware Cramer's V of all pairs of factors, with the intervals where they have room.

    Parameters
    ----------
    overview : DataFrame
        A row for each pair: ``row``, ``column``, ``estimate``, ``lower``, ``upper`` and
        ``reason``, as `dpcontingency.association_overview` gives it. A pair without an estimate
        is hatched.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Factors down the left side and along the bottom, each pair once; the cell of pair k has
        the gid ``pair-k``, and its text ``text-k``.

    Raises
    ------
    ModelError
        If this is no such frame, or it has no pair or more than 40 factors.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame(
    ...     [("A", "B", 0.31, 0.22, 0.41, ""), ("A", "C", 0.04, 0.0, 0.12, "")],
    ...     columns=["row", "column", "estimate", "lower", "upper", "reason"],
    ... )
    >>> ax = heat_map(frame, ax=Figure().add_subplot())
    >>> [text.get_text() for text in ax.texts if text.get_gid()]
    ['0.31\n0.22–0.41', '0.04\n0.00–0.12']
    """
    if not isinstance(overview, pd.DataFrame) or not set(COLUMNS) <= set(overview):
        raise ModelError(
            "A heat map is drawn from the frame that dpcontingency.association_overview makes, "
            f"with the columns {', '.join(COLUMNS)}; got {type(overview).__name__}."
        )
    pairs = overview.to_dict("records")
    names = list(dict.fromkeys(str(pair[side]) for side in ("row", "column") for pair in pairs))
    if not 2 <= len(names) <= MAX_FACTORS:
        raise ModelError(
            f"A heat map shows the pairs of 2 to {MAX_FACTORS} factors; got {len(names)}. Take the "
            "rows of some of them."
        )
    own = ax is None
    if ax is None:
        side = max(CELL * (len(names) - 1), 1.4)
        ax = new_axes(side, side)
    place = {name: k for k, name in enumerate(names)}
    small = len(names) > WITH_INTERVALS
    for k, pair in enumerate(pairs):
        first, second = sorted(place[str(pair[side])] for side in ("row", "column"))
        _draw_cell(ax, k, pair, (first, second - 1), small=small)
    n = len(names) - 1
    ax.set_xlim(0, n)
    ax.set_ylim(n, 0)
    ax.set_aspect("equal")
    ax.set_axis_off()
    write_edge(ax, "bottom", "", [Label(text, (k + 0.5) / n) for k, text in enumerate(names[:-1])])
    write_edge(ax, "left", "", [Label(text, 1 - (k + 0.5) / n) for k, text in enumerate(names[1:])])
    _legend(
        ax,
        missing=any(math.isnan(pair["estimate"]) for pair in pairs),
        ended=not small and any(map(_ended, pairs)),
    )
    describe(ax, "Cramer's V of all pairs of factors, which allows for the noise.",
             *(_in_words(pair) for pair in pairs))  # fmt: skip
    return with_room(ax) if own else ax


def _draw_cell(ax: Axes, k: int, pair: dict[Any, Any], at: tuple[int, int], *, small: bool) -> None:
    """The square of a pair, in its column and row, with what is known of it."""
    x, y = at
    value, lower, upper = (float(pair[key]) for key in ("estimate", "lower", "upper"))
    if math.isnan(value):
        ax.add_patch(Rectangle((x, y), 1, 1, gid=f"pair-{k}", **MISSING))
        return
    colour = strength_of(value).colour
    ax.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=INK, linewidth=0.6,
                           clip_on=False, gid=f"pair-{k}"))  # fmt: skip
    text = f"{value:.2f}"
    if not small and not (math.isnan(lower) or math.isnan(upper)):
        text += f"\n{lower:.2f}–{upper:.2f}{'*' if _ended(pair) else ''}"
    ax.text(x + 0.5, y + 0.5, text, ha="center", va="center", color=text_on(colour),
            fontsize=FONT - 1.5, gid=f"text-{k}", parse_math=False)  # fmt: skip


def strength_of(value: float) -> Strength:
    """The class of an association."""
    return next(strength for strength in STRENGTHS if value < strength.below)


def _legend(ax: Axes, *, missing: bool, ended: bool) -> None:
    handles: list[Artist] = [
        Patch(facecolor=strength.colour, edgecolor=INK, linewidth=0.6, label=strength.label)
        for strength in reversed(STRENGTHS)
    ]
    if missing:
        handles.append(Patch(label="not known", **MISSING))
    if ended:
        label = "interval ends at V: a fit too\ngood does not bound it"
        handles.append(Line2D([], [], linestyle="", marker="$*$", color=INK, label=label))
    legend(ax, handles, "Cramer's V", loc="upper left", bbox_to_anchor=(1.02, 1.0),
           handleheight=1.2)  # fmt: skip


def _ended(pair: dict[Any, Any]) -> bool:
    """Whether the statistic is in the lower tail even of independence."""
    return bool(pair["upper"] <= pair["estimate"] < 1)


def _in_words(pair: dict[Any, Any]) -> str:
    """A pair in words."""
    names = f"{pair['row']} and {pair['column']}"
    value, lower, upper = (float(pair[key]) for key in ("estimate", "lower", "upper"))
    if math.isnan(value):
        return f"{names}: not known, {pair['reason']}."
    why = ", too good a fit to bound it" if _ended(pair) else ""
    return f"{names}: {value:.3f} ({lower:.3f} to {upper:.3f}{why})."
