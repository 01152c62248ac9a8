"""Where the chi-square law of a statistic holds: one rule, which every printed p-value asks.

Asymptotics fail where noise or sampling may have emptied what a model fits. A likelihood ratio
then often has a maximum at the boundary, and its law is no chi-square: too small by far in large
tables (a p-value of 1 says nothing), too large for some terms. The score statistic of the Gaussian
approximation keeps its chi-square there, or stays below it (`benchmarks/validity.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

FAINT = 2.5  # standard deviations above 0 that every fitted mean needs for chi-square to hold


@dataclass(frozen=True)
class Calibration:
    """Whether chi-square is the law of a statistic on a release.

    Attributes
    ----------
    holds : bool
        Whether an asymptotic p-value means anything. If not, none is printed.
    reason : str
        Why not; or, where it holds, why it is rough. Plain words without a full stop, empty where
        there is nothing to say.
    direction : {"", "conservative", "unknown"}
        Which way an asymptotic p-value is wrong: too large, or either. Empty where it is right, or
        where there is none: it is then not given on request either.

    Examples
    --------
    >>> bool(Calibration(True)), Calibration(False, "the table is empty").reason
    (True, 'the table is empty')
    """

    holds: bool
    reason: str = ""
    direction: Literal["", "conservative", "unknown"] = ""

    def __bool__(self) -> bool:
        return self.holds

    @property
    def note(self) -> str:
        """What is said beside an asymptotic p-value that is printed; empty where it is sound."""
        if not self.reason:
            return ""
        manner = "may be conservative" if self.holds else "is doubtful"
        return f"Chi-square {manner}, because {self.reason}."


def chi_square(statistic: str, null: Any, alternative: Any = None) -> Calibration:
    """Whether chi-square is the law of a statistic of a model against a larger one.

    Parameters
    ----------
    statistic : {"lr", "score", "wald"}
        The likelihood ratio, the score statistic or Wald's.
    null : LogLinearResults
        The fit of the smaller model.
    alternative : LogLinearModel or None
        The larger model of the same release; None for the saturated one.

    Returns
    -------
    Calibration
        True where chi-square holds; else with the reason, to be printed in the p-value's place.

    Notes
    -----
    Without noise the classical answer is given, whatever the counts. With noise, likelihood ratio
    and Wald statistics are chi-square where each mean in question lies at least 2.5 standard
    deviations sqrt(mean + noise variance) above 0, by the fit of the null. In question are the
    cells of the margins that the larger model fits and the null does not: of the joint table, or
    of the released margins, for the saturated one. The score statistic holds everywhere but where
    a fitted mean is 0; within those standard deviations it may be conservative. The rule is the
    same for every kind of release.

    Examples
    --------
    >>> from dpcontingency import Domain, LogLinearModel, Release
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> noisy = [[30.5, 4.0], [3.1, 2.4]]
    >>> release = Release.from_noisy_table(noisy, domain, sigma=5.0, n_total=40)
    >>> fit = LogLinearModel(release, "[A][B]").fit()
    >>> chi_square("lr", fit).reason
    'the fitted mean of 3 of 4 cells is less than 2.5 standard deviations (...) above 0'
    >>> bool(chi_square("score", fit))
    True
    """
    model, fitted = null.model, null._fit.fitted
    if model.cells.is_exact:
        return Calibration(True)
    if statistic == "score" and not fitted[model._alive].all():
        return Calibration(False, EATEN)
    doubt = faint(*compared(model, fitted, alternative))
    if not doubt:
        return Calibration(True)
    if statistic == "score":
        return Calibration(True, doubt, "conservative")
    return Calibration(False, doubt, "unknown")


EATEN = (
    "noise has eaten a margin of the null model, and the score statistic has no chi-square law at "
    "such a boundary"
)


def faint(means: Array, variances: Array, possible: npt.NDArray[np.bool_]) -> str:
    """Why chi-square is a doubtful law for a likelihood ratio, in words; empty where it is not.

    Parameters
    ----------
    means, variances : ndarray, shape (m,)
        Fitted means of the null model, of all cells that are compared, and their noise variances.
    possible : ndarray of bool, shape (m,)
        The cells that can hold a record.

    Examples
    --------
    >>> faint(np.array([50.0, 9.0]), np.array([25.0, 25.0]), np.array([True, True]))
    'the fitted mean of 1 of 2 cells is less than 2.5 standard deviations (...) above 0'
    """
    if not variances.any():
        return ""
    low = possible & (means < FAINT * np.sqrt(means + variances))
    if not low.any():
        return ""
    return (
        f"the fitted mean of {low.sum():,} of {possible.sum():,} cells is less than "
        f"{FAINT:g} standard deviations (sampling and noise together) above 0"
    )


def no_pvalue(calibration: Calibration, way: str) -> str:
    """What stands in the place of a p-value: why there is none, and the way to one.

    Examples
    --------
    >>> no_pvalue(Calibration(False, "a cell is faint"), "use pvalue='bootstrap'")
    "its chi-square p-value is not calibrated here: a cell is faint; use pvalue='bootstrap'"
    """
    return f"its chi-square p-value is not calibrated here: {calibration.reason}; {way}"


def compared(
    model: Any, fitted: Array, alternative: Any
) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """Means, noise variances and possibility of the cells of the margins that are compared."""
    domain, space = model.release.domain, model.space
    margins = model.release.margins if alternative is None else _added(model, alternative)
    means, variances, possible = [], [], []
    for margin in margins:
        axes = sorted(domain.axis(name) for name in margin)
        means.append(space.margin(fitted, axes).ravel())
        variances.append(model.cells.noise_of_margin(domain.shape, axes))
        if space.is_joint:
            possible.append(space.margin(model._possible.astype(float), axes).ravel() > 0)
        else:  # structural zeros are of joint tables
            possible.append(np.ones(means[-1].size, dtype=np.bool_))
    return np.concatenate(means), np.concatenate(variances), np.concatenate(possible)


def _added(model: Any, alternative: Any) -> Sequence[tuple[str, ...]]:
    """The margins that the larger model fits and the smaller does not."""
    inside = [set(margin) for margin in model.associations]
    margins: Sequence[tuple[str, ...]] = alternative.associations
    return [m for m in margins if not any(set(m) <= old for old in inside)] or margins
