"""The routes of schedules, for the table of all."""

from __future__ import annotations

from perdure.client.deciders.schedules import ScheduleInfo
from perdure.web.api import overview, schedules
from perdure.web.operations import ApiRoute

SCHEDULE = "/schedules/{name}"

SCHEDULE_ROUTES: tuple[ApiRoute, ...] = (
    ApiRoute(
        method="GET",
        path="/schedules",
        scope="read",
        handler=schedules.list_schedules,
        returns=list[ScheduleInfo],
    ),
    ApiRoute(
        method="POST",
        path="/schedules",
        scope="write",
        handler=schedules.put_schedule,
        body=schedules.ScheduleBody,
        returns=ScheduleInfo,
    ),
    ApiRoute(
        method="GET",
        path=SCHEDULE,
        scope="read",
        handler=schedules.show_schedule,
        returns=ScheduleInfo,
    ),
    ApiRoute(
        method="DELETE",
        path=SCHEDULE,
        scope="admin",
        handler=schedules.delete_schedule,
        returns=None,
        status=204,
    ),
    ApiRoute(
        method="POST",
        path=f"{SCHEDULE}/pause",
        scope="write",
        handler=schedules.pause_schedule,
        body=schedules.PauseScheduleBody,
        returns=None,
        status=204,
    ),
    ApiRoute(
        method="POST",
        path=f"{SCHEDULE}/resume",
        scope="write",
        handler=schedules.resume_schedule,
        body=overview.EmptyBody,
        returns=None,
        status=204,
    ),
    ApiRoute(
        method="POST",
        path=f"{SCHEDULE}/trigger",
        scope="write",
        handler=schedules.trigger_schedule,
        body=schedules.TriggerBody,
        returns=schedules.Triggered,
    ),
    ApiRoute(
        method="POST",
        path=f"{SCHEDULE}/backfill",
        scope="write",
        handler=schedules.backfill_schedule,
        body=schedules.BackfillBody,
        returns=schedules.Backfilled,
    ),
)
