"""What an accepted input asks for, put on record and made part of the turn."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from perdure.authoring.deciders.decider_definition import SEPARATOR
from perdure.authoring.deciders.decision import (
    CancelledTimer,
    Effect,
    EncodedStart,
    Sent,
    Start,
    StopRun,
    Timer,
)
from perdure.clock import to_ms
from perdure.core.deciders.decide import AcceptedInput
from perdure.core.deciders.turn import KEYED, DeciderChanges, policy_for_input
from perdure.core.identity import child_id
from perdure.model.histories.events import (
    NULL,
    ChildScheduled,
    Completed,
    EffectScheduled,
    Failure,
    InputSent,
    InputTaken,
    TimerArmed,
    TimerDisarmed,
)
from perdure.model.turns import UniqueKey


def follow(changes: DeciderChanges, judged: AcceptedInput) -> None:
    """Ask for all that an acceptance wants done, in its order."""
    previous = 0
    for follow_up in judged.decision.follow_ups:
        match follow_up:
            case Effect():
                after = previous if judged.decision.is_in_order else 0
                previous = _schedule(changes, follow_up, after)
            case Timer():
                _arm(changes, follow_up)
            case CancelledTimer(key=key):
                _disarm(changes, key)
            case Sent(instance_id=target, tagged=(tag, data)):
                name = target.partition(SEPARATOR)[0]
                send_input(changes, target, name, tag, msgspec.Raw(data))
            case Start():
                _start(changes, follow_up)
            case EncodedStart():
                _start_encoded(changes, follow_up)
            case StopRun():
                changes.stop_child(follow_up)


def _schedule(changes: DeciderChanges, effect: Effect, after: int) -> int:
    notes = changes.notes
    options, now_ms = effect.activity.options, notes.now_ms
    policy = effect.activity.effect_policy
    returns_input = notes.definition.returns_input(effect.activity)
    if returns_input:
        policy = policy_for_input(policy)
    event = EffectScheduled(
        name=effect.name,
        input=msgspec.Raw(effect.input),
        tag=options.tag,
        session=options.session,
        deadline_ms=_later(now_ms, options.deadline),
        start_by_ms=_later(now_ms, options.start_within),
        returns_input=returns_input,
        after=after,
        policy=msgspec.Raw(policy) if after else NULL,
    )
    seq = changes.append(event)
    if event.deadline_ms is not None:
        late = Failure("DeadlineExceeded", f"{event.name} did not end in time")
        changes.fail_later(f"deadline:{seq}", event.deadline_ms, seq, late)
    if not notes.open[seq].waits_for:
        begin_effect(changes, seq, policy)
    return seq


def begin_effect(changes: DeciderChanges, seq: int, policy: bytes) -> None:
    """Have an effect run whose turn it is."""
    notes = changes.notes
    call = notes.open[seq]
    if changes.add_job(seq, call, notes.open_effect(seq), policy):
        assert call.start_by_ms is not None
        notes.due_times.set(f"start:{seq}", call.start_by_ms)


def _arm(changes: DeciderChanges, timer: Timer) -> None:
    notes = changes.notes
    tag, data = timer.tagged or notes.definition.inputs.encode(timer.input)
    due_ms = timer.due_ms(notes.now_ms)
    if timer.key in notes.timers:
        changes.replace_timer(KEYED + timer.key)
    event = TimerArmed(key=timer.key, due_ms=due_ms, tag=tag, input=msgspec.Raw(data))
    changes.append(event)
    taken = InputTaken(
        tag=tag, input=event.input, cause=f"timer:{timer.key}", correlation=notes.correlation
    )
    changes.set_timer(KEYED + timer.key, due_ms, taken)


def _disarm(changes: DeciderChanges, key: str) -> None:
    if key in changes.notes.timers:
        changes.append(TimerDisarmed(key=key))
        changes.drop_timer(KEYED + key)


def send_input(
    changes: DeciderChanges, target: str, name: str, tag: str, data: msgspec.Raw
) -> None:
    """Give an input to a decider's instance."""
    event = InputSent(instance_id=target, tag=tag, input=data)
    seq = changes.append(event)
    changes.send(event, seq, name, changes.notes.correlation)


def _start(changes: DeciderChanges, start: Start) -> None:
    notes = changes.notes
    orchestration = start.orchestration
    event = ChildScheduled(
        name=orchestration.name,
        version=orchestration.version,
        instance_id=start.instance_id or child_id(notes.id, notes.last_seq + 1),
        input=msgspec.Raw(start.input),
        on_parent_close="abandon",
        delay_ms=orchestration.options.delay_ms,
    )
    changes.start_child(event, changes.append(event))


def _start_encoded(changes: DeciderChanges, start: EncodedStart) -> None:
    event = ChildScheduled(
        name=start.orchestration,
        version=start.version,
        instance_id=start.instance_id,
        input=msgspec.Raw(start.input),
        on_parent_close="abandon",
        delay_ms=start.delay_ms,
    )
    changes.start_child(event, changes.append(event), start.slot)


# ------------------------------------------------------------------- completion


def close(changes: DeciderChanges) -> None:
    """Take no more inputs; end when the effects have ended."""
    notes = changes.notes
    notes.is_closing = True
    if notes.has_effects:
        for key in list(notes.timers):
            _disarm(changes, key)
        if notes.definition.has_unique_key:
            changes.take_key(UniqueKey(notes.definition.name, None))
    complete_if_done(changes)


def complete_if_done(changes: DeciderChanges) -> None:
    """End an instance that takes no more inputs and has no open effects."""
    notes = changes.notes
    if notes.is_closing and notes.terminal is None and not notes.has_effects:
        changes.append(Completed(result=NULL))


def _later(now_ms: int, delay: timedelta | None) -> int | None:
    return None if delay is None else now_ms + to_ms(delay)
