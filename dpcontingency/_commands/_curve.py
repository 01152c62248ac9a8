"""The picture of a plan: power against the loss."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from dpcontingency import _writing
from dpcontingency._commands._shared import misuse
from dpcontingency.domain import Domain
from dpcontingency.inference.planning import power_curve
from dpcontingency.inference.questions import Question
from dpcontingency.report import plots

FORMATS = (".svg", ".png", ".pdf")
POINTS, DECADES = 41, 1.0  # of the curve, and on both sides of the loss

Planned = tuple[Domain, Any, int, str, float, Question]


def check_format(path: Path) -> None:
    """Refuse what is no picture."""
    if path.suffix.lower() not in FORMATS:
        misuse(f"A curve is a file that ends in {', '.join(FORMATS)}; got {path.name}.")


def draw_curve(path: Path, planned: Planned, mu: float, wanted: float) -> None:
    """Draw the power of a test around a loss, for half, all and twice the records."""
    domain, cells, n, test, alpha, question = planned
    losses = mu * 10 ** np.linspace(-DECADES, DECADES, POINTS)
    numbers = sorted({max(1, n // 2), n, 2 * n})
    frame = power_curve(domain, cells, numbers, [*losses, math.inf], test, alpha, **question)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    plots.power_curve(frame, ax=figure.add_subplot(), wanted=wanted)
    buffer, kind = io.BytesIO(), path.suffix.lower()[1:]
    # No clock in the file: same plan, same bytes.
    dated = {"svg": "Date", "pdf": "CreationDate"}.get(kind)
    with mpl.rc_context({"svg.hashsalt": "dpcontingency"}):
        figure.savefig(buffer, format=kind, dpi=150, metadata={dated: None} if dated else None)
    _writing.write_bytes(path, buffer.getvalue())
