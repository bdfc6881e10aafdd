"""Asking instances: how an update is sent, and what its receipt means to the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.authoring.deciders.decider_definition import SEPARATOR
from perdure.authoring.update import AskedUpdate, Update, answer_of
from perdure.client.histories.histories import find_event, key_of
from perdure.codec import check_id
from perdure.errors import (
    InputIdReusedError,
    InstanceEndedError,
    InstanceNotFoundError,
    UsageError,
)
from perdure.ids import fresh_name
from perdure.model.fingerprints import TAG, Fingerprint, differing_fields, fingerprint
from perdure.model.histories.events import SignalReceived, StoredEvent, read_event
from perdure.model.instances import DECIDER
from perdure.model.message_ids import message_id_of
from perdure.model.messages import Delivery, DeliveryStatus, Message
from perdure.model.updates import (
    UpdateOutcome,
    read_outcome,
    read_request,
    receipt_id,
    request_message,
)

if TYPE_CHECKING:
    from perdure.client.core import ClientCore

DELETED = "deleted"
DROPPED = "dropped"
"""What became of an instance or update that is not there any more."""


class UpdateRequest(NamedTuple):
    """An update as one caller asks it of one instance."""

    instance_id: str
    name: str
    update_id: str
    value: bytes
    """What is asked, as JSON."""
    is_given: bool = True
    """Whether the caller has given the id, and may have given it before."""

    @property
    def delivery(self) -> Delivery:
        """The message by which it comes."""
        kind, body = request_message(self.name, self.update_id, self.value)
        return Delivery(
            instance_id=self.instance_id,
            kind=kind,
            body=body,
            message_id=receipt_id(self.update_id),
            if_absent="refuse",
        )


def checked_request(
    instance_id: str, update: AskedUpdate[Any, Any], value: object, *, update_id: str | None = None
) -> UpdateRequest:
    """Return a request; what is asked is checked and encoded at once.

    Raises:
        UsageError: It is no update, or the id cannot be one.
        PayloadError: The value is not of the type that the update asks for.
    """
    if not isinstance(update, Update):
        raise UsageError(
            f'{update!r} is not an update: make one with Update("name", asks, answers)'
        )
    chosen = update.options.update_id if update_id is None else check_id("update id", update_id)
    data = update.asks_codec.encode(value, f"update {update.name!r}")
    is_given = chosen is not None
    return UpdateRequest(instance_id, update.name, chosen or fresh_name(), data, is_given)


async def ask_update(core: ClientCore, request: UpdateRequest) -> bytes:
    """Send an update to an instance that is there, and return its answer as JSON.

    Raises:
        InstanceNotFoundError, InstanceEndedError: Nothing was sent.
        UpdateRefusedError, UpdateUnansweredError: It has no answer.
        InputIdReusedError: Its id was given before, with another update.
    """
    return answer_in(request, await outcome_of_update(core, request))


async def outcome_of_update(core: ClientCore, request: UpdateRequest) -> UpdateOutcome:
    """Send an update to an instance that is there, and wait for what it comes to.

    Raises:
        InstanceNotFoundError, InstanceEndedError: Nothing was sent.
        InputIdReusedError: Nothing was sent: its id is that of another update, which waits.
    """
    await _refuse_decider(core, request.instance_id)

    async def send() -> bool:
        if request.is_given and await was_given(core, request):
            return False
        if await core.take_update(request.delivery):
            return True
        [status] = await core.deliver([request.delivery])
        if status is DeliveryStatus.ENDED:
            [row] = await core.store.read_instances([request.instance_id])
            ended = DELETED if row is None else row.status
            raise InstanceEndedError(request.instance_id, ended)
        if status is DeliveryStatus.ABSENT:
            raise InstanceNotFoundError(request.instance_id)
        return status is not DeliveryStatus.DUPLICATE or not await was_given(core, request)

    return await wait_outcome(core, request, send)


async def wait_outcome(
    core: ClientCore, request: UpdateRequest, send: Callable[[], Awaitable[bool]]
) -> UpdateOutcome:
    """Send an update in a way of the caller's, and wait for what it comes to."""
    began_s = perf_counter()
    kept = await core.wait_answered(request.instance_id, receipt_id(request.update_id), send)
    outcome = await _unanswered(core, request) if kept is None else read_outcome(kept)
    core.metrics.update_wait.observe((outcome.outcome,), perf_counter() - began_s)
    return outcome


async def was_given(core: ClientCore, request: UpdateRequest) -> bool:
    """Return whether the instance was given an update of this id before.

    Raises:
        InputIdReusedError: It was another one, which waits.
    """
    receipt = receipt_id(request.update_id)
    known = await core.store.deciders.read_receipts(request.instance_id, [receipt])
    if receipt in known and known[receipt] is None:
        _check_same(request, await _given_first(core, request.instance_id, receipt))
    return receipt in known


async def _given_first(core: ClientCore, instance_id: str, receipt: str) -> Fingerprint:
    """Return what was asked under an id and has no outcome yet; nothing if it has one by now."""

    def given(one: Message | StoredEvent) -> Fingerprint | None:
        if one.kind != SignalReceived.kind:
            return None
        event = read_event(one.kind, one.body)
        assert isinstance(event, SignalReceived)
        return fingerprint(*read_request(event)) if message_id_of(event) == receipt else None

    [row] = await core.store.read_instances([instance_id])
    # In this order: a message leaves the inbox for the history.
    for message in await core.store.read_inbox(instance_id):
        found = given(message)
        if found is not None:
            return found
    return {} if row is None else await find_event(core.store, key_of(row), given) or {}


def answer_in(request: UpdateRequest, outcome: UpdateOutcome) -> bytes:
    """Return the answer to an update as JSON, or raise what else it came to."""
    _check_same(request, outcome.given)
    return answer_of(outcome, request.instance_id, request.name, request.update_id)


def _check_same(request: UpdateRequest, given: Fingerprint) -> None:
    """Refuse an update whose id was given before with another one."""
    instance_id, name, update_id, value, _ = request
    differing = differing_fields(given, fingerprint(name, value))
    if differing:
        named = ["its name" if field == TAG else field for field in differing]
        raise InputIdReusedError(instance_id, update_id, named, what="update")


async def _unanswered(core: ClientCore, request: UpdateRequest) -> UpdateOutcome:
    """Return what an update came to whose instance has ended, or that is not there any more."""
    [row] = await core.store.read_instances([request.instance_id])
    receipt = receipt_id(request.update_id)
    known = await core.store.deciders.read_receipts(request.instance_id, [receipt])
    kept = known.get(receipt)
    if kept is not None:
        return read_outcome(kept)
    if row is None:
        return UpdateOutcome("unanswered", reason=DELETED)
    is_there = receipt in known and row.status.is_terminal
    return UpdateOutcome("unanswered", reason=row.status.value if is_there else DROPPED)


async def _refuse_decider(core: ClientCore, instance_id: str) -> None:
    """Refuse to ask an instance of a decider: those are given inputs."""
    name, separator, _ = instance_id.partition(SEPARATOR)
    if not separator:
        return
    is_decider = core.find_decider(name) is not None
    if not is_decider:
        [row] = await core.store.read_instances([instance_id])
        is_decider = row is not None and row.kind == DECIDER
    if is_decider:
        raise UsageError(
            f"instance {instance_id!r} is of decider {name!r}, which takes inputs and no updates: "
            "use client.execute(decider, input)"
        )
