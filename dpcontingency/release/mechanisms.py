"""The mechanisms: how noise is laid on a table, and how the noisy table is then estimated.

A mechanism is a value that says what is done. `release_table` draws the noise once, on all cells
or on the sensitivity space of the neighbour relation; the mechanism then splits the noisy table
into a part that is kept and parts that are shrunk (`Split`). The same split of the true table
gives its expected L2 cost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpcontingency._language import phrase
from dpcontingency.domain import Domain
from dpcontingency.errors import PrivacyError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release import bases
from dpcontingency.release.laplace import laplace_scale
from dpcontingency.release.noise import GaussianNoise, LaplaceNoise, Noise
from dpcontingency.release.options import PublicArray, name_or_array, plain, require
from dpcontingency.release.sampler import GAUSSIAN, LAPLACE, Law
from dpcontingency.release.sensitivity import Neighbours, l2_sensitivity
from dpcontingency.release.shrinkage import LEAST_DIMENSION, Block, Split, merge_narrow

Array = npt.NDArray[np.float64]


class Mechanism(ABC):
    """What every mechanism knows of itself."""

    #: The law of the noise on a cell before it is confined to the sensitivity space.
    law: ClassVar[Law] = GAUSSIAN
    #: Whether the noise is confined to the sensitivity space, so that public totals stay exact.
    rank_deficient: ClassVar[bool] = True
    #: Whether a negative shrinkage factor is raised to 0; without effect where nothing is shrunk.
    positive_part: bool = True

    def sigma(self, privacy: GDP, space: Neighbours) -> float:
        """Return the scale of the noise on a cell that gives this loss, rounded up.

        The standard deviation of Gaussian noise: sensitivity / mu.
        """
        return self.scale(privacy, space.relation)

    def scale(self, privacy: GDP, relation: str) -> float:
        """Return `sigma`, which depends on the relation alone and not on the domain."""
        return privacy.sigma(l2_sensitivity(relation))

    def noise(self, sigma: float, space: Neighbours) -> Noise:
        """Return the law of the noise before it is confined to the sensitivity space."""
        return GaussianNoise(np.where(space.domain.possible(), sigma**2, 0.0), None)

    def check(self, space: Neighbours) -> None:  # noqa: B027 -- most are defined everywhere
        """Refuse a table on which the mechanism is not defined.

        Raises
        ------
        PrivacyError
            Saying why, and what to use instead.
        """

    def is_defined(self, space: Neighbours) -> bool:
        """Return whether `check` passes."""
        try:
            self.check(space)
        except PrivacyError:
            return False
        return True

    @abstractmethod
    def split(self, table: Array, space: Neighbours) -> Split:
        """Split a table, noisy or true, into the part that is kept and those that are shrunk."""

    def estimate(self, noisy: Array, sigma: float, space: Neighbours) -> Array:
        """Return the published estimate, from the noisy table alone (post-processing)."""
        return self.split(noisy, space).shrunken(sigma, positive_part=self.positive_part)

    def expected_l2_cost(
        self, theta: npt.ArrayLike, sigma: float, *, space: Neighbours | None = None
    ) -> float:
        """Return the expected squared L2 error of the estimate of theta, exactly.

        Parameters
        ----------
        theta : array_like
            The true table. The cost depends on it wherever there is shrinkage, so the cost of a
            confidential table is confidential itself: give public or invented tables only.
        sigma : float
            The scale of the noise, as `sigma` returns it.
        space : Neighbours, optional
            The neighbour relation; ``replace-one`` without strata by default.

        Returns
        -------
        float
            In squared counts.

        Raises
        ------
        PrivacyError
            If the mechanism is not defined for the table.
        """
        values = np.asarray(theta, dtype=np.float64)
        space = space or Neighbours(unnamed_domain(values.shape))
        if values.shape != space.domain.shape:
            raise PrivacyError(
                f"theta must have the domain's shape {space.domain.shape}; got {values.shape}."
            )
        self.check(space)
        if sigma == 0:
            return 0.0
        risk = self.split(values, space).risk(sigma, positive_part=self.positive_part)
        return self.law.variance * sigma**2 * risk

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism as plain data; `mechanism_from_dict` is the way back."""
        options = {name: plain(value) for name, value, _ in self._options()}
        return {"name": type(self).__name__, **options}

    def __repr__(self) -> str:
        given = [
            f"{name}={value!r}" for name, value, default in self._options() if value != default
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def _options(self) -> list[tuple[str, Any, Any]]:
        """Give the name, value and default of each option."""
        declared = fields(self)  # type: ignore[arg-type]
        return [(f.name, getattr(self, f.name), f.default) for f in declared]


@dataclass(frozen=True, repr=False)
class Gaussian(Mechanism):
    """Independent Gaussian noise on every cell: M_G, the baseline.

    The law is theta + sigma z, z standard normal on the p possible cells, sigma = sensitivity /
    mu; its expected squared L2 error is p sigma^2 (arXiv 2211.15019). The number of
    records is recorded as public under ``replace-one``, but the noisy cells do not add up to it.

    Examples
    --------
    >>> Gaussian().expected_l2_cost([[9, 0, 4], [3, 8, 2]], sigma=2.0)
    24.0
    """

    rank_deficient: ClassVar[bool] = False

    def split(self, table: Array, space: Neighbours) -> Split:
        """Keep the whole table."""
        return Split(table, _possible_cells(space))


@dataclass(frozen=True, repr=False)
class RankDeficientGaussian(Mechanism):
    """Gaussian noise in the sensitivity space only: M_r of Kim, Lee, Kwak and Jung.

    The law is theta + sigma U U' z with z standard normal and U an orthonormal basis of the
    span of neighbouring differences; its expected squared L2 error is d sigma^2, d the dimension
    (arXiv 2211.15019). Public totals are kept exactly. The estimate is the noisy table itself.

    Examples
    --------
    >>> RankDeficientGaussian().expected_l2_cost([[9, 0, 4], [3, 8, 2]], sigma=2.0)
    20.0
    """

    def split(self, table: Array, space: Neighbours) -> Split:
        """Keep the whole table."""
        return Split(table, space.dimension)


@dataclass(frozen=True, repr=False)
class Laplace(Mechanism):
    """Independent Laplace noise on every cell, calibrated to mu-GDP: the paper's comparison.

    The law is theta + b x, x standard Laplace on the p possible cells, b the smallest scale whose
    trade-off curve stays above that of mu-GDP (`laplace_scale`); its expected squared L2 error is
    2 b^2 p. It is worse than `Gaussian` on every cell unless mu > 3.6871 (``replace-one``). The
    Gaussian-noise likelihood refuses its release; ``release.noise.sample`` draws from its law.

    Notes
    -----
    Where a scale is called sigma, as in ``release.sigma``, it is b; the standard deviation is
    b sqrt 2. See arXiv 2211.15019 for the comparison.

    Examples
    --------
    >>> space = Neighbours(Domain({"A": ["a", "b"]}))
    >>> round(Laplace().sigma(GDP(1), space), 6)
    1.358905
    """

    law: ClassVar[Law] = LAPLACE
    rank_deficient: ClassVar[bool] = False

    def scale(self, privacy: GDP, relation: str) -> float:
        """Return the smallest b that gives this loss, rounded up."""
        return laplace_scale(privacy, relation)

    def noise(self, sigma: float, space: Neighbours) -> LaplaceNoise:
        """Return the law of the noise."""
        return LaplaceNoise(sigma, space.domain.possible().astype(np.int64))

    def split(self, table: Array, space: Neighbours) -> Split:
        """Keep the whole table."""
        return Split(table, _possible_cells(space))


@dataclass(frozen=True, repr=False)
class JamesStein(Mechanism):
    """The Gaussian mechanism followed by James-Stein shrinkage: M_JS0 and M_JS.

    Parameters
    ----------
    target : {"zero", "mean"}
        ``"zero"`` multiplies the noisy table y by ``1 - (p - 2) sigma^2 / |y|^2``, p the
        number of possible cells, at least 3. ``"mean"`` shrinks toward the mean cell, with factor
        ``1 - (p - 3) sigma^2 / |y - y-bar|^2``, p at least 4.
    positive_part : bool
        Raise a negative factor to 0 (never worse). False is the paper's letter.

    Notes
    -----
    arXiv 2211.15019. The cost without positive part is
    ``sigma^2 [p - (p - 2)^2 E 1/(p - 2 + 2K)]``, ``K ~ Poisson(|theta|^2 / 2 sigma^2)`` for
    ``"zero"``, and the like with p - 3 and the centred theta for ``"mean"``. The noise has full
    rank: ``release.noisy`` is that of `Gaussian`, and the number of records, where public, is not
    used.

    Examples
    --------
    >>> theta = [10**0.5] + 8 * [0.0]
    >>> round(JamesStein("zero", positive_part=False).expected_l2_cost(theta, sigma=1.0), 4)
    5.9
    """

    target: str = "zero"
    positive_part: bool = True
    rank_deficient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require("target", self.target, ("zero", "mean"))

    def check(self, space: Neighbours) -> None:
        """Refuse a table of too few cells."""
        _require_dimension(self, _possible_cells(space) - (self.target == "mean"), "Gaussian")

    def split(self, table: Array, space: Neighbours) -> Split:
        """Keep nothing, or the mean cell."""
        cells = _possible_cells(space)
        if self.target == "zero":
            return Split(np.zeros_like(table), 0, (Block(table, cells),))
        return _along(table, space.domain.possible().astype(np.float64), cells)


@dataclass(frozen=True, repr=False)
class RankDeficientJamesStein(Mechanism):
    """The rank-deficient Gaussian mechanism followed by James-Stein shrinkage: M_rJS, M_r0.

    Parameters
    ----------
    target : {"uniform", "mean"} or array_like
        ``"uniform"`` shrinks to the table with equal cells (in each stratum): factor
        ``1 - (d - 2) sigma^2 / |r|^2`` on the deviation r, for d >= 3, whatever the basis. A public
        table of the domain's shape, of counts or of proportions, takes the place of the uniform
        one, scaled to the public totals. ``"mean"`` shrinks the coordinates in ``basis`` toward
        their mean: the paper's M_rJS, factor
        ``1 - (d - 3) sigma^2 / |c - c-bar|^2``, for d >= 4.
    basis : {"helmert", "interaction"} or array_like, shape (p, d)
        The public orthonormal basis in which ``"mean"`` averages coordinates: the Helmert
        contrasts of the cells in C order, stratum by stratum; products of each factor's own; or
        a matrix whose columns span the sensitivity space. It must not depend on the counts.
    positive_part : bool
        Raise a negative factor to 0 (never worse). False is the paper's letter.

    Raises
    ------
    PrivacyError
        If the target or the basis is none of these.

    Notes
    -----
    arXiv 2211.15019. The noisy table stays available, unbiased, as
    ``release.noisy``; inference uses that one. Under ``add-remove`` no total is public: the
    factor by which the target is scaled is estimated and takes one of the d = p dimensions, and
    the sensitivity space is the whole space, ``"helmert"`` naming the cells as its basis and
    ``"interaction"`` all products.

    Examples
    --------
    >>> theta = [10.0, 0, 3, 8, 2, 7]
    >>> round(RankDeficientJamesStein().expected_l2_cost(theta, sigma=10.0), 1)
    190.0
    >>> public = RankDeficientJamesStein(target=[9, 1, 3, 8, 2, 7])
    >>> round(public.expected_l2_cost(theta, sigma=10.0), 1)
    141.4
    """

    target: str | PublicArray = "uniform"
    basis: str | PublicArray = "helmert"
    positive_part: bool = True

    def __init__(
        self,
        target: str | npt.ArrayLike = "uniform",
        basis: str | npt.ArrayLike = "helmert",
        positive_part: bool = True,
    ) -> None:
        put = object.__setattr__
        put(self, "target", name_or_array("target", target, ("uniform", "mean")))
        put(self, "basis", name_or_array("basis", basis, tuple(_BASES)))
        put(self, "positive_part", positive_part)

    def check(self, space: Neighbours) -> None:
        """Refuse too small a table, and a target or basis that does not fit it."""
        mean = self.target == "mean"
        free = space.dimension - 1 if mean else space.deviation_dimension
        _require_dimension(self, free, "RankDeficientGaussian")
        if mean:
            self._basis_sum(space)
        else:
            self._centre_weights(space)

    def split(self, table: Array, space: Neighbours) -> Split:
        """Keep the target, or the public totals and the mean coordinate."""
        if self.target != "mean":
            return _scaled_to(table, self._centre_weights(space), space)
        public = Split(np.zeros_like(table), 0)
        if space.fixed is not None:
            public = _scaled_to(table, space.domain.possible().astype(np.float64), space)
        mean = _along(table - public.kept, self._basis_sum(space), space.dimension)
        return Split(public.kept + mean.kept, mean.kept_dimension, mean.blocks)

    def _centre_weights(self, space: Neighbours) -> Array:
        """Return the target table, checked, up to the scale in each stratum."""
        possible = space.domain.possible()
        if isinstance(self.target, str):
            return possible.astype(np.float64)
        weights = self.target.values
        if weights.shape != possible.shape:
            raise PrivacyError(
                f"The target table must have the domain's shape {possible.shape}; got "
                f"{weights.shape}."
            )
        strata = _stratum_sums(weights, space) > 0
        if (weights < 0).any() or (weights[~possible] != 0).any() or (possible & ~strata).any():
            raise PrivacyError(
                "The target table needs cells of at least 0, 0 in structural zeros and with a "
                "positive sum in every stratum. Smooth it, or use target='uniform'."
            )
        return weights

    def _basis_sum(self, space: Neighbours) -> Array:
        if isinstance(self.basis, str):
            return _BASES[self.basis](space)
        return bases.matrix_sum(space, self.basis.values)


@dataclass(frozen=True, repr=False)
class BlockJamesStein(Mechanism):
    """The rank-deficient Gaussian mechanism, interactions shrunk in groups by their order.

    Parameters
    ----------
    least_dimension : int
        Orders are taken from low to high, and a group narrower than this takes in the next
        order; a last group that is narrower joins the one before it. 1 keeps every order apart.
    positive_part : bool
        Raise a negative factor to 0 (never worse).

    Raises
    ------
    PrivacyError
        If the least dimension is no whole number of at least 1.

    Notes
    -----
    Beyond the paper (arXiv 2211.15019), with its operator. The deviation from the uniform table
    (in each stratum) is the sum of its main effects, two-way interactions and so on, which are
    orthogonal. The part r of a group of orders, of dimension k, is multiplied by
    ``1 - (k - 2) sigma^2 / |r|^2`` where k >= 3 and kept otherwise. No basis is chosen, and a table
    with strong main effects but weak interactions keeps the former. Its cost is the sum over the
    groups. Interactions inside the strata are public and without noise.

    Why 8: a group that holds nothing but noise costs 1.0 to 1.6 sigma^2, 1.3 at k = 8, and
    `RankDeficientJamesStein` pays that once for the whole table. Where a further group has 8
    dimensions or more, its price is at most a sixth of the noise in it. On no table of ``data/``
    is the cost then above that of `RankDeficientJamesStein`; with every order apart it is up to
    1.45 times as much (``benchmarks/results/utility_mechanisms.md``).

    Examples
    --------
    >>> theta = np.add.outer([40.0, 20, 10, 5, 5], [12.0, 9, 6, 3, 0, 0])
    >>> round(BlockJamesStein().expected_l2_cost(theta, sigma=10.0), 1)
    940.2
    >>> round(RankDeficientJamesStein().expected_l2_cost(theta, sigma=10.0), 1)
    2030.3
    """

    least_dimension: int = 8
    positive_part: bool = True

    def __post_init__(self) -> None:
        whole = isinstance(self.least_dimension, int) and self.least_dimension >= 1
        if not whole or isinstance(self.least_dimension, bool):
            raise PrivacyError(
                "least_dimension is a whole number of dimensions, at least 1; got "
                f"{self.least_dimension!r}."
            )

    def check(self, space: Neighbours) -> None:
        """Refuse structural zeros."""
        bases.refuse_structural_zeros(space, phrase("BlockJamesStein()", "BlockJamesStein"))

    def split(self, table: Array, space: Neighbours) -> Split:
        """Keep the uniform table."""
        uniform = _scaled_to(table, np.ones(table.shape), space)
        (deviation,) = uniform.blocks
        orders = zip(
            bases.order_parts(deviation.residual), bases.order_dimensions(space), strict=True
        )
        blocks = (Block(part, dimension) for part, dimension in orders if dimension)
        merged = merge_narrow(blocks, self.least_dimension)
        return Split(uniform.kept, uniform.kept_dimension, merged)


MECHANISMS: dict[str, type[Mechanism]] = {
    cls.__name__: cls
    for cls in (
        Gaussian,
        RankDeficientGaussian,
        JamesStein,
        RankDeficientJamesStein,
        BlockJamesStein,
        Laplace,
    )
}

_BASES: dict[str, Callable[[Neighbours], Array]] = {
    "helmert": bases.helmert_sum,
    "interaction": bases.interaction_sum,
}


def mechanism_from_dict(content: dict[str, Any]) -> Mechanism:
    """Return the mechanism that `Mechanism.to_dict` described."""
    options = dict(content)
    mechanism = MECHANISMS[options.pop("name")](**options)
    if not isinstance(mechanism.positive_part, bool):
        raise PrivacyError("positive_part is true or false.")
    return mechanism


def _require_dimension(mechanism: Mechanism, free: int, alternative: str) -> None:
    if free < LEAST_DIMENSION:
        raise PrivacyError(
            f"{phrase(repr(mechanism), type(mechanism).__name__)} shrinks in at least "
            f"{LEAST_DIMENSION} dimensions; this table leaves it {free}. Use "
            f"{alternative}{phrase('()', '')}, which is defined for every table."
        )


def _possible_cells(space: Neighbours) -> int:
    return int(space.domain.possible().sum())


def _along(table: Array, direction: Array, dimension: int) -> Split:
    """Keep the part of a table along a direction and shrink the rest of a space of a dimension."""
    kept = float(np.vdot(direction, table) / np.vdot(direction, direction)) * direction
    return Split(kept, 1, (Block(table - kept, dimension - 1),))


def _scaled_to(table: Array, weights: Array, space: Neighbours) -> Split:
    """Keep the public totals spread as the weights, or, with none public, the best multiple."""
    if space.fixed is None:
        return _along(table, weights, space.dimension)
    sums = _stratum_sums(weights, space)
    share = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
    kept = share * _stratum_sums(table, space)
    return Split(kept, 0, (Block(table - kept, space.dimension),))


def _stratum_sums(table: Array, space: Neighbours) -> Array:
    """Sum a table inside each stratum; broadcastable to the table."""
    summed = tuple(i for i in range(table.ndim) if i not in (space.fixed or ()))
    return np.asarray(table.sum(axis=summed, keepdims=True))


def unnamed_domain(shape: tuple[int, ...]) -> Domain:
    """Return a domain of this shape for a table whose factors have no names."""
    return Domain({str(axis): range(n) for axis, n in enumerate(shape)})
