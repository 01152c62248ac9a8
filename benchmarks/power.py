"""Power of the noise-aware tests beside the paper's: python benchmarks/power.py.

Writes results/validity_power.{csv,md}. Every statistic rejects beyond the 95 % point of its own
null distribution, simulated under the true null, so that only power is compared.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd
from validity import write

from dpcontingency.domain import Domain
from dpcontingency.inference.bootstrap import draw_tables
from dpcontingency.inference.hypothesis import goodness_of_fit_hypothesis, independence_hypothesis
from dpcontingency.inference.replicates import Replicates
from dpcontingency.inference.statistic import STATISTICS, Hypothesis
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

REPLICATES = 4000
Floats = np.ndarray


def linear(p: int, slope: float) -> Floats:
    """Probabilities that rise linearly, the last less the first `slope` times their mean."""
    return (1 + slope * np.linspace(-0.5, 0.5, p)) / p


def mixed(p: Floats, share: float) -> Floats:
    """These probabilities with a share of equal ones."""
    return (1 - share) * p + share / p.size


def settings() -> Iterator[tuple[str, Floats, Floats, int, float]]:
    """Name, null and alternative probabilities, n and mu."""
    uniform, rising = np.full(10, 0.1), np.arange(1.0, 11) / 55
    for mu, share in ((0.1, 0.25), (0.25, 0.15), (1.0, 0.1)):
        yield "rising against flatter, p = 10", rising, mixed(rising, share), 1000, mu
    for mu, slope in ((0.1, 0.7), (0.25, 0.4), (1.0, 0.3)):
        yield "uniform against linear, p = 10", uniform, linear(10, slope), 1000, mu
    steep = np.arange(1.0, 11) ** 2 / 385
    for mu, share in ((0.1, 0.35), (0.25, 0.15), (1.0, 0.06)):
        yield "steep against flatter, p = 10", steep, mixed(steep, share), 1000, mu
    one = np.array([0.5, 0.3, 0.1, 0.06, 0.04])
    for mu, shift in ((0.1, 0.04), (0.25, 0.025), (1.0, 0.02)):
        yield "a small cell grows, p = 5", one, one + shift * np.array([-1, 0, 0, 0, 1.0]), 1000, mu
    rows, columns = np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.2, 0.3, 0.4])
    table = np.outer(rows, columns)
    trend = np.outer([-1, 0, 1], [-1, -0.5, 0.5, 1.0])
    for mu, size in ((0.1, 0.08), (0.25, 0.05), (1.0, 0.04)):
        other = table + size * (trend - trend.mean()) * np.sqrt(table)
        yield "3 x 4 independence, a trend", table, other / other.sum(), 1000, mu
    # That of METHODS 2.6: 0.449 noise-aware, 0.385 Pearson on M_r, 0.237 on M_rJS.
    turns = np.resize([1.0, -1.0], 10)
    for mu, shift in ((0.1, 0.015), (0.25, 0.01), (1.0, 0.008)):
        yield "rising against a saw of it, p = 10", rising, rising + shift * turns, 1000, mu


def power(setting: tuple[str, Floats, Floats, int, float], seed: int) -> dict[str, object]:
    name, null, alternative, n, mu = setting
    rng = np.random.default_rng(seed)
    domain = Domain({f"factor {k}": range(size) for k, size in enumerate(null.shape)})
    release = simulate_release(
        rng.multinomial(n, null.ravel()).reshape(null.shape), domain, GDP(mu), rng
    )
    hypothesis = hypothesis_of(release, null)
    fit = hypothesis.model.fit(warn_convergence=False)
    kinds = {label: STATISTICS[label](hypothesis, fit) for label in ("lr", "score", "js-pearson")}
    cells = hypothesis.model.cells

    def values(probabilities: Floats) -> dict[str, Floats]:
        noisy = draw_tables(cells, n * probabilities.ravel(), REPLICATES, rng)
        tables = Replicates(noisy, cells.variances, cells.strata, cells.totals)
        out = {label: kind.on(tables) for label, kind in kinds.items()}
        shaped = noisy.reshape(-1, *null.shape)
        expected = hypothesis.expected(shaped)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(expected > 0, (shaped - expected) ** 2 / expected, 0.0)
        out["Pearson on M_r"] = terms.reshape(REPLICATES, -1).sum(axis=1)
        return out

    under, over = values(null), values(alternative)
    shares = {k: float(np.mean(over[k] > np.quantile(under[k], 0.95))) for k in under}
    return {"setting": name, "n": n, "mu": mu, **shares, "replicates": REPLICATES}


def hypothesis_of(release: Release, null: Floats) -> Hypothesis:
    """Goodness of fit to the null in one dimension, independence in two."""
    if null.ndim == 1:
        return goodness_of_fit_hypothesis(release, null)
    return independence_hypothesis(release, [(name,) for name in release.domain.names], ())


def main() -> None:
    warnings.simplefilter("ignore")
    with ProcessPoolExecutor(2) as pool:
        rows = list(pool.map(power, settings(), range(len(list(settings())))))
    write(
        "power",
        pd.DataFrame(rows),
        "Power at 5 %, each statistic against the 95 % point of its own simulated null "
        "distribution; Monte-Carlo SE at most 0.011 (of the null's 95 % point as much). "
        "`js-pearson`: Pearson's X2 of the James-Stein table; `Pearson on M_r`: of the noisy one.",
    )


if __name__ == "__main__":
    main()
