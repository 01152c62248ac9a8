"""What a caller may name a file by."""

from __future__ import annotations

import os
from pathlib import Path

from dpcontingency.errors import DPContingencyError, shown


def path_of(path: object, error: type[DPContingencyError]) -> Path:
    """A path, or an error of this kind."""
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(given, str) or not given or "\0" in given:
        raise error(f"A file is given by its path, a text or a Path; got {shown(path)}.")
    return Path(given)
