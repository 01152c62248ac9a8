"""Forests by structure: where estimates, intervals and their sampling parts begin and end."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.release.release import Release
from dpcontingency.report import plots

RNG = np.random.default_rng(8)
VALUES = RNG.uniform(10, 80, (2, 3, 2))


def released(values=VALUES, sigma=5.0):
    values = np.asarray(values, dtype=float)
    levels = {"ABC"[k]: list(range(n)) for k, n in enumerate(values.shape)}
    return Release.from_noisy_table(values, Domain(levels), sigma=sigma)


def fitted(release=None, model="[A B][B C]", **options):
    release = released() if release is None else release
    return LogLinearModel(release, model).fit(warn_convergence=False, **options)


def axes():
    return Figure().add_subplot()


def lines(ax):
    return {line.get_gid(): line for line in ax.lines if line.get_gid()}


def ends(ax, name):
    return lines(ax)[name].get_xdata()


def labels(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def texts(ax):
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("alpha", [0.05, 0.4])
def test_bars_end_where_the_results_say(alpha):
    results = fitted()
    ax = plots.coefficients(results, ax=axes(), alpha=alpha)
    whole = results.conf_int(alpha).to_numpy()
    z = (whole[0, 1] - whole[0, 0]) / 2 / results.bse.iloc[0]
    assert labels(ax) == list(results.params.index)
    for k, estimate in enumerate(results.params):
        half = z * results.bse_sampling.iloc[k]
        assert ends(ax, f"estimate-{k}") == pytest.approx([estimate])
        assert ends(ax, f"total-{k}") == pytest.approx(whole[k])
        assert ends(ax, f"sampling-{k}") == pytest.approx([estimate - half, estimate + half])
        assert {*lines(ax)[f"total-{k}"].get_ydata()} == {k}
        thick, thin = (lines(ax)[f"{part}-{k}"].get_linewidth() for part in ("sampling", "total"))
        assert thick > 2 * thin
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first on top
    left, right = ax.get_xlim()
    assert left < whole.min()
    assert whole.max() < right


def test_without_noise_both_parts_are_the_same():
    release = Release.exact(np.rint(VALUES), released().domain)
    ax = plots.coefficients(fitted(release), ax=axes())
    assert ends(ax, "sampling-0") == pytest.approx(ends(ax, "total-0"))
    ax = plots.odds_ratios(fitted(release), ax=axes())
    assert ends(ax, "sampling-0") == pytest.approx(ends(ax, "total-0"))


def test_chosen_coefficients():
    results = fitted()
    names = list(results.params.index[[3, 1]])
    ax = plots.coefficients(results, ax=axes(), cols=names)
    assert labels(ax) == names
    assert ends(ax, "estimate-0") == pytest.approx([results.params.iloc[3]])
    assert ends(ax, "sampling-0")[1] - ends(ax, "sampling-0")[0] == pytest.approx(
        2 * 1.959964 * results.bse_sampling.iloc[3]
    )


def test_coefficients_at_infinity_are_named_and_marked():
    zero = Release.exact([[41, 190], [0, 377]], Domain({"A": [0, 1], "B": [0, 1]}))
    results = fitted(zero, "[A B]")
    ax = plots.coefficients(results, ax=axes())
    assert labels(ax) == list(results.params.index)
    for k, estimate in enumerate(results.params):
        if np.isfinite(estimate):
            assert f"estimate-{k}" in lines(ax)
            continue
        arrow = lines(ax)[f"infinite-{k}"]
        assert arrow.get_xdata() == [ax.get_xlim()[1 if estimate > 0 else 0]]
        assert arrow.get_marker() == (">" if estimate > 0 else "<")
        low, high = results.conf_int(method="profile").iloc[k]
        end = f"{low:.3f} to ∞" if estimate > 0 else f"−∞ to {high:.3f}"
        assert texts(ax)[k] == f"{'∞' if estimate > 0 else '−∞'} ({end})"
        assert list(np.sort(lines(ax)[f"total-{k}"].get_xdata())) == sorted(
            [low if estimate > 0 else high, arrow.get_xdata()[0]]
        )
    assert results.existence.reason in ax.get_label()


def test_what_cannot_be_told_has_a_cross():
    results = fitted(Release.exact([[0, 0], [4, 9]], Domain({"A": [0, 1], "B": [0, 1]})), "[A B]")
    open_ = np.flatnonzero(results.params.isna())
    assert open_.size
    ax = plots.coefficients(results, ax=axes())
    for k in open_:
        assert lines(ax)[f"open-{k}"].get_xdata() == [0.0]
        assert texts(ax)[k] == "not estimable"
        assert ends(ax, f"total-{k}") == pytest.approx(ax.get_xlim())
    assert "no estimate" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_odds_ratios_are_drawn_on_a_logarithmic_axis():
    results = fitted()
    frame = results.odds_ratios()
    for source in (results, frame):
        ax = plots.odds_ratios(source, ax=axes())
        assert ax.get_xscale() == "log"
        for k, row in enumerate(frame.itertuples()):
            assert ends(ax, f"estimate-{k}") == pytest.approx([row.odds_ratio])
            assert ends(ax, f"total-{k}") == pytest.approx([row.lower, row.upper])
            factor = np.exp(1.959964 * row.se_sampling)
            assert ends(ax, f"sampling-{k}") == pytest.approx(
                [row.odds_ratio / factor, row.odds_ratio * factor]
            )


def test_the_sampling_part_follows_the_level_of_the_frame():
    frame = fitted().odds_ratios(alpha=0.3)
    ax = plots.odds_ratios(frame, ax=axes())
    row = frame.iloc[0]
    assert ends(ax, "sampling-0")[1] == pytest.approx(
        row["odds_ratio"] * np.exp(1.036433 * row["se_sampling"])
    )


def test_a_frame_without_the_sampling_part_is_drawn_whole():
    ax = plots.odds_ratios(fitted().odds_ratios().drop(columns="se_sampling"), ax=axes())
    assert "total-0" in lines(ax)
    assert "sampling-0" not in lines(ax)


def test_an_infinite_odds_ratio_shows_its_finite_end():
    zero = Release.exact([[41, 190], [0, 377]], Domain({"A": [0, 1], "B": [0, 1]}))
    frame = fitted(zero, "[A B]").odds_ratios()
    ax = plots.odds_ratios(frame, ax=axes())
    left, right = ax.get_xlim()
    low = frame["lower"].iloc[0]
    assert left < low < right
    assert ends(ax, "total-0") == pytest.approx([low, right])
    assert ends(ax, "end-0") == pytest.approx([low])
    assert lines(ax)["infinite-0"].get_marker() == ">"
    # Turned round it is 0, with an upper end.
    turned = Release.exact([[0, 377], [41, 190]], zero.domain)
    ax = plots.odds_ratios(fitted(turned, "[A B]"), ax=axes())
    assert lines(ax)["infinite-0"].get_marker() == "<"
    assert ends(ax, "infinite-0") == pytest.approx([ax.get_xlim()[0]])
    assert ends(ax, "end-0") == pytest.approx([1 / low])


def test_a_vast_interval_is_cut_and_says_so():
    frame = pd.DataFrame(
        {"log_or": [0.5, 0.1, -0.3, 0.2], "se": [0.2, 0.2, 0.2, 40.0], "se_sampling": 0.1,
         "reason": ""}, index=list("abcd"),
    )  # fmt: skip
    frame["lower"], frame["upper"] = (
        np.exp(frame["log_or"] + s * 2 * frame["se"]) for s in (-1, 1)
    )
    ax = plots.odds_ratios(frame, ax=axes())
    left, right = ax.get_xlim()
    assert right < 100
    assert frame["upper"][:3].max() < right
    assert ends(ax, "total-3") == pytest.approx([left, right])
    assert [line.get_marker() for line in ax.lines if line.get_gid() == "goes-on-3"] == ["<", ">"]
    assert "goes on" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_names_are_opaque_text_and_cut_in_the_middle():
    levels = ["b" * 90 + "1", "b" * 90 + "2", "$x$"]
    release = Release.from_noisy_table(
        [[40, 30], [20, 50], [60, 10]], Domain({"$A_1$": levels, "日本": ["水", "火"]}), sigma=2.0
    )
    ax = plots.coefficients(fitted(release, [("$A_1$", "日本")]), ax=axes())
    assert any("$A_1$[T.$x$]" in label for label in labels(ax))
    assert len(set(labels(ax))) == len(labels(ax))
    assert max(len(line) for label in labels(ax) for line in label.split("\n")) <= 60
    assert not any(label.get_parse_math() for label in ax.get_yticklabels())
    assert "$A_1$[T.$x$]" in plots.svg(ax.figure)


def test_legends_name_what_is_drawn():
    ax = plots.coefficients(fitted(), ax=axes())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "sampling alone", "sampling and noise",
    ]  # fmt: skip


def test_what_cannot_be_drawn_is_refused():
    results = fitted(model="[A][B][C]")
    with pytest.raises(ModelError, match="forest of coefficients is of the results of a fit; got"):
        plots.coefficients(released())
    with pytest.raises(ModelError, match="or of what its odds_ratios"):
        plots.odds_ratios(pd.DataFrame({"a": [1]}))
    with pytest.raises(ModelError, match="no odds ratios to draw: the model associates no factors"):
        plots.odds_ratios(results)
    with pytest.raises(
        ModelError, match="up to 150 odds ratios and here are 160: choose some rows"
    ):
        plots.odds_ratios(pd.concat([fitted().odds_ratios()] * 40))
