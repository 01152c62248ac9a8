"""Forest plots: estimates with intervals whose sampling part shows inside the whole."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from dpcontingency.errors import ModelError
from dpcontingency.inference.printing import number_text
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.report.drawing import (
    BLUE,
    FAINT,
    INK,
    LARGEST_LOG,
    above,
    clean,
    describe,
    dress,
    in_lines,
    new_axes,
    pitch,
    plain_log_ticks,
    with_room,
    write,
)
from dpcontingency.report.numbers import end, ratio

MAX_ROWS = 150
LABEL = 52  # Latin letters of a row's label
IN_WORDS = 40  # rows
REACH = 6.0  # of the typical half interval: what goes further beyond all estimates is cut

MARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "sampling": ("sampling alone", {"color": BLUE, "linewidth": 5}),
    "total": ("sampling and noise", {"color": INK, "linewidth": 1.2}),
    "goes-on": ("goes on", {"marker": ">", "linestyle": "", "color": INK, "markersize": 5}),
    "infinite": ("at infinity", {"marker": ">", "linestyle": "", "color": INK}),
    "open": ("no estimate", {"marker": "x", "linestyle": "", "color": INK}),
}


@dataclass(frozen=True)
class Row:
    """One line of a forest plot, on the scale where intervals are symmetric.

    Attributes
    ----------
    label : tuple of str
        Its name, in parts that may stand on lines of their own.
    estimate : float
        May be infinite, or nan where there is none.
    lower, upper : float
        The interval for sampling and noise; ends may be infinite or nan.
    sampling : float
        Half the interval that the same fit would have without noise, nan where unknown.
    text : str
        The numbers, or why there are none.
    """

    label: tuple[str, ...]
    estimate: float
    lower: float
    upper: float
    sampling: float
    text: str


def coefficients(
    results: LogLinearResults,
    ax: Axes | None = None,
    *,
    cols: Any = None,
    alpha: float = 0.05,
) -> Axes:
    """Coefficients of a fit with their intervals, and the part of these that is sampling.

    Parameters
    ----------
    results : LogLinearResults
        The fit.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the axes of a new figure.
    cols : sequence of int or str, optional
        Which coefficients, by position or name; all by default.
    alpha : float
        1 - the level of the intervals.

    Returns
    -------
    matplotlib.axes.Axes
        Row k, from the top, has a thin line with the gid ``total-k`` for sampling and noise, a
        thick bar ``sampling-k`` for what it would be without noise, and the mark ``estimate-k``.
        A coefficient at infinity has an arrow ``infinite-k`` at the edge of the plot, one that
        cannot be told a cross ``open-k`` at 0. Intervals that go on beyond the plot end in an
        arrow.

    Raises
    ------
    ModelError
        If this is no fit, it has no coefficients, or more than 150 of them.

    Notes
    -----
    Variances add up, not lengths: bse^2 = bse_sampling^2 + bse_privacy^2. What sticks out of the
    thick bar is what the noise adds to the length of the interval.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dpcontingency import Domain, LogLinearModel, Release
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.from_noisy_table(
    ...     [[91.5, 38.0], [47.7, 55.2]], domain, sigma=5.0, n_total=232
    ... )
    >>> ax = coefficients(LogLinearModel(release, "[AB]").fit(), ax=Figure().add_subplot())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['A[T.b]', 'B[T.v]', 'A[T.b]:B[T.v]']
    """
    if not isinstance(results, LogLinearResults):
        raise ModelError(
            f"A forest of coefficients is of the results of a fit; got {type(results).__name__}. "
            "Call .fit() on a LogLinearModel first."
        )
    rows = []
    for name, row in results.coefficients(alpha, cols).iterrows():
        parts = str(name).split(":")
        label = (*(f"{part}:" for part in parts[:-1]), parts[-1])
        half = stats.norm.isf(alpha / 2) * row["se_sampling"]
        ends = row["lower"], row["upper"]
        rows.append(Row(label, row["estimate"], *ends, half, _coefficient_text(row)))
    level = f"{100 * (1 - alpha):g} % intervals"
    title = f"Coefficients of {results.generating_class} with {level}."
    ax = _forest(rows, ax, "coefficient", "by cols=", "the model has none, or `cols` is empty")
    describe(ax, title, *_in_words(rows), "" if results.existence.exists else
             results.existence.reason)  # fmt: skip
    return ax


def _coefficient_text(row: Any) -> str:
    """A coefficient and its interval, where it has them."""
    estimate, se, ends = row["estimate"], row["se"], (row["lower"], row["upper"])
    text = _limit(estimate) or number_text(estimate, se)
    if math.isnan(row["pvalue"]) or math.isnan(estimate):
        return text
    width = se if math.isfinite(estimate) else 1.0
    return f"{text} ({' to '.join(end(limit, width) for limit in ends)})"


def odds_ratios(source: LogLinearResults | pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Odds ratios of a fit on a logarithmic axis, with the part of each interval that is sampling.

    Parameters
    ----------
    source : LogLinearResults or DataFrame
        A fit, for all its odds ratios; or what `LogLinearResults.odds_ratios` returned, or rows
        of it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        As `coefficients`. A ratio of 0 or infinity is an arrow ``infinite-k`` with the finite end
        of its interval; one that cannot be told a cross ``open-k`` at 1.

    Raises
    ------
    ModelError
        If this is neither, or has no row or more than 150.

    Notes
    -----
    The sampling part needs the column ``se_sampling``; without it intervals are drawn whole.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dpcontingency import Domain, LogLinearModel, Release
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.from_noisy_table(
    ...     [[91.5, 38.0], [47.7, 55.2]], domain, sigma=5.0, n_total=232
    ... )
    >>> ax = odds_ratios(LogLinearModel(release, "[AB]").fit(), ax=Figure().add_subplot())
    >>> ax.get_xscale(), ax.get_yticklabels()[0].get_text()
    ('log', 'A: a / b × B: u / v')
    """
    frame: Any = source.odds_ratios() if isinstance(source, LogLinearResults) else source
    needed = ["log_or", "se", "lower", "upper", "reason"]
    if not isinstance(frame, pd.DataFrame) or not set(needed) <= set(frame):
        raise ModelError(
            "A forest of odds ratios is of the results of a fit, or of what its odds_ratios() "
            f"returned; got {type(source).__name__}."
        )
    quantile = stats.norm.isf(frame.attrs.get("alpha", 0.05) / 2)
    rows = [
        _ratio_row(label, values, quantile)
        for label, values in zip(frame.index, frame.to_dict("records"), strict=True)
    ]
    title = "Odds ratios with intervals, on a logarithmic axis."
    ax = _forest(
        rows, ax, "odds ratio", "rows of odds_ratios(), or name a factor there",
        "the model associates no factors, or the frame is empty", logarithmic=True,
    )  # fmt: skip
    describe(ax, title, *_in_words(rows))
    return ax


def _ratio_row(label: Any, values: dict[Any, Any], quantile: float) -> Row:
    """One row of `odds_ratios`, on the log scale."""
    log_or = float(values["log_or"])
    with np.errstate(divide="ignore", over="ignore"):
        value, *ends = (float(x) for x in (np.exp(log_or), values["lower"], values["upper"]))
        lower, upper = np.log(ends)
    names = [str(part) for part in label] if isinstance(label, tuple) else [str(label)]
    parts = [names[0], *(f" × {column}" for column in names[1:2])]
    parts += [f", {at}" for at in names[2:] if at]
    alone = float(values.get("se_sampling", math.nan))
    sampling = quantile * alone
    text = str(values["reason"]) if math.isnan(log_or) else ""
    text = text or ratio(value)
    if not math.isnan(log_or) and not all(map(math.isnan, ends)):
        text += f" ({' to '.join(map(ratio, ends))})"
    return Row(tuple(parts), log_or, lower, upper, sampling, text)


def _limit(estimate: float) -> str:
    """What is said of an estimate that is no number; empty for one that is."""
    if math.isnan(estimate):
        return "not estimable"
    return "" if math.isfinite(estimate) else f"{'−' if estimate < 0 else ''}∞"


# ------------------------------------------------------------------ drawing


def _forest(
    rows: Sequence[Row],
    ax: Axes | None,
    what: str,
    fewer: str,
    nothing: str,
    *,
    logarithmic: bool = False,
) -> Axes:
    """Draw the rows from the top."""
    if not rows:
        raise ModelError(f"There are no {what}s to draw: {nothing}.")
    if len(rows) > MAX_ROWS:
        raise ModelError(
            f"A forest plot shows up to {MAX_ROWS} {what}s and here are {len(rows):,}: choose some "
            f"{fewer}."
        )
    labels = [in_lines(row.label, LABEL) for row in rows]
    again = Counter(labels)
    for k, label in enumerate(labels):  # cut alike, though of different coefficients
        labels[k] = f"{label} ({k + 1})" if again[label] > 1 else label
    texts = [clean(row.text) for row in rows]
    own = ax is None
    if ax is None:
        ax = new_axes(3.2, pitch(labels) * len(labels))
    view = _view(rows)
    scale = np.exp if logarithmic else np.asarray
    for k, row in enumerate(rows):
        _draw_row(ax, k, row, view, scale)
        write(ax, 1.04, k, texts[k], transform=ax.get_yaxis_transform(), va="center")
    ax.axvline(float(scale(0.0)), color=FAINT, linewidth=0.8, linestyle="--", zorder=0)
    if logarithmic:
        ax.set_xscale("log")
    ax.set_xlim(*map(float, scale(np.array(view))))
    if logarithmic:
        plain_log_ticks(ax)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_yticks(range(len(rows)), labels, parse_math=False)
    dress(ax, x=what, sides=("bottom",))
    ax.tick_params(axis="y", length=0, pad=9)
    above(ax, MARKS)
    return with_room(ax) if own else ax


def _view(rows: Sequence[Row]) -> tuple[float, float]:
    """The ends of the axis: around all estimates, and the intervals unless these are vast."""
    centres = [row.estimate for row in rows if math.isfinite(row.estimate)] + [0.0]
    # The one end of an estimate at infinity is all that is known of it.
    centres += [end for row in rows if math.isinf(row.estimate)
                for end in (row.lower, row.upper) if math.isfinite(end)]  # fmt: skip
    centres = [min(max(centre, -LARGEST_LOG), LARGEST_LOG) for centre in centres]
    halves = [abs(end - row.estimate) for row in rows for end in (row.lower, row.upper)
              if math.isfinite(row.estimate) and math.isfinite(end)]  # fmt: skip
    ends = [end for row in rows for end in (row.lower, row.upper) if math.isfinite(end)]
    low, high = min(centres), max(centres)
    reach = REACH * float(np.median(halves)) if halves else 1.0
    reach = max(reach, high - low)
    left = min([low, *(end for end in ends if end >= low - reach)])
    right = max([high, *(end for end in ends if end <= high + reach)])
    if any(end > high + reach for end in (row.upper for row in rows)):
        right = max(right, high + reach / 2)
    if any(end < low - reach for end in (row.lower for row in rows)):
        left = min(left, low - reach / 2)
    room = 0.06 * (right - left) or 1.0
    return max(left - room, -LARGEST_LOG), min(right + room, LARGEST_LOG)


def _draw_row(ax: Axes, k: int, row: Row, view: tuple[float, float], scale: Any) -> None:
    """The interval, its sampling part and the estimate."""

    def put(x: float, marker: str, gid: str, size: float = 6, **look: Any) -> None:
        settings = {"color": INK, "linestyle": "", "clip_on": False, "zorder": 4}
        ax.plot(scale(x), k, marker=marker, markersize=size, gid=gid, **{**settings, **look})

    finite = math.isfinite(row.estimate)
    inside = np.clip([row.lower, row.upper], *view)
    if not np.isnan(inside).any():
        if finite or inside[0] < inside[1]:
            ax.plot(scale(inside), [k, k], color=INK, linewidth=1.2, gid=f"total-{k}")
        for end, at, marker in zip((row.lower, row.upper), inside, "<>", strict=True):
            if end not in (at, row.estimate):
                put(at, marker, f"goes-on-{k}", 5)
            elif math.isfinite(end):
                put(at, "|", f"end-{k}", 5)
    if math.isnan(row.estimate):
        put(0.0, "x", f"open-{k}")
        return
    if not finite:
        put(view[row.estimate > 0], ">" if row.estimate > 0 else "<", f"infinite-{k}", 8)
        return
    if math.isfinite(row.sampling):
        part = np.clip([row.estimate - row.sampling, row.estimate + row.sampling], *view)
        ax.plot(
            scale(part), [k, k], color=BLUE, linewidth=5, solid_capstyle="butt",
            gid=f"sampling-{k}", zorder=3,
        )  # fmt: skip
    put(row.estimate, "o", f"estimate-{k}", 5)


def _in_words(rows: Sequence[Row]) -> list[str]:
    """The first rows in words."""
    said = [f"{''.join(row.label)}: {row.text}." for row in rows[:IN_WORDS]]
    return said if len(rows) <= IN_WORDS else [*said, f"And {len(rows) - IN_WORDS} more."]
