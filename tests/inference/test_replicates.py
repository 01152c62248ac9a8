"""Fits of many tables at once equal fits one by one."""

import numpy as np
import pytest

from dpcontingency.domain import Domain
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.replicates import Replicates
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release

B = 8
SCHEMES = {
    "total": {},
    "strata": {"strata": ("C",)},
    "nothing public": {"neighbours": "add-remove"},
}


def releases(scheme, mu, n):
    rng = np.random.default_rng(7)
    domain = Domain({"A": ["a", "b", "c"], "B": ["u", "v"], "C": ["x", "y"]})
    rates = n / 12 * rng.uniform(0.4, 1.6, (3, 2, 2))
    strata = rng.poisson(rates).sum(axis=(0, 1))
    tables = []
    for _ in range(B):
        counts = np.empty((3, 2, 2), dtype=int)
        for k in range(2):  # the same totals in every table
            p = rates[:, :, k] / rates[:, :, k].sum()
            counts[:, :, k] = rng.multinomial(strata[k], p.ravel()).reshape(3, 2)
        tables.append(simulate_release(counts, domain, GDP(mu), rng, **SCHEMES[scheme]))
    return tables


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("mu", "n"), [(0.5, 400), (0.1, 150), (3.0, 60)])
@pytest.mark.parametrize("generators", ["[A][B][C]", "[AC][BC]", "[AB][AC][BC]"])
def test_many_fits_are_the_fits_of_each(scheme, mu, n, generators):
    models = [LogLinearModel(release, generators) for release in releases(scheme, mu, n)]
    first = models[0]
    cells = first.cells
    tables = Replicates(
        np.stack([model.cells.noisy for model in models]),
        cells.variances,
        cells.strata,
        cells.totals,
    )
    start = np.zeros(first._design.n_columns)
    if cells.totals is None:
        start[0] = np.log(n / 12)
    fits = tables.fit(first._design, np.zeros(12), start)
    tops = tables.saturated()
    assert fits.converged.all()
    for b, model in enumerate(models):
        alone = model.fit(warn_convergence=False)
        assert tops.loglik[b] == pytest.approx(model.saturated_loglike, abs=1e-7)
        if alone.llf > fits.loglik[b] + 1e-6 or alone.llf < fits.loglik[b] - 1e-6:
            # Two maxima: only where noise has eaten a margin.
            assert not alone.existence.exists
            continue
        assert fits.fitted[b] == pytest.approx(alone.fittedvalues.to_numpy(), rel=1e-2, abs=1e-2)


def test_two_maxima_are_rare():
    models = [LogLinearModel(release, "[AC][BC]") for release in releases("total", 0.1, 150)]
    cells = models[0].cells
    tables = Replicates(
        np.stack([model.cells.noisy for model in models]),
        cells.variances,
        cells.strata,
        cells.totals,
    )
    design = models[0]._design
    fits = tables.fit(design, np.zeros(12), np.zeros(design.n_columns))
    alone = np.array([model.fit(warn_convergence=False).llf for model in models])
    assert (np.abs(fits.loglik - alone) < 1e-6).mean() > 0.8


def test_a_model_without_parameters_is_its_offset():
    (release, *_), p = releases("total", 1.0, 400), np.arange(1, 13) / 78
    cells = LogLinearModel(release, "[A]", left_out="uniform").cells
    tables = Replicates(cells.noisy[None], cells.variances, cells.strata, cells.totals)
    fits = tables.fit(LogLinearModel(release, [])._design, np.log(p), np.empty(0))
    assert fits.loglik[0] == pytest.approx(cells.at(np.log(p)).loglik, abs=1e-9)
    assert fits.fitted[0] == pytest.approx(release.n_total * p)
