"""Fixtures shared by all tests: the public tables of data/."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings

from dpcontingency.domain import Domain

# The same examples in every run: a failure in CI is a failure here.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def data_folder() -> Path:
    return DATA


@pytest.fixture(scope="session")
def load_table():
    """A function from the name of a table in data/ to its counts and domain."""

    def load(name):
        frame = pd.read_csv(DATA / f"{name}.csv", dtype=str)
        *factors, count = frame.columns
        domain = Domain({f: list(dict.fromkeys(frame[f])) for f in factors})
        counts = np.zeros(domain.shape, dtype=np.int64)
        for row in frame.itertuples(index=False):
            cell = tuple(domain.index(f, level) for f, level in zip(factors, row, strict=False))
            counts[cell] += int(row[-1])
        assert count == "count"
        return counts, domain

    return load
