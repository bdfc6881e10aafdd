"""What the parts of a store ask of it. It alone knows how the database is reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from perdure.clock import Clock
from perdure.store.observer import Observer
from perdure.store.sql.commits.batch import Transaction
from perdure.store.sql.connection import Connection

T = TypeVar("T")


class StoreAccess(Protocol):
    """The ways to the database, for the parts of a store."""

    clock: Clock
    observer: Observer | None

    async def work(
        self,
        run: Callable[[Transaction], T],
        *,
        patience_s: float | None = None,
        is_quiet: bool = False,
        if_twice: Callable[[T, T], T] | None = None,
    ) -> T:
        """Run a function in the next transaction that writes. What can be said of it is told in
        `Operation`."""
        ...

    async def add(self, run: Callable[[Transaction], T], *, patience_s: float | None = None) -> T:
        """Run a function that only adds to the store: also inside a transaction of the user's."""
        ...

    async def tell(self, run: Callable[[Transaction], T], *, patience_s: float | None = None) -> T:
        """Run a function in the next transaction that writes, and have those who wait for news
        read."""
        ...

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a function with a connection that reads one state of the database."""
        ...

    async def read_once(self, work: Callable[[Connection], T]) -> T:
        """Run a function that reads with one statement, which needs no transaction around it."""
        ...
