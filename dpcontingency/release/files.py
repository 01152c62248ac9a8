"""The JSON files of releases and results: versioned, checksummed, written whole or not at all."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from dpcontingency import _writing
from dpcontingency._labels import json_on_lines
from dpcontingency._language import phrase
from dpcontingency._paths import path_of
from dpcontingency.errors import ReleaseError, shown

RELEASE = "dpcontingency-release"
MARGINS = "dpcontingency-margins"
RESULTS = "dpcontingency-results"
VERSION = 1
SEAL = "seal"  # the checksum with a key, which is not required
LEAST_KEY = 16  # bytes
Key: TypeAlias = bytes | str
READERS = {
    RELEASE: "load_release",
    MARGINS: "load_release",
    RESULTS: "LogLinearResults.load",
}


def write(
    path: str | Path, content: dict[str, Any], kind: str = RELEASE, *, key: Key | None = None
) -> None:
    """Write plain data of some kind to ``path``, atomically, and sealed if there is a key."""
    _writing.write_text(path, text_of(content, kind, key=key))


def text_of(content: dict[str, Any], kind: str = RELEASE, *, key: Key | None = None) -> str:
    """Plain data as the text of its file.

    Floats are written in Python's shortest form that reads back to the same bits.
    """
    document = document_of(content, kind, key=key)
    text = json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False)
    return json_on_lines(text) + "\n"


def document_of(
    content: dict[str, Any], kind: str = RELEASE, *, key: Key | None = None
) -> dict[str, Any]:
    """Plain data as it stands in its file: with format, version, checksum, and seal if any."""
    document = {"format": kind, "version": VERSION, **content}
    ends = {"checksum": _checksum(document)}
    return {**document, **ends, **({} if key is None else {SEAL: _seal(document, key)})}


def read(path: str | Path, kind: str = RELEASE, *, key: Key | None = None) -> dict[str, Any]:
    """The plain data in a file of some kind, after checking that it is one and is unchanged.

    Raises
    ------
    ReleaseError
        If the file is not of this kind and version, its checksum does not match, or there is a key
        and it is not sealed with it.
    """
    return read_one_of(path, (kind,), key=key)[1]


def read_one_of(
    path: str | Path, kinds: Sequence[str], *, key: Key | None = None
) -> tuple[str, dict[str, Any]]:
    """Which of some kinds a file is of, and its plain data; see `read`."""
    secret = None if key is None else _secret(key)
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
    seal = document.pop(SEAL, None)
    if document.pop("checksum", None) != _checksum(document):
        raise ReleaseError(
            f"{path} was changed after it was written: its checksum does not match. Ask the "
            "publisher for the original file."
        )
    if secret is not None:
        _check_seal(path, document, seal, secret)
    return str(kind), {k: v for k, v in document.items() if k not in ("format", "version")}


def _check_seal(path: str | Path, document: dict[str, Any], seal: object, secret: bytes) -> None:
    if not isinstance(seal, str):
        raise ReleaseError(
            f"{path} is not sealed, so no key can tell who wrote it: ask the publisher for a file "
            f"that was saved with the key{phrase(', or load it without one', '')}."
        )
    if not hmac.compare_digest(seal.encode(errors="replace"), _seal(document, secret).encode()):
        raise ReleaseError(
            f"{path} was sealed with another key, or changed by somebody who does not have it: "
            "check the key, or ask the publisher for the original file."
        )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys; a reader might take any of two values of a key."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key is there twice")
    return content


def _canonical(document: dict[str, Any]) -> bytes:
    # Keys stay in the file's order: the order of the factors is the order of the axes.
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace")


def _checksum(document: dict[str, Any]) -> str:
    return "sha256:" + hashlib.sha256(_canonical(document)).hexdigest()


def _seal(document: dict[str, Any], key: Key) -> str:
    code = hmac.new(_secret(key), _canonical(document), hashlib.sha256)
    return f"hmac-sha256:{code.hexdigest()}"


def _secret(key: object) -> bytes:
    """The bytes of a key, of which a message says nothing."""
    secret = key.encode(errors="surrogatepass") if isinstance(key, str) else key
    if not isinstance(secret, bytes) or len(secret) < LEAST_KEY:
        raise ReleaseError(
            f"A key is text or bytes, of at least {LEAST_KEY} bytes, such as one that "
            "secrets.token_bytes(32) drew."
        )
    return secret
