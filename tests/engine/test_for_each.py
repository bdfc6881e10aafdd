"""`for_each`: very many items, a page of them a child, two events in the caller's history."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import pytest

from perdure import (
    Activity,
    Client,
    Defined,
    Orchestration,
    Page,
    Stream,
    Tally,
    activity,
    for_each,
    orchestration,
)
from perdure.authoring.builtin import paging
from perdure.errors import (
    ChildError,
    InstanceCancelledError,
    InstanceFailedError,
    TooManyFailuresError,
)
from tests.engine.stage import Gate, Stage, has_ended, kinds, options, until

ODD = "an odd number"


@dataclass(frozen=True)
class Invoice:
    number: int
    cents: int = 0


@activity
async def double(number: int) -> int:
    return number * 2


@activity
async def halve(number: int) -> int:
    if number % 2:
        raise ValueError(ODD)
    return number // 2


@activity
async def remind(invoice: Invoice) -> str:
    return f"reminded {invoice.number}"


@activity
async def hundred(after: str | None) -> Page[int]:
    first = int(after or "0")
    return Page(list(range(first, first + 20)), next=None if first == 80 else str(first + 20))


@activity
async def unpaid(after: str | None) -> Page[Invoice]:
    return Page([Invoice(1, 5), Invoice(2)], next=None)


@activity
async def nothing(after: str | None) -> Page[int]:
    return Page([], next="more" if after is None else None)


@activity
async def broken(after: str | None) -> Page[int]:
    if after is not None:
        raise ConnectionError("the invoices are out of reach")
    return Page([1, 2, 3], next="on")


@activity
async def for_ever(after: str | None) -> Page[int]:
    return Page([1], next="again")


@orchestration
async def double_once(number: int) -> int:
    return await double(number)


@orchestration
async def halve_once(number: int) -> int:
    return await halve(number)


@orchestration
async def over_items(count: int, page_size: int = 10) -> Tally:
    return await for_each(double, list(range(count)), page_size=page_size)


@orchestration
async def over_a_source(page_size: int) -> Tally:
    return await for_each(double, hundred, page_size=page_size, pages=3)


@orchestration
async def over_invoices() -> Tally:
    return await for_each(remind, unpaid)


@orchestration
async def over_nothing() -> list[Tally]:
    return [await for_each(double, []), await for_each(double, nothing)]


@orchestration
async def over_children() -> Tally:
    return await for_each(halve_once, [2, 3, 4], max_failures=1)


@orchestration
async def over_halves(max_failures: int | None) -> Tally:
    return await for_each(halve, hundred, max_failures=max_failures, page_size=20, pages=1)


@orchestration
async def over_named() -> Tally:
    return await for_each(Activity.named("double", int), [1, 2]) or await for_each(
        Orchestration.named("double_once", int), [1, 2]
    )


@orchestration
async def catching(max_failures: int) -> tuple[int, int, int]:
    try:
        await for_each(halve, hundred, max_failures=max_failures, page_size=20, pages=1)
    except TooManyFailuresError as error:
        return error.tally.done, error.tally.failed, len(error.tally.failures)
    return 0, 0, 0


@orchestration
async def catching_the_source() -> str:
    try:
        await for_each(double, broken)
    except ChildError as error:
        return str(error)
    return "nothing"


@orchestration
async def over_for_ever() -> Tally:
    return await for_each(double, for_ever)


ALL: list[Defined] = [
    double,
    halve,
    remind,
    hundred,
    unpaid,
    nothing,
    broken,
    for_ever,
    double_once,
    halve_once,
    over_items,
    over_a_source,
    over_invoices,
    over_nothing,
    over_children,
    over_halves,
    over_named,
    catching,
    catching_the_source,
    over_for_ever,
]


async def pages_of(client: Client) -> dict[str, str]:
    """Return how the pages in the store have ended, by their ids."""
    found = await client.instances(name="perdure.page")
    return {one.instance_id: one.status.value for one in found.items}


async def coordinator(client: Client) -> str:
    """Return the id of the only coordinator."""
    [found] = (await client.instances(name="perdure.for_each")).items
    return found.instance_id


async def test_a_sequence_is_done_in_pages_and_the_caller_has_two_events_of_it(
    stage: Stage,
) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("all", over_items, 95)

    assert await handle.result() == Tally(done=95, failed=0, failures=())
    assert kinds(await handle.history()) == [
        "started",
        "child_scheduled",
        "child_completed",
        "completed",
    ]
    assert list((await pages_of(engine)).values()) == ["completed"] * 10


async def test_nothing_stays_in_memory_and_it_is_done_all_the_same(stage: Stage) -> None:
    engine = await stage.engine(ALL, options=options(hot_instances=0))
    handle = await engine.start("all", over_a_source, 7)

    assert await handle.result() == Tally(done=100, failed=0, failures=())


@pytest.mark.parametrize(("page_size", "pages"), [(20, 5), (1_000, 5), (7, 15)])
async def test_pages_of_a_source_are_cut_and_never_joined(
    stage: Stage, page_size: int, pages: int
) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("all", over_a_source, page_size)

    assert (await handle.result()).done == 100
    assert len(await pages_of(engine)) == pages


async def test_items_are_of_the_types_that_the_code_names(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    assert (await (await engine.start("all", over_invoices)).result()).done == 2
    assert (await (await engine.start("named", over_named)).result()).done == 2


async def test_no_items_are_done_at_once(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    none = Tally(done=0, failed=0, failures=())
    assert await (await engine.start("all", over_nothing)).result() == [none, none]
    assert await pages_of(engine) == {}


async def test_each_item_may_be_a_child(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    tally = await (await engine.start("all", over_children)).result()

    assert (tally.done, tally.failed) == (2, 1)
    assert tally.failures[0].startswith("item 1, 3: ActivityError: activity 'halve' failed")
    assert await engine.count(name="halve_once") == 3


async def test_failures_are_counted_and_the_first_twenty_are_kept(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    tally = await (await engine.start("all", over_halves, None)).result()

    assert (tally.done, tally.failed, len(tally.failures)) == (50, 50, 20)
    assert tally.failures[1] == f"item 3, 3: ValueError: {ODD}"


async def test_one_failure_too_many_ends_it_all(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    tally = await (await engine.start("enough", over_halves, 50)).result()
    assert tally.failed == 50

    done, failed, kept = await (await engine.start("caught", catching, 24)).result()

    # Two pages of ten failures each, and the third stops at its fifth.
    assert (failed, kept) == (25, 20)
    assert 20 <= done <= 30


async def test_too_many_failures_fail_a_caller_that_does_not_catch_them(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("all", over_halves, 0)

    with pytest.raises(InstanceFailedError, match="TooManyFailuresError: more items have"):
        await handle.result()
    assert (await engine.handle(await coordinator(engine)).info()).status == "failed"


async def test_a_source_that_fails_for_good_is_raised(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    text = await (await engine.start("all", catching_the_source)).result()

    assert "activity 'broken' failed" in text
    assert "ConnectionError: the invoices are out of reach" in text


async def test_a_source_that_would_be_read_for_ever_is_refused(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("all", over_for_ever)

    with pytest.raises(InstanceFailedError, match="it would be read for ever"):
        await handle.result()


async def test_a_long_one_continues_as_new_and_forgets_nothing(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    monkeypatch.setattr(paging, "EVENTS_PER_EXECUTION", 12)
    engine = await stage.engine(ALL)
    handle = await engine.start("all", over_a_source, 20)

    assert (await handle.result()).done == 100
    info = await engine.handle(await coordinator(engine)).info()
    assert info.execution == 3


async def test_items_that_were_read_go_along_when_it_continues_as_new(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    monkeypatch.setattr(paging, "EVENTS_PER_EXECUTION", 12)

    @activity
    async def growing(after: str | None) -> Page[int]:
        return Page([0], next="more") if after is None else Page(list(range(1, 15)), next=None)

    @orchestration
    async def over_growing() -> Tally:
        return await for_each(double, growing, page_size=7)

    engine = await stage.engine([double, growing, over_growing])

    assert (await (await engine.start("all", over_growing)).result()).done == 15
    # The second page is two more: too many for the history of the first.
    assert (await engine.handle(await coordinator(engine)).info()).execution == 2
    assert len(await pages_of(engine)) == 3


async def test_a_page_that_has_too_many_bytes_for_a_history_is_not_read_into_it(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    monkeypatch.setattr(paging, "BYTES_PER_EXECUTION", 100)
    engine = await stage.engine(ALL)
    handle = await engine.start("all", over_a_source, 20)

    assert (await handle.result()).done == 100
    assert (await engine.handle(await coordinator(engine)).info()).execution == 5


async def test_a_source_of_empty_pages_fills_no_history(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    monkeypatch.setattr(paging, "EVENTS_PER_EXECUTION", 12)

    @activity
    async def empty(after: str | None) -> Page[int]:
        number = int(after or "0")
        return Page([], next=str(number + 1)) if number < 20 else Page([1], next=None)

    @orchestration
    async def over_empty() -> Tally:
        return await for_each(double, empty)

    engine = await stage.engine([double, empty, over_empty])

    assert (await (await engine.start("all", over_empty)).result()).done == 1
    found = await engine.handle(await coordinator(engine)).info()
    assert found.execution == 6


async def test_the_report_of_the_coordinator_is_the_tally(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await (await engine.start("all", over_items, 30)).result()

    report = await engine.handle(await coordinator(engine)).report()

    assert report is not None
    assert report.value == {"done": 30, "failed": 0, "failures": [], "total": 30}


async def test_a_cancelled_caller_cancels_the_pages_under_way(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def wait(number: int) -> None:
        await gate.pass_through()

    @orchestration
    async def waiting() -> Tally:
        return await for_each(wait, list(range(6)), page_size=2, pages=2)

    engine = await stage.engine([wait, waiting])
    handle = await engine.start("all", waiting)
    await until(lambda: _is_under_way(engine, 2))
    await gate.reached()

    await handle.cancel("no more")

    with pytest.raises(InstanceCancelledError):
        await handle.result()
    await until(lambda: _are_ended(engine))
    assert sorted((await pages_of(engine)).values()) == ["cancelled", "cancelled"]
    assert (await engine.handle(await coordinator(engine)).info()).status == "cancelled"
    assert [await engine.handle(page).jobs() for page in await pages_of(engine)] == [[], []]


async def _is_under_way(client: Client, pages: int) -> bool:
    return len(await pages_of(client)) == pages


async def _are_ended(client: Client) -> bool:
    return "running" not in (await pages_of(client)).values()


async def test_a_page_that_was_ended_by_hand_fails_the_call(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def wait(number: int) -> None:
        await gate.pass_through()

    @orchestration
    async def waiting() -> Tally:
        return await for_each(wait, [1, 2])

    engine = await stage.engine([wait, waiting])
    handle = await engine.start("all", waiting)
    await until(lambda: _is_under_way(engine, 1))
    [page] = await pages_of(engine)

    await engine.handle(page).terminate("by hand")

    with pytest.raises(InstanceFailedError, match="terminated"):
        await handle.result()


async def test_a_worker_that_has_only_the_activity_does_pages_of_others(stage: Stage) -> None:
    done: Counter[int] = Counter()

    @activity(name="double")
    async def counted(number: int) -> int:
        done[number] += 1
        return number * 2

    callers = await stage.engine([over_items])
    helpers = await stage.engine([counted])
    handle = await callers.start("all", over_items, 40)

    assert (await handle.result()).done == 40
    assert sorted(done) == list(range(40))
    assert helpers is not callers


# -------------------------------------------------------------------------- results

doubles = Stream("doubles", int)


@orchestration
async def into_a_stream(page_size: int) -> int:
    tally = await for_each(double, hundred, page_size=page_size, pages=2, results=doubles)
    again = await for_each(double_once, [1_000, 1_001], results=doubles)
    return tally.done + again.done


@orchestration
async def good_ones_into_a_stream() -> int:
    return (await for_each(halve, [1, 2, 3, 4], max_failures=None, results=doubles)).failed


STREAMING: list[Defined] = [
    double,
    double_once,
    halve,
    hundred,
    into_a_stream,
    good_ones_into_a_stream,
]


async def values_of(client: Client, instance_id: str) -> list[int]:
    """Return all that was sent to the stream of an instance."""
    handle = client.handle(instance_id)
    return [item.value async for item in handle.stream(doubles)]


@pytest.mark.parametrize("hot_instances", [1_000, 0])
async def test_results_go_to_the_callers_stream_once_each(stage: Stage, hot_instances: int) -> None:
    engine = await stage.engine(STREAMING, options=options(hot_instances=hot_instances))
    handle = await engine.start("all", into_a_stream, 7)
    live = asyncio.create_task(values_of(await stage.client(), "all"))

    assert await handle.result() == 102
    late = await values_of(engine, "all")

    assert await live == late
    assert sorted(late) == sorted([*range(0, 200, 2), 2_000, 2_002])
    assert late[-2:] == [2_000, 2_002]
    # Those of a page are in the order of its items.
    first = late.index(0)
    assert late[first : first + 7] == [0, 2, 4, 6, 8, 10, 12]


async def test_a_result_says_of_which_item_it_is(stage: Stage) -> None:
    engine = await stage.engine(STREAMING)
    handle = await engine.start("all", into_a_stream, 7)
    await handle.result()

    items = [item async for item in handle.stream(doubles)]

    assert sorted((item.number or 0, item.value) for item in items[:-2]) == [
        (number, 2 * number) for number in range(100)
    ]
    assert [item.number for item in items[-2:]] == [0, 1]


async def test_what_failed_has_no_result(stage: Stage) -> None:
    engine = await stage.engine(STREAMING)

    handle = await engine.start("all", good_ones_into_a_stream)
    assert await handle.result() == 2
    assert await values_of(engine, "all") == [1, 2]
    assert [item.number async for item in handle.stream(doubles)] == [1, 3]


async def test_results_for_a_caller_that_has_ended_are_dropped(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def wait(number: int) -> int:
        await gate.pass_through()
        return number

    @orchestration
    async def waiting() -> Tally:
        return await for_each(wait, [1, 2], results=doubles)

    slow = options(cancel_grace=timedelta(seconds=20))
    engine = await stage.engine([wait, waiting], options=slow)
    handle = await engine.start("all", waiting)
    await gate.reached()
    [page] = await pages_of(engine)

    await handle.terminate("by hand")
    gate.opened.set()
    await until(lambda: has_ended(engine, page))

    assert await values_of(engine, "all") == []


async def test_a_stream_of_another_type_is_refused(stage: Stage) -> None:
    words = Stream("words", str)

    @orchestration
    async def mistaken() -> Tally:
        return await for_each(double, [1], results=words)  # type: ignore[misc]  # on purpose

    engine = await stage.engine([double, mistaken])

    with pytest.raises(InstanceFailedError, match="double returns int and stream 'words'"):
        await (await engine.start("all", mistaken)).result()
