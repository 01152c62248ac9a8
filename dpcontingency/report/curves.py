"""Curves of the privacy loss: what an attacker can do, and what a test will see."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from scipy.special import ndtr

from dpcontingency.errors import ModelError
from dpcontingency.privacy.gdp import GDP, ceil_digits
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release
from dpcontingency.report.drawing import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    describe,
    dress,
    legend,
    new_axes,
    plain_log_ticks,
    with_room,
)

Array = npt.NDArray[np.float64]

# Lines of a power curve: colours, and dashes for black and white.
CURVE_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
DASHES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
CURVE_SIZE = (5.3, 3.4)
SQUARE = (3.9, 3.9)

TAIL = 8.0  # standard deviations: the error rates beyond are below 1e-15


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
    >>> from matplotlib.figure import Figure
    >>> from dpcontingency.domain import Domain
    >>> from dpcontingency.inference.planning import power_curve as power_curve_of, two_by_two
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> frame = power_curve_of(domain, two_by_two(1.5), [500, 2000], [0.05, 0.1, 0.2, 0.5])
    >>> ax = power_curve(frame, ax=Figure().add_subplot())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['500', '2,000']
    """
    if not isinstance(frame, pd.DataFrame):
        raise ModelError(
            "A power curve is drawn from the frame that dpcontingency.power_curve makes; got "
            f"{type(frame).__name__}."
        )
    missing = [name for name in ("n", "mu", "power") if name not in frame]
    if missing or not np.isfinite(frame["mu"]).any():
        raise ModelError(
            "A power curve is drawn from the frame that dpcontingency.power_curve makes, with "
            f"some finite loss in it; missing: {', '.join(missing) or 'a finite mu'}."
        )
    own = ax is None
    if ax is None:
        ax = new_axes(*CURVE_SIZE)
    handles, said = [], []
    for k, (n, rows) in enumerate(frame.groupby("n", sort=True)):
        colour, dash = CURVE_COLOURS[k % len(CURVE_COLOURS)], DASHES[k % len(DASHES)]
        finite = rows[np.isfinite(rows["mu"])].sort_values("mu")
        handles += ax.plot(
            finite["mu"], finite["power"], color=colour, linestyle=dash, label=f"{n:,.10g}",
            marker="o" if len(finite) == 1 else "",  # a line of one point cannot be seen
        )  # fmt: skip
        for most in rows["power"][np.isinf(rows["mu"])]:
            ax.axhline(float(most), color=colour, linewidth=0.6)
        if len(finite):
            first, last = finite.iloc[0], finite.iloc[-1]
            said.append(
                f"With {n:,.10g} records it goes from {first['power']:.3g} at mu = "
                f"{first['mu']:.3g} to {last['power']:.3g} at mu = {last['mu']:.3g}."
            )
    ax.axhline(wanted, color=INK, linewidth=0.8, linestyle=":")
    ax.set_xscale("log")
    ax.set_ylim(0, 1.02)
    plain_log_ticks(ax)
    dress(ax, x="privacy loss mu", y="power")
    legend(ax, handles, "records")
    describe(ax, "Power of a test against the privacy loss mu.", *said)
    return with_room(ax) if own else ax


def trade_off(privacy_or_release: GDP | Release | MarginRelease, ax: Axes | None = None) -> Axes:
    """What the best attack can do: its type II error against its type I error.

    Parameters
    ----------
    privacy_or_release : GDP, Release or MarginRelease
        A loss, or a release that states one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the curve, the line of an attack that learns nothing, and a mark at 5 %.

    Raises
    ------
    ModelError
        If this is neither, or the release states no loss.

    Notes
    -----
    An attacker who tells apart two data sets that differ in one record, by any test of level
    alpha on the release, has a type II error of at least G_mu(alpha) = Phi(Phi^-1(1 - alpha) - mu).
    No information is 1 - alpha. The number in the legend is rounded down.

    References
    ----------
    Dong, Roth and Su, "Gaussian differential privacy", J. Royal Statistical Society B 84, 2022,
    Equation 6.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = trade_off(GDP(1), ax=Figure().add_subplot())
    >>> print(ax.get_legend().get_texts()[2].get_text())
    at 5 % type I error
    type II error at least 74.04 %
    """
    privacy, warning = _loss(privacy_or_release)
    own = ax is None
    if ax is None:
        ax = new_axes(*SQUARE)
    alpha = _levels(privacy.mu)
    stated = f"mu = {ceil_digits(privacy.mu)}"
    curve = ax.plot(
        alpha, privacy.trade_off(alpha), color=BLUE, linewidth=2, label=f"best attack at {stated}",
        gid="curve",
    )  # fmt: skip
    nothing = ax.plot([0, 1], [1, 0], color=INK, linewidth=1, linestyle="--", gid="nothing",
                      label="attack that learns nothing")  # fmt: skip
    beta = float(privacy.trade_off(0.05))
    least = f"{math.floor(1e4 * beta) / 100:.4g} %"
    ax.plot([0.05, 0.05, 0], [0, beta, beta], color=FAINT, linewidth=0.8, linestyle=":")
    ax.plot(0.05, beta, "o", color=VERMILION, markersize=6, gid="at-5-percent", clip_on=False)
    mark = Line2D([], [], linestyle="", marker="o", color=VERMILION, markersize=6,
                  label=f"at 5 % type I error\ntype II error at least {least}")  # fmt: skip
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    dress(ax, x="type I error of the attack", y="type II error of the attack")
    legend(ax, [*curve, *nothing, mark], loc="upper right", borderaxespad=0)
    if warning:
        ax.set_title(warning, color=INK, fontsize=9, parse_math=False)
    describe(
        ax,
        f"Trade-off curve at {stated}.",
        f"The best attack with a type I error of 5 % has a type II error of at least {least}; one "
        "that learns nothing has 95 %.",
        warning,
    )
    return with_room(ax) if own else ax


def _loss(source: object) -> tuple[GDP, str]:
    """The loss, and what must be said of a release that protects nobody."""
    if isinstance(source, GDP):
        return source, ""
    if not isinstance(source, Release | MarginRelease):
        raise ModelError(
            f"A trade-off curve is of a GDP or of a release; got {type(source).__name__}. Other "
            "currencies become one by GDP.from_epsilon_delta or GDP.from_zcdp."
        )
    if source.privacy is None:
        raise ModelError(
            "This release states no privacy loss, so there is no trade-off to draw. Pass the "
            "GDP(mu) that it was made with, if it was."
        )
    stamp = "" if source.private else source.statement()["Privacy"].partition(",")[0]
    return source.privacy, stamp


def _levels(mu: float) -> Array:
    """Type I errors from 0 to 1 that follow the curve where it bends, at 0 and at 1."""
    bend = np.linspace(-TAIL, TAIL, 129)
    return np.unique(np.concatenate([[0.0], ndtr(-np.concatenate([bend, bend + mu])), [1.0]]))
