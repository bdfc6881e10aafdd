"""Long histories are replayed in slices: others get their turns meanwhile, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from perdure import Decider, Decision, Engine, Signal, Status, activity, orchestration
from perdure.authoring.registry import Defined
from perdure.clock import system_clock
from perdure.errors import StoreUnavailableError
from perdure.ids import fresh_id
from perdure.model.turns import ClaimedTurn, TurnClaim
from perdure.store.base import Store, TurnLease
from perdure.turns import pace
from tests.engine.stage import Stage, options, until, waits_for

go = Signal("go", str)

STEPS = 20


class Outside:
    """What runs beside the replay: counts how often the loop goes round, and can hold slices up."""

    def __init__(self) -> None:
        self.rounds = 0
        self.seen: list[int] = []
        """The round in which each step was replayed."""
        self.hold: asyncio.Lock | None = None
        """What to take so that there are no more slices, when half of the steps are done."""
        self.is_held = asyncio.Event()
        self.opened = asyncio.Event()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.rounds += 1
            if self.hold is not None and len(self.seen) >= STEPS // 2:
                lock, self.hold = self.hold, None
                async with lock:
                    self.is_held.set()
                    await self.opened.wait()


outside = Outside()


@activity
async def add_one(number: int) -> int:
    return number + 1


@orchestration
async def long() -> str:
    number = 0
    while number < STEPS:
        number = await add_one(number)
        outside.seen.append(outside.rounds)
    return await go.receive()


DEFINITIONS: list[Defined] = [add_one, long]


@pytest.fixture(autouse=True)
async def slices(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Every stretch of a replay is a slice, as if each took long."""
    monkeypatch.setattr(pace, "SLICE_S", 0.0)
    outside.__init__()  # type: ignore[misc]  # As new.
    counting = asyncio.ensure_future(outside.run())
    yield
    counting.cancel()


async def asleep(stage: Stage) -> Engine:
    """Bring an instance with a long history to rest, and return an engine that has it not in
    memory. It replays nothing in the shadow."""
    engine = await stage.engine(DEFINITIONS)
    await waits_for(await engine.start("long", long), "signal 'go'")
    await engine.close()
    outside.seen.clear()
    return await stage.engine(DEFINITIONS, options=options(shadow_rate=0))


async def test_others_get_their_turn_between_slices(stage: Stage) -> None:
    engine = await asleep(stage)

    await engine.handle("long").send(go, "on")

    assert await engine.handle("long").result() == "on"
    assert len(outside.seen) == STEPS
    assert outside.seen == sorted({*outside.seen}), "two slices in one round"


@asynccontextmanager
async def half_replayed(stage: Stage) -> AsyncIterator[Engine]:
    """Have an instance replayed up to the middle, and go on when the block is left."""
    engine = await asleep(stage)
    outside.hold = engine._serving.turns._executions.pace._one
    await engine.handle("long").send(go, "on")
    await outside.is_held.wait()
    assert len(outside.seen) < STEPS
    yield engine
    outside.opened.set()


async def nothing_runs(engine: Engine) -> None:
    await until(lambda: not engine._serving.turns._background._tasks)


async def test_a_stop_in_the_middle_of_a_replay_leaves_no_lease(stage: Stage) -> None:
    async with half_replayed(stage) as engine:
        closing = asyncio.ensure_future(engine.close())
        await until(lambda: engine._serving.turns._executions.pace._is_closed)
    await closing

    assert len(outside.seen) < STEPS
    client = await stage.client()
    live = await client._core.store.read_live("long")
    assert live is not None
    assert live.lease == 0
    await stage.engine(DEFINITIONS)
    assert await client.handle("long").result() == "on"


async def test_a_lease_that_ran_out_in_the_middle_of_a_replay_is_used_if_no_other_worker_has_it(
    stage: Stage,
) -> None:
    async with half_replayed(stage) as engine:
        turns = engine._serving.turns
        turns.lose(turns.leases())

    assert await engine.handle("long").result() == "on"
    assert turns.refused == 0
    assert len(outside.seen) == STEPS


async def test_a_lease_that_another_worker_took_in_the_middle_of_a_replay_counts_no_attempt(
    stage: Stage,
) -> None:
    # By its clock alone the lease has run out, so that no other claim can be faster.
    ahead = await stage.client(clock=lambda: system_clock() + 3_600_000)
    async with half_replayed(stage) as engine:
        store, turns = engine._core.store, engine._serving.turns
        turns.lose(turns.leases())
        taken = await claimed_elsewhere(ahead._core.store)
        assert taken.attempts == 2
    await nothing_runs(engine)

    assert turns.refused == 1
    live = await store.read_live("long")
    assert live is not None
    assert live.attempts == 1
    await store.release_turns([TurnLease("long", taken.lease)])
    engine._serving.notice()
    assert await engine.handle("long").result() == "on"


async def claimed_elsewhere(store: Store) -> ClaimedTurn:
    """Claim the instance for another worker."""
    live = await store.read_live("long")
    assert live is not None
    assert live.definition_no is not None
    [claim] = await store.claim_turns(
        TurnClaim("other", ((live.definition_no, ""),), 1, 60_000, fresh_id())
    )
    return claim


async def test_one_that_is_claimed_here_again_in_the_middle_of_a_replay_is_replayed_for_both(
    stage: Stage,
) -> None:
    async with half_replayed(stage) as engine:
        store, turns = engine._core.store, engine._serving.turns
        [lease] = turns.leases()
        turns.lose([lease])
        await store.release_turns([lease])
        engine._serving.notice()
        await until(lambda: turns.leases() not in ([], [lease]))

    assert await engine.handle("long").result() == "on"
    assert turns.refused == 0


async def test_what_cannot_be_read_after_its_claim_is_given_back_and_counts_no_attempt(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.expect_log("a loop of the worker failed and is started again: claims")
    engine = await asleep(stage)
    store: Any = engine._core.store
    read = store.read_histories
    seen: list[int] = []

    async def fail_twice(*args: Any, **more: Any) -> Any:
        live = await store.read_live("long")
        seen.append(live.attempts)
        if len(seen) < 3:
            raise StoreUnavailableError("the server is starting up")
        return await read(*args, **more)

    monkeypatch.setattr(store, "read_histories", fail_twice)
    await engine.handle("long").send(go, "on")

    assert await engine.handle("long").result() == "on"
    assert seen == [1, 1, 1]


async def test_what_is_ended_in_the_middle_of_a_replay_stays_so(stage: Stage) -> None:
    async with half_replayed(stage) as engine:
        await engine.handle("long").terminate("enough")
    await nothing_runs(engine)

    assert (await engine.handle("long").info()).status is Status.TERMINATED
    assert engine._serving.turns.hot.get("long") is None


async def test_one_that_came_into_memory_meanwhile_takes_the_claim(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with half_replayed(stage) as engine:
        live = await engine._core.store.read_live("long")
        assert live is not None
        assert live.definition_no is not None
        monkeypatch.setattr(pace, "SLICE_S", 60.0)
        # As for an inline job of the instance.
        await engine._serving.turns._loader.warm("long", live.stamp, live.definition_no)
        hot = engine._serving.turns.hot.get("long")

    assert hot is not None
    assert await engine.handle("long").result() == "on"
    await nothing_runs(engine)
    assert engine._serving.turns.refused == 0


async def test_many_long_ones_take_turns(stage: Stage) -> None:
    engine = await stage.engine(DEFINITIONS)
    handles = [await engine.start(f"long-{n}", long) for n in range(5)]
    for handle in handles:
        await waits_for(handle, "signal 'go'")
    await engine.close()
    outside.seen.clear()

    engine = await stage.engine(DEFINITIONS, options=options(shadow_rate=0))
    for n in range(5):
        await engine.handle(f"long-{n}").send(go, str(n))

    assert [await engine.handle(f"long-{n}").result() for n in range(5)] == [*"01234"]
    assert len(outside.seen) == 5 * STEPS


# ------------------------------------------------------------------------- deciders


@dataclass(frozen=True)
class Add:
    tally_id: str


@dataclass(frozen=True)
class Added:
    pass


class Tally(Decider[int, Add, Added, str]):
    """Folds as many events as there are; no snapshot makes that short."""

    name = "tally"
    snapshot_every = 0

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Add, /) -> str:
        return input.tally_id

    def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, str]:
        return Decision.accept(Added())

    def evolve(self, state: int, event: Added, /) -> int:
        outside.seen.append(outside.rounds)
        return state + 1


async def counted(stage: Stage) -> Engine:
    """Bring a decider's instance to a long history, and return an engine that has it not in
    memory."""
    engine = await stage.engine([Tally])
    for _ in range(STEPS):
        await engine.execute(Tally, Add("t"))
    await engine.close()
    outside.seen.clear()
    return await stage.engine([Tally], options=options(shadow_rate=0))


async def test_a_long_fold_for_an_input_comes_in_slices(stage: Stage) -> None:
    engine = await counted(stage)

    await engine.execute(Tally, Add("t"))

    folded = outside.seen[:STEPS]
    assert folded == sorted({*folded}), "two slices in one round"
    assert await engine.state(Tally, "t") == STEPS + 1


async def test_a_long_fold_for_a_message_comes_in_slices(stage: Stage) -> None:
    engine = await counted(stage)

    await engine.send(Tally, Add("t"))

    await until(lambda: len(outside.seen) > STEPS)
    folded = outside.seen[:STEPS]
    assert folded == sorted({*folded}), "two slices in one round"


async def test_a_long_fold_for_a_reader_comes_in_slices(stage: Stage) -> None:
    engine = await counted(stage)

    assert await engine.state(Tally, "t") == STEPS

    assert outside.seen == sorted({*outside.seen}), "two slices in one round"


async def test_inputs_that_come_while_a_fold_goes_on_are_all_decided_once(stage: Stage) -> None:
    engine = await counted(stage)
    outside.hold = engine._serving.turns._executions.pace._one
    first = asyncio.ensure_future(engine.execute(Tally, Add("t"), input_id="first"))
    await outside.is_held.wait()

    second = asyncio.ensure_future(engine.execute(Tally, Add("t"), input_id="second"))
    await engine.send(Tally, Add("t"), input_id="third")
    outside.opened.set()

    await asyncio.gather(first, second)
    await until(lambda: is_at(engine, STEPS + 3))


async def is_at(engine: Engine, version: int) -> bool:
    return await engine.state(Tally, "t") == version


async def test_an_input_that_waits_for_a_fold_is_decided_although_the_worker_stops(
    stage: Stage,
) -> None:
    engine = await counted(stage)
    outside.hold = engine._serving.turns._executions.pace._one
    waiting = asyncio.ensure_future(engine.execute(Tally, Add("t"), input_id="one"))
    await outside.is_held.wait()

    closing = asyncio.ensure_future(engine.close())
    await until(lambda: engine._serving.turns._executions.pace._is_closed)
    outside.opened.set()
    await closing

    # Decided, or told that the engine is closed; then it can be asked again under its id.
    await asyncio.gather(waiting, return_exceptions=True)
    client = await stage.client()
    await client.execute(Tally, Add("t"), input_id="one")
    assert await client.state(Tally, "t") == STEPS + 1
