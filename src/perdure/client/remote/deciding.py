"""Methods of `RemoteClient` that give inputs to deciders.

The code of the server decides, or where it has none a worker's; what it came to is read here with
the classes of this process.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import DeciderDefinition, definition_of
from perdure.authoring.deciders.decision import Accepted, AlreadyCompleted, Rejected
from perdure.client.deciders.decisions import DryRun, Tried, TriedEffect
from perdure.client.reading.info import Json
from perdure.client.remote.connection import encoded, read
from perdure.client.remote.values import body_of
from perdure.codec import JSON, check_id
from perdure.core.deciders.answers import InputOutcome
from perdure.durations import Duration, as_duration

if TYPE_CHECKING:
    from perdure.client.remote.client import RemoteClient

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - the contract's letter for an input
E = TypeVar("E")
X = TypeVar("X")

MAX_WAIT_S = 60.0
"""How long the server waits for a worker to decide an input."""


async def execute(
    self: RemoteClient,
    decider: type[Decider[S, I, E, X]],
    input: I,
    /,
    *,
    input_id: str | None = None,
    expected_version: int | None = None,
    correlation: str = "",
) -> Accepted[E, S] | Rejected[X] | AlreadyCompleted:
    """Have an input decided, by the code of the server or of a worker; see `Client.execute`.

    A server without the decider's code waits a minute for a worker.
    """
    definition = definition_of(decider)
    tag, data = definition.inputs.encode(input)
    instance_id = definition.own_id(definition.instance_of(input))
    told = await self.execute_json(
        definition.name,
        tag,
        encoded(data),
        instance_id=instance_id,
        input_id=input_id,
        expected_version=expected_version,
        correlation=correlation,
    )
    return await _outcome(self, definition, instance_id, told)


async def dry_run(
    self: RemoteClient,
    decider: type[Decider[S, I, E, X]],
    input: I,
    /,
    *,
    expected_version: int | None = None,
) -> DryRun[E, S, X]:
    """Return what an input would come to with the code of the server; see `Client.dry_run`."""
    definition = definition_of(decider)
    tag, data = definition.inputs.encode(input)
    instance_id = definition.own_id(definition.instance_of(input))
    told = await self._connection.post(
        *("deciders", definition.name, "tries"),
        tag=tag,
        value=encoded(data),
        expected_version=expected_version,
    )
    return DryRun(
        await _outcome(self, definition, instance_id, told["outcome"]),
        read(tuple[TriedEffect, ...], told["effects"]),
        read(dict[str, datetime], told["timers"]),
        tuple(told["cancelled_timers"]),
        tuple(told["sent"]),
        tuple(told["started"]),
    )


async def try_json(
    client: RemoteClient, decider: str, tag: str, value: Json, *, instance_id: str
) -> Tried:
    """Return what an input for an instance would come to that is given as JSON, with the code of
    the server."""
    told = await client._connection.post(
        *("deciders", check_id("decider", decider), "tries"),
        tag=tag,
        value=value,
        instance_id=instance_id,
    )
    found: Tried = read(Tried, told)
    return found


async def send(
    self: RemoteClient,
    decider: type[Decider[Any, I, Any, Any]],
    input: I,
    /,
    *,
    input_id: str | None = None,
    correlation: str = "",
) -> None:
    """Queue an input; see `Client.send`."""
    definition = definition_of(decider)
    tag, data = definition.inputs.encode(input)
    await self.send_json(
        definition.name,
        tag,
        encoded(data),
        instance_id=definition.own_id(definition.instance_of(input)),
        input_id=input_id,
        correlation=correlation,
    )


async def execute_json(
    self: RemoteClient,
    decider: str,
    tag: str,
    value: Json,
    /,
    *,
    instance_id: str | None = None,
    input_id: str | None = None,
    expected_version: int | None = None,
    correlation: str = "",
    allow_unknown: bool = False,
    timeout: Duration | None = None,  # noqa: ASYNC109 - as in Client
) -> dict[str, Json]:
    """Have an input decided that is given as JSON; see `Client.execute_json`.

    The server waits for a minute at most, also without a `timeout`.
    """
    wait_s = MAX_WAIT_S
    if timeout is not None:
        wait_s = as_duration("timeout", timeout).total_seconds()
    found: dict[str, Json] = await self._connection.ask(
        "POST",
        ("deciders", check_id("decider", decider), "inputs"),
        body={
            "tag": tag,
            "value": encoded(JSON.encode(value, f"input {tag} of decider {decider!r}")),
            "instance_id": instance_id,
            "input_id": input_id,
            "expected_version": expected_version,
            "correlation": correlation,
            "allow_unknown": allow_unknown,
            "wait_s": wait_s,
        },
        wait_s=wait_s,
    )
    return found


async def send_json(
    self: RemoteClient,
    decider: str,
    tag: str,
    value: Json,
    /,
    *,
    instance_id: str | None = None,
    input_id: str | None = None,
    correlation: str = "",
    allow_unknown: bool = False,
) -> None:
    """Queue an input that is given as JSON; see `Client.send_json`."""
    await self._connection.post(
        "deciders",
        check_id("decider", decider),
        "messages",
        tag=tag,
        value=encoded(JSON.encode(value, f"input {tag} of decider {decider!r}")),
        instance_id=instance_id,
        input_id=input_id,
        correlation=correlation,
        allow_unknown=allow_unknown,
    )


async def _outcome(
    client: RemoteClient, definition: DeciderDefinition, instance_id: str, told: dict[str, Json]
) -> InputOutcome:
    """Return what an input came to, of the decider's own classes."""
    match told["outcome"]:
        case "rejected":
            reason = definition.rejections.decode(told["tag"], body_of(told["reason"]))
            return Rejected(reason)
        case "completed":
            return AlreadyCompleted()
    events = tuple(
        definition.events.decode(one["tag"], body_of(one["event"])) for one in told["events"]
    )
    if told["state"] is None:
        # A server without the code does not know it: folded here.
        state = await client.state(definition.cls, instance_id, at=told["version"])
    else:
        state = definition.state.decode(body_of(told["state"]))
    return Accepted(events, state, told["version"], told["reply"])
