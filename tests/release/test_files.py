"""Release files: whole or not at all, unchanged or refused."""

import errno
import json
import os
import stat
import threading
from itertools import product

import numpy as np
import pytest

from dpcontingency import _writing
from dpcontingency.domain import Domain
from dpcontingency.errors import DomainError, PrivacyError, ReleaseError, shown
from dpcontingency.inference.loglinear import LogLinearResults
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.ledger import PrivacyLedger
from dpcontingency.release import files
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.publish_margins import simulate_margins
from dpcontingency.release.release import load_release

DOMAIN = Domain(
    {"Séx": ["f", "m"], "A\\ge": [1, 2.5, "x"]},
    ordered=["A\\ge"],
    structural_zeros=[{"Séx": "m", "A\\ge": 1}],
)


def make(seed=1):
    counts = np.array([[3, 1, 4], [0, 5, 9]])
    return simulate_release(counts, DOMAIN, GDP(0.7), np.random.default_rng(seed))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "release.json"
    make().save(path)
    return path


def same(one, other):
    """The same keys in the same order, the same values of the same types."""
    return json.dumps(one.to_dict()) == json.dumps(other.to_dict())


# ------------------------------------------------------------------ what is refused


def test_any_changed_byte_is_refused_or_changes_nothing(saved):
    """White space may change; whatever loads is the release that was saved."""
    original, content = make(), saved.read_bytes()
    refused = loaded = 0
    for position in range(len(content)):
        for flip in (1, 32):
            changed = bytearray(content)
            changed[position] ^= flip
            saved.write_bytes(bytes(changed))
            try:
                again = load_release(saved)
            except ReleaseError:
                refused += 1
            else:
                loaded += 1
                assert same(again, original)
    assert refused > 1.5 * len(content)
    assert loaded < 0.2 * len(content)


def paths_of(value, prefix=()):
    yield prefix
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list):
            yield from paths_of(item, (*prefix, key))
        else:
            yield (*prefix, key)


def variants(value):
    """Other values for a field, near and far."""
    yield "something else"
    yield None if value is not None else 0
    if isinstance(value, bool | int):
        yield value + 1
    if isinstance(value, int):
        yield float(value)
    if isinstance(value, float):
        yield np.nextafter(value, 1e9)
        yield -value


def test_any_changed_field_is_refused(saved):
    document = json.loads(saved.read_text())
    tried = 0
    for path in paths_of(document):
        if not path:
            continue
        for change in ("drop", *variants(_at(document, path))):
            tampered = json.loads(saved.read_text())
            holder = _at(tampered, path[:-1])
            if change == "drop":
                del holder[path[-1]]
            else:
                holder[path[-1]] = change
            saved_text = json.dumps(tampered)
            other = saved.with_name("tampered.json")
            other.write_text(saved_text)
            with pytest.raises(ReleaseError):
                load_release(other)
            tried += 1
    assert tried > 100


def _at(value, path):
    for key in path:
        value = value[key]
    return value


def test_the_order_of_the_factors_cannot_be_changed(saved):
    """The order of keys is the order of axes: a sorted checksum would not see this."""
    document = json.loads(saved.read_text())
    levels = document["domain"]["factors"]
    document["domain"]["factors"] = dict(reversed(levels.items()))
    saved.write_text(json.dumps(document))
    with pytest.raises(ReleaseError, match="changed after it was written"):
        load_release(saved)


@pytest.mark.parametrize("version", [0, 2, "1", None, 1.5, 10**4000], ids=lambda v: shown(v, 8))
def test_another_version_is_refused(saved, version):
    document = json.loads(saved.read_text())
    document["version"] = version
    document.pop("checksum")
    document["checksum"] = files._checksum(document)
    saved.write_text(json.dumps(document))
    with pytest.raises(ReleaseError, match=r"of version .* reads version 1") as caught:
        load_release(saved)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [10**4000, [10**4000], "z" * 4000, {"q" * 3000: 1}], ids=type)
def test_messages_quote_no_more_of_a_forged_file_than_a_line_holds(saved, value):
    document, said = json.loads(saved.read_text()), []
    for path in paths_of(document):
        if path and path[0] not in ("checksum", "provenance"):
            forged = json.loads(saved.read_text())
            _at(forged, path[:-1])[path[-1]] = value
            forged.pop("checksum")
            saved.with_name("forged.json").write_text(
                json.dumps(files.document_of(forged, files.RELEASE))
            )
            try:
                load_release(saved.with_name("forged.json"))
            except ReleaseError as error:
                said.append(str(error))
    assert len(said) > 20
    assert max(map(len, said)) < 600


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"A,B,count\n1,2,3\n",
        b"[1, 2]",
        b"null",
        b"7",
        b"{}",
        b'{"format": "dpcontingency-release"}',
        b'{"format": "another", "version": 1}',
        b"[" * 100_000,
        b"1" * 10_000,
        b'{"format": "dpcontingency-release", "version": 1, "checksum": "sha256:0"}',
    ],
    ids=range(12),
)
def test_what_is_no_release_is_refused_in_one_sentence(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(ReleaseError) as caught:
        load_release(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_of_another_kind_is_refused_with_what_reads_it(saved, tmp_path):
    margins = tmp_path / "margins.json"
    rng = np.random.default_rng(1)
    domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
    simulate_margins([[1, 2], [3, 4]], domain, ["A"], GDP(1), rng).save(margins)
    assert isinstance(load_release(margins), MarginRelease)
    with pytest.raises(ReleaseError, match=r"margins file: read it by load_release\.$"):
        LogLinearResults.load(margins)
    with pytest.raises(ReleaseError, match=r"release file: read it by load_release\.$"):
        MarginRelease.load(saved)
    with pytest.raises(ReleaseError, match=r"release file: read it by load_release\.$"):
        LogLinearResults.load(saved)


def test_a_key_that_is_there_twice_is_refused(saved):
    """The checksum is of what was read, and another reader might read the other value."""
    text = saved.read_text()
    saved.write_text(text.replace('"sigma":', '"sigma": 99.0, "sigma":', 1))
    with pytest.raises(ReleaseError, match="not a JSON file"):
        load_release(saved)


ODD_PATHS = [None, 1, b"r.json", ["r.json"], "", "a\0b", "x" * 5000]


@pytest.mark.parametrize("path", ODD_PATHS, ids=map(shown, ODD_PATHS))
def test_what_is_no_path_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for error, use in (
        (ReleaseError, make().save),
        (ReleaseError, make().to_csv),
        (ReleaseError, load_release),
        (ReleaseError, MarginRelease.load),
        (DomainError, DOMAIN.to_yaml),
        (DomainError, Domain.from_yaml),
        (PrivacyError, lambda path: PrivacyLedger(path, GDP(1))),
    ):
        with pytest.raises(
            error, match=r"^(A file is given by its path,|Cannot (read|write|open) )"
        ):
            use(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_devices_and_pipes_are_not_replaced(tmp_path):
    """Renaming a file over /dev/null, which the superuser may do, breaks the machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for path in (pipe, tmp_path / "link"):
        for write in (make().save, make().to_csv, make().to_parquet):
            with pytest.raises(ReleaseError, match="it is no plain file"):
                write(path)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_a_link_stays_one(tmp_path):
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real.json", tmp_path / "link.json"
    link.symlink_to(real)
    for seed in (1, 2):
        make(seed).save(link)
        assert link.is_symlink()
        assert same(load_release(real), make(seed))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ReleaseError, match="Cannot read"):
        load_release(tmp_path / "loop")
    with pytest.raises(PrivacyError, match="Cannot open"):
        PrivacyLedger(tmp_path / "loop", GDP(1))
    with pytest.raises(ReleaseError, match="a link that leads back to itself"):
        make().save(tmp_path / "loop")
    assert (tmp_path / "loop").is_symlink()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "real.json")
    with pytest.raises(ReleaseError, match=r"a link into .*nowhere, and there is no such folder"):
        make().save(tmp_path / "dangling")


def longest_name(folder):
    return os.pathconf(folder, "PC_NAME_MAX")


@pytest.mark.skipif(not hasattr(os, "pathconf"), reason="the longest name cannot be asked for")
def test_every_name_that_fits_its_folder_can_be_written(tmp_path):
    long = "x" * (longest_name(tmp_path) - 5) + ".json"
    make().save(tmp_path / long)
    assert os.listdir(tmp_path) == [long]
    with pytest.raises(ReleaseError, match="File name too long"):
        make().save(tmp_path / f"x{long}")
    with pytest.raises(ReleaseError, match="File name too long"):
        _writing.check_writable(tmp_path / f"x{long}")
    assert os.listdir(tmp_path) == [long]


def test_to_ask_whether_a_file_can_be_written_leaves_no_trace(saved):
    before = saved.read_bytes()
    _writing.check_writable(saved)
    _writing.check_writable(saved.with_name("other.json"))
    assert os.listdir(saved.parent) == ["release.json"]
    assert saved.read_bytes() == before


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(ReleaseError, match="There is no file"):
        load_release(tmp_path / "nowhere.json")
    with pytest.raises(ReleaseError, match="Cannot read"):
        load_release(tmp_path)
    with pytest.raises(ReleaseError, match="Choose a folder that exists"):
        make().save(tmp_path / "no" / "such" / "folder.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(ReleaseError, match="Choose a folder"):
        make().save(tmp_path / "file" / "below.json")
    with pytest.raises(ReleaseError, match="Cannot write"):
        make().save(tmp_path)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser writes everywhere"
)
def test_a_folder_that_is_read_only(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ReleaseError, match="Permission denied"):
        make().save(tmp_path / "release.json")
    tmp_path.chmod(0o700)


def test_a_refused_folder(tmp_path, monkeypatch):
    """What a read-only folder does, for the superuser too."""

    def refuse(*args):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(_writing.os, "open", refuse)
    with pytest.raises(ReleaseError, match=r"Permission denied\. Choose a folder"):
        make().save(tmp_path / "release.json")


# ------------------------------------------------------------------ whole or not at all


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


def crash(*args, **kwargs):
    raise RuntimeError("power")


def full(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


# Only what is replaced has permissions to keep, so that fchmod is called.
@pytest.mark.parametrize(
    ("step", "exists"),
    [*product(["replace", "fsync", "fdopen"], [True, False]), ("fchmod", True)],
)
@pytest.mark.parametrize(
    ("fault", "seen"), [(interrupt, KeyboardInterrupt), (crash, RuntimeError), (full, ReleaseError)]
)
def test_a_crash_leaves_what_was_there(tmp_path, monkeypatch, step, fault, seen, exists):
    path = tmp_path / "release.json"
    if exists:
        make(1).save(path)
    before = path.read_bytes() if exists else None
    with monkeypatch.context() as patch:
        patch.setattr(_writing.os, step, fault)
        with pytest.raises(seen):
            make(2).save(path)
    assert os.listdir(tmp_path) == (["release.json"] if exists else [])
    if exists:
        assert path.read_bytes() == before
    make(2).save(path)
    assert same(load_release(path), make(2))


def test_ctrl_c_after_the_file_is_in_place_is_still_ctrl_c(tmp_path, monkeypatch):
    replace = os.replace

    def late(*args):
        replace(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(_writing.os, "replace", late)
    with pytest.raises(KeyboardInterrupt):
        make().save(tmp_path / "release.json")
    assert same(load_release(tmp_path / "release.json"), make())


def test_a_half_written_text_never_shows(tmp_path, monkeypatch):
    """At the moment of replacement the new file is complete on disk under another name."""
    path, seen = tmp_path / "release.json", []
    replace = os.replace

    def watched(source, target):
        seen.append(same(load_release(source), make()))
        assert not path.exists()
        replace(source, target)

    monkeypatch.setattr(_writing.os, "replace", watched)
    make().save(path)
    assert seen == [True]


# ------------------------------------------------------------------ what is written


def test_the_file_is_readable_text_of_a_stated_version(saved):
    text = saved.read_text(encoding="utf-8")
    document = json.loads(text)
    assert (document["format"], document["version"]) == ("dpcontingency-release", 1)
    assert "Séx" in text
    assert "NaN" not in text
    assert text.endswith("}\n")


def test_the_same_release_gives_the_same_bytes(saved, tmp_path):
    again = tmp_path / "again.json"
    load_release(saved).save(str(again))
    assert again.read_bytes() == saved.read_bytes()


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request):
    usual = os.umask(request.param)
    yield request.param
    os.umask(usual)


def test_a_new_file_has_the_permissions_of_a_new_file(tmp_path, umask):
    make().save(tmp_path / "release.json")
    assert mode_of(tmp_path / "release.json") == 0o666 & ~umask


def test_a_file_that_is_replaced_keeps_its_permissions(saved, umask):
    for mode in (0o600, 0o640, 0o664):
        saved.chmod(mode)
        make(2).save(saved)
        assert mode_of(saved) == mode


def test_the_umask_of_the_process_stays_while_files_are_written(tmp_path, umask):
    """Files that other threads make meanwhile have the permissions that they ask for."""
    done, modes = threading.Event(), set()

    def others():
        while not done.is_set() or not modes:
            place = tmp_path / "theirs"
            os.close(os.open(place, os.O_CREAT | os.O_EXCL, 0o666))
            modes.add(mode_of(place))
            place.unlink()

    thread = threading.Thread(target=others)
    thread.start()
    for k in range(200):
        _writing.write_text(tmp_path / f"{k}.json", "{}")
    done.set()
    thread.join()
    assert modes == {0o666 & ~umask}


def test_what_is_confidential_is_its_owners_alone_from_the_start(tmp_path, monkeypatch, umask):
    path, modes = tmp_path / "draft.yaml", []
    replace = os.replace

    def watched(source, target):
        modes.append(mode_of(source))
        replace(source, target)

    monkeypatch.setattr(_writing.os, "replace", watched)
    path.write_text("")
    path.chmod(0o644)
    _writing.write_text(path, "observed: true", mode=_writing.OWNER_ONLY)
    assert [*modes, mode_of(path)] == [0o600, 0o600]


# ------------------------------------------------------------------ links


def sticky(folder):
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can make another user's link")
@pytest.mark.parametrize("of_folder", [True, False])
def test_a_link_that_another_user_planted_is_not_followed(tmp_path, of_folder):
    folder, target = sticky(tmp_path / "shared"), tmp_path / "target"
    target.mkdir()
    (target / "release.json").write_text("mine")
    link = folder / ("link" if of_folder else "release.json")
    link.symlink_to(target if of_folder else target / "release.json")
    os.lchown(link, 12345, 12345)
    path = link / "release.json" if of_folder else link
    with pytest.raises(ReleaseError, match="a link that another user put into a folder"):
        make().save(path)
    assert (target / "release.json").read_text() == "mine"
    os.lchown(link, 0, 0)  # one's own is followed
    make().save(path)
    assert same(load_release(target / "release.json"), make())
    assert link.is_symlink()


def test_links_lead_where_the_system_follows_them(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "short").symlink_to(tmp_path / "a" / "b")
    (tmp_path / "a" / "one").symlink_to("../short/../two")  # the parent of b, which is a
    (tmp_path / "a" / "two").symlink_to("three.json")
    for link in (tmp_path / "a" / "one", tmp_path / "short" / ".." / "one"):
        make().save(link)
        assert os.path.realpath(link) == str(tmp_path / "a" / "three.json")
        assert same(load_release(tmp_path / "a" / "three.json"), make())
        (tmp_path / "a" / "three.json").unlink()


def test_a_label_that_is_no_unicode_text_survives(tmp_path):
    """os.listdir and the like give such labels: '\\udcff' is a byte that was no UTF-8."""
    domain = Domain({"A": ["\udcff", r"\udcff", "b"]})
    release = simulate_release([1, 2, 3], domain, GDP(1), np.random.default_rng(1))
    release.save(tmp_path / "odd.json")
    assert load_release(tmp_path / "odd.json").domain == domain


def test_numbers_that_json_lacks_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write(tmp_path / "bad.json", {"x": float("nan")})
    assert os.listdir(tmp_path) == []
