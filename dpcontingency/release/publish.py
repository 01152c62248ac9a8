"""The wall: the only code that adds noise to confidential counts and lets the sum out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpcontingency._language import argument, phrase
from dpcontingency.domain import Domain
from dpcontingency.errors import PrivacyError, RecordsError, ReleaseError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.privacy.neighbours import REPLACE_ONE
from dpcontingency.release.contents import Origin
from dpcontingency.release.mechanisms import (
    MECHANISMS,
    Mechanism,
    RankDeficientGaussian,
    RankDeficientJamesStein,
)
from dpcontingency.release.release import Release
from dpcontingency.release.sampler import Law, grid_exponent, rounded_noise
from dpcontingency.release.sensitivity import Neighbours
from dpcontingency.release.shrinkage import LEAST_DIMENSION
from dpcontingency.table import MAX_COUNT, ContingencyTable

Draw: TypeAlias = Callable[[Law, int, float, int], npt.NDArray[np.int64]]


def release_table(
    table: ContingencyTable,
    privacy: GDP,
    *,
    mechanism: Mechanism | None = None,
    neighbours: str = REPLACE_ONE,
    strata: Sequence[str] = (),
    ledger: PrivacyLedger | None = None,
) -> Release:
    """Release a confidential table under Gaussian differential privacy.

    Parameters
    ----------
    table : ContingencyTable
        The confidential counts.
    privacy : GDP
        The loss to spend.
    mechanism : Mechanism, optional
        `RankDeficientJamesStein` by default, or `RankDeficientGaussian` where the table is too
        small to shrink. Either way ``noisy`` has the same law.
    neighbours : {"replace-one", "add-remove"}
        What the loss protects: the value of one record (n is public), or its presence.
    strata : sequence of str
        Factors whose joint margin is fixed by design or public already; with ``replace-one``.
    ledger : PrivacyLedger, optional
        The budget to spend from. The loss is reserved there before any noise is drawn, and the
        checksum of the release added when it is made.

    Returns
    -------
    Release
        ``noisy`` = counts + noise in the sensitivity space (on all cells with a mechanism of
        full rank), of scale sigma = sensitivity / mu (`laplace_scale` with `Laplace`), exactly
        mu-GDP: the noise is rounded to a dyadic grid (see `sampler`), drawn from the operating
        system. There is no seed.

    Raises
    ------
    PrivacyError
        If the mechanism is not defined for the table, its number of records is not public, or
        the ledger has too little left or another neighbour relation; nothing is drawn or spent
        then.

    References
    ----------
    Kim, Lee, Kwak and Jung, arXiv 2211.15019 (the rank-deficient mechanism).

    Examples
    --------
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    >>> table = ContingencyTable([[9, 0, 4], [3, 8, 2]], domain)
    >>> release = release_table(table, GDP(mu=0.5))
    >>> release.n_total, round(release.sigma, 3)
    (26, 2.828)
    """
    if not isinstance(table, ContingencyTable):
        raise ReleaseError(
            f"release_table takes a ContingencyTable; got {type(table).__name__}. Make one by "
            "tabulate(records, domain) or ContingencyTable(counts, domain)."
        )
    space = Neighbours(table.domain, neighbours, strata)
    if space.fixed is not None and not table.n_is_public:
        raise PrivacyError(
            "Records with missing values were dropped, so the number of records left is itself "
            "confidential and cannot be public. Release with "
            f"{argument('neighbours', 'add-remove')}, or declare a level for missing values and "
            f"{phrase('tabulate with it', 'name it by --missing')}."
        )
    if table.counts.max(initial=0) > MAX_COUNT:
        raise RecordsError(
            "Some cell of this margin exceeds 2^42, beyond which a count plus noise is no exact "
            "64-bit number of grid steps. Keep more factors in the margin."
        )
    if ledger is not None and not isinstance(ledger, PrivacyLedger):
        raise PrivacyError(
            f"The ledger is a PrivacyLedger, such as PrivacyLedger(path, GDP(1)); got {ledger!r}."
        )
    plan = _Plan.of(space, privacy, mechanism)
    if ledger is None:
        return plan.carry_out(table, rounded_noise, "released")
    what = f"{plan.mechanism!r} of {', '.join(table.domain.names)}"
    number = ledger.reserve(privacy, what, neighbours=space.relation, strata=space.strata)
    release = plan.carry_out(table, rounded_noise, "released")
    ledger.finish_or_warn(number, release.checksum)
    return release


def simulate_release(
    counts: npt.ArrayLike,
    domain: Domain,
    privacy: GDP,
    rng: np.random.Generator,
    *,
    mechanism: Mechanism | None = None,
    neighbours: str = REPLACE_ONE,
    strata: Sequence[str] = (),
) -> Release:
    """What `release_table` would make of public or invented counts, from a seeded generator.

    For simulation and teaching only: whoever knows the seed can remove the noise, so the result
    is stamped ``private = False`` for good.

    Parameters
    ----------
    counts : array_like of int, shape ``domain.shape``
        The counts.
    domain, privacy, mechanism, neighbours, strata
        As in `release_table`.
    rng : numpy.random.Generator
        Where the noise comes from.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> simulate_release([[9, 0], [3, 8]], domain, GDP(1), rng).private
    False
    """
    if not isinstance(rng, np.random.Generator):
        raise ReleaseError(
            "simulate_release needs a numpy Generator, such as numpy.random.default_rng(1)."
        )

    def seeded(law: Law, size: int, scale: float, exponent: int) -> npt.NDArray[np.int64]:
        scaled = np.ldexp(scale, exponent) * law.simulate(rng, size)
        return np.asarray(np.rint(scaled), dtype=np.int64)

    table = ContingencyTable(counts, domain)
    space = Neighbours(domain, neighbours, strata)
    return _Plan.of(space, privacy, mechanism).carry_out(table, seeded, "simulated")


@dataclass(frozen=True)
class _Plan:
    """Everything about a release but the counts and the noise, checked and calibrated."""

    space: Neighbours
    privacy: GDP
    mechanism: Mechanism
    sigma: float
    exponent: int

    @classmethod
    def of(cls, space: Neighbours, privacy: GDP, mechanism: Mechanism | None) -> _Plan:
        """Check that the mechanism is defined here, and find the scale of its noise."""
        if not isinstance(privacy, GDP):
            raise PrivacyError(
                f"The privacy loss is a GDP object such as GDP(mu=0.5); got {privacy!r}."
            )
        mechanism = _default_mechanism(space) if mechanism is None else mechanism
        if type(mechanism) not in MECHANISMS.values():
            # Each carries the proof of its scale; a subclass could claim any.
            raise PrivacyError(
                f"The mechanism is one of this package, such as RankDeficientGaussian(); got "
                f"{mechanism!r}. Known: {', '.join(MECHANISMS)}."
            )
        mechanism.check(space)
        sigma = mechanism.sigma(privacy, space)
        return cls(space, privacy, mechanism, sigma, grid_exponent(sigma))

    def carry_out(self, table: ContingencyTable, draw: Draw, origin: Origin) -> Release:
        """Draw the noise and make the release."""
        space, mechanism, sigma, exponent = self.space, self.mechanism, self.sigma, self.exponent
        possible = space.domain.possible()
        steps = draw(mechanism.law, possible.size, sigma, exponent).reshape(possible.shape)
        # Exact in integers; whatever happens in floats from here on is post-processing.
        on_grid = (table.counts << exponent) + steps * possible
        noisy = np.ldexp(on_grid.astype(np.float64), -exponent)
        noise = mechanism.noise(sigma, space)
        totals = space.public_totals(table.counts)
        if totals is not None and mechanism.rank_deficient:
            noisy, noise = noise.as_gaussian().condition(noisy, totals, space.fixed or ())
        return Release(
            domain=space.domain,
            noisy=noisy,
            noise=noise,
            estimate=mechanism.estimate(noisy, sigma, space),
            sigma=sigma,
            privacy=self.privacy,
            neighbours=space.relation,
            strata=tuple(space.strata),
            totals=totals,
            mechanism=mechanism,
            origin=origin,
            provenance={
                "noise": f"{mechanism.law.name} rounded to multiples of 2^-{exponent}",
                **missing_in_words(table.missing),
            },
        )


def missing_in_words(policy: str | None) -> dict[str, str]:
    """What a release says of records that lack a factor: nothing where it is not known."""
    if policy is None:
        return {}
    known = {"error": "none (they are an error)", "drop": "records that lack a factor are dropped"}
    return {"missing": known.get(policy, f"counted as level {policy!r}")}


def _default_mechanism(space: Neighbours) -> Mechanism:
    shrunken = RankDeficientJamesStein()
    enough = space.deviation_dimension >= LEAST_DIMENSION
    return shrunken if enough else RankDeficientGaussian()
