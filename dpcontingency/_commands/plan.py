"""A plan of a test, or of margins."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import pandas as pd
import typer

from dpcontingency._commands import echo
from dpcontingency._commands._curve import check_format, draw_curve
from dpcontingency._commands._plain import loss_as_data, plan_as_data
from dpcontingency._commands._shared import (
    Delta,
    Epsilon,
    Force,
    Given,
    Json,
    Margins,
    Mu,
    Relation,
    Rho,
    Strata,
    choice,
    domain_of,
    epilog,
    factors_in_file,
    fresh,
    loss,
    margins_of,
    misuse,
    print_facts,
    print_json,
)
from dpcontingency._labels import on_one_line
from dpcontingency.domain import Domain
from dpcontingency.errors import PlanningWarning
from dpcontingency.inference.planning import minimum_mu, minimum_n, power, two_by_two
from dpcontingency.inference.questions import TESTS, Question
from dpcontingency.privacy.gdp import GDP, ceil_digits
from dpcontingency.privacy.neighbours import REPLACE_ONE, in_words
from dpcontingency.release.workload import Objective, plan_margins

TEST_KEYS = (
    "asked", "test", "alpha", "n", "mu", "epsilon", "delta", "rho", "power",
    "power_without_noise", "neighbours", "strata", "notes", "curve",
)  # fmt: skip
MARGINS_KEYS = (
    "factors", "margins", "mu", "epsilon", "delta", "rho", "neighbours", "objective",
    "total_variance", "max_variance", "bound",
)  # fmt: skip
EPILOG = epilog(
    [
        "dpcontingency plan --odds-ratio 1.5 --n 2000 --power 0.8",
        "dpcontingency plan --odds-ratio 1.5 --mu 0.1 --power 0.8",
        "dpcontingency plan --odds-ratio 1.5 --n 2000 --mu 0.1 --curve power.svg",
        "dpcontingency plan --domain dose.yaml --alternative cells.csv \\",
        "      --test trend --factor Dose --factor Ill --n 2000 --power 0.8",
        "dpcontingency plan --domain domain.yaml --margins 'Admit,Dept;Gender' --mu 1",
    ],
    {"of a test": TEST_KEYS, "of margins": MARGINS_KEYS},
    """Of --n, --power and a loss say two: the third is answered. The table is 2 x 2,
or that of a domain file; then a CSV file says the cell probabilities, with a
column for each factor and one called probability. With --margins the noise
of every margin is told instead.""",
)
ARGUMENTS = {"factors": "factor", "power": "wanted"}


def run(
    odds_ratio: Annotated[
        float | None, typer.Option(metavar="X", help="Plan for a 2 x 2 table with this odds ratio.")
    ] = None,
    row: Annotated[
        float, typer.Option(metavar="P", help="With --odds-ratio: share of the first row.")
    ] = 0.5,
    column: Annotated[
        float, typer.Option(metavar="P", help="With --odds-ratio: share of the first column.")
    ] = 0.5,
    domain: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Or plan for the table of this domain.")
    ] = None,
    alternative: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --domain: its cell probabilities.")
    ] = None,
    test: Annotated[str, choice(TESTS, f"One of {', '.join(TESTS)}.")] = "independence",
    factor: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACTOR",
            help="Factor to test; may be repeated.",
            autocompletion=factors_in_file,
        ),
    ] = None,
    given: Given = None,
    null: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Null probabilities of goodness-of-fit.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="TEXT", help='Model to test, such as "[A B][B C]".')
    ] = None,
    n: Annotated[int | None, typer.Option(metavar="N", help="Number of records.")] = None,
    wanted: Annotated[
        float | None, typer.Option("--power", metavar="P", help="Power to reach.")
    ] = None,
    mu: Mu = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    alpha: Annotated[float, typer.Option(metavar="P", help="Level of the test.")] = 0.05,
    neighbours: Relation = REPLACE_ONE,
    strata: Strata = None,
    margins: Margins = None,
    objective: Annotated[
        str, choice(get_args(Objective), "With --margins, what is least: total- or max-variance.")
    ] = "total-variance",
    curve: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also draw the power against mu (.svg, .png, .pdf)."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Plan a test, or margins, before any privacy is spent.

    Of a test: its power, or the loss or the records that it needs. Of margins: the noise of each.
    """
    target = None if curve is None else fresh(curve, force, domain, alternative, null)
    if target is not None:
        check_format(target)
    losses = (mu, epsilon, delta, rho)
    privacy = None if losses == (None,) * 4 else loss(*losses)
    if margins:
        if domain is None or privacy is None or (odds_ratio, alternative, curve) != (None,) * 3:
            misuse("With --margins say --domain and a loss, and none of the options of a test.")
        _margins(domain_of(domain), margins_of(margins), privacy, objective, neighbours, as_json)
        return
    table, cells = _planned(odds_ratio, row, column, domain, alternative)
    question = Question(neighbours=neighbours, strata=strata or (), given=given or ())
    if factor:
        question["factors"] = factor
    if null is not None:
        question["null"] = _probabilities(null, table)
    if model is not None:
        question["model"] = model
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", PlanningWarning)
        if privacy is None and n is not None and wanted is not None:
            asked = "mu"
            privacy = GDP(minimum_mu(table, cells, n, wanted, test, alpha, **question))
        elif n is None and privacy is not None and wanted is not None:
            asked = "n"
            n = minimum_n(table, cells, privacy, wanted, test, alpha, **question)
        elif wanted is None and n is not None and privacy is not None:
            asked = "power"
        else:
            misuse("Say two of --n, --power and a loss (such as --mu); the third is answered.")
        reached = power(table, cells, n, privacy, test, alpha, **question)
        without = power(table, cells, n, None, test, alpha, **question)
        notes = list(dict.fromkeys(str(one.message) for one in warned))
        if target is not None:
            draw_curve(target, (table, cells, n, test, alpha, question), privacy.mu, wanted or 0.8)
    if as_json:
        print_json(
            {
                "asked": asked, "test": test, "alpha": alpha, "n": n, **loss_as_data(privacy),
                "power": reached, "power_without_noise": without, "neighbours": neighbours,
                "strata": strata or [], "notes": notes,
                "curve": None if target is None else str(target),
            }
        )  # fmt: skip
        return
    answer = {
        "mu": f"mu = {ceil_digits(privacy.mu)} is the least loss",
        "n": f"{n:,} is the least number of records",
        "power": f"power {reached:.4f}",
    }[asked]
    print_facts(
        {
            "Answer": answer,
            "Test": f"{test}, level {alpha:g}",
            "Records": f"{n:,}",
            "Privacy": privacy.describe(),
            "Neighbours": in_words(neighbours, strata or ()),
            "Power": f"{reached:.4f} (without noise {without:.4f})",
            **({"Note": " ".join(notes)} if notes else {}),
            **({} if target is None else {"Curve": str(target)}),
        }
    )


def _margins(
    domain: Domain,
    margins: Sequence[Sequence[str]],
    privacy: GDP,
    objective: str,
    neighbours: str,
    as_json: bool,
) -> None:
    """What the noise of every margin will be."""
    plan = plan_margins(
        domain,
        margins,
        privacy,
        objective=objective,  # type: ignore[arg-type]
        neighbours=neighbours,
    )
    if as_json:
        print_json(plan_as_data(plan))
        return
    said = plan.statement()
    print_facts({key: said[key] for key in ("Privacy", "Neighbours", "Loss", "Public", "Noise")})
    rows = [
        (on_one_line(", ".join(m)), f"{domain.project(m).size:,}", f"{plan.sd(*m):.5g}")
        for m in margins
    ]
    header = ("Margin", "Cells", "SD of a cell")
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for left, *numbers in (header, *rows):
        cells = [text.rjust(w) for text, w in zip(numbers, widths[1:], strict=True)]
        echo("  ".join([left.ljust(widths[0]), *cells]))


def _planned(
    odds_ratio: float | None, row: float, column: float, domain: Path | None, cells: Path | None
) -> tuple[Domain, Any]:
    """The table to be released and its cell probabilities."""
    if odds_ratio is not None and domain is None and cells is None:
        levels = ["first", "second"]
        return Domain({"Row": levels, "Column": levels}), two_by_two(odds_ratio, row, column)
    if odds_ratio is None and domain is not None and cells is not None:
        table = domain_of(domain)
        return table, _probabilities(cells, table)
    misuse(
        "Say the alternative in one way: --odds-ratio (with --row and --column), or --domain with "
        "--alternative."
    )


def _probabilities(path: Path, domain: Domain) -> Any:
    """Cell probabilities from a CSV file: a column for each factor, and ``probability``."""
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except ValueError:
        misuse(
            f"{path} is no CSV file of cell probabilities: UTF-8, comma-separated, with a header "
            "line."
        )
    missing = [name for name in (*domain.names, "probability") if name not in frame]
    if missing:
        misuse(f"{path} has no column {missing[0]!r}: it needs one a factor, and probability.")
    cells = np.zeros(domain.shape)
    for record in frame.to_dict("records"):
        cell = tuple(domain.index(name, record[name]) for name in domain.names)
        try:
            cells[cell] += float(record["probability"])
        except ValueError:
            misuse(f"{path} has the probability {record['probability']!r}, which is no number.")
    return cells
