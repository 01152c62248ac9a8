"""The object that crosses the wall: its numbers, its law, what it never shows, its file."""

import copy
import json
import math
import pickle
import struct
import warnings
from fractions import Fraction
from functools import partial
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st
from scipy import stats

from dpcontingency.domain import Domain, label_text
from dpcontingency.errors import (
    ConfidentialityError,
    DomainError,
    DPContingencyError,
    PlausibilityWarning,
    PrecisionWarning,
    PrivacyError,
    RecordsError,
    ReleaseError,
)
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.release import publish
from dpcontingency.release.mechanisms import (
    BlockJamesStein,
    Gaussian,
    JamesStein,
    Laplace,
    RankDeficientGaussian,
    RankDeficientJamesStein,
)
from dpcontingency.release.publish import release_table, simulate_release
from dpcontingency.release.release import Release, load_release
from dpcontingency.release.sampler import rounded_noise
from dpcontingency.table import ContingencyTable, check_joint_size

DOMAIN = Domain({"A": ["a1", "a2"], "B": ["b1", "b2", "b3"], "C": ["c1", "c2"]})
COUNTS = np.arange(12).reshape(2, 3, 2) + 20
MECHANISMS = [
    Gaussian(),
    RankDeficientGaussian(),
    JamesStein(),
    RankDeficientJamesStein(),
    BlockJamesStein(),
    Laplace(),
]


def released(counts, domain, mu=1.0, seed=1, *, n_is_public=True, **options):
    """release_table, fed with deterministic entropy."""
    entropy = np.random.default_rng(seed).bytes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publish, "rounded_noise", partial(rounded_noise, entropy=entropy))
        table = ContingencyTable(counts, domain, n_is_public=n_is_public)
        return release_table(table, GDP(mu), **options)


def simulated(counts=COUNTS, domain=DOMAIN, mu=1.0, seed=1, **options):
    return simulate_release(counts, domain, GDP(mu), np.random.default_rng(seed), **options)


# ------------------------------------------------------------------ the noise of a real release

BIG = Domain({"A": range(30), "B": range(20), "C": ["x", "y"]})
BIG_COUNTS = np.arange(1200).reshape(30, 20, 2)


@pytest.mark.parametrize(
    ("relation", "strata", "sensitivity"),
    [
        ("replace-one", (), math.sqrt(2)),
        ("replace-one", ("C",), math.sqrt(2)),
        ("replace-one", ("B", "A"), math.sqrt(2)),
        ("add-remove", (), 1.0),
    ],
)
@pytest.mark.parametrize("mu", [0.1, 2.0])
def test_noise_has_its_law_and_lives_in_its_space(relation, strata, sensitivity, mu):
    r = released(BIG_COUNTS, BIG, mu, neighbours=relation, strata=strata)
    assert r.sigma == pytest.approx(sensitivity / mu, rel=1e-15)
    assert Fraction(r.sigma) * Fraction(mu) >= Fraction(sensitivity)
    noise = r.noisy - BIG_COUNTS
    assert stats.kstest((noise / r.noise_sd).ravel(), "norm").pvalue > 1e-3
    assert stats.kstest((noise / r.noise_sd).ravel() * 1.35, "norm").pvalue < 1e-3
    if relation == "add-remove":
        assert r.noise.strata is None
        return
    axes = tuple(i for i, name in enumerate(BIG.names) if name not in strata)
    assert np.abs(noise.sum(axis=axes)).max() < 1e-9
    assert (r.totals == BIG_COUNTS.sum(axis=axes)).all()
    # Restricted to less than the whole space it would have a smaller variance than stated.
    assert r.noise.dimension == 1200 - r.totals.size
    chi2 = (noise**2).sum() / r.sigma**2
    assert 1e-3 < stats.chi2.sf(chi2, r.noise.dimension) < 1 - 1e-3


def test_structural_zeros_get_no_noise():
    domain = Domain(
        {"A": ["a", "b"], "B": ["u", "v", "w"]},
        structural_zeros=[{"A": "a", "B": "u"}, {"A": "b", "B": "w"}],
    )
    counts = np.array([[0, 4, 7], [2, 9, 0]])
    for mechanism in (Gaussian(), RankDeficientGaussian(), Laplace()):
        r = released(counts, domain, mechanism=mechanism)
        impossible = ~domain.possible()
        assert (r.noisy[impossible] == 0).all()
        assert (r.noise_sd[impossible] == 0).all()
        assert (r.noise_sd[~impossible] > 0).all()
    assert released(counts, domain).noisy.sum() == pytest.approx(22)
    r = released(counts, domain, strata=("A",))
    assert r.noisy.sum(axis=1) == pytest.approx([11, 11])


@pytest.mark.parametrize("mu", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("mechanism", [Gaussian(), Laplace()])
def test_low_bits_say_nothing_of_the_counts(mu, mechanism):
    """The release of N + k is the release of N, plus k, bit for bit, for the same entropy."""
    for relation in ("replace-one", "add-remove"):
        options = {"mu": mu, "neighbours": relation, "mechanism": mechanism}
        base = released(np.zeros_like(COUNTS), DOMAIN, **options).noisy
        for k in (1, 2, 3, 1000, 2**20 + 1):
            assert (released(np.full_like(COUNTS, k), DOMAIN, **options).noisy == base + k).all()
        fraction = np.mod(base, 1)
        assert (np.mod(released(COUNTS, DOMAIN, **options).noisy, 1) == fraction).all()


@pytest.mark.parametrize("mu", [1e-6, 0.01, 1.0, 300.0])
def test_noisy_cells_are_on_the_stated_grid(mu):
    r = released(COUNTS, DOMAIN, mu, mechanism=Gaussian())
    exponent = int(r.provenance["noise"].rsplit("-", 1)[1])
    on_grid = np.ldexp(r.noisy, exponent)
    assert (on_grid == np.rint(on_grid)).all()
    assert exponent == 0 or (np.mod(on_grid, 2) == 1).any()  # and on no coarser one
    assert math.ldexp(r.sigma, exponent) >= 1024


def test_the_largest_counts_keep_their_digits():
    domain = Domain({"A": ["a", "b"]})
    counts = np.array([2**42, 0])
    r = released(counts, domain, 1000.0, mechanism=Gaussian())
    assert np.abs(r.noisy - counts).max() < 0.01
    assert r.n_total == 2**42


def test_every_release_draws_afresh():
    table = ContingencyTable(COUNTS, DOMAIN)
    first, second = (release_table(table, GDP(1)) for _ in range(2))
    assert (first.noisy != second.noisy).any()
    assert first.private
    assert np.abs(first.noisy - COUNTS).max() < 10 * first.sigma


# ------------------------------------------------------------------ public totals


def test_totals_follow_the_neighbours():
    r = released(COUNTS, DOMAIN)
    assert r.n_total == r.n_total_estimate == COUNTS.sum()
    assert isinstance(r.n_total, int)
    assert r.n_total_se == 0
    assert r.strata == ()
    r = released(COUNTS, DOMAIN, strata=("C", "A"))
    assert r.strata == ("A", "C")
    assert (r.totals == COUNTS.sum(axis=1)).all()
    assert r.n_total == COUNTS.sum()


def test_add_remove_has_no_public_total():
    r = released(COUNTS, DOMAIN, neighbours="add-remove")
    with pytest.raises(ReleaseError, match="Use n_total_estimate"):
        r.n_total  # noqa: B018
    with pytest.raises(ReleaseError, match="not public"):
        r.margin("A").n_total  # noqa: B018
    assert r.n_total_estimate == pytest.approx(r.noisy.sum())
    assert r.n_total_se == pytest.approx(math.sqrt(12))
    assert r.margin("B").n_total_se == pytest.approx(math.sqrt(12))
    assert abs(r.n_total_estimate - COUNTS.sum()) < 5 * r.n_total_se


def test_dropped_records_make_the_total_confidential():
    for strata in ((), ("A",)):
        with pytest.raises(PrivacyError, match="neighbours='add-remove'") as caught:
            released(COUNTS, DOMAIN, n_is_public=False, strata=strata)
        assert str(COUNTS.sum()) not in str(caught.value)
    r = released(COUNTS, DOMAIN, n_is_public=False, neighbours="add-remove")
    assert r.totals is None
    margin = ContingencyTable(COUNTS, DOMAIN, n_is_public=False).margin("A")
    with pytest.raises(PrivacyError, match="missing values were dropped"):
        release_table(margin, GDP(1))


def test_the_policy_for_missing_values_is_stated(tmp_path):
    """CASES C13: on the release, its margins, its file; and nowhere where it is not known."""
    for policy, says in (
        ("error", "none (they are an error)"),
        ("drop", "records that lack a factor are dropped"),
        ("unknown", "counted as level 'unknown'"),
    ):
        table = ContingencyTable(COUNTS, DOMAIN, missing=policy)
        r = release_table(table, GDP(1))
        r.save(tmp_path / "r.json")
        for stated in (r, r.margin("A"), load_release(tmp_path / "r.json")):
            assert stated.provenance["missing"] == says
            assert stated.statement()["Missing values"] == says
        assert release_table(table.margin("B"), GDP(1)).provenance["missing"] == says
    assert "Missing values" not in released(COUNTS, DOMAIN).statement()
    assert "missing" not in released(COUNTS, DOMAIN).provenance


def test_a_margin_beyond_the_largest_count_is_not_released(tmp_path):
    """A count times the number of grid steps to 1 would not fit 64 bits."""
    wide = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    table = ContingencyTable(np.full((2, 2), 2**42), wide)
    ledger = PrivacyLedger(tmp_path / "l", GDP(1))
    with pytest.raises(RecordsError, match=r"exceeds 2\^42") as caught:
        release_table(table.margin("A"), GDP(1), ledger=ledger)
    assert str(2**43) not in str(caught.value)
    assert ledger.spent == 0
    assert release_table(table, GDP(1), ledger=ledger).margin("A").n_total == 2**44


# ------------------------------------------------------------------ what it never shows

SECRET = Domain({"A": ["a1", "a2"], "B": ["b1", "b2", "b3"]})
PLANTED = np.array([[7919, 10007, 4], [3, 10007, 7919]])
TRACES = [
    b"7919",
    b"10007",
    *(struct.pack(code, v) for v in (7919, 10007) for code in ("<q", ">q", "<d", ">d")),
]


def holds_no_planted_count(text):
    content = text.encode() if isinstance(text, str) else text
    return not any(trace in content for trace in TRACES)


@pytest.mark.parametrize("mechanism", [None, *MECHANISMS], ids=repr)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_planted_counts_are_nowhere(tmp_path, mechanism, relation):
    r = released(PLANTED, SECRET, 0.05, seed=3, mechanism=mechanism, neighbours=relation)
    assert (np.abs(r.noisy - PLANTED) > 0.5).all()  # the noise did not happen to be 0
    r.save(tmp_path / "r.json")
    text = [
        repr(r),
        str(r),
        f"{r}",
        repr(r.statement()),
        repr(vars(r)),
        (tmp_path / "r.json").read_text(),
    ]
    text += [r.to_frame().to_csv(), repr(r.noise), repr(r.provenance)]
    for margin in (("A",), ("B", "A")):
        text += [repr(r.margin(*margin)), r.margin(*margin).to_frame().to_csv()]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        text.append(pickle.dumps(r, protocol))
    assert all(map(holds_no_planted_count, text))


def test_the_search_would_find_a_planted_count(tmp_path):
    """Release.exact shows its counts by definition, and says so."""
    r = Release.exact(PLANTED, SECRET)
    r.save(tmp_path / "r.json")
    assert not holds_no_planted_count((tmp_path / "r.json").read_text())
    assert not holds_no_planted_count(pickle.dumps(r))
    assert not holds_no_planted_count(pickle.dumps(PLANTED))
    assert holds_no_planted_count(repr(r))
    assert "NOT PRIVATE" in repr(r)
    assert "NOT PRIVATE" in repr(r.statement())


@pytest.mark.parametrize(
    "call",
    [
        lambda t: release_table(t, 0.5),
        lambda t: release_table(t, GDP(1e-15)),
        lambda t: release_table(t, GDP(1e-300)),
        lambda t: release_table(t, GDP(1), neighbours="add"),
        lambda t: release_table(t, GDP(1), neighbours="add-remove", strata=("A",)),
        lambda t: release_table(t, GDP(1), strata=("A", "B")),
        lambda t: release_table(t, GDP(1), strata=("Z",)),
        lambda t: release_table(t, GDP(1), strata=(("A",), ("B",))),
        lambda t: release_table(t.margin("A"), GDP(1), mechanism=JamesStein()),
        lambda t: release_table(t.counts, GDP(1)),
        lambda t: release_table(None, GDP(1)),
        lambda t: simulate_release(t.counts, t.domain, GDP(1), 1),
        lambda t: simulate_release(-t.counts, t.domain, GDP(1), np.random.default_rng(1)),
        lambda t: simulate_release(t.counts.T, t.domain, GDP(1), np.random.default_rng(1)),
        lambda t: simulate_release(t.counts + 0.5, t.domain, GDP(1), np.random.default_rng(1)),
        lambda t: Release.exact(-t.counts, t.domain),
        lambda t: Release.exact(t.counts.ravel(), t.domain),
        lambda t: Release.from_noisy_table(t.counts, t.domain, sigma="x"),
        lambda t: Release.from_noisy_table(t.counts, t.domain, sigma=1.0, n_total="x"),
        lambda t: Release.from_noisy_table(t.counts, t.domain, sigma=-1.0),
        pickle.dumps,
    ],
)
def test_no_error_shows_a_count(call):
    table = ContingencyTable(PLANTED, SECRET)
    with pytest.raises(DPContingencyError) as caught:  # a warning would be another error
        call(table)
    error = caught.value
    while error is not None:
        assert holds_no_planted_count(f"{error} {error!r} {vars(error)}")
        assert "\n" not in str(error)
        error = error.__cause__ or error.__context__


def test_a_confidential_table_is_not_copied():
    with pytest.raises(ConfidentialityError, match="cannot be pickled"):
        pickle.dumps([ContingencyTable(PLANTED, SECRET)])


# ------------------------------------------------------------------ margins


@pytest.mark.parametrize("options", [{}, {"neighbours": "add-remove"}, {"mechanism": Gaussian()}])
def test_margins_are_sums_with_their_law(options):
    r = simulated(**options)
    for k in (1, 2, 3):
        for names in permutations(DOMAIN.names, k):
            margin = r.margin(*names)
            axes = [DOMAIN.names.index(n) for n in names]
            order = "abc"
            summed = np.einsum(f"abc->{''.join(order[a] for a in axes)}", r.noisy)
            assert margin.noisy == pytest.approx(summed)
            assert margin.domain == DOMAIN.project(names)
            collapse = np.zeros((margin.domain.size, 12))
            for cell in np.ndindex(DOMAIN.shape):
                row = np.ravel_multi_index(tuple(cell[a] for a in axes), margin.domain.shape)
                collapse[row, np.ravel_multi_index(cell, DOMAIN.shape)] = 1
            law = collapse @ r.noise.covariance() @ collapse.T
            assert margin.noise.covariance() == pytest.approx(law, abs=1e-9)
            assert margin.privacy == r.privacy
            assert margin.origin == r.origin


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_margins_commute(data):
    strata = data.draw(st.sampled_from([(), ("A",), ("C", "B"), ("A", "B")]))
    relations = ["replace-one"] if strata else ["replace-one", "add-remove"]
    relation = data.draw(st.sampled_from(relations))
    mechanism = data.draw(st.sampled_from([Gaussian(), RankDeficientGaussian()]))
    r = simulated(strata=strata, neighbours=relation, mechanism=mechanism)
    outer = data.draw(st.permutations(DOMAIN.names))[: data.draw(st.integers(1, 3))]
    inner = data.draw(st.permutations(outer))[: data.draw(st.integers(1, len(outer)))]
    once, twice = r.margin(*inner), r.margin(*outer).margin(*inner)
    assert once.noisy == pytest.approx(twice.noisy)
    assert once.estimate == pytest.approx(twice.estimate)
    assert once.noise.variances == pytest.approx(twice.noise.variances)
    assert once.noise.strata == twice.noise.strata
    assert once.strata == twice.strata
    if once.totals is None:
        assert twice.totals is None
    else:
        assert (once.totals == twice.totals).all()
        others = tuple(i for i, n in enumerate(inner) if n not in strata)
        expected = COUNTS.transpose([DOMAIN.names.index(n) for n in DOMAIN.names])
        kept = [DOMAIN.names.index(n) for n in inner]
        expected = np.einsum(expected, [0, 1, 2], kept).sum(axis=others)
        assert (once.totals == expected).all()
        conditioned = once.conditioned()
        assert conditioned.noisy.sum(axis=others) == pytest.approx(expected)


def test_a_margin_of_unlike_strata_is_refused_or_exact():
    domain = Domain(
        {"A": ["a", "b"], "B": ["u", "v", "w"]}, structural_zeros=[{"A": "a", "B": "u"}]
    )
    r = simulated(np.array([[0, 4, 7], [2, 9, 5]]), domain, strata=("A",))
    with pytest.raises(ReleaseError, match="Keep the factors of the strata"):
        r.margin("B")
    assert r.margin("B", "A").noisy == pytest.approx(r.noisy.T)
    assert r.margin("A").noise_sd.tolist() == [0, 0]


def test_a_margin_of_unknown_factors_is_refused():
    with pytest.raises(DomainError, match="no factor 'Z'"):
        simulated().margin("Z")
    with pytest.raises(DomainError, match="names each factor once"):
        simulated().margin("A", "A")


# ------------------------------------------------------------------ conditioning


@pytest.mark.parametrize("strata", [(), ("A",), ("A", "C")])
def test_gaussian_noise_and_a_known_total_are_the_rank_deficient_mechanism(strata):
    gaussian = released(COUNTS, DOMAIN, mechanism=Gaussian(), strata=strata)
    deficient = released(COUNTS, DOMAIN, mechanism=RankDeficientGaussian(), strata=strata)
    conditioned = gaussian.conditioned()
    assert (conditioned.noisy == deficient.noisy).all()
    assert (conditioned.noise.covariance() == deficient.noise.covariance()).all()
    assert (gaussian.noisy != deficient.noisy).any()
    assert deficient.conditioned() is deficient


def test_a_third_party_table_is_conditioned_on_its_known_total():
    sd = np.array([[1.0, 2.0], [3.0, 0.0]])
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    noisy = np.array([[10.5, 3.0], [-1.0, 7.0]])
    r = Release.from_noisy_table(noisy, domain, sigma=sd, n_total=21).conditioned()
    # The error in the total, 1.5, is shared in proportion to the variances; exact cells stay.
    assert r.noisy == pytest.approx(noisy + 1.5 * sd**2 / 14)
    assert r.noise.strata == ()
    without = Release.from_noisy_table(noisy, domain, sigma=sd)
    assert without.conditioned() is without


# ------------------------------------------------------------------ relabelling


class Preset(np.random.Generator):
    """A generator whose normals are given."""

    normals: np.ndarray

    def standard_normal(self, size):
        assert size == self.normals.size
        return self.normals.ravel()


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_relabelling_and_transposing_commute_with_release(data):
    """The same people under other names, with the same noise, get the same numbers."""
    mechanism = data.draw(
        st.sampled_from(
            [Gaussian(), RankDeficientGaussian(), RankDeficientJamesStein(), BlockJamesStein()]
        )
    )
    strata = data.draw(st.sampled_from([(), ("A",), ("B", "C")]))
    order = data.draw(st.permutations(range(3)))
    moves = [data.draw(st.permutations(range(n))) for n in DOMAIN.shape]
    normals = np.random.default_rng(7).standard_normal(DOMAIN.shape)

    def run(table, noise, domain):
        rng = Preset(np.random.PCG64(1))
        rng.normals = noise
        return simulate_release(table, domain, GDP(0.3), rng, mechanism=mechanism, strata=strata)

    def moved(values):
        return values[np.ix_(*moves)].transpose(order)

    levels = {n: [v[i] for i in m] for (n, v), m in zip(DOMAIN.levels.items(), moves, strict=True)}
    other = Domain({DOMAIN.names[i]: levels[DOMAIN.names[i]] for i in order})
    try:
        plain = run(COUNTS, normals, DOMAIN)
    except PrivacyError:
        assume(False)
    renamed = run(moved(COUNTS), moved(normals), other)
    assert renamed.noisy == pytest.approx(moved(plain.noisy), abs=1e-9)
    assert renamed.estimate == pytest.approx(moved(plain.estimate), abs=1e-9)
    assert renamed.noise_sd == pytest.approx(moved(plain.noise_sd))


# ------------------------------------------------------------------ the frame


def test_the_frame_has_one_row_a_cell_last_factor_fastest():
    r = simulated()
    frame = r.to_frame()
    assert list(frame.columns) == ["A", "B", "C", "noisy", "noise_sd", "estimate"]
    assert "count" not in " ".join(frame.columns).lower()
    rows = list(frame[["A", "B", "C"]].itertuples(index=False, name=None))
    assert rows == list(DOMAIN.cells())
    for (_, row), cell in zip(frame.iterrows(), np.ndindex(DOMAIN.shape), strict=True):
        assert row["noisy"] == r.noisy[cell]
        assert row["noise_sd"] == r.noise_sd[cell]
        assert row["estimate"] == r.estimate[cell]
    assert isinstance(frame.index, pd.RangeIndex)


def test_the_frame_keeps_labels_and_names_as_declared():
    domain = Domain({"noisy": [1, True, 2.5, "x"], "estimate": [0, False], "C": [3, 1]})
    frame = simulated(np.ones((4, 2, 2), dtype=int), domain).to_frame()
    assert list(frame.columns) == ["noisy", "estimate", "C", "noisy", "noise_sd", "estimate"]
    rows = [tuple(row) for row in frame.iloc[:, :3].to_numpy(dtype=object)]
    expected = list(domain.cells())
    assert rows == expected
    assert [tuple(map(label_text, row)) for row in rows] == [
        tuple(map(label_text, cell)) for cell in expected
    ]
    assert frame["C"].dtype == np.int64
    assert frame.iloc[:, 3].dtype == np.float64


# ------------------------------------------------------------------ tables made elsewhere

SMALL = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
NOISY = np.array([[9.5, -1.25, 4.0], [3.0, 8.0, 2.0]])


@given(st.floats(1e-6, 1e6), st.sampled_from(["replace-one", "add-remove"]))
def test_the_loss_of_a_third_party_table_is_rounded_up(sigma, relation):
    r = Release.from_noisy_table(NOISY, SMALL, sigma=sigma, neighbours=relation)
    square = {"replace-one": 2, "add-remove": 1}[relation]
    product = Fraction(r.privacy.mu) * Fraction(sigma)
    assert product**2 >= square
    assert product**2 <= square * (1 + Fraction(1, 10**14))
    # Whoever releases at that loss adds no more noise than the table has.
    assert r.privacy.sigma(math.sqrt(square)) <= sigma * (1 + 1e-15)


def test_what_a_third_party_table_says_of_itself():
    r = Release.from_noisy_table(NOISY, SMALL, sigma=2)
    assert (r.noisy == NOISY).all()
    assert (r.estimate == NOISY).all()
    assert r.noise_sd == pytest.approx(np.full((2, 3), 2.0))
    assert (r.privacy, r.neighbours, r.mechanism, r.totals) == (None, None, None, None)
    assert r.private
    assert "not stated" in repr(r)
    assert r.statement()["Public"] == "nothing"
    with pytest.raises(ReleaseError, match="n_total_estimate"):
        r.n_total  # noqa: B018
    known = Release.from_noisy_table(NOISY, SMALL, sigma=2, n_total=25.0)
    assert known.n_total == 25
    assert isinstance(known.n_total, int)
    assert Release.from_noisy_table(NOISY, SMALL, sigma=2, n_total=25.5).n_total == 25.5
    vast = Release.from_noisy_table(
        NOISY * 1e290, SMALL, sigma=2, n_total=float(NOISY.sum() * 1e290)
    )
    assert vast.n_total == NOISY.sum() * 1e290


def test_the_table_is_copied():
    values = NOISY.copy()
    r = Release.from_noisy_table(values, SMALL, sigma=2)
    values[0, 0] = 1e9
    assert r.noisy[0, 0] == 9.5
    for array in (r.noisy, r.estimate, r.noise.variances):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 0


def test_sigma_one_a_cell():
    sd = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    r = Release.from_noisy_table(NOISY, SMALL, sigma=sd, neighbours="add-remove")
    assert (r.noise_sd == sd).all()
    assert r.privacy == GDP(1.0)  # the cell with the least noise decides
    assert r.sigma == 6.0
    for shape in [(3,), (2, 1), (3, 2), (6,), (1, 2, 3)]:
        with pytest.raises(ReleaseError, match=r"domain's shape \(2, 3\)"):
            Release.from_noisy_table(NOISY, SMALL, sigma=np.ones(shape))


def test_impossible_cells_of_a_third_party_table():
    domain = Domain(SMALL.levels, structural_zeros=[{"A": "a", "B": "v"}])
    sd = np.array([[2.0, 0.0, 2.0], [2.0, 2.0, 4.0]])  # no noise is needed where nobody can be
    r = Release.from_noisy_table(NOISY, domain, sigma=sd, neighbours="add-remove")
    assert r.noisy[0, 1] == r.noise_sd[0, 1] == 0
    assert r.privacy == GDP(0.5)
    loud = Release.from_noisy_table(NOISY, domain, sigma=np.where(sd == 0, 99.0, sd))
    assert loud.sigma == 4.0


def test_no_noise_is_no_privacy():
    for sigma in (0, 0.0, np.zeros((2, 3))):
        r = Release.from_noisy_table(NOISY, SMALL, sigma=sigma, neighbours="add-remove")
        assert r.privacy is None
        assert not r.private
        assert "NOT PRIVATE" in repr(r)
        assert "NOT PRIVATE" in r.statement()["Privacy"]
    partly = np.array([[0.0, 1, 1], [1, 1, 1]])
    r = Release.from_noisy_table(NOISY, SMALL, sigma=partly, neighbours="add-remove")
    assert r.privacy is None
    with pytest.raises(PrivacyError, match="positive finite"):  # a loss beyond every float
        Release.from_noisy_table(NOISY, SMALL, sigma=5e-324, neighbours="add-remove")


@pytest.mark.parametrize(
    ("values", "options", "what"),
    [
        (NOISY.ravel(), {}, "flat list of 6"),
        (NOISY.T, {}, r"shape \(2, 3\); got \(3, 2\)"),
        (np.where(NOISY < 0, np.nan, NOISY), {}, "NaN or infinite"),
        (np.where(NOISY < 0, np.inf, NOISY), {}, "NaN or infinite"),
        (NOISY.astype(str), {}, "must be numbers"),
        (NOISY.astype(complex), {}, "must be numbers"),
        (NOISY > 0, {}, "must be numbers"),
        (NOISY, {"sigma": -1.0}, "at least 0"),
        (NOISY, {"sigma": np.nan}, "finite standard deviation"),
        (NOISY, {"sigma": np.inf}, "finite standard deviation"),
        (NOISY, {"n_total": -1}, "at least 0"),
        (NOISY, {"n_total": np.nan}, "at least 0"),
        (NOISY, {"neighbours": "swap"}, "no neighbour relation"),
    ],
)
def test_bad_tables_are_refused_in_one_sentence_or_two(values, options, what):
    with pytest.raises(DPContingencyError, match=what) as caught:
        Release.from_noisy_table(values, SMALL, **{"sigma": 1.0, **options})
    assert "\n" not in str(caught.value)


def test_large_float32_tables_are_warned_of():
    fine = Release.from_noisy_table(NOISY.astype(np.float32), SMALL, sigma=1)
    assert (fine.noisy == NOISY).all()
    large = np.full((2, 3), 2.0**25, dtype=np.float32)
    with pytest.warns(PrecisionWarning, match="float32") as heard:
        Release.from_noisy_table(large, SMALL, sigma=1)
    assert heard[0].filename == __file__
    Release.from_noisy_table(large.astype(np.float64), SMALL, sigma=1)


# ------------------------------------------------------------------ exact tables


def test_exact_counts_are_the_classical_limit():
    r = Release.exact(COUNTS, DOMAIN)
    assert (r.noisy == COUNTS).all()
    assert r.noise.is_exact
    assert not r.noise_sd.any()
    assert r.sigma == 0
    assert not r.private
    assert r.n_total == COUNTS.sum()
    assert isinstance(r.n_total, int)
    assert r.margin("B", "A").noisy.tolist() == COUNTS.sum(axis=2).T.tolist()
    assert not r.margin("B").private
    assert r.conditioned() is r


def test_exact_takes_fractional_counts():
    """Weighted tables: nothing is rounded."""
    weights = np.array([[0.25, 1.5, 2.0], [0.0, 3.125, 1e9]])
    r = Release.exact(weights, SMALL)
    assert (r.noisy == weights).all()
    assert r.n_total == 1e9 + 6.875
    assert r.margin("A").noisy.tolist() == [3.75, 1e9 + 3.125]


@pytest.mark.parametrize(
    ("counts", "what"),
    [
        (-NOISY, "at least 0"),
        (np.full((2, 3), np.nan), "NaN"),
        (np.ones((3, 2)), "shape"),
        (np.ones((2, 3)) * 1j, "must be numbers"),
    ],
)
def test_exact_refuses_what_is_no_count(counts, what):
    with pytest.raises(ReleaseError, match=what):
        Release.exact(counts, SMALL)


def test_exact_refuses_people_in_impossible_cells():
    domain = Domain(SMALL.levels, structural_zeros=[{"A": "a", "B": "v"}])
    with pytest.raises(ReleaseError, match="structural zero"):
        Release.exact(np.ones((2, 3)), domain)


# ------------------------------------------------------------------ simulated releases


def test_a_simulated_release_is_marked_for_good(tmp_path):
    r = simulated()
    assert not r.private
    assert "NOT PRIVATE: simulated" in repr(r)
    assert "NOT PRIVATE: simulated" in r.statement()["Privacy"]
    r.save(tmp_path / "r.json")
    for other in (load_release(tmp_path / "r.json"), r.margin("A"), r.conditioned()):
        assert not other.private
        assert "NOT PRIVATE" in repr(other)
    assert (simulated(seed=2).noisy == simulated(seed=2).noisy).all()
    assert (simulated(seed=2).noisy != simulated(seed=3).noisy).any()


def test_a_real_release_takes_no_seed():
    with pytest.raises(TypeError, match="rng"):
        release_table(ContingencyTable(COUNTS, DOMAIN), GDP(1), rng=np.random.default_rng(1))
    with pytest.raises(ReleaseError, match="numpy Generator"):
        simulate_release(COUNTS, DOMAIN, GDP(1), np.random.RandomState(1))


# ------------------------------------------------------------------ odd sizes


@pytest.mark.parametrize(
    "shape", [(1,), (2,), (1, 1), (1, 2), (3,), (2, 2), (1, 5, 1), (2,) * 12, (300, 40)]
)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_odd_tables_are_released_or_refused(shape, relation):
    domain = Domain({f"f{i}": range(n) for i, n in enumerate(shape)})
    for counts in (np.zeros(shape, dtype=int), np.full(shape, 10**9)):
        if relation == "replace-one" and domain.size == 1:
            with pytest.raises(PrivacyError, match="No cell can change"):
                released(counts, domain, neighbours=relation)
            continue
        r = released(counts, domain, 0.5, neighbours=relation)
        assert np.isfinite(r.noisy).all()
        assert np.isfinite(r.estimate).all()
        assert np.abs(r.noisy - counts).max() < 8 * r.sigma
        if relation == "replace-one":
            assert r.noisy.sum() == pytest.approx(counts.sum(), abs=1e-6 * max(1, counts.max()))


def test_domains_that_no_table_holds_are_refused_with_their_size():
    domain = Domain({f"f{i}": range(10) for i in range(10)})
    with pytest.raises(RecordsError, match="10,000,000,000 cells"):
        check_joint_size(domain)
    for make in (Release.exact, partial(Release.from_noisy_table, sigma=1.0), ContingencyTable):
        with pytest.raises(DPContingencyError, match="shape"):
            make(np.zeros((2, 2)), domain)


# ------------------------------------------------------------------ the file, bit for bit

texts = st.text(min_size=1, max_size=8)
labels = texts | st.integers(-(2**70), 2**70) | st.booleans() | st.floats(-1e300, 1e300)


@st.composite
def domains(draw):
    names = draw(st.lists(texts, min_size=1, max_size=3, unique=True))
    levels = {
        name: draw(st.lists(labels, min_size=1, max_size=3, unique_by=label_text)) for name in names
    }
    ordered = draw(st.lists(st.sampled_from(names), unique=True))
    zeros = draw(
        st.lists(
            st.fixed_dictionaries({name: st.sampled_from(levels[name]) for name in names}),
            max_size=2,
        )
    )
    scores = {
        name: draw(st.lists(st.floats(-1e6, 1e6), min_size=len(v), max_size=len(v)))
        for name, v in levels.items()
        if draw(st.booleans())
    }
    return Domain(levels, ordered=ordered, scores=scores, structural_zeros=zeros)


@st.composite
def releases(draw):
    domain = draw(domains())
    possible = domain.possible()
    assume(possible.any())
    origin = draw(st.sampled_from(["released", "simulated", "exact", "third-party"]))
    counts = np.array(
        draw(st.lists(st.integers(0, 10**6), min_size=domain.size, max_size=domain.size))
    ).reshape(domain.shape)
    counts = counts * possible
    if origin == "exact":
        return Release.exact(counts * draw(st.sampled_from([1, 0.1])), domain)
    if origin == "third-party":
        cell = st.floats(-1e12, 1e12)
        values = draw(st.lists(cell, min_size=domain.size, max_size=domain.size))
        sd = draw(st.floats(0, 1e6) | st.just(np.linspace(1, 2, domain.size).reshape(domain.shape)))
        values = np.reshape(values, domain.shape)
        whole = max(float(values[possible].sum()), 0.0)
        total = draw(st.sampled_from([None, whole, round(whole)]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PlausibilityWarning)
            try:
                return Release.from_noisy_table(values, domain, sigma=sd, n_total=total)
            except ReleaseError:  # shares, or a total that is not theirs
                reject()
    relation = draw(st.sampled_from(["replace-one", "add-remove"]))
    public = st.lists(st.sampled_from(domain.names), unique=True)
    strata = draw(public) if relation == "replace-one" else ()
    options = {
        "mu": draw(st.floats(1e-6, 1e6)),
        "seed": draw(st.integers(0, 9)),
        "neighbours": relation,
        "strata": strata,
        "mechanism": draw(st.sampled_from([None, *MECHANISMS])),
    }
    make = released if origin == "released" else simulated
    try:
        return make(counts, domain, **options)
    except PrivacyError:  # no cell can change, or too few for the mechanism
        assume(False)


def identical(one, other):
    for name in ("noisy", "estimate"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    assert one.noise.variances.tobytes() == other.noise.variances.tobytes()
    assert type(one.noise) is type(other.noise)
    assert one.noise.strata == other.noise.strata
    assert one.domain == other.domain
    assert [*map(str, one.domain.cells())] == [*map(str, other.domain.cells())]
    for name in ("sigma", "privacy", "neighbours", "strata", "origin", "provenance", "mechanism"):
        assert getattr(one, name) == getattr(other, name)
        assert type(getattr(one, name)) is type(getattr(other, name))
    assert (one.totals is None) == (other.totals is None)
    if one.totals is not None:
        assert one.totals.shape == other.totals.shape
        assert one.totals.tolist() == other.totals.tolist()
        assert isinstance(one.n_total, type(other.n_total))
    assert repr(one) == repr(other)
    assert one.statement() == other.statement()


@given(release=releases())
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
def test_a_release_survives_its_file_bit_for_bit(tmp_path, release):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    release.save(first)
    loaded = load_release(first)
    identical(release, loaded)
    assert not loaded.noisy.flags.writeable
    loaded.save(second)
    assert first.read_bytes() == second.read_bytes()
    identical(release, pickle.loads(pickle.dumps(release)))


@pytest.mark.parametrize("mechanism", [None, Laplace()], ids=repr)
@pytest.mark.parametrize("options", [{}, {"strata": ("A",)}, {"neighbours": "add-remove"}])
def test_every_copy_is_read_only(tmp_path, mechanism, options):
    r = simulated(mechanism=mechanism, **options)
    r.save(tmp_path / "r.json")
    copies = [pickle.loads(pickle.dumps(r, p)) for p in range(2, pickle.HIGHEST_PROTOCOL + 1)]
    copies += [copy.copy(r), copy.deepcopy(r), load_release(tmp_path / "r.json"), r]
    for again in copies:
        arrays = [again.noisy, again.estimate, again.noise.variances]
        arrays += [again.totals] if again.totals is not None else []
        arrays += [again.noise.terms] if mechanism else [again.noise.variances]
        for array in arrays:
            if mechanism and array is arrays[2]:
                continue  # computed anew at each call
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
            with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
                array.setflags(write=True)
        with pytest.raises(AttributeError):
            again.noisy = again.noisy
        identical(r, again)


def test_margins_survive_their_file(tmp_path):
    r = released(COUNTS, DOMAIN, strata=("C", "A"))
    for names in permutations(DOMAIN.names, 2):
        r.margin(*names).save(tmp_path / "m.json")
        identical(r.margin(*names), load_release(tmp_path / "m.json"))


def test_the_file_says_what_the_release_says(tmp_path):
    r = released(COUNTS, DOMAIN, 0.5)
    r.save(tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["mu"] == 0.5
    assert document["neighbours"] == "replace-one"
    assert document["origin"] == "released"
    assert document["totals"] == [int(COUNTS.sum())]
    assert document["noisy"] == r.noisy.ravel().tolist()


# -- the ledger ---------------------------------------------------------------------------------


def test_a_release_spends_before_it_draws(tmp_path, monkeypatch):
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    table = ContingencyTable([[9, 0, 4], [3, 8, 2]], domain)
    ledger = PrivacyLedger(tmp_path / "l", GDP(0.5))
    first = release_table(table, GDP(0.3), ledger=ledger)
    first.save(tmp_path / "first.json")
    (entry,) = ledger.entries
    assert entry.mu == 0.3
    assert entry.what == "RankDeficientJamesStein() of A, B"
    assert f'"checksum": "{entry.checksum}"' in (tmp_path / "first.json").read_text()
    assert load_release(tmp_path / "first.json").checksum == entry.checksum

    drawn = []
    monkeypatch.setattr(publish, "rounded_noise", lambda *_: drawn.append(1) or 1 / 0)
    with pytest.raises(PrivacyError, match=r"left of 0\.5"):
        release_table(table, GDP(0.5), ledger=ledger)
    small = ContingencyTable([1, 2], Domain({"A": ["a", "b"]}))
    with pytest.raises(PrivacyError, match="defined for every table"):
        release_table(small, GDP(0.1), mechanism=RankDeficientJamesStein(), ledger=ledger)
    with pytest.raises(PrivacyError, match="do not add up"):
        release_table(table, GDP(0.1), neighbours="add-remove", ledger=ledger)
    assert not drawn
    assert ledger.spent == 0.3
    with pytest.raises(ZeroDivisionError):  # a crash while the noise is drawn
        release_table(table, GDP(0.2), ledger=ledger)
    assert drawn
    assert ledger.entries[1].checksum is None
    assert ledger.spent == pytest.approx((0.3**2 + 0.2**2) ** 0.5)


def test_only_mechanisms_of_this_package_are_released():
    class Generous(RankDeficientGaussian):
        def sigma(self, privacy, space):
            return 1e-6

    table = ContingencyTable(COUNTS, DOMAIN)
    for mechanism in (Generous(), RankDeficientGaussian, "gaussian"):
        with pytest.raises(PrivacyError, match="one of this package"):
            release_table(table, GDP(0.01), mechanism=mechanism)


def test_strata_are_part_of_what_a_release_says_it_protects(tmp_path):
    table = ContingencyTable(COUNTS, DOMAIN)
    made = release_table(table, GDP(0.5), strata=["B"])
    assert made.statement()["Neighbours"] == "replace-one within each B"
    assert "replace-one within each B" in repr(made)
    ledger = PrivacyLedger(tmp_path / "l", GDP(1))
    with pytest.raises(PrivacyError, match="do not add up"):
        release_table(table, GDP(0.5), strata=["B"], ledger=ledger)
    assert ledger.spent == 0


def test_totals_that_the_noise_cannot_explain_are_refused():
    with pytest.raises(ReleaseError, match="Check n_total and sigma"):
        Release.from_noisy_table(NOISY, SMALL, sigma=2, n_total=1000)
