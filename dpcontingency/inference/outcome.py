"""From the end of a search to a fit: cells that go to 0, parameters at infinity, covariances."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpcontingency.errors import ModelError
from dpcontingency.inference.fits import Fit, inverse_information
from dpcontingency.inference.limits import LARGE_ERROR, Limit, is_open, limit_of
from dpcontingency.inference.maxima import Highest
from dpcontingency.inference.newton import DesignPoint, Maximum
from dpcontingency.inference.normal import NormalPoint
from dpcontingency.inference.profile import Profile

Array = npt.NDArray[np.float64]


def fit_at(model: Any, found: Highest, method: str, penalty: str | None) -> Fit:
    """The fit of a model, its parameters at infinity told apart, in the model's coding.

    Parameters
    ----------
    model : LogLinearModel
        The model.
    found : Highest
        Where the search ended, as a point of the likelihood.
    method, penalty : str, str or None
        How it was searched.
    """
    best = found.best
    beta = best.beta
    limit = _limit(model, best, method, penalty)
    cells, directions = best.point.cells, limit.directions
    if not limit.face.all():
        cells = model._cells_at(beta, limit.face)
    point = DesignPoint(model._design, cells, model.cells.strata)
    if method == "ml" and penalty is None and not model.cells.of_margins:
        information = point.observed()
    else:
        information = model._design.compress(model.cells.information(cells.fitted))
    covariance = inverse_information(information, directions)
    sampling = inverse_information(point.complete(), directions)
    treatment = beta, covariance
    coding = np.eye(beta.size) if model._recode is None else model._recode
    at = (model._design, cells.fitted, model.cells.strata, covariance)
    if model._recode is not None:
        beta = coding @ beta
        covariance = coding @ covariance @ coding.T
        sampling = coding @ sampling @ coding.T
    vague = np.zeros(beta.size, dtype=np.bool_)
    if penalty is None and not model.cells.is_exact:
        wide = np.diag(covariance) * model._units**2 > LARGE_ERROR**2
        for j in np.flatnonzero(wide):
            vague[j] = is_open(*at, coding[j] * model._units[j]) or (
                method == "ml" and found.searched and _unbounded(model, best, *treatment, coding[j])
            )
    largest = np.abs(coding * model._units[:, None]).max(axis=1, initial=1.0)
    effects = coding * (model._units / largest)[:, None]
    lost = (np.abs(effects @ directions) > 1e-6).any(axis=1)
    direction = np.zeros(beta.size)
    direction[lost] = limit.signs(effects[lost])
    return Fit(
        params=beta,
        covariance=covariance,
        sampling_variance=np.diag(sampling),
        at_infinity=lost | vague,
        direction=direction,
        llf=max(best.point.value, point.value),
        fitted=cells.fitted,
        posterior_mean=cells.posterior_mean,
        converged=best.converged,
        iterations=best.iterations,
        reason=best.reason,
        method=method,
        penalty=penalty,
        second_maximum=found.second,
    )


def _unbounded(
    model: Any, best: Maximum[DesignPoint], beta: Array, covariance: Array, combination: Array
) -> bool:
    """Whether the likelihood excludes no value of a combination of coefficients, at 95 %."""
    profile = Profile(model._at, beta, combination, covariance)
    return not np.isfinite(profile.interval(best.point.value, 0.05)).any()


def _limit(model: Any, best: Maximum[DesignPoint], method: str, penalty: str | None) -> Limit:
    """Which cells the end of a search sends to 0."""
    cells, strata = best.point.cells, model.cells.strata
    if penalty is not None:
        return Limit(model._design, model._alive, model._alive, strata)
    if model.cells.is_exact:
        return Limit(model._design, model._alive, model.face, strata)

    def normal(fitted: Array) -> NormalPoint:
        return NormalPoint(model._design, model.cells.noisy, model.cells.variances, fitted, strata)

    here = normal(cells.fitted) if method == "normal" else None

    def loss(face: npt.NDArray[np.bool_]) -> float:
        try:
            there = model._cells_at(best.beta, face)
        except ModelError:  # the cells that stay cannot hold the records
            return np.inf
        if here is not None:
            return -here.rise(normal(there.fitted))
        return float(cells.loglik - there.loglik)

    score = cells.score if here is None else here.score.cells
    design, own = model.space.gauged(model._design), model._design.n_columns
    return limit_of(design, model._alive, strata, cells.fitted, score, loss, own)
