"""Gaussian DP: every number on the safe side of the truth, and no further from it than rounding.

The truth is evaluated here by mpmath, the package by ball arithmetic of another library.
"""

import math
import pickle
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from dpcontingency.errors import PrivacyError
from dpcontingency.privacy.gdp import (
    GDP,
    ceil_digits,
    epsilon_delta_trade_off,
    float_up,
    root_down,
    root_up,
)

mus = st.floats(1e-6, 1e3)


def true_delta(mu, epsilon, digits=40):
    """Balle and Wang 2018, Theorem 8, in mpmath."""
    with mp.workdps(digits):
        m, e, root2 = mp.mpf(float(mu)), mp.mpf(epsilon), mp.sqrt(2)
        near, far = mp.erfc((e / m - m / 2) / root2), mp.erfc((e / m + m / 2) / root2)
        return (near - mp.exp(e) * far) / 2


def upper_tail(x):
    return mp.erfc(x / mp.sqrt(2)) / 2


def true_trade_off(mu, alpha):
    """G_mu(alpha) in mpmath; the quantile is SciPy's, polished by Newton steps."""
    if alpha in (0, 1):
        return mp.mpf(1 - alpha)
    with mp.workdps(60):
        quantile, level = mp.mpf(float(-ndtri(alpha))), mp.mpf(float(alpha))
        for _ in range(2):
            density = mp.exp(-(quantile**2) / 2) / mp.sqrt(2 * mp.pi)
            quantile += (upper_tail(quantile) - level) / density
        return upper_tail(mp.mpf(float(mu)) - quantile)


# ------------------------------------------------------------------ figures


def test_published_figures():
    assert GDP(1).delta(1) == pytest.approx(0.1269367, abs=1e-7)
    assert GDP(1).delta(4) == pytest.approx(4.712e-5, abs=5e-9)
    assert GDP(1).epsilon(1e-6) == pytest.approx(4.8866, abs=5e-5)
    assert GDP(0.1).epsilon(1e-6) == pytest.approx(0.3969, abs=5e-5)
    assert GDP(0.5).rho == 0.125
    assert GDP.from_zcdp(0.125) == GDP(0.5)


# ------------------------------------------------------------------ the inequality, on 10^4 points


def test_delta_is_never_below_the_truth_and_tight():
    rng = np.random.default_rng(1)
    for mu, t in zip(10 ** rng.uniform(-4, 1.5, 8000), rng.uniform(-3, 14, 8000), strict=True):
        epsilon = max(0.0, mu**2 / 2 + mu * t)  # t standard deviations of the privacy loss
        ours, true = GDP(mu).delta(epsilon), true_delta(mu, epsilon)
        assert true <= ours <= true * (1 + mp.mpf("1e-9")), (mu, epsilon)


def test_epsilon_is_never_below_the_truth_and_tight():
    rng = np.random.default_rng(2)
    zero = 0
    exponents = rng.uniform(-40, 0, 1000)
    for mu, delta in zip(10 ** rng.uniform(-4, 1.5, 1000), 10**exponents, strict=True):
        epsilon = GDP(mu).epsilon(delta)
        assert true_delta(mu, epsilon) <= delta, (mu, delta)
        if epsilon == 0:
            zero += 1
        else:
            assert true_delta(mu, epsilon * (1 - 1e-9)) > delta, (mu, delta)
    assert 0 < zero < 300


def test_from_epsilon_delta_is_never_above_the_truth_and_tight():
    rng = np.random.default_rng(3)
    for e, d in zip(rng.uniform(-4, 1.5, 1000), rng.uniform(-40, -0.01, 1000), strict=True):
        epsilon, delta = 10**e, 10**d
        mu = GDP.from_epsilon_delta(epsilon, delta).mu
        assert true_delta(mu, epsilon) <= delta, (epsilon, delta)
        assert true_delta(mu * (1 + 1e-9), epsilon) > delta, (epsilon, delta)


@pytest.mark.parametrize("delta", [1e-15, 1e-30, 1e-100, 1e-300, 5e-324])
@pytest.mark.parametrize("mu", [1e-3, 0.5, 8.0])
def test_stable_at_tiny_delta(mu, delta):
    epsilon = GDP(mu).epsilon(delta)
    assert true_delta(mu, epsilon, 400) <= delta < true_delta(mu, epsilon * (1 - 1e-9), 400)
    assert GDP(mu).delta(epsilon) <= delta
    back = GDP.from_epsilon_delta(epsilon, delta).mu
    assert mu * (1 - 1e-9) < back <= mu * (1 + 1e-9)


def test_tiny_mu_does_not_cancel():
    """At epsilon = 0, delta = 2 Phi(mu/2) - 1 ~ mu / sqrt(2 pi): lost digits would show."""
    for mu in (1e-8, 1e-30, 1e-65, 1e-100, 1e-300):
        assert GDP(mu).delta(0) == pytest.approx(mu / math.sqrt(2 * math.pi), rel=1e-12, abs=0)
    assert GDP.from_epsilon_delta(0.0, 1e-300).mu == pytest.approx(
        1e-300 * math.sqrt(2 * math.pi), rel=1e-12, abs=0
    )


def test_extreme_numbers_get_safe_answers():
    assert GDP(1e-300).delta(1.0) == 5e-324  # below every float, but not 0
    assert GDP(1e200).delta(1.0) == 1.0
    assert GDP(1e200).epsilon(1e-6) == math.inf  # 5e399
    assert GDP(1e200).rho == math.inf
    assert GDP(1e20).epsilon(1e-6) >= 5e39
    assert GDP(1e-310).sigma(1.0) == math.inf
    assert GDP(1).epsilon(0) == math.inf
    mu = GDP.from_epsilon_delta(1e300, 0.5).mu
    assert 1.41421e150 < mu < 1.41422e150


@given(mus, st.floats(0, 50), st.floats(0, 50))
@settings(max_examples=50, deadline=None)
def test_delta_decreases_in_epsilon_and_grows_in_mu(mu, first, second):
    low, high = sorted((first, second))
    assert GDP(mu).delta(low) >= GDP(mu).delta(high)
    assert GDP(mu).delta(low) <= GDP(mu * 1.5).delta(low)


# ------------------------------------------------------------------ another implementation


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 3.0])
def test_agrees_with_dp_accounting(mu):
    oracle = GaussianPrivacyLoss(1 / mu)
    for epsilon in (0.0, 0.1, 1.0, 4.0):
        theirs = oracle.get_delta_for_epsilon(epsilon)
        if theirs > 1e-13:  # they subtract in floats
            assert GDP(mu).delta(epsilon) == pytest.approx(theirs, rel=1e-9, abs=0)
    for epsilon, delta in [(0.5, 1e-5), (1.0, 1e-6), (4.0, 1e-9)]:
        parameters = DifferentialPrivacyParameters(epsilon, delta)
        theirs = GaussianPrivacyLoss.from_privacy_guarantee(parameters).standard_deviation
        assert 1 / GDP.from_epsilon_delta(epsilon, delta).mu == pytest.approx(theirs, rel=1e-4)


def test_composition_agrees_with_numerical_accounting():
    """Their discretised composition is pessimistic, by little."""
    composed = GDP(0.5).compose(GDP(0.5), GDP(0.5))
    grid = privacy_loss_distribution.from_gaussian_mechanism(
        2.0, value_discretization_interval=1e-3
    ).self_compose(3)
    for epsilon in (0.5, 1.0, 3.0):
        theirs = grid.get_delta_for_epsilon(epsilon)
        assert composed.delta(epsilon) <= theirs <= composed.delta(epsilon) * 1.01
    assert composed.epsilon(1e-5) == pytest.approx(grid.get_epsilon_for_delta(1e-5), abs=2e-3)


# ------------------------------------------------------------------ algebra, rounded toward privacy


@given(st.lists(st.floats(1e-200, 1e150), min_size=1, max_size=6))
@settings(deadline=None)
def test_composition_is_the_least_float_above(losses):
    first, *rest = [GDP(mu) for mu in losses]
    composed = first.compose(*rest).mu
    square = sum(Fraction(mu) ** 2 for mu in losses)
    assert Fraction(math.nextafter(composed, 0)) ** 2 < square <= Fraction(composed) ** 2


@given(mus, st.integers(1, 10**6))
def test_groups_cost_k_times_as_much(mu, k):
    grouped = GDP(mu).group(k).mu
    assert Fraction(math.nextafter(grouped, 0)) < k * Fraction(mu) <= Fraction(grouped)


@given(mus, st.floats(1e-3, 1e3))
def test_sigma_is_the_least_float_with_enough_noise(mu, sensitivity):
    sigma = GDP(mu).sigma(sensitivity)
    exact = Fraction(sensitivity) / Fraction(mu)
    assert Fraction(math.nextafter(sigma, 0)) < exact <= Fraction(sigma)


@given(mus)
def test_rho_is_rounded_up_and_its_mu_down(value):
    exact = Fraction(value) ** 2 / 2
    rho = GDP(value).rho
    assert Fraction(math.nextafter(rho, 0)) < exact <= Fraction(rho)
    mu = GDP.from_zcdp(value).mu
    assert Fraction(mu) ** 2 <= 2 * Fraction(value) < Fraction(math.nextafter(mu, math.inf)) ** 2


@given(st.fractions(min_value=Fraction(1, 10**600), max_value=10**600).filter(bool))
def test_directed_roots_and_floats(number):
    root = root_up(number)
    assert Fraction(math.nextafter(root, 0)) ** 2 < number <= Fraction(root) ** 2
    root = root_down(number)
    assert Fraction(root) ** 2 <= number < Fraction(math.nextafter(root, math.inf)) ** 2
    up = float_up(number)
    assert Fraction(math.nextafter(up, 0)) < number
    assert up == math.inf or Fraction(up) >= number


def test_the_root_of_nothing_is_nothing():
    assert root_up(Fraction(0)) == root_down(Fraction(0)) == float_up(Fraction(0)) == 0
    assert root_up(Fraction(10) ** 700) == math.inf


@given(st.floats(1e-300, 1e300), st.integers(1, 8))
def test_printed_digits_never_understate(value, digits):
    printed = Fraction(ceil_digits(value, digits))
    slack = Fraction(1, 10**12)
    assert printed >= Fraction(value) * (1 - slack)
    assert printed <= Fraction(value) * (1 + Fraction(10) ** (1 - digits) + slack)


def test_description_names_three_currencies():
    text = GDP(0.1).describe(1e-5)
    assert text == (
        "mu = 0.1 (Gaussian DP); epsilon = 0.34067 at delta = 1e-05; rho = 0.005 (zCDP)"
    )
    assert true_delta(0.1, "0.34067") <= 1e-5 < true_delta(0.1, "0.34066")


# ------------------------------------------------------------------ trade-off functions

LEVELS = np.concatenate(
    [
        [0, 5e-324, 1e-310, 1e-300, 1 - 2**-53, 1],
        np.linspace(0.001, 0.999, 60),
        np.logspace(-250, -3, 40),
        1 - np.logspace(-15, -3, 20),
    ]
)


@pytest.mark.parametrize("mu", [1e-9, 0.1, 1.0, 6.0, 30.0, 60.0])
def test_trade_off_is_below_the_curve_and_tight(mu):
    ours = GDP(mu).trade_off(LEVELS)
    for alpha, beta in zip(LEVELS, ours, strict=True):
        true = true_trade_off(mu, alpha)
        assert beta <= true, alpha
        assert beta >= true * (1 - mp.mpf("2e-12")) or true < mp.mpf("1e-290"), alpha


@given(st.floats(0.01, 8), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_trade_off_is_convex_decreasing_and_its_own_inverse(mu, a, b, weight):
    f = GDP(mu).trade_off
    middle = weight * a + (1 - weight) * b
    assert f(middle) <= weight * f(a) + (1 - weight) * f(b) + 1e-11
    assert f(min(a, b)) >= f(max(a, b))
    assert f(a) <= 1 - a + 1e-15
    if f(a) > 1e-3 and a > 1e-3:  # elsewhere the inverse magnifies rounding
        assert f(f(a)) == pytest.approx(a, rel=1e-8)


def test_trade_off_ends_and_shapes():
    f = GDP(1.0).trade_off
    assert f(0) == pytest.approx(1, abs=2e-12)
    assert f(1) == 0
    assert f(np.full((2, 3), 0.5)).shape == (2, 3)
    # G_1 at 1/2 is Phi(-1).
    assert f(0.5) == pytest.approx(0.15865525393145707, rel=1e-11)


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 5.0])
def test_delta_is_the_convex_dual_of_the_trade_off(mu, epsilon):
    """delta(epsilon) = sup over alpha of 1 - f(alpha) - e^epsilon alpha."""
    alpha = np.array([float(upper_tail(x)) for x in np.linspace(-6, 9, 3001)])
    gap = 1 - GDP(mu).trade_off(alpha) - math.exp(epsilon) * alpha
    assert gap.max() <= GDP(mu).delta(epsilon) + 1e-11
    assert gap.max() == pytest.approx(GDP(mu).delta(epsilon), abs=1e-5)


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 5.0])
def test_gaussian_curve_dominates_its_epsilon_delta_curve_and_touches_it(mu, epsilon):
    budget = GDP(mu)
    delta = budget.delta(epsilon)
    # The two meet where the likelihood ratio is e^epsilon, and at the mirror image of that point.
    touching = np.array([float(upper_tail(epsilon / mu + mu / 2))])
    touching = np.append(touching, budget.trade_off(touching))
    levels = np.concatenate([LEVELS, touching])
    gap = budget.trade_off(levels) - epsilon_delta_trade_off(levels, epsilon, delta)
    assert gap.min() >= -2e-12  # both are rounded down
    assert np.abs(gap[-2:]).max() <= 1e-11
    # A smaller delta would be a false claim.
    claim = epsilon_delta_trade_off(levels, epsilon, delta * 0.999)
    assert (budget.trade_off(levels) - claim).min() < -1e-4 * delta


@given(st.floats(0, 40), st.floats(0, 0.99), st.floats(0, 1))
def test_epsilon_delta_curve_is_the_formula_rounded_down(epsilon, delta, alpha):
    with mp.workdps(40):
        e, d, a = mp.mpf(epsilon), mp.mpf(delta), mp.mpf(alpha)
        true = max(mp.mpf(0), 1 - d - mp.exp(e) * a, mp.exp(-e) * (1 - d - a))
    value = float(epsilon_delta_trade_off(alpha, epsilon, delta))
    assert true - mp.mpf("4e-15") <= value <= true


def test_epsilon_delta_curve_at_the_ends():
    assert epsilon_delta_trade_off([0, 1], 1000.0, 0.1) == pytest.approx([0.9, 0], abs=1e-14)
    assert epsilon_delta_trade_off(0.3, 0.0, 0.0) == pytest.approx(0.7, abs=1e-14)
    assert epsilon_delta_trade_off(np.zeros((2, 2)), 1.0, 0.0).shape == (2, 2)


# ------------------------------------------------------------------ values and errors


def test_a_loss_is_a_value():
    assert GDP(1) == GDP(mu=1.0)
    assert len({GDP(1), GDP(1.0), GDP(2)}) == 2
    assert pickle.loads(pickle.dumps(GDP(0.3))) == GDP(0.3)
    assert repr(GDP(0.5)) == "GDP(mu=0.5)"


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: GDP(0), "mu must be a positive"),
        (lambda: GDP(-1), "mu must be a positive"),
        (lambda: GDP(math.nan), "mu must be a positive"),
        (lambda: GDP(math.inf), "mu must be a positive"),
        (lambda: GDP("much"), "mu must be a number"),
        (lambda: GDP(None), "mu must be a number"),
        (lambda: GDP(10**400), "mu must be a positive"),
        (lambda: GDP.from_epsilon_delta(1.0, 0.0), "give a delta above 0"),
        (lambda: GDP.from_epsilon_delta(1.0, 1.0), "delta is a probability"),
        (lambda: GDP.from_epsilon_delta(-1.0, 0.1), "epsilon must be a finite"),
        (lambda: GDP.from_epsilon_delta(math.inf, 0.1), "epsilon must be a finite"),
        (lambda: GDP.from_zcdp(0.0), "rho must be a positive"),
        (lambda: GDP(1).delta(-0.1), "epsilon must be a finite"),
        (lambda: GDP(1).delta(math.nan), "epsilon must be a finite"),
        (lambda: GDP(1).epsilon(1.5), "delta is a probability"),
        (lambda: GDP(1).epsilon(math.nan), "delta is a probability"),
        (lambda: GDP(1).trade_off([0.5, 1.5]), "alpha lies in"),
        (lambda: GDP(1).trade_off(math.nan), "alpha lies in"),
        (lambda: GDP(1).group(0), "whole number of records"),
        (lambda: GDP(1).group(1.5), "whole number of records"),
        (lambda: GDP(1).group(math.nan), "whole number of records"),
        (lambda: GDP(1).group("two"), "k must be a number"),
        (lambda: GDP(1).sigma(0), "sensitivity must be a positive"),
        (lambda: GDP(1e308).compose(GDP(1.7e308)), "mu must be a positive finite"),
        (lambda: epsilon_delta_trade_off(0.5, -1.0, 0.0), "epsilon must be a finite"),
        (lambda: epsilon_delta_trade_off(0.5, 1.0, 1.0), "delta is a probability"),
        (lambda: epsilon_delta_trade_off(2.0, 1.0, 0.0), "alpha lies in"),
    ],
)
def test_errors_are_one_sentence(call, what):
    with pytest.raises(PrivacyError, match=what) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert len(message) < 200
