"""One rule for the parameters that a test counts: tables, criteria, the limit of little noise."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from dpcontingency.domain import Domain
from dpcontingency.inference.association_tests import cmh_test, trend_test
from dpcontingency.inference.comparison import compare
from dpcontingency.inference.families import all_kway, mutual, saturated
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.order_tests import kway_tests, partial_association
from dpcontingency.inference.selection import step
from dpcontingency.inference.square_tests import marginal_homogeneity_test
from dpcontingency.release.release import Release

CHAIN = ("[A][B][C]", "[AB][C]", "[AB][BC]", "[AB][AC][BC]")


def quiet(release, generators):
    return LogLinearModel(release, generators).fit(warn_convergence=False)


def sparse(seed):
    """A random table with many zeros, exactly and with next to no noise."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 4, size=3))
    counts = rng.integers(1, 12, size=shape) * (rng.random(shape) < rng.uniform(0.25, 0.7))
    domain = Domain(
        {k: list(range(n)) for k, n in zip("ABC", shape, strict=True)}, ordered=["A", "B", "C"]
    )
    noise = 1e-3 * rng.normal(size=shape)
    noisy = counts + noise - noise.mean()
    total = int(counts.sum())
    return (
        Release.exact(counts, domain),
        Release.from_noisy_table(noisy, domain, sigma=1e-3, n_total=total),
    )


@pytest.mark.parametrize("seed", range(8))
def test_little_noise_comes_to_the_test_without(seed):
    """The statistic and its df, for the tests with a null of their own and for tables of tests."""
    exact, noisy = sparse(seed)
    for statistic in ("lr", "score"):
        options = {"statistic": statistic, "pvalue": "asymptotic"}
        pairs = [
            [test(release, "A", "B", given="C", **options) for release in (noisy, exact)]
            for test in (cmh_test, trend_test, independence_test)
        ]
        pairs.append([one.homogeneity for one in pairs[0]])
        for near, limit in pairs:
            assert near.df == limit.df
            assert near.reason == limit.reason
            assert near.statistic == pytest.approx(limit.statistic, abs=2e-3, rel=2e-3, nan_ok=True)
    tables = [
        (quiet(noisy, CHAIN[-1]).drop1().table, quiet(exact, CHAIN[-1]).drop1().table),
        [compare(*(quiet(release, g) for g in CHAIN)).table for release in (noisy, exact)],
    ]
    for near, limit in tables:
        for criterion in ("aic", "bic"):  # of which only differences mean anything
            for table in (near, limit):
                table[criterion] -= table[criterion].iloc[0]
        pd.testing.assert_frame_equal(near, limit, check_exact=False, atol=5e-3, rtol=5e-3)


@pytest.mark.parametrize("statistic", ["score", "wald"])
def test_a_level_that_nobody_has_in_either_margin_drops_out(statistic):
    counts = np.array([[31, 9, 0, 4], [5, 22, 0, 11], [0, 0, 0, 0], [8, 6, 0, 27]])
    domain = Domain({"A": list("abcd"), "B": list("abcd")})
    noise = 1e-3 * np.random.default_rng(2).normal(size=counts.shape)
    near = Release.from_noisy_table(
        counts + noise - noise.mean(), domain, sigma=1e-3, n_total=counts.sum()
    )
    one, other = (
        marginal_homogeneity_test(release, "A", "B", statistic=statistic)
        for release in (near, Release.exact(counts, domain))
    )
    assert one.df == other.df == 2
    assert one.statistic == pytest.approx(other.statistic, rel=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_the_score_statistic_lives_on_the_face_of_the_null(seed):
    """Rao's statistic by dense algebra on the cells that the null leaves, and the ranks there."""
    release, _ = sparse(seed)
    pairs = [
        ("[AC][BC]", LogLinearModel(release, "[AB][AC][BC]")),
        ("[AC][BC]", LogLinearModel(release, "[AC][BC]", special_terms=["score(A):score(B)"])),
        ("[AB][AC][BC]", LogLinearModel(release, "[ABC]")),
    ]
    for generators, larger in pairs:
        null = quiet(release, generators)
        inside = null.model.face
        mean = null.fittedvalues.to_numpy()[inside]
        x, narrow = (
            np.column_stack([m._design.matrix().toarray(), np.ones(inside.size)])[inside]
            for m in (larger, null.model)
        )
        root = np.sqrt(mean)[:, None]
        u = x.T @ (release.noisy.ravel()[inside] - mean)
        rao = u @ np.linalg.pinv((root * x).T @ (root * x), rcond=1e-10, hermitian=True) @ u
        score = null.model.cells.nested_score_statistic(
            null.fittedvalues.to_numpy(), larger._design
        )
        assert score == pytest.approx(rao, rel=1e-6, abs=1e-6)
        ranks = [np.linalg.matrix_rank(root * design) for design in (x, narrow)]
        assert null.model.df_against(larger) == ranks[0] - ranks[1]


@pytest.mark.parametrize("seed", range(8))
def test_criteria_count_the_parameters_that_tests_count(seed):
    """AIC moves by the likelihood ratio less 2 df, BIC by that less log n df: in every table."""
    release, _ = sparse(seed)
    prices = {"aic": 2.0, "bic": np.log(release.n_total)}
    fits = [quiet(release, g) for g in CHAIN]
    chain, dropped = compare(*fits).table, fits[-1].drop1().table
    assert dropped["aic"].iloc[0] == fits[-1].aic
    for name, price in prices.items():
        falls = chain["lr_diff"] - price * chain["df_diff"]
        np.testing.assert_allclose(-chain[name].diff().iloc[1:], falls.iloc[1:], atol=1e-5)
        rises = (dropped["lr"] - price * dropped["df"]).iloc[1:]
        np.testing.assert_allclose(dropped[name].iloc[1:] - dropped[name].iloc[0], rises, atol=1e-5)
        path = step(fits[0], criterion=name).path
        models = [quiet(release, g) for g in path["generating_class"]]
        for i, (before, after) in enumerate(pairwise(models)):
            pair = compare(before, after).table.iloc[1]
            change = pair["lr_diff"] - price * pair["df_diff"]
            grown = path["action"].iloc[i + 1].startswith("add")
            fall = path["criterion"].iloc[i] - path["criterion"].iloc[i + 1]
            assert fall == pytest.approx(change if grown else -change, abs=1e-5)


def test_titanic(load_table):
    # Nobody is a child of the crew. Without [Class Age] that is no zero of the model.
    counts, domain = load_table("titanic")
    release = Release.exact(counts, domain)
    whole = quiet(release, all_kway(domain, 2))
    assert whole.drop1().table["df"].tolist() == [0, 3, 3, 3, 1, 1, 1]
    orders = kway_tests(release).table
    assert orders["df_diff"].tolist() == [6, 12, 8, 0]
    assert orders["df"].tolist() == [31, 25, 10, 0]
    terms = partial_association(release).table["df"]
    assert terms.loc["[Class Age]"] == 3
    # Three-way terms are tested among the cells that all two-way terms leave.
    assert terms.loc[["[Class Sex Age]", "[Sex Age Survived]"]].tolist() == [2, 1]
    # More terms are more parameters, whatever they send to 0.
    sizes = [quiet(release, all_kway(domain, k)).model.n_params for k in range(1, 5)]
    assert sizes == [6, 18, 28, 31]
    assert "AIC and BIC count 18 parameters" in " ".join(str(whole.summary()).split())
    plain = str(quiet(release, mutual(domain)).summary())
    assert "AIC and BIC count" not in " ".join(plain.split())


def test_the_search_by_bic_takes_the_steps_of_r(load_table, data_folder):
    # step.R: MASS::loglm and step(), which counts all parameters, zeros or not.
    counts, domain = load_table("caesar")
    theirs = pd.read_csv(data_folder.parent / "tests/inference/reference/step.csv").iloc[1:]
    release = Release.exact(counts, domain)
    found = step(LogLinearModel(release, mutual(domain)))
    assert found.results.generating_class == (
        "[Infection Risk][Infection Antibiotics][Risk Antibiotics][Antibiotics Planned]"
    )
    terms = theirs["step"].str.removeprefix("+ ").str.replace(":", " ")
    assert found.path["action"].tolist()[1:] == [f"add [{term}]" for term in terms]
    falls = -np.diff([272.587382, *theirs["bic"]])
    np.testing.assert_allclose(-found.path["criterion"].diff().iloc[1:], falls, rtol=1e-6)
    for start in (all_kway(domain, 2), saturated(domain)):
        again = step(LogLinearModel(release, start)).results
        assert again.generating_class == found.results.generating_class
