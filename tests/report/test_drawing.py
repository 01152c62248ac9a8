"""What all plots share: text, colours, and the way into a page."""

import io
import re
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dpcontingency.domain import Domain
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.overview import association_overview
from dpcontingency.inference.planning import power_curve, two_by_two
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.release import Release
from dpcontingency.report import plots
from dpcontingency.report.drawing import clean, ems, in_lines, short, short_inside, write

RELEASE = Release.from_noisy_table(
    [[[40, 9], [12, 60]], [[25, 31], [-2, 18]]],
    Domain({"A": ["a", "b"], "B": ["u", "v"], "C": ["x", "y"]}),
    sigma=2.0,
)


def _fit():
    return LogLinearModel(RELEASE, "[A B][C]").fit()


def _frame():
    rows = [("A", "B", 0.3, 0.1, 0.4), ("A", "C", 0.05, 0.0, 0.2)]
    frame = pd.DataFrame(rows, columns=["row", "column", "estimate", "lower", "upper"])
    return frame.assign(reason="")


EVERY = {
    "mosaic": lambda ax: plots.mosaic(RELEASE, ax=ax),
    "association": lambda ax: plots.association(RELEASE, "A", "B", ax=ax),
    "fourfold": lambda ax: plots.fourfold(RELEASE, "A", "B", ("C",), ax=ax),
    "coefficients": lambda ax: plots.coefficients(_fit(), ax=ax),
    "odds_ratios": lambda ax: plots.odds_ratios(_fit(), ax=ax),
    "trade_off": lambda ax: plots.trade_off(GDP(1), ax=ax),
    "power_curve": lambda ax: plots.power_curve(
        power_curve(Domain({"A": [0, 1], "B": [0, 1]}), two_by_two(1.5), [500], [0.1, 1]), ax=ax
    ),
    "noise_versus_signal": lambda ax: plots.noise_versus_signal(RELEASE, ax=ax),
    "heat_map": lambda ax: plots.heat_map(_frame(), ax=ax),
}


@pytest.mark.parametrize("name", EVERY)
def test_every_plot_takes_axes_gives_them_back_and_says_what_it_shows(name):
    ax = Figure().add_subplot()
    assert EVERY[name](ax) is ax
    root = ElementTree.fromstring(plots.svg(ax.figure, prefix="p"))
    assert root.get("role") == "img"
    assert root.get("aria-label") == ax.get_label()
    assert len(ax.get_label()) > 40
    assert ax.get_label().endswith(".")


@pytest.mark.parametrize("name", EVERY)
def test_every_plot_makes_a_figure_of_its_own(name):
    before = plt.get_fignums()
    ax = EVERY[name](None)
    assert ax.figure.number not in before
    plt.close(ax.figure)


def _long(*texts):
    return [f"{text} is a name that nobody would call short {text}" for text in texts]


def _long_table(*levels):
    domain = Domain(
        {
            name: _long(*"abcdefg"[:n])
            for name, n in zip(_long(*"ABCD"[: len(levels)]), levels, strict=True)
        }
    )
    values = np.arange(domain.size).reshape(domain.shape) * 7 % 53 - 1.5
    return Release.from_noisy_table(values, domain, sigma=2.0)


def _long_fit():
    release = _long_table(2, 2, 2)
    return LogLinearModel(release, [release.domain.names]).fit(warn_convergence=False)


LONG = EVERY | {
    "mosaic": lambda ax: plots.mosaic(_long_table(3, 2, 2, 2), ax=ax),
    "mosaic of one factor": lambda ax: plots.mosaic(_long_table(3), ax=ax),
    "association": lambda ax: plots.association(_long_table(7, 5), *_long("A", "B"), ax=ax),
    "association of two": lambda ax: plots.association(_long_table(2, 2), *_long("A", "B"), ax=ax),
    "fourfold": lambda ax: plots.fourfold(_long_table(2, 2), *_long("A", "B"), ax=ax),
    "fourfolds": lambda ax: plots.fourfold(
        _long_table(2, 2, 2), *_long("A", "B"), _long("C"), ax=ax
    ),
    "coefficients": lambda ax: plots.coefficients(_long_fit(), ax=ax),
    "odds_ratios": lambda ax: plots.odds_ratios(_long_fit(), ax=ax),
    "noise_versus_signal": lambda ax: plots.noise_versus_signal(_long_table(2, 2, 2), ax=ax),
    "heat_map": lambda ax: plots.heat_map(association_overview(_long_table(2, 2, 2)), ax=ax),
}


@pytest.mark.parametrize("name", LONG)
def test_a_figure_of_its_own_holds_all_of_a_plot(name):
    ax = LONG[name](None)
    figure = ax.figure
    figure.savefig(io.BytesIO(), dpi=figure.dpi)
    renderer = figure.canvas.get_renderer()
    inside = figure.get_tightbbox(renderer)
    width, height = figure.get_size_inches()
    assert 0 <= inside.x0 < inside.x1 <= width
    assert 0 <= inside.y0 < inside.y1 <= height
    # No empty margins either: tight around what is drawn, as it was measured.
    assert max(inside.x0, inside.y0, width - inside.x1, height - inside.y1) < 0.1
    boxes = [text.get_window_extent(renderer) for text in ax.texts]
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    plt.close(figure)


def test_what_is_added_to_a_plot_is_inside_too():
    ax = EVERY["mosaic"](None)
    ax.set_title("A title", pad=60)
    ax.figure.savefig(io.BytesIO(), dpi=ax.figure.dpi)
    top = ax.title.get_window_extent(ax.figure.canvas.get_renderer()).y1
    assert top <= ax.figure.bbox.y1
    plt.close(ax.figure)


@pytest.mark.parametrize("name", EVERY)
def test_every_plot_follows_dark_mode(name):
    """Text and lines are in the colour of the page; black is left to no default."""
    ax = EVERY[name](Figure().add_subplot())
    root = ElementTree.fromstring(plots.svg(ax.figure))
    for element in root.iter():
        style = element.get("style", "")
        assert not re.search(r"(stroke|fill): ?#0{3,6}\b", style), style
        if element.tag.endswith("text") and (element.text or "").strip():
            assert re.search(r"fill: ?(currentColor|#111111|#ffffff)", style), element.text


@pytest.mark.parametrize("name", EVERY)
def test_no_text_is_read_as_tex(name):
    ax = EVERY[name](Figure().add_subplot())
    texts = [*ax.texts, ax.xaxis.label, ax.yaxis.label, ax.title, *ax.get_yticklabels()]
    texts += ax.get_legend().get_texts()
    assert not [t.get_text() for t in texts if t.get_text() and "$" in t.get_text()]
    assert not [t.get_text() for t in ax.texts if t.get_parse_math()]


def test_every_public_plot_is_here():
    drawn = set(plots.__all__) - {"GAPS", "INK", "LONGEST", "MAX_FACTORS", "SHADES"}
    assert drawn - {"svg", "shading"} == set(EVERY)


def test_names_that_look_like_markup_pass_through_the_svg_unchanged():
    names = ['id="a" href="#b"', "#1c1d1e", 'version="1" xmlns="x"', "url(#c)", "<b>&amp;"]
    ax = Figure().add_subplot()
    for k, name in enumerate(names):
        write(ax, 0.5, k / 5, name)
    inside = "".join(ElementTree.fromstring(plots.svg(ax.figure, "x", "p")).itertext())
    assert all(name in inside for name in names)


def test_control_characters_and_line_breaks_leave_the_names():
    assert clean("a\nb\tc\x00d\u2028e\ud800") == "a b c\ufffdd e\ufffd"
    assert clean("שלום 水 é👩‍🚀") == "שלום 水 é👩‍🚀"
    domain = Domain({"A\x07": ["x\x00", "y\ny"], "B": ["u\x85", "v"]})
    release = Release.from_noisy_table([[40.5, 9], [12, 60]], domain, sigma=2.0)
    for ax in (
        plots.mosaic(release, ax=Figure().add_subplot()),
        plots.association(release, "A\x07", "B", ax=Figure().add_subplot()),
        plots.fourfold(release, "A\x07", "B", ax=Figure().add_subplot()),
        plots.noise_versus_signal(release, ax=Figure().add_subplot()),
        plots.coefficients(
            LogLinearModel(release, [domain.names]).fit(), ax=Figure().add_subplot()
        ),
    ):
        ElementTree.fromstring(plots.svg(ax.figure))


def test_short_names_are_as_wide_as_so_many_letters():
    assert short("abc", 28) == "abc"
    for text in ("b" * 90, "W" * 90, "i" * 90, "水" * 90, "a\u0301" * 90):
        cut = short(text, 28)
        assert cut.endswith("…")
        assert text.startswith(cut[:-1])
        assert ems(cut) <= 28 * 0.58 + 1e-9 < ems(cut) + 2
    assert len(short("水" * 90)) < len(short("i" * 90))


def test_names_cut_in_the_middle_keep_both_ends():
    one, other = (short_inside("b" * 90 + end, 30) for end in "12")
    assert one != other
    assert one.startswith("bbbb")
    assert one.endswith("1")
    assert "…" in one
    assert ems(one) <= 31 * 0.58


def test_labels_break_between_parts():
    assert in_lines(["A:", "B"], 20) == "A:B"
    assert in_lines(["A" * 15 + ":", "B" * 15], 20) == "A" * 15 + ":\n" + "B" * 15
    assert in_lines(["ab"] * 40, 20).count("\n") == 1


def test_widths_are_about_those_of_the_font():
    figure = Figure()
    renderer = FigureCanvasAgg(figure).get_renderer()
    ax = figure.add_subplot()
    for text in (
        "Admitted / Rejected",
        "A[T.yes]:B[T.yes]",
        "Gender",
        "wwwMMM",
        "illicit, 0.35",
        "b" * 28,
    ):
        drawn = write(ax, 0, 0, text, fontsize=9).get_window_extent(renderer).width / figure.dpi * 8
        assert ems(text) == pytest.approx(drawn, rel=0.2), text
