"""What a claim brings along of an instance: its messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from perdure.model.instances import Stamp
from perdure.model.messages import Message
from perdure.model.turns import ClaimedTurn
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import cut, pack, unpack

MAX_MESSAGES = 1_000
"""Messages of one instance that one claim returns; the next claim brings the rest."""
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The same in bytes; a single message may be larger."""


def claimed_turn(row: Sequence[Any], inbox: Inbox, lease: int) -> ClaimedTurn:
    """Return what was claimed, from a row of `find_turns` as it was before."""
    _, instance_id, definition_no, *stamp, attempts, last_no = row
    messages = tuple([message for message in inbox.messages if message.no <= last_no])
    if inbox.has_more:
        # There are messages that this turn cannot see. With a lower number than the stored one its
        # commit finds that something is left, and wakes the instance again.
        last_no -= 1
    return ClaimedTurn(
        instance_id=instance_id,
        definition_no=definition_no,
        stamp=Stamp(*stamp),
        lease=lease,
        attempts=attempts + 1,
        last_no=last_no,
        messages=messages,
    )


class Inbox(NamedTuple):
    """Messages of one instance."""

    messages: list[Message]
    has_more: bool


def read_visible(
    connection: Connection, keys: Sequence[tuple[int, str]], now_ms: int
) -> list[Inbox]:
    """Return the messages of claimed instances that are visible."""
    [(text, blob)] = connection.run(
        "read_visible",
        keys=pack(keys),
        now_ms=now_ms,
        max_messages=MAX_MESSAGES,
        max_bytes=MAX_MESSAGE_BYTES,
    )
    return inboxes_in(unpack(text), blob, len(keys))


def inboxes_in(rows: Sequence[Any], blob: bytes | None, count: int) -> list[Inbox]:
    """Return what `read_visible` has found of so many instances."""
    bodies = cut(blob, (row[2] for row in rows))
    found: list[list[tuple[int, Message]]] = [[] for _ in range(count)]
    visible = [0] * count
    for row, body in zip(rows, bodies, strict=True):
        key, position, _, visible[key], no, at_ms, execution, kind, timer_key = row
        found[key].append((position, Message(no, at_ms, kind, body, execution, timer_key)))
    return [
        Inbox([message for _, message in sorted(messages)], has_more=count > len(messages))
        for messages, count in zip(found, visible, strict=True)
    ]
