"""A privacy budget on disk that no crash and no concurrent process can overspend."""

from __future__ import annotations

import json
import math
import os
import secrets
import sqlite3
import stat
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from urllib.parse import quote

from dpcontingency._labels import on_one_line
from dpcontingency._language import argument, phrase
from dpcontingency._paths import path_of
from dpcontingency.errors import LedgerWarning, PrivacyError, shown
from dpcontingency.privacy.gdp import GDP, ceil_digits, root_down, root_up
from dpcontingency.privacy.neighbours import (
    RELATIONS,
    REPLACE_ONE,
    checked_relation,
    checked_strata,
    in_words,
)

WAIT_SECONDS = 60.0
_UNSPENT = "Nothing was spent."

_SCHEMA = (
    "create table ledger (id integer primary key check (id = 1), mu text not null, "
    "neighbours text not null, strata text not null)",
    "create table entry (number integer primary key, mu text not null, what text not null, "
    "checksum text)",
)


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
        What the budget protects, ``replace-one`` for a new file.
    strata : sequence of str, optional
        The factors whose joint margin every release of this ledger makes public; none for a new
        file.

    Raises
    ------
    PrivacyError
        If the file is no ledger, or budget, neighbours or strata disagree with it.

    Notes
    -----
    Losses compose as mu^2 = sum mu_i^2 (Dong, Roth and Su 2022, Corollary 3.3) only under one
    neighbour relation. A ledger therefore takes one relation with one set of strata: releases
    with different strata would publish different exact margins, and protect together only what
    leaves all of them unchanged, perhaps nothing.

    The books are kept in exact arithmetic on losses as they print, so that 0.3 and 0.4 make 0.5;
    a float differs from what it prints by a relative 1e-16. Whoever can write the file can forge
    it: keep it where the records are kept.

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
        strata: Sequence[str] | None = None,
    ) -> None:
        if budget is not None and not isinstance(budget, GDP):
            raise PrivacyError(
                f"The budget is a GDP object such as GDP(mu=1); got {shown(budget)}."
            )
        if neighbours is not None:
            checked_relation(neighbours)
        if strata is not None:
            strata = checked_strata(strata, neighbours or REPLACE_ONE)
        if str(path) == ":memory:":
            raise PrivacyError("A ledger is a file: a budget in memory would be forgotten.")
        try:
            self.path = Path(os.path.realpath(path_of(path, PrivacyError)))
            there = self.path.stat() if self.path.exists() else None
        except OSError as error:
            raise PrivacyError(f"Cannot open the ledger {path}: {error.strerror}.") from None
        if there is not None and not stat.S_ISREG(there.st_mode):
            # SQLite would put its journal beside a device, and leave it there.
            raise PrivacyError(f"Cannot open the ledger {path}: it is no plain file.")
        # An empty one is being made by someone, or was when a crash came.
        exists = there is not None and there.st_size > 0
        if not exists:
            if budget is None:
                raise PrivacyError(
                    f"There is no ledger {self.path}: give the total budget to start one, such as "
                    f"{phrase('PrivacyLedger(path, GDP(mu=1))', '--budget 1')}."
                )
            self._create(budget, neighbours or REPLACE_ONE, tuple(strata or ()))
        with self._connection() as connection:
            self._terms = self._read_terms(connection)
            self._identity = self._read_identity(connection)
            self._seen = self._number_of_entries(connection)
        self.budget, self.neighbours, self.strata = self._terms
        if budget is not None and budget != self.budget:
            raise PrivacyError(
                f"{self.path} was opened with a budget of mu = {self.budget.mu}, not "
                f"{budget.mu}. A budget is fixed when its ledger is made: leave "
                f"{argument('budget')} out, or start a ledger for other records."
            )
        self._check_relation(
            self.neighbours if neighbours is None else neighbours,
            self.strata if strata is None else strata,
        )

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """Every spending, in order."""
        with self._transaction() as connection:
            return self._read_entries(connection)

    @property
    def spent(self) -> float:
        """The mu of everything spent so far, rounded up; 0 before the first spending."""
        square = _squares(entry.mu for entry in self.entries)
        root = root_up(square)
        nearest = math.nextafter(root, 0.0)  # 0.3 prints above its own value, as it may
        root = nearest if _decimal(nearest) ** 2 >= square else root
        while _decimal(root) ** 2 < square:
            root = math.nextafter(root, math.inf)
        return root

    @property
    def remaining(self) -> float:
        """The largest mu that can still be spent, rounded down."""
        return self._left(entry.mu for entry in self.entries)

    def reserve(
        self,
        privacy: GDP,
        what: str,
        *,
        neighbours: str = REPLACE_ONE,
        strata: Sequence[str] = (),
    ) -> int:
        """Spend a loss, before the noise it pays for is drawn.

        Returns
        -------
        int
            The number of the entry, for `finish`.

        Raises
        ------
        PrivacyError
            If less than this is left, the neighbours or strata are not the ledger's, an argument
            is of another type, or the file is no longer the ledger that was opened; nothing is
            spent then.
        """
        if not isinstance(privacy, GDP):
            raise PrivacyError(
                f"The privacy loss is a GDP object such as GDP(mu=0.5); got {shown(privacy)}."
            )
        if not isinstance(what, str):
            raise PrivacyError(f"What is released is said in words, a text; got {shown(what)}.")
        checked_relation(neighbours)
        self._check_relation(neighbours, checked_strata(strata, neighbours))
        with self._transaction() as connection:
            left = self._left(entry.mu for entry in self._read_entries(connection))
            if privacy.mu > left:
                raise PrivacyError(
                    f"{self.path} has mu = {left:.6g} left of {self.budget.mu:.6g}, and this "
                    f"release asks for {privacy.mu:.6g}. Nothing was released; ask for less."
                )
            cursor = connection.execute(
                "insert into entry (mu, what) values (?, ?)",
                (repr(privacy.mu), on_one_line(what)),
            )
            return int(cursor.lastrowid or 0)

    def finish(self, number: int, checksum: str) -> None:
        """Record the checksum of the release that an entry paid for.

        Raises
        ------
        PrivacyError
            If an argument is of another type, there is no such open entry, or the file cannot be
            written or is no longer the ledger that was opened. The loss stays spent.
        """
        if not (isinstance(number, int) and isinstance(checksum, str)):
            raise PrivacyError(
                "An entry is finished by its number, which `reserve` gave, and the checksum of a "
                f"release, a text; got {shown(number)} and {shown(checksum)}."
            )
        with self._transaction(
            f"The loss of entry {number} stays spent, without the checksum of its release."
        ) as connection:
            changed = connection.execute(
                "update entry set checksum = ? where number = ? and checksum is null",
                (checksum, number),
            ).rowcount
            if changed != 1:
                raise PrivacyError(
                    f"{self.path} has no open entry {number}: reserve a loss first, and finish it "
                    "once."
                )

    def finish_or_warn(self, number: int, checksum: str) -> None:
        """`finish` an entry whose release is made: a fault of the file is a warning then.

        The release is paid for, and must not be lost with the note of it.

        Warns
        -----
        LedgerWarning
            If the checksum could not be recorded.
        """
        try:
            self.finish(number, checksum)
        except PrivacyError as error:
            warnings.warn(f"The release was made. {error}", LedgerWarning, stacklevel=3)

    def _check_relation(self, neighbours: str, strata: Sequence[str]) -> None:
        if (neighbours, frozenset(strata)) != (self.neighbours, frozenset(self.strata)):
            raise PrivacyError(
                f"{self.path} protects under {in_words(self.neighbours, self.strata)}, and this "
                f"would be under {in_words(neighbours, strata)}; losses under the two do not add "
                "up. Use the ledger's neighbours and strata."
            )

    def _left(self, losses: Iterable[float]) -> float:
        """The largest loss that fits beside those in the budget."""
        square = max(_decimal(self.budget.mu) ** 2 - _squares(losses), Fraction(0))
        root = root_down(square)
        nearest = math.nextafter(root, math.inf)  # 0.4 prints below its own value, as it may
        root = nearest if _decimal(nearest) ** 2 <= square else root
        while _decimal(root) ** 2 > square:
            root = math.nextafter(root, 0.0)
        return root

    # -- the file ------------------------------------------------------------------------------

    def _create(self, budget: GDP, neighbours: str, strata: tuple[str, ...]) -> None:
        with self._connection(create=True) as connection:
            if connection.execute("select count(*) from sqlite_master").fetchone() == (0,):
                for statement in _SCHEMA:
                    connection.execute(statement)
                terms = repr(budget.mu), neighbours, json.dumps(strata)
                connection.execute("insert into ledger values (1, ?, ?, ?)", terms)

    # What is wrong with a file is a ValueError, which `_connection` says in a sentence.

    def _read_terms(self, connection: sqlite3.Connection) -> tuple[GDP, str, tuple[str, ...]]:
        found = connection.execute("select mu, neighbours, strata from ledger").fetchone()
        if found is None:
            raise ValueError("it has no budget")
        budget = GDP(_loss(found[0], "its budget"))
        if found[1] not in RELATIONS:
            raise ValueError(f"its neighbour relation is {shown(found[1])}")
        strata = json.loads(found[2])
        if not (isinstance(strata, list) and all(isinstance(name, str) for name in strata)):
            raise ValueError(f"its strata are {shown(found[2])}")
        return budget, found[1], tuple(strata)

    def _read_entries(self, connection: sqlite3.Connection) -> tuple[LedgerEntry, ...]:
        rows = connection.execute("select number, mu, what, checksum from entry order by number")
        entries = []
        for number, mu, what, checksum in rows:
            if not (isinstance(what, str) and isinstance(checksum, str | None)):
                raise ValueError(f"the words of entry {number} are no text")
            loss = _loss(mu, f"the loss of entry {number}")
            entries.append(LedgerEntry(number, loss, what, checksum))
        return tuple(entries)

    def _read_identity(self, connection: sqlite3.Connection) -> str:
        """What tells this file from one that is made in its place with the same terms.

        A file of a version that knew none gets one.
        """
        connection.execute("create table if not exists identity (token text not null)")
        found = connection.execute("select token from identity").fetchone()
        if found is None:
            found = (secrets.token_hex(16),)
            connection.execute("insert into identity values (?)", found)
        return str(found[0])

    def _number_of_entries(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute("select count(*) from entry").fetchone()[0])

    @contextmanager
    def _transaction(self, outcome: str = _UNSPENT) -> Iterator[sqlite3.Connection]:
        """A transaction on the ledger that was opened, and on no other."""
        with self._connection(outcome) as connection:
            same = (
                self._read_terms(connection) == self._terms
                and self._read_identity(connection) == self._identity
                and self._number_of_entries(connection) >= self._seen
            )
            if not same:
                raise PrivacyError(
                    f"{self.path} is no longer the ledger that was opened: it was made anew, lost "
                    f"entries, or has another budget, neighbours or strata. {outcome} Find out "
                    "why, and open it again."
                )
            yield connection
            self._seen = self._number_of_entries(connection)

    @contextmanager
    def _connection(
        self, outcome: str = _UNSPENT, *, create: bool = False
    ) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its start; undone by any error.

        `outcome` is what an error then says of the loss.
        """
        # Only `_create` may make a file: one that vanished must not come back empty.
        uri = f"file:{quote(str(self.path))}?mode={'rwc' if create else 'rw'}"
        try:
            connection = sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS, isolation_level=None)
        except sqlite3.OperationalError as error:
            raise PrivacyError(f"Cannot open the ledger {self.path}: {error}. {outcome}") from None
        try:
            # "extra" also syncs the folder, so that no power cut brings back a spent budget.
            connection.execute("pragma synchronous = extra")
            connection.execute("begin immediate")
            yield connection
            connection.execute("commit")
        except PrivacyError:
            raise
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            raise PrivacyError(
                f"{self.path} cannot be used as a privacy ledger: {error}. {outcome}"
            ) from None
        finally:
            connection.close()  # an open transaction is rolled back

    def __repr__(self) -> str:
        budget = ceil_digits(self.budget.mu)
        try:
            state = f"mu = {ceil_digits(self.spent)} of {budget} spent"
        except PrivacyError:  # a repr is asked for where errors are looked into
            fault = "cannot be used" if os.path.exists(self.path) else "is gone"
            state = f"mu = {budget}, but the file {fault}"
        relation = in_words(self.neighbours, self.strata)
        return on_one_line(f"<PrivacyLedger {self.path.name}: {state} ({relation})>")


def _loss(text: object, what: str) -> float:
    """A loss as it stands in the file; what is no loss would be spent as nothing, or give back."""
    try:
        mu = float(text) if isinstance(text, str) else math.nan
    except ValueError:
        mu = math.nan
    if not 0 < mu < math.inf:
        raise ValueError(f"{what} is {shown(text)}, which is no positive finite number")
    return mu


def _decimal(mu: float) -> Fraction:
    """The number that a loss prints as, exactly."""
    return Fraction(repr(mu))


def _squares(losses: Iterable[float]) -> Fraction:
    return sum((_decimal(mu) ** 2 for mu in losses), Fraction(0))
