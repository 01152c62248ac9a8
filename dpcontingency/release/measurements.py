"""A release of margins as independent measurements, for software that estimates from those.

The interaction of A in orthonormal coordinates has independent noise of standard deviation s_A:
along each axis the coordinates are Helmert contrasts.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import helmert

from dpcontingency.errors import ObservedDomainWarning, ReleaseError
from dpcontingency.release.contrasts import interaction
from dpcontingency.release.margins import MarginRelease

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HelmertQuery:
    """The orthonormal coordinates of an interaction, from the table of its factors.

    Parameters
    ----------
    shape : tuple of int
        The shape of the table.
    """

    shape: tuple[int, ...]

    def __call__(self, factor: Any) -> Any:
        """Apply it to an mbi ``Factor``, or to anything else with a method ``datavector()``."""
        values = factor.datavector()
        for n in self.shape:
            # The first axis is taken off in front and put back, shorter by 1, at the end.
            values = values.reshape(n, -1).T @ helmert(n).T
            values = values.reshape(-1)
        return values

    def op_norm_sq(self) -> float:
        """The squared norm of this map, for mbi's step size."""
        return 1.0


@dataclass(frozen=True, eq=False)
class Measurement:
    """One interaction with independent noise.

    Attributes
    ----------
    clique : tuple of str
        Its factors.
    values : ndarray, shape (prod (n_k - 1),)
        Its noisy orthonormal coordinates.
    stddev : float
        The standard deviation of the noise in each.
    query : HelmertQuery
        What makes coordinates of a table of the factors.
    private : bool
        Whether the records behind it, and the levels, were protected at all.
    """

    clique: tuple[str, ...]
    values: Array
    stddev: float
    query: HelmertQuery
    private: bool


@dataclass(frozen=True, eq=False)
class _Table:
    values: Array

    def datavector(self) -> Array:
        return self.values.ravel()


def measurements(release: MarginRelease) -> list[Measurement]:
    """The released interactions as measurements with independent noise, small sets first.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> from dpcontingency.privacy.gdp import GDP
    >>> from dpcontingency.release.publish_margins import simulate_margins
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    >>> rng = np.random.default_rng(1)
    >>> release = simulate_margins([[5, 8, 2], [9, 1, 4]], domain, [("A", "B")], GDP(1), rng)
    >>> [(one.clique, one.values.size) for one in measurements(release)]
    [(('A',), 1), (('B',), 2), (('A', 'B'), 2)]
    """
    out = []
    for a, scale in release.plan.cell_scales.items():
        query = HelmertQuery(tuple(len(release.domain.levels[name]) for name in a))
        values = query(_Table(interaction(release.contrasts[a])))
        out.append(Measurement(a, np.asarray(values), scale, query, release.private))
    return out


def to_mbi(release: MarginRelease) -> list[Any]:
    """The released interactions as ``mbi.LinearMeasurement``, for its estimators.

    Pass ``known_total=release.n_total`` to the estimator where the total is public.

    Raises
    ------
    ReleaseError
        If mbi is not installed.

    Warns
    -----
    ObservedDomainWarning
        If the levels were read off the records: what mbi is given no longer says so.
    """
    try:
        from mbi import LinearMeasurement
    except ImportError:
        raise ReleaseError(
            "to_mbi needs the package mbi: install it, or take measurements(release)."
        ) from None
    if not release.domain.is_public:
        warnings.warn(
            "The levels of this release were read off the records and are not private; nothing "
            "that mbi makes of it will say so.",
            ObservedDomainWarning,
            stacklevel=2,
        )
    return [
        LinearMeasurement(one.values, one.clique, one.stddev, one.query)
        for one in measurements(release)
    ]
