"""What a report says of how to make it again is run, in Python and on the command line."""

import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

import dpcontingency as dpc
from dpcontingency.cli import app
from dpcontingency.report.document import document_of
from dpcontingency.report.parts import Code

DOMAIN = dpc.Domain({"A": ["a", "b"], "B x": ["u", "v"], "C,|": ["x", "y"]})
CELLS = [[[91.5, 38.0], [47.7, 55.2]], [[33.0, 71.3], [60.1, 12.9]]]


def codes(release, **found):
    document = document_of(release, **found)
    again = document.sections[-1]
    assert again.key == "again"
    return {block.key: block.text for block in again.blocks if isinstance(block, Code)}


@pytest.fixture
def release():
    return dpc.Release.from_noisy_table(CELLS, DOMAIN, sigma=4.0, n_total=410)


def test_both_make_the_same_bytes(release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release.save("release.json")
    found = {
        "models": [dpc.LogLinearModel(release, [("A", "B x"), ("C,|",)]).fit()],
        "tests": [
            dpc.independence_test(release, "A", "B x"),
            dpc.independence_test(release, "A", "C,|", given=["B x"]),
        ],
        "title": "It's a table",
    }
    assert all(test.n_boot is None for test in found["tests"])
    dpc.write_report(release, "wanted.html", **found)
    wanted = (tmp_path / "wanted.html").read_bytes()
    code = codes(release, **found)
    exec(compile(code["python"], "again", "exec"), {})
    assert (tmp_path / "report.html").read_bytes() == wanted
    (tmp_path / "report.html").unlink()
    program, *arguments = shlex.split(code["command"])
    assert program == "dpcontingency"
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "report.html").read_bytes() == wanted


def test_what_the_command_line_cannot_say_has_python_only(release):
    fits = [dpc.LogLinearModel(release, [("A",), ("B x",)]).fit(penalty="jeffreys")]
    assert "command" not in codes(release, models=fits)
    assert ".fit(penalty='jeffreys')" in codes(release, models=fits)["python"]
    of_margin = [dpc.LogLinearModel(release.margin("A", "B x"), [("A",), ("B x",)]).fit()]
    assert "--model '[A][`B x`]'" in codes(release, models=of_margin)["command"].replace("\\", "")
    of_margin = [dpc.LogLinearModel(release.margin("B x", "A"), [("A",), ("B x",)]).fit()]
    assert "command" not in codes(release, models=of_margin)
    assert "command" not in codes(release, tests=[dpc.model_test(of_margin[0])])
    score = dpc.independence_test(release, "A", "B x", statistic="score")
    assert "command" not in codes(release, tests=[score])
    assert set(codes(release)) == {"python", "command"}


def test_the_chosen_model_is_named(release):
    fits = [dpc.LogLinearModel(release, g).fit() for g in ("[A]", "[A][`B x`]")]
    assert "chosen" not in codes(release, models=fits)["python"]
    code = codes(release, models=fits, chosen=fits[0])
    assert "models=[model1, model2], chosen=model1)" in code["python"]
    assert "command" not in code


def test_a_test_of_several_releases_is_named_and_not_run():
    rng = np.random.default_rng(4)
    domain = dpc.Domain({"Answer": ["yes", "no", "unsure"]})
    samples = [
        dpc.simulate_release(np.array(n), domain, dpc.GDP(1), rng)
        for n in ([310, 150, 41], [260, 171, 69])
    ]
    test = dpc.homogeneity_test(samples)
    code = codes(test.null_fit.model.release, tests=[test])
    assert "# homogeneity test: Answer alike in 2 samples" in code["python"]
    assert "releases" not in code["python"]


def test_a_model_with_an_offset_is_rebuilt_with_it(release):
    offset = np.log([[[1.0, 2.0], [3.0, 1.0]], [[2.0, 5.0], [1.0, 4.0]]])
    fit = dpc.LogLinearModel(release, [("A",), ("B x",), ("C,|",)], offset=offset).fit()
    code = codes(release, models=[fit])
    (line,) = [line for line in code["python"].splitlines() if line.startswith("model1 = ")]
    again = eval(line.removeprefix("model1 = "), {"dpc": dpc, "release": release})
    assert np.array_equal(again.params, fit.params)
    assert "command" not in code
