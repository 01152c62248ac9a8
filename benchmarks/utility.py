"""What each mechanism costs in accuracy on the tables of data/, at the same privacy.

Writes benchmarks/results/utility_mechanisms.csv (a row a table, mu and mechanism: the exact
expected squared L2 error as a share of M_r's, and its simulated check) and a short .md of the
shares. Run from the repository's root: python benchmarks/utility.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpcontingency.domain import Domain
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release import comparison
from dpcontingency.release.mechanisms import (
    BlockJamesStein,
    Mechanism,
    RankDeficientJamesStein,
)
from dpcontingency.release.sensitivity import Neighbours

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TABLES = (
    "abortion_opinion",
    "coal_miners",
    "czech_autoworkers",
    "dayton_survey",
    "hair_eye_color",
    "hauser_mobility",
    "job_satisfaction",
    "mental_impairment",
    "premarital_sex",
    "punishment",
    "titanic",
    "ucb_admissions",
    "visual_acuity",
)
MUS = (0.1, 0.3, 1.0)
REPLICATES = 2000
SEED = 20221115
BY_ORDER = BlockJamesStein(least_dimension=1)
MECHANISMS = (
    *comparison.COMPARED,
    BY_ORDER,
    RankDeficientJamesStein("mean", basis="interaction"),
)
# METHODS 1.3: M_r0 with positive part, and by order, at mu = 0.1.
PROTOTYPE = {
    "czech_autoworkers": (0.857, 0.728),
    "hair_eye_color": (0.654, 0.624),
    "punishment": (0.945, 0.886),
    "dayton_survey": (0.990, 0.983),
}


def read(name: str) -> tuple[Domain, npt.NDArray[np.int64]]:
    """A table of data/ and its domain, levels in order of appearance."""
    frame = pd.read_csv(ROOT / "data" / f"{name}.csv", dtype=str, keep_default_na=False)
    factors = [str(column) for column in frame if column != "count"]
    domain = Domain({f: list(dict.fromkeys(frame[f])) for f in factors})
    counts = np.zeros(domain.shape, dtype=np.int64)
    cells = tuple(frame[f].map(domain.positions(f)) for f in factors)
    np.add.at(counts, cells, frame["count"].astype(int))
    return domain, counts


def simulated(
    mechanism: Mechanism,
    counts: npt.NDArray[np.int64],
    sigma: float,
    space: Neighbours,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Mean loss over replicates and its Monte-Carlo standard error."""
    noise = mechanism.noise(sigma, space)
    losses = np.empty(REPLICATES)
    for i in range(REPLICATES):
        noisy = counts + noise.sample(rng)
        if mechanism.rank_deficient:
            noisy, _ = noise.as_gaussian().condition(noisy, counts.sum(), ())
        losses[i] = ((mechanism.estimate(noisy, sigma, space) - counts) ** 2).sum()
    return losses.mean(), losses.std(ddof=1) / REPLICATES**0.5


def measure() -> pd.DataFrame:
    """One row a table, mu and mechanism."""
    rng, rows = np.random.default_rng(SEED), []
    for name in TABLES:
        domain, counts = read(name)
        space = Neighbours(domain)
        for mu in MUS:
            frame = comparison.compare_mechanisms(
                counts, GDP(mu), domain=domain, mechanisms=MECHANISMS
            )
            unit = frame["expected_l2_cost"].iloc[0] / frame["ratio"].iloc[0]
            for mechanism in MECHANISMS:
                row = frame.loc[repr(mechanism)]
                mean, se = simulated(mechanism, counts, mechanism.sigma(GDP(mu), space), space, rng)
                rows.append(
                    {
                        "table": name,
                        "cells": domain.size,
                        "n": counts.sum(),
                        "mu": mu,
                        "mechanism": repr(mechanism),
                        "expected_l2_cost": row["expected_l2_cost"],
                        "share_of_M_r": row["ratio"],
                        "simulated_share": mean / unit,
                        "simulated_se": se / unit,
                    }
                )
    return pd.DataFrame(rows)


def table_of_shares(results: pd.DataFrame) -> pd.DataFrame:
    """Shares of M_r's cost, a row a table and mu."""
    wide = results.pivot(index=["table", "mu"], columns="mechanism", values="share_of_M_r")
    return wide[[repr(mechanism) for mechanism in MECHANISMS]]


def main() -> None:
    """Measure, write, and say whether what METHODS asks for holds."""
    results = measure()
    RESULTS.mkdir(parents=True, exist_ok=True)
    results.round(6).to_csv(RESULTS / "utility_mechanisms.csv", index=False)
    shares = table_of_shares(results)
    whole = shares[repr(RankDeficientJamesStein())]
    blocks, by_order = shares[repr(BlockJamesStein())], shares[repr(BY_ORDER)]
    gain, gain_by_order = blocks / whole, by_order / whole
    worse = ", ".join(
        f"{name} at mu = {mu:g} ({ratio:.3f})"
        for (name, mu), ratio in zip(gain.index, gain_by_order, strict=True)
        if ratio > 1.01
    )
    z = (results["simulated_share"] - results["share_of_M_r"]) / results["simulated_se"]
    lines = [
        "# Total squared L2 loss as a share of M_r's",
        "",
        "Exact expectations, `replace-one`, positive parts; written by `benchmarks/utility.py`.",
        "",
        "| table | mu | " + " | ".join(shares.columns) + " |",
        "|---|---|" + "---|" * shares.shape[1],
        *(
            f"| {name} | {mu:g} | " + " | ".join(f"{share:.3f}" for share in row) + " |"
            for (name, mu), row in zip(shares.index, shares.to_numpy(), strict=True)
        ),
        "",
        "The rule that BlockJamesStein is never worse than RankDeficientJamesStein by more than "
        f"1 % {'holds' if gain.max() <= 1.01 else 'FAILS'}: its largest ratio is "
        f"{gain.max():.4f}, its smallest {gain.min():.3f}; "
        f"{gain['czech_autoworkers', 0.1]:.3f} on czech_autoworkers and "
        f"{gain['punishment', 0.1]:.3f} on punishment at mu = 0.1.",
        "",
        f"With every order by itself (`{BY_ORDER!r}`, the letter of METHODS 1.3) the smallest is "
        f"{gain_by_order.min():.3f}, but it is more than 1 % worse on {worse or 'no table'}: a "
        "group that holds nothing but noise still costs about 1.3 sigma^2, which is much of the "
        "noise in a narrow group. Groups of at least 8 dimensions keep that price to a sixth.",
        "",
        f"Simulated check ({REPLICATES} replicates each, seed {SEED}): {len(z)} comparisons, "
        f"root mean square {np.sqrt((z**2).mean()):.2f} and largest {z.abs().max():.2f} "
        "Monte-Carlo standard errors from the exact cost.",
        "",
        "Against the prototype of METHODS 1.3 at mu = 0.1, with every order by itself (M_r0+ / by "
        "order):",
        "",
        "| table | prototype | here |",
        "|---|---|---|",
        *(
            f"| {name} | {a:.3f} / {b:.3f} | {whole[name, 0.1]:.3f} / {by_order[name, 0.1]:.3f} |"
            for name, (a, b) in PROTOTYPE.items()
        ),
    ]
    text = "\n".join(lines) + "\n"
    (RESULTS / "utility_mechanisms.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
