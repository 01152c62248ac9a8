"""The demonstration's records: the committed file is what its script makes; the demo finds it."""

import csv
import importlib.util
import io
import tomllib
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from dpcontingency._demo_data import DEMO_FILES, demo_file

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"


@pytest.fixture(scope="module")
def make_records():
    spec = importlib.util.spec_from_file_location("make_records", DATA / "make_records.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def frequencies():
    """Map each cell of the frequency form to its count."""
    with (DATA / "ucb_admissions.csv").open(encoding="utf-8", newline="") as file:
        return {tuple(cell): int(count) for *cell, count in list(csv.reader(file))[1:]}


@pytest.fixture(scope="module")
def records():
    with (DATA / "ucb_admissions_records.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["Admit", "Gender", "Dept"]
    return [tuple(row) for row in rows]


def test_the_script_reproduces_the_committed_file(make_records):
    made = make_records.render_records((DATA / "ucb_admissions.csv").read_text(encoding="utf-8"))
    assert made.encode() == (DATA / "ucb_admissions_records.csv").read_bytes()


def test_grouping_the_records_gives_the_frequencies_back(records, frequencies):
    assert len(records) == 4526
    assert Counter(records) == frequencies


def test_the_records_are_shuffled(records):
    # 4,526 rows in 24 runs would be the frequency form written out; a shuffle leaves thousands.
    runs = 1 + sum(before != after for before, after in pairwise(records))
    assert runs > 3000


def test_an_empty_cell_makes_no_record(make_records):
    made = make_records.render_records('"A","B","count"\n"x","y",2\n"x","z",0\n')
    assert list(csv.reader(io.StringIO(made))) == [["A", "B"], ["x", "y"], ["x", "y"]]


def test_the_domain_file_declares_exactly_the_cells_of_the_table(frequencies):
    domain = yaml.safe_load((DATA / "ucb_admissions_domain.yaml").read_text(encoding="utf-8"))
    assert list(domain["factors"]) == ["Admit", "Gender", "Dept"]
    # Levels stand in the order of the frequency form, in which the first factor varies fastest.
    for axis, levels in enumerate(domain["factors"].values()):
        assert levels == list(dict.fromkeys(cell[axis] for cell in frequencies))


@pytest.mark.parametrize("name", DEMO_FILES)
def test_the_demo_finds_its_files(name):
    assert demo_file(name).read_bytes() == (DATA / name).read_bytes()


def test_the_wheel_carries_the_demo_files_and_no_other():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    carried = pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert carried == {f"data/{name}": f"dpcontingency/data/{name}" for name in DEMO_FILES}


def test_the_demo_names_the_files_it_knows():
    with pytest.raises(ValueError, match="use one of"):
        demo_file("titanic.csv")
