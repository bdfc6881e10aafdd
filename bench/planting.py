"""Many instances at once: copies of some that were really run, under other ids.

Running a million to measure what they cost at rest would take longer than the measuring. A copy has
the rows that a run leaves, in the tables that tell of instances and in no other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from perdure.model.instances import part_of

TABLES = ("instances", "history", "live")
CHUNK = 20_000
"""How many copies are written together."""


async def plant(url: str, originals: Sequence[str], copies: int) -> None:
    """Copy instances so often that there are so many more, each a millisecond older than the one
    before."""
    for first in range(0, copies, CHUNK):
        numbers = range(first, min(first + CHUNK, copies))
        if url.startswith("postgres"):
            await _plant_on_postgres(url, originals, numbers)
        else:
            _plant_on_sqlite(url.removeprefix("sqlite:///"), originals, numbers)


def _plant_on_sqlite(path: str, originals: Sequence[str], numbers: range) -> None:
    connection = sqlite3.connect(path)
    for table in TABLES:
        found = connection.execute(
            f"SELECT * FROM {table} WHERE instance_id IN ({_marks(originals)})",  # noqa: S608
            originals,
        )
        columns = [one[0] for one in found.description]
        rows = _copies(columns, found.fetchall(), originals, numbers)
        connection.executemany(
            f"INSERT INTO {table} VALUES ({_marks(columns)})",  # noqa: S608
            rows,
        )
    connection.commit()
    connection.close()


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


async def _plant_on_postgres(url: str, originals: Sequence[str], numbers: range) -> None:
    import asyncpg  # late: those who measure SQLite may not have it

    connection = await asyncpg.connect(url)
    for table in TABLES:
        found = await connection.fetch(
            f"SELECT * FROM perdure.{table} WHERE instance_id = ANY ($1)",  # noqa: S608
            list(originals),
        )
        if found:
            columns = list(found[0].keys())
            rows = _copies(columns, [tuple(row) for row in found], originals, numbers)
            await connection.copy_records_to_table(
                table, schema_name="perdure", columns=columns, records=rows
            )
    await connection.close()


def _copies(
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    originals: Sequence[str],
    numbers: range,
) -> Iterator[tuple[Any, ...]]:
    part, name = columns.index("part"), columns.index("instance_id")
    created = columns.index("created_ms") if "created_ms" in columns else None
    of_original: dict[str, list[tuple[Any, ...]]] = {one: [] for one in originals}
    for row in rows:
        of_original[row[name]].append(row)
    for number in numbers:
        original = originals[number % len(originals)]
        instance_id = f"{original}-{number}"
        for row in of_original[original]:
            copy = list(row)
            copy[part], copy[name] = part_of(instance_id), instance_id
            if created is not None:
                copy[created] -= number
            yield tuple(copy)
