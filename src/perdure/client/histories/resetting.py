"""Going back and branching off: read a history, work out what is kept of it, commit that.

Works without a worker and without the code of the orchestration. A reset is fenced like a turn: if
the instance has moved on meanwhile, its history is read again. What was open is opened again by the
worker that takes the first turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from perdure.client.histories.moving import OrchestrationVersion, check_move
from perdure.client.histories.points import Point, find_cut
from perdure.clock import not_before
from perdure.core.guard import Guard
from perdure.core.identity import ExecutionId
from perdure.core.orchestrations.execution import Execution
from perdure.core.rewinding import (
    Cut,
    MovedVersion,
    NewBeginning,
    Source,
    cut_at,
    cut_before,
    fork_of,
    reset_of,
)
from perdure.core.summary import Summary
from perdure.errors import (
    AlreadyExistsError,
    InstanceNotFoundError,
    InstanceRunningError,
    NondeterminismError,
    StoreUnavailableError,
    UsageError,
)
from perdure.ids import fresh_id
from perdure.model.histories.events import (
    ActivityFailed,
    ActivityScheduled,
    CancelRequested,
    ChildFailed,
    ChildScheduled,
    Event,
    Failed,
    Failure,
    InlineScheduled,
    Started,
    StoredEvent,
    Terminated,
    UnreadableEventError,
    UpdateAnswered,
    WentBack,
    read_event,
)
from perdure.model.histories.paging import results_plan
from perdure.model.instances import DefinitionKey, InstanceRow, NewInstance, Stamp, Status
from perdure.model.turns import Turn, TurnStatus
from perdure.store.base import ExecutionKey

if TYPE_CHECKING:
    from perdure.client.core import ClientCore

MAX_TRIES = 500
PAUSE_AFTER = 4
PAUSE_S = 0.01
"""How often a reset is tried against an instance that keeps moving, and the pause between tries
after the first few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    """What a reset or fork would do. `mismatch` is the difference that the code here would be
    blocked by."""

    kept_events: int
    dropped_events: int
    runs_again: tuple[str, ...]
    """Activities that were open there, and those that were called behind it."""
    children_again: tuple[str, ...]
    """Ids of the children that were open there, and of those that were started behind it. They are
    started again under other ids."""
    signals_kept: int
    """How many signals that came behind it come again, unread."""
    mismatch: str | None
    checked: bool = False
    """Whether the code is here, so that a mismatch would have been found."""
    inputs_kept: tuple[str, ...] = ()
    """Calls in what is kept whose arguments the code here would make differently: the recorded ones
    stand."""
    updates_answered: tuple[str, ...] = ()
    """Ids of updates that were answered behind it. Their callers were told something; the requests
    come again, and the first answers stand."""
    refused: str | None = None
    """Why `reset` would refuse; None: it would not."""


class Found(NamedTuple):
    """An instance whose history was read."""

    row: InstanceRow
    stamp: Stamp
    source: Source
    """With an answer that waits for a reset execution to begin as its last event."""
    start: Started


async def find_source(core: ClientCore, instance_id: str) -> Found:
    """Read the present execution of an instance.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: It is a decider's, a part of a `for_each`, or has not begun.
    """
    for tries in range(MAX_TRIES):
        found = await _read_source(core, instance_id)
        if found is not None:
            return found
        if tries >= PAUSE_AFTER:
            await asyncio.sleep(PAUSE_S)
    raise _kept_moving(instance_id)


async def _read_source(core: ClientCore, instance_id: str) -> Found | None:
    """Return an instance as it is; None if it moved on while it was read."""
    store = core.store
    [row] = await store.read_instances([instance_id])
    if row is None:
        raise InstanceNotFoundError(instance_id)
    if row.kind == "decider":
        raise UsageError(
            f"instance {instance_id!r} is a decider's: its events are facts and are not taken "
            "back. Read client.state(..., at=) or try an input with client.dry_run, and give it "
            "an input that puts things right"
        )
    refuse_part(row)
    live = None if row.status.is_terminal else await store.read_live(instance_id)
    if live is None and not row.status.is_terminal:
        return None
    execution = row.execution if live is None else live.stamp.execution
    present = ExecutionId(instance_id, row.incarnation, execution)
    [history] = await store.read_histories([ExecutionKey(*present)])
    if live is not None and live.stamp.place != (*present[1:], len(history) + 1):
        return None
    if not history:
        raise UsageError(
            f"instance {instance_id!r} has not begun: there is nothing to go back to yet"
        )
    start = read_event(history[0].kind, history[0].body)
    assert isinstance(start, Started), "a history begins with its start"
    stamp = Stamp(*present[1:], len(history) + 1) if live is None else live.stamp
    waiting: list[StoredEvent] = []
    if live is not None and start.origin is not None and start.origin.cut == len(history):
        waiting = await _waiting_answer(core, present, len(history))
    source = Source(present, [*history, *waiting], row.status.is_terminal, len(waiting))
    return Found(row, stamp, source, start)


def refuse_part(row: InstanceRow) -> None:
    """Refuse to have an instance do again what it did, if that sends results of a `for_each` to the
    stream of another one.

    Raises:
        UsageError: It is a part of one with `results=`.
    """
    part = results_plan(row.name, row.input)
    if part is not None:
        raise UsageError(
            f"instance {row.instance_id!r} is a part of a for_each with results=, and would send "
            f"some of them twice: go back with instance {part.results_of or row.parent_id!r}, "
            "which called it"
        )


async def _waiting_answer(core: ClientCore, id: ExecutionId, seq: int) -> list[StoredEvent]:
    """Return the answer that was kept by a reset from which no worker has gone on yet."""
    inbox = await core.store.read_inbox(id.instance_id)
    return [
        StoredEvent(seq + 1, message.kind, message.effective_at_ms, message.body)
        for message in inbox
        if message.execution == id.execution
        and message.timer_key is None
        and message.kind not in (WentBack.kind, Started.kind)
    ][:1]


# ---------------------------------------------------------------------- doing it


async def reset(
    core: ClientCore,
    instance_id: str,
    point: Point | None,
    reason: str,
    only: tuple[int, int] | None,
    moves_to: OrchestrationVersion | None = None,
) -> bool:
    """Let the next execution of an instance begin with a part of its history; return whether it
    does. Where an incarnation and execution are given, only that one is left; where a version is,
    it goes on with that one.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: It cannot be reset, or has no such point.
        StoreUnavailableError: It kept moving.
    """
    tried: set[int] = set()
    for tries in range(MAX_TRIES):
        found = await find_source(core, instance_id)
        origin = found.start.origin
        if origin is not None and origin.commit_id in tried:
            return True  # It happened, and the answer was lost.
        if only is not None and found.stamp.key != only:
            return False
        commit_id = fresh_id()
        tried.add(commit_id)
        cut = choose_cut(found, point)
        refusal = _refusal(found, cut, point)
        if refusal is not None:
            raise UsageError(refusal)
        moved = _moved(core, found, moves_to)
        begun = reset_of(found.source, cut, commit_id=commit_id, reason=reason, moved=moved)
        if await _commit(core, found, begun, commit_id):
            core.metrics.client_resets.add((found.row.name, found.row.version))
            core.noticed_reset(instance_id, found.stamp)
            return True
        if tries >= PAUSE_AFTER:
            await asyncio.sleep(PAUSE_S)
    raise _kept_moving(instance_id)


async def _commit(core: ClientCore, found: Found, begun: NewBeginning, commit_id: int) -> bool:
    turn = Turn(
        instance_id=found.row.instance_id,
        stamp=found.stamp,
        commit_id=commit_id,
        now_ms=not_before(found.source.history[-1].at_ms, core.store.clock()),
        worker_id="",
        seize=True,
        deliveries=begun.deliveries,
        definition=_definition_of(begun.start) if _is_moved(found, begun) else None,
        rewound=begun.rewind,
    )
    [receipt] = await core.store.commit([turn])
    if receipt.error is not None:
        raise receipt.error
    return receipt.status is TurnStatus.ACCEPTED


async def fork(
    core: ClientCore,
    instance_id: str,
    new_id: str,
    point: Point | None,
    moves_to: OrchestrationVersion | None = None,
) -> None:
    """Start another instance with a part of the history of one, which is left as it is; on another
    version, if one is given.

    Raises:
        InstanceNotFoundError: There is no such instance.
        AlreadyExistsError: The new id is taken.
        UsageError: It cannot be forked, or has no such point.
    """
    found = await find_source(core, instance_id)
    cut = choose_cut(found, point)
    own = ExecutionId(new_id, fresh_id(), 1)
    commit_id = fresh_id()
    moved = _moved(core, found, moves_to)
    begun = fork_of(found.source, cut, own, commit_id=commit_id, moved=moved)
    kind, body = begun.rewind.first
    row = found.row
    new = NewInstance(
        instance_id=new_id,
        incarnation=own.incarnation,
        definition=_definition_of(begun.start),
        input=bytes(found.start.input),
        start_kind=kind,
        start_body=body,
        created_ms=core.store.clock(),
        commit_id=commit_id,
        forked=begun.rewind,
    )
    [existing] = await core.store.start([new])
    if existing is not None:
        raise AlreadyExistsError(new_id, "and was not forked to", advice="use another id")
    core.metrics.client_forks.add((row.name, row.version))
    core.noticed_work()


def _moved(
    core: ClientCore, found: Found, moves_to: OrchestrationVersion | None
) -> MovedVersion | None:
    """Return the version that an instance is moved to.

    Raises:
        UsageError: It is one of another orchestration.
    """
    if moves_to is None:
        return None
    check_move(found.row.instance_id, found.row.name, moves_to)
    if moves_to.version == found.start.version:
        return None
    return MovedVersion(moves_to.version, core.code_of(*moves_to))


def _is_moved(found: Found, begun: NewBeginning) -> bool:
    return begun.start.version != found.start.version


def _definition_of(start: Started) -> DefinitionKey:
    return DefinitionKey("orchestration", start.name, start.version, start.behaviour)


def _refusal(found: Found, cut: Cut, point: Point | None) -> str | None:
    """Return why an instance is not reset: callers of updates were answered behind the point, which
    was not chosen by its number."""
    told = _updates_answered(found.source.history, cut)
    if not told or (point is not None and point.side == "event"):
        return None
    many = f"{len(told)} updates were" if len(told) > 1 else f"update {told[0]!r} was"
    return (
        f"{many} answered behind this point of instance {found.row.instance_id!r}: the callers "
        "keep their answers, and the code takes the requests again. If that is meant, name the "
        f"event: handle.reset(at_event({max(cut.kept, cut.answer)}))"
    )


def _updates_answered(history: Sequence[StoredEvent], cut: Cut) -> tuple[str, ...]:
    behind = [_event(one) for one in history[cut.kept :] if one.kind == UpdateAnswered.kind]
    return tuple(event.update_id for event in behind if isinstance(event, UpdateAnswered))


def _kept_moving(instance_id: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{instance_id} could not be reset: it kept moving during {MAX_TRIES} tries; try again"
    )


# ------------------------------------------------------------------ where it is cut


def choose_cut(found: Found, point: Point | None) -> Cut:
    """Return how much is kept; without a point, all up to what the instance failed at.

    Raises:
        UsageError: There is no such point, or none can be chosen.
    """
    row, history = found.row, found.source.history
    if point is not None:
        return find_cut(point, history, row.instance_id, waiting=found.source.waiting)
    match row.status:
        case Status.FAILED:
            return _before_failure(history)
        case Status.CANCELLED | Status.TERMINATED:
            return _before_stop(history)
        case Status.BLOCKED | Status.PARKED:
            raise UsageError(
                f"instance {row.instance_id!r} is {row.status}, which needs no reset: it goes on "
                "when a worker has code that fits, or after handle.unpark(). To go back all the "
                "same, name a point: handle.reset(before(call))"
            )
        case Status.RUNNING:
            raise InstanceRunningError(
                row.instance_id,
                row.status,
                "it failed at nothing that could be tried again; name the point to go back to: "
                "handle.reset(before(call))",
            )
    raise UsageError(
        f"instance {row.instance_id!r} is {row.status} and failed at nothing: name the point to "
        "go back to, handle.reset(before(call))"
    )


def _before_failure(history: Sequence[StoredEvent]) -> Cut:
    """Return the cut before the call that made an instance fail; if its own code raised, before the
    last message, which comes again."""
    last = _event(history[-1])
    assert isinstance(last, Failed), "a failed instance ends with its failure"
    for stored in reversed(history):
        event = _event(stored)
        if isinstance(event, ActivityFailed | ChildFailed) and _is_cause(event, last.failure):
            return cut_before(history, stored.seq)
    return cut_at(history, len(history))


def _is_cause(event: ActivityFailed | ChildFailed, failure: Failure) -> bool:
    """Return whether a failed call is what a failure says, or what it came from."""
    cause = event.failure if isinstance(event, ChildFailed) else event.failures[-1]
    told = [(failure.type_name, failure.message), *_causes(failure)]
    return any(
        cause.message in message and cause.type_name.rpartition(".")[2] in f"{kind} {message}"
        for kind, message in told
    )


def _causes(failure: Failure) -> list[tuple[str, str]]:
    found, left = [], list(failure.causes)
    while left:
        cause = left.pop()
        found.append((cause.type_name, cause.message))
        left.extend(cause.causes)
    return found


def _before_stop(history: Sequence[StoredEvent]) -> Cut:
    """Return the cut before an instance was asked to stop."""
    for stored in history:
        if stored.kind in (CancelRequested.kind, Terminated.kind):
            return cut_before(history, stored.seq)
    return cut_at(history, len(history))


def _event(stored: StoredEvent) -> Event:
    return read_event(stored.kind, stored.body)


# ------------------------------------------------------------------------ a plan


async def plan(
    core: ClientCore,
    instance_id: str,
    point: Point | None,
    moves_to: OrchestrationVersion | None = None,
) -> ResetPlan:
    """Return what a reset would do. Writes nothing.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: It cannot be reset, or has no such point.
    """
    found = await find_source(core, instance_id)
    cut = choose_cut(found, point)
    moved = _moved(core, found, moves_to)
    begun = reset_of(found.source, cut, commit_id=0, reason="", moved=moved)
    answer = 1 if cut.answer and cut.kept else 0
    calls: list[str] = []
    children: list[str] = []
    answered = _answered(found.source.history, cut)
    open_then = Summary(found.source.history[: cut.kept]).open
    behind = [_event(stored) for stored in found.source.history[cut.kept :]]
    asked = [event for seq, (event, _) in open_then.items() if seq != answered]
    for event in (*asked, *behind):
        if isinstance(event, ActivityScheduled | InlineScheduled):
            calls.append(event.name)
        elif isinstance(event, ChildScheduled):
            children.append(event.instance_id)
    checked, mismatch, differing = _try_code(core, found, begun)
    stored = len(found.source.history) - found.source.waiting
    return ResetPlan(
        kept_events=cut.kept + answer,
        dropped_events=max(stored - cut.kept - answer, 0),
        runs_again=tuple(calls),
        children_again=tuple(children),
        signals_kept=len(begun.rewind.unread),
        mismatch=mismatch,
        checked=checked,
        inputs_kept=tuple(differing),
        updates_answered=_updates_answered(found.source.history, cut),
        refused=_refusal(found, cut, point),
    )


def _answered(history: Sequence[StoredEvent], cut: Cut) -> int:
    if not cut.answer:
        return 0
    schedule: int = getattr(_event(history[cut.answer - 1]), "schedule", 0)
    return schedule


def _try_code(
    core: ClientCore, found: Found, begun: NewBeginning
) -> tuple[bool, str | None, list[str]]:
    """Replay what is kept with the code of this process, if it is here. Nothing is written."""
    name, version = found.row.name, begun.start.version
    code = core.find_code(found.row.name, version)
    if code is None or not begun.rewind.prefix:
        return code is not None, None, []
    own = found.source.id._replace(execution=found.source.id.execution + 1)
    digest = core.code_of(name, version)
    guard = Guard(watch_calls=True)
    execution = Execution(code, own, digest, guard, version=version)
    try:
        execution.replay(begun.rewind.prefix)
    except (NondeterminismError, UnreadableEventError) as error:
        return True, str(error), []
    finally:
        execution.tear_down()
    kept = [] if execution.taken_over is None else execution.taken_over.kept
    events = [_event(begun.rewind.prefix[seq - 1]) for seq in kept]
    return True, None, [getattr(event, "name", event.kind) for event in events]
