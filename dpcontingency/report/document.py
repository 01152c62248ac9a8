"""A release and what was learnt from it, as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from dpcontingency.errors import DomainError, ReleaseError
from dpcontingency.inference.naive import noise_ignored
from dpcontingency.inference.printing import method_text, pvalue_text, total_text
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.testresult import TestResult
from dpcontingency.privacy.neighbours import ADD_REMOVE, REPLACE_ONE
from dpcontingency.release import files
from dpcontingency.release.release import Release
from dpcontingency.report import plots
from dpcontingency.report.reproduction import code_for
from dpcontingency.report.tables import (
    Table,
    cells_table,
    coefficients_table,
    comparison_table,
    gof_table,
    loss_table,
    margins_refused,
    margins_table,
)
from dpcontingency.report.words import (
    columns_in_words,
    model_in_words,
    naive_in_words,
    not_protected,
    number_of,
    protection,
    records_of,
)

_NEIGHBOURS = {
    REPLACE_ONE: "data sets that differ in the value of one record",
    ADD_REMOVE: "data sets that differ by the presence of one record",
}
_PROVENANCE = {"noise": "Noise drawn as", "source": "Source"}
_MARGINS = (
    "Sampling SD is how much a cell would vary between samples of this size without any noise "
    "(multinomial, or Poisson where the number of records is not public), at the released value. "
    "The last column is the noise's part of the sum of both variances: near 0 %, the noise costs "
    "little; near 100 %, it is nearly all that is seen."
)
_ERRORS = (
    "Standard errors, intervals and p-values allow for sampling and for the noise of the release: "
    "total SE² = sampling SE² + privacy SE², and the privacy share is the noise's part of it. AIC "
    "and BIC are those of the likelihood of the released table; only their differences between "
    "models of this release mean anything."
)

_TEMPLATES = Environment(
    loader=PackageLoader("dpcontingency", "report/templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Picture:
    """An inline SVG and the sentence under it."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Entry:
    """A test or a model as printed."""

    title: str
    facts: Sequence[tuple[str, str]]
    tables: Sequence[Table] = ()
    words: Sequence[str] = ()
    notes: Sequence[str] = ()
    picture: Picture | None = field(default=None)


def write_report(
    release: Release,
    path: str | Path,
    *,
    models: Sequence[LogLinearResults] = (),
    tests: Sequence[TestResult] = (),
    title: str | None = None,
) -> None:
    """Write one self-contained HTML file about a release and what was learnt from it.

    Parameters
    ----------
    release : Release
        The release.
    path : str or path
        Where to write; an existing file is replaced, whole or not at all.
    models : sequence of LogLinearResults
        Fitted models of this release, in the order in which to show them.
    tests : sequence of TestResult
        Tests on this release.
    title : str, optional
        The heading; by default the factors of the table.

    Raises
    ------
    ReleaseError
        If the folder does not exist or is not writable, or a model or test is not of this
        release.

    Notes
    -----
    The file holds its own style and pictures and asks nothing of the network; it follows dark
    mode and prints. Every number in it comes from the release, the models or the tests; there is
    no clock and no machine name in it, so the same input gives the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.from_noisy_table([[31.5, -1.2], [17.7, 25.2]], domain, sigma=2.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(release, f"{folder}/report.html")
    """
    files.write_text(path, render(release, models=models, tests=tests, title=title))


def render(
    release: Release,
    *,
    models: Sequence[LogLinearResults] = (),
    tests: Sequence[TestResult] = (),
    title: str | None = None,
) -> str:
    """The text of the report; see `write_report`."""
    _check(release, models, tests)
    crossed = " × ".join(release.domain.names)
    return _TEMPLATES.get_template("report.html.j2").render(
        title=title or f"Contingency table {crossed}",
        lead=_lead(release),
        warning=_not_private(release),
        facts_of_release=_facts(release),
        learnt=protection(release) if release.private else [],
        loss=loss_table(release) if release.private and release.privacy else None,
        open=not_protected(release) if release.private else [],
        columns=columns_in_words(release),
        cells=cells_table(release),
        margins=margins_table(release),
        margins_in_words=_MARGINS,
        margins_refused=margins_refused(release),
        picture=_picture(release, "mosaic", release, "mutual independence of all factors"),
        max_factors=plots.MAX_FACTORS,
        tests=[_test_entry(test) for test in tests],
        comparison=comparison_table(models) if len(models) > 1 else None,
        errors_in_words=_ERRORS,
        models=[_model_entry(fit, number) for number, fit in enumerate(models, 1)],
        version=version("dpcontingency"),
        code=code_for(release, models, tests),
    )


# ------------------------------------------------------------------ the release


def _lead(release: Release) -> str:
    cells = int(release.domain.possible().sum())
    return f"{number_of(cells, 'cell')}, {records_of(release)}"


def _not_private(release: Release) -> str:
    """What the banner says of a table that protects nobody."""
    if release.origin == "exact":
        return "NOT PRIVATE: these are exact counts, without noise. Do not publish this report."
    if release.origin == "simulated":
        return (
            "NOT PRIVATE: the noise of this table came from a seeded generator, for simulation "
            "or teaching. Whoever knows the seed can remove it."
        )
    if not release.domain.is_public:
        return (
            "NOT PRIVATE: the levels were read off the records, so they show which values occur. "
            "The noise protects the counts only."
        )
    if not release.private:
        return "NOT PRIVATE: this table carries no noise."
    return ""


def _facts(release: Release) -> list[tuple[str, str]]:
    """What was released and how, as labelled facts."""
    levels = release.domain.levels
    shape = ", ".join(f"{name} ({len(levels[name])})" for name in release.domain.names)
    said = release.statement()
    if release.neighbours is not None:
        same = f", with the same {', '.join(release.strata)}" if release.strata else ""
        said["Neighbours"] = f"{release.neighbours}: {_NEIGHBOURS[release.neighbours]}{same}"
    if release.private and release.privacy is not None:
        del said["Privacy"]  # the table of losses says it
    out = [("Factors (levels)", shape), *said.items()]
    if release.mechanism is not None:
        out.append(("Mechanism", repr(release.mechanism)))
    out += [
        (_PROVENANCE.get(key, key), str(value))
        for key, value in release.provenance.items()
        if key != "missing"  # the statement says it
    ]
    return out


def _picture(
    release: Release, prefix: str, drawn: Release | LogLinearResults, model: str
) -> Picture | None:
    """The mosaic plot of a release or of a model of it; None where it has too many factors."""
    if len(release.domain.names) > plots.MAX_FACTORS:
        return None
    figure = Figure(figsize=plots.figure_size(release.domain))
    plots.mosaic(drawn, ax=plots.blank(figure))
    empty = int((release.noisy <= 0).sum())
    words = "Areas are proportional to the released cells."
    if plots.shading(drawn)[1] is not None:
        words += f" Shades are Pearson residuals from {model}, which allow for the noise."
    if empty:
        words += f" A mark stands for each cell without area: {number_of(empty, 'cell')}."
    label = f"Mosaic plot of {', '.join(release.domain.names)}. {words}"
    return Picture(plots.svg(figure, label, prefix), words)


# ------------------------------------------------------------------ tests and models


def _test_entry(test: TestResult) -> Entry:
    facts = [("Null hypothesis", test.null), ("Statistic", test.method)]
    if test.reason:
        facts.append(("Not done, because", test.reason))
        return Entry(f"{test.name.capitalize()}: {test.null}", facts, notes=test.notes)
    facts += [("P-value from", test.calibration), ("Accounts for", " and ".join(test.accounts_for))]
    naive = noise_ignored(test)
    if naive is not None:
        facts.append(("If the noise were ignored", naive_in_words(naive)))
    row = [f"{test.statistic:.4f}", str(test.df), pvalue_text(test.pvalue)]
    table = Table("Result", ["Statistic", "Df", "P-value"], [row], 0)
    return Entry(f"{test.name.capitalize()}: {test.null}", facts, [table], notes=test.notes)


def _model_entry(fit: LogLinearResults, number: int) -> Entry:
    release = fit.model.release
    facts = [
        ("Generating class", fit.generating_class),
        ("Method", method_text(fit)),
        ("Coding", _coding(fit.model.coding)),
        ("Records", total_text(release)),
        ("Log-likelihood", f"{fit.llf:.3f}"),
        ("AIC", f"{fit.aic:.2f}"),
        ("BIC, with log n", f"{fit.bic:.2f}"),
        ("Converged", "yes" if fit.converged else f"NO: {fit.reason}"),
    ]
    notes = [] if fit.existence.exists else [fit.existence.reason]
    return Entry(
        f"Model {fit.generating_class}",
        facts,
        [gof_table(fit), coefficients_table(fit)],
        model_in_words(fit.generators, release.domain.names, fit.model.special),
        notes,
        _picture(release, f"model{number}", fit, "this model"),
    )


def _coding(coding: str) -> str:
    if coding == "treatment":
        return "treatment: T.x compares level x with the first level of its factor"
    return "sum to zero: S.x compares level x with the mean over the levels of its factor"


# ------------------------------------------------------------------ small parts


def _check(
    release: Release, models: Sequence[LogLinearResults], tests: Sequence[TestResult]
) -> None:
    if not isinstance(release, Release):
        raise ReleaseError(f"A report is written about a Release; got {type(release).__name__}.")
    for model in models:
        if not isinstance(model, LogLinearResults):
            raise ReleaseError(
                f"`models` holds the results of fits; got {type(model).__name__}. Call .fit() on "
                "a LogLinearModel first."
            )
    for test in tests:
        if not isinstance(test, TestResult):
            raise ReleaseError(f"`tests` holds TestResult objects; got {type(test).__name__}.")
    fits = [*models, *(test.null_fit for test in tests if test.null_fit is not None)]
    for fit in fits:
        if not _is_part_of(fit.model.release, release):
            raise ReleaseError(
                f"The model {fit.generating_class} was fitted to another release. A report is "
                "about one release and what was learnt from it."
            )


def _is_part_of(part: Release, release: Release) -> bool:
    """Whether a release is another one or a margin of it."""
    try:
        margin = release.margin(*part.domain.names)
    except DomainError:
        return False
    same = margin.domain == part.domain
    return same and np.allclose(margin.noisy, part.noisy, rtol=1e-9, atol=1e-9)
