"""Where a job stands at this worker: the slots of its kind, and what is known of its run."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic

from perdure.jobs.attempts import AttemptResult, GivenBack, JobCode, Raised, raised
from perdure.jobs.running import RunningActivity
from perdure.model.histories.events import Failure
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import AttemptFacts, ClaimedJob, JobPolicy, Settled
from perdure.model.options import WorkerOptions
from perdure.model.turns import SlotUse


class SlotKind(StrEnum):
    """Where the code of a job runs."""

    ASYNC = "async"
    THREADED = "threaded"
    PROCESS = "process"
    BUILTIN = "built-in"  # our own, on the loop
    WAITING = "waiting"  # our own that wait for other instances, for as long as those take
    ELSEWHERE = "elsewhere"  # at other workers: there are no slots of this kind


HARMLESS = (SlotKind.BUILTIN, SlotKind.WAITING)
"""What is our own kills no worker; waiting for a result outlives very many of them."""


@dataclass(slots=True)
class JobCounts:
    """What became of the jobs of a runner."""

    started: int = 0
    completed: int = 0
    failed: int = 0
    """Failures that were final."""
    retried: int = 0
    """Failures after which the job goes back to its queue."""
    timed_out: int = 0
    cancelled: int = 0
    lost: int = 0
    abandoned: int = 0
    """Attempts whose code went on after it was told to stop and the grace was over."""
    given_back: int = 0
    dropped: int = 0
    """Results that came when no turn waited for them any more."""


class Slots:
    """The slots of one kind: how many, who waits for one."""

    def __init__(self, kind: SlotKind, capacity: int) -> None:
        self.kind = kind
        self.capacity = capacity
        self.running = 0
        self.reserved = 0
        self.waiting: OrderedDict[JobRun, None] = OrderedDict()

    @property
    def room(self) -> int:
        """How many more jobs may come: as many may wait as run, so that no slot is ever idle."""
        return 2 * self.capacity - self.running - len(self.waiting) - self.reserved


def slots_of(options: WorkerOptions, *, builtin: int, waiting: int) -> dict[SlotKind, Slots]:
    """Return the slots of a worker, all of them free."""
    capacities = {
        SlotKind.ASYNC: options.async_jobs,
        SlotKind.THREADED: options.threaded_jobs,
        SlotKind.PROCESS: options.process_jobs or os.cpu_count() or 1,
        SlotKind.BUILTIN: builtin,
        SlotKind.WAITING: waiting,
    }
    return {kind: Slots(kind, capacity) for kind, capacity in capacities.items()}


def use_of(slots: Slots) -> SlotUse:
    """Return how the slots of one kind are used now."""
    return SlotUse(slots.kind.value, slots.capacity, slots.running, len(slots.waiting))


class Reservation:
    """Room for the jobs of one turn, until its commit is answered."""

    __slots__ = ("_find", "_reserved")

    def __init__(self, find: Callable[[DefinitionKey], Slots | None]) -> None:
        """Reserve nothing yet.

        Args:
            find: Returns where a job of a queue would run, if it is served and there is room.
        """
        self._find = find
        self._reserved: list[Slots] = []

    def takes(self, queue: DefinitionKey) -> bool:
        """Reserve room for one job, if its queue is served here and there is some."""
        slots = self._find(queue)
        if slots is None:
            return False
        slots.reserved += 1
        self._reserved.append(slots)
        return True

    def drop(self) -> None:
        """Give up all of it: the jobs run now, or will not come."""
        for slots in self._reserved:
            slots.reserved -= 1
        self._reserved.clear()


class JobRun:
    """A job at this worker, until its code has ended."""

    __slots__ = (
        "began_ms",
        "began_s",
        "context",
        "has_slot",
        "interrupt",
        "is_abandoned",
        "is_over",
        "is_told",
        "job",
        "lease_until_ms",
        "policy",
        "refusal",
        "slots",
        "task",
        "timer",
        "work",
    )

    def __init__(self, job: ClaimedJob, slots: Slots, context: RunningActivity) -> None:
        self.job = job
        self.slots = slots
        self.lease_until_ms = job.lease_until_ms
        self.context = context
        self.policy = JobPolicy()
        self.work: JobCode | None = None
        """What it calls; of an inline call, known when it was found."""
        self.refusal: Raised | GivenBack | None = None
        """Why its code is not called at all."""
        self.task: asyncio.Task[AttemptResult | JobCode | Settled] | None = None
        self.timer: asyncio.TimerHandle | None = None
        """Its timeout; once it was told to stop, the end of its grace."""
        self.interrupt: Callable[[], object] | None = None
        """Stops the code, where that can be done at all."""
        self.began_ms = 0
        """The same by the store's clock."""
        self.began_s = 0.0
        """When its code was started, by `time.monotonic`; 0: not yet."""
        self.has_slot = False
        self.is_told = False
        self.is_over = False
        self.is_abandoned = False

    @property
    def losses(self) -> int:
        """How many workers it was lost with, that may have died of it."""
        return 0 if self.slots.kind in HARMLESS else self.job.lost

    def let_cancel(self) -> None:
        """From here on the task that calls this runs user code, and may be cancelled."""
        task = self.task
        if task is None or task.done():
            task = asyncio.current_task()  # An eager task runs before it can be kept.
        assert task is not None, "an attempt is a task"
        self.interrupt = task.cancel

    @property
    def facts(self) -> dict[str, object]:
        """What a log line says about it; never its values."""
        return {
            "activity": self.context.activity,
            "instance_id": self.job.key.instance_id,
            "execution": self.job.key.execution,
            "attempt": self.job.attempt,
        }

    @property
    def named(self) -> tuple[str, str]:
        """The activity and the instance, as the text of a log line names them."""
        return self.context.activity, self.job.key.instance_id

    def counted(self) -> AttemptFacts:
        """Return what is counted of it, now that it has ended."""
        kind, _, variant, _ = self.job.queue
        tag = (variant or "default") if kind == "activity" else kind
        return AttemptFacts(self.context.activity, tag, monotonic() - self.began_s)


def refusal_of(job: ClaimedJob) -> Raised:
    """Return why a job is not run, whatever its code is."""
    name = job.queue.name
    if job.damage:
        return Raised(Failure("DamagedJob", f"{name}: {job.damage}"), is_final=True)
    message = f"{name}: its worker was lost {job.lost} times"
    return Raised(Failure("WorkerLost", message), is_final=True, is_dead=True)


def outcome_of(
    task: asyncio.Task[AttemptResult | JobCode | Settled],
) -> AttemptResult | JobCode | Settled:
    """Return how a task ended, whatever that was."""
    if task.cancelled():
        return raised(asyncio.CancelledError("cancelled from outside"))
    match task.exception():
        case None:
            return task.result()
        case KeyboardInterrupt():
            return GivenBack()
        case error:
            return raised(error)
