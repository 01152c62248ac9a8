"""Fourfold displays: two-by-two tables drawn so that the odds ratio alone shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle, Wedge

from dpcontingency.domain import label_text
from dpcontingency.errors import ModelError, check_alpha
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release
from dpcontingency.report.drawing import (
    FAINT,
    FONT,
    INK,
    PLAIN,
    SHADES,
    Shade,
    describe,
    distinct,
    legend,
    look,
    new_axes,
    short,
    short_inside,
    with_room,
    write,
)
from dpcontingency.report.numbers import ratio
from dpcontingency.report.residuals import source_of

Array = npt.NDArray[np.float64]

MAX_PANELS = 24
ACROSS = 4  # panels side by side
STEP = (2.5, 3.1)  # from one panel to the next, in units of the largest radius
INCHES = 0.85  # a unit

# The quadrants of the cells (0, 0), (0, 1), (1, 0), (1, 1): where their quarter circles begin.
ANGLES = np.array([[90.0, 0.0], [180.0, 270.0]])
SIDES = ((-1, 1), (1, 1)), ((-1, -1), (1, -1))

LOWER, LOW, _, HIGH, HIGHER = SHADES
CLASSES = (
    Shade("more than if independent", HIGHER.colour),
    Shade("less than if independent", LOWER.colour, dashed=True),
    Shade("more, interval holds 1", HIGH.colour),
    Shade("less, interval holds 1", LOW.colour, dashed=True),
    Shade("odds ratio of 1", PLAIN.colour),
)


@dataclass(frozen=True, eq=False)
class Panel:
    """One two-by-two table.

    Attributes
    ----------
    title : str
        The levels of the given factors.
    cells : ndarray, shape (2, 2)
        The released cells.
    log_or, lower, upper : float
        The log odds ratio and its interval.
    text : str
        The odds ratio with its interval, or why there is none.
    """

    title: str
    cells: Array
    log_or: float
    lower: float
    upper: float
    text: str


def fourfold(
    release: Release | MarginRelease,
    row: str,
    column: str,
    given: Sequence[str] = (),
    ax: Axes | None = None,
    *,
    alpha: float = 0.05,
) -> Axes:
    """Fourfold display of two factors of two levels, one for each combination of given levels.

    Parameters
    ----------
    release : Release or MarginRelease
        The release; its margin over the factors named is drawn.
    row, column : str
        Two factors of two levels.
    given : sequence of str
        Factors whose combinations of levels get a panel each, up to 24.
    ax : matplotlib.axes.Axes, optional
        Where to draw all panels; by default the axes of a new figure.
    alpha : float
        1 - the level of the rings.

    Returns
    -------
    matplotlib.axes.Axes
        The quarter of cell (i, j) of panel k has the gid ``quarter-k-i-j`` and its ring
        ``ring-k-i-j``.

    Raises
    ------
    ModelError
        If a factor has not two levels, there are too many panels, or the release can be fitted by
        no model (Laplace noise).
    DomainError
        If a factor is unknown or named twice.

    Notes
    -----
    The table is standardised to equal margins, which keeps its odds ratio w: the cells become
    p = sqrt(w) / (2 (1 + sqrt(w))) on the main diagonal and 1/2 - p off it. Each is a quarter
    circle of radius sqrt(2 p), so the areas a of the quarters have a00 a11 / (a01 a10) = w, and
    all are equal if w = 1. A ring covers the radii at the ends of the interval of w, which allows
    for sampling and noise: rings of neighbouring quarters share a radius exactly if the interval
    holds 1. The odds ratios are those of the saturated model by noise-aware maximum likelihood,
    stratum by stratum; numbers in the corners are the released cells.

    References
    ----------
    Fienberg, "Graphical methods in categorical data analysis", JASA 70, 1975; Friendly, "A
    fourfold display for 2 by 2 by k tables", York University Report 217, 1994.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.from_noisy_table([[31.5, 11.2], [17.7, 25.2]], domain, sigma=2.0)
    >>> ax = fourfold(release, "A", "B", ax=Figure().add_subplot())
    >>> radius = {patch.get_gid(): getattr(patch, "r", None) for patch in ax.patches}
    >>> round((radius["quarter-0-0-0"] / radius["quarter-0-0-1"]) ** 4, 2)
    4.06
    """
    check_alpha(alpha)
    given = (given,) if isinstance(given, str) else tuple(given)
    panels, levels = panels_of(release, row, column, given, alpha)
    columns = min(ACROSS, len(panels)) if len(panels) != 4 else 2
    rows = -(-len(panels) // columns)
    left, right = -1.7, STEP[0] * (columns - 1) + 1.1
    top, bottom = 1.36, -STEP[1] * (rows - 1) - 1.4
    above = top + (0.9 if given else 0.4)
    own = ax is None
    if ax is None:
        ax = new_axes((right - left) * INCHES, (above - bottom) * INCHES)
    for k, panel in enumerate(panels):
        centre = (STEP[0] * (k % columns), -STEP[1] * (k // columns))
        _draw(ax, k, panel, centre, levels, beside=k % columns == 0)
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, above)
    ax.set_aspect("equal")
    ax.set_axis_off()
    middle = STEP[0] * (columns - 1) / 2, -STEP[1] * (rows - 1) / 2
    write(ax, middle[0], top + (0.4 if given else 0.0), short(column), ha="center", va="bottom",
          fontweight="bold")  # fmt: skip
    write(ax, -1.35, middle[1], short(row), ha="right", va="center", fontweight="bold",
          rotation=90)  # fmt: skip
    known = [panel for panel in panels if not math.isnan(panel.log_or)]
    used = {_shade(panel, i, 0) for panel in known for i in range(2)}
    legend(
        ax, [Patch(label=shade.label, **look(shade)) for shade in CLASSES if shade in used],
        "Cell", loc="center left", bbox_to_anchor=(1.0, 0.5), handleheight=1.2,
    )  # fmt: skip
    describe(ax, f"Fourfold display of {row} and {column}.", *map(_in_words, panels))
    return with_room(ax) if own else ax


def panels_of(
    release: Release | MarginRelease, row: str, column: str, given: tuple[str, ...], alpha: float
) -> tuple[list[Panel], tuple[tuple[str, ...], tuple[str, ...]]]:
    """The panels, and the levels of the two factors; raises as `fourfold` does."""
    release, results = source_of(release, "A fourfold display")
    if results is not None:
        raise ModelError(
            "A fourfold display is of a release, whose odds ratios it estimates; pass "
            "results.model.release, or draw the fit by plots.odds_ratios."
        )
    margin = release.margin(*given, row, column)
    domain = margin.domain
    for name in (row, column):
        if len(domain.levels[name]) != 2:
            raise ModelError(
                f"A fourfold display is for factors of two levels, and {name!r} has "
                f"{len(domain.levels[name])}: draw plots.association, or the odds ratios of a fit."
            )
    count = math.prod(domain.shape[:-2])
    if count > MAX_PANELS:
        raise ModelError(
            f"A fourfold display has up to {MAX_PANELS} panels and {', '.join(given)} would make "
            f"{count:,}: name fewer factors in `given`."
        )
    model = LogLinearModel(margin, [domain.names])
    ratios = model.fit(warn_convergence=False).odds_ratios(row, column, alpha=alpha)
    with np.errstate(divide="ignore"):
        logs = np.log(ratios[["lower", "upper"]].to_numpy(dtype=np.float64))
    texts = [
        line["reason"] if math.isnan(line["log_or"]) else
        f"odds ratio {ratio(line['odds_ratio'])} ({ratio(line['lower'])} to {ratio(line['upper'])})"
        for line in ratios.to_dict("records")
    ]  # fmt: skip
    panels = [
        Panel(at, cells, log_or, lower, upper, text)
        for at, cells, log_or, (lower, upper), text in zip(
            ratios.index.get_level_values("at"),
            margin.noisy.reshape(count, 2, 2),
            ratios["log_or"],
            logs,
            texts,
            strict=True,
        )
    ]
    rows, columns = (tuple(map(label_text, domain.levels[name])) for name in (row, column))
    return panels, (rows, columns)


def radii(log_or: float) -> Array:
    """The radii of the quarters, shape (2, 2), by the log odds ratio; the largest is below 1.

    Examples
    --------
    >>> radii(0.0) ** 2, radii(np.inf)
    (array([[0.5, 0.5],
           [0.5, 0.5]]), array([[1., 0.],
           [0., 1.]]))
    """
    on = 0.5 * (1 + math.tanh(log_or / 4))  # 2 p
    off = 0.5 * (1 - math.tanh(log_or / 4))
    return np.asarray(np.sqrt(np.array([[on, off], [off, on]])))


def _shade(panel: Panel, i: int, j: int) -> Shade:
    """How a quarter looks: more or less than under independence, and whether that is clear."""
    if math.isnan(panel.log_or) or panel.log_or == 0:
        return CLASSES[-1]
    more = (panel.log_or > 0) == (i == j)
    held = not (panel.lower > 0 or panel.upper < 0)
    return CLASSES[2 * held + (not more)]


def _draw(
    ax: Axes,
    k: int,
    panel: Panel,
    centre: tuple[float, float],
    levels: tuple[tuple[str, ...], tuple[str, ...]],
    *,
    beside: bool,
) -> None:
    """One panel around its centre."""
    x, y = centre
    ax.add_patch(Rectangle((x - 1, y - 1), 2, 2, fill=False, edgecolor=FAINT, linewidth=0.8,
                           gid=f"frame-{k}"))  # fmt: skip
    known = not math.isnan(panel.log_or)
    for i, j in product(range(2), range(2)):
        start = float(ANGLES[i, j])
        if known:
            radius, shade = float(radii(panel.log_or)[i, j]), look(_shade(panel, i, j))
            gid = f"quarter-{k}-{i}-{j}"
            ax.add_patch(Wedge(centre, radius, start, start + 90, gid=gid, **shade))
            _ring(ax, panel, centre, (k, i, j))
        across, up = SIDES[i][j]
        cell = _number(float(panel.cells[i, j]))
        write(ax, x + 0.96 * across, y + 0.96 * up, cell, fontsize=FONT - 1,
              ha="left" if across < 0 else "right", va="top" if up > 0 else "bottom")  # fmt: skip
    if panel.title:
        write(ax, x, y + 1.36, short_inside(panel.title, 28), ha="center", va="bottom")
    for j, text in enumerate(distinct(levels[1], 12)):
        write(ax, x + j - 0.5, y + 1.06, text, ha="center", va="bottom", fontsize=FONT - 1,
              label="" if text == levels[1][j] else levels[1][j])  # fmt: skip
    for i, text in enumerate(distinct(levels[0], 12)) if beside else ():
        write(ax, x - 1.08, y + 0.5 - i, text, ha="right", va="center", rotation=90,
              fontsize=FONT - 1, label="" if text == levels[0][i] else levels[0][i])  # fmt: skip
    said = panel.text if known else "no odds ratio"
    write(ax, x, y - 1.08, said, ha="center", va="top", fontsize=FONT - 1)


def _ring(ax: Axes, panel: Panel, centre: tuple[float, float], at: tuple[int, int, int]) -> None:
    """The band of radii that the interval allows a quarter."""
    k, i, j = at
    if math.isnan(panel.lower) or math.isnan(panel.upper):
        return
    ends = sorted(float(radii(end)[i, j]) for end in (panel.lower, panel.upper))
    start = float(ANGLES[i, j])
    ax.add_patch(Wedge(centre, ends[1], start, start + 90, width=ends[1] - ends[0], fill=False,
                       edgecolor=INK, linewidth=0.8, gid=f"ring-{k}-{i}-{j}"))  # fmt: skip


def _number(value: float) -> str:
    """A released cell."""
    return f"{value:z,.0f}" if float(value).is_integer() or abs(value) >= 1e5 else f"{value:z,.1f}"


def _in_words(panel: Panel) -> str:
    """A panel in words."""
    said = panel.text
    return f"{panel.title}: {said}." if panel.title else f"{said[:1].upper()}{said[1:]}."
