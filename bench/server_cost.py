"""What does one orchestration cost a PostgreSQL server: how much WAL, how much disk?

The arithmetic of docs/explanation/scaling.md stands on these numbers. Ids that perdure makes come
one after another and so go to few pages; random ones, as users may give them, go to any.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from uuid import uuid4

from bench.harness import Case, Measured, Meter, Setup, finish, in_flight
from bench.one_activity import WARM_UP, greet, say_hello
from perdure import Engine

SIZES = """
SELECT
    pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
    (
        SELECT sum(pg_total_relation_size(oid))
        FROM pg_class
        WHERE relnamespace = 'perdure'::regnamespace AND relkind = 'r'
    )
"""


def read_sizes(url: str) -> tuple[int, int]:
    """Return how much WAL the server has written, and how large the tables and indexes are."""
    from bench.servers import ask  # heavy

    wal, disk = ask(url, SIZES)
    return int(wal), int(disk)


async def with_random_id(engine: Engine) -> None:
    """Start an instance under an id that is like no other, and wait for its result."""
    await (await engine.start(str(uuid4()), greet, "Ada")).result()


async def measure(
    setup: Setup, ids: str, work: Callable[[Engine], Coroutine[Any, Any, Any]]
) -> list[Measured]:
    """Run many at once; return what one of them cost."""
    count = setup.size(2_000, quick=100)
    async with setup.engine([say_hello, greet]) as engine:
        await in_flight(WARM_UP, WARM_UP, lambda: work(engine))
        wal_before, disk_before = read_sizes(setup.url)
        with Meter(engine._core.store) as meter:
            await in_flight(count, count, lambda: work(engine))
        wal, disk = read_sizes(setup.url)
    measured = partial(meter.measured, units=count, per="orchestration")
    return [
        measured(f"WAL of one orchestration, {ids}", (wal - wal_before) / count, "bytes"),
        measured(f"disk of one orchestration, {ids}", (disk - disk_before) / count, "bytes"),
    ]


async def made_ids(setup: Setup) -> list[Measured]:
    """Ids that perdure makes."""
    return await measure(setup, "ids made", lambda engine: finish(engine, greet, "Ada"))


async def random_ids(setup: Setup) -> list[Measured]:
    """Ids that are all over the place."""
    return await measure(setup, "random ids", with_random_id)


CASES = (
    Case(name="server_cost", run=made_ids, store="postgresql"),
    Case(name="server_cost/random_ids", run=random_ids, store="postgresql"),
)
