"""A release and what was learnt from it, as a document in one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from dpcontingency import _writing
from dpcontingency.errors import ReleaseError, shown
from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.testresult import TestResult
from dpcontingency.privacy.stamp import NOT_PRIVATE
from dpcontingency.report.findings import Findings, tests_section
from dpcontingency.report.guarantee import guarantee
from dpcontingency.report.html import html
from dpcontingency.report.kinds import Kind, kind_of
from dpcontingency.report.machine import machine
from dpcontingency.report.markdown import markdown
from dpcontingency.report.parts import Document
from dpcontingency.report.reproduction import reproduction
from dpcontingency.report.sections import (
    associations_section,
    gaps_section,
    margins_section,
    overview_of,
    protection_section,
)
from dpcontingency.report.words import size_of

LONGEST_TITLE = 8  # factors in a heading

RENDERERS: dict[str, Callable[[Document], str]] = {
    ".html": html,
    ".md": markdown,
    ".json": machine,
}


def write_report(
    release: AnyRelease,
    path: str | Path,
    *,
    models: Sequence[LogLinearResults] = (),
    tests: Sequence[TestResult] = (),
    chosen: LogLinearResults | None = None,
    title: str | None = None,
) -> None:
    """Write one file about a release and what was learnt from it.

    Parameters
    ----------
    release : Release or MarginRelease
        The release.
    path : str or path
        Where to write; an existing file is replaced, whole or not at all. Its suffix is the
        format: ``.html``; ``.md``, Markdown with the tables and without the pictures; ``.json``,
        for programs.
    models : sequence of LogLinearResults
        Fitted models of this release, in the order in which to show them.
    tests : sequence of TestResult
        Tests on this release.
    chosen : LogLinearResults, optional
        The model to show in full, with odds ratios and residuals; by default the last one.
    title : str, optional
        The heading; by default the factors of the table.

    Raises
    ------
    ReleaseError
        If the suffix is none of these, the folder does not exist or is not writable, or a model
        or test is not of this release.

    Notes
    -----
    The HTML file holds its own style and pictures and asks nothing of the network; it follows
    dark mode and prints. Every number comes from the release, the models or the tests; there is
    no clock and no machine name, so the same input gives the same bytes. Long tables are cut at
    200 rows, and say so.

    Examples
    --------
    >>> import tempfile
    >>> from dpcontingency.domain import Domain
    >>> from dpcontingency.release.release import Release
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> release = Release.from_noisy_table([[31.5, -1.2], [17.7, 25.2]], domain, sigma=2.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(release, f"{folder}/report.html")
    ...     write_report(release, f"{folder}/report.md")
    """
    renderer = renderer_of(path)
    made = document_of(release, models=models, tests=tests, chosen=chosen, title=title)
    _writing.write_text(path, renderer(made))


def render(
    release: AnyRelease,
    suffix: str = ".html",
    *,
    models: Sequence[LogLinearResults] = (),
    tests: Sequence[TestResult] = (),
    chosen: LogLinearResults | None = None,
    title: str | None = None,
) -> str:
    """The text of the report; see `write_report`."""
    made = document_of(release, models=models, tests=tests, chosen=chosen, title=title)
    return RENDERERS[suffix](made)


def document_of(
    release: AnyRelease,
    *,
    models: Sequence[LogLinearResults] = (),
    tests: Sequence[TestResult] = (),
    chosen: LogLinearResults | None = None,
    title: str | None = None,
) -> Document:
    """The report before it is printed; see `write_report`."""
    kind = kind_of(release)
    _check(kind, models, tests, chosen)
    findings = Findings(models, chosen or (models[-1] if models else None))
    overview, left_out = overview_of(release)
    sections = [
        protection_section(kind),
        kind.released(),
        margins_section(kind),
        *kind.picture(),
        associations_section(overview, left_out),
        *([tests_section(tests)] if tests else []),
        *([findings.section()] if models else []),
        gaps_section(kind, overview, tests, findings),
        guarantee(release),
        reproduction(kind, models, tests, findings.chosen, title),
    ]
    names = release.domain.names
    what = kind.of(names) if len(names) <= LONGEST_TITLE else f"of {len(names)} factors"
    return Document(
        title=title or f"Contingency {kind.noun} {what}",
        lead=size_of(release),
        warning=_not_private(release),
        version=version("dpcontingency"),
        sections=sections,
    )


def _not_private(release: AnyRelease) -> str:
    """What the banner says of a table that protects nobody."""
    if release.private:
        return ""
    if release.noise.is_exact:
        return f"{NOT_PRIVATE}: these are exact counts, without noise. Do not publish this report."
    if "samples" in getattr(release, "provenance", {}):
        return f"{release.statement()['Privacy']}."
    if release.origin == "simulated":
        return (
            f"{NOT_PRIVATE}: the noise of this table came from a seeded generator, for simulation "
            "or teaching. Whoever knows the seed can remove it."
        )
    return (
        f"{NOT_PRIVATE}: the levels were read off the records, so they show which values occur. "
        "The noise protects the counts only."
    )


# ------------------------------------------------------------------ what is asked for


def renderer_of(path: str | Path) -> Callable[[Document], str]:
    """What writes a file of this suffix.

    Raises
    ------
    ReleaseError
        If nothing does.
    """
    if not isinstance(path, str | Path):
        raise ReleaseError(f"A file is given by its path, a text or a Path; got {shown(path)}.")
    suffix = Path(path).suffix.lower()
    if suffix not in RENDERERS:
        raise ReleaseError(
            f"A report is an .html, .md or .json file, as its suffix says; got {str(path)!r}. "
            "Name the file report.html, report.md or report.json."
        )
    return RENDERERS[suffix]


def _check(
    kind: Kind,
    models: Sequence[LogLinearResults],
    tests: Sequence[TestResult],
    chosen: LogLinearResults | None,
) -> None:
    for model in models:
        if not isinstance(model, LogLinearResults):
            raise ReleaseError(
                f"`models` holds the results of fits; got {type(model).__name__}. Call .fit() on "
                "a LogLinearModel first."
            )
    for test in tests:
        if not isinstance(test, TestResult):
            raise ReleaseError(f"`tests` holds TestResult objects; got {type(test).__name__}.")
    if chosen is not None and not any(chosen is model for model in models):
        raise ReleaseError("`chosen` is one of `models`; put it there too, or leave it out.")
    fits = [*models, *(test.null_fit for test in tests if test.null_fit is not None)]
    for fit in fits:
        if not kind.has(fit.model.release):
            raise ReleaseError(
                f"The model {fit.generating_class} was fitted to another release. A report is "
                "about one release and what was learnt from it."
            )
