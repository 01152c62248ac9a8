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
from dpcontingency.inference.inverse import generalised_inverse
from dpcontingency.inference.quotient import over
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


def columns_of(design: Any, axes: Sequence[int]) -> npt.NDArray[np.intp]:
    """The columns of a design whose terms lie in some axes."""
    others = np.ones(design.codes.shape[1], dtype=np.bool_)
    others[list(axes)] = False
    return np.flatnonzero(~(design.codes[:, others] > 0).any(axis=1))


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
    def around(cls, model: Any, fit: Any, covariance: Array, names: Sequence[str]) -> FittedCells:
        """The cells of some factors, all others at their first levels, up to a factor of the means.

        For odds ratios of a model whose joint table is too large to write down.

        Parameters
        ----------
        model, fit, covariance
            As in `of`.
        names : sequence of str
            The factors.
        """
        domain, design, space = model.release.domain, model._design, model.space
        axes = [domain.axis(name) for name in names]
        shape = tuple(space.shape[axis] for axis in axes)
        inside = columns_of(design, axes)
        beta = model._treatment(fit.params)[inside]
        rows = CellRows(shape, design.codes[inside][:, axes])
        logs = rows.of(np.arange(rows.n_cells)) @ beta
        drifts = bool(fit.at_infinity.any())
        return cls(
            rows=rows,
            covariance=covariance[np.ix_(inside, inside)],
            means=np.exp(logs - logs.max()),
            strata=None if model.release.totals is None else (),
            possible=np.ones(rows.n_cells, dtype=np.bool_),
            vanished=drifts & (space.margin(fit.fitted, axes).ravel() < VANISHED),
        )

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
        covariance = generalised_inverse(information)
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

        Where ``reason`` says that nothing is known, the interval is the whole range; where every
        cell that it is a share of is impossible it is nan.

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
        open_ = np.isnan(self._log_se) & (self.reason != IMPOSSIBLE).to_numpy()
        lower[open_], upper[open_] = 0.0, np.inf if self.what == "mean" else 1.0
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


def check_what(what: str, given: tuple[str, ...]) -> None:
    """Refuse what is no kind of prediction, or does not go with what is conditioned on.

    Raises
    ------
    ModelError
        If it is none, or does not.
    """
    if what not in ("mean", "proportion", "conditional"):
        raise ModelError(f"what is 'mean', 'proportion' or 'conditional'; got {what!r}.")
    if (what == "conditional") != bool(given):
        raise ModelError(
            "what='conditional' and given=[...], the factors to condition on, go together; "
            f"got what={what!r} and given={list(given)}."
        )


def predict_margin(
    model: Any,
    fit: Any,
    covariance: Array,
    index: pd.Index,
    margin: tuple[str, ...],
    what: What,
    given: tuple[str, ...],
) -> CellPrediction:
    """The prediction of every cell of a margin.

    Parameters
    ----------
    model, fit, covariance
        As in `FittedCells.of`.
    index : pandas.Index
        Of the cells.
    margin : tuple of str
        The factors.
    what, given
        As in `LogLinearResults.get_prediction`.

    Notes
    -----
    The delta method: the gradient of the logarithm of a mean is E[x | cell] less E[x | stratum] in
    the coefficients, x the row of a joint cell, averaged over the strata that the cell is in; that
    of a share is this less its own average over what it is a share of.
    """
    domain = model.release.domain
    means, sums = margin_slopes(model, fit, margin)
    gradient, value = over(sums, means), means
    if what != "mean":
        others = tuple(i for i, name in enumerate(margin) if name not in given)
        total = means.sum(axis=others, keepdims=True)
        value = np.where(total > 0, over(means, total), np.nan if given else 0.0)
        whole = sums.sum(axis=tuple(i + 1 for i in others), keepdims=True)
        gradient = gradient - over(whole, total)
    flat, value = gradient.reshape(len(gradient), -1), value.ravel()
    variances = np.maximum((flat * (covariance @ flat)).sum(axis=0), 0.0)
    vanished = bool(fit.at_infinity.any()) & (means.ravel() < VANISHED)
    log_se = np.where(vanished | np.isnan(value), np.nan, np.sqrt(variances))
    log_se[(value == 0) & ~vanished] = 0.0
    reason = np.where(vanished, AT_INFINITY, np.where(np.isnan(value), NO_RECORDS, ""))
    reason[~domain.project(margin).possible().ravel()] = IMPOSSIBLE
    if what == "conditional":
        log_se[value == 1] = 0.0
    return CellPrediction(
        what=what,
        given=given,
        predicted_mean=pd.Series(value, index=index, name=what),
        se=pd.Series(value * log_se, index=index, name="se"),
        reason=pd.Series(reason.astype(object), index=index, name="reason"),
        _log_se=log_se,
    )


def margin_slopes(model: Any, fit: Any, margin: tuple[str, ...]) -> tuple[Array, Array]:
    """The fitted means of a margin, and their derivatives in the coefficients: (q, *shape)."""
    domain, release = model.release.domain, model.release
    names = (*margin, *(name for name in release.strata if name not in margin))
    axes = [domain.axis(name) for name in names]
    means = model.space.margin(fit.fitted, axes)
    sums = _column_sums(model, fit.fitted, axes)  # of each column, by cell
    if release.totals is not None:
        inside = [i for i, name in enumerate(names) if name not in release.strata]
        total = means.sum(axis=tuple(inside), keepdims=True)
        centre = sums.sum(axis=tuple(i + 1 for i in inside), keepdims=True)
        sums = sums - over(means, total) * centre
    beyond = tuple(range(len(margin), len(names)))
    return means.sum(axis=beyond), sums.sum(axis=tuple(i + 1 for i in beyond))


def _column_sums(model: Any, fitted: Array, axes: Sequence[int]) -> Array:
    """X' D by cell of a margin, D the fitted means: the sum of each column there."""
    design, space = model._design, model.space
    shape = tuple(space.shape[axis] for axis in axes)
    out = np.zeros((design.n_columns, *shape))
    tables: dict[Axes, Array] = {}
    for j, code in enumerate(design.codes):
        term = tuple(int(axis) for axis in np.flatnonzero(code))
        rest = tuple(axis for axis in term if axis not in axes)
        if rest not in tables:
            tables[rest] = space.margin(fitted, [*axes, *rest])
        at = tuple(int(code[axis]) if axis in term else slice(None) for axis in axes)
        out[j][at] = tables[rest][(*at, *(int(code[axis]) for axis in rest))]
    for k in range(design.extra.n_columns if design.extra else 0):
        out[len(design.codes) + k] = space.margin(fitted * design.extra.column(k), axes)
    return out


def predict_cells(
    cells: FittedCells, index: pd.Index, what: What, given: tuple[str, ...], axes: Axes
) -> CellPrediction:
    """The prediction of every cell; ``axes`` are those of the ``given`` factors.

    Raises
    ------
    ModelError
        If ``what`` is unknown, or ``given`` and it do not go together.
    """
    check_what(what, given)
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
