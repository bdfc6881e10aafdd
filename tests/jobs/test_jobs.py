from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from perdure.authoring.activity import Activity, activity
from perdure.authoring.activity_context import ActivityContext, activity_context
from perdure.authoring.failures import revive_activity_error
from perdure.authoring.orchestration import orchestration
from perdure.authoring.registry import activity_key, inline_key
from perdure.authoring.scope import InlineRequest, Place
from perdure.clock import to_datetime
from perdure.codec import JSON
from perdure.errors import DefinitionError, StoreUnavailableError, UsageError
from perdure.jobs.slots import SlotKind
from perdure.model.histories.events import ActivityCompleted, ActivityFailed, Failure
from perdure.model.jobs import MAX_FAILURES_KEPT, JobFailures, JobKey
from perdure.model.options import Retry, WorkerOptions
from tests.jobs.job_harness import (
    INSTANCE,
    NO_GRACE,
    Bench,
    again,
    bench,
    event_of,
    failures_of,
    last_failure,
    lease_of,
    result_of,
    until,
)
from tests.sizes import WITHIN_S

SHORT = timedelta(milliseconds=20)
BEGINS_WITHIN = timedelta(seconds=0.5)
"""A thread has begun by then, also on a machine that is busy."""
RETRY = Retry(max_attempts=3, first_delay=timedelta(seconds=1), jitter=0.5)


@activity
async def double(value: int) -> int:
    return 2 * value


@activity
def double_plainly(value: int) -> int:
    return 2 * value


@activity(retry=RETRY)
async def refuse(value: int) -> int:
    raise ValueError(f"no {value}")


@orchestration
async def parent() -> int:
    return 1


INLINE = inline_key("parent", parent.version)


class Gate:
    """Code that waits for the test, on the loop or in a thread, and can be seen to."""

    def __init__(self) -> None:
        self.entered: list[int] = []
        self.let_go = threading.Event()

        @activity
        async def hold(value: int) -> int:
            self.entered.append(value)
            await until(self.let_go.is_set)
            return value

        @activity(timeout=SHORT)
        async def hold_briefly(value: int) -> int:
            self.entered.append(value)
            await asyncio.Event().wait()
            return value

        @activity
        def block(value: int) -> int:
            self.entered.append(value)
            self.let_go.wait()
            return value

        @activity(timeout=BEGINS_WITHIN)
        def block_briefly(value: int) -> int:
            self.entered.append(value)
            self.let_go.wait()
            return value

        @activity
        async def cling(value: int) -> int:
            self.entered.append(value)
            while not self.let_go.is_set():
                try:
                    await until(self.let_go.is_set)
                except asyncio.CancelledError:
                    self.entered.append(-value)
            return value

        self.hold = hold
        self.hold_briefly = hold_briefly
        self.block = block
        self.block_briefly = block_briefly
        self.cling = cling

    @property
    def all(self) -> tuple[Activity[..., int], ...]:
        """Everything that can be made to wait."""
        return self.hold, self.hold_briefly, self.block, self.block_briefly, self.cling


@asynccontextmanager
async def gated(*others: Activity[..., Any], **limits: Any) -> AsyncIterator[tuple[Gate, Bench]]:
    """Make a gate and a runner for it; both open in the end."""
    gate = Gate()
    options = WorkerOptions(**{"cancel_grace": SHORT} | limits)
    async with bench(*gate.all, *others, options=options) as made:
        try:
            yield gate, made
        finally:
            gate.let_go.set()


# ------------------------------------------------------------------- results


@pytest.mark.parametrize("doubling", [double, double_plainly], ids=["async", "sync"])
async def test_a_result_is_reported_with_the_earlier_failures(
    doubling: Activity[[int], int],
) -> None:
    earlier = (Failure("ValueError", "first"),)
    async with bench(doubling) as made:
        end = await made.end_of(doubling, 21, attempt=2, failures=JobFailures(1, earlier))
        now_ms = made.clock()

    assert event_of(end) == ActivityCompleted(
        schedule=1, result=msgspec.Raw(b"42"), failures=earlier, began_ms=now_ms
    )
    assert (end.token, end.retry_at_ms) == (7, None)


@pytest.mark.parametrize(("waited_ms", "is_told"), [(0, False), (99, False), (100, True)])
async def test_when_an_attempt_began_is_recorded_only_if_its_job_had_waited(
    waited_ms: int, is_told: bool
) -> None:
    async with bench(double) as made:
        created_ms = made.clock() - waited_ms
        event = event_of(await made.end_of(double, 21, created_ms=created_ms))
        now_ms = made.clock()

    assert isinstance(event, ActivityCompleted)
    assert event.began_ms == (now_ms if is_told else 0)


async def test_a_failure_says_when_its_attempt_began() -> None:
    @activity
    async def slow_to_fail() -> None:
        made.clock.advance(timedelta(milliseconds=40))
        raise OSError("no route")

    async with bench(slow_to_fail) as made:
        began_ms = made.clock()
        event = event_of(await made.end_of(slow_to_fail))

    assert isinstance(event, ActivityFailed)
    assert [(one.began_ms, one.at_ms) for one in event.failures] == [(began_ms, began_ms + 40)]


async def test_a_plain_function_runs_in_a_named_thread() -> None:
    @activity
    def whereabouts() -> str:
        return threading.current_thread().name

    async with bench(whereabouts) as made:
        end = await made.end_of(whereabouts)

    assert result_of(end) == "perdure-activity-1"


async def test_a_coroutine_returned_by_a_plain_function_is_awaited_on_the_loop() -> None:
    @activity
    def start(value: int) -> Awaitable[int]:
        return double.fn(value)  # type: ignore[no-any-return]  # fn is any callable

    async with bench(start) as made:
        end = await made.end_of(start, 4)

    assert result_of(end) == 8


async def test_many_jobs_are_each_reported_once() -> None:
    async with bench(double) as made:
        jobs = [made.run(double, number) for number in range(2_000)]
        ended = [await made.ends.get() for _ in jobs]

    assert sorted(job.key.seq for job, _ in ended) == [job.key.seq for job in jobs]
    assert made.ends.empty()
    assert made.runner.counts.completed == 2_000


# ------------------------------------------------------------------ failures


async def test_a_failure_goes_back_with_the_delay_of_its_policy() -> None:
    async with bench(refuse, chance=lambda: 0.5) as made:
        first = await made.end_of(refuse, 5)
        assert first.failure is not None
        earlier = JobFailures().plus(first.failure)
        second = await made.end_of(refuse, 5, attempt=2, failures=earlier)

        now_ms = made.clock()

    assert first.retry_at_ms == now_ms + 1_250
    assert second.retry_at_ms == now_ms + 2_500
    assert (first.kind, first.refund) == (None, False)
    assert first.failure is not None
    assert (first.failure.type_name, first.failure.message) == ("ValueError", "no 5")
    assert first.failure.at_ms == now_ms
    assert "raise ValueError" in first.failure.traceback_text


async def test_the_last_failure_ends_the_job_with_every_attempt() -> None:
    async with bench(refuse) as made:
        job = made.run(refuse, 5)
        for _ in range(2):
            job = again(job, await made.next_end())
            made.clock.advance(timedelta(seconds=1))
            made.runner.run(job)
        end = await made.next_end()

    assert end.retry_at_ms is None
    failures = failures_of(end)
    assert [failure.type_name for failure in failures] == ["ValueError"] * 3
    assert len({failure.at_ms for failure in failures}) == 3
    assert (made.runner.counts.retried, made.runner.counts.failed) == (2, 1)


async def test_an_activity_without_a_policy_fails_at_once() -> None:
    @activity
    async def fail() -> None:
        raise RuntimeError("once")

    async with bench(fail) as made:
        end = await made.end_of(fail)

    assert [failure.message for failure in failures_of(end)] == ["once"]


@pytest.mark.parametrize(
    "named", [LookupError, "LookupError", KeyError], ids=["base", "text", "own"]
)
async def test_an_exception_that_is_not_retried_ends_the_job(
    named: type[Exception] | str,
) -> None:
    @activity(retry=Retry(no_retry=[named]))
    async def look() -> None:
        raise KeyError("nowhere")

    async with bench(look) as made:
        end = await made.end_of(look)

    assert failures_of(end)[0].type_name == "KeyError"


async def test_a_policy_without_a_limit_never_gives_up() -> None:
    @activity(retry=Retry(max_attempts=None, max_delay=timedelta(minutes=1)))
    async def fail() -> None:
        raise RuntimeError("again")

    earlier = JobFailures(499, (Failure("RuntimeError", "0"),))
    async with bench(fail) as made:
        end = await made.end_of(fail, attempt=500, failures=earlier)

    assert end.retry_at_ms == made.clock() + 60_000


async def test_more_attempts_than_failures_are_kept_still_come_to_an_end() -> None:
    @activity(retry=Retry(max_attempts=50))
    async def fail() -> None:
        raise RuntimeError("again")

    kept = tuple(Failure("RuntimeError", str(number)) for number in range(MAX_FAILURES_KEPT))
    async with bench(fail) as made:
        almost = await made.end_of(fail, attempt=49, failures=JobFailures(48, kept))
        last = await made.end_of(fail, attempt=50, failures=JobFailures(49, kept))

    assert almost.retry_at_ms is not None
    failures = failures_of(last)
    assert len(failures) == MAX_FAILURES_KEPT
    assert [failure.message for failure in failures[:2]] == ["0", "2"]


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


class LockedError(Exception):
    def __init__(self) -> None:
        super().__init__("locked")
        self.lock = threading.Lock()


def dive() -> None:
    dive()


def throw(error: BaseException) -> None:
    raise error


WEIRD: dict[str, tuple[Callable[[], object], str]] = {
    "exit": (lambda: sys.exit(3), "SystemExit"),
    "keyboard interrupt": (lambda: throw(KeyboardInterrupt()), "KeyboardInterrupt"),
    "generator exit": (lambda: throw(GeneratorExit()), "GeneratorExit"),
    "stop iteration": (lambda: throw(StopIteration(1)), ""),
    "cancelled by itself": (lambda: throw(asyncio.CancelledError()), "CancelledError"),
    "unspeakable": (lambda: throw(UnspeakableError()), "UnspeakableError"),
    "unpicklable": (lambda: throw(LockedError()), "LockedError"),
    "group": (lambda: throw(ExceptionGroup("many", [KeyError("a"), OSError()])), "ExceptionGroup"),
    "recursion": (dive, "RecursionError"),
    "evil name": (lambda: throw(type("E", (Exception,), {"__qualname__": "\ud800"})()), "?"),
    "memory": (lambda: throw(MemoryError()), "MemoryError"),
}


@pytest.mark.parametrize("weird", WEIRD)
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_whatever_code_raises_is_a_recorded_failure(kind: str, weird: str) -> None:
    action, type_name = WEIRD[weird]

    @activity(name="odd", raises=[LockedError])
    async def odd_async() -> None:
        await asyncio.sleep(0)
        action()

    @activity(name="odd", raises=[LockedError])
    def odd_sync() -> None:
        action()

    odd = odd_async if kind == "async" else odd_sync
    async with bench(odd, double) as made:
        end = await made.end_of(odd)

        assert type_name in last_failure(end).type_name
        assert result_of(await made.end_of(double, 2)) == 4, "the loop goes on"


async def test_an_activity_that_cancels_its_own_task_fails() -> None:
    @activity
    async def cancel_myself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async with bench(cancel_myself) as made:
        end = await made.end_of(cancel_myself)

    assert last_failure(end).type_name == "CancelledError"


def pressed() -> None:
    """Have Ctrl-C arrive at this very place."""
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        pass


def raises_at_once(_: int, __: object) -> None:
    raise KeyboardInterrupt


HANDLERS: dict[str, Any] = {
    "python's own": signal.default_int_handler,
    "a function": raises_at_once,
    "a partial": partial(raises_at_once),
}


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_ctrl_c_on_the_main_thread_goes_through_and_gives_the_job_back(
    handler: str,
) -> None:
    @activity
    async def interrupt() -> None:
        pressed()

    before = signal.signal(signal.SIGINT, HANDLERS[handler])
    loop = asyncio.new_event_loop()
    seen = []

    async def main() -> None:
        async with bench(interrupt) as made:
            seen.append(await made.end_of(interrupt))

    task = loop.create_task(main())
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(task)
    finally:
        signal.signal(signal.SIGINT, before)
    loop.run_until_complete(task)
    loop.close()

    assert [(end.kind, end.failure, end.refund) for end in seen] == [(None, None, False)]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_result_that_cannot_be_stored_is_never_retried(kind: str) -> None:
    @activity(name="odd", retry=RETRY)
    async def odd_async() -> int:
        return "text"  # type: ignore[return-value]  # that is the point

    @activity(name="odd", retry=RETRY)
    def odd_sync() -> int:
        return "text"  # type: ignore[return-value]  # that is the point

    odd = odd_async if kind == "async" else odd_sync
    async with bench(odd) as made:
        end = await made.end_of(odd)

    assert failures_of(end)[0].type_name == "PayloadError"


@pytest.mark.parametrize("doubling", [double, double_plainly], ids=["async", "sync"])
async def test_arguments_that_are_damaged_are_never_retried(
    doubling: Activity[[int], int],
) -> None:
    patient = doubling.with_options(retry=RETRY)
    async with bench(patient) as made:
        end = await made.end_of(patient, 0, input=b"garbage")

    assert failures_of(end)[0].type_name == "PayloadError"


@pytest.mark.parametrize("input", [b'{"value":"text"}', b"{}", b'{"other":1}'])
@pytest.mark.parametrize("doubling", [double, double_plainly], ids=["async", "sync"])
async def test_arguments_that_do_not_fit_are_left_to_other_code_for_longer_each_time(
    doubling: Activity[[int], int], input: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    options = WorkerOptions(
        unserved_retry=timedelta(seconds=1), unserved_retry_max=timedelta(seconds=3)
    )
    async with bench(doubling, options=options) as made:
        first = made.job(doubling, 0, input=input)
        ends = []
        for misfit in ("", "known", "known"):
            job = msgspec.structs.replace(first, failures=JobFailures(misfit=misfit))
            made.runner.run(job)
            ends.append((await made.ends.get())[1])

    assert [end.retry_at_ms for end in ends] == [made.clock() + ms for ms in (1_000, 2_000, 3_000)]
    assert all(end.refund and end.failure is None for end in ends)
    assert all("(value)" in end.misfit or "(other)" in end.misfit for end in ends)
    assert len(caplog.messages) == 1


async def test_an_activity_that_is_not_here_is_left_to_others_for_longer_each_time() -> None:
    options = WorkerOptions(
        unserved_retry=timedelta(seconds=1), unserved_retry_max=timedelta(seconds=3)
    )
    async with bench(double, options=options) as made:
        job = made.raw_job(activity_key("triple", None))
        ends = []
        for _ in range(3):
            made.runner.run(job)
            ends.append(await made.next_end())

    pauses = [(end.retry_at_ms or 0) - made.clock() for end in ends]
    assert pauses == [1_000, 2_000, 3_000]
    assert all(end.refund and end.kind is None for end in ends), "nothing counts against it"


async def test_an_activity_known_by_name_only_cannot_be_handed_to_a_worker() -> None:
    with pytest.raises(DefinitionError, match="'charge' is known here by name only"):
        async with bench(Activity.named("charge", int)):
            pass


async def test_a_damaged_policy_ends_the_job() -> None:
    async with bench(double) as made:
        end = await made.end_of(double, 1, policy=b"garbage")

    assert isinstance(event_of(end), ActivityFailed)


async def test_a_job_that_was_lost_too_often_fails_without_being_run() -> None:
    calls: list[int] = []

    @activity
    async def count(value: int) -> None:
        calls.append(value)

    failed = JobFailures(1, (Failure("ValueError", "real"),))
    async with bench(count, options=WorkerOptions(max_attempts=3)) as made:
        await made.end_of(count, 1, attempt=4, lost=2, failures=failed)
        end = await made.end_of(count, 2, attempt=5, lost=3, failures=failed)

    assert calls == [1]
    assert failures_of(end)[1].type_name == "WorkerLost"
    assert failures_of(end)[1].message == "count: its worker was lost 3 times"


async def test_a_suspect_is_under_way_until_the_store_has_its_end() -> None:
    """One that began before that, and killed the process, would take it along once more."""
    async with bench(double) as made:
        job = made.run(double, 2, attempt=3, lost=2)
        end = await made.next_end()
        is_alone = not made.runner.suspects.may_come()
        made.runner.end_stored(job.key)

    assert result_of(end) == 4
    assert is_alone
    assert made.runner.suspects.may_come()


async def test_what_cannot_be_recorded_still_ends_the_job(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def no_chance() -> float:
        raise RuntimeError("broken")

    async with bench(refuse, chance=no_chance) as made:
        end = await made.end_of(refuse, 1)

    assert failures_of(end)[0].message == "broken"
    assert "the outcome of activity 'refuse' of instance 'order-1' could not be" in caplog.text


# ------------------------------------------------------------------ timeouts


async def test_a_hanging_coroutine_times_out_and_is_cancelled() -> None:
    seen: list[str] = []

    @activity(timeout=SHORT, retry=RETRY)
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")

    async with bench(hang) as made:
        end = await made.end_of(hang)
        await until(lambda: bool(seen))

    assert end.retry_at_ms == made.clock() + 1_000
    assert end.failure is not None
    assert end.failure.type_name == "TimeoutError"
    assert end.failure.message == "hang took longer than 0.02 s"
    assert (made.runner.counts.timed_out, made.runner.counts.abandoned) == (1, 0)


async def test_a_timeout_is_an_exception_like_any_other_for_no_retry() -> None:
    @activity(timeout=SHORT, retry=Retry(no_retry=[TimeoutError]))
    async def hang() -> None:
        await asyncio.Event().wait()

    async with bench(hang) as made:
        end = await made.end_of(hang)

    assert failures_of(end)[0].type_name == "TimeoutError"


async def test_a_hanging_thread_fails_at_once_and_keeps_its_slot_until_it_returns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with gated(double_plainly, threaded_jobs=1) as (gate, made):
        end = await made.end_of(gate.block_briefly, 1)
        waiting = made.run(double_plainly, 4)
        await until(lambda: made.runner.counts.abandoned == 1)
        assert made.ends.empty(), "the only thread still hangs"
        assert made.runner.leases() == [lease_of(waiting)]

        gate.let_go.set()
        after = await made.next_end()

    assert last_failure(end).type_name == "TimeoutError"
    assert result_of(after) == 8
    assert made.runner.counts.dropped == 1
    [record] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert vars(record)["activity"] == "block_briefly"
    assert vars(record)["instance_id"] == INSTANCE
    assert "keeps its slot" in record.getMessage()


async def test_a_swallowed_cancellation_is_abandoned_once_and_its_slot_is_free_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with gated(double, async_jobs=1) as (gate, made):
        job = made.run(gate.cling, 1)
        await until(lambda: gate.entered == [1])
        made.runner.cancel([job.key])
        made.run(double, 4)
        after = await made.next_end()
        assert made.runner.counts.abandoned == 1

        gate.let_go.set()
        await until(lambda: made.runner.counts.dropped == 1)
        again = await made.end_of(double, 5)

    assert gate.entered == [1, -1]
    assert [result_of(after), result_of(again)] == [8, 10]
    assert len([record for record in caplog.records if "abandoned" in record.getMessage()]) == 1


async def test_a_result_in_time_beats_the_timeout() -> None:
    @activity(timeout=timedelta(milliseconds=1))
    async def burn() -> int:
        # Blocks the loop past its timeout, then returns before the timer can be looked at.
        threading.Event().wait(0.01)
        return 1

    async with bench(burn) as made:
        end = await made.end_of(burn)

    assert result_of(end) == 1
    assert made.runner.counts.timed_out == 0


# --------------------------------------------------------- cancelled and lost


@pytest.mark.parametrize("how", ["cancel", "lose"])
@pytest.mark.parametrize("kind", ["hold", "block"])
async def test_a_job_that_waits_is_dropped_without_being_run(kind: str, how: str) -> None:
    async with gated(async_jobs=1, threaded_jobs=1) as (gate, made):
        wait: Activity[..., int] = getattr(gate, kind)
        first, second, third = (made.run(wait, number) for number in (1, 2, 3))
        await until(lambda: gate.entered == [1])

        if how == "cancel":
            made.runner.cancel([second.key])
        else:
            made.runner.lose([lease_of(second)])
        gate.let_go.set()
        ended = [await made.ends.get() for _ in range(2)]

    assert [job for job, _ in ended] == [first, third]
    assert gate.entered == [1, 3]
    counts = made.runner.counts
    assert (counts.cancelled, counts.lost) == ((1, 0) if how == "cancel" else (0, 1))


async def test_a_job_cancelled_before_its_first_step_never_runs_its_code() -> None:
    async with gated(double) as (gate, made):
        for wait in (gate.hold, gate.block):
            made.runner.cancel([made.run(wait, 1).key])
        await made.end_of(double, 1)
        await until(lambda: sum(made.runner.room().values()) == sum(full_room(made)))

    assert gate.entered == []
    assert made.ends.empty()
    assert made.runner.leases() == []


def full_room(made: Bench) -> list[int]:
    return [2 * slots.capacity for slots in made.runner._slots.values()]


@pytest.mark.parametrize("how", ["cancel", "lose"])
async def test_running_code_is_told_at_once_and_nothing_is_reported(how: str) -> None:
    seen: list[str] = []
    begun = asyncio.Event()

    @activity
    async def work(ctx: ActivityContext) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(f"cancelled: {ctx.is_cancelled}")
            raise

    async with bench(work, double) as made:
        job = made.run(work)
        await begun.wait()
        if how == "cancel":
            made.runner.cancel([job.key])
        else:
            made.runner.lose([lease_of(job)])
        assert made.runner.leases() == []
        await until(lambda: bool(seen))

    assert seen == ["cancelled: True"]
    assert made.ends.empty()


async def test_code_in_a_thread_hears_of_the_cancellation_at_its_next_heartbeat() -> None:
    begun, told, heard = threading.Event(), threading.Event(), threading.Event()

    @activity
    def work(ctx: ActivityContext) -> None:
        ctx.heartbeat({"done": 1})
        begun.set()
        told.wait()
        try:
            ctx.heartbeat()
        except asyncio.CancelledError:
            heard.set()
            raise

    async with bench(work) as made:
        job = made.run(work)
        await until(begun.is_set)
        made.runner.cancel([job.key])
        told.set()
        await until(heard.is_set)

    assert made.ends.empty()


async def test_a_lost_lease_of_an_earlier_claim_does_not_touch_the_present_one() -> None:
    async with gated() as (gate, made):
        job = made.run(gate.hold, 1)
        made.runner.lose([lease_of(msgspec.structs.replace(job, token=job.token - 1))])
        gate.let_go.set()
        end = await made.next_end()

    assert result_of(end) == 1


async def test_a_job_claimed_again_here_replaces_its_lost_run() -> None:
    async with gated() as (gate, made):
        old = made.run(gate.hold, 1)
        await until(lambda: gate.entered == [1])
        new = msgspec.structs.replace(old, token=8, attempt=2)
        made.runner.run(new)
        assert made.runner.leases() == [lease_of(new)]
        gate.let_go.set()
        ended, end = await made.ends.get()

    assert ended is new
    assert (end.token, made.runner.counts.lost) == (8, 1)
    assert made.ends.empty()


async def test_a_job_that_timed_out_can_be_tried_again_while_its_old_thread_hangs() -> None:
    async with gated(threaded_jobs=2) as (gate, made):
        job = made.run(gate.block_briefly, 1)
        await made.next_end()
        made.runner.run(msgspec.structs.replace(job, token=8, attempt=2, policy=b"{}"))
        await until(lambda: gate.entered == [1, 1])
        gate.let_go.set()
        _, end = await made.ends.get()

    assert (result_of(end), end.token) == (1, 8)


# --------------------------------------------------------------------- stop


async def test_stop_gives_waiting_jobs_back_and_lets_running_ones_finish() -> None:
    async with gated(async_jobs=1) as (gate, made):
        running, waiting = made.run(gate.hold, 1), made.run(gate.hold, 2)
        await until(lambda: gate.entered == [1])
        stopping = asyncio.ensure_future(made.runner.stop(timedelta(seconds=60)))
        await until(lambda: made.runner.leases() == [lease_of(running)])
        gate.let_go.set()
        given_back = await stopping
        ended, end = await made.ends.get()

    assert [(end.key, end.retry_at_ms, end.refund) for end in given_back] == [
        (waiting.key, made.clock(), True)
    ]
    assert (ended, result_of(end)) == (running, 1)
    assert made.runner.leases() == []


async def test_stop_cancels_what_outlasts_the_grace_and_gives_it_back() -> None:
    async with gated() as (gate, made):
        job = made.run(gate.hold, 1)
        await until(lambda: gate.entered == [1])
        given_back = await made.runner.stop(NO_GRACE)

    assert [(end.key, end.token, end.kind, end.failure) for end in given_back] == [
        (job.key, job.token, None, None)
    ]
    assert not given_back[0].refund, "its code was started"
    assert made.ends.empty()
    assert made.runner.leases() == []


async def test_stop_leaves_code_behind_that_does_not_obey(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.jobs.jobs.OBEY_FOR", SHORT)
    async with gated(cancel_grace=timedelta(seconds=60)) as (gate, made):
        jobs = [made.run(gate.cling, 1), made.run(gate.block, 2)]
        await until(lambda: sorted(gate.entered) == [1, 2])
        given_back = await made.runner.stop(NO_GRACE)

        assert sorted(end.key for end in given_back) == [job.key for job in jobs]
        assert made.runner.leases() == []
        gate.let_go.set()
        await until(lambda: made.runner.counts.dropped == 2)

    assert made.ends.empty()
    assert made.runner.counts.abandoned == 2


async def test_a_result_after_the_grace_is_reported_if_the_code_returns_one() -> None:
    begun = asyncio.Event()

    @activity
    async def finish() -> str:
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return ""

    async with bench(finish) as made:
        made.run(finish)
        await begun.wait()
        given_back = await made.runner.stop(NO_GRACE)
        end = await made.next_end()

    assert given_back == []
    assert result_of(end) == "done all the same"


async def test_a_stopped_runner_takes_nothing_and_gives_back_what_still_comes() -> None:
    async with bench(double) as made:
        queue = activity_key("double", None)
        assert made.runner.reserve().takes(queue)
        await made.runner.stop(NO_GRACE)

        assert not made.runner.reserve().takes(queue)
        assert set(made.runner.room().values()) == {0}
        made.runner.run(made.job(double, 1))
        end = await made.next_end()

    assert (end.kind, end.retry_at_ms, end.refund) == (None, made.clock(), True)


async def test_stopping_twice_is_harmless() -> None:
    async with bench(double) as made:
        await made.end_of(double, 1)

        assert await made.runner.stop(NO_GRACE) == []
        assert await made.runner.stop(NO_GRACE) == []


def test_a_thread_that_never_returns_does_not_keep_the_process_alive() -> None:
    program = inspect.getsource(_hang_at_exit) + "\n_hang_at_exit()\n"

    done = subprocess.run(
        [sys.executable, "-c", program],
        timeout=WITHIN_S,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "stopped 1\n"), done.stderr


def _hang_at_exit() -> None:
    import asyncio
    import threading
    from datetime import timedelta

    from perdure.authoring.activity import activity
    from perdure.authoring.registry import Registry, activity_key
    from perdure.clock import system_clock
    from perdure.jobs import jobs
    from perdure.jobs.running import Host
    from perdure.model.jobs import ClaimedJob, JobKey
    from perdure.model.options import WorkerOptions

    begun = threading.Event()

    @activity
    def hang() -> None:
        begun.set()
        threading.Event().wait()

    async def main() -> None:
        jobs.OBEY_FOR = timedelta(milliseconds=20)
        runner = jobs.JobRunner(
            Registry([hang]),
            WorkerOptions(),
            host=Host("here", system_clock),
            end=lambda job, end: None,
            freed=lambda job: None,
            find_inline=lambda key: asyncio.sleep(0, None),
        )
        key = JobKey("i", 1, 1, 1)
        queue = activity_key("hang", None)
        runner.run(ClaimedJob(key=key, token=1, queue=queue, input=b"{}", policy=b"{}", attempt=1))
        await asyncio.to_thread(begun.wait)
        given_back = await runner.stop(timedelta(0))
        print("stopped", len(given_back))  # noqa: T201  # read by the test

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(5))
async def test_every_job_ends_once_whatever_happens_to_it(
    seed: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.jobs.jobs.OBEY_FOR", SHORT)
    chance = random.Random(seed)
    async with gated(double, double_plainly, refuse, async_jobs=5, threaded_jobs=3) as (gate, made):
        mix = [double, double_plainly, refuse, gate.hold, gate.hold_briefly, gate.cling]
        dropped: set[JobKey] = set()
        jobs = []
        for number in range(300):
            jobs.append(made.run(chance.choice(mix), number))
            if chance.random() < 0.3:
                victim = chance.choice(jobs)
                is_here = lease_of(victim) in made.runner.leases()
                made.runner.cancel([victim.key]) if number % 2 else made.runner.lose(
                    [lease_of(victim)]
                )
                dropped |= {victim.key} if is_here else set()
            if chance.random() < 0.3:
                await asyncio.sleep(0)
        given_back = await made.runner.stop(SHORT)
        gate.let_go.set()
        await until(lambda: not made.runner.started)

        reported = [made.ends.get_nowait()[0].key for _ in range(made.ends.qsize())]
        assert made.runner.leases() == []
        assert {slots.running for slots in made.runner._slots.values()} == {0}

    ended = [*reported, *(end.key for end in given_back), *dropped]
    assert sorted(ended) == [job.key for job in jobs]
    assert reported


# ------------------------------------------------------------- limits, order


@pytest.mark.parametrize("kind", ["hold", "block"])
async def test_no_more_jobs_run_than_there_are_slots_and_the_rest_in_their_order(
    kind: str,
) -> None:
    async with gated(async_jobs=2, threaded_jobs=2) as (gate, made):
        wait: Activity[..., int] = getattr(gate, kind)
        jobs = [made.run(wait, number) for number in range(5)]
        await until(lambda: len(gate.entered) == 2)

        assert sorted(gate.entered) == [0, 1]
        assert len(made.runner.leases()) == 5
        gate.let_go.set()
        ended = [await made.ends.get() for _ in jobs]

    assert {job.key for job, _ in ended} == {job.key for job in jobs}
    if kind == "hold":
        assert gate.entered == [0, 1, 2, 3, 4]


async def test_a_full_kind_does_not_hold_up_another() -> None:
    async with gated(double_plainly, async_jobs=1) as (gate, made):
        made.run(gate.hold, 1)
        made.run(gate.hold, 2)
        ended, _ = (made.run(double_plainly, 2), await made.ends.get())

        assert made.runner.counts.completed == 1
        assert ended.queue.name == "double_plainly"


async def test_room_counts_running_waiting_and_reserved_jobs() -> None:
    async with gated(async_jobs=2, threaded_jobs=3, process_jobs=4) as (gate, made):
        queue = activity_key("hold", None)
        room = made.runner.room()
        assert (room[SlotKind.ASYNC], room[SlotKind.THREADED], room[SlotKind.PROCESS]) == (4, 6, 8)
        for number in range(3):
            made.run(gate.hold, number)

        assert made.runner.room()[SlotKind.ASYNC] == 1
        first, second = made.runner.reserve(), made.runner.reserve()
        assert [first.takes(queue), second.takes(queue)] == [True, False]
        first.drop()
        assert second.takes(queue)
        second.drop()
        made.runner.run(made.job(gate.hold, 3))
        assert made.runner.room()[SlotKind.ASYNC] == 0
        gate.let_go.set()
        for _ in range(4):
            await made.next_end()

        assert made.runner.room()[SlotKind.ASYNC] == 4


async def test_a_queue_that_is_not_served_is_not_taken() -> None:
    gpu = double.with_options(tag="gpu")
    async with bench(gpu) as made:
        assert made.runner.reserve().takes(activity_key("double", "gpu"))
        assert made.runner.reserve().takes(activity_key("double", None))
        assert not made.runner.reserve().takes(activity_key("double", "cpu"))
        assert not made.runner.reserve().takes(activity_key("other", None))


async def test_leases_can_be_read_from_another_thread_while_jobs_come_and_go() -> None:
    async with bench(double) as made:
        is_done = threading.Event()
        most = 0

        def watch() -> None:
            nonlocal most
            while not is_done.is_set():
                most = max(most, len(made.runner.leases()))

        watching = asyncio.ensure_future(asyncio.to_thread(watch))
        for _ in range(20):
            for number in range(100):
                made.run(double, number)
            for _ in range(100):
                await made.next_end()
        is_done.set()
        await watching

    assert 0 <= most <= 100


# ------------------------------------------------------------------ context


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_the_context_is_the_same_as_parameter_and_by_function(kind: str) -> None:
    def describe(ctx: ActivityContext) -> dict[str, object]:
        assert activity_context() is ctx
        return {
            "instance_id": ctx.instance_id,
            "activity": ctx.activity,
            "attempt": ctx.attempt,
            "scheduled_at": ctx.scheduled_at.isoformat(),
            "is_cancelled": ctx.is_cancelled,
        }

    @activity(name="tell")
    async def tell_async(ctx: ActivityContext) -> dict[str, object]:
        return describe(ctx)

    @activity(name="tell")
    def tell_sync(ctx: ActivityContext) -> dict[str, object]:
        return describe(ctx)

    tell: Activity[..., Any] = tell_async if kind == "async" else tell_sync
    async with bench(tell) as made:
        end = await made.end_of(tell, attempt=2)

    assert result_of(end) == {
        "instance_id": INSTANCE,
        "activity": "tell",
        "attempt": 2,
        "scheduled_at": to_datetime(made.clock()).isoformat(),
        "is_cancelled": False,
    }
    assert datetime.fromisoformat(result_of(end)["scheduled_at"]).tzinfo is not None


async def test_the_idempotency_key_is_equal_in_all_attempts_and_unlike_other_calls() -> None:
    @activity(retry=RETRY)
    async def tell(fail: bool) -> None:
        raise ValueError(activity_context().idempotency_key)

    async with bench(tell) as made:
        job = made.run(tell, True)
        first = await made.next_end()
        made.runner.run(again(job, first))
        second = await made.next_end()
        other = await made.end_of(tell, True)

    keys = [last_failure(end).message for end in (first, second, other)]
    assert keys[0] == keys[1] == job.key.idempotency_key
    assert keys[2] != keys[0]


async def test_context_variables_do_not_leak_from_one_attempt_to_another() -> None:
    colour = contextvars.ContextVar("colour", default="none")
    colour.set("of the worker")

    @activity
    async def paint(value: str) -> str:
        before = colour.get()
        colour.set(value)
        await asyncio.sleep(0)
        return f"{before}, {colour.get()}"

    @activity
    def paint_plainly(value: str) -> str:
        before = colour.get()
        colour.set(value)
        return f"{before}, {colour.get()}"

    async with bench(paint, paint_plainly, options=WorkerOptions(threaded_jobs=1)) as made:
        for painting in (paint, paint_plainly):
            for value in ("red", "blue"):
                assert result_of(await made.end_of(painting, value)) == f"none, {value}"

    assert colour.get() == "of the worker"


class Mailer:
    address = "a@example.org"


class SpecialMailer(Mailer):
    pass


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_resource_is_found_by_its_type(kind: str) -> None:
    @activity(name="send")
    async def send_async(ctx: ActivityContext) -> str:
        return ctx.resource(Mailer).address

    @activity(name="send")
    def send_sync(ctx: ActivityContext) -> str:
        return ctx.resource(Mailer).address

    send: Activity[..., str] = send_async if kind == "async" else send_sync
    async with bench(send, resources=[object(), SpecialMailer()]) as made:
        end = await made.end_of(send)

    assert result_of(end) == "a@example.org"


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        ([], "no resource is a Mailer (handed to the worker: none)"),
        ([3], "no resource is a Mailer (handed to the worker: int)"),
        (
            [Mailer(), SpecialMailer()],
            "several resources are a Mailer (handed to the worker: Mailer, SpecialMailer)",
        ),
    ],
    ids=["none", "another", "two"],
)
async def test_a_missing_or_ambiguous_resource_is_named(
    resources: list[object], problem: str
) -> None:
    @activity
    async def send(ctx: ActivityContext) -> None:
        ctx.resource(Mailer)

    async with bench(send, resources=resources) as made:
        end = await made.end_of(send)

    assert last_failure(end).type_name == UsageError.__name__
    assert problem in last_failure(end).message


# ------------------------------------------------------------------- inline


def inline_request(fn: Callable[..., Any], *args: Any) -> InlineRequest:
    return InlineRequest(
        label="fetch",
        place=Place(double.fn.__code__, 0),
        input=b"{}",
        run=partial(fn, *args),
        encode=partial(JSON.encode, path="result of fetch"),
        decode=JSON.decode,
        same_input=lambda before, now: before == now,
        policy=b"{}",
        revive=partial(revive_activity_error, raises=()),
    )


async def test_an_inline_coroutine_runs_on_the_loop() -> None:
    async def fetch(value: int) -> list[str]:
        thread = threading.current_thread()
        return [str(value), activity_context().activity, str(thread is threading.main_thread())]

    async with bench(parent) as made:
        made.inline[1] = inline_request(fetch, 5)
        made.runner.run(made.raw_job(INLINE))
        end = await made.next_end()

    assert result_of(end) == ["5", "fetch", "True"]


async def test_a_plain_inline_callable_runs_in_a_thread() -> None:
    def fetch(value: int) -> list[str]:
        return [str(value), activity_context().activity, threading.current_thread().name]

    async with bench(parent) as made:
        made.inline[1] = inline_request(fetch, 5)
        made.runner.run(made.raw_job(INLINE))
        end = await made.next_end()

    assert result_of(end) == ["5", "fetch", "perdure-activity-1"]
    assert (made.runner.counts.started, made.runner.counts.completed) == (1, 1)


async def test_a_lambda_that_makes_a_coroutine_is_awaited() -> None:
    async with bench(parent) as made:
        made.inline[1] = inline_request(lambda: double.fn(4))
        made.runner.run(made.raw_job(INLINE))
        end = await made.next_end()

    assert result_of(end) == 8


async def test_inline_callables_wait_for_a_thread_like_activities() -> None:
    async with gated(parent, threaded_jobs=1) as (gate, made):  # type: ignore[arg-type]  # any definition
        made.run(gate.block, 1)
        await until(lambda: gate.entered == [1])
        made.inline[2] = inline_request(gate.entered.append, 2)
        job = made.raw_job(INLINE)
        made.runner.run(job)
        await until(lambda: made.runner.room()[SlotKind.THREADED] == 0)

        assert gate.entered == [1]
        assert lease_of(job) in made.runner.leases()
        gate.let_go.set()
        ended = [await made.ends.get() for _ in range(2)]

    assert ended[1][0] is job
    assert gate.entered == [1, 2]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_failing_inline_call_is_a_failure_of_its_job(kind: str) -> None:
    async def fail_async() -> None:
        raise OSError("away")

    def fail_sync() -> None:
        raise OSError("away")

    async with bench(parent) as made:
        made.inline[1] = inline_request(fail_async if kind == "async" else fail_sync)
        made.runner.run(made.raw_job(INLINE))
        end = await made.next_end()

    assert failures_of(end)[0].message == "away"


async def test_an_inline_result_that_cannot_be_stored_fails_for_good() -> None:
    async with bench(parent) as made:
        made.inline[1] = inline_request(threading.Lock)
        made.runner.run(made.raw_job(INLINE, policy=double.with_options(retry=RETRY).policy))
        end = await made.next_end()

    assert failures_of(end)[0].type_name == "PayloadError"


async def test_an_inline_call_that_cannot_be_found_is_given_back() -> None:
    async with bench(parent) as made:
        made.runner.run(made.raw_job(INLINE))
        end = await made.next_end()

    assert (end.kind, end.retry_at_ms, end.refund) == (None, made.clock() + 1_000, True)
    assert end.failure is None


@pytest.mark.parametrize(
    ("error", "is_said"),
    [(OSError("a defect"), True), (StoreUnavailableError("the database is away"), False)],
)
async def test_a_failing_look_up_gives_the_inline_call_back(
    error: Exception, is_said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that is away is no fault of the call, and others say so."""

    async def away(key: JobKey) -> InlineRequest | None:
        raise error

    async with bench(parent) as made:
        made.runner._launcher._find_inline = away
        made.runner.run(made.raw_job(INLINE))
        end = await made.next_end()

    assert end.retry_at_ms == made.clock() + 1_000
    assert ("could not be looked up" in caplog.text) is is_said
