"""The paper's comparison: what each mechanism costs in accuracy at the same privacy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpcontingency.domain import Domain
from dpcontingency.errors import PrivacyError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.neighbours import REPLACE_ONE
from dpcontingency.release.mechanisms import (
    BlockJamesStein,
    Gaussian,
    JamesStein,
    Laplace,
    Mechanism,
    RankDeficientGaussian,
    RankDeficientJamesStein,
    unnamed_domain,
)
from dpcontingency.release.sensitivity import Neighbours

#: The paper's mechanisms (M_G, M_r, M_JS0, M_JS, M_rJS) and what came after, as compared.
COMPARED: tuple[Mechanism, ...] = (
    Gaussian(),
    RankDeficientGaussian(),
    JamesStein("zero"),
    JamesStein("mean"),
    RankDeficientJamesStein("mean"),
    RankDeficientJamesStein("uniform"),
    BlockJamesStein(),
    Laplace(),
)


def compare_mechanisms(
    theta: npt.ArrayLike,
    privacy: GDP,
    *,
    domain: Domain | None = None,
    neighbours: str = REPLACE_ONE,
    strata: Sequence[str] = (),
    mechanisms: Iterable[Mechanism] = COMPARED,
) -> pd.DataFrame:
    """Compare the expected squared L2 errors of mechanisms at the same privacy loss.

    Parameters
    ----------
    theta : array_like or int
        A PUBLIC or invented table, of the domain's shape; or, with a domain, a number of records
        to be spread evenly over its possible cells. Never a confidential table: the costs depend
        on it and are as confidential as it is.
    privacy : GDP
        The loss that all are calibrated to.
    domain : Domain, optional
        The factors; by default as many unnamed factors as theta has axes.
    neighbours : {"replace-one", "add-remove"}
        What the loss protects.
    strata : sequence of str
        Factors of the domain whose joint margin is public.
    mechanisms : iterable of Mechanism, optional
        Those to compare, by default all, each with its positive part where it has one.

    Returns
    -------
    pandas.DataFrame
        A row a mechanism, without those that are not defined for the table. ``expected_l2_cost``
        is ``E |estimate - theta|^2`` in squared counts, ``ratio`` the same over that of
        `RankDeficientGaussian`, and ``sigma`` the scale of the noise (b for `Laplace`).

    Raises
    ------
    PrivacyError
        If theta does not fit the domain, or is a number without a domain.

    References
    ----------
    Kim, Lee, Kwak and Jung, arXiv 2211.15019.

    Examples
    --------
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y"]})
    >>> compare_mechanisms(300, GDP(1), domain=domain)["ratio"].round(3).head(2)
    mechanism
    Gaussian()                 1.091
    RankDeficientGaussian()    1.000
    Name: ratio, dtype: float64
    """
    values = np.asarray(theta, dtype=np.float64)
    if values.ndim == 0 and domain is None:
        raise PrivacyError("A number of records needs a domain to be spread over: pass domain=.")
    space = Neighbours(domain or unnamed_domain(values.shape), neighbours, strata)
    if values.ndim == 0:
        possible = space.domain.possible()
        values = possible * float(values) / possible.sum()
    reference = RankDeficientGaussian()
    unit = reference.expected_l2_cost(values, reference.sigma(privacy, space), space=space)
    rows = {}
    for mechanism in mechanisms:
        if mechanism.is_defined(space):
            sigma = mechanism.sigma(privacy, space)
            cost = mechanism.expected_l2_cost(values, sigma, space=space)
            rows[repr(mechanism)] = (cost, cost / unit, sigma)
    index = pd.Index(list(rows), name="mechanism")
    return pd.DataFrame(
        list(rows.values()), index=index, columns=["expected_l2_cost", "ratio", "sigma"]
    )
