"""Statements at which a process can die while it keeps house: events that a decider does not keep,
and streams of instances that have ended. What was not committed is there as it was, and the next
process comes to the same end."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Never

import pytest

from perdure import Decider, Decision, Engine, Stream, orchestration
from perdure.authoring.registry import Registry
from perdure.checking.invariants import check
from perdure.clock import ManualClock
from perdure.model.histories.events import StoredEvent
from perdure.model.options import Retention, WorkerOptions
from perdure.store.base import ExecutionKey, Store
from perdure.store.opening import open_store
from perdure.store.sqlite.store import SqliteStore
from perdure.telemetry import Metrics
from perdure.turns.coverage import Coverage
from perdure.worker.housekeeping import Housekeeping
from tests.chaos.statements import StatementFault, StatementStore, points_of

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


@asynccontextmanager
async def opened(path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = open_store(f"sqlite:///{path}", clock=clock)
    assert isinstance(store, SqliteStore)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def keep_house(store: Any) -> bool:
    """Do one round as a new worker; tell whether something was removed."""
    deciders = Coverage(Registry([Meter]), KEPT).deciders
    keeper = Housekeeping(store, KEPT, worker_id="w", metrics=Metrics(), deciders=deciders)
    return bool(await keeper.run_once())


async def prepare(path: Path, clock: ManualClock) -> None:
    """Make a store in which there is something to remove of each sort."""
    async with Engine(f"sqlite:///{path}", [Meter, saying], clock=clock) as engine:
        for liters in range(1, 13):
            await engine.execute(Meter, Read(liters))
        await (await engine.start("s", saying)).result()
    clock.advance(timedelta(days=2))


async def left(store: Store) -> tuple[list[StoredEvent], int]:
    """Return what is there: the history of the decider, and how many items of the stream."""
    [row] = await store.read_instances(["meter:m"])
    assert row is not None
    [history] = await store.read_histories([ExecutionKey("meter:m", row.incarnation, 1)])
    page = await store.read_stream("s", "words", after=0, limit=9)
    assert page is not None
    return list(history), len(page.items)


async def test_who_dies_while_keeping_house_has_removed_all_or_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    whole = tmp_path / "whole.db"
    await prepare(whole, clock)
    async with opened(whole, clock) as store:
        before = await left(store)
    copy = Path(shutil.copy(whole, tmp_path / "good.db"))
    async with opened(copy, clock) as store:
        counting = StatementStore(store, None)
        assert await keep_house(counting)
        wanted = await left(store)
        points = points_of(counting.statements)
    assert wanted[0] != before[0]
    assert (before[1], wanted[1]) == (1, 0)
    assert {"delete_removed_events", "insert_removed", "delete_old_stream_rows"} <= {
        point.name for point in points
    }

    for number, point in enumerate(points):
        copy = Path(shutil.copy(whole, tmp_path / f"{number}.db"))
        await _die_at(point, copy, clock, before, wanted)


async def _die_at(
    point: StatementFault,
    path: Path,
    clock: ManualClock,
    before: tuple[list[StoredEvent], int],
    wanted: tuple[list[StoredEvent], int],
) -> None:
    async with opened(path, clock) as store:
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
