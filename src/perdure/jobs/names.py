"""Noticing that another process works under the same lasting name.

A name says whose the sessions are, so two processes of one name would both run jobs of the same
session (S27). That happens when a worker is restarted before the old process has gone, or by a
mistake. The store has one row per name: a worker that finds, in place of its own last sign of life,
that of another one, knows that both live. The one that started later has the sessions then.
"""

from __future__ import annotations

import logging

from perdure.jobs.sessions import BusySessions
from perdure.model.turns import WorkerRow
from perdure.store.base import Store

logger = logging.getLogger(__name__)


class NameWatch:
    """Looks, before each sign of life of a worker with a name, whose the last one was."""

    def __init__(self, store: Store, sessions: BusySessions) -> None:
        self._store = store
        self._sessions = sessions
        self._has_beaten = False
        self._has_warned = False

    async def look(self, own: WorkerRow) -> None:
        """Leave the sessions to a process of the same name that started later, while it lives.

        Args:
            own: The sign of life that is about to be given.
        """
        if not self._has_beaten:
            # What is there now may be of an earlier life of this worker.
            self._has_beaten = True
            return
        rows = await self._store.read_workers(seen_since_ms=0)
        other = next((row for row in rows if row.worker_id == own.worker_id), own)
        self._sessions.are_left = _life(other) > _life(own)
        if _life(other) != _life(own) and not self._has_warned:
            self._has_warned = True
            logger.error(
                "another process works under the same name; sessions are left to the one that "
                "started later. Give each worker a name of its own, or stop one before the next "
                "starts",
                extra={"worker_id": own.worker_id, "host": other.host, "pid": other.pid},
            )


def _life(row: WorkerRow) -> tuple[int, str, int]:
    return (row.started_ms, row.host, row.pid)
