"""What a release of chosen margins will cost and give, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.linalg import cho_factor, cho_solve

from dpcontingency.domain import Domain
from dpcontingency.errors import PrivacyError
from dpcontingency.privacy.gdp import GDP, ceil_digits
from dpcontingency.privacy.neighbours import REPLACE_ONE, checked_relation
from dpcontingency.release.layout import CLOSED, EXACT, SAFE, Layout, Loss, loss_of
from dpcontingency.release.options import require

Array = npt.NDArray[np.float64]
Factors: TypeAlias = tuple[str, ...]
Objective = Literal["total-variance", "max-variance"]
Weights: TypeAlias = Sequence[float] | Mapping[Any, float]

GAP = 1e-6  # how far from the best value the search may stop, relative
MAX_ROUNDS = 500
BARRIERS = (1e-2, 1e-4, 1e-6, 1e-7)
MAX_STEPS = 100
MAX_KINDS = 5000


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
        """
        domain = self.domain.project(factors)
        parts = [tuple(name for name in margin if name in factors) for margin in self.margins]
        largest: dict[frozenset[str], Factors] = {}
        for part in sorted(filter(None, parts), key=len, reverse=True):
            if not any(set(part) <= known for known in largest):
                largest[frozenset(part)] = part
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

    def interactions_in(self, factors: Sequence[str]) -> Iterator[Factors]:
        """The released interactions inside a margin, small sets first."""
        ordered = [name for name in self.domain.names if name in set(factors)]
        subsets = (combinations(ordered, size) for size in range(len(ordered) + 1))
        return (a for a in chain.from_iterable(subsets) if a in self.cell_scales)

    def statement(self) -> dict[str, str]:
        """What a reader must know, as short labelled sentences."""
        return {
            "Privacy": self.privacy.describe(),
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
        plan = cls(
            domain=domain,
            margins=checked_margins(domain, content["margins"]),
            privacy=GDP(content["mu"]),
            neighbours=checked_relation(content["neighbours"]),
            objective=require("objective", content["objective"], get_args(Objective)),
            weights=tuple(map(float, content["weights"])),
            cell_scales={tuple(a): float(s) for a, s in content["scales"]},
            bound=content["bound"],
        )
        plan.check()
        return plan

    def check(self) -> None:
        """Refuse scales that are not those of the margins' interactions, or spend too much."""
        layout, loss = _laid_out(self.domain, self.margins, self.weights, self.neighbours)
        names, scales = self.domain.names, dict(self.cell_scales)
        found, squared = [], 0.0
        for kind in layout.interactions:
            sets = [tuple(names[axis] for axis in a) for a in layout.classes.sets(kind)]
            if not all(a in scales for a in sets):
                raise PrivacyError("some interaction of the margins has no scale")
            found.append(min(scales.pop(a) for a in sets))
        if scales or not all(0 < s < math.inf for s in found):
            raise PrivacyError("some scale is of no interaction, or not positive")
        squared, _ = loss.worst(np.array(found) ** -2.0)
        if squared > self.privacy.mu**2:
            raise PrivacyError("its scales spend more than the loss that it states")
        if self.bound not in (EXACT, CLOSED, SAFE):
            raise PrivacyError("its loss was found in no known way")

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
        If a margin is named twice, a weight is not positive, or nothing can change.

    Notes
    -----
    METHODS 1.5. In precisions u_A = 1 / s_A^2 the variances are sums of c_A / u_A and the loss is
    the largest of linear functions of u, so the problem is convex. With multipliers t on the
    margins and q on the loss, on simplices, its dual is to maximise
    F(t, q) = sum_A sqrt(x_A y_A), x_A = sum_S t_S c_SA, y_A = sum_D q_D a_AD, and
    u_A = sqrt(x_A / y_A) is best at the maximum. Any t and q bound the gap: the value at their u,
    made feasible, is at most (largest loss)(largest variance) / F^2 times the best one.

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
    checked_relation(neighbours)
    require("objective", objective, get_args(Objective))
    wanted = checked_margins(domain, margins)
    weighing = _checked_weights(wanted, weights)
    layout, loss = _laid_out(domain, wanted, weighing, neighbours)
    if not layout.interactions:
        raise PrivacyError(
            "No cell of these margins can change: their factors have a single level each. Declare "
            "more levels, or ask for other margins."
        )
    scales = _budgeted(best_precisions(layout, loss, objective), loss, privacy)
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


def _laid_out(
    domain: Domain, margins: Sequence[Factors], weights: Sequence[float], neighbours: str
) -> tuple[Layout, Loss]:
    """The layout of some margins, and what it loses."""
    axes = [frozenset(domain.axis(name) for name in margin) for margin in margins]
    replace_one = neighbours == REPLACE_ONE
    weighted = dict(zip(axes, weights, strict=True))
    layout = Layout(domain.shape, weighted, with_total=not replace_one)
    return layout, loss_of(layout, replace_one=replace_one)


def checked_margins(domain: Domain, margins: Sequence[Sequence[str]]) -> tuple[Factors, ...]:
    """The wanted margins as tuples of factors of the domain.

    Raises
    ------
    PrivacyError
        If there is none, one is empty or named twice, or holds an impossible combination.
    """
    if isinstance(margins, str):
        raise PrivacyError(f"`margins` is a sequence of margins: write [{margins!r}].")
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
        values = list(weights)
    if len(values) != len(margins):
        raise PrivacyError(
            f"Give one weight a margin: there are {len(margins)} margins and {len(values)} weights."
        )
    try:
        out = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        out = (math.nan,)
    if not all(0 < value < math.inf for value in out):
        raise PrivacyError("A weight is a positive finite number.")
    return out


# -- the best scales ------------------------------------------------------------------------------


def best_precisions(layout: Layout, loss: Loss, objective: str) -> Array:
    """Precisions u by kind of interaction that are best up to their common factor.

    Constraints are generated: a search on the patterns known so far, then the worst pattern at
    its end is added, until that is no worse than those known.
    """
    by_margin = layout.cell_variances(layout.kinds)
    if objective == "total-variance":
        variances = (layout.total_weights @ by_margin)[None, :]
    elif len(layout.kinds) > MAX_KINDS:
        raise PrivacyError(
            f"The largest variance is minimised over at most {MAX_KINDS:,} kinds of margins; these "
            f"are of {len(layout.kinds):,} kinds. Use objective='total-variance'."
        )
    else:
        variances = by_margin.todense() * layout.largest_weights[:, None]
    first = loss.first_rows()
    rows = first
    t, q = np.full(variances.shape[0], 1 / variances.shape[0]), np.full(len(rows), 1 / len(rows))
    for _ in range(MAX_ROUNDS):
        t, q = _search(variances, rows, t, q)
        u, value = _at(variances, rows, t, q)
        squared_loss, worst = loss.worst(u)
        if squared_loss * float((variances @ (1 / u)).max()) <= (1 + GAP) * value**2:
            break
        fresh = _new_rows(rows, worst)
        if not len(fresh):
            break
        # Patterns whose multiplier went to nothing are left out, but for the first: without them
        # some interaction might cost nothing.
        kept = (q > 1e-9 * q.max()) | (np.arange(len(q)) < len(first))
        rows = np.vstack([rows[kept], fresh])
        q = np.append(q[kept], np.full(len(fresh), 0.1 * q.max() / len(fresh)))
        q /= q.sum()
    return u


def _at(variances: Array, rows: Array, t: Array, q: Array) -> tuple[Array, float]:
    """The precisions that multipliers call for, and F."""
    x, y = t @ variances, q @ rows
    return np.sqrt(x / y), float(np.sqrt(x * y).sum())


def _search(variances: Array, rows: Array, t: Array, q: Array) -> tuple[Array, Array]:
    """Maximise log F(t, q) - (sum t + sum q) / 2 over positive multipliers.

    F is homogeneous of degree 1/2 in each argument, so the sums are 1 at the maximum. Newton steps
    with a logarithmic barrier, which is lowered from one search to the next.
    """
    if len(t) == len(q) == 1:
        return t, q
    z = np.maximum(np.concatenate([t, q]), 1e-6 / (len(t) + len(q)))
    for smallness in BARRIERS:
        z = _centred(variances, rows, z, smallness / z.size)
    t, q = z[: len(t)], z[len(t) :]
    return t / t.sum(), q / q.sum()


def _centred(variances: Array, rows: Array, z: Array, barrier: float) -> Array:
    """Minimise (sum z) / 2 - log F(z) - barrier sum log z, a convex function, by Newton steps."""
    first = variances.shape[0]

    def height(z: Array) -> float:
        x, y = z[:first] @ variances, z[first:] @ rows
        return float(z.sum() / 2 - math.log(np.sqrt(x * y).sum()) - barrier * np.log(z).sum())

    now = height(z)
    for _ in range(MAX_STEPS):
        x, y = z[:first] @ variances, z[first:] @ rows
        root = np.sqrt(x * y)
        value = root.sum()
        slope = np.concatenate([variances @ (root / x), rows @ (root / y)]) / (2 * value)
        gradient = 0.5 - slope - barrier / z
        cross = (variances / root) @ rows.T
        by_x, by_y = variances * (root / x**2) @ variances.T, rows * (root / y**2) @ rows.T
        bend = np.block([[by_x, -cross], [-cross.T, by_y]]) / (4 * value)
        # In units of z, in which the barrier is a multiple of the identity.
        hessian = (bend + np.outer(slope, slope)) * np.outer(z, z)
        hessian[np.diag_indices(z.size)] += barrier
        step = -cho_solve(cho_factor(hessian), z * gradient)
        promise = -float(step @ (z * gradient))
        if promise <= 1e-3 * barrier:
            break
        length = min(1.0, 0.9 / max(-float(step.min()), 1e-300))
        while (then := height(z * (1 + length * step))) > now - 0.1 * length * promise:
            length /= 2
            if length < 1e-10:
                return z
        z, now = z * (1 + length * step), then
    return z


def _new_rows(rows: Array, worst: Array) -> Array:
    """Those of the worst rows that are not known yet."""
    known = {row.tobytes() for row in rows}
    return np.array([row for row in worst if row.tobytes() not in known])


def _budgeted(precisions: Array, loss: Loss, privacy: GDP) -> Array:
    """The scales s_A in the proportions of these precisions that spend the loss, rounded up."""
    squared, _ = loss.worst(precisions)
    # The factor covers the rounding of the scales themselves; `worst` covers that of the loss.
    factor = math.sqrt(squared) / privacy.mu * (1 + 1e-12)
    return np.nextafter(factor / np.sqrt(precisions), np.inf)
