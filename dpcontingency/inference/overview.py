"""The association of every pair of factors of a release, at a glance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpcontingency._labels import on_one_line
from dpcontingency.errors import ModelError, ReleaseError, check_alpha
from dpcontingency.inference.calibration import chi_square
from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.inference.loglinear import check_release
from dpcontingency.inference.printing import pvalue_text
from dpcontingency.inference.saturated import MAX_CELLS, TwoFactors
from dpcontingency.inference.strength import (
    NO_RECORDS,
    Contingency,
    obstacle,
    v,
    with_interval,
)
from dpcontingency.inference.tables import NOT_ADJUSTED, listed, note_lines
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release

Array = npt.NDArray[np.float64]

COLUMNS = ["row", "column", "estimate", "lower", "upper", "statistic", "df", "pvalue", "reason"]


class AssociationOverview(pd.DataFrame):
    """A row a pair of factors, with what a reader must know in ``notes``.

    Made by `association_overview`. Parts of it are plain data frames.

    Attributes
    ----------
    notes : tuple of str
        What the numbers are, and that no p-value is adjusted.
    """

    _metadata: ClassVar[list[str]] = ["notes"]
    notes: tuple[str, ...] = ()

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def copy(self, deep: bool = True) -> AssociationOverview:  # type: ignore[misc]
        """The same, notes and all; a deep copy shares no numbers with it."""
        out = AssociationOverview(super().copy(deep))
        out.notes = self.notes
        return out

    def summary(self) -> str:
        """The rows and the notes as text."""
        shown = pd.DataFrame(self).rename(columns={"estimate": "V"})
        for name in ("row", "column", "reason"):
            shown[name] = shown[name].map(on_one_line)
        shown = shown.set_index(["row", "column"])
        if not shown["reason"].any():
            shown = shown.drop(columns="reason")
        formats: dict[str, Callable[[float], str]] = dict.fromkeys(
            ["V", "lower", "upper", "statistic"], "{:z.3f}".format
        )
        formats["pvalue"] = pvalue_text
        lines = shown.reset_index().to_string(index=False, formatters=formats, na_rep="")
        return "\n".join([lines if len(shown) else "No pairs of factors.", *note_lines(self.notes)])

    def __repr__(self) -> str:
        return self.summary()


def association_overview(
    release: AnyRelease,
    pairs: Iterable[tuple[str, str]] | None = None,
    *,
    alpha: float = 0.05,
) -> AssociationOverview:
    """Cramer's V and a test of independence for each pair of factors.

    Parameters
    ----------
    release : Release or MarginRelease
        The noisy table; of released margins, the pairs that lie in one of them together.
    pairs : iterable of (str, str), optional
        The pairs to look at; all by default.
    alpha : float
        1 - the level of the intervals.

    Returns
    -------
    DataFrame
        A row a pair: ``row`` and ``column``, two factors; ``estimate``, ``lower`` and ``upper`` of
        Cramer's V, corrected for the noise; ``statistic``, ``df`` and ``pvalue`` of the noise-aware
        score test of independence, by the upper tail of chi-square; ``reason`` why a number is nan,
        else empty. The interval of a pair of which the data tell nothing is 0 to 1. Its ``notes``
        say that no p-value is adjusted for the number of pairs.

    Raises
    ------
    ModelError
        If this is no release, or alpha is none.
    DomainError, PrivacyError
        If a pair that is asked for is none of this release.

    Notes
    -----
    The rows are those of `cramers_v` and of ``independence_test(release, row, column,
    statistic="score", pvalue="asymptotic")``, for there is no bootstrap: the score test holds its
    size where other statistics need one, and takes about 20 ms a pair.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"], "C": ["x", "y"]})
    >>> counts = np.array([[[30, 10], [12, 28]], [[25, 15], [35, 45]]])
    >>> association_overview(Release.exact(counts, domain))
    row column     V lower upper statistic  df   pvalue
      A      B 0.167 0.023 0.305     5.556   1   0.0184
      A      C 0.024 0.000 0.157     0.120   1   0.7290
      B      C 0.290 0.151 0.429    16.810   1 4.13e-05
    [1] V is Cramer's, and the test the score test of independence, by chi-square.
        Intervals (95 %) and p-values account for sampling; there is no noise.
    [2] Each p-value is of one test, and not adjusted for the number of tests.
        Tests: 3.
    [3] NOT PRIVATE: exact counts, no noise.
    """
    check_alpha(alpha)
    check_release(release)
    known = list(pairs_of(release))
    rough: list[str] = []
    rows = [
        _row(release, row, column, alpha, rough)
        for row, column in (known if pairs is None else pairs)
    ]
    out = AssociationOverview(pd.DataFrame(rows, columns=COLUMNS).astype({"df": np.int64}))
    tests = int(out["pvalue"].notna().sum())
    out.notes = (*_notes(release, tests, len(known), alpha), *_rough(rough), *_too_good(out))
    return out


def _rough(pairs: Sequence[str]) -> Iterator[str]:
    """That some p-values may be too large, where cells are faint."""
    if pairs:
        yield (
            f"The test of {listed(pairs)} may be conservative: a fitted cell is within noise of 0. "
            "independence_test gives the bootstrap's p-value."
        )


def _too_good(overview: pd.DataFrame) -> Iterator[str]:
    """What an interval that ends at its estimate means: at most alpha / 2 of independent pairs."""
    ended = overview[(overview["upper"] <= overview["estimate"]) & (overview["estimate"] < 1)]
    if len(ended):
        pairs = ", ".join(f"{row} and {column}" for row, column in ended[["row", "column"]].values)
        yield (
            f"The statistic of {pairs} is in the lower tail even of independence, so the interval "
            "ends at the estimate: a fit too good says nothing of how small an association is."
        )


@singledispatch
def pairs_of(release: object) -> Iterator[tuple[str, str]]:
    """The pairs of factors that something is known of together."""
    raise ModelError(
        f"An overview is of a Release or a MarginRelease; got {type(release).__name__}. A noisy "
        "table made elsewhere enters by Release.from_noisy_table."
    )


@pairs_of.register
def _(release: Release) -> Iterator[tuple[str, str]]:
    return combinations(release.domain.names, 2)


@pairs_of.register
def _(release: MarginRelease) -> Iterator[tuple[str, str]]:
    pairs = combinations(release.domain.names, 2)
    return (pair for pair in pairs if any(set(pair) <= set(m) for m in release.margins))


@dataclass(frozen=True)
class _Strength:
    """Cramer's V with its interval, or why there is none."""

    ends: tuple[float, float, float] = (math.nan,) * 3
    reason: str = ""


def _row(
    release: AnyRelease, row: str, column: str, alpha: float, rough: list[str]
) -> tuple[Any, ...]:
    """What stands in one row of the overview; a pair whose test is conservative joins the rough."""
    try:
        pair: Any = release.margin(row, column)
        if not pair.noise.is_exact and {row, column} <= set(pair.strata):
            raise ModelError("their joint margin is public, so there is nothing to estimate")
        if pair.domain.size > MAX_CELLS:
            raise ModelError(f"their table has {pair.domain.size:,} cells, more than {MAX_CELLS:,}")
        test = independence_test(pair, row, column, statistic="score", pvalue="asymptotic")
        if test.null_fit is not None and chi_square("score", test.null_fit).direction:
            rough.append(f"{row} and {column}")
        strength = _strength(pair, alpha)
    except (ModelError, ReleaseError) as error:
        nothing = (math.nan,) * 3
        return (row, column, *nothing, math.nan, 0, math.nan, str(error).rstrip("."))
    reasons = dict.fromkeys(filter(None, [strength.reason, test.reason]))
    return (
        row, column, *strength.ends, test.statistic, test.df, test.pvalue, "; ".join(reasons),
    )  # fmt: skip


def _strength(pair: AnyRelease, alpha: float) -> _Strength:
    """Cramer's V of the margin of two factors."""
    row, column = pair.domain.names
    about = TwoFactors.of(pair, row, column, (), alpha)
    if reason := obstacle(about):
        return _Strength(reason=reason)
    of = Contingency.of(about)
    if not of.df:
        return _Strength((math.nan, 0.0, 1.0), NO_RECORDS)
    _, _, (lower, value, upper) = with_interval(about, of, v)
    return _Strength((value, lower, upper))


def _notes(release: AnyRelease, tests: int, known: int, alpha: float) -> Iterator[str]:
    covers = (
        "sampling; there is no noise"
        if release.noise.is_exact
        else "sampling and for the noise of the release"
    )
    yield (
        "V is Cramer's, and the test the score test of independence, by chi-square. Intervals "
        f"({100 * (1 - alpha):g} %) and p-values account for {covers}."
    )
    yield f"{NOT_ADJUSTED} Tests: {tests:,}."
    unseen = math.comb(len(release.domain.names), 2) - known
    if unseen:
        yield f"Pairs that lie in no released margin together: {unseen:,}."
    if not release.private:
        yield f"{release.statement()['Privacy']}."
