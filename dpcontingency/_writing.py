"""Files that appear whole or not at all, readable by whom their folder's owner lets read them.

Every file that the package writes goes through here. What is written first stands beside the
target under a name of its own, and takes the target's place in one step. The mode is given when
the file is made, so that neither the process's umask nor anybody's view of a half-made file
changes.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

from dpcontingency._paths import path_of
from dpcontingency.errors import DPContingencyError, ReleaseError

_BEGUN = ".dpcontingency-"  # what the names of half-written files begin with
OWNER_ONLY = 0o600
_EVERYBODY = 0o666  # less the umask, which the kernel takes off
_LINKS = 40  # that one path may lead over, as in the kernel


def write_text(
    path: object,
    text: str,
    error: type[DPContingencyError] = ReleaseError,
    mode: int | None = None,
) -> None:
    """Write a text file so that it appears whole or not at all; see `write_bytes`."""
    # A lone surrogate in a level's label is written as \uXXXX, which JSON reads back.
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"), error, mode)


def write_bytes(
    path: object,
    content: bytes,
    error: type[DPContingencyError] = ReleaseError,
    mode: int | None = None,
) -> None:
    """Write a file so that it appears whole or not at all; a link stays one.

    Parameters
    ----------
    path : str or path
        Where to.
    content : bytes
        What.
    error : type, optional
        The error to raise.
    mode : int, optional
        The permissions. By default those of the file that is replaced, or for a new file what the
        umask leaves.

    Raises
    ------
    DPContingencyError
        Of that type: if the folder is not there or cannot be written to, the path is that of a
        device, a pipe or a folder, or leads over a link that another user put into a folder where
        everybody may.
    """
    target, handle, temporary, kept = _begun(path, error, mode)
    try:
        with os.fdopen(handle, "wb") as stream:
            if kept is not None:
                os.fchmod(handle, kept)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except OSError as failure:
        temporary.unlink(missing_ok=True)
        raise _unwritable(path, failure, error) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_writable(path: object, error: type[DPContingencyError] = ReleaseError) -> None:
    """Refuse what `write_bytes` would refuse, by beginning to write; nothing stays."""
    _, handle, temporary, _ = _begun(path, error, OWNER_ONLY)
    os.close(handle)
    temporary.unlink()


def _begun(
    path: object, error: type[DPContingencyError], mode: int | None
) -> tuple[Path, int, Path, int | None]:
    """Where a path leads, an open file beside it by descriptor and name, and permissions to keep.

    These are of the file that is there, where no others are asked for.
    """
    given = path_of(path, error)
    try:
        target = _followed(given, error)
        if given.is_symlink() and not target.parent.is_dir():
            raise error(
                f"Cannot write {path}: it is a link into {target.parent}, and there is no such "
                "folder. Make it, or choose another name."
            )
        # Of the name itself, which may be too long for its folder where a temporary one is not.
        old = _mode_of(target)
        if old is not None and not stat.S_ISREG(old):
            raise error(f"Cannot write {path}: it is no plain file. Choose another name.")
        temporary = target.parent / f"{_BEGUN}{secrets.token_hex(8)}"
        handle = os.open(
            temporary,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0),
            (OWNER_ONLY if old else _EVERYBODY) if mode is None else mode,
        )
    except OSError as failure:
        raise _unwritable(path, failure, error) from None
    kept = None if mode is not None or old is None else stat.S_IMODE(old) & 0o777
    return target, handle, temporary, kept


def _mode_of(target: Path) -> int | None:
    """The kind and permissions of what stands at a path, None where nothing does."""
    try:
        return os.lstat(target).st_mode
    except FileNotFoundError:
        return None


def _followed(given: Path, error: type[DPContingencyError]) -> Path:
    """Where a path leads over its links, none of them planted by another user.

    In a sticky folder that everybody may write to, such as /tmp, a link counts only if it is the
    folder's owner's or this user's own, as the kernel has it for files that it opens by name.
    """
    place, *rest = (Path.cwd() / given).parts
    reached, links = Path(place), 0
    while rest and links <= _LINKS:
        step = reached / rest.pop(0)
        if step.name == "..":
            reached = reached.parent
        elif not step.is_symlink():
            reached = step
        else:
            links += 1
            folder, owner = reached.stat(), step.lstat().st_uid
            open_to_all = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
            if open_to_all and owner not in (os.geteuid(), folder.st_uid):
                raise error(
                    f"Cannot write {given}: {step} is a link that another user put into a folder "
                    "where everybody may write. Choose another name."
                )
            place, *ahead = (reached / os.readlink(step)).parts
            reached, rest = Path(place), [*ahead, *rest]
    if links <= _LINKS:
        return reached
    raise error(
        f"Cannot write {given}: it is a link that leads back to itself. Choose another name."
    )


def _unwritable(
    path: object, failure: OSError, error: type[DPContingencyError]
) -> DPContingencyError:
    full = failure.errno in (errno.ENOSPC, errno.EDQUOT)
    mend = (
        "Make room there, or choose another place"
        if full
        else ("Choose a folder that exists and is writable")
    )
    return error(f"Cannot write {path}: {failure.strerror}. {mend}.")
