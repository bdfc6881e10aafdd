"""One connection to SQLite, through the standard library's `sqlite3`.

Every statement comes from a file and is run by its name. An error of the driver leaves this module
as one of ours: what may work later is `StoreUnavailableError`, what a value caused is `RowError`,
what says that the file is broken is `StoreCorruptError`.

There is no second driver, on purpose: two copies of SQLite in one process do not see each other's
locks and destroy the file (decision 27).

Rows travel in bulk. The driver gives up the interpreter lock at every step of a statement, and
while another thread computes, getting it back takes up to 5 ms; a thousand rows through
`executemany` then took 1.5 to 4 seconds. So a statement takes all its rows as one JSON text (and
their bodies as one blob) and returns at most a few rows: 10 to 18 microseconds a row under the
same load, 4 against 3 without it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from time import monotonic
from typing import Any, NoReturn, TypeAlias

from perdure.errors import (
    RowError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from perdure.model.tables import Parameters
from perdure.store.sql.connection import Asked, Value
from perdure.store.sql.statement_files import PARTS, text_of
from perdure.store.sqlite.memory import uri_of

OLDEST_SQLITE = (3, 38, 0)
"""STRICT tables, RETURNING and the -> operators are all there from here on."""
SAFE_SQLITE = (3, 51, 3)
"""From here on several that write at once cannot run into the WAL-reset bug."""
_MENDED_TOO = ((3, 44, 6), (3, 50, 7))
"""Older lines of SQLite in which the bug was mended as well, from these on."""

COMMANDS = {
    # Taken at once: a read that turns into a write can fail.
    "begin": "BEGIN IMMEDIATE",
    "begin_read": "BEGIN",
    "commit": "COMMIT",
    "rollback": "ROLLBACK",
    **PARTS,
}
"""What is run by name as statements are, and has no file of its own."""

STEPS_PER_LOOK = 1_000_000
"""Steps of a statement between two looks at a deadline, some 10 ms: looking needs the interpreter
lock, which can take 5 ms."""

Authorizer: TypeAlias = Callable[[int, str | None, str | None, str | None, str | None], int]
"""Hears what a statement would do, when it is prepared: a code, two names, the database, the
trigger. Returns SQLite's 0 for yes and 1 for no."""

_BUSY, _LOCKED, _NOMEM, _READONLY, _IOERR = 5, 6, 7, 8, 10
_CORRUPT, _FULL, _CANTOPEN, _PROTOCOL, _NOTADB = 11, 13, 14, 15, 26
_TOOBIG, _CONSTRAINT, _MISMATCH, _RANGE = 18, 19, 20, 25

_LATER = {
    _BUSY: "is locked by another program; end the program or transaction that keeps it locked",
    _LOCKED: "is locked by another connection; end the transaction that keeps it locked",
    _NOMEM: "could not be used because memory ran out",
    _READONLY: "is read-only; make the file and its directory writable for this user",
    _IOERR: "could not be read or written (disk I/O error); check the disk and its mount",
    _FULL: "could not grow because the disk is full; free some space and it goes on by itself",
    _CANTOPEN: "cannot be opened; check that the directory exists and this user may write there",
    _PROTOCOL: "is locked by another program (lock protocol); try again",
}
_LOCKS = {_BUSY, _LOCKED, _PROTOCOL}
_BROKEN = {
    _CORRUPT: "is damaged; restore it from a backup (`sqlite3 FILE .recover` may save the rest)",
    _NOTADB: "is not an SQLite database; give another path",
}
_BAD_VALUES = {_TOOBIG, _CONSTRAINT, _MISMATCH, _RANGE}


class FileLockedError(StoreUnavailableError):
    """Another connection writes. Nothing is wrong with our connection."""


@cache
def statement(name: str) -> str:
    """Return the text of a statement or command."""
    return COMMANDS.get(name) or text_of("perdure.store.sqlite", name)


def split_script(script: str) -> Iterable[str]:
    """Split a script of several statements into single ones."""
    lines: list[str] = []
    for line in script.splitlines(keepends=True):
        lines.append(line)
        text = "".join(lines)
        if sqlite3.complete_statement(text):
            yield text
            lines = []
    rest = "".join(lines)
    assert not any(
        line.strip() and not line.lstrip().startswith("--") for line in rest.splitlines()
    ), "a script ends with an unfinished statement"


def has_wal_reset_bug(version: tuple[int, ...]) -> bool:
    """Return whether connections that write at the same time can damage a file."""
    is_mended = any(version[:2] == since[:2] and version >= since for since in _MENDED_TOO)
    return version < SAFE_SQLITE and not is_mended


def connect(
    path: str,
    *,
    busy_ms: int,
    read_only: bool = False,
    factory: Callable[..., sqlite3.Connection] = sqlite3.Connection,
) -> SqliteConnection:
    """Open a connection.

    Args:
        path: The file, or what `memory` calls one that is none.
        busy_ms: How long a statement waits for the lock of another program.
        read_only: Whether it cannot write.
        factory: A subclass of the driver's own class, to be used instead of that.
    """
    uri = uri_of(path)
    try:
        bare = sqlite3.connect(  # type: ignore[call-overload]  # what makes a class is one
            uri or path,
            uri=uri is not None,
            timeout=busy_ms / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=factory,
        )
    except sqlite3.Error as error:
        raise_ours(path, error)
    connection = SqliteConnection(bare, path)
    if read_only:
        connection.run("set_query_only")
    return connection


class SqliteConnection:
    """A connection to SQLite. See `perdure.store.sql.connection.Connection`.

    Args:
        bare: The driver's own.
        path: The file, for messages.
    """

    locks = False
    waits = True
    loaded_at_ms: int | None = None

    def __init__(self, bare: sqlite3.Connection, path: str) -> None:
        self.bare = bare
        self.statements = 0
        self._path = path

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        try:
            return self.bare.total_changes < 0
        except sqlite3.ProgrammingError:
            return True

    def be_ours(self) -> None:
        """Undo what others may have set on the driver's own connection for their own rows."""
        self.bare.row_factory = None
        self.bare.text_factory = str

    def run(self, name: str, /, **params: Value) -> list[tuple[Any, ...]]:
        """See `Connection`."""
        self.statements += 1
        try:
            return self.bare.execute(statement(name), params).fetchall()
        except sqlite3.Error as error:
            raise_ours(self._path, error)
        except (OverflowError, TypeError, ValueError) as error:
            raise RowError(f"a value cannot be stored: {error}") from error

    def run_each(self, asked: Sequence[Asked]) -> list[Any]:
        """See `Connection`."""
        return [self.run(name, **params)[0][0] for name, params in asked]

    def load(self, asked: Sequence[tuple[str, str]]) -> list[str]:
        """See `Connection`."""
        return [text for name, keys in asked for (text,) in self.run(name, keys=keys)]

    def write(self, name: str, /, **params: Value) -> None:
        """See `Connection`."""
        self.run(name, **params)

    def forget_writes(self) -> None:
        """See `Connection`. Nothing waits to be run."""

    def change(self, name: str, /, **params: Value) -> int:
        """See `Connection`."""
        before = self.total_changes()
        self.run(name, **params)
        return self.total_changes() - before

    def run_text(self, text: str) -> list[tuple[Any, ...]]:
        """Run one statement that is not in a file: a step of a migration, a pragma."""
        try:
            return self.bare.execute(text).fetchall()
        except sqlite3.Error as error:
            raise_ours(self._path, error)

    def change_by(self, text: str, values: Sequence[Value]) -> int:
        """Run one statement that is not in a file, and return how many rows it changed."""
        self.statements += 1
        before = self.total_changes()
        self.run_own(text, values)
        return self.total_changes() - before

    def run_own(self, text: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        """See `Connection`."""
        try:
            return self.bare.execute(text, parameters).fetchall()
        except sqlite3.Error as error:
            raise_ours(self._path, error)
        except (OverflowError, TypeError, ValueError) as error:
            raise RowError(f"a value cannot be stored: {error}") from error

    def run_own_many(self, text: str, rows: Iterable[Parameters]) -> None:
        """See `Connection`."""
        try:
            self.bare.executemany(text, rows)
        except sqlite3.Error as error:
            raise_ours(self._path, error)
        except (OverflowError, TypeError, ValueError) as error:
            raise RowError(f"a value cannot be stored: {error}") from error

    def authorize_by(self, authorizer: Authorizer | None) -> None:
        """Have a function asked about every statement that is prepared from now on."""
        self.bare.set_authorizer(authorizer)

    def copy_into(self, path: str) -> None:
        """Write all of the database, as it is at one moment, to a file that is empty."""
        other = sqlite3.connect(path)
        try:
            self.bare.backup(other)
        except sqlite3.Error as error:
            raise_ours(f"{self._path} or its copy {path}", error)
        finally:
            other.close()

    def set_deadline(self, until_s: float | None) -> None:
        """See `Connection`."""
        self.bare.set_progress_handler(_looks_at(until_s), STEPS_PER_LOOK)

    def in_transaction(self) -> bool:
        """See `Connection`."""
        return self.bare.in_transaction

    def total_changes(self) -> int:
        """Return how many rows it has changed since it was opened."""
        return self.bare.total_changes

    def close(self) -> None:
        """Let go of the file. Harmless the second time."""
        self.bare.close()


def _looks_at(until_s: float | None) -> Callable[[], bool] | None:
    return None if until_s is None else lambda: monotonic() >= until_s


def trouble_of(path: str, error: BaseException | None) -> StoreUnavailableError | None:
    """Return what keeps all others from writing, if an error that user code got says so."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return _later(path, primary, error) if primary in (_FULL, _IOERR) else None


def _later(path: str, primary: int, error: BaseException | None) -> StoreUnavailableError:
    kind: type[StoreUnavailableError] = StoreUnavailableError
    if primary in _LOCKS:
        kind = FileLockedError
    elif primary == _FULL:
        kind = StoreFullError
    return kind(f"{path} {_LATER[primary]} ({error})")


def raise_ours(path: str, error: sqlite3.Error) -> NoReturn:
    """Raise the error of ours that one of SQLite stands for."""
    # What has no code is of the driver itself, about a value that it cannot bind.
    primary = getattr(error, "sqlite_errorcode", _RANGE) & 0xFF  # The rest is the extended code.
    if primary in _LATER:
        raise _later(path, primary, error) from error
    if primary in _BROKEN:
        raise StoreCorruptError(f"{path} {_BROKEN[primary]} ({error})") from error
    if primary in _BAD_VALUES:
        raise RowError(f"the database refused a value: {error}") from error
    raise StoreError(f"{path}: {error}") from error
