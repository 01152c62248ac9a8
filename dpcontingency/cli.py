"""The command line: parses, calls, prints. Every number comes from the objects it calls.

Each command has a module in `_commands`, which is imported when it runs; what they share, and what
becomes of errors, is here.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from dpcontingency import _commands
from dpcontingency._commands import say
from dpcontingency.errors import DPContingencyError, DPContingencyWarning, did_you_mean

FAULT = 1
MISUSE = 2
INTERRUPTED = 130  # what typer, and a shell, say of a program that Ctrl-C stopped
CLOSED_PIPE = 141  # what a shell says of a program whose reader went away, as in `... | head`

# Set to anything, it shows Python's traceback of a fault, which may quote confidential records.
TRACEBACK = "DPCONTINGENCY_TRACEBACK"

# What a user can mend: beside the package's errors and the file system's, whatever typer raises on
# misuse, which are click's errors under names that typer keeps private.
_REFUSALS: tuple[type[Exception], ...] = (
    DPContingencyError,
    OSError,
    MemoryError,
    *(
        kind
        for kind in typer.BadParameter.__mro__
        if issubclass(kind, Exception) and hasattr(kind, "format_message")
    ),
)


class OneLineErrors(TyperGroup):
    """Commands whose every failure is one line on standard error, and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run, and turn misuse and the package's errors into one line."""
        kwargs["standalone_mode"] = False
        try:
            with _clean_warnings():
                code = super().main(*args, **kwargs)
            if sys.stdout is not None:  # which was closed
                sys.stdout.flush()
        except (typer.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except BrokenPipeError:
            _leave_quietly()
        except _REFUSALS as error:
            say(_in_words(error))
            raise SystemExit(MISUSE) from None
        except Exception as error:
            _fault(error)
        if code == INTERRUPTED:
            say("stopped by Ctrl-C.")
        raise SystemExit(code if isinstance(code, int) else 0)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the options, of which help prints; for a reader that went away see `invoke`."""
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            _leave_quietly()

    def invoke(self, ctx: Any) -> Any:
        """Run a command; typer would make a fault of a reader that went away."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _leave_quietly()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of a name; a name that is unknown is refused with the nearest."""
        name = args[0] if args else ""
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            raise typer.BadParameter(
                f"There is no command {name!r}; {did_you_mean(name, self.commands)}"
            )
        return super().resolve_command(ctx, args)


class Deferred(TyperCommand):
    """The name and summary of a command whose module is imported when the command is asked for."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """The context of the real command."""
        return _commands.load(str(self.name)).make_context(info_name, args, parent, **extra)


@contextmanager
def _clean_warnings() -> Iterator[None]:
    """The package's warnings as a line each, without the place in its code."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, DPContingencyWarning):
            say(str(message))
        else:
            usual(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _in_words(error: Exception) -> str:
    if hasattr(error, "format_message"):
        text = str(error.format_message())
        near = list(getattr(error, "possibilities", None) or ())
        if near:
            return f"No such option: {getattr(error, 'option_name', '')}; did you mean {near[0]}?"
        number = re.match(r"Invalid value for '(.+?)': .*\b(integer|float|number)\b", text, re.S)
        if number:
            kind = "whole number, such as 1000" if number[2] == "integer" else "number, such as 0.5"
            return f"{number[1]} is a {kind}."
        return text.removeprefix("Invalid value: ")  # its words for a message that has its own
    if isinstance(error, OSError) and error.strerror is not None:
        if error.filename is None:  # which files have, and standard output has not
            return f"Cannot print the result: {error.strerror}. Print it to somewhere else."
        return f"Cannot use {error.filename}: {error.strerror}."
    if isinstance(error, MemoryError):
        return "There is not enough memory for this table: use fewer factors, or margins."
    return str(error)


def _leave_quietly() -> NoReturn:
    """Nobody reads on: nothing may be written any more, not even by Python at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(CLOSED_PIPE)


def _fault(error: Exception) -> NoReturn:
    """What nobody foresaw: where it was, and not in its own words, which may quote records."""
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
        raise SystemExit(FAULT)
    last = traceback.extract_tb(error.__traceback__)[-1]
    say(
        f"A fault of dpcontingency ({type(error).__name__} in {Path(last.filename).name}, line "
        f"{last.lineno}), not of yours: please report it. With {TRACEBACK}=1 in the environment "
        "the traceback is shown, which may quote records."
    )
    raise SystemExit(FAULT)


app = typer.Typer(
    cls=OneLineErrors,
    name="dpcontingency",
    epilog="""\b
Start with: dpcontingency demo
Exit codes: 0 done, 2 refused (one line on standard error says why and what
to do), 1 a fault of the program, 130 stopped by Ctrl-C.""",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dpcontingency {version('dpcontingency')}")
        raise typer.Exit()


@app.callback()
def _root(
    context: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Private contingency tables, and log-linear inference that allows for their noise."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _deferred() -> None:
    """Stands where a command's own function is imported later."""


for _name, _summary in _commands.SUMMARIES.items():
    app.command(_name, cls=Deferred, help=_summary)(_deferred)


def main() -> None:
    """Run the command line."""
    app(prog_name="dpcontingency")
