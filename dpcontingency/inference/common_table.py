"""Fits of models that name different factors, as fits to one table: so that they can be compared.

A model is fitted to the margin of the factors that it names, and likelihoods of different tables
are not comparable. The table of several models is the margin of all their factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpcontingency.errors import ModelError
from dpcontingency.inference.cells import AnyRelease, margin_of
from dpcontingency.inference.families import in_a_row

DIFFERENT = (
    "The models were fitted to different releases, whose likelihoods cannot be compared. Fit all "
    "of them to one release; of margins that are too many to be used together, to one "
    "release.restrict(margins)."
)


def common_table(results: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """The fits as fits to one table, and a note of those that were made anew for it.

    Parameters
    ----------
    results : sequence of LogLinearResults
        Fits whose models name the same factors or different ones.

    Returns
    -------
    list of LogLinearResults
        In their order. Where all were fitted to tables of the same factors they are the fits
        themselves. Else those to other tables than the margin of all their factors are fitted
        anew to it, each by its own method; a factor that a model leaves out has equally likely
        levels there.
    list of str
        The note, if there is one.

    Raises
    ------
    ModelError
        If the fits are of different releases, or none knows the release of all their factors.
    """
    factors = [set(result.model.release.domain.names) for result in results]
    union = set[str]().union(*factors)
    if all(names == union for names in factors):
        return list(results), []
    table = _table_of(union, [result.model for result in results])
    fits = [
        result if names == union else _fitted_to(table, result)
        for result, names in zip(results, factors, strict=True)
    ]
    anew = [r.generating_class for r, names in zip(results, factors, strict=True) if names != union]
    note = (
        f"Compared on {' x '.join(table.domain.names)}, which has the factors of every model. "
        f"Fitted anew to it, with equally likely levels of the factors that they leave out: "
        f"{', '.join(anew)}."
    )
    return fits, [note]


def _table_of(factors: set[str], models: Sequence[Any]) -> AnyRelease:
    """The margin of some factors, of which the tables of all models are margins."""
    fitted = [m.release for m in models if set(m.release.domain.names) == factors]
    sources = [m.source for m in models if set(m.source.domain.names) >= factors]
    for source in (*fitted, *sources):
        table = margin_of(source, tuple(filter(factors.__contains__, source.domain.names)))
        if all(any(_is_part(of, m) for of in (source, table)) for m in models):
            return table
    if sources:
        raise ModelError(DIFFERENT)
    raise ModelError(
        f"The models name {in_a_row(sorted(factors))} between them, and none of these fits knows a "
        "release of all of them: a fit read from a file knows the margin alone that it was fitted "
        "to. Fit one of the models anew, to the release itself."
    )


def _is_part(release: AnyRelease, model: Any) -> bool:
    """Whether a model was fitted to a release or a margin of it."""
    if not difference(release, model.source):
        return True
    names = model.release.domain.names
    if not set(names) <= set(release.domain.names):
        return False
    return not difference(margin_of(release, names), model.release)


def _fitted_to(table: AnyRelease, result: Any) -> Any:
    """The fit of a model to a larger table, by the same method."""
    model = result.model
    made = type(model)(
        table,
        model.generators,
        coding=model.coding,
        special_terms=model.special_terms,
        offset=model.offset,
        left_out="uniform",
    )
    return made.fit(method=result.method, penalty=result.penalty, warn_convergence=False)


def difference(one: AnyRelease, other: AnyRelease) -> str:
    """Why fits to two releases share no likelihood; empty for one table, one law, one totals."""
    if one is other:
        return ""
    if not one.says_the_same_as(other):
        return DIFFERENT
    totals: list[Any] = [one.totals, other.totals]
    public = totals[0] is None, totals[1] is None
    if one.strata != other.strata or public[0] != public[1] or not np.array_equal(*totals):
        return (
            "The models were fitted under different sampling schemes: the public totals or the "
            "strata differ. Fit all of them to one release."
        )
    return ""
