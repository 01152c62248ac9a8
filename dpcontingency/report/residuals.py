"""What plots of cells draw: the released table, and noise-aware residuals that shade it."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpcontingency.errors import ModelError, ReleaseError
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release

Array = npt.NDArray[np.float64]
Released: TypeAlias = Release | MarginRelease

MAX_FACTORS = 4


def source_of(source: object, plot: str) -> tuple[Released, LogLinearResults | None]:
    """The release to draw, and the fit where there is one.

    Parameters
    ----------
    source : Release, MarginRelease or LogLinearResults
        What a plot was given.
    plot : str
        Its name in the message, such as "A mosaic plot".

    Raises
    ------
    ModelError
        If it is none of these.
    """
    if isinstance(source, LogLinearResults):
        return source.model.release, source
    if isinstance(source, Release | MarginRelease):
        return source, None
    raise ModelError(
        f"{plot} takes a Release or the results of a fit; got {type(source).__name__}. A table of "
        "your own enters by Release.exact or Release.from_noisy_table."
    )


def shading(source: Released | LogLinearResults) -> tuple[Released, Array | None]:
    """The release that a mosaic draws and the residuals that shade it, None where there are none.

    See `mosaic`; raises as it does.
    """
    release, results = source_of(source, "A mosaic plot")
    names = release.domain.names
    if isinstance(release, MarginRelease) and not release.is_whole:
        first = ", ".join(map(repr, release.margins[0]))
        raise ModelError(
            f"A mosaic plot draws a table that was released, and the joint table of "
            f"{', '.join(names[:8])} was not: take a margin that was, such as "
            f"release.margin({first})."
        )
    if len(names) > MAX_FACTORS:
        raise ModelError(
            f"A mosaic plot shows up to {MAX_FACTORS} factors and this table has {len(names)}: "
            f"take a margin, such as release.margin({', '.join(map(repr, names[:3]))})."
        )
    if results is None:
        results = independence(release)
    return release, None if results is None else cell_residuals(results)


def independence(release: Released) -> LogLinearResults | None:
    """The fit of mutual independence; None where nothing can be fitted.

    So it is where no cell is positive, and where no model here knows the law of the noise.
    """
    if not (release.noisy > 0).any():
        return None
    try:
        model = LogLinearModel(release, [(name,) for name in release.domain.names])
    except (ModelError, ReleaseError):
        return None
    return model.fit(warn_convergence=False)


def cell_residuals(results: LogLinearResults) -> Array:
    """Noise-aware Pearson residuals in the shape of the table, of a release of margins too."""
    release = results.model.release
    if isinstance(release, MarginRelease):
        return pearson(release.values, fitted_means(results), noise_variances(release))
    return results.resid_pearson.to_numpy().reshape(release.domain.shape)


def fitted_means(results: LogLinearResults) -> Array:
    """Fitted cell means in the shape of the table."""
    shape = results.model.release.domain.shape
    return np.asarray(results.fittedvalues, dtype=np.float64).reshape(shape)


def noise_variances(release: Released) -> Array:
    """The noise variance in each cell, as `LogLinearResults.resid_pearson` takes it.

    Of a table with conditioned noise that of the independent noise on the cell (METHODS 2.3).
    """
    if isinstance(release, MarginRelease):
        return np.asarray(release.noise_sd**2)
    return np.asarray(release.noise.variances)


def pearson(noisy: Array, fitted: Array, variances: Array) -> Array:
    """(noisy - fitted) / sqrt(fitted + noise variance), and 0 in cells that do not vary."""
    spread = np.sqrt(fitted + variances)
    return np.divide(noisy - fitted, spread, out=np.zeros_like(spread), where=spread > 0)
