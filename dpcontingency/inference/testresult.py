"""What a test of a hypothesis returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from dpcontingency._labels import on_one_line
from dpcontingency.inference.printing import p_equals, pvalue_text
from dpcontingency.inference.results import LogLinearResults


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
        The statistic, the degrees of freedom of its chi-square reference, the upper tail.
    log_pvalue : float
        The natural logarithm of the p-value, finite where the p-value underflows.
    method : str
        The statistic: "likelihood-ratio", "score", "Wald", or "Pearson on the James-Stein table".
    n_boot : int or None
        Bootstrap replicates behind the p-value, None for an asymptotic one.
    accounts_for : tuple of str
        The sources of variation in the p-value: "sampling", "noise".
    reason : str
        Why the test could not be done (``pvalue`` is then nan), else empty.
    notes : tuple of str
        What a reader must know beside the p-value.
    seed : int or None
        What the bootstrap was started from, drawn from the caller's generator if there was one:
        the same seed gives the same p-value. None for an asymptotic p-value.
    call : str
        Python that does the test again from the ``release``.
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
    seed: int | None = None
    call: str = field(default="", repr=False, compare=False)
    null_fit: LogLinearResults | None = field(default=None, repr=False, compare=False)

    @property
    def calibration(self) -> str:
        """Where the p-value comes from, in words."""
        if self.n_boot is None:
            return f"chi-square with {self.df} df (asymptotic)"
        start = "" if self.seed is None else f", seed {self.seed}"
        return f"parametric bootstrap of table and noise, {self.n_boot:,} replicates{start}"

    def __repr__(self) -> str:
        if self.reason:
            return f"<{self.name}: not done, because {self.reason}>"
        boot = "" if self.n_boot is None else f" by {self.n_boot:,} bootstrap replicates"
        return (
            f"<{self.name} of {self.null}: {self.method} chi2 = {self.statistic:.4g}, "
            f"df = {self.df}, {p_equals(self.pvalue)}{boot}; "
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
                ("P-value from", self.calibration),
                ("Accounts for", ", ".join(self.accounts_for)),
            ]
        lines += [("Note", note) for note in self.notes]
        return "\n".join(f"{label + ':':<14}{on_one_line(value)}" for label, value in lines)


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
