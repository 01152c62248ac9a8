"""The JSON files of releases and results: versioned, checksummed, written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpcontingency._language import phrase
from dpcontingency._paths import path_of
from dpcontingency.errors import ReleaseError, shown

RELEASE = "dpcontingency-release"
MARGINS = "dpcontingency-margins"
RESULTS = "dpcontingency-results"
VERSION = 1
_BEGUN = ".dpcontingency-"  # what the names of half-written files begin with
READERS = {
    RELEASE: "load_release",
    MARGINS: "MarginRelease.load",
    RESULTS: "LogLinearResults.load",
}


def write(path: str | Path, content: dict[str, Any], kind: str = RELEASE) -> None:
    """Write plain data of some kind to ``path``, atomically."""
    write_text(path, text_of(content, kind))


def text_of(content: dict[str, Any], kind: str = RELEASE) -> str:
    """Plain data as the text of its file.

    Floats are written in Python's shortest form that reads back to the same bits.
    """
    document = document_of(content, kind)
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def document_of(content: dict[str, Any], kind: str = RELEASE) -> dict[str, Any]:
    """Plain data as it stands in its file: with format, version and checksum."""
    document = {"format": kind, "version": VERSION, **content}
    return {**document, "checksum": _checksum(document)}


def read(path: str | Path, kind: str = RELEASE) -> dict[str, Any]:
    """The plain data in a file of some kind, after checking that it is one and is unchanged.

    Raises
    ------
    ReleaseError
        If the file is not of this kind and version, or its checksum does not match.
    """
    return read_one_of(path, (kind,))[1]


def read_one_of(path: str | Path, kinds: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Which of some kinds a file is of, and its plain data; see `read`."""
    source = path_of(path, ReleaseError)
    try:
        text = source.read_text(encoding="utf-8-sig")  # some editors add a mark
        document = json.loads(text, object_pairs_hook=_once)
    except FileNotFoundError:
        raise ReleaseError(f"There is no file {path}.") from None
    except OSError as error:
        raise ReleaseError(f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError):  # not UTF-8, not JSON, absurd JSON, or a key twice
        raise ReleaseError(
            f"{path} is not a JSON file, so dpcontingency did not write it."
        ) from None
    kind = document.get("format") if isinstance(document, dict) else None
    if kind not in kinds:
        other = ""
        if isinstance(kind, str) and kind in READERS:
            other = f", but a {kind} file{phrase(f': read it by {READERS[kind]}', '')}"
        raise ReleaseError(f"{path} is not a {' or '.join(kinds)} file{other}.")
    if document.get("version") != VERSION or type(document["version"]) is not int:
        raise ReleaseError(
            f"{path} is a {kind} file of version {shown(document.get('version'))}; this package "
            f"reads version {VERSION}. Upgrade dpcontingency to read it."
        )
    if document.pop("checksum", None) != _checksum(document):
        raise ReleaseError(
            f"{path} was changed after it was written: its checksum does not match. Ask the "
            "publisher for the original file."
        )
    return str(kind), {k: v for k, v in document.items() if k not in ("format", "version")}


def write_text(path: str | Path, text: str) -> None:
    """Write a text file so that it appears whole or not at all."""
    # A lone surrogate in a level's label is written as \uXXXX, which JSON reads back.
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file so that it appears whole or not at all; a link stays one.

    Raises
    ------
    ReleaseError
        If the folder is not there or cannot be written to, or the path is that of a device, a pipe
        or a folder.
    """
    target, handle, temporary = _begun(path)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp makes files that only their owner reads
        os.replace(temporary, target)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise _unwritable(path, error) from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_writable(path: str | Path) -> None:
    """Refuse what `write_bytes` would refuse, by beginning to write; nothing stays.

    Raises
    ------
    ReleaseError
        As `write_bytes`.
    """
    _, handle, temporary = _begun(path)
    os.close(handle)
    os.unlink(temporary)


def _begun(path: str | Path) -> tuple[Path, int, str]:
    """Where a path leads, and an open file beside it, by descriptor and name."""
    given = path_of(path, ReleaseError)
    try:
        target = Path(os.path.realpath(given))
        if given.is_symlink() and not os.path.isdir(target.parent):
            raise ReleaseError(
                f"Cannot write {path}: it is a link into {target.parent}, and there is no such "
                "folder. Make it, or choose another name."
            )
        # Of the name itself, which may be too long for its folder where a temporary one is not.
        with contextlib.suppress(FileNotFoundError):
            mode = os.lstat(target).st_mode
            if stat.S_ISLNK(mode):  # which only a link that cannot be followed leaves
                raise ReleaseError(
                    f"Cannot write {path}: it is a link that leads back to itself. Choose another "
                    "name."
                )
            if not stat.S_ISREG(mode):
                raise ReleaseError(
                    f"Cannot write {path}: it is no plain file. Choose another name."
                )
        # A name of its own length, or a long name could not be written though it fits the folder.
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=_BEGUN)
    except OSError as error:
        raise _unwritable(path, error) from None
    return target, handle, temporary


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys; a reader might take any of two values of a key."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key is there twice")
    return content


def _unwritable(path: str | Path, error: OSError) -> ReleaseError:
    return ReleaseError(
        f"Cannot write {path}: {error.strerror}. Choose a folder that exists and is writable."
    )


def _checksum(document: dict[str, Any]) -> str:
    # Keys stay in the file's order: the order of the factors is the order of the axes.
    canonical = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(canonical.encode(errors="backslashreplace")).hexdigest()
