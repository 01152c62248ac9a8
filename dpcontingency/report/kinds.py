"""What a report says of a joint table and of released margins: each kind brings its own rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import stats

from dpcontingency.errors import DPContingencyError, PrivacyError, ReleaseError
from dpcontingency.inference.cells import AnyRelease, margin_of, part_for
from dpcontingency.inference.families import in_a_row
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release
from dpcontingency.report import plots
from dpcontingency.report.numbers import spread
from dpcontingency.report.parts import Cell, Fact, Section, Text, number
from dpcontingency.report.pictures import drawn
from dpcontingency.report.tables import cells_table, plan_table, scales_table
from dpcontingency.report.words import (
    columns_in_words,
    number_of,
    plan_in_words,
)

Array = npt.NDArray[np.float64]

LEVEL = 0.95  # of the intervals in a report
FEW = 4  # factors, all of whose margins are drawn
MAX_MARGINS = 30  # that are drawn otherwise
SAME = 1e-9


@dataclass(frozen=True)
class Kind(ABC):
    """How one kind of release is reported.

    Attributes
    ----------
    release : Release or MarginRelease
        What the report is about.
    """

    release: Any

    noun: ClassVar[str]  # what the release is a release of
    loader: ClassVar[str]  # Python that reads it from its file

    @abstractmethod
    def of(self, names: Sequence[str]) -> str:
        """What the release is of, after its noun."""

    @abstractmethod
    def scale(self) -> tuple[Cell, Cell]:
        """How much noise was added: its name and the number."""

    @abstractmethod
    def how_made(self) -> Iterator[Fact]:
        """How the noise was laid out, beyond what the release states itself."""

    @abstractmethod
    def released(self) -> Section:
        """What was released."""

    @abstractmethod
    def half_widths(self, margin: Any) -> Array:
        """Half the width of the intervals of a margin's cells, for the noise alone."""

    def part(self, names: Sequence[str]) -> Any:
        """The release of some factors, as models and tests of them have it."""
        return margin_of(self.release, names)

    @abstractmethod
    def same(self, one: Any, other: Any) -> bool:
        """Whether all numbers of the other release are in the one."""

    @abstractmethod
    def part_code(self, names: Sequence[str]) -> str:
        """Python that takes that part of ``release``."""

    def restriction_code(self, fit: LogLinearResults) -> str:
        """Python that takes some margins of that part, where the model is of some only."""
        return ""

    def wanted(self) -> Sequence[tuple[str, ...]]:
        """The margins of more than one factor whose cells are shown."""
        return ()

    def drawn_margins(self) -> Sequence[tuple[str, ...]] | None:
        """The margins whose noise is drawn; None where the plot chooses well."""
        return None

    def picture(self) -> Sequence[Section]:
        """What is drawn of the release as a whole."""
        return ()

    def has(self, other: AnyRelease) -> bool:
        """Whether another release is this one or a part of it."""
        try:
            part = self.part(other.domain.names)
        except DPContingencyError:
            return False
        return part.domain == other.domain and self.same(part, other)

    def one_way(self) -> Iterator[tuple[str, Any]]:
        """The margin of each factor that has one."""
        for name in self.release.domain.names:
            try:
                yield name, self.release.margin(name)
            except (ReleaseError, PrivacyError):
                continue

    def refused(self) -> Iterator[tuple[str, str]]:
        """Each factor without a margin, and why."""
        for name in self.release.domain.names:
            try:
                self.release.margin(name)
            except (ReleaseError, PrivacyError) as error:
                yield name, str(error)


@dataclass(frozen=True)
class OfTable(Kind):
    """A joint table."""

    release: Release

    noun: ClassVar[str] = "table"
    loader: ClassVar[str] = "dpc.load_release"

    def of(self, names: Sequence[str]) -> str:
        """A product."""
        return " × ".join(names)

    def scale(self) -> tuple[Cell, Cell]:
        """Sigma."""
        sd = self.release.noise_sd[self.release.domain.possible()]
        what = "sigma, scale of the noise on a cell"
        if self.release.noise.name == "Laplace":
            what = "b, scale of the Laplace noise on a cell, whose standard deviation is b √2"
        elif not np.allclose(sd, self.release.sigma):
            what += ", before it is made to leave the public totals as they are"
        name = Cell(what, "sigma")
        return name, number(self.release.sigma, f"{self.release.sigma:.5g}")

    def how_made(self) -> Iterator[Fact]:
        """The mechanism."""
        if self.release.mechanism is not None:
            yield Fact("mechanism", "Mechanism", repr(self.release.mechanism))

    def released(self) -> Section:
        """The cells."""
        said = [Text(sentence) for sentence in columns_in_words(self.release)]
        return Section("cells", "The released table", [*said, cells_table(self.release)])

    def drawn_margins(self) -> Sequence[tuple[str, ...]] | None:
        """Of many factors, those of one and of two, and the joint table."""
        names = self.release.domain.names
        if len(names) <= FEW:
            return None
        small = [(name,) for name in names] + list(combinations(names, 2))
        return [m for m in small[:MAX_MARGINS] if self._is_there(m)] + [names]

    def _is_there(self, names: Sequence[str]) -> bool:
        try:
            self.release.margin(*names)
        except ReleaseError:
            return False
        return True

    def picture(self) -> Sequence[Section]:
        """The mosaic plot."""
        return [mosaic_section(self.release)]

    def half_widths(self, margin: Release) -> Array:
        """By the law of the noise."""
        return margin.noise.half_widths(LEVEL)

    def same(self, one: Release, other: Release) -> bool:
        """The same noisy cells."""
        return isinstance(other, Release) and np.allclose(one.noisy, other.noisy, SAME, SAME)

    def part_code(self, names: Sequence[str]) -> str:
        """A margin."""
        return f"release.margin({_arguments(names)})"


@dataclass(frozen=True)
class OfMargins(Kind):
    """Margins with noise laid out by interaction."""

    release: MarginRelease

    noun: ClassVar[str] = "margins"
    loader: ClassVar[str] = "dpc.MarginRelease.load"

    def of(self, names: Sequence[str]) -> str:
        """A list."""
        return f"of {in_a_row(names)}"

    def scale(self) -> tuple[Cell, Cell]:
        """The spread in the wanted margins."""
        high = self.release.noise_range[1]
        name = Cell("largest standard deviation of the noise in a cell of a margin", "largest_sd")
        return name, number(high, spread(high))

    def how_made(self) -> Iterator[Fact]:
        """The plan."""
        plan = self.release.plan
        yield Fact("objective", "Scales chosen for", f"{plan.objective.replace('-', ' ')}")

    def released(self) -> Section:
        """The plan, before anything was spent."""
        said = [Text(sentence) for sentence in plan_in_words(self.release)]
        tables = [plan_table(self.release.plan), scales_table(self.release.plan)]
        return Section("plan", "The released margins", [*said, *tables])

    def wanted(self) -> Sequence[tuple[str, ...]]:
        """Those of the plan."""
        return [names for names in self.release.margins if len(names) > 1]

    def half_widths(self, margin: MarginRelease) -> Array:
        """By the normal law."""
        return np.asarray(stats.norm.isf((1 - LEVEL) / 2) * margin.noise_sd)

    def same(self, one: MarginRelease, other: MarginRelease) -> bool:
        """The same noisy contrasts with the same noise; the other may have only some of them."""
        if not isinstance(other, MarginRelease) or one.total != other.total:
            return False
        mine, scales = one.contrasts, one.plan.cell_scales
        return all(
            a in mine
            and scales[a] == scale
            and np.allclose(mine[a], other.contrasts[a], SAME, SAME)
            for a, scale in other.plan.cell_scales.items()
        )

    def part_code(self, names: Sequence[str]) -> str:
        """All that is known of some factors."""
        return f"release.collapse({_arguments(names)})"

    def restriction_code(self, fit: LogLinearResults) -> str:
        """Nothing where a model takes those margins by itself."""
        used = fit.model.release
        taken: Any = part_for(self.part(used.domain.names), fit.generators)
        if taken.plan.cell_scales.keys() == used.plan.cell_scales.keys():
            return ""
        return f".restrict({list(used.margins)!r})"


@singledispatch
def kind_of(release: object) -> Kind:
    """How a release is reported.

    Raises
    ------
    ReleaseError
        If it is none.
    """
    raise ReleaseError(
        f"A report is written about a Release or a MarginRelease; got {type(release).__name__}."
    )


@kind_of.register
def _(release: Release) -> Kind:
    return OfTable(release)


@kind_of.register
def _(release: MarginRelease) -> Kind:
    return OfMargins(release)


def _arguments(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def mosaic_section(release: Release) -> Section:
    """The released table as a picture."""
    title = "Mosaic plot"
    if len(release.domain.names) > plots.MAX_FACTORS:
        words = (
            f"A mosaic plot shows up to {plots.MAX_FACTORS} factors; draw one of a margin by "
            "dpc.plots.mosaic(release.margin(...))."
        )
        return Section("picture", title, [Text(words)])
    words = "Areas are proportional to the released cells."
    if plots.shading(release)[1] is not None:
        words += (
            " Shades are Pearson residuals from mutual independence of all factors, which allow "
            "for the noise."
        )
    if empty := int((release.noisy <= 0).sum()):
        words += f" A mark stands for each cell without area: {number_of(empty, 'cell')}."
    return Section("picture", title, [drawn("mosaic", words, lambda: plots.mosaic(release))])
