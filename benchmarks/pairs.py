"""Parts of `validity.py`: tests of nested models, on released margins and of single terms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from dpcontingency.domain import Domain
from dpcontingency.inference.bootstrap import draw_tables
from dpcontingency.inference.calibration import compared, faint
from dpcontingency.inference.comparison import without
from dpcontingency.inference.gaussian import nested_score_statistic
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.margin_replicates import replicates_of
from dpcontingency.inference.statistic import means_to_draw_from
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.publish_margins import simulate_margins
from dpcontingency.release.release import Release

Floats = np.ndarray
Generator = np.random.Generator
Generators = Sequence[Sequence[str]]

# Two factors in question, beside others, in a release of all two-way margins.
MARGINS = {
    "3x4": ((0.2, 0.3, 0.5), (0.1, 0.2, 0.3, 0.4), (2, 3)),
    "5x5": ((0.1, 0.15, 0.2, 0.25, 0.3), (0.1, 0.15, 0.2, 0.25, 0.3), (3,)),
}
MARGIN_SETTINGS = tuple(
    (name, n, mu)
    for name in MARGINS
    for n, mu in ((200, 0.3), (200, 1.0), (500, 0.1), (500, 0.3), (2000, 0.1), (2000, 1.0))
)
TERM_SETTINGS = (
    *(("2^6", term, 1841, mu) for mu in (0.1, 0.3, 1.0) for term in ("AB", "AF", "BC")),
    *(("2^5, a rare level", term, n, mu)
      for term in ("AB", "AE") for n, mu in ((2000, 0.1), (500, 1.0))),
    *((table, "AB", n, mu) for table in ("3x4x3", "3x4x6")
      for n, mu in ((200, 1.0), (1000, 0.1), (1000, 0.3), (5000, 0.1))),
)  # fmt: skip


def margins(setting: tuple[str, int, float], replicates: int = 4000) -> dict[str, object]:
    """Size and power of the default test of independence of two factors in released margins.

    The bootstrap by one replicate a release, as in `validity.rejections`. The alternative shifts
    the cells along a product of scores, so far that the noncentrality is 5 + 2 sqrt(df).
    """
    name, n, mu = setting
    rows, columns, others = MARGINS[name]
    rng = np.random.default_rng([list(MARGINS).index(name), n, round(1000 * mu)])
    shape = (len(rows), len(columns), *others)
    domain = Domain({f: list(range(k)) for f, k in zip("RSTU", shape, strict=False)})
    p = np.multiply.outer(np.outer(rows, columns), np.full(others, 1 / np.prod(others)))
    counts = rng.multinomial(n, p.ravel()).reshape(shape)
    whole = simulate_margins(counts, domain, list(combinations(domain.names, 2)), GDP(mu), rng)
    model = LogLinearModel(whole.margin("R", "S"), [("R",), ("S",)])
    null = n * np.outer(rows, columns).ravel()
    ratio, fitted = ratios(model, draw_tables(model.cells, null, replicates, rng), null)
    again = [draw_tables(model.cells, means_to_draw_from(model, m), 1, rng) for m in fitted]
    level = float(np.quantile(ratios(model, np.vstack(again), null)[0], 0.95))
    chi2 = float(stats.chi2.ppf(0.95, model.df_resid))
    shifted = draw_tables(model.cells, alternative(model, null), replicates, rng)
    power, seen = ratios(model, shifted, null)
    kept, kept_there = (calibrated(model, means) for means in (fitted, seen))
    return {
        "table": name,
        "factors": len(shape),
        "n": n,
        "mu": mu,
        "LR, chi-square": np.mean(ratio > chi2),
        "chi-square is taken": np.mean(kept),
        "default test": np.mean(ratio > np.where(kept, chi2, level)),
        "power, chi-square": np.mean(power > chi2),
        "power, default test": np.mean(power > np.where(kept_there, chi2, level)),
        "replicates": replicates,
    }


def terms(setting: tuple[str, str, int, float], replicates: int = 1000) -> dict[str, object]:
    """The size of the test of one two-way term among all two-way terms, where the null holds."""
    name, term, n, mu = setting
    probabilities = TERM_TABLES[name]()
    names = "ABCDEF"[: probabilities.ndim]
    domain = Domain({f: list(range(k)) for f, k in zip(names, probabilities.shape, strict=True)})
    larger = tuple(combinations(names, 2))
    smaller = without(larger, (term[0], term[1]))
    truth = LogLinearModel(Release.exact(1e5 * probabilities, domain), smaller).fit()
    null = n * truth.fittedvalues.to_numpy() / truth.fittedvalues.sum()
    rng = np.random.default_rng([list(TERM_TABLES).index(name), ord(term[1]), n, round(1000 * mu)])
    counts = rng.multinomial(n, null / n).reshape(domain.shape)
    release = simulate_release(counts, domain, GDP(mu), rng)
    model, bigger = LogLinearModel(release, smaller), LogLinearModel(release, larger)
    noisy = draw_tables(model.cells, null, replicates, rng)
    tables = replicates_of(model.cells, noisy)
    fits = tables.fit(model._design, model._offset, model.classical_fit(null))
    top = tables.fit(bigger._design, bigger._offset, bigger.classical_fit(null))
    ratio = 2 * np.maximum(top.loglik - fits.loglik, 0)
    chi2 = stats.chi2.ppf(0.95, model.df_resid - bigger.df_resid)
    kept = calibrated(model, fits.fitted, bigger)
    cells = model.cells
    score = [
        nested_score_statistic(y - m, m, cells.variances, cells.strata, bigger._design)
        for y, m in zip(noisy[:1000], fits.fitted[:1000], strict=True)
    ]
    return {
        "table": name,
        "term": term,
        "n": n,
        "mu": mu,
        "LR, chi-square": np.mean(ratio > chi2),
        "chi-square is taken": np.mean(kept),
        "size there": np.mean(ratio[kept] > chi2) if kept.sum() >= 100 else np.nan,
        "score, chi-square": np.mean(np.array(score) > chi2),
        "replicates": replicates,
    }


def ratios(model: LogLinearModel, noisy: Floats, start: Floats) -> tuple[Floats, Floats]:
    """Likelihood ratios against the saturated model, and fitted means, of many tables."""
    out = []
    for some in np.array_split(noisy, max(1, len(noisy) // 250)):
        tables = replicates_of(model.cells, some)
        fits = tables.fit(model._design, model._offset, model.classical_fit(start))
        out.append((2 * np.maximum(tables.saturated().loglik - fits.loglik, 0), fits.fitted))
    return np.concatenate([ratio for ratio, _ in out]), np.concatenate([fit for _, fit in out])


def calibrated(
    model: LogLinearModel, fitted: Floats, larger: LogLinearModel | None = None
) -> np.ndarray:
    """Whether the rule takes chi-square, for each row of fitted means of the null."""
    return np.array([not faint(*compared(model, means, larger)) for means in fitted])


def alternative(model: LogLinearModel, null: Floats) -> Floats:
    """The null shifted along a product of scores to a noncentrality of 5 + 2 sqrt(df)."""
    cells, shape = model.cells, model.release.domain.shape
    scores = [np.arange(k) - (k - 1) / 2 for k in shape]
    table = null.reshape(shape)
    rows, columns = table.sum(axis=1) / table.sum(), table.sum(axis=0) / table.sum()
    shift = table * np.outer(scores[0] - scores[0] @ rows, scores[1] - scores[1] @ columns)
    seen = cells.design.tdot(shift.ravel())
    size = float(seen @ np.linalg.solve(cells.spread(null) + cells.covariance, seen))
    far = np.sqrt((5 + 2 * np.sqrt(model.df_resid)) / size)
    nearest = float((null / np.maximum(-shift.ravel(), 1e-300)).min())
    return null + min(far, 0.95 * nearest) * shift.ravel()


def _rare() -> Floats:
    levels = ((0.5, 0.5), (0.4, 0.6), (0.3, 0.7), (0.5, 0.5), (0.02, 0.98))
    return np.einsum("a,b,c,d,e->abcde", *levels)


def _conditional(k: int) -> Floats:
    """A and B independent given C of k levels."""
    rng = np.random.default_rng(k)
    a, b = rng.dirichlet(np.full(3, 3.0), k).T, rng.dirichlet(np.full(4, 3.0), k).T
    return np.einsum("ik,jk,k->ijk", a, b, rng.dirichlet(np.full(k, 3.0)))


def _czech() -> Floats:
    frame = pd.read_csv("data/czech_autoworkers.csv")
    *factors, count = frame.columns
    shape = tuple(frame[factor].nunique() for factor in factors)
    table = frame.sort_values(factors)[count].to_numpy(float).reshape(shape)
    return table / table.sum()


TERM_TABLES = {
    "2^6": _czech,
    "2^5, a rare level": _rare,
    "3x4x3": lambda: _conditional(3),
    "3x4x6": lambda: _conditional(6),
}
NOTES = {
    "margins": "Rejections of a true independence of two factors at 5 %, in a release of all "
    "two-way margins of 3 or 4 factors, and the power where the noncentrality is 5 + 2 sqrt(df) "
    "(less where cells would fall below 0). `default test`: independence_test as it is called, "
    "which takes chi-square where the rule lets it and the bootstrap elsewhere, one replicate a "
    "release. Monte-Carlo SE 0.003 of a size (of the bootstrap 0.005), 0.008 of a power.",
    "terms": "Rejections of a true absence of one two-way term, tested among all two-way terms, "
    "at 5 %: `2^6` is the Czech table, whose other terms are as fitted. `chi-square is taken`: "
    "where the rule of `calibration` lets it; elsewhere drop1, compare and the like give no "
    "p-value but by bootstrap. Monte-Carlo SE 0.007 of a size over all replicates.",
}
WORK = {"margins": (margins, MARGIN_SETTINGS), "terms": (terms, TERM_SETTINGS)}
