"""Maxima at infinity: which parameters have none, which way they go, and what stays as it is."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.stats import chi2

from dpcontingency.domain import Domain
from dpcontingency.errors import ExistenceWarning
from dpcontingency.inference.families import all_kway
from dpcontingency.inference.fits import treatment_covariance
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.risks import odds_ratio
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

SQUARE = Domain({"A": ["a", "b"], "B": ["u", "v"]})


def noisy_square(cells, sigma):
    return Release.from_noisy_table(np.array(cells, float), SQUARE, sigma=sigma, n_total=100)


def quiet(release, generators, **options):
    method = options.pop("method", "ml")
    model = LogLinearModel(release, generators, **options)
    return model.fit(method=method, warn_convergence=False)


def noisy_releases(sigma, seeds):
    counts = np.array([[120, 40, 33], [90, 44, 70]])
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    for seed in seeds:
        noise = np.random.default_rng(seed).normal(0, sigma, counts.shape)
        noisy = counts + noise - noise.mean()
        yield Release.from_noisy_table(noisy, domain, sigma=sigma, n_total=int(counts.sum()))


@pytest.mark.parametrize("method", ["ml", "normal"])
@pytest.mark.parametrize("sigma", [1.0, 10.0, 100.0, 1e4, 1e6])
def test_no_noise_is_so_wide_that_nothing_looks_like_an_estimate(sigma, method):
    for release in noisy_releases(sigma, range(12)):
        result = quiet(release, "[A][B]", method=method)
        assert result.converged, result.reason
        assert result.bse.max() < 150 or result.bse.isna().all()
        if sigma <= 10:
            assert result.existence.exists
        if sigma >= 1e4:
            assert not result.existence.exists


@pytest.mark.parametrize("sigma", [3.0, 10.0, 30.0, 100.0])
def test_the_likelihood_falls_on_both_sides_of_an_estimate(sigma):
    seen = 0
    for release in noisy_releases(sigma, range(6)):
        result = quiet(release, "[A][B]")
        for j in np.flatnonzero(np.isfinite(result.params)):
            profile = result._profile(np.eye(3)[j])
            for side in (-1.0, 1.0):
                away = profile.loglike(profile.estimate + 10 * side)
                assert result.llf - away > 5e-5
            seen += 1
        # and of what is said to be infinite it does not fall that way
        for j in np.flatnonzero(np.isinf(result.params)):
            profile = result._profile(np.eye(3)[j])
            limit = profile.loglike(profile.estimate + 10 * np.sign(result.params.iloc[j]))
            assert limit > result.llf - 2e-4
    assert seen > 3


@pytest.mark.parametrize(("name", "mu", "seed"), [("titanic", 0.03, 7), ("titanic", 0.1, 3)])
def test_codings_agree_on_what_can_be_estimated(load_table, name, mu, seed):
    counts, domain = load_table(name)
    release = simulate_release(counts, domain, GDP(mu=mu), np.random.default_rng(seed))
    one, other = (
        quiet(release, all_kway(domain, 2), coding=coding) for coding in ("treatment", "sum")
    )
    assert not one.existence.exists
    assert not other.existence.exists
    for result in (one, other):
        assert result.bse.max() < 100
        assert result.params[np.isfinite(result.params)].abs().max() < 15
    np.testing.assert_allclose(one.fittedvalues, other.fittedvalues, rtol=1e-6, atol=1e-9)
    covariances = [treatment_covariance(fit.model, fit._fit) for fit in (one, other)]
    np.testing.assert_allclose(*covariances, rtol=1e-5, atol=1e-6)


def test_a_margin_that_noise_has_eaten_takes_its_parameter_to_the_limit():
    release = noisy_square([[137, 39], [-39, -37]], 100.0)
    result = quiet(release, "[A][B]")
    assert np.isneginf(result.params).all()
    np.testing.assert_allclose(result.fittedvalues, [100, 0, 0, 0])
    assert result.bse.isna().all()


def test_what_is_flat_both_ways_has_neither_sign_nor_odds_ratio(load_table):
    counts, domain = load_table("premarital_sex")
    release = simulate_release(counts, domain, GDP(mu=0.03), np.random.default_rng(2))
    result = quiet(release, all_kway(domain, 2))
    assert result.bse.max() < 100
    ratios = result.odds_ratios()
    assert ratios["se"].max() < 100
    assert ratios["odds_ratio"].isna().sum() == 3
    assert result.existence.parameters == tuple(result.params.index[~np.isfinite(result.params)])


def test_the_gaussian_approximation_finds_the_same_limits(load_table):
    counts, domain = load_table("job_satisfaction")
    release = simulate_release(counts, domain, GDP(mu=0.3), np.random.default_rng(3))
    result = quiet(release, [domain.names], method="normal")
    assert result.bse.max() < 100
    assert result.fittedvalues.min() == 0


# -- signs ----------------------------------------------------------------------------------------


def signs_by_brute_force(model):
    """Extremes of each coefficient over the directions that raise no cell and move no record."""
    x = model._design.matrix().toarray()
    coding = np.eye(x.shape[1]) if model._recode is None else model._recode
    x = np.column_stack([x, np.ones(len(x))])
    face, out = model.face, []
    for row in coding:
        ends = [
            side
            * linprog(
                -side * np.append(row, 0.0),
                A_ub=x[~face],
                b_ub=np.zeros((~face).sum()),
                A_eq=x[face],
                b_eq=np.zeros(face.sum()),
                bounds=[(-1, 1)] * x.shape[1],
            ).fun
            for side in (-1.0, 1.0)
        ]
        up, down = -ends[1] > 1e-7, ends[0] > 1e-7
        out.append(np.nan if up and down else np.inf * (float(up) - down) if up or down else 0.0)
    return np.array(out)


@pytest.mark.parametrize("coding", ["treatment", "sum"])
@pytest.mark.parametrize("generators", ["[A][B][C]", "[AB][BC]", "[AB][AC][BC]", "[ABC]"])
def test_the_sign_of_an_infinite_parameter_is_that_of_the_recession_cone(coding, generators):
    rng = np.random.default_rng(5)
    seen = set()
    for shape in ((2, 2, 2), (2, 3, 2), (3, 3, 2)) * 3:
        counts = rng.integers(1, 30, size=shape) * (rng.random(shape) < 0.45)
        if not counts.any():
            continue
        domain = Domain({k: list(range(n)) for k, n in zip("ABC", shape, strict=True)})
        result = quiet(Release.exact(counts, domain), generators, coding=coding)
        expected = signs_by_brute_force(result.model)
        lost = expected != 0  # nan too
        np.testing.assert_array_equal(result._fit.at_infinity, lost)
        np.testing.assert_array_equal(result.params[lost], expected[lost])
        seen |= set(np.where(np.isnan(expected), 0.0, expected)[lost])
    if generators == "[AB][BC]":
        assert seen == {0.0, np.inf, -np.inf}


def test_the_same_zeros_leave_the_same_signs_open(load_table):
    counts, domain = load_table("titanic")
    release = Release.exact(counts, domain)
    lost = []
    for formula in ("Class*Sex*Age + Survived", "Class*Sex*Age + Survived*(Class + Sex + Age)"):
        result = LogLinearModel.from_formula(formula, release).fit(warn_convergence=False)
        lost.append(result.params[~np.isfinite(result.params)].to_dict())
    assert lost[0].keys() == lost[1].keys()
    for name, value in lost[0].items():
        np.testing.assert_equal(lost[1][name], value)
        assert np.isnan(value) == ("Sex[T.Female]" in name)


# -- the search -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "generators"),
    [([[-3, 36], [50, 17]], "[AB]"), ([[37, 37], [-40, 66]], "[A][B]")],
)
def test_a_limit_is_an_end_of_the_search(cells, generators):
    model = LogLinearModel(noisy_square(cells, 50.0), generators)
    with pytest.warns(ExistenceWarning):
        result = model.fit()
    assert result.converged
    if generators == "[AB]":
        assert result.deviance == pytest.approx(0, abs=1e-8)


def test_a_drift_of_many_parameters_ends(load_table):
    counts, domain = load_table("czech_autoworkers")
    release = simulate_release(counts, domain, GDP(mu=0.03), np.random.default_rng(0))
    result, normal = (quiet(release, all_kway(domain, 2), method=m) for m in ("ml", "normal"))
    assert result.converged
    assert result.llf >= normal.llf
    assert result.compare(quiet(release, all_kway(domain, 1))) is not None


# -- profiles -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "sigma"), [([[8, 30], [35, 27]], 20.0), ([[50, 18], [56, -24]], 50.0)]
)
def test_profile_intervals_of_drifting_parameters_by_brute_force(cells, sigma):
    result = quiet(noisy_square(cells, sigma), "[AB]")
    assert not result.odds_ratios()["lower"].isna().any()
    level = result.llf - chi2.isf(0.05, 1) / 2
    for j, ends in enumerate(result.conf_int(method="profile").to_numpy()):
        rest = [k for k in range(3) if k != j]

        def profile(value, j=j, rest=rest):
            def fall(free):
                beta = np.zeros(3)
                beta[j], beta[rest] = value, free
                return -result.model.loglike(beta)

            far = max(6.0, abs(value))
            grid = (-far, 0.0, far)
            starts = [np.array([a, b]) for a in grid for b in grid]
            options = {"maxiter": 150, "fatol": 1e-6, "xatol": 1e-2}
            return -min(
                minimize(fall, s, method="Nelder-Mead", options=options).fun for s in starts
            )

        for side, end in zip((-1.0, 1.0), ends, strict=True):
            if np.isfinite(end):
                assert profile(end) == pytest.approx(level, abs=1e-3)
            else:
                assert profile(30.0 * side) > level


@pytest.mark.parametrize(("mu", "coding"), [(0.03, "treatment"), (0.1, "sum")])
def test_profile_intervals_of_a_table_that_drifts(load_table, mu, coding):
    counts, domain = load_table("titanic")
    release = simulate_release(counts, domain, GDP(mu=mu), np.random.default_rng(3))
    result = quiet(release, all_kway(domain, 2), coding=coding)
    ratios = result.odds_ratios("Age")
    assert (ratios["lower"] <= ratios["upper"]).all()
    ends = ratios[["lower", "upper"]].to_numpy()
    assert ((ends == 0) | np.isinf(ends) | ((ends > 1e-12) & (ends < 1e12))).all()


def few_records_in_many_cells(n_factors, n, seed):
    """A release of records so few, in cells so uneven, that the noise eats most of the table."""
    rng = np.random.default_rng(seed)
    domain = Domain({f"f{k}": [0, 1] for k in range(n_factors)})
    counts = rng.multinomial(n, rng.dirichlet(np.ones(domain.size))).reshape(domain.shape)
    return simulate_release(counts, domain, GDP(mu=1), rng)


@pytest.mark.parametrize(("n_factors", "n", "seed"), [(9, 400, 4), (9, 400, 10), (8, 150, 3)])
def test_most_cells_may_go_to_their_limit_together(n_factors, n, seed):
    """Each at its own pace: a search that waits for the last of them does not end."""
    release = few_records_in_many_cells(n_factors, n, seed)
    result = quiet(release, all_kway(release.domain, 3))
    assert result.converged, result.reason
    assert result.iterations < 120
    face = result.fittedvalues.to_numpy() > 0
    fitted = np.where(face, result.fittedvalues, 1.0)
    point = result.model.cells.at(np.where(face, np.log(fitted), -np.inf))
    assert point.loglik == pytest.approx(result.llf, abs=1e-4)
    # nothing is left to climb along what the cells that stay can tell
    slope = result.model._design.tdot(np.where(face, point.score, 0.0))
    assert np.abs(slope).max() < 1e-3


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_relabelling_leads_a_hard_search_to_the_same_place(seed):
    release = few_records_in_many_cells(6, 60, seed)
    reversed_ = Release.from_noisy_table(
        np.flip(release.noisy).T, release.domain, sigma=release.sigma, n_total=60
    )
    one, other = (quiet(r, all_kway(release.domain, 3)) for r in (release, reversed_))
    assert one.converged
    assert other.llf == pytest.approx(one.llf, abs=1e-6)
    again = np.flip(one.fittedvalues.to_numpy().reshape(release.domain.shape)).T.ravel()
    np.testing.assert_allclose(other.fittedvalues, again, atol=1e-4)


# -- estimates that are none ----------------------------------------------------------------------


def sparse(k, n, order, seed):
    """A noisy 2^k table of few records, and the model of all terms of some order."""
    rng = np.random.default_rng(seed)
    domain = Domain({f"F{i}": [0, 1] for i in range(k)})
    x = np.array(list(itertools.product([0, 1], repeat=k)))
    eta = x @ rng.normal(0, 0.7, size=k)
    counts = rng.multinomial(n, np.exp(eta) / np.exp(eta).sum()).reshape(domain.shape)
    release = simulate_release(counts, domain, GDP(0.3), rng)
    return release, list(itertools.combinations(domain.names, order))


@pytest.mark.parametrize(("k", "n", "order"), [(3, 30, 3), (4, 100, 3), (6, 200, 2)])
def test_no_huge_standard_error_is_printed_as_one_of_an_estimate(k, n, order):
    found = 0
    for seed in range(8):
        release, generators = sparse(k, n, order, seed)
        result = quiet(release, generators)
        for j in np.flatnonzero(result.bse > 5):  # an end tells something of it
            assert np.isfinite(result.conf_int(cols=[j], method="profile")).any(axis=None)
        assert not (result.bse > 20).any()
        for name in result.existence.open:
            assert np.isnan(result.params[name])
            assert result.conf_int().loc[name].tolist() == [-np.inf, np.inf]
        finite = np.sqrt(np.diag(result._fit.covariance)) > 5
        open_ = finite & result._fit.at_infinity & (result._fit.direction == 0)
        for j in np.flatnonzero(open_)[:1]:  # the likelihood says no more of it
            assert np.isinf(result.conf_int(cols=[j], method="profile")).any(axis=None)
            found += 1
    assert found > 0


def test_what_is_left_open_is_named_wherever_it_is_printed(tmp_path):
    release = noisy_square([[62, 1.1], [35.7, 1.2]], 6.0)
    result = quiet(release, [("A", "B")])
    result.save(tmp_path / "fit.json")
    name = "A[T.b]:B[T.v]"
    for fit in (result, LogLinearResults.load(tmp_path / "fit.json")):
        assert name in fit.existence.open
        assert set(fit.existence.open) <= set(fit.existence.parameters)
        assert "tells next to nothing of these parameters" in fit.existence.reason
        assert f"{name} open not estimable" in " ".join(str(fit.summary()).split())
        ratio = fit.odds_ratios().iloc[0]
        assert np.isnan(ratio[["odds_ratio", "se"]].astype(float)).all()
        assert ratio[["lower", "upper"]].tolist() == [0, np.inf]
        assert ratio["reason"] == "the release tells next to nothing of it"
    found = odds_ratio(release, "A", "B")
    assert np.isnan(found.estimate)
    assert found.reason.endswith("tells next to nothing of it")
    assert found.interval == (0, np.inf)
    assert odds_ratio(release, "A", "B", method="profile").interval == (0, np.inf)


def test_many_cells_of_one_record_are_no_reason_to_call_an_estimate_open():
    """A six-way interaction of 64 single records has a standard error of 8, noise or none."""
    domain = Domain({f"F{i}": [0, 1] for i in range(6)})
    ones = np.ones(domain.shape)
    exact = quiet(Release.exact(ones, domain), [domain.names])
    noisy = quiet(Release.from_noisy_table(ones, domain, sigma=0.3, n_total=64), [domain.names])
    for result in (exact, noisy):
        assert result.existence.exists
        assert result.bse.max() == pytest.approx(8, rel=0.02)


# -- several maxima -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_order_and_labels_do_not_choose_among_several_maxima(seed):
    """Rounding differs with the order of the sums, and must not grow on the way to a maximum."""
    k, rng = 7, np.random.default_rng(seed)
    x = np.array(list(itertools.product([0, 1], repeat=k)))
    eta = x @ rng.normal(0, 0.7, size=k)
    eta += sum(rng.normal(0, 0.5) * x[:, i] * x[:, j] for i in range(k) for j in range(i))
    names = [f"F{i}" for i in range(k)]
    domain = Domain({name: [0, 1] for name in names})
    counts = rng.multinomial(300, np.exp(eta) / np.exp(eta).sum()).reshape(domain.shape)
    release = simulate_release(counts, domain, GDP(0.3), rng)
    heights = []
    rng = np.random.default_rng(100 + seed)
    for _ in range(3):
        order, flipped = rng.permutation(k), rng.random(k) < 0.5
        table = np.flip(release.noisy, np.flatnonzero(flipped)).transpose(order)
        levels = {names[i]: [1, 0] if flipped[i] else [0, 1] for i in order}
        other = Release.from_noisy_table(table, Domain(levels), sigma=release.sigma, n_total=300)
        heights.append(quiet(other, itertools.combinations(names, 3)).llf)
    assert np.ptp(heights) < 1e-4
