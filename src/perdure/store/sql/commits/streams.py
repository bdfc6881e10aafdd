"""Write and read streams. What counts and what is void is told in `perdure.store.streams`.

Nothing is written when an attempt fails, is cancelled or is lost: its rows have the token of a
lease that no job has any more. So streams cost nothing where they are not used. What is void is
removed by the reader or the next attempt that comes across it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from perdure.errors import StoreCorruptError
from perdure.model.instances import part_of
from perdure.model.jobs import JobEnd, JobKey, StreamAppend
from perdure.model.streams import (
    SentItems,
    StoredItem,
    StreamHead,
    StreamPage,
    StreamPlace,
    VoidItems,
)
from perdure.model.turns import Turn
from perdure.store.sql.commits.row_types import StreamHeadValues, StreamValues
from perdure.store.sql.commits.rows import LiveState
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import Bulk, Rows, pack, unpack
from perdure.store.sql.questions.reading import read_instances

MAX_ROW_BYTES = 256 * 1024
"""What was sent together and is longer becomes several rows, so that no page is too large."""

_items = msgspec.json.Decoder(list[msgspec.Raw])


class _NumberedItems(msgspec.Struct):
    """Items of a row that have numbers, as they are stored."""

    items: list[msgspec.Raw]
    numbers: list[int]


_numbered = msgspec.json.Decoder(_NumberedItems)


class SentBatch(NamedTuple):
    """What was sent to streams by one turn or attempt."""

    key: JobKey
    """Of an attempt, its job; of a turn, its execution and its first event."""
    attempt: int
    """0: a turn."""
    token: int
    """0: it counts for good."""
    at_ms: int
    sent: tuple[SentItems, ...]


class RewoundStreams(NamedTuple):
    """An instance that was reset: what it sent behind the cut is void."""

    part: int
    instance_id: str
    execution: int
    """The one that was left."""
    kept: int
    """How many of its events are kept."""
    reopened: tuple[int, ...]
    """Calls of those that are made again."""


class _NewRow(NamedTuple):
    """A row that has no index yet."""

    batch: SentBatch
    stream: str
    before: int
    """How many items of the stream come before its own, in this transaction."""
    items: tuple[bytes, ...]
    numbers: tuple[int, ...]


def sent_by_turn(
    turn: Turn, row: LiveState, first_seq: int, live: Mapping[str, LiveState]
) -> list[SentBatch]:
    """Return what an accepted turn sends to own streams, and to those of others that have not ended
    and are the ones that were meant.

    Args:
        turn: The turn.
        row: Its instance.
        first_seq: The number of its first event.
        live: All instances that the batch touches, by id.
    """
    batches = []
    for one in turn.sent:
        key = JobKey(row.instance_id, row.incarnation, row.execution, one.seq or first_seq)
        batches.append(SentBatch(key, 0, 0, turn.now_ms, (one,)))
    for to_id, incarnation, stream, items, execution, seq, numbers in turn.forwarded:
        other = live.get(to_id)
        if other is None or not other.is_born or other.incarnation != incarnation:
            continue
        if execution not in (0, other.execution):
            continue
        # What was sent for a call is like what an attempt of that call sent.
        key = JobKey(to_id, incarnation, other.execution, seq or other.next_seq)
        sent = (SentItems(stream, items, numbers=numbers),)
        batches.append(SentBatch(key, 1 if seq else 0, 0, turn.now_ms, sent))
    return batches


def _key_of(sender: JobEnd | StreamAppend) -> tuple[int, str, int, int, int]:
    """Return what tells the rows of an attempt. Jobs that were claimed together have one token."""
    instance_id, _, execution, seq = sender.key
    return part_of(instance_id), instance_id, sender.token, execution, seq


def write_sent(bulk: Bulk, batches: Sequence[SentBatch], kept: Sequence[JobEnd] = ()) -> None:
    """Store what was sent, in order, and let count for good what successful attempts sent."""
    if kept:
        keys = [*(end.key for end in kept), *(batch.key for batch in batches)]
        lock_heads(bulk.connection, [key.instance_id for key in keys])
    bulk.run_keys(
        "keep_stream_rows",
        [_key_of(end) for end in kept],
    )
    counts: dict[tuple[str, str], int] = {}
    new: list[_NewRow] = []
    for batch in batches:
        for stream, all_items, _, all_numbers in batch.sent:
            place = (batch.key.instance_id, stream)
            begin = 0
            for some in _rows_of(all_items):
                numbers = all_numbers[begin : begin + len(some)]
                new.append(_NewRow(batch, stream, counts.get(place, 0), some, numbers))
                begin += len(some)
                counts[place] = counts.get(place, 0) + len(some)
    # In one order, so that two who send to several streams do not wait for each other.
    heads = [
        StreamHeadValues(part_of(instance_id), instance_id, stream, items)
        for (instance_id, stream), items in counts.items()
    ]
    heads.sort(key=lambda head: (head.part, head.instance_id, head.stream))
    bulk.write("put_stream_heads", heads)
    rows = Rows()
    for batch, stream, before, some, numbers in new:
        instance_id, items = batch.key.instance_id, len(some)
        body = _body_of(some, numbers)
        rows.rows.append(
            StreamValues(
                part_of(instance_id),
                instance_id,
                stream,
                counts[instance_id, stream] - before - items + 1,
                items,
                *batch.key[1:],
                batch.attempt,
                batch.token,
                batch.at_ms,
                rows.place(body),
                len(body),
            )
        )
    bulk.write_rows("insert_stream_rows", rows)


def _body_of(items: tuple[bytes, ...], numbers: tuple[int, ...]) -> bytes:
    """Return items as they are stored: as a list, or with their numbers beside it."""
    listed = b"[%s]" % b",".join(items)
    if not numbers:
        return listed
    return b'{"numbers":%s,"items":%s}' % (msgspec.json.encode(numbers), listed)


def lock_heads(connection: Connection, instance_ids: Iterable[str]) -> None:
    """Let no other send to streams of these instances, or take back, until the transaction ends.

    Before rows of a stream are touched, its head is locked, and heads in one order: so no two
    transactions wait for each other.
    """
    if connection.locks:
        connection.run("lock_stream_heads", keys=_keys_of(instance_ids))


def _keys_of(instance_ids: Iterable[str]) -> str:
    return pack([(part_of(one), one) for one in dict.fromkeys(instance_ids)])


def rewind_streams(connection: Connection, rewound: RewoundStreams) -> None:
    """Let what was sent behind a cut be void, and give the rest to the next execution. The heads
    are locked."""
    connection.write(
        "rewind_streams",
        **{**rewound._asdict(), "reopened": pack(rewound.reopened)},
        next_execution=rewound.execution + 1,
    )


def _rows_of(items: tuple[bytes, ...]) -> list[tuple[bytes, ...]]:
    """Return items as they are stored together."""
    rows: list[tuple[bytes, ...]] = []
    begin = size = 0
    for place, item in enumerate(items):
        if size and size + len(item) > MAX_ROW_BYTES:
            rows.append(items[begin:place])
            begin, size = place, 0
        size += len(item)
    if begin < len(items):
        rows.append(items[begin:])
    return rows


class StreamAppending:
    """What running jobs sent, of those that have their leases still.

    Stored once, however often it is tried: where a server has crashed since, it cannot be asked
    what became of a commit whose answer was lost.
    """

    def __init__(self, appends: Sequence[StreamAppend]) -> None:
        self._appends = appends
        self._was_run = False

    def run(self, connection: Connection, *, now_ms: int) -> list[bool]:
        """Store it; tell of each job whether it is its worker's still."""
        appends = self._appends
        leases = [(part_of(one.key.instance_id), *one.key, one.token) for one in appends]
        [(text,)] = connection.run("lock_senders", leases=pack(leases))
        held = set(unpack(text))
        taken = [append for index, append in enumerate(appends) if index in held]
        if self._was_run and taken:
            taken = _not_stored(connection, taken)
        self._was_run = True
        if any(one.is_first for one in taken):
            lock_heads(connection, [one.key.instance_id for one in taken])
        for instance_id in sorted({one.key.instance_id for one in taken if one.is_first}):
            take_back(connection, instance_id, now_ms=now_ms)
        write_sent(
            Bulk(connection, alone=True),
            [SentBatch(one.key, one.attempt, one.token, now_ms, one.sent) for one in taken],
        )
        return [index in held for index in range(len(appends))]


def _not_stored(connection: Connection, appends: Sequence[StreamAppend]) -> list[StreamAppend]:
    """Return those of which an earlier try has stored nothing."""
    [(text,)] = connection.run("count_sent", keys=pack(list(map(_key_of, appends))))
    counts = dict(unpack(text))
    return [one for index, one in enumerate(appends) if counts[index] <= one.stored]


def take_back(connection: Connection, instance_id: str, *, now_ms: int) -> None:
    """Remove what is void of an instance's streams, and put take-backs in its place."""
    part = part_of(instance_id)
    place: dict[str, int | str] = {"part": part, "instance_id": instance_id}
    heads = dict(connection.run("lock_stream_heads", keys=_keys_of([instance_id])))
    void = connection.run("find_void_rows", **place) if heads else []
    if not void:
        return
    keys = [(part, instance_id, stream, last_index) for stream, last_index, _ in void]
    connection.run("delete_stream_rows", keys=pack(keys))
    firsts: dict[str, int] = {}
    for stream, last_index, items in void:
        firsts.setdefault(stream, last_index - items + 1)
    for stream, first in firsts.items():
        of_stream = {**place, "stream": stream}
        own = heads[stream]
        connection.run("delete_take_backs", **of_stream, after=first)
        connection.run("move_stream_rows", **of_stream, after=first, next_index=own + 1)
        connection.run(
            "insert_take_back", **of_stream, last_index=own, discards_from=first, at_ms=now_ms
        )
        connection.run("advance_stream_head", **of_stream)


def read_stream(
    connection: Connection, instance_id: str, stream: str, *, after: int, limit: int
) -> StreamPage | None:
    """Return what counts of a stream behind an index."""
    [row] = read_instances(connection, [instance_id])
    if row is None:
        return None
    place: dict[str, int | str] = {
        "part": part_of(instance_id),
        "instance_id": instance_id,
        "stream": stream,
    }
    found = connection.run("read_stream", **place, after=after, limit=limit)
    [void] = connection.run("count_void_rows", **place)
    items: list[StoredItem] = []
    for last_index, count, discards_from, at_ms, body in found:
        if discards_from is not None:
            items.append(StoredItem(last_index, at_ms, None, discards_from))
            continue
        index = last_index - count
        for value, number in _read_body(instance_id, stream, body):
            index += 1
            if index > after:
                items.append(StoredItem(index, at_ms, bytes(value), number=number))
    return StreamPage(
        row.incarnation,
        row.status.is_terminal,
        VoidItems(*void),
        tuple(items),
        is_last=len(found) < limit,
    )


def _read_body(instance_id: str, stream: str, body: bytes) -> list[tuple[msgspec.Raw, int | None]]:
    """Return the items of a row, each with its number if it has one."""
    try:
        if body[:1] == b"[":
            return [(item, None) for item in _items.decode(body)]
        found = _numbered.decode(body)
        return list(zip(found.items, found.numbers, strict=True))
    except (msgspec.MsgspecError, ValueError) as error:
        raise StoreCorruptError(
            f"stream {stream!r} of instance {instance_id!r} has a row that is damaged: {error}"
        ) from error


def find_stream_news(connection: Connection, places: Sequence[StreamPlace]) -> list[bool]:
    """Tell for each place whether there is anything behind it, or to be taken back."""
    keys = [(part_of(place.instance_id), *place) for place in places]
    [(text,)] = connection.run("find_stream_news", keys=pack(keys))
    found = set(unpack(text))
    return [index in found for index in range(len(places))]


def read_stream_heads(connection: Connection, instance_id: str) -> list[StreamHead]:
    """Return the streams of an instance, by name."""
    rows = connection.run("read_stream_heads", part=part_of(instance_id), instance_id=instance_id)
    return [StreamHead(*row) for row in rows]
