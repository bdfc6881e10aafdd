"""Processes that die in the midst of a transaction: at a chosen statement of the connection that
writes. What was not committed is gone, as SQLite would find after a power cut; what was is there,
and nobody heard of it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from perdure.errors import StoreCorruptError
from perdure.store.sqlite.store import SqliteStore
from tests.chaos.crashing import FaultyStore, World
from tests.sizes import IS_FULL

READS_ONLY = ("begin", "rollback", "load_", "read_", "list_", "next_wake", "find_", "feed_end")
"""How statements begin that ask. To die before one is to die before the next that writes, or after
the last commit; and how many there are depends on who asks when."""


class DiedError(StoreCorruptError):
    """The process is no more. As the one kind of error after which a batch is not tried again, it
    stands for what nobody lives to handle."""


class StatementFault(NamedTuple):
    """At which statement a process dies."""

    name: str
    occurrence: int
    """Counted from 1 among the statements of that name."""
    is_after: bool = False
    """Whether the statement still takes effect: only of a commit does that make a difference."""


class StatementStore(FaultyStore):
    """Stands before a store, counts the statements of its connection, and brings death."""

    def __init__(self, store: SqliteStore, fault: StatementFault | None) -> None:
        super().__init__(store, None)
        self.statements: Counter[str] = Counter()
        """How often each was run, but for questions; a commit counts if something was written."""
        self._has_written = False
        self._is_cut_off = False
        self._dies_at = fault
        assert store._writer is not None
        connection = store._writer._connection
        assert connection is not None
        self._run = type(connection).run.__get__(connection)
        # On the object, not the class: every process counts for itself.
        connection.run = self._counted  # type: ignore[method-assign]  # a spy

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        return self._mortal(value) if asyncio.iscoroutinefunction(value) else value

    def _counted(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run a statement. On the thread that writes."""
        if self._is_cut_off and name != "rollback":
            raise DiedError("the process is dead")
        if self._counts(name):
            self.statements[name] += 1
            fault = self._dies_at
            if fault is not None and fault[:2] == (name, self.statements[name]):
                if fault.is_after:
                    self._run(name, **params)
                self.is_dead = self._is_cut_off = True
                raise DiedError("the process dies")
        rows: list[tuple[Any, ...]] = self._run(name, **params)
        return rows

    def _counts(self, name: str) -> bool:
        if name == "begin":
            self._has_written = False
        if name == "commit":
            return self._has_written
        is_write = not name.startswith(READS_ONLY)
        self._has_written = self._has_written or is_write
        return is_write

    async def forget(self) -> None:
        """Wait until what the process had handed in is gone, then let others use the database."""
        if self._is_cut_off:
            with suppress(DiedError):
                await self._store.read_live("nobody")
        self._is_cut_off = False
        self._dies_at = None

    def _mortal(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def called(*args: Any, **kwargs: Any) -> Any:
            self._live_or_die()
            try:
                return await call(*args, **kwargs)
            except (DiedError, asyncio.CancelledError):
                if self.is_dead:
                    # A turn that nobody lives to hear of is told of in its receipt, not raised.
                    self.struck.set()
                raise asyncio.CancelledError from None

        return called


def points_of(statements: Counter[str]) -> list[StatementFault]:
    """Return before which statements a process can die, and after which commits: after any other
    statement is before the next."""
    found = [
        StatementFault(name, occurrence)
        for name, count in statements.items()
        for occurrence in range(1, count + 1)
    ]
    commits = range(1, statements["commit"] + 1)
    return [*found, *(StatementFault("commit", number, is_after=True) for number in commits)]


PLACES: dict[str, Callable[[StatementFault], bool]] = {
    "before a commit": lambda point: point.name == "commit" and not point.is_after,
    "after a commit": lambda point: point.is_after,
    "elsewhere": lambda point: point.name != "commit",
}
"""Parts of a sweep, each for a test of its own."""


def chosen_of(
    points: Sequence[StatementFault], place: str, chance: random.Random
) -> list[StatementFault]:
    """Return the points of one part of a sweep that are tried.

    Those are all commits, and of every other statement one occurrence, which is drawn: what is not
    committed is gone, whichever statement was the last. With PERDURE_CHAOS_FULL=1 all of them.
    """
    found = [point for point in points if PLACES[place](point)]
    if IS_FULL or place != "elsewhere":
        return found
    by_name: dict[str, list[StatementFault]] = {}
    for point in found:
        by_name.setdefault(point.name, []).append(point)
    return [chance.choice(same) for same in by_name.values()]


def sqlite_of(world: World) -> SqliteStore:
    """Return a world's database as what it is."""
    assert isinstance(world.store, SqliteStore)
    return world.store
