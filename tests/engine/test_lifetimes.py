"""What is opened and closed: by itself where that is meant, in words where it is not."""

from __future__ import annotations

import asyncio

import pytest

from perdure import BlockingClient, Client, Worker, orchestration
from perdure.errors import ResultTimeoutError
from tests.engine.stage import Stage
from tests.sizes import WITHIN_S


@orchestration
async def one() -> int:
    return 1


async def test_a_worker_without_a_block_opens_itself_and_closes(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start(one)
    worker = Worker(stage.url, [one])

    running = asyncio.ensure_future(worker.run())
    async with asyncio.timeout(WITHIN_S):
        assert await handle.result() == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert running.cancelled()
    assert await client.workers() == []


async def test_what_another_process_holds_is_told_to_who_waits(stage: Stage) -> None:
    """The client has no worker: it finds out by looking."""
    stage.expect_log("instance .* is blocked")
    client = await stage.client()
    handle = await client.start("t-1", reads_the_clock)
    waiting = asyncio.ensure_future(handle.result(if_held="raise"))
    await asyncio.sleep(0)

    await stage.engine([reads_the_clock])

    async with asyncio.timeout(WITHIN_S):
        [error] = await asyncio.gather(waiting, return_exceptions=True)
    assert "instance 't-1' is blocked: time.time() at test_lifetimes.py:" in str(error)
    async with Client(stage.url) as later:
        [again] = await asyncio.gather(
            later.handle("t-1").result(if_held="raise"), return_exceptions=True
        )
    assert str(again) == str(error)


async def test_a_call_that_holds_up_a_loop_for_long_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker is on the loop that the call keeps from going on."""
    stage.expect_log("a call of this BlockingClient has waited")
    monkeypatch.setattr("perdure.client.blocking.loop_thread.TELL_AFTER_S", 0)
    await stage.engine([ends_at_once])
    with BlockingClient(stage.url) as client:
        handle = client.start("e-1", ends_at_once)

        with pytest.raises(ResultTimeoutError):
            handle.result(timeout=0.5)

    assert "on the thread of an event loop, which stands still meanwhile" in caplog.text


@orchestration
async def ends_at_once() -> None: ...


@orchestration
async def reads_the_clock() -> float:
    import time

    return time.time()
