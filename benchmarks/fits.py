"""Time and memory of large fits, each in a process of its own; benchmarks/speed.py runs it.

Writes results/speed_fits.{csv,md}; python benchmarks/fits.py CASE prints one case as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from dpcontingency.domain import Domain
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

Margins = list[tuple[str, ...]]
RECORDS_PER_CELL = 10
RESULTS = Path(__file__).parent / "results"


def example(
    shape: tuple[int, ...], margins: Callable[[list[str]], Margins]
) -> tuple[Release, Margins]:
    """A release at mu = 1 of counts drawn from a model with moderate effects in these margins."""
    names = [f"factor {k}" for k in range(len(shape))]
    domain = Domain({name: range(n) for name, n in zip(names, shape, strict=True)})
    model = margins(names)
    rng = np.random.default_rng(16)
    log_rates = np.full(shape, np.log(RECORDS_PER_CELL))
    for margin in [*model, *((name,) for name in names)]:
        axes = [names.index(name) for name in margin]
        effect = rng.normal(scale=0.3 / len(margin) ** 2, size=[shape[k] for k in sorted(axes)])
        log_rates += np.expand_dims(effect, [k for k in range(len(shape)) if k not in axes])
    counts = rng.poisson(np.exp(log_rates))
    return simulate_release(counts, domain, GDP(1.0), rng), model


def all_pairs(names: list[str]) -> Margins:
    return list(combinations(names, 2))


def five_pairs(names: list[str]) -> Margins:
    return [*pairwise(names), (names[6],)]


CASES: dict[str, tuple[tuple[int, ...], Callable[[list[str]], Margins], int]] = {
    "2^16 cells, all two-way": ((2,) * 16, all_pairs, 5),
    "10^6 cells, all two-way": ((10,) * 6, all_pairs, 3),
    "10^7 cells, five two-way terms": ((10,) * 7, five_pairs, 1),
    **{f"2^{k} cells, all two-way": ((2,) * k, all_pairs, 3) for k in (10, 12, 14, 18, 20, 22)},
}
GLM = "2^16 cells, all two-way, statsmodels GLM Poisson"


def fit(case: str) -> dict[str, object]:
    """Our fit with standard errors, after compilation."""
    shape, margins, repeats = CASES[case]
    small, model = example((2, 2), all_pairs)
    _ = LogLinearModel(small, model).fit().bse
    release, model = example(shape, margins)

    def work() -> int:
        result = LogLinearModel(release, model).fit(warn_convergence=False)
        assert result.converged
        assert np.isfinite(result.bse).all()
        return result.df_model

    return {"cells": int(np.prod(shape)), **measured(work, repeats)}


def glm() -> dict[str, object]:
    """Statsmodels on the same noisy table, floored at 0, by a dense treatment-coded design."""
    import statsmodels.api as sm  # here, so that it does not count in the memory of our fits

    release, model = example((2,) * 16, all_pairs)
    names = list(release.domain.names)
    levels = np.indices(release.domain.shape).reshape(len(names), -1).astype(float)
    counts = np.maximum(release.noisy.ravel(), 0)

    def work() -> int:
        columns = [np.ones(counts.size), *levels]
        columns += [levels[names.index(a)] * levels[names.index(b)] for a, b in model]
        result = sm.GLM(counts, np.column_stack(columns), family=sm.families.Poisson()).fit()
        assert np.isfinite(result.bse).all()
        return result.params.size

    return {"cells": counts.size, **measured(work, 3)}


def measured(work: Callable[[], int], repeats: int) -> dict[str, object]:
    """Median time, and the peak resident memory of this process before and after."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        n_parameters = work()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "parameters": n_parameters,
        "seconds": statistics.median(times),
        "peak_mb": round(peak / 1024),
        "before_mb": round(before / 1024),
    }


def all_threads() -> dict[str, str]:
    """The environment without limits on threads."""
    return {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}


def main() -> None:
    """Every case in a fresh process, one after the other."""
    rows = []
    for case in [GLM, *CASES]:
        command = [sys.executable, __file__, case]
        out = subprocess.run(
            command, check=True, capture_output=True, text=True, env=all_threads()
        ).stdout
        rows.append({"what": case, **json.loads(out)})
        print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    table["of the GLM's time"] = table["seconds"] / table["seconds"].iloc[0]
    table["seconds per 10^6 cells"] = 1e6 * table["seconds"] / table["cells"]
    RESULTS.mkdir(exist_ok=True)
    table.to_csv(RESULTS / "speed_fits.csv", index=False, float_format="%.4g")
    lines = [
        "Fits with standard errors; median of 5, 3 or 1 runs after compilation, each case in a "
        "process of its own. `peak_mb` is its largest resident memory, `before_mb` what Python, "
        "the packages and the release take before the fit.",
        "",
        "| " + " | ".join(table.columns) + " |",
        "|" + "---|" * table.shape[1],
    ]
    for row in table.itertuples(index=False):
        cells = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in row)
        lines.append("| " + " | ".join(cells) + " |")
    (RESULTS / "speed_fits.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        print(json.dumps(glm() if sys.argv[1] == GLM else fit(sys.argv[1])))
