"""A periodic job: on the dot, without drift, for as long as it is wanted.

Each run belongs to a slot, and slots lie at equal distances from a fixed point. So a slow run moves
no later one, and slots that pass while nothing runs are left out, not made up for. After a few runs
it continues as new, so that its history stays short even if it never ends. This one ends after
eight runs; kill it before that and start it again: it goes on with the next slot.

    python examples/periodic_job.py               a new instance each time
    python examples/periodic_job.py backup-1      one instance, finished once
"""

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from perdure import Context, activity, orchestration, run

RUNS_PER_EXECUTION = 3


@dataclass(frozen=True)
class Schedule:
    """Slots at equal distances from a first one."""

    first: datetime
    every: timedelta

    def slot_after(self, moment: datetime) -> datetime:
        """Return the next slot that still lies ahead."""
        passed = (moment - self.first) // self.every
        return self.first + (passed + 1) * self.every


@activity
async def back_up(number: int, slot: datetime) -> None:
    """Do the work of one slot; some take longer than others."""
    print(f"backup {number} for {slot:%H:%M:%S.%f}"[:-3])
    await asyncio.sleep(0.15 if number % 2 else 0.02)


@orchestration
async def back_up_regularly(ctx: Context, schedule: Schedule, runs: int, done: int = 0) -> int:
    """Make a backup in each slot, as often as wanted."""
    slot = ctx.now()
    for number in range(done + 1, min(done + RUNS_PER_EXECUTION, runs) + 1):
        slot = schedule.slot_after(max(slot, ctx.now()))
        await ctx.sleep_until(slot)
        await back_up(number, slot)
        done = number
    if done == runs:
        return ctx.execution
    back_up_regularly.continue_as_new(schedule, runs, done)


if __name__ == "__main__":
    instance_id = sys.argv[1] if len(sys.argv) > 1 else f"backup-{uuid4()}"
    new_year = datetime(2026, 1, 1, tzinfo=UTC)
    every = timedelta(milliseconds=200)
    executions = run(instance_id, back_up_regularly, Schedule(new_year, every), 8)
    print(f"8 backups in {executions} executions.")
