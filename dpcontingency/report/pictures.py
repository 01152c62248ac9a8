"""The plots of a report, as pictures that are drawn when a renderer asks for them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from dpcontingency.report import plots
from dpcontingency.report.parts import Picture


def drawn(key: str, caption: str, paint: Callable[[], Axes]) -> Picture:
    """A picture of what a plot function draws on axes of its own.

    For readers who do not see it, it says what the plot says of itself.
    """

    def draw(prefix: str) -> str:
        ax = paint()
        figure = ax.figure.get_figure(root=True)
        assert figure is not None
        try:
            return _unique(plots.svg(figure, str(ax.get_label()) or caption, prefix))
        finally:
            plt.close(figure)

    return Picture(key, caption, draw)


def _unique(svg: str) -> str:
    """Ids that are given to several marks, numbered from the second on."""
    seen: Counter[str] = Counter()

    def numbered(found: re.Match[str]) -> str:
        seen[found[1]] += 1
        count = seen[found[1]]
        return found[0] if count == 1 else f' id="{found[1]}-again{count}"'

    return re.sub(r'\sid="([^"]*)"', numbered, svg)
