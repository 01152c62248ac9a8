"""The table nearest to a released one among those at which a measure has a given value.

Nearest is by the Mahalanobis distance of a covariance, sampling and noise, and no cell is negative:
the profile likelihood of the measure in the Gaussian approximation. Tables are rows, shape (B, p).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.quotient import over

Array = npt.NDArray[np.float64]

# Tables, shape (B, K, r, c), to the square of a measure that is 0 at independence, and its
# gradient, shapes (B,) and (B, K, r, c).
Square = Callable[[Array], tuple[Array, Array]]

ROUNDS = 25  # of linear approximations to the surface
TRIAL, KEPT = 6, 4  # rounds after which only the best few searches go on
SHRINK = 0.9  # of a step of the multipliers that hold cells at 0
LEAST, MOST = 0.1, 0.8  # of a step towards the approximation
FLOOR = 1e-7  # of the mean cell: a cell of 0 has no gradient
NEAR = 0.02  # how closely, relatively, the measure has its value in a table to be taken
FAR = 1e3  # what a miss costs, in squared distances a unit
HALVINGS = 30


def product(tables: Array) -> Array:
    """The tables of independence with the same margins, group by group; shapes (..., K, r, c)."""
    rows, columns = tables.sum(axis=-1, keepdims=True), tables.sum(axis=-2, keepdims=True)
    return np.asarray(over(rows * columns, tables.sum(axis=(-1, -2), keepdims=True)))


def non_negative(tables: Array, covariance: Array, rounds: int = 15) -> Array:
    """The nearest tables without negative cells and with the same total, shape (B, p).

    Examples
    --------
    >>> non_negative(np.array([[6.0, -1.0, 4.0]]), np.eye(3) - 1 / 3).round(3)
    array([[5.5, 0. , 3.5]])
    """
    low = (tables < 0).any(axis=1)
    if not low.any():
        return tables
    y, held = tables[low], np.zeros((int(low.sum()), tables.shape[1]))
    inverse = over(np.full(y.shape[1], SHRINK), np.diag(covariance))
    moved = y
    for _ in range(rounds):
        held = np.maximum(held - moved * inverse, 0.0)
        moved = y + held @ covariance
    moved = np.maximum(moved, 0.0)
    out = tables.copy()
    total = np.maximum(y.sum(axis=1), 0.0)
    out[low] = moved * over(total, moved.sum(axis=1))[:, None]
    return out


@dataclass(frozen=True, eq=False)
class Surface:
    """The tables at which the root of a square has a given value.

    Parameters
    ----------
    square : callable
        See `Square`.
    shape : tuple of int
        K, r and c.
    root : float
        The value, above 0.
    """

    square: Square
    shape: tuple[int, int, int]
    root: float

    def slope(self, tables: Array) -> tuple[Array, Array]:
        """The root at tables, shape (B,), and its gradient, shape (B, p)."""
        value, gradient = self.square(tables.reshape(-1, *self.shape))
        root = np.asarray(np.sqrt(np.maximum(value, float(np.finfo(float).tiny))))
        return root, np.asarray(gradient.reshape(tables.shape) / (2 * root[:, None]))

    def stretched(self, tables: Array) -> Array:
        """Tables on the surface, or as near as no negative cell allows, with the same margins.

        What they depart from independence by is multiplied: the square grows as its square.
        """
        inside = tables.reshape(-1, *self.shape)
        even = product(inside)
        factor = (self.root / self.slope(tables)[0]).reshape(-1, 1, 1, 1)
        return np.asarray(np.maximum(even + factor * (inside - even), 0.0).reshape(tables.shape))

    def corners(self, table: Array) -> Array:
        """Tables on the surface by adding to one cell of a table each, shape (p, p)."""
        size, whole = table.size, table.sum() * np.eye(table.size)
        low, high = np.zeros((size, 1)), np.ones((size, 1))
        for _ in range(HALVINGS):
            share = (low + high) / 2
            short = self.slope((1 - share) * table + share * whole)[0][:, None] < self.root
            low, high = np.where(short, share, low), np.where(short, high, share)
        return np.asarray((1 - high) * table + high * whole)


@dataclass(frozen=True, eq=False)
class Nearest:
    """The search for the nearest table of a surface.

    Parameters
    ----------
    noisy : ndarray, shape (p,)
        The released table.
    covariance : ndarray, shape (p, p)
        Sampling and noise.
    """

    noisy: Array
    covariance: Array

    @cached_property
    def _inverse(self) -> Array:
        inverse = np.linalg.pinv(self.covariance, rcond=1e-10, hermitian=True)
        return np.asarray(inverse, dtype=np.float64)

    def on(self, surface: Surface, starts: Array, known: float) -> Array:
        """The best table of several searches, shape (p,).

        Parameters
        ----------
        surface : Surface
            Where to look.
        starts : ndarray, shape (B, p)
            Tables on it.
        known : float
            The root at the released table. A step inwards is the shorter the further it goes: the
            surface is nearly a sphere, round which a longer one would overshoot.

        Notes
        -----
        Each round takes the surface for a plane, finds the nearest table on it, with multipliers
        ``held`` for cells that would be negative, and returns to the surface with the margins of
        that.
        """
        y, sigma = self.noisy, self.covariance
        inverse = over(np.full(y.size, SHRINK), np.diag(sigma))
        stride = float(np.clip(surface.root / max(known, 1e-300), LEAST, MOST))
        floor = FLOOR * y.sum() / y.size
        at, held = starts, np.zeros_like(starts)
        best, found = np.inf, starts[0]
        for k in range(ROUNDS):
            m = np.maximum(surface.stretched(np.maximum(at, floor)), floor)
            m = m * (y.sum() / m.sum(axis=1, keepdims=True))
            root, slope = surface.slope(m)
            off = np.abs(root / surface.root - 1)
            away = ((y - m) @ self._inverse * (y - m)).sum(axis=1) + FAR * np.where(
                off > NEAR, off, 0.0
            )
            if away.min() < best:
                best, found = float(away.min()), m[away.argmin()]
            if k == TRIAL and len(m) > KEPT:
                few = np.argsort(away, kind="stable")[:KEPT]
                m, root, slope, held = m[few], root[few], slope[few], held[few]
            across = slope @ sigma
            steep = np.maximum((slope * across).sum(axis=1), np.finfo(float).tiny)
            aim = (slope * m).sum(axis=1) + surface.root - root
            for _ in range(2):
                base = y + held @ sigma
                pull = (aim - (slope * base).sum(axis=1)) / steep
                held = np.maximum(held - (base + pull[:, None] * across) * inverse, 0.0)
            base = y + held @ sigma
            pull = (aim - (slope * base).sum(axis=1)) / steep
            at = m + stride * (base + pull[:, None] * across - m)
        return np.asarray(found)
