"""Bins: public edges, and every number in the one bin that holds it."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcontingency.bins import Bins
from dpcontingency.domain import Domain
from dpcontingency.errors import DomainError
from dpcontingency.tabulate import tabulate

AGE = Bins([0, 18, 65, 120])


def test_what_they_hold():
    assert AGE.edges == (0, 18, 65, 120)
    assert AGE.closed == "left"
    assert len(AGE) == 3
    assert AGE.labels == ("[0, 18)", "[18, 65)", "[65, 120]")
    assert Bins(AGE.edges, closed="right").labels == ("[0, 18]", "(18, 65]", "(65, 120]")


def test_open_ends():
    assert Bins([-math.inf, 0, math.inf]).labels == ("(-inf, 0)", "[0, inf)")
    assert Bins([-math.inf, 0, math.inf], closed="right").labels == ("(-inf, 0]", "(0, inf)")
    assert Bins([-math.inf, math.inf]).labels == ("(-inf, inf)",)


@pytest.mark.parametrize(
    "edges",
    [[], [1], [1, 1], [2, 1], [1, math.nan], [math.nan, 1], ["0", "1"], [True, 2], [0, None], 3,
     [0, 10**400], None, "01", {0, 1}, [[0, 1]], [0, 1j]],
)  # fmt: skip
def test_edges_that_are_none(edges):
    with pytest.raises(DomainError, match="at least two numbers"):
        Bins(edges)


def test_edges_beyond_whole_numbers():
    frame = pd.DataFrame({"v": [-5, 0, 2**62]})
    for edges in ([-1e300, 0, 1e300], [-math.inf, 0, math.inf], [1 - 2**63, -0.0, 2**63 - 1]):
        domain = Domain({}, bins={"v": Bins(edges)})
        assert tabulate(frame, domain).counts.tolist() == [1, 2]
        assert tabulate(frame.astype(float), domain).counts.tolist() == [1, 2]


def test_a_side_that_is_none():
    with pytest.raises(DomainError, match="closed='left'"):
        Bins([0, 1], closed="both")


def test_value():
    same = Bins(np.array([0.0, 18, 65, 120]))
    assert same == AGE
    assert hash(same) == hash(AGE)
    assert same.labels == AGE.labels
    assert repr(AGE) == "Bins([0, 18, 65, 120])"
    assert repr(Bins([0, 1.5], closed="right")) == "Bins([0, 1.5], closed='right')"
    for other in (Bins([0, 18, 65]), Bins(AGE.edges, closed="right"), "Bins", AGE.edges):
        assert other != AGE
    with pytest.raises(AttributeError, match="immutable"):
        AGE.edges = (1, 2)
    with pytest.raises(AttributeError, match="immutable"):
        del AGE.edges


@pytest.mark.parametrize("bins", [AGE, Bins([-math.inf, 0.5, math.inf], closed="right")], ids=repr)
def test_copies(bins):
    for again in (copy.deepcopy(bins), pickle.loads(pickle.dumps(bins)),
                  Bins.from_dict(bins.to_dict())):  # fmt: skip
        assert again == bins


@pytest.mark.parametrize("content", [3, "0, 1", {"edges": [0, 1], "odd": 1}, {"closed": "left"},
                                     {"edges": ["a", "b"]}, {"edges": None}])  # fmt: skip
def test_plain_data_that_is_no_bins(content):
    with pytest.raises(DomainError):
        Bins.from_dict(content)


@given(
    st.lists(st.floats(-5, 5).map(lambda x: round(x, 1)), min_size=2, max_size=6, unique=True),
    st.sampled_from(["left", "right"]),
    st.lists(st.floats(-7, 7).map(lambda x: round(x, 1))),
)
def test_pandas_puts_numbers_into_the_same_bins(edges, closed, values):
    edges = sorted(x + 0.0 for x in edges)
    bins = Bins(edges, closed=closed)
    # pandas leaves out the outermost closed edge on the right only on request.
    cut = pd.cut(np.array(values, dtype=float), edges, right=closed == "right", labels=False,
                 include_lowest=closed == "right")  # fmt: skip
    for value, expected in zip(values, cut, strict=True):
        inside = [
            i
            for i, (low, high, low_in, high_in) in enumerate(bins.intervals())
            if low < value < high or (low_in and value == low) or (high_in and value == high)
        ]
        if closed == "left" and value == edges[-1]:
            assert inside == [len(bins) - 1]
        else:
            assert inside == ([] if np.isnan(expected) else [expected])


# ------------------------------------------------------------------ in a domain


def test_a_domain_with_bins():
    domain = Domain({"sex": ["m", "f"]}, bins={"age": AGE})
    assert domain.names == ("sex", "age")
    assert domain.levels["age"] == AGE.labels
    assert domain.ordered == ("age",)
    assert dict(domain.bins) == {"age": AGE}
    assert domain.project(["age"]).bins == {"age": AGE}
    assert domain.project(["sex"]).bins == {}
    assert Domain({}, bins={"age": AGE}).shape == (3,)
    with pytest.raises(TypeError):
        domain.bins["age"] = AGE


def test_labels_and_places_of_their_own():
    domain = Domain({"age": ["child", "adult", "old", "?"], "sex": ["m", "f"]}, bins={"age": AGE})
    assert domain.names == ("age", "sex")
    assert domain.ordered == ()  # "?" is not above the old
    assert Domain({"age": ["child", "adult", "old"]}, bins={"age": AGE}).ordered == ("age",)


def test_value_of_a_domain_with_bins(tmp_path):
    domain = Domain({"sex": ["m", "f"]}, bins={"age": AGE})
    others = [
        Domain({"sex": ["m", "f"], "age": AGE.labels}, ordered=["age"]),
        Domain({"sex": ["m", "f"], "age": AGE.labels}, bins={"age": Bins([0, 18, 65, 121])}),
        Domain(
            {"sex": ["m", "f"], "age": AGE.labels}, bins={"age": Bins(AGE.edges, closed="right")}
        ),
    ]
    assert len({domain, *others}) == 4
    open_ended = Domain({"sex": ["m", "f"]}, bins={"x": Bins([-math.inf, 0.5, math.inf])})
    for one in (domain, open_ended, *others):
        one.to_yaml(tmp_path / "d.yaml")
        for again in (Domain.from_yaml(tmp_path / "d.yaml"), pickle.loads(pickle.dumps(one)),
                      copy.deepcopy(one)):  # fmt: skip
            assert again == one
            assert hash(again) == hash(one)


def test_bins_as_people_write_them(tmp_path):
    path = tmp_path / "d.yaml"
    path.write_text(
        "factors: {sex: [m, f]}\nbins:\n  age: [0, 18, .inf]\n"
        "  dose: {edges: [-.inf, 1e-3, 2.5], closed: right}\n"
    )
    domain = Domain.from_yaml(path)
    assert domain.bins["age"] == Bins([0, 18, math.inf])
    assert domain.bins["dose"] == Bins([-math.inf, 0.001, 2.5], closed="right")


@pytest.mark.parametrize(
    ("levels", "bins", "says"),
    [
        ({"a": ["x"]}, {"b": [0, 1]}, "mapping of factor to Bins"),
        ({"a": ["x"]}, AGE, "mapping of factor to Bins"),
        ({"age": ["x", "y"]}, {"age": AGE}, "3 bins and fewer levels"),
        ({"a": ["x"]}, {"": AGE}, "non-empty"),
        ({"a": ["x"]}, {1: AGE}, "non-empty"),
        (["a"], {"age": AGE}, "at least one factor"),
    ],
)
def test_bins_that_do_not_fit(levels, bins, says):
    with pytest.raises(DomainError, match=says):
        Domain(levels, bins=bins)


@pytest.mark.parametrize(
    "text",
    ["factors: {a: [x]}\nbins: [0, 1]", "factors: {a: [x]}\nbins: {b: x}",
     "factors: {a: [x]}\nbins: {b: [1, 0]}", "factors: {a: [x]}\nobserved: maybe"],
)  # fmt: skip
def test_files_with_bins_that_are_none(text, tmp_path):
    (tmp_path / "d.yaml").write_text(text)
    with pytest.raises(DomainError):
        Domain.from_yaml(tmp_path / "d.yaml")
