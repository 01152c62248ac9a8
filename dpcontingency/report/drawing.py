"""What all plots share: colours and marks, text that is never read as TeX, the way into a page."""

from __future__ import annotations

import html
import io
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from matplotlib.transforms import Bbox

from dpcontingency._labels import CONTROLS

FONT = 9.0
ROOM = 0.05  # inches at the edges of a figure
LONGEST = 28  # Latin letters of a name
LARGEST_LOG = 300.0  # of a ratio that is drawn
INK = "#1c1d1e"  # `svg` turns it into the colour of the text around the plot
FAINT = "#808080"  # can be seen on white and on black
DARK_TEXT, LIGHT_TEXT = "#111111", "#ffffff"  # on filled areas, which stay as they are

# Okabe and Ito's colours, which colour-blind readers can tell apart.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
)  # fmt: skip

# About how wide letters are, in units of the font size: an average one, and the others.
LETTER, WIDE, NARROW, BROAD, CAPITAL, SMALL = 0.58, 1.0, 0.37, 0.95, 0.68, 0.61


@dataclass(frozen=True)
class Shade:
    """How areas of one class look."""

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
PLAIN = SHADES[len(SHADES) // 2]


@dataclass(frozen=True)
class Mark:
    """How a cell without area is drawn."""

    label: str
    marker: str


NEGATIVE = Mark("negative cell (noise), no area", "x")
ZERO = Mark("cell of 0, no area", "o")
IMPOSSIBLE = Mark("impossible cell", "|")


# ------------------------------------------------------------------ areas and marks


def shade_of(residual: float) -> Shade:
    """The class of a residual."""
    return SHADES[int(np.searchsorted(STEPS, residual))]


def look(shade: Shade | None) -> dict[str, Any]:
    """Properties of a patch; of one without a residual where there is no shade."""
    return {
        "facecolor": (shade or PLAIN).colour,
        "edgecolor": INK,
        "linewidth": 0.8,
        "linestyle": (0, (4, 2)) if shade is not None and shade.dashed else "solid",
    }


def mark_handle(mark: Mark) -> Artist:
    """A mark for a legend."""
    return Line2D([], [], linestyle="", label=mark.label, **mark_look(mark))


def mark_look(mark: Mark) -> dict[str, Any]:
    """Properties of a mark."""
    return {"color": INK, "marker": mark.marker, "markerfacecolor": "none", "markersize": 5}


def residual_handles() -> list[Artist]:
    """The classes of residuals for a legend, the largest on top."""
    return [Patch(label=shade.label, **look(shade)) for shade in reversed(SHADES)]


def luminance(colour: str) -> float:
    """About how light a colour is, from 0 to 1."""
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


def text_on(colour: str) -> str:
    """The colour of a text on a filled area, dark or light, that can be read."""
    return DARK_TEXT if luminance(colour) > 0.5 else LIGHT_TEXT


# ------------------------------------------------------------------ axes


def new_axes(width: float, height: float) -> Axes:
    """Axes of this size in inches that fill a new figure, until `with_room` makes it larger."""
    figure = plt.figure(figsize=(width, height))
    figure.subplots_adjust(0, 0, 1, 1)
    return figure.add_subplot()


def with_room(ax: Axes) -> Axes:
    """New axes, once all is drawn, in a figure that has room for what stands around them.

    The axes keep their size. What is added later, such as a title, takes its room from them.
    """
    figure = ax.get_figure(root=True)
    assert figure is not None
    with _any_script():
        figure.draw_without_rendering()
        around = ax.get_tightbbox()
    inches = figure.dpi_scale_trans.inverted()
    inner = ax.bbox.transformed(inches)
    outer = Bbox.union([inner, *([around.transformed(inches)] if around else [])]).padded(ROOM)
    figure.set_size_inches(outer.width, outer.height)
    figure.subplots_adjust(
        (inner.x0 - outer.x0) / outer.width,
        (inner.y0 - outer.y0) / outer.height,
        (inner.x1 - outer.x0) / outer.width,
        (inner.y1 - outer.y0) / outer.height,
    )
    figure.set_layout_engine("constrained", w_pad=ROOM, h_pad=ROOM)
    return ax


@contextmanager
def _any_script() -> Iterator[None]:
    """No warning of letters that matplotlib's font lacks, where it is not what draws them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        yield


def dress(ax: Axes, *, x: str = "", y: str = "", sides: Sequence[str] = ("left", "bottom")) -> None:
    """Axes in the colour of the text, with lines on these sides and these names."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in sides)
        spine.set_color(INK)
        spine.set_linewidth(0.8)
    ax.tick_params(which="both", color=INK, labelcolor=INK, labelsize=FONT)
    ax.set_xlabel(clean(x), color=INK, fontsize=FONT, parse_math=False)
    ax.set_ylabel(clean(y), color=INK, fontsize=FONT, parse_math=False)


def plain_log_ticks(ax: Axes) -> None:
    """Plain numbers on the logarithmic x axis, once its limits are set."""
    low, high = ax.get_xlim()
    span = high / low
    subs = (1.0, 2.0, 5.0) if span < 200 else (1.0, 3.0) if span < 5000 else (1.0,)
    ax.xaxis.set_major_locator(LogLocator(subs=subs, numticks=7))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _decimal(value)))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _decimal(value: float) -> str:
    """A number on a logarithmic axis; far ones by their exponents.

    Examples
    --------
    >>> [_decimal(value) for value in (0.002, 1e4, 1e5, 2e6, 1e-12)]
    ['0.002', '10,000', '10⁵', '2×10⁶', '10⁻¹²']
    """
    if 1e-3 <= value < 1e5:
        return f"{value:,.10g}"
    lead, _, exponent = f"{value:.0e}".partition("e")
    digits = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{'' if lead == '1' else f'{lead}×'}10{digits}"


def write(ax: Axes, x: float, y: float, text: str, **properties: Any) -> Text:
    """Write a text that is not read as TeX, in the colour of the text around the plot."""
    settings = {"color": INK, "fontsize": FONT, "parse_math": False, "clip_on": False}
    return ax.text(x, y, clean(text), **{**settings, **properties})


def legend(ax: Axes, handles: Sequence[Any], title: str | None = None, **properties: Any) -> Legend:
    """A legend without a frame, in the colour of the text around the plot."""
    made = ax.legend(
        handles=list(handles),
        title=title,
        frameon=False,
        labelcolor=INK,
        fontsize=FONT,
        title_fontproperties={"size": FONT},
        **properties,
    )
    made.get_title().set_color(INK)
    for text in (made.get_title(), *made.get_texts()):
        text.set_parse_math(False)
    return made


def pitch(labels: Sequence[str]) -> float:
    """Inches from one row of a plot to the next, by the lines of their labels."""
    return 0.4 if any("\n" in label for label in labels) else 0.26


def above(ax: Axes, marks: Mapping[str, tuple[str, dict[str, Any]]]) -> Legend:
    """A legend above the axes, where it covers nothing, of the marks that were drawn.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Whose lines have gids such as ``noise-3``.
    marks : mapping of str to (str, dict)
        What a mark means and how it looks, by the first part of its gid.
    """
    drawn = {str(line.get_gid()).rpartition("-")[0] for line in ax.lines}
    handles = [
        Line2D([], [], label=label, **look) for key, (label, look) in marks.items() if key in drawn
    ]
    return legend(
        ax, handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, borderaxespad=0.2,
        columnspacing=1.5,
    )  # fmt: skip


def describe(ax: Axes, *sentences: str) -> None:
    """Keep with the axes what they show, in words: `svg` says it to who does not see.

    Names that were cut bear the whole one as their label, and are told in full.
    """
    cut = {text.get_text(): str(text.get_label()) for text in ax.texts if text.get_label()}
    whole = "; ".join(f"{short} is {name}" for short, name in cut.items())
    told = [*sentences, f"In full: {whole}." if whole else ""]
    ax.set_label(" ".join(clean(sentence) for sentence in told if sentence))


# ------------------------------------------------------------------ names


def clean(text: str) -> str:
    """A text on one line, without characters that neither a font nor XML has, or that turn text."""
    return "".join(_plain(c) for c in text)


def _plain(character: str) -> str:
    if character.isspace():
        return " "
    return "\ufffd" if CONTROLS.match(character) else character


def ems(text: str) -> float:
    """About how wide a text is, in units of its font size."""
    return sum(map(_width, text))


def _width(character: str) -> float:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return WIDE
    if character in " !'(),-./:;I[]fijlrt{|}":
        return NARROW
    if character in "%@MWmw…—":
        return BROAD
    return CAPITAL if character.isupper() or character.isdigit() else SMALL


def short(text: str, longest: float = LONGEST) -> str:
    """A name that leaves room for the plot: as wide as so many Latin letters, the rest cut."""
    text = clean(text)
    room = longest * LETTER + 1e-9
    if ems(text) <= room:
        return text
    kept = 0
    room -= _width("…")
    while (room := room - _width(text[kept])) >= 0:
        kept += 1
    return text[:kept].rstrip() + "…"


def distinct(texts: Sequence[str], longest: float = LONGEST) -> list[str]:
    """Names cut by `short` that stay different where they were.

    Those that a cut at the end makes alike are cut in their middle, or numbered where that does not
    tell them apart either.

    Examples
    --------
    >>> distinct(["the same long beginning, then one", "the same long beginning, then two"], 12)
    ['the…one', 'the…two']
    """
    made = {text: short(text, longest) for text in texts}

    def alike() -> list[str]:
        times = Counter(made.values())
        return [text for text, cut in made.items() if times[cut] > 1]

    made |= {text: short_inside(text, longest) for text in alike()}
    made |= {text: f"{short(text, longest - 4)} {k}" for k, text in enumerate(alike(), 1)}
    return [made[text] for text in texts]


def short_inside(text: str, longest: float) -> str:
    """A name cut in its middle, for names that differ at their ends."""
    text = clean(text)
    if ems(text) <= longest * LETTER:
        return text
    head = short(text, (longest + 1) // 2).removesuffix("…")
    tail = short(text[::-1], longest // 2).removesuffix("…")[::-1]
    return f"{head.rstrip()}…{tail.lstrip()}"


def in_lines(parts: Iterable[str], longest: float) -> str:
    """Parts of a label put on two lines as they fit; what is too long is cut in its middle."""
    out = [""]
    for part in map(clean, parts):
        if out[-1] and ems(out[-1] + part) > longest * LETTER and len(out) < 2:
            out.append("")
        out[-1] += part
    return "\n".join(short_inside(line.strip(), longest) for line in out)


# ------------------------------------------------------------------ into a page


def svg(figure: Figure, description: str | None = None, prefix: str = "plot") -> str:
    """A figure as an ``<svg>`` element to stand in an HTML document; same figure, same bytes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    description : str, optional
        What it shows, for readers who do not see it; by default what the plots in it say of
        themselves.
    prefix : str
        What the ids in it begin with, so that several fit in one document.

    Notes
    -----
    Text stays text and takes its colour from the document, so that it follows dark mode.

    Examples
    --------
    >>> from dpcontingency.privacy.gdp import GDP
    >>> from dpcontingency.report.curves import trade_off
    >>> text = svg(trade_off(GDP(1), ax=Figure().add_subplot()).figure)
    >>> text.startswith('<svg role="img" aria-label="Trade-off curve at mu = 1.')
    True
    """
    if description is None:
        description = " ".join(str(ax.get_label()) for ax in figure.axes)
    settings: Any = {"svg.hashsalt": "dpcontingency", "svg.fonttype": "none"}
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    buffer = io.StringIO()
    # The reader's browser draws the text, in whatever script.
    with mpl.rc_context(settings), _any_script():
        figure.savefig(
            buffer, format="svg", transparent=True, bbox_inches="tight", metadata=nothing
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # In tags only: the text between them is of names, which stay as they are.
    text = re.sub(r"<[^>]*>", lambda tag: _in_page(tag[0], prefix), text)
    label = html.escape(clean(" ".join(description.split())))
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _in_page(tag: str, prefix: str) -> str:
    """A tag of matplotlib's as it stands in an HTML document."""
    tag = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", tag).replace("xlink:href", "href")
    tag = re.sub(r'\bid="', f'id="{prefix}-', tag)
    tag = re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", tag)
    return tag.replace(INK, "currentColor")
