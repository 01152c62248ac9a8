"""Linear hypotheses about coefficients, with any text for a name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from patsy import DesignInfo, PatsyError
from scipy import stats
from statsmodels.stats.contrast import WaldTestResults

from dpcontingency.errors import ModelError

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

INSTEAD = (
    "Write it in the names of `params`, such as 'A[T.b] = B[T.c]', or give an array with one row "
    "a restriction and one column a parameter."
)


def restrictions(hypothesis: Any, names: Sequence[str], at_infinity: Mask) -> tuple[Array, Array]:
    """A hypothesis as R and q of R b = q.

    Parameters
    ----------
    hypothesis : str, mapping, sequence of str, array_like or tuple of two arrays
        As in statsmodels: ``"a = b, c = 1"``, ``{"a": 0}``, R, or (R, q). A name is typed as it
        stands in ``params``, whatever its characters; backticks around it are allowed.
    names : sequence of str
        The parameters.
    at_infinity : ndarray of bool
        Those without a finite estimate.

    Raises
    ------
    ModelError
        If the hypothesis cannot be read, or needs a parameter that has no finite estimate.

    Examples
    --------
    >>> names = ["A[T.b]", "A[T.b]:my x[T.=1]"]
    >>> R, q = restrictions("A[T.b]:my x[T.=1] = 2 * A[T.b]", names, np.zeros(2, bool))
    >>> R
    array([[-2.,  1.]])
    """
    q: Array | None = None
    if isinstance(hypothesis, Mapping):
        rows, q = _from_mapping(hypothesis, names)
    elif isinstance(hypothesis, str):
        rows, q = _from_text(hypothesis, names)
    elif _is_texts(hypothesis):
        rows, q = _from_text(", ".join(hypothesis), names)
    elif isinstance(hypothesis, tuple) and len(hypothesis) == 2 and np.ndim(hypothesis[0]) > 0:
        rows = np.atleast_2d(np.asarray(hypothesis[0], dtype=np.float64))
        q = np.broadcast_to(np.ravel(np.asarray(hypothesis[1], dtype=np.float64)), len(rows))
    else:
        rows = np.atleast_2d(np.asarray(hypothesis, dtype=np.float64))
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise ModelError(
            f"A hypothesis has one column for each of the {len(names)} parameters; got shape "
            f"{rows.shape}."
        )
    involved = (rows != 0).any(axis=0) & at_infinity
    touched = [name for name, lost in zip(names, involved, strict=True) if lost]
    if touched:
        raise ModelError(
            f"{', '.join(touched)} cannot be tested by an estimate and its standard error, because "
            "the estimate is at infinity; compare the models with and without it by their "
            "likelihood ratio."
        )
    return rows, np.zeros(len(rows)) if q is None else np.asarray(q)


def wald_terms(
    groups: Mapping[str, Sequence[int]], params: Array, covariance: Array
) -> WaldTestResults:
    """Wald chi-square tests that all parameters of a group are 0, one row a group."""
    rows = []
    for columns in groups.values():
        b, block = params[columns], covariance[np.ix_(columns, columns)]
        if np.isfinite(b).all() and np.isfinite(block).all():
            statistic = float(b @ np.linalg.pinv(block, hermitian=True) @ b)
        else:
            statistic = np.nan
        rows.append((statistic, float(stats.chi2.sf(statistic, len(columns))), len(columns)))
    table = pd.DataFrame(rows, index=list(groups), columns=["statistic", "pvalue", "df_constraint"])
    return WaldTestResults(None, "chi2", None, table=table)


def _is_texts(hypothesis: Any) -> bool:
    return isinstance(hypothesis, list | tuple) and all(isinstance(h, str) for h in hypothesis)


def _from_mapping(hypothesis: Mapping[str, float], names: Sequence[str]) -> tuple[Array, Array]:
    unknown = [name for name in hypothesis if name not in names]
    if unknown:
        raise ModelError(f"{unknown[0]!r} is no parameter. {INSTEAD}")
    rows = np.zeros((len(hypothesis), len(names)))
    for row, name in zip(rows, hypothesis, strict=True):
        row[list(names).index(name)] = 1.0
    return rows, np.array([float(value) for value in hypothesis.values()])


def _from_text(text: str, names: Sequence[str]) -> tuple[Array, Array]:
    """Patsy's reading, with every name replaced by one that patsy cannot misread."""
    plain = [f"parameter_{j}_" for j in range(len(names))]
    longest_first = sorted(names, key=len, reverse=True)
    pattern = "|".join(re.escape(name) for name in longest_first)
    place = {name: j for j, name in enumerate(names)}
    safe = re.sub(rf"(`?)({pattern})\1", lambda m: f" {plain[place[m[2]]]} ", text)
    try:
        constraint = DesignInfo(plain).linear_constraint(safe)
    except (PatsyError, ValueError, IndexError):  # IndexError where it holds nothing
        raise ModelError(f"The hypothesis {text!r} cannot be read. {INSTEAD}") from None
    return constraint.coefs, constraint.constants.ravel()
