"""Mutants of what a decider may forget: which events go, and what stands for them."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

REMOVALS = "tests/contract/test_removed_events.py::"
PLANNED = "tests/core/test_removed_events.py::"
KEPT = "tests/engine/test_keep_events.py::"
STORE = "store/sql/event_removal.py"
WORKER = "worker/old_events.py"

REMOVED_EVENTS = (
    Mutant(
        "removed-twice",
        "the second of two workers removes events by what it knew before the first one did",
        STORE,
        "if rows != removal.rows or at_ms is None",
        "if at_ms is None",
        (f"{REMOVALS}TestRemoving::test_the_one_that_comes_second_removes_nothing",),
    ),
    Mutant(
        "removed-while-young",
        "a turn that is sent again does not find its commit",
        STORE,
        "if at_ms >= before_ms or snapshot_seq",
        "if snapshot_seq",
        (f"{REMOVALS}TestKeeping::test_what_is_young_stays",),
    ),
    Mutant(
        "removed-behind-the-snapshot",
        "events go that the newest snapshot does not know of",
        STORE,
        " or snapshot_seq < removal.upto",
        "",
        (f"{REMOVALS}TestKeeping::test_what_no_snapshot_lies_behind_stays",),
    ),
    Mutant(
        "removed-unread",
        "a projection never sees events that were removed before it came to them",
        STORE,
        " or not is_read",
        "",
        (f"{REMOVALS}TestKeeping::test_what_a_reader_has_not_passed_stays",),
    ),
    Mutant(
        "removed-more-than-is-not-kept",
        "fewer events are kept than `keep_events` says",
        WORKER,
        " or version > most:",
        ":",
        (
            f"{PLANNED}test_what_goes_ends_with_a_decision_and_before_every_limit",
            f"{KEPT}test_older_events_go_and_everything_counts_on",
        ),
    ),
    Mutant(
        "removed-in-the-midst-of-a-decision",
        "what is kept begins with events whose input is gone",
        WORKER,
        "        if stored.kind == InputTaken.kind:\n            end = index",
        "        end = index",
        (f"{PLANNED}test_what_goes_ends_with_a_decision_and_before_every_limit",),
    ),
    Mutant(
        "removed-events-are-not-missed",
        "what is asked of removed events is answered from those that are left",
        "core/deciders/fold.py",
        "if removed is not None and after < removed.version:",
        "if removed is not None and after < 0:",
        (f"{KEPT}test_what_is_asked_of_removed_events_is_told_so",),
    ),
)
