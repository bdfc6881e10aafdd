"""Methods of `Client` that do one thing to all instances that a filter finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, Unpack

from perdure.authoring.signal import Signal
from perdure.client.acting.bulk_acts import FAILED_OR_STOPPED, BulkAct, act_on_all
from perdure.client.acting.sending import signal_delivery
from perdure.client.histories.points import Point, check_point
from perdure.client.reading.dead_jobs import find_dead_jobs
from perdure.client.reading.lists import InstanceQuery
from perdure.codec import check_id, check_text
from perdure.ids import fresh_name
from perdure.model.histories.events import CancelRequested, write_event
from perdure.model.instances import HELD, LIVE, InstanceRow, Status
from perdure.model.jobs import JobKey
from perdure.model.messages import Delivery, DeliveryStatus

if TYPE_CHECKING:
    from perdure.client.client import Client
    from perdure.client.core import ClientCore

T = TypeVar("T")


async def cancel_all(
    self: Client, *, expect: int, reason: str = "", **which: Unpack[InstanceQuery]
) -> int:
    """Ask all instances that match to stop; return how many were asked.

    Called again after it was broken off, it asks all that have not ended; to be asked twice
    changes nothing.

    Args:
        expect: How many match and have not ended. If there are more or fewer, nothing is done and
            the error says how many.
        reason: Why; kept with each.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
    """
    kind, body = write_event(CancelRequested(reason=check_text("reason", reason)))

    async def do(row: InstanceRow) -> bool:
        delivery = Delivery(
            instance_id=row.instance_id,
            incarnation=row.incarnation,
            kind=kind,
            body=body,
            message_id=fresh_name(),
            if_absent="refuse",
            hurries=True,
        )
        return await _delivered(self._core, delivery)

    return await act_on_all(self._core, BulkAct("cancel", LIVE, do), which, expect=expect)


async def terminate_all(
    self: Client, *, expect: int, reason: str = "", **which: Unpack[InstanceQuery]
) -> int:
    """Stop all instances that match now; return how many were stopped. No worker is needed.

    Called again after it was broken off, it finds those that are left: `expect` is their number.

    Args:
        expect: How many match and have not ended. If there are more or fewer, nothing is done and
            the error says how many.
        reason: Why; kept with each.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
    """
    core, said = self._core, check_text("reason", reason)

    async def do(row: InstanceRow) -> bool:
        return await core.terminate(row.instance_id, said, incarnation=row.incarnation)

    return await act_on_all(core, BulkAct("terminate", LIVE, do), which, expect=expect)


async def signal_all(
    self: Client,
    signal: Signal[T],
    value: T,
    /,
    *,
    expect: int,
    message_id: str,
    **which: Unpack[InstanceQuery],
) -> int:
    """Send a signal to all instances that match; return how many got it by this call.

    Args:
        signal: Its name and type.
        value: Checked and encoded at once.
        expect: How many match and have not ended. If there are more or fewer, nothing is sent and
            the error says how many.
        message_id: What makes the call repeatable: each instance gets the signal once under it,
            however often this is called.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
        PayloadError: The value cannot be stored.
    """
    check_id("message id", message_id)
    template = signal_delivery("?", signal, value, message_id=message_id)

    async def do(row: InstanceRow) -> bool:
        delivery = Delivery(
            instance_id=row.instance_id,
            incarnation=row.incarnation,
            kind=template.kind,
            body=template.body,
            message_id=message_id,
            if_absent="refuse",
        )
        return await _delivered(self._core, delivery)

    return await act_on_all(self._core, BulkAct("signal", LIVE, do), which, expect=expect)


async def unpark_all(self: Client, *, expect: int, **which: Unpack[InstanceQuery]) -> int:
    """Let all parked and blocked instances that match be tried again; return how many were.

    Args:
        expect: How many match and are parked or blocked. If there are more or fewer, nothing is
            done and the error says how many.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
    """
    core = self._core

    async def do(row: InstanceRow) -> bool:
        return await core.store.unpark(row.instance_id)

    done = await act_on_all(core, BulkAct("unpark", HELD, do), which, expect=expect)
    core.noticed_work()
    return done


async def retry_all(self: Client, *, expect: int, **which: Unpack[InstanceQuery]) -> int:
    """Put the dead jobs of all instances that match back into their queues; return how many
    instances had one. What `retry_dead_jobs` does, for instances by their own conditions.

    Args:
        expect: How many instances match, with dead jobs or without. If there are more or fewer,
            nothing is done and the error says how many.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
    """
    core = self._core
    dead: dict[tuple[str, int], list[JobKey]] = {}
    async for job in find_dead_jobs(core.store, {}, None):
        dead.setdefault((job.key.instance_id, job.key.incarnation), []).append(job.key)

    async def do(row: InstanceRow) -> bool:
        keys = dead.get((row.instance_id, row.incarnation), [])
        return bool(keys) and any(await core.store.admin.retry_dead_jobs(keys))

    done = await act_on_all(core, BulkAct("retry", tuple(Status), do), which, expect=expect)
    core.noticed_work()
    return done


async def reset_all(
    self: Client,
    point: Point | None = None,
    /,
    *,
    expect: int,
    reason: str = "",
    **which: Unpack[InstanceQuery],
) -> int:
    """Let all instances that match go on from an earlier point; return how many do.

    Called again after it was broken off with `status="failed"`, it finds those that are left:
    `expect` is their number.

    Args:
        point: As in `handle.reset`. Not given: for each just before what it failed at, or before
            it was asked to stop; then it is for those alone that failed or were stopped.
        expect: How many match. If there are more or fewer, nothing is done and the error says how
            many.
        reason: Why; kept with each.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
        PartlyDoneError: Some have no such point, or are deciders'; the others were reset.
    """
    core, said, checked = self._core, check_text("reason", reason), check_point(point)

    async def do(row: InstanceRow) -> bool:
        place = (row.incarnation, row.execution)
        return await core.reset(row.instance_id, checked, said, only=place)

    statuses = FAILED_OR_STOPPED if checked is None else tuple(Status)
    return await act_on_all(core, BulkAct("reset", statuses, do), which, expect=expect)


async def _delivered(core: ClientCore, delivery: Delivery) -> bool:
    """Deliver to one; false if it had the message before, or has ended or is gone meanwhile."""
    [status] = await core.deliver([delivery])
    return status is DeliveryStatus.DELIVERED
