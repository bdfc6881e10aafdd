"""Removed events of deciders: what stands for them in a history, and how it is read.

A history is the start, one `EventsRemoved` if some were removed, and all that came behind those.
The event holds what they folded to, so that every fold goes on from it; and what they left open, so
that a reader without the decider's code finds that too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from perdure.model.histories.bookkeeping import Bookkeeping
from perdure.model.histories.digests import ChainedDigest, Digest, digest_for
from perdure.model.histories.events import (
    NULL,
    EffectScheduled,
    Event,
    EventsRemoved,
    StoredEvent,
    TimerArmed,
    UnreadableEventError,
    read_event,
)
from perdure.model.histories.removed_events import PLACE
from perdure.model.histories.rows import read_row

_memories = msgspec.json.Decoder(Bookkeeping)


def find_removed(history: Sequence[StoredEvent]) -> EventsRemoved | None:
    """Return what stands for removed events in a history that begins with its start.

    Raises:
        UnreadableEventError: It is damaged.
    """
    if len(history) < PLACE or history[PLACE - 1].kind != EventsRemoved.kind:
        return None
    event = read_row(history[PLACE - 1])
    assert isinstance(event, EventsRemoved)
    return event


def first_gap(history: Iterable[StoredEvent], *, after: int = 0) -> tuple[int, int] | None:
    """Return the first and the last number of the events that are missing in a history without
    anything that stands for them; None if it is whole. It begins behind a number."""
    for stored in history:
        if stored.seq != after + 1:
            return after + 1, stored.seq - 1
        after = last_number(stored)
    return None


def last_number(stored: StoredEvent) -> int:
    """Return the number of the last event that a row is, or stands for."""
    if stored.kind == EventsRemoved.kind:
        event = read_row(stored)
        assert isinstance(event, EventsRemoved)
        return event.upto
    return stored.seq


def read_memory(removed: EventsRemoved) -> Bookkeeping:
    """Return what removed events said besides the state.

    Raises:
        UnreadableEventError: It is damaged.
    """
    try:
        return _memories.decode(bytes(removed.memory))
    except msgspec.MsgspecError as error:
        raise UnreadableEventError(
            f"what is kept of events {PLACE} to {removed.upto}, which were removed, is damaged: "
            f"{error}"
        ) from error


def left_open(removed: EventsRemoved) -> Iterator[tuple[StoredEvent, Event]]:
    """Return the removed events that still wait for something, as they would be recorded now:
    effects, orchestrations, timers.

    Raises:
        UnreadableEventError: What is kept is damaged.
    """
    memory = read_memory(removed)
    for kept in sorted(memory.open, key=lambda one: one.seq):
        event = read_event(kept.kind, kept.body.encode())
        if isinstance(event, EffectScheduled):
            event = msgspec.structs.replace(event, after=kept.waits_for)
        yield StoredEvent(kept.seq, kept.kind, kept.at_ms, kept.body.encode()), event
    for key, due_ms in memory.timers.items():
        timer = TimerArmed(key=key, due_ms=due_ms, tag="", input=NULL)
        yield StoredEvent(removed.upto, timer.kind, memory.now_ms, b""), timer


def digest_over(history: Sequence[StoredEvent], before: Digest | None = None) -> Digest:
    """Return the hash over a whole history, of which events may have been removed.

    Args:
        history: Its events, from the first one on; or those behind `before`.
        before: The hash over all that come before them, which may be fed here.
    """
    digest = before or digest_for(history[0] if history else None)
    for stored in history:
        if stored.kind == EventsRemoved.kind:
            with suppress(UnreadableEventError):  # damaged: it is hashed as it is
                event = read_row(stored)
                assert isinstance(event, EventsRemoved)
                digest = ChainedDigest(bytes.fromhex(read_memory(event).digest))
                continue
        digest.feed(stored.kind, stored.at_ms, stored.body)
    return digest
