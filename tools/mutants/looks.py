"""What a look at an instance may keep of an earlier one."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

FILE = "client/reading/summaries.py"
SUMMARIES = "tests/engine/test_summaries.py::"

LOOKS = (
    Mutant(
        "summaries-outlive-their-events",
        "what an instance waits for is told from events that the database has lost",
        FILE,
        "(not page or _mark_of(page[0]) != last)",
        "not page",
        (f"{SUMMARIES}test_a_database_that_went_back_is_read_anew",),
    ),
    Mutant(
        "gaps-are-folded-over",
        "old events of a decider are removed between two looks, and what they left open is missing",
        FILE,
        "            if last is not None and (not page or _mark_of(page[0]) != last):",
        "            if last is not None and not page:",
        (f"{SUMMARIES}test_a_removal_of_what_was_read_last_has_all_read_anew",),
    ),
    Mutant(
        "events-are-folded-twice",
        "two looks at once open again what was answered",
        FILE,
        "if fold.last is not last:",
        "if False:",
        (f"{SUMMARIES}test_two_looks_at_once_fold_each_event_once",),
    ),
    Mutant(
        "summaries-are-kept-without-end",
        "a server holds what every long history says that it was ever asked for",
        FILE,
        "while len(self._kept) > MAX_KEPT or size > MAX_KEPT_BYTES:",
        "while False:",
        (f"{SUMMARIES}test_what_is_kept_has_a_bound_in_number",),
    ),
)
