"""Methods of the client over HTTP about jobs and inboxes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Unpack

from perdure.authoring.activity import Activity
from perdure.authoring.failures import describe
from perdure.client.reading.info import Json, ListPart, MessageInfo
from perdure.client.reading.lists import DeadJobQuery, check_count, check_dead_jobs, check_limit
from perdure.client.reading.overview import DeadJobInfo
from perdure.client.remote.connection import encoded, read
from perdure.codec import JSON, check_id
from perdure.limits import BULK_MAX, PAGE_MAX

if TYPE_CHECKING:
    from perdure.client.remote.client import RemoteClient


async def dead_jobs(
    self: RemoteClient, *, limit: int = 100, after: str | None = None, **which: Unpack[DeadJobQuery]
) -> ListPart[DeadJobInfo]:
    """Return jobs that ran out of attempts, a page at a time; see `Client.dead_jobs`."""
    query: dict[str, Any] = dict(check_dead_jobs(which))
    told = await self._connection.get("dead-jobs", limit=check_limit(limit), after=after, **query)
    return ListPart(items=read(list[DeadJobInfo], told["items"]), next=told["next"])


async def count_dead_jobs(self: RemoteClient, **which: Unpack[DeadJobQuery]) -> int:
    """Return how many jobs ran out of attempts."""
    return sum([len(page.items) async for page in _dead_job_pages(self, which)])


async def retry_dead_job(self: RemoteClient, key: str, /) -> None:
    """Put a dead job back into its queue; see `Client.retry_dead_job`."""
    await self._connection.post("dead-jobs", key, "retry")


async def retry_dead_jobs(
    self: RemoteClient, *, limit: int = BULK_MAX, **which: Unpack[DeadJobQuery]
) -> int:
    """Put dead jobs back into their queues, and return how many. At least one condition."""
    query: dict[str, Any] = dict(check_dead_jobs(which))
    told = await self._connection.post(
        "dead-jobs", limit=check_count("limit", limit, least=1), **query
    )
    return int(told["count"])


async def forget_dead_job(self: RemoteClient, key: str, /) -> None:
    """Remove a dead job for good."""
    await self._connection.ask("DELETE", ("dead-jobs", key))


async def complete_job(
    self: RemoteClient, key: str, value: Json, /, *, activity: Activity[..., Any] | None = None
) -> None:
    """End a job by hand with a result; see `Client.complete_job`."""
    codec = JSON if activity is None else activity.definition.codec.returns
    raw = codec.encode(value, f"result of job {key}")
    await self._connection.post("jobs", key, "complete", value=encoded(raw))


async def fail_job(self: RemoteClient, key: str, error: BaseException | str, /) -> None:
    """End a job by hand with an error; see `Client.fail_job`. The class of an exception is
    named in its text."""
    text = error
    if not isinstance(text, str):
        text = f"{type(error).__qualname__}: {describe(text).message}"
    await self._connection.post("jobs", key, "fail", error=text)


async def inbox(self: RemoteClient, instance_id: str, /) -> list[MessageInfo]:
    """Return the messages and timers that no turn has taken yet; see `Client.inbox`."""
    checked = check_id("instance id", instance_id)
    told = await self._connection.get("instances", checked, "inbox")
    found: list[MessageInfo] = read(list[MessageInfo], told)
    return found


async def drop_message(self: RemoteClient, instance_id: str, no: int, /) -> None:
    """Remove a message or timer from an inbox; see `Client.drop_message`."""
    checked = check_id("instance id", instance_id)
    await self._connection.ask("DELETE", ("instances", checked, "inbox", str(no)))


async def _dead_job_pages(
    self: RemoteClient, which: DeadJobQuery
) -> AsyncIterator[ListPart[DeadJobInfo]]:
    after = None
    while True:
        page = await self.dead_jobs(limit=PAGE_MAX, after=after, **which)
        yield page
        if page.next is None:
            return
        after = page.next
