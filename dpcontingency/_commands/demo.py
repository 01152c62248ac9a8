"""The whole job on public records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from dpcontingency._commands import echo
from dpcontingency._commands._plain import release_as_data
from dpcontingency._commands._shared import Force, Json, epilog, fresh, misuse, print_json
from dpcontingency._demo_data import demo_file
from dpcontingency.domain import Domain, label_text
from dpcontingency.errors import ReleaseError
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.printing import p_equals
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.testresult import TestResult
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import release_table
from dpcontingency.release.release import Release, load_release
from dpcontingency.report import plain
from dpcontingency.report.document import write_report
from dpcontingency.tabulate import tabulate

JSON_KEYS = ("report", "release", "marginal", "conditional", "model")
TITLE = "Admission to Berkeley, 1973: a private release"
EPILOG = epilog(["dpcontingency demo --output demo"], {"": JSON_KEYS})


def run(
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where to write the demo's files.")
    ] = Path("dpcontingency-demo"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run the whole job on the Berkeley admissions data.

    From the records of 4,526 applicants to a release at mu = 1, two tests, a model and a report.
    Writes release.json and report.html; running it again replaces them, with new noise. Files of
    these names that no demo wrote are replaced with --force only.
    """
    domain = Domain.from_yaml(demo_file("ucb_admissions_domain.yaml"))
    for name, is_own in (("release.json", _is_own_release), ("report.html", _is_own_report)):
        path = output / name
        if path.is_dir():
            misuse(f"{path} is a folder: choose another --output.")
        if path.exists() and not force and not is_own(path, domain):
            misuse(
                f"{path} is there already and no demo wrote it: choose another --output, or pass "
                "--force to replace it."
            )
    output.mkdir(parents=True, exist_ok=True)
    release, report = (fresh(output / name, True) for name in ("release.json", "report.html"))
    table = tabulate(demo_file("ucb_admissions_records.csv"), domain)
    made = release_table(table, GDP(mu=1))
    marginal = independence_test(made, "Admit", "Gender")
    conditional = independence_test(made, "Admit", "Gender", given=("Dept",))
    model = LogLinearModel.from_formula("Admit*Dept + Gender*Dept", made)
    results = model.fit(warn_convergence=False)
    made.save(release)
    write_report(
        made,
        report,
        models=[results],
        tests=[marginal, conditional],
        title=TITLE,
    )
    if as_json:
        print_json(
            {
                "report": str(report),
                "release": {"output": str(release), **release_as_data(made)},
                "marginal": plain.of_test(marginal),
                "conditional": plain.of_test(conditional),
                "model": plain.of_fit(results),
            }
        )
        return
    echo(f"Report: {report}")
    for line in _simpson(made, marginal, conditional, results):
        echo(line)


def _is_own_release(path: Path, domain: Domain) -> bool:
    """Whether a demo wrote a release."""
    try:
        return load_release(path).domain == domain
    except ReleaseError:
        return False


def _is_own_report(path: Path, domain: Domain) -> bool:
    """Whether a demo wrote a report."""
    return TITLE in path.read_text(encoding="utf-8", errors="replace")


def _simpson(
    made: Release, marginal: TestResult, conditional: TestResult, results: LogLinearResults
) -> Sequence[str]:
    """Simpson's paradox in four lines."""
    saturated = LogLinearModel(made.margin("Admit", "Gender"), "[Admit Gender]").fit()
    interaction = str(saturated.params.index[-1])
    odds = float(np.exp(saturated.params[interaction]))
    low, high = np.exp(saturated.coefficients().loc[interaction, ["lower", "upper"]].astype(float))
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
        f"{marginal.df} df, {p_equals(marginal.pvalue, marginal.n_boot)}; odds of admission, men "
        f"to women: {odds:.2f} (95 % interval {low:.2f} to {high:.2f}).",
        f"2. Department by department: chi2 = {conditional.statistic:.1f} on {conditional.df} df, "
        f"{p_equals(conditional.pvalue, conditional.n_boot)}.",
        f"3. The largest residual of that model, {residuals.max():.1f}, is in department "
        f"{residuals.idxmax()}; in the others none is above {others:.1f}.",
        f"4. Departments {chosen} admit more than half of those who apply; {shares[0]:.0%} of the "
        f"men and {shares[1]:.0%} of the women applied there.",
    ]
