"""What a test that ignores the noise would say."""

import numpy as np
import pytest
from scipy import stats

from dpcontingency.domain import Domain
from dpcontingency.inference.hypothesis import independence_test, model_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.naive import noise_ignored
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

DOMAIN = Domain({"R": list("abc"), "S": list("wxyz")})
TRUTH = np.outer([0.2, 0.3, 0.5], [0.1, 0.2, 0.3, 0.4]).ravel()


def release_at(mu, n=1000, seed=1):
    rng = np.random.default_rng(seed)
    return simulate_release(rng.multinomial(n, TRUTH).reshape(3, 4), DOMAIN, GDP(mu), rng)


def test_it_is_scipys_test_of_the_noisy_table():
    release = release_at(0.3)
    naive = noise_ignored(independence_test(release, "R", "S"))
    oracle = stats.chi2_contingency(np.maximum(release.noisy, 0.5), correction=False)
    assert (naive.statistic, naive.pvalue) == pytest.approx((oracle.statistic, oracle.pvalue))
    assert naive.df == oracle.dof


def test_its_size_grows_with_the_noise():
    sizes = [noise_ignored(independence_test(release_at(mu), "R", "S")).size for mu in (10, 1, 0.1)]
    assert sizes[0] == pytest.approx(0.05, abs=0.02)
    assert sizes[0] < sizes[1] < sizes[2]
    assert sizes[2] == pytest.approx(0.87, abs=0.06)  # METHODS 2.1


def test_it_is_the_same_each_time_and_only_where_it_has_a_meaning():
    test = independence_test(release_at(0.3), "R", "S")
    assert noise_ignored(test) == noise_ignored(test)
    assert (
        noise_ignored(independence_test(Release.exact(np.ones((3, 4)), DOMAIN), "R", "S")) is None
    )
    domain = Domain({"A": [0, 1], "B": [0, 1], "C": [0, 1]})
    rng = np.random.default_rng(2)
    release = simulate_release(rng.integers(30, 60, (2, 2, 2)), domain, GDP(1), rng)
    assert noise_ignored(model_test(LogLinearModel(release, "[AB][AC][BC]"))) is None
    assert noise_ignored(independence_test(release, "A", "B", given="C")).df == 2
