"""A copy of an SQLite file as it is at one moment, while others work on it."""

from __future__ import annotations

import os
from pathlib import Path

from perdure.errors import StoreUnavailableError, UsageError
from perdure.store.sqlite.connection import connect
from perdure.store.sqlite.database import READER_BUSY_MS


def write_backup(path: str, target: str) -> int:
    """Write a copy of a file to a new one, which has no WAL; return its size in bytes.

    One read transaction sees one moment, and in WAL mode it keeps no writer waiting. The copy is
    written beside its name and gets that when it is whole and on the disk: what has the name is a
    backup.

    Raises:
        UsageError: There is such a file already.
        StoreError: The file cannot be read, or the copy not be written.
    """
    if os.path.lexists(target):
        raise UsageError(f"{target} is there already; name a file that is not")
    part = f"{target}.part"
    try:
        # Made here, so that only its owner can read it at any time. SQLite takes it as empty.
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise UsageError(f"{part} is there already, of a backup that was broken off") from None
    except OSError as error:
        raise StoreUnavailableError(f"cannot write {part}: {error.strerror}") from error
    try:
        connection = connect(path, busy_ms=READER_BUSY_MS, read_only=True)
        try:
            connection.copy_into(part)
        finally:
            connection.close()
        _sync(part)
        os.link(part, target)  # refuses a name that was taken meanwhile, which a rename would not
        _sync(str(Path(target).resolve().parent))
        return os.stat(target).st_size
    except FileExistsError:
        raise UsageError(f"{target} is there already; name a file that is not") from None
    finally:
        os.unlink(part)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
