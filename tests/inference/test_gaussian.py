"""The O(p) score statistic equals the dense quadratic form."""

import numpy as np
import pytest

from dpcontingency.inference.gaussian import score_statistic


def dense(residual, fitted, variances, strata):
    if strata is None:
        return residual @ np.linalg.pinv(np.diag(fitted + variances)) @ residual
    sigma = np.zeros((residual.size, residual.size))
    for g in range(strata.max() + 1):
        for part in (np.where(strata == g, fitted, 0.0), np.where(strata == g, variances, 0.0)):
            if part.sum() > 0:
                sigma += np.diag(part) - np.outer(part, part) / part.sum()
    return residual @ np.linalg.pinv(sigma, hermitian=True) @ residual


@pytest.mark.parametrize("groups", [None, 1, 3])
@pytest.mark.parametrize("noise", ["equal", "unequal", "none", "some cells exact"])
def test_equals_the_dense_form(groups, noise):
    rng = np.random.default_rng(6)
    fitted = rng.uniform(1, 30, size=12)
    variances = {
        "equal": np.full(12, 9.0),
        "unequal": rng.uniform(0.5, 40, size=12),
        "none": np.zeros(12),
        "some cells exact": rng.uniform(0.5, 40, size=12) * (rng.random(12) < 0.6),
    }[noise]
    strata = None if groups is None else np.arange(12) % groups
    residual = rng.normal(scale=5, size=12)
    if strata is not None:
        residual -= (np.bincount(strata, residual) / np.bincount(strata))[strata]
    expected = dense(residual, fitted, variances, strata)
    assert score_statistic(residual, fitted, variances, strata) == pytest.approx(expected)


def test_a_record_where_the_model_has_none_is_infinitely_bad():
    cells = np.array([0.0, 4.0, 6.0])
    assert score_statistic(np.array([1.0, -1, 0]), cells, np.zeros(3), None) == np.inf
    assert score_statistic(np.array([0.0, 0, 0]), cells, np.zeros(3), None) == 0
