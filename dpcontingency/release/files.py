"""The JSON files of releases and results: versioned, checksummed, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpcontingency import _writing
from dpcontingency._language import phrase
from dpcontingency._paths import path_of
from dpcontingency.errors import ReleaseError, shown

RELEASE = "dpcontingency-release"
MARGINS = "dpcontingency-margins"
RESULTS = "dpcontingency-results"
VERSION = 1
READERS = {
    RELEASE: "load_release",
    MARGINS: "load_release",
    RESULTS: "LogLinearResults.load",
}


def write(path: str | Path, content: dict[str, Any], kind: str = RELEASE) -> None:
    """Write plain data of some kind to ``path``, atomically."""
    _writing.write_text(path, text_of(content, kind))


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


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys; a reader might take any of two values of a key."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key is there twice")
    return content


def _checksum(document: dict[str, Any]) -> str:
    # Keys stay in the file's order: the order of the factors is the order of the axes.
    canonical = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(canonical.encode(errors="backslashreplace")).hexdigest()
