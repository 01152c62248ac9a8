"""The noise law against dense linear algebra on a basis of the enumerated differences."""

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcontingency.errors import ReleaseError
from dpcontingency.release.noise import GaussianNoise, stratum_labels


def difference_basis(noisy, strata):
    """An orthonormal basis U of the span of {e_i - e_j : same stratum} over the noisy cells."""
    p = noisy.size
    cells = [c for c in np.ndindex(noisy.shape) if noisy[c]]
    flat = {c: np.ravel_multi_index(c, noisy.shape) for c in cells}
    columns = [np.zeros(p)]
    for one, other in combinations(cells, 2):
        if all(one[k] == other[k] for k in strata):
            column = np.zeros(p)
            column[flat[one]], column[flat[other]] = 1, -1
            columns.append(column)
    u, s, _ = np.linalg.svd(np.array(columns).T)
    return u[:, : int((s > 1e-9).sum())]


def conditional_covariance(variances, strata):
    """The textbook covariance of N(0, diag v) given that the sum of every stratum is 0."""
    v = np.diag(variances.ravel())
    labels = stratum_labels(variances.shape, strata)
    sums = np.array([labels == g for g in range(labels.max() + 1)], dtype=float)
    return v - v @ sums.T @ np.linalg.pinv(sums @ v @ sums.T) @ sums @ v


def collapsing(shape, axes):
    """The matrix that sums a flat table into its flat margin, axes in the order given."""
    target = tuple(shape[a] for a in axes)
    out = np.zeros((math.prod(target), math.prod(shape)))
    for cell in np.ndindex(shape):
        row = np.ravel_multi_index(tuple(cell[a] for a in axes), target)
        out[row, np.ravel_multi_index(cell, shape)] = 1
    return out


def every_strata(dimension):
    return [s for k in range(dimension + 1) for s in combinations(range(dimension), k)]


def every_margin(dimension):
    return [m for k in range(1, dimension + 1) for m in permutations(range(dimension), k)]


SHAPES = [(4,), (2, 3), (2, 3, 2)]
STRATA = [(shape, s) for shape in SHAPES for s in [None, *every_strata(len(shape))]]


def impossible(shape):
    """A pattern of structural zeros that leaves strata unlike each other."""
    mask = np.ones(shape, dtype=bool)
    mask.ravel()[[0, -1]] = False
    mask[(0,) * (len(shape) - 1) + (-1,)] = False
    return mask


# ------------------------------------------------------------------ covariance


@pytest.mark.parametrize(("shape", "strata"), STRATA)
@pytest.mark.parametrize("zeros", [False, True])
def test_covariance_is_that_of_the_rank_deficient_mechanism(shape, strata, zeros):
    possible = impossible(shape) if zeros else np.ones(shape, dtype=bool)
    sigma = 1.7
    noise = GaussianNoise(np.where(possible, sigma**2, 0.0), strata)
    if strata is None:
        expected = sigma**2 * np.diag(possible.ravel().astype(float))
        rank = int(possible.sum())
    else:
        u = difference_basis(possible, strata)
        expected, rank = sigma**2 * u @ u.T, u.shape[1]
    assert noise.covariance() == pytest.approx(expected, abs=1e-12)
    assert noise.sd().ravel() == pytest.approx(np.sqrt(np.diag(expected)), abs=1e-7)
    assert noise.dimension == rank


@pytest.mark.parametrize(("shape", "strata"), STRATA)
def test_covariance_with_unequal_variances_is_the_textbook_conditional(shape, strata):
    rng = np.random.default_rng(3)
    variances = rng.uniform(0.1, 9, shape) * impossible(shape)
    noise = GaussianNoise(variances, strata)
    expected = (
        np.diag(variances.ravel()) if strata is None else conditional_covariance(variances, strata)
    )
    assert noise.covariance() == pytest.approx(expected, abs=1e-10)
    assert noise.sd().ravel() ** 2 == pytest.approx(np.diag(expected), abs=1e-10)
    assert noise.dimension == np.linalg.matrix_rank(expected, tol=1e-9)


def test_a_stratum_of_one_cell_has_no_noise():
    noise = GaussianNoise(np.array([[0.3, 0.0], [0.1, 0.7]]), strata=(0,))
    assert noise.sd()[0].tolist() == [0.0, 0.0]
    assert noise.dimension == 1
    assert not noise.is_exact
    assert GaussianNoise(np.zeros((2, 2)), ()).is_exact


def test_a_large_covariance_is_refused_with_its_size():
    with pytest.raises(ReleaseError, match=r"5,000 cells needs 0.2 GB") as caught:
        GaussianNoise(np.ones((50, 100)), ()).covariance()
    assert "\n" not in str(caught.value)


def test_a_dense_covariance_of_many_strata_is_quick():
    """2048 strata of two cells: a pass for each of them would take minutes."""
    noise = GaussianNoise(np.ones((2048, 2)), strata=(0,))
    covariance = noise.covariance()
    assert covariance[0, 0] == covariance[4095, 4095] == 0.5
    assert covariance[0, 1] == -0.5
    assert np.count_nonzero(covariance) == 8192


# ------------------------------------------------------------------ collapsing


def margins_agree(noise, axes):
    """Whether the margin's law is M S M'; None where it was refused."""
    collapse = collapsing(noise.shape, axes)
    expected = collapse @ noise.covariance() @ collapse.T
    try:
        margin = noise.margin(axes)
    except ReleaseError:
        return None
    assert margin.shape == tuple(noise.shape[a] for a in axes)
    return np.allclose(margin.covariance(), expected, atol=1e-10)


@pytest.mark.parametrize(("shape", "strata"), STRATA)
def test_every_margin_of_a_fresh_release_has_the_collapsed_law(shape, strata):
    noise = GaussianNoise(np.full(shape, 2.25), strata)
    for axes in every_margin(len(shape)):
        assert margins_agree(noise, axes) is True


@pytest.mark.parametrize(("shape", "strata"), STRATA)
@pytest.mark.parametrize("seed", range(4))
def test_no_margin_has_a_wrong_law(shape, strata, seed):
    """With zeros or unequal variances a margin is exact, or refused where that is impossible."""
    rng = np.random.default_rng(seed)
    variances = rng.integers(1, 3, shape) * rng.choice([0, 1, 1], size=shape)
    noise = GaussianNoise(variances.astype(float), strata)
    for axes in every_margin(len(shape)):
        agree = margins_agree(noise, axes)
        assert agree is not False
        if strata is None or set(strata) <= set(axes):
            assert agree is True


def test_a_margin_is_refused_only_where_its_law_is_of_another_form():
    """Refused means that no variances on the margin give M S M', up to its strata."""
    shape, strata = (2, 2, 3), (0, 1)
    rng = np.random.default_rng(8)
    refused = 0
    for _ in range(60):
        variances = rng.choice([0.0, 1.0, 2.0], size=shape)
        noise = GaussianNoise(variances, strata)
        for axes in every_margin(3):
            if margins_agree(noise, axes) is None:
                refused += 1
                collapse = collapsing(shape, axes)
                true = collapse @ noise.covariance() @ collapse.T
                kept = tuple(axes.index(a) for a in strata if a in axes)
                summed = (collapse @ variances.ravel()).reshape([shape[a] for a in axes])
                assert not np.allclose(conditional_covariance(summed, kept), true, atol=1e-9)
    assert refused > 50


def test_alike_strata_collapse():
    """Proportional variances in the strata: the form survives the loss of the stratum factor."""
    noise = GaussianNoise(np.outer([1.0, 2.0, 5.0], [3.0, 1.0]), strata=(0,))
    assert margins_agree(noise, (1,)) is True
    unlike = GaussianNoise(np.array([[1.0, 2.0], [2.0, 1.0]]), strata=(0,))
    with pytest.raises(ReleaseError, match="Keep the factors of the strata"):
        unlike.margin((1,))
    assert margins_agree(unlike, (1, 0)) is True


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_margins_of_margins_are_margins(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    everything = list(range(len(shape)))
    strata = data.draw(st.none() | st.lists(st.sampled_from(everything), unique=True))
    noise = GaussianNoise(np.full(shape, 3.0), None if strata is None else tuple(strata))
    outer = data.draw(st.permutations(everything))[: data.draw(st.integers(1, len(shape)))]
    inner = data.draw(st.permutations(outer))[: data.draw(st.integers(1, len(outer)))]
    assume(len(inner) > 0)
    twice = noise.margin(outer).margin([outer.index(a) for a in inner])
    once = noise.margin(inner)
    assert twice.variances == pytest.approx(once.variances)
    assert twice.strata == once.strata


# ------------------------------------------------------------------ conditioning


@pytest.mark.parametrize("strata", every_strata(2))
def test_conditioning_is_the_textbook_conditional_gaussian(strata):
    rng = np.random.default_rng(4)
    shape = (3, 2)
    variances = rng.uniform(0.5, 4, shape)
    variances[0, 1] = 0  # known exactly
    noisy = rng.normal(20, 5, shape)
    labels = stratum_labels(shape, strata)
    sums = np.array([labels == g for g in range(labels.max() + 1)], dtype=float)
    totals = rng.integers(10, 60, len(sums))
    # A stratum that is known exactly is not conditioned on; none is here.
    v = np.diag(variances.ravel())
    gain = v @ sums.T @ np.linalg.pinv(sums @ v @ sums.T)
    known = (variances.sum(axis=tuple(i for i in (0, 1) if i not in strata)) > 0).ravel()
    expected = noisy.ravel() + gain @ (totals - sums @ noisy.ravel())
    table, law = GaussianNoise(variances, None).condition(noisy, totals, strata)
    assert table.ravel() == pytest.approx(expected)
    assert law.covariance() == pytest.approx(v - gain @ sums @ v, abs=1e-12)
    assert (sums @ table.ravel())[known] == pytest.approx(totals[known])


def test_conditioning_gaussian_noise_gives_the_rank_deficient_mechanism():
    """M_r = M_G + (n - 1'M_G)/p 1 (METHODS 1.3)."""
    noisy = np.array([[3.5, -1.0], [8.25, 2.0]])
    table, law = GaussianNoise(np.full((2, 2), 9.0), None).condition(noisy, np.array(12), ())
    assert table == pytest.approx(noisy + (12 - noisy.sum()) / 4)
    assert law.strata == ()
    with pytest.raises(ReleaseError, match="already"):
        law.condition(table, np.array(12), ())


# ------------------------------------------------------------------ density


@pytest.mark.parametrize(("shape", "strata"), STRATA)
@pytest.mark.parametrize("zeros", [False, True])
def test_logpdf_is_the_density_on_the_span(shape, strata, zeros):
    """In orthonormal coordinates of the span the noise has an ordinary normal density."""
    rng = np.random.default_rng(6)
    variances = rng.uniform(0.2, 5, shape) * (impossible(shape) if zeros else 1)
    noise = GaussianNoise(variances, strata)
    if strata is None:
        basis = np.eye(variances.size)[:, variances.ravel() > 0]
    else:
        basis = difference_basis(variances > 0, strata)
    x = noise.sample(rng)
    if basis.shape[1] == 0:
        assert noise.logpdf(x) == pytest.approx(0, abs=1e-12)
        return
    reduced = basis.T @ noise.covariance() @ basis
    expected = stats.multivariate_normal(cov=reduced).logpdf(basis.T @ x.ravel())
    assert noise.logpdf(x) == pytest.approx(expected, rel=1e-9)
    scipy_too = stats.multivariate_normal(cov=noise.covariance(), allow_singular=True)
    assert noise.logpdf(x) == pytest.approx(scipy_too.logpdf(x.ravel()), rel=1e-6)


def test_density_off_the_span_is_zero():
    noise = GaussianNoise(np.array([[1.0, 2.0], [3.0, 0.0]]), strata=())
    on = np.array([[1.0, -3.0], [2.0, 0.0]])
    assert math.isfinite(noise.logpdf(on))
    assert math.isfinite(noise.logpdf(on + np.array([[1e-9, 0], [0, 0]])))  # rounding of the cells
    assert noise.logpdf(on + np.array([[1e-3, 0], [0, 0]])) == -math.inf
    moved = np.array([[0, 0], [-1, 1]])  # noise in a cell that has none
    assert noise.logpdf(on + moved) == -math.inf
    assert GaussianNoise(np.zeros(3), ()).logpdf(np.zeros(3)) == 0
    assert GaussianNoise(np.zeros(3), ()).logpdf([0, 1, -1]) == -math.inf
    with pytest.raises(ReleaseError, match=r"shape \(2, 2\); got \(4,\)"):
        noise.logpdf(on.ravel())


def test_density_integrates_to_one():
    noise = GaussianNoise(np.array([1.0, 4.0]), strata=())
    along = np.linspace(-12, 12, 4001)  # coordinate of the unit vector (1, -1) / sqrt 2
    density = [math.exp(noise.logpdf(np.array([t, -t]) / math.sqrt(2))) for t in along]
    assert np.trapezoid(density, along) == pytest.approx(1, abs=1e-9)


# ------------------------------------------------------------------ sampling


@pytest.mark.parametrize(("shape", "strata"), [((2, 3), None), ((2, 3), ()), ((2, 3), (0,))])
def test_samples_have_the_covariance_and_live_in_the_span(shape, strata):
    variances = np.array([[1.0, 2.0, 0.0], [0.5, 3.0, 4.0]])
    noise = GaussianNoise(variances, strata)
    claimed = noise.covariance()
    draws = np.array(
        [noise.sample(rng).ravel() for rng in [np.random.default_rng(9)] for _ in range(20_000)]
    )
    d = np.diag(claimed)
    errors = np.sqrt((np.outer(d, d) + claimed**2) / len(draws))

    def z(law):
        gap = np.abs(draws.T @ draws / len(draws) - law)
        return (gap[errors > 0] / errors[errors > 0]).max()

    assert z(claimed) < 4.5  # 36 entries
    assert z(claimed * 1.1) > 6  # the check can fail
    assert (draws[:, variances.ravel() == 0] == 0).all()
    if strata is not None:
        labels = stratum_labels(shape, strata)
        for g in range(labels.max() + 1):
            assert np.abs(draws[:, labels == g].sum(axis=1)).max() < 1e-12


# ------------------------------------------------------------------ the value


def test_a_law_is_read_only_and_checked():
    noise = GaussianNoise(np.ones((2, 2)), strata=(1, 0))
    assert noise.strata == (0, 1)
    with pytest.raises(ValueError, match="read-only"):
        noise.variances[0, 0] = 2
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(ReleaseError, match="finite and at least 0"):
            GaussianNoise(np.array([1.0, wrong]), None)
    for axes in ((2,), (-1,), (0, 5)):
        with pytest.raises(ReleaseError, match="axes of the table, 0 to 1"):
            GaussianNoise(np.ones((2, 2)), axes)


def test_stratum_labels_number_the_strata_in_c_order():
    for shape, strata in STRATA:
        if strata is None:
            continue
        labels = stratum_labels(shape, strata)
        keys = [tuple(c[k] for k in strata) for c in product(*map(range, shape))]
        numbers = {key: i for i, key in enumerate(sorted(set(keys)))}
        assert labels.tolist() == [numbers[key] for key in keys]


def test_half_widths_are_normal_quantiles_of_the_standard_deviations():
    noise = GaussianNoise(np.array([[4.0, 1.0, 0.0], [9.0, 2.0, 3.0]]), (0,))
    np.testing.assert_allclose(noise.half_widths(0.95), 1.959963984540054 * noise.sd())
    np.testing.assert_allclose(noise.half_widths(0.5), 0.6744897501960817 * noise.sd())
