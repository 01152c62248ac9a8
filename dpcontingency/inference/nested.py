"""A test of one log-linear model against a larger one: options, reference law, result.

Every hypothesis is such a pair (METHODS 2.6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import stats

from dpcontingency._language import argument
from dpcontingency.domain import label_text
from dpcontingency.errors import ModelError
from dpcontingency.inference.bootstrap import (
    Source,
    bootstrap_pvalue,
    doubts,
    replicate_statistics,
)
from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.margin_replicates import replicates_of
from dpcontingency.inference.statistic import (
    MAX_DENSE,
    STATISTICS,
    Hypothesis,
    TestStatistic,
    can_write_out,
    means_to_draw_from,
)
from dpcontingency.inference.testresult import TestResult, chi2_logsf

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

    statistic: Statistic
    pvalue: PValue
    n_boot: int
    rng: Random

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


def nested_test(hypothesis: Hypothesis, how: How) -> TestResult:
    """Test a model against a larger one.

    Returns
    -------
    TestResult
        With a reason and no p-value where the test cannot be done.
    """
    model = hypothesis.model
    kind = STATISTICS[how.statistic]
    blank = TestResult(
        name=hypothesis.name,
        null=hypothesis.null,
        statistic=math.nan,
        df=hypothesis.df,
        pvalue=math.nan,
        log_pvalue=math.nan,
        method=kind.label,
        accounts_for=("sampling",) if model.release.noise.is_exact else ("sampling", "noise"),
        call=hypothesis.call,
    )
    if how.pvalue == "asymptotic" and not kind.is_chi_square:
        raise ModelError(
            f"{kind.label} has no chi-square law; use {argument('pvalue', 'bootstrap')}."
        )
    if how.pvalue == "bootstrap" and not kind.can_bootstrap:
        raise ModelError(
            f"A {kind.label} test has an asymptotic p-value only; use "
            f"{argument('statistic', 'lr')}."
        )
    if hypothesis.df == 0:
        return replace(
            blank,
            reason="the null model leaves no degrees of freedom: a factor has a single level, or "
            "all records share one, or there are none",
        )
    fit = model.fit(warn_convergence=False)
    if not fit.converged:
        return replace(blank, reason=f"the fit of the null model did not converge: {fit.reason}")
    statistic = kind(hypothesis, fit)
    if statistic.obstacle:
        return replace(blank, reason=statistic.obstacle)
    doubt = doubts(*model.cells.judged(fit._fit.fitted, model._possible))
    offered = kind.can_bootstrap and can_write_out(hypothesis) and model.cells.fits_at_once
    boot = how.pvalue == "bootstrap" or not kind.is_chi_square
    boot = boot or (how.pvalue == "auto" and offered and bool(doubt))
    if statistic.boundary and not boot:
        return replace(blank, reason=statistic.boundary)
    done = replace(
        blank,
        statistic=statistic.value(),
        null_fit=fit,
        notes=(*faint_margins(model.release), *filter(None, [fit.existence.reason])),
    )
    done = _bootstrapped(done, statistic, how) if boot else _asymptotic(done)
    if doubt:
        chosen = "A bootstrap was chosen, because" if boot else "Chi-square is doubtful, because"
        done = replace(done, notes=(*done.notes, f"{chosen} {doubt}."))
    done = replace(done, notes=(*done.notes, *privacy_note(model.release)))
    return replace(done, call=_with_options(hypothesis.call, how, done))


def _asymptotic(result: TestResult) -> TestResult:
    return replace(
        result,
        pvalue=float(stats.chi2.sf(result.statistic, result.df)),
        log_pvalue=chi2_logsf(result.statistic, result.df),
    )


def _bootstrapped(result: TestResult, statistic: TestStatistic, how: How) -> TestResult:
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
    pvalue = bootstrap_pvalue(result.statistic, replicates)
    return replace(
        result,
        pvalue=pvalue,
        log_pvalue=math.log(pvalue),
        n_boot=int(how.n_boot),
        seed=source.seed,
    )


def _with_options(call: str, how: How, result: TestResult) -> str:
    """The call with the options that are not the defaults, and the seed that was used."""
    options = [] if how.statistic == "lr" else [f"statistic={how.statistic!r}"]
    if how.pvalue != "auto":
        options.append(f"pvalue={how.pvalue!r}")
    if result.n_boot is not None:
        options += [] if result.n_boot == DEFAULT_BOOT else [f"n_boot={result.n_boot}"]
        options.append(f"rng={result.seed}")
    return call.removesuffix(")") + "".join(f", {option}" for option in options) + ")"


def privacy_note(release: AnyRelease) -> list[str]:
    """That the counts behind the table were not protected, if they were not."""
    return [] if release.private else [release.statement()["Privacy"]]


def faint_margins(release: AnyRelease) -> list[str]:
    """Sentences for the levels that nobody has, or whose margin is within noise of 0."""
    empty: list[str] = []
    faint: list[str] = []
    told = {name for margin in release.margins for name in margin}
    for name in filter(told.__contains__, release.domain.names):
        margin = release.margin(name)
        certain = margin.noise_sd == 0
        none, low = certain & (margin.noisy == 0), ~certain & (margin.noisy < 2 * margin.noise_sd)
        for levels, found in ((none, empty), (low, faint)):
            labels = [label_text(release.domain.levels[name][i]) for i in np.flatnonzero(levels)]
            found += [f"{name} = {label}" for label in labels]
    notes = []
    if empty:
        notes.append(f"No record has {', or '.join(empty)}: the test is about the other levels.")
    if faint:
        notes.append(
            f"Within noise of 0 (less than 2 standard deviations above): {', '.join(faint)}. "
            "Perhaps nobody is there."
        )
    return notes


def _one_of(options: tuple[Any, ...]) -> str:
    return ", ".join(map(repr, options[:-1])) + f" or {options[-1]!r}"
