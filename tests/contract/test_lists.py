"""What every store does with lists and counts of instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perdure.clock import ManualClock
from perdure.errors import RowError
from perdure.model.admin import PAGE_MAX, InstanceFilter, PageMark
from perdure.model.instances import DefinitionKey, InstanceRow, Status
from perdure.model.turns import Hold
from perdure.store.base import Store
from tests.contract.store_values import (
    COMPLETED,
    QUEUE,
    STARTED,
    accepted,
    begun,
    ended,
    first_turn,
    job,
    message,
    new_instance,
    next_turn,
    outcome,
)

EVERYTHING = InstanceFilter()
GPU = DefinitionKey("activity", "say_hello", "gpu")
OLD = DefinitionKey("orchestration", "greet", "0.9.0", 1)
OTHER = DefinitionKey("orchestration", "other", "1.0.0", 1)
HOSTILE = ["%", "_", "a%", "a_", "\\", "'", "' OR '1'='1", "*", "a?", "[a-z]", '"', "a\0", "\0"]


async def started(store: Store, *ids: str, **fields: Any) -> None:
    """Start instances that run; each is a little younger than the one before."""
    for number, instance_id in enumerate(ids):
        fields_of = {"created_ms": 100 + number, **fields}
        await accepted(store, first_turn(new_instance(instance_id, **fields_of)))


async def ended_as(store: Store, instance_id: str, status: Status, **fields: Any) -> None:
    """Start and end an instance."""
    turn = first_turn(
        new_instance(instance_id, **fields),
        events=(STARTED, COMPLETED),
        outcome=outcome(status),
    )
    await accepted(store, turn)


async def held_as(store: Store, instance_id: str, status: Status, **fields: Any) -> None:
    """Start an instance and hold it."""
    start = new_instance(instance_id, **fields)
    turn = first_turn(start)
    await accepted(store, turn)
    hold = Hold(instance_id, turn.next_stamp, 0, status, "*", "why")
    assert await store.hold([hold]) == [True]


async def one_of_each(store: Store) -> None:
    """Make an instance of every status, named after it, in the order of `Status`."""
    for number, status in enumerate(Status):
        created = {"created_ms": 100 + number}
        if status is Status.RUNNING:
            await started(store, status.value, **created)
        elif status.is_terminal:
            await ended_as(store, status.value, status, **created)
        else:
            await held_as(store, status.value, status, **created)


def ids_of(rows: Sequence[InstanceRow]) -> list[str]:
    """Return the ids of rows."""
    return [row.instance_id for row in rows]


def mark_of(row: InstanceRow) -> PageMark:
    """Return where a page that ends with a row ends."""
    return PageMark(row.created_ms, row.instance_id)


async def listed(store: Store, filter: InstanceFilter = EVERYTHING) -> list[str]:
    """Return the ids of all instances of a sort, and check that they are counted right."""
    ids = ids_of(await store.admin.list_instances(filter, limit=PAGE_MAX))
    assert await store.admin.count_instances(filter) == len(ids)
    return ids


async def paged(store: Store, filter: InstanceFilter = EVERYTHING, *, size: int) -> list[list[str]]:
    """Return the ids of all pages."""
    pages: list[list[str]] = []
    after: PageMark | None = None
    while rows := await store.admin.list_instances(filter, limit=size, after=after):
        pages.append(ids_of(rows))
        after = mark_of(rows[-1])
    return pages


class TestLists:
    """Pages of instances, newest first."""

    async def test_the_newest_come_first_and_ties_by_id(self, store: Store) -> None:
        await started(store, "b", "a", "d", created_ms=7)
        await started(store, "old", created_ms=6)
        await started(store, "new", created_ms=8)

        assert await listed(store) == ["new", "d", "b", "a", "old"]

    async def test_pages_go_on_where_the_last_one_has_ended(self, store: Store) -> None:
        await started(store, "a", "b", "c", "d", "e")

        first = await store.admin.list_page(EVERYTHING, limit=2)
        second = await store.admin.list_page(EVERYTHING, limit=2, after=first.next)
        third = await store.admin.list_page(EVERYTHING, limit=2, after=second.next)

        pages = [[row.instance_id for row in page.rows] for page in (first, second, third)]
        assert pages == [["e", "d"], ["c", "b"], ["a"]]
        assert third.next is None

    async def test_a_listed_row_is_the_row(self, store: Store) -> None:
        await one_of_each(store)
        names = [status.value for status in reversed(Status)]

        rows = await store.admin.list_instances(EVERYTHING, limit=10)

        assert rows == await store.read_instances(names)

    async def test_pages_follow_each_other_without_gap_or_repeat(self, store: Store) -> None:
        await started(store, *(f"i{number}" for number in range(7)), created_ms=5)

        pages = await paged(store, size=3)

        assert pages == [["i6", "i5", "i4"], ["i3", "i2", "i1"], ["i0"]]

    async def test_pages_stay_in_place_while_instances_come_and_go(self, store: Store) -> None:
        await started(store, *(f"i{number}" for number in range(6)))
        first = await store.admin.list_instances(EVERYTHING, limit=2)
        mark, last = mark_of(first[-1]), first[-1]
        await started(store, "newer", created_ms=900)
        [next_one] = await store.admin.list_instances(EVERYTHING, limit=1, after=mark)
        gone = [(row.instance_id, row.incarnation) for row in (last, next_one)]
        assert await store.admin.delete(gone, force=True) is not None

        second = await store.admin.list_instances(EVERYTHING, limit=2, after=mark)

        assert ids_of(first) == ["i5", "i4"]
        assert ids_of(second) == ["i2", "i1"]

    @pytest.mark.parametrize("limit", [0, -1, -(2**62)])
    async def test_a_page_of_nothing_is_empty(self, store: Store, limit: int) -> None:
        await started(store, "i")

        assert await store.admin.list_instances(EVERYTHING, limit=limit) == []

    async def test_a_page_has_a_largest_size(self, store: Store) -> None:
        many = [new_instance(f"i{number:03}") for number in range(PAGE_MAX + 2)]
        await store.start(many)

        page = await store.admin.list_instances(EVERYTHING, limit=2**70)
        rest = await store.admin.list_instances(EVERYTHING, limit=PAGE_MAX, after=mark_of(page[-1]))

        assert (len(page), len(rest)) == (PAGE_MAX, 2)
        assert await store.admin.count_instances(EVERYTHING) == PAGE_MAX + 2

    async def test_an_empty_store_has_nothing_to_list(self, store: Store) -> None:
        for status in Status:
            assert await listed(store, InstanceFilter(statuses=(status,))) == []
        assert await listed(store) == []
        assert await listed(store, InstanceFilter(name="never")) == []
        assert await listed(store, InstanceFilter(tag="never")) == []
        assert await listed(store, InstanceFilter(parent_id="never")) == []

    async def test_an_id_with_messages_that_was_never_started_is_no_instance(
        self, store: Store
    ) -> None:
        await store.deliver([message("unborn", if_absent="buffer")])

        assert await listed(store) == []
        assert await listed(store, InstanceFilter(statuses=(Status.RUNNING,))) == []
        assert await listed(store, InstanceFilter(instance_ids=("unborn",))) == []

    async def test_a_mark_beyond_all_times_is_the_beginning(self, store: Store) -> None:
        await started(store, "i")

        rows = await store.admin.list_instances(EVERYTHING, limit=9, after=PageMark(2**70, ""))

        assert ids_of(rows) == ["i"]
        assert await store.admin.list_instances(EVERYTHING, limit=9, after=PageMark(-1, "i")) == []

    async def test_a_text_that_cannot_be_stored_is_refused(self, store: Store) -> None:
        for asked in (
            InstanceFilter(id_prefix="\ud800"),
            InstanceFilter(instance_ids=("\ud800",)),
            InstanceFilter(instance_ids=("nul\0",)),
            InstanceFilter(parent_id="\ud800"),
            InstanceFilter(tag="\ud800"),
        ):
            with pytest.raises(RowError):
                await store.admin.list_instances(asked, limit=1)
        with pytest.raises(RowError):
            await store.admin.list_instances(EVERYTHING, limit=1, after=PageMark(1, "\ud800"))


class TestFilters:
    """Which instances a list has."""

    async def test_a_status_lists_its_own(self, store: Store) -> None:
        await one_of_each(store)

        for status in Status:
            assert await listed(store, InstanceFilter(statuses=(status,))) == [status.value]

    async def test_several_statuses_are_listed_in_one_order(self, store: Store) -> None:
        await one_of_each(store)

        for statuses in (
            (Status.RUNNING, Status.FAILED),
            (Status.FAILED, Status.PARKED, Status.FAILED),
            (Status.COMPLETED, Status.RUNNING, Status.BLOCKED),
            tuple(Status),
        ):
            expected = [status.value for status in reversed(Status) if status in statuses]
            asked = InstanceFilter(statuses=statuses)
            assert await listed(store, asked) == expected
            pages = await paged(store, asked, size=2)
            assert [one for page in pages for one in page] == expected

    async def test_names_and_versions_are_exact(self, store: Store) -> None:
        await started(store, "greet")
        await started(store, "old", definition=OLD)
        await started(store, "other", definition=OTHER)

        assert await listed(store, InstanceFilter(name="greet")) == ["old", "greet"]
        assert await listed(store, InstanceFilter(name="greet", version="0.9.0")) == ["old"]
        assert await listed(store, InstanceFilter(version="1.0.0")) == ["other", "greet"]
        assert await listed(store, InstanceFilter(name="gree")) == []
        assert await listed(store, InstanceFilter(name="")) == []

    async def test_a_prefix_is_taken_as_it_is(self, store: Store) -> None:
        await started(store, "a", "ab", "aB", "a%b", "a_b", "b", "ä", "\N{PILE OF POO}x")

        assert await listed(store, InstanceFilter(id_prefix="a")) == ["a_b", "a%b", "aB", "ab", "a"]
        assert await listed(store, InstanceFilter(id_prefix="a%")) == ["a%b"]
        assert await listed(store, InstanceFilter(id_prefix="a_")) == ["a_b"]
        assert await listed(store, InstanceFilter(id_prefix="\N{PILE OF POO}")) == [
            "\N{PILE OF POO}x"
        ]
        assert await store.admin.count_instances(InstanceFilter(id_prefix="")) == 8

    async def test_no_prefix_does_more_than_compare(self, store: Store) -> None:
        await one_of_each(store)
        await started(store, "abc")

        for prefix in HOSTILE:
            for statuses in ((), (Status.RUNNING,), (Status.FAILED,), (Status.COMPLETED,)):
                asked = InstanceFilter(id_prefix=prefix, statuses=statuses)
                assert await listed(store, asked) == [], prefix

    async def test_times_of_creation_are_half_open(self, store: Store) -> None:
        await started(store, "a", "b", "c")

        assert await listed(store, InstanceFilter(created_from_ms=101)) == ["c", "b"]
        assert await listed(store, InstanceFilter(created_before_ms=102)) == ["b", "a"]
        assert await listed(store, InstanceFilter(created_from_ms=101, created_before_ms=102)) == [
            "b"
        ]

    async def test_only_what_ended_has_ended_before(self, store: Store, clock: ManualClock) -> None:
        await started(store, "running")
        await ended_as(store, "ended", Status.FAILED)

        assert await listed(store, InstanceFilter(ended_before_ms=clock())) == []
        assert await listed(store, InstanceFilter(ended_before_ms=clock() + 1)) == ["ended"]

    async def test_children_and_roots(self, store: Store) -> None:
        parent = await begun(store, "parent")
        family = {"parent_id": "parent", "parent_incarnation": parent.incarnation}
        await started(store, "a", "b", **family)
        await ended_as(store, "c", Status.FAILED, **family)
        await ended_as(store, "alone", Status.FAILED)

        assert await listed(store, InstanceFilter(parent_id="parent")) == ["b", "a", "c"]
        assert await listed(
            store, InstanceFilter(parent_id="parent", statuses=(Status.FAILED,))
        ) == ["c"]
        assert await listed(store, InstanceFilter(parent_id="a")) == []
        assert await listed(store, InstanceFilter(roots_only=True)) == ["parent", "alone"]
        assert await listed(store, InstanceFilter(roots_only=True, parent_id="parent")) == []
        assert await listed(store, InstanceFilter(roots_only=True, statuses=(Status.FAILED,))) == [
            "alone"
        ]
        assert await listed(store, InstanceFilter(roots_only=True, statuses=(Status.RUNNING,))) == [
            "parent"
        ]

    async def test_the_children_of_a_replaced_parent_are_roots(self, store: Store) -> None:
        """Otherwise nobody who removes whole families would ever come across them."""
        old = await ended(store, "parent")
        await started(store, "child", parent_id="parent", parent_incarnation=old)
        fresh = new_instance("parent", replaces=old)
        await store.start([fresh])
        mine = {"parent_id": "parent", "parent_incarnation": fresh.incarnation}
        await started(store, "mine", created_ms=1, **mine)

        assert await listed(store, InstanceFilter(roots_only=True)) == ["child", "parent"]
        assert await listed(store, InstanceFilter(parent_id="parent")) == ["mine"]

    async def test_ids_are_looked_up_once_each(self, store: Store) -> None:
        await started(store, "a", "b", "c")
        asked = ("c", "never", "a", "c")

        assert await listed(store, InstanceFilter(instance_ids=asked)) == ["c", "a"]
        assert await listed(store, InstanceFilter(instance_ids=asked, id_prefix="a")) == ["a"]
        assert await listed(store, InstanceFilter(instance_ids=())) == []

    async def test_a_tag_is_that_of_an_open_job(self, store: Store) -> None:
        gpu, plain = job(2, queue=GPU), job(3, queue=QUEUE)
        await begun(store, "both", jobs=(gpu, job(4, queue=GPU), plain))
        await begun(store, "plain", jobs=(plain,))
        await begun(store, "session", jobs=(job(2, queue=GPU, session="s"),))
        done = await begun(store, "done", jobs=(gpu,))
        await accepted(store, next_turn("done", done, jobs_gone=(2,)))

        assert await listed(store, InstanceFilter(tag="gpu")) == ["session", "both"]
        assert await listed(store, InstanceFilter(tag="gpu", id_prefix="b")) == ["both"]
        assert await listed(store, InstanceFilter(tag="gpu", statuses=(Status.FAILED,))) == []
        assert await listed(
            store, InstanceFilter(tag="gpu", instance_ids=("plain", "session"))
        ) == ["session"]
        assert await listed(store, InstanceFilter(tag="1.0.0")) == []

    async def test_all_conditions_hold_together(self, store: Store, clock: ManualClock) -> None:
        for number, name in enumerate(["a1", "a2", "a3", "b4"]):
            await ended_as(store, name, Status.FAILED, created_ms=number, definition=OLD)
        await ended_as(store, "a5", Status.FAILED, created_ms=2)
        await ended_as(store, "a6", Status.COMPLETED, created_ms=2, definition=OLD)
        asked = InstanceFilter(
            statuses=(Status.FAILED, Status.CANCELLED),
            name="greet",
            version="0.9.0",
            id_prefix="a",
            created_from_ms=1,
            created_before_ms=3,
            ended_before_ms=clock() + 1,
            roots_only=True,
        )

        assert await listed(store, asked) == ["a3", "a2"]
        assert await paged(store, asked, size=1) == [["a3"], ["a2"]]
