"""Size and coverage by simulation: python benchmarks/validity.py writes results/validity_*.

`python benchmarks/validity.py coverage` (or size, or checks) makes only that part. Every figure
states its replicates and its Monte-Carlo standard error. Two processes.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import maxima
import numpy as np
import pairs
import pandas as pd
import strength
from scipy import stats

from dpcontingency.domain import Domain
from dpcontingency.inference.bootstrap import draw_tables
from dpcontingency.inference.calibration import faint
from dpcontingency.inference.fits import inverse_information
from dpcontingency.inference.gaussian import gaussian_information, score_statistic
from dpcontingency.inference.hypothesis import independence_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.replicates import Replicates
from dpcontingency.inference.statistic import means_to_draw_from
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
SIZES = (200, 1000, 10_000)
LOSSES = (0.1, 0.25, 1.0)
CHECKS = (("3x4", 200, 0.1), ("5x5", 200, 0.1), ("2x2x3 conditional", 200, 0.1), ("5x5", 200, 0.25))
NOTHING = np.empty((0, 0))  # no direction that cannot be estimated
Floats = np.ndarray
Generator = np.random.Generator


def domain_of(shape: tuple[int, ...]) -> Domain:
    return Domain({name: list(range(n)) for name, n in zip("RSG", shape, strict=False)})


def rejections(setting: tuple[str, int, float], replicates: int = 2000) -> dict[str, object]:
    """How often tests of a true independence reject at 5 %.

    The bootstrap's size is by one replicate a release, whose pooled statistics give the critical
    value (the warp-speed method of Giacomini, Politis and White 2013); `checks` does it in full.
    """
    name, n, mu = setting
    model, truth, rng = null_model(setting)
    cells = model.cells
    noisy = draw_tables(cells, truth, replicates, rng)
    ratio, fitted = statistics(model, noisy, truth)
    axes = range(len(model.release.domain.shape))
    noise = cells.noise_of_margin(model.release.domain.shape, axes)
    doubtful = np.array([bool(faint(m, noise, model._possible)) for m in fitted])
    again = np.vstack([draw_tables(cells, means_to_draw_from(model, m), 1, rng) for m in fitted])
    level = np.quantile(statistics(model, again, truth)[0], 0.95)
    chi2 = stats.chi2.ppf(0.95, model.df_resid)
    kept = ~doubtful
    gap = noisy - fitted
    score = [
        score_statistic(*x, cells.variances, cells.strata) for x in zip(gap, fitted, strict=True)
    ]
    clamped = np.maximum(noisy, 0.5)
    naive = pearson(clamped.reshape(-1, *model.release.domain.shape))
    return {
        "table": name,
        "n": n,
        "mu": mu,
        "LR, chi-square": np.mean(ratio > chi2),
        "auto takes chi-square": np.mean(kept),
        "size there": np.mean(ratio[kept] > chi2) if kept.sum() >= 100 else np.nan,
        "LR, bootstrap": np.mean(ratio > level),
        "score, chi-square": np.mean(np.array(score) > chi2),
        "noise ignored": np.mean(naive > chi2),
        "replicates": replicates,
    }


def checks(setting: tuple[str, int, float], replicates: int = 500) -> dict[str, object]:
    """The size of `independence_test` as users call it, bootstrap and all."""
    name, n, mu = setting
    model, truth, rng = null_model(setting)
    given = model.release.domain.names[2:]
    hits = 0
    for noisy in draw_tables(model.cells, truth, replicates, rng):
        release = Release.from_noisy_table(
            noisy.reshape(model.release.domain.shape),
            model.release.domain,
            sigma=model.release.sigma,
            n_total=n,
        )
        test = independence_test(release, "R", "S", given=given, n_boot=199, rng=rng)
        hits += test.pvalue <= 0.05
    return {"table": name, "n": n, "mu": mu, "size": hits / replicates, "replicates": replicates}


def null_model(setting: tuple[str, int, float]) -> tuple[LogLinearModel, Floats, Generator]:
    """The model of independence on some release, true means, and a generator of the setting."""
    name, n, mu = setting
    rows, columns, groups = TABLES[name]
    probabilities = np.multiply.outer(rows, columns)
    if groups is not None:
        probabilities = np.multiply.outer(probabilities, groups)
    domain = domain_of(probabilities.shape)
    given = domain.names[2:]
    rng = np.random.default_rng([list(TABLES).index(name), n, round(1000 * mu)])
    counts = rng.multinomial(n, probabilities.ravel()).reshape(domain.shape)
    release = simulate_release(counts, domain, GDP(mu), rng)
    return LogLinearModel(release, [("R", *given), ("S", *given)]), n * probabilities.ravel(), rng


def statistics(model: LogLinearModel, noisy: Floats, truth: Floats) -> tuple[Floats, Floats]:
    """Likelihood ratios against the saturated model, and fitted means, of many tables."""
    tables = Replicates(noisy, model.cells.variances, model.cells.strata, model.cells.totals)
    fits = tables.fit(model._design, model._offset, model.classical_fit(truth))
    return 2 * np.maximum(tables.saturated().loglik - fits.loglik, 0), fits.fitted


def pearson(tables: Floats) -> Floats:
    """Pearson's X2 of independence of the first two axes in each level of the third, if any."""
    expected = tables.sum(axis=1, keepdims=True) * tables.sum(axis=2, keepdims=True)
    expected /= tables.sum(axis=(1, 2), keepdims=True)
    return ((tables - expected) ** 2 / expected).reshape(len(tables), -1).sum(axis=1)


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
    aware, ignored, noisy, rows = [], [], [], []
    not_existing = 0
    for _ in range(replicates):
        sample = rng.multinomial(n, probabilities).reshape(domain.shape)
        release = simulate_release(sample, domain, GDP(mu), rng)
        noisy.append(release.noisy.ravel())
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
                rows.append(fit.coefficients(refit=False))
    shares = pd.DataFrame(aware).mean()
    model = LogLinearModel.from_formula(formula, release)
    tables = Replicates(np.stack(noisy), *law_of(model))
    chi2, values = stats.chi2.ppf(0.95, 1), truth.params.to_numpy()
    ratios, scores = (kept <= chi2 for kept in held(model, tables, values, values))
    nulls = [kept <= chi2 for kept in held(model, tables, np.zeros(values.size), values)]
    estimates = np.array([row["estimate"] for row in rows])
    infinite = np.isinf(estimates)
    refitted = held_by_rows(
        estimates, values, np.where(infinite, ratios, scores), np.where(infinite, *nulls)
    )
    normal = np.array([row["method"] == "wald" for row in rows])
    # What is left open has no interval, that is, the whole line.
    printed = np.where(normal, np.array(aware) == 1, refitted | np.isnan(estimates))
    found = {"score": scores, "profile": ratios, "as printed": printed}
    return {
        "mu": mu,
        "mean coverage": shares.mean(),
        "lowest": shares.min(),
        "highest": shares.max(),
        **{
            f"{name}, {part}": of(kept.mean(axis=0))
            for name, kept in found.items()
            for part, of in (("mean", np.mean), ("lowest", np.min), ("highest", np.max))
        },
        "rows refitted": 1 - normal.mean() - np.isnan(estimates).mean(),
        "noise ignored": pd.DataFrame(ignored).mean().mean(),
        "not estimable": not_existing / replicates,
        "replicates": replicates,
    }


def law_of(model: LogLinearModel) -> tuple[Floats, Floats | None, Floats | None]:
    """What the noisy tables of one release share with others of its law."""
    return model.cells.variances, model.cells.strata, model.cells.totals


def held(
    model: LogLinearModel, tables: Replicates, values: Floats, start: Floats
) -> tuple[Floats, Floats]:
    """Likelihood-ratio and score statistics of each parameter at a value: shape (B, q) each.

    A profile-likelihood interval, or a score interval, holds the value if its statistic is within
    the chi-square quantile.
    """
    design, cells = model._design.matrix().toarray(), model.cells
    every = np.arange(len(tables.noisy))
    top = tables.fit(model._design, model._offset, start).loglik
    ratios, scores = np.empty((2, every.size, values.size))
    for j, value in enumerate(values):
        rest = model._design.keep(np.arange(values.size) != j)
        fits = tables.fit(rest, model._offset + value * design[:, j], np.delete(start, j))
        ratios[:, j] = 2 * (top - fits.loglik)
        log_rates = np.log(np.maximum(fits.fitted, 1e-300))
        point = tables.likelihood(every).at(log_rates.ravel())
        slopes = point.score.reshape(every.size, -1) @ design
        for i, (slope, fitted) in enumerate(zip(slopes, fits.fitted, strict=True)):
            known = gaussian_information(fitted, cells.variances, cells.strata)
            covariance = inverse_information(model._design.compress(known), NOTHING)
            scores[i, j] = slope @ covariance @ slope
    return ratios, scores


def held_by_rows(estimates: Floats, values: Floats, kept: Floats, null: Floats) -> Floats:
    """Whether refitted rows of a summary hold values, from what their test does to each.

    They hold what it keeps, but that they agree with the test of 0: all between the estimate and a
    0 that it keeps, and nothing beyond a 0 that it rejects.
    """
    side = np.where(np.isnan(estimates), 0.0, np.sign(estimates))
    beyond = side * values < 0
    between = (side * values > 0) & (np.abs(values) < np.abs(estimates))
    return np.where(between & null, True, kept & ~(beyond & ~null))


def markdown(table: pd.DataFrame) -> str:
    head = "| " + " | ".join(table.columns) + " |\n|" + "---|" * table.shape[1] + "\n"
    rows = (
        "| " + " | ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row) + " |"
        for row in table.itertuples(index=False)
    )
    return head + "\n".join(rows) + "\n"


NOTES = {**pairs.NOTES, **strength.NOTES, **maxima.NOTES} | {
    "coverage": "Coverage of 95 % intervals, Czech autoworkers, all two-way (21 parameters); "
    "Monte-Carlo SE of one parameter's coverage 0.007. Wald intervals, where there is an estimate; "
    "`score` intervals, which a score test does not reject, and `profile` likelihood intervals of "
    "all. `as printed`: the rows of a summary, Wald's where the noise's part of the standard error "
    "is at most 1/2, else by the score, or by the likelihood at infinity (`rows refitted`: the "
    "share of both; what is left open counts as held). `noise ignored`: the same fit to the noisy "
    "cells, raised to 0.5 where lower, taken for counts.",
    "size": "Rejections of a true independence at 5 %, Monte-Carlo SE 0.005 (of the bootstrap "
    "0.007: its critical value is simulated too, one replicate a release). `auto` takes "
    "chi-square where each fitted cell is 2.5 standard deviations above 0. `noise ignored`: "
    "Pearson's test on the noisy cells, raised to 0.5 where they are lower.",
    "checks": "Rejections of a true independence at 5 % by independence_test as it is called, with "
    "pvalue='auto' and 199 bootstrap replicates; Monte-Carlo SE 0.010.",
}
WORK = {**pairs.WORK, **strength.WORK, **maxima.WORK} | {
    "coverage": (coverage, (1.0, 0.3, 0.1)),
    "size": (rejections, tuple(product(TABLES, SIZES, LOSSES))),
    "checks": (checks, CHECKS),
}


def main(parts: Sequence[str]) -> None:
    warnings.simplefilter("ignore")
    RESULTS.mkdir(exist_ok=True)
    with ProcessPoolExecutor(2) as pool:
        for part in parts or WORK:
            write(part, pd.DataFrame(pool.map(*WORK[part])), NOTES[part])


def write(name: str, table: pd.DataFrame, note: str) -> None:
    table.to_csv(RESULTS / f"validity_{name}.csv", index=False, float_format="%.6g")
    text = f"{note}\n\n{markdown(table)}"
    (RESULTS / f"validity_{name}.md").write_text(text, encoding="utf-8")
    print(text, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
