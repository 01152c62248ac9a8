"""Facial sets and ranks against brute force on small tables."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from dpcontingency.domain import Domain
from dpcontingency.inference.design import HierarchicalDesign
from dpcontingency.inference.existence import facial_set, independent_columns
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.release.release import Release

MODELS = {
    "independence": ((2, 3), [(0,), (1,)]),
    "saturated": ((2, 3), [(0,), (1,), (0, 1)]),
    "all two-way": ((2, 2, 2), [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]),
    "conditional": ((2, 2, 3), [(0,), (1,), (2,), (0, 2), (1, 2)]),
}


def dense(design):
    return np.column_stack([design.dot(e) for e in np.eye(design.n_columns)])


def brute_force_face(x, counts):
    """Cell by cell: is there a direction that sends it to 0 and raises no other?"""
    x = np.column_stack([np.ones(len(counts)), x])
    held = counts > 0
    face = np.ones(len(counts), dtype=bool)
    for cell in np.flatnonzero(~held):
        answer = linprog(
            x[cell],  # as low as it can go
            A_ub=x[~held],
            b_ub=np.zeros((~held).sum()),
            A_eq=x[held],
            b_eq=np.zeros(held.sum()),
            bounds=[(-1, 1)] * x.shape[1],
        )
        face[cell] = answer.fun > -1e-9
    return face


@pytest.mark.parametrize("name", MODELS)
def test_facial_set_is_that_of_brute_force(name):
    shape, terms = MODELS[name]
    rng = np.random.default_rng(11)
    design = HierarchicalDesign(shape, terms)
    x = dense(design)
    np.testing.assert_array_equal(design.matrix().toarray(), x)
    p = int(np.prod(shape))
    seen = set()
    for _ in range(40):
        counts = rng.integers(0, 4, size=p) * (rng.random(p) < 0.55)
        if not counts.any():
            continue
        everywhere, one = np.ones(p, dtype=bool), np.zeros(p, dtype=np.intp)
        face = facial_set(design, counts.astype(float), everywhere, one)
        np.testing.assert_array_equal(face, brute_force_face(x, counts))
        seen.add(int(face.sum()))
        # and the rank on it
        kept = independent_columns(design, face, one)
        rank = np.linalg.matrix_rank(np.column_stack([np.ones(p), x])[face])
        assert kept.sum() == rank - 1
    assert len(seen) > 2


PAIRS = [
    ("[A][B]", (), "[AB]", ()),
    ("[A][B]", (), "[A][B]", ("score(A):score(B)",)),
    ("[AC][BC]", (), "[AB][AC][BC]", ()),
    ("[AC][BC]", (), "[ABC]", ()),
    ("[AB][AC][BC]", (), "[ABC]", ()),
    ("[AC][BC]", (), "[AC][BC]", ("score(A):score(B)",)),
    ("[A][BC]", (), "[AB][BC]", ()),
]


@pytest.mark.parametrize(
    "pair", PAIRS, ids=lambda pair: f"{pair[0]} in {pair[2]}{''.join(pair[3])}"
)
def test_df_of_a_pair_are_counted_on_the_face_of_the_smaller_model(pair):
    """And those of goodness of fit on the model's own, by cells and dense ranks."""
    rng = np.random.default_rng(14)
    fewer = 0
    for _ in range(30):
        shape = tuple(rng.integers(2, 4, size=3 if "C" in pair[0] else 2))
        counts = rng.integers(1, 9, size=shape) * (rng.random(shape) < rng.uniform(0.2, 0.8))
        if not counts.any():
            continue
        levels = {k: list(range(n)) for k, n in zip("ABC", shape, strict=False)}
        release = Release.exact(counts, Domain(levels, ordered=list(levels)))
        models = [
            LogLinearModel(release, pair[0], special_terms=pair[1]),
            LogLinearModel(release, pair[2], special_terms=pair[3]),
        ]
        x = [dense(model._design) for model in models]
        face = brute_force_face(x[0], counts.ravel())
        one = np.ones((counts.size, 1))
        ranks = [np.linalg.matrix_rank(np.hstack([one, design])[face]) for design in x]
        assert models[0].df_against(models[1]) == ranks[1] - ranks[0]
        assert models[0].df_against() == models[0].df_resid == face.sum() - ranks[0]
        fewer += ranks[1] - ranks[0] < x[1].shape[1] - x[0].shape[1]
    assert fewer > 1


def test_a_level_that_nobody_has_counts_in_no_criterion():
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 20, size=(2, 3, 2))
    fits = []
    for table, levels in ((counts, "uvw"), (np.insert(counts, 1, 0, axis=1), "uxvw")):
        domain = Domain({"A": ["a", "b"], "B": list(levels), "C": ["c", "d"]})
        models = [LogLinearModel(Release.exact(table, domain), g) for g in ("[A][BC]", "[AB][BC]")]
        fits.append([model.fit(warn_convergence=False) for model in models])
    assert [fit.model.n_params for fit in fits[0]] == [fit.model.n_params for fit in fits[1]]
    assert fits[0][1].bic - fits[0][0].bic == pytest.approx(fits[1][1].bic - fits[1][0].bic)


def test_faces_inside_strata():
    # With the second factor fixed, a stratum whose records share a level loses its other cells.
    domain = Domain({"A": ["a", "b"], "S": ["x", "y"]})
    counts = np.array([[4.0, 3], [0, 5]])
    design = HierarchicalDesign((2, 2), [(0,), (0, 1)], (1,))
    face = facial_set(design, counts.ravel(), np.ones(4, bool), np.array([0, 1, 0, 1]))
    np.testing.assert_array_equal(face, [True, True, False, True])
    assert domain.size == 4


def test_the_classical_example_of_haberman():
    # All margins of no three-way interaction are positive, and yet the estimate does not exist.
    counts = np.full((2, 2, 2), 5)
    counts[0, 0, 0] = counts[1, 1, 1] = 0
    release = Release.exact(counts, Domain({k: [0, 1] for k in "ABC"}))
    model = LogLinearModel(release, "[AB][AC][BC]")
    result = model.fit(warn_convergence=False)
    assert model.face.sum() == 6
    assert model.df_resid == 0
    assert not result.existence.exists
    assert result.deviance == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_structural_zeros_leave_the_rank_of_what_is_possible(seed):
    rng = np.random.default_rng(seed)
    levels = {"A": ["a", "b", "c"], "B": ["u", "v", "w"], "C": ["x", "y"]}
    cells = list(itertools.product(*levels.values()))
    picked = rng.choice(len(cells), size=int(rng.integers(1, 9)), replace=False)
    zeros = [dict(zip(levels, cells[i], strict=True)) for i in picked]
    domain = Domain(levels, structural_zeros=zeros)
    possible = domain.possible()
    counts = np.where(possible, rng.integers(1, 9, size=possible.shape), 0)
    model = LogLinearModel(Release.exact(counts, domain), "[AB][AC][BC]")
    terms = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    x = np.column_stack([np.ones(18), dense(HierarchicalDesign((3, 3, 2), terms))])
    rank = np.linalg.matrix_rank(x[possible.ravel()])
    assert model.df_resid == possible.sum() - rank
    assert len(model.aliased) == x.shape[1] - rank
    result = model.fit()
    assert result.converged
    np.testing.assert_allclose(  # the fit reproduces the margins of the model
        (x.T @ (result.fittedvalues.to_numpy() - counts.ravel())), 0, atol=1e-6
    )
    for name in model.aliased:
        assert name in " ".join(str(result.summary()).split())


def errors_on_the_face(model, fitted):
    """Standard errors of what the cells that stay determine, by dense algebra; nan elsewhere."""
    x = model._design.matrix().toarray()
    if model._recode is not None:
        x = x @ np.linalg.inv(model._recode)
    x, mean = x[model.face], fitted[model.face]
    values, vectors = np.linalg.eigh((x - x.mean(axis=0)).T @ (x - x.mean(axis=0)))
    basis = vectors[:, values > 1e-9]
    centred = (x - mean @ x / mean.sum()) @ basis
    inside = basis @ np.linalg.inv(centred.T @ (mean[:, None] * centred)) @ basis.T
    known = np.abs(np.eye(len(basis)) - basis @ basis.T).max(axis=1) < 1e-8
    return np.where(known, np.sqrt(np.diag(inside)), np.nan)


@pytest.mark.parametrize("coding", ["treatment", "sum"])
@pytest.mark.parametrize("generators", ["[AB][BC]", "[AB][AC][BC]", "[ABC]"])
def test_errors_of_finite_estimates_know_nothing_of_the_infinite_ones(coding, generators):
    rng = np.random.default_rng(12)
    tables = [np.array([[[0, 0], [33, 31]], [[7, 11], [0, 14]]])]
    tables += [
        rng.integers(1, 40, size=shape) * (rng.random(shape) < 0.6)
        for shape in ((2, 2, 2), (2, 3, 2), (3, 3, 2))
        for _ in range(4)
    ]
    seen = 0
    for counts in tables:
        domain = Domain({k: list(range(n)) for k, n in zip("ABC", counts.shape, strict=True)})
        model = LogLinearModel(Release.exact(counts, domain), generators, coding=coding)
        result = model.fit(warn_convergence=False)
        if result.existence.exists or not result.converged:
            continue
        expected = errors_on_the_face(model, result.fittedvalues.to_numpy())
        np.testing.assert_allclose(result.bse, expected, rtol=1e-8)
        seen += np.isfinite(result.bse).any() and not np.isfinite(result.bse).all()
    if (coding, generators) != ("sum", "[ABC]"):  # where one lost cell is in every coefficient
        assert seen > 2


@pytest.mark.parametrize("sigma", [0.0, 5.0])
@pytest.mark.parametrize("method", ["ml", "normal"])
@pytest.mark.parametrize("generators", ["[A][B]", "[AB]"])
def test_a_lost_level_leaves_the_errors_of_the_reduced_table(sigma, method, generators):
    noisy = np.array([[0.0, 0, 0], [12, 31, 7], [25, 9, 16]])
    noisy[0] = -sigma
    domains = [Domain({"A": list(levels), "B": [0, 1, 2]}) for levels in ("abc", "bc")]
    fits = []
    for table, domain in zip((noisy, noisy[1:]), domains, strict=True):
        noise = {"sigma": sigma, "neighbours": "add-remove"}
        release = (
            Release.exact(table, domain)
            if sigma == 0
            else Release.from_noisy_table(table, domain, **noise)
        )
        model = LogLinearModel(release, generators)
        fits.append(model.fit(method=method, warn_convergence=False))
    one, other = fits
    lost = [name for name in one.params.index if "A[" in name or name == "Intercept"]
    if generators == "[AB]":
        lost = list(one.params.index)
        ratios = [fit.odds_ratios("A", kind="local") for fit in fits]
        np.testing.assert_allclose(ratios[0]["se"].dropna(), ratios[1]["se"], rtol=1e-7)
    assert list(one.existence.parameters) == lost
    finite = one.bse.dropna()
    assert finite.size == one.params.size - len(lost)
    np.testing.assert_allclose(finite, other.bse[finite.index], rtol=1e-7)


def test_the_reason_is_true_of_a_pattern_of_zeros_and_of_no_records():
    """Every margin of the first table is positive; in the second no penalty finds an estimate."""
    domain = Domain({name: [0, 1] for name in "ABC"})
    release = Release.exact([[[0, 5], [4, 6]], [[7, 3], [8, 0]]], domain)
    result = LogLinearModel(release, "[AB][AC][BC]").fit(warn_convergence=False)
    assert all((release.noisy.sum(axis=k) > 0).all() for k in range(3))
    assert "or a pattern of its cells, is zero" in result.existence.reason
    assert LogLinearModel(release, "[AB][AC][BC]").fit(penalty="jeffreys").existence.exists
    empty = LogLinearModel(Release.exact(np.zeros((2, 2, 2), int), domain), "[A][B][C]")
    assert "except where a public total is 0" in empty.fit(warn_convergence=False).existence.reason
    assert not empty.fit(penalty="jeffreys", warn_convergence=False).existence.exists
