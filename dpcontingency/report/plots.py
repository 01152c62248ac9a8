"""Plots of released tables: matplotlib Axes in, Axes out; and their way into a document.

Nothing in a table stops a plot: negative, zero and impossible cells, unobserved levels and factors
with one level are drawn, with no area and a mark where there is nothing to draw. Colours can be
told apart by colour-blind readers and are never alone in saying something; ``svg`` makes a figure
follow dark mode. Each plot keeps a description of itself in words, ``ax.get_label()``.
"""

from dpcontingency.report.association import association
from dpcontingency.report.curves import power_curve, trade_off
from dpcontingency.report.drawing import INK, LONGEST, SHADES, svg
from dpcontingency.report.forest import coefficients, odds_ratios
from dpcontingency.report.fourfold import fourfold
from dpcontingency.report.heat_map import heat_map
from dpcontingency.report.mosaic import GAPS, mosaic
from dpcontingency.report.noise import noise_versus_signal
from dpcontingency.report.residuals import MAX_FACTORS, shading

__all__ = [
    "GAPS",
    "INK",
    "LONGEST",
    "MAX_FACTORS",
    "SHADES",
    "association",
    "coefficients",
    "fourfold",
    "heat_map",
    "mosaic",
    "noise_versus_signal",
    "odds_ratios",
    "power_curve",
    "shading",
    "svg",
    "trade_off",
]
