"""What a planned test asks of a table: factors, conditions, null hypothesis, all checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from dpcontingency._language import argument
from dpcontingency.domain import Domain, without_nan
from dpcontingency.errors import ModelError, shown
from dpcontingency.inference import nulls
from dpcontingency.inference.formula import generating_class
from dpcontingency.inference.nulls import Null
from dpcontingency.inference.scores import scores_of

Array = npt.NDArray[np.float64]
Factor: TypeAlias = str | Sequence[str]

MAX_CELLS = 4096
SUM_SLACK = 1e-6


class Question(TypedDict, total=False):
    """What is asked of the table, beside the test: options of `power` and its inverses.

    Attributes
    ----------
    factors : sequence
        The factors tested, in the order that the test needs; a tuple among them counts as one.
        All factors that are not given, by default.
    given : sequence of str
        Factors to condition on.
    null : array_like
        The null probabilities of a goodness-of-fit test.
    model : str or iterable
        The generating class of a model test.
    neighbours : {"replace-one", "add-remove"}
        What the loss will protect.
    strata : sequence of str
        Factors whose joint margin is public.
    """

    factors: Sequence[Factor]
    given: Sequence[str]
    null: npt.ArrayLike
    model: Any
    neighbours: str
    strata: Sequence[str]


@dataclass(frozen=True)
class Asked:
    """The question in terms of the margin that it is about."""

    domain: Domain
    groups: tuple[tuple[str, ...], ...]
    given: tuple[str, ...]
    strata: tuple[str, ...]
    null: Array | None
    model: Any

    @classmethod
    def of(cls, domain: Domain, question: Question, strata: tuple[str, ...]) -> Asked:
        """The question checked against the domain."""
        given = _several("given", question.get("given", ()))
        named = question.get("factors")
        if named is None:
            groups: tuple[tuple[str, ...], ...] = tuple(
                (name,) for name in domain.names if name not in given
            )
        else:
            groups = tuple(
                (part,) if isinstance(part, str) else tuple(part)
                for part in _several("factors", named)
            )
        involved = [*(name for group in groups for name in group), *given]
        if len(set(involved)) < len(involved):
            raise ModelError(f"Each factor is named once; got {', '.join(map(repr, involved))}.")
        margin = domain.project(involved)
        if margin.size > MAX_CELLS:
            raise ModelError(
                f"Planning works on tables of at most {MAX_CELLS:,} cells, and this test involves "
                f"{margin.size:,}; name fewer factors."
            )
        null = question.get("null")
        return cls(
            margin,
            groups,
            given,
            tuple(name for name in strata if name in involved),
            None if null is None else probabilities_of(margin, null, "null"),
            question.get("model"),
        )

    def pair(self, what: str) -> tuple[str, str]:
        """The two factors of a test of two."""
        names = [name for group in self.groups for name in group]
        if len(names) != 2:
            raise ModelError(
                f"A test of {what} is about two factors; got "
                f"{', '.join(map(repr, names)) or 'none'}. Name them by "
                f"{argument('factors', ...)}, and those to condition on by "
                f"{argument('given', ...)}."
            )
        return names[0], names[1]

    def axes(self, *names: str) -> tuple[int, ...]:
        """The axes of some factors in the margin."""
        return tuple(self.domain.axis(name) for name in names)

    def with_strata(self, generators: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        """A generating class that holds the public margin, which no model can doubt."""
        out = [tuple(generator) for generator in generators]
        return [*out, self.strata] if self.strata else out

    def square(self, what: str) -> None:
        """Refuse what is no square table of its own."""
        one, other = self.pair(what)
        if self.given or {one, other} & set(self.strata):
            raise ModelError(
                f"A test of {what} takes no given factors, and neither of its own in the strata."
            )
        if self.domain.levels[one] != self.domain.levels[other]:
            raise ModelError(
                f"A test of {what} needs two factors with the same levels in the same order; "
                f"{one!r} and {other!r} differ."
            )


def _independence(asked: Asked, alternative: Array) -> Null:
    if len(asked.groups) < 2:
        raise ModelError(
            "A test of independence needs two factors or more: name them by "
            f"{argument('factors', ...)}."
        )
    generators = asked.with_strata([(*group, *asked.given) for group in asked.groups])
    return nulls.hierarchical(asked.domain, alternative, generators)


def _goodness_of_fit(asked: Asked, alternative: Array) -> Null:
    if asked.null is None:
        raise ModelError(
            f"A goodness-of-fit test needs the null probabilities, {argument('null', ...)}, for a "
            f"table of shape {asked.domain.shape}."
        )
    null = asked.null
    if asked.strata:  # what is public is not tested
        others = tuple(k for k, name in enumerate(asked.domain.names) if name not in asked.strata)
        within = null.sum(axis=others, keepdims=True)
        share = np.divide(null, within, out=np.zeros(null.shape), where=within > 0)
        null = share * alternative.sum(axis=others, keepdims=True)
    return nulls.fixed_distribution(null)


def _symmetry(asked: Asked, alternative: Array) -> Null:
    asked.square("symmetry")
    return nulls.symmetric(alternative)


def _marginal_homogeneity(asked: Asked, alternative: Array) -> Null:
    asked.square("marginal homogeneity")
    return nulls.marginally_homogeneous(alternative)


def _trend(asked: Asked, alternative: Array) -> Null:
    one, other = asked.pair("trend")
    rows, columns = (scores_of(asked.domain, name, "A trend test") for name in (one, other))
    generators = asked.with_strata([(one, *asked.given), (other, *asked.given)])
    product = np.multiply.outer(rows, columns)
    product = np.broadcast_to(
        product.reshape(*product.shape, *[1] * len(asked.given)), alternative.shape
    )
    null = nulls.scored(asked.domain, alternative, generators, product)
    return replace(null, compared=asked.axes(one, other))


def _cmh(asked: Asked, alternative: Array) -> Null:
    one, other = asked.pair("conditional independence")
    generators = asked.with_strata([(one, *asked.given), (other, *asked.given)])
    against = [*generators, (one, other)]
    null = nulls.hierarchical(asked.domain, alternative, generators, against)
    return replace(null, compared=asked.axes(one, other))


def _no_three_way(asked: Asked, alternative: Array) -> Null:
    if not asked.given and len(asked.groups) != 3:
        raise ModelError(
            "A test of no three-way interaction needs a third factor: name it by "
            f"{argument('given', ...)}."
        )
    names = [name for group in asked.groups for name in group]
    third = asked.given or (names[2],)
    generators = asked.with_strata([(names[0], names[1]), (names[0], *third), (names[1], *third)])
    return nulls.hierarchical(asked.domain, alternative, generators)


def _model(asked: Asked, alternative: Array) -> Null:
    if asked.model is None:
        raise ModelError(
            f"A model test needs its generating class, {argument('model', ...)}, such as "
            '"[A B][B C]".'
        )
    generators = asked.with_strata(generating_class(asked.model, asked.domain.names))
    return nulls.hierarchical(asked.domain, alternative, generators)


NULLS: Mapping[str, Callable[[Asked, Array], Null]] = {
    "independence": _independence,
    "homogeneity": _independence,
    "goodness-of-fit": _goodness_of_fit,
    "symmetry": _symmetry,
    "marginal-homogeneity": _marginal_homogeneity,
    "trend": _trend,
    "cmh": _cmh,
    "no-three-way": _no_three_way,
    "model": _model,
}
TESTS = tuple(NULLS)


def _several(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable):
        raise ModelError(f"{argument(name)} is a sequence of factors; got {shown(value)}.")
    return tuple(value)


def probabilities_of(domain: Domain, values: npt.ArrayLike, name: str) -> Array:
    """Cell probabilities, checked; ``name`` is what a message calls them."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError(
            f"The {name} is an array of cell probabilities of shape {domain.shape}; got "
            f"{shown(values)}."
        ) from None
    if array.shape != domain.shape:
        raise ModelError(
            f"The {name} is an array of cell probabilities of shape {domain.shape}; got shape "
            f"{array.shape}."
        )
    array = without_nan(array, domain.possible())
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise ModelError(f"The {name} holds probabilities, at least 0; some cell is not.")
    if abs(float(array.sum()) - 1) > SUM_SLACK:
        raise ModelError(
            f"The {name} must add up to 1; it adds up to {float(array.sum()):.6g}. Divide it by "
            "its sum if it is in counts or percent."
        )
    if array[~domain.possible()].any():
        raise ModelError(f"The {name} has a positive probability in a structural zero.")
    return np.asarray(array / array.sum())


def margin_of(probabilities: Array, domain: Domain, asked: Asked) -> Array:
    """The probabilities on the margin that is asked about, axes in its order."""
    axes = [domain.axis(name) for name in asked.domain.names]
    dropped = tuple(k for k in range(probabilities.ndim) if k not in axes)
    kept = [k for k in range(probabilities.ndim) if k in axes]
    return np.asarray(probabilities.sum(axis=dropped).transpose([kept.index(k) for k in axes]))
