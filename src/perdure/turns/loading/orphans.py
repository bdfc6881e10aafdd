"""Children that need not begin, since what they are for has ended.

An end reaches the children of an instance by message, theirs by the next one, and so on: one level
per turn. Children that start children grow one level per turn as well, so the end might never catch
up. Therefore a child that begins looks at those above it. If one has ended, and the next one below
has not taken the message of that yet, the message is on its way to the child: it ends at once, and
starts nothing.

A child further down that is being shielded from the cancellation may be ended, too, if it begins in
this moment.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.model.histories.events import (
    CancelRequested,
    Started,
    Terminated,
    UnreadableEventError,
    read_event,
    write_event,
)
from perdure.model.histories.lineage import Parent
from perdure.model.instances import InstanceRow
from perdure.model.messages import Message
from perdure.model.turns import ClaimedTurn
from perdure.store.base import Store

_ENDS = (CancelRequested.kind, Terminated.kind)


async def end_orphans(store: Store, claims: Sequence[ClaimedTurn]) -> list[ClaimedTurn]:
    """Return claims, those of orphans with a message that ends them."""
    lines = {index: line for index, claim in enumerate(claims) if (line := _line_of(claim))}
    if not lines:
        return list(claims)
    ids = {parent.instance_id: None for line in lines.values() for parent in line}
    rows = dict(zip(ids, await store.read_instances(list(ids)), strict=True))
    told = list(claims)
    for index, line in lines.items():
        ended = (place for place, one in enumerate(line) if _has_ended(one, rows[one.instance_id]))
        lowest = next(ended, 0)
        if lowest and await _is_message_below(store, line[:lowest]):
            told[index] = _with_end(claims[index], line[lowest].instance_id)
    return told


def _line_of(claim: ClaimedTurn) -> tuple[Parent, ...]:
    """Return who is above a child that is to begin, its parent first; nothing if that is all."""
    if claim.stamp.place[1:] != (1, 1) or not claim.messages:
        return ()  # It has done things, also in an earlier execution, and may have to clean up.
    first = claim.messages[0]
    if first.kind != Started.kind:
        return ()
    try:
        started = read_event(first.kind, first.body)
    except UnreadableEventError:
        return ()  # Its turn will say so.
    assert isinstance(started, Started)
    if started.parent is None or started.lineage is None or not started.lineage.above:
        return ()
    return (started.parent, *started.lineage.above)


def _has_ended(one: Parent, row: InstanceRow | None) -> bool:
    """Return whether an execution is over. One that is gone is not known to have ended."""
    if row is None or row.incarnation != one.incarnation:
        return False
    return row.status.is_terminal or row.execution > one.execution


async def _is_message_below(store: Store, line: Sequence[Parent]) -> bool:
    """Return whether the message of an end waits for one of these, the last of whom it came to."""
    for one in reversed(line):
        if any(message.kind in _ENDS for message in await store.read_inbox(one.instance_id)):
            return True
        [row] = await store.read_instances([one.instance_id])
        if not _has_ended(one, row):
            return False  # It has heard, and goes on nevertheless.
    return False


def _with_end(claim: ClaimedTurn, ended: str) -> ClaimedTurn:
    reason = f"{ended!r}, which is above it, had ended before it began"
    end = Message(0, claim.messages[-1].effective_at_ms, *write_event(Terminated(reason=reason)))
    return msgspec.structs.replace(claim, messages=(*claim.messages, end))
