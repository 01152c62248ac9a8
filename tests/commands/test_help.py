"""The help of every command: summaries, width, examples that run, documented keys of --json."""

import json
import re
import shlex
import subprocess
import sys

import pytest

from dpcontingency import _commands
from dpcontingency._demo_data import demo_file
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.ledger import PrivacyLedger
from tests.command_line import run

DOSES = [(dose, ill, p) for dose, p in (("low", 0.1), ("mid", 0.15), ("high", 0.2))
         for ill, p in (("no", 1 / 3 - p), ("yes", p))]  # fmt: skip


def examples(name):
    """The examples in the help of a command, as arguments."""
    text = run(name, "--help").partition("Example:\n")[2].partition("\n\n")[0]
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        assert words[:2] == ["dpcontingency", name]
        yield words[1:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the examples find in their folder."""
    out = tmp_path_factory.mktemp("examples")
    for name, short in (("records.csv", "ucb_admissions_records.csv"),
                        ("domain.yaml", "ucb_admissions_domain.yaml")):  # fmt: skip
        (out / name).write_bytes(demo_file(short).read_bytes())
    (out / "dose.yaml").write_text(
        "factors:\n  Dose: [low, mid, high]\n  Ill: ['no', 'yes']\nordered: [Dose]\n"
    )
    rows = [f"{dose},{ill},{p}" for dose, ill, p in DOSES]
    (out / "cells.csv").write_text("\n".join(["Dose,Ill,probability", *rows]))
    return out


@pytest.fixture(scope="module")
def released(folder):
    """A release and a ledger, for the commands after the first."""
    PrivacyLedger(folder / "survey.ledger", GDP(1))
    run("release", folder / "records.csv", "--domain", folder / "domain.yaml", "--mu", 0.5,
        "--output", folder / "release.json", "--force")  # fmt: skip
    return folder


@pytest.mark.parametrize("name", _commands.SUMMARIES)
def test_the_examples_work_and_json_has_the_documented_keys(released, monkeypatch, name):
    monkeypatch.chdir(released)
    printed = " ".join(run(name, "--help").split())
    documented = [keys.split(", ") for keys in re.findall(r"the keys ([\w, ]+)[.;]", printed)]
    found = list(examples(name))
    force = ["--force"] if "--force" in printed else []
    for args in found:
        run(*args, *force)
    assert 0 < len(documented) <= len(found)
    ends = [(found[0], documented[0]), (found[-1], documented[-1])]
    for args, keys in ends[len(found) == 1 :]:
        assert list(json.loads(run(*args, *force, "--json"))) == keys


@pytest.mark.parametrize("name", [None, *_commands.SUMMARIES])
def test_help_fits_a_terminal(name):
    printed = run(*filter(None, [name]), "--help")
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.parametrize("name", _commands.SUMMARIES)
def test_summaries_are_the_first_lines_of_the_help(name):
    body = run(name, "--help").partition("\n\n")[2].partition("\n\n")[0]
    assert " ".join(body.split()) == _commands.SUMMARIES[name]


def test_help_lists_the_commands_without_importing_them():
    code = (
        "import sys; from dpcontingency.cli import app\n"
        "try: app(['--help'])\n"
        "finally: print(*[m for m in sys.modules if m.startswith('dpcontingency._commands.')"
        " or m in ('statsmodels', 'matplotlib')], 'so far')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    printed = done.stdout
    for name, summary in _commands.SUMMARIES.items():
        assert re.search(rf"^  {name} +{re.escape(summary)}$", printed, re.MULTILINE)
    assert printed.splitlines()[-1] == "so far"
    assert "Exit codes: 0 done, 2 refused" in printed
    assert run() == run("--help")
    assert run("--version").startswith("dpcontingency ")


def test_python_dash_m(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "dpcontingency", "fit", "no.json", "[A]"],
        check=False, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dpcontingency: There is no file no.json.\n"
