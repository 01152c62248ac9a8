"""Tests of independence, homogeneity, goodness of fit and of a model on released tables.

Each compares two nested log-linear models; `nested` does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcontingency._language import argument
from dpcontingency.domain import without_nan
from dpcontingency.errors import ModelError
from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.nested import nested_test
from dpcontingency.inference.pvalues import DEFAULT_BOOT, How, PValue, Random, Statistic
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.statistic import Hypothesis
from dpcontingency.inference.testresult import TestResult
from dpcontingency.release.combine import combine_samples
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release

__all__ = [
    "TestResult",
    "goodness_of_fit_test",
    "homogeneity_test",
    "independence_test",
    "model_test",
]

Array = npt.NDArray[np.float64]


def independence_test(
    release: AnyRelease,
    *factors: str | Sequence[str],
    given: str | Sequence[str] = (),
    statistic: Statistic = "lr",
    pvalue: PValue = "auto",
    n_boot: int = DEFAULT_BOOT,
    rng: Random = None,
) -> TestResult:
    """Test that factors are independent, in each combination of the given ones.

    Parameters
    ----------
    release : Release or MarginRelease
        The noisy table; the test works on its margin over the factors and the given ones.
    *factors : str or sequence of str
        Two or more factors; with three or more the null is mutual independence. A sequence stands
        for its combinations: ``("A", "B"), "C"`` tests that A and B jointly are independent of C.
    given : str or sequence of str
        Factors to condition on.
    statistic : {"lr", "score", "wald", "js-pearson"}
        The noise-aware likelihood ratio (METHODS 2.2), score statistic (2.3; Kifer and Rogers
        2017), Wald statistic of the parameters of the saturated model, or Pearson's X2 of the
        James-Stein table of Kim, Lee, Kwak and Jung (2.6; by bootstrap only, and less powerful).
    pvalue : {"auto", "asymptotic", "bootstrap"}
        Chi-square, or a parametric bootstrap that draws counts from the null and noise from the
        law of the release. "auto" takes the bootstrap where a fitted cell of the null lies within
        2.5 standard deviations (sampling and noise) of 0, and says so; never without noise. Where
        it would take too long there is no p-value, with the reason.
    n_boot : int
        Bootstrap replicates.
    rng : numpy.random.Generator or int, optional
        For the bootstrap; the seed of a new one is recorded in the result.

    Returns
    -------
    TestResult
        Its p-value accounts for sampling and noise; ``null_fit`` holds the null model. With no
        noise the statistics are G2 and Pearson's X2, without Yates' correction.

    Raises
    ------
    ModelError
        If fewer than two factors are named, or one twice, or an option has no meaning.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> independence_test(Release.exact([[45, 2], [1, 44]], domain), "A", "B", statistic="score")
    <independence test of A independent of B: score chi2 = 80.43, df = 1, p = 3.01e-19; ...>
    """
    how = How(statistic, pvalue, n_boot, rng)
    table_or_margins(release)
    groups = [_names(group) for group in factors]
    given = _names(given)
    involved = [*(name for group in groups for name in group), *given]
    if len(groups) < 2 or not all(groups):
        raise ModelError(
            "An independence test needs two factors or more. To test one factor against given "
            "probabilities is a goodness-of-fit test."
        )
    if len(set(involved)) < len(involved):
        raise ModelError(f"Each factor is named once; got {', '.join(map(repr, involved))}.")
    return nested_test(independence_hypothesis(release, groups, given), how)


def homogeneity_test(
    release: AnyRelease | Sequence[Release],
    *responses: str,
    by: str | Sequence[str] = (),
    statistic: Statistic = "lr",
    pvalue: PValue = "auto",
    n_boot: int = DEFAULT_BOOT,
    rng: Random = None,
) -> TestResult:
    """Test that a response has one distribution in several groups.

    Parameters
    ----------
    release : Release, MarginRelease or sequence of Release
        One release that holds response and groups, best with the groups as its ``strata``; or
        releases of independent samples of the same response, whose noise may differ.
    *responses : str
        The response, or the factors whose joint distribution it is; every factor of the domain
        by default, where releases of several samples are given.
    by : str or sequence of str
        The factors that make the groups, of one release; its strata by default.
    statistic, pvalue, n_boot, rng
        As in `independence_test`. "js-pearson" shrinks inside the strata, for one release.

    Returns
    -------
    TestResult
        For sampling and noise; the statistics are those of independence of response and group.

    Raises
    ------
    ModelError
        If the groups or the response are not named, or samples have different domains.

    Examples
    --------
    Two published tables of one hypothesis, the second with more noise:

    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"Answer": ["yes", "no", "unsure"]})
    >>> first = Release.from_noisy_table([310.2, 150.1, 40.7], domain, sigma=2.0, n_total=501)
    >>> second = Release.from_noisy_table([260.0, 171.5, 68.5], domain, sigma=9.0, n_total=500)
    >>> homogeneity_test([first, second])
    <homogeneity test of Answer alike in 2 samples: likelihood-ratio chi2 = ..., df = 2, ...>
    """
    how = How(statistic, pvalue, n_boot, rng)
    if isinstance(release, Release | MarginRelease):
        groups, responses = _names(by) or release.strata, tuple(responses)
        if not groups or not responses:
            raise ModelError(
                "A homogeneity test needs a response and groups: name the response, and the "
                f"groups by {argument('by')} where the release has no strata."
            )
        if both := [name for name in responses if name in groups]:
            why = "" if by else " by being a stratum of the release"
            left = [repr(name) for name in responses if name not in groups]
            raise ModelError(
                f"{_together(both)} makes the groups{why} and is named as a response too: name "
                f"{'only ' + ', '.join(left) if left else 'another factor'} as the response."
            )
        words = f"{_together(responses)} alike in each {_together(groups)}"
        arguments = ["release", *map(repr, responses), f"by={list(groups)!r}"]
        table = release.margin(*responses, *groups)
    else:
        table, groups = combine_samples(release)
        if by:
            raise ModelError("`by` names groups inside one release; samples are groups already.")
        responses = tuple(responses) or tuple(n for n in table.domain.names if n not in groups)
        table = table.margin(*groups, *responses)
        samples = len(table.domain.levels[groups[0]])
        words = f"{_together(responses)} alike in {samples} samples"
        arguments = ["releases", *map(repr, responses)]
    hypothesis = Hypothesis(
        name="homogeneity test",
        null=words,
        call=f"dpc.homogeneity_test({', '.join(arguments)})",
        model=LogLinearModel(table, [responses, groups]),
        expected=product_of_margins(table, [responses, groups], ()),
    )
    return nested_test(hypothesis, how)


def goodness_of_fit_test(
    release: AnyRelease,
    probabilities: npt.ArrayLike | None = None,
    *,
    model: LogLinearModel | LogLinearResults | str | None = None,
    statistic: Statistic = "lr",
    pvalue: PValue = "auto",
    n_boot: int = DEFAULT_BOOT,
    rng: Random = None,
) -> TestResult:
    """Test the cells against given probabilities, or against those of a model.

    Parameters
    ----------
    release : Release
        The noisy table.
    probabilities : array_like, shape ``release.domain.shape``, optional
        The null distribution. They add up to 1, or with strata to 1 in each; all are positive,
        but for structural zeros of the domain, which have 0.
    model : LogLinearModel, LogLinearResults or str, optional
        In their place a model whose parameters are estimated, as in `model_test`.
    statistic, pvalue, n_boot, rng
        As in `independence_test`.

    Returns
    -------
    TestResult
        For sampling and noise; G2 and X2 with no noise.

    Raises
    ------
    ModelError
        If neither or both are given, or the probabilities are none of this table.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> release = Release.exact([315, 108, 101, 32], Domain({"Pea": ["RY", "RG", "WY", "WG"]}))
    >>> goodness_of_fit_test(release, [9 / 16, 3 / 16, 3 / 16, 1 / 16], statistic="score")
    <goodness-of-fit test of the given probabilities: score chi2 = 0.47, df = 3, p = 0.9254; ...>
    """
    if (probabilities is None) == (model is None):
        raise ModelError(
            "Goodness of fit to what? Give the probabilities of the cells, such as [0.5, 0.3, "
            "0.2], or a model such as model='[A][B]'; one of the two."
        )
    if model is not None:
        if isinstance(model, str):
            model = LogLinearModel(table_or_margins(release), model)
        return model_test(model, statistic=statistic, pvalue=pvalue, n_boot=n_boot, rng=rng)
    how = How(statistic, pvalue, n_boot, rng)
    p = _probabilities(table_or_margins(release), probabilities)
    return nested_test(goodness_of_fit_hypothesis(release, p), how)


def model_test(
    model: LogLinearModel | LogLinearResults,
    *,
    statistic: Statistic = "lr",
    pvalue: PValue = "auto",
    n_boot: int = DEFAULT_BOOT,
    rng: Random = None,
) -> TestResult:
    """Test a model against the saturated one of the table that it is fitted to.

    Parameters
    ----------
    model : LogLinearModel or LogLinearResults
        The null model, or a fit of it. Its table is the margin of the factors that it names: a
        restriction on these alone is tested, unless it was made with ``left_out="uniform"``.
    statistic, pvalue, n_boot, rng
        As in `independence_test`.

    Returns
    -------
    TestResult
        For sampling and noise. No three-way interaction, homogeneous odds ratios, quasi-symmetry
        and the like are models to be tested so.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["yes", "no"], "C": ["yes", "no"], "M": ["yes", "no"]})
    >>> release = Release.exact([[[911, 538], [44, 456]], [[3, 43], [2, 279]]], domain)
    >>> model_test(LogLinearModel(release, "[AC][AM][CM]"))
    <model test of the model [A C][A M][C M]: likelihood-ratio chi2 = 0.374, df = 1, ...>
    """
    how = How(statistic, pvalue, n_boot, rng)
    null = model.model if isinstance(model, LogLinearResults) else model
    if not isinstance(null, LogLinearModel):
        raise ModelError(
            f"model_test takes a LogLinearModel or a fit of one; got {type(model).__name__}."
        )
    hypothesis = Hypothesis(
        name="model test",
        null=f"the model {null.generating_class}{null.uniformity}",
        call=f"dpc.model_test({model_code(null)})",
        model=null,
    )
    return nested_test(hypothesis, how)


# ------------------------------------------------------------------ hypotheses


def independence_hypothesis(
    release: AnyRelease, groups: Sequence[Sequence[str]], given: Sequence[str]
) -> Hypothesis:
    """Whether groups of factors are independent of one another given others."""
    null = " independent of ".join(_together(group) for group in groups)
    if given:
        null += f" given {', '.join(given)}"
    shown = [repr(group[0] if len(group) == 1 else group) for group in groups]
    arguments = ["release", *shown, *([f"given={list(given)!r}"] if given else [])]
    margin = release.margin(*(name for group in groups for name in group), *given)
    return Hypothesis(
        name="independence test",
        null=null,
        call=f"dpc.independence_test({', '.join(arguments)})",
        model=LogLinearModel(margin, [(*group, *given) for group in groups]),
        expected=product_of_margins(margin, groups, given),
    )


def goodness_of_fit_hypothesis(release: AnyRelease, p: Array) -> Hypothesis:
    """Whether the cells have these probabilities."""
    totals = release.totals
    spread = p if totals is None else p * _per_stratum(totals, release)
    return Hypothesis(
        name="goodness-of-fit test",
        null="the given probabilities",
        call=f"dpc.goodness_of_fit_test(release, {p.tolist()!r})",
        model=LogLinearModel(release, [], offset=np.log(np.where(p > 0, p, 1.0))),
        expected=lambda tables: np.broadcast_to(spread, tables.shape),
    )


# ------------------------------------------------------------------ parts


def checked_release(release: Any) -> Release:
    """The argument, if it is a released table.

    Raises
    ------
    ModelError
        If it is not.
    """
    if not isinstance(release, Release):
        raise ModelError(
            f"This test works on a Release; got {type(release).__name__}. A noisy table made "
            "elsewhere enters by Release.from_noisy_table, if it was neither rounded nor shrunken."
        )
    return release


def table_or_margins(release: Any) -> AnyRelease:
    """The argument, if it is a released table or released margins.

    Raises
    ------
    ModelError
        If it is not.
    """
    return release if isinstance(release, MarginRelease) else checked_release(release)


def model_code(model: LogLinearModel, data: str = "release") -> str:
    """Python that makes a model of a release again; `data` is Python for the release."""
    options = "" if model.coding == "treatment" else f", coding={model.coding!r}"
    if model.named and model.uniform_factors:
        options += ", left_out='uniform'"
    if model.special_terms:
        options += f", special_terms={list(model.special_terms)!r}"
    if model.offset is not None:
        options += f", offset={model.offset.tolist()!r}"
    return f"dpc.LogLinearModel({data}, {list(model.generators)!r}{options})"


def _names(names: Any) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) else names
    if not isinstance(listed, Sequence) or not all(isinstance(name, str) for name in listed):
        raise ModelError(
            f"Factors are named by text, or by sequences of names; got {type(names).__name__}."
        )
    return tuple(listed)


def _together(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def product_of_margins(
    release: AnyRelease, groups: Sequence[Sequence[str]], given: Sequence[str]
) -> Callable[[Array], Array]:
    """Expected tables when groups of factors are independent given others."""
    axis = release.domain.axis

    def keep(names: Sequence[str]) -> tuple[int, ...]:
        kept = {axis(name) + 1 for name in names}
        return tuple(k for k in range(1, len(release.domain.shape) + 1) if k not in kept)

    def expected(tables: Array) -> Array:
        out = np.ones_like(tables)
        for group in groups:
            out = out * tables.sum(axis=keep([*group, *given]), keepdims=True)
        base = tables.sum(axis=keep(given), keepdims=True) ** (len(groups) - 1)
        return np.asarray(np.divide(out, base, out=np.zeros_like(out), where=base != 0))

    return expected


def _probabilities(release: AnyRelease, probabilities: Any) -> Array:
    """The null distribution, checked against the domain."""
    try:
        p = np.asarray(probabilities, dtype=np.float64)
    except (TypeError, ValueError):
        p = np.full(1, np.nan)
    possible = release.domain.possible()
    if p.shape != possible.shape:
        raise ModelError(
            f"The probabilities have the shape {possible.shape} of the table; got {p.shape}."
        )
    p = without_nan(p, possible)
    if not (np.isfinite(p).all() and (p[possible] > 0).all() and (p[~possible] == 0).all()):
        raise ModelError(
            "Each probability is positive, and 0 in structural zeros alone. Declare a cell that "
            "cannot hold a record as a structural zero of the domain."
        )
    sums = p.sum(axis=_others(release))
    if np.abs(sums - 1).max() > 1e-8:
        where = f" in each combination of {', '.join(release.strata)}" if release.strata else ""
        raise ModelError(
            f"The probabilities add up to 1{where}; they add up to {np.ravel(sums)[0]:.6g}."
        )
    return p


def _others(release: AnyRelease) -> tuple[int, ...]:
    """The axes that are no strata."""
    return tuple(k for k, name in enumerate(release.domain.names) if name not in release.strata)


def _per_stratum(totals: Any, release: AnyRelease) -> Array:
    return np.expand_dims(np.asarray(totals, dtype=np.float64), _others(release))
