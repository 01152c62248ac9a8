"""Tests of tables whose two factors have the same levels: symmetry and marginal homogeneity."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpcontingency.errors import ModelError
from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.hypothesis import table_or_margins
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.nested import faint_margins, nested_test, privacy_note
from dpcontingency.inference.pvalues import (
    DEFAULT_BOOT,
    How,
    PValue,
    Random,
    Statistic,
    chi_square_tail,
)
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.statistic import Hypothesis
from dpcontingency.inference.terms import quoted
from dpcontingency.inference.testresult import TestResult

Array = npt.NDArray[np.float64]


def symmetry_test(
    release: AnyRelease,
    row: str,
    column: str,
    *,
    statistic: Statistic = "score",
    pvalue: PValue = "auto",
    n_boot: int = DEFAULT_BOOT,
    rng: Random = None,
) -> TestResult:
    """Test that a square table is symmetric: cells (i, j) and (j, i) have one probability.

    Parameters
    ----------
    release : Release or MarginRelease
        The noisy table; the test works on its margin over the two factors.
    row, column : str
        Two factors with the same levels in the same order.
    statistic : {"score", "lr", "wald"}
        The default is, with no noise, McNemar's statistic of a 2 x 2 and Bowker's of a larger
        table, without correction for continuity.
    pvalue, n_boot, rng
        As in `independence_test`.

    Returns
    -------
    TestResult
        The null is the model ``Symm(row, column)``.

    Raises
    ------
    ModelError
        If the factors have different levels.

    Examples
    --------
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"Before": ["a", "b", "c"], "After": ["a", "b", "c"]})
    >>> counts = [[31, 9, 4], [5, 22, 11], [8, 6, 27]]
    >>> symmetry_test(Release.exact(counts, domain), "Before", "After")
    <symmetry test of Before and After interchangeable: score chi2 = 3.947, df = 3, ...>
    """
    how = How(statistic, pvalue, n_boot, rng)
    margin = _square(release, row, column)
    call = f"dpc.symmetry_test(release, {row!r}, {column!r})"
    if margin.strata:
        raise ModelError(
            "Symmetry has no meaning where a margin of the two factors is fixed by design; use a "
            "release without these strata."
        )
    return nested_test(
        Hypothesis(
            name="symmetry test",
            null=f"{row} and {column} interchangeable",
            call=call if statistic != "lr" else call.removesuffix(")") + ", statistic='lr')",
            model=LogLinearModel(
                margin, [], special_terms=[f"Symm({quoted(row)}, {quoted(column)})"]
            ),
        ),
        how,
    )


def marginal_homogeneity_test(
    release: AnyRelease,
    row: str,
    column: str,
    *,
    statistic: Literal["score", "wald"] = "score",
) -> TestResult:
    """Test that two factors with the same levels have the same distribution.

    Parameters
    ----------
    release : Release or MarginRelease
        The noisy table; the test works on its margin over the two factors.
    row, column : str
        Two factors with the same levels in the same order.
    statistic : {"score", "wald"}
        The difference of the two margins in the metric of its covariance under the null, or of
        its own: with no noise the statistics of Stuart (1955) and Maxwell (1970), and of Bhapkar
        (1966).

    Returns
    -------
    TestResult
        With an asymptotic p-value: the hypothesis is none about log-linear parameters, so there
        is no null model to draw a bootstrap from.

    Raises
    ------
    ModelError
        If the factors have different levels, or another statistic is asked for.

    Notes
    -----
    The released margins differ by d = A y, A the differences of row and column sums. Given the
    cell means mu and noise of variances v, its covariance is A (D_mu + D_v) A' less, for
    "wald", d d' / n where n is public (METHODS 2.3; A v is 0 where noise is alike, so totals
    that are known take nothing off the noise). mu is the saturated maximum-likelihood fit, the
    counts themselves without noise. Levels whose two margins are known to be 0 drop out.

    Examples
    --------
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"Before": ["a", "b", "c"], "After": ["a", "b", "c"]})
    >>> counts = [[31, 9, 4], [5, 22, 11], [8, 6, 27]]
    >>> marginal_homogeneity_test(Release.exact(counts, domain), "Before", "After")
    <marginal homogeneity test of Before distributed as After: score chi2 = 0.04262, df = 2, ...>
    """
    if statistic not in ("score", "wald"):
        raise ModelError(
            "Marginal homogeneity is tested by 'score' (Stuart and Maxwell) or 'wald' (Bhapkar); "
            f"got {statistic!r}. The likelihood ratio of symmetry against quasi-symmetry, by "
            "compare, is the test among log-linear models."
        )
    margin = _square(release, row, column)
    given = margin.conditioned()
    if given.strata:
        raise ModelError(
            "Marginal homogeneity has no meaning where a margin of the two factors is fixed by "
            "design; use a release without these strata."
        )
    fit = LogLinearModel(margin, [(row, column)]).fit(warn_convergence=False)
    result = TestResult(
        name="marginal homogeneity test",
        null=f"{row} distributed as {column}",
        statistic=math.nan,
        df=0,
        pvalue=math.nan,
        log_pvalue=math.nan,
        method={"score": "score", "wald": "Wald"}[statistic],
        accounts_for=("sampling",) if margin.noise.is_exact else ("sampling", "noise"),
        notes=(*faint_margins(margin), *privacy_note(margin)),
        call=f"dpc.marginal_homogeneity_test(release, {row!r}, {column!r}"
        + ("" if statistic == "score" else f", statistic={statistic!r}")
        + ")",
    )
    if not fit.converged:
        return replace(result, reason=f"the saturated fit did not converge: {fit.reason}")
    if given.totals is not None and not np.any(given.totals):
        return replace(result, reason="there are no records")
    difference, covariance = _difference_of_margins(given, fit, centred=statistic == "wald")
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-10 * max(values.max(initial=0.0), 1e-300)
    df = int(kept.sum())
    if df == 0:
        return replace(
            result, reason="no record is known to be off the diagonal, so the margins are the same"
        )
    along = vectors[:, kept].T @ difference
    value = float(np.sum(along**2 / values[kept]))
    tail = chi_square_tail(value, df)
    return replace(
        result,
        statistic=value,
        df=df,
        pvalue=tail.pvalue,
        log_pvalue=tail.log_pvalue,
        null_fit=None,
    )


def _difference_of_margins(
    given: AnyRelease, fit: LogLinearResults, *, centred: bool
) -> tuple[Array, Array]:
    """Row sums less column sums, and their covariance, shape (k,) and (k, k)."""
    k = given.domain.shape[0]
    cells = fit.model.cells
    noisy = cells.noisy.reshape(k, k)
    means = noisy if cells.is_exact else np.reshape(fit.fittedvalues.to_numpy(), (k, k))
    rows, columns = np.indices((k, k)).reshape(2, -1)
    contrast = np.subtract(
        rows == np.arange(k)[:, None], columns == np.arange(k)[:, None], dtype=float
    )
    difference = contrast @ noisy.ravel()
    noise = cells.law(means.ravel()).noise()
    covariance = contrast @ (np.diag(means.ravel()) + noise) @ contrast.T
    if centred and given.totals is not None:
        covariance = covariance - np.outer(difference, difference) / given.n_total
    return difference, covariance


def _square(release: Any, row: str, column: str) -> AnyRelease:
    table = table_or_margins(release)
    if row == column:
        raise ModelError(f"Two factors are needed; got {row!r} twice.")
    margin = table.margin(row, column)
    levels = margin.domain.levels
    if levels[row] != levels[column]:
        raise ModelError(
            f"{row} and {column} have different levels, or in another order; a square table has "
            "the same for both. Declare them alike in the domain."
        )
    return margin
