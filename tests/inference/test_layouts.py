"""Predicted standard errors of two layouts, against dense algebra and against fits."""

from itertools import combinations

import numpy as np
import pytest

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.layouts import joint_or_margins
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.publish_margins import simulate_margins
from dpcontingency.release.release import Release

DOMAIN = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": [1, 2]})
PAIRS = list(combinations("ABC", 2))
COUNTS = np.random.default_rng(5).integers(200, 2000, DOMAIN.shape)


@pytest.mark.parametrize("coding", ["treatment", "sum"])
def test_it_predicts_what_fits_then_say(coding):
    truth = LogLinearModel(Release.exact(COUNTS, DOMAIN), PAIRS, coding=coding).fit()
    frame = joint_or_margins(
        DOMAIN,
        PAIRS,
        GDP(0.1),
        n=int(COUNTS.sum()),
        probabilities=truth.fittedvalues.to_numpy().reshape(DOMAIN.shape),
        coding=coding,
    )
    np.testing.assert_allclose(frame["no_noise"], truth.bse, rtol=1e-6)
    rng = np.random.default_rng(1)
    joint = simulate_release(COUNTS, DOMAIN, GDP(0.1), rng)
    margins = simulate_margins(COUNTS, DOMAIN, PAIRS, GDP(0.1), rng)
    for name, release in (("joint", joint), ("margins", margins)):
        fit = LogLinearModel(release, PAIRS, coding=coding).fit()
        np.testing.assert_allclose(frame[name], fit.bse, rtol=0.15)
    assert (frame["ratio"] == frame["margins"] / frame["joint"]).all()


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_margins_win_where_there_are_many_factors_and_few_terms(neighbours):
    domain = Domain({name: [0, 1] for name in "ABCDEFGH"})
    mutual = joint_or_margins(domain, "[A][B][C][D][E][F][G][H]", GDP(0.1), neighbours=neighbours)
    assert (mutual["ratio"] < 0.75).all()
    saturated = joint_or_margins(
        DOMAIN, [("A", "B", "C")], GDP(0.1), n=10_000, neighbours=neighbours
    )
    assert saturated["ratio"].min() > 0.75  # nothing to gain
    assert (
        saturated["no_noise"].dropna() < saturated["joint"][saturated["no_noise"].notna()]
    ).all()


def test_misuse():
    with pytest.raises(ModelError, match="positive, 0 in structural zeros, and of the shape"):
        joint_or_margins(DOMAIN, PAIRS, GDP(1), probabilities=np.ones(3))
    with pytest.raises(ModelError, match="positive, 0 in structural zeros, and of the shape"):
        joint_or_margins(DOMAIN, PAIRS, GDP(1), probabilities=np.zeros(DOMAIN.shape))
    with pytest.raises(ModelError, match="above 0"):
        joint_or_margins(DOMAIN, PAIRS, GDP(1), n=0)
