"""Laplace noise under Gaussian differential privacy: its scale, its law, its release."""

import math

import numpy as np
import pytest
from scipy.special import ndtri

from dpcontingency.domain import Domain
from dpcontingency.errors import PrivacyError, ReleaseError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.laplace import laplace_scale, one_cell_level, two_cell_level
from dpcontingency.release.mechanisms import Laplace
from dpcontingency.release.noise import LaplaceNoise
from dpcontingency.release.publish import release_table, simulate_release
from dpcontingency.release.release import load_release
from dpcontingency.release.sensitivity import Neighbours
from dpcontingency.table import ContingencyTable

# METHODS 1.3.
MINIMAL = {
    0.1: 15.489098,
    0.25: 6.054091,
    0.5: 2.916113,
    1: 1.358905,
    2: 0.599000,
    4: 0.242513,
}
DOMAIN = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})


def cell_law(s, points):
    """One cell's log-likelihood ratio l = |x| - |x - s| in steps, and its law with and without
    the record: atoms at -s and s, a density between."""
    x = np.linspace(0, s, points + 1)
    inside = (np.exp(-x[:-1]) - np.exp(-x[1:])) / 2
    weights = np.concatenate([[0.5], inside, [np.exp(-s) / 2]])
    ratios = np.concatenate([[-s], x[:-1] + x[1:] - s, [s]])
    return ratios, weights, weights[::-1]


def brute_level(s, cells, points=2000):
    """max over tests of Phi^-1(1 - alpha) - Phi^-1(beta), every threshold tried."""
    ratios, null, other = cell_law(s, points)
    if cells == 2:
        ratios = np.add.outer(ratios, ratios).ravel()
        null, other = (np.outer(w, w).ravel() for w in (null, other))
        ratios = np.round(ratios / (s / points)).astype(int)
        ratios -= ratios.min()
        null, other = np.bincount(ratios, null), np.bincount(ratios, other)
    alpha = np.cumsum(null[::-1])[::-1][1:]
    beta = np.cumsum(other)[:-1]
    return float((-ndtri(alpha) - ndtri(beta)).max())


@pytest.mark.parametrize(("mu", "b"), MINIMAL.items())
def test_minimal_scale(mu, b):
    assert laplace_scale(GDP(mu), "replace-one") == pytest.approx(b, abs=5.1e-7)


@pytest.mark.parametrize("s", [0.065, 0.7, 4.0])
def test_level_is_the_best_test(s):
    # The brute force is a test of discretised noise: below the truth, and near it.
    for level, cells in ((one_cell_level, 1), (two_cell_level, 2)):
        assert brute_level(s, cells) <= level(s)
        assert brute_level(s, cells) == pytest.approx(level(s), rel=1e-5)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("mu", [1e-9, 1e-4, 0.03, 0.1, 1, 3.6871, 20, 100])
def test_scale_is_on_the_safe_side_and_near_the_root(mu, relation):
    level = {"replace-one": two_cell_level, "add-remove": one_cell_level}[relation]
    b = laplace_scale(GDP(mu), relation)
    if mu > 1e-3:  # below, the slack of the evaluation decides, on the safe side
        assert level(1 / b * (1 - 1e-15)) <= mu
        assert level(1 / (b * (1 - 1e-8))) > mu
    # Never more noise than the bound by pure differential privacy asks for.
    assert mu / 2.6 / (1 + 1e-12) <= 1 / b


def test_level_is_never_understated():
    for s in np.geomspace(1e-3, 300, 40):
        w = np.linspace(0, s, 40_001)
        h = -ndtri((1 + w) * np.exp(w - 2 * s) / 4) - ndtri((3 + w) * np.exp(-w) / 4)
        assert two_cell_level(s) >= h.max()
        assert two_cell_level(s) <= h.max() * (1 + 1e-6) + 1e-11


def test_laplace_beats_gaussian_only_for_large_mu():
    space = Neighbours(DOMAIN)
    for mu, better in ((3.68, False), (3.70, True)):
        b = Laplace().sigma(GDP(mu), space)
        assert (2 * b**2 < privacy_variance(mu)) is better


def privacy_variance(mu):
    return 2 / mu**2


def test_absurd_mu_is_refused():
    with pytest.raises(PrivacyError, match="up to mu = 100"):
        laplace_scale(GDP(1000), "replace-one")


def test_law_of_a_release_and_of_its_margins():
    noise = LaplaceNoise(1.5, np.array([[1, 1, 0], [1, 1, 1]]))
    margin = noise.margin((1,))
    np.testing.assert_array_equal(margin.terms, [2, 2, 1])
    np.testing.assert_allclose(margin.sd() ** 2, 2 * 1.5**2 * np.array([2, 2, 1]))
    np.testing.assert_array_equal(noise.margin((1, 0)).terms, noise.terms.T)
    rng = np.random.default_rng(1)
    draws = LaplaceNoise(1.5, np.tile(margin.terms, (40_000, 1))).sample(rng)
    np.testing.assert_allclose(draws.var(axis=0), margin.variances, rtol=0.06)
    kurtosis = (draws**4).mean(axis=0) / draws.var(axis=0) ** 2
    np.testing.assert_allclose(kurtosis, [4.5, 4.5, 6], rtol=0.12)  # 3 + 3 / terms


def test_release_keeps_its_law(tmp_path):
    table = ContingencyTable([[9, 0, 4], [3, 8, 2]], DOMAIN)
    release = release_table(table, GDP(1), mechanism=Laplace())
    assert release.sigma == laplace_scale(GDP(1), "replace-one")
    assert release.n_total == 26
    assert "Laplace" in release.statement()["Noise"]
    assert "Laplace" in release.provenance["noise"]
    release.save(tmp_path / "laplace.json")
    back = load_release(tmp_path / "laplace.json")
    assert isinstance(back.noise, LaplaceNoise)
    assert back.noise.scale == release.noise.scale
    np.testing.assert_array_equal(back.noise.terms, release.noise.terms)
    np.testing.assert_array_equal(back.noisy, release.noisy)
    assert back.mechanism == Laplace()


def test_gaussian_likelihood_refuses_it_with_the_reason():
    rng = np.random.default_rng(1)
    for neighbours in ("replace-one", "add-remove"):
        release = simulate_release(
            np.ones((2, 3), dtype=int), DOMAIN, GDP(1), rng, mechanism=Laplace(),
            neighbours=neighbours,
        )  # fmt: skip
        with pytest.raises(ReleaseError, match="The Gaussian-noise likelihood"):
            release.conditioned()
        with pytest.raises(ReleaseError, match="bootstrap"):
            release.margin("A").conditioned()


def test_simulated_release_has_laplace_noise():
    rng = np.random.default_rng(7)
    domain = Domain({"A": range(40_000)})
    release = simulate_release(
        np.zeros(40_000, dtype=int), domain, GDP(0.5), rng, mechanism=Laplace()
    )
    x = release.noisy / release.sigma
    assert np.mean(np.abs(x)) == pytest.approx(1, abs=0.02)
    assert np.mean(x**2) == pytest.approx(2, abs=0.1)


def test_half_widths_hold_the_noise():
    noise = LaplaceNoise(2.0, np.array([[0, 1, 2], [7, 60, 5000]]))
    widths = noise.half_widths(0.95)
    assert widths[0, 0] == 0
    assert widths[0, 1] == pytest.approx(2.0 * np.log(20))
    # Of two variables P(X > x) = (2 + x) exp(-x) / 4.
    x = widths[0, 2] / 2
    assert (2 + x) * np.exp(-x) / 4 == pytest.approx(0.025)
    assert widths[1, 2] == pytest.approx(1.959964 * noise.sd()[1, 2], rel=1e-3)
    rng = np.random.default_rng(5)
    inside = np.mean([np.abs(noise.sample(rng)) <= widths for _ in range(20_000)], axis=0)
    np.testing.assert_allclose(inside.ravel()[1:], 0.95, atol=4 * np.sqrt(0.05 * 0.95 / 20_000))


def test_a_loss_below_which_there_is_no_scale():
    assert laplace_scale(GDP(5e-324), "replace-one") == math.inf
    with pytest.raises(PrivacyError, match="The loss is so small"):
        release_table(
            ContingencyTable([1, 2], Domain({"A": ["a", "b"]})), GDP(5e-324), mechanism=Laplace()
        )
