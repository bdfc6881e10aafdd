"""What subscriptions do with the events they are given: start, or send, exactly once per event.

A repetition after a crash finds the instance that was started, or the receipt of the input that was
delivered, under an id made of the subscription's name and the event's position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.authoring.deciders.subscription import Subscription
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import BEHAVIOUR, orchestration_key
from perdure.clock import to_ms
from perdure.codec import check_id
from perdure.core.deciders.turn import start_of
from perdure.errors import AlreadyExistsError, RowError
from perdure.ids import fresh_id
from perdure.model.feeds import FeedEvent
from perdure.model.histories.events import InputTaken, Started, write_event
from perdure.model.instances import InstanceRow, NewInstance
from perdure.projection.handlers import ReadEvent, pos_before, read_all
from perdure.projection.lease import ReaderLease
from perdure.projection.reading import EventFailedError
from perdure.store.base import Store


class _NewStart(NamedTuple):
    """What an event leads to."""

    new: NewInstance
    place: int


class SubscriptionHandler:
    """Starts or sends for each event."""

    def __init__(
        self, subscription: Subscription[Any], store: Store, notice: Callable[[], None]
    ) -> None:
        """Prepare.

        Args:
            subscription: What to do.
            store: Where to.
            notice: Hears that a worker of this process may find work.
        """
        self.name = subscription.name
        self.filter = subscription.filter
        self.batch = subscription.batch
        self.retry = subscription.retry
        self._subscription = subscription
        self._store = store
        self._notice = notice

    async def prepare(self, lease: ReaderLease) -> None:
        """Nothing to do; of a rebuild neither: what was started before is found again."""

    async def handle_all(self, events: Sequence[FeedEvent], end: int, lease: ReaderLease) -> None:
        """Start or send for all, then move the position."""
        readable = read_all(self.filter, events)
        made, failure = self._make_all(readable.events)
        failure = failure or readable.error
        await lease.ensure()
        try:
            await self._put(made)
        except EventFailedError as refused:
            failure = refused
        if failure is None:
            await lease.advance(end)
        else:
            await lease.advance(pos_before(events, failure.index))
            raise failure

    # -------------------------------------------------------------------- making

    def _make_all(
        self, events: Sequence[ReadEvent]
    ) -> tuple[list[_NewStart], EventFailedError | None]:
        made: list[_NewStart] = []
        for one in events:
            try:
                new = self._make(one)
            except Exception as error:
                return made, EventFailedError(one.place, error)
            if new is not None:
                made.append(_NewStart(new, one.place))
        return made, None

    def _make(self, one: ReadEvent) -> NewInstance | None:
        subscription, meta = self._subscription, one.meta
        value = one.event
        if subscription.make is not None:
            value = subscription.make(value, meta)
            if value is None:
                return None
        once = f"{self.name}:{meta.position}"
        now_ms = self._store.clock()
        if subscription.orchestration is not None:
            source = f"{meta.decider}:{meta.instance_id}"
            return new_start(once, subscription.orchestration, value, source, now_ms=now_ms)
        assert subscription.target is not None, "a subscription starts or sends"
        cause = f"projection:{self.name}"
        return new_input(subscription.target, value, input_id=once, cause=cause, now_ms=now_ms)

    # ------------------------------------------------------------------- putting

    async def _put(self, made: Sequence[_NewStart]) -> None:
        if not made:
            return
        try:
            found = await self._store.start([one.new for one in made])
        except RowError as error:
            # One of them cannot be stored. Those that were are found when they are put again.
            if len(made) == 1:
                raise EventFailedError(made[0].place, error) from error
            for one in made:
                await self._put([one])
            return
        self._notice()
        for one, existing in zip(made, found, strict=True):
            self._check(one, existing)

    def _check(self, one: _NewStart, existing: InstanceRow | None) -> None:
        """Accept what an earlier attempt started; refuse what others started."""
        new = one.new
        if existing is None or (existing.kind, existing.name) == new.definition[:2]:
            # An input for an instance that has ended is dropped: as when a client sends it.
            return
        problem = AlreadyExistsError(
            new.instance_id,
            f"as {existing.kind} {existing.name}",
            advice=f"ids that begin with {self.name!r} and a colon belong to the subscription",
        )
        raise EventFailedError(one.place, problem)


def new_start(
    instance_id: str,
    orchestration: Orchestration[..., Any],
    value: Any,
    source: str,
    *,
    now_ms: int,
) -> NewInstance:
    """Return an orchestration to be started because of an event."""
    data = orchestration.definition.codec.encode((value,), {})
    delay = orchestration.options.delay
    started = Started(
        name=orchestration.name,
        version=orchestration.version,
        behaviour=BEHAVIOUR,
        input=msgspec.Raw(data),
        started_by=source,
    )
    kind, body = write_event(started)
    return NewInstance(
        instance_id=check_id("instance id", instance_id),
        incarnation=fresh_id(),
        definition=orchestration_key(orchestration.name, orchestration.version),
        input=data,
        start_kind=kind,
        start_body=body,
        created_ms=now_ms,
        visible_at_ms=0 if delay is None else now_ms + to_ms(delay),
        commit_id=fresh_id(),
    )


def new_input(
    decider: DeciderDefinition, value: Any, *, input_id: str, cause: str, now_ms: int
) -> NewInstance:
    """Return an input for a decider's instance, which is started if it is not there."""
    tag, data = decider.inputs.encode(value)
    return start_of(
        decider.name,
        decider.instance_of(value),
        InputTaken(tag=tag, input=msgspec.Raw(data), input_id=input_id, cause=cause),
        incarnation=fresh_id(),
        now_ms=now_ms,
        commit_id=fresh_id(),
        message_id=input_id,
    )
