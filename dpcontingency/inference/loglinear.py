"""Log-linear models of a released table, with the noise of the release in the likelihood."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from statsmodels.base.model import LikelihoodModel

from dpcontingency.domain import label_text
from dpcontingency.errors import ConvergenceWarning, ExistenceWarning, ModelError
from dpcontingency.inference.design import HierarchicalDesign, sum_coding
from dpcontingency.inference.existence import (
    STEP_AT_INFINITY,
    facial_set,
    independent_columns,
    undetermined,
)
from dpcontingency.inference.formula import (
    Generators,
    formula_class,
    generating_class,
    show,
    subsets,
)
from dpcontingency.inference.likelihood import LikelihoodPoint, NoisyTableLikelihood
from dpcontingency.inference.newton import Maximum, maximise
from dpcontingency.inference.results import Fit, LogLinearResults
from dpcontingency.release import files
from dpcontingency.release.noise import stratum_labels
from dpcontingency.release.release import Release

Array = npt.NDArray[np.float64]
Coding = Literal["treatment", "sum"]

START_ROUNDS = 12  # of the classical fit that a fit starts from; only a margin near 0 needs more


@dataclass(frozen=True)
class _Point:
    """A likelihood point seen through the design, in treatment coding."""

    design: HierarchicalDesign
    cells: LikelihoodPoint

    @property
    def value(self) -> float:
        return self.cells.loglik

    @cached_property
    def gradient(self) -> Array:
        return self.design.tdot(self.cells.score)

    def observed(self) -> Array:
        return -self.design.compress(self.cells.hessian())

    def complete(self) -> Array:
        return self.design.compress(self.cells.complete_information())

    def reach(self, step: Array) -> float:
        return float(np.abs(self.design.dot(step)).max(initial=0.0))


class LogLinearModel(LikelihoodModel):
    """A hierarchical log-linear model of the counts behind a release.

    The counts are multinomial given a public total (product-multinomial given strata, Poisson
    where nothing is public) with log cell probabilities X b; the release adds noise of known law.
    The likelihood sums over the unseen counts.

    Parameters
    ----------
    release : Release
        The noisy table. Its shrunken estimate is never used.
    generators : str or iterable
        The generating class: ``"[Admit Dept][Gender Dept]"`` or
        ``[("Admit", "Dept"), ("Gender", "Dept")]``.
    coding : {"treatment", "sum"}
        What a coefficient compares: a level with the first one of its factor, or with the mean.

    Raises
    ------
    ModelError
        If a name is unknown or the model has nothing to explain.

    Notes
    -----
    With public totals there is no intercept, and terms inside the strata are fixed by design and
    have no parameter; the strata margin is added to the model where it is missing. Every factor
    is categorical whatever its labels look like.

    References
    ----------
    METHODS 2.1 and 2.2 in the documentation; Louis 1982 for the information.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    >>> release = Release.from_noisy_table(
    ...     [[91.5, 38.0, 62.1], [47.7, 55.2, 80.3]], domain, sigma=5.0, n_total=375
    ... )
    >>> result = LogLinearModel(release, "[A][B]").fit()
    >>> result.params.round(2)
    A[T.b]   -0.06
    B[T.v]   -0.41
    B[T.w]    0.01
    dtype: float64
    """

    def __init__(
        self,
        release: Release,
        generators: str | Iterable[str | Sequence[str]],
        *,
        coding: Coding = "treatment",
    ) -> None:
        if not isinstance(release, Release):
            raise ModelError(
                f"A log-linear model is fitted to a Release; got {type(release).__name__}. A noisy "
                "table made elsewhere enters by Release.from_noisy_table."
            )
        if coding not in ("treatment", "sum"):
            raise ModelError(f"The coding is 'treatment' or 'sum'; got {coding!r}.")
        self.release = release
        self.coding = coding
        names = release.domain.names
        asked = generating_class(generators, names)
        self.generators: Generators = (
            generating_class([*asked, release.strata], names) if release.strata else asked
        )
        self.terms = self._free_terms()
        axes = [tuple(release.domain.axis(name) for name in term) for term in self.terms]
        given = release.conditioned()
        strata = tuple(release.domain.axis(name) for name in release.strata)
        self._strata = stratum_labels(given.domain.shape, strata)
        self._possible = release.domain.possible().ravel()
        self._design = HierarchicalDesign(release.domain.shape, axes, strata)
        self._recode = None if coding == "treatment" else sum_coding(release.domain.shape, axes)
        self.aliased: tuple[str, ...] = ()
        if release.domain.structural_zeros:
            self._drop_aliased()
        self.cells = NoisyTableLikelihood(
            given.noisy.ravel(),
            given.noise.variances.ravel(),
            strata=None if given.totals is None else self._strata,
            totals=None if given.totals is None else np.ravel(given.totals).astype(np.float64),
        )
        self._offset = np.where(self._possible, 0.0, -np.inf)
        super().__init__(release.noisy.ravel())
        self.data.xnames = [self._column_name(code) for code in self._design.codes]

    @classmethod
    def from_formula(
        cls, formula: str, release: Release, *, coding: Coding = "treatment"
    ) -> LogLinearModel:
        """The model that a patsy right-hand side in the factors spans.

        Parameters
        ----------
        formula : str
            Such as ``"Admit*Dept + Gender*Dept"``. Only factor names (plain, in backticks or as
            ``Q("...")``) and ``+ - * : / ** ( )``: a formula is data and nothing in it is run.
        release : Release
            The noisy table.
        coding : {"treatment", "sum"}
            As for the class.
        """
        return cls(release, formula_class(formula, release.domain.names), coding=coding)

    # -- what the model is ---------------------------------------------------------------------

    @property
    def generating_class(self) -> str:
        """The generating class in brackets."""
        return show(self.generators) if self.generators else "[]"

    @property
    def n_cells(self) -> int:
        """The number of possible cells."""
        return int(self._possible.sum())

    @cached_property
    def face(self) -> npt.NDArray[np.bool_]:
        """The cells that keep a positive mean at the maximum, flat.

        With exact counts the facial set (`existence.facial_set`); with noise every possible cell
        of the strata that hold records.
        """
        totals = self.cells.totals
        alive = self._possible if totals is None else self._possible & (totals[self._strata] > 0)
        if not self.release.noise.is_exact:
            return alive
        return facial_set(self._design, self.cells.noisy, alive, self._strata)

    @cached_property
    def df_model(self) -> int:
        """The number of free parameters, on the cells that the data leave alive."""
        if self.face.sum() == self.n_cells:
            return self._design.n_columns
        return int(independent_columns(self._design, self.face, self.cells.strata).sum())

    @property
    def df_resid(self) -> int:
        """Free cells minus free parameters: the df of a test against the saturated model."""
        strata = self.cells.strata
        totals = 0 if strata is None else np.unique(strata[self.face]).size
        return int(self.face.sum()) - totals - self.df_model

    @cached_property
    def saturated_loglike(self) -> float:
        """The largest log-likelihood that any cell probabilities give this release."""
        return self.cells.saturated().loglik

    # -- likelihood ----------------------------------------------------------------------------

    def loglike(self, params: npt.ArrayLike) -> float:
        """The log-likelihood of the release at these parameters (METHODS 2.2)."""
        return self._at(self._treatment(params)).value

    def score(self, params: npt.ArrayLike) -> Array:
        """The gradient of `loglike`."""
        gradient = self._at(self._treatment(params)).gradient
        if self._recode is None:
            return gradient
        return np.asarray(np.linalg.solve(self._recode.T, gradient))

    def hessian(self, params: npt.ArrayLike) -> Array:
        """The Hessian of `loglike`."""
        return -self._recoded_information(self._at(self._treatment(params)).observed())

    def information(self, params: npt.ArrayLike) -> Array:
        """The observed information, minus the Hessian."""
        return -self.hessian(params)

    def predict(self, params: npt.ArrayLike) -> Array:
        """The fitted cell means at these parameters, in C order."""
        return self._at(self._treatment(params)).cells.fitted

    def fit(
        self, *, method: Literal["ml"] = "ml", warn_convergence: bool = True
    ) -> LogLinearResults:
        """Fit the model.

        Parameters
        ----------
        method : {"ml"}
            Noise-aware maximum likelihood: Newton steps on the observed information from the
            fit that ignores the noise.
        warn_convergence : bool
            Whether to warn of what the results also say in ``converged`` and ``existence``.

        Returns
        -------
        LogLinearResults
            Standard errors from the observed information, so they cover sampling and noise.

        Warns
        -----
        ConvergenceWarning
            If the search ended short of a maximum, with the reason.
        ExistenceWarning
            If parameters have no finite estimate, naming them.
        """
        if method != "ml":
            raise ModelError(f"The method is 'ml'; got {method!r}.")
        best = maximise(self._at, self._start())
        results = self._results(best)
        if warn_convergence and not best.converged:
            warnings.warn(
                f"The fit of {self.generating_class} did not converge: {best.reason}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        elif warn_convergence and not results.existence.exists:
            warnings.warn(results.existence.reason, ExistenceWarning, stacklevel=2)
        return results

    # -- parts ---------------------------------------------------------------------------------

    def _free_terms(self) -> list[tuple[str, ...]]:
        """The terms with parameters: the intercept where nothing is public, none in the strata."""
        terms = subsets(self.generators, self.release.domain.names)
        if self.release.totals is None:
            return [(), *terms]
        return [term for term in terms if not set(term) <= set(self.release.strata)]

    def _at(self, beta: Array) -> _Point:
        eta = self._design.dot(beta) + self._offset
        return _Point(self._design, self.cells.at(eta))

    def _start(self) -> Array:
        """The classical fit, which looks at the noisy cells through the model's margins alone.

        Those are unbiased, and mostly positive where cells are not. If noise has eaten a margin
        the fit runs off; then the expected counts under equal rates take the place of the noisy
        cells, which makes one step of EM.
        """
        flat = np.zeros(self._design.n_columns)
        if self.release.totals is None:
            flat[0] = np.log(max(float(self.cells.noisy.sum()), 1.0) / self.n_cells)

        def fitted_to(counts: Array) -> Maximum[_Point]:
            def classical(beta: Array) -> _Point:
                eta = self._design.dot(beta) + self._offset
                return _Point(self._design, self.cells.as_counts(eta, counts))

            return maximise(classical, flat, START_ROUNDS)

        start, equal = fitted_to(self.cells.noisy), self._at(flat)
        stays = start.converged and start.point.reach(start.last_step) < STEP_AT_INFINITY
        if stays and self._at(start.beta).value >= equal.value:
            return start.beta
        return fitted_to(equal.cells.posterior_mean).beta

    def _results(self, best: Maximum[_Point]) -> LogLinearResults:
        point = best.point
        step = best.last_step
        open_directions = undetermined(
            self._design, step, point.cells.fitted, self.face, self.cells.strata
        )
        covariance = _inverse(point.observed())
        sampling = _inverse(point.complete())
        beta = best.beta
        if self._recode is not None:
            beta = self._recode @ beta
            covariance = self._recode @ covariance @ self._recode.T
            sampling = self._recode @ sampling @ self._recode.T
            step, open_directions = self._recode @ step, self._recode @ open_directions
        fit = Fit(
            params=beta,
            covariance=covariance,
            sampling_variance=np.diag(sampling),
            at_infinity=np.asarray((np.abs(open_directions) > 1e-6).any(axis=1)),
            direction=np.where(np.abs(step) > STEP_AT_INFINITY, np.sign(step), 0.0),
            llf=point.value,
            fitted=point.cells.fitted,
            posterior_mean=point.cells.posterior_mean,
            converged=best.converged,
            iterations=best.iterations,
            reason=best.reason,
        )
        return LogLinearResults(self, fit)

    def _treatment(self, params: npt.ArrayLike) -> Array:
        """Treatment-coded coefficients from coefficients in the model's coding."""
        values = np.asarray(params, dtype=np.float64)
        size = self._design.n_columns
        if values.shape != (size,):
            raise ModelError(
                f"The model has {size} parameters; got an array of shape {values.shape}."
            )
        if self._recode is None:
            return values
        return np.asarray(np.linalg.solve(self._recode, values))

    def _recoded_information(self, information: Array) -> Array:
        if self._recode is None:
            return information
        half = np.linalg.solve(self._recode.T, information)
        return np.asarray(np.linalg.solve(self._recode.T, half.T).T)

    def _drop_aliased(self) -> None:
        """Leave out columns that structural zeros make combinations of others."""
        strata = None if self.release.totals is None else self._strata
        kept = independent_columns(self._design, self._possible, strata)
        if kept.all():
            return
        if self._recode is not None:
            raise ModelError(
                "Structural zeros leave some coefficients of this model without meaning, which "
                "sum coding cannot show. Use coding='treatment'."
            )
        self.aliased = tuple(self._column_name(code) for code in self._design.codes[~kept])
        self._design = self._design.keep(kept)

    def _column_name(self, code: npt.NDArray[np.intp]) -> str:
        """The name patsy gives the column: ``A[T.b]:C[T.x]``, or ``A[S.a]`` in sum coding."""
        letter, shift = ("T", 0) if self.coding == "treatment" else ("S", -1)
        levels = self.release.domain.levels
        parts = [
            f"{name}[{letter}.{label_text(levels[name][k + shift])}]"
            for name, k in zip(levels, code, strict=True)
            if k > 0
        ]
        return ":".join(parts) or "Intercept"


def _inverse(information: Array) -> Array:
    """The inverse of an information matrix; a generalised one where it is singular."""
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(information)), 1e-300))
    scaled = information * scale[:, None] * scale[None, :]
    try:
        inverse = cho_solve(cho_factor(scaled), np.eye(len(scaled)))
    except LinAlgError:
        values, vectors = np.linalg.eigh(scaled)
        keep = values > 1e-13
        inverse = (vectors[:, keep] / values[keep]) @ vectors[:, keep].T
    return np.asarray(inverse * scale[:, None] * scale[None, :])


def load_results(path: str | Path) -> LogLinearResults:
    """Read results that `LogLinearResults.save` wrote; no confidential data is needed or held.

    Raises
    ------
    ReleaseError
        If the file holds no results, is of another version, or was changed.
    """
    content = files.read(path, files.RESULTS)
    release = Release.from_dict(content["release"])
    model = LogLinearModel(release, content["generators"], coding=content["coding"])
    return LogLinearResults(model, Fit.from_dict(content["fit"]))


# The results module knows no model class, so the way back is given to it here.
LogLinearResults.load = staticmethod(load_results)
