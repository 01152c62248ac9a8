"""Junction trees: distributions on tables too large to write down, by their clique margins.

A distribution p proportional to exp(sum over cliques C of f_C(x_C)), the cliques those of a chordal
graph, has all its sums by passing messages along a tree of cliques: two neighbours share a
separator, and cliques on either side of it are independent given it. A table of all cliques' cells,
one after the other, takes the place of the joint table: logarithms f in one, margins in another.

The covariance of functions of single cliques comes by the same two passes, without any joint table
of two cliques: E[g | x_C] is carried from clique to clique by p(x_D | x_S), S between C and D.

References
----------
Lauritzen and Spiegelhalter (1988), J. R. Statist. Soc. B 50; Lauritzen, *Graphical Models* (1996),
sections 2.1 and 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import combinations
from string import ascii_letters
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpcontingency.inference.quotient import over

Array = npt.NDArray[np.float64]
Axes = tuple[int, ...]


class Edge(NamedTuple):
    """A clique beside its parent, by their places in the tree; what they share."""

    child: int
    parent: int
    shared: Axes


class JunctionTree:
    """A tree of cliques of a chordal graph in which some sets of axes are complete.

    Parameters
    ----------
    shape : sequence of int
        The number of levels of each axis.
    sets : iterable of iterables of int
        Each lies in a clique. An axis in none is a clique by itself. Where the graph of the sets
        is not chordal, links are added, by the greedy rule of the fewest at each step.

    Attributes
    ----------
    cliques : tuple of tuples of int
        Sorted axes of each.
    edges : tuple of Edge
        From the leaves to the root, which is clique 0. Components are joined by an empty set.
    size : int
        The cells of all cliques together, an exact number: nothing of that size exists yet.

    Examples
    --------
    >>> tree = JunctionTree([2, 2, 3], [(0, 1), (1, 2)])
    >>> tree.cliques, tree.size
    (((0, 1), (1, 2)), 10)
    >>> log_sum, margins = tree.sums(np.zeros(10))
    >>> round(float(np.exp(log_sum))), margins.round(3).tolist()[:4]
    (12, [0.25, 0.25, 0.25, 0.25])
    """

    def __init__(self, shape: Sequence[int], sets: Iterable[Iterable[int]]) -> None:
        self.shape = tuple(shape)
        self.cliques = _chordal_cliques(len(self.shape), list(map(frozenset, sets)))
        self.edges = _tree(self.cliques)
        self._sizes = [math.prod(self.shape[k] for k in clique) for clique in self.cliques]
        self.size = sum(self._sizes)

    @property
    def largest(self) -> int:
        """The cells of the largest clique."""
        return max(self._sizes)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where the cells of each clique stand among all."""
        ends = np.cumsum(self._sizes).tolist()
        return tuple(slice(end - n, end) for end, n in zip(ends, self._sizes, strict=True))

    def home(self, axes: Iterable[int]) -> int:
        """The first clique that holds some axes."""
        wanted = set(axes)
        return next(i for i, clique in enumerate(self.cliques) if wanted <= set(clique))

    def sums(self, logs: Array) -> tuple[float, Array]:
        """Log sum exp of all joint cells, and the margins of the cliques.

        Parameters
        ----------
        logs : ndarray, shape (size,)
            f, the terms of the logarithm of each joint cell; -inf in a cell that is impossible.

        Returns
        -------
        log_sum : float
        margins : ndarray, shape (size,)
            Of the distribution proportional to their exponentials.
        """
        beliefs = self._split(logs)
        up = {}
        for child, parent, shared in self.edges:
            up[child] = _log_sum_exp(beliefs[child], self._out(child, shared))
            beliefs[parent] = beliefs[parent] + self._in(up[child], shared, parent)
        root = tuple(range(beliefs[0].ndim))
        log_sum = float(_log_sum_exp(beliefs[0], root))
        for child, parent, shared in reversed(self.edges):
            whole = _log_sum_exp(beliefs[parent], self._out(parent, shared))
            # Where the child rules a cell out it stays so, whatever the parent says.
            down = np.subtract(
                whole, up[child], out=np.zeros_like(whole), where=up[child] > -np.inf
            )
            beliefs[child] = beliefs[child] + self._in(down, shared, child)
        flat = np.concatenate([table.ravel() for table in beliefs])
        return log_sum, np.exp(flat - log_sum)

    def expectations(self, margins: Array, functions: Array) -> Array:
        """E[g | x_C] of sums g of functions of single cliques, in every cell of every clique.

        Parameters
        ----------
        margins : ndarray, shape (size,)
            Margins of the cliques, that agree; of any total.
        functions : ndarray, shape (m, size)
            The parts of each g.

        Returns
        -------
        ndarray, shape (m, size)
            0 in cells of probability 0.
        """
        p, known = self._split(margins), self._split(functions)
        up = {}
        for child, parent, shared in self.edges:
            up[child] = self._given(known[child], p[child], child, shared)
            known[parent] = known[parent] + self._in(up[child], shared, parent)
        for child, parent, shared in reversed(self.edges):
            whole = self._given(known[parent], p[parent], parent, shared)
            known[child] = known[child] + self._in(whole - up[child], shared, child)
        flat = np.concatenate([table.reshape(len(functions), -1) for table in known], axis=1)
        return np.where(margins > 0, flat, 0.0)

    def margin(self, margins: Array, axes: Sequence[int]) -> Array:
        """The margin over any axes, in the order given: products of conditionals, summed out.

        Parameters
        ----------
        margins : ndarray, shape (size,)
            Margins of the cliques, that agree.
        axes : sequence of int
            The axes; the result has one for each. Its size is the caller's concern.
        """
        wanted = set(axes)
        tables = self._split(margins)
        held: dict[int, list[tuple[Array, Axes]]] = {i: [] for i in range(len(self.cliques))}
        for child, parent, shared in self.edges:
            below = wanted & {*self.cliques[child], *(k for _, at in held[child] for k in at)}
            if below <= set(shared):
                continue  # the conditionals below add up to 1
            total = tables[child].sum(axis=self._out(child, shared))
            share = over(tables[child], self._in(total, shared, child))
            kept = tuple(sorted(below | set(shared)))
            parts = [(share, self.cliques[child]), *held[child]]
            held[parent].append((_contract(parts, kept), kept))
        return _contract([(tables[0], self.cliques[0]), *held[0]], tuple(axes))

    def drawn(self, margins: Array, total: int | None, rng: np.random.Generator) -> Array:
        """Counts in the cliques of records drawn from a distribution, shape (size,).

        Given the counts of what two cliques share, those of one are independent of the other's.

        Parameters
        ----------
        margins : ndarray, shape (size,)
            Means of the cliques, that agree.
        total : int or None
            The number of records; None where it is Poisson.
        rng : numpy.random.Generator
            Where they come from.
        """
        p = [table.copy() for table in self._split(margins)]
        whole = float(p[0].sum())
        n = int(rng.poisson(whole)) if total is None else total
        counts = {0: rng.multinomial(n, p[0].ravel() / whole).reshape(p[0].shape)}
        for child, parent, shared in reversed(self.edges):
            above = counts[parent].sum(axis=self._out(parent, shared))
            axes = self.cliques[child]
            order = [axes.index(k) for k in (*shared, *(k for k in axes if k not in shared))]
            table = p[child].transpose(order)
            rows = table.reshape(above.size, -1)
            sums = rows.sum(axis=1, keepdims=True)
            even = np.full(rows.shape, 1 / rows.shape[1])
            share = np.where(sums > 0, over(rows, sums), even)
            drawn = rng.multinomial(above.ravel(), share).reshape(table.shape)
            counts[child] = drawn.transpose(np.argsort(order))
        parts = [counts[i].ravel() for i in range(len(self.cliques))]
        return np.concatenate(parts).astype(np.float64)

    # -- parts ---------------------------------------------------------------------------------

    def _split(self, flat: Array) -> list[Array]:
        """The clique tables of the last axis of an array."""
        return [
            flat[..., place].reshape(*flat.shape[:-1], *(self.shape[k] for k in clique))
            for place, clique in zip(self.places, self.cliques, strict=True)
        ]

    def _out(self, clique: int, kept: Axes) -> Axes:
        """The positions of a clique's axes that are not kept, counted from the last."""
        axes = self.cliques[clique]
        return tuple(i - len(axes) for i, axis in enumerate(axes) if axis not in kept)

    def _in(self, table: Array, axes: Axes, clique: int) -> Array:
        """A table of some axes of a clique, made to broadcast against tables of the clique."""
        ahead = table.ndim - len(axes)
        sizes = [self.shape[k] if k in axes else 1 for k in self.cliques[clique]]
        return table.reshape(*table.shape[:ahead], *sizes)

    def _given(self, values: Array, p: Array, clique: int, shared: Axes) -> Array:
        """The expectation given the shared axes of functions of a clique."""
        out = self._out(clique, shared)
        return over((values * p).sum(axis=out), p.sum(axis=out))


def _contract(parts: Sequence[tuple[Array, Axes]], kept: Axes) -> Array:
    """The product of tables, summed over all axes but those kept, which come in this order."""
    named = dict(zip(sorted({k for _, axes in parts for k in axes}), ascii_letters, strict=False))
    terms = ["".join(named[k] for k in axes) for axes in [*(axes for _, axes in parts), kept]]
    recipe = ",".join(terms[:-1]) + "->" + terms[-1]
    tables = [table for table, _ in parts]
    return np.asarray(np.einsum(recipe, *tables, optimize=len(tables) > 2))


def _log_sum_exp(table: Array, axes: Axes) -> Array:
    """Log sum exp over some axes, -inf where all is."""
    top = table.max(axis=axes, keepdims=True)
    top = np.where(top > -np.inf, top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(table - top).sum(axis=axes)) + top.squeeze(axis=axes))


def _chordal_cliques(n: int, sets: Sequence[frozenset[int]]) -> tuple[Axes, ...]:
    """The maximal cliques of a chordal graph on 0 .. n - 1 in which the sets are complete.

    Axes are taken away one by one, always one whose neighbours lack the fewest links, which are
    then added: none where the graph is chordal.
    """
    linked: list[set[int]] = [set() for _ in range(n)]
    for axis, links in enumerate(linked):
        links.update(*(one for one in sets if axis in one))
        links.discard(axis)
    missing = {axis: _missing(linked, axis) for axis in range(n)}
    found: list[frozenset[int]] = []
    while missing:
        axis = min(missing, key=lambda k: (missing[k], len(linked[k]), k))
        around = linked[axis]
        new = missing[axis] > 0
        found.append(frozenset({axis, *around}))
        for k in around:
            linked[k] |= around - {k}
            linked[k].discard(axis)
        del missing[axis]
        # What may have changed: the neighbours that lacked some, and beside a new link theirs.
        near = set().union(around, *(linked[k] for k in around if new))
        near = {k for k in near if new or missing[k]}
        missing |= {k: _missing(linked, k) for k in near}
    # A set taken later is no larger than what is left of an earlier one.
    maximal = [one for i, one in enumerate(found) if not any(one <= big for big in found[:i])]
    return tuple(sorted(tuple(sorted(one)) for one in maximal))


def _missing(linked: Sequence[set[int]], axis: int) -> int:
    """How many links the neighbours of an axis lack to be complete."""
    return sum(b not in linked[a] for a, b in combinations(linked[axis], 2))


def _tree(cliques: Sequence[Axes]) -> tuple[Edge, ...]:
    """A spanning tree of the largest separators (Prim): a junction tree of a chordal graph."""
    sets = [set(clique) for clique in cliques]
    best = {i: (len(sets[0] & sets[i]), 0) for i in range(1, len(sets))}
    out = []
    while best:
        child = max(best, key=lambda i: (best[i][0], -i))
        parent = best.pop(child)[1]
        out.append(Edge(child, parent, tuple(sorted(sets[child] & sets[parent]))))
        for i, (size, _) in best.items():
            if len(sets[child] & sets[i]) > size:
                best[i] = (len(sets[child] & sets[i]), child)
    return tuple(reversed(out))
