"""Storing what running activities send to streams, in batches and not too often.

Code may send as often as it likes, from any thread. The first item after a pause is stored at once,
the following ones together after `FLUSH_S`; later, if the store takes its time. What is left when
the attempt succeeds is stored with the end of its job, so nothing is lost but what a dying worker
had not stored yet, and that is sent by the next attempt.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from perdure.authoring.outbox import Outbox, refuse_too_much
from perdure.limits import STREAM_WARNING_ITEMS
from perdure.model.jobs import ClaimedJob, StreamAppend
from perdure.model.streams import SentItems
from perdure.store.streams import StreamStore
from perdure.telemetry import Counter

FLUSH_S = 0.05
"""The pause between two writes while the store answers quickly."""
MAX_FLUSH_S = 0.5
PATIENCE = 4
"""The longest pause, and how many times as long as the last write a pause is."""
FLUSH_BYTES = 64 * 1024
"""So much is stored before the pause is over."""

logger = logging.getLogger(__name__)


class SendingAttempt:
    """What one attempt has sent."""

    def __init__(self, job: ClaimedJob, activity: str, streams: StreamFlusher) -> None:
        self.job = job
        self.activity = activity
        self.outbox = Outbox()
        self.under_way: tuple[SentItems, ...] = ()
        """What is being stored."""
        self.stored = 0
        """How many items are stored."""
        self.has_stored = False
        self.is_refused = False
        """Whether the job is not its own any more: what it sends is void."""
        self._streams = streams
        self._sent = 0

    def send(self, stream: str, item: bytes) -> None:
        """Send an item. Any thread may.

        Raises:
            LimitExceededError: Too much is not stored yet.
        """
        with self._streams.lock:
            advice = "await flush() now and then, so that the store keeps up"
            size = self.outbox.size + _size(self.under_way) + len(item)
            refuse_too_much(stream, size, sender=self.activity, advice=advice)
            if self.is_refused:
                return
            self.outbox.add(stream, item)
            self._sent += 1
            is_many = self._sent % STREAM_WARNING_ITEMS == 0
            is_many = is_many and (self._sent // STREAM_WARNING_ITEMS).bit_count() == 1
        if is_many:
            logger.warning(
                "activity %r of instance %r has sent %d items to streams, which are all kept until "
                "the instance is removed",
                self.activity,
                self.job.key.instance_id,
                self._sent,
                extra={"instance_id": self.job.key.instance_id, "activity": self.activity},
            )
        self._streams.notice(self)

    async def flush(self) -> None:
        """Wait until what was sent is stored. On any loop."""
        await self._streams.flush()

    async def finish(self) -> tuple[SentItems, ...]:
        """Return what is left when the attempt has succeeded, to be stored with its end."""
        return await self._streams.finish(self)

    def append(self) -> StreamAppend:
        """Return what is to be stored now. Under the lock."""
        self.under_way = self.outbox.take()
        job = self.job
        is_first = job.attempt > 1 and not self.has_stored
        return StreamAppend(job.key, job.token, job.attempt, self.under_way, is_first, self.stored)

    def put_back(self) -> None:
        """Send again what could not be stored. Under the lock."""
        later, self.under_way, again = self.outbox.take(), (), self.under_way
        for sent in (*again, *later):
            for item in sent.items:
                self.outbox.add(sent.stream, item)


class StreamFlusher:
    """What the activities of a worker have sent and is not stored yet.

    Args:
        streams: Where to.
        told: Hears of the instances whose streams have something new.
        items: Counts what was stored, by stream.
    """

    def __init__(self, streams: StreamStore, told: Callable[[str], None], items: Counter) -> None:
        self._streams = streams
        self._told = told
        self._items = items
        self.lock = threading.Lock()
        """Guards what threads and the loop both change."""
        self._unwritten: dict[SendingAttempt, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rung = asyncio.Event()
        self._full = asyncio.Event()
        self._writing = asyncio.Lock()
        self._storing: set[asyncio.Future[None]] = set()
        self._pause_s = FLUSH_S

    def open(self) -> None:
        """Learn on which loop to write."""
        self._loop = asyncio.get_running_loop()

    def begin(self, job: ClaimedJob, activity: str) -> SendingAttempt:
        """Return what keeps the items of an attempt."""
        return SendingAttempt(job, activity, self)

    def notice(self, sending: SendingAttempt) -> None:
        """An activity has sent something. Any thread may tell."""
        with self.lock:
            is_first = not self._unwritten
            self._unwritten[sending] = None
            is_full = sending.outbox.size >= FLUSH_BYTES
        if is_first:
            self._ring(self._rung)
        if is_full:
            self._ring(self._full)

    def _ring(self, event: asyncio.Event) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # The loop is closed.
                self._loop.call_soon_threadsafe(event.set)

    async def run(self) -> None:
        """Write for ever. Ends only by cancellation."""
        while True:
            if not self._unwritten:
                await self._rung.wait()
            self._rung.clear()
            self._full.clear()
            began_s = monotonic()
            await self.write()
            took_s = monotonic() - began_s
            self._pause_s = min(max(FLUSH_S, PATIENCE * took_s), MAX_FLUSH_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s):
                    await self._full.wait()

    async def flush(self) -> None:
        """Store all that was sent until now. An activity may have a loop of its own."""
        assert self._loop is not None, "a worker that is open runs it"
        if asyncio.get_running_loop() is self._loop:
            await self.write()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.write(), self._loop))

    async def write(self) -> None:
        """Store what was sent. A caller that gives up does not end it: until the store has answered
        it is not known what is left, of this activity and of all others."""
        storing = asyncio.ensure_future(self._write())
        self._storing.add(storing)
        storing.add_done_callback(self._has_stored)
        await asyncio.shield(storing)

    def _has_stored(self, storing: asyncio.Future[None]) -> None:
        self._storing.discard(storing)
        if not storing.cancelled():
            storing.exception()  # Its caller may have given up, and no other asks.

    async def _write(self) -> None:
        async with self._writing:
            with self.lock:
                taken, self._unwritten = list(self._unwritten), {}
                appends = [sending.append() for sending in taken]
            if not appends:
                return
            try:
                stored = await self._streams.append_streams(appends)
            except BaseException:
                with self.lock:
                    for sending in taken:
                        sending.put_back()
                    self._unwritten = {**dict.fromkeys(taken), **self._unwritten}
                raise
            with self.lock:
                for sending, was_ours in zip(taken, stored, strict=True):
                    sending.stored += sum(len(one.items) for one in sending.under_way)
                    sending.under_way = ()
                    sending.has_stored |= was_ours
                    sending.is_refused |= not was_ours
        for append, was_ours in zip(appends, stored, strict=True):
            if was_ours:
                for one in append.sent:
                    self._items.add((one.stream,), len(one.items))
                self._told(append.key.instance_id)

    async def finish(self, sending: SendingAttempt) -> tuple[SentItems, ...]:
        """Return what of an attempt is not stored, once nothing of it is under way."""
        async with self._writing:
            with self.lock:
                self._unwritten.pop(sending, None)
                return sending.outbox.take()


def _size(sent: tuple[SentItems, ...]) -> int:
    return sum(len(item) for one in sent for item in one.items) if sent else 0
