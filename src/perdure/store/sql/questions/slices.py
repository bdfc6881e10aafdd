"""Read everything, or everything of a range of ids: see `perdure.store.contents`.

Every function sees one state of the database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from perdure.model.admin import KvRow, ReportRow, SessionRow
from perdure.model.feeds import StoredSnapshot
from perdure.model.histories.events import EventRecorded, StoredEvent
from perdure.model.instances import DECIDER, PARTS, part_of
from perdure.model.jobs import JobKey
from perdure.model.messages import Message
from perdure.model.turns import UniqueKey
from perdure.store.base import ExecutionKey
from perdure.store.contents import (
    FIRST_KEY,
    FIRST_PLACE,
    Contents,
    FedRow,
    KeyPlace,
    KeySlice,
    SentRow,
    Slice,
    SlicePlace,
    StrayEvent,
    TornSession,
)
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import pack, unpack
from perdure.store.sql.questions.reading import instance_row, live_row, read_lives, waiting_job

MAX_EVENTS = 20_000
MAX_BYTES = 16 << 20
MAX_ROWS = 5_000
"""Of a slice: events, their bodies, rows of each other table. One instance may have more."""

MAX_KEYS = 5_000
"""How many business keys are read at once."""

ReadRows = Callable[[str], list[tuple[Any, ...]]]
"""Runs a statement for the ids of a range."""

_LAST_PLACE = SlicePlace(PARTS, "")


def read_contents(connection: Connection) -> Contents:
    """Return everything the database holds."""
    contents = _read_range(connection, FIRST_PLACE, _LAST_PLACE, with_payloads=True)
    [(text,)] = connection.run("read_sessions")
    contents.sessions = [SessionRow(*row) for row in unpack(text)]
    after: KeyPlace | None = FIRST_KEY
    while after is not None:
        keys, after = _read_keys(connection, after)
        contents.unique_keys.update(keys)
    contents.feed = _fed(connection.run("read_all_feed"))
    return contents


def read_slice(connection: Connection, after: SlicePlace, before_part: int) -> Slice:
    """Return everything of some of the ids behind a place and of lower parts than one."""
    [(text,)] = connection.run(
        "slice_end",
        after_part=after.part,
        after_id=after.instance_id,
        max_events=MAX_EVENTS,
        max_bytes=MAX_BYTES,
        max_rows=MAX_ROWS,
    )
    ends = [SlicePlace(*place) for place in unpack(text) if place]
    end = min((place for place in ends if place.part < before_part), default=None)
    to = SlicePlace(before_part, "") if end is None else end
    contents = _read_range(connection, after, to, with_payloads=False)
    fed_ids = {key.instance_id for key, events in contents.histories.items() if _is_fed(events)}
    fed_ids |= {one for one, row in contents.instances.items() if row.kind == DECIDER}
    if fed_ids:
        keys = pack([(part_of(instance_id), instance_id) for instance_id in sorted(fed_ids)])
        contents.feed = _fed(connection.run("read_feed_of", keys=keys))
    return Slice(contents, end)


def read_keys(connection: Connection, after: KeyPlace) -> KeySlice:
    """Return some of the business keys behind a place, with the live rows of their holders."""
    keys, end = _read_keys(connection, after)
    holders = list(dict.fromkeys(holder for holder, _ in keys.values()))
    lives = read_lives(connection, holders)
    live = {row.instance_id: row for row in lives if row is not None}
    return KeySlice(Contents(unique_keys=keys, live=live), end)


def find_stray_feed(connection: Connection, after: int, upto: int) -> list[StrayEvent]:
    """Return what the feed has between two positions and no history has."""
    [(text,)] = connection.run("find_stray_feed", after=after, upto=upto)
    return [StrayEvent(*row) for row in unpack(text)]


def find_torn_sessions(connection: Connection, *, now_ms: int) -> list[TornSession]:
    """Return the sessions that are not as they must be."""
    [(text,)] = connection.run("find_torn_sessions", now_ms=now_ms)
    return [TornSession(*row) for row in unpack(text)]


def _read_range(
    connection: Connection, after: SlicePlace, to: SlicePlace, *, with_payloads: bool
) -> Contents:
    contents = Contents()
    rows = partial(
        connection.run,
        after_part=after.part,
        after_id=after.instance_id,
        to_part=to.part,
        to_id=to.instance_id,
        with_payloads=with_payloads,
    )
    _read_work(contents, rows)
    _read_kept(contents, rows)
    return contents


def _read_work(contents: Contents, rows: ReadRows) -> None:
    """Add instances, their histories, and what is under way for them."""
    for instance_id, *values in rows("slice_instances"):
        contents.instances[instance_id] = instance_row(instance_id, values)
    for instance_id, *values in rows("slice_live"):
        contents.live[instance_id] = live_row(instance_id, values)
    for instance_id, incarnation, execution, *event in rows("slice_events"):
        key = ExecutionKey(instance_id, incarnation, execution)
        contents.histories.setdefault(key, []).append(StoredEvent(*event))
    for instance_id, *message in rows("slice_inbox"):
        contents.inboxes.setdefault(instance_id, []).append(Message(*message))
    for instance_id, *values in rows("slice_jobs"):
        contents.jobs.setdefault(instance_id, []).append(waiting_job(instance_id, values))
    for instance_id, *numbers in rows("slice_dead_jobs"):
        contents.dead_jobs.setdefault(instance_id, []).append(JobKey(instance_id, *numbers))
    for instance_id, parent_id, parent_incarnation in rows("slice_children"):
        contents.children[instance_id] = (parent_id, parent_incarnation)


def _read_kept(contents: Contents, rows: ReadRows) -> None:
    """Add what instances keep, and what only deciders have."""
    for instance_id, name, updated_ms, value in rows("slice_kv"):
        contents.kv.setdefault(instance_id, {})[name] = KvRow(value, updated_ms)
    for instance_id, version, updated_ms, value in rows("slice_reports"):
        contents.reports[instance_id] = ReportRow(version, value, updated_ms)
    for instance_id, stream, *row in rows("slice_streams"):
        contents.streams.setdefault((instance_id, stream), []).append(SentRow(*row))
    for instance_id, stream, next_index in rows("slice_stream_heads"):
        contents.stream_heads[instance_id, stream] = next_index
    for instance_id, input_id, outcome in rows("slice_receipts"):
        contents.receipts.setdefault(instance_id, {})[input_id] = outcome
    for *execution_key, seq, schema, version, body in rows("slice_snapshots"):
        snapshot = StoredSnapshot(seq, schema, version, body)
        contents.snapshots[ExecutionKey(*execution_key)] = snapshot
    for instance_id, no in rows("slice_observations"):
        contents.observations.setdefault(instance_id, []).append(no)


def _read_keys(
    connection: Connection, after: KeyPlace
) -> tuple[dict[UniqueKey, tuple[str, int]], KeyPlace | None]:
    rows = connection.run("read_unique_keys", **after._asdict(), limit=MAX_KEYS)
    keys = {UniqueKey(scope, key): (holder, number) for _, scope, key, holder, number in rows}
    return keys, KeyPlace(*rows[-1][:3]) if len(rows) == MAX_KEYS else None


def _fed(rows: Sequence[tuple[Any, ...]]) -> list[FedRow]:
    return [FedRow(ExecutionKey(*execution), seq, tag) for *execution, seq, tag in rows]


def _is_fed(events: Sequence[StoredEvent]) -> bool:
    return any(event.kind == EventRecorded.kind for event in events)
