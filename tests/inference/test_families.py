"""Families and graphs of generating classes, against brute force on all models of four factors."""

import itertools

import numpy as np
import pytest

from dpcontingency.errors import DPContingencyError
from dpcontingency.inference.families import (
    all_kway,
    components,
    conditional,
    conditional_independences,
    is_decomposable,
    is_graphical,
    joint,
    links,
    mutual,
    saturated,
    separations,
)
from dpcontingency.inference.formula import generating_class, read_formula
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.release.release import Release

FACTORS = ("A", "B", "C", "D")
SIZES = {"A": 2, "B": 3, "C": 2, "D": 3}
TERMS = [t for k in (2, 3, 4) for t in itertools.combinations(FACTORS, k)]


def hierarchical_models():
    """Every hierarchical model of four factors with all main effects: closed sets of terms."""
    for choice in range(1 << len(TERMS)):
        terms = {t for i, t in enumerate(TERMS) if choice >> i & 1}
        parts = {p for t in terms if len(t) > 2 for p in itertools.combinations(t, len(t) - 1)}
        if parts <= terms:
            yield generating_class([*terms, *FACTORS], FACTORS), terms


MODELS = list(hierarchical_models())


# -- families -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "formula"),
    [
        (mutual(FACTORS), "A + B + C + D"),
        (joint(FACTORS, with_="B"), "A*C*D + B"),
        (joint(FACTORS, with_=["D", "A"]), "A*D + B*C"),
        (conditional(FACTORS, given="B"), "A*B + B*C + B*D"),
        (conditional(FACTORS, given=("A", "C")), "A*B*C + A*C*D"),
        (saturated(FACTORS), "A*B*C*D"),
        (all_kway(FACTORS, 0), "1"),
        (all_kway(FACTORS, 1), "A + B + C + D"),
        (all_kway(FACTORS, 2), "(A + B + C + D)**2"),
        (all_kway(FACTORS, 3), "(A + B + C + D)**3"),
        (all_kway(FACTORS, 4), "A*B*C*D"),
    ],
)
def test_a_family_is_its_formula(family, formula):
    assert (family, ()) == read_formula(formula, FACTORS)


def test_a_family_of_a_release_is_a_model_of_it(load_table):
    counts, domain = load_table("ucb_admissions")
    release = Release.exact(counts, domain)
    for source in (release, domain, domain.names):
        family = conditional(source, given="Dept")
        assert LogLinearModel(release, family).generating_class == "[Admit Dept][Gender Dept]"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mutual("ABC"), "sequence of names"),
        (lambda: mutual([]), "one factor or more, each once; got none"),
        (lambda: mutual(3), "a Domain or a Release; got 3"),
        (lambda: is_graphical("A*B"), "not a generating class"),
        (lambda: is_decomposable(None), "list of margins"),
        (lambda: is_decomposable("[ab][bc]"), "where a name ends"),
        (lambda: conditional_independences("[A B]", ["A"]), "names 'B', which is no factor"),
        (lambda: saturated(["A", "A"]), "each once"),
        (lambda: all_kway(["A", "B"], 3), "0 to 2"),
        (lambda: all_kway(FACTORS, -1), "0 to 4"),
        (lambda: joint(FACTORS, with_="b"), "did you mean 'B'"),
        (lambda: joint(["Dept"], with_="Dept"), "not all"),
        (lambda: conditional(FACTORS, given=FACTORS), "not all"),
        (lambda: conditional(FACTORS, given=()), "not none"),
        (lambda: conditional(FACTORS, given=3), "given names 3, no factor"),
    ],
)
def test_misuse_is_one_sentence(call, says):
    with pytest.raises(DPContingencyError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)


# -- graphs, by brute force -----------------------------------------------------------------------


def splits(margins):
    """Whether a class can be taken apart: the definition of a decomposable one (Haberman)."""
    margins = list(margins)
    if len(margins) == 1:
        return True
    for choice in range(1, 1 << (len(margins) - 1)):
        one = [m for i, m in enumerate(margins) if choice >> i & 1]
        other = [m for i, m in enumerate(margins) if not choice >> i & 1]
        shared = set().union(*one) & set().union(*other)
        meet = any(shared == set(a) & set(b) for a in one for b in other)
        if meet and splits(one) and splits(other):
            return True
    return False


def test_the_flags_on_every_model_of_four_factors():
    assert len(MODELS) == 114
    graphical, decomposable = 0, 0
    for generators, terms in MODELS:
        cliques = {t for t in TERMS if all(p in terms for p in itertools.combinations(t, 2))}
        assert is_graphical(generators) == (cliques == terms)
        assert is_decomposable(generators) == splits(generators)
        graphical += is_graphical(generators)
        decomposable += is_decomposable(generators)
    assert (graphical, decomposable) == (64, 61)  # graphs and chordal graphs on four vertices


def independent(table, a, b, given):
    """Whether two factors of a table of probabilities are independent given others."""
    others = tuple(i for i in range(4) if i not in (a, b, *given))
    margin = table.sum(axis=others, keepdims=True)
    left, right = margin.sum(axis=b, keepdims=True), margin.sum(axis=a, keepdims=True)
    expected = left * right / margin.sum(axis=(a, b), keepdims=True)
    return bool(np.abs(margin - expected).max() < 1e-12)


def test_the_independences_hold_in_a_random_table_and_need_all_they_name():
    """On every model, for each pair: true given the set, false without any one of it."""
    rng = np.random.default_rng(44)
    for generators, _ in MODELS:
        log_table = np.zeros(list(SIZES.values()))
        for margin in generators:
            for k in range(1, len(margin) + 1):
                for term in itertools.combinations(margin, k):
                    shape = [SIZES[f] if f in term else 1 for f in FACTORS]
                    log_table += rng.normal(0, 1, shape)
        table = np.exp(log_table) / np.exp(log_table).sum()
        found = {(a, b): given for a, b, given in separations(generators, FACTORS)}
        for pair in itertools.combinations(range(4), 2):
            names = tuple(FACTORS[i] for i in pair)
            rest = [i for i in range(4) if i not in pair]
            sets = [s for k in range(3) for s in itertools.combinations(rest, k)]
            true = [set(s) for s in sets if independent(table, *pair, s)]
            if names not in found:
                assert not true
                continue
            given = {FACTORS.index(name) for name in found[names]}
            assert given in true
            assert not any(other < given for other in true)
            assert len(given) == min(map(len, true))


def test_a_text_is_the_class_that_it_stands_for():
    """Not its characters: the answer is that of the margins, on every model and notation."""
    for generators, _ in MODELS:
        for sep in ("", " ", ", "):
            text = "".join(f"[{sep.join(margin)}]" for margin in generators)
            assert is_graphical(text) == is_graphical(generators)
            assert is_decomposable(text) == is_decomposable(generators)
            found = conditional_independences(text, FACTORS)
            assert found == conditional_independences(generators, FACTORS)
    assert conditional_independences("[Admit Dept][Gender Dept]") == [
        "Admit and Gender are independent given Dept."
    ]


def test_independences_in_words():
    circle = (("A", "B"), ("A", "D"), ("B", "C"), ("C", "D"))
    assert conditional_independences(circle, FACTORS) == [
        "A and C are independent given B and D.",
        "B and D are independent given A and C.",
    ]
    assert conditional_independences((("A", "B"), ("C",)), ("C", "B", "A")) == [
        "C and B are independent.",
        "C and A are independent.",
    ]
    assert conditional_independences(saturated(FACTORS)) == []
    assert conditional_independences(all_kway(FACTORS, 2)) == []


def test_names_may_be_any_text():
    odd = ("my a", "x:y", "class", "C")
    chain = tuple(itertools.pairwise(odd))
    assert is_decomposable(chain)
    assert separations(chain)[1] == ("my a", "C", ("x:y",))
    assert components(links((("my a", "C"), ("x:y",)), odd)) == [["my a", "C"], ["x:y"]]
    assert components(links((), odd)) == []
    assert is_decomposable(())


def test_the_flags_on_many_factors():
    names = [f"f{i}" for i in range(40)]
    chain = tuple(itertools.pairwise(names))
    assert is_decomposable(chain)
    assert not is_decomposable((*chain, (names[0], names[-1])))
    assert not is_graphical(all_kway(names, 2))
