"""What an operator does by hand to jobs and messages."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.ids import fresh_id
from perdure.model.histories.events import (
    ActivityFailed,
    SignalReceived,
    UnreadableEventError,
    read_event,
)
from perdure.model.instances import part_of
from perdure.model.jobs import JobEnd, JobKey
from perdure.model.message_ids import message_id_of
from perdure.model.messages import Message
from perdure.store.sql.commits.batch import Transaction
from perdure.store.sql.commits.commit import Commit
from perdure.store.sql.commits.flush import flush
from perdure.store.sql.commits.rows import load
from perdure.store.sql.connection import Connection
from perdure.store.sql.locking import lock_instances
from perdure.store.sql.packing import pack
from perdure.store.sql.questions import reading

_BY_HAND = 1
"""Stands for the token of a job that no worker runs; never stored."""


def retry_dead_jobs(connection: Connection, keys: Sequence[JobKey], *, now_ms: int) -> list[bool]:
    """Put dead jobs back into their queues; tell of each whether it was one."""
    # To delete or replace the instance meanwhile would not find the job that comes back.
    lock_instances(connection, [key.instance_id for key in keys])
    back = [JobKey(*row) for row in connection.run("revive_jobs", keys=_pack(keys), now_ms=now_ms)]
    connection.run("delete_dead_jobs", keys=_pack(back))
    _take_back_failures(connection, back, now_ms=now_ms)
    return _each_once(keys, back)


def _take_back_failures(connection: Connection, keys: Sequence[JobKey], *, now_ms: int) -> None:
    """Remove failures that no code has heard of yet: those calls are open, and are answered by what
    their jobs come to now.

    A decider hears of both: the end of an effect that was put back answers none (decision 14).
    """
    owners = [key.instance_id for key in keys]
    for key, owner in zip(keys, reading.read_instances(connection, owners), strict=True):
        if owner is None or owner.status.is_terminal or not owner.version:
            continue
        if (owner.incarnation, owner.execution) == (key.incarnation, key.execution):
            for message in reading.read_inbox(connection, key.instance_id):
                if _is_failure_of(key, message):
                    drop_message(connection, key.instance_id, message.no, now_ms=now_ms)


def _is_failure_of(key: JobKey, message: Message) -> bool:
    is_failure = message.kind == ActivityFailed.kind and message.timer_key is None
    if not is_failure or message.execution not in (0, key.execution):
        return False
    try:
        event = read_event(message.kind, message.body)
    except UnreadableEventError:
        return False
    return isinstance(event, ActivityFailed) and event.schedule == key.seq


def forget_dead_jobs(connection: Connection, keys: Sequence[JobKey]) -> list[bool]:
    """Remove dead jobs; tell of each whether it was one."""
    # One that is being put back is no longer dead when its lock is free.
    lock_instances(connection, [key.instance_id for key in keys])
    rows = connection.run("delete_dead_jobs", keys=_pack(keys))
    return _each_once(keys, [JobKey(*row) for row in rows])


def end_job(transaction: Transaction, key: JobKey, kind: str, body: bytes) -> bool:
    """End a job, whichever worker runs it, and tell its owner.

    It is ended as its holder would end it, so that the message gets its number and wakes the owner
    in the same way; loading the rows locks them.
    """
    connection, now_ms = transaction.connection, transaction.now_ms
    end = JobEnd(key=key, token=_BY_HAND, kind=kind, body=body)
    rows = load(connection, [end])
    job = rows.jobs.get(key)
    if job is None:
        return False
    job.token = _BY_HAND
    commit = Commit(
        rows,
        lambda name: transaction.definitions.number(connection, name),
        lambda number: transaction.definitions.kind(connection, number),
        now_ms=now_ms,
    )
    is_ended = commit.end_job(end)
    flush(connection, commit, now_ms=now_ms, alone=True)
    return is_ended


def drop_message(connection: Connection, instance_id: str, no: int, *, now_ms: int) -> bool:
    """Remove a message or timer, and let no turn be accepted that may have taken it.

    Its receipt goes with it: nothing will be decided, and its sender may send it again.
    """
    part = part_of(instance_id)
    # A commit that took the message is through, and the message gone, or it waits and is refused
    # because the stamp has changed.
    lock_instances(connection, [instance_id])
    place: dict[str, int | str] = {"part": part, "instance_id": instance_id, "no": no}
    dropped = connection.run("drop_message", **place)
    if not dropped:
        return False
    [(kind, body)] = dropped
    connection.run("drop_receipt", **place, message_id=_message_id(kind, body))
    connection.run(
        "end_lease", part=part, instance_id=instance_id, commit_id=fresh_id(), now_ms=now_ms
    )
    return True


def _message_id(kind: str, body: bytes) -> str:
    """Return under which id a message was sent, if it says so; else nothing."""
    if kind != SignalReceived.kind:
        return ""
    try:
        event = read_event(kind, body)
    except UnreadableEventError:
        return ""
    return (message_id_of(event) or "") if isinstance(event, SignalReceived) else ""


def _pack(keys: Sequence[JobKey]) -> str:
    return pack([(part_of(key.instance_id), *key) for key in keys])


def _each_once(keys: Sequence[JobKey], done: Sequence[JobKey]) -> list[bool]:
    """Tell of each key whether it was done; of one given twice, the first time."""
    left = set(done)
    answers = []
    for key in keys:
        answers.append(key in left)
        left.discard(key)
    return answers
