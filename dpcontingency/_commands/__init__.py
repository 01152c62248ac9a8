"""The commands, a module each: what it is called with, the work, what it prints.

A module has ``run``, the function that typer reads options and help from; ``EPILOG``, the help
under the options; and where they differ, ``ARGUMENTS``: the names of options by the names of the
arguments that messages speak of.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand

from dpcontingency._labels import on_lines, on_one_line
from dpcontingency._language import speaking

# In the order of the work. The summaries are the first lines of the commands' help.
SUMMARIES = {
    "init": "Draft a domain file from records, for you to edit and confirm.",
    "plan": "Plan a test, or margins, before any privacy is spent.",
    "release": "Tabulate confidential records and release the table with noise.",
    "test": "Test a hypothesis, such as independence, on a release.",
    "fit": "Fit a log-linear model to a release.",
    "report": "Write a report of a release: HTML, Markdown or JSON.",
    "privacy": "Print a privacy ledger, or a loss in every currency.",
    "demo": "Run the whole job on the Berkeley admissions data.",
}


def echo(line: str) -> None:
    """One line on standard output, with escapes for what names in it would tell a terminal."""
    typer.echo(on_one_line(line))


def echo_page(text: str) -> None:
    """Several lines on standard output, whose line breaks are meant as such."""
    typer.echo(on_lines(text))


def say(text: str) -> None:
    """One line on standard error, whatever line breaks or odd characters names have in them."""
    typer.echo(on_one_line(" ".join(f"dpcontingency: {text}".split())), err=True)


class Spoken(TyperCommand):
    """A command whose errors name its options, as its user knows them."""

    arguments: Mapping[str, str] = {}

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        named = {
            str(parameter.name): str(
                parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar
            )
            for parameter in self.params
        }
        named |= {name: named.get(option, option) for name, option in self.arguments.items()}
        with speaking(named):
            return super().invoke(ctx)


def load(name: str) -> TyperCommand:
    """Import a command.

    Which takes the seconds that NumPy, SciPy and statsmodels need: help on the program as a whole,
    and completion of a command's name, do without.
    """
    module = import_module(f"{__name__}.{name}")
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, cls=Spoken, epilog=module.EPILOG)(module.run)
    command = typer.main.get_command(app)
    assert isinstance(command, Spoken)
    command.arguments = getattr(module, "ARGUMENTS", {})
    return command
