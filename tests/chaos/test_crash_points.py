"""Every point at which a process can die or stand still between two calls of the store, one by one.

The same scenario runs once undisturbed, which tells how many calls it makes and how it must end,
and then once per call and kind of fault; a process stands still at half of the calls, which are
drawn, and with PERDURE_CHAOS_FULL=1 at each.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

import msgspec
import pytest

from perdure import Status
from perdure.errors import AlreadyExistsError, InstanceEndedError
from perdure.model.histories.events import Failure
from perdure.model.instances import InstanceRow
from perdure.repair import Point, at_event
from perdure.store.contents import Inspectable
from tests.chaos import scenario
from tests.chaos.accounting import problems_in
from tests.chaos.crashing import OPTIONS, Call, Fault, FaultKind, HandDriven, Life, Step, World
from tests.chaos.everyday import read_to_the_end
from tests.sizes import IS_FULL, WITHIN_S

DOUBLES = 30 if IS_FULL else 10
"""How many pairs of faults are tried."""

pytestmark = pytest.mark.timeout(1_200 if IS_FULL else 600)


async def start_most(engine: HandDriven) -> None:
    await engine.start("work", scenario.work, 1)
    await engine.start("parent", scenario.parent, 10)
    await engine.start("trying", scenario.trying, 20)


async def start_guarded(engine: HandDriven) -> None:
    await engine.start("guarded", scenario.guarded, 30)


async def send_early(engine: HandDriven) -> None:
    """Before its instance is started."""
    await engine.handle("listen").send(scenario.note, "early", message_id="1")


async def start_listen(engine: HandDriven) -> None:
    await engine.start("listen", scenario.listen, 2)


async def send_late(engine: HandDriven) -> None:
    await engine.handle("listen").send(scenario.note, "late", message_id="2")


async def cancel(engine: HandDriven) -> None:
    await engine.handle("guarded").cancel("enough")


async def note_early(engine: HandDriven) -> None:
    await engine.handle("again").send(scenario.note, "early", message_id="1")


async def start_again(engine: HandDriven) -> None:
    await engine.start("again", scenario.again, 2, [])


async def note_late(engine: HandDriven) -> None:
    """One for the execution that runs, one that the next one takes over."""
    await engine.handle("again").send(scenario.note, "late", message_id="2")
    await engine.handle("again").send(scenario.note, "last", message_id="3")


async def start_reaching(engine: HandDriven) -> None:
    await engine.start("reaching", scenario.reaching, 40)


async def start_later(engine: HandDriven) -> None:
    delayed = scenario.hasty.with_options(delay=timedelta(minutes=1))
    await engine.start("later", delayed, 50)


async def start_with_note(engine: HandDriven) -> None:
    """It hears the first one and ends; done again, all of them come too late."""
    for said in ("first", "second"):
        with suppress(InstanceEndedError):
            await engine.send_with_start(scenario.note, said, "noted", scenario.kept, 60)


async def start_bound(engine: HandDriven) -> None:
    await engine.start("bound", scenario.bound, 70)


async def wait_for_the_dead(engine: HandDriven) -> None:
    """Let the time pass that it takes the hopeless job to die."""
    while (await engine.handle("bound").info()).status is Status.RUNNING:
        await engine.pass_time()
        await engine.until_idle()


async def retry_the_dead(engine: HandDriven) -> None:
    await engine.retry_dead_jobs()


async def start_items(engine: HandDriven) -> None:
    await engine.start("items", scenario.items, 80)


async def start_to_go_back(engine: HandDriven) -> None:
    await engine.start("back", scenario.back, 90)
    await engine.start("stuck", scenario.stuck, 91)


async def note_before_going_back(engine: HandDriven) -> None:
    await engine.handle("back").send(scenario.note, "heard", message_id="1")


async def wait_to_go_back(engine: HandDriven) -> None:
    """Until one has ended and the other has asked for everything."""
    back, stuck = engine.handle("back"), engine.handle("stuck")
    while (await back.info()).status is Status.RUNNING or len(await stuck.history()) < 5:
        await engine.pass_time()
        await engine.until_idle()


async def reset_what_runs(engine: HandDriven) -> None:
    """Everything is open at its fifth event."""
    await reset_first_execution(engine, "stuck", at_event(5))


async def fork_what_ended(engine: HandDriven) -> None:
    with suppress(AlreadyExistsError):
        await engine.handle("back").fork("branch", at_event(2))


async def reset_what_ended(engine: HandDriven) -> None:
    await reset_first_execution(engine, "back", at_event(2))


async def cancel_what_is_stuck(engine: HandDriven) -> None:
    """Once it has gone back, and all that it waits for has begun again."""
    stuck = engine.handle("stuck")
    while "went_back" not in [event.kind for event in await stuck.history()]:
        await engine.pass_time()
        await engine.until_idle()
    await stuck.cancel("enough")


async def reset_first_execution(engine: HandDriven, instance_id: str, point: Point) -> None:
    """Once, however often it is asked for: the second execution is left alone."""
    row = await engine.handle(instance_id)._row()
    await engine._core.reset(instance_id, point, "once", only=(row.incarnation, 1))


async def start_telling(engine: HandDriven) -> None:
    await engine.start("telling", scenario.telling, 0, 1)


async def read_along(engine: HandDriven) -> None:
    """From the first item to the end, while it is told."""
    told = read_to_the_end(engine.handle("telling"), scenario.told, engine.calls)
    await engine.until_answered(told)


async def read_late(engine: HandDriven) -> None:
    await read_to_the_end(engine.handle("telling"), scenario.told, engine.calls)


async def start_promised(engine: HandDriven) -> None:
    await engine.start("promised", scenario.promised, 90)


async def keep_promises(engine: HandDriven) -> None:
    """Done again after a death, each was kept before; the first answer stands. What each caller is
    told is compared with what is stored: see `everyday`."""
    tokens = await engine.handle("promised").kv("tokens", list[str])
    assert tokens is not None
    await engine.reject(tokens[1], "no")
    await engine.resolve(scenario.reply, tokens[0], "kept")
    at_once = (engine.resolve(scenario.reply, tokens[2], f"caller {n}") for n in range(4))
    await asyncio.gather(*at_once)
    assert not await engine.resolve(scenario.reply, tokens[0], "another")
    assert not await engine.resolve(scenario.reply, tokens[1], "another")


async def start_undoing(engine: HandDriven) -> None:
    await engine.start("fails", scenario.undoing, 100, waits=False)
    await engine.start("waits", scenario.undoing, 110, waits=True)


async def wait_for_all_parts(engine: HandDriven) -> None:
    """Until there are three things to undo."""
    waits = engine.handle("waits")
    while "signal_awaited" not in [event.kind for event in await waits.history()]:
        await engine.pass_time()
        await engine.until_idle()


async def cancel_what_waits(engine: HandDriven) -> None:
    await engine.handle("waits").cancel("enough")


async def see_what_was_undone(engine: HandDriven) -> None:
    """From the last to the first, once each."""
    for handle, first in ((engine.handle("fails"), 101), (engine.handle("waits"), 111)):
        while (report := await handle.report()) is None:
            await engine.pass_time()
            await engine.until_idle()
        assert report.value == [first + 102, first + 101, first + 100]


SCRIPTS: dict[str, Sequence[Step]] = {
    "going back": [
        start_to_go_back,
        note_before_going_back,
        wait_to_go_back,
        reset_what_runs,
        fork_what_ended,
        reset_what_ended,
        cancel_what_is_stuck,
    ],
    "telling": [start_telling, read_along, read_late],
    "promised": [start_promised, keep_promises],
    "items": [start_items],
    "undoing": [start_undoing, wait_for_all_parts, cancel_what_waits, see_what_was_undone],
    "reaching": [start_reaching, start_later, start_with_note],
    "bound": [start_bound, wait_for_the_dead, retry_the_dead],
    "everything": [start_most, start_guarded, send_early, start_listen, send_late, cancel],
    "continuing": [note_early, start_again, note_late],
}


class Ended(NamedTuple):
    """How an instance ended."""

    name: str
    status: Status
    output: str
    reason: str
    sent: tuple[bytes | None, ...] = ()
    """What is in its stream."""


async def look_at(world: World, *, paused: Sequence[Life] = ()) -> list[Ended]:
    """Check what is left in the end, and return how all instances ended."""
    found = await problems_in(world.store, world.ledger, paused={life.pid for life in paused})
    assert found == []
    assert isinstance(world.store, Inspectable)
    contents = await world.store.read_contents()
    # Without their ids: those of children hold a random part.
    ended = []
    for row in contents.instances.values():
        await world.store.streams.take_back(row.instance_id)
        told = scenario.told.name
        page = await world.store.streams.read_stream(row.instance_id, told, after=0, limit=1_000)
        assert page is not None
        sent = tuple(item.body for item in page.items if item.body is not None)
        ended.append(_ended(row)._replace(sent=sent))
    return sorted(ended)


def _ended(row: InstanceRow) -> Ended:
    output = row.output or b""
    if row.status is Status.FAILED:
        output = msgspec.json.decode(output, type=Failure).message.encode()
    return Ended(row.name, row.status, output.decode(), row.reason or "")


async def follow(*lives: Life) -> None:
    """Let one process after another try until one comes through."""
    for life in lives:
        try:
            is_through = await life.run()
        finally:
            await life.end()
        if is_through:
            return
    raise AssertionError("no process came through")


class Undisturbed(NamedTuple):
    """What a run without faults tells about the others."""

    script: Sequence[Step]
    writes: list[Call]
    reads: list[Call]
    outcomes: list[Ended]

    def points(self) -> list[int]:
        """Return the numbers of the calls at which a fault makes a difference."""
        return [number for number, call in enumerate(self.writes, start=1) if call.has_effect]

    def some_points(self, chance: random.Random) -> list[int]:
        """Return half of them, or all if everything is tried."""
        points = self.points()
        return points if IS_FULL else sorted(chance.sample(points, (len(points) + 1) // 2))


@pytest.fixture(params=SCRIPTS)
async def undisturbed(request: pytest.FixtureRequest) -> Undisturbed:
    script = SCRIPTS[request.param]
    async with World(script) as world:
        life = world.new_life()
        await follow(life)
        outcomes = await look_at(world)
    assert {ended.name for ended in outcomes if ended.status is Status.FAILED} <= {"failing"}
    return Undisturbed(script, life.store.writes, life.store.reads, outcomes)


async def failures_of(
    run: Callable[[World, int], Awaitable[list[Ended]]],
    points: Sequence[int],
    undisturbed: Undisturbed,
) -> list[str]:
    """Try all points, and return those after which something was wrong."""
    wrong = []
    for point in points:
        name = undisturbed.writes[point - 1].name
        try:
            async with asyncio.timeout(WITHIN_S), World(undisturbed.script) as world:
                outcomes = await run(world, point)
            if outcomes != undisturbed.outcomes:
                wrong.append(f"call {point} ({name}): {outcomes}")
        except (AssertionError, TimeoutError) as error:
            wrong.append(f"call {point} ({name}): {error!r}")
    return wrong


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER], ids=lambda kind: kind.value)
async def test_a_process_may_die_at_any_call(kind: FaultKind, undisturbed: Undisturbed) -> None:
    async def run(world: World, point: int) -> list[Ended]:
        await follow(world.new_life(Fault(kind, point)), world.new_life())
        return await look_at(world)

    assert await failures_of(run, undisturbed.points(), undisturbed) == []


async def test_a_process_that_stood_still_changes_nothing_when_it_goes_on(
    undisturbed: Undisturbed, chance: random.Random
) -> None:
    """Others have done everything meanwhile; then the call that was on its way arrives."""

    async def run(world: World, point: int) -> list[Ended]:
        sleeper = world.new_life(Fault(FaultKind.PAUSE, point))
        await sleeper.run()
        await follow(world.new_life())
        await sleeper.resume()
        await sleeper.end()
        return await look_at(world, paused=[sleeper])

    points = undisturbed.some_points(chance)
    assert await failures_of(run, points, undisturbed) == []


async def test_a_process_that_stood_still_may_go_on_in_the_midst_of_others(
    undisturbed: Undisturbed, chance: random.Random
) -> None:
    """It wakes up when its leases are gone and another process has just begun to take over."""

    async def run(world: World, point: int) -> list[Ended]:
        sleeper = world.new_life(Fault(FaultKind.PAUSE, point))
        await sleeper.run()
        world.clock.advance(2 * OPTIONS.lease_for)
        other = world.new_life()
        running = asyncio.create_task(other.run())
        while len(other.store.writes) < point and not running.done():  # noqa: ASYNC110 - see below
            await asyncio.sleep(0.001)  # Any moment will do, and another one for each point.
        await sleeper.resume()
        await running
        await sleeper.end()
        await other.end()
        return await look_at(world, paused=[sleeper, other])

    points = undisturbed.some_points(chance)
    assert await failures_of(run, points, undisturbed) == []


async def test_a_process_may_die_twice(undisturbed: Undisturbed, chance: random.Random) -> None:
    kinds = [FaultKind.BEFORE, FaultKind.AFTER]

    async def run(world: World, point: int) -> list[Ended]:
        first = Fault(chance.choice(kinds), point)
        second = Fault(chance.choice(kinds), chance.randint(1, len(undisturbed.writes)))
        await follow(world.new_life(first), world.new_life(second), world.new_life())
        return await look_at(world)

    points = undisturbed.points()
    points = chance.sample(points, min(DOUBLES, len(points)))
    assert await failures_of(run, points, undisturbed) == []


async def test_a_read_that_fails_once_stops_nothing(undisturbed: Undisturbed) -> None:
    async def run(world: World, point: int) -> list[Ended]:
        await follow(world.new_life(Fault(FaultKind.UNREADABLE, point)))
        return await look_at(world)

    points = range(1, len(undisturbed.reads) + 1)
    assert await failures_of(run, points, undisturbed) == []
