"""What every benchmark uses: a place to run in, a meter, and the value it hands back.

A benchmark is a set of cases. Each case runs in a process of its own on a database of its own,
after a warm-up that is not measured, and returns measurements. Nothing here picks the best run.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from bench.machine import busy_s, count_cores
from perdure import Engine, Orchestration, WorkerOptions
from perdure.authoring.registry import Defined
from perdure.store.base import Store
from perdure.store.counters import StoreCounters
from perdure.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from bench.servers import ServerProcess

UNLIMITED = 1_000_000

StoreKind: TypeAlias = Literal["sqlite", "postgresql"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one unit of work took, besides time."""

    per: str
    """The unit: orchestration, activity, signal."""
    cpu_us: float
    """Process time of all threads."""
    server_us: float | None = None
    """The same of the database's server, if there is one."""
    transactions: float
    """Committed by those who write."""
    statements: float
    """Of PostgreSQL: calls that wait for an answer, those of readers and notifications too."""
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One number of one run."""

    row: str
    value: float
    unit: str
    at_least: float | None = None
    """The budget, if more is better."""
    at_most: float | None = None
    """The budget, if less is better."""
    cost: Cost | None = None
    other: float | None = None
    """Which share of the machine other processes used meanwhile; 0 is a quiet machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """What the numbers depend on, read back from the connection that wrote."""

    store: str
    """Which one, which version, through which driver."""
    settings: tuple[str, ...]
    """`name=value`."""


@dataclass(slots=True, kw_only=True)
class Setup:
    """Where a case runs, and how much it is asked to do."""

    folder: Path
    url: str
    """The store of this case: a new database."""
    quick: bool = False
    facts: list[StoreFacts] = field(default_factory=list)

    def size(self, full: int, *, quick: int) -> int:
        """Return how many of something to do."""
        return quick if self.quick else full

    @asynccontextmanager
    async def engine(
        self, definitions: Iterable[Defined], options: WorkerOptions | None = None
    ) -> AsyncIterator[Engine]:
        """Run an engine on this case's store, and note how durable the store is."""
        async with Engine(self.url, definitions, options=options) as engine:
            self.facts.append(await read_facts(engine._core.store))
            yield engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing to run, alone in its process. It may give several numbers."""

    name: str
    """What the command line calls it: the file, or the file and a word."""
    run: Callable[[Setup], Coroutine[Any, Any, list[Measured]]]
    most_repeats: int = UNLIMITED
    """For a case that takes long and varies little."""
    store: StoreKind = "sqlite"


class Meter:
    """Measures what happens inside its block: `with Meter(store) as meter:`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._server = process_behind(store)
        self._before = self._after = StoreCounters()
        self._began_s = self._began_cpu_s = self._began_busy_s = self._began_server_s = 0.0
        self.took_s = 0.0
        self.cpu_s = 0.0
        self.server_s = 0.0
        self.other = 0.0

    def __enter__(self) -> Self:
        self._before = counts_of(self._store)
        self._began_server_s = self._server_s()
        self._began_busy_s = busy_s()
        self._began_cpu_s = time.process_time()
        self._began_s = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.took_s = time.perf_counter() - self._began_s
        self.cpu_s = time.process_time() - self._began_cpu_s
        busy = busy_s() - self._began_busy_s
        self.server_s = self._server_s() - self._began_server_s
        others_s = busy - self.cpu_s - self.server_s
        # The machine counts in steps of 10 ms, so a short run can seem to be outside 0 and 1.
        self.other = min(max(others_s / (self.took_s * count_cores()), 0.0), 1.0)
        self._after = counts_of(self._store)

    @property
    def statements(self) -> int:
        """How many were run."""
        return self._after.statements - self._before.statements

    def _server_s(self) -> float:
        return 0.0 if self._server is None else self._server.cpu_s()

    def measured(
        self,
        row: str,
        value: float,
        unit: str,
        *,
        units: int,
        per: str,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> Measured:
        """Return a number with what it cost per unit of work."""
        before, after = self._before, self._after
        cost = Cost(
            per=per,
            cpu_us=self.cpu_s / units * 1e6,
            server_us=None if self._server is None else self.server_s / units * 1e6,
            transactions=(after.transactions - before.transactions) / units,
            statements=self.statements / units,
            rows=(after.rows - before.rows) / units,
        )
        return Measured(
            row=row,
            value=value,
            unit=unit,
            at_least=at_least,
            at_most=at_most,
            cost=cost,
            other=self.other,
        )


async def finish(engine: Engine, orchestration: Orchestration[..., Any], *args: Any) -> Any:
    """Start an instance and wait for its result."""
    handle = await engine.start(orchestration, *args)
    return await handle.result()


async def in_flight(count: int, limit: int, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Do a piece of work `count` times, `limit` of them at any time."""
    left = iter(range(count))

    async def lane() -> None:
        for _ in left:
            await work()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(limit, count)):
            group.create_task(lane())


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def counts_of(store: Store) -> StoreCounters:
    """Return what a store has done so far."""
    if store.is_server:
        from bench import servers  # heavy

        return servers.counts_of(store)
    return replace(sqlite(store).counters)


def process_behind(store: Store) -> ServerProcess | None:
    """Return the server that a store is on, if there is one."""
    if not store.is_server:
        return None
    from bench import servers  # heavy

    return servers.process_behind(store)


def sqlite(store: Store) -> SqliteStore:
    """Return the store as what it is."""
    assert isinstance(store, SqliteStore), f"not measured yet: {type(store).__name__}"
    return store


async def read_facts(store: Store) -> StoreFacts:
    """Ask the connection that writes how durable its commits are."""
    if store.is_server:
        from bench import servers  # heavy

        name, settings = await servers.read_settings(store)
    else:
        name, settings = await _sqlite_settings(sqlite(store))
    return StoreFacts(store=name, settings=tuple(f"{one}={settings[one]}" for one in settings))


async def _sqlite_settings(store: SqliteStore) -> tuple[str, dict[str, str]]:
    # Not part of the contract: the settings are those of one connection, and only the writing
    # thread may use it.
    [(mode,)] = await store.work(lambda t: t.connection.run("read_journal_mode"))
    [(synchronous,)] = await store.work(lambda t: t.connection.run("read_synchronous"))
    names = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
    return f"SQLite {sqlite3.sqlite_version}", {
        "journal_mode": str(mode),
        "synchronous": names.get(int(synchronous), str(synchronous)),
    }
