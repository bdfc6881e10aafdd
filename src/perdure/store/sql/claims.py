"""Take, extend and give back leases on turns and jobs.

A claim asks once per definition for what has waited longest, shares its limit among them in turn,
and leases what it chose. All of it happens inside the caller's transaction, so what was found is
still there when it is leased. What was lost with its worker time and again is a suspect, which a
claim takes alone or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from perdure.ids import fresh_id
from perdure.model.blocked import MAX_TRIES
from perdure.model.instances import part_of
from perdure.model.jobs import ClaimedJob
from perdure.model.turns import ClaimedTurn, JobClaim, TurnClaim
from perdure.store.base import TurnLease
from perdure.store.sql.claimed_jobs import lift_limits, read_claimed
from perdure.store.sql.claimed_messages import (
    MAX_MESSAGE_BYTES,
    MAX_MESSAGES,
    claimed_turn,
    inboxes_in,
    read_visible,
)
from perdure.store.sql.connection import Asked, Connection, Value
from perdure.store.sql.definitions import Definitions
from perdure.store.sql.locking import PutOffError, lock_instances
from perdure.store.sql.packing import pack, unpack
from perdure.store.sql.questions.looking import look_alone
from perdure.store.sql.sessions import (
    SessionMarks,
    ask_sessions,
    find_session_jobs,
    sessions_in,
    take_sessions,
)

HOME_ADVANTAGE_MS = 200
"""For how long a ready instance is left to the worker that has it in memory."""
_INSTANCES_PER_READ = 32
"""Bounds the blob of one statement: 32 instances of 18 MB stay under SQLite's 1 GB."""
_JOBS_PER_READ = 100
_ATTEMPTS = 7
"""Place in a row of `find_turns`."""
_VISIBLE_AT, _LOSSES, _SESSION = 5, 6, 7
"""Places in a row of `find_jobs` and `find_session_jobs`; only the latter has a session."""

T = TypeVar("T")


# ------------------------------------------------------------------------- turns

AskTurns = Callable[[TurnClaim, int], Asked]
"""Returns what finds instances that may be leased at a time, for each definition of a claim."""


class TurnClaiming:
    """A claim of instances.

    It is run again if the answer to its commit was lost, and then finds what it has leased, without
    counting the attempts a second time. Messages that came since are left to the next claim: a
    lease tells that the messages of its turn are stored, also of a database that has gone back to
    just after the claim (S45).

    Where the database can, it is first tried in one call (`at_once`). If the answer to that is
    lost, what it has leased is not known: it is given back, and claimed anew with another lease.

    Args:
        claim: What is wanted.
        ask: Returns what finds those that may be leased, for each definition.
    """

    def __init__(self, claim: TurnClaim, ask: AskTurns) -> None:
        self._claim = claim
        self._ask = ask
        self._found: Sequence[Any] | None = None
        """The answers, if it was asked for together with others."""
        self._chosen: list[Any] = []
        """What was leased when it was run last; perhaps that was undone."""
        self._lease_id = claim.lease
        self._lost_lease: int | None = None
        """What it has leased with, perhaps, in a call whose answer was lost."""
        self._until_ms = 0
        """The end of what was leased in one call."""
        self.leased: Sequence[Sequence[Any]] = ()
        """What `lease_turns` has returned: the rows as they are now, where it does."""

    @property
    def has_leased(self) -> bool:
        """See `Look`."""
        return bool(self._chosen) or self._lost_lease is not None

    def subjects(self) -> Iterable[Hashable]:
        """See `Look`."""
        return [(self._ask, number) for number, _ in self._claim.definitions]

    def asks(self, now_ms: int) -> Sequence[Asked]:
        """See `Look`."""
        claim = self._claim
        return [self._ask(claim, now_ms)] if claim.definitions and claim.limit > 0 else ()

    def hear(self, answers: Sequence[Any]) -> None:
        """See `Look`."""
        self._found = answers

    def has_found(self, answers: Sequence[Any]) -> bool:
        """See `Look`."""
        return any(any(unpack(text)) for text in answers)

    def at_once(self, now_ms: int, *, may_differ_ms: int | None) -> Asked | None:
        """See `Look`."""
        claim = self._claim
        if self._ask is not ask_ready or not claim.definitions or claim.limit < 1:
            return None
        _, params = ask_ready(claim, now_ms)
        self._until_ms = now_ms + claim.lease_ms
        return "claim_turns", {
            **params,
            "may_differ_ms": may_differ_ms,
            "suspect_after": claim.suspect_after,
            "lease": self._lease_id,
            "until_ms": self._until_ms,
            "max_messages": MAX_MESSAGES,
            "max_bytes": MAX_MESSAGE_BYTES,
        }

    def hear_at_once(self, answer: bytes, *, offset: int) -> list[ClaimedTurn] | None:
        """See `Look`."""
        text, _, bodies = answer.partition(b"\0")
        is_done, *found = unpack(text.decode())
        if not is_done:
            return None
        candidates, leased, messages = found
        # In the order of the rows; then in that of a claim in steps.
        keys = [row[1] for some in candidates for row in some]
        inboxes = dict(zip(keys, inboxes_in(messages, bodies, len(keys)), strict=True))
        self.leased = [tuple(row.values()) for row in leased]
        return [
            claimed_turn(row, inboxes[row[1]], self._lease_id)
            for row in share(candidates, self._claim.limit, offset)
        ]

    def lose_answer(self) -> None:
        """See `Look`."""
        if self._lost_lease is None and self._ask is ask_ready:
            self._lost_lease, self._lease_id = self._lease_id, fresh_id()

    def run(self, connection: Connection, *, now_ms: int, offset: int) -> list[ClaimedTurn]:
        """Lease instances and return them with their messages."""
        claim = self._claim
        self.leased = ()
        if not claim.definitions or claim.limit < 1:
            return []
        if self._lost_lease is not None:
            self._free_lost(connection, self._lost_lease, now_ms)
        self._chosen = self._find_leased(connection, now_ms) or self._lease(
            connection, now_ms=now_ms, offset=offset
        )
        keys = [(part, instance_id) for part, instance_id, *_ in self._chosen]
        inboxes = [
            inbox
            for some in _chunks(keys, _INSTANCES_PER_READ)
            for inbox in read_visible(connection, some, now_ms)
        ]
        return [
            claimed_turn(row, inbox, self._lease_id)
            for row, inbox in zip(self._chosen, inboxes, strict=True)
        ]

    def _free_lost(self, connection: Connection, lease: int, now_ms: int) -> None:
        """Give back what was leased in a call whose answer was lost, and look again.

        Raises:
            PutOffError: Another transaction has locked some of it.
        """
        connection.run("wait_for_claim", lease=lease)
        definitions = pack(self._claim.definitions)
        [(leases,)] = connection.run(
            "find_claim", definitions=definitions, lease=lease, until_ms=self._until_ms
        )
        if connection.run("release_turns", leases=leases, now_ms=now_ms):
            raise PutOffError
        self._found = None

    def _find_leased(self, connection: Connection, now_ms: int) -> list[Any]:
        if not self._chosen:
            return []
        leases = pack(
            [(part, instance_id, self._lease_id) for part, instance_id, *_ in self._chosen]
        )
        [(text,)] = connection.run("find_held_turns", leases=leases, now_ms=now_ms)
        return [self._chosen[index] for index in sorted(unpack(text))]

    def _lease(self, connection: Connection, *, now_ms: int, offset: int) -> list[Any]:
        claim = self._claim
        if self._found is None:
            look_alone(connection, self, now_ms=now_ms)
        assert self._found is not None, "it has looked"
        ([text], self._found) = self._found, None
        candidates = unpack(text)
        suspects = [
            [turn for turn in some if turn[_ATTEMPTS] >= claim.suspect_after] for some in candidates
        ]
        chosen = _choose(candidates, suspects, claim.limit, offset)
        if chosen:
            self.leased = connection.run(
                "lease_turns",
                keys=pack([(part, instance_id) for part, instance_id, *_ in chosen]),
                lease=self._lease_id,
                until_ms=now_ms + claim.lease_ms,
                worker_id=claim.worker_id,
            )
        return chosen


def ask_ready(claim: TurnClaim, now_ms: int) -> Asked:
    """Return what finds instances that are ready or abandoned."""
    return "find_turns", {
        "definitions": pack(claim.definitions),
        "worker_id": claim.worker_id,
        "now_ms": now_ms,
        "home_ms": now_ms - HOME_ADVANTAGE_MS,
        "losses_below": claim.losses_below,
        "limit": claim.limit,
    }


def ask_blocked(claim: TurnClaim, now_ms: int) -> Asked:
    """Return what finds blocked instances that this code has not been tried on."""
    return "find_blocked", {
        "definitions": pack(claim.definitions),
        "max_tries": MAX_TRIES,
        "limit": claim.limit,
    }


def renew_turns(
    connection: Connection, leases: Sequence[TurnLease], *, held_ms: int, until_ms: int
) -> list[TurnLease]:
    """Extend leases that are still held and return those that are not.

    Args:
        held_ms: Those that ended before are not.
    """
    if not leases:
        return []
    packed = pack([(part_of(lease.instance_id), *lease) for lease in leases])
    [(text,)] = connection.run("find_held_turns", leases=packed, now_ms=held_ms)
    held = set(unpack(text))
    if held:
        connection.run("renew_turns", leases=packed, now_ms=held_ms, until_ms=until_ms)
    return [lease for index, lease in enumerate(leases) if index not in held]


def release_turns(connection: Connection, leases: Sequence[TurnLease], *, now_ms: int) -> bool:
    """Give back turns that were claimed and not worked on; return whether that was all of them, or
    another transaction has locked some."""
    packed = pack([(part_of(lease.instance_id), *lease) for lease in leases])
    return not connection.run("release_turns", leases=packed, now_ms=now_ms)


def unpark(connection: Connection, instance_id: str, *, now_ms: int) -> bool:
    """Let a parked or blocked instance be tried again; return whether it was one."""
    part = part_of(instance_id)
    # Both rows, before either is changed: a commit that ends it changes both too.
    lock_instances(connection, [instance_id])
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


class JobClaiming:
    """A claim of jobs that wait or were abandoned; run again like a claim of turns."""

    def __init__(self, claim: JobClaim, marks: SessionMarks) -> None:
        self._claim = claim
        self._marks = marks
        self._found: Sequence[Any] | None = None
        self._chosen: list[Any] = []
        self._until_ms = 0

    @property
    def has_leased(self) -> bool:
        """See `Look`."""
        return bool(self._chosen)

    def subjects(self) -> Iterable[Hashable]:
        """See `Look`."""
        return [("jobs", queue_no) for queue_no in self._claim.queues]

    def asks(self, now_ms: int) -> Sequence[Asked]:
        """See `Look`."""
        claim = self._claim
        if not claim.queues or claim.limit < 1:
            return ()
        queues = [(queue_no, claim.losses_below(queue_no)) for queue_no in claim.queues]
        params: dict[str, Value] = {"queues": pack(queues), "now_ms": now_ms, "limit": claim.limit}
        asked: list[Asked] = [("find_jobs", params)]
        if claim.sessions is not None and claim.sessions.has_room:
            asked.append(ask_sessions(claim.queues, self._marks, now_ms=now_ms))
        return asked

    def hear(self, answers: Sequence[Any]) -> None:
        """See `Look`."""
        self._found = answers

    def has_found(self, answers: Sequence[Any]) -> bool:
        """See `Look`."""
        texts, *sessions = answers or ("[]",)
        queues = self._claim.queues
        return any(unpack(texts)) or any(sessions_in(one, queues, self._marks) for one in sessions)

    def at_once(self, now_ms: int, *, may_differ_ms: int | None) -> Asked | None:
        """See `Look`: there is more to choose."""
        return None

    def hear_at_once(self, answer: bytes, *, offset: int) -> list[ClaimedJob] | None:
        """See `Look`."""
        return None

    def lose_answer(self) -> None:
        """See `Look`: nothing was leased."""

    def run(
        self, connection: Connection, definitions: Definitions, *, now_ms: int, offset: int
    ) -> list[ClaimedJob]:
        """Lease jobs and return them."""
        claim = self._claim
        if not claim.queues or claim.limit < 1:
            return []
        chosen = self._find_leased(connection, now_ms)
        if not chosen:
            self._until_ms = now_ms + claim.lease_ms
            chosen = self._find(connection, definitions, now_ms=now_ms, offset=offset)
            self._lease(connection, chosen, now_ms)
        self._chosen = chosen
        claimed = [
            job
            for some in _chunks(chosen, _JOBS_PER_READ)
            for job in read_claimed(connection, some, claim.token, self._until_ms)
        ]
        lift_limits(
            connection, [job.key for job, start_by_ms in claimed if start_by_ms is not None]
        )
        return [job for job, _ in claimed]

    def _find_leased(self, connection: Connection, now_ms: int) -> list[Any]:
        if not self._chosen:
            return []
        leases = pack([(*job[:_VISIBLE_AT], self._claim.token) for job in self._chosen])
        [(text,)] = connection.run("find_held_jobs", leases=leases, now_ms=now_ms)
        return [self._chosen[index] for index in sorted(dict(unpack(text)))]

    def _find(
        self, connection: Connection, definitions: Definitions, *, now_ms: int, offset: int
    ) -> list[Any]:
        claim = self._claim
        if self._found is None:
            look_alone(connection, self, now_ms=now_ms)
        assert self._found is not None, "it has looked"
        ([text, *sessions], self._found) = self._found, None
        candidates = unpack(text)
        if claim.sessions is not None and sessions:
            with_session = find_session_jobs(
                connection,
                claim,
                claim.sessions,
                sessions_in(sessions[0], claim.queues, self._marks),
                now_ms=now_ms,
                definitions=definitions,
            )
            for queue_no, plain in zip(claim.queues, candidates, strict=True):
                # The job that waits longest comes first, with a session or without.
                plain.extend(with_session.get(queue_no, ()))
                plain.sort(key=lambda job: job[_VISIBLE_AT])
        suspects = [
            [job for job in some if job[_LOSSES] >= claim.suspect_after]
            for queue_no, some in zip(claim.queues, candidates, strict=True)
            if queue_no not in claim.harmless
        ]
        return _choose(candidates, suspects, claim.limit, offset)

    def _lease(self, connection: Connection, chosen: list[Any], now_ms: int) -> None:
        claim = self._claim
        if not chosen:
            return
        if claim.sessions is not None:
            sessions = [job[_SESSION:] for job in chosen if len(job) > _SESSION]
            if sessions:
                take_sessions(connection, sessions, claim.sessions, now_ms=now_ms)
        connection.run(
            "lease_jobs",
            keys=pack(chosen),
            token=claim.token,
            worker_id=claim.worker_id,
            until_ms=self._until_ms,
        )


# ------------------------------------------------------------------------ sharing


def _choose(
    candidates: Sequence[Sequence[T]], suspects: Sequence[Sequence[T]], limit: int, offset: int
) -> list[T]:
    """Take one suspect alone if there is one, else as many as the limit allows.

    What dies with its worker then has died of itself, or of what that worker already ran.
    """
    if any(suspects):
        return share(suspects, 1, offset)
    return share(candidates, limit, offset)


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
