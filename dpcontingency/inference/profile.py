"""Profile likelihood of one linear combination of the coefficients.

The combination is held at a value and the likelihood maximised over the rest; the interval holds
the values whose log-likelihood is within half a chi-square quantile of the maximum (METHODS 2.6),
or those that a score test does not reject (2.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import brentq

from dpcontingency.inference.newton import Point, maximise

Array = npt.NDArray[np.float64]
Statistic = Callable[[Array], float]

FURTHEST = 60.0  # on the log scale: rates e^-60 apart are 0 and not 0
FALLEN, LEVEL = 0.01, 1e-4  # a root this high that rises no more than so in a step is at its limit
STRIDE = 5.0  # from one fit to the next: from afar a search may end where all rates but one are 0
HIGHER = 1e-4  # of log-likelihood, by which another maximum is higher and no rounding
FARTHER = 2.5  # at most, from one value to the next that may be outside: a score rises and falls
LEAP, STARTS = 3.0, 16  # how far, and how many, the starts are that challenge a bound
TRIAL, FINALISTS = 6, 3  # the steps that each may take, and how many of them go on to the top
SAME = 1e-3  # of the root, by which a bound may miss the quantile and the profile be steady there
ROUNDING = 1e-6  # of a standard error: how closely a bound is found


@dataclass(frozen=True)
class _Restricted:
    """A point of the likelihood seen from inside the plane that holds the combination fixed."""

    inner: Point
    plane: Array

    @property
    def value(self) -> float:
        return self.inner.value

    @property
    def gradient(self) -> Array:
        return self.plane.T @ self.inner.gradient

    def observed(self) -> Array:
        return np.asarray(self.plane.T @ self.inner.observed() @ self.plane)

    def complete(self) -> Array:
        return np.asarray(self.plane.T @ self.inner.complete() @ self.plane)

    def reach(self, step: Array) -> float:
        return self.inner.reach(self.plane @ step)


@dataclass(frozen=True)
class Held:
    """What refits with l'b held at values say of it.

    Attributes
    ----------
    z : float
        The signed root of the statistic of l'b = 0, whose square is chi-square on one df.
    lower, upper : float
        The interval, which holds 0 if and only if that test does not reject.
    method : {"score", "profile"}
        The statistic: a score, or the fall of the likelihood.
    """

    z: float
    lower: float
    upper: float
    method: str

    def over(self, unit: float) -> Held:
        """The same of l'b over a number above 0."""
        return replace(self, lower=self.lower / unit, upper=self.upper / unit)


class Profile:
    """The profile log-likelihood of l'b.

    Parameters
    ----------
    at : callable
        The point of the likelihood at coefficients b, shape (q,).
    estimate : ndarray, shape (q,)
        Where the log-likelihood is highest, or as far out as the search went.
    combination : ndarray, shape (q,)
        l, not 0.
    covariance : ndarray, shape (q, q)
        Of the estimate: says where the other coefficients go when l'b moves.

    Notes
    -----
    A bound is a root of r(t) = sqrt(2 (top - profile(t))), minus the normal quantile, in which r
    is nearly a straight line: four or five refits, each started from the nearest one.
    """

    def __init__(
        self,
        at: Callable[[Array], Point],
        estimate: Array,
        combination: Array,
        covariance: Array,
    ) -> None:
        self._at = at
        along = covariance @ combination
        if combination @ along <= 0:  # it cannot be estimated
            along = combination
        self._direction = along / float(combination @ along)
        pivot = int(np.abs(combination).argmax())
        rest = np.delete(np.arange(combination.size), pivot)
        self._plane = np.eye(combination.size)[:, rest]
        self._plane[pivot] = -combination[rest] / combination[pivot]
        self._origin = np.zeros(combination.size)
        self._origin[pivot] = 1 / combination[pivot]
        self._rest = rest
        self._warm = {float(combination @ estimate): estimate}
        self._known: dict[float, float] = {}
        self._best = estimate
        self.estimate = float(combination @ estimate)

    def loglike(self, value: float) -> float:
        """The largest log-likelihood with l'b at a value; the search starts at the nearest fit.

        A value that was asked before has the same answer, which a search for a root relies on.
        """
        while value not in self._known:
            near = min(self._warm, key=lambda known: abs(known - value))
            short = abs(value - near) <= 1.5 * STRIDE
            self._refit(value if short else near + float(np.copysign(STRIDE, value - near)), near)
        return self._known[value]

    def statistic(self, value: float, top: float, score: Statistic | None) -> float:
        """Twice the fall of the log-likelihood to its value here, or the score there."""
        fall = 2 * (top - self.loglike(value))
        return fall if score is None else score(self._warm[value])

    def _refit(self, value: float, near: float) -> None:
        """Maximise with l'b at a value, from the fit at another."""
        known, moved = self._warm[near], (value - near) * self._direction
        offset = value * self._origin

        def restricted(free: Array) -> _Restricted:
            return _Restricted(self._at(offset + self._plane @ free), self._plane)

        starts = [(known + share * moved)[self._rest] for share in (1.0, 0.5, 0.0)]
        starts.sort(key=lambda free: restricted(free).value)
        best = maximise(restricted, starts[-1])
        if not best.converged:
            others = [maximise(restricted, start) for start in (best.beta, starts[0])]
            best = max([best, *others], key=lambda found: found.point.value)
        self._warm[value] = offset + self._plane @ best.beta
        self._known[value] = best.point.value

    def _challenge(self, value: float) -> None:
        """Search anew at a value, from elsewhere and along all ways so far; keep only the best fit.

        Where noise is wide the likelihood has several maxima, and a fit that follows its
        neighbours can stay with one that has fallen behind.
        """
        offset, here = value * self._origin, self._warm[value][self._rest]

        def restricted(free: Array) -> _Restricted:
            return _Restricted(self._at(offset + self._plane @ free), self._plane)

        ways = {**self._warm, self.estimate: self._best}
        starts = [(b + (value - t) * self._direction)[self._rest] for t, b in ways.items()]
        leaps = LEAP * np.eye(here.size)[: STARTS // 2]
        starts += [here + leap for leap in (*leaps, *-leaps)]
        starts += [self._best[self._rest], np.zeros(here.size)]
        # Most end on the same hill: the best after some steps go on.
        near = [maximise(restricted, start, TRIAL) for start in starts]
        near.sort(key=lambda found: found.point.value)
        ends = [maximise(restricted, found.beta) for found in near[-FINALISTS:]]
        best = max(ends, key=lambda found: found.point.value)
        beta, height = self._warm[value], self._known[value]
        if best.point.value > height + HIGHER:
            beta, height = offset + self._plane @ best.beta, best.point.value
        # The estimate stays: the other end of an interval is sought from there.
        self._warm, self._known = {self.estimate: self._best, value: beta}, {value: height}

    def interval(
        self,
        top: float,
        alpha: float,
        scale: float = 1.0,
        drift: float = 0.0,
        score: Statistic | None = None,
    ) -> tuple[float, float]:
        """The values within half the chi-square quantile of the maximum.

        Parameters
        ----------
        top : float
            The log-likelihood at the maximum.
        alpha : float
            1 - the level of the interval.
        scale : float
            A first guess at the standard error.
        drift : {0, 1, -1}
            1 or -1 where the estimate is infinity or minus infinity; that end is then infinite.
        score : callable, optional
            A statistic of coefficients, shape (q,), that is 0 at the estimate. At the best ones
            with l'b at a value it takes the place of twice the fall of the log-likelihood: the
            values around the estimate where it is within the chi-square quantile.
        """
        reach = float(np.sqrt(stats.chi2.isf(alpha, 1)))
        height = _Height(self, top, reach, self._usable(score, reach))
        return self._ends(height, drift, scale)

    def test(
        self,
        alpha: float,
        top: float,
        scale: float = 1.0,
        drift: float = 0.0,
        score: Statistic | None = None,
    ) -> Held:
        """The test of l'b = 0 and an interval that agrees with it; parameters as in `interval`.

        The interval holds 0 if and only if the statistic is within the chi-square quantile. Where
        that leaves the quantile and comes back on the way from the estimate to 0, the interval
        goes all the way.
        """
        reach = float(np.sqrt(stats.chi2.isf(alpha, 1)))
        height = _Height(self, top, reach, self._usable(score, reach))
        self.loglike(0.0)
        self._challenge(0.0)
        root = height(0.0) + reach
        lower, upper = self._ends(height, drift, scale, root)
        side = drift or float(np.sign(self.estimate))
        return Held(side * root, lower, upper, "profile" if height.score is None else "score")

    def _usable(self, score: Statistic | None, reach: float) -> Statistic | None:
        """A score, unless it is not within its quantile where the search ended.

        That is on the way to infinity, where it is no longer 0; what the likelihood says stands.
        """
        if score is None:
            return None
        self.loglike(self.estimate)
        return score if score(self._warm[self.estimate]) < reach**2 else None

    def _ends(
        self, height: _Height, drift: float, scale: float, root: float = np.nan
    ) -> tuple[float, float]:
        """Both ends; ``root`` is that of the statistic at 0, where it is known."""
        ends = [
            side * np.inf if side == drift else self._end(side, height, scale, root)
            for side in (-1.0, 1.0)
        ]
        return ends[0], ends[1]

    def _end(self, side: float, height: _Height, scale: float, root: float) -> float:
        """Where the root of twice the fall, nearly a straight line, meets its quantile."""
        reach, null = height.reach, -side * self.estimate  # the distance of 0 on this side
        known = null > 0 and not np.isnan(root)
        farthest = null if known and root >= reach else np.inf

        def excess(distance: float) -> float:
            if known and distance == null:
                return root - reach
            return height(self.estimate + side * distance)

        inside, outside, before = 0.0, reach * scale, -reach
        if known and root < reach:
            inside, before = null, root - reach
            outside = max(outside, null + reach * scale / 2)
        last = np.nan
        while True:
            outside = min(outside, farthest)
            while (here := excess(outside)) < 0:
                level = outside - inside > 1 and here - before < LEVEL * (reach + before)
                limit = outside > FURTHEST or (level and reach + here > FALLEN)
                if limit and np.isinf(farthest):
                    return side * np.inf  # the likelihood has a limit, above the cut
                before = here
                growth = 1.05 * reach / max(reach + here, 1e-3 * reach)
                farther = outside * min(max(growth, 1.1), 3.0)
                farther = min(farther, outside + max(FARTHER, reach * scale))
                inside, outside = outside, min(farther, farthest)
            found = float(brentq(excess, inside, outside, xtol=ROUNDING * scale, rtol=1e-9))
            end = self.estimate + side * found
            self._challenge(end)
            # A statistic that jumps across the quantile has no other root there.
            if excess(found) > -SAME or abs(found - last) <= 10 * ROUNDING * scale:
                return end
            last = found
            inside, outside, before = found, found + 0.1 * max(found, scale), -reach


@dataclass(frozen=True)
class _Height:
    """How far the root of a statistic is above its quantile, with l'b at a value."""

    profile: Profile
    top: float
    reach: float
    score: Statistic | None

    def __call__(self, value: float) -> float:
        fall = self.profile.statistic(value, self.top, self.score)
        return float(np.sqrt(max(fall, 0.0))) - self.reach
