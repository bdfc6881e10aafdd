"""Having a schedule, whether code declares it or a client puts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.authoring.deciders.decider_definition import definition_of
from perdure.authoring.deciders.decision import Accepted, AlreadyCompleted, Rejected
from perdure.authoring.schedules import facts
from perdure.authoring.schedules.decider import ScheduleDecider
from perdure.authoring.schedules.schedule import Schedule
from perdure.core.deciders.turn import start_of
from perdure.errors import AlreadyExistsError, StoreUnavailableError
from perdure.ids import fresh_id
from perdure.model.builtins import SCHEDULE

if TYPE_CHECKING:
    from perdure.client.client import Client

MAX_TRIES = 100
"""How often a deleted schedule is put anew while others do the same."""


async def declare(client: Client, schedule: Schedule[..., Any], *, by_code: bool) -> bool:
    """Have a schedule, by code or by hand; return whether anything has changed by it.

    Raises:
        AlreadyExistsError: The name is that of a schedule of another orchestration.
    """
    given = facts.DeclareSchedule(name=schedule.name, spec=schedule.spec, by_code=by_code)
    for _ in range(MAX_TRIES):
        outcome = await client.execute(ScheduleDecider, given)
        if not isinstance(outcome, AlreadyCompleted):
            break
        await _revive(client, schedule.name)
    else:
        raise StoreUnavailableError(
            f"schedule {schedule.name!r} kept being deleted while it was put; try again"
        )
    if isinstance(outcome, Rejected) and isinstance(outcome.reason, facts.NameTaken):
        taken = outcome.reason
        hand = "declared by code" if taken.by_code else "put by a client"
        raise AlreadyExistsError(
            stored_schedule_id(schedule.name),
            f"as a schedule of {taken.orchestration!r}, {hand}",
            advice="give this one another name, or delete that one first",
        )
    return isinstance(outcome, Accepted)


async def _revive(client: Client, name: str) -> None:
    """Begin an instance anew in place of a deleted schedule, whose own instances stay."""
    core = client._core
    [row] = await core.store.read_instances([stored_schedule_id(name)])
    if row is None or not row.status.is_terminal:
        return
    new = start_of(
        SCHEDULE,
        row.instance_id,
        None,
        incarnation=fresh_id(),
        now_ms=core.store.clock(),
        commit_id=fresh_id(),
    )
    await core.begin(msgspec.structs.replace(new, replaces=row.incarnation))


def stored_schedule_id(name: str) -> str:
    """Return the id that the instance of a schedule is stored under."""
    return definition_of(ScheduleDecider).stored_id(name)
