"""Mutants of work that is late, cut off, or under suspicion."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

CLAIMS = "tests/engine/test_claims.py::"
CORNERS = "tests/engine/test_execute_corners.py::"
CUTS = "tests/store/test_postgres_cuts.py::"
JOBS = "tests/jobs/test_jobs.py::"
REPLAYS = "tests/engine/test_long_replays.py::"
RUNNING = "tests/jobs/test_running.py::"

LATE = (
    Mutant(
        "lost-claims-are-kept",
        "what a claim has leased whose answer was lost stands for a whole lease, and counts as an "
        "attempt that was lost",
        "store/sql/claims.py",
        "        if self._lost_lease is not None:\n            self._free_lost",
        "        if False:\n            self._free_lost",
        (f"{CUTS}test_a_claim_of_turns_that_was_committed_unheard_is_found_and_counted_once",),
    ),
    Mutant(
        "lost-claims-keep-their-lease",
        "a turn is accepted over messages that a store which has gone back to a claim in one call "
        "never had",
        "store/sql/claims.py",
        "self._lost_lease, self._lease_id = self._lease_id, fresh_id()",
        "self._lost_lease = self._lease_id",
        (f"{CUTS}test_what_came_after_a_claim_in_one_call_that_was_unheard_has_another_lease",),
    ),
    Mutant(
        "lost-claims-are-not-waited-for",
        "a claim that the server goes on with after its client was cut off leases what no worker "
        "knows of",
        "store/sql/claims.py",
        '        connection.run("wait_for_claim", lease=lease)\n',
        "",
        (f"{CUTS}test_a_claim_in_one_call_that_is_not_over_is_waited_for",),
    ),
    Mutant(
        "claims-that-have-leased-look-only",
        "a claim of jobs that is run again after a lost answer tells that it has found nothing",
        "store/sql/claims.py",
        '        """See `Look`."""\n        return bool(self._chosen)\n',
        '        """See `Look`."""\n        return False\n',
        (f"{CUTS}test_a_claim_of_jobs_that_was_committed_unheard_is_found_and_counted_once",),
    ),
    Mutant(
        "deaf-workers-do-not-compare",
        "where no store is told of changes, the work of others waits for the next poll",
        "worker/claims.py",
        "if not self._store.hears_changes(Hint.WORK):",
        "if False:",
        (f"{CLAIMS}test_a_worker_that_is_told_of_nothing_compares_now_and_then",),
    ),
    Mutant(
        "unheard-claims-bring-what-came-later",
        "a turn is accepted over messages that a store which has gone back never had: they are "
        "sent again, and decided twice",
        "store/sql/claimed_messages.py",
        "tuple([message for message in inbox.messages if message.no <= last_no])",
        "tuple(inbox.messages)",
        (f"{CUTS}test_a_claim_that_was_committed_unheard_brings_nothing_that_came_after_it",),
    ),
    Mutant(
        "late-replays-are-dropped",
        "where all leases are lost before a replay has ended, nothing is ever committed, and the "
        "instance is parked",
        "turns/loading/claim_loading.py",
        "        if not is_whole:\n",
        "        if not is_whole or not self._memory.leases():\n",
        (
            f"{REPLAYS}test_a_lease_that_another_worker_took_in_the_middle_of_a_replay_counts_no"
            "_attempt",
        ),
    ),
    Mutant(
        "replays-for-older-claims-are-in-vain",
        "an instance that is claimed here again while it is replayed is refused its turn",
        "turns/loading/claim_loading.py",
        "if hot is None and self._memory.is_leased_anew(claim):",
        "if False:",
        (
            f"{REPLAYS}test_one_that_is_claimed_here_again_in_the_middle_of_a_replay_is_replayed"
            "_for_both",
        ),
    ),
    Mutant(
        "unread-claims-are-kept",
        "what could not be read after its claim waits for the lease, and counts as tried",
        "turns/loading/claim_loading.py",
        "except StoreUnavailableError:",
        "except ZeroDivisionError:",
        (f"{REPLAYS}test_what_cannot_be_read_after_its_claim_is_given_back_and_counts_no_attempt",),
        may_hang=True,
    ),
    Mutant(
        "late-starts-count-as-lost",
        "a job that has not begun counts as lost with its worker",
        "jobs/jobs.py",
        "self._end(run.job, self._conclude(run.job, run.policy, GivenBack(refund=True)))",
        "pass",
        (f"{RUNNING}test_a_job_whose_lease_has_ended_before_its_start_is_given_back_and_not_run",),
    ),
    Mutant(
        "suspects-come-too-early",
        "a killer takes a suspect along whose end is not stored yet",
        "jobs/jobs.py",
        "self._let_go(run, is_stored=False)",
        "self._let_go(run)",
        (
            f"{JOBS}test_a_suspect_is_under_way_until_the_store_has_its_end",
            f"{CLAIMS}test_the_next_suspect_comes_when_the_end_of_the_last_one_is_stored",
        ),
    ),
    Mutant(
        "ends-of-suspects-are-not-waited-for",
        "the end of a suspect goes to the store while the next one comes",
        "worker/serving.py",
        "            await self.turns.end_in_store(end)",
        "            self.turns.job_ended(end)",
        (f"{CLAIMS}test_the_next_suspect_comes_when_the_end_of_the_last_one_is_stored",),
    ),
    Mutant(
        "clocks-agree",
        "a message by a clock that is a little ahead is overtaken, counts as seen, and waits for "
        "ever",
        "turns/loading/catching_up.py",
        "live.wake_at_ms <= now_ms + CLOCKS_DIFFER_MS",
        "live.wake_at_ms <= now_ms",
        (
            f"{CORNERS}test_what_was_sent_by_a_clock_that_is_a_little_ahead_is_neither_overtaken"
            "_nor_forgotten",
        ),
    ),
)
