"""The built-in activities that reach deciders: giving inputs, waiting for events.

An input is given with an id that is equal in all attempts of the call, so it is decided once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.authoring.deciders.decision import Accepted, AlreadyCompleted, Rejected
from perdure.core.deciders.answers import DirectInput
from perdure.errors import (
    EventsRemovedError,
    InstanceEndedError,
    InstanceHeldError,
    InstanceNotFoundError,
    StoreError,
    StoreUnavailableError,
    UniqueKeyError,
)
from perdure.jobs.attempts import JobCode
from perdure.jobs.builtins import ClientForJobs, make_work
from perdure.jobs.feed_watch import FeedWatch
from perdure.jobs.running import RunningActivity
from perdure.model.builtins import (
    EXECUTE,
    SEND_INPUT,
    WAIT_EVENT,
    ExecuteOutput,
    GiveInput,
    WaitEventInput,
    WaitEventOutput,
    WrittenEvent,
)
from perdure.model.histories.events import EventRecorded, EventsRemoved, StoredEvent
from perdure.model.histories.removed import first_gap, last_number
from perdure.model.histories.rows import read_row
from perdure.model.instances import InstanceRow
from perdure.store.base import ExecutionKey, Store

FindDecider = Callable[[str], DeciderDefinition]
"""Returns the decider of a name; only calls for deciders that are here come here."""


def decider_works(client: ClientForJobs, store: Store, find: FindDecider) -> dict[str, JobCode]:
    """Return what jobs of the built-in activities for deciders call, by name."""
    calls = DeciderCalls(client, store, find)
    return {
        SEND_INPUT: make_work(SEND_INPUT, calls.send_input),
        EXECUTE: make_work(
            EXECUTE,
            calls.execute,
            waits_out=(StoreError, InstanceHeldError),
            raises=(UniqueKeyError,),
        ),
        WAIT_EVENT: make_work(WAIT_EVENT, calls.wait_event, waits_out=(StoreUnavailableError,)),
    }


class DeciderCalls:
    """What calls of orchestrations to deciders do."""

    def __init__(self, client: ClientForJobs, store: Store, find: FindDecider) -> None:
        self._instances = client.instances
        self._inputs = client.inputs
        self._store = store
        self._find = find
        self._watch = FeedWatch(store)

    async def send_input(self, context: RunningActivity, input: bytes) -> None:
        """Put an input into an inbox."""
        asked = msgspec.json.decode(input, type=GiveInput)
        await self._inputs.send(asked.decider, asked.instance_id, _direct(asked, context))

    async def execute(self, context: RunningActivity, input: bytes) -> ExecuteOutput:
        """Have an input decided."""
        asked = msgspec.json.decode(input, type=GiveInput)
        definition = self._find(asked.decider)
        outcome = await self._inputs.execute(definition, asked.instance_id, _direct(asked, context))
        return _written(definition, outcome)

    async def wait_event(self, _: RunningActivity, input: bytes) -> WaitEventOutput:
        """Wait until an instance has recorded an event."""
        asked = msgspec.json.decode(input, type=WaitEventInput)
        search = EventSearch(self._store, self._find(asked.decider), asked)
        async with self._watch.watching(asked.instance_id) as news:
            while True:
                news.clear()
                row = await self._row(asked.instance_id)
                found = None if row is None else await search.look(row)
                if found is not None:
                    return found
                if row is not None and row.status.is_terminal:
                    raise InstanceEndedError(asked.instance_id, row.status)
                await self._news_of(asked.instance_id, row, news)

    async def _row(self, instance_id: str) -> InstanceRow | None:
        [row] = await self._store.read_instances([instance_id])
        return row

    async def _news_of(
        self, instance_id: str, row: InstanceRow | None, news: asyncio.Event
    ) -> None:
        """Wait until an instance has recorded something or has ended."""
        waits: set[asyncio.Task[Any]] = {asyncio.create_task(news.wait())}
        if row is not None:
            waits.add(asyncio.create_task(self._ended(instance_id)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _ended(self, instance_id: str) -> None:
        try:
            await self._instances.wait_ended(instance_id)
        except InstanceNotFoundError:
            # Deleted meanwhile: it may come again.
            return


class EventSearch:
    """Looks for one event in a history that grows."""

    def __init__(self, store: Store, definition: DeciderDefinition, asked: WaitEventInput) -> None:
        self._store = store
        self._definition = definition
        self._asked = asked
        self._key = ExecutionKey(asked.instance_id, 0, 0)
        self._seq = 0
        self._version = 0
        self._passed = asked.after
        """Behind which version it looks: those before are of no matter, or were looked at."""

    async def look(self, row: InstanceRow) -> WaitEventOutput | None:
        """Look at what was recorded since the last time.

        Raises:
            EventsRemovedError: Events that it had to look at were removed before.
        """
        key = ExecutionKey(row.instance_id, row.incarnation, row.execution)
        if key != self._key:
            self._key, self._seq, self._version = key, 0, 0
            self._passed = self._asked.after
        [history] = await self._store.read_histories([key], after_seq=self._seq)
        if first_gap(history, after=self._seq) is not None:
            # What it had come to was removed meanwhile.
            self._seq = self._version = 0
            [history] = await self._store.read_histories([key])
        for stored in history:
            self._seq = last_number(stored)
            if stored.kind == EventsRemoved.kind:
                self._skip_removed(stored)
            if stored.kind != EventRecorded.kind:
                continue
            self._version += 1
            if self._version <= self._passed:
                continue
            self._passed = self._version
            recorded = read_row(stored)
            assert isinstance(recorded, EventRecorded)
            # As the code has it now: another tag may have become one that is waited for.
            now = self._definition.write_event(self._definition.read_event(recorded))
            if now.tag in self._asked.tags:
                return WaitEventOutput(_event(now), self._version)
        return None

    def _skip_removed(self, stored: StoredEvent) -> None:
        removed = read_row(stored)
        assert isinstance(removed, EventsRemoved)
        if self._passed < removed.version:
            what = f"waiting for an event of {self._asked.instance_id!r} behind {self._passed}"
            raise EventsRemovedError(what, kept_after=removed.version)
        self._version = removed.version


def _direct(asked: GiveInput, context: RunningActivity) -> DirectInput:
    return DirectInput(
        asked.tag,
        bytes(asked.input),
        # Equal in all attempts of the call.
        input_id=context.idempotency_key,
        cause=f"orchestration:{context.instance_id}",
    )


def _event(recorded: EventRecorded) -> WrittenEvent:
    return WrittenEvent(recorded.tag, recorded.event, recorded.event_version)


def _written(
    definition: DeciderDefinition, outcome: Accepted[Any, Any] | Rejected[Any] | AlreadyCompleted
) -> ExecuteOutput:
    match outcome:
        case Accepted(events=events, state=state, version=version, reply=reply):
            return ExecuteOutput(
                "accepted",
                events=tuple(_event(definition.write_event(event)) for event in events),
                state=msgspec.Raw(definition.state.encode(state, "state")),
                version=version,
                reply=msgspec.Raw(msgspec.json.encode(reply)),
            )
        case Rejected(reason=reason):
            tag, data = definition.rejections.encode(reason)
            return ExecuteOutput("rejected", tag=tag, reason=msgspec.Raw(data))
        case AlreadyCompleted():
            return ExecuteOutput("completed")
