from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from perdure import Activity, ActivityContext, Client, Engine, activity, orchestration
from perdure.authoring.registry import activity_key
from perdure.clock import ManualClock, to_ms
from perdure.model.admin import SessionRow
from perdure.model.jobs import ClaimedJob, JobEnd
from perdure.model.turns import JobClaim, SessionClaim
from tests.engine.stage import SELDOM, Gate, Stage, are_ready, idle, options, until
from tests.sizes import WITHIN_S

LEASE = timedelta(seconds=30)
IDLE = timedelta(seconds=300)
QUICK = {"poll_max": timedelta(milliseconds=40)}


@activity
async def where(ctx: ActivityContext) -> str:
    return f"{ctx.worker_id} {ctx.session}"


remote = Activity.named("where", str)


@orchestration
async def visiting(session: str, times: int) -> list[str]:
    return [await where.with_options(session=session)() for _ in range(times)]


@orchestration
async def asking(session: str) -> str:
    return await remote.with_options(session=session)()


async def sessions(client: Client) -> dict[str, SessionRow]:
    return {row.session: row for row in await client._core.store.admin.read_sessions()}


async def own(client: Client, session: str, owner: str, *, queue: str = "where") -> None:
    """Make somebody who is not here the owner of a session that has a job waiting."""
    [number] = await client._core.store.intern([activity_key(queue, None)])
    terms = SessionClaim(owner, to_ms(LEASE), (), 10)
    claim = JobClaim(owner, (number,), 10, to_ms(LEASE), 77, terms)

    async def take() -> bool:
        jobs = await client._core.store.claim_jobs(claim)
        now_ms = client._core.store.clock()
        await client._core.store.end_jobs(
            [JobEnd(key=job.key, token=77, retry_at_ms=now_ms, refund=True) for job in jobs]
        )
        return bool(jobs)

    await until(take)
    assert (await sessions(client))[session].owner == owner


# ---------------------------------------------------------------------- affinity


async def test_all_jobs_of_a_session_run_on_one_worker(stage: Stage) -> None:
    first = await stage.engine([visiting, where], options=options(name="first", **QUICK))
    await stage.engine([visiting, where], options=options(name="second", **QUICK))

    handles = [await first.start(visiting, "cart-7", 5) for _ in range(4)]
    results = [await handle.result() for handle in handles]

    assert {found for result in results for found in result} in (
        {"first cart-7"},
        {"second cart-7"},
    )


async def test_several_jobs_of_a_session_run_at_once(stage: Stage) -> None:
    gate = Gate()
    running: list[str] = []

    @activity
    async def hold(ctx: ActivityContext) -> str:
        running.append(ctx.worker_id)
        await gate.pass_through()
        return ctx.worker_id

    @orchestration
    async def crowd() -> list[str]:
        pinned = hold.with_options(session="one")
        return await asyncio.gather(*(pinned() for _ in range(5)))

    engine = await stage.engine([crowd, hold], options=options(max_sessions=1))
    handle = await engine.start(crowd)
    await until(lambda: len(running) == 5)
    gate.opened.set()

    assert len(set(await handle.result())) == 1


async def test_a_session_outlives_the_execution_that_used_it(stage: Stage) -> None:
    @orchestration
    async def eternal(seen: list[str]) -> list[str]:
        seen = [*seen, await where.with_options(session="s")()]
        if len(seen) < 3:
            eternal.continue_as_new(seen)
        return seen

    engine = await stage.engine([eternal, where], options=options(name="first", **QUICK))
    await stage.engine([eternal, where], options=options(name="second", **QUICK))

    assert len(set(await (await engine.start(eternal, [])).result())) == 1


async def test_jobs_without_a_session_go_anywhere_meanwhile(stage: Stage) -> None:
    @orchestration
    async def plain() -> str:
        return await where()

    engine = await stage.engine([plain, where], options=options(name="here", max_sessions=0))

    assert await (await engine.start(plain)).result() == "here None"


# ---------------------------------------------------------------------- capacity


async def test_a_worker_takes_no_more_sessions_than_it_has_room_for(stage: Stage) -> None:
    gates = {"a": Gate(), "b": Gate()}

    @activity
    async def hold(session: str) -> str:
        await gates[session].pass_through()
        return session

    @activity
    def hold_plainly() -> str:
        return "a thread"

    @orchestration
    async def holding(session: str) -> str:
        return await hold.with_options(session=session)(session)

    engine = await stage.engine(
        [holding, hold, hold_plainly], options=options(max_sessions=1, **QUICK)
    )
    first = await engine.start(holding, "a")
    await gates["a"].reached()
    second = await engine.start(holding, "b")
    await idle(engine)
    assert not gates["b"].entered.is_set(), "there is room for one session"

    gates["a"].opened.set()
    gates["b"].opened.set()

    assert [await first.result(), await second.result()] == ["a", "b"]


@pytest.mark.parametrize("how", ["it returns", "it is cancelled"])
async def test_a_session_that_ends_makes_room_for_the_next_at_once(stage: Stage, how: str) -> None:
    """Also where the worker seldom looks for work by itself."""
    gate = Gate()

    @activity
    async def hold(session: str) -> str:
        if session == "a":
            await gate.pass_through()
        return session

    @orchestration
    async def holding(session: str) -> str:
        return await hold.with_options(session=session)(session)

    seldom = options(max_sessions=1, poll_min=SELDOM, poll_max=SELDOM, lease_for=2 * SELDOM)
    engine = await stage.engine([holding, hold], options=seldom)
    first = await engine.start(holding, "a")
    await gate.reached()
    others = [await engine.start(holding, session) for session in "bcd"]
    await until(lambda: are_ready(engine, "hold", 3))
    assert not await engine._serving.claimer.run_once()

    if how == "it returns":
        gate.opened.set()
    else:
        await first.terminate()

    async with asyncio.timeout(WITHIN_S):
        assert [await other.result() for other in others] == ["b", "c", "d"]


async def test_a_worker_without_room_never_takes_jobs_with_a_session(stage: Stage) -> None:
    never = await stage.engine([visiting, where], options=options(max_sessions=0, name="never"))
    handle = await never.start(visiting, "s", 1)
    await idle(never)
    assert (await sessions(never)) == {}

    await stage.engine([where], options=options(name="other", **QUICK))

    assert await handle.result() == ["other s"]


# ------------------------------------------------------------- leases and failover


async def test_a_session_of_a_dead_worker_moves_on_when_its_lease_has_run_out(
    stage: Stage,
) -> None:
    stage.expect_log("no live worker serves")
    clock = ManualClock()
    asker = await stage.engine([asking], clock=clock, options=options(**QUICK))
    handle = await asker.start(asking, "s")
    await own(asker, "s", "ghost")
    await until(lambda: stage.logged("no live worker serves"))
    worker = await stage.engine([where], clock=clock, options=options(name="worker", **QUICK))
    await idle(worker)
    assert (await sessions(asker))["s"].owner == "ghost"

    clock.advance(LEASE + timedelta(milliseconds=1))

    assert await handle.result() == "worker s"


async def test_a_worker_of_a_lasting_name_finds_its_sessions_again(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine(
        [visiting, where], clock=clock, options=options(name="lasting", **QUICK)
    )
    await (await engine.start(visiting, "s", 1)).result()
    await engine.close()
    client = await stage.client(clock=clock)
    assert (await sessions(client))["s"].owner == "lasting"

    other = await stage.engine(
        [visiting, where], clock=clock, options=options(name="other", **QUICK)
    )
    handle = await other.start(visiting, "s", 1)
    await idle(other)
    assert (await sessions(client))["s"].owner == "lasting", "it is only away"
    await stage.engine([where], clock=clock, options=options(name="lasting", **QUICK))

    assert await handle.result() == ["lasting s"]


async def test_of_two_processes_of_one_name_the_later_one_has_the_sessions(stage: Stage) -> None:
    """S27: a worker was restarted before its old process had gone."""
    stage.expect_log("another process works under the same name")

    @activity(name="where")
    async def life(ctx: ActivityContext) -> str:
        return ctx.resource(str)

    named = options(name="lasting", **QUICK)
    clock = ManualClock()
    old = await stage.engine([asking, life], options=named, clock=clock, resources=["old"])
    assert await (await old.start(asking, "s")).result() == "old"
    clock.advance(timedelta(seconds=1))
    new = await stage.engine([life], options=named, clock=clock, resources=["new"])
    for engine in (old, new):  # No sign of life but those that are given here.
        await engine._serving._end_loops(["sign of life"])

    await old._serving._beat_once()
    assert [await (await old.start(asking, "s")).result() for _ in range(20)] == ["new"] * 20
    await new._serving._beat_once()
    await old._serving._beat_once()
    await old._serving._beat_once()
    # Nobody has written anything in place of its own sign of life: it is alone again.
    await new._serving._end_loops(["claims"])
    assert await (await old.start(asking, "s")).result() == "old"


async def test_a_worker_without_a_lasting_name_leaves_no_session_behind(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([visiting, where], clock=clock)
    await (await engine.start(visiting, "s", 1)).result()
    assert await sessions(engine)

    await engine.close()

    assert await sessions(await stage.client(clock=clock)) == {}


async def test_a_worker_that_stops_during_its_first_claim_leaves_no_session_behind(
    stage: Stage,
) -> None:
    stage.expect_log("no live worker serves activity 'where'")
    asker = await stage.engine([asking])
    await asker.start("asking-1", asking, "s")
    await until(lambda: asker.handle("asking-1").jobs())
    leaving = Engine(stage.url, [where], options=options())
    has_claimed, may_hear = asyncio.Event(), asyncio.Event()
    claim_jobs = leaving._core.raw_store.claim_jobs

    async def answer_late(claim: JobClaim) -> list[ClaimedJob]:
        claimed = await claim_jobs(claim)
        has_claimed.set()
        await may_hear.wait()
        return claimed

    leaving._core.raw_store.claim_jobs = answer_late  # type: ignore[method-assign]  # a slow database
    await leaving.open()
    await has_claimed.wait()
    assert (await sessions(asker))["s"].owner == leaving.worker_id

    closing = asyncio.ensure_future(leaving.close())
    await until(lambda: leaving._serving.jobs._is_stopping)
    may_hear.set()
    await closing

    assert await sessions(asker) == {}
    worker = await stage.engine([where])
    assert await asker.handle("asking-1", asking).result() == f"{worker.worker_id} s"


async def test_an_idle_session_is_no_longer_renewed(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([visiting, where], clock=clock, options=options(name="here"))
    await (await engine.start(visiting, "s", 1)).result()
    keeper = engine._serving._sessions

    clock.advance(LEASE / 2)
    await keeper.renew()
    kept = (await sessions(engine))["s"]
    for _ in range(24):
        clock.advance(LEASE / 2)
        await keeper.renew()
    left = (await sessions(engine))["s"]

    assert kept.until_ms == kept.used_ms + to_ms(1.5 * LEASE)
    assert left.until_ms <= left.used_ms + to_ms(IDLE + LEASE)
    assert left.until_ms <= clock()


async def test_a_lost_session_does_not_end_the_job_that_runs(stage: Stage) -> None:
    gate = Gate()

    @activity(name="where")
    async def hold(ctx: ActivityContext) -> str:
        await gate.pass_through()
        return f"{ctx.worker_id} {ctx.is_cancelled}"

    asker = await stage.engine([asking], options=options(**QUICK))
    worker = await stage.engine([hold], options=options(name="worker", **QUICK))
    handle = await asker.start(asking, "s")
    await gate.reached()

    await asker._core.store.release_sessions("worker")
    await worker._serving._sessions.renew()
    assert await sessions(asker) == {}
    gate.opened.set()

    assert await handle.result() == "worker False"


async def test_a_job_that_the_owner_cannot_run_moves_its_session(stage: Stage) -> None:
    """Trap of 1.4: in a rolling upgrade a job must not return to an owner without its code."""

    @activity
    async def old(ctx: ActivityContext) -> str:
        return ctx.worker_id

    @activity
    async def new(ctx: ActivityContext) -> str:
        return ctx.worker_id

    @orchestration
    async def upgrading() -> list[str]:
        first = await old.with_options(session="s")()
        return [first, await new.with_options(session="s")()]

    stage.expect_log("no live worker serves activity 'new'")
    before = await stage.engine([upgrading, old], options=options(name="before", **QUICK))
    handle = await before.start(upgrading)
    await until(lambda: stage.logged("no live worker serves activity 'new'"))

    await stage.engine([new], options=options(name="after", **QUICK))

    assert await handle.result() == ["before", "after"]


# -------------------------------------------------------------------- renewal


async def test_a_worker_that_never_had_a_session_renews_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await stage.engine([where])
    asked: list[str] = []

    async def renew_sessions(owner: str, busy: Sequence[str], **_: int) -> list[str]:
        asked.append(owner)
        return []

    monkeypatch.setattr(engine._core.store, "renew_sessions", renew_sessions)
    await engine._serving._sessions.renew()

    assert asked == []
