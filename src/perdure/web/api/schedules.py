"""Routes of schedules."""

from __future__ import annotations

import dataclasses
from datetime import date, datetime, timedelta
from typing import Any

import msgspec

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.schedules.schedule import Schedule
from perdure.authoring.schedules.spec import Missed, Overlap
from perdure.authoring.schedules.when import Cron, Every, When
from perdure.client.deciders.schedules import ScheduleInfo
from perdure.client.reading.info import Json
from perdure.codec import JSON
from perdure.errors import OptionError
from perdure.web.api.overview import EmptyBody
from perdure.web.operations import CheckedRequest, Nothing

MAX_MS = 10**15


class WhenBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One time of a schedule: `cron`, or `every_ms`."""

    cron: str = ""
    timezone: str = "UTC"
    every_ms: int = 0
    offset_ms: int = 0


class ScheduleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule to be put."""

    name: str
    orchestration: str
    """Its name."""
    arguments: dict[str, Json] = {}
    """By name, as JSON."""
    version: str = ""
    """Of the orchestration, where it is known."""
    is_pinned: bool = False
    """Whether that very version is to be started."""
    when: list[WhenBody]
    overlap: Overlap = "skip"
    missed: Missed = "latest"
    within_ms: int = 86_400_000
    jitter_ms: int = 0
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    except_on: list[date] = []


class PauseScheduleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a schedule is paused."""

    reason: str = ""


class TriggerBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which trigger: the same id twice starts one."""

    trigger_id: str | None = None


class BackfillBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which range of time is to be started again."""

    after: datetime
    """Slots at this very time included."""
    before: datetime
    """Slots at this very time not included."""
    overlap: Overlap = "allow"


class Triggered(msgspec.Struct, frozen=True):
    """What a trigger has started."""

    instance_id: str


class Backfilled(msgspec.Struct, frozen=True):
    """How many slots a backfill has."""

    slots: int


async def list_schedules(ask: CheckedRequest[Nothing, None]) -> list[ScheduleInfo]:
    """List the schedules, by name."""
    return await ask.client.schedules()


async def put_schedule(ask: CheckedRequest[Nothing, ScheduleBody]) -> ScheduleInfo:
    """Have a schedule, or change the one that has its name."""
    handle = await ask.client.put_schedule(_schedule(ask.body))
    return await handle.info()


async def show_schedule(ask: CheckedRequest[Nothing, None]) -> ScheduleInfo:
    """Tell when a schedule fires next, and what runs."""
    return await ask.client.schedule(ask.path["name"]).info()


async def delete_schedule(ask: CheckedRequest[Nothing, None]) -> None:
    """Have no such schedule any more; what it has started goes on."""
    await ask.client.schedule(ask.path["name"]).delete()


async def pause_schedule(ask: CheckedRequest[Nothing, PauseScheduleBody]) -> None:
    """Start nothing more by the clock until it is resumed."""
    await ask.client.schedule(ask.path["name"]).pause(ask.reason(ask.body.reason))


async def resume_schedule(ask: CheckedRequest[Nothing, EmptyBody]) -> None:
    """Go on from now."""
    await ask.client.schedule(ask.path["name"]).resume()


async def trigger_schedule(ask: CheckedRequest[Nothing, TriggerBody]) -> Triggered:
    """Start one now."""
    trigger_id = ask.repeat_key(ask.body.trigger_id, "trigger_id")
    started = await ask.client.schedule(ask.path["name"]).trigger(trigger_id=trigger_id)
    return Triggered(started)


async def backfill_schedule(ask: CheckedRequest[Nothing, BackfillBody]) -> Backfilled:
    """Start what a range of time would have started."""
    body = ask.body
    handle = ask.client.schedule(ask.path["name"])
    return Backfilled(await handle.backfill(body.after, body.before, overlap=body.overlap))


def _schedule(body: ScheduleBody) -> Schedule[..., Any]:
    """Return the schedule that a body describes.

    Raises:
        UsageError: A value of it is none.
    """
    orchestration = Orchestration.named(body.orchestration, object)
    if body.is_pinned:
        orchestration = orchestration.with_options(version=body.version)
    try:
        whens = [_when(one) for one in body.when]
    except ValueError as error:
        raise OptionError(str(error)) from error
    made = Schedule(body.name, whens, orchestration).with_options(
        overlap=body.overlap,
        missed=body.missed,
        within=_length("within_ms", body.within_ms),
        jitter=_length("jitter_ms", body.jitter_ms),
        starts_at=body.starts_at,
        ends_at=body.ends_at,
        except_on=body.except_on,
    )
    # As they are: the caller has them from the orchestration's own codec, or writes plain JSON.
    arguments = JSON.encode(body.arguments, f"arguments of schedule {body.name!r}").decode()
    made.spec = dataclasses.replace(made.spec, version=body.version, input=arguments)
    return made


def _when(body: WhenBody) -> When:
    if bool(body.cron) == bool(body.every_ms):
        raise OptionError("a time has either cron or every_ms")
    if body.cron:
        return Cron(body.cron, body.timezone)
    return Every(_length("every_ms", body.every_ms), _length("offset_ms", body.offset_ms))


def _length(what: str, value_ms: int) -> timedelta:
    if abs(value_ms) > MAX_MS:
        raise OptionError(f"{what} must be of at most {MAX_MS} milliseconds, got {value_ms}")
    return timedelta(milliseconds=value_ms)
