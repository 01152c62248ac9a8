"""The printed page of a fit: statsmodels' Summary, with the privacy of the release on it."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.summary2 import Summary as Summary2
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

WIDTH = 78


def pvalue_text(p: float) -> str:
    """A p-value as printed; never 0.

    Examples
    --------
    >>> pvalue_text(0.0213), pvalue_text(2.04e-7), pvalue_text(0.0), pvalue_text(float("nan"))
    ('0.0213', '2.04e-07', '< 1e-300', 'nan')
    """
    if p < 1e-300:
        return "< 1e-300"
    return f"{p:.2e}" if p < 1e-4 else f"{p:.4f}"


def p_equals(p: float) -> str:
    """A p-value in a sentence.

    Examples
    --------
    >>> p_equals(0.0213), p_equals(0.0)
    ('p = 0.0213', 'p < 1e-300')
    """
    text = pvalue_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def total_text(release: Any) -> str:
    """The number of records as printed, with its standard error where it is noisy."""
    if release.totals is not None:
        return f"{release.n_total:,} ({'exact' if release.origin == 'exact' else 'public'})"
    return f"{release.n_total_estimate:,.1f} (noisy, SE {release.n_total_se:.1f})"


def method_text(results: Any) -> str:
    """How the model was fitted, in a few words."""
    if results.penalty:
        return f"ML, {results.penalty.capitalize()}"  # short, for the width of the page
    return "min. chi-square" if results.method == "normal" else "noise-aware ML"


def summary_of(results: Any, alpha: float) -> Summary:
    """The summary of `LogLinearResults`."""
    out = Summary()
    out.tables.append(_header(results))
    out.tables.append(_coefficients(results, alpha))
    out.add_extra_txt(_notes(results))
    return out


def summary2_of(results: Any, alpha: float) -> Summary2:
    """The same facts as a statsmodels `summary2.Summary`."""
    out = Summary2()
    out.add_title(f"Log-linear model {results.generating_class}")
    out.add_dict(dict(column[side] for side in (0, 1) for column in _facts(results)))
    interval = results.conf_int(alpha)
    frame = pd.DataFrame(
        {
            "Coef.": results.params,
            "Std.Err.": results.bse,
            "z": results.tvalues,
            "P>|z|": results.pvalues,
            f"[{alpha / 2:.3f}": interval[0],
            f"{1 - alpha / 2:.3f}]": interval[1],
            "priv.": results.privacy_share,
        }
    )
    out.add_df(frame)
    for note in _plain_notes(results):
        out.add_text(note)
    return out


def _facts(results: Any) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """What stands above the coefficients: two columns of names and values."""
    gof = results.gof()
    release = results.model.release
    left = [
        ("Method:", method_text(results)),
        ("Coding:", results.model.coding),
        ("Cells:", f"{results.nobs:,}"),
        ("Records:", _short_total(release)),
        ("Noise SD (cell):", _noise_text(release)),
        ("Converged:", "yes" if results.converged else "NO"),
    ]
    right = [
        ("Log-likelihood:", f"{results.llf:.3f}"),
        ("LR chi2 (p):", _test_text(gof.iloc[0])),
        ("Score chi2 (p):", _test_text(gof.iloc[1])),
        ("Df resid / model:", f"{results.df_resid} / {results.df_model}"),
        ("AIC:", f"{results.aic:.2f}"),
        ("BIC (log n):", f"{results.bic:.2f}"),
    ]
    return list(zip(left, right, strict=True))


def _header(results: Any) -> SimpleTable:
    facts = _facts(results)
    title = f"Log-linear model {results.generating_class}"
    return SimpleTable(
        [[value, f" {name}", other] for (_, value), (name, other) in facts],
        headers=None,
        stubs=[name for (name, _), _ in facts],
        title="\n".join(textwrap.wrap(title, WIDTH)),
        txt_fmt=dict(fmt_2cols, data_fmts=["%s", "%s", "%s"], data_aligns="rlr"),
    )


def _coefficients(results: Any, alpha: float) -> SimpleTable:
    level = f"{1 - alpha:.0%}"
    headers = ["coef", "std err", "z", "P>|z|", f"[{level}", "CI]", "priv."]
    interval = results.conf_int(alpha)
    body = []
    for name, coefficient in results.params.items():
        if not np.isfinite(coefficient):
            limit = "open" if np.isnan(coefficient) else f"{coefficient:+}"
            body.append([limit, "not", "estimable", "", "", "", ""])
            continue
        body.append(
            [
                f"{coefficient:.4f}",
                f"{results.bse[name]:.4f}",
                f"{results.tvalues[name]:.3f}",
                "<0.001" if results.pvalues[name] < 0.001 else f"{results.pvalues[name]:.3f}",
                f"{interval.loc[name, 0]:.3f}",
                f"{interval.loc[name, 1]:.3f}",
                f"{results.privacy_share[name]:.0%}",
            ]
        )
    stubs = list(results.params.index)
    for separator in ("  ", " "):  # the narrow one where long names need the room
        style = dict(fmt_params, data_fmts=["%s"], colsep=separator, colwidths=6)
        table = SimpleTable(body, headers=headers, stubs=stubs, txt_fmt=style)
        if max(map(len, table.as_text().splitlines()), default=0) <= WIDTH:
            break
    return table


def _notes(results: Any) -> list[str]:
    """What the reader must know, one wrapped and numbered paragraph each."""
    return [
        textwrap.fill(f"[{i}] {note}", WIDTH, subsequent_indent="    ")
        for i, note in enumerate(_plain_notes(results), 1)
    ]


def _plain_notes(results: Any) -> list[str]:
    release = results.model.release
    notes = [f"{label}: {text}." for label, text in release.statement().items()]
    if results.penalty:
        notes.append(
            "Jeffreys' penalty, half the log determinant of the information in the counts, was "
            "added to the log-likelihood: estimates are finite, and a little shrunken. The printed "
            "log-likelihood is without it and not the maximum, so no LR test is made of it."
        )
    elif not results.maximises_likelihood:
        notes.append(
            "Fitted by minimum chi-square in the Gaussian approximation. The log-likelihood is "
            "that of the release at this estimate and not the maximum, so no LR test is made of it."
        )
    if not release.noise.is_exact:
        notes.append(
            "Standard errors, intervals and tests cover sampling and the noise of the release; "
            "priv. is the noise's share of the variance. AIC and BIC are of the likelihood of "
            "the released table: use differences between fits of one release only."
        )
    used = set[str]().union(*results.model.associations)
    unused = [name for name in release.domain.names if name not in used]
    if unused:
        notes.append(f"Not in the model, so equally likely levels: {', '.join(unused)}.")
    if aliased := results.model.aliased:
        reason = "the other columns of the model can stand for them"
        if not results.model.special_terms:
            reason = "structural zeros leave them without meaning"
        more = f" and {len(aliased) - 20} more (model.aliased)" if len(aliased) > 20 else ""
        notes.append(f"Set to 0, because {reason}: {', '.join(aliased[:20])}{more}.")
    if not results.existence.exists:
        notes.append(results.existence.reason)
    if not results.converged:
        notes.append(f"NOT CONVERGED: {results.reason}.")
    return notes


def _short_total(release: Any) -> str:
    """`total_text`, with what the notes say left out where that keeps the page's width."""
    if release.totals is not None:
        return total_text(release)
    digits = 1 if abs(release.n_total_estimate) < 1e5 else 0
    return f"{release.n_total_estimate:,.{digits}f} (SE {release.n_total_se:.1f})"


def _noise_text(release: Any) -> str:
    low, high = release.noise_range
    return f"{low:.4g}" if np.isclose(low, high) else f"{low:.4g} to {high:.4g}"


def _test_text(row: Any) -> str:
    if row["df"] == 0:
        return "none (0 df)"
    statistic = row["statistic"]
    if np.isnan(statistic):
        return "none (see note)"
    text = f"{statistic:.3f}" if statistic < 1e5 else f"{statistic:.4g}"
    return f"{text} ({pvalue_text(row['pvalue'])})"
