"""Interactions as independent measurements: exact coordinates, exact noise, and mbi's own types."""

import sys
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpcontingency.domain import Domain
from dpcontingency.errors import ObservedDomainWarning, ReleaseError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.measurements import HelmertQuery, measurements, to_mbi
from dpcontingency.release.publish_margins import (
    release_margins,
    simulate_margins,
    simulate_plan,
)
from dpcontingency.release.workload import plan_margins
from dpcontingency.table import ContingencyTable

DOMAIN = Domain({"A": [0, 1], "B": [0, 1, 2], "C": [0, 1, 2, 3]})
MARGINS = [("A", "B", "C")]
COUNTS = np.arange(24).reshape(DOMAIN.shape)


class Table:
    """What a query is given: the table of a clique."""

    def __init__(self, values):
        self.values = values

    def datavector(self):
        return self.values.ravel()


@pytest.mark.parametrize("shape", [(), (2,), (4,), (2, 3), (3, 2, 4)], ids=str)
def test_coordinates_are_orthonormal(shape):
    size = int(np.prod(shape))
    query = HelmertQuery(shape)
    rows = np.array([query(Table(row)) for row in np.eye(size)]).T
    assert rows.shape == (int(np.prod([n - 1 for n in shape])), size)
    np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)
    for axis in range(len(shape)):  # nothing that is constant along an axis is seen
        flat = np.broadcast_to(
            np.random.default_rng(1).normal(
                size=[1 if k == axis else n for k, n in enumerate(shape)]
            ),
            shape,
        )
        np.testing.assert_allclose(query(Table(flat)), 0, atol=1e-12)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_measurements_of_precise_margins_are_those_of_the_counts(neighbours):
    rng = np.random.default_rng(1)
    release = simulate_margins(COUNTS, DOMAIN, MARGINS, GDP(1e6), rng, neighbours=neighbours)
    found = measurements(release)
    assert [one.clique for one in found] == list(release.contrasts)
    for one in found:
        others = tuple(k for k, name in enumerate(DOMAIN.names) if name not in one.clique)
        expected = one.query(Table(COUNTS.sum(axis=others)))
        np.testing.assert_allclose(one.values, expected, atol=1e-3)
        assert one.stddev == release.plan.cell_scales[one.clique]


def test_their_noise_is_independent():
    plan, rng = plan_margins(DOMAIN, MARGINS, GDP(0.5)), np.random.default_rng(2)
    white = []
    for _ in range(400):
        found = measurements(simulate_plan(0 * COUNTS, plan, rng))
        white.append(np.concatenate([one.values / one.stddev for one in found]))
    covariance = np.cov(np.array(white).T)
    np.testing.assert_allclose(covariance, np.eye(23), atol=0.25)
    assert np.diag(covariance).mean() == pytest.approx(1, abs=0.05)


def test_mbi_gets_its_own_type(monkeypatch):
    release = simulate_margins(COUNTS, DOMAIN, MARGINS, GDP(1), np.random.default_rng(1))
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(ReleaseError, match="needs the package mbi"):
        to_mbi(release)

    @dataclass
    class LinearMeasurement:  # the fields of mbi's, in its order
        noisy_measurement: Any
        clique: Any
        stddev: float
        query: Any

    stand_in = types.ModuleType("mbi")
    stand_in.LinearMeasurement = LinearMeasurement
    monkeypatch.setitem(sys.modules, "mbi", stand_in)
    for one, own in zip(to_mbi(release), measurements(release), strict=True):
        assert (one.noisy_measurement == own.values).all()
        assert (one.clique, one.stddev) == (own.clique, own.stddev)
        assert one.query.shape == own.query.shape


def test_what_is_not_private_says_so(monkeypatch):
    stand_in = types.ModuleType("mbi")
    stand_in.LinearMeasurement = lambda *fields: fields
    monkeypatch.setitem(sys.modules, "mbi", stand_in)
    observed = Domain.from_dict({**Domain({"A": [0, 1]}).to_dict(), "observed": True})
    counts = ContingencyTable([5, 7], observed)
    release = release_margins(counts, ["A"], GDP(1))
    with pytest.warns(ObservedDomainWarning, match="not private"):
        to_mbi(release)
    assert not any(one.private for one in measurements(release))
    public = release_margins(ContingencyTable([5, 7], Domain({"A": [0, 1]})), ["A"], GDP(1))
    assert all(one.private for one in measurements(public))
    assert len(to_mbi(public)) == 1  # and no warning, which would be an error here
