"""The tables of a report, as text: every number is formatted here and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from dpcontingency.domain import label_text
from dpcontingency.errors import ReleaseError
from dpcontingency.inference.printing import number_text, pvalue_text
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.privacy.gdp import ceil_digits
from dpcontingency.release.release import Release
from dpcontingency.report.words import best_power, percent

MAX_ROWS = 400
DELTA = 1e-6


@dataclass(frozen=True)
class Table:
    """A table as printed: the first ``stubs`` columns name the row and the others are numbers."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    stubs: int
    cut: str = ""


def loss_table(release: Release) -> Table:
    """The privacy loss in each currency."""
    assert release.privacy is not None
    privacy = release.privacy
    rows = [
        ["mu (Gaussian differential privacy)", ceil_digits(privacy.mu)],
        [f"epsilon at delta = {DELTA:g}", ceil_digits(privacy.epsilon(DELTA))],
        ["rho (zero-concentrated)", ceil_digits(privacy.rho)],
        ["sigma, scale of the noise on a cell", f"{release.sigma:.5g}"],
        ["power of the best test with 5 % false alarms, at most", percent(best_power(release), 1)],
    ]
    return Table("The privacy loss, rounded up", ["Measure", "Value"], rows, 1)


def cells_table(release: Release) -> Table:
    """The released cells, up to `MAX_ROWS` of them."""
    domain = release.domain
    shrunken = not np.array_equal(release.estimate, release.noisy)
    digits = _digits(release)
    columns = [release.noisy, release.noise_sd] + ([release.estimate] if shrunken else [])
    rows = []
    for position, labels in enumerate(islice(domain.cells(), MAX_ROWS)):
        noisy, sd, *estimate = (float(values.flat[position]) for values in columns)
        numbers = [_fixed(noisy, digits), _spread(sd), *(_fixed(e, digits) for e in estimate)]
        rows.append([*map(label_text, labels), *numbers])
    cell = "Exact" if release.noise.is_exact else "Noisy"
    head = [*domain.names, cell, "Noise SD"] + (["Estimate"] if shrunken else [])
    cut = ""
    if domain.size > MAX_ROWS:
        cut = (
            f"The first {MAX_ROWS} of {domain.size:,} cells are shown. "
            "release.to_frame() gives all of them."
        )
    return Table("The released cells", head, rows, len(domain.names), cut)


def margins_table(release: Release) -> Table:
    """Each factor's margin, and how much of its variance is noise."""
    rows = []
    digits = _digits(release)
    for name in release.domain.names:
        try:
            margin = release.margin(name)
        except ReleaseError:
            continue
        total = release.n_total_estimate
        for level, noisy, sd in zip(
            release.domain.levels[name], margin.noisy, margin.noise_sd, strict=True
        ):
            sampling = 0.0 if name in release.strata else _sampling_sd(release, noisy, total)
            rows.append(
                [
                    name,
                    label_text(level),
                    _fixed(noisy, digits),
                    _spread(sd),
                    _spread(sampling),
                    percent(_share(sd, sampling)),
                ]
            )
    cell = "Exact" if release.noise.is_exact else "Noisy"
    head = ["Factor", "Level", cell, "Noise SD", "Sampling SD", "Noise's share of variance"]
    return Table("One-way margins", head, rows[:MAX_ROWS], 2)


def margins_refused(release: Release) -> list[str]:
    """Why the margin of a factor is not shown."""
    out = []
    for name in release.domain.names:
        try:
            release.margin(name)
        except ReleaseError as error:
            out.append(f"{name}: {error}")
    return out


def gof_table(fit: LogLinearResults) -> Table:
    """Goodness of fit of a model."""
    rows = [
        [str(name), _statistic(row["statistic"]), f"{row['df']:.0f}", _p(row)]
        for name, row in fit.gof().iterrows()
    ]
    return Table(
        "Goodness of fit, against the saturated model",
        ["Test", "Statistic", "Df", "P-value"],
        rows,
        1,
    )


def coefficients_table(fit: LogLinearResults) -> Table:
    """The coefficients, with both parts of their standard errors."""
    interval = fit.conf_int().to_numpy()
    columns = [fit.params, fit.bse_sampling, fit.bse_privacy, fit.bse, fit.tvalues, fit.pvalues]
    values = np.column_stack([column.to_numpy() for column in columns])
    shares = fit.privacy_share.to_numpy()
    rows = []
    for i, name in enumerate(fit.params.index[:MAX_ROWS]):
        estimate, _, _, total, z, p = values[i]
        if not math.isfinite(estimate):
            limit = "open" if math.isnan(estimate) else "−∞" if estimate < 0 else "∞"
            rows.append([name, limit, "not estimable", *[""] * 6])
            continue
        rows.append(
            [
                name,
                *(number_text(value, total) for value in values[i, :4]),
                f"{z:.3f}",
                pvalue_text(p),
                " to ".join(number_text(end, total, 3) for end in interval[i]),
                percent(shares[i]),
            ]
        )
    head = ["Coefficient", "Estimate", "Sampling SE", "Privacy SE", "Total SE", "z", "P-value",
            "95 % interval", "Privacy share"]  # fmt: skip
    cut = ""
    if len(fit.params) > MAX_ROWS:
        cut = (
            f"The first {MAX_ROWS} of {len(fit.params):,} coefficients are shown. "
            "result.params and result.bse hold all of them."
        )
    return Table("Coefficients", head, rows, 1, cut)


def comparison_table(models: Sequence[LogLinearResults]) -> Table:
    """One row a model."""
    rows = []
    for fit in models:
        lr = fit.gof().iloc[0]
        rows.append(
            [
                fit.generating_class,
                f"{fit.aic:.2f}",
                f"{fit.bic:.2f}",
                _statistic(lr["statistic"]),
                f"{lr['df']:.0f}",
                _p(lr),
            ]
        )
    head = ["Model", "AIC", "BIC", "LR against saturated", "Df", "P-value"]
    return Table("The models side by side", head, rows, 1)


# ------------------------------------------------------------------ small parts


def _sampling_sd(release: Release, cell: float, total: float) -> float:
    """How much a margin cell varies from sample to sample: multinomial, or Poisson."""
    mean = max(cell, 0.0)
    variance = mean if release.totals is None else mean * (1 - min(mean / max(total, 1e-300), 1.0))
    return math.sqrt(max(variance, 0.0))


def _share(noise: float, sampling: float) -> float:
    whole = noise**2 + sampling**2
    return noise**2 / whole if whole > 0 else 0.0


def _digits(release: Release) -> int:
    """Decimals of a printed cell: two digits of its noise."""
    if release.noise.is_exact:
        return 0 if (release.noisy == np.rint(release.noisy)).all() else 2
    spread = release.noise_sd[release.noise_sd > 0]
    return int(np.clip(1 - math.floor(math.log10(float(spread.min()))), 0, 4))


def _statistic(value: float) -> str:
    """A test statistic as printed; a saturated model has none."""
    return "" if math.isnan(value) else f"{value:.3f}"


def _p(test: Any) -> str:
    """The p-value of a row of `gof` as printed; a saturated model has none."""
    if math.isnan(test["pvalue"]):
        return "none (df 0)" if test["df"] == 0 else "none (no maximum of the likelihood)"
    return pvalue_text(test["pvalue"])


def _spread(sd: float) -> str:
    """A standard deviation with three digits."""
    if sd >= 1000 or sd == 0:
        return f"{sd:,.0f}"
    return f"{sd:#.3g}".rstrip(".")


def _fixed(value: float, digits: int) -> str:
    """A number with so many decimals, and no minus before a 0."""
    return f"{value:,.{digits}f}" if round(value, digits) else f"{0:.{digits}f}"
