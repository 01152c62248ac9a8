"""A test of a hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_args

import typer

from dpcontingency._commands import echo_page
from dpcontingency._commands._shared import (
    Given,
    Json,
    ReleaseFile,
    choice,
    epilog,
    factors_in_file,
    misuse,
    print_json,
)
from dpcontingency.inference.association_tests import cmh_test, trend_test
from dpcontingency.inference.hypothesis import homogeneity_test, independence_test
from dpcontingency.inference.pvalues import DEFAULT_BOOT, PValue, Statistic
from dpcontingency.inference.square_tests import marginal_homogeneity_test, symmetry_test
from dpcontingency.inference.testresult import TestResult
from dpcontingency.release.release import load_release
from dpcontingency.report import plain

Runner = Callable[[Any, list[str], list[str], dict[str, Any]], TestResult]

CMH, MARGINAL_HOMOGENEITY = "cmh", "marginal-homogeneity"
JSON_KEYS = (
    "name", "null", "statistic", "df", "pvalue", "log_pvalue", "pvalue_is_bound", "method",
    "n_boot", "seed", "accounts_for", "reason", "notes",
)  # fmt: skip
EPILOG = epilog(
    [
        "dpcontingency test release.json Admit Gender --given Dept",
        "dpcontingency test release.json Admit Gender --kind cmh --given Dept",
    ],
    {"": JSON_KEYS},
)
ARGUMENTS = {"rng": "seed", "by": "given"}

KINDS: dict[str, Runner] = {
    "independence": lambda table, factors, given, options: independence_test(
        table, *factors, given=given, **options
    ),
    "homogeneity": lambda table, factors, given, options: homogeneity_test(
        table, *factors, by=given, **options
    ),
    "trend": lambda table, factors, given, options: trend_test(
        table, *_two(factors, "trend"), given=given, **options
    ),
    CMH: lambda table, factors, given, options: cmh_test(
        table, *_two(factors, CMH), given, **options
    ),
    "symmetry": lambda table, factors, given, options: symmetry_test(
        table, *_ungrouped(factors, given, "symmetry"), **options
    ),
    MARGINAL_HOMOGENEITY: lambda table, factors, given, options: marginal_homogeneity_test(
        table, *_ungrouped(factors, given, MARGINAL_HOMOGENEITY), **options
    ),
}


def run(
    release: ReleaseFile,
    factors: Annotated[
        list[str],
        typer.Argument(
            metavar="FACTOR...",
            help="The factors in question.",
            autocompletion=factors_in_file,
        ),
    ],
    given: Given = None,
    kind: Annotated[str, choice(KINDS, f"What is tested: {', '.join(KINDS)}.")] = "independence",
    statistic: Annotated[
        str | None,
        choice(
            get_args(Statistic),
            f"{', '.join(get_args(Statistic))}; each kind of test has its default.",
        ),
    ] = None,
    pvalue: Annotated[
        str,
        choice(
            get_args(PValue),
            "asymptotic (chi-square), bootstrap (of table and noise), or auto: either.",
        ),
    ] = "auto",
    n_boot: Annotated[int, typer.Option(metavar="N", help="Bootstrap replicates.")] = DEFAULT_BOOT,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Of the bootstrap, to repeat a p-value.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Test a hypothesis, such as independence, on a release."""
    table, within = load_release(release), given or []
    options: dict[str, Any] = {} if statistic is None else {"statistic": statistic}
    if kind != MARGINAL_HOMOGENEITY:
        options |= {"pvalue": pvalue, "n_boot": n_boot, "rng": seed}
    elif pvalue == "bootstrap" or seed is not None:
        misuse(f"--kind {kind} has a chi-square p-value only; leave out --pvalue and --seed.")
    result = KINDS[kind](table, factors, within, options)
    if as_json:
        print_json(plain.of_test(result))
    else:
        echo_page(result.summary())


def _two(factors: list[str], kind: str) -> tuple[str, str]:
    if len(factors) != 2:
        misuse(f"--kind {kind} takes two factors; got {len(factors)}.")
    return factors[0], factors[1]


def _ungrouped(factors: list[str], given: list[str], kind: str) -> tuple[str, str]:
    if given:
        misuse(f"--kind {kind} takes no --given; leave it out.")
    return _two(factors, kind)
