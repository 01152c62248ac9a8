"""Private contingency tables, and log-linear inference that allows for their noise."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from dpcontingency import errors
from dpcontingency.bins import Bins
from dpcontingency.domain import Domain
from dpcontingency.inference.comparison import compare
from dpcontingency.inference.families import (
    all_kway,
    conditional,
    conditional_independences,
    is_decomposable,
    is_graphical,
    joint,
    mutual,
    saturated,
)
from dpcontingency.inference.hypothesis import TestResult, independence_test
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.selection import kway_tests, partial_association, step
from dpcontingency.privacy.gdp import GDP, epsilon_delta_trade_off
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.release.comparison import compare_mechanisms
from dpcontingency.release.mechanisms import (
    BlockJamesStein,
    Gaussian,
    JamesStein,
    Laplace,
    RankDeficientGaussian,
    RankDeficientJamesStein,
)
from dpcontingency.release.publish import release_table, simulate_release
from dpcontingency.release.release import Release, load_release
from dpcontingency.table import ConfidentialMargins, ContingencyTable
from dpcontingency.tabulate import tabulate, tabulate_margins

if TYPE_CHECKING:
    from dpcontingency.report import plots
    from dpcontingency.report.document import write_report

__version__ = version("dpcontingency")

__all__ = [
    "GDP",
    "Bins",
    "BlockJamesStein",
    "ConfidentialMargins",
    "ContingencyTable",
    "Domain",
    "Gaussian",
    "JamesStein",
    "Laplace",
    "LogLinearModel",
    "LogLinearResults",
    "PrivacyLedger",
    "RankDeficientGaussian",
    "RankDeficientJamesStein",
    "Release",
    "TestResult",
    "all_kway",
    "compare",
    "compare_mechanisms",
    "conditional",
    "conditional_independences",
    "epsilon_delta_trade_off",
    "errors",
    "independence_test",
    "is_decomposable",
    "is_graphical",
    "joint",
    "kway_tests",
    "load_release",
    "mutual",
    "partial_association",
    "plots",
    "release_table",
    "saturated",
    "simulate_release",
    "step",
    "tabulate",
    "tabulate_margins",
    "write_report",
]


def __getattr__(name: str) -> object:
    """Load what draws when it is first asked for: it is over a quarter of the import time."""
    if name == "plots":
        from dpcontingency.report import plots

        return plots
    if name == "write_report":
        from dpcontingency.report.document import write_report

        return write_report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
