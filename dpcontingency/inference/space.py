"""Where the cells of a model live: in the joint table, or in the cliques of a junction tree.

A model asks little of its cells: the sum of their exponentials, margins, and the columns of terms.
Where the joint table is too large to write down, a vector over all cells of the cliques of a
junction tree takes its place (`junction`): log rates are sums of parts that belong to cliques, and
means are the cliques' margins.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array, hstack

from dpcontingency.domain import Domain
from dpcontingency.inference.design import Design, HierarchicalDesign, term_codes
from dpcontingency.inference.junction import Axes, JunctionTree

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class CellSpace(ABC):
    """The cells of a table as far as they are written down.

    Attributes
    ----------
    shape : tuple of int
        Of the joint table.
    cliques : tuple of tuples of int
        The sets of axes whose cells follow one another.
    size : int
        The length of vectors over the cells.
    is_joint : bool
        Whether these are the cells of the joint table.
    """

    shape: tuple[int, ...]
    size: int
    is_joint: bool

    @property
    @abstractmethod
    def cliques(self) -> tuple[Axes, ...]:
        """The sets of axes whose cells follow one another."""

    @property
    def n_cells(self) -> int:
        """The cells of the joint table, an exact number."""
        return math.prod(self.shape)

    @abstractmethod
    def possible(self, domain: Domain) -> Mask:
        """The cells that can hold a record, shape (size,)."""

    @abstractmethod
    def design(self, terms: Sequence[Axes], strata: Axes = ()) -> Design:
        """The columns of some terms, in treatment coding."""

    @abstractmethod
    def sums(self, logs: Array) -> tuple[float, Array]:
        """Log sum exp over the joint table, and the probabilities in proportion: shape (size,)."""

    @abstractmethod
    def margin(self, means: Array, axes: Sequence[int]) -> Array:
        """The margin over some axes, in the order given."""

    @abstractmethod
    def drawn(self, means: Array, total: int | None, rng: np.random.Generator) -> Array:
        """Counts with these means, multinomial or, without a total, Poisson: shape (size,)."""

    @abstractmethod
    def second_moments(self, design: Design, means: Array) -> Array:
        """X' D X summed over the joint table, D its means and X the columns of a design."""

    def gauged(self, design: Design) -> Design:
        """A design with the columns that change no log mean, but how it is divided into parts."""
        return design


class JointSpace(CellSpace):
    """The joint table itself.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    """

    is_joint = True

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.size = shape, math.prod(shape)

    @property
    def cliques(self) -> tuple[Axes, ...]:
        """All axes."""
        return (tuple(range(len(self.shape))),)

    def possible(self, domain: Domain) -> Mask:
        """The cells that are no structural zeros."""
        return domain.possible().ravel()

    def design(self, terms: Sequence[Axes], strata: Axes = ()) -> Design:
        """The columns of some terms, in treatment coding."""
        return HierarchicalDesign(self.shape, terms, strata)

    def sums(self, logs: Array) -> tuple[float, Array]:
        """Log sum exp over the cells, and their shares."""
        top = float(logs.max())
        weights = np.exp(logs - top)
        total = float(weights.sum())
        return top + math.log(total), weights / total

    def margin(self, means: Array, axes: Sequence[int]) -> Array:
        """The margin over some axes, in the order given."""
        table = means.reshape(self.shape)
        out = table.sum(axis=tuple(k for k in range(table.ndim) if k not in axes))
        left = sorted(axes)
        return np.asarray(out.transpose([left.index(k) for k in axes]))

    def drawn(self, means: Array, total: int | None, rng: np.random.Generator) -> Array:
        """Counts with these means."""
        if total is None:
            return np.asarray(rng.poisson(means), dtype=np.float64)
        return np.asarray(rng.multinomial(total, means / means.sum()), dtype=np.float64)

    def second_moments(self, design: Design, means: Array) -> Array:
        """X' D X."""
        return design.gram(means)


class TreeSpace(CellSpace):
    """The cliques of a junction tree, one after the other.

    Parameters
    ----------
    tree : JunctionTree
        Every term lies in a clique of it.
    """

    is_joint = False

    def __init__(self, tree: JunctionTree) -> None:
        self.tree, self.shape, self.size = tree, tree.shape, tree.size

    @property
    def cliques(self) -> tuple[Axes, ...]:
        """The cliques of the tree."""
        return self.tree.cliques

    def possible(self, domain: Domain) -> Mask:
        """All cells: a margin with structural zeros is not released."""
        return np.ones(self.size, dtype=np.bool_)

    def design(self, terms: Sequence[Axes], strata: Axes = ()) -> Design:
        """The columns of some terms, in treatment coding, each in a clique that holds it."""
        codes = [term_codes(self.shape, term) for term in terms]
        rows, columns, first = [], [], 0
        for term, block in zip(terms, codes, strict=True):
            home = self.tree.home(term)
            clique = self.tree.cliques[home]
            levels = np.indices([self.shape[k] for k in clique]).reshape(len(clique), -1)
            inside = levels[[clique.index(axis) for axis in term]]
            at = np.flatnonzero((inside > 0).all(axis=0))
            column = _ravel(inside[:, at] - 1, [self.shape[axis] - 1 for axis in term])
            rows.append(at + self.tree.places[home].start)
            columns.append(column + first)
            first += len(block)
        empty = np.zeros(0, dtype=np.intp)
        row, column = np.concatenate([empty, *rows]), np.concatenate([empty, *columns])
        matrix = csr_array((np.ones(row.size), (row, column)), shape=(self.size, first))
        none = np.zeros((0, len(self.shape)), dtype=np.intp)
        return MatrixDesign(matrix, np.concatenate([none, *codes]))

    def sums(self, logs: Array) -> tuple[float, Array]:
        """Log sum exp over the joint table, and the margins of the cliques."""
        return self.tree.sums(logs)

    def margin(self, means: Array, axes: Sequence[int]) -> Array:
        """The margin over some axes, in the order given."""
        return self.tree.margin(means, axes)

    def drawn(self, means: Array, total: int | None, rng: np.random.Generator) -> Array:
        """Counts with these means: of the root, then of each clique given what it shares."""
        return self.tree.drawn(means, total, rng)

    def second_moments(self, design: Design, means: Array) -> Array:
        """X' D X: each column's expectation in the home of the other."""
        matrix = design.matrix()
        expected = self.tree.expectations(means, np.ascontiguousarray(matrix.toarray().T))
        out = np.asarray((matrix.T @ (expected * means).T).T)
        return np.asarray((out + out.T) / 2)

    def gauged(self, design: Design) -> Design:
        """The design, and columns that take a function of a separator from one clique to another.

        With them, log means are the same in all joint cells that some cliques' cells make up if
        and only if some combination of columns is the same in these.
        """
        rows, columns, signs, first = [], [], [], 0
        for child, parent, shared in self.tree.edges:
            width = math.prod(self.shape[k] for k in shared)
            for clique, sign in ((child, 1.0), (parent, -1.0)):
                axes = self.tree.cliques[clique]
                levels = np.indices([self.shape[k] for k in axes]).reshape(len(axes), -1)
                inside = levels[[axes.index(axis) for axis in shared]]
                at = _ravel(inside, [self.shape[axis] for axis in shared])
                place = self.tree.places[clique]
                rows.append(np.arange(place.start, place.stop))
                columns.append(at + first)
                signs.append(np.full(at.size, sign))
            first += width
        if not rows:
            return design
        places = (np.concatenate(rows), np.concatenate(columns))
        gauge = coo_array((np.concatenate(signs), places), shape=(self.size, first))
        whole = csr_array(hstack([design.matrix(), gauge], format="csr"))
        return MatrixDesign(whole, design.codes)


class MatrixDesign(Design):
    """Columns that are written down, sparse.

    Parameters
    ----------
    matrix : sparse array, shape (size, q)
        The columns.
    codes : ndarray of int, shape (h, K)
        The level of each factor that each of the first columns involves, or 0.
    """

    def __init__(self, matrix: csr_array, codes: npt.NDArray[np.intp]) -> None:
        self.shape, self.strata = (matrix.shape[0],), ()
        self.codes = codes
        self._matrix = matrix

    @property
    def n_columns(self) -> int:
        """The number of columns of X."""
        return int(self._matrix.shape[1])

    def keep(self, columns: Mask) -> MatrixDesign:
        """The same design with some columns only."""
        return MatrixDesign(self._matrix[:, columns], self.codes[columns[: len(self.codes)]])

    def matrix(self) -> csr_array:
        """X itself, sparse."""
        return self._matrix

    def dot(self, beta: Array) -> Array:
        """X b."""
        return np.asarray(self._matrix @ beta)

    def tdot(self, cells: Array) -> Array:
        """X' w."""
        return np.asarray(self._matrix.T @ cells)

    def gram(self, weights: Array) -> Array:
        """X' diag(w) X."""
        weighted = self._matrix.multiply(weights[:, None])
        return np.asarray((self._matrix.T @ weighted).toarray())

    def by_stratum(self, cells: Array) -> Array:
        """X' w, in one row."""
        return self.tdot(cells)[None, :]


def covariance_of(space: CellSpace, design: Design, means: Array, total: float | None) -> Array:
    """B V B', V the covariance of counts with these means and B' the columns of a design.

    Poisson without a public total, multinomial with one.
    """
    second = space.second_moments(design, means)
    if total is None:
        return second
    first = design.tdot(means)
    return second - np.outer(first, first / total if total else first)


def _ravel(levels: npt.NDArray[np.intp], sizes: Sequence[int]) -> npt.NDArray[np.intp]:
    """Flat positions of levels, one row an axis; 0 where there is no axis."""
    out = np.zeros(levels.shape[1], dtype=np.intp)
    for row, size in zip(levels, sizes, strict=True):
        out = out * size + row
    return out
