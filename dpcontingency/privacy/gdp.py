"""Gaussian differential privacy: one number, its trade-off curve and its translations.

Every number printed from here is rounded toward privacy: a loss is never understated and noise is
never too small. Where a formula is not a square root, the rounding is certified in ball
arithmetic (python-flint).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from dpcontingency._lazy import later
from dpcontingency.errors import PrivacyError, shown

if TYPE_CHECKING:
    import flint
else:
    flint = later("flint")


_OTHER_WAYS = {
    "epsilon": "GDP.from_epsilon_delta(epsilon, delta), such as GDP.from_epsilon_delta(1, 1e-6)",
    "rho": "GDP.from_zcdp(rho)",
    "delta": "GDP.from_epsilon_delta(epsilon, delta), such as GDP.from_epsilon_delta(1, 1e-6)",
}


@dataclass(frozen=True)
class GDP:
    """The privacy loss mu of a mu-GDP mechanism.

    A mechanism is mu-GDP when no test between two neighbouring data sets does better than the
    best test between N(0, 1) and N(mu, 1) (Dong, Roth and Su 2022, Definition 2.6).

    Parameters
    ----------
    mu : float
        The loss, positive and finite. Smaller is more private.

    Raises
    ------
    PrivacyError
        If ``mu`` is not a positive finite number.

    Examples
    --------
    >>> budget = GDP(mu=1)
    >>> round(budget.delta(1.0), 4), round(budget.epsilon(1e-6), 4)
    (0.1269, 4.8866)
    >>> GDP(3).compose(GDP(4))
    GDP(mu=5.0)
    """

    mu: float

    def __new__(cls, *args: object, **named: object) -> GDP:
        """Refuse other currencies, which have constructors of their own."""
        for name, way in _OTHER_WAYS.items():
            if name in named:
                raise PrivacyError(f"GDP takes mu; a loss in {name} is {way}.")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", _positive("mu", self.mu))

    @classmethod
    def from_epsilon_delta(cls, epsilon: float, delta: float) -> GDP:
        """The largest mu whose Gaussian mechanism is (epsilon, delta)-DP.

        Parameters
        ----------
        epsilon : float
            Non-negative and finite.
        delta : float
            Strictly between 0 and 1.

        Raises
        ------
        PrivacyError
            If either is outside its range.

        Notes
        -----
        Solves delta(epsilon; mu) = delta (Balle and Wang 2018, Theorem 8) and returns a mu for
        which delta(epsilon; mu) <= delta is certified.

        Examples
        --------
        >>> GDP.from_epsilon_delta(1.0, 1e-6).delta(1.0) <= 1e-6
        True
        """
        epsilon = _nonnegative("epsilon", epsilon)
        delta = _probability("delta", delta)
        if delta == 0:
            raise PrivacyError(
                "No Gaussian mechanism is (epsilon, 0)-DP: give a delta above 0, such as 1e-6."
            )
        high = 1.0
        while _at_most(high, epsilon, delta):
            high *= 2
        low = high / 2
        while not _at_most(low, epsilon, delta):
            low /= 2
        return cls(last_certified(low, high, lambda mu: _at_most(mu, epsilon, delta)))

    @classmethod
    def from_zcdp(cls, rho: float) -> GDP:
        """The mu of the Gaussian mechanism whose zero-concentrated loss is rho.

        Notes
        -----
        mu = sqrt(2 rho), rounded down (Bun and Steinke 2016, Proposition 1.6). This prices a
        Gaussian mechanism; rho-zCDP of another mechanism does not imply mu-GDP.

        Examples
        --------
        >>> GDP.from_zcdp(0.5)
        GDP(mu=1.0)
        """
        return cls(root_down(2 * Fraction(_positive("rho", rho))))

    @property
    def rho(self) -> float:
        """The zCDP loss mu^2 / 2 of a Gaussian mechanism with this mu, rounded up."""
        return float_up(Fraction(self.mu) ** 2 / 2)

    def delta(self, epsilon: float) -> float:
        """The smallest delta at which a Gaussian mechanism with this mu is (epsilon, delta)-DP.

        Notes
        -----
        delta = Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2) (Balle and Wang
        2018, Theorem 8), rounded up.
        """
        ball = _delta_ball(self.mu, _nonnegative("epsilon", epsilon))
        nearest = float(ball.upper())
        return min(
            1.0, nearest if flint.arb(nearest) >= ball else math.nextafter(nearest, math.inf)
        )

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at which a Gaussian mechanism with this mu is (epsilon, delta)-DP.

        Infinite at ``delta = 0``; rounded up.
        """
        delta = _probability("delta", delta)
        if delta == 0:
            return math.inf
        if _at_most(self.mu, 0.0, delta):
            return 0.0
        # Gaussian tails: at this epsilon the privacy loss exceeds epsilon with probability < delta.
        high = self.mu * self.mu / 2 + self.mu * math.sqrt(-2 * math.log(delta)) * 1.001
        while not _at_most(self.mu, high, delta):  # mu so large that the sum above rounds down
            high *= 1.001
            if high == math.inf:
                return high
        return last_certified(high, 0.0, lambda epsilon: _at_most(self.mu, epsilon, delta))

    def trade_off(self, alpha: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The smallest type II error of a test of level alpha between neighbouring data sets.

        Parameters
        ----------
        alpha : array_like of float
            Type I errors in [0, 1].

        Returns
        -------
        ndarray
            G_mu(alpha) = Phi(Phi^-1(1 - alpha) - mu), of the shape of ``alpha`` (Dong, Roth and
            Su 2022, Equation 6), rounded down by more than the error of its evaluation.
        """
        return np.asarray(ndtr(-ndtri(_levels(alpha)) - self.mu) * (1 - 1e-12))

    def compose(self, *others: GDP) -> GDP:
        """The loss of releasing all of these from the same records: sqrt(sum mu_i^2), rounded up.

        Dong, Roth and Su 2022, Corollary 3.3.
        """
        for other in others:
            if not isinstance(other, GDP):
                raise PrivacyError(f"Losses compose with GDP objects; got {shown(other)}.")
        return GDP(root_up(sum((Fraction(g.mu) ** 2 for g in (self, *others)), Fraction(0))))

    def group(self, k: int) -> GDP:
        """The loss toward groups of k records: k mu, rounded up (Theorem 2.14 there)."""
        if not _number("k", k).is_integer() or k < 1:
            raise PrivacyError(f"A group has a whole number of records, at least 1; got {k}.")
        return GDP(float_up(Fraction(self.mu) * int(k)))

    def sigma(self, sensitivity: float) -> float:
        """The standard deviation of Gaussian noise that gives this loss, rounded up.

        Parameters
        ----------
        sensitivity : float
            The L2 sensitivity of what is released.
        """
        return float_up(Fraction(_positive("sensitivity", sensitivity)) / Fraction(self.mu))

    def describe(self, delta: float = 1e-6) -> str:
        """The loss in the three currencies, in one line.

        Examples
        --------
        >>> GDP(0.5).describe()
        'mu = 0.5 (Gaussian DP); epsilon = 2.2541 at delta = 1e-06; rho = 0.125 (zCDP)'
        """
        return (
            f"mu = {ceil_digits(self.mu)} (Gaussian DP); "
            f"epsilon = {ceil_digits(self.epsilon(delta))} at delta = {float(delta)!r}; "
            f"rho = {ceil_digits(self.rho)} (zCDP)"
        )


def epsilon_delta_trade_off(
    alpha: npt.ArrayLike, epsilon: float, delta: float
) -> npt.NDArray[np.float64]:
    """The smallest type II error of a test of level alpha under (epsilon, delta)-DP.

    A mechanism is (epsilon, delta)-DP exactly when its trade-off function is at least this one
    (Wasserman and Zhou 2010; Dong, Roth and Su 2022, Proposition 2.5).

    Parameters
    ----------
    alpha : array_like of float
        Type I errors in [0, 1].
    epsilon : float
        Non-negative and finite.
    delta : float
        In [0, 1).

    Returns
    -------
    ndarray
        max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)), of the shape of
        ``alpha``, rounded down by more than the error of its evaluation.

    Raises
    ------
    PrivacyError
        If a number is outside its range.

    Examples
    --------
    >>> mu, epsilon = GDP(1), 2.0
    >>> float(epsilon_delta_trade_off(0.1, epsilon, mu.delta(epsilon)).round(4))
    0.2402
    >>> float(mu.trade_off(0.1).round(4))
    0.6109
    """
    levels = _levels(alpha)
    epsilon, delta = _nonnegative("epsilon", epsilon), _probability("delta", delta)
    slack = 2.0**-50
    slope = math.exp(epsilon) * (1 + slack) if epsilon < 709 else math.inf
    steep = np.multiply(slope, levels, out=np.zeros_like(levels), where=levels > 0)
    flat = math.exp(-epsilon) * (1 - delta - levels - slack)
    return np.asarray(np.maximum(np.maximum(1 - delta - steep - slack, flat * (1 - slack)), 0))


def ceil_digits(value: float, digits: int = 5) -> str:
    """A positive number with so many significant digits, rounded up so that no loss is understated.

    A last digit that stems from binary representation alone (a relative 1e-12) is not counted.

    Examples
    --------
    >>> ceil_digits(0.1), ceil_digits(0.123451), ceil_digits(2.0)
    ('0.1', '0.12346', '2')
    """
    if not math.isfinite(value):
        return str(value)
    exponent = digits - 1 - math.floor(math.log10(value)) if value > 0 else 0
    scaled = Fraction(value) * Fraction(10) ** exponent * (1 - Fraction(1, 10**12))
    return f"{float(math.ceil(scaled) / Fraction(10) ** exponent):.{digits}g}"


def root_up(square: Fraction) -> float:
    """The smallest float, infinity included, whose square is at least ``square``, at least 0."""
    if square == 0:
        return 0.0
    # The square of a tiny or huge float is no float: take the root of a number near 1.
    shift = (square.denominator.bit_length() - square.numerator.bit_length()) // 2
    try:
        root = math.ldexp(math.sqrt(square * Fraction(4) ** shift), -shift)
    except OverflowError:
        return math.inf
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    while Fraction(math.nextafter(root, 0.0)) ** 2 >= square:
        root = math.nextafter(root, 0.0)
    return root


def root_down(square: Fraction) -> float:
    """The largest float whose square is at most ``square``, a number at least 0."""
    root = root_up(square)
    return root if Fraction(root) ** 2 == square else math.nextafter(root, 0.0)


def float_up(value: Fraction) -> float:
    """The smallest float, infinity included, that is at least ``value``."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _delta_ball(mu: float, epsilon: float) -> flint.arb:
    """A ball that contains delta(epsilon; mu), to about 60 bits.

    Where 2^11 bits do not suffice (mu above 10^12, or delta far below the smallest float), a ball
    around a bound from above: the first of the two terms.
    """
    for precision in (128, 256, 512, 1024, 2048):
        with flint.ctx.workprec(precision):
            m, e = flint.arb(mu), flint.arb(epsilon)
            root2 = flint.arb(2).sqrt()
            first = ((e / m - m / 2) / root2).erfc()
            second = ((e / m + m / 2) / root2).erfc()
            ball = (first - e.exp() * second) / 2
            bound = first / 2
        if ball.rel_accuracy_bits() >= 60:
            return ball
    return bound


def _at_most(mu: float, epsilon: float, delta: float) -> bool:
    """Whether delta(epsilon; mu) <= delta for certain."""
    return bool(_delta_ball(mu, epsilon) <= flint.arb(delta))


def last_certified(good: float, bad: float, certified: Callable[[float], bool]) -> float:
    """The last certified float on the way from a certified to an uncertified one."""
    while True:
        middle = (good + bad) / 2
        if middle in (good, bad):
            return good
        if certified(middle):
            good = middle
        else:
            bad = middle


def _positive(name: str, value: float) -> float:
    number = _number(name, value)
    if not (0 < number < math.inf):
        raise PrivacyError(f"{name} must be a positive finite number; got {number}.")
    return number


def _nonnegative(name: str, value: float) -> float:
    number = _number(name, value)
    if not (0 <= number < math.inf):
        raise PrivacyError(f"{name} must be a finite number, at least 0; got {shown(value)}.")
    return number


def _probability(name: str, value: float) -> float:
    number = _number(name, value)
    if not (0 <= number < 1):
        raise PrivacyError(f"{name} is a probability in [0, 1); got {shown(value)}.")
    return number


def _levels(alpha: npt.ArrayLike) -> npt.NDArray[np.float64]:
    try:
        levels = np.asarray(alpha, dtype=np.float64)
    except (TypeError, ValueError):
        levels = np.array(np.nan)
    if not ((levels >= 0) & (levels <= 1)).all():
        raise PrivacyError("A type I error alpha lies in [0, 1].")
    return levels


def _number(name: str, value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        raise PrivacyError(f"{name} must be a number; got {shown(value)}.") from None
