"""Methods of the client over HTTP for schedules."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.authoring.schedules.schedule import OVERLAPS, Schedule, checked_time
from perdure.authoring.schedules.spec import Overlap, ScheduleSpec
from perdure.client.deciders.schedules import ScheduleHandle, ScheduleInfo
from perdure.client.remote.connection import read
from perdure.clock import to_datetime
from perdure.codec import check_id, check_text
from perdure.errors import UsageError
from perdure.ids import fresh_name
from perdure.model.option_types import check_choice

if TYPE_CHECKING:
    from perdure.client.remote.client import RemoteClient


class RemoteScheduleHandle(ScheduleHandle):
    """A schedule of a server."""

    __slots__ = ("_remote",)

    def __init__(self, client: RemoteClient, name: str) -> None:
        super().__init__(client, name)
        self._remote = client

    async def info(self) -> ScheduleInfo:
        """Return when it fires next, and what runs."""
        told = await self._remote._connection.get("schedules", self.name)
        found: ScheduleInfo = read(ScheduleInfo, told)
        return found

    async def pause(self, reason: str = "") -> None:
        """Start nothing more by the clock; see `ScheduleHandle.pause`."""
        words = check_text("reason", reason)
        await self._remote._connection.post("schedules", self.name, "pause", reason=words)

    async def resume(self) -> None:
        """Go on from now."""
        await self._remote._connection.post("schedules", self.name, "resume")

    async def trigger(self, *, trigger_id: str | None = None) -> str:
        """Start one now; see `ScheduleHandle.trigger`."""
        # Made here: the request may be sent again.
        checked = check_id("trigger id", fresh_name() if trigger_id is None else trigger_id)
        told: Any = await self._remote._connection.post(
            "schedules", self.name, "trigger", trigger_id=checked
        )
        return str(told["instance_id"])

    async def backfill(
        self, after: datetime, before: datetime, /, *, overlap: Overlap = "allow"
    ) -> int:
        """Start what a range of time would have started; see `ScheduleHandle.backfill`."""
        check_choice("overlap", overlap, OVERLAPS)
        checked_time("after", after)
        checked_time("before", before)
        told: Any = await self._remote._connection.post(
            "schedules",
            self.name,
            "backfill",
            after=after.astimezone(UTC).isoformat(),
            before=before.astimezone(UTC).isoformat(),
            overlap=overlap,
        )
        return int(told["slots"])

    async def delete(self) -> None:
        """Have no such schedule any more; see `ScheduleHandle.delete`."""
        await self._remote._connection.ask("DELETE", ("schedules", self.name))


async def put_schedule(self: RemoteClient, schedule: Schedule[..., Any], /) -> ScheduleHandle:
    """Have a schedule, or change the one that has its name; see `Client.put_schedule`."""
    if not isinstance(schedule, Schedule):
        raise UsageError(
            f"{schedule!r} is no schedule: say Schedule(name, Cron(...), orchestration, ...)"
        )
    await self._connection.post("schedules", **_body_of(schedule.name, schedule.spec))
    return RemoteScheduleHandle(self, schedule.name)


def schedule(self: RemoteClient, name: str, /) -> ScheduleHandle:
    """Return a handle to a schedule that exists. Asks nothing."""
    return RemoteScheduleHandle(self, check_id("schedule name", name))


async def schedules(self: RemoteClient) -> list[ScheduleInfo]:
    """Return all schedules, in the order of their names."""
    told = await self._connection.get("schedules")
    found: list[ScheduleInfo] = read(list[ScheduleInfo], told)
    return found


def _body_of(name: str, spec: ScheduleSpec) -> dict[str, Any]:
    def time(at_ms: int | None) -> str | None:
        return None if at_ms is None else to_datetime(at_ms).isoformat()

    whens = [
        {"cron": one.cron, "timezone": one.zone}
        if one.cron
        else {"every_ms": one.period_ms, "offset_ms": one.offset_ms}
        for one in spec.whens
    ]
    return {
        "name": name,
        "orchestration": spec.orchestration,
        "arguments": msgspec.json.decode(spec.input),
        "version": spec.version,
        "is_pinned": bool(spec.pinned),
        "when": whens,
        "overlap": spec.overlap,
        "missed": spec.missed,
        "within_ms": spec.within_ms,
        "jitter_ms": spec.jitter_ms,
        "starts_at": time(spec.starts_ms),
        "ends_at": time(spec.ends_ms),
        "except_on": list(spec.except_on),
    }
