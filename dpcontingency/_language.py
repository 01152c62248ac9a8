"""How messages name what a caller can set: as Python's arguments, or as a command's options.

One message serves both callers. Where it names an argument it asks `argument`, and where the
advice differs as a whole it asks `phrase`; the command line says what its options are called by
`speaking`, and nothing has to be replaced in a finished sentence.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# The options of the command that runs, by the name of the argument; None where Python calls.
_OPTIONS: ContextVar[Mapping[str, str] | None] = ContextVar("options", default=None)


@contextmanager
def speaking(options: Mapping[str, str]) -> Iterator[None]:
    """Name arguments by these options inside the block; others keep their names, unquoted."""
    token = _OPTIONS.set(options)
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def argument(name: str, value: Any = None) -> str:
    """What the caller calls an argument, with a value if there is one (``...`` stands for any).

    Examples
    --------
    >>> argument("rng"), argument("missing", "drop"), argument("given", ...)
    ('`rng`', "missing='drop'", 'given=...')
    >>> with speaking({"rng": "--seed", "missing": "--missing"}):
    ...     argument("rng"), argument("missing", "drop")
    ('--seed', '--missing drop')
    """
    options = _OPTIONS.get()
    if options is None:
        return f"`{name}`" if value is None else f"{name}={'...' if value is ... else repr(value)}"
    option = options.get(name, name)
    return option if value is None or value is ... else f"{option} {shlex.quote(str(value))}"


def phrase(python: str, command: str) -> str:
    """The words for who calls from Python, or for who runs a command.

    Examples
    --------
    >>> phrase("release.margin('A')", "fewer factors")
    "release.margin('A')"
    """
    return python if _OPTIONS.get() is None else command
