"""Bins: how a numeric column becomes a factor, by edges that are public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dpcontingency._labels import label_text
from dpcontingency.errors import DomainError

LARGEST_EDGE = 2**63 - 1  # of a whole number: what engines hold

# As text, because YAML and JSON have no such numbers; with a dot as YAML users write them.
_INFINITE = {f"{sign}{dot}inf": float(f"{sign}inf") for sign in ("", "-") for dot in ("", ".")}


class Bins:
    """Public edges that cut a numeric column into the levels of a factor.

    Parameters
    ----------
    edges : sequence of numbers
        At least two, increasing. ``-inf`` and ``inf`` make the first and the last bin open-ended.
        They are declared like levels, never computed from the records: quantiles of the data, or
        its smallest and largest value, would tell about single records.
    closed : {"left", "right"}, optional
        Which edge a bin holds: with "left", the lower one, so that ``Bins([0, 18, 65])`` is for
        ages in completed years. The last bin (with "right" the first one) holds both its edges, so
        that every finite edge lies in a bin.

    Raises
    ------
    DomainError
        If the edges are not at least two increasing numbers, or ``closed`` is unknown.

    Notes
    -----
    A number below the first or above the last edge, and an infinite one, is a value that the
    domain does not declare: `tabulate` refuses it.

    Examples
    --------
    >>> Bins([0, 18, 65, 120]).labels
    ('[0, 18)', '[18, 65)', '[65, 120]')
    >>> Bins([0, 1.5, float("inf")], closed="right").labels
    ('[0, 1.5]', '(1.5, inf)')
    """

    __slots__ = ("_closed", "_edges")

    _closed: str
    _edges: tuple[int | float, ...]

    def __init__(self, edges: Sequence[float], *, closed: str = "left") -> None:
        if closed not in ("left", "right"):
            raise DomainError(f"Bins are closed='left' or closed='right'; got {closed!r}.")
        object.__setattr__(self, "_edges", _checked_edges(edges))
        object.__setattr__(self, "_closed", closed)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Bins are immutable: make new ones.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("Bins are immutable: make new ones.")

    @property
    def edges(self) -> tuple[int | float, ...]:
        """The edges, one more than bins."""
        return self._edges

    @property
    def closed(self) -> str:
        """Which edge a bin holds."""
        return self._closed

    def __len__(self) -> int:
        return len(self._edges) - 1

    @property
    def labels(self) -> tuple[str, ...]:
        """What the bins are called as levels, unless the domain gives them other labels."""
        return tuple(
            f"{'(['[low_in]}{label_text(low)}, {label_text(high)}{')]'[high_in]}"
            for low, high, low_in, high_in in self.intervals()
        )

    def intervals(self) -> list[tuple[int | float, int | float, bool, bool]]:
        """The lower and upper edge of each bin, and whether it holds the one and the other."""
        left = self._closed == "left"
        last = len(self) - 1
        return [
            (
                low,
                high,
                (left or i == 0) and math.isfinite(low),
                (not left or i == last) and math.isfinite(high),
            )
            for i, (low, high) in enumerate(pairwise(self._edges))
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for YAML and JSON, which have no infinite numbers: those are text."""
        edges = [x if math.isfinite(x) else label_text(x) for x in self._edges]
        return {"edges": edges, "closed": self._closed}

    @classmethod
    def from_dict(cls, content: object) -> Bins:
        """Make the bins that `to_dict` wrote; a bare list of edges will do too."""
        if isinstance(content, Bins):
            return content
        content = {"edges": content} if isinstance(content, Sequence) else content
        if not isinstance(content, dict) or not {"edges"} <= set(content) <= {"edges", "closed"}:
            raise DomainError(
                f"Bins are a list of edges, or a mapping of 'edges' and 'closed'; got {content!r}."
            )
        edges = content["edges"]
        if isinstance(edges, list):
            edges = [_INFINITE.get(x, x) if isinstance(x, str) else x for x in edges]
        return cls(edges, closed=content.get("closed", "left"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bins):
            return NotImplemented
        return (self._edges, self._closed) == (other._edges, other._closed)

    def __hash__(self) -> int:
        return hash((self._edges, self._closed))

    def __repr__(self) -> str:
        edges = ", ".join(map(label_text, self._edges))
        return f"Bins([{edges}]{'' if self._closed == 'left' else ', closed=' + repr('right')})"

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        return Bins.from_dict, (self.to_dict(),)


def _checked_edges(edges: Sequence[float]) -> tuple[int | float, ...]:
    ordered = isinstance(edges, Sequence | np.ndarray) and not isinstance(edges, str | bytes)
    values = [v.item() if isinstance(v, np.generic) else v for v in edges] if ordered else []
    numbers = all(
        isinstance(v, float) or (type(v) is int and abs(v) <= LARGEST_EDGE) for v in values
    )
    if not numbers or len(values) < 2 or not all(a < b for a, b in pairwise(values)):
        raise DomainError(
            "The edges of bins are at least two numbers, each above the one before, such as "
            f"[0, 18, 65, 120]; got {edges!r}."
        )
    # -0.0 is 0, and small whole numbers are exact in every engine.
    return tuple(int(v) if abs(v) <= 2**53 and v == int(v) else v for v in values)
