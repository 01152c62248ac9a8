"""P-values are printed where they are calibrated: one rule at every door, and bounds as bounds."""

import json
import math
import re

import numpy as np
import pytest

from dpcontingency.domain import Domain
from dpcontingency.inference.association_tests import cmh_test
from dpcontingency.inference.calibration import chi_square
from dpcontingency.inference.comparison import compare, drop1
from dpcontingency.inference.hypothesis import independence_test, model_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.order_tests import kway_tests, partial_association
from dpcontingency.inference.overview import association_overview
from dpcontingency.inference.printing import is_bound, pvalue_text
from dpcontingency.inference.selection import step
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.publish_margins import simulate_margins
from dpcontingency.release.release import Release
from dpcontingency.report import plain
from dpcontingency.report.document import write_report
from tests.command_line import run

REASON = "not calibrated here: the fitted mean of"
BOOT = {"pvalue": "bootstrap", "n_boot": 9, "rng": 1}


def faint_release():
    """160 records in 3 x 4 x 2 cells under noise of 7: chi-square is no law of its ratios."""
    domain = Domain({"A": list("abc"), "B": list("uvwx"), "C": ["p", "q"]})
    rng = np.random.default_rng(4)
    counts = rng.multinomial(160, np.full(24, 1 / 24)).reshape(domain.shape)
    return simulate_release(counts, domain, GDP(0.2), rng)


def clear_release():
    """An association that no bootstrap of 19 replicates reaches."""
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"], "C": ["p", "q"]})
    counts = np.array([[[400, 380], [40, 30]], [[35, 45], [410, 390]]])
    return simulate_release(counts, domain, GDP(0.5), np.random.default_rng(0))


def pages(release, folder, **what):
    for suffix in ("html", "md", "json"):
        write_report(release, folder / f"report.{suffix}", **what)
        yield suffix, (folder / f"report.{suffix}").read_text(encoding="utf-8")


def fitted(release, model="[A][B][C]"):
    return LogLinearModel(release, model).fit(warn_convergence=False)


FAINT = faint_release()
TABLES = {
    "compare": lambda r, **o: compare(fitted(r), fitted(r, "[A B][C]"), **o),
    "drop1": lambda r, **o: drop1(fitted(r, "[A B][A C][B C]"), **o),
    "kway_tests": kway_tests,
    "partial_association": partial_association,
}


@pytest.mark.parametrize("door", TABLES)
def test_tables_of_tests_give_the_reason_in_place_of_a_pvalue(door):
    table = TABLES[door](FAINT)
    single = [f"[{name}]" for name in FAINT.domain.names]  # margins of one factor are clear
    tails = table.table.drop(index=[*single, 1], errors="ignore").filter(like="pvalue")
    assert len(tails)
    assert np.isnan(tails).all(axis=None)
    assert np.isfinite(table.table.filter(like="lr").to_numpy(float)).any()
    notes = [note for note in table.notes if REASON in note]
    assert notes
    assert all("pvalue='bootstrap' gives a calibrated one" in note for note in notes)
    assert "pvalue='bootstrap'" in " ".join(table.summary().split())
    asymptotic = TABLES[door](FAINT, pvalue="asymptotic")
    assert np.isfinite(asymptotic.table.filter(like="pvalue").to_numpy(float)).any()
    assert any("Chi-square is doubtful, because" in note for note in asymptotic.notes)


@pytest.mark.parametrize("door", TABLES)
def test_tables_of_tests_by_bootstrap(door):
    table, again = (TABLES[door](FAINT, **BOOT) for _ in range(2))
    tails = table.table.filter(like="pvalue").to_numpy(float)
    known = tails[np.isfinite(tails)]
    assert known.size
    np.testing.assert_allclose(known * 10, np.rint(known * 10))
    assert table.n_boot == 9
    assert any("9 replicates, seed 1" in note for note in table.notes)
    assert table.table.equals(again.table)


@pytest.mark.parametrize("door", ["compare", "drop1", "kway_tests", "partial_association"])
def test_a_bound_is_printed_as_one_in_tables(door):
    page = TABLES[door](clear_release(), pvalue="bootstrap", n_boot=19, rng=1).summary()
    assert "<= 0.05" in page
    assert "<= 0.05 is a bound, the least that these can give" in " ".join(
        page.replace("\n    ", " ").split()
    )


def test_goodness_of_fit_gives_the_reason_or_a_bootstrap():
    fit = fitted(FAINT)
    gof = fit.gof()
    assert np.isnan(gof.loc["noise-aware LR", "pvalue"])
    assert REASON in gof.notes["noise-aware LR"]
    assert "gof(pvalue='bootstrap')" in gof.notes["noise-aware LR"]
    assert gof.loc["noise-aware LR", "statistic"] == pytest.approx(fit.deviance)
    assert 0 <= gof.loc["noise-aware score", "pvalue"] <= 1
    assert "may be conservative" in gof.notes["noise-aware score"]
    boot = fit.gof(**BOOT)
    assert (boot["pvalue"] * 10).round(9).isin(range(1, 11)).all()
    test = model_test(fit, **BOOT)
    assert boot.loc["noise-aware LR", "pvalue"] == test.pvalue
    asymptotic = fit.gof(pvalue="asymptotic")
    assert np.isfinite(asymptotic["pvalue"]).all()
    assert "doubtful" in asymptotic.notes["noise-aware LR"]


def test_a_sparse_noisy_table_is_not_said_to_fit():
    """2^10 cells, 600 records, noise as large as the cells, and an association left out."""
    domain = Domain({f"F{i}": [0, 1] for i in range(10)})
    p = np.full((4, *(2,) * 8), 1 / 1024)
    p = (p * np.array([1.9, 0.1, 0.1, 1.9]).reshape(4, *(1,) * 8)).reshape(domain.shape)
    rng = np.random.default_rng(2)
    counts = rng.multinomial(600, p.ravel()).reshape(domain.shape)
    release = simulate_release(counts, domain, GDP(1.0), rng)
    fit = LogLinearModel(release, [(name,) for name in domain.names]).fit()
    naive = fit.gof(pvalue="asymptotic")
    assert naive.loc["noise-aware LR", "pvalue"] > 0.999  # what chi-square would say
    assert np.isnan(fit.gof().loc["noise-aware LR", "pvalue"])
    assert fit.gof().loc["noise-aware score", "pvalue"] < 1
    larger = LogLinearModel(release, [("F0", "F1"), *((n,) for n in domain.names[2:])]).fit()
    changes = compare(fit, larger).table["pvalue_diff"]
    assert changes.iloc[1] < 1e-6  # a pair whose margins are clear is tested
    assert np.isnan(changes.iloc[2])


def test_the_test_itself_where_no_bootstrap_is_offered():
    test = independence_test(FAINT, "A", "C", statistic="wald")
    assert math.isnan(test.pvalue)
    assert math.isfinite(test.statistic)
    assert REASON in test.reason
    assert "statistic='lr'" in test.reason
    assert "no p-value, because" in repr(test)
    assert "No p-value:" in test.summary()
    told = independence_test(FAINT, "A", "C", statistic="wald", pvalue="asymptotic")
    assert math.isfinite(told.pvalue)
    assert any("Chi-square is doubtful" in note for note in told.notes)


def test_auto_makes_no_bootstrap_that_takes_long():
    test = independence_test(FAINT, "A", "B", given="C", n_boot=10**7)
    assert math.isnan(test.pvalue)
    assert "pvalue='bootstrap' gives one, in minutes or hours" in test.reason
    score = independence_test(FAINT, "A", "B", given="C", n_boot=10**7, statistic="score")
    assert any("may be conservative" in note for note in score.notes)


def test_homogeneity_of_odds_ratios_is_bootstrapped_too():
    test = cmh_test(FAINT, "A", "B", "C", n_boot=9, rng=1)
    assert test.n_boot == test.homogeneity.n_boot == 9


def test_a_search_by_tests_takes_no_step_whose_pvalue_is_not_calibrated():
    found = step(LogLinearModel(FAINT, "[A][B][C]"), criterion="lr")
    assert list(found.path["action"]) == ["start"]
    assert any(REASON in note and "add [A B]" in note for note in found.notes)
    clear = step(LogLinearModel(clear_release(), "[A][B][C]"), criterion="lr")
    assert "add [A B]" in list(clear.path["action"])
    boot = step(
        LogLinearModel(clear_release(), "[A][B][C]"), criterion="lr", alpha=0.1, pvalue="bootstrap",
        n_boot=19, rng=1,
    )  # fmt: skip
    assert "<= 0.05" in boot.summary()


def test_the_overview_says_which_tests_are_conservative():
    overview = association_overview(FAINT)
    assert overview["pvalue"].notna().any()
    assert any("may be conservative" in note for note in overview.notes)
    assert not any("conservative" in note for note in association_overview(clear_release()).notes)


def test_reports_give_the_reason_and_no_pvalue(tmp_path):
    fit = fitted(FAINT)
    larger = fitted(FAINT, "[A B][C]")
    wald = independence_test(FAINT, "A", "C", statistic="wald")
    for suffix, page in pages(FAINT, tmp_path, models=[fit, larger], tests=[wald]):
        assert REASON in page
        if suffix == "json":
            models = json.loads(page)["sections"]["models"]
            rows = models["parts"]["model1"]["tables"]["gof"]["rows"]
            assert rows[0][3] is None
            assert rows[1][3] is not None
            assert models["tables"]["differences"]["rows"][0][4] is None
        else:
            assert "not calibrated here" in page


def test_a_bound_at_every_door_of_a_test(tmp_path):
    test = independence_test(clear_release(), "A", "B", pvalue="bootstrap", n_boot=19, rng=1)
    assert test.pvalue_is_bound
    words = r"<= 0\.05 \(the least that 19 replicates can give; asymptotic \d\.\d+e-\d+\)"
    assert re.search(words, test.summary())
    assert "p <= 0.05 by 19 bootstrap replicates" in repr(test)
    assert plain.of_test(test)["pvalue_is_bound"] is True
    for suffix, page in pages(clear_release(), tmp_path, tests=[test]):
        assert re.search(words, page.replace("&lt;", "<").replace("\\", "")), suffix
    gof = fitted(clear_release()).gof(pvalue="bootstrap", n_boot=19, rng=1)
    assert len(gof.notes) == 2
    assert all(re.search(words, note) for note in gof.notes.values())
    assert gof.summary().count("<= 0.05") > 2
    weak = independence_test(clear_release(), "A", "C", pvalue="bootstrap", n_boot=19, rng=1)
    assert not weak.pvalue_is_bound
    assert "<=" not in weak.summary()


def test_a_bound_is_the_least_that_replicates_can_give():
    for n_boot in (1, 19, 99, 999, 10**6):
        least = 1 / (n_boot + 1)
        assert is_bound(least, n_boot)
        assert not is_bound(2 * least, n_boot)
        assert float(pvalue_text(least, n_boot).removeprefix("<= ")) == pytest.approx(least, 1e-2)
    assert not is_bound(math.nan, 999)


def test_the_command_line_says_the_same(tmp_path):
    path, clear = tmp_path / "faint.json", tmp_path / "clear.json"
    FAINT.save(path)
    clear_release().save(clear)
    lr, _ = json.loads(run("fit", path, "[A][B][C]", "--json"))["gof"]
    assert lr["pvalue"] is None
    assert REASON in lr["note"]
    assert "--pvalue bootstrap" in lr["note"]
    options = ["--pvalue", "bootstrap", "--n-boot", 19, "--seed", 1]
    assert "19 replicates, seed 1" in run("fit", path, "[A][B][C]", *options)
    assert "<= 0.05" in run("fit", clear, "[A][B][C]", *options)
    assert "<= 0.05 (the least" in run("test", clear, "A", "B", *options)
    assert json.loads(run("test", clear, "A", "B", *options, "--json"))["pvalue_is_bound"] is True


# ------------------------------------------------------------------ the rule


def test_the_rule_is_one_for_tables_and_margins():
    """One margin released alone, and the same numbers as a table: one answer, at every noise."""
    domain = Domain({"A": list("abc"), "B": list("uvwx")})
    counts = np.random.default_rng(1).integers(10, 60, (3, 4))
    for mu in (0.05, 0.1, 0.2, 0.4, 1.0):
        margins = simulate_margins(counts, domain, [("A", "B")], GDP(mu), np.random.default_rng(2))
        values, sd = margins.margin("A", "B").values, margins.margin("A", "B").sd
        table = Release.from_noisy_table(
            values, domain, sigma=sd / math.sqrt(11 / 12), n_total=int(counts.sum())
        )
        means = []
        for release in (table, margins):
            fit = fitted(release, "[A][B]")
            axes = [0, 1]
            noise = fit.model.cells.noise_of_margin(domain.shape, axes)
            np.testing.assert_allclose(noise, sd**2, rtol=1e-9)
            means.append(chi_square("lr", fit))
        assert means[0].holds == means[1].holds


def test_the_rule_looks_at_the_margins_in_question():
    """A term between clear factors is tested beside a level that nobody is known to have."""
    domain = Domain({"A": [0, 1], "B": [0, 1], "C": [0, 1]})
    p = np.einsum("a,b,c->abc", [0.4, 0.6], [0.5, 0.5], [0.99, 0.01])
    rng = np.random.default_rng(3)
    counts = rng.multinomial(2000, p.ravel()).reshape(domain.shape)
    release = simulate_release(counts, domain, GDP(0.1), rng)
    larger = LogLinearModel(release, "[A B][A C][B C]")
    assert chi_square("lr", fitted(release, "[A C][B C]"), larger)
    assert not chi_square("lr", fitted(release, "[A B][B C]"), larger)
    assert not chi_square("lr", fitted(release, "[A B][A C][B C]"))


def test_noise_of_margins_is_that_of_the_release():
    domain = Domain({"A": list("abc"), "B": list("uv"), "C": [0, 1]})
    counts = np.random.default_rng(0).integers(5, 50, domain.shape)
    for options in ({}, {"strata": ("A",)}, {"strata": ("A", "B")}, {"neighbours": "add-remove"}):
        release = simulate_release(counts, domain, GDP(0.5), np.random.default_rng(1), **options)
        cells = LogLinearModel(release, "[A B][B C]").cells
        for names in (("A",), ("B", "C"), ("A", "B", "C")):
            axes = [domain.axis(name) for name in names]
            expected = release.margin(*names).noise_sd.ravel() ** 2
            np.testing.assert_allclose(
                cells.noise_of_margin(domain.shape, axes), expected, atol=1e-9
            )


def test_auto_bootstraps_margins_where_cells_are_faint():
    domain = Domain({"A": list("abc"), "B": list("uvwx"), "C": ["p", "q"]})
    rng = np.random.default_rng(0)
    counts = rng.multinomial(300, np.full(24, 1 / 24)).reshape(domain.shape)
    pairs = [("A", "B"), ("A", "C"), ("B", "C")]
    faint = simulate_margins(counts, domain, pairs, GDP(0.1), rng)
    test = independence_test(faint, "A", "B", n_boot=9, rng=1)
    assert test.n_boot == 9
    assert any("A bootstrap was chosen, because" in note for note in test.notes)
    clear = simulate_margins(counts * 100, domain, pairs, GDP(1), rng)
    assert independence_test(clear, "A", "B").n_boot is None
