from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from perdure import (
    ActivityContext,
    Client,
    Engine,
    Retry,
    Signal,
    Status,
    activity,
    inline,
    orchestration,
    race,
)
from perdure.authoring.registry import Defined
from perdure.clock import ManualClock
from perdure.errors import PerdureError, UsageError
from perdure.ids import fresh_id
from perdure.model.histories.events import Completed, write_event
from perdure.model.turns import Turn, TurnClaim, TurnStatus
from perdure.store.contents import Contents
from perdure.store.sql.store import SqlStore
from tests.engine.stage import Gate, Stage, has_ended, idle, kinds, options, until, waits_for
from tests.sizes import IS_FULL

go = Signal("go", str)
number = Signal("number", int)


async def contents_of(client: Client) -> Contents:
    assert isinstance(client._core.store, SqlStore)
    return await client._core.store.read_contents()


async def leases_left(stage: Stage) -> list[str]:
    """Return what is leased in the store."""
    client = await stage.client()
    contents = await contents_of(client)
    turns = [row.instance_id for row in contents.live.values() if row.lease]
    jobs = [
        f"{job.key.instance_id} job {job.key.seq}"
        for some in contents.jobs.values()
        for job in some
        if job.token or job.worker_id
    ]
    return turns + jobs


# ------------------------------------------------------------- going on elsewhere


async def test_another_engine_goes_on_and_repeats_nothing(stage: Stage) -> None:
    runs: Counter[str] = Counter()

    @activity
    async def step(name: str) -> str:
        runs[name] += 1
        return name

    @orchestration
    async def steps() -> list[str]:
        first = await asyncio.gather(step("a"), step("b"))
        said = await go.receive()
        return [*first, said, await step("c")]

    engine = await stage.engine([step, steps])
    handle = await engine.start("s", steps)
    await waits_for(handle, "signal 'go'")
    before = await handle.history()
    await engine.close()

    engine = await stage.engine([step, steps])
    await engine.handle("s").send(go, "on")

    assert await engine.handle("s").result() == ["a", "b", "on", "c"]
    assert runs == {"a": 1, "b": 1, "c": 1}
    assert (await engine.handle("s").history())[: len(before)] == before


async def test_every_kind_of_wait_survives_a_change_of_engine(stage: Stage) -> None:
    @activity
    async def double(x: int) -> int:
        return 2 * x

    @orchestration
    async def child(x: int) -> int:
        await go.receive()
        return await double(x)

    @orchestration
    async def parent() -> list[Any]:
        async with asyncio.TaskGroup() as group:
            inner = group.create_task(child.with_options(instance_id="c")(21))
            timed = group.create_task(asyncio.sleep(0.02, "slept"))
            signal = group.create_task(number.receive())
            local = group.create_task(inline(lambda: "inlined", name="local"))
        return [inner.result(), timed.result(), signal.result(), local.result()]

    definitions: list[Defined] = [double, child, parent]
    for _ in range(3):
        engine = await stage.engine(definitions)
        await engine.start("p", parent)
        await engine.close()
    engine = await stage.engine(definitions)
    await engine.handle("c").send(go, "x")
    await engine.handle("p").send(number, 7)

    assert await engine.handle("p").result() == [42, "slept", 7, "inlined"]


async def test_an_activity_cut_off_by_a_stop_runs_again_elsewhere(stage: Stage) -> None:
    gate = Gate()
    attempts: list[int] = []

    @activity
    async def slow() -> str:
        attempts.append(1)
        await gate.pass_through()
        return "done"

    @orchestration
    async def acting() -> str:
        return await slow()

    engine = await stage.engine([slow, acting])
    await engine.start("a", acting)
    await gate.reached()
    await engine.close()
    assert await leases_left(stage) == []

    gate.opened.set()
    engine = await stage.engine([slow, acting])

    assert await engine.handle("a").result() == "done"
    assert len(attempts) == 2
    assert kinds(await engine.handle("a").history()).count("activity_scheduled") == 1


async def test_retries_go_on_where_they_were(stage: Stage) -> None:
    tried: list[int] = []

    @activity(retry=Retry(max_attempts=3, first_delay=timedelta(minutes=1), jitter=0))
    async def flaky(ctx: ActivityContext) -> int:
        tried.append(ctx.attempt)
        if ctx.attempt < 3:
            raise ConnectionError
        return ctx.attempt

    @orchestration
    async def acting() -> int:
        return await flaky()

    clock = ManualClock()
    for attempt in (1, 2, 3):
        engine = await stage.engine([flaky, acting], clock=clock)
        handle = await engine.start("a", acting)
        if attempt < 3:
            await waits_for(handle, f"attempt {attempt} failed")
            await engine.close()
            clock.advance(timedelta(hours=3))

    assert await engine.handle("a").result() == 3
    assert tried == [1, 2, 3]


# ----------------------------------------------------------- with and without memory


@activity
async def add(a: int, b: int) -> int:
    return a + b


@activity
def add_in_thread(a: int, b: int) -> int:
    return a + b


@orchestration
async def summed(numbers: list[int]) -> int:
    return sum(await asyncio.gather(*(add(x, 1) for x in numbers)))


@orchestration
async def everything(seed: int) -> list[Any]:
    total = await add(seed, 1)
    for _ in range(3):
        total = await add_in_thread(total, 1)
    doubled = await inline(lambda: total * 2, name="double")
    child = await summed([total, doubled])
    await asyncio.sleep(0.001)
    won, value = await race(number.receive(), asyncio.sleep(3600))
    try:
        async with asyncio.timeout(0.005):
            await go.receive()
    except TimeoutError:
        pass
    return [total, doubled, child, won, value]


@pytest.mark.parametrize("hot_instances", [0, 1, 2, 1000])
async def test_the_size_of_the_memory_does_not_change_results(
    stage: Stage, hot_instances: int
) -> None:
    engine = await stage.engine(
        [add, add_in_thread, summed, everything], options=options(hot_instances=hot_instances)
    )

    async def run(seed: int) -> list[Any]:
        handle = await engine.start(f"e-{seed}", everything, seed)
        await handle.send(number, seed)
        return await handle.result()

    results = await asyncio.gather(*(run(seed) for seed in range(12)))

    assert results == [[s + 4, 2 * s + 8, 3 * s + 14, 0, s] for s in range(12)]


async def test_without_memory_an_instance_is_replayed_at_every_turn(stage: Stage) -> None:
    engine = await stage.engine([add, summed], options=options(hot_instances=0))

    assert await (await engine.start(summed, [1, 2, 3])).result() == 9
    assert len(engine._serving.turns.hot) == 0


# -------------------------------------------------------------------- leases


async def test_a_graceful_stop_leaves_no_lease(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def slow(x: int) -> int:
        await gate.pass_through()
        return x

    @activity
    def slow_in_thread(x: int) -> int:
        return x

    @orchestration
    async def busy(x: int) -> int:
        return await slow(await slow_in_thread(x))

    engine = await stage.engine([slow, slow_in_thread, busy], options=options(async_jobs=3))
    for x in range(20):
        await engine.start(f"b-{x}", busy, x)
    await gate.reached()

    await engine.close()

    assert await leases_left(stage) == []
    client = await stage.client()
    assert await client._core.store.read_workers(seen_since_ms=0) == []


async def test_stopping_in_the_middle_of_claims_leaves_no_lease(stage: Stage) -> None:
    client = await stage.client()
    for seed in range(100):
        await client.start(f"s-{seed}", summed, [seed])

    for pause in range(0, 20, 1 if IS_FULL else 4):
        engine = await stage.engine([add, summed], options=options(claim_batch=10))
        for _ in range(pause * 3):
            await asyncio.sleep(0)
        await engine.close()
        assert await leases_left(stage) == []

    await stage.engine([add, summed])
    results = [await client.handle(f"s-{seed}", summed).result() for seed in range(100)]
    assert results == [seed + 1 for seed in range(100)]


async def test_what_a_dead_worker_held_is_taken_over_when_its_lease_ends(stage: Stage) -> None:
    clock = ManualClock()
    client = await stage.client(clock=clock)
    handle = await client.start("s", summed, [1])
    number_of = await _number_of(client, "s")
    [claim] = await client._core.store.claim_turns(
        TurnClaim("dead", ((number_of, "code"),), 10, 30_000, fresh_id())
    )
    assert "is being worked on by" in await handle.explain()

    clock.advance(timedelta(seconds=31))
    await stage.engine([add, summed], clock=clock)

    assert await handle.result() == 2
    assert claim.instance_id == "s"


async def test_the_late_commit_of_a_turn_is_refused(stage: Stage) -> None:
    clock = ManualClock()
    client = await stage.client(clock=clock)
    handle = await client.start("s", summed, [1])
    number_of = await _number_of(client, "s")
    [claim] = await client._core.store.claim_turns(
        TurnClaim("slow", ((number_of, "code"),), 10, 30_000, fresh_id())
    )
    clock.advance(timedelta(seconds=31))
    engine = await stage.engine([add, summed], clock=clock)
    assert await handle.result() == 2
    history = await handle.history()

    late = Turn(
        instance_id="s",
        stamp=claim.stamp,
        commit_id=fresh_id(),
        now_ms=clock(),
        worker_id="slow",
        lease=claim.lease,
        events=(write_event(Completed(result=msgspec.Raw(b"1"))),),
    )
    [receipt] = await client._core.store.commit([late])

    assert receipt.status is TurnStatus.REFUSED
    assert await engine.handle("s").history() == history


async def test_the_late_result_of_an_activity_is_refused(stage: Stage) -> None:
    """Its lease ran out, another worker ran it: both finish, one result is recorded."""
    clock = ManualClock()
    gates = [Gate(), Gate()]
    runs: list[int] = []

    @activity
    async def slow() -> str:
        mine = len(runs)
        runs.append(mine)
        await gates[mine].pass_through()
        return f"run {mine}"

    @orchestration
    async def acting() -> str:
        return await slow()

    distracted = options(poll_min=timedelta(seconds=10), poll_max=timedelta(seconds=10))
    first = await stage.engine([slow, acting], clock=clock, options=distracted)
    await idle(first)
    handle = await first.start("a", acting)
    await gates[0].reached()
    clock.advance(timedelta(seconds=31))
    second = await stage.engine([slow, acting], clock=clock)
    await gates[1].reached()

    gates[0].opened.set()
    # Its turn is refused; or it has heard of its loss, and given its activity up before that ended.
    await until(lambda: first._serving.turns.refused or first._serving.jobs.counts.lost)
    assert (await handle.info()).status is Status.RUNNING
    gates[1].opened.set()

    async def is_heard() -> bool:
        is_there = bool(await second._core.store.read_inbox("a"))
        return is_there or await has_ended(second, "a")

    # Its home, the first one, may hear of the result at once, or not before its long pause is over.
    await until(is_heard)
    clock.advance(timedelta(seconds=1))  # Now it has had its chance.

    assert await second.handle("a").result() == "run 1"
    assert await handle.result() == "run 1"
    assert kinds(await handle.history()).count("activity_completed") == 1


async def test_two_engines_share_the_work_of_one_store(stage: Stage) -> None:
    engines = [await stage.engine([add, summed]) for _ in range(2)]
    client = await stage.client()

    handles = [await client.start(f"s-{seed}", summed, [seed, 1]) for seed in range(100)]
    results = [await handle.result() for handle in handles]

    assert results == [seed + 3 for seed in range(100)]
    assert all(engine.health.restarts == 0 for engine in engines)


async def test_an_instance_moves_between_engines_that_both_have_it(stage: Stage) -> None:
    """Signals come through either; the one that has it in memory is not always the next."""
    first = await stage.engine([collecting])
    second = await stage.engine([collecting])
    handle = await first.start("c", collecting, 20)

    for value in range(10):
        await first.handle("c").send(number, value)
        await second.handle("c").send(number, value)

    assert sorted(await handle.result()) == sorted([*range(10), *range(10)])


@orchestration
async def collecting(count: int) -> list[int]:
    return [await number.receive() for _ in range(count)]


# ------------------------------------------------------------------ lifetimes


async def test_closing_twice_is_harmless_and_opening_again_is_refused(stage: Stage) -> None:
    engine = await stage.engine([add, summed])
    await engine.close()
    await engine.close()

    with pytest.raises(UsageError, match="this Engine is not open"):
        await engine.start(summed, [1])
    with pytest.raises(PerdureError, match=r"make a new Engine\(\.\.\.\)"):
        await engine.open()


async def test_an_engine_that_was_not_opened_says_so(stage: Stage) -> None:
    engine = Engine(stage.url, [summed])

    with pytest.raises(UsageError, match=r"use `async with Engine\(\.\.\.\)`, or await open"):
        await engine.start(summed, [1])


async def _number_of(client: Client, instance_id: str) -> int:
    live = await client._core.store.read_live(instance_id)
    assert live is not None
    assert live.definition_no is not None
    return live.definition_no
