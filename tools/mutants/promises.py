"""Tokens and the one who is first; acts on as many as are expected."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

TESTS = "tests/engine/test_promises.py::"
BULK = "tests/engine/test_bulk.py::"

PROMISES = (
    Mutant(
        "token-unsigned",
        "a token that this store has not signed keeps a promise",
        "model/promises.py",
        "if not (is_signed and is_canonical):",
        "if not is_canonical:",
        (f"{TESTS}test_a_token_of_another_store_is_none",),
    ),
    Mutant(
        "token-in-several-spellings",
        "a token that was changed keeps its promise all the same",
        "model/promises.py",
        "if not (is_signed and is_canonical):",
        "if not is_signed:",
        (f"{TESTS}test_a_token_that_was_changed_keeps_nothing",),
    ),
    Mutant(
        "promise-kept-twice",
        "each who resolves a promise is told to be the first",
        "client/acting/keeping.py",
        "message_id=promise.message_id,",
        "message_id=None,",
        (f"{TESTS}test_a_promise_is_kept_once",),
    ),
    Mutant(
        "promise-kept-unheard-is-anothers",
        "a caller whose answer was lost is told that another has kept the promise",
        "store/sql/commits/inboxes.py",
        "return DeliveryStatus.DELIVERED if is_ours else DeliveryStatus.DUPLICATE",
        "return DeliveryStatus.DUPLICATE",
        (
            "tests/contract/test_messages.py::TestDeliveries"
            "::test_of_calls_that_give_one_message_the_first_hears_again_that_it_was",
        ),
    ),
    Mutant(
        "promise-for-any-execution",
        "a promise of an execution that is over is kept in the next one",
        "client/acting/keeping.py",
        "            execution=execution,\n            outlives=True,",
        "            outlives=True,",
        (f"{TESTS}test_a_promise_that_was_not_kept_in_time_is_late",),
    ),
    Mutant(
        "token-signed-again",
        "a replay signs tokens again, and does not fit what it gave away",
        "core/orchestrations/scope.py",
        "made = self.promises.get(self._promises)",
        "made = None",
        (f"{TESTS}test_a_worker_without_the_instance_in_memory_replays_the_token",),
    ),
    Mutant(
        "act-on-unexpected",
        "many are acted on although they are not as many as expected",
        "client/acting/bulk_acts.py",
        "    if len(rows) != expect:",
        "    if len(rows) > expect:",
        (f"{BULK}test_an_unexpected_count_does_nothing",),
    ),
)
