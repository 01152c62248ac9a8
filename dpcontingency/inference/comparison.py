"""Likelihood-ratio comparison of nested models fitted to one release."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from dpcontingency.errors import ModelError
from dpcontingency.inference.common_table import common_table, difference
from dpcontingency.inference.existence import Span
from dpcontingency.inference.formula import Generators, generating_class, show, subsets
from dpcontingency.inference.held import require_maximum
from dpcontingency.inference.pvalues import (
    DEFAULT_BOOT,
    How,
    PValue,
    Random,
    Tail,
    pair_tail,
)
from dpcontingency.inference.tables import (
    NOT_ADJUSTED,
    ModelTable,
    face_notes,
    infinity_notes,
    tail_notes,
    test_notes,
)
from dpcontingency.inference.terms import SpecialTerm, maximal_terms

RATIO = "A likelihood ratio compares maxima of the likelihood"

TERM_COLUMNS = ["term", "generating_class", "aic", "bic", "lr", "df", "pvalue"]

AUTO = How()

# A larger model cannot fit worse; this much is the tolerance of the two searches, and of floats.
TOLERANCE = 1e-6
ROUNDING = 1e-12


class Fitted(Protocol):
    """What a comparison reads of a fit; `LogLinearResults` has it, and so has `Saturated`."""

    @property
    def llf(self) -> float:
        """The maximum of the log-likelihood."""

    @property
    def n_total(self) -> float:
        """The number of records."""

    @property
    def model(self) -> Any:
        """The `LogLinearModel`; None for the saturated model that needs none."""

    @property
    def generating_class(self) -> str:
        """The model in brackets."""

    @property
    def converged(self) -> bool:
        """Whether the search ended at a maximum."""

    @property
    def reason(self) -> str:
        """Why not, if not."""


@dataclass(frozen=True)
class Saturated:
    """The saturated model of a release: known without a search."""

    generating_class: str
    llf: float
    n_total: float
    model: None = None
    converged: bool = True
    reason: str = ""

    @classmethod
    def over(cls, result: Any) -> Saturated:
        """The model that every model of the release of ``result`` is nested in."""
        return cls(
            generating_class=show(result.model.release.margins),
            llf=float(result.model.saturated_loglike),
            n_total=result.n_total,
        )


class LikelihoodRatio(NamedTuple):
    """A likelihood-ratio test; all nan but the df where a fit has failed."""

    statistic: float
    df: int
    tail: Tail

    @property
    def pvalue(self) -> float:
        """The p-value; nan where none is calibrated."""
        return self.tail.pvalue


def compare(
    *results: Any, pvalue: PValue = "auto", n_boot: int = DEFAULT_BOOT, rng: Random = None
) -> ModelTable:
    """Compare nested models of one release by likelihood ratio.

    Parameters
    ----------
    *results : LogLinearResults
        Fits to the same release, in any order. Ordered by size, each model must hold all terms
        of the one before it; with special terms, be able to stand for all its columns. Where they
        name different factors, all are compared on the margin that has the factors of each; see
        `common_table`.
    pvalue : {"auto", "asymptotic", "bootstrap"}
        Chi-square where it holds (`calibration.chi_square`), with the reason in the notes where
        there is therefore no p-value; chi-square everywhere, with a note where it is doubtful; or
        a parametric bootstrap of table and noise.
    n_boot, rng
        Of the bootstrap, as in `independence_test`; all rows share the seed.

    Returns
    -------
    ModelTable
        ``table`` has a row a model, the smallest first and the saturated one last, fitted or
        not: ``aic`` and ``bic``; ``lr``, ``df``, ``pvalue`` against the saturated model; and
        ``lr_diff``, ``df_diff``, ``pvalue_diff`` against the model in the row above. From row to
        row AIC falls by ``lr_diff`` less twice ``df_diff``, and BIC likewise.

    Raises
    ------
    ModelError
        If the models are not nested, were fitted to different releases or under different
        sampling schemes, if a fit did not converge, or if a larger model has the smaller
        likelihood, which only a failed fit has. If a fit is no maximum of the likelihood: by
        ``method="normal"`` with noise, or with a penalty.

    Notes
    -----
    The statistic is 2 (llf of the larger - llf of the smaller model), in the likelihood of the
    release (METHODS 2.2), so it accounts for sampling and noise. Under the smaller model it is
    asymptotically chi-square; its degrees of freedom are the parameters that the larger model
    adds. With zeros that no noise hides, both models' are counted on the cells to which the smaller
    model gives a positive mean (METHODS 2.4), so that df of several steps need not add up. With no
    noise the statistic is the difference of the G2. AIC and BIC are those of the likelihood of the
    released table: only their differences mean anything.

    Examples
    --------
    >>> from dpcontingency.inference.loglinear import LogLinearModel
    >>> from dpcontingency.release.release import Release
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["yes", "no"], "C": ["yes", "no"], "M": ["yes", "no"]})
    >>> counts = [[[911, 538], [44, 456]], [[3, 43], [2, 279]]]
    >>> release = Release.exact(counts, domain)
    >>> fits = [LogLinearModel(release, g).fit() for g in ("[AM][CM]", "[AC][AM][CM]")]
    >>> compare(*fits).table[["lr", "df", "lr_diff", "df_diff"]].round(4)
                       lr  df   lr_diff  df_diff
    model
    [A M][C M]       187.7543   2       NaN      NaN
    [A C][A M][C M]    0.3740   1  187.3803      1.0
    [A C M]            0.0000   0    0.3740      1.0
    """
    how = How(pvalue=pvalue, n_boot=n_boot, rng=rng).seeded()
    ordered, refitted = _nested(results)
    rows: list[Fitted] = [*ordered]
    top = Saturated.over(ordered[-1])
    if top.generating_class != ordered[-1].generating_class:
        rows.append(top)
    for smaller, larger in [*pairwise(rows), (rows[-1], top)]:
        if failed := failure(smaller, larger):
            raise ModelError(f"{failed} Fit it again before comparing it.")
    against = [likelihood_ratio(row, top, how) for row in rows]
    nothing = LikelihoodRatio(math.nan, 0, Tail())
    changes = [nothing, *(likelihood_ratio(*pair, how) for pair in pairwise(rows))]
    sizes = accumulate((test.df for test in changes[1:]), initial=ordered[0].model.n_params)
    criteria = [information_criteria(*pair) for pair in zip(rows, sizes, strict=True)]
    frame = pd.DataFrame(
        {
            "aic": [values["aic"] for values in criteria],
            "bic": [values["bic"] for values in criteria],
            "lr": [test.statistic for test in against],
            "df": [test.df for test in against],
            "pvalue": [test.pvalue for test in against],
            "lr_diff": [test.statistic for test in changes],
            "df_diff": [math.nan, *(float(test.df) for test in changes[1:])],
            "pvalue_diff": [test.pvalue for test in changes],
        },
        index=pd.Index([row.generating_class for row in rows], name="model"),
    )
    title = "Nested models: lr against the last, saturated; lr_diff against the one above"
    named = [(row.generating_class, test.tail) for row, test in zip(rows, against, strict=True)]
    named += [
        (f"{smaller.generating_class} against {larger.generating_class}", test.tail)
        for (smaller, larger), test in zip(pairwise(rows), changes[1:], strict=True)
        if larger is not top
    ]
    notes = [*test_notes(ordered[0], how), *refitted, *tail_notes(named)]
    notes += [*infinity_notes(ordered), *face_notes(ordered)]
    return ModelTable(title, frame, tuple(notes), how.replicates)


def drop1(
    result: Any, *, pvalue: PValue = "auto", n_boot: int = DEFAULT_BOOT, rng: Random = None
) -> ModelTable:
    """Test each term that can be dropped from a model with the rest still hierarchical.

    Parameters
    ----------
    result : LogLinearResults
        The fit of the larger model.
    pvalue, n_boot, rng
        As in `compare`.

    Returns
    -------
    ModelTable
        ``table`` has a row for the model itself and one for each maximal term outside the strata
        and outside all special terms, and each special term: ``generating_class`` without the
        term, its ``aic`` and ``bic`` with ``df`` parameters less, and ``lr``, ``df`` and ``pvalue``
        of the test that the term is zero. Lower terms stay; of ``C:Diag(A, B)`` that is
        ``Diag(A, B)``.

    Raises
    ------
    ModelError
        If the fit itself did not converge, or is no maximum of the likelihood.

    Notes
    -----
    The statistic and its reference distribution are those of `compare`; the p-values are of one
    test each, without regard to the number of tests. Every model is fitted to the table of the
    larger one: without the last term of a factor, its levels are equally likely.
    """
    how = How(pvalue=pvalue, n_boot=n_boot, rng=rng).seeded()
    require_maximum(result, RATIO)
    if not result.converged:
        raise ModelError(f"{failure(result, result)} Fit it again before testing its terms.")
    title = f"Terms dropped from {result.generating_class}, one at a time"
    tests = term_tests(title, [result], how)
    nothing = likelihood_ratio(result, result)
    itself = _term_row("(none)", result, result, nothing) | {"lr": math.nan}
    whole = pd.DataFrame([itself], columns=TERM_COLUMNS).set_index("term")
    return replace(tests, table=pd.concat([whole, tests.table]))


def term_tests(title: str, results: Sequence[Any], how: How = AUTO) -> ModelTable:
    """The test of each term that can be dropped from one of the fits."""
    rows, fits, failed, fewer = [], list(results), [], []
    tails: list[tuple[str, Tail]] = []
    for result in results:
        for label, generators, special in dropped(result.model):
            smaller = refit(result.model, generators, special)
            test = likelihood_ratio(smaller, result, how)
            rows.append(_term_row(label, smaller, result, test))
            tails.append((label, test.tail))
            fits.append(smaller)
            failed.append(failure(smaller, result))
            if rows[-1]["df"] != len(result.params) - len(smaller.params):
                fewer.append(label)
    frame = pd.DataFrame(rows, columns=TERM_COLUMNS).set_index("term")
    notes = [*test_notes(results[0], how), NOT_ADJUSTED, *tail_notes(tails)]
    notes += [*filter(None, failed), *infinity_notes(fits)]
    if fewer:
        notes.append(
            f"The df of {', '.join(dict.fromkeys(fewer))} is not the number of parameters of the "
            "term: because of zeros the model without it gives some cells no positive mean, and "
            "the others (its facial set) tell fewer of them apart."
        )
    return ModelTable(title, frame, tuple(notes), how.replicates)


def _term_row(term: str, smaller: Fitted, larger: Fitted, test: LikelihoodRatio) -> dict[str, Any]:
    row = {"term": term, "lr": test.statistic, "df": test.df, "pvalue": test.pvalue}
    criteria = information_criteria(smaller, larger.model.n_params - test.df)
    return {**row, "generating_class": smaller.generating_class, **criteria}


# -- one pair of models ---------------------------------------------------------------------------


def likelihood_ratio(smaller: Fitted, larger: Fitted, how: How = AUTO) -> LikelihoodRatio:
    """The test of a model inside a larger one; see `compare` for its law."""
    df = 0 if smaller.model is None else smaller.model.df_against(larger.model)
    if failure(smaller, larger):
        return LikelihoodRatio(math.nan, df, Tail())
    statistic = max(0.0, 2 * (larger.llf - smaller.llf))
    tail = pair_tail(smaller, larger.model, statistic, df, how) if df > 0 else Tail()
    return LikelihoodRatio(statistic, df, tail)


def information_criteria(fit: Fitted, n_params: int) -> dict[str, float]:
    """AIC and BIC of a fit that counts so many parameters.

    Where models are compared, one of them counts its own (`LogLinearModel.n_params`) and the others
    differ from it by the df of their tests, so that AIC, BIC and test agree on the parameters.
    """
    bit = math.log(max(fit.n_total, 1.0))
    return {"aic": 2 * n_params - 2 * fit.llf, "bic": bit * n_params - 2 * fit.llf}


def failure(smaller: Fitted, larger: Fitted) -> str:
    """Why two fits cannot be compared, in a sentence that names one of them; else empty."""
    for fit in (smaller, larger):
        if not fit.converged:
            return f"The fit of {fit.generating_class} did not converge: {fit.reason}."
    if larger.llf < smaller.llf - max(TOLERANCE, ROUNDING * abs(smaller.llf)):
        return (
            f"The fit of {larger.generating_class} failed: its log-likelihood is below that of "
            f"the smaller model {smaller.generating_class}."
        )
    return ""


def refit(model: Any, generators: Generators, special: Iterable[SpecialTerm] = ()) -> Any:
    """The fit of another model of the same release, in the same coding.

    It stays on the table of the first, also where it names fewer factors. Special terms that are
    idle, because the rest can stand for all their columns, are left out.
    """
    made = model.sibling(generators, special)
    if made.idle:
        made = model.sibling(generators, [t for t in made.special if t not in made.idle])
    return made.fit(warn_convergence=False)


# -- generating classes ---------------------------------------------------------------------------


def dropped(model: Any) -> Iterator[tuple[str, Generators, Sequence[SpecialTerm]]]:
    """Each term that can be dropped from a model, by name, and the model without it."""
    for term in droppable(model.generators, model.release.strata, model.special):
        yield show((term,)), without(model.generators, term), model.special
    for special in model.special:
        rest = [*(other for other in model.special if other != special), *special.without()]
        yield special.text, model.generators, maximal_terms(rest, model.release.domain.names)


def droppable(
    generators: Generators, strata: Sequence[str] = (), special: Sequence[SpecialTerm] = ()
) -> Generators:
    """The maximal terms that are not fixed by the strata, nor lower than a special term."""
    kept = [set(strata), *(term.involved for term in special)]
    return tuple(m for m in generators if not any(set(m) <= factors for factors in kept))


def without(generators: Generators, term: tuple[str, ...]) -> Generators:
    """The model less one maximal term; the terms inside it stay.

    Examples
    --------
    >>> without((("A", "B"), ("B", "C")), ("B", "C"))
    (('A', 'B'), ('C',))
    """
    names = list(dict.fromkeys(name for margin in generators for name in margin))
    rest = [margin for margin in generators if margin != term]
    return generating_class([*rest, *combinations(term, len(term) - 1)], names)


def is_nested(smaller: Generators, larger: Generators) -> bool:
    """Whether every term of one generating class is a term of the other."""
    return all(any(set(margin) <= set(m) for m in larger) for margin in smaller)


def holds(larger: Any, smaller: Any) -> bool:
    """Whether each model of the smaller class is one of the larger: by terms, or by columns.

    Without special terms it is a matter of generators. With them, each column that no common
    term accounts for must be a combination of the larger model's, on the possible cells.
    """
    if not smaller.special and not larger.special:
        return is_nested(smaller.generators, larger.generators)
    if len(smaller.exog_names) > len(larger.exog_names):
        return False
    shared = set(larger.exog_names)
    margins = len(smaller._design.codes)  # columns that are the same vector under the same name
    span = Span(larger._design, larger._possible, larger.fixed_strata)
    unit = np.eye(len(smaller.exog_names))
    return all(
        span.coordinates(smaller._design.dot(unit[j]))[1]
        for j, name in enumerate(smaller.exog_names)
        if j >= margins or name not in shared
    )


def _nested(results: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """The fits to one table from the smallest model to the largest, and notes of how they were had.

    Raises
    ------
    ModelError
        If there is no such row, with the reason.
    """
    if not results:
        raise ModelError("compare takes one fit or more: the results of LogLinearModel.fit.")
    for result in results:
        if not (hasattr(result, "llf") and hasattr(result, "generators")):
            raise ModelError(
                f"compare takes fits, the results of LogLinearModel.fit; got a "
                f"{type(result).__name__}."
            )
    for result in results:
        require_maximum(result, RATIO)
    results, notes = common_table(results)
    for result in results[1:]:
        if why := difference(results[0].model.release, result.model.release):
            raise ModelError(why)
        _check_offsets(results[0].model, result.model)
    names = results[0].model.release.domain.names

    def size(result: Any) -> tuple[int, int]:
        return len(result.params), len(subsets(result.generators, names))

    ordered = sorted(results, key=size)
    for smaller, larger in pairwise(ordered):
        one, other = smaller.generating_class, larger.generating_class
        if holds(smaller.model, larger.model):
            again = "is given twice" if one == other else f"is the same model as {other}"
            raise ModelError(f"{one} {again}; name each model once.")
        if not holds(larger.model, smaller.model):
            raise ModelError(
                f"{one} is not nested in {other}, so no likelihood ratio compares them. Compare "
                "each with a model that holds both, or look at their AIC or BIC."
            )
    return ordered, notes


def _check_offsets(one: Any, other: Any) -> None:
    if not np.array_equal(_offset(one), _offset(other)):
        raise ModelError(
            "The models have different offsets, so that neither is a special case of the other. "
            "Give all of them one offset."
        )


def _offset(model: Any) -> Any:
    return 0.0 if model.offset is None else model.offset
