"""What refits that hold a coefficient at values say of it, beside the estimate of a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from statsmodels.base.model import LikelihoodModelResults

from dpcontingency.errors import ModelError
from dpcontingency.inference.fits import Fit, invert, treatment_covariance
from dpcontingency.inference.limits import is_open
from dpcontingency.inference.profile import Held, Profile

Array = npt.NDArray[np.float64]


def require_maximum(result: Any, why: str) -> None:
    """Refuse a fit whose log-likelihood is not the maximum.

    Parameters
    ----------
    result : LogLinearResults
        The fit.
    why : str
        What needs the maximum, as the first half of the sentence.

    Raises
    ------
    ModelError
        If the fit is by another method than maximum likelihood, or with a penalty.
    """
    if not result.maximises_likelihood:
        how = f"penalty={result.penalty!r}" if result.penalty else f"method={result.method!r}"
        raise ModelError(
            f"{why}, and the fit of {result.generating_class} by fit({how}) is elsewhere; "
            "use fit() for this."
        )


class HeldResults(LikelihoodModelResults):
    """Tests and intervals by refits of a model; `CoefficientResults` adds the estimates."""

    _fit: Fit
    _held: dict[tuple[bytes, float, str], Held]  # those that were asked for: refits take long

    # -- how it was fitted ---------------------------------------------------------------------

    @property
    def method(self) -> str:
        """The method of the fit: "ml" or "normal"."""
        return self._fit.method

    @property
    def penalty(self) -> str | None:
        """What was added to the log-likelihood: None or "jeffreys"."""
        return self._fit.penalty

    @property
    def maximises_likelihood(self) -> bool:
        """Whether ``llf`` is the maximum of the likelihood, as likelihood ratios need it.

        So it is of fits by ``method="ml"`` without penalty, and without noise by "normal" too.
        """
        exact = bool(self.model.cells.is_exact)
        return self.penalty is None and (self.method == "ml" or exact)

    # -- refits ----------------------------------------------------------------------------------

    @property
    def refit_method(self) -> str:
        """By what refits give tests and intervals: "score", "profile", or empty where none can."""
        if not self.converged:
            return ""
        if self.maximises_likelihood:
            return "score"
        return "profile" if self.penalty is not None and self.existence.exists else ""

    def _held_at(self, j: int, alpha: float, method: str) -> Held:
        """The test that a coefficient is 0 and its interval, by refits that hold it at values.

        Parameters
        ----------
        j : int
            Its place.
        alpha : float
            1 - the level of the interval.
        method : {"score", "profile"}
            As in `conf_int`.
        """
        recode, lost = self.model._recode, bool(self._fit.at_infinity[j])
        # A score may be in any unit; the search for ends is at home on the log scale.
        unit = float(self.model._units[j])
        combination = (np.eye(len(self.params))[j] if recode is None else recode[j]) * unit
        drift = float(np.nan_to_num(np.sign(self.params.iloc[j]))) * lost
        se = float(self.bse.iloc[j]) * unit
        return self._held_combination(combination, alpha, method, drift, se).over(unit)

    def _held_combination(
        self, combination: Array, alpha: float, method: str, drift: float, se: float
    ) -> Held:
        """As `_held_at`, of a combination of treatment-coded coefficients.

        Parameters
        ----------
        combination : ndarray, shape (q,)
            On the log scale.
        alpha, method
            As in `_held_at`.
        drift : {0, 1, -1}
            1 or -1 where its estimate is infinity or minus infinity.
        se : float
            Its standard error; nan where there is none.
        """
        key = (combination.tobytes(), alpha, method)
        if key not in self._held:
            self._check_profile(method)
            top = self._objective(self.model._treatment(self._fit.params)).value
            score = self._score_statistic if method == "score" else None
            scale = 1.0 if np.isnan(se) else se
            self._held[key] = self._profile(combination).test(alpha, top, scale, drift, score)
        return self._held[key]

    # -- parts -----------------------------------------------------------------------------------

    def _is_open(self, combination: Array) -> bool:
        """Whether the release leaves a combination of treatment-coded coefficients open."""
        model, fit = self.model, self._fit
        if model.cells.is_exact or self.penalty is not None:
            return False
        covariance = treatment_covariance(model, fit)
        return is_open(model._design, fit.fitted, model.cells.strata, covariance, combination)

    def _profile(self, combination: Array) -> Profile:
        """The profile likelihood of a combination of treatment-coded coefficients."""
        covariance = treatment_covariance(self.model, self._fit)
        estimate = self.model._treatment(self._fit.params)
        return Profile(self._objective, estimate, combination, covariance)

    @property
    def _objective(self) -> Callable[[Array], Any]:
        """What the fit maximises, at treatment-coded coefficients."""
        if self.penalty is None:
            return self.model._at  # type: ignore[no-any-return]
        return self.model._penalised(np.eye(len(self._names))).at  # type: ignore[no-any-return]

    def _score_statistic(self, beta: Array) -> float:
        """The score test of treatment-coded coefficients, with the expected information."""
        point = self.model._at(beta)
        known = self.model.cells.information(point.cells.fitted)
        covariance = invert(self.model._design.compress(known))
        return float(point.gradient @ covariance @ point.gradient)

    def _check_profile(self, method: str) -> None:
        """Refuse what needs a maximum to start from where there is none."""
        if method == "score" or self.penalty is None:
            what = "A score interval" if method == "score" else "A profile of the likelihood"
            require_maximum(self, f"{what} starts at the maximum of the likelihood")
        elif not self.existence.exists:
            names = ", ".join(self.existence.parameters)
            raise ModelError(
                f"A penalised likelihood that leaves parameters open has no profile ({names}); "
                "leave the strata without records out of the table."
            )
