"""Tests of ordinal association and of association across strata.

Linear-by-linear trend and the Cochran-Mantel-Haenszel hypothesis are pairs of log-linear models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

from dpcontingency._language import argument, phrase
from dpcontingency.errors import ModelError
from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.estimates import Estimate
from dpcontingency.inference.hypothesis import model_test, table_or_margins
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.nested import nested_test
from dpcontingency.inference.pvalues import DEFAULT_BOOT, How, PValue, Random, Statistic
from dpcontingency.inference.risks import odds_ratio
from dpcontingency.inference.statistic import Hypothesis
from dpcontingency.inference.terms import quoted
from dpcontingency.inference.testresult import TestResult


@dataclass(frozen=True, repr=False)
class CMHResult(TestResult):
    """A Cochran-Mantel-Haenszel test, with what is asked next.

    Attributes
    ----------
    common_odds_ratio : Estimate or None
        Of two factors with two levels each: the odds ratio that all strata share, by maximum
        likelihood in the model of no three-way interaction. None for larger factors.
    homogeneity : TestResult or None
        The test that the odds ratios are the same in all strata (no three-way interaction).
    """

    common_odds_ratio: Estimate | None = field(default=None, compare=False)
    homogeneity: TestResult | None = field(default=None, compare=False)

    def summary(self) -> str:
        """The test, the common odds ratio and the test of homogeneity as text."""
        parts = [super().summary()]
        if self.common_odds_ratio is not None:
            parts.append(self.common_odds_ratio.summary())
        if self.homogeneity is not None:
            parts.append(self.homogeneity.summary())
        return "\n\n".join(parts)


def trend_test(
    release: AnyRelease,
    row: str,
    column: str,
    *,
    given: str | Sequence[str] = (),
    statistic: Statistic = "score",
    pvalue: PValue = "auto",
    n_boot: int = DEFAULT_BOOT,
    rng: Random = None,
) -> TestResult:
    """Test independence against a linear-by-linear trend, on 1 degree of freedom.

    Parameters
    ----------
    release : Release or MarginRelease
        The noisy table.
    row, column : str
        The factors. Each has two levels, is ordered, or has scores (Domain ``scores``; else
        1, 2, ...). Alphabetical order is never assumed.
    given : str or sequence of str
        Factors to condition on: one trend shared by all of their combinations.
    statistic : {"score", "lr", "wald"}
        The default is, with no noise, the Cochran-Armitage statistic of a 2 x k table, n r^2 in
        general (Mantel's M^2 is (n - 1) r^2).
    pvalue, n_boot, rng
        As in `independence_test`.

    Returns
    -------
    TestResult
        Null and alternative are [row][column] without and with ``score(row):score(column)``.

    Raises
    ------
    ModelError
        If a factor of more than two levels has neither order nor scores.

    Examples
    --------
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain(
    ...     {"Dose": ["low", "medium", "high"], "Cured": ["no", "yes"]}, ordered=["Dose"]
    ... )
    >>> trend_test(Release.exact([[30, 10], [22, 18], [12, 28]], domain), "Dose", "Cured")
    <trend test of no linear trend of Dose and Cured: score chi2 = 16.27, df = 1, ...>
    """
    how = How(statistic, pvalue, n_boot, rng)
    given = _checked_pair(release, row, column, given)
    margin = release.margin(row, column, *given)
    generators = [(row, *given), (column, *given)]
    scored = [_scored(margin, name) for name in (row, column)]
    if scored == [quoted(row), quoted(column)]:  # of two levels each: the odds ratio itself
        alternative = LogLinearModel(margin, [*generators, (row, column)])
    else:
        alternative = LogLinearModel(margin, generators, special_terms=[":".join(scored)])
    arguments = ["release", repr(row), repr(column), *_given(given)]
    # The default of the other tests is the likelihood ratio, so it has to be named here.
    call = f"dpc.trend_test({', '.join(arguments)})"
    return nested_test(
        Hypothesis(
            name="trend test",
            null=f"no linear trend of {row} and {column}" + _in_words(given),
            call=call if statistic != "lr" else call.removesuffix(")") + ", statistic='lr')",
            model=LogLinearModel(margin, generators),
            alternative=alternative,
        ),
        how,
    )


def cmh_test(
    release: AnyRelease,
    row: str,
    column: str,
    given: str | Sequence[str],
    *,
    statistic: Statistic = "lr",
    pvalue: PValue = "auto",
    n_boot: int = DEFAULT_BOOT,
    rng: Random = None,
) -> CMHResult:
    """Test conditional independence against an association that all strata share.

    Parameters
    ----------
    release : Release or MarginRelease
        The noisy table.
    row, column : str
        The factors, of any number of levels.
    given : str or sequence of str
        The factors whose combinations are the strata.
    statistic : {"lr", "score", "wald"}
        "score" is Birch's statistic: Cochran's (1954) in 2 x 2 x K tables without noise. Mantel
        and Haenszel's divides each stratum's variance by n_k - 1 in the place of n_k, an exact
        conditional law that noise does not leave.
    pvalue, n_boot, rng
        As in `independence_test`.

    Returns
    -------
    CMHResult
        On (levels of row - 1)(levels of column - 1) df, or fewer where zeros leave strata nothing
        to compare; with the common odds ratio of a 2 x 2 x K table and the test that the odds
        ratios are homogeneous.

    Raises
    ------
    ModelError
        If no factor is given, or a factor is named twice.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcontingency import Domain, Release
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"], "K": [1, 2]})
    >>> release = Release.exact(np.array([[[20, 15], [10, 12]], [[9, 11], [18, 20]]]), domain)
    >>> test = cmh_test(release, "A", "B", "K", statistic="score")
    >>> test.df, test.homogeneity.df
    (1, 1)
    """
    how = How(statistic, pvalue, n_boot, rng)
    given = _checked_pair(release, row, column, given)
    if not given:
        raise ModelError(
            "A Cochran-Mantel-Haenszel test looks inside strata: name the factors that make them "
            f"by {argument('given', ...)}. Without strata use "
            f"{phrase('independence_test', '--kind independence')}."
        )
    margin = release.margin(row, column, *given)
    shared = LogLinearModel(margin, [(row, *given), (column, *given), (row, column)])
    arguments = ["release", repr(row), repr(column), *_given(given)]
    test = nested_test(
        Hypothesis(
            name="Cochran-Mantel-Haenszel test",
            null=f"{row} independent of {column}" + _in_words(given),
            call=f"dpc.cmh_test({', '.join(arguments)})",
            model=LogLinearModel(margin, [(row, *given), (column, *given)]),
            alternative=shared,
        ),
        how,
    )
    homogeneity = model_test(
        shared, statistic="lr", pvalue=pvalue, n_boot=n_boot, rng=test.seed or rng
    )
    two_by_two = margin.domain.shape[:2] == (2, 2)
    return CMHResult(
        **{f.name: getattr(test, f.name) for f in fields(TestResult)},
        common_odds_ratio=odds_ratio(release, row, column, given) if two_by_two else None,
        homogeneity=replace(homogeneity, name="homogeneity of odds ratios"),
    )


def _checked_pair(
    release: AnyRelease, row: str, column: str, given: str | Sequence[str]
) -> tuple[str, ...]:
    """The given factors, once the names make sense."""
    table_or_margins(release)
    names = (given,) if isinstance(given, str) else tuple(given)
    if len({row, column, *names}) < 2 + len(names):
        raise ModelError(
            f"Each factor is named once; got {', '.join(map(repr, [row, column, *names]))}."
        )
    return names


def _scored(release: AnyRelease, name: str) -> str:
    """The term for the scores of a factor; two levels need neither order nor scores."""
    domain = release.domain
    ordinal = name in domain.ordered or name in domain.scores
    if len(domain.levels[name]) == 2 and not ordinal:
        return quoted(name)
    return f"score({quoted(name)})"


def _given(names: Sequence[str]) -> list[str]:
    return [f"given={list(names)!r}"] if names else []


def _in_words(given: Sequence[str]) -> str:
    return f" given {', '.join(given)}" if given else ""
