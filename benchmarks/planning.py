"""Planned against simulated power: python benchmarks/planning.py writes results/planning_power.*.

results/planning_sparse.* has the default test of independence in sparse, noisy tables, where its
p-value is a bootstrap's and the planned power is rough (`python benchmarks/planning.py sparse`
writes it alone).

Every figure states its replicates and its Monte-Carlo standard error. Tests without a closed
statistic are simulated by the noise-aware score form of METHODS 2.3 at the null nearest to the
noisy table.
"""

from __future__ import annotations

import os
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from dpcontingency.domain import Domain
from dpcontingency.errors import PlanningWarning
from dpcontingency.inference import nulls
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.noncentral import GaussianCells, taken_up
from dpcontingency.inference.planning import power, two_by_two
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release

RESULTS = Path(__file__).parent / "results"
LOSSES = (0.1, 0.25, 1.0)
REPLICATES = 400


def ordinal(slope: float) -> np.ndarray:
    """A 3 x 4 table with a linear-by-linear association."""
    rows, columns = (0.2, 0.3, 0.5), (0.1, 0.2, 0.3, 0.4)
    table = np.multiply.outer(rows, columns) * np.exp(
        slope * np.multiply.outer((-1.0, 0.0, 1.0), (-1.5, -0.5, 0.5, 1.5))
    )
    return table / table.sum()


def strata(*odds_ratios: float) -> np.ndarray:
    """2 x 2 tables with these odds ratios, in strata of one size."""
    tables = [two_by_two(ratio, 0.4, 0.3 + 0.1 * k) for k, ratio in enumerate(odds_ratios)]
    return np.stack(tables, axis=-1) / len(tables)


def square() -> np.ndarray:
    """A 3 x 3 table with more above the diagonal than below."""
    table = np.array([[0.20, 0.09, 0.06], [0.06, 0.22, 0.08], [0.04, 0.05, 0.20]])
    return table / table.sum()


# test: name in planning, alternative, options, record numbers
SETTINGS = {
    "independence 2x2": ("independence", two_by_two(1.5, 0.4, 0.3), {}),
    "independence 3x4": ("independence", ordinal(0.15), {}),
    "independence 2x2 given 3": ("independence", strata(1.5, 1.7, 1.9), {"given": ["G"]}),
    "cmh 2x2x3": ("cmh", strata(1.5, 1.7, 1.9), {"given": ["G"]}),
    "no-three-way 2x2x3": ("no-three-way", strata(0.5, 1.0, 2.0), {"given": ["G"]}),
    "trend 3x4": ("trend", ordinal(0.15), {}),
    "symmetry 3x3": ("symmetry", square(), {}),
    "marginal homogeneity 3x3": ("marginal-homogeneity", square(), {}),
    "goodness of fit 3x4": ("goodness-of-fit", ordinal(0.15), {"null": ordinal(0.0)}),
}
SIZES = (500, 2000)
# levels of each of two factors, slope of the association, records, loss
SPARSE = ((4, 1.0, 200, 0.25), (5, 1.2, 200, 0.25), (3, 1.5, 150, 0.2), (5, 1.6, 300, 0.2))
SPARSE_REPLICATES = 200
SPARSE_BOOT = 99


def uneven(size: int, slope: float) -> np.ndarray:
    """A square table with a rare level and a linear-by-linear association."""
    margin, scores = np.array([0.4, 0.3, 0.15, 0.1, 0.05])[:size], np.linspace(-1, 1, size)
    table = np.outer(margin, margin) * np.exp(slope * np.outer(scores, scores))
    return table / table.sum()


def domain_of(shape: tuple[int, ...]) -> Domain:
    names = "RSG"[: len(shape)]
    return Domain({name: list(range(k)) for name, k in zip(names, shape, strict=True)},
                  ordered=tuple(names[:2]))  # fmt: skip


def statistics(test: str, release, options: dict) -> tuple[float, float, int]:
    """The noise-aware likelihood ratio (nan where it is not made) and score statistics, and df."""
    if test == "independence":
        fit = independence_test(release, "R", "S", given=options.get("given", ())).null_fit
        return fit.deviance, fit.pearson_chi2, fit.df_resid
    if test in ("cmh", "no-three-way"):
        base = [("R", "G"), ("S", "G")]
        smaller, larger = base, [*base, ("R", "S")]
        if test == "no-three-way":
            fit = LogLinearModel(release, larger).fit(warn_convergence=False)
            return fit.deviance, fit.pearson_chi2, fit.df_resid
        fits = [LogLinearModel(release, g).fit(warn_convergence=False) for g in (smaller, larger)]
        return 2 * (fits[1].llf - fits[0].llf), np.nan, fits[0].df_resid - fits[1].df_resid
    cells = LogLinearModel(release, [release.domain.names]).cells
    if test == "goodness-of-fit":
        null = options["null"].ravel()
        lr = 2 * (cells.saturated().loglik - cells.at(np.log(null)).loglik)
        law = GaussianCells(null * release.n_total, cells.variances, cells.strata)
        shift = cells.noisy - law.mean
        return lr, float(law.form(shift, shift)), null.size - 1
    return np.nan, *_score(test, release, cells)


def _score(test: str, release, cells) -> tuple[float, int]:
    """The score form at the null that is nearest to the noisy table, negative cells lifted."""
    shares = np.maximum(release.noisy, 0.5) / np.maximum(release.noisy, 0.5).sum()
    domain = release.domain
    if test == "trend":
        product_ = np.multiply.outer(*(np.arange(k) for k in domain.shape)).astype(float)
        null = nulls.scored(domain, shares, [("R",), ("S",)], product_)
    elif test == "symmetry":
        null = nulls.symmetric(shares)
    else:
        null = nulls.marginally_homogeneous(shares)
    law = GaussianCells(release.n_total * null.nearest, cells.variances, cells.strata)
    shift = cells.noisy - law.mean
    free = law.sampling(null.columns) if null.in_logs else null.columns
    if null.more is not None:
        wide = np.hstack([free, law.sampling(null.more)])
        return taken_up(law, shift, wide) - taken_up(law, shift, free), 1
    size = len(shares)
    df = size * (size - 1) // 2 if test == "symmetry" else size - 1
    return float(law.form(shift, shift)) - taken_up(law, shift, free), df


def row_of(setting: tuple[str, int, float]) -> dict[str, object]:
    name, n, mu = setting
    test, alternative, options = SETTINGS[name]
    domain = domain_of(alternative.shape)
    rng = np.random.default_rng([list(SETTINGS).index(name), n, round(1000 * mu)])
    hits, done = np.zeros(2), np.zeros(2)
    for _ in range(REPLICATES):
        counts = rng.multinomial(n, alternative.ravel()).reshape(domain.shape)
        release = simulate_release(counts, domain, GDP(mu), rng)
        *values, df = statistics(test, release, options)
        hits += np.array(values) > stats.chi2.isf(0.05, df)
        done += np.isfinite(values)
    with np.errstate(invalid="ignore"):
        simulated = hits / done
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlanningWarning)
        planned = power(domain, alternative, n, GDP(mu), test, **options)
    return {
        "test": name,
        "n": n,
        "mu": mu,
        "planned": planned,
        "simulated LR": simulated[0],
        "simulated score": simulated[1],
        "MC se": np.sqrt(planned * (1 - planned) / REPLICATES),
        "replicates": REPLICATES,
    }


def sparse_row(size: int, slope: float, n: int, mu: float) -> dict[str, object]:
    """Planned power, and that of the test that is done by default."""
    alternative, domain = uneven(size, slope), domain_of((size, size))
    rng = np.random.default_rng([size, n, round(1000 * mu)])
    hits = boots = 0
    for replicate in range(SPARSE_REPLICATES):
        counts = rng.multinomial(n, alternative.ravel()).reshape(size, size)
        release = simulate_release(counts, domain, GDP(mu), rng)
        test = independence_test(release, "R", "S", n_boot=SPARSE_BOOT, rng=replicate)
        hits += test.pvalue <= 0.05
        boots += test.n_boot is not None
    share = hits / SPARSE_REPLICATES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlanningWarning)
        planned = power(domain, alternative, n, GDP(mu))
    return {
        "table": f"{size}x{size}, slope {slope:g}",
        "n": n,
        "mu": mu,
        "planned": planned,
        "default test": share,
        "MC se": np.sqrt(share * (1 - share) / SPARSE_REPLICATES),
        "by bootstrap": boots / SPARSE_REPLICATES,
    }


def sparse() -> None:
    frame = pd.DataFrame([sparse_row(*setting) for setting in SPARSE])
    frame.to_csv(RESULTS / "planning_sparse.csv", index=False, float_format="%.4f")
    text = [
        "# Power of the default test in sparse, noisy tables, and the planned one",
        "",
        f"{SPARSE_REPLICATES} releases a row, {SPARSE_BOOT} bootstrap replicates a test, level "
        "5 %; planning warns in all of",
        "these. Made by `python benchmarks/planning.py sparse`.",
        "",
        _table(frame),
    ]
    (RESULTS / "planning_sparse.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def main() -> None:
    sparse()
    if sys.argv[1:] == ["sparse"]:
        return
    grid = list(product(SETTINGS, SIZES, LOSSES))
    with ProcessPoolExecutor(2) as pool:
        frame = pd.DataFrame(pool.map(row_of, grid))
    frame.to_csv(RESULTS / "planning_power.csv", index=False, float_format="%.4f")
    gaps = (frame[["simulated LR", "simulated score"]].sub(frame["planned"], axis=0)).abs()
    text = [
        "# Power: planned by the noncentral chi-square, and simulated",
        "",
        f"{REPLICATES} releases a row under replace-one, level 5 %; `MC se` is the Monte-Carlo "
        "standard error of a",
        "simulated power. Made by `python benchmarks/planning.py`. The largest gap is "
        f"{gaps.max().max():.3f}, the median {np.nanmedian(gaps):.3f}.",
        "",
        _table(frame),
    ]
    (RESULTS / "planning_power.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def _table(frame: pd.DataFrame) -> str:
    lines = ["| " + " | ".join(frame.columns) + " |", "|" + "---|" * len(frame.columns)]
    for row in frame.itertuples(index=False):
        cells = [f"{v:.3f}" if isinstance(v, float) else str(v) for v in row]
        lines.append("| " + " | ".join("" if c == "nan" else c for c in cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
