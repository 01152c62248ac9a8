"""How much of each margin is noise: its size beside that of the cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from dpcontingency.errors import ModelError, ReleaseError
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release
from dpcontingency.report.drawing import (
    BLUE,
    FAINT,
    FONT,
    INK,
    VERMILION,
    above,
    describe,
    dress,
    in_lines,
    new_axes,
    pitch,
    plain_log_ticks,
    with_room,
    write,
)
from dpcontingency.report.residuals import Released, source_of

MAX_ROWS = 64
DEFAULT_ROWS = 40
BURIED = 2.0  # standard deviations of the noise: a cell below that may be nothing else
LABEL = 40
Factors: TypeAlias = tuple[str, ...]

CELLS: dict[str, Any] = {"color": FAINT, "linewidth": 4, "solid_capstyle": "butt", "zorder": 1}
EATEN: dict[str, Any] = {"color": VERMILION, "linewidth": 1.6, "zorder": 2}
MEDIAN: dict[str, Any] = {"linestyle": "", "marker": "|", "color": INK, "markersize": 11,
                          "markeredgewidth": 1.8}  # fmt: skip
SAMPLING: dict[str, Any] = {"linestyle": "", "marker": "o", "color": BLUE, "markersize": 6,
                            "markerfacecolor": "none", "markeredgewidth": 1.6}  # fmt: skip
NOISE: dict[str, Any] = {"linestyle": "", "marker": "D", "color": VERMILION, "markersize": 5}
BELOW: dict[str, Any] = {"linestyle": "", "marker": "<", "color": INK, "markersize": 5,
                         "clip_on": False}  # fmt: skip
MARKS = {
    "noise": ("noise, SD", NOISE),
    "sampling": ("sampling, SD", SAMPLING),
    "median": ("median cell", MEDIAN),
    "cells": ("all cells", CELLS),
    "below": ("and lower", BELOW),
    "eaten": ("noise above the median cell", EATEN),
}


@dataclass(frozen=True)
class Signal:
    """A margin in numbers.

    Attributes
    ----------
    factors : tuple of str
        The margin.
    cells : int
        Its possible cells.
    smallest, median, largest : float
        Of the released cells; nan where none is possible.
    sampling : float
        Standard deviation of a cell of the median size from sample to sample.
    noise : float
        Standard deviation of the noise, root mean square over the cells.
    buried : int
        Cells below 2 standard deviations of their noise.
    """

    factors: Factors
    cells: int
    smallest: float
    median: float
    largest: float
    sampling: float
    noise: float
    buried: int

    @classmethod
    def of(cls, release: Released, factors: Factors) -> Signal:
        """Look at a margin of a release."""
        margin = release.margin(*factors)
        possible = margin.domain.possible()
        values, sd = margin.noisy[possible], np.asarray(margin.noise_sd)[possible]
        if not values.size:
            return cls(factors, 0, math.nan, math.nan, math.nan, 0.0, 0.0, 0)
        median = float(np.median(values))
        mean = max(median, 0.0)
        variance = mean * (1 - mean / max(_stratum(margin, possible), mean, 1e-300))
        return cls(
            factors,
            values.size,
            float(values.min()),
            median,
            float(values.max()),
            math.sqrt(max(variance, 0.0)),
            float(np.sqrt(np.mean(sd**2))),
            int((values < BURIED * sd).sum()),
        )


def _stratum(margin: Released, possible: npt.NDArray[np.bool_]) -> float:
    """The public total that a cell is part of: that of an average stratum; infinite without one."""
    if margin.totals is None:
        return math.inf
    others = tuple(k for k, name in enumerate(margin.domain.names) if name not in margin.strata)
    strata = int(possible.any(axis=others).sum()) if others else int(possible.sum())
    return float(margin.n_total_estimate) / max(strata, 1)


def noise_versus_signal(
    release: Release | MarginRelease,
    ax: Axes | None = None,
    *,
    margins: Iterable[Sequence[str]] | None = None,
) -> Axes:
    """The noise in a cell of each margin, beside the sizes of its cells and their sampling error.

    Parameters
    ----------
    release : Release or MarginRelease
        The release.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the axes of a new figure.
    margins : iterable of sequences of str, optional
        Which margins to draw, up to 64. By default those of one factor, then of two and so on, as
        long as all of an order fit in 40 rows, and the joint table; of a `MarginRelease` what was
        released and its parts.

    Returns
    -------
    matplotlib.axes.Axes
        Row k, from the top, has the marks ``noise-k``, ``sampling-k`` and ``median-k`` and the
        line ``cells-k`` from the smallest to the largest released cell, on one logarithmic axis
        of records. Cells of at most 0 are beyond its left end, where an arrow ``below-k`` says so.
        Where the noise is larger than the median cell a thick line ``eaten-k`` joins them.

    Raises
    ------
    ModelError
        If this is no release, or no margin or more than 64 are named.
    DomainError, PrivacyError
        If a margin named has an unknown factor, or was not released.

    Notes
    -----
    The sampling error is that of a cell of the median size: sqrt(m (1 - m / t)), t the public total
    that it is part of (of an average stratum), and sqrt(m) where no total is public. The noise is
    the root mean square over the cells. Numbers on the right count the cells below 2 standard
    deviations of their noise, which may be noise and nothing else.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.from_noisy_table([[31.5, -1.2], [17.7, 25.2]], domain, sigma=2.0)
    >>> ax = noise_versus_signal(release, ax=Figure().add_subplot())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['A', 'B', 'A, B']
    """
    source, results = source_of(release, "A plot of noise and signal")
    if results is not None:
        source = results.model.release
    signals, left_out = signals_of(source, margins)
    labels = [in_lines(_parts(signal.factors), LABEL) for signal in signals]
    own = ax is None
    if ax is None:
        ax = new_axes(3.4, pitch(labels) * (len(labels) + 0.7))
    low, high = _view(signals)
    for k, signal in enumerate(signals):
        _draw_row(ax, k, signal, low)
        write(ax, 1.04, k, _said(signal), transform=ax.get_yaxis_transform(), va="center")
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    noisy = any(signal.noise > 0 for signal in signals)
    ax.set_ylim(len(signals) - 0.4, -1.3 if noisy else -0.6)
    ax.set_yticks(range(len(signals)), labels, parse_math=False)
    plain_log_ticks(ax)
    dress(ax, x="records in a cell", sides=("bottom",))
    ax.tick_params(axis="y", length=0, pad=9)
    above(ax, MARKS)
    if noisy:
        write(ax, 1.04, -0.9, "below 2 noise SD", transform=ax.get_yaxis_transform(), va="center",
              fontsize=FONT - 1)  # fmt: skip
    if left_out:
        ax.set_xlabel(f"records in a cell\n{left_out}")
    describe(ax, "Noise in a cell of each margin beside the sizes of its cells.",
             *map(_in_words, signals), left_out)  # fmt: skip
    return with_room(ax) if own else ax


def signals_of(
    release: Released, margins: Iterable[Sequence[str]] | None = None
) -> tuple[list[Signal], str]:
    """The margins in numbers, and what is said of those left out; see `noise_versus_signal`."""
    if margins is not None:
        chosen = [(one,) if isinstance(one, str) else tuple(one) for one in margins]
        if not 0 < len(chosen) <= MAX_ROWS:
            raise ModelError(f"Name 1 to {MAX_ROWS} margins to draw; got {len(chosen):,}.")
        return [Signal.of(release, factors) for factors in chosen], ""
    chosen, left = _default_margins(release)
    signals, without_law = [], 0
    for factors in chosen:
        try:
            signals.append(Signal.of(release, factors))
        except ReleaseError:  # strata summed over whose noise is not alike
            without_law += 1
    said = []
    if left:
        said.append(f"{left:,} more margins can be drawn by margins=.")
    if without_law:
        said.append(f"The noise of {without_law:,} margins has no simple law.")
    return signals, " ".join(said)


def _default_margins(release: Released) -> tuple[list[Factors], int]:
    """The margins of low order, as many orders as fit, and how many are left out."""
    names = release.domain.names
    wanted = release.margins if isinstance(release, MarginRelease) else (names,)
    largest = max(map(len, wanted))
    chosen: list[Factors] = []
    for order in range(1, largest + 1):
        parts = dict.fromkeys(part for one in wanted for part in combinations(one, order))
        if len(chosen) + len(parts) > DEFAULT_ROWS - (order < largest and len(wanted) == 1):
            if order == 1:
                return list(parts)[:DEFAULT_ROWS], len(parts) - DEFAULT_ROWS
            break
        chosen += parts
    if len(wanted) == 1 and len(chosen[-1]) < largest:
        chosen.append(wanted[0])
    return chosen, _count(wanted) - len(chosen)


def _count(wanted: Sequence[Factors]) -> int:
    """How many margins there are; those of many large ones are counted as if they shared none."""
    if len(wanted) == 1:
        return int(2 ** len(wanted[0])) - 1
    if max(map(len, wanted)) > 10:
        return sum(int(2 ** len(one)) - 1 for one in wanted)
    return len({
        frozenset(part)
        for one in wanted
        for order in range(1, len(one) + 1)
        for part in combinations(one, order)
    })  # fmt: skip


# ------------------------------------------------------------------ drawing


def _view(signals: Sequence[Signal]) -> tuple[float, float]:
    """The ends of the axis, around the noise and the cells that are not far below it."""
    noise = [s.noise for s in signals if s.noise > 0]
    floor = min(noise) / 10 if noise else 0.0
    values = [v for s in signals for v in (s.smallest, s.median, s.largest, s.sampling)]
    values = [v for v in values if v > floor] + noise
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    return low / 1.6, high * 1.6


def _draw_row(ax: Axes, k: int, signal: Signal, low: float) -> None:
    if signal.largest > low:
        ax.plot([max(signal.smallest, low), signal.largest], [k, k], gid=f"cells-{k}", **CELLS)
    if signal.smallest < low:
        ax.plot(low, k, gid=f"below-{k}", **BELOW)
    if signal.noise > signal.median:
        ax.plot([max(signal.median, low), signal.noise], [k, k], gid=f"eaten-{k}", **EATEN)
    for name, value, look in (
        ("median", signal.median, MEDIAN),
        ("sampling", signal.sampling, SAMPLING),
        ("noise", signal.noise, NOISE),
    ):
        if value > low:
            ax.plot(value, k, gid=f"{name}-{k}", **look)


def _said(signal: Signal) -> str:
    """How many cells may be noise and nothing else."""
    if not signal.cells:
        return "no possible cell"
    if signal.noise == 0:
        return "no noise"
    return f"{signal.buried:,} of {signal.cells:,} cells"


def _in_words(signal: Signal) -> str:
    """A margin in words."""
    names = ", ".join(signal.factors)
    if not signal.cells or signal.noise == 0:
        return f"{names}: {_said(signal)}."
    return (
        f"{names}: noise SD {signal.noise:.3g}, sampling SD {signal.sampling:.3g}, median cell "
        f"{signal.median:.3g}; {_said(signal)} below 2 noise SD."
    )


def _parts(factors: Factors) -> list[str]:
    return [f"{name}, " for name in factors[:-1]] + [factors[-1]]
