"""The other door in the wall: noise on the interactions of chosen margins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpcontingency._language import argument, phrase
from dpcontingency.domain import Domain
from dpcontingency.errors import PrivacyError, RecordsError, ReleaseError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.privacy.neighbours import REPLACE_ONE
from dpcontingency.release.contrasts import contrast_exponent, contrasts, rounded_contrasts
from dpcontingency.release.margins import SAMPLING, SIMULATION, MarginRelease, Origin
from dpcontingency.release.publish import missing_in_words
from dpcontingency.release.workload import Factors, MarginPlan, Objective, Weights, plan_margins
from dpcontingency.table import MAX_COUNT, ConfidentialMargins, ContingencyTable

Integers = npt.NDArray[np.int64]
Counted: TypeAlias = ContingencyTable | ConfidentialMargins
Draw: TypeAlias = Callable[[tuple[int, ...], float, int], Integers]


def release_margins(
    table: Counted,
    margins: Sequence[Sequence[str]],
    privacy: GDP,
    *,
    objective: Objective = "total-variance",
    weights: Weights | None = None,
    neighbours: str = REPLACE_ONE,
    ledger: PrivacyLedger | None = None,
) -> MarginRelease:
    """Release chosen margins of confidential counts under Gaussian differential privacy.

    Parameters
    ----------
    table : ContingencyTable or ConfidentialMargins
        The confidential counts: of all factors together, or of the margins alone as
        `tabulate_margins` makes them, where the joint table is too large to exist.
    margins : sequence of sequences of str
        The wanted margins, such as ``[("A", "B"), ("B", "C")]``.
    privacy : GDP
        The loss to spend on all of them together.
    objective, weights, neighbours
        As in `plan_margins`, which tells beforehand what every margin's noise will be.
    ledger : PrivacyLedger, optional
        The budget to spend from. The loss is reserved there before any noise is drawn, and the
        checksum of the release added when it is made.

    Returns
    -------
    MarginRelease
        Every wanted margin, and every part of one, with Gaussian noise of the standard deviation
        that the plan says; margins agree with each other. It is mu-GDP as stated: what is drawn is
        an exactly sampled function of the ideal mechanism (`contrasts`), from the operating
        system's entropy. There is no seed.

    Raises
    ------
    PrivacyError
        If the margins cannot be planned, their noise would exceed any count, the number of records
        is not public but would have to be, or the ledger has too little left or another neighbour
        relation; nothing is drawn or spent then.

    Examples
    --------
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y"]})
    >>> table = ContingencyTable(np.arange(12).reshape(domain.shape), domain)
    >>> release = release_margins(table, [("A", "B"), ("B", "C")], GDP(mu=0.5))
    >>> release.n_total, round(release.margin("A", "B").sd, 2)
    (66, 3.27)
    """
    if not isinstance(table, ContingencyTable | ConfidentialMargins):
        raise ReleaseError(
            "release_margins takes a ContingencyTable or the margins that tabulate_margins(records,"
            f" domain, margins) counts; got {type(table).__name__}."
        )
    if ledger is not None and not isinstance(ledger, PrivacyLedger):
        raise PrivacyError(
            f"The ledger is a PrivacyLedger, such as PrivacyLedger(path, GDP(1)); got {ledger!r}."
        )
    plan = plan_margins(
        table.domain,
        margins,
        privacy,
        objective=objective,
        weights=weights,
        neighbours=neighbours,
    )
    if neighbours == REPLACE_ONE and not table.n_is_public:
        raise PrivacyError(
            "Records with missing values were dropped, so the number of records left is itself "
            "confidential and cannot be public. Release with "
            f"{argument('neighbours', 'add-remove')}, or declare a level for missing values and "
            f"{phrase('tabulate with it', 'name it by --missing')}."
        )
    exact, grids = _contrasts(table, plan), _grids(plan)
    if ledger is None:
        return _carry_out(table, plan, exact, grids, rounded_contrasts, "released")
    what = f"margins {'; '.join(', '.join(m) for m in plan.margins)}"
    number = ledger.reserve(privacy, what, neighbours=neighbours)
    release = _carry_out(table, plan, exact, grids, rounded_contrasts, "released")
    ledger.finish_or_warn(number, release.checksum)
    return release


def simulate_margins(
    counts: npt.ArrayLike,
    domain: Domain,
    margins: Sequence[Sequence[str]],
    privacy: GDP,
    rng: np.random.Generator,
    *,
    objective: Objective = "total-variance",
    weights: Weights | None = None,
    neighbours: str = REPLACE_ONE,
) -> MarginRelease:
    """What `release_margins` would make of public or invented counts, from a seeded generator.

    For simulation and teaching only: whoever knows the seed can remove the noise, so the result
    is stamped ``private = False`` for good.

    Parameters
    ----------
    counts : array_like of int, shape ``domain.shape``
        The counts of the joint table.
    domain, margins, privacy, objective, weights, neighbours
        As in `release_margins`.
    rng : numpy.random.Generator
        Where the noise comes from.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> simulate_margins([[9, 0], [3, 8]], domain, ["A", "B"], GDP(1), rng).private
    False
    """
    plan = plan_margins(
        domain, margins, privacy, objective=objective, weights=weights, neighbours=neighbours
    )
    return simulate_plan(counts, plan, rng)


def simulate_plan(
    counts: npt.ArrayLike, plan: MarginPlan, rng: np.random.Generator
) -> MarginRelease:
    """What a release by this plan would make of public or invented counts; see `simulate_margins`.

    For many replicates of one plan, which is then made once.
    """
    if not isinstance(rng, np.random.Generator):
        raise ReleaseError(
            "A simulation needs a numpy Generator, such as numpy.random.default_rng(1)."
        )

    def seeded(shape: tuple[int, ...], scale: float, exponent: int) -> Integers:
        noise = np.ldexp(scale, exponent) * contrasts(rng.standard_normal(shape))
        return np.asarray(np.rint(noise), dtype=np.int64)

    table = ContingencyTable(counts, plan.domain)
    exact, grids = _contrasts(table, plan), _grids(plan)
    return _carry_out(table, plan, exact, grids, seeded, "simulated")


def _contrasts(table: Counted, plan: MarginPlan) -> dict[Factors, Integers]:
    """The exact contrasts of every interaction, each from the first wanted margin that holds it."""
    # In floats, exact below 2^53: integers might wrap around, here and in every margin.
    if isinstance(table, ContingencyTable) and table.counts.sum(dtype=np.float64) > MAX_COUNT:
        raise RecordsError(
            "There are more than 2^42 records, beyond which a count plus noise is no exact 64-bit "
            "number of grid steps. Release parts of the records."
        )
    axis, out = plan.domain.axis, {}
    for margin in sorted(plan.margins, key=len):
        names = sorted(margin, key=axis)
        todo = [a for a in plan.interactions_in(names) if a not in out]
        if not todo:
            continue
        counts = table.margin(*margin).counts.transpose([margin.index(name) for name in names])
        for a in todo:
            dropped = tuple(i for i, name in enumerate(names) if name not in a)
            out[a] = contrasts(np.asarray(counts.sum(axis=dropped)))
    return out


def _grids(plan: MarginPlan) -> dict[Factors, int]:
    """The grid of every interaction's contrasts; noise too large for one is refused here."""
    return {a: contrast_exponent(scale, len(a)) for a, scale in plan.cell_scales.items()}


def _carry_out(
    table: Counted,
    plan: MarginPlan,
    exact: dict[Factors, Integers],
    grids: dict[Factors, int],
    draw: Draw,
    origin: Origin,
) -> MarginRelease:
    """Draw the noise and make the release."""
    n = dict(zip(plan.domain.names, plan.domain.shape, strict=True))
    noisy = {}
    for a, scale in plan.cell_scales.items():
        exponent = grids[a]
        steps = draw(tuple(n[name] for name in a), scale, exponent)
        # Exact in integers; whatever happens in floats from here on is post-processing.
        noisy[a] = np.ldexp(((exact[a] << exponent) + steps).astype(np.float64), -exponent)
    public = plan.neighbours == REPLACE_ONE
    total = int(table.margin(*plan.margins[0]).counts.sum()) if public else None
    said = SAMPLING if origin == "released" else SIMULATION
    provenance = {"noise": said, **missing_in_words(table.missing)}
    return MarginRelease(plan, noisy, total, origin, provenance)
