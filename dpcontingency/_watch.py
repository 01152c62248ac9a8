"""Waiting for an engine: a line on a terminal, and Ctrl-C that reaches the query."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

T = TypeVar("T")

PATIENCE = 1.0  # seconds before anything is shown
_TICK = 0.1


class _Line:
    """One line on standard error while a query runs; nothing where that is no terminal."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def show(self, percentage: float | None) -> None:
        """Draw the line, with how much is done where the engine says so (below 0: it does not)."""
        if not sys.stderr.isatty():
            return
        if self._progress is None:
            self._progress = Progress(
                TextColumn("Counting records"),
                BarColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.add_task("", total=None)
            self._progress.start()
        if percentage is not None and 0 <= percentage <= 100:
            self._progress.update(self._progress.task_ids[0], total=100, completed=percentage)

    def close(self) -> None:
        """Wipe the line."""
        if self._progress is not None:
            self._progress.stop()


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Show a line while the caller waits for an engine that takes Ctrl-C itself."""
    line, done = _Line(), threading.Event()

    def watch() -> None:
        if not done.wait(PATIENCE):
            line.show(None)
            done.wait()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        line.close()


def run_in_duckdb(work: Callable[[], T], connection: Any) -> T:
    """Run a query of a DuckDB connection so that Ctrl-C interrupts it.

    DuckDB looks for signals between the steps of a query only, which may be minutes apart, so the
    query has a thread of its own and this one waits.
    """
    line, done = _Line(), threading.Event()
    progress = getattr(connection, "query_progress", lambda: None)  # older DuckDB has none
    results: list[T] = []
    failures: list[BaseException] = []

    def query() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    worker = threading.Thread(target=query, daemon=True)
    worker.start()
    try:
        if not done.wait(PATIENCE):
            while not done.wait(_TICK):
                line.show(progress())
    except BaseException:
        while worker.is_alive():  # a query that has not begun yet does not hear the first call
            connection.interrupt()
            worker.join(_TICK)
        raise
    finally:
        line.close()
    worker.join()
    if failures:
        # Its traceback holds frames of the worker, whose locals are records' batches at most.
        raise failures.pop()
    return results.pop()
