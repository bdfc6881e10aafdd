"""Deciders that keep only their newest events, through workers and clients."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Never

import pytest

from perdure import Accepted, Client, Decider, Decision, Engine, Handle, context, orchestration
from perdure.clock import ManualClock
from perdure.codec import Json
from perdure.errors import EventsRemovedError, InstanceFailedError
from perdure.testing import replay
from tests.engine.stage import Stage, until, waits_for

DAYS = timedelta(days=2)


@dataclass(frozen=True)
class Add:
    id: str
    by: int = 1


@dataclass(frozen=True)
class Start:
    id: str
    run: str


@dataclass(frozen=True)
class Added:
    by: int


@dataclass(frozen=True)
class Begun:
    run: str


@orchestration
async def idle(run: str) -> str:
    await asyncio.sleep(10**9)
    return run


@orchestration
async def wait_behind(version: int) -> int:
    _, found = await context().ref("a", Sum).wait_event(Added, after=version)
    return found


class Sum(Decider[int, Add | Start, Added | Begun, Never]):
    """Adds up, and starts what it is told to."""

    name = "sum"
    snapshot_every = 5
    keep_events: ClassVar[int | None] = 7

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Add | Start, /) -> str:
        return input.id

    def decide(
        self, state: int, input: Add | Start, now: datetime, /
    ) -> Decision[Add | Start, Added | Begun, Never]:
        if isinstance(input, Start):
            return Decision.accept(Begun(input.run)).start(input.run, idle, input.run)
        return Decision.accept(Added(input.by)).reply(input.by)

    def evolve(self, state: int, event: Added | Begun, /) -> int:
        return state + event.by if isinstance(event, Added) else state


async def keep_house(engine: Engine) -> int:
    """Let a worker keep house; return how many rows of histories it removed."""
    return (await engine._serving.housekeeping.run_once()).events


async def old(stage: Stage, clock: ManualClock, count: int = 30, first: int = 1) -> Engine:
    """Return an engine with an instance that has so many events, all of them days old."""
    engine = await stage.engine([Sum, idle], clock=clock)
    for number in range(first, first + count):
        await engine.execute(Sum, Add("a", number), input_id=f"i{number}")
    clock.advance(DAYS)
    return engine


async def test_older_events_go_and_everything_counts_on(stage: Stage) -> None:
    engine = await old(stage, ManualClock())
    whole = await engine.events(Sum, "a")
    led = await engine.transitions(Sum, "a", name_of=str)

    assert await keep_house(engine) > 0

    # The newest snapshot is of version 30, so 23 of 30 go.
    assert [event.version for event in await engine.events(Sum, "a", after=23)] == [*range(24, 31)]
    assert await engine.events(Sum, "a", after=23) == whole[23:]
    assert await engine.transitions(Sum, "a", name_of=str, after=23) == led[23:]
    assert await engine.state(Sum, "a") == 465
    assert await engine.state(Sum, "a", at=0) == 0
    assert await engine.state(Sum, "a", at=23) == 276
    answer = await engine.execute(Sum, Add("a", 100), expected_version=30)
    assert isinstance(answer, Accepted)
    assert (answer.version, answer.state) == (31, 565)
    assert await keep_house(engine) == 0


async def test_what_is_asked_of_removed_events_is_told_so(stage: Stage) -> None:
    engine = await old(stage, ManualClock())
    await keep_house(engine)

    for asked in (
        engine.events(Sum, "a"),
        engine.events(Sum, "a", after=22),
        engine.events_json("sum", "a"),
        engine.transitions(Sum, "a", name_of=str, after=22),
        engine.state(Sum, "a", at=22),
        engine.execute(Sum, Add("a", 23), input_id="i23"),
        engine.execute_json("sum", "Add", {"id": "a", "by": 3}, input_id="i3"),
    ):
        with pytest.raises(EventsRemovedError, match="the oldest that is kept is version 24") as e:
            await asked
        assert e.value.kept_after == 23
    # An input that was accepted is not decided again; one whose events are there is answered.
    again = await engine.execute(Sum, Add("a", 24), input_id="i24")
    assert isinstance(again, Accepted)
    assert (again.version, again.state, again.events) == (24, 300, (Added(24),))
    shown = await engine.events_json("sum", "a", after=23)
    assert [event.version for event in shown] == [*range(24, 31)]


async def test_a_process_without_memory_goes_on_from_what_is_kept(stage: Stage) -> None:
    class Newer(Sum):
        schema = 2

        def upcast_state(self, schema: int, state: Json, /) -> Json:
            return state

    clock = ManualClock()
    engine = await old(stage, clock)
    await keep_house(engine)
    await engine.close()
    client = await stage.client(clock=clock)

    answer = await client.execute(Newer, Add("a", 5))

    assert isinstance(answer, Accepted)
    assert (answer.version, answer.state) == (31, 470)
    assert await client.state(Newer, "a") == 470


async def test_what_is_young_stays_and_goes_when_it_is_old(stage: Stage) -> None:
    clock = ManualClock()
    engine = await old(stage, clock, 20)
    for number in range(21, 41):
        await engine.execute(Sum, Add("a", number))

    await keep_house(engine)
    young = await engine.events(Sum, "a", after=20)
    clock.advance(DAYS)
    await keep_house(engine)

    assert [event.version for event in young] == [*range(21, 41)]
    with pytest.raises(EventsRemovedError, match="the oldest that is kept is version 34"):
        await engine.events(Sum, "a", after=20)


async def test_what_it_started_is_known_after_its_event_is_removed(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([Sum, idle], clock=clock)
    await engine.execute(Sum, Start("a", "child"))
    await old_events(engine, clock)

    await keep_house(engine)

    handle = engine.handle("a", Sum)
    assert [one.info.instance_id for one in (await handle.tree()).children] == ["child"]
    await waits_for(engine.handle("child"), "timer")
    assert "child" in await handle.explain()
    await engine.handle("child").terminate("enough")
    await until(lambda: _has_heard(handle))
    await handle.terminate("enough")


async def old_events(engine: Client, clock: ManualClock) -> None:
    for number in range(30):
        await engine.execute(Sum, Add("a", number))
    clock.advance(DAYS)


async def _has_heard(handle: Handle[Any]) -> bool:
    return "child" not in await handle.explain()


async def test_a_wait_is_told_of_removed_events_and_finds_kept_ones(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([Sum, idle, wait_behind], clock=clock)
    await old_events(engine, clock)
    await keep_house(engine)

    assert await (await engine.start("kept", wait_behind, 25)).result() == 26
    with pytest.raises(InstanceFailedError, match="the oldest that is kept is version 24"):
        await (await engine.start("gone", wait_behind, 3)).result()


async def test_an_export_is_replayed_with_what_stands_for_removed_events(stage: Stage) -> None:
    engine = await old(stage, ManualClock())
    await keep_house(engine)

    lines = await engine.handle("a", Sum).export()

    assert [line["seq"] for line in lines[1:4]] == [1, 2, 71]
    replay(lines, [Sum, idle])


async def test_two_workers_remove_each_event_once(stage: Stage) -> None:
    clock = ManualClock()
    first = await old(stage, clock, 60)
    second = await stage.engine([Sum, idle], clock=clock)

    counts = await asyncio.gather(*(keep_house(one) for one in (first, second)))

    # Whoever comes second finds nothing left, or goes on from where the first has come.
    assert sum(counts) >= 2 * 53
    assert await first.state(Sum, "a") == await second.state(Sum, "a") == 1830
    assert len(await second.events(Sum, "a", after=53)) == 7


async def test_a_worker_that_is_overtaken_between_its_looks_removes_no_more_than_it_may(
    stage: Stage,
) -> None:
    clock = ManualClock()
    first = await old(stage, clock, 60)
    second = await stage.engine([Sum, idle], clock=clock)
    store: Any = second._serving.housekeeping._store
    look = store.deciders.first_unread

    async def overtaken(execution: Any) -> Any:
        await keep_house(first)
        return await look(execution)

    store.deciders.first_unread = overtaken
    await keep_house(second)

    assert len(await second.events(Sum, "a", after=53)) == 7
    assert await second.state(Sum, "a") == 1830


async def test_a_decider_that_keeps_all_is_left_alone(stage: Stage) -> None:
    class All(Sum):
        keep_events = None

    clock = ManualClock()
    engine = await stage.engine([All, idle], clock=clock)
    await old_events(engine, clock)

    assert await keep_house(engine) == 0
    assert len(await engine.events(All, "a")) == 30
