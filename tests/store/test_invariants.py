"""The checker finds nothing in a sound store, and finds damage that is planted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perdure.checking.checkup import check_slices
from perdure.checking.invariants import check
from perdure.model.admin import InstanceFilter
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    EffectRetried,
    EffectScheduled,
    Failure,
    write_event,
)
from perdure.model.instances import PARTS
from perdure.store.base import Store
from perdure.store.contents import Sliced, SlicePlace
from perdure.store.sql.questions import slices
from tests.contract.store_values import accepted, first_turn, new_instance
from tests.store.sound import ANSWER, BEGIN, CALL, RAW, fill


async def test_a_sound_store_has_no_violations(store: Store) -> None:
    await fill(store)

    assert await check(store) == []


@pytest.fixture
def thin_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of one id each, as far as that is possible."""
    monkeypatch.setattr(slices, "MAX_EVENTS", 1)
    monkeypatch.setattr(slices, "MAX_ROWS", 0)
    monkeypatch.setattr(slices, "MAX_KEYS", 1)


async def slices_of(store: Store) -> list[set[str]]:
    """Return the ids of each slice."""
    assert isinstance(store, Sliced)
    found: list[set[str]] = []
    after: SlicePlace | None = SlicePlace(-1, "")
    while after is not None:
        contents, after = await store.read_slice(after, PARTS)
        found.append({*contents.instances, *contents.live, *contents.inboxes})
    return found


@pytest.mark.usefixtures("thin_slices")
async def test_everything_is_in_one_slice_and_a_slice_has_not_much(store: Store) -> None:
    await fill(store)
    assert isinstance(store, Sliced)
    whole = await store.read_contents()  # type: ignore[attr-defined]  # SQL stores have it

    found = await slices_of(store)

    assert max(map(len, found)) == 1
    assert sorted(one for ids in found for one in ids) == sorted({*whole.instances, *whole.live})


async def test_large_histories_are_not_read_together(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store)
    monkeypatch.setattr(slices, "MAX_BYTES", 0)

    assert len(await slices_of(store)) > 3


@pytest.mark.parametrize("first_part", [0, 77, PARTS - 1])
@pytest.mark.usefixtures("thin_slices")
async def test_a_sound_store_has_no_violations_slice_by_slice(
    store: Store, first_part: int
) -> None:
    await fill(store)
    assert isinstance(store, Sliced)
    shares: list[float] = []

    checkup = await check_slices(
        store, first_part=first_part, tell=lambda so_far: shares.append(so_far.share)
    )

    assert (checkup.violations, checkup.is_whole, checkup.share) == ([], True, 1.0)
    assert checkup.instances == await store.admin.count_instances(InstanceFilter())
    assert shares == sorted(shares)


@pytest.mark.usefixtures("thin_slices")
async def test_a_checkup_without_time_is_a_sample(store: Store) -> None:
    await fill(store)
    assert isinstance(store, Sliced)
    times_s = iter(range(10_000))

    checkup = await check_slices(store, for_s=4, clock=lambda: next(times_s))

    assert not checkup.is_whole
    assert 0 < checkup.share < 1
    assert 0 < checkup.instances < await store.admin.count_instances(InstanceFilter())


DAMAGE = {
    "a hole in a history": ("DELETE FROM history WHERE seq = 2 AND instance_id = 'ended'", "S1"),
    "a changed event": (
        "UPDATE history SET body = x'00' WHERE seq = 3 AND instance_id = 'ended'",
        "S2",
    ),
    "a lost first event": ("DELETE FROM history WHERE seq = 1 AND instance_id = 'busy'", "S3"),
    "an event after the end": (
        "INSERT INTO history SELECT part, instance_id, incarnation, execution, 5, kind, at_ms,"
        " body, NULL FROM history WHERE seq = 4 AND instance_id = 'ended'",
        "S3",
    ),
    "a lost job": ("DELETE FROM jobs WHERE seq = 2 AND instance_id = 'busy'", "S5"),
    "a doubled token": ("UPDATE jobs SET seq = 7 WHERE seq = 2 AND instance_id = 'busy'", "S5"),
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
    "a lost answer to a detached start": (
        "DELETE FROM inbox WHERE kind = 'detached_started'",
        "S5",
    ),
    "a lost limit for a start": ("DELETE FROM inbox WHERE timer_key = 'start:3'", "S5"),
    "a limit for a start that belongs to nobody": (
        "UPDATE inbox SET timer_key = 'start:5' WHERE timer_key = 'start:3'",
        "S5",
    ),
    "a job whose call is answered": (
        "UPDATE jobs SET part = i.part, instance_id = i.instance_id, incarnation = i.incarnation"
        " FROM instances AS i WHERE i.instance_id = 'ended' AND jobs.instance_id = 'busy'"
        " AND jobs.seq = 2",
        "leftover",
    ),
    "a result and a job for one call": (
        "INSERT INTO inbox (part, instance_id, no, effective_at_ms, rank, execution, kind, body)"
        " SELECT part, instance_id, last_no, last_at_ms, 1, 0, 'activity_completed',"
        " CAST('{\"schedule\":2,\"result\":0}' AS BLOB) FROM live WHERE instance_id = 'failing'",
        "S5",
    ),
    "a job of an execution that is over": (
        "UPDATE jobs SET part = i.part, instance_id = i.instance_id, incarnation = i.incarnation"
        " FROM instances AS i WHERE i.instance_id = 'third' AND jobs.instance_id = 'busy'"
        " AND jobs.seq = 2",
        "leftover",
    ),
    "a result for an execution that is over": (
        "UPDATE inbox SET execution = 2 WHERE kind = 'detached_started'",
        "S35",
    ),
    "an event after an execution went on": (
        "INSERT INTO history SELECT part, instance_id, incarnation, execution, 5, 'kv_cleared',"
        " at_ms, CAST('{}' AS BLOB), NULL FROM history WHERE seq = 4 AND execution = 1"
        " AND instance_id = 'third'",
        "S3",
    ),
    "an execution that did not go on": (
        "DELETE FROM history WHERE kind = 'continued_as_new' AND execution = 2"
        " AND instance_id = 'third'",
        "S35",
    ),
    "an execution in the middle that is lost": (
        "DELETE FROM history WHERE execution = 2 AND instance_id = 'third'",
        "S35",
    ),
    "a current execution that is lost": (
        "UPDATE live SET execution = 4, next_seq = 1 WHERE instance_id = 'third'",
        "S35",
    ),
    "an execution that goes on and has no next one": (
        "UPDATE live SET execution = 2, next_seq = 3 WHERE instance_id = 'pending'",
        "S35",
    ),
    "a lost start of the next execution": (
        "DELETE FROM inbox WHERE instance_id = 'pending' AND kind = 'started'",
        "S35",
    ),
    "another history before an execution": (
        "UPDATE history SET at_ms = 9 WHERE execution = 1 AND instance_id = 'third'",
        "S35",
    ),
    "another history before an execution that has not begun": (
        "UPDATE history SET at_ms = 9 WHERE execution = 2 AND instance_id = 'pending'",
        "S35",
    ),
    "a lost value": ("DELETE FROM kv WHERE instance_id = 'keeping'", "fold"),
    "another value": ("UPDATE kv SET value = x'30' WHERE instance_id = 'keeping'", "fold"),
    "another time of a value": ("UPDATE kv SET updated_ms = 1 WHERE instance_id = 'third'", "fold"),
    "a value that was removed": (
        "INSERT INTO kv SELECT part, instance_id, 'old', 2, value FROM kv"
        " WHERE instance_id = 'keeping'",
        "fold",
    ),
    "a lost report": ("DELETE FROM reports WHERE instance_id = 'pending'", "fold"),
    "another report": ("UPDATE reports SET value = x'31' WHERE instance_id = 'keeping'", "fold"),
    "values without an instance": ("UPDATE kv SET instance_id = 'nobody'", "leftover"),
    "a report without an instance": (
        "UPDATE reports SET instance_id = 'nobody' WHERE instance_id = 'keeping'",
        "leftover",
    ),
    "dead jobs without an instance": ("UPDATE dead_jobs SET instance_id = 'nobody'", "leftover"),
    "a lost job of an effect": ("DELETE FROM jobs WHERE instance_id = 'order:1'", "S5"),
    "a job of an effect whose turn it is not": (
        "UPDATE jobs SET seq = 6 WHERE instance_id = 'order:1'",
        "S5",
    ),
    "a job of an effect that has ended": (
        "UPDATE jobs SET seq = 5 WHERE instance_id = 'order:1'",
        "S5",
    ),
    "a lost result of an effect": (
        "DELETE FROM inbox WHERE instance_id = 'order:1' AND kind = 'activity_completed'"
        " AND timer_key IS NULL",
        "S5",
    ),
    "a lost deadline of an effect": ("DELETE FROM inbox WHERE timer_key = 'deadline:4'", "S5"),
    "a lost timer of a decider": ("DELETE FROM inbox WHERE timer_key = 'key:t'", "S5"),
    "a timer of a decider with another time": (
        "UPDATE inbox SET effective_at_ms = 1 WHERE timer_key = 'key:t'",
        "S5",
    ),
    "a timer that was cancelled": (
        "UPDATE inbox SET timer_key = 'key:cancelled' WHERE timer_key = 'key:t'",
        "S5",
    ),
    "a timer that has fired": (
        "UPDATE inbox SET timer_key = 'key:gone' WHERE timer_key = 'key:t'",
        "S5",
    ),
    "an event that is not fed": ("DELETE FROM feed WHERE seq = 3", "S33"),
    "an event that is fed twice": (
        "INSERT INTO feed (part, instance_id, incarnation, execution, seq, definition_no, tag)"
        " SELECT part, instance_id, incarnation, execution, seq, definition_no, tag FROM feed"
        " WHERE seq = 14",
        "S33",
    ),
    "events that are fed in another order": ("UPDATE feed SET pos = pos + 97 WHERE seq = 3", "S33"),
    "an event that is fed as another": ("UPDATE feed SET tag = 'Waited' WHERE seq = 3", "S33"),
    "something fed that is no event": ("UPDATE feed SET seq = 4 WHERE seq = 3", "S33"),
    "an event fed without an instance": ("UPDATE feed SET instance_id = 'nobody'", "S33"),
    "a key of nobody": ("UPDATE unique_keys SET instance_id = 'nobody'", "leftover"),
    "a key of an instance that has ended": (
        "UPDATE unique_keys SET instance_id = 'order:2'",
        "leftover",
    ),
    "a key of an earlier incarnation": ("UPDATE unique_keys SET incarnation = 1", "leftover"),
    "a snapshot of the future": (
        "UPDATE snapshots SET seq = 99 WHERE instance_id = 'order:1'",
        "fold",
    ),
    "a snapshot of nothing": ("UPDATE snapshots SET seq = 0", "fold"),
    "a snapshot of another version": ("UPDATE snapshots SET version = 3", "fold"),
    "a snapshot of another execution": ("UPDATE snapshots SET execution = 2", "leftover"),
    "a snapshot of an earlier incarnation": ("UPDATE snapshots SET incarnation = 1", "leftover"),
    "a lost outcome of an input": (
        "UPDATE receipts SET outcome = NULL WHERE instance_id = 'order:2'",
        "S32",
    ),
    "a lost receipt of an input": (
        "DELETE FROM receipts WHERE instance_id = 'order:1' AND message_id = 'x'",
        "S32",
    ),
    "an input that was decided and waits": (
        "UPDATE receipts SET outcome = x'30' WHERE message_id = 'y'",
        "S32",
    ),
    "an input that was decided twice": (
        "UPDATE history SET body = first.body FROM history AS first"
        " WHERE first.instance_id = 'order:1' AND first.seq = 2"
        " AND history.instance_id = 'order:1' AND history.seq = 13",
        "S32",
    ),
    "an observed input that is lost": ("DELETE FROM observations WHERE no = 1", "S1"),
    "an index that was given twice": (
        "UPDATE perdure_streams SET items = 2 WHERE last_index = 5",
        "S61",
    ),
    "an index that will be given twice": ("UPDATE perdure_stream_heads SET next_index = 5", "S61"),
    "a take-back of what is there": (
        "UPDATE perdure_streams SET discards_from = 2 WHERE items = 0",
        "S61",
    ),
    "a stream of another instance": (
        "UPDATE perdure_streams SET incarnation = 1 WHERE last_index = 5",
        "S61",
    ),
    "a stream of no instance": (
        "UPDATE perdure_stream_heads SET instance_id = 'nobody'",
        "S61",
    ),
    "a session on two workers": (
        "UPDATE jobs SET worker_id = 'w2' WHERE session = 's' AND seq = 5",
        "S27",
    ),
    "a session that was used after its lease": (
        "UPDATE sessions SET used_ms = until_ms + 1",
        "S27",
    ),
}


@pytest.mark.usefixtures("thin_slices")
@pytest.mark.parametrize(("statement", "invariant"), DAMAGE.values(), ids=DAMAGE.keys())
async def test_planted_damage_is_found(
    store: Store, path: Path, statement: str, invariant: str
) -> None:
    await fill(store)
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()

    found = await check(store)
    assert isinstance(store, Sliced)
    checkup = await check_slices(store, first_part=77)

    assert invariant in {violation.invariant for violation in found}
    assert {(one.invariant, one.instance_id) for one in checkup.violations} == {
        (one.invariant, one.instance_id) for one in found
    }


async def test_an_answer_to_nothing_is_found(store: Store) -> None:
    answers = (BEGIN, ANSWER, CALL, ActivityCompleted(schedule=3, result=RAW))
    twice = (*answers, ActivityCompleted(schedule=3, result=RAW))
    await accepted(store, first_turn(new_instance(), events=tuple(map(write_event, twice))))

    found = await check(store)

    assert [violation.invariant for violation in found] == ["S4", "S4"]
    assert [violation.instance_id for violation in found] == ["i", "i"]


@pytest.mark.parametrize("has_failed", [True, False], ids=["failed", "open"])
async def test_a_retry_of_an_effect_that_has_not_failed_is_found(
    store: Store, has_failed: bool
) -> None:
    effect = EffectScheduled(name="charge", input=RAW)
    failed = ActivityFailed(schedule=2, failures=(Failure("E", "no"),))
    completed = ActivityCompleted(schedule=2, result=RAW)
    retried = EffectRetried(effect=2, activity="charge")
    events = (BEGIN, effect, failed if has_failed else completed, retried, retried)
    await accepted(store, first_turn(new_instance(), events=tuple(map(write_event, events))))

    found = await check(store)

    assert [violation.invariant for violation in found] == ([] if has_failed else ["S4", "S4"])
