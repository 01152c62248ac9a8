"""What the fields of a release imply of each other: no file and no caller can contradict it."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from dpcontingency.domain import Domain
from dpcontingency.errors import DPContingencyError, PrivacyError, ReleaseError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.combine import combine_samples
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.mechanisms import (
    BlockJamesStein,
    Gaussian,
    JamesStein,
    Laplace,
    RankDeficientGaussian,
    RankDeficientJamesStein,
)
from dpcontingency.release.publish import release_table, simulate_release
from dpcontingency.release.publish_margins import release_margins
from dpcontingency.release.release import Release, load_release
from dpcontingency.table import ContingencyTable
from tests.release.test_schema import RELEASES, write

DOMAIN = Domain({"A": ["a", "b", "c"], "B": ["u", "v"]}, structural_zeros=[{"A": "c", "B": "v"}])
COUNTS = [[20, 5], [9, 31], [12, 0]]
TABLE = ContingencyTable(COUNTS, DOMAIN)

MADE = {
    "default": release_table(TABLE, GDP(0.5)),
    "strata": release_table(TABLE, GDP(0.5), strata=["A"]),
    "add-remove": release_table(TABLE, GDP(0.5), neighbours="add-remove"),
    "full rank": release_table(TABLE, GDP(0.5), mechanism=Gaussian()),
    "laplace": release_table(TABLE, GDP(0.5), mechanism=Laplace()),
    "simulated": simulate_release(COUNTS, DOMAIN, GDP(0.5), np.random.default_rng(1)),
    "exact": Release.exact(COUNTS, DOMAIN),
    "third": Release.from_noisy_table(COUNTS, DOMAIN, sigma=2, neighbours="replace-one"),
}
MADE["mu 1"] = release_table(TABLE, GDP(1))
MADE["margin"] = MADE["default"].margin("A")
MADE["known"] = Release.from_noisy_table(COUNTS, DOMAIN, sigma=2, n_total=77).conditioned()

EVERY_3X2 = [
    None, Gaussian(), Laplace(), JamesStein("zero"), JamesStein("mean"), RankDeficientGaussian(),
    RankDeficientJamesStein(), RankDeficientJamesStein("mean", basis="interaction"),
    RankDeficientJamesStein([[1, 2], [3, 4], [5, 6]]), BlockJamesStein(1),
]  # fmt: skip
GAUSSIAN = {"law": "Gaussian", "variances": 8.0, "strata": []}


def own(variance):
    """Noise of which one cell has less than the others."""
    return {"law": "Gaussian", "variances": [4.0, 4.0, variance, 4.0, 4.0, 0.0], "strata": None}


CELLS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]

# Each a change of one or two fields after which they do not agree, and the field that is named.
FORGED = [
    ("default", {"sigma": 0.001}, "its sigma does not follow"),
    ("default", {"sigma": 0}, "its sigma does not follow"),
    ("default", {"sigma": 1e200}, "its sigma does not follow"),
    ("default", {"mu": 0.01}, "its sigma does not follow from its mechanism, mu and neighbours"),
    ("default", {"mu": None}, "its mechanism has a loss mu"),
    ("default", {"neighbours": None}, "its mechanism has a loss mu"),
    ("default", {"neighbours": "add-remove"}, "its sigma does not follow"),
    ("add-remove", {"neighbours": "replace-one"}, "its sigma does not follow"),
    ("laplace", {"mu": 0.1}, "its sigma does not follow"),
    ("margin", {"mu": 0.1}, "its sigma does not follow"),
    ("default", {"mechanism": {"name": "Laplace"}}, "its noise is not of the law"),
    ("laplace", {"mechanism": {"name": "Gaussian"}}, "its noise is not of the law"),
    ("third", {"mechanism": {"name": "Gaussian"}}, "does not go with the origin 'third-party'"),
    ("default", {"mechanism": None}, "does not go with the origin 'released'"),
    ("default", {"origin": "third-party"}, "does not go with the origin"),
    ("default", {"origin": "exact"}, "does not go with the origin"),
    ("third", {"origin": "exact"}, "says that the table is exact"),
    ("exact", {"origin": "released"}, "does not go with the origin"),
    ("exact", {"sigma": 3.0}, "its sigma is not the scale of its noise"),
    ("exact", {"estimate": [*CELLS[:5], 0.0]}, "its estimate is not its noisy table"),
    ("exact", {"noisy": [77.0, 5.0, -5.0, 0.0, 0.0, 0.0]}, "some cell is negative"),
    ("exact", {"totals": [76]}, "add up to a total that is 1 away"),
    ("third", {"sigma": 0.0}, "its sigma is not the scale of its noise"),
    ("third", {"sigma": 20.0}, "its sigma is not the scale of its noise"),
    ("third", {"mu": 0.01}, "noise of some cell is too small for its loss mu"),
    ("third", {"noise": own(1.0)}, "noise of some cell is too small for its loss mu"),
    ("third", {"noise": own(0.0)}, "noise of some cell is too small for its loss mu"),
    ("third", {"neighbours": None}, "its loss mu needs neighbours"),
    ("default", {"noise": GAUSSIAN}, "something in a structural zero"),
    ("default", {"noisy": CELLS}, "something in a structural zero"),
    ("default", {"totals": [78]}, "add up to a total that is 1 away"),
    ("default", {"totals": [-77]}, "its totals are negative"),
    ("default", {"totals": None}, "its totals do not go with its neighbours"),
    ("add-remove", {"totals": [77]}, "its totals do not go with its neighbours"),
    ("add-remove", {"strata": ["A"]}, "its totals are missing"),
    ("default", {"strata": ["A"], "totals": [25, 40, 12]}, "is not confined to the strata"),
    ("strata", {"totals": [24, 41, 12]}, "add up to a total that is 1 away"),
    ("strata", {"strata": [], "totals": [77]}, "is not confined to the strata"),
    ("strata", {"estimate": [20.0, 6.0, 9.0, 31.0, 12.0, 0.0]}, "its estimate does not add up"),
    ("full rank", {"totals": [1077]}, "Check n_total and sigma"),
    ("laplace", {"totals": [10077]}, "Check n_total and sigma"),
    ("simulated", {"totals": [78]}, "add up to a total that is 1 away"),
    ("known", {"totals": [78]}, "add up to a total that is 1 away"),
]


@pytest.mark.parametrize(("name", "change", "reason"), FORGED)
def test_fields_that_contradict_each_other_are_refused(tmp_path, name, change, reason):
    path = tmp_path / "forged.json"
    MADE[name].save(path)
    load_release(path)
    write(path, {**json.loads(path.read_text(encoding="utf-8")), **change})
    with pytest.raises(ReleaseError, match=reason) as caught:
        load_release(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: This is no release: ")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("mu 1", {"mu": True}),
        ("third", {"noisy": [True] * 4 + [0.0, 0.0]}),
        ("default", {"noisy": [1e308] * 5 + [0.0]}),
        ("default", {"estimate": [1e308] * 5 + [0.0]}),
        ("default", {"version": True}),
        ("default", {"version": 1.0}),
    ],
)
def test_numbers_of_another_kind_or_size_are_refused(tmp_path, name, change):
    path = tmp_path / "forged.json"
    MADE[name].save(path)
    write(path, {**json.loads(path.read_text(encoding="utf-8")), **change})
    with pytest.raises(ReleaseError, match=r"beyond any count|not of the kind|of version"):
        load_release(path)


def misuses():
    """What is of another type than it should be, and the sentence that says so."""
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    table = ContingencyTable([[1, 2], [3, 4]], domain)
    for odd in (None, 3, object()):
        yield lambda odd=odd: release_table(table, GDP(1), strata=odd), "`strata` is a sequence of"
        yield lambda odd=odd: release_margins(table, odd, GDP(1)), "`margins` is a sequence of"
        yield lambda odd=odd: domain.project(odd), "A margin is a sequence of factors; got"
        yield lambda odd=odd: Release.from_dict(odd), "A release is a mapping of its fields"
        yield lambda odd=odd: MarginRelease.from_dict(odd), "release of margins is a mapping of its"
        yield lambda odd=odd: GDP(1).compose(odd), "Losses compose with GDP objects; got"
    for odd in (None, "x", 3, [], {}):
        yield lambda odd=odd: ContingencyTable([[1]], odd), "The domain of a table is a Domain; got"
        yield lambda odd=odd: Release.exact([[1]], odd), "The domain of a table is a Domain; got"
        yield lambda odd=odd: Release.from_noisy_table([[1]], odd, sigma=1), "is a Domain; got"
    for odd in ("x", {}, [object()]):
        yield lambda odd=odd: GDP(1).trade_off(odd), "A type I error alpha lies in"
    for odd in (0, 1e-200, 1e200):
        yield (
            lambda odd=odd: release_margins(table, ["A"], GDP(1), weights=[odd]),
            "A weight is a positive finite number, from",
        )
    yield lambda: release_margins(table, ["A"], GDP(1), weights="x"), "positive finite number"
    yield lambda: release_margins(table, ["A", "B"], GDP(1), weights=3), "one weight a margin"


@pytest.mark.parametrize(("use", "reason"), list(misuses()))
def test_what_is_of_another_type_is_refused_in_one_sentence(use, reason):
    with pytest.raises(DPContingencyError, match=reason) as caught:
        use()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("factor", [0.5, 0.999, 1.001, 0.0])
@pytest.mark.parametrize("name", ["default", "strata", "add-remove", "full rank", "margin"])
def test_noise_that_is_not_of_the_scale_sigma_is_refused(name, factor):
    """The standard errors of every result would be those of another release."""
    content = MADE[name].to_dict()
    variances = (MADE[name].noise.variances * factor).ravel().tolist()
    with pytest.raises(ReleaseError, match="its noise is not of the scale sigma"):
        Release.from_dict({**content, "noise": {**content["noise"], "variances": variances}})


def test_a_caller_cannot_contradict_it_either():
    for change in ({"sigma": 1.0}, {"privacy": None}, {"totals": None}, {"neighbours": "none"}):
        with pytest.raises(ReleaseError, match=r"^its "):
            replace(MADE["default"], **change)
    with pytest.raises(ReleaseError, match="not of the domain's shape"):
        replace(MADE["default"], noisy=np.zeros((2, 3)))


@pytest.mark.parametrize("mu", [1e-12, 1e-6, 1e6, 1e100, 1e200])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_rounding_contradicts_nothing(mu, relation):
    """Beside noise of 10^12 the estimate, or the number of records, is next to nothing."""
    domain = Domain({"A": ["a", "b", "c"], "B": ["u", "v"]})
    for counts in (np.zeros((3, 2), int), np.full((3, 2), 2**40), [[1, 0], [0, 2], [3, 2**40]]):
        table = ContingencyTable(counts, domain)
        for mechanism in EVERY_3X2:
            for strata in ((), ("A",)) if relation == "replace-one" else ((),):
                options = {"mechanism": mechanism, "neighbours": relation, "strata": strata}
                try:
                    made = release_table(table, GDP(mu), **options)
                except PrivacyError as error:  # too few dimensions, or Laplace beyond mu = 100
                    assert "Use " in str(error) or "Choose" in str(error)  # noqa: PT017
                    continue
                Release.from_dict(made.to_dict())
                made.margin("B", "A").margin("A")


def second_sample(release):
    """One with a record moved, whose noise fell otherwise; exact ones may be alike."""
    if release.noise.is_exact:
        return replace(release)
    noisy = release.noisy.copy()
    first, *_, last = np.flatnonzero(release.domain.possible())
    noisy.flat[[first, last]] += [1.0, -1.0]
    return replace(release, noisy=noisy)


def test_every_part_of_an_honest_release_is_one(tmp_path):
    """Margins in any order, what inference works on, and combined samples."""
    made = [*MADE.values(), *RELEASES.values()]
    parts = []
    for release in made:
        names = release.domain.names
        for size in range(1, len(names) + 1):
            for factors in combinations(reversed(names), size):
                try:
                    parts.append(release.margin(*factors))
                except ReleaseError as error:  # a law of no simple form
                    assert "no simple law" in str(error)  # noqa: PT017 -- others may have none
        if release.noise.name == "Gaussian" and release.origin != "third-party":
            parts.append(release.conditioned())
            if not release.strata:
                parts.append(combine_samples([release, second_sample(release)])[0])
    assert len(parts) > 500
    for part in parts:
        assert Release.from_dict(json.loads(json.dumps(part.to_dict()))).to_dict()


@pytest.mark.parametrize("mu", [1e-6, 1e-9])
def test_rounding_of_vast_noise_is_no_contradiction(mu):
    """A margin over the strata is as small as their totals, and made of cells as large as noise."""
    domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    table = ContingencyTable([[1, 0, 2], [3, 1, 0]], domain)
    for _ in range(20):  # refused in nine of ten
        release = release_table(table, GDP(mu), strata=["A"])
        assert release.margin("A").noisy == pytest.approx([3, 4], abs=1e-9 * release.sigma)
        samples = [release_table(table, GDP(mu)) for _ in range(2)]
        combine_samples(samples)[0].margin("sample")
