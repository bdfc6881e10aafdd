"""The lock that tells the server, and so all workers, that a worker is connected.

Two connections of a worker hold it, shared: the lane that renews its leases, and the one that
listens, which connects anew at once when it is cut. The server lets go of it when both are gone,
and only then; so a colleague that finds it free knows that nothing of the worker can come any more
before it has connected anew. It is the lock of one process in one life of the server. A mark beside
it says that it was held: a worker without one is of an older release, or behind a pooler, and then
nothing is known of its connections. A crash of the server removes the marks, and its next start
changes the life, so a worker is never taken for gone because the server was.

Behind a pooler no connection is a worker's own. In transaction mode, which the URL tells of,
nothing is tried; in session mode, the process that answers is not the one that greeted us, and then
nothing is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from perdure.model.turns import Departed, Presences, WorkerRow
from perdure.store.postgres.connection import PostgresConnection

MARK_TRIES = 3
"""How often a mark is tried to be left that others leave at the same place at once."""


def presence_key(
    schema: str, life: int, worker_id: str, host: str, pid: int, started_ms: int
) -> int:
    """Return the lock of a worker's connections: another one for every process and server's life.

    Args:
        schema: Where the worker's row is.
        life: When the server was started.
        worker_id: Of its row, as are the rest.
        host: Where its process is.
        pid: Which process.
        started_ms: When the worker was started.
    """
    parts = (schema, str(life), worker_id, host, str(pid), str(started_ms))
    digest = sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def key_of(schema: str, worker: WorkerRow, life: int) -> int:
    """Return the lock of a worker's connections."""
    return presence_key(schema, life, worker.worker_id, worker.host, worker.pid, worker.started_ms)


def attend(connection: PostgresConnection, schema: str, worker: WorkerRow) -> int | None:
    """Hold a worker's lock by a connection, and leave the mark.

    Returns:
        The lock; None: another process answers than the one that greeted us, and nothing is held.
    """
    [(life,)] = connection.run("read_life")
    key = key_of(schema, worker, life)
    if not connection.run("attend", key=key, pid=connection.server_pid()):
        return None
    for _ in range(MARK_TRIES):
        if connection.run("mark_presence", key=key):
            break
    return key


def presences_in(schema: str, found: Sequence[Any]) -> Presences:
    """Return who is gone, by what `read_presences` has found."""
    life, workers, marks, held = found
    marked, is_held = {*marks}, {*held}
    departed = []
    for worker_id, host, pid, started_ms, lease_ms, is_lasting in workers:
        key = presence_key(schema, life, worker_id, host, pid, started_ms)
        if key in marked:
            marked.remove(key)
            if key not in is_held:
                one = Departed(
                    worker_id, host, pid, started_ms, lease_ms, bool(is_lasting), life, key
                )
                departed.append(one)
    return Presences(len(marks), departed, sorted(marked - is_held))
