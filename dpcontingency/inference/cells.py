"""Which likelihood the cells of a release have: each kind of release brings its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any, TypeAlias

import numpy as np

from dpcontingency.errors import ModelError
from dpcontingency.inference.formula import Generators
from dpcontingency.inference.interactions import InteractionLikelihood
from dpcontingency.inference.likelihood import NoisyTableLikelihood
from dpcontingency.inference.margin_space import fits_in_memory
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.noise import stratum_labels
from dpcontingency.release.release import Release

AnyRelease: TypeAlias = Release | MarginRelease
Likelihood: TypeAlias = NoisyTableLikelihood | InteractionLikelihood


def release_from_dict(content: Mapping[str, Any]) -> AnyRelease:
    """The release that a `to_dict` wrote, of either kind."""
    kind = MarginRelease if "plan" in content else Release
    return kind.from_dict(content)


@singledispatch
def margin_of(release: AnyRelease, names: Sequence[str]) -> AnyRelease:
    """All that a release says of some factors and of no others, in the order given.

    Raises
    ------
    PrivacyError
        If released margins say nothing of any of them.
    ReleaseError
        If the law of the margin's noise has no simple form.
    """
    return release.margin(*names)


@margin_of.register
def _margin_of_margins(release: MarginRelease, names: Sequence[str]) -> AnyRelease:
    return release.collapse(*names)


@singledispatch
def part_for(
    release: AnyRelease, generators: Generators, names: Sequence[str] | None = None
) -> AnyRelease:
    """The part of a release that a model with these generators is fitted to.

    It is the margin of some factors, all by default; of released margins that are too large to be
    used as a whole, the margins of the generators.

    Raises
    ------
    ModelError
        If the release says nothing of these margins.
    """
    return release if names is None else margin_of(release, names)


@singledispatch
def likelihood_of(release: object) -> Likelihood:
    """The likelihood of the log rates of a release's joint table.

    Parameters
    ----------
    release : Release or MarginRelease
        What is known of it.

    Raises
    ------
    ModelError
        If it is no release, or too large.
    """
    raise ModelError(
        f"A log-linear model is fitted to a Release or a MarginRelease; got "
        f"{type(release).__name__}. A noisy table made elsewhere enters by "
        "Release.from_noisy_table."
    )


@likelihood_of.register
def _of_table(release: Release) -> Likelihood:
    given = release.conditioned()
    strata = tuple(release.domain.axis(name) for name in release.strata)
    noisy, variances = given.noisy.ravel(), given.noise.variances.ravel()
    if given.totals is None:
        return NoisyTableLikelihood(noisy, variances).resolved()
    labels = stratum_labels(given.domain.shape, strata)
    totals = np.ravel(given.totals).astype(np.float64)
    return NoisyTableLikelihood(noisy, variances, strata=labels, totals=totals).resolved()


@likelihood_of.register
def _of_margins(release: MarginRelease) -> Likelihood:
    return InteractionLikelihood(release)


@part_for.register
def _part_of_margins(
    release: MarginRelease, generators: Generators, names: Sequence[str] | None = None
) -> AnyRelease:
    for generator in generators:
        if not any(set(generator) <= set(margin) for margin in release.margins):
            known = "".join("[" + " ".join(margin) + "]" for margin in release.margins[:8])
            raise ModelError(
                f"The margin of {', '.join(generator)} was not released, so no model with it can "
                f"be fitted. Released: {known}{'...' if len(release.margins) > 8 else ''}."
            )
    if names is not None:
        release = release.collapse(*names)
    if fits_in_memory(release) or not any(generators):
        return release
    return release.restrict(generators)
