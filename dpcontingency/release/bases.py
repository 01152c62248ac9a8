"""Public decompositions of the space in which the noise lives, without a p x p matrix.

Cells are in C order, strata and structural zeros as in `Neighbours`. All work is O(p) a factor or
less; only a user's own matrix is ever dense.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np
import numpy.typing as npt

from dpcontingency._language import phrase
from dpcontingency.errors import PrivacyError
from dpcontingency.release.noise import stratum_labels
from dpcontingency.release.sensitivity import Neighbours

Array = npt.NDArray[np.float64]

MAX_MATRIX_CELLS = 4096
ORTHONORMAL_WITHIN = 1e-8

# A basis U, p x d with orthonormal columns, enters James-Stein shrinkage toward the mean of the
# coordinates U'x only by the unit vector U 1 / sqrt(d): the component along it is the mean, and
# shrinking the other coordinates is shrinking what is orthogonal to it. The functions below give
# U 1, the sum of the basis vectors, as a table.


def helmert_sum(space: Neighbours) -> Array:
    """Return the sum of the Helmert contrasts of the possible cells, stratum by stratum.

    Contrast j of p cells (from 1) is (1, ..., 1, -j, 0, ..., 0) / sqrt(j (j + 1)), j ones. Under
    ``add-remove``, where the sensitivity space is the whole space, the basis is the cells.
    """
    possible = space.domain.possible()
    if space.fixed is None:
        return possible.astype(np.float64)
    out = np.zeros(possible.size)
    for cells in _stratum_cells(possible, space.fixed):
        out[cells] = _helmert_sum(cells.size)
    return out.reshape(possible.shape)


def interaction_sum(space: Neighbours) -> Array:
    """Return the sum of the Kronecker products of each factor's orthonormal Helmert basis.

    A factor's basis is 1 / sqrt(n) and its Helmert contrasts; of the products, those that are
    constant within strata are left out (none under ``add-remove``).

    Raises
    ------
    PrivacyError
        If the domain has structural zeros: the products are not orthogonal on the other cells.
    """
    refuse_structural_zeros(space, "The interaction basis")
    shape = space.domain.shape
    constant = [np.full(n, n**-0.5) for n in shape]
    whole = [c + _helmert_sum(n) for c, n in zip(constant, shape, strict=True)]
    out = _outer(whole)
    if space.fixed is None:
        return out
    return out - _outer([whole[i] if i in space.fixed else constant[i] for i in range(len(shape))])


def matrix_sum(space: Neighbours, matrix: Array) -> Array:
    """Return the sum of the columns of a user's basis, once it is seen to be one.

    Raises
    ------
    PrivacyError
        If it is not p x d, its columns are not orthonormal (to 1e-8) or do not lie in the
        sensitivity space, or p is above 4,096.
    """
    p, d = space.domain.size, space.dimension
    if p > MAX_MATRIX_CELLS:
        raise PrivacyError(
            f"A basis matrix serves tables of up to {MAX_MATRIX_CELLS:,} cells; this one has "
            f"{p:,}. Use basis='helmert' or basis='interaction', which need no matrix."
        )
    if matrix.shape != (p, d):
        raise PrivacyError(
            f"The basis of this table's sensitivity space is a {p} x {d} matrix, one row a cell "
            f"(last factor fastest); got shape {matrix.shape}."
        )
    if np.abs(matrix.T @ matrix - np.eye(d)).max() > ORTHONORMAL_WITHIN:
        raise PrivacyError(
            "The columns of the basis must be orthonormal; numpy.linalg.qr makes them so."
        )
    # Orthogonal to the indicators of impossible cells and of strata, hence in the space; being
    # d in number, they span it.
    possible = space.domain.possible()
    outside = [matrix[~possible.ravel()]]
    if space.fixed is not None:
        strata = _stratum_cells(possible, space.fixed)
        outside += [matrix[cells].sum(axis=0, keepdims=True) for cells in strata]
    if max(np.abs(part).max(initial=0) for part in outside) > ORTHONORMAL_WITHIN:
        raise PrivacyError(
            "The columns of the basis must lie in the sensitivity space: each adds up to 0 in "
            "every stratum (in all, without strata) and is 0 in a structural zero."
        )
    return np.asarray(matrix.sum(axis=1).reshape(space.domain.shape))


def order_parts(table: Array) -> list[Array]:
    """Split a table into its interactions by order: the mean, main effects, two-way, ...

    Part r is the sum of P_A x over the sets A of r factors, P_A the product of I - J/n_k over k in
    A and J/n_k elsewhere (METHODS 1.3); the parts are orthogonal and add up to the table. They
    are the coefficients of the product over axes of J/n_k + t (I - J/n_k): O(K^2 p) in all.
    """
    parts = [table]
    for axis in range(table.ndim):
        carried = np.zeros(())
        for r, part in enumerate(parts):
            mean = part.mean(axis=axis, keepdims=True)
            parts[r] = mean + carried
            carried = part - mean
        parts.append(carried)
    return [np.broadcast_to(part, table.shape) for part in parts]


def order_dimensions(space: Neighbours) -> list[int]:
    """Return the dimension of the noise in each of `order_parts`, the mean's first.

    Sums of products of n_k - 1 over sets of factors of one order, without those inside the strata
    (without the mean alone if there are none).
    """
    free = [n - 1 for n in space.domain.shape]
    whole = _symmetric(free)
    public = _symmetric([free[axis] for axis in space.fixed or ()])
    return [m - (public[r] if r < len(public) else 0) for r, m in enumerate(whole)]


def refuse_structural_zeros(space: Neighbours, what: str) -> None:
    """Refuse a domain in which interactions are not orthogonal."""
    if space.domain.structural_zeros:
        raise PrivacyError(
            f"{what} needs a domain without structural zeros, on which interactions are "
            f"orthogonal. Use RankDeficientJamesStein{phrase('()', '')}, which takes any domain."
        )


def _helmert_sum(p: int) -> Array:
    j = np.arange(1, p)
    scale = 1 / np.sqrt(j * (j + 1.0))
    later = np.concatenate([np.cumsum(scale[::-1])[::-1], [0.0]])
    return np.asarray(later - np.concatenate([[0.0], j * scale]))


def _stratum_cells(
    possible: npt.NDArray[np.bool_], strata: tuple[int, ...]
) -> list[npt.NDArray[np.intp]]:
    """Give the flat positions of the possible cells of each stratum, in C order."""
    labels = stratum_labels(possible.shape, strata)
    inside = np.flatnonzero(possible)
    order = np.argsort(labels[inside], kind="stable")
    cuts = np.flatnonzero(np.diff(labels[inside][order])) + 1
    return np.split(inside[order], cuts)


def _outer(vectors: Iterable[Array]) -> Array:
    """Return the outer product of a vector an axis."""
    return reduce(np.multiply.outer, vectors)


def _symmetric(numbers: Iterable[int]) -> list[int]:
    """Return the elementary symmetric sums of some numbers, order 0 first."""
    sums = [1]
    for x in numbers:
        sums = [a + x * b for a, b in zip([*sums, 0], [0, *sums], strict=True)]
    return sums
