"""The printed page of a fit: statsmodels' Summary, with the privacy of the release on it."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.summary2 import Summary as Summary2
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

from dpcontingency._labels import on_one_line
from dpcontingency.inference.wide import WIDE_ERROR

WIDTH = 78

# Ways to print coefficients: space between columns, and decimals. The first that leaves room for
# the names is taken; a name without room gets a line of its own.
_LAYOUTS = (("  ", 4), (" ", 4), (" ", 3), (" ", 2))


def is_bound(p: float, n_boot: int | None) -> bool:
    """Whether a p-value is the least that so many bootstrap replicates can give: at most that.

    Examples
    --------
    >>> is_bound(0.001, 999), is_bound(0.002, 999), is_bound(0.001, None)
    (True, False, False)
    """
    return n_boot is not None and p * (n_boot + 1) < 1.5


def pvalue_text(p: float, n_boot: int | None = None) -> str:
    """A p-value as printed; never 0, and the least of a bootstrap as the bound that it is.

    Examples
    --------
    >>> pvalue_text(0.0213), pvalue_text(2.04e-7), pvalue_text(0.0), pvalue_text(float("nan"))
    ('0.0213', '2.04e-07', '< 1e-300', 'nan')
    >>> pvalue_text(0.001, n_boot=999), pvalue_text(0.002, n_boot=999)
    ('<= 0.001', '0.0020')
    """
    if is_bound(p, n_boot):
        return f"<= {p:.3g}"
    if p < 1e-300:
        return "< 1e-300"
    return f"{p:.2e}" if p < 1e-4 else f"{p:.4f}"


def p_equals(p: float, n_boot: int | None = None) -> str:
    """A p-value in a sentence.

    Examples
    --------
    >>> p_equals(0.0213), p_equals(0.0), p_equals(0.001, n_boot=999)
    ('p = 0.0213', 'p < 1e-300', 'p <= 0.001')
    """
    text = pvalue_text(p, n_boot)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def total_text(release: Any) -> str:
    """The number of records as printed, with its standard error where it is noisy."""
    if release.totals is not None:
        return f"{release.n_total:,} ({'exact' if release.origin == 'exact' else 'public'})"
    return f"{release.n_total_estimate:z,.1f} (noisy, SE {release.n_total_se:.1f})"


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
    out.add_extra_txt(_notes(results, alpha))
    return out


class _Page(Summary2):
    """A `summary2.Summary` whose text is a page of `WIDTH` columns, made beforehand."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._page = page

    def as_text(self) -> str:
        """The page."""
        return self._page


def summary2_of(results: Any, alpha: float) -> Summary2:
    """The same facts as a statsmodels `summary2.Summary`."""
    out = _Page(summary_of(results, alpha).as_text())
    out.add_title(on_one_line(f"Log-linear model {results.generating_class}"))
    out.add_dict(dict(column[side] for side in (0, 1) for column in _facts(results)))
    out.settings[0]["float_format"] = "%.4g"  # statsmodels takes the first table's for all
    rows = results.coefficients(alpha)
    frame = pd.DataFrame(
        {
            "Coef.": rows["estimate"],
            "Std.Err.": rows["se"],
            "z": rows["z"],
            "P>|z|": rows["pvalue"],
            f"[{_tail(alpha / 2)}": rows["lower"],
            f"{_tail(1 - alpha / 2)}]": rows["upper"],
            "priv.": rows["privacy_share"],
        }
    )
    if (by := _by(rows)).any():
        frame["by"] = by
    out.add_df(frame.rename(index=on_one_line), float_format="%.4g")
    for note in _plain_notes(results, alpha):
        out.add_text(on_one_line(note))
    return out


def broken(text: str, after: str, indent: str = "") -> list[str]:
    """Lines of at most `WIDTH` columns, broken after some character where one is near.

    Examples
    --------
    >>> broken("Log-linear model [A B][C]" + "[" + "D" * 60 + "]", "]")[0]
    'Log-linear model [A B][C]'
    """
    lines = [""]
    for piece in re.findall(f"[^{after}]*{after}|[^{after}]+", text):
        if len(lines[-1]) + len(piece) <= WIDTH:
            lines[-1] += piece
        else:
            lines += textwrap.wrap(
                piece.lstrip(), WIDTH, initial_indent=indent, subsequent_indent=indent
            )
    return [line.rstrip() for line in lines if line]


def number_text(value: float, se: float, decimals: int = 4) -> str:
    """An estimate, its standard error or an end of its interval, as printed.

    With fixed decimals; where these would show fewer than two digits of the value or of the
    standard error, or the value is huge, with four significant digits, or as many as it takes to
    see the standard error. What rounding leaves of a 0 is 0.

    Examples
    --------
    >>> number_text(-0.61036, 0.0639), number_text(1.4861e-05, 7.72e-06)
    ('-0.6104', '1.486e-05')
    >>> number_text(0.000412, 0.0123), number_text(3e-17, 0.0123), number_text(12.34567, 5e-5)
    ('0.000412', '0.0000', '12.34567')
    """
    size, least = abs(value), 0.95 * 10.0 ** (1 - decimals)
    fixed = size < 1e6 and se >= least and not 1e-6 * se < size < least
    if fixed or size == 0 or not np.isfinite(value):
        return f"{value if size > 1e-6 * se else 0:z.{decimals}f}"
    beyond = np.log10(size / se) if 0 < se < size else 0.0
    return f"{value:.{4 + int(min(beyond, 4))}g}"


def _tail(probability: float) -> str:
    """A probability with three decimals, or more where it has them."""
    text = f"{probability:.3f}"
    return text if np.isclose(float(text), probability, 1e-9, 0) else f"{probability:.10g}"


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
        ("Log-likelihood:", _fixed(results.llf, 3)),
        ("LR chi2 (p):", _test_text(gof.iloc[0])),
        ("Score chi2 (p):", _test_text(gof.iloc[1])),
        ("Df resid / model:", f"{results.df_resid} / {results.df_model}"),
        ("AIC:", _fixed(results.aic, 2)),
        ("BIC (log n):", _fixed(results.bic, 2)),
    ]
    return list(zip(left, right, strict=True))


def _header(results: Any) -> SimpleTable:
    facts = _facts(results)
    lines = broken(on_one_line(f"Log-linear model {results.generating_class}"), "]")
    if table := results.model.fitted_to:
        lines += broken(on_one_line(f"Fitted to: {table}"), " ", "  ")
    return SimpleTable(
        [[value, f" {name}", other] for (_, value), (name, other) in facts],
        headers=None,
        stubs=[name for (name, _), _ in facts],
        # Statsmodels would centre several lines as if they were one.
        title="\n".join(lines if len(lines) == 1 else [line.center(WIDTH) for line in lines]),
        txt_fmt=dict(fmt_2cols, data_fmts=["%s", "%s", "%s"], data_aligns="rlr"),
    )


class _Coefficients(SimpleTable):
    """The table of coefficients: text that fits the page; HTML and LaTeX with unbroken names."""

    def __init__(self, headers: list[str], stubs: list[str], rows: dict[int, list[Any]]) -> None:
        stubs = list(map(on_one_line, stubs))
        super().__init__(rows[4], headers=headers, stubs=stubs, txt_fmt=dict(fmt_params))
        self._parts = headers, stubs, rows

    def as_text(self, **_: Any) -> str:
        """The table in the first layout that fits, a name that is too long above its numbers."""
        headers, stubs, rows = self._parts
        longest = max(map(len, stubs), default=0)
        for separator, decimals in _LAYOUTS:
            widths = [0, *[6] * 7, 0][: 1 + len(headers)]
            style = dict(fmt_params, data_fmts=["%s"], colsep=separator, colwidths=widths)
            blank = str(SimpleTable(rows[decimals], headers, [""] * len(stubs), txt_fmt=style))
            room = WIDTH - max(map(len, blank.splitlines()))
            if room >= longest or (separator == " " and room >= 0):
                break
        inside = [name if len(name) <= room else "" for name in stubs]
        table = str(SimpleTable(rows[decimals], headers, inside, txt_fmt=style)).splitlines()
        head, body = len(table) - len(stubs) - 1, []
        for name, short, line in zip(stubs, inside, table[head:], strict=False):
            body += [*([] if short else broken(name, ":", "  ")), line]
        return "\n".join([*table[:head], *body, table[-1]])


def _coefficients(results: Any, alpha: float) -> SimpleTable:
    level = f"{100 * (1 - alpha):.10g}%"
    frame = results.coefficients(alpha)
    headers = ["coef", "std err", "z", "P>|z|", f"[{level}", "CI]", "priv."]
    by = _by(frame)
    rows: dict[int, list[Any]] = {}
    for decimals in {decimals for _, decimals in _LAYOUTS}:
        rows[decimals] = [_coefficient(row, decimals) for row in frame.itertuples()]
        if by.any():
            rows[decimals] = [[*row, how] for row, how in zip(rows[decimals], by, strict=True)]
    if by.any():
        headers.append("by")
    return _Coefficients(headers, list(frame.index), rows)


def _by(rows: pd.DataFrame) -> pd.Series:
    """How the test and interval of each row were made, where not by its standard error."""
    return rows["method"].map({"wald": "", "": "", "score": "score", "profile": "LR"})


def _coefficient(row: Any, decimals: int) -> list[str]:
    """A row of the table of coefficients."""
    estimate, se = row.estimate, row.se
    known, tested = np.isfinite(estimate), not np.isnan(row.pvalue)
    limit = "open" if np.isnan(estimate) else f"{estimate:+}"
    if not known and not tested:
        return [limit, "not", "estimable", "", "", "", ""]
    width = se if known else 1.0
    return [
        number_text(estimate, se, decimals) if known else limit,
        number_text(se, se, decimals) if known else "",
        *(_test_of_row(row, decimals, width) if tested else [""] * 4),
        f"{row.privacy_share:.0%}" if known else "",
    ]


def _test_of_row(row: Any, decimals: int, se: float) -> list[str]:
    """z, p and the ends of the interval."""
    return [
        f"{row.z:z.{decimals - 1}f}" if abs(row.z) < 1e5 else f"{row.z:.4g}",
        "<0.001" if row.pvalue < 0.001 else f"{row.pvalue:.3f}",
        *(number_text(end, se, decimals - 1) for end in (row.lower, row.upper)),
    ]


def _notes(results: Any, alpha: float) -> list[str]:
    """What the reader must know, one wrapped and numbered paragraph each."""
    return [
        textwrap.fill(f"[{i}] {on_one_line(note)}", WIDTH, subsequent_indent="    ")
        for i, note in enumerate(_plain_notes(results, alpha), 1)
    ]


def _plain_notes(results: Any, alpha: float) -> list[str]:
    release = results.model.release
    notes = [f"{label}: {text}." for label, text in release.statement().items()]
    if results.penalty:
        notes.append(
            "Jeffreys' penalty, half the log determinant of the information in the counts, was "
            "added to the log-likelihood: estimates are finite, and a little shrunken. The printed "
            "log-likelihood is without it and not the maximum, so no LR test is made of it, and "
            "AIC and BIC, made of it all the same, are a little too large."
        )
    elif not results.maximises_likelihood:
        notes.append(
            "Fitted by minimum chi-square in the Gaussian approximation. The log-likelihood is "
            "that of the release at this estimate and not the maximum, so no LR test is made of "
            "it, and AIC and BIC, made of it all the same, are a little too large."
        )
    if results.model.n_params > results.df_model:
        notes.append(
            f"AIC and BIC count {results.model.n_params} parameters, those of all levels in use; "
            f"zeros leave {results.df_model} of them on the cells with a positive mean, which Df "
            "is about."
        )
    if not release.noise.is_exact:
        notes.append(
            "Standard errors, intervals and tests cover sampling and the noise of the release; "
            "priv. is the noise's share of the variance. AIC and BIC are of the likelihood of "
            "the released table: use differences between fits of one release only."
        )
    notes += [*_notes_on_rows(results, alpha), *_notes_on_gof(results)]
    if aliased := results.model.aliased:
        reason = "the other columns of the model can stand for them"
        if not results.model.special_terms:
            reason = "structural zeros leave them without meaning"
        more = f" and {len(aliased) - 20} more (model.aliased)" if len(aliased) > 20 else ""
        notes.append(f"Set to 0, because {reason}: {', '.join(aliased[:20])}{more}.")
    if not results.existence.exists:
        notes.append(results.existence.reason)
    if results.second_maximum is not None:
        notes.append(
            f"Another maximum of the likelihood, elsewhere, is only {results.second_maximum:.3g} "
            "below this one in log-likelihood: the release hardly says which of the two holds."
        )
    if not results.converged:
        notes.append(f"NOT CONVERGED: {results.reason}.")
    return notes


def _notes_on_rows(results: Any, alpha: float) -> list[str]:
    """What stands in the rows for which a standard error is a poor guide."""
    rows = results.coefficients(alpha)
    left = int(((rows["method"] == "") & rows["estimate"].notna()).sum())
    found = int(rows["method"].isin(["score", "profile"]).sum())
    why = f"the noise's part of the standard error is above {WIDE_ERROR:g} on the log scale"
    if np.isinf(results.params).any():
        why += ", or there is none because the parameter is not estimable"
    notes = []
    if found:
        notes.append(
            f"Rows by refits that hold the coefficient at values (by): {found}. There {why}, and "
            "the normal approximation misleads. z is the signed root of a test of 0 by the score "
            "or the likelihood ratio (LR), and the interval holds what that test does not reject."
        )
    if left:
        way = "a fit by maximum likelihood that converges, without penalty, has them"
        if results.refit_method:
            way = "result.coefficients(refit=True) has them, by refits that take time"
        notes.append(
            f"Rows without z, p-value and interval: {left}. There {why}, and the normal "
            f"approximation misleads; {way}."
        )
    return notes


def _notes_on_gof(results: Any) -> list[str]:
    """Why a statistic in the header has no p-value, or what is doubtful about it."""
    return [f"Goodness of fit, {name}: {note}" for name, note in results.gof().notes.items()]


def _short_total(release: Any) -> str:
    """`total_text`, with what the notes say left out where that keeps the page's width."""
    if release.totals is not None:
        return total_text(release) if release.n_total < 1e10 else f"{release.n_total:,}"
    digits = 1 if abs(release.n_total_estimate) < 1e5 else 0
    return f"{release.n_total_estimate:z,.{digits}f} (SE {release.n_total_se:.1f})"


def _fixed(value: float, decimals: int) -> str:
    """A number with some decimals, or with eight digits where it is huge."""
    return f"{value:z.{decimals}f}" if abs(value) < 1e8 else f"{value:.8g}"


def _noise_text(release: Any) -> str:
    low, high = release.noise_range
    return f"{low:.4g}" if np.isclose(low, high) else f"{low:.4g} to {high:.4g}"


def _test_text(row: Any) -> str:
    if row["df"] == 0:
        return "none (0 df)"
    statistic = row["statistic"]
    if np.isnan(statistic):
        return "none (see note)"
    text = f"{statistic:z.3f}" if statistic < 1e5 else f"{statistic:.4g}"
    pvalue = row["pvalue"]
    return f"{text} ({'see note' if np.isnan(pvalue) else pvalue_text(pvalue)})"
