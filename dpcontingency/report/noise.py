"""How much of each margin is noise: its size beside that of the cells and their sampling error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

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
    ems,
    in_lines,
    new_axes,
    write,
)
from dpcontingency.report.residuals import Released, source_of

MAX_ROWS = 64
LABEL = 40
Factors: TypeAlias = tuple[str, ...]

SIZE: dict[str, Any] = {"marker": "|", "color": INK, "markersize": 9, "markeredgewidth": 1.6}
SAMPLING: dict[str, Any] = {
    "marker": "o",
    "color": BLUE,
    "markerfacecolor": "none",
    "markeredgewidth": 1.6,
    "markersize": 6,
}
NOISE: dict[str, Any] = {"marker": "D", "color": VERMILION, "markersize": 5}


@dataclass(frozen=True)
class Signal:
    """A margin in three numbers.

    Attributes
    ----------
    factors : tuple of str
        The margin.
    size : float
        Records a possible cell, on average.
    sampling, noise : float
        Standard deviations of a cell of that size, from sample to sample and by the noise.
    """

    factors: Factors
    size: float
    sampling: float
    noise: float

    @property
    def share(self) -> float:
        """The noise's part of the variance, nan where there is none."""
        whole = self.sampling**2 + self.noise**2
        return self.noise**2 / whole if whole > 0 else math.nan


def noise_versus_signal(
    release: Release | MarginRelease,
    ax: Axes | None = None,
    *,
    margins: Iterable[Sequence[str]] | None = None,
) -> Axes:
    """The noise in a cell of each margin, against the size of its cells and their sampling error.

    Parameters
    ----------
    release : Release or MarginRelease
        The release.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the axes of a new figure.
    margins : iterable of sequences of str, optional
        Which margins to draw, up to 64. By default those of one factor, then of two and so on, as
        long as all of an order fit, and the joint table; of a `MarginRelease` what was released
        and its parts.

    Returns
    -------
    matplotlib.axes.Axes
        Row k, from the top, has the marks ``noise-k``, ``sampling-k`` and ``size-k`` on one
        logarithmic axis of records. Where the noise is more than the sampling error the line
        between them is thick and whole, else thin and dotted.

    Raises
    ------
    ModelError
        If this is no release, or no margin or more than 64 are named.
    DomainError, PrivacyError
        If a margin named has an unknown factor, or was not released.

    Notes
    -----
    A cell of average size stands for the margin: n / c records, c the number of possible cells.
    From sample to sample it varies by sqrt(n / c (1 - 1 / k)), k the number of possible cells that
    share its public total, and by sqrt(n / c) where no total is public. The noise is the root mean
    square over the cells. The percentage is the noise's part of the sum of both variances.

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
    if ax is None:
        width = 4.6 + (max(ems(line) for text in labels for line in text.split("\n"))) * FONT / 72
        ax = new_axes(width, 1.2 + 0.24 * len(signals))
    low, high = _view(signals)
    ax.set_xscale("log")
    for k, signal in enumerate(signals):
        _draw_row(ax, k, signal, low)
    ax.set_xlim(low, high)
    ax.set_ylim(len(signals) - 0.4, -0.6)
    ax.set_yticks(range(len(signals)), labels, parse_math=False)
    ax.xaxis.set_major_locator(LogLocator(numticks=9))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    dress(ax, x="records in a cell", sides=("bottom",))
    ax.tick_params(axis="y", length=0)
    above(ax, _handles(), columns=3)
    if left_out:
        write(ax, 0.0, -0.02, left_out, transform=ax.transAxes, va="top", fontsize=FONT - 1)
    describe(ax, "Noise in a cell of each margin against the size of its cells.",
             *map(_in_words, signals), left_out)  # fmt: skip
    return ax


def signals_of(
    release: Released, margins: Iterable[Sequence[str]] | None = None
) -> tuple[list[Signal], str]:
    """The margins in numbers, and what is said of those left out; see `noise_versus_signal`."""
    if margins is not None:
        chosen = [(one,) if isinstance(one, str) else tuple(one) for one in margins]
        if not 0 < len(chosen) <= MAX_ROWS:
            raise ModelError(f"Name 1 to {MAX_ROWS} margins to draw; got {len(chosen):,}.")
        return [_signal(release, factors) for factors in chosen], ""
    chosen, left = _default_margins(release)
    signals, without_law = [], 0
    for factors in chosen:
        try:
            signals.append(_signal(release, factors))
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
        if len(chosen) + len(parts) > MAX_ROWS - (order < largest and len(wanted) == 1):
            if order == 1:
                return list(parts)[:MAX_ROWS], len(parts) - MAX_ROWS
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


def _signal(release: Released, factors: Factors) -> Signal:
    margin = release.margin(*factors)
    possible = margin.domain.possible()
    cells = int(possible.sum())
    n = release.n_total_estimate
    if cells == 0 or n <= 0:
        return Signal(factors, math.nan, math.nan, _root_mean_square(margin, possible))
    size = n / cells
    sampling = size
    if margin.totals is not None:
        others = tuple(k for k, name in enumerate(factors) if name not in margin.strata)
        strata = int(possible.any(axis=others).sum()) if others else cells
        sampling = size * (1 - strata / cells)
    return Signal(factors, size, math.sqrt(max(sampling, 0.0)), _root_mean_square(margin, possible))


def _root_mean_square(margin: Released, possible: npt.NDArray[np.bool_]) -> float:
    sd = np.asarray(margin.noise_sd)[possible]
    return float(np.sqrt(np.mean(sd**2))) if sd.size else 0.0


# ------------------------------------------------------------------ drawing


def _view(signals: Sequence[Signal]) -> tuple[float, float]:
    """The ends of the axis, around all that is above 0."""
    values = [v for s in signals for v in (s.size, s.sampling, s.noise) if v > 0]
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    return low / 1.6, high * 1.6


def _draw_row(ax: Axes, k: int, signal: Signal, low: float) -> None:
    noise, sampling = (max(v, low) for v in (signal.noise, signal.sampling))
    if not math.isnan(signal.sampling):
        eaten = signal.noise > signal.sampling
        ax.plot([sampling, noise], [k, k], color=VERMILION if eaten else FAINT,
                linewidth=2.5 if eaten else 1.0, linestyle="-" if eaten else ":", zorder=1,
                gid=f"line-{k}")  # fmt: skip
        ax.plot(signal.size, k, linestyle="", gid=f"size-{k}", **SIZE)
    if signal.sampling > 0:
        ax.plot(signal.sampling, k, linestyle="", gid=f"sampling-{k}", **SAMPLING)
    if signal.noise > 0:
        ax.plot(signal.noise, k, linestyle="", gid=f"noise-{k}", **NOISE)
    write(ax, 1.02, k, _said(signal), transform=ax.get_yaxis_transform(), va="center")


def _handles() -> list[Line2D]:
    looks = (("noise, SD", NOISE), ("sampling, SD", SAMPLING), ("size", SIZE))
    return [Line2D([], [], linestyle="", label=label, **look) for label, look in looks]


def _said(signal: Signal) -> str:
    """The noise's part of the variance, or why there is none."""
    if math.isnan(signal.size):
        return "total not above 0"
    if signal.noise == 0:
        return "public" if signal.sampling == 0 else "no noise"
    percent = 100 * signal.share
    if 0 < percent < 0.05:
        return "noise < 0.1 %"
    return f"noise {percent:.{1 if percent < 1 else 0}f} %"


def _in_words(signal: Signal) -> str:
    """A margin in words."""
    return (
        f"{', '.join(signal.factors)}: about {signal.size:.3g} records in a cell, sampling SD "
        f"{signal.sampling:.3g}, noise SD {signal.noise:.3g} ({_said(signal)})."
    )


def _parts(factors: Factors) -> list[str]:
    return [f"{name}, " for name in factors[:-1]] + [factors[-1]]
