"""One sentence on an instance: what it waits for, since when, who holds it, why nothing moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from perdure.authoring.failures import recorded
from perdure.client.reading.overview import unclaimed_key
from perdure.client.reading.summaries import Summaries
from perdure.client.reading.tallies import shown_tally
from perdure.clock import to_datetime
from perdure.core.deciders.turn import KEYED
from perdure.core.summary import Summary
from perdure.errors import RecordedError
from perdure.model import builtins
from perdure.model.admin import SessionRow
from perdure.model.histories.events import (
    ActivityScheduled,
    AskedEvent,
    ChildScheduled,
    DetachedScheduled,
    EffectScheduled,
    Failure,
    InlineScheduled,
    SignalAwaited,
    TimerScheduled,
)
from perdure.model.histories.paging import FOR_EACH
from perdure.model.instances import DefinitionKey, InstanceRow, LiveRow, Status
from perdure.model.jobs import JobKey
from perdure.model.messages import Message
from perdure.model.promises import promise_name
from perdure.model.streams import StreamHead
from perdure.model.turns import WorkerRow
from perdure.model.updates import UPDATE_PREFIX
from perdure.store.base import ExecutionKey, Store, WaitingJob
from perdure.turns.unserved import advice_on_tags, describe_queue

LISTED = 3
"""How many things an instance waits for are named; the others are counted."""

MAX_DEAD_COUNTED = 100
"""How many dead jobs of an instance are counted."""


MAX_FAILURE_SHOWN = 300
"""How much is shown of the failure of an attempt that will be made again."""


class Evidence(NamedTuple):
    """Everything the sentence is made from."""

    row: InstanceRow
    live: LiveRow | None
    definition: DefinitionKey | None
    summary: Summary
    inbox: Sequence[Message]
    jobs: Sequence[WaitingJob]
    dead: int
    sessions: Mapping[str, SessionRow]
    workers: Sequence[WorkerRow]
    now_ms: int
    tallies: Mapping[str, str] = MappingProxyType({})
    """How far a `for_each` is, in words, by the id of its coordinator."""
    streams: Sequence[StreamHead] = ()
    """What it has sent to streams."""
    schedule: str = ""
    """When it fires next, or why it does not: of a schedule."""


async def gather_evidence(
    store: Store, summaries: Summaries, row: InstanceRow, workers: Sequence[WorkerRow]
) -> Evidence:
    """Ask the store for all that the sentence needs: little of one that has ended."""
    if row.status.is_terminal:
        return await _ended_evidence(store, row)
    instance_id = row.instance_id
    live = await store.read_live(instance_id)
    if live is None:  # it has ended since its row was read
        [newer] = await store.read_instances([instance_id])
        return await _ended_evidence(store, newer or row)
    number = live.definition_no
    jobs = await store.read_jobs(instance_id)
    summary = Summary()
    # What is held may have a history that cannot be read, which is why it is held.
    if row.status is Status.RUNNING:
        key = ExecutionKey(instance_id, row.incarnation, row.execution)
        summary = await summaries.read(store, key)
    has_session = any(_session_of(event) for event, _ in summary.open.values())
    return Evidence(
        row=row,
        live=live,
        definition=None if number is None else await store.definition(number),
        summary=summary,
        inbox=await store.read_inbox(instance_id),
        jobs=jobs,
        dead=await _count_dead(store, row),
        sessions={one.session: one for one in await store.admin.read_sessions()}
        if has_session
        else {},
        workers=workers,
        now_ms=store.clock(),
        tallies=await _read_tallies(store, row, summary),
        streams=await store.streams.read_stream_heads(instance_id),
    )


async def _ended_evidence(store: Store, row: InstanceRow) -> Evidence:
    return Evidence(
        row=row,
        live=None,
        definition=None,
        summary=Summary(),
        inbox=(),
        jobs=(),
        dead=await _count_dead(store, row),
        sessions={},
        workers=(),
        now_ms=store.clock(),
    )


async def _read_tallies(store: Store, row: InstanceRow, summary: Summary) -> dict[str, str]:
    ids = [
        event.instance_id
        for event, _ in summary.open.values()
        if isinstance(event, ChildScheduled) and event.name == FOR_EACH
    ]
    if row.name == FOR_EACH:
        ids.append(row.instance_id)
    reports = await store.admin.read_reports(ids) if ids else []
    return {
        instance_id: "no page done yet" if report is None else shown_tally(report.value)
        for instance_id, report in zip(ids, reports, strict=True)
    }


def explain(evidence: Evidence) -> str:
    """Return the sentence."""
    row = evidence.row
    # A version that is still open is left out, and so is an execution that is the only one.
    what = " ".join(filter(None, ("decider" * _is_decider(row), row.name, row.version)))
    which = f", execution {row.execution}" if row.execution > 1 else ""
    which += _slot(evidence) + _gone_back(evidence)
    return (
        f"{row.instance_id} ({what}{which}) {_state(evidence)}{_sent(evidence)}{_dead(evidence)}."
    )


def _sent(evidence: Evidence) -> str:
    """Tell what an instance that goes on has sent to streams: that is how far it came. Of one that
    is held, what lets it go on is all there is to say."""
    heads = [head for head in evidence.streams if head.items]
    status = evidence.row.status
    if not heads or status.is_terminal or status.is_held:
        return ""
    named = [
        f"{head.items:,} {'item' if head.items == 1 else 'items'} to stream {head.stream!r}, the "
        f"last at {_time(head.at_ms)}"
        for head in heads[:LISTED]
    ]
    return f"; has sent {'; '.join(named)}{'; ...' if len(heads) > LISTED else ''}"


def _slot(evidence: Evidence) -> str:
    """Tell for which time of which schedule an instance was started."""
    started = evidence.summary.started
    slot = None if started is None else started.slot
    return "" if slot is None else f", for {slot.at} of schedule {slot.schedule!r}"


def _gone_back(evidence: Evidence) -> str:
    """Tell from where an execution goes on that began with the events of another one."""
    started = evidence.summary.started
    origin = None if started is None else started.origin
    if origin is None:
        return ""
    is_fork = origin.instance_id != evidence.row.instance_id
    whose = f" of {origin.instance_id!r}" if is_fork else f" of execution {origin.execution}"
    where = f"event {origin.cut}{whose}" if origin.cut else f"the start{whose}"
    why = f": {origin.reason}" if origin.reason else ""
    return f", {'forked at' if is_fork else 'reset to'} {where}{why}"


def _is_decider(row: InstanceRow) -> bool:
    return row.kind == "decider"


def _state(evidence: Evidence) -> str:
    row, live = evidence.row, evidence.live
    if row.status.is_terminal or live is None:
        return _ended(row)
    if row.status is Status.BLOCKED:
        first_line = (row.reason or "").splitlines()[0]
        return (
            f"is blocked: {first_line}; every worker tries it once, and it goes on with one whose "
            "code fits"
        )
    if row.status is Status.PARKED:
        return (
            f"is parked: {row.reason}; handle.unpark() lets it be tried again (perdure unpark "
            f"{row.instance_id})"
        )
    if live.lease and live.lease_until_ms > evidence.now_ms:
        until = _time(live.lease_until_ms)
        return f"is being worked on by {live.home or 'a worker'} (lease until {until})"
    unserved = unserved_in(evidence)
    if unserved and (evidence.inbox or evidence.summary.open or not _is_decider(row)):
        return f"cannot move: {unserved}"
    if live.stamp.next_seq == 1 and (live.wake_at_ms or 0) > evidence.now_ms:
        return f"starts at {_time(live.wake_at_ms or 0)}, as it was delayed"
    due = [
        message
        for message in evidence.inbox
        # What is no timer waits at once, also if it came while the clock was ahead.
        if message.timer_key is None or message.effective_at_ms <= evidence.now_ms
    ]
    if evidence.schedule and not due:
        return evidence.schedule
    if _is_decider(row) and not evidence.inbox and not evidence.summary.open:
        return "waits for its next input"
    if due:
        return f"has {len(due)} message(s) waiting for its next turn"
    own = evidence.tallies.get(row.instance_id)
    so_far = "" if own is None else f"is at {own}; it "
    return f"{so_far}waits for {_waits(evidence)}{_unread(evidence)}{_untaken(evidence)}"


def _unread(evidence: Evidence) -> str:
    """Name the signals that came and that no code waits for: they may be misspelled."""
    unread = dict.fromkeys(evidence.summary.unread.values())
    names = [name for name in unread if not name.startswith(UPDATE_PREFIX)]
    is_waiting = any(
        isinstance(event, SignalAwaited) for event, _ in evidence.summary.open.values()
    )
    kept = [promise for name in names if (promise := promise_name(name)) is not None]
    names = [name for name in names if promise_name(name) is None]
    told = f"; promise {kept[0]!r} was kept and is not received yet" if kept else ""
    if not names or not is_waiting:
        return told
    shown = ", ".join(map(repr, names[:LISTED])) + (", ..." if len(names) > LISTED else "")
    plural = "signal" if len(names) == 1 else "signals"
    return f"{told}; unread {plural} {shown} came, which it does not wait for"


def _untaken(evidence: Evidence) -> str:
    """Count the updates that came and that no code takes: their callers wait."""
    counts = Counter(
        name.removeprefix(UPDATE_PREFIX)
        for name in evidence.summary.unread.values()
        if name.startswith(UPDATE_PREFIX)
    )
    if not counts:
        return ""
    named = [
        f"{count} {'update' if count == 1 else 'updates'} {name!r}"
        for name, count in counts.most_common(LISTED)
    ]
    more = ", ..." if len(counts) > LISTED else ""
    return f"; holds {', '.join(named)}{more} that its code does not take"


def _why(error: RecordedError) -> str:
    """Tell an error, and the failure that it came on top of: as when an undo has failed."""
    before = error.__context__
    if not isinstance(before, RecordedError) or before.type_name == "CancelledError":
        return str(error)
    return f"{error}; raised while handling {before}"


def _ended(row: InstanceRow) -> str:
    when = "" if row.ended_ms is None else f" at {_time(row.ended_ms)}"
    why = row.reason
    if row.status is Status.FAILED and row.output is not None:
        why = _why(recorded(msgspec.json.decode(row.output, type=Failure)))
    return f"{row.status}{when}{f': {why}' if why else ''}"


def _dead(evidence: Evidence) -> str:
    if not evidence.dead:
        return ""
    count = f"{evidence.dead}{'+' if evidence.dead == MAX_DEAD_COUNTED else ''}"
    jobs = "dead job" if evidence.dead == 1 else "dead jobs"
    command = f"perdure job list --dead {evidence.row.instance_id}"
    return f"; it has {count} {jobs}, see client.dead_jobs() ({command})"


def unserved_in(evidence: Evidence) -> str:
    """Name what no live worker serves, if the instance depends on it; nothing otherwise."""
    key = evidence.definition
    if key is not None:
        needs = unclaimed_key(key, evidence.workers)
        if needs is not None:
            cure = f"; hand it to one, as in Engine(url, [{key.name}])"
            is_orchestration = key.kind == "orchestration"
            return f"unclaimed: {needs}, which no live worker has{cure * is_orchestration}"
    served = {key for worker in evidence.workers for key in worker.definitions}
    for job in evidence.jobs:
        if job.queue not in served and job.worker_id is None:
            advice = advice_on_tags(job.queue, evidence.workers)
            why = f" ({advice})" if advice else ""
            return f"no live worker serves {describe_queue(job.queue)}{why}"
    return ""


def _waits(evidence: Evidence) -> str:
    jobs = {job.key.seq: job for job in evidence.jobs}
    waiting = [
        (event, at_ms, jobs.get(seq)) for seq, (event, at_ms) in evidence.summary.open.items()
    ]
    timers = [timer for timer in evidence.inbox if (timer.timer_key or "").startswith(KEYED)]
    if not waiting and not timers:
        return (
            "its first turn"
            if evidence.summary.started is None
            else "something inside its own code that no open call can bring about"
        )
    named = [_one(event, at_ms, job, evidence) for event, at_ms, job in waiting[:LISTED]]
    named += [
        f"timer {(timer.timer_key or '').removeprefix(KEYED)!r} due {_time(timer.effective_at_ms)}"
        for timer in timers[: LISTED - len(named)]
    ]
    if len(waiting) + len(timers) > LISTED:
        named.append(f"{len(waiting) + len(timers) - LISTED} more")
    return ", ".join(named)


def _one(event: AskedEvent, at_ms: int, job: WaitingJob | None, evidence: Evidence) -> str:
    since = f" since {_time(at_ms)}"
    match event:
        case ActivityScheduled(name=name) if name.startswith(builtins.RESERVED_PREFIX):
            return f"{_builtin(event)}{since}"
        case ActivityScheduled(name=name):
            return f"activity {name!r}{since}{_run_of(job, event, evidence)}"
        case InlineScheduled(name=name):
            return f"activity {name!r}{since}{_run_of(job, event, evidence)}"
        case EffectScheduled(name=name, after=after) if after and job is None:
            return f"effect {name!r}, after the one before it"
        case EffectScheduled(name=name):
            return f"effect {name!r}{since}{_run_of(job, event, evidence)}"
        case ChildScheduled(instance_id=child_id):
            tally = evidence.tallies.get(child_id)
            return f"child {child_id!r}{since}{f' ({tally})' if tally else ''}"
        case DetachedScheduled(instance_id=other_id):
            return f"the start of {other_id!r}{since}"
        case SignalAwaited(name=name):
            return f"{_awaited(name)}{since}"
        case TimerScheduled(due_ms=due_ms):
            return f"a timer due {_time(due_ms)}"
    return event.kind


def _awaited(name: str) -> str:
    """Name a signal that code waits for, or the update that it is."""
    if name.startswith(UPDATE_PREFIX):
        return f"update {name.removeprefix(UPDATE_PREFIX)!r}"
    promise = promise_name(name)
    if promise is not None:
        return f"promise {promise!r}, which whoever has its token keeps,"
    return f"signal {name!r}"


class _Target(msgspec.Struct):
    """What the inputs of all built-in activities have in common."""

    instance_id: str


def _builtin(event: ActivityScheduled) -> str:
    target = msgspec.json.decode(event.input, type=_Target).instance_id
    match event.name:
        case builtins.RESULT:
            return f"the result of instance {target!r}"
        case builtins.SEND:
            return f"a signal to instance {target!r} to be sent"
        case builtins.UPDATE:
            return f"the answer of instance {target!r} to an update"
        case builtins.CANCEL:
            return f"instance {target!r} to be asked to stop"
        case builtins.SEND_INPUT:
            return f"an input to {target!r} to be sent"
        case builtins.EXECUTE:
            return f"a decision of {target!r}"
        case builtins.WAIT_EVENT:
            return f"an event of {target!r}"
    return f"a value of instance {target!r}"


def _run_of(job: WaitingJob | None, event: AskedEvent, evidence: Evidence) -> str:
    if job is None:
        return ""
    if job.worker_id is not None:
        return f" (attempt {job.attempt}, on {job.worker_id})"
    if job.misfit:
        return f" (waits for a worker whose code fits: {job.misfit})"
    if job.attempt and job.visible_at_ms > evidence.now_ms:
        why = "" if job.failure is None else f": {_shortened(_why(recorded(job.failure)))}"
        return f" (attempt {job.attempt} failed{why}, next one {_time(job.visible_at_ms)})"
    session = evidence.sessions.get(_session_of(event) or "")
    held = ""
    if session is not None and session.until_ms > evidence.now_ms:
        held = f", for session {session.session!r}, which {session.owner} has"
    start_by = None
    if isinstance(event, ActivityScheduled | EffectScheduled):
        start_by = event.start_by_ms
    until = "" if start_by is None else f", to start by {_time(start_by)}"
    return f" (queued{held}{until})"


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_FAILURE_SHOWN else f"{text[:MAX_FAILURE_SHOWN]}..."


def _session_of(event: AskedEvent) -> str | None:
    return event.session if isinstance(event, ActivityScheduled | EffectScheduled) else None


async def _count_dead(store: Store, row: InstanceRow) -> int:
    # Dead jobs come in order of their keys, so those of one instance lie beside each other.
    before = JobKey(row.instance_id, 0, 0, 0)
    dead = await store.admin.read_dead_jobs(limit=MAX_DEAD_COUNTED, after=before)
    ours = (row.instance_id, row.incarnation)
    return sum(1 for job in dead if job.key[:2] == ours)


def _time(at_ms: int) -> str:
    return f"{to_datetime(at_ms):%Y-%m-%d %H:%M:%S} UTC"
