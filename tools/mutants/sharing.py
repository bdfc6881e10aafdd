"""Mutants of how several processes decide on the same instances."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

LOCKED = "tests/contract/test_locked_turns.py::"
SHARING = "tests/engine/test_shared_deciders.py::"

SHARED = (
    Mutant(
        "memory-is-not-looked-after",
        "a state that others have overtaken decides, in vain",
        "turns/direct/direct_turns.py",
        "elif self.contention.wants_look:",
        "elif False:",
        (f"{SHARING}test_memory_that_others_have_overtaken_decides_nothing_in_vain",),
    ),
    Mutant(
        "overtaken-turns-are-not-locked",
        "who is always too late is never decided",
        "turns/direct/direct_turns.py",
        "self._store.locks_turns and",
        "False and",
        (f"{SHARING}test_who_is_always_too_late_decides_under_the_lock",),
    ),
    Mutant(
        "locked-turns-lock-nothing",
        "others write to an instance while its locked turn is thought",
        "store/sql/questions/news.py",
        '"lock_live", [first], rows',
        '"load_live", [first], rows',
        (f"{LOCKED}TestLockedTurns::test_nobody_writes_while_a_turn_is_thought[postgres]",),
    ),
    Mutant(
        "news-of-another-past",
        "a state that the database has lost goes on with events of another past",
        "store/sql/questions/news.py",
        "commit_id == one.stamp.commit_id",
        "True",
        (f"{LOCKED}TestNews::test_what_is_remembered_of_a_past_that_was_lost_is_not_gone_on_from",),
    ),
    Mutant(
        "news-that-were-cut-off",
        "a state misses events that were too many to be read at once",
        "store/sql/questions/news.py",
        "is_same_past and events == live.stamp.next_seq - one.stamp.next_seq",
        "is_same_past",
        (f"{LOCKED}TestNews::test_what_is_too_much_to_be_read_at_once_is_read_anew",),
    ),
    Mutant(
        "types-of-users-are-kept",
        "a type of one database is taken for another's of the same number",
        "store/postgres/connection.py",
        "if max(wanted) < _FIXED_TYPES:",
        "if True:",
        (
            "tests/store/test_postgres_types.py::"
            "test_what_is_known_of_types_of_a_users_own_is_not_kept",
        ),
    ),
    Mutant(
        "rows-that-were-read-in-another-life",
        "a row that was read before the database went back is taken for known",
        "store/sql/commits/learned_rows.py",
        "found.epoch_no == epoch_no:",
        "True:",
        (
            "tests/store/test_postgres_known.py::"
            "test_what_was_read_in_another_life_of_the_database_is_not_remembered",
        ),
    ),
    Mutant(
        "late-thoughts-are-committed",
        "a turn is committed after the lock under which it was thought was let go",
        "store/locked_turns.py",
        "if self._stage is _Stage.THINKING:",
        "if True:",
        (f"{LOCKED}TestLockedTurns::test_code_that_takes_too_long_commits_nothing_and_lets_go",),
    ),
    Mutant(
        "caught-up-messages-are-not-seen",
        "a message that others have sent counts as seen, and no worker comes for it",
        "turns/loading/catching_up.py",
        "hot.was_sent = hot.was_sent or may_have_mail(live, now_ms=self._store.clock())",
        "hot.was_sent = False",
        (f"{SHARING}test_what_waits_in_the_inbox_comes_before_an_input_after_a_look",),
    ),
)
