"""The scales of a layout that leave the wanted margins the least noise for a loss.

In precisions u_A = 1 / s_A^2 the variances are sums of c_A / u_A and the squared loss is the
largest of linear functions of u, so the problem is convex. With multipliers t on the margins and q
on the loss, on simplices, its dual is to maximise

    F(t, q) = sum_A sqrt(x_A y_A),   x_A = sum_S t_S c_SA,   y_A = sum_D q_D a_AD,

and u_A = sqrt(x_A / y_A) is best at the maximum. Any t and q tell how far from the best their u is:
once made to spend the loss, its value is at most (largest squared loss)(largest variance) / F^2
times the best one.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from dpcontingency._language import argument
from dpcontingency.errors import PrivacyError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.layout import Layout, Loss

Array = npt.NDArray[np.float64]

GAP = 1e-6  # how far from the best value the search may stop, relative
MAX_ROUNDS = 500
BARRIERS = (1e-2, 1e-4, 1e-6, 1e-7)
MAX_STEPS = 100
MAX_KINDS = 5000


def best_precisions(layout: Layout, loss: Loss, objective: str) -> Array:
    """Precisions u by kind of interaction that are best up to their common factor.

    Constraints are generated: a search on the patterns known so far, then the worst pattern at
    its end is added, until that is no worse than those known.
    """
    by_margin = layout.cell_variances(layout.kinds)
    if objective == "total-variance":
        variances = (layout.total_weights @ by_margin)[None, :]
    elif len(layout.kinds) > MAX_KINDS:
        raise PrivacyError(
            f"The largest variance is minimised over at most {MAX_KINDS:,} kinds of margins; these "
            f"are of {len(layout.kinds):,} kinds. Use {argument('objective', 'total-variance')}."
        )
    else:
        variances = by_margin.todense() * layout.largest_weights[:, None]
    first = loss.first_rows()
    rows = first
    t, q = np.full(variances.shape[0], 1 / variances.shape[0]), np.full(len(rows), 1 / len(rows))
    for _ in range(MAX_ROUNDS):
        t, q = _search(variances, rows, t, q)
        u, value = _at(variances, rows, t, q)
        squared_loss, worst = loss.worst(u)
        if squared_loss * float((variances @ (1 / u)).max()) <= (1 + GAP) * value**2:
            break
        fresh = _new_rows(rows, worst)
        if not len(fresh):
            break
        # Patterns whose multiplier went to nothing are left out, but for the first: without them
        # some interaction might cost nothing.
        kept = (q > 1e-9 * q.max()) | (np.arange(len(q)) < len(first))
        rows = np.vstack([rows[kept], fresh])
        q = np.append(q[kept], np.full(len(fresh), 0.1 * q.max() / len(fresh)))
        q /= q.sum()
    return u


def _at(variances: Array, rows: Array, t: Array, q: Array) -> tuple[Array, float]:
    """The precisions that multipliers call for, and F."""
    x, y = t @ variances, q @ rows
    return np.sqrt(x / y), float(np.sqrt(x * y).sum())


def _search(variances: Array, rows: Array, t: Array, q: Array) -> tuple[Array, Array]:
    """Maximise log F(t, q) - (sum t + sum q) / 2 over positive multipliers.

    F is homogeneous of degree 1/2 in each argument, so the sums are 1 at the maximum. Newton steps
    with a logarithmic barrier, which is lowered from one search to the next.
    """
    if len(t) == len(q) == 1:
        return t, q
    z = np.maximum(np.concatenate([t, q]), 1e-6 / (len(t) + len(q)))
    for smallness in BARRIERS:
        z = _centred(variances, rows, z, smallness / z.size)
    t, q = z[: len(t)], z[len(t) :]
    return t / t.sum(), q / q.sum()


def _centred(variances: Array, rows: Array, z: Array, barrier: float) -> Array:
    """Minimise (sum z) / 2 - log F(z) - barrier sum log z, a convex function, by Newton steps."""
    first = variances.shape[0]

    def height(z: Array) -> float:
        x, y = z[:first] @ variances, z[first:] @ rows
        return float(z.sum() / 2 - math.log(np.sqrt(x * y).sum()) - barrier * np.log(z).sum())

    now = height(z)
    for _ in range(MAX_STEPS):
        x, y = z[:first] @ variances, z[first:] @ rows
        root = np.sqrt(x * y)
        value = root.sum()
        slope = np.concatenate([variances @ (root / x), rows @ (root / y)]) / (2 * value)
        gradient = 0.5 - slope - barrier / z
        cross = (variances / root) @ rows.T
        by_x, by_y = variances * (root / x**2) @ variances.T, rows * (root / y**2) @ rows.T
        bend = np.block([[by_x, -cross], [-cross.T, by_y]]) / (4 * value)
        # In units of z, in which the barrier is a multiple of the identity.
        hessian = (bend + np.outer(slope, slope)) * np.outer(z, z)
        hessian[np.diag_indices(z.size)] += barrier
        step = -cho_solve(cho_factor(hessian), z * gradient)
        promise = -float(step @ (z * gradient))
        if promise <= 1e-3 * barrier:
            break
        length = min(1.0, 0.9 / max(-float(step.min()), 1e-300))
        while (then := height(z * (1 + length * step))) > now - 0.1 * length * promise:
            length /= 2
            if length < 1e-10:
                return z
        z, now = z * (1 + length * step), then
    return z


def _new_rows(rows: Array, worst: Array) -> Array:
    """Those of the worst rows that are not known yet."""
    known = {row.tobytes() for row in rows}
    return np.array([row for row in worst if row.tobytes() not in known])


def budgeted_scales(precisions: Array, loss: Loss, privacy: GDP) -> Array:
    """The scales s_A in the proportions of these precisions that spend the loss, rounded up."""
    squared, _ = loss.worst(precisions)
    # The factor covers the rounding of the scales themselves; `worst` covers that of the loss.
    factor = math.sqrt(squared) / privacy.mu * (1 + 1e-12)
    return np.nextafter(factor / np.sqrt(precisions), np.inf)
