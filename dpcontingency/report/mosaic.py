"""Mosaic plots: tiles whose areas are the cells, shaded by noise-aware residuals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from dpcontingency.domain import Domain, label_text
from dpcontingency.errors import ModelError
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release
from dpcontingency.report.drawing import (
    IMPOSSIBLE,
    NEGATIVE,
    STEPS,
    ZERO,
    Mark,
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
from dpcontingency.report.edges import Label, Side, write_edge
from dpcontingency.report.residuals import shading

Array = npt.NDArray[np.float64]

GAPS = (0.06, 0.06, 0.05, 0.05)  # between the parts of the first, second, ... split
EDGES: tuple[Side, ...] = ("bottom", "left", "top", "right")


def mosaic(
    release_or_results: Release | MarginRelease | LogLinearResults,
    ax: Axes | None = None,
    order: Sequence[str] | None = None,
) -> Axes:
    """Mosaic plot of a released table, shaded by noise-aware Pearson residuals.

    Parameters
    ----------
    release_or_results : Release, MarginRelease or LogLinearResults
        A release, whose residuals are those from mutual independence; or a fitted model, whose
        release is drawn with the residuals of the model. Up to four factors, whose joint table
        was released.
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
        If the table has more than four factors or was not released as a whole, or ``order`` is
        not an order of its factors.

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
    >>> from matplotlib.figure import Figure
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.from_noisy_table([[31.5, -1.2], [17.7, 25.2]], domain, sigma=2.0)
    >>> ax = mosaic(release, ax=Figure().add_subplot())
    >>> len(ax.patches)
    3
    """
    release, residuals = shading(release_or_results)
    names = _split_order(release.domain, order)
    own = ax is None
    if ax is None:
        ax = new_axes(*_size(release.domain))
    axes = [release.domain.axis(name) for name in names]
    shown = _Mosaic(
        domain=release.domain.project(names),
        values=release.noisy.transpose(axes),
        possible=release.domain.possible().transpose(axes),
        residuals=None if residuals is None else residuals.transpose(axes),
        positions=np.arange(release.domain.size).reshape(release.domain.shape).transpose(axes),
    )
    shown.draw(ax)
    describe(ax, f"Mosaic plot of {', '.join(names)}.", *shown.in_words())
    return with_room(ax) if own else ax


def _size(domain: Domain) -> tuple[float, float]:
    """Inches that leave room for the names of most levels along the edges."""
    split = sorted(domain.shape, reverse=True)
    across = split[0] * (split[2] if len(split) > 2 else 1)
    down = (split[1] if len(split) > 1 else 1) * (split[3] if len(split) > 3 else 1)
    return 4.0 + min(0.13 * max(across - 8, 0), 2.1), 2.9 + min(0.17 * max(down - 6, 0), 2.7)


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
                clip_on=False,
                gid=f"cell-{self.positions[cell]}",
                **mark_look(mark),
            )
        beside = 0.0
        for depth, name in enumerate(self.domain.names):
            room = write_edge(ax, EDGES[depth], name, self._labels(depth))
            beside = room if EDGES[depth] == "right" else beside
        self._legend(ax, list(marks), beside)

    def in_words(self) -> list[str]:
        """What is large, and what departs most from the model."""
        said = ["Areas are proportional to the released cells."]
        empty = int((self.values <= 0).sum())
        if empty:
            said.append(f"Cells without area: {empty:,}.")
        if self.residuals is not None:
            far = int((np.abs(self.residuals) > STEPS[-1]).sum())
            cell = np.unravel_index(np.abs(self.residuals).argmax(), self.values.shape)
            levels = zip(self.domain.names, self.domain.levels.values(), cell, strict=True)
            where = ", ".join(f"{name} = {label_text(texts[k])}" for name, texts, k in levels)
            said.append(
                f"Pearson residuals beyond {STEPS[-1]:g}: {far:,}; the largest is "
                f"{self.residuals[cell]:z.2f}, at {where}."
            )
        return said

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
        shade = None if self.residuals is None else shade_of(self.residuals[cell])
        return Rectangle(
            (box.x, box.y),
            box.width,
            box.height,
            clip_on=False,
            gid=f"cell-{self.positions[cell]}",
            **look(shade),
        )

    def _labels(self, depth: int) -> list[Label]:
        """The levels of a factor along its edge: bottom, left, top, right."""
        levels = [label_text(level) for level in self.domain.levels[self.domain.names[depth]]]
        out = []
        for prefix, box in self._edge(depth, (), _Box(0.0, 0.0, 1.0, 1.0)):
            for text, part in zip(levels, box.split(self._weights(prefix), depth), strict=True):
                middle = part.x + part.width / 2 if depth % 2 == 0 else part.y + part.height / 2
                out.append(Label(text, middle))
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

    def _legend(self, ax: Axes, marks: Sequence[Mark], beside: float) -> None:
        """What shades and marks mean, so many points to the right of the plot."""
        handles = [] if self.residuals is None else residual_handles()
        handles += [mark_handle(mark) for mark in marks]
        if handles:
            inches = ax.bbox.transformed(ax.figure.dpi_scale_trans.inverted()).width
            legend(
                ax,
                handles,
                None if self.residuals is None else "Pearson residual",
                loc="center left",
                bbox_to_anchor=(1.03 + beside / 72 / inches, 0.5),
                handleheight=1.2,
            )
