"""Noise laid out by interaction: what it costs in privacy, and what it leaves in each margin.

A set A of factors has the table N_A of their joint counts, and in it the interaction Q_A N_A,
Q_A the product over A of (I - J / n_k): what no smaller margin tells. The layout releases
Q_A (N_A + s_A z_A), z_A standard normal on the cells, for every A inside a wanted margin. A margin
S is the sum of its interactions, each divided over the cells of S, so

* a cell of S has variance  sum over A in S of s_A^2 prod_A (1 - 1/n_k) prod_{S-A} n_k^-2;
* under ``replace-one``, two records that differ exactly on the factors D give
  mu^2(D) = sum over A of (2 / s_A^2) prod_A (1 - 1/n_k) (1 - prod_{A and D} -1/(n_k - 1)),
  and mu^2 is the largest of these; the total is public;
* under ``add-remove``, where A may be empty, mu^2 = sum over A of prod_A (1 - 1/n_k) / s_A^2.

(METHODS 1.5, with s_A^2 = sigma_A^2 prod_{k not in A} n_k, the scale in cells of A's own margin:
sigma_A would underflow in large domains.)

Factors that may be exchanged, having as many levels and the same part in the wanted margins, are of
one class. The best scales are then the same for sets that hold equally many factors of each
class (the problem is convex: averaging over exchanges keeps the loss and costs nothing), and such
a set is written as its counts, one a class. mu^2(D) depends on D through its counts alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from dpcontingency.errors import PrivacyError

Array = npt.NDArray[np.float64]
Axes = tuple[int, ...]
Counts = tuple[int, ...]

MAX_PATTERNS = 2**20  # kinds of disagreement that are looked at one by one
FEW_PATTERNS = 128
MAX_INTERACTIONS = 2_000_000
MAX_LISTED = 17_000_000  # numbers in the lists of kinds of interactions: 160 MB
MAX_MARGIN_CELLS = 10**100  # beyond which variances are no floats

# Sums of positive terms in floats: 2^20 patterns by at most 20 steps are good to 1e-14.
ROUNDING = 1e-12

EXACT = "exact: the largest over all patterns in which two records can differ"
CLOSED = "exact: every record adds the same to it"
SAFE = (
    "a safe bound: each interaction counts as if two records differed where it shows them best, "
    "so the true loss is smaller"
)


@dataclass(frozen=True)
class Classes:
    """Factors in classes of exchangeable ones.

    Attributes
    ----------
    members : tuple of tuples of int
        The axes of each class. Axes of one level, and those in no margin, are in none.
    levels : tuple of int
        How many levels a factor of each class has.
    """

    members: tuple[Axes, ...]
    levels: Counts

    @classmethod
    def of(cls, shape: Sequence[int], weights: Mapping[frozenset[int], float]) -> Classes:
        """Sort the axes of some weighted margins into classes."""
        holding: dict[int, list[frozenset[int]]] = {}
        for margin in weights:
            for axis in margin:
                if shape[axis] > 1:
                    holding.setdefault(axis, []).append(margin)

        def exchangeable(one: int, other: int) -> bool:
            if shape[one] != shape[other] or len(holding[one]) != len(holding[other]):
                return False
            # A margin with both or neither stays itself.
            return all(
                weights.get(margin - {old} | {new}) == weights[margin]
                for old, new in ((one, other), (other, one))
                for margin in holding[old]
                if new not in margin
            )

        members: list[list[int]] = []
        for axis in sorted(holding):
            home = next((group for group in members if exchangeable(group[0], axis)), None)
            if home is None:
                members.append([axis])
            else:
                home.append(axis)
        return cls(tuple(map(tuple, members)), tuple(shape[group[0]] for group in members))

    @property
    def sizes(self) -> Counts:
        """How many factors each class has."""
        return tuple(map(len, self.members))

    @cached_property
    def class_of(self) -> dict[int, int]:
        """The class of each axis."""
        return {axis: c for c, group in enumerate(self.members) for axis in group}

    def counts(self, axes: Iterable[int]) -> Counts:
        """How many axes of each class a set has."""
        out = [0] * len(self.members)
        for axis in axes:
            if axis in self.class_of:
                out[self.class_of[axis]] += 1
        return tuple(out)

    def sets(self, counts: Counts) -> Iterator[Axes]:
        """All sets with these counts, as sorted axes."""
        chosen = (combinations(group, c) for group, c in zip(self.members, counts, strict=True))
        for parts in product(*chosen):
            yield tuple(sorted(axis for part in parts for axis in part))

    def number(self, counts: Counts) -> int:
        """How many sets have these counts."""
        return math.prod(map(math.comb, self.sizes, counts))


class Layout:
    """The interactions inside some margins, and what their scales do to the margins.

    Parameters
    ----------
    shape : sequence of int
        The number of levels of each factor.
    margins : mapping of frozenset of int to float
        The wanted margins as sets of axes, with their positive weights.
    with_total : bool
        Whether the empty set is released too (the total, under ``add-remove``).

    Attributes
    ----------
    kinds : tuple of tuples of int
        The counts of the wanted margins, each kind once.
    total_weights, largest_weights : ndarray
        For each kind, the cells of all its margins times their weights, and the largest weight.
    interactions : tuple of tuples of int
        The counts of the released interactions, each kind once, small sets first.
    numbers, shares : ndarray
        How many interactions are of each kind, and prod_A (1 - 1/n_k).

    Raises
    ------
    PrivacyError
        If there are more than two million interactions.
    """

    def __init__(
        self, shape: Sequence[int], margins: Mapping[frozenset[int], float], *, with_total: bool
    ) -> None:
        self.classes = Classes.of(shape, margins)
        # Axes of one level do not count, so two margins may be of one kind, with two weights.
        total: dict[Counts, float] = {}
        largest: dict[Counts, float] = {}
        for margin, weight in margins.items():
            kind = self.classes.counts(margin)
            total[kind] = total.get(kind, 0.0) + weight
            largest[kind] = max(largest.get(kind, 0.0), weight)
        self.kinds = tuple(total)
        self.interactions = self._closure(with_total)
        numbers = [self.classes.number(a) for a in self.interactions]
        if (count := sum(numbers)) > MAX_INTERACTIONS:
            said = f"{count:,}" if count < 10**15 else f"more than 10^{len(str(count)) - 1}"
            raise PrivacyError(
                f"These margins hold {said} interactions, more than the {MAX_INTERACTIONS:,} that "
                "can be laid out. Ask for fewer or smaller margins."
            )
        cells = [math.prod(map(pow, self.classes.levels, kind)) for kind in self.kinds]
        if max(cells) > MAX_MARGIN_CELLS:
            raise PrivacyError(
                f"A margin has more than 10^{len(str(max(cells))) - 1} cells, which no count falls "
                "in. Ask for smaller margins."
            )
        self.total_weights = np.array(list(total.values())) * np.array(cells, dtype=float)
        self.largest_weights = np.array(list(largest.values()))
        self.numbers = np.array(numbers, dtype=float)
        self.shares = np.array([self.share(a) for a in self.interactions])

    def _closure(self, with_total: bool) -> tuple[Counts, ...]:
        found: set[Counts] = set()
        most = min(MAX_INTERACTIONS, MAX_LISTED // max(len(self.classes.members), 1))
        for kind in self.kinds:
            if math.prod(c + 1 for c in kind) > most:
                raise PrivacyError(
                    f"A margin of {sum(kind)} factors holds more than the {most:,} interactions "
                    "that can be laid out. Ask for smaller margins."
                )
            for counts in product(*(range(c + 1) for c in kind)):
                found.add(counts)
                if len(found) > most:
                    raise PrivacyError(
                        f"These margins hold more than the {most:,} different interactions that "
                        "can be laid out. Ask for fewer or smaller margins."
                    )
        if not with_total:
            found.discard((0,) * len(self.classes.members))
        return tuple(sorted(found, key=lambda a: (sum(a), tuple(-c for c in a))))

    def share(self, counts: Counts) -> float:
        """The squared length prod_A (1 - 1/n_k) that one record has in an interaction."""
        return math.prod((1 - 1 / n) ** c for n, c in zip(self.classes.levels, counts, strict=True))

    def cell_variances(self, kinds: Sequence[Counts]) -> csr_array:
        """What s^2 of each kind of interaction adds to the variance of a cell of each margin.

        Returns
        -------
        sparse array, shape (kinds of margins, kinds of interactions)
            Members of a kind of interaction together.
        """
        place = {a: j for j, a in enumerate(self.interactions)}
        levels = self.classes.levels
        rows, columns, values = [], [], []
        for i, kind in enumerate(kinds):
            for a in product(*(range(c + 1) for c in kind)):
                if a in place:
                    inside = math.prod(map(math.comb, kind, a))
                    spread = math.prod(
                        n ** (2.0 * (x - c)) for n, c, x in zip(levels, kind, a, strict=True)
                    )
                    rows.append(i)
                    columns.append(place[a])
                    values.append(inside * spread * self.share(a))
        shape = (len(kinds), len(self.interactions))
        return csr_array((values, (rows, columns)), shape=shape)


class Loss(ABC):
    """The squared loss as the largest of linear functions of the precisions u_A = 1 / s_A^2.

    A row holds the coefficients of one such function, by kind of interaction.
    """

    in_words: str

    @abstractmethod
    def first_rows(self) -> Array:
        """Rows in which every kind of interaction has a positive coefficient somewhere."""

    @abstractmethod
    def worst(self, precisions: Array) -> tuple[float, Array]:
        """The squared loss, and rows that attain it or nearly so."""


class SingleLoss(Loss):
    """A squared loss that is one linear function.

    Parameters
    ----------
    row : ndarray
        Its coefficients.
    in_words : str
        Whether it is the loss itself, or only a bound from above.
    """

    def __init__(self, row: Array, in_words: str) -> None:
        self.row, self.in_words = row, in_words

    def first_rows(self) -> Array:
        """The row."""
        return self.row[None, :]

    def worst(self, precisions: Array) -> tuple[float, Array]:
        """The squared loss and its row."""
        return math.fsum(self.row * precisions) * (1 + ROUNDING), self.row[None, :]


class PatternLoss(Loss):
    """The exact loss under ``replace-one``: the largest over all patterns of disagreement.

    Notes
    -----
    With b_A = 2 u_A prod_A (1 - 1/n_k) the patterns D have mu^2(D) = T(0) - T(D),
    T(D) = sum_A b_A prod_{A and D} r_k, r = -1/(n - 1). Of a class of m factors, the sets with a
    of them meet a pattern with d of them in j factors C(d, j) C(m - d, a - j) times, so T is a
    product of small matrices, one a class: all patterns at once, by a transform.
    """

    in_words = EXACT

    def __init__(self, layout: Layout) -> None:
        classes = layout.classes
        self.layout = layout
        self._shape = tuple(m + 1 for m in classes.sizes)
        self._positions = tuple(np.array(layout.interactions, dtype=np.intp).T)
        # Of 300 factors that are alike no interaction may have more than two.
        self._most = [int(counts.max(initial=0)) for counts in self._positions]
        self._matrices = [
            _meetings(m, most, -1 / (n - 1))
            for m, most, n in zip(classes.sizes, self._most, classes.levels, strict=True)
        ]

    def rows(self, patterns: npt.NDArray[np.intp]) -> Array:
        """The coefficients for some patterns, given by their counts: one row a pattern."""
        meets: Array = np.ones((len(patterns), len(self.layout.interactions)))
        for c, matrix in enumerate(self._matrices):
            meets *= matrix[self._positions[c]][:, patterns[:, c]].T
        return np.asarray(2 * self.layout.shares * (self.layout.numbers - meets))

    def first_rows(self) -> Array:
        """Disagreements on one factor, of each class, and on all; or, if they are few, all."""
        if math.prod(self._shape) <= FEW_PATTERNS:
            return self.rows(np.argwhere(np.ones(self._shape))[1:])
        patterns = np.vstack([np.eye(len(self._shape)), np.array(self._shape) - 1])
        return self.rows(patterns.astype(np.intp))

    def all_losses(self, precisions: Array) -> Array:
        """The squared loss of every pattern, an axis a class."""
        table = np.zeros([most + 1 for most in self._most])
        table[self._positions] = 2 * precisions * self.layout.shares
        for axis, matrix in enumerate(self._matrices):
            table = np.moveaxis(np.tensordot(matrix, table, axes=(0, axis)), 0, axis)
        return np.asarray(table.flat[0] - table)

    def worst(self, precisions: Array) -> tuple[float, Array]:
        """The squared loss, and the rows of the worst patterns."""
        losses = self.all_losses(precisions).ravel()
        few = np.argpartition(losses, -min(8, losses.size))[-min(8, losses.size) :]
        top = float(losses[few].max())
        few = few[losses[few] >= (1 - 1e-3) * top]
        patterns = np.stack(np.unravel_index(few, self._shape), axis=1)
        return top * (1 + ROUNDING), self.rows(patterns)


def loss_of(layout: Layout, *, replace_one: bool) -> Loss:
    """The loss of a layout under one of the two relations.

    Beyond 2^20 kinds of disagreement it is bounded from above: each interaction counts as if the
    two records differed where it shows them best, in one factor, of the fewest levels.
    """
    if not replace_one:
        return SingleLoss(layout.numbers * layout.shares, CLOSED)
    if math.prod(m + 1 for m in layout.classes.sizes) <= MAX_PATTERNS:
        return PatternLoss(layout)
    levels = layout.classes.levels
    fewest = [min(n for n, c in zip(levels, a, strict=True) if c) for a in layout.interactions]
    worst = np.array([n / (n - 1) for n in fewest])
    return SingleLoss(2 * layout.numbers * layout.shares * worst, SAFE)


def _meetings(m: int, most: int, r: float) -> Array:
    """Sum over the sets with a of m factors of r^(factors shared with d of them), at [a, d].

    For a up to ``most``, shape (most + 1, m + 1).
    """
    # C(d, j) at [j, d]: exact integers, rounded once.
    chosen = np.array([[float(math.comb(d, j)) for d in range(m + 1)] for j in range(most + 1)])
    powers = r ** np.arange(most + 1.0)
    out = np.zeros((most + 1, m + 1))
    for a in range(most + 1):
        for j in range(a + 1):
            out[a] += powers[j] * chosen[j] * chosen[a - j, ::-1]
    return out
