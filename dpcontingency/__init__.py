"""Private contingency tables, and log-linear inference that allows for their noise."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from dpcontingency import errors
from dpcontingency.bins import Bins
from dpcontingency.domain import Domain
from dpcontingency.table import ConfidentialMargins, ContingencyTable
from dpcontingency.tabulate import tabulate, tabulate_margins

if TYPE_CHECKING:
    from dpcontingency.inference.association import (
        contingency_coefficient,
        cramers_v,
        gamma,
        kendall_tau_b,
        odds_ratio,
        phi,
        relative_risk,
        risk_difference,
        somers_d,
        uncertainty_coefficient,
    )
    from dpcontingency.inference.association_tests import CMHResult, cmh_test, trend_test
    from dpcontingency.inference.comparison import compare
    from dpcontingency.inference.estimates import Estimate
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
    from dpcontingency.inference.hypothesis import (
        goodness_of_fit_test,
        homogeneity_test,
        independence_test,
        model_test,
    )
    from dpcontingency.inference.layouts import joint_or_margins
    from dpcontingency.inference.loglinear import LogLinearModel
    from dpcontingency.inference.order_tests import kway_tests, partial_association
    from dpcontingency.inference.overview import association_overview
    from dpcontingency.inference.planning import (
        minimum_mu,
        minimum_n,
        power,
        power_curve,
        two_by_two,
    )
    from dpcontingency.inference.results import LogLinearResults
    from dpcontingency.inference.selection import step
    from dpcontingency.inference.square_tests import marginal_homogeneity_test, symmetry_test
    from dpcontingency.inference.testresult import TestResult
    from dpcontingency.privacy.gdp import GDP, epsilon_delta_trade_off
    from dpcontingency.privacy.ledger import PrivacyLedger
    from dpcontingency.release.comparison import compare_mechanisms
    from dpcontingency.release.margins import MarginRelease
    from dpcontingency.release.measurements import to_mbi
    from dpcontingency.release.mechanisms import (
        BlockJamesStein,
        Gaussian,
        JamesStein,
        Laplace,
        RankDeficientGaussian,
        RankDeficientJamesStein,
    )
    from dpcontingency.release.publish import release_table, simulate_release
    from dpcontingency.release.publish_margins import release_margins, simulate_margins
    from dpcontingency.release.release import Release, load_release
    from dpcontingency.release.workload import MarginPlan, plan_margins
    from dpcontingency.report import plots
    from dpcontingency.report.document import write_report

__version__ = version("dpcontingency")

__all__ = [
    "GDP",
    "Bins",
    "BlockJamesStein",
    "CMHResult",
    "ConfidentialMargins",
    "ContingencyTable",
    "Domain",
    "Estimate",
    "Gaussian",
    "JamesStein",
    "Laplace",
    "LogLinearModel",
    "LogLinearResults",
    "MarginPlan",
    "MarginRelease",
    "PrivacyLedger",
    "RankDeficientGaussian",
    "RankDeficientJamesStein",
    "Release",
    "TestResult",
    "all_kway",
    "association_overview",
    "cmh_test",
    "compare",
    "compare_mechanisms",
    "conditional",
    "conditional_independences",
    "contingency_coefficient",
    "cramers_v",
    "epsilon_delta_trade_off",
    "errors",
    "gamma",
    "goodness_of_fit_test",
    "homogeneity_test",
    "independence_test",
    "is_decomposable",
    "is_graphical",
    "joint",
    "joint_or_margins",
    "kendall_tau_b",
    "kway_tests",
    "load_release",
    "marginal_homogeneity_test",
    "minimum_mu",
    "minimum_n",
    "model_test",
    "mutual",
    "odds_ratio",
    "partial_association",
    "phi",
    "plan_margins",
    "plots",
    "power",
    "power_curve",
    "relative_risk",
    "release_margins",
    "release_table",
    "risk_difference",
    "saturated",
    "simulate_margins",
    "simulate_release",
    "somers_d",
    "step",
    "symmetry_test",
    "tabulate",
    "tabulate_margins",
    "to_mbi",
    "trend_test",
    "two_by_two",
    "uncertainty_coefficient",
    "write_report",
]

# Loaded when first asked for: scipy, statsmodels, numba and matplotlib are most of the time.
_HOMES = {
    "marginal_homogeneity_test": "inference.square_tests",
    "symmetry_test": "inference.square_tests",
    "model_test": "inference.hypothesis",
    "homogeneity_test": "inference.hypothesis",
    "goodness_of_fit_test": "inference.hypothesis",
    "trend_test": "inference.association_tests",
    "cmh_test": "inference.association_tests",
    "CMHResult": "inference.association_tests",
    "contingency_coefficient": "inference.association",
    "cramers_v": "inference.association",
    "gamma": "inference.association",
    "kendall_tau_b": "inference.association",
    "odds_ratio": "inference.association",
    "phi": "inference.association",
    "relative_risk": "inference.association",
    "risk_difference": "inference.association",
    "somers_d": "inference.association",
    "uncertainty_coefficient": "inference.association",
    "compare": "inference.comparison",
    "Estimate": "inference.estimates",
    "all_kway": "inference.families",
    "conditional": "inference.families",
    "conditional_independences": "inference.families",
    "is_decomposable": "inference.families",
    "is_graphical": "inference.families",
    "joint": "inference.families",
    "mutual": "inference.families",
    "saturated": "inference.families",
    "TestResult": "inference.testresult",
    "independence_test": "inference.hypothesis",
    "joint_or_margins": "inference.layouts",
    "LogLinearModel": "inference.loglinear",
    "association_overview": "inference.overview",
    "minimum_mu": "inference.planning",
    "minimum_n": "inference.planning",
    "power": "inference.planning",
    "power_curve": "inference.planning",
    "two_by_two": "inference.planning",
    # Where its `load` is made: in its own module it would still be statsmodels', which unpickles.
    "LogLinearResults": "inference.loglinear",
    "kway_tests": "inference.order_tests",
    "partial_association": "inference.order_tests",
    "step": "inference.selection",
    "GDP": "privacy.gdp",
    "epsilon_delta_trade_off": "privacy.gdp",
    "PrivacyLedger": "privacy.ledger",
    "compare_mechanisms": "release.comparison",
    "BlockJamesStein": "release.mechanisms",
    "Gaussian": "release.mechanisms",
    "JamesStein": "release.mechanisms",
    "Laplace": "release.mechanisms",
    "RankDeficientGaussian": "release.mechanisms",
    "RankDeficientJamesStein": "release.mechanisms",
    "MarginRelease": "release.margins",
    "to_mbi": "release.measurements",
    "release_table": "release.publish",
    "simulate_release": "release.publish",
    "release_margins": "release.publish_margins",
    "simulate_margins": "release.publish_margins",
    "Release": "release.release",
    "load_release": "release.release",
    "MarginPlan": "release.workload",
    "plan_margins": "release.workload",
    "plots": "report.plots",
    "write_report": "report.document",
}


def __getattr__(name: str) -> object:
    """Load a public name from its home when it is first asked for (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_HOMES[name]}")
    value = globals()[name] = getattr(module, name, module)
    return value


def __dir__() -> list[str]:
    return sorted(
        [*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"]
    )
