"""A ledger, or a loss in every currency."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dpcontingency._commands import echo
from dpcontingency._commands._plain import loss_as_data
from dpcontingency._commands._shared import (
    Delta,
    Epsilon,
    Json,
    Mu,
    Rho,
    epilog,
    loss,
    misuse,
    print_facts,
    print_json,
)
from dpcontingency.privacy.gdp import GDP, ceil_digits
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.privacy.neighbours import in_words
from dpcontingency.report.words import LEVEL, best_power, percent

DELTAS = (1e-5, 1e-6, 1e-9)
LEDGER_KEYS = ("ledger", "neighbours", "strata", "budget", "spent", "remaining", "entries")
LOSS_KEYS = ("mu", "epsilon", "delta", "rho", "best_test_power", "false_alarms")
EPILOG = epilog(
    ["dpcontingency privacy survey.ledger", "dpcontingency privacy --mu 0.5"],
    {"of a ledger": LEDGER_KEYS, "of a loss": LOSS_KEYS},
)


def run(
    ledger: Annotated[
        Path | None, typer.Argument(metavar="LEDGER", help="A ledger file; or say a loss.")
    ] = None,
    mu: Mu = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    as_json: Json = False,
) -> None:
    """Print a privacy ledger, or a loss in every currency.

    Of a ledger: budget, spendings, what is left. Of a loss: mu, rho and epsilon, rounded up.
    """
    said = (mu, epsilon, delta, rho) != (None,) * 4
    if (ledger is not None) == said:
        misuse("Name a ledger file, or say a loss such as --mu 0.5.")
    if ledger is None:
        _loss(loss(mu, epsilon, delta, rho), as_json)
    else:
        _ledger(ledger, as_json)


def _loss(privacy: GDP, as_json: bool) -> None:
    """A loss in every currency, and what it lets an attacker find out."""
    power = best_power(privacy)
    if as_json:
        print_json({**loss_as_data(privacy), "best_test_power": power, "false_alarms": LEVEL})
        return
    print_facts(
        {
            "Gaussian DP": f"mu = {ceil_digits(privacy.mu)}",
            "zCDP": f"rho = {ceil_digits(privacy.rho)}",
            **{
                f"At delta = {delta:g}": f"epsilon = {ceil_digits(privacy.epsilon(delta))}"
                for delta in DELTAS
            },
            "Attacker": f"the best test of one value of a record against another finds it out in "
            f"at most {percent(power, 1)} of the cases, with {percent(LEVEL)} false alarms",
        },
        width=18,
    )


def _ledger(path: Path, as_json: bool) -> None:
    if not path.exists() or path.stat().st_size == 0:  # as an empty one was not made yet
        misuse(f"There is no ledger {path}: release with --ledger and --budget starts one.")
    books = PrivacyLedger(path)
    entries = books.entries
    if as_json:
        print_json(
            {
                "ledger": str(path),
                "neighbours": books.neighbours,
                "strata": list(books.strata),
                "budget": books.budget.mu,
                "spent": books.spent,
                "remaining": books.remaining,
                "entries": [asdict(entry) for entry in entries],
            }
        )
        return
    echo(f"Budget:     {books.budget.describe()}")
    echo(f"Neighbours: {in_words(books.neighbours, books.strata)}")
    for entry in entries:
        state = entry.checksum or "never finished, spent all the same"
        echo(f"{entry.number:>4}  mu = {ceil_digits(entry.mu)}  {entry.what}  ({state})")
    echo(f"Spent:      mu = {ceil_digits(books.spent)}")
    echo(f"Left:       mu = {books.remaining:.6g}")
