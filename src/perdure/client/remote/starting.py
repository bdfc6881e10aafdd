"""Methods of `RemoteClient` that would start an instance and send to it in one commit: refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.signal import Signal
from perdure.authoring.update import AskedUpdate
from perdure.client.remote.handle import RemoteHandle
from perdure.client.remote.values import refuse

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
    """Refused: the API has no such route."""
    refuse("send_with_start", "start the instance, then send: a signal waits until it is read")


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
    """Refused: the API has no such route."""
    refuse("update_with_start", "start the instance, then ask: handle.update waits for it")
