"""The matrix-free design equals patsy's matrix, on awkward shapes."""

import itertools

import numpy as np
import pandas as pd
import pytest
from patsy import dmatrix

from dpcontingency.inference.design import HierarchicalDesign, sum_coding
from dpcontingency.inference.lowrank import DiagonalPlusLowRank

SHAPES = [(2, 3, 4), (3, 1, 2), (2, 2, 2, 3), (1, 1), (5,), (4, 2)]


def closure(shape, order):
    axes = range(len(shape))
    return [t for r in range(order + 1) for t in itertools.combinations(axes, r)]


def patsy_matrix(shape, order, coding):
    """The model matrix as patsy makes it, columns in our order."""
    names = [f"f{k}" for k in range(len(shape))]
    cells = pd.DataFrame(list(itertools.product(*map(range, shape))), columns=names)
    columns = {}
    for term in closure(shape, order):
        factors = [k for k in term if shape[k] > 1]
        if len(factors) < len(term):
            continue
        blocks = [np.asarray(dmatrix(f"C(f{k}, {coding})", cells))[:, 1:] for k in factors]
        for choice in itertools.product(*(range(b.shape[1]) for b in blocks)):
            picked = [b[:, j] for b, j in zip(blocks, choice, strict=True)]
            columns[(term, choice)] = np.prod([np.ones(len(cells)), *picked], axis=0)
    return np.column_stack(list(columns.values()))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_products_equal_those_of_the_matrix(shape, order):
    rng = np.random.default_rng(3)
    terms = closure(shape, order)
    design = HierarchicalDesign(shape, terms)
    x = patsy_matrix(shape, order, "Treatment")
    assert design.n_columns == x.shape[1]
    beta, w = rng.normal(size=x.shape[1]), rng.normal(size=x.shape[0])
    np.testing.assert_allclose(design.dot(beta), x @ beta, atol=1e-12)
    np.testing.assert_allclose(design.tdot(w), x.T @ w, atol=1e-12)
    np.testing.assert_allclose(design.gram(w), x.T @ (w[:, None] * x), atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_sum_coding_is_the_change_of_coefficients(shape):
    terms = closure(shape, 2)
    treatment = patsy_matrix(shape, 2, "Treatment")
    summed = patsy_matrix(shape, 2, "Sum")
    change = sum_coding(shape, terms)
    np.testing.assert_allclose(summed @ change, treatment, atol=1e-12)


@pytest.mark.parametrize("strata", [(), (1,), (0, 2)])
def test_compression_equals_dense_algebra(strata):
    rng = np.random.default_rng(4)
    shape = (2, 3, 4)
    p = int(np.prod(shape))
    design = HierarchicalDesign(shape, closure(shape, 2)[1:], strata)
    sizes = [n if k in strata else 1 for k, n in enumerate(shape)]
    groups = int(np.prod(sizes))
    labels = np.broadcast_to(np.arange(groups).reshape(sizes), shape).ravel()
    cores = rng.normal(size=(groups, 2, 2))
    curvature = DiagonalPlusLowRank(
        rng.normal(size=p), rng.normal(size=(2, p)), cores + cores.transpose(0, 2, 1), labels
    )
    x = np.column_stack([design.dot(e) for e in np.eye(design.n_columns)])
    expected = x.T @ curvature.dense() @ x
    np.testing.assert_allclose(design.compress(curvature), expected, atol=1e-11)
