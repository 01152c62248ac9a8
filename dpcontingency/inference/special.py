"""The special terms of a model joined to its hierarchical design.

Scores are shifted and scaled for the computation, so that its accuracy and its thresholds do not
depend on their origin and unit; coefficients are reported for the scores as they were given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, hstack

from dpcontingency.domain import Domain
from dpcontingency.inference.columns import MarginColumns
from dpcontingency.inference.design import Design, HierarchicalDesign
from dpcontingency.inference.existence import Span, independent_columns
from dpcontingency.inference.terms import Scaling, SpecialTerm, standard_scaling, term_columns
from dpcontingency.release.noise import stratum_labels

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.intp]


class ExtendedDesign(Design):
    """The columns of a hierarchical design, then those of special terms.

    A row of X' D X that belongs to a special column z is X' (d z): O(p).

    Parameters
    ----------
    hierarchical : HierarchicalDesign
        The first columns.
    extra : MarginColumns
        The others, on the same table.
    """

    extra: MarginColumns

    def __init__(self, hierarchical: HierarchicalDesign, extra: MarginColumns) -> None:
        self.hierarchical, self.extra = hierarchical, extra
        self.shape, self.strata = hierarchical.shape, hierarchical.strata
        self.codes = hierarchical.codes
        self._first = hierarchical.n_columns

    @property
    def n_columns(self) -> int:
        """The number of columns of X."""
        return self._first + self.extra.n_columns

    def keep(self, columns: Mask) -> ExtendedDesign:
        """The same design with some columns only."""
        first, rest = columns[: self._first], columns[self._first :]
        return ExtendedDesign(self.hierarchical.keep(first), self.extra.keep(rest))

    def matrix(self) -> csr_array:
        """X itself, sparse. Only linear programs need it."""
        return csr_array(hstack([self.hierarchical.matrix(), self.extra.matrix()], format="csr"))

    def dot(self, beta: Array) -> Array:
        """X b, one number a cell (flat)."""
        return self.hierarchical.dot(beta[: self._first]) + self.extra.dot(beta[self._first :])

    def tdot(self, cells: Array) -> Array:
        """X' w for one number a cell (flat)."""
        return np.concatenate([self.hierarchical.tdot(cells), self.extra.tdot(cells)])

    def gram(self, weights: Array) -> Array:
        """X' diag(w) X."""
        out = np.empty((self.n_columns, self.n_columns))
        out[: self._first, : self._first] = self.hierarchical.gram(weights)
        for j in range(self.extra.n_columns):
            row = self.tdot(weights * self.extra.column(j))
            out[self._first + j] = row
            out[: self._first, self._first + j] = row[: self._first]
        return out

    def by_stratum(self, cells: Array) -> Array:
        """X' w inside each stratum: one row a stratum."""
        if not self.strata:
            return self.tdot(cells)[None, :]
        first = self.hierarchical.by_stratum(cells)
        labels = stratum_labels(self.shape, self.strata)
        return np.hstack([first, self.extra.sums(cells, labels, len(first))])


class Column(NamedTuple):
    """A column of a model: its name, the term that it is of, and the factors in this."""

    name: str
    term: str
    factors: tuple[str, ...]


class Extension(NamedTuple):
    """What special terms make of a design.

    Attributes
    ----------
    design : ExtendedDesign
        The independent columns, scores standardised.
    recode : ndarray, shape (q, q), or None
        Takes coefficients of those to coefficients of the columns as they were asked for.
    units : ndarray, shape (q,)
        What each of the latter is multiplied by to be an effect on the log scale.
    columns : list of Column
        All special columns, independent or not.
    kept : ndarray of bool
        Which columns are independent, the hierarchical ones first.
    idle : list of SpecialTerm
        The terms none of whose columns are.
    """

    design: ExtendedDesign
    recode: Array | None
    units: Array
    columns: list[Column]
    kept: Mask
    idle: list[SpecialTerm]


def extend(
    margins: HierarchicalDesign,
    terms: Sequence[SpecialTerm],
    domain: Domain,
    possible: Mask,
    strata: Labels | None,
) -> Extension:
    """Join special terms to a hierarchical design.

    Parameters
    ----------
    margins : HierarchicalDesign
        The columns of the generating class.
    terms : sequence of SpecialTerm
        One or more.
    domain : Domain
        The factors, with their scores.
    possible : ndarray of bool, shape (p,)
        The possible cells.
    strata : ndarray of int, shape (p,), or None
        The stratum of each cell where totals are public.

    Raises
    ------
    ModelError
        If a factor lacks the scores or levels that a term needs.

    Notes
    -----
    Centred scores make the same model where lower products of the scores are in it, as they are
    beside main effects. Where they are not, scores are scaled only.
    """
    asked = _design(margins, terms, domain, {})
    for centred in (True, False):
        scaling = standard_scaling(domain, terms, centred)
        inner = _design(margins, terms, domain, scaling)
        kept = independent_columns(inner, possible, strata)
        inner = inner.keep(kept)
        recode = _recode(inner, asked.keep(kept), possible, strata) if scaling else None
        if recode is not None or not scaling:
            break
    columns, units, idle = [], [1.0] * margins.n_columns, []
    for term in terms:
        start = len(units)
        for name, part in term_columns(term, domain, {}).labels():
            factors = tuple(factor for factor in domain.names if factor in part.involved)
            columns.append(Column(name, part.text, factors))
            scored = (one.factors[0] for one in part.named if one.kind == "score")
            units.append(math.prod(scaling[factor][1] for factor in scored))
        idle += [] if kept[start : len(units)].any() else [term]
    return Extension(inner, recode, np.array(units)[kept], columns, kept, idle)


def _design(
    margins: HierarchicalDesign, terms: Sequence[SpecialTerm], domain: Domain, scaling: Scaling
) -> ExtendedDesign:
    blocks = [term_columns(term, domain, scaling) for term in terms]
    extra = MarginColumns(domain.shape, [(block.axes, block.matrix) for block in blocks])
    return ExtendedDesign(margins, extra)


def _recode(
    inner: ExtendedDesign, asked: ExtendedDesign, possible: Mask, strata: Labels | None
) -> Array | None:
    """Coefficients of ``asked`` from those of ``inner``, if the two make the same model."""
    span = Span(inner, possible, strata)
    out = np.eye(inner.n_columns)
    first = inner.n_columns - inner.extra.n_columns
    for j in range(inner.extra.n_columns):
        out[:, first + j], inside = span.coordinates(asked.extra.column(j))
        if not inside:
            return None
    try:
        inverse = np.linalg.inv(out)
    except np.linalg.LinAlgError:
        return None
    same = np.allclose(inverse @ out, np.eye(len(out)), rtol=0, atol=1e-6)
    return np.asarray(inverse) if same else None
