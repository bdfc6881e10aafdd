"""What a client is told of many instances: lists, counts, trees, queues, workers."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import ActivityContext, Client, Orchestration, Signal, Status, activity, orchestration
from perdure.authoring.registry import Defined
from perdure.client.reading.info import InstanceTree
from perdure.clock import ManualClock, to_datetime
from perdure.errors import InstanceNotFoundError, InvalidIdError, UsageError
from tests.each import each
from tests.engine.stage import Gate, Stage, has_ended, options, until, waits_for

SECOND = timedelta(seconds=1)
go = Signal("go", str)


@orchestration
async def waiting(x: int = 0) -> str:
    return await go.receive()


@orchestration(name="waiting", version="2.0.0")
async def waiting_2(x: int = 0) -> str:
    return await go.receive()


@orchestration
async def returns(x: int = 0) -> int:
    return x


@orchestration
async def raises() -> None:
    raise ValueError("not today")


@orchestration
async def parent(children: int, grandchildren: int) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(children):
            child = middle.with_options(instance_id=f"c-{number}")
            group.create_task(child(f"g-{number}", grandchildren))


@orchestration
async def middle(prefix: str, children: int) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(children):
            group.create_task(waiting.with_options(instance_id=f"{prefix}-{number}")())


ALL: list[Defined] = [waiting, waiting_2, returns, raises, parent, middle]


async def ids(client: Client, **which: Any) -> list[str]:
    """Return the ids that a list has on its pages, asked for two by two."""
    found: list[str] = []
    after = None
    while True:
        page = await client.instances(limit=2, after=after, **which)
        found += [info.instance_id for info in page.items]
        after = page.next
        if after is None:
            return found


# ----------------------------------------------------------------------------- lists


async def test_instances_come_newest_first(stage: Stage) -> None:
    clock = ManualClock()
    client = await stage.client(clock=clock)
    for number in (1, 2, 3):
        await client.start(f"i-{number}", returns)
        clock.advance(SECOND)

    assert await ids(client) == ["i-3", "i-2", "i-1"]


async def test_every_filter_keeps_what_it_says(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine(ALL, clock=clock)
    await (await engine.start("old", returns, 1)).result()
    clock.advance(SECOND)
    middle_of_it = to_datetime(clock())
    await (await engine.start("bad", raises)).terminate()
    await until(lambda: has_ended(engine, "bad"))
    await engine.start("w-1", waiting)
    clock.advance(SECOND)
    await engine.start("w-2", waiting_2)

    assert await ids(engine, status="completed") == ["old"]
    assert await ids(engine, status=Status.RUNNING) == ["w-2", "w-1"]
    assert await ids(engine, status=[Status.RUNNING, "completed"]) == ["w-2", "w-1", "old"]
    assert await ids(engine, name="waiting") == ["w-2", "w-1"]
    assert await ids(engine, name="waiting", version="2.0.0") == ["w-2"]
    assert await ids(engine, prefix="w-") == ["w-2", "w-1"]
    assert await ids(engine, ids=["w-1", "old", "nobody"]) == ["w-1", "old"]
    assert await ids(engine, created_before=middle_of_it) == ["old"]
    assert await ids(engine, created_after=middle_of_it) == ["w-2", "w-1", "bad"]
    assert await ids(engine, ended_before=middle_of_it) == ["old"]
    assert await engine.count(prefix="w-", status="running") == 2
    assert await engine.count() == 4
    assert await engine.count(name="nothing") == 0


async def test_a_prefix_is_taken_as_it_stands(stage: Stage) -> None:
    """No character of it is a wildcard, and none ends a statement."""
    client = await stage.client()
    for name in ("a%b", "a_b", "axb", "a'; DROP TABLE live; --"):
        await client.start(name, returns)

    assert await ids(client, prefix="a%") == ["a%b"]
    assert await ids(client, prefix="a_") == ["a_b"]
    assert await ids(client, prefix="a'; DROP") == ["a'; DROP TABLE live; --"]


async def test_children_are_found_by_their_parent_and_left_out_among_roots(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await engine.start("p", parent, 2, 1)
    await until(lambda: count_is(engine, 5))

    assert await ids(engine, parent="p") == ["c-1", "c-0"]
    assert await ids(engine, parent="c-0") == ["g-0-0"]
    assert await ids(engine, roots_only=True) == ["p"]


async def count_is(client: Client, count: int) -> bool:
    return await client.count() == count


async def test_instances_are_found_by_the_tag_of_an_open_job(stage: Stage) -> None:
    gpu = activity(name="render", tag="gpu")(_render)

    @orchestration
    async def tagged() -> str:
        return await gpu()

    stage.expect_log("no live worker serves activity 'render' with tag 'gpu'")
    engine = await stage.engine([tagged, waiting])
    await engine.start("t", tagged)
    await engine.start("w", waiting)

    assert await ids(engine, tag="gpu") == ["t"]
    assert await ids(engine, tag="cpu") == []


async def _render() -> str:
    return "pixels"


async def test_pages_stay_whole_while_instances_come_and_go(stage: Stage) -> None:
    clock = ManualClock()
    client = await stage.client(clock=clock)
    for number in range(6):
        await client.start(f"i-{number}", returns)
        clock.advance(SECOND)
    first = await client.instances(limit=3)

    await client.start("newer", returns)
    await client.delete("i-5", force=True)
    await client.delete("i-2", force=True)
    second = await client.instances(limit=3, after=first.next)

    assert [info.instance_id for info in first.items] == ["i-5", "i-4", "i-3"]
    assert [info.instance_id for info in second.items] == ["i-1", "i-0"]
    assert second.next is None


async def test_instances_of_one_moment_are_on_one_page_each(stage: Stage) -> None:
    client = await stage.client(clock=ManualClock())
    for number in range(5):
        await client.start(f"i-{number}", returns)

    assert await ids(client) == [f"i-{number}" for number in (4, 3, 2, 1, 0)]


async def test_a_full_last_page_has_no_next(stage: Stage) -> None:
    client = await stage.client()
    await client.start("i-1", returns)
    await client.start("i-2", returns)

    page = await client.instances(limit=2)

    assert len(page.items) == 2
    assert page.next is None


@each([0, -1, 501, 10**9, 1.5, True, None, "10"])
async def test_a_limit_that_is_none_is_refused(limit: Any, client: Client) -> None:
    with pytest.raises(UsageError, match=r"limit must be a whole number from 1 to 500, got"):
        await client.instances(limit=limit)
    with pytest.raises(UsageError, match="limit must be a whole number"):
        await client.dead_jobs(limit=limit)


def forged(content: object) -> str:
    return urlsafe_b64encode(b"00000000" + json.dumps(content).encode()).decode()


@each(
    ["", "x", "é", "AAAA", "A" * 10_000, "[]", 3, forged(["instances", 1, "i"]), forged([])],
)
async def test_a_forged_cursor_is_refused(cursor: Any, client: Client) -> None:
    with pytest.raises(UsageError, match=r"is not the `next` of an earlier page of instances"):
        await client.instances(after=cursor)
    with pytest.raises(UsageError, match=r"is not the `next` of an earlier page of dead jobs"):
        await client.dead_jobs(after=cursor)


async def test_a_cursor_of_another_list_is_refused(stage: Stage) -> None:
    client = await stage.client()
    await client.start("i-1", returns)
    await client.start("i-2", returns)
    page = await client.instances(limit=1)

    with pytest.raises(UsageError, match="is not the `next` of an earlier page of dead jobs"):
        await client.dead_jobs(after=page.next)


@each(
    [
        ({"stauts": "failed"}, r"there is no filter 'stauts'; known: status, name"),
        ({"status": "done"}, r"there is no status 'done'; known: running, blocked"),
        ({"status": []}, r"status must be one or several statuses, got \[\]"),
        ({"status": 3}, r"status must be one or several statuses, got 3"),
        ({"name": ""}, r"name must be a text that is not empty, got ''"),
        ({"name": 3}, r"name must be a text that is not empty, got 3"),
        ({"prefix": b"a"}, r"prefix must be a text"),
        ({"ids": "abc"}, r"ids must be a collection of instance ids, got 'abc'"),
        ({"ids": ["a"] * 501}, r"ids may name at most 500 instances at once, got 501"),
        ({"created_after": 5}, r"created_after must be a datetime, got 5"),
        ({"ended_before": datetime(2030, 1, 1)}, r"has no time zone"),
        ({"roots_only": 1}, r"roots_only must be True or False, got 1"),
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(
    case: tuple[dict[str, Any], str], client: Client
) -> None:
    which, problem = case
    for ask in (client.instances, client.count, client.delete_all, client.prune):
        with pytest.raises(UsageError, match=problem):
            await ask(**which)


async def test_a_filter_with_a_forbidden_id_is_refused(stage: Stage) -> None:
    client = await stage.client()

    with pytest.raises(InvalidIdError, match="instance id"):
        await client.instances(ids=["a\0b"])


# ------------------------------------------------------------------------------ times


async def test_times_of_an_instance_are_right_and_move(stage: Stage) -> None:
    """Nothing is 1970, and `updated_at` follows every turn."""
    clock = ManualClock()
    engine = await stage.engine(ALL, clock=clock)
    begun = to_datetime(clock())
    handle = await engine.start("w", waiting)
    first = await handle.info()
    clock.advance(SECOND)
    await handle.send(go, "on")
    await handle.result()
    last = await handle.info()

    assert (first.created_at, first.updated_at, first.ended_at) == (begun, begun, None)
    assert last.created_at == begun
    assert last.updated_at == last.ended_at == begun + SECOND
    assert last.created_at.tzinfo is UTC
    [listed] = (await engine.instances()).items
    assert (listed.created_at, listed.ended_at) == (begun, begun + SECOND)


async def test_an_instance_is_updated_by_each_of_its_turns(stage: Stage) -> None:
    @orchestration
    async def twice() -> str:
        return await go.receive() + await go.receive()

    clock = ManualClock()
    engine = await stage.engine([twice], clock=clock)
    handle = await engine.start("w", twice)
    clock.advance(SECOND)
    now = to_datetime(clock())

    await handle.send(go, "on")

    await until(lambda: is_updated(handle.info, now))


async def is_updated(ask: Any, at: datetime) -> bool:
    return bool((await ask()).updated_at == at)


# ------------------------------------------------------------------------------ trees


def shape(tree: InstanceTree) -> Any:
    return {tree.info.instance_id: [shape(child) for child in tree.children]}


async def test_a_tree_has_every_descendant_in_its_place(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("p", parent, 2, 2)
    await until(lambda: count_is(engine, 7))

    tree = await handle.tree()

    children = [shape(child) for child in tree.children]
    assert sorted(children, key=str) == [
        {"c-0": [{"g-0-0": []}, {"g-0-1": []}]},
        {"c-1": [{"g-1-0": []}, {"g-1-1": []}]},
    ]
    assert len(tree) == 7
    assert tree.info.name == "parent"
    assert shape(await engine.handle("c-1").tree()) == {"c-1": [{"g-1-0": []}, {"g-1-1": []}]}


# -------------------------------------------------------------------- histories, stats


async def test_a_history_is_read_page_by_page(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("r", returns, 5)
    await handle.result()

    whole = await handle.history()

    assert [event.seq for event in whole] == [1, 2]
    assert await handle.history(1, limit=1) == whole[:1]
    assert await handle.history(after=1) == whole[1:]
    assert await handle.history(after=2) == []
    assert [one.ended_as for one in await handle.executions()] == ["completed"]


async def test_a_history_that_never_was_is_refused(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("r", returns, 5)

    with pytest.raises(UsageError, match="'r' has no execution 2: the current one is 1"):
        await handle.history(2)
    with pytest.raises(UsageError, match="execution must be a whole number of at least 1, got 0"):
        await handle.history(0)
    with pytest.raises(UsageError, match="after must be a whole number of at least 0, got -1"):
        await handle.history(after=-1)
    with pytest.raises(UsageError, match="after must be a whole number of at most 9223372036854"):
        await handle.history(after=2**63)
    assert await handle.history(after=2**63 - 1) == []
    with pytest.raises(UsageError, match="limit must be a whole number of at least 1, got 0"):
        await handle.history(limit=0)


async def test_stats_count_what_is_stored(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("w", waiting)
    await handle.send(go, "a")

    before = await handle.stats()
    engine = await stage.engine(ALL)
    await engine.handle("w").result()
    after = await handle.stats()

    assert (before.events, before.messages, before.executions) == (0, 2, 1)
    assert (after.messages, after.executions) == (0, 1)
    assert after.events == len(await handle.history())
    assert after.event_bytes > 0


async def test_totals_count_each_status(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await (await engine.start("r-1", returns)).result()
    await (await engine.start("r-2", returns)).result()
    await engine.start("w", waiting)
    await engine.handle("unborn").send(go, "early")

    totals = await engine.metrics()

    assert totals.instances[Status.COMPLETED] == 2
    assert totals.instances[Status.RUNNING] == 1
    assert totals.unborn == 1
    assert totals.events == sum(
        [len(await engine.handle(one).history()) for one in ("r-1", "r-2", "w")]
    )


@pytest.fixture
async def client(stage: Stage) -> Client:
    """For what is done wrong in many ways."""
    return await stage.client()


@each(
    [
        "result",
        "report",
        "wait_report",
        "kv",
        "info",
        "explain",
        "executions",
        "history",
        "tree",
        "stats",
        "jobs",
        "progress",
        "cancel",
        "terminate",
        "restart",
        "unpark",
        "delete",
        "prune",
    ],
)
async def test_an_unknown_id_is_not_found(method: str, client: Client) -> None:
    with pytest.raises(InstanceNotFoundError, match="no instance 'nobody'"):
        await getattr(client.handle("nobody"), method)()


async def test_administration_does_not_find_an_unknown_id(stage: Stage) -> None:
    client = await stage.client()

    for asked in (
        client.delete("nobody"),
        client.inbox("nobody"),
        client.drop_message("nobody", 1),
        client.complete_job("nobody:1:1:2", None),
        client.fail_job("nobody:1:1:2", "no"),
        client.handle("nobody").kv("k", int),
        client.handle("nobody").wait_kv("k", int),
    ):
        with pytest.raises(InstanceNotFoundError, match="no instance 'nobody'"):
            await asked


# ----------------------------------------------------------------- queues and workers


async def test_queues_name_what_nobody_takes(stage: Stage) -> None:
    client = await stage.client()
    await client.start("w-1", waiting)
    await client.start("w-2", waiting)

    [queue] = await client.queues()

    assert (queue.kind, queue.name, queue.version) == ("orchestration", "waiting", "1.0.0")
    assert (queue.ready, queue.later, queue.leased) == (2, 0, 0)
    assert queue.served_by == ()
    assert queue.unclaimed == "needs waiting 1.0.0"
    assert (await client.handle("w-1").info()).unclaimed == "needs waiting 1.0.0"
    assert [one.unclaimed for one in (await client.instances()).items] == [
        "needs waiting 1.0.0"
    ] * 2


async def test_queues_say_who_takes_what(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def stand() -> None:
        await gate.pass_through()

    @orchestration
    async def stands() -> None:
        await stand()

    engine = await stage.engine([stand, stands])
    handle = await engine.start("s", stands)
    await gate.reached()

    [worker] = await engine.workers()
    [queue] = await engine.queues()

    assert (queue.kind, queue.name, queue.tag, queue.leased) == ("activity", "stand", None, 1)
    assert queue.served_by == (worker.worker_id,)
    assert queue.unclaimed is None
    assert ("orchestration", "stands", "1.0.0") in [key[:3] for key in worker.definitions]
    assert (await handle.info()).unclaimed is None
    [job] = await handle.jobs()
    assert (job.activity, job.attempt, job.worker_id) == ("stand", 1, worker.worker_id)
    gate.opened.set()
    await handle.result()


async def test_workers_say_how_busy_they_are_and_what_they_hold(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def stand() -> None:
        await gate.pass_through()

    @orchestration
    async def stands() -> None:
        await asyncio.gather(stand(), stand(), stand())

    few = options(async_jobs=2, threaded_jobs=4, process_jobs=1)
    engine = await stage.engine([stand, stands], options=few)
    handle = await engine.start("s", stands)
    await gate.reached()
    serving = engine._serving
    await until(lambda: sum(one.waiting for one in serving.jobs.slots_in_use()) == 1)
    await serving._beat_once()

    [worker] = await engine.workers()

    assert [use for use in worker.slots if use.kind == "async"] == [("async", 2, 2, 1)]
    assert {use.kind: use.slots for use in worker.slots} == {
        "async": 2,
        "threaded": 4,
        "process": 1,
    }
    assert (worker.instances, worker.jobs, worker.is_exact) == (0, 3, True)
    assert [(held.definition.name, held.leased) for held in worker.leases] == [("stand", 3)]
    assert "slots" not in {key.kind for key in worker.definitions}
    gate.opened.set()
    await handle.result()
    assert [(one.jobs, one.leases) for one in await engine.workers()] == [(0, ())]


async def test_the_progress_of_a_running_activity_is_shown(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def count(ctx: ActivityContext) -> None:
        ctx.progress({"done": 3})
        await gate.pass_through()

    @orchestration
    async def counts() -> None:
        await count()

    quick = options(heartbeat_every=timedelta(milliseconds=5))
    engine = await stage.engine([count, counts], options=quick)
    client = await stage.client()
    handle = await engine.start("c", counts)
    await gate.reached()

    async def is_shown() -> bool:
        return any(one.value is not None for one in await client.handle("c").progress())

    await until(is_shown)
    [progress] = await client.handle("c").progress()

    assert (progress.activity, progress.attempt, progress.value) == ("count", 1, {"done": 3})
    assert progress.at is not None
    gate.opened.set()
    await handle.result()
    assert await handle.progress() == []


async def test_an_instance_by_name_says_that_any_version_will_do(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("w", Orchestration.named("waiting", str))

    info = await handle.info()

    assert (info.version, info.unclaimed) == ("", "needs waiting (any version)")
    assert "unclaimed: needs waiting (any version)" in await handle.explain()


async def test_an_open_version_is_put_on_record_by_the_worker(stage: Stage) -> None:
    client = await stage.client()
    await client.start("w", Orchestration.named("waiting", str))
    engine = await stage.engine(ALL)
    await waits_for(engine.handle("w"), "signal 'go'")

    info = await engine.handle("w").info()

    assert (info.version, info.unclaimed) == ("2.0.0", None)
    # A name alone fits every version.
    await engine.start("w", Orchestration.named("waiting", str))
