"""A page of a list costs the same however many instances there are, and pages miss nothing.

The limits are small here, so that some thousand instances are as many as a million are otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from perdure.model.admin import InstanceFilter, PageMark
from perdure.model.instances import Status, part_of
from perdure.store.postgres import readers
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import PostgresConnection
from perdure.store.sql.connection import Connection
from perdure.store.sql.questions import lists
from perdure.store.sqlite.connection import connect
from perdure.store.sqlite.database import migrate
from tests.postgres import Server
from tests.store import plans

SIZES = (2_000, 8_000)
LIMIT = 10
OLD = range(9, 60)
"""The numbers of definitions that nobody starts any more."""


class Planted(NamedTuple):
    """An instance."""

    instance_id: str
    definition_no: int
    name: str
    version: str
    status: Status
    created_ms: int
    ended_ms: int | None
    parent_id: str | None
    tag: str | None


@cache
def planted(size: int) -> list[Planted]:
    """Return instances of many sorts, the oldest first. Some sorts have few, however many there
    are; of the others there are four times as many in a store of four times the size."""
    return [one_of(n, size) for n in range(size)]


def one_of(n: int, size: int) -> Planted:
    """Return one of so many instances."""
    number = 8 if n in (5, size // 2) else 1 + n % 7
    if n < 200:
        number = OLD[n % len(OLD)]
    status = {0: Status.FAILED, 1: Status.CANCELLED, 2: Status.RUNNING}.get(
        n % 20, Status.COMPLETED
    )
    head = "rare" if n in (7, 300, size - 3) else "ab"[n % 2]
    return Planted(
        instance_id=f"{head}-{n}",
        definition_no=number,
        name={8: "rare"}.get(number, f"n{number}" if number < 8 else "old"),
        version="1.0.0" if number < 9 else f"0.{number}.0",
        status=status,
        created_ms=1_000 + n // 3,
        ended_ms=None if status is Status.RUNNING else 5_000 + n,
        parent_id={3: "many", 4: "few" if n < 90 else None}.get(n % 20),
        tag=None if status is not Status.RUNNING else "gpu" if n > 100 else "tpu",
    )


def definitions() -> list[tuple[int, str, str, str, int]]:
    """Return the definitions of the planted instances, and queues for their jobs."""
    named = [(number, "orchestration", f"n{number}", "1.0.0", 1) for number in range(1, 8)]
    rare = (8, "orchestration", "rare", "1.0.0", 1)
    old = [(number, "orchestration", "old", f"0.{number}.0", 1) for number in OLD]
    queues = [(100, "activity", "work", "gpu", 0), (101, "activity", "work", "tpu", 0)]
    return [*named, rare, *old, *queues]


def rows_of(size: int) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of tables."""
    found: dict[str, list[tuple[Any, ...]]] = {"instances": [], "live": [], "jobs": []}
    for one in planted(size):
        part = part_of(one.instance_id)
        found["instances"].append(
            (
                *(part, one.instance_id, 1, 1, one.definition_no, one.status.value),
                *(one.created_ms, one.created_ms, one.ended_ms, one.parent_id, 1, 1, b"null"),
            )
        )
        if one.status is Status.RUNNING:
            found["live"].append(
                (part, one.instance_id, one.definition_no, 1, 1, 2, 0, 0, 0, 0, 1, 0)
            )
            queue_no = 100 if one.tag == "gpu" else 101
            found["jobs"].append(
                (part, one.instance_id, 1, 1, 2, queue_no, 0, 0, 1, 0, 0, b"{}", b"null")
            )
    return found


COLUMNS = {
    "instances": "part, instance_id, incarnation, execution, definition_no, status, created_ms,"
    " updated_ms, ended_ms, parent_id, parent_incarnation, last_commit, input",
    "live": "part, instance_id, definition_no, incarnation, execution, next_seq, lease,"
    " lease_until_ms, last_no, last_at_ms, last_commit, attempts",
    "jobs": "part, instance_id, incarnation, execution, seq, queue_no, visible_at_ms, token,"
    " attempt, lost, created_ms, policy, input",
}


def is_wanted(one: Planted, wanted: InstanceFilter) -> bool:
    """Return whether an instance belongs into a list, the plain way."""
    return (
        (not wanted.statuses or one.status in wanted.statuses)
        and wanted.name in (None, one.name)
        and wanted.version in (None, one.version)
        and one.instance_id.startswith(wanted.id_prefix or "")
        and wanted.tag in (None, one.tag)
        and wanted.parent_id in (None, one.parent_id)
        and (not wanted.roots_only or one.parent_id is None)
        and one.created_ms >= (wanted.created_from_ms or 0)
        and one.created_ms < (wanted.created_before_ms or 2**62)
        and (
            wanted.ended_before_ms is None
            or (one.ended_ms is not None and one.ended_ms < wanted.ended_before_ms)
        )
    )


def filters() -> list[InstanceFilter]:
    """Return every condition by itself, and many combinations."""
    choices: dict[str, list[Any]] = {
        "name": [None, "n1", "rare", "old", "never"],
        "statuses": [
            (),
            (Status.COMPLETED,),
            (Status.RUNNING,),
            (Status.FAILED,),
            (Status.RUNNING, Status.FAILED, Status.CANCELLED),
            (Status.PARKED,),
        ],
        "id_prefix": [None, "a-", "rare", "never"],
        "tag": [None, "gpu", "tpu"],
        "parent_id": [None, "many", "few"],
        "roots_only": [False, True],
        "created_from_ms": [None, 1_200],
        "created_before_ms": [None, 1_300],
        "ended_before_ms": [None, 5_100],
        "version": [None, "0.10.0"],
    }
    alone = [
        InstanceFilter(**{name: value}) for name, values in choices.items() for value in values
    ]
    every = list(product(*choices.values()))
    mixed = random.Random(12).sample(every, 100)
    pairs = [
        InstanceFilter(**{one: choices[one][-1], other: choices[other][1]})
        for one, other in product(choices, choices)
        if one < other
    ]
    return [
        *alone,
        *pairs,
        *(InstanceFilter(**dict(zip(choices, row, strict=True))) for row in mixed),
    ]


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "LOOKS", 200)
    monkeypatch.setattr(lists, "FEW", 60)
    monkeypatch.setattr(lists, "AT_ONCE", 4)


def listed(connection: Connection, wanted: InstanceFilter) -> list[str]:
    """Return all pages of a list."""
    found: list[str] = []
    after: PageMark | None = None
    while True:
        page = lists.list_page(connection, wanted, limit=LIMIT, after=after)
        assert len(page.rows) <= LIMIT
        found += [row.instance_id for row in page.rows]
        if page.next is None:
            return found
        assert after is None or page.next < after
        after = page.next


def expected(size: int, wanted: InstanceFilter) -> list[str]:
    """Return what belongs into a list, in its order."""
    found = [one for one in planted(size) if is_wanted(one, wanted)]
    found.sort(key=lambda one: (one.created_ms, one.instance_id), reverse=True)
    return [one.instance_id for one in found]


def costs(
    cost: Callable[[int, InstanceFilter], int], asked: list[InstanceFilter]
) -> dict[str, tuple[int, int]]:
    """Return for which lists a page of the larger store costs more than one of the smaller."""
    found = {}
    for wanted in asked:
        small, large = [cost(size, wanted) for size in SIZES]
        if large > small * 1.5 + 20:
            found[repr(wanted)] = (small, large)
    return found


# ------------------------------------------------------------------------- SQLite


def sqlite_with(path: Path, size: int) -> Any:
    """Return a connection to a file with so many instances."""
    connection = connect(str(path), busy_ms=0)
    migrate(connection, where=str(path), now_ms=0)
    connection.run("begin")
    connection.run_own_many("INSERT INTO definitions VALUES (?, ?, ?, ?, ?)", definitions())
    for table, rows in rows_of(size).items():
        marks = ", ".join("?" * len(rows[0]))
        text = f"INSERT INTO {table} ({COLUMNS[table]}) VALUES ({marks})"  # noqa: S608  # all of it is above
        connection.run_own_many(text, rows)
    connection.run("commit")
    return connection


def test_every_list_has_what_belongs_into_it_on_sqlite(tmp_path: Path) -> None:
    size = SIZES[0]
    connection = sqlite_with(tmp_path / "shop.db", size)

    for wanted in filters():
        ids = expected(size, wanted)
        assert listed(connection, wanted) == ids, wanted
        assert lists.count_instances(connection, wanted) == len(ids), wanted
        rows = lists.list_instances(connection, wanted, limit=30, after=None)
        assert [row.instance_id for row in rows] == ids[:30], wanted
    connection.close()


def test_a_page_of_any_list_costs_the_same_in_a_larger_store_on_sqlite(tmp_path: Path) -> None:
    connections = {size: sqlite_with(tmp_path / f"{size}.db", size) for size in SIZES}
    taken = [0]

    def step() -> int:
        taken[0] += 1
        return 0

    for connection in connections.values():
        connection.bare.set_progress_handler(step, 100)

    def cost(size: int, wanted: InstanceFilter) -> int:
        taken[0] = 0
        lists.list_page(connections[size], wanted, limit=LIMIT, after=None)
        return taken[0]

    assert costs(cost, filters()) == {}
    for connection in connections.values():
        connection.close()


def test_a_count_looks_at_more_in_a_larger_store_on_sqlite(tmp_path: Path) -> None:
    """Or the test above could not fail."""
    connections = {size: sqlite_with(tmp_path / f"{size}.db", size) for size in SIZES}
    taken = {size: [0] for size in SIZES}
    for size, connection in connections.items():
        steps = taken[size]
        connection.bare.set_progress_handler(lambda steps=steps: steps.append(0) or 0, 100)

    for connection in connections.values():
        lists.count_instances(connection, InstanceFilter(roots_only=True))
        connection.close()

    assert len(taken[SIZES[1]]) > 3 * len(taken[SIZES[0]])


# --------------------------------------------------------------------- PostgreSQL


@pytest.fixture
def servers(postgres: Server, postgres_template: str) -> Iterator[dict[int, PostgresConnection]]:
    """Two databases, of which nobody has looked at the statistics, as readers see them."""
    urls = {size: postgres.create_database(template=postgres_template) for size in SIZES}
    for size, url in urls.items():
        with psycopg.connect(url) as filling:
            filling.cursor().executemany(
                "INSERT INTO perdure.definitions"
                " (definition_no, kind, name, variant, behaviour) VALUES (%s, %s, %s, %s, %s)",
                definitions(),
            )
            for table, rows in rows_of(size).items():
                text = f"COPY perdure.{table} ({COLUMNS[table]}) FROM STDIN"
                with filling.cursor().copy(text.encode()) as copy:
                    for row in rows:
                        copy.write_row(row)
    connections = {size: PostgresConnection(Address.parse(url)) for size, url in urls.items()}
    for connection in connections.values():
        connection.run_script(readers.BEGIN)
    yield connections
    for connection in connections.values():
        connection.close()
    for url in urls.values():
        postgres.drop_database(url)


def test_lists_on_postgres(servers: dict[int, PostgresConnection]) -> None:
    """They have what belongs into them, and a page costs the same in a larger store."""

    def cost(size: int, wanted: InstanceFilter) -> int:
        connection = servers[size]
        before = plans.looked_at(lambda text: connection.run_own(text, ()))
        lists.list_page(connection, wanted, limit=LIMIT, after=None)
        return (plans.looked_at(lambda text: connection.run_own(text, ())) - before).total()

    size = SIZES[0]
    for wanted in filters()[::4]:
        ids = expected(size, wanted)
        assert listed(servers[size], wanted) == ids, wanted
        assert lists.count_instances(servers[size], wanted) == len(ids), wanted
    assert costs(cost, filters()[::2]) == {}


def test_a_prefix_ends_where_the_next_text_begins() -> None:
    ends = {text: lists._end_of(text) for text in ("a", "az", "a\ud7ff", "a\U0010ffff", "")}

    assert ends == {"a": "b", "az": "a{", "a\ud7ff": "a\ue000", "a\U0010ffff": "b", "": None}
    assert lists._end_of("\U0010ffff") is None
