"""A store with an instance of every sort, in which the checker finds nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.checking.invariants import digest_of
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    Body,
    ChildScheduled,
    Completed,
    ContinuedAsNew,
    DetachedScheduled,
    DetachedStarted,
    EffectScheduled,
    Event,
    EventRecorded,
    Failure,
    InputTaken,
    KvCleared,
    KvEntry,
    KvPruned,
    KvRemoved,
    KvSet,
    Reported,
    SignalAwaited,
    Started,
    StoredEvent,
    TimerArmed,
    TimerDisarmed,
    TimerScheduled,
    write_event,
)
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import JobEnd, JobKey, StreamAppend
from perdure.model.streams import SentItems
from perdure.model.turns import (
    ChildStart,
    FedEvent,
    KvChange,
    NewTimer,
    SessionClaim,
    Snapshot,
    UniqueKey,
)
from perdure.store.base import Store
from tests.contract.store_values import (
    LEASE_MS,
    accepted,
    claim,
    claim_jobs,
    continuation,
    decider,
    first_turn,
    given,
    job,
    message,
    new_instance,
    next_turn,
    observed,
    outcome,
    queued,
    start_timer,
    timer,
    turn_of,
)

LATER = 2**45
GPU = DefinitionKey("activity", "say_hello", "gpu")
RAW = msgspec.Raw(b"null")
BEGIN = Started(name="greet", version="1.0.0", behaviour=1, input=RAW)
CALL = ActivityScheduled(name="say_hello", input=RAW)
ANSWER = ActivityCompleted(schedule=2, result=RAW)
GAVE_UP = ActivityFailed(schedule=2, failures=(Failure("E", "no"),))
GOING_ON = ContinuedAsNew(version="1.0.0", input=RAW)
END = Completed(result=RAW)


async def fill(store: Store) -> None:
    """Fill a store with one instance of every sort."""
    await _fill_failing(store)
    await _fill_calling(store)
    await _fill_busy(store)
    await _fill_ended(store)
    await _fill_keeping(store)
    await _fill_sending(store)
    await _fill_continuing(store)
    await _fill_deciding(store)
    dead = await store.admin.read_dead_jobs(limit=9)
    await store.admin.retry_dead_jobs([one.key for one in dead if one.key.instance_id != "dead"])


def _bodies(*events: Event) -> tuple[Body, ...]:
    return tuple(map(write_event, events))


def _digest(bodies: Sequence[Body]) -> bytes:
    return digest_of([StoredEvent(0, kind, 2, body) for kind, body in bodies])


async def _fill_busy(store: Store) -> None:
    """Leave an instance that waits for a bit of everything, and an id that was not started."""
    events = _bodies(
        BEGIN,
        CALL,
        ActivityScheduled(name="say_hello", input=RAW, deadline_ms=LATER),
        TimerScheduled(due_ms=LATER),
        SignalAwaited(name="s"),
        ChildScheduled(name="greet", version="1.0.0", instance_id="child", input=RAW),
        CALL,
    )
    parent = new_instance("busy")
    child = new_instance("child", parent_id="busy", parent_incarnation=parent.incarnation)
    deadline = NewTimer("deadline:3", LATER, *write_event(ANSWER))
    turn = first_turn(
        parent,
        events=events,
        jobs=(job(2), job(3)),
        timers=(timer(4, LATER), deadline),
        children=(ChildStart(child, message()),),
        deliveries=(message("unborn", if_absent="buffer"),),
    )
    await accepted(store, turn)
    late = write_event(ActivityCompleted(schedule=7, result=RAW))
    await store.deliver([message("busy", kind=late.kind, body=late.body)])


async def _fill_ended(store: Store) -> None:
    start = new_instance("ended")
    bodies = _bodies(BEGIN, CALL, ANSWER, END)
    turn = first_turn(start, events=bodies[:2], jobs=(job(2),))
    await accepted(store, turn)
    stamp = turn.next_stamp
    end = outcome(digest=_digest(bodies))
    await accepted(store, next_turn("ended", stamp, now_ms=2, events=bodies[2:], outcome=end))


async def _fill_keeping(store: Store) -> None:
    """Leave an instance that keeps values and reports."""
    events = _bodies(
        BEGIN,
        KvSet(key="gone", value=msgspec.Raw(b"1")),
        KvCleared(),
        KvSet(key="old", value=msgspec.Raw(b"1")),
        KvPruned(before_ms=3),
        KvSet(key="a", value=msgspec.Raw(b'{"x": 1}')),
        KvSet(key="b", value=msgspec.Raw(b"2")),
        KvRemoved(key="b"),
        Reported(value=msgspec.Raw(b"0.1")),
        Reported(value=msgspec.Raw(b"0.5")),
    )
    kv = (KvChange("a", b'{"x":1}'), KvChange("b", None))
    await accepted(store, first_turn(new_instance("keeping"), events=events, kv=kv, report=b"0.5"))


async def _fill_sending(store: Store) -> None:
    """Leave an instance with a stream of which something was taken back."""
    turn = first_turn(
        new_instance("sending"),
        events=_bodies(BEGIN, CALL),
        jobs=(job(2, leased=True),),
        jobs_leased_until_ms=LATER,
        sent=(SentItems("words", (b"1", b"2")),),
    )
    await accepted(store, turn)
    key = JobKey("sending", turn.stamp.incarnation, 1, 2)
    sent = (SentItems("words", (b"3",)),)
    await store.streams.append_streams([StreamAppend(key, turn.commit_id, 1, sent, is_first=False)])
    await store.end_jobs([JobEnd(key=key, token=turn.commit_id, retry_at_ms=LATER)])
    await store.streams.take_back("sending")
    await accepted(store, next_turn("sending", turn.next_stamp, now_ms=2, sent=sent))


async def _fill_calling(store: Store) -> None:
    """Leave a detached call, and jobs that must start in time or all on one worker."""
    late = ActivityScheduled(name="say_hello", input=RAW, start_by_ms=LATER)
    bound = ActivityScheduled(name="say_hello", input=RAW, session="s")
    apart = DetachedScheduled(name="greet", version="1.0.0", instance_id="apart", input=RAW)
    kind, body = write_event(DetachedStarted(schedule=4))
    answer = message("calling", kind=kind, body=body, execution=1)
    await accepted(
        store,
        first_turn(
            new_instance("calling"),
            events=_bodies(BEGIN, late, late, apart, bound, bound),
            jobs=(
                job(2, start_by_ms=LATER),
                job(3, start_by_ms=LATER),
                job(5, session="s", queue=GPU),
                job(6, session="s", queue=GPU),
            ),
            timers=(start_timer(2, LATER), start_timer(3, LATER)),
            children=(ChildStart(new_instance("apart"), answer, answer),),
        ),
    )
    [claimed] = await claim_jobs(store, limit=1)
    assert claimed.key.seq == 2
    terms = SessionClaim("w1", LEASE_MS, (), 1)
    assert len(await claim_jobs(store, sessions=terms, queues=(GPU,))) == 2


async def _fill_deciding(store: Store) -> None:
    """Leave a decider that waits for a bit of everything, and one that has ended."""
    fired = InputTaken(tag="Wait", input=RAW, cause="timer:gone")
    events = _bodies(
        Started(name="order", version="", behaviour=1, input=RAW),
        InputTaken(tag="Place", input=RAW, input_id="x", cause="client"),
        EventRecorded(tag="Placed", event=RAW),
        EffectScheduled(name="say_hello", input=RAW, deadline_ms=LATER),
        EffectScheduled(name="say_hello", input=RAW, after=4),
        EffectScheduled(name="say_hello", input=RAW, after=5),
        EffectScheduled(name="say_hello", input=RAW),
        TimerArmed(key="t", due_ms=1, tag="Wait", input=RAW),
        TimerArmed(key="t", due_ms=LATER, tag="Wait", input=RAW),
        TimerArmed(key="cancelled", due_ms=LATER, tag="Wait", input=RAW),
        TimerDisarmed(key="cancelled"),
        TimerArmed(key="gone", due_ms=2, tag="Wait", input=RAW),
        fired,
        EventRecorded(tag="Waited", event=RAW),
        ActivityFailed(schedule=5, failures=(Failure("DeadlineExceeded", ""),)),
    )
    deadline = NewTimer("deadline:4", LATER, *write_event(ANSWER))
    alarm = NewTimer("key:t", LATER, *write_event(fired))
    await accepted(
        store,
        first_turn(
            decider("order:1"),
            events=events,
            jobs=(job(4),),
            timers=(deadline, alarm),
            receipts=(given("ok", "x"),),
            unique=UniqueKey("order", "k"),
            snapshot=Snapshot(1, 2, b"{}"),
            feed=(FedEvent(2, "Placed"), FedEvent(13, "Waited")),
            observations=(observed("1"), observed("2")),
        ),
    )
    kind, body = write_event(ActivityCompleted(schedule=7, result=RAW))
    await store.deliver([message("order:1", kind=kind, body=body), queued("order:1", "y")])
    await store.deciders.settle_inputs(
        "order:never", [given("no", "x")], [observed("1", "rejected")]
    )
    await accepted(
        store,
        first_turn(
            decider("order:2"),
            events=(*events[:3], write_event(END)),
            receipts=(given("ok", "x"),),
            unique=UniqueKey("order", "k2"),
            snapshot=Snapshot(1, 1, b"{}"),
            feed=(FedEvent(2, "Placed"),),
            outcome=outcome(digest=_digest((*events[:3], write_event(END)))),
        ),
    )


async def _fill_failing(store: Store) -> None:
    """Leave instances with dead jobs."""
    for name in ("failing", "failed", "dead"):
        await accepted(
            store, first_turn(new_instance(name), events=_bodies(BEGIN, CALL), jobs=(job(2),))
        )
        [claimed] = await claim_jobs(store)
        kind, body = write_event(GAVE_UP)
        death = JobEnd(key=claimed.key, token=claimed.token, kind=kind, body=body, is_dead=True)
        await store.end_jobs([death])
    [answered] = [one for one in await claim(store) if one.instance_id == "failed"]
    end = outcome(digest=_digest(_bodies(BEGIN, CALL, GAVE_UP, END)))
    await accepted(store, turn_of(answered, now_ms=2, events=_bodies(GAVE_UP, END), outcome=end))


async def _fill_continuing(store: Store) -> None:
    """Leave one instance in its third execution, and one whose third has not begun."""
    for name in ("third", "pending"):
        start = new_instance(name)
        first = _bodies(BEGIN, KvSet(key="k", value=msgspec.Raw(b"1")), Reported(value=_SEVEN))
        bodies = (*first, write_event(GOING_ON))
        second = write_event(_following(bodies))
        begin = first_turn(
            start,
            events=bodies,
            kv=(KvChange("k", b"1"),),
            report=b"7",
            continued=continuation(start=second),
        )
        await accepted(store, begin)
        bodies = (second, write_event(GOING_ON))
        third = write_event(_following(bodies))
        turn = next_turn(
            name,
            begin.next_stamp,
            now_ms=2,
            consumed=(1,),
            events=bodies,
            continued=continuation(start=third),
        )
        await accepted(store, turn)
        if name == "third":
            stamp = turn.next_stamp
            await accepted(store, next_turn(name, stamp, consumed=(2,), seen_no=2, events=(third,)))


_SEVEN = msgspec.Raw(b"7")


def _following(bodies: Sequence[Body]) -> Started:
    return Started(
        name="greet",
        version="1.0.0",
        behaviour=1,
        input=RAW,
        kv=(KvEntry("k", msgspec.Raw(b"1"), 2),),
        report=_SEVEN,
        previous=_digest(bodies).hex(),
        since_ms=2,
    )
