"""Association plots by structure: bars whose heights, widths and areas are what they stand for."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from dpcontingency.domain import Domain
from dpcontingency.errors import DomainError, ModelError
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish_margins import release_margins, simulate_margins
from dpcontingency.release.release import Release
from dpcontingency.report import plots
from dpcontingency.tabulate import tabulate_margins

VALUES = np.array([[30.0, 10, 25], [5, 40, 12]])


def domain_of(shape, **options):
    return Domain({"ABCD"[k]: list(range(n)) for k, n in enumerate(shape)}, **options)


def released(values, sigma=3.0, **options):
    values = np.asarray(values, dtype=float)
    return Release.from_noisy_table(values, domain_of(values.shape, **options), sigma=sigma)


def drawn(source, row="A", column="B"):
    return plots.association(source, row, column, ax=Figure().add_subplot())


def bars(ax):
    return {patch.get_gid(): patch for patch in ax.patches}


def lines(ax):
    return {line.get_gid(): line for line in ax.lines}


def independent(values):
    return np.outer(values.sum(axis=1), values.sum(axis=0)) / values.sum()


def test_without_noise_it_is_the_plot_of_cohen_and_friendly():
    expected = independent(VALUES)
    ax = drawn(Release.exact(VALUES, domain_of(VALUES.shape)))
    for (i, j), e in np.ndenumerate(expected):
        bar = bars(ax)[f"cell-{i}-{j}"]
        assert bar.get_height() == pytest.approx((VALUES[i, j] - e) / np.sqrt(e))
        assert bar.get_width() == pytest.approx(np.sqrt(e))


def test_with_noise_areas_stay_the_differences_and_heights_are_in_its_deviations():
    release = released(VALUES, sigma=6.0)
    fit = LogLinearModel(release, "[A][B]").fit()
    residuals = fit.resid_pearson.to_numpy().reshape(VALUES.shape)
    differences = fit.resid_response.to_numpy().reshape(VALUES.shape)
    for name, bar in bars(drawn(release)).items():
        i, j = map(int, name.split("-")[1:])
        assert bar.get_height() == pytest.approx(residuals[i, j])
        assert bar.get_height() * bar.get_width() == pytest.approx(differences[i, j])


@pytest.mark.parametrize("seed", range(4))
def test_bars_stand_on_the_line_of_their_row_and_touch_no_other_bar(seed):
    rng = np.random.default_rng(seed)
    ax = drawn(released(rng.exponential(30, (4, 5))))
    base = [lines(ax)[f"line-{i}"].get_ydata()[0] for i in range(4)]
    assert sorted(base, reverse=True) == base  # the first level on top
    boxes = {}
    for name, bar in bars(ax).items():
        i, j = map(int, name.split("-")[1:])
        assert bar.get_y() == base[i]
        ends = sorted([bar.get_y(), bar.get_y() + bar.get_height()])
        boxes[i, j] = (bar.get_x(), bar.get_x() + bar.get_width(), *ends)
    for i in range(4):
        for j in range(5):
            x0, x1, y0, y1 = boxes[i, j]
            assert 0 <= x0 < x1 <= ax.get_xlim()[1]
            assert ax.get_ylim()[0] <= y0 <= y1 <= ax.get_ylim()[1]
            if j < 4:
                assert x1 < boxes[i, j + 1][0]
            if i < 3:
                assert y0 > max(boxes[i + 1, k][3] for k in range(5))


def test_shades_are_those_of_the_mosaic():
    release = released(VALUES, sigma=1.0)
    for bar in bars(drawn(release)).values():
        step = sum(bar.get_height() > edge for edge in (-4, -2, 2, 4))
        assert to_hex(bar.get_facecolor()) == plots.SHADES[step].colour
        assert (bar.get_linestyle() != "solid") == (bar.get_height() < -2)


def test_the_margin_over_the_two_factors_is_drawn():
    rng = np.random.default_rng(2)
    values = rng.uniform(1, 50, (2, 3, 2))
    release = released(values, sigma=2.0)
    for row, column in (("A", "B"), ("C", "A"), ("B", "C")):
        whole, margin = drawn(release, row, column), drawn(release.margin(row, column), row, column)
        assert [bar.get_bbox().bounds for bar in bars(whole).values()] == [
            bar.get_bbox().bounds for bar in bars(margin).values()
        ]
        turned = bars(drawn(release, column, row))
        for name, bar in bars(whole).items():
            i, j = name.split("-")[1:]
            assert turned[f"cell-{j}-{i}"].get_height() == pytest.approx(bar.get_height())


def test_of_a_fit_the_fitted_margin_is_compared():
    rng = np.random.default_rng(3)
    values = rng.uniform(10, 50, (2, 3, 2))
    release = released(values, sigma=2.0)
    fit = LogLinearModel(release, "[A C][B]").fit()
    fitted = fit.fittedvalues.to_numpy().reshape(2, 3, 2).sum(axis=0).T  # C, B
    noisy = values.sum(axis=0).T
    want = (noisy - fitted) / np.sqrt(fitted + 2 * 4.0)  # two cells of variance 4 in each
    for name, bar in bars(drawn(fit, "C", "B")).items():
        i, j = map(int, name.split("-")[1:])
        assert bar.get_height() == pytest.approx(want[i, j])
    # A model with the two factors in one margin has nothing left to explain, up to the noise.
    for bar in bars(drawn(LogLinearModel(release, "[A C][B C]").fit(), "B", "C")).values():
        assert abs(bar.get_height()) < 0.5


def test_a_release_of_margins_is_drawn():
    counts = np.arange(12).reshape(2, 3, 2) * 9 + 5
    rng = np.random.default_rng(4)
    release = simulate_margins(counts, domain_of(counts.shape), [("A", "B"), ("C",)], GDP(1), rng)
    margin = release.margin("A", "B")
    fit = LogLinearModel(margin, "[A][B]").fit()
    fitted = fit.fittedvalues.to_numpy().reshape(2, 3)
    for name, bar in bars(drawn(release)).items():
        i, j = map(int, name.split("-")[1:])
        want = (margin.values[i, j] - fitted[i, j]) / np.sqrt(fitted[i, j] + margin.sd**2)
        assert bar.get_height() == pytest.approx(want)


@pytest.mark.parametrize(
    "values",
    [
        [[5, 0], [0, 0]], [[5, -1.2], [3, 7]], [[4, 0, 3], [2, 0, 6]], [[4, 9, 7]],
        [[4], [9]], [[3]], np.arange(9).reshape(3, 3) - 2.5,
    ],
)  # fmt: skip
def test_odd_tables_are_drawn(values):
    values = np.asarray(values, dtype=float)
    ax = drawn(released(values))
    assert set(bars(ax)) == {f"cell-{i}-{j}" for i, j in np.ndindex(values.shape)}
    for bar in bars(ax).values():
        assert np.isfinite([*bar.get_xy(), bar.get_width(), bar.get_height()]).all()
    assert "nan" not in plots.svg(ax.figure).lower()


def test_a_table_to_which_nothing_can_be_fitted_has_lines_and_a_word():
    ax = drawn(released([[0, -1], [-2, 0]]))
    assert not ax.patches
    assert set(lines(ax)) == {"line-0", "line-1"}
    assert ax.get_legend().get_title().get_text() == "nothing can be fitted"


def test_impossible_cells_are_marked():
    ax = drawn(released([[0, 9, 3], [8, 2, 6]], structural_zeros=[{"A": 0, "B": 0}]))
    assert "cell-0-0" not in bars(ax)
    assert lines(ax)["cell-0-0"].get_marker() == "|"
    assert "impossible cell" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_what_cannot_be_drawn_is_refused():
    release = released(VALUES)
    with pytest.raises(ModelError, match="An association plot takes a Release or the results"):
        plots.association(VALUES, "A", "B")
    with pytest.raises(DomainError, match="There is no factor 'Z'"):
        plots.association(release, "A", "Z")
    with pytest.raises(DomainError, match="each factor once"):
        plots.association(release, "A", "A")
    with pytest.raises(ModelError, match="up to 900 cells"):
        plots.association(released(np.ones((31, 30))), "A", "B")


def test_it_says_what_it_shows():
    ax = drawn(released(VALUES, sigma=1.0))
    assert ax.get_label().startswith("Association plot of A and B. Heights are Pearson residuals")
    assert "of 6 cells; the largest is" in ax.get_label()


def test_of_a_fit_whose_joint_table_cannot_exist_the_margin_is_compared():
    names = [f"Q{i}" for i in range(30)]
    domain, chain = Domain({name: ["x", "y"] for name in names}), list(pairwise(names))
    answers = np.random.default_rng(4).choice(["x", "y"], (500, 30))
    counted = tabulate_margins(pd.DataFrame(answers, columns=names), domain, chain)
    release = release_margins(counted, chain, GDP(1))
    fit = LogLinearModel(release, [("Q0",), *chain[1:]]).fit()
    margin, fitted = release.margin("Q0", "Q1"), fit.fitted_margin("Q0", "Q1").to_numpy()
    want = (margin.values.ravel() - fitted) / np.sqrt(fitted + margin.sd**2)
    for name, bar in bars(drawn(fit, "Q0", "Q1")).items():
        i, j = map(int, name.split("-")[1:])
        assert bar.get_height() == pytest.approx(want[2 * i + j])
