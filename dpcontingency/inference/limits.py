"""Where a fit ends at infinity: the cells that go to 0, what that leaves open, and which way.

A maximum at infinity is the maximum of the model on the cells that stay. Which cells go is read
from the fit as a whole, never from the last step of the search: noise may be so wide that the
likelihood is flat there, or the search may already have gone all the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from dpcontingency.inference.design import Design
from dpcontingency.inference.existence import null_directions
from dpcontingency.inference.lowrank import sum_by_stratum

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.intp]

NIL = 5e-5  # log-likelihood that tells nothing
LARGE_ERROR, HUGE_ERROR = 5.0, 20.0  # on the log scale, of what is hardly, and is no, estimate

FEW = 1.0  # records expected in a cell that may be going
MOVED = 1e-6  # in eta, along a direction of length 1
ROUNDING = 1e-7


@dataclass(frozen=True)
class Limit:
    """The cells that stay at the end of a fit, and the directions that those leave open.

    Attributes
    ----------
    design : Design
        The free columns of the model, in treatment coding.
    alive, face : ndarray of bool, shape (p,)
        The cells that can have a positive mean, and those of them that keep one.
    strata : ndarray of int, shape (p,), or None
        The stratum of each cell where totals are public.
    own : int, optional
        How many columns, the first ones, are the model's; all of them by default. Others change no
        log mean of a joint cell (`space.gauged`).
    """

    design: Design
    alive: Mask
    face: Mask
    strata: Labels | None
    own: int | None = None

    @cached_property
    def directions(self) -> Array:
        """What cannot be estimated, orthonormal, one a column: shape (q, r).

        A combination of coefficients can be estimated if and only if it is a combination of the
        log means of the cells that stay.
        """
        own = self.design.n_columns if self.own is None else self.own
        if self.face.all():
            return np.zeros((own, 0))
        if own == self.design.n_columns:
            return self._open
        left, sizes, _ = np.linalg.svd(self._open[:own], full_matrices=False)
        return np.asarray(left[:, sizes > ROUNDING])

    @cached_property
    def _open(self) -> Array:
        """The same with all columns, also those that are not the model's."""
        return null_directions(self.design, self.face, self.strata)

    def _padded(self, combinations: Array) -> Array:
        """Combinations of the model's coefficients as ones of all columns."""
        beyond = self.design.n_columns - combinations.shape[-1]
        return np.pad(combinations, [*[(0, 0)] * (combinations.ndim - 1), (0, beyond)])

    def signs(self, combinations: Array) -> Array:
        """Which way combinations of coefficients go, shape (k, q) to (k,).

        Returns
        -------
        ndarray, shape (k,)
            1 or -1 where every way of sending the cells to 0 that go, and raising none of them,
            takes the combination up, or down, or leaves it; else 0.

        Notes
        -----
        The ways are the cone A w <= 0, A the change of the log means of the cells that go along
        the open directions. A combination has a sign if its extremes over the cone, cut off at
        A w >= -1, are on one side of 0: linear programs, but where the rows of A are independent
        and the negative of its inverse has the edges of the cone for its columns.
        """
        along = self._padded(combinations) @ self._open
        lost = self.alive & ~self.face
        moves = _changes(self.design, self._open, self.face, lost, self.strata)
        _, sizes, basis = np.linalg.svd(moves, full_matrices=True)
        rank = int((sizes > ROUNDING * max(float(sizes.max(initial=0.0)), 1.0)).sum())
        free = (np.abs(along @ basis[rank:].T) > MOVED).any(axis=1)
        along, moves = along @ basis[:rank].T, moves @ basis[:rank].T
        if rank == len(moves):
            values = -along @ np.linalg.inv(moves)
            low, high = values.min(axis=1, initial=0.0), values.max(axis=1, initial=0.0)
        else:
            low, high = _extremes(along, moves, ~free)
        up, down = high > MOVED, low < -MOVED
        return np.where(free | (up & down), 0.0, up.astype(np.float64) - down)


def is_open(
    design: Design, fitted: Array, strata: Labels | None, covariance: Array, combination: Array
) -> bool:
    """Whether a release tells next to nothing of a combination of coefficients.

    Its standard error is above 5, so that a 95 % interval spans a factor of 20,000 either way; and
    it may go to infinity either way, as one standard error takes some log means up and others down
    by more than 1/5. At such an error the means of cells that hold a record stay within that,
    however many of them are compared: these are means within noise of 0, and the likelihood hardly
    falls as they go there. Where only means of one side are so small a profile of the likelihood
    has an end, and the estimate stands, unless its standard error is above 20 and takes a mean
    along by a factor above e. (Beside a score, coefficients are of a level at a score of 0, which
    may be far from any cell: no mean moves much, and their large standard errors are right.)

    Parameters
    ----------
    design : Design
        The free columns, in treatment coding.
    fitted : ndarray, shape (p,)
        Fitted means.
    strata : ndarray of int, shape (p,), or None
        The stratum of each cell where totals are public.
    covariance : ndarray, shape (q, q)
        Of the coefficients.
    combination : ndarray, shape (q,)
        On the log scale.
    """
    along = covariance @ combination
    variance = float(combination @ along)
    if not variance > LARGE_ERROR**2:
        return False
    change = design.dot(along / np.sqrt(variance))
    if strata is not None:
        sizes = sum_by_stratum(strata, fitted, int(strata.max()) + 1)
        middle = sum_by_stratum(strata, fitted * change, sizes.size)
        change = change - (middle / np.maximum(sizes, 1e-300))[strata]
    stay = change[fitted > 0]
    up, down = float(stay.max(initial=0.0)), -float(stay.min(initial=0.0))
    far = variance > HUGE_ERROR**2 and max(up, down) > 1.0
    return far or min(up, down) > 1 / LARGE_ERROR


def limit_of(
    design: Design,
    alive: Mask,
    strata: Labels | None,
    fitted: Array,
    score: Array,
    loss: Callable[[Mask], float],
    own: int | None = None,
) -> Limit:
    """The limit that a fit to noisy cells has reached, or cannot be told from.

    Parameters
    ----------
    design : Design
        The free columns of the model, in treatment coding.
    alive : ndarray of bool, shape (p,)
        The cells that can have a positive mean.
    strata : ndarray of int, shape (p,), or None
        The stratum of each cell where totals are public.
    fitted, score : ndarray, shape (p,)
        Fitted means, and the derivative of the log-likelihood in their logarithms.
    loss : callable
        What the log-likelihood loses if only the cells of a mask stay.
    own : int, optional
        As in `Limit`.

    Notes
    -----
    Candidates are cells of less than one record that weigh nothing in the likelihood; of these
    go those that some direction sends to 0 without raising another or moving a cell that stays.
    """
    few = alive & (fitted < FEW) & (np.abs(score) < NIL)
    if strata is not None:  # a stratum keeps its largest cell, whatever its total
        tops = np.zeros(int(strata.max()) + 1)
        np.maximum.at(tops, strata, fitted)
        few &= fitted < tops[strata]
    while few.any():
        going = _going(design, alive, few, strata)
        if not going.any():
            break
        if loss(alive & ~going) <= NIL:
            return Limit(design, alive, alive & ~going, strata, own)
        few &= fitted < float(fitted[going].max()) / 100
    return Limit(design, alive, alive, strata, own)


def _going(design: Design, alive: Mask, few: Mask, strata: Labels | None) -> Mask:
    """Which of few cells some direction sends to 0 that moves no other cell and raises none."""
    stay = alive & ~few
    directions = null_directions(design, stay, strata)
    going = np.zeros(alive.size, dtype=np.bool_)
    if directions.shape[1] == 0:
        return going
    changes = _changes(design, directions, stay, few, strata)
    moved = (np.abs(changes) > MOVED).any(axis=1)
    changes, places = changes[moved], np.flatnonzero(few)[moved]
    if not places.size:
        return going
    down = np.linalg.lstsq(changes, -np.ones(places.size), rcond=None)[0]
    if (changes @ down < -MOVED).all():
        going[places] = True
        return going
    # The program of `existence.facial_set`, in the coordinates of the directions.
    n, r = changes.shape
    solution = linprog(
        np.concatenate([np.zeros(r), -np.ones(n)]),
        A_ub=np.hstack([changes, np.eye(n)]),
        b_ub=np.zeros(n),
        bounds=[(None, None)] * r + [(0, 1)] * n,
    )
    if solution.x is not None:
        going[places] = solution.x[r:] > 0.5
    return going


def _changes(
    design: Design, directions: Array, stay: Mask, cells: Mask, strata: Labels | None
) -> Array:
    """How directions that move no cell that stays change the log means of others: (n, r)."""
    out = np.zeros((int(cells.sum()), directions.shape[1]))
    if strata is not None:
        sizes = sum_by_stratum(strata, stay.astype(np.float64), int(strata.max()) + 1)
    for j in range(directions.shape[1]):
        change = design.dot(directions[:, j])
        if strata is not None:
            constant = sum_by_stratum(strata, np.where(stay, change, 0.0), sizes.size)
            change = change - (constant / np.maximum(sizes, 1.0))[strata]
        out[:, j] = change[cells]
    return out


def _extremes(along: Array, moves: Array, asked: Mask) -> tuple[Array, Array]:
    """The least and largest values of combinations over the cone -1 <= moves w <= 0."""
    n, size = moves.shape
    low, high = np.zeros(len(along)), np.zeros(len(along))
    upper = np.vstack([moves, -moves])
    bounds = np.concatenate([np.zeros(n), np.ones(n)])
    for j in np.flatnonzero(asked & (np.abs(along) > MOVED).any(axis=1)):
        for side in (-1.0, 1.0):
            if (low[j] < -MOVED) if side < 0 else (high[j] > MOVED):
                continue  # a way that was found for another says so
            solution = linprog(-side * along[j], upper, bounds, bounds=[(None, None)] * size)
            if solution.x is not None:
                values = along @ solution.x
                low, high = np.minimum(low, values), np.maximum(high, values)
    return low, high
