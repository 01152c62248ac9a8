"""The three notations of a model, each read into a generating class; a formula also into terms.

A formula is data, not code: names are looked up among the factors and nothing is evaluated. The
algebra of terms (``+ - * : / **``) is patsy's own, on placeholders for factors and named terms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from patsy import ModelDesc, PatsyError
from patsy.parse_formula import ParseNode, parse_formula

from dpcontingency._language import phrase
from dpcontingency.errors import ModelError, did_you_mean, shown
from dpcontingency.inference.terms import (
    ALLOWED,
    KINDS,
    Named,
    SpecialTerm,
    checked_named,
    maximal_terms,
    quoted,
)

Generators = tuple[tuple[str, ...], ...]

MAX_TEXT = 2**16  # characters of a formula
MAX_TERMS = 2**18  # of a model: all up to three-way of a hundred factors, all of eighteen

_QUOTED = r"`(?P<tick>[^`]*)`|Q\(\s*(?P<quote>[\"'])(?P<q>.*?)(?P=quote)\s*\)"
_TOKEN = re.compile(rf"\s*(?:{_QUOTED}|(?P<op>\*\*|[-+*:/()])|(?P<word>\w+)|(?P<bad>\S))")
_ARGUMENT = re.compile(rf"\s*(?:{_QUOTED}|(?P<word>\w+))\s*(?P<after>[,)])")
_CALL = re.compile(r"([\w.]+)\s*\(")
# A doubled backtick is one that belongs to the name. What has matched is not tried otherwise (*+),
# which would take time exponential in the backticks.
_TICKED = r"`((?:[^`]|``)*+)`"
_BRACKET = re.compile(rf"\s*+\[((?:{_TICKED}|[^\]`])*+)\]\s*+")
_ODD = re.compile(r"[\[\]`,]|[^\S ]|^\s|\s$|^$")  # what a name in brackets is quoted for


def generating_class(
    model: str | Iterable[str | Sequence[str]], names: Sequence[str]
) -> Generators:
    """The generating class that a bracket string or a list of margins stands for.

    Parameters
    ----------
    model : str or iterable
        ``"[A B][B C]"`` (names apart by spaces or commas, or run together when every name is one
        character; backticks around any name, and doubled inside it), or
        ``[("A", "B"), ("B", "C")]``.
    names : sequence of str
        The factors, in axis order.

    Returns
    -------
    tuple of tuples of str
        The maximal margins, factors in axis order, margins in the order of their factors.

    Raises
    ------
    ModelError
        If a name is unknown or the text is not a generating class.

    Examples
    --------
    >>> generating_class("[AB][BC][B]", ["A", "B", "C"])
    (('A', 'B'), ('B', 'C'))
    >>> generating_class([("my a", "x:y")], ["x:y", "my a"])
    (('x:y', 'my a'),)
    """
    if isinstance(model, str):
        return _maximal([_bracket(inside, names) for inside in _insides(model)], names)
    if not isinstance(model, Iterable):
        raise ModelError(
            f"A model is '[A B][B C]' or a list of margins such as [('A', 'B'), ('B', 'C')]; got "
            f"{shown(model)}."
        )
    margins = [
        list(margin) if isinstance(margin, Iterable) and not isinstance(margin, str) else [margin]
        for margin in model
    ]
    return _maximal([[_known(name, names) for name in margin] for margin in margins], names)


def read_formula(formula: str, names: Sequence[str]) -> tuple[Generators, tuple[SpecialTerm, ...]]:
    """The generating class and the special terms that a patsy right-hand side spans.

    Parameters
    ----------
    formula : str
        Factor names (plain, in backticks or as ``Q("...")``) and the terms ``score(A)``,
        ``Diag(A, B)`` and ``Symm(A, B)``, joined by ``+ - * : / ** ( )``. As patsy codes
        categorical terms, ``A:B`` alone spans what ``A*B`` does, and ``A:score(B)`` what
        ``score(B) + A:score(B)`` does. A factor may bear the name of a term: a term is a name
        with a bracket after it.
    names : sequence of str
        The factors, in axis order.

    Raises
    ------
    ModelError
        If a name is unknown, the formula holds anything else (another call, a number as a
        variable), or it takes the intercept away.

    Examples
    --------
    >>> read_formula("(A + B + C)**2 - A:C", ["A", "B", "C"])
    ((('A', 'B'), ('B', 'C')), ())
    >>> margins, terms = read_formula("A + B + score(A):score(B)", ["A", "B"])
    >>> margins, [term.text for term in terms]
    ((('A',), ('B',)), ['score(A):score(B)'])
    """
    if not isinstance(formula, str):
        raise ModelError(f"A formula is text such as 'A*B + B*C'; got {shown(formula)}.")
    if len(formula) > MAX_TEXT:
        raise ModelError(
            f"A formula has at most {MAX_TEXT:,} characters, and this one has {len(formula):,}: "
            "give the margins as lists of names."
        )
    text = formula.strip().removeprefix("~")
    pieces, named = _placeholders(text, names)
    try:
        tree = parse_formula(pieces)
        _check_number(_most_terms(tree)[0])
        terms = ModelDesc.from_formula(tree).rhs_termlist
    except (PatsyError, RecursionError) as error:
        reason = str(error).splitlines()[0] if isinstance(error, PatsyError) else "it is too long"
        raise ModelError(
            f"The formula {_short(formula)} cannot be read: {reason}. Write a right-hand side such "
            "as 'A*B + B*C'."
        ) from None
    margins, special, intercept = [], [], False
    for term in terms:
        codes = [f.name() for f in term.factors]
        factors = [names[int(code[1:])] for code in codes if code[0] == "f"]
        of_name = [named[int(code[1:])] for code in codes if code[0] == "s"]
        intercept |= not codes
        if of_name:
            factors.sort(key=list(names).index)
            of_name.sort(key=lambda one: (one.kind, [list(names).index(f) for f in one.factors]))
            special.append(SpecialTerm(tuple(factors), tuple(of_name)))
        else:
            margins.append(factors)
    if not intercept:
        raise ModelError(
            f"The formula {_short(formula)} takes the intercept away, but a log-linear model "
            "always has one. Leave out '- 1' and '+ 0'."
        )
    return _maximal(margins, names), maximal_terms(special, names)


def read_special(terms: Iterable[str], names: Sequence[str]) -> tuple[SpecialTerm, ...]:
    """The special terms that some texts such as ``"A:score(B)"`` stand for.

    Raises
    ------
    ModelError
        If a text is no special term.
    """
    if isinstance(terms, str):
        terms = (terms,)
    if not isinstance(terms, Iterable):
        raise ModelError(
            "Special terms are a sequence of texts such as ['score(A):score(B)'], () for none; "
            f"got {shown(terms)}."
        )
    found: list[SpecialTerm] = []
    for text in terms:
        margins, special = read_formula(text, names)
        if margins or not special:
            raise ModelError(
                f"{text!r} is no special term: those are products with score(A), Diag(A, B) or "
                "Symm(A, B) in them. Other terms belong in the generating class."
            )
        found += special
    return maximal_terms(found, names)


def formula_text(generators: Generators, terms: Sequence[SpecialTerm]) -> str:
    """A formula that `read_formula` reads into this model.

    Examples
    --------
    >>> formula_text((("my a", "B"), ("C",)), ())
    '`my a`*B + C'
    """
    pieces = ["*".join(map(quoted, margin)) for margin in generators]
    return " + ".join([*pieces, *(term.formula for term in terms)]) or "1"


def show(
    generators: Generators, terms: Sequence[SpecialTerm] = (), names: Sequence[str] = ()
) -> str:
    """A generating class in brackets and what comes on top of it.

    Names are as typed; all are in backticks where one has characters that the notation uses, or
    reads as several of ``names``, so that `generating_class` reads the brackets.

    Examples
    --------
    >>> show((("A", "B"), ("C",))), show((("my a", "B"), ("C",))), show((("a]b", "B"),))
    ('[A B][C]', '[my a, B][C]', '[`a]b` `B`]')
    >>> show(*read_formula("A + B + A:score(B)", ["A", "B"]))
    '[A][B] + A:score(B)'
    """
    used = {name for margin in generators for name in margin}
    known = used.union(names)
    two_ways = any(" " in name and known.issuperset(name.split()) for name in known)
    if two_ways or any(_ODD.search(name) for name in used):
        quoted_names = {name: "`" + name.replace("`", "``") + "`" for name in used}
        generators = tuple(tuple(quoted_names[name] for name in m) for m in generators)
        sep = " "
    else:
        sep = ", " if any(" " in name for name in used) else " "
    margins = "".join(f"[{sep.join(margin)}]" for margin in generators)
    return " + ".join([*filter(None, [margins]), *(term.text for term in terms)]) or "[]"


def subsets(generators: Generators, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Every non-empty term of a hierarchical model, lower orders first, in axis order."""
    terms = {
        tuple(name for i, name in enumerate(margin) if choice >> i & 1)
        for margin in generators
        for choice in range(1, 2 ** len(margin))
    }
    place = {name: i for i, name in enumerate(names)}
    return sorted(terms, key=lambda term: (len(term), [place[name] for name in term]))


_OPENING = {"**", "-", "+", "*", ":", "/", "("}  # what a name may follow


def _short(text: str) -> str:
    """A model in a message."""
    return shown(text, 200)


def _check_number(terms: int) -> None:
    """Refuse a model of more terms than can be written down."""
    if terms > MAX_TERMS:
        raise ModelError(
            f"The model may have more than {MAX_TERMS:,} terms, which are too many to write down: "
            "name fewer factors, or lower orders."
        )


def _most_terms(tree: ParseNode) -> tuple[int, frozenset[str]]:
    """How many terms a formula can have at most, and the factors in it; nothing is multiplied out.

    Raises
    ------
    ModelError
        If some part has too many.
    """
    if tree.type in ("PYTHON_EXPR", "NUMBER", "ONE", "ZERO"):
        return 1, frozenset([tree.token.extra])
    if tree.type == "**":
        (count, names), power = _most_terms(tree.args[0]), tree.args[1].token
        order = int(power.extra) if power and power.extra.isdigit() else 1  # which patsy refuses
        total = sum(math.comb(count, k) for k in range(1, min(order, count, 64) + 1))
    else:
        counts, inside = zip(*map(_most_terms, tree.args), strict=True)
        names = frozenset().union(*inside)
        total = sum(counts) if tree.type != ":" else 0
        if tree.type in ("*", ":"):
            total += math.prod(counts)
    _check_number(min(total, 2 ** min(len(names), 64)) if tree.type == "**" else total)
    return min(total, 2 ** min(len(names), 64)), names


def _maximal(margins: Sequence[Sequence[str]], names: Sequence[str]) -> Generators:
    sets = {frozenset(margin) for margin in margins if margin}
    maximal, inside = [], set[frozenset[str]]()  # the latter what larger ones hold, one smaller
    largest = max(map(len, sets), default=0)
    _check_number(2 ** min(largest, 64))
    for size in range(largest, 0, -1):
        new = [s for s in sets if len(s) == size and s not in inside]
        maximal += new
        inside = {s - {name} for s in {*new, *(s for s in inside if len(s) == size)} for name in s}
        _check_number(len(inside))
    place = {name: i for i, name in enumerate(names)}
    ordered = [tuple(sorted(s, key=place.__getitem__)) for s in maximal]
    return tuple(sorted(ordered, key=lambda margin: [place[name] for name in margin]))


def _known(name: object, names: Sequence[str]) -> str:
    if name not in names:
        raise ModelError(
            f"The model names {shown(name)}, which is no factor; {did_you_mean(str(name), names)}"
        )
    return str(name)


def names_in(model: str | Iterable[str | Sequence[str]]) -> tuple[str, ...]:
    """The factors that a generating class names, in the order in which it names them.

    In a text without spaces, commas and backticks, capitals run together are one name each.

    Raises
    ------
    ModelError
        If it is no generating class, or a text that leaves open where names end.

    Examples
    --------
    >>> names_in("[AB][BC]"), names_in("[Admit Dept][Dept]"), names_in([("x", "y"), "z"])
    (('A', 'B', 'C'), ('Admit', 'Dept'), ('x', 'y', 'z'))
    """
    if not isinstance(model, Iterable):
        generating_class(model, ())  # refuses it
    if not isinstance(model, str):
        margins = [[m] if isinstance(m, str) else m for m in model]
        return tuple(dict.fromkeys(str(name) for margin in margins for name in margin))
    insides = [inside.strip() for inside in _insides(model)]
    if any("`" in inside for inside in insides):
        words = [word for inside in insides for word in _ticked(inside)]
    elif any("," in inside for inside in insides):
        words = [word.strip() for inside in insides for word in inside.split(",")]
    elif any(len(inside.split()) > 1 for inside in insides):
        words = [word for inside in insides for word in inside.split()]
    elif all(len(inside) < 2 or re.fullmatch("[A-Z]+", inside) for inside in insides):
        words = list("".join(insides))
    else:
        raise ModelError(
            f"{_short(model)} does not say where a name ends: write spaces between the names "
            "of a bracket and backticks around one that stands alone, or lists of names such as "
            "[('A', 'B'), ('C',)]."
        )
    return tuple(dict.fromkeys(filter(None, words)))


def _insides(text: str) -> list[str]:
    """What stands in each bracket."""
    insides, position = [], 0
    while position < len(text):
        match = _BRACKET.match(text, position)
        if match is None:
            raise ModelError(
                f"{_short(text)} is not a generating class: write '[A B][B C]', or use "
                f"{phrase('LogLinearModel.from_formula', '--formula')} for a formula such as "
                "'A*B + B*C'."
            )
        insides.append(match.group(1))
        position = match.end()
    return insides


def _ticked(text: str) -> list[str]:
    """Names with backticks around some."""
    found = re.findall(rf"{_TICKED}|([^\s,`]+)", text)
    return [ticked.replace("``", "`") or plain for ticked, plain in found]


def _bracket(inside: str, names: Sequence[str]) -> list[str]:
    """The factors of one bracket; a name that can be read in two ways is refused."""
    text = inside.strip()
    if "`" in text:
        return [_known(word, names) for word in _ticked(text)]
    elif text in names and all(word in names for word in text.split()) and " " in text:
        raise ModelError(f"[{text}] can be read in two ways: put backticks around each name.")
    elif text in names:
        words = [text]
    elif "," in text:
        words = [word.strip() for word in text.split(",")]
    else:
        words = text.split()
    out: list[str] = []
    for word in words:
        run_together = word not in names and len(word) > 1 and all(c in names for c in word)
        if "," not in text and not run_together and word not in names:
            split = [n for n in names if " " in n and word in n.split() and n in text]
            if split:
                raise ModelError(
                    f"[{text}] names {split[0]!r} with nothing to say where it ends: put commas "
                    f"between the names of a bracket, or backticks around {split[0]!r}."
                )
        out += list(word) if run_together else [_known(word, names)]
    return out


def _placeholders(text: str, names: Sequence[str]) -> tuple[str, list[Named]]:
    """The formula with factor i as ``fi``, named term j as ``sj``, and else operators only."""
    out: list[str] = []
    named: list[Named] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match["bad"]:
            bad = "the end" if match is None else repr(match["bad"])
            raise ModelError(
                f"The formula {_short(text.strip())} cannot be read at {bad}: {ALLOWED}. Put "
                "backticks around a name with other characters."
            )
        position = match.end()
        if not match["op"] and out and out[-1] not in _OPENING:
            raise ModelError(
                f"The formula {_short(text.strip())} has two names with nothing between them: "
                "join terms by +, and factors by * or :. Put backticks around a name with spaces."
            )
        call = _CALL.match(text, match.start("word")) if match["word"] else None
        if call is not None:
            arguments, position = _arguments(call[1], text, call.end(), names)
            term = checked_named(call[1], arguments, names)
            named += [term] if term not in named else []
            out.append(f"s{named.index(term)}")
        elif match["op"]:
            if match["op"] == "(" and out and out[-1] not in _OPENING:
                raise ModelError(
                    f"The formula {_short(text.strip())} has a bracket right after a term: "
                    "join terms by +, and factors by * or :."
                )
            out.append(match["op"])
        elif (
            match["word"]
            and match["word"].isdigit()
            and (match["word"] not in names or out[-1:] == ["**"])
        ):
            out.append(match["word"])
        else:
            out.append(f"f{names.index(_known(_name_in(match), names))}")
    return "".join(f" {piece} " for piece in out), named


def _arguments(kind: str, text: str, position: int, names: Sequence[str]) -> tuple[list[str], int]:
    """The factors after the opening bracket of a named term, and where it ends."""
    if kind not in KINDS:
        raise ModelError(f"A formula has no {kind}(...): {ALLOWED}.")
    found: list[str] = []
    while match := _ARGUMENT.match(text, position):
        found.append(_known(_name_in(match), names))
        position = match.end()
        if match["after"] == ")":
            return found, position
    raise ModelError(
        f"The formula {_short(text.strip())} cannot be read inside {kind}(...): it takes names of "
        "factors with commas between them. Put backticks around a name with other characters."
    )


def _name_in(match: re.Match[str]) -> str:
    """The factor that a token names, plain or in quotes."""
    return next(n for n in (match["tick"], match["q"], match["word"]) if n is not None)
