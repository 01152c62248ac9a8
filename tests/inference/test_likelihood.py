"""The likelihood of a noisy table against enumeration, finite differences and optimisers."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import gammaln

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.hidden_sum import LARGEST_BLUR, blur
from dpcontingency.inference.lattice import log_lattice_peak
from dpcontingency.inference.likelihood import NoisyTableLikelihood
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.lowrank import DiagonalPlusLowRank
from dpcontingency.release.release import Release

REFERENCE = Path(__file__).parents[2] / "data" / "reference_noise_aware.json"
SCHEMES = ("one total", "strata", "poisson")


def enumerate_multinomial(y, variances, pi, n):
    """Exact log-likelihood: the coefficient of t^n in a product of polynomials."""
    k = np.arange(n + 1)
    product, scale = np.ones(1), 0.0
    for y_c, v_c, pi_c in zip(y, variances, pi, strict=True):
        log_term = k * np.log(pi_c) - gammaln(k + 1) - (y_c - k) ** 2 / (2 * v_c)
        scale += log_term.max()
        product = np.convolve(product, np.exp(log_term - log_term.max()))[: n + 1]
    return math.log(product[n]) + scale + gammaln(n + 1)


def draw(rng, counts, sd, strata):
    """Counts plus noise that sums to zero in each stratum (or does not, with strata None)."""
    noise = sd * rng.standard_normal(counts.size)
    if strata is not None:
        noise -= (np.bincount(strata, noise) / np.bincount(strata))[strata]
    return counts + noise


def example(scheme, sd, seed=0, low=2):
    """A likelihood of six cells and log rates near the truth."""
    rng = np.random.default_rng([seed, SCHEMES.index(scheme)])
    counts = rng.integers(low, 40, 6)
    strata = {"one total": np.zeros(6, int), "strata": np.array([0, 1, 0, 1, 1, 0])}.get(scheme)
    y = draw(rng, counts, sd, strata)
    totals = None if strata is None else np.bincount(strata, counts)
    likelihood = NoisyTableLikelihood(y, np.full(6, sd**2), strata=strata, totals=totals)
    return likelihood, np.log(counts + 1) + 0.3 * rng.standard_normal(6)


def slope(function, eta, h=1e-4):
    """Five-point derivative of a function of eta along each coordinate."""
    rows = []
    for direction in h * np.eye(eta.size):
        values = [function(eta + j * direction) for j in (-2, -1, 1, 2)]
        rows.append((values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h))
    return np.array(rows)


# -- value --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sd", "error", "error_of_difference"),
    [
        (0.1, 1e-9, 1e-9),
        (0.3, 1e-9, 1e-9),
        (0.5, 1e-9, 1e-9),
        (1.0, 1e-9, 1e-9),
        (1.4, 1e-9, 1e-9),
        (2.5, 0.0045, 0.002),
        (5.0, 0.0045, 0.001),
        (14.0, 0.0045, 0.0003),
    ],
)
def test_close_to_enumeration(sd, error, error_of_difference):
    rng = np.random.default_rng(4)
    for _ in range(60):
        p, n = rng.integers(2, 7), int(rng.integers(20, 61))
        truth = rng.dirichlet(np.full(p, 3.0))
        y = draw(rng, rng.multinomial(n, truth), sd, np.zeros(p, int))
        variances = np.full(p, sd**2)
        likelihood = NoisyTableLikelihood(y, variances, totals=[n])
        errors = []
        for _ in range(3):
            pi = truth * np.exp(0.3 * rng.standard_normal(p))
            pi /= pi.sum()
            exact = enumerate_multinomial(y, variances, pi, n)
            errors.append(likelihood.at(np.log(pi)).loglik - exact)
        assert np.abs(errors).max() < error
        assert np.ptp(errors) < error_of_difference


def tables_of(n, p):
    """All tables of p cells that add up to n."""
    if p == 1:
        return [(n,)]
    return [(k, *rest) for k in range(n + 1) for rest in tables_of(n - k, p - 1)]


@pytest.mark.parametrize("sd", [0.1, 0.25, 0.5, 0.7, 1.0, 1.5])
def test_narrow_noise_is_the_sum_over_all_tables(sd):
    rng = np.random.default_rng(9)
    tables = np.array(tables_of(9, 4), dtype=float)
    for exact_cell in (False, True):
        pi = rng.dirichlet(np.ones(4))
        y = draw(rng, rng.multinomial(9, pi), sd, np.zeros(4, int))
        variances = sd**2 * np.array([1.0, 0.5, 2.0, 1.0])
        if exact_cell:
            y[3], variances[3] = np.rint(y[3]), 0.0
        point = NoisyTableLikelihood(y, variances, totals=[9]).at(np.log(pi))
        possible = tables[tables[:, 3] == y[3]] if exact_cell else tables
        noise = (y - possible)[:, variances > 0] ** 2 / (2 * variances[variances > 0])
        logs = (possible * np.log(pi) - gammaln(possible + 1)).sum(axis=1) - noise.sum(axis=1)
        weights = np.exp(logs - logs.max())
        mean = np.average(possible, axis=0, weights=weights)
        second = np.einsum("t,ti,tj->ij", weights, possible, possible) / weights.sum()
        sampling = 9 * (np.diag(pi) - np.outer(pi, pi))
        assert point.loglik == pytest.approx(
            gammaln(10) + logs.max() + math.log(weights.sum()), abs=1e-9
        )
        assert point.posterior_mean == pytest.approx(mean, abs=1e-9)
        assert point.score == pytest.approx(mean - 9 * pi, abs=1e-9)
        covariance = second - np.outer(mean, mean)
        assert point.hessian().dense() == pytest.approx(covariance - sampling, abs=1e-9)


def test_each_stratum_has_its_own_way():
    # Cells of one stratum are narrow and summed, those of the other have the saddlepoint; a third
    # holds exact cells alone, and fractions of records, which are on no lattice.
    rng = np.random.default_rng(5)
    strata = np.array([0, 1, 2, 0, 1, 2, 0, 1])
    y = np.array([3.2, 40.0, 2.5, 0.4, 18.3, 1.25, 5.4, 11.7])
    variances = np.array([0.25, 30.0, 0.0, 0.3, 30.0, 0.0, 0.2, 20.0])
    eta = rng.standard_normal(8)
    whole = NoisyTableLikelihood(y, variances, strata=strata, totals=[9, 70, 3.75])
    point, parts = whole.at(eta), 0.0
    for g, total in enumerate(whole.totals):
        inside = strata == g
        alone = NoisyTableLikelihood(y[inside], variances[inside], totals=[total]).at(eta[inside])
        assert point.score[inside] == pytest.approx(alone.score, abs=1e-10)
        assert point.hessian().dense()[np.ix_(inside, inside)] == pytest.approx(
            alone.hessian().dense(), abs=1e-10
        )
        assert point.posterior_mean[inside].sum() == pytest.approx(total, rel=2e-11)
        parts += alone.loglik
    assert point.loglik == pytest.approx(parts, rel=1e-13)
    narrow = strata == 0
    assert parts - sum(point.parts[1:]) == pytest.approx(
        enumerate_multinomial(
            y[narrow], variances[narrow], np.exp(eta[narrow]) / np.exp(eta[narrow]).sum(), 9
        ),
        abs=1e-9,
    )
    score = slope(lambda e: whole.at(e).loglik, eta)
    hessian = slope(lambda e: whole.at(e).score, eta)
    assert point.score == pytest.approx(score, abs=1e-7 * np.abs(score).max())
    assert point.hessian().dense() == pytest.approx(hessian, abs=1e-7 * np.abs(hessian).max())


@pytest.mark.parametrize("p", [2, 12, 60])
def test_the_two_ways_meet(p):
    # Where one gives way to the other they differ by the constant 1/(12 n), and hardly else.
    rng = np.random.default_rng(p)
    sd = brentq(lambda s: blur(np.full(p, s**2)).sum() - LARGEST_BLUR, 0.05, 10)
    truth = rng.dirichlet(np.full(p, 3.0))
    y = draw(rng, rng.multinomial(5 * p, truth), sd, np.zeros(p, int))
    etas = np.log(truth) + 0.3 * rng.standard_normal((5, p))
    below, above = (
        NoisyTableLikelihood(y, np.full(p, (sd * factor) ** 2), totals=[5 * p])
        for factor in (1 - 1e-6, 1 + 1e-6)
    )
    assert below.at(etas[0]).hidden is not None
    assert above.at(etas[0]).hidden is None
    gaps = np.array([above.at(eta).loglik - below.at(eta).loglik for eta in etas])
    assert np.abs(gaps).max() < 1 / (12 * 5 * p) + 1e-3
    assert np.ptp(gaps) < 1e-3


def test_estimates_of_a_3_by_4_table_are_those_of_the_sum_over_tables():
    rng = np.random.default_rng(3)
    rows, columns = np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.2, 0.3, 0.4])
    y = draw(rng, rng.multinomial(50, np.outer(rows, columns).ravel()), 0.5, np.zeros(12, int))
    domain = Domain({"A": ["a", "b", "c"], "B": ["u", "v", "w", "x"]})
    release = Release.from_noisy_table(y.reshape(3, 4), domain, sigma=0.5, n_total=50)
    fit = LogLinearModel(release, "[A][B]").fit()

    def lack(free, shapes):
        logs = [np.append(0.0, part) for part in np.split(free, np.cumsum(shapes)[:-1])]
        eta = logs[0] if len(logs) == 1 else np.add.outer(*logs).ravel()
        pi = np.exp(eta - eta.max())
        return -enumerate_multinomial(y, np.full(12, 0.25), pi / pi.sum(), 50)

    best = [
        minimize(lack, np.zeros(sum(shapes)), (shapes,), method="BFGS", options={"gtol": 1e-7})
        for shapes in ((2, 3), (11,))
    ]
    assert fit.llf == pytest.approx(-best[0].fun, abs=1e-8)
    assert fit.params.to_numpy() == pytest.approx(best[0].x, abs=1e-4)
    assert fit.deviance == pytest.approx(2 * (best[0].fun - best[1].fun), abs=1e-6)


def test_wide_noise_differs_from_enumeration_by_one_over_twelve_n():
    for n in (3, 10, 30):
        y, variances, pi = np.array([0.2, 0.3, 0.5]) * n, np.full(3, 1e6), np.array([0.3, 0.3, 0.4])
        error = NoisyTableLikelihood(y, variances, totals=[n]).at(np.log(pi)).loglik
        error -= enumerate_multinomial(y, variances, pi, n)
        assert error == pytest.approx(1 / (12 * n), rel=0.02)


def reference_fits():
    for table in json.loads(REFERENCE.read_text()):
        for fit in table["fits"]:
            yield pytest.param(table, fit, id=f"{table['table']}-{len(fit['terms'])}")


def sum_coded(table, fit):
    """Log rates from sum-to-zero coefficients: all levels of a term but the last, in C order."""
    coefficients, eta = list(fit["params_sum_coding"]), np.zeros(table["shape"])
    for term in fit["terms"]:
        axes = [table["factors"].index(factor) for factor in term]
        free = [table["shape"][axis] - 1 for axis in axes]
        block = np.reshape([coefficients.pop(0) for _ in range(math.prod(free))], free)
        for axis in range(len(axes)):
            block = np.concatenate([block, -block.sum(axis=axis, keepdims=True)], axis=axis)
        block = block.transpose(np.argsort(axes))
        eta += np.expand_dims(block, [a for a in range(eta.ndim) if a not in axes])
    assert not coefficients
    return eta.ravel()


@pytest.mark.parametrize(("table", "fit"), list(reference_fits()))
def test_reference_values(table, fit):
    variances = np.full(len(table["noisy"]), table["sigma"] ** 2)
    likelihood = NoisyTableLikelihood(table["noisy"], variances, totals=[table["n_total"]])
    point = likelihood.at(sum_coded(table, fit))
    assert point.loglik == pytest.approx(fit["loglik"], abs=1e-8)
    assert point.fitted == pytest.approx(fit["fitted"], rel=1e-9)
    assert point.posterior_mean == pytest.approx(fit["posterior_mean"], rel=1e-9)
    assert likelihood.saturated().loglik > point.loglik


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_noise_is_the_classical_likelihood(scheme):
    likelihood, eta = example(scheme, 0.0)
    counts, strata, rate = likelihood.noisy, likelihood.strata, np.exp(eta)
    if strata is None:
        expected = (counts * eta - rate - gammaln(counts + 1)).sum()
    else:
        pi = rate / np.bincount(strata, rate)[strata]
        expected = (counts * np.log(pi) - gammaln(counts + 1)).sum()
        expected += gammaln(likelihood.totals + 1).sum()
        rate = pi * likelihood.totals[strata]
    point = likelihood.at(eta)
    assert point.loglik == pytest.approx(expected, rel=1e-13)
    assert point.score == pytest.approx(counts - rate, abs=1e-12)
    information = point.complete_information().dense()
    assert -point.hessian().dense() == pytest.approx(information, abs=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_little_noise_reaches_no_noise_continuously(scheme):
    exact, eta = example(scheme, 0.0)
    gaps = []
    for sd in (0.3, 0.2, 0.1, 0.03, 0.001):
        variances = np.full(6, sd**2)
        noisy = NoisyTableLikelihood(
            exact.noisy, variances, strata=exact.strata, totals=exact.totals
        )
        gaps.append(abs(noisy.at(eta).loglik - exact.at(eta).loglik))
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[1] < 0.01
    assert gaps[-2:] == pytest.approx([0, 0], abs=1e-11)


def test_strata_multiply():
    whole, eta = example("strata", 3.0)
    parts = [
        NoisyTableLikelihood(
            whole.noisy[whole.strata == g], whole.variances[:3], totals=[whole.totals[g]]
        ).at(eta[whole.strata == g])
        for g in (0, 1)
    ]
    assert whole.at(eta).loglik == pytest.approx(sum(part.loglik for part in parts), rel=1e-13)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_order_of_cells_does_not_matter(scheme):
    likelihood, eta = example(scheme, 3.0)
    order = np.random.default_rng(1).permutation(6)
    strata = None if likelihood.strata is None else likelihood.strata[order]
    other = NoisyTableLikelihood(
        likelihood.noisy[order], likelihood.variances, strata=strata, totals=likelihood.totals
    )
    here, there = likelihood.at(eta), other.at(eta[order])
    assert there.loglik == pytest.approx(here.loglik, rel=1e-13)
    assert there.score == pytest.approx(here.score[order], abs=1e-10)
    assert there.hessian().dense() == pytest.approx(
        here.hessian().dense()[np.ix_(order, order)], abs=1e-9
    )


@pytest.mark.parametrize("scheme", ["one total", "strata"])
@pytest.mark.parametrize("sd", [0.05, 0.5, 3.0, 50.0])
def test_a_constant_in_each_stratum_does_not_matter_and_totals_hold(scheme, sd):
    likelihood, eta = example(scheme, sd)
    point = likelihood.at(eta)
    moved = likelihood.at(eta + np.array([3.0, -200.0])[likelihood.strata])
    assert moved.loglik == pytest.approx(point.loglik, abs=1e-9)
    assert moved.score == pytest.approx(point.score, abs=1e-9)
    for cells in (point.posterior_mean, point.fitted):
        sums = np.bincount(likelihood.strata, cells)
        assert sums == pytest.approx(likelihood.totals, rel=2e-11)


# -- derivatives --------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("sd", [0.05, 0.2, 0.35, 0.5, 1.0, 3.0, 14.0, 50.0])
def test_derivatives_are_those_of_the_value(scheme, sd):
    likelihood, eta = example(scheme, sd)
    point = likelihood.at(eta)
    score = slope(lambda e: likelihood.at(e).loglik, eta)
    hessian = slope(lambda e: likelihood.at(e).score, eta)
    assert point.score == pytest.approx(score, abs=1e-7 * max(1, np.abs(score).max()))
    assert point.hessian().dense() == pytest.approx(
        hessian, abs=1e-7 * max(1, np.abs(hessian).max())
    )


def test_derivatives_with_exact_cells_among_noisy_ones():
    y, variances = [12.0, 7.3, 5.0, 15.7], [0.0, 4.0, 0.0, 9.0]
    likelihood = NoisyTableLikelihood(y, variances, totals=[40.0])
    eta = np.log([0.2, 0.3, 0.2, 0.3])
    assert likelihood.at(eta).score == pytest.approx(
        slope(lambda e: likelihood.at(e).loglik, eta), abs=1e-7
    )
    assert likelihood.at(eta).hessian().dense() == pytest.approx(
        slope(lambda e: likelihood.at(e).score, eta), abs=1e-7
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_complete_information(scheme):
    likelihood, eta = example(scheme, 3.0)
    point = likelihood.at(eta)
    expected = np.diag(point.fitted)
    if likelihood.strata is not None:
        same = likelihood.strata[:, None] == likelihood.strata
        pi = point.fitted / likelihood.totals[likelihood.strata]
        expected -= same * np.outer(point.fitted, pi)
    assert point.complete_information().dense() == pytest.approx(expected, rel=1e-12)


def test_peak_is_the_gaussian_value_and_one_where_nothing_varies():
    v = np.array([0.0, 2.5, 12.0, 1e6])
    value, first, second = log_lattice_peak(v)
    assert value[1:] == pytest.approx(-0.5 * np.log(2 * np.pi * v[1:]), rel=1e-15)
    assert [value[0], first[0], second[0]] == [0, -1, -1]


def test_peak_is_that_of_a_discrete_gaussian():
    j = np.arange(-40, 41)
    for beta in (8.0, 3.0, 1.0, 0.5, 0.25):
        weight = np.exp(-beta * j**2)
        variance = (weight * j**2).sum() / weight.sum()
        expected = -math.log(weight.sum())
        assert log_lattice_peak([variance])[0][0] == pytest.approx(expected, abs=1e-12)


def test_peak_is_smooth():
    v = np.array([1e-6, 0.9e-3, 0.999e-3, 1.01e-3, 0.1, 0.24, 0.26, 1.0, 2.49, 2.51, 40.0])
    h = 1e-4 * v
    around = [log_lattice_peak(v + j * h) for j in (-2, -1, 1, 2)]
    here = log_lattice_peak(v)
    for order in (0, 1):
        a, b, c, d = (point[order] for point in around)
        assert (a - 8 * b + 8 * c - d) / (12 * h) == pytest.approx(here[order + 1], rel=2e-6)


# -- linear algebra -----------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_diagonal_plus_low_rank_is_its_dense_matrix(rank):
    rng = np.random.default_rng(rank)
    strata = np.array([0, 2, 1, 1, 0, 2, 2])
    cores = rng.standard_normal((3, rank, rank))
    matrix = DiagonalPlusLowRank(
        rng.uniform(1, 2, 7),
        rng.standard_normal((rank, 7)),
        cores + np.swapaxes(cores, 1, 2),
        strata,
    )
    dense, x = matrix.dense(), rng.standard_normal(7)
    for i in range(7):
        for j in range(7):
            core = matrix.cores[strata[i]] * (strata[i] == strata[j])
            entry = matrix.vectors[:, i] @ core @ matrix.vectors[:, j]
            assert dense[i, j] == pytest.approx(entry + (i == j) * matrix.diagonal[i])
    assert matrix.dot(x) == pytest.approx(dense @ x, rel=1e-12)
    assert matrix.solve(x) == pytest.approx(np.linalg.solve(dense, x), rel=1e-8)


# -- the saturated maximum ----------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("sd", [0.1, 0.4, 1.4, 5.0, 20.0])
def test_saturated_is_the_highest_point(scheme, sd):
    for seed in range(3):
        likelihood, _ = example(scheme, sd, seed, low=0)
        top = likelihood.saturated().loglik
        rng = np.random.default_rng(seed)
        for spread in (0.0, 0.3, 1.5):
            start = np.log(np.maximum(likelihood.noisy, 0.3)) + spread * rng.standard_normal(6)
            assert likelihood.at(start).loglik <= top
            rival = minimize(
                lambda e, at=likelihood.at: -at(e).loglik,
                start,
                jac=lambda e, at=likelihood.at: -at(e).score,
                method="BFGS",
            )
            assert -rival.fun <= top + 1e-8


@pytest.mark.parametrize("scheme", SCHEMES)
def test_saturated_is_stationary_and_empties_cells_only_downhill(scheme):
    strata = {"one total": np.zeros(6, int), "strata": np.array([0, 1, 0, 1, 1, 0])}.get(scheme)
    y = np.array([-4.0, 12.0, 30.5, 0.2, 6.8, 2.5])
    totals = None if strata is None else np.bincount(strata, y)
    likelihood = NoisyTableLikelihood(y, np.full(6, 9.0), strata=strata, totals=totals)
    top = likelihood.saturated()
    empty = top.fitted == 0
    assert empty[[0, 3]].all()
    assert not empty[[1, 2, 4]].any()
    assert top.score == pytest.approx(np.zeros(6), abs=1e-5)
    eta = np.log(np.where(empty, 1e-4, top.fitted))
    assert likelihood.at(eta).loglik < top.loglik


@pytest.mark.parametrize("scheme", SCHEMES)
def test_saturated_without_noise_fits_the_counts(scheme):
    likelihood, _ = example(scheme, 0.0, low=0)
    assert likelihood.saturated().fitted == pytest.approx(likelihood.noisy, rel=1e-12)


def test_saturated_of_many_cells():
    rng = np.random.default_rng(0)
    counts = rng.poisson(10 ** rng.uniform(-1, 3, 50_000))
    y = draw(rng, counts, 5.0, np.zeros(counts.size, int))
    likelihood = NoisyTableLikelihood(y, np.full(y.size, 25.0), totals=[counts.sum()])
    top = likelihood.saturated()
    assert top.loglik > likelihood.at(np.log(np.maximum(y, 0.5))).loglik
    assert np.abs(top.score[top.fitted > 0]).max() < 1e-4
    assert top.posterior_mean.sum() == pytest.approx(counts.sum(), rel=1e-11)


# -- edges --------------------------------------------------------------------------------------


def test_an_empty_stratum_contributes_its_noise_alone():
    y = np.array([3.0, 2.0, 1.5, -1.5])
    likelihood = NoisyTableLikelihood(
        y, np.ones(4), strata=np.array([0, 0, 1, 1]), totals=[5.0, 0.0]
    )
    alone = NoisyTableLikelihood(y[:2], np.ones(2), totals=[5.0])
    point = likelihood.at(np.zeros(4))
    assert point.loglik == pytest.approx(alone.at(np.zeros(2)).loglik - 1.5**2, rel=1e-14)
    assert point.score[2:].tolist() == [0, 0]
    assert np.isfinite(point.hessian().dense()).all()
    assert likelihood.saturated().fitted[2:].tolist() == [0, 0]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_cell_ruled_out_leaves_its_noise(scheme):
    likelihood, eta = example(scheme, 2.0)
    eta[3] = -np.inf
    keep = np.arange(6) != 3
    strata = None if likelihood.strata is None else likelihood.strata[keep]
    rest = NoisyTableLikelihood(
        likelihood.noisy[keep], likelihood.variances[keep], strata=strata, totals=likelihood.totals
    )
    point, without = likelihood.at(eta), rest.at(eta[keep])
    assert point.loglik == pytest.approx(without.loglik - likelihood.noisy[3] ** 2 / 8, rel=1e-12)
    assert point.score[keep] == pytest.approx(without.score, abs=1e-9)
    assert [point.fitted[3], point.score[3], point.posterior_mean[3]] == [0, 0, 0]
    assert not point.hessian().dense()[3].any()


def test_an_exact_count_in_a_cell_ruled_out_is_impossible():
    likelihood = NoisyTableLikelihood([2.0, 3.0], [0.0, 0.0], totals=[5.0])
    assert likelihood.at([-np.inf, 0.0]).loglik == -math.inf


def test_huge_counts():
    y = np.array([1e9 + 30, 2e9 - 70, 40.0])
    likelihood = NoisyTableLikelihood(y, np.full(3, 400.0), totals=[3e9])
    point = likelihood.at(np.log([1e9, 2e9, 50.0]))
    assert np.isfinite(point.loglik)
    assert point.posterior_mean.sum() == pytest.approx(3e9, rel=1e-11)
    assert likelihood.saturated().fitted == pytest.approx(y, abs=30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noisy": [1.0, 2.0], "variances": [1.0]}, "one length"),
        ({"noisy": [1.0, np.nan], "variances": [1.0, 1.0]}, "finite"),
        ({"noisy": [1.0, 2.0], "variances": [1.0, -1.0]}, "squared"),
        ({"noisy": [1.0, -2.0], "variances": [1.0, 0.0]}, ">= 0"),
        ({"noisy": [1.0, 2.0], "variances": [1.0, 1.0], "strata": [0, 0]}, "totals"),
        ({"noisy": [1.0, 2.0], "variances": [1.0, 1.0], "totals": [-3.0]}, "totals"),
        ({"noisy": [1.0, 2.0], "variances": [0.0, 0.0], "totals": [4.0]}, "contradict"),
        (
            {"noisy": [1.0, 2.0], "variances": [1.0, 1.0], "strata": [0, 2], "totals": [1.0, 2.0]},
            "strata must lie",
        ),
    ],
)
def test_misuse_is_refused(arguments, message):
    with pytest.raises(ModelError, match=message):
        NoisyTableLikelihood(**arguments)


@pytest.mark.parametrize("eta", [[0.0], [0.0, np.nan], [0.0, np.inf], [-np.inf, -np.inf]])
def test_bad_log_rates_are_refused(eta):
    with pytest.raises(ModelError):
        NoisyTableLikelihood([1.0, 2.0], [1.0, 1.0], totals=[3.0]).at(eta)


def test_counts_that_no_table_can_explain_are_refused():
    likelihood = NoisyTableLikelihood([3.0, 2.0], [1e-4, 1e-4], totals=[1000.0])
    with pytest.raises(ModelError, match="add up"):
        likelihood.at([0.0, 0.0])


@pytest.mark.parametrize("sd", [1e-12, 1e-6, 1e-3, 1e-2, 0.1])
def test_saturated_tends_to_no_noise(sd):
    """Hardly any noise, and a cell at 0: the total is met by any tilt, and none may run away."""
    counts = np.array([10.0, 0.0, 6.0, 4.0])
    noisy = counts + sd * np.array([0.16, 0.8, -1.5, 0.54])
    top = NoisyTableLikelihood(noisy, np.full(4, sd**2), totals=[20.0]).saturated()
    exact = NoisyTableLikelihood(counts, np.zeros(4), totals=[20.0])
    half = np.log([0.3, 0.2, 0.3, 0.2])
    gain = (
        top.loglik - NoisyTableLikelihood(noisy, np.full(4, sd**2), totals=[20.0]).at(half).loglik
    )
    assert gain == pytest.approx(exact.saturated().loglik - exact.at(half).loglik, abs=1e-6)
    assert np.abs(top.tilt).max() < 3


def test_no_rounding_passes_for_likelihood():
    """One cell e^44 times as likely as the others, which hold all the records."""
    noisy = np.array([-0.4, 6.0, 7.5, 6.4, 20.5])
    likelihood = NoisyTableLikelihood(noisy, np.full(5, 2.0), totals=[40.0])
    best = likelihood.saturated().loglik
    for depth in (5.0, 10.0, 20.0, 44.0, 100.0, 300.0):
        assert likelihood.at([depth, 0.0, 0.0, 0.0, 0.0]).loglik < best - depth
