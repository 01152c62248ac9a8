"""Whether fits end at the highest maximum of the likelihood, and what the search for it costs.

A part of validity.py, which runs it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd

from dpcontingency import (
    GDP,
    Domain,
    LogLinearModel,
    RankDeficientGaussian,
    Release,
    simulate_release,
)
from dpcontingency.inference.newton import maximise

DATA = Path(__file__).parents[1] / "data"
Floats = np.ndarray
Generator = np.random.Generator

SHORT = 1e-3  # of log-likelihood, below the best
SHAPES = {"2^4": (2,) * 4, "2^5": (2,) * 5, "2^6": (2,) * 6, "3x4x5": (3, 4, 5)}
REAL = (
    "caesar", "czech_autoworkers", "dayton_survey", "hair_eye_color", "premarital_sex",
    "punishment", "titanic", "ucb_admissions", "coal_miners", "abortion_opinion", "visual_acuity",
)  # fmt: skip
# Table, records a cell (0: of the data), mu, releases.
SETTINGS = (
    *((name, per, mu, 20) for name, per, mu in product(SHAPES, (5, 20), (0.1, 0.3, 0.5, 1.0))),
    *((name, 0, mu, 15) for name, mu in product(REAL, (0.1, 0.3, 1.0))),
)


def maxima(setting: tuple[str, int, float, int]) -> dict[str, object]:
    """How many fits of all two-way terms end below the best of twenty starts, and at what cost."""
    name, per, mu, replicates = setting
    rows = []
    for model, rng in models(setting):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first, before = timed(lambda m=model: maximise(m._at, m._start()[0]).point.value)
            fit, after = timed(lambda m=model: m._search("ml", None, None))
            oracle = max(_end(model, start) for start in starts(model, rng))
            moved = relabelled(model)._search("ml", None, None).best.point.value
        found = fit.best.point.value
        best = max(oracle, found)
        rows.append(
            (best - first > SHORT, best - found > SHORT, best - found, abs(moved - found) > 1e-6,
             fit.searched, fit.second is not None, after / before)
        )  # fmt: skip
    first, short, gap, apart, searched, second, cost = map(np.array, zip(*rows, strict=True))
    return {
        "table": name,
        "records a cell": per or "as they are",
        "mu": mu,
        "releases": replicates,
        "below, first search": int(first.sum()),
        "below": int(short.sum()),
        "worst": gap.max(),
        "relabelled, apart": int(apart.sum()),
        "searched again": int(searched.sum()),
        "second within 0.1": int(second.sum()),
        "cost, not searched": np.median(cost[~searched]) if not searched.all() else np.nan,
        "cost, searched": np.median(cost[searched]) if searched.any() else np.nan,
    }


def models(setting: tuple[str, int, float, int]) -> Iterator[tuple[LogLinearModel, Generator]]:
    """The model of all two-way terms on each release of a setting, and a generator."""
    name, per, mu, replicates = setting
    for seed in range(replicates):
        rng = np.random.default_rng([[*SHAPES, *REAL].index(name), per, round(100 * mu), seed])
        counts, domain = drawn(name, per, rng) if per else read(name)
        release = simulate_release(counts, domain, GDP(mu), rng, mechanism=RankDeficientGaussian())
        yield LogLinearModel(release, list(combinations(domain.names, 2))), rng


def drawn(name: str, per: int, rng: Generator) -> tuple[Floats, Domain]:
    """Counts of uneven cells: so many a cell, at probabilities from a Dirichlet law of 0.7."""
    shape = SHAPES[name]
    size = int(np.prod(shape))
    counts = rng.multinomial(per * size, rng.dirichlet(np.full(size, 0.7))).reshape(shape)
    return counts, Domain({n: list(range(k)) for n, k in zip("ABCDEF", shape, strict=False)})


def read(name: str) -> tuple[Floats, Domain]:
    """The counts of a public table."""
    frame = pd.read_csv(DATA / f"{name}.csv", dtype=str)
    *factors, _ = frame.columns
    domain = Domain({factor: list(dict.fromkeys(frame[factor])) for factor in factors})
    counts = np.zeros(domain.shape, dtype=np.int64)
    for *levels, number in frame.itertuples(index=False):
        cell = tuple(domain.index(f, v) for f, v in zip(factors, levels, strict=True))
        counts[cell] += int(number)
    return counts, domain


def starts(model: LogLinearModel, rng: Generator) -> Iterator[Floats]:
    """Twenty starts that owe nothing to those of the fit.

    Eight at random coefficients; six at classical fits to random uneven tables, and six to the
    noisy table with as much noise again.
    """
    cells, q = model.cells, model._design.n_columns
    total = cells.noisy.sum()
    for k in range(8):
        yield model._flat() + (0.5, 1.0, 1.5, 2.5)[k % 4] * rng.normal(size=q)
    for _ in range(6):
        yield model.classical_fit(total * rng.dirichlet(np.full(cells.noisy.size, 0.5)))
    for _ in range(6):
        again = rng.normal(cells.noisy, np.sqrt(cells.variances)).clip(0) + 0.1
        yield model.classical_fit(total * again / again.sum())


def relabelled(model: LogLinearModel) -> LogLinearModel:
    """The same model of the same table, with factors and levels in the reverse order."""
    release = model.release
    domain = Domain({n: release.domain.levels[n][::-1] for n in release.domain.names[::-1]})
    table = np.flip(release.noisy).transpose()
    moved = Release.from_noisy_table(table, domain, sigma=release.sigma, n_total=release.n_total)
    return LogLinearModel(moved, model.generators)


def timed(work: Callable[[], object]) -> tuple[object, float]:
    """What it makes, and the seconds of this process that it takes."""
    start = time.process_time()
    return work(), time.process_time() - start


def _end(model: LogLinearModel, start: Floats) -> float:
    return maximise(model._at, start).point.value


NOTES = {
    "maxima": "Fits of all two-way terms to releases of random tables (cell probabilities from a "
    "Dirichlet law of 0.7) and of public ones: how many end more than 0.001 in log-likelihood "
    "below the best of twenty starts that owe nothing to those of the fit, and by how much at "
    "most. `first search`: from the classical fit alone. `relabelled, apart`: fits of the table "
    "with factors and levels in reverse order whose log-likelihood is more than 1e-6 away. "
    "`searched again`: fits with less than a quarter of the information left in some direction. "
    "Costs are medians of the time of the search, that of the first search being 1.",
}
WORK = {"maxima": (maxima, SETTINGS)}
