"""What the contract cannot show of lists and removal: every table, and how much is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.checking.invariants import check
from perdure.clock import ManualClock
from perdure.model.admin import Expiry, InstanceFilter, PageMark
from perdure.model.hints import Hint
from perdure.model.instances import DefinitionKey, NewInstance, Status
from perdure.model.streams import SentItems
from perdure.model.turns import KvChange, Snapshot, UniqueKey
from perdure.store.base import Store
from perdure.store.opening import open_store
from perdure.store.sql.questions import lists
from perdure.store.sqlite.connection import SqliteConnection, connect
from perdure.store.sqlite.store import SqliteStore
from tests.contract.store_values import (
    COMPLETED,
    FED,
    ORDER,
    PLACED,
    STARTED,
    accepted,
    begun,
    claim,
    first_turn,
    job,
    message,
    new_instance,
    next_turn,
    observed,
    outcome,
    timer,
    turn_of,
)
from tests.contract.test_admin import claim_session, continued, dead
from tests.contract.test_lists import EVERYTHING, ended_as, paged, started

GPU = DefinitionKey("activity", "say_hello", "gpu")
MANY = 3_000


def rows_of(store: Store, instance_id: str) -> dict[str, int]:
    """Count the rows of an instance in every table that knows instances."""
    assert isinstance(store, SqliteStore)
    connection = connect(store.path, busy_ms=1_000)
    tables = connection.run_text(
        "SELECT tables.name FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns"
        " WHERE tables.type = 'table' AND columns.name = 'instance_id'"
    )
    counts = {}
    for (table,) in tables:
        ids = [row[0] for row in connection.run_text(f"SELECT instance_id FROM {table}")]  # noqa: S608 (a name of the catalogue)
        counts[table] = ids.count(instance_id)
    connection.close()
    return counts


async def _fill(store: Store, clock: ManualClock) -> int:
    """Give an instance rows in every table; return its incarnation."""
    key = await dead(store)
    [claimed] = await claim(store)
    await accepted(store, turn_of(claimed))
    [live] = [await store.read_live("i")]
    assert live is not None
    stamp = await continued(store, "i", live.stamp)
    turn = next_turn(
        "i",
        stamp,
        kv=(KvChange("k", b"1"),),
        report=b"1",
        sent=(SentItems("words", (b'"a"',)),),
        jobs=(job(2), job(3, session="s")),
        timers=(timer(4, clock() + 9),),
        # From here on a decider: its rows go too.
        definition=ORDER,
        events=(PLACED,),
        feed=(FED,),
        unique=UniqueKey("order", "k"),
        snapshot=Snapshot(1, 1, b"{}"),
        observations=(observed(),),
    )
    await accepted(store, turn)
    await store.deliver([message(message_id="m")])
    return key.incarnation


async def test_a_deletion_leaves_no_row_in_any_table(store: Store, clock: ManualClock) -> None:
    """S36. A table that is added later is looked at too."""
    incarnation = await _fill(store, clock)
    before = rows_of(store, "i")

    assert await store.admin.delete([("i", incarnation)], force=True) is not None

    assert min(before.values()) > 0, "a table is not covered by this test"
    assert set(rows_of(store, "i").values()) == {0}
    assert await check(store) == []


async def test_an_id_that_was_never_started_leaves_no_row_when_it_expires(
    store: Store, clock: ManualClock
) -> None:
    await store.deliver([message("unborn", message_id="m", if_absent="buffer")])

    assert await store.admin.expire(Expiry(unborn_before_ms=clock() + 1), limit=1) == 1

    assert set(rows_of(store, "unborn").values()) == {0}


async def test_a_replaced_incarnation_leaves_nothing_to_the_next(
    store: Store, clock: ManualClock
) -> None:
    incarnation = await _fill(store, clock)
    live = await store.read_live("i")
    assert live is not None
    events = (COMPLETED,)
    await accepted(store, next_turn("i", live.stamp, events=events, outcome=outcome()))

    await store.start([new_instance(replaces=incarnation)])

    counts = rows_of(store, "i")
    assert {table for table, count in counts.items() if count} == {"instances", "live", "inbox"}


async def test_commits_beside_a_deletion_are_refused_or_deleted(
    url: str, store: Store, clock: ManualClock
) -> None:
    """Two processes' worth of stores; whichever comes first, nothing is left."""
    other = open_store(url, clock=clock)
    await other.open()
    try:
        for _ in range(20):
            stamp = await begun(store)
            turns = [next_turn("i", stamp, jobs=(job(2),), kv=(KvChange("k", b"1"),))]
            deleted, _ = await asyncio.gather(
                other.admin.delete([("i", stamp.incarnation)], force=True), store.commit(turns)
            )
            assert deleted is not None
            assert set(rows_of(store, "i").values()) == {0}
    finally:
        await other.close()


async def test_a_deletion_is_noticed_by_other_processes(
    url: str, store: Store, clock: ManualClock
) -> None:
    other = open_store(url, clock=clock)
    await other.open()
    try:
        stamp = await begun(store)
        before = store.change_count(Hint.WORK)

        await other.admin.delete([("i", stamp.incarnation)], force=True)

        assert store.change_count(Hint.WORK) != before
    finally:
        await other.close()


async def test_a_large_history_is_deleted_whole(store: Store) -> None:
    turns = []
    for number in range(50):
        start = new_instance(f"i{number}")
        turns.append(first_turn(start, events=(STARTED,) * 400, kv=(KvChange("k", b"1"),)))
    await store.commit(turns)
    chosen = [(turn.instance_id, turn.stamp.incarnation) for turn in turns]

    counts = await store.admin.delete(chosen, force=True)

    assert counts is not None
    assert (counts.instances, counts.executions, counts.events) == (50, 50, 20_000)
    assert set(rows_of(store, "i7").values()) == {0}


async def test_sessions_outlive_the_instances_that_used_them(
    store: Store, clock: ManualClock
) -> None:
    stamp = await begun(store, jobs=(job(2, session="s"),))
    await claim_session(store, "w1")

    await store.admin.delete([("i", stamp.incarnation)], force=True)

    assert [row.session for row in await store.admin.read_sessions()] == ["s"]


# ----------------------------------------------------------------- how far lists look


@pytest.fixture
async def crowded(path: Path, clock: ManualClock) -> Path:
    """Return a file with very many instances that ended and a few of each other sort."""
    store = open_store(f"sqlite:///{path}", clock=clock)
    await store.open()

    def start(name: str, number: int) -> NewInstance:
        return new_instance(name, created_ms=clock() + number)

    await store.commit(
        [
            first_turn(
                start(f"many{number:04}", number),
                events=(STARTED, COMPLETED),
                outcome=outcome(Status.COMPLETED if number > 5 else Status.FAILED),
            )
            for number in range(MANY)
        ]
    )
    parent = await begun(store, "running", jobs=(job(2, queue=GPU),))
    family = {"parent_id": "running", "parent_incarnation": parent.incarnation}
    await started(store, "child", created_ms=clock() + MANY, **family)
    await store.close()
    return path


class _Steps:
    """Counts what SQLite does, in hundreds of instructions."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self) -> int:
        self.taken += 1
        return 0


@pytest.fixture
def steps(
    crowded: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[SqliteConnection, _Steps]]:
    monkeypatch.setattr(lists, "LOOKS", 20)
    monkeypatch.setattr(lists, "FEW", 20)
    connection = connect(str(crowded), busy_ms=0)
    counter = _Steps()
    connection.bare.set_progress_handler(counter, 100)
    yield connection, counter
    connection.close()


FILTERS = {
    "everything": EVERYTHING,
    "completed": InstanceFilter(statuses=(Status.COMPLETED,)),
    "running": InstanceFilter(statuses=(Status.RUNNING,)),
    "failed": InstanceFilter(statuses=(Status.FAILED,)),
    "in trouble": InstanceFilter(
        statuses=(Status.FAILED, Status.PARKED, Status.BLOCKED, Status.RUNNING)
    ),
    "ids": InstanceFilter(instance_ids=("many0007", "never")),
    "children": InstanceFilter(parent_id="running"),
    "tag": InstanceFilter(tag="gpu"),
    "prefix": InstanceFilter(id_prefix="many"),
    "young": InstanceFilter(created_from_ms=2**60),
    "old": InstanceFilter(created_before_ms=1),
    "ended long ago": InstanceFilter(ended_before_ms=1, roots_only=True),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_common_list_does_not_look_at_everything(
    steps: tuple[SqliteConnection, _Steps], name: str
) -> None:
    connection, counter = steps

    rows = lists.list_instances(connection, FILTERS[name], limit=10, after=None)

    assert len(rows) <= 10
    assert counter.taken * 100 < 5 * MANY


def test_the_last_page_costs_as_little_as_the_first(
    steps: tuple[SqliteConnection, _Steps],
) -> None:
    connection, counter = steps
    [oldest] = lists.list_instances(
        connection, InstanceFilter(instance_ids=("many0003",)), limit=1, after=None
    )
    counter.taken = 0

    mark = PageMark(oldest.created_ms, oldest.instance_id)
    rows = lists.list_instances(connection, EVERYTHING, limit=10, after=mark)

    assert [row.instance_id for row in rows][:2] == ["many0002", "many0001"]
    assert counter.taken * 100 < 5 * MANY


@pytest.mark.parametrize("few", [0, 3, 4, 100])
@pytest.mark.parametrize("looks", [0, 1, 2, 3, 100])
async def test_running_instances_are_found_however_old_they_are(
    store: Store, monkeypatch: pytest.MonkeyPatch, few: int, looks: int
) -> None:
    monkeypatch.setattr(lists, "FEW", few)
    monkeypatch.setattr(lists, "LOOKS", looks)
    for number, status in enumerate("RCRCCCRRFC"):
        if status == "R":
            await started(store, f"i{number}", created_ms=number // 2)
        else:
            end = Status.FAILED if status == "F" else Status.COMPLETED
            await ended_as(store, f"i{number}", end, created_ms=number // 2)
    running = InstanceFilter(statuses=(Status.RUNNING,))
    both = InstanceFilter(statuses=(Status.RUNNING, Status.FAILED), created_from_ms=1)

    for size in (1, 2, 3, 9):
        pages = await paged(store, running, size=size)
        assert [one for page in pages for one in page] == ["i7", "i6", "i2", "i0"]
        assert all(len(page) == size for page in pages[:-1])
        pages = await paged(store, both, size=size)
        assert [one for page in pages for one in page] == ["i8", "i7", "i6", "i2"]


def test_a_look_at_everything_would_be_noticed(steps: tuple[SqliteConnection, _Steps]) -> None:
    connection, counter = steps

    lists.count_instances(connection, EVERYTHING)

    assert counter.taken * 100 > 5 * MANY
