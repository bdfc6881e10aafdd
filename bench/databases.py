"""A new database for every run, of the kind that its case asks for.

SQLite's is a file. PostgreSQL's is one of a server of our own, which is started when it is first
needed and commits durably, with the settings that it brings along.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.harness import StoreKind
from bench.machine import NOT_A_DISK, file_system_of
from tests.postgres import Server

SETTINGS = {"shared_buffers": "128MB", "max_connections": "500"}
"""As they come, but for the connections that a fleet of fifty workers needs."""


class Databases:
    """Makes databases, and removes them.

    Args:
        beside: Where folders may be made; for PostgreSQL only if its user can reach it.
        quick: Nobody will look at the numbers: what is not asked for the disk is not waited for.
    """

    def __init__(self, beside: Path, *, quick: bool) -> None:
        self._beside = beside
        self._is_quick = quick
        self._server: Server | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()

    @contextmanager
    def new(self, store: StoreKind, folder: Path) -> Iterator[str]:
        """Give the URL of an empty database.

        Raises:
            LookupError: There is no PostgreSQL on this machine.
        """
        if store == "sqlite":
            yield f"sqlite:///{folder / 'bench.db'}"
            return
        if self._server is None:
            self._server = Server(
                durable=not self._is_quick, settings=SETTINGS, beside=self._beside
            )
        url = self._server.create_database()
        try:
            yield url
        finally:
            self._server.drop_database(url)

    def has_disk(self, store: StoreKind) -> bool:
        """Return whether a flush of such a database can mean anything."""
        folder = self._server.folder if store == "postgresql" and self._server else self._beside
        return file_system_of(folder) not in NOT_A_DISK
