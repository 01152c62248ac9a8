"""Waiting for an engine: silent in a pipe, a line on a terminal, and gone on Ctrl-C."""

import os
import pty
import signal
import subprocess
import sys
import threading
import time

import pytest

from dpcontingency import _watch
from dpcontingency.cli import app

# A count that would take a day, of which only the first 65,536 records come at once.
LONG = """
import sys, ibis, dpcontingency as dpc
engine = ibis.duckdb.connect()
records = engine.sql("select i % 3 as a from range(10000000000000) t(i)", schema={"a": "int64"})
print("started", flush=True)
try:
    dpc.tabulate(records, dpc.Domain({"a": [0, 1, 2]}))
except KeyboardInterrupt as error:
    # The engine is the user's, and goes on.
    print("stopped", error.__context__, engine.con.execute("select 42").fetchall(), flush=True)
"""


def run(stderr):
    return subprocess.Popen(
        [sys.executable, "-c", LONG], stdout=subprocess.PIPE, stderr=stderr, text=True
    )


def test_ctrl_c_reaches_the_query():
    with run(subprocess.PIPE) as process:
        assert process.stdout.readline() == "started\n"
        time.sleep(_watch.PATIENCE + 0.5)
        process.send_signal(signal.SIGINT)
        stopped = time.perf_counter()
        out, err = process.communicate(timeout=60)
    assert time.perf_counter() - stopped < 10
    assert out == "stopped None [(42,)]\n"
    assert err == ""  # no progress in a pipe either


def test_a_line_on_a_terminal():
    ours, theirs = pty.openpty()
    with run(theirs) as process:
        os.close(theirs)
        assert process.stdout.readline() == "started\n"
        shown = b""
        while b"Counting records" not in shown:
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    os.close(ours)
    assert b"\n\n" not in shown


def test_what_a_query_returns_or_raises_comes_through():
    class Connection:
        def query_progress(self):
            return -1

    assert _watch.run_in_duckdb(lambda: 42, Connection()) == 42
    with pytest.raises(ZeroDivisionError):
        _watch.run_in_duckdb(lambda: 1 / 0, Connection())


def test_an_interrupt_is_repeated_until_the_query_hears_it(monkeypatch):
    heard = threading.Event()
    calls = []

    class Connection:
        def query_progress(self):
            raise KeyboardInterrupt

        def interrupt(self):
            calls.append(None)
            if len(calls) > 2:
                heard.set()

    monkeypatch.setattr(_watch, "PATIENCE", 0.01)
    monkeypatch.setattr(_watch, "_TICK", 0.01)
    with pytest.raises(KeyboardInterrupt):
        _watch.run_in_duckdb(lambda: heard.wait(60), Connection())
    assert heard.is_set()
    assert len(calls) == 3


def test_other_engines_are_waited_for_in_this_thread(monkeypatch, capsys):
    monkeypatch.setattr(_watch, "PATIENCE", 0.01)
    before = threading.active_count()
    with _watch.waiting():
        time.sleep(0.05)
    with pytest.raises(KeyboardInterrupt), _watch.waiting():
        raise KeyboardInterrupt
    assert threading.active_count() == before
    assert "".join(capsys.readouterr()) == ""


def test_the_command_line_says_one_line(monkeypatch, tmp_path, capsys):
    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpcontingency._commands.release.tabulate", stopped)
    (tmp_path / "d.yaml").write_text("factors: {a: [x]}")
    arguments = ["release", "r.csv", "--domain", str(tmp_path / "d.yaml"), "--mu", "1"]
    with pytest.raises(SystemExit) as caught:
        app([*arguments, "--output", str(tmp_path / "r.json")])
    assert caught.value.code == 130
    assert capsys.readouterr().err == "dpcontingency: stopped by Ctrl-C.\n"
    assert not (tmp_path / "r.json").exists()
