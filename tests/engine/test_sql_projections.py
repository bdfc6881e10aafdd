"""Projections whose tables are in the store: each event is written down exactly once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from perdure import Engine
from perdure.authoring.deciders.decider_definition import AnyDecider
from perdure.authoring.registry import Registry
from perdure.errors import DefinitionError, RowError
from perdure.model.options import Retry
from perdure.projection import EventMeta, SqlProjection, Tables
from tests import rows
from tests.engine.fed import Order, Placed, Recorder, Shipped
from tests.engine.projecting import Kept, orders_in
from tests.engine.stage import Stage, options, until
from tests.engine.test_projections import QUICK, SHORT, is_stuck, orders, record

ONCE = Retry(max_attempts=1)


async def has_handled(stage: Stage, count: int) -> None:
    client = await stage.client()

    async def look() -> bool:
        return any(one.position >= count for one in await client.projections())

    await until(look)


async def test_events_are_written_to_the_projections_own_table(stage: Stage) -> None:
    engine = await stage.engine([Kept()])

    await record(engine, Placed("o-1"), Placed("o-2"), Shipped("o-1"))
    await has_handled(stage, 3)

    assert orders_in(stage.url) == [
        ("o-1", "placed", 1),
        ("o-2", "placed", 1),
        ("o-1", "shipped", 1),
    ]


async def test_rows_and_position_are_one_commit(stage: Stage) -> None:
    """Whoever reads both in one moment sees as many rows as the position says."""
    engine = await stage.engine([Kept()])
    seen: set[tuple[int, int]] = set()

    async def look() -> bool:
        [(written, position)] = rows.run(
            stage.url,
            "SELECT (SELECT count(*) FROM kept), "
            "coalesce((SELECT max(pos) FROM checkpoints WHERE name = 'kept'), 0)",
        )
        seen.add((written, position))
        return bool(position == 100)

    await record(engine, *orders(1))
    await has_handled(stage, 1)
    writing = asyncio.create_task(record(engine, *orders(99, start=1)))
    await until(look)
    await writing

    assert all(written == position for written, position in seen)


async def test_a_failing_event_leaves_nothing_and_those_before_it_stay(
    stage: Stage,
) -> None:
    stage.expect_log("projection .* could not handle event .* and tries again")
    stage.expect_log("projection .* is stuck at event")

    class Failing(Kept):
        retry = QUICK

        def handle(self, event: Placed | Shipped, meta: EventMeta, tables: Tables, /) -> None:
            super().handle(event, meta, tables)
            if event.order_id == "o-2":
                raise ArithmeticError

    client = await stage.client()
    await record(client, *orders(4))
    engine = await stage.engine([Failing()])
    await until(lambda: is_stuck(engine, "kept"))

    assert orders_in(stage.url) == [("o-0", "placed", 1), ("o-1", "placed", 1)]
    assert (await engine.projection("kept")).position == 2


async def test_what_others_commit_is_not_disturbed_by_a_failing_handler(
    stage: Stage,
) -> None:
    stage.expect_log("projection .* could not handle event .* and tries again")
    stage.expect_log("projection .* is stuck at event")

    class Failing(Kept):
        retry = Retry(max_attempts=20, first_delay=timedelta(0), jitter=0)

        def handle(self, event: Placed | Shipped, meta: EventMeta, tables: Tables, /) -> None:
            super().handle(event, meta, tables)
            raise ArithmeticError

    engine = await stage.engine([Failing()])
    recorder = Recorder(engine._core.store)
    events = orders(60)
    await asyncio.gather(*(recorder.record(one.order_id, one) for one in events))
    await until(lambda: is_stuck(engine, "kept"))

    assert orders_in(stage.url) == []
    assert await engine._core.store.feed.feed_end() == 60
    assert engine._core.store.counters.halvings == 0  # type: ignore[attr-defined]  # of this store


@pytest.mark.sqlite_only("PostgreSQL has no such statement")
async def test_a_statement_that_rolls_back_for_all_hurts_only_its_projection(
    stage: Stage,
) -> None:
    stage.expect_log("projection .* is stuck at event")

    class Reckless(Kept):
        retry = ONCE

        def handle(self, event: Placed | Shipped, meta: EventMeta, tables: Tables, /) -> None:
            sql = "INSERT OR ROLLBACK INTO kept VALUES (?, ?, ?)"
            position = 1 if event.order_id == "o-1" else meta.position
            tables.execute(sql, (position, event.order_id, "placed"))

    client = await stage.client()
    await record(client, *orders(3))
    engine = await stage.engine([Reckless()])
    await until(lambda: is_stuck(engine, "kept"))
    stuck = (await engine.projection("kept")).stuck

    assert orders_in(stage.url) == [("o-0", "placed", 1)]
    assert stuck is not None
    assert "ON CONFLICT ABORT" in stuck.message


@pytest.mark.sqlite_only("on PostgreSQL a handler cannot go on after an error")
async def test_a_constraint_can_be_caught_by_the_handler(stage: Stage) -> None:
    class Catching(Kept):
        def handle(self, event: Placed | Shipped, meta: EventMeta, tables: Tables, /) -> None:
            sql = "INSERT INTO kept VALUES (?, ?, ?)"
            tables.execute(sql, (meta.position, event.order_id, "placed"))
            with pytest.raises(RowError, match="UNIQUE"):
                tables.execute(sql, (meta.position, event.order_id, "again"))

    engine = await stage.engine([Catching()])

    await record(engine, *orders(2))
    await has_handled(stage, 2)

    assert orders_in(stage.url) == [("o-0", "placed", 1), ("o-1", "placed", 1)]


async def test_a_rebuilt_projection_begins_with_empty_tables(stage: Stage) -> None:
    class Dropping(Kept):
        def reset(self, tables: Tables, /) -> None:
            tables.execute("DROP TABLE kept")

    engine = await stage.engine([Dropping()])
    await record(engine, *orders(3))
    await has_handled(stage, 3)

    await engine.rebuild_projection("kept")
    await has_handled(stage, 3)

    assert orders_in(stage.url) == [(f"o-{number}", "placed", 1) for number in range(3)]


async def test_a_reset_that_fails_keeps_the_rows_and_is_made_good_later(
    stage: Stage,
) -> None:
    stage.expect_log("projection .* is stuck in reset")
    fails = [True]

    class Failing(Kept):
        retry = ONCE

        def reset(self, tables: Tables, /) -> None:
            tables.execute("DELETE FROM kept")
            if fails:
                raise ArithmeticError

    engine = await stage.engine([Failing()])
    await record(engine, *orders(2))
    await has_handled(stage, 2)

    await engine.rebuild_projection("kept")
    await until(lambda: is_stuck(engine, "kept"))
    kept_meanwhile = orders_in(stage.url)
    fails.clear()
    await engine.resume_projection("kept")
    await has_handled(stage, 2)

    assert len(kept_meanwhile) == 2
    assert orders_in(stage.url) == [("o-0", "placed", 1), ("o-1", "placed", 1)]


async def test_two_stores_in_one_database_run_the_same_projection(postgres_url: str) -> None:
    async with (
        Engine(f"{postgres_url}?schema=a", [Kept], options=options()) as first,
        Engine(f"{postgres_url}?schema=b", [Kept], options=options()) as second,
    ):
        await record(first, Placed("o-1"))
        await record(second, Placed("o-1"), Shipped("o-1"))
        for engine, count in ((first, 1), (second, 2)):
            await until(partial(has_read, engine, count))

    assert rows.run(postgres_url, "SELECT count(*) FROM a_tables.kept") == [(1,)]
    assert rows.run(postgres_url, "SELECT count(*) FROM b_tables.kept") == [(2,)]


async def has_read(engine: Engine, count: int) -> bool:
    [found] = await engine.projections()
    return found.position == count and found.stuck is None


async def test_another_worker_goes_on_where_the_rows_end(stage: Stage) -> None:
    client = await stage.client()
    engines = [await stage.engine([Kept()], options=SHORT) for _ in range(3)]

    await record(client, *orders(30))
    await engines[0].close()
    await record(client, *orders(30, start=30))
    await engines[1].close()
    await has_handled(stage, 60)

    assert orders_in(stage.url) == [(f"o-{number}", "placed", 1) for number in range(60)]


async def test_a_store_in_memory_has_tables_too() -> None:
    url = "sqlite://:memory:"
    found: list[tuple[Any, ...]] = []

    class Telling(Kept):
        def handle(self, event: Placed | Shipped, meta: EventMeta, tables: Tables, /) -> None:
            super().handle(event, meta, tables)
            found[:] = tables.execute("SELECT position, order_id FROM kept ORDER BY position")

    async with Engine(url, [Telling()], options=options()) as engine:
        await record(engine, *orders(2))
        await until(lambda: len(found) == 2)

    assert found == [(1, "o-0"), (2, "o-1")]


async def run_process(kind: str, url: str, lines: Path, dies_at: str) -> int | None:
    """Handle events in a process of its own; return its status."""
    module = ["-m", "tests.engine.projecting", kind, url, str(lines), dies_at]
    process = await asyncio.create_subprocess_exec(sys.executable, *module)
    return await process.wait()


async def test_an_event_that_kills_its_process_each_time_is_poison(
    stage: Stage, url: str, tmp_path: Path
) -> None:
    """The first dies amid a batch, the next ones alone with it: then it is known which it was."""
    client = await stage.client()
    await record(client, *orders(9))

    codes = [await run_process("deadly", url, tmp_path, "none") for _ in range(4)]
    stuck = (await client.projection("kept")).stuck
    await client.resume_projection("kept", skip=True)
    last = await run_process("deadly", url, tmp_path, "none")

    assert (codes, last) == ([9, 9, 9, 0], 0)
    assert stuck is not None
    assert (stuck.position, stuck.instance_id, stuck.attempts) == (7, "order:o-6", 2)
    assert orders_in(stage.url) == [
        (f"o-{number}", "placed", 1) for number in range(9) if number != 6
    ]


@pytest.mark.parametrize("kind", ["sql", "plain"])
async def test_a_process_that_dies_amid_a_batch_repeats_what_cannot_be_undone(
    tmp_path: Path, driver_url: str, kind: str
) -> None:
    """Rows in the store: once for each event. Lines in a file elsewhere: at least once."""
    stage = Stage(driver_url)
    client = await stage.client()
    await record(client, *orders(20))
    lines = tmp_path / "lines"
    lines.touch()

    codes = [await run_process(kind, driver_url, lines, dies_at) for dies_at in ("7", "13", "none")]
    await stage.close()

    assert codes == [9, 9, 0]
    if kind == "sql":
        assert orders_in(driver_url) == [(f"o-{number}", "placed", 1) for number in range(20)]
    else:
        handled = lines.read_text().split()
        assert sorted(set(handled)) == sorted(f"o-{number}" for number in range(20))
        assert handled[:9] == [f"o-{number}" for number in range(8)] + ["o-0"]


# -------------------------------------------------------------------- definitions


class Waiting(SqlProjection[object]):
    name = "waiting"
    deciders: ClassVar[Sequence[type[AnyDecider]]] = (Order,)

    def setup(self, tables: Tables, /) -> None: ...

    async def handle(  # type: ignore[override]
        self, event: object, meta: EventMeta, tables: Tables, /
    ) -> None: ...


def test_a_handler_that_waits_cannot_be_in_a_transaction() -> None:
    with pytest.raises(DefinitionError, match="handle of SqlProjection Waiting is async"):
        Registry([Waiting])
