"""Strength of association by chi-square: Cramer's V and its relatives, corrected for the noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.contour import gradient_of
from dpcontingency.inference.estimates import Estimate, Scale
from dpcontingency.inference.inversion import Inversion, canonical
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.noncentral import (
    GaussianCells,
    noncentrality_interval,
    taken_up,
)
from dpcontingency.inference.quotient import over
from dpcontingency.inference.saturated import NO_ERROR, SaturatedTable, TwoFactors
from dpcontingency.inference.surface import Square

Array = npt.NDArray[np.float64]

NO_RECORDS = "no more than one level of a factor holds records, as far as can be told"

# A mean square contingency X2 / n, whatever it comes from, to a measure of it.
Measure = Callable[["Contingency", float], float]

# Tables, shape (..., K, r, c), to mutual information and the entropy it explains, shapes (...).
Entropies = Callable[[npt.NDArray[Any]], tuple[npt.NDArray[Any], npt.NDArray[Any]]]

BY_NONCENTRALITY = "noncentrality / n"  # how an interval was made
BY_INVERSION = "tests of each value, by simulation at the nearest table"
BY_LIMIT = 1e-6  # a share of entropy below which its quotient with X2 is mostly rounding


@dataclass(frozen=True, eq=False)
class Contingency:
    """Pearson's X2 of a noisy table, and what is needed to say how large it would be without.

    Attributes
    ----------
    chi_square : float
        X2 = sum (y - e)^2 / e.
    due_to_noise : float
        What the noise adds to its expectation.
    score : float
        The noise-aware score statistic of independence.
    df : int
        Its degrees of freedom.
    n : float
        Records.
    rows, columns : int
        Levels that hold records.
    is_exact : bool
        Whether there is no noise.
    """

    chi_square: float
    due_to_noise: float
    score: float
    df: int
    n: float
    rows: int
    columns: int
    is_exact: bool = False

    @classmethod
    def of(cls, about: TwoFactors) -> Contingency:
        """The statistic of (conditional) independence, at the margins' own fits."""
        margin = about.margin
        cells = LogLinearModel(margin, [about.domain.names]).cells
        rows, columns = (
            _margin_fit(margin, (*about.given, name)) for name in (about.row, about.column)
        )
        rows, columns = rows.reshape(about.shape[0], -1), columns.reshape(about.shape[0], -1)
        expected = _product(rows, columns)
        if not expected.any():
            return cls(0.0, 0.0, 0.0, 0, 0.0, 0, 0)
        n = float(cells.noisy.sum() if cells.totals is None else cells.totals.sum())
        expected *= n / expected.sum()
        alive = expected.ravel() > 0
        law = cells.law(expected.ravel(), alive)
        shift = law.centred(np.where(alive, cells.noisy, 0.0) - expected.ravel())
        score = float(law.form(shift, shift)) - taken_up(
            law, shift, law.sampling(_independence_columns(about.shape))
        )
        safe = np.where(alive, expected.ravel(), 1.0)
        at_rows, at_columns = (expected > 0).any(axis=2), (expected > 0).any(axis=1)
        df = np.maximum(at_rows.sum(axis=1) - 1, 0) * np.maximum(at_columns.sum(axis=1) - 1, 0)
        return cls(
            chi_square=float((np.where(alive, shift, 0.0) ** 2 / safe).sum()),
            due_to_noise=_noise_part(expected, law),
            score=max(score, 0.0),
            df=int(df.sum()),
            n=n,
            rows=int(at_rows.any(axis=0).sum()),
            columns=int(at_columns.any(axis=0).sum()),
            is_exact=bool(cells.is_exact),
        )

    @property
    def square(self) -> float:
        """X2 / n without what the noise adds."""
        return max(self.chi_square - self.due_to_noise, 0.0) / self.n

    @property
    def share(self) -> float:
        """X2 for one unit of the noncentrality of the score, along the direction of y - e."""
        return self.chi_square / self.score if self.score > 0 else 1.0

    def interval(self, alpha: float) -> tuple[float, float]:
        """The interval of X2 / n: noncentralities, taken along the direction of y - e."""
        lower, upper = noncentrality_interval(self.score, self.df, alpha)
        return self.share * lower / self.n, self.share * upper / self.n


def v(of: Contingency, square: float) -> float:
    """Cramer's V."""
    return min(math.sqrt(square / (min(of.rows, of.columns) - 1)), 1.0)


def bias_corrected_v(of: Contingency, square: float) -> float:
    """V less what sampling adds (Bergsma 2013)."""
    if of.n <= 1:
        return 0.0
    left = max(square - of.df / (of.n - 1), 0.0)
    rows, columns = (k - (k - 1) ** 2 / (of.n - 1) for k in (of.rows, of.columns))
    smaller = min(rows, columns) - 1
    return min(math.sqrt(left / smaller), 1.0) if smaller > 0 else 0.0


def contingency(of: Contingency, square: float) -> float:
    """Pearson's contingency coefficient."""
    square = min(square, min(of.rows, of.columns) - 1)
    return math.sqrt(square / (1 + square))


def obstacle(about: TwoFactors) -> str:
    """Why no strength of association can be said of two factors; empty where it can."""
    reason = about.one_level()
    if not reason and about.domain.structural_zeros:
        reason = (
            "the table has structural zeros, which are no independence to measure from; fit a "
            "model and test it"
        )
    return reason


def with_interval(
    about: TwoFactors, of: Contingency, of_square: Measure
) -> tuple[Contingency, float, tuple[float, float, float]]:
    """A measure that grows with X2 / n, between the ends of its interval.

    And what it is of, and the X2 / n of the estimate. Without noise the ends are those of the
    noncentrality, widened to hold the measure of the table. With noise they are those of the values
    that a test of the table, of all declared levels, does not reject, which hold the estimate.
    """
    ends = v if of_square is bias_corrected_v else of_square
    if of.is_exact:
        square, (low, high) = of.square, of.interval(about.alpha)
    else:
        rows, columns = about.shape[1:]
        of = replace(of, rows=rows, columns=columns)
        found = inversion(about, mean_square, math.sqrt(min(rows, columns) - 1)).ends(about.alpha)
        low, square, high = (root**2 for root in found)
    value = of_square(of, square)
    return of, square, (min(ends(of, low), value), value, max(ends(of, high), value))


def inversion(
    about: TwoFactors, square: Square, largest: float, *, symmetric: bool = True
) -> Inversion:
    """The tests of all values of a measure, on the released table in an order of its own."""
    cells = LogLinearModel(about.margin, [about.domain.names]).cells
    places = canonical(cells.noisy.reshape(about.shape), symmetric=symmetric)
    order = places.ravel()
    noise = cells.law(cells.saturated().fitted).noise()
    strata = None if cells.strata is None else cells.strata[order]
    groups, rows, columns = places.shape
    shape = groups, rows, columns
    return Inversion(
        cells.noisy[order], noise[np.ix_(order, order)], strata, shape, square, largest
    )


def measure(about: TwoFactors, name: str, of_square: Measure) -> Estimate:
    """A measure that grows with X2 / n."""
    reason = obstacle(about)
    if reason:
        return about.undefined(name, about.in_words, reason)
    of = Contingency.of(about)
    if of.df == 0:
        return about.left_open(name, about.in_words, NO_RECORDS, 0.0, most(of_square, about))
    of, square, (lower, value, upper) = with_interval(about, of, of_square)
    return Estimate(
        name, about.in_words, value, _standard_error(about, of, of_square, square),
        (lower, upper), 1 - about.alpha,
        BY_NONCENTRALITY if of.is_exact else BY_INVERSION, math.nan, about.accounts_for, "",
        _notes(about, of.is_exact and upper <= value < of_square(of, math.inf)),
    )  # fmt: skip


def most(of_square: Measure, about: TwoFactors) -> float:
    """The largest value of a measure of a table of this shape."""
    rows, columns = about.shape[1:]
    return of_square(Contingency(0.0, 0.0, 0.0, 0, math.inf, rows, columns), math.inf)


def explained(
    about: TwoFactors,
    name: str,
    entropies: Entropies,
    square: Square,
    scale: Scale,
    *,
    symmetric: bool,
) -> Estimate:
    """A share of entropy, with the interval of the values that a test does not reject.

    Without noise that of the noncentrality, where it is wider than the delta method's.
    """
    if reason := about.one_level():
        return about.undefined(name, about.in_words, reason)
    table = SaturatedTable.or_reason(about)
    if isinstance(table, str):
        return about.left_open(name, about.in_words, table)

    def share_of(m: npt.NDArray[Any]) -> npt.NDArray[Any]:
        shared, whole = entropies(m)
        return np.asarray(shared / whole)

    constant = f"{about.row} or {about.column} does not vary where records can be compared"
    found = table.estimate(name, about.in_words, share_of, scale, constant)
    value = found.estimate
    if about.domain.structural_zeros or not value < 1:
        return found
    of = Contingency.of(about)
    if of.df == 0:
        return found
    if not of.is_exact:
        found_ends = inversion(about, square, 1.0, symmetric=symmetric).ends(about.alpha)
        low, middle, high = (min(root**2, 1.0) for root in found_ends)
        return replace(
            found, estimate=middle, interval=(min(low, middle), max(high, middle)),
            link=BY_INVERSION, link_se=math.nan,
        )  # fmt: skip
    # One unit of noncentrality; the quotient is 1 / (2 n H) up to rounding near independence.
    square_here = float(_mean_square(table.means))
    unit = (
        value / (of.n * square_here) if value > BY_LIMIT else 0.5 / float(entropies(table.means)[1])
    )
    unit *= of.share
    lower, middle, upper = np.sqrt(
        [*noncentrality_interval(of.score, of.df, about.alpha),
         noncentrality_interval(of.score, of.df, 1.0)[0]]
    )[[0, 2, 1]]  # fmt: skip
    stretch = 1.0 if math.isnan(found.se) else found.se / (2 * math.sqrt(value * unit))
    low, high = (middle + max(stretch, 1.0) * (end - middle) for end in (lower, upper))
    ends = unit * max(low, 0.0) ** 2, min(unit * high**2, 1.0)
    return replace(
        found, interval=(min(ends[0], value), max(ends[1], value)), link=BY_NONCENTRALITY,
        link_se=math.nan, notes=_notes(about, ends[1] <= value),
    )  # fmt: skip


def _notes(about: TwoFactors, too_good: bool) -> tuple[str, ...]:
    """What a reader must know beside the numbers."""
    if not too_good:
        return about.notes
    return (
        *about.notes,
        "The statistic is in the lower tail even of independence, so the interval ends at the "
        "estimate: a fit too good says nothing of how small the association is.",
    )


def _standard_error(about: TwoFactors, of: Contingency, of_square: Measure, square: float) -> float:
    """By the delta method, where the measure has a slope."""
    if square <= 0 or of_square(of, square) <= 0:
        return math.nan
    table = SaturatedTable.fit(about)
    slope = gradient_of(_mean_square, table.means)
    variance = float(slope @ table.covariance @ slope)
    step = 1e-6 * square
    rise = (of_square(of, square + step) - of_square(of, square - step)) / (2 * step)
    error = math.sqrt(max(variance, 0.0)) * rise
    return error if error > NO_ERROR else math.nan


def mean_square(tables: Array) -> tuple[Array, Array]:
    """X2 / n of tables, shape (B, K, r, c), and its gradient."""
    rows, columns = tables.sum(axis=-1, keepdims=True), tables.sum(axis=-2, keepdims=True)
    group = tables.sum(axis=(-1, -2), keepdims=True)
    whole = tables.sum(axis=(-1, -2, -3), keepdims=True)
    share = over(tables, rows * columns)
    parts = tables * share
    of_rows = over(parts.sum(axis=-1, keepdims=True), rows)
    of_columns = over(parts.sum(axis=-2, keepdims=True), columns)
    excess = np.where(group > 0, parts.sum(axis=(-1, -2), keepdims=True) - 1, 0.0)
    value = (group * excess).sum(axis=-3, keepdims=True) / whole
    gradient = (excess + group * (2 * share - of_rows - of_columns) - value) / whole
    return value[..., 0, 0, 0], np.asarray(gradient)


def _mean_square(m: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """X2 / n of tables, shape (..., K, r, c) to (...)."""
    expected = _product(m.sum(axis=-1), m.sum(axis=-2))
    alive = expected.real > 0
    parts = np.where(alive, (m - expected) ** 2 / np.where(alive, expected, 1.0), 0.0)
    return np.asarray(parts.sum(axis=(-1, -2, -3)) / m.sum(axis=(-1, -2, -3)))


def _margin_fit(release: AnyRelease, names: tuple[str, ...]) -> Array:
    """Noise-aware fitted means of a margin of its own: the margin itself where it is positive."""
    margin = release.margin(*names)
    return np.asarray(LogLinearModel(margin, [names]).cells.saturated().fitted)


def _product(rows: npt.NDArray[Any], columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Tables of independence with these margins, in groups: (..., K, r), (..., K, c)."""
    one, other = rows.sum(axis=-1), columns.sum(axis=-1)
    total = np.sqrt(one * other)
    alive = (one.real > 0) & (other.real > 0)
    share = np.where(alive, 1 / np.where(alive, total, 1.0), 0.0)
    return np.asarray(rows[..., :, None] * columns[..., None, :] * share[..., None, None])


def _independence_columns(shape: tuple[int, int, int]) -> Array:
    """Indicators of the rows and of the columns of each group, shape (p, K (r + c))."""
    groups, rows, columns = shape
    k, i, j = (axis.ravel() for axis in np.indices(shape))
    of_rows = (k * rows + i)[:, None] == np.arange(groups * rows)
    of_columns = (k * columns + j)[:, None] == np.arange(groups * columns)
    return np.hstack([of_rows, of_columns]).astype(np.float64)


def _noise_part(expected: Array, law: GaussianCells) -> float:
    """What noise of covariance N adds to the mean of X2: the trace of D_e^-1 A N A'.

    A z = z - e (z_row / e_row + z_column / e_column - z_total / e_total), group by group, is y - e
    to first order.
    """
    noise, size = law.noise(), expected[0].size
    out = 0.0
    for k, e in enumerate(expected):
        place = slice(k * size, (k + 1) * size)
        within = noise[place, place].reshape(size, *e.shape)
        half = _interaction(e, within).reshape(size, size).T  # A N, N symmetric
        both = _interaction(e, half.reshape(size, *e.shape)).reshape(size, size)
        out += float((np.diag(both) * over(np.ones(size), e.ravel())).sum())
    return out


def _interaction(e: Array, z: Array) -> Array:
    """A z of one group, shape (..., r, c)."""
    whole = e.sum()
    if whole == 0:
        return np.zeros_like(z)
    rows = over(z.sum(axis=-1), e.sum(axis=1))[..., :, None]
    columns = over(z.sum(axis=-2), e.sum(axis=0))[..., None, :]
    total = z.sum(axis=(-1, -2))[..., None, None] / whole
    return np.asarray(z - e * (rows + columns - total))
