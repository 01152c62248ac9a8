"""Symmetric matrices over cells: a diagonal, plus a small block of low rank in each stratum."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


class Columns(Protocol):
    """What a compression asks of a design."""

    @property
    def n_columns(self) -> int:
        """The number of columns."""

    def gram(self, weights: Floats) -> Floats:
        """X' diag(w) X."""

    def by_stratum(self, cells: Floats) -> Floats:
        """X' w inside each stratum: one row a stratum."""


@dataclass(frozen=True)
class DiagonalPlusLowRank:
    """A symmetric matrix, ``diag(d) + W_g' C_g W_g`` in the block of each stratum ``g``.

    Attributes
    ----------
    diagonal : ndarray of shape (p,)
    vectors : ndarray of shape (R, p)
        The rows of ``W``; ``W_g`` is ``W`` restricted to the cells of stratum ``g``.
    cores : ndarray of shape (G, R, R)
    strata : ndarray of int of shape (p,)
        The stratum of each cell, ``0 .. G - 1``.
    """

    diagonal: Floats
    vectors: Floats
    cores: Floats
    strata: Ints

    def dense(self) -> Floats:
        """Return the p x p matrix, for small tables."""
        same = self.strata[:, None] == self.strata[None, :]
        core = self.cores[self.strata]  # each row's own core
        low_rank = np.einsum("ri,irs,sj->ij", self.vectors, core, self.vectors)
        return np.diag(self.diagonal) + np.where(same, low_rank, 0.0)

    def dot(self, x: Floats) -> Floats:
        """Multiply a vector of shape (p,)."""
        inner = sum_by_stratum(self.strata, self.vectors * x, len(self.cores))
        outer = np.einsum("grs,sg->rg", self.cores, inner)
        return np.asarray(self.diagonal * x + (self.vectors * outer[:, self.strata]).sum(axis=0))

    def plus(self, other: "DiagonalPlusLowRank") -> "DiagonalPlusLowRank":
        """The sum of two such matrices with the same strata."""
        own, rank = len(self.vectors), len(self.vectors) + len(other.vectors)
        cores = np.zeros((len(self.cores), rank, rank))
        cores[:, :own, :own], cores[:, own:, own:] = self.cores, other.cores
        vectors = np.concatenate([self.vectors, other.vectors])
        return DiagonalPlusLowRank(self.diagonal + other.diagonal, vectors, cores, self.strata)

    def compressed(self, design: "Columns") -> Floats:
        """X' (diagonal + low rank) X for the columns X of a design."""
        out = design.gram(self.diagonal)
        if len(self.vectors):
            rows = np.stack([design.by_stratum(v) for v in self.vectors])  # (R, G, q)
            weighted = np.einsum("grs,sgj->rgj", self.cores, rows)
            flat = (rows.shape[0] * rows.shape[1], design.n_columns)
            out += rows.reshape(flat).T @ weighted.reshape(flat)
        return out

    def solve(self, b: Floats) -> Floats:
        """Solve ``A x = b`` by Woodbury's identity in each stratum.

        Cells whose diagonal entry is 0 are taken to be absent: they get 0.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the matrix is singular.
        """
        n_strata, rank, _ = self.cores.shape
        live = self.diagonal != 0.0
        inverse = np.divide(1.0, self.diagonal, out=np.zeros_like(self.diagonal), where=live)
        direct = b * inverse
        inner = sum_by_stratum(self.strata, self.vectors * direct, n_strata)
        gram = np.empty((n_strata, rank, rank))
        for r in range(rank):
            weighted = self.vectors * (self.vectors[r] * inverse)
            gram[:, r, :] = sum_by_stratum(self.strata, weighted, n_strata).T
        capacity = np.eye(rank) + self.cores @ gram
        outer = np.linalg.solve(capacity, self.cores @ inner.T[:, :, None])[:, :, 0]
        low_rank = (self.vectors * outer.T[:, self.strata]).sum(axis=0)
        return np.asarray(direct - inverse * low_rank)


def sum_by_stratum(strata: Ints, cells: Floats, n_strata: int) -> Floats:
    """Sum over strata along the last axis."""
    if n_strata == 1:
        return np.asarray(cells.sum(axis=-1, keepdims=True))
    rows = np.atleast_2d(cells)
    sums = np.empty((len(rows), n_strata))
    for out, row in zip(sums, rows, strict=True):
        out[:] = np.bincount(strata, row, n_strata)
    return sums.reshape(*cells.shape[:-1], n_strata)
