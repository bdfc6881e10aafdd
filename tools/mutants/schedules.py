"""Mutants of schedules: what makes a slot fire once."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

CORE = "tests/core/test_schedules.py::"

SCHEDULES = (
    Mutant(
        "slots-are-decided-again",
        "a clock that goes back fires slots again that have fired",
        "authoring/schedules/decider.py",
        "decided_ms=max(state.decided_ms, event.decided_ms),",
        "decided_ms=event.decided_ms,",
        (f"{CORE}test_a_clock_that_goes_back_fires_no_slot_again",),
    ),
    Mutant(
        "a-trigger-starts-again",
        "the same trigger is on record again while what it started runs",
        "authoring/schedules/firing.py",
        "if instance_id in self.state.running:",
        "if False:",
        (f"{CORE}test_the_same_trigger_twice_starts_one",),
    ),
    Mutant(
        "missed-slots-come-in-a-burst",
        "all slots are started that were missed, whatever the schedule says",
        "authoring/schedules/firing.py",
        "if first.at_ms >= self.now_ms - LATE_MS:",
        "if True:",
        (f"{CORE}test_of_missed_slots_the_newest_is_started",),
    ),
)
