"""The command line: parses, calls, prints. Every number comes from the objects it calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import pandas as pd
import typer
from typer.core import TyperGroup

from dpcontingency._demo_data import demo_file
from dpcontingency.domain import Domain, label_text
from dpcontingency.errors import DPContingencyError, PrivacyError, did_you_mean
from dpcontingency.inference.association_tests import cmh_test, trend_test
from dpcontingency.inference.hypothesis import homogeneity_test, independence_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.nested import DEFAULT_BOOT
from dpcontingency.inference.planning import minimum_mu, minimum_n, power, two_by_two
from dpcontingency.inference.printing import p_equals
from dpcontingency.inference.questions import TESTS, Question
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.square_tests import marginal_homogeneity_test, symmetry_test
from dpcontingency.inference.testresult import TestResult
from dpcontingency.privacy.gdp import GDP, ceil_digits
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.privacy.neighbours import REPLACE_ONE, in_words
from dpcontingency.release.mechanisms import MECHANISMS, Mechanism
from dpcontingency.release.publish import release_table
from dpcontingency.release.release import Release, load_release
from dpcontingency.report import plain
from dpcontingency.report.document import write_report
from dpcontingency.report.tables import DELTA
from dpcontingency.report.words import number_of, records_of
from dpcontingency.tabulate import tabulate

MISUSE = 2
INTERRUPTED = 130  # what typer, and a shell, say of a program that Ctrl-C stopped


class CommandLineError(DPContingencyError):
    """The options contradict each other, or name an output that may not be written."""


# What a user can mend: beside the package's errors and the file system's, whatever typer raises on
# misuse, which are click's errors under names that typer keeps private.
_REFUSALS: tuple[type[Exception], ...] = (
    DPContingencyError,
    OSError,
    *(
        kind
        for kind in typer.BadParameter.__mro__
        if issubclass(kind, Exception) and hasattr(kind, "format_message")
    ),
)


class OneLineErrors(TyperGroup):
    """Commands whose every failure is one line on standard error and exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run, and turn misuse and the package's errors into one line."""
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except typer.Abort:
            code = INTERRUPTED
        except _REFUSALS as error:
            _fail(error)
        if code == INTERRUPTED:
            typer.echo("dpcontingency: stopped by Ctrl-C.", err=True)
        raise SystemExit(code if isinstance(code, int) else 0)


def _fail(error: Exception) -> NoReturn:
    """One line on standard error, without a traceback."""
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    if isinstance(error, OSError) and error.filename is not None:
        text = f"Cannot use {error.filename}: {error.strerror}."
    typer.echo(f"dpcontingency: {' '.join(text.split())}", err=True)
    raise SystemExit(MISUSE)


app = typer.Typer(
    cls=OneLineErrors,
    name="dpcontingency",
    epilog="Start with: dpcontingency demo",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dpcontingency {version('dpcontingency')}")
        raise typer.Exit()


@app.callback()
def _root(
    context: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Private contingency tables, and log-linear inference that allows for their noise."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line."""
    app(prog_name="dpcontingency")


# ------------------------------------------------------------------ what options mean


class Statistic(StrEnum):
    """What a test rests on."""

    LR = "lr"
    SCORE = "score"
    WALD = "wald"
    JS_PEARSON = "js-pearson"


class Method(StrEnum):
    """How a model is fitted."""

    ML = "ml"
    NORMAL = "normal"


class Penalty(StrEnum):
    """What is added to the log-likelihood."""

    JEFFREYS = "jeffreys"


class PValue(StrEnum):
    """Where a p-value comes from."""

    AUTO = "auto"
    ASYMPTOTIC = "asymptotic"
    BOOTSTRAP = "bootstrap"


class Kind(StrEnum):
    """What is tested."""

    INDEPENDENCE = "independence"
    HOMOGENEITY = "homogeneity"
    TREND = "trend"
    CMH = "cmh"
    SYMMETRY = "symmetry"
    MARGINAL_HOMOGENEITY = "marginal-homogeneity"


# "\b" keeps the lines of a paragraph of help as they are.
_DOMAIN_FILE = """\b
The domain file declares the public factors and their levels, in order:
  factors:
    Admit: [Admitted, Rejected]
    Dept: [A, B, C]
"""


def _example(command: str, *more: str) -> str:
    """What stands under the options of a command."""
    return "\n\n".join([f"\b\nExample:\n  dpcontingency {command}", *more])


ReleaseFile = Annotated[
    Path, typer.Argument(metavar="RELEASE", help="A release file, made by the release command.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]


def _misuse(message: str) -> NoReturn:
    raise CommandLineError(message)


def _fresh(path: Path, force: bool) -> Path:
    """The path of an output that may be written; asked before any work or privacy is spent."""
    if path.is_dir():
        _misuse(f"{path} is a folder: name a file in it.")
    if not path.parent.is_dir():
        _misuse(f"There is no folder {path.parent}: make it, or choose another.")
    if path.exists() and not force:
        _misuse(f"{path} exists already: choose another name, or pass --force to replace it.")
    return path


def _loss(mu: float | None, epsilon: float | None, delta: float | None, rho: float | None) -> GDP:
    """The privacy loss, said in exactly one of three currencies."""
    said = [mu is not None, epsilon is not None or delta is not None, rho is not None]
    if sum(said) != 1:
        _misuse("Say the privacy loss in one way: --mu, or --epsilon with --delta, or --rho.")
    if mu is not None:
        return GDP(mu)
    if rho is not None:
        return GDP.from_zcdp(rho)
    if epsilon is None or delta is None:
        _misuse("--epsilon and --delta go together, such as --epsilon 1 --delta 1e-6.")
    return GDP.from_epsilon_delta(epsilon, delta)


def _mechanism(name: str | None) -> Mechanism | None:
    if name is None:
        return None
    if name not in MECHANISMS:
        raise PrivacyError(f"There is no mechanism {name!r}; {did_you_mean(name, MECHANISMS)}")
    return MECHANISMS[name]()


def _ledger(
    path: Path | None, budget: float | None, neighbours: str, strata: Sequence[str]
) -> PrivacyLedger | None:
    if path is None:
        if budget is not None:
            _misuse("--budget is the total of a ledger: name its file by --ledger.")
        return None
    total = None if budget is None else GDP(budget)
    return PrivacyLedger(path, total, neighbours=neighbours, strata=strata)


def _model(release: Release, generators: str | None, formula: str | None) -> LogLinearModel:
    if (not generators and not formula) or (generators and formula):
        _misuse('Say the model in one way: "[A B][B C]", or --formula "A*B + B*C".')
    if formula is not None:
        return LogLinearModel.from_formula(formula, release)
    return LogLinearModel(release, generators or "")


_NAME = re.compile(r"\s*(?:`([^`]*)`|([^,|`]*[^,|`\s]))\s*([,|]|$)")


def _question(text: str) -> tuple[list[str], list[str]]:
    """The factors and the given ones in ``A,B|C,D``; backticks around a name allow anything.

    Examples
    --------
    >>> _question("Admit,Gender|Dept")
    (['Admit', 'Gender'], ['Dept'])
    >>> _question("`a,b`, x y | `c|d`")
    (['a,b', 'x y'], ['c|d'])
    """
    sides: list[list[str]] = [[]]
    position, end = 0, ","
    while end:
        match = _NAME.match(text, position)
        if match is None:
            _misuse(
                f"--test {text!r} cannot be read: write 'A,B' or 'A,B|C', with backticks around a "
                "name that holds a comma, a bar or a backtick."
            )
        sides[-1].append(match[1] if match[1] is not None else match[2])
        position, end = match.end(), match[3]
        if end == "|":
            sides.append([])
    if len(sides) > 2:
        _misuse(f"--test {text!r} has more than one bar: write 'A,B|C,D'.")
    return sides[0], sides[1] if len(sides) == 2 else []


# ------------------------------------------------------------------ what is printed


def _print_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False))


# ------------------------------------------------------------------ commands


@app.command(
    "release",
    epilog=_example(
        "release records.csv --domain domain.yaml --mu 0.5 --output release.json", _DOMAIN_FILE
    ),
)
def make_release(
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
    mu: Annotated[
        float | None, typer.Option(metavar="X", help="Privacy loss in Gaussian DP.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(metavar="X", help="Or the loss as (epsilon, delta).")
    ] = None,
    delta: Annotated[float | None, typer.Option(metavar="X", help="With --epsilon.")] = None,
    rho: Annotated[float | None, typer.Option(metavar="X", help="Or the loss in zCDP.")] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"One of {', '.join(MECHANISMS)}. [default: RankDeficientJamesStein, where the "
            "table is large enough]",
        ),
    ] = None,
    neighbours: Annotated[
        str, typer.Option(metavar="NAME", help="replace-one (n is public) or add-remove.")
    ] = REPLACE_ONE,
    strata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACTOR", help="Factor whose margin is public; repeat for a joint margin."
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column that says how many records a row stands for."),
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
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Tabulate confidential records and release the table with noise."""
    target = _fresh(output, force)
    privacy = _loss(mu, epsilon, delta, rho)
    chosen = _mechanism(mechanism)
    books = _ledger(ledger, budget, neighbours, strata or ())
    table = tabulate(records, Domain.from_yaml(domain), weights=weights, missing=missing)
    made = release_table(
        table,
        privacy,
        mechanism=chosen,
        neighbours=neighbours,
        strata=strata or (),
        ledger=books,
    )
    made.save(target)
    if as_json:
        _print_json({"output": str(target), **plain.of_release(made)})
        return
    _print_release(made)
    typer.echo(f"Saved to {target}")


def _print_release(made: Release) -> None:
    cells = int(made.domain.possible().sum())
    facts = {"Table": f"{number_of(cells, 'cell')}, {records_of(made)}", **made.statement()}
    for label, text in facts.items():
        typer.echo(f"{label + ':':<11} {text}")


@app.command("fit", epilog=_example("fit release.json '[Admit Dept][Gender Dept]'"))
def fit_model(
    release: ReleaseFile,
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help='Generating class such as "[A B][B C]".'),
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help='Instead of MODEL: a formula such as "A*B + B*C" or "A + B + Symm(A, B)".',
        ),
    ] = None,
    method: Annotated[
        Method, typer.Option(help="Maximum likelihood, or minimum chi-square.")
    ] = Method.ML,
    penalty: Annotated[
        Penalty | None,
        typer.Option(help="Finite estimates where noise has eaten a margin; with --method ml."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also save the results here (JSON).")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fit a log-linear model to a release.

    A factor name that holds spaces or signs stands in backticks, in both notations:
    '[`my a` B]'.
    """
    target = None if output is None else _fresh(output, force)
    results = _model(load_release(release), model, formula).fit(
        method=method.value,
        penalty="jeffreys" if penalty else None,
        warn_convergence=False,
    )
    if target is not None:
        results.save(target)
    if as_json:
        _print_json(plain.of_fit(results))
    else:
        typer.echo(str(results.summary()))


@app.command(
    "test",
    epilog=_example(
        "test release.json Admit Gender --given Dept",
        "dpcontingency test release.json Dose Cured --kind trend",
    ),
)
def run_test(
    release: ReleaseFile,
    factors: Annotated[
        list[str], typer.Argument(metavar="FACTOR...", help="The factors in question.")
    ],
    given: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACTOR",
            help="Factor to condition on, or that makes the groups; may be repeated.",
        ),
    ] = None,
    kind: Annotated[Kind, typer.Option(help="What is tested.")] = Kind.INDEPENDENCE,
    statistic: Annotated[
        Statistic | None, typer.Option(help="The statistic; each kind of test has its default.")
    ] = None,
    pvalue: Annotated[
        PValue, typer.Option(help="Chi-square, a bootstrap of table and noise, or either.")
    ] = PValue.AUTO,
    n_boot: Annotated[int, typer.Option(metavar="N", help="Bootstrap replicates.")] = DEFAULT_BOOT,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Of the bootstrap, to repeat a p-value.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Test a hypothesis, such as independence, on a release."""
    table, within = load_release(release), given or []
    options: dict[str, Any] = {} if statistic is None else {"statistic": statistic.value}
    if kind is not Kind.MARGINAL_HOMOGENEITY:
        options |= {"pvalue": pvalue.value, "n_boot": n_boot, "rng": seed}
    elif pvalue is PValue.BOOTSTRAP or seed is not None:
        _misuse(
            f"--kind {kind.value} has a chi-square p-value only; leave out --pvalue and --seed."
        )
    result = _TESTS[kind](table, factors, within, options)
    if as_json:
        _print_json(plain.of_test(result))
    else:
        typer.echo(result.summary())


def _two(factors: list[str], given: list[str], kind: Kind) -> tuple[str, str]:
    if len(factors) != 2:
        _misuse(f"--kind {kind.value} takes two factors; got {len(factors)}.")
    if given and kind in (Kind.SYMMETRY, Kind.MARGINAL_HOMOGENEITY):
        _misuse(f"--kind {kind.value} takes no --given; leave it out.")
    return factors[0], factors[1]


_TESTS: dict[Kind, Callable[[Release, list[str], list[str], dict[str, Any]], TestResult]] = {
    Kind.INDEPENDENCE: lambda table, factors, given, options: independence_test(
        table, *factors, given=given, **options
    ),
    Kind.HOMOGENEITY: lambda table, factors, given, options: homogeneity_test(
        table, *factors, by=given, **options
    ),
    Kind.TREND: lambda table, factors, given, options: trend_test(
        table, *_two(factors, given, Kind.TREND), given=given, **options
    ),
    Kind.CMH: lambda table, factors, given, options: cmh_test(
        table, *_two(factors, given, Kind.CMH), given, **options
    ),
    Kind.SYMMETRY: lambda table, factors, given, options: symmetry_test(
        table, *_two(factors, given, Kind.SYMMETRY), **options
    ),
    Kind.MARGINAL_HOMOGENEITY: lambda table, factors, given, options: marginal_homogeneity_test(
        table, *_two(factors, given, Kind.MARGINAL_HOMOGENEITY), **options
    ),
}


@app.command(
    "report", epilog=_example("report release.json --output report.html --test 'Admit,Gender|Dept'")
)
def make_report(
    release: ReleaseFile,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the report (HTML).")],
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help='Model to fit, such as "[A B][B C]"; may be repeated.'),
    ] = None,
    formula: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help='Model as a formula, "A*B + B*C"; may be repeated.'),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help='Independence test, "A,B" or "A,B|C"; may be repeated.'),
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Heading of the report.")
    ] = None,
    force: Force = False,
) -> None:
    """Write a report of a release as one HTML file.

    A factor name that holds a comma or a bar stands in backticks: --test '`a,b`,C|`d|e`'.
    """
    target = _fresh(output, force)
    questions = [_question(text) for text in test or ()]
    source = load_release(release)
    tests = [independence_test(source, *names, given=given) for names, given in questions]
    fitted = [_model(source, text, None) for text in model or ()]
    fitted += [_model(source, None, text) for text in formula or ()]
    models = [one.fit(warn_convergence=False) for one in fitted]
    write_report(source, target, models=models, tests=tests, title=title)
    typer.echo(f"Report: {target}")


@app.command("privacy", epilog=_example("privacy survey.ledger"))
def show_ledger(
    ledger: Annotated[Path, typer.Argument(metavar="LEDGER", help="A ledger file.")],
    as_json: Json = False,
) -> None:
    """Print a privacy ledger: budget, spendings, what is left."""
    books = PrivacyLedger(ledger)
    entries = books.entries
    if as_json:
        _print_json(
            {
                "ledger": str(ledger),
                "neighbours": books.neighbours,
                "strata": list(books.strata),
                "budget": books.budget.mu,
                "spent": books.spent,
                "remaining": books.remaining,
                "entries": [asdict(entry) for entry in entries],
            }
        )
        return
    typer.echo(f"Budget:     {books.budget.describe()}")
    typer.echo(f"Neighbours: {in_words(books.neighbours, books.strata)}")
    for entry in entries:
        state = entry.checksum or "never finished, spent all the same"
        typer.echo(f"{entry.number:>4}  mu = {ceil_digits(entry.mu)}  {entry.what}  ({state})")
    typer.echo(f"Spent:      mu = {ceil_digits(books.spent)}")
    typer.echo(f"Left:       mu = {books.remaining:.6g}")


@app.command(
    "plan",
    epilog=_example(
        "plan --odds-ratio 1.5 --n 2000 --power 0.8",
        """\b
Of --n, --power and a loss say two: the third is answered.
  dpcontingency plan --odds-ratio 1.5 --mu 0.1 --power 0.8
  dpcontingency plan --odds-ratio 1.5 --n 2000 --mu 0.1""",
        """\b
For other tables name a domain file and a CSV file of cell probabilities, with
a column for each factor and one called probability:
  dpcontingency plan --domain domain.yaml --alternative cells.csv \\
      --test trend --factor Dose --factor Ill --n 2000 --power 0.8""",
    ),
)
def make_plan(
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
    test: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(TESTS)}.")
    ] = "independence",
    factor: Annotated[
        list[str] | None, typer.Option(metavar="FACTOR", help="Factor to test; may be repeated.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(metavar="FACTOR", help="Factor to condition on; may be repeated."),
    ] = None,
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
    mu: Annotated[
        float | None, typer.Option(metavar="X", help="Privacy loss in Gaussian DP.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(metavar="X", help="Or the loss as (epsilon, delta).")
    ] = None,
    delta: Annotated[float | None, typer.Option(metavar="X", help="With --epsilon.")] = None,
    rho: Annotated[float | None, typer.Option(metavar="X", help="Or the loss in zCDP.")] = None,
    alpha: Annotated[float, typer.Option(metavar="P", help="Level of the test.")] = 0.05,
    neighbours: Annotated[
        str, typer.Option(metavar="NAME", help="replace-one (n is public) or add-remove.")
    ] = REPLACE_ONE,
    strata: Annotated[
        list[str] | None,
        typer.Option(metavar="FACTOR", help="Factor whose margin is public; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Plan a test: its power, or the loss or records it needs."""
    losses = (mu, epsilon, delta, rho)
    privacy = None if losses == (None,) * 4 else _loss(*losses)
    table, cells = _planned(odds_ratio, row, column, domain, alternative)
    question = Question(neighbours=neighbours, strata=strata or (), given=given or ())
    if factor:
        question["factors"] = factor
    if null is not None:
        question["null"] = _probabilities(null, table)
    if model is not None:
        question["model"] = model
    if privacy is None and n is not None and wanted is not None:
        asked = "mu"
        privacy = GDP(minimum_mu(table, cells, n, wanted, test, alpha, **question))
    elif n is None and privacy is not None and wanted is not None:
        asked = "n"
        n = minimum_n(table, cells, privacy, wanted, test, alpha, **question)
    elif wanted is None and n is not None and privacy is not None:
        asked = "power"
    else:
        _misuse("Say two of --n, --power and a loss (such as --mu); the third is answered.")
    reached = power(table, cells, n, privacy, test, alpha, **question)
    without = power(table, cells, n, None, test, alpha, **question)
    if as_json:
        _print_json(
            {
                "asked": asked, "test": test, "alpha": alpha, "n": n, "mu": privacy.mu,
                "epsilon": privacy.epsilon(DELTA), "delta": DELTA, "rho": privacy.rho,
                "power": reached, "power_without_noise": without, "neighbours": neighbours,
                "strata": strata or [],
            }
        )  # fmt: skip
        return
    answer = {
        "mu": f"mu = {ceil_digits(privacy.mu)} is the least loss",
        "n": f"{n:,} is the least number of records",
        "power": f"power {reached:.4f}",
    }[asked]
    facts = {
        "Answer": answer,
        "Test": f"{test}, level {alpha:g}",
        "Records": f"{n:,}",
        "Privacy": privacy.describe(),
        "Neighbours": in_words(neighbours, strata or ()),
        "Power": f"{reached:.4f} (without noise {without:.4f})",
    }
    for label, text in facts.items():
        typer.echo(f"{label + ':':<11} {text}")


def _planned(
    odds_ratio: float | None, row: float, column: float, domain: Path | None, cells: Path | None
) -> tuple[Domain, Any]:
    """The table to be released and its cell probabilities."""
    if odds_ratio is not None and domain is None and cells is None:
        levels = ["first", "second"]
        return Domain({"Row": levels, "Column": levels}), two_by_two(odds_ratio, row, column)
    if odds_ratio is None and domain is not None and cells is not None:
        table = Domain.from_yaml(domain)
        return table, _probabilities(cells, table)
    _misuse(
        "Say the alternative in one way: --odds-ratio (with --row and --column), or --domain with "
        "--alternative."
    )


def _probabilities(path: Path, domain: Domain) -> Any:
    """Cell probabilities from a CSV file: a column for each factor, and ``probability``."""
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except ValueError as error:
        _misuse(f"{path} is no CSV file of cell probabilities: {error}.")
    missing = [name for name in (*domain.names, "probability") if name not in frame]
    if missing:
        _misuse(f"{path} has no column {missing[0]!r}: it needs one a factor, and probability.")
    cells = np.zeros(domain.shape)
    for record in frame.to_dict("records"):
        cell = tuple(domain.index(name, record[name]) for name in domain.names)
        try:
            cells[cell] += float(record["probability"])
        except ValueError:
            _misuse(f"{path} has the probability {record['probability']!r}, which is no number.")
    return cells


@app.command("demo", epilog=_example("demo --output demo"))
def run_demo(
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where to write the demo's files.")
    ] = Path("dpcontingency-demo"),
    as_json: Json = False,
) -> None:
    """Run the whole job on the Berkeley admissions data.

    From the records of 4,526 applicants to a release at mu = 1, two tests, a model and a report.
    Writes release.json and report.html; running it again replaces them, with new noise.
    """
    domain = Domain.from_yaml(demo_file("ucb_admissions_domain.yaml"))
    table = tabulate(demo_file("ucb_admissions_records.csv"), domain)
    made = release_table(table, GDP(mu=1))
    marginal = independence_test(made, "Admit", "Gender")
    conditional = independence_test(made, "Admit", "Gender", given=("Dept",))
    model = LogLinearModel.from_formula("Admit*Dept + Gender*Dept", made)
    results = model.fit(warn_convergence=False)
    output.mkdir(parents=True, exist_ok=True)
    made.save(output / "release.json")
    write_report(
        made,
        output / "report.html",
        models=[results],
        tests=[marginal, conditional],
        title="Admission to Berkeley, 1973: a private release",
    )
    if as_json:
        _print_json(
            {
                "report": str(output / "report.html"),
                "release": {"output": str(output / "release.json"), **plain.of_release(made)},
                "marginal": plain.of_test(marginal),
                "conditional": plain.of_test(conditional),
                "model": plain.of_fit(results),
            }
        )
        return
    typer.echo(f"Report: {output / 'report.html'}")
    for line in _simpson(made, marginal, conditional, results):
        typer.echo(line)


def _simpson(
    made: Release, marginal: TestResult, conditional: TestResult, results: LogLinearResults
) -> Sequence[str]:
    """Simpson's paradox in four lines."""
    saturated = LogLinearModel(made.margin("Admit", "Gender"), "[Admit Gender]").fit()
    interaction = str(saturated.params.index[-1])
    odds = float(np.exp(saturated.params[interaction]))
    low, high = np.exp(saturated.conf_int().loc[interaction])
    rows = made.margin("Gender", "Dept").noisy
    hard = made.margin("Admit", "Dept").noisy
    rates = hard[0] / hard.sum(axis=0)
    easy = rates > 0.5
    shares = rows[:, easy].sum(axis=1) / rows.sum(axis=1)
    letters = [label_text(level) for level in made.domain.levels["Dept"]]
    chosen = " and ".join(letter for letter, is_easy in zip(letters, easy, strict=True) if is_easy)
    residuals = results.resid_pearson.abs().groupby(level="Dept", sort=False).max()
    others = residuals.drop(residuals.idxmax()).max()
    return [
        f"1. Admit and Gender, all departments together: chi2 = {marginal.statistic:.1f} on "
        f"{marginal.df} df, {p_equals(marginal.pvalue)}; odds of admission, men to women: "
        f"{odds:.2f} (95 % interval {low:.2f} to {high:.2f}).",
        f"2. Department by department: chi2 = {conditional.statistic:.1f} on {conditional.df} df, "
        f"{p_equals(conditional.pvalue)}.",
        f"3. The largest residual of that model, {residuals.max():.1f}, is in department "
        f"{residuals.idxmax()}; in the others none is above {others:.1f}.",
        f"4. Departments {chosen} admit more than half of those who apply; {shares[0]:.0%} of the "
        f"men and {shares[1]:.0%} of the women applied there.",
    ]
