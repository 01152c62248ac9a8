"""Cohen-Friendly association plots: where a table departs from independence, and which way."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from dpcontingency.domain import label_text
from dpcontingency.errors import ModelError
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release
from dpcontingency.report.drawing import (
    FAINT,
    IMPOSSIBLE,
    describe,
    legend,
    look,
    mark_handle,
    mark_look,
    new_axes,
    residual_handles,
    shade_of,
    with_room,
)
from dpcontingency.report.edges import Label, write_edge
from dpcontingency.report.residuals import (
    fitted_means,
    independence,
    noise_variances,
    pearson,
    source_of,
)

Array = npt.NDArray[np.float64]

GAP = 0.12  # between strips and between columns, of the largest strip and column
MAX_CELLS = 900
LEAST = 1.0  # standard deviations: the height of a strip without residuals


@dataclass(frozen=True, eq=False)
class Departure:
    """A two-way margin beside what a model says of it.

    Attributes
    ----------
    rows, columns : tuple of str
        The levels.
    residuals, sd : ndarray, shape (r, c), or None
        Pearson residuals and the standard deviations they are in; None where nothing is fitted.
    possible : ndarray of bool, shape (r, c)
        Cells that can hold records.
    model : str
        What the residuals are from.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    residuals: Array | None
    sd: Array | None
    possible: npt.NDArray[np.bool_]
    model: str


def association(
    release_or_results: Release | MarginRelease | LogLinearResults,
    row: str,
    column: str,
    ax: Axes | None = None,
) -> Axes:
    """Association plot of two factors: signed residuals as heights, a strip for each row.

    Parameters
    ----------
    release_or_results : Release, MarginRelease or LogLinearResults
        A release, whose margin over the two factors is compared with their independence; or a
        fitted model, whose fitted margin is compared with the released one, whatever other
        factors it has.
    row, column : str
        The two factors: a strip for each level of the first, in it a bar for each of the second.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With a legend to the right. The bar of row i and column j has the gid ``cell-i-j``; it
        stands on the dotted line of its row where the released cell is above the fitted one and
        hangs from it where it is below.

    Raises
    ------
    ModelError
        If this is no release and no fit, or the margin has more than 900 cells.
    DomainError
        If a factor is unknown or named twice.

    Notes
    -----
    The height of a bar is the residual (noisy - fitted) / sqrt(fitted + noise variance) and its
    width that root, so that its area is the difference: the plot of Cohen and Friendly when there
    is no noise, and with noise one in which noise alone seldom makes a bar higher than 2. Shades
    are those of `mosaic`. Where no model can be fitted, because no cell is positive or the noise is
    not Gaussian, no bars are drawn and the legend says so.

    References
    ----------
    Cohen, "On the graphical display of the significant components in two-way contingency tables",
    Communications in Statistics A9, 1980; Meyer, Zeileis and Hornik, "The strucplot framework",
    J. Statistical Software 17(3), 2006.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.from_noisy_table([[31.5, -1.2], [17.7, 25.2]], domain, sigma=2.0)
    >>> ax = association(release, "A", "B", ax=Figure().add_subplot())
    >>> [round(float(bar.get_height()), 2) for bar in ax.patches]
    [1.92, -3.28, -1.74, 2.35]
    """
    departure = departure_of(release_or_results, row, column)
    own = ax is None
    if ax is None:
        n_rows, n_columns = departure.possible.shape
        ax = new_axes(
            min(3.6 + 0.35 * max(n_columns - 5, 0), 12.0),
            min(2.5 + 0.45 * max(n_rows - 3, 0), 13.0),
        )
    _draw(ax, departure, row, column)
    describe(ax, f"Association plot of {row} and {column}.", *_in_words(departure))
    return with_room(ax) if own else ax


def departure_of(
    source: Release | MarginRelease | LogLinearResults, row: str, column: str
) -> Departure:
    """What an association plot draws; see `association`."""
    release, results = source_of(source, "An association plot")
    margin = release.margin(row, column)
    domain = margin.domain
    if domain.size > MAX_CELLS:
        raise ModelError(
            f"An association plot shows up to {MAX_CELLS} cells and the margin of {row!r} and "
            f"{column!r} has {domain.size:,}: look at fewer levels."
        )
    levels = [tuple(map(label_text, domain.levels[name])) for name in (row, column)]
    if results is None:
        fit, model = independence(margin), "independence"
        fitted = None if fit is None else fitted_means(fit)
    else:
        model = results.generating_class
        fitted = results.fitted_margin(row, column).to_numpy().reshape(domain.shape)
    residuals = sd = None
    if fitted is not None:
        if isinstance(margin, Release):
            margin = margin.conditioned()
        variances = noise_variances(margin)
        sd = np.sqrt(fitted + variances)
        residuals = pearson(margin.noisy, fitted, variances)
    return Departure(levels[0], levels[1], residuals, sd, domain.possible(), model)


def _draw(ax: Axes, departure: Departure, row: str, column: str) -> None:
    """Bars row by row from the top, each on the line of its row."""
    possible, shape = departure.possible, departure.possible.shape
    residuals = np.zeros(shape) if departure.residuals is None else departure.residuals
    sd = np.ones(shape) if departure.sd is None else departure.sd
    slots = np.maximum(np.where(possible, sd, 0.0).max(axis=0), 0.05 * float(sd.max()) or 1.0)
    up, down = _reach(residuals)
    gap, aside = GAP * float((up + down).max()), GAP * float(slots.max())
    ends = np.cumsum(slots + aside)
    middles = ends - (slots + aside) / 2
    base = -np.cumsum(up + np.concatenate([[0.0], down[:-1]]) + gap)
    width, depth = float(ends[-1]), float(-base[-1] + down[-1] + gap)
    for i, at in enumerate(base):
        ax.plot([0, width], [at, at], color=FAINT, linewidth=0.8, linestyle=":", zorder=0,
                gid=f"line-{i}")  # fmt: skip
    for i, j in product(range(shape[0]), range(shape[1])):
        gid = f"cell-{i}-{j}"
        if not possible[i, j]:
            ax.plot(middles[j], base[i], linestyle="", gid=gid, **mark_look(IMPOSSIBLE))
        elif departure.residuals is not None:
            height, wide = float(residuals[i, j]), float(sd[i, j])
            corner = (float(middles[j]) - wide / 2, float(base[i]))
            ax.add_patch(Rectangle(corner, wide, height, gid=gid, **look(shade_of(height))))
    ax.set_xlim(0, width)
    ax.set_ylim(-depth, 0.0)
    ax.set_axis_off()
    across = zip(departure.columns, middles, strict=True)
    write_edge(ax, "bottom", column, [Label(text, float(x / width)) for text, x in across])
    along = zip(departure.rows, base, strict=True)
    write_edge(ax, "left", row, [Label(text, float(1 + y / depth)) for text, y in along])
    handles = [] if departure.residuals is None else residual_handles()
    handles += [] if possible.all() else [mark_handle(IMPOSSIBLE)]
    title = "Pearson residual" if departure.residuals is not None else "nothing can be fitted"
    legend(ax, handles, title, loc="center left", bbox_to_anchor=(1.02, 0.5), handleheight=1.2)


def _reach(residuals: Array) -> tuple[Array, Array]:
    """How far each row reaches above and below its line, and no row less than can be seen."""
    up = np.maximum(residuals.max(axis=1), 0.0)
    down = np.maximum(-residuals.min(axis=1), 0.0)
    lacks = np.maximum(LEAST - up - down, 0.0) / 2
    return up + lacks, down + lacks


def _in_words(departure: Departure) -> list[str]:
    """What departs most, and how much."""
    residuals = departure.residuals
    if residuals is None:
        return ["Nothing can be fitted to this table."]
    far = int((np.abs(residuals) > 2).sum())
    i, j = np.unravel_index(np.abs(residuals).argmax(), residuals.shape)
    return [
        f"Heights are Pearson residuals from {departure.model}, which allow for the noise.",
        f"Beyond 2: {far:,} of {residuals.size:,} cells; the largest is {residuals[i, j]:z.2f}, at "
        f"{departure.rows[i]} and {departure.columns[j]}.",
    ]
