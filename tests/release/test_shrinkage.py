"""James-Stein operators and their exact risk, against mpmath and against simulation."""

import mpmath as mp
import numpy as np
import pytest

from dpcontingency.release.shrinkage import (
    Block,
    Split,
    james_stein_factor,
    james_stein_risk,
    mean_inverse,
)

DIMENSIONS = (3, 4, 9, 30, 1000, 10**6)
TAUS = (0.0, 1e-8, 0.3, 10.0, 700.0, 1e4, 1e9, 1e18)


def exact_risk(tau, k, positive_part):
    """E |h x - m|^2 from its definition: given K ~ Poisson(tau/2), W = |x|^2 is chi-square with
    k + 2K degrees of freedom and m'x has mean 2K."""
    c, rate, total = k - 2, mp.mpf(tau) / 2, mp.mpf(0)
    for K in range(int(rate + 9 * mp.sqrt(rate) + 12)):
        half = mp.mpf(k) / 2 + K

        def integrand(w, half=half, K=K):
            h = 1 - c / w
            density = mp.exp((half - 1) * mp.log(w) - w / 2 - half * mp.log(2) - mp.loggamma(half))
            return density * (h**2 * w - 4 * K * h + tau)

        far = 2 * half + 30 * mp.sqrt(4 * half) + 100
        if positive_part:
            value = mp.quad(integrand, [c, c + 2, 2 * half + 3, far])
            value += tau * mp.gammainc(half, 0, mp.mpf(c) / 2, regularized=True)
        else:
            value = mp.quad(integrand, [0, mp.mpf(c) / 4, c, 2 * half + 3, far])
        total += mp.exp(-rate) * rate**K / mp.factorial(K) * value
    return float(total)


@pytest.mark.parametrize("positive_part", [True, False])
@pytest.mark.parametrize(("k", "tau"), [(3, 0.0), (3, 2.0), (4, 0.3), (9, 10.0)])
def test_risk_is_the_integral_that_defines_it(k, tau, positive_part):
    risk = james_stein_risk(tau, k, positive_part=positive_part)
    assert risk == pytest.approx(exact_risk(tau, k, positive_part), rel=1e-10)


@pytest.mark.parametrize("a", [1, 2, 3, 4, 9, 30, 1000])
@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.2, 5.0, 300.0, 1e4, 5e8, 1e12])
def test_mean_inverse_is_kummers_function(a, rate):
    with mp.workdps(40):
        expected = float(mp.hyp1f1(1, mp.mpf(a) / 2 + 1, -mp.mpf(rate)) / a)
    assert mean_inverse(a, rate) == pytest.approx(expected, rel=1e-12)


def test_risk_at_the_origin_and_far_away():
    for k in DIMENSIONS:
        assert james_stein_risk(0.0, k, positive_part=False) == 2
        assert james_stein_risk(1e18, k, positive_part=True) == pytest.approx(k, rel=1e-6)
    for k in (0, 1, 2):
        assert james_stein_risk(7.0, k, positive_part=True) == k


def test_positive_part_is_never_worse_and_shrinkage_never_hurts():
    for k in DIMENSIONS:
        for tau in TAUS:
            plain = james_stein_risk(tau, k, positive_part=False)
            positive = james_stein_risk(tau, k, positive_part=True)
            assert 0 < positive <= plain
            assert plain <= k * (1 + 1e-12)


def test_risk_grows_with_the_distance():
    risks = [james_stein_risk(tau, 9, positive_part=True) for tau in np.geomspace(1e-3, 1e6, 80)]
    assert (np.diff(risks) > 0).all()


@pytest.mark.parametrize("positive_part", [True, False])
def test_no_factor_without_enough_dimensions_or_noise(positive_part):
    assert james_stein_factor(4.0, 2, 10.0, positive_part=positive_part) == 1
    assert james_stein_factor(4.0, 9, 0.0, positive_part=positive_part) == 1
    assert np.isfinite(james_stein_factor(0.0, 9, 1.0, positive_part=positive_part))


def test_split_shrinks_each_block_by_itself():
    near, far = np.array([1.0, 0, 0, 0, 0, 0]), np.array([0.0, 0, 0, 10, 0, 0])
    split = Split(np.ones(6), 1, (Block(near, 3), Block(far, 3)))
    assert split.shrunken(2.0, positive_part=True) == pytest.approx([1, 1, 1, 1 + 10 * 0.96, 1, 1])
    assert split.shrunken(2.0, positive_part=False)[0] == pytest.approx(1 + (1 - 4))
    parts = [james_stein_risk(x / 4, 3, positive_part=True) for x in (1, 100)]
    assert split.risk(2.0, positive_part=True) == pytest.approx(1 + sum(parts))
