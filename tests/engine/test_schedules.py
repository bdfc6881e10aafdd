"""Schedules end to end: engines and clients of one store, on a clock that is handed in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from perdure import (
    Client,
    Context,
    Cron,
    Defined,
    Engine,
    Every,
    Schedule,
    ScheduleHandle,
    Signal,
    Slot,
    Status,
    orchestration,
)
from perdure.clock import ManualClock
from perdure.errors import AlreadyExistsError, InstanceNotFoundError, UsageError
from perdure.model.instances import LiveRow
from tests.engine.stage import Stage, options, until

HOUR = timedelta(hours=1)
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
go = Signal("go", bool)


@orchestration
async def report(ctx: Context, day: datetime, *, full: bool = False) -> str:
    slot = ctx.slot
    assert slot is not None
    return f"{slot.schedule} {slot.at.isoformat()} {day.isoformat()} {full}"


@orchestration
async def waiting(ctx: Context) -> str:
    await go.receive()
    return ctx.instance_id


@orchestration
async def twice(ctx: Context, left: int = 1) -> str:
    if left:
        twice.continue_as_new(left - 1)
    return "none" if ctx.slot is None else ctx.slot.schedule


ALL: list[Defined] = [report, waiting, twice]
hourly = Schedule("hourly", Every(HOUR), report, MIDNIGHT, full=True)
ten = Schedule("ten", Every(HOUR / 6), twice, 0).with_options(missed="all", overlap="allow")
held = Schedule("held", Every(HOUR), waiting)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(round(MIDNIGHT.timestamp() * 1000))


async def ids(client: Client) -> list[str]:
    return sorted(one.instance_id for one in (await client.instances(limit=500)).items)


async def has_ids(client: Client, count: int) -> list[str]:
    async def enough() -> bool:
        return len(await ids(client)) == count

    await until(enough)
    return await ids(client)


async def ends(client: Client, instance_id: str) -> str:
    """Wait until the schedule knows that an instance has ended; return its result."""
    result = await client.handle(instance_id).result()
    name = instance_id.partition("@")[0]

    async def is_told() -> bool:
        return instance_id not in (await client.schedule(name).info()).running

    await until(is_told)
    return str(result)


# --------------------------------------------------------------------------- declared


@pytest.mark.parametrize("hot", [0, 1000])
async def test_a_declared_schedule_starts_its_orchestration_with_its_arguments(
    stage: Stage, clock: ManualClock, hot: int
) -> None:
    engine = await stage.engine([*ALL, hourly], clock=clock, options=options(hot_instances=hot))
    clock.advance(HOUR)

    [one] = await has_ids(engine, 1)

    assert one == "hourly@2026-01-01T01:00:00+00:00"
    assert await ends(engine, one) == (
        "hourly 2026-01-01T01:00:00+00:00 2026-01-01T00:00:00+00:00 True"
    )
    info = await engine.schedule("hourly").info()
    assert info.last == Slot("hourly", MIDNIGHT + HOUR)
    assert info.next == MIDNIGHT + 2 * HOUR
    assert info.declared
    assert info.running == ()


async def test_two_engines_start_one_instance_for_a_slot(stage: Stage, clock: ManualClock) -> None:
    engines = [await stage.engine([*ALL, hourly], clock=clock) for _ in range(2)]
    for hour in range(1, 6):
        clock.advance(HOUR)
        found = await has_ids(engines[0], hour)
        for one in found:
            await ends(engines[hour % 2], one)

    assert found == [f"hourly@2026-01-01T0{hour}:00:00+00:00" for hour in range(1, 6)]


async def test_a_worker_without_the_orchestration_fires(stage: Stage, clock: ManualClock) -> None:
    stage.allow_log("no live worker serves orchestration 'report'")
    client = await stage.client(clock=clock)
    await client.put_schedule(hourly)
    bare = await stage.engine([], clock=clock)
    clock.advance(HOUR)
    [one] = await has_ids(client, 1)
    assert (await client.handle(one).info()).status is Status.RUNNING

    await bare.close()
    engine = await stage.engine(ALL, clock=clock)

    assert (await ends(engine, one)).startswith("hourly 2026-01-01T01")


@pytest.mark.parametrize("hot", [0, 1000])
async def test_slots_are_counted_by_what_they_came_to(
    stage: Stage, clock: ManualClock, hot: int
) -> None:
    engine = await stage.engine([*ALL, held], clock=clock, options=options(hot_instances=hot))

    def counted() -> dict[str, float]:
        snapshot, name = engine.telemetry.snapshot(), "perdure_schedule_slots_total"
        outcomes = ("fired", "skipped", "missed", "queued")
        found = {one: snapshot.value(name, schedule="held", outcome=one) for one in outcomes}
        return {one: value for one, value in found.items() if value}

    clock.advance(HOUR)
    await until(lambda: counted() == {"fired": 1})
    clock.advance(HOUR)
    await until(lambda: counted() == {"fired": 1, "skipped": 1})
    # Of four that are due by now only the latest is looked at.
    clock.advance(4 * HOUR)
    await until(lambda: counted() == {"fired": 1, "skipped": 2, "missed": 1})


async def test_a_slot_outlives_continue_as_new(stage: Stage, clock: ManualClock) -> None:
    engine = await stage.engine([*ALL, Schedule("again", Every(HOUR), twice)], clock=clock)
    clock.advance(HOUR)
    [one] = await has_ids(engine, 1)

    assert await ends(engine, one) == "again"


async def test_an_instance_of_no_schedule_has_no_slot(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    assert await (await engine.start(twice, 0)).result() == "none"


async def test_of_two_deploys_the_higher_version_counts(stage: Stage, clock: ManualClock) -> None:
    async def changed(ctx: Context, day: datetime, *, full: bool = False) -> str:
        return "new"

    newer = orchestration(name="report", version="1.1.0")(changed)
    new = await stage.engine(
        [newer, Schedule("hourly", Every(HOUR / 2), newer, MIDNIGHT)], clock=clock
    )
    old = await stage.engine([*ALL, hourly], clock=clock)
    assert (await old.schedule("hourly").info()).when == ("every 30 m",)

    await old.schedule("hourly").pause("deploy")
    again = await stage.engine(
        [newer, Schedule("hourly", Every(HOUR / 4), newer, MIDNIGHT)], clock=clock
    )

    info = await again.schedule("hourly").info()
    assert info.when == ("every 15 m",)
    assert info.paused == "deploy"
    clock.advance(HOUR)
    assert await ids(new) == []


# ----------------------------------------------------------------------------- by hand


async def test_a_schedule_that_a_client_puts_is_listed_and_does_its_work(
    stage: Stage, clock: ManualClock
) -> None:
    client = await stage.client(clock=clock)
    handle = await client.put_schedule(hourly)
    await client.put_schedule(Schedule("nightly", Cron("0 2 * * *", "Europe/Berlin"), twice))

    assert [one.name for one in await client.schedules()] == ["hourly", "nightly"]
    assert not (await handle.info()).declared
    assert (await client.instances()).items == []
    assert await client.count() == 0
    listed = await client.instances(name="perdure.schedule")
    assert len(listed.items) == 2
    engine = await stage.engine(ALL, clock=clock)
    clock.advance(HOUR)
    found = await has_ids(engine, 2)
    assert found == ["hourly@2026-01-01T01:00:00+00:00", "nightly@2026-01-01T02:00:00+01:00"]
    for one in found:
        await ends(engine, one)


async def test_a_name_of_another_orchestration_is_refused(stage: Stage, clock: ManualClock) -> None:
    client = await stage.client(clock=clock)
    await client.put_schedule(hourly)
    other = Schedule("hourly", Every(HOUR), waiting)

    with pytest.raises(AlreadyExistsError, match="schedule of 'report', put by a client"):
        await client.put_schedule(other)
    with pytest.raises(AlreadyExistsError):
        await Engine(stage.url, [waiting, other], clock=clock).open()


async def test_what_people_do_to_a_schedule(stage: Stage, clock: ManualClock) -> None:
    engine = await stage.engine([*ALL, held], clock=clock)
    handle = engine.schedule("held")
    await handle.pause("migration")
    await handle.pause("migration")
    assert (await handle.info()).paused == "migration"
    assert (await handle.info()).next is None
    one = await handle.trigger(trigger_id="t-1")
    assert await handle.trigger(trigger_id="t-1") == one == "held@trigger#t-1"
    assert (await handle.info()).running == (one,)
    await handle.resume()

    assert (await handle.info()).next == MIDNIGHT + HOUR
    await engine.handle(one).send(go, True)
    assert await ends(engine, one) == one
    assert await handle.trigger(trigger_id="t-1") == one
    await until_empty(handle)
    assert await ids(engine) == [one]


async def test_a_schedule_says_when_it_fires_next_and_why_it_does_not(
    stage: Stage, clock: ManualClock
) -> None:
    engine = await stage.engine([*ALL, held], clock=clock)
    itself = "perdure.schedule:held"

    async def says(instance_id: str, sentence: str) -> None:
        async def is_said() -> bool:
            return sentence in await engine.handle(instance_id).explain()

        await until(is_said)

    await says(itself, "starts 'waiting' next at 2026-01-01T01:00:00+00:00.")
    handle = engine.schedule("held")
    await handle.pause("migration")
    one = await handle.trigger(trigger_id="t-1")
    await says(itself, "is paused: migration; 1 of it run; client.schedule('held').resume() lets ")
    await says(one, "(waiting 1.0.0, for 2026-01-01T00:00:00+00:00 of schedule 'held') waits for ")


async def until_empty(handle: ScheduleHandle) -> None:
    async def is_empty() -> bool:
        return (await handle.info()).running == ()

    await until(is_empty)


async def test_a_backfill_starts_each_slot_once_however_often_it_is_asked_for(
    stage: Stage, clock: ManualClock
) -> None:
    engine = await stage.engine([*ALL, hourly], clock=clock)
    handle = engine.schedule("hourly")
    day = (MIDNIGHT - 120 * HOUR, MIDNIGHT)

    assert await handle.backfill(*day) == 120
    assert await handle.backfill(*day) == 120

    await has_ids(engine, 120)
    await until_empty(handle)
    assert await engine.count(status="completed") == 120


async def test_a_deleted_schedule_is_gone_until_it_is_put_again(
    stage: Stage, clock: ManualClock
) -> None:
    engine = await stage.engine(ALL, clock=clock)
    handle = await engine.put_schedule(held)
    clock.advance(HOUR)
    [one] = await has_ids(engine, 1)
    await handle.delete()

    assert await engine.schedules() == []
    for asked in (handle.info, handle.pause, handle.resume, handle.trigger, handle.delete):
        with pytest.raises(InstanceNotFoundError):
            await asked()
    await engine.put_schedule(held)
    await engine.handle(one).send(go, True)
    assert await engine.handle(one).result() == one
    clock.advance(HOUR)
    _, two = await has_ids(engine, 2)
    await engine.handle(two).send(go, True)
    await ends(engine, two)


async def test_a_schedule_hears_of_what_is_deleted_while_it_moves_on(
    stage: Stage, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the instance and its end another turn of it is committed."""
    engine = await stage.engine([*ALL, held], clock=clock)
    clock.advance(HOUR)
    [one] = await has_ids(engine, 1)
    store = engine._core.raw_store
    read = store.read_live

    async def read_too_early(instance_id: str) -> LiveRow | None:
        monkeypatch.undo()
        live = await read(instance_id)
        assert live is not None
        before = live.stamp._replace(commit_id=live.stamp.commit_id ^ 2)
        return msgspec.structs.replace(live, stamp=before)

    monkeypatch.setattr(store, "read_live", read_too_early)
    await engine.delete(one, force=True)

    await until_empty(engine.schedule("held"))
    with pytest.raises(InstanceNotFoundError):
        await engine.handle(one).info()


async def test_what_a_schedule_has_started_can_be_deleted_by_itself(
    stage: Stage, clock: ManualClock
) -> None:
    engine = await stage.engine([*ALL, held], clock=clock)
    clock.advance(HOUR)
    [one] = await has_ids(engine, 1)

    await engine.delete(one, force=True)

    await until_empty(engine.schedule("held"))
    clock.advance(HOUR)
    [two] = await has_ids(engine, 1)
    await engine.handle(two).send(go, True)
    await ends(engine, two)
    assert (await engine.delete_all(name="waiting", expect=1)).instances == 1


@pytest.mark.parametrize("how", ["cancel", "terminate"])
async def test_what_runs_makes_room_for_the_next(
    stage: Stage, clock: ManualClock, how: Any
) -> None:
    engine = await stage.engine([*ALL, held.with_options(overlap=how)], clock=clock)
    clock.advance(HOUR)
    [one] = await has_ids(engine, 1)
    clock.advance(HOUR)
    _, two = await has_ids(engine, 2)

    ended = await engine.handle(one).info()
    assert ended.status == ("cancelled" if how == "cancel" else "terminated")
    await engine.handle(two).send(go, True)
    assert await ends(engine, two) == two


async def test_jitter_lets_an_instance_begin_later(stage: Stage, clock: ManualClock) -> None:
    late = Schedule("late", Every(HOUR), twice, 0).with_options(jitter=HOUR / 2)
    engine = await stage.engine([*ALL, late], clock=clock)
    clock.advance(HOUR)
    [one] = await has_ids(engine, 1)
    assert (await engine.handle(one).info()).status is Status.RUNNING
    clock.advance(HOUR / 2)

    assert await ends(engine, one) == "late"


# -------------------------------------------------------------------- a clock that jumps


@pytest.mark.parametrize(("jump", "missed"), [(HOUR, 6), (24 * HOUR, 144)])
async def test_a_clock_that_jumps_ahead_and_back_fires_each_slot_once(
    stage: Stage, clock: ManualClock, jump: timedelta, missed: int
) -> None:
    stage.allow_log(r"clock|ready, or under a lease")
    engine = await stage.engine([*ALL, ten], clock=clock)
    await fires(engine, clock, HOUR / 6)
    await fires(engine, clock, jump)
    assert len(await has_ids(engine, 1 + missed)) == 1 + missed
    clock.advance(-jump)

    info = await engine.schedule("ten").info()
    assert info.next == MIDNIGHT + jump + HOUR / 3

    await fires(engine, clock, jump + HOUR / 6)
    await has_ids(engine, 2 + missed)
    assert await engine.count(status="completed") == 2 + missed


@pytest.mark.parametrize("jump", [HOUR, 24 * HOUR])
async def test_a_clock_that_falls_behind_fires_nothing_again(
    stage: Stage, clock: ManualClock, jump: timedelta
) -> None:
    stage.allow_log(r"clock|ready, or under a lease")
    engine = await stage.engine([*ALL, ten], clock=clock)
    await fires(engine, clock, HOUR / 6)
    clock.advance(-jump)
    assert await ids(engine) == ["ten@2026-01-01T00:10:00+00:00"]
    clock.advance(jump)

    await fires(engine, clock, HOUR / 6)

    assert await has_ids(engine, 2) == [f"ten@2026-01-01T00:{n}0:00+00:00" for n in (1, 2)]


async def fires(engine: Engine, clock: ManualClock, by: timedelta) -> None:
    """Move the clock, and wait until what is due by then has been started and has ended."""
    clock.advance(by)
    now = datetime.fromtimestamp(clock() / 1000, UTC)

    async def is_decided() -> bool:
        info = await engine.schedule("ten").info()
        return info.next is not None and info.next > now and not info.running

    await until(is_decided)


# --------------------------------------------------------------------------- mistakes


async def test_mistakes_are_refused_where_they_are_made(stage: Stage) -> None:
    client = await stage.client()
    wrong: Any = "0 2 * * *"

    with pytest.raises(UsageError, match="is no schedule"):
        await client.put_schedule(wrong)
    with pytest.raises(UsageError, match="is no orchestration"):
        Schedule("n", Cron(wrong), wrong)
    with pytest.raises(UsageError, match="day"):
        Schedule("n", Cron(wrong), report)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="range is empty"):
        await client.schedule("n").backfill(MIDNIGHT, MIDNIGHT)
    with pytest.raises(UsageError, match="time zone"):
        await client.schedule("n").backfill(datetime(2026, 1, 1), MIDNIGHT)
    with pytest.raises(InstanceNotFoundError):
        await client.schedule("n").info()
