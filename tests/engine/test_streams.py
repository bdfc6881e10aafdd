"""Streams end to end: who sends, who reads, and what is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from perdure import (
    ActivityContext,
    BlockingClient,
    Client,
    Handle,
    Item,
    Retry,
    Signal,
    Stream,
    activity,
    inline,
    orchestration,
)
from perdure.errors import (
    InstanceCancelledError,
    InstanceFailedError,
    InstanceNotFoundError,
    InstanceTerminatedError,
    LimitExceededError,
    PayloadError,
    UsageError,
)
from perdure.limits import MAX_ITEM_BYTES, MAX_UNFLUSHED_BYTES
from perdure.model.jobs import StreamAppend
from perdure.repair import before
from tests.engine.stage import PATIENCE, Gate, RunningClock, Stage, options, until, waits_for
from tests.jobs import busywork
from tests.sizes import WITHIN_S

words = Stream("words", str)
more = Stream("more", int)
go = Signal("go", str)
AT_ONCE = Retry(max_attempts=5, first_delay=timedelta(0))
COLD = options(hot_instances=0)


async def late(handle: Handle[Any], stream: Stream[Any] = words) -> list[Any]:
    """Return what a reader sees that comes when all is over."""
    items = [item async for item in handle.stream(stream)]
    assert [item.index for item in items] == sorted({item.index for item in items})
    assert all(item.discards_from is None for item in items)
    return [item.value for item in items]


class LiveReader:
    """A reader that begins early and obeys what it is told."""

    def __init__(self, handle: Handle[Any], stream: Stream[Any] = words, after: int = 0) -> None:
        self.reader = handle.stream(stream, after=after)
        self.shown: list[Item[Any]] = []
        self.seen: list[Any] = []
        """All that ever came."""
        self.task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for item in self.reader:
            self._discard(item.discards_from)
            self.shown.append(item)
            self.seen.append(item.value)
        self._discard(self.reader.discards_from)

    def _discard(self, first: int | None) -> None:
        if first is not None:
            self.shown = [item for item in self.shown if item.index < first]

    @property
    def values(self) -> list[Any]:
        return [item.value for item in self.shown]

    async def over(self) -> list[Any]:
        async with asyncio.timeout(WITHIN_S):
            await self.task
        return self.values


@orchestration
async def counting(count: int) -> int:
    for number in range(count):
        words.send(f"w{number}")
        more.send(number)
        await asyncio.sleep(0)
        if number % 2:
            await asyncio.sleep(0.001)
    words.send("end")
    return count


@pytest.mark.parametrize("hot", [1_000, 0])
async def test_what_an_orchestration_sends_is_stored_once_however_often_it_is_replayed(
    stage: Stage, hot: int
) -> None:
    engine = await stage.engine([counting], options=options(hot_instances=hot))
    handle = await engine.start(counting, 8)
    live = LiveReader(handle)

    assert await handle.result() == 8

    wanted = [*(f"w{number}" for number in range(8)), "end"]
    assert await live.over() == wanted
    assert live.seen == wanted
    assert await late(handle) == wanted
    assert await late(handle, more) == list(range(8))


async def test_it_leaves_no_event(stage: Stage) -> None:
    @orchestration
    async def silent() -> None:
        for number in range(100):
            more.send(number)

    engine = await stage.engine([silent])
    handle = await engine.start(silent)
    await handle.result()

    assert [event.kind for event in await handle.history()] == ["started", "completed"]
    assert await late(handle, more) == list(range(100))


async def test_a_reader_in_another_process_hears_of_items_while_the_activity_runs(
    stage: Stage,
) -> None:
    gate = Gate()

    @activity
    async def write() -> None:
        words.send("one")
        words.send("two")
        await gate.pass_through()
        words.send("three")

    @orchestration
    async def writing() -> None:
        await write()

    engine = await stage.engine([writing, write])
    client = await stage.client()
    await engine.start("w", writing)
    reader = client.handle("w").stream(words)

    async with asyncio.timeout(WITHIN_S):
        assert [(await anext(reader)).value, (await anext(reader)).value] == ["one", "two"]
        gate.opened.set()
        assert [item.value async for item in reader] == ["three"]


async def test_readers_go_on_where_they_were(stage: Stage) -> None:
    engine = await stage.engine([counting])
    handle = await engine.start(counting, 6)
    await handle.result()

    all_items = [item async for item in handle.stream(words)]

    for place, item in enumerate(all_items, 1):
        rest = [one async for one in handle.stream(words, after=item.index)]
        assert rest == all_items[place:]


async def test_what_a_failed_attempt_sent_is_taken_back(stage: Stage) -> None:
    gates = [Gate(), Gate()]

    @activity(retry=AT_ONCE)
    async def write(ctx: ActivityContext) -> int:
        for number in range(3):
            words.send(f"{ctx.attempt}.{number}")
        await words.flush()
        if ctx.attempt <= 2:
            await gates[ctx.attempt - 1].pass_through()
            raise OSError("cable pulled")
        return ctx.attempt

    @orchestration
    async def writing() -> int:
        words.send("begin")
        result = await write()
        words.send("end")
        return result

    engine = await stage.engine([writing, write])
    handle = await engine.start(writing)
    live = LiveReader(handle)
    for attempt, gate in enumerate(gates, 1):
        await until(lambda n=attempt: f"{n}.2" in live.seen)  # type: ignore[misc]
        gate.opened.set()

    assert await handle.result() == 3

    wanted = ["begin", "3.0", "3.1", "3.2", "end"]
    assert await live.over() == wanted
    assert await late(handle) == wanted
    assert live.seen[:7] == ["begin", "1.0", "1.1", "1.2", "2.0", "2.1", "2.2"]


async def test_a_stream_that_the_last_attempt_does_not_use_is_taken_back_too(stage: Stage) -> None:
    @activity(retry=AT_ONCE)
    async def write(ctx: ActivityContext) -> None:
        if ctx.attempt == 1:
            more.send(1)
            await more.flush()
            raise OSError("cable pulled")
        words.send("done")

    @orchestration
    async def writing() -> None:
        await write()

    engine = await stage.engine([writing, write])
    handle = await engine.start(writing)
    await handle.result()

    assert await late(handle) == ["done"]
    assert await late(handle, more) == []
    assert [(one.name, one.items) for one in await handle.streams()] == [("more", 0), ("words", 1)]


@pytest.mark.parametrize("how", ["fail", "cancel", "terminate", "time out"])
async def test_what_an_activity_sent_that_did_not_succeed_is_taken_back_at_the_end(
    stage: Stage, how: str
) -> None:
    gate = Gate()

    @activity
    async def write() -> None:
        words.send("void")
        await words.flush()
        await gate.pass_through()
        raise OSError("cable pulled")

    @orchestration
    async def writing() -> None:
        words.send("begin")
        await asyncio.wait_for(write(), PATIENCE.total_seconds() if how == "time out" else None)

    clock = RunningClock()
    engine = await stage.engine([writing, write], clock=clock)
    handle = await engine.start(writing)
    live = LiveReader(handle)
    await until(lambda: live.values == ["begin", "void"])

    match how:
        case "fail":
            gate.opened.set()
        case "cancel":
            await handle.cancel()
        case "terminate":
            await handle.terminate()
        case _:
            clock.advance(PATIENCE)
    ends = (InstanceFailedError, InstanceCancelledError, InstanceTerminatedError)
    with pytest.raises(ends):
        await handle.result()

    assert await live.over() == ["begin"]
    assert live.reader.discards_from == 2
    assert await late(handle) == ["begin"]


async def test_what_others_sent_meanwhile_comes_again(stage: Stage) -> None:
    gate = Gate()

    @activity(retry=AT_ONCE)
    async def flaky(ctx: ActivityContext) -> None:
        words.send(f"flaky {ctx.attempt}")
        await words.flush()
        if ctx.attempt == 1:
            await gate.pass_through()
            raise OSError("cable pulled")

    @orchestration
    async def both() -> None:
        work = asyncio.ensure_future(flaky())
        words.send(await go.receive())
        await work

    engine = await stage.engine([both, flaky])
    handle = await engine.start(both)
    live = LiveReader(handle)
    await until(lambda: live.values == ["flaky 1"])
    await handle.send(go, "between")
    await until(lambda: live.values == ["flaky 1", "between"])

    gate.opened.set()
    await handle.result()

    assert await live.over() == ["between", "flaky 2"]
    assert await late(handle) == ["between", "flaky 2"]


async def test_a_stream_goes_on_over_continue_as_new(stage: Stage) -> None:
    @orchestration
    async def rounds(left: int) -> None:
        words.send(f"round {left}")
        if left:
            rounds.continue_as_new(left - 1)

    engine = await stage.engine([rounds], options=COLD)
    handle = await engine.start(rounds, 3)
    live = LiveReader(handle)
    await handle.result()

    assert await live.over() == ["round 3", "round 2", "round 1", "round 0"]


async def test_a_reset_takes_back_what_was_sent_behind_the_cut(stage: Stage) -> None:
    is_down = True

    @activity
    async def tell(chapter: int) -> None:
        words.send(f"chapter {chapter}")
        await words.flush()

    @activity
    async def bind() -> str:
        if is_down:
            raise OSError("no glue")
        return "bound"

    @orchestration
    async def book() -> str:
        words.send("begin")
        await tell(1)
        words.send("between")
        await tell(2)
        words.send("to be bound")
        bound = await bind()
        words.send(bound)
        return bound

    engine = await stage.engine([book, tell, bind], options=COLD)
    handle = await engine.start(book)
    with pytest.raises(InstanceFailedError):
        await handle.result()
    told = ["begin", "chapter 1", "between", "chapter 2", "to be bound"]
    assert await late(handle) == told
    all_before = [item async for item in handle.stream(words)]
    is_down = False

    await handle.reset(before(tell))
    live = LiveReader(handle, after=all_before[-1].index)
    assert await handle.result() == "bound"

    assert await late(handle) == [*told, "bound"]
    # The turn that asked for the second chapter is run again, and what it sent comes again.
    assert await live.over() == ["between", "chapter 2", "to be bound", "bound"]
    assert live.shown[0].discards_from == all_before[2].index

    await handle.reset(before(tell, nth=0))
    await handle.result()
    assert await late(handle) == [*told, "bound"]


async def test_threads_inline_calls_and_processes_send(stage: Stage) -> None:
    @activity
    def in_thread() -> None:
        for number in range(50):
            more.send(number)

    async def beside() -> None:
        more.send(100)
        await more.flush()

    @orchestration
    async def sending() -> None:
        await in_thread()
        await inline(beside)
        await busywork.send_items(3)

    engine = await stage.engine([sending, in_thread, busywork.send_items])
    handle = await engine.start(sending)
    await handle.result()

    assert await late(handle, more) == [*range(50), 100]
    assert await late(handle, busywork.spoken) == ["item 0", "item 1", "item 2"]


async def test_a_restart_begins_new_streams_and_ends_old_readers(stage: Stage) -> None:
    @orchestration
    async def short() -> None:
        words.send(await go.receive())

    engine = await stage.engine([short])
    handle = await engine.start(short)
    await waits_for(handle, "signal 'go'")
    await handle.send(go, "first")
    await handle.result()
    await handle.restart()
    live = LiveReader(handle)
    await waits_for(handle, "signal 'go'")
    assert live.values == []

    await handle.send(go, "second")
    assert await live.over() == ["second"]


async def test_a_stream_to_which_nothing_is_sent_ends_with_the_instance(stage: Stage) -> None:
    @orchestration
    async def waiting() -> None:
        await go.receive()

    engine = await stage.engine([waiting])
    handle = await engine.start(waiting)
    live = LiveReader(handle, Stream("never", int))
    await waits_for(handle, "signal 'go'")

    await handle.send(go, "on")

    assert await live.over() == []
    assert await handle.streams() == []


async def test_a_reader_of_an_instance_that_is_not_there_is_told(stage: Stage) -> None:
    client = await stage.client()

    with pytest.raises(InstanceNotFoundError):
        await anext(client.handle("nobody").stream(words))
    with pytest.raises(InstanceNotFoundError):
        await client.handle("nobody").streams()


async def test_a_reader_is_told_that_its_instance_was_deleted(stage: Stage) -> None:
    @orchestration
    async def waiting() -> None:
        words.send("here")
        await go.receive()

    engine = await stage.engine([waiting])
    handle = await engine.start(waiting)
    reader = handle.stream(words)
    assert (await anext(reader)).value == "here"
    reading = asyncio.ensure_future(anext(reader))  # type: ignore[arg-type, unused-ignore]

    await handle.delete(force=True)

    with pytest.raises(InstanceNotFoundError):
        await asyncio.wait_for(reading, WITHIN_S)


async def test_callers_that_wait_iterate(stage: Stage) -> None:
    engine = await stage.engine([counting])
    handle = await engine.start(counting, 3)
    await handle.result()

    def read() -> tuple[list[str], list[str]]:
        with BlockingClient(stage.url) as client:
            there = client.handle(handle.instance_id)
            names = [one.name for one in there.streams()]
            return [item.value for item in there.stream(words)], names

    assert await asyncio.to_thread(read) == (["w0", "w1", "w2", "end"], ["more", "words"])


@dataclass
class Place:
    """A typed item."""

    x: int
    y: int


async def test_items_are_of_the_streams_type(stage: Stage) -> None:
    places = Stream("places", Place)

    @orchestration
    async def walking() -> str:
        places.send(Place(1, 2))
        try:
            places.send("here")  # type: ignore[arg-type]
        except PayloadError as error:
            return str(error)
        return ""

    engine = await stage.engine([walking])
    handle = await engine.start(walking)

    assert "stream 'places'" in await handle.result()
    assert await late(handle, places) == [Place(1, 2)]
    with pytest.raises(PayloadError):
        await late(handle, Stream("places", int))


async def test_what_cannot_be_sent_is_refused_with_a_sentence(stage: Stage) -> None:
    @orchestration
    async def large() -> None:
        words.send("x" * MAX_ITEM_BYTES)

    @orchestration
    async def flushing() -> None:
        await words.flush()

    engine = await stage.engine([large, flushing])

    with pytest.raises(InstanceFailedError, match="the size in bytes of an item"):
        await (await engine.start(large)).result()
    with pytest.raises(InstanceFailedError, match=r"flush\(\) works inside an async activity"):
        await (await engine.start(flushing)).result()
    with pytest.raises(UsageError, match="nothing can be sent here"):
        words.send("outside")
    with pytest.raises(UsageError, match="works inside an async activity"):
        await words.flush()
    handle: Handle[Any] = engine.handle("x")
    with pytest.raises(UsageError, match="give it the Stream itself"):
        handle.stream("words")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="after"):
        handle.stream(words, after=-1)
    with pytest.raises(UsageError, match="after must be a whole number of at most"):
        handle.stream(words, after=2**63)


async def test_too_much_at_once_is_refused_in_a_replay_too(stage: Stage) -> None:
    @orchestration
    async def flooding() -> int:
        sent = 0
        try:
            while True:
                words.send("x" * 60_000)
                sent += 1
        except LimitExceededError:
            pass
        await asyncio.sleep(0.001)
        words.send("and on")
        return sent

    engine = await stage.engine([flooding], options=COLD)
    handle = await engine.start(flooding)

    sent = await handle.result()
    assert sent == MAX_UNFLUSHED_BYTES // 60_002
    assert len(await late(handle)) == sent + 1


async def test_an_activity_that_outruns_the_store_is_refused(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    @activity
    async def flood() -> int:
        sent = 0
        try:
            while True:
                words.send("x" * 60_000)  # Never awaits, so nothing is stored meanwhile.
                sent += 1
        except LimitExceededError:
            await words.flush()
        words.send("on")
        return sent

    @orchestration
    async def flooding() -> int:
        return await flood()

    stage.allow_log("held up the loop|holds up")
    engine = await stage.engine([flooding, flood])
    handle = await engine.start(flooding)

    sent = await handle.result()
    assert len(await late(handle)) == sent + 1


async def _values(items: AsyncIterator[Item[Any]] | Iterable[Item[Any]]) -> list[Any]:
    return [item.value async for item in items]  # type: ignore[union-attr]


async def test_what_is_being_stored_is_stored_once_though_a_caller_of_flush_gives_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another activity sends is under way too when a flush ends by a time limit."""
    stored, answer = asyncio.Event(), asyncio.Event()

    @activity
    async def impatient() -> str:
        words.send("once")
        flushing = asyncio.create_task(words.flush())
        async with asyncio.timeout(WITHIN_S):
            await stored.wait()
        flushing.cancel()
        asyncio.get_running_loop().call_soon(answer.set)
        await asyncio.wait([flushing])
        return "done"

    @orchestration
    async def sends() -> str:
        return await impatient()

    engine = await stage.engine([sends, impatient])
    append = engine._core.store.streams.append_streams

    async def slowly(appends: Sequence[StreamAppend]) -> list[bool]:
        taken = await append(appends)
        stored.set()
        await answer.wait()
        return taken

    monkeypatch.setattr(engine._core.store.streams, "append_streams", slowly)
    handle = await engine.start("s", sends)

    assert await handle.result() == "done"
    assert await late(handle) == ["once"]


async def test_many_readers_in_one_client_see_the_same(stage: Stage) -> None:
    engine = await stage.engine([counting])
    other: Client = await stage.client()
    handle = await engine.start("many", counting, 10)

    readers = [handle.stream(words) for _ in range(20)]
    readers += [other.handle("many").stream(words) for _ in range(20)]
    found = await asyncio.wait_for(asyncio.gather(*map(_values, readers)), WITHIN_S)

    assert all(values == found[0] for values in found)
    assert len(found[0]) == 11
