"""What a search for the maximum leaves, and the covariances that it has."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dpcontingency.inference.existence import complement
from dpcontingency.inference.inverse import generalised_inverse

Array = npt.NDArray[np.float64]

WAYS = (("ml", None), ("normal", None), ("ml", "jeffreys"))  # method and penalty
NO_INFORMATION = 1e-9  # relative to the most informative direction


@dataclass(frozen=True, eq=False)
class Fit:
    """What a search for the maximum leaves: numbers only, in the model's coding.

    Attributes
    ----------
    params, covariance : ndarray, shapes (q,) and (q, q)
        The estimate, finite everywhere, and its covariance (see `inverse_information`).
    sampling_variance : ndarray, shape (q,)
        The variances the estimate would have with no noise.
    at_infinity : ndarray of bool, shape (q,)
        The parameters that have no finite estimate, or none worth the name (`limits.is_open`).
    direction : ndarray, shape (q,)
        Where those go: 1 or -1 for infinity or minus infinity, 0 where the data leave it open.
    llf : float
        The log-likelihood.
    fitted, posterior_mean : ndarray, shape (p,)
        Fitted cell means, and expected counts given the release.
    converged, iterations, reason : bool, int, str
        Whether the search met its tolerance, its steps, and why not.
    method, penalty : str, str or None
        The arguments of `LogLinearModel.fit`.
    second_maximum : float or None
        How far below `llf` another maximum of the likelihood is, where one was found within 0.1.
    """

    params: Array
    covariance: Array
    sampling_variance: Array
    at_infinity: npt.NDArray[np.bool_]
    direction: Array
    llf: float
    fitted: Array
    posterior_mean: Array
    converged: bool
    iterations: int
    reason: str
    method: str = "ml"
    penalty: str | None = None
    second_maximum: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Fit:
        """The fit that `to_dict` wrote."""
        size = len(content["params"])
        arrays = {k: np.asarray(v) for k, v in content.items() if isinstance(v, list)}
        arrays["covariance"] = arrays["covariance"].reshape(size, size)
        arrays["at_infinity"] = arrays["at_infinity"].astype(np.bool_)  # also where there is none
        return cls(**{**content, **arrays})

    def is_of(self, q: int, p: int) -> bool:
        """Whether these are numbers for q parameters and p cells."""
        of_parameters = (self.params, self.sampling_variance, self.at_infinity, self.direction)
        shapes = [*((array, (q,)) for array in of_parameters), (self.covariance, (q, q))]
        shapes += [(self.fitted, (p,)), (self.posterior_mean, (p,))]
        arrays = all(array.shape == shape and array.dtype.kind in "bif" for array, shape in shapes)
        kinds = {"llf": float, "converged": bool, "iterations": int, "reason": str}
        plain = all(type(getattr(self, name)) is kind for name, kind in kinds.items())
        plain &= type(self.second_maximum) in (float, type(None))
        return arrays and plain and (self.method, self.penalty) in WAYS


def treatment_covariance(model: Any, fit: Fit) -> Array:
    """The covariance of the coefficients in treatment coding, whatever the model's coding.

    Where some are at infinity it is exact for all combinations that can be estimated.
    """
    if model._recode is None:
        return fit.covariance
    half = np.linalg.solve(model._recode, fit.covariance)
    return np.asarray(np.linalg.solve(model._recode, half.T).T, dtype=np.float64)


def sampling_covariance(model: Any, fit: Fit) -> Array:
    """The covariance that the treatment-coded coefficients would have with no noise.

    A generalised inverse of the complete information at the fit: right for all combinations that
    can be estimated. Cells that the fit leaves empty stay so.
    """
    cells = model._cells_at(model._treatment(fit.params), fit.fitted > 0)
    return generalised_inverse(model._design.compress(cells.complete_information()))


def inverse_information(information: Array, directions: Array) -> Array:
    """The covariance of all combinations of coefficients that can be estimated.

    Parameters
    ----------
    information : ndarray, shape (q, q)
        Of the coefficients.
    directions : ndarray, shape (q, r)
        Orthonormal: what the data leave open. A combination can be estimated if it is orthogonal
        to them.

    Notes
    -----
    The inverse of what the information is on the complement of the directions. In the limit it
    has nothing on the directions themselves, so this is exact; the traces of information that a
    search leaves there, of rates near 1e-10, would only spoil the digits of an inverse.
    """
    if directions.shape[1] == 0:
        return invert(information)
    basis = complement(directions)
    return np.asarray(basis @ invert(basis.T @ information @ basis) @ basis.T, dtype=np.float64)


def invert(inside: Array) -> Array:
    """The inverse of an information matrix; a generalised one where it is singular."""
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(inside)), 1e-300))
    scaled = inside * np.outer(scale, scale)
    try:
        inverse = cho_solve(cho_factor(scaled), np.eye(len(scaled)))
    except LinAlgError:  # a search that ended early
        values, vectors = np.linalg.eigh(scaled)
        kept = values > NO_INFORMATION * max(float(values.max()), 1.0)
        inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    return np.asarray(inverse * np.outer(scale, scale), dtype=np.float64)
