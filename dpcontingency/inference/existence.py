"""Which cells and parameters of a model have finite maximum-likelihood estimates.

With exact counts the estimate exists where the fitted margins lie inside the marginal cone of the
model. Otherwise the likelihood rises along a direction that sends some cells to 0; the cells that
stay are the facial set, on which the model is an ordinary one with its own rank and degrees of
freedom (Fienberg and Rinaldo 2012). With noise the same happens when a margin is within noise of
0; `dpcontingency.inference.limits` finds it at the end of a fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, vstack

from dpcontingency._language import phrase
from dpcontingency.errors import ModelError, listing
from dpcontingency.inference.design import Design
from dpcontingency.inference.lowrank import DiagonalPlusLowRank, sum_by_stratum

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.intp]

RANK_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Existence:
    """Whether the maximum-likelihood estimate exists, and if not which parameters drift.

    Attributes
    ----------
    parameters : tuple of str
        The parameters whose estimate is infinite or left open, empty when the estimate exists.
    penalised : bool
        Whether a penalty held the estimates back, so that these are open for want of any record.
    open : tuple of str
        Those of them that the release leaves open: they may go either way, or have a maximum
        whose standard error says that it is no estimate (`limits.is_open`).
    """

    parameters: tuple[str, ...]
    penalised: bool = False
    open: tuple[str, ...] = ()

    @property
    def exists(self) -> bool:
        """Whether every parameter has a finite estimate."""
        return not self.parameters

    @property
    def reason(self) -> str:
        """What happened, in a sentence; empty when the estimate exists."""
        if self.exists:
            return ""
        names = listing(self.parameters)
        if self.penalised:
            return (
                "No record can be in the cells that these parameters tell apart, because the "
                f"public total there is 0: {names}. They have no estimate, with or without penalty."
            )
        infinite = [name for name in self.parameters if name not in self.open]
        sentences = []
        if infinite:
            sentences.append(
                "The fit improves toward a limit as these parameters go to infinity, because a "
                "margin of the model, or a pattern of its cells, is zero or within noise of zero: "
                f"{listing(infinite)}. They have no finite estimate; the log-likelihood and "
                "fitted cells are the limit."
            )
        if self.open:
            sentences.append(
                "The release tells next to nothing of these parameters, which are left open, "
                "because they compare cells or margins within noise of zero: "
                f"{listing(self.open)}."
            )
        jeffreys = phrase("model.fit(penalty='jeffreys')", "dpcontingency fit --penalty jeffreys")
        sentences.append(
            f"For a table, {jeffreys} has finite estimates, except where a public total is 0."
        )
        return " ".join(sentences)


def null_directions(design: Design, cells: Mask, strata: Labels | None) -> Array:
    """The directions that move no log mean of some cells, but for constants of strata: (q, r).

    Orthonormal columns.
    """
    values, vectors = np.linalg.eigh(_gram(design, cells.astype(np.float64), strata))
    largest = float(values.max(initial=1.0))
    return np.asarray(vectors[:, values <= RANK_TOLERANCE * largest])


def complement(directions: Array) -> Array:
    """An orthonormal basis of what is orthogonal to some orthonormal columns, shape (q, q - r)."""
    size, rank = directions.shape
    if rank == 0:
        return np.eye(size)
    return np.asarray(np.linalg.qr(directions, mode="complete")[0][:, rank:])


def facial_set(design: Design, counts: Array, possible: Mask, strata: Labels) -> Mask:
    """The cells that keep a positive mean at the maximum of the likelihood of exact counts.

    Parameters
    ----------
    design : Design
        The free columns of the model.
    counts : ndarray, shape (p,)
        Exact counts, structural zeros included.
    possible : ndarray of bool, shape (p,)
        Which cells are possible.
    strata : ndarray of int, shape (p,)
        The stratum of each cell, whose total is fixed; a column of ones for each.

    Notes
    -----
    One linear program: among directions d with X d = 0 on the cells that hold records and
    X d <= 0 on the others, maximise sum min(1, -X d). Scaling d shows that every cell that some
    direction sends to 0 counts 1 at the optimum, and no other does.
    """
    empty = possible & (counts == 0)
    if not empty.any():
        return possible
    groups = csr_array((np.ones(strata.size), (np.arange(strata.size), strata)))
    columns = hstack([design.matrix(), groups], format="csr")
    n_empty, n_columns = int(empty.sum()), columns.shape[1]
    solution = linprog(
        np.concatenate([np.zeros(n_columns), -np.ones(n_empty)]),
        A_ub=hstack([columns[empty], eye_array(n_empty)], format="csr"),
        b_ub=np.zeros(n_empty),
        A_eq=vstack([hstack([columns[counts > 0], csr_array((int((counts > 0).sum()), n_empty))])]),
        b_eq=np.zeros(int((counts > 0).sum())),
        bounds=[(None, None)] * n_columns + [(0, 1)] * n_empty,
    )
    if solution.x is None:  # feasible at 0 and bounded by construction, so only by a limit of time
        raise ModelError(f"The facial set could not be found: {solution.message}.")
    face = possible.copy()
    face[np.flatnonzero(empty)[solution.x[n_columns:] > 0.5]] = False
    return face


def of_levels_in_use(counts: Array) -> Mask:
    """Which cells of a table are of levels that all have records, shape of the table.

    Examples
    --------
    >>> of_levels_in_use(np.array([[3.0, 0, 5], [0, 0, 2]])).astype(int)
    array([[1, 0, 1],
           [1, 0, 1]])
    """
    used = np.ones(counts.shape, dtype=np.bool_)
    for k in range(counts.ndim):
        others = tuple(j for j in range(counts.ndim) if j != k)
        used &= counts.sum(axis=others, keepdims=True) > 0
    return used


def independent_columns(design: Design, cells: Mask, strata: Labels | None) -> Mask:
    """Which columns are not linear combinations of earlier ones on some cells.

    Columns of ones for the strata, where totals are fixed, come before all.
    """
    weights = cells.astype(np.float64)
    gram = _gram(design, weights, strata)
    kept = np.zeros(design.n_columns, dtype=np.bool_)
    scale = np.maximum(np.diag(design.gram(weights)), 1.0)
    for j in range(design.n_columns):
        pivot = gram[j, j]
        if pivot > RANK_TOLERANCE * scale[j]:
            kept[j] = True
            ahead = gram[j, j + 1 :]
            gram[j + 1 :, j + 1 :] -= np.outer(ahead, ahead / pivot)
    return kept


class Span:
    """The vectors over the cells that the independent columns of a design can make.

    Parameters
    ----------
    design : Design
        Columns none of which is a combination of others.
    cells : ndarray of bool, shape (p,)
        The cells that count.
    strata : ndarray of int, shape (p,), or None
        The stratum of each cell where totals are fixed: columns of ones for these come free.
    """

    def __init__(self, design: Design, cells: Mask, strata: Labels | None) -> None:
        self._design, self._strata = design, strata
        self._weights = cells.astype(np.float64)
        gram = _gram(design, self._weights, strata)
        self._scale = 1 / np.sqrt(np.diag(gram))
        self._factor = cho_factor(gram * np.outer(self._scale, self._scale)) if len(gram) else None

    def coordinates(self, vector: Array) -> tuple[Array, bool]:
        """The combination of columns nearest to a vector, and whether it is the vector."""
        inside = self._centred(vector)
        near = np.zeros(self._design.n_columns)
        if self._factor is not None:
            near = self._scale * cho_solve(self._factor, self._scale * self._design.tdot(inside))
        left = self._centred(vector - self._design.dot(near))
        size = max(float(inside @ inside), 1e-14 * float(vector @ vector))
        return near, float(left @ left) <= RANK_TOLERANCE * size

    def _centred(self, vector: Array) -> Array:
        """The vector on the cells that count, less its mean over each stratum."""
        inside = vector * self._weights
        if self._strata is None:
            return inside
        groups = int(self._strata.max()) + 1
        sizes, sums = (sum_by_stratum(self._strata, v, groups) for v in (self._weights, inside))
        means = np.divide(sums, sizes, out=np.zeros(groups), where=sizes > 0)
        return np.asarray(inside - means[self._strata] * self._weights)


def _gram(design: Design, weights: Array, strata: Labels | None) -> Array:
    """X' diag(w) X after taking out the columns of ones of the strata, where totals are fixed."""
    if strata is None:
        return design.gram(weights)
    sizes = sum_by_stratum(strata, weights, int(strata.max()) + 1)
    cores = -np.divide(1.0, sizes, out=np.zeros(sizes.size), where=sizes > 0)[:, None, None]
    return design.compress(DiagonalPlusLowRank(weights, weights[None, :], cores, strata))
