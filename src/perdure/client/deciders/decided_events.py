"""Events of deciders as they are recorded, read without their code."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from perdure.client.reading.info import HistoryEvent, Json
from perdure.errors import EventsRemovedError, UsageError
from perdure.model.histories.events import EventRecorded, EventsRemoved, InputTaken

if TYPE_CHECKING:
    from perdure.client.client import Client

EVENTS_PER_READ = 1_000
"""How much of a history is in memory at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedEvent:
    """An event of a decider's instance as it is recorded, and where it came from."""

    version: int
    """Its number among the events of its instance, from 1."""
    seq: int
    """Its number in the history."""
    at: datetime
    tag: str
    event: Json
    cause: str
    """Who gave the input that it follows from; nothing: a client."""
    input_tag: str
    input: Json
    input_id: str
    correlation: str


async def read_decided(
    client: Client, stored_id: str, *, after: int, limit: int
) -> list[DecidedEvent]:
    """Return so many events behind a version.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: It is none of a decider.
        EventsRemovedError: Some of these were removed.
    """
    handle = client.handle(stored_id)
    info = await handle.info()
    if info.kind != "decider":
        raise UsageError(f"{stored_id!r} is an instance of the {info.kind} {info.name!r}")
    found: list[DecidedEvent] = []
    taken: dict[str, Json] = {}
    version = seq = 0
    while part := await handle.history(after=seq, limit=EVENTS_PER_READ):
        for event in part:
            seq = event.seq
            if event.kind == InputTaken.kind:
                taken = event.data
            elif event.kind == EventsRemoved.kind:
                seq, version = event.data["upto"], event.data["version"]
                if after < version:
                    what = f"the list of events of {stored_id!r} behind version {after}"
                    raise EventsRemovedError(what, kept_after=version)
            elif event.kind == EventRecorded.kind:
                version += 1
                if version > after:
                    found.append(_decided(version, event, taken))
                if len(found) == limit:
                    return found
    return found


def _decided(version: int, event: HistoryEvent, taken: dict[str, Json]) -> DecidedEvent:
    return DecidedEvent(
        version=version,
        seq=event.seq,
        at=event.at,
        tag=event.data.get("tag", ""),
        event=event.data.get("event"),
        cause=taken.get("cause", ""),
        input_tag=taken.get("tag", ""),
        input=taken.get("input"),
        input_id=taken.get("input_id", ""),
        correlation=taken.get("correlation", ""),
    )
