"""Running the command line in tests, and what every line of refusal must look like."""

import re

from typer.testing import CliRunner

from dpcontingency import cli

# What belongs to Python and not to a command line: arguments, calls (but for those of a formula),
# code in backticks, types.
PYTHON = re.compile(
    r"\b\w+=[\w'\"\[.]|\b(?!score|Diag|Symm|log)\w+\([^)\s]*\)?\B|\.(?!log)\w+\("
    r"|`[a-z_]{2,}`|\b(GDP|DataFrame|data frame|numpy|rng|n_boot|Python|Traceback)\b"
)


def invoke(*args):
    return CliRunner().invoke(cli.app, [str(arg) for arg in args], prog_name="dpcontingency")


def run(*args):
    """A command that must succeed: what it printed."""
    result = invoke(*args)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def refused(*args):
    """A command that must fail: its one line, in the command line's own language."""
    result = invoke(*args)
    assert result.exit_code == cli.MISUSE, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("dpcontingency: ")
    said = line.removeprefix("dpcontingency: ")
    assert not PYTHON.search(said), said
    return said
