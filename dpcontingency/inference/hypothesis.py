"""Hypothesis tests on released tables: each compares two nested log-linear models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy import stats

from dpcontingency.domain import label_text
from dpcontingency.errors import ModelError
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.printing import p_equals, pvalue_text
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.release.release import Release


@dataclass(frozen=True)
class TestResult:
    """A test of a null hypothesis.

    Attributes
    ----------
    name : str
        The test.
    null : str
        The null hypothesis, in words.
    statistic, df, pvalue : float, int, float
        The statistic, the degrees of freedom of its reference distribution, the upper tail.
    log_pvalue : float
        The natural logarithm of the p-value, finite where the p-value underflows.
    method : str
        The statistic and where the p-value comes from.
    n_boot : int or None
        Bootstrap replicates, None for an asymptotic p-value.
    accounts_for : tuple of str
        The sources of variation in the p-value: "sampling", "noise".
    reason : str
        Why the test could not be done (``pvalue`` is then nan), else empty.
    notes : tuple of str
        What a reader must know beside the p-value.
    null_fit : LogLinearResults or None
        The fit of the null model.
    """

    __test__ = False  # the name is the field's, and not a test case for pytest

    name: str
    null: str
    statistic: float
    df: int
    pvalue: float
    log_pvalue: float
    method: str
    n_boot: int | None = None
    accounts_for: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()
    null_fit: LogLinearResults | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        if self.reason:
            return f"<{self.name}: not done, because {self.reason}>"
        return (
            f"<{self.name} of {self.null}: {self.method} chi2 = {self.statistic:.4g}, "
            f"df = {self.df}, {p_equals(self.pvalue)}; "
            f"accounts for {' and '.join(self.accounts_for)}>"
        )

    def summary(self) -> str:
        """The test as a small text table."""
        lines = [("Test", self.name), ("Null", self.null), ("Method", self.method)]
        if self.reason:
            lines.append(("Not done", self.reason))
        else:
            lines += [
                ("Statistic", f"{self.statistic:.4f}"),
                ("Df", str(self.df)),
                ("P-value", pvalue_text(self.pvalue)),
                ("Accounts for", ", ".join(self.accounts_for)),
            ]
        lines += [("Note", note) for note in self.notes]
        return "\n".join(f"{label + ':':<14}{value}" for label, value in lines)


def independence_test(
    release: Release,
    *factors: str,
    given: Sequence[str] = (),
    statistic: Literal["lr", "score"] = "lr",
) -> TestResult:
    """Test that factors are independent, in each combination of the given ones.

    Parameters
    ----------
    release : Release
        The noisy table; the test works on its margin over the factors and the given ones.
    *factors : str
        Two or more factors; with three or more the null is mutual independence.
    given : sequence of str
        Factors to condition on.
    statistic : {"lr", "score"}
        The noise-aware likelihood ratio (METHODS 2.2) or score statistic (2.3).

    Returns
    -------
    TestResult
        Asymptotic chi-square p-value for sampling and noise; ``null_fit`` holds the null model.
        With no noise the statistics are G2 and Pearson's X2, without Yates' correction.

    Raises
    ------
    ModelError
        If fewer than two factors are named, or one twice.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    >>> independence_test(Release.exact([[45, 2], [1, 44]], domain), "A", "B", statistic="score")
    <independence test of A independent of B: score chi2 = 80.43, df = 1, p = 3.01e-19; ...>
    """
    if not isinstance(release, Release):
        raise ModelError(
            f"A test works on a Release; got {type(release).__name__}. A noisy table made "
            "elsewhere enters by Release.from_noisy_table, if it was neither rounded nor shrunken."
        )
    if isinstance(given, str):
        given = (given,)
    involved = [*factors, *given]
    if len(factors) < 2:
        raise ModelError(
            "An independence test needs two factors or more. To test one factor against given "
            "probabilities is a goodness-of-fit test."
        )
    if len(set(involved)) < len(involved):
        raise ModelError(f"Each factor is named once; got {', '.join(map(repr, involved))}.")
    null = " independent of ".join(factors)
    if given:
        null += f" given {', '.join(given)}"
    model = LogLinearModel(release.margin(*involved), [(name, *given) for name in factors])
    return _against_saturated("independence test", null, model, statistic)


def _against_saturated(
    name: str, null: str, model: LogLinearModel, statistic: Literal["lr", "score"]
) -> TestResult:
    """The test of a model against the saturated one, or the reason why there is none."""
    labels: dict[str, str] = {"lr": "likelihood-ratio", "score": "score"}
    if statistic not in labels:
        raise ModelError(f"The statistic is 'lr' or 'score'; got {statistic!r}.")
    accounts = ("sampling",) if model.release.noise.is_exact else ("sampling", "noise")
    common: dict[str, Any] = {
        "name": name,
        "null": null,
        "method": labels[statistic],
        "accounts_for": accounts,
    }
    if model.df_resid == 0:
        return _not_done(
            "the null model leaves no degrees of freedom: a factor has a single level, or all "
            "records share one, or there are none",
            0,
            common,
        )
    fit = model.fit(warn_convergence=False)
    if not fit.converged:
        return _not_done(
            f"the fit of the null model did not converge: {fit.reason}", model.df_resid, common
        )
    if statistic == "score" and not (fit.existence.exists or model.release.noise.is_exact):
        return _not_done(
            "noise has eaten a margin of the null model, and the score statistic has no chi-square "
            "law at such a boundary; the likelihood ratio (statistic='lr') can be used",
            model.df_resid,
            common,
        )
    value = fit.deviance if statistic == "lr" else fit.pearson_chi2
    notes = [*_faint_margins(model.release), *filter(None, [fit.existence.reason])]
    if not model.release.private:
        notes.append(model.release.statement()["Privacy"])
    return TestResult(
        statistic=value,
        df=model.df_resid,
        pvalue=float(stats.chi2.sf(value, model.df_resid)),
        log_pvalue=chi2_logsf(value, model.df_resid),
        notes=tuple(notes),
        null_fit=fit,
        **common,
    )


def _not_done(reason: str, df: int, common: dict[str, Any]) -> TestResult:
    return TestResult(
        statistic=math.nan, df=df, pvalue=math.nan, log_pvalue=math.nan, reason=reason, **common
    )


def _faint_margins(release: Release) -> list[str]:
    """A sentence for the levels whose margin is within two standard deviations of the noise."""
    faint = []
    for name in release.domain.names:
        margin = release.margin(name)
        low = (margin.noise_sd > 0) & (margin.noisy < 2 * margin.noise_sd)
        levels = release.domain.levels[name]
        faint += [f"{name} = {label_text(levels[i])}" for i in np.flatnonzero(low)]
    if not faint:
        return []
    return [
        f"Within noise of 0 (less than 2 standard deviations above): {', '.join(faint)}. "
        "Perhaps nobody is there."
    ]


def chi2_logsf(statistic: float, df: int) -> float:
    """The logarithm of the upper tail of chi-square, also where the tail underflows.

    Beyond the range of floats, by the continued fraction of the upper incomplete gamma function
    (Abramowitz and Stegun 6.5.31).

    Examples
    --------
    >>> round(chi2_logsf(60254.09813, 1) / np.log(10))
    -13086
    """
    tail = float(stats.chi2.logsf(statistic, df))
    if np.isfinite(tail):
        return tail
    a, x = df / 2, statistic / 2
    fraction = 0.0
    for k in range(200, 0, -1):
        fraction = k * (k - a) / (x + 2 * k + 1 - a - fraction)
    return float(a * np.log(x) - x - math.lgamma(a) - np.log(x + 1 - a - fraction))
