"""A privacy budget on disk that no crash and no concurrent process can overspend."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dpcontingency.errors import PrivacyError
from dpcontingency.privacy.gdp import GDP, ceil_digits

WAIT_SECONDS = 60.0

_SCHEMA = """
create table if not exists ledger (
    id integer primary key check (id = 1), mu text not null, neighbours text not null
);
create table if not exists entry (
    number integer primary key,
    mu text not null,
    what text not null,
    checksum text
);
"""


@dataclass(frozen=True)
class LedgerEntry:
    """One spending.

    Attributes
    ----------
    number : int
        The order of spending, from 1.
    mu : float
        The loss.
    what : str
        What was released, in words.
    checksum : str or None
        The checksum of the release file; None where the release was never finished. Its budget
        is spent all the same: noise may have been drawn and seen.
    """

    number: int
    mu: float
    what: str
    checksum: str | None


class PrivacyLedger:
    """A file that holds a budget and every loss spent from it.

    A release reserves its loss before any noise is drawn, in one SQLite transaction that locks
    the file, and adds its checksum when it is finished. A crash in between leaves the budget
    spent, never unspent.

    Parameters
    ----------
    path : str or Path
        The ledger file; made if it does not exist.
    budget : GDP, optional
        The total loss allowed. Needed for a new file; for an existing one it must agree.
    neighbours : {"replace-one", "add-remove"}, optional
        What the budget protects, ``replace-one`` for a new file. Losses under different
        neighbour relations do not add up, so a ledger takes one kind.

    Raises
    ------
    PrivacyError
        If the file is no ledger, or budget or neighbours disagree with it.

    Notes
    -----
    Losses compose as mu^2 = sum mu_i^2 (Dong, Roth and Su 2022, Corollary 3.3). The books are
    kept in exact arithmetic on losses as they print, so that 0.3 and 0.4 make 0.5.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = PrivacyLedger(f"{folder.name}/survey.ledger", GDP(0.5))
    >>> ledger.finish(ledger.reserve(GDP(0.3), "age by region"), "sha256:...")
    >>> ledger.spent, ledger.remaining
    (0.3, 0.4)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | Path,
        budget: GDP | None = None,
        *,
        neighbours: str | None = None,
    ) -> None:
        self.path = Path(path)
        if not self.path.exists() and budget is None:
            raise PrivacyError(
                f"There is no ledger {self.path}: give the total budget to start one, such as "
                "PrivacyLedger(path, GDP(mu=1))."
            )
        with self._transaction() as connection:
            stored = connection.execute("select mu, neighbours from ledger").fetchone()
            if stored is None:
                if budget is None:
                    raise PrivacyError(f"{self.path} holds no ledger yet: give the total budget.")
                stored = repr(budget.mu), neighbours or "replace-one"
                connection.execute("insert into ledger values (1, ?, ?)", stored)
        self.budget = GDP(float(stored[0]))
        self.neighbours: str = stored[1]
        if budget is not None and budget != self.budget:
            raise PrivacyError(
                f"{self.path} was opened with a budget of mu = {self.budget.mu}, not "
                f"{budget.mu}. A budget is fixed when its ledger is made: leave the argument out, "
                "or start a ledger for other records."
            )
        if neighbours is not None and neighbours != self.neighbours:
            raise PrivacyError(
                f"{self.path} protects under {self.neighbours}, not {neighbours}; losses under "
                "the two do not add up. Release with the ledger's neighbours."
            )

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """Every spending, in order."""
        with self._transaction() as connection:
            rows = connection.execute(
                "select number, mu, what, checksum from entry order by number"
            ).fetchall()
        return tuple(LedgerEntry(n, float(mu), what, checksum) for n, mu, what, checksum in rows)

    @property
    def spent(self) -> float:
        """The mu of everything spent so far, rounded up; 0 before the first spending."""
        square = _squares(entry.mu for entry in self.entries)
        root = math.sqrt(square)
        while _decimal(root) ** 2 < square:
            root = math.nextafter(root, math.inf)
        return root

    @property
    def remaining(self) -> float:
        """The largest mu that can still be spent, rounded down."""
        return self._left(entry.mu for entry in self.entries)

    def reserve(self, privacy: GDP, what: str, *, neighbours: str = "replace-one") -> int:
        """Spend a loss, before the noise it pays for is drawn.

        Returns
        -------
        int
            The number of the entry, for `finish`.

        Raises
        ------
        PrivacyError
            If less than this is left, or the neighbour relation is not the ledger's; nothing is
            spent then.
        """
        if neighbours != self.neighbours:
            raise PrivacyError(
                f"{self.path} protects under {self.neighbours}, and this release would be under "
                f"{neighbours}; their losses do not add up. Use neighbours={self.neighbours!r}."
            )
        with self._transaction() as connection:
            rows = connection.execute("select mu from entry").fetchall()
            left = self._left(float(mu) for (mu,) in rows)
            if privacy.mu > left:
                raise PrivacyError(
                    f"{self.path} has mu = {left:.6g} left of {self.budget.mu:.6g}, and this "
                    f"release asks for {privacy.mu:.6g}. Nothing was released; ask for less."
                )
            cursor = connection.execute(
                "insert into entry (mu, what) values (?, ?)", (repr(privacy.mu), what)
            )
            return int(cursor.lastrowid or 0)

    def finish(self, number: int, checksum: str) -> None:
        """Record the checksum of the release that an entry paid for."""
        with self._transaction() as connection:
            changed = connection.execute(
                "update entry set checksum = ? where number = ? and checksum is null",
                (checksum, number),
            ).rowcount
            if changed != 1:
                raise PrivacyError(
                    f"{self.path} has no open entry {number}: reserve a loss first, and finish it "
                    "once."
                )

    def _left(self, losses: Iterable[float]) -> float:
        """The largest loss that fits beside those in the budget."""
        square = _decimal(self.budget.mu) ** 2 - _squares(losses)
        root = math.sqrt(square)  # no entry is ever made that would take it below 0
        while _decimal(root) ** 2 > square:
            root = math.nextafter(root, 0.0)
        return root

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the write lock from its start; undone by any error."""
        try:
            connection = sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level=None)
        except sqlite3.OperationalError as error:
            raise PrivacyError(f"Cannot open the ledger {self.path}: {error}.") from None
        try:
            connection.execute("pragma synchronous = full")
            connection.execute("begin immediate")
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            yield connection
            connection.execute("commit")
        except sqlite3.DatabaseError as error:
            raise PrivacyError(
                f"{self.path} cannot be used as a privacy ledger: {error}. Nothing was spent."
            ) from None
        finally:
            connection.close()  # an open transaction is rolled back

    def __repr__(self) -> str:
        return (
            f"<PrivacyLedger {self.path}: mu = {ceil_digits(self.spent)} of "
            f"{ceil_digits(self.budget.mu)} spent ({self.neighbours})>"
        )


def _decimal(mu: float) -> Fraction:
    """The number that a loss prints as, exactly."""
    return Fraction(repr(mu))


def _squares(losses: Iterable[float]) -> Fraction:
    return sum((_decimal(mu) ** 2 for mu in losses), Fraction(0))
