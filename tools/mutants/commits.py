"""Mutants of how commits are decided, written and answered."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

BATCHING = "tests/store/test_batching.py::"
CONTRACT = "tests/contract/"
KEPT = "tests/store/test_kept_rows.py::"
KNOWN = "tests/store/test_postgres_known.py::"
RACES = "tests/store/test_postgres_races.py::"
CUTS = "tests/store/test_postgres_cuts.py::"
EPOCH = "tests/store/test_epoch.py::"
EXACT = "tests/engine/test_exact_answers.py::"

FENCE = (
    Mutant(
        "fence-without-stamp",
        "a turn is accepted whatever has happened since it began",
        "store/sql/commits/commit.py",
        "not row.fits(turn.stamp) or",
        "",
        (f"{CONTRACT}test_turns.py::TestFencing::test_a_turn_with_another_stamp_writes_nothing",),
    ),
    Mutant(
        "fence-without-commit",
        "a turn is accepted on a past of the same length as its own",
        "store/sql/commits/commit.py",
        "not row.fits(turn.stamp) or",
        "(row.incarnation, row.execution, row.next_seq) != turn.stamp.place or",
        (
            f"{CONTRACT}test_fence.py::TestFenceByCommit"
            "::test_a_turn_based_on_another_commit_is_refused_although_its_numbers_fit",
            "tests/engine/test_gone_back.py::test_a_state_that_the_store_has_lost_decides_nothing",
        ),
    ),
    Mutant(
        "rejections-without-fence",
        "a rejection is kept whatever the instance is by then",
        "store/sql/commits/settled.py",
        "if self._stamp is not None and not self._fits(connection, self._stamp):",
        "if False:",
        (
            f"{CONTRACT}test_receipts.py::TestSettledInputs"
            "::test_an_outcome_is_kept_on_the_state_it_was_decided_on_alone",
        ),
    ),
    Mutant(
        "fence-lets-any-lease-in",
        "a turn whose lease was stolen is accepted",
        "store/sql/commits/commit.py",
        "return row.lease == lease",
        "return True",
        (f"{CONTRACT}test_turns.py::TestFencing::test_a_late_commit_after_a_steal_is_refused",),
    ),
    Mutant(
        "fence-ignores-leases-of-others",
        "a turn without a lease is accepted while another worker has one",
        "store/sql/commits/commit.py",
        "return row.lease == 0 or row.lease_until_ms <= self._now_ms",
        "return True",
        (
            f"{CONTRACT}test_turns.py::TestFencing"
            "::test_without_a_lease_a_turn_is_refused_while_somebody_holds_one",
        ),
    ),
    Mutant(
        "fence-lets-home-in-with-old-lease",
        "whoever has the name of the holder commits with a lease that is not the stored one",
        "store/sql/commits/commit.py",
        "return turn.lease == 0 and row.home == turn.worker_id",
        "return row.home == turn.worker_id",
        (
            f"{CONTRACT}test_leases.py::TestTurnClaims"
            "::test_a_worker_of_the_same_name_has_not_the_lease",
        ),
    ),
    Mutant(
        "fence-ignores-parked",
        "a parked instance goes on without an operator",
        "store/sql/commits/commit.py",
        "if row.blocked_by == NOBODY and not turn.lease:",
        "if False:",
        (
            f"{CONTRACT}test_turns.py::TestFencing"
            "::test_a_turn_without_a_lease_is_refused_while_the_instance_is_parked",
        ),
    ),
    Mutant(
        "seizing-without-stamp",
        "an operator's turn is accepted on a state that the operator has not seen",
        "store/sql/commits/commit.py",
        "not row.fits(turn.stamp) or",
        "(not row.fits(turn.stamp) and not turn.seize) or",
        (f"{CONTRACT}test_turns.py::TestFencing::test_a_seizing_turn_needs_the_right_stamp",),
    ),
    Mutant(
        "hold-without-commit",
        "an instance is held because of a past that is not its own",
        "store/sql/commits/commit.py",
        "not row.fits(hold.stamp)",
        "(row.incarnation, row.execution, row.next_seq) != hold.stamp.place",
        (
            f"{CONTRACT}test_fence.py::TestFenceByCommit"
            "::test_a_hold_based_on_another_commit_holds_nothing",
        ),
    ),
    Mutant(
        "refused-turn-loses-results",
        "results of jobs that come with a refused turn are lost",
        "store/sql/commits/commit.py",
        "kept = tuple([self.end_job(end) for end in turn.job_ends])",
        "kept = ()",
        (
            f"{CONTRACT}test_work.py::TestJobsOfTurns"
            "::test_the_job_results_of_a_refused_turn_are_not_lost",
        ),
    ),
    Mutant(
        "fence-without-jobs",
        "a turn is accepted with the result of a job that another worker has taken over",
        "store/sql/commits/commit.py",
        "if row is None or not self._is_fenced_in(turn, row) or not self._holds_jobs(turn):",
        "if row is None or not self._is_fenced_in(turn, row):",
        (
            f"{CONTRACT}test_work.py::TestJobsOfTurns"
            "::test_a_lost_job_refuses_the_turn_and_saves_the_others",
        ),
    ),
    Mutant(
        "hold-without-lease",
        "an instance is held by a worker that has lost it",
        "store/sql/commits/commit.py",
        "if not self._holds(hold.lease, row):",
        "if False:",
        (f"{CONTRACT}test_messages.py::TestHolds::test_a_hold_needs_the_stamp_and_the_lease",),
    ),
    Mutant(
        "operators-leave-the-stamp",
        "a turn is accepted that has read a message which an operator has removed",
        "store/sqlite/sql/admin/end_lease.sql",
        "last_commit = :commit_id,",
        "last_commit = iif(:commit_id, last_commit, 0),",
        (
            f"{CONTRACT}test_fence.py::TestFenceByCommit"
            "::test_a_message_that_an_operator_removes_refuses_the_turn_that_has_read_it",
        ),
    ),
    Mutant(
        "lost-state-rejects",
        "an input is rejected because of a state that the database has lost",
        "turns/hot.py",
        "live.stamp == self.stamp and",
        "live.stamp.place == self.stamp.place and",
        ("tests/engine/test_gone_back.py::test_a_state_that_the_store_has_lost_rejects_nothing",),
    ),
    Mutant(
        "lost-messages-are-taken",
        "a turn is accepted over messages that the database has lost, and takes others away",
        "store/sql/commits/rows.py",
        "return not turn.taken or turn.taken == self.taken.get(place_of(turn))",
        "return True",
        (
            "tests/store/test_messages_gone_back.py"
            "::test_a_turn_over_messages_that_the_store_has_lost_is_refused",
        ),
    ),
    Mutant(
        "lost-messages-are-taken-without-a-lease",
        "the same, where the caller whose input they came before has given up",
        "turns/executions.py",
        "is_claimed = turn.lease and not turn.seize",
        "is_claimed = not turn.seize",
        (
            "tests/engine/test_gone_back.py"
            "::test_messages_that_the_store_has_lost_are_not_taken_without_the_input_they_came_before",
        ),
    ),
)

AGAIN = (
    Mutant(
        "overtaken-turn-is-forgotten",
        "a turn whose answer was lost is refused once others have gone on from it, so its input is "
        "decided again",
        "store/sql/commits/commit.py",
        "if turn.commit_id not in self.rows.accepted:",
        "if True:",
        (
            f"{CONTRACT}test_fence.py::TestFenceByCommit"
            "::test_a_turn_that_others_have_gone_on_from_was_accepted",
            f"{EXACT}test_an_input_whose_answer_was_lost_and_that_was_overtaken_is_recorded_once",
        ),
    ),
    Mutant(
        "any-turn-at-the-place-is-ours",
        "a refused turn is told to be accepted because another one is where it wanted to be",
        "store/sql/commits/commit.py",
        "if turn.commit_id not in self.rows.accepted:",
        "if not self.rows.accepted:",
        (
            f"{CONTRACT}test_fence.py::TestFenceByCommit"
            "::test_of_two_turns_at_one_place_the_refused_one_stays_refused",
        ),
    ),
    Mutant(
        "last-turn-is-not-recognised",
        "a turn that is sent again gets another answer than the first",
        "store/sql/commits/commit.py",
        "if row is not None and row.last_commit == turn.commit_id:",
        "if False:",
        (
            f"{CONTRACT}test_turns.py::TestIdempotence"
            "::test_a_turn_sent_again_gets_the_first_answer",
        ),
    ),
    Mutant(
        "commit-ids-are-not-stored",
        "the history does not tell which turn has written it",
        "store/sql/commits/flush.py",
        "commit_id: int | None = turn.commit_id",
        "commit_id: int | None = None",
        (
            f"{CONTRACT}test_fence.py::TestFenceByCommit"
            "::test_a_turn_that_others_have_gone_on_from_was_accepted",
        ),
    ),
    Mutant(
        "commit-ids-are-not-loaded",
        "a turn that comes again is not looked for in the history",
        "store/sql/commits/rows.py",
        "late = [turn for turn in wanted.turns if not is_next(turn, rows)]",
        "late: list[Turn] = []",
        (
            f"{CONTRACT}test_fence.py::TestFenceByCommit"
            "::test_a_first_turn_that_others_have_gone_on_from_was_accepted",
        ),
    ),
    Mutant(
        "commit-ids-of-the-batch-are-not-known",
        "of one turn that is twice in a batch, with a later one in between, the second is refused",
        "store/sql/commits/commit.py",
        "self.rows.accepted.add(turn.commit_id)\n\n    def _change_inbox",
        "pass\n\n    def _change_inbox",
        (
            f"{CONTRACT}test_fence.py::TestFenceByCommit"
            "::test_a_turn_that_comes_again_in_the_transaction_of_the_one_after_it_was_accepted",
        ),
    ),
    Mutant(
        "unheard-commit-is-forgotten",
        "a message whose commit was not heard of is delivered again",
        "store/postgres/lane.py",
        "self._lost_answers.keep(connection.xid, mark, operations, results)",
        "pass",
        (f"{CUTS}test_a_message_that_was_committed_unheard_is_delivered_once",),
    ),
    Mutant(
        "fate-is-asked-after-a-crash",
        "what a transaction came to is asked of a server that has given its number to another",
        "store/postgres/lost_answers.py",
        "if self._unsure.mark != mark:",
        "if False:",
        (
            f"{CUTS}"
            "test_what_became_of_a_commit_is_asked_only_of_a_server_that_has_not_crashed_since",
        ),
    ),
    Mutant(
        "half-of-a-batch-is-run-again",
        "what is through is run again because the rest of its batch met trouble",
        "store/postgres/lane.py",
        "self._lost_answers.know(operations[:middle], first)",
        "pass",
        (f"{RACES}test_what_is_through_is_not_run_again_when_the_rest_of_its_batch_is",),
    ),
    Mutant(
        "what-is-put-off-is-overtaken",
        "a message overtakes an earlier one of the same instance",
        "store/postgres/operations.py",
        "return [any(instance_id in put_off for instance_id in _ids(one)) for one in second]",
        "return [False] * len(second)",
        (f"{RACES}test_what_is_put_off_is_not_overtaken_though_its_lock_is_gone_a_moment_later",),
    ),
)

KEPT_ROWS = (
    Mutant(
        "sqlite-version-is-not-checked",
        "a process decides on rows that another one has changed",
        "store/sqlite/one_statement.sql",
        "WHERE data_version = ?",
        "WHERE data_version = ? OR true",
        (f"{KEPT}test_a_message_of_another_process_is_heard_of",),
    ),
    Mutant(
        "postgres-writer-is-not-checked",
        "a process decides on rows that another one has changed",
        "store/postgres/migrations/0001_start.sql",
        "WHERE live.xmin = known.writer",
        "WHERE true",
        (f"{KNOWN}test_a_message_that_another_process_has_sent_is_heard_of",),
    ),
    Mutant(
        "postgres-commit-is-not-checked",
        "a row of another life of the database counts as known because its transaction has the "
        "same number",
        "store/postgres/migrations/0001_start.sql",
        "AND live.last_commit = known.last_commit",
        "",
        (f"{KNOWN}test_a_row_of_the_same_number_that_another_turn_has_left_is_not_the_same",),
    ),
    Mutant(
        "postgres-job-token-is-not-checked",
        "a job that another process has taken over is ended",
        "store/postgres/migrations/0001_start.sql",
        "WHERE jobs.token = known.token",
        "WHERE true",
        (f"{KNOWN}test_a_job_that_another_process_has_taken_over_does_not_end_with_our_token",),
    ),
    Mutant(
        "sqlite-rows-are-kept-after-work",
        "a turn does not see a lease that the process itself has given since",
        "store/sqlite/writer.py",
        "# Its statements do not say which rows they have changed.\n                self._forget()",
        "pass",
        (f"{KEPT}test_a_turn_sees_a_lease_its_renewal_and_its_release",),
    ),
    Mutant(
        "postgres-rows-are-kept-after-work",
        "a claim in the transaction of a turn is overlooked by the next one",
        "store/postgres/lane.py",
        "self._remembered.forget_these(transaction.commit.rows)",
        "pass",
        (f"{KNOWN}test_a_claim_in_the_same_transaction_is_not_overlooked",),
    ),
    Mutant(
        "sqlite-rows-are-kept-after-errors",
        "what a rolled back transaction has decided is taken for the truth",
        "store/sqlite/writer.py",
        "def _undo(self, connection: SqliteConnection, error: BaseException) -> None:\n"
        "        self._forget()",
        "def _undo(self, connection: SqliteConnection, error: BaseException) -> None:",
        (
            "tests/store/test_kept_trouble.py"
            "::test_what_another_program_has_kept_from_being_written_is_written_once",
        ),
    ),
    Mutant(
        "kept-rows-refuse-for-good",
        "a turn that comes again beside another one is refused without a look at the history",
        "store/sql/commits/remembered_rows.py",
        "if not _are_next(wanted.turns, rows):",
        "if False:",
        (
            f"{CONTRACT}test_fence.py::TestFenceByCommit"
            "::test_a_turn_that_comes_again_beside_a_new_one_was_accepted",
        ),
    ),
    Mutant(
        "cancelled-jobs-are-kept",
        "a job that was cancelled can be ended",
        "store/sql/commits/remembered_rows.py",
        "jobs.pop(key, None)",
        "pass",
        (f"{KEPT}test_a_job_that_was_cancelled_cannot_be_ended",),
    ),
    Mutant(
        "corrected-wake-ups-are-kept",
        "a time that the database has corrected is written back",
        "store/sql/commits/remembered_rows.py",
        "if not row.is_born or row.is_due_unsure:",
        "if not row.is_born:",
        (f"{KEPT}test_a_wake_up_that_the_database_has_corrected_is_not_remembered",),
    ),
    Mutant(
        "sqlite-version-is-not-looked-at",
        "beside others a process decides on rows that another one has changed, and notices in time",
        "store/sqlite/writer.py",
        "if version != self._version:",
        "if self._version is None:",
        (f"{KEPT}test_what_another_process_has_written_is_loaded_and_written_in_one_statement",),
    ),
    Mutant(
        "sqlite-assumes-without-asking",
        "an instance that nobody has looked for is taken for new although nothing starts it",
        "store/sqlite/writer.py",
        "if not writes.kept or not commit.has_started_assumed():",
        "if not writes.kept:",
        (f"{KEPT}test_a_message_finds_one_that_a_refused_turn_would_have_started",),
    ),
    Mutant(
        "postgres-assumes-without-asking",
        "an instance that nobody has looked for is taken for new although nothing starts it",
        "store/postgres/lane.py",
        "if writes.kept and transaction.decided.has_started_assumed():",
        "if writes.kept:",
        (f"{KNOWN}test_what_was_not_started_was_not_known_to_be_new",),
    ),
    Mutant(
        "claims-tell-what-others-changed",
        "a turn goes by the row that its claim left, though it was changed in the same transaction",
        "store/sql/store.py",
        "if not transaction.only_claims:",
        "if False:",
        (f"{KNOWN}test_a_claim_that_is_given_back_in_the_same_transaction_is_known_to_be_none",),
    ),
    Mutant(
        "jobs-of-left-executions-are-kept",
        "a job of an execution that is over can be ended",
        "store/sql/commits/remembered_rows.py",
        "for _, instance_id, _, _ in changes.left:\n        yield instance_id",
        'for _ in ():\n        yield ""',
        (f"{KEPT}test_a_job_of_an_earlier_execution_cannot_be_ended",),
    ),
)

ANSWERS = (
    Mutant(
        "batch-is-not-halved",
        "a value that the database refuses fails all that were written with it",
        "store/batching.py",
        "if len(units) == 1 or isinstance(error, StoreCorruptError):",
        "if True:",
        (f"{BATCHING}test_a_bad_value_is_found_by_halving_and_harms_nobody_else",),
    ),
    Mutant(
        "one-error-for-all",
        "who was accepted is told the error of a neighbour, and decides again",
        "store/batching.py",
        "self._future.set_result(self.results)",
        "self._future.set_result(\n"
        "                next(\n"
        "                    ([one] * len(self.results) for one in self.results\n"
        "                     if isinstance(one, Exception)),\n"
        "                    self.results,\n"
        "                )\n"
        "            )",
        (
            f"{BATCHING}test_each_operation_of_a_call_has_its_own_answer_or_error",
            f"{EXACT}test_a_neighbour_that_the_database_refuses_changes_nobody_s_answer",
        ),
    ),
    Mutant(
        "failed-turn-counts-as-refused",
        "a turn that the database does not take is decided again and again",
        "turns/way.py",
        "elif receipt.error is None:",
        "elif True:",
        (f"{EXACT}test_a_neighbour_that_the_database_refuses_changes_nobody_s_answer",),
        may_hang=True,
    ),
    Mutant(
        "unsure-operations-are-given-up",
        "who loses patience is told that nothing was written, although it may have been",
        "store/batching.py",
        "                call.keep()",
        "                call.give_back()",
        (f"{BATCHING}test_patience_ends_for_what_was_never_tried_while_something_else_is_unsure",),
    ),
    Mutant(
        "all-operations-are-unsure",
        "nobody's patience ends while the answer to somebody else's commit is missing",
        "store/batching.py",
        "if unsure_ids and any(id(one) in unsure_ids for one in call.operations):",
        "if unsure_ids:",
        (f"{BATCHING}test_patience_ends_for_what_was_never_tried_while_something_else_is_unsure",),
        may_hang=True,
    ),
    Mutant(
        "dead-thread-tells-nobody",
        "callers wait for ever when the thread that writes has ended",
        "store/batching.py",
        "self._fail_all(error)\n        finally:",
        "pass\n        finally:",
        (f"{BATCHING}test_nobody_waits_for_a_thread_that_has_ended",),
        may_hang=True,
    ),
    Mutant(
        "deaf-caller-ends-the-thread",
        "a caller that cannot be told of its answer ends the thread that answers all",
        "store/loop_calls.py",
        "except Exception as trouble:  # A loop of its own kind",
        "except LookupError as trouble:  # A loop of its own kind",
        (f"{BATCHING}test_a_caller_that_cannot_be_told_costs_the_others_nothing",),
        may_hang=True,
    ),
)

EPOCHS = (
    Mutant(
        "marks-are-not-compared",
        "a process does not notice that the database has gone back",
        "store/epoch.py",
        "if self._identity is not None and identity != self._identity:",
        "if False:",
        (f"{EPOCH}test_a_life_is_new_when_the_database_is_not_the_one_that_was_met",),
    ),
    Mutant(
        "definitions-outlive-the-database",
        "numbers of definitions that the database has lost are written",
        "store/sql/definitions.py",
        "self._epoch_no = self._epoch.number\n            self.forget()",
        "self._epoch_no = self._epoch.number",
        (f"{EPOCH}test_what_is_remembered_goes_with_the_life_of_the_database",),
    ),
    Mutant(
        "states-outlive-the-database",
        "a state that the database has lost decides",
        "turns/memory.py",
        "for hot in [one for one in self.hot if not one.is_ahead]:\n                self.drop(hot)",
        "pass",
        (
            "tests/engine/test_gone_back.py"
            "::test_states_that_were_read_before_the_store_has_gone_back_are_let_go",
        ),
    ),
    Mutant(
        "definitions-are-numbered-by-chance",
        "the same definition has another number in another process",
        "store/sql/definitions.py",
        "digest = blake2b(json.dumps(key).encode(), digest_size=8).digest()",
        "digest = blake2b(str(id(key)).encode(), digest_size=8).digest()",
        (f"{EPOCH}test_the_number_of_a_definition_is_the_same_for_ever",),
    ),
    Mutant(
        "replaced-files-are-written",
        "who writes to a file that is no longer behind its path is told that it is stored",
        "store/sqlite/files.py",
        "return identity_of(self._encoded) == self._identity",
        "return True",
        (
            "tests/engine/test_gone_back.py"
            "::test_nothing_is_told_to_be_written_to_a_file_that_is_no_longer_there",
        ),
    ),
    Mutant(
        "ids-come-from-random",
        "ids repeat when user code seeds `random`, and a new turn is taken for an old one",
        "ids.py",
        "return _drawn.pop()",
        'return __import__("random").getrandbits(63)',
        (
            "tests/engine/test_seeded_random.py::test_ids_do_not_repeat_after_a_seed",
            "tests/engine/test_seeded_random.py"
            "::test_what_is_told_is_stored_although_every_activity_seeds_random",
        ),
    ),
)
