"""Broken inputs, closed pipes, Ctrl-C, full disks, faults: one line, and nothing half-written."""

import contextlib
import errno
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import warnings

import pytest

from dpcontingency import _commands, _writing, cli
from dpcontingency._commands import privacy
from dpcontingency._demo_data import demo_file
from dpcontingency.domain import Domain
from dpcontingency.errors import PrecisionWarning
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.release.release import Release, load_release
from tests.command_line import invoke, refused, run

RECORDS = demo_file("ucb_admissions_records.csv")
DOMAIN = demo_file("ucb_admissions_domain.yaml")

BROKEN = {
    "empty": b"",
    "binary": bytes(range(256)) * 40,
    "utf16": "factors: x".encode("utf-16"),
    "json": b'{"format": "dpcontingency-release"}',
    "deep": b"[" * 100_000,
    "list": b"[1, 2]",
    "number": b"1e400",
    "records": b"A,B\na,u\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Broken files of all kinds, and a release."""
    out = tmp_path_factory.mktemp("broken")
    for name, content in BROKEN.items():
        (out / name).write_bytes(content)
    (out / "dir").mkdir()
    Release.exact([[30, 20], [10, 40]], Domain({"A": ["a", "b"], "B": ["u", "v"]})).save(
        out / "r.json"
    )
    return out


@pytest.mark.parametrize("name", [*BROKEN, "dir", "absent", "dir/absent", "empty/absent"])
def test_broken_files_are_refused_by_name(folder, tmp_path, name):
    path, out = folder / name, tmp_path / "out"
    for args in (
        ("test", path, "A", "B"),
        ("fit", path, "[A]"),
        ("report", path, "--output", f"{out}.html"),
        ("privacy", path),
    ):
        assert str(path) in refused(*args), args
    refused("release", path, "--domain", DOMAIN, "--mu", 1, "--output", out)
    said = refused("release", RECORDS, "--domain", path, "--mu", 1, "--output", out)
    assert str(path) in said
    refused("init", path, "--output", out)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_kind_is_named(folder, tmp_path):
    run("fit", folder / "r.json", "[A][B]", "--output", tmp_path / "fit.json")
    said = refused("test", tmp_path / "fit.json", "A", "B")
    assert "but a dpcontingency-results file" in said


def test_a_mark_that_an_editor_added_does_no_harm(folder, tmp_path):
    content = (folder / "r.json").read_bytes()
    (tmp_path / "r.json").write_bytes(b"\xef\xbb\xbf" + content)
    assert load_release(tmp_path / "r.json").domain == load_release(folder / "r.json").domain


def test_messages_are_one_line_whatever_names_hold(folder):
    said = refused("test", folder / "r.json", "A\n\x1b[31mB", "B")
    assert "\x1b" not in said


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("initt", "init"), ("reprot", "report"), ("Fit", "fit"), ("relase", "release")],
)
def test_the_nearest_command_is_named(typed, meant):
    assert f"did you mean '{meant}'?" in refused(typed)


def test_a_fault_does_not_quote_records(folder, monkeypatch):
    def fail(path):
        raise KeyError("HIV positive")

    monkeypatch.setattr("dpcontingency._commands.fit.load_release", fail)
    result = invoke("fit", folder / "r.json", "[A]")
    assert result.exit_code == cli.FAULT
    (line,) = result.stderr.splitlines()
    assert "A fault of dpcontingency (KeyError in test_robustness.py, line " in line
    assert "HIV" not in line
    monkeypatch.setenv(cli.TRACEBACK, "1")
    assert "HIV positive" in invoke("fit", folder / "r.json", "[A]").stderr


def test_memory_that_runs_out_is_refused(folder, monkeypatch):
    def fail(path):
        raise MemoryError

    monkeypatch.setattr("dpcontingency._commands.fit.load_release", fail)
    assert "not enough memory" in refused("fit", folder / "r.json", "[A]")


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("command", ["release", "fit", "report", "init", "plan"])
def test_nothing_half_written_stays(folder, tmp_path, monkeypatch, command, failure):
    def fail(descriptor):
        raise failure

    old = tmp_path / "old.svg" if command == "plan" else tmp_path / "old.html"
    old.write_text("before")
    monkeypatch.setattr(_writing.os, "fsync", fail)
    args = {
        "release": ("release", RECORDS, "--domain", DOMAIN, "--mu", 1, "--output", old),
        "fit": ("fit", folder / "r.json", "[A]", "--output", old),
        "report": ("report", folder / "r.json", "--output", old),
        "init": ("init", RECORDS, "--output", old),
        "plan": ("plan", "--odds-ratio", 2, "--n", 99, "--mu", 1, "--curve", old),
    }[command]
    result = invoke(*args, "--force")
    assert result.exit_code == (2 if isinstance(failure, OSError) else 130)
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert ("No space left" if isinstance(failure, OSError) else "stopped by Ctrl-C") in line
    assert [path.name for path in tmp_path.iterdir()] == [old.name]
    assert old.read_text() == "before"


def test_a_demo_replaces_its_own_files_only(tmp_path, folder):
    (tmp_path / "release.json").write_bytes((folder / "r.json").read_bytes())
    before = (tmp_path / "release.json").read_bytes()
    assert "no demo wrote it" in refused("demo", "--output", tmp_path)
    assert (tmp_path / "release.json").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / "release.json").unlink()
    (tmp_path / "report.html").write_text("mine")
    said = refused("demo", "--output", tmp_path)
    assert "no demo wrote it: choose another --output, or pass --force" in said
    assert (tmp_path / "report.html").read_text() == "mine"
    (tmp_path / "report.html").unlink()
    (tmp_path / "report.html").mkdir()
    assert "report.html is a folder" in refused("demo", "--output", tmp_path, "--force")


def test_a_misuse_starts_no_ledger(tmp_path):
    args = ("release", RECORDS, "--domain", DOMAIN, "--output", tmp_path / "r.json", "--mu", 1,
            "--ledger", tmp_path / "books", "--budget", 1)  # fmt: skip
    refused(*args, "--weights", "no")
    assert list(tmp_path.iterdir()) == []
    run(*args)
    assert PrivacyLedger(tmp_path / "books").spent == 1
    said = refused("privacy", tmp_path / "other")
    assert "--ledger and --budget starts one" in said
    (tmp_path / "empty").touch()
    said = refused("privacy", tmp_path / "empty")
    assert said.startswith(f"There is no ledger {tmp_path / 'empty'}: release with --ledger and ")


def test_a_damaged_ledger_is_one_line(tmp_path):
    PrivacyLedger(tmp_path / "books", GDP(1)).reserve(GDP(0.3), "first")
    with contextlib.closing(sqlite3.connect(tmp_path / "books")) as connection:
        connection.execute("update entry set mu = '-5'")
        connection.commit()
    assert "the loss of entry 1 is '-5'" in refused("privacy", tmp_path / "books")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--mu", 2, "--budget", 1], "asks for mu = 2, which exceeds --budget 1"),
        (["--mu", 1, "--budget", -1], "--budget is a positive finite number, in mu; got -1"),
        (["--mu", 1, "--budget", "nan"], "--budget is a positive finite number"),
        (["--mu", 1, "--budget", "inf"], "--budget is a positive finite number"),
        (["--mu", 1e-13, "--budget", 1], "The loss is so small"),
        (["--mu", 1, "--budget", 1, "--strata", "Admit", "--neighbours", "add-remove"],
         "no total is public"),
        (["--mu", 1, "--budget", 1, "--mechanism", "BlockJamesStein"], "structural zeros"),
    ],
)  # fmt: skip
def test_a_release_that_cannot_be_made_starts_no_ledger(tmp_path, asked, said):
    domain = Domain.from_yaml(DOMAIN)
    Domain(
        domain.levels, structural_zeros=[{"Admit": "Rejected", "Gender": "Male", "Dept": "F"}]
    ).to_yaml(tmp_path / "holed.yaml")
    holed = tmp_path / "holed.yaml" if "BlockJamesStein" in asked else DOMAIN
    (tmp_path / "few.csv").write_text("Admit,Gender,Dept\nAdmitted,Male,A\n")
    args = ("release", tmp_path / "few.csv", "--domain", holed, "--output", tmp_path / "r.json")
    assert said in refused(*args, "--ledger", tmp_path / "books", *asked)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["few.csv", "holed.yaml"]


def test_a_release_of_no_records_says_so(tmp_path):
    (tmp_path / "none.csv").write_text("Admit,Gender,Dept\n")
    args = ("release", tmp_path / "none.csv", "--domain", DOMAIN, "--mu", 1)
    for more in ((), ("--margins", "Admit;Dept")):
        result = invoke(*args, "--output", tmp_path / "r.json", "--force", *more)
        assert result.exit_code == 0
        assert result.stderr == (
            "dpcontingency: There were no records to count, so this is the release of an empty "
            "table.\n"
        )
    # Where n is not public it is confidential that there are none.
    run(*args, "--output", tmp_path / "free.json", "--neighbours", "add-remove")


def test_warnings_are_one_clean_line(folder, monkeypatch):
    def warned(*_):
        warnings.warn("Numbers were cut; send others.", PrecisionWarning, stacklevel=1)
        warnings.warn("someone else's", RuntimeWarning, stacklevel=1)
        return GDP(1)

    monkeypatch.setattr(privacy, "loss", warned)
    with pytest.warns(RuntimeWarning, match="someone else's") as others:
        result = invoke("privacy", "--mu", 1)
    assert result.exit_code == 0
    assert result.stderr == "dpcontingency: Numbers were cut; send others.\n"
    assert len(others) == 1


def test_names_with_line_breaks_tear_no_table(tmp_path):
    domain = Domain({"A\nx": ["a\nb", "c"], "B": ["u", "v\r\nw"]})
    Release.exact([[30, 20], [10, 40]], domain).save(tmp_path / "r.json")
    printed = run("fit", tmp_path / "r.json", "[`A\nx` B]")
    table = printed[printed.index("coef") : printed.index("[1]")].splitlines()
    assert [line.split()[0] for line in table[2:-2]] == [
        r"A\nx[T.c]", r"B[T.v\r\nw]", r"A\nx[T.c]:B[T.v\r\nw]",
    ]  # fmt: skip
    printed = run("test", tmp_path / "r.json", "A\nx", "B")
    assert all(re.match(r"[A-Z][A-Za-z -]*: ", line) for line in printed.splitlines())
    assert json.loads(run("fit", tmp_path / "r.json", "[`A\nx` B]", "--json"))["coefficients"]


def test_names_that_are_no_unicode_text(tmp_path):
    (tmp_path / "r.csv").write_text("A,B\nc,u\nc,v\n")
    Domain({"A": ["\ud800", "c"], "B": ["u", "v"]}).to_yaml(tmp_path / "d.yaml")
    args = ("release", tmp_path / "r.csv", "--domain", tmp_path / "d.yaml", "--mu", 1)
    for more in ((), ("--margins", "A,B")):
        output = tmp_path / f"r{len(more)}.json"
        assert json.loads(run(*args, "--output", output, *more, "--json"))["factors"]["A"] == 2
        page = tmp_path / f"{output.name}.html"
        for asked in (
            ["fit", output, "[A B]"],
            ["test", output, "A", "B"],
            ["report", output, "--output", page],
        ):
            assert "no Unicode text, which the names of coefficients" in refused(*asked)


def test_a_loss_in_every_currency():
    content = json.loads(run("privacy", "--epsilon", 1, "--delta", 1e-6, "--json"))
    assert content["epsilon"] <= 1
    printed = run("privacy", "--mu", content["mu"])
    assert re.search(r"At delta = 1e-06: +epsilon = 1\b", printed)
    assert "Name a ledger file, or say a loss" in refused("privacy")
    assert "Name a ledger file, or say a loss" in refused("privacy", "books", "--mu", 1)


# ------------------------------------------------------------------ as a process


def start(code, *args):
    """The program after some code, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{code}; from dpcontingency.cli import main; main()", *args],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_reader_that_goes_away_is_no_error():
    with start("import dpcontingency", "privacy", "--mu", "1") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(timeout=120) == cli.CLOSED_PIPE


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["release", "--help"], []])
def test_help_for_a_reader_that_goes_away_is_no_error(args):
    with start("import dpcontingency", *args) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(timeout=120) == cli.CLOSED_PIPE


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("args", [["--help"], ["privacy", "--mu", "1"]])
def test_a_full_device_is_one_line(args):
    code = f"import sys; sys.argv[1:] = {args!r}; from dpcontingency.cli import main; main()"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == cli.MISUSE
    said = "Cannot print the result: No space left on device. Print it to somewhere else."
    assert done.stderr == f"dpcontingency: {said}\n"


def test_ctrl_c_is_one_line():
    # Ctrl-C is what it is on a terminal, whoever started the tests.
    code = (
        "import signal, time, dpcontingency._commands.privacy as privacy; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        "privacy.loss = lambda *said: (print('started', flush=True), time.sleep(60))"
    )
    with start(code, "privacy", "--mu", "1") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (130, "", "dpcontingency: stopped by Ctrl-C.\n")


SHELLS = {
    "bash": {"COMP_WORDS": "dpcontingency {}", "COMP_CWORD": "{n}"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "dpcontingency {}"},
    "fish": {"_TYPER_COMPLETE_ARGS": "dpcontingency {}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


@pytest.mark.parametrize(
    ("shell", "typed", "offered"),
    [
        ("bash", "re", {"release", "report"}),
        ("zsh", "re", {"release", "report"}),
        ("fish", "re", {"release", "report"}),
        ("bash", "test r.json A", {"A"}),
        ("bash", "test r.json --kind mar", {"marginal-homogeneity"}),
        ("bash", "plan --od", {"--odds-ratio"}),
        ("bash", "test binary A", set()),
    ],
)
def test_shells_complete(folder, monkeypatch, shell, typed, offered):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("_DPCONTINGENCY_COMPLETE", f"complete_{shell}")
    for name, value in SHELLS[shell].items():
        monkeypatch.setenv(name, value.format(typed, n=len(typed.split())))
    result = invoke()
    words = set(re.findall(r"[\w-]+", result.stdout.replace(": ", "")))
    known = {*_commands.SUMMARIES, "A", "B", "marginal-homogeneity", "--odds-ratio", "symmetry"}
    assert words & known == offered
    assert result.exit_code == 0
    assert result.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_told_how_to_complete(shell, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    printed = run("--show-completion", shell)
    assert "_DPCONTINGENCY_COMPLETE" in printed


@pytest.mark.parametrize("output", ["r.csv", "d.yaml", "books", "books-journal"])
def test_no_output_replaces_another_file_of_the_command(tmp_path, output):
    records, domain, books = (tmp_path / name for name in ("r.csv", "d.yaml", "books"))
    records.write_text("g\na\nb\n")
    domain.write_text("factors: {g: [a, b]}")
    asked = ["release", records, "--domain", domain, "--mu", 1, "--ledger", books, "--budget", 2]
    said = refused(*asked, "--output", tmp_path / "x" / ".." / output, "--force")
    assert "There is no folder" in said or "is another file of this command too" in said
    said = refused(*asked, "--output", tmp_path / output, "--force")
    assert "is another file of this command too" in said
    assert records.read_text() == "g\na\nb\n"
    assert not books.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_an_output_that_is_no_plain_file_is_refused_before_anything_is_spent(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    asked = ["release", RECORDS, "--domain", DOMAIN, "--mu", 1, "--ledger", tmp_path / "books"]
    said = refused(*asked, "--budget", 2, "--output", tmp_path / "pipe", "--force")
    assert "is no plain file" in said
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_losses_beyond_floats_are_null_in_json():
    assert json.loads(run("privacy", "--mu", 1e200, "--json"))["epsilon"] is None


@pytest.fixture
def spending(tmp_path):
    """What spends from a ledger, but for the output."""
    return ["release", RECORDS, "--domain", DOMAIN, "--mu", 1, "--budget", 2,
            "--ledger", tmp_path / "books"]  # fmt: skip


def test_a_release_says_which_ledger_it_spent_from_and_whether_that_is_new(tmp_path, spending):
    asked = [*spending, "--output", tmp_path / "r.json", "--force"]
    asked[asked.index("--budget") + 1] = 3
    books = tmp_path / "books"
    assert f"Ledger:     {books}, started by this release; mu = 2.82843 of 3 left" in run(*asked)
    assert f"Ledger:     {books}, continued; mu = 2.64575 of 3 left" in run(*asked)
    books.unlink()  # older losses are forgotten with it
    state = json.loads(run(*asked, "--json"))["ledger"]
    assert state == {"file": str(books), "new": True, "remaining": pytest.approx(8**0.5)}


def test_a_loss_that_saved_nothing_is_said_to_be_spent(tmp_path, spending, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_writing.os, "fsync", full)
    for number in (1, 2):
        said = refused(*spending, "--output", tmp_path / "r.json")
        assert "No space left on device. Make room there, or choose another place." in said
        assert f"mu = 1, stays spent as entry {number} of {tmp_path / 'books'}" in said
        assert said.endswith("and the release is lost.")
    monkeypatch.undo()
    assert "Left:       mu = 1.41421" in run("privacy", tmp_path / "books")


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_spent(
    tmp_path, spending, folder
):
    (tmp_path / "dangling.json").symlink_to("nowhere/x.json")
    (tmp_path / "loop.json").symlink_to("loop.json")
    there = sorted(os.listdir(tmp_path))
    for name, reason in (
        ("x" * 5000, "File name too long"),
        (f"{'x' * 300}.json", "File name too long"),
        ("dangling.json", f"a link into {tmp_path / 'nowhere'}, and there is no such folder"),
        ("loop.json", "a link that leads back to itself"),
        ("loop.json/x.json", "There is no folder"),
    ):
        for asked in (spending, ["fit", folder / "r.json", "[A]"], ["init", RECORDS]):
            for force in ((), ("--force",)):
                assert reason in refused(*asked, "--output", tmp_path / name, *force)
    assert sorted(os.listdir(tmp_path)) == there


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")
def test_a_folder_that_takes_no_files_is_refused_before_anything_is_spent(tmp_path, spending):
    assert "Cannot write /proc/r.json" in refused(*spending, "--output", "/proc/r.json")
    assert os.listdir(tmp_path) == []


def test_a_long_name_that_fits_is_written(tmp_path, spending):
    run(*spending, "--output", tmp_path / f"{'x' * 250}.json")
    assert PrivacyLedger(tmp_path / "books").spent == 1
    assert (tmp_path / f"{'x' * 250}.json").exists()


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
@pytest.mark.parametrize("records", ["v/*.csv", "v/[ab].csv", "**/*.csv", "file://{}/v/*.csv"])
def test_no_output_replaces_one_of_many_records(tmp_path, monkeypatch, records):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v").mkdir()
    for name in ("a", "b"):
        (tmp_path / "v" / f"{name}.csv").write_text("g\na\nb\n")
    (tmp_path / "link.csv").symlink_to("v/a.csv")
    (tmp_path / "d.yaml").write_text("factors: {g: [a, b]}")
    records = records.format(tmp_path)
    for output in ("v/a.csv", tmp_path / "v" / "b.csv", "v/../v/b.csv", "link.csv"):
        for asked in (["init", records], ["release", records, "--domain", "d.yaml", "--mu", 1]):
            said = refused(*asked, "--output", output, "--force")
            assert "is another file of this command too" in said
    assert {path.read_text() for path in tmp_path.glob("v/*")} == {"g\na\nb\n"}


@pytest.mark.parametrize("option", ["--domain", "--alternative", "--null"])
def test_no_curve_replaces_a_file_that_is_planned_with(tmp_path, option):
    path = tmp_path / "input.svg"
    path.write_text("mine")
    said = refused("plan", option, path, "--curve", path, "--force")
    assert "is another file of this command too" in said
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--n", "1e3"], "--n is a whole number, such as 1000."),
        (["--n", "1.5"], "--n is a whole number, such as 1000."),
        (["--n", "1" * 5000], "--n is a whole number, such as 1000."),
        (["--n", "9", "--mu", "0,3"], "--mu is a number, such as 0.5."),
    ],
    ids=["text", "fraction", "long", "comma"],
)
def test_what_is_no_number_is_refused_in_our_words(typed, said):
    assert refused("plan", "--odds-ratio", 2, *typed) == said
