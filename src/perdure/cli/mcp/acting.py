"""The tools that act, for those who allow them.

Each acts on one instance, or on all that a filter finds if they are as many as is expected. Nothing
is read in the same call that an action could follow from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import msgspec

from perdure.authoring.signal import Signal
from perdure.cli.mcp.looking import InstanceId, Words, read_filter
from perdure.cli.mcp.tool import Tool, ToolAnswer
from perdure.client.client import Client
from perdure.client.reading.lists import InstanceQuery
from perdure.codec import Json
from perdure.errors import UsageError
from perdure.ids import fresh_name
from perdure.limits import BULK_MAX

Expect = Annotated[
    int,
    msgspec.Meta(
        ge=0,
        le=BULK_MAX,
        description="With `filter`: how many instances it finds that this can be done to. If there"
        " are more or fewer, nothing is done and the answer says how many.",
    ),
]


class ActArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whom it is done to: one instance, or as many as a filter is expected to find."""

    instance_id: InstanceId | None = None
    filter: Words | None = None
    expect: Expect | None = None


class CancelArguments(ActArguments, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which instances are asked to stop, and why."""

    reason: Annotated[str, msgspec.Meta(max_length=1_000, description="Why; kept with each.")] = ""


class SignalArguments(ActArguments, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which instances get which signal."""

    name: Annotated[str, msgspec.Meta(max_length=200, description="The name of the signal.")]
    value: Annotated[Any, msgspec.Meta(description="Its value, as JSON.")] = None
    message_id: (
        Annotated[
            str,
            msgspec.Meta(
                max_length=200, description="Sent again with the same id, it counts once."
            ),
        ]
        | None
    ) = None


class RetryArguments(ActArguments, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whose dead jobs are put back."""


async def _act(
    wanted: ActArguments,
    one: Callable[[str], Awaitable[ToolAnswer]],
    several: Callable[[InstanceQuery, int], Awaitable[int]],
) -> ToolAnswer:
    """Do it to the one instance that is named, or to all that the filter finds."""
    if wanted.instance_id is not None:
        if wanted.filter is not None or wanted.expect is not None:
            raise UsageError("give instance_id, or filter and expect, not both")
        return await one(wanted.instance_id)
    if wanted.filter is None or wanted.expect is None:
        raise UsageError("say which: instance_id, or filter with expect")
    query = read_filter(wanted.filter)
    if not query or query == {"roots_only": False}:
        raise UsageError("filter is empty, which would mean every instance")
    return {"done": await several(query, wanted.expect)}


async def _cancel(client: Client, wanted: CancelArguments) -> ToolAnswer:
    reason = wanted.reason or "by a model over MCP"

    async def one(instance_id: str) -> ToolAnswer:
        handle = client.handle(instance_id)
        status = (await handle.info()).status
        if status.is_terminal:
            return {"done": 0, "had_ended": status.value}
        await handle.cancel(reason)
        return {"done": 1}

    return await _act(
        wanted, one, lambda which, n: client.cancel_all(expect=n, reason=reason, **which)
    )


async def _signal(client: Client, wanted: SignalArguments) -> ToolAnswer:
    signal: Signal[Json] = Signal(wanted.name, Any)
    message_id = wanted.message_id or fresh_name()

    async def one(instance_id: str) -> ToolAnswer:
        await client.handle(instance_id).send(signal, wanted.value, message_id=message_id)
        return {"done": 1}

    return await _act(
        wanted,
        one,
        lambda which, n: client.signal_all(
            signal, wanted.value, expect=n, message_id=message_id, **which
        ),
    )


async def _retry(client: Client, wanted: RetryArguments) -> ToolAnswer:
    async def one(instance_id: str) -> ToolAnswer:
        await client.handle(instance_id).info()  # Fails for one that is not there.
        return {"done": 1, "jobs": await client.retry_dead_jobs(instance_id=instance_id)}

    return await _act(wanted, one, lambda which, n: client.retry_all(expect=n, **which))


ACTIONS: Mapping[str, Tool[Any]] = {
    "signal": Tool(
        name="signal",
        title="Send a signal",
        about="Send a signal to an instance, or to all that a filter finds. It is kept until the"
        " code receives it.",
        arguments=SignalArguments,
        run=_signal,
        acts=True,
    ),
    "cancel": Tool(
        name="cancel",
        title="Cancel instances",
        about="Ask an instance to stop, or all that a filter finds: their code sees CancelledError"
        " and may clean up.",
        arguments=CancelArguments,
        run=_cancel,
        acts=True,
        destroys=True,
    ),
    "retry": Tool(
        name="retry",
        title="Retry dead jobs",
        about="Put the dead jobs of an instance, or of all that a filter finds, back into their"
        " queues, with all their attempts.",
        arguments=RetryArguments,
        run=_retry,
        acts=True,
    ),
}
"""What `perdure mcp --allow` may name."""
