"""Fitted means, proportions and conditional probabilities of the cells, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from scipy.special import expit

from dpcontingency.errors import ModelError, check_alpha, shown
from dpcontingency.inference.rows import CellRows

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Axes = tuple[int, ...]
What = Literal["mean", "proportion", "conditional"]

# Where parameters drift, a cell whose mean has fallen this far is on its way to 0: the search ends
# when no more than 1e-11 of log-likelihood is left to win, and the cell's mean is about that.
VANISHED = 1e-6

AT_INFINITY = "depends on a parameter at infinity"
IMPOSSIBLE = "structural zero"
NO_RECORDS = "no records to share out"


@dataclass(frozen=True, eq=False)
class FittedCells:
    """A fit as its cells see it, in treatment coding.

    Attributes
    ----------
    rows : CellRows
        The rows of the design.
    covariance : ndarray, shape (q, q)
        Of the coefficients, sampling and noise.
    means : ndarray, shape (p,)
        Fitted means.
    strata : tuple of int or None
        The axes inside whose cells totals are public; None where none is.
    possible, vanished : ndarray of bool, shape (p,)
        Cells that can hold records, and those that the fit sends to 0.
    """

    rows: CellRows
    covariance: Array
    means: Array
    strata: Axes | None
    possible: Mask
    vanished: Mask

    @classmethod
    def of(cls, model: Any, fit: Any, covariance: Array) -> FittedCells:
        """The cells of a fit of a model, with its covariance in treatment coding."""
        domain, release = model.release.domain, model.release
        possible = domain.possible().ravel()
        strata = None
        if release.totals is not None:
            strata = tuple(sorted(domain.axis(name) for name in release.strata))
        drifts = bool(fit.at_infinity.any())
        return cls(
            rows=CellRows(domain.shape, model._design.codes, model._design.extra),
            covariance=covariance,
            means=fit.fitted,
            strata=strata,
            possible=possible,
            vanished=possible & drifts & (fit.fitted < VANISHED),
        )

    def log_variances(self, information: Array) -> Array:
        """The variances that log means have by an information matrix of the coefficients."""
        scale = 1 / np.sqrt(np.maximum(np.diag(information), 1e-300))
        inverse = np.linalg.pinv(information * np.outer(scale, scale), 1e-13, hermitian=True)
        covariance = np.asarray(inverse * np.outer(scale, scale), dtype=np.float64)
        return self.rows.log_variances(covariance, self.means, self.strata, None)


@dataclass(frozen=True, eq=False)
class CellPrediction:
    """Fitted values of all cells with standard errors and intervals, in statsmodels' names.

    Attributes
    ----------
    what : {"mean", "proportion", "conditional"}
        What is fitted.
    given : tuple of str
        The factors that a conditional probability is given.
    predicted_mean, se : pandas.Series
        Fitted values and standard errors, by cell. These cover sampling and the noise of the
        release, by the delta method on ``cov_params``.
    reason : pandas.Series
        Why a cell has no interval, or is known to be 0; else empty.

    Notes
    -----
    Intervals are normal on the log scale for means and on the logit scale for proportions and
    conditional probabilities, so they never leave the range of what they are for.
    """

    what: What
    given: tuple[str, ...]
    predicted_mean: pd.Series
    se: pd.Series
    reason: pd.Series
    _log_se: Array = field(repr=False)

    @property
    def se_mean(self) -> pd.Series:
        """Another name of ``se``, as in statsmodels."""
        return self.se

    @property
    def var_pred_mean(self) -> pd.Series:
        """The square of ``se``, as in statsmodels."""
        return self.se**2

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals of level 1 - alpha, covering sampling and noise: ``lower`` and ``upper``.

        Raises
        ------
        ModelError
            If ``alpha`` is not between 0 and 1.
        """
        check_alpha(alpha)
        value = self.predicted_mean.to_numpy()
        half = stats.norm.isf(alpha / 2) * self._log_se
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.what == "mean":
                ends = [value * np.exp(-half), value * np.exp(half)]
            else:
                logit = np.log(value) - np.log1p(-value)
                ends = [expit(logit + sign * half / (1 - value)) for sign in (-1, 1)]
        fixed = (self.se.to_numpy() == 0) & np.isfinite(value)
        lower, upper = (np.where(fixed, value, end) for end in ends)
        return pd.DataFrame({"lower": lower, "upper": upper}, index=self.predicted_mean.index)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Everything in one frame, columns named as statsmodels names them, and ``reason``."""
        interval = self.conf_int(alpha)
        return pd.DataFrame(
            {
                "mean": self.predicted_mean,
                "mean_se": self.se,
                "mean_ci_lower": interval["lower"],
                "mean_ci_upper": interval["upper"],
                "reason": self.reason,
            }
        )


def predict_cells(
    cells: FittedCells, index: pd.Index, what: What, given: tuple[str, ...], axes: Axes
) -> CellPrediction:
    """The prediction of every cell; ``axes`` are those of the ``given`` factors.

    Raises
    ------
    ModelError
        If ``what`` is unknown, or ``given`` and it do not go together.
    """
    if what not in ("mean", "proportion", "conditional"):
        raise ModelError(f"what is 'mean', 'proportion' or 'conditional'; got {what!r}.")
    if (what == "conditional") != bool(given):
        raise ModelError(
            "what='conditional' and given=[...], the factors to condition on, go together; "
            f"got what={what!r} and given={list(given)}."
        )
    value, within = cells.means, None
    reason = np.full(value.size, "", dtype=object)
    if what == "conditional":
        within = tuple(sorted(axes))
        shape = cells.rows.shape
        others = tuple(k for k in range(len(shape)) if k not in within)
        table = value.reshape(shape)
        total = table.sum(axis=others, keepdims=True)
        empty = np.broadcast_to(total == 0, shape).ravel()
        reason[empty] = NO_RECORDS
        value = np.divide(
            table, total, out=np.full(shape, np.nan), where=np.broadcast_to(total > 0, shape)
        ).ravel()
    elif what == "proportion":
        within = () if cells.strata is None else None
        value = value / value.sum()
    variances = cells.rows.log_variances(cells.covariance, cells.means, cells.strata, within)
    log_se = np.where(value > 0, np.sqrt(variances), 0.0)
    log_se[np.isnan(value) | cells.vanished] = np.nan
    reason[cells.vanished] = AT_INFINITY
    reason[~cells.possible] = IMPOSSIBLE
    if what == "conditional":
        log_se[value == 1] = 0.0  # the only possible cell of its group
    return CellPrediction(
        what=what,
        given=given,
        predicted_mean=pd.Series(value, index=index, name=what),
        se=pd.Series(value * log_se, index=index, name="se"),
        reason=pd.Series(reason, index=index, name="reason"),
        _log_se=log_se,
    )


def cells_named(domain: Any, records: Any) -> Sequence[int]:
    """Flat positions of the cells that the rows of a frame, or of columns in a mapping, name.

    Raises
    ------
    ModelError
        If a factor has no column.
    DomainError
        If a level is not declared; the message names the factor, the value and known levels.
    """
    try:
        frame = pd.DataFrame(records)
    except ValueError:
        raise ModelError(
            "Cells are named by a DataFrame or a mapping with a column of levels for every factor; "
            f"got {shown(records)}."
        ) from None
    missing = [name for name in domain.names if name not in frame]
    if missing:
        raise ModelError(
            "Prediction needs a column for every factor of the release; missing: "
            f"{', '.join(map(repr, missing))}."
        )
    levels = [[domain.index(name, level) for level in frame[name]] for name in domain.names]
    positions = np.ravel_multi_index([np.asarray(k, dtype=np.intp) for k in levels], domain.shape)
    return [int(k) for k in positions]
