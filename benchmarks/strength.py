"""Coverage of the intervals of Cramer's V and the uncertainty coefficient where a level is rare.

A part of validity.py, which runs it.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from dpcontingency import Domain, Release, cramers_v, uncertainty_coefficient
from dpcontingency.errors import PlausibilityWarning

Floats = np.ndarray
MEASURES = {"V": cramers_v, "U": uncertainty_coefficient}

# Measure, rows, columns, share of the rare level, V, where the association is, mu, records, and the
# levels of a third factor that the margin is summed over, with their noise.
SETTINGS = (
    ("V", 4, 3, 0.003, 0.07, "rare", 0.4, 8000, 40),
    ("V", 4, 3, 0.003, 0.02, "rare", 0.4, 8000, 40),
    ("V", 4, 3, 0.003, 0.0, "all", 0.4, 8000, 40),
    ("V", 4, 3, 0.003, 0.07, "all", 0.4, 8000, 40),
    ("V", 4, 3, 0.003, 0.2, "all", 0.4, 8000, 40),
    ("V", 4, 3, 0.003, 0.02, "all", 2.0, 20000, 1),
    ("V", 4, 3, 0.003, 0.05, "rare", 2.0, 20000, 1),
    ("V", 3, 3, 0.003, 0.05, "rare", 1.0, 8000, 1),
    ("V", 3, 3, 0.01, 0.5, "all", 2.0, 2000, 1),
    ("V", 3, 3, 0.01, 0.2, "all", 0.4, 2000, 1),
    ("V", 3, 3, 0.01, 0.07, "rare", 0.4, 8000, 1),
    ("V", 3, 3, 0.1, 0.0, "all", 0.4, 2000, 1),
    ("V", 3, 3, 0.1, 0.07, "all", 0.2, 2000, 1),
    ("V", 3, 3, 0.1, 0.2, "rare", 1.0, 2000, 1),
    ("V", 6, 6, 0.01, 0.07, "all", 0.2, 20000, 1),
    ("V", 6, 6, 0.003, 0.2, "all", 0.4, 2000, 1),
    ("V", 6, 6, 0.003, 0.5, "all", 2.0, 20000, 40),
    ("V", 6, 6, 0.1, 0.02, "all", 0.4, 8000, 1),
    ("V", 6, 6, 0.1, 0.0, "all", 2.0, 2000, 1),
    ("V", 6, 6, 0.01, 0.04, "rare", 1.0, 20000, 1),
    ("U", 4, 3, 0.003, 0.07, "all", 0.4, 8000, 40),
    ("U", 3, 3, 0.01, 0.2, "all", 0.4, 2000, 1),
    ("U", 3, 3, 0.01, 0.5, "all", 2.0, 2000, 1),
    ("U", 6, 6, 0.01, 0.07, "all", 0.2, 20000, 1),
)


def table_of(rows: int, columns: int, rare: float, v: float, where: str) -> Floats:
    """Probabilities with a rare first row and this V, whose association is in it or everywhere."""
    weights = np.arange(2.0, rows + 1)
    row = np.r_[rare, weights / weights.sum() * (1 - rare)]
    column = np.arange(2.0, columns + 2)
    column /= column.sum()
    even = np.outer(row, column)
    if where == "rare":  # all of the rare level in the first column
        far = even.copy()
        far[0] = 0.0
        far[0, 0] = rare
        far[1:] -= np.outer(row[1:] / row[1:].sum(), far[0] - even[0])
    else:  # as much along the diagonal as the margins allow
        far = np.zeros_like(even)
        left, i, j = (row.copy(), column.copy()), 0, 0
        while i < rows and j < columns:
            x = min(left[0][i], left[1][j])
            far[i, j] += x
            left[0][i] -= x
            left[1][j] -= x
            i, j = (i + 1, j) if left[0][i] <= 1e-12 else (i, j + 1)
    table = even + v / cramers(far) * (far - even)
    if table.min() < 0:
        raise ValueError("no table has so large a V with these margins")
    return table


def cramers(p: Floats) -> float:
    even = np.outer(p.sum(axis=1), p.sum(axis=0))
    return float(np.sqrt(((p - even) ** 2 / even).sum() / (min(p.shape) - 1)))


def explained(p: Floats) -> float:
    """The symmetric uncertainty coefficient."""

    def entropy(q: Floats) -> float:
        return float(-(q[q > 0] * np.log(q[q > 0])).sum())

    both = entropy(p.sum(axis=1)) + entropy(p.sum(axis=0))
    return 2 * (both - entropy(p)) / both


def coverage(setting: tuple[object, ...], replicates: int = 300) -> dict[str, object]:
    """How often the interval holds the truth, and on which side it misses."""
    measure, rows, columns, rare, v, where, mu, n, third = setting
    p = table_of(rows, columns, rare, v, where)
    truth = cramers(p) if measure == "V" else explained(p)
    rng = np.random.default_rng([SETTINGS.index(setting), replicates])
    domain = Domain({"A": list(range(rows)), "B": list(range(columns))})
    sd = np.sqrt(2 * third) / mu
    ends = np.empty((replicates, 2))
    start = time.process_time()
    for end in ends:
        noise = sd * rng.standard_normal(p.shape)
        noisy = rng.multinomial(n, p.ravel()).reshape(p.shape) + noise - noise.mean()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PlausibilityWarning)
            release = Release.from_noisy_table(noisy, domain, sigma=sd, n_total=n)
        end[:] = MEASURES[measure](release, "A", "B").interval
    seconds = (time.process_time() - start) / replicates
    below, above = np.mean(ends[:, 1] < truth), np.mean(ends[:, 0] > truth + 1e-12)
    covered = 1 - below - above
    return {
        "measure": measure,
        "table": f"{rows}x{columns}",
        "rare level": rare,
        "V": v,
        "association": where,
        "mu": mu,
        "n": n,
        "third factor": third,
        "coverage": covered,
        "SE": np.sqrt(max(covered * (1 - covered), 0.05 * 0.95) / replicates),
        "interval below": below,
        "interval above": above,
        "mean width": np.ptp(ends, axis=1).mean(),
        "seconds": seconds,
        "replicates": replicates,
    }


NOTES = {
    "strength": "Coverage of 95 % intervals of Cramer's V and the symmetric uncertainty "
    "coefficient (U) in tables with a rare level, whose margin may be summed over a third factor "
    "with its noise. `association`: all in the rare level, or as much as its V everywhere. "
    "`interval below`, `above`: misses on each side; at V = 0 only the second can be. Processor "
    "seconds an interval.",
}
WORK = {"strength": (coverage, SETTINGS)}
