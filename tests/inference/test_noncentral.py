"""Quadratic forms and noncentralities, against dense linear algebra."""

import numpy as np
import pytest
from scipy import stats

from dpcontingency.inference.noncentral import (
    GaussianCells,
    chi_square_power,
    noncentrality_interval,
    rank_of,
    taken_up,
)

RNG = np.random.default_rng(3)

CASES = [
    (RNG.uniform(1, 50, 7), RNG.uniform(1, 30, 7), np.zeros(7, dtype=np.intp)),
    (RNG.uniform(1, 50, 7), np.zeros(7), np.zeros(7, dtype=np.intp)),
    (RNG.uniform(1, 50, 7), RNG.uniform(1, 30, 7), None),
    (RNG.uniform(1, 50, 8), RNG.uniform(1, 30, 8), np.array([0, 1, 0, 1, 2, 2, 0, 1])),
    (np.array([5.0, 0, 7, 3]), np.array([2.0, 2, 2, 0]), np.zeros(4, dtype=np.intp)),
    (np.array([5.0, 0, 7, 3]), np.zeros(4), np.zeros(4, dtype=np.intp)),
]


@pytest.mark.parametrize(("mean", "variances", "strata"), CASES)
def test_forms_are_those_of_the_pseudo_inverse(mean, variances, strata):
    law = GaussianCells(mean, variances, strata)
    dense = law.covariance()
    inverse = np.linalg.pinv(dense, 1e-11, hermitian=True)
    x = dense @ np.random.default_rng(1).standard_normal((mean.size, 3))
    assert law.form(x, x) == pytest.approx(x.T @ inverse @ x, rel=1e-8)
    assert law.form(x, x[:, 0]) == pytest.approx(x.T @ inverse @ x[:, 0], rel=1e-8)
    assert law.free_cells() == np.linalg.matrix_rank(dense)
    sampling = GaussianCells(mean, np.zeros(mean.size), strata).covariance()
    assert law.sampling(x) == pytest.approx(sampling @ x, abs=1e-8 * np.abs(sampling @ x).max())
    if strata is not None:
        sums = [law.centred(np.ones(mean.size) * law.alive)[strata == g].sum() for g in set(strata)]
        assert sums == pytest.approx([0] * len(sums), abs=1e-12)


def test_what_directions_take_up_is_a_projection():
    mean, variances, strata = CASES[3]
    law = GaussianCells(mean, variances, strata)
    columns = law.sampling(np.random.default_rng(2).standard_normal((8, 3)))
    columns = np.hstack([columns, columns[:, :1] - 2 * columns[:, 1:2]])  # one is redundant
    shift = law.covariance() @ np.arange(8.0)
    root = np.linalg.cholesky(np.linalg.pinv(law.covariance()) + 1e-13 * np.eye(8)).T
    fitted = np.linalg.lstsq(root @ columns, root @ shift, rcond=None)[0]
    expected = np.sum((root @ columns @ fitted) ** 2)
    assert taken_up(law, shift, columns) == pytest.approx(expected, rel=1e-6)
    assert taken_up(law, shift, columns[:, :0]) == 0
    assert taken_up(law, columns[:, 0], columns) == pytest.approx(
        float(law.form(columns[:, 0], columns[:, 0]))
    )
    assert rank_of(law, np.ones((8, 1))) == 0  # a constant is fixed by the totals
    assert rank_of(GaussianCells(mean, variances, None), np.ones((8, 1))) == 1


@pytest.mark.parametrize("df", [1, 4, 60, 1500])
@pytest.mark.parametrize("statistic", [0.01, 3.0, 50.0, 2000.0, 1e4, 6e4, 1e7])
def test_the_noncentrality_interval_inverts_the_tails(statistic, df):
    lower, upper = noncentrality_interval(statistic, df, 0.1)
    for end, tail in ((lower, 0.05), (upper, 0.95)):
        if end > 0:
            assert stats.ncx2.sf(statistic, df, end) == pytest.approx(tail, abs=1e-6)
        else:
            assert stats.chi2.sf(statistic, df) >= tail
    assert lower <= upper


@pytest.mark.parametrize("statistic", [1e3, 1e6, 1e9, 1e14])
def test_the_noncentrality_of_one_df_is_a_shift(statistic):
    # The root of a chi-square of one df is the size of a normal variable.
    z = stats.norm.isf(0.025)
    expected = [(np.sqrt(statistic) + side * z) ** 2 for side in (-1, 1)]
    assert noncentrality_interval(statistic, 1, 0.05) == pytest.approx(expected, rel=1e-7)


def test_power_by_the_noncentral_chi_square():
    assert chi_square_power(0.0, 3, 0.05) == 0.05
    assert chi_square_power(7.849, 1, 0.05) == pytest.approx(0.8, abs=1e-4)
    assert chi_square_power(1e6, 5, 0.05) == pytest.approx(1.0)
