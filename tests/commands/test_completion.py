"""Completion in real shells: names of factors, which come from somebody else's file, stay text."""

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from dpcontingency._commands._shared import factors_in_file
from dpcontingency.domain import Domain
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release

PLAIN = ["Age_1", "Age-2", "Age.3"]
HOSTILE = [
    r"Age\$(touch ran)", "Age$(touch ran)", "Age`touch ran`", "Age;touch ran", "Age|touch ran",
    "Age&touch ran&", "Age>ran", "Age\ntouch ran\n", "Age' $(touch ran) '", 'Age" $(touch ran) "',
    "Age ${x:=$(touch ran)}", "Age=(touch ran)", "-Age", "~Age", "Age*", "Age]",
    "Age:[$(touch ran)]",
]  # fmt: skip
SET_UP = {
    "bash": (["--noprofile", "--norc", "-i"], 'eval "$(dpcontingency --show-completion bash)"'),
    "zsh": (
        ["-f", "-i"],
        "autoload -U compinit; compinit -u -D; unsetopt beep; "
        'eval "$(dpcontingency --show-completion zsh)"',
    ),
}
PATIENCE = 60  # seconds, of a loaded machine


@pytest.fixture
def folder(tmp_path):
    """A release of hostile names, and the command on the path."""
    names = [*PLAIN, *HOSTILE]
    domain = Domain({name: ["a", "b"] if name in PLAIN else ["a"] for name in names})
    release = simulate_release(np.full(domain.shape, 5), domain, GDP(1), np.random.default_rng(1))
    release.save(tmp_path / "r.json")
    command = tmp_path / "bin" / "dpcontingency"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m dpcontingency "$@"\n')
    command.chmod(0o755)
    return tmp_path


class Terminal:
    """A shell in a terminal of its own."""

    def __init__(self, argv, folder):
        self.seen = ""
        self.end, theirs = pty.openpty()
        environment = os.environ | {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
            "TERM": "dumb",
            "HOME": str(folder),
        }
        self.process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)

    def type(self, keys):
        os.write(self.end, keys.encode())

    def wait_for(self, pattern):
        """Read until a pattern has come since the last time; what was read."""
        until = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < until, self.seen
            if select.select([self.end], [], [], 0.1)[0]:
                self.seen += os.read(self.end, 65536).decode(errors="replace")
        read, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return read

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.end)


@pytest.mark.parametrize("shell", SET_UP)
def test_no_name_of_a_file_runs_or_is_inserted(folder, shell):
    if shutil.which(shell) is None:
        assert not os.environ.get("CI"), f"{shell} is missing"
        pytest.skip(f"{shell} is not installed")
    options, set_up = SET_UP[shell]
    terminal = Terminal([shell, *options], folder)
    try:
        terminal.type(f"{set_up}; echo set-$((40+2))\n")
        terminal.wait_for("set-42")
        terminal.type("dpcontingency test r.json Age\t\t")
        offered = "".join(terminal.wait_for(re.escape(name)) for name in sorted(PLAIN))
        # The line is left as it stands, and another shows that the shell is ready again.
        terminal.type("\x15echo ready-$((40+2))\n")
        offered += terminal.wait_for("ready-42")
        terminal.type("dpcontingency test r.json Age_\t")
        terminal.wait_for("Age_1")
    finally:
        terminal.close()
    assert not (folder / "ran").exists()
    assert "touch" not in offered


@pytest.mark.parametrize("name", HOSTILE)
def test_what_needs_quoting_is_not_offered(folder, name):
    context = SimpleNamespace(params={"release": folder / "r.json"})
    for end in (0, 1, len(name) // 2, len(name)):
        assert set(factors_in_file(context, name[:end])) <= set(PLAIN)
