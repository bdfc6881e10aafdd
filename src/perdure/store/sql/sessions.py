"""Which worker has which session, and what it may run because of that.

A session that no worker has goes to the first worker that claims one of its jobs, in the same
transaction. It stays with its owner while the lease lasts, and moves on when the lease has run out,
when the owner gives no sign of life, or when the owner does not serve the queue of a job. There is
one row per session, so there is one owner (S27); and a session never moves while another worker
holds an unexpired lease on a job of the same queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from perdure.model.instances import part_of
from perdure.model.turns import JobClaim, SessionClaim
from perdure.store.sql.connection import Asked, Connection
from perdure.store.sql.definitions import Definitions
from perdure.store.sql.packing import pack, unpack
from perdure.store.sql.questions import reading

MAX_SESSIONS = 5_000
"""Sessions that one claim looks at; the next claim goes on from there."""
ALIVE_WITHIN_MS = 30_000
"""A worker that gave no sign of life for so long, and for a session's lease, is not alive."""
_SPARE = 2
"""How many times as many jobs as wanted are looked at, so that the oldest come first."""

Candidate = list[Any]
"""A row of `find_session_jobs`, and then owner and end of the session as they were seen."""


class WaitingSession(NamedTuple):
    """Jobs of a session in a queue that could be run now."""

    queue_no: int
    session: str
    since_ms: int


class _Holder(NamedTuple):
    owner: str
    until_ms: int


class SessionMarks:
    """How far a store's claims have come among very many sessions."""

    def __init__(self) -> None:
        self._after: dict[tuple[int, ...], str] = {}

    def after(self, queues: tuple[int, ...]) -> str:
        """Return the session to begin behind."""
        return self._after.get(queues, "")

    def note(self, queues: tuple[int, ...], looked_at: Sequence[Sequence[Any]]) -> None:
        """Remember where to go on: at the beginning, if all were looked at."""
        if len(looked_at) < MAX_SESSIONS:
            self._after.pop(queues, None)
            return
        last: dict[int, str | None] = {queue_no: session for queue_no, session, _ in looked_at}
        self._after[queues] = min((name for name in last.values() if name is not None), default="")


def find_session_jobs(
    connection: Connection,
    claim: JobClaim,
    terms: SessionClaim,
    waiting: Sequence[WaitingSession],
    *,
    now_ms: int,
    definitions: Definitions,
) -> dict[int, list[Candidate]]:
    """Return jobs with a session that the claimer may have, by queue, longest waiting first."""
    if not waiting:
        return {}
    holders = _holders(connection, [one.session for one in waiting])
    served = _served_by_others(connection, terms, holders, now_ms, definitions)
    may_have = [
        one
        for one in waiting
        if _is_ours(holders, one.session, terms)
        or _is_free(holders.get(one.session), one.queue_no, served, now_ms)
    ]
    admitted = _admit(may_have, terms, claim.limit)
    if not admitted:
        return {}
    [(text,)] = connection.run(
        "find_session_jobs",
        sessions=pack(
            [
                (
                    one.queue_no,
                    one.session,
                    _is_ours(holders, one.session, terms),
                    claim.losses_below(one.queue_no),
                )
                for one in admitted
            ]
        ),
        worker_id=claim.worker_id,
        now_ms=now_ms,
        limit=-(-_SPARE * claim.limit // len(admitted)),
    )
    found: dict[int, list[Candidate]] = {}
    for one, jobs in zip(admitted, unpack(text), strict=True):
        seen = holders.get(one.session, (None, None))
        found.setdefault(one.queue_no, []).extend([*job, *seen] for job in jobs)
    return found


def ask_sessions(queues: tuple[int, ...], marks: SessionMarks, *, now_ms: int) -> Asked:
    """Return what finds the sessions of these queues that have jobs."""
    return "find_sessions", {
        "queues": pack(queues),
        "after": marks.after(queues),
        "max_sessions": MAX_SESSIONS,
        "now_ms": now_ms,
    }


def sessions_in(text: str, queues: tuple[int, ...], marks: SessionMarks) -> list[WaitingSession]:
    """Return those of the sessions that were found that have a job to run now."""
    rows = unpack(text)
    marks.note(queues, rows)
    return [WaitingSession(*row) for row in rows if row[2] is not None]


def _holders(connection: Connection, sessions: Sequence[str]) -> dict[str, _Holder]:
    names = list(dict.fromkeys(sessions))
    [(text,)] = connection.run("load_sessions", keys=_keys(names))
    return {names[index]: _Holder(owner, until_ms) for index, owner, until_ms in unpack(text)}


def _served_by_others(
    connection: Connection,
    terms: SessionClaim,
    holders: dict[str, _Holder],
    now_ms: int,
    definitions: Definitions,
) -> dict[str, set[int]]:
    """Return which queues the workers serve that have some of these sessions; if not alive, none.

    An owner that the store knows nothing of is left out: it is between two of its lives, and its
    lease decides.
    """
    owners = {
        holder.owner
        for holder in holders.values()
        if holder.owner != terms.owner and holder.until_ms > now_ms
    }
    if not owners:
        return {}
    alive_since_ms = now_ms - max(terms.lease_ms, ALIVE_WITHIN_MS)
    return {
        worker.worker_id: (
            {definitions.number(connection, key) for key in worker.definitions}
            if worker.seen_ms >= alive_since_ms
            else set()
        )
        for worker in reading.read_workers(connection, 0)
        if worker.worker_id in owners
    }


def _is_ours(holders: dict[str, _Holder], session: str, terms: SessionClaim) -> bool:
    holder = holders.get(session)
    return holder is not None and holder.owner == terms.owner


def _is_free(
    holder: _Holder | None, queue_no: int, served: dict[str, set[int]], now_ms: int
) -> bool:
    if holder is None or holder.until_ms <= now_ms:
        return True
    queues = served.get(holder.owner)
    return queues is not None and queue_no not in queues


def _admit(
    may_have: Sequence[WaitingSession], terms: SessionClaim, limit: int
) -> list[WaitingSession]:
    """Choose the sessions to take jobs of: all that are busy here, and as many more as fit."""
    busy = set(terms.busy)
    others: set[str] = set()
    admitted = []
    for one in sorted(may_have, key=lambda one: one.since_ms):
        if one.session not in busy and one.session not in others:
            if len(others) == terms.more:
                continue
            others.add(one.session)
        admitted.append(one)
    # Each has a job at least.
    return admitted[:limit]


def take_sessions(
    connection: Connection, sessions: Sequence[Sequence[Any]], terms: SessionClaim, *, now_ms: int
) -> None:
    """Make these sessions the claimer's, if they are still as they were seen.

    Args:
        sessions: Each with the owner and the end that it had, or None.
    """
    connection.run(
        "take_sessions",
        keys=pack([(part_of(seen[0]), *seen) for seen in dict.fromkeys(map(tuple, sessions))]),
        owner=terms.owner,
        until_ms=now_ms + terms.lease_ms,
        now_ms=now_ms,
    )


def touch_sessions(connection: Connection, sessions: Sequence[str], *, now_ms: int) -> None:
    """Note that sessions are in use, unless their lease has run out."""
    connection.write("touch_sessions", keys=_keys(list(dict.fromkeys(sessions))), now_ms=now_ms)


def renew_sessions(
    connection: Connection,
    owner: str,
    busy: Sequence[str],
    *,
    now_ms: int,
    held_ms: int,
    lease_ms: int,
    idle_ms: int,
) -> list[str]:
    """Extend the sessions of an owner, and return which of the busy ones it no longer has.

    Args:
        held_ms: Those that ended before are its own no more.
    """
    connection.run(
        "renew_sessions",
        owner=owner,
        busy=pack(busy),
        now_ms=held_ms,
        until_ms=now_ms + lease_ms,
        idle_ms=now_ms - idle_ms,
    )
    if not busy:
        return []
    holders = _holders(connection, busy)
    kept = {
        session
        for session, holder in holders.items()
        if holder.owner == owner and holder.until_ms > now_ms
    }
    return [session for session in busy if session not in kept]


def _keys(sessions: Sequence[str]) -> str:
    return pack([(part_of(session), session) for session in sessions])
