"""A test of one log-linear model against a larger one: options, reference law, result.

Every hypothesis is such a pair (METHODS 2.6).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpcontingency._language import argument
from dpcontingency.domain import label_text
from dpcontingency.errors import ModelError, listing
from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.pvalues import DEFAULT_BOOT, How, tail_of
from dpcontingency.inference.statistic import STATISTICS, Hypothesis
from dpcontingency.inference.testresult import TestResult


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
            "all records share one, or there are none, or zeros leave nothing to compare",
        )
    fit = model.fit(warn_convergence=False)
    if not fit.converged:
        return replace(blank, reason=f"the fit of the null model did not converge: {fit.reason}")
    statistic = kind(hypothesis, fit)
    if statistic.obstacle:
        return replace(blank, reason=statistic.obstacle)
    value = statistic.value()
    tail = tail_of(statistic, value, hypothesis.df, how)
    done = replace(
        blank,
        statistic=value,
        pvalue=tail.pvalue,
        log_pvalue=tail.log_pvalue,
        n_boot=tail.n_boot,
        seed=tail.seed,
        reason=tail.reason,
        null_fit=fit,
        notes=(
            *faint_margins(model.release),
            *filter(None, [fit.existence.reason]),
            *tail.notes,
            *privacy_note(model.release),
        ),
    )
    return replace(done, call=_with_options(hypothesis.call, how, done))


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
        notes.append(f"No record has {listing(empty)}: the test is about the other levels.")
    if faint:
        notes.append(
            f"Within noise of 0 (less than 2 standard deviations above): {listing(faint)}. "
            "Perhaps nobody is there."
        )
    return notes
