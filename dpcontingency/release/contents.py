"""What a release holds: its fields, what they imply of each other, and its plain data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NoReturn, Self, get_args

import numpy as np
import numpy.typing as npt

from dpcontingency._arrays import read_only
from dpcontingency.domain import Domain
from dpcontingency.errors import PlausibilityWarning, ReleaseError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.neighbours import ADD_REMOVE, RELATIONS
from dpcontingency.release.mechanisms import Mechanism, mechanism_from_dict
from dpcontingency.release.noise import Noise, noise_from_dict
from dpcontingency.release.plausible import REFUSED, WARNED, limit
from dpcontingency.release.reading import is_words, read_back
from dpcontingency.release.sampler import GAUSSIAN
from dpcontingency.release.sensitivity import l2_sensitivity

Array = npt.NDArray[np.float64]

Origin = Literal["released", "third-party", "exact", "simulated"]

LARGEST_CELL = 2.0**100  # of counts and noise of up to 2^42 each, over any number of cells

# How far numbers that follow from others may be from them, relatively: for rounding, which sums of
# many cells pile up.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class ReleaseContents:
    """The fields of a `Release`, which describes them; none can be made that contradict each other.

    Raises
    ------
    ReleaseError
        If a field does not go with the others, named in the message.
    """

    domain: Domain
    noisy: Array
    noise: Noise
    estimate: Array
    sigma: float
    privacy: GDP | None
    neighbours: str | None
    strata: tuple[str, ...]
    totals: npt.NDArray[Any] | None
    mechanism: Mechanism | None
    origin: Origin
    provenance: dict[str, Any]

    def __post_init__(self) -> None:
        for name in ("noisy", "estimate", "totals"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, read_only(getattr(self, name)))
        self._check_kind()
        self._check_table()
        self._check_noise()
        self._check_totals()

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refuse to be an array: a release holds two, which mean different things."""
        raise ReleaseError(
            "A release is no array: take .noisy, the cells that inference uses, or .estimate, "
            "which may be shrunken."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew, so that the arrays of a copy are read-only too.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    # -- what the fields imply of each other ---------------------------------------------------

    def _check_kind(self) -> None:
        """Refuse what contradicts where the table comes from."""
        if self.origin not in get_args(Origin):
            raise ReleaseError("its origin is not a known one")
        if self.neighbours not in (None, *RELATIONS):
            raise ReleaseError("its neighbours is not a known relation")
        made_here = self.mechanism is not None
        if (self.origin == "released" and not made_here) or (
            self.origin in ("third-party", "exact") and made_here
        ):
            raise ReleaseError(f"its mechanism does not go with the origin {self.origin!r}")
        if made_here and (self.privacy is None or self.neighbours is None):
            raise ReleaseError(
                "its mechanism has a loss mu and neighbours, and one of them is missing"
            )
        if self.privacy is not None and self.neighbours is None:
            raise ReleaseError("its loss mu needs neighbours, which are missing")
        if self.origin == "exact" and not (self.noise.is_exact and self.privacy is None):
            raise ReleaseError(
                "its origin says that the table is exact, but there is noise or a loss"
            )

    def _check_table(self) -> None:
        """Refuse what contradicts the domain."""
        for name in ("noisy", "estimate", "noise"):
            if getattr(self, name).shape != self.domain.shape:
                raise ReleaseError(f"its {name} is not of the domain's shape")
        impossible = ~self.domain.possible()
        if self.noisy[impossible].any() or self.noise.variances[impossible].any():
            raise ReleaseError(
                "its noisy table has something in a structural zero, where nobody can be"
            )
        if self.mechanism is not None:
            for name in ("noisy", "estimate"):
                if not (np.abs(getattr(self, name)) <= LARGEST_CELL).all():
                    raise ReleaseError(f"its {name} is beyond any count and its noise")
        if self.origin == "exact" and (self.noisy < 0).any():
            raise ReleaseError("its noisy table is exact, but some cell is negative")
        if self.origin == "exact" and not np.array_equal(self.estimate, self.noisy):
            raise ReleaseError("its estimate is not its noisy table, though that is exact")

    def _check_noise(self) -> None:
        """Refuse what contradicts the scale of the noise."""
        law = GAUSSIAN if self.mechanism is None else self.mechanism.law
        if self.noise.name != law.name:
            raise ReleaseError("its noise is not of the law of its mechanism")
        square = law.variance * self.sigma * self.sigma
        if self.mechanism is None:
            # What others noised may have a scale of its own in each cell, of which sigma is the
            # largest; the cells of a margin have more.
            largest = float(self.noise.variances.max())
            if (square > 0) != (largest > 0) or square > largest * (1 + ROUNDING):
                raise ReleaseError("its sigma is not the scale of its noise")
            if self.privacy is not None and self.neighbours is not None:
                # The cell with the least noise loses most; one without any has no finite loss.
                least = float(self.noise.variances[self.domain.possible()].min(initial=np.inf))
                needed = l2_sensitivity(self.neighbours) / self.privacy.mu
                if min(self.sigma, math.sqrt(least)) < needed * (1 - ROUNDING):
                    raise ReleaseError(
                        "the noise of some cell is too small for its loss mu and neighbours"
                    )
            return
        if self.privacy is None or self.neighbours is None:
            return  # which `_check_kind` refused
        implied = self.mechanism.scale(self.privacy, self.neighbours)
        if not math.isclose(self.sigma, implied, rel_tol=ROUNDING):
            raise ReleaseError("its sigma does not follow from its mechanism, mu and neighbours")
        # In the table one unit of noise a cell, in a margin as many as cells were summed.
        if square > 0:
            units = self.noise.variances[self.domain.possible()] / square
            whole = np.rint(units)
            fits = bool(((whole >= 1) & (np.abs(units - whole) <= ROUNDING * units)).all())
        else:
            fits = self.noise.is_exact  # no float holds the variance of so little noise
        if not fits:
            raise ReleaseError("its noise is not of the scale sigma")

    def _check_totals(self) -> None:
        """Refuse what contradicts the public totals."""
        axes = tuple(self.domain.axis(name) for name in self.strata)
        if list(axes) != sorted(set(axes)):
            raise ReleaseError("its strata are not in the order of the factors")
        if self.mechanism is not None and (self.totals is None) != (self.neighbours == ADD_REMOVE):
            raise ReleaseError("its totals do not go with its neighbours")
        confined = self.mechanism is not None and self.mechanism.rank_deficient
        if self.totals is None:
            if self.strata or self.noise.strata is not None:
                raise ReleaseError(
                    "its totals are missing, though its strata or its noise need them"
                )
            return
        if self.totals.shape != tuple(self.domain.shape[axis] for axis in axes):
            raise ReleaseError("its totals are not one a stratum")
        if (self.totals < 0).any():
            raise ReleaseError("its totals are negative")
        if self.noise.strata not in ((axes,) if confined else (None, axes)):
            raise ReleaseError("its noise is not confined to the strata of its totals")
        self._check_sums()
        if confined:
            gap, rounding = self._gap(self.estimate)
            # A target table or a basis may be orthonormal to fewer digits.
            if (gap > 1000 * rounding).any():
                raise ReleaseError("its estimate does not add up to its totals")

    def _check_sums(self) -> None:
        """Refuse public totals that no noise of this law makes of the noisy cells."""
        # What is made here was drawn, and paid for, whatever came; of others' tables a total that
        # is hardly theirs is refused.
        if text := self._far_off(REFUSED if self.origin == "third-party" else self.noise.reach):
            raise ReleaseError(text)

    def warn_of_totals(self) -> None:
        """Warn of public totals that noise of this law hardly makes of the noisy cells."""
        if self.origin == "third-party" and (text := self._far_off(WARNED)):
            warnings.warn(text, PlausibilityWarning, stacklevel=3)

    def _far_off(self, single: float) -> str:
        """What is said of totals that are too many standard deviations away; else empty."""
        if self.totals is None:
            return ""
        spread = np.zeros(self.totals.shape)
        if self.noise.strata is None:
            spread = np.sqrt(self._sums(self.noise.variances))
        gap, rounding = self._gap(self.noisy)
        beyond = gap - np.maximum(limit(single, spread.size) * spread, rounding)
        if not (beyond >= 0).any():
            return ""
        worst = int(beyond.argmax())
        return (
            f"The noisy cells add up to a total that is {gap.flat[worst]:.6g} away from the public "
            f"one, which noise of standard deviation {spread.flat[worst]:.3g} hardly makes. Check "
            "n_total and sigma."
        )

    def _gap(self, table: Array) -> tuple[Array, Array]:
        """How far a table is from the public totals, and how far rounding can bring it."""
        totals = np.zeros(()) if self.totals is None else self.totals
        # Others are computed from the noisy table, and a margin of small cells from large ones, of
        # the size of the noise.
        size = np.maximum(self._sums(np.abs(self.noisy)), np.maximum(totals, max(1.0, self.sigma)))
        return np.abs(self._sums(table) - totals), ROUNDING * size

    def _sums(self, table: Array) -> Array:
        """The sums of a table over all but the strata."""
        axes = [self.domain.axis(name) for name in self.strata]
        return np.asarray(table.sum(axis=tuple(i for i in range(table.ndim) if i not in axes)))

    # -- plain data ----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The release as plain data, as it stands in its JSON file."""
        return {
            "domain": self.domain.to_dict(),
            "noisy": self.noisy.ravel().tolist(),
            "estimate": self.estimate.ravel().tolist(),
            "noise": self.noise.to_dict(),
            "sigma": self.sigma,
            "mu": None if self.privacy is None else self.privacy.mu,
            "neighbours": self.neighbours,
            "strata": list(self.strata),
            "totals": None if self.totals is None else self.totals.ravel().tolist(),
            "mechanism": None if self.mechanism is None else self.mechanism.to_dict(),
            "origin": self.origin,
            "provenance": self.provenance,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """The release that `to_dict` wrote.

        Raises
        ------
        ReleaseError
            If `to_dict` did not write it: a field is missing, unknown, not what it should be, or
            contradicts another.
        """
        names = {*(field.name for field in fields(cls)), "mu"} - {"privacy"}
        made = read_back("release", names, content, cls._read)
        made.warn_of_totals()
        return made

    @classmethod
    def _read(cls, content: Mapping[str, Any]) -> Self:
        """The release in content that has the right fields, but perhaps the wrong values."""
        for name, (is_one, what) in _PLAIN.items():
            if not is_one(content[name]):
                raise ReleaseError(f"its {name} is not {what}")
        domain = Domain.from_dict(content["domain"])
        strata, mu, mechanism = (content[name] for name in ("strata", "mu", "mechanism"))
        totals = content["totals"]
        sizes = [domain.shape[domain.axis(name)] for name in strata]
        if totals is not None:
            totals = _numbers(totals, None).reshape(sizes)
        return cls(
            domain=domain,
            noisy=_numbers(content["noisy"], np.float64).reshape(domain.shape),
            noise=noise_from_dict(content["noise"], domain.shape),
            estimate=_numbers(content["estimate"], np.float64).reshape(domain.shape),
            sigma=content["sigma"],
            privacy=None if mu is None else GDP(mu),
            neighbours=content["neighbours"],
            strata=tuple(strata),
            totals=totals,
            mechanism=None if mechanism is None else mechanism_from_dict(mechanism),
            origin=content["origin"],
            provenance=content["provenance"],
        )


# What stands in a release as it stands in its file.
_PLAIN: dict[str, tuple[Callable[[Any], bool], str]] = {
    "sigma": (lambda x: type(x) in (int, float) and 0 <= x < math.inf, "a scale of at least 0"),
    "strata": (lambda x: type(x) is list and len(set(x)) == len(x), "a list of factors"),
    "provenance": (is_words, "a mapping to text"),
}


def _numbers(values: list[Any], dtype: type[np.float64] | None) -> npt.NDArray[Any]:
    """Numbers from a file, as an array."""
    array = np.asarray(values, dtype=dtype)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ReleaseError("some cell or total is no finite number")
    return array
