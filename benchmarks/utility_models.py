"""What a fitted model adds to a released table: the loss of its two denoised tables.

Writes benchmarks/results/utility_models.csv (a row a table and mu: the mean squared L2 loss of
`shrunken_table` and `posterior_mean` as a share of M_r's, with Monte-Carlo standard errors) and a
short .md of it. Run from the repository's root: python benchmarks/utility_models.py
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from utility import MUS, RESULTS, TABLES, read  # noqa: E402

from dpcontingency.inference.loglinear import LogLinearModel  # noqa: E402
from dpcontingency.privacy.gdp import GDP  # noqa: E402
from dpcontingency.release.publish import simulate_release  # noqa: E402

SEED = 20221115
BATCH, LARGEST = 50, 20_000
PRECISION = 0.01  # Monte-Carlo standard error of a share, relative where it is above 1
# METHODS 2.8: shrunken_table and posterior_mean, target all two-way, at mu = 0.1, 0.3, 1.
PROTOTYPE = {
    "czech_autoworkers": ((0.45, 0.64, 0.96), (0.44, 0.59, 0.87)),
    "dayton_survey": ((0.60, 0.70, 0.99), None),
    "punishment": ((0.66, 0.72, 0.96), None),
    "hair_eye_color": ((0.68, 0.82, 0.98), None),
    "titanic": ((0.86, 0.97, 1.00), (0.92, 1.32, 1.06)),
    "ucb_admissions": ((0.94, 0.99, 1.00), (0.95, 1.09, 1.02)),
}

Array = npt.NDArray[np.float64]


def target(names: tuple[str, ...]) -> str:
    """All two-way terms; main effects where the table has two factors only."""
    whole = " + ".join(f"`{name}`" for name in names)
    return f"({whole})**2" if len(names) > 2 else whole


def losses(name: str, mu: float, rng: np.random.Generator) -> tuple[Array, float]:
    """Losses of M_r, shrunken_table and posterior_mean, a row a replicate; and M_r's expectation.

    A share is estimated by 1 plus the mean difference to M_r's loss in the same release, over
    M_r's exact expected loss: what both losses share cancels.
    """
    domain, counts = read(name)
    formula = target(domain.names)
    rows: list[tuple[float, float, float]] = []
    while len(rows) < LARGEST:
        for _ in range(BATCH):
            release = simulate_release(counts, domain, GDP(mu), rng)
            fit = LogLinearModel.from_formula(formula, release).fit(warn_convergence=False)
            tables = (release.noisy, fit.shrunken_table(), fit.posterior_mean())
            rows.append(tuple(float(((table - counts) ** 2).sum()) for table in tables))
        exact = float((release.noise_sd**2).sum())
        found = np.array(rows)
        gain = (found[:, 1:] - found[:, :1]) / exact
        error = gain.std(axis=0, ddof=1) / len(rows) ** 0.5
        if (error < PRECISION * np.maximum(1.0, 1 + gain.mean(axis=0))).all():
            break
    return found, exact


def measure() -> pd.DataFrame:
    """One row a table and mu."""
    rng, rows = np.random.default_rng(SEED), []
    for name in TABLES:
        for mu in MUS:
            found, exact = losses(name, mu, rng)
            gain = (found[:, 1:] - found[:, :1]) / exact
            error = gain.std(axis=0, ddof=1) / len(gain) ** 0.5
            domain, counts = read(name)
            rows.append(
                {
                    "table": name,
                    "cells": domain.size,
                    "n": counts.sum(),
                    "mu": mu,
                    "target": "all two-way" if len(domain.names) > 2 else "main effects",
                    "replicates": len(gain),
                    "shrunken_table": 1 + gain[:, 0].mean(),
                    "shrunken_se": error[0],
                    "posterior_mean": 1 + gain[:, 1].mean(),
                    "posterior_se": error[1],
                }
            )
            print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def report(results: pd.DataFrame) -> str:
    """The shares and their comparison with the prototype."""
    errors = results[["shrunken_se", "posterior_se"]].to_numpy()
    shares = results[["shrunken_table", "posterior_mean"]].to_numpy()
    near = results["shrunken_table"] > 0.98
    worst = results.loc[results["shrunken_table"].idxmax()]
    lines = [
        "# Denoised tables of a model: total squared L2 loss as a share of M_r's",
        "",
        "`replace-one`; the model is fitted to each simulated release; written by "
        "`benchmarks/utility_models.py`. Monte-Carlo standard error of a share at most "
        f"{(errors / np.maximum(shares, 1)).max():.4f}, relative above 1; of shrunken_table "
        f"where it is above 0.98 at most {results['shrunken_se'][near].max():.4f} "
        f"({results['replicates'].min():,} to {results['replicates'].max():,} "
        f"replicates, seed {SEED}).",
        "",
        "| table | target | mu | shrunken_table | posterior_mean |",
        "|---|---|---|---|---|",
        *(
            f"| {r.table} | {r.target} | {r.mu:g} | {r.shrunken_table:.3f} | "
            f"{r.posterior_mean:.3f} |"
            for r in results.itertuples()
        ),
        "",
        f"shrunken_table: {worst['shrunken_table']:.3f} at worst ({worst['table']}, mu = "
        f"{worst['mu']:g}). posterior_mean: {results['posterior_mean'].max():.3f} at worst.",
        "",
        "Against the prototype of METHODS 2.8, mu = 0.1 / 0.3 / 1:",
        "",
        "| table | estimate | prototype | here |",
        "|---|---|---|---|",
    ]
    by_table = results.set_index(["table", "mu"])
    for name, pair in PROTOTYPE.items():
        for column, figures in zip(("shrunken_table", "posterior_mean"), pair, strict=True):
            if figures is not None:
                here = " / ".join(f"{by_table.loc[(name, mu), column]:.2f}" for mu in MUS)
                there = " / ".join(f"{figure:.2f}" for figure in figures)
                lines.append(f"| {name} | {column} | {there} | {here} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    warnings.simplefilter("ignore")
    results = measure()
    RESULTS.mkdir(parents=True, exist_ok=True)
    results.round(6).to_csv(RESULTS / "utility_models.csv", index=False)
    text = report(results)
    (RESULTS / "utility_models.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
