"""Methods of `Client` for operators: what they ask of the whole store, and do to it.

Nothing here needs a worker, except to have its effects noticed.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from perdure.authoring.activity import Activity
from perdure.authoring.failures import describe
from perdure.client.core import SEEN_WITHIN
from perdure.client.reading.dead_jobs import find_dead_jobs
from perdure.client.reading.info import (
    InstanceInfo,
    Json,
    ListPart,
    MessageInfo,
    info_of,
    message_of,
)
from perdure.client.reading.lists import (
    MAX_COUNT,
    DeadJobQuery,
    InstanceQuery,
    check_count,
    check_limit,
    check_time,
    deletable,
    filter_of,
    list_filter_of,
    read_cursor,
    write_cursor,
)
from perdure.client.reading.overview import (
    DeadJobInfo,
    QueueInfo,
    SessionInfo,
    WorkerInfo,
    dead_job_of,
    queues_of,
    read_job_key,
    session_of,
    unclaimed_row,
    worker_of,
)
from perdure.client.reading.waiting import list_waiting
from perdure.codec import JSON, check_id, check_text
from perdure.durations import Duration, as_duration
from perdure.errors import InstanceNotFoundError, UsageError
from perdure.limits import BULK_MAX, PAGE_MAX
from perdure.model.admin import DeadJob, DeletedCounts, PageMark, StoreTotals
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    Body,
    Failure,
    write_event,
)
from perdure.model.instances import Status
from perdure.model.jobs import JobKey
from perdure.store.base import Store

if TYPE_CHECKING:
    from perdure.client.client import Client
    from perdure.client.core import ClientCore

# ------------------------------------------------------------------------ lists


async def instances(
    self: Client, *, limit: int = 100, after: str | None = None, **which: Unpack[InstanceQuery]
) -> ListPart[InstanceInfo]:
    """Return instances, newest first, a page at a time.

    Pages stay complete and without repeats while instances come and go. Each costs little however
    many instances there are: if the conditions are such that very many have to be looked at for
    a few, a page has fewer than it could have, none even, and its `next` goes on from there. The
    list is at its end when `next` is None.

    Args:
        limit: How many at most, up to 500.
        after: The `next` of the page before.
        **which: Conditions that must all hold: `status`, `name`, `version`, `prefix`, `ids`,
            `created_after`, `created_before`, `ended_before`, `parent`, `tag`, `roots_only`,
            `waits`.

    Raises:
        UsageError: A condition, the limit or the cursor is not valid.
    """
    size = check_limit(limit)
    wanted = list_filter_of(which)
    mark = None
    if after is not None:
        mark = PageMark(*read_cursor("instances", after, (int, str)))
    core, waits = self._core, which.get("waits")
    if waits is None:
        rows, following = await core.store.admin.list_page(wanted, limit=size, after=mark)
    else:
        rows, following = await list_waiting(
            core.store, core.summaries, wanted, waits, limit=size, after=mark
        )
    is_any_running = any(row.status is Status.RUNNING for row in rows)
    workers = await core.live_workers() if is_any_running else []
    return ListPart(
        items=[info_of(row, unclaimed=unclaimed_row(row, workers)) for row in rows],
        next=None if following is None else write_cursor("instances", following),
    )


async def count(self: Client, **which: Unpack[InstanceQuery]) -> int:
    """Return how many instances there are, with the conditions of `instances`."""
    return await self._core.store.admin.count_instances(filter_of(which))


# ---------------------------------------------------------------------- removal


async def delete(self: Client, instance_id: str, /, *, force: bool = False) -> DeletedCounts:
    """Delete an instance and everything below it: all rows, in one transaction.

    Nothing of it comes back: what a worker still does for it is refused and told to stop, and
    the id can be used again.

    Args:
        instance_id: A root; a child is deleted with its root.
        force: Also if something of it has not ended. Its code is not asked.

    Raises:
        InstanceNotFoundError: There is no such instance.
        NotRootError: It is a child; the error names its root.
        InstanceRunningError: Something of it has not ended.
    """
    return await self._core.removal().delete(check_id("instance id", instance_id), force=force)


async def delete_all(
    self: Client,
    *,
    expect: int | None = None,
    limit: int = BULK_MAX,
    **which: Unpack[InstanceQuery],
) -> DeletedCounts:
    """Delete ended instances, each with everything below it.

    Children are not looked at by themselves, and a tree in which something has not ended is
    left alone.

    Args:
        expect: How many ended roots match. If there are more or fewer, nothing is deleted and
            the error says how many.
        limit: How many trees at most, newest first.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
    """
    wanted = deletable(which)
    return await self._core.removal().delete_ended(
        wanted,
        expect=None if expect is None else check_count("expect", expect, least=0),
        limit=check_count("limit", limit, least=1),
    )


async def prune(
    self: Client,
    *,
    keep_last: int = 1,
    before: datetime | None = None,
    limit: int = BULK_MAX,
    **which: Unpack[InstanceQuery],
) -> DeletedCounts:
    """Remove the histories of earlier executions, of running instances too.

    The current execution always stays, and all that the instance needs to go on.

    Args:
        keep_last: How many executions stay, the current one included.
        before: Only executions that ended earlier than that.
        limit: Of how many instances at most something is removed.
        **which: The conditions of `instances`; without any, all instances.

    Raises:
        UsageError: A condition or a number is not valid.
    """
    return await self._core.removal().prune_all(
        filter_of(which),
        keep_last=check_count("keep_last", keep_last, least=1),
        before_ms=check_time("before", before),
        limit=check_count("limit", limit, least=1),
    )


# ---------------------------------------------------------------------- overview


async def metrics(self: Client) -> StoreTotals:
    """Return how much there is in the whole store, in one snapshot."""
    return await self._core.store.admin.totals()


async def queues(self: Client) -> list[QueueInfo]:
    """Return what waits for which definition, and who takes it. What no worker takes is named in
    `unclaimed`."""
    workers = await self._core.live_workers()
    depths = await self._core.store.admin.queue_depths()
    return queues_of(depths, workers)


async def workers(self: Client, *, seen_within: Duration = SEEN_WITHIN) -> list[WorkerInfo]:
    """Return the workers that gave a sign of life lately, how busy they are, and which leases they
    hold."""
    rows = await self._core.live_workers(as_duration("seen_within", seen_within))
    held = await self._core.store.admin.count_leases(rows)
    return sorted((worker_of(row, held) for row in rows), key=lambda one: one.worker_id)


async def sessions(self: Client) -> list[SessionInfo]:
    """Return which worker has which session."""
    now_ms = self._core.store.clock()
    return [session_of(row, now_ms) for row in await self._core.store.admin.read_sessions()]


# --------------------------------------------------------------------- dead jobs


async def dead_jobs(
    self: Client, *, limit: int = 100, after: str | None = None, **which: Unpack[DeadJobQuery]
) -> ListPart[DeadJobInfo]:
    """Return jobs that ran out of attempts, a page at a time.

    Args:
        limit: How many at most, up to 500.
        after: The `next` of the page before.
        **which: Conditions that must all hold: `activity`, `tag`, `instance_id`, `prefix`.

    Raises:
        UsageError: The limit or the cursor is not valid.
    """
    size = check_limit(limit)
    mark = None
    if after is not None:
        mark = JobKey(*read_cursor("dead jobs", after, (str, int, int, int)))
    jobs: list[DeadJob] = []
    async for job in find_dead_jobs(self._core.store, which, mark):
        if len(jobs) == size:
            following = write_cursor("dead jobs", jobs[-1].key)
            return ListPart(items=[dead_job_of(one) for one in jobs], next=following)
        jobs.append(job)
    return ListPart(items=[dead_job_of(one) for one in jobs], next=None)


async def count_dead_jobs(self: Client, **which: Unpack[DeadJobQuery]) -> int:
    """Return how many jobs ran out of attempts, with the conditions of `dead_jobs`."""
    return sum([1 async for _ in find_dead_jobs(self._core.store, which, None)])


async def retry_dead_job(self: Client, key: str, /) -> None:
    """Put a dead job back into its queue, with all its attempts before it.

    The activity is run again, with the same idempotency key and its attempts counted from 1.
    Its orchestration or decider was told of the failure and went on. For an orchestration the
    call stays failed. A decider gets what the effect now returns as an input, as if it had
    returned it at first; if it dies again, `on_dead` is asked again and it is listed again.
    Effects that had to wait for it (`in_order`) have gone on, and are not run again. Its
    `deadline` and `start_within` are over and do not limit it. With the end of its instance a
    job that was put back goes too.

    Raises:
        UsageError: There is no such dead job.
    """
    [was_there] = await self._core.store.admin.retry_dead_jobs([read_job_key(key)])
    _refuse_no_dead_job(key, was_there=was_there)
    self._core.noticed_work()


async def retry_dead_jobs(
    self: Client, *, limit: int = BULK_MAX, **which: Unpack[DeadJobQuery]
) -> int:
    """Put dead jobs back into their queues; return how many.

    Args:
        limit: How many at most.
        **which: The conditions of `dead_jobs`; without any, all of them.
    """
    check_count("limit", limit, least=1)
    keys: list[JobKey] = []
    async for job in find_dead_jobs(self._core.store, which, None):
        if len(keys) == limit:
            break
        keys.append(job.key)
    retried = 0
    for first in range(0, len(keys), PAGE_MAX):
        retried += sum(await self._core.store.admin.retry_dead_jobs(keys[first : first + PAGE_MAX]))
        self._core.noticed_work()
    return retried


async def forget_dead_job(self: Client, key: str, /) -> None:
    """Remove a dead job for good.

    Raises:
        UsageError: There is no such dead job.
    """
    [was_there] = await self._core.store.admin.forget_dead_jobs([read_job_key(key)])
    _refuse_no_dead_job(key, was_there=was_there)


# ------------------------------------------------------------------------ repair


async def complete_job(
    self: Client, key: str, value: Json, /, *, activity: Activity[..., Any] | None = None
) -> None:
    """End a job by hand: its orchestration goes on with this value as the result.

    If the job runs at the moment, it is told to stop and its own result is refused.

    Args:
        key: As `handle.jobs()` shows it.
        value: What the activity would have returned.
        activity: Checks and encodes the value by its result type; without it, JSON only.

    Raises:
        UsageError: There is no such job.
        PayloadError: The value cannot be stored.
    """
    job = read_job_key(key)
    codec = JSON if activity is None else activity.definition.codec.returns
    raw = msgspec.Raw(codec.encode(value, f"result of job {key}"))
    await _end_job(self._core, job, write_event(ActivityCompleted(schedule=job.seq, result=raw)))


async def fail_job(self: Client, key: str, error: BaseException | str, /) -> None:
    """End a job by hand: its orchestration gets `ActivityError` with this text.

    Args:
        key: As `handle.jobs()` shows it.
        error: Why; of an exception its class is named too.

    Raises:
        UsageError: There is no such job.
    """
    job = read_job_key(key)
    type_name = "FailedByHand" if isinstance(error, str) else type(error).__qualname__
    message = check_text("error", error) if isinstance(error, str) else describe(error).message
    failure = Failure(type_name, message, at_ms=self._core.store.clock())
    await _end_job(
        self._core, job, write_event(ActivityFailed(schedule=job.seq, failures=(failure,)))
    )


async def inbox(self: Client, instance_id: str, /) -> list[MessageInfo]:
    """Return the messages and timers of an instance that no turn has taken yet, in order.

    Raises:
        InstanceNotFoundError: There is no such instance, and nothing waits for one.
    """
    messages = await self._core.store.read_inbox(check_id("instance id", instance_id))
    if not messages:
        await _refuse_unknown(self._core.store, instance_id)
    return [message_of(message) for message in messages]


async def drop_message(self: Client, instance_id: str, no: int, /) -> None:
    """Remove a message or timer from an inbox, as if it had never been sent.

    What waits for it then waits for ever, unless something else comes; but a caller that waits for
    an input of a decider to be decided gets `InputDroppedError`. An id that it was sent under
    may be used again.

    Raises:
        UsageError: There is no such message, or a turn has taken it by now.
        InstanceNotFoundError: There is no such instance.
    """
    check_count("no", no, least=-MAX_COUNT)
    if not await self._core.store.admin.drop_message(check_id("instance id", instance_id), no):
        await _refuse_unknown(self._core.store, instance_id)
        raise UsageError(
            f"the inbox of {instance_id!r} has no message {no!r}: client.inbox() lists what is "
            "there; a turn may have taken it meanwhile"
        )
    self._core.noticed_work()


# ------------------------------------------------------------------------ inside


async def _refuse_unknown(store: Store, instance_id: str) -> None:
    [row] = await store.read_instances([instance_id])
    if row is None:
        raise InstanceNotFoundError(instance_id)


async def _end_job(core: ClientCore, key: JobKey, body: Body) -> None:
    if not await core.store.admin.end_job_by_hand(key, body.kind, body.body):
        await _refuse_unknown(core.store, key.instance_id)
        raise UsageError(
            f"there is no job {key.idempotency_key!r}: it may have ended meanwhile; "
            "handle.jobs() lists those that are open"
        )
    core.noticed_job_end(key)


def _refuse_no_dead_job(key: str, *, was_there: bool) -> None:
    if not was_there:
        raise UsageError(
            f"there is no dead job {key!r}: it may have been retried or forgotten meanwhile; "
            "client.dead_jobs() lists those there are"
        )
