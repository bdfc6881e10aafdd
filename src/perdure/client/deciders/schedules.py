"""Methods of `Client` for schedules: put them, list them, and do to one what people do.

A schedule is an instance of a built-in decider, so nothing here needs a worker; what is due is
started by any worker of the store.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from perdure.authoring.deciders.decision import Accepted, Rejected
from perdure.authoring.schedules import facts
from perdure.authoring.schedules.decider import ScheduleDecider, ScheduleInput
from perdure.authoring.schedules.facts import QueuedSlot, ScheduleState
from perdure.authoring.schedules.schedule import (
    MAX_NAME_BYTES,
    OVERLAPS,
    Schedule,
    checked_time,
)
from perdure.authoring.schedules.spec import Overlap, describe_when, slots_after
from perdure.client.deciders.declaring import declare, stored_schedule_id
from perdure.client.deciders.schedule_states import read_schedule
from perdure.codec import check_id, check_text
from perdure.errors import (
    InstanceNotFoundError,
    InvalidIdError,
    UsageError,
)
from perdure.ids import fresh_name
from perdure.limits import PAGE_MAX
from perdure.model.admin import InstanceFilter, PageMark
from perdure.model.builtins import SCHEDULE
from perdure.model.histories.slot import Slot
from perdure.model.instances import LIVE
from perdure.model.option_types import check_choice

if TYPE_CHECKING:
    from perdure.client.client import Client

MAX_TRIGGER_BYTES = 60
"""An id of a trigger is part of an instance's id."""

UPCOMING = 5
"""How many of the next slots are told."""

READ_AT_ONCE = 50
"""How many schedules are read at the same time for a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInfo:
    """A schedule, and how far it has come."""

    name: str
    orchestration: str
    """What it starts."""
    when: tuple[str, ...]
    """Its times: cron expressions with their places, distances."""
    next: datetime | None
    """The next slot; None: it is paused, or has no more."""
    upcoming: tuple[datetime, ...]
    """The next slots, five at most."""
    last: Slot | None
    """The last slot, or trigger, that something was started for."""
    running: tuple[str, ...]
    """Instances that it has started and that have not ended."""
    queued: Slot | None
    """The slot that waits until nothing of it runs."""
    paused: str | None
    """Why it is paused; None: it is not."""
    declared: bool
    """Whether code declares it, or a client has put it."""
    overlap: Overlap
    """What happens to a slot while an earlier instance runs."""


class ScheduleHandle:
    """A schedule, by its name."""

    __slots__ = ("_client", "name")

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return f"<handle of schedule {self.name}>"

    async def info(self) -> ScheduleInfo:
        """Return when it fires next, and what runs.

        Raises:
            InstanceNotFoundError: There is no such schedule.
        """
        core = self._client._core
        [row] = await core.store.read_instances([stored_schedule_id(self.name)])
        if row is None or row.status.is_terminal:
            raise self._missing()
        state = await read_schedule(core, row)
        if state.spec is None:
            raise self._missing()
        return _info_of(state)

    async def pause(self, reason: str = "") -> None:
        """Start nothing more by the clock, until it is resumed; what runs goes on. It stays paused
        whatever code declares. Slots that pass meanwhile are not missed: nothing comes of them.

        Raises:
            InstanceNotFoundError: There is no such schedule.
        """
        words = check_text("reason", reason)
        await self._do(facts.PauseSchedule(name=self.name, reason=words))

    async def resume(self) -> None:
        """Go on from now.

        Raises:
            InstanceNotFoundError: There is no such schedule.
        """
        await self._do(facts.ResumeSchedule(name=self.name))

    async def trigger(self, *, trigger_id: str | None = None) -> str:
        """Start one now, whatever runs and also while it is paused; return its instance id.

        Args:
            trigger_id: The same id twice starts one. Made, if not given.

        Raises:
            InstanceNotFoundError: There is no such schedule.
            UsageError: Too many of its instances run.
        """
        checked = check_id("trigger id", fresh_name() if trigger_id is None else trigger_id)
        if len(checked.encode()) > MAX_TRIGGER_BYTES:
            problem = f"has more than {MAX_TRIGGER_BYTES} bytes"
            raise InvalidIdError("trigger id", checked, problem)
        done = await self._do(facts.TriggerSchedule(name=self.name, trigger_id=checked))
        return str(done)

    async def backfill(
        self, after: datetime, before: datetime, /, *, overlap: Overlap = "allow"
    ) -> int:
        """Start what a range of time would have started; return how many slots it has.

        They are started a hundred at a time, each under the id that its slot has: one that was
        started before is not started again.

        Args:
            after: From here on, slots at this very time included.
            before: Up to here, slots at this very time not included.
            overlap: *allow* starts them side by side. *queue* one after another; *cancel* and
                *terminate* too, and stop first what runs. *skip* leaves out those whose turn comes
                while another runs.

        Raises:
            InstanceNotFoundError: There is no such schedule.
            UsageError: A time has no time zone, the range is empty or has too many slots, or too
                many backfills are under way.
        """
        check_choice("overlap", overlap, OVERLAPS)
        from_ms, before_ms = checked_time("after", after), checked_time("before", before)
        if from_ms >= before_ms:
            raise UsageError(f"backfill from {after} to {before}: the range is empty")
        done = await self._do(
            facts.BackfillSchedule(
                name=self.name, from_ms=from_ms, before_ms=before_ms, overlap=overlap
            )
        )
        return int(done)

    async def delete(self) -> None:
        """Have no such schedule any more. What it has started goes on. If code declares it, it is
        back when the next worker with that code opens.

        Raises:
            InstanceNotFoundError: There is no such schedule.
        """
        await self._do(facts.DeleteSchedule(name=self.name))

    def _missing(self) -> InstanceNotFoundError:
        return InstanceNotFoundError(
            stored_schedule_id(self.name), f"no schedule {self.name!r}; client.schedules() has all"
        )

    async def _do(self, input: ScheduleInput) -> Any:
        """Have an input decided; return the reply."""
        outcome = await self._client.execute(ScheduleDecider, input)
        if isinstance(outcome, Accepted):
            return outcome.reply
        reason = outcome.reason if isinstance(outcome, Rejected) else facts.NoSchedule()
        match reason:
            case facts.Unchanged():
                return None
            case facts.TooMuch(why=why):
                raise UsageError(f"schedule {self.name!r}: {why}")
            case _:
                raise self._missing()


# ------------------------------------------------------------------------ methods


async def put_schedule(self: Client, schedule: Schedule[..., Any], /) -> ScheduleHandle:
    """Have a schedule, or change the one that has its name; durable when this returns.

    A pause stays as it is. What is due under what was said before is started first.

    Raises:
        AlreadyExistsError: The name is that of a schedule of another orchestration.
    """
    if not isinstance(schedule, Schedule):
        raise UsageError(
            f"{schedule!r} is no schedule: say Schedule(name, Cron(...), orchestration, ...)"
        )
    await declare(self, schedule, by_code=False)
    return ScheduleHandle(self, schedule.name)


def schedule(self: Client, name: str, /) -> ScheduleHandle:
    """Return a handle to a schedule that exists. Asks nothing."""
    checked = check_id("schedule name", name)
    if len(checked.encode()) > MAX_NAME_BYTES:
        raise InvalidIdError("schedule name", checked, f"has more than {MAX_NAME_BYTES} bytes")
    return ScheduleHandle(self, checked)


async def schedules(self: Client) -> list[ScheduleInfo]:
    """Return all schedules, in the order of their names."""
    core = self._core
    states: list[ScheduleState] = []
    mark: PageMark | None = None
    wanted = InstanceFilter(name=SCHEDULE, statuses=LIVE)
    while True:
        rows, mark = await core.store.admin.list_page(wanted, limit=PAGE_MAX, after=mark)
        for begin in range(0, len(rows), READ_AT_ONCE):
            some = rows[begin : begin + READ_AT_ONCE]
            states += await asyncio.gather(*(read_schedule(core, row) for row in some))
        if mark is None:
            break
    found = [_info_of(state) for state in states if state.spec is not None]
    return sorted(found, key=lambda one: one.name)


# ------------------------------------------------------------------------- inside


def _info_of(state: ScheduleState) -> ScheduleInfo:
    spec = state.spec
    assert spec is not None, "looked at before"
    upcoming: tuple[datetime, ...] = ()
    if state.paused is None:
        # One that is due and not decided yet is still to come.
        found = islice(slots_after(spec, state.decided_ms), UPCOMING)
        upcoming = tuple(datetime.fromisoformat(slot.text) for slot in found)
    return ScheduleInfo(
        name=state.name,
        orchestration=spec.orchestration,
        when=tuple(describe_when(one) for one in spec.whens),
        next=upcoming[0] if upcoming else None,
        upcoming=upcoming,
        last=_slot_of(state.name, state.last),
        running=state.running,
        queued=_slot_of(state.name, state.queued),
        paused=state.paused,
        declared=state.by_code,
        overlap=spec.overlap,
    )


def _slot_of(name: str, slot: QueuedSlot | None) -> Slot | None:
    return None if slot is None else Slot(name, datetime.fromisoformat(slot.slot))
