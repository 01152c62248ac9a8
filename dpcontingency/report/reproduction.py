"""How to make a report again from the saved release: in Python, and on the command line."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Sequence
from importlib.metadata import version

from dpcontingency.inference.hypothesis import model_code
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.testresult import TestResult
from dpcontingency.report.kinds import Kind
from dpcontingency.report.parts import Block, Code, Section, Text

_PLAIN = re.compile(r"[^\W\d]\w*")


def reproduction(
    kind: Kind,
    models: Sequence[LogLinearResults],
    tests: Sequence[TestResult],
    chosen: LogLinearResults | None,
    title: str | None,
) -> Section:
    """The section that says how to make the report again."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "statsmodels"))
    blocks: list[Block] = [
        Text(
            f"Written by dpcontingency {version('dpcontingency')} with {versions}. The saved "
            "release is all that is needed; the noise itself is not drawn again."
        ),
        Code("python", "python", code_for(kind, models, tests, chosen, title)),
    ]
    command = command_for(kind, models, tests, chosen, title)
    if command:
        blocks += [
            Text("Or on the command line, where bootstrap p-values are drawn anew:"),
            Code("command", "sh", command),
        ]
    return Section("again", "How to reproduce", blocks)


def code_for(
    kind: Kind,
    models: Sequence[LogLinearResults],
    tests: Sequence[TestResult],
    chosen: LogLinearResults | None = None,
    title: str | None = None,
) -> str:
    """Python that makes this report from the saved release."""
    lines = ["import dpcontingency as dpc", "", f'release = {kind.loader}("release.json")']
    fitted, tested = [], []
    for number, fit in enumerate(models, 1):
        model = model_code(fit.model, _data(kind, fit))
        lines.append(f"model{number} = {model}.fit({_options(fit)})")
        fitted.append(f"model{number}")
    for number, test in enumerate(tests, 1):
        if "(release" not in test.call.replace("(releases", ""):  # of several releases
            lines.append(f"# {test.name}: {' '.join(test.null.split())}")
            continue
        lines.append(f"test{number} = {test.call}")
        tested.append(f"test{number}")
    arguments = ["release", '"report.html"']
    arguments += [f"models=[{', '.join(fitted)}]"] if fitted else []
    arguments += [f"tests=[{', '.join(tested)}]"] if tested else []
    if chosen is not None and chosen is not models[-1]:
        arguments.append(f"chosen={fitted[_place(models, chosen)]}")
    arguments += [f"title={title!r}"] if title else []
    return "\n".join([*lines, f"dpc.write_report({', '.join(arguments)})"])


def command_for(
    kind: Kind,
    models: Sequence[LogLinearResults],
    tests: Sequence[TestResult],
    chosen: LogLinearResults | None = None,
    title: str | None = None,
) -> str:
    """A command that makes this report, or nothing where the command line cannot say it.

    It says hierarchical models with the default options, and independence tests.
    """
    words = ["dpcontingency", "report", "release.json", "--output", "report.html", "--force"]
    for fit in models:
        margins = [[_quoted(name) for name in margin] for margin in fit.generators]
        plain = model_code(fit.model) == f"dpc.LogLinearModel(release, {list(fit.generators)!r})"
        default = plain and not _options(fit) and _data(kind, fit) == "release"
        if not default or any(None in margin for margin in margins):
            return ""
        words += ["--model", "".join(f"[{' '.join(map(str, margin))}]" for margin in margins)]
    for test in tests:
        question = _question(test)
        if question is None:
            return ""
        words += ["--test", question]
    if chosen is not None and chosen is not models[-1]:
        return ""
    words += ["--title", title] if title else []
    return shlex.join(words)


def _question(test: TestResult) -> str | None:
    """An independence test as the command line writes it, such as A,B|C."""
    if not test.call.startswith("dpc.independence_test(release, "):
        return None
    call = ast.parse(test.call, mode="eval").body
    assert isinstance(call, ast.Call)
    options = {word.arg: word.value for word in call.keywords}
    given = ast.literal_eval(options.pop("given", ast.List([])))
    options.pop("rng", None)
    if options:
        return None
    asked = [ast.literal_eval(argument) for argument in call.args[1:]]
    if not all(isinstance(name, str) for name in asked):
        return None
    names, conditions = ([_quoted(name) for name in part] for part in (asked, given))
    if None in (*names, *conditions):
        return None
    left, right = (",".join(map(str, part)) for part in (names, conditions))
    return f"{left}|{right}" if right else left


def _quoted(name: str) -> str | None:
    """A factor as the command line takes it; None where it cannot."""
    if _PLAIN.fullmatch(name):
        return name
    return None if "`" in name or not name.isprintable() else f"`{name}`"


def _place(models: Sequence[LogLinearResults], chosen: LogLinearResults) -> int:
    return next(k for k, fit in enumerate(models) if fit is chosen)


def _data(kind: Kind, fit: LogLinearResults) -> str:
    """The release that a model is of, in Python; a model takes the margin of its factors itself."""
    model, release = fit.model, kind.release
    names = model.release.domain.names
    ordered = tuple(filter(names.__contains__, release.domain.names))
    takes = not model.uniform_factors and model.offset is None and {*release.strata} <= {*names}
    whole = names == release.domain.names or (takes and names == ordered)
    return ("release" if whole else kind.part_code(names)) + kind.restriction_code(fit)


def _options(fit: LogLinearResults) -> str:
    """The arguments of `fit` that are not the default."""
    if fit.penalty is not None:
        return f"penalty={fit.penalty!r}"
    return "" if fit.method == "ml" else f"method={fit.method!r}"
