"""The three notations: equal models, odd names, and formulas that run nothing."""

import itertools

import pytest

from dpcontingency.errors import ModelError
from dpcontingency.inference.formula import (
    generating_class,
    read_formula,
    show,
    subsets,
)


def formula_class(formula, names):
    """The generating class of a formula without special terms."""
    margins, special = read_formula(formula, names)
    assert special == ()
    return margins


ODD = ["my a", "b-c", "1st", "class", "C", "Q", "np", "Intercept", "x:y", "α"]


@pytest.mark.parametrize(
    ("formula", "brackets", "margins"),
    [
        ("A*B + B*C", "[AB][BC]", [("A", "B"), ("B", "C")]),
        ("A + B + C", "[A][B][C]", ["A", "B", "C"]),
        ("(A + B + C)**2", "[A B][A, C][B C]", [("B", "A"), ("C", "A"), ("C", "B")]),
        ("A*B*C - A:B:C", "[AB][AC][BC]", [("A", "B"), ("A", "C"), ("B", "C")]),
        ("A:B", "[AB]", [("A", "B")]),
        ("A/B", "[AB]", [("A", "B")]),
        ("~ A*B*C", "[ABC][AB]", [("A", "B", "C"), ("A", "B")]),
        ("1 + A", "[A]", [("A",)]),
        ("1", "", []),
    ],
)
def test_the_notations_agree(formula, brackets, margins):
    names = ["A", "B", "C"]
    expected = generating_class(margins, names)
    assert formula_class(formula, names) == expected
    assert generating_class(brackets, names) == expected


@pytest.mark.parametrize("pair", list(itertools.combinations(ODD, 2)), ids=str)
def test_any_text_is_a_name(pair):
    expected = (tuple(sorted(pair, key=ODD.index)),)
    assert generating_class([pair], ODD) == expected
    assert generating_class("[`{}` `{}`]".format(*pair), ODD) == expected
    assert generating_class("[{}, {}]".format(*pair), ODD) == expected
    assert formula_class("`{}` * `{}`".format(*pair), ODD) == expected
    assert formula_class("Q(\"{}\"):Q('{}')".format(*pair), ODD) == expected


def test_plain_words_need_no_quotes():
    assert formula_class("1st*class + C:Q + np + Intercept*α", ODD) == (
        ("1st", "class"), ("C", "Q"), ("np",), ("Intercept", "α"),
    )  # fmt: skip


def test_what_is_shown_reads_back():
    for margins in ([("my a", "x:y"), ("α",)], [("class", "C")], [("b-c", "my a", "1st")]):
        shown = generating_class(margins, ODD)
        assert generating_class(show(shown), ODD) == shown


def test_a_power_is_a_number_even_beside_a_factor_of_that_name():
    assert formula_class("(A + B)**2", ["A", "B", "2"]) == (("A", "B"),)
    assert formula_class("A + 2", ["A", "B", "2"]) == (("A",), ("2",))


def test_a_formula_runs_nothing(tmp_path):
    witness = tmp_path / "ran"
    for attack in (
        f"A + open({str(witness)!r}, 'w')",
        f"__import__('pathlib').Path({str(witness)!r}).touch() + A",
        f"A:`__import__('pathlib').Path({str(witness)!r}).touch()`",
        f"Q(open({str(witness)!r}, 'w').name)",
        f"A + {{open({str(witness)!r}, 'w')}}",
        "A + np.log(B)",
        "I(A + B)",
        "C(A)",
    ):
        with pytest.raises(ModelError):
            formula_class(attack, ["A", "B"])
    assert not witness.exists()


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("A - 1", "intercept"),
        ("0 + A", "intercept"),
        ("A +", "cannot be read"),
        ("A ~ B", "cannot be read at '~'"),
        ("A + Bb", "did you mean 'B'"),
        ("A**B", "cannot be read"),
        ("A + 3", "cannot be read"),
    ],
)
def test_a_bad_formula_is_refused_in_a_sentence(formula, says):
    with pytest.raises(ModelError) as caught:
        formula_class(formula, ["A", "B"])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bracket_that_reads_two_ways_is_refused():
    names = ["A", "B", "A B"]
    with pytest.raises(ModelError, match="two ways"):
        generating_class("[A B]", names)
    assert generating_class("[`A B`]", names) == (("A B",),)
    assert generating_class("[`A` `B`]", names) == (("A", "B"),)
    for bad in ("A*B", "[A", "[AX]", "[A]B"):
        with pytest.raises(ModelError):
            generating_class(bad, names)


def test_terms_are_all_subsets_lowest_order_first():
    assert subsets((("A", "B"), ("B", "C")), ["A", "B", "C"]) == [
        ("A",), ("B",), ("C",), ("A", "B"), ("B", "C"),
    ]  # fmt: skip
