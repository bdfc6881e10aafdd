"""The strip above the list of instances: when those that match were started, and which failed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

import perdure.web
from perdure import Client, Engine, Orchestration
from perdure.errors import UsageError
from perdure.limits import PAGE_MAX
from perdure.web.access import now_utc
from perdure.web.pages.starts import STEPS, read_starts
from perdure.web.totals import MAX_KEPT, RecentByKey
from tests.web.site import KEY, browser, engine_with_all, memory_url


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with engine_with_all() as engine:
        yield engine


@pytest.fixture
async def page(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(perdure.web.app(engine, key=KEY)) as client:
        yield client


async def test_starts_and_failures_of_the_last_hour_are_counted(engine: Engine) -> None:
    starts = await read_starts(engine, {"roots_only": True})

    assert len(starts.started) == len(starts.failed) == STEPS
    assert sum(starts.started) == await engine.count(roots_only=True)
    assert sum(starts.failed) == await engine.count(roots_only=True, status="failed")
    assert not starts.is_sample
    assert abs(starts.end - starts.start - timedelta(hours=1)) < timedelta(seconds=1)


async def test_what_was_started_before_is_not_counted(engine: Engine) -> None:
    later = now_utc() + timedelta(minutes=10)

    starts = await read_starts(engine, {"created_after": later})

    assert sum(starts.started) == 0


async def test_of_very_many_the_newest_are_counted_since_the_oldest_of_them() -> None:
    named: Orchestration[..., str] = Orchestration.named("x", str)
    async with Client(memory_url(), create=True) as client:
        for number in range(PAGE_MAX + 1):
            await client.start(f"x-{number}", named)

        starts = await read_starts(client, {})
        oldest = await client.handle("x-1").info()

    assert (sum(starts.started), starts.is_sample) == (PAGE_MAX, True)
    # Not the whole hour: bars of seconds.
    assert starts.end - starts.start < timedelta(minutes=50)
    assert starts.start <= oldest.created_at


async def test_the_list_has_the_strip_and_its_json_the_numbers(page: httpx.AsyncClient) -> None:
    shown = await page.get("/")
    told = (await page.get("/index.json")).json()["starts"]

    assert 'class="starts"' in shown.text
    assert f"{sum(told['started'])} started" in shown.text
    assert datetime.fromisoformat(told["end"]).tzinfo == UTC


async def test_where_nothing_was_started_there_is_no_strip(page: httpx.AsyncClient) -> None:
    for words in ("name:nothing", "waits:signal", "nonsense:x"):
        assert 'class="starts"' not in (await page.get("/", params={"q": words})).text


async def test_each_filter_has_numbers_of_its_own(page: httpx.AsyncClient) -> None:
    every = (await page.get("/index.json")).json()["starts"]
    failed = (await page.get("/index.json", params={"q": "status:failed"})).json()["starts"]

    assert sum(failed["started"]) == sum(failed["failed"]) < sum(every["started"])


async def test_numbers_of_a_moment_ago_serve_all_who_ask() -> None:
    now_s = 0.0
    kept: RecentByKey[int] = RecentByKey(lambda: now_s)
    asked = 0

    async def count() -> int:
        nonlocal asked
        asked += 1
        return asked

    first = await kept.of("a").get(count), await kept.of("a").get(count)
    for number in range(MAX_KEPT):
        kept.of(number)
    forgotten = await kept.of("a").get(count)
    now_s = 1e6

    assert (*first, forgotten, await kept.of("a").get(count)) == (1, 1, 2, 3)


async def test_a_count_that_fails_is_told_and_tried_again() -> None:
    kept: RecentByKey[int] = RecentByKey(lambda: 0.0)

    async def fail() -> int:
        raise UsageError("not now")

    async def count() -> int:
        return 7

    with pytest.raises(UsageError, match="not now"):
        await kept.of("a").get(fail)

    assert await kept.of("a").get(count) == 7
