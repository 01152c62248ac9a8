"""Curves of the loss by structure."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.publish_margins import simulate_margins
from dpcontingency.release.release import Release
from dpcontingency.report import plots

DOMAIN = Domain({"A": [0, 1], "B": [0, 1]})
COUNTS = np.array([[30, 20], [10, 40]])


def drawn(source):
    return plots.trade_off(source, ax=Figure().add_subplot())


def lines(ax):
    return {line.get_gid(): line for line in ax.lines}


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 4.0, 30.0])
def test_the_curve_is_that_of_two_normal_laws(mu):
    ax = drawn(GDP(mu))
    alpha, beta = lines(ax)["curve"].get_data()
    # The best test of N(0, 1) against N(mu, 1) rejects above a point t.
    t = stats.norm.isf(alpha)
    assert beta == pytest.approx(stats.norm.cdf(t, mu), abs=1e-9)
    assert (alpha[0], beta[0]) == pytest.approx((0, 1))
    assert (alpha[-1], beta[-1]) == pytest.approx((1, 0))
    assert np.hypot(np.diff(alpha), np.diff(beta)).max() < 0.1  # no corner is cut


def test_the_mark_stands_at_5_percent_and_its_words_are_rounded_down():
    for mu in (0.1, 1.0, 4.0):
        ax = drawn(GDP(mu))
        beta = stats.norm.cdf(stats.norm.isf(0.05) - mu)
        x, y = lines(ax)["at-5-percent"].get_data()
        assert (x[0], y[0]) == pytest.approx((0.05, beta))
        said = float(legend(ax)[2].split("at least ")[1].removesuffix(" %"))
        assert 0 <= 100 * beta - said < 0.01


def test_the_line_of_no_information():
    x, y = lines(drawn(GDP(1)))["nothing"].get_data()
    assert np.asarray(x) + np.asarray(y) == pytest.approx([1, 1])
    assert lines(drawn(GDP(1)))["nothing"].get_linestyle() != "-"


def test_releases_state_their_loss():
    rng = np.random.default_rng(1)
    for release in (
        simulate_release(COUNTS, DOMAIN, GDP(0.7), rng),
        simulate_margins(COUNTS, DOMAIN, [("A",), ("B",)], GDP(0.7), rng),
    ):
        ax = drawn(release)
        assert legend(ax)[0] == "best attack at mu = 0.7"
        assert ax.get_title() == "NOT PRIVATE: simulated"
        assert lines(ax)["curve"].get_ydata() == pytest.approx(
            lines(drawn(GDP(0.7)))["curve"].get_ydata()
        )
    stated = Release.from_noisy_table(COUNTS, DOMAIN, sigma=2.0, neighbours="add-remove")
    assert legend(drawn(stated))[0] == "best attack at mu = 0.5"
    assert drawn(stated).get_title() == ""


def test_what_states_no_loss_is_refused():
    for release in (
        Release.exact(COUNTS, DOMAIN),
        Release.from_noisy_table(COUNTS, DOMAIN, sigma=2.0),
    ):
        with pytest.raises(ModelError, match="states no privacy loss"):
            plots.trade_off(release)
    with pytest.raises(ModelError, match=r"of a GDP or of a release; got float\. Other currencies"):
        plots.trade_off(1.0)


def test_it_says_what_it_shows():
    said = drawn(GDP(1)).get_label()
    assert said.startswith("Trade-off curve at mu = 1.")
    assert "type I error of 5 % has a type II error of at least 74.04 %" in said
