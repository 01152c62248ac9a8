"""A report of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpcontingency._commands import echo
from dpcontingency._commands._shared import (
    Force,
    Json,
    ReleaseFile,
    epilog,
    fresh,
    model_of,
    print_json,
    question,
)
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.release.release import load_release
from dpcontingency.report import plain
from dpcontingency.report.document import renderer_of, write_report

JSON_KEYS = ("report", "models", "tests")
EPILOG = epilog(
    [
        "dpcontingency report release.json --output report.html \\",
        "      --test 'Admit,Gender|Dept' --model '[Admit Dept][Gender Dept]'",
    ],
    {"": JSON_KEYS},
)


def run(
    release: ReleaseFile,
    output: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Where to write it; the suffix says how: .html, .md, .json."
        ),
    ],
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
    as_json: Json = False,
) -> None:
    """Write a report of a release: HTML, Markdown or JSON.

    A factor name that holds a comma or a bar stands in backticks: --test '`a,b`,C|`d|e`'.
    """
    target = fresh(output, force, release)
    renderer_of(target)  # which refuses other suffixes, before any work
    questions = [question(text) for text in test or ()]
    source: Any = load_release(release)
    tests = [independence_test(source, *names, given=given) for names, given in questions]
    fitted = [model_of(source, text, None) for text in model or ()]
    fitted += [model_of(source, None, text) for text in formula or ()]
    models = [one.fit(warn_convergence=False) for one in fitted]
    write_report(source, target, models=models, tests=tests, title=title)
    if as_json:
        print_json(
            {
                "report": str(target),
                "models": [plain.of_fit(fit) for fit in models],
                "tests": [plain.of_test(result) for result in tests],
            }
        )
        return
    echo(f"Report: {target}")
