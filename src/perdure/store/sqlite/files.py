"""Make sure that a database file is where no other user can tamper with it (SEC-29), and stays."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from perdure.errors import StoreCorruptError, StoreUnavailableError
from perdure.store.sqlite.short_calls import identity_of

_ENDS = ("", "-journal", "-wal", "-shm", "-lock")
"""What the names of the files of a database end with; the last one is ours."""


class OpenedFile:
    """The file behind a path, as it was when the store was opened.

    What is written to a file that was renamed or removed meanwhile is gone with it, and SQLite does
    not notice. Going on with the one that has taken its place would be worse: the WAL beside it may
    be that of the old one.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._encoded = os.fsencode(path)
        self._identity = identity_of(self._encoded)

    @property
    def is_there(self) -> bool:
        """Whether the path still leads to it."""
        try:
            return identity_of(self._encoded) == self._identity
        except FileNotFoundError:
            return False
        except OSError:
            return True  # Out of reach for a moment; readers and writers are told.

    def check(self) -> None:
        """Refuse to read or write what is no longer there.

        Raises:
            StoreCorruptError: Something else is behind the path now, or nothing.
        """
        if not self.is_there:
            raise StoreCorruptError(
                f"{self._path} was replaced or removed while it was open; what is written now is "
                "lost. Stop all processes that use it, put the backup in its place without the "
                f"old {self._path}-wal and {self._path}-shm, and start them again"
            )


def has_content(path: Path) -> bool:
    """Return whether there is a file that is not empty, or one that cannot be looked at."""
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True  # Opening it says what is wrong.


def prepare_file(path: Path) -> None:
    """Create the file, readable only for its owner, if it is missing; refuse unsafe places.

    SQLite and we put other files beside it, whose names every user can guess. What is in
    the WAL counts as the database, so these have to be ours too.

    An existing file is never opened here: closing a second descriptor of a database would drop the
    locks that SQLite holds on it in this process.

    Raises:
        StoreUnavailableError: It is a symbolic link, its directory is missing or writable for
            everybody, a file there was made by a stranger, or it cannot be created.
    """
    is_open_to_all = _check_directory(path.parent)
    is_there = [_check_file(Path(f"{path}{end}"), is_open_to_all) for end in _ENDS]
    if not is_there[0]:
        _create(path)


def _check_file(path: Path, is_open_to_all: bool) -> bool:
    """Return whether a file is there, and refuse one that may be of another user."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unusable(path, error) from error
    if stat.S_ISLNK(found.st_mode):
        raise StoreUnavailableError(
            f"{path} is a symbolic link, which could be pointed elsewhere; give the real path"
        )
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnavailableError(f"{path} is not a file; give the path of a database file")
    if is_open_to_all and found.st_uid != os.geteuid():
        raise StoreUnavailableError(
            f"{path} belongs to another user (uid {found.st_uid}), and everybody may make files in "
            f"{path.parent}: it may be a trap; remove it, or give a path in a directory of your own"
        )
    return True


def _check_directory(directory: Path) -> bool:
    """Return whether everybody may make files there; refuse it if they may also replace ours."""
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
    return bool(mode & stat.S_IWOTH)


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
