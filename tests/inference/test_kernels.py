"""The kernel against the sum it stands for, taken directly in extended precision."""

import math
import time

import numba
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcontingency.inference.kernels import cell_moments, log_poisson

Wide = np.longdouble
HALF_LOG_2PI = Wide("0.918938533204672741780329736397617640")


def log_probability(k, rate):
    """Log Poisson probability in extended precision: factorials below 64, Stirling above."""
    table = np.concatenate([[Wide(0)], np.cumsum(np.log(np.arange(1, 65, dtype=Wide)))])
    low, big = np.minimum(k, 64), np.maximum(k, Wide(64))
    r = 1 / big
    series = r * (Wide(1) / 12 - r**2 * (Wide(1) / 360 - r**2 * (Wide(1) / 1260 - r**2 / 1680)))
    x = (big - rate) / rate
    deviance = rate * ((1 + x) * np.log1p(x) - x)
    above = -deviance - np.log(big) / 2 - HALF_LOG_2PI - series
    return np.where(k < 64, low * np.log(rate) - rate - table[low.astype(int)], above)


def direct_sum(y, rate, variance):
    """Log sum of the weights and four cumulants, by summing every weight that matters."""
    y, rate, variance = Wide(y), Wide(rate), Wide(variance)
    low, high = 0, 2 + int(max(y, 0) + rate)
    while low < high:  # the mode: the first count whose successor weighs less
        k = (low + high) // 2
        if np.log(rate / (k + 1)) + (y - k - Wide(0.5)) / variance > 0:
            low = k + 1
        else:
            high = k
    reach = int(14 * np.sqrt(min(Wide(low), variance))) + 60
    k = np.arange(max(0, low - reach), low + reach, dtype=Wide)
    log_weight = log_probability(k, rate) - (y - k) ** 2 / (2 * variance)
    top = int(log_weight.argmax())
    weight = np.exp(log_weight - log_weight[top])
    total = weight.sum()
    position = k - k[top]
    mean = (weight * position).sum() / total
    m2, m3, m4 = ((weight * (position - mean) ** r).sum() / total for r in (2, 3, 4))
    return log_weight[top] + np.log(total), k[top] + mean, m2, m3, m4 - 3 * m2**2


def assert_agrees(y, rate, variance, tolerance=1e-12):
    got = [float(a[0]) for a in cell_moments(y, rate, variance)]
    log_weight, mean, m2, m3, m4 = (float(a) for a in direct_sum(y, rate, variance))
    assert np.isfinite(got).all()
    assert got[0] == pytest.approx(log_weight, rel=tolerance, abs=tolerance)
    assert got[1] == pytest.approx(mean, rel=tolerance, abs=1e-300)
    assert got[2] == pytest.approx(m2, rel=tolerance, abs=1e-300)
    assert got[3] == pytest.approx(m3, rel=tolerance, abs=tolerance * m2**1.5 + 1e-300)
    assert got[4] == pytest.approx(m4, rel=tolerance, abs=tolerance * m2**2 + 1e-300)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    log10_rate=st.floats(-8, 4.5),
    log10_sd=st.floats(-1.3, 2.5),
    surprise=st.floats(-6, 6),
)
@example(log10_rate=1.58, log10_sd=3.0, surprise=0.0)  # the widest lattice sum
@example(log10_rate=2.45, log10_sd=2.5, surprise=-6.0)  # the most skewed integral, far from y
@example(log10_rate=2.45, log10_sd=2.5, surprise=6.0)
def test_agrees_with_direct_summation(log10_rate, log10_sd, surprise):
    rate, sd = 10**log10_rate, 10**log10_sd
    assert_agrees(rate + surprise * math.hypot(sd, math.sqrt(rate)), rate, sd**2)


@pytest.mark.parametrize("sd", [4.9, 4.99, 5.01, 5.1, 10.0, 16.0, 17.0, 20.0, 60.0])
@pytest.mark.parametrize("shape", [1.01, 2.0, 0.99 / 0.06, 1.01 / 0.06, 30.0, 300.0])
@pytest.mark.parametrize("surprise", [-0.9, 0.0, 1.5])
def test_agrees_on_both_sides_of_the_switch_of_rules(sd, shape, surprise):
    """The rule changes at a standard deviation of 5, and of 0.06 times the count."""
    count = max(shape * sd, 1.0001 * sd**2)
    variance = 1 / (1 / sd**2 - 1 / count)
    assert_agrees(count - variance * surprise, count * math.exp(surprise), variance)


@pytest.mark.parametrize(
    ("y", "rate", "variance"),
    [
        (-50.0, 4.0, 9.0),
        (-50.0, 1e-300, 9.0),
        (3.0, 1e-300, 4.0),
        (700.0, 1e-300, 1.0),
        (3.0, 40.0, 1e-6),
        (3.4, 40.0, 0.01),
        (0.5, 1.0, 1e-3),
        (0.0, 1e5, 1.0),
        (1e9, 1e9, 4.0),
        (1e9 + 3e4, 1e9, 1e4),
        (1e9 - 2e6, 1e9, 1e12),
        (2e5, 3e5, 1e12),
    ],
)
def test_agrees_at_extremes(y, rate, variance):
    assert_agrees(y, rate, variance)


@pytest.mark.parametrize("y", [-1e6, 0.0, 1e9, 1e12])
@pytest.mark.parametrize("rate", [1e-300, 1.0, 1e9, 1e15])
@pytest.mark.parametrize("variance", [1e-6, 1.0, 1e6, 1e12])
def test_always_finite(y, rate, variance):
    moments = cell_moments(y, rate, variance)
    assert np.isfinite(moments).all()
    assert moments.mean >= 0
    assert moments.variance >= 0


def test_wide_noise_at_a_huge_count_is_a_product_of_gaussians():
    rate, variance = 1e12, 1e12
    moments = cell_moments(1e12 + 5e5, rate, variance)
    assert moments.variance[0] == pytest.approx(5e11, rel=1e-6)
    # -1/2 log(2 pi (rate + v)) + log sqrt(2 pi v) - (y - rate)^2 / 2 (rate + v)
    assert moments.log_weight[0] == pytest.approx(-0.5 * math.log(2) - 0.0625, abs=1e-6)


@pytest.mark.parametrize("rate", [0.3, 7.0, 60.0, 3e4])
@pytest.mark.parametrize("sd", [0.4, 3.0, 30.0])
def test_cumulants_are_a_chain_of_derivatives_in_log_rate(rate, sd):
    h = 1e-3
    y = rate + 0.7 * sd
    shifts = np.array([-2.0, -1.0, 1.0, 2.0])
    moments = cell_moments(y, rate * np.exp(h * shifts), sd**2)
    slopes = np.asarray(moments) @ [1, -8, 8, -1] / (12 * h)
    here = [a[0] for a in cell_moments(y, rate, sd**2)]
    expected = [here[1] - rate, *here[2:]]
    scale = [here[1], *(here[2] ** (r / 2) for r in (2, 3, 4))]
    for slope, value, unit in zip(slopes[:4], expected, scale, strict=True):
        assert slope == pytest.approx(value, abs=1e-6 * unit + 1e-6 * abs(value))


def test_an_exact_cell_is_a_poisson_probability():
    y = np.array([0.0, 1.0, 2.5, 40.0, 1e9])
    rate = np.array([2.0, 1e-300, 3.0, 38.0, 1e9 + 100])
    moments = cell_moments(y, rate, 0.0)
    expected = [-2.0, math.log(1e-300), 2.5 * math.log(3) - 3 - math.lgamma(3.5)]
    assert moments.log_weight[:3] == pytest.approx(expected, rel=1e-13)
    assert moments.log_weight[3] == pytest.approx(
        float(log_probability(np.array([Wide(40)]), Wide(38))[0]), rel=1e-13
    )
    near_mode = -0.5 * math.log(2 * math.pi * 1e9) - 100**2 / 2e9
    assert moments.log_weight[4] == pytest.approx(near_mode, abs=1e-8)
    assert (moments.mean == y).all()
    assert not np.any(moments[2:])


def test_a_rate_of_zero_holds_no_record():
    moments = cell_moments([3.0, -3.0, 0.0, 2.0], 0.0, [2.0, 2.0, 0.0, 0.0])
    assert moments.log_weight.tolist() == [-2.25, -2.25, 0.0, -math.inf]
    assert not np.any([moments.mean[:3], moments.variance[:3]])


def test_a_small_rate_tends_to_a_rate_of_zero():
    small, none = cell_moments([4.0, -7.0], 1e-300, 2.0), cell_moments([4.0, -7.0], 0.0, 2.0)
    assert small.log_weight == pytest.approx(none.log_weight, rel=1e-15)


def test_little_noise_tends_to_no_noise():
    noisy, exact = cell_moments(17.0, 12.0, 1e-6), cell_moments(17.0, 12.0, 0.0)
    assert noisy.log_weight == pytest.approx(exact.log_weight, rel=1e-14)
    assert noisy.mean == pytest.approx(17.0, rel=1e-15)


def test_threads_change_no_digit():
    rng = np.random.default_rng(5)
    rates = np.exp(rng.uniform(-2, 9, 70_001))
    noisy = rng.poisson(rates) + 3 * rng.standard_normal(rates.size)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = cell_moments(noisy, rates, 9.0)
    finally:
        numba.set_num_threads(threads)
    several = cell_moments(noisy, rates, 9.0)
    assert all((a == b).all() for a, b in zip(one, several, strict=True))


def test_arguments_broadcast_and_are_not_written_to():
    y = np.array([1.0, 2.0, 3.0])
    y.flags.writeable = False
    together = np.asarray(cell_moments(y, 2.0, [1.0, 4.0, 0.0]))
    apart = [np.ravel(cell_moments(a, 2.0, v)) for a, v in zip(y, [1, 4, 0], strict=True)]
    assert together.T.tolist() == [column.tolist() for column in apart]


@pytest.mark.parametrize("rate", [0.5, 20.0, 1e4])
def test_log_poisson_sums_to_one(rate):
    k = range(int(rate + 40 * math.sqrt(rate) + 40))
    assert math.fsum(math.exp(log_poisson(float(j), rate)) for j in k) == pytest.approx(
        1, abs=1e-12
    )


@pytest.mark.parametrize("variance", [1.0, 1e4, 1e12])
def test_cost_does_not_grow_with_the_count(variance):
    """A cell at 1e12 is no more than a few dozen times the work of one at 10."""

    def seconds(rate):
        y = np.full(20_000, rate)
        start = time.process_time()
        cell_moments(y, y, variance)
        return time.process_time() - start

    seconds(10.0)
    assert min(seconds(1e12) for _ in range(3)) < 50 * min(seconds(10.0) for _ in range(3)) + 0.05
