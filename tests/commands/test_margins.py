"""Margins on the command line: planned, released, tested, fitted."""

import json

import pytest

from dpcontingency._commands._shared import margins_of
from dpcontingency._demo_data import demo_file
from dpcontingency.domain import Domain
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.workload import plan_margins
from tests.command_line import refused, run

RECORDS = demo_file("ucb_admissions_records.csv")
DOMAIN = demo_file("ucb_admissions_domain.yaml")
MARGINS = [("Admit", "Dept"), ("Gender", "Dept")]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A release of two margins."""
    path = tmp_path_factory.mktemp("margins") / "m.json"
    run("release", RECORDS, "--domain", DOMAIN, "--mu", 0.5, "--output", path,
        "--margins", "Admit,Dept;Gender,Dept")  # fmt: skip
    return path


def test_the_release_is_that_of_its_plan(saved):
    release = MarginRelease.load(saved)
    plan = plan_margins(Domain.from_yaml(DOMAIN), MARGINS, GDP(0.5))
    assert release.margins == plan.margins == tuple(MARGINS)
    assert dict(release.plan.cell_scales) == dict(plan.cell_scales)
    assert release.private


@pytest.mark.parametrize("objective", ["total-variance", "max-variance"])
def test_a_plan_says_the_noise_before_it_is_drawn(objective):
    plan = plan_margins(Domain.from_yaml(DOMAIN), MARGINS, GDP(0.5), objective=objective)
    args = ("plan", "--domain", DOMAIN, "--mu", 0.5, "--margins", "Admit,Dept",
            "--margins", "Gender,Dept", "--objective", objective)  # fmt: skip
    content = json.loads(run(*args, "--json"))
    assert [margin["sd"] for margin in content["margins"]] == [plan.sd(*m) for m in MARGINS]
    assert content["total_variance"] == plan.total_variance
    assert content["bound"] == plan.bound
    rows = run(*args).splitlines()[-2:]
    assert rows[0].split() == ["Admit,", "Dept", "12", f"{plan.sd('Admit', 'Dept'):.5g}"]


def test_tests_and_fits_take_the_file_by_its_own_kind(saved):
    content = json.loads(run("test", saved, "Admit", "Dept", "--json"))
    direct = independence_test(MarginRelease.load(saved), "Admit", "Dept")
    assert content["statistic"] == direct.statistic
    assert "[Admit Dept][Gender Dept]" in run("fit", saved, "[Admit Dept][Gender Dept]")


def test_json_has_the_keys_of_a_joint_release(saved, tmp_path):
    args = ("release", RECORDS, "--domain", DOMAIN, "--mu", 0.5, "--json", "--output")
    joint = json.loads(run(*args, tmp_path / "a.json"))
    margins = json.loads(run(*args, tmp_path / "b.json", "--margins", "Admit;Dept"))
    assert list(joint) == list(margins)
    assert joint["margins"] is None
    assert [margin["factors"] for margin in margins["margins"]] == [["Admit"], ["Dept"]]
    assert margins["mu"] == 0.5


def test_a_ledger_pays_for_margins(tmp_path):
    books = tmp_path / "books"
    options = ("release", RECORDS, "--domain", DOMAIN, "--margins", "Admit;Dept", "--force",
               "--output", tmp_path / "m.json", "--ledger", books)  # fmt: skip
    run(*options, "--mu", 0.3, "--budget", 0.5)
    assert "left of 0.5" in refused(*options, "--mu", 0.45)
    (entry,) = PrivacyLedger(books).entries
    assert entry.what == "margins Admit; Dept"
    assert entry.checksum == MarginRelease.load(tmp_path / "m.json").checksum
    said = refused(*options, "--mu", 0.1, "--budget", 1)
    assert "leave --budget out" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--margins", "Admit,Dpt"], "did you mean 'Dept'?"),
        (["--margins", "Admit,"], "cannot be read: write 'A,B;C'"),
        (["--margins", "Admit|Dept"], "cannot be read: write 'A,B;C'"),
        (["--margins", "Admit;Admit"], "twice"),
        (["--margins", "Admit", "--strata", "Dept"], "without --mechanism and --strata"),
        (["--margins", "Admit", "--mechanism", "Gaussian"], "without --mechanism and --strata"),
        (["--margins", "Admit", "--objective", "variance"], "There is no --objective 'variance'"),
    ],
)
def test_margins_that_make_no_sense(tmp_path, options, said):
    out = tmp_path / "m.json"
    books = ("--ledger", tmp_path / "books", "--budget", 1)
    args = ("release", RECORDS, "--domain", DOMAIN, "--mu", 1, "--output", out, *books)
    assert said in refused(*args, *options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("test", "{m}", "Admit", "Gender"), "lies in none of the margins"),
        (("fit", "{m}", "[Admit]", "--method", "normal"), "leave out --method and --penalty"),
        (("plan", "--domain", DOMAIN, "--margins", "Admit"), "say --domain and a loss"),
        (("plan", "--odds-ratio", 2, "--mu", 1, "--margins", "Admit"), "say --domain and a loss"),
    ],
)
def test_what_margins_cannot_answer(saved, args, said):
    assert said in refused(*(saved if arg == "{m}" else arg for arg in args))


def test_names_of_margins_may_hold_anything():
    assert margins_of(["A,B;C", " `a,b;c|d` , x y "]) == [["A", "B"], ["C"], ["a,b;c|d", "x y"]]
