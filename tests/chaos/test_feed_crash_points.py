"""Statements at which a process can die while projections, subscriptions and orchestrations read
the events of deciders: each commit, and every other once; with PERDURE_CHAOS_FULL=1 each time it is
run.

Whatever dies, the tables of a projection have each event once, one that writes elsewhere has missed
none, a subscription has sent for each once, and an orchestration got the event that it waits for.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import pytest

from perdure import Accepted
from perdure.model.tables import Parameters
from perdure.store.sqlite.store import SqliteStore
from tests.chaos import feed_scenario as scenario
from tests.chaos.crashing import OPTIONS, HandDriven, Life, Step, World
from tests.chaos.feed_scenario import Close, Tally, Ticket, Work
from tests.chaos.statements import (
    PLACES,
    StatementFault,
    StatementStore,
    chosen_of,
    points_of,
    sqlite_of,
)
from tests.chaos.test_decider_crash_points import MAX_SURVIVED, Log, follow, look_at
from tests.sizes import IS_FULL, WITHIN_S

OWN = "own"
"""A statement of the projection's own."""

SHOWN_ELSEWHERE = ("intern", "find_blocked", "beat", "bury_workers", "queue_depths")
"""What a process does when it begins is the same in the sweep of deciders without readers."""

# ------------------------------------------------------------------ what a client does


async def begin(engine: HandDriven) -> None:
    outcome = await engine.execute(Ticket, Work("t", "opened"), input_id="begin")
    assert isinstance(outcome, Accepted)


async def start_watch(engine: HandDriven) -> None:
    await engine.start("watch", scenario.watch, "t")


async def go_on(engine: HandDriven) -> None:
    await engine.execute(Ticket, Work("t", "repaired"), input_id="go on")


async def send(engine: HandDriven) -> None:
    await engine.send(Ticket, Work("u", "opened"), input_id="another")


async def close(engine: HandDriven) -> None:
    await engine.execute(Ticket, Close("t"), input_id="close")


async def read(engine: HandDriven) -> None:
    """Let the readers run until they have handled all that there is."""
    await run_readers(engine, lambda: are_through(engine))


async def read_to_the_end(engine: HandDriven) -> None:
    """Also what the subscription and the orchestration still lead to."""

    async def is_the_end() -> bool:
        if not (await engine.handle("watch").info()).status.is_terminal:
            return False
        counted = [await engine.state(Tally, one) for one in ("fed", "watched")]
        return counted == [4, 2] and await are_through(engine)

    await run_readers(engine, is_the_end)


async def run_readers(engine: HandDriven, is_enough: Callable[[], Awaitable[bool]]) -> None:
    tasks = [asyncio.create_task(run()) for run in engine.serving._duties.values()]
    try:
        while not await is_enough():
            await engine.until_idle()
            await asyncio.sleep(0.001)
            await engine.pass_time()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def are_through(engine: HandDriven) -> bool:
    end = await engine._core.store.feed.feed_end()
    found = {one.name: one.pos for one in await engine._core.store.feed.read_checkpoints()}
    # A subscription writes down seldom what it only passes over.
    fed = await engine._core.store.feed.read_feed(
        after=found.get("fed", 0), limit=1, deciders=["ticket"]
    )
    return found.get("kept") == found.get("heard") == end and not fed[0]


SCRIPT: Sequence[Step] = [begin, start_watch, read, go_on, send, close, read_to_the_end]

# --------------------------------------------------------------- what is left in the end


class Left(NamedTuple):
    """What a run has led to."""

    logs: dict[str, Log]
    kept: Counter[tuple[str, int]]
    """Rows of the projection, each with how often it is there."""
    heard: dict[str, tuple[str, ...]]
    """What the other projection was given of each instance in order, without repetitions."""


class FeedWorld(World):
    """A world with a list that a projection writes to."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        super().__init__(SCRIPT, OPTIONS, scenario.definitions(self.heard), settles=True)


async def see(world: FeedWorld) -> Left:
    rows = await sqlite_of(world).work(
        lambda t: t.connection.run_own("SELECT line, half FROM kept", ())
    )
    heard: dict[str, tuple[str, ...]] = {}
    for line in dict.fromkeys(world.heard):
        of = " ".join(line.split()[:2])
        heard[of] = (*heard.get(of, ()), line)
    return Left(await look_at(world), Counter(rows), heard)


# -------------------------------------------------------------------------- the processes


class OwnStatementStore(StatementStore):
    """Counts the statements of a projection too."""

    def __init__(self, store: SqliteStore, fault: StatementFault | None) -> None:
        super().__init__(store, fault)
        assert store._writer is not None
        connection: Any = store._writer._connection
        run_own = type(connection).run_own.__get__(connection)

        def counted(text: str, parameters: Parameters) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]]
            if text.startswith("INSERT") or text.startswith("CREATE"):
                names = self.transaction.writes_of([OWN])
                rows = self.pass_on(names, lambda: run_own(text, parameters), lambda: None)
            else:
                rows = run_own(text, parameters)
            return rows

        connection.run_own = counted


def new_life(world: World, fault: StatementFault | None = None) -> Life:
    return world.new_life().on(OwnStatementStore(sqlite_of(world), fault))


class Undisturbed(NamedTuple):
    """What a run without faults tells about the others."""

    statements: Counter[str]
    left: Left
    heard: list[str]


@pytest.fixture(scope="module")
def undisturbed() -> Undisturbed:
    async def run() -> Undisturbed:
        async with FeedWorld() as world:
            life = new_life(world)
            await follow(lambda: life)
            assert isinstance(life.store, StatementStore)
            return Undisturbed(life.store.statements, await see(world), world.heard)

    return asyncio.run(run())


def test_the_scenario_has_everything_in_it(undisturbed: Undisturbed) -> None:
    logs, kept, heard = undisturbed.left

    assert {name: log.status for name, log in logs.items()} == {
        "watch": "completed",
        "ticket:t": "completed",
        "ticket:u": "running",
        "tally:fed": "running",
        "tally:watched": "running",
    }
    assert logs["watch"].output == '["repaired","1","3","2"]'
    assert {of: len(lines) for of, lines in heard.items()} == {
        "ticket t": 3,
        "ticket u": 1,
        "tally fed": 4,
        "tally watched": 2,
    }
    assert len(undisturbed.heard) == 10
    assert kept == Counter({(one, half): 1 for one in undisturbed.heard for half in (1, 2)})
    assert {"advance_feed", "claim_feed", OWN, "end_part"} <= set(undisturbed.statements)


@pytest.mark.timeout(1_200 if IS_FULL else 600)
@pytest.mark.parametrize("place", PLACES)
async def test_a_process_may_die_at_any_statement_while_events_are_read(
    place: str, undisturbed: Undisturbed, chance: random.Random
) -> None:
    found = [
        point for point in points_of(undisturbed.statements) if point.name not in SHOWN_ELSEWHERE
    ]
    points = chosen_of(found, place, chance)
    wrong: list[str] = []
    survived: list[StatementFault] = []

    async def run(world: FeedWorld, point: StatementFault) -> Left:
        first = new_life(world, point)
        await follow(lambda: first, lambda: new_life(world))
        if not first.store.struck.is_set():
            survived.append(point)
        return await see(world)

    for point in points:
        try:
            async with asyncio.timeout(WITHIN_S), FeedWorld() as world:
                left = await run(world, point)
        except (AssertionError, TimeoutError) as error:
            wrong.append(f"{point}: {error!r}")
            continue
        if left != undisturbed.left:
            wrong.append(f"{point}: {left}")

    assert wrong == []
    # What shares a transaction depends on time, and so does, a little, how many there are.
    assert len(survived) <= len(found) * MAX_SURVIVED / len(PLACES), survived
