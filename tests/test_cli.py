"""The command line: the whole path in a folder, one clear line for each misuse, and its help."""

import json
import re

import numpy as np
import pytest

from dpcontingency._commands._shared import question
from dpcontingency._demo_data import demo_file
from dpcontingency.domain import Domain
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.inference.loglinear import LogLinearModel, load_results
from dpcontingency.inference.planning import minimum_mu, power, two_by_two
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.release import Release, load_release
from tests.command_line import refused, run

ODDS = Domain({"Row": ["first", "second"], "Column": ["first", "second"]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The records and the domain of the demo, and a release of them."""
    out = tmp_path_factory.mktemp("cli")
    for name, short in (("records.csv", "ucb_admissions_records.csv"),
                        ("domain.yaml", "ucb_admissions_domain.yaml")):  # fmt: skip
        (out / name).write_bytes(demo_file(short).read_bytes())
    make(out, "--mu", 1, "--output", out / "release.json")
    return out


def make(folder, *args):
    return run("release", folder / "records.csv", "--domain", folder / "domain.yaml", *args)


def make_refused(folder, *args):
    options = [] if "--domain" in args else ["--domain", folder / "domain.yaml"]
    return refused("release", folder / "records.csv", *options, *args)


# ------------------------------------------------------------------ what works


def test_release_prints_the_protection(folder, tmp_path):
    printed = make(folder, "--mu", 0.5, "--output", tmp_path / "r.json")
    assert "24 cells, 4,526 records (public)" in printed
    assert "mu = 0.5 (Gaussian DP); epsilon = 2.2541 at delta = 1e-06" in printed
    assert "Neighbours: replace-one" in printed
    assert f"Saved to {tmp_path / 'r.json'}" in printed
    assert load_release(tmp_path / "r.json").privacy.mu == 0.5


@pytest.mark.parametrize(
    ("options", "mu"),
    [
        (["--mu", 2], 2.0),
        (["--rho", 0.5], 1.0),
        (["--epsilon", 1, "--delta", 1e-6], GDP.from_epsilon_delta(1, 1e-6).mu),
    ],
)
def test_release_summary_for_machines(folder, tmp_path, options, mu):
    target = tmp_path / "r.json"
    content = json.loads(make(folder, *options, "--output", target, "--json"))
    made = load_release(target)
    assert content["output"] == str(target)
    assert content["mu"] == made.privacy.mu == mu
    assert content["epsilon"] == made.privacy.epsilon(1e-6)
    assert content["sigma"] == made.sigma
    assert content["factors"] == {"Admit": 2, "Gender": 2, "Dept": 6}
    assert content["n_total"] == 4526
    assert content["private"] is True


def test_release_options_reach_the_release(folder, tmp_path):
    make(folder, "--mu", 1, "--output", tmp_path / "a.json", "--strata", "Gender",
         "--strata", "Dept", "--mechanism", "RankDeficientGaussian")  # fmt: skip
    made = load_release(tmp_path / "a.json")
    assert made.strata == ("Gender", "Dept")
    assert type(made.mechanism).__name__ == "RankDeficientGaussian"
    make(folder, "--mu", 1, "--output", tmp_path / "b.json", "--neighbours", "add-remove")
    assert load_release(tmp_path / "b.json").neighbours == "add-remove"


def test_weights_and_missing_reach_the_table(folder, tmp_path):
    (tmp_path / "long.csv").write_text("A,B,n\na,u,40\na,v,30\nb,u,20\nb,v,60\n,v,9\n")
    (tmp_path / "d.yaml").write_text("factors:\n  A: [a, b]\n  B: [u, v]\n")
    args = ["release", tmp_path / "long.csv", "--domain", tmp_path / "d.yaml", "--mu", 5,
            "--output", tmp_path / "r.json"]  # fmt: skip
    assert "name it by --weights;" in refused(*args)
    assert "Pass --missing drop to" in refused(*args, "--weights", "n")
    said = refused(*args, "--weights", "n", "--missing", "drop")
    assert "Release with --neighbours add-remove, or declare a level for missing values" in said
    said = run(*args, "--weights", "n", "--missing", "drop", "--neighbours", "add-remove")
    assert "Missing values: records that lack a factor are dropped\n" in said
    assert load_release(tmp_path / "r.json").n_total_estimate == pytest.approx(150, abs=10)


def test_fit_prints_the_summary(folder):
    printed = run("fit", folder / "release.json", "[Admit Dept][Gender Dept]")
    assert "Log-linear model [Admit Dept][Gender Dept]" in printed
    formula = run("fit", folder / "release.json", "--formula", "Admit*Dept + Gender*Dept")
    assert formula == printed


def test_fit_for_machines(folder):
    content = json.loads(run("fit", folder / "release.json", "[Admit Dept][Gender Dept]", "--json"))
    fit = LogLinearModel(load_release(folder / "release.json"), "[Admit Dept][Gender Dept]").fit()
    assert content["model"] == fit.generating_class
    assert content["df_resid"] == 6
    assert content["gof"][0]["statistic"] == fit.deviance
    first = content["coefficients"][0]
    assert first["name"] == "Admit[T.Rejected]"
    assert first["estimate"] == fit.params.iloc[0]
    assert first["se_privacy"] == fit.bse_privacy.iloc[0]
    assert first["interval"] == list(fit.conf_int().iloc[0])
    assert content["not_estimable"] == []


def test_fit_can_save_results(folder, tmp_path):
    args = ("fit", folder / "release.json", "[Admit][Gender][Dept]")
    run(*args, "--output", tmp_path / "fit.json")
    assert load_results(tmp_path / "fit.json").generating_class == "[Admit][Gender][Dept]"
    assert "pass --force" in refused(*args, "--output", tmp_path / "fit.json")


def test_an_infinite_estimate_is_null_in_json(tmp_path):
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    Release.exact([[41, 0], [190, 377]], domain).save(tmp_path / "r.json")
    content = json.loads(run("fit", tmp_path / "r.json", "[A B]", "--json"))
    assert content["not_estimable"]
    lost = [c for c in content["coefficients"] if c["name"] in content["not_estimable"]]
    assert all(c["estimate"] is None and c["se"] is None for c in lost)
    assert content["gof"][0]["pvalue"] is None


def test_test_prints_and_serves_machines(folder):
    args = ("test", folder / "release.json", "Admit", "Gender", "--given", "Dept")
    result = independence_test(
        load_release(folder / "release.json"), "Admit", "Gender", given=("Dept",)
    )
    assert run(*args) == result.summary() + "\n"
    content = json.loads(run(*args, "--json"))
    assert content["statistic"] == result.statistic
    assert content["pvalue"] == result.pvalue
    assert content["accounts_for"] == ["sampling", "noise"]
    score = json.loads(run(*args, "--statistic", "score", "--json"))
    assert score["method"] == "score"


def test_the_suffix_of_a_report_is_refused_before_the_release_is_read(tmp_path):
    said = refused("report", tmp_path / "none.json", "--output", tmp_path / "r.htm")
    assert "Name the file report.html, report.md or report.json" in said
    assert list(tmp_path.iterdir()) == []


def test_report_holds_what_was_asked(folder, tmp_path):
    printed = run(
        "report", folder / "release.json", "--output", tmp_path / "r.html",
        "--model", "[Admit][Gender][Dept]", "--formula", "Admit*Dept + Gender",
        "--test", "Admit,Gender", "--test", "Admit , Gender | Dept", "--title", "A & B",
    )  # fmt: skip
    assert printed == f"Report: {tmp_path / 'r.html'}\n"
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<h1>A &amp; B</h1>" in text
    headings = re.findall(r"<h3>(.*?)</h3>", text)
    assert headings[-4:] == [
        "Independence test: Admit independent of Gender",
        "Independence test: Admit independent of Gender given Dept",
        "Model [Admit][Gender][Dept]",
        "Model [Admit Dept][Gender]",
    ]


def test_odd_names_can_be_asked_for(tmp_path):
    domain = Domain({"a,b": ["0", "1"], "c|d": ["0", "1"], "x y": ["0", "1"], "α": ["0", "1"]})
    values = np.random.default_rng(2).normal(40, 5, domain.shape)
    made = Release.from_noisy_table(values, domain, sigma=4.0, n_total=640)
    made.save(tmp_path / "r.json")
    run("report", tmp_path / "r.json", "--output", tmp_path / "r.html",
        "--test", "`a,b`,x y|`c|d`,α", "--model", "[`a,b` α][`x y` `c|d`]")  # fmt: skip
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "a,b independent of x y given c|d, α" in text
    run("test", tmp_path / "r.json", "a,b", "c|d", "--given", "x y", "--given", "α")
    run("fit", tmp_path / "r.json", "--formula", "`a,b`*`c|d` + α")


@pytest.mark.parametrize(
    ("text", "sides"),
    [
        ("A,B", (["A", "B"], [])),
        (" A , B|C , D ", (["A", "B"], ["C", "D"])),
        ("my a,b-c|1st", (["my a", "b-c"], ["1st"])),
        ("`a,b`,`c|d`|` e `", (["a,b", "c|d"], [" e "])),
        ("A", (["A"], [])),
    ],
)
def test_questions_are_read(text, sides):
    assert question(text) == sides


@pytest.mark.parametrize("text", ["", ",", "A,", "A,,B", "A|B|C", "|A", "A|", "`A", "A`b`,c"])
def test_questions_that_cannot_be_read(folder, tmp_path, text):
    line = refused("report", folder / "release.json", "--output", tmp_path / "r.html",
                   "--test", text)  # fmt: skip
    assert "write 'A,B" in line
    assert not (tmp_path / "r.html").exists()


# ------------------------------------------------------------------ the demo


def test_demo_tells_the_story(tmp_path):
    first = run("demo", "--output", tmp_path / "new" / "demo")
    report, *story = first.splitlines()
    assert report == f"Report: {tmp_path / 'new' / 'demo' / 'report.html'}"
    assert [line[:2] for line in story] == ["1.", "2.", "3.", "4."]
    made = load_release(tmp_path / "new" / "demo" / "release.json")
    assert made.private
    assert made.privacy.mu == 1
    marginal = independence_test(made, "Admit", "Gender")
    conditional = independence_test(made, "Admit", "Gender", given=("Dept",))
    assert f"chi2 = {marginal.statistic:.1f} on 1 df" in story[0]
    assert "odds of admission, men to women: 1.8" in story[0]
    assert f"chi2 = {conditional.statistic:.1f} on 6 df" in story[1]
    assert "department A" in story[2]
    assert "Departments A and B" in story[3]
    assert run("demo", "--output", tmp_path / "new" / "demo").splitlines()[0] == report
    again = load_release(tmp_path / "new" / "demo" / "release.json")
    assert (again.noisy != made.noisy).any()  # new noise, never a seed
    assert sorted(path.name for path in (tmp_path / "new" / "demo").iterdir()) == [
        "release.json",
        "report.html",
    ]


def test_demo_for_machines(tmp_path):
    content = json.loads(run("demo", "--output", tmp_path, "--json"))
    assert content["marginal"]["df"] == 1
    assert content["conditional"]["df"] == 6
    assert content["model"]["model"] == "[Admit Dept][Gender Dept]"
    assert content["release"]["mu"] == 1


# ------------------------------------------------------------------ what is refused


def test_an_output_is_never_replaced_unasked(folder, tmp_path):
    release = tmp_path / "release.json"
    report = tmp_path / "report.html"
    for args, target in (
        (("release", folder / "records.csv", "--domain", folder / "domain.yaml", "--mu", 1,
          "--output", release), release),
        (("report", folder / "release.json", "--output", report), report),
    ):  # fmt: skip
        run(*args)
        before = target.read_bytes()
        assert "exists already: choose another name, or pass --force" in refused(*args)
        assert target.read_bytes() == before
        run(*args, "--force")
    assert "is a folder" in make_refused(folder, "--mu", 1, "--output", tmp_path)
    assert "There is no folder" in make_refused(folder, "--mu", 1, "--output", "no/such/r.json")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "one way: --mu, or --epsilon with --delta, or --rho"),
        (["--mu", 1, "--rho", 1], "in one way"),
        (["--mu", 1, "--delta", 1e-6], "in one way"),
        (["--epsilon", 1], "--epsilon and --delta go together"),
        (["--delta", 1e-6], "--epsilon and --delta go together"),
        (["--mu", -1], "mu must be a positive finite number"),
        (["--mu", "much"], "--mu is a number, such as 0.5."),
        (["--mu", 1, "--mechanism", "RankDeficientJamesStien"], "'RankDeficientJamesStein'?"),
        (["--mu", 1, "--neighbours", "replace"], "did you mean 'replace-one'?"),
        (["--mu", 1, "--strata", "dept"], "did you mean 'Dept'?"),
        (["--mu", 1, "--weights", "n"], "no column 'n'"),
        (["--mu", 1, "--domain", "no.yaml"], "no.yaml"),
        (["--mu", 1, "--nonsense"], "--nonsense"),
    ],
)
def test_a_release_that_makes_no_sense(folder, tmp_path, options, said):
    line = make_refused(folder, *options, "--output", tmp_path / "r.json")
    assert said in line
    assert "Invalid value: " not in line  # typer's words for a message that has its own
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_pays_for_releases(folder, tmp_path):
    books = tmp_path / "survey.ledger"
    options = ["--output", tmp_path / "r.json", "--force", "--ledger", books]
    assert "budget" in make_refused(folder, *options, "--mu", 0.3)
    make(folder, *options, "--mu", 0.3, "--budget", 0.5)
    make(folder, *options, "--mu", 0.4)
    assert "left of 0.5" in make_refused(folder, *options, "--mu", 0.1)
    printed = run("privacy", books)
    assert "Spent:      mu = 0.5" in printed
    assert "Left:       mu = 0\n" in printed
    content = json.loads(run("privacy", books, "--json"))
    assert [entry["mu"] for entry in content["entries"]] == [0.3, 0.4]
    saved = json.loads((tmp_path / "r.json").read_text())
    assert content["entries"][1]["checksum"] == saved["checksum"]
    assert "no ledger" in refused("privacy", tmp_path / "other.ledger")


def test_undeclared_values_stay_out_of_the_message(folder, tmp_path):
    (tmp_path / "d.yaml").write_text(
        "factors:\n  Admit: [Admitted]\n  Gender: [Male, Female]\n  Dept: [A, B, C, D, E, F]\n"
    )
    line = make_refused(folder, "--domain", tmp_path / "d.yaml", "--mu", 1,
                        "--output", tmp_path / "r.json")  # fmt: skip
    assert "Factor 'Admit' has values that the domain does not declare" in line
    assert "Rejected" not in line


CMH = "Cochran-Mantel-Haenszel test"


@pytest.mark.parametrize(
    ("args", "name", "df"),
    [
        (["Admit", "Gender", "--kind", "homogeneity", "--given", "Dept"], "homogeneity test", 15),
        (["Admit", "Gender", "--kind", "trend"], "trend test", 1),
        (
            ["Admit", "Gender", "--kind", "cmh", "--given", "Dept"],
            "Cochran-Mantel-Haenszel test",
            1,
        ),
        (["Admit", "Dept", "--statistic", "wald"], "independence test", 5),
    ],
)
def test_kinds_of_tests(folder, args, name, df):
    out = json.loads(run("test", folder / "release.json", *args, "--json"))
    assert (out["name"], out["df"]) == (name, df)
    assert 0 <= out["pvalue"] <= 1


def test_a_bootstrap_from_the_command_line_can_be_repeated(folder):
    args = ("test", folder / "release.json", "Admit", "Gender", "--given", "Dept")
    boot = ("--pvalue", "bootstrap", "--n-boot", "99")
    text = run(*args, *boot)
    seed = re.search(r"99 replicates, seed (\d+)", text)
    assert seed is not None
    assert run(*args, *boot, "--seed", seed[1]) == text


def test_estimators_from_the_command_line(folder):
    fits = [
        json.loads(run("fit", folder / "release.json", "[Admit][Gender]", *more, "--json"))
        for more in ([], ["--method", "normal"], ["--penalty", "jeffreys"])
    ]
    estimates = [fit["coefficients"][0]["estimate"] for fit in fits]
    assert len(set(estimates)) == 3
    assert max(estimates) - min(estimates) < 0.05


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["fit", "{r}"], "Say the model in one way"),
        (["fit", "{r}", "[Admit]", "--formula", "Admit"], "Say the model in one way"),
        (["fit", "{r}", "[Admt]"], "did you mean 'Admit'?"),
        (["fit", "{r}", "--formula", "Admit*"], "cannot be read"),
        (["fit", "{r}", "--formula", "np.log(Admit)"], "has no np.log(...)"),
        (["fit", "{r}", "--formula", "Dept + score(Dept)"], "needs an ordered factor"),
        (["fit", "no.json", "[A]"], "There is no file no.json"),
        (["fit", "{records}", "[A]"], "is not a JSON file"),
        (["test", "{r}", "Admit"], "needs two factors or more"),
        (["test", "{r}", "Admit", "Admit"], "Each factor is named once"),
        (["test", "{r}", "Admit", "Sex"], "There is no factor 'Sex'"),
        (["test", "{r}", "Admit", "Gender", "--statistic", "fisher"], "fisher"),
        (["test", "{r}", "Admit", "Gender", "--kind", "cmh"], "make them by --given. Without"),
        (["test", "{r}", "Admit", "--kind", "trend"], "takes two factors"),
        (
            ["test", "{r}", "Admit", "Gender", "--kind", "marginal-homogeneity", "--seed", "1"],
            "has a chi-square p-value",
        ),
        (["test", "{r}", "Admit", "Dept", "--kind", "symmetry"], "different levels"),
        (["test", "{r}", "Admit", "Dept", "--kind", "symmetry", "--given", "Gender"], "no --given"),
        (
            ["test", "{r}", "Admit", "Gender", "--seed", "-3"],
            "--seed is a whole number of at least 0",
        ),
        (["test", "{r}", "Admit", "Gender", "--n-boot", "0"], "--n-boot is a whole number of"),
        (
            ["test", "{r}", "Admit", "--kind", "homogeneity"],
            "name the response, and the groups by --given",
        ),
        (
            ["test", "{r}", "Admit", "Gender", "--kind", "tend"],
            "There is no --kind 'tend'; did you mean 'trend'?",
        ),
        (
            ["test", "{r}", "Admit", "Gender", "--knd", "trend"],
            "No such option: --knd; did you mean --kind?",
        ),
        (
            ["test", "{r}", "Admit", "Gender", "--statistic", "wald", "--pvalue", "bootstrap"],
            "use --statistic lr",
        ),
        (
            [
                "test",
                "{r}",
                "Admit",
                "Gender",
                "--statistic",
                "js-pearson",
                "--pvalue",
                "asymptotic",
            ],
            "use --pvalue bootstrap",
        ),
        (
            ["test", "{r}", "Dept", "Gender", "--kind", "trend"],
            "declare ordered: [Dept] in the domain file",
        ),
        (
            ["fit", "{r}", "[Admit]", "--method", "normal", "--penalty", "jeffreys"],
            "which --method normal does not",
        ),
        (["fit", "{r}", "[Admit]", "--penalty", "lasso"], "lasso"),
        (["test", "{r}"], "FACTOR"),
        (["report", "{r}"], "--output"),
        (["reprot"], "report"),
        (["demo", "--output", "{records}"], "records.csv"),
    ],
)
def test_misuse_is_one_line(folder, args, said):
    places = {"{r}": folder / "release.json", "{records}": folder / "records.csv"}
    assert said in refused(*(places.get(arg, arg) for arg in args))


def test_a_file_that_was_changed_is_refused(folder, tmp_path):
    text = (folder / "release.json").read_text(encoding="utf-8")
    (tmp_path / "r.json").write_text(text.replace('"Male"', '"Mole"'), encoding="utf-8")
    assert "was changed after it was written" in refused("test", tmp_path / "r.json", "A", "B")


# ------------------------------------------------------------------ planning


PLAN = ("plan", "--odds-ratio", 1.5)


def test_plan_answers_what_is_left_out():
    # Which mu shows an odds ratio of 1.5 at n = 2000 with power 0.8?
    loss = json.loads(run(*PLAN, "--n", 2000, "--power", 0.8, "--json"))
    assert loss["asked"] == "mu"
    assert loss["mu"] == minimum_mu(ODDS, two_by_two(1.5), 2000)
    assert loss["power"] >= 0.8
    records = json.loads(run(*PLAN, "--mu", loss["mu"], "--power", 0.8, "--json"))
    assert records["asked"] == "n"
    assert records["n"] == 2000
    reached = json.loads(run(*PLAN, "--mu", loss["mu"], "--n", 2000, "--json"))
    assert reached["asked"] == "power"
    assert reached["power"] == loss["power"]
    assert reached["power_without_noise"] == power(ODDS, two_by_two(1.5), 2000, None)
    printed = run(*PLAN, "--n", 2000, "--power", 0.8)
    assert f"Answer:     mu = {loss['mu']} is the least loss" in printed
    assert "Power:      0.8000 (without noise 0.9947)" in printed


def test_plan_for_any_table(tmp_path):
    (tmp_path / "d.yaml").write_text("factors:\n  A: [x, y, z]\n  B: [x, y, z]\nordered: [A, B]\n")
    domain = Domain.from_yaml(tmp_path / "d.yaml")
    cells = [[0.20, 0.09, 0.06], [0.06, 0.22, 0.08], [0.04, 0.05, 0.20]]
    for name, table in (("alt", cells), ("null", np.full((3, 3), 1 / 9))):
        rows = [f"{a},{b},{table[i][j]}" for i, a in enumerate("xyz") for j, b in enumerate("xyz")]
        (tmp_path / f"{name}.csv").write_text("\n".join(["A,B,probability", *rows]) + "\n")
    base = ("plan", "--domain", tmp_path / "d.yaml", "--alternative", tmp_path / "alt.csv",
            "--n", 500, "--mu", 0.3, "--json")  # fmt: skip
    for test, options, more in (
        ("symmetry", {}, []),
        ("trend", {"factors": ["B", "A"]}, ["--factor", "B", "--factor", "A"]),
        ("model", {"model": "[A][B]"}, ["--model", "[A][B]"]),
        ("independence", {"strata": ["A"]}, ["--strata", "A"]),
        ("independence", {"neighbours": "add-remove"}, ["--neighbours", "add-remove"]),
        ("goodness-of-fit", {"null": np.full((3, 3), 1 / 9)}, ["--null", tmp_path / "null.csv"]),
    ):
        content = json.loads(run(*base, "--test", test, *more))
        expected = power(domain, cells, 500, GDP(0.3), test, **options)
        assert content["power"] == pytest.approx(expected)
    (tmp_path / "bad.csv").write_text("A,probability\nx,1\n")
    said = refused("plan", "--domain", tmp_path / "d.yaml", "--alternative", tmp_path / "bad.csv",
                   "--n", 500, "--mu", 1)  # fmt: skip
    assert "has no column 'B'" in said
    (tmp_path / "worse.csv").write_text("A,B,probability\nx,x,many\n")
    said = refused("plan", "--domain", tmp_path / "d.yaml", "--alternative", tmp_path / "worse.csv",
                   "--n", 500, "--mu", 1)  # fmt: skip
    assert "'many', which is no number" in said
    (tmp_path / "empty.csv").write_text("")
    assert "is no CSV file" in refused(
        "plan", "--domain", tmp_path / "d.yaml", "--alternative", tmp_path / "empty.csv",
        "--n", 500, "--mu", 1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((*PLAN, "--n", 2000), "Say two of --n, --power and a loss"),
        ((*PLAN, "--n", 2000, "--power", 0.8, "--mu", 1), "Say two of --n"),
        ((*PLAN, "--n", 200, "--power", 0.8), "even without noise"),
        ((*PLAN, "--n", 200, "--epsilon", 1), "go together"),
        ((*PLAN, "--n", 200, "--mu", 1, "--test", "trends"), "did you mean 'trend'"),
        (("plan", "--n", 200, "--mu", 1), "Say the alternative in one way"),
        (("plan", "--odds-ratio", -2, "--n", 200, "--mu", 1), "positive and finite"),
        (("plan", "--odds-ratio", 1, "--n", 200, "--power", 0.8), "inside the null"),
    ],
)
def test_a_plan_that_makes_no_sense_is_one_line(args, said):
    assert said in refused(*args)
