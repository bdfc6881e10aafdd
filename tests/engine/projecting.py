"""Projections for tests with processes that die.

Run as `python -m tests.engine.projecting KIND URL FILE DIES_AT`: handles all events there are, or
dies with status 9 in the middle of the event at a position.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from perdure import Engine, WorkerOptions
from perdure.authoring.deciders.decider_definition import AnyDecider
from perdure.model.options import Retry
from perdure.projection import EventMeta, Projection, SqlProjection, Tables
from tests import rows
from tests.engine.fed import Order, Placed, Shipped
from tests.engine.stage import until

OPTIONS = WorkerOptions(
    lease_for=timedelta(milliseconds=200),
    poll_max=timedelta(milliseconds=50),
    session_idle=timedelta(seconds=1),
)


class Kept(SqlProjection[Placed | Shipped]):
    """One row for each event."""

    name = "kept"
    deciders: ClassVar[Sequence[type[AnyDecider]]] = (Order,)

    def setup(self, tables: Tables, /) -> None:
        tables.execute(
            "CREATE TABLE IF NOT EXISTS kept "
            "(position INTEGER PRIMARY KEY, order_id TEXT, what TEXT)"
        )

    def handle(self, event: Placed | Shipped, meta: EventMeta, tables: Tables, /) -> None:
        what = type(event).__name__.lower()
        row = (meta.position, event.order_id, what)
        tables.execute("INSERT INTO kept VALUES (?, ?, ?)", row)


def orders_in(url: str) -> list[tuple[str, str, int]]:
    """Return the order, what happened to it and how often that is written down, oldest first."""
    return rows.run(
        url, "SELECT order_id, what, count(*) FROM kept GROUP BY 1, 2 ORDER BY min(position)"
    )


class DyingKept(Kept):
    def __init__(self, dies_at: int) -> None:
        self._dies_at = dies_at

    def handle(self, event: Placed | Shipped, meta: EventMeta, tables: Tables, /) -> None:
        super().handle(event, meta, tables)
        if meta.position == self._dies_at:
            os._exit(9)


class Deadly(Kept):
    """Ends the process at an event, every time."""

    retry = Retry(max_attempts=2)

    def handle(self, event: Placed | Shipped, meta: EventMeta, tables: Tables, /) -> None:
        if event.order_id == "o-6":
            os._exit(9)
        super().handle(event, meta, tables)


class DyingLines(Projection[Placed | Shipped]):
    """One line for each event, in a file that knows nothing of transactions."""

    name = "kept"
    deciders: ClassVar[Sequence[type[AnyDecider]]] = (Order,)

    def __init__(self, file: Path, dies_at: int) -> None:
        self._file = file
        self._dies_at = dies_at

    async def handle(self, event: Placed | Shipped, meta: EventMeta, /) -> None:
        with self._file.open("a") as file:
            file.write(f"{event.order_id}\n")
        if meta.position == self._dies_at + 1:
            os._exit(9)


async def handle_all(kind: str, url: str, file: Path, dies_at: int) -> None:
    """Run until nothing is left."""
    projection: Kept | DyingLines
    match kind:
        case "sql":
            projection = DyingKept(dies_at)
        case "deadly":
            projection = Deadly()
        case _:
            projection = DyingLines(file, dies_at)
    async with Engine(url, [projection], options=OPTIONS) as engine:

        async def is_through() -> bool:
            return any(one.behind == 0 or one.stuck for one in await engine.projections())

        await until(is_through)


if __name__ == "__main__":
    kind, url, file, dies_at = sys.argv[1:]
    number = -1 if dies_at == "none" else int(dies_at)
    asyncio.run(handle_all(kind, url, Path(file), number))
