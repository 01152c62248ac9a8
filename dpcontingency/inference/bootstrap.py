"""The parametric bootstrap of table and noise.

Each replicate draws counts from a fitted null model and noise from the law of the release, and
the statistic is computed anew, models refitted (METHODS 2.6).
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track

from dpcontingency._language import argument, phrase
from dpcontingency.errors import ModelError
from dpcontingency.inference.cells import Likelihood
from dpcontingency.inference.interactions import InteractionLikelihood
from dpcontingency.inference.likelihood import NoisyTableLikelihood

Array = npt.NDArray[np.float64]
T = TypeVar("T")

NUMBERS_AT_ONCE = 2_000_000  # in the largest array of a chunk of replicates
CHUNK = 250  # replicates at most, so that progress shows


@dataclass(frozen=True)
class Source:
    """Where a bootstrap gets its randomness.

    Attributes
    ----------
    rng : numpy.random.Generator
        The generator.
    seed : int
        What it was made from.
    """

    rng: np.random.Generator
    seed: int

    @classmethod
    def of(cls, rng: np.random.Generator | int | None) -> Source:
        """A new generator from a seed that is recorded: given, fresh, or drawn from a generator.

        A seed is drawn rather than the caller's generator used, whose state nothing could record:
        so that what was done can be written down and done again.

        Raises
        ------
        ModelError
            If it is neither a generator, a whole number >= 0, nor None.
        """
        cls.check(rng)
        if rng is None:
            rng = secrets.randbits(53)
        if isinstance(rng, np.random.Generator):
            rng = int(rng.integers(2**53))
        return cls(np.random.default_rng(int(rng)), int(rng))

    @staticmethod
    def check(rng: object) -> None:
        """Refuse what no seed can be had from; draws nothing."""
        if rng is None or isinstance(rng, np.random.Generator):
            return
        if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
            raise ModelError(
                f"{argument('rng')} is {phrase('a numpy Generator, or ', '')}a whole number of at "
                f"least 0{phrase(' to seed one', '')}; got {rng!r}."
            )


def replicate_statistics(
    cells: Likelihood,
    null: Array,
    statistic: Callable[[Array], Array],
    n_boot: int,
    rng: np.random.Generator,
    *,
    width: int,
) -> Array:
    """Statistics of tables drawn from a null, noise included, shape (n_boot,).

    Parameters
    ----------
    cells : NoisyTableLikelihood or InteractionLikelihood
        The release, for its sampling scheme and the law of its noise.
    null : ndarray, shape (p,)
        The cell means to draw from: multinomial where totals are public, else Poisson.
    statistic : callable
        From noisy tables, shape (b, p), or measured numbers, to statistics, shape (b,).
    n_boot : int
        Replicates.
    rng : numpy.random.Generator
        Consumed in the same order whatever the machine.
    width : int
        Numbers that the statistic keeps of one replicate, which bounds the replicates at once.
    """
    at_once = max(1, min(CHUNK, NUMBERS_AT_ONCE // max(width, 1)))
    sizes = [min(at_once, n_boot - done) for done in range(0, n_boot, at_once)]
    shown = track(
        sizes,
        "Bootstrap",
        console=Console(file=sys.stderr),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    return np.concatenate([statistic(draw_tables(cells, null, size, rng)) for size in shown])


@singledispatch
def draw_tables(cells: Any, null: Array, size: int, rng: np.random.Generator) -> Array:
    """What a release of counts with these means would say, one a row; for simulation, not private.

    Noisy tables, shape (size, p), or the measured numbers of released margins, shape (size, m).
    """
    raise TypeError(type(cells).__name__)


@draw_tables.register
def _noisy_tables(
    cells: NoisyTableLikelihood, null: Array, size: int, rng: np.random.Generator
) -> Array:
    noise = np.sqrt(cells.variances) * rng.standard_normal((size, null.size))
    strata, totals = cells.strata, cells.totals
    if strata is None or totals is None:
        return np.asarray(rng.poisson(null, size=(size, null.size)) + noise)
    counts = np.zeros((size, null.size))
    for stratum, total in enumerate(totals):
        inside = strata == stratum
        mass, v = null[inside], cells.variances[inside]
        if total > 0:
            counts[:, inside] = rng.multinomial(round(total), mass / mass.sum(), size=size)
        if v.any():  # the law of independent noise given that it adds up to 0
            noise[:, inside] -= np.outer(noise[:, inside].sum(axis=1), v / v.sum())
    return counts + noise


@draw_tables.register
def _noisy_interactions(
    cells: InteractionLikelihood, null: Array, size: int, rng: np.random.Generator
) -> Array:
    total = None if cells.totals is None else round(float(cells.totals[0]))
    root = np.linalg.cholesky(cells.covariance)
    noise = rng.standard_normal((size, len(root))) @ root.T
    counts = (cells.space.drawn(null, total, rng) for _ in range(size))
    return np.stack([cells.design.tdot(table) for table in counts]) + noise


def bootstrap_pvalue(observed: float, replicates: Array) -> float:
    """(1 + the replicates at least as large) / (replicates + 1).

    Examples
    --------
    >>> bootstrap_pvalue(3.0, np.array([1.0, 2.0, 3.0, 4.0]))
    0.6
    """
    # Refitting rounds: a tie counts against the observed statistic.
    ties = 1e-7 * max(1.0, abs(observed))
    return float((1 + np.sum(replicates >= observed - ties)) / (replicates.size + 1))
