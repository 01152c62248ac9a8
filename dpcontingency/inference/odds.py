"""Odds ratios of a fitted model, each said in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, product
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from dpcontingency.domain import label_text
from dpcontingency.errors import ModelError, did_you_mean, shown
from dpcontingency.inference.limits import LARGE_ERROR
from dpcontingency.inference.prediction import AT_INFINITY, IMPOSSIBLE, FittedCells
from dpcontingency.inference.wide import is_wide

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
Kind = Literal["conditional", "local"]

INDEX = ["row", "column", "at"]
OPEN = "cells above and below the line are at 0"
LEFT_OPEN = "the release tells next to nothing of it"

# An interval on the log scale where a standard error gives none that holds: combination, the sign
# of an infinite log odds ratio or 0, standard error -> ends.
Refitted = Callable[[Array, float, float], tuple[float, float]]
# Whether the release leaves a log odds ratio open: combination -> answer.
IsOpen = Callable[[Array], bool]


@dataclass(frozen=True)
class _Ratio:
    """One odds ratio: its labels and four flat cells, those of the numerator first."""

    row: str
    column: str
    at: str
    in_words: str
    cells: tuple[int, int, int, int]
    drift: float  # of its logarithm: 0 where finite, 1, -1, or nan where it cannot be told
    reason: str  # why it has no standard error; empty where it has one
    fixed: bool  # both factors in the strata: partly a public number


def odds_ratio_frame(
    cells: FittedCells,
    domain: Any,
    pairs: list[tuple[str, str]],
    generators: tuple[tuple[str, ...], ...],
    kind: Kind,
    alpha: float,
    refitted: Refitted,
    is_open: IsOpen,
    sampling: Array,
) -> pd.DataFrame:
    """The odds ratios of pairs of factors that a model associates; see `LogLinearResults`.

    ``sampling``, shape (q, q), is the covariance that ``cells`` would have with no noise.
    """
    ratios = [r for pair in pairs for r in _ratios(cells, domain, pair, generators, kind)]
    if not ratios:
        return no_odds_ratios()
    index = pd.MultiIndex.from_tuples([(r.row, r.column, r.at) for r in ratios], names=INDEX)
    drift = np.array([r.drift for r in ratios])
    places = np.array([r.cells for r in ratios])
    se = np.where(drift == 0, _standard_errors(cells, places), np.nan)
    alone = _standard_errors(replace(cells, covariance=sampling), places)
    reasons = [r.reason for r in ratios]
    for k in np.flatnonzero(drift == 0):
        if se[k] > LARGE_ERROR and is_open(_SIGNS @ cells.rows.of(places[k])):
            drift[k], reasons[k] = np.nan, LEFT_OPEN
    finite = drift == 0
    with np.errstate(divide="ignore", invalid="ignore"):
        log_means = np.log(cells.means[places])
        log_or = np.where(finite, log_means @ _SIGNS, np.where(drift > 0, np.inf, -np.inf))
    log_or[np.isnan(drift)] = np.nan
    se[~finite] = np.nan
    half = stats.norm.isf(alpha / 2) * se
    lower, upper = log_or - half, log_or + half
    for k in np.flatnonzero(~finite):
        if reasons[k] != IMPOSSIBLE:
            lower[k], upper[k] = -np.inf, np.inf
    for k in np.flatnonzero((np.abs(drift) == 1) | (finite & is_wide(se, alone))):
        if not ratios[k].fixed:
            combination = _SIGNS @ cells.rows.of(places[k])
            lower[k], upper[k] = refitted(combination, float(drift[k]), float(se[k]))
    frame = pd.DataFrame(
        {
            "odds_ratio": np.exp(log_or),
            "log_or": log_or,
            "se": se,
            "se_sampling": np.where(finite, alone, np.nan),
            "lower": np.exp(lower),
            "upper": np.exp(upper),
            "in_words": [r.in_words for r in ratios],
            "reason": reasons,
        },
        index=index,
    )
    frame.attrs["alpha"] = alpha
    return frame


def no_odds_ratios() -> pd.DataFrame:
    """The frame of a model that associates no two factors."""
    columns = [
        "odds_ratio", "log_or", "se", "se_sampling", "lower", "upper", "in_words", "reason",
    ]  # fmt: skip
    return pd.DataFrame(columns=columns, index=pd.MultiIndex.from_tuples([], names=INDEX))


_SIGNS = np.array([1.0, 1.0, -1.0, -1.0])


@dataclass(frozen=True)
class LogOddsRatio:
    """A log odds ratio, infinite or nan where its cells are at 0.

    Attributes
    ----------
    value, se : float
        The estimate and its standard error by the delta method, nan where it is not finite.
    combination : ndarray, shape (q,)
        Of the treatment-coded coefficients, whose value it is.
    """

    value: float
    se: float
    combination: Array


def log_odds_ratio(cells: FittedCells, candidates: Index, is_open: IsOpen) -> LogOddsRatio:
    """One odds ratio of a fit.

    Parameters
    ----------
    cells : FittedCells
        The fit.
    candidates : ndarray of int, shape (K, 4)
        Flat cells, those of the numerator first; one row for each place where the model makes
        the ratio the same. The row that says most about it is taken.
    is_open : callable
        Whether the release leaves a combination of coefficients open.
    """
    chosen, drift = _best(cells, candidates)
    places = np.array([chosen])
    combination = np.asarray(_SIGNS @ cells.rows.of(places[0]))
    if drift != 0:
        return LogOddsRatio(drift * np.inf, np.nan, combination)
    se = float(_standard_errors(cells, places)[0])
    if is_open(combination):
        return LogOddsRatio(np.nan, np.nan, combination)
    return LogOddsRatio(float(np.log(cells.means[places[0]]) @ _SIGNS), se, combination)


def associated_pairs(
    names: tuple[str, ...],
    generators: tuple[tuple[str, ...], ...],
    row: str | None,
    column: str | None,
) -> list[tuple[str, str]]:
    """The pairs of factors to compare: those that share a generator, or the one that is named.

    Raises
    ------
    ModelError
        If a name is no factor, both are the same, or the model leaves the named pair without an
        association.
    """
    for name in (row, column):
        if name is not None and name not in names:
            raise ModelError(f"{shown(name)} is no factor; {did_you_mean(str(name), names)}")
    if row is not None and row == column:
        raise ModelError(
            f"An odds ratio is of two factors; got {shown(row)} twice. Name one only for all pairs "
            "that it is in."
        )
    joined = {pair for g in generators for pair in combinations(sorted(g, key=names.index), 2)}
    wanted = [pair for pair in combinations(names, 2) if pair in joined]
    if row is None and column is None:
        return wanted
    named = {name for name in (row, column) if name is not None}
    wanted = [pair for pair in wanted if named <= set(pair)]
    if not wanted:
        what = " and ".join(map(repr, sorted(named, key=names.index)))
        raise ModelError(
            f"The model has no association that involves {what}, so those odds ratios are 1; add "
            "the factors to one generator to estimate them."
        )
    return [(b, a) if row == b or column == a else (a, b) for a, b in wanted]


def depends_on(
    names: Sequence[str], generators: Iterable[Sequence[str]], pair: tuple[str, str]
) -> list[str]:
    """The other factors, at whose levels the odds ratio of a pair may differ in a model."""
    shared = {name for g in generators if set(pair) <= set(g) for name in g}
    return [name for name in names if name in shared and name not in pair]


def _ratios(
    cells: FittedCells,
    domain: Any,
    pair: tuple[str, str],
    generators: tuple[tuple[str, ...], ...],
    kind: Kind,
) -> Iterator[_Ratio]:
    """The odds ratios of one pair, at each combination of levels that they depend on."""
    names = domain.names
    depends = depends_on(names, generators, pair)
    rest = [name for name in names if name not in pair and name not in depends]
    sizes = [len(domain.levels[name]) for name in (*pair, *depends)]
    order = [domain.axis(name) for name in (*pair, *depends, *rest)]
    table = np.arange(cells.means.size).reshape(domain.shape).transpose(order)
    table = table.reshape(sizes[0], sizes[1], int(np.prod(sizes[2:], dtype=int)), -1)
    labels = [[label_text(level) for level in domain.levels[name]] for name in pair]
    ats = [
        ", ".join(
            f"{name} = {label_text(level)}" for name, level in zip(depends, levels, strict=True)
        )
        for levels in product(*(domain.levels[name] for name in depends))
    ]
    strata = {names[axis] for axis in cells.strata or ()}
    for (i, k), (j, m) in product(*(_steps(size, kind) for size in sizes[:2])):
        four = np.stack([table[i, j], table[k, m], table[i, m], table[k, j]], axis=-1)
        for at, candidates in zip(ats, four, strict=True):
            chosen, drift = _best(cells, candidates)
            (one, other), (here, there) = (labels[0][i], labels[0][k]), (labels[1][j], labels[1][m])
            words = (
                f"odds of {pair[0]} = {one} rather than {other}, "
                f"for {pair[1]} = {here} relative to {there}"
            )
            yield _Ratio(
                row=f"{pair[0]}: {one} / {other}",
                column=f"{pair[1]}: {here} / {there}",
                at=at,
                in_words=words + (f", at {at}" if at else ""),
                cells=chosen,
                drift=drift,
                reason=_reason(bool(cells.possible[list(chosen)].all()), drift),
                fixed=set(pair) <= strata,
            )


def _steps(size: int, kind: Kind) -> list[tuple[int, int]]:
    """Pairs of levels: the first with each other one, or neighbours."""
    return list(pairwise(range(size))) if kind == "local" else [(0, k) for k in range(1, size)]


def _best(cells: FittedCells, candidates: Index) -> tuple[tuple[int, int, int, int], float]:
    """The four cells, among equivalent ones, that say most about the ratio; and its drift."""
    possible = cells.possible[candidates].all(axis=1)
    gone = cells.vanished[candidates]
    above, below = gone[:, :2].any(axis=1), gone[:, 2:].any(axis=1)
    vague = np.where(possible, above.astype(np.intp) + below.astype(np.intp), 3)
    best = int(vague.argmin())
    drift = np.nan if vague[best] > 1 else float(np.sign(below.astype(int) - above)[best])
    first, second, third, fourth = (int(cell) for cell in candidates[best])
    return (first, second, third, fourth), drift


def _reason(possible: bool, drift: float) -> str:
    """Why a ratio has no standard error; empty where it has one."""
    if not possible:
        return IMPOSSIBLE
    if np.isnan(drift):
        return OPEN
    return AT_INFINITY if drift else ""


def _standard_errors(cells: FittedCells, places: Index) -> Array:
    """The standard error of each log odds ratio, by the delta method."""
    out = np.zeros(len(places))
    labels = centres = None
    if cells.strata:
        from_strata = [cells.rows.shape[axis] for axis in cells.strata]
        levels = np.stack(np.unravel_index(places, cells.rows.shape))[list(cells.strata)]
        labels = np.ravel_multi_index(tuple(levels), from_strata)
        centres = cells.rows.centres(cells.means, cells.strata)
    for k, four in enumerate(places):
        combination = _SIGNS @ cells.rows.of(four)
        if labels is not None and centres is not None:
            combination = combination - _SIGNS @ centres[labels[k]]
        out[k] = max(float(combination @ cells.covariance @ combination), 0.0)
    return np.sqrt(out)
