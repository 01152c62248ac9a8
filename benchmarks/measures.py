"""Coverage of the intervals of measures: python benchmarks/measures.py writes results/measures_*.

An argument, if any, is the number of processes (2 otherwise).

Every figure states its replicates; beside each stands the interval of the same function on the
noisy table taken for counts (cells below 0.5 lifted), which is what ignoring the noise gives.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from dpcontingency.domain import Domain
from dpcontingency.inference.association import (
    cramers_v,
    gamma,
    kendall_tau_b,
    odds_ratio,
    phi,
    relative_risk,
    risk_difference,
    somers_d,
    uncertainty_coefficient,
)
from dpcontingency.inference.planning import two_by_two
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

RESULTS = Path(__file__).parent / "results"
REPLICATES = 100


def ordinal(slope: float) -> np.ndarray:
    rows, columns = (0.2, 0.3, 0.5), (0.1, 0.2, 0.3, 0.4)
    table = np.multiply.outer(rows, columns) * np.exp(
        slope * np.multiply.outer((-1.0, 0.0, 1.0), (-1.5, -0.5, 0.5, 1.5))
    )
    return table / table.sum()


TABLES = {
    "2x2, odds ratio 2": two_by_two(2.0, 0.4, 0.3),
    "2x2, independent": two_by_two(1.0, 0.4, 0.3),
    "2x2, independent, one row of 3 %": two_by_two(1.0, 0.03, 0.3),
    "3x4, weak": ordinal(0.25),
    "3x4, strong": ordinal(1.0),
    "3x4, independent": ordinal(0.0),
}
SETTINGS = [(name, n, mu) for n, mu in ((200, 0.1), (200, 1.0), (1000, 0.1)) for name in TABLES]
TWO = {
    "V": cramers_v,
    "uncertainty": uncertainty_coefficient,
    "odds ratio": odds_ratio,
    "odds ratio, profile": partial(odds_ratio, method="profile"),
    "risk difference": risk_difference,
    "relative risk": relative_risk,
    "phi": phi,
}
MORE = {
    "V": cramers_v,
    "uncertainty": uncertainty_coefficient,
    "gamma": gamma,
    "tau-b": kendall_tau_b,
    "Somers' d": somers_d,
}


def rows_of(setting: tuple[str, int, float]) -> list[dict[str, object]]:
    name, n, mu = setting
    table = TABLES[name]
    measures = TWO if table.shape == (2, 2) else MORE
    domain = Domain({"R": list(range(table.shape[0])), "S": list(range(table.shape[1]))},
                    ordered=["R", "S"])  # fmt: skip
    exact = Release.exact(1e9 * table, domain)
    truth = {key: measure(exact, "R", "S").estimate for key, measure in measures.items()}
    rng = np.random.default_rng([list(TABLES).index(name), n, round(1000 * mu)])
    found: dict[str, list[tuple[float, ...]]] = {key: [] for key in measures}
    for _ in range(REPLICATES):
        counts = rng.multinomial(n, table.ravel()).reshape(domain.shape)
        release = simulate_release(counts, domain, GDP(mu), rng)
        naive = Release.exact(np.maximum(release.noisy, 0.5), domain)
        for key, measure in measures.items():
            aware, ignored = (measure(source, "R", "S") for source in (release, naive))
            value = truth[key]
            found[key].append(
                (
                    aware.estimate,
                    ignored.estimate,
                    np.nan if np.isnan(aware.interval[0])
                    else aware.interval[0] - 1e-6 <= value <= aware.interval[1] + 1e-6,
                    ignored.interval[0] - 1e-6 <= value <= ignored.interval[1] + 1e-6,
                )
            )  # fmt: skip
    out = []
    for key, rows in found.items():
        estimate, naive_estimate, cover, naive_cover = np.array(rows, dtype=float).T
        out.append(
            {
                "table": name, "n": n, "mu": mu, "measure": key, "truth": truth[key],
                "median": np.nanmedian(estimate), "median, noise ignored":
                np.nanmedian(naive_estimate), "coverage": np.nanmean(cover),
                "coverage, noise ignored": np.nanmean(naive_cover),
                "undefined": float(np.isnan(cover).mean()), "replicates": REPLICATES,
            }
        )  # fmt: skip
    return out


def main() -> None:
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(int(sys.argv[1]) if sys.argv[1:] else 2) as pool:
        for part in pool.map(rows_of, SETTINGS):
            rows += part
            write(pd.DataFrame(rows))  # as they come: what is there stays if the rest is given up


def write(frame: pd.DataFrame) -> None:
    done = len(frame[["table", "n", "mu"]].drop_duplicates())
    frame.to_csv(RESULTS / "measures_coverage.csv", index=False, float_format="%.4f")
    text = [
        "# Coverage of 95 % intervals of measures of association",
        "",
        f"{REPLICATES} releases a row under replace-one; Monte-Carlo standard error of a coverage "
        f"of 0.95: {np.sqrt(0.95 * 0.05 / REPLICATES):.3f}.",
        f"Made by `python benchmarks/measures.py`, {done} of its {len(SETTINGS)} settings.",
        "",
        "| " + " | ".join(frame.columns) + " |",
        "|" + "---|" * len(frame.columns),
    ]
    for row in frame.itertuples(index=False):
        cells = [f"{v:.3f}" if isinstance(v, float) else str(v) for v in row]
        text.append("| " + " | ".join(cells) + " |")
    (RESULTS / "measures_coverage.md").write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
