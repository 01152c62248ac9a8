"""Files sealed with a key: what was written or changed without it is refused."""

import hashlib
import hmac
import json
import traceback

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from dpcontingency.domain import Domain
from dpcontingency.errors import ReleaseError
from dpcontingency.inference.loglinear import LogLinearModel, LogLinearResults
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release import files
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.publish_margins import simulate_margins
from dpcontingency.release.release import Release, load_release

DOMAIN = Domain({"Séx\x9b": ["f", "\udcff"], "B": [1, 2.5]})
COUNTS = np.array([[30, 10], [40, 50]])
KEY, OTHER = b"SECRET-of-16-byt", b"SECRET-of-16-byu"


def joint():
    return simulate_release(COUNTS, DOMAIN, GDP(1), np.random.default_rng(1))


def margins():
    return simulate_margins(COUNTS, DOMAIN, ["B"], GDP(1), np.random.default_rng(1))


KINDS = {
    "release": (joint, load_release, "release"),
    "margins": (margins, MarginRelease.load, "margins"),
}
either = pytest.mark.parametrize(("make", "load", "name"), KINDS.values(), ids=list(KINDS))


def refusal(call):
    with pytest.raises(ReleaseError) as caught:
        call()
    shown = "".join(traceback.format_exception(caught.value))
    for secret in (KEY, OTHER):
        assert secret.decode() not in str(caught.value)
        assert repr(secret) not in shown
    return str(caught.value)


@either
def test_a_sealed_file_loads_with_its_key_and_without(make, load, name, tmp_path):
    path, plain = tmp_path / "r.json", tmp_path / "plain.json"
    make().save(path, key=KEY)
    make().save(plain)
    for again in (load(path, key=KEY), load(path, key=KEY.decode()), load(path), load(plain)):
        assert json.dumps(again.to_dict()) == json.dumps(make().to_dict())
        assert again.checksum == make().checksum
    content = json.loads(path.read_bytes())
    content.pop("seal")
    assert content == json.loads(plain.read_bytes())
    assert list(content)[-1] == "checksum"
    assert KEY not in path.read_bytes()


@either
def test_the_seal_is_the_hmac_of_what_the_checksum_is_of(make, load, name, tmp_path):
    """By another way than the package's: the canonical text as the schema describes it."""
    make().save(tmp_path / "r.json", key=KEY)
    content = json.loads((tmp_path / "r.json").read_bytes())
    seal, checksum = content.pop("seal"), content.pop("checksum")
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    text = text.encode(errors="backslashreplace")
    assert checksum == f"sha256:{hashlib.sha256(text).hexdigest()}"
    assert seal == f"hmac-sha256:{hmac.digest(KEY, text, 'sha256').hex()}"


@either
def test_what_the_key_did_not_seal_is_refused(make, load, name, tmp_path):
    path = tmp_path / "r.json"
    make().save(path)
    assert "is not sealed" in refusal(lambda: load(path, key=KEY))
    make().save(path, key=KEY)
    sealed = path.read_bytes()
    assert "sealed with another key, or changed" in refusal(lambda: load(path, key=OTHER))
    content = json.loads(sealed)
    forged = {k: v for k, v in content.items() if k not in ("checksum", "seal")}
    forged["provenance"] = forged["provenance"] | {"release": "another"}
    whole = {**forged, "checksum": files._checksum(forged)}
    for seal in (
        content["seal"],
        files._seal(forged, OTHER),
        "",
        "é\ud800",
        None,
        3,
        [KEY.decode()],
    ):
        path.write_text(json.dumps(whole | {"seal": seal}))
        load(path)  # a checksum is no signature
        said = refusal(lambda: load(path, key=KEY))
        assert ("another key, or changed" if isinstance(seal, str) else "is not sealed") in said
    path.write_text(json.dumps(forged | {k: content[k] for k in ("checksum", "seal")}))
    for key in (KEY, OTHER, None):
        assert "its checksum does not match" in refusal(lambda key=key: load(path, key=key))
    path.write_bytes(sealed)
    assert load(path, key=KEY).checksum == make().checksum


@either
@pytest.mark.parametrize("key", ["", b"", "SECRET-of-15-by", b"SECRET-of-15-by", 16 * 7, ["SECRET"],
                                 bytearray(32), "é" * 7])  # fmt: skip
def test_what_is_no_key_is_refused_before_anything_is_written(make, load, name, key, tmp_path):
    path = tmp_path / "r.json"
    for call in (lambda: make().save(path, key=key), lambda: load(path, key=key)):
        said = refusal(call)
        assert "at least 16 bytes" in said
        assert "SECRET" not in said
    assert not path.exists()


@either
def test_a_sealed_file_fits_its_schema(make, load, name, tmp_path, request):
    make().save(tmp_path / "r.json", key="é" * 8)
    folder = request.config.rootpath / "dpcontingency" / "release"
    validator = Draft202012Validator(json.loads((folder / f"{name}.schema.json").read_text()))
    content = json.loads((tmp_path / "r.json").read_bytes())
    assert not list(validator.iter_errors(content))
    (wrong,) = validator.iter_errors(content | {"seal": "sha256:00"})
    assert "hmac-sha256" in wrong.message


def test_a_seal_goes_nowhere_else(tmp_path):
    domain = Domain({"A": ["f", "m"], "B": [1, 2.5]})
    Release.exact(COUNTS, domain).save(tmp_path / "r.json", key=KEY)
    release = load_release(tmp_path / "r.json", key=KEY)
    assert isinstance(release, Release)
    assert KEY.decode() not in f"{release!r}{vars(release)}{release.statement()}"
    fit = LogLinearModel(release, [("B",)]).fit()
    fit.save(tmp_path / "fit.json")
    assert "hmac" not in (tmp_path / "fit.json").read_text()
    assert LogLinearResults.load(tmp_path / "fit.json").deviance == fit.deviance
