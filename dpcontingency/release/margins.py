"""A release of margins: the public object, with the law of its noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NoReturn, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpcontingency._arrays import read_only
from dpcontingency.domain import Domain, listed
from dpcontingency.errors import ReleaseError
from dpcontingency.privacy.gdp import GDP, ceil_digits
from dpcontingency.privacy.stamp import OBSERVED, SIMULATED
from dpcontingency.release import exports, files
from dpcontingency.release.contrasts import contrast_exponent, interaction
from dpcontingency.release.noise import GaussianNoise
from dpcontingency.release.reading import is_words, read_back
from dpcontingency.release.workload import Factors, MarginPlan

Array = npt.NDArray[np.float64]
Origin = Literal["released", "simulated"]

MAX_JOINT_CELLS = 10**8

SAMPLING = (
    "integer contrasts of each interaction plus Gaussian noise rounded to a dyadic grid, by its "
    "exact joint law: post-processing of the ideal mechanism, with no extra delta"
)
SIMULATION = (
    "simulated: integer contrasts of each interaction plus floating-point Gaussian noise rounded "
    "to a dyadic grid, from a seeded generator, which protects nothing"
)


@dataclass(frozen=True)
class InteractionNoise:
    """The law of the noise in a release of margins: independent Gaussians on the interactions.

    On the table of the factors A, s_A Q_A z, z standard normal on its cells and Q_A the projection
    on the interaction (`layout`), with the scales of a plan.
    """

    scales: Mapping[Factors, float]

    name: ClassVar[str] = "Gaussian"
    is_exact: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, repr=False)
class MarginRelease:
    """Noisy margins that agree with each other, the law of their noise, and what they cost.

    Made by `release_margins`, `MarginRelease.load` or `simulate_margins`; everything in it is
    public.

    Attributes
    ----------
    plan : MarginPlan
        The wanted margins, how the noise is laid out and the loss.
    contrasts : mapping of tuple of str to ndarray
        For each released interaction A its noisy integer contrasts, prod (n_k - 1) numbers.
    total : int or None
        The number of records, where it is public.
    origin : {"released", "simulated"}
        Where the counts come from.
    provenance : dict of str to str
        How the release was made, in words; no clock, no machine.

    Notes
    -----
    Every margin is the sum of its interactions and is computed from the contrasts, so two margins
    agree on the margin that they share, to rounding.

    Examples
    --------
    >>> from dpcontingency.release.publish_margins import simulate_margins
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": ["x", "y"]})
    >>> counts = np.arange(12).reshape(domain.shape)
    >>> rng = np.random.default_rng(1)
    >>> release = simulate_margins(counts, domain, [("A", "B"), ("C",)], GDP(1), rng)
    >>> margin = release.margin("B")
    >>> margin.values.shape, round(margin.sd, 2), bool(np.isclose(margin.values.sum(), 66))
    ((3,), 1.96, True)
    """

    plan: MarginPlan
    contrasts: Mapping[Factors, Array]
    total: int | None
    origin: Origin
    provenance: dict[str, str]

    def __post_init__(self) -> None:
        kept = {}
        for a, values in self.contrasts.items():
            kept[a] = read_only(np.array(values, dtype=np.float64))  # a copy, and nobody's else
        object.__setattr__(self, "contrasts", MappingProxyType(kept))
        self._check()

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refuse to be an array: a release of margins holds several."""
        raise ReleaseError(
            "A release of margins is no array: take margin(...).values, the noisy cells of one."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        contrasts = dict(self.contrasts)
        return type(self), (self.plan, contrasts, self.total, self.origin, self.provenance)

    def _check(self) -> None:
        """Refuse fields that contradict each other."""
        total, scales = self.total, self.plan.cell_scales
        if self.origin not in get_args(Origin):
            raise ReleaseError("its origin is not a known one")
        if (total is None) != (() in scales):
            raise ReleaseError("its total does not go with its neighbours")
        if total is not None and not (type(total) is int and total >= 0):
            raise ReleaseError("its total is not a number of records")
        levels = dict(zip(self.domain.names, self.domain.shape, strict=True))
        shapes = {a: tuple(levels[name] - 1 for name in a) for a in scales}
        if {a: values.shape for a, values in self.contrasts.items()} != shapes:
            raise ReleaseError("its contrasts are not those of its plan")
        if not all(np.isfinite(values).all() for values in self.contrasts.values()):
            raise ReleaseError("some contrast is no finite number")
        # A contrast adds and subtracts different cells, so that it is at most the number of
        # records; noise of a contrast of m factors has a standard deviation of s 2^(m/2). The 1 is
        # for rounding to a grid.
        reach = {a: GaussianNoise.reach * s * 2.0 ** (len(a) / 2) + 1 for a, s in scales.items()}
        most = total if total is not None else max(float(self.contrasts[()]) + reach[()], 0.0)
        if any(np.abs(v).max(initial=0) > most + reach[a] for a, v in self.contrasts.items()):
            raise ReleaseError("its contrasts are larger than its total and their noise allow")

    # -- what it says --------------------------------------------------------------------------

    @property
    def domain(self) -> Domain:
        """Factors and levels."""
        return self.plan.domain

    @property
    def margins(self) -> tuple[Factors, ...]:
        """The wanted margins; their parts are available too."""
        return self.plan.margins

    @property
    def privacy(self) -> GDP:
        """The loss, of all margins together."""
        return self.plan.privacy

    @property
    def neighbours(self) -> str:
        """What the loss protects: "replace-one" or "add-remove"."""
        return self.plan.neighbours

    @property
    def private(self) -> bool:
        """Whether the records behind it, and its levels, were protected at all."""
        return self.origin == "released" and self.domain.is_public

    @property
    def noise(self) -> InteractionNoise:
        """The law of the noise."""
        return InteractionNoise(self.plan.cell_scales)

    @property
    def strata(self) -> tuple[str, ...]:
        """Factors whose joint margin is public: none."""
        return ()

    @property
    def totals(self) -> npt.NDArray[Any] | None:
        """The public total as a 0-d array, as in a `Release`."""
        return None if self.total is None else np.asarray(self.total)

    @property
    def n_total(self) -> int:
        """The number of records, where it is public.

        Raises
        ------
        ReleaseError
            Where it is not; `n_total_estimate` is the noisy total.
        """
        if self.total is None:
            raise ReleaseError(
                "The number of records of this release is not public. Use n_total_estimate, "
                "whose standard error is n_total_se."
            )
        return self.total

    @property
    def n_total_estimate(self) -> float:
        """The number of records, exact where it is public, else the noisy total."""
        return float(self.contrasts[()]) if self.total is None else float(self.total)

    @property
    def n_total_se(self) -> float:
        """The standard deviation of the noise in `n_total_estimate`; 0 where n is public."""
        return self.plan.sd() if self.total is None else 0.0

    def margin(self, *factors: str | Sequence[str]) -> MarginRelease:
        """A wanted margin or a part of one, its axes in the order given (post-processing).

        Returns
        -------
        MarginRelease
            Of these factors alone: ``values`` are its noisy cells, ``sd`` is the standard deviation
            of their noise. Tests and models take it as they take a `Release`.

        Raises
        ------
        DomainError
            If a factor is unknown or named twice.
        PrivacyError
            If the factors lie in no wanted margin together.
        """
        factors = listed(factors)
        return self.collapse(*self.plan.inside(factors))

    def collapse(self, *factors: str | Sequence[str]) -> MarginRelease:
        """The release of some of its factors, with all that is known of them, in the order given.

        Unlike `margin` it takes factors that lie in no wanted margin together.

        Raises
        ------
        DomainError
            If a factor is unknown or named twice.
        PrivacyError
            If none of them is in a wanted margin.
        """
        factors = listed(factors)
        plan = self.plan.collapse(factors)
        contrasts = {}
        for a in plan.cell_scales:
            old = tuple(name for name in self.domain.names if name in a)
            contrasts[a] = self.contrasts[old].transpose([old.index(name) for name in a])
        return MarginRelease(plan, contrasts, self.total, self.origin, self.provenance)

    def restrict(self, margins: Sequence[Sequence[str]]) -> MarginRelease:
        """The release of some of its margins, or parts of them, and nothing else (post-processing).

        The factors stay; what the other margins told is left out.

        Parameters
        ----------
        margins : sequence of sequences of str
            Each inside a wanted margin.

        Raises
        ------
        DomainError
            If a factor is unknown.
        PrivacyError
            If a margin lies in no wanted one, or none is named, or one twice.

        Examples
        --------
        >>> from dpcontingency.release.publish_margins import simulate_margins
        >>> domain = Domain({name: ["no", "yes"] for name in "ABC"})
        >>> pairs = [("A", "B"), ("A", "C"), ("B", "C")]
        >>> rng = np.random.default_rng(1)
        >>> release = simulate_margins(np.full((2, 2, 2), 9), domain, pairs, GDP(1), rng)
        >>> release.restrict([("A", "B"), ("B", "C")]).margins
        (('A', 'B'), ('B', 'C'))
        """
        plan = self.plan.restrict(margins)
        contrasts = {a: self.contrasts[a] for a in plan.cell_scales}
        return MarginRelease(plan, contrasts, self.total, self.origin, self.provenance)

    def says_the_same_as(self, other: object) -> bool:
        """Whether another release has the same numbers with the same law."""
        return (
            isinstance(other, MarginRelease)
            and self.domain == other.domain
            and dict(self.plan.cell_scales) == dict(other.plan.cell_scales)
            and all(np.array_equal(v, other.contrasts[a]) for a, v in self.contrasts.items())
        )

    def conditioned(self) -> MarginRelease:
        """The same release given its public total: itself, whose margins add up to it."""
        return self

    @cached_property
    def noisy(self) -> Array:
        """A joint table of the domain that has the released interactions, and 0 for all others.

        Raises
        ------
        ReleaseError
            If it has more than 10^8 cells.
        """
        names, shape = self.domain.names, self.domain.shape
        if self.domain.size > MAX_JOINT_CELLS:
            raise ReleaseError(
                f"The joint table has {self.domain.size:,} cells; ask for margins, or for fewer "
                "factors by collapse(...)."
            )
        values = np.full(shape, 0.0 if self.total is None else self.total / self.domain.size)
        for a, contrasts in self.contrasts.items():
            others = math.prod(n for name, n in zip(names, shape, strict=True) if name not in a)
            where = tuple(slice(None) if name in a else None for name in names)
            values += interaction(contrasts)[where] / others
        return read_only(values)

    @property
    def is_whole(self) -> bool:
        """Whether the joint table of the domain lies in a wanted margin."""
        return any(set(self.domain.names) <= set(margin) for margin in self.margins)

    @property
    def values(self) -> Array:
        """The noisy cells of the joint table, where it was released: unbiased, of any sign.

        Raises
        ------
        PrivacyError
            Where it was not.
        """
        self.plan.inside(self.domain.names)
        return self.noisy

    @property
    def sd(self) -> float:
        """The standard deviation of the noise in a cell of `values`, the same in all of them.

        The noises of different cells are correlated: `covariance`.
        """
        return self.plan.sd(*self.domain.names)

    @property
    def noise_range(self) -> tuple[float, float]:
        """The smallest and the largest standard deviation of a cell of the wanted margins."""
        sds = [self.plan.sd(*margin) for margin in self.margins]
        return min(sds), max(sds)

    @property
    def noise_sd(self) -> Array:
        """The standard deviation of the noise in each cell of `values`."""
        return np.full(self.domain.shape, self.sd)

    def covariance(self, *factors: str | Sequence[str]) -> Array:
        """The dense covariance of the noise in a margin, over its flattened cells.

        Raises
        ------
        PrivacyError
            If the factors lie in no wanted margin together.
        ReleaseError
            If the margin has more than 4,096 cells.

        Notes
        -----
        The sum over A in S of s_A^2 times the product over A of (I - J/n_k) and over the other
        factors of S of J / n_k^2.
        """
        factors = listed(factors)
        return self.plan.covariance(*factors)

    def to_frame(self, *factors: str | Sequence[str]) -> pd.DataFrame:
        """One row a cell: the factors, then ``noisy`` and ``noise_sd``.

        Parameters
        ----------
        factors : str
            The margin; without them all wanted margins, one below the other, with the text of
            each margin in a first column ``margin`` and nothing in the columns of other factors.

        Raises
        ------
        PrivacyError
            If the factors lie in no wanted margin together.
        ReleaseError
            If all are asked for and a factor has the name of another column.
        """
        factors = listed(factors)
        if factors:
            margin = self.margin(*factors)
            cells = {"noisy": margin.values, "noise_sd": margin.noise_sd}
            return exports.frame_of(margin.domain, cells)
        named = [name for name in self.domain.names if any(name in m for m in self.margins)]
        columns = ["margin", *named, "noisy", "noise_sd"]
        if len(set(columns)) < len(columns):
            raise ReleaseError(
                "A factor has the name of another column of this table: margin, noisy or noise_sd. "
                "Ask for one margin at a time, or rename the factor."
            )
        frames = []
        for names in self.margins:
            # Labels as objects: a column holds those of some rows and nothing in others.
            frame = self.to_frame(*names).astype(dict.fromkeys(names, object))
            frame.insert(0, "margin", ", ".join(names))
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)[columns]

    def statement(self) -> dict[str, str]:
        """What a reader must know of the protection, as short labelled sentences."""
        said = self.plan.statement()
        if self.origin == "simulated":
            said["Privacy"] = f"{SIMULATED}, at {self.privacy.describe()}"
        missing = self.provenance.get("missing")
        return {**said, **({} if missing is None else {"Missing values": missing})}

    def __repr__(self) -> str:
        count = len(self.margins)
        stamp = SIMULATED if self.origin == "simulated" else OBSERVED
        return (
            f"<MarginRelease {count} margin{'s' * (count != 1)}; "
            f"{'' if self.private else f'{stamp}; '}"
            f"mu = {ceil_digits(self.privacy.mu)} ({self.neighbours}); {self.plan.spread}>"
        )

    # -- files ---------------------------------------------------------------------------------

    def save(self, path: str | Path, *, key: files.Key | None = None) -> None:
        """Write the release to a JSON file; the file appears whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file.
        key : bytes or str, optional
            A secret of at least 16 bytes that you share with the readers: the file is sealed with
            it (HMAC-SHA256), so that `load_release` with the same key tells that nobody
            without it wrote or changed the file. Without a key the file reads as any other.

        Raises
        ------
        ReleaseError
            If the file cannot be written, or the key is too short.
        """
        files.write(path, self.to_dict(), files.MARGINS, key=key)

    @property
    def checksum(self) -> str:
        """The checksum that the release's file carries."""
        return str(files.document_of(self.to_dict(), files.MARGINS)["checksum"])

    def to_dict(self) -> dict[str, Any]:
        """The release as plain data, as it stands in its JSON file."""
        return {
            "plan": self.plan.to_dict(),
            "contrasts": [self.contrasts[a].ravel().tolist() for a in self.plan.cell_scales],
            "total": self.total,
            "origin": self.origin,
            "provenance": self.provenance,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> MarginRelease:
        """The release that `to_dict` wrote.

        Raises
        ------
        ReleaseError
            If `to_dict` did not write it.
        """
        names = {field.name for field in fields(cls)}
        return read_back("release of margins", names, content, cls._read)

    @classmethod
    def _read(cls, content: Mapping[str, Any]) -> MarginRelease:
        plan = MarginPlan.from_dict(content["plan"])
        words = content["provenance"]
        if not is_words(words):
            raise ReleaseError("its provenance is not a mapping to text")
        n = dict(zip(plan.domain.names, plan.domain.shape, strict=True))
        pairs = zip(plan.cell_scales, content["contrasts"], strict=True)
        contrasts = {
            a: np.asarray(values, dtype=np.float64).reshape([n[name] - 1 for name in a])
            for a, values in pairs
        }
        made = cls(plan, contrasts, content["total"], content["origin"], words)
        for a, values in contrasts.items():
            steps = np.ldexp(values, contrast_exponent(plan.cell_scales[a], len(a)))
            if (steps != np.rint(steps)).any():
                raise ReleaseError("some contrast is not on the grid of its noise")
        return made

    @classmethod
    def load(cls, path: str | Path, *, key: files.Key | None = None) -> MarginRelease:
        """Read a release of margins from the JSON file that `save` wrote, bit for bit.

        Parameters
        ----------
        path : str or Path
            The file.
        key : bytes or str, optional
            As in `load_release`.

        Raises
        ------
        ReleaseError
            If the file is no such release, is of an unknown version, or was changed; or if there
            is a key, and the file is not sealed with it.
        """
        content = files.read(path, files.MARGINS, key=key)
        try:
            return cls.from_dict(content)
        except ReleaseError as error:
            raise ReleaseError(f"{path}: {error}") from None
