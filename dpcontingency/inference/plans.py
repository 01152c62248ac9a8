"""A test on a table that is yet to be released: its noncentrality for any n and sigma."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpcontingency._language import phrase
from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError, PlanningWarning, did_you_mean, real_number
from dpcontingency.inference.calibration import faint
from dpcontingency.inference.noncentral import (
    GaussianCells,
    chi_square_power,
    rank_of,
    taken_up,
)
from dpcontingency.inference.nulls import Null
from dpcontingency.inference.questions import (
    NULLS,
    Asked,
    Question,
    margin_of,
    probabilities_of,
)
from dpcontingency.privacy.neighbours import REPLACE_ONE
from dpcontingency.release.noise import GaussianNoise, stratum_labels
from dpcontingency.release.sensitivity import Neighbours

Array = npt.NDArray[np.float64]

NOTHING_TO_SEE = 1e-12  # noncentrality a record: the alternative is inside the null
MOST_RECORDS = 2**53


@dataclass(frozen=True, eq=False)
class Plan:
    """A test on a margin of a table to be released: all but n and sigma.

    Attributes
    ----------
    null : Null
        The null hypothesis at the distribution nearest to the alternative.
    alternative : ndarray, shape (p,)
        The alternative on the margin.
    noise : GaussianNoise
        The law of the margin's noise for sigma = 1.
    sensitivity, alpha : float
        sigma mu, and the level.
    """

    null: Null
    alternative: Array
    noise: GaussianNoise
    sensitivity: float
    alpha: float

    @classmethod
    def of(
        cls,
        domain: Domain,
        alternative: npt.ArrayLike,
        test: str,
        alpha: float,
        question: Question,
    ) -> Plan:
        """The plan of a test, checked."""
        if not 0 < real_number(alpha, "alpha is the level of the test, between 0 and 1") < 1:
            raise ModelError(f"alpha is the level of the test, between 0 and 1; got {alpha}.")
        if not isinstance(test, str) or test not in NULLS:
            raise ModelError(f"There is no test {test!r} to plan; {did_you_mean(str(test), NULLS)}")
        unknown = [name for name in question if name not in Question.__annotations__]
        if unknown:
            raise TypeError(
                f"There is no option {unknown[0]!r}; "
                f"{did_you_mean(unknown[0], Question.__annotations__)}"
            )
        space = Neighbours(domain, question.get("neighbours", REPLACE_ONE),
                           question.get("strata", ()))  # fmt: skip
        asked = Asked.of(domain, question, tuple(space.strata))
        probabilities = margin_of(
            probabilities_of(domain, alternative, "alternative"), domain, asked
        )
        null = NULLS[test](asked, probabilities)
        fixed = space.fixed
        axes = [domain.axis(name) for name in asked.domain.names]
        law = GaussianNoise(domain.possible().astype(np.float64), fixed).margin(axes)
        plan = cls(null, probabilities.ravel(), law, space.l2_sensitivity, float(alpha))
        if plan.df < 1:
            raise ModelError(
                "This test has no degrees of freedom on this domain, so nothing can be seen by "
                "it; name factors with two levels or more."
            )
        return plan

    @cached_property
    def df(self) -> int:
        """Degrees of freedom: what the alternative leaves free and the null does not."""
        law = self.law(1.0, 1.0)
        columns = self.null.columns
        rank = rank_of(law, columns)
        if self.null.more is None:
            return law.free_cells() - rank
        return rank_of(law, np.hstack([columns, self.null.more])) - rank

    def law(self, n: float, sigma: float) -> GaussianCells:
        """The release under the null, around its means."""
        strata = self.noise.strata
        labels = None if strata is None else stratum_labels(self.noise.shape, strata)
        return GaussianCells(n * self.null.nearest, sigma**2 * self.noise.variances.ravel(), labels)

    def noncentrality(self, n: float, sigma: float) -> float:
        """The form delta' Sigma^- delta, less what the null takes up."""
        law = self.law(n, sigma)
        shift = n * (self.alternative - self.null.nearest)
        shift = np.where(law.alive, shift, 0.0)
        free = self._free(law)
        if self.null.more is None:
            whole = float(law.form(shift, shift))
        else:
            whole = taken_up(law, shift, np.hstack([free, law.sampling(self.null.more)]))
        return max(whole - taken_up(law, shift, free), 0.0)

    def power(self, n: float, sigma: float) -> float:
        """The upper tail of the noncentral chi-square."""
        return chi_square_power(self.noncentrality(n, sigma), self.df, self.alpha)

    def smallest_n(self, wanted: float, sigma: float) -> int:
        """The first n with the power wanted: doubling, then bisection."""
        high = 1
        while self.power(high, sigma) < wanted:
            high *= 2
            if high > MOST_RECORDS:
                raise ModelError(
                    f"No more than 2^53 records can be planned, and power {wanted:g} needs more. "
                    "Look for a larger effect."
                )
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.power(middle, sigma) < wanted else (low, middle)
        return high

    @cached_property
    def is_blind(self) -> bool:
        """Whether the alternative lies inside the null model, so that no test can see it."""
        return self.noncentrality(1.0, 0.0) < NOTHING_TO_SEE

    def warn_blind(self) -> None:
        """Warn of an alternative that lies inside the null model."""
        if self.is_blind:
            warnings.warn(
                "The alternative lies inside the null model, so there is nothing to see: the power "
                f"is the level, {self.alpha:g}, whatever the loss and the number of records.",
                PlanningWarning,
                stacklevel=3,
            )

    def doubt(self, n: float, sigma: float) -> str:
        """Why the power is only rough at this n and sigma, and which way; empty where it holds.

        The rule is that of the tests, `calibration.faint`, for the means that the null expects.
        """
        law, shape, compared = self.law(n, sigma), self.noise.shape, self.null.compared
        kept = range(len(shape)) if compared is None else compared
        others = tuple(k for k in range(len(shape)) if k not in kept)
        cells = (law.mean, law.variances, law.alive.astype(np.float64))
        means, variances, alive = (a.reshape(shape).sum(axis=others).ravel() for a in cells)
        why = faint(means, variances, alive > 0)
        if not why:
            return ""
        return (
            f"The power is rough, because under the null {why}. A likelihood-ratio test then takes "
            "a bootstrap by default, with a power often higher than this one of chi-square (by "
            "0.04 to 0.17 in simulated tables), so that the plan asks for more loss or records "
            "than are needed. Simulated releases of the planned table show the power itself."
        )

    def warn_doubt(self, n: float, sigma: float) -> None:
        """Warn where the planned power is rough."""
        said = "" if self.is_blind else self.doubt(n, sigma)
        if said:
            warnings.warn(said, PlanningWarning, stacklevel=3)

    def check_alternative(self) -> None:
        """Refuse an alternative that the null model holds: no test can see it."""
        if self.is_blind:
            raise ModelError(
                "The alternative lies inside the null model, so no test can see it. Give "
                "probabilities that differ from it, for instance "
                f"{phrase('two_by_two(odds_ratio=1.5)', '--odds-ratio 1.5')}."
            )

    def _free(self, law: GaussianCells) -> Array:
        """Changes of the means that the null leaves free."""
        if self.null.in_logs:
            return law.sampling(self.null.columns)
        return np.where(law.alive[:, None], self.null.columns, 0.0)
