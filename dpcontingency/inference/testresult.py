"""What a test of a hypothesis returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from dpcontingency._labels import on_one_line
from dpcontingency.inference.printing import is_bound, p_equals
from dpcontingency.inference.pvalues import chi2_logsf, text_of
from dpcontingency.inference.statistic import STATISTICS


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
        The statistic, the degrees of freedom of its chi-square reference, the upper tail; the last
        is nan where the test could not be done or no p-value is calibrated.
    log_pvalue : float
        The natural logarithm of the p-value, finite where the p-value underflows.
    method : str
        The statistic: "likelihood-ratio", "score", "Wald", or "Pearson on the James-Stein table".
    n_boot : int or None
        Bootstrap replicates behind the p-value, None for an asymptotic one.
    accounts_for : tuple of str
        The sources of variation in the p-value: "sampling", "noise".
    reason : str
        Why there is no p-value (``pvalue`` is then nan): the test could not be done, or chi-square
        does not hold and no bootstrap was made; else empty.
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
    null_fit: Any = field(default=None, repr=False, compare=False)

    @property
    def pvalue_is_bound(self) -> bool:
        """Whether the p-value is the least that the replicates can give: it is at most that.

        Such p-values are ties; ``statistic`` and ``df`` tell them apart.
        """
        return is_bound(self.pvalue, self.n_boot)

    @property
    def pvalue_text(self) -> str:
        """The p-value as printed; a bound with what chi-square would say beyond it."""
        chi_square = any(k.is_chi_square and k.label == self.method for k in STATISTICS.values())
        known = chi_square and math.isfinite(self.statistic) and self.df > 0
        beyond = chi2_logsf(self.statistic, self.df) if known else math.nan
        return text_of(self.pvalue, self.n_boot, beyond)

    @property
    def calibration(self) -> str:
        """Where the p-value comes from, in words."""
        if self.n_boot is None:
            return f"chi-square with {self.df} df (asymptotic)"
        start = "" if self.seed is None else f", seed {self.seed}"
        return f"parametric bootstrap of table and noise, {self.n_boot:,} replicates{start}"

    @property
    def reason_label(self) -> str:
        """What the reason is a reason for: that nothing was done, or that there is no p-value."""
        return "Not done" if math.isnan(self.statistic) else "No p-value"

    def __repr__(self) -> str:
        if math.isnan(self.statistic):
            return on_one_line(f"<{self.name}: not done, because {self.reason}>")
        boot = "" if self.n_boot is None else f" by {self.n_boot:,} bootstrap replicates"
        tail = f"no p-value, because {self.reason}" if self.reason else (
            f"{p_equals(self.pvalue, self.n_boot)}{boot}"
        )  # fmt: skip
        return on_one_line(
            f"<{self.name} of {self.null}: {self.method} chi2 = {self.statistic:.4g}, "
            f"df = {self.df}, {tail}; accounts for {' and '.join(self.accounts_for)}>"
        )

    def summary(self) -> str:
        """The test as a small text table."""
        lines = [("Test", self.name), ("Null", self.null), ("Method", self.method)]
        if not math.isnan(self.statistic):
            lines += [("Statistic", f"{self.statistic:z.4f}"), ("Df", str(self.df))]
        if self.reason:
            lines.append((self.reason_label, self.reason))
        else:
            lines += [
                ("P-value", self.pvalue_text),
                ("P-value from", self.calibration),
                ("Accounts for", ", ".join(self.accounts_for)),
            ]
        lines += [("Note", note) for note in self.notes]
        return "\n".join(f"{label + ':':<14}{on_one_line(value)}" for label, value in lines)
