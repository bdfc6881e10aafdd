"""Make sure that a database file is where nobody else can tamper with it (SEC-29)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from perdure.errors import StoreUnavailableError


def prepare_file(path: Path) -> None:
    """Create the file, readable only for its owner, if it is missing; refuse unsafe places.

    An existing file is never opened here: closing a second descriptor of a database would drop the
    locks that SQLite holds on it in this process.

    Raises:
        StoreUnavailableError: It is a symbolic link, its directory is missing or writable for
            everybody, or it cannot be created.
    """
    _check_directory(path.parent)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        _create(path)
        return
    except OSError as error:
        raise _unusable(path, error) from error
    if stat.S_ISLNK(mode):
        raise StoreUnavailableError(
            f"{path} is a symbolic link, which could be pointed elsewhere; give the real path"
        )
    if not stat.S_ISREG(mode):
        raise StoreUnavailableError(f"{path} is not a file; give the path of a database file")


def _check_directory(directory: Path) -> None:
    try:
        mode = directory.stat().st_mode
    except FileNotFoundError:
        raise StoreUnavailableError(
            f"the directory {directory} does not exist; create it"
        ) from None
    except OSError as error:
        raise _unusable(directory, error) from error
    if not stat.S_ISDIR(mode):
        raise StoreUnavailableError(f"{directory} is not a directory")
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise StoreUnavailableError(
            f"everybody may write to the directory {directory} and swap the database there; "
            f"run `chmod o-w {directory}` or give another path"
        )


def _create(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return  # Another process was faster.
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{path} cannot be used ({error.strerror}); make its directory writable for this user"
    )
