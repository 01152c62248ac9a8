"""Tables of tests of nested models, and how they are printed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from dpcontingency._labels import on_one_line
from dpcontingency.inference.printing import WIDTH, broken, pvalue_text
from dpcontingency.inference.pvalues import How, Tail

MAX_NAMES = 10  # in a note
NOT_ADJUSTED = "Each p-value is of one test, and not adjusted for the number of tests."


@dataclass(frozen=True, eq=False, repr=False)
class ModelTable:
    """Tests of nested models, as a table to compute with and a page to read.

    Attributes
    ----------
    title : str
        What is compared with what.
    table : pandas.DataFrame
        A row a model or a term. Likelihood ratios are referred to chi-square by its upper tail, or
        to a bootstrap; they account for sampling and for the noise of the release. A p-value is
        nan where there is nothing to test or chi-square does not hold, and the reason is in
        ``notes`` if there is one.
    notes : tuple of str
        What a reader must know beside the numbers.
    n_boot : int or None
        Bootstrap replicates behind each p-value, of which 1 / (n_boot + 1) is the least: a bound.
        None for chi-square.
    """

    title: str
    table: pd.DataFrame
    notes: tuple[str, ...]
    n_boot: int | None = None

    def summary(self) -> str:
        """The table and its notes as text, 78 columns wide."""
        lines = [
            *textwrap.wrap(on_one_line(self.title), WIDTH),
            *table_lines(self.table, self.n_boot),
        ]
        return "\n".join([*lines, *note_lines(self.notes)])

    def __repr__(self) -> str:
        return self.summary()


class GoodnessOfFit(pd.DataFrame):
    """Tests of a model against the saturated one, with what a reader must know in ``notes``.

    Made by `LogLinearResults.gof`. Parts of it are plain data frames.

    Attributes
    ----------
    notes : dict of str to str
        By test: why it has no p-value and how to get one, what is doubtful about it, or where it is
        from. A test of which there is nothing to say is not in it.
    n_boot : int or None
        Bootstrap replicates behind each p-value; None for chi-square.
    """

    _metadata: ClassVar[list[str]] = ["notes", "n_boot"]
    notes: dict[str, str] = {}  # noqa: RUF012 (pandas keeps it by object)
    n_boot: int | None = None

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def summary(self) -> str:
        """The tests and the notes as text, 78 columns wide."""
        formats = FORMATS | {"pvalue": lambda p: pvalue_text(p, self.n_boot)}
        notes = [f"{name}: {note}" for name, note in self.notes.items()]
        return "\n".join([*_lines(pd.DataFrame(self), formats), *note_lines(notes)])

    def __repr__(self) -> str:
        return self.summary()


def test_notes(result: Any, how: How) -> tuple[str, ...]:
    """Where the p-values come from, what they account for, and what AIC and BIC are of."""
    source = "chi-square, upper tail"
    if how.replicates is not None:
        least = pvalue_text(1 / (how.replicates + 1), how.replicates)
        source = (
            f"parametric bootstrap of table and noise, {how.replicates:,} replicates, seed "
            f"{how.rng}; {least} is a bound, the least that these can give"
        )
    if result.model.release.noise.is_exact:
        return (f"P-values: {source}. They account for sampling; there is no noise.",)
    return (
        f"P-values: {source}. They account for sampling and for the noise of the "
        "release. AIC and BIC are of the likelihood of the released table: use differences only.",
    )


def tail_notes(tails: Iterable[tuple[str, Tail]]) -> list[str]:
    """Why some of the named tests have no p-value, or a doubtful one, a note for each reason."""
    found: dict[str, list[str]] = {}
    for name, tail in tails:
        why = [f"no p-value, because {tail.reason}."] if tail.reason else []
        for text in (*why, *tail.notes):
            found.setdefault(text, []).append(name)
    return [f"{listed(names)}: {text}" for text, names in found.items()]


def listed(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


test_notes.__test__ = False  # type: ignore[attr-defined]  # no test case for pytest


def infinity_notes(results: Sequence[Any]) -> list[str]:
    """Which models have estimates at infinity; their likelihood is a limit."""
    lost = [result.generating_class for result in results if not result.existence.exists]
    if not lost:
        return []
    return [
        "Some estimates are at infinity, where the log-likelihood is the limit, or left open, in "
        + ", ".join(dict.fromkeys(lost))
        + ". The chi-square law is less sure there; result.existence names the parameters."
    ]


def face_notes(results: Sequence[Any]) -> list[str]:
    """Which models are tested on fewer cells than the table has, because of zeros."""
    fewer = [r.generating_class for r in results if r.model.face.sum() < r.model.n_cells]
    if not fewer:
        return []
    return [
        f"The df of {', '.join(dict.fromkeys(fewer))} are adjusted for zeros: a test of a model "
        "counts the cells to which it gives a positive mean (its facial set), and of both models "
        "the parameters that these tell apart. In a comparison AIC and BIC count the same."
    ]


FORMATS: dict[str, Callable[[float], str]] = {
    "aic": "{:z.2f}".format,
    "bic": "{:z.2f}".format,
    "lr": "{:z.3f}".format,
    "statistic": "{:z.3f}".format,
    "df": "{:z.0f}".format,
    "lr_diff": "{:z.3f}".format,
    "df_diff": "{:z.0f}".format,
}
SHORT = "{:.5g}".format


def table_lines(frame: pd.DataFrame, n_boot: int | None = None) -> list[str]:
    """The numbers of a table as lines of at most 78 columns.

    Labels that make them too long come below; where that is not enough decimals are left out.
    """
    printed = frame.drop(columns="generating_class", errors="ignore").rename_axis(None)
    printed = printed.set_axis([on_one_line(str(label)) for label in printed.index])
    below: list[str] = []
    tails = dict.fromkeys(("pvalue", "pvalue_diff"), lambda p: pvalue_text(p, n_boot))
    formats = FORMATS | tails
    lines = _lines(printed, formats)
    if max(map(len, lines)) > WIDTH:
        numbers = [str(i) for i in range(1, len(printed) + 1)]
        for number, label in zip(numbers, printed.index, strict=True):
            below += broken(f"{number}: {label}", "]", "   ")
        printed = printed.set_axis(numbers)
        lines = _lines(printed, formats)
    if max(map(len, lines)) > WIDTH:
        lines = _lines(printed, formats | dict.fromkeys(("aic", "bic", "lr", "lr_diff"), SHORT))
    return [*(line.rstrip() for line in lines), *below]


def _lines(frame: pd.DataFrame, formats: dict[str, Callable[[float], str]]) -> list[str]:
    used = {name: formats[name] for name in frame.columns if name in formats}
    return frame.to_string(formatters=used, na_rep="").split("\n")


def note_lines(notes: Sequence[str]) -> list[str]:
    """Numbered notes, wrapped."""
    return [
        line
        for i, note in enumerate(notes, 1)
        for line in textwrap.wrap(f"[{i}] {on_one_line(note)}", WIDTH, subsequent_indent="    ")
    ]
