"""The confidential counts, held so that nothing but a mechanism reads them by accident."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dpcontingency._arrays import read_only
from dpcontingency.domain import MAX_AXES, Domain, listed, unlabelled_array, without_nan
from dpcontingency.errors import ConfidentialityError, DomainError, RecordsError

MAX_CELLS = 2**27  # a gigabyte of counts, and as much again for each array beside them
MAX_COUNT = 2**42  # so that a count plus noise is an exact 64-bit number of grid steps


class ContingencyTable:
    """Confidential cell counts over a public domain.

    Parameters
    ----------
    counts : array of int, shape ``domain.shape``
        One non-negative integer a cell; copied.
    domain : Domain
        The public factors and levels.
    n_is_public : bool, optional
        Whether the number of records may be treated as public, as ``replace-one`` neighbours do.
        False after records with missing values were dropped: how many are complete is a fact
        about the records.
    missing : str, optional
        What was done with records that lack a factor, as `tabulate` takes it: "error", "drop" or
        the level that they count as. None where it is not known. Releases state it.

    Raises
    ------
    RecordsError
        If the shape is not the domain's, or a count is negative, not an integer, or in a cell
        declared impossible.

    Notes
    -----
    The repr shows the shape only, pickling is refused, and no statistic is offered: the way out
    is `release_table`. Whoever holds the records may read ``counts``.

    Examples
    --------
    >>> ContingencyTable([[2, 3], [5, 7]], Domain({"A": ["a", "b"], "B": ["u", "v"]}))
    <ContingencyTable A: 2, B: 2; counts confidential>
    """

    __slots__ = ("_counts", "_domain", "_missing", "_n_is_public")

    def __init__(
        self,
        counts: npt.ArrayLike,
        domain: Domain,
        *,
        n_is_public: bool = True,
        missing: str | None = None,
    ) -> None:
        if not isinstance(domain, Domain):
            raise RecordsError(f"The domain of a table is a Domain; got {type(domain).__name__}.")
        try:
            values = unlabelled_array(counts)
        except DomainError:
            raise
        except ValueError:
            raise RecordsError(
                f"The counts must have the domain's shape {domain.shape}; got a ragged sequence."
            ) from None
        if values.shape != domain.shape:
            raise RecordsError(
                f"The counts must have the domain's shape {domain.shape}; got {values.shape}. "
                f"Axes are {', '.join(domain.names)}, in this order."
            )
        if np.isnan(values[~domain.possible()]).any() if values.dtype.kind == "f" else False:
            # Whole numbers beside the NaN of an impossible cell came as floats for its sake alone.
            filled = without_nan(values, domain.possible())
            whole = bool((np.rint(filled) == filled).all() and (np.abs(filled) <= MAX_COUNT).all())
            values = filled.astype(np.int64) if whole else filled
        if values.dtype.kind not in "iu":
            raise RecordsError(
                f"Counts are integers; got an array of {values.dtype}. Convert it yourself (for "
                "instance with .astype(np.int64)) so that no count is rounded unseen."
            )
        if (values < 0).any() or (values > MAX_COUNT).any():
            raise RecordsError(
                "Counts are integers from 0 to 2^42, but some cell is negative or larger. A noisy "
                "table is not a table of counts: enter it by Release.from_noisy_table."
            )
        if values[~domain.possible()].any():
            raise RecordsError(
                "There are records in a cell that the domain declares a structural zero. Mend the "
                "records, or declare the cell possible."
            )
        self._keep(values.astype(np.int64), domain, bool(n_is_public), missing)

    def _keep(
        self,
        counts: npt.NDArray[np.int64],
        domain: Domain,
        n_is_public: bool,
        missing: str | None,
    ) -> None:
        self._counts = read_only(counts)
        self._domain = domain
        self._n_is_public = n_is_public
        self._missing = missing

    @property
    def domain(self) -> Domain:
        """The public domain."""
        return self._domain

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The confidential counts, read-only, of shape ``domain.shape``."""
        return self._counts

    @property
    def n_is_public(self) -> bool:
        """Whether the number of records may be treated as public."""
        return self._n_is_public

    @property
    def missing(self) -> str | None:
        """What was done with records that lack a factor; None where it is not known."""
        return self._missing

    def margin(self, *factors: str | Sequence[str]) -> ContingencyTable:
        """Return the confidential margin over the named factors, in the order given.

        Its counts may exceed the 2^42 of a table's cells; `release_table` refuses it then.
        """
        factors = listed(factors)
        target = self._domain.project(factors)
        dropped = tuple(i for i, name in enumerate(self._domain.names) if name not in factors)
        kept = [name for name in self._domain.names if name in factors]
        summed = self._counts.sum(axis=dropped)
        order = [kept.index(name) for name in factors]
        margin = object.__new__(ContingencyTable)
        margin._keep(summed.transpose(order), target, self._n_is_public, self._missing)
        return margin

    def __repr__(self) -> str:
        factors = repr(self._domain).removeprefix("Domain(").removesuffix(")")
        return f"<ContingencyTable {factors}; counts confidential>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__getstate__()

    def __getstate__(self) -> NoReturn:
        raise _not_copied(self)


def _check_agreement(tables: Sequence[ContingencyTable]) -> None:
    """Refuse margins that differ on the factors that they share.

    It is enough to compare, for each set of shared factors, each table that has them with the
    first that does.
    """
    known: dict[frozenset[str], tuple[tuple[str, ...], npt.NDArray[Any]]] = {}
    sets = [frozenset(table.domain.names) for table in tables]
    holding: dict[str, list[int]] = {}
    for i, one in enumerate(sets):
        for name in one:
            holding.setdefault(name, []).append(i)
    for i, table in enumerate(tables):
        beside = {j for name in sets[i] for j in holding[name]} - {i}
        for part in {sets[i] & sets[j] for j in beside}:
            names, first = known.get(part, ((), None))
            if first is None:
                names = tuple(name for name in table.domain.names if name in part)
                known[part] = names, table.margin(*names).counts
            elif not np.array_equal(table.margin(*names).counts, first):
                raise RecordsError(
                    f"The margins differ on {', '.join(names)}, which several of them have, so "
                    "they are not of the same records: count all of them in one call of "
                    "tabulate_margins."
                )


class ConfidentialMargins:
    """Confidential counts over some margins of a public domain, all of the same records.

    Made by `tabulate_margins`, where the joint table is too large to exist.

    Parameters
    ----------
    tables : sequence of ContingencyTable
        The margins, each over ``domain.project`` of its factors.
    domain : Domain
        The public factors and levels, of which the margins may leave some out.

    Raises
    ------
    RecordsError
        If the tables do not have the same total and the same policies, differ on factors that two
        of them share, are not of this domain, or hold more than 2^42 records.

    Notes
    -----
    As with a `ContingencyTable`, the repr shows no count and pickling is refused.

    Examples
    --------
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"], "C": ["x", "y"]})
    >>> margins = [("A", "B"), ("C",)]
    >>> counts = [[[2, 3], [5, 7]], [10, 7]]
    >>> tables = [ContingencyTable(n, domain.project(m)) for n, m in zip(counts, margins)]
    >>> ConfidentialMargins(tables, domain)
    <ConfidentialMargins 2 margins of 3 factors; counts confidential>
    """

    __slots__ = ("_by_names", "_domain", "_n", "_tables")

    def __init__(self, tables: Sequence[ContingencyTable], domain: Domain) -> None:
        if not tables or not all(isinstance(table, ContingencyTable) for table in tables):
            raise RecordsError("The margins are a sequence of at least one ContingencyTable.")
        for table in tables:
            if table.domain != domain.project(table.domain.names):
                raise RecordsError(
                    f"The margin of {', '.join(table.domain.names)} has other levels than the "
                    "domain: count it over domain.project(...)."
                )
        # In floats, exact below 2^53: integers might wrap around.
        totals = [int(table.counts.sum(dtype=np.float64)) for table in tables]
        if max(totals) > MAX_COUNT:
            raise RecordsError("There are more than 2^42 records. Count parts of them.")
        policies = {(table.n_is_public, table.missing) for table in tables}
        if len(set(totals)) > 1 or len(policies) > 1:
            raise RecordsError(
                "The margins are not of the same records, or missing values were treated in "
                "different ways: count all of them in one call of tabulate_margins."
            )
        _check_agreement(tables)
        self._tables = tuple(tables)
        self._by_names = {table.domain.names: table for table in tables}
        self._domain = domain
        self._n = totals[0]

    @property
    def domain(self) -> Domain:
        """The public domain, with the factors that are in no margin."""
        return self._domain

    @property
    def margins(self) -> tuple[tuple[str, ...], ...]:
        """The factors of each margin, as they were asked for."""
        return tuple(table.domain.names for table in self._tables)

    @property
    def n(self) -> int:
        """The number of records: confidential where ``n_is_public`` is False."""
        return self._n

    @property
    def n_is_public(self) -> bool:
        """Whether the number of records may be treated as public."""
        return self._tables[0].n_is_public

    @property
    def missing(self) -> str | None:
        """What was done with records that lack a factor; None where it is not known."""
        return self._tables[0].missing

    def margin(self, *factors: str | Sequence[str]) -> ContingencyTable:
        """Return a margin that lies inside one of those counted, with its factors in this order.

        Raises
        ------
        DomainError
            If a factor is unknown or named twice, or no counted margin holds all of them.
        """
        factors = listed(factors)
        wanted = self._domain.project(factors).names
        if wanted in self._by_names:
            return self._by_names[wanted]
        inside = [t for t in self._tables if set(wanted) <= set(t.domain.names)]
        if not inside:
            raise DomainError(
                f"No counted margin holds {', '.join(wanted)} together: name these factors as a "
                "margin in tabulate_margins."
            )
        return min(inside, key=lambda table: table.domain.size).margin(*wanted)

    def __repr__(self) -> str:
        count, factors = len(self._tables), len({n for m in self.margins for n in m})
        return (
            f"<ConfidentialMargins {count} margin{'s' * (count > 1)} of {factors} "
            f"factor{'s' * (factors > 1)}; counts confidential>"
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__getstate__()

    def __getstate__(self) -> NoReturn:
        raise _not_copied(self)


def _not_copied(holder: object) -> ConfidentialityError:
    return ConfidentialityError(
        f"A {type(holder).__name__} holds confidential counts and cannot be pickled or copied. "
        "Store the release made from it, or tabulate the records again."
    )


def check_joint_size(domain: Domain) -> None:
    """Refuse a domain whose joint table cannot be held in memory, with its exact size."""
    if len(domain.names) > MAX_AXES:
        raise RecordsError(
            f"A joint table has at most {MAX_AXES} factors, and these are {len(domain.names):,}. "
            "Use fewer factors, or count margins only, by tabulate_margins."
        )
    if domain.size > MAX_CELLS:
        raise RecordsError(
            f"The joint table of these factors has {domain.size:,} cells, more than the "
            f"{MAX_CELLS:,} that one table may hold. Use fewer factors or levels, or count "
            "margins only, by tabulate_margins."
        )
