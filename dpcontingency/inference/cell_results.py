"""The cells of a fit: fitted means, and residuals of what was released."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpcontingency.domain import Domain, listed
from dpcontingency.errors import ModelError
from dpcontingency.inference import residuals
from dpcontingency.inference.coefficients import CoefficientResults
from dpcontingency.inference.fits import treatment_covariance
from dpcontingency.inference.gaussian import gaussian_information
from dpcontingency.inference.inverse import generalised_inverse
from dpcontingency.inference.prediction import FittedCells, margin_slopes
from dpcontingency.release.noise import stratum_labels

Array = npt.NDArray[np.float64]

MAX_MARGIN_CELLS = 10**7


class CellResults(CoefficientResults):
    """What a fit says of its cells; `LogLinearResults` adds the model as a whole."""

    @property
    def fittedvalues(self) -> pd.Series:
        """Fitted cell means, by cell; they add up to ``n_total`` where it is public.

        Raises
        ------
        ModelError
            If the joint table is too large to write down: see `fitted_margin`.
        """
        self.model.require_joint("fittedvalues")
        return self._by_cell(self._fit.fitted)

    def fitted_margin(self, *factors: str | Sequence[str]) -> pd.Series:
        """Fitted means of the cells of a margin, by cell, also where there are too many joint ones.

        Parameters
        ----------
        factors : str
            The margin, which need not have been released. With intervals, by
            ``get_prediction(margin=factors)``.

        Raises
        ------
        DomainError
            If a factor is unknown or named twice.
        ModelError
            If the margin itself is too large.

        Examples
        --------
        >>> from dpcontingency import Domain, LogLinearModel, Release
        >>> release = Release.exact([[3, 4], [5, 8]], Domain({"A": ["a", "b"], "B": ["u", "v"]}))
        >>> LogLinearModel(release, "[A][B]").fit().fitted_margin("B").to_dict()
        {'u': 8.0, 'v': 12.0}
        """
        factors = listed(factors)
        domain = self._part(factors)
        axes = [self.model.release.domain.axis(name) for name in domain.names]
        means = self.model.space.margin(self._fit.fitted, axes)
        return pd.Series(means.ravel(), index=cells_of(domain))

    @property
    def resid_response(self) -> pd.Series:
        """Noisy cell minus fitted mean."""
        if self._is_whole_margin:
            return self.margin_residuals(*self.model.release.domain.names)["resid_response"]
        self._check_cells()
        return self._by_cell(self.model.cells.noisy - self._fit.fitted)

    @property
    def resid_pearson(self) -> pd.Series:
        """Residual over the root of (mean + noise variance): Pearson's when there is no noise.

        The noise variance is that of independent noise on the cell, as in METHODS 2.3.
        """
        if self._is_whole_margin:
            return self.margin_residuals(*self.model.release.domain.names)["resid_pearson"]
        self._check_cells()
        variance = self._fit.fitted + self.model.cells.variances
        with np.errstate(divide="ignore", invalid="ignore"):
            values = (self.model.cells.noisy - self._fit.fitted) / np.sqrt(variance)
        return self._by_cell(np.where(variance > 0, values, 0.0))

    @property
    def resid_adjusted(self) -> pd.Series:
        """Residual over its standard deviation under the fitted model, noise included.

        Agresti's adjusted (standardised) residuals when there is no noise; about N(0, 1) in each
        cell of a model that holds. nan where the model fits the cell whatever the data are.

        Notes
        -----
        In the Gaussian approximation (METHODS 2.3) y - mu has covariance Sigma = V + noise, and
        the fitted means differ from mu by V X B X' V Sigma^- (y - mu), B = (X' V Sigma^- V X)^-1.
        So the residual is (I - V X B X' V Sigma^-)(y - mu), of covariance Sigma - V X B X' V. Its
        diagonal is Sigma_cc - mu_c^2 times the variance of the log mean with B for the covariance
        of the coefficients: O(p) a factor, and nothing p x p.
        """
        if self._is_whole_margin:
            return self.margin_residuals(*self.model.release.domain.names)["resid_adjusted"]
        return self._by_cell(self._adjusted)

    @property
    def standardized_resids(self) -> pd.Series:
        """Another name of ``resid_adjusted``, as in `statsmodels.stats.contingency_tables`."""
        return self.resid_adjusted

    @property
    def resid_deviance(self) -> pd.Series:
        """Signed root of what each cell takes from the deviance: those of a GLM without noise.

        With noise, twice what the cell's own log-likelihood of its rate, count and noise summed
        over, lacks at the fitted mean to its maximum. Squares add up to ``deviance`` where no
        total is public; where one is, up to what the shared total says.
        """
        self._check_cells()
        cells = self.model.cells
        return self._by_cell(
            residuals.deviance_residuals(cells.noisy, self._fit.fitted, cells.variances)
        )

    def margin_residuals(self, *factors: str | Sequence[str]) -> pd.DataFrame:
        """Residuals of the cells of a released margin.

        Parameters
        ----------
        factors : str
            A margin that was released, or a part of one.

        Returns
        -------
        DataFrame
            By cell ``noisy`` and ``fitted``; ``resid_response``, their difference;
            ``resid_pearson``, this over the root of mean and noise variance; and
            ``resid_adjusted``, over its standard deviation under the fitted model: about N(0, 1)
            in a model that holds, nan where the fit follows the cell whatever the data are.

        Raises
        ------
        ModelError
            If the margin leaves out a stratum factor, or is too large.
        PrivacyError
            If the margin was not released.

        Notes
        -----
        In the Gaussian approximation of METHODS 2.3 the variance is that of the noisy cell,
        sampling and noise, less g' C g, C the covariance of the coefficients (expected
        information) and g the derivative of the fitted mean in them; as in `resid_adjusted`.

        Examples
        --------
        >>> from dpcontingency import Domain, LogLinearModel, Release
        >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
        >>> release = Release.exact([[30, 10], [20, 40]], domain)
        >>> frame = LogLinearModel(release, "[A][B]").fit().margin_residuals("A", "B")
        >>> frame["resid_adjusted"].round(2).tolist()
        [4.08, -4.08, -4.08, 4.08]
        """
        factors = listed(factors)
        model, domain = self.model, self._part(factors)
        if model.release.strata and not set(model.release.strata) <= set(domain.names):
            raise ModelError(
                "Name the strata among the factors: residuals are of cells inside them."
            )
        margin = model.release.conditioned().margin(*domain.names)
        fitted, slopes = margin_slopes(model, self._fit, domain.names)
        noise = margin.noise_sd**2
        spread = (
            residuals.cell_variances(fitted.ravel(), np.zeros(fitted.size), self._strata_of(domain))
            + noise.ravel()
        )
        information = model._design.compress(model.cells.information(self._fit.fitted))
        covariance = generalised_inverse(information)
        flat = slopes.reshape(len(slopes), -1)
        residual = (margin.noisy - fitted).ravel()
        with np.errstate(divide="ignore", invalid="ignore"):
            pearson = residual / np.sqrt(fitted.ravel() + noise.ravel())
        adjusted = residuals.adjusted_residuals(
            residual, spread, (flat * (covariance @ flat)).sum(axis=0)
        )
        return pd.DataFrame(
            {
                "noisy": margin.noisy.ravel(),
                "fitted": fitted.ravel(),
                "resid_response": residual,
                "resid_pearson": np.where(np.isfinite(pearson), pearson, 0.0),
                "resid_adjusted": adjusted,
            },
            index=cells_of(domain),
        )

    # -- parts ---------------------------------------------------------------------------------

    @cached_property
    def _index(self) -> pd.MultiIndex:
        domain = self.model.release.domain
        levels = [list(labels) for labels in domain.levels.values()]
        return pd.MultiIndex.from_product(levels, names=list(domain.names))

    def _part(self, factors: tuple[str, ...]) -> Domain:
        """Some factors, whose cells can be written down."""
        part: Domain = self.model.release.domain.project(factors)
        if part.size > MAX_MARGIN_CELLS:
            raise ModelError(
                f"The margin of {', '.join(part.names)} has {part.size:,} cells, more than the "
                f"{MAX_MARGIN_CELLS:,} that are written down; ask for a smaller one."
            )
        return part

    def _by_cell(self, values: Array) -> pd.Series:
        return pd.Series(values, index=self._index)

    @property
    def _is_whole_margin(self) -> bool:
        """Whether the release is of margins, and one of them is the table of all factors."""
        return bool(self.model.cells.of_margins and self.model.release.is_whole)

    def _strata_of(self, domain: Domain) -> npt.NDArray[np.intp] | None:
        """The stratum of each cell of a margin that the strata are in."""
        if self.model.release.totals is None:
            return None
        axes = tuple(domain.axis(name) for name in self.model.release.strata)
        return stratum_labels(domain.shape, axes).astype(np.intp)

    def _check_cells(self) -> None:
        """Refuse residuals of cells that were not released."""
        if self.model.cells.of_margins:
            raise ModelError(
                "A release of margins has no such residuals in the cells of the joint table, whose "
                "noise is not independent: margin_residuals('A', 'B') has those of a margin."
            )

    @cached_property
    def _cells(self) -> FittedCells:
        return FittedCells.of(self.model, self._fit, treatment_covariance(self.model, self._fit))

    @cached_property
    def _adjusted(self) -> Array:
        self._check_cells()
        model, fitted = self.model, self._fit.fitted
        cells = model.cells
        if self.df_resid == 0:  # it follows every cell, and a penalty's pull is no residual
            return np.full(fitted.shape, np.nan)
        information = gaussian_information(fitted, cells.variances, cells.strata)
        return residuals.adjusted_residuals(
            cells.noisy - fitted,
            residuals.cell_variances(fitted, cells.variances, cells.strata),
            fitted**2 * self._cells.log_variances(model._design.compress(information)),
        )


def cells_of(domain: Domain) -> pd.Index:
    """The cells of some factors by their levels."""
    levels = [list(labels) for labels in domain.levels.values()]
    if len(levels) == 1:
        return pd.Index(levels[0], name=domain.names[0])
    return pd.MultiIndex.from_product(levels, names=list(domain.names))
