"""What a decision asks for, put on record and made part of the turn."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from perdure.authoring.decider_definition import SEPARATOR
from perdure.authoring.decision import CancelledTimer, Effect, Sent, Start, Timer
from perdure.clock import to_ms
from perdure.core.deciders.decide import AcceptedInput
from perdure.core.deciders.notes import DeciderNotes
from perdure.core.deciders.turn import KEYED, DeciderChanges, policy_for_input
from perdure.core.identity import child_id
from perdure.model.events import (
    NULL,
    ChildScheduled,
    Completed,
    EffectScheduled,
    Event,
    Failure,
    InputSent,
    InputTaken,
    TimerArmed,
    TimerDisarmed,
    write_event,
)
from perdure.model.turns import UniqueKey


class DeciderAsking(DeciderNotes):
    """An execution that asks for things, in a turn."""

    __slots__ = ("_changes",)

    _changes: DeciderChanges
    """Of the turn that runs, or ran last."""

    def _append(self, event: Event) -> int:
        """Put an event on record; return its number."""
        written = write_event(event)
        self.last_seq += 1
        self._digest.feed(written.kind, self.now_ms, written.body)
        self._changes.events.append(written)
        self._note(event, self.last_seq)
        return self.last_seq

    def _follow(self, judged: AcceptedInput) -> None:
        """Ask for all that an acceptance wants done, in its order."""
        previous = 0
        for follow_up in judged.decision.follow_ups:
            match follow_up:
                case Effect():
                    after = previous if judged.decision.is_in_order else 0
                    previous = self._schedule(follow_up, after)
                case Timer():
                    self._arm(follow_up)
                case CancelledTimer(key=key):
                    self._disarm(key)
                case Sent(instance_id=target, tagged=(tag, data)):
                    name = target.partition(SEPARATOR)[0]
                    self._send(target, name, tag, msgspec.Raw(data))
                case Start():
                    self._start(follow_up)

    def _schedule(self, effect: Effect, after: int) -> int:
        options, now_ms = effect.activity.options, self.now_ms
        policy = effect.activity.effect_policy
        returns_input = self.definition.returns_input(effect.activity)
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
        seq = self._append(event)
        if event.deadline_ms is not None:
            late = Failure("DeadlineExceeded", f"{event.name} did not end in time")
            self._changes.fail_later(f"deadline:{seq}", event.deadline_ms, seq, late)
        if not self.open[seq].waits_for:
            self._begin_effect(seq, policy)
        return seq

    def _begin_effect(self, seq: int, policy: bytes) -> None:
        """Have an effect run whose turn it is."""
        call = self.open[seq]
        if self._changes.add_job(seq, call, self.open_effect(seq), policy):
            assert call.start_by_ms is not None
            self.due_times.set(f"start:{seq}", call.start_by_ms)

    def _arm(self, timer: Timer) -> None:
        tag, data = timer.tagged or self.definition.tag_input(timer.input)
        due_ms = timer.due_ms(self.now_ms)
        if timer.key in self.timers:
            self._changes.replace_timer(KEYED + timer.key)
        event = TimerArmed(key=timer.key, due_ms=due_ms, tag=tag, input=msgspec.Raw(data))
        self._append(event)
        taken = InputTaken(
            tag=tag, input=event.input, cause=f"timer:{timer.key}", correlation=self.correlation
        )
        self._changes.set_timer(KEYED + timer.key, due_ms, taken)

    def _disarm(self, key: str) -> None:
        if key in self.timers:
            self._append(TimerDisarmed(key=key))
            self._changes.drop_timer(KEYED + key)

    def _send(self, target: str, name: str, tag: str, data: msgspec.Raw) -> None:
        event = InputSent(instance_id=target, tag=tag, input=data)
        seq = self._append(event)
        self._changes.send(event, seq, name, self.correlation)

    def _start(self, start: Start) -> None:
        orchestration = start.orchestration
        event = ChildScheduled(
            name=orchestration.name,
            version=orchestration.version,
            instance_id=start.instance_id or child_id(self.id, self.last_seq + 1),
            input=msgspec.Raw(start.input),
            on_parent_close="abandon",
            delay_ms=orchestration.options.delay_ms,
        )
        self._changes.start_child(event, self._append(event))

    # ------------------------------------------------------------------- completion

    def _close(self) -> None:
        """Take no more inputs; end when the effects have ended."""
        self.is_closing = True
        if self.has_effects:
            for key in list(self.timers):
                self._disarm(key)
            if self.definition.has_unique_key:
                self._changes.take_key(UniqueKey(self.definition.name, None))
        self._complete_if_done()

    def _complete_if_done(self) -> None:
        if self.is_closing and self.terminal is None and not self.has_effects:
            self._append(Completed(result=NULL))


def _later(now_ms: int, delay: timedelta | None) -> int | None:
    return None if delay is None else now_ms + to_ms(delay)
