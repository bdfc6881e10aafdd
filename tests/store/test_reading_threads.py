"""Threads that read for event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from perdure.errors import StoreError
from perdure.store.reading_threads import ReadingThreads
from tests.sizes import WITHIN_S


@pytest.fixture
def threads() -> Iterator[ReadingThreads]:
    made = ReadingThreads(1)
    yield made
    made.close()


async def test_a_call_is_made_on_a_thread_and_answered_on_the_loop(threads: ReadingThreads) -> None:
    name, found = await threads.run(lambda a: (threading.current_thread().name, a), "x")

    assert name.startswith("perdure-read")
    assert found == "x"


async def test_what_a_call_raises_is_raised_to_its_caller(threads: ReadingThreads) -> None:
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)

    assert await threads.run(lambda: "the thread goes on") == "the thread goes on"


async def test_a_call_that_nobody_waits_for_is_not_begun(threads: ReadingThreads) -> None:
    gate, begun = threading.Event(), list[str]()
    first = asyncio.ensure_future(threads.run(gate.wait, WITHIN_S))
    second = asyncio.ensure_future(threads.run(begun.append, "second"))
    await asyncio.sleep(0)  # Both are handed over, and the one thread has the first.
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    gate.set()

    assert await first
    await threads.run(begun.append, "third")
    assert begun == ["third"]


async def test_closing_waits_for_what_is_being_read_and_refuses_what_comes_later(
    threads: ReadingThreads,
) -> None:
    gate, is_read = threading.Event(), list[bool]()
    reading = asyncio.ensure_future(threads.run(lambda: is_read.append(gate.wait(WITHIN_S))))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(asyncio.to_thread(threads.close))
    gate.set()
    await closing

    assert is_read == [True]
    await reading
    with pytest.raises(StoreError, match="closed"):
        await threads.run(len, "")


def test_a_loop_that_is_gone_takes_no_thread_along(threads: ReadingThreads) -> None:
    gate = threading.Event()

    async def leave() -> None:
        reading = asyncio.ensure_future(threads.run(gate.wait, WITHIN_S))
        await asyncio.sleep(0)
        reading.cancel()

    asyncio.run(leave())
    gate.set()

    assert asyncio.run(threads.run(lambda: "read")) == "read"
