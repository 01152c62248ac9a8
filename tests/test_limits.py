"""What would take all memory or time is refused in a sentence: in a second, and with little memory.

All is tried in one process of its own, whose peak of memory is that of the worst.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpcontingency import _declared, domain, table
from dpcontingency.inference import formula as model_formula
from dpcontingency.release import layout

SECONDS = 1.0  # of processor time
MEGABYTES = 200

CASES = {
    "nested aliases": """
        text = "factors: {A: [a, b]}\\na0: &a0 [x, x, x, x, x, x, x, x, x]\\n"
        for k in range(1, 10):
            text += f"a{k}: &a{k} [" + ", ".join([f"*a{k - 1}"] * 9) + "]\\n"
        Path(folder, "d.yaml").write_text(text)
        dpc.Domain.from_yaml(Path(folder, "d.yaml"))
    """,
    "a level of 5,000 digits": "dpc.Domain({'A': [10**5000, 1]})",
    "a million levels and one": "dpc.Domain({'A': range(10**6 + 1)})",
    "more cells than Python writes": "dpc.Domain({f'f{i}': [0, 1] for i in range(20000)})",
    "4^40 possible cells": "dpc.Domain({f'f{i}': range(4) for i in range(40)}).possible()",
    "70 factors of one level": """
        dpc.tabulate(RECORDS, dpc.Domain({f'f{i}': [1] for i in range(70)}))
    """,
    "2^30 cells": "dpc.tabulate(RECORDS, dpc.Domain({f'f{i}': [0, 1] for i in range(30)}))",
    "60 margins of 19 factors": """
        rng = np.random.default_rng(1)
        domain = dpc.Domain({f"f{i}": range(2 + i) for i in range(40)})
        names = np.array(domain.names)
        margins = {tuple(names[np.sort(rng.permutation(40)[:19])]) for _ in range(60)}
        dpc.plan_margins(domain, [list(map(str, m)) for m in margins], dpc.GDP(1))
    """,
    "backticks in brackets": "dpc.LogLinearModel(RELEASE, '[' + '`' * 60)",
    "very many backticks": "dpc.LogLinearModel(RELEASE, '[' + '`a' * 50_001 + ']')",
    "a product of 40 factors": "formula('*'.join(NAMES))",
    "a power of 40 factors": "formula('(' + '+'.join(NAMES) + ')**20')",
    "powers of powers": "formula('((' + '+'.join(NAMES) + ')**3)**3')",
    "a very long sum": "formula('+'.join(NAMES * 5000))",
    "a margin of 40 factors": "dpc.LogLinearModel(MANY, [NAMES])",
}
SET_UP = """
import json, resource, sys, textwrap, time
from pathlib import Path
import numpy as np
import dpcontingency as dpc
import dpcontingency.inference.loglinear
from dpcontingency.errors import DPContingencyError
import pandas as pd
folder, cases = sys.argv[1], json.load(sys.stdin)
RECORDS = pd.DataFrame({"f0": [0, 1], "f1": [1, 1]})
RELEASE = dpc.Release.exact([[1, 2], [3, 4]], dpc.Domain({"A": [0, 1], "B": [0, 1]}))
NAMES = [f"f{i}" for i in range(40)]
MANY = dpc.Release.exact(np.full((1,) * 40, 9), dpc.Domain({name: [1] for name in NAMES}))
formula = lambda text: dpc.LogLinearModel.from_formula(text, MANY)
formula("f0")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name, code in cases.items():
    start = time.process_time()
    try:
        exec(textwrap.dedent(code))
        said = "nothing"
    except DPContingencyError as error:
        said = str(error)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([name, said, time.process_time() - start, more / 1024]), flush=True)
"""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    """What was said of each case, after how many seconds and megabytes."""
    done = subprocess.run(
        [sys.executable, "-c", SET_UP, tmp_path_factory.mktemp("limits")],
        input=json.dumps(CASES), capture_output=True, text=True, timeout=120, check=True,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    return {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_at_once(refusals, case):
    said, seconds, megabytes = refusals[case]
    assert said.endswith(".")
    assert "\n" not in said
    assert seconds < SECONDS
    assert megabytes < MEGABYTES


def test_the_documentation_has_the_limits():
    text = (Path(__file__).parents[1] / "docs" / "protection.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^\| ([^|]+) \| ([0-9^,]+) \|$", text, re.MULTILINE))
    values = {
        "cells of a joint table of counts": table.MAX_CELLS,
        "factors of a joint table": domain.MAX_AXES,
        "levels of a factor": _declared.MAX_LEVELS,
        "digits of a level that is a whole number": _declared.DIGITS,
        "cells that a domain describes, for margins": 10**domain.MAX_SIZE,
        "interactions that a plan of margins lays out": layout.MAX_INTERACTIONS,
        "terms of a model": model_formula.MAX_TERMS,
        "characters of a formula": model_formula.MAX_TEXT,
    }
    assert stated.keys() == values.keys()
    for what, number in stated.items():
        base, _, power = number.replace(",", "").partition("^")
        assert int(base) ** int(power or 1) == values[what], what
