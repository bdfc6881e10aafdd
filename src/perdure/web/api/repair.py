"""Routes by which instances go on from an earlier point, or another one does."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated, Any

import msgspec

from perdure.client.handle import Handle
from perdure.client.histories.moving import handle_at
from perdure.client.histories.points import Point, chosen_point
from perdure.client.histories.resetting import ResetPlan
from perdure.client.reading.info import InstanceInfo, Json
from perdure.codec import JSON
from perdure.web.operations import CheckedRequest, Nothing


class PointBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place in a history. Without any part: just before what the instance failed at."""

    before: str | None = None
    """The name of a call: what happened before it is kept."""
    after: str | None = None
    """The name of a call: its result is kept, or edited with `returning`."""
    event: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The number of the last event that is kept."""
    nth: int = -1
    """Which of the calls of that name: 0 is the first, -1 the last."""
    returning: Json = None
    """What the call of `after` returns in place of what is recorded; null: that."""


class PlanBody(PointBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to go back to, and with which version."""

    version: str | None = None
    """The version to go on with; null: the one on record."""


class ResetBody(PlanBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to go back to, and why."""

    reason: str = ""


class ForkBody(PlanBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where another instance goes on, and under which id."""

    instance_id: str


def point_of(body: PointBody) -> Point | None:
    """Return the point that a body names.

    Raises:
        UsageError: Its parts do not make one.
    """
    result = None if body.returning is None else JSON.encode(body.returning, "returning")
    return chosen_point(
        before=body.before, after=body.after, event=body.event, nth=body.nth, result=result
    )


def _handle(ask: CheckedRequest[Nothing, Any]) -> Coroutine[None, None, Handle[Any]]:
    """Return the handle of the instance that the path names, with the version of the body."""
    return handle_at(ask.client, ask.path["instance_id"], ask.body.version)


async def plan_reset(ask: CheckedRequest[Nothing, PlanBody]) -> ResetPlan:
    """Tell what a reset would do: what is kept, what runs again. Nothing is written."""
    plan: ResetPlan = await (await _handle(ask)).plan(point_of(ask.body))
    return plan


async def reset_instance(ask: CheckedRequest[Nothing, ResetBody]) -> InstanceInfo:
    """Let an instance go on from an earlier point, and return where it stands."""
    handle = await _handle(ask)
    await handle.reset(point_of(ask.body), reason=ask.reason_and_who(ask.body.reason))
    info: InstanceInfo = await handle.info()
    return info


async def fork_instance(ask: CheckedRequest[Nothing, ForkBody]) -> InstanceInfo:
    """Start another instance from a point of this one, and return where it stands."""
    other: Any = await (await _handle(ask)).fork(ask.body.instance_id, point_of(ask.body))
    info: InstanceInfo = await other.info()
    return info
