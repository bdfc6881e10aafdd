"""Mutants of `for_each`: pages, failures, what is carried on, where results go."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

END_TO_END = "tests/engine/test_for_each.py::"
FORWARDING = "tests/contract/test_forwarding.py::"

ITEMS = (
    Mutant(
        "results-take-the-numbers-of-others",
        "results of a large page say that they are of other items",
        "store/sql/commits/streams.py",
        "                begin += len(some)\n",
        "",
        (f"{FORWARDING}test_results_keep_the_numbers_of_their_items",),
    ),
    Mutant(
        "results-go-to-another-incarnation",
        "results of items go to the stream of an instance that has only the id of the caller",
        "store/sql/commits/streams.py",
        "not other.is_born or other.incarnation != incarnation",
        "not other.is_born",
        (f"{FORWARDING}test_what_is_for_one_that_has_ended_or_is_another_is_dropped",),
    ),
    Mutant(
        "results-are-sent-by-replays",
        "a page that was replayed sends its results with its next turn once more",
        "core/orchestrations/scope.py",
        '''        """Send items to a stream of another instance, with the turn's commit."""
        self._refuse_torn()
        if not self.is_replaying:''',
        '''        """Send items to a stream of another instance, with the turn's commit."""
        self._refuse_torn()
        if True:''',
        ("tests/core/test_items.py::test_a_replay_forwards_nothing",),
    ),
    Mutant(
        "one-failure-too-many-is-let-pass",
        "one item more may fail than was said",
        "authoring/builtin/paging.py",
        "if plan.max_failures is not None and self._failed > plan.max_failures:",
        "if plan.max_failures is not None and self._failed > plan.max_failures + 1:",
        (f"{END_TO_END}test_too_many_failures_fail_a_caller_that_does_not_catch_them",),
    ),
    Mutant(
        "coordinator-never-continues",
        "the history of a for_each grows with its items",
        "authoring/builtin/paging.py",
        "        if is_full and self._events > EVENTS_PER_READ:",
        "        if False:",
        (f"{END_TO_END}test_items_that_were_read_go_along_when_it_continues_as_new",),
    ),
    Mutant(
        "items-at-hand-are-left-behind",
        "items that were read are lost when the coordinator continues as new",
        "authoring/builtin/paging.py",
        "            items=self._items,\n        )",
        "            items=(),\n        )",
        (f"{END_TO_END}test_items_that_were_read_go_along_when_it_continues_as_new",),
    ),
    Mutant(
        "pages-stay-with-their-tree",
        "ended pages of a for_each that lives on are never removed",
        "worker/housekeeping.py",
        "            pages, more_items = await self._remove_pages_of_items()",
        "            pages, more_items = DeletedCounts(), False",
        ("tests/engine/test_retention.py::test_ended_pages_go_first_and_without_their_tree",),
    ),
)
