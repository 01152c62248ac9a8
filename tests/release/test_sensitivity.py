"""Neighbours against brute force: every pair of small data sets, counted record by record."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from dpcontingency.domain import Domain
from dpcontingency.errors import DomainError, PrivacyError
from dpcontingency.release.sensitivity import Neighbours, public_totals_in_words

DOMAINS = {
    "one factor": Domain({"A": ["a", "b", "c"]}),
    "2 x 3": Domain({"A": ["a", "b"], "B": ["u", "v", "w"]}),
    "2 x 2 x 2": Domain({"A": ["a", "b"], "B": ["u", "v"], "C": ["x", "y"]}),
    "a zero": Domain(
        {"Sex": ["m", "f"], "Pregnant": ["y", "n"]},
        structural_zeros=[{"Sex": "m", "Pregnant": "y"}],
    ),
    "a stratum of one cell": Domain(
        {"A": ["a", "b", "c"], "B": ["u", "v", "w"]},
        structural_zeros=[{"A": "a", "B": "u"}, {"A": "a", "B": "v"}, {"A": "b", "B": "w"}],
    ),
    "an empty stratum": Domain(
        {"A": ["a", "b", "c"], "B": ["u", "v"]}, structural_zeros=[{"A": "b"}]
    ),
    "a single level": Domain({"A": ["a"], "B": ["u", "v"]}),
}


def every_strata(domain):
    return [s for k in range(len(domain.names) + 1) for s in combinations(domain.names, k)]


def records_of(domain):
    """The values that a record can take: the possible cells."""
    return [cell for cell, ok in zip(domain.cells(), domain.possible().ravel(), strict=True) if ok]


def table_of(records, domain):
    """The count vector of a data set; Counter, not the package, does the counting."""
    counted = Counter(records)
    return tuple(counted[cell] for cell in domain.cells())


def differences(domain, relation, strata=()):
    """All differences of the tables of neighbouring data sets of up to 3 records."""
    values = records_of(domain)
    where = [domain.names.index(name) for name in strata]
    found = set()
    for n in (1, 2, 3) if len(values) < 7 else (1, 2):
        for records in product(values, repeat=n):
            for i in range(n):
                rest = records[:i] + records[i + 1 :]
                if relation == "add-remove":
                    others = [rest]
                else:
                    others = [
                        (*rest, value)
                        for value in values
                        if all(value[k] == records[i][k] for k in where)
                    ]
                for other in others:
                    one, two = table_of(records, domain), table_of(other, domain)
                    found.add(tuple(a - b for a, b in zip(one, two, strict=True)))
                    found.add(tuple(b - a for a, b in zip(one, two, strict=True)))
    return np.array(sorted(d for d in found if any(d)))


CASES = [
    (name, relation, strata)
    for name, domain in DOMAINS.items()
    for relation in ("replace-one", "add-remove")
    for strata in (every_strata(domain) if relation == "replace-one" else [()])
]


@pytest.mark.parametrize(("name", "relation", "strata"), CASES)
def test_sensitivity_and_dimension_are_those_of_all_neighbouring_pairs(name, relation, strata):
    domain = DOMAINS[name]
    found = differences(domain, relation, strata)
    if not found.size:
        with pytest.raises(PrivacyError, match="No cell can change"):
            Neighbours(domain, relation, strata)
        return
    space = Neighbours(domain, relation, strata)
    assert space.dimension == np.linalg.matrix_rank(found)
    # The L2 distance of the farthest neighbours, squared and so exact; rounded up by one float.
    squared = int((found**2).sum(axis=1).max())
    delta = space.l2_sensitivity
    assert Fraction(math.nextafter(delta, 0)) ** 2 < squared <= Fraction(delta) ** 2
    # What the space holds fixed is fixed in every pair, and nothing else is.
    sums = [space.public_totals(d.reshape(domain.shape)) for d in found]
    if space.fixed is None:
        assert all(total is None for total in sums)
    else:
        assert not np.any(sums)
    assert space.deviation_dimension == space.dimension - (relation == "add-remove")


def test_the_two_relations_differ_by_the_root_of_two_and_a_dimension():
    """Replacing is a removal and an addition: two cells move by 1, not one cell by 2."""
    domain = DOMAINS["2 x 3"]
    moved = differences(domain, "replace-one")
    assert set(map(tuple, np.sort(moved, axis=1))) == {(-1, 0, 0, 0, 0, 1)}
    assert set(np.abs(differences(domain, "add-remove")).sum(axis=1)) == {1}
    replace, add = Neighbours(domain), Neighbours(domain, "add-remove")
    assert replace.l2_sensitivity / add.l2_sensitivity == pytest.approx(math.sqrt(2))
    assert (replace.dimension, add.dimension) == (5, 6)


def test_public_totals_count_the_records_of_each_stratum():
    domain = DOMAINS["2 x 2 x 2"]
    counts = np.arange(8).reshape(domain.shape)
    assert Neighbours(domain).public_totals(counts) == 28
    space = Neighbours(domain, strata=["C", "A"])
    assert space.strata == ("A", "C")  # in the domain's order
    expected = {(a, c): 0 for a in range(2) for c in range(2)}
    for (a, _, c), count in np.ndenumerate(counts):
        expected[a, c] += int(count)
    assert {k: int(v) for k, v in np.ndenumerate(space.public_totals(counts))} == expected
    assert Neighbours(domain, "add-remove").public_totals(counts) is None


def test_dimensions_of_huge_domains_are_exact():
    domain = Domain({f"f{k}": range(10) for k in range(30)})
    assert Neighbours(domain).dimension == 10**30 - 1
    assert Neighbours(domain, "add-remove").dimension == 10**30
    assert Neighbours(domain, strata=["f0", "f1"]).dimension == 10**30 - 100


@pytest.mark.parametrize(
    ("relation", "strata", "error", "what"),
    [
        ("replace", (), PrivacyError, "did you mean 'replace-one'"),
        ("zero-out", (), PrivacyError, "known: 'replace-one', 'add-remove'"),
        (None, (), PrivacyError, "no neighbour relation None"),
        ("add-remove", ["A"], PrivacyError, "no total is public"),
        ("replace-one", "A", PrivacyError, r"write \['A'\]"),
        ("replace-one", [["A", "B"], ["B", "C"]], PrivacyError, "Only one joint margin"),
        ("replace-one", ["D"], DomainError, "no factor 'D'"),
        ("replace-one", ["A", "B", "C"], PrivacyError, "Name fewer strata"),
    ],
)
def test_refusals_say_what_to_do(relation, strata, error, what):
    with pytest.raises(error, match=what) as caught:
        Neighbours(DOMAINS["2 x 2 x 2"], relation, strata)
    assert "\n" not in str(caught.value)


def test_public_totals_in_words():
    assert public_totals_in_words(None) == "nothing"
    assert public_totals_in_words(()) == "the number of records"
    assert "each combination of A, B" in public_totals_in_words(("A", "B"))
