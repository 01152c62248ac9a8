"""Special terms: their columns, names and texts, and what is refused."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpcontingency.domain import Domain
from dpcontingency.errors import ModelError
from dpcontingency.inference.columns import MarginColumns
from dpcontingency.inference.formula import formula_text, read_formula, read_special, show
from dpcontingency.inference.terms import level_scores, term_columns

DOMAIN = Domain(
    {"A": ["x", "y", "z"], "G": ["f", "m"], "B": ["x", "y", "z"], "D": ["x", "y", "z"]},
    ordered=["A"],
    scores={"B": [-1.0, 0.5, 7.0]},
)
SCORES = {"A": [1, 2, 3], "B": [-1.0, 0.5, 7.0]}


def value(name, cell):
    """What a column is in a cell, by nothing but its name."""
    out = 1.0
    for part in name.split(":"):
        kind, _, inside = part.partition("(")
        factors, _, label = inside.partition(")")
        levels = [cell[f] for f in factors.split(", ") if f]
        labels = label.strip("[]").split(", ")
        if kind == "score":
            out *= SCORES[factors][DOMAIN.index(factors, levels[0])]
        elif kind == "Diag":
            out *= set(levels) == set(labels)
        elif kind == "Symm":
            out *= sorted(levels) == sorted(labels)
        else:
            factor, _, level = part.partition("[T.")
            out *= cell[factor] == level.rstrip("]")
    return out


def columns_of(text, scaling=None):
    (term,) = read_special([text], DOMAIN.names)
    return term_columns(term, DOMAIN, scaling or {})


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("score(A)", 1),
        ("score(A):score(B)", 1),
        ("G:score(B)", 2),
        ("A:score(B)", 3),
        ("Diag(A, B)", 3),
        ("Diag(A, B, D)", 3),
        ("Symm(A, B)", 6),
        ("Symm(D, A, B)", 10),
        ("G:Symm(A, B)", 12),
        ("G:D:Diag(A, B)", 18),
        ("Symm(A, D):score(B)", 6),
        ("Diag(A, B):score(A)", 3),
        ("Diag(A, B):Symm(B, D)", 18),
        ("A:score(A)", 3),
    ],
)
def test_a_column_is_what_its_name_says(text, count):
    made = columns_of(text)
    columns = MarginColumns(DOMAIN.shape, [(made.axes, csr_array(made.matrix))])
    cells = [dict(zip(DOMAIN.names, cell, strict=True)) for cell in DOMAIN.cells()]
    expected = np.array([[value(name, cell) for name in made.names] for cell in cells])
    assert columns.n_columns == len(made.names) == len(set(made.names)) == count
    stacked = np.column_stack([columns.column(j) for j in range(count)])
    np.testing.assert_array_equal(stacked, expected)
    np.testing.assert_array_equal(columns.rows(np.arange(DOMAIN.size)), expected)
    np.testing.assert_array_equal(columns.matrix().toarray(), expected)
    rng = np.random.default_rng(1)
    w, groups = rng.normal(size=DOMAIN.size), rng.integers(0, 4, DOMAIN.size)
    np.testing.assert_allclose(columns.tdot(w), expected.T @ w, atol=1e-12)
    by_group = [expected.T @ (w * (groups == g)) for g in range(4)]
    np.testing.assert_allclose(columns.sums(w, groups, 4), by_group, atol=1e-12)
    odd = np.arange(count) % 2 == 1
    np.testing.assert_array_equal(columns.keep(odd).rows(np.arange(9)), expected[:9][:, odd])


def test_names_of_columns():
    assert columns_of("score(B):score(A)").names == ["score(A):score(B)"]
    assert columns_of("score(B):A").names == [
        "score(B)", "A[T.y]:score(B)", "A[T.z]:score(B)",
    ]  # fmt: skip
    assert columns_of("Symm(B, A)").names == [
        f"Symm(A, B)[{pair}]" for pair in ("x, y", "x, z", "y, z", "x, x", "y, y", "z, z")
    ]
    terms = [term.text for term in columns_of("G:Diag(A, B)").terms]
    assert terms == ["Diag(A, B)"] * 3 + ["G:Diag(A, B)"] * 3


def test_scaled_scores():
    plain, scaled = columns_of("G:score(B)"), columns_of("G:score(B)", {"B": (3.0, 4.0)})
    np.testing.assert_allclose(
        scaled.matrix.toarray()[:, 0], (plain.matrix.toarray()[:, 0] - 3) / 4
    )


# -- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        ("A + B + score(A):score(B)", "[A][B] + score(A):score(B)"),
        ("A + B + score(B):score(A)", "[A][B] + score(A):score(B)"),
        ("A*score(B)", "[A] + A:score(B)"),
        ("A*score(B) - A:score(B)", "[A] + score(B)"),
        ("score(A)*score(B)", "score(A) + score(B) + score(A):score(B)"),
        ("(score(A) + score(B))**2", "score(A) + score(B) + score(A):score(B)"),
        ("score(A)**2", "score(A)"),
        ("Symm(B, A)", "Symm(A, B)"),
        ("A + B + Symm ( B , `A` )", "[A][B] + Symm(A, B)"),
        ("G*(A + B + Diag(A, B))", "[A G][G B] + G:Diag(A, B)"),
        ("G/Symm(A, Q('B'))", "[G] + G:Symm(A, B)"),
        ("Diag(A, B, D) + Diag(D, B, A)", "Diag(A, B, D)"),
        ("1 + score(A)", "score(A)"),
    ],
)
def test_special_terms_of_a_formula(formula, shown):
    read = read_formula(formula, DOMAIN.names)
    assert show(*read) == shown
    assert read_formula(formula_text(*read), DOMAIN.names) == read
    texts = [term.formula for term in read[1]]
    assert read_special(texts, DOMAIN.names) == read[1]


def test_names_of_terms_and_odd_text_are_names_of_factors():
    names = ["score", "Diag", "Symm", "my a", "x:y", "a`b", "2", "score(A)", "a,b"]
    plain = "score*Diag + Symm + score:score(Diag) + Symm(score, Diag)"
    margins, special = read_formula(plain, names)
    assert margins == (("score", "Diag"), ("Symm",))
    assert [t.text for t in special] == ["Symm(score, Diag)", "score:score(Diag)"]
    for a, b in itertools.permutations(names, 2):
        quote = {n: f"`{n}`" if "`" not in n else f'Q("{n}")' for n in names}
        formula = f"{quote[a]}:score({quote[b]}) + Diag({quote[a]}, {quote[b]})"
        read = read_formula(formula, names)
        assert read_formula(formula_text(*read), names) == read
        assert {t.text for t in read[1]} == {
            f"{a}:score({b})", f"Diag({', '.join(sorted((a, b), key=names.index))})",
        }  # fmt: skip


def test_a_formula_with_special_terms_runs_nothing(tmp_path):
    witness = tmp_path / "ran"
    touch = f"open({str(witness)!r}, 'w')"
    for attack in (
        f"score({touch})",
        f"score(A, {touch})",
        f"Symm(A, B, {touch})",
        f"Diag(A, B)[{touch}]",
        f"score(A).__class__({touch})",
        f"score(`{touch}`)",
        f"score(Q({touch}))",
        f"A:{touch}",
        f"score(A)({touch})",
        f"A({touch})",
        "score(np.log(A))",
        "np.log(score(A))",
        "I(score(A)**2)",
        "C(A, Sum)",
        "center(A)",
        "score(score(A))",
        "score(A + B)",
        "score(A) score(B)",
        "score(A",
        "score(",
        "score()",
        "score(A,)",
        "A (B + G)",
        "score(A) (B)",
        "`A`(B)",
        "2(A)",
    ):
        with pytest.raises(ModelError) as caught:
            read_formula(attack, ["A", "B", "G"])
        assert "\n" not in str(caught.value)
    assert not witness.exists()


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("C(A, Sum)", r"has no C\(\.\.\.\): a formula holds factor names.*nothing in it is run"),
        ("A + np.log(B)", r"has no np\.log\(\.\.\.\): a formula holds factor names"),
        ("Score(A)", r"has no Score\(\.\.\.\)"),
        ("score(A, B)", r"score takes one factor; got 2.*score\(A\):score\(B\)"),
        ("Symm(A)", "takes two factors or more"),
        ("Diag(A, A)", "each once"),
        ("score(Aa)", "did you mean 'A'"),
        ("score(A*B)", r"inside score\(\.\.\.\)"),
    ],
)
def test_what_is_no_term_is_refused_in_a_sentence(formula, says):
    with pytest.raises(ModelError, match=says):
        read_formula(formula, ["A", "B"])


def test_what_is_no_special_term():
    for text in ("A", "A*score(B)", "A + score(B)", "1"):
        with pytest.raises(ModelError, match="is no special term"):
            read_special([text], ["A", "B"])
    assert read_special("score(B)", ["A", "B"]) == read_special(["score(B)"], ["A", "B"])


def test_a_factor_without_order_has_no_scores():
    assert level_scores(DOMAIN, "A") == (1, 2, 3)
    assert level_scores(DOMAIN, "B") == (-1, 0.5, 7)
    with pytest.raises(ModelError, match=r"score\(D\) needs an ordered factor.*ordered=\['D'\]"):
        columns_of("score(D)")


@pytest.mark.parametrize("levels", [["x", "y"], ["y", "x", "z"], ["x", "y", "w"]])
def test_square_terms_need_the_same_levels(levels):
    domain = Domain({"A": ["x", "y", "z"], "B": levels})
    for text in ("Diag(A, B)", "Symm(A, B)"):
        (term,) = read_special([text], domain.names)
        with pytest.raises(ModelError, match="the same ones in the same order"):
            term_columns(term, domain, {})


def test_levels_are_the_same_by_their_text():
    domain = Domain({"A": [1, 2], "B": ["1", "2"]})
    (term,) = read_special(["Diag(A, B)"], domain.names)
    assert term_columns(term, domain, {}).names == ["Diag(A, B)[1]", "Diag(A, B)[2]"]
