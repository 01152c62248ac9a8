"""The parameters of a model: their names, their columns, and those that are left out.

Scores are shifted and scaled for the computation, so that its accuracy and its thresholds do not
depend on their origin and unit; coefficients are reported for the scores as they were given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from dpcontingency.domain import Domain, label_text
from dpcontingency.errors import ModelError
from dpcontingency.inference.columns import MarginColumns
from dpcontingency.inference.design import (
    Design,
    ExtendedDesign,
    HierarchicalDesign,
    sum_coding,
)
from dpcontingency.inference.existence import Span, independent_columns
from dpcontingency.inference.terms import Scaling, SpecialTerm, standard_scaling, term_columns

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.intp]

LARGEST_UNIT = 1e50  # of scores: variances of products of three of them are still floats


class Column(NamedTuple):
    """A column of a model: its name, the term that it is of, and the factors in this."""

    name: str
    term: str
    factors: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Parameters:
    """The free parameters of a model.

    Attributes
    ----------
    design : Design
        Independent columns, in treatment coding and with standardised scores.
    columns : tuple of Column
        What is reported, in the order of the parameters.
    recode : ndarray, shape (q, q), or None
        Takes coefficients of the design to those that are reported, where they differ.
    units : ndarray, shape (q,)
        What each of the latter is multiplied by to be an effect on the log scale.
    aliased : tuple of str
        Columns left out, because others can stand for them on the possible cells.
    idle : tuple of SpecialTerm
        The special terms all of whose columns are left out.
    """

    design: Design
    columns: tuple[Column, ...]
    recode: Array | None
    units: Array
    aliased: tuple[str, ...] = ()
    idle: tuple[SpecialTerm, ...] = ()


def hierarchical_parameters(
    margins: Design,
    terms: Sequence[tuple[int, ...]],
    coding: str,
    domain: Domain,
    possible: Mask,
    strata: Labels | None,
) -> Parameters:
    """The parameters of a generating class, whose terms are sets of axes.

    See `extended_parameters` for the other arguments.

    Raises
    ------
    ModelError
        If structural zeros leave some without meaning and the coding is not ``"treatment"``.
    """
    columns = [_margin_column(code, coding, domain) for code in margins.codes]
    recode = None if coding == "treatment" else sum_coding(domain.shape, terms)
    kept = np.ones(margins.n_columns, dtype=np.bool_)
    if domain.structural_zeros:
        kept = independent_columns(margins, possible, strata)
    if recode is not None and not kept.all():
        raise ModelError(
            "Structural zeros leave some coefficients of this model without meaning, which "
            "sum coding cannot show. Use coding='treatment'."
        )
    design = margins if kept.all() else margins.keep(kept)
    return Parameters(design, *_split(columns, kept, recode, np.ones(kept.size)))


def extended_parameters(
    margins: HierarchicalDesign,
    terms: Sequence[SpecialTerm],
    domain: Domain,
    possible: Mask,
    strata: Labels | None,
) -> Parameters:
    """The parameters of a generating class and special terms, in treatment coding.

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
        If a factor lacks the scores or levels that a term needs, or its scores are too large or
        too small for floats.

    Notes
    -----
    Centred scores make the same model where lower products of the scores are in it, as they are
    beside main effects. Where they are not, scores are scaled only.
    """
    for centred in (True, False):
        scaling = standard_scaling(domain, terms, centred)
        _check_size(scaling)
        asked = _design(
            margins, terms, domain, {name: (0.0, u) for name, (_, u) in scaling.items()}
        )
        inner = _design(margins, terms, domain, scaling)
        kept = independent_columns(inner, possible, strata)
        inner = inner.keep(kept)
        recode = _recode(inner, asked.keep(kept), possible, strata) if scaling else None
        if recode is not None or not scaling:
            break
    columns = [_margin_column(code, "treatment", domain) for code in margins.codes]
    units, idle = [1.0] * margins.n_columns, []
    for term in terms:
        start = len(units)
        for name, part in term_columns(term, domain, {}).labels():
            factors = tuple(factor for factor in domain.names if factor in part.involved)
            columns.append(Column(name, part.text, factors))
            scored = (one.factors[0] for one in part.named if one.kind == "score")
            units.append(math.prod(scaling[factor][1] for factor in scored))
        idle += [] if kept[start : len(units)].any() else [term]
    if recode is not None:
        recode = recode / np.array(units)[kept][:, None]
    return Parameters(inner, *_split(columns, kept, recode, np.array(units)), tuple(idle))


def _check_size(scaling: Scaling) -> None:
    for name, (_, unit) in scaling.items():
        if not 1 / LARGEST_UNIT <= unit <= LARGEST_UNIT:
            raise ModelError(
                f"The scores of {name!r} are of the size {unit:.0e}, whose square a float cannot "
                "hold in products; give the domain scores in another unit."
            )


def _split(
    columns: Sequence[Column], kept: Mask, recode: Array | None, units: Array
) -> tuple[tuple[Column, ...], Array | None, Array, tuple[str, ...]]:
    """The columns that stay, with what belongs to them, and the names of the others."""
    pairs = list(zip(columns, kept, strict=True))
    stay = tuple(column for column, stays in pairs if stays)
    return stay, recode, units[kept], tuple(column.name for column, stays in pairs if not stays)


def _margin_column(code: npt.NDArray[np.intp], coding: str, domain: Domain) -> Column:
    """The column of a code, with the name that patsy gives it.

    ``A[T.b]:C[T.x]``, or ``A[S.a]`` in sum coding.
    """
    letter, shift = ("T", 0) if coding == "treatment" else ("S", -1)
    involved = {n: k + shift for n, k in zip(domain.names, code, strict=True) if k > 0}
    if not involved:
        return Column("Intercept", "Intercept", ())
    parts = [f"{n}[{letter}.{label_text(domain.levels[n][k])}]" for n, k in involved.items()]
    return Column(":".join(parts), ":".join(involved), tuple(involved))


def _design(
    margins: HierarchicalDesign, terms: Sequence[SpecialTerm], domain: Domain, scaling: Scaling
) -> ExtendedDesign:
    blocks = [term_columns(term, domain, scaling) for term in terms]
    extra = MarginColumns(domain.shape, [(block.axes, csr_array(block.matrix)) for block in blocks])
    return ExtendedDesign(margins, extra)


def _recode(
    inner: ExtendedDesign, asked: ExtendedDesign, possible: Mask, strata: Labels | None
) -> Array | None:
    """Coefficients of ``asked`` from those of ``inner``, if the two make the same model.

    Both with scores in the units of the computation, so that no column is large beside another.
    """
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
