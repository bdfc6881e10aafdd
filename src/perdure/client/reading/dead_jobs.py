"""Reading dead jobs, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator

from perdure.client.reading.lists import DeadJobQuery, check_dead_jobs, is_wanted
from perdure.limits import PAGE_MAX
from perdure.model.admin import DeadJob
from perdure.model.jobs import JobKey
from perdure.store.base import Store


async def find_dead_jobs(
    store: Store, which: DeadJobQuery, mark: JobKey | None
) -> AsyncIterator[DeadJob]:
    """Return dead jobs that meet all conditions, in order of their keys, from behind a mark."""
    wanted = check_dead_jobs(which)
    while True:
        jobs = await store.admin.read_dead_jobs(limit=PAGE_MAX, after=mark)
        for job in jobs:
            if is_wanted(job, wanted):
                yield job
        if len(jobs) < PAGE_MAX:
            return
        mark = jobs[-1].key
