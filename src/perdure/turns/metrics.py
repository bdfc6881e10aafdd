"""Counting what turns come to, each thing once and only when the store has accepted it.

Called with the store's answers: a turn that was refused counts as refused and as nothing else, a
replay is never seen here. What the counting costs is paid for every turn, so the common ones do
little: a loop over their few events, and a handful of dictionaries.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from perdure.authoring.deciders.decision import AlreadyCompleted, Rejected
from perdure.core.deciders.execution import DeciderExecution
from perdure.limits import HISTORY_WARNING_BYTES, HISTORY_WARNING_EVENTS
from perdure.model.builtins import SCHEDULE
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    Cause,
    EventRecorded,
    Failure,
    InputRejected,
    InputTaken,
    read_event,
)
from perdure.model.instances import DefinitionKey, Status
from perdure.model.jobs import JobEnd
from perdure.model.streams import ForwardedItems, SentItems
from perdure.model.turns import Hold, InstanceEnd, Turn, TurnReceipt
from perdure.telemetry import Metrics

if TYPE_CHECKING:
    from perdure.turns.any_execution import AnyExecution
    from perdure.turns.direct.waiting_input import WaitingInput
    from perdure.turns.hot import HotInstance
from perdure.turns.tally import ChildEnd

logger = logging.getLogger(__name__)

MAX_NAMES = 5
"""How many classes of a chain of causes a log line names."""

_SLOTS = {
    "SlotFired": "fired",
    "SlotQueued": "queued",
    "SlotSkipped": "skipped",
    "SlotsPassed": "missed",
}
"""What events of a schedule say of its slots."""

_LABELS = {status: status.value for status in Status}  # asking a member is several times slower


class TurnMetrics:
    """Counts the turns of one process, and the ends of jobs that they took."""

    def __init__(self, metrics: Metrics, *, worker_id: str) -> None:
        self.metrics = metrics
        self._worker_id = worker_id

    # -------------------------------------------------------------------- turns

    def accepted(self, hot: HotInstance, turn: Turn) -> None:
        """A turn was committed."""
        metrics, tally, execution = self.metrics, hot.tally, hot.execution
        name, version = execution.name, execution.version
        bytes_before, cancels_before = tally.bytes, tally.cancels
        if ended := tally.add(turn):
            self._children_ended(name, ended)
        if not version:
            self._decided(execution, turn)
            return
        first_seq = turn.stamp.next_seq
        events = first_seq - 1 + len(turn.events)
        if first_seq == 1:
            metrics.starts.add((name, version, _initiator(execution)))
        if tally.cancels != cancels_before:
            metrics.cancellations.add((name, version))
        if not turn.is_plain:
            self._sent(turn.sent, turn.forwarded)
        if turn.job_ends:
            self.jobs_ended(turn.job_ends)
        if turn.outcome is not None:
            # Of one that was terminated before its first turn nothing began.
            took_ms = turn.now_ms - (execution.since_ms or turn.now_ms)
            self._instance_ended(execution, turn.outcome, took_ms)
            self._execution_ended(name, tally.turns, events)
        elif turn.continued is not None:
            metrics.continued.add((name, version))
            self._execution_ended(name, tally.turns, events)
        if events >= HISTORY_WARNING_EVENTS or tally.bytes >= HISTORY_WARNING_BYTES:
            self._look_at_growth(hot, turn, events, bytes_before)

    def _children_ended(self, name: str, ended: Iterable[ChildEnd]) -> None:
        for child in ended:
            labels = (name, child.name, child.outcome)
            self.metrics.child_calls.add(labels)
            self.metrics.child_duration.observe(labels, child.took_ms / 1000)

    def _sent(
        self, sent: tuple[SentItems, ...], forwarded: tuple[ForwardedItems, ...] = ()
    ) -> None:
        for one in sent:
            self.metrics.stream_items.add((one.stream,), len(one.items))
        for other in forwarded:
            self.metrics.stream_items.add((other.stream,), len(other.items))

    def _decided(self, execution: AnyExecution, turn: Turn) -> None:
        """A turn of a decider was committed."""
        metrics, name = self.metrics, execution.name
        assert isinstance(execution, DeciderExecution), "an orchestration has a version"
        if execution.unheeded:
            self._warn_of_failures(execution)
        if turn.job_ends:
            self.jobs_ended(turn.job_ends)
        for buried in turn.jobs_buried:
            metrics.dead_jobs.add((buried.queue.name, buried.queue.variant or "default"))
        kinds = [kind for kind, _ in turn.events]
        rejected = kinds.count(InputRejected.kind)
        accepted = kinds.count(InputTaken.kind) - rejected
        if accepted:
            metrics.inputs.add((name, "accepted"), by=accepted)
        if rejected:
            metrics.inputs.add((name, "rejected"), by=rejected)
        if turn.feed:
            metrics.events.add((name,), by=len(turn.feed))
        if turn.outcome is not None:
            metrics.decider_ends.add((name, _LABELS[turn.outcome.status]))
        if name == SCHEDULE:
            self._slots(turn)

    def _slots(self, turn: Turn) -> None:
        """A schedule has decided."""
        schedule = turn.instance_id.partition(":")[2]
        for kind, body in turn.events:
            event = read_event(kind, body) if kind == EventRecorded.kind else None
            outcome = _SLOTS.get(event.tag) if isinstance(event, EventRecorded) else None
            if outcome is not None:
                self.metrics.slots.add((schedule, outcome))

    def answered(self, name: str, asked: Iterable[WaitingInput]) -> None:
        """Callers of `execute` get their answers: count those that left nothing in a history."""
        for one in asked:
            outcome = None if one.answer is None else one.answer.outcome
            match outcome:
                case Rejected():
                    self.metrics.inputs.add((name, "rejected"))
                case AlreadyCompleted():
                    self.metrics.inputs.add((name, "completed"))

    def _instance_ended(self, execution: AnyExecution, outcome: InstanceEnd, took_ms: int) -> None:
        label = _LABELS[outcome.status]
        self.metrics.instance_ended(execution.name, execution.version, label, took_ms / 1000)
        if outcome.status is Status.FAILED:
            self._failed(execution, outcome)

    def _execution_ended(self, name: str, turns: int, events: int) -> None:
        labels = (name,)
        self.metrics.turns.observe(labels, turns)
        self.metrics.history_size.observe(labels, events)

    def refused(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt | None) -> None:
        """A turn was refused: nothing of it happened, but the store may have kept results of jobs.

        Args:
            hot: Whose turn it was.
            turn: The turn.
            receipt: The store's answer; None if it could not store the turn at all.
        """
        self.metrics.refused.add((hot.execution.name,))
        if receipt is not None and receipt.ends_kept:
            ends = zip(turn.job_ends, receipt.ends_kept, strict=True)
            self.jobs_ended([end for end, is_kept in ends if is_kept])

    def held(self, name: str, status: Status) -> None:
        """An instance was blocked or parked."""
        self.metrics.held.add((name, status.value))

    def facts_of_hold(self, hold: Hold, definition: DefinitionKey) -> dict[str, object]:
        """Return what a log line says about an instance that is held."""
        return {
            "instance_id": hold.instance_id,
            "execution": hold.stamp.execution,
            "definition": definition.name,
            "version": definition.variant,
            "worker_id": self._worker_id,
        }

    # --------------------------------------------------------------------- jobs

    def jobs_ended(self, ends: Iterable[JobEnd]) -> None:
        """The store has taken the ends of attempts that ran here."""
        metrics = self.metrics
        for end in ends:
            if end.sent:
                self._sent(end.sent)
            ran = end.ran
            if ran is None:
                continue
            activity, tag, took_s = ran
            if end.kind is None:
                if end.failure is not None:
                    metrics.retries.add((activity, tag))
                    self._say_failed(end, activity, end.failure, "is tried again")
                continue
            outcome = "completed"
            if end.kind != ActivityCompleted.kind:
                outcome = "failed"
                self._say_failed(end, activity, _last_failure(end), "is not tried again")
            labels = (activity, outcome, tag)
            metrics.executions.add(labels)
            metrics.activity_duration.observe(labels, took_s)
            if end.is_dead:
                metrics.dead_jobs.add((activity, tag))

    # ------------------------------------------------------------------ log lines

    def _failed(self, execution: AnyExecution, outcome: InstanceEnd) -> None:
        failure = _failure_in(outcome)
        self.metrics.failures.add((execution.name, execution.version, failure.type_name))
        facts = facts_of(execution, self._worker_id)
        logger.info(
            "instance %r (%s) failed: %s",
            execution.instance_id,
            execution.name,
            _shown(failure),
            extra={**facts, "error_type": failure.type_name, "raised_at": _place_of(failure)},
        )

    def _say_failed(
        self, end: JobEnd, activity: str, failure: Failure | None, what_now: str
    ) -> None:
        """Say that an attempt of an activity has failed, and where."""
        if failure is None:
            return
        logger.info(
            "activity %r of instance %r failed and %s: %s",
            activity,
            end.key.instance_id,
            what_now,
            _shown(failure),
            extra={
                "instance_id": end.key.instance_id,
                "execution": end.key.execution,
                "activity": activity,
                "error_type": failure.type_name,
                "raised_at": _place_of(failure),
                "worker_id": self._worker_id,
            },
        )

    def _warn_of_failures(self, execution: DeciderExecution) -> None:
        """Say which effects have failed for good without an input that came of it."""
        for failed in execution.unheeded:
            logger.warning(
                "effect %r of decider %r failed for good, and no input came of it: instance %r, "
                "%s, %s; dead_jobs() has it%s, and retry_dead_job() runs it again",
                failed.activity,
                execution.name,
                execution.definition.own_id(execution.instance_id),
                "too late" if failed.is_late else f"after {failed.attempts} attempt(s)",
                failed.type_name,
                # Its end may be in the inbox already.
                " unless it has ended meanwhile" if failed.is_late else "",
                extra={**facts_of(execution, self._worker_id), "activity": failed.activity},
            )

    def _look_at_growth(self, hot: HotInstance, turn: Turn, events: int, bytes_before: int) -> None:
        """Warn of a history that has become long, once, and again whenever it has doubled."""
        size = hot.tally.bytes
        if not (
            _is_crossed(HISTORY_WARNING_EVENTS, turn.stamp.next_seq - 1, events)
            or _is_crossed(HISTORY_WARNING_BYTES, bytes_before, size)
        ):
            return
        hours = max(turn.now_ms - hot.tally.since_ms, 1) / 3_600_000
        logger.warning(
            "the history of instance %r (%s) grows long, %d events and %d bytes by now; "
            "continue_as_new begins a new one",
            hot.execution.instance_id,
            hot.execution.name,
            events,
            size,
            extra={
                **facts_of(hot.execution, self._worker_id),
                "events": events,
                "bytes": size,
                "events_per_hour": round(events / hours),
                "bytes_per_hour": round(size / hours),
            },
        )


def facts_of(execution: AnyExecution, worker_id: str) -> dict[str, object]:
    """Return what every log line about an execution says."""
    return {
        "instance_id": execution.instance_id,
        "execution": execution.execution,
        "definition": execution.name,
        "version": execution.version,
        "worker_id": worker_id,
    }


def _initiator(execution: AnyExecution) -> str:
    if execution.execution > 1:
        return "continue_as_new"
    if execution.parent is not None:
        return "parent"
    return "detached" if execution.started_by else "client"


def _failure_in(outcome: InstanceEnd) -> Failure:
    assert outcome.output is not None, "a failed instance has its failure"
    return msgspec.json.decode(outcome.output, type=Failure)


def _last_failure(end: JobEnd) -> Failure | None:
    """Return what the last attempt of a job failed with, of one that is not tried again."""
    if end.failure is not None or end.kind != ActivityFailed.kind:
        return end.failure
    event = read_event(end.kind, end.body)
    return event.failures[-1] if isinstance(event, ActivityFailed) else None


def _shown(failure: Failure) -> str:
    """Return what a log line may say of a failure: classes and a place, never its text."""
    place = _place_of(failure)
    names = [failure.type_name]
    cause = failure.causes[0] if failure.causes and not failure.place else None
    while cause is not None and len(names) < MAX_NAMES:
        names.append(cause.type_name)
        cause = cause.causes[0] if cause.causes and not cause.place else None
    return f"{' < '.join(names)}{f' at {place}' if place else ''}"


def _place_of(failure: Failure | Cause) -> str:
    """Return where a failure began, which may be in an activity or a child."""
    while not failure.place and failure.causes:
        failure = failure.causes[0]
    return failure.place


def _is_crossed(first: int, before: int, after: int) -> bool:
    """Return whether a number has reached the first mark, or one of its doublings."""
    mark = first
    while mark <= before:
        mark *= 2
    return after >= mark
