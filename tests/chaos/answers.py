"""What callers of any definition are told, and whether the store holds it.

A `Listener` keeps each call of a client and what it was told. `not_as_told` compares that with what
the store holds, at any moment at which nothing moves:

- An instance that was told to be started is there, as it was asked for; and each that is there was
  asked for, by a caller, by another instance or as somebody's child.
- A signal that was told to be delivered has a receipt, and none is received more often than sent.
- An input that was accepted is in the history with the events, the reply and the number that its
  caller was told; one that was rejected or refused left none; none is decided twice, and none that
  nobody gave. One that was sent is decided, or waits.
- An instance that was told to have ended has ended like that.
- What an update was told to have come to is in its receipt.
- Of promises, streams, schedules and resets: see `everyday`.

`oracle` knows more, but of the bank alone: order, balances, what a database that went back lost.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from perdure import Client
from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.client.reading.watch import NewsMark
from perdure.core.deciders.answers import DirectInput, InputOutcome, outcome_json
from perdure.errors import StoreUnavailableError
from perdure.model.histories.events import (
    EventRecorded,
    InputRejected,
    InputTaken,
    MessageEvent,
    Replied,
    SignalReceived,
    Started,
    StoredEvent,
    read_event,
)
from perdure.model.instances import DECIDER, InstanceRow, NewInstance
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.turns import InstanceEnd
from perdure.store.contents import Contents
from tests.chaos.everyday import (
    REFUSED,
    EverydayCall,
    EverydayListener,
    Items,
    backfill_not_as_told,
    everyday_not_as_told,
)

IS_STORED = (DeliveryStatus.DELIVERED, DeliveryStatus.BUFFERED, DeliveryStatus.DUPLICATE)


@dataclass
class Start:
    """Somebody starts an instance."""

    instance_id: str
    name: str
    input: bytes
    answer: str = ""
    """*Started*, or *there*: the id was taken. Empty: nobody was told."""


@dataclass
class Signalled:
    """Somebody sends a signal."""

    instance_id: str
    message_id: str
    name: str
    value: bytes
    answer: DeliveryStatus | None = None


@dataclass
class Given:
    """Somebody gives an input, to have it decided or to queue it."""

    instance_id: str
    input_id: str
    tag: str
    data: bytes
    cause: str
    answer: str = ""
    """*Accepted*, *rejected* or *completed*; *sent*; *refused*."""
    told: dict[str, Any] = field(default_factory=dict)
    """All of the outcome."""

    def __str__(self) -> str:
        with_id = f" with id {self.input_id}" if self.input_id else ""
        return f"{self.tag}{with_id} for {self.instance_id}, told {self.answer or 'nothing'}"


@dataclass
class Awaited:
    """Somebody waits for the end of an instance."""

    instance_id: str
    answer: InstanceEnd | None = None


@dataclass
class Asked:
    """Somebody waits for what an update comes to."""

    instance_id: str
    receipt: str
    answer: bytes | None = None
    """What is kept of it."""


Call: TypeAlias = Start | Signalled | Given | Awaited | Asked | EverydayCall


def answer_of(call: Call) -> str:
    """Put into words what a caller was told."""
    answer = call.answer.status if isinstance(call, Awaited) and call.answer else call.answer
    return f"{type(call).__name__.lower()}: {answer or 'nothing'!s}"


class Listener:
    """Hears what callers of a client ask for and what they are told. What orchestrations of its
    worker ask for comes this way too.

    Args:
        client: The client; spied on from now on.
        calls: Where the calls are kept.
    """

    def __init__(self, client: Client, calls: list[Call]) -> None:
        self.calls = calls
        EverydayListener(client, calls)
        core, inputs = client._core, client._inputs
        self._begin, self._deliver, self._wait = core.begin, core.deliver, core.wait_ended
        self._take_update, self._wait_answered = core.take_update, core.wait_answered
        self._execute, self._send = inputs.execute, inputs.send
        spies: list[tuple[object, str, Callable[..., Any]]] = [
            (core, "begin", self.begin),
            (core, "deliver", self.deliver),
            (core, "wait_ended", self.wait_ended),
            (core, "take_update", self.take_update),
            (core, "wait_answered", self.wait_answered),
            (inputs, "execute", self.execute),
            (inputs, "send", self.send),
        ]
        for spied, name, spy in spies:
            setattr(spied, name, spy)

    async def begin(self, new: NewInstance) -> InstanceRow | None:
        call = Start(new.instance_id, new.definition.name, new.input)
        signals = [_signalled(one) for one in new.messages]
        self.calls += [call, *(one for one in signals if one is not None)]
        existing = await self._begin(new)
        call.answer = "started" if existing is None else "there"
        has_ended = existing is not None and existing.status.is_terminal
        for one in filter(None, signals):
            one.answer = DeliveryStatus.ENDED if has_ended else DeliveryStatus.DELIVERED
        return existing

    async def deliver(self, deliveries: Sequence[Delivery]) -> list[DeliveryStatus]:
        calls = [_signalled(one) for one in deliveries]
        self.calls += [call for call in calls if call is not None]
        answers = await self._deliver(deliveries)
        for call, answer in zip(calls, answers, strict=True):
            if call is not None:
                call.answer = answer
        return answers

    async def take_update(self, delivery: Delivery) -> bool:
        call = _signalled(delivery)
        assert call is not None
        self.calls.append(call)
        is_taken = await self._take_update(delivery)
        call.answer = DeliveryStatus.DELIVERED if is_taken else None
        return is_taken

    async def wait_answered(
        self, instance_id: str, receipt: str, send: Callable[[], Awaitable[bool]]
    ) -> bytes | None:
        call = Asked(instance_id, receipt)
        self.calls.append(call)
        call.answer = await self._wait_answered(instance_id, receipt, send)
        return call.answer

    async def execute(
        self, decider: DeciderDefinition, instance_id: str, input: DirectInput
    ) -> InputOutcome:
        call = self._give(instance_id, input)
        try:
            outcome = await self._execute(decider, instance_id, input)
        except StoreUnavailableError:
            raise
        except Exception:
            call.answer = REFUSED
            raise
        call.told = outcome_json(decider, outcome)
        call.answer = call.told["outcome"]
        return outcome

    async def send(self, decider: str, instance_id: str, input: DirectInput) -> None:
        call = self._give(instance_id, input)
        try:
            await self._send(decider, instance_id, input)
        except StoreUnavailableError:
            raise
        except Exception:
            call.answer = REFUSED
            raise
        call.answer = "sent"

    async def wait_ended(
        self, instance_id: str, *, hears_holds: bool = False, begun: NewsMark | None = None
    ) -> InstanceEnd:
        call = Awaited(instance_id)
        self.calls.append(call)
        call.answer = await self._wait(instance_id, hears_holds=hears_holds, begun=begun)
        return call.answer

    def _give(self, instance_id: str, input: DirectInput) -> Given:
        call = Given(instance_id, input.input_id, input.tag, input.data, input.cause)
        self.calls.append(call)
        return call


def _signalled(delivery: Delivery) -> Signalled | None:
    event = read_event(delivery.kind, delivery.body)
    if not isinstance(event, SignalReceived):
        return None
    message_id = delivery.message_id or ""
    return Signalled(delivery.instance_id, message_id, event.name, bytes(event.value))


# ----------------------------------------------------------------------- what is stored


@dataclass
class Decision:
    """An input and what came of it."""

    taken: InputTaken
    version: int
    """How many events there were after it."""
    events: list[dict[str, Any]] = field(default_factory=list)
    reply: Any = None
    is_rejected: bool = False

    @property
    def data(self) -> tuple[str, bytes]:
        return self.taken.tag, bytes(self.taken.input)


def _decisions(history: Sequence[StoredEvent]) -> Iterator[Decision]:
    current, version = None, 0
    for stored in history:
        event = read_event(stored.kind, stored.body)
        if isinstance(event, MessageEvent):
            if current is not None:
                yield current
            current = Decision(event, version) if isinstance(event, InputTaken) else None
        elif isinstance(event, EventRecorded):
            version += 1
        if current is None:
            continue
        match event:
            case EventRecorded(tag=tag, event=data):
                current.version = version
                current.events.append({"tag": tag, "event": json.loads(bytes(data))})
            case Replied(value=value):
                current.reply = json.loads(bytes(value))
            case InputRejected():
                current.is_rejected = True
    if current is not None:
        yield current


# -------------------------------------------------------------------------- comparing


def not_as_told(
    calls: Sequence[Call],
    contents: Contents,
    *,
    elsewhere: Collection[str] = (),
    items: Items | None = None,
) -> list[str]:
    """Return all that is wrong; an empty list is good news.

    Args:
        calls: With what their callers were told.
        contents: What the store holds.
        elsewhere: Instances that others have started, who were not listened to.
        items: What is in streams; without, streams are not looked at.
    """
    case = _Case(calls, contents)
    return [
        *case.updates(),
        *case.starts(),
        *case.nobodys_instances(elsewhere),
        *case.signals(),
        *case.nobodys_signals(),
        *case.answers(),
        *case.nobodys_inputs(),
        *case.ends(),
        *case.backfills(),
        *everyday_not_as_told(calls, contents, items, elsewhere),
    ]


class _Case:
    def __init__(self, calls: Sequence[Call], contents: Contents) -> None:
        self.contents = contents
        self.started = [call for call in calls if isinstance(call, Start)]
        self.signalled = [call for call in calls if isinstance(call, Signalled)]
        self.given = [call for call in calls if isinstance(call, Given)]
        self.awaited = [call for call in calls if isinstance(call, Awaited)]
        self.asked = [call for call in calls if isinstance(call, Asked)]
        self.decisions: dict[str, list[Decision]] = defaultdict(list)
        for key, history in contents.histories.items():
            row = contents.instances.get(key.instance_id)
            if row is not None and row.kind == DECIDER:
                self.decisions[key.instance_id] += _decisions(history)

    def has_receipt(self, instance_id: str, message_id: str) -> bool:
        return message_id in self.contents.receipts.get(instance_id, {})

    # ------------------------------------------------------------------- instances

    def starts(self) -> Iterator[str]:
        """Find starts that were told and are not there, or not like this."""
        for call in self.started:
            row = self.contents.instances.get(call.instance_id)
            if not call.answer:
                continue
            if row is None:
                yield f"not there: {call.instance_id} was told to be {call.answer}"
            elif call.answer == "started" and row.name != call.name:
                yield f"not as asked: {call.instance_id} is {row.name}, not {call.name}"

    def nobodys_instances(self, elsewhere: Collection[str]) -> Iterator[str]:
        """Find orchestrations that nobody has started."""
        asked = {call.instance_id for call in self.started} | {*elsewhere}
        for key, history in self.contents.histories.items():
            begun = read_event(history[0].kind, history[0].body)
            is_caused = isinstance(begun, Started) and (
                begun.started_by or begun.parent or begun.origin
            )
            is_decider = self.contents.instances[key.instance_id].kind == DECIDER
            if not (is_caused or is_decider or key.instance_id in asked):
                yield f"no caller: {key.instance_id}, which nobody started"

    def ends(self) -> Iterator[str]:
        """Find ends that were told and are others."""
        for call in self.awaited:
            row = self.contents.instances.get(call.instance_id)
            if call.answer is None:
                continue
            told = (call.answer.status, call.answer.output)
            there = None if row is None else (row.status, row.output)
            if told != there:
                yield f"not as told: {call.instance_id} ended with {there}, told was {told}"

    # --------------------------------------------------------------------- signals

    def signals(self) -> Iterator[str]:
        """Find signals that were told to be kept and are not, or the other way round."""
        told = defaultdict(list)
        for call in self.signalled:
            told[call.instance_id, call.message_id].append(call.answer)
        for (instance_id, message_id), answers in told.items():
            is_there = self.has_receipt(instance_id, message_id)
            if not is_there and any(answer in IS_STORED for answer in answers):
                yield f"not there: signal {message_id} for {instance_id}, told {answers}"
            if is_there and not any(answer is None or answer in IS_STORED for answer in answers):
                yield f"refused and there: signal {message_id} for {instance_id}, told {answers}"

    def nobodys_signals(self) -> Iterator[str]:
        """Find signals that are received more often than they were sent."""
        asked = {call.instance_id for call in self.started}
        sent = Counter(
            (instance_id, name, value)
            for instance_id, _, name, value in {
                (call.instance_id, call.message_id, call.name, call.value)
                for call in self.signalled
            }
        )
        for key, history in self.contents.histories.items():
            if key.instance_id not in asked:
                continue
            received = Counter(
                (key.instance_id, event.name, bytes(event.value))
                for stored in history
                if isinstance(event := read_event(stored.kind, stored.body), SignalReceived)
            )
            for (instance_id, name, value), count in (received - sent).items():
                yield f"no caller: {instance_id} received {name} {value!r} {count} times too often"

    def updates(self) -> Iterator[str]:
        """Find updates whose outcome was told and is another one."""
        for call in self.asked:
            there = self.contents.receipts.get(call.instance_id, {}).get(call.receipt)
            if call.answer is not None and call.answer != there:
                yield f"not as told: {call.receipt} of {call.instance_id}: {there!r}, {call}"

    # ---------------------------------------------------------------------- inputs

    def answers(self) -> Iterator[str]:
        """Compare what inputs came to."""
        for call in self.given:
            match call.answer:
                case "accepted":
                    yield from self._accepted(call)
                case "rejected" | "refused" | "completed":
                    yield from self._left_nothing(call)
                case "sent":
                    yield from self._sent(call)

    def _accepted(self, call: Given) -> Iterator[str]:
        wanted = (call.told["version"], call.told["events"], call.told["reply"])
        found = [
            (one.version, one.events, one.reply)
            for one in self.decisions[call.instance_id]
            if one.data == (call.tag, call.data) and not one.is_rejected
        ]
        if wanted not in found:
            yield f"not as told: {call} as {wanted}; there is {found}"

    def _left_nothing(self, call: Given) -> Iterator[str]:
        needs_receipt = call.answer == "rejected" and call.input_id
        if needs_receipt and not self.has_receipt(call.instance_id, call.input_id):
            yield f"not there: no receipt of {call}"
        # The first of several with one id may have been decided before the others were refused.
        others = [
            one
            for one in self.given
            if one is not call and (one.instance_id, one.data) == (call.instance_id, call.data)
        ]
        is_there = any(
            one.events and one.data == (call.tag, call.data)
            for one in self.decisions[call.instance_id]
        )
        if is_there and not others:
            yield f"{call.answer} and there: {call}"

    def _sent(self, call: Given) -> Iterator[str]:
        is_decided = any(
            one.data == (call.tag, call.data) for one in self.decisions[call.instance_id]
        )
        waits = bool(self.contents.inboxes.get(call.instance_id))
        is_kept = self.has_receipt(call.instance_id, call.input_id)
        # A rejection by an instance that was never begun leaves nothing but a receipt.
        has_begun = call.instance_id in self.contents.instances
        if not (is_decided or waits or is_kept) and (has_begun or call.input_id):
            yield f"not there: {call}, which was neither decided nor waits"

    def backfills(self) -> Iterator[str]:
        """Find backfills of fewer slots than their callers were told."""
        for call in self.given:
            if call.tag == "BackfillSchedule" and call.answer == "accepted":
                data = json.loads(call.data)
                yield from backfill_not_as_told(data, call.told["reply"], self.contents)

    def nobodys_inputs(self) -> Iterator[str]:
        """Find inputs that are decided more often than they were given."""
        given: Counter[tuple[str, str, tuple[str, bytes]]] = Counter()
        for call in self.given:
            key = (call.instance_id, call.input_id, (call.tag, call.data))
            given[key] = 1 if call.input_id else given[key] + (call.answer != REFUSED)
        for instance_id, decisions in self.decisions.items():
            named = Counter(one.taken.input_id for one in decisions if one.taken.input_id)
            for input_id, count in named.items():
                if count > 1:
                    yield f"twice: {instance_id}: input {input_id} is decided {count} times"
            decided = Counter(
                (instance_id, one.taken.input_id, one.data)
                for one in decisions
                if one.taken.cause == "client"
            )
            for (_, input_id, (tag, data)), count in (decided - given).items():
                yield (
                    f"no caller: {instance_id}: {tag} {data!r} with id {input_id!r} is decided "
                    f"{count} times more often than it was given"
                )
