"""The statements of a commit, which one function runs in one call.

The function is made by `tools/make_functions.py` from their files. A change of one of them after a
release needs a function with the next number: see there.
"""

from __future__ import annotations

FUNCTION = "write_1"

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
    "insert_receipts",
    "insert_unique_keys",
    "move_instances",
    "put_kv",
    "put_live",
    "put_outcomes",
    "put_reports",
    "put_snapshots",
    "requeue_jobs",
    "set_statuses",
    "touch_sessions",
)
