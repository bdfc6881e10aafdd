from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from perdure.authoring.activity import activity
from perdure.authoring.activity_context import ActivityContext
from perdure.authoring.registry import activity_key
from perdure.clock import to_datetime
from perdure.errors import LimitExceededError, PayloadError, UsageError
from perdure.limits import MAX_DETAILS_BYTES
from perdure.model.jobs import JobFailures
from perdure.model.options import Retry, WorkerOptions
from tests.jobs.job_harness import INSTANCE, again, bench, last_failure, result_of, until

SECOND = timedelta(seconds=1)
PATIENT = Retry(max_attempts=3)


@dataclass(frozen=True)
class Position:
    page: int
    line: int


@activity
async def describe(ctx: ActivityContext) -> dict[str, Any]:
    return {
        "instance_id": ctx.instance_id,
        "execution": ctx.execution,
        "orchestration": ctx.orchestration,
        "orchestration_version": ctx.orchestration_version,
        "activity": ctx.activity,
        "worker_id": ctx.worker_id,
        "attempt": ctx.attempt,
        "tag": ctx.tag,
        "session": ctx.session,
        "deadline": None if ctx.deadline is None else ctx.deadline.isoformat(),
        "client": ctx.client,
    }


# ------------------------------------------------------------------- knowing


async def test_the_context_knows_whose_call_it_is_from_the_job_alone() -> None:
    """Defect k: the name and version of the caller never cost a look at its history."""
    tagged = describe.with_options(tag="gpu")
    async with bench(tagged) as made:
        end = await made.end_of(
            tagged, session="cart-7", owner_name="checkout", owner_version="2.1.0", attempt=2
        )

    assert result_of(end) == {
        "instance_id": INSTANCE,
        "execution": 1,
        "orchestration": "checkout",
        "orchestration_version": "2.1.0",
        "activity": "describe",
        "worker_id": "here",
        "attempt": 2,
        "tag": "gpu",
        "session": "cart-7",
        "deadline": None,
        "client": "the client",
    }


@pytest.mark.parametrize(
    ("limit", "deadline", "after"),
    [
        (10 * SECOND, None, 10 * SECOND),
        (None, 20 * SECOND, 15 * SECOND),
        (10 * SECOND, 20 * SECOND, 10 * SECOND),
        (20 * SECOND, 10 * SECOND, 5 * SECOND),
    ],
    ids=["timeout", "deadline", "timeout first", "deadline first"],
)
async def test_the_deadline_is_the_sooner_of_the_attempts_and_the_calls(
    limit: timedelta | None, deadline: timedelta | None, after: timedelta
) -> None:
    limited = describe.with_options(timeout=limit, deadline=deadline)
    async with bench(limited) as made:
        job = made.job(limited)
        made.clock.advance(5 * SECOND)
        made.runner.run(job)
        end = await made.next_end()

        now = to_datetime(made.clock())

    assert result_of(end)["deadline"] == (now + after).isoformat()


async def test_what_is_logged_names_the_attempt(caplog: pytest.LogCaptureFixture) -> None:
    @activity
    async def say(ctx: ActivityContext) -> None:
        ctx.log.info("half done", extra={"part": 1})

    with caplog.at_level(logging.INFO, "perdure.activity"):
        async with bench(say) as made:
            await made.end_of(say, attempt=3, owner_name="checkout", owner_version="1.0.0")

    [record] = [record for record in caplog.records if record.name == "perdure.activity"]
    facts = vars(record)
    assert (facts["instance_id"], facts["execution"], facts["part"]) == (INSTANCE, 1, 1)
    assert (facts["activity"], facts["attempt"]) == ("say", 3)
    assert (facts["definition"], facts["version"]) == ("checkout", "1.0.0")


# ------------------------------------------------------------- being stopped


async def test_code_beside_an_activity_can_wait_for_its_cancellation() -> None:
    seen: list[str] = []
    begun = asyncio.Event()

    @activity
    async def work(ctx: ActivityContext) -> None:
        async def watch() -> None:
            await ctx.cancelled()
            seen.append("told")

        watching = asyncio.ensure_future(watch())
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await watching

    async with bench(work) as made:
        job = made.run(work)
        await begun.wait()
        made.runner.cancel([job.key])
        await until(lambda: bool(seen))

    assert seen == ["told"]


async def test_a_cancellation_that_has_come_is_not_waited_for() -> None:
    seen: list[bool] = []
    begun = asyncio.Event()

    @activity
    async def work(ctx: ActivityContext) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await ctx.cancelled()
            seen.append(ctx.is_cancelled)

    async with bench(work) as made:
        job = made.run(work)
        await begun.wait()
        made.runner.cancel([job.key])
        await until(lambda: bool(seen))

    assert seen == [True]


async def test_a_cancellation_ends_the_pause_of_a_thread() -> None:
    begun, heard = threading.Event(), threading.Event()

    @activity
    def work(ctx: ActivityContext) -> None:
        begun.set()
        if ctx.wait_cancelled(timedelta(hours=1)):
            heard.set()

    async with bench(work) as made:
        job = made.run(work)
        await until(begun.is_set)
        made.runner.cancel([job.key])
        await until(heard.is_set)


async def test_a_pause_that_nobody_breaks_off_ends_by_itself() -> None:
    @activity
    def work(ctx: ActivityContext) -> bool:
        return ctx.wait_cancelled(timedelta(milliseconds=1))

    async with bench(work) as made:
        end = await made.end_of(work)

    assert result_of(end) is False


async def test_a_blocking_pause_is_refused_on_the_loop() -> None:
    @activity
    async def work(ctx: ActivityContext) -> None:
        ctx.wait_cancelled()

    async with bench(work) as made:
        end = await made.end_of(work)

    assert "use `await ctx.cancelled()`" in last_failure(end).message
    assert last_failure(end).type_name == UsageError.__name__


# --------------------------------------------------------- saying something


async def test_the_next_attempt_gets_what_the_last_heartbeat_said() -> None:
    seen: list[Position | None] = []

    @activity(retry=PATIENT)
    async def read(ctx: ActivityContext) -> None:
        seen.append(ctx.last_details(Position))
        for page in range(1, 4):
            ctx.heartbeat(Position(page, ctx.attempt))
        raise OSError("torn")

    async with bench(read) as made:
        job = made.run(read)
        first = await made.next_end()
        made.runner.run(again(job, first))
        await made.next_end()

    assert first.details == b'{"page":3,"line":1}'
    assert seen == [None, Position(3, 1)]


async def test_details_without_a_type_are_plain_json() -> None:
    @activity
    async def look(ctx: ActivityContext) -> list[Any]:
        return [ctx.last_details()]

    async with bench(look) as made:
        end = await made.end_of(look, details=b'{"done":[1,2]}')

    assert result_of(end) == [{"done": [1, 2]}]


async def test_a_heartbeat_without_details_keeps_the_earlier_ones() -> None:
    @activity(retry=PATIENT)
    async def read(ctx: ActivityContext) -> None:
        ctx.heartbeat({"page": 1})
        ctx.heartbeat()
        raise OSError("torn")

    async with bench(read) as made:
        end = await made.end_of(read)

    assert end.details == b'{"page":1}'
    assert len(made.said) == 1, "nothing new was said"


async def test_details_of_an_attempt_that_timed_out_are_kept() -> None:
    @activity(retry=PATIENT, timeout=timedelta(milliseconds=20))
    async def read(ctx: ActivityContext) -> None:
        ctx.heartbeat([1])
        await asyncio.Event().wait()

    async with bench(read) as made:
        end = await made.end_of(read)

    assert (end.details, end.failure is not None) == (b"[1]", True)


async def test_details_of_a_job_that_is_given_back_are_kept() -> None:
    begun = asyncio.Event()

    @activity
    async def read(ctx: ActivityContext) -> None:
        ctx.heartbeat("half")
        begun.set()
        await asyncio.Event().wait()

    async with bench(read) as made:
        made.run(read)
        await begun.wait()
        [end] = await made.runner.stop(timedelta(0))

    assert end.details == b'"half"'


@pytest.mark.parametrize(
    ("details", "error"),
    [(object(), PayloadError), ("x" * MAX_DETAILS_BYTES, LimitExceededError)],
    ids=["unstorable", "too large"],
)
async def test_details_that_cannot_be_kept_are_refused_at_the_line(
    details: object, error: type[Exception]
) -> None:
    @activity
    async def read(ctx: ActivityContext) -> bool:
        for say in (ctx.heartbeat, ctx.progress):
            with pytest.raises(error):
                say(details)
        return True

    async with bench(read) as made:
        end = await made.end_of(read)

    assert result_of(end) is True
    assert made.said == []


async def test_what_a_heartbeat_says_may_hold_data_of_any_kind() -> None:
    @activity(retry=PATIENT)
    async def read(ctx: ActivityContext) -> None:
        ctx.heartbeat({"pages": (Position(1, 1), Position(2, 1))})
        raise OSError("torn")

    async with bench(read) as made:
        end = await made.end_of(read)

    assert end.details == b'{"pages":[{"page":1,"line":1},{"page":2,"line":1}]}'


async def test_progress_is_shown_and_not_kept_for_the_next_attempt() -> None:
    @activity(retry=PATIENT)
    async def read(ctx: ActivityContext) -> None:
        ctx.progress(0.5)
        raise OSError("torn")

    async with bench(read) as made:
        end = await made.end_of(read)

    assert end.details is None
    assert [context.shown for context in made.said] == [b"0.5"]


# ------------------------------------------------------------------ leases


async def test_a_job_whose_lease_has_ended_before_its_start_is_given_back_and_not_run() -> None:
    """Trap 18: a process that slept between claim and start must not run what is another's. If it
    is no other's, it was not lost with a worker."""
    runs: list[int] = []

    @activity
    async def count(value: int) -> int:
        runs.append(value)
        return value

    async with bench(count) as made:
        made.runner.run(made.job(count, 1, lease_until_ms=made.clock()))
        made.runner.run(made.job(count, 2, lease_until_ms=made.clock() + 1))
        given_back = await made.next_end()
        assert (given_back.kind, given_back.refund) == (None, True)
        end = await made.next_end()

    assert (runs, result_of(end)) == ([2], 2)
    assert given_back.retry_at_ms == made.clock()
    assert made.ends.empty()
    assert made.runner.counts.lost == 1
    assert made.runner.leases() == []


async def test_a_job_that_waits_for_a_slot_starts_under_its_renewed_lease() -> None:
    let_go = asyncio.Event()

    @activity
    async def hold(value: int) -> int:
        await let_go.wait()
        return value

    async with bench(hold, options=WorkerOptions(async_jobs=1)) as made:
        until_ms = made.clock() + 1_000
        for value in (1, 2, 3):
            made.run(hold, value, lease_until_ms=until_ms)
        made.runner.renewed(made.runner.leases()[:2], until_ms + 60_000)
        made.clock.advance(2 * SECOND)
        let_go.set()
        first, second, given_back = [await made.next_end() for _ in range(3)]

    assert [result_of(first), result_of(second)] == [1, 2]
    assert (given_back.kind, given_back.refund) == (None, True)
    assert made.runner.counts.lost == 1


# ---------------------------------------------------------------- dead jobs


async def test_a_job_out_of_attempts_is_dead() -> None:
    @activity(retry=PATIENT)
    async def fail() -> None:
        raise OSError("again")

    async with bench(fail) as made:
        retried = await made.end_of(fail)
        dead = await made.end_of(fail, attempt=3, failures=JobFailures(2, ()))

    assert (retried.is_dead, dead.is_dead) == (False, True)
    assert last_failure(dead).type_name == "OSError"


async def test_a_job_lost_with_its_workers_too_often_is_dead() -> None:
    async with bench(describe) as made:
        end = await made.end_of(describe, attempt=11, lost=10)

    assert (end.is_dead, last_failure(end).type_name) == (True, "WorkerLost")


@pytest.mark.parametrize("owner_version", ["1.0.0", ""], ids=["orchestration", "decider"])
async def test_a_failure_that_was_never_to_be_tried_again_is_an_answer_if_code_awaits_it(
    owner_version: str,
) -> None:
    """A decider has no code that waits: what its effect says is kept for a person."""

    @activity
    async def once() -> None:
        raise OSError("once")

    @activity(retry=Retry(max_attempts=2, no_retry=[OSError]))
    async def final() -> None:
        raise OSError("final")

    @activity(retry=PATIENT)
    async def odd() -> int:
        return "text"  # type: ignore[return-value]  # that is the point

    async with bench(once, final, odd) as made:
        fields = {"owner_version": owner_version}
        ends = [await made.end_of(one, **fields) for one in (once, final, odd)]
        earlier = JobFailures(1, ())
        ends.append(await made.end_of(final, attempt=2, failures=earlier, **fields))

    assert [end.is_dead for end in ends] == [not owner_version] * 4
    assert all(end.kind for end in ends)


@pytest.mark.parametrize(
    "damage",
    [{"policy": b"\xff"}, {"input": b"\xff"}, {"damage": "its failures cannot be read"}],
    ids=["policy", "input", "failures"],
)
async def test_a_job_whose_row_is_damaged_fails_and_the_next_one_runs(
    damage: dict[str, Any],
) -> None:
    """Traps 9 and n: what cannot be read is neither run for ever nor dropped without a word."""

    @activity(retry=Retry(max_attempts=None))
    async def double(value: int) -> int:
        return 2 * value

    async with bench(double) as made:
        bad = await made.end_of(double, 1, **damage)
        good = await made.end_of(double, 2)

    assert bad.kind == "activity_failed"
    assert last_failure(bad).message
    assert result_of(good) == 4


async def test_a_call_by_any_tag_is_taken_by_a_worker_of_any() -> None:
    async with bench(describe, options=WorkerOptions(tags="any")) as made:
        assert made.runner.reserve().takes(activity_key("describe", "made up"))
        assert not made.runner.reserve().takes(activity_key("unknown", "made up"))
