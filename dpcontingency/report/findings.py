"""Tests and fitted models, as sections of a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from dpcontingency.errors import ModelError
from dpcontingency.inference.comparison import compare
from dpcontingency.inference.naive import noise_ignored
from dpcontingency.inference.odds import associated_pairs, depends_on
from dpcontingency.inference.printing import method_text, pvalue_text, total_text
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.tables import NOT_ADJUSTED
from dpcontingency.inference.testresult import TestResult
from dpcontingency.inference.wide import affordable
from dpcontingency.report import plots
from dpcontingency.report.fit_tables import (
    NOT_CALIBRATED,
    coefficients_table,
    comparison_table,
    criteria,
    differences_table,
    gof_table,
    has_cells,
    ratios_table,
    residuals_table,
)
from dpcontingency.report.parts import (
    Block,
    Cell,
    Column,
    Fact,
    Facts,
    Note,
    Section,
    Table,
    Text,
    number,
)
from dpcontingency.report.pictures import drawn
from dpcontingency.report.words import model_in_words, naive_in_words

MAX_BARS = 40  # rows of a forest plot that can still be read
MAX_RATIOS = 2000  # that are computed for a report

_ERRORS = (
    "Standard errors, intervals and p-values allow for sampling and for the noise of the release: "
    "total SE² = sampling SE² + privacy SE², and the privacy share is the noise's part of it. AIC "
    "and BIC are those of the likelihood of what was released; only their differences between "
    "models of this release mean anything."
)
_SATURATED = (
    "Margins were released, so the saturated model is that of these margins: it fits them, and "
    "leaves out the interactions of factors that no margin holds together. Nothing here can test "
    "those."
)
_NO_CRITERION = (
    "AIC and BIC are for fits that maximise the likelihood; this one maximises something else, so "
    "they are not given."
)


# ------------------------------------------------------------------ tests


def tests_section(tests: Sequence[TestResult]) -> Section:
    """All tests."""
    parts = [_test(test, number) for number, test in enumerate(tests, 1)]
    blocks = [Text(f"{NOT_ADJUSTED} Tests: {len(tests)}.")]
    return Section("tests", "Tests", blocks if len(tests) > 1 else [], parts)


def title_of(test: TestResult) -> str:
    """What a test is called in a report."""
    return f"{test.name[:1].upper()}{test.name[1:]}: {test.null}"


def _test(test: TestResult, count: int) -> Section:
    facts = [
        Fact("null", "Null hypothesis", test.null),
        Fact("method", "Statistic", test.method),
    ]
    blocks: list[Block] = []
    if test.reason:
        facts.append(Fact("reason", f"{test.reason_label}, because", test.reason))
    else:
        facts += [
            Fact("calibration", "P-value from", test.calibration),
            Fact("accounts_for", "Accounts for", " and ".join(test.accounts_for)),
        ]
        naive = noise_ignored(test)
        if naive is not None:
            facts.append(Fact("naive", "If the noise were ignored", naive_in_words(naive)))
    if test.pvalue_is_bound:
        facts.append(Fact("pvalue_is_bound", "The p-value is a bound", test.pvalue_text, True))
    if math.isfinite(test.statistic):
        tail = Cell(NOT_CALIBRATED, None)
        if not test.reason:
            tail = number(test.pvalue, pvalue_text(test.pvalue, test.n_boot))
        row = [
            number(test.statistic, f"{test.statistic:z.4f}"),
            number(test.df, str(test.df)),
            tail,
        ]
        columns = [
            Column("statistic", "Statistic"),
            Column("df", "Df"),
            Column("pvalue", "P-value"),
        ]
        blocks.append(Table("result", "Result", columns, [row], 0))
    notes = [Note(note) for note in test.notes]
    return Section(f"test{count}", title_of(test), [Facts(facts), *blocks, *notes])


# ------------------------------------------------------------------ models


@dataclass(frozen=True)
class Findings:
    """What the models of a report say, computed once.

    Attributes
    ----------
    models : sequence of LogLinearResults
        In the order in which they are shown.
    chosen : LogLinearResults or None
        The one that is shown in full.
    """

    models: Sequence[LogLinearResults]
    chosen: LogLinearResults | None

    @cached_property
    def too_many_ratios(self) -> int:
        """How many odds ratios the chosen model has, where that is too many; else 0."""
        assert self.chosen is not None
        count = _count_ratios(self.chosen)
        return count if count > MAX_RATIOS else 0

    @cached_property
    def odds_ratios(self) -> pd.DataFrame:
        """The odds ratios of the chosen model; none where they are too many."""
        if self.chosen is None or not _count_ratios(self.chosen) or self.too_many_ratios:
            return pd.DataFrame()
        frame = self.chosen.odds_ratios(profile=False)
        rows = int(_unknown_ends(frame).sum())
        sought = rows and affordable(rows, self.chosen.model.space.size)
        return self.chosen.odds_ratios() if sought else frame

    @cached_property
    def unbounded(self) -> int:
        """How many odds ratios have an interval that was not sought here, or one end of it."""
        frame = self.odds_ratios
        return int(_unknown_ends(frame).sum()) if len(frame) else 0

    @cached_property
    def comparison(self) -> Any:
        """The likelihood ratios of the models, or None where they cannot be compared."""
        return self._compared[0]

    @cached_property
    def incomparable(self) -> str:
        """Why the models cannot be compared by likelihood ratio; else empty."""
        return self._compared[1]

    @cached_property
    def _compared(self) -> tuple[Any, str]:
        if len(self.models) < 2:
            return None, ""
        try:
            return compare(*self.models), ""
        except ModelError as error:
            return None, str(error)

    def section(self) -> Section:
        """All models."""
        blocks: list[Block] = [Text(_ERRORS)]
        if not all(map(has_cells, self.models)):
            blocks.append(Text(_SATURATED))
        if len(self.models) > 1:
            blocks.append(comparison_table(self.models, self.comparison))
            if self.comparison is not None:
                blocks.append(differences_table(self.comparison))
                blocks += [Text(note) for note in self.comparison.notes]
        parts = [self._model(fit, count) for count, fit in enumerate(self.models, 1)]
        return Section("models", "Models", blocks, parts)

    def _model(self, fit: LogLinearResults, count: int) -> Section:
        release = fit.model.release
        words = model_in_words(fit.generators, release.domain.names, fit.model.special)
        notes = [Note(text) for text in _notes(fit)]
        blocks: list[Block] = [
            *map(Text, words), Facts(list(_facts(fit))), gof_table(fit), *notes,
        ]  # fmt: skip
        key = f"model{count}"
        if fit is not self.chosen:
            blocks.append(coefficients_table(fit))
            return Section(key, f"Model {fit.generating_class}", blocks)
        parts = [
            Section(
                "coefficients",
                "Coefficients",
                [coefficients_table(fit), *_forest(fit, f"{key}-coefficients")],
            ),
            self._ratios(f"{key}-odds"),
            _residuals(fit, f"{key}-mosaic"),
        ]
        shown = [part for part in parts if not part.is_empty]
        return Section(key, f"Model {fit.generating_class}", blocks, shown)

    def _ratios(self, key: str) -> Section:
        frame, title = self.odds_ratios, "Odds ratios"
        if not len(frame):
            return Section("odds_ratios", title)
        shown = frame.head(MAX_BARS)
        cut = f" The first {MAX_BARS} of {len(frame):,} are drawn." if len(frame) > MAX_BARS else ""
        caption = (
            "Odds ratios on a logarithmic scale: the thick part of each interval is what sampling "
            f"alone would leave, the thin part what the noise adds.{cut}"
        )
        picture = drawn(key, caption, lambda: plots.odds_ratios(shown))
        return Section("odds_ratios", title, [ratios_table(frame), picture])


def _unknown_ends(frame: pd.DataFrame) -> pd.Series:
    """The odds ratios, of which something is known, that lack an end of their interval."""
    return frame["log_or"].notna() & frame[["lower", "upper"]].isna().any(axis=1)


def _facts(fit: LogLinearResults) -> Iterator[Fact]:
    release = fit.model.release
    yield Fact("generating_class", "Generating class", fit.generating_class)
    yield Fact("fitted_to", "Fitted to", fit.model.fitted_to or "the whole release")
    yield Fact("method", "Method", method_text(fit))
    yield Fact("coding", "Coding", _coding(fit.model.coding), fit.model.coding)
    yield Fact("records", "Records", total_text(release), fit.n_total)
    yield Fact("llf", "Log-likelihood", f"{fit.llf:z.3f}", fit.llf)
    aic, bic = criteria(fit)
    yield Fact("aic", "AIC", aic.text, aic.value)
    yield Fact("bic", "BIC, with log n", bic.text, bic.value)
    converged = "yes" if fit.converged else f"NO: {fit.reason}"
    yield Fact("converged", "Converged", converged, fit.converged)


def _notes(fit: LogLinearResults) -> Iterator[str]:
    for test, note in fit.gof().notes.items():
        yield f"Goodness of fit, {test}: {note}"
    if not fit.existence.exists:
        yield fit.existence.reason
    if not fit.maximises_likelihood:
        yield _NO_CRITERION


def _coding(coding: str) -> str:
    if coding == "treatment":
        return "treatment: T.x compares level x with the first level of its factor"
    return "sum to zero: S.x compares level x with the mean over the levels of its factor"


def _forest(fit: LogLinearResults, key: str) -> list[Block]:
    """The coefficients drawn, but for the intercept."""
    names = [name for name in fit.params.index if name != "Intercept"]
    if not names:
        return []
    cut = f" The first {MAX_BARS} of {len(names):,} are drawn." if len(names) > MAX_BARS else ""
    caption = (
        "The thick part of each interval is what sampling alone would leave, the thin part what "
        f"the noise adds.{cut}"
    )
    return [drawn(key, caption, lambda: plots.coefficients(fit, cols=names[:MAX_BARS]))]


def _count_ratios(fit: LogLinearResults) -> int:
    """How many odds ratios a fit has, without computing any."""
    domain, associations = fit.model.release.domain, fit.model.associations
    out = 0
    for pair in associated_pairs(domain.names, associations, None, None):
        depends = depends_on(domain.names, associations, pair)
        levels = [len(domain.levels[name]) - 1 for name in pair]
        out += math.prod(levels) * math.prod(len(domain.levels[name]) for name in depends)
    return out


def _residuals(fit: LogLinearResults, key: str) -> Section:
    """The mosaic with the model's residuals, and the largest of these."""
    if not has_cells(fit):
        return Section("residuals", "Residuals")
    blocks: list[Block] = []
    if len(fit.model.release.domain.names) <= plots.MAX_FACTORS:
        caption = (
            "Areas are proportional to the released cells; shades are Pearson residuals from this "
            "model, which allow for the noise."
        )
        blocks.append(drawn(key, caption, lambda: plots.mosaic(fit)))
    largest = residuals_table(fit)
    if largest is not None:
        blocks.append(largest)
    return Section("residuals", "Residuals", blocks)
