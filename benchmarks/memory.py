"""Peak memory and time of a release of a million cells with each mechanism, one process each.

Writes benchmarks/results/memory_mechanisms.csv and .md. Run from the repository's root:
python benchmarks/memory.py
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from dpcontingency.domain import Domain
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.mechanisms import mechanism_from_dict
from dpcontingency.release.publish import release_table
from dpcontingency.table import ContingencyTable

RESULTS = Path(__file__).resolve().parent / "results"
SHAPES = {"10^6": (10,) * 6, "2^20": (2,) * 20}
OPTIONS = (
    {"name": "Gaussian"},
    {"name": "RankDeficientGaussian"},
    {"name": "JamesStein", "target": "mean"},
    {"name": "RankDeficientJamesStein"},
    {"name": "RankDeficientJamesStein", "target": "mean"},
    {"name": "RankDeficientJamesStein", "target": "mean", "basis": "interaction"},
    {"name": "BlockJamesStein"},
    {"name": "Laplace"},
)


def release(shape: tuple[int, ...], options: dict[str, str]) -> dict[str, object]:
    """Release one table in this process and report on it."""
    domain = Domain({str(axis): range(n) for axis, n in enumerate(shape)})
    table = ContingencyTable(np.ones(shape, dtype=np.int64), domain)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    made = release_table(table, GDP(1), mechanism=mechanism_from_dict(options))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "mechanism": repr(made.mechanism),
        "seconds": round(seconds, 2),
        "peak_mb": round(peak / 1024),
        "before_mb": round(before / 1024),
    }


def main() -> None:
    """Run every case in a process of its own and write the table."""
    if len(sys.argv) > 1:
        print(json.dumps(release(*json.loads(sys.argv[1]))))
        return
    rows = []
    for name, shape in SHAPES.items():
        for options in OPTIONS:
            command = [sys.executable, __file__, json.dumps([shape, options])]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            rows.append({"cells": name, **json.loads(out)})
    frame = pd.DataFrame(rows)
    RESULTS.mkdir(parents=True, exist_ok=True)
    frame.to_csv(RESULTS / "memory_mechanisms.csv", index=False)
    lines = [
        "# A release of a million cells",
        "",
        "Peak resident memory of the process (`before` is what Python, the package and the counts "
        "take); written by `benchmarks/memory.py`.",
        "",
        "| " + " | ".join(frame.columns) + " |",
        "|" + "---|" * frame.shape[1],
        *("| " + " | ".join(map(str, row)) + " |" for row in frame.to_numpy()),
    ]
    text = "\n".join(lines) + "\n"
    (RESULTS / "memory_mechanisms.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
