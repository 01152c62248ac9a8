"""Releases of margins: what they hold, that they agree, what they refuse and what they spend."""

import json
import pickle
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpcontingency.domain import Domain
from dpcontingency.errors import (
    DomainError,
    DPContingencyWarning,
    PrivacyError,
    RecordsError,
    ReleaseError,
)
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.release import publish_margins
from dpcontingency.release.contrasts import rounded_contrasts
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.publish_margins import (
    release_margins,
    simulate_margins,
    simulate_plan,
)
from dpcontingency.release.workload import plan_margins
from dpcontingency.table import ConfidentialMargins, ContingencyTable
from dpcontingency.tabulate import tabulate_margins

DOMAIN = Domain({"A": ["a", "b"], "B": ["u", "v", "w"], "C": [1, 2, 3, 4], "one": ["x"]})
MARGINS = [("B", "A"), ("B", "C", "one"), ("A", "C")]
COUNTS = np.random.default_rng(7).integers(0, 90, DOMAIN.shape)
BOTH = ["replace-one", "add-remove"]


def table():
    return ContingencyTable(COUNTS, DOMAIN)


def margin_of(counts, factors):
    return ContingencyTable(counts, DOMAIN).margin(*factors).counts


def sub_margins(margins):
    sets = {frozenset(m) for w in margins for k in range(1, len(w) + 1) for m in combinations(w, k)}
    return sorted(tuple(sorted(m)) for m in sets)


@pytest.mark.parametrize("neighbours", BOTH)
def test_without_noise_margins_are_those_of_the_counts(neighbours):
    release = release_margins(table(), MARGINS, GDP(1e7), neighbours=neighbours)
    for margin in sub_margins(MARGINS):
        for order in (margin, margin[::-1]):
            found = release.margin(*order)
            assert found.sd < 1e-5
            np.testing.assert_allclose(found.values, margin_of(COUNTS, order), atol=1e-4)
    assert release.n_total_estimate == pytest.approx(COUNTS.sum(), abs=1e-4)


@pytest.mark.parametrize("neighbours", BOTH)
def test_margins_agree_and_add_up(neighbours):
    release = release_margins(table(), MARGINS, GDP(0.05), neighbours=neighbours)
    by_a, by_c = release.margin("A", "B").values, release.margin("B", "C").values
    np.testing.assert_allclose(by_a.sum(axis=0), by_c.sum(axis=1), atol=1e-8)
    np.testing.assert_allclose(by_a.sum(axis=0), release.margin("B").values, atol=1e-8)
    np.testing.assert_allclose(by_a.T, release.margin("B", "A").values, atol=0)
    for margin in sub_margins(MARGINS):
        total = release.margin(*margin).values.sum()
        assert total == pytest.approx(release.n_total_estimate, abs=1e-8)
    assert release.margin("one").values.shape == (1,)


@pytest.mark.parametrize("neighbours", BOTH)
def test_the_noise_is_what_the_plan_says(neighbours):
    """Every whitened margin is standard normal, over many draws of the production sampler."""
    plan = plan_margins(DOMAIN, MARGINS, GDP(0.5), neighbours=neighbours)
    draws = [release_margins(table(), MARGINS, GDP(0.5), neighbours=neighbours) for _ in range(150)]
    for margin in [("A", "B"), ("B", "C", "one"), ("C",)]:
        noise = np.array([d.margin(*margin).values for d in draws]) - margin_of(COUNTS, margin)
        covariance = draws[0].covariance(*margin)
        np.testing.assert_allclose(np.diag(covariance), plan.variance(*margin), rtol=1e-10)
        values, vectors = np.linalg.eigh(covariance)
        alive = values > 1e-9 * values.max()
        flat = noise.reshape(len(draws), -1)
        np.testing.assert_allclose(flat @ vectors[:, ~alive], 0, atol=1e-8)
        white = flat @ vectors[:, alive] / np.sqrt(values[alive])
        squares = (white**2).sum()
        # No seed: a chance of 1e-9 a margin to fail.
        assert 5e-10 < stats.chi2.cdf(squares, white.size) < 1 - 5e-10
        assert stats.kstest(white.ravel(), "norm").pvalue > 1e-9


def test_simulation_has_the_same_law():
    rng = np.random.default_rng(3)
    plan = plan_margins(DOMAIN, MARGINS, GDP(0.5))
    draws = [simulate_plan(COUNTS, plan, rng) for _ in range(400)]
    flat = np.array([d.margin("B", "C").values.ravel() for d in draws])
    flat = flat - margin_of(COUNTS, ("B", "C")).ravel()
    ratio = (flat**2).mean() / plan.variance("B", "C")
    assert ratio == pytest.approx(1, abs=0.06)
    release = simulate_margins(COUNTS, DOMAIN, MARGINS, GDP(0.5), np.random.default_rng(1))
    again = simulate_margins(COUNTS, DOMAIN, MARGINS, GDP(0.5), np.random.default_rng(1))
    assert release.to_dict() == again.to_dict()
    assert not release.private
    assert "NOT PRIVATE" in repr(release)
    assert "NOT PRIVATE" in release.statement()["Privacy"]
    with pytest.raises(ReleaseError, match="numpy Generator"):
        simulate_margins(COUNTS, DOMAIN, MARGINS, GDP(0.5), 1)


def test_the_noise_stands_on_a_grid_and_shows_nothing_of_the_counts():
    """Contrasts are integers plus multiples of the grid: the same grid whatever the counts are."""
    for counts in (COUNTS, COUNTS * 1000 + 7):
        release = release_margins(ContingencyTable(counts, DOMAIN), MARGINS, GDP(1))
        for a, values in release.contrasts.items():
            steps = values * 2.0 ** publish_margins.contrast_exponent(
                release.plan.cell_scales[a], len(a)
            )
            assert (steps == np.rint(steps)).all()


def test_every_interaction_is_drawn_once(monkeypatch):
    drawn = []

    def recorded(shape, scale, exponent):
        drawn.append(shape)
        return rounded_contrasts(shape, scale, exponent)

    monkeypatch.setattr(publish_margins, "rounded_contrasts", recorded)
    release = release_margins(table(), MARGINS, GDP(1))
    assert sorted(drawn) == sorted([(2,), (3,), (4,), (2, 3), (2, 4), (3, 4)])
    assert set(release.contrasts) == {
        ("A",), ("B",), ("C",), ("A", "B"), ("A", "C"), ("B", "C"),
    }  # fmt: skip


def test_a_hundred_factors_from_records():
    """The joint table, of 10^60 cells, never exists."""
    rng = np.random.default_rng(9)
    names = [f"q{i}" for i in range(100)]
    domain = Domain({name: list(range(2 + i % 4)) for i, name in enumerate(names)})
    records = pd.DataFrame({n: rng.integers(0, len(domain.levels[n]), 300) for n in names})
    margins = [(names[i + 1], names[i]) for i in range(99)] + [("q0", "q50", "q99")]
    counted = tabulate_margins(records, domain, margins)
    release = release_margins(counted, margins, GDP(1e7))
    assert release.n_total == 300
    for margin in [("q0", "q1"), ("q99", "q0"), ("q7",), ("q99", "q50", "q0")]:
        expected = counted.margin(*margin).counts
        np.testing.assert_allclose(release.margin(*margin).values, expected, atol=1e-3)
    part = release_margins(counted, [("q50", "q0")], GDP(1e7))
    expected = counted.margin("q50", "q0").counts
    np.testing.assert_allclose(part.margin("q50", "q0").values, expected, atol=1e-3)
    with pytest.raises(DomainError, match="No counted margin holds q3, q9"):
        release_margins(counted, [("q3", "q9")], GDP(1))


# ------------------------------------------------------------------ what is public


def test_totals():
    release = release_margins(table(), MARGINS, GDP(1))
    assert release.n_total == COUNTS.sum()
    assert release.n_total_se == 0.0
    hidden = release_margins(table(), MARGINS, GDP(1), neighbours="add-remove")
    with pytest.raises(ReleaseError, match="not public"):
        hidden.n_total  # noqa: B018
    assert hidden.n_total_se == hidden.plan.sd() > 0
    assert hidden.statement()["Public"] == "nothing"


def test_a_total_that_is_confidential_is_not_made_public():
    dropped = ContingencyTable(COUNTS, DOMAIN, n_is_public=False, missing="drop")
    with pytest.raises(PrivacyError, match="add-remove"):
        release_margins(dropped, MARGINS, GDP(1))
    release = release_margins(dropped, MARGINS, GDP(1), neighbours="add-remove")
    assert "dropped" in release.statement()["Missing values"]


def test_levels_read_off_the_records_are_not_private(tmp_path):
    records = pd.DataFrame({"A": ["a", "b", "a"], "B": ["u", "u", "v"]})
    with pytest.warns(DPContingencyWarning):
        domain = Domain.observed(records)
    release = release_margins(tabulate_margins(records, domain, [("A", "B")]), [("A", "B")], GDP(1))
    release.save(tmp_path / "r.json")
    for one in (release, release.margin("A"), MarginRelease.load(tmp_path / "r.json")):
        assert not one.private
        assert "levels read off the records" in one.statement()["Privacy"]
        assert "NOT PRIVATE: levels read off the records" in repr(one)


def test_nothing_shows_a_count():
    planted = np.zeros((2, 2), dtype=np.int64)
    planted[0, 0], planted[1, 1] = 7919, 10007
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    secret = ContingencyTable(planted, domain)
    release = release_margins(secret, [("A", "B")], GDP(0.1), neighbours="add-remove")
    # Noisy numbers are left out: their digits may be any.
    texts = [repr(release), str(release.statement()), repr(release.plan), str(release.provenance)]
    for call in (
        lambda: release_margins(secret, [("A", "X")], GDP(1)),
        lambda: release.margin("X"),
        lambda: release_margins(planted, [("A",)], GDP(1)),
    ):
        with pytest.raises((DomainError, ReleaseError)) as caught:
            call()
        texts.append(str(caught.value))
    for text in texts:
        assert not any(odd in text for odd in ("7919", "10007", "17926"))


def test_too_many_records():
    whole = ContingencyTable(np.full((2, 2), 2**42), Domain({"A": [0, 1], "B": [0, 1]}))
    with pytest.raises(RecordsError, match=r"2\^42 records"):
        release_margins(whole, [("A",)], GDP(1))
    # 2^64 records, which are none at all in 64-bit integers.
    big = Domain({"A": list(range(2048)), "B": list(range(2048)), "C": [0]})
    whole = ContingencyTable(np.full(big.shape, 2**42), big)
    with pytest.raises(RecordsError, match=r"2\^42 records"):
        release_margins(whole, [("A",)], GDP(1))
    with pytest.raises(RecordsError, match=r"2\^42 records"):
        ConfidentialMargins([whole, ContingencyTable([0], big.project("C"))], big)


# ------------------------------------------------------------------ what is refused


def test_other_margins_are_refused_by_name():
    release = release_margins(table(), [("A", "B"), ("C",)], GDP(1))
    for call in (release.margin, release.covariance, release.to_frame):
        with pytest.raises(PrivacyError, match=r"margin of B, C lies in none .*\[A B\], \[C\]"):
            call("B", "C")
    with pytest.raises(DomainError, match="'Z'"):
        release.margin("Z")
    with pytest.raises(DomainError, match="once"):
        release.margin("A", "A")
    with pytest.raises(PrivacyError, match="No margin of this release has a factor of one"):
        release.collapse("one")
    assert release.collapse("one", "A").margins == (("A",),)


def test_misuse():
    with pytest.raises(ReleaseError, match=r"takes a ContingencyTable or the margins.*ndarray"):
        release_margins(COUNTS, MARGINS, GDP(1))
    with pytest.raises(PrivacyError, match="PrivacyLedger"):
        release_margins(table(), MARGINS, GDP(1), ledger="books.db")
    big = Domain({"A": list(range(70)), "B": list(range(70))})
    release = release_margins(ContingencyTable(np.zeros(big.shape, int), big), [("A", "B")], GDP(1))
    with pytest.raises(ReleaseError, match="4,900 cells"):
        release.covariance("A", "B")


# ------------------------------------------------------------------ the ledger


def test_the_ledger_is_spent_before_anything_is_drawn(tmp_path, monkeypatch):
    ledger = PrivacyLedger(tmp_path / "books", GDP(0.5))
    release = release_margins(table(), MARGINS, GDP(0.3), ledger=ledger)
    (entry,) = ledger.entries
    assert (entry.mu, entry.checksum) == (0.3, release.checksum)
    assert entry.what == "margins B, A; B, C, one; A, C"

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(publish_margins, "rounded_contrasts", crash)
    with pytest.raises(PrivacyError, match="left"):
        release_margins(table(), MARGINS, GDP(0.45), ledger=ledger)
    with pytest.raises(PrivacyError, match="add-remove"):
        release_margins(table(), MARGINS, GDP(0.1), ledger=ledger, neighbours="add-remove")
    with pytest.raises(PrivacyError, match="loss is so small"):
        release_margins(table(), MARGINS, GDP(1e-14), ledger=ledger)
    assert len(ledger.entries) == 1
    assert ledger.spent == 0.3
    with pytest.raises(KeyboardInterrupt):
        release_margins(table(), MARGINS, GDP(0.4), ledger=ledger)
    assert ledger.spent == 0.5
    assert ledger.entries[-1].checksum is None


# ------------------------------------------------------------------ files and frames


@pytest.mark.parametrize("neighbours", BOTH)
def test_a_file_holds_all_of_it(tmp_path, neighbours):
    release = release_margins(
        table(),
        MARGINS,
        GDP(0.7),
        neighbours=neighbours,
        objective="max-variance",
        weights=[1, 2, 3],
    )
    path = tmp_path / "margins.json"
    release.save(path)
    again = MarginRelease.load(path)
    assert again.to_dict() == release.to_dict()
    assert again.plan == release.plan
    assert again.checksum == release.checksum
    assert repr(again) == repr(release)
    for margin in sub_margins(MARGINS):
        assert (again.margin(*margin).values == release.margin(*margin).values).all()
    path.write_text(path.read_text().replace('"released"', '"simulated"'))
    with pytest.raises(ReleaseError, match="changed after it was written"):
        MarginRelease.load(path)


def test_extreme_losses():
    release = release_margins(table(), MARGINS, GDP(1e100))
    assert MarginRelease.from_dict(release.to_dict()).to_dict() == release.to_dict()
    for mu in (1e154, 1e300, 1e-155):
        with pytest.raises(PrivacyError, match="out of range"):
            release_margins(table(), MARGINS, GDP(mu))


def corrupted():
    def at(*keys):
        def change(content, value):
            for key in keys[:-1]:
                content = content[key]
            content[keys[-1]] = value

        return change

    return [
        (at("total"), None, "total does not go"),
        (at("total"), 2.5, "not a number of records"),
        (at("origin"), "invented", "origin"),
        (at("provenance"), {"a": 1}, "mapping to text"),
        (at("contrasts", 0), [1.0, 2.0, 3.0], "some field"),
        (at("contrasts", 0), ["1"], "some field"),
        (at("contrasts", 0), [float("nan")], "no finite number"),
        (at("plan", "mu"), 0.01, "spend more than the loss"),
        (at("plan", "bound"), "by magic", "no known way"),
        (at("plan", "objective"), "best", "objective"),
        (at("plan", "weights"), [1.0], "one weight a margin"),
        (at("plan", "margins"), [["A", "B"], ["C"], ["A"]], "of no interaction"),
        (at("plan", "scales", 0, 1), 0.0, "not positive"),
        (at("plan", "domain"), {"factors": {}}, "factor"),
    ]


@pytest.mark.parametrize(("change", "value", "message"), corrupted())
def test_a_file_that_no_release_wrote(change, value, message):
    release = release_margins(table(), MARGINS, GDP(0.7))
    content = json.loads(json.dumps(release.to_dict()))
    change(content, value)
    with pytest.raises(ReleaseError, match=f"no release of margins: .*{message}"):
        MarginRelease.from_dict(content)


@pytest.mark.parametrize("field", ["plan", "contrasts", "total", "origin", "provenance"])
def test_a_file_lacks_a_field(field):
    content = release_margins(table(), MARGINS, GDP(0.7)).to_dict()
    del content[field]
    with pytest.raises(ReleaseError, match="is missing"):
        MarginRelease.from_dict(content)
    content["extra"] = content[field] = 1
    with pytest.raises(ReleaseError, match="no release of margins"):
        MarginRelease.from_dict(content)


def test_copies_are_read_only():
    release = release_margins(table(), MARGINS, GDP(0.7))
    for one in (release, pickle.loads(pickle.dumps(release))):
        assert one.to_dict() == release.to_dict()
        with pytest.raises(ValueError, match="read-only"):
            one.contrasts[("A",)][0] = 0.0
        with pytest.raises(TypeError):
            one.contrasts[("A",)] = 0.0


def test_frames():
    release = release_margins(table(), MARGINS, GDP(0.7))
    one = release.to_frame("B", "A")
    assert list(one) == ["B", "A", "noisy", "noise_sd"]
    assert (one["noisy"] == release.margin("B", "A").values.ravel()).all()
    assert (one["noise_sd"] == release.plan.sd("A", "B")).all()
    whole = release.to_frame()
    assert list(whole) == ["margin", "A", "B", "C", "one", "noisy", "noise_sd"]
    assert list(whole["margin"].unique()) == ["B, A", "B, C, one", "A, C"]
    assert len(whole) == 6 + 12 + 8
    part = whole[whole["margin"] == "A, C"]
    assert list(part["C"]) == [1, 2, 3, 4] * 2
    assert part["B"].isna().all()
    assert (part["noisy"] == release.margin("A", "C").values.ravel()).all()
    named = Domain({"noisy": [0, 1], "B": [0, 1]})
    odd = release_margins(ContingencyTable(np.ones((2, 2), int), named), [("noisy",)], GDP(1))
    assert list(odd.to_frame("noisy")) == ["noisy", "noisy", "noise_sd"]
    with pytest.raises(ReleaseError, match="name of another column"):
        odd.to_frame()


def test_it_says_what_it_is():
    release = release_margins(table(), [("A", "B")], GDP(0.5))
    assert repr(release) == ("<MarginRelease 1 margin; mu = 0.5 (replace-one); SD of a cell 2.58>")
    said = release.statement()
    assert list(said) == ["Privacy", "Neighbours", "Loss", "Public", "Margins", "Noise"]
    assert "no extra delta" in release.provenance["noise"]
    rng = np.random.default_rng(1)
    simulated = simulate_margins(COUNTS, DOMAIN, MARGINS, GDP(0.5), rng).provenance["noise"]
    assert simulated.startswith("simulated")
    assert "exact" not in simulated
