"""Confidential counts: right inside, and nowhere to be seen outside."""

import copy
import itertools
import json
import logging
import pickle
import pprint
import traceback

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpcontingency.domain import Domain
from dpcontingency.errors import ConfidentialityError, DomainError, RecordsError
from dpcontingency.table import MAX_CELLS, MAX_COUNT, ContingencyTable, check_joint_size

PLANTED = (7919, 10007)
AB = Domain({"a": ["x", "y"], "b": ["u", "v", "w"]})
COUNTS = np.array([[7919, 1, 10007], [2, 7919, 3]])


@pytest.fixture
def table():
    return ContingencyTable(COUNTS, AB)


def silent(text):
    """Whether a text, or bytes, shows none of the planted counts, their totals or margins."""
    shown = text if isinstance(text, bytes) else str(text).encode()
    sums = {int(COUNTS.sum()), *COUNTS.sum(axis=0).tolist(), *COUNTS.sum(axis=1).tolist()}
    forms = [str(n) for n in sums if n > 100] + [str(n) for n in PLANTED]
    forms += [f"{n:,}" for n in PLANTED] + [f"{n:x}" for n in PLANTED] + [f"{n:e}" for n in PLANTED]
    packed = [np.array(n, dtype).tobytes() for n in PLANTED for dtype in ("<i4", ">i4", "<f8")]
    return not any(form in shown for form in [*(f.encode() for f in forms), *packed])


# ------------------------------------------------------------------ what it holds


def test_it_holds_the_counts(table):
    assert (table.counts == COUNTS).all()
    assert table.counts.dtype == np.int64
    assert table.domain is AB
    assert table.n_is_public


def test_the_counts_are_its_own_and_read_only():
    mine = COUNTS.copy()
    table = ContingencyTable(mine, AB)
    mine[:] = 0
    assert (table.counts == COUNTS).all()
    with pytest.raises(ValueError, match="read-only"):
        table.counts[0, 0] = 1
    assert mine.flags.writeable


def test_no_flag_makes_the_counts_writable():
    table = ContingencyTable([[2, 3], [5, 7]], Domain({"A": ["a", "b"], "B": ["u", "v"]}))
    for counts in (table.counts, table.counts[0], table.counts.T, table.margin("A").counts):
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
            counts.setflags(write=True)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.int64, ">i4"])
def test_integers_of_every_width(dtype):
    counts = np.arange(6).reshape(2, 3).astype(dtype)
    assert (ContingencyTable(counts, AB).counts == np.arange(6).reshape(2, 3)).all()


def test_lists_and_strided_arrays():
    expected = [[0, 1, 2], [3, 4, 5]]
    for counts in (
        expected,
        np.array(expected, order="F"),
        np.array(expected)[::-1, ::-1][::-1, ::-1],
    ):
        assert ContingencyTable(counts, AB).counts.tolist() == expected


def test_labels_and_masks_are_not_dropped_unseen():
    frame = pd.DataFrame([[3, 4, 5], [0, 1, 2]], index=["b", "a"])
    with pytest.raises(DomainError, match="labels would be ignored"):
        ContingencyTable(frame, AB)
    masked = np.ma.masked_array([[0, 1, 2], [3, 4, 5]], mask=[[0, 1, 0], [0, 0, 0]])
    with pytest.raises(DomainError, match="mask would be lost"):
        ContingencyTable(masked, AB)


def test_counts_beyond_32_bits():
    table = ContingencyTable([[MAX_COUNT, 0, 0], [0, 0, 10**9]], AB)
    assert table.counts.tolist() == [[MAX_COUNT, 0, 0], [0, 0, 10**9]]
    assert table.margin("a").counts.tolist() == [MAX_COUNT, 10**9]
    assert MAX_COUNT > 2**40


BAD = {
    "float": (COUNTS.astype(float), "integers"),
    "float32": (COUNTS.astype(np.float32), "integers"),
    "fractional": (COUNTS + 0.5, "integers"),
    "nan": (np.full((2, 3), np.nan), "integers"),
    "bool": (COUNTS > 5, "integers"),
    "object": (COUNTS.astype(object), "integers"),
    "text": (COUNTS.astype(str), "integers"),
    "complex": (COUNTS.astype(complex), "integers"),
    "negative": (-COUNTS, "negative or larger"),
    "one negative": (COUNTS - 2, "negative or larger"),
    "too large": (np.full((2, 3), MAX_COUNT + 1), "negative or larger"),
    "beyond int64": (np.full((2, 3), 2**64 - 1, np.uint64), "negative or larger"),
    "transposed": (COUNTS.T, "shape"),
    "flat": (COUNTS.ravel(), "shape"),
    "scalar": (7919, "shape"),
    "ragged": ([[7919], [1, 10007]], "shape"),
    "nothing": (None, "shape"),
}


@pytest.mark.parametrize(("counts", "says"), BAD.values(), ids=list(BAD))
def test_counts_that_are_none(counts, says):
    with pytest.raises(RecordsError, match=says) as caught:
        ContingencyTable(counts, AB)
    assert silent("".join(traceback.format_exception(caught.value, chain=True)[-1:]))
    assert silent(caught.value)
    assert silent(repr(caught.value))


def test_counts_in_an_impossible_cell():
    domain = Domain({"a": ["x", "y"], "b": ["u", "v", "w"]}, structural_zeros=[{"b": "w"}])
    with pytest.raises(RecordsError, match="structural zero") as caught:
        ContingencyTable(COUNTS, domain)
    assert silent(caught.value)
    assert ContingencyTable(COUNTS * [1, 1, 0], domain).counts[:, 2].tolist() == [0, 0]


# ------------------------------------------------------------------ margins


@st.composite
def tables(draw):
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    domain = Domain({name: range(k) for name, k in zip("abcd", shape, strict=False)})
    counts = draw(hnp.arrays(np.int64, tuple(shape), elements=st.integers(0, 2**35)))
    return ContingencyTable(counts, domain, n_is_public=draw(st.booleans()))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(tables(), st.data())
def test_margins_are_sums(table, data):
    names = data.draw(st.permutations(table.domain.names))
    names = names[: data.draw(st.integers(1, len(names)))]
    margin = table.margin(*names)
    axes = [table.domain.axis(name) for name in names]
    expected = np.zeros(margin.domain.shape, dtype=np.int64)
    for cell in itertools.product(*map(range, table.domain.shape)):
        expected[tuple(cell[axis] for axis in axes)] += table.counts[cell]
    assert (margin.counts == expected).all()
    assert margin.domain == table.domain.project(names)
    assert margin.n_is_public == table.n_is_public


def test_margins_with_structural_zeros():
    domain = Domain({"a": [1, 2], "b": [1, 2]}, structural_zeros=[{"a": 1}, {"a": 2, "b": 1}])
    table = ContingencyTable([[0, 0], [0, 5]], domain)
    assert table.margin("b", "a").counts.tolist() == [[0, 0], [0, 5]]
    assert table.margin("a").counts.tolist() == [0, 5]
    assert table.margin("a").domain.possible().tolist() == [False, True]


@pytest.mark.parametrize(
    "factors", [(), ([],), ("c",), ("a", "a"), (["a", "a"],), (["a"], "b"), (0,)]
)
def test_margins_that_are_none(table, factors):
    with pytest.raises(DomainError):
        table.margin(*factors)


def test_a_margin_may_exceed_what_a_cell_may_hold():
    """Adding up allowed cells is no misuse; a release of such a margin is refused (publish)."""
    table = ContingencyTable([[MAX_COUNT] * 3] * 2, AB)
    margin = table.margin("a")
    assert margin.counts.tolist() == [3 * MAX_COUNT] * 2
    assert margin.margin("a").counts.tolist() == [3 * MAX_COUNT] * 2
    with pytest.raises(ValueError, match="read-only"):
        margin.counts[0] = 1
    with pytest.raises(ConfidentialityError):
        pickle.dumps(margin)


def test_what_was_done_with_missing_values_goes_with_the_table():
    assert ContingencyTable(COUNTS, AB).missing is None
    table = ContingencyTable(COUNTS, AB, n_is_public=False, missing="drop")
    assert (table.missing, table.margin("b").missing) == ("drop", "drop")
    assert not table.margin("b").n_is_public


# ------------------------------------------------------------------ nothing shows


def test_no_text_shows_a_count(table, caplog):
    margin = table.margin("b")
    for t in (table, margin):
        for text in (repr(t), str(t), f"{t}", f"{t!r}", f"{t!s}", f"{t!a}", format(t), "%s" % t,  # noqa: UP031
                     pprint.pformat(t), pprint.pformat({"t": [t]}), repr([t]), str({"t": t}),
                     repr(pd.Series([t])), repr(np.array([t], dtype=object))):  # fmt: skip
            assert silent(text)
        logging.getLogger(__name__).warning("table %s %r", t, t)
    assert caplog.records
    assert silent(caplog.text)
    assert repr(table) == "<ContingencyTable a: 2, b: 3; counts confidential>"


def test_it_has_no_dict(table):
    with pytest.raises(TypeError):
        vars(table)
    assert silent(dir(table))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_is_not_pickled(table, protocol):
    for thing in (table, [table], {"t": table}, table.margin("a")):
        with pytest.raises(ConfidentialityError, match="confidential") as caught:
            pickle.dumps(thing, protocol=protocol)
        assert silent(caught.value)


@pytest.mark.parametrize(
    "way",
    [copy.copy, copy.deepcopy, lambda t: t.__reduce_ex__(4),
     lambda t: t.__getstate__(), lambda t: copy.deepcopy({"t": t})],
)  # fmt: skip
def test_it_is_not_copied(table, way):
    with pytest.raises(ConfidentialityError, match="confidential") as caught:
        way(table)
    assert silent(caught.value)


def test_json_does_not_take_it(table):
    for thing in (table, [table], {"t": table}):
        with pytest.raises(TypeError) as caught:
            json.dumps(thing)
        assert silent(caught.value)
    assert silent(json.dumps({"t": table}, default=str))
    assert silent(json.dumps({"t": table}, default=repr))


def test_it_is_no_array_and_no_sequence(table):
    for way in (iter, len, list, int, float, sum, lambda t: t[0], lambda t: t + 1, lambda t: t < 1):
        with pytest.raises(TypeError) as caught:
            way(table)
        assert silent(caught.value)
    assert np.asarray(table).dtype == object


def test_it_has_no_statistics(table):
    public = {name for name in dir(table) if not name.startswith("_")}
    assert public == {"counts", "domain", "margin", "missing", "n_is_public"}


def test_two_tables_are_equal_only_when_they_are_one(table):
    assert table == table  # noqa: PLR0124
    assert table != ContingencyTable(COUNTS, AB)


def test_errors_that_carry_labels_do_not_pickle_them():
    error = RecordsError("Factor 'a' has values.", labels=("secret",))
    assert error.labels == ("secret",)
    for text in (str(error), repr(error), *traceback.format_exception(error)):
        assert "secret" not in text
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert b"secret" not in pickle.dumps(error, protocol)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is RecordsError
    assert str(again) == str(error)
    assert again.labels == ()
    assert copy.copy(error).labels == ()


# ------------------------------------------------------------------ size


def test_the_size_of_a_joint_table():
    check_joint_size(Domain({f"f{i}": [0, 1] for i in range(27)}))
    with pytest.raises(RecordsError, match=f"{2**28:,} cells"):
        check_joint_size(Domain({f"f{i}": [0, 1] for i in range(28)}))
    with pytest.raises(RecordsError, match=f"{4**40:,} cells"):
        check_joint_size(Domain({f"f{i}": range(4) for i in range(40)}))
    assert MAX_CELLS == 2**27
