"""Margins laid out by interaction against the same budget split evenly, and models fitted to them.

Writes benchmarks/results/utility_margins.csv (a row a workload: root mean squared error of a cell,
exact and simulated, of both) and utility_margins.md, with the coverage and the standard errors of
the all two-way model of the Czech autoworkers from two-way margins and from the joint table.
Where mbi is installed (PyPI: mbi), utility_margins_mbi.{csv,md} have its estimates beside ours.
Run from the repository's root: python benchmarks/utility_margins.py, or with `mbi` for that part
alone.
"""

from __future__ import annotations

import math
import sys
import time
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from utility import RESULTS, read

from dpcontingency.domain import Domain
from dpcontingency.inference.layouts import joint_or_margins
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.measurements import to_mbi
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.publish_margins import simulate_plan
from dpcontingency.release.release import Release
from dpcontingency.release.workload import MarginPlan, plan_margins

try:
    import mbi
except ImportError:
    mbi = None

Array = npt.NDArray[np.float64]
ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
REPLICATES = 1000
JOINT_REPLICATES = 200
SIMULATED_CELLS = 10_000  # the error is simulated where the joint table is no larger
SEED = 20231210
MUS = (1.0, 0.3, 0.1)
MBI_REPLICATES = 20


def of_shape(shape: tuple[int, ...]) -> Domain:
    """A domain with factors of so many levels."""
    return Domain({f"f{i}": list(range(n)) for i, n in enumerate(shape)})


def ways(domain: Domain, *orders: int) -> list[tuple[str, ...]]:
    """All margins of some orders."""
    return [m for k in orders for m in combinations(domain.names, k)]


def workloads() -> dict[str, tuple[Domain, list[tuple[str, ...]]]]:
    """What is released."""
    czech, _ = read("czech_autoworkers")
    binary, adult, ternary = of_shape((2,) * 16), of_shape(ADULT), of_shape((3,) * 6)
    return {
        "Czech autoworkers 2^6, 2-way": (czech, ways(czech, 2)),
        "2^16, 2-way": (binary, ways(binary, 2)),
        "3^6, 1- to 3-way": (ternary, ways(ternary, 1, 2, 3)),
        "Adult-sized, 2-way": (adult, ways(adult, 2)),
        "Adult-sized, 1- to 3-way": (adult, ways(adult, 1, 2, 3)),
    }


def even_split_rms(plan: MarginPlan) -> float:
    """The error of independent noise on the cells of each margin, at mu / sqrt(margins) each.

    Under replace-one a margin has sensitivity sqrt 2 (less 0 where it is unchanged).
    """
    return math.sqrt(2 * len(plan.margins)) / plan.privacy.mu


def measure() -> pd.DataFrame:
    """One row a workload, at mu = 1 under replace-one."""
    rng, rows = np.random.default_rng(SEED), []
    for name, (domain, margins) in workloads().items():
        start = time.perf_counter()
        plan = plan_margins(domain, margins, GDP(1))
        seconds = time.perf_counter() - start
        cells = sum(domain.project(m).size for m in margins)
        rms = math.sqrt(plan.total_variance / cells)
        row = {"workload": name, "margins": len(margins), "cells": cells, "planned_in_s": seconds}
        row |= {"rms": rms, "even_split_rms": even_split_rms(plan)}
        row["ratio"] = rms / row["even_split_rms"]
        row["simulated_rms"] = math.nan
        if domain.size <= SIMULATED_CELLS:
            nobody = np.zeros(domain.shape, dtype=np.int64)
            releases = [simulate_plan(nobody, plan, rng) for _ in range(50)]
            squares = [
                (release.margin(*m).values ** 2).sum() for release in releases for m in margins
            ]
            row["simulated_rms"] = math.sqrt(sum(squares) / cells / len(releases))
        rows.append(row)
    return pd.DataFrame(rows)


def coverage() -> pd.DataFrame:
    """Czech autoworkers, all two-way: intervals from two-way margins and from the joint table."""
    domain, counts = read("czech_autoworkers")
    pairs, n = ways(domain, 2), int(counts.sum())
    truth = model_of(counts, domain, pairs)
    probabilities = truth.fittedvalues.to_numpy() / n
    rng, rows = np.random.default_rng(SEED), []
    for mu in MUS:
        plan = plan_margins(domain, pairs, GDP(mu))
        for layout, replicates in (("margins", REPLICATES), ("joint", JOINT_REPLICATES)):
            covered, by_score, errors, missing, unfinished = [], [], [], 0, 0
            for _ in range(replicates):
                table = rng.multinomial(n, probabilities).reshape(domain.shape)
                release: Any = (
                    simulate_plan(table, plan, rng)
                    if layout == "margins"
                    else simulate_release(table, domain, GDP(mu), rng)
                )
                fit = LogLinearModel(release, pairs).fit(warn_convergence=False)
                missing += not fit.existence.exists
                unfinished += not fit.converged
                ends, there = fit.conf_int().to_numpy(), fit.bse.notna().to_numpy()
                inside = (ends[:, 0] < truth.params) & (truth.params < ends[:, 1])
                covered.append(inside[there].mean())
                by_score.append(np.mean(kept_by_score(fit, truth.params.to_numpy())))
                errors.append(fit.bse.median())
            rows.append(
                {
                    "mu": mu,
                    "layout": layout,
                    "replicates": replicates,
                    "wald": np.mean(covered),
                    "score": np.mean(by_score),
                    "median_se": np.median(errors),
                    "no_finite_estimate": missing,
                    "not_converged": unfinished,
                }
            )
    return pd.DataFrame(rows)


def kept_by_score(fit: Any, truth: Array) -> list[bool]:
    """Whether each coefficient's score interval holds its true value: a score test keeps it."""
    kept = []
    for j, value in enumerate(truth):
        profile = fit._profile(np.eye(truth.size)[j])
        profile.loglike(value)
        kept.append(bool(fit._score_statistic(profile._warm[value]) <= stats.chi2.ppf(0.95, 1)))
    return kept


def model_of(counts: Array, domain: Domain, pairs: list[tuple[str, ...]]) -> Any:
    """The classical fit, which the simulation takes for the truth."""
    return LogLinearModel(Release.exact(counts, domain), pairs).fit()


def mbi_errors() -> pd.DataFrame:
    """Root mean squared error of the cells of all two-way margins, with and without mbi.

    mbi fits a graphical model of the wanted margins, non-negative and of the right total, to the
    independent noise of an even split, and to our measurements.
    """
    rng, rows = np.random.default_rng(SEED), []
    for name in ("czech_autoworkers", "dayton_survey"):
        domain, counts = read(name)
        wanted, n = ways(domain, 2), int(counts.sum())
        truth = margins_of(counts, domain, wanted)
        for mu in MUS:
            plan = plan_margins(domain, wanted, GDP(mu))
            sigma, errors = even_split_rms(plan), []
            for _ in range(MBI_REPLICATES):
                release = simulate_plan(counts, plan, rng)
                noisy = {m: part + rng.normal(0, sigma, part.shape) for m, part in truth.items()}
                naive = [mbi.LinearMeasurement(x.ravel(), m, sigma) for m, x in noisy.items()]
                made = {
                    "even split": noisy,
                    "even split, mbi": estimated_by_mbi(domain, naive, wanted, n),
                    "by interaction": {m: release.margin(*m).values for m in wanted},
                    "by interaction, mbi": estimated_by_mbi(domain, to_mbi(release), wanted, n),
                }
                errors.append({way: rms_of(margins, truth) for way, margins in made.items()})
            squares = pd.DataFrame(errors) ** 2
            rows.append({"table": name, "mu": mu, **np.sqrt(squares.mean()).to_dict()})
    return pd.DataFrame(rows)


def margins_of(
    counts: Array, domain: Domain, wanted: list[tuple[str, ...]]
) -> dict[tuple[str, ...], Array]:
    """The margins of a table."""
    axes = range(len(domain.names))
    return {
        m: counts.sum(axis=tuple(a for a in axes if domain.names[a] not in m)).astype(float)
        for m in wanted
    }


def estimated_by_mbi(
    domain: Domain, measured: list[Any], wanted: list[tuple[str, ...]], n: int
) -> dict[tuple[str, ...], Array]:
    """mbi's estimate of the wanted margins, by the algorithm that it recommends."""
    model = mbi.estimation.MirrorDescent().estimate(
        mbi.Domain(domain.names, domain.shape), measured, known_total=float(n)
    )
    return {m: np.asarray(model.project(m).datavector(flatten=False)) for m in wanted}


def rms_of(margins: dict[tuple[str, ...], Array], truth: dict[tuple[str, ...], Array]) -> float:
    """The root mean squared error of a cell."""
    squares = np.concatenate([(margins[m] - truth[m]).ravel() ** 2 for m in truth])
    return float(np.sqrt(squares.mean()))


def predicted() -> pd.DataFrame:
    """Median standard errors of all two-way models at mu = 0.1, equal cells, n = 20,000."""
    rows = []
    for factors in (4, 6, 8, 10):
        domain = of_shape((2,) * factors)
        frame = joint_or_margins(domain, ways(domain, 2), GDP(0.1), n=20_000)
        rows.append({"factors": factors, **frame[["no_noise", "joint", "margins"]].median()})
    return pd.DataFrame(rows)


def markdown(frame: pd.DataFrame) -> list[str]:
    """A table, numbers to four digits."""
    rows = [[f"{x:.4g}" if isinstance(x, float) else str(x) for x in row] for row in frame.values]
    return [
        "| " + " | ".join(frame.columns) + " |",
        "|---" * frame.shape[1] + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def write_mbi() -> None:
    """Measure and write the comparison with mbi."""
    if mbi is None:
        print("mbi is not installed: utility_margins_mbi is left as it is")
        return
    found = mbi_errors().round(4)
    found.to_csv(RESULTS / "utility_margins_mbi.csv", index=False)
    (RESULTS / "utility_margins_mbi.md").write_text(beside_mbi(found), encoding="utf-8")
    print(beside_mbi(found))


def beside_mbi(found: pd.DataFrame) -> str:
    """The comparison with mbi as a page."""
    lines = [
        "# Margins beside mbi's estimates",
        "",
        "Root mean squared error of a cell of all two-way margins of real tables, `replace-one`,",
        f"{MBI_REPLICATES} draws: independent Gaussian noise at an even split of the loss,",
        "and noise laid out by interaction (`release_margins`); each as it is, and after mbi has",
        "fitted a graphical model to it by mirror descent. Written by",
        f"`benchmarks/utility_margins.py`, seed {SEED}.",
        "",
        *markdown(found),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    write_mbi()
    if sys.argv[1:] == ["mbi"]:
        return
    results, intervals, ahead = measure(), coverage(), predicted()
    RESULTS.mkdir(parents=True, exist_ok=True)
    shown = results.drop(columns="planned_in_s")
    shown.round(6).to_csv(RESULTS / "utility_margins.csv", index=False)
    intervals.round(6).to_csv(RESULTS / "utility_margins_models.csv", index=False)
    text = "\n".join(
        [
            "# Margins laid out by interaction",
            "",
            "Root mean squared error of a cell at mu = 1, `replace-one`: noise laid out by",
            "interaction, and independent Gaussian noise on each margin at an even split of the",
            "same loss; `ratio` is the first over the second. Written by",
            f"`benchmarks/utility_margins.py`, seed {SEED}.",
            "",
            *markdown(shown),
            "",
            "All two-way model of the Czech autoworkers (n = 1841, 21 coefficients), counts drawn",
            "from its fit: mean coverage of 95 % intervals, Wald (where there is an estimate) and",
            "score (of all), and median standard error. Monte-Carlo SE of a coverage 0.002 with",
            "1,000 releases and 0.004 with 200.",
            "",
            *markdown(intervals),
            "",
            "Predicted median standard errors of all two-way models of 2^K tables with equal",
            "cells, mu = 0.1, n = 20,000 (`joint_or_margins`):",
            "",
            *markdown(ahead),
        ]
    )
    (RESULTS / "utility_margins.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    print(results[["workload", "planned_in_s"]].to_string())


if __name__ == "__main__":
    main()
