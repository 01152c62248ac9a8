"""The ledger on disk: never overspent, whatever crashes or runs beside it."""

import multiprocessing
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpcontingency as dpc
from dpcontingency.errors import LedgerWarning, PrivacyError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.release.release import load_release


@pytest.fixture
def path(tmp_path):
    return tmp_path / "survey.ledger"


def test_losses_compose_as_they_print(path):
    ledger = PrivacyLedger(path, GDP(0.5))
    assert (ledger.spent, ledger.remaining) == (0.0, 0.5)
    ledger.finish(ledger.reserve(GDP(0.3), "first"), "sha256:a")
    assert (ledger.spent, ledger.remaining) == (0.3, 0.4)
    ledger.finish(ledger.reserve(GDP(0.4), "second"), "sha256:b")
    assert (ledger.spent, ledger.remaining) == (0.5, 0.0)
    assert [(e.number, e.mu, e.what, e.checksum) for e in ledger.entries] == [
        (1, 0.3, "first", "sha256:a"),
        (2, 0.4, "second", "sha256:b"),
    ]
    with pytest.raises(PrivacyError, match=f"^{re.escape(str(path))} has mu = 0 left"):
        ledger.reserve(GDP(1e-9), "third")


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(0.01, 2), min_size=1, max_size=12))
def test_what_is_accepted_never_exceeds_the_budget(tmp_path_factory, losses):
    ledger = PrivacyLedger(tmp_path_factory.mktemp("ledger") / "l", GDP(2))
    accepted = []
    for mu in losses:
        before = ledger.remaining
        try:
            ledger.reserve(GDP(mu), "x")
        except PrivacyError:
            assert mu > before
            assert ledger.remaining == before
        else:
            assert mu <= before
            accepted.append(mu)
    assert sum(mu**2 for mu in accepted) <= 4 * (1 + 1e-15)
    assert ledger.spent == pytest.approx(sum(mu**2 for mu in accepted) ** 0.5)


def test_the_rest_can_always_be_spent(path):
    ledger = PrivacyLedger(path, GDP(1))
    ledger.reserve(GDP(0.7), "most")
    ledger.reserve(GDP(ledger.remaining), "the rest")
    assert ledger.spent <= 1
    assert ledger.remaining < 1e-7


def test_a_ledger_is_reopened_with_its_own_budget(path):
    PrivacyLedger(path, GDP(1)).reserve(GDP(0.6), "first")
    again = PrivacyLedger(path)
    assert (again.budget, again.spent, again.neighbours) == (GDP(1), 0.6, "replace-one")
    assert PrivacyLedger(path, GDP(1)).spent == 0.6
    with pytest.raises(PrivacyError, match=r"budget of mu = 1\.0, not 2\.0"):
        PrivacyLedger(path, GDP(2))
    with pytest.raises(PrivacyError, match="do not add up"):
        PrivacyLedger(path, neighbours="add-remove")
    with pytest.raises(PrivacyError, match="do not add up"):
        again.reserve(GDP(0.1), "other", neighbours="add-remove")
    assert again.spent == 0.6


def test_what_was_released_is_one_line_whatever_the_names(path):
    ledger = PrivacyLedger(path, GDP(1))
    ledger.reserve(GDP(0.1), "margins a\nb; \udcff")
    assert [entry.what for entry in ledger.entries] == [r"margins a\nb; \udcff"]


def test_misuse_is_one_sentence_and_spends_nothing(path, tmp_path):
    with pytest.raises(PrivacyError, match="There is no ledger"):
        PrivacyLedger(path)
    assert not path.exists()
    with pytest.raises(PrivacyError, match="Cannot open"):
        PrivacyLedger(tmp_path / "no folder" / "l", GDP(1))
    (tmp_path / "text").write_text("not a database, but long enough to be taken for one " * 40)
    with pytest.raises(PrivacyError, match="cannot be used as a privacy ledger"):
        PrivacyLedger(tmp_path / "text", GDP(1))
    ledger = PrivacyLedger(path, GDP(1))
    number = ledger.reserve(GDP(0.1), "x")
    ledger.finish(number, "sha256:a")
    for wrong in (number, 99):
        with pytest.raises(PrivacyError, match="no open entry"):
            ledger.finish(wrong, "sha256:b")


def test_a_reservation_is_spent_though_never_finished(path):
    PrivacyLedger(path, GDP(1)).reserve(GDP(0.8), "crashed")
    ledger = PrivacyLedger(path)
    assert ledger.entries[0].checksum is None
    assert ledger.remaining == 0.6


def spend(path, mu, attempts, results):
    ledger = PrivacyLedger(path)
    for _ in range(attempts):
        try:
            ledger.reserve(GDP(mu), "concurrent")
            results.put(1)
        except PrivacyError:
            results.put(0)


def test_concurrent_processes_cannot_jointly_overspend(path):
    PrivacyLedger(path, GDP(1))
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=spend, args=(path, 0.2, 15, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    accepted = sum(results.get(timeout=60) for _ in range(60))
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    assert accepted == 25  # 25 times 0.2^2 is 1
    assert PrivacyLedger(path).spent == 1.0


SPENDER = """
import sys
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.ledger import PrivacyLedger
ledger = PrivacyLedger(sys.argv[1])
print("ready", flush=True)
while True:
    number = ledger.reserve(GDP(0.01), "loop")
    print(number, flush=True)  # from here on noise could have been drawn and seen
    ledger.finish(number, "sha256:x")
"""


def test_kill_never_unspends(path):
    """Kill -9 at random moments: every reservation that was announced is in the books."""
    PrivacyLedger(path, GDP(10))
    announced = 0
    for round_ in range(3):
        command = [sys.executable, "-c", SPENDER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            numbers = [int(process.stdout.readline()) for _ in range(3)]
            time.sleep(0.02 + 0.05 * round_)  # a moment that differs
            os.kill(process.pid, signal.SIGKILL)
            numbers += [int(line) for line in process.stdout.read().split() if line.isdigit()]
        announced = max([announced, *numbers])
        ledger = PrivacyLedger(path)
        assert len(ledger.entries) >= announced
        assert ledger.spent == pytest.approx(0.01 * len(ledger.entries) ** 0.5)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    assert announced > 5


RELEASER = """
import sys
from dpcontingency.domain import Domain
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.release.publish import release_table
from dpcontingency.table import ContingencyTable
path, folder, first = sys.argv[1:]
ledger = PrivacyLedger(path)
table = ContingencyTable([[9, 0, 4], [3, 8, 2]], Domain({"A": ["a", "b"], "B": ["u", "v", "w"]}))
print("ready", flush=True)
number = int(first)
while True:
    number += 1
    release = release_table(table, GDP(0.01), ledger=ledger)
    print(number, flush=True)  # the release is out
    release.save(f"{folder}/{number}.json")
"""


def test_killed_releases_are_paid_for(path, tmp_path):
    """Kill -9 a process that releases and saves: every release that is out is in the books."""
    folder = tmp_path / "released"
    folder.mkdir()
    PrivacyLedger(path, GDP(10))
    made = 0
    for round_ in range(3):
        command = [sys.executable, "-c", RELEASER, str(path), str(folder), str(made)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            said = [int(process.stdout.readline()) for _ in range(3)]
            time.sleep(0.04 + 0.05 * round_)  # a moment that differs
            os.kill(process.pid, signal.SIGKILL)
            said += [int(line) for line in process.stdout.read().split("\n")[:-1]]
        made = max(said)
        ledger = PrivacyLedger(path)
        checksums = [entry.checksum for entry in ledger.entries if entry.checksum]
        assert len(set(checksums)) == len(checksums)
        # Each release that came back is finished in the books; at most one a round is open.
        assert len(checksums) >= made
        assert len(ledger.entries) - len(checksums) <= round_ + 1
        assert ledger.spent >= 0.01 * made**0.5 * (1 - 1e-12)
        assert ledger.spent == pytest.approx(0.01 * len(ledger.entries) ** 0.5)
        saved = sorted(folder.glob("*.json"))  # what was being written has another name
        assert {load_release(file).checksum for file in saved} <= set(checksums)
        assert len(saved) >= made - (round_ + 1)
    assert made > 5


# -- what an auditor tried ----------------------------------------------------------------------


def test_other_strata_are_another_relation(path, tmp_path):
    """Three stratified releases would publish all two-way margins of a 2x2x2 table exactly."""
    ledger = PrivacyLedger(path, GDP(1), strata=["A", "B"])
    ledger.reserve(GDP(0.1), "first", strata=["B", "A"])
    for strata in ([], ["A"], ["A", "C"]):
        with pytest.raises(PrivacyError, match="do not add up"):
            ledger.reserve(GDP(0.1), "second", strata=strata)
    with pytest.raises(PrivacyError, match="within each A, B"):
        PrivacyLedger(path, strata=[])
    assert PrivacyLedger(path).strata == ("A", "B")
    plain = PrivacyLedger(tmp_path / "plain", GDP(1))
    with pytest.raises(PrivacyError, match="within each A"):
        plain.reserve(GDP(0.1), "stratified", strata=["A"])
    assert plain.spent == 0


def test_a_ledger_that_moved_vanished_or_changed_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    ledger = PrivacyLedger("books", GDP(1))
    ledger.reserve(GDP(1), "all of it")
    monkeypatch.chdir(tmp_path / "b")
    with pytest.raises(PrivacyError, match="0 left"):
        ledger.reserve(GDP(1), "again, from another folder")
    (tmp_path / "a" / "books").unlink()
    with pytest.raises(PrivacyError, match="Cannot open"):
        ledger.reserve(GDP(1), "again, from nothing")
    assert not (tmp_path / "a" / "books").exists()
    PrivacyLedger(tmp_path / "a" / "books", GDP(5))
    with pytest.raises(PrivacyError, match="no longer the ledger"):
        ledger.reserve(GDP(1), "again, from a larger one")
    with pytest.raises(PrivacyError, match="is a file"):
        PrivacyLedger(":memory:", GDP(1))


def test_a_ledger_that_was_made_anew_is_another_one(path):
    """With the same terms, but nothing spent: whoever goes on with it spends twice."""
    ledger = PrivacyLedger(path, GDP(1))
    number = ledger.reserve(GDP(1), "all of it")
    path.unlink()
    PrivacyLedger(path, GDP(1))
    for use in (
        lambda: ledger.reserve(GDP(1), "again"),
        lambda: ledger.finish(number, "sha256:a"),
        lambda: ledger.spent,
    ):
        with pytest.raises(PrivacyError, match="no longer the ledger that was opened"):
            use()
    assert PrivacyLedger(path).spent == 0


def test_a_ledger_that_lost_entries_is_another_one(path, tmp_path):
    ledger, backup = PrivacyLedger(path, GDP(1)), tmp_path / "backup"
    shutil.copy(path, backup)
    ledger.reserve(GDP(1), "all of it")
    shutil.copy(backup, path)
    with pytest.raises(PrivacyError, match="lost entries"):
        ledger.reserve(GDP(1), "again")
    assert PrivacyLedger(path).entries == ()


def test_a_ledger_of_an_older_version_is_given_an_identity(path):
    PrivacyLedger(path, GDP(1)).reserve(GDP(0.6), "first")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("drop table identity")
        connection.commit()
    ledger = PrivacyLedger(path)
    assert ledger.spent == 0.6
    ledger.reserve(GDP(0.1), "second")
    assert PrivacyLedger(path).entries[-1].what == "second"
    path.unlink()
    PrivacyLedger(path, GDP(1))
    with pytest.raises(PrivacyError, match="made anew"):
        ledger.reserve(GDP(0.1), "third")


def test_a_database_that_is_no_ledger_stays_as_it_was(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table mine (x)")
        connection.commit()
    with pytest.raises(PrivacyError, match="cannot be used as a privacy ledger"):
        PrivacyLedger(path, GDP(1))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select name from sqlite_master").fetchall() == [("mine",)]


def test_an_empty_file_is_a_ledger_that_was_not_made_yet(path):
    path.touch()
    with pytest.raises(PrivacyError, match="There is no ledger"):
        PrivacyLedger(path)
    assert PrivacyLedger(path, GDP(1)).remaining == 1


def test_a_wrong_start_leaves_no_ledger(path):
    with pytest.raises(PrivacyError, match="did you mean 'add-remove'"):
        PrivacyLedger(path, GDP(1), neighbours="add-remov")
    assert not path.exists()
    with pytest.raises(PrivacyError, match="GDP object"):
        PrivacyLedger(path, 1.0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"strata": "A"}, r"write \['A'\]"),
        ({"strata": 3}, "`strata` is a sequence of factor names; got 3"),
        ({"strata": [("A", "B")]}, "Only one joint margin can be public"),
        ({"neighbours": "add-remove", "strata": ["A"]}, "Under add-remove no total is public"),
        ({"neighbours": []}, "no neighbour relation"),
        ({"neighbours": {}}, "no neighbour relation"),
        ({"neighbours": ""}, "no neighbour relation"),
    ],
)
def test_terms_of_another_type_are_refused(path, options, reason):
    with pytest.raises(PrivacyError, match=reason):
        PrivacyLedger(path, GDP(1), **options)
    assert not path.exists()


def test_tiny_losses_and_forged_entries_end(path):
    ledger = PrivacyLedger(path, GDP(1))
    ledger.reserve(GDP(1e-170), "next to nothing")
    assert 0 < ledger.spent <= 1.0000000000000001e-170
    assert ledger.remaining <= 1
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("insert into entry (mu, what) values ('7.0', 'forged')")
        connection.commit()
    assert ledger.remaining == 0
    with pytest.raises(PrivacyError, match="0 left"):
        ledger.reserve(GDP(1e-9), "after the forgery")


def change(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


DAMAGES = ["0,3", "nan", "inf", "-5", "0", ""]


@pytest.mark.parametrize("mu", [*(f"'{text}'" for text in DAMAGES), "null", "x'302e33'"])
def test_a_damaged_entry_is_one_sentence_wherever_the_books_are_read(path, mu):
    ledger = PrivacyLedger(path, GDP(1))
    ledger.reserve(GDP(0.3), "first")
    change(path, "alter table entry rename to old")
    change(path, "create table entry (number integer primary key, mu text, what text, checksum)")
    change(path, f"insert into entry select number, {mu}, what, checksum from old")
    for use in (
        lambda: ledger.spent,
        lambda: ledger.remaining,
        lambda: ledger.entries,
        lambda: ledger.reserve(GDP(0.1), "second"),
    ):
        with pytest.raises(
            PrivacyError, match=r"as a privacy ledger: the loss of entry 1 is .*\.$"
        ):
            use()
    assert repr(ledger).startswith("<PrivacyLedger survey.ledger: mu = 1, but the file cannot be u")


@pytest.mark.parametrize("column", ["what", "checksum"])
def test_damaged_words_are_one_sentence(path, column):
    ledger = PrivacyLedger(path, GDP(1))
    ledger.reserve(GDP(0.3), "first")
    change(path, f"update entry set {column} = x'ff'")
    with pytest.raises(PrivacyError, match="the words of entry 1 are no text"):
        _ = ledger.entries


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        *((f"update ledger set mu = '{mu}'", "its budget is") for mu in DAMAGES),
        ("update ledger set neighbours = 'near'", "its neighbour relation is 'near'"),
        ("update ledger set strata = '[1]'", "its strata are"),
        ("update ledger set strata = '\"AB\"'", "its strata are"),
        ("delete from ledger", "it has no budget"),
    ],
)
def test_damaged_terms_are_one_sentence(path, statement, reason):
    PrivacyLedger(path, GDP(1))
    change(path, statement)
    with pytest.raises(PrivacyError, match=f"cannot be used as a privacy ledger: {reason}"):
        PrivacyLedger(path)


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (lambda books: books.reserve(0.3, "x"), r"GDP object such as GDP\(mu=0.5\); got 0\.3"),
        (lambda books: books.reserve(GDP(0.1), None), "in words, a text; got None"),
        (lambda books: books.reserve(GDP(0.1), "x", strata=None), "factor names; got None"),
        (lambda books: books.reserve(GDP(0.1), "x", strata="A"), r"write \['A'\]"),
        (lambda books: books.reserve(GDP(0.1), "x", strata=[["A"]]), "Only one joint margin"),
        (lambda books: books.reserve(GDP(0.1), "x", neighbours=[]), "no neighbour relation"),
        (lambda books: books.finish([], "sha256:a"), r"by its number, .*; got \[\] and"),
        (lambda books: books.finish(1, None), "the checksum of a release, a text; got 1 and None"),
    ],
)
def test_what_is_no_argument_is_not_blamed_on_the_file(path, use, reason):
    ledger = PrivacyLedger(path, GDP(1), strata=["A"])
    ledger.reserve(GDP(0.1), "first", strata=["A"])
    with pytest.raises(PrivacyError, match=reason) as caught:
        use(ledger)
    assert str(path) not in str(caught.value)
    assert (ledger.spent, ledger.entries[0].checksum) == (0.1, None)


def test_strata_are_each_named_once(path):
    ledger = PrivacyLedger(path, GDP(1), strata=["A", "A"])
    assert ledger.strata == ("A",)
    ledger.reserve(GDP(0.1), "first", strata=["A"])


def test_a_repr_of_a_ledger_that_is_gone_says_so(path):
    ledger = PrivacyLedger(path, GDP(0.5))
    assert repr(ledger) == "<PrivacyLedger survey.ledger: mu = 0 of 0.5 spent (replace-one)>"
    path.unlink()
    assert repr(ledger) == (
        "<PrivacyLedger survey.ledger: mu = 0.5, but the file is gone (replace-one)>"
    )


# ------------------------------------------------------------------ what an error says of the loss

FULL = (
    "create trigger full before update on entry begin "
    "select raise(abort, 'database or disk is full'); end"
)
SPENT = "The loss of entry 1 stays spent, without the checksum of its release."


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: change(path, FULL),
        lambda path: path.unlink(),
        lambda path: (path.unlink(), PrivacyLedger(path, GDP(1))),
        lambda path: path.write_text("not a database, but long enough to be taken for one " * 40),
    ],
    ids=["full", "gone", "made anew", "overwritten"],
)
def test_a_finish_that_fails_does_not_say_that_nothing_was_spent(path, spoil):
    ledger = PrivacyLedger(path, GDP(1))
    number = ledger.reserve(GDP(0.3), "first")
    spoil(path)
    with pytest.raises(PrivacyError) as caught:
        ledger.finish(number, "sha256:a")
    assert SPENT in str(caught.value)
    assert "Nothing was spent" not in str(caught.value)


def test_a_reservation_that_fails_says_that_nothing_was_spent(path):
    ledger = PrivacyLedger(path, GDP(1))
    change(path, FULL.replace("update on", "insert on"))
    with pytest.raises(PrivacyError, match=r"disk is full\. Nothing was spent\.$"):
        ledger.reserve(GDP(0.3), "first")
    assert ledger.spent == 0


@pytest.mark.parametrize("margins", [False, True])
def test_a_release_that_is_paid_for_is_handed_over_though_its_note_fails(path, margins):
    ledger = PrivacyLedger(path, GDP(1))
    change(path, FULL)
    table = dpc.ContingencyTable([[20, 30], [40, 50]], dpc.Domain({"A": [0, 1], "B": [0, 1]}))
    with pytest.warns(LedgerWarning, match=re.escape(SPENT)):
        release = (
            dpc.release_margins(table, [("A",)], GDP(0.3), ledger=ledger)
            if margins
            else dpc.release_table(table, GDP(0.3), ledger=ledger)
        )
    assert release.n_total == 140
    assert [(entry.mu, entry.checksum) for entry in ledger.entries] == [(0.3, None)]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_what_is_no_plain_file_is_refused_and_gets_no_journal(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(PrivacyError, match="it is no plain file"):
            PrivacyLedger(path, GDP(1))
    assert os.listdir(tmp_path) == ["pipe"]
