"""Processes that die in the midst of a transaction, at a chosen statement of a connection that
writes. What was not committed is gone, as a database finds it after a power cut or when the line to
a client is gone; what was is there, and nobody heard of it.

On PostgreSQL a line may also be cut while its process lives on: the server undoes what was not
committed, and the process has to find out what was.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from perdure.errors import StoreCorruptError, StoreUnavailableError
from perdure.store.postgres.connection import PostgresConnection
from perdure.store.postgres.lane import Lane
from perdure.store.postgres.statements import JOINT
from perdure.store.postgres.store import MAIN, PostgresStore
from perdure.store.sql.commits.batch import Operation
from perdure.store.sql.commits.writes import Writes
from perdure.store.sqlite.store import SqliteStore
from tests.chaos.crashing import FaultyStore, Life, World
from tests.sizes import IS_FULL

READS_ONLY = (
    *("begin", "rollback", "load", "read_", "list_", "slice_", "count_running"),
    *("next_wake", "find_", "feed_end", "lock_", "try_"),
)
"""How statements begin that ask. To die before one is to die before the next that writes, or after
the last commit; and how many there are depends on who asks when."""

T = TypeVar("T")


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
    cuts: bool = False
    """Whether the line is cut there, and the process lives on."""


class StatementStore(FaultyStore):
    """Stands before a store, counts the statements of its connections, and brings death."""

    def __init__(self, store: SqliteStore | PostgresStore, fault: StatementFault | None) -> None:
        super().__init__(store, None)
        self.statements: Counter[str] = Counter()
        """How often each was run, but for questions; a commit counts if something was written."""
        self.has_come = False
        """Whether the fault has come."""
        self._is_cut_off = False
        self._dies_at = fault
        self._counting = threading.Lock()
        self.transaction = Transaction()
        """The one that is open on SQLite's connection."""
        if isinstance(store, SqliteStore):
            _watch_sqlite(store, self)
        else:
            _watch_postgres(store, self)

    def faulty(self, name: str, value: Any) -> Any:
        """Return what the store, or a part of it, has under a name, for a process that may die."""
        value = super().faulty(name, value)
        return self._mortal(value) if asyncio.iscoroutinefunction(value) else value

    def pass_on(self, names: Iterable[str], run: Callable[[], T], cut: Callable[[], None]) -> T:
        """Have the database run statements in one call, unless the fault comes. On a thread that
        writes.

        Args:
            names: Of the statements.
            run: Has them run.
            cut: Hangs up.
        """
        if self._is_cut_off:
            raise DiedError("the process is dead")
        fault = self._count(names)
        if fault is None:
            return run()
        if fault.is_after:
            run()
        self.has_come = True
        if fault.cuts:
            cut()
            raise StoreUnavailableError("the line was cut")
        self.is_dead = self._is_cut_off = True
        raise DiedError("the process dies")

    def _count(self, names: Iterable[str]) -> StatementFault | None:
        """Count statements; return the fault if it comes at one of them."""
        found = None
        with self._counting:
            for name in names:
                self.statements[name] += 1
                fault = self._dies_at
                if fault is not None and fault[:2] == (name, self.statements[name]):
                    found = fault
        return found

    async def forget(self) -> None:
        """Wait until what the process had handed in is gone, then let others use the database."""
        if self._is_cut_off:
            await _wait_for_writers(self._store)
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


async def _wait_for_writers(store: Any) -> None:
    if isinstance(store, SqliteStore):
        with suppress(DiedError):
            await store.read_live("nobody")
        return
    assert isinstance(store, PostgresStore)
    nothing = Operation(lambda _: None, is_quiet=True)
    for number, (lane, batcher) in enumerate(zip(store._lanes, store._batchers, strict=True)):
        if lane.connection is not None or number == MAIN:
            with suppress(DiedError):
                await batcher.submit([nothing], None)


# --------------------------------------------------------------------- what is watched
# Always the object, not the class: every process counts for itself.


class Transaction:
    """Whether the transaction of a connection has written something."""

    def __init__(self) -> None:
        self.has_written = False

    def writes_of(self, names: Iterable[str]) -> list[str]:
        """Return those that count."""
        found = [name for name in names if not name.startswith(READS_ONLY)]
        self.has_written = self.has_written or bool(found)
        return found

    def ends(self) -> list[str]:
        """Return what its commit counts as."""
        return ["commit"] if self.has_written else []


def _watch_sqlite(store: SqliteStore, by: StatementStore) -> None:
    assert store._writer is not None
    connection: Any = store._writer._connection
    assert connection is not None
    run = type(connection).run.__get__(connection)
    transaction = by.transaction

    def counted(name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]]
        if name == "rollback":
            rows = run(name, **params)
            return rows
        if name == "begin":
            transaction.has_written = False
        names = transaction.ends() if name == "commit" else transaction.writes_of([name])
        rows = by.pass_on(names, lambda: run(name, **params), lambda: None)
        return rows

    connection.run = counted


def _watch_postgres(store: PostgresStore, by: StatementStore) -> None:
    for lane in store._lanes:
        _watch_lane(lane, by)


def _watch_lane(lane: Lane, by: StatementStore) -> None:
    use = type(lane).use.__get__(lane)

    def used(connection: PostgresConnection) -> None:
        use(connection)
        _ConnectionWatch(connection, by)

    lane.use = used  # type: ignore[method-assign]  # a spy
    if lane.connection is not None:
        _ConnectionWatch(lane.connection, by)


class _ConnectionWatch:
    """Stands in for what runs statements on a connection to PostgreSQL.

    One function on the server runs the statements of a commit: before each of them is before the
    call, and who dies after it dies before the next, or before the commit.
    """

    WATCHED = ("run", "change", "send_writes", "write_known", "run_script", "commit")

    def __init__(self, connection: Any, by: StatementStore) -> None:
        self._connection = connection
        self._by = by
        self._transaction = Transaction()
        self._ours = {
            name: getattr(type(connection), name).__get__(connection) for name in self.WATCHED
        }
        for name in self.WATCHED:
            setattr(connection, name, getattr(self, name))

    def run(self, name: str, /, **params: Any) -> Any:
        return self._run_by_name("run", name, params)

    def change(self, name: str, /, **params: Any) -> Any:
        return self._run_by_name("change", name, params)

    def send_writes(self) -> None:
        if self._connection._writes:
            names = [name for name, *_ in self._connection._writes]
            self._pass_on(self._transaction.writes_of(names), self._ours["send_writes"])

    def write_known(self, writes: Writes, *rows: Any) -> Any:
        """Count a transaction of its own, in one call."""
        names = [name for name, _ in writes.kept]
        return self._pass_on([*names, "commit"], lambda: self._ours["write_known"](writes, *rows))

    def run_script(self, text: str) -> None:
        if "ROLLBACK" in text:
            self._ours["run_script"](text)
            return
        if text.lstrip().startswith("BEGIN"):
            self._transaction.has_written = False
        self._pass_on((), lambda: self._ours["run_script"](text))

    def commit(self) -> None:
        self._pass_on(self._transaction.ends(), self._ours["commit"])

    def _run_by_name(self, how: str, name: str, params: dict[str, Any]) -> Any:
        self.send_writes()
        names = self._transaction.writes_of(one for one in name.split(JOINT) if one)
        return self._pass_on(names, lambda: self._ours[how](name, **params))

    def _pass_on(self, names: Iterable[str], call: Callable[[], Any]) -> Any:
        return self._by.pass_on(names, call, self._connection._connection.terminate)


# --------------------------------------------------------------------------- the points


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


def few_of(
    points: Sequence[StatementFault], names: Iterable[str], chance: random.Random
) -> list[StatementFault]:
    """Return one point of each of some statements, and one before and after a commit: what there is
    time for where a run is dear."""
    found = [[point for point in points if point.name == name] for name in sorted(names)]
    for place in ("before a commit", "after a commit"):
        found.append([point for point in points if PLACES[place](point)])
    return [chance.choice(same) for same in found]


def sqlite_of(world: World) -> SqliteStore:
    """Return a world's database as what it is."""
    assert isinstance(world.store, SqliteStore)
    return world.store


def life_on_statements(world: World, fault: StatementFault | None = None) -> Life:
    """Return a process that dies at a statement."""
    assert isinstance(world.store, SqliteStore | PostgresStore)
    return world.new_life().on(StatementStore(world.store, fault))
