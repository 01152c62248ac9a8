"""Search among hierarchical models of one release.

All of it reads the release alone, so it costs no privacy beyond the release's.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd
from rich.console import Console
from rich.status import Status

from dpcontingency._labels import on_lines, on_one_line
from dpcontingency.errors import ModelError, check_alpha, shown
from dpcontingency.inference.comparison import (
    AUTO,
    RATIO,
    TOLERANCE,
    LikelihoodRatio,
    dropped,
    failure,
    information_criteria,
    is_nested,
    likelihood_ratio,
    refit,
)
from dpcontingency.inference.families import mutual
from dpcontingency.inference.formula import Generators, generating_class, show, subsets
from dpcontingency.inference.held import require_maximum
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.printing import broken
from dpcontingency.inference.pvalues import DEFAULT_BOOT, How, PValue, Random, Tail
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.tables import (
    infinity_notes,
    note_lines,
    table_lines,
    tail_notes,
)
from dpcontingency.inference.terms import SpecialTerm, maximal_terms

Criterion = Literal["bic", "aic", "lr"]
Direction = Literal["both", "forward", "backward"]

NOT_VALID = (
    "P-values and intervals of the selected model are not valid: the same release chose the "
    "model. Report the search with it, and test what it found on another release."
)
NO_COST = "The search reads the release alone, so it costs no privacy beyond the release's."


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """What a stepwise search found.

    Attributes
    ----------
    results : LogLinearResults
        The fit of the selected model. Its p-values and intervals do not know of the search.
    path : pandas.DataFrame
        A row a step, the start first: ``step``, ``action`` ("add [A B]", "drop [A B]"),
        ``generating_class`` after it, and ``criterion``: its BIC or AIC, in which each step
        counts as many parameters as its test has df (`compare`), or the p-value of the term of
        this step.
    at_infinity : tuple of str
        The models met on the way, taken or not, that have no finite estimate of some parameters.
    criterion, direction : str
        As asked for.
    notes : tuple of str
        What a reader must know, models that could not be fitted among it.
    n_boot : int or None
        Bootstrap replicates behind each p-value; None for chi-square, or where there is none.
    """

    results: LogLinearResults
    path: pd.DataFrame
    criterion: str
    direction: str
    at_infinity: tuple[str, ...]
    notes: tuple[str, ...]
    n_boot: int | None = None

    def summary(self) -> str:
        """The path, the selected model and the notes as text, 78 columns wide."""
        label = {"bic": "BIC (log n)", "aic": "AIC", "lr": "LR tests"}[self.criterion]
        printed = self.path.set_index("action").drop(columns="step")
        column = {"bic": "bic", "aic": "aic", "lr": "pvalue"}[self.criterion]
        lines = [f"Stepwise search by {label}, direction: {self.direction}"]
        lines += broken(on_one_line(f"Start: {self.path['generating_class'].iloc[0]}"), "]")
        lines += table_lines(printed.rename(columns={"criterion": column}), self.n_boot)
        lines += broken(on_one_line(f"Selected: {self.results.generating_class}"), "]")
        return on_lines("\n".join([*lines, *note_lines(self.notes)]))

    def __repr__(self) -> str:
        return self.summary()


class Move(NamedTuple):
    """A step that the search may take: a term added or dropped, and the model after it."""

    adds: bool
    term: str
    fit: LogLinearResults

    @property
    def action(self) -> str:
        """The step as the path names it."""
        return f"{'add' if self.adds else 'drop'} {self.term}"

    def test(self, current: LogLinearResults, how: How = AUTO) -> LikelihoodRatio:
        """The test of the step's term."""
        pair = (current, self.fit) if self.adds else (self.fit, current)
        return likelihood_ratio(*pair, how)

    def gain(self, current: LogLinearResults) -> int:
        """By how many parameters the model after the step is larger: the df of the test."""
        df = self.test(current).df
        return df if self.adds else -df


class _Search:
    """The models between main effects and ``upper``, fitted when they are first needed."""

    def __init__(
        self, start: LogLinearModel, fits: Iterable[LogLinearResults], upper: Generators, how: How
    ) -> None:
        self.how = how
        self.tails: dict[str, Tail] = {}
        self.start = start
        self.names = start.release.domain.names
        self.lower = mutual(start.release)
        self.upper = upper
        self.fits: dict[Any, LogLinearResults] = {
            (fit.generators, fit.model.special): fit for fit in fits
        }
        self.failures: dict[str, None] = {}
        self.line: Status | None = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Show how many models were fitted, on a terminal."""
        if not sys.stderr.isatty():
            yield
            return
        with Console(file=sys.stderr).status("Searching") as self.line:
            yield

    def fit(self, generators: Generators, special: tuple[SpecialTerm, ...]) -> LogLinearResults:
        known = self.fits.get((generators, special))
        if known is None:
            known = refit(self.start, generators, special)
            self.fits[generators, special] = known
            if self.line is not None:
                self.line.update(f"Searching: {len(self.fits)} models fitted")
        return known

    def moves(self, current: LogLinearResults, direction: str) -> Iterator[Move]:
        """The steps from a model, drops before additions, terms in the order of the factors."""
        generators, special = current.generators, current.model.special
        if direction != "forward":
            for term, fewer, rest in dropped(current.model):
                if is_nested(self.lower, fewer):
                    yield from self._move(False, term, self.fit(fewer, tuple(rest)), current)
        if direction != "backward":
            for margin in self._addable(generators):
                more = generating_class([*generators, margin], self.names)
                yield from self._move(True, show((margin,)), self.fit(more, special), current)
            for again in self.start.special:
                if not any(term.holds(again) for term in special):
                    terms = maximal_terms([*special, again], self.names)
                    fit = self.fit(generators, terms)
                    if fit.model.special != special:
                        yield from self._move(True, again.text, fit, current)

    def _move(
        self, adds: bool, term: str, fit: LogLinearResults, current: LogLinearResults
    ) -> Iterator[Move]:
        """The move, unless one of the two fits failed; that is kept for the notes."""
        failed = failure(current, fit) if adds else failure(fit, current)
        if failed:
            self.failures[failed] = None
        else:
            yield Move(adds, term, fit)

    def _addable(self, generators: Generators) -> Iterator[tuple[str, ...]]:
        """The terms outside a model whose parts are all inside: it stays hierarchical."""
        inside = set(subsets(generators, self.names))
        for order in range(2, max(map(len, generators)) + 2):
            for term in combinations(self.names, order):
                parts = combinations(term, order - 1)
                if (
                    term not in inside
                    and inside.issuperset(parts)
                    and is_nested((term,), self.upper)
                ):
                    yield term


def step(
    start: LogLinearModel | LogLinearResults,
    *,
    criterion: Criterion = "bic",
    direction: Direction = "both",
    alpha: float = 0.05,
    upper: str | Iterable[str | Sequence[str]] | None = None,
    pvalue: PValue = "auto",
    n_boot: int = DEFAULT_BOOT,
    rng: Random = None,
) -> Selection:
    """Search for a hierarchical model, a term at a time.

    Every model on the way holds all main effects (and the strata margin) and lies inside
    ``upper``. Special terms of the start are dropped, and added again, as units.

    Parameters
    ----------
    start : LogLinearModel or LogLinearResults
        Where the search starts. It is a search among the models of the factors that the start
        names, all fitted to one table, the start's.
    criterion : {"bic", "aic", "lr"}
        The step with the lowest BIC or AIC is taken while it is lower than the model's own, or
        equal with a term less. ``"lr"`` drops the term with the largest p-value above ``alpha``;
        where there is none it adds the one with the smallest p-value below.
    direction : {"both", "forward", "backward"}
        Whether terms are added and dropped, only added, or only dropped.
    alpha : float
        The level of ``criterion="lr"``.
    upper : str or iterable, optional
        A generating class that the search stays inside, by default the saturated model.
    pvalue, n_boot, rng
        Of ``criterion="lr"``, as in `compare`. A step whose p-value is not calibrated is not taken
        and named in the notes.

    Returns
    -------
    Selection
        The final fit and the path to it. The same release gives the same path.

    Raises
    ------
    ModelError
        If the start lacks a main effect, is not inside ``upper``, does not converge, or is a fit
        that is no maximum of the likelihood.

    Notes
    -----
    The criteria are those of the likelihood of the release (METHODS 2.2), so they account for
    sampling and noise: with more noise fewer terms are found. BIC uses the logarithm of the
    number of records. No p-value or interval of the selected model is valid, because the release
    that they are computed from chose the model. The search costs no privacy (post-processing).
    A model whose fit fails is left out of the search and named in the notes.

    Examples
    --------
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"A": ["yes", "no"], "C": ["yes", "no"], "M": ["yes", "no"]})
    >>> counts = [[[911, 538], [44, 456]], [[3, 43], [2, 279]]]
    >>> release = Release.exact(counts, domain)
    >>> found = step(LogLinearModel(release, mutual(release)))
    >>> found.results.generating_class
    '[A C][A M][C M]'
    >>> list(found.path["action"])
    ['start', 'add [C M]', 'add [A C]', 'add [A M]']
    """
    choices = {"criterion": (criterion, Criterion), "direction": (direction, Direction)}
    for name, (asked, kind) in choices.items():
        if asked not in get_args(kind):
            allowed = ", ".join(map(repr, get_args(kind)))
            raise ModelError(f"{name} is one of {allowed}; got {shown(asked)}.")
    check_alpha(alpha)
    if not isinstance(start, LogLinearModel | LogLinearResults):
        raise ModelError(
            "A search starts from a model, such as LogLinearModel(release, mutual(release)), or "
            f"from its fit; got {type(start).__name__}."
        )
    model = start if isinstance(start, LogLinearModel) else start.model
    if not isinstance(start, LogLinearModel):
        require_maximum(start, RATIO)
    how = How(pvalue=pvalue, n_boot=n_boot, rng=rng).seeded()
    fits = [] if isinstance(start, LogLinearModel) else [start]
    search = _Search(model, fits, _scope(model, upper), how)
    with search.shown():
        current, path = _climb(search, criterion, direction, alpha)
    lost = tuple(fit.generating_class for fit in search.fits.values() if not fit.existence.exists)
    table = model.fitted_to and f"The search is on the {model.fitted_to}, of the factors named."
    notes = [NOT_VALID, NO_COST, *filter(None, [table]), *search.failures]
    notes += [*tail_notes(search.tails.items()), *infinity_notes([current])]
    if lost:
        notes.append(
            f"{len(lost)} of the {len(search.fits)} models that the search met have estimates at "
            "infinity or left open; at_infinity names them."
        )
    boot = how.replicates if criterion == "lr" else None
    return Selection(current, path, criterion, direction, lost, tuple(notes), boot)


def _climb(
    search: _Search, criterion: Criterion, direction: Direction, alpha: float
) -> tuple[LogLinearResults, pd.DataFrame]:
    """Step by step to the model that no step makes better, and the path there."""
    current = search.fit(search.start.generators, search.start.special)
    if not current.converged:
        raise ModelError(f"{failure(current, current)} Start the search from another model.")
    n_params = current.model.n_params
    rows = [("start", current.generating_class, _start_value(current, criterion))]
    seen = {(current.generators, current.model.special)}
    while True:
        moves = [
            move
            for move in search.moves(current, direction)
            if (move.fit.generators, move.fit.model.special) not in seen
        ]
        if criterion == "lr":
            best = _by_test(search, current, moves, alpha)
        else:
            best = _by_criterion(current, n_params, moves, criterion)
        if best is None:
            break
        move, value = best
        n_params += move.gain(current)
        rows.append((move.action, move.fit.generating_class, value))
        current = move.fit
        seen.add((current.generators, current.model.special))
    path = pd.DataFrame(rows, columns=["action", "generating_class", "criterion"])
    path.insert(0, "step", range(len(rows)))
    return current, path


def _scope(model: LogLinearModel, upper: str | Iterable[str | Sequence[str]] | None) -> Generators:
    """The class that the search stays inside, once it is known to start inside."""
    release = model.release
    names = release.domain.names
    limit = generating_class(release.margins, names)  # no model goes beyond what was released
    if upper is not None:
        asked = generating_class(upper, model.source.domain.names)
        if beyond := [name for margin in asked for name in margin if name not in names]:
            raise ModelError(
                f"The upper model names {shown(beyond[0])}, which the start "
                f"{model.generating_class} does not. Start from a model that names every factor "
                "of the upper one, each by its main effect at least."
            )
        limit = generating_class([*asked, release.strata], names)
    if not is_nested(mutual(release), model.generators):
        raise ModelError(
            f"The search keeps all main effects, and {model.generating_class} lacks some. Start "
            "it from a model that names every factor, or leave out left_out='uniform'."
        )
    if not is_nested(model.generators, limit):
        raise ModelError(
            f"The search starts at {model.generating_class}, which is not inside the upper model "
            f"{show(limit)}. Start it from a smaller model, or widen the upper one."
        )
    return limit


def _start_value(fit: LogLinearResults, criterion: Criterion) -> float:
    return math.nan if criterion == "lr" else float(getattr(fit, criterion))


def _by_criterion(
    current: LogLinearResults, n_params: int, moves: Sequence[Move], criterion: Criterion
) -> tuple[Move, float] | None:
    """The step to the lowest AIC or BIC; the first of those that rounding cannot tell apart.

    The model itself counts `n_params`, and each step the parameters that its test has df.
    """
    now = information_criteria(current, n_params)[criterion]
    valued = [
        (move, information_criteria(move.fit, n_params + move.gain(current))[criterion])
        for move in moves
    ]
    better = [(m, v) for m, v in valued if v < now + (-TOLERANCE if m.adds else TOLERANCE)]
    least = min((value for _, value in better), default=math.nan)
    return next(((m, v) for m, v in better if v <= least + TOLERANCE), None)


def _by_test(
    search: _Search, current: LogLinearResults, moves: Sequence[Move], alpha: float
) -> tuple[Move, float] | None:
    """The least needed term to drop, else the most needed one to add; with its p-value."""
    tails = [(move, _log_pvalue(search, current, move)) for move in moves]
    drops = [(m, p) for m, p in tails if not m.adds and p > math.log(alpha)]
    adds = [(m, p) for m, p in tails if m.adds and p < math.log(alpha)]
    if drops:
        move, tail = max(drops, key=lambda pair: pair[1])
    elif adds:
        move, tail = min(adds, key=lambda pair: pair[1])
    else:
        return None
    return move, math.exp(tail)


def _log_pvalue(search: _Search, current: LogLinearResults, move: Move) -> float:
    """The logarithm of the p-value of the step's term; 0 for a term without parameters."""
    test = move.test(current, search.how)
    if test.df <= 0:
        return 0.0
    search.tails[move.action] = test.tail
    return test.tail.log_pvalue
