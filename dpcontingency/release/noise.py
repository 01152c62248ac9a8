"""The law of the noise in a released table, closed under collapsing to margins."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import brentq

from dpcontingency._arrays import read_only
from dpcontingency._language import phrase
from dpcontingency.errors import ReleaseError, shown

Array = npt.NDArray[np.float64]

MAX_DENSE_CELLS = 4096

# How far from zero the sum of a stratum may be, in standard deviations of the sum of its
# unconditioned noise, for rounding error in the cells to explain it.
SUPPORT_SLACK = 1e-6


@dataclass(frozen=True, eq=False)
class GaussianNoise:
    """Independent N(0, v) on the cells, conditioned on zero sum inside each stratum.

    Parameters
    ----------
    variances : array of float
        v, one a cell, of the shape of the table; 0 in a structural zero or an exact cell.
    strata : tuple of int or None
        The axes whose joint margin carries no noise: ``()`` conditions on the total alone, None
        on nothing.

    Notes
    -----
    With equal variances and ``strata=()`` this is sigma P z, P = I - 11'/p, the rank-deficient
    Gaussian mechanism. Summing cells keeps the form (METHODS 1.6), so the same object is the
    law of every margin.

    Examples
    --------
    >>> noise = GaussianNoise(np.full((2, 3), 4.0), strata=())
    >>> noise.margin((1,)).variances
    array([8., 8., 8.])
    >>> noise.sd()[0, 0] == np.sqrt(4 * (1 - 1 / 6))
    np.True_
    """

    variances: Array
    strata: tuple[int, ...] | None

    name: ClassVar[str] = "Gaussian"
    #: How many standard deviations no draw is away from 0: an event of 1e-33.
    reach: ClassVar[float] = 12.0

    def __post_init__(self) -> None:
        variances = np.asarray(self.variances, dtype=np.float64)
        if not (np.isfinite(variances).all() and (variances >= 0).all()):
            raise ReleaseError("Noise variances must be finite and at least 0.")
        object.__setattr__(self, "variances", read_only(variances))
        if self.strata is not None:
            strata = tuple(sorted(map(operator.index, self.strata)))
            if len(set(strata)) < len(strata) or not set(strata) <= set(range(variances.ndim)):
                raise ReleaseError(
                    f"Strata are axes of the table, 0 to {variances.ndim - 1}; got {shown(strata)}."
                )
            object.__setattr__(self, "strata", strata)

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew, so that a copy is read-only and checked too.
        return type(self), (self.variances, self.strata)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the table."""
        return self.variances.shape

    @property
    def is_exact(self) -> bool:
        """Whether there is no noise at all."""
        return not self.variances.any()

    @property
    def dimension(self) -> int:
        """The dimension of the space that the noise spans: noisy cells less noisy strata."""
        noisy = self.variances > 0
        if self.strata is None:
            return int(noisy.sum())
        strata = self._stratum_sums(self.variances, self.strata) > 0
        return int(noisy.sum()) - int(strata.sum())

    def sd(self) -> Array:
        """The standard deviation of the noise in each cell."""
        if self.strata is None:
            return np.sqrt(self.variances)
        # A stratum of one noisy cell is known exactly; rounding must not make it negative.
        return np.sqrt(self.variances * np.maximum(1 - self._share(self.strata), 0))

    def half_widths(self, level: float = 0.95) -> Array:
        """How far from 0 the noise of each cell stays with a probability of ``level``."""
        return np.asarray(stats.norm.isf((1 - level) / 2) * self.sd())

    def condition(
        self, noisy: Array, totals: npt.NDArray[Any], strata: tuple[int, ...]
    ) -> tuple[Array, GaussianNoise]:
        """Use totals known from elsewhere: the noisy table given them, and its law.

        For independent noise, y + v (n - sum y)/V is the table with its noise conditioned on
        zero sum; what is thrown away is independent of it (with equal v this turns the Gaussian
        mechanism into the rank-deficient one).
        """
        if self.strata is not None:
            raise ReleaseError("This noise is conditioned on its totals already.")
        sums = self._stratum_sums(noisy, strata)
        missing = np.reshape(totals, sums.shape) - sums
        return noisy + self._share(strata) * missing, GaussianNoise(self.variances, strata)

    def margin(self, axes: Sequence[int]) -> GaussianNoise:
        """The law of the margin over some axes, in the order given.

        Raises
        ------
        ReleaseError
            If a conditioned axis is summed over whose levels do not have proportional variances:
            the margin's noise is then Gaussian but no longer of this form.
        """
        axes = tuple(axes)
        dropped = tuple(i for i in range(len(self.shape)) if i not in axes)
        kept = [i for i in range(len(self.shape)) if i in axes]
        summed = self.variances.sum(axis=dropped).transpose([kept.index(i) for i in axes])
        if self.strata is None:
            return GaussianNoise(summed, None)
        lost = [i for i in self.strata if i in dropped]
        if lost and not self._alike(lost, dropped):
            raise ReleaseError(
                "This margin sums over strata whose noise variances are not alike (for instance "
                "because of structural zeros), so its noise has no simple law. Keep the factors "
                "of the strata in the margin."
            )
        return GaussianNoise(summed, tuple(axes.index(i) for i in self.strata if i in axes))

    def covariance(self) -> Array:
        """The dense covariance over the flattened cells, of small tables only.

        Raises
        ------
        ReleaseError
            If the table has more than 4,096 cells.
        """
        p = math.prod(self.shape)
        if p > MAX_DENSE_CELLS:
            raise ReleaseError(
                f"A dense covariance of {p:,} cells needs {p * p * 8 / 1e9:.1f} GB; ask for that "
                f"of a margin with at most {MAX_DENSE_CELLS:,} cells."
            )
        v = self.variances.ravel()
        out = np.diag(v)
        if self.strata is None:
            return out
        labels = stratum_labels(self.shape, self.strata)
        shared = np.outer(v, self._share(self.strata))
        return np.asarray(out - np.where(labels[:, None] == labels, shared, 0.0))

    def logpdf(self, x: npt.ArrayLike) -> float:
        """The log density of the noise at x, on the space that it spans.

        Parameters
        ----------
        x : array_like, shape ``shape``
            A value of the noise.

        Returns
        -------
        float
            The density is with respect to length (area, volume) in the space of dimension
            `dimension`; off that space the value is ``-inf``. A stratum whose sum is 0 within
            10^-6 of its noise counts as on it.

        Raises
        ------
        ReleaseError
            If x has another shape.

        Notes
        -----
        In a stratum of k noisy cells with variances v and V = sum v the covariance
        diag(v) - v v'/V has pseudo-determinant k prod(v) / V, and its pseudo-inverse gives
        x' S x = sum x^2 / v for every x of zero sum.

        Examples
        --------
        >>> noise = GaussianNoise(np.ones(2), strata=())
        >>> round(noise.logpdf([1.0, -1.0]), 4), noise.logpdf([1.0, 1.0])
        (-1.9189, -inf)
        """
        x = np.asarray(x, dtype=np.float64)
        if x.shape != self.shape:
            raise ReleaseError(f"x must have the noise's shape {self.shape}; got {x.shape}.")
        noisy = self.variances > 0
        v = self.variances[noisy]
        quadratic = float((x[noisy] ** 2 / v).sum() + np.log(v).sum())
        if x[~noisy].any():
            return -math.inf
        if self.strata is not None:
            total = self._stratum_sums(self.variances, self.strata)
            if (np.abs(self._stratum_sums(x, self.strata)) > SUPPORT_SLACK * np.sqrt(total)).any():
                return -math.inf
            cells = self._stratum_sums(noisy.astype(np.float64), self.strata)[total > 0]
            quadratic += float(np.log(cells / total[total > 0]).sum())
        return -(quadratic + self.dimension * math.log(2 * math.pi)) / 2

    def sample(self, rng: np.random.Generator) -> Array:
        """One draw from this law, for simulation; not private (the generator is seeded)."""
        draw = np.sqrt(self.variances) * rng.standard_normal(self.shape)
        if self.strata is None:
            return draw
        return draw - self._share(self.strata) * self._stratum_sums(draw, self.strata)

    def as_gaussian(self) -> GaussianNoise:
        """Return this law, which is Gaussian; a law that is not refuses."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the law as plain data; `noise_from_dict` is the way back."""
        return {
            "law": self.name,
            "variances": _packed(self.variances),
            "strata": None if self.strata is None else list(self.strata),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any], shape: tuple[int, ...]) -> GaussianNoise:
        """Return the law that `to_dict` described, for a table of this shape."""
        variances = _unpacked(content["variances"], shape, np.float64)
        strata = content["strata"]
        return cls(variances, None if strata is None else tuple(strata))

    def _share(self, strata: tuple[int, ...]) -> Array:
        """Each cell's part of its stratum's variance, v / V."""
        total = self._stratum_sums(self.variances, strata)
        return np.divide(self.variances, total, out=np.zeros(self.shape), where=total > 0)

    @staticmethod
    def _stratum_sums(values: Array, strata: tuple[int, ...]) -> Array:
        """Sums of cell values inside each stratum, broadcastable to the table."""
        others = tuple(i for i in range(values.ndim) if i not in strata)
        return np.asarray(values.sum(axis=others, keepdims=True))

    def _alike(self, lost: Sequence[int], dropped: Sequence[int]) -> bool:
        """Whether strata to be summed over have proportional variances in the margin."""
        strata = self.strata or ()
        inside = tuple(i for i in dropped if i not in strata)
        variances = self.variances.sum(axis=inside, keepdims=True)
        sizes = self._stratum_sums(variances, strata)
        expected = sizes * variances.sum(axis=tuple(lost), keepdims=True)
        whole = sizes.sum(axis=tuple(lost), keepdims=True)
        return bool(np.allclose(variances * whole, expected, rtol=1e-12, atol=0))


@dataclass(frozen=True, eq=False)
class LaplaceNoise:
    """Independent sums of Laplace(b) variables on the cells.

    Parameters
    ----------
    scale : float
        b.
    terms : array of int
        How many variables each cell sums: 1 in a fresh release, 0 in a structural zero. The
        variance of a cell is 2 b^2 times as much, and margins keep the form.

    Examples
    --------
    >>> noise = LaplaceNoise(2.0, np.ones((2, 3), dtype=np.int64))
    >>> noise.margin((1,)).variances
    array([16., 16., 16.])
    """

    scale: float
    terms: npt.NDArray[np.int64]

    name: ClassVar[str] = "Laplace"
    reach: ClassVar[float] = 54.0  # with the tail of a single cell
    strata: ClassVar[None] = None
    is_exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ReleaseError("The scale of Laplace noise must be finite and positive.")
        if (self.terms < 0).any():
            raise ReleaseError("A cell sums at least 0 Laplace variables.")
        object.__setattr__(self, "terms", read_only(self.terms))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.scale, self.terms)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the table."""
        return self.terms.shape

    @property
    def variances(self) -> Array:
        """The variance of the noise in each cell."""
        return np.asarray(2 * self.scale**2 * self.terms)

    def sd(self) -> Array:
        """Return the standard deviation of the noise in each cell."""
        return np.sqrt(self.variances)

    def half_widths(self, level: float = 0.95) -> Array:
        """How far from 0 the noise of each cell stays with a probability of ``level``."""
        widths = {m: _laplace_quantile(int(m), (1 - level) / 2) for m in np.unique(self.terms)}
        return np.array([widths[m] for m in self.terms.flat]).reshape(self.shape) * self.scale

    def margin(self, axes: Sequence[int]) -> LaplaceNoise:
        """Return the law of the margin over some axes, in the order given."""
        dropped = tuple(i for i in range(len(self.shape)) if i not in axes)
        kept = [i for i in range(len(self.shape)) if i in axes]
        summed = self.terms.sum(axis=dropped).transpose([kept.index(i) for i in axes])
        return LaplaceNoise(self.scale, summed)

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw once from this law, for simulation; not private (the generator is seeded).

        A sum of m Laplace(b) variables is b times the difference of two Gamma(m) variables.
        """
        first, second = rng.standard_gamma(self.terms), rng.standard_gamma(self.terms)
        return np.asarray(self.scale * (first - second))

    def as_gaussian(self) -> GaussianNoise:
        """Refuse: this law is not Gaussian.

        Raises
        ------
        ReleaseError
            Always.
        """
        raise ReleaseError(
            "The Gaussian-noise likelihood does not hold for Laplace noise. Release with a "
            "Gaussian mechanism such as "
            + phrase(
                "RankDeficientJamesStein(); a bootstrap of your own can draw from this law by "
                "release.noise.sample(rng).",
                "RankDeficientJamesStein.",
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the law as plain data; `noise_from_dict` is the way back."""
        return {"law": self.name, "scale": self.scale, "terms": _packed(self.terms)}

    @classmethod
    def from_dict(cls, content: dict[str, Any], shape: tuple[int, ...]) -> LaplaceNoise:
        """Return the law that `to_dict` described, for a table of this shape."""
        return cls(content["scale"], _unpacked(content["terms"], shape, np.int64))


Noise = GaussianNoise | LaplaceNoise


def noise_from_dict(content: dict[str, Any], shape: tuple[int, ...]) -> Noise:
    """Return the law that a `to_dict` described, for a table of this shape."""
    laws: dict[str, type[Noise]] = {law.name: law for law in (GaussianNoise, LaplaceNoise)}
    return laws[content["law"]].from_dict(content, shape)


def stratum_labels(shape: tuple[int, ...], strata: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The stratum number of each flattened cell; all 0 when only the total is fixed."""
    sizes = [n if i in strata else 1 for i, n in enumerate(shape)]
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    return np.broadcast_to(numbers, shape).ravel()


def _laplace_quantile(terms: int, tail: float) -> float:
    """The upper quantile of a sum of so many standard Laplace variables.

    The sum is G - H, two Gamma(m) variables. Given H, P(G > x + H) is a Poisson tail; its mean
    over H is sum_j P(B = j) P(Poisson(x) < m - j), with B negative binomial (m, 1/2).
    """
    if terms == 0:
        return 0.0
    j = np.arange(terms)
    weights = stats.nbinom.pmf(j, terms, 0.5)

    def excess(x: float) -> float:
        return float(weights @ stats.poisson.cdf(terms - 1 - j, x)) - tail

    # By Chebyshev's inequality, the variance being 2 m.
    return float(brentq(excess, 0.0, math.sqrt(terms / tail), xtol=1e-12))


def _packed(values: npt.NDArray[Any]) -> Any:
    """Return one number where all cells have the same value, else a flat list."""
    first = values.flat[0]
    return first.item() if (values == first).all() else values.ravel().tolist()


def _unpacked(values: Any, shape: tuple[int, ...], dtype: type[Any]) -> npt.NDArray[Any]:
    """Return the array that `_packed` wrote."""
    array = np.asarray(values, dtype=dtype)
    return np.broadcast_to(array, shape) if array.size == 1 else array.reshape(shape)
