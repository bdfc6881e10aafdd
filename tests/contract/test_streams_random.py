"""Whatever fails in whichever order: a late reader sees what the winning attempts sent and what the
orchestration did, in the order of commits, and a live reader that takes back what it is told to
take back ends with the same."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from perdure.client.reading.item_reader import ItemReader
from perdure.codec import value_codec
from perdure.model.instances import Stamp
from perdure.model.jobs import ClaimedJob, JobEnd, StreamAppend
from perdure.model.streams import SentItems, StreamPage
from perdure.store.base import Store
from tests.contract.store_values import (
    COMPLETED,
    CONTINUED,
    STARTED,
    accepted,
    begun,
    claim_jobs,
    continuation,
    job,
    latest,
    next_turn,
    outcome,
    result_of,
)

STEPS = 60
STREAMS = ("s", "t")


class Shelf:
    """A stream in a store, as readers want it."""

    def __init__(self, store: Store, stream: str) -> None:
        self._store = store
        self._stream = stream

    async def read(self, after: int) -> StreamPage:
        while True:
            page = await self._store.streams.read_stream("i", self._stream, after=after, limit=2)
            assert page is not None
            if not page.has_void:
                return page
            await self._store.streams.take_back("i")

    async def wait(self, after: int) -> None:
        raise AssertionError("it does not wait")


@dataclass
class Reader:
    """Reads now and then, takes back what it must, and is sometimes begun again."""

    store: Store
    stream: str
    shown: list[tuple[int, int]] = field(default_factory=list)
    last: int = 0

    async def read(self, most: int | None = None) -> None:
        codec = value_codec(int)
        reader: ItemReader[int] = ItemReader(Shelf(self.store, self.stream), codec, self.last)
        reader.waits = False
        read = 0
        async for item in reader:
            self._discard(item.discards_from)
            self.shown.append((item.index, item.value))
            assert item.index > self.last
            self.last = item.index
            read += 1
            if read == most:
                return
        self._discard(reader.discards_from)

    def _discard(self, first: int | None) -> None:
        if first is not None:
            self.shown = [one for one in self.shown if one[0] < first]

    @property
    def values(self) -> list[int]:
        return [value for _, value in self.shown]


class Play:
    """What happens to one instance, and what must come of it."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.dice = random.Random(seed)
        self.sent: dict[str, list[tuple[int, int]]] = {stream: [] for stream in STREAMS}
        """Values in the order of commits, each with the token of the attempt; 0: the turn's."""
        self.won: set[int] = {0}
        self.running: list[ClaimedJob] = []
        self.stored: set[int] = set()
        self.stamp: Stamp
        self.seq = 0
        self.next_value = 0

    def words(self, token: int) -> tuple[SentItems, ...]:
        """Return something to send, and remember it as sent."""
        found = []
        for stream in self.dice.sample(STREAMS, self.dice.randint(1, 2)):
            items = []
            for _ in range(self.dice.randint(1, 3)):
                self.next_value += 1
                self.sent[stream].append((self.next_value, token))
                items.append(str(self.next_value).encode())
            found.append(SentItems(stream, tuple(items)))
        return tuple(found)

    async def turn(self, **fields: Any) -> None:
        self.stamp = await latest(self.store)
        turn = next_turn("i", self.stamp, sent=self.words(0), **fields)
        await accepted(self.store, turn)

    async def step(self) -> None:
        do = self.dice.choice(
            [self.turn, self.call, self.append, self.append, self.append, self.end, self.end]
        )
        await do()

    async def call(self) -> None:
        self.seq += 1
        await self.turn(jobs=(job(1_000 + self.seq),))
        self.running += await claim_jobs(self.store)

    async def append(self) -> None:
        if not self.running:
            return
        work = self.dice.choice(self.running)
        is_first = work.attempt > 1 and work.token not in self.stored and self.dice.random() < 0.7
        self.stored.add(work.token)
        append = StreamAppend(
            work.key, work.token, work.attempt, self.words(work.token), is_first=is_first
        )
        assert await self.store.streams.append_streams([append]) == [True]

    async def end(self) -> None:
        if not self.running:
            return
        work = self.running.pop(self.dice.randrange(len(self.running)))
        match self.dice.choice(["fail", "win", "win in a turn", "cancel", "lose", "continue"]):
            case "fail" | "lose":
                end = JobEnd(key=work.key, token=work.token, retry_at_ms=0)
                await self.store.end_jobs([end])
                self.running += await claim_jobs(self.store)
            case "cancel":
                await self.turn(jobs_gone=(work.key.seq,))
            case "continue":
                await self.turn(events=(CONTINUED,), continued=continuation())
                self.running = []
            case "win":
                await self.store.end_jobs([self.won_by(work)])
            case "win in a turn":
                self.stamp = await latest(self.store)
                end = self.won_by(work)
                turn = next_turn("i", self.stamp, job_ends=(end,), sent=self.words(0))
                await accepted(self.store, turn)

    def won_by(self, work: ClaimedJob) -> JobEnd:
        self.won.add(work.token)
        end = result_of(work.key, work.token)
        sent = self.words(work.token) if self.dice.random() < 0.7 else ()
        return JobEnd(
            key=end.key, token=end.token, kind=end.kind, body=end.body, sent=sent, attempt=1
        )

    def wanted(self, stream: str) -> list[int]:
        return [value for value, token in self.sent[stream] if token in self.won]


@pytest.mark.parametrize("seed", range(12))
async def test_late_and_live_readers_see_what_won(store: Store, seed: int) -> None:
    await begun(store)
    play = Play(store, seed)
    readers = [Reader(store, stream) for stream in STREAMS for _ in range(3)]
    for _ in range(STEPS):
        await play.step()
        if play.dice.random() < 0.4:
            await play.dice.choice(readers).read(play.dice.choice([None, 1, 2]))

    stamp = await latest(store)
    await accepted(store, next_turn("i", stamp, events=(STARTED, COMPLETED), outcome=outcome()))

    for reader in readers:
        await reader.read()
        late = Reader(store, reader.stream)
        await late.read()
        assert late.values == play.wanted(reader.stream)
        assert reader.values == late.values
