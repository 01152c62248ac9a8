"""Large packages that are loaded when something of them is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Later:
    """Stands for a module: each attribute is the module's own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


def later(name: str) -> Any:
    """A module of another package, imported when an attribute of it is first asked for.

    Tabulation takes Ibis, DuckDB, Arrow and pandas, which are most of what a process that only
    reads releases would load. Unlike `importlib.util.LazyLoader` this leaves ``sys.modules`` as it
    is, so other packages see nothing of it.

    Examples
    --------
    >>> fractions = later("fractions")
    >>> fractions.Fraction(6, 4)
    Fraction(3, 2)
    """
    return _Later(name)
