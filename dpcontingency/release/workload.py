"""What a release of chosen margins will cost and give, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpcontingency.domain import Domain
from dpcontingency.errors import PrivacyError, ReleaseError, shown
from dpcontingency.privacy.gdp import GDP, ceil_digits
from dpcontingency.privacy.neighbours import REPLACE_ONE, checked_relation
from dpcontingency.privacy.stamp import OBSERVED
from dpcontingency.release.layout import CLOSED, EXACT, SAFE, Classes, Layout, loss_of
from dpcontingency.release.noise import MAX_DENSE_CELLS
from dpcontingency.release.options import require
from dpcontingency.release.scales import best_precisions, budgeted_scales

Array = npt.NDArray[np.float64]
Factors: TypeAlias = tuple[str, ...]
Objective = Literal["total-variance", "max-variance"]
Weights: TypeAlias = Sequence[float] | Mapping[Any, float]

SMALLEST_MU, LARGEST_MU = 1e-100, 1e100
LARGEST_WEIGHT = 1e100  # far from where products of weights and variances leave the floats


@dataclass(frozen=True)
class MarginPlan:
    """How the noise of a margin release is laid out, and what it does to every margin.

    Made by `plan_margins`. Nothing in it depends on records.

    Attributes
    ----------
    domain : Domain
        Factors and levels.
    margins : tuple of tuples of str
        The wanted margins.
    privacy : GDP
        The loss to spend.
    neighbours : {"replace-one", "add-remove"}
        What the loss protects. Under ``replace-one`` the number of records is public.
    objective : {"total-variance", "max-variance"}
        What the scales minimise.
    weights : tuple of float
        What the variance of each wanted margin counts for.
    cell_scales : mapping of tuple of str to float
        s_A for each released interaction A, its factors in the domain's order: the standard
        deviation of the noise on a cell of A's own margin before it is projected on the
        interaction.
    bound : str
        How the loss was found: exactly, or as a safe bound.

    Examples
    --------
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": list("wxyz")})
    >>> plan = plan_margins(domain, [("A", "B"), ("A", "C"), ("B", "C")], GDP(mu=1))
    >>> plan
    <MarginPlan 3 margins, 6 interactions; mu = 1 (replace-one); SD of a cell 1.79 to 2.14>
    >>> round(plan.total_variance, 2), round(plan.sd("A", "B"), 3), round(plan.sd("C"), 3)
    (97.93, 2.142, 2.341)
    """

    domain: Domain
    margins: tuple[Factors, ...]
    privacy: GDP
    neighbours: str
    objective: str
    weights: tuple[float, ...]
    cell_scales: Mapping[Factors, float]
    bound: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "cell_scales", MappingProxyType(dict(self.cell_scales)))

    def __reduce__(self) -> tuple[Any, ...]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return type(self), tuple({**values, "cell_scales": dict(self.cell_scales)}.values())

    @cached_property
    def scales(self) -> Mapping[Factors, float]:
        """sigma_A of METHODS 1.5, by interaction: the noise in an orthonormal coordinate of it.

        P_A N + sigma_A P_A z is released, P_A the projection of the joint table on the interaction
        of A; sigma_A = s_A / sqrt(product of the levels of all other factors).
        """
        n = dict(zip(self.domain.names, self.domain.shape, strict=True))
        logs = {name: math.log(levels) / 2 for name, levels in n.items()}
        return MappingProxyType(
            {
                a: s * math.exp(-math.fsum(logs[name] for name in n if name not in a))
                for a, s in self.cell_scales.items()
            }
        )

    def variance(self, *factors: str) -> float:
        """The noise variance of a cell of a margin, the same in all its cells.

        Parameters
        ----------
        factors : str
            A wanted margin or any part of one; none for the total.

        Raises
        ------
        PrivacyError
            If no wanted margin holds these factors together.
        """
        names = self.inside(factors)
        n = dict(zip(self.domain.names, self.domain.shape, strict=True))
        return math.fsum(
            self.cell_scales[a] ** 2
            * math.prod(1 - 1 / n[name] for name in a)
            * math.prod(n[name] ** -2.0 for name in names if name not in a)
            for a in self.interactions_in(names)
        )

    def covariance(self, *factors: str) -> Array:
        """The dense covariance of the noise in a margin; see `MarginRelease.covariance`."""
        names = self.inside(factors)
        shape = tuple(len(self.domain.levels[name]) for name in names)
        p = math.prod(shape)
        if p > MAX_DENSE_CELLS:
            raise ReleaseError(
                f"A dense covariance of {p:,} cells needs {p * p * 8 / 1e9:.1f} GB; ask for that "
                f"of a margin with at most {MAX_DENSE_CELLS:,} cells."
            )
        out: Array = np.zeros((p, p))
        for a in self.interactions_in(names):
            block: Array = np.full((1, 1), self.cell_scales[a] ** 2)
            for name, n in zip(names, shape, strict=True):
                flat = np.full((n, n), 1 / n)
                block = np.kron(block, np.eye(n) - flat if name in a else flat / n)
            out += block
        return out

    def sd(self, *factors: str | Sequence[str]) -> float:
        """The standard deviation of the noise in a cell of a margin; see `variance`.

        The factors may also come as one sequence: ``sd(("A", "B"))`` is ``sd("A", "B")``.
        """
        if len(factors) == 1 and not isinstance(factors[0], str):
            factors = tuple(factors[0])
        return math.sqrt(self.variance(*factors))  # type: ignore[arg-type]

    @cached_property
    def total_variance(self) -> float:
        """The noise variances of all cells of all wanted margins added up, unweighted."""
        return math.fsum(self.domain.project(m).size * self.variance(*m) for m in self.margins)

    @cached_property
    def max_variance(self) -> float:
        """The largest noise variance of a cell of a wanted margin."""
        return max(self.variance(*m) for m in self.margins)

    def to_frame(self) -> pd.DataFrame:
        """One row a wanted margin: its factors, ``cells``, ``weight`` and ``sd``."""
        return pd.DataFrame(
            {
                "margin": [", ".join(m) for m in self.margins],
                "cells": [self.domain.project(m).size for m in self.margins],
                "weight": self.weights,
                "sd": [self.sd(*m) for m in self.margins],
            }
        )

    def inside(self, factors: Sequence[str]) -> Factors:
        """Check that a wanted margin holds these factors together, and return them.

        Raises
        ------
        DomainError
            If a factor is unknown or named twice.
        PrivacyError
            If no wanted margin holds them all.
        """
        names = self.domain.project(factors).names if factors else ()
        if not any(set(names) <= set(margin) for margin in self.margins):
            known = ", ".join("[" + " ".join(m) + "]" for m in self.margins[:8])
            more = ", ..." if len(self.margins) > 8 else ""
            raise PrivacyError(
                f"The margin of {', '.join(names)} lies in none of the margins of this release: "
                f"{known}{more}. Ask for a part of one of these, or plan a release with it."
            )
        return names

    def collapse(self, factors: Sequence[str]) -> MarginPlan:
        """The part of the plan that is about some factors, in the order given.

        The wanted margins are what they leave of these, the largest ones; the loss is that of the
        whole.

        Raises
        ------
        DomainError
            If a factor is unknown or named twice.
        PrivacyError
            If none of them is in a wanted margin.
        """
        domain = self.domain.project(factors)
        parts = [tuple(name for name in margin if name in factors) for margin in self.margins]
        largest: dict[frozenset[str], Factors] = {}
        for part in sorted(filter(None, parts), key=len, reverse=True):
            if not any(set(part) <= known for known in largest):
                largest[frozenset(part)] = part
        if not largest:
            raise PrivacyError(
                f"No margin of this release has a factor of {', '.join(domain.names)}; name at "
                "least one that is in a margin."
            )
        scales = {
            tuple(name for name in domain.names if name in a): scale
            for a, scale in self.cell_scales.items()
            if set(a) <= set(factors)
        }
        place = {name: i for i, name in enumerate(domain.names)}
        ordered = sorted(scales, key=lambda a: (len(a), [place[name] for name in a]))
        return replace(
            self,
            domain=domain,
            margins=tuple(largest.values()),
            weights=(1.0,) * len(largest),
            cell_scales={a: scales[a] for a in ordered},
        )

    def restrict(self, margins: Sequence[Sequence[str]]) -> MarginPlan:
        """The part of the plan that is about some margins; the loss is that of the whole.

        Raises
        ------
        DomainError
            If a factor is unknown.
        PrivacyError
            If a margin lies in no wanted one, or none is named, or one twice.
        """
        wanted = checked_margins(self.domain, margins)
        kept = {a for margin in wanted for a in self.interactions_in(self.inside(margin))}
        return replace(
            self,
            margins=wanted,
            weights=(1.0,) * len(wanted),
            cell_scales={a: s for a, s in self.cell_scales.items() if a in kept},
        )

    def interactions_in(self, factors: Sequence[str]) -> Iterator[Factors]:
        """The released interactions inside a margin, small sets first."""
        wanted = set(factors)
        sizes = zip(self.domain.names, self.domain.shape, strict=True)
        # A factor of one level is in no interaction.
        ordered = [name for name, size in sizes if name in wanted and size > 1]
        subsets = (combinations(ordered, size) for size in range(len(ordered) + 1))
        return (a for a in chain.from_iterable(subsets) if a in self.cell_scales)

    def statement(self) -> dict[str, str]:
        """What a reader must know, as short labelled sentences."""
        loss = self.privacy.describe()
        if not self.domain.is_public:
            loss = f"{OBSERVED}, outside the loss of {loss}"
        return {
            "Privacy": loss,
            "Neighbours": self.neighbours,
            "Loss": self.bound,
            "Public": "the number of records" if self.neighbours == REPLACE_ONE else "nothing",
            "Margins": "; ".join(", ".join(m) for m in self.margins),
            "Noise": f"Gaussian, laid out by interaction; {self.spread}",
        }

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data; `from_dict` is the way back."""
        return {
            "domain": self.domain.to_dict(),
            "margins": [list(m) for m in self.margins],
            "mu": self.privacy.mu,
            "neighbours": self.neighbours,
            "objective": self.objective,
            "weights": list(self.weights),
            "bound": self.bound,
            "scales": [[list(a), s] for a, s in self.cell_scales.items()],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> MarginPlan:
        """The plan that `to_dict` wrote.

        Raises
        ------
        PrivacyError
            If its interactions are not those of its margins, or its scales spend more than its
            loss.
        """
        domain = Domain.from_dict(content["domain"])
        margins = checked_margins(domain, content["margins"])
        plan = cls(
            domain=domain,
            margins=margins,
            privacy=GDP(content["mu"]),
            neighbours=checked_relation(content["neighbours"]),
            objective=require("objective", content["objective"], get_args(Objective)),
            weights=_checked_weights(margins, content["weights"]),
            cell_scales={tuple(a): float(s) for a, s in content["scales"]},
            bound=content["bound"],
        )
        plan.check()
        return plan

    def check(self) -> None:
        """Refuse scales that are not those of the margins' interactions, or spend too much."""
        layout = _layout(self.domain, self.margins, self.weights, self.neighbours)
        names, left = self.domain.names, set(self.cell_scales)
        for a in chain.from_iterable(map(layout.classes.sets, layout.interactions)):
            inside = tuple(names[axis] for axis in a)
            if inside not in left:
                raise PrivacyError("some interaction of the margins has no scale")
            left.remove(inside)
        if left or not all(0 < s < math.inf for s in self.cell_scales.values()):
            raise PrivacyError("some scale is of no interaction, or not positive")
        if not self._spends_at_most():
            raise PrivacyError("its scales spend more than the loss that it states")
        known = (EXACT, SAFE) if self.neighbours == REPLACE_ONE else (CLOSED,)
        if self.bound not in known:
            raise PrivacyError("its loss was found in no known way for its neighbours")

    def _spends_at_most(self) -> bool:
        """Whether the scales as they are listed spend at most the loss."""
        if not self.cell_scales:
            return True
        place = {name: axis for axis, name in enumerate(self.domain.names)}
        # In units of the loss: its square may be no float.
        relative = {
            frozenset(place[name] for name in a): s * self.privacy.mu
            for a, s in self.cell_scales.items()
        }
        if not all(0 < s < math.inf for s in relative.values()):
            return False
        listed = _ListedScales(self.domain.shape, relative)
        loss = loss_of(listed, replace_one=self.neighbours == REPLACE_ONE)
        with np.errstate(over="ignore", invalid="ignore"):
            squared, _ = loss.worst(listed.precisions)
        return squared <= 1  # which NaN is not

    @property
    def spread(self) -> str:
        """The noise of the wanted margins, in words."""
        sds = [self.sd(*m) for m in self.margins]
        low, high = f"{min(sds):.3g}", f"{max(sds):.3g}"
        return f"SD of a cell {low}" + (f" to {high}" if high != low else "")

    def __repr__(self) -> str:
        count = len(self.margins)
        return (
            f"<MarginPlan {count} margin{'s' * (count > 1)}, {len(self.cell_scales)} interactions; "
            f"{'' if self.domain.is_public else f'{OBSERVED}; '}"
            f"mu = {ceil_digits(self.privacy.mu)} ({self.neighbours}); {self.spread}>"
        )


def plan_margins(
    domain: Domain,
    margins: Sequence[Sequence[str]],
    privacy: GDP,
    *,
    objective: Objective = "total-variance",
    weights: Weights | None = None,
    neighbours: str = REPLACE_ONE,
) -> MarginPlan:
    """Lay out the noise of a margin release, so that the wanted margins are known best.

    Parameters
    ----------
    domain : Domain
        The public factors and levels.
    margins : sequence of sequences of str
        The wanted margins, such as ``[("A", "B"), ("C",)]``; a text is a factor by itself. The
        joint table never exists: 100 factors are no trouble.
    privacy : GDP
        The loss to spend on all of them together.
    objective : {"total-variance", "max-variance"}
        Whether to minimise the noise variances of all wanted cells added up, or the largest one.
    weights : sequence of float or mapping, optional
        What a variance counts for: one positive number a wanted margin, in their order or by
        margin; 1 by default.
    neighbours : {"replace-one", "add-remove"}
        What the loss protects: the value of one record (n is public), or its presence.

    Returns
    -------
    MarginPlan
        Its loss is at most ``privacy``, whatever the search for the best scales did: they are
        multiplied by what makes it so, rounded up. Under ``replace-one`` the loss is the exact
        one, unless there are more than 2^20 kinds of disagreement (about 20 factors that cannot be
        exchanged); then a safe bound, as ``bound`` says.

    Raises
    ------
    PrivacyError
        If a margin is named twice, a weight is not positive, nothing can change, or mu is not
        between 1e-100 and 1e100.

    Notes
    -----
    METHODS 1.5; the search is described in `scales`.

    References
    ----------
    Xiao, He, Ding and Kifer, "An optimal and scalable matrix mechanism for noisy marginals under
    convex loss functions", NeurIPS 2023 (under ``add-remove``).
    """
    if not isinstance(domain, Domain):
        raise PrivacyError(f"The domain is a Domain; got {type(domain).__name__}.")
    if not isinstance(privacy, GDP):
        raise PrivacyError(
            f"The privacy loss is a GDP object such as GDP(mu=0.5); got {privacy!r}."
        )
    if not SMALLEST_MU <= privacy.mu <= LARGEST_MU:
        raise PrivacyError(
            f"A loss of mu = {privacy.mu:.3g} is out of range: the square of its noise is no "
            f"accurate number. Spend between {SMALLEST_MU:g} and {LARGEST_MU:g}."
        )
    checked_relation(neighbours)
    require("objective", objective, get_args(Objective))
    wanted = checked_margins(domain, margins)
    weighing = _checked_weights(wanted, weights)
    layout = _layout(domain, wanted, weighing, neighbours)
    loss = loss_of(layout, replace_one=neighbours == REPLACE_ONE)
    if not layout.interactions:
        raise PrivacyError(
            "No cell of these margins can change: their factors have a single level each. Declare "
            "more levels, or ask for other margins."
        )
    scales = budgeted_scales(best_precisions(layout, loss, objective), loss, privacy)
    by_set = {
        a: float(s)
        for kind, s in zip(layout.interactions, scales, strict=True)
        for a in layout.classes.sets(kind)
    }
    names = domain.names
    return MarginPlan(
        domain=domain,
        margins=wanted,
        privacy=privacy,
        neighbours=neighbours,
        objective=objective,
        weights=weighing,
        cell_scales={
            tuple(names[axis] for axis in a): by_set[a]
            for a in sorted(by_set, key=lambda a: (len(a), a))
        },
        bound=loss.in_words,
    )


def _layout(
    domain: Domain, margins: Sequence[Factors], weights: Sequence[float], neighbours: str
) -> Layout:
    """The layout of some margins."""
    axes = [frozenset(domain.axis(name) for name in margin) for margin in margins]
    weighted = dict(zip(axes, weights, strict=True))
    return Layout(domain.shape, weighted, with_total=neighbours != REPLACE_ONE)


class _ListedScales(Layout):
    """The interactions that have these scales, whichever margins they were laid out for.

    Factors are exchangeable where exchanging them leaves every scale the same. The margins do not
    tell: those of a part of a release may be alike in factors that the whole treats differently.

    Parameters
    ----------
    shape : sequence of int
        The number of levels of each factor.
    scales : mapping of frozenset of int to float
        The scale of each interaction, all of its axes of several levels.
    """

    def __init__(self, shape: Sequence[int], scales: Mapping[frozenset[int], float]) -> None:
        self.classes = Classes.of(shape, scales)
        by_kind = {self.classes.counts(a): s for a, s in scales.items()}
        self.interactions = tuple(by_kind)
        self.numbers = np.array([self.classes.number(a) for a in by_kind], dtype=float)
        self.shares = np.array([self.share(a) for a in by_kind])
        with np.errstate(over="ignore"):
            self.precisions = np.array(list(by_kind.values())) ** -2.0


def checked_margins(domain: Domain, margins: Sequence[Sequence[str]]) -> tuple[Factors, ...]:
    """The wanted margins as tuples of factors of the domain.

    Raises
    ------
    PrivacyError
        If there is none, one is empty or named twice, or holds an impossible combination.
    """
    if isinstance(margins, str):
        raise PrivacyError(f"`margins` is a sequence of margins: write [{margins!r}].")
    if not isinstance(margins, Iterable):
        raise PrivacyError(
            f"`margins` is a sequence of margins such as [('A', 'B')]; got {shown(margins)}."
        )
    wanted = []
    for margin in margins:
        if not margin:
            raise PrivacyError("A margin names at least one factor; the total comes with any.")
        projected = domain.project(margin)  # a text is one factor
        if projected.structural_zeros:
            raise PrivacyError(
                f"The margin of {', '.join(projected.names)} has structural zeros, and noise laid "
                "out by interaction falls on all its cells. Leave it out, or release its table."
            )
        wanted.append(projected.names)
    if not wanted:
        raise PrivacyError("Name at least one margin, such as [('A', 'B')].")
    seen: dict[frozenset[str], Factors] = {}
    for names in wanted:
        if frozenset(names) in seen:
            raise PrivacyError(f"The margin of {', '.join(names)} is named twice; name it once.")
        seen[frozenset(names)] = names
    return tuple(wanted)


def _checked_weights(margins: tuple[Factors, ...], weights: Weights | None) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * len(margins)
    if isinstance(weights, Mapping):
        by_set = {frozenset((k,) if isinstance(k, str) else k): w for k, w in weights.items()}
        if odd := [k for k in by_set if k not in map(frozenset, margins)]:
            raise PrivacyError(
                f"There is a weight for the margin of {', '.join(sorted(map(str, odd[0])))}, which "
                "is not asked for."
            )
        values = [by_set.get(frozenset(m), 1.0) for m in margins]
    else:
        values = list(weights) if isinstance(weights, Iterable) else [weights]
    if len(values) != len(margins):
        raise PrivacyError(
            f"Give one weight a margin: there are {len(margins)} margins and {len(values)} weights."
        )
    try:
        out = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        out = (math.nan,)
    if not all(1 / LARGEST_WEIGHT <= value <= LARGEST_WEIGHT for value in out):
        raise PrivacyError(
            f"A weight is a positive finite number, from {1 / LARGEST_WEIGHT:g} to "
            f"{LARGEST_WEIGHT:g}."
        )
    return out
