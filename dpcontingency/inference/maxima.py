"""Other maxima of the likelihood: whether there may be any, and the highest that is found.

Where noise hides most of what the counts would tell of some direction, the likelihood of the
release can have several maxima, and a search ends at the one whose slope it starts on. The sign of
it is the share of the information that is left: in 1,135 noisy tables (`benchmarks/validity.py
maxima`) no fit with at least a quarter of it in every direction had another maximum. Other fits are
searched again from many starts, all of them functions of the table that know no order of factors
and levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.margin_replicates import replicates_of
from dpcontingency.inference.newton import LEFT, DesignPoint, Maximum, is_definite, maximise

Array = npt.NDArray[np.float64]

SPREADS = (0.4, 0.8, 1.5)  # of the log rates of scattered starts
SCATTERED, TRIED = 100, 60  # starts of each spread that are looked at, and of all that are searched
MOST = 3000  # numbers in a design, up to which there are searches from other starts
HIGHER = 1e-7  # of log-likelihood, relative to 1 + |value|: what is no rounding
NEAR = 0.1  # of log-likelihood, within which a second maximum is told of
APART = 0.1  # standard deviations between fitted cells of two maxima
TURN = 3 * np.pi * (3 - np.sqrt(5))  # no two multiples of which are close, modulo a turn


@dataclass(frozen=True)
class Highest:
    """The highest maximum found, and how far below it the second is.

    Attributes
    ----------
    best : Maximum
        Where the search ended.
    second : float or None
        The fall in log-likelihood to another maximum, where one is within `NEAR`.
    searched : bool
        Whether it was searched from many starts.
    """

    best: Maximum[DesignPoint]
    second: float | None = None
    searched: bool = False


def may_be_several(point: DesignPoint) -> bool:
    """Whether too little information is left in some direction to exclude other maxima."""
    return not is_definite(point.observed() - LEFT * point.complete())


def highest(model: Any, best: Maximum[DesignPoint]) -> Highest:
    """The highest maximum of a model's likelihood, from the end of a first search.

    Parameters
    ----------
    model : LogLinearModel
        The model.
    best : Maximum
        Where the search from the classical fit ended. Of tables too large to be searched from
        many starts (`MOST`) it stands.
    """
    size = model.space.size * model._design.n_columns
    if not model.space.is_joint or size > MOST or not may_be_several(best.point):
        return Highest(best)
    every = [best, *_tops(model)]
    top = max(every, key=lambda end: end.point.value)
    if top.point.value <= best.point.value + HIGHER * (1 + abs(best.point.value)):
        top = best
    falls = [top.point.value - end.point.value for end in every if _differ(top.point, end.point)]
    second = max(min(falls, default=np.inf), 0.0)
    return Highest(top, second if second < NEAR else None, searched=True)


def of_saturated(model: Any) -> Array:
    """The classical fit to the fitted cells of the saturated model."""
    return np.asarray(model.classical_fit(model.cells.saturated().fitted))


def starts(model: Any) -> Array:
    """Where else to start, shape (k, q): equal cells, the saturated model, and all about."""
    equal, saturated = model._flat(), of_saturated(model)
    scattered = _scattered(model, equal)
    values = _values(model, scattered)
    tried = scattered[np.argsort(-values, kind="stable")[:TRIED]]
    return np.vstack([tried, equal, saturated, (equal + saturated) / 2])


def _tops(model: Any) -> list[Maximum[DesignPoint]]:
    """The two highest ends of searches from all starts that differ, each climbed to its top."""
    betas = starts(model)
    search = _copies(model, len(betas)).search(model._design, model._offset, betas)
    search.ends()
    tops: list[Maximum[DesignPoint]] = []
    floor = search.loglik.max() - 10 * NEAR
    for k in np.argsort(-search.loglik, kind="stable"):
        if search.loglik[k] < floor or len(tops) == 2:
            break
        here = model._at(search.beta[k])
        if all(_differ(here, top.point) for top in tops):
            end = maximise(model._at, search.beta[k])
            if all(_differ(end.point, top.point) for top in tops):
                tops.append(end)
    return tops


def _copies(model: Any, n: int) -> Any:
    """The model's own table, as so many replicates."""
    return replicates_of(model.cells, np.tile(model.cells.measured, (n, 1)))


def _values(model: Any, betas: Array) -> Array:
    """The log-likelihoods at some coefficients, a row each."""
    n = len(betas)
    eta = np.stack([model._design.dot(beta) for beta in betas]) + model._offset
    point = _copies(model, n).likelihood(np.arange(n)).at(eta.ravel(), None)
    return np.asarray(point.parts.reshape(n, -1).sum(axis=1))


def _scattered(model: Any, centre: Array) -> Array:
    """Coefficients all about some, the same whatever the order of factors and levels.

    Each cell's pseudo-random log rates are cosines of many turns of its own posterior mean; the
    model's part of them is scaled to each of the spreads.
    """
    possible = model._possible
    design = np.asarray(model._design.matrix().toarray())[possible]
    centred = design - design.mean(axis=0)
    means = model._at(centre).cells.posterior_mean[possible]
    turns = TURN * np.arange(1, len(SPREADS) * SCATTERED + 1)
    rates = np.cos(np.outer(turns, means / max(float(means.std()), 1e-9)) + turns[:, None])
    away = np.linalg.lstsq(centred, (rates - rates.mean(axis=1, keepdims=True)).T, rcond=None)[0].T
    spread = (away @ centred.T).std(axis=1, keepdims=True)
    scale = np.repeat(SPREADS, SCATTERED)[:, None] / np.maximum(spread, 1e-9)
    return np.asarray(centre + scale * away)


def _differ(one: DesignPoint, other: DesignPoint) -> bool:
    """Whether the fitted cells of two points are farther apart than a search's end is vague."""
    first, second = one.cells.fitted, other.cells.fitted
    return bool((np.abs(first - second) > APART * np.sqrt(1 + np.maximum(first, second))).any())
