"""Methods of `BlockingClient`, which wait where those of `schedules` are awaited.

Made from `client/deciders/schedules.py` by `tools/make_blocking.py`: change that, run this.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from perdure.authoring.schedules.schedule import Schedule
from perdure.authoring.schedules.spec import Overlap
from perdure.client.blocking.loop_thread import LoopThread
from perdure.client.deciders.schedules import ScheduleHandle, ScheduleInfo

if TYPE_CHECKING:
    from perdure.client.blocking.client import BlockingClient


class BlockingScheduleHandle:
    """A schedule, by its name."""

    def __init__(self, thread: LoopThread, handle: ScheduleHandle) -> None:
        self.name = handle.name
        self._thread = thread
        self._handle = handle

    def __repr__(self) -> str:
        return f"BlockingScheduleHandle({self.name!r})"

    def info(self) -> ScheduleInfo:
        """Return when it fires next, and what runs.

        Raises:
            InstanceNotFoundError: There is no such schedule.
        """
        return self._thread.run(self._handle.info())

    def pause(self, reason: str = "") -> None:
        """Start nothing more by the clock, until it is resumed; what runs goes on. It stays paused
        whatever code declares. Slots that pass meanwhile are not missed: nothing comes of them.

        Raises:
            InstanceNotFoundError: There is no such schedule.
        """
        self._thread.run(self._handle.pause(reason))

    def resume(self) -> None:
        """Go on from now.

        Raises:
            InstanceNotFoundError: There is no such schedule.
        """
        self._thread.run(self._handle.resume())

    def trigger(self, *, trigger_id: str | None = None) -> str:
        """Start one now, whatever runs and also while it is paused; return its instance id.

        Args:
            trigger_id: The same id twice starts one. Made, if not given.

        Raises:
            InstanceNotFoundError: There is no such schedule.
            UsageError: Too many of its instances run.
        """
        return self._thread.run(self._handle.trigger(trigger_id=trigger_id))

    def backfill(self, after: datetime, before: datetime, /, *, overlap: Overlap = "allow") -> int:
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
        return self._thread.run(self._handle.backfill(after, before, overlap=overlap))

    def delete(self) -> None:
        """Have no such schedule any more. What it has started goes on. If code declares it, it is
        back when the next worker with that code opens.

        Raises:
            InstanceNotFoundError: There is no such schedule.
        """
        self._thread.run(self._handle.delete())


def put_schedule(self: BlockingClient, schedule: Schedule[..., Any], /) -> BlockingScheduleHandle:
    """Have a schedule, or change the one that has its name; durable when this returns.

    A pause stays as it is. What is due under what was said before is started first.

    Raises:
        AlreadyExistsError: The name is that of a schedule of another orchestration.
    """
    return BlockingScheduleHandle(
        self._thread, self._thread.run(self._client.put_schedule(schedule))
    )


def schedule(self: BlockingClient, name: str, /) -> BlockingScheduleHandle:
    """Return a handle to a schedule that exists. Asks nothing."""
    return BlockingScheduleHandle(self._thread, self._client.schedule(name))


def schedules(self: BlockingClient) -> list[ScheduleInfo]:
    """Return all schedules, in the order of their names."""
    return self._thread.run(self._client.schedules())
