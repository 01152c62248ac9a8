"""Jeffreys' penalty: closed forms, Firth's logistic regression, brute force, finite estimates."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.comparison import compare
from dpcontingency.inference.existence import complement, null_directions
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.penalty import PenalisedLikelihood
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.selection import step
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

SCHEMES = ["total", "strata", "nothing", "exact"]


def release_of(scheme, sigma=5.0, seed=8, n=150):
    rng = np.random.default_rng(seed)
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y"]})
    counts = rng.multinomial(n, rng.dirichlet(np.full(12, 1.0))).reshape(domain.shape)
    if scheme == "exact":
        return Release.exact(counts, domain)
    if scheme == "strata":
        return simulate_release(counts, domain, GDP(np.sqrt(2) / sigma), rng, strata=["B"])
    if scheme == "nothing":
        return simulate_release(counts, domain, GDP(1 / sigma), rng, neighbours="add-remove")
    return simulate_release(counts, domain, GDP(np.sqrt(2) / sigma), rng)


def jeffreys(release, generators, **options):
    model = LogLinearModel(release, generators, **options)
    return model.fit(penalty="jeffreys", warn_convergence=False)


def dense_objective(model):
    """Log-likelihood + 1/2 log det of the information in the counts, from the model's matrix."""
    x, strata = model._design.matrix().toarray(), model.cells.strata

    def objective(beta):
        mean = model.predict(beta)
        information = np.diag(mean)
        if strata is not None:
            same = strata[:, None] == strata
            total = np.bincount(strata, mean)[strata]
            information = information - np.where(same, np.outer(mean, mean), 0) / total
        sign, logdet = np.linalg.slogdet(x.T @ information @ x)
        return model.loglike(beta) + logdet / 2 if sign > 0 else -np.inf

    return objective


# -- closed forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "counts",
    [
        [[30, 10], [22, 28]],
        [[41, 0], [190, 377]],
        [[0, 0], [3, 1]],
        [[5, 0, 2], [1, 7, 0], [0, 0, 9]],
    ],
    ids=str,
)
def test_a_saturated_multinomial_gets_one_half_in_each_cell(counts):
    counts = np.array(counts)
    domain = Domain({"A": list(range(len(counts))), "B": list(range(counts.shape[1]))})
    result = jeffreys(Release.exact(counts, domain), "[AB]")
    expected = (counts + 0.5) * counts.sum() / (counts.sum() + counts.size / 2)
    np.testing.assert_allclose(result.fittedvalues, expected.ravel(), rtol=1e-6)
    assert result.existence.exists
    # Firth's errors: the inverse of the information in the counts at the estimate.
    corner = np.sqrt((1 / expected[:2, :2]).sum())
    assert result.bse["A[T.1]:B[T.1]"] == pytest.approx(corner, rel=1e-6)


def test_each_stratum_gets_its_own_halves():
    counts = np.array([[12, 0, 3], [0, 40, 8]])
    rng = np.random.default_rng(1)
    domain = Domain({"S": [0, 1], "B": [0, 1, 2]})
    release = simulate_release(counts, domain, GDP(1e7), rng, strata=["S"])
    fitted = jeffreys(release, "[SB]").fittedvalues.to_numpy().reshape(2, 3)
    totals = counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted, (counts + 0.5) * totals / (totals + 1.5), rtol=1e-6)


def test_poisson_cells_get_one_half_each():
    counts = np.array([[12.0, 0.0], [7.0, 40.0]])
    domain = Domain({"A": [0, 1], "B": [0, 1]})
    release = Release.from_noisy_table(counts, domain, sigma=1e-4, neighbours="add-remove")
    np.testing.assert_allclose(
        jeffreys(release, "[AB]").fittedvalues, counts.ravel() + 0.5, rtol=1e-6
    )


def test_it_is_firths_logistic_regression():
    """A response in strata of two covariates, one cell of which separates it."""
    counts = np.array([[[9, 4], [6, 0], [11, 0]], [[3, 8], [5, 7], [0, 6]]])
    domain = Domain({"Y": [0, 1], "B": [0, 1, 2], "C": [0, 1]})
    rng = np.random.default_rng(2)
    release = simulate_release(counts, domain, GDP(1e7), rng, strata=["B", "C"])
    result = jeffreys(release, "[YB][YC]")

    b, c = np.repeat([0, 1, 2], 2), np.tile([0, 1], 3)
    x = np.column_stack([np.ones(6), b == 1, b == 2, c]).astype(float)
    size, successes = counts.sum(axis=0).ravel(), counts[1].ravel()
    beta = np.zeros(4)
    for _ in range(500):
        p = 1 / (1 + np.exp(-x @ beta))
        w = size * p * (1 - p)
        inverse = np.linalg.inv(x.T @ (w[:, None] * x))
        hat = w * np.einsum("ij,jk,ik->i", x, inverse, x)
        beta = beta + inverse @ x.T @ (successes - size * p + hat * (0.5 - p))
    np.testing.assert_allclose(result.params, beta, atol=2e-6)
    np.testing.assert_allclose(result.bse, np.sqrt(np.diag(inverse)), rtol=1e-5)


# -- brute force ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("generators", ["[A][B][C]", "[AB][BC]", "[AB][AC][BC]", "[ABC]"])
def test_it_is_the_maximum_that_brute_force_finds(scheme, generators):
    model = LogLinearModel(release_of(scheme), generators)
    result = model.fit(penalty="jeffreys")
    assert result.converged
    objective = dense_objective(model)
    at = result.params.to_numpy()
    start = np.zeros(at.size)
    start[0] = at[0]
    options = {"gtol": 1e-5, "maxiter": 2000}
    there = minimize(lambda beta: -objective(beta), start, method="BFGS", options=options)
    assert objective(at) >= -there.fun - 1e-8
    assert (np.abs(at - there.x) < 2e-3 * result.bse + 2e-4).all()
    assert result.llf == pytest.approx(model.loglike(at), abs=1e-9)
    assert result.llf <= model.fit(warn_convergence=False).llf + 1e-9


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradient_and_value_of_the_penalised_likelihood(scheme, monkeypatch):
    monkeypatch.setattr("dpcontingency.inference.rows.BLOCK", 16)  # several blocks
    model = LogLinearModel(release_of(scheme), "[AB][AC][BC]")
    strata, q = model.cells.strata, model._design.n_columns
    axes = None if strata is None else model._design.strata
    at = PenalisedLikelihood(
        lambda beta: model._at(beta).cells, model._design, axes, strata, np.eye(q)
    ).at
    rng = np.random.default_rng(3)
    beta = model._flat() + rng.normal(scale=0.4, size=q)

    objective = dense_objective(model)
    assert at(beta).value == pytest.approx(objective(beta), abs=1e-9)
    numeric = [(objective(beta + e) - objective(beta - e)) / 2e-4 for e in 1e-4 * np.eye(q)]
    np.testing.assert_allclose(at(beta).gradient, numeric, rtol=1e-5, atol=1e-5)
    # The modelled curvature of the penalty alone bounds the true one where there are few strata.
    if scheme == "exact":
        twice = np.array(
            [(at(beta + e).gradient - at(beta - e).gradient) / 2e-5 for e in 1e-5 * np.eye(q)]
        )
        assert np.linalg.eigvalsh(at(beta).observed() + (twice + twice.T) / 2).min() > -1e-4


# -- laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_codings_and_the_order_of_factors_change_nothing(scheme):
    release = release_of(scheme)
    one, other = jeffreys(release, "[AB][BC]"), jeffreys(release, "[AB][BC]", coding="sum")
    np.testing.assert_allclose(one.fittedvalues, other.fittedvalues, rtol=1e-6)
    moved = jeffreys(release.margin("C", "A", "B"), "[AB][BC]")
    for column in one.params.index:
        match = next(c for c in moved.params.index if set(c.split(":")) == set(column.split(":")))
        assert one.params[column] == pytest.approx(moved.params[match], abs=2e-5)
        assert one.bse[column] == pytest.approx(moved.bse[match], rel=2e-5)


def test_large_counts_wash_the_penalty_out():
    model = LogLinearModel(release_of("total", n=400_000), "[AB][BC]")
    ml, held = model.fit(), model.fit(penalty="jeffreys")
    assert (np.abs(held.params - ml.params) < 0.02 * ml.bse).all()
    np.testing.assert_allclose(held.bse, ml.bse, rtol=0.01)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_parts_of_the_variance_add_up(scheme):
    result = jeffreys(release_of(scheme), "[AB][AC][BC]")
    np.testing.assert_allclose(
        result.bse**2, result.bse_sampling**2 + result.bse_privacy**2, rtol=1e-9
    )
    assert (result.bse >= result.bse_sampling * (1 - 1e-12)).all()
    assert (result.privacy_share.iloc[1:] > 1e-3).all() == (scheme != "exact")


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_estimates_are_finite_where_noise_has_eaten_margins(neighbours):
    """25 releases of a sparse table; noise takes the level of 2 % in a third of them.

    Over 200 releases of each kind Wald intervals of that level cover 0.76 and 0.68 (by maximum
    likelihood, where it exists, 0.73 and 0.76), profile intervals 0.92 and 0.87 in 60 of them.
    """
    rng = np.random.default_rng(17)
    domain = Domain({"A": [0, 1, 2], "B": [0, 1, 2, 3]})
    rows, columns = np.array([0.6, 0.38, 0.02]), np.array([0.4, 0.3, 0.2, 0.1])
    truth = np.log([*(rows[1:] / rows[0]), *(columns[1:] / columns[0])])
    sensitivity = 1 if neighbours == "add-remove" else np.sqrt(2)
    wald, profile, lost = [], [], 0
    for _ in range(25):
        counts = rng.multinomial(300, np.outer(rows, columns).ravel()).reshape(3, 4)
        release = simulate_release(
            counts, domain, GDP(sensitivity / 12), rng, neighbours=neighbours
        )
        model = LogLinearModel(release, "[A][B]")
        lost += not model.fit(method="normal", warn_convergence=False).existence.exists
        result = model.fit(penalty="jeffreys")  # no warning, which would be an error
        assert result.converged
        assert result.existence.exists
        assert np.isfinite(result.params).all()
        assert (result.bse < 10).all()
        assert (result.fittedvalues > 0.02).all()
        known = result.params.index.drop("Intercept", errors="ignore")
        wald.append(np.abs(result.params[known] - truth) < 1.96 * result.bse[known])
        rare = int(result.params.index.get_loc("A[T.2]"))
        low, high = result.conf_int(cols=[rare], method="profile").iloc[0]
        assert np.isfinite([low, high]).all()
        assert low < result.params.iloc[rare] < high
        profile.append(low < truth[1] < high)
    assert lost > 4
    assert np.delete(wald, 1, axis=1).mean() > 0.9
    assert np.mean(profile) >= max(0.8, np.mean(wald, axis=0)[1])


def test_structural_zeros_and_empty_strata():
    domain = Domain({"S": list("pqr"), "B": list("uvw")}, structural_zeros=[{"S": "q", "B": "w"}])
    counts = np.array([[0, 4, 0], [3, 9, 0], [0, 0, 0]])
    rng = np.random.default_rng(1)
    release = simulate_release(counts, domain, GDP(1e7), rng, strata=["S"])
    result = jeffreys(release, "[SB]")
    assert result.converged
    expected = [[0.5 * 4 / 5.5, 4.5 * 4 / 5.5, 0.5 * 4 / 5.5], [3.5 * 12 / 13, 9.5 * 12 / 13, 0]]
    np.testing.assert_allclose(result.fittedvalues.iloc[:6], np.ravel(expected), atol=1e-5)
    np.testing.assert_array_equal(result.fittedvalues.iloc[6:], 0)
    open_ = list(result.existence.parameters)
    assert open_ == [name for name in result.params.index if "S[T.r]" in name]
    assert result.params[open_].isna().all()
    assert "public total there is 0" in result.existence.reason
    assert np.isfinite(result.bse.drop(open_)).all()
    with pytest.raises(ModelError, match="has no profile"):
        result.conf_int(method="profile")


def test_complement_and_null_directions_split_the_space():
    model = LogLinearModel(release_of("exact"), "[AB][AC][BC]")
    some = np.arange(12) < 5
    lost = null_directions(model._design, some, model.cells.strata)
    kept = complement(lost)
    both = np.hstack([lost, kept])
    np.testing.assert_allclose(both.T @ both, np.eye(len(both)), atol=1e-12)
    x = model._design.matrix().toarray()[some]
    moved = (x - x.mean(axis=0)) @ both
    np.testing.assert_allclose(moved[:, : lost.shape[1]], 0, atol=1e-9)
    assert np.linalg.matrix_rank(moved) == kept.shape[1] == 4


# -- what the results say of themselves -----------------------------------------------------------


def test_likelihood_ratios_are_refused():
    model = LogLinearModel(release_of("exact"), "[AB][C]")
    held = model.fit(penalty="jeffreys")
    for call, word in (
        (lambda: compare(held), "penalty='jeffreys'"),
        (held.drop1, "likelihood ratio"),
        (lambda: step(held), "likelihood ratio"),
    ):
        with pytest.raises(ModelError, match=word) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert held.gof()["statistic"].isna().tolist() == [True, False]
    assert held.deviance >= model.fit(warn_convergence=False).deviance


def test_the_page_and_the_file_say_that_it_is_penalised(tmp_path):
    result = jeffreys(release_of("strata"), "[AB][C]", coding="sum")
    page = str(result.summary())
    assert "ML, Jeffreys" in page
    assert "Jeffreys' penalty" in page
    assert max(map(len, page.splitlines())) <= 78
    result.save(tmp_path / "fit.json")
    again = LogLinearResults.load(tmp_path / "fit.json")
    assert (again.method, again.penalty) == ("ml", "jeffreys")
    assert str(again.summary()) == page
    pd.testing.assert_series_equal(again.bse, result.bse, check_exact=True)
    assert again.odds_ratios().equals(result.odds_ratios())
