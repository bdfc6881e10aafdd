"""Sessions: jobs that must all run on one worker, as that worker sees them.

A session becomes a worker's in the claim of its first job, and stays so while the worker renews it.
One renewal is for all sessions of a worker. A session that was not used for a while is no longer
renewed, runs out, and goes to the worker that claims its next job. Losing a session says nothing
about the jobs that run: each has a lease of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

from perdure.clock import to_ms
from perdure.model.options import WorkerOptions
from perdure.model.turns import SessionClaim
from perdure.model.worker_options import renew_every
from perdure.store.base import Store

logger = logging.getLogger(__name__)


class BusySessions:
    """Which sessions have jobs here, and how many more may come."""

    def __init__(self, options: WorkerOptions, owner: str) -> None:
        self._limit = options.max_sessions
        self._lease_ms = to_ms(options.session_lease)
        self._owner = owner
        self._jobs: Counter[str] = Counter()
        self._next = 0
        self._was_full = False
        """Whether there was no room for another session, at the last claim or since."""
        self.were_used = False
        """Whether a job with a session has ever come here."""
        self.are_left = False
        """Whether another process of the same name takes the jobs with a session."""

    def begin(self, session: str) -> None:
        """A job of a session came."""
        self.were_used = True
        self._jobs[session] += 1
        self._was_full = self._was_full or len(self._jobs) >= self._limit

    def end(self, session: str) -> None:
        """It is gone."""
        self._jobs[session] -= 1
        if not self._jobs[session]:
            del self._jobs[session]

    def busy(self) -> tuple[str, ...]:
        """Return the sessions with jobs here."""
        return tuple(self._jobs)

    def has_new_room(self) -> bool:
        """Tell, once, whether another session may come where there was no room for one."""
        is_new = self._was_full and len(self._jobs) < self._limit
        self._was_full = self._was_full and not is_new
        return is_new

    def terms(self, claims: int) -> Sequence[SessionClaim | None]:
        """Return on what terms each of several claims of one moment takes jobs with a session.

        They share the room for other sessions, or together they would take more than there is. What
        cannot be shared evenly goes to another one each time.
        """
        if not self._limit or self.are_left:
            return [None] * claims
        room = max(self._limit - len(self._jobs), 0)
        self._was_full = not room
        self._next += 1
        each, rest = divmod(room, claims) if claims else (0, 0)
        busy = self.busy()
        return [
            SessionClaim(
                self._owner, self._lease_ms, busy, each + ((index + self._next) % claims < rest)
            )
            for index in range(claims)
        ]


class SessionKeeper:
    """Keeps the sessions of a worker its own."""

    def __init__(
        self, store: Store, options: WorkerOptions, sessions: BusySessions, *, owner: str
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._owner = owner
        self._lease_ms = to_ms(options.session_lease)
        self._idle_ms = to_ms(options.session_idle)
        self._every_s = renew_every(options.session_lease).total_seconds()
        self._is_lasting = options.name is not None

    async def run(self) -> None:
        """Renew for ever, three times per lease. Ends only by cancellation."""
        while True:
            await self.renew()
            await asyncio.sleep(self._every_s)

    async def renew(self) -> None:
        """Renew once. A worker with a lasting name has the sessions of its earlier lives too."""
        if not (self._is_lasting or self._sessions.were_used):
            return
        lost = await self._store.renew_sessions(
            self._owner, self._sessions.busy(), lease_ms=self._lease_ms, idle_ms=self._idle_ms
        )
        if lost:
            # Their jobs go on: a job's own lease is what counts.
            logger.info(
                "sessions with running jobs went to other workers",
                extra={"sessions": len(lost), "worker_id": self._owner},
            )

    async def release(self) -> None:
        """Give up all sessions, unless a worker of this name will come back for them.

        Also if no job of one ever ran here: a claim that the stop cut short may have brought one.
        """
        if not self._is_lasting:
            await self._store.release_sessions(self._owner)
