"""Snapshots: a decider's state and bookkeeping as bytes, and back.

A snapshot is only ever a short cut. One with another schema number, of another form than this code
writes, or damaged, is ignored, and everything is folded from the first event; or from what stands
for events that were removed, which is made here too, and must be readable for ever.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import msgspec

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.core.deciders.fold import Fold
from perdure.core.deciders.notes import DeciderNotes
from perdure.errors import LimitExceededError, PayloadError
from perdure.model.feeds import StoredSnapshot
from perdure.model.histories.bookkeeping import Bookkeeping
from perdure.model.histories.events import (
    ChildScheduled,
    EffectScheduled,
    EventsRemoved,
    UnreadableEventError,
    read_event,
)
from perdure.model.turns import Snapshot

logger = logging.getLogger(__name__)

FORM = 1
"""Number of the form below. Raised when it changes: older ones are ignored then."""


class SnapshotBody(msgspec.Struct, frozen=True):
    """What is stored of a snapshot."""

    form: int
    state: msgspec.Raw
    memory: Bookkeeping


class KeptState(NamedTuple):
    """A snapshot that can be used."""

    state: Any
    data: Bookkeeping


_bodies = msgspec.json.Decoder(SnapshotBody)


def is_snapshot_due(fold: Fold, last_version: int) -> bool:
    """Return whether to make a snapshot, if the last one was made at a version.

    Raises:
        Exception: What `should_snapshot` raised.
    """
    definition = fold.definition
    every = definition.snapshot_every
    if every and fold.version - last_version >= every:
        return True
    if not definition.has_own_snapshots:
        return False
    is_due = bool(definition.decider.should_snapshot(fold.state, fold.version))
    fold.refuse_violation()
    return is_due


def write_snapshot(
    definition: DeciderDefinition, state: object, version: int, memory: Bookkeeping
) -> Snapshot:
    """Return a snapshot.

    Raises:
        PayloadError: The state cannot be stored.
        LimitExceededError: It is too large.
    """
    data = definition.state.encode(state, f"state of decider {definition.name!r}")
    body = msgspec.json.encode(SnapshotBody(FORM, msgspec.Raw(data), memory))
    return Snapshot(definition.schema, version, body)


def stand_for_removed(fold: Fold, notes: DeciderNotes) -> EventsRemoved:
    """Return what stands for the events so far, once all but the start are removed.

    Raises:
        PayloadError: The state cannot be stored.
        LimitExceededError: It is too large.
    """
    definition = fold.definition
    data = definition.state.encode(fold.state, f"state of decider {definition.name!r}")
    return EventsRemoved(
        upto=notes.last_seq,
        version=fold.version,
        schema=definition.schema,
        state=msgspec.Raw(data),
        memory=msgspec.Raw(msgspec.json.encode(notes.memory())),
    )


def snapshot_if_due(fold: Fold, notes: DeciderNotes) -> Snapshot | None:
    """Return a snapshot of an execution if one is due.

    Raises:
        Exception: What `should_snapshot` raised.
    """
    if notes.terminal is not None or not is_snapshot_due(fold, notes.snapshot_version):
        return None
    notes.snapshot_version = fold.version
    definition = fold.definition
    try:
        return write_snapshot(definition, fold.state, fold.version, notes.memory())
    except (PayloadError, LimitExceededError) as error:
        # Only a load is slower without it. A turn must not fail for that.
        logger.warning(
            "the state of instance %r (decider %s) cannot be kept as a snapshot: %s",
            notes.instance_id,
            definition.name,
            error,
            extra={"instance_id": notes.instance_id, "definition": definition.name},
        )
        return None


def read_snapshot(definition: DeciderDefinition, stored: StoredSnapshot) -> KeptState | None:
    """Return what a snapshot holds; None if this code cannot use it."""
    if stored.schema != definition.schema:
        return None
    try:
        body = _bodies.decode(stored.body)
        if body.form != FORM:
            return None
        for kept in body.memory.open:
            event = read_event(kept.kind, kept.body.encode())
            if not isinstance(event, EffectScheduled | ChildScheduled):
                return None
        return KeptState(definition.state.decode(bytes(body.state)), body.memory)
    except (msgspec.MsgspecError, PayloadError, UnreadableEventError):
        return None
