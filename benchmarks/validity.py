"""Size and coverage by simulation: python benchmarks/validity.py writes results/validity_*.

Every figure states its replicates and its Monte-Carlo standard error. Two processes.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from dpcontingency.domain import Domain
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"

TABLES = {
    "2x2": ((0.4, 0.6), (0.3, 0.7), None),
    "3x4": ((0.2, 0.3, 0.5), (0.1, 0.2, 0.3, 0.4), None),
    "5x5": ((0.1, 0.15, 0.2, 0.25, 0.3), (0.1, 0.15, 0.2, 0.25, 0.3), None),
    "2x2x3 conditional": ((0.4, 0.6), (0.3, 0.7), (0.2, 0.3, 0.5)),
}
SIZES = (1000,)
LOSSES = (0.1, 0.25, 1.0)


def domain_of(shape: tuple[int, ...]) -> Domain:
    return Domain({name: list(range(n)) for name, n in zip("RSG", shape, strict=False)})


def rejections(setting: tuple[str, int, float], replicates: int = 1000) -> dict[str, object]:
    """How often each test of a true independence rejects at 5 %."""
    name, n, mu = setting
    rows, columns, groups = TABLES[name]
    probabilities = np.multiply.outer(rows, columns)
    given: tuple[str, ...] = ()
    if groups is not None:
        probabilities = np.multiply.outer(probabilities, groups)
        given = ("G",)
    domain = domain_of(probabilities.shape)
    rng = np.random.default_rng([list(TABLES).index(name), n, round(1000 * mu)])
    hits, done = np.zeros(3), np.zeros(3)
    for _ in range(replicates):
        counts = rng.multinomial(n, probabilities.ravel()).reshape(domain.shape)
        release = simulate_release(counts, domain, GDP(mu), rng)
        test = independence_test(release, "R", "S", given=given)
        score = independence_test(release, "R", "S", given=given, statistic="score")
        naive = LogLinearModel(
            Release.exact(np.maximum(release.noisy, 0.5), domain),
            [("R", *given), ("S", *given)],
        ).fit(warn_convergence=False)
        df = naive.df_resid
        pvalues = [test.pvalue, score.pvalue, stats.chi2.sf(naive.pearson_chi2, df)]
        hits += np.less(pvalues, 0.05)
        done += np.isfinite(pvalues)
    sizes = hits / np.maximum(done, 1)
    return {
        "table": name,
        "n": n,
        "mu": mu,
        "LR": sizes[0],
        "score": sizes[1],
        "noise ignored": sizes[2],
        "LR not done": 1 - done[0] / replicates,
        "score not done": 1 - done[1] / replicates,
        "replicates": replicates,
    }


def czech() -> tuple[np.ndarray, Domain]:
    frame = pd.read_csv(ROOT / "data" / "czech_autoworkers.csv", dtype=str)
    *factors, _ = frame.columns
    domain = Domain({f: list(dict.fromkeys(frame[f])) for f in factors})
    counts = np.zeros(domain.shape, dtype=np.int64)
    for row in frame.itertuples(index=False):
        cell = tuple(domain.index(f, v) for f, v in zip(factors, row, strict=False))
        counts[cell] += int(row[-1])
    return counts, domain


def coverage(mu: float, replicates: int = 1000) -> dict[str, object]:
    """95 % intervals of the all-two-way model of the Czech table, drawn from its own fit."""
    counts, domain = czech()
    formula = f"({' + '.join(domain.names)})**2"
    truth = LogLinearModel.from_formula(formula, Release.exact(counts, domain)).fit()
    n, probabilities = int(counts.sum()), truth.fittedvalues.to_numpy() / counts.sum()
    rng = np.random.default_rng(round(1000 * mu))
    aware, ignored = [], []
    not_existing = 0
    for _ in range(replicates):
        sample = rng.multinomial(n, probabilities).reshape(domain.shape)
        release = simulate_release(sample, domain, GDP(mu), rng)
        for kept, source in (
            (aware, release),
            (ignored, Release.exact(np.maximum(release.noisy, 0.5), domain)),
        ):
            fit = LogLinearModel.from_formula(formula, source).fit(warn_convergence=False)
            interval = fit.conf_int()
            inside = (interval[0] <= truth.params) & (truth.params <= interval[1])
            kept.append(inside.where(interval[0].notna()).astype(float))
            if kept is aware:
                not_existing += not fit.existence.exists
    shares = pd.DataFrame(aware).mean()
    return {
        "mu": mu,
        "mean coverage": shares.mean(),
        "lowest": shares.min(),
        "highest": shares.max(),
        "noise ignored": pd.DataFrame(ignored).mean().mean(),
        "not estimable": not_existing / replicates,
        "replicates": replicates,
    }


def markdown(table: pd.DataFrame) -> str:
    head = "| " + " | ".join(table.columns) + " |\n|" + "---|" * table.shape[1] + "\n"
    rows = (
        "| " + " | ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row) + " |"
        for row in table.itertuples(index=False)
    )
    return head + "\n".join(rows) + "\n"


def main() -> None:
    warnings.simplefilter("ignore")
    RESULTS.mkdir(exist_ok=True)
    with ProcessPoolExecutor(2) as pool:
        write(
            "coverage",
            pd.DataFrame(pool.map(coverage, (1.0, 0.3, 0.1))),
            "Coverage of 95 % intervals, Czech autoworkers, all two-way (21 parameters); "
            "Monte-Carlo SE of one parameter's coverage 0.007. `noise ignored`: the same fit to "
            "the noisy cells, raised to 0.5 where lower, taken for counts.",
        )
        write(
            "size",
            pd.DataFrame(pool.map(rejections, product(TABLES, SIZES, LOSSES))),
            "Rejections of a true independence at 5 %, asymptotic p-values, among the tests that "
            "could be done; Monte-Carlo SE 0.007 at 5 %. `noise ignored`: Pearson's test on the "
            "noisy cells, raised to 0.5 where they are lower.",
        )


def write(name: str, table: pd.DataFrame, note: str) -> None:
    table.to_csv(RESULTS / f"validity_{name}.csv", index=False, float_format="%.6g")
    text = f"{note}\n\n{markdown(table)}"
    (RESULTS / f"validity_{name}.md").write_text(text, encoding="utf-8")
    print(text, flush=True)


if __name__ == "__main__":
    main()
