"""Power of the noise-aware tests beside the paper's: python benchmarks/power.py.

Writes results/validity_power.{csv,md}, of populations scattered around a null, and
results/validity_power_single.{csv,md}, of single ones. Every statistic rejects beyond the 95 %
point of its own null distribution, simulated under the true null, so that only power is compared.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from validity import LOSSES, SIZES, TABLES, write

from dpcontingency.domain import Domain
from dpcontingency.inference.bootstrap import draw_tables
from dpcontingency.inference.hypothesis import goodness_of_fit_hypothesis, independence_hypothesis
from dpcontingency.inference.replicates import Replicates
from dpcontingency.inference.statistic import STATISTICS, Hypothesis
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

NULL_REPLICATES, REPLICATES = 20_000, 4000
Floats = np.ndarray
Draw = Callable[[np.random.Generator, int], Floats]  # populations, one a row


class Setting(NamedTuple):
    """A null, shaped as its domain, and the populations that are to be told from it."""

    name: str
    null: Floats
    populations: Draw
    n: int
    mu: float


def linear(p: int, slope: float) -> Floats:
    """Probabilities that rise linearly, the last less the first `slope` times their mean."""
    return (1 + slope * np.linspace(-0.5, 0.5, p)) / p


def mixed(p: Floats, share: float) -> Floats:
    """These probabilities with a share of equal ones."""
    return (1 - share) * p + share / p.size


def always(population: Floats) -> Draw:
    return lambda _, size: np.tile(population.ravel(), (size, 1))


def single() -> Iterator[Setting]:
    """One alternative each; the last ones, at mu = 0.1, are that of METHODS 2.6."""
    uniform, rising = np.full(10, 0.1), np.arange(1.0, 11) / 55
    for mu, share in ((0.1, 0.25), (0.25, 0.15), (1.0, 0.1)):
        other = mixed(rising, share)
        yield Setting("rising against flatter, p = 10", rising, always(other), 1000, mu)
    for mu, slope in ((0.1, 0.7), (0.25, 0.4), (1.0, 0.3)):
        other = linear(10, slope)
        yield Setting("uniform against linear, p = 10", uniform, always(other), 1000, mu)
    steep = np.arange(1.0, 11) ** 2 / 385
    for mu, share in ((0.1, 0.35), (0.25, 0.15), (1.0, 0.06)):
        other = mixed(steep, share)
        yield Setting("steep against flatter, p = 10", steep, always(other), 1000, mu)
    one = np.array([0.5, 0.3, 0.1, 0.06, 0.04])
    for mu, shift in ((0.1, 0.04), (0.25, 0.025), (1.0, 0.02)):
        other = one + shift * np.array([-1, 0, 0, 0, 1.0])
        yield Setting("a small cell grows, p = 5", one, always(other), 1000, mu)
    table = np.outer([0.2, 0.3, 0.5], [0.1, 0.2, 0.3, 0.4])
    trend = np.outer([-1, 0, 1], [-1, -0.5, 0.5, 1.0])
    for mu, size in ((0.1, 0.08), (0.25, 0.05), (1.0, 0.04)):
        other = table + size * (trend - trend.mean()) * np.sqrt(table)
        yield Setting("3 x 4 independence, a trend", table, always(other / other.sum()), 1000, mu)
    turns = np.resize([1.0, -1.0], 10)
    for mu, shift in ((0.1, 0.015), (0.25, 0.01), (1.0, 0.008)):
        other = rising + shift * turns
        yield Setting("rising against a saw of it, p = 10", rising, always(other), 1000, mu)


def scattered() -> Iterator[Setting]:
    """Populations scattered around the null, a new one in each replicate."""
    nulls = {
        "rising, p = 10": np.arange(1.0, 11) / 55,
        "small cells, p = 5": np.array([0.5, 0.3, 0.1, 0.06, 0.04]),
    }
    for name, (rows, columns, strata) in TABLES.items():
        table = np.outer(rows, columns)
        nulls[name] = table if strata is None else table[..., None] * np.array(strata)
    for (name, null), n, mu in product(nulls.items(), SIZES, LOSSES):
        yield Setting(name, null, around(null, n, mu), n, mu)


def around(null: Floats, n: int, mu: float) -> Draw:
    """Dirichlet(k null) populations with the null's own margins where these are not tested.

    k is such that the mean noncentrality of a test with df degrees of freedom is 5 + 2 sqrt(df):
    a power near 1/2.
    """
    p = null.ravel()
    df = p.size - 1 if null.ndim == 1 else (null.shape[0] - 1) * (null.shape[1] - 1)
    df *= null.shape[2] if null.ndim == 3 else 1
    sampling = n * (np.diag(p) - np.outer(p, p))
    noise = 2 / mu**2 * (np.eye(p.size) - 1 / p.size)  # of a replace-one release
    per_dimension = n * np.trace(np.linalg.pinv(sampling + noise) @ sampling) / (p.size - 1)
    concentration = per_dimension / ((5 + 2 * np.sqrt(df)) / df) - 1

    def draw(rng: np.random.Generator, size: int) -> Floats:
        tables = rng.dirichlet(concentration * p, size).reshape(size, *null.shape)
        for _ in range(200 if null.ndim > 1 else 0):
            for axis in (1, 2):  # columns, then rows, inside each stratum
                share = null.sum(axis - 1) / np.maximum(tables.sum(axis), 1e-300)
                tables *= np.expand_dims(share, axis)
        return np.asarray(tables.reshape(size, -1))

    return draw


def power(setting: Setting, seed: int) -> dict[str, object]:
    name, null, populations, n, mu = setting
    rng = np.random.default_rng(seed)
    domain = Domain({f"factor {k}": range(size) for k, size in enumerate(null.shape)})
    release = simulate_release(
        rng.multinomial(n, null.ravel()).reshape(null.shape), domain, GDP(mu), rng
    )
    hypothesis = hypothesis_of(release, null)
    fit = hypothesis.model.fit(warn_convergence=False)
    kinds = {label: STATISTICS[label](hypothesis, fit) for label in ("lr", "score", "js-pearson")}
    cells = hypothesis.model.cells

    def values(noisy: Floats) -> dict[str, Floats]:
        tables = Replicates(noisy, cells.variances, cells.strata, cells.totals)
        out = {label: kind.on(tables) for label, kind in kinds.items()}
        shaped = noisy.reshape(-1, *null.shape)
        expected = hypothesis.expected(shaped)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(expected > 0, (shaped - expected) ** 2 / expected, 0.0)
        out["Pearson on M_r"] = terms.reshape(len(noisy), -1).sum(axis=1)
        return out

    under = values(draw_tables(cells, n * null.ravel(), NULL_REPLICATES, rng))
    means = n * populations(rng, REPLICATES)
    over = values(np.concatenate([draw_tables(cells, row, 1, rng) for row in means]))
    rejects = {k: over[k] > np.quantile(under[k], 0.95) for k in under}
    shares = {k: float(np.mean(rejects[k])) for k in rejects}
    ours, other = (
        max(labels, key=shares.__getitem__)
        for labels in (("lr", "score"), ("js-pearson", "Pearson on M_r"))
    )
    lead = rejects[ours].astype(float) - rejects[other]
    # Each critical value has an error of its own, which shifts the share of the null beyond it.
    error = np.hypot(lead.std() / np.sqrt(REPLICATES), crossing(under[ours], over[ours]))
    return {
        "setting": name,
        "n": n,
        "mu": mu,
        **shares,
        "lead": float(lead.mean()),
        "SE of the lead": float(error),
    }


def crossing(under: Floats, over: Floats) -> float:
    """What the error of a simulated critical value adds to that of a power."""
    spread = np.sqrt(0.05 * 0.95 / len(under))
    low, high = np.quantile(under, [0.95 - spread, 0.95 + spread])
    return float(np.mean((over > low) & (over <= high))) / 2


def hypothesis_of(release: Release, null: Floats) -> Hypothesis:
    """Goodness of fit to the null in one dimension, independence in two, given the third."""
    if null.ndim == 1:
        return goodness_of_fit_hypothesis(release, null)
    rows, columns, *given = release.domain.names
    return independence_hypothesis(release, [(rows,), (columns,)], tuple(given))


NOTE = (
    "Power at 5 %, each statistic against the 95 % point of its own null distribution "
    f"({NULL_REPLICATES:,} simulated releases of the null); {REPLICATES:,} releases, so the "
    "Monte-Carlo SE of a power is at most 0.008. `js-pearson`: Pearson's X2 of the James-Stein "
    "table; `Pearson on M_r`: of the noisy one. `lead`: the better of lr and score less the better "
    "of the two others, on the same releases."
)
NOTES = {
    "power": f"{NOTE} The population of each release is scattered around the null: "
    "Dirichlet(k null), with the null's margins in tests of independence, and k such that the "
    "mean noncentrality is 5 + 2 sqrt(df).",
    "power_single": f"{NOTE} One population a setting. No test is best against every single one: "
    "where a small cell grows, a statistic that divides by the expected count alone, as if there "
    "were no noise, gives that cell more weight, and is behind elsewhere.",
}


def main() -> None:
    warnings.simplefilter("ignore")
    with ProcessPoolExecutor(2) as pool:
        for name, settings in (("power", scattered), ("power_single", single)):
            results = [pool.submit(measured, name, place) for place in range(len(list(settings())))]
            write(name, pd.DataFrame([result.result() for result in results]), NOTES[name])


def measured(name: str, place: int) -> dict[str, object]:
    """The power in one setting, by its place, because functions do not go to other processes."""
    warnings.simplefilter("ignore")
    settings = list(scattered() if name == "power" else single())
    return power(settings[place], place)


if __name__ == "__main__":
    main()
