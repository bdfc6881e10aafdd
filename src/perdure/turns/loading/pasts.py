"""Reading what an execution was: its history, and of a decider its newest snapshot before that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.core.deciders.snapshots import read_snapshot
from perdure.model.feeds import StoredSnapshot
from perdure.model.histories.events import StoredEvent
from perdure.store.base import ExecutionKey, Store

TRIES = 3
"""How often a past is read again that was changed while it was read."""


class Past(NamedTuple):
    """All that is needed to bring an execution back into memory."""

    history: Sequence[StoredEvent]
    """Its events, those after the snapshot if there is one."""
    snapshot: StoredSnapshot | None = None

    @property
    def next_seq(self) -> int:
        """The number of the event that comes next."""
        if self.history:
            return self.history[-1].seq + 1
        return 1 if self.snapshot is None else self.snapshot.seq + 1

    @property
    def is_torn(self) -> bool:
        """Whether events were removed behind the snapshot between reading it and reading them."""
        if not self.history or self.snapshot is None:
            return False
        return self.history[0].seq != self.snapshot.seq + 1


class WantedPast(NamedTuple):
    """Whose past to read."""

    key: ExecutionKey
    decider: DeciderDefinition | None = None
    """Of a decider's instance: tells which snapshots fit."""


async def read_pasts(store: Store, wanted: Sequence[WantedPast]) -> list[Past]:
    """Return what is known of executions, with few questions for many."""
    pasts = await _read_once(store, wanted)
    for _ in range(TRIES):
        if not any(past.is_torn for past in pasts):
            break
        # Where events were removed, a newer snapshot was there before.
        pasts = await _read_once(store, wanted)
    return pasts


async def _read_once(store: Store, wanted: Sequence[WantedPast]) -> list[Past]:
    snapshots = await _read_snapshots(store, wanted)
    whole = [one.key for one in wanted if one.key not in snapshots]
    histories, *rests = await asyncio.gather(
        store.read_histories(whole),
        *(
            store.read_histories([key], after_seq=snapshot.seq)
            for key, snapshot in snapshots.items()
        ),
    )
    read = dict(zip(whole, histories, strict=True))
    for key, [rest] in zip(snapshots, rests, strict=True):
        read[key] = rest
    return [Past(read[one.key], snapshots.get(one.key)) for one in wanted]


async def _read_snapshots(
    store: Store, wanted: Sequence[WantedPast]
) -> dict[ExecutionKey, StoredSnapshot]:
    """Return the snapshots that fit; one of another schema, or damaged, is as good as none."""
    asked = [(one.key, one.decider) for one in wanted if one.decider is not None]
    if not asked:
        return {}
    found = await store.deciders.read_snapshots([key for key, _ in asked])
    return {
        key: snapshot
        for (key, decider), snapshot in zip(asked, found, strict=True)
        if snapshot is not None and read_snapshot(decider, snapshot) is not None
    }
