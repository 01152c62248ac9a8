"""Fourfold displays by structure: areas are to each other as the odds ratio says."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.association import odds_ratio
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish_margins import simulate_margins
from dpcontingency.release.release import Release
from dpcontingency.report import plots
from dpcontingency.report.fourfold import radii


def released(values, sigma=3.0):
    values = np.asarray(values, dtype=float)
    levels = {"ABCD"[k]: list(range(n)) for k, n in enumerate(values.shape)}
    return Release.from_noisy_table(values, Domain(levels), sigma=sigma)


def drawn(release, row="A", column="B", given=(), **options):
    return plots.fourfold(release, row, column, given, ax=Figure().add_subplot(), **options)


def patches(ax):
    return {patch.get_gid(): patch for patch in ax.patches}


def quarters(ax, k=0):
    at = patches(ax)
    return np.array([[at[f"quarter-{k}-{i}-{j}"].r for j in range(2)] for i in range(2)])


def rings(ax, k=0):
    """The inner and outer radius of each ring."""
    at = patches(ax)
    out = {}
    for i, j in np.ndindex(2, 2):
        ring = at[f"ring-{k}-{i}-{j}"]
        out[i, j] = (ring.r - ring.width, ring.r)
    return out


@pytest.mark.parametrize("ratio", [1.0, 1.7, 0.2, 40.0, 0.01])
def test_the_radii_are_those_of_the_table_with_equal_margins(ratio):
    # Iterative proportional fitting to equal margins is what standardising means.
    table = np.array([[3.0 * ratio, 5.0], [7.0, 35.0 / 3.0]])  # of this odds ratio
    for _ in range(200):
        table /= 2 * table.sum(axis=0, keepdims=True)
        table /= 2 * table.sum(axis=1, keepdims=True)
    assert radii(np.log(ratio)) ** 2 == pytest.approx(2 * table)


def test_areas_multiply_to_the_odds_ratio():
    release = released([[90, 38], [47, 55]])
    area = quarters(drawn(release)) ** 2
    w = odds_ratio(release, "A", "B")
    assert area[0, 0] * area[1, 1] / (area[0, 1] * area[1, 0]) == pytest.approx(w.estimate)
    assert area[0, 0] == pytest.approx(area[1, 1])
    assert area.sum(axis=0) == pytest.approx([1, 1])
    assert area.sum(axis=1) == pytest.approx([1, 1])


def test_without_noise_it_is_the_odds_ratio_of_the_counts():
    domain = Domain({"A": [0, 1], "B": [0, 1]})
    area = quarters(drawn(Release.exact([[18, 32], [33, 17]], domain))) ** 2
    assert (area[0, 0] / area[0, 1]) ** 2 == pytest.approx(18 * 17 / (32 * 33))


def test_an_odds_ratio_of_1_makes_four_equal_quarters():
    release = Release.exact([[20, 40], [30, 60]], Domain({"A": [0, 1], "B": [0, 1]}))
    assert quarters(drawn(release)) == pytest.approx(np.full((2, 2), np.sqrt(0.5)))


def test_quarters_lie_in_their_quadrants():
    ax = drawn(released([[90, 38], [47, 55]]))
    for (i, j), (left, top) in {
        (0, 0): (1, 1),
        (0, 1): (0, 1),
        (1, 0): (1, 0),
        (1, 1): (0, 0),
    }.items():
        wedge = patches(ax)[f"quarter-0-{i}-{j}"]
        middle = np.deg2rad((wedge.theta1 + wedge.theta2) / 2)
        assert wedge.theta2 - wedge.theta1 == 90
        assert (np.cos(middle) < 0, np.sin(middle) > 0) == (bool(left), bool(top))
        ring = patches(ax)[f"ring-0-{i}-{j}"]
        assert (ring.theta1, ring.theta2, ring.center) == (wedge.theta1, wedge.theta2, wedge.center)


@pytest.mark.parametrize("values", [[[90, 38], [47, 55]], [[60, 50], [47, 55]], [[20, 60], [47, 9]],
                                    [[52, 50], [50, 52]], [[30, 22], [20, 31]]])  # fmt: skip
@pytest.mark.parametrize("sigma", [0.5, 8.0])
def test_rings_of_neighbours_overlap_exactly_if_the_interval_holds_1(values, sigma):
    release = released(values, sigma)
    lower, upper = odds_ratio(release, "A", "B").interval
    ring = rings(drawn(release))
    for one, other in (((0, 0), (0, 1)), ((0, 0), (1, 0)), ((1, 1), (0, 1)), ((1, 1), (1, 0))):
        touch = max(ring[one][0], ring[other][0]) <= min(ring[one][1], ring[other][1])
        assert touch == (lower <= 1 <= upper)


def test_rings_are_the_radii_at_the_ends_of_the_interval():
    release = released([[90, 38], [47, 55]], 8.0)
    for alpha in (0.05, 0.3):
        ends = [radii(np.log(e)) for e in odds_ratio(release, "A", "B", alpha=alpha).interval]
        for (i, j), (inner, outer) in rings(drawn(release, alpha=alpha)).items():
            assert sorted([ends[0][i, j], ends[1][i, j]]) == pytest.approx([inner, outer], rel=1e-5)


def test_noise_widens_the_rings():
    values = [[90, 38], [47, 55]]
    width = [np.diff(rings(drawn(released(values, s)))[0, 0])[0] for s in (0.1, 5.0, 20.0)]
    assert width[0] < width[1] < width[2]


def test_each_combination_of_given_levels_has_its_own_panel():
    rng = np.random.default_rng(1)
    release = released(rng.uniform(20, 90, (3, 2, 2, 2)))  # C and D are the table
    ax = drawn(release, "D", "C", ("A", "B"))
    frames = [p for p in ax.patches if isinstance(p, Rectangle)]
    assert len(frames) == 6
    titles = [text.get_text() for text in ax.texts if " = " in text.get_text()]
    assert titles == [f"A = {a}, B = {b}" for a in range(3) for b in range(2)]
    boxes = [frame.get_bbox() for frame in frames]
    for k, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:k])
    for k in range(6):
        a, b = divmod(k, 2)
        stratum = Release.from_noisy_table(
            release.noisy[a, b].T, Domain({"D": [0, 1], "C": [0, 1]}), sigma=3.0
        )
        alone = odds_ratio(stratum, "D", "C").estimate
        area = quarters(ax, k) ** 2
        assert (area[0, 0] / area[0, 1]) ** 2 == pytest.approx(alone, rel=1e-4)
        cells = {text.get_text() for text in ax.texts}
        assert {f"{value:,.1f}" for value in release.noisy[a, b].ravel()} <= cells


def test_shades_say_which_way_and_whether_the_interval_holds_1():
    clear, vague = drawn(released([[90, 20], [20, 90]])), drawn(released([[30, 28], [27, 30]]))
    for ax, more, less in ((clear, "#2166ac", "#b2182b"), (vague, "#92c5de", "#f4a582")):
        for i, j in np.ndindex(2, 2):
            quarter = patches(ax)[f"quarter-0-{i}-{j}"]
            assert to_hex(quarter.get_facecolor()) == (more if i == j else less)
            assert (quarter.get_linestyle() != "solid") == (i != j)


def test_an_infinite_odds_ratio_fills_the_diagonal():
    release = Release.exact([[41, 190], [0, 377]], Domain({"A": [0, 1], "B": [0, 1]}))
    ax = drawn(release)
    assert quarters(ax) == pytest.approx(np.eye(2))
    ring = rings(ax)
    assert ring[0, 0][1] == pytest.approx(1)
    assert 0 < ring[0, 0][0] < 1  # the finite end
    assert any("∞" in text.get_text() for text in ax.texts)


def test_what_cannot_be_told_has_a_frame_and_a_word():
    domain = Domain({"C": [0, 1], "A": [0, 1], "B": [0, 1]})
    release = Release.exact([[[0, 0], [4, 5]], [[30, 10], [8, 25]]], domain)
    ax = drawn(release, given="C")
    assert "quarter-0-0-0" not in patches(ax)
    assert "frame-0" in patches(ax)
    assert "quarter-1-0-0" in patches(ax)
    assert "no odds ratio" in [text.get_text() for text in ax.texts]
    assert "C = 0: cells above and below the line are at 0." in ax.get_label()


@pytest.mark.parametrize("values", [[[5, 0], [0, 0]], [[5, -1.2], [3, 7]], [[0, 0], [0, 0]],
                                    [[-1, -2], [-3, -1]], [[1e9, 3e8], [2e7, 4e9]]])  # fmt: skip
def test_odd_tables_are_drawn(values):
    text = plots.svg(drawn(released(values)).figure).lower()
    assert "nan" not in text
    assert "frame-0" in text


def test_a_release_of_margins_is_drawn():
    counts = np.arange(8).reshape(2, 2, 2) * 20 + 30
    domain = Domain({"A": [0, 1], "B": [0, 1], "C": [0, 1]})
    rng = np.random.default_rng(1)
    release = simulate_margins(counts, domain, [("A", "B"), ("C",)], GDP(1), rng)
    area = quarters(drawn(release)) ** 2
    y = release.margin("A", "B").values
    assert (area[0, 0] / area[0, 1]) ** 2 == pytest.approx(
        y[0, 0] * y[1, 1] / (y[0, 1] * y[1, 0]), rel=0.01
    )


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ModelError, match="factors of two levels, and 'B' has 3"):
        plots.fourfold(released(np.ones((2, 3))), "A", "B")
    with pytest.raises(ModelError, match="factors of two levels, and 'A' has 1"):
        plots.fourfold(released(np.ones((1, 2))), "A", "B")
    with pytest.raises(ModelError, match="up to 24 panels and C would make 30"):
        plots.fourfold(released(np.ones((2, 2, 30))), "A", "B", ("C",))
    with pytest.raises(ModelError, match="A fourfold display takes a Release"):
        plots.fourfold(np.ones((2, 2)), "A", "B")
