"""Mutants of what is sent to streams, read and taken back."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

CONTRACT = "tests/contract/test_streams.py::"
FORWARDING = "tests/contract/test_forwarding.py::"
RETENTION = "tests/contract/test_retention.py::TestExpiry::"
GOING_BACK = "tests/engine/test_streams_and_resets.py::"
RANDOM = "tests/contract/test_streams_random.py::test_late_and_live_readers_see_what_won"

STREAMS = (
    Mutant(
        "streams-of-the-living-expire",
        "what an instance sent is removed although it was reset and runs",
        "store/sqlite/sql/streams/delete_old_stream_rows.sql",
        "        AND instances.ended_ms < :before_ms\n",
        "",
        (f"{RETENTION}test_what_was_reset_meanwhile_keeps_its_streams",),
    ),
    Mutant(
        "void-items-are-read",
        "a late reader sees what a failed attempt sent",
        "store/sqlite/shared/counts.sql",
        "      AND jobs.token = sent.token\n",
        "",
        (f"{CONTRACT}TestActivities::test_what_a_failed_attempt_sent_is_void_at_once",),
    ),
    Mutant(
        "success-keeps-nothing",
        "what a successful attempt sent is void",
        "store/sql/commits/streams.py",
        "for end in kept],",
        "for end in kept[:0]],",
        (f"{CONTRACT}TestActivities::test_it_counts_for_good_once_the_attempt_has_succeeded",),
    ),
    Mutant(
        "success-keeps-what-others-sent",
        "what an attempt sent counts when another one that was claimed with it succeeds",
        "store/sqlite/sql/streams/keep_stream_rows.sql",
        "      AND value ->> 4 = perdure_streams.seq\n",
        "",
        (
            f"{CONTRACT}TestActivities::"
            "test_what_another_attempt_sent_under_the_same_token_does_not_count",
        ),
    ),
    Mutant(
        "lost-leases-send",
        "an attempt that lost its job goes on sending",
        "store/sql/commits/streams.py",
        "if index in held]",
        "if held is not None]",
        (f"{CONTRACT}TestActivities::test_whoever_lost_the_lease_sends_nothing",),
    ),
    Mutant(
        "what-counts-is-not-moved",
        "a live reader takes back what others sent, and does not get it again",
        "store/sql/commits/streams.py",
        "after=first, next_index=own + 1)",
        "after=own, next_index=own + 1)",
        (f"{CONTRACT}TestActivities::test_what_counts_behind_it_comes_again_in_its_order", RANDOM),
    ),
    Mutant(
        "take-backs-begin-at-the-last-void-item",
        "a live reader keeps void items",
        "store/sql/commits/streams.py",
        "firsts.setdefault(stream, last_index - items + 1)",
        "firsts[stream] = last_index - items + 1",
        (RANDOM,),
    ),
    Mutant(
        "replays-send",
        "what an orchestration sends is stored again with each replay",
        "core/orchestrations/scope.py",
        "advice=advice)\n        if not self.is_replaying:",
        "advice=advice)\n        if self.is_replaying or self.sent_bytes:",
        (
            "tests/engine/test_streams.py"
            "::test_what_an_orchestration_sends_is_stored_once_however_often_it_is_replayed",
        ),
    ),
    Mutant(
        "ends-do-not-wait-for-what-is-under-way",
        "the last items of an activity are lost, because its job ends before they are stored",
        "jobs/sending.py",
        '        """Return what of an attempt is not stored, once nothing of it is under way."""\n'
        "        async with self._writing:",
        '        """Return what of an attempt is not stored, once nothing of it is under way."""\n'
        "        async with asyncio.Lock():",
        ("tests/jobs/test_sending.py::test_an_end_waits_for_what_is_under_way",),
    ),
    Mutant(
        "a-turn-sends-in-one-place",
        "a reset between two messages of a turn sends again what the second one made it send",
        "core/orchestrations/turn.py",
        "execution.scope.sent.end_stretch(last_seq + 1)",
        "execution.scope.sent.end_stretch(0)",
        (f"{GOING_BACK}test_a_point_between_two_messages_of_one_turn_sends_nothing_twice",),
    ),
    Mutant(
        "late-pages-send",
        "results of a `for_each` that was left are in the stream beside those of the next one",
        "store/sql/commits/streams.py",
        "if execution not in (0, other.execution):",
        "if execution < 0:",
        (f"{FORWARDING}test_what_is_for_an_execution_that_was_left_is_dropped",),
    ),
    Mutant(
        "unheard-items-are-sent-again",
        "what an activity sent is in its stream twice when the server has crashed",
        "store/sql/commits/streams.py",
        "if self._was_run and taken:",
        "if False:",
        (
            "tests/store/test_postgres_cuts.py"
            "::test_what_a_job_has_sent_is_stored_once_although_the_server_has_crashed",
        ),
    ),
    Mutant(
        "a-flush-that-is-given-up-ends-the-write",
        "what all activities sent is stored twice when one of them gives up its flush",
        "jobs/sending.py",
        "await asyncio.shield(storing)",
        "await storing",
        (
            "tests/engine/test_streams.py"
            "::test_what_is_being_stored_is_stored_once_though_a_caller_of_flush_gives_up",
        ),
    ),
)
