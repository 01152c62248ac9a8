"""Terms that describe an association by fewer parameters than a full interaction has.

``score(A)`` is the numeric score of a factor's level, ``Diag(A, B)`` an indicator for each level
that factors share, ``Symm(A, B)`` one for each set of levels whatever factor has which. A special
term is a product of those and of factors. Each of its columns is a function of the levels of the
factors that it involves, so it is kept as a column over the cells of their margin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array, hstack

from dpcontingency._language import phrase
from dpcontingency.domain import Domain, label_text
from dpcontingency.errors import ModelError

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

# What is taken from the scores of a factor, and what they are then divided by.
Scaling: TypeAlias = Mapping[str, tuple[float, float]]

ALLOWED = (
    "a formula holds factor names, + - * : / ** ( ), and the terms score(A), Diag(A, B) and "
    "Symm(A, B); nothing in it is run"
)


@dataclass(frozen=True)
class Named:
    """A term with a name, such as ``score(A)`` or ``Diag(A, B)``.

    Attributes
    ----------
    kind : {"score", "Diag", "Symm"}
        Which.
    factors : tuple of str
        What it is of, in axis order.
    """

    kind: str
    factors: tuple[str, ...]

    @property
    def text(self) -> str:
        """The term with the names of factors as typed."""
        return f"{self.kind}({', '.join(self.factors)})"


@dataclass(frozen=True)
class SpecialTerm:
    """A product of named terms and factors; lower products of the same named terms go with it.

    Attributes
    ----------
    factors : tuple of str
        The factors whose levels each have columns of their own, in axis order.
    named : tuple of Named
        One or more.

    Examples
    --------
    >>> term = SpecialTerm(("my a",), (Named("score", ("B",)),))
    >>> term.text, term.formula
    ('my a:score(B)', '`my a`:score(B)')
    """

    factors: tuple[str, ...]
    named: tuple[Named, ...]

    @property
    def text(self) -> str:
        """The term with the names of factors as typed."""
        return ":".join([*self.factors, *(one.text for one in self.named)])

    @property
    def formula(self) -> str:
        """The term as a formula reads it, odd names quoted."""
        return ":".join(
            [
                *map(quoted, self.factors),
                *(f"{n.kind}({', '.join(map(quoted, n.factors))})" for n in self.named),
            ]
        )

    @property
    def involved(self) -> frozenset[str]:
        """Every factor that it is a function of."""
        return frozenset(self.factors).union(*(one.factors for one in self.named))

    def holds(self, other: SpecialTerm) -> bool:
        """Whether every column of another term is one of this."""
        return self.named == other.named and set(other.factors) <= set(self.factors)

    def without(self) -> list[SpecialTerm]:
        """What stays when the term itself is dropped: its products with a factor less."""
        rest = combinations(self.factors, len(self.factors) - 1) if self.factors else ()
        return [SpecialTerm(factors, self.named) for factors in rest]


class Columns(NamedTuple):
    """The columns of one special term.

    Attributes
    ----------
    axes : tuple of int
        Those of the factors that it involves.
    matrix : csc_array, shape (m, k)
        A row a cell of their margin.
    names : list of str
        The name of each column.
    terms : list of SpecialTerm
        The product, of those that go with the term, that each column is of.
    """

    axes: tuple[int, ...]
    matrix: csc_array
    names: list[str]
    terms: list[SpecialTerm]

    def labels(self) -> Iterator[tuple[str, SpecialTerm]]:
        """Name and product of each column."""
        return zip(self.names, self.terms, strict=True)


def quoted(name: str) -> str:
    """A factor's name as a formula reads it.

    Examples
    --------
    >>> quoted("B"), quoted("x:y"), quoted("a`b")
    ('B', '`x:y`', 'Q("a`b")')
    """
    if re.fullmatch(r"\w+", name):
        return name
    if "`" not in name:
        return f"`{name}`"
    mark = "'" if '"' in name else '"'
    return f"Q({mark}{name}{mark})"


def maximal_terms(terms: Sequence[SpecialTerm], names: Sequence[str]) -> tuple[SpecialTerm, ...]:
    """The terms that no other one holds, indicators first and fewer scores before more.

    A column that others can stand for is then the later one.
    """
    place = {name: i for i, name in enumerate(names)}

    def order(term: SpecialTerm) -> tuple[object, ...]:
        scores = [one.kind == "score" for one in term.named]
        axes = [(one.kind, [place[name] for name in one.factors]) for one in term.named]
        return sum(scores), len(scores), axes, [place[name] for name in term.factors]

    distinct = dict.fromkeys(terms)
    kept = [t for t in distinct if not any(o.holds(t) for o in distinct if o != t)]
    return tuple(sorted(kept, key=order))


def checked_named(kind: str, factors: Sequence[str], names: Sequence[str]) -> Named:
    """A named term of some factors.

    Raises
    ------
    ModelError
        If it takes another number of factors.
    """
    distinct = sorted(set(factors), key=list(names).index)
    if kind == "score" and len(factors) != 1:
        raise ModelError(
            f"score takes one factor; got {len(factors)}. The product of two scores is "
            "score(A):score(B)."
        )
    if kind != "score" and (len(distinct) < 2 or len(distinct) < len(factors)):
        raise ModelError(
            f"{kind} takes two factors or more, each once, such as {kind}(A, B); got "
            f"{kind}({', '.join(factors)})."
        )
    return Named(kind, tuple(distinct))


def level_scores(domain: Domain, name: str) -> tuple[float, ...]:
    """The scores of a factor's levels: those declared, or 1, 2, ... where only the order is.

    Raises
    ------
    ModelError
        If the factor is not ordered.
    """
    if name in domain.scores:
        return domain.scores[name]
    if name in domain.ordered:
        return tuple(float(k) for k in range(1, len(domain.levels[name]) + 1))
    raise ModelError(
        f"score({name}) needs an ordered factor, and the domain of this release does not say that "
        f"{name!r} is one: declare "
        + phrase(
            f"Domain(..., ordered=[{name!r}]) for scores 1, 2, ..., or "
            f"Domain(..., scores={{{name!r}: [...]}}).",
            f"ordered: [{name}] in the domain file for scores 1, 2, ..., or scores of its own.",
        )
    )


def standard_scaling(domain: Domain, terms: Sequence[SpecialTerm], centred: bool) -> Scaling:
    """For each factor with scores their middle (or 0), and what brings them into -1 to 1."""
    out = {}
    for name in {n.factors[0] for term in terms for n in term.named if n.kind == "score"}:
        scores = np.array(level_scores(domain, name))
        middle = float(scores.max() + scores.min()) / 2 if centred else 0.0
        out[name] = middle, float(np.abs(scores - middle).max()) or 1.0
    return out


def term_columns(term: SpecialTerm, domain: Domain, scaling: Scaling) -> Columns:
    """The columns of a term and of its products with fewer factors, those first.

    Parameters
    ----------
    term : SpecialTerm
        The term.
    domain : Domain
        Whose factors it names.
    scaling : mapping of str to (float, float)
        A shift and a unit for the scores of some factors.

    Raises
    ------
    ModelError
        If a factor has no scores, or those of ``Diag`` and ``Symm`` differ in their levels.
    """
    names = [name for name in domain.names if name in term.involved]
    levels = np.indices([len(domain.levels[name]) for name in names]).reshape(len(names), -1)
    at = dict(zip(names, levels, strict=True))
    whole, labels = csc_array(np.ones((levels.shape[1], 1))), [""]
    for one in term.named:
        matrix, suffixes = KINDS[one.kind](domain, one.factors, at, scaling)
        whole = _product(whole, matrix)
        labels = [f"{a}:{one.text}{b}" for a, b in product(labels, suffixes)]
    blocks, column_names, column_terms = [], [], []
    for size in range(len(term.factors) + 1):
        for factors in combinations(term.factors, size):
            part, prefix = csc_array(np.ones((levels.shape[1], 1))), [""]
            for name in factors:
                shown = [label_text(level) for level in domain.levels[name][1:]]
                part = _product(part, _indicators(at[name] - 1, len(shown)))
                prefix = [f"{a}:{name}[T.{b}]" for a, b in product(prefix, shown)]
            blocks.append(_product(part, whole))
            column_names += [(a + b).removeprefix(":") for a, b in product(prefix, labels)]
            column_terms += [SpecialTerm(factors, term.named)] * blocks[-1].shape[1]
    axes = tuple(domain.axis(name) for name in names)
    return Columns(axes, hstack(blocks, format="csc"), column_names, column_terms)


# -- the named terms ------------------------------------------------------------------------------


def _score(
    domain: Domain, factors: tuple[str, ...], at: Mapping[str, Index], scaling: Scaling
) -> tuple[csc_array, list[str]]:
    (name,) = factors
    shift, unit = scaling.get(name, (0.0, 1.0))
    scores = (np.array(level_scores(domain, name)) - shift) / unit
    return csc_array(scores[at[name]][:, None]), [""]


def _diag(
    domain: Domain, factors: tuple[str, ...], at: Mapping[str, Index], scaling: Scaling
) -> tuple[csc_array, list[str]]:
    shown = _shared_levels("Diag", domain, factors)
    levels = np.stack([at[name] for name in factors])
    same = (levels == levels[0]).all(axis=0)
    return _indicators(np.where(same, levels[0], -1), len(shown)), [f"[{x}]" for x in shown]


def _symm(
    domain: Domain, factors: tuple[str, ...], at: Mapping[str, Index], scaling: Scaling
) -> tuple[csc_array, list[str]]:
    """One column a multiset of levels; those of a single level come last.

    Beside main effects they are the ones that the others can stand for.
    """
    shown = _shared_levels("Symm", domain, factors)
    levels = np.sort(np.stack([at[name] for name in factors]), axis=0)
    found, which = np.unique(levels, axis=1, return_inverse=True)
    single = (found == found[0]).all(axis=0)
    order = np.argsort(single, kind="stable")
    rank = np.empty(order.size, dtype=np.intp)
    rank[order] = np.arange(order.size)
    labels = [f"[{', '.join(shown[k] for k in found[:, j])}]" for j in order]
    return _indicators(rank[which.ravel()], order.size), labels


KINDS: dict[str, Callable[..., tuple[csc_array, list[str]]]] = {
    "score": _score,
    "Diag": _diag,
    "Symm": _symm,
}


def _shared_levels(kind: str, domain: Domain, factors: tuple[str, ...]) -> list[str]:
    """The levels that the factors have in common, as text."""
    shown = [[label_text(level) for level in domain.levels[name]] for name in factors]
    for name, labels in zip(factors, shown, strict=True):
        if labels != shown[0]:
            raise ModelError(
                f"{kind}({', '.join(factors)}) compares levels, so its factors need the same ones "
                f"in the same order; {factors[0]!r} has {', '.join(shown[0])} and {name!r} has "
                f"{', '.join(labels)}."
            )
    return shown[0]


def _indicators(which: Index, n: int) -> csc_array:
    """A column for each of 0 .. n - 1 that is 1 in the rows that bear it; -1 is in none."""
    rows = np.flatnonzero(which >= 0)
    return csc_array((np.ones(rows.size), (rows, which[rows])), shape=(which.size, n))


def _product(one: csc_array, other: csc_array) -> csc_array:
    """Each column of one times each of the other, the latter fastest."""
    columns = [other.multiply(one[:, [j]]) for j in range(one.shape[1])]
    return csc_array(hstack([csc_array((one.shape[0], 0)), *columns], format="csc"))
