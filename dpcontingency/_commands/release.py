"""Records to a release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from dpcontingency._commands import echo, say
from dpcontingency._commands._plain import release_as_data, release_as_facts
from dpcontingency._commands._shared import (
    Delta,
    Epsilon,
    Force,
    Json,
    Margins,
    Mu,
    Relation,
    Remote,
    Rho,
    Strata,
    choice,
    domain_of,
    epilog,
    fresh,
    loss,
    margins_of,
    misuse,
    print_facts,
    print_json,
)
from dpcontingency._records import files_of
from dpcontingency._weights import WeightsAre
from dpcontingency.errors import ReleaseError
from dpcontingency.inference.cells import AnyRelease
from dpcontingency.privacy.gdp import GDP, ceil_digits
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.privacy.neighbours import REPLACE_ONE
from dpcontingency.privacy.stamp import NOT_PRIVATE
from dpcontingency.release.mechanisms import MECHANISMS
from dpcontingency.release.publish import release_table
from dpcontingency.release.publish_margins import release_margins
from dpcontingency.release.workload import Objective
from dpcontingency.tabulate import tabulate, tabulate_margins

JSON_KEYS = (
    "output", "factors", "cells", "private", "mu", "epsilon", "delta", "rho", "sigma",
    "neighbours", "strata", "mechanism", "n_total", "n_total_se", "margins", "ledger",
)  # fmt: skip
EPILOG = epilog(
    [
        "dpcontingency release records.csv --domain domain.yaml --mu 0.5 \\",
        "      --output release.json",
        "dpcontingency release records.csv --domain domain.yaml --mu 0.5 \\",
        "      --margins 'Admit,Dept;Gender,Dept' --output margins.json",
        "dpcontingency release records.csv --domain domain.yaml --mu 0.3 \\",
        "      --ledger survey.ledger --budget 1 --output first.json",
    ],
    {"": JSON_KEYS},
    """The domain file declares the public factors and their levels, in order
(dpcontingency init records.csv drafts one):
  factors:
    Admit: [Admitted, Rejected]
    Dept: [A, B, C]""",
)


def run(
    records: Annotated[
        str,
        typer.Argument(metavar="RECORDS", help="CSV or Parquet file, or a quoted glob of them."),
    ],
    domain: Annotated[
        Path, typer.Option(metavar="FILE", help="YAML file of the public factors and levels.")
    ],
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write the release (JSON).")
    ],
    mu: Mu = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mechanism: Annotated[
        str | None,
        choice(
            MECHANISMS,
            f"One of {', '.join(MECHANISMS)}. [default: RankDeficientJamesStein, where the table "
            "is large enough]",
        ),
    ] = None,
    margins: Margins = None,
    objective: Annotated[
        str | None,
        choice(
            get_args(Objective),
            "With --margins, what is least: total- or max-variance. [default: total-variance]",
        ),
    ] = None,
    neighbours: Relation = REPLACE_ONE,
    strata: Strata = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that says how many records a row stands for: a row of weight w is w "
            "records of w people, and may move w records.",
        ),
    ] = None,
    weights_are: Annotated[
        str | None,
        choice(
            get_args(WeightsAre),
            "With --weights that look like those of a survey: frequency, if a row is no person.",
        ),
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            metavar="POLICY", help="error, drop, or the level that stands for a missing value."
        ),
    ] = "error",
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ledger to spend from; more is refused than it holds."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(metavar="MU", help="With --ledger: the total, to start a new one."),
    ] = None,
    remote: Remote = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Tabulate confidential records and release the table with noise."""
    # SQLite removes what stands where its journal does.
    taken = [] if ledger is None else [str(ledger) + end for end in ("", "-journal", "-wal")]
    target = fresh(output, force, *files_of(records), domain, *taken)
    privacy = loss(mu, epsilon, delta, rho)
    declared = domain_of(domain)
    if margins and (mechanism or strata):
        misuse("Margins are released without --mechanism and --strata; leave them out.")
    if objective and not margins:
        misuse("--objective is about margins: name them by --margins.")
    chosen = margins_of(margins or ())
    for names in chosen:
        declared.project(names)
    if ledger is None and budget is not None:
        misuse("--budget is the total of a ledger: name its file by --ledger.")
    if budget is not None and not 0 < budget < math.inf:
        misuse(f"--budget is a positive finite number, in mu; got {budget:g}.")
    if budget is not None and privacy.mu > budget:
        misuse(
            f"This release asks for mu = {privacy.mu:.6g}, which exceeds --budget {budget:.6g}. "
            "Ask for less."
        )
    if not declared.is_public:
        say(
            f"{domain} still says observed: true, so this release is stamped {NOT_PRIVATE}. "
            "Confirm its levels and delete that line."
        )
    books = None if ledger is None else _OpenedLater(ledger, budget)
    made: AnyRelease
    how: dict[str, Any] = {
        "weights": weights,
        "weights_are": weights_are,
        "missing": missing,
        "remote": remote,
    }
    if chosen:
        counted = tabulate_margins(records, declared, chosen, **how)
        made = release_margins(
            counted,
            chosen,
            privacy,
            objective=objective or "total-variance",  # type: ignore[arg-type]
            neighbours=neighbours,
            ledger=books,
        )
    else:
        table = tabulate(records, declared, **how)
        made = release_table(
            table,
            privacy,
            mechanism=None if mechanism is None else MECHANISMS[mechanism](),
            neighbours=neighbours,
            strata=strata or (),
            ledger=books,
        )
    try:
        made.save(target)
    except ReleaseError as error:
        raise ReleaseError(" ".join([str(error), *([] if books is None else books.loss)])) from None
    if made.totals is not None and made.n_total == 0:
        say("There were no records to count, so this is the release of an empty table.")
    if as_json:
        state = None if books is None else books.as_data()
        print_json({"output": str(target), **release_as_data(made), "ledger": state})
        return
    print_facts(release_as_facts(made))
    if books is not None:
        print_facts(books.as_facts())
    echo(f"Saved to {target}")


class _OpenedLater(PrivacyLedger):
    """A ledger that is opened, and made, when it is spent from: a misuse leaves no new file.

    Attributes
    ----------
    is_new : bool
        Whether this command made it.
    loss : list of str
        What has been spent, in a sentence; empty before.
    """

    def __init__(self, path: Path, budget: float | None) -> None:
        self._given = path, None if budget is None else GDP(budget)
        self.is_new = not path.exists() or path.stat().st_size == 0
        self.loss: list[str] = []

    def reserve(
        self,
        privacy: GDP,
        what: str,
        *,
        neighbours: str = REPLACE_ONE,
        strata: Sequence[str] = (),
    ) -> int:
        """Open the ledger and spend a loss."""
        super().__init__(*self._given, neighbours=neighbours, strata=strata)
        number = super().reserve(privacy, what, neighbours=neighbours, strata=strata)
        self.loss = [
            f"The loss of this release, mu = {ceil_digits(privacy.mu)}, stays spent as entry "
            f"{number} of {self.path}, and the release is lost."
        ]
        return number

    def as_data(self) -> dict[str, object]:
        """The ledger and what is left, for machines."""
        return {"file": str(self.path), "new": self.is_new, "remaining": self.remaining}

    def as_facts(self) -> dict[str, str]:
        """The ledger and what is left, for people: a new file has forgotten older losses."""
        state = "started by this release" if self.is_new else "continued"
        left = f"mu = {self.remaining:.6g} of {self.budget.mu:.6g} left"
        return {"Ledger": f"{self.path}, {state}; {left}"}
