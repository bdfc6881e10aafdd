"""Inputs on their way to a decider's instance by the inbox, and waiting for what became of them."""

from __future__ import annotations

import time

import msgspec

from perdure.authoring.deciders.decider_definition import SEPARATOR
from perdure.backoff import LOOK_MAX_S, LOOK_MIN_S, GrowingPause
from perdure.core.deciders.answers import DirectInput, read_receipt
from perdure.core.deciders.fingerprints import check_same, fingerprint
from perdure.core.deciders.turn import start_of
from perdure.errors import (
    AlreadyExistsError,
    InputDroppedError,
    InstanceEndedError,
    InstanceHeldError,
)
from perdure.ids import fresh_id, fresh_name
from perdure.model.hints import Hint
from perdure.model.histories.events import InputTaken
from perdure.model.histories.rows import read_message
from perdure.model.instances import NewInstance, Status
from perdure.model.messages import DeliveryStatus
from perdure.store.base import Store
from perdure.store.hearing import Hearing

BLOCKED_WITHIN_S = 1.0
"""How long an instance may be blocked while an input is waited for: other code may come at once."""


def new_decider_instance(name: str, instance_id: str, *, now_ms: int) -> NewInstance:
    """Return an instance of a decider to be started, without an input.

    Args:
        name: The decider.
        instance_id: As stored.
        now_ms: The time by the store's clock.
    """
    return start_of(
        name, instance_id, None, incarnation=fresh_id(), now_ms=now_ms, commit_id=fresh_id()
    )


async def queue_input(
    store: Store, name: str, instance_id: str, taken: InputTaken, *, patience_s: float
) -> None:
    """Put an input into an instance's inbox, and start the instance if it is not there.

    Args:
        store: Where.
        name: The decider.
        instance_id: As stored.
        taken: The input. One with an id that was given before is not queued again.
        patience_s: How long to wait for the store.

    Raises:
        InstanceEndedError: The instance has completed, or was stopped.
        AlreadyExistsError: The id is that of something else.
        InputIdReusedError: Its id was given before, with another input.
    """
    new = start_of(
        name,
        instance_id,
        taken,
        incarnation=fresh_id(),
        now_ms=store.clock(),
        commit_id=fresh_id(),
        # Always one: what is sent again after a fault must not count twice.
        message_id=taken.input_id or fresh_name(),
    )
    if taken.input_id and await _queue_if_live(store, name, new, taken, patience_s=patience_s):
        return
    [existing] = await store.start([new], patience_s=patience_s)
    if existing is None:
        return
    check_decider(name, instance_id, existing.kind, existing.name)
    if existing.status.is_terminal:
        await refuse_ended(store, instance_id, existing.status, taken.input_id)
    elif taken.input_id:
        # Begun since it was looked for, perhaps with another input under this id.
        await check_repeated(store, instance_id, _as_given(taken))


async def _queue_if_live(
    store: Store, name: str, new: NewInstance, taken: InputTaken, *, patience_s: float
) -> bool:
    """Put an input with an id into the inbox of an instance that is there; return whether it is.

    A start does not tell whether its message is the first one under its id, and a caller that has
    looked for that may have looked too early.

    Raises:
        InputIdReusedError: The first one is another one.
    """
    [row] = await store.read_instances([new.instance_id])
    if row is None or row.status.is_terminal:
        return False
    check_decider(name, new.instance_id, row.kind, row.name)
    [message] = new.messages
    message = msgspec.structs.replace(message, incarnation=row.incarnation)
    [status] = await store.deliver([message], patience_s=patience_s)
    if status is DeliveryStatus.DUPLICATE:
        await check_repeated(store, new.instance_id, _as_given(taken))
    return status in (DeliveryStatus.DELIVERED, DeliveryStatus.DUPLICATE)


async def check_repeated(store: Store, instance_id: str, given: DirectInput) -> None:
    """Refuse an input whose id was given before with another one, decided or not.

    Raises:
        InputIdReusedError: It was.
    """
    known = await store.deciders.read_receipts(instance_id, [given.input_id])
    if given.input_id in known and known[given.input_id] is None:
        for message in await store.read_inbox(instance_id):
            if message.kind == InputTaken.kind:
                taken = read_message(message)
                if isinstance(taken, InputTaken) and taken.input_id == given.input_id:
                    check_same(instance_id, fingerprint(taken.tag, bytes(taken.input)), given)
                    return
        # Decided between the two looks.
        known = await store.deciders.read_receipts(instance_id, [given.input_id])
    kept = known.get(given.input_id)
    if kept is not None:
        check_same(instance_id, read_receipt(kept).given, given)


def _as_given(taken: InputTaken) -> DirectInput:
    return DirectInput(taken.tag, bytes(taken.input), taken.input_id, cause=taken.cause)


async def refuse_ended(store: Store, instance_id: str, status: Status, input_id: str) -> None:
    """Refuse an input that came too late, unless it is one that was given before.

    Raises:
        InstanceEndedError: It came too late.
    """
    known = await store.deciders.read_receipts(instance_id, [input_id]) if input_id else ()
    if input_id not in known:
        raise InstanceEndedError(instance_id, status)


async def wait_receipt(store: Store, instance_id: str, input_id: str) -> bytes | None:
    """Wait until an input was decided; return what is kept of its outcome.

    None: the instance ended before it came to that.

    Raises:
        InputDroppedError: An operator took it out of the inbox, and it will not be decided.
        InstanceHeldError: The instance is parked, or stays blocked.
    """
    # Before anything is read: what others do after that is heard.
    hearing = Hearing(store, Hint.NEWS)
    try:
        return await _look_for_receipt(store, instance_id, input_id, hearing)
    finally:
        hearing.close()


async def _look_for_receipt(
    store: Store, instance_id: str, input_id: str, hearing: Hearing
) -> bytes | None:
    pause = GrowingPause(LOOK_MIN_S, LOOK_MAX_S)
    blocked_s = 0.0
    while True:
        [row] = await store.read_instances([instance_id])
        known = await store.deciders.read_receipts(instance_id, [input_id])
        outcome = known.get(input_id)
        if outcome is not None or row is None or row.status.is_terminal:
            return outcome
        if input_id not in known:
            raise InputDroppedError(instance_id, input_id)
        if row.status is Status.PARKED or blocked_s >= BLOCKED_WITHIN_S:
            raise InstanceHeldError(
                instance_id, row.status, row.reason or "", advice=_ADVICE[row.status]
            )
        began_s = time.monotonic()
        if not await hearing.wait(pause.seconds):
            pause.grow()
        rested_s = time.monotonic() - began_s
        blocked_s = blocked_s + rested_s if row.status is Status.BLOCKED else 0.0


_ADVICE = {
    Status.PARKED: "the input stays queued and is decided then",
    Status.BLOCKED: "or deploy code that fits its history. The input stays queued and is decided "
    "then",
}


def check_decider(name: str, instance_id: str, kind: str, found: str) -> None:
    """Refuse an instance that is something else than the decider's.

    Raises:
        AlreadyExistsError: It is.
    """
    if (kind, found) != ("decider", name):
        raise AlreadyExistsError(
            instance_id,
            f"as {kind} {found!r}, not as an instance of decider {name!r}",
            advice=f"ids that begin with {name + SEPARATOR!r} belong to that decider",
        )
