"""Storing what activities send: when, how much at once, and what is left at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from perdure.errors import LimitExceededError, StoreUnavailableError
from perdure.jobs import sending
from perdure.jobs.sending import StreamFlusher
from perdure.limits import MAX_UNFLUSHED_BYTES
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import ClaimedJob, JobKey, StreamAppend
from perdure.model.streams import SentItems
from perdure.telemetry import Counter
from tests.sizes import WITHIN_S

QUEUE = DefinitionKey("activity", "write", "")


class Shelf:
    """Takes what is stored, when it is let."""

    def __init__(self) -> None:
        self.taken: list[StreamAppend] = []
        self.open = asyncio.Event()
        self.open.set()
        self.asked = asyncio.Event()
        self.refuses = False
        self.error: Exception | None = None

    async def append_streams(self, appends: Sequence[StreamAppend]) -> list[bool]:
        self.asked.set()
        await self.open.wait()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        if not self.refuses:
            self.taken += appends
        return [not self.refuses for _ in appends]

    def words(self) -> list[bytes]:
        return [item for one in self.taken for sent in one.sent for item in sent.items]


def flusher(shelf: Any, told: list[str] | None = None) -> StreamFlusher:
    hear = (told if told is not None else []).append
    made = StreamFlusher(shelf, hear, Counter("items", "", ("stream",)))
    made.open()
    return made


def job(attempt: int = 1) -> ClaimedJob:
    key = JobKey("i", 1, 1, 2)
    return ClaimedJob(key=key, token=7, queue=QUEUE, input=b"", policy=b"", attempt=attempt)


async def test_what_is_left_when_the_attempt_ends_goes_with_its_end() -> None:
    shelf = Shelf()
    streams = flusher(shelf)
    attempt = streams.begin(job(), "write")
    attempt.send("s", b"1")
    await streams.write()
    attempt.send("s", b"2")
    attempt.send("t", b"3")

    assert await attempt.finish() == (SentItems("s", (b"2",)), SentItems("t", (b"3",)))

    await streams.write()
    assert shelf.words() == [b"1"]


async def test_an_end_waits_for_what_is_under_way() -> None:
    shelf = Shelf()
    streams = flusher(shelf)
    attempt = streams.begin(job(), "write")
    shelf.open.clear()
    attempt.send("s", b"1")
    writing = asyncio.ensure_future(streams.write())
    await shelf.asked.wait()
    attempt.send("s", b"2")
    finishing = asyncio.ensure_future(attempt.finish())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not finishing.done()

    shelf.open.set()

    assert await finishing == (SentItems("s", (b"2",)),)
    await writing
    assert shelf.words() == [b"1"]


async def test_what_could_not_be_stored_is_stored_later_and_first() -> None:
    shelf, told = Shelf(), list[str]()
    streams = flusher(shelf, told)
    attempt = streams.begin(job(), "write")
    attempt.send("s", b"1")
    shelf.error = StoreUnavailableError("away")
    with pytest.raises(StoreUnavailableError):
        await streams.write()
    assert told == []
    attempt.send("s", b"2")

    await attempt.flush()

    assert shelf.words() == [b"1", b"2"]
    assert told == ["i"]


async def test_an_attempt_that_lost_its_job_sends_no_more() -> None:
    shelf = Shelf()
    shelf.refuses = True
    streams = flusher(shelf)
    attempt = streams.begin(job(), "write")
    attempt.send("s", b"1")
    await streams.write()
    shelf.refuses = False

    attempt.send("s", b"2")
    await streams.write()

    assert shelf.words() == []


async def test_only_the_first_of_a_later_attempt_takes_back() -> None:
    shelf = Shelf()
    streams = flusher(shelf)
    first, second = streams.begin(job(), "write"), streams.begin(job(2), "write")
    for attempt in (first, second, second):
        attempt.send("s", b"1")
        await streams.write()

    assert [one.is_first for one in shelf.taken] == [False, True, False]


async def test_more_than_may_wait_is_refused_with_what_is_under_way() -> None:
    shelf = Shelf()
    streams = flusher(shelf)
    attempt = streams.begin(job(), "write")
    shelf.open.clear()
    half = b"x" * (MAX_UNFLUSHED_BYTES // 2)
    attempt.send("s", half)
    writing = asyncio.ensure_future(streams.write())
    await shelf.asked.wait()
    attempt.send("s", half)

    with pytest.raises(LimitExceededError, match="write has sent and that are not stored yet"):
        attempt.send("s", b"1")

    shelf.open.set()
    await writing
    attempt.send("s", b"1")


async def test_the_first_item_is_stored_at_once_and_what_is_much_before_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "FLUSH_S", 600.0)
    monkeypatch.setattr(sending, "MAX_FLUSH_S", 600.0)
    shelf = Shelf()
    streams = flusher(shelf)
    running = asyncio.ensure_future(streams.run())
    attempt = streams.begin(job(), "write")

    async def stored(count: int) -> None:
        async with asyncio.timeout(WITHIN_S):
            while len(shelf.words()) < count:
                shelf.asked.clear()
                await shelf.asked.wait()
                await asyncio.sleep(0)

    attempt.send("s", b"1")
    await stored(1)
    attempt.send("s", b"2")
    attempt.send("s", b"x" * sending.FLUSH_BYTES)
    await stored(3)
    running.cancel()


async def test_very_many_items_are_warned_about_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """STREAM_WARNING_ITEMS is a million; it would take a second to reach."""
    monkeypatch.setattr(sending, "STREAM_WARNING_ITEMS", 10)
    attempt = flusher(Shelf()).begin(job(), "write")

    for _ in range(45):
        attempt.send("s", b"1")

    warned = [record.getMessage() for record in caplog.records]
    assert [text.split("has sent ")[1][:8] for text in warned] == [
        "10 items",
        "20 items",
        "40 items",
    ]
