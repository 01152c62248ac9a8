"""Two factors of a release under the saturated model, and any function of their table.

The cell probabilities are those of noise-aware maximum likelihood; a measure is a smooth function
of them, of degree 0, with a standard error by the delta method (METHODS 2.6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError, check_alpha
from dpcontingency.inference.cells import AnyRelease, Likelihood
from dpcontingency.inference.contour import Contour, Measure, gradient_of
from dpcontingency.inference.estimates import Estimate, Scale
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.noncentral import GaussianCells
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release

Array = npt.NDArray[np.float64]
Side = Literal["row", "column"]

MAX_CELLS = 2048
MAX_PROFILED = 100  # cells, beyond which a search along the likelihood takes several seconds
NO_ERROR = 1e-9  # a standard error, relative to the range of a measure, that is rounding
SINGULAR = 1e-11
ROUNDING = 1e-12
AT_INFINITY = 1e-6  # x / (1 + x) of a ratio this near 1, or 0, is at the end of its range


@dataclass(frozen=True, eq=False)
class TwoFactors:
    """Which table a measure is about: checked names, and the margin over them.

    Attributes
    ----------
    margin : Release or MarginRelease
        The released margin over the given factors, the row and the column, in this order.
    row, column : str
        The two factors.
    given : tuple of str
        What is conditioned on.
    alpha : float
        1 - the level of intervals.
    """

    margin: AnyRelease
    row: str
    column: str
    given: tuple[str, ...]
    alpha: float

    @classmethod
    def of(
        cls, release: AnyRelease, row: str, column: str, given: Sequence[str], alpha: float
    ) -> TwoFactors:
        """The margin that a measure is about.

        Raises
        ------
        ModelError
            If this is no release, a factor is named twice, the level makes no sense or the table
            is too large.
        """
        if not isinstance(release, Release | MarginRelease):
            raise ModelError(
                f"A measure is estimated from a Release or a MarginRelease; got "
                f"{type(release).__name__}. A noisy table made elsewhere enters by "
                "Release.from_noisy_table, if it was neither rounded nor shrunken."
            )
        check_alpha(alpha)
        given = (given,) if isinstance(given, str) else tuple(given)
        involved = [*given, row, column]
        if len(set(involved)) < len(involved):
            raise ModelError(f"Each factor is named once; got {', '.join(map(repr, involved))}.")
        margin = release.margin(*involved)
        if margin.domain.size > MAX_CELLS:
            raise ModelError(
                f"Measures are for tables of at most {MAX_CELLS:,} cells, and this one has "
                f"{margin.domain.size:,}; condition on fewer factors."
            )
        if {row, column} <= set(margin.strata) and set(given) <= set(margin.strata):
            raise ModelError(
                f"The joint margin of {row!r} and {column!r} is public, so there is nothing to "
                "estimate: compute the measure from the public totals."
            )
        return cls(margin, row, column, given, alpha)

    @property
    def domain(self) -> Domain:
        """Factors and levels of the margin."""
        return self.margin.domain

    @property
    def shape(self) -> tuple[int, int, int]:
        """Combinations of the given levels, rows, columns."""
        *given, rows, columns = self.domain.shape
        return math.prod(given), rows, columns

    @property
    def possible(self) -> npt.NDArray[np.bool_]:
        """Which cells can hold records, of the shape `shape`."""
        return np.asarray(self.domain.possible().reshape(self.shape))

    @property
    def accounts_for(self) -> tuple[str, ...]:
        """The sources of variation."""
        return ("sampling",) if self.margin.noise.is_exact else ("sampling", "noise")

    @property
    def in_words(self) -> str:
        """The factors and the conditions."""
        return f"{self.row} and {self.column}" + self.condition

    @property
    def condition(self) -> str:
        """The given factors in words, or nothing."""
        return f" given {', '.join(self.given)}" if self.given else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the release says about itself where it protects nobody."""
        return () if self.margin.private else (self.margin.statement()["Privacy"],)

    def one_level(self) -> str:
        """Why a table with a factor of one level has no association; empty where it has two."""
        for name, axis in ((self.row, 1), (self.column, 2)):
            if self.possible.any(axis=(0, 3 - axis)).sum() < 2:
                only = "a single level" + " that is possible" * (self.shape[axis] > 1)
                return f"{name} has {only}, so it is associated with nothing"
        return ""

    def undefined(self, name: str, of: str, reason: str) -> Estimate:
        """An estimate of what has no value here whatever the data are."""
        return Estimate.undefined(name, of, 1 - self.alpha, self.accounts_for, reason)

    def left_open(
        self, name: str, of: str, reason: str, low: float = 0.0, high: float = 1.0
    ) -> Estimate:
        """An estimate of what the data tell nothing of, with the ends of its range."""
        return Estimate.left_open(
            name, of, 1 - self.alpha, self.accounts_for, reason, (low, high), self.notes
        )


@dataclass(frozen=True, eq=False)
class SaturatedTable:
    """Fitted means of the saturated model, shape (K, r, c), with their covariance.

    Attributes
    ----------
    about : TwoFactors
        The table.
    likelihood : Likelihood
        Of the margin.
    means : ndarray, shape (K, r, c)
        Noise-aware maximum-likelihood estimates of the expected counts; the counts themselves
        when there is no noise.
    top : float
        The log-likelihood there.
    covariance : ndarray, shape (p, p)
        Of the means, sampling and noise.
    """

    about: TwoFactors
    likelihood: Likelihood
    means: Array
    top: float
    covariance: Array

    @classmethod
    def fit(cls, about: TwoFactors) -> SaturatedTable:
        """Fit the saturated model.

        Notes
        -----
        Inside the simplex the covariance is V J^- V, J the observed information about the log
        rates and V the covariance of counts. Where noise leaves a cell at 0 its log rate has
        none; the covariance is then that of the Gaussian approximation, V plus noise, to which
        the other one tends there. With no noise both are V. Of released margins it is V plus the
        covariance of the noise.
        """
        cells = LogLinearModel(about.margin, [about.domain.names]).cells
        best = cells.saturated()
        law = cells.law(best.fitted)
        covariance = law.covariance()
        dead = (best.fitted == 0) & (law.variances > 0)
        if law.variances.any() and not (cells.of_margins or dead.any()):
            covariance = _observed(best.hessian().dense(), law, covariance)
        return cls(about, cells, best.fitted.reshape(about.shape), best.loglik, covariance)

    @classmethod
    def or_reason(cls, about: TwoFactors) -> SaturatedTable | str:
        """Fit it, or say why the data tell nothing of the association of two factors."""
        table = cls.fit(about)
        return table.records() or table

    def records(self) -> str:
        """Why a table with all records in one level has no association; else empty."""
        for name, axis in ((self.about.row, 1), (self.about.column, 2)):
            others = tuple({0, 1, 2} - {axis})
            if int((self.means.sum(axis=others) > 0).sum()) < 2:
                return f"no more than one level of {name} holds records, as far as can be told"
        return ""

    def estimate(
        self,
        name: str,
        of: str,
        measure: Measure,
        scale: Scale,
        empty: str,
        *,
        by_likelihood: bool = False,
    ) -> Estimate:
        """A measure with its standard error and interval.

        Parameters
        ----------
        name, of : str
            As in `Estimate`.
        measure : callable
            The measure of tables of shape (..., K, r, c).
        scale : Scale
            Where the interval is made.
        empty : str
            Why the measure is left open where it comes out as nan.
        by_likelihood : bool
            Whether the interval is that of the profile likelihood, in tables of up to
            `MAX_PROFILED` cells; else it is normal on the scale. At an end of the range it always
            is by likelihood.
        """
        about, alpha = self.about, self.about.alpha
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(measure(self.means))
        if math.isnan(value):
            return about.left_open(name, of, empty, scale.low, scale.high)
        for end in (scale.low, 0.0, scale.high):
            value = end if abs(value - end) < ROUNDING else value
        se, link_se, reason = math.nan, math.nan, ""
        gradient = gradient_of(measure, self.means) if math.isfinite(value) else None
        if gradient is not None and scale.low < value < scale.high:
            se = math.sqrt(max(float(gradient @ self.covariance @ gradient), 0.0))
        link, flat = "likelihood", not se > NO_ERROR * max(abs(value), 1.0)
        if flat:  # at an end of the range or without slope
            se = math.nan
        else:
            link_se = se * scale.slope(value)
        searched = flat or (by_likelihood and self.means.size <= MAX_PROFILED)
        if searched:
            interval, reason = self._profile(measure, scale, value)
        if not flat and (reason or not searched):
            link, reason, interval = scale.name, "", scale.interval(value, se, alpha)
        return Estimate(
            name, of, value, se, interval, 1 - alpha, link, link_se, about.accounts_for, reason,
            about.notes,
        )  # fmt: skip

    def _profile(
        self, measure: Measure, scale: Scale, value: float
    ) -> tuple[tuple[float, float], str]:
        """The profile-likelihood interval; an end that the estimate sits on stays there."""
        contour = Contour(
            self.likelihood,
            self.about.domain.possible().ravel(),
            self.means,
            self.top,
            float(stats.chi2.isf(self.about.alpha, 1)) / 2,
        )
        endless = math.isinf(scale.high)

        def bounded(means: npt.NDArray[Any]) -> npt.NDArray[Any]:
            found = measure(means)
            return np.asarray(found / (1 + found)) if endless else found

        def end(limit: float, side: float) -> float | None:
            if value == limit:
                return value
            found = contour.extreme(bounded, side)
            if found is None or not endless:
                return found
            if found > 1 - AT_INFINITY:
                return math.inf
            return found / (1 - found) if found > AT_INFINITY else 0.0

        lower, upper = end(scale.low, -1.0), end(scale.high, 1.0)
        if lower is None or upper is None:
            return (scale.low, scale.high), (
                "the estimate is at an end of its range or has no slope there, and the interval by "
                "likelihood could not be found, so that it is the whole range"
            )
        return (min(lower, value), max(upper, value)), ""


def _observed(information: Array, law: GaussianCells, fallback: Array) -> Array:
    """V J^- V, the covariance of the means by the observed information J of the log rates."""
    scale = np.sqrt(np.maximum(np.diag(-information), 0.0))
    scale = np.divide(1.0, scale, out=np.zeros(scale.size), where=scale > 0)
    values, vectors = np.linalg.eigh(-information * np.outer(scale, scale))
    kept = np.abs(values) > SINGULAR * max(float(values.max()), 1.0)
    if (values[kept] < 0).any():  # no maximum to second order
        return fallback
    root = law.sampling(scale[:, None] * vectors[:, kept] / np.sqrt(values[kept]))
    return np.asarray(root @ root.T)


def estimate(
    about: TwoFactors,
    name: str,
    of: str,
    measure: Measure,
    scale: Scale,
    empty: str = "",
    *,
    by_likelihood: bool = False,
) -> Estimate:
    """A measure of the saturated table, or the reason why it has none."""
    if reason := about.one_level():
        return about.undefined(name, of, reason)
    table = SaturatedTable.or_reason(about)
    if isinstance(table, str):
        return about.left_open(name, of, table, scale.low, scale.high)
    constant = f"{about.row} or {about.column} does not vary where records can be compared"
    return table.estimate(name, of, measure, scale, empty or constant, by_likelihood=by_likelihood)


def check_side(dependent: str, known: tuple[str, ...]) -> None:
    """Refuse what does not say which factor is explained."""
    if dependent not in known:
        raise ModelError(
            f"dependent says which factor is explained, one of {', '.join(map(repr, known))}; got "
            f"{dependent!r}."
        )


def of_side(about: TwoFactors, dependent: str) -> str:
    """The explained factor in words."""
    if dependent == "symmetric":
        return dependent
    return f"{about.row if dependent == 'row' else about.column} explained"
