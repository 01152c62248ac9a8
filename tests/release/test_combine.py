"""Releases of independent samples as one: its loss, and what it says of samples without one."""

import copy

import numpy as np
import pytest

import dpcontingency as dpc
from dpcontingency.errors import ReleaseError
from dpcontingency.release.combine import combine_samples
from dpcontingency.release.release import Release

DOMAIN = dpc.Domain({"A": ["a", "b", "c"]})


def sample(mu, seed=1, **options):
    table = dpc.ContingencyTable(np.array([40, 31, 29]) + seed, DOMAIN)
    return dpc.release_table(table, dpc.GDP(mu), **options)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_the_loss_is_the_largest_because_a_record_is_in_one_sample(neighbours):
    made = [sample(mu, neighbours=neighbours) for mu in (0.3, 0.8, 0.5)]
    combined, _ = combine_samples(made)
    assert combined.privacy == dpc.GDP(0.8)
    assert combined.neighbours == neighbours
    assert combined.private
    assert combined.statement()["Privacy"].startswith("mu = 0.8 ")


def test_a_loss_that_one_sample_does_not_state_is_not_stated():
    other = Release.from_noisy_table([9.5, 4.0, 7.7], DOMAIN, sigma=2.0, n_total=21)
    for samples in ([sample(0.3), other], [other, sample(0.5)]):
        combined, _ = combine_samples(samples)
        assert combined.privacy is None
        assert combined.statement()["Privacy"] == "not stated"


def test_what_is_not_private_is_named_by_sample():
    exact = Release.exact([9, 4, 7], DOMAIN)
    seeded = dpc.simulate_release(np.array([9, 4, 7]), DOMAIN, dpc.GDP(1), np.random.default_rng(1))
    said = combine_samples([sample(0.3), exact])[0].statement()["Privacy"]
    assert said.startswith("NOT PRIVATE: not all samples are (1: mu = 0.3 (Gaussian DP)")
    assert said.endswith("2: NOT PRIVATE: exact counts, no noise)")
    combined, _ = combine_samples([seeded, sample(0.3)])
    assert not combined.private
    assert "1: NOT PRIVATE: simulated, at mu = 1 " in combined.statement()["Privacy"]
    both, _ = combine_samples([exact, Release.exact([1, 2, 3], DOMAIN)])
    assert both.statement() == {"Privacy": "NOT PRIVATE: exact counts, no noise"}


def test_a_combined_release_is_saved_and_loaded(tmp_path):
    combined, _ = combine_samples([sample(0.3), sample(0.8)])
    combined.save(tmp_path / "both.json")
    back = dpc.load_release(tmp_path / "both.json")
    np.testing.assert_array_equal(back.noisy, combined.noisy)
    assert back.provenance == combined.provenance
    assert back.privacy == dpc.GDP(0.8)


def test_a_release_and_its_own_copy_are_one_sample(tmp_path):
    one = sample(0.3)
    one.save(tmp_path / "one.json")
    copies = [one, dpc.load_release(tmp_path / "one.json"), copy.deepcopy(one)]
    copies.append(Release.from_dict(one.to_dict() | {"provenance": {"title": "renamed"}}))
    for other in copies:
        with pytest.raises(ReleaseError, match="or a copy of it, is given twice"):
            combine_samples([sample(0.3), one, other])
    exact = [Release.exact([9, 4, 7], DOMAIN) for _ in range(2)]  # two samples may agree
    assert combine_samples(exact)[0].n_total == 40


def test_the_note_of_a_homogeneity_test_says_which_sample_is_not_private():
    exact = Release.exact([9, 4, 7], DOMAIN)
    test = dpc.homogeneity_test([exact, sample(5.0)], pvalue="asymptotic")
    assert any("1: NOT PRIVATE: exact counts, no noise" in note for note in test.notes)
    assert not any("not stated" in note for note in test.notes)


def test_a_release_of_margins_is_no_sample():
    rng = np.random.default_rng(1)
    margins = dpc.simulate_margins([4, 5, 6], DOMAIN, [DOMAIN.names], dpc.GDP(1.0), rng)
    with pytest.raises(ReleaseError, match=r"got a MarginRelease\. Release the table"):
        combine_samples([sample(0.3), margins])
