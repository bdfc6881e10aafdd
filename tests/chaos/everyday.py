"""What callers are told of promises, streams, schedules and resets, and whether the store holds it.

- Whoever is told to have kept or rejected a promise first is the only one, and what it gave is on
  record; whoever is told to be too late finds another answer on record; nothing else is on record.
- Each item that a reader was shown is stored under its index with that value, or a take-back behind
  it says that it is void. Indexes rise. What a reader has left at the end is what a late one gets:
  each item once, in order.
- A slot of a schedule fires once, and each instance that it was told or is on record to have
  started is there, for that slot. A backfill has come to as many slots as its caller was told.
- A reset that was told to have happened is the origin of an execution, and a fork is there.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from perdure import Client, Handle, Promise, Stream
from perdure.errors import PerdureError, StoreUnavailableError
from perdure.model.builtins import SCHEDULE
from perdure.model.histories.events import (
    Event,
    EventRecorded,
    Origin,
    PromiseMade,
    SignalReceived,
    Started,
    read_event,
)
from perdure.model.messages import Message
from perdure.model.promises import promise_message_id, promise_name
from perdure.model.streams import StoredItem
from perdure.store.base import ExecutionKey, Store
from perdure.store.contents import Contents

REFUSED = "refused"
"""Told that it never happened."""


@dataclass
class Kept:
    """Somebody keeps or rejects a promise."""

    token: str
    said: str
    """The value, as JSON; or the reason."""
    rejects: bool = False
    answer: bool | str | None = None
    """Whether it was the first; *refused*; None: nobody was told."""


@dataclass
class Read:
    """Somebody reads a stream."""

    instance_id: str
    stream: str
    items: list[StoredItem] = field(default_factory=list)
    """What it was shown; with an item, from where on those before it are void."""
    answer: str = ""
    """*Ended*: it has come to the end."""
    void_from: int | None = None
    """From where on items are void that nothing follows."""


@dataclass
class WentBack:
    """Somebody resets an instance, or branches off."""

    instance_id: str
    reason: str = ""
    branch: str = ""
    answer: bool | None = None


EverydayCall: TypeAlias = Kept | Read | WentBack
Items: TypeAlias = Mapping[tuple[str, str], Sequence[StoredItem]]
"""What is stored, by instance and stream."""


class EverydayListener:
    """Hears what callers of a client are told; spies on it from now on."""

    def __init__(self, client: Client, calls: list[Any]) -> None:
        self._calls = calls
        self._resolve, self._reject = client.resolve, client.reject
        self._reset, self._fork = client._core.reset, client._core.fork
        for spied, name in [
            (client, "resolve"),
            (client, "reject"),
            (client._core, "reset"),
            (client._core, "fork"),
        ]:
            setattr(spied, name, getattr(self, name))

    async def resolve(self, promise: Promise[Any], token: str, value: Any, /) -> bool:
        said = promise.codec.encode(value, "value").decode()
        return await self._keep(Kept(token, said), self._resolve(promise, token, value))

    async def reject(self, token: str, reason: str, /) -> bool:
        return await self._keep(Kept(token, reason, rejects=True), self._reject(token, reason))

    async def _keep(self, call: Kept, keeping: Any) -> bool:
        self._calls.append(call)
        try:
            call.answer = is_first = await keeping
        except StoreUnavailableError:
            raise
        except PerdureError:
            call.answer = REFUSED
            raise
        assert isinstance(is_first, bool)
        return is_first

    async def reset(self, instance_id: str, point: Any, reason: str, **more: Any) -> bool:
        call = WentBack(instance_id, reason)
        self._calls.append(call)
        call.answer = await self._reset(instance_id, point, reason, **more)
        return call.answer

    async def fork(self, instance_id: str, new_id: str, point: Any, moves_to: Any) -> None:
        call = WentBack(instance_id, branch=new_id)
        self._calls.append(call)
        await self._fork(instance_id, new_id, point, moves_to)
        call.answer = True


async def read_to_the_end(
    handle: Handle[Any], stream: Stream[Any], calls: list[Any], *, after: int = 0
) -> None:
    """Read a stream, and keep what was shown."""
    call = Read(handle.instance_id, stream.name)
    calls.append(call)
    reader = handle.stream(stream, after=after)
    async for item in reader:
        body = stream.codec.encode(item.value, "item")
        call.items.append(StoredItem(item.index, 0, body, item.discards_from))
    call.void_from = reader.discards_from
    call.answer = "ended"


async def stored_items(store: Store, contents: Contents) -> Items:
    """Return all items of all streams, once what is void is taken back, as any reader has it."""
    found = {}
    for instance_id, stream in contents.stream_heads:
        await store.streams.take_back(instance_id)
        items: list[StoredItem] = []
        while True:
            after = items[-1].index if items else 0
            page = await store.streams.read_stream(instance_id, stream, after=after, limit=1_000)
            if page is None or not page.items:
                break
            items += page.items
        found[instance_id, stream] = items
    return found


# -------------------------------------------------------------------------- comparing


def everyday_not_as_told(
    calls: Sequence[object],
    contents: Contents,
    items: Items | None,
    elsewhere: Collection[str] = (),
) -> Iterator[str]:
    """Yield all that is wrong; without items, streams are not looked at."""
    yield from _promises([call for call in calls if isinstance(call, Kept)], contents, elsewhere)
    back = [call for call in calls if isinstance(call, WentBack)]
    yield from _went_back(back, contents, elsewhere)
    yield from _slots(contents)
    if items is not None:
        yield from _streams([call for call in calls if isinstance(call, Read)], items)


def backfill_not_as_told(data: Mapping[str, Any], slots: int, contents: Contents) -> Iterator[str]:
    """Compare how many slots a backfill has, as its caller was told, with what came of them."""
    came = {
        one["at_ms"]
        for tag in ("SlotFired", "SlotSkipped")
        for one in _decided(contents, tag)
        if one["name"] == data["name"] and data["from_ms"] <= one["at_ms"] < data["before_ms"]
    }
    if len(came) < slots:
        yield f"not there: of {slots} slots of a backfill of {data['name']} are {len(came)}"


def _events(contents: Contents, key: ExecutionKey) -> Iterator[Event]:
    for stored in contents.histories[key]:
        yield read_event(stored.kind, stored.body)


def _origin(contents: Contents, key: ExecutionKey) -> Origin | None:
    begun = next(_events(contents, key))
    return begun.origin if isinstance(begun, Started) else None


def _is_fork(contents: Contents, key: ExecutionKey) -> bool:
    origin = _origin(contents, key)
    return origin is not None and origin.instance_id != key.instance_id


def _own_events(contents: Contents, key: ExecutionKey) -> Iterator[Event]:
    """Yield what an execution has not taken over from another one."""
    origin = _origin(contents, key)
    yield from list(_events(contents, key))[0 if origin is None else origin.cut :]


class _Made(NamedTuple):
    """A promise that is on record."""

    instance_id: str
    signal: str
    message_id: str


def _promises(
    calls: Sequence[Kept], contents: Contents, elsewhere: Collection[str]
) -> Iterator[str]:
    made, recorded = _made(contents), _recorded(contents)
    by_token: dict[str, list[Kept]] = defaultdict(list)
    for call in calls:
        by_token[call.token].append(call)
    for token, same in by_token.items():
        if token in made:
            found = recorded.pop((made[token].instance_id, made[token].signal), set())
            receipts = contents.receipts.get(made[token].instance_id, {})
            yield from _promise(same, found, has_receipt=made[token].message_id in receipts)
    # What came for the original comes again in a fork, which is nobody's caller.
    forked = {key.instance_id for key in contents.histories if _is_fork(contents, key)}
    for (instance_id, signal), found in recorded.items():
        if instance_id not in elsewhere and instance_id not in forked:
            yield f"no caller: {signal} of {instance_id} is {found}"


def _made(contents: Contents) -> dict[str, _Made]:
    """Return whose promise each token is for."""
    found = {}
    for key in contents.histories:
        for event in _own_events(contents, key):
            if isinstance(event, PromiseMade):
                signal = f"promise:{event.name}#{event.execution}.{event.number}"
                message_id = promise_message_id(event.execution, event.number)
                found[event.token] = _Made(key.instance_id, signal, message_id)
    return found


def _recorded(contents: Contents) -> dict[tuple[str, str], set[tuple[bool, str]]]:
    """Return how promises were kept, by instance and signal."""
    found: dict[tuple[str, str], set[tuple[bool, str]]] = defaultdict(set)
    for key in contents.histories:
        for event in _events(contents, key):
            if isinstance(event, SignalReceived) and promise_name(event.name) is not None:
                found[key.instance_id, event.name].add(_said(event))
    for instance_id, inbox in contents.inboxes.items():
        for waiting in filter(None, map(_promised, inbox)):
            found[instance_id, waiting.name].add(_said(waiting))
    return found


def _promised(message: Message) -> SignalReceived | None:
    event = read_event(message.kind, message.body)
    is_one = isinstance(event, SignalReceived) and promise_name(event.name) is not None
    return event if isinstance(event, SignalReceived) and is_one else None


def _said(event: SignalReceived) -> tuple[bool, str]:
    if event.rejected is not None:
        return True, event.rejected
    return False, bytes(event.value).decode()


def _promise(
    calls: Sequence[Kept], found: set[tuple[bool, str]], *, has_receipt: bool
) -> Iterator[str]:
    first = [call for call in calls if call.answer is True]
    if len(first) > 1:
        yield f"twice: {first} were all told to be the first"
    if len(found) > 1:
        yield f"twice: a promise is kept by {found}"
    for call in first:
        if not has_receipt:
            yield f"not there: {call} was the first, and has no receipt"
        if found and (call.rejects, call.said) not in found:
            yield f"not as told: {call} was the first, and on record is {found}"
    asked = {(call.rejects, call.said) for call in calls if call.answer in (True, False, None)}
    for said in found - asked:
        yield f"no caller: a promise is kept by {said}"
    if not has_receipt and any(call.answer is False for call in calls):
        yield f"not as told: {calls} were too late, and nobody was before"
    late = {(call.rejects, call.said) for call in calls if call.answer is False}
    maybe = {(call.rejects, call.said) for call in calls if call.answer is not False}
    for said in found & late - maybe:
        yield f"not as told: {said} was too late, and is on record"


def _streams(calls: Sequence[Read], items: Items) -> Iterator[str]:
    for (instance_id, stream), stored in items.items():
        indexes = [item.index for item in stored]
        if indexes != sorted(set(indexes)):
            yield f"twice: stream {stream} of {instance_id} has the indexes {indexes}"
    for call in calls:
        stored = items.get((call.instance_id, call.stream), ())
        yield from _reader(call, stored)


def _reader(call: Read, stored: Sequence[StoredItem]) -> Iterator[str]:
    who = f"a reader of {call.stream} of {call.instance_id}"
    late = {item.index: item.body for item in stored if item.body is not None}
    shown: dict[int, bytes | None] = {}
    before = 0
    for item in call.items:
        if item.index <= before:
            yield f"out of order: {who} was shown {item.index} after {before}"
        before = item.index
        shown = _left(shown, item.discards_from)
        shown[item.index] = item.body
        is_void = any(
            one.discards_from is not None and one.discards_from <= item.index < one.index
            for one in stored
        )
        if item.index not in late and not is_void:
            yield f"not there: {who} was shown item {item.index}, {item.body!r}"
        elif late.get(item.index, item.body) != item.body:
            yield f"not as told: {who} was shown {item.body!r}; there is {late[item.index]!r}"
    shown = _left(shown, call.void_from)
    if call.answer == "ended" and list(shown.items()) != list(late.items()):
        yield f"not as told: {who} has {shown} in the end; a late one gets {late}"


def _left(shown: dict[int, bytes | None], void_from: int | None) -> dict[int, bytes | None]:
    if void_from is None:
        return shown
    return {index: body for index, body in shown.items() if index < void_from}


# --------------------------------------------------------------------------- schedules


class _Fired(NamedTuple):
    """A slot that fired."""

    schedule: str
    instance_id: str
    at_ms: int
    why: str


def _decided(contents: Contents, tag: str) -> Iterator[dict[str, Any]]:
    for key in contents.histories:
        row = contents.instances.get(key.instance_id)
        if row is not None and row.name == SCHEDULE:
            for event in _events(contents, key):
                if isinstance(event, EventRecorded) and event.tag == tag:
                    yield {"name": _name_of(key), **json.loads(bytes(event.event))}


def _name_of(key: ExecutionKey) -> str:
    return key.instance_id.partition(":")[2]


def _all_fired(contents: Contents) -> list[_Fired]:
    return [
        _Fired(one["name"], one["instance_id"], one["at_ms"], one.get("why", ""))
        for one in _decided(contents, "SlotFired")
    ]


def _slots(contents: Contents) -> Iterator[str]:
    fired = _all_fired(contents)
    # What people ask for again is on record again, and starts nothing again.
    counted = Counter(one.instance_id for one in fired if one.why in ("", "queue"))
    for instance_id, count in counted.items():
        if count > 1:
            yield f"twice: {instance_id} was fired {count} times"
    for one in fired:
        if one.instance_id not in contents.instances:
            yield f"not there: {one.instance_id}, which schedule {one.schedule} has started"
    by_id = {one.instance_id: one for one in fired}
    for key in contents.histories:
        begun = next(_events(contents, key))
        if isinstance(begun, Started) and begun.slot is not None:
            found = by_id.get(key.instance_id)
            if found is None or found.schedule != begun.slot.schedule:
                yield f"no caller: {key.instance_id} is of a slot that did not fire"


# -------------------------------------------------------------------------- going back


def _went_back(
    calls: Sequence[WentBack], contents: Contents, elsewhere: Collection[str]
) -> Iterator[str]:
    origins: dict[str, list[Origin]] = defaultdict(list)
    for key in contents.histories:
        origin = _origin(contents, key)
        if origin is not None:
            origins[key.instance_id].append(origin)
    told = Counter((call.instance_id, call.reason) for call in calls if _is_reset(call))
    there = Counter(
        (instance_id, one.reason)
        for instance_id, found in origins.items()
        for one in found
        if one.instance_id == instance_id
    )
    for (instance_id, reason), count in (told - there).items():
        yield f"not there: {count} resets of {instance_id} ({reason}) that were told"
    asked = {(call.instance_id, call.reason) for call in calls if not call.branch}
    for instance_id, reason in there.keys() - asked:
        if instance_id in elsewhere:
            continue
        yield f"no caller: {instance_id} was reset ({reason}), and nobody asked for it"
    for call in calls:
        known = [one.instance_id for one in origins[call.branch]]
        if call.branch and call.answer and call.instance_id not in known:
            yield f"not there: {call.branch}, which was told to be forked from {call.instance_id}"


def _is_reset(call: WentBack) -> bool:
    return call.answer is True and not call.branch
