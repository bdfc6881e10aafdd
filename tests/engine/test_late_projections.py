"""Projections that hold the store: what can be ended is, and what cannot is shown."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from perdure.authoring.registry import Registry
from perdure.errors import DefinitionError, UsageError
from perdure.model.options import Retry
from perdure.projection import EventMeta, Tables
from tests.engine.fed import Placed, Recorder, Shipped
from tests.engine.projecting import Kept, orders_in
from tests.engine.stage import Stage, until
from tests.engine.test_projections import is_stuck, orders, record
from tests.engine.test_sql_projections import has_handled
from tests.sizes import WITHIN_S

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
GROWING = (
    "INSERT INTO kept WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n) "
    "SELECT i, 'x', 'x' FROM n"
)

HOLDS = "a projection holds the store, nothing else is written: handle of kept runs for"


@pytest.fixture
async def staged(driver_url: str) -> AsyncIterator[Stage]:
    stage = Stage(driver_url)
    yield stage
    await stage.close()
    await stage.look_over()


TIMEOUT = timedelta(seconds=1)
"""What is not to hang takes less, also on a machine that is busy."""


class Late(Kept):
    """Does not return from one event."""

    retry = Retry(max_attempts=1)
    timeout = TIMEOUT

    def __init__(self, hang: Callable[[Tables], None]) -> None:
        self._hang = hang

    def handle(self, event: Placed | Shipped, meta: EventMeta, tables: Tables, /) -> None:
        super().handle(event, meta, tables)
        if event.order_id == "o-2":
            self._hang(tables)


def compute(tables: Tables) -> None:
    number = 0
    while True:
        number += 1


def swallow(tables: Tables) -> None:
    while True:
        try:
            tables.execute("SELECT 1")
        except Exception:
            continue


def select(tables: Tables) -> None:
    tables.execute(ENDLESS)


def insert(tables: Tables) -> None:
    tables.execute(GROWING)


def expect_hold(stage: Stage, hang: Callable[[Tables], None]) -> None:
    """It is said who holds the store; a statement may be ended before anybody has looked."""
    holds = "a projection holds the store"
    if hang in (compute, swallow) or stage.logged(holds):
        stage.expect_log(holds)


@pytest.mark.parametrize("hang", [compute, swallow, select, insert])
async def test_a_handler_that_never_returns_ends_as_stuck_and_all_others_go_on(
    staged: Stage, hang: Callable[[Tables], None]
) -> None:
    staged.expect_log("projection .* is stuck at event")
    client = await staged.client()
    await record(client, *orders(4))
    engine = await staged.engine([Late(hang)])
    recorder = Recorder(engine._core.store)
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*(recorder.record(f"p-{n}", Placed(f"p-{n}")) for n in range(20)))
    await until(lambda: is_stuck(engine, "kept"))
    stuck = (await engine.projection("kept")).stuck
    expect_hold(staged, hang)

    assert orders_in(staged.url) == [("o-0", "placed", 1), ("o-1", "placed", 1)]
    assert stuck is not None
    assert (stuck.instance_id, stuck.error) == ("order:o-2", "TimeoutError")
    assert "handle has taken more than 1 s" in stuck.message
    assert await engine._core.store.feed.feed_end() == 24
    assert engine.health.holds_store == ""


async def test_where_a_handler_computed_too_long_is_kept_with_its_failure(stage: Stage) -> None:
    stage.expect_log("projection .* is stuck at event")
    stage.expect_log(HOLDS)

    engine = await stage.engine([Late(compute)])
    await record(engine, *orders(3))
    await until(lambda: is_stuck(engine, "kept"))
    stuck = (await engine.projection("kept")).stuck

    assert stuck is not None
    assert stuck.message.endswith("in compute")
    assert "test_late_projections.py" in stuck.message


@pytest.mark.parametrize("hang", [compute, select, insert])
async def test_a_projection_that_never_gets_ready_is_stuck_before_any_event(
    stage: Stage, hang: Callable[[Tables], None]
) -> None:
    stage.expect_log("projection .* is stuck in setup")

    class Unready(Late):
        def setup(self, tables: Tables, /) -> None:
            super().setup(tables)
            self._hang(tables)

    engine = await stage.engine([Unready(hang)])
    await record(engine, *orders(1))
    await until(lambda: is_stuck(engine, "kept"))
    stuck = (await engine.projection("kept")).stuck
    expect_hold(stage, hang)

    assert stuck is not None
    assert (stuck.method, stuck.position, stuck.error) == ("setup", 0, "TimeoutError")
    with pytest.raises(UsageError, match=r"is not stuck at an event \(stuck in setup\)"):
        await engine.resume_projection("kept", skip=True)
    assert "setup has taken more than 1 s" in stuck.message


async def test_a_handler_that_cannot_be_interrupted_is_named_as_long_as_it_holds_the_store(
    stage: Stage,
) -> None:
    """It waits inside the operating system. When it returns, that counts as a failure."""
    stage.expect_log(HOLDS)
    stage.expect_log("projection .* could not handle event .* and tries again")
    let_go = threading.Event()

    class Waiting(Kept):
        retry = Retry(max_attempts=3, first_delay=timedelta(0), jitter=0)
        timeout = TIMEOUT

        def handle(self, event: Placed | Shipped, meta: EventMeta, tables: Tables, /) -> None:
            super().handle(event, meta, tables)
            let_go.wait()

    engine = await stage.engine([Waiting()])
    await record(engine, *orders(1))
    await until(lambda: engine.health.holds_store)
    held = engine.health.holds_store
    await until(lambda: len(stage.logged(HOLDS)) >= 2)
    let_go.set()
    await has_handled(stage, 1)

    assert held.startswith("handle of projection 'kept' has held the store for ")
    assert held.endswith("in wait")
    assert orders_in(stage.url) == [("o-0", "placed", 1)]
    assert engine.health.holds_store == ""


def test_a_projection_without_time_is_refused() -> None:
    class Hasty(Kept):
        timeout = timedelta(0)

    with pytest.raises(DefinitionError, match="timeout must be positive"):
        Registry([Hasty()])
