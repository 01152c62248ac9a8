"""A release of either kind, or a loss, as plain data and as labelled lines."""

from __future__ import annotations

from typing import Any

from dpcontingency.inference.cells import AnyRelease
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.workload import MarginPlan
from dpcontingency.report import plain
from dpcontingency.report.tables import DELTA
from dpcontingency.report.words import size_of


def release_as_data(made: AnyRelease) -> dict[str, Any]:
    """What a release says of itself; its cells stay in its file."""
    if not isinstance(made, MarginRelease):
        return {**plain.of_release(made), "margins": None}
    plan = plan_as_data(made.plan)
    return {
        "factors": plan["factors"],
        "cells": sum(margin["cells"] for margin in plan["margins"]),
        "private": made.private,
        **loss_as_data(made.privacy),
        "sigma": None,
        "neighbours": made.neighbours,
        "strata": [],
        "mechanism": None,
        "n_total": made.n_total_estimate,
        "n_total_se": made.n_total_se,
        "margins": plan["margins"],
    }


def plan_as_data(plan: MarginPlan) -> dict[str, Any]:
    """What a plan of margins says of them."""
    return {
        "factors": {name: len(levels) for name, levels in plan.domain.levels.items()},
        "margins": [
            {
                "factors": list(names),
                "cells": plan.domain.project(names).size,
                "sd": plan.sd(*names),
            }
            for names in plan.margins
        ],
        **loss_as_data(plan.privacy),
        "neighbours": plan.neighbours,
        "objective": plan.objective,
        "total_variance": plan.total_variance,
        "max_variance": plan.max_variance,
        "bound": plan.bound,
    }


def loss_as_data(privacy: GDP) -> dict[str, Any]:
    """A loss in its three currencies."""
    return {
        "mu": privacy.mu,
        "epsilon": privacy.epsilon(DELTA),
        "delta": DELTA,
        "rho": privacy.rho,
    }


def release_as_facts(made: AnyRelease) -> dict[str, str]:
    """What a reader must know of a release."""
    return {"Table": size_of(made), **made.statement()}
