"""The rounded noise: its exact law word by word, its statistics, and what it gives away.

The statistical checks are functions that return p-values; each is applied to the sampler and to
samplers that are wrong by little, which must fail.
"""

import math
import struct
from fractions import Fraction
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats
from scipy.special import ndtr

from dpcontingency.errors import PrivacyError
from dpcontingency.privacy.gdp import GDP, float_up
from dpcontingency.release import sampler
from dpcontingency.release.sampler import GAUSSIAN, LAPLACE, grid_exponent, rounded_gaussian

SCALES = [0.3, 1.0, 5.0, 1024.0]
PASSES = 1e-4  # seeds are fixed: a sampler that is right passes for good
FAILS = 1e-9


FILLER = 2**63  # what follows the bits that a test sets


def seeded(seed):
    return np.random.default_rng(seed).bytes


# ------------------------------------------------------------------ the exact map of words to draws


def quantile(law, p):
    """The upper quantile by FLINT's inverse error function, unlike the sampler's own way."""
    if law is LAPLACE:
        return -(2 * p).log()
    return arb(2).sqrt() * (1 - 2 * p).erfinv()


def oracle(law, numerator, more, scale):
    """The rounded magnitude at the probability with these 64 bits and the words after them."""
    more = [*more, FILLER, FILLER, FILLER]
    with ctx.workprec(64 * len(more) + 300):
        for word in more:
            numerator = (numerator << 64) | word
        p = arb(numerator) * arb(2) ** -(64 + 64 * len(more))
        return int((quantile(law, p) * scale + 0.5).floor().unique_fmpz())


class Words:
    """Entropy that hands out given words, then a filler; counts what was asked for."""

    def __init__(self, *words):
        self.words = words
        self.used = 0

    def __call__(self, size):
        assert size == 8
        word = self.words[self.used] if self.used < len(self.words) else FILLER
        self.used += 1
        return struct.pack("<Q", word)


def draw(law, numerator, scale, more=(), negative=False):
    entropy = Words(*more)
    word = np.array([2 * numerator + negative], dtype=np.uint64)
    return int(sampler._from_words(word, scale, entropy, law)[0]), entropy.used


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE], ids=lambda law: law.name)
@pytest.mark.parametrize("scale", [0.3, 1024.0, 2.0**41 / 3])
def test_words_map_to_the_exact_draw(law, scale):
    rng = np.random.default_rng(5)
    ends = [0, 1, 2, 3, 7, 1000, 2**63 - 1, 2**63 - 2, *(2**k for k in range(3, 63, 5))]
    uniform = rng.integers(2**63, size=300).tolist()
    tail = [int(m) >> int(k) for m, k in zip(uniform, rng.integers(63, size=300), strict=True)]
    for numerator in [*ends, *uniform, *tail]:
        for word in (1, 2**63, 2**64 - 1):  # the ends and the middle of the interval
            value, _ = draw(law, numerator, scale, [word])
            assert value == oracle(law, numerator, [word], scale), (numerator, word)


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE], ids=lambda law: law.name)
@pytest.mark.parametrize("scale", [0.7, 1024.0, 1500.3])
def test_words_at_a_rounding_boundary_are_decided_exactly(law, scale):
    """Words within 10^-12 of a boundary, and words whose further bits follow it for 128 bits."""
    decided = longest = 0
    reach = 6 * scale if law is GAUSSIAN else 15 * scale
    candidates = {0, 1, 2, *np.linspace(0, reach, 25).astype(int).tolist()}
    for candidate in candidates:
        with ctx.workprec(600):
            tail = law.upper_tail((arb(candidate) + 0.5) / scale)
            bits = int((tail * arb(2) ** 256).floor().unique_fmpz())
        numerator, first = bits >> 192, (bits >> 128) % 2**64
        second, third = (bits >> 64) % 2**64, bits % 2**64
        near = [numerator + k for k in (-2000, -3, -2, -1, 1, 2, 3, 2000)]
        cases = [(m, [first]) for m in near if 0 <= m < 2**63]
        cases += [(numerator, [(first + k) % 2**64]) for k in (-2, -1, 1, 2)]
        cases += [(numerator, [first, (second + k) % 2**64]) for k in (-1, 1)]
        cases += [(numerator, [first, second, (third + k) % 2**64]) for k in (-1, 1)]
        for m, more in cases:
            value, used = draw(law, m, scale, more)
            assert value == oracle(law, m, more, scale), (candidate, m, more)
            decided += used > 0
            longest = max(longest, used)
        # Either side of the boundary lies another grid point: the cases could tell.
        assert draw(law, numerator, scale, [first, second, third - 1])[0] == candidate + 1
        assert draw(law, numerator, scale, [first, second, third + 1])[0] == candidate
    assert decided >= 12 * len(candidates)
    assert longest >= 3


def test_an_interval_that_starts_at_zero_takes_more_bits():
    value, used = draw(GAUSSIAN, 0, 1024.0, [0, 0, 12345])
    assert used == 3
    assert value == oracle(GAUSSIAN, 0, [0, 0, 12345], 1024.0)
    assert value > 17 * 1024


@pytest.mark.parametrize("scale", SCALES)
def test_the_last_bit_of_a_word_is_the_sign(scale):
    words = np.frombuffer(seeded(1)(8 * 10_000), dtype=np.uint64)
    flipped = words ^ np.uint64(1)
    one, other = (sampler._from_words(w, scale, seeded(2)) for w in (words, flipped))
    assert (one == -other).all()
    assert (one != 0).any()


def test_hardly_any_draw_goes_to_ball_arithmetic(monkeypatch):
    calls = []
    decide = sampler._decide
    monkeypatch.setattr(sampler, "_decide", lambda *a: calls.append(a) or decide(*a))
    rounded_gaussian(10**6, 1.0, 10, entropy=seeded(3))
    assert len(calls) <= 20


# ------------------------------------------------------------------ checks that can fail


def cells(scale, count=60):
    """Bounds of about so many cells of equal probability, and the exact probabilities."""
    aims = scale * stats.norm.ppf(np.arange(1, count) / count)
    aims = np.concatenate([aims, scale * np.array([-4, -3.5, -3, 3, 3.5, 4])])
    bounds = np.unique(np.floor(aims)) + 0.5
    return bounds, np.diff(ndtr(np.concatenate([[-np.inf], bounds, [np.inf]]) / scale))


def cell_test(draws, scale):
    """Chi-square of the draws against exact cell probabilities."""
    bounds, probabilities = cells(scale)
    keep = probabilities * draws.size > 5
    observed = np.bincount(np.searchsorted(bounds, draws), minlength=probabilities.size)
    observed, expected = observed[keep], probabilities[keep] * draws.size
    rest, expected_rest = draws.size - observed.sum(), draws.size - expected.sum()
    statistic = ((observed - expected) ** 2 / expected).sum()
    if expected_rest > 5:
        statistic += (rest - expected_rest) ** 2 / expected_rest
    return stats.chi2.sf(statistic, max(1, keep.sum() - 1))


def tail_test(sample, scale, bits, size=200_000):
    """Chi-square of the magnitudes of draws in the tail of probability 2^-bits a side.

    The words are uniform given that their leading bits are 0, which is how the sampler comes to
    this tail once in 2^(bits - 1) draws.
    """
    words = np.random.default_rng(bits).integers(2**64, size=size, dtype=np.uint64)
    draws = np.abs(sample((words >> np.uint64(bits)) << np.uint64(1)))
    start = -stats.norm.ppf(2.0**-bits) * scale
    edges = np.unique(np.floor(np.linspace(start, start + 1.3 * scale, 12)))[1:] + 0.5
    beyond = np.concatenate([[1.0], ndtr(-edges / scale) * 2.0**bits, [0.0]])
    expected = -np.diff(beyond) * size
    observed = np.bincount(np.searchsorted(edges, draws), minlength=expected.size)
    keep = expected > 5
    statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
    return stats.chi2.sf(statistic, keep.sum() - 1)


def symmetry_test(draws):
    """Two-sample chi-square of positive draws against negated negative ones."""
    magnitudes = np.abs(draws[draws != 0])
    bounds = np.unique(np.quantile(magnitudes, np.arange(1, 30) / 30))
    up, down = (
        np.bincount(np.searchsorted(bounds, side), minlength=bounds.size + 1)
        for side in (draws[draws > 0], -draws[draws < 0])
    )
    both = up + down
    statistic = ((up - down)[both > 0] ** 2 / both[both > 0]).sum()
    return stats.chi2.sf(statistic, (both > 0).sum())


def serial_test(draws):
    """Chi-square of independence of consecutive draws, signed and in magnitude."""
    pvalues = []
    for values in (draws, np.abs(draws)):
        bounds = np.unique(np.quantile(values, np.arange(1, 8) / 8)) - 0.5
        group = np.searchsorted(bounds, values)
        for lag in (1, 2):
            first, second = group[:-lag], group[lag:]
            # A pair shares a draw with the next pair: take every other one.
            pick = np.arange(0, first.size, 2 * lag)
            table = np.zeros((bounds.size + 1, bounds.size + 1))
            np.add.at(table, (first[pick], second[pick]), 1)
            table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
            pvalues.append(stats.chi2_contingency(table).pvalue if table.size > 1 else 1.0)
    return min(1.0, len(pvalues) * min(pvalues))


def sample_of(scale, size=10**6, seed=11, entropy=None):
    exponent = 10 if scale > 500 else 0
    return rounded_gaussian(
        size, math.ldexp(scale, -exponent), exponent, entropy=entropy or seeded(seed)
    )


@pytest.mark.parametrize("scale", SCALES)
def test_cells_have_their_exact_probabilities(scale):
    assert cell_test(sample_of(scale), scale) > PASSES


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("error", [0.99, 1.01])
def test_a_scale_one_percent_off_fails(scale, error):
    assert cell_test(sample_of(scale * error), scale) < FAILS


@pytest.mark.parametrize("scale", [5.0, 1024.0])
@pytest.mark.parametrize("bits", [4, 12, 20, 30])  # from 1.5, 3.5, 4.8 and 6 sd on
def test_tails_have_their_exact_probabilities(scale, bits):
    assert tail_test(lambda w: sampler._from_words(w, scale, seeded(4)), scale, bits) > PASSES
    for error in (0.99, 1.01):
        wrong = scale * error
        assert tail_test(lambda w: sampler._from_words(w, wrong, seeded(4)), scale, bits) < FAILS  # noqa: B023


@pytest.mark.parametrize("scale", SCALES)
def test_draws_are_symmetric(scale):
    assert symmetry_test(sample_of(scale)) > PASSES


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_rounding_down_fails_the_symmetry_check(scale):
    floored = np.floor(scale * np.random.default_rng(1).standard_normal(10**6)).astype(np.int64)
    assert symmetry_test(floored) < FAILS


@pytest.mark.parametrize("scale", SCALES)
def test_consecutive_draws_are_independent(scale):
    assert serial_test(sample_of(scale)) > PASSES


@pytest.mark.parametrize("scale", SCALES)
def test_words_used_twice_fail_the_serial_check(scale):
    fresh = seeded(12)

    def stuttering(size):
        words = np.frombuffer(fresh(size), dtype=np.uint64).copy()
        # One draw in fifty repeats the one before it.
        words[1::50] = words[0::50][: words[1::50].size]
        return words.tobytes()

    assert serial_test(sample_of(scale, entropy=stuttering)) < FAILS


def test_moments():
    """Variance s^2 + 1/12, and the fourth moment of a Gaussian plus a uniform, at 4 errors."""
    for scale in (1.0, 5.0):
        draws = sample_of(scale, seed=13).astype(float)
        variance = scale**2 + 1 / 12
        assert abs(draws.mean()) < 4 * math.sqrt(variance / draws.size)
        spread = (draws**2).std() / math.sqrt(draws.size)
        assert abs((draws**2).mean() - variance) < 4 * spread
        if scale == 1.0:
            assert abs((draws**2).mean() - scale**2) > 20 * spread  # the 1/12 is seen


# ------------------------------------------------------------------ privacy, by the exact pmf


def rounded_pmf(scale, reach):
    """P(j), j = -reach .. reach, of the rounded Gaussian to 50 digits."""
    with mp.workdps(50):
        tails = [mp.erfc((j - mp.mpf(1) / 2) / (mp.mpf(scale) * mp.sqrt(2))) / 2
                 for j in range(reach + 2)]  # fmt: skip
        half = [a - b for a, b in pairwise(tails)]
        return [*half[:0:-1], *half]


def discrete_gaussian_pmf(scale, reach):
    with mp.workdps(50):
        weights = [mp.exp(-(mp.mpf(j) ** 2) / (2 * mp.mpf(scale) ** 2)) for j in range(reach + 1)]
        total = weights[0] + 2 * sum(weights[1:])
        half = [w / total for w in weights]
        return [*half[:0:-1], *half]


def hockey_stick(pmf, shift, epsilon):
    """The exact delta of integer noise on one cell that moves by ``shift`` steps."""
    with mp.workdps(50):
        moved = [mp.mpf(0)] * shift + pmf[: len(pmf) - shift]
        factor = mp.exp(mp.mpf(epsilon))
        return sum((max(mp.mpf(0), a - factor * b) for a, b in zip(pmf, moved, strict=True)))


def two_cell_hockey_stick(pmf, shift, epsilon):
    """The same where one cell moves up and another down: a sum over both noises."""
    with mp.workdps(50):
        padding = [mp.mpf(0)] * shift
        up, down = padding + pmf[:-shift], pmf[shift:] + padding
        factor = mp.exp(mp.mpf(epsilon))
        return sum(
            max(mp.mpf(0), a * b - factor * c * d)
            for a, c in zip(pmf, up, strict=True)
            for b, d in zip(pmf, down, strict=True)
        )


def level_needed(pmf):
    """The least mu with G_mu below the trade-off curve of noise shifted by one step.

    The curve is polygonal and G_mu convex, so the vertices decide.
    """
    with mp.workdps(50):
        below = [sum(pmf[:k]) for k in range(1, len(pmf))]  # P(noise < k)
        ordinary = [p for p in below if mp.mpf("1e-12") < p < 1 - mp.mpf("1e-12")]
        quantiles = [
            stats.norm.ppf(float(p)) if p < 0.5 else stats.norm.isf(float(1 - p)) for p in ordinary
        ]
    levels = np.diff(quantiles)
    return levels.max(), levels.min()


@pytest.mark.parametrize(
    ("sigma", "exponent"), [(0.5, 0), (1.0, 0), (1.0, 3), (4.0, 1), (1 / 3, 4)]
)
def test_one_cell_costs_at_most_its_mu(sigma, exponent):
    """add-remove: one cell moves by 1, sigma = 1 / mu."""
    scale, shift = math.ldexp(sigma, exponent), 2**exponent
    reach = math.ceil(14 * scale) + shift
    pmf, wrong = rounded_pmf(scale, reach), rounded_pmf(0.99 * scale, reach)
    mu = GDP(float_up(1 / Fraction(sigma)))
    # Where a rounding boundary has likelihood ratio e^epsilon the rounded noise loses nothing.
    boundaries = np.linspace(shift / 2, shift / 2 + 5 * scale, 8).round() + 0.5
    touching = ((boundaries * shift - shift**2 / 2) / scale**2).tolist()
    touching = [epsilon for epsilon in touching if 0 <= epsilon < 5 / sigma]
    between = np.linspace(0, 5 / sigma, 7).tolist()
    for epsilon in [*between, *touching]:
        delta = hockey_stick(pmf, shift, epsilon)
        assert 0 < delta <= mu.delta(epsilon)
        if epsilon in touching:
            assert delta >= mu.delta(epsilon) * (1 - 1e-9)
            # One percent less noise does not keep the promise.
            assert hockey_stick(wrong, shift, epsilon) > mu.delta(epsilon)
    assert len(touching) >= 2


@pytest.mark.parametrize(("sigma", "exponent"), [(1.0, 0), (1.5, 1), (2.0, 0)])
def test_two_cells_cost_at_most_their_mu(sigma, exponent):
    """replace-one: one cell gains what another loses, sigma = sqrt 2 / mu."""
    scale = math.ldexp(sigma, exponent)
    pmf = rounded_pmf(scale, math.ceil(9 * scale) + 2**exponent)
    mu = GDP(math.sqrt(2) / sigma)
    ratios = []
    for epsilon in (0.0, 0.5, 1.0, 3.0):
        delta = two_cell_hockey_stick(pmf, 2**exponent, epsilon)
        assert 0 < delta <= mu.delta(epsilon)
        ratios.append(float(delta) / mu.delta(epsilon))
        # The factor of add-remove, sigma = 1 / mu, would not be enough.
        assert delta > GDP(1 / sigma).delta(epsilon)
    assert max(ratios) > 0.9


def test_rounded_noise_has_its_level_exactly_and_discrete_noise_does_not():
    """At sigma = 1 a discrete Gaussian is no 1-GDP mechanism: it needs 1.0458."""
    assert level_needed(rounded_pmf(1.0, 12)) == pytest.approx((1.0, 1.0), abs=1e-8)
    assert level_needed(rounded_pmf(2.5, 30)) == pytest.approx((0.4, 0.4), abs=1e-8)
    worst, _ = level_needed(discrete_gaussian_pmf(1.0, 12))
    assert worst == pytest.approx(1.0458, abs=5e-5)


# ------------------------------------------------------------------ the grid and the door


@pytest.mark.parametrize("sigma", [1e-9, 0.001, 0.3, 1.0, math.sqrt(2), 7.0, 1023.9, 1024.0, 1e9])
def test_the_grid_has_at_least_1024_steps_to_a_sigma(sigma):
    b = grid_exponent(sigma)
    assert 0 <= b <= 20
    assert math.ldexp(sigma, b) >= 1024 or b == 20
    assert b == 0 or math.ldexp(sigma, b - 1) < 1024


def test_the_grid_just_below_a_power_of_two():
    below = math.nextafter(1.0, 0.0)
    assert grid_exponent(below) == 11
    assert math.ldexp(below, grid_exponent(below)) >= 1024


def test_noise_beyond_every_count_is_refused():
    assert grid_exponent(2.0**42) == 0
    for sigma in (math.nextafter(2.0**42, math.inf), 1e300, math.inf):
        with pytest.raises(PrivacyError, match="Spend a larger mu"):
            grid_exponent(sigma)


def test_the_largest_noise_fits_its_integers():
    draws = rounded_gaussian(200, 2.0**42, 0, entropy=seeded(6))
    assert stats.kstest(draws / 2.0**42, "norm").pvalue > PASSES


def test_chunks_join(monkeypatch):
    whole = rounded_gaussian(1000, 3.0, 9, entropy=seeded(7))
    monkeypatch.setattr(sampler, "CHUNK", 7)
    assert (rounded_gaussian(1000, 3.0, 9, entropy=seeded(7)) == whole).all()
    assert rounded_gaussian(0, 3.0, 9).shape == (0,)


def test_the_operating_system_gives_fresh_draws():
    first, second = (rounded_gaussian(1000, 1.0, 10) for _ in range(2))
    assert first.dtype == np.int64
    assert (first != second).any()
    assert 900 < np.abs(first).std() / 0.6028 < 1150  # |z| has standard deviation 0.6028
    assert len(set(first.tolist())) > 500
