"""The checker finds nothing in a sound store, and finds damage that is planted."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from perdure.clock import ManualClock
from perdure.model.events import (
    ActivityCompleted,
    ActivityScheduled,
    ChildScheduled,
    Completed,
    Event,
    SignalAwaited,
    Started,
    StoredEvent,
    TimerScheduled,
    write_event,
)
from perdure.model.instances import Stamp
from perdure.model.turns import ChildStart, NewTimer
from perdure.store.base import Store
from perdure.store.opening import open_store
from perdure.testing.invariants import check, digest_of
from perdure.testing.store_values import (
    accepted,
    first_turn,
    job,
    message,
    new_instance,
    next_turn,
    outcome,
    timer,
)

RAW = msgspec.Raw(b"null")
BEGIN = Started(name="greet", version="1.0.0", behaviour=1, input=RAW)
CALL = ActivityScheduled(name="say_hello", input=RAW)
CALL_WITH_DEADLINE = ActivityScheduled(name="say_hello", input=RAW, deadline_ms=2**45)
CHILD = ChildScheduled(name="greet", version="1.0.0", instance_id="child", input=RAW)
ANSWER = ActivityCompleted(schedule=2, result=RAW)
END = Completed(result=RAW)


@pytest.fixture
async def store(path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    store = open_store(f"sqlite:///{path}?driver=sqlite3", clock=clock)
    await store.open()
    yield store
    await store.close()


async def _sound(store: Store) -> None:
    """Fill a store with one instance of every sort."""
    events: list[Event] = [
        BEGIN,
        CALL,
        CALL_WITH_DEADLINE,
        TimerScheduled(due_ms=2**45),
        SignalAwaited(name="s"),
        CHILD,
        CALL,
    ]
    parent = new_instance("busy")
    child = new_instance("child", parent_id="busy", parent_incarnation=parent.incarnation)
    deadline = NewTimer("deadline:3", 2**45, *write_event(ANSWER))
    turn = first_turn(
        parent,
        events=tuple(map(write_event, events)),
        jobs=(job(2), job(3)),
        timers=(timer(4, 2**45), deadline),
        children=(ChildStart(child, message()),),
        deliveries=(message("unborn", if_absent="buffer"),),
    )
    await accepted(store, turn)
    late = write_event(ActivityCompleted(schedule=7, result=RAW))
    await store.deliver([message("busy", kind=late.kind, body=late.body)])
    await _ended(store)


async def _ended(store: Store) -> None:
    start = new_instance("ended")
    bodies = tuple(map(write_event, [BEGIN, CALL, ANSWER, END]))
    digest = digest_of([StoredEvent(0, kind, 2, body) for kind, body in bodies])
    await accepted(store, first_turn(start, events=bodies[:2], jobs=(job(2),)))
    stamp = Stamp(start.incarnation, 1, 3)
    await accepted(
        store,
        next_turn("ended", stamp, now_ms=2, events=bodies[2:], outcome=outcome(digest=digest)),
    )


async def test_a_sound_store_has_no_violations(store: Store) -> None:
    await _sound(store)

    assert await check(store) == []


DAMAGE = {
    "a hole in a history": ("DELETE FROM history WHERE seq = 2 AND instance_id = 'ended'", "S1"),
    "a changed event": (
        "UPDATE history SET body = x'00' WHERE seq = 3 AND instance_id = 'ended'",
        "S2",
    ),
    "a lost first event": ("DELETE FROM history WHERE seq = 1 AND instance_id = 'busy'", "S3"),
    "an event after the end": (
        "INSERT INTO history SELECT part, instance_id, incarnation, execution, 5, kind, at_ms, body"
        " FROM history WHERE seq = 4 AND instance_id = 'ended'",
        "S3",
    ),
    "a lost job": ("DELETE FROM jobs WHERE seq = 2", "S5"),
    "a doubled token": ("UPDATE jobs SET seq = 7 WHERE seq = 2", "S5"),
    "a lost timer": ("DELETE FROM inbox WHERE timer_key = 'timer:4'", "S5"),
    "a lost deadline": ("DELETE FROM inbox WHERE timer_key = 'deadline:3'", "S5"),
    "a stray timer": ("UPDATE inbox SET timer_key = 'timer:9' WHERE timer_key = 'timer:4'", "S5"),
    "a lost result": ("DELETE FROM inbox WHERE kind = 'activity_completed'", "S5"),
    "a lost child": ("DELETE FROM instances WHERE instance_id = 'child'", "S5"),
    "a child without its instance": (
        "DELETE FROM instances WHERE instance_id = 'child'",
        "orphan",
    ),
    "a wrong next number": ("UPDATE live SET next_seq = 9 WHERE instance_id = 'busy'", "S7"),
    "a lease nobody would find": (
        "UPDATE live SET lease = 5, wake_at_ms = NULL WHERE instance_id = 'child'",
        "S7",
    ),
    "another status": ("UPDATE instances SET status = 'failed' WHERE instance_id = 'ended'", "S9"),
    "an end that was forgotten": (
        "UPDATE instances SET status = 'running' WHERE instance_id = 'ended'",
        "S9",
    ),
    "a number from nowhere": (
        "UPDATE inbox SET no = 99 WHERE kind = 'activity_completed' AND timer_key IS NULL",
        "S21",
    ),
    "messages without an owner": ("DELETE FROM live WHERE instance_id = 'unborn'", "leftover"),
    "jobs without an owner": ("DELETE FROM live WHERE instance_id = 'busy'", "leftover"),
    "events without an instance": ("DELETE FROM instances WHERE instance_id = 'ended'", "orphan"),
}


@pytest.mark.parametrize(("statement", "invariant"), DAMAGE.values(), ids=DAMAGE.keys())
async def test_planted_damage_is_found(
    store: Store, path: Path, statement: str, invariant: str
) -> None:
    await _sound(store)
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()

    found = await check(store)

    assert invariant in {violation.invariant for violation in found}


async def test_an_answer_to_nothing_is_found(store: Store) -> None:
    answers = (BEGIN, ANSWER, CALL, ActivityCompleted(schedule=3, result=RAW))
    twice = (*answers, ActivityCompleted(schedule=3, result=RAW))
    await accepted(store, first_turn(new_instance(), events=tuple(map(write_event, twice))))

    found = await check(store)

    assert [violation.invariant for violation in found] == ["S4", "S4"]
    assert [violation.instance_id for violation in found] == ["i", "i"]
