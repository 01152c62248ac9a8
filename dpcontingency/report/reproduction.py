"""Python that makes a report again from the saved release."""

from __future__ import annotations

from collections.abc import Sequence

from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.testresult import TestResult
from dpcontingency.release.release import Release


def code_for(
    release: Release, models: Sequence[LogLinearResults], tests: Sequence[TestResult]
) -> str:
    """Python that makes this report from the saved release."""
    lines = ["import dpcontingency as dpc", "", 'release = dpc.load_release("release.json")']
    fitted, tested = [], []
    for number, fit in enumerate(models, 1):
        coding = "" if fit.model.coding == "treatment" else f", coding={fit.model.coding!r}"
        whole = fit.model.release.domain.names == release.domain.names
        margin = "" if whole else f".margin({_arguments(fit.model.release.domain.names)})"
        special = f", special_terms={list(fit.special_terms)!r}" if fit.special_terms else ""
        lines.append(
            f"model{number} = dpc.LogLinearModel(release{margin}, "
            f"{list(fit.generators)!r}{coding}{special}).fit({_options(fit)})"
        )
        fitted.append(f"model{number}")
    for number, test in enumerate(tests, 1):
        if not test.call:
            lines.append(f"# {test.name}: {' '.join(test.null.split())}")
            continue
        lines.append(f"test{number} = {test.call}")
        tested.append(f"test{number}")
    arguments = ["release", '"report.html"']
    arguments += [f"models=[{', '.join(fitted)}]"] if fitted else []
    arguments += [f"tests=[{', '.join(tested)}]"] if tested else []
    return "\n".join([*lines, f"dpc.write_report({', '.join(arguments)})"])


def _options(fit: LogLinearResults) -> str:
    """The arguments of `fit` that are not the default."""
    if fit.penalty is not None:
        return f"penalty={fit.penalty!r}"
    return "" if fit.method == "ml" else f"method={fit.method!r}"


def _arguments(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
