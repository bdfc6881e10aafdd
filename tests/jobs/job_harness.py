"""A runner with somebody who listens to it, and short words for jobs and their ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec

from perdure.authoring.activity import Activity
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import Registry, activity_key
from perdure.authoring.scope import InlineRequest
from perdure.clock import ManualClock
from perdure.codec import JSON
from perdure.jobs.jobs import JobRunner
from perdure.jobs.running import Host, RunningActivity
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    Event,
    Failure,
    read_event,
)
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import ClaimedJob, JobEnd, JobKey
from perdure.model.options import WorkerOptions
from perdure.store.base import JobLease

AnyActivity = Activity[..., Any]

INSTANCE = "order-1"
NO_GRACE = timedelta(0)


@dataclass
class Bench:
    """A runner, what it reported, and its clock."""

    runner: JobRunner
    clock: ManualClock
    ends: asyncio.Queue[tuple[ClaimedJob, JobEnd]]
    next_seq: int = 1
    inline: dict[int, InlineRequest] = field(default_factory=dict)
    """What the orchestration would give for an inline job, by its number."""
    said: list[RunningActivity] = field(default_factory=list)
    """Whose code has said something, each time it has."""

    def job(self, activity: AnyActivity, *args: Any, **fields: Any) -> ClaimedJob:
        """Return a first attempt of a new call."""
        queue = activity_key(activity.name, activity.options.tag)
        stored = activity.definition.codec.encode(args, {})
        return self.raw_job(queue, **{"input": stored, "policy": activity.policy} | fields)

    def raw_job(self, queue: DefinitionKey, **fields: Any) -> ClaimedJob:
        """Return a first attempt of a job in any queue."""
        seq = self.next_seq
        self.next_seq += 1
        defaults: dict[str, Any] = {
            "key": JobKey(INSTANCE, 1, 1, seq),
            "token": 7,
            "queue": queue,
            "input": b"{}",
            "policy": b"{}",
            "attempt": 1,
            "created_ms": self.clock(),
        }
        return ClaimedJob(**(defaults | fields))

    def run(self, activity: AnyActivity, *args: Any, **fields: Any) -> ClaimedJob:
        """Hand a new job over."""
        job = self.job(activity, *args, **fields)
        self.runner.run(job)
        return job

    async def next_end(self) -> JobEnd:
        """Return the next end that is reported."""
        _, end = await self.ends.get()
        return end

    async def end_of(self, activity: AnyActivity, *args: Any, **fields: Any) -> JobEnd:
        """Run a job and return its end, which must be the next one."""
        job = self.run(activity, *args, **fields)
        ended, end = await self.ends.get()
        assert ended is job
        return end


@asynccontextmanager
async def bench(
    *definitions: AnyActivity | Orchestration[..., Any],
    options: WorkerOptions | None = None,
    resources: Iterable[object] = (),
    chance: Callable[[], float] = lambda: 0.0,
) -> AsyncIterator[Bench]:
    """Make a runner of these definitions; afterwards nothing of it is left."""
    clock = ManualClock()
    ends: asyncio.Queue[tuple[ClaimedJob, JobEnd]] = asyncio.Queue()
    inline: dict[int, InlineRequest] = {}
    said: list[RunningActivity] = []

    async def find_inline(key: JobKey) -> InlineRequest | None:
        return inline.get(key.seq)

    runner = JobRunner(
        Registry(definitions),
        options or WorkerOptions(),
        host=Host(
            "here",
            clock,
            tuple(resources),
            client=lambda: "the client",
            notice=said.append,
            chance=chance,
        ),
        end=lambda job, end: ends.put_nowait((job, end)),
        freed=lambda job: None,
        find_inline=find_inline,
    )
    try:
        yield Bench(runner, clock, ends, inline=inline, said=said)
    finally:
        await runner.stop(NO_GRACE)


def event_of(end: JobEnd) -> Event:
    """Return the message for the owner."""
    assert end.kind is not None, f"it is to be tried again: {end.failure}"
    return read_event(end.kind, end.body)


def result_of(end: JobEnd) -> Any:
    """Return what the owner gets."""
    event = event_of(end)
    assert isinstance(event, ActivityCompleted), event
    return JSON.decode(bytes(event.result))


def failures_of(end: JobEnd) -> tuple[Failure, ...]:
    """Return the failures of a job that failed for good."""
    event = event_of(end)
    assert isinstance(event, ActivityFailed), event
    return event.failures


def last_failure(end: JobEnd) -> Failure:
    """Return why an attempt failed, whether or not there will be another."""
    return end.failure if end.failure is not None else failures_of(end)[-1]


def lease_of(job: ClaimedJob) -> JobLease:
    """Return the lease a job is held by."""
    return JobLease(job.key, job.token)


def again(job: ClaimedJob, end: JobEnd) -> ClaimedJob:
    """Return the next attempt of a job, as a claim would give it."""
    assert end.failure is not None, "it goes back with its failure"
    return msgspec.structs.replace(
        job,
        attempt=job.attempt + 1,
        failures=job.failures.plus(end.failure),
        details=end.details or job.details,
    )


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop and the threads go on until something is so."""
    while not is_so():
        await asyncio.to_thread(lambda: None)
