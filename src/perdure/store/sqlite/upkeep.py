"""Look after an SQLite file: its migrations, its settings, its health."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from perdure.errors import StoreError
from perdure.store.findings import Finding, fail, ok, skipped, warn
from perdure.store.migrate import Migration, missing, read_migrations
from perdure.store.read_only_query import QueryAnswer
from perdure.store.sqlite import read_only_query
from perdure.store.sqlite.backup import write_backup
from perdure.store.sqlite.connection import (
    OLDEST_SQLITE,
    SAFE_SQLITE,
    SqliteConnection,
    connect,
    has_wal_reset_bug,
    statement,
)
from perdure.store.sqlite.database import PACKAGE, READER_BUSY_MS, connect_writer, read_applied
from perdure.store.sqlite.writer import MAX_WAL_BYTES
from perdure.store.upkeep import Migrations

CHECK_UP_TO_BYTES = 1 << 30
"""Larger files are searched for damage only when asked: it reads every page."""

MAX_PROBLEMS = 5
"""How many damages are listed."""

NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs")
"""File systems on which several machines may write, and SQLite's shared memory does not work."""

T = TypeVar("T")


class SqliteUpkeep:
    """See `perdure.store.upkeep.Upkeep`.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self.shown = path
        self._path = path

    def migrations(self) -> Migrations:
        """Return which migrations the file has not seen; all if it is not there."""
        known = read_migrations(PACKAGE)
        # A file without a byte in it is what a first start leaves that is killed at once.
        if not _size(self._path):
            return Migrations(known, known)
        applied = self._read(lambda one: read_applied(one, where=self._path))
        return Migrations(known, missing(known, applied, where=self._path))

    def script(self) -> str:
        """Return all migrations as a script for `sqlite3 FILE`."""
        steps = [_step(migration) for migration in read_migrations(PACKAGE)]
        return "\n".join(["PRAGMA journal_mode = WAL;", *steps])

    def size_bytes(self) -> int:
        """Return the size of the file and its WAL."""
        return _size(self._path) + _size(f"{self._path}-wal")

    def backup(self, target: str) -> int:
        """Copy the file, with what is in its WAL, to a new one for its owner only."""
        return write_backup(self._path, target)

    def query(self, text: str, *, within_s: float, limit: int) -> QueryAnswer:
        """Run one statement of a person's own, read-only."""
        return read_only_query.query(self._path, text, within_s=within_s, limit=limit)

    def examine(self, *, is_thorough: bool) -> list[Finding]:
        """Look at the library, the file and what is in it."""
        return [
            look_at_version(sqlite3.sqlite_version_info),
            self._look_at_durability(),
            look_at_wal(_size(f"{self._path}-wal")),
            look_at_mode(self._path),
            look_at_file_system(file_system(os.path.realpath(self._path), _mounts())),
            self._look_for_damage(is_thorough=is_thorough),
        ]

    def _look_at_durability(self) -> Finding:
        """Open the file as a worker does, and see whether its commits last."""
        try:
            connection = connect_writer(self._path)
        except StoreError as error:
            return fail("durable commits", str(error), "workers cannot work on it like this")
        connection.close()
        return ok("durable commits", "journal_mode wal, synchronous full")

    def _look_for_damage(self, *, is_thorough: bool) -> Finding:
        check = "integrity"
        if self.size_bytes() > CHECK_UP_TO_BYTES and not is_thorough:
            return skipped(
                check,
                f"the file has more than {CHECK_UP_TO_BYTES >> 20} MiB",
                "run perdure doctor --deep; it reads the whole file",
            )
        pragma = "PRAGMA integrity_check(100)" if is_thorough else "PRAGMA quick_check(100)"
        try:
            problems = [str(row[0]) for row in self._read(lambda one: one.run_text(pragma))]
        except StoreError as error:
            problems = [str(error)]
        if problems == ["ok"]:
            return ok(check, "no damage")
        return fail(
            check,
            "; ".join(problems[:MAX_PROBLEMS]),
            "restore it from a backup (`sqlite3 FILE .recover` may save the rest)",
        )

    def _read(self, work: Callable[[SqliteConnection], T]) -> T:
        connection = connect(self._path, busy_ms=READER_BUSY_MS, read_only=True)
        try:
            return work(connection)
        finally:
            connection.close()


def _step(migration: Migration) -> str:
    """Return a migration and the row that records it, as one transaction."""
    record = statement("insert_migration")
    values = {
        "migration_no": str(migration.number),
        "name": _literal(migration.name),
        "checksum": _literal(migration.checksum),
        "now_ms": "CAST(unixepoch() AS INTEGER) * 1000",
    }
    for param, value in values.items():
        record = record.replace(f":{param}", value)
    return f"BEGIN IMMEDIATE;\n{migration.script}\n{record}COMMIT;\n"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


# ----------------------------------------------------------------- the checks


def look_at_version(version: tuple[int, ...]) -> Finding:
    shown = ".".join(map(str, version))
    newer = "use a Python that is linked to a newer SQLite, or PostgreSQL"
    if version < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        return fail("SQLite", f"{shown}, older than {oldest}", newer)
    if has_wal_reset_bug(version):
        safe = ".".join(map(str, SAFE_SQLITE))
        return warn(
            "SQLite",
            f"{shown} has the WAL-reset bug, mended in {safe}",
            "processes of perdure take turns and are safe from it; if anything else writes to the "
            f"file, {newer}",
        )
    return ok("SQLite", shown)


def look_at_wal(size: int) -> Finding:
    found = f"{size / (1 << 20):.1f} MiB"
    if size <= MAX_WAL_BYTES:
        return ok("WAL", found)
    advice = "some connection keeps an old state open for reading: find it (fuser FILE) and end it"
    return warn("WAL", found, advice)


def look_at_mode(path: str) -> Finding:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    found = f"{path}, mode {mode:04o}"
    if mode & 0o077:
        return warn("file", found, f"others can get at what is stored: chmod 600 {path}")
    return ok("file", found)


def look_at_file_system(kind: str) -> Finding:
    if kind in NETWORK:
        return warn(
            "file system",
            kind,
            "SQLite needs a local disk: over a network its locks and shared memory fail, and the "
            "file can be damaged; use PostgreSQL for several machines",
        )
    return ok("file system", kind or "unknown")


def _mounts() -> list[tuple[str, str]]:
    """Return where which kind of file system is mounted; nothing where the system does not tell."""
    table = Path("/proc/mounts")
    if not table.exists():
        return []
    lines = [line.split() for line in table.read_text(errors="replace").splitlines()]
    return [(line[1].replace("\\040", " "), line[2]) for line in lines if len(line) > 2]


def file_system(path: str, mounts: list[tuple[str, str]]) -> str:
    """Return the kind of the file system that holds a path: the longest mount point above it."""
    above = [
        (len(point), kind)
        for point, kind in mounts
        if path == point or path.startswith(point.rstrip("/") + "/")
    ]
    # Of two mounts at one point the later one is seen.
    return max(enumerate(above), key=lambda found: (found[1][0], found[0]))[1][1] if above else ""
