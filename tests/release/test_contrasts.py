"""Contrasts and interactions against dense matrices, and the joint law of the rounded noise."""

from functools import reduce

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats
from scipy.special import ndtr

from dpcontingency.release import contrasts as module
from dpcontingency.release import sampler
from dpcontingency.release.contrasts import (
    contrast_exponent,
    contrasts,
    interaction,
    rounded_contrasts,
)

SHAPES = [(), (2,), (5,), (2, 3), (3, 2, 4), (2, 2, 2, 2), (1, 3)]
PASSES, FAILS = 1e-4, 1e-9  # seeds are fixed: a sampler that is right passes for good


def dense(shape):
    """L as a matrix on the flattened cells."""
    parts = [np.hstack([np.eye(n - 1), -np.ones((n - 1, 1))]) for n in shape]
    return reduce(np.kron, parts, np.eye(1))


def projection(shape):
    """Q as a matrix on the flattened cells."""
    return reduce(np.kron, [np.eye(n) - 1 / n for n in shape], np.eye(1))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_contrasts_are_those_of_the_matrix(shape):
    table = np.random.default_rng(1).integers(0, 100, shape)
    found = contrasts(table)
    assert found.dtype == table.dtype
    assert found.ravel().tolist() == (dense(shape) @ table.ravel()).astype(int).tolist()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_contrasts_tell_the_interaction_and_nothing_else(shape):
    table = np.random.default_rng(2).normal(size=shape)
    whole = interaction(contrasts(table))
    np.testing.assert_allclose(whole.ravel(), projection(shape) @ table.ravel(), atol=1e-13)
    np.testing.assert_allclose(contrasts(whole), contrasts(table), atol=1e-13)


# ------------------------------------------------------------------ exact to the last bit


class Words:
    """Entropy that hands out given words, then more from a seed; counts what was asked for."""

    def __init__(self, *words, seed=5):
        self.words, self.handed = list(words), 0
        self.rng = np.random.default_rng(seed)

    def __call__(self, size):
        out = []
        for _ in range(size // 8):
            self.handed += 1
            word = self.words.pop(0) if self.words else int(self.rng.integers(2**64, dtype="u8"))
            out.append(word.to_bytes(8, "little"))
        return b"".join(out)


def normal(word, *more):
    """The normal draw in a word and the words after it, to 200 bits, by the inverse erf."""
    numerator, bits = word >> 1, 64
    for extra in (*more, 2**63, 2**63):
        numerator, bits = (numerator << 64) | extra, bits + 64
    with ctx.workprec(600):
        p = arb(numerator) * arb(2) ** -bits
        z = arb(2).sqrt() * (1 - 2 * p).erfinv()
        return -z if word & 1 else z


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_floats_and_balls_round_alike(shape, monkeypatch):
    fast = rounded_contrasts(shape, 3.7, 9, entropy=Words())
    monkeypatch.setattr(sampler, "QUANTILE_SLACK", 1.0)  # every contrast is in doubt
    slow = rounded_contrasts(shape, 3.7, 9, entropy=Words())
    assert fast.tolist() == slow.tolist()


def test_every_contrast_is_the_rounded_combination_of_the_same_normals():
    words = Words()
    drawn = rounded_contrasts((3, 4), 2.5, 9, entropy=words)
    again = np.random.default_rng(5).integers(2**64, size=12, dtype="u8").reshape(3, 4)
    for i, j in np.ndindex(2, 3):
        corner = [int(again[a, b]) for a, b in ((i, j), (i, 3), (2, j), (2, 3))]
        z = [normal(word) for word in corner]
        with ctx.workprec(600):
            exact = (z[0] - z[1] - z[2] + z[3]) * 2.5 * 512
            assert drawn[i, j] == int((exact + 0.5).floor().unique_fmpz())


@pytest.mark.parametrize("extra", [0, 1, 2**63, 2**64 - 2])
@pytest.mark.parametrize("odd", [0, 1])
def test_a_boundary_is_decided_by_the_bits_after_the_first_64(extra, odd):
    """Two normals whose difference is on a rounding boundary as far as 64 bits tell."""
    scale, boundary = 1.0, 700.5
    first = (int(0.3 * 2**64) << 1 | 1) % 2**64  # negative: the difference is far from 0
    z = float(normal(first))
    tail = ndtr(z - boundary / 1024) if odd else ndtr(-(z + boundary / 1024))
    sign = 1 if odd else 0
    second = (int(float(tail) * 2.0**64) << 1 | sign) % 2**64
    words = Words(first, second, extra, 2**63)
    drawn = rounded_contrasts((2,), scale, 10, entropy=words)
    with ctx.workprec(600):
        # The last level, the second word, is refined after the first.
        exact = normal(first, extra) - normal(second, 2**63)
        expected = int((exact * 1024 + 0.5).floor().unique_fmpz())
    assert abs(expected) in (700, 701)
    assert drawn.tolist() == [expected]


def test_bits_added_for_one_contrast_stay_for_the_next(monkeypatch):
    monkeypatch.setattr(sampler, "QUANTILE_SLACK", 1.0)
    words = Words()
    rounded_contrasts((6,), 2.0, 9, entropy=words)
    assert words.handed == 6 + 6  # a word more for each cell, the shared last one included


def test_a_draw_whose_first_bits_are_all_zero_is_refined():
    # The first cell is beyond 9 standard deviations; how far, only the third word tells.
    words = Words(0, 2**63, 0, 8, 77, 8, 99, 8)
    drawn = rounded_contrasts((2,), 1.0, 10, entropy=words)
    with ctx.workprec(800):
        p = arb((77 << 64) | 99) * arb(2) ** -256
        z = arb(2).sqrt() * (1 - 2 * p).erfinv() - normal(2**63, 8, 8, 8)
        assert drawn[0] == int((z * 1024 + 0.5).floor().unique_fmpz())
    assert drawn[0] > 15 * 1024


# ------------------------------------------------------------------ the law


def draws(shape, scale, exponent, count, draw=rounded_contrasts):
    entropy = np.random.default_rng(11).bytes
    found = [draw(shape, scale, exponent, entropy=entropy).ravel() for _ in range(count)]
    return np.array(found) * 2.0**-exponent


def whitened(values, shape, scale):
    """The draws in coordinates in which they are independent standard normal."""
    factor = np.linalg.cholesky(scale**2 * dense(shape) @ dense(shape).T)
    return np.linalg.solve(factor, values.T)


def p_values(white):
    """Of the sizes of the coordinates, of their correlations, and of their shape."""
    m, count = white.shape
    squares = (white**2).sum()
    size = 2 * min(stats.chi2.cdf(squares, m * count), stats.chi2.sf(squares, m * count))
    pairs = np.array([white[i] @ white[j] for i in range(m) for j in range(i)]) / count**0.5
    return size, stats.chi2.sf((pairs**2).sum(), pairs.size), stats.kstest(white.ravel(), "norm")[1]


@pytest.mark.parametrize("shape", [(3,), (2, 3), (3, 3)], ids=str)
def test_the_joint_law(shape):
    white = whitened(draws(shape, 2.0, 8, 4000), shape, 2.0)
    assert min(p_values(white)) > PASSES


def test_the_checks_see_wrong_laws():
    shape, count = (3, 3), 4000

    def independent(shape, scale, exponent, *, entropy):
        size = int(np.prod([n - 1 for n in shape]))
        return sampler.rounded_gaussian(size, 2 * scale, exponent, entropy=entropy)

    white = whitened(draws(shape, 2.0, 8, count, independent), shape, 2.0)
    assert p_values(white)[1] < FAILS
    white = whitened(draws(shape, 1.85, 8, count), shape, 2.0)
    assert p_values(white)[0] < FAILS


def test_there_are_enough_steps_and_no_overflow():
    for scale in (0.01, 1.0, 1e6):
        for order in (0, 1, 3, 10):
            b = contrast_exponent(scale, order)
            assert b == 20 or scale * 2 ** (order / 2) * 2**b >= 2**10
    assert module.rounded_contrasts((1, 4), 1.0, 9).shape == (0, 3)
