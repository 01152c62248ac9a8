"""A release of margins: the public object, with the law of its noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpcontingency.domain import Domain
from dpcontingency.errors import DPContingencyError, ReleaseError
from dpcontingency.privacy.gdp import GDP, ceil_digits
from dpcontingency.release import exports, files
from dpcontingency.release.contrasts import interaction
from dpcontingency.release.noise import MAX_DENSE_CELLS
from dpcontingency.release.workload import Factors, MarginPlan

Array = npt.NDArray[np.float64]
Origin = Literal["released", "simulated"]

SAMPLING = (
    "integer contrasts of each interaction plus Gaussian noise rounded to a dyadic grid, by its "
    "exact joint law: post-processing of the ideal mechanism, with no extra delta"
)


class NoisyMargin(NamedTuple):
    """A released margin.

    Attributes
    ----------
    values : ndarray of float
        The noisy cells, an axis a factor in the order asked for. Unbiased; negative cells are
        noise and stay.
    sd : float
        The standard deviation of the noise in a cell, the same in all of them. The noises of
        different cells are correlated: `MarginRelease.covariance`.
    """

    values: Array
    sd: float


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
    >>> values, sd = release.margin("B")
    >>> values.shape, round(sd, 2), bool(np.isclose(values.sum(), 66))
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
            kept[a] = np.asarray(values, dtype=np.float64).view()
            kept[a].setflags(write=False)
        object.__setattr__(self, "contrasts", MappingProxyType(kept))

    def __reduce__(self) -> tuple[Any, ...]:
        contrasts = dict(self.contrasts)
        return type(self), (self.plan, contrasts, self.total, self.origin, self.provenance)

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
        """Whether the records behind it were protected at all."""
        return self.origin == "released"

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

    def margin(self, *factors: str) -> NoisyMargin:
        """A wanted margin or a part of one, its axes in the order given (post-processing).

        Raises
        ------
        DomainError
            If a factor is unknown or named twice.
        PrivacyError
            If the factors lie in no wanted margin together.
        """
        names = self.plan.inside(factors)
        shape = self._shape(names)
        values = np.full(shape, 0.0 if self.total is None else self.total / math.prod(shape))
        for a in self.plan.interactions_in(names):
            kept = [self.domain.axis(name) for name in a]
            part = interaction(self.contrasts[a]) / math.prod(
                n for name, n in zip(names, shape, strict=True) if name not in a
            )
            # The axes of an interaction are in the domain's order; those asked for may not be.
            order = [kept.index(self.domain.axis(name)) for name in names if name in a]
            where = tuple(slice(None) if name in a else None for name in names)
            values += part.transpose(order)[where]
        return NoisyMargin(values, self.plan.sd(*names))

    def covariance(self, *factors: str) -> Array:
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
        names = self.plan.inside(factors)
        shape = self._shape(names)
        p = math.prod(shape)
        if p > MAX_DENSE_CELLS:
            raise ReleaseError(
                f"A dense covariance of {p:,} cells needs {p * p * 8 / 1e9:.1f} GB; ask for that "
                f"of a margin with at most {MAX_DENSE_CELLS:,} cells."
            )
        out: Array = np.zeros((p, p))
        for a in self.plan.interactions_in(names):
            block: Array = np.full((1, 1), self.plan.cell_scales[a] ** 2)
            for name, n in zip(names, shape, strict=True):
                flat = np.full((n, n), 1 / n)
                block = np.kron(block, np.eye(n) - flat if name in a else flat / n)
            out += block
        return out

    def to_frame(self, *factors: str) -> pd.DataFrame:
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
        if factors:
            values, sd = self.margin(*factors)
            cells = {"noisy": values, "noise_sd": np.full(values.shape, sd)}
            return exports.frame_of(self.domain.project(factors), cells)
        named = [name for name in self.domain.names if any(name in m for m in self.margins)]
        columns = ["margin", *named, "noisy", "noise_sd"]
        if len(set(columns)) < len(columns):
            raise ReleaseError(
                "A factor has the name of another column of this table: margin, noisy or noise_sd. "
                "Ask for one margin at a time, or rename the factor."
            )
        frames = []
        for margin in self.margins:
            # Labels as objects: a column holds those of some rows and nothing in others.
            frame = self.to_frame(*margin).astype(dict.fromkeys(margin, object))
            frame.insert(0, "margin", ", ".join(margin))
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)[columns]

    def statement(self) -> dict[str, str]:
        """What a reader must know of the protection, as short labelled sentences."""
        said = self.plan.statement()
        if not self.private:
            said["Privacy"] = f"NOT PRIVATE: simulated, at {said['Privacy']}"
        missing = self.provenance.get("missing")
        return {**said, **({} if missing is None else {"Missing values": missing})}

    def __repr__(self) -> str:
        count = len(self.margins)
        return (
            f"<MarginRelease {count} margin{'s' * (count != 1)}; "
            f"{'' if self.private else 'NOT PRIVATE: simulated; '}"
            f"mu = {ceil_digits(self.privacy.mu)} ({self.neighbours}); {self.plan.spread}>"
        )

    # -- files ---------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the release to a JSON file; the file appears whole or not at all."""
        files.write(path, self.to_dict(), files.MARGINS)

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
        reason = "some field is missing, unknown or not of the kind that it should be"
        try:
            release = cls._read(content)
            # Whatever NumPy or a constructor mended on the way shows here.
            if release.to_dict() == content:
                return release
        except DPContingencyError as error:
            reason = str(error).rstrip(".")
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
            pass  # whichever nested field it was: the reason is the same
        raise ReleaseError(
            f"This is no release of margins: {reason}. Ask the publisher for the original file."
        )

    @classmethod
    def _read(cls, content: Mapping[str, Any]) -> MarginRelease:
        plan = MarginPlan.from_dict(content["plan"])
        total, origin, words = content["total"], content["origin"], content["provenance"]
        if (total is None) != (() in plan.cell_scales):
            raise ReleaseError("its total does not go with its neighbours")
        if total is not None and not (type(total) is int and total >= 0):
            raise ReleaseError("its total is not a number of records")
        if origin not in get_args(Origin):
            raise ReleaseError("its origin is not a known one")
        if type(words) is not dict or not all(type(text) is str for text in words.values()):
            raise ReleaseError("its provenance is not a mapping to text")
        n = dict(zip(plan.domain.names, plan.domain.shape, strict=True))
        pairs = zip(plan.cell_scales, content["contrasts"], strict=True)
        contrasts = {
            a: np.asarray(values, dtype=np.float64).reshape([n[name] - 1 for name in a])
            for a, values in pairs
        }
        if not all(np.isfinite(values).all() for values in contrasts.values()):
            raise ReleaseError("some contrast is no finite number")
        return cls(plan, contrasts, total, origin, words)

    @classmethod
    def load(cls, path: str | Path) -> MarginRelease:
        """Read a release of margins from the JSON file that `save` wrote, bit for bit.

        Raises
        ------
        ReleaseError
            If the file is no such release, is of an unknown version, or was changed.
        """
        content = files.read(path, files.MARGINS)
        try:
            return cls.from_dict(content)
        except ReleaseError as error:
            raise ReleaseError(f"{path}: {error}") from None

    # -- parts ---------------------------------------------------------------------------------

    def _shape(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(len(self.domain.levels[name]) for name in names)
