"""Results of a fit, in statsmodels' names, with the parts of each standard error told apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from statsmodels.base.model import LikelihoodModelResults

from dpcontingency.inference.existence import Existence
from dpcontingency.inference.gaussian import score_statistic
from dpcontingency.inference.printing import summary_of
from dpcontingency.release import files

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fit:
    """What a search for the maximum leaves: numbers only, in the model's coding.

    Attributes
    ----------
    params, covariance : ndarray, shapes (q,) and (q, q)
        The estimate, finite everywhere, and the inverse of the observed information.
    sampling_variance : ndarray, shape (q,)
        The variances the estimate would have with no noise.
    at_infinity : ndarray of bool, shape (q,)
        The parameters whose maximum is at infinity.
    llf : float
        The log-likelihood.
    fitted, posterior_mean : ndarray, shape (p,)
        Fitted cell means, and expected counts given the release.
    converged, iterations, reason : bool, int, str
        Whether the search met its tolerance, its steps, and why not.
    """

    params: Array
    covariance: Array
    sampling_variance: Array
    at_infinity: npt.NDArray[np.bool_]
    llf: float
    fitted: Array
    posterior_mean: Array
    converged: bool
    iterations: int
    reason: str

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
        return cls(**{**content, **arrays})


class LogLinearResults(LikelihoodModelResults):
    """What `LogLinearModel.fit` returns.

    Standard errors, tests and intervals cover sampling and the noise of the release, under the
    normal approximation; ``aic`` and ``bic`` are those of the likelihood of the release.

    Attributes
    ----------
    params, bse, tvalues, pvalues : pandas.Series
        Coefficients, standard errors, z statistics and two-sided p-values, by column name. A
        coefficient whose maximum is at infinity is inf or -inf with no standard error (see
        ``existence``).
    llf : float
        The log-likelihood (METHODS 2.2).
    converged : bool
        Whether the search ended at a maximum; ``reason`` says why not.
    existence : Existence
        Whether all parameters have finite estimates.
    """

    load: ClassVar[Callable[[str | Path], LogLinearResults]]

    def __init__(self, model: Any, fit: Fit) -> None:
        names = list(model.exog_names)
        lost = fit.at_infinity
        estimates = np.where(lost, np.copysign(np.inf, fit.params), fit.params)
        covariance = np.where(lost[:, None] | lost[None, :], np.nan, fit.covariance)
        super().__init__(model, estimates, normalized_cov_params=covariance, scale=1.0)
        self.params = pd.Series(estimates, index=names)
        self.df_model = model.df_model
        self.df_resid = model.df_resid
        self.converged = fit.converged
        self.iterations = fit.iterations
        self.reason = fit.reason
        self.existence = Existence(tuple(n for n, out in zip(names, lost, strict=True) if out))
        self._names = names
        self._fit = fit

    # -- coefficients --------------------------------------------------------------------------

    @property
    def bse(self) -> pd.Series:
        """Standard errors, sampling and noise: the root of the inverse observed information."""
        return self._series(np.sqrt(np.diag(self.normalized_cov_params)))

    @property
    def bse_sampling(self) -> pd.Series:
        """Standard errors the same fit would have with no noise: from the complete information."""
        return self._series(
            np.sqrt(np.where(self._fit.at_infinity, np.nan, self._fit.sampling_variance))
        )

    @property
    def bse_privacy(self) -> pd.Series:
        """What the noise adds: bse^2 = bse_sampling^2 + bse_privacy^2."""
        return self._series(np.sqrt(np.maximum(self.bse**2 - self.bse_sampling**2, 0.0)))

    @property
    def privacy_share(self) -> pd.Series:
        """The part of each variance that is due to the noise."""
        return self.bse_privacy**2 / self.bse**2

    @property
    def tvalues(self) -> pd.Series:
        """Coefficients over their standard errors."""
        return self.params.where(~self._fit.at_infinity) / self.bse

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of the z statistics, by the normal upper tail."""
        return self._series(2 * stats.norm.sf(np.abs(self.tvalues)))

    def conf_int(self, alpha: float = 0.05, cols: Any = None) -> pd.DataFrame:
        """Wald intervals of level 1 - alpha, covering sampling and noise."""
        half = stats.norm.isf(alpha / 2) * self.bse
        frame = pd.DataFrame({0: self.params - half, 1: self.params + half})
        return frame if cols is None else frame.iloc[np.asarray(cols)]

    def cov_params(self, *args: Any, **kwargs: Any) -> Any:
        """The covariance of the coefficients, or of linear combinations as in statsmodels."""
        if args or any(value is not None for value in kwargs.values()):
            return super().cov_params(*args, **kwargs)
        return pd.DataFrame(self.normalized_cov_params, index=self._names, columns=self._names)

    def t_test(self, *args: Any, **kwargs: Any) -> Any:
        """Test linear hypotheses, as `LikelihoodModelResults.t_test`."""
        return self._on_arrays.t_test(*args, **kwargs)

    def wald_test(self, *args: Any, **kwargs: Any) -> Any:
        """Joint Wald test of linear hypotheses, as `LikelihoodModelResults.wald_test`."""
        return self._on_arrays.wald_test(*args, **kwargs)

    # -- fit -----------------------------------------------------------------------------------

    @property
    def llf(self) -> float:
        """The log-likelihood of the release at the estimate."""
        return self._fit.llf

    @property
    def nobs(self) -> int:
        """The number of possible cells, as in a GLM of the counts."""
        return int(self.model.n_cells)

    @property
    def n_total(self) -> float:
        """The number of records; the noisy total where it is not public."""
        release = self.model.release
        return float(release.n_total_estimate if release.totals is None else release.n_total)

    @property
    def generators(self) -> tuple[tuple[str, ...], ...]:
        """The maximal margins of the model."""
        return tuple(self.model.generators)

    @property
    def generating_class(self) -> str:
        """The generating class in brackets."""
        return str(self.model.generating_class)

    @property
    def aic(self) -> float:
        """-2 llf + 2 parameters; only differences between fits of one release mean anything."""
        return float(-2 * self.llf + 2 * self.df_model)

    @property
    def bic(self) -> float:
        """-2 llf + log(n_total) parameters."""
        return float(-2 * self.llf + np.log(max(self.n_total, 1.0)) * self.df_model)

    @property
    def deviance(self) -> float:
        """2 (log-likelihood of the saturated model - llf): G2 when there is no noise."""
        return max(0.0, 2 * float(self.model.saturated_loglike - self.llf))

    @cached_property
    def pearson_chi2(self) -> float:
        """The score statistic of METHODS 2.3: Pearson's X2 when there is no noise."""
        cells = self.model.cells
        return score_statistic(
            cells.noisy - self._fit.fitted, self._fit.fitted, cells.variances, cells.strata
        )

    def gof(self) -> pd.DataFrame:
        """Likelihood-ratio and score tests of the model against the saturated one.

        Both account for sampling and noise; the reference distribution is chi-square on
        ``df_resid``, by its upper tail. A model with no df to spare has nothing to test: nan.
        """
        frame = pd.DataFrame(
            {"statistic": np.nan, "df": self.df_resid, "pvalue": np.nan},
            index=["noise-aware LR", "noise-aware score"],
        )
        if self.df_resid > 0:
            frame["statistic"] = [self.deviance, self.pearson_chi2]
            frame["pvalue"] = stats.chi2.sf(frame["statistic"], self.df_resid)
        return frame

    # -- cells ---------------------------------------------------------------------------------

    @property
    def fittedvalues(self) -> pd.Series:
        """Fitted cell means, by cell; they add up to ``n_total`` where it is public."""
        return self._by_cell(self._fit.fitted)

    @property
    def resid_response(self) -> pd.Series:
        """Noisy cell minus fitted mean."""
        return self._by_cell(self.model.cells.noisy - self._fit.fitted)

    @property
    def resid_pearson(self) -> pd.Series:
        """Residual over the root of (mean + noise variance): Pearson's when there is no noise.

        The noise variance is that of independent noise on the cell, as in METHODS 2.3.
        """
        variance = self._fit.fitted + self.model.cells.variances
        with np.errstate(divide="ignore", invalid="ignore"):
            values = (self.model.cells.noisy - self._fit.fitted) / np.sqrt(variance)
        return self._by_cell(np.where(variance > 0, values, 0.0))

    def posterior_mean(self) -> Array:
        """The expected counts given the release, at the fit: shape ``domain.shape``.

        Never negative; adds up to the public totals. The best estimate of the counts when the
        model is near the truth, worse than the noisy table when it is not (METHODS 2.8). For
        reading and publishing, never the input of a test.
        """
        return self._fit.posterior_mean.reshape(self.model.release.domain.shape)

    # -- printing and files --------------------------------------------------------------------

    def summary(self, alpha: float = 0.05) -> Any:
        """The fit on a page, as a statsmodels Summary.

        The last column, ``priv.``, is the share of the variance that is due to the noise.
        """
        return summary_of(self, alpha)

    def save(self, path: str | Path) -> None:
        """Write the results and their release to a JSON file; `load` is the way back."""
        model = self.model
        content = {
            "release": model.release.to_dict(),
            "generators": [list(margin) for margin in model.generators],
            "coding": model.coding,
            "fit": self._fit.to_dict(),
        }
        files.write(path, content, files.RESULTS)

    def __repr__(self) -> str:
        state = "" if self.converged else ", NOT CONVERGED"
        return (
            f"<LogLinearResults {self.generating_class}: LR against saturated "
            f"{self.deviance:.4g} on {self.df_resid} df{state}>"
        )

    # -- parts ---------------------------------------------------------------------------------

    @cached_property
    def _on_arrays(self) -> LikelihoodModelResults:
        """The same estimates as arrays, on which statsmodels' tests of hypotheses work."""
        plain = LikelihoodModelResults(
            self.model, self.params.to_numpy(), self.normalized_cov_params, scale=1.0
        )
        plain.df_resid = self.df_resid
        return plain

    def _series(self, values: Any) -> pd.Series:
        return pd.Series(np.asarray(values), index=self._names)

    def _by_cell(self, values: Array) -> pd.Series:
        domain = self.model.release.domain
        index = pd.MultiIndex.from_product(
            [list(levels) for levels in domain.levels.values()], names=list(domain.names)
        )
        return pd.Series(values, index=index)
