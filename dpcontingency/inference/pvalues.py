"""The p-value of a statistic of a nested pair: by chi-square where that holds, or by bootstrap.

Tests, goodness of fit and tables of many tests all ask here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import stats

from dpcontingency._language import argument, phrase
from dpcontingency.errors import ModelError
from dpcontingency.inference.bootstrap import (
    Source,
    bootstrap_pvalue,
    replicate_statistics,
)
from dpcontingency.inference.calibration import chi_square, no_pvalue
from dpcontingency.inference.margin_replicates import replicates_of
from dpcontingency.inference.printing import is_bound, pvalue_text
from dpcontingency.inference.statistic import (
    MAX_DENSE,
    STATISTICS,
    Hypothesis,
    TestStatistic,
    can_write_out,
    is_quick,
    means_to_draw_from,
)

Array = npt.NDArray[np.float64]
Statistic = Literal["lr", "score", "wald", "js-pearson"]
PValue = Literal["auto", "asymptotic", "bootstrap"]
Random = np.random.Generator | int | None

DEFAULT_BOOT = 999


@dataclass(frozen=True)
class How:
    """How a test is done: the options that every test function takes.

    Raises
    ------
    ModelError
        If an option has no meaning.
    """

    statistic: Statistic = "lr"
    pvalue: PValue = "auto"
    n_boot: int = DEFAULT_BOOT
    rng: Random = None

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            raise ModelError(
                f"The statistic is {_one_of(tuple(STATISTICS))}; got {self.statistic!r}."
            )
        if self.pvalue not in get_args(PValue):
            raise ModelError(
                f"{argument('pvalue')} is {_one_of(get_args(PValue))}; got {self.pvalue!r}."
            )
        whole = isinstance(self.n_boot, int | np.integer) and not isinstance(self.n_boot, bool)
        if not whole or self.n_boot < 1:
            raise ModelError(
                f"{argument('n_boot')} is a whole number of replicates, such as 999; got "
                f"{self.n_boot!r}."
            )
        Source.check(self.rng)  # also where none is needed

    @property
    def replicates(self) -> int | None:
        """How many replicates are asked for; None unless a bootstrap is."""
        return int(self.n_boot) if self.pvalue == "bootstrap" else None

    def seeded(self) -> How:
        """The same with a seed in the generator's place, so that several tests share it."""
        if self.pvalue != "bootstrap":
            return self
        return replace(self, rng=Source.of(self.rng).seed)


@dataclass(frozen=True)
class Tail:
    """An upper tail, and what it is of.

    Attributes
    ----------
    pvalue, log_pvalue : float
        The p-value and its natural logarithm; nan where none is calibrated.
    n_boot, seed : int or None
        Of a bootstrap; None for chi-square.
    reason : str
        Why there is no p-value; else empty.
    notes : tuple of str
        What a reader must know beside it, sentences.
    """

    pvalue: float = math.nan
    log_pvalue: float = math.nan
    n_boot: int | None = None
    seed: int | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_bound(self) -> bool:
        """Whether the p-value is the least that the replicates could give: at most that."""
        return is_bound(self.pvalue, self.n_boot)

    def said(self, statistic: float, df: int) -> str:
        """All that is to be said of it, as one text: the reason, or source, bound and notes."""
        if self.reason:
            return self.reason
        parts = list(self.notes)
        if self.n_boot is not None:
            parts.insert(0, f"Bootstrap, {self.n_boot:,} replicates, seed {self.seed}.")
        if self.is_bound:
            parts.append(f"p {text_of(self.pvalue, self.n_boot, chi2_logsf(statistic, df))}.")
        return " ".join(parts)


def text_of(p: float, n_boot: int | None, log_asymptotic: float = math.nan) -> str:
    """A p-value as printed where there is room: of a bound what it is, and what lies beyond it.

    Examples
    --------
    >>> text_of(0.001, 999, chi2_logsf(465.0, 1))
    '<= 0.001 (the least that 999 replicates can give; asymptotic 3.92e-103)'
    >>> text_of(0.02, 999), text_of(2e-7, None)
    ('0.0200', '2.00e-07')
    """
    text = pvalue_text(p, n_boot)
    if n_boot is None or not is_bound(p, n_boot):
        return text
    beyond = f"; asymptotic {power_of_ten(log_asymptotic)}" if log_asymptotic < math.log(p) else ""
    return f"{text} (the least that {n_boot:,} replicates can give{beyond})"


def chi_square_tail(statistic: float, df: int) -> Tail:
    """The upper tail of chi-square."""
    if not df > 0 or math.isnan(statistic):
        return Tail()
    return Tail(float(stats.chi2.sf(statistic, df)), chi2_logsf(statistic, df))


def tail_of(
    statistic: TestStatistic, value: float, df: int, how: How, *, boots: bool = True, way: str = ""
) -> Tail:
    """The p-value of a statistic's value.

    Parameters
    ----------
    statistic : TestStatistic
        Which, of what hypothesis, at what fit of the null.
    value : float
        On the release.
    df : int
        Of chi-square.
    how : How
        Which p-value is asked for; the bootstrap of ``"auto"`` only if ``boots``.
    boots : bool
        Whether ``"auto"`` takes a bootstrap where chi-square is rough.
    way : str
        How a reader comes to a calibrated p-value where there is none here.

    Raises
    ------
    ModelError
        If a bootstrap is asked for that would write out too large a design.
    """
    if not df > 0 or math.isnan(value):
        return Tail()
    if not statistic.is_chi_square:
        return _bootstrapped(statistic, value, how)
    hypothesis = statistic.hypothesis
    law = chi_square(how.statistic, statistic.null_fit, hypothesis.alternative)
    can = statistic.can_bootstrap and can_write_out(hypothesis)
    boots = boots and how.pvalue == "auto" and bool(law.reason) and can
    chosen = boots and is_quick(hypothesis, how.n_boot)
    if chosen or how.pvalue == "bootstrap":
        said = (f"A bootstrap was chosen, because {law.reason}.",) if chosen else ()
        return replace(_bootstrapped(statistic, value, how), notes=said)
    if law or (how.pvalue == "asymptotic" and law.direction):
        return replace(chi_square_tail(value, df), notes=tuple(filter(None, [law.note])))
    return Tail(reason=no_pvalue(law, way or _way(how.statistic, can)))


def _way(statistic: str, can: bool) -> str:
    """How to come to a p-value where chi-square does not hold and no bootstrap was made."""
    if statistic == "lr":
        slow = f"{argument('pvalue', 'bootstrap')} gives one, in minutes or hours, and "
        return f"{slow * can}{argument('statistic', 'score')} keeps its law in most such tables"
    ratio = f"the likelihood ratio ({argument('statistic', 'lr')}) has one by bootstrap"
    return ratio if statistic == "wald" else f"use {argument('pvalue', 'bootstrap')}, or {ratio}"


def _bootstrapped(statistic: TestStatistic, value: float, how: How) -> Tail:
    hypothesis, cells = statistic.hypothesis, statistic.hypothesis.model.cells
    if not can_write_out(hypothesis):
        raise ModelError(
            "A bootstrap of this table would write out a design of more than "
            f"{MAX_DENSE:,} numbers; use {argument('pvalue', 'asymptotic')}."
        )
    source = Source.of(how.rng)

    def on(noisy: Array) -> Array:
        return statistic.on(replicates_of(cells, noisy))

    replicates = replicate_statistics(
        cells,
        means_to_draw_from(hypothesis.model, statistic.null_fit._fit.fitted),
        on,
        int(how.n_boot),
        source.rng,
        width=cells.noisy.size * (1 + hypothesis.model._design.n_columns),
    )
    pvalue = bootstrap_pvalue(value, replicates)
    return Tail(pvalue, math.log(pvalue), int(how.n_boot), source.seed)


def pair_tail(smaller: Any, larger: Any, value: float, df: int, how: How, way: str = "") -> Tail:
    """The p-value of one fit against a larger model, for a table of many tests.

    Parameters
    ----------
    smaller : LogLinearResults
        The fit of the null.
    larger : LogLinearModel or None
        The larger model; None for the saturated one.
    value, df : float, int
        The statistic and its degrees of freedom.
    how : How
        Which statistic it is, and which p-value is asked for. Without a request no bootstrap is
        made.
    way : str
        As in `tail_of`.
    """
    statistic = STATISTICS[how.statistic](Hypothesis("", "", "", smaller.model, larger), smaller)
    way = way or phrase(
        "pvalue='bootstrap' gives a calibrated one",
        "in Python, pvalue='bootstrap' gives a calibrated one",
    )
    return tail_of(statistic, value, df, how, boots=False, way=way)


def chi2_logsf(statistic: float, df: int) -> float:
    """The logarithm of the upper tail of chi-square, also where the tail underflows.

    Beyond the range of floats, by the continued fraction of the upper incomplete gamma function
    (Abramowitz and Stegun 6.5.31).

    Examples
    --------
    >>> round(chi2_logsf(60254.09813, 1) / np.log(10))
    -13086
    """
    tail = float(stats.chi2.logsf(statistic, df))
    if np.isfinite(tail):
        return tail
    a, x = df / 2, statistic / 2
    fraction = 0.0
    for k in range(200, 0, -1):
        fraction = k * (k - a) / (x + 2 * k + 1 - a - fraction)
    return float(a * np.log(x) - x - math.lgamma(a) - np.log(x + 1 - a - fraction))


def power_of_ten(log: float) -> str:
    """A number given by its natural logarithm, of any size.

    Examples
    --------
    >>> power_of_ten(math.log(0.0321)), power_of_ten(-30132.0)
    ('0.0321', '6.90e-13087')
    """
    if log > math.log(1e-300):
        return f"{math.exp(log):.3g}"
    exponent = math.floor(log / math.log(10))
    return f"{math.exp(log - exponent * math.log(10)):.2f}e{exponent}"


def _one_of(options: tuple[Any, ...]) -> str:
    return ", ".join(map(repr, options[:-1])) + f" or {options[-1]!r}"
