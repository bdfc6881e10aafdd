"""Methods of the client over HTTP that do one thing to all instances that a filter finds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from perdure.authoring.signal import Signal
from perdure.client.acting.bulk_acts import FAILED_OR_STOPPED, check_filter
from perdure.client.acting.sending import signal_value
from perdure.client.histories.points import Point, check_point, point_parts
from perdure.client.reading.as_json import shown_time
from perdure.client.reading.lists import InstanceQuery, check_count, filter_of
from perdure.client.remote.connection import encoded
from perdure.client.remote.values import conditions
from perdure.codec import check_id
from perdure.errors import PartlyDoneError
from perdure.model.instances import HELD, LIVE, Status

if TYPE_CHECKING:
    from perdure.client.remote.client import RemoteClient

T = TypeVar("T")


async def cancel_all(
    self: RemoteClient, *, expect: int, reason: str = "", **which: Unpack[InstanceQuery]
) -> int:
    """Ask all instances that match to stop; see `Client.cancel_all`. At most 1,000."""
    return await act_on_all(self, "cancel", which, LIVE, expect=expect, reason=reason)


async def terminate_all(
    self: RemoteClient, *, expect: int, reason: str = "", **which: Unpack[InstanceQuery]
) -> int:
    """Stop all instances that match now; see `Client.terminate_all`. At most 1,000."""
    return await act_on_all(self, "terminate", which, LIVE, expect=expect, reason=reason)


async def signal_all(
    self: RemoteClient,
    signal: Signal[T],
    value: T,
    /,
    *,
    expect: int,
    message_id: str,
    **which: Unpack[InstanceQuery],
) -> int:
    """Send a signal to all that match; see `Client.signal_all`. At most 1,000."""
    raw = signal_value(signal, value)
    return await act_on_all(
        self,
        "signal",
        which,
        LIVE,
        expect=expect,
        signal=signal.name,
        value=encoded(raw),
        message_id=check_id("message id", message_id),
    )


async def unpark_all(self: RemoteClient, *, expect: int, **which: Unpack[InstanceQuery]) -> int:
    """Let all held instances that match be tried again; see `Client.unpark_all`."""
    return await act_on_all(self, "unpark", which, HELD, expect=expect)


async def retry_all(self: RemoteClient, *, expect: int, **which: Unpack[InstanceQuery]) -> int:
    """Put the dead jobs of all that match back; see `Client.retry_all`."""
    return await act_on_all(self, "retry", which, tuple(Status), expect=expect)


async def reset_all(
    self: RemoteClient,
    point: Point | None = None,
    /,
    *,
    expect: int,
    reason: str = "",
    **which: Unpack[InstanceQuery],
) -> int:
    """Let all that match go on from an earlier point; see `Client.reset_all`. At most 1,000."""
    parts = point_parts(check_point(point))
    statuses = tuple(Status) if parts else FAILED_OR_STOPPED
    return await act_on_all(
        self, "reset", which, statuses, expect=expect, reason=reason, point=parts
    )


async def act_on_all(
    client: RemoteClient,
    verb: str,
    which: InstanceQuery,
    statuses: Sequence[Status],
    /,
    *,
    expect: int,
    **more: Any,
) -> int:
    """Have the server do something to all that match, with the same refusals as beside the store.

    Args:
        client: Whose server.
        verb: The `action` of the route.
        which: The conditions.
        statuses: Whom it is for.
        expect: How many these are.
        **more: What else the route takes.
    """
    check_count("expect", expect, least=0)
    wanted = check_filter(verb, which, statuses)
    where = {name: _plain(value) for name, value in conditions(which).items()}
    where["status"] = list(wanted.statuses)
    told = await client._connection.post(
        "instances-bulk", action=verb, where=where, expect=expect, **more
    )
    if told["failed"]:
        raise PartlyDoneError(f"{verb}_all", told["done"], told["failed"])
    return int(told["done"])


def plain_conditions(which: InstanceQuery) -> dict[str, Any]:
    """Return conditions as JSON.

    Raises:
        UsageError: One is not known, has a value that it cannot have, or is for lists alone.
    """
    wanted = filter_of(which)
    where = {name: _plain(value) for name, value in conditions(which).items()}
    return where | ({"status": list(wanted.statuses)} if "status" in where else {})


def _plain(value: Any) -> Any:
    """Return a condition as JSON."""
    if isinstance(value, datetime):
        return shown_time(value)
    return value if isinstance(value, str | bool) else list(value)
