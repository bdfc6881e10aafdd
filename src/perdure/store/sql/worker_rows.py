"""What is stored of workers: what they serve, how busy they are, and which leases they hold.

A sign of life is one row with one body: the definitions that the worker claims, and behind them, in
the same form, its slots. A release that knows nothing of slots reads them as definitions of a kind
that no work is of.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.model.admin import HeldLeases, LeaseCount
from perdure.model.instances import DefinitionKey
from perdure.model.turns import SlotUse, WorkerRow
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import unpack

SLOTS = "slots"
"""The kind of an entry that is no definition: `(kind, kind of slots, "running/waiting", slots)`."""
LEASES_LOOKED_AT = 5_000
"""How many rows of one definition are looked at for leases. Timers that are due before the last
lease ends are among them; they lie between the leases in the index."""

_entries = msgspec.json.Decoder(tuple[DefinitionKey, ...])


def served_body(worker: WorkerRow) -> bytes:
    """Return the body of a worker's row."""
    slots = (
        DefinitionKey(SLOTS, one.kind, f"{one.running}/{one.waiting}", one.slots)
        for one in worker.slots
    )
    return msgspec.json.encode((*worker.definitions, *slots))


def read_served(body: bytes) -> tuple[tuple[DefinitionKey, ...], tuple[SlotUse, ...]]:
    """Return what the body of a worker's row says: its definitions, and its slots."""
    entries = _entries.decode(body)
    return (
        tuple(one for one in entries if one.kind != SLOTS),
        tuple(_use(one) for one in entries if one.kind == SLOTS),
    )


def _use(entry: DefinitionKey) -> SlotUse:
    running, _, waiting = entry.variant.partition("/")
    return SlotUse(entry.name, entry.behaviour, int(running), int(waiting))


def count_leases(
    connection: Connection, workers: Sequence[WorkerRow], *, now_ms: int
) -> HeldLeases:
    """Count which leases these workers hold."""
    # No lease ends later than one that is taken now by the worker with the longest.
    until_ms = now_ms + max((one.lease_ms for one in workers), default=0)
    limit = LEASES_LOOKED_AT + 1
    held: dict[tuple[str, DefinitionKey], int] = {}
    most = 0
    [(text,)] = connection.run("count_leases", now_ms=now_ms, until_ms=until_ms, limit=limit)
    for *key, by_worker in unpack(text):
        most = max(most, sum(looked_at for _, _, looked_at in by_worker))
        for worker_id, leased, _ in by_worker:
            held[worker_id, DefinitionKey(*key)] = leased
    for worker in workers:
        [(text,)] = connection.run(
            "count_session_leases",
            worker_id=worker.worker_id,
            now_ms=now_ms,
            until_ms=until_ms,
            limit=limit,
        )
        rows = unpack(text)
        most = max(most, sum(leased for *_, leased in rows))
        for *key, leased in rows:
            place = worker.worker_id, DefinitionKey(*key)
            held[place] = held.get(place, 0) + leased
    ids = {one.worker_id for one in workers}
    counts = (LeaseCount(*place, leased) for place, leased in held.items())
    return HeldLeases(
        tuple(sorted(one for one in counts if one.leased and one.worker_id in ids)),
        is_whole=most <= LEASES_LOOKED_AT,
    )
