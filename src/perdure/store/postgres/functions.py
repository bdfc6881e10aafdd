"""The statements of a commit, which two functions run: one call to load, one to write. Those of a
claim are a third function.

They are made by `tools/make_functions.py` from the files of the statements. A change of one of them
after a release needs functions with the next number: see there.
"""

from __future__ import annotations

LOAD = "load_1"
WRITE = "write_1"
CLAIM = "claim_1"

LOADS = (
    "load_commits",
    "load_instances",
    "load_jobs",
    "load_live",
    "load_observed",
    "load_receipts",
    "load_unique_keys",
    "load_waiting",
    "lock_live",
    "try_live",
)

WRITES = (
    "bury_jobs",
    "correct_wakes",
    "delete_dead_jobs_of",
    "delete_execution_jobs",
    "delete_execution_messages",
    "delete_feed",
    "delete_history",
    "delete_inbox",
    "delete_instances",
    "delete_jobs",
    "delete_jobs_of",
    "delete_kv",
    "delete_live",
    "delete_messages",
    "delete_observations",
    "delete_receipts",
    "delete_reports",
    "delete_snapshots",
    "delete_timers",
    "delete_unique_keys",
    "delete_values",
    "end_instances",
    "free_children",
    "free_unique_keys",
    "insert_events",
    "insert_feed",
    "insert_instances",
    "insert_jobs",
    "insert_messages",
    "insert_observations",
    "insert_passing",
    "insert_receipts",
    "insert_unique_keys",
    "move_instances",
    "put_kv",
    "put_live",
    "put_outcomes",
    "put_reports",
    "put_snapshots",
    "refuse_unborn",
    "requeue_jobs",
    "set_statuses",
    "touch_sessions",
)
