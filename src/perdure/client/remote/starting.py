"""Methods of `RemoteClient` that start an instance and send to it in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.signal import Signal
from perdure.authoring.update import AskedUpdate
from perdure.client.acting.sending import signal_value
from perdure.client.acting.starting import check_orchestration
from perdure.client.acting.update_requests import checked_request
from perdure.client.remote.connection import encoded
from perdure.client.remote.handle import RemoteHandle, WaitLimit
from perdure.client.remote.values import arguments_of
from perdure.codec import JSON, check_id
from perdure.ids import fresh_name

if TYPE_CHECKING:
    from perdure.client.remote.client import RemoteClient

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")


async def send_with_start(
    self: RemoteClient,
    signal: Signal[T],
    value: T,
    instance_id: str,
    orchestration: Orchestration[P, R],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> RemoteHandle[R]:
    """Send a signal, and start the instance first if it does not exist; see
    `Client.send_with_start`."""
    asked = check_orchestration("send_with_start", orchestration)
    checked = check_id("instance id", instance_id)
    await self._connection.post(
        *("instances", checked, "signals-with-start"),
        name=signal.name if isinstance(signal, Signal) else "",
        value=encoded(signal_value(signal, value)),
        # Made here: a request that is sent again after a fault must not count twice.
        message_id=fresh_name(),
        orchestration=asked.name,
        version=asked.version or None,
        input=arguments_of(encoded(asked.definition.codec.encode(args, kwargs))),
        if_exists=asked.options.if_exists,
    )
    return RemoteHandle(self._connection, checked, asked.definition.codec.returns)


async def update_with_start(
    self: RemoteClient,
    update: AskedUpdate[T, A],
    value: T,
    instance_id: str,
    orchestration: Orchestration[P, Any],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> A:
    """Ask an instance, and start it first if it does not exist; see `Client.update_with_start`."""
    asked = check_orchestration("update_with_start", orchestration)
    # Its id is made here: a request that is sent again after a fault must not count twice.
    request = checked_request(check_id("instance id", instance_id), update, value)
    handle: RemoteHandle[Any] = RemoteHandle(self._connection, request.instance_id, JSON)
    return await handle._ask_until_answered(
        update,
        request,
        WaitLimit(update.options.timeout),
        "updates-with-start",
        orchestration=asked.name,
        version=asked.version or None,
        input=arguments_of(encoded(asked.definition.codec.encode(args, kwargs))),
        if_exists=asked.options.if_exists,
    )
