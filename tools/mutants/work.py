"""Mutants of what is claimed, leased, delivered and owned."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

PUT_BACK = "tests/contract/test_repair.py::TestRepair::"
CONTRACT = "tests/contract/"
CUTS = "tests/store/test_postgres_cuts.py::"
HINTS = "tests/store/test_hints.py::"
PRESENCE = "tests/store/test_postgres_presence.py::"

CLAIMS = (
    Mutant(
        "attempts-are-not-counted",
        "a turn that kills its process is tried for ever",
        "store/sqlite/sql/claims/lease_turns.sql",
        "attempts = live.attempts + 1",
        "attempts = live.attempts",
        (f"{CONTRACT}test_leases.py::TestTurnClaims::test_an_abandoned_instance_is_claimed_again",),
    ),
    Mutant(
        "leases-of-turns-are-not-stored",
        "the turn of a claim is refused, or any other accepted",
        "store/sqlite/sql/claims/lease_turns.sql",
        "lease = :lease,",
        "lease = 0,",
        (
            f"{CONTRACT}test_turns.py::TestFencing"
            "::test_without_a_lease_a_turn_is_refused_while_somebody_holds_one",
        ),
    ),
    Mutant(
        "claimed-turns-stay-in-sight",
        "two workers claim one instance",
        "store/sqlite/sql/claims/lease_turns.sql",
        "wake_at_ms = :until_ms,",
        "wake_at_ms = live.wake_at_ms,",
        (
            f"{CONTRACT}test_leases.py::TestTurnClaims"
            "::test_two_claimers_never_get_the_same_instance",
        ),
    ),
    Mutant(
        "overlapping-claims-look-at-once",
        "two claims of one batch get the same instance or job",
        "store/sql/questions/looking.py",
        "        if taken.isdisjoint(subjects):",
        "        if subjects is not None:",
        ("tests/store/test_looking.py::test_claims_of_one_batch_never_get_the_same",),
    ),
    Mutant(
        "claims-believe-an-old-time",
        "what is due is not found, or is leased into the past, when the clock is another",
        "store/sql/questions/looking.py",
        "    if abs(told_ms - now_ms) > TIME_MAY_DIFFER_MS:",
        "    if told_ms < 0:",
        (
            "tests/store/test_looking.py"
            "::test_claims_go_by_the_databases_time_also_if_it_is_not_known[behind]",
        ),
    ),
    Mutant(
        "home-has-no-advantage",
        "an instance is taken away from the worker that has it in memory",
        "store/sqlite/sql/claims/find_turns.sql",
        "OR live.wake_at_ms <= :home_ms",
        "OR live.wake_at_ms <= :now_ms",
        (f"{CONTRACT}test_leases.py::TestTurnClaims::test_a_home_has_the_first_200_ms",),
    ),
    Mutant(
        "blocked-is-offered-to-the-same-code",
        "a blocked instance is tried again by the code that cannot replay it",
        "store/sqlite/sql/claims/find_blocked.sql",
        "AND instr(live.blocked_by, wanted.value ->> 1) = 0",
        "",
        (f"{CONTRACT}test_messages.py::TestHolds::test_a_blocked_instance_waits_for_other_code",),
    ),
    Mutant(
        "blocked-goes-back-to-the-same-code",
        "an instance that goes on with other code is claimed by the code that cannot replay it",
        "store/sqlite/sql/claims/find_turns.sql",
        "AND instr(live.blocked_by, wanted.value ->> 1) = 0",
        "",
        (
            f"{CONTRACT}test_messages.py::TestHolds"
            "::test_code_that_did_not_fit_takes_the_instance_no_more",
        ),
    ),
    Mutant(
        "unheard-claims-are-lost",
        "what was claimed without hearing of it waits for the end of its lease",
        "store/sql/claims.py",
        "self._chosen = self._find_leased(connection, now_ms) or self._lease(",
        "self._chosen = self._lease(",
        (f"{CUTS}test_a_claim_of_turns_that_was_committed_unheard_is_found_and_counted_once",),
    ),
    Mutant(
        "suspects-are-claimed-with-others",
        "what kills its process takes others with it",
        "store/sql/claims.py",
        "if any(suspects):",
        "if False:",
        (
            f"{CONTRACT}test_suspects.py::TestSuspects"
            "::test_instances_that_were_lost_more_often_are_claimed_one_at_a_time",
        ),
    ),
    Mutant(
        "claimed-jobs-are-not-counted",
        "an activity that kills its process is tried for ever",
        "store/sqlite/sql/jobs/lease_jobs.sql",
        "attempt = jobs.attempt + 1",
        "attempt = jobs.attempt",
        (f"{CONTRACT}test_leases.py::TestJobs::test_a_lease_that_ran_out_counts_as_lost",),
    ),
    Mutant(
        "postgres-attempts-are-not-counted",
        "a turn that kills its process is tried for ever",
        "store/postgres/sql/claims/lease_turns.sql",
        "attempts = live.attempts + 1",
        "attempts = live.attempts",
        (
            f"{CONTRACT}test_leases.py::TestTurnClaims"
            "::test_an_abandoned_instance_is_claimed_again[postgres]",
        ),
    ),
)

LEASES = (
    Mutant(
        "expired-leases-count-as-held",
        "a worker believes that it still has what others may take",
        "store/sqlite/sql/claims/find_held_turns.sql",
        "AND live.lease_until_ms > :now_ms",
        "",
        (f"{CONTRACT}test_leases.py::TestRenewals::test_renewal_never_revives",),
    ),
    Mutant(
        "renewal-revives",
        "a lease that has run out is renewed beside one that has not",
        "store/sqlite/sql/claims/renew_turns.sql",
        "AND live.lease_until_ms > :now_ms\n",
        "\n",
        (
            f"{CONTRACT}test_leases.py::TestRenewals"
            "::test_renewal_of_what_is_held_does_not_revive_what_is_not",
        ),
    ),
    Mutant(
        "job-renewal-revives",
        "a job whose lease has run out is renewed beside one that is held",
        "store/sqlite/sql/jobs/renew_jobs.sql",
        "AND jobs.visible_at_ms > :now_ms\n",
        "\n",
        (
            f"{CONTRACT}test_leases.py::TestRenewals"
            "::test_renewal_of_what_is_held_does_not_revive_what_is_not",
        ),
    ),
    Mutant(
        "job-tokens-are-not-compared",
        "the result of a worker that lost its job counts",
        "store/sql/commits/jobs.py",
        "if job is None or job.gone or end.token == 0 or job.token != end.token:",
        "if job is None or job.gone:",
        (f"{CONTRACT}test_leases.py::TestJobs::test_a_result_from_a_lost_lease_is_refused",),
    ),
    Mutant(
        "released-turns-count",
        "a turn that was given back untouched has cost an attempt",
        "store/sqlite/sql/claims/release_turns.sql",
        "attempts = max(live.attempts - 1, 0)",
        "attempts = live.attempts",
        (
            f"{CONTRACT}test_leases.py::TestTurnClaims"
            "::test_a_released_turn_is_claimable_at_once_and_does_not_count",
        ),
    ),
    Mutant(
        "connected-workers-are-freed",
        "a worker that was cut off for a moment loses what it has",
        "store/postgres/sql/workers/lock_departed.sql",
        "WHERE pg_try_advisory_xact_lock(:key::bigint)",
        "WHERE :key::bigint IS NOT NULL",
        (f"{PRESENCE}test_a_worker_that_was_cut_off_and_is_back_keeps_what_it_has",),
    ),
    Mutant(
        "a-crash-of-the-server-frees-all",
        "the first worker that is back after a crash takes what all others have",
        "store/postgres/sql/workers/lock_departed.sql",
        "WHERE marks.part > 0::smallint AND marks.mark = :key::bigint",
        "",
        (f"{PRESENCE}test_who_is_not_that_very_one_is_not_freed",),
    ),
    Mutant(
        "anybody-releases",
        "a worker gives back the turn of another",
        "store/sqlite/sql/claims/release_turns.sql",
        "AND live.lease = held.value ->> 2\n",
        "\n",
        (
            f"{CONTRACT}test_leases.py::TestTurnClaims"
            "::test_a_lease_that_was_stolen_cannot_be_released",
        ),
    ),
    Mutant(
        "returned-jobs-count",
        "a job that was given back unstarted has cost an attempt",
        "store/sql/commits/jobs.py",
        "attempt = max(job.attempt - 1, 0) if end.refund else job.attempt",
        "attempt = job.attempt",
        (f"{CONTRACT}test_leases.py::TestJobs::test_a_job_given_back_unstarted_does_not_count",),
    ),
    Mutant(
        "readers-move-without-a-lease",
        "a projection that another worker has taken over goes on",
        "store/sqlite/sql/feed/advance_feed.sql",
        "AND lease = :lease\n",
        "\n",
        (f"{CONTRACT}test_feed.py::TestReaders::test_a_lease_that_another_took_is_lost",),
    ),
    Mutant(
        "postgres-renewal-revives",
        "a lease that has run out is renewed beside one that has not",
        "store/postgres/sql/claims/renew_turns.sql",
        "AND live.lease_until_ms > :now_ms::bigint",
        "",
        (
            f"{CONTRACT}test_leases.py::TestRenewals"
            "::test_renewal_of_what_is_held_does_not_revive_what_is_not[postgres]",
        ),
    ),
    Mutant(
        "start-of-a-process-is-ignored",
        "the next process of a worker's name loses what it has, for the death of the one before",
        "store/sqlite/sql/workers/lock_worker.sql",
        "\n  AND born = :born",
        "",
        (
            f"{CONTRACT}test_dead_workers.py::TestDeadProcesses"
            "::test_a_worker_of_any_other_process_keeps_all",
        ),
    ),
    Mutant(
        "released-on-suspicion",
        "a worker whose process cannot be seen loses what it has",
        "worker/process_id.py",
        "return False  # It ended just now",
        "return True  # It ended just now",
        (
            "tests/worker/test_process_id.py"
            "::test_a_process_of_which_nothing_can_be_seen_is_not_gone",
        ),
    ),
    Mutant(
        "stopped-is-dead",
        "a worker that was stopped for a while loses what it has",
        "worker/process_id.py",
        'DEAD_STATES = "ZX"',
        'DEAD_STATES = "ZXT"',
        ("tests/worker/test_process_id.py::test_only_what_runs_nothing_is_dead",),
    ),
    Mutant(
        "ends-are-no-news",
        "who waits in another process for an end hears of it only by the next look",
        "store/sql/commits/hints.py",
        "turn.outcome is not None\n        or ",
        "",
        (f"{HINTS}test_an_accepted_turn_hints_at_what_concerns_others",),
    ),
    Mutant(
        "waiting-jobs-are-no-work",
        "workers of another process hear of a job that waits only by the next look",
        "store/sql/commits/hints.py",
        "        if not job.leased:",
        "        if job is None:",
        (f"{HINTS}test_an_accepted_turn_hints_at_what_concerns_others",),
    ),
    Mutant(
        "plain-ends-are-no-news",
        "the same, of an end that has nothing else to tell",
        "store/sql/commits/hints.py",
        "has_news = has_news or operation.outcome is not None",
        "pass",
        (f"{HINTS}test_an_accepted_turn_hints_at_what_concerns_others",),
    ),
    Mutant(
        "turns-with-more-are-plain",
        "what a turn has gained since it was thought is passed over",
        "model/turns.py",
        "return msgspec.structs.replace(turn, is_plain=False, **fields)",
        "return msgspec.structs.replace(turn, **fields)",
        ("tests/core/test_turn.py::test_a_turn_with_what_few_have_is_not_plain",),
    ),
    Mutant(
        "turns-with-streams-are-plain",
        "readers of a stream hear of what an attempt has sent only by the next look",
        "core/orchestrations/turn.py",
        " and not have_sent(terms.job_ends)",
        "",
        (
            "tests/core/test_turn.py"
            "::test_a_turn_that_ends_an_attempt_which_has_sent_something_is_not_plain",
        ),
    ),
    Mutant(
        "news-is-counted-after-the-row",
        "what happens between the row and the number is swallowed until the next look",
        "client/reading/watch.py",
        "                self._look_on(seen)\n            return await future",
        "                self._look_on(self._store.change_count(Hint.NEWS))\n"
        "            return await future",
        (
            "tests/engine/test_changes_elsewhere.py"
            "::test_what_happens_while_the_first_look_is_under_way_is_not_swallowed",
        ),
    ),
    Mutant(
        "what-is-here-is-never-looked-for",
        "who waits for an instance in memory here does not hear that it has ended elsewhere",
        "client/reading/watch.py",
        "                self._look_later()\n",
        "                pass\n",
        (
            "tests/engine/test_changes_elsewhere.py"
            "::test_the_end_elsewhere_of_what_is_in_memory_here_is_heard_here",
        ),
        may_hang=True,
    ),
    Mutant(
        "news-since-a-start-is-overlooked",
        "who waits for what was started here overlooks that it has ended elsewhere",
        "client/reading/watch.py",
        "            and begun.of_others == seen\n",
        "",
        (
            "tests/engine/test_changes_elsewhere.py"
            "::test_the_row_of_what_was_started_is_read_if_there_was_news_since",
        ),
    ),
    Mutant(
        "ends-since-a-start-are-overlooked",
        "who waits for what was started here overlooks that it was ended here",
        "client/reading/watch.py",
        "            and begun.told == self._endings.told\n",
        "",
        (
            "tests/engine/test_changes_elsewhere.py"
            "::test_the_row_of_what_was_started_is_read_if_there_was_news_since",
        ),
    ),
)

ONCE = (
    Mutant(
        "requests-made-again-are-taken-twice",
        "an update that is asked for again while the first waits is decided twice",
        "turns/direct/direct_updates.py",
        "        if update_id in hot.updates or update_id in hot.updating:\n",
        "        while update_id in hot.updates or update_id in hot.updating:\n"
        '            update_id += "+"\n'
        "        if not update_id:\n",
        (
            "tests/engine/test_direct_updates.py"
            "::test_a_request_that_is_made_again_while_the_first_waits_is_taken_once",
        ),
    ),
    Mutant(
        "acts-are-told-by-their-second-time",
        "who deletes, retries or unparks is told that there was nothing, when the server crashed",
        "store/postgres/lost_answers.py",
        "                self._unknown[id(one)] = (one, self._joined(one, result))\n",
        "                pass\n",
        (
            "tests/store/test_postgres_repeated_acts.py"
            "::test_what_a_crash_may_have_swallowed_is_done_once_and_told_as_done",
        ),
    ),
    Mutant(
        "messages-are-delivered-again",
        "a message that is sent again under its id is not recognised",
        "store/sql/commits/inboxes.py",
        "if message_id is not None and (delivery.instance_id, message_id) in self._rows.receipts:",
        "if False:",
        (
            f"{CONTRACT}test_messages.py::TestDeliveries"
            "::test_a_message_is_delivered_once_for_its_id",
        ),
    ),
    Mutant(
        "another-input-is-a-repetition",
        "an input under the id of another one that comes at once is told to be queued",
        "turns/direct/inputs.py",
        "    if status is DeliveryStatus.DUPLICATE:\n",
        "    if False:\n",
        (
            "tests/engine/test_input_ids.py"
            "::test_of_two_that_are_queued_at_once_under_one_id_one_is_refused",
        ),
    ),
    Mutant(
        "another-input-is-looked-for-once",
        "an input under the id of one that is just decided is told to be queued",
        "turns/direct/inputs.py",
        "        # Decided between the two looks.\n"
        "        known = await store.deciders.read_receipts(instance_id, [given.input_id])\n",
        "",
        (
            "tests/engine/test_input_ids.py"
            "::test_another_input_is_refused_though_the_first_is_decided_between_two_looks",
        ),
    ),
    Mutant(
        "what-another-input-came-to-is-told",
        "who waits without the code is told what another input under its id came to",
        "client/deciders/inputs.py",
        "            check_same(instance_id, read_receipt(kept).given, given)\n        return",
        "            pass\n        return",
        (
            "tests/engine/test_input_ids.py"
            "::test_who_waits_without_the_code_is_not_told_what_another_input_came_to",
        ),
    ),
    Mutant(
        "inputs-are-decided-again",
        "an input that is asked again under its id is decided twice",
        "store/sql/commits/decisions.py",
        "if is_decided or len(set(inputs)) < len(inputs):",
        "if len(set(inputs)) < len(inputs):",
        (
            f"{CONTRACT}test_receipts.py::TestReceipts"
            "::test_a_turn_that_decides_an_input_again_is_refused",
        ),
    ),
    Mutant(
        "updates-are-left-waiting",
        "what an execution took and did not answer gets no receipt when it continues",
        "core/orchestrations/turn.py",
        "self._leave_updates()",
        "pass",
        (
            "tests/engine/test_updates.py"
            "::test_taken_and_not_answered_it_does_not_outlast_its_execution",
        ),
        may_hang=True,
    ),
    Mutant(
        "an-id-of-a-waiting-update-is-any-updates",
        "a caller waits for the answer to another update, and is told that its own stays",
        "client/acting/update_requests.py",
        "_check_same(request, await _given_first(core, request.instance_id, receipt))",
        "pass",
        ("tests/engine/test_updates.py::test_an_id_stands_for_one_update_before_that_is_answered",),
    ),
    Mutant(
        "updates-overtake",
        "an update that comes without the inbox overtakes the messages in it",
        "store/sql/commits/inboxes.py",
        "return is_new and row.last_no <= turn.seen_no",
        "return is_new",
        (
            f"{CONTRACT}test_receipts.py::TestArrivals"
            "::test_it_overtakes_no_message_that_the_turn_does_not_know",
        ),
    ),
    Mutant(
        "updates-arrive-again",
        "an update that comes without the inbox is done again under its id",
        "store/sql/commits/inboxes.py",
        "return is_new and row.last_no <= turn.seen_no",
        "return row.last_no <= turn.seen_no",
        (
            f"{CONTRACT}test_receipts.py::TestArrivals"
            "::test_what_was_delivered_before_does_not_arrive_again",
        ),
    ),
    Mutant(
        "updates-behind-an-end-are-lost",
        "an update behind one that ended the execution counts as delivered",
        "turns/direct/direct_updates.py",
        "hot.updating = dict(came[:count])",
        "hot.updating = dict(came)",
        (
            "tests/engine/test_direct_updates.py"
            "::test_what_comes_behind_continue_as_new_goes_to_the_next_execution",
        ),
        may_hang=True,
    ),
    Mutant(
        "updates-are-given-up-early",
        "a look that began before an update was sent gives it up",
        "client/reading/watch.py",
        "sent = {want for want in wants if want.is_sent}",
        "sent = set(wants)",
        (
            "tests/engine/test_direct_updates.py"
            "::test_a_look_that_began_before_the_request_was_there_does_not_give_it_up",
        ),
    ),
    Mutant(
        "starts-are-not-recognised",
        "a start that is sent again is told that its id is taken",
        "store/sql/commits/commit.py",
        "return row.incarnation == instance.incarnation",
        "return False",
        (f"{CONTRACT}test_messages.py::TestStarts::test_a_start_sent_again_is_accepted_once",),
    ),
    Mutant(
        "results-count-again",
        "the result of a call that is answered already is applied",
        "core/orchestrations/execution.py",
        "return ask is not None and isinstance(ask.event, answered)",
        "return True",
        ("tests/core/test_turn.py::test_a_result_that_comes_twice_in_one_turn_counts_once",),
    ),
    Mutant(
        "results-reach-any-execution",
        "the result of a job reaches an execution that has not asked for it",
        "store/sql/commits/commit.py",
        "if row is not None and (row.incarnation, row.execution) == end.key[1:3]:",
        "if row is not None:",
        (
            "tests/store/test_commit.py"
            "::test_the_result_for_another_execution_is_dropped_with_its_job",
        ),
    ),
    Mutant(
        "late-effects-end-silently",
        "an effect that its own time limit has ended is no dead job",
        "core/deciders/execution.py",
        "if found is None and isinstance(event, ActivityFailed):",
        "if False:",
        ("tests/core/test_decider_effects.py::test_an_effect_that_nobody_began_in_time_is_dead",),
    ),
    Mutant(
        "ended-jobs-are-buried",
        "a job whose result is on its way is a dead job as well",
        "store/sql/commits/jobs.py",
        "if job is not None and not job.gone:",
        "if job is not None:",
        (f"{CONTRACT}test_jobs.py::TestDeadJobs::test_a_job_that_has_ended_is_not_buried",),
    ),
)

INBOX = (
    Mutant(
        "unseen-messages-do-not-wake",
        "a message that comes during a turn is found when something else comes",
        "store/sql/commits/commit.py",
        "has_unseen = row.last_no > turn.seen_no\n",
        "has_unseen = False\n",
        (
            f"{CONTRACT}test_turns.py::TestWaking"
            "::test_a_message_during_a_turn_wakes_the_instance_after_it",
        ),
    ),
    Mutant(
        "seen-messages-wake",
        "an instance is woken for messages that it has taken",
        "store/sql/commits/commit.py",
        "has_unseen = row.last_no > turn.seen_no\n",
        "has_unseen = row.last_no >= turn.seen_no\n",
        (f"{CONTRACT}test_turns.py::TestWaking::test_a_seen_message_does_not_wake_it_again",),
    ),
    Mutant(
        "rest-of-the-inbox-is-forgotten",
        "messages beyond those of one claim wait for the next message",
        "store/sql/claimed_messages.py",
        "last_no -= 1",
        "pass",
        (
            f"{CONTRACT}test_messages.py::TestDeliveries"
            "::test_messages_of_many_bytes_are_taken_in_several_claims",
        ),
    ),
    Mutant(
        "taken-messages-stay",
        "a message that a turn has taken is applied again",
        "store/sql/commits/flush.py",
        'self._bulk.run_keys("delete_messages", changes.consumed)',
        "pass",
        (
            f"{CONTRACT}test_leases.py::TestWorkersAndTimes"
            "::test_a_turn_claimed_for_a_timer_takes_it",
        ),
    ),
    Mutant(
        "cancelled-timers-stay",
        "a timer that was cancelled fires",
        "store/sql/commits/flush.py",
        'self._bulk.run_keys("delete_timers", changes.timers_gone)',
        "pass",
        (f"{CONTRACT}test_work.py::TestTimers::test_a_cancelled_timer_is_gone",),
    ),
    Mutant(
        "messages-wake-leased-instances",
        "a message has an instance claimed that another worker has",
        "store/sql/commits/inboxes.py",
        "if not row.is_born or row.lease != 0 or is_held(row.blocked_by):",
        "if not row.is_born or is_held(row.blocked_by):",
        (
            f"{CONTRACT}test_leases.py::TestTurnClaims"
            "::test_a_message_takes_no_instance_from_who_has_leased_it",
        ),
    ),
    Mutant(
        "messages-wake-held-instances",
        "a message has a held instance tried again",
        "store/sql/commits/inboxes.py",
        "if not row.is_born or row.lease != 0 or is_held(row.blocked_by):",
        "if not row.is_born or row.lease != 0:",
        (
            f"{CONTRACT}test_messages.py::TestHolds"
            "::test_a_held_instance_gets_messages_and_sleeps_on",
        ),
    ),
    Mutant(
        "arrival-times-go-back",
        "a message is applied before one that came earlier, because the clock was set back",
        "store/sql/commits/inboxes.py",
        "row.last_at_ms = max(self._now_ms, row.last_at_ms)",
        "row.last_at_ms = self._now_ms",
        (f"{CONTRACT}test_messages.py::TestDeliveries::test_arrival_times_never_decrease",),
    ),
)

KEYS = (
    Mutant(
        "keys-are-not-looked-at",
        "a decision that wants a key of another instance breaks off in place of being told",
        "store/sql/commits/decisions.py",
        "return TurnReceipt(TurnStatus.KEY_TAKEN, holder=holder)",
        "return None",
        (
            f"{CONTRACT}test_unique_keys.py::TestUniqueKeys"
            "::test_a_key_that_is_taken_stops_a_turn_and_nothing_of_it_is_written",
        ),
    ),
    Mutant(
        "passing-keys-are-not-looked-at",
        "a decision has a key for a moment that belongs to another instance",
        "store/sql/commits/decisions.py",
        "for passed in turn.passed_keys:",
        "for passed in ():",
        (
            f"{CONTRACT}test_unique_keys.py::TestUniqueKeys"
            "::test_a_key_that_is_had_within_a_turn_only_must_be_free_too",
        ),
    ),
    Mutant(
        "ends-free-no-keys",
        "the key of an instance that has ended is taken for ever",
        "store/sql/commits/commit.py",
        "self._decisions().free_keys(row)",
        "pass",
        (f"{CONTRACT}test_unique_keys.py::TestFreedKeys::test_an_end_frees_the_key",),
    ),
    Mutant(
        "unread-failures-stay",
        "a call whose job was put back in time fails all the same",
        "store/sql/repair.py",
        "                if _is_failure_of(key, message):",
        "                if False:",
        (f"{PUT_BACK}test_a_failure_that_no_code_has_heard_of_is_taken_back_with_its_job[file]",),
    ),
    Mutant(
        "failures-of-effects-are-taken-back",
        "a decider never hears of the effect that failed, and of its end as that of another",
        "store/sql/repair.py",
        " or not owner.version:",
        ":",
        (f"{PUT_BACK}test_a_failure_of_an_effect_that_is_put_back_is_heard_of[file]",),
    ),
    Mutant(
        "failures-of-other-calls-are-taken-back",
        "a call is never answered when the job of another one is put back",
        "store/sql/repair.py",
        "isinstance(event, ActivityFailed) and event.schedule == key.seq",
        "isinstance(event, ActivityFailed)",
        (f"{PUT_BACK}test_a_failure_that_no_code_has_heard_of_is_taken_back_with_its_job[file]",),
    ),
)
