"""Time and memory of large fits, each in a process of its own; benchmarks/speed.py runs it.

Writes results/speed_fits.{csv,md}; python benchmarks/fits.py CASE FILE prints one case as JSON. The
processes that fit are those of an analyst: they read a released table, which another drew.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
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


def domain_of(shape: tuple[int, ...]) -> Domain:
    return Domain({f"factor {k}": range(n) for k, n in enumerate(shape)})


def draw(case: str, file: Path) -> None:
    """A release at mu = 1 of counts drawn from a model with moderate effects in its margins."""
    shape, margins, _ = CASES[case]
    domain = domain_of(shape)
    names = list(domain.names)
    model = margins(names)
    rng = np.random.default_rng(16)
    log_rates = np.full(shape, np.log(RECORDS_PER_CELL))
    for margin in [*model, *((name,) for name in names)]:
        axes = [names.index(name) for name in margin]
        effect = rng.normal(scale=0.3 / len(margin) ** 2, size=[shape[k] for k in sorted(axes)])
        log_rates += np.expand_dims(effect, [k for k in range(len(shape)) if k not in axes])
    counts = rng.poisson(np.exp(log_rates))
    release = simulate_release(counts, domain, GDP(1.0), rng)
    np.savez(file, noisy=release.noisy, sigma=release.sigma, n_total=release.n_total)


def read(case: str, file: Path) -> tuple[Release, Margins]:
    """What `draw` has written, and the model's margins."""
    shape, margins, _ = CASES[case]
    domain = domain_of(shape)
    with np.load(file) as drawn:
        release = Release.from_noisy_table(
            drawn["noisy"], domain, sigma=float(drawn["sigma"]), n_total=int(drawn["n_total"])
        )
    return release, margins(list(domain.names))


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
RIVAL = "2^16 cells, all two-way"
GLM = f"{RIVAL}, statsmodels GLM Poisson"


def fit(case: str, file: Path) -> dict[str, object]:
    """Our fit with standard errors, after compilation."""
    small = Release.exact([[8, 5], [3, 9]], domain_of((2, 2)))
    _ = LogLinearModel(small, "[factor 0][factor 1]").fit().bse
    release, model = read(case, file)

    def work() -> int:
        result = LogLinearModel(release, model).fit(warn_convergence=False)
        assert result.converged
        assert np.isfinite(result.bse).all()
        return result.df_model

    return {"cells": release.domain.size, **measured(work, CASES[case][-1])}


def glm(file: Path) -> dict[str, object]:
    """Statsmodels on the same noisy table, floored at 0, by a dense treatment-coded design."""
    import statsmodels.api as sm  # here, so that it does not count in the memory of our fits

    release, model = read(RIVAL, file)
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


def run(*arguments: str) -> str:
    """What this file prints with some arguments, in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=all_threads()
    ).stdout


def main() -> None:
    """Every case in a fresh process, one after the other."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "released.npz"
        for case in [GLM, *CASES]:
            # Elsewhere, because the peak of a process counts in those that it starts.
            run("draw", RIVAL if case == GLM else case, str(file))
            rows.append({"what": case, **json.loads(run(case, str(file)))})
            print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    table["of the GLM's time"] = table["seconds"] / table["seconds"].iloc[0]
    table["seconds per 10^6 cells"] = 1e6 * table["seconds"] / table["cells"]
    write(table)


def write(table: pd.DataFrame) -> None:
    RESULTS.mkdir(exist_ok=True)
    table.to_csv(RESULTS / "speed_fits.csv", index=False, float_format="%.4g")
    lines = [
        "Fits with standard errors; median of 5, 3 or 1 runs after compilation, each case in a "
        "process of its own. `peak_mb` is its largest resident memory, `before_mb` what Python, "
        "the packages and the release take before the fit. statsmodels loads polars where it is "
        "installed, for 28 MB more in each process; here it was"
        f"{'' if find_spec('polars') else ' not'} installed.",
        "",
        "| " + " | ".join(table.columns) + " |",
        "|" + "---|" * table.shape[1],
    ]
    for row in table.itertuples(index=False):
        cells = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in row)
        lines.append("| " + " | ".join(cells) + " |")
    (RESULTS / "speed_fits.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            main()
        case ["draw", name, path]:
            draw(name, Path(path))
        case [name, path]:
            print(json.dumps(glm(Path(path)) if name == GLM else fit(name, Path(path))))
