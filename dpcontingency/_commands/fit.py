"""A log-linear model of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from dpcontingency._commands import echo_page
from dpcontingency._commands._shared import (
    Force,
    Json,
    ReleaseFile,
    choice,
    epilog,
    fresh,
    model_of,
    print_json,
)
from dpcontingency.inference.loglinear import LeftOut
from dpcontingency.inference.pvalues import DEFAULT_BOOT, PValue
from dpcontingency.release.release import load_release
from dpcontingency.report import plain

JSON_KEYS = (
    "private", "model", "generators", "special_terms", "factors", "equally_likely",
    "coding", "method", "penalty", "converged",
    "reason", "not_estimable", "llf", "aic", "bic", "df_model", "df_resid", "gof", "coefficients",
)  # fmt: skip
EPILOG = epilog(
    [
        "dpcontingency fit release.json '[Admit Dept][Gender Dept]'",
        "dpcontingency fit release.json --formula 'Admit*Dept + Gender*Dept'",
    ],
    {"": JSON_KEYS},
)

ARGUMENTS = {"rng": "seed"}


def run(
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
    left_out: Annotated[
        str,
        choice(
            get_args(LeftOut),
            "Factors that the model does not name: summed over (margin), or with equally likely "
            "levels (uniform).",
        ),
    ] = "margin",
    method: Annotated[
        str, choice(("ml", "normal"), "ml: maximum likelihood; normal: minimum chi-square.")
    ] = "ml",
    penalty: Annotated[
        str | None,
        choice(
            ("jeffreys",),
            "jeffreys: finite estimates where noise has eaten a margin; with --method ml.",
        ),
    ] = None,
    pvalue: Annotated[
        str,
        choice(
            get_args(PValue),
            "Of the tests of fit: auto (chi-square where it holds), asymptotic, or bootstrap (of "
            "table and noise).",
        ),
    ] = "auto",
    n_boot: Annotated[int, typer.Option(metavar="N", help="Bootstrap replicates.")] = DEFAULT_BOOT,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Of the bootstrap, to repeat a p-value.")
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
    target = None if output is None else fresh(output, force, release)
    results = model_of(load_release(release), model, formula, left_out).fit(
        method=method,  # type: ignore[arg-type]
        penalty=penalty,  # type: ignore[arg-type]
        warn_convergence=False,
    )
    if target is not None:
        results.save(target)
    gof = results.gof(pvalue=pvalue, n_boot=n_boot, rng=seed)  # type: ignore[arg-type]
    if as_json:
        print_json(plain.of_fit(results, gof))
        return
    echo_page(str(results.summary()))
    if pvalue != "auto":
        echo_page(f"\nGoodness of fit:\n{gof.summary()}")
