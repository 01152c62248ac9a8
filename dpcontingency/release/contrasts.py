"""Interactions as integer contrasts, and exactly rounded noise on them.

In the table of the factors A, the contrasts L x take along every axis the difference of each level
and the last one: prod (n_k - 1) numbers, integers where x are counts. L vanishes on whatever is
constant along an axis, so L x = L Q x, Q x the interaction of A (`layout`), and the contrasts
determine it: pad the reference levels with 0 and subtract the mean along every axis.

What is released, on a grid g = 2^-b that divides 1, is

    L N + round_g(s L z) = round_g(L N + s L z) = round_g(L Y),   Y = Q (N + s z),

rounded coordinate by coordinate: L N are integers, so adding them commutes with rounding. It is a
function of the ideal interaction Y, and so are all of them together. The release is therefore
post-processing of the ideal one and exactly as private: no extra delta. (Rounding Q (N + s z)
itself, or adding independent rounded noise to the cells of N and projecting, is not.)

This needs round_g(s L z) with its joint law, not each coordinate with its own. The cells of z are
drawn as intervals of probability as in `sampler`; where they leave a contrast's nearest grid point
open, bits are added to the cells in it, which keep them for every other contrast that they are in,
until ball arithmetic decides.
"""

from __future__ import annotations

import math
import secrets
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpcontingency._lazy import later
from dpcontingency.release.sampler import Entropy, grid_exponent, read_words

if TYPE_CHECKING:
    import flint
else:
    flint = later("flint")

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def contrasts(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Differences of each level and the last one, along every axis.

    Parameters
    ----------
    table : ndarray, shape (n_1, ..., n_m)
        A number a cell.

    Returns
    -------
    ndarray, shape (n_1 - 1, ..., n_m - 1)
        Of the same type.

    Examples
    --------
    >>> contrasts(np.array([[5, 1, 2], [0, 4, 1]]))
    array([[ 4, -4]])
    """
    for axis in range(table.ndim):
        table = _beside_last(table, axis, -1)
    return table


def interaction(values: Array) -> Array:
    """The interaction that has these contrasts: a table that sums to 0 along every axis.

    Examples
    --------
    >>> interaction(np.array([[4.0, -4.0]]))
    array([[ 2., -2.,  0.],
           [-2.,  2.,  0.]])
    """
    table = np.zeros([n + 1 for n in values.shape])
    table[tuple(slice(n) for n in values.shape)] = values
    for axis in range(values.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def contrast_exponent(scale: float, order: int) -> int:
    """The grid 2^-b for contrasts of so many factors: 2^10 steps to their standard deviation."""
    return grid_exponent(scale * 2.0 ** (order / 2))


def rounded_contrasts(
    shape: tuple[int, ...],
    scale: float,
    exponent: int,
    *,
    entropy: Entropy = secrets.token_bytes,
) -> Integers:
    """A draw of the integers nearest to scale 2^exponent L z, z standard normal on the cells.

    Parameters
    ----------
    shape : tuple of int
        The shape of the table that the contrasts are of.
    scale : float
        s, the exact dyadic number that it is.
    exponent : int
        The grid is 2^-exponent; a draw times the grid is the rounded noise.
    entropy : callable, optional
        Returns so many uniform bytes; production code leaves it at the operating system's
        cryptographic generator.

    Returns
    -------
    ndarray of int64, shape ``shape`` less 1 along each axis
        Their joint law is exact: see the module.

    Examples
    --------
    >>> rounded_contrasts((2, 3), scale=2.0, exponent=8).shape
    (1, 2)
    """
    steps = math.ldexp(scale, exponent)
    words = np.frombuffer(entropy(8 * math.prod(shape)), dtype=np.uint64)
    numerator, negative, quantile, slack = read_words(words)
    z, slack = np.where(negative, -quantile, quantile).reshape(shape), slack.reshape(shape)
    # Sums of 2^m terms round by at most m 2^-53 of what is summed; the slack of a quantile, 1e-12
    # of it, has room for that beside the error of the quantile itself.
    for axis in range(z.ndim):
        z, slack = _beside_last(z, axis, -1), _beside_last(slack, axis, 1)
    exact = z * steps
    out = np.rint(exact)
    doubtful = np.abs(np.abs(exact - out) - 0.5) <= slack * steps
    drawn = np.where(doubtful, 0.0, out).astype(np.int64)
    if doubtful.any():
        cells = _LazyNormals(numerator, negative, entropy)
        for place in np.argwhere(doubtful):
            drawn[tuple(place)] = _decide(cells, shape, place, steps)
    return drawn


def _beside_last(table: npt.NDArray[Any], axis: int, sign: int) -> npt.NDArray[Any]:
    """Each level plus or minus the last one, along one axis."""
    first, last = np.split(table, [table.shape[axis] - 1], axis=axis)
    return np.asarray(first + sign * last)


class _LazyNormals:
    """Normal draws that are known as far as anybody asked, and stay what they are."""

    def __init__(
        self,
        numerator: npt.NDArray[np.uint64],
        negative: npt.NDArray[np.bool_],
        entropy: Entropy,
    ) -> None:
        self._numerator, self._negative, self._entropy = numerator, negative, entropy
        self._known: dict[int, tuple[int, int]] = {}

    def refine(self, cell: int, bits: int) -> None:
        """Add bits to a draw until it has at least so many."""
        numerator, have = self._known.get(cell, (int(self._numerator[cell]), 64))
        while have < bits:
            numerator = (numerator << 64) | int.from_bytes(self._entropy(8), "little")
            have += 64
        self._known[cell] = numerator, have

    def ball(self, cell: int) -> flint.arb:
        """A ball that holds the draw; infinite while only zeros of it are known."""
        numerator, bits = self._known[cell]
        unit = flint.arb(2) ** -(bits + 1)
        p = flint.arb(2 * numerator + 1) * unit + flint.arb(0, 1) * unit
        magnitude = flint.arb(2).sqrt() * (1 - 2 * p).erfinv()
        return -magnitude if self._negative[cell] else magnitude


def _decide(
    cells: _LazyNormals, shape: tuple[int, ...], place: npt.NDArray[np.intp], steps: float
) -> int:
    """The nearest integer to one contrast times ``steps``, to the last bit."""
    ends = [(int(i), n - 1) for i, n in zip(place, shape, strict=True)]
    corners = [
        (int(np.ravel_multi_index(cell, shape)) if shape else 0, signs.count(1) % 2)
        for cell, signs in zip(product(*ends), product((0, 1), repeat=len(ends)), strict=True)
    ]
    bits = 64
    while True:
        bits += 64
        for cell, _ in corners:
            cells.refine(cell, bits)
        with flint.ctx.workprec(bits + 128):
            total = flint.arb(0)
            for cell, odd in corners:
                total += -cells.ball(cell) if odd else cells.ball(cell)
            nearest = (total * flint.arb(steps) + flint.arb(0.5)).floor().unique_fmpz()
        if nearest is not None:
            return int(nearest)
