"""What messages advise works, and natural mistakes get a sentence that says what to do."""

import numpy as np
import pandas as pd
import pytest

import dpcontingency as dpc
from dpcontingency.errors import DomainError, ModelError, PrivacyError, RecordsError, ReleaseError
from dpcontingency.report import drawing
from tests.command_line import refused, run

DOMAIN = dpc.Domain({"A": ["a", "b", "c"], "B": ["u", "v"]})
COUNTS = np.array([[30, 12], [22, 25], [9, 41]])
RELEASE = dpc.Release.from_noisy_table(COUNTS + 0.25, DOMAIN, sigma=3.0, n_total=139)


def margins():
    rng = np.random.default_rng(1)
    return dpc.simulate_margins(COUNTS, DOMAIN, [("A", "B")], dpc.GDP(1), rng)


# -- other currencies, lists, arrays ---------------------------------------------------------------


def test_a_loss_in_another_currency_has_its_own_constructor():
    with pytest.raises(PrivacyError, match=r"GDP\.from_epsilon_delta\(1, 1e-6\)"):
        dpc.GDP(epsilon=1, delta=1e-6)
    assert dpc.GDP.from_epsilon_delta(1, 1e-6).delta(1) <= 1e-6
    with pytest.raises(PrivacyError, match=r"GDP\.from_zcdp\(rho\)"):
        dpc.GDP(rho=0.5)
    assert dpc.GDP.from_zcdp(0.5) == dpc.GDP(1)


def test_factors_may_come_in_a_list():
    for names in (["B", "A"], ("B", "A")):
        np.testing.assert_array_equal(RELEASE.margin(names).noisy, RELEASE.margin("B", "A").noisy)
        one, other = margins().margin(names), margins().margin("B", "A")
        np.testing.assert_array_equal(one.values, other.values)
        assert margins().collapse(names).domain.names == ("B", "A")
        np.testing.assert_array_equal(margins().covariance(names), margins().covariance("B", "A"))
        table = dpc.ContingencyTable(COUNTS, DOMAIN)
        np.testing.assert_array_equal(table.margin(names).counts, COUNTS.T)
        fit = dpc.LogLinearModel(RELEASE, "[A B]").fit()
        assert fit.fitted_margin(names).equals(fit.fitted_margin("B", "A"))


@pytest.mark.parametrize("release", [RELEASE, margins()])
def test_a_release_is_no_array(release):
    with pytest.raises(ReleaseError, match=r"is no array: take "):
        np.asarray(release)
    with pytest.raises(TypeError):
        len(release)


def test_the_package_shows_its_public_names_only():
    assert {name for name in dir(dpc) if not name.startswith("_")} == {*dpc.__all__}


# -- ways out --------------------------------------------------------------------------------------


def test_every_command_and_load_release_read_every_kind_of_release(tmp_path):
    for release in (RELEASE, margins()):
        release.save(tmp_path / "r.json")
        assert type(dpc.load_release(tmp_path / "r.json")) is type(release)
        assert "likelihood" in run("test", tmp_path / "r.json", "A", "B")
    dpc.LogLinearModel(RELEASE, "[A][B]").fit().save(tmp_path / "fit.json")
    with pytest.raises(ReleaseError, match=r"read it by LogLinearResults\.load"):
        dpc.load_release(tmp_path / "fit.json")
    assert dpc.LogLinearResults.load(tmp_path / "fit.json").converged
    with pytest.raises(ReleaseError, match="read it by load_release"):
        dpc.LogLinearResults.load(tmp_path / "r.json")


def test_an_order_is_declared_as_the_message_says():
    with pytest.raises(ModelError, match=r"write ordered=\['A'\] in the domain.*scores=\{'A': "):
        dpc.gamma(RELEASE, "A", "B")
    for options in ({"ordered": ["A"]}, {"scores": {"A": [1, 2, 5]}}):
        domain = dpc.Domain(dict(DOMAIN.levels), **options)
        release = dpc.Release.from_noisy_table(RELEASE.noisy, domain, sigma=3.0, n_total=139)
        assert 0 < dpc.gamma(release, "A", "B").estimate < 1


def test_an_order_is_declared_as_the_command_line_says(tmp_path):
    pd.DataFrame({"A": ["a", "b", "c"] * 20, "B": ["u", "v"] * 30}).to_csv(tmp_path / "r.csv")
    domain = "factors: {A: [a, b, c], B: [u, v]}\n"
    for more, works in (("", False), ("ordered: [A]\n", True), ("scores: {A: [1, 2, 5]}\n", True)):
        (tmp_path / "d.yaml").write_text(domain + more)
        output = ["--output", tmp_path / "r.json", "--force"]
        run("release", tmp_path / "r.csv", "--domain", tmp_path / "d.yaml", "--mu", 1, *output)
        asked = "test", tmp_path / "r.json", "A", "B", "--kind", "trend"
        if works:
            run(*asked)
        else:
            said = refused(*asked)
            assert "ordered: [A]" in said
            assert "scores of its" in said


def test_a_level_for_the_missing_values_of_a_binned_factor():
    records = pd.DataFrame({"age": [3.0, 30, np.nan, 70], "B": ["u", "v", "u", "v"]})
    bins = dpc.Bins([0, 18, 65, 120])
    with pytest.raises(DomainError, match=r"\[\*Bins\(edges\)\.labels, 'missing'\]"):
        dpc.Domain({"age": ["missing"], "B": ["u", "v"]}, bins={"age": bins})
    plain = dpc.Domain({"B": ["u", "v"]}, bins={"age": bins})
    with pytest.raises(RecordsError, match="after the labels of all bins"):
        dpc.tabulate(records, plain, missing="missing")
    domain = dpc.Domain({"age": [*bins.labels, "missing"], "B": ["u", "v"]}, bins={"age": bins})
    table = dpc.tabulate(records, domain, missing="missing")
    assert table.margin("age").counts.tolist() == [1, 1, 1, 1]


def test_finite_estimates_are_to_be_had_as_the_message_says(tmp_path):
    domain = dpc.Domain({"A": ["a", "b"], "B": ["u", "v"]})
    release = dpc.Release.from_noisy_table(
        [[81.5, 58.2], [-12.0, -7.7]], domain, sigma=10.0, n_total=120
    )
    reason = dpc.LogLinearModel(release, "[A][B]").fit(warn_convergence=False).existence.reason
    assert "model.fit(penalty='jeffreys') has finite estimates" in reason
    model = dpc.LogLinearModel(release, "[A][B]")
    assert np.isfinite(model.fit(penalty="jeffreys").params).all()
    release.save(tmp_path / "r.json")
    said = " ".join(run("test", tmp_path / "r.json", "A", "B", "--pvalue", "asymptotic").split())
    assert "dpcontingency fit --penalty jeffreys has finite estimates" in said
    assert "penalty" in run("fit", tmp_path / "r.json", "[A][B]", "--penalty", "jeffreys").lower()


# -- long lists and long names ---------------------------------------------------------------------


def test_lists_of_names_are_cut():
    domain = dpc.Domain({"A": range(60), "B": ["u", "v"]})
    rng = np.random.default_rng(2)
    cells = rng.normal(0.5, 5, (60, 2))
    release = dpc.Release.from_noisy_table(cells, domain, sigma=5.0)
    test = dpc.independence_test(release, "A", "B", statistic="score", pvalue="asymptotic")
    note = next(note for note in test.notes if note.startswith("Within noise of 0"))
    assert note.count("A = ") == 10
    assert " more. Perhaps nobody is there." in note
    assert max(map(len, test.notes)) < 1000


LONG = [f"a level of which the first thirty-six letters are the same, {k}" for k in ("x", "y", "z")]


def test_labels_stay_distinct_and_are_told_in_full():
    """CASES D10."""
    domain = dpc.Domain({"A": LONG, "B": ["u", "v"]})
    release = dpc.Release.from_noisy_table(COUNTS + 0.5, domain, sigma=3.0, n_total=141)
    for plot in (dpc.plots.mosaic(release), dpc.plots.association(release, "A", "B")):
        cut = [text.get_text() for text in plot.texts if text.get_label()]
        assert len(set(cut)) == len(LONG)
        assert all(name in plot.get_label() for name in LONG)
    names = [f"a factor of which the first thirty-six letters are the same, {k}" for k in "xyz"]
    three = dpc.Domain({name: [0, 1] for name in names})
    wide = dpc.Release.exact(np.arange(8).reshape(2, 2, 2) + 5, three)
    ax = dpc.plots.heat_map(dpc.association_overview(wide))
    cut = [text.get_text() for text in ax.texts if text.get_label()]
    assert len(set(cut)) == 3
    fit = dpc.LogLinearModel(release, "[A B]").fit()
    labels = [text.get_text() for text in dpc.plots.coefficients(fit).get_yticklabels()]
    assert len(set(labels)) == len(labels)


def test_names_that_no_cut_tells_apart_are_numbered():
    names = ["x" * 60 + "a" + "y" * 60, "x" * 60 + "b" + "y" * 60, "z"]
    one, other, last = drawing.distinct(names)
    assert one != other
    assert last == "z"
    assert drawing.distinct(["b", "a", "b"]) == ["b", "a", "b"]
