"""Tables of tests of nested models, and how they are printed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpcontingency.inference.printing import WIDTH, broken, pvalue_text

NOT_ADJUSTED = "Each p-value is of one test, and not adjusted for the number of tests."


@dataclass(frozen=True, eq=False, repr=False)
class ModelTable:
    """Tests of nested models, as a table to compute with and a page to read.

    Attributes
    ----------
    title : str
        What is compared with what.
    table : pandas.DataFrame
        A row a model or a term. Likelihood ratios are referred to chi-square by its upper tail;
        they account for sampling and for the noise of the release. A p-value is nan where there
        is nothing to test, and the reason is in ``notes`` if there is one.
    notes : tuple of str
        What a reader must know beside the numbers.
    """

    title: str
    table: pd.DataFrame
    notes: tuple[str, ...]

    def summary(self) -> str:
        """The table and its notes as text, 78 columns wide."""
        lines = [*textwrap.wrap(self.title, WIDTH), *table_lines(self.table)]
        return "\n".join([*lines, *note_lines(self.notes)])

    def __repr__(self) -> str:
        return self.summary()


def test_notes(result: Any) -> tuple[str, ...]:
    """What the p-values account for, and what AIC and BIC are of."""
    if result.model.release.noise.is_exact:
        return ("P-values: chi-square, upper tail. They account for sampling; there is no noise.",)
    return (
        "P-values: chi-square, upper tail. They account for sampling and for the noise of the "
        "release. AIC and BIC are of the likelihood of the released table: use differences only.",
    )


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
    "df": "{:z.0f}".format,
    "pvalue": pvalue_text,
    "lr_diff": "{:z.3f}".format,
    "df_diff": "{:z.0f}".format,
    "pvalue_diff": pvalue_text,
}
SHORT = "{:.5g}".format


def table_lines(frame: pd.DataFrame) -> list[str]:
    """The numbers of a table as lines of at most 78 columns.

    Labels that make them too long come below; where that is not enough decimals are left out.
    """
    printed = frame.drop(columns="generating_class", errors="ignore").rename_axis(None)
    below: list[str] = []
    lines = _lines(printed, FORMATS)
    if max(map(len, lines)) > WIDTH:
        numbers = [str(i) for i in range(1, len(printed) + 1)]
        for number, label in zip(numbers, printed.index, strict=True):
            below += broken(f"{number}: {label}", "]", "   ")
        printed = printed.set_axis(numbers)
        lines = _lines(printed, FORMATS)
    if max(map(len, lines)) > WIDTH:
        lines = _lines(printed, FORMATS | dict.fromkeys(("aic", "bic", "lr", "lr_diff"), SHORT))
    return [*(line.rstrip() for line in lines), *below]


def _lines(frame: pd.DataFrame, formats: dict[str, Callable[[float], str]]) -> list[str]:
    used = {name: formats[name] for name in frame.columns if name in formats}
    return frame.to_string(formatters=used, na_rep="").split("\n")


def note_lines(notes: Sequence[str]) -> list[str]:
    """Numbered notes, wrapped."""
    return [
        line
        for i, note in enumerate(notes, 1)
        for line in textwrap.wrap(f"[{i}] {note}", WIDTH, subsequent_indent="    ")
    ]
