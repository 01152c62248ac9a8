"""Plots of released tables: matplotlib Axes in, Axes out; and their way into a document.

Nothing in a table stops a plot: negative, zero and impossible cells, unobserved levels and factors
with one level are drawn, with no area and a mark where there is nothing to draw.
"""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from unicodedata import east_asian_width

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from dpcontingency.domain import Domain, label_text
from dpcontingency.errors import ModelError, ReleaseError
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.release.release import Release

Array = npt.NDArray[np.float64]

MAX_FACTORS = 4
GAPS = (0.06, 0.06, 0.05, 0.05)  # between the parts of the first, second, ... split
FONT = 9.0
LONGEST = 28
INK = "#1c1d1e"  # `svg` turns it into the colour of the text around the plot


@dataclass(frozen=True)
class Shade:
    """How tiles with residuals in one class look."""

    label: str
    colour: str
    dashed: bool = False


# The classes of vcd: |residual| below 2, from 2 to 4, above 4. The colours are ColorBrewer's RdBu,
# which colour-blind readers can tell apart; in black and white the dashed edges are the negatives.
SHADES = (
    Shade("below −4", "#b2182b", dashed=True),
    Shade("−4 to −2", "#f4a582", dashed=True),
    Shade("−2 to 2", "#e9e9e9"),
    Shade("2 to 4", "#92c5de"),
    Shade("above 4", "#2166ac"),
)
STEPS = (-4.0, -2.0, 2.0, 4.0)


@dataclass(frozen=True)
class Mark:
    """How a cell without area is drawn."""

    label: str
    marker: str


# Lines of a power curve: Okabe and Ito's colours, and dashes for black and white.
CURVE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
CURVE_SIZE = (6.0, 4.0)

NEGATIVE = Mark("negative cell (noise), no area", "x")
ZERO = Mark("cell of 0, no area", "o")
IMPOSSIBLE = Mark("impossible cell", "|")


def mosaic(
    release_or_results: Release | LogLinearResults,
    ax: Axes | None = None,
    order: Sequence[str] | None = None,
) -> Axes:
    """Mosaic plot of a released table, shaded by noise-aware Pearson residuals.

    Parameters
    ----------
    release_or_results : Release or LogLinearResults
        A release, whose residuals are those from mutual independence; or a fitted model, whose
        release is drawn with the residuals of the model. Up to four factors.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the axes of a new figure.
    order : sequence of str, optional
        The factors in the order of splitting: first side by side, second one above the other,
        then again so inside each part. By default the factors with the most levels come first.

    Returns
    -------
    matplotlib.axes.Axes
        With a legend to the right of the plot. The tile of a cell has the gid
        ``cell-<its position in C order>``.

    Raises
    ------
    ModelError
        If the table has more than four factors, or ``order`` is not an order of its factors.

    Notes
    -----
    The area of a tile is proportional to the noisy cell. A negative or zero cell has no area and
    a mark. Tiles are shaded in vcd's steps (absolute residual below 2, 2 to 4, above 4), by
    ``LogLinearResults.resid_pearson``: (noisy - fitted) / sqrt(fitted + noise variance). Where
    nothing can be fitted, because the table is empty or its noise is not Gaussian, tiles are not
    shaded and the legend has no residuals.

    References
    ----------
    Meyer, Zeileis and Hornik, "The strucplot framework: visualizing multi-way contingency tables
    with vcd", J. Statistical Software 17(3), 2006.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.from_noisy_table([[31.5, -1.2], [17.7, 25.2]], domain, sigma=2.0)
    >>> ax = mosaic(release, ax=Figure().add_subplot())
    >>> len(ax.patches)
    3
    """
    release, residuals = shading(release_or_results)
    names = _split_order(release.domain, order)
    if ax is None:
        ax = blank(plt.figure(figsize=figure_size(release.domain)))
    axes = [release.domain.axis(name) for name in names]
    shown = _Mosaic(
        domain=release.domain.project(names),
        values=release.noisy.transpose(axes),
        possible=release.domain.possible().transpose(axes),
        residuals=None if residuals is None else residuals.transpose(axes),
        positions=np.arange(release.domain.size).reshape(release.domain.shape).transpose(axes),
    )
    shown.draw(ax)
    return ax


def power_curve(frame: pd.DataFrame, ax: Axes | None = None, *, wanted: float = 0.8) -> Axes:
    """The power of a test against the loss mu, a line for each number of records.

    Parameters
    ----------
    frame : DataFrame
        Made by `dpcontingency.power_curve`. Losses of infinity, no noise, are horizontal lines:
        the most that any loss buys.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the axes of a new figure.
    wanted : float
        The power to mark.

    Returns
    -------
    matplotlib.axes.Axes
        With a legend of the numbers of records, and mu on a logarithmic axis.

    Raises
    ------
    ModelError
        If the frame has not the columns of a power curve, or no finite loss.

    Examples
    --------
    >>> from dpcontingency.inference.planning import power_curve as power_curve_of, two_by_two
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> frame = power_curve_of(domain, two_by_two(1.5), [500, 2000], [0.05, 0.1, 0.2, 0.5])
    >>> ax = power_curve(frame, ax=Figure().add_subplot())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['500', '2,000']
    """
    missing = [name for name in ("n", "mu", "power") if name not in frame]
    if missing or not np.isfinite(frame["mu"]).any():
        raise ModelError(
            "A power curve is drawn from the frame that dpcontingency.power_curve makes, with "
            f"some finite loss in it; missing: {', '.join(missing) or 'a finite mu'}."
        )
    if ax is None:
        ax = plt.figure(figsize=CURVE_SIZE, layout="constrained").add_subplot()
    for k, (n, rows) in enumerate(frame.groupby("n", sort=True)):
        colour, dash = CURVE_COLOURS[k % len(CURVE_COLOURS)], DASHES[k % len(DASHES)]
        finite = rows[np.isfinite(rows["mu"])].sort_values("mu")
        ax.plot(finite["mu"], finite["power"], color=colour, linestyle=dash, label=f"{n:,.10g}")
        for most in rows["power"][np.isinf(rows["mu"])]:
            ax.axhline(float(most), color=colour, linewidth=0.6)
    ax.axhline(wanted, color=INK, linewidth=0.8, linestyle=":")
    ax.set_xscale("log")
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("privacy loss mu")
    ax.set_ylabel("power")
    ax.legend(title="records", frameon=False)
    return ax


def shading(source: Release | LogLinearResults) -> tuple[Release, Array | None]:
    """The release that a mosaic draws and the residuals that shade it, None where there are none.

    See `mosaic`; raises as it does.
    """
    results: LogLinearResults | None = None
    if isinstance(source, LogLinearResults):
        results, release = source, source.model.release
    elif isinstance(source, Release):
        release = source
    else:
        raise ModelError(
            f"A mosaic plot takes a Release or the results of a fit; got {type(source).__name__}."
        )
    names = release.domain.names
    if len(names) > MAX_FACTORS:
        raise ModelError(
            f"A mosaic plot shows up to {MAX_FACTORS} factors and this table has {len(names)}: "
            f"take a margin, such as release.margin({', '.join(map(repr, names[:3]))})."
        )
    if results is None:
        if not (release.noisy > 0).any():
            return release, None
        try:
            model = LogLinearModel(release, [(name,) for name in names])
        except (ModelError, ReleaseError):  # a law of noise that no model here knows
            return release, None
        results = model.fit(warn_convergence=False)
    return release, results.resid_pearson.to_numpy().reshape(release.domain.shape)


def figure_size(domain: Domain) -> tuple[float, float]:
    """Inches that leave room for the labels of a mosaic of this domain, its legend beside it."""
    split = sorted(domain.shape, reverse=True)
    across = split[0] * (split[2] if len(split) > 2 else 1)
    down = (split[1] if len(split) > 1 else 1) * (split[3] if len(split) > 3 else 1)
    return 7.5 + min(0.25 * max(across - 8, 0), 4.0), 4.2 + min(0.25 * max(down - 6, 0), 4.0)


def blank(figure: Figure) -> Axes:
    """Axes that leave room for the labels of a mosaic, and for its legend on the right."""
    return figure.add_axes((0.17, 0.15, 0.53, 0.68))


def svg(figure: Figure, description: str, prefix: str) -> str:
    """A figure as an ``<svg>`` element to stand in an HTML document; same figure, same bytes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    description : str
        What it shows, for readers who do not see it.
    prefix : str
        What the ids in it begin with, so that several fit in one document.

    Notes
    -----
    Text stays text and takes its colour from the document, so that it follows dark mode.
    """
    settings: Any = {"svg.hashsalt": "dpcontingency", "svg.fonttype": "none"}
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    buffer = io.StringIO()
    with mpl.rc_context(settings), warnings.catch_warnings():
        # The reader's browser draws the text, in whatever script, and not matplotlib's font.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        figure.savefig(
            buffer, format="svg", transparent=True, bbox_inches="tight", metadata=nothing
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", text)
    text = text.replace(INK, "currentColor")
    label = html.escape(" ".join(description.split()))
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


# ------------------------------------------------------------------ what is drawn


def _split_order(domain: Domain, order: Sequence[str] | None) -> tuple[str, ...]:
    if order is None:
        return tuple(sorted(domain.names, key=lambda name: -len(domain.levels[name])))
    if isinstance(order, str) or sorted(order) != sorted(domain.names):
        raise ModelError(
            f"`order` names each factor of the table once: {', '.join(map(repr, domain.names))}."
        )
    return tuple(order)


@dataclass(frozen=True)
class _Box:
    """Part of the unit square."""

    x: float
    y: float
    width: float
    height: float

    def split(self, weights: Array, depth: int) -> list[_Box]:
        """Parts in proportion to the weights, with gaps: side by side at even depths.

        The parts of a box whose weights are all 0 have equal size.
        """
        n = len(weights)
        across = depth % 2 == 0
        length = self.width if across else self.height
        gap = min(GAPS[depth] * length, 0.3 * length / n)
        shares = weights / weights.sum() if weights.sum() > 0 else np.full(n, 1 / n)
        parts = shares * (length - gap * (n - 1))
        starts = np.concatenate([[0.0], np.cumsum(parts + gap)[:-1]])
        if across:
            return [
                _Box(self.x + s, self.y, p, self.height) for s, p in zip(starts, parts, strict=True)
            ]
        top = self.y + self.height  # the first level stands on top, as in a printed table
        return [
            _Box(self.x, top - s - p, self.width, p) for s, p in zip(starts, parts, strict=True)
        ]


@dataclass(frozen=True)
class _Label:
    """The name of a level, at a place along an edge of the plot."""

    text: str
    at: float


@dataclass(frozen=True, eq=False)
class _Mosaic:
    """A table with its axes in the order of splitting."""

    domain: Domain
    values: Array
    possible: npt.NDArray[np.bool_]
    residuals: Array | None
    positions: npt.NDArray[np.intp]

    def draw(self, ax: Axes) -> None:
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.set_axis_off()
        marks: dict[Mark, None] = {}
        for cell, box in self._boxes((), _Box(0.0, 0.0, 1.0, 1.0)):
            mark = self._mark(cell)
            if mark is None:
                ax.add_patch(self._tile(cell, box))
                continue
            marks[mark] = None
            ax.plot(
                box.x + box.width / 2,
                box.y + box.height / 2,
                mark.marker,
                color=INK,
                markerfacecolor="none",
                markersize=5,
                clip_on=False,
                gid=f"cell-{self.positions[cell]}",
            )
        for depth, name in enumerate(self.domain.names):
            _write_labels(ax, depth, name, self._labels(depth))
        self._legend(ax, list(marks))

    def _weights(self, prefix: tuple[int, ...]) -> Array:
        """What each part of the next split weighs: the sum of its positive cells."""
        positive = np.maximum(self.values, 0)[prefix]
        return np.asarray(positive.sum(axis=tuple(range(1, positive.ndim))))

    def _boxes(self, prefix: tuple[int, ...], box: _Box) -> Iterator[tuple[tuple[int, ...], _Box]]:
        """Each cell and its place."""
        if len(prefix) == self.values.ndim:
            yield prefix, box
            return
        for level, part in enumerate(box.split(self._weights(prefix), len(prefix))):
            yield from self._boxes((*prefix, level), part)

    def _mark(self, cell: tuple[int, ...]) -> Mark | None:
        if not self.possible[cell]:
            return IMPOSSIBLE
        if self.values[cell] > 0:
            return None
        return NEGATIVE if self.values[cell] < 0 else ZERO

    def _tile(self, cell: tuple[int, ...], box: _Box) -> Rectangle:
        shade = None if self.residuals is None else _shade(self.residuals[cell])
        return Rectangle(
            (box.x, box.y),
            box.width,
            box.height,
            clip_on=False,
            gid=f"cell-{self.positions[cell]}",
            **_look(shade),
        )

    def _labels(self, depth: int) -> list[_Label]:
        """The levels of a factor along its edge: bottom, left, top, right."""
        levels = [label_text(level) for level in self.domain.levels[self.domain.names[depth]]]
        out = []
        for prefix, box in self._edge(depth, (), _Box(0.0, 0.0, 1.0, 1.0)):
            for text, part in zip(levels, box.split(self._weights(prefix), depth), strict=True):
                middle = part.x + part.width / 2 if depth % 2 == 0 else part.y + part.height / 2
                out.append(_Label(text, middle))
        return out

    def _edge(
        self, depth: int, prefix: tuple[int, ...], box: _Box
    ) -> Iterator[tuple[tuple[int, ...], _Box]]:
        """The parts along the edge of the plot where the labels of this depth stand.

        At even depths every part in the row at the top (or bottom); at odd ones in the first
        column for the second factor and the last column for the fourth.
        """
        if len(prefix) == depth:
            yield prefix, box
            return
        parts = box.split(self._weights(prefix), len(prefix))
        along = len(prefix) % 2 == depth % 2
        chosen = range(len(parts)) if along else [len(parts) - 1 if depth == 3 else 0]
        for level in chosen:
            yield from self._edge(depth, (*prefix, level), parts[level])

    def _legend(self, ax: Axes, marks: Sequence[Mark]) -> None:
        handles: list[Patch | Line2D] = []
        if self.residuals is not None:
            handles += [Patch(label=shade.label, **_look(shade)) for shade in reversed(SHADES)]
        handles += [
            Line2D(
                [],
                [],
                color=INK,
                linestyle="",
                marker=mark.marker,
                markerfacecolor="none",
                markersize=5,
                label=mark.label,
            )
            for mark in marks
        ]
        if handles:
            ax.legend(
                handles=handles,
                title="Pearson residual" if self.residuals is not None else None,
                loc="center left",
                bbox_to_anchor=(1.0 + (0.16 if self.values.ndim > 3 else 0.03), 0.5),
                frameon=False,
                labelcolor=INK,
                fontsize=FONT,
                title_fontproperties={"size": FONT},
                handleheight=1.2,
            ).get_title().set_color(INK)


def _shade(residual: float) -> Shade:
    return SHADES[int(np.searchsorted(STEPS, residual))]


def _look(shade: Shade | None) -> dict[str, Any]:
    """Properties of a tile."""
    plain = SHADES[len(SHADES) // 2]
    return {
        "facecolor": (shade or plain).colour,
        "edgecolor": INK,
        "linewidth": 0.8,
        "linestyle": (0, (4, 2)) if shade is not None and shade.dashed else "solid",
    }


def _write_labels(ax: Axes, depth: int, name: str, labels: Sequence[_Label]) -> None:
    """Levels along an edge and the name of the factor beyond them; text is never read as TeX."""
    across = depth % 2 == 0
    far = depth > 1  # the third factor stands on top, the fourth on the right
    sign = 1 if far else -1
    inches = ax.bbox.transformed(ax.figure.dpi_scale_trans.inverted())
    length = (inches.width if across else inches.height) * 72 / FONT  # in ems
    turned = across and _overlap(labels, length)
    edge = 1.0 if far else 0.0

    def write(text: str, at: float, distance: float, **look: Any) -> None:
        ax.annotate(
            text,
            (at, edge) if across else (edge, at),
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
        write(_short(label.text), label.at, 7, rotation=90 if turned else 0)
    lines = max((_ems(_short(label.text)) for label in shown), default=1.0)
    room = FONT * (lines if turned or not across else 1.0)
    write(_short(name), 0.5, room + 12, rotation=0 if across else 90, fontweight="bold")


def _short(text: str) -> str:
    """A name that leaves room for the plot; the table beside it has the whole of it."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _ems(text: str) -> float:
    """About how wide a text is, in units of its font size."""
    return sum(1.0 if east_asian_width(c) in "WF" else 0.58 for c in text)


def _overlap(labels: Sequence[_Label], length: float) -> bool:
    """Whether labels side by side on an edge so many ems long would touch."""
    return any(
        (_ems(_short(one.text)) + _ems(_short(other.text))) / 2 + 0.6 > (other.at - one.at) * length
        for one, other in pairwise(labels)
    )


def _legible(labels: Sequence[_Label], length: float) -> list[_Label]:
    """The labels that have room for a line of text each, the first of a crowd."""
    shown: list[_Label] = []
    for label in labels:
        if not shown or abs(label.at - shown[-1].at) * length >= 1.1:
            shown.append(label)
    return shown
