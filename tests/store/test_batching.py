"""Group commit: sharing, halving, patience, trouble, and its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from itertools import chain
from typing import Any

import pytest

from perdure.errors import (
    RowError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
    UsageError,
)
from perdure.store import batching
from perdure.store.batching import LATER, Batcher
from perdure.store.counters import StoreCounters


class Recorder:
    """Executes by remembering; a gate holds the writing thread while a test arranges things."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.fail: Callable[[Sequence[Any]], None] = lambda operations: None

    def execute(self, operations: Sequence[Any]) -> list[Any]:
        self.entered.set()
        assert self.gate.wait(10)
        self.fail(operations)
        self.batches.append(list(operations))
        return [f"did {operation}" for operation in operations]


@asynccontextmanager
async def running(recorder: Recorder) -> AsyncIterator[Batcher]:
    batcher = Batcher(
        recorder.execute,
        exclusive=nullcontext(),
        finish=lambda: None,
        counters=StoreCounters(),
        name="test",
    )
    batcher.start()
    try:
        yield batcher
    finally:
        recorder.gate.set()
        await batcher.close()


async def _entered(recorder: Recorder) -> None:
    await asyncio.to_thread(recorder.entered.wait, 10)


async def test_at_low_load_a_transaction_holds_one_operation() -> None:
    recorder = Recorder()
    async with running(recorder) as batcher:
        assert await batcher.submit(["a"]) == ["did a"]
        assert await batcher.submit(["b"]) == ["did b"]

    assert recorder.batches == [["a"], ["b"]]


async def test_whatever_waits_shares_the_next_transaction() -> None:
    recorder = Recorder()
    async with running(recorder) as batcher:
        recorder.gate.clear()
        first = asyncio.create_task(batcher.submit(["first"]))
        await _entered(recorder)
        rest = [asyncio.create_task(batcher.submit([n, n])) for n in "abc"]
        await asyncio.sleep(0)
        recorder.gate.set()
        await asyncio.gather(first, *rest)

    assert recorder.batches == [["first"], ["a", "a", "b", "b", "c", "c"]]


async def test_a_bad_value_is_found_by_halving_and_harms_nobody_else() -> None:
    recorder = Recorder()

    def refuse(operations: Sequence[Any]) -> None:
        if 5 in operations:
            raise RowError("no fives")

    recorder.fail = refuse
    async with running(recorder) as batcher:
        recorder.gate.clear()
        calls = [asyncio.create_task(batcher.submit([number])) for number in range(8)]
        await asyncio.sleep(0)
        recorder.gate.set()
        results = await asyncio.gather(*calls, return_exceptions=True)

    assert isinstance(results[5], RowError)
    assert [r for n, r in enumerate(results) if n != 5] == [
        [f"did {n}"] for n in range(8) if n != 5
    ]


async def test_a_call_with_a_bad_value_raises_after_the_rest_of_it_was_written() -> None:
    recorder = Recorder()

    def refuse(operations: Sequence[Any]) -> None:
        if "bad" in operations:
            raise RowError("bad")

    recorder.fail = refuse
    async with running(recorder) as batcher:
        with pytest.raises(RowError):
            await batcher.submit(["a", "bad", "b"])

    assert sorted(chain(*recorder.batches)) == ["a", "b"]


async def test_a_missing_resource_is_waited_for() -> None:
    recorder = Recorder()
    troubles = iter([StoreUnavailableError("full")] * 3)

    def be_full(operations: Sequence[Any]) -> None:
        for trouble in troubles:
            raise trouble

    recorder.fail = be_full
    async with running(recorder) as batcher:
        assert await batcher.submit(["a"]) == ["did a"]
        assert batcher._counters.retries == 3

    assert recorder.batches == [["a"]]


async def test_a_half_written_call_is_finished_after_the_trouble() -> None:
    recorder = Recorder()
    seen: list[list[Any]] = []

    def fail(operations: Sequence[Any]) -> None:
        seen.append(list(operations))
        if "bad" in operations:
            raise RowError("bad")
        if operations == ["c"] and seen.count(["c"]) == 1:
            raise StoreUnavailableError("full")

    recorder.fail = fail
    async with running(recorder) as batcher:
        with pytest.raises(RowError):
            await batcher.submit(["a", "bad", "c"], patience_s=60)

    assert sorted(chain(*recorder.batches)) == ["a", "c"]


async def test_patience_that_ran_out_says_what_is_wrong_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "FIRST_PAUSE_S", 0.001)
    recorder = Recorder()
    is_full = True

    def be_full(operations: Sequence[Any]) -> None:
        if is_full:
            raise StoreUnavailableError("the disk is full")

    recorder.fail = be_full
    async with running(recorder) as batcher:
        patient = asyncio.create_task(batcher.submit(["patient"]))
        with pytest.raises(StoreUnavailableError, match="the disk is full"):
            await batcher.submit(["impatient"], patience_s=0.02)
        is_full = False
        assert await patient == ["did patient"]

    assert recorder.batches == [["patient"]]


async def test_patience_that_runs_out_during_a_try_counts_after_it() -> None:
    recorder = Recorder()

    def be_full(operations: Sequence[Any]) -> None:
        raise StoreUnavailableError("the disk is full")

    recorder.fail = be_full
    async with running(recorder) as batcher:
        recorder.gate.clear()
        call = asyncio.create_task(batcher.submit(["a"], patience_s=60))
        await _entered(recorder)
        batcher._lose_patience(batcher._backlog[0], 60)
        recorder.gate.set()

        with pytest.raises(StoreUnavailableError, match="the disk is full"):
            await call


async def test_patience_that_runs_out_while_others_have_the_lock_counts_after_the_try() -> None:
    recorder = Recorder()
    execute = recorder.execute

    def put_off(operations: Sequence[Any]) -> list[Any]:
        execute(operations)
        return [LATER for _ in operations]

    recorder.execute = put_off  # type: ignore[method-assign]  # as a store whose rows are locked
    async with running(recorder) as batcher:
        recorder.gate.clear()
        call = asyncio.create_task(batcher.submit(["a"], patience_s=60))
        await _entered(recorder)
        batcher._lose_patience(batcher._backlog[0], 60)
        recorder.gate.set()

        with pytest.raises(StoreUnavailableError, match="has locked it"):
            await call


async def test_a_transaction_that_has_begun_is_never_given_up() -> None:
    recorder = Recorder()
    async with running(recorder) as batcher:
        recorder.gate.clear()
        call = asyncio.create_task(batcher.submit(["a"], patience_s=60))
        await _entered(recorder)
        batcher._lose_patience(batcher._backlog[0], 60)
        recorder.gate.set()

        assert await call == ["did a"]


async def test_a_damaged_file_fails_everybody_at_once() -> None:
    recorder = Recorder()

    def be_broken(operations: Sequence[Any]) -> None:
        raise StoreCorruptError("damaged")

    recorder.fail = be_broken
    async with running(recorder) as batcher:
        with pytest.raises(StoreCorruptError):
            await batcher.submit(["a", "b"])
        assert batcher._counters.halvings == 0


async def test_a_cancelled_caller_does_not_disturb_the_others() -> None:
    recorder = Recorder()
    async with running(recorder) as batcher:
        recorder.gate.clear()
        cancelled = asyncio.create_task(batcher.submit(["cancelled"]))
        other = asyncio.create_task(batcher.submit(["other"]))
        await _entered(recorder)
        cancelled.cancel()
        recorder.gate.set()

        assert await other == ["did other"]
        with pytest.raises(asyncio.CancelledError):
            await cancelled


async def test_results_come_back_to_the_loop_that_asked() -> None:
    recorder = Recorder()
    async with running(recorder) as batcher:
        here, there = await asyncio.gather(
            batcher.submit(["here"]),
            asyncio.to_thread(lambda: asyncio.run(batcher.submit(["there"]))),
        )

    assert (here, there) == (["did here"], ["did there"])


async def test_closing_finishes_what_was_handed_in() -> None:
    recorder = Recorder()
    async with running(recorder) as batcher:
        recorder.gate.clear()
        calls = [asyncio.create_task(batcher.submit([number])) for number in range(5)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        recorder.gate.set()
        await closing

        assert await asyncio.gather(*calls) == [[f"did {number}"] for number in range(5)]
        with pytest.raises(StoreError):
            await batcher.submit(["late"])


async def test_closing_in_trouble_ends_and_tells_those_who_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "CLOSE_WITHIN_S", 0.05)
    recorder = Recorder()

    def be_full(operations: Sequence[Any]) -> None:
        raise StoreUnavailableError("the disk is full")

    recorder.fail = be_full
    async with running(recorder) as batcher:
        call = asyncio.create_task(batcher.submit(["a"]))
        await _entered(recorder)
        await batcher.close()

        with pytest.raises(StoreUnavailableError, match="the disk is full"):
            await call


async def test_closing_while_another_process_does_not_move_ends_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "CLOSE_WITHIN_S", 0.05)
    monkeypatch.setattr(batching, "MAX_PAUSE_S", 0.05)
    recorder = Recorder()
    stuck, finished = threading.Event(), threading.Event()

    class StuckLock(nullcontext[None]):
        def __enter__(self) -> None:
            assert stuck.wait(10)

    batcher = Batcher(
        recorder.execute,
        exclusive=StuckLock(),
        finish=finished.set,
        counters=StoreCounters(),
        name="test",
    )
    batcher.start()
    call = asyncio.create_task(batcher.submit(["a"]))
    await asyncio.sleep(0)

    await batcher.close()

    with pytest.raises(StoreUnavailableError):
        await call
    stuck.set()
    assert await asyncio.to_thread(finished.wait, 10)
    assert recorder.batches == []


# ------------------------------------------------------- each operation by itself


async def test_each_operation_of_a_call_has_its_own_answer_or_error() -> None:
    recorder = Recorder()

    def refuse(operations: Sequence[Any]) -> None:
        if "bad" in operations:
            raise RowError("bad")
        if "odd" in operations:
            raise StoreError("odd")

    recorder.fail = refuse
    async with running(recorder) as batcher:
        a, bad, odd, b = await batcher.hand_in(["a", "bad", "odd", "b"])

    assert (a, b) == ("did a", "did b")
    assert isinstance(bad, RowError)
    assert isinstance(odd, StoreError)
    assert str(odd) == "odd"


async def test_patience_ends_for_what_was_never_tried_while_something_else_is_unsure() -> None:
    recorder = Recorder()

    def lose(operations: Sequence[Any]) -> None:
        error = StoreUnavailableError("the answer was lost")
        error.unsure = tuple(one for one in operations if one == "unsure")
        raise error

    recorder.fail = lose
    async with running(recorder) as batcher:
        unsure = asyncio.create_task(batcher.submit(["unsure"], patience_s=0.01))
        with pytest.raises(StoreUnavailableError, match="nothing was written"):
            await batcher.submit(["late"], patience_s=0.01)
        assert not unsure.done()
        recorder.fail = lambda operations: None
        assert await unsure == ["did unsure"]


class FailingLock:
    """A lock that cannot be had at first."""

    def __init__(self, error: BaseException, times: int) -> None:
        self._error = error
        self._left = times

    def __enter__(self) -> None:
        if self._left:
            self._left -= 1
            raise self._error

    def __exit__(self, *_: object) -> None:
        pass


def locked_batcher(recorder: Recorder, lock: FailingLock) -> Batcher:
    return Batcher(
        recorder.execute, exclusive=lock, finish=lambda: None, counters=StoreCounters(), name="test"
    )


async def test_a_lock_that_fails_in_an_unforeseen_way_is_tried_again() -> None:
    recorder = Recorder()
    batcher = locked_batcher(recorder, FailingLock(OSError("no locks left"), 2))
    batcher.start()

    assert await batcher.submit(["a"]) == ["did a"]

    await batcher.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_nobody_waits_for_a_thread_that_has_ended() -> None:
    recorder = Recorder()
    batcher = locked_batcher(recorder, FailingLock(SystemExit(3), 1))
    batcher.start()

    with pytest.raises(StoreError, match="has ended"):
        await batcher.submit(["a"])
    with pytest.raises(StoreError, match="has ended"):
        await batcher.submit(["b"])

    assert "has ended (SystemExit)" in str(batcher.trouble)
    await batcher.close()


class DeafLoop:
    """Takes no calls from other threads, as the loop of an orchestration."""

    def __init__(self) -> None:
        self.was_asked = threading.Event()

    def get_debug(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]  # it only keeps it

    def call_soon_threadsafe(self, *_: object) -> None:
        self.was_asked.set()
        raise UsageError("not here")


async def test_a_caller_that_cannot_be_told_costs_the_others_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = Recorder()
    async with running(recorder) as batcher:
        here = asyncio.get_running_loop()
        deaf = DeafLoop()
        asyncio._set_running_loop(deaf)  # type: ignore[arg-type]  # what of it is used is there
        try:
            unheard = batcher.hand_in(["a"])
        finally:
            asyncio._set_running_loop(here)
        assert await asyncio.to_thread(deaf.was_asked.wait, 10)

        assert await batcher.submit(["b"]) == ["did b"]
        assert not unheard.done()

    assert "a caller's loop cannot be told of an answer: UsageError" in caplog.text
