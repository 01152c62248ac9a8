"""Mosaic plots by structure: which tiles and marks there are, where, and how they are shaded."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.planning import power_curve, two_by_two
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish_margins import simulate_margins
from dpcontingency.release.release import Release
from dpcontingency.report import plots


def released(values, sigma=2.0, **options):
    values = np.asarray(values, dtype=float)
    levels = {f"F{k}": [f"{'abcde'[k]}{j}" for j in range(n)] for k, n in enumerate(values.shape)}
    return Release.from_noisy_table(values, Domain(levels, **options), sigma=sigma)


def drawn(source, **options):
    return plots.mosaic(source, ax=Figure(figsize=(5.1, 3.7)).add_subplot(), **options)


def tiles(ax):
    return {patch.get_gid(): patch for patch in ax.patches}


def marks(ax):
    return {line.get_gid(): line.get_marker() for line in ax.lines}


def texts(ax):
    return [text.get_text() for text in ax.texts]


# C38: a cell of 0, an empty row, a negative cell, an unobserved level, a one-level factor, nothing.
ODD = [
    [[5, 0], [3, 7]],
    [[5, 0], [0, 0]],
    [[5, -1.2], [3, 7]],
    [[4, 0, 3], [2, 0, 6]],
    [[4, 9, 7]],
    [[4], [9], [7]],
    [[3]],
    [[0, 0], [0, 0]],
    [[-1.5, -0.2], [-3, -1]],
    [4, 0, 9],
    np.zeros((2, 1, 3, 2)),
    np.arange(24).reshape(2, 3, 2, 2) - 3.0,
]


CASES = [(values, False) for values in ODD]
CASES += [(values, True) for values in ODD if np.min(values) >= 0]


@pytest.mark.parametrize(("values", "exact"), CASES)
def test_odd_tables_are_drawn(values, exact):
    values = np.asarray(values, dtype=float)
    release = released(values)
    if exact:
        release = Release.exact(values, release.domain)
    ax = drawn(release)
    names = {f"cell-{k}": v for k, v in enumerate(values.ravel())}
    assert set(tiles(ax)) == {name for name, v in names.items() if v > 0}
    assert marks(ax) == {name: ("x" if v < 0 else "o") for name, v in names.items() if v <= 0}
    for patch in ax.patches:
        assert np.isfinite([*patch.get_xy(), patch.get_width(), patch.get_height()]).all()
    assert set(release.domain.names) <= set(texts(ax))
    assert "nan" not in plots.svg(ax.figure, "odd", "p").lower()


def test_areas_are_in_proportion():
    values = np.array([[[30.5, 10], [4, 44]], [[7, 9], [21, -3]], [[5, 8], [60, 12]]])
    at = tiles(drawn(released(values)))
    area = {name: patch.get_width() * patch.get_height() for name, patch in at.items()}
    # Cells that share a gap-free split are exactly in proportion.
    assert area["cell-0"] / area["cell-1"] == pytest.approx(30.5 / 10)
    assert area["cell-8"] / area["cell-9"] == pytest.approx(5 / 8)
    # Columns are as wide as their sums of positive cells.
    left = {k: min(at[f"cell-{c}"].get_x() for c in range(4 * k, 4 * k + 3)) for k in range(3)}
    sums = np.maximum(values, 0).sum(axis=(1, 2))
    gap = plots.GAPS[0]
    widths = (1 - 2 * gap) * sums / sums.sum()
    assert left[1] - left[0] == pytest.approx(widths[0] + gap)
    assert left[2] - left[1] == pytest.approx(widths[1] + gap)


def test_the_order_of_splitting():
    release = released(np.arange(1, 13).reshape(2, 2, 3))
    assert texts(drawn(release))[3] == "F2"  # the most levels first, after three levels
    assert texts(drawn(release, order=("F1", "F0", "F2")))[2] == "F1"
    for wrong in (("F0", "F1"), ("F0", "F1", "F1"), ("F0", "F1", "F9"), "F0"):
        with pytest.raises(ModelError, match="names each factor of the table once: 'F0'"):
            drawn(release, order=wrong)


def test_a_given_order_moves_tiles_not_cells():
    values = np.array([[1.0, 2, 30], [40, 5, 6]])
    at = tiles(drawn(released(values), order=("F0", "F1")))
    assert at["cell-3"].get_x() > at["cell-2"].get_x()  # 40 stands in the second column
    turned = tiles(drawn(released(values), order=("F1", "F0")))
    assert turned["cell-3"].get_x() == turned["cell-0"].get_x()


def test_more_than_four_factors_are_refused():
    with pytest.raises(ModelError, match=r"take a margin, such as release.margin\('F0', 'F1'"):
        drawn(released(np.ones((2, 2, 2, 2, 2))))


def test_only_releases_and_results_are_drawn():
    with pytest.raises(ModelError, match="takes a Release or the results of a fit; got ndarray"):
        plots.mosaic(np.ones((2, 2)))


def test_shades_follow_the_residuals_of_the_model():
    values = np.array([[[90.0, 31], [20, 44]], [[12, 60], [75, 38]]])
    release = released(values, sigma=3.0)
    for generators in ("[F0][F1][F2]", "[F0 F1][F2]", "[F0 F1][F0 F2][F1 F2]"):
        fit = LogLinearModel(release, generators).fit()
        residuals = fit.resid_pearson.to_numpy()
        for name, patch in tiles(drawn(fit)).items():
            r = residuals[int(name.removeprefix("cell-"))]
            step = sum(r > edge for edge in (-4, -2, 2, 4))
            assert to_hex(patch.get_facecolor()) == plots.SHADES[step].colour
            assert (patch.get_linestyle() != "solid") == (r < -2)
    default = tiles(drawn(release))
    mutual = tiles(drawn(LogLinearModel(release, "[F0][F1][F2]").fit()))
    assert {n: p.get_facecolor() for n, p in default.items()} == {
        n: p.get_facecolor() for n, p in mutual.items()
    }


def test_noise_makes_residuals_smaller():
    values = [[60, 30], [30, 60]]
    assert np.abs(plots.shading(released(values, sigma=0.1))[1]).min() > 2 * (
        np.abs(plots.shading(released(values, sigma=30.0))[1]).max()
    )


def test_impossible_cells_are_marked():
    release = released([[5, 9, 3], [8, 2, 6]], structural_zeros=[{"F0": "a0", "F1": "b2"}])
    ax = drawn(release)
    assert marks(ax) == {"cell-2": "|"}
    assert "impossible cell" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_legend_names_only_marks_that_are_drawn():
    plain = drawn(released([[5, 9], [8, 2]])).get_legend()
    assert [t.get_text() for t in plain.get_texts()] == [s.label for s in plots.SHADES[::-1]]
    marked = drawn(released([[5, 9], [-8, 2]])).get_legend()
    assert "negative cell (noise), no area" in [t.get_text() for t in marked.get_texts()]


def test_axes_in_axes_out():
    ax = Figure().add_subplot()
    assert plots.mosaic(released([[5, 9], [8, 2]]), ax=ax) is ax
    made = plots.mosaic(released([[5, 9], [8, 2]]))
    assert made.figure is plt.figure(made.figure.number)
    plt.close(made.figure)


def test_names_are_opaque_text():
    odd = ["<b>&\"'", "$a_1$", "α", "x:y", "日本", "a\nb"]
    domain = Domain({"$x^2$": odd, "`q`": ["", "%s {0}"]})
    release = Release.from_noisy_table(np.arange(1, 13).reshape(6, 2), domain, sigma=1.0)
    ax = drawn(release)
    assert {"<b>&\"'", "$a_1$", "日本", "$x^2$", "`q`", "%s {0}"} <= set(texts(ax))
    text = plots.svg(ax.figure, 'a <b> & "c"', "p")
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == 'a <b> & "c"'
    inside = "".join(root.itertext())
    assert all(name in inside for name in ("<b>", "$a_1$", "α", "x:y", "日本", "$x^2$"))


def test_long_names_leave_room():
    domain = Domain({"A" * 90: ["b" * 90, "c"], "B": ["u", "v"]})
    release = Release.from_noisy_table([[4, 5], [6, 7]], domain, sigma=1.0)
    assert max(map(len, texts(drawn(release)))) <= plots.LONGEST


def test_the_legend_stands_clear_of_long_names_on_the_right():
    for text in ("x", "b" * 90):
        domain = Domain({"A": [0, 1, 2, 3], "B": [0, 1, 2], "C": [0, 1], text: [text, "y"]})
        release = Release.from_noisy_table(np.full(domain.shape, 30.0), domain, sigma=2.0)
        ax = drawn(release, order=domain.names)
        renderer = FigureCanvasAgg(ax.figure).get_renderer()
        names = [t for t in ax.texts if t.xy[0] == 1.0]
        right = max(t.get_window_extent(renderer).x1 for t in names)
        assert ax.get_legend().get_window_extent(renderer).x0 >= right


def test_a_margin_that_was_released_is_drawn_and_a_joint_that_was_not_is_refused():
    counts = np.arange(12).reshape(2, 3, 2) * 9 + 5
    domain = Domain({"A": [0, 1], "B": [0, 1, 2], "C": [0, 1]})
    rng = np.random.default_rng(4)
    release = simulate_margins(counts, domain, [("A", "B"), ("C",)], GDP(1), rng)
    margin = release.margin("A", "B")
    ax = drawn(margin, order=("B", "A"))
    area = {n: p.get_width() * p.get_height() for n, p in tiles(ax).items()}
    assert area["cell-0"] / area["cell-3"] == pytest.approx(
        margin.values[0, 0] / margin.values[1, 0]
    )
    fit = LogLinearModel(margin, "[A][B]").fit()
    fitted = fit.fittedvalues.to_numpy().reshape(2, 3)
    want = (margin.values - fitted) / np.sqrt(fitted + margin.sd**2)
    np.testing.assert_allclose(plots.shading(margin)[1], want)
    np.testing.assert_allclose(plots.shading(fit)[1], want)
    with pytest.raises(ModelError, match=r"the joint table of A, B, C was not: .*'A', 'B'\)"):
        drawn(release)


def test_crowded_labels_are_turned():
    values = np.ones((9, 2, 2))
    values[:, :, 1] = 0.02  # narrow columns
    turned = {text.get_text(): text.get_rotation() for text in drawn(released(100 * values)).texts}
    assert turned["c0"] == turned["c1"] == 90
    assert turned["a0"] == turned["b0"] == 0


def test_the_svg_is_the_same_each_time_and_names_nothing_outside():
    release = released([[5, 9, -1], [8, 2, 0]])
    first, second = (plots.svg(drawn(release).figure, "x", "one") for _ in range(2))
    assert first == second
    assert 'role="img"' in first
    assert not re.search(r"http|<metadata|<!DOCTYPE|xmlns|20\d\d-\d\d", first)
    ids = re.findall(r'\bid="([^"]*)"', first)
    assert len(ids) == len(set(ids))
    assert all(name.startswith("one-") for name in ids)
    used = re.findall(r"(?:url\(#|href=\"#)([^)\"]*)", first)
    assert set(used) <= set(ids)
    assert plots.INK not in first
    assert "currentColor" in first


def test_the_callers_settings_do_not_change_the_svg():
    release = released([[5, 9], [8, 2]])
    plain = plots.svg(drawn(release).figure, "x", "p")
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "other"}):
        assert plots.svg(drawn(release).figure, "x", "p") == plain


def test_the_release_is_not_changed():
    release = replace(released([[5, -9], [8, 2]]))
    before = release.noisy.copy()
    drawn(release)
    assert (release.noisy == before).all()


# ------------------------------------------------------------------ power curves


TWO = Domain({"A": ["a", "b"], "B": ["u", "v"]})


def test_a_power_curve_draws_the_frame():
    frame = power_curve(TWO, two_by_two(1.5), [2000, 500], [0.4, 0.05, 0.1, np.inf])
    ax = plots.power_curve(frame, ax=Figure().add_subplot(), wanted=0.9)
    lines = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
    assert list(lines) == ["500", "2,000"]
    for n, line in zip((500, 2000), lines.values(), strict=True):
        rows = frame[(frame["n"] == n) & np.isfinite(frame["mu"])].sort_values("mu")
        assert line.get_xdata() == pytest.approx(rows["mu"])
        assert line.get_ydata() == pytest.approx(rows["power"])
    level = [line.get_ydata()[0] for line in ax.lines if line.get_label().startswith("_")]
    most = frame.loc[np.isinf(frame["mu"]), "power"]
    assert sorted(level) == pytest.approx(sorted([*most, 0.9]))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("privacy loss mu", "power")
    looks = {(line.get_color(), line.get_linestyle()) for line in lines.values()}
    assert len(looks) == 2


def test_a_power_curve_makes_its_own_figure():
    ax = plots.power_curve(power_curve(TWO, two_by_two(1.5), 500, [0.1, 1]))
    assert ax.get_ylim() == (0, 1.02)
    plt.close(ax.figure)


def test_a_single_loss_is_a_point():
    for losses, marker in (([0.1], "o"), ([0.1, np.inf], "o"), ([0.1, 0.2], "")):
        frame = power_curve(TWO, two_by_two(1.5), 500, losses)
        ax = plots.power_curve(frame, ax=Figure().add_subplot())
        assert ax.lines[0].get_marker() == marker
        assert ax.get_legend().get_lines()[0].get_marker() == marker


def test_what_is_no_power_curve_is_refused():
    frame = power_curve(TWO, two_by_two(1.5), 500, [0.1, np.inf])
    with pytest.raises(ModelError, match="missing: power"):
        plots.power_curve(frame.drop(columns="power"))
    with pytest.raises(ModelError, match="a finite mu"):
        plots.power_curve(frame[1:])
