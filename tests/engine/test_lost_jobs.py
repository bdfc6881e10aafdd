"""Running jobs that another process has taken away: how soon they hear of it, and what follows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import pytest

from perdure import ActivityContext, Client, Engine, Signal, activity, orchestration
from perdure.authoring.registry import Defined
from perdure.clock import ManualClock, system_clock
from perdure.errors import InstanceCancelledError
from perdure.model.hints import Hint
from perdure.store.base import JobLease
from tests.engine.stage import SELDOM, Gate, Stage, options, until

POLLS = options(poll_max=timedelta(milliseconds=200), lease_for=SELDOM)
"""What a job hears before the end of its lease is near, it hears by looking."""

poke = Signal("poke", int)


@orchestration
async def unserved() -> None:
    """Stands in the store, and no worker takes it."""


class Long:
    """An activity that runs until it is cancelled, and how that came about."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.told = asyncio.Event()

        @activity
        async def long() -> None:
            self.began.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.told.set()

        @orchestration
        async def acting() -> None:
            await long()

        self.definitions: list[Defined] = [long, acting]
        self.acting = acting

    async def start(self, stage: Stage) -> Engine:
        """Have it running in an engine, as instance `a`."""
        engine = await stage.engine(self.definitions, options=POLLS)
        await engine.start("a", self.acting)
        await self.began.wait()
        return engine


@pytest.mark.parametrize("how", ["cancel", "terminate", "delete"])
async def test_an_activity_hears_within_the_poll_interval_what_another_process_decided(
    stage: Stage, how: str
) -> None:
    """Defect d: it took up to 25 s, a lease minus a buffer."""
    long = Long()
    engine = await long.start(stage)
    client = await stage.client()
    handle = client.handle("a")

    match how:
        case "cancel":
            await handle.cancel("from afar")
        case "terminate":
            await handle.terminate("from afar")
        case _:
            [row] = await client._core.store.read_instances(["a"])
            assert row is not None
            await client._core.store.admin.delete([("a", row.incarnation)], force=True)
    await until(long.told.is_set)

    assert engine._serving.jobs.leases() == []
    # An instance that was deleted is still in memory here, without a row.
    assert await client._core.store.read_jobs("a") == []


async def test_an_activity_hears_at_once_what_its_own_process_decided(stage: Stage) -> None:
    long = Long()
    engine = await stage.engine(
        long.definitions, options=options(poll_max=SELDOM, lease_for=2 * SELDOM)
    )
    handle = await engine.start("a", long.acting)
    await long.began.wait()

    await handle.cancel("here")
    await until(long.told.is_set)

    with pytest.raises(InstanceCancelledError):
        await handle.result()


async def test_a_thread_hears_within_the_poll_interval_too(stage: Stage) -> None:
    began, told = threading.Event(), threading.Event()

    @activity
    def long(ctx: ActivityContext) -> None:
        began.set()
        if ctx.wait_cancelled(SELDOM):
            told.set()

    @orchestration
    async def acting() -> None:
        await long()

    engine = await stage.engine([long, acting], options=POLLS)
    await engine.start("a", acting)
    await until(began.is_set)

    await (await stage.client()).handle("a").terminate("from afar")

    await until(told.is_set)


async def test_what_a_deaf_activity_returns_is_refused_and_counted(stage: Stage) -> None:
    gate = Gate()
    deaf_to: list[str] = []

    @activity
    async def deaf() -> str:
        while not gate.opened.is_set():
            try:
                await gate.pass_through()
            except asyncio.CancelledError:
                deaf_to.append("cancelled")
        return "too late"

    @orchestration
    async def acting() -> str:
        return await deaf()

    stage.expect_log("is abandoned")
    engine = await stage.engine([deaf, acting], options=POLLS)
    await engine.start("a", acting)
    await gate.reached()
    await (await stage.client()).handle("a").terminate("from afar")
    counts = engine._serving.jobs.counts
    await until(lambda: counts.abandoned == 1)

    gate.opened.set()
    await until(lambda: counts.dropped == 1)

    assert deaf_to == ["cancelled"]
    assert counts.lost == 1


async def test_nothing_is_asked_while_nothing_changes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = Long()
    engine = await long.start(stage)
    watch = engine._serving._cancels
    asked: list[int] = []
    lost_jobs = engine._core.store.lost_jobs

    async def counted(leases: Sequence[JobLease]) -> list[JobLease]:
        asked.append(len(leases))
        return await lost_jobs(leases)

    monkeypatch.setattr(engine._core.store, "lost_jobs", counted)
    await until(lambda: _is_seen(engine))
    asked.clear()

    assert not await watch.look()
    assert asked == []
    client = await stage.client()
    await client.handle("other").send(poke, 1)
    await client.start("elsewhere", unserved)
    assert not await watch.look(), "what others are sent is no news"
    await client.handle("elsewhere").terminate()
    await until(lambda: asked)
    assert not long.told.is_set(), "what becomes of another instance says nothing of this job"


async def _is_seen(engine: Engine) -> bool:
    return engine._serving._cancels._seen_changes == engine._core.store.change_count(Hint.NEWS)


async def test_a_question_that_failed_is_asked_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = Long()
    engine = await long.start(stage)
    stage.expect_log("started again: cancellations")

    async def refuse(_: Sequence[JobLease]) -> list[JobLease]:
        monkeypatch.undo()
        raise OSError("no")

    monkeypatch.setattr(engine._core.store, "lost_jobs", refuse)
    await (await stage.client()).handle("a").terminate("from afar")

    await until(long.told.is_set)


async def test_a_lease_that_ran_out_is_not_revived_and_its_late_result_is_refused(
    stage: Stage,
) -> None:
    """Traps 18 and 31: neither a renewal nor a late answer takes a job back from who has it now."""
    clock = ManualClock()
    gate = Gate()

    @activity
    async def slow(ctx: ActivityContext) -> str:
        while ctx.attempt == 1 and not gate.opened.is_set():
            with suppress(asyncio.CancelledError):
                await gate.pass_through()
        return f"attempt {ctx.attempt}"

    @orchestration
    async def acting() -> str:
        return await slow()

    stage.expect_log("is abandoned")
    engine = await stage.engine([slow, acting], clock=clock, options=POLLS)
    handle = await engine.start("a", acting)
    await gate.reached()
    [lease] = engine._serving.jobs.leases()

    clock.advance(SELDOM + timedelta(seconds=1))
    _, lost = await engine._core.store.renew([], [lease], lease_ms=30_000)
    result = await handle.result()
    await until(lambda: engine._serving.jobs.counts.abandoned)
    gate.opened.set()
    await until(lambda: engine._serving.jobs.counts.dropped)

    assert lost == [lease]
    assert result == "attempt 2"


async def test_a_renewal_tells_the_jobs_until_when_they_are_ours(stage: Stage) -> None:
    clock = ManualClock()
    long = Long()
    engine = await stage.engine(long.definitions, clock=clock)
    handle = await engine.start("a", long.acting)
    await long.began.wait()
    [run] = engine._serving.jobs._runs.values()
    assert run.lease_until_ms == clock() + 30_000

    clock.advance(timedelta(seconds=20))
    await engine._serving._leases.renew()

    assert run.lease_until_ms == clock() + 30_000
    await handle.terminate()


async def test_a_result_is_kept_when_another_worker_went_on_with_the_instance(
    stage: Stage,
) -> None:
    """The turn that brings it is refused, since it does not know what the other one did."""
    ran = 0
    began, may_end = asyncio.Event(), asyncio.Event()

    @activity
    async def long() -> str:
        nonlocal ran
        ran += 1
        began.set()
        await may_end.wait()
        return "done"

    @orchestration
    async def poked() -> tuple[int, str]:
        working = asyncio.create_task(long())
        number = await poke.receive()
        return number, await working

    # For this worker nothing that comes later is ever due.
    behind = ManualClock(system_clock())
    slow = await stage.engine([poked, long], clock=behind)
    await slow.start("a", poked)
    await began.wait()
    await stage.engine([poked])
    client = await stage.client()
    await client.handle("a").send(poke, 7)
    await until(lambda: _has_event(client, "signal_received"))

    may_end.set()

    assert await client.handle("a", poked).result() == (7, "done")
    assert ran == 1


async def _has_event(client: Client, kind: str) -> bool:
    return any(event.kind == kind for event in await client.handle("a").history())
