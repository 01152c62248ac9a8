"""Tests of the terms of a release by their order: how many factors need to interact."""

from __future__ import annotations

import pandas as pd

from dpcontingency.inference.comparison import (
    Fitted,
    LikelihoodRatio,
    Saturated,
    failure,
    likelihood_ratio,
    term_tests,
)
from dpcontingency.inference.families import all_kway
from dpcontingency.inference.loglinear import LogLinearModel, check_release
from dpcontingency.inference.pvalues import DEFAULT_BOOT, How, PValue, Random
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.tables import (
    NOT_ADJUSTED,
    ModelTable,
    face_notes,
    infinity_notes,
    tail_notes,
    test_notes,
)
from dpcontingency.release.release import Release


def kway_tests(
    release: Release,
    *,
    pvalue: PValue = "auto",
    n_boot: int = DEFAULT_BOOT,
    rng: Random = None,
) -> ModelTable:
    """Test that all effects of order k and higher are zero, and that those of order k are.

    Parameters
    ----------
    release : Release
        The noisy table.
    pvalue, n_boot, rng
        As in `compare`.

    Returns
    -------
    ModelTable
        ``table`` has a row for each order k: ``lr``, ``df``, ``pvalue`` of the model of all
        terms of lower order against the saturated one, and ``lr_diff``, ``df_diff``,
        ``pvalue_diff`` of the same model against that of all terms of order k. Effects inside
        the strata are fixed by design and in every model.

    Notes
    -----
    Statistics and reference distributions are those of `compare`: they account for sampling and
    noise. The rows are tests of one hypothesis each and not adjusted for their number.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["yes", "no"], "C": ["yes", "no"], "M": ["yes", "no"]})
    >>> counts = [[[911, 538], [44, 456]], [[3, 43], [2, 279]]]
    >>> kway_tests(Release.exact(counts, domain)).table[["lr", "df", "lr_diff", "df_diff"]].round(3)
             lr  df   lr_diff  df_diff
    k
    1  2851.461   7  1565.441        3
    2  1286.020   4  1285.646        3
    3     0.374   1     0.374        1
    """
    how = How(pvalue=pvalue, n_boot=n_boot, rng=rng).seeded()
    check_release(release)
    orders = range(1, len(release.domain.names) + 1)
    fits = [_all_kway_fit(release, k - 1) for k in orders]
    top = Saturated.over(fits[0])
    rows, notes, tails = [], [*test_notes(fits[0], how), NOT_ADJUSTED], []
    next_ones: list[Fitted] = [*fits[1:], top]
    for k, fit, larger in zip(orders, fits, next_ones, strict=True):
        higher, this = (likelihood_ratio(fit, one, how) for one in (top, larger))
        rows.append((k, *_numbers(higher), *_numbers(this)))
        tails.append((f"Order {k} and higher", higher.tail))
        tails += [(f"Order {k}", this.tail)] if larger is not top else []
        notes += filter(None, [failure(fit, larger)])
    columns = ["k", "lr", "df", "pvalue", "lr_diff", "df_diff", "pvalue_diff"]
    table = pd.DataFrame(rows, columns=columns).set_index("k")
    title = "lr: all effects of order k and higher are zero; lr_diff: those of order k are zero"
    notes = [*dict.fromkeys(notes), *tail_notes(tails), *infinity_notes(fits), *face_notes(fits)]
    return ModelTable(title, table, tuple(notes), how.replicates)


def partial_association(
    release: Release,
    *,
    pvalue: PValue = "auto",
    n_boot: int = DEFAULT_BOOT,
    rng: Random = None,
) -> ModelTable:
    """Test each term in the model of all terms of its order.

    Parameters
    ----------
    release : Release
        The noisy table.
    pvalue, n_boot, rng
        As in `compare`.

    Returns
    -------
    ModelTable
        `drop1` of the models of all terms of order 1, 2, ..., one under the other; a term's test
        is partial because the others of its order stay in the model.

    Notes
    -----
    Statistics and reference distributions are those of `compare`: they account for sampling and
    noise. The rows are tests of one hypothesis each and not adjusted for their number.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["yes", "no"], "C": ["yes", "no"], "M": ["yes", "no"]})
    >>> counts = [[[911, 538], [44, 456]], [[3, 43], [2, 279]]]
    >>> tests = partial_association(Release.exact(counts, domain))
    >>> tests.table.loc[["[A C]", "[A M]", "[C M]"], ["lr", "df"]].round(2)
               lr  df
    term
    [A C]  187.38   1
    [A M]   91.64   1
    [C M]  497.00   1
    """
    how = How(pvalue=pvalue, n_boot=n_boot, rng=rng).seeded()
    check_release(release)
    fits = [_all_kway_fit(release, k) for k in range(1, len(release.domain.names) + 1)]
    return term_tests("Partial association: each term dropped from all of its order", fits, how)


def _numbers(test: LikelihoodRatio) -> tuple[float, int, float]:
    return test.statistic, test.df, test.pvalue


def _all_kway_fit(release: Release, k: int) -> LogLinearResults:
    return LogLinearModel(release, all_kway(release, k)).fit(warn_convergence=False)


# -- parts of the search --------------------------------------------------------------------------
