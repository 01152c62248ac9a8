"""The likelihood of a release of margins: noisy interactions of an unseen table.

The counts N are multinomial (Poisson where no total is public) with means mu = exp(eta). What is
released are their measured interactions, in the treatment coding of `design` y = B N + noise, the
noise normal with covariance S. With the large-count form of the multinomial (Stirling), the
log-likelihood of eta is, up to a constant, the largest value over tables m with these totals of

    sum m log(mu / m) + m - mu - (y - B m)' S^-1 (y - B m) / 2.

At its maximum log(m / mu) = B'l + constant, and by duality the value is the smallest over l of

    K(eta + B'l) - K(eta) - l'y + l'S l / 2,    K = n log sum exp (sum exp without a total),

a convex problem in as many numbers as there are measured ones. Where noise or counts are large it
is the Gaussian likelihood of METHODS 2.3, mean B mu and covariance B V B' + S, less its
determinant; without noise differences between nested models are those of the classical
log-likelihood, and the estimate is the classical one.

All tables here, exp(eta + B'l) among them, are of the log-linear model of the released margins.
Where the joint table is too large and those margins lie in the cliques of a junction tree, sums
and covariances are therefore had by passing messages along it, exactly (`space`, `junction`):
nothing is approximated, and what is said here holds of tables that could never be written down.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import nnls

from dpcontingency._language import phrase
from dpcontingency.errors import ModelError
from dpcontingency.inference.curvature import MeasuredCurvature
from dpcontingency.inference.design import Design
from dpcontingency.inference.margin_space import measured_numbers, space_of
from dpcontingency.inference.newton import DesignPoint, Maximum, maximise
from dpcontingency.inference.noncentral import CorrelatedCells
from dpcontingency.inference.space import CellSpace, covariance_of
from dpcontingency.release.margins import MarginRelease

Array = npt.NDArray[np.float64]

MAX_MEASURED = 4000  # numbers, of which a square matrix is held
AT_ONCE = 4_000_000  # entries of measured columns, or of their products, that are written out
MAX_STEPS = 100
LARGEST_RATE = 700.0


@dataclass(frozen=True)
class InteractionPoint:
    """The log-likelihood of noisy interactions at one value of the log rates.

    Attributes
    ----------
    cells : InteractionLikelihood
        Of what.
    loglik : float
        Its value.
    fitted, posterior_mean : ndarray, shape (size,)
        The means mu, and the table m: expected counts given the release. Over the cells of the
        likelihood's space.
    tilt : ndarray, shape (m,)
        The multipliers that lead from one to the other.
    """

    cells: InteractionLikelihood
    loglik: float
    fitted: Array
    posterior_mean: Array
    tilt: Array

    @property
    def score(self) -> Array:
        """The gradient in the log rates, shape (size,)."""
        return self.posterior_mean - self.fitted

    def complete_information(self) -> MeasuredCurvature:
        """The information that the counts themselves would carry."""
        return MeasuredCurvature(self.cells.design, self._complete)

    def hessian(self) -> MeasuredCurvature:
        """The second derivative in the log rates, on the span of the measured columns.

        -V(mu) + V(m) - V(m) B' (S + B V(m) B')^-1 B V(m).
        """
        inside = self.cells.spread(self.posterior_mean)
        return MeasuredCurvature(
            self.cells.design, inside - self.cells.known(inside) - self._complete
        )

    @cached_property
    def _complete(self) -> Array:
        return self.cells.spread(self.fitted)


@dataclass(frozen=True)
class CountsPoint:
    """The log-likelihood of counts, were they known, at one value of the log rates."""

    cells: InteractionLikelihood
    loglik: float
    fitted: Array
    posterior_mean: Array

    @property
    def score(self) -> Array:
        """The gradient in the log rates, shape (size,)."""
        return self.posterior_mean - self.fitted

    def complete_information(self) -> MeasuredCurvature:
        """Minus the second derivative, on the span of the measured columns."""
        return MeasuredCurvature(self.cells.design, self.cells.spread(self.fitted))

    def hessian(self) -> MeasuredCurvature:
        """The second derivative."""
        return MeasuredCurvature(self.cells.design, -self.cells.spread(self.fitted))


class InteractionLikelihood:
    """The likelihood of the log rates of a joint table, given some noisy interactions of it.

    Parameters
    ----------
    release : MarginRelease
        What is known.

    Raises
    ------
    ModelError
        If the joint table has more than 10^7 cells and so, or nearly so, have the cliques of a
        junction tree that holds the released margins; or if more than 4,000 numbers were
        measured. The message says how many there are.

    Attributes
    ----------
    space : CellSpace
        Where the cells live: log rates and means are vectors over these.
    design : Design
        The measured interactions as columns of a table, in treatment coding: B'.
    noisy : ndarray, shape (size,)
        A table that has the released interactions, and 0 for those that were not released.
    measured : ndarray, shape (m,)
        y, the measured numbers in the coding of the design.
    covariance : ndarray, shape (m, m)
        S, of their noise.
    """

    of_margins = True  # fits, standard errors and residuals go by other rules
    is_exact = False

    def __init__(self, release: MarginRelease) -> None:
        plan = release.plan
        self.space = space_of(release)
        if (measured := measured_numbers(release)) > MAX_MEASURED:
            raise ModelError(
                f"The release measures {measured:,} numbers, more than the {MAX_MEASURED:,} that a "
                "model of margins is fitted to. Take fewer "
                f"margins{phrase(', by release.restrict(...)', '')}, or fewer "
                f"factors{phrase(', by release.collapse(...)', '')}."
            )
        terms = [tuple(release.domain.axis(name) for name in a) for a in plan.cell_scales]
        self.design = self.space.design(terms)
        self.noisy = _noisy_cells(release, self.space)
        self.measured = self.design.tdot(self.noisy)
        scales = dict(zip(terms, plan.cell_scales.values(), strict=True))
        self.covariance = _covariance(release.domain.shape, self.design.codes, scales)
        self.totals = None if release.total is None else np.array([float(release.total)])
        self.strata = None if self.totals is None else np.zeros(self.noisy.size, dtype=np.intp)
        self._estimated_total = release.n_total_estimate
        self._plan = plan
        self._hint = np.zeros(self.measured.size)

    @property
    def variances(self) -> Array:
        """Not offered.

        Raises
        ------
        ModelError
            Always: the noise of the cells of a joint table is not independent here, nor need the
            table have been measured.
        """
        raise ModelError(
            "This needs a released table with independent noise on its cells, and the noise of "
            "released margins is not: use statistic='lr', 'score' or 'wald', and fit() without "
            "options; or release the table of these factors."
        )

    def law(self, means: Array, alive: npt.NDArray[np.bool_] | None = None) -> CorrelatedCells:
        """The Gaussian law of the table around means, where it was released as a whole.

        Only cells alive have noise, if they say, given that it adds up to 0 where the total is
        public.

        Raises
        ------
        PrivacyError
            If the table was not released.
        """
        noise = self._plan.covariance(*self._plan.domain.names)
        if alive is not None and not alive.all():
            noise = np.where(alive[:, None] & alive[None, :], noise, 0.0)
            row = noise.sum(axis=1)
            if self.totals is not None and row.sum() > 0:
                noise = noise - np.outer(row, row) / row.sum()
        return CorrelatedCells(means, np.diag(noise).copy(), self.strata, noise)

    def space_of(self, shape: tuple[int, ...]) -> CellSpace:
        """Where the cells live."""
        return self.space

    def noise_of_margin(self, shape: tuple[int, ...], axes: Sequence[int]) -> Array:
        """The noise variances of the cells of a released margin, or of a part of one, flat."""
        names = [self._plan.domain.names[k] for k in axes]
        return np.full(math.prod(shape[k] for k in axes), self._plan.variance(*names))

    def at(self, eta: npt.ArrayLike, tilt: Array | None = None) -> InteractionPoint:
        """Evaluate at log rates, shape (p,); free up to a constant where the total is public.

        ``tilt`` is a guess of the multipliers, by default those of the point before.
        """
        eta = np.asarray(eta, dtype=np.float64)
        base, fitted = self._cumulant(eta)

        def value(at: Array) -> tuple[float, Array]:
            total, table = self._cumulant(eta + self.design.dot(at))
            pull = at @ self.covariance @ at / 2 - at @ self.measured
            return total - base + float(pull), table

        multipliers = self._hint if tilt is None else tilt
        height, table = value(multipliers)
        if not height < 0.0:  # which it is at 0
            multipliers = np.zeros_like(multipliers)
            height, table = value(multipliers)
        for _ in range(MAX_STEPS):
            gradient = self.design.tdot(table) - self.measured + self.covariance @ multipliers
            step = -_solve(self.spread(table) + self.covariance, gradient)
            promise = -float(gradient @ step)
            if promise <= 1e-13 * (1 + abs(height)):
                break
            length = 1.0
            while not (then := value(multipliers + length * step))[0] < height:
                length /= 2
                if length < 1e-9:
                    break
            if length < 1e-9:
                break
            multipliers, (height, table) = multipliers + length * step, then
        self._hint = multipliers
        return InteractionPoint(self, height, fitted, table, multipliers)

    def as_counts(self, eta: npt.ArrayLike, counts: Array) -> CountsPoint:
        """Return the classical likelihood of counts that add up to the total; see `at`."""
        eta = np.asarray(eta, dtype=np.float64)
        total, fitted = self._cumulant(eta)
        alive = eta > -np.inf
        height = float((counts * np.where(alive, eta, 0.0))[alive].sum()) - total
        return CountsPoint(self, height, fitted, counts)

    def saturated(self) -> InteractionPoint | CountsPoint:
        """Maximise over all log rates: as those of the measured interactions alone would be.

        Where the joint table is small, ``fitted`` has the measured numbers of the best rates,
        and is these rates where the table was released as a whole.
        """
        if self.can_look_for_tables:
            table = self.nearest_tables(self.measured[None])[0]
            apart = self.measured - self.design.tdot(table)
            return CountsPoint(self, -float(self.forms(apart[None])[0]) / 2, table, table)
        point: InteractionPoint = self.saturated_from(self.equal()).point.cells
        return point

    @property
    def can_look_for_tables(self) -> bool:
        """Whether the measured columns are written out, to look for tables of joint cells."""
        return self.space.is_joint and self.space.size * self.measured.size <= AT_ONCE

    @property
    def fits_together(self) -> bool:
        """Whether many replicates are fitted at once: with the products of measured columns."""
        return self.space.is_joint and self.space.size * self.measured.size**2 <= AT_ONCE

    def replicate_work(self, n_columns: int) -> int:
        """Multiplications in one evaluation for one replicate, of a model with so many columns."""
        size, m = self.space.size, self.measured.size
        return size * m**2 if self.fits_together else size * m + m**3

    @cached_property
    def columns(self) -> Array:
        """B' written out, shape (p, m)."""
        return np.asarray(self.design.matrix().toarray())

    def forms(self, apart: Array) -> Array:
        """The forms x' S^-1 x of measured numbers, one row each."""
        return np.asarray((np.linalg.solve(self._root, apart.T) ** 2).sum(axis=0))

    def nearest_tables(self, measured: Array) -> Array:
        """The tables m >= 0 of the public total whose numbers B m come nearest to rows of y.

        Half the least of (y - B m)' S^-1 (y - B m) is what the best log rates leave of the
        log-likelihood: those that have the margins of m.

        Notes
        -----
        By nonnegative least squares. With a total n, and A and a the columns and numbers in the
        metric of the noise, |(n A - a 1') u|^2 is least over the u >= 0 that add up to 1 where,
        but for a factor, it is with (1'u - 1)^2 added over all u >= 0.
        """
        columns, goals = (np.linalg.solve(self._root, x.T) for x in (self.columns, measured))
        if self._is_empty:
            return np.zeros((len(measured), self.space.size))
        if self.totals is None:
            return np.stack([nnls(columns, goal)[0] for goal in goals.T])
        n, last = float(self.totals[0]), np.append(np.zeros(len(goals)), 1.0)
        one = np.ones(self.space.size)
        shares = np.stack(
            [nnls(np.vstack([n * columns - g[:, None], one]), last)[0] for g in goals.T]
        )
        return np.asarray(n * shares / shares.sum(axis=1, keepdims=True))

    @cached_property
    def _root(self) -> Array:
        return np.asarray(np.linalg.cholesky(self.covariance))

    def saturated_from(self, start: Array) -> Maximum[DesignPoint]:
        """The same from some coefficients of the measured columns, shape (m,)."""
        return maximise(lambda b: DesignPoint(self.design, self.at(self.design.dot(b))), start)

    def equal(self) -> Array:
        """Coefficients of the measured columns that make equal rates, shape (m,)."""
        start = np.zeros(self.measured.size)
        if self.totals is None:
            level = self.space.sums(np.zeros(self.space.size))[0]
            start[0] = math.log(max(self._estimated_total, 1.0)) - level
        return start

    def with_measured(self, measured: Array) -> InteractionLikelihood:
        """The same with other measured numbers of the same law, shape (m,)."""
        other = copy.copy(self)
        other.measured = measured
        other._hint = np.zeros(measured.size)
        if self.totals is None:
            other._estimated_total = float(measured[0])
        return other

    def noise_in_fit(self, design: Design, fitted: Array, possible: npt.NDArray[np.bool_]) -> float:
        """The noise variances of the fitted cells of a model, added up.

        The trace of V X C X' V, C what the noise adds to the covariance of the coefficients. On a
        junction tree each column counts in one clique.
        """
        complete = design.compress(MeasuredCurvature(self.design, self.spread(fitted)))
        inverse = [
            np.linalg.pinv(x, hermitian=True)
            for x in (design.compress(self.information(fitted)), complete)
        ]
        square, total = fitted**2, max(float(fitted[self._first()].sum()), 1.0)
        moved = design.gram(square)
        if self.totals is not None:
            centre, slope = design.tdot(fitted) / total, design.tdot(square)
            moved = moved - np.outer(slope, centre) - np.outer(centre, slope)
            moved += square.sum() * np.outer(centre, centre)
        return max(float(((inverse[0] - inverse[1]) * moved).sum()), 0.0)

    def _first(self) -> slice:
        """The cells of the first clique, whose means add up to the total."""
        return slice(math.prod(self.space.shape[k] for k in self.space.cliques[0]))

    def free_dimension(self, face: npt.NDArray[np.bool_]) -> int:
        """How many numbers a model may explain: the measured ones."""
        return 0 if self._is_empty else self.measured.size

    def information(self, fitted: Array) -> MeasuredCurvature:
        """What the release is expected to say of the log rates: V B' (S + B V B')^-1 B V."""
        return MeasuredCurvature(self.design, self.known(self.spread(fitted)))

    def score_statistic(self, fitted: Array) -> float:
        """The squared distance of measured and fitted interactions, in their covariance."""
        residual = self.measured - self.design.tdot(fitted)
        form = residual @ _solve(self.spread(fitted) + self.covariance, residual)
        return max(float(form), 0.0)  # where only rounding is left of the residual

    def nested_score_statistic(self, fitted: Array, larger: Design) -> float:
        """The score statistic of a fit against a larger model: u' I1^-1 u.

        u = X1' V B' (S + B V B')^-1 (y - B mu), I1 = X1' V B' (S + B V B')^-1 B V X1.
        """
        spread = self.spread(fitted)
        residual = self.measured - self.design.tdot(fitted)
        seen = MeasuredCurvature(self.design, spread)
        scores = spread @ _solve(spread + self.covariance, residual)
        score = np.concatenate([scores[seen.columns(larger)], seen.combinations(larger).T @ scores])
        information = larger.compress(MeasuredCurvature(self.design, self.known(spread)))
        return max(float(score @ _solve(information, score)), 0.0) if score.size else 0.0

    def spread(self, means: Array) -> Array:
        """B V B', V the covariance of counts with these means."""
        total = None if self.totals is None else float(self.totals[0])
        return covariance_of(self.space, self.design, means, total)

    def known(self, spread: Array) -> Array:
        """G (S + G)^-1 G for G = B V B'."""
        return spread @ _solve(self.covariance + spread, spread)

    @property
    def _is_empty(self) -> bool:
        """Whether the public total says that there is no record."""
        return self.totals is not None and float(self.totals[0]) == 0.0

    def _cumulant(self, eta: Array) -> tuple[float, Array]:
        """K(eta), and its gradient: the means."""
        if self._is_empty:  # whatever the rates
            return 0.0, np.zeros(self.space.size)
        log_sum, shares = self.space.sums(eta)
        if self.totals is None:
            total = math.exp(min(log_sum, LARGEST_RATE))
            return total, total * shares
        n = float(self.totals[0])
        return n * log_sum, n * shares


def _noisy_cells(release: MarginRelease, space: CellSpace) -> Array:
    """The released interactions as a table, over the cells of a space."""
    names, parts = release.domain.names, []
    named = {name for margin in release.margins for name in margin}
    for clique in space.cliques:
        inside = [names[k] for k in clique]
        if named.isdisjoint(inside):  # nothing was asked of it: equal cells
            size = math.prod(space.shape[k] for k in clique)
            parts.append(np.full(size, release.n_total_estimate / size))
        else:
            parts.append(release.collapse(*inside).noisy.ravel())
    return np.concatenate(parts)


def _covariance(
    shape: tuple[int, ...], codes: npt.NDArray[np.intp], scales: dict[tuple[int, ...], float]
) -> Array:
    """B (sum over A of sigma_A^2 P_A) B', from the scales s_A on A's own margins.

    The product over the factors of A of (I - J / n_k) and over the others of J / n_k^2, between
    columns that are an indicator of a level along some axes and constant along the others.
    """
    out = np.zeros((len(codes), len(codes)))
    for a, scale in scales.items():
        where = np.flatnonzero((codes[:, list(a)] > 0).all(axis=1))
        one, other = codes[where][:, None, :], codes[where][None, :, :]
        block = np.full((where.size, where.size), scale**2)
        for axis, n in enumerate(shape):
            if axis in a:
                block *= (one[..., axis] == other[..., axis]) - 1 / n
            else:
                block *= float(n) ** -((one[..., axis] > 0) + (other[..., axis] > 0).astype(float))
        out[np.ix_(where, where)] += block
    return out


def _solve(matrix: Array, rhs: Array) -> Array:
    """The solution for a positive definite matrix, scaled to unit diagonal."""
    scale = 1 / np.sqrt(np.diag(matrix))
    right = (scale * rhs.T).T
    try:
        factor = cho_factor(matrix * np.outer(scale, scale))
    except LinAlgError:
        raise ModelError(
            "The covariance of the measured interactions is singular to working precision; the "
            "noise is too small for the counts. Release with a smaller loss, or model the table."
        ) from None
    return np.asarray((scale * cho_solve(factor, right).T).T)
