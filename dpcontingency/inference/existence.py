"""Which parameters of a fitted model have no finite estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# At an interior maximum the open Newton step is quadratically small; along a direction in which
# the maximum is at infinity it stays near 1, because the rates there fall as exp(-step).
STEP_AT_INFINITY = 1e-2


@dataclass(frozen=True)
class Existence:
    """Whether the maximum-likelihood estimate exists, and if not which parameters drift.

    Attributes
    ----------
    parameters : tuple of str
        The parameters whose estimate is infinite, empty when the estimate exists.
    """

    parameters: tuple[str, ...]

    @property
    def exists(self) -> bool:
        """Whether every parameter has a finite estimate."""
        return not self.parameters

    @property
    def reason(self) -> str:
        """What happened, in a sentence; empty when the estimate exists."""
        if self.exists:
            return ""
        return (
            "The likelihood rises toward a limit as these parameters go to infinity, because a "
            "margin of the model is zero or within noise of zero: "
            + ", ".join(self.parameters)
            + ". They have no finite estimate; the log-likelihood and fitted cells are the limit."
        )


def drifting(step: Array) -> npt.NDArray[np.bool_]:
    """Which coordinates of the step left open at the end of a fit point to infinity."""
    return np.abs(step) > STEP_AT_INFINITY
