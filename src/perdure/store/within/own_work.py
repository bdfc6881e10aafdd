"""Ending a job inside the transaction in which its function wrote to tables of its own."""

from __future__ import annotations

from perdure.clock import Clock
from perdure.model.jobs import JobEnd
from perdure.store.base import JobLease
from perdure.store.sql.commits.batch import Transaction, run_batch
from perdure.store.sql.connection import Connection
from perdure.store.sql.definitions import Definitions
from perdure.store.sql.job_leases import lost_jobs


def is_lost(connection: Connection, lease: JobLease) -> bool:
    """Return whether a job is not ours any more: then its function need not run at all."""
    return bool(lost_jobs(connection, [lease]))


def end_job(connection: Connection, end: JobEnd, *, clock: Clock) -> tuple[bool, int]:
    """End a job as the last thing of a transaction; return whether it was ours to end, and how many
    rows were written."""
    # Definitions of its own: what is learnt here may yet be rolled back.
    transaction = Transaction(connection, Definitions(), clock(), 0)
    [is_ours], rows = run_batch(transaction, [end])
    return bool(is_ours), rows
