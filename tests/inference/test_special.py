"""Models with special terms: R's values, dense algebra, laws, and every result of a fit."""

import itertools
import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import dpcontingency as dpc
from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.comparison import compare, holds
from dpcontingency.inference.formula import read_formula
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.lowrank import DiagonalPlusLowRank
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.rows import CellRows
from dpcontingency.inference.selection import step
from dpcontingency.inference.terms import term_columns
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release
from dpcontingency.report.kinds import kind_of
from dpcontingency.report.plain import of_fit
from dpcontingency.report.reproduction import code_for

SCHEMES = ["total", "strata", "nothing"]
LEVELS = ["x", "y", "z"]
DOMAIN = Domain(
    {"A": LEVELS, "G": ["f", "m"], "B": LEVELS}, ordered=["A"], scores={"B": [2001, 2002, 2005]}
)
FORMULAS = [
    "A + B + G",
    "A + B + G + score(A):score(B)",
    "A + B + G*score(A):score(B)",
    "A + B + G + A:score(B)",
    "A + B + G + B:score(A)",
    "A*G + B*G + G:A:score(B)",
    "A + B + G + Diag(A, B)",
    "A + B + G*Diag(A, B)",
    "G + Symm(A, B)",
    "G*Symm(A, B)",
    "A + B + G + Symm(A, B)",
    "score(A) + score(B)",
    "score(A):score(B) + G",
    "Symm(A, B):score(A) + G",
    "A + B + G + Diag(A, B) + score(A):score(B)",
    "A*B + G + score(A):G",
]
# Each formula under one scheme, and each scheme with formulas of every kind.
EVEN, ODD = (list(zip(FORMULAS[k::2], SCHEMES * 3, strict=False)) for k in (0, 1))


def quiet(formula, release):
    return LogLinearModel.from_formula(formula, release, left_out="uniform").fit(
        warn_convergence=False
    )


def noisy_release(scheme, domain=DOMAIN, sigma=4.0, seed=8, records=900):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(domain.size, 3.0))
    counts = rng.multinomial(records, p).reshape(domain.shape)
    if scheme == "nothing":
        return simulate_release(counts, domain, GDP(1 / sigma), rng, neighbours="add-remove")
    strata = ["G"] if scheme == "strata" else []
    return simulate_release(counts, domain, GDP(np.sqrt(2) / sigma), rng, strata=strata)


def third_party(noisy, domain, release):
    """The noisy cells of a release over another domain."""
    sigma = float(np.sqrt(release.noise.variances.flat[0]))
    return Release.from_noisy_table(noisy, domain, sigma=sigma, n_total=release.n_total)


def with_meaning(domain, **more):
    return Domain(dict(domain.levels), **more)


def dense(model):
    """The columns as they were asked for: hierarchical ones and raw special ones."""
    unit = np.eye(model._design.n_columns)
    inner = np.column_stack([model._design.dot(e) for e in unit] or [np.zeros((18, 0))])
    return inner if model._recode is None else inner @ np.linalg.inv(model._recode)


def free(domain, scheme):
    """Indicators of what public totals fix."""
    if scheme == "nothing":
        return np.zeros((domain.size, 0))
    if scheme == "total":
        return np.ones((domain.size, 1))
    levels = np.indices(domain.shape)[domain.axis("G")].ravel()
    return np.eye(2)[levels]


# -- no noise: the textbooks --------------------------------------------------------------------


def test_every_reference_fit_of_r(data_folder, load_table):
    folder = data_folder.parent / "tests/inference/reference"
    rows = pd.read_csv(folder / "special_terms.csv", keep_default_na=False)
    assert len(rows) == 20
    for row in rows.itertuples():
        counts, domain = load_table(row.data)
        if row.data in ("hauser_mobility", "visual_acuity"):
            first, second = domain.names[:2]
            order = [domain.index(second, level) for level in domain.levels[first]]
            counts = np.take(counts, order, axis=1)
            levels = dict(domain.levels) | {second: domain.levels[first]}
            domain = Domain(levels, ordered=[first, second])
        elif row.data == "job_satisfaction":
            scores = {"income": [7.5, 20, 32.5, 60]}
            domain = with_meaning(domain, scores=scores, ordered=["satisfaction"])
        else:
            domain = with_meaning(domain, ordered=domain.names)
        result = quiet(row.formula, Release.exact(counts, domain))
        assert result.converged
        assert result.df_resid == row.df, row.formula
        assert result.deviance == pytest.approx(row.G2, rel=1e-7)
        assert result.pearson_chi2 == pytest.approx(row.X2, rel=1e-6)
        if row.coefficient:
            assert result.params[row.coefficient] == pytest.approx(float(row.estimate), rel=1e-6)
            assert result.bse[row.coefficient] == pytest.approx(float(row.se), rel=1e-6)


@pytest.mark.parametrize("formula", FORMULAS)
def test_coefficients_and_errors_of_a_poisson_glm(formula):
    rng = np.random.default_rng(3)
    counts = rng.poisson(40, DOMAIN.shape) + 1.0
    release = Release.from_noisy_table(counts, DOMAIN, sigma=1e-4, neighbours="add-remove")
    result = quiet(formula, release)
    # A Poisson GLM on scores with their middle taken out; the rest is a change of coefficients.
    x = dense(result.model)
    middle = x.mean(axis=0) * (np.arange(x.shape[1]) > 0)
    glm = sm.GLM(counts.ravel(), x - middle, family=sm.families.Poisson())
    glm = glm.fit(tol=1e-13, tol_criterion="params", maxiter=200)
    np.testing.assert_allclose(result.fittedvalues, glm.fittedvalues, rtol=1e-5)
    assert result.df_resid == glm.df_resid
    np.testing.assert_allclose(result.params[1:], glm.params[1:], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(result.bse[1:], glm.bse[1:], rtol=1e-4)
    with np.errstate(divide="ignore", invalid="ignore"):
        studentised = glm.get_influence().resid_studentized
    followed = result.resid_adjusted.isna().to_numpy()  # cells with a parameter of their own
    assert (np.abs(glm.get_hat_matrix_diag() - 1) < 1e-9).tolist() == followed.tolist()
    np.testing.assert_allclose(
        result.resid_adjusted[~followed], studentised[~followed], rtol=1e-4, atol=1e-3
    )


def test_symmetry_of_a_two_by_two_table_is_mcnemar():
    domain = Domain({"before": ["yes", "no"], "after": ["yes", "no"]})
    result = quiet("Symm(before, after)", Release.exact([[794, 86], [150, 570]], domain))
    assert result.df_resid == 1
    assert result.pearson_chi2 == pytest.approx((86 - 150) ** 2 / (86 + 150))
    g2 = 2 * (86 * np.log(86 / 118) + 150 * np.log(150 / 118))
    assert result.deviance == pytest.approx(g2)
    assert quiet("before + after + Symm(before, after)", result.model.release).df_resid == 0


def test_bowker():
    # CASES C31.
    domain = Domain({"A": LEVELS, "B": LEVELS})
    release = Release.exact([[31, 9, 4], [5, 22, 11], [8, 6, 27]], domain)
    result = quiet("Symm(A, B)", release)
    assert (result.df_resid, round(result.pearson_chi2, 6)) == (3, 3.946779)


def test_quasi_independence_is_independence_off_a_diagonal_of_structural_zeros():
    rng = np.random.default_rng(2)
    counts = rng.poisson(30, (4, 4))
    levels = {"A": list("wxyz"), "B": list("wxyz")}
    zeros = [{"A": x, "B": x} for x in "wxyz"]
    one = quiet("A + B + Diag(A, B)", Release.exact(counts, Domain(levels)))
    empty = counts - np.diag(np.diag(counts))
    other = quiet("A + B", Release.exact(empty, Domain(levels, structural_zeros=zeros)))
    assert one.df_resid == other.df_resid == 5
    assert one.deviance == pytest.approx(other.deviance)
    both = quiet("A + B + Diag(A, B)", Release.exact(empty, other.model.release.domain))
    assert len(both.model.aliased) == 4
    assert both.deviance == pytest.approx(other.deviance)
    assert "Diag(A, B)[w]" in str(both.summary())


# -- the design ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("formula", "scheme"), EVEN + ODD)
def test_rank_and_products_equal_dense_algebra(formula, scheme):
    release = noisy_release(scheme)
    model = LogLinearModel.from_formula(formula, release, left_out="uniform")
    design = model._design
    rng = np.random.default_rng(5)
    x, beta = design.matrix().toarray(), rng.normal(size=design.n_columns)
    w = rng.normal(size=DOMAIN.size)
    np.testing.assert_allclose(design.dot(beta), x @ beta, atol=1e-12)
    np.testing.assert_allclose(design.tdot(w), x.T @ w, atol=1e-12)
    np.testing.assert_allclose(design.gram(w), x.T @ (w[:, None] * x), atol=1e-12)
    groups = 2 if scheme == "strata" else 1
    labels = model._strata
    cores = rng.normal(size=(groups, 2, 2))
    curvature = DiagonalPlusLowRank(
        w, rng.normal(size=(2, w.size)), cores + cores.transpose(0, 2, 1), labels
    )
    np.testing.assert_allclose(design.compress(curvature), x.T @ curvature.dense() @ x, atol=1e-11)
    # All columns, independent or not, written down from the formula.
    margins, special = read_formula(formula, DOMAIN.names)
    plain = LogLinearModel(release, margins, left_out="uniform")._design.matrix().toarray()
    raw = [_expanded(term_columns(term, DOMAIN, {})) for term in special]
    middle = {"A": (2.0, 1.0), "B": (2003.0, 2.0)} if "A + B" in formula or "A*" in formula else {}
    near = [_expanded(term_columns(term, DOMAIN, middle)) for term in special]
    fixed = free(DOMAIN, scheme)
    every = np.hstack([fixed, plain, *near])
    rank = np.linalg.matrix_rank(every, tol=1e-7 * np.abs(every).max() * 1e-2)
    assert fixed.shape[1] + design.n_columns == rank
    assert np.linalg.matrix_rank(np.hstack([fixed, x])) == rank
    # And those that are kept are the ones that the names of the coefficients say.
    names = [n for term in special for n in term_columns(term, DOMAIN, {}).names]
    at = dict(zip(names, np.hstack([np.zeros((18, 0)), *raw]).T, strict=True))
    asked = dense(model)
    residual = np.column_stack(
        [asked[:, j] - at[n] for j, n in enumerate(model.exog_names) if n in at]
        or [np.zeros((18, 1))]
    )
    if fixed.size:
        residual = residual - fixed @ np.linalg.lstsq(fixed, residual)[0]
    assert np.abs(residual).max() < 1e-5


def _expanded(made):
    levels = np.unravel_index(np.arange(DOMAIN.size), DOMAIN.shape)
    shape = tuple(DOMAIN.shape[k] for k in made.axes)
    return made.matrix.toarray()[np.ravel_multi_index([levels[k] for k in made.axes], shape)]


@pytest.mark.parametrize(("formula", "scheme"), ODD)
def test_variances_of_cells_equal_dense_algebra(formula, scheme):
    model = LogLinearModel.from_formula(formula, noisy_release(scheme), left_out="uniform")
    design = model._design
    rng = np.random.default_rng(6)
    x = design.matrix().toarray()
    rows = CellRows(DOMAIN.shape, design.codes, design.extra)
    np.testing.assert_allclose(rows.of([5, 0, 17]), x[[5, 0, 17]])
    root = rng.normal(size=(design.n_columns, design.n_columns))
    covariance, means = root @ root.T, rng.uniform(1, 5, DOMAIN.size)
    np.testing.assert_allclose(
        rows.quadratic(covariance), np.einsum("ij,jk,ik->i", x, covariance, x), atol=1e-10
    )
    levels = np.indices(DOMAIN.shape).reshape(3, -1).T

    def centred(z, axes):
        out = z.copy()
        for group in np.unique(levels[:, axes], axis=0):
            inside = (levels[:, axes] == group).all(axis=1)
            out[inside] -= means[inside] @ z[inside] / means[inside].sum()
        return out

    for strata, within in itertools.product([None, (), (1,)], [None, (), (0,), (0, 1)]):
        gradient = x if strata is None else centred(x, list(strata))
        gradient = gradient if within is None else centred(gradient, list(within))
        expected = np.einsum("ij,jk,ik->i", gradient, covariance, gradient)
        np.testing.assert_allclose(
            rows.log_variances(covariance, means, strata, within), expected, atol=1e-9
        )


def test_many_cells_and_no_dense_design():
    sizes = {"A": 40, "B": 40, "C": 8, "D": 8}
    domain = Domain({k: list(range(n)) for k, n in sizes.items()}, ordered=["A", "B", "C"])
    rng = np.random.default_rng(1)
    counts = rng.poisson(30.0, domain.shape)
    release = simulate_release(counts, domain, GDP(0.5), rng)
    model = LogLinearModel.from_formula("A + B + C*D + score(A):score(B) + Diag(A, B)", release)
    assert domain.size == 102_400
    tracemalloc.start()
    result = model.fit()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.converged
    assert len(result.params) == 182
    assert peak < domain.size * len(result.params) * 8 / 3  # a third of X
    assert abs(result.params["score(A):score(B)"]) < 5 * result.bse["score(A):score(B)"]
    assert np.isfinite(result.resid_adjusted).all()
    assert np.isfinite(result.get_prediction().se).all()


# -- noise --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("formula", FORMULAS[1::3])
def test_score_and_hessian_are_derivatives(formula, scheme):
    release = noisy_release(scheme)
    result = quiet(formula, release)
    model = result.model
    rng = np.random.default_rng(0)
    unit = np.linalg.cholesky(result.cov_params())
    at = np.asarray(result.params) + 0.3 * unit @ rng.normal(size=len(unit))

    def along(direction, t):
        return model.loglike(at + t * direction)

    h = 1e-2
    for _ in range(3):
        direction = unit @ rng.normal(size=len(unit)) / 10
        high, mid, low = (along(direction, t) for t in (h, 0.0, -h))
        slope = (high - low) / (2 * h)
        assert model.score(at) @ direction == pytest.approx(slope, rel=2e-3, abs=1e-5)
        bend = (high - 2 * mid + low) / h**2
        assert direction @ model.hessian(at) @ direction == pytest.approx(bend, rel=2e-2, abs=1e-4)
    np.testing.assert_allclose(unit.T @ model.score(result.params), 0, atol=1e-6)
    assert result.converged


@pytest.mark.parametrize("formula", [*FORMULAS[1:6:2], FORMULAS[11], FORMULAS[14]])
def test_origin_and_unit_of_scores_change_coefficients_only(formula):
    release = noisy_release("total")
    scores = {"A": [0.001, 0.002, 0.003], "B": [-4, -2, 4]}
    base, again = (
        quiet(formula, third_party(release.noisy, domain, release))
        for domain in (DOMAIN, Domain(dict(DOMAIN.levels), scores=scores))
    )
    assert again.llf == pytest.approx(base.llf, abs=1e-8)
    assert again.df_resid == base.df_resid
    np.testing.assert_allclose(again.fittedvalues, base.fittedvalues, rtol=1e-7)
    np.testing.assert_allclose(again.resid_adjusted, base.resid_adjusted, rtol=1e-5)
    for name in base.params.index:
        if "score" in name:
            factor = 0.001 ** ("score(A)" in name) * 2.0 ** ("score(B)" in name)
            assert again.params[name] * factor == pytest.approx(base.params[name], rel=1e-5)
            assert again.bse[name] * factor == pytest.approx(base.bse[name], rel=1e-5)
            assert again.privacy_share[name] == pytest.approx(base.privacy_share[name], rel=1e-4)
            ends = [np.array(fit.conf_int(cols=[list(fit.params.index).index(name)],
                                          method="profile")) for fit in (again, base)]  # fmt: skip
            np.testing.assert_allclose(ends[0] * factor, ends[1], rtol=1e-4)


@pytest.mark.parametrize("formula", FORMULAS[1::2])
def test_relabelling_and_transposing_change_nothing(formula):
    release = noisy_release("total")
    order = [2, 0, 1]
    names = ("B", "A", "G")
    levels = {"B": [LEVELS[k] for k in order], "A": [LEVELS[k] for k in order], "G": ["m", "f"]}
    scores = {"A": [float(k + 1) for k in order], "B": [[2001, 2002, 2005][k] for k in order]}
    table = release.noisy.transpose([DOMAIN.axis(n) for n in names])
    table = table[np.ix_(order, order, [1, 0])]
    relabelled = third_party(table, Domain(levels, scores=scores), release)
    plain = third_party(release.noisy, DOMAIN, release)
    one, other = quiet(formula, plain), quiet(formula, relabelled)
    assert other.llf == pytest.approx(one.llf, abs=1e-7)
    assert other.df_resid == one.df_resid
    back = other.fittedvalues.reorder_levels(DOMAIN.names).reindex(one.fittedvalues.index)
    np.testing.assert_allclose(back, one.fittedvalues, rtol=1e-5)
    if "score(A):score(B)" in one.params and "G*" not in formula:
        for values, others in ((one.params, other.params), (one.bse, other.bse)):
            again = others["score(B):score(A)"]
            assert again == pytest.approx(values["score(A):score(B)"], rel=1e-5)


def test_strata_fix_what_they_hold():
    rng = np.random.default_rng(4)
    counts = rng.poisson(40, DOMAIN.shape)
    formula = "A + B + G + score(A):score(B) + score(A):G"
    release = simulate_release(counts, DOMAIN, GDP(1e4), rng, strata=["A", "G"])
    model = LogLinearModel.from_formula(formula, release, left_out="uniform")
    assert [t.text for t in model.idle] == ["G:score(A)"]
    inside = model.fit()
    assert inside.generators == (("A", "G"), ("B",))
    name = "score(A):score(B)"
    # The margin of the strata is in the model, so the association with it is all that is left.
    assert list(inside.params.index) == ["B[T.y]", "B[T.z]", name]
    full = quiet("A*G + B + score(A):score(B)", Release.exact(counts, DOMAIN))
    assert inside.params[name] == pytest.approx(full.params[name], rel=1e-3)
    assert inside.bse[name] == pytest.approx(full.bse[name], rel=1e-3)


# -- results ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("formula", "scheme"), EVEN)
def test_everything_on_the_results_works(tmp_path, formula, scheme):
    result = quiet(formula, noisy_release(scheme))
    assert result.converged
    page = str(result.summary()) + str(result.summary2())
    for name in (*result.params.index, *result.model.aliased):
        assert name in page
    assert max(map(len, str(result.summary()).splitlines()[:12])) <= 82
    terms = result.wald_test_terms()
    assert terms.table["df_constraint"].sum() == len(result.params)
    name = result.params.index[-1]
    test = result.t_test(f"{name} = 0")
    assert float(test.sd.squeeze()) == pytest.approx(result.bse[name], rel=1e-8)
    assert result.get_prediction("conditional", "G").summary_frame().notna().all().all()
    assert np.isfinite(result.resid_deviance).all()
    interval = result.conf_int(cols=[len(result.params) - 1], method="profile").to_numpy()
    assert interval[0, 0] < result.params.iloc[-1] < interval[0, 1]
    assert (result.gof()["df"] == result.df_resid).all()
    assert len(result.drop1().table) >= 2
    assert result.odds_ratios()["se"].notna().all()
    assert of_fit(result)["special_terms"] == list(result.special_terms)
    path = tmp_path / "fit.json"
    result.save(path)
    loaded = LogLinearResults.load(path)
    assert loaded.model.special_terms == result.model.special_terms
    assert loaded.generating_class == result.generating_class
    pd.testing.assert_series_equal(loaded.params, result.params)
    pd.testing.assert_frame_equal(loaded.cov_params(), result.cov_params())
    assert loaded.pearson_chi2 == result.pearson_chi2
    code = code_for(kind_of(result.model.release), [result], []).splitlines()
    scope = {"dpc": dpc, "release": result.model.release}
    exec(next(line for line in code if line.startswith("model1")), scope)
    pd.testing.assert_series_equal(scope["model1"].params, result.params)
    again = LogLinearModel.from_formula(result.model.formula, result.model.release)
    assert again.exog_names == result.model.exog_names


def test_a_file_without_special_terms_loads(tmp_path):
    result = quiet("A + B", noisy_release("total"))
    path = tmp_path / "fit.json"
    result.save(path)
    assert "special_terms" not in json.loads(path.read_text())
    assert LogLinearResults.load(path).model.special_terms == ()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_odds_ratios_of_linear_by_linear_association(scheme):
    result = quiet("A + B + G + score(A):score(B)", noisy_release(scheme))
    slope = result.params["score(A):score(B)"]
    error = result.bse["score(A):score(B)"]
    table = result.odds_ratios("A", "B")
    steps = np.outer([-1, -2], [-1, -4]).ravel()
    np.testing.assert_allclose(table["log_or"], steps * slope, rtol=1e-8)
    np.testing.assert_allclose(table["se"], np.abs(steps) * error, rtol=1e-6)
    local = result.odds_ratios("A", "B", "local")
    np.testing.assert_allclose(local["log_or"], np.outer([1, 1], [1, 3]).ravel() * slope)
    with pytest.raises(ModelError, match="no association"):
        result.odds_ratios("A", "G")
    by_group = quiet("A + B + G*score(A):score(B)", result.model.release)
    assert set(by_group.odds_ratios("A", "B").index.get_level_values("at")) == {"G = f", "G = m"}


def test_a_profile_interval_is_the_set_that_the_likelihood_ratio_keeps():
    result = quiet("A + B + G + score(A):score(B)", noisy_release("total"))
    place = list(result.params.index).index("score(A):score(B)")
    ends = result.conf_int(cols=[place], method="profile").to_numpy()[0]
    model = result.model
    for end in ends:
        combination = model._recode[place]
        profile = result._profile(combination)
        fall = 2 * (result.llf - profile.loglike(end))
        assert fall == pytest.approx(stats.chi2.isf(0.05, 1), rel=1e-5)


# -- comparing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nested_is_what_dense_rank_says(scheme):
    release = noisy_release(scheme)
    models = [
        LogLinearModel.from_formula(f, release, left_out="uniform")
        for f in [*FORMULAS, "A*B*G", "1"]
    ]
    columns = [np.hstack([free(DOMAIN, scheme), m._design.matrix().toarray()]) for m in models]
    for (one, x), (other, z) in itertools.product(zip(models, columns, strict=True), repeat=2):
        both = np.linalg.matrix_rank(np.hstack([x, z]), tol=1e-8)
        assert holds(one, other) == (both == x.shape[1]), (one.formula, other.formula)


def test_comparison_of_square_table_models(load_table):
    counts, domain = load_table("visual_acuity")
    release = Release.exact(counts, domain).margin("right", "left")
    formulas = ["Symm(right, left)", "right + left + Symm(right, left)"]
    symmetry, quasi = (quiet(f, release) for f in formulas)
    table = compare(quasi, symmetry).table
    assert list(table.index) == [symmetry.generating_class, quasi.generating_class, "[right left]"]
    # Marginal homogeneity, given quasi-symmetry.
    assert table["df_diff"].iloc[1] == 3
    assert table["lr_diff"].iloc[1] == pytest.approx(symmetry.deviance - quasi.deviance)
    independent = quiet("right + left", release)
    with pytest.raises(ModelError, match="not nested"):
        compare(independent, symmetry)
    row_effects = quiet("right + left + Diag(right, left)", release)
    assert compare(independent, row_effects, quasi).table["df"].tolist() == [9, 5, 3, 0]
    saturated = quiet("right*left", release)
    with pytest.raises(ModelError, match="is the same model as"):
        compare(saturated, quiet("right*left + Diag(right, left)", release))
    with pytest.raises(ModelError, match="is given twice"):
        compare(quasi, quiet(formulas[1], release))


def test_special_terms_are_dropped_as_units():
    release = noisy_release("total")
    fit = quiet("A*G + B + G:Diag(A, B) + score(A):score(B)", release)
    table = fit.drop1().table
    assert list(table.index) == ["(none)", "G:Diag(A, B)", "score(A):score(B)"]
    assert list(table["generating_class"].iloc[1:]) == [
        "[A G][B] + Diag(A, B) + score(A):score(B)", "[A G][B] + G:Diag(A, B)",
    ]  # fmt: skip
    assert list(table["df"].iloc[1:]) == [3, 1]
    smaller = quiet("A*G + B + G:Diag(A, B)", release)
    assert table["lr"].iloc[2] == pytest.approx(2 * (fit.llf - smaller.llf), abs=1e-8)
    # What is left of row effects is in the main effects, and a margin no term needs can go.
    rows = quiet("A*G + B + B:score(A)", release).drop1().table
    assert list(rows["generating_class"].iloc[1:]) == ["[A][G][B] + B:score(A)", "[A G][B]"]


def test_a_search_drops_and_adds_special_terms(load_table):
    counts, domain = load_table("mental_impairment")
    domain = with_meaning(domain, ordered=domain.names)
    release = Release.exact(counts, domain)
    found = step(quiet("ses + mental + score(ses):score(mental)", release))
    assert list(found.path["action"]) == ["start"]
    assert found.results.generating_class == "[ses][mental] + score(ses):score(mental)"
    many = quiet("ses + mental + ses:score(mental) + mental:score(ses)", release)
    found = step(many)
    assert found.results.df_resid > many.df_resid
    assert set(found.path["action"][1:]) <= {
        "drop ses:score(mental)", "drop mental:score(ses)", "add ses:score(mental)",
        "add mental:score(ses)",
    }  # fmt: skip
    # An added interaction swallows the special term.
    release = noisy_release("total", sigma=0.5, records=100_000)
    found = step(quiet("A + B + G + score(A):score(B)", release), direction="forward")
    assert found.results.model.special_terms == ()
    assert ("A", "B") in found.results.generators or found.results.df_resid == 0


# -- existence ----------------------------------------------------------------------------------


def test_an_empty_pair_has_no_finite_parameter():
    domain = Domain({"A": LEVELS, "B": LEVELS})
    release = Release.exact([[31, 0, 4], [0, 22, 11], [8, 6, 27]], domain)
    result = quiet("Symm(A, B)", release)
    assert result.df_resid == 2
    assert result.existence.parameters == ("Symm(A, B)[x, y]",)
    assert result.params["Symm(A, B)[x, y]"] == -np.inf
    others = quiet("Symm(A, B)", Release.exact([[31, 9, 4], [9, 22, 11], [8, 6, 27]], domain))
    assert result.deviance == pytest.approx(others.deviance)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_perfect_association_sends_the_slope_to_infinity(unit):
    scores = {n: [100 * unit, 101 * unit, 102 * unit] for n in "AB"}
    domain = Domain({"A": LEVELS, "B": LEVELS}, scores=scores)
    release = Release.exact([[9, 0, 0], [0, 7, 0], [0, 0, 5]], domain)
    result = quiet("A + B + score(A):score(B)", release)
    name = "score(A):score(B)"
    assert result.params[name] == np.inf
    assert result.df_resid == 0
    assert result.deviance == pytest.approx(0, abs=1e-6)
    lower, upper = result.conf_int(cols=[4], method="profile").to_numpy()[0]
    assert upper == np.inf
    assert 0 < lower * unit**2 < 10


@pytest.mark.parametrize(
    ("shape", "formula", "df", "aliased"),
    [
        ((1, 3), "A + B + score(A):score(B)", 0, 1),  # one level: no score to speak of
        ((3, 3), "A + B + Diag(A, B) + score(A):score(B)", 1, 1),  # 3 x 3: that is quasi-symmetry
        ((3, 3), "A + B + Symm(A, B)", 1, 3),
        ((2, 2), "A + B + Diag(A, B)", 0, 1),
        ((2, 2), "Diag(A, B)", 1, 0),
        ((1, 1), "Symm(A, B)", 0, 1),
        ((3, 3, 3), "Symm(A, B, C)", 27 - 10, 1),
        ((3, 3, 3), "A + B + C + Symm(A, B, C)", 27 - 10 - 4, 3),
        ((3, 3, 3), "Diag(A, B, C) + A + B + C", 27 - 7 - 3, 0),
    ],
)
@pytest.mark.parametrize("empty", [False, True])
def test_small_and_empty_tables(shape, formula, df, aliased, empty):
    levels = {name: list(range(n)) for name, n in zip("ABC", shape, strict=False)}
    domain = Domain(levels, ordered=list(levels))
    counts = np.zeros(shape) if empty else 3.0 + np.arange(np.prod(shape)).reshape(shape) % 5
    result = quiet(formula, Release.exact(counts, domain))
    assert result.converged
    assert result.df_resid == (0 if empty else df)
    assert len(result.model.aliased) == aliased
    assert len(result.drop1().table) >= 2
    assert np.isfinite(result.llf)


# -- what is refused ----------------------------------------------------------------------------


def test_what_a_model_refuses():
    release = noisy_release("total")
    with pytest.raises(ModelError, match="treatment"):
        LogLinearModel.from_formula("A + B + Diag(A, B)", release, coding="sum")
    with pytest.raises(ModelError, match=r"score\(G\) needs an ordered factor"):
        LogLinearModel.from_formula("A + score(G)", release)
    with pytest.raises(ModelError, match="the same ones in the same order"):
        LogLinearModel.from_formula("A + Diag(A, G)", release)
    with pytest.raises(ModelError, match="is no special term"):
        LogLinearModel(release, "[A][B]", special_terms=["A:B"])


def test_the_two_ways_to_write_a_model():
    release = noisy_release("total")
    model = LogLinearModel(release, "[A][B]", special_terms=["score(B):score(A)"])
    assert model.formula == "A + B + score(A):score(B)"
    assert model.generating_class == "[A][B] + score(A):score(B)"
    assert model.special_terms == ("score(A):score(B)",)
    assert LogLinearModel.from_formula("1", release).formula == "1"


@pytest.mark.parametrize("options", [{"method": "normal"}, {"penalty": "jeffreys"}])
@pytest.mark.parametrize("formula", ["A + B + score(A):score(B)", "A + B + Diag(A, B)"])
@pytest.mark.parametrize("scheme", [{}, {"strata": ("A",)}, {"neighbours": "add-remove"}])
def test_other_estimators_fit_special_terms_too(options, formula, scheme):
    """With many records all estimators are near one another, whatever the noise."""
    rng = np.random.default_rng(3)
    domain = Domain({"A": list("xyz"), "B": list("xyz")}, ordered=("A", "B"))
    counts = rng.poisson(20_000 * rng.uniform(0.5, 1.5, (3, 3)))
    model = LogLinearModel.from_formula(
        formula, simulate_release(counts, domain, GDP(0.5), rng, **scheme)
    )
    ml, other = model.fit(), model.fit(**options)
    assert other.converged
    assert (other.params - ml.params).abs().max() < 0.2 * ml.bse.max()
    assert other.bse.to_numpy() == pytest.approx(ml.bse.to_numpy(), rel=0.02)


@pytest.mark.parametrize("unit", [1e25, -3e-20, 1e48])
def test_the_unit_of_scores_changes_nothing_but_the_unit_of_coefficients(unit):
    counts = np.array([[30, 10], [22, 18], [12, 28]])
    fits = []
    for size in (1.0, unit):
        scores = {"A": [size, 2 * size, -size]}
        domain = Domain({"A": list("abc"), "B": list("uv")}, scores=scores, ordered=["B"])
        fits.append(quiet("A + B + score(A):score(B)", Release.exact(counts, domain)))
    one, other = (np.array([fit.params.iloc[-1], fit.bse.iloc[-1]]) for fit in fits)
    np.testing.assert_allclose(other * [unit, abs(unit)], one, rtol=1e-9)
    assert fits[1].deviance == pytest.approx(fits[0].deviance, rel=1e-9)


@pytest.mark.parametrize("unit", [1e-160, 1e300])
def test_scores_whose_squares_are_no_floats_are_refused(unit):
    scores = {"A": [unit, 2 * unit, -unit]}
    domain = Domain({"A": list("abc"), "B": list("uv")}, scores=scores, ordered=["B"])
    with pytest.raises(ModelError, match="another unit"):
        LogLinearModel.from_formula(
            "A + B + score(A):score(B)", Release.exact(np.ones((3, 2), int), domain)
        )
