"""The tables of fitted models: every number of them is formatted here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpcontingency.domain import label_text
from dpcontingency.inference.printing import number_text, pvalue_text
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.report.numbers import end, ratio
from dpcontingency.report.parts import BLANK, Cell, Column, Table, label, number, span
from dpcontingency.report.tables import MAX_ROWS
from dpcontingency.report.words import percent

LARGEST = 12  # residuals that are listed
BY = {"wald": "standard error", "score": "score", "profile": "likelihood ratio", "": ""}
NO_MAXIMUM = "none (no maximum of the likelihood)"
NOT_CALIBRATED = "not calibrated here"


def criteria(fit: LogLinearResults, compared: Any = None) -> tuple[Cell, Cell]:
    """AIC and BIC, of fits that maximise the likelihood; in a comparison those of its table."""
    if not fit.maximises_likelihood:
        return (Cell(NO_MAXIMUM, None),) * 2
    row = fit if compared is None else compared.table.loc[fit.generating_class]
    return number(row.aic, f"{row.aic:z.2f}"), number(row.bic, f"{row.bic:z.2f}")


def gof_table(fit: LogLinearResults) -> Table:
    """Goodness of fit of a model."""
    rows = [
        [label(name), _statistic(row["statistic"]), number(row["df"], f"{row['df']:.0f}"), _p(row)]
        for name, row in fit.gof().iterrows()
    ]
    columns = [
        Column("test", "Test"),
        Column("statistic", "Statistic"),
        Column("df", "Df"),
        Column("pvalue", "P-value"),
    ]
    return Table("gof", "Goodness of fit, against the saturated model", columns, rows, 1)


def coefficients_table(fit: LogLinearResults) -> Table:
    """The coefficients, with both parts of their standard errors."""
    errors = ["estimate", "se_sampling", "se_privacy", "se"]
    rows = []
    for name, row in fit.coefficients().head(MAX_ROWS).iterrows():
        known, total = math.isfinite(row["estimate"]), row["se"]
        cells = [number(row[key], number_text(row[key], total)) for key in errors]
        if not known:
            limit = Cell(coefficient_limit(row["estimate"]), None)
            cells = [limit, Cell("not estimable", None), BLANK, BLANK]
        rows.append([label(name), *cells, *_test_cells(row, total if known else 1.0)])
    columns = [
        Column("coefficient", "Coefficient"),
        Column("estimate", "Estimate"),
        Column("se_sampling", "Sampling SE"),
        Column("se_privacy", "Privacy SE"),
        Column("se", "Total SE"),
        Column("z", "z"),
        Column("pvalue", "P-value"),
        Column("interval", "95 % interval"),
        Column("privacy_share", "Privacy share"),
        Column("method", "Test and interval by"),
    ]
    cut = ""
    if len(fit.params) > MAX_ROWS:
        cut = (
            f"The first {MAX_ROWS} of {len(fit.params):,} coefficients are shown. "
            "result.coefficients() has all of them."
        )
    return Table("coefficients", "Coefficients", columns, rows, 1, cut)


def coefficient_limit(estimate: float) -> str:
    """What is printed for an estimate that is no number."""
    return "open" if math.isnan(estimate) else "−∞" if estimate < 0 else "∞"


def _test_cells(row: Any, se: float) -> list[Cell]:
    """Test, interval, privacy share and method of a coefficient; blank where there is none."""
    ends, share = (row["lower"], row["upper"]), row["privacy_share"]
    tested = not math.isnan(row["pvalue"])
    return [
        number(row["z"], f"{row['z']:z.3f}") if tested else BLANK,
        number(row["pvalue"], pvalue_text(row["pvalue"])) if tested else BLANK,
        span(ends, [end(limit, se) for limit in ends]) if tested else BLANK,
        BLANK if math.isnan(share) else number(share, percent(share)),
        label(BY[row["method"]]),
    ]


def comparison_table(models: Sequence[LogLinearResults], compared: Any = None) -> Table:
    """One row a model, with AIC and BIC of their comparison where there is one."""
    rows = []
    for fit in models:
        lr = fit.gof().iloc[0]
        rows.append(
            [
                label(fit.generating_class),
                *criteria(fit, compared),
                _statistic(lr["statistic"]),
                number(lr["df"], f"{lr['df']:.0f}"),
                _p(lr),
            ]
        )
    columns = [
        Column("model", "Model"),
        Column("aic", "AIC"),
        Column("bic", "BIC"),
        Column("lr", "LR against saturated"),
        Column("df", "Df"),
        Column("pvalue", "P-value"),
    ]
    return Table("side_by_side", "The models side by side", columns, rows, 1)


def differences_table(compared: Any) -> Table:
    """What each model adds to the smaller one before it."""
    frame = compared.table
    rows = []
    for count in range(1, len(frame)):
        line = frame.iloc[count]
        tested = math.isfinite(line["lr_diff"]) and line["df_diff"] > 0
        tail = {"statistic": line["lr_diff"], "pvalue": line["pvalue_diff"]}
        rows.append(
            [
                label(frame.index[count - 1]),
                label(frame.index[count]),
                _statistic(line["lr_diff"]),
                number(line["df_diff"], f"{line['df_diff']:.0f}") if tested else BLANK,
                _p(tail) if tested else BLANK,
            ]
        )
    columns = [
        Column("smaller", "Model"),
        Column("larger", "against the larger"),
        Column("lr", "LR"),
        Column("df", "Df"),
        Column("pvalue", "P-value"),
    ]
    return Table("differences", "Each model against the next larger one", columns, rows, 2)


def ratios_table(frame: pd.DataFrame) -> Table:
    """The odds ratios of a model."""
    rows = []
    for line in frame.head(MAX_ROWS).to_dict("records"):
        value = Cell("not estimable", None)
        if not math.isnan(line["odds_ratio"]):
            value = number(line["odds_ratio"], ratio(line["odds_ratio"]))
        ends = (line["lower"], line["upper"])
        known = not any(map(math.isnan, ends))
        rows.append(
            [
                label(line["in_words"]),
                value,
                span(ends, [ratio(end) for end in ends]) if known else BLANK,
                *(
                    number(error, "" if math.isnan(error) else f"{error:.4f}")
                    for error in (line["se"], line["se_sampling"])
                ),
            ]
        )  # fmt: skip
    columns = [
        Column("in_words", "Ratio of"),
        Column("odds_ratio", "Estimate"),
        Column("interval", "95 % interval"),
        Column("se_log", "Total SE of the log"),
        Column("se_log_sampling", "Sampling SE of the log"),
    ]
    cut = ""
    if len(frame) > MAX_ROWS:
        cut = (
            f"The first {MAX_ROWS} of {len(frame):,} odds ratios are shown. result.odds_ratios() "
            "gives all of them."
        )
    return Table("odds_ratios", "Odds ratios", columns, rows, 1, cut)


def has_cells(fit: LogLinearResults) -> bool:
    """Whether the table that a model is of was released, as such or as one of the margins."""
    return not fit.model.cells.of_margins or fit.model.release.is_whole


def residuals_table(fit: LogLinearResults) -> Table | None:
    """The cells that the model fits worst."""
    residuals = fit.resid_adjusted
    size = residuals.abs().to_numpy()
    known = np.flatnonzero(np.isfinite(size))
    if not known.size:
        return None
    worst = known[np.argsort(-size[known], kind="stable")[:LARGEST]]
    fitted, noisy = fit.fittedvalues.to_numpy(), fit.model.release.noisy.ravel()
    rows = []
    for position in worst:
        levels = residuals.index[position]
        levels = levels if isinstance(levels, tuple) else (levels,)
        rows.append(
            [
                *(label(label_text(level)) for level in levels),
                number(noisy[position], f"{noisy[position]:z,.1f}"),
                number(fitted[position], f"{fitted[position]:z,.1f}"),
                number(residuals.iloc[position], f"{residuals.iloc[position]:z.2f}"),
            ]
        )
    names = fit.model.release.domain.names
    columns = [
        *(Column(name, name) for name in names),
        Column("noisy", "Exact" if fit.model.release.noise.is_exact else "Noisy"),
        Column("fitted", "Fitted"),
        Column("resid_adjusted", "Adjusted residual"),
    ]
    cut = "" if residuals.size <= LARGEST else (
        f"The {len(worst)} largest of {residuals.size:,}; about 5 % are beyond ±2 where the model "
        "holds. result.resid_adjusted gives all of them."
    )  # fmt: skip
    caption = "The largest adjusted residuals, noise allowed for"
    return Table("residuals", caption, columns, rows, len(names), cut)


def _statistic(value: float) -> Cell:
    """A test statistic as printed; a saturated model has none."""
    return BLANK if math.isnan(value) else number(value, f"{value:z.3f}")


def _p(test: Any) -> Cell:
    """The p-value of a row of `gof` as printed; a saturated model has none."""
    if math.isnan(test["statistic"]):
        return Cell("none (df 0)" if test["df"] == 0 else NO_MAXIMUM, None)
    if math.isnan(test["pvalue"]):
        return Cell(NOT_CALIBRATED, None)
    return number(test["pvalue"], pvalue_text(test["pvalue"]))
