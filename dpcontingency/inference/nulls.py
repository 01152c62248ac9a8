"""Null hypotheses around a given distribution: the nearest null distribution and its tangent.

Each is the Kullback-Leibler projection of an alternative on the null model, with the directions in
which the null (and, where it is not the saturated model, the alternative) can still move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import null_space

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.design import HierarchicalDesign
from dpcontingency.inference.formula import generating_class, subsets
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.rows import CellRows
from dpcontingency.release.release import Release

Array = npt.NDArray[np.float64]
Generators = Sequence[Sequence[str]]

SCALE = 1e6  # records of the exact table whose fit is the projection
ROUNDS = 200
SMALL_STEP = 1e-12


@dataclass(frozen=True, eq=False)
class Null:
    """A null hypothesis at the distribution that comes nearest to an alternative.

    Attributes
    ----------
    nearest : ndarray, shape (p,)
        Its probabilities.
    columns : ndarray, shape (p, q)
        What it leaves free: changes of the log probabilities, the constant among them, or of the
        probabilities themselves where ``in_logs`` is False.
    more : ndarray, shape (p, r), or None
        What the alternative frees beside, as changes of the log probabilities; None where the
        alternative is the saturated model.
    compared : tuple of int, or None
        The axes of the margin that the alternative fits beside; None for the whole table.
    """

    nearest: Array
    columns: Array
    in_logs: bool = True
    more: Array | None = None
    compared: tuple[int, ...] | None = None


def hierarchical(
    domain: Domain, alternative: Array, generators: Generators, against: Generators | None = None
) -> Null:
    """A log-linear model, against a larger one or the saturated one.

    The nearest distribution has the margins of the alternative: it is the classical fit to the
    alternative itself.
    """
    release = Release.exact(SCALE * alternative, domain)
    model = LogLinearModel(release, generators, left_out="uniform")
    fit = model.fit(warn_convergence=False)
    if not fit.converged:
        raise ModelError(
            f"The null model {fit.generating_class} could not be fitted to the alternative: "
            f"{fit.reason}. Check the alternative for cells of probability 0."
        )
    more = None if against is None else design_columns(domain, against)
    return Null(fit.fittedvalues.to_numpy() / SCALE, design_columns(domain, generators), more=more)


def scored(domain: Domain, alternative: Array, generators: Generators, scores: Array) -> Null:
    """A log-linear model, against the same with one more column: a product of scores."""
    null = hierarchical(domain, alternative, generators)
    return Null(null.nearest, null.columns, more=scores.reshape(-1, 1))


def fixed_distribution(probabilities: Array) -> Null:
    """Given probabilities, which leave nothing but the number of records free."""
    return Null(probabilities.ravel(), np.ones((probabilities.size, 1)))


def symmetric(alternative: Array) -> Null:
    """Symmetry of a square table: the nearest is the average of the table and its transpose."""
    size = len(alternative)
    rows, columns = np.triu_indices(size)
    pairs = np.zeros((size, size, rows.size))
    pairs[rows, columns, np.arange(rows.size)] = 1.0
    pairs[columns, rows, np.arange(rows.size)] = 1.0
    return Null(((alternative + alternative.T) / 2).ravel(), pairs.reshape(size**2, -1))


def marginally_homogeneous(alternative: Array) -> Null:
    """Equal margins of a square table.

    Notes
    -----
    The nearest distribution is p_ij / (1 + t_i - t_j), where t, which sums to 0, maximises
    sum p_ij log(1 + t_i - t_j): the dual of the projection, concave and found by Newton steps.

    Raises
    ------
    ModelError
        If no distribution on the cells of the alternative has equal margins.
    """
    size = len(alternative)
    t = np.zeros(size)

    def value(at: Array) -> float:
        ratio = 1 + at[:, None] - at[None, :]
        if (ratio[alternative > 0] <= 0).any():
            return -np.inf
        return float(np.sum(alternative[alternative > 0] * np.log(ratio[alternative > 0])))

    for _ in range(ROUNDS):
        ratio = np.where(alternative > 0, 1 + t[:, None] - t[None, :], 1.0)
        first, second = alternative / ratio, alternative / ratio**2
        gradient = first.sum(axis=1) - first.sum(axis=0)
        curvature = np.diag(second.sum(axis=1) + second.sum(axis=0)) - second - second.T
        step = np.linalg.pinv(curvature, hermitian=True) @ gradient
        length = 1.0
        while value(t + length * step) < value(t) and length > SMALL_STEP:
            length /= 2
        t = t + length * step
        if np.abs(step).max() < SMALL_STEP:
            break
    ratio = np.where(alternative > 0, 1 + t[:, None] - t[None, :], 1.0)
    nearest = alternative / ratio
    if np.abs(nearest.sum(axis=1) - nearest.sum(axis=0)).max() > 1e-8:
        raise ModelError(
            "No distribution on the cells of the alternative has equal row and column margins; "
            "give the cells that are possible a positive probability."
        )
    index = np.arange(size)
    margins = np.zeros((size, size, size))
    margins[index, :, index] += 1.0
    margins[:, index, index] -= 1.0
    free = null_space(margins.reshape(size**2, size).T)
    return Null(nearest.ravel(), free, in_logs=False)


def design_columns(domain: Domain, generators: Generators) -> Array:
    """The dense columns of a hierarchical model, the constant first, shape (p, q)."""
    terms = [(), *subsets(generating_class(generators, domain.names), domain.names)]
    axes = [tuple(domain.axis(name) for name in term) for term in terms]
    codes = HierarchicalDesign(domain.shape, axes).codes
    return CellRows(domain.shape, codes).of(np.arange(domain.size))
