"""Releases, tests and fits as plain data, for JSON."""

from __future__ import annotations

import math
from typing import Any

from dpcontingency.inference.printing import is_bound
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.tables import GoodnessOfFit
from dpcontingency.inference.testresult import TestResult
from dpcontingency.release.release import Release
from dpcontingency.report.tables import DELTA


def of_release(release: Release) -> dict[str, Any]:
    """What a release says of itself; its cells stay in its file."""
    privacy = release.privacy
    return {
        "factors": {name: len(levels) for name, levels in release.domain.levels.items()},
        "cells": int(release.domain.possible().sum()),
        "private": release.private,
        "mu": None if privacy is None else privacy.mu,
        "epsilon": None if privacy is None else privacy.epsilon(DELTA),
        "delta": DELTA,
        "rho": None if privacy is None else privacy.rho,
        "sigma": release.sigma,
        "neighbours": release.neighbours,
        "strata": list(release.strata),
        "mechanism": None if release.mechanism is None else release.mechanism.to_dict(),
        "n_total": release.n_total_estimate,
        "n_total_se": release.n_total_se,
    }


def of_test(test: TestResult) -> dict[str, Any]:
    """A test, without the fit of its null model."""
    return {
        "name": test.name,
        "null": test.null,
        "statistic": _number(test.statistic),
        "df": test.df,
        "pvalue": _number(test.pvalue),
        "log_pvalue": _number(test.log_pvalue),
        "pvalue_is_bound": test.pvalue_is_bound,
        "method": test.method,
        "n_boot": test.n_boot,
        "seed": test.seed,
        "accounts_for": list(test.accounts_for),
        "reason": test.reason,
        "notes": list(test.notes),
    }


def of_fit(fit: LogLinearResults, gof: GoodnessOfFit | None = None) -> dict[str, Any]:
    """A fit, with its goodness of fit as asked for, or else; what is not finite is None."""
    rows = fit.coefficients()
    numbers = ["estimate", "se_sampling", "se_privacy", "se", "z", "pvalue", "privacy_share"]
    coefficients = [
        {"name": name}
        | {key: _number(row[key]) for key in numbers}
        | {"interval": [_number(row["lower"]), _number(row["upper"])], "method": row["method"]}
        for name, row in rows.iterrows()
    ]
    gof = fit.gof() if gof is None else gof
    tests = [
        {"test": str(name), "statistic": _number(row["statistic"]), "df": int(row["df"]),
         "pvalue": _number(row["pvalue"]), "pvalue_is_bound": is_bound(row["pvalue"], gof.n_boot),
         "note": gof.notes.get(str(name), "")}
        for name, row in gof.iterrows()
    ]  # fmt: skip
    return {
        "private": fit.model.release.private,
        "model": fit.generating_class,
        "generators": [list(margin) for margin in fit.generators],
        "special_terms": list(fit.special_terms),
        "factors": list(fit.model.release.domain.names),
        "equally_likely": list(fit.model.uniform_factors),
        "coding": fit.model.coding,
        "method": fit.method,
        "penalty": fit.penalty,
        "converged": fit.converged,
        "reason": fit.reason,
        "not_estimable": list(fit.existence.parameters),
        "llf": fit.llf,
        "aic": fit.aic,
        "bic": fit.bic,
        "df_model": fit.df_model,
        "df_resid": fit.df_resid,
        "gof": tests,
        "coefficients": coefficients,
    }


def _number(value: float) -> float | None:
    """A number for JSON, which knows neither nan nor inf."""
    return float(value) if math.isfinite(value) else None
