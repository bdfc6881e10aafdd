"""What one decision of a schedule comes to: which slots fire, what waits, what is stopped.

Collected event by event, each folded in at once, so that the next slot of the same decision sees
what the one before has started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import chain, islice, takewhile
from typing import Any

from perdure.authoring.deciders.decision import Acceptance, Decision, EncodedStart, StopRun
from perdure.authoring.schedules import facts
from perdure.authoring.schedules.facts import Backfill, ScheduleState
from perdure.authoring.schedules.spec import (
    Overlap,
    ScheduleSpec,
    jitter_of,
    newest_slot,
    slots_after,
)
from perdure.authoring.schedules.when import SlotTime, slot_text
from perdure.clock import to_datetime
from perdure.limits import MAX_BACKFILL_SLOTS, MAX_BACKFILLS, MAX_SCHEDULE_RUNS, SLOTS_PER_TURN
from perdure.model.histories.slot import StartedSlot

LATE_MS = 10_000
"""A slot that is decided later than this after its time was missed."""

TICK = "tick"
BACKFILL = "backfill"
"""Keys of the timers."""


class Firing:
    """A decision in the making."""

    def __init__(
        self,
        state: ScheduleState,
        spec: ScheduleSpec,
        now_ms: int,
        evolve: Callable[[ScheduleState, Any], ScheduleState],
    ) -> None:
        self.state = state
        self.now_ms = now_ms
        self._spec = spec
        self._evolve = evolve
        self._events: list[Any] = []
        self._starts: dict[str, EncodedStart] = {}
        """What is to be started, by id."""
        self._stops: list[StopRun] = []
        self._left = SLOTS_PER_TURN
        """How many slots may still be decided by this turn."""
        self._is_behind = False
        """Whether slots are due that the next turn has to decide."""
        self._following: list[SlotTime] | None = None
        """The slot behind all that were decided on, if there is one; None: not looked for yet."""

    def note(self, event: Any) -> None:
        """Record an event; what follows sees what it changed."""
        self._events.append(event)
        self.state = self._evolve(self.state, event)

    def declare(self, input: facts.DeclareSchedule, decided_ms: int) -> None:
        """Go on with what is declared."""
        self._spec = input.spec
        self._following = None
        self.note(
            facts.ScheduleDeclared(
                name=input.name, spec=input.spec, by_code=input.by_code, decided_ms=decided_ms
            )
        )

    # ------------------------------------------------------------------ what is due

    def decide_due(self) -> bool:
        """Decide the slots that are due; return whether there are more than a turn decides."""
        if self.state.paused is not None:
            return False
        spec, after_ms = self._spec, self.state.decided_ms
        slots = slots_after(spec, after_ms)
        first = next(slots, None)
        if first is None or first.at_ms > self.now_ms:
            return False
        if first.at_ms >= self.now_ms - LATE_MS:
            return self._fire_due(chain([first], slots))
        match spec.missed:
            case "none":
                self._pass_to(self.now_ms - LATE_MS - 1)
                return self._fire_due(slots_after(spec, self.state.decided_ms))
            case "latest":
                oldest_ms = max(after_ms, self.now_ms - spec.within_ms - 1)
                newest = newest_slot(spec, oldest_ms, self.now_ms)
                if newest is not None:
                    self._pass_to(newest.at_ms - 1)
                    self._fire(newest, spec.overlap)
                else:
                    self._pass_to(self.now_ms)
                return False
            case "all":
                self._pass_to(self.now_ms - spec.within_ms - 1)
                return self._fire_due(slots_after(spec, self.state.decided_ms))

    def _pass_to(self, decided_ms: int) -> None:
        """Let slots go that were missed."""
        if decided_ms > self.state.decided_ms:
            self.note(facts.SlotsPassed(decided_ms=decided_ms, missed=True))

    def _fire_due(self, slots: Iterator[SlotTime]) -> bool:
        """Decide slots, in order, up to now; return whether there are more than a turn decides."""
        for slot in slots:
            if slot.at_ms > self.now_ms:
                self._following = [slot]
                return False
            if self._left == 0:
                self._is_behind = True
                return True
            self._left -= 1
            self._fire(slot, self._spec.overlap)
        self._following = []
        return False

    def _fire(self, slot: SlotTime, overlap: Overlap) -> None:
        state = self.state
        if len(state.running) >= MAX_SCHEDULE_RUNS:
            self._skip(slot, f"{MAX_SCHEDULE_RUNS:,} of its instances run")
        elif overlap == "allow" or not state.running:
            self._start(slot)
        elif overlap == "skip":
            self._skip(slot, f"{state.running[-1]} runs")
        elif overlap == "queue":
            self._queue(slot)
        else:
            self._take_back_starts()
            if not self.state.running:
                self._start(slot)
                return
            self._queue(slot)
            self._stop_runs(overlap)

    def _queue(self, slot: SlotTime) -> None:
        queued = self.state.queued
        if queued is not None:
            self._skip(SlotTime(queued.at_ms, queued.slot), "a newer one waits")
        self.note(facts.SlotQueued(slot=slot.text, at_ms=slot.at_ms))

    def _take_back_starts(self) -> None:
        """Start nothing that this very decision would stop again."""
        for instance_id in self._starts:
            self.note(facts.RunEnded(instance_id=instance_id, status="was superseded"))
        self._starts.clear()

    def _skip(self, slot: SlotTime, why: str, *, is_backfill: bool = False) -> None:
        self.note(
            facts.SlotSkipped(slot=slot.text, at_ms=slot.at_ms, why=why, is_backfill=is_backfill)
        )

    def _start(self, slot: SlotTime, why: str = "", *, instance_id: str = "") -> str:
        instance_id = instance_id or f"{self.state.name}@{slot.text}"
        is_running = instance_id in self.state.running
        self.note(
            facts.SlotFired(slot=slot.text, at_ms=slot.at_ms, instance_id=instance_id, why=why)
        )
        if not is_running:
            spec, delay_ms = self._spec, 0
            if not why:
                jitter_ms = jitter_of(self.state.name, slot, spec)
                delay_ms = max(slot.at_ms + jitter_ms - self.now_ms, 0)
            self._starts[instance_id] = EncodedStart(
                orchestration=spec.orchestration,
                version=spec.pinned,
                instance_id=instance_id,
                input=spec.input.encode(),
                delay_ms=delay_ms,
                slot=StartedSlot(self.state.name, slot.text),
            )
        return instance_id

    def _stop_runs(self, how: str) -> None:
        """Ask what runs to stop; once, and again only for the sterner way."""
        state = self.state
        if state.stopping in (how, "terminate") or not state.running:
            return
        self.note(facts.RunsStopped(how=how))
        reason = f"schedule {state.name!r} starts the next one"
        self._stops += [StopRun(instance_id, how, reason) for instance_id in state.running]

    # --------------------------------------------------------------- what has ended

    def end_run(self, instance_id: str, status: str) -> None:
        """Take the end of an instance; what waited for it begins."""
        self.note(facts.RunEnded(instance_id=instance_id, status=status))
        self.start_queued()
        self.advance_backfills()

    def start_queued(self) -> None:
        """Start what waits, if nothing runs any more and nothing holds it up."""
        queued = self.state.queued
        if queued is not None and not self.state.running and self.state.paused is None:
            self._start(SlotTime(queued.at_ms, queued.slot), "queue")

    # ------------------------------------------------------------------- by people

    def trigger(self, trigger_id: str) -> Decision[Any, Any, Any]:
        """Start one now, whatever runs; answer with its id. Asked for again while that one runs, it
        is answered alike, and nothing is on record that did not happen."""
        instance_id = f"{self.state.name}@trigger#{trigger_id}"
        if instance_id in self.state.running:
            return Decision.accept().reply(instance_id)
        if len(self.state.running) >= MAX_SCHEDULE_RUNS:
            why = f"{MAX_SCHEDULE_RUNS:,} of its instances run; wait until one has ended"
            return Decision.reject(facts.TooMuch(why=why))
        now = SlotTime(self.now_ms, slot_text(to_datetime(self.now_ms)))
        return self.decision(reply=self._start(now, "trigger", instance_id=instance_id))

    def begin_backfill(self, input: facts.BackfillSchedule) -> Decision[Any, Any, Any]:
        """Start what a range of time would have started; answer with how many that are."""
        if len(self.state.backfills) >= MAX_BACKFILLS:
            why = f"{MAX_BACKFILLS} backfills are under way; wait until one is done"
            return Decision.reject(facts.TooMuch(why=why))
        backfill = Backfill(
            after_ms=input.from_ms - 1, before_ms=input.before_ms, overlap=input.overlap
        )
        count = sum(1 for _ in islice(self._slots_of(backfill), MAX_BACKFILL_SLOTS + 1))
        if count > MAX_BACKFILL_SLOTS:
            why = (
                f"the range has more than {MAX_BACKFILL_SLOTS:,} slots; ask for a shorter one, and "
                "for the rest after it"
            )
            return Decision.reject(facts.TooMuch(why=why))
        if not count:
            return Decision.accept().reply(0)
        self.note(
            facts.BackfillBegun(
                from_ms=input.from_ms, before_ms=input.before_ms, overlap=input.overlap
            )
        )
        if input.overlap in ("cancel", "terminate"):
            self._stop_runs(input.overlap)
        self.advance_backfills()
        return self.decision(reply=count)

    def _slots_of(self, backfill: Backfill) -> Iterator[SlotTime]:
        found = slots_after(self._spec, backfill.after_ms)
        return takewhile(lambda slot: slot.at_ms < backfill.before_ms, found)

    def advance_backfills(self) -> None:
        """Start as much of the backfills as there is room for."""
        while self.state.backfills:
            backfill = self.state.backfills[0]
            slot = next(self._slots_of(backfill), None)
            if slot is None:
                self.note(facts.BackfillEnded())
                continue
            is_busy = bool(self.state.running or self.state.queued)
            if backfill.overlap == "allow":
                is_waiting = len(self.state.running) >= MAX_SCHEDULE_RUNS
            else:
                is_waiting = is_busy and backfill.overlap != "skip"
            if is_waiting or self._left == 0:
                return  # The end of an instance, or the next turn, goes on with it.
            self._left -= 1
            if is_busy and backfill.overlap == "skip":
                self._skip(slot, "another one runs", is_backfill=True)
            else:
                self._start(slot, "backfill")

    # ----------------------------------------------------------------- the decision

    def decision(self, *, rearm: bool = False, reply: object = None) -> Acceptance[Any, Any]:
        """Return what is decided.

        Args:
            rearm: Whether the time of the next slot may have changed.
            reply: What the caller is told.
        """
        made: Acceptance[Any, Any] = Decision.accept(*self._events)
        state = self.state
        follow_ups: list[EncodedStart | StopRun] = [*self._starts.values(), *self._stops]
        for follow_up in follow_ups:
            made = made._with(follow_up)
        if rearm:
            made = self._rearmed(made)
        if state.backfills and self._left == 0:
            made = made.timer(
                BACKFILL, after=timedelta(0), input=facts.ContinueBackfill(name=state.name)
            )
        return made if reply is None else made.reply(reply)

    def _rearmed(self, made: Acceptance[Any, Any]) -> Acceptance[Any, Any]:
        state, tick = self.state, facts.TickSchedule(name=self.state.name)
        if state.paused is not None:
            return made.cancel_timer(TICK)
        if self._is_behind:
            return made.timer(TICK, after=timedelta(0), input=tick)
        if self._following is None:
            self._following = [*islice(slots_after(self._spec, state.decided_ms), 1)]
        for following in self._following:
            return made.timer(TICK, at=to_datetime(following.at_ms), input=tick)
        return made.cancel_timer(TICK)
