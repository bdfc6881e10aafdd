"""Statements at which a process can die while deciders work, one by one: each commit, and every
other statement once; with PERDURE_CHAOS_FULL=1 each time it is run.

The same scenario runs once undisturbed, which tells how many statements it takes and what every
instance must have recorded in the end, and then once per point. Whatever dies, the logs of all
instances are the same: no input is lost, none is decided twice, no timer fires that was taken back.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from perdure import Accepted, AlreadyCompleted, Rejected
from perdure.checking.invariants import check
from perdure.errors import UniqueKeyError
from perdure.model.histories.events import (
    EffectScheduled,
    EventRecorded,
    InputRejected,
    InputSent,
    InputTaken,
    Replied,
    StoredEvent,
    TimerArmed,
    TimerDisarmed,
    read_event,
)
from perdure.model.instances import DECIDER
from perdure.store.contents import Contents
from tests.chaos import decider_scenario as scenario
from tests.chaos.crashing import OPTIONS, Fault, FaultKind, HandDriven, Life, Step, World
from tests.chaos.decider_scenario import Move, Order, Parcel, Place, Post, Postpone, Stock
from tests.chaos.statements import (
    PLACES,
    StatementFault,
    StatementStore,
    chosen_of,
    life_on_statements,
    points_of,
    sqlite_of,
)
from tests.sizes import IS_FULL, WITHIN_S

pytestmark = pytest.mark.timeout(1_200 if IS_FULL else 600)

UNDISTURBED_RUNS = 5
MAX_SURVIVED = 0.05
"""Which share of all points may not be reached, in all parts of a sweep together."""

# ------------------------------------------------------------------ what a client does


async def place(engine: HandDriven) -> None:
    outcome = await engine.execute(Order, Place("paid", customer="Ada"), input_id="place")
    assert isinstance(outcome, Accepted)
    assert outcome.version == 1


async def be_rejected(engine: HandDriven) -> None:
    """The first input of its instance: nothing is left of it but a receipt."""
    outcome = await engine.execute(Stock, Move("none", -3), input_id="too many")
    assert outcome == Rejected("too few")


async def send(engine: HandDriven) -> None:
    await engine.send(Order, Place("lost", "declined"), input_id="send")
    await engine.send(Order, Place("lost", "slow"), input_id="send again")


async def place_slow(engine: HandDriven) -> None:
    await engine.execute(Order, Place("slow", "slow", customer="Joan"), input_id="slow")


async def take_a_taken_key(engine: HandDriven) -> None:
    with pytest.raises(UniqueKeyError):
        await engine.execute(Order, Place("other", customer="Joan"), input_id="taken")


async def postpone(engine: HandDriven) -> None:
    outcome = await engine.execute(Order, Postpone("slow"), input_id="postpone")
    assert isinstance(outcome, Accepted)
    assert (outcome.version, outcome.reply) == (2, 9)


async def move_at_once(engine: HandDriven) -> None:
    """Several inputs of one instance share a turn, in order."""
    given = [("a", -1), ("b", -2), ("c", 4), ("d", -4)]
    outcomes = await asyncio.gather(
        *(engine.execute(Stock, Move("hot", count), input_id=name) for name, count in given)
    )
    assert [type(outcome) for outcome in outcomes] == [Accepted, Rejected, Accepted, Accepted]


async def start_checkout(engine: HandDriven) -> None:
    await engine.start("checkout", scenario.checkout, "driven")


async def post(engine: HandDriven) -> None:
    scenario.Roads.is_open = False
    for parcel in ("near", "remote"):
        await engine.execute(Parcel, Post(parcel), input_id="post", correlation="c-1")


async def wait_for_the_dead(engine: HandDriven) -> None:
    """Let the time pass that it takes the effects to die."""
    while await engine.count_dead_jobs() < 2:
        await engine.until_idle()
        await engine.pass_time()


async def retry_the_dead(engine: HandDriven) -> None:
    """Done again, it finds nothing that it could put back."""
    scenario.Roads.is_open = True
    await engine.retry_dead_jobs(instance_id="parcel:near")


async def retry_in_vain(engine: HandDriven) -> None:
    """Once, although it is dead again after that."""
    [key] = [job.key for job in (await engine.dead_jobs()).items if "remote" in job.key] or [""]
    history = await engine.handle("remote", Parcel).history()
    if key and not any(event.kind == "effect_retried" for event in history):
        await engine.retry_dead_job(key)


RETRIED: Sequence[Step] = [post, wait_for_the_dead, retry_the_dead, retry_in_vain]

SCRIPT: Sequence[Step] = [
    *(place, be_rejected, send, place_slow, take_a_taken_key, postpone, move_at_once),
    start_checkout,
]

GIVEN_AGAIN: Sequence[Step] = [place, be_rejected, place_slow, postpone, move_at_once]

# --------------------------------------------------------------- what is left in the end


class Log(NamedTuple):
    """What an instance has recorded, without times and numbers."""

    status: str
    output: str
    lines: tuple[str, ...] = ()


async def look_at(world: World) -> dict[str, Log]:
    """Check what is left in the end, and return the logs of all instances."""
    assert await check(world.store) == []
    contents = await sqlite_of(world).read_contents()
    assert contents.jobs == {}
    logs = {}
    for instance_id, row in contents.instances.items():
        is_decider = row.kind == DECIDER
        lines = tuple(_lines(contents, instance_id)) if is_decider else ()
        logs[instance_id] = Log(row.status, (row.output or b"").decode(), lines)
    return logs


def _lines(contents: Contents, instance_id: str) -> list[str]:
    [history] = [events for key, events in contents.histories.items() if key[0] == instance_id]
    return [line for stored in history if (line := _line(stored)) is not None]


def _line(stored: StoredEvent) -> str | None:
    """Return what a line says that must be the same in every run."""
    event = read_event(stored.kind, stored.body)
    match event:
        case InputTaken(tag=tag, input=data, cause=cause):
            return f"{tag} {bytes(data).decode()} by {cause.partition(':')[0]}"
        case EventRecorded(tag=tag, event=data) | InputRejected(tag=tag, reason=data):
            return f"{stored.kind} {tag} {bytes(data).decode()}"
        case EffectScheduled(name=name, input=data):
            return f"{stored.kind} {name} {bytes(data).decode()}"
        case TimerArmed(key=key) | TimerDisarmed(key=key):
            return f"{stored.kind} {key}"
        case InputSent(instance_id=to, input=data):
            return f"{stored.kind} {to} {bytes(data).decode()}"
        case Replied(value=data):
            return f"{stored.kind} {bytes(data).decode()}"
    return None


# -------------------------------------------------------------------------- the processes


def new_world(script: Sequence[Step] = SCRIPT) -> World:
    return World(script, OPTIONS, scenario.DEFINITIONS, settles=True)


async def follow(*lives: Callable[[], Life]) -> None:
    """Let one process after another try until one comes through."""
    for make in lives:
        life = make()
        try:
            is_through = await life.run()
        finally:
            await life.end()
        if is_through:
            return
    raise AssertionError("no process came through")


class Undisturbed(NamedTuple):
    """What a run without faults tells about the others."""

    statements: Counter[str]
    writes: list[Any]
    logs: dict[str, Log]


async def run_undisturbed(script: Sequence[Step]) -> Undisturbed:
    async with new_world(script) as world:
        life = life_on_statements(world)
        await follow(lambda: life)
        assert isinstance(life.store, StatementStore)
        return Undisturbed(life.store.statements, life.store.writes, await look_at(world))


@pytest.fixture(scope="module")
def undisturbed() -> Undisturbed:
    """What shares a transaction depends on time: taken are the statements that each of several runs
    comes to."""
    runs = [asyncio.run(run_undisturbed(SCRIPT)) for _ in range(UNDISTURBED_RUNS)]
    statements = runs[0].statements
    for run in runs[1:]:
        statements &= run.statements
    return runs[0]._replace(statements=statements)


async def failures_of(
    run: Callable[[World, Any], Awaitable[dict[str, Log]]],
    points: Sequence[Any],
    undisturbed: Undisturbed,
    script: Sequence[Step] = SCRIPT,
) -> list[str]:
    """Try all points, and return those after which something was different."""
    wrong = []
    for point in points:
        try:
            async with asyncio.timeout(WITHIN_S), new_world(script) as world:
                logs = await run(world, point)
        except (AssertionError, TimeoutError) as error:
            wrong.append(f"{point}: {error!r}")
            continue
        different = {
            name: (logs.get(name), log)
            for name, log in {**logs, **undisturbed.logs}.items()
            if logs.get(name) != undisturbed.logs.get(name)
        }
        if different:
            wrong.append(f"{point}: {different}")
    return wrong


def test_the_scenario_has_everything_in_it(undisturbed: Undisturbed) -> None:
    logs = undisturbed.logs

    assert {name: log.status for name, log in logs.items()} == {
        "checkout": "completed",
        **dict.fromkeys(("order:paid", "order:lost", "order:slow", "order:driven"), "completed"),
        **dict.fromkeys(("ship-paid", "ship-driven"), "completed"),
        **{f"stock:{one}": "running" for one in ("hot", "paid", "driven")},
        **{f"stock:{one}": "running" for one in ("paid-box", "driven-box")},
    }
    assert msgspec.json.decode(logs["ship-paid"].output) == (
        "Accepted Accepted Rejected parcel paid"
    )
    assert msgspec.json.decode(logs["checkout"].output) == ["charge", "Rejected"]
    causes = {line.rpartition(" by ")[2] for log in logs.values() for line in log.lines}
    assert {"client", "effect", "dead", "timer", "ended", "decider", "orchestration"} <= causes
    slow = [line for line in logs["order:slow"].lines if line.startswith("event_recorded")]
    assert len(slow) == 6, slow


# ------------------------------------------------------------------------------ the sweeps


@pytest.mark.parametrize("place", PLACES)
async def test_a_process_may_die_at_any_statement_of_any_transaction(
    place: str, undisturbed: Undisturbed, chance: random.Random
) -> None:
    survived = []

    async def run(world: World, point: StatementFault) -> dict[str, Log]:
        first = life_on_statements(world, point)
        await follow(lambda: first, lambda: life_on_statements(world))
        if not first.store.struck.is_set():
            survived.append(point)
        return await look_at(world)

    found = points_of(undisturbed.statements)

    assert await failures_of(run, chosen_of(found, place, chance), undisturbed) == []
    # What shares a transaction depends on time, and so does, a little, how many there are.
    assert len(survived) <= len(found) * MAX_SURVIVED / len(PLACES), survived


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER], ids=lambda kind: kind.value)
async def test_a_process_may_die_at_any_call_of_the_store(
    kind: FaultKind, undisturbed: Undisturbed
) -> None:
    async def run(world: World, point: int) -> dict[str, Log]:
        await follow(lambda: world.new_life(Fault(kind, point)), world.new_life)
        return await look_at(world)

    points = [n for n, call in enumerate(undisturbed.writes, start=1) if call.has_effect]

    assert await failures_of(run, points, undisturbed) == []


async def test_what_was_decided_before_is_answered_again() -> None:
    """Inputs are given once more, to a process that knows nothing of the first time."""
    async with World(GIVEN_AGAIN, OPTIONS, scenario.DEFINITIONS, settles=True) as world:
        await follow(world.new_life)
        logs = await look_at(world)
        world.done = 0
        await follow(world.new_life)

        assert await look_at(world) == logs
        async with world.process() as engine:
            late = await engine.execute(Order, Place("paid"))
        assert late == AlreadyCompleted()


@pytest.mark.parametrize("place", PLACES)
async def test_a_process_may_die_at_any_statement_while_dead_effects_are_retried(
    place: str, chance: random.Random
) -> None:
    undisturbed = await run_undisturbed(RETRIED)
    near, remote = (undisturbed.logs[f"parcel:{name}"].lines for name in ("near", "remote"))

    async def run(world: World, point: StatementFault) -> dict[str, Log]:
        first = life_on_statements(world, point)
        await follow(lambda: first, lambda: life_on_statements(world))
        contents = await sqlite_of(world).read_contents()
        assert {name: len(jobs) for name, jobs in contents.dead_jobs.items()} == {
            "parcel:remote": 1
        }
        return await look_at(world)

    assert [line.rpartition(" by ")[2] for line in near if " by " in line] == [
        "client", "dead", "retried",
    ]  # fmt: skip
    assert [line.rpartition(" by ")[2] for line in remote if " by " in line] == [
        "client", "dead", "dead",
    ]  # fmt: skip
    points = chosen_of(points_of(undisturbed.statements), place, chance)

    assert await failures_of(run, points, undisturbed, RETRIED) == []
