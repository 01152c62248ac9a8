"""Counting records: python benchmarks/tabulation.py writes results/tabulation.{csv,md}.

Speed as ratios within one run, at 10^7 records from Parquet; peak memory of a process of its own at
10^8 records; and the two ways of counting all two-way margins of 40 factors. The files are made by
DuckDB in a temporary folder.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import duckdb
import pandas as pd

from dpcontingency import _counting
from dpcontingency.bins import Bins
from dpcontingency.domain import Domain
from dpcontingency.tabulate import tabulate, tabulate_margins

RESULTS = Path(__file__).parent / "results"
LEVELS = [f"level {k}" for k in range(6)]
DOMAIN = Domain(dict.fromkeys("abcde", LEVELS))
WIDE = Domain({f"c{i}": list("abcd") for i in range(40)})


def write(path: str, columns: dict[str, str], size: int) -> None:
    """A Parquet file of columns, each an SQL expression of the row's number i."""
    terms = ", ".join(f"{what} as {name}" for name, what in columns.items())
    with duckdb.connect() as connection:
        connection.execute(f"copy (select {terms} from range({size}) t(i)) to '{path}'")


def seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turn(*kinds: Callable[[], object], repeats: int = 9) -> list[float]:
    """Medians of several kinds of work done in turn, so that all see the same machine."""
    rounds = [[seconds_of(work) for work in kinds] for _ in range(repeats)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def letters(names: str) -> dict[str, str]:
    return {c: f"'level ' || (hash(i * 5 + {k}) % 6)" for k, c in enumerate(names)}


def against_others(folder: str) -> list[dict[str, object]]:
    """10^7 records of five columns, against DuckDB itself and pandas."""
    path, names = f"{folder}/records.parquet", "a, b, c, d, e"
    write(path, letters("abcde"), 10**7)
    query = f"select {names}, count(*) from '{path}' group by {names}"
    bare, ours = in_turn(
        lambda: duckdb.connect().execute(query).fetchall(), lambda: tabulate(path, DOMAIN)
    )
    frame = pd.read_parquet(path)  # not timed
    crosstab = seconds_of(lambda: pd.crosstab([frame.a, frame.b], [frame.c, frame.d, frame.e]))
    return [
        row("DuckDB GROUP BY, 10^7 x 5, Parquet", bare),
        row("tabulate", ours, "DuckDB GROUP BY", ours / bare),
        row("pandas.crosstab, of a frame in memory", crosstab, "tabulate", crosstab / ours),
    ]


def bins_and_codes(folder: str) -> list[dict[str, object]]:
    """What bins and a recoding of 200 codes cost, at 10^7 records."""
    path = f"{folder}/coded.parquet"
    write(path, {"age": "hash(i) % 100", "code": "'c' || (hash(-i) % 200)"}, 10**7)
    domain = Domain({"code": ["low", "high"]}, bins={"age": Bins([0, 18, 65, 100])})
    recode = {"code": {f"c{i}": "low" if i < 50 else "high" for i in range(200)}}
    query = f"select age, code, count(*) from '{path}' group by age, code"
    bare, ours = in_turn(
        lambda: duckdb.connect().execute(query).fetchall(),
        lambda: tabulate(path, domain, recode=recode),
    )
    return [
        row("DuckDB GROUP BY of age and code, 10^7", bare),
        row("tabulate, 3 bins and 200 codes", ours, "DuckDB GROUP BY", ours / bare),
    ]


def margins(folder: str) -> list[dict[str, object]]:
    """All 780 two-way margins of 40 factors, 10^6 records, in one pass and in many."""
    path = f"{folder}/wide.parquet"
    columns = {n: f"substr('abcd', 1 + (hash(i * 40 + {k}) % 4)::int, 1)"
               for k, n in enumerate(WIDE.names)}  # fmt: skip
    write(path, columns, 10**6)
    pairs = list(combinations(WIDE.names, 2))
    kept = _counting.HAVE_GROUPING_SETS

    def blocks() -> None:
        _counting.HAVE_GROUPING_SETS = frozenset()
        tabulate_margins(path, WIDE, pairs)
        _counting.HAVE_GROUPING_SETS = kept

    def each() -> None:
        for pair in pairs[::10]:
            tabulate(path, WIDE.project(pair))

    one, many = in_turn(lambda: tabulate_margins(path, WIDE, pairs), blocks, repeats=3)
    separate = 10 * seconds_of(each)
    return [
        row("780 margins of 40 factors, 10^6, grouping sets", one),
        row("a pass for each block", many, "grouping sets", many / one),
        row("tabulate for each margin (of every tenth)", separate, "grouping sets", separate / one),
    ]


def memory(folder: str) -> list[dict[str, object]]:
    """10^8 records, in a process of its own."""
    path = f"{folder}/large.parquet"
    write(path, letters("abcde"), 10**8)
    command = [sys.executable, __file__, path]
    out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return [row("tabulate, 10^8 x 5, Parquet", out["seconds"], peak=out["peak_mb"])]


def one_count(path: str) -> None:
    start = time.perf_counter()
    table = tabulate(path, DOMAIN)
    seconds = time.perf_counter() - start
    assert table.counts.sum() == 10**8
    # Not getrusage, whose maximum begins with that of the parent process.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(re.search(r"VmHWM:\s*(\d+) kB", status)[1])
    print(json.dumps({"seconds": seconds, "peak_mb": round(peak / 1024)}))


def row(
    what: str, seconds: float, of: str = "", ratio: float | None = None, peak: int | None = None
) -> dict[str, object]:
    return {"what": what, "seconds": seconds, "times": ratio, "of": of, "peak MB": peak}


def main() -> None:
    if len(sys.argv) > 1:
        one_count(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for part in (against_others, bins_and_codes, margins, memory):
            rows += part(folder)
            print(*rows[-3:], sep="\n", flush=True)
    table = pd.DataFrame(rows)
    RESULTS.mkdir(exist_ok=True)
    table.to_csv(RESULTS / "tabulation.csv", index=False, float_format="%.4g")
    lines = ["| what | seconds | times | of | peak MB |", "|---|---|---|---|---|"]
    for r in table.itertuples(index=False):
        ratio, peak = ("" if pd.isna(x) else f"{x:.3g}" for x in (r[2], r[4]))
        lines.append(f"| {r[0]} | {r[1]:.3g} | {ratio} | {r[3]} | {peak} |")
    (RESULTS / "tabulation.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
