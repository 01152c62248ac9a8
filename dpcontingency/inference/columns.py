"""Columns over a table that are functions of the levels of a few factors each.

A column is kept on the margin of its factors: its part of X b expands a small table, and that of
X' w sums over the factors that it does not depend on. No block of X is formed (METHODS 2.5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, hstack

from dpcontingency.inference.lowrank import sum_by_stratum

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Block = tuple[tuple[int, ...], csr_array]


class MarginColumns:
    """Columns over a table, each a function of the levels on some axes.

    Parameters
    ----------
    shape : tuple of int
        The shape of the table.
    blocks : sequence of (axes, matrix)
        For some axes, ascending, a sparse matrix with a row a cell of their margin.
    """

    def __init__(self, shape: tuple[int, ...], blocks: Sequence[Block]) -> None:
        self.shape = shape
        self.blocks = [(axes, matrix) for axes, matrix in blocks if matrix.shape[1]]
        ends = np.cumsum([0, *(matrix.shape[1] for _, matrix in self.blocks)])
        self._parts = [slice(a, b) for a, b in pairwise(ends)]
        self.n_columns = int(ends[-1])

    def keep(self, columns: Mask) -> MarginColumns:
        """Some of the columns only."""
        parts = zip(self.blocks, self._parts, strict=True)
        return MarginColumns(self.shape, [(axes, m[:, columns[part]]) for (axes, m), part in parts])

    def column(self, j: int) -> Array:
        """One column, a number a cell (flat)."""
        return self.dot(np.eye(1, self.n_columns, j)[0])

    def dot(self, beta: Array) -> Array:
        """What the columns add to X b (flat)."""
        out = np.zeros(self.shape)
        for (axes, matrix), part in zip(self.blocks, self._parts, strict=True):
            if beta[part].any():
                sizes = [n if k in axes else 1 for k, n in enumerate(self.shape)]
                out += (matrix @ beta[part]).reshape(sizes)
        return out.ravel()

    def tdot(self, cells: Array) -> Array:
        """The sum of each column times one number a cell."""
        out = np.zeros(self.n_columns)
        table = cells.reshape(self.shape)
        for (axes, matrix), part in zip(self.blocks, self._parts, strict=True):
            others = tuple(k for k in range(len(self.shape)) if k not in axes)
            out[part] = matrix.T @ table.sum(axis=others).ravel()
        return out

    def rows(self, cells: Index) -> Array:
        """The values of all columns in some cells (flat positions), dense."""
        return np.asarray(self._sparse_rows(cells).toarray())

    def sums(self, cells: Array, labels: Index, groups: int) -> Array:
        """`tdot` inside each group of cells: one row a group."""
        columns = (self.column(j) for j in range(self.n_columns))
        out = [sum_by_stratum(labels, cells * z, groups) for z in columns]
        return np.array(out).reshape(self.n_columns, groups).T

    def matrix(self) -> csr_array:
        """The columns over all cells, sparse. Only linear programs need it."""
        return self._sparse_rows(np.arange(math.prod(self.shape)))

    def _sparse_rows(self, cells: Index) -> csr_array:
        levels = np.unravel_index(cells, self.shape)
        parts = [csr_array((cells.size, 0))]
        for axes, matrix in self.blocks:
            margin = tuple(self.shape[k] for k in axes)
            parts.append(matrix[np.ravel_multi_index([levels[k] for k in axes], margin)])
        return csr_array(hstack(parts, format="csr"))
