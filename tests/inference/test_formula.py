"""The three notations: equal models, odd names, and formulas that run nothing."""

import itertools

import pytest

from dpcontingency.domain import Domain
from dpcontingency.errors import DPContingencyError, ModelError
from dpcontingency.inference.formula import (
    generating_class,
    names_in,
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


AWKWARD = ["a]b", "a`b", "A,B", " lead", "A[T.b]", "Symm(A, B)", "A", "B", "A B", "``", "t\tb"]


@pytest.mark.parametrize("others", [[], ["x", "my y"]], ids=str)
def test_awkward_names_are_quoted_so_that_they_read_back(others):
    for size in (1, 2, 3):
        for margin in itertools.combinations([*AWKWARD, *others], size):
            expected = generating_class([margin, *others], [*AWKWARD, *others])
            text = show(expected, names=[*AWKWARD, *others])
            assert generating_class(text, [*AWKWARD, *others]) == expected
    assert show((("my y", "A"), ("x",))) == "[my y, A][x]"  # as typed where that reads back


def test_names_of_a_class_are_read_off_it():
    for model in ("[AB][BC]", "[A B][B C]", "[A, B][C]", "[`A` B][C]", [("A", "B"), "C"], ["A B"]):
        names = names_in(model)
        assert generating_class(model, names)
        assert names == (("A B",) if model == ["A B"] else ("A", "B", "C"))
    assert names_in("[`my a`][my b]") == ("my a", "my", "b")
    assert names_in("[my a, c][my b]") == ("my a", "c", "my b")
    for open_end in ("[ab][bc]", "[Admit][Gender]"):
        with pytest.raises(ModelError, match="where a name ends"):
            names_in(open_end)


@pytest.mark.parametrize(
    ("model", "names", "says"),
    [
        ("[my a b-c]", ["my a", "b-c"], "commas between the names"),
        ("[A zzz]", ["A", "B"], "no factor; known: 'A', 'B'"),
        ([("A", "a")], ["A", "B"], "did you mean 'A'"),
        (3, ["A"], "list of margins"),
    ],
)
def test_a_bad_class_is_refused_in_a_sentence(model, names, says):
    with pytest.raises(ModelError, match=says):
        generating_class(model, names)


def test_a_very_long_name_does_not_fill_the_screen():
    long = "x" * 5000
    for call in (
        lambda: generating_class([long], ["A", "y" * 5000]),
        lambda: generating_class(f"[{long}]", ["A"]),
        lambda: read_formula(long, ["A"]),
        lambda: Domain({"A": [0, 1]}).axis(long),
        lambda: Domain({"A": [0, 1]}).index("A", long),
    ):
        with pytest.raises(DPContingencyError) as caught:
            call()
        assert len(str(caught.value)) < 500


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
