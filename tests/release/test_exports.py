"""Releases as CSV, Parquet and integers: the same cells, whole files, totals that are met."""

import copy
import csv
import inspect
import itertools
import json
import os
import pickle

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import dpcontingency as dpc
from dpcontingency import _writing
from dpcontingency.domain import Domain, label_text
from dpcontingency.errors import DPContingencyError, ReleaseError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release import exports, integers
from dpcontingency.release.mechanisms import Gaussian, Laplace
from dpcontingency.release.publish import release_table, simulate_release
from dpcontingency.release.release import Release
from dpcontingency.table import ContingencyTable

DOMAIN = Domain({"A": ["01", "", "NA"], 'B, "b"\r\n': ["x\r", "ü"], "C": [3, 1]})
COUNTS = np.arange(12).reshape(3, 2, 2)


def simulated(counts=COUNTS, domain=DOMAIN, mu=0.7, seed=1, **options):
    return simulate_release(counts, domain, GDP(mu), np.random.default_rng(seed), **options)


def read_csv(path):
    return pd.read_csv(path, dtype={0: str, 1: str}, keep_default_na=False, lineterminator="\n")


# ------------------------------------------------------------------ CSV and Parquet


@pytest.mark.parametrize("integer", [False, True])
def test_files_hold_the_frame(tmp_path, integer):
    source = simulated().to_integer_table() if integer else simulated()
    frame = source.to_frame()
    source.to_csv(tmp_path / "r.csv")
    source.to_parquet(tmp_path / "r.parquet")
    rows = read_csv(tmp_path / "r.csv")
    assert list(rows.pop("NOT PRIVATE").unique()) == ["simulated, at " + GDP(0.7).describe()]
    for again in (rows, pd.read_parquet(tmp_path / "r.parquet")):
        assert list(again.columns) == list(frame.columns)
        for name in frame:
            assert again[name].tolist() == frame[name].tolist()
        assert again["C"].dtype == np.int64
    said = pq.read_schema(tmp_path / "r.parquet").metadata[exports.METADATA_KEY]
    assert json.loads(said) == source.statement()
    assert sorted(os.listdir(tmp_path)) == ["r.csv", "r.parquet"]


def test_rows_of_what_is_not_private_say_so(tmp_path):
    small, counts = {"A": ["a", "b"]}, [5, 3]
    domain, observed = Domain(small), Domain.from_dict({"factors": small, "observed": True})
    private = release_table(ContingencyTable(counts, domain), GDP(1))
    made = {
        "exact counts, no noise": Release.exact(counts, domain),
        "simulated, at mu = 0.7": simulated(np.array(counts), domain),
        "levels read off the records, outside": release_table(
            ContingencyTable(counts, observed), GDP(1)
        ),
        "": private,
    }
    for reason, release in made.items():
        for source in (release, release.margin("A"), release.to_integer_table()):
            source.to_csv(tmp_path / "r.csv")
            rows = pd.read_csv(tmp_path / "r.csv")
            extra = [name for name in rows if name not in source.to_frame()]
            assert extra == (["NOT PRIVATE"] if reason else [])
            assert all(text.startswith(reason) for name in extra for text in rows[name])


FORMULAS = ['=HYPERLINK("http://x")', "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1",
            "'=1", "''=1", "-A"]  # fmt: skip
PLAIN = ["a=1", " x", "it's", "'quoted'", "-5", "+3", "-0.5", "1e-3", "(-5, 0]", "<=50K", "é", ""]


@pytest.mark.parametrize("integer", [False, True])
def test_no_label_is_a_formula_in_a_spreadsheet(tmp_path, integer):  # D14
    domain = Domain({"=A": FORMULAS + PLAIN, "B": [-5, 2], "@C": [-0.5, 2.5]})
    source = simulated(np.ones(domain.shape, dtype=int), domain)
    source = source.to_integer_table() if integer else source

    def written(**options):
        source.to_csv(tmp_path / "r.csv", **options)
        with open(tmp_path / "r.csv", newline="", encoding="utf-8") as stream:
            head, *rows = csv.reader(stream, quoting=csv.QUOTE_NONNUMERIC)
        return head, list(dict.fromkeys(row[0] for row in rows)), rows

    head, labels, rows = written()
    assert head[:3] == ["'=A", "B", "'@C"]
    assert labels == [f"'{label}" for label in FORMULAS] + PLAIN
    assert len(set(labels)) == len(FORMULAS + PLAIN)
    assert [row[1:3] for row in rows[:4]] == [
        row[1:3] for row in written(spreadsheet_safe=False)[2][:4]
    ]
    head, labels, _ = written(spreadsheet_safe=False)
    assert head[:3] == list(domain.names)
    assert labels == FORMULAS + PLAIN


def test_numbers_keep_their_bits(tmp_path):
    domain = Domain({"A": range(1000)})
    values = np.random.default_rng(1).standard_cauchy(1000)
    release = Release.from_noisy_table(values, domain, sigma=1 / 3)
    release.to_csv(tmp_path / "r.csv")
    with open(tmp_path / "r.csv", newline="", encoding="utf-8") as stream:
        again = [float(row["noisy"]) for row in csv.DictReader(stream)]
    assert np.array(again).tobytes() == values.tobytes()


def test_labels_of_several_kinds_are_text_in_parquet(tmp_path):
    domain = Domain(
        {"A": [1, True, 2.5, "x"], "B": [2**70, 3], "C": [True, False], "D": [1.5, 2.0]}
    )
    release = simulated(np.ones(domain.shape, dtype=int), domain)
    release.to_parquet(tmp_path / "r.parquet")
    frame = pd.read_parquet(tmp_path / "r.parquet")
    for name in ("A", "B"):
        assert list(dict.fromkeys(frame[name])) == [label_text(v) for v in domain.levels[name]]
    assert frame["C"].dtype == bool
    assert frame["D"].dtype == np.float64


def test_what_a_file_cannot_hold_is_refused(tmp_path):
    odd = simulated(np.array([1, 2]), Domain({"A": ["\udcff", "b"]}))
    assert odd.to_frame()["A"].tolist() == ["\udcff", "b"]
    for write in (odd.to_csv, odd.to_parquet):
        with pytest.raises(ReleaseError, match="no Unicode text"):
            write(tmp_path / "f")
    named = simulated(np.array([1, 2]), Domain({"\udcff": ["a", "b"]}))
    for frame in (named.to_frame, named.to_integer_table().to_frame):
        with pytest.raises(ReleaseError, match="no factor name that is no Unicode text"):
            frame()
    twice = simulated(np.array([1, 2]), Domain({"noisy": ["a", "b"]}))
    with pytest.raises(ReleaseError, match="'noisy' is a factor too"):
        twice.to_parquet(tmp_path / "f")
    twice.to_csv(tmp_path / "twice.csv")
    header = (tmp_path / "twice.csv").read_text().splitlines()[0]
    assert header == '"noisy","noisy","noise_sd","estimate","NOT PRIVATE"'
    for write in (simulated().to_csv, simulated().to_parquet):
        with pytest.raises(ReleaseError, match="Choose a folder"):
            write(tmp_path / "no" / "such")
    assert os.listdir(tmp_path) == ["twice.csv"]


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_crash_leaves_the_old_file(tmp_path, monkeypatch, step):
    for name in ("to_csv", "to_parquet"):
        path = tmp_path / name
        getattr(simulated(), name)(path)
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(_writing.os, step, lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                getattr(simulated(seed=2), name)(path)
        assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["to_csv", "to_parquet"]


# ------------------------------------------------------------------ integers


def table(shape, strata=(), zeros=()):
    levels = {f"F{axis}": [str(i) for i in range(n)] for axis, n in enumerate(shape)}
    holes = [{f"F{a}": str(i) for a, i in enumerate(cell)} for cell in zeros]
    return Domain(levels, structural_zeros=holes), [f"F{axis}" for axis in strata]


CASES = {
    "3x4": table((3, 4)),
    "strata": table((2, 3, 4), (1,)),
    "two strata, out of order": table((3, 2, 4), (2, 0)),
    "zeros": table((3, 4), (), [(0, 0), (2, 1)]),
    "zeros in strata": table((4, 3), (1,), [(0, 0), (1, 0), (2, 2)]),
    "an empty stratum": table((3, 4), (0,), [(1, j) for j in range(4)]),
    "sparse": table((40, 30)),
}


@pytest.mark.parametrize("mu", [0.05, 1.0, 20.0])
@pytest.mark.parametrize(("domain", "strata"), CASES.values(), ids=CASES)
def test_integers_add_up(domain, strata, mu):
    rng = np.random.default_rng(3)
    for seed in range(5):
        counts = rng.poisson(rng.gamma(0.3, 5, domain.shape)) * domain.possible()
        for mechanism in (None, Gaussian(), Laplace()):
            r = simulated(counts, domain, mu, seed, strata=strata, mechanism=mechanism)
            made = r.to_integer_table()
            axes = tuple(i for i, name in enumerate(domain.names) if name not in strata)
            assert made.values.dtype == np.int64
            assert (made.values >= 0).all()
            assert not made.values[~domain.possible()].any()
            np.testing.assert_array_equal(made.values.sum(axis=axes), counts.sum(axis=axes))
        free = simulated(counts, domain, mu, seed, neighbours="add-remove")
        total = max(0, round(free.noisy.sum()))
        assert free.to_integer_table().values.sum() == total


def projection_by_scipy(x, n):
    """By sequential quadratic programming, to about 1e-4."""
    return minimize(
        lambda z: ((z - x) ** 2).sum(),
        np.full(x.size, n / x.size),
        jac=lambda z: 2 * (z - x),
        bounds=[(0, None)] * x.size,
        constraints={"type": "eq", "fun": lambda z: z.sum() - n, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-10, "maxiter": 500},
    ).x


def projection_by_enumeration(x, n):
    """The nearest of the projections on each face of the simplex that lie in it."""
    found = [np.zeros(x.size)] if n == 0 else []
    for face in itertools.product([False, True], repeat=x.size):
        if any(face):
            z = np.where(face, x + (n - x[list(face)].sum()) / sum(face), 0)
            found += [z] if (z >= 0).all() else []
    return min(found, key=lambda z: ((z - x) ** 2).sum())


@pytest.mark.parametrize("n", [0, 1, 7, 30])
def test_the_projection_is_the_nearest_table(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        x = rng.normal(2, 4, (1, 6))
        open_cells = np.ones((1, 6), dtype=bool)
        open_cells[0, 4] = rng.random() < 0.5
        z = integers._projected(x, open_cells, np.array([n]))
        inside = open_cells[0]
        assert not z[0, ~inside].any()
        given_x, z = x[0, inside], z[0, inside]
        np.testing.assert_allclose(z, projection_by_enumeration(given_x, n), atol=1e-12)
        np.testing.assert_allclose(z, projection_by_scipy(given_x, n), atol=1e-3)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_rounding_is_the_nearest_integer_table_to_the_projection(data):
    """Largest remainders minimise the distance among all integer tables of the total."""
    k = data.draw(st.integers(1, 4))
    x = np.array([data.draw(st.lists(st.floats(-5, 8), min_size=k, max_size=k))])
    n = data.draw(st.integers(0, 9))
    open_cells = np.ones((1, k), dtype=bool)
    z = integers._projected(x, open_cells, np.array([n]))
    out = integers._largest_remainders(z, open_cells, np.array([n]))
    assert out.sum() == n
    assert (np.abs(out - z) < 1 + 1e-9).all()
    every = [c for c in np.ndindex(*(n + 1,) * k) if sum(c) == n]
    nearest = min(((np.array(c) - z[0]) ** 2).sum() for c in every)
    assert ((out - z) ** 2).sum() == pytest.approx(nearest, abs=1e-9)


def test_equal_remainders_go_by_cell():
    domain = Domain({"A": range(4)})
    r = Release.from_noisy_table([2.5, 2.5, 2.5, 2.5], domain, sigma=1)
    assert r.to_integer_table().values.tolist() == [3, 3, 2, 2]


@given(st.lists(st.integers(0, 10**9), min_size=12, max_size=12), st.sampled_from([1, 2]))
@settings(deadline=None)
def test_integers_of_integers_are_themselves(cells, times):
    counts = np.array(cells).reshape(3, 2, 2)
    r = Release.exact(counts, DOMAIN)
    for _ in range(times):
        made = r.to_integer_table()
        np.testing.assert_array_equal(made.values, counts)
        r = Release.from_noisy_table(made.values, DOMAIN, sigma=1.0, n_total=made.values.sum())


def test_integers_follow_relabelling_and_transposing():
    rng = np.random.default_rng(5)
    domain, strata = table((3, 4, 2), (2,))
    r = simulated(rng.poisson(3, domain.shape), domain, strata=strata)
    values = r.to_integer_table().values
    orders = [rng.permutation(n) for n in domain.shape]
    levels = {n: [v[i] for i in o] for (n, v), o in zip(domain.levels.items(), orders, strict=True)}
    for names in (domain.names, domain.names[::-1], ("F1", "F0", "F2")):
        axes = [domain.axis(name) for name in names]
        moved = Release.from_dict(
            {
                **r.margin(*names).to_dict(),
                "domain": Domain({name: levels[name] for name in names}).to_dict(),
                "estimate": r.estimate[np.ix_(*orders)].transpose(axes).ravel().tolist(),
                "totals": r.totals[orders[2]].tolist(),
            }
        )
        expected = values[np.ix_(*orders)].transpose(axes)
        np.testing.assert_array_equal(moved.to_integer_table().values, expected)


def test_large_and_absurd_totals():
    domain = Domain({"A": ["a", "b", "c"]})
    big = Release.from_noisy_table([2.0**52, 2.0**52, -1e150], domain, sigma=1e150, n_total=2**53)
    assert big.to_integer_table().values.tolist() == [2**52, 2**52, 0]
    lop = Release.from_noisy_table([1e150, -1e150, 3.0], domain, sigma=1e150, n_total=2**53)
    assert lop.to_integer_table().values.tolist() == [2**53, 0, 0]
    for total in (2**53 + 2, 1e300, 25.5):
        r = Release.from_noisy_table([total, 2, -2], domain, sigma=1, n_total=total)
        with pytest.raises(ReleaseError, match=r"at most 2\^53"):
            r.to_integer_table()
    for values in ([0.0, 0, 0], [-5.0, -1, -2]):
        r = Release.from_noisy_table(values, domain, sigma=1)
        assert r.to_integer_table().values.tolist() == [0, 0, 0]
    nowhere = Domain(domain.levels, structural_zeros=[{"A": v} for v in "abc"])
    with pytest.raises(ReleaseError, match="3 away from the public one"):
        Release.from_noisy_table([1.0, 2, 3], nowhere, sigma=1, n_total=3)


def test_what_an_integer_table_says_of_itself(tmp_path):
    r = simulated()
    made = r.to_integer_table()
    assert repr(made) == (
        r'<IntegerTable A: 3, B, "b"\r\n: 2, C: 2; for printing, not for inference>'
    )
    assert list(made.to_frame().columns)[-1] == "integer"
    assert not any("count" in name.lower() for name in made.to_frame())
    assert "largest remainders" in made.statement()["Integers"]
    assert made.statement()["Privacy"] == r.statement()["Privacy"]
    for again in (made, pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        np.testing.assert_array_equal(again.values, made.values)
        with pytest.raises(ValueError, match="read-only"):
            again.values[0, 0, 0] = 1
        with pytest.raises(AttributeError):
            again.values = again.values


def test_it_has_no_noise_law():
    made = simulated().to_integer_table()
    for name in ("noise", "noise_sd", "noisy", "sigma", "conditioned", "margin", "estimate"):
        assert not hasattr(made, name)


def test_inference_refuses_integers():
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    made = simulated(np.arange(6).reshape(2, 3) + 9, domain).to_integer_table()
    calls = [
        lambda: dpc.LogLinearModel(made, "[A][B]"),
        lambda: dpc.LogLinearModel.from_formula("A + B", made),
        lambda: dpc.independence_test(made, "A", "B"),
        lambda: dpc.write_report(made, "nowhere.html"),
        lambda: Release.from_noisy_table(made, domain, sigma=1.0),
        lambda: Release.exact(made, domain),
        lambda: release_table(made, GDP(1)),
    ]
    for call in calls:
        refusal = pytest.raises(
            (DPContingencyError, AttributeError), match=r"IntegerTable|integer table"
        )
        with refusal as caught:
            call()
        assert "\n" not in str(caught.value), inspect.getsource(call)


def test_the_integers_of_a_private_release_are_post_processing():
    """They are a function of what is public: of the file alone."""
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    counts = np.array([[7919, 10007, 4], [3, 10007, 7919]])
    r = release_table(ContingencyTable(counts, domain), GDP(0.05))
    again = Release.from_dict(json.loads(json.dumps(r.to_dict()))).to_integer_table()
    np.testing.assert_array_equal(again.values, r.to_integer_table().values)
