"""Speed, as ratios within one run: python benchmarks/speed.py writes results/speed*.{csv,md}.

Every figure is a median of repeated runs after compilation, on one thread; the large fits
(`fits.py`, into results/speed_fits.*) use what the machine has.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import fits
import numpy as np
import opendp.prelude as dp
import pandas as pd

from dpcontingency.domain import Domain
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.inference.kernels import cell_moments
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.sampler import grid_exponent, rounded_gaussian
from dpcontingency.tabulate import tabulate

RESULTS = Path(__file__).parent / "results"


def median_seconds(work: Callable[[], object], repeats: int = 7) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def kernel() -> list[dict[str, object]]:
    """One evaluation of all cell moments on 10^6 cells."""
    rng = np.random.default_rng(1)
    rates = np.exp(rng.uniform(-1, np.log(1e4), size=10**6))
    rows = []
    for sigma in (1.4, 5.0, 14.0, 100.0, 1e4):
        noisy = rng.poisson(rates) + sigma * rng.standard_normal(rates.size)
        variances = np.full(rates.size, sigma**2)
        seconds = median_seconds(lambda y=noisy, v=variances: cell_moments(y, rates, v), 5)
        what = f"kernel, 10^6 cells, sigma = {sigma:g}"
        rows.append({"what": what, "seconds": seconds, "of": "", "ratio": ""})
    return rows


def sampler() -> list[dict[str, object]]:
    """A million draws against OpenDP's discrete Gaussian of the same scale."""
    size, sigma = 10**6, 14.142
    exponent = grid_exponent(sigma)
    ours = median_seconds(lambda: rounded_gaussian(size, sigma, exponent))
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    measurement = dp.m.make_gaussian(*space, scale=sigma)
    few = 20_000
    zeros = [0] * few
    theirs = median_seconds(lambda: measurement(zeros), 3) * size / few
    return [
        {"what": "rounded Gaussian, 10^6 draws", "seconds": ours, "of": "", "ratio": ""},
        {
            "what": "OpenDP discrete Gaussian, 10^6 draws",
            "seconds": theirs,
            "of": "rounded Gaussian",
            "ratio": theirs / ours,
        },
    ]


def counting() -> list[dict[str, object]]:
    """10^6 records of five columns from Parquet, against DuckDB itself and pandas."""
    rng = np.random.default_rng(2)
    names = list("abcde")
    levels = [f"level {k}" for k in range(6)]
    frame = pd.DataFrame({c: rng.choice(levels, size=10**6) for c in names})
    domain = Domain(dict.fromkeys(names, levels))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/records.parquet"
        frame.to_parquet(path)
        query = f"select {','.join(names)}, count(*) from '{path}' group by {','.join(names)}"
        bare = median_seconds(lambda: duckdb.connect().execute(query).fetchall())
        ours = median_seconds(lambda: tabulate(path, domain))
        crosstab = median_seconds(
            lambda: pd.crosstab([frame.a, frame.b], [frame.c, frame.d, frame.e]), 3
        )
    return [
        {"what": "DuckDB GROUP BY, 10^6 x 5", "seconds": bare, "of": "", "ratio": ""},
        {"what": "tabulate", "seconds": ours, "of": "DuckDB GROUP BY", "ratio": ours / bare},
        {
            "what": "pandas.crosstab",
            "seconds": crosstab,
            "of": "tabulate",
            "ratio": crosstab / ours,
        },
    ]


def bootstrap() -> list[dict[str, object]]:
    """999 replicates of the likelihood-ratio test of independence, 3 x 4, n = 1000, mu = 0.1."""
    rng = np.random.default_rng(3)
    domain = Domain({"R": list("abc"), "S": list("wxyz")})
    p = np.outer([0.2, 0.3, 0.5], [0.1, 0.2, 0.3, 0.4]).ravel()
    release = simulate_release(rng.multinomial(1000, p).reshape(3, 4), domain, GDP(0.1), rng)

    def test(**options: object) -> float:
        return median_seconds(lambda: independence_test(release, "R", "S", **options), 5)

    once = test(pvalue="asymptotic")
    boot = test(pvalue="bootstrap", rng=1)
    return [
        {"what": "independence_test, 3x4, chi-square", "seconds": once, "of": "", "ratio": ""},
        {
            "what": "the same by 999 bootstrap replicates",
            "seconds": boot,
            "of": "independence_test, 3x4, chi-square",
            "ratio": boot / once,
        },
    ]


def main() -> None:
    table = pd.DataFrame([*kernel(), *sampler(), *counting(), *bootstrap()])
    RESULTS.mkdir(exist_ok=True)
    table.to_csv(RESULTS / "speed.csv", index=False, float_format="%.4g")
    lines = ["| what | seconds | times | of |", "|---|---|---|---|"]
    for row in table.itertuples():
        ratio = "" if row.ratio == "" else f"{row.ratio:.2f}"
        lines.append(f"| {row.what} | {row.seconds:.3g} | {ratio} | {row.of} |")
    (RESULTS / "speed.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
    fits.main()
