"""Noise against signal by structure: which margins are drawn, and where their marks stand."""

import io
from itertools import pairwise

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from dpcontingency.domain import Domain
from dpcontingency.errors import DomainError, ModelError, PrivacyError
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.publish_margins import simulate_margins
from dpcontingency.release.release import Release
from dpcontingency.release.workload import plan_margins
from dpcontingency.report import plots

COUNTS = np.array([[[90, 12], [40, 7], [66, 3]], [[31, 55], [8, 24], [2, 71]]])
DOMAIN = Domain({"A": [0, 1], "B": list("uvw"), "C": ["x", "y"]})


def axes():
    return Figure().add_subplot()


def lines(ax):
    return {line.get_gid(): line for line in ax.lines}


def labels(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def at(ax, name):
    return float(lines(ax)[name].get_xdata()[0])


def simulated(**options):
    return simulate_release(COUNTS, DOMAIN, GDP(0.5), np.random.default_rng(1), **options)


@pytest.mark.parametrize("high", [20, 190, 1500, 2500, 40_000, 10**7, 10**9])
def test_numbers_on_the_axis_do_not_touch(high):
    release = Release.from_noisy_table([10.0, high], Domain({"A": ["a", "b"]}), sigma=5.0)
    ax = plots.noise_versus_signal(release)
    ax.figure.savefig(io.BytesIO(), dpi=ax.figure.dpi)
    renderer = ax.figure.canvas.get_renderer()
    left, right = ax.get_xlim()
    ticks = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    shown = [t.get_window_extent(renderer) for x, t in ticks if left <= x <= right]
    assert len(shown) >= 2
    assert all(one.x1 + 3 < other.x0 for one, other in pairwise(shown))
    plt.close(ax.figure)


def test_marks_stand_at_the_noise_the_median_and_the_sampling_error():
    release = simulated()
    ax = plots.noise_versus_signal(release, ax=axes())
    assert labels(ax) == ["A", "B", "C", "A, B", "A, C", "B, C", "A, B, C"]
    for k, text in enumerate(labels(ax)):
        margin = release.margin(*text.split(", "))
        median = np.median(margin.noisy)
        assert at(ax, f"noise-{k}") == pytest.approx(margin.noise_sd.flat[0])
        assert at(ax, f"median-{k}") == pytest.approx(median)
        share = median / release.n_total
        assert at(ax, f"sampling-{k}") == pytest.approx(np.sqrt(median * (1 - share)))
        low, high = lines(ax)[f"cells-{k}"].get_xdata()
        assert high == margin.noisy.max()
        assert low == pytest.approx(max(margin.noisy.min(), ax.get_xlim()[0]))
        buried = int((margin.noisy < 2 * margin.noise_sd).sum())
        texts = [t.get_text() for t in ax.texts if t.get_position()[1] == k]
        assert texts == [f"{buried} of {margin.domain.size} cells"]


def test_without_a_public_total_the_sampling_error_is_that_of_a_poisson_count():
    release = Release.from_noisy_table(COUNTS, DOMAIN, sigma=2.0)
    ax = plots.noise_versus_signal(release, ax=axes(), margins=["A"])
    assert at(ax, "sampling-0") ** 2 == pytest.approx(COUNTS.sum() / 2)


def test_public_strata_vary_no_more():
    release = simulated(strata=("A",))
    ax = plots.noise_versus_signal(release, ax=axes(), margins=[("A",), ("A", "B"), "B"])
    assert "sampling-0" not in lines(ax)
    assert "noise-0" not in lines(ax)
    assert "no noise" in [text.get_text() for text in ax.texts]
    median = np.median(release.margin("A", "B").noisy)
    part = release.n_total / 2  # an average stratum
    assert at(ax, "sampling-1") == pytest.approx(np.sqrt(median * (1 - median / part)))


def test_a_margin_that_the_noise_has_eaten_stands_out():
    release = Release.from_noisy_table(COUNTS, DOMAIN, sigma=30.0)
    ax = plots.noise_versus_signal(release, ax=axes())
    eaten = {
        f"eaten-{k}" for k, text in enumerate(labels(ax))
        for margin in [release.margin(*text.split(", "))]
        if np.median(margin.noisy) < margin.noise_sd.flat[0]
    }  # fmt: skip
    assert eaten == {"eaten-6"}
    assert {gid for gid in lines(ax) if gid and gid.startswith("eaten")} == eaten
    low, high = lines(ax)["eaten-6"].get_xdata()
    assert (low, high) == pytest.approx((np.median(COUNTS), 30.0))
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "noise above the median cell" in legend


def test_cells_of_no_size_are_beyond_the_left_end():
    values = COUNTS - 15.0
    ax = plots.noise_versus_signal(Release.from_noisy_table(values, DOMAIN, sigma=3.0), ax=axes())
    arrow = lines(ax)["below-6"]
    assert arrow.get_marker() == "<"
    assert arrow.get_xdata() == pytest.approx([ax.get_xlim()[0]])
    assert "below-0" not in lines(ax)


def test_without_noise_there_is_nothing_to_mark():
    ax = plots.noise_versus_signal(Release.exact(COUNTS, DOMAIN), ax=axes())
    assert not [gid for gid in lines(ax) if gid.startswith("noise")]
    assert {text.get_text() for text in ax.texts} == {"no noise"}


def test_of_a_release_of_margins_what_was_released_and_its_parts_are_drawn():
    rng = np.random.default_rng(3)
    release = simulate_margins(COUNTS, DOMAIN, [("A", "B"), ("C",)], GDP(0.3), rng)
    ax = plots.noise_versus_signal(release, ax=axes())
    assert labels(ax) == ["A", "B", "C", "A, B"]
    for k, text in enumerate(labels(ax)):
        margin = release.margin(*text.split(", "))
        assert at(ax, f"noise-{k}") == pytest.approx(margin.sd)
        assert at(ax, f"median-{k}") == pytest.approx(np.median(margin.values))
    with pytest.raises(PrivacyError, match="lies in none of the margins"):
        plots.noise_versus_signal(release, ax=axes(), margins=[("A", "C")])


def test_many_factors_are_drawn_as_far_as_they_fit():
    domain = Domain({f"F{k}": [0, 1] for k in range(8)})
    release = Release.from_noisy_table(np.full(domain.shape, 5.0), domain, sigma=1.0)
    ax = plots.noise_versus_signal(release, ax=axes())
    assert len(labels(ax)) == 8 + 28 + 1
    assert labels(ax)[-1].replace("\n", " ").count("F") == 8
    assert f"{2**8 - 1 - 37} more margins can be drawn by margins=." in ax.get_xlabel()
    names = tuple(f"F{k}" for k in range(60))
    wide = Domain({name: [0, 1] for name in names})
    plan = plan_margins(wide, [(name,) for name in names], GDP(1.0))
    many = MarginRelease(plan, {a: [10.0] for a in plan.cell_scales}, 50, "simulated", {})
    ax = plots.noise_versus_signal(many, ax=axes())
    assert len(labels(ax)) == 40
    assert "20 more margins" in ax.get_xlabel()


@pytest.mark.parametrize("values", [[[0, 0], [0, 0]], [[-1.5, -0.2], [-3, -1]], [[4, 9]], [[3]]])
@pytest.mark.filterwarnings("ignore:No cell is below 0")  # with noise of 1e5
def test_odd_tables_are_drawn(values):
    values = np.asarray(values, dtype=float)
    domain = Domain({"A": list(range(values.shape[0])), "$B$": list(range(values.shape[1]))})
    for sigma in (0.0, 2.0, 1e5):
        release = Release.from_noisy_table(values, domain, sigma=sigma)
        ax = plots.noise_versus_signal(release, ax=axes())
        assert labels(ax) == ["A", "$B$", "A, $B$"]
        for line in ax.lines:
            assert np.isfinite(np.asarray(line.get_xdata(), dtype=float)).all()
    assert "nan" not in plots.svg(ax.figure).lower()
    one = Release.from_noisy_table([4.0, 0, -3], Domain({"A": list("abc")}), sigma=2.0)
    assert labels(plots.noise_versus_signal(one, ax=axes())) == ["A"]


def test_what_cannot_be_drawn_is_refused():
    release = simulated()
    with pytest.raises(ModelError, match="Name 1 to 64 margins to draw; got 0"):
        plots.noise_versus_signal(release, margins=[])
    with pytest.raises(DomainError, match="no factor 'Z'"):
        plots.noise_versus_signal(release, margins=["Z"])
    with pytest.raises(ModelError, match="takes a Release"):
        plots.noise_versus_signal(COUNTS)
    fit = LogLinearModel(release, "[A][B][C]").fit()
    assert labels(plots.noise_versus_signal(fit, ax=axes())) == [
        "A", "B", "C", "A, B", "A, C", "B, C", "A, B, C",
    ]  # fmt: skip
