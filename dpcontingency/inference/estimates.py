"""An estimate with its standard error and interval, and the scales on which intervals are made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dpcontingency._labels import on_one_line


@dataclass(frozen=True)
class Estimate:
    """A measure of association with what is known of its error.

    Attributes
    ----------
    name : str
        The measure.
    of : str
        What it is a measure of: factors, levels, conditions.
    estimate : float
        The estimate; nan where there is none, and ``reason`` says why.
    se : float
        Its standard error by the delta method, sampling and noise; nan where it has none, for
        instance at an end of its range.
    interval : tuple of float
        Lower and upper end. Holds the estimate and stays in the range of the measure. Where the
        data leave the measure open (its rows hold no records, say, or noise covers them), nothing
        is excluded and it is the whole range; it is nan where the measure is undefined whatever
        the data are, for want of a second level or because a cell is impossible.
    level : float
        The level of the interval, such as 0.95.
    link, link_se : str, float
        The scale on which the interval was made, and the standard error there: that of the log
        odds ratio, for instance.
    accounts_for : tuple of str
        What the interval covers: "sampling" for a statement about the population, and "noise".
    reason : str
        Why there is no estimate, or no interval, else empty.
    notes : tuple of str
        What a reader must know beside the numbers.

    Examples
    --------
    >>> Estimate("phi", "A and B", 0.25, 0.04, (0.17, 0.33), 0.95, "Fisher z", 0.043, ("sampling",))
    <phi of A and B: 0.25 (se 0.04), 95 % interval 0.17 to 0.33; accounts for sampling>
    """

    name: str
    of: str
    estimate: float
    se: float
    interval: tuple[float, float]
    level: float
    link: str
    link_se: float
    accounts_for: tuple[str, ...]
    reason: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def undefined(
        cls, name: str, of: str, level: float, accounts_for: tuple[str, ...], reason: str
    ) -> Estimate:
        """A measure that has no value here whatever the data are, with the reason."""
        ends = math.nan, math.nan
        return cls.left_open(name, of, level, accounts_for, reason, ends)

    @classmethod
    def left_open(
        cls,
        name: str,
        of: str,
        level: float,
        accounts_for: tuple[str, ...],
        reason: str,
        ends: tuple[float, float],
        notes: tuple[str, ...] = (),
    ) -> Estimate:
        """A measure of which the data tell nothing, with the ends of its range and the reason."""
        nothing = math.nan
        return cls(
            name, of, nothing, nothing, ends, level, "", nothing, accounts_for, reason, notes
        )

    def __repr__(self) -> str:
        if math.isnan(self.estimate):
            return on_one_line(
                f"<{self.name} of {self.of}: {self._nothing()}, because {self.reason}>"
            )
        error = "" if math.isnan(self.se) else f" (se {self.se:.3g})"
        return on_one_line(
            f"<{self.name} of {self.of}: {self.estimate:.4g}{error}, {self._interval_text()}; "
            f"accounts for {' and '.join(self.accounts_for)}>"
        )

    def summary(self) -> str:
        """The estimate as a small text table."""
        lines = [("Measure", self.name), ("Of", self.of)]
        if math.isnan(self.estimate):
            lines.append((self._nothing().capitalize(), self.reason))
        else:
            error = "none" if math.isnan(self.se) else f"{self.se:.4g}"
            lines += [
                ("Estimate", f"{self.estimate:.4g}"),
                ("Std. error", error),
                ("Interval", self._interval_text()),
                ("Made on", self.link),
                ("Accounts for", ", ".join(self.accounts_for)),
            ]
            if self.reason:
                lines.append(("Note", self.reason))
        lines += [("Note", note) for note in self.notes]
        return "\n".join(f"{label + ':':<14}{on_one_line(value)}" for label, value in lines)

    def _nothing(self) -> str:
        """What is said of a measure without a value."""
        lower, upper = self.interval
        return "undefined" if math.isnan(lower) else f"left open ({lower:g} to {upper:g})"

    def _interval_text(self) -> str:
        lower, upper = self.interval
        if math.isnan(lower) or math.isnan(upper):
            return "no interval"
        return f"{100 * self.level:g} % interval {lower:.4g} to {upper:.4g}"


@dataclass(frozen=True)
class Scale:
    """A scale on which an estimate is nearly normal.

    Attributes
    ----------
    name : str
        As printed.
    low, high : float
        The range of the measure.
    link, inverse, slope : callable
        To the scale, back from any number, and the derivative of the way there.
    """

    name: str
    low: float
    high: float
    link: Callable[[float], float]
    inverse: Callable[[float], float]
    slope: Callable[[float], float]

    def interval(self, value: float, se: float, alpha: float) -> tuple[float, float]:
        """The normal interval on this scale, taken back."""
        half = float(stats.norm.isf(alpha / 2)) * se * self.slope(value)
        middle = self.link(value)
        return float(self.inverse(middle - half)), float(self.inverse(middle + half))


def _exp(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(x))


LOG = Scale("log", 0.0, math.inf, math.log, _exp, lambda x: 1 / x)
FISHER = Scale("Fisher z", -1.0, 1.0, math.atanh, math.tanh, lambda x: 1 / (1 - x**2))
ROOT = Scale(
    "arcsine of the root", 0.0, 1.0, lambda x: math.asin(math.sqrt(x)),
    lambda y: math.sin(min(max(y, 0.0), math.pi / 2)) ** 2, lambda x: 0.5 / math.sqrt(x * (1 - x)),
)  # fmt: skip
