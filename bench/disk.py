"""What a store has written to the disk: bytes, and how often it waited for them (fsync).

SQLite. Bytes are counted by Linux: all that the thread that writes has handed to the file system,
pages of the WAL and their copies into the file. Fsyncs are derived, since nobody counts them: one
for every commit that has written (the WAL's index counts those), and three for every time that the
WAL begins anew (the WAL, the file, the WAL's new head). Of 1,664 that strace saw this found 1,662.

PostgreSQL. Bytes are the WAL that its server has written, fsyncs those that it has counted. A
connection tells its server of them when it closes. So the fsyncs of a whole life of the store are
counted, and those of a life in which nothing was done are taken off.
"""

from __future__ import annotations

import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.phases import thread_kind

FSYNCS_PER_RESTART = 3
ALONE_WITHIN_S = 10.0
LOOK_EVERY_S = 0.02

CHANGES_AT, SALT_AT = 8, 32
"""Where the index of an SQLite WAL counts commits, and what is one more after each new beginning:
see https://www.sqlite.org/walformat.html."""

IN_STAT_IO = 180_000
"""The version of PostgreSQL from which on `pg_stat_io` counts the fsyncs of the WAL."""


@dataclass(frozen=True, slots=True)
class DiskUse:
    """What was written."""

    size: float
    """In bytes."""
    fsyncs: float


class Disk(Protocol):
    """Looks at the disk in four moments of the life of a store."""

    def before_opening(self) -> None:
        """The store will be opened."""
        ...

    def begin(self) -> None:
        """What is measured begins."""
        ...

    def end(self) -> None:
        """It has ended."""
        ...

    def after_closing(self) -> DiskUse:
        """The store is closed: return what was used."""
        ...


def disk_of(url: str) -> Disk:
    """Return the disk under the store of a URL."""
    path = url.removeprefix("sqlite:///")
    return PostgresDisk(url) if path == url else SqliteDisk(path)


class SqliteDisk:
    """The disk under a file, as this process writes to it."""

    def __init__(self, path: str) -> None:
        self._index = Path(f"{path}-shm")
        self._began = self._ended = DiskUse(0, 0)

    def before_opening(self) -> None:
        """Nothing is to be seen from outside."""

    def begin(self) -> None:
        """See `Disk`."""
        self._began = self._ended = self._look()

    def end(self) -> None:
        """See `Disk`."""
        self._ended = self._look()

    def after_closing(self) -> DiskUse:
        """See `Disk`."""
        began, ended = self._began, self._ended
        return DiskUse(ended.size - began.size, ended.fsyncs - began.fsyncs)

    def _look(self) -> DiskUse:
        index = self._index.read_bytes()
        (commits,) = struct.unpack_from("=I", index, CHANGES_AT)
        (restarts,) = struct.unpack_from(">I", index, SALT_AT)
        return DiskUse(_written_by_writers(), commits + FSYNCS_PER_RESTART * restarts)


def _written_by_writers() -> int:
    """Return how many bytes the threads that write have handed to the file system."""
    total = 0
    for thread in threading.enumerate():
        if thread_kind(thread) == "writer":
            lines = Path(f"/proc/self/task/{thread.native_id}/io").read_text().splitlines()
            total += int(dict(line.split(": ") for line in lines)["wchar"])
    return total


class PostgresDisk:
    """The disk under a server that nobody else uses."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._began = self._ended = 0
        self._fsyncs_before = 0
        from bench import servers  # heavy

        self._ask = servers.ask

    def before_opening(self) -> None:
        """See `Disk`."""
        self._fsyncs_before = self._fsyncs()

    def begin(self) -> None:
        """See `Disk`."""
        self._began = self._ended = self._written()

    def end(self) -> None:
        """See `Disk`."""
        self._ended = self._written()

    def after_closing(self) -> DiskUse:
        """See `Disk`."""
        until_s = time.monotonic() + ALONE_WITHIN_S
        while not self._is_alone() and time.monotonic() < until_s:
            time.sleep(LOOK_EVERY_S)
        return DiskUse(self._ended - self._began, self._fsyncs() - self._fsyncs_before)

    def _written(self) -> int:
        [place] = self._ask(self._url, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return int(place)

    def _is_alone(self) -> bool:
        [connected] = self._ask(
            self._url,
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()",
        )
        return int(connected) == 1

    def _fsyncs(self) -> int:
        [version] = self._ask(self._url, "SELECT current_setting('server_version_num')::integer")
        if version < IN_STAT_IO:
            [fsyncs] = self._ask(self._url, "SELECT wal_sync FROM pg_stat_wal")
        else:
            [fsyncs] = self._ask(
                self._url, "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'"
            )
        return int(fsyncs)
