"""What a schedule knows, and that in words: the state of its built-in decider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.authoring.deciders.decider_definition import definition_of
from perdure.authoring.schedules.decider import ScheduleDecider
from perdure.authoring.schedules.facts import ScheduleState
from perdure.authoring.schedules.spec import slots_after
from perdure.client.histories.histories import key_of
from perdure.model.builtins import SCHEDULE
from perdure.model.instances import InstanceRow, Status

if TYPE_CHECKING:
    from perdure.client.core import ClientCore


async def read_schedule(core: ClientCore, row: InstanceRow) -> ScheduleState:
    """Return the state of the schedule of a row."""
    definition = definition_of(ScheduleDecider)
    execution = await core.turns().deciding.read(definition, key_of(row))
    state: ScheduleState = execution.state
    return state


async def describe_schedule(core: ClientCore, row: InstanceRow) -> str:
    """Return in words when the schedule of a row fires next, or why it does not; nothing if it is
    no schedule, or held."""
    if row.name != SCHEDULE or row.status is not Status.RUNNING:
        return ""
    state = await read_schedule(core, row)
    if state.spec is None:
        return ""
    running = f"; {len(state.running)} of it run" if state.running else ""
    if state.paused is not None:
        why = f": {state.paused}" if state.paused else ""
        return (
            f"is paused{why}{running}; client.schedule({state.name!r}).resume() lets it go on "
            f"(perdure schedule resume {state.name})"
        )
    slot = next(iter(slots_after(state.spec, state.decided_ms)), None)
    if slot is None:
        return f"has no more times{running}"
    return f"starts {state.spec.orchestration!r} next at {slot.text}{running}"
