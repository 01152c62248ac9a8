"""Several releases of independent samples as one table with a factor for the sample."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from dpcontingency.domain import Domain
from dpcontingency.errors import ReleaseError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.contents import Origin
from dpcontingency.release.noise import GaussianNoise
from dpcontingency.release.release import Release

SAMPLE = "sample"


def combine_samples(releases: Sequence[Release]) -> tuple[Release, tuple[str]]:
    """Stack releases of one domain, each of its own sample and with its own noise.

    Parameters
    ----------
    releases : sequence of Release
        Two or more, of disjoint sets of records; all with a public total, or none.

    Returns
    -------
    Release
        With a first factor for the sample, whose levels are 1, 2, ...; its totals are the strata
        where they are public. Its loss is the largest of the samples', each record being in one.
    tuple of one str
        The name of that factor.

    Raises
    ------
    ReleaseError
        If there are fewer than two, their domains differ, they have strata of their own, or some
        totals are public and some not.

    Examples
    --------
    >>> domain = Domain({"A": ["a", "b"]})
    >>> one = Release.from_noisy_table([9.0, 11.0], domain, sigma=1.0, n_total=20)
    >>> two = Release.from_noisy_table([30.5, 9.5], domain, sigma=3.0, n_total=40)
    >>> combined, name = combine_samples([one, two])
    >>> name, combined.strata, combined.noise.variances.tolist()
    (('sample',), ('sample',), [[1.0, 1.0], [9.0, 9.0]])
    """
    releases = _checked(releases)
    domain = releases[0].domain
    name = SAMPLE
    while name in domain.names:
        name += "_"
    numbers = [str(k + 1) for k in range(len(releases))]
    stacked = Domain(
        {name: numbers, **domain.levels},
        ordered=domain.ordered,
        scores=domain.scores,
        structural_zeros=domain.structural_zeros,
    )
    public = releases[0].totals is not None
    given = [release.conditioned() for release in releases]
    relations = {release.neighbours for release in releases}
    relation = relations.pop() if len(relations) == 1 else None
    said = [release.statement()["Privacy"] for release in releases]
    combined = Release(
        domain=stacked,
        noisy=np.stack([release.noisy for release in given]),
        noise=GaussianNoise(
            np.stack([release.noise.variances for release in given]), (0,) if public else None
        ),
        estimate=np.stack([release.estimate for release in releases]),
        sigma=max(release.sigma for release in releases),
        privacy=_loss(releases) if relation else None,
        neighbours=relation,
        strata=(name,) if public else (),
        totals=np.array([release.n_total for release in releases]) if public else None,
        mechanism=None,
        origin=_origin(releases),
        provenance={"samples": "; ".join(f"{k}: {text}" for k, text in enumerate(said, 1))},
    )
    return combined, (name,)


def _loss(releases: Sequence[Release]) -> GDP | None:
    """The largest loss, where all are stated: a record is in one sample, and no other tells of it.

    Two neighbouring sets of all records differ in one sample, so the trade-off curve of all
    releases together is that of this sample's release.
    """
    losses = [release.privacy for release in releases if release.privacy is not None]
    return max(losses, key=lambda loss: loss.mu) if len(losses) == len(releases) else None


def _origin(releases: Sequence[Release]) -> Origin:
    if all(release.private for release in releases):
        return "third-party"
    return "exact" if all(release.noise.is_exact for release in releases) else "simulated"


def _checked(releases: Any) -> list[Release]:
    if isinstance(releases, str) or not isinstance(releases, Sequence):
        raise ReleaseError(
            f"Samples are a list of two Releases or more; got {type(releases).__name__}."
        )
    for release in releases:
        if not isinstance(release, Release):  # the noise of a margin of several is correlated
            raise ReleaseError(
                "Samples are Releases, each a table with independent noise on its cells; got a "
                f"{type(release).__name__}. Release the table of the response in each sample."
            )
    if len(releases) < 2:
        raise ReleaseError(f"Samples are two Releases or more; got {len(releases)}.")
    first = releases[0]
    for one, other in combinations(releases, 2):
        # Two samples may have the same counts; noise never falls twice in the same way.
        if one is other or (one.says_the_same_as(other) and not one.noise.is_exact):
            raise ReleaseError(
                "A release, or a copy of it, is given twice; samples are independent, so name each "
                "once."
            )
    for release in releases[1:]:
        if release.domain != first.domain:
            raise ReleaseError(
                "The samples have different domains: the same factors and levels, in one order, "
                "are needed to compare them."
            )
    if any(release.strata for release in releases):
        raise ReleaseError(
            "A sample with strata of its own cannot be combined with others. Test inside it, or "
            "release it without strata."
        )
    if len({release.totals is None for release in releases}) > 1:
        raise ReleaseError(
            "Some samples have a public total and some have not: use neighbours='replace-one' for "
            "all of them, or 'add-remove' for all."
        )
    return list(releases)
