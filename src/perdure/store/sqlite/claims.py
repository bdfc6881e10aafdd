"""Take, extend and give back leases on turns and jobs.

A claim asks once per definition for what has waited longest, shares its limit among them in turn,
and leases what it chose. All of it happens inside the caller's transaction, so what was found is
still there when it is leased.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

import msgspec

from perdure.model.instances import DefinitionKey, Stamp, part_of
from perdure.model.jobs import ClaimedJob, JobFailures, JobKey
from perdure.model.messages import Message
from perdure.model.turns import ClaimedTurn, JobClaim, TurnClaim
from perdure.store.base import JobLease, TurnLease
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.packing import cut, pack, unpack

HOME_ADVANTAGE_MS = 200
"""For how long a ready instance is left to the worker that has it in memory."""
MAX_MESSAGES = 1_000
"""Messages of one instance that one claim returns; the next claim brings the rest."""
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The same in bytes; a single message may be larger."""
_INSTANCES_PER_READ = 32
"""Bounds the blob of one statement: 32 instances of 18 MB stay under SQLite's 1 GB."""
_JOBS_PER_READ = 100

T = TypeVar("T")
_failures = msgspec.json.Decoder(JobFailures)


# ------------------------------------------------------------------------- turns


def claim_turns(
    connection: Connection, claim: TurnClaim, *, now_ms: int, offset: int
) -> list[ClaimedTurn]:
    """Lease instances that are ready or abandoned."""
    if not claim.definitions or claim.limit < 1:
        return []
    [(text,)] = connection.run(
        "find_turns",
        definitions=pack(claim.definitions),
        worker_id=claim.worker_id,
        now_ms=now_ms,
        home_ms=now_ms - HOME_ADVANTAGE_MS,
        limit=claim.limit,
    )
    chosen = share(unpack(text), claim.limit, offset)
    if not chosen:
        return []
    keys = [(part, instance_id) for part, instance_id, *_ in chosen]
    connection.run(
        "lease_turns",
        keys=pack(keys),
        lease=claim.lease,
        until_ms=now_ms + claim.lease_ms,
        worker_id=claim.worker_id,
    )
    inboxes = [
        inbox
        for some in _chunks(keys, _INSTANCES_PER_READ)
        for inbox in _read_visible(connection, some, now_ms)
    ]
    return [_claimed(row, inbox, claim.lease) for row, inbox in zip(chosen, inboxes, strict=True)]


def _claimed(row: Sequence[Any], inbox: _Inbox, lease: int) -> ClaimedTurn:
    _, instance_id, definition_no, incarnation, execution, next_seq, attempts, last_no = row
    if inbox.has_more:
        # There are messages that this turn cannot see. With a lower number than the stored one its
        # commit finds that something is left, and wakes the instance again.
        last_no -= 1
    return ClaimedTurn(
        instance_id=instance_id,
        definition_no=definition_no,
        stamp=Stamp(incarnation, execution, next_seq),
        lease=lease,
        attempts=attempts + 1,
        last_no=last_no,
        messages=tuple(inbox.messages),
    )


class _Inbox(NamedTuple):
    messages: list[Message]
    has_more: bool


def _read_visible(
    connection: Connection, keys: Sequence[tuple[int, str]], now_ms: int
) -> list[_Inbox]:
    [(text, blob)] = connection.run(
        "read_visible",
        keys=pack(keys),
        now_ms=now_ms,
        max_messages=MAX_MESSAGES,
        max_bytes=MAX_MESSAGE_BYTES,
    )
    rows = unpack(text)
    bodies = cut(blob, (row[2] for row in rows))
    found: list[list[tuple[int, Message]]] = [[] for _ in keys]
    visible = [0] * len(keys)
    for row, body in zip(rows, bodies, strict=True):
        key, position, _, visible[key], no, at_ms, execution, kind, timer_key = row
        found[key].append((position, Message(no, at_ms, kind, body, execution, timer_key)))
    return [
        _Inbox([message for _, message in sorted(messages)], has_more=count > len(messages))
        for messages, count in zip(found, visible, strict=True)
    ]


def renew_turns(
    connection: Connection, leases: Sequence[TurnLease], *, now_ms: int, until_ms: int
) -> list[TurnLease]:
    """Extend leases that are still held and return those that are not."""
    if not leases:
        return []
    packed = pack([(part_of(lease.instance_id), *lease) for lease in leases])
    [(text,)] = connection.run("find_held_turns", leases=packed, now_ms=now_ms)
    held = set(unpack(text))
    if held:
        connection.run("renew_turns", leases=packed, now_ms=now_ms, until_ms=until_ms)
    return [lease for index, lease in enumerate(leases) if index not in held]


def release_turns(connection: Connection, leases: Sequence[TurnLease], *, now_ms: int) -> None:
    """Give back turns that were claimed and not worked on."""
    packed = pack([(part_of(lease.instance_id), *lease) for lease in leases])
    connection.run("release_turns", leases=packed, now_ms=now_ms)


def unpark(connection: Connection, instance_id: str, *, now_ms: int) -> bool:
    """Let a parked or blocked instance be tried again; tell whether it was one."""
    part = part_of(instance_id)
    rows = connection.run("unpark_live", part=part, instance_id=instance_id, now_ms=now_ms)
    for (incarnation,) in rows:
        connection.run(
            "unpark_instance",
            part=part,
            instance_id=instance_id,
            incarnation=incarnation,
            now_ms=now_ms,
        )
    return bool(rows)


# -------------------------------------------------------------------------- jobs


def claim_jobs(
    connection: Connection, claim: JobClaim, *, now_ms: int, offset: int
) -> list[ClaimedJob]:
    """Lease jobs that wait or were abandoned."""
    if not claim.queues or claim.limit < 1:
        return []
    [(text,)] = connection.run(
        "find_jobs", queues=pack(claim.queues), now_ms=now_ms, limit=claim.limit
    )
    chosen = share(unpack(text), claim.limit, offset)
    if not chosen:
        return []
    connection.run(
        "lease_jobs",
        keys=pack(chosen),
        token=claim.token,
        worker_id=claim.worker_id,
        until_ms=now_ms + claim.lease_ms,
    )
    return [
        job
        for some in _chunks(chosen, _JOBS_PER_READ)
        for job in _read_claimed(connection, some, claim.token)
    ]


def _read_claimed(connection: Connection, keys: Sequence[Any], token: int) -> list[ClaimedJob]:
    [(text, failures, policies, inputs)] = connection.run("read_claimed_jobs", keys=pack(keys))
    rows = unpack(text)
    jobs = []
    for row, failure, policy, payload in zip(
        rows,
        cut(failures, (row[8] for row in rows)),
        cut(policies, (row[9] for row in rows)),
        cut(inputs, (row[10] for row in rows)),
        strict=True,
    ):
        index, kind, name, variant, behaviour, attempt, lost, created_ms, *_ = row
        job = ClaimedJob(
            key=JobKey(*keys[index][1:]),
            token=token,
            queue=DefinitionKey(kind, name, variant, behaviour),
            input=payload,
            policy=policy,
            attempt=attempt,
            lost=lost,
            failures=_failures.decode(failure) if failure else JobFailures(),
            created_ms=created_ms,
        )
        jobs.append((index, job))
    return [job for _, job in sorted(jobs, key=lambda pair: pair[0])]


def renew_jobs(
    connection: Connection, leases: Sequence[JobLease], *, now_ms: int, until_ms: int
) -> list[JobLease]:
    """Extend leases that are still held and return those that are not."""
    if not leases:
        return []
    packed = pack([(part_of(lease.key.instance_id), *lease.key, lease.token) for lease in leases])
    [(text,)] = connection.run("find_held_jobs", leases=packed, now_ms=now_ms)
    held = set(unpack(text))
    if held:
        connection.run("renew_jobs", leases=packed, now_ms=now_ms, until_ms=until_ms)
    return [lease for index, lease in enumerate(leases) if index not in held]


# ------------------------------------------------------------------------ sharing


def share(candidates: Sequence[Sequence[T]], limit: int, offset: int) -> list[T]:
    """Take one of each list in turn until the limit is reached, beginning at `offset`.

    So a long backlog of one definition does not keep the others waiting.
    """
    begin = offset % len(candidates) if candidates else 0
    rotated = [*candidates[begin:], *candidates[:begin]]
    taken: list[T] = []
    for layer in zip_longest(*rotated):
        for candidate in layer:
            if candidate is not None:
                taken.append(candidate)
                if len(taken) == limit:
                    return taken
    return taken


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]
