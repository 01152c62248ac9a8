"""The likelihood of a noisy table: flat arrays of cells, no factors, no designs.

Hidden counts ``N`` are released as ``y = N + noise``. Two sampling schemes:

* *totals known*: in each stratum ``N`` is multinomial with a public total ``n`` and the noise is
  independent ``N(0, v_c)`` conditioned on zero sum;
* *totals unknown*: ``N`` is independent Poisson and the noise independent ``N(0, v_c)``.

A multinomial is independent Poisson counts given their sum, so both rest on the cell moments of
`dpcontingency.inference.kernels`. The probability of the sum itself is exact where noise is narrow
or cells are few (`dpcontingency.inference.hidden_sum`), and a saddlepoint approximation elsewhere.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcontingency.errors import ModelError
from dpcontingency.inference.design import Design
from dpcontingency.inference.gaussian import (
    gaussian_information,
    nested_score_statistic,
    score_statistic,
)
from dpcontingency.inference.hidden_sum import hidden_sums
from dpcontingency.inference.kernels import CellMoments, cell_moments, log_poisson
from dpcontingency.inference.lattice import log_lattice_peak
from dpcontingency.inference.lowrank import DiagonalPlusLowRank
from dpcontingency.inference.noncentral import GaussianCells
from dpcontingency.inference.points import (
    KnownTotals,
    LikelihoodPoint,
    MultinomialPoint,
    known_totals,
    log,
)
from dpcontingency.inference.quotient import over
from dpcontingency.inference.space import CellSpace, JointSpace
from dpcontingency.release.noise import stratum_labels

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_LARGEST = 2.0**53
_FARTHEST = 40.0  # noise standard deviations: an event of probability 1e-350
_TOTAL_TOLERANCE = 1e-11  # how closely posterior means add up to the total, relative
_LOG_RATE_LIMIT = 700.0  # its exponential is still a float
_LONGEST_TILT = 30.0  # of log t in one step, while no bracket is known
_FARTHEST_TILT = 20.0  # log(t / n) beyond which the rounding of t would pass for likelihood
_LONGEST_GUESS = 2.0  # of log(t / n), where the search for it starts
_IGNORED_GAIN = 1e-10  # log-likelihood that is not worth another round in `saturated`
_SHORTEST_STEP = 1e-5  # of a step in `saturated`, before it is given up
_MAX_ROUNDS = 100
_FADING = 0.1  # expected count of a cell that may be heading for 0 in `saturated`
_LARGEST_FACTOR = 10.0  # by which a rate may change in one step of `saturated`
_PLAIN = 0.1  # noise sd up to which no count is hidden: half a record is five of them


class NoisyTableLikelihood:
    """The likelihood of the log rates of a table's cells, given their noisy counts.

    Parameters
    ----------
    noisy : array_like of shape (p,)
        Released counts ``y``. With known totals they should add up to them, stratum by stratum:
        the law of the noise is conditioned on that.
    variances : array_like of shape (p,)
        Noise variances, ``>= 0``; 0 for an exact cell.
    strata : array_like of int of shape (p,), optional
        The stratum, ``0 .. G - 1``, of each cell. One stratum by default.
    totals : array_like of shape (G,), optional
        Public total of each stratum. Without them the counts are independent Poisson.

    Raises
    ------
    ModelError
        If shapes disagree, a value is not finite, or exact cells contradict the totals.

    Notes
    -----
    With known totals, let t solve ``sum_c m_c(y_c; t pi_c, v_c) = n``. Then

        log L = sum_c log_weight_c - log Poisson(n; t) + log P(S = n),

    S the sum of the hidden counts at the rates t pi_c, given the noisy ones. In strata whose
    `hidden_sum.blur`, about the sum of v_c, is below 10 that probability is exact to rounding:
    2 cells up to a noise sd of 2.4, 12 up to 1.1, 50 up to 0.66, 200 up to 0.44. Elsewhere it is
    approximated from V, the sum of the posterior variances: the log probability that a discrete
    Gaussian of this variance hits its mean (`log_lattice_peak`). The error of log L is then about
    the constant 1/(12 n), and that of its differences between parameter values at most 0.002; it
    would be up to 0.09 at a noise sd of 0.3 or 0.5 (`benchmarks/saddlepoint.py`).

    Where t is more than n exp(20), far from every maximum, log L is a difference of terms too
    large for floats, and -inf is returned.

    Examples
    --------
    >>> likelihood = NoisyTableLikelihood([12.3, 4.9, 2.8], [1.0, 1.0, 1.0], totals=[20.0])
    >>> point = likelihood.at(np.log([0.6, 0.25, 0.15]))
    >>> point.posterior_mean.round(3), round(point.loglik, 3)
    (array([12.304,  4.9  ,  2.796]), -1.85)
    """

    def __init__(
        self,
        noisy: ArrayLike,
        variances: ArrayLike,
        *,
        strata: ArrayLike | None = None,
        totals: ArrayLike | None = None,
    ) -> None:
        self.noisy = np.asarray(noisy, dtype=np.float64)
        self.variances = np.asarray(variances, dtype=np.float64)
        if self.noisy.ndim != 1 or self.noisy.shape != self.variances.shape:
            raise ModelError(
                "noisy counts and variances must be two arrays of one length, one entry a cell; "
                f"their shapes are {self.noisy.shape} and {self.variances.shape}."
            )
        if not (np.isfinite(self.noisy).all() and np.isfinite(self.variances).all()):
            raise ModelError("noisy counts and variances must be finite; leave other cells out.")
        if (self.variances < 0.0).any():
            raise ModelError("noise variances must be >= 0; pass squared standard deviations.")
        exact = self.variances == 0.0
        if (np.abs(self.noisy) > _LARGEST).any():
            raise ModelError(
                "Some cell is beyond 2^53, where a float no longer tells one record from none. "
                "Check the units of the table."
            )
        count = np.maximum(np.rint(self.noisy), 0.0)
        if (np.abs(self.noisy - count) > _FARTHEST * np.sqrt(self.variances))[~exact].any():
            raise ModelError(
                f"Some cell is more than {_FARTHEST:g} noise standard deviations away from every "
                "count, so sigma cannot be right for this table. Ask the publisher for it."
            )
        if (self.noisy[exact] < 0.0).any():
            raise ModelError("an exact cell (variance 0) must be >= 0; check its variance.")

        self._known: KnownTotals | None = None
        if totals is not None:
            self._known = known_totals(strata, totals, self.noisy, self.variances)
        elif strata is not None:
            raise ModelError("strata without totals say nothing; pass totals too, or neither.")

    of_margins = False  # the cells were released, with independent noise

    @property
    def strata(self) -> Ints | None:
        """The stratum of each cell, shape (p,); None where no total is known."""
        return None if self._known is None else self._known.strata

    @property
    def is_exact(self) -> bool:
        """Whether the cells are the counts, without noise."""
        return not self.variances.any()

    def resolved(self) -> "NoisyTableLikelihood":
        """The likelihood of the counts themselves, where the noise is too small to hide any.

        So it is up to a standard deviation of 0.1, at which rounding misses a count once in two
        million; then what is known of zeros is known here, as it is without noise.
        """
        if self.is_exact or self.variances.max() > _PLAIN**2:
            return self
        counts = np.maximum(np.rint(self.noisy), 0.0)
        if self._known is not None and (self._known.sum(counts) != self._known.totals).any():
            return self
        return NoisyTableLikelihood(
            counts, np.zeros_like(counts), strata=self.strata, totals=self.totals
        )

    @property
    def totals(self) -> Floats | None:
        """The known total of each stratum, shape (G,), or None."""
        return None if self._known is None else self._known.totals

    @property
    def measured(self) -> Floats:
        """The numbers that were released: the noisy cells."""
        return self.noisy

    def at(self, eta: ArrayLike, tilt: Floats | None = None) -> LikelihoodPoint:
        """Evaluate at log rates `eta`, shape (p,), free up to a constant in each stratum.

        Without totals there is no free constant. ``-inf`` marks a cell that cannot hold a record.
        `tilt` is a guess of the tilt of the point, which saves time.

        Raises
        ------
        ModelError
            If `eta` has the wrong shape, a NaN or ``+inf``, rules out every cell of a stratum with
            records, or no rates can make the posterior means add up to a total.
        """
        eta = np.asarray(eta, dtype=np.float64)
        if eta.shape != self.noisy.shape or not (eta < np.inf).all():
            raise ModelError(
                f"log rates must have shape {self.noisy.shape} and be numbers or -inf; check the "
                "offset and the step that led here."
            )
        return self._at(eta, tilt)

    def noise_in_fit(self, design: Design, fitted: Floats, possible: NDArray[np.bool_]) -> float:
        """The noise variances of the fitted cells of a model, added up: of equal cells."""
        return float(design.n_columns * self.variances[possible].mean())

    def law(self, means: Floats, alive: NDArray[np.bool_] | None = None) -> GaussianCells:
        """The Gaussian law of the table around means; only cells alive have noise, if they say."""
        variances = self.variances if alive is None else np.where(alive, self.variances, 0.0)
        return GaussianCells(means, variances, self.strata)

    def space_of(self, shape: tuple[int, ...]) -> CellSpace:
        """Where the cells live: in the joint table of this shape."""
        return JointSpace(shape)

    def free_dimension(self, face: NDArray[np.bool_]) -> int:
        """How many numbers a model may explain: the cells of a face less the totals there."""
        totals = 0 if self.strata is None else np.unique(self.strata[face]).size
        return int(face.sum()) - totals

    def replicate_work(self, n_columns: int) -> int:
        """Multiplications in one evaluation for one replicate, of a model with so many columns.

        The moments of a cell cost as much as a thousand.
        """
        return int(self.noisy.size * (n_columns**2 + 1000))

    def noise_of_margin(self, shape: tuple[int, ...], axes: Sequence[int]) -> Floats:
        """The noise variances of the cells of a margin, flat, of the joint table of this shape.

        Given the public totals, as far as there are any.
        """
        labels = stratum_labels(shape, tuple(axes))
        out: Floats = np.bincount(labels, self.variances).astype(np.float64)
        if self.strata is None:
            return out
        groups = int(self.strata.max()) + 1
        parts, place = np.unique(labels * groups + self.strata, return_inverse=True)
        inside = np.bincount(place, self.variances)  # of a margin's cell, in one stratum
        whole = np.bincount(self.strata, self.variances, groups)[parts % groups]
        return np.asarray(out - np.bincount(parts // groups, over(inside**2, whole), out.size))

    def information(self, fitted: Floats) -> DiagonalPlusLowRank:
        """What the table is expected to say of the log rates; see `gaussian_information`."""
        return gaussian_information(fitted, self.variances, self.strata)

    def score_statistic(self, fitted: Floats) -> float:
        """The distance from fitted means; see `gaussian.score_statistic`."""
        return score_statistic(self.noisy - fitted, fitted, self.variances, self.strata)

    def nested_score_statistic(self, fitted: Floats, larger: Design) -> float:
        """The same against a larger model; see `gaussian.nested_score_statistic`."""
        at = (self.noisy - fitted, fitted, self.variances, self.strata)
        return nested_score_statistic(*at, larger)

    def as_counts(self, eta: ArrayLike, counts: Floats) -> LikelihoodPoint:
        """Return the classical likelihood of `counts` that add up to these totals.

        Concave in `eta`; its level is arbitrary. Fits start from its maximum.
        """
        known = self._known
        log_rate = np.asarray(eta, dtype=np.float64)
        if known is not None:
            log_rate = known.log_probabilities(log_rate) + log(known.totals)[known.strata]
        fitted = np.exp(np.minimum(log_rate, _LOG_RATE_LIMIT))
        alive = fitted > 0.0
        cells = np.where(alive, counts * np.where(alive, log_rate, 0.0), 0.0) - fitted
        none = np.zeros_like(fitted)
        moments = CellMoments(none, counts, none, none, none)
        if known is None:
            return LikelihoodPoint(cells, counts - fitted, fitted, moments, None)
        flat = np.zeros_like(known.totals)
        return MultinomialPoint(
            known.sum(cells), counts - fitted, fitted, moments, flat, known, (flat, flat, flat)
        )

    def saturated(self) -> LikelihoodPoint:
        """Maximise the log-likelihood over all log rates.

        A cell whose likelihood is highest at rate 0 gets exactly that rate. It is recognised
        without going there: at given t the likelihood of one cell has at most one stationary point
        in its rate (the weights are totally positive), so its maximum is at 0 if and only if the
        likelihood falls there.
        """
        eta, tilt = self._saturated_start()
        point = self._at(eta, tilt)
        for _ in range(_MAX_ROUNDS):
            before = point
            eta, point = self._resettle(eta, point)
            eta, point = self._climb(eta, point)
            if point is before:
                break
        return point

    def _saturated_start(self) -> tuple[Floats, Floats | None]:
        """Log rates near the maximum, and log(t / n) there.

        At the maximum m = (n/t) rate in each cell; with the mode of k in the place of its mean
        that is m = y - v log(n/t) less at most 1/2 for skewness, or 0 where this is negative.
        What remains is a weighted projection on the simplex, by Newton steps from the left of a
        convex decreasing function.
        """
        y, v = self.noisy, self.variances
        aim = y - 0.5 * over(v, v + np.maximum(y, 0.0))
        known = self._known
        if known is None:
            return log(np.maximum(aim, 0.0)), None
        level = over(known.sum(aim) - known.totals, known.sum(v))
        for _ in range(_MAX_ROUNDS):
            mean = np.maximum(aim - v * level[known.strata], 0.0)
            surplus = known.sum(mean) - known.totals
            if (surplus <= 1e-9 * known.totals).all():
                break
            level = level + over(surplus, known.sum(v * (mean > 0.0)))
        mean = np.where(known.totals[known.strata] > 0.0, mean, 0.0)
        # Where noise is too small to blur counts, any tilt agrees with the total, and one far from
        # 0 only makes huge terms cancel.
        return log(mean), np.clip(-level, -_LONGEST_GUESS, _LONGEST_GUESS)

    def _resettle(self, eta: Floats, point: LikelihoodPoint) -> tuple[Floats, LikelihoodPoint]:
        """Move cells to and from rate 0 where that is uphill."""
        slope = over(self.noisy - 0.5, self.variances) + point.log_pressure()  # at rate 0
        noisy, dead = self.variances > 0.0, point.fitted == 0.0
        fading = (point.fitted < _FADING) & (point.score < 0.0)
        dies, born = noisy & fading & ~dead & (slope <= 0.0), noisy & dead & (slope > 0.0)
        if not (dies.any() or born.any()):
            return eta, point
        # In the rate the log-likelihood of an empty cell is slope x - (1 - exp(-1/v)) x^2 / 2 + ...
        top = over(slope, -np.expm1(-over(np.ones_like(slope), self.variances)))
        means = np.where(born, np.minimum(top, 1.0), point.fitted)
        moved = log(np.where(dies, 0.0, means))
        return self._where_higher(eta, point, moved)

    def _climb(self, eta: Floats, point: LikelihoodPoint) -> tuple[Floats, LikelihoodPoint]:
        """One damped Newton step in each part, or none where it promises nothing."""
        step = _ascent(point)
        promise = point.by_part(point.score * step)
        length = (promise > np.maximum(_IGNORED_GAIN, 1e-15 * np.abs(point.parts))).astype(float)
        while length.any():
            moved = eta + point.of_part(length) * step
            eta, higher = self._where_higher(eta, point, moved)
            length = np.where(higher.parts > point.parts, 0.0, length / 4.0)
            length[length < _SHORTEST_STEP] = 0.0
            point = higher
        return eta, point

    def _where_higher(
        self, eta: Floats, point: LikelihoodPoint, moved: Floats
    ) -> tuple[Floats, LikelihoodPoint]:
        """Move the parts whose log-likelihood rises by it."""
        candidate = self._at(moved, point.tilt)
        higher = candidate.parts > point.parts
        if not higher.any():
            return eta, point
        stays = (moved != eta) & (point.of_part(higher.astype(np.float64)) == 0.0)
        if stays.any():
            moved = np.where(stays, eta, moved)
            candidate = self._at(moved, point.tilt)
        return moved, candidate

    def _at(self, eta: Floats, tilt: Floats | None) -> LikelihoodPoint:
        """Evaluate at `eta`; `tilt` is a guess of log(t / n)."""
        known = self._known
        if known is None:
            rate = np.exp(np.minimum(eta, _LOG_RATE_LIMIT))
            moments = cell_moments(self.noisy, rate, self.variances)
            return LikelihoodPoint(moments.log_weight, moments.mean - rate, rate, moments, None)
        strata, n = known.strata, known.totals
        log_pi = known.log_probabilities(eta)
        tilt, moments = self._impose_totals(
            known, log_pi, np.zeros_like(n) if tilt is None else tilt
        )
        h, h1, h2 = log_lattice_peak(known.sum(moments.variance))
        hidden = None
        if known.integrated.any():
            at = (self.noisy, self.variances, log_pi + (log(n) + tilt)[strata], moments)
            hidden = hidden_sums(*at, strata, n, known.integrated)
            moments = hidden.settled()
            h = np.where(known.integrated, hidden.log_probability, h)
        v, v3 = known.sum(moments.variance), known.sum(moments.third)
        h = np.where(tilt > _FARTHEST_TILT, -np.inf, h)  # hopeless, and not to be told from others
        prior = [log_poisson(*pair) for pair in zip(n, n * np.exp(tilt), strict=True)]
        fitted = n[strata] * np.exp(log_pi)
        bend = moments.third - over(moments.variance, v[strata]) * v3[strata]
        return MultinomialPoint(
            parts=known.sum(moments.log_weight) - prior + h,
            score=moments.mean - fitted + h1[strata] * bend,
            fitted=fitted,
            moments=moments,
            tilt=tilt,
            known=known,
            peak=(h, h1, h2),
            hidden=hidden,
        )

    def _impose_totals(
        self, known: KnownTotals, log_pi: Floats, tilt: Floats
    ) -> tuple[Floats, CellMoments]:
        """Solve sum m(y; t pi, v) = n for tilt = log(t / n), stratum by stratum.

        The sum increases in log t with derivative V and second derivative K3: Halley's steps,
        kept inside a bracket. A stratum of exact cells agrees with every t and keeps its own.
        """
        n = known.totals
        log_n = log(n)
        low, high = np.full(n.size, -np.inf), np.full(n.size, np.inf)
        moments = CellMoments(*np.empty((5, 0)))
        cells: slice | Ints = slice(None)  # of strata that are not there yet
        for _ in range(_MAX_ROUNDS):
            log_rate = (log_pi + (log_n + tilt)[known.strata])[cells]
            rate = np.exp(np.minimum(log_rate, _LOG_RATE_LIMIT))
            if isinstance(cells, slice):
                del moments  # so that never two are in memory
                moments = cell_moments(self.noisy, rate, self.variances)
            else:
                found = cell_moments(self.noisy[cells], rate, self.variances[cells])
                for column, values in zip(moments, found, strict=True):
                    column[cells] = values
            gap = known.sum(moments.mean) - n
            open_ = ~known.all_exact & (np.abs(gap) > _TOTAL_TOLERANCE * n)
            cells = slice(None) if n.size == 1 else np.flatnonzero(open_[known.strata])
            if not open_.any():
                return tilt, moments
            v, v3 = known.sum(moments.variance), known.sum(moments.third)
            high = np.where(open_ & (gap > 0.0), tilt, high)
            low = np.where(open_ & (gap < 0.0), tilt, low)
            newton = -gap / np.maximum(v, 1e-300)
            halley = newton / np.clip(1.0 + 0.5 * newton * over(v3, v), 0.5, 2.0)
            goal = tilt + np.clip(halley, -_LONGEST_TILT, _LONGEST_TILT)
            bracketed = np.isfinite(low) & np.isfinite(high)
            middle = 0.5 * (np.where(bracketed, low, 0.0) + np.where(bracketed, high, 0.0))
            goal = np.where(bracketed & ~((low < goal) & (goal < high)), middle, goal)
            tilt = np.where(open_, goal, tilt)
        raise ModelError(
            "no rates make the posterior means add up to the total of a stratum: its noisy counts "
            "are too many noise standard deviations away from it. Check totals and variances."
        )


def _ascent(point: LikelihoodPoint) -> Floats:
    """Step in the log rates: Newton's in the rates, mended where that is not uphill.

    In the rates the log-likelihood of a cell is close to a parabola, also where its maximum is at
    a rate near 0, which Newton's steps in log rates would only approach by halves.
    """
    hessian = point.rough_hessian()
    cores = -hessian.cores
    cores[:, :1, :1] = 0.0  # n pi pi' goes: it only made constants within strata singular
    diagonal = point.score - hessian.diagonal  # rate^2 times minus the second derivative in rate
    diagonal = np.where(diagonal > 0.0, diagonal, point.fitted)
    information = DiagonalPlusLowRank(diagonal, hessian.vectors, cores, hessian.strata)
    for change in (information.solve(point.score), over(point.score, point.fitted)):
        step = np.log(np.clip(1.0 + change, 1.0 / _LARGEST_FACTOR, _LARGEST_FACTOR))
        if point.score @ step > 0.0:
            break
    return step
