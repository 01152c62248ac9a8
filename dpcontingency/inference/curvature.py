"""Quadratic forms on log rates, in the coefficients of measured interactions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.design import Design

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MeasuredCurvature:
    """A quadratic form on log rates that lie in the span of the measured columns.

    Attributes
    ----------
    design : Design
        The measured columns.
    matrix : ndarray, shape (m, m)
        The form in their coefficients.
    """

    design: Design
    matrix: Array

    def compressed(self, design: Design) -> Array:
        """The form in the coefficients of a design whose columns the measured ones span."""
        places, extra = self.columns(design), self.combinations(design)
        out = self.matrix[np.ix_(places, places)]
        if not extra.shape[1]:
            return out
        across = self.matrix[places] @ extra
        return np.block([[out, across], [across.T, extra.T @ self.matrix @ extra]])

    def columns(self, design: Design) -> npt.NDArray[np.intp]:
        """Which of the measured columns are those of the hierarchical part of a design."""
        place = {tuple(code): j for j, code in enumerate(self.design.codes)}
        return np.array([place[tuple(code)] for code in design.codes], dtype=np.intp)

    def combinations(self, design: Design) -> Array:
        """The columns of special terms as combinations of the measured ones, shape (m, s).

        Up to a constant. The factors of a special term lie in a released margin, so it is one.
        """
        extra = design.extra
        if extra is None or not extra.n_columns:
            return np.zeros((len(self.matrix), 0))
        size, wanted = math.prod(design.shape), map(extra.column, range(extra.n_columns))
        gram = self.design.gram(np.ones(size))
        right = np.stack([self.design.tdot(z) for z in wanted], axis=1)
        if (self.design.codes > 0).any(axis=1).all():  # no constant was measured: it comes free
            sums = self.design.tdot(np.ones(size))
            gram -= np.outer(sums, sums / size)
            totals = np.array([extra.column(j).mean() for j in range(extra.n_columns)])
            right -= np.outer(sums, totals)
        return np.asarray(np.linalg.lstsq(gram, right, rcond=1e-12)[0])
