"""The public names, and the README's Python."""

import pickle
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import dpcontingency as dpc
from dpcontingency.cli import app
from dpcontingency.release.mechanisms import MECHANISMS

ROOT = Path(__file__).resolve().parents[1]


def test_every_public_name_is_there():
    assert set(dpc.__all__) <= set(dir(dpc))
    for name in dpc.__all__:
        assert getattr(dpc, name) is not None


def test_every_mechanism_is_public():
    assert set(MECHANISMS) <= set(dpc.__all__)
    assert all(getattr(dpc, name) is kind for name, kind in MECHANISMS.items())


def test_results_are_read_as_json_by_the_first_thing_a_process_asks_for(tmp_path):
    """Not by statsmodels, which would run whatever a pickle says."""
    marker, path = tmp_path / "ran", tmp_path / "results.json"
    path.write_bytes(f"cposix\nmkdir\n(S'{marker}'\ntR.".encode())
    pickle.loads(path.read_bytes())
    marker.rmdir()  # so it is such a pickle
    code = f"import dpcontingency as dpc; dpc.LogLinearResults.load({str(path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert "ReleaseError" in done.stderr
    assert not marker.exists()


def test_the_version_is_the_installed_one():
    assert dpc.__version__ == version("dpcontingency")


def test_the_readme_runs(tmp_path, monkeypatch):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 1
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks[0], "README.md", "exec"), {})
    assert (tmp_path / "report.html").exists()


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 90
    makes, _ = _shell(text)
    assert [line.split("#")[0].split() for line in makes] == [["make", "demo"], ["make", "test"]]
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{line.split()[1]}:.* ## ", targets, re.MULTILINE) for line in makes)


def _shell(text):
    return [block.splitlines() for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]


def test_the_commands_of_the_readme_run(tmp_path, monkeypatch, capsys):
    _, commands = _shell((ROOT / "README.md").read_text(encoding="utf-8"))
    shutil.copy(ROOT / "data" / "ucb_admissions_records.csv", tmp_path / "records.csv")
    shutil.copy(ROOT / "data" / "ucb_admissions_domain.yaml", tmp_path / "domain.yaml")
    monkeypatch.chdir(tmp_path)
    assert len(commands) == 6
    for line in commands:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "dpcontingency"
        with pytest.raises(SystemExit) as ended:
            app(arguments, prog_name=program)
        assert ended.value.code == 0, capsys.readouterr().err
    assert {"draft.yaml", "release.json", "report.html"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_what_the_readme_points_at_is_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (picture,) = re.findall(r"^!\[.+\]\((.+)\)$", text, re.MULTILINE)
    assert 5_000 < (ROOT / picture).stat().st_size < 200_000
    paths = re.findall(r"`((?:data|vignettes|benchmarks)/[\w./-]+)`", text)
    assert len(paths) >= 3
    assert all((ROOT / path).is_file() for path in paths)


def run(code):
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_what_counts_fits_and_draws_is_loaded_when_asked_for():
    counts = ("ibis", "duckdb", "sqlglot")
    heavy = ("pandas", "pyarrow", "scipy", "statsmodels", "numba", "matplotlib")
    code = (
        "import sys, dpcontingency as dpc\n"
        "import dpcontingency.tabulate\n"
        f"loaded = lambda: [name for name in {counts + heavy} if name in sys.modules]\n"
        "dpc.Domain({'a': [0, 1]}, bins={'b': dpc.Bins([0, 1])})\n"
        "dpc.ContingencyTable([1, 2], dpc.Domain({'a': [0, 1]}))\n"
        "print(loaded())\n"
        "dpc.LogLinearModel, dpc.plots.mosaic, dpc.write_report\n"
        "print(loaded())\n"
        "try:\n    dpc.plot\nexcept AttributeError as error:\n    print(error)"
    )
    before, after, error = run(code).splitlines()
    assert before == "[]"
    assert after == str(list(heavy))
    assert error == "module 'dpcontingency' has no attribute 'plot'"


def test_a_fit_to_a_file_loads_nothing_that_draws_counts_or_exports(tmp_path):
    """16 MB of a process that takes 296 to fit 137 parameters to 2^16 cells."""
    domain = dpc.Domain({"A": [0, 1], "B": [0, 1]})
    dpc.release_table(dpc.ContingencyTable([[90, 40], [30, 70]], domain), dpc.GDP(1)).save(
        tmp_path / "release.json"
    )
    code = (
        "import sys, dpcontingency as dpc\n"
        f"release = dpc.load_release({str(tmp_path / 'release.json')!r})\n"
        "dpc.LogLinearModel(release, '[A][B]').fit().bse\n"
        "print([n for n in ('flint', 'pyarrow.parquet', 'pyarrow.pandas_compat', 'duckdb',"
        " 'matplotlib') if n in sys.modules])"
    )
    assert run(code) == "[]"


def test_a_module_never_stands_in_the_place_of_a_function_of_its_name():
    code = (
        "import dpcontingency as dpc, dpcontingency.cli, dpcontingency.tabulate\n"
        "print(all(callable(getattr(dpc, n)) for n in dpc.__all__ if n not in ('errors', 'plots')))"
    )
    assert run(code) == "True"


WAYS = (
    "import dpcontingency; dpcontingency.tabulate",
    "import dpcontingency.tabulate",
    "from dpcontingency.tabulate import tabulate",
    "from dpcontingency import tabulate",
    "import importlib; importlib.import_module('dpcontingency.tabulate')",
    "import dpcontingency; dpcontingency.release_table",
)


@pytest.mark.parametrize("first", WAYS)
def test_tabulate_is_the_function_whatever_is_imported_first(first):
    code = (
        "\n".join([first, *(way for way in WAYS if way != first), first]) + "\n"
        "import sys, dpcontingency as dpc\n"
        "print(dpc.tabulate is tabulate is sys.modules['dpcontingency.tabulate'].tabulate)"
    )
    assert run(code) == "True"
