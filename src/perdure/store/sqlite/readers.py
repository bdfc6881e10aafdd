"""Connections that only read, beside the one that writes: of a few threads, and of the event loop.

A row that is read by its key is read on the loop that asks for it. To hand that to a thread and to
be called back costs the loop alone more than the read, and the machine several times as much: two
threads are woken, on other cores as a rule, and take the interpreter lock from each other. It waits
for nothing but the disk, and for that as briefly as one row takes; where SQLite would have it wait
for a lock, or another loop is reading, a thread does it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from perdure.errors import RowError, StoreUnavailableError
from perdure.store.reading_threads import ReadingThreads
from perdure.store.sqlite.connection import SqliteConnection, connect
from perdure.store.sqlite.database import READER_BUSY_MS
from perdure.store.sqlite.files import OpenedFile

READERS = 2
"""Threads that read. More would only wait for the interpreter."""
_TRIES = 3

T = TypeVar("T")


class SqliteReaders:
    """Reading connections to a file, and the threads that use them."""

    def __init__(self, path: str) -> None:
        self._file = OpenedFile(path)
        self._threads = ReadingThreads(READERS)
        self._idle: SimpleQueue[SqliteConnection] = SimpleQueue()
        for _ in range(READERS):
            self._idle.put(connect(path, busy_ms=READER_BUSY_MS, read_only=True))
        self._rows = connect(path, busy_ms=0, read_only=True)
        """Reads rows on event loops."""
        self._reading_rows = threading.Lock()
        self._is_closed = False

    async def read(self, work: Callable[[SqliteConnection], T], *, is_once: bool = False) -> T:
        """Run a function with a connection on one of the threads.

        Args:
            work: Reads.
            is_once: Whether it does so with one statement, which needs no transaction around it.
        """
        return await self._threads.run(self._run, work, is_once)

    async def read_row(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run a function that reads one row by its key, with one statement."""
        # Code that asks again and again must let other tasks run in between, as everywhere.
        await asyncio.sleep(0)
        if self._reading_rows.acquire(blocking=False):
            try:
                if not self._is_closed:
                    self._file.check()
                    return work(self._rows)
            except StoreUnavailableError:
                pass  # A thread can wait.
            except UnicodeError as error:
                raise _no_text(error) from error
            finally:
                self._reading_rows.release()
        return await self.read(work, is_once=True)

    def close(self) -> None:
        """Wait for what is being read, then let go of the file."""
        with self._reading_rows:
            self._is_closed = True
            self._rows.close()
        self._threads.close()
        while not self._idle.empty():
            self._idle.get().close()

    def _run(self, work: Callable[[SqliteConnection], T], is_once: bool) -> T:
        self._file.check()
        connection = self._idle.get()
        try:
            for tries_left in reversed(range(_TRIES)):
                try:
                    if not is_once:
                        connection.run("begin_read")
                    return work(connection)
                except StoreUnavailableError:
                    if tries_left == 0:
                        raise
                except UnicodeError as error:
                    raise _no_text(error) from error
                finally:
                    if connection.in_transaction():
                        connection.run("rollback")
            raise AssertionError("unreachable")
        finally:
            self._idle.put(connection)


def _no_text(error: UnicodeError) -> RowError:
    return RowError(f"a text cannot be stored: {error}")
