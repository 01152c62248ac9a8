"""The JSON Schema of release files: it describes every release, and what it refuses is not read."""

import copy
import json
from importlib.resources import files as resources

import jsonschema
import numpy as np
import pytest

from dpcontingency.bins import Bins
from dpcontingency.domain import Domain
from dpcontingency.errors import PrivacyError, ReleaseError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release import files
from dpcontingency.release.mechanisms import (
    MECHANISMS,
    BlockJamesStein,
    Gaussian,
    JamesStein,
    Laplace,
    RankDeficientGaussian,
    RankDeficientJamesStein,
)
from dpcontingency.release.publish import release_table, simulate_release
from dpcontingency.release.release import Release, load_release
from dpcontingency.table import ContingencyTable

SCHEMA = json.loads(
    resources("dpcontingency.release").joinpath("release.schema.json").read_text(encoding="utf-8")
)
CHECKER = jsonschema.Draft202012Validator(SCHEMA)

LEVELS = {"A": [1, 2.5, "x"], "B": ["b", True], "Ç": ["c", "d"]}
PLAIN = Domain(LEVELS, ordered=["B"], scores={"A": [0, 1, 2.5]})
HOLED = Domain(LEVELS, structural_zeros=[{"A": "x", "Ç": "d"}, {"A": 1, "B": True, "Ç": "c"}])
BINNED = Domain(
    {"A": ["low", "mid", "?"], "Ç": ["c", "d"]},
    bins={"A": Bins([-np.inf, 0.5, np.inf], closed="right"), "B": Bins([0, 1, 2])},
)
COUNTS = np.arange(12).reshape(3, 2, 2) + 5
PUBLIC = np.arange(12.0).reshape(3, 2, 2) + 1
EVERY = [
    Gaussian(),
    RankDeficientGaussian(),
    JamesStein("zero"),
    JamesStein("mean", positive_part=False),
    RankDeficientJamesStein(),
    RankDeficientJamesStein("mean", basis="interaction"),
    RankDeficientJamesStein(PUBLIC),
    RankDeficientJamesStein("mean", basis=np.linalg.qr(np.eye(12) - 1 / 12)[0][:, :11]),
    BlockJamesStein(),
    BlockJamesStein(1, positive_part=False),
    Laplace(),
]


def every_release():
    """Each kind of release once, by a name."""
    for domain in (PLAIN, HOLED):
        table = ContingencyTable(COUNTS * domain.possible(), domain, missing="drop")
        whole = ContingencyTable(COUNTS * domain.possible(), domain)
        for mechanism in EVERY:
            for relation, strata in (
                ("replace-one", ()),
                ("replace-one", ("Ç", "A")),
                ("add-remove", ()),
            ):
                options = {"mechanism": mechanism, "neighbours": relation, "strata": strata}
                try:
                    made = release_table(whole, GDP(0.7), **options)
                except PrivacyError:  # no such interactions with structural zeros, for instance
                    continue
                yield f"{domain} {mechanism!r} {relation} {strata}", made
        yield f"{domain} dropped", release_table(table, GDP(1), neighbours="add-remove")
        rng = np.random.default_rng(1)
        simulated = simulate_release(whole.counts, domain, GDP(3), rng, strata=["A"])
        yield f"{domain} simulated", simulated
        yield f"{domain} margin", simulated.margin("Ç", "A")
        yield f"{domain} exact", Release.exact(whole.counts * 0.5, domain)
        third = {
            "sigma": np.linspace(1, 2, 12).reshape(3, 2, 2),
            "n_total": whole.counts.sum() + 0.5,
        }
        yield f"{domain} third", Release.from_noisy_table(COUNTS, domain, **third)
        known = Release.from_noisy_table(COUNTS, domain, sigma=2, neighbours="add-remove")
        yield f"{domain} third, known", known
    binned = release_table(ContingencyTable(COUNTS, BINNED), GDP(1))
    yield "binned", binned
    observed = Domain.from_dict({**BINNED.to_dict(), "observed": True})
    yield "observed", release_table(ContingencyTable(COUNTS, observed), GDP(1))


RELEASES = dict(every_release())
by_release = pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)


def errors_of(document):
    return [error.message for error in CHECKER.iter_errors(document)]


def write(path, document):
    """A file with a checksum that matches, whatever is in it."""
    document = {k: v for k, v in document.items() if k != "checksum"}
    path.write_text(json.dumps({**document, "checksum": files._checksum(document)}))


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["version"] == {"const": files.VERSION}
    assert SCHEMA["properties"]["format"] == {"const": files.RELEASE}
    assert [*SCHEMA["required"], files.SEAL] == list(SCHEMA["properties"])


@by_release
def test_every_release_fits_the_schema(release, tmp_path):
    release.save(tmp_path / "r.json")
    assert errors_of(json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))) == []
    again = load_release(tmp_path / "r.json")
    assert again.to_dict() == release.to_dict()


def test_the_kinds_are_all_there():
    made = [release.to_dict() for release in RELEASES.values()]
    described = [kind["$ref"] for kind in SCHEMA["properties"]["mechanism"]["oneOf"][1:]]
    names = [_names(SCHEMA["$defs"][ref.rpartition("/")[2]]) for ref in described]
    assert {m["mechanism"]["name"] for m in made if m["mechanism"]} == set().union(*names)
    assert set().union(*names) == set(MECHANISMS)
    assert {m["origin"] for m in made} == set(SCHEMA["properties"]["origin"]["enum"])
    assert {m["neighbours"] for m in made} == {"replace-one", "add-remove", None}
    assert {len(m["strata"]) for m in made} == {0, 1, 2}
    assert any("missing" in m["provenance"] for m in made)


def _names(kind):
    name = kind["properties"]["name"]
    return name.get("enum", [name.get("const")])


# ------------------------------------------------------------------ what is not a release


def positions(value, path=()):
    """Every place in a document, with its path; of a long list the first two."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:2])
    for key, item in items:
        if isinstance(item, dict | list):
            yield from positions(item, (*path, key))
        else:
            yield (*path, key)


OTHERS = ("other", None, -1, 1.5, 0, [], {}, ["A"], [None], {"name": "x"}, 10**400, "")


def mutants(document):
    """The document with one thing dropped, added or put in another's place."""
    for path in positions(document):
        for other in OTHERS:
            changed = copy.deepcopy(document)
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            if path:
                if type(holder[path[-1]]) is type(other) and holder[path[-1]] == other:
                    continue
                holder[path[-1]] = other
                yield path, other, changed
        if path:
            changed = copy.deepcopy(document)
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            del holder[path[-1]]
            yield path, "dropped", changed
    yield (), "added", {**document, "more": 1}


MUTATED = [
    name
    for name in RELEASES
    if name in ("Domain(A: 3, B: 2, Ç: 2) third", "Domain(A: 3, B: 2, Ç: 2) dropped", "observed")
    or "Laplace() replace-one ()" in name
    or "BlockJamesStein() replace-one ('Ç', 'A')" in name
    or "RankDeficientJamesStein(target=<3 x 2 x 2 array>) replace-one ()" in name
    or "2 structural zeros) simulated" in name
]


@pytest.mark.parametrize("name", MUTATED)
def test_a_wrong_field_under_a_right_checksum_is_refused_in_one_sentence(name, tmp_path):
    """Whatever loads fits the schema; all else is a ReleaseError, never a KeyError."""
    path = tmp_path / "r.json"
    RELEASES[name].save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    refused = loaded = 0
    for where, other, changed in mutants(document):
        if where == ("checksum",):
            continue
        write(path, changed)
        again = load_or_refusal(path)
        if isinstance(again, ReleaseError):
            refused += 1
            assert "\n" not in str(again)
            assert str(path) in str(again)
        else:
            loaded += 1
            assert not errors_of(json.loads(path.read_text(encoding="utf-8"))), (where, other)
            assert again.to_dict() == {
                k: v for k, v in changed.items() if k not in ("format", "version", "checksum")
            }
    assert refused > 5 * loaded > 0


def load_or_refusal(path):
    try:
        return load_release(path)
    except ReleaseError as error:
        return error


def test_the_reason_is_named(tmp_path):
    path = tmp_path / "r.json"
    document = files.document_of(Release.exact(COUNTS, PLAIN).to_dict())
    for change, what in (
        ({"sigma": "2"}, "its sigma is not a scale"),
        ({"origin": "found"}, "its origin is not a known one"),
        ({"more": 1}, "the field 'more' is unknown"),
        ({"noisy": [1.0, None]}, "no finite number"),
        ({"mu": -1}, "mu must be a positive"),
        ({"mechanism": {"name": "Magic"}}, "some field is not of the kind"),
        ({"domain": {"factors": {}}}, "at least one factor"),
    ):
        write(path, {**document, **change})
        with pytest.raises(ReleaseError, match=what) as caught:
            load_release(path)
        assert "Ask the publisher" in str(caught.value)
    del document["noisy"]
    write(path, document)
    with pytest.raises(ReleaseError, match="the field 'noisy' is missing"):
        load_release(path)
