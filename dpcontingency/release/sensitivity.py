"""What neighbouring data sets are, and what follows: sensitivity, its space, what is public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpcontingency.domain import Domain
from dpcontingency.errors import PrivacyError
from dpcontingency.privacy.gdp import root_up
from dpcontingency.privacy.neighbours import (
    ADD_REMOVE,
    REPLACE_ONE,
    checked_relation,
    checked_strata,
)

SQUARED_SENSITIVITY = {REPLACE_ONE: 2, ADD_REMOVE: 1}


def l2_sensitivity(relation: str) -> float:
    """The L2 distance of neighbouring tables: sqrt 2 or 1, rounded up to a float."""
    return root_up(Fraction(SQUARED_SENSITIVITY[relation]))


@dataclass(frozen=True)
class Neighbours:
    """A neighbour relation on the tables of one domain.

    Parameters
    ----------
    domain : Domain
        The public factors and levels.
    relation : {"replace-one", "add-remove"}
        What two neighbouring data sets differ in: the value of one record, or its presence.
    strata : sequence of str, optional
        Factors whose joint margin is public (fixed by design); under ``replace-one`` a record
        then changes inside its stratum. Only one joint margin can be public.

    Raises
    ------
    PrivacyError
        If the relation is unknown, or strata are named under ``add-remove``, where nothing is
        public, or the strata leave no record anything to change.

    Notes
    -----
    The table of METHODS: differences of neighbouring tables are e_i - e_j (replace-one), the
    same within a stratum (with strata), or e_i (add-remove), over the possible cells.

    Examples
    --------
    >>> domain = Domain({"Admit": ["yes", "no"], "Dept": list("ABCDEF")})
    >>> Neighbours(domain).dimension, Neighbours(domain, strata=["Dept"]).dimension
    (11, 6)
    """

    domain: Domain
    relation: str = REPLACE_ONE
    strata: Sequence[str] = ()

    def __post_init__(self) -> None:
        checked_relation(self.relation)
        strata = checked_strata(self.strata, self.relation)
        for name in strata:
            self.domain.axis(name)
        object.__setattr__(self, "strata", tuple(n for n in self.domain.names if n in strata))
        if self.dimension < 1:
            what, mend = (
                ("every stratum has a single possible cell", "Name fewer strata.")
                if self.strata
                else ("the domain has a single possible cell, or none", "Declare more levels.")
            )
            raise PrivacyError(
                f"No cell can change: {what}, so the table is public as it stands. {mend}"
            )

    @property
    def l2_sensitivity(self) -> float:
        """The L2 distance of neighbouring tables: sqrt 2 or 1, rounded up to a float."""
        return l2_sensitivity(self.relation)

    @property
    def fixed(self) -> tuple[int, ...] | None:
        """The axes of the public margin: () for the total alone, None where nothing is public."""
        if self.relation == ADD_REMOVE:
            return None
        return tuple(self.domain.axis(name) for name in self.strata)

    @property
    def dimension(self) -> int:
        """The dimension of the span of all differences of neighbouring tables."""
        if not self.domain.structural_zeros:
            strata = math.prod(len(self.domain.levels[name]) for name in self.strata)
            return self.domain.size - (0 if self.fixed is None else strata)
        possible = self.domain.possible()
        if self.fixed is None:
            return int(possible.sum())
        others = tuple(i for i in range(possible.ndim) if i not in self.fixed)
        return int(possible.sum()) - int(possible.any(axis=others).sum())

    @property
    def deviation_dimension(self) -> int:
        """The dimension of the deviations from a table that is uniform in each stratum.

        One less than `dimension` under add-remove, where the level of the uniform table has to
        be estimated.
        """
        return self.dimension - (self.fixed is None)

    def public_totals(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """The totals that are public, one a stratum, of the shape of the strata."""
        if self.fixed is None:
            return None
        others = tuple(i for i in range(counts.ndim) if i not in self.fixed)
        return np.asarray(counts.sum(axis=others))


def public_totals_in_words(strata: Sequence[str] | None) -> str:
    """What is public beside a release: nothing (None), n, or the totals of strata."""
    if strata is None:
        return "nothing"
    if not strata:
        return "the number of records"
    return "the number of records in each combination of " + ", ".join(strata)
