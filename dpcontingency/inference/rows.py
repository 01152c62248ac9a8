"""Rows of a hierarchical design by cell, and the variance of what is linear in them.

The design is never formed (see `dpcontingency.inference.design`): two columns are 1 together in
the cells that bear the union of their codes, so that x_c' C x_c for all cells c at once is one
scatter of C over a table and one pass over it per factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.columns import MarginColumns
from dpcontingency.inference.quotient import over
from dpcontingency.release.noise import stratum_labels

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Axes = tuple[int, ...]

BLOCK = 1 << 20  # entries of a block of rows: 8 MB an array


@dataclass(frozen=True, eq=False)
class CellRows:
    """The rows x_c of a design in treatment coding.

    Parameters
    ----------
    shape : tuple of int
        The shape of the table.
    codes : ndarray of int, shape (h, K)
        The level of each factor that a column involves, 0 for a factor that it does not.
    extra : MarginColumns, optional
        The q - h columns of special terms, which come after those.

    Examples
    --------
    >>> rows = CellRows((2, 2), np.array([[1, 0], [0, 1], [1, 1]]))
    >>> rows.of([3, 1])
    array([[1., 1., 1.],
           [0., 1., 0.]])
    >>> rows.quadratic(np.diag([1.0, 10.0, 100.0]))
    array([  0.,  10.,   1., 111.])
    """

    shape: tuple[int, ...]
    codes: Index
    extra: MarginColumns | None = None

    @property
    def n_columns(self) -> int:
        """The number of columns, q."""
        return len(self.codes) + (self.extra.n_columns if self.extra else 0)

    @property
    def n_cells(self) -> int:
        """The number of cells, p."""
        return math.prod(self.shape)

    def of(self, cells: Sequence[int] | Index) -> Array:
        """The rows of some cells (flat positions), dense."""
        places = np.asarray(cells, dtype=np.intp)
        levels = _levels(places, self.shape)
        out = np.ones((len(levels), len(self.codes)), dtype=np.bool_)
        for axis in range(len(self.shape)):
            code = self.codes[None, :, axis]
            out &= (code == 0) | (code == levels[:, axis, None])
        first = out.astype(np.float64)
        return np.hstack([first, self.extra.rows(places)]) if self.extra else first

    def quadratic(self, matrix: Array) -> Array:
        """x_c' M x_c for every cell: O(q^2), and O(p) a factor and a special column."""
        cells = np.zeros(self.n_cells)
        first = len(self.codes)
        for part in _blocks(len(self.codes), len(self.codes)):
            flat = np.zeros((part.size, len(self.codes)), dtype=np.intp)
            clash = np.zeros(flat.shape, dtype=np.bool_)
            for axis, stride in enumerate(_strides(self.shape)):
                one, other = self.codes[part, None, axis], self.codes[None, :, axis]
                flat += stride * np.maximum(one, other)
                clash |= (one != other) & (one > 0) & (other > 0)
            cells += _scatter(flat, np.where(clash, 0.0, matrix[part, :first]), cells.size)
        out = self._spread(cells, ())
        if self.extra:
            for j, row in enumerate(matrix[first:]):
                at_codes = _scatter(self.codes @ _strides(self.shape), row[:first], out.size)
                crossed = 2 * self._spread(at_codes, ()) + self.extra.dot(row[first:])
                out += self.extra.column(j) * crossed
        return out

    def log_variances(
        self, covariance: Array, means: Array, strata: Axes | None, within: Axes | None
    ) -> Array:
        """The variance of the logarithm of each fitted mean, proportion or conditional.

        Parameters
        ----------
        covariance : ndarray, shape (q, q)
            Of the coefficients.
        means : ndarray, shape (p,)
            Fitted means.
        strata : tuple of int or None
            The axes inside whose cells the total is fixed; None where none is.
        within : tuple of int or None
            The axes whose cells the mean is divided by the total of; None for the mean itself.

        Notes
        -----
        The delta method. The gradient of the log mean is x_c less the mean of x over the stratum,
        weighted by the fitted means; that of the log proportion is this less its own mean over
        the cells that share the levels of ``within``.
        """
        out = self.quadratic(covariance)
        joint = tuple(sorted({*(strata or ()), *(within or ())}))
        if strata is None and within is None:
            return out
        cross, square, beyond = np.zeros(out.size), [], []
        first, labels = len(self.codes), stratum_labels(self.shape, joint)
        for levels, centre in self._centres(means, strata, within, joint):
            turned = centre @ covariance
            places, agree = self._places(joint, levels)
            cross += _scatter(places, np.where(agree, turned[:, :first], 0.0), cross.size)
            beyond.append(turned[:, first:])
            square.append((turned * centre).sum(axis=1))
        cross = self._spread(cross, joint)
        if self.extra:
            for j, turned in enumerate(np.concatenate(beyond).T):
                cross += self.extra.column(j) * turned[labels]
        out += np.concatenate(square)[labels] - 2 * cross
        return np.asarray(np.maximum(out, 0.0))

    def centres(self, means: Array, axes: Axes) -> Array:
        """The mean of x over each group of cells, weighted by the fitted means."""
        return np.concatenate([centre for _, centre in self._centres(means, axes, None, axes)])

    # -- parts ---------------------------------------------------------------------------------

    def _centres(
        self, means: Array, strata: Axes | None, within: Axes | None, joint: Axes
    ) -> Iterator[tuple[Index, Array]]:
        """What is taken from x_c in each group of cells over the joint axes, block by block."""
        outer = None if strata is None else _Averages(self, means, strata)
        inner = None if within is None else _Averages(self, means, within)
        shape = tuple(self.shape[axis] for axis in joint)
        if outer and inner:  # the mean, over the cells of a group, of the centres of their strata
            fine, coarse = outer.labels, inner.labels
            sizes = (inner.totals.size, outer.totals.size)
            shared = _scatter(coarse * sizes[1] + fine, means, math.prod(sizes))
            shares = over(shared.reshape(sizes), inner.totals[:, None])
            of_strata = outer.rows(_levels(np.arange(sizes[1]), outer.shape))
        for groups in _blocks(math.prod(shape), self.n_columns):
            levels = _levels(groups, shape)
            centre = np.zeros((groups.size, self.n_columns))
            if outer:
                centre += outer.rows(levels[:, [joint.index(a) for a in outer.axes]])
            if inner:
                chosen = levels[:, [joint.index(a) for a in inner.axes]]
                centre += inner.rows(chosen)
                if outer:
                    centre -= shares[chosen @ _strides(inner.shape)] @ of_strata
            yield levels, centre

    def _places(self, axes: Axes, levels: Index) -> tuple[Index, Mask]:
        """Where a column's code stands within groups of cells, and whether it reaches them."""
        strides, kept = _strides(self.shape), list(axes)
        inner = self.codes.copy()
        inner[:, kept] = 0
        inside = self.codes[None, :, kept]
        agree = ((inside == 0) | (inside == levels[:, None, :])).all(axis=-1)
        return (levels @ strides[kept])[:, None] + inner @ strides, agree

    def _fold(self, cells: Array, kept: Axes) -> Array:
        """Sums over each axis but the kept ones, at its level 0."""
        out = cells.copy()
        for axis in set(range(len(self.shape))) - set(kept):
            along = out.reshape(math.prod(self.shape[:axis]), self.shape[axis], -1)
            along[:, 0] = along.sum(axis=1)
        return out

    def _spread(self, cells: Array, kept: Axes) -> Array:
        """The transpose of `_fold`, in place: what stands at level 0 counts at every level."""
        for axis in set(range(len(self.shape))) - set(kept):
            along = cells.reshape(math.prod(self.shape[:axis]), self.shape[axis], -1)
            along[:, 1:] += along[:, :1]
        return cells


class _Averages:
    """Means of x over the cells that share their levels on some axes, weighted."""

    def __init__(self, design: CellRows, weights: Array, axes: Axes) -> None:
        self.axes = tuple(sorted(axes))
        self.shape = tuple(design.shape[axis] for axis in self.axes)
        self.labels = stratum_labels(design.shape, self.axes).astype(np.intp)
        self.totals = _scatter(self.labels, weights, math.prod(self.shape))
        self._design = design
        self._sums = design._fold(weights, self.axes)
        extra, groups = design.extra, self.totals.size
        self._extra = extra.sums(weights, self.labels, groups) if extra else np.zeros((groups, 0))

    def rows(self, levels: Index) -> Array:
        places, agree = self._design._places(self.axes, levels)
        groups = levels @ _strides(self.shape)
        sums = np.hstack([np.where(agree, self._sums[places], 0.0), self._extra[groups]])
        return over(sums, self.totals[groups][:, None])


def _levels(cells: Index, shape: tuple[int, ...]) -> Index:
    """The levels of flat positions, one row each."""
    if not shape:
        return np.zeros((cells.size, 0), dtype=np.intp)
    return np.stack(np.unravel_index(cells, shape), axis=-1)


def _strides(shape: tuple[int, ...]) -> Index:
    return np.array([math.prod(shape[k + 1 :]) for k in range(len(shape))], dtype=np.intp)


def _blocks(size: int, width: int) -> Iterator[Index]:
    """0 .. size - 1 in runs whose rows of this width fill a block."""
    height = max(1, BLOCK // max(1, width))
    for start in range(0, size, height):
        yield np.arange(start, min(start + height, size))


def _scatter(places: Index, values: Array, size: int) -> Array:
    return np.bincount(places.ravel(), values.ravel(), size).astype(np.float64, copy=False)
