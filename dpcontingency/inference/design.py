"""The design of a hierarchical log-linear model, without its matrix.

In treatment coding every column of X is the indicator of some levels: ``A[T.2]:C[T.3]`` is 1 in
the cells with A at 2 and C at 3. Give a column the code 0 for a factor it does not involve and
the level's position (1, 2, ...; the reference level 0 has no column) for one that it does. Then,
with S w the table in which, along every axis, the entry of the reference level is replaced by
the sum over all levels,

* X' w    is S w at the columns' codes;
* X' D X  is S diag(D) at the union of the two columns' codes, and 0 where they disagree;
* X b     is S' applied to the table that holds b at the codes.

S costs one pass over the table per factor, so X is never formed (METHODS 2.5). Columns of special
terms, which are functions of a few factors too but no indicators, come after those.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import product
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, hstack

from dpcontingency.inference.columns import MarginColumns
from dpcontingency.inference.kernels import fold_axis, unfold_axis
from dpcontingency.release.noise import stratum_labels

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]


class Design(ABC):
    """The columns X of a model on a table, by what they do to vectors.

    Attributes
    ----------
    shape : tuple of int
        The shape of the table.
    strata : tuple of int
        Axes whose joint margin is fixed; `compress` keeps their cells apart.
    codes : ndarray of int, shape (h, K)
        The level of each factor that a column of the hierarchical part involves, or 0.
    extra : MarginColumns or None
        The columns after those.
    """

    shape: tuple[int, ...]
    strata: tuple[int, ...]
    codes: Index
    extra: MarginColumns | None = None

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """The number of columns of X."""

    @abstractmethod
    def keep(self, columns: npt.NDArray[np.bool_]) -> Design:
        """The same design with some columns only."""

    @abstractmethod
    def matrix(self) -> csr_array:
        """X itself, sparse. Only linear programs need it."""

    @abstractmethod
    def dot(self, beta: Array) -> Array:
        """X b, one number a cell (flat)."""

    @abstractmethod
    def tdot(self, cells: Array) -> Array:
        """X' w for one number a cell (flat)."""

    @abstractmethod
    def gram(self, weights: Array) -> Array:
        """X' diag(w) X."""

    @abstractmethod
    def by_stratum(self, cells: Array) -> Array:
        """X' w inside each stratum: one row a stratum."""

    def compress(self, curvature: Curvature) -> Array:
        """The curvature in log rates as one in the coefficients."""
        return curvature.compressed(self)


class Curvature(Protocol):
    """A symmetric matrix over cells that knows what it is in the coefficients of a design."""

    def compressed(self, design: Design) -> Array:
        """X' (this) X, shape (q, q)."""


class HierarchicalDesign(Design):
    """The columns of a hierarchical model on a table, in treatment coding.

    Parameters
    ----------
    shape : tuple of int
        The shape of the table.
    terms : sequence of tuples of int
        The terms as sets of axes; ``()`` is the intercept. Columns come term by term, the last
        axis of a term fastest.
    strata : tuple of int, optional
        Axes whose joint margin is fixed; `compress` keeps their cells apart.
    """

    def __init__(
        self, shape: tuple[int, ...], terms: Sequence[tuple[int, ...]], strata: tuple[int, ...] = ()
    ) -> None:
        self.shape = shape
        self.terms = tuple(terms)
        self.strata = strata
        blocks = [term_codes(shape, term) for term in self.terms]
        self.sizes = tuple(len(block) for block in blocks)
        self.codes = np.concatenate([np.zeros((0, len(shape)), dtype=np.intp), *blocks])
        strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
        self._strides = np.array(strides, dtype=np.intp)
        self._flat = self.codes @ self._strides

    @property
    def n_columns(self) -> int:
        """The number of columns of X."""
        return len(self.codes)

    def keep(self, columns: npt.NDArray[np.bool_]) -> HierarchicalDesign:
        """The same design with some columns only."""
        other = HierarchicalDesign(self.shape, self.terms, self.strata)
        other.codes = self.codes[columns]
        other._flat = self._flat[columns]
        return other

    def matrix(self) -> csr_array:
        """X itself, sparse: at most one entry a cell and term. Only linear programs need it."""
        cells = np.arange(math.prod(self.shape))
        levels = np.stack(np.unravel_index(cells, self.shape), axis=1)
        rows, columns = [], []
        position = {int(code): j for j, code in enumerate(self._flat)}
        for term in self.terms:
            axes = list(term)
            inside = (levels[:, axes] > 0).all(axis=1)
            flat = levels[inside][:, axes] @ self._strides[axes]
            found = np.array([position.get(int(code), -1) for code in flat], dtype=np.intp)
            rows.append(cells[inside][found >= 0])
            columns.append(found[found >= 0])
        row, column = np.concatenate([cells[:0], *rows]), np.concatenate([cells[:0], *columns])
        return csr_array((np.ones(row.size), (row, column)), shape=(cells.size, self.n_columns))

    def dot(self, beta: Array) -> Array:
        """X b, one number a cell (flat)."""
        cells = np.zeros(math.prod(self.shape))
        cells[self._flat] = beta
        for axis in range(len(self.shape)):
            unfold_axis(cells, *self._around(axis))
        return cells

    def tdot(self, cells: Array) -> Array:
        """X' w for one number a cell (flat)."""
        return np.asarray(self._sums(cells, ())[self._flat])

    def gram(self, weights: Array) -> Array:
        """X' diag(w) X."""
        sums = np.append(self._sums(weights, ()), 0.0)
        return np.asarray(sums[self._pairs])

    def by_stratum(self, cells: Array) -> Array:
        """X' w inside each stratum: one row a stratum."""
        if not self.strata:
            return self.tdot(cells)[None, :]
        sums = self._sums(cells, self.strata)
        axes = list(self.strata)
        levels = np.indices([self.shape[axis] for axis in axes]).reshape(len(axes), -1).T
        inner = self.codes.copy()
        inner[:, axes] = 0
        positions = levels @ self._strides[axes]
        inside = self.codes[None, :, axes]
        agree = ((inside == 0) | (inside == levels[:, None, :])).all(axis=-1)
        return np.where(agree, sums[positions[:, None] + inner @ self._strides], 0.0)

    def _sums(self, cells: Array, kept: tuple[int, ...]) -> Array:
        """S w, along every axis but the kept ones (flat)."""
        out = cells.copy()
        for axis in range(len(self.shape)):
            if axis not in kept:
                fold_axis(out, *self._around(axis))
        return out

    def _around(self, axis: int) -> tuple[int, int, int]:
        """How many cells lie across the axes before an axis, along it and across those after."""
        return math.prod(self.shape[:axis]), self.shape[axis], math.prod(self.shape[axis + 1 :])

    @cached_property
    def _pairs(self) -> Index:
        """For each pair of columns the flat position of the union of their codes."""
        flat = np.zeros((self.n_columns, self.n_columns), dtype=np.intp)
        clash = np.zeros(flat.shape, dtype=np.bool_)
        for axis, stride in enumerate(self._strides):
            code = self.codes[:, axis]
            one, other = code[:, None], code[None, :]
            flat += stride * np.maximum(one, other)
            clash |= (one != other) & (one > 0) & (other > 0)
        flat[clash] = math.prod(self.shape)  # one past the table, where `gram` puts a 0
        return flat


def term_codes(shape: tuple[int, ...], term: tuple[int, ...]) -> Index:
    """The codes of the columns of a term: the level of each factor, or 0, shape (q, K)."""
    levels = list(product(*(range(1, shape[axis]) for axis in term)))
    codes = np.zeros((len(levels), len(shape)), dtype=np.intp)
    codes[:, list(term)] = np.array(levels, dtype=np.intp).reshape(len(levels), len(term))
    return codes


class ExtendedDesign(Design):
    """The columns of a hierarchical design, then those of special terms.

    A row of X' D X that belongs to a special column z is X' (d z): O(p).

    Parameters
    ----------
    hierarchical : HierarchicalDesign
        The first columns.
    extra : MarginColumns
        The others, on the same table.
    """

    extra: MarginColumns

    def __init__(self, hierarchical: HierarchicalDesign, extra: MarginColumns) -> None:
        self.hierarchical, self.extra = hierarchical, extra
        self.shape, self.strata = hierarchical.shape, hierarchical.strata
        self.codes = hierarchical.codes
        self._first = hierarchical.n_columns

    @property
    def n_columns(self) -> int:
        """The number of columns of X."""
        return self._first + self.extra.n_columns

    def keep(self, columns: npt.NDArray[np.bool_]) -> ExtendedDesign:
        """The same design with some columns only."""
        first, rest = columns[: self._first], columns[self._first :]
        return ExtendedDesign(self.hierarchical.keep(first), self.extra.keep(rest))

    def matrix(self) -> csr_array:
        """X itself, sparse. Only linear programs need it."""
        return csr_array(hstack([self.hierarchical.matrix(), self.extra.matrix()], format="csr"))

    def dot(self, beta: Array) -> Array:
        """X b, one number a cell (flat)."""
        return self.hierarchical.dot(beta[: self._first]) + self.extra.dot(beta[self._first :])

    def tdot(self, cells: Array) -> Array:
        """X' w for one number a cell (flat)."""
        return np.concatenate([self.hierarchical.tdot(cells), self.extra.tdot(cells)])

    def gram(self, weights: Array) -> Array:
        """X' diag(w) X."""
        out = np.empty((self.n_columns, self.n_columns))
        out[: self._first, : self._first] = self.hierarchical.gram(weights)
        for j in range(self.extra.n_columns):
            row = self.tdot(weights * self.extra.column(j))
            out[self._first + j] = row
            out[: self._first, self._first + j] = row[: self._first]
        return out

    def by_stratum(self, cells: Array) -> Array:
        """X' w inside each stratum: one row a stratum."""
        if not self.strata:
            return self.tdot(cells)[None, :]
        first = self.hierarchical.by_stratum(cells)
        labels = stratum_labels(self.shape, self.strata)
        return np.hstack([first, self.extra.sums(cells, labels, len(first))])


def sum_coding(shape: tuple[int, ...], terms: Sequence[tuple[int, ...]]) -> Array:
    """The matrix that takes treatment-coded to sum-to-zero coefficients of the same model.

    Sum-to-zero coefficients are the interactions of X b: centred along each axis of their term,
    averaged over the others; the last level is minus the sum of the rest and has no column.
    """
    sizes = [math.prod(shape[axis] - 1 for axis in term) for term in terms]
    ends = np.cumsum(sizes, dtype=np.intp)
    places = {
        term: slice(end - size, end) for term, end, size in zip(terms, ends, sizes, strict=True)
    }
    out = np.zeros((sum(sizes), sum(sizes)))
    for source, columns in places.items():
        for target, rows in places.items():
            if set(target) <= set(source):
                maps = [_axis_map(shape[axis], axis in target) for axis in source]
                block: Array = np.ones((1, 1))
                for one in maps:
                    block = np.asarray(np.kron(block, one))
                out[rows, columns] = block
    return out


def _axis_map(n: int, centred: bool) -> Array:
    """Coefficients of levels 2..n to their mean, or to centred values of levels 1..n-1."""
    mean = np.full((1, n - 1), 1 / n)
    return np.eye(n)[:-1, 1:] - mean if centred else mean
