"""Methods of `BlockingClient`, which wait where those of `admin` are awaited.

Made from `client/admin.py` by `tools/make_blocking.py`: change that, run this.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from perdure.authoring.activity import Activity
from perdure.client.core import SEEN_WITHIN
from perdure.client.reading.info import InstanceInfo, Json, ListPart, MessageInfo
from perdure.client.reading.lists import DeadJobQuery, InstanceQuery
from perdure.client.reading.overview import DeadJobInfo, QueueInfo, SessionInfo, WorkerInfo
from perdure.durations import Duration
from perdure.limits import BULK_MAX
from perdure.model.admin import DeletedCounts, StoreTotals

if TYPE_CHECKING:
    from perdure.client.blocking.client import BlockingClient


def instances(
    self: BlockingClient,
    *,
    limit: int = 100,
    after: str | None = None,
    **which: Unpack[InstanceQuery],
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
    return self._thread.run(self._client.instances(limit=limit, after=after, **which))


def count(self: BlockingClient, **which: Unpack[InstanceQuery]) -> int:
    """Return how many instances there are, with the conditions of `instances`."""
    return self._thread.run(self._client.count(**which))


def delete(self: BlockingClient, instance_id: str, /, *, force: bool = False) -> DeletedCounts:
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
    return self._thread.run(self._client.delete(instance_id, force=force))


def delete_all(
    self: BlockingClient,
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
    return self._thread.run(self._client.delete_all(expect=expect, limit=limit, **which))


def prune(
    self: BlockingClient,
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
    return self._thread.run(
        self._client.prune(keep_last=keep_last, before=before, limit=limit, **which)
    )


def metrics(self: BlockingClient) -> StoreTotals:
    """Return how much there is in the whole store, in one snapshot."""
    return self._thread.run(self._client.metrics())


def queues(self: BlockingClient) -> list[QueueInfo]:
    """Return what waits for which definition, and who takes it. What no worker takes is named in
    `unclaimed`."""
    return self._thread.run(self._client.queues())


def workers(self: BlockingClient, *, seen_within: Duration = SEEN_WITHIN) -> list[WorkerInfo]:
    """Return the workers that gave a sign of life lately, how busy they are, and which leases they
    hold."""
    return self._thread.run(self._client.workers(seen_within=seen_within))


def sessions(self: BlockingClient) -> list[SessionInfo]:
    """Return which worker has which session."""
    return self._thread.run(self._client.sessions())


def dead_jobs(
    self: BlockingClient,
    *,
    limit: int = 100,
    after: str | None = None,
    **which: Unpack[DeadJobQuery],
) -> ListPart[DeadJobInfo]:
    """Return jobs that ran out of attempts, a page at a time.

    Args:
        limit: How many at most, up to 500.
        after: The `next` of the page before.
        **which: Conditions that must all hold: `activity`, `tag`, `instance_id`, `prefix`.

    Raises:
        UsageError: The limit or the cursor is not valid.
    """
    return self._thread.run(self._client.dead_jobs(limit=limit, after=after, **which))


def count_dead_jobs(self: BlockingClient, **which: Unpack[DeadJobQuery]) -> int:
    """Return how many jobs ran out of attempts, with the conditions of `dead_jobs`."""
    return self._thread.run(self._client.count_dead_jobs(**which))


def retry_dead_job(self: BlockingClient, key: str, /) -> None:
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
    self._thread.run(self._client.retry_dead_job(key))


def retry_dead_jobs(
    self: BlockingClient, *, limit: int = BULK_MAX, **which: Unpack[DeadJobQuery]
) -> int:
    """Put dead jobs back into their queues; return how many.

    Args:
        limit: How many at most.
        **which: The conditions of `dead_jobs`; without any, all of them.
    """
    return self._thread.run(self._client.retry_dead_jobs(limit=limit, **which))


def forget_dead_job(self: BlockingClient, key: str, /) -> None:
    """Remove a dead job for good.

    Raises:
        UsageError: There is no such dead job.
    """
    self._thread.run(self._client.forget_dead_job(key))


def complete_job(
    self: BlockingClient, key: str, value: Json, /, *, activity: Activity[..., Any] | None = None
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
    self._thread.run(self._client.complete_job(key, value, activity=activity))


def fail_job(self: BlockingClient, key: str, error: BaseException | str, /) -> None:
    """End a job by hand: its orchestration gets `ActivityError` with this text.

    Args:
        key: As `handle.jobs()` shows it.
        error: Why; of an exception its class is named too.

    Raises:
        UsageError: There is no such job.
    """
    self._thread.run(self._client.fail_job(key, error))


def inbox(self: BlockingClient, instance_id: str, /) -> list[MessageInfo]:
    """Return the messages and timers of an instance that no turn has taken yet, in order.

    Raises:
        InstanceNotFoundError: There is no such instance, and nothing waits for one.
    """
    return self._thread.run(self._client.inbox(instance_id))


def drop_message(self: BlockingClient, instance_id: str, no: int, /) -> None:
    """Remove a message or timer from an inbox, as if it had never been sent.

    What waits for it then waits for ever, unless something else comes; but a caller that waits for
    an input of a decider to be decided gets `InputDroppedError`. An id that it was sent under
    may be used again.

    Raises:
        UsageError: There is no such message, or a turn has taken it by now.
        InstanceNotFoundError: There is no such instance.
    """
    self._thread.run(self._client.drop_message(instance_id, no))
