"""Routes of deciders: give inputs, read states and events, try an input."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import msgspec

from perdure.authoring.deciders.decider_definition import DeciderDefinition, stored_id_of
from perdure.client.deciders.decided_events import DecidedEvent, read_decided
from perdure.client.deciders.decisions import (
    Observed,
    Tried,
    check_addressee,
    observed_of,
    tried_json,
)
from perdure.client.reading.info import Json
from perdure.client.reading.lists import check_count
from perdure.errors import NotRegisteredError
from perdure.web.api.instances import Limit
from perdure.web.operations import CheckedRequest, Nothing

WAIT_S = 30.0
"""How long `execute` waits for a worker where the decider is not at hand."""


class InputBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input of a decider."""

    tag: str
    """Which of its inputs."""
    value: Json
    instance_id: str | None = None
    """Needed where the server does not have the decider's code."""
    input_id: str | None = None
    """Given again with the same id, the first outcome is returned."""
    expected_version: Annotated[int, msgspec.Meta(ge=0)] | None = None
    correlation: str = ""
    allow_unknown: bool = False
    """Also for a decider that no worker has, and that the store has never seen."""
    wait_s: Annotated[float, msgspec.Meta(ge=0)] = WAIT_S


class MessageBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input of a decider that is queued."""

    tag: str
    value: Json
    instance_id: str | None = None
    input_id: str | None = None
    correlation: str = ""
    allow_unknown: bool = False
    """Also for a decider that no worker has, and that the store has never seen."""


class TryBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input of a decider that is only tried."""

    tag: str
    value: Json
    expected_version: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """How many events the instance must have."""
    instance_id: str | None = None
    """Which instance it must be for; it says so by itself."""


class StateQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which state: after so many events; after all of them if not given."""

    at: Annotated[int, msgspec.Meta(ge=0)] | None = None


class StateShown(msgspec.Struct, frozen=True):
    """A state as JSON."""

    state: Json


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events: those behind a version."""

    after: Annotated[int, msgspec.Meta(ge=0)] = 0
    limit: Limit = 100


class EventList(msgspec.Struct, frozen=True):
    """A part of the events, in order."""

    items: list[DecidedEvent]
    next: int | None


class ObservationsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which inputs: those behind a number."""

    after: Annotated[int, msgspec.Meta(ge=0)] = 0
    limit: Limit = 100


class ObservationList(msgspec.Struct, frozen=True):
    """A part of the inputs that an instance was given, in order."""

    items: list[Observed]
    next: int | None


class KeyHolder(msgspec.Struct, frozen=True):
    """Which instance has a business key; none if it is free."""

    instance_id: str | None


async def execute_input(ask: CheckedRequest[Nothing, InputBody]) -> dict[str, Json]:
    """Have an input decided; what it came to is committed when this returns.

    `Idempotency-Key` is taken as the input id.
    """
    body = ask.body
    within_s = min(body.wait_s, ask.site.settings.limits.wait_s)
    return await ask.client.execute_json(
        ask.path["decider"],
        body.tag,
        body.value,
        instance_id=body.instance_id,
        input_id=ask.repeat_key(body.input_id, "input_id"),
        expected_version=body.expected_version,
        correlation=body.correlation,
        allow_unknown=body.allow_unknown,
        timeout=timedelta(seconds=within_s),
    )


async def send_input(ask: CheckedRequest[Nothing, MessageBody]) -> None:
    """Queue an input; durable when this returns. `Idempotency-Key` is taken as the input id."""
    body = ask.body
    await ask.client.send_json(
        ask.path["decider"],
        body.tag,
        body.value,
        instance_id=body.instance_id,
        input_id=ask.repeat_key(body.input_id, "input_id"),
        correlation=body.correlation,
        allow_unknown=body.allow_unknown,
    )


async def try_input(ask: CheckedRequest[Nothing, TryBody]) -> Tried:
    """Tell what an input would come to. Nothing is written."""
    definition = definition_here(ask)
    given = definition.inputs.decode_json(ask.body.tag, ask.body.value)
    if ask.body.instance_id is not None:
        check_addressee(definition, ask.body.tag, given, ask.body.instance_id)
    tried = await ask.client.dry_run(
        definition.cls, given, expected_version=ask.body.expected_version
    )
    return tried_json(definition, tried)


async def show_state(ask: CheckedRequest[StateQuery, None]) -> StateShown:
    """Return the state of an instance, now or after some event."""
    return StateShown(await state_of(ask, ask.query.at))


async def list_events(ask: CheckedRequest[EventsQuery, None]) -> EventList:
    """Return the events of an instance in order, each with the input that caused it."""
    size = min(ask.query.limit, ask.site.settings.limits.page)
    found = await events_of(ask, ask.query.after, size + 1)
    shown = found[:size]
    return EventList(shown, shown[-1].version if len(found) > size else None)


async def list_observations(ask: CheckedRequest[ObservationsQuery, None]) -> ObservationList:
    """Return the inputs that an instance was given, in order, with what each came to.

    Only deciders with `observe_inputs = True` keep them.
    """
    size = min(ask.query.limit, ask.site.settings.limits.page)
    stored_id = stored_id_of(ask.path["decider"], ask.path["instance_id"])
    after = check_count("after", ask.query.after, least=0)
    found = await ask.client._core.store.deciders.read_observations(
        stored_id, after=after, limit=size + 1
    )
    shown = [observed_of(one) for one in found[:size]]
    return ObservationList(shown, shown[-1].no if len(found) > size else None)


async def show_key_holder(ask: CheckedRequest[Nothing, None]) -> KeyHolder:
    """Tell which instance of a decider has a business key."""
    return KeyHolder(await ask.client.key_holder(ask.path["decider"], ask.path["key"]))


async def state_of(ask: CheckedRequest[Any, Any], at: int | None) -> Json:
    """Return a state as JSON.

    Raises:
        NotRegisteredError: The decider is not at hand.
    """
    return await ask.client.state_json(ask.path["decider"], ask.path["instance_id"], at=at)


def definition_here(ask: CheckedRequest[Any, Any]) -> DeciderDefinition:
    """Return the decider that the path names.

    Raises:
        NotRegisteredError: Its code is not in this process.
    """
    name = ask.path["decider"]
    found = ask.client._core.find_decider(name)
    if found is None:
        raise NotRegisteredError(
            "decider",
            name,
            known=[],
            advice="states are folded by its code: mount perdure.web.app(engine) in a program "
            "whose engine has it",
        )
    return found


async def events_of(ask: CheckedRequest[Any, Any], after: int, limit: int) -> list[DecidedEvent]:
    """Return so many events behind a version, as they are recorded: no code is needed."""
    stored_id = stored_id_of(ask.path["decider"], ask.path["instance_id"])
    return await read_decided(ask.client, stored_id, after=after, limit=limit)
