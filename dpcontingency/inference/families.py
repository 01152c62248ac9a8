"""Named families of hierarchical models, and what the graph of a generating class says.

Two factors are linked where some term holds both. Factors that are not linked are independent
given any set of others that separates them in this graph (the global Markov property).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError, did_you_mean, shown
from dpcontingency.inference.formula import Generators, generating_class, names_in
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release

Factors = Sequence[str] | Domain | Release | MarginRelease
Class = str | Iterable[str | Sequence[str]]  # a generating class as `LogLinearModel` takes it
Graph = Mapping[str, frozenset[str]]

# -- families -------------------------------------------------------------------------------------


def mutual(factors: Factors) -> Generators:
    """Mutual independence: every factor independent of all others.

    Parameters
    ----------
    factors : sequence of str, Domain or Release
        The factors, in axis order.

    Returns
    -------
    tuple of tuples of str
        A generating class, as `LogLinearModel` takes it.

    Examples
    --------
    >>> mutual(["A", "B", "C"])
    (('A',), ('B',), ('C',))
    """
    return all_kway(factors, 1)


def joint(factors: Factors, *, with_: str | Sequence[str]) -> Generators:
    """Joint independence: the factors in ``with_``, taken together, independent of the others.

    Examples
    --------
    >>> joint(["A", "B", "C"], with_="C")
    (('A', 'B'), ('C',))
    """
    names = _names(factors)
    chosen, others = _split(names, with_, "with_")
    return generating_class([others, chosen], names)


def conditional(factors: Factors, *, given: str | Sequence[str]) -> Generators:
    """Conditional independence: the other factors mutually independent at each level of ``given``.

    Examples
    --------
    >>> conditional(["Admit", "Gender", "Dept"], given="Dept")
    (('Admit', 'Dept'), ('Gender', 'Dept'))
    """
    names = _names(factors)
    chosen, others = _split(names, given, "given")
    return generating_class([[name, *chosen] for name in others], names)


def saturated(factors: Factors) -> Generators:
    """The saturated model: no restriction.

    Examples
    --------
    >>> saturated(["A", "B", "C"])
    (('A', 'B', 'C'),)
    """
    return (_names(factors),)


def all_kway(factors: Factors, k: int) -> Generators:
    """All terms of order k, and the lower ones inside them; k = 0 makes all cells equally likely.

    Examples
    --------
    >>> all_kway(["A", "B", "C"], 2)
    (('A', 'B'), ('A', 'C'), ('B', 'C'))
    """
    names = _names(factors)
    if k not in range(len(names) + 1):
        raise ModelError(
            f"The order of the terms is 0 to {len(names)}, the factors; got {shown(k)}."
        )
    return tuple(combinations(names, k)) if k else ()


def _names(factors: Factors) -> tuple[str, ...]:
    """The names of the factors, each once."""
    if isinstance(factors, Release | MarginRelease):
        factors = factors.domain
    if isinstance(factors, Domain):
        return factors.names
    if isinstance(factors, str):
        text = shown(factors)
        raise ModelError(f"Factors are a sequence of names; got {text}. Write [{text}].")
    if not isinstance(factors, Iterable):
        raise ModelError(
            f"Factors are a sequence of names, a Domain or a Release; got {shown(factors)}."
        )
    names = tuple(factors)
    if not names or len(set(names)) < len(names):
        listed = ", ".join(map(shown, names)) or "none"
        raise ModelError(f"Name one factor or more, each once; got {listed}.")
    return names


def _split(
    names: tuple[str, ...], chosen: str | Sequence[str], label: str
) -> tuple[list[str], list[str]]:
    """The chosen names and the others, neither of them empty."""
    wanted = [chosen] if isinstance(chosen, str) or not isinstance(chosen, Iterable) else [*chosen]
    for name in wanted:
        if name not in names:
            raise ModelError(
                f"{label} names {shown(name)}, no factor; {did_you_mean(str(name), names)}"
            )
    others = [name for name in names if name not in wanted]
    if not wanted or not others:
        raise ModelError(f"{label} names some of the factors, not all and not none of them.")
    return wanted, others


# -- the graph ------------------------------------------------------------------------------------


def is_graphical(generators: Class) -> bool:
    """Whether the model is given by its graph: any mutually linked factors share a generator.

    Parameters
    ----------
    generators : str or iterable
        The generating class, as `LogLinearModel` takes it. In a text without spaces, commas and
        backticks, capitals run together are one name each, as in ``"[AB][BC]"``.

    Raises
    ------
    ModelError
        If it is no generating class.

    Notes
    -----
    By Gilmore's theorem it is enough that for any three generators a, b, c some generator holds
    (a & b) | (b & c) | (a & c), so no list of cliques is made.

    References
    ----------
    Darroch, Lauritzen and Speed (1980); Berge, *Graphs and Hypergraphs* (1973), chapter 17.

    Examples
    --------
    >>> is_graphical((("A", "C"), ("B", "C"))), is_graphical("[AB][AC][BC]")
    (True, False)
    """
    margins = [frozenset(margin) for margin in _read(generators)]
    return all(
        any((a & b) | (b & c) | (a & c) <= margin for margin in margins)
        for a, b, c in combinations(margins, 3)
    )


def is_decomposable(generators: Class) -> bool:
    """Whether the model is graphical with a graph that has no cycle of four or more without chord.

    Its fitted cells are then products and quotients of margins, when there is no noise.

    Parameters
    ----------
    generators : str or iterable
        The generating class, as for `is_graphical`.

    Raises
    ------
    ModelError
        If it is no generating class.

    Notes
    -----
    Factors are taken in the order of maximum cardinality search; the graph is chordal when those
    before a factor that are linked to it are linked to each other (Tarjan and Yannakakis 1984).

    Examples
    --------
    >>> [is_decomposable(model) for model in ("[AB][BC][CD]", "[AB][BC][CD][AD]")]
    [True, False]
    """
    generators = _read(generators)
    linked = links(generators)
    rest, visited = list(linked), set[str]()
    while rest:
        name = max(rest, key=lambda n: len(linked[n] & visited))
        if any(b not in linked[a] for a, b in combinations(linked[name] & visited, 2)):
            return False
        rest.remove(name)
        visited.add(name)
    return is_graphical(generators)


def conditional_independences(generators: Class, names: Sequence[str] | None = None) -> list[str]:
    """What the model says of each two factors that no term links, a sentence each.

    Each is given the fewest factors that the sentence is true with: without one of them it is not
    implied any more. Together the sentences do not say what a model that is not graphical says of
    higher interactions.

    Parameters
    ----------
    generators : str or iterable
        The generating class, as for `is_graphical`.
    names : sequence of str, optional
        All factors, in the order in which to name them; by default that of the generators.

    Raises
    ------
    ModelError
        If it is no generating class, or has a factor that is not among ``names``.

    Examples
    --------
    >>> conditional_independences((("A", "B"), ("B", "C"), ("D",)))
    ['A and C are independent given B.', 'A and D are independent.', 'B and D are independent.',
     'C and D are independent.']
    """
    return [
        f"{a} and {b} are independent{' given ' if given else ''}{in_a_row(given)}."
        for a, b, given in separations(generators, names)
    ]


def separations(
    generators: Class, names: Sequence[str] | None = None
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Each two factors that are not linked, and a minimal set of others that separates them.

    Of the minimal sets next to either of the two, the smaller one.
    """
    names = names_in(generators) if names is None else _names(names)
    linked = links(generating_class(generators, names), names)
    out = []
    for a, b in combinations(linked, 2):
        if b not in linked[a]:
            given = min((_wall(linked, a, b), _wall(linked, b, a)), key=len)
            out.append((a, b, tuple(name for name in linked if name in given)))
    return out


def links(generators: Generators, names: Sequence[str] | None = None) -> Graph:
    """The graph of a generating class: each factor of the model, and those linked to it."""
    used = dict.fromkeys(name for margin in generators for name in margin)
    order = used if names is None else [name for name in names if name in used]
    return {
        name: frozenset(n for margin in generators if name in margin for n in margin) - {name}
        for name in order
    }


def components(linked: Graph) -> list[list[str]]:
    """The factors in groups that no link joins, in the order of their first factors."""
    groups: list[list[str]] = []
    for name in linked:
        if not any(name in group for group in groups):
            reached = _reached(linked, name, frozenset())
            groups.append([n for n in linked if n in reached])
    return groups


def in_a_row(names: Sequence[str]) -> str:
    """Names as a sentence lists them.

    Examples
    --------
    >>> in_a_row(["A", "B", "C"])
    'A, B and C'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _read(generators: Class) -> Generators:
    """A generating class whose factors are known by it alone."""
    return generating_class(generators, names_in(generators))


def _wall(linked: Graph, near: str, far: str) -> frozenset[str]:
    """The factors linked to ``near`` that are met on the way from ``far``: all are needed."""
    beyond = _reached(linked, far, linked[near])
    return frozenset(name for name in linked[near] if linked[name] & beyond)


def _reached(linked: Graph, start: str, without: frozenset[str]) -> set[str]:
    """The factors that a path from ``start`` reaches without stepping on some."""
    reached, ahead = {start}, [start]
    while ahead:
        new = linked[ahead.pop()] - without - reached
        reached |= new
        ahead += new
    return reached
