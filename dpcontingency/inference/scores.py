"""The scores of the levels of an ordinal factor."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpcontingency._language import phrase
from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError

Array = npt.NDArray[np.float64]


def scores_of(domain: Domain, name: str, what: str) -> Array:
    """The scores of a factor: those declared, or 1, 2, ... along its declared order.

    Parameters
    ----------
    domain : Domain
        Which says what is ordered.
    name : str
        The factor.
    what : str
        What needs the order, for the message.

    Raises
    ------
    ModelError
        If the factor has three levels or more and no declared order: the order in which levels
        happen to stand is not taken for one. Of two levels either order will do, it decides the
        sign.

    Examples
    --------
    >>> domain = Domain({"dose": ["low", "mid", "high"]}, ordered=["dose"])
    >>> scores_of(domain, "dose", "gamma")
    array([1., 2., 3.])
    """
    size = domain.shape[domain.axis(name)]
    if name in domain.scores:
        return np.asarray(domain.scores[name], dtype=np.float64)
    if name not in domain.ordered and size > 2:
        scores = phrase(f"scores={{{name!r}: [1, 2, 5]}}", f"scores: {{{name}: [1, 2, 5]}}")
        raise ModelError(
            f"{what} needs the order of the levels of {name!r}, and the domain does not declare "
            f"it: write {phrase(f'ordered=[{name!r}]', f'ordered: [{name}]')} in the domain, with "
            f"the levels in order, or {scores}, a number a level."
        )
    return np.arange(1.0, size + 1)
