"""Mutants of going back and branching off."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

REWINDS = "tests/contract/test_rewinds.py::"
EVERYWHERE = "tests/core/test_going_back.py::test_going_back_to_any_event_goes_on_from_there"
AGAIN = "tests/core/test_going_back.py::test_going_back_again_and_again_goes_on_from_there"
REVIVALS = "tests/contract/test_rewinds.py::TestRevivals::"
RESET = "tests/engine/test_reset.py::"
MOVED = "tests/engine/test_reset_versions.py::"

GOING_BACK = (
    Mutant(
        "reset-of-another-end",
        "an instance that ended otherwise than its caller has seen is running again",
        "store/sql/commits/rewinds.py",
        " or ended.digest != rewind.digest",
        "",
        (f"{REWINDS}TestRevivals::test_one_that_ended_otherwise_stays_as_it_is",),
    ),
    Mutant(
        "reset-forgets-its-commit",
        "a reset whose answer was lost is refused, and done again",
        "store/sql/commits/flush.py",
        "commit_id if seq == 1 else None,",
        "None,",
        (f"{REWINDS}TestRewinds::test_a_reset_that_is_sent_again_is_accepted_once",),
    ),
    Mutant(
        "kept-answer-comes-late",
        "the answer that was kept comes after signals that came behind it",
        "store/sql/commits/rewinds.py",
        "self._inboxes.carry(row, (rewind.answer,), execution=row.execution)",
        "self._inboxes.put(row, *rewind.answer[1:], execution=row.execution)",
        (f"{REWINDS}TestRewinds::test_what_the_first_turn_takes_is_in_order",),
    ),
    Mutant(
        "prefix-draws-new-ids",
        "ids in what was taken over are others than those that are recorded there",
        "core/orchestrations/taken_over.py",
        "        if origin.seed is not None:\n            self._reseed(origin.seed, 1)",
        "",
        (EVERYWHERE,),
    ),
    Mutant(
        "fork-draws-the-ids-of-the-original",
        "a fork draws the ids that the original draws next",
        "core/orchestrations/taken_over.py",
        "        self._reseed(event.seed, seq)\n",
        "",
        (EVERYWHERE,),
    ),
    Mutant(
        "open-calls-stay-closed",
        "what was open at the cut is never under way again",
        "core/orchestrations/turn.py",
        "            self._open_again(event)",
        "            pass",
        (EVERYWHERE,),
    ),
    Mutant(
        "kept-answer-runs-again",
        "a call whose result was kept is made again",
        "core/orchestrations/turn.py",
        "            if seq != event.answered:\n                self._change(ask)",
        "            self._change(ask)",
        (EVERYWHERE,),
    ),
    Mutant(
        "signals-behind-the-cut-are-lost",
        "signals that came behind the point do not come again",
        "core/rewinding.py",
        "unread=tuple(_unread(source.history, cut)),",
        "unread=(),",
        (EVERYWHERE,),
    ),
    Mutant(
        "a-fork-takes-what-kept-anothers-promise",
        "a promise that a fork makes is kept by what came for the original's",
        "core/rewinding.py",
        "        if not is_answer and not is_void:",
        "        if not is_answer:",
        (
            "tests/engine/test_resets_and_inboxes.py::"
            "test_what_kept_a_promise_of_the_original_keeps_none_that_a_fork_makes_itself",
        ),
    ),
    Mutant(
        "parts-of-a-for-each-go-back-by-themselves",
        "results of a for_each come twice into the stream of its caller",
        "client/histories/resetting.py",
        "    if part is not None:",
        "    if part is not None and not part:",
        (
            "tests/engine/test_streams_and_resets.py::"
            "test_a_part_of_a_for_each_does_not_go_back_by_itself_and_send_results_twice",
        ),
    ),
    Mutant(
        "a-start-is-kept-alone",
        "what was stopped before its first turn is blocked when it goes back",
        "core/rewinding.py",
        "return Cut(kept) if kept > 1 else Cut(0, 1)",
        "return Cut(kept)",
        (f"{RESET}test_what_was_stopped_before_its_first_turn_begins_when_it_goes_back",),
    ),
    Mutant(
        "a-waiting-answer-is-kept-unanswered",
        "an instance that is reset again before a worker came is blocked",
        "client/histories/points.py",
        "        if point.number > len(history) - waiting:",
        "        if point.number > len(history):",
        (f"{RESET}test_an_answer_that_no_worker_has_taken_since_a_reset_comes_again",),
    ),
    Mutant(
        "given-ids-are-given-again",
        "a child whose id the code gives is not started again, since the old one has it",
        "core/orchestrations/scope.py",
        "return restarted_id(given, self.seed) if given in self.taken else given",
        "return given",
        (EVERYWHERE,),
    ),
    Mutant(
        "values-do-not-go-back",
        "what an instance keeps is not what its history says",
        "core/rewinding.py",
        "kv=tuple(_changes(before.values, kept.values)),",
        "kv=(),",
        (EVERYWHERE,),
    ),
    Mutant(
        "recorded-inputs-do-not-stand",
        "a fork whose kept calls name the old id is blocked",
        "core/orchestrations/execution.py",
        "return self.taken_over is not None and self.taken_over.matches(ask, recorded)",
        "return False",
        (EVERYWHERE, f"{RESET}test_a_prefix_that_names_the_old_id_still_fits_a_fork"),
    ),
    Mutant(
        "what-was-never-taken-is-known",
        "who asks again after an end and a reset waits for ever",
        "store/sql/commits/rewinds.py",
        "self._changes.unheard.append(unheard)",
        "assert unheard",
        (f"{REVIVALS}test_what_it_had_not_taken_may_be_sent_again",),
    ),
    Mutant(
        "moved-instances-keep-their-row",
        "an instance that was moved to another version is taken by workers of the old one",
        "store/sql/commits/commit.py",
        "row.definition_no = self._number_of(turn.definition)\n        assert row",
        "self._number_of(turn.definition)\n        assert row",
        (f"{MOVED}test_what_failed_goes_on_with_the_version_of_the_handle",),
    ),
    Mutant(
        "moved-instances-keep-their-start",
        "the history of an instance that was moved says another version than its row",
        "core/rewinding.py",
        "            version=version,\n            code=code,\n",
        "",
        (f"{MOVED}test_what_failed_goes_on_with_the_version_of_the_handle",),
    ),
)
