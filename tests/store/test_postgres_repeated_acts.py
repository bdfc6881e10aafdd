"""What people do to instances and jobs is run again when the server has crashed in the midst of it,
and told as done: by the first time or by the second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from perdure.clock import ManualClock
from perdure.model.admin import DeletedCounts
from perdure.model.instances import Status
from perdure.model.turns import Hold
from perdure.store.base import Store
from perdure.store.opening import open_store
from tests.contract.store_values import begun, claim_jobs, ended, job, message
from tests.contract.test_admin import continued, dead
from tests.engine.stage import until
from tests.store.test_postgres_cuts import forget_marks, is_commit
from tests.wire import Proxy

Act = Callable[[], Awaitable[Any]]


async def delete(store: Store) -> Act:
    incarnation = await ended(store)
    return lambda: store.admin.delete([("i", incarnation)])


async def prune(store: Store) -> Act:
    await continued(store, "i", await begun(store))
    return lambda: store.admin.prune("i", keep_last=1)


async def retry_dead_job(store: Store) -> Act:
    key = await dead(store)
    return lambda: store.admin.retry_dead_jobs([key])


async def forget_dead_job(store: Store) -> Act:
    key = await dead(store)
    return lambda: store.admin.forget_dead_jobs([key])


async def end_job(store: Store) -> Act:
    await begun(store, jobs=(job(),))
    [claimed] = await claim_jobs(store)
    return lambda: store.admin.end_job_by_hand(claimed.key, "activity_completed", b"by hand")


async def drop_message(store: Store) -> Act:
    await begun(store)
    await store.deliver([message()])
    [waiting] = await store.read_inbox("i")
    return lambda: store.admin.drop_message("i", waiting.no)


async def unpark(store: Store) -> Act:
    stamp = await begun(store)
    await store.hold([Hold("i", stamp, 0, Status.PARKED, "*", "because")])
    return lambda: store.unpark("i")


ACTS: list[tuple[Callable[[Store], Awaitable[Act]], Any, Any]] = [
    (delete, DeletedCounts(instances=1, executions=1, events=2), None),
    (prune, DeletedCounts(executions=1, events=2), DeletedCounts()),
    (retry_dead_job, [True], [False]),
    (forget_dead_job, [True], [False]),
    (end_job, True, False),
    (drop_message, True, False),
    (unpark, True, False),
]


@pytest.fixture
async def proxy(postgres_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture
async def store(proxy: Proxy, clock: ManualClock) -> AsyncIterator[Store]:
    store = open_store(proxy.url, clock=clock)
    await store.open()
    yield store
    await store.close()


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize(("prepare", "told", "_"), ACTS, ids=[one[0].__name__ for one in ACTS])
async def test_what_a_crash_may_have_swallowed_is_done_once_and_told_as_done(
    store: Store,
    proxy: Proxy,
    postgres_url: str,
    prepare: Callable[[Store], Awaitable[Act]],
    told: Any,
    _: Any,
    is_committed: bool,
) -> None:
    act = await prepare(store)
    cut = proxy.cut_after if is_committed else proxy.cut_before
    cut(is_commit)
    acting = asyncio.ensure_future(act())
    await until(lambda: proxy.cuts)
    proxy.stall()
    await forget_marks(postgres_url)
    proxy.flow()

    assert await acting == told


@pytest.mark.parametrize(("prepare", "_", "again"), ACTS, ids=[one[0].__name__ for one in ACTS])
async def test_what_is_asked_for_a_second_time_finds_nothing(
    store: Store, prepare: Callable[[Store], Awaitable[Act]], _: Any, again: Any
) -> None:
    act = await prepare(store)
    await act()

    assert await act() == again
