"""The built-in decider of schedules: an instance per schedule, whose timer is the next slot.

A tick is decided and committed as any input is: the slot that fired, the start of its instance and
the next timer are one commit. So a slot fires once in a fleet by the fence alone; there is no
process that schedules, and no lease of its own. The id of the instance is made of the slot, and is
a second net below that.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

from perdure.authoring.deciders.decider import Decider, EndedOrchestration
from perdure.authoring.deciders.decision import Decision
from perdure.authoring.schedules import facts
from perdure.authoring.schedules.facts import Backfill, QueuedSlot, ScheduleState
from perdure.authoring.schedules.firing import Firing
from perdure.authoring.schedules.spec import ScheduleSpec
from perdure.clock import from_datetime
from perdure.model.builtins import SCHEDULE
from perdure.model.versions import is_older

ScheduleInput: TypeAlias = (
    facts.DeclareSchedule
    | facts.TickSchedule
    | facts.EndRun
    | facts.PauseSchedule
    | facts.ResumeSchedule
    | facts.TriggerSchedule
    | facts.BackfillSchedule
    | facts.ContinueBackfill
    | facts.DeleteSchedule
)
ScheduleEvent: TypeAlias = (
    facts.ScheduleDeclared
    | facts.SlotFired
    | facts.SlotSkipped
    | facts.SlotQueued
    | facts.SlotsPassed
    | facts.RunsStopped
    | facts.RunEnded
    | facts.SchedulePaused
    | facts.ScheduleResumed
    | facts.BackfillBegun
    | facts.BackfillEnded
    | facts.ScheduleDeleted
)
ScheduleRejection: TypeAlias = (
    facts.NoSchedule | facts.Unchanged | facts.Outranked | facts.NameTaken | facts.TooMuch
)


class ScheduleDecider(Decider[ScheduleState, ScheduleInput, ScheduleEvent, ScheduleRejection]):
    """Decides what a schedule starts."""

    name = SCHEDULE
    snapshot_every = 50
    keep_events = 500

    def initial(self) -> ScheduleState:
        """Return the state of a schedule that was not declared yet."""
        return ScheduleState()

    def instance_id(self, input: ScheduleInput, /) -> str:
        """Return the schedule's name."""
        return input.name

    def is_terminal(self, state: ScheduleState, /) -> bool:
        """Return whether it was deleted. What it has started goes on."""
        return state.is_deleted

    def on_ended(self, ended: EndedOrchestration, /) -> ScheduleInput | None:
        """Return what to decide when an instance has ended."""
        return facts.EndRun(
            name=ended.instance_id, instance_id=ended.orchestration_id, status=ended.status
        )

    def decide(
        self, state: ScheduleState, input: ScheduleInput, now: datetime, /
    ) -> Decision[ScheduleInput, ScheduleEvent, ScheduleRejection]:
        """Return what comes of an input."""
        now_ms = from_datetime(now)
        if isinstance(input, facts.DeclareSchedule):
            return _declare(state, input, now_ms)
        if state.spec is None:
            return Decision.reject(facts.NoSchedule())
        firing = Firing(state, state.spec, now_ms, evolved)
        match input:
            case facts.TickSchedule():
                firing.decide_due()
                return firing.decision(rearm=True)
            case facts.EndRun(instance_id=instance_id, status=status):
                firing.end_run(instance_id, status)
                return firing.decision()
            case facts.ContinueBackfill():
                firing.advance_backfills()
                return firing.decision()
            case facts.TriggerSchedule(trigger_id=trigger_id):
                return firing.trigger(trigger_id)
            case facts.BackfillSchedule():
                return firing.begin_backfill(input)
            case _:
                return _stand(firing, input)

    def evolve(self, state: ScheduleState, event: ScheduleEvent, /) -> ScheduleState:
        """Return the state after an event."""
        return evolved(state, event)


def _declare(
    state: ScheduleState, input: facts.DeclareSchedule, now_ms: int
) -> Decision[Any, Any, Any]:
    spec, known = input.spec, state.spec
    if known is None:
        firing = Firing(state, spec, now_ms, evolved)
        firing.declare(input, now_ms)
        return firing.decision(rearm=True)
    is_other = spec.orchestration != known.orchestration
    if is_other and not (input.by_code and state.by_code):
        return Decision.reject(
            facts.NameTaken(orchestration=known.orchestration, by_code=state.by_code)
        )
    if spec.is_same(known) and input.by_code == state.by_code:
        return Decision.reject(facts.Unchanged())
    if input.by_code and state.by_code and not is_other and _is_outranked(spec, known):
        return Decision.reject(facts.Outranked(version=known.version))
    firing = Firing(state, known, now_ms, evolved)
    # What is due is due under what was said before.
    has_more = state.paused is None and firing.decide_due()
    firing.declare(input, firing.state.decided_ms if has_more else now_ms)
    return firing.decision(rearm=True)


def _is_outranked(spec: ScheduleSpec, known: ScheduleSpec) -> bool:
    return bool(spec.version and known.version) and is_older(spec.version, known.version)


def _stand(firing: Firing, input: ScheduleInput) -> Decision[Any, Any, Any]:
    """Decide what people ask of the schedule as a whole."""
    state = firing.state
    match input:
        case facts.PauseSchedule(reason=reason):
            if state.paused == reason:
                return Decision.reject(facts.Unchanged())
            firing.note(facts.SchedulePaused(reason=reason))
            return firing.decision(rearm=True)
        case facts.ResumeSchedule():
            if state.paused is None:
                return Decision.reject(facts.Unchanged())
            firing.note(facts.ScheduleResumed(decided_ms=firing.now_ms))
            firing.start_queued()
            return firing.decision(rearm=True)
        case _:
            return Decision.accept(facts.ScheduleDeleted())


def evolved(state: ScheduleState, event: ScheduleEvent) -> ScheduleState:
    """Return the state after an event."""
    match event:
        case facts.ScheduleDeclared():
            return replace(
                state,
                name=event.name,
                spec=event.spec,
                by_code=event.by_code,
                decided_ms=max(state.decided_ms, event.decided_ms),
            )
        case facts.SlotFired():
            return _after_start(state, event)
        case facts.SlotSkipped(at_ms=at_ms, is_backfill=True):
            return _moved_backfill(state, at_ms)
        case facts.SlotSkipped(at_ms=at_ms):
            return replace(state, decided_ms=max(state.decided_ms, at_ms))
        case facts.SlotQueued(slot=slot, at_ms=at_ms):
            queued = QueuedSlot(slot=slot, at_ms=at_ms)
            return replace(state, queued=queued, decided_ms=max(state.decided_ms, at_ms))
        case facts.SlotsPassed(decided_ms=decided_ms):
            return replace(state, decided_ms=max(state.decided_ms, decided_ms))
        case facts.RunsStopped(how=how):
            return replace(state, stopping=how)
        case facts.RunEnded(instance_id=instance_id):
            running = tuple(one for one in state.running if one != instance_id)
            return replace(state, running=running, stopping=state.stopping if running else "")
        case _:
            return _stood(state, event)


def _stood(state: ScheduleState, event: ScheduleEvent) -> ScheduleState:
    match event:
        case facts.SchedulePaused(reason=reason):
            return replace(state, paused=reason)
        case facts.ScheduleResumed(decided_ms=decided_ms):
            return replace(state, paused=None, decided_ms=max(state.decided_ms, decided_ms))
        case facts.BackfillBegun(from_ms=from_ms, before_ms=before_ms, overlap=overlap):
            new = Backfill(after_ms=from_ms - 1, before_ms=before_ms, overlap=overlap)
            return replace(state, backfills=(*state.backfills, new))
        case facts.BackfillEnded():
            return replace(state, backfills=state.backfills[1:])
        case facts.ScheduleDeleted():
            return replace(state, is_deleted=True)
        case _:
            return state


def _after_start(state: ScheduleState, event: facts.SlotFired) -> ScheduleState:
    running = state.running
    if event.instance_id not in running:
        running = (*running, event.instance_id)
    if event.why == "backfill":
        return _moved_backfill(replace(state, running=running), event.at_ms)
    last = QueuedSlot(slot=event.slot, at_ms=event.at_ms)
    if event.why == "trigger":
        return replace(state, running=running, last=last)
    decided_ms = max(state.decided_ms, event.at_ms)
    queued = None if event.why == "queue" else state.queued
    return replace(state, running=running, last=last, decided_ms=decided_ms, queued=queued)


def _moved_backfill(state: ScheduleState, at_ms: int) -> ScheduleState:
    first, *rest = state.backfills
    return replace(state, backfills=(replace(first, after_ms=at_ms), *rest))
