"""The heat map by structure: one square a pair, in its place, with its number."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from dpcontingency.errors import ModelError
from dpcontingency.report import plots
from dpcontingency.report.drawing import luminance
from dpcontingency.report.heat_map import STRENGTHS


def overview(names, values):
    rows = [(a, b, v, v / 2, min(1, v + 0.1), "") for (a, b), v in
            zip(combinations(names, 2), values, strict=True)]  # fmt: skip
    return pd.DataFrame(rows, columns=["row", "column", "estimate", "lower", "upper", "reason"])


def drawn(frame):
    return plots.heat_map(frame, ax=Figure().add_subplot())


def squares(ax):
    return {patch.get_gid(): patch for patch in ax.patches}


def edge(ax, side):
    """The labels along an edge with their places in the data, by text."""
    out = {}
    for text in ax.texts:
        if text.get_gid() is None:
            x, y = text.xy
            if side == "bottom" and y == 0:
                out[text.get_text()] = ax.get_xlim()[1] * x
            elif side == "left" and x == 0:
                out[text.get_text()] = ax.get_ylim()[0] * (1 - y)
    return out


FRAME = overview("ABCD", [0.05, 0.2, 0.45, 0.6, 0.1, 1.0])


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME.sample(frac=1, random_state=3),
        FRAME.rename(columns={"row": "column", "column": "row"}),
    ],
)
def test_each_pair_has_one_square_under_its_names(frame):
    ax = drawn(frame)
    across, down = edge(ax, "bottom"), edge(ax, "left")
    assert len(squares(ax)) == 6
    for k, pair in enumerate(frame.to_dict("records")):
        square = squares(ax)[f"pair-{k}"]
        middle = square.get_x() + square.get_width() / 2, square.get_y() + square.get_height() / 2
        names = {pair["row"], pair["column"]}
        (below,) = [n for n, x in across.items() if x == pytest.approx(middle[0])]
        (beside,) = [n for n, y in down.items() if y == pytest.approx(middle[1])]
        assert {below, beside} == names
        text = next(t for t in ax.texts if t.get_gid() == f"text-{k}")
        assert text.get_position() == middle
        assert text.get_text() == f"{pair['estimate']:.2f}\n{pair['lower']:.2f}–{pair['upper']:.2f}"
    places = {(s.get_x(), s.get_y()) for s in squares(ax).values()}
    assert len(places) == 6


def test_darker_is_stronger_and_text_can_be_read_on_it():
    ax = drawn(FRAME)
    colours = [to_hex(squares(ax)[f"pair-{k}"].get_facecolor()) for k in range(6)]
    assert colours == [STRENGTHS[s].colour for s in (0, 1, 2, 3, 1, 3)]
    lightness = [luminance(strength.colour) for strength in STRENGTHS]
    assert sorted(lightness, reverse=True) == lightness
    for k, colour in enumerate(colours):
        text = next(t for t in ax.texts if t.get_gid() == f"text-{k}")
        assert abs(luminance(to_hex(text.get_color())) - luminance(colour)) > 0.4


def test_a_pair_without_an_estimate_is_hatched_and_said():
    frame = FRAME.copy()
    frame.loc[2, ["estimate", "lower", "upper"]] = np.nan
    frame.loc[2, "reason"] = "D has a single level"
    ax = drawn(frame)
    assert squares(ax)["pair-2"].get_hatch()
    assert not squares(ax)["pair-1"].get_hatch()
    assert "text-2" not in [t.get_gid() for t in ax.texts]
    assert "A and D: not known, D has a single level." in ax.get_label()
    legend = [t.get_text() for t in ax.get_legend().get_texts()]
    assert "not known" in legend
    assert "not known" not in [t.get_text() for t in drawn(FRAME).get_legend().get_texts()]


def test_an_interval_that_ends_at_its_estimate_is_explained():
    frame = FRAME.assign(upper=FRAME["upper"].where(FRAME.index != 0, FRAME["estimate"]))
    ax = drawn(frame)
    said = {t.get_gid(): t.get_text() for t in ax.texts if t.get_gid()}
    # The last pair is perfectly associated: no interval reaches beyond 1.
    assert [gid for gid, text in said.items() if text.endswith("*")] == ["text-0"]
    assert "A and B: 0.050 (0.025 to 0.050, too good a fit to bound it)." in ax.get_label()
    assert ax.get_label().count("too good") == 1
    (why,) = [t.get_text() for t in ax.get_legend().get_texts() if "interval" in t.get_text()]
    assert why == "interval ends at V: a fit too\ngood does not bound it"
    assert not [t for t in drawn(FRAME).get_legend().get_texts() if "interval" in t.get_text()]


def test_many_factors_leave_the_intervals_out():
    names = [f"F{k}" for k in range(12)]
    ax = drawn(overview(names, np.linspace(0, 1, 66)))
    assert [t.get_text() for t in ax.texts if t.get_gid() == "text-65"] == ["1.00"]


def test_names_are_opaque_text():
    ax = drawn(overview(["$x$", "日本", "b" * 90], [0.1, 0.2, 0.3]))
    text = plots.svg(ax.figure)
    assert "$x$" in text
    assert "日本" in text
    assert not any(t.get_parse_math() for t in ax.texts)


def test_what_is_no_overview_is_refused():
    with pytest.raises(ModelError, match="with the columns row, column, estimate"):
        plots.heat_map(FRAME.drop(columns="lower"))
    with pytest.raises(ModelError, match="pairs of 2 to 40 factors; got 0"):
        plots.heat_map(FRAME[:0])
    names = [f"F{k}" for k in range(41)]
    with pytest.raises(ModelError, match="got 41"):
        plots.heat_map(overview(names, np.zeros(820)))
