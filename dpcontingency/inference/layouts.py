"""How well a joint release and released margins would tell of a model, before either is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpcontingency.domain import Domain, without_nan
from dpcontingency.errors import ModelError
from dpcontingency.inference.fits import inverse_information
from dpcontingency.inference.formula import generating_class
from dpcontingency.inference.loglinear import Coding, LogLinearModel
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.neighbours import REPLACE_ONE
from dpcontingency.release.contrasts import contrasts
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release
from dpcontingency.release.sensitivity import Neighbours
from dpcontingency.release.workload import plan_margins

Array = npt.NDArray[np.float64]


def joint_or_margins(
    domain: Domain,
    model: str | Iterable[str | Sequence[str]],
    privacy: GDP,
    *,
    n: int = 1000,
    probabilities: npt.ArrayLike | None = None,
    neighbours: str = REPLACE_ONE,
    coding: Coding = "treatment",
) -> pd.DataFrame:
    """Predict a model's standard errors from the joint table and from its margins alone.

    Parameters
    ----------
    domain : Domain
        The public factors and levels.
    model : str or iterable
        A generating class, as `LogLinearModel` takes it. Its generators are the margins that
        would be released, by `plan_margins`.
    privacy : GDP
        The loss, the same for both.
    n : int
        The number of records to expect.
    probabilities : array_like, shape ``domain.shape``, optional
        The cell probabilities to expect, all positive; equal by default. What is best depends on
        them: a joint table tells of the model by the interactions outside of it too, the more
        so the more unequal its cells are.
    neighbours : {"replace-one", "add-remove"}
        What the loss protects.
    coding : {"treatment", "sum"}
        Of the coefficients.

    Returns
    -------
    DataFrame
        A row a coefficient: ``no_noise``, ``joint`` and ``margins``, the standard errors without
        noise and from either layout (METHODS 2.3, at the expected counts), and ``ratio``, margins
        over joint.

    Raises
    ------
    ModelError
        If the probabilities are not positive or have another shape, or n is not positive.

    Examples
    --------
    >>> domain = Domain({name: ["no", "yes"] for name in "ABCDEFGH"})
    >>> pairs = [a + b for i, a in enumerate("ABCDEFGH") for b in "ABCDEFGH"[i + 1 :]]
    >>> frame = joint_or_margins(domain, [tuple(pair) for pair in pairs], GDP(0.1), n=20_000)
    >>> frame[["joint", "margins"]].median().round(3).tolist()
    [0.053, 0.035]
    """
    possible = domain.possible()
    p = possible if probabilities is None else probabilities
    p = without_nan(np.asarray(p, dtype=np.float64), possible)
    if p.shape != domain.shape or not (np.isfinite(p).all() and ((p > 0) == possible).all()):
        raise ModelError(
            "The probabilities are positive, 0 in structural zeros, and of the shape "
            f"{domain.shape}."
        )
    if not n > 0:
        raise ModelError(f"n is a number of records, above 0; got {n}.")
    expected = n * p / p.sum()
    generators = generating_class(model, domain.names)
    sigma = privacy.sigma(Neighbours(domain, neighbours).l2_sensitivity)
    public = neighbours == REPLACE_ONE
    joint = Release.from_noisy_table(
        expected, domain, sigma=sigma, n_total=n if public else None, neighbours=neighbours
    )
    plan = plan_margins(domain, generators, privacy, neighbours=neighbours)
    parts = {}
    for a in plan.cell_scales:
        others = tuple(k for k, name in enumerate(domain.names) if name not in a)
        parts[a] = contrasts(expected.sum(axis=others))
    margins = MarginRelease(plan, parts, int(n) if public else None, "simulated", {})
    of_joint = LogLinearModel(joint, generators, coding=coding)
    of_margins = LogLinearModel(margins, generators, coding=coding)
    # Not by Release.exact, which takes fractions that add up to 100 for percentages.
    free = Release.from_noisy_table(expected, domain, sigma=0, n_total=n)
    exact = LogLinearModel(free, generators, coding=coding)
    frame = pd.DataFrame(
        {
            "no_noise": _standard_errors(exact, expected.ravel()).reindex(of_joint.exog_names),
            "joint": _standard_errors(of_joint, expected.ravel()),
            "margins": _standard_errors(of_margins, expected.ravel()),
        }
    )
    frame["ratio"] = frame["margins"] / frame["joint"]
    return frame


def _standard_errors(model: LogLinearModel, fitted: Array) -> pd.Series:
    information = model._design.compress(model.cells.information(fitted))
    covariance = inverse_information(information, np.zeros((len(information), 0)))
    if model._recode is not None:
        covariance = model._recode @ covariance @ model._recode.T
    return pd.Series(np.sqrt(np.diag(covariance)), index=model.exog_names)
