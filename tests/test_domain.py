"""The domain: public, immutable, equal by value, and the same after any file."""

import copy
import itertools
import pickle
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcontingency.domain import Domain, label_text
from dpcontingency.errors import DomainError, DPContingencyError

BERKELEY = {"Admit": ["Admitted", "Rejected"], "Gender": ["Male", "Female"], "Dept": list("ABCDEF")}
PREGNANCY = Domain(
    {"sex": ["m", "f"], "pregnant": ["yes", "no"], "age": [1, 2, 3]},
    ordered=["age"],
    scores={"age": [20, 30.5, 50]},
    structural_zeros=[{"sex": "m", "pregnant": "yes"}, {"age": 3, "pregnant": "yes"}],
)


# ------------------------------------------------------------------ what it holds


def test_axes_by_name():
    domain = Domain(BERKELEY)
    assert domain.names == ("Admit", "Gender", "Dept")
    assert domain.shape == (2, 2, 6)
    assert domain.size == 24
    assert domain.levels["Dept"] == tuple("ABCDEF")
    assert domain.axis("Gender") == 1
    assert domain.index("Dept", "C") == 2
    assert dict(domain.positions("Gender")) == {"Male": 0, "Female": 1}
    assert domain.possible().all()
    assert domain.possible().shape == domain.shape


def test_size_is_an_exact_integer():
    domain = Domain({f"f{i}": range(10) for i in range(40)} | {"three": range(3)})
    assert domain.size == 3 * 10**40
    assert type(domain.size) is int


def test_cells_run_over_the_last_factor_first():
    cells = list(Domain({"a": ["x", "y"], "b": [1, 2, 3]}).cells())
    assert cells == [("x", 1), ("x", 2), ("x", 3), ("y", 1), ("y", 2), ("y", 3)]


def test_order_is_never_alphabetical():
    assert Domain({"dose": ["low", "high", "mid"]}).levels["dose"] == ("low", "high", "mid")


def test_scored_factors_are_ordinal_in_axis_order():
    domain = Domain({"a": [1, 2], "b": [1, 2], "c": [1, 2]}, ordered=["c"], scores={"a": [0, 1]})
    assert domain.ordered == ("a", "c")
    assert domain.scores["a"] == (0.0, 1.0)
    assert domain.project(["c", "a"]).ordered == ("c", "a")


@pytest.mark.parametrize(
    "name", ["my a", "b-c", "1st", "class", "C", "Q", "np", "Intercept", "x:y", "α", "levels", " "]
)
def test_names_are_opaque(name):
    domain = Domain({name: ["u", "v"], "other": [1]}, ordered=[name])
    assert domain.project([name]).names == (name,)
    assert repr(domain) == f"Domain({name}: 2, other: 1)"


def test_labels_keep_their_type_and_match_by_text():
    domain = Domain({"v": [1, 2.5, True, "x", np.int64(7), np.float64(0.5), np.str_("s")]})
    assert domain.levels["v"] == (1, 2.5, True, "x", 7, 0.5, "s")
    assert [type(v) for v in domain.levels["v"]] == [int, float, bool, str, int, float, str]
    for same in (1, 1.0, "1", np.int8(1), np.float32(1), Decimal("1.00")):
        assert domain.index("v", same) == 0
    assert domain.index("v", True) == domain.index("v", "True") == 2


@pytest.mark.parametrize(
    ("label", "text"),
    [(1, "1"), (1.0, "1"), (-0.0, "0"), (0.1, "0.1"), (np.float32(0.1), "0.1"), ("1.0", "1.0"),
     (1e22, "1" + "0" * 22), (2**53 + 1, "9007199254740993"), (False, "False"), (np.True_, "True"),
     (Decimal("1.00"), "1"), (Decimal("100"), "100"), (Decimal("1E+2"), "100"),
     (Decimal("0.50"), "0.5"), (Decimal("-2.25"), "-2.25"), (Decimal(10**37 + 1), f"{10**37 + 1}"),
     (Decimal("NaN"), "NaN"), ("", ""), (" x", " x")],
)  # fmt: skip
def test_the_text_of_a_label(label, text):
    assert label_text(label) == text


# ------------------------------------------------------------------ value


def test_a_domain_is_immutable():
    levels = {"a": ["x", "y"]}
    zeros = [{"a": "x"}]
    domain = Domain(levels, structural_zeros=zeros, scores={"a": [0, 1]})
    levels["a"].append("z")
    levels["b"] = [1]
    zeros[0]["a"] = "y"
    assert domain == Domain({"a": ["x", "y"]}, structural_zeros=[{"a": "x"}], scores={"a": [0, 1]})
    with pytest.raises(AttributeError, match="immutable"):
        domain.names = ("b",)
    with pytest.raises(AttributeError):
        domain.anything = 1
    with pytest.raises(AttributeError):
        del domain._levels
    for mapping in (
        domain.levels,
        domain.scores,
        domain.structural_zeros[0],
        domain.positions("a"),
    ):
        with pytest.raises(TypeError):
            mapping["a"] = ("z",)
    mask = domain.possible()
    mask[:] = False
    assert domain.possible().any()


DIFFERENT = [
    Domain({"a": [1, 2], "b": ["u", "v"]}),
    Domain({"b": ["u", "v"], "a": [1, 2]}),
    Domain({"a": [2, 1], "b": ["u", "v"]}),
    Domain({"a": ["1", "2"], "b": ["u", "v"]}),
    Domain({"a": [1.0, 2.0], "b": ["u", "v"]}),
    Domain({"a": [1, 2], "b": ["u", "v", "w"]}),
    Domain({"a": [1, 2], "b": ["u", "v"]}, ordered=["a"]),
    Domain({"a": [1, 2], "b": ["u", "v"]}, ordered=["a", "b"]),
    Domain({"a": [1, 2], "b": ["u", "v"]}, scores={"a": [1, 2]}),
    Domain({"a": [1, 2], "b": ["u", "v"]}, scores={"a": [1, 3]}),
    Domain({"a": [1, 2], "b": ["u", "v"]}, structural_zeros=[{"a": 1}]),
    Domain({"a": [1, 2], "b": ["u", "v"]}, structural_zeros=[{"a": 1, "b": "u"}]),
    Domain({"a": [1, True], "b": ["u", "v"]}),
]


def test_equal_by_value():
    for one, other in itertools.product(DIFFERENT, repeat=2):
        assert (one == other) == (one is other)
        assert (one != other) == (one is not other)
    assert len(set(DIFFERENT)) == len(DIFFERENT)
    assert Domain({"a": [1]}) != {"a": [1]}
    assert Domain({"a": [1]}) != "Domain(a: 1)"


def test_the_order_of_declarations_that_have_none_does_not_matter():
    one = Domain({"a": [1, 2], "b": [1, 2]}, ordered=["a", "b"],
                 structural_zeros=[{"a": 1, "b": 2}, {"b": 1}])  # fmt: skip
    other = Domain({"a": [1, 2], "b": [1, 2]}, ordered=["b", "a"],
                   structural_zeros=[{"b": 1}, {"b": "2", "a": 1.0}])  # fmt: skip
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize("domain", [*DIFFERENT, PREGNANCY], ids=repr)
@pytest.mark.parametrize("make", [lambda d: pickle.loads(pickle.dumps(d)), copy.copy, copy.deepcopy,
                                  lambda d: Domain.from_dict(d.to_dict())])  # fmt: skip
def test_copies_are_equal(domain, make):
    assert make(domain) == domain
    assert hash(make(domain)) == hash(domain)
    assert repr(make(domain)) == repr(domain)


# ------------------------------------------------------------------ files


ODD_TEXTS = [
    "yes", "no", "Yes", "NO", "on", "off", "y", "n", "true", "True", "TRUE", "false", "01", "1e3",
    "1E3", "0x1F", "0o7", "1_000", "12e03", "null", "Null", "~", "NA", "nan", ".nan", ".inf",
    "1:30", "190:20:30", "", " ", "x ", "\t", "\n", "a\nb", "-", "- x", "?", ":", "a: b", "#x",
    "α", "x #y", "'", '"', "!x", "&x", "*x", "%x", "@x", "`x", "{", "[", "]", ",", "|", ">", "=",
    "1", "1.0", "-1", "+1", ".5", "5.", "1.5", "2020-01-01", "2020-01-01 10:00:00", "None",
    "<<", "-.inf", "\u00a0", "\u2028", "\x85", "\ufeff", "🙂", "\\", "0", "-0", "1e400",
]  # fmt: skip


def test_yaml_keeps_every_text(tmp_path):
    domain = Domain({"v": ODD_TEXTS, "w": ["k"]}, structural_zeros=[{"v": "no"}, {"v": "01"}])
    domain.to_yaml(tmp_path / "d.yaml")
    again = Domain.from_yaml(tmp_path / "d.yaml")
    assert again.levels["v"] == tuple(ODD_TEXTS)
    assert again == domain


def test_yaml_keeps_odd_names(tmp_path):
    names = [text for text in ODD_TEXTS if text]
    domain = Domain({name: [1, 2] for name in names}, ordered=names[:9], scores={"no": [0, 1]})
    domain.to_yaml(tmp_path / "d.yaml")
    assert Domain.from_yaml(str(tmp_path / "d.yaml")) == domain


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(
        st.one_of(
            st.text(st.characters(codec="utf-8")),
            st.integers(),
            st.floats(allow_nan=False, allow_infinity=False),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
        unique_by=label_text,
    )
)
def test_yaml_keeps_every_label(tmp_path_factory, labels):
    path = tmp_path_factory.mktemp("yaml") / "d.yaml"
    domain = Domain({"v": labels})
    domain.to_yaml(path)
    again = Domain.from_yaml(path)
    assert again == domain
    assert [type(v) for v in again.levels["v"]] == [type(v) for v in labels]
    assert pickle.loads(pickle.dumps(domain)) == domain


def test_yaml_as_people_write_it(tmp_path):
    path = tmp_path / "d.yaml"
    path.write_text(
        "factors:\n  answer: [yes, no, NA, ~, null]\n  code: [01, 1, 1e3, 1:30, 2020-01-01]\n"
        "  flag: [true, false]\n  dose: [0.5, 1, -2]\nordered: [dose]\n"
        "structural_zeros:\n  - {answer: no, flag: true}\n"
    )
    domain = Domain.from_yaml(path)
    assert domain.levels["answer"] == ("yes", "no", "NA", "~", "null")
    assert domain.levels["code"][0] == "01"
    assert domain.levels["code"][3:] == ("1:30", "2020-01-01")
    assert domain.levels["flag"] == (True, False)
    assert domain.levels["dose"] == (0.5, 1, -2)
    assert dict(domain.structural_zeros[0]) == {"answer": "no", "flag": True}


def test_json_is_read_too(tmp_path):
    path = tmp_path / "d.json"
    path.write_text('{"factors": {"a": ["x", "no"], "b": [1, true, 0.5]}, "ordered": ["a"]}')
    assert Domain.from_yaml(path) == Domain({"a": ["x", "no"], "b": [1, True, 0.5]}, ordered=["a"])


@pytest.mark.parametrize(
    "text",
    ["", "[]", "a: [1, 2]", "factors:", "factors: {}", "factors: [a]", "factors: {a: }",
     "factors: {a: x}", "factors: {a: [1, 1]}", "factors: {a: [[1]]}", "factors: {a: [1]}\nodd: 1",
     "factors: {1: [x]}", "{", "factors: {a: [1]}\nordered: b", "factors: {a: [1]}\nordered: [b]",
     "factors: {a: [1]}\nscores: {a: [x]}", "factors: {a: [1]}\nscores: [1]",
     "factors: {a: [1]}\nstructural_zeros: {a: 1}", "factors: {a: [1]}\nstructural_zeros: [a]",
     "factors: {a: [1], a: [2]}", "factors: {a: !!python/object:os.system [x]}"],
)  # fmt: skip
def test_a_file_that_is_no_domain(text, tmp_path):
    path = tmp_path / "d.yaml"
    path.write_text(text)
    with pytest.raises(DomainError):
        Domain.from_yaml(path)


# ------------------------------------------------------------------ margins


def test_project():
    margin = Domain(BERKELEY).project(["Dept", "Admit"])
    assert margin == Domain({"Dept": BERKELEY["Dept"], "Admit": BERKELEY["Admit"]})
    assert Domain(BERKELEY).project("Dept") == Domain({"Dept": list("ABCDEF")})
    assert PREGNANCY.project(PREGNANCY.names) == PREGNANCY
    assert PREGNANCY.project(["age"]).scores["age"] == (20, 30.5, 50)


@st.composite
def domains(draw):
    names = draw(st.permutations(["a", "b", "c", "d"]))[: draw(st.integers(1, 4))]
    levels = {name: list(range(draw(st.integers(1, 3)))) for name in names}
    partial = st.fixed_dictionaries({}, optional={n: st.sampled_from(v) for n, v in levels.items()})
    zeros = draw(st.lists(partial.filter(bool), max_size=5))
    return Domain(levels, structural_zeros=zeros)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(domains(), st.data())
def test_a_margin_cell_is_impossible_when_all_its_cells_are(domain, data):
    kept = data.draw(st.permutations(domain.names))
    kept = kept[: data.draw(st.integers(1, len(kept)))]
    possible = {
        tuple(cell[domain.axis(name)] for name in kept)
        for cell in domain.cells()
        if not any(
            all(cell[domain.axis(n)] == level for n, level in zero.items())
            for zero in domain.structural_zeros
        )
    }
    margin = domain.project(kept)
    assert margin.names == tuple(kept)
    assert [cell in possible for cell in margin.cells()] == margin.possible().ravel().tolist()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(domains(), st.data())
def test_margins_of_margins(domain, data):
    outer = data.draw(st.permutations(domain.names))
    outer = outer[: data.draw(st.integers(1, len(outer)))]
    inner = data.draw(st.permutations(outer))[: data.draw(st.integers(1, len(outer)))]
    direct, by_steps = domain.project(inner), domain.project(outer).project(inner)
    assert direct.levels == by_steps.levels
    assert (direct.possible() == by_steps.possible()).all()


def test_a_partial_zero_inside_a_margin_stays_partial():
    margin = PREGNANCY.project(["pregnant", "sex"])
    assert [dict(zero) for zero in margin.structural_zeros] == [{"sex": "m", "pregnant": "yes"}]


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (({},), "at least one factor"),
        ((["a"],), "at least one factor"),
        (({"a": []},), "at least one"),
        (({"a": "xy"},), "sequence of labels"),
        (({"a": {"x", "y"}},), "sequence of labels"),
        (({"a": 3},), "sequence of labels"),
        (({"": ["x"]},), "non-empty text"),
        (({1: ["x"]},), "non-empty text"),
        (({"a": ["x", "x"]},), "twice"),
        (({"a": [1, "1"]},), "twice"),
        (({"a": [1, 1.0]},), "twice"),
        (({"a": [True, "True"]},), "twice"),
        (({"a": ["x", None]},), "declare a text level"),
        (({"a": ["x", float("nan")]},), "declare a text level"),
        (({"a": [float("inf")]},), "finite"),
        (({"a": [("x", "y")]},), "text, an integer"),
    ],
)
def test_levels_that_are_none(arguments, says):
    with pytest.raises(DomainError, match=says):
        Domain(*arguments)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ordered": ["Gendre"]}, r"did you mean 'Gender'\?"),
        ({"ordered": "Gender"}, r"write \['Gender'\]"),
        ({"scores": {"Gendre": [1, 2]}}, r"did you mean 'Gender'\?"),
        ({"scores": {"Gender": [1]}}, "2 levels"),
        ({"scores": {"Gender": [1, float("nan")]}}, "finite"),
        ({"scores": {"Gender": ["one", "two"]}}, "finite"),
        ({"structural_zeros": [{"Gender": "Mal"}]}, r"did you mean 'Male'\?"),
        ({"structural_zeros": [{"Gendre": "Male"}]}, r"did you mean 'Gender'\?"),
        ({"structural_zeros": [{}]}, "mapping of factor to level"),
        ({"structural_zeros": ["Gender"]}, "mapping of factor to level"),
        ({"structural_zeros": {"Gender": "Male"}}, "mapping of factor to level"),
    ],
)
def test_declarations_that_do_not_fit(options, says):
    with pytest.raises(DomainError, match=says):
        Domain({"Gender": ["Male", "Female"]}, **options)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda d: d.axis("Dep"), "did you mean 'Dept'"),
        (lambda d: d.index("Dept", "G"), "has no level 'G'"),
        (lambda d: d.positions("Dep"), "did you mean 'Dept'"),
        (lambda d: d.project(["Dep"]), "did you mean 'Dept'"),
        (lambda d: d.project("Dep"), "did you mean 'Dept'"),
        (lambda d: d.project(["Dept", "Dept"]), "once"),
        (lambda d: d.project([]), "at least one"),
        (lambda d: d.project([["Dept"]]), "no factor"),
        (lambda d: d.axis(0), "no factor 0"),
    ],
)
def test_questions_that_have_no_answer(ask, says):
    with pytest.raises(DomainError, match=says) as caught:
        ask(Domain(BERKELEY))
    assert isinstance(caught.value, DPContingencyError | ValueError)


def test_long_lists_are_cut_in_messages():
    domain = Domain({"v": range(10_000)})
    with pytest.raises(DomainError) as caught:
        domain.index("v", "nowhere")
    assert len(str(caught.value)) < 300
