"""Statistics of a log-linear model against a larger one, on a release and on many tables.

Each statistic is a class that carries its rule: its value, its law in large tables, and what stands
in its way.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from dpcontingency._language import argument
from dpcontingency.errors import ModelError
from dpcontingency.inference.margin_replicates import InteractionReplicates
from dpcontingency.inference.replicates import ReplicateFits, Replicates
from dpcontingency.release.bases import helmert_sum
from dpcontingency.release.sensitivity import Neighbours

Array = npt.NDArray[np.float64]
Tables: TypeAlias = Replicates | InteractionReplicates

MAX_DENSE = 20_000_000  # entries of a design that a bootstrap or a Wald test writes out
MAX_WORK = 10**10  # of all replicates in one evaluation: a minute or two for a bootstrap
SAME_DIRECTION = 1e-9


@dataclass(frozen=True)
class Hypothesis:
    """What is tested.

    Attributes
    ----------
    name, null : str
        The test and its null hypothesis, in words.
    call : str
        The call that asks it, without the options of `How`.
    model : LogLinearModel
        The null model.
    alternative : LogLinearModel or None
        The larger model; None for the saturated one.
    expected : callable or None
        Expected tables under the null from tables, shape (b, *shape) both, for Pearson's
        statistic on shrunken tables; None where that statistic is not offered.
    """

    name: str
    null: str
    call: str
    model: Any
    alternative: Any = None
    expected: Callable[[Array], Array] | None = None

    @property
    def df(self) -> int:
        """The degrees of freedom: free parameters that the null leaves out, on its face."""
        return int(self.model.df_against(self.alternative))

    @cached_property
    def saturated(self) -> Any:
        """The alternative written out as a model."""
        release = self.model.release
        return self.alternative or type(self.model)(release, release.margins, left_out="uniform")


class TestStatistic(ABC):
    """A statistic of a hypothesis, given the fit of its null model."""

    __test__ = False
    label: ClassVar[str]
    is_chi_square: ClassVar[bool] = True  # in large tables, under the null
    can_bootstrap: ClassVar[bool] = True

    def __init__(self, hypothesis: Hypothesis, null_fit: Any) -> None:
        self.hypothesis = hypothesis
        self.null_fit = null_fit

    @cached_property
    def obstacle(self) -> str:
        """Why the statistic has no value on this release; empty where it has one."""
        return ""

    @abstractmethod
    def value(self) -> float:
        """On the release."""

    @abstractmethod
    def on(self, tables: Tables) -> Array:
        """On many tables, shape (B,)."""

    def _null_fits(self, tables: Tables) -> ReplicateFits:
        return _fits(self.hypothesis.model, tables, self.null_fit)


class _LikelihoodRatio(TestStatistic):
    """Twice the log of the ratio of the largest likelihoods (METHODS 2.2)."""

    label = "likelihood-ratio"

    @cached_property
    def _larger(self) -> Any:
        model = self.hypothesis.alternative
        return None if model is None else model.fit(warn_convergence=False)

    @cached_property
    def obstacle(self) -> str:
        if self._larger is None or self._larger.converged:
            return ""
        return f"the fit of the alternative did not converge: {self._larger.reason}"

    def value(self) -> float:
        if self._larger is None:
            return float(self.null_fit.deviance)
        return max(0.0, 2 * float(self._larger.llf - self.null_fit.llf))

    def on(self, tables: Tables) -> Array:
        larger = self.hypothesis.alternative
        top = tables.saturated() if larger is None else _fits(larger, tables, self.null_fit)
        return np.asarray(2 * np.maximum(top.loglik - self._null_fits(tables).loglik, 0.0))


class _Score(TestStatistic):
    """The score statistic of the Gaussian approximation at the null fit (METHODS 2.3)."""

    label = "score"

    def value(self) -> float:
        cells, larger = self.hypothesis.model.cells, self.hypothesis.alternative
        fitted = self.null_fit._fit.fitted
        if larger is None:
            return float(cells.score_statistic(fitted))
        return float(cells.nested_score_statistic(fitted, larger._design))

    def on(self, tables: Tables) -> Array:
        fitted = self._null_fits(tables).fitted
        larger = self.hypothesis.alternative
        return tables.score_statistics(fitted, None if larger is None else larger._design)


class _Wald(TestStatistic):
    """What the parameters that the null leaves out are, in the metric of their covariance."""

    label = "Wald"
    can_bootstrap = False

    @cached_property
    def _larger(self) -> Any:
        return self.hypothesis.saturated.fit(warn_convergence=False)

    @cached_property
    def obstacle(self) -> str:
        if not self._larger.converged:
            return f"the fit of the alternative did not converge: {self._larger.reason}"
        if not self._larger.existence.exists:
            return (
                "parameters of the alternative have no estimate, and a Wald statistic needs "
                f"them all; the likelihood ratio ({argument('statistic', 'lr')}) can be used"
            )
        return ""

    def value(self) -> float:
        model, larger = self.hypothesis.model, self.hypothesis.saturated
        strata = model.cells.strata  # where totals are public, constants of strata mean nothing
        n_strata = 0 if strata is None else int(strata.max()) + 1
        constants = (
            np.zeros((model._possible.size, 0)) if strata is None else np.eye(n_strata)[strata]
        )
        inside = larger._possible
        wide = np.hstack([_dense(larger), constants])[inside]
        narrow = np.hstack([_dense(model), constants])[inside]
        # The null in the coordinates of the alternative, and what is orthogonal to it.
        spanned = np.linalg.lstsq(wide, narrow, rcond=None)[0][: larger._design.n_columns]
        left, sizes, _ = np.linalg.svd(spanned)
        rank = int((sizes > SAME_DIRECTION * sizes.max(initial=1.0)).sum())
        free = left[:, rank:]
        offset = model._offset[inside] - larger._offset[inside]
        target = np.linalg.lstsq(wide, offset, rcond=None)[0][: larger._design.n_columns]
        estimate = free.T @ (self._larger.params.to_numpy() - target)
        covariance = free.T @ self._larger.cov_params().to_numpy() @ free
        return float(estimate @ np.linalg.solve(covariance, estimate))

    def on(self, tables: Tables) -> Array:
        raise ModelError(
            f"A Wald test has an asymptotic p-value only; use {argument('statistic', 'lr')}."
        )


class _JamesSteinPearson(TestStatistic):
    """Pearson's X2 of the table that RankDeficientJamesStein(target="mean") would have printed.

    The paper's statistic for goodness of fit, homogeneity and independence (METHODS 2.6). Cells
    whose expected count is not positive are left out. No chi-square law holds.
    """

    label = "Pearson on the James-Stein table"
    is_chi_square = False

    def __init__(self, hypothesis: Hypothesis, null_fit: Any) -> None:
        super().__init__(hypothesis, null_fit)
        release = hypothesis.model.release
        variances = hypothesis.model.cells.variances[hypothesis.model._possible]
        if hypothesis.expected is None:
            raise ModelError(
                f"{argument('statistic', 'js-pearson')} is offered for goodness of fit to given "
                "probabilities, homogeneity and independence; use 'lr' or 'score' here."
            )
        if release.totals is None or np.ptp(variances) > 1e-9 * variances.max():
            raise ModelError(
                f"{argument('statistic', 'js-pearson')} needs public totals and noise of one "
                "variance in all cells, which James-Stein shrinkage is for; use 'lr' or 'score' "
                "here."
            )
        space = Neighbours(release.domain, strata=release.strata)
        self.expected = hypothesis.expected
        self.variance = float(variances[0])
        self.dimension = space.dimension
        self.direction = helmert_sum(space).ravel()

    def value(self) -> float:
        return float(self._pearson(self.hypothesis.model.cells.noisy[None, :])[0])

    def on(self, tables: Tables) -> Array:
        return self._pearson(tables.noisy)

    def _pearson(self, noisy: Array) -> Array:
        table = self._shrunken(noisy).reshape(-1, *self.hypothesis.model.release.domain.shape)
        expected = self.expected(table)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(expected > 0, (table - expected) ** 2 / expected, 0.0)
        return np.asarray(terms.reshape(len(noisy), -1).sum(axis=1))

    def _shrunken(self, noisy: Array) -> Array:
        """METHODS 1.3, m_a of the Helmert coordinates inside the strata, positive part."""
        model = self.hypothesis.model
        strata, possible = model._strata, model._possible
        inside = np.eye(strata.max() + 1)[strata] * possible[:, None]
        uniform = noisy @ inside / np.maximum(inside.sum(axis=0), 1) @ inside.T
        mean = noisy @ self.direction / self.dimension
        along = np.outer(mean, self.direction)
        rest = (noisy - uniform) * possible - along
        if self.dimension < 4:
            return noisy
        norm = np.maximum((rest**2).sum(axis=1), 1e-300)
        factor = np.maximum(0.0, 1 - (self.dimension - 3) * self.variance / norm)
        return np.asarray(uniform + along + factor[:, None] * rest)


STATISTICS: dict[str, type[TestStatistic]] = {
    "lr": _LikelihoodRatio,
    "score": _Score,
    "wald": _Wald,
    "js-pearson": _JamesSteinPearson,
}


def means_to_draw_from(model: Any, fitted: Array) -> Array:
    """The cell means of the null that a bootstrap draws from, given the fitted ones, shape (p,).

    Notes
    -----
    The fitted means are more uneven than the truth, by the noise in the parameters; where noise
    dominates, they put cells at 0 that hold records, and tables drawn from them are too easy to
    fit (a bootstrap of 5 x 5 tables with n = 200 and sigma = 14 then rejects 9 % at 5 %). So they
    are drawn toward equal cells, u: by the James-Stein factor 1 - q v / |fitted - u|^2, q the free
    parameters and v the mean noise variance, but by no more than half; and the model is fitted to
    that (classically, through its margins), so that the null holds. Without noise, nothing moves.
    """
    possible = model._possible
    equal = _equal_cells(model, fitted)
    noise = model.cells.noise_in_fit(model._design, fitted, possible)
    spread = float(((fitted - equal) ** 2).sum())
    if noise == 0:
        return fitted
    kept = max(0.5, 1 - noise / spread) if spread > 0 else 0.5
    beta = model.classical_fit(equal + kept * (fitted - equal))
    return np.asarray(model._at(beta).cells.fitted)


def _equal_cells(model: Any, fitted: Array) -> Array:
    """The means of equal cells in each stratum, with the totals of the fitted ones."""
    possible, space = model._possible, model.space
    if not space.is_joint:
        first = math.prod(space.shape[k] for k in space.cliques[0])
        return np.asarray(float(fitted[:first].sum()) * space.sums(np.zeros(space.size))[1])
    strata = np.zeros(fitted.size, dtype=np.intp) if model.cells.strata is None else model._strata
    groups = int(strata.max()) + 1
    sizes = np.maximum(np.bincount(strata, possible, groups), 1)
    return np.asarray((np.bincount(strata, fitted, groups) / sizes)[strata] * possible)


def _fits(model: Any, tables: Tables, null_fit: Any) -> ReplicateFits:
    """The model on many tables, from halfway between the null fit and equal cells.

    At the null fit itself a cell that has died there would stay dead.
    """
    fitted = null_fit._fit.fitted
    if not model.space.is_joint:
        half = (fitted + _equal_cells(model, fitted)) / 2
    else:
        half = (fitted + fitted.sum() / model.n_cells) / 2 * model._possible
    return tables.fit(model._design, model._offset, model.classical_fit(half))


def _dense(model: Any) -> Array:
    return np.asarray(model._design.matrix().toarray())


def is_quick(hypothesis: Hypothesis, n_boot: int) -> bool:
    """Whether so many replicates take no more than a minute or two, so that nobody has to ask."""
    model, larger = hypothesis.model, hypothesis.alternative
    models = [model, *([] if larger is None else [larger])]
    work = sum(model.cells.replicate_work(m._design.n_columns) for m in models)
    return bool(n_boot * work <= MAX_WORK)


def can_write_out(hypothesis: Hypothesis) -> bool:
    """Whether the designs are small enough for a bootstrap or a Wald statistic."""
    models = [hypothesis.model, *filter(None, [hypothesis.alternative])]
    return all(m.cells.noisy.size * m._design.n_columns <= MAX_DENSE for m in models)
