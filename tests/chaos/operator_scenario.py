"""What people do to schedules, and to many instances at once: scripts whose every statement is a
crash point. Done again after a death, each step comes to the same end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

from perdure import Context, Every, Retry, Schedule, Signal, Status, activity, orchestration
from perdure.authoring.registry import Defined
from perdure.authoring.schedules.decider import ScheduleDecider
from perdure.authoring.schedules.facts import SlotFired
from perdure.checking.invariants import check
from perdure.clock import to_datetime
from perdure.errors import ActivityError, UnexpectedCountError
from perdure.model.instances import DECIDER
from perdure.store.contents import Inspectable
from tests.chaos.crashing import HandDriven, Step, World

HOUR = timedelta(hours=1)
BEGUN = to_datetime(1_800_000_000_000)
"""What the clock of a world says first."""

go = Signal("go", str)


class Road:
    """Whether a way is open; the test says."""

    is_open = False


@orchestration
async def waits(number: int) -> str:
    return f"{number} {await go.receive()}"


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(0)))
async def drive(number: int) -> int:
    if not Road.is_open:
        raise RuntimeError("closed")
    return number


@orchestration
async def travels(number: int) -> int:
    return await drive(number)


@orchestration
async def tries(number: int) -> str:
    try:
        return str(await drive(number))
    except ActivityError:
        return "gave up"


@orchestration
async def report(ctx: Context, place: str) -> str:
    assert ctx.slot is not None
    # The time of a trigger is when it came, which is another after each death.
    return place if "#" in ctx.instance_id else f"{place} {ctx.slot.at.isoformat()}"


DEFINITIONS: list[Defined] = [waits, drive, travels, tries, report]


# ------------------------------------------------------------------------------ in bulk


async def all_of(act: Callable[[int], Awaitable[int]], expect: int) -> None:
    """Do something to all; done again after a death, to those that are left."""
    try:
        await act(expect)
    except UnexpectedCountError as error:
        if error.found > expect:
            raise
        await act(error.found)


async def start_many(engine: HandDriven) -> None:
    Road.is_open = False
    for number in range(6):
        await engine.start(f"waits-{number}", waits, number)
    for number in range(2):
        await engine.start(f"travels-{number}", travels, number)
        await engine.start(f"tries-{number}", tries, number)


async def wait_for_the_dead(engine: HandDriven) -> None:
    """While the road is closed; and until all have heard of it."""

    async def count() -> int:
        failed = await engine.count(name="travels", status="failed")
        return failed + await engine.count(name="tries", status="completed")

    while await count() < 4:
        await engine.until_idle()
        await engine.pass_time()


async def signal_some(engine: HandDriven) -> None:
    ids = ["waits-0", "waits-1"]
    await all_of(
        lambda count: engine.signal_all(go, "on", ids=ids, expect=count, message_id="m"), 2
    )


async def cancel_some(engine: HandDriven) -> None:
    ids = ["waits-2", "waits-3"]
    await all_of(lambda count: engine.cancel_all(ids=ids, expect=count, reason="enough"), 2)


async def terminate_some(engine: HandDriven) -> None:
    ids = ["waits-4", "waits-5"]
    await all_of(lambda count: engine.terminate_all(ids=ids, expect=count, reason="over"), 2)


async def reset_what_failed(engine: HandDriven) -> None:
    Road.is_open = True
    await all_of(lambda count: engine.reset_all(name="travels", status="failed", expect=count), 2)


async def retry_the_dead(engine: HandDriven) -> None:
    await all_of(lambda count: engine.retry_all(name="tries", expect=count), 2)


# ---------------------------------------------------------------------------- scheduled


async def put(engine: HandDriven) -> None:
    hourly = Schedule("hourly", Every(HOUR), report, "eu")
    await engine.put_schedule(
        hourly.with_options(missed="all", overlap="allow", ends_at=BEGUN + 6 * HOUR)
    )


async def wait_for_slots(engine: HandDriven) -> None:
    """Until two hours have passed."""
    while await engine.count(prefix="hourly@2") < 2:
        await engine.until_idle()
        await engine.pass_time()


async def pause(engine: HandDriven) -> None:
    await engine.schedule("hourly").pause("tea")


async def trigger(engine: HandDriven) -> None:
    assert await engine.schedule("hourly").trigger(trigger_id="t") == "hourly@trigger#t"


async def resume(engine: HandDriven) -> None:
    await engine.schedule("hourly").resume()


async def backfill(engine: HandDriven) -> None:
    await engine.schedule("hourly").backfill(BEGUN - 3 * HOUR, BEGUN)


async def wait_for_the_end(engine: HandDriven) -> None:
    while (await engine.schedule("hourly").info()).next is not None:
        await engine.until_idle()
        await engine.pass_time()
    await engine.until_idle()


SCRIPTS: dict[str, Sequence[Step]] = {
    "in bulk": [
        start_many, wait_for_the_dead, signal_some, cancel_some, terminate_some,
        reset_what_failed, retry_the_dead,
    ],
    "scheduled": [put, wait_for_slots, pause, trigger, resume, backfill, wait_for_the_end],
}  # fmt: skip


class Outcome(NamedTuple):
    """What is left in the end."""

    ended: dict[str, tuple[Status, bytes | None, str]]
    """Every instance, with status, output and reason."""
    fired: list[str]
    """Every slot of the schedule that fired, in order of time. A backfill that is asked for again,
    since its process died unheard, is on record again: its instances are there once."""


async def look_at(world: World) -> Outcome:
    """Check what is left, and return it."""
    assert await check(world.store) == []
    assert isinstance(world.store, Inspectable)
    contents = await world.store.read_contents()
    assert contents.jobs == {}
    ended = {
        row.instance_id: (row.status, row.output, row.reason or "")
        for row in contents.instances.values()
        if row.kind != DECIDER
    }
    fired = []
    async with world.process() as engine:
        if any(row.kind == DECIDER for row in contents.instances.values()):
            events = [one.event for one in await engine.events(ScheduleDecider, "hourly")]
            fired = [one.instance_id for one in events if isinstance(one, SlotFired)]
    return Outcome(ended, sorted(set(fired)))
