"""Statements at which a process can die while it keeps house: events that a decider does not keep,
and streams of instances that have ended. What was not committed is there as it was, and the next
process comes to the same end."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Never

import pytest

from perdure import Decider, Decision, Engine, Stream, orchestration
from perdure.authoring.registry import Registry
from perdure.checking.invariants import check
from perdure.clock import ManualClock
from perdure.ids import fresh_id
from perdure.model.histories.events import StoredEvent
from perdure.model.options import Retention, WorkerOptions
from perdure.store.base import ExecutionKey, Store
from perdure.store.opening import open_store
from perdure.store.postgres.store import PostgresStore
from perdure.store.sqlite.store import SqliteStore
from perdure.telemetry import Metrics
from perdure.turns.coverage import Coverage
from perdure.worker.housekeeping import Housekeeping
from tests.chaos.statements import StatementFault, StatementStore, points_of
from tests.postgres import Server

KEPT = WorkerOptions(retention=Retention(streams=timedelta(days=1)))
words = Stream("words", str)


@dataclass(frozen=True)
class Read:
    liters: int


@dataclass(frozen=True)
class Flowed:
    liters: int


class Meter(Decider[int, Read, Flowed, Never]):
    name = "meter"
    snapshot_every = 5
    keep_events: ClassVar[int | None] = 4

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Read, /) -> str:
        return "m"

    def decide(self, state: int, input: Read, now: datetime, /) -> Decision[Read, Flowed, Never]:
        return Decision.accept(Flowed(input.liters))

    def evolve(self, state: int, event: Flowed, /) -> int:
        return state + event.liters


@orchestration
async def saying() -> None:
    words.send("once")


@dataclass(frozen=True)
class Copies:
    """A store, and copies of it."""

    whole: str
    copy: Callable[[], AbstractContextManager[str]]
    """Gives the URL of a new one."""


@pytest.fixture
def copies(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Copies:
    @contextmanager
    def copy_file() -> Iterator[str]:
        yield f"sqlite:///{shutil.copy(tmp_path / 'whole.db', tmp_path / f'{fresh_id()}.db')}"

    @contextmanager
    def copy_database() -> Iterator[str]:
        url = server.create_database(template=whole)
        try:
            yield url
        finally:
            server.drop_database(url)

    if store_kind == "sqlite":
        return Copies(f"sqlite:///{tmp_path / 'whole.db'}", copy_file)
    server: Server = request.getfixturevalue("postgres")
    whole: str = request.getfixturevalue("postgres_url")
    return Copies(whole, copy_database)


@asynccontextmanager
async def opened(url: str, clock: ManualClock) -> AsyncIterator[SqliteStore | PostgresStore]:
    store = open_store(url, clock=clock)
    assert isinstance(store, SqliteStore | PostgresStore)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def keep_house(store: Any) -> bool:
    """Do one round as a new worker; return whether something was removed."""
    deciders = Coverage(Registry([Meter]), KEPT).deciders
    keeper = Housekeeping(store, KEPT, worker_id="w", metrics=Metrics(), deciders=deciders)
    return bool(await keeper.run_once())


async def prepare(url: str, clock: ManualClock) -> None:
    """Make a store in which there is something to remove of each sort."""
    async with Engine(url, [Meter, saying], clock=clock) as engine:
        for liters in range(1, 13):
            await engine.execute(Meter, Read(liters))
        await (await engine.start("s", saying)).result()
    clock.advance(timedelta(days=2))


async def left(store: Store) -> tuple[list[StoredEvent], int]:
    """Return what is there: the history of the decider, and how many items of the stream."""
    [row] = await store.read_instances(["meter:m"])
    assert row is not None
    [history] = await store.read_histories([ExecutionKey("meter:m", row.incarnation, 1)])
    page = await store.streams.read_stream("s", "words", after=0, limit=9)
    assert page is not None
    return list(history), len(page.items)


async def test_who_dies_while_keeping_house_has_removed_all_or_nothing(
    copies: Copies, clock: ManualClock
) -> None:
    await prepare(copies.whole, clock)
    with copies.copy() as url:
        async with opened(url, clock) as store:
            before = await left(store)
            counting = StatementStore(store, None)
            assert await keep_house(counting)
            wanted = await left(store)
            points = points_of(counting.statements)
    assert wanted[0] != before[0]
    assert (before[1], wanted[1]) == (1, 0)
    assert {"delete_removed_events", "insert_removed", "delete_old_stream_rows"} <= {
        point.name for point in points
    }

    for point in points:
        with copies.copy() as url:
            await _die_at(point, url, clock, before, wanted)


async def _die_at(
    point: StatementFault,
    url: str,
    clock: ManualClock,
    before: tuple[list[StoredEvent], int],
    wanted: tuple[list[StoredEvent], int],
) -> None:
    async with opened(url, clock) as store:
        dying = StatementStore(store, point)
        with pytest.raises(asyncio.CancelledError):
            await keep_house(dying)
        await dying.forget()

        history, items = await left(store)
        assert history in (before[0], wanted[0]), point
        assert items in (before[1], wanted[1]), point
        assert await check(store) == [], point
        await keep_house(store)
        assert await left(store) == wanted, point
