"""What a chi-square test that takes a noisy table for counts would say, and how wrong it is.

For reports and teaching: a number to be warned by, never a result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from dpcontingency.inference.bootstrap import draw_tables
from dpcontingency.inference.hypothesis import product_of_margins
from dpcontingency.inference.statistic import means_to_draw_from
from dpcontingency.inference.testresult import TestResult

Array = npt.NDArray[np.float64]

TABLES = 2000
SEED = 20260101  # fixed, so that a report has the same bytes each time
FLOOR = 0.5  # where a user of such a test would raise negative cells to


class NoiseIgnored(NamedTuple):
    """Pearson's test on the noisy cells.

    Attributes
    ----------
    statistic, df, pvalue : float, int, float
        What it says.
    size : float
        How often it rejects at 5 % where the null holds, in simulated tables.
    n_tables : int
        How many tables were simulated.
    """

    statistic: float
    df: int
    pvalue: float
    size: float
    n_tables: int


def noise_ignored(result: TestResult) -> NoiseIgnored | None:
    """Pearson's test with the noise ignored, beside a test of independence or homogeneity.

    Parameters
    ----------
    result : TestResult
        A test that was done on a noisy release.

    Returns
    -------
    NoiseIgnored or None
        None for other tests, for released margins, and where there is no noise. Cells below 0.5
        are raised to it, as in what users do. Its size is found by drawing counts from the fitted
        null (as the bootstrap does) and noise from the law of the release: Monte-Carlo standard
        error 0.005 at 5 %.

    Examples
    --------
    >>> from dpcontingency import Domain, Release, independence_test
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    >>> release = Release.from_noisy_table(
    ...     [[91.5, 38.0, 62.1], [47.7, 55.2, 80.3]], domain, sigma=14.0, n_total=375
    ... )
    >>> naive = noise_ignored(independence_test(release, "A", "B"))
    >>> naive.pvalue < 0.001, naive.size > 0.3
    (True, True)
    """
    fit = result.null_fit
    if fit is None or fit.model.release.noise.is_exact or fit.model.offset is not None:
        return None
    generators = [set(margin) for margin in fit.generators]
    given = set.intersection(*generators) if generators else set()
    groups = [sorted(margin - given) for margin in generators]
    names = [name for group in groups for name in group]
    if len(groups) < 2 or len(names) != len(set(names)) or fit.special_terms:
        return None
    if fit.model.cells.of_margins:  # of released margins, whose cells have no noise of their own
        return None
    expected = product_of_margins(fit.model.release, groups, sorted(given))
    cells, shape = fit.model.cells, fit.model.release.domain.shape

    def pearson(noisy: Array) -> Array:
        tables = np.maximum(noisy, FLOOR).reshape(-1, *shape)
        under = expected(tables)
        return np.asarray(((tables - under) ** 2 / under).reshape(len(tables), -1).sum(axis=1))

    means = means_to_draw_from(fit.model, fit.fittedvalues.to_numpy())
    simulated = pearson(draw_tables(cells, means, TABLES, np.random.default_rng(SEED)))
    observed = float(pearson(cells.noisy)[0])
    return NoiseIgnored(
        observed,
        result.df,
        float(stats.chi2.sf(observed, result.df)),
        float(np.mean(simulated > stats.chi2.ppf(0.95, result.df))),
        TABLES,
    )
