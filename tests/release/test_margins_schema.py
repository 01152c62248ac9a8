"""The JSON Schema of files of margins: it describes them, and what it refuses is not read."""

import json
from dataclasses import replace
from importlib.resources import files as resources

import jsonschema
import numpy as np
import pytest

from dpcontingency.domain import Domain
from dpcontingency.errors import ReleaseError
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release import files
from dpcontingency.release.layout import CLOSED, EXACT, SAFE
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.publish_margins import release_margins, simulate_margins
from dpcontingency.table import ContingencyTable
from tests.release.test_schema import mutants, write


def schema(name):
    path = resources("dpcontingency.release").joinpath(name)
    return json.loads(path.read_text(encoding="utf-8"))


SCHEMA = schema("margins.schema.json")
CHECKER = jsonschema.Draft202012Validator(SCHEMA)
DOMAIN = Domain({"A": [1, 2.5, "x"], "B": ["b", True], "Ç": ["c", "d"], "D": [0]}, ordered=["B"])
COUNTS = np.arange(12).reshape(DOMAIN.shape) + 5
MARGINS = [("Ç", "A"), ("B",)]


def every_release():
    table = ContingencyTable(COUNTS, DOMAIN)
    for neighbours in ("replace-one", "add-remove"):
        for objective in ("total-variance", "max-variance"):
            made = release_margins(
                table, MARGINS, GDP(0.7), neighbours=neighbours, objective=objective, weights=[2, 1]
            )
            yield f"{neighbours} {objective}", made
    yield "restricted", made.restrict(["A", "B"])
    yield "collapsed", made.collapse("B", "A")
    rng = np.random.default_rng(1)
    yield "simulated", simulate_margins(COUNTS, DOMAIN, MARGINS, GDP(0.1), rng)
    observed = Domain.from_dict({**DOMAIN.to_dict(), "observed": True})
    yield "observed", release_margins(ContingencyTable(COUNTS, observed), MARGINS, GDP(1))


RELEASES = dict(every_release())


def errors_of(document):
    return [error.message for error in CHECKER.iter_errors(document)]


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["version"] == {"const": files.VERSION}
    assert SCHEMA["properties"]["format"] == {"const": files.MARGINS}
    assert [*SCHEMA["required"], files.SEAL] == list(SCHEMA["properties"])
    assert set(SCHEMA["$defs"]["plan"]["properties"]["bound"]["enum"]) == {EXACT, SAFE, CLOSED}
    for name in ("label", "numbers", "domain"):  # one format of domains in all files
        assert SCHEMA["$defs"][name] == schema("release.schema.json")["$defs"][name]


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_every_release_fits_the_schema(release, tmp_path):
    release.save(tmp_path / "m.json")
    assert errors_of(json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))) == []
    assert MarginRelease.load(tmp_path / "m.json").to_dict() == release.to_dict()


def refusal(path):
    """Why a file is not read; empty where it is."""
    try:
        MarginRelease.load(path)
    except ReleaseError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ["add-remove max-variance", "observed"])
def test_what_the_schema_refuses_is_not_read(name, tmp_path):
    path = tmp_path / "m.json"
    RELEASES[name].save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    refused = loaded = 0
    for where, other, changed in mutants(document):
        if where == ("checksum",):
            continue
        write(path, changed)
        reason = refusal(path)
        if reason:
            refused += 1
            assert "\n" not in reason
        else:
            loaded += 1
            assert not errors_of(json.loads(path.read_text(encoding="utf-8"))), (where, other)
    assert refused > 5 * loaded > 0


def test_what_a_schema_cannot_say_is_refused_by_its_reason():
    content = RELEASES["simulated"].to_dict()
    plan = content["plan"]
    weights = [float("nan"), 1.0]
    off = [[value + 1e-9 for value in values] for values in content["contrasts"]]
    for change, what in (
        ({"plan": {**plan, "bound": CLOSED}}, "no known way for its neighbours"),
        ({"plan": {**plan, "bound": "exact"}}, "no known way"),
        ({"plan": {**plan, "weights": weights}}, "weight is a positive finite number"),
        ({"plan": {**plan, "weights": [1.0]}}, "one weight a margin"),
        ({"contrasts": off}, "not on the grid"),
        ({"contrasts": [[1e300] * len(c) for c in content["contrasts"]]}, "larger than its total"),
        ({"total": None}, "its total does not go with its neighbours"),
        ({"total": -1}, "its total is not a number of records"),
        ({"origin": "found"}, "its origin is not a known one"),
        ({"contrasts": content["contrasts"][1:]}, "some field is not of the kind"),
        ({"more": 1}, "the field 'more' is unknown"),
    ):
        with pytest.raises(ReleaseError, match=what):
            MarginRelease.from_dict({**content, **change})


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_a_total_that_is_too_small_for_the_contrasts_is_refused(neighbours):
    counts = np.zeros(DOMAIN.shape, dtype=int)
    counts[0, 0, 0, 0] = 10_000
    table = ContingencyTable(counts, DOMAIN)
    content = release_margins(table, MARGINS, GDP(1), neighbours=neighbours).to_dict()
    MarginRelease.from_dict(content)
    public = neighbours == "replace-one"
    smaller = {"total": 9_000} if public else {"contrasts": [[9_000.0], *content["contrasts"][1:]]}
    with pytest.raises(ReleaseError, match="its contrasts are larger than its total and their"):
        MarginRelease.from_dict({**content, **smaller})


def test_a_caller_cannot_contradict_it_either():
    release = RELEASES["simulated"]
    fewer = dict(list(release.contrasts.items())[1:])
    for change in ({"contrasts": fewer}, {"total": None}, {"total": 1.5}, {"origin": "found"}):
        with pytest.raises(ReleaseError, match=r"^its "):
            replace(release, **change)
    endless = {a: np.full(v.shape, np.inf) for a, v in release.contrasts.items()}
    with pytest.raises(ReleaseError, match="no finite number"):
        replace(release, contrasts=endless)


def test_contrasts_are_nobody_elses():
    release = RELEASES["simulated"]
    for values in release.contrasts.values():
        with pytest.raises(ValueError, match="read-only"):
            values[...] = 0.0
        with pytest.raises(ValueError, match="WRITEABLE"):
            values.setflags(write=True)
