"""The tables of a release: every number of them is formatted here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcontingency.domain import label_text
from dpcontingency.inference.overview import AssociationOverview
from dpcontingency.inference.printing import pvalue_text
from dpcontingency.privacy.gdp import ceil_digits
from dpcontingency.release.release import Release
from dpcontingency.release.workload import MarginPlan
from dpcontingency.report.numbers import digits_for, fixed, spread
from dpcontingency.report.parts import BLANK, Cell, Column, Table, label, number, span
from dpcontingency.report.words import best_power, percent

Array = npt.NDArray[np.float64]

MAX_ROWS = 200  # of a table in a report
DELTA = 1e-6
ALARMS = (0.01, 0.05, 0.1, 0.2, 0.5)


def loss_table(release: Any, scale: tuple[Cell, Cell]) -> Table:
    """The privacy loss in each currency, and the noise that it takes."""
    mu, rho = release.privacy.mu, release.privacy.rho
    epsilon, power = release.privacy.epsilon(DELTA), best_power(release.privacy)
    rows = [
        [Cell("mu (Gaussian differential privacy)", "mu"), number(mu, ceil_digits(mu))],
        [Cell(f"epsilon at delta = {DELTA:g}", "epsilon"), number(epsilon, ceil_digits(epsilon))],
        [Cell("rho (zero-concentrated)", "rho"), number(rho, ceil_digits(rho))],
        [*scale],
        [
            Cell("power of the best test with 5 % false alarms, at most", "power_at_5_percent"),
            number(power, percent(power, 1)),
        ],
    ]  # fmt: skip
    columns = [Column("measure", "Measure"), Column("value", "Value")]
    return Table("loss", "The privacy loss, rounded up, and the noise", columns, rows, 1)


def attack_table(release: Any) -> Table:
    """What the best attack can do, at several rates of false alarms."""
    rows = []
    for alarms in ALARMS:
        power = best_power(release.privacy, alarms)
        rows.append([number(alarms, percent(alarms)), number(power, percent(power, 1))])
    columns = [Column("false_alarms", "False alarms"), Column("power", "Power, at most")]
    return Table("attack", "The best test between neighbouring data sets", columns, rows, 1)


def cells_table(release: Release) -> Table:
    """The released cells; of a large table those that stand out most from the noise."""
    domain, exact = release.domain, release.noise.is_exact
    noisy, sd, estimate = (x.ravel() for x in (release.noisy, release.noise_sd, release.estimate))
    shrunken = not np.array_equal(noisy, estimate)
    chosen, cut = _largest(noisy, sd)
    digits = digits_for(sd, noisy)
    rows = []
    for position in chosen:
        numbers = [
            number(noisy[position], fixed(noisy[position], digits)),
            number(sd[position], spread(sd[position])),
        ]
        if shrunken:
            numbers.append(number(estimate[position], fixed(estimate[position], digits)))
        rows.append([*_labels(domain, int(position)), *numbers])
    columns = [
        *(Column(name, name) for name in domain.names),
        Column("noisy", "Exact" if exact else "Noisy"),
        Column("noise_sd", "Noise SD"),
    ]
    columns += [Column("estimate", "Estimate")] if shrunken else []
    return Table("cells", "The released cells", columns, rows, len(domain.names), cut)


def _largest(noisy: Array, sd: Array) -> tuple[npt.NDArray[np.intp], str]:
    """The positions of the cells to show, in their order, and what is said of the others."""
    if noisy.size <= MAX_ROWS:
        return np.arange(noisy.size), ""
    signal = np.abs(noisy) / np.where(sd > 0, sd, 1.0)
    # A stable sort, so that ties are broken alike everywhere.
    chosen = np.sort(np.argsort(-signal, kind="stable")[:MAX_ROWS])
    return chosen, (
        f"Shown are the {MAX_ROWS} of {noisy.size:,} cells that are largest beside their noise; "
        f"{noisy.size - MAX_ROWS:,} are left out. Chosen by their size, they are on average "
        "somewhat too large. release.to_csv(...) and release.to_frame() give all cells."
    )


def _labels(domain: Any, position: int) -> list[Cell]:
    """The levels of a cell."""
    levels = np.unravel_index(position, domain.shape)
    return [
        label(label_text(domain.levels[name][int(level)]))
        for name, level in zip(domain.names, levels, strict=True)
    ]


def one_way_table(release: Any, margins: Sequence[tuple[str, Any, Array]]) -> Table:
    """Each factor's margin with its interval, and how much of its variance is noise.

    Parameters
    ----------
    release : Release or MarginRelease
        The release.
    margins : sequence of (str, Release or MarginRelease, ndarray)
        Factors, their margins, and half the widths of the intervals of their cells.
    """
    rows = []
    for name, margin, half in margins:
        digits = digits_for(margin.noise_sd, margin.noisy)
        by_sampling = sampling_sds(release, name)
        for i, level in enumerate(margin.domain.levels[name]):
            noisy, sd, sampling = margin.noisy[i], margin.noise_sd[i], by_sampling[i]
            share = noise_share(sd, sampling)
            rows.append(
                [
                    label(name),
                    label(label_text(level)),
                    *_measured(noisy, sd, half[i], digits),
                    number(sampling, spread(sampling)),
                    number(share, percent(share)),
                ]
            )
    columns = [
        Column("factor", "Factor"),
        Column("level", "Level"),
        *_measured_columns(release),
        Column("sampling_sd", "Sampling SD"),
        Column("noise_share", "Noise's share of variance"),
    ]
    return _cut("one_way", "One-way margins", columns, rows, 2, "release.margin(...)")


def margin_table(release: Any, margin: Any, half: Array, rows_left: int) -> Table:
    """The cells of one released margin, with intervals."""
    names = margin.domain.names
    noisy, sd, half = margin.noisy.ravel(), margin.noise_sd.ravel(), half.ravel()
    digits = digits_for(sd, noisy)
    rows = [
        [*_labels(margin.domain, k), *_measured(noisy[k], sd[k], half[k], digits)]
        for k in range(min(noisy.size, rows_left))
    ]
    columns = [*(Column(name, name) for name in names), *_measured_columns(release)]
    cut = ""
    if noisy.size > rows_left:
        arguments = ", ".join(map(repr, names))
        cut = (
            f"The first {rows_left:,} of {noisy.size:,} cells are shown. "
            f"release.to_frame({arguments}) gives all of them."
        )
    key = "margin: " + ", ".join(names)
    return Table(key, f"Margin of {', '.join(names)}", columns, rows, len(names), cut)


def _measured(noisy: float, sd: float, half: float, digits: int) -> list[Cell]:
    """A noisy cell, the spread of its noise and its interval for the noise alone."""
    ends = (noisy - half, noisy + half)
    exact = not half > 0
    return [
        number(noisy, fixed(noisy, digits)),
        number(sd, spread(sd)),
        Cell("exact", tuple(map(float, ends)))
        if exact
        else span(ends, [fixed(end, digits) for end in ends]),
    ]


def _measured_columns(release: Any) -> list[Column]:
    return [
        Column("noisy", "Exact" if release.noise.is_exact else "Noisy"),
        Column("noise_sd", "Noise SD"),
        Column("interval", "95 % interval (noise only)"),
    ]


def plan_table(plan: MarginPlan) -> Table:
    """What each wanted margin costs: cells, weight, predicted noise."""
    rows = [
        [
            label(", ".join(margin)),
            number(plan.domain.project(margin).size, f"{plan.domain.project(margin).size:,}"),
            number(weight, f"{weight:g}"),
            number(plan.sd(*margin), spread(plan.sd(*margin))),
        ]
        for margin, weight in list(zip(plan.margins, plan.weights, strict=True))[:MAX_ROWS]
    ]
    columns = [
        Column("margin", "Margin"),
        Column("cells", "Cells"),
        Column("weight", "Weight"),
        Column("noise_sd", "Noise SD of a cell"),
    ]
    cut = _left_out(len(plan.margins), "margins", "release.plan.to_frame()")
    return Table("plan", "The wanted margins", columns, rows, 1, cut)


def scales_table(plan: MarginPlan) -> Table:
    """The scale of the noise in each released interaction."""
    rows = [
        [
            Cell(", ".join(a) or "total", ", ".join(a)),
            number(scale, spread(scale)),
            number(plan.scales[a], f"{plan.scales[a]:.4g}"),
        ]
        for a, scale in list(plan.cell_scales.items())[:MAX_ROWS]
    ]
    columns = [
        Column("interaction", "Interaction"),
        Column("cell_scale", "Scale on a cell of its margin"),
        Column("scale", "Scale in an orthonormal coordinate"),
    ]
    cut = _left_out(len(plan.cell_scales), "interactions", "release.plan.scales")
    return Table("scales", "The noise by interaction", columns, rows, 1, cut)


def associations_table(overview: AssociationOverview) -> Table:
    """A row a pair of factors."""
    rows = []
    for line in overview.head(MAX_ROWS).to_dict("records"):
        known = math.isfinite(line["estimate"])
        tested = math.isfinite(line["pvalue"])
        ends = (line["lower"], line["upper"])
        rows.append(
            [
                label(line["row"]),
                label(line["column"]),
                number(line["estimate"], f"{line['estimate']:z.3f}") if known else BLANK,
                span(ends, [f"{end:z.3f}" for end in ends]) if known else BLANK,
                number(line["statistic"], f"{line['statistic']:z.3f}") if tested else BLANK,
                number(line["df"], str(line["df"])) if tested else BLANK,
                number(line["pvalue"], pvalue_text(line["pvalue"])) if tested else BLANK,
                Cell("" if known and tested else "see below", line["reason"]),
            ]
        )
    columns = [
        Column("row", "Factor"),
        Column("column", "and factor"),
        Column("estimate", "Cramer's V"),
        Column("interval", "95 % interval"),
        Column("statistic", "Score statistic"),
        Column("df", "Df"),
        Column("pvalue", "P-value"),
    ]
    if not overview["reason"].any():
        rows = [row[:-1] for row in rows]
    else:
        columns.append(Column("reason", "Not estimated"))
    cut = _left_out(len(overview), "pairs", "dpc.association_overview(release)")
    return Table("pairs", "All pairs of factors", columns, rows, 2, cut)


# ------------------------------------------------------------------ small parts


def _cut(
    key: str, caption: str, columns: Sequence[Column], rows: Sequence[Any], stubs: int, whole: str
) -> Table:
    """A table of at most `MAX_ROWS` rows."""
    return Table(key, caption, columns, rows[:MAX_ROWS], stubs, _left_out(len(rows), "rows", whole))


def _left_out(count: int, things: str, whole: str) -> str:
    """What is said where not all is shown."""
    if count <= MAX_ROWS:
        return ""
    return f"The first {MAX_ROWS} of {count:,} {things} are shown. {whole} gives all of them."


def sampling_sds(release: Any, name: str) -> Array:
    """How much the cells of a factor's margin vary from sample to sample.

    Multinomial, in each stratum by itself where their totals are public; Poisson without a total.
    """
    if name in release.strata:
        return np.zeros(len(release.domain.levels[name]))
    means = np.maximum(release.margin(name, *release.strata).noisy, 0.0)
    if release.totals is not None:
        means = means * (1 - np.minimum(means / np.maximum(release.totals, 1e-300), 1.0))
    return np.asarray(np.sqrt(means.reshape(len(means), -1).sum(axis=1)))


def noise_share(noise: float, sampling: float) -> float:
    """The noise's part of the sum of both variances."""
    whole = noise**2 + sampling**2
    return noise**2 / whole if whole > 0 else 0.0
