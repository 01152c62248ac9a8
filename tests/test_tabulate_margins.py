"""Margins in few passes: the same as those of the joint table, where there is one."""

import copy
import itertools
import pickle

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcontingency import _counting
from dpcontingency._counting import BLOCK, cover
from dpcontingency.bins import Bins
from dpcontingency.domain import Domain
from dpcontingency.errors import ConfidentialityError, DomainError, RecordsError
from dpcontingency.table import ConfidentialMargins, ContingencyTable
from dpcontingency.tabulate import tabulate, tabulate_margins

RNG = np.random.default_rng(3)
WIDE = Domain({f"q{i}": list("abcd") for i in range(40)})
RECORDS = pd.DataFrame({name: RNG.choice(list("abcd"), 500) for name in WIDE.names})
PLANTED = (7919, 10007)


@pytest.fixture
def queries(monkeypatch):
    """How many rows each query of DuckDB returned."""
    returned = []
    run = ibis.backends.duckdb.Backend.to_pyarrow

    def spy(self, *args, **kwargs):
        table = run(self, *args, **kwargs)
        returned.append(table.num_rows)
        return table

    monkeypatch.setattr(ibis.backends.duckdb.Backend, "to_pyarrow", spy)
    return returned


# ------------------------------------------------------------------ a joint that cannot exist


@pytest.mark.parametrize("make", [lambda f: f, pl.from_pandas, pa.table], ids=["pd", "pl", "pa"])
def test_all_pairs_of_forty_factors(make, queries):
    with pytest.raises(RecordsError, match=f"{4**40:,} cells"):
        tabulate(make(RECORDS), WIDE)
    pairs = list(itertools.combinations(WIDE.names, 2))
    margins = tabulate_margins(make(RECORDS), WIDE, pairs)
    assert len(queries) == 1  # one pass over the records
    assert margins.domain is WIDE
    assert margins.margins == tuple(pairs)
    assert margins.n == 500
    for one, other in pairs[::97]:
        expected = pd.crosstab(RECORDS[one], RECORDS[other]).to_numpy()
        assert (margins.margin(one, other).counts == expected).all()
        assert (margins.margin(other, one).counts == expected.T).all()


@pytest.mark.parametrize("plain", [True, False])
def test_a_pass_for_each_block_gives_the_same(plain, queries, monkeypatch):
    pairs = list(itertools.combinations(WIDE.names[:12], 2))
    reference = tabulate_margins(RECORDS, WIDE, pairs)
    if plain:
        monkeypatch.setattr(_counting, "HAVE_GROUPING_SETS", frozenset())
    records = RECORDS if plain else ibis.memtable(pa.table(RECORDS))
    del queries[:]
    margins = tabulate_margins(records, WIDE, pairs)
    assert 1 < len(queries) < len(pairs) / 2 * (1 if plain else 2)
    for pair in pairs:
        assert (margins.margin(*pair).counts == reference.margin(*pair).counts).all()


def test_very_many_blocks_take_several_queries(queries, monkeypatch):
    monkeypatch.setattr(_counting, "BLOCK", 1)
    monkeypatch.setattr(_counting, "SETS", 4)
    singles = [(name,) for name in WIDE.names[:10]]
    margins = tabulate_margins(RECORDS, WIDE, singles)
    assert len(queries) == 3
    for (name,) in singles:
        expected = RECORDS[name].value_counts().reindex(list("abcd")).to_numpy()
        assert (margins.margin(name).counts == expected).all()


def test_few_cells_are_counted_together(queries):
    domain = WIDE.project(["q3", "q1", "q7"])
    margins = tabulate_margins(RECORDS, WIDE, [("q3", "q1"), ("q7",), ("q1", "q7")])
    assert len(queries) == 1
    assert (margins.margin("q1", "q7").counts == tabulate(RECORDS, domain).margin("q1", "q7").counts
            ).all()  # fmt: skip


# ------------------------------------------------------------------ the law


@st.composite
def cases(draw):
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    names = [f"f {i}" for i in range(len(sizes))]
    domain = Domain(
        {n: [*range(k), "?"] for n, k in zip(names, sizes, strict=True)},
        bins=draw(st.sampled_from([{}, {names[0]: Bins(range(sizes[0] + 1))}])),
    )
    size = draw(st.integers(0, 12))
    value = [st.sampled_from([*range(k), None]) for k in sizes]
    rows = draw(st.lists(st.tuples(*value), min_size=size, max_size=size))
    frame = pd.DataFrame(
        {n: pd.array([row[i] for row in rows], "Int64") for i, n in enumerate(names)}
    )
    margin = st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple)
    margins = draw(st.lists(margin, min_size=1, max_size=5, unique_by=frozenset))
    return frame, domain, margins


@settings(max_examples=15)
@given(cases(), st.sampled_from(["?", "drop"]), st.integers(1, 60))
def test_margins_are_those_of_the_joint(case, missing, block):
    frame, domain, margins = case
    part = domain.project([n for n in domain.names if any(n in m for m in margins)])
    joint = tabulate(frame, part, missing=missing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_counting, "BLOCK", block)
        for sets in (_counting.HAVE_GROUPING_SETS, frozenset()):
            patch.setattr(_counting, "HAVE_GROUPING_SETS", sets)
            counted = tabulate_margins(frame, domain, margins, missing=missing)
            assert counted.n == joint.counts.sum()
            assert counted.missing == missing
            assert counted.n_is_public == (missing != "drop")
            for margin in margins:
                table = counted.margin(*margin)
                assert (table.counts == joint.margin(*margin).counts).all()
                assert table.domain == domain.project(margin)
                assert table.missing == missing


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=8).flatmap(
        lambda shape: st.tuples(
            st.just(shape),
            st.lists(st.frozensets(st.sampled_from(range(len(shape))), min_size=1), min_size=1),
        )
    )
)
def test_every_set_lies_in_a_block(case):
    shape, sets = case
    blocks = cover(sets, shape)
    assert all(any(one <= block for block in blocks) for one in sets)
    assert len(blocks) <= len(set(sets))
    for block in blocks:
        assert np.prod([shape[f] for f in block]) <= BLOCK or block in sets


# ------------------------------------------------------------------ the same refusals


def refusal(records, domain, margins, **options):
    with pytest.raises(RecordsError) as caught:
        tabulate_margins(records, domain, margins, **options)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert "secret" not in str(caught.value)
    return caught.value


ABC = Domain({"a": ["x", "y"], "b": ["u", "v"], "c": [1, 2]})
FRAME = pd.DataFrame({"a": ["x", "y", "y"], "b": ["u", "u", "v"], "c": [1, 2, 2]})


def test_values_that_are_not_declared(monkeypatch):
    for block in (BLOCK, 4, 1):
        monkeypatch.setattr(_counting, "BLOCK", block)
        error = refusal(FRAME.assign(b=["u", "secret", "v"]), ABC, [("a", "b"), ("c",)])
        assert error.labels == ("secret",)
        assert "'b'" in str(error)
        assert "missing values" in str(
            refusal(FRAME.assign(b=["u", None, "v"]), ABC, [("a", "b"), ("c",)])
        )
        assert "fractional" in str(refusal(FRAME.assign(w=0.5), ABC, [("a",), ("b",)], weights="w"))


def test_factors_in_no_margin_are_not_read():
    margins = tabulate_margins(FRAME.drop(columns="c"), ABC, [("b", "a")])
    assert margins.margin("a", "b").counts.tolist() == [[1, 0], [1, 1]]
    assert "no column 'c'" in str(refusal(FRAME.drop(columns="c"), ABC, [("c",)]))


def test_dropping_is_the_same_for_every_margin():
    frame = FRAME.assign(a=["x", None, "y"], b=["u", "u", None])
    margins = tabulate_margins(frame, ABC, [("a",), ("b",)], missing="drop")
    assert margins.n == 1
    assert margins.margin("a").counts.tolist() == [1, 0]
    assert not margins.n_is_public


@pytest.mark.parametrize("block", [BLOCK, 2])
def test_an_impossible_cell_that_no_margin_shows(block, monkeypatch):
    monkeypatch.setattr(_counting, "BLOCK", block)
    domain = Domain(dict(ABC.levels), structural_zeros=[{"a": "x", "b": "u"}])
    assert "structural zero" in str(refusal(FRAME, domain, [("a",), ("b",)]))
    possible = FRAME.assign(a="y")
    margins = tabulate_margins(possible, domain, [("a",), ("b",)])
    assert margins.margins == (("a",), ("b",))


def test_structural_zeros_in_a_domain_without_a_joint():
    domain = Domain(dict(WIDE.levels), structural_zeros=[{"q0": "a", "q39": "a"}])
    mended = RECORDS.assign(q0="b")
    margins = tabulate_margins(mended, domain, [("q0", "q39"), ("q5",)])
    assert not margins.margin("q0", "q39").domain.possible()[0, 0]
    assert margins.margin("q5").domain.possible().all()
    assert "structural zero" in str(refusal(RECORDS, domain, [("q0",), ("q39", "q1")]))


@pytest.mark.parametrize(
    "margins", [[], "ab", None, 3, [("a", "z")], [("a", "a")], [()], [("a", "b"), ("b", "a")], [3]]
)
def test_margins_that_are_none(margins):
    with pytest.raises(DomainError):
        tabulate_margins(FRAME, ABC, margins)


def test_margins_too_large_together():
    domain = Domain({f"f{i}": range(2**12) for i in range(8)})
    with pytest.raises(RecordsError, match=f"{2**36:,} cells"):
        tabulate_margins("nowhere.csv", domain, [("f0", "f1", "f2")])


# ------------------------------------------------------------------ nothing shows


@pytest.fixture
def planted():
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"], "c": [1, 2], "w": PLANTED})
    return tabulate_margins(frame, ABC, [("a", "b"), ("c",)], weights="w")


def test_the_container_shows_no_count(planted):
    assert repr(planted) == "<ConfidentialMargins 2 margins of 3 factors; counts confidential>"
    assert planted.margin("c").counts.tolist() == list(PLANTED)
    assert planted.n == sum(PLANTED)
    shown = [repr(planted), str(planted), f"{planted}", repr([planted]), repr(planted.margin("a"))]
    for ask in (lambda: planted.margin("a", "c"), lambda: planted.margin("z"),
                planted.margin):  # fmt: skip
        with pytest.raises(DomainError) as caught:
            ask()
        shown.append(str(caught.value))
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ConfidentialityError, match="ConfidentialMargins holds") as caught:
            way(planted)
        shown.append(str(caught.value))
    with pytest.raises(TypeError):
        vars(planted)
    for text in shown:
        assert not any(str(n) in text for n in (*PLANTED, sum(PLANTED)))


def test_margins_inside_margins(planted):
    assert planted.margin("b", "a").counts.tolist() == [[7919, 0], [0, 10007]]
    assert planted.margin("b").domain == ABC.project(["b"])


@pytest.mark.parametrize(
    "tables",
    [
        [],
        [3],
        [ContingencyTable([1, 2], ABC.project(["a"])),
         ContingencyTable([1, 1], ABC.project(["b"]))],
        [ContingencyTable([1, 2], ABC.project(["a"])),
         ContingencyTable([1, 2], ABC.project(["b"]), n_is_public=False)],
        [ContingencyTable([1, 2], Domain({"a": ["x", "z"]}))],
    ],
)  # fmt: skip
def test_tables_that_do_not_belong_together(tables):
    with pytest.raises(RecordsError):
        ConfidentialMargins(tables, ABC)


def test_records_that_change_meanwhile_are_refused(monkeypatch):
    monkeypatch.setattr(_counting, "HAVE_GROUPING_SETS", frozenset())
    monkeypatch.setattr(_counting, "BLOCK", 1)
    run = ibis.backends.duckdb.Backend.to_pyarrow
    answers = itertools.count()

    def changing(self, *args, **kwargs):
        return run(self, *args, **kwargs).slice(next(answers))

    monkeypatch.setattr(ibis.backends.duckdb.Backend, "to_pyarrow", changing)
    assert "changed while" in str(refusal(FRAME, ABC, [("a",), ("b",)]))


@pytest.mark.parametrize("zeros", [[], [{"a": "x", "b": "u"}]])
def test_a_margin_of_nothing(zeros):
    domain = Domain({"a": ["x", "y"], "b": ["u", "v"]}, structural_zeros=zeros)
    with pytest.raises(DomainError, match="at least one factor"):
        tabulate_margins(pd.DataFrame({"a": ["y"], "b": ["u"]}), domain, [()])


def test_margins_that_contradict_each_other_are_refused_without_a_count():
    """Equal totals are not enough: shared factors have one margin, in whatever order."""
    counts = np.random.default_rng(1).integers(0, 90, ABC.shape)
    whole = ContingencyTable(counts, ABC)
    wanted = [("a", "b"), ("c", "b"), ("b",), ("a", "c")]
    tables = [whole.margin(*names) for names in wanted]
    ConfidentialMargins(tables, ABC)
    for k, names in enumerate(wanted):
        moved = tables[k].counts.copy()
        taken = int(moved.flat[np.argmax(moved)])
        moved.flat[np.argmax(moved)] = 0
        moved.flat[0 if np.argmax(tables[k].counts) else -1] += taken
        bad = ContingencyTable(moved, ABC.project(names))
        with pytest.raises(RecordsError, match=r"differ on [abc, ]+, which several") as caught:
            ConfidentialMargins([*tables[:k], bad, *tables[k + 1 :]], ABC)
        assert not any(character.isdigit() for character in str(caught.value))
