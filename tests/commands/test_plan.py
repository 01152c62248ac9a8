"""Plans: what cannot be seen is said, and the picture of a plan."""

import json
import xml.etree.ElementTree as ET

import pytest

from tests.command_line import refused, run

PLAN = ("plan", "--odds-ratio", 1.5, "--n", 500)


def test_an_alternative_inside_the_null_is_named():
    args = ("plan", "--odds-ratio", 1, "--n", 200, "--mu", 1)
    printed = run(*args)
    assert "Answer:     power 0.0500" in printed
    assert "Note:       The alternative lies inside the null model" in printed
    content = json.loads(run(*args, "--json"))
    assert content["power"] == pytest.approx(0.05)
    assert "whatever the loss" in content["notes"][0]
    said = refused("plan", "--odds-ratio", 1, "--n", 200, "--power", 0.8)
    assert "for instance --odds-ratio 1.5" in said


def test_a_curve_is_drawn(tmp_path):
    args = (*PLAN, "--mu", 0.1, "--curve", tmp_path / "c.svg")
    assert f"Curve:      {tmp_path / 'c.svg'}" in run(*args)
    drawn = (tmp_path / "c.svg").read_bytes()
    root = ET.fromstring(drawn)
    assert root.tag.endswith("svg")
    ids = {element.get("id", "") for element in root.iter()}
    assert len([name for name in ids if name.startswith("line2d_")]) > 3
    assert "exists already" in refused(*args)
    run(*args, "--force")
    assert (tmp_path / "c.svg").read_bytes() == drawn  # no clock in it


def test_a_curve_as_pixels(tmp_path):
    run(*PLAN, "--power", 0.5, "--curve", tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--mu", 1, "--curve", "c.gif"], "ends in .svg, .png, .pdf"),
        (["--mu", 1, "--test", "goodness-of-fit"], "the null probabilities, --null"),
        (["--mu", 1, "--test", "no-three-way"], "name it by --given"),
        (["--mu", 1, "--test", "model"], "its generating class, --model"),
        (["--mu", 1, "--factor", "Row"], "name them by --factor"),
        (["--mu", 1, "--test", "trend", "--factor", "Row"], "Name them by --factor"),
        (["--mu", 1, "--neighbours", "add-remove", "--strata", "Row"], "--neighbours replace-one"),
        (["--power", 0.01], "The power wanted"),
        (["--mu", 1, "--alpha", 2], "alpha is the level of the test"),
        (["--mu", "1e400"], "positive finite"),
        (["--mu", "nan"], "positive finite"),
    ],
)
def test_plans_that_make_no_sense(options, said):
    assert said in refused(*PLAN, *options)


def test_cell_probabilities_of_other_systems(tmp_path):
    (tmp_path / "d.yaml").write_text("factors:\n  A: [a, b]\n  B: [u, v]\n")
    text = "A,B,probability\r\na,u,0.3\r\na,v,0.2\r\nb,u,0.1\r\nb,v,0.4\r\n"
    (tmp_path / "c.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    args = ("plan", "--domain", tmp_path / "d.yaml", "--n", 300, "--mu", 1, "--alternative")
    assert "Answer:     power" in run(*args, tmp_path / "c.csv")
    (tmp_path / "s.csv").write_bytes(text.replace(",", ";").encode())
    assert "has no column 'A'" in refused(*args, tmp_path / "s.csv")
    (tmp_path / "u.csv").write_bytes(text.replace("a,u", "a,\xe9").encode("latin-1"))
    assert "UTF-8, comma-separated" in refused(*args, tmp_path / "u.csv")
    (tmp_path / "l.csv").write_bytes(text.replace("a,u", "a,w").encode())
    assert "Factor 'B' has no level 'w'" in refused(*args, tmp_path / "l.csv")


def test_a_rough_power_says_so_once_whichever_of_the_three_is_asked():
    for asked in (["--n", 60, "--mu", 0.2], ["--n", 30, "--power", 0.2]):
        content = json.loads(run("plan", "--odds-ratio", 3, *asked, "--json"))
        assert len(content["notes"]) == 1
        assert "often higher" in content["notes"][0]
    sound = json.loads(run("plan", "--odds-ratio", 1.5, "--n", 5000, "--mu", 0.2, "--json"))
    assert sound["notes"] == []
