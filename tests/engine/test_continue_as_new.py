"""Continue-as-new from end to end: what the next execution has, and what stays behind."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from perdure import (
    Client,
    Engine,
    Handle,
    Orchestration,
    Signal,
    Status,
    activity,
    context,
    orchestration,
)
from perdure.clock import ManualClock
from perdure.errors import (
    AlreadyExistsError,
    ChildError,
    InstanceCancelledError,
    InstanceFailedError,
    InstanceTerminatedError,
)
from perdure.store.base import ExecutionKey
from perdure.store.contents import Contents
from perdure.store.sql.store import SqlStore
from tests.engine.stage import Gate, Stage, has_ended, idle, is_waiting, kinds, until, waits_for

go = Signal("go", str)
number = Signal("number", int)


@activity
async def double(x: int) -> int:
    return 2 * x


@activity
async def never() -> None:
    await asyncio.Event().wait()


@orchestration
async def counting(left: int, total: int = 0) -> int:
    total += await double(1)
    if left:
        counting.continue_as_new(left - 1, total)
    return total


async def contents_of(stage: Stage) -> Contents:
    store = (await stage.client())._core.store
    assert isinstance(store, SqlStore)
    return await store.read_contents()


async def chapters(handle: Handle[Any], client: Client) -> list[list[str]]:
    """Return the kinds of events of each execution."""
    info = await handle.info()
    row = (await client._core.store.read_instances([handle.instance_id]))[0]
    assert row is not None
    keys = [ExecutionKey(row.instance_id, row.incarnation, n) for n in range(1, info.execution + 1)]
    return [[event.kind for event in one] for one in await client._core.store.read_histories(keys)]


# ---------------------------------------------------------------------- generations


async def test_each_execution_has_a_history_of_its_own_and_the_last_one_returns(
    stage: Stage,
) -> None:
    engine = await stage.engine([double, counting])
    handle = await engine.start("c", counting, 2)

    assert await handle.result() == 6
    info = await handle.info()
    assert (info.execution, info.status, info.output) == (3, Status.COMPLETED, 6)
    steps = ["started", "activity_scheduled", "activity_completed"]
    assert await chapters(handle, engine) == [
        [*steps, "continued_as_new"],
        [*steps, "continued_as_new"],
        [*steps, "completed"],
    ]


async def test_three_hundred_executions_leave_nothing_behind(stage: Stage) -> None:
    @orchestration
    async def eternal(left: int) -> str:
        async with asyncio.TaskGroup() as group:
            waiting = [
                group.create_task(never()),
                group.create_task(asyncio.sleep(3600)),
                group.create_task(go.receive()),
            ]
            await double(left)
            for task in waiting:
                task.cancel()
        if left:
            eternal.continue_as_new(left - 1)
        return "the end"

    engine = await stage.engine([double, never, eternal])
    room = engine._serving.jobs.room()
    handle = await engine.start("e", eternal, 299)

    assert await handle.result() == "the end"
    assert (await handle.info()).execution == 300
    contents = await contents_of(stage)
    assert (contents.live, contents.jobs, contents.inboxes) == ({}, {}, {})
    assert len(contents.histories) == 300
    assert len(engine._serving.turns.hot) == 0
    assert engine._serving.jobs.leases() == []
    await until(lambda: engine._serving.jobs.room() == room)


async def test_what_is_open_when_an_execution_continues_is_gone(stage: Stage) -> None:
    """Open calls are dropped without being given up first: the code need not tidy up."""
    told: list[str] = []
    gate = Gate()

    @activity
    async def slow() -> None:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    @orchestration
    async def careless(again: bool) -> str:
        calls = [
            asyncio.ensure_future(slow()),
            asyncio.ensure_future(asyncio.sleep(3600)),
            asyncio.ensure_future(number.receive()),
        ]
        await go.receive()
        if again:
            careless.continue_as_new(False)
        return f"{len(calls)} calls"

    engine = await stage.engine([slow, careless])
    handle = await engine.start("c", careless, True)
    await gate.reached()
    await handle.send(go, "on")
    await until(lambda: told)
    await waits_for(handle, "signal 'go'")

    contents = await contents_of(stage)
    [messages] = contents.inboxes.values()
    assert [message.timer_key for message in messages] == ["timer:4"]
    assert {job.key.execution for some in contents.jobs.values() for job in some} == {2}
    gate.opened.set()
    await handle.send(go, "end")
    assert await handle.result() == "3 calls"


async def test_finally_blocks_run_first_and_may_await(stage: Stage) -> None:
    @orchestration
    async def tidy(left: int, done: list[int]) -> list[int]:
        try:
            if left:
                tidy.continue_as_new(left - 1, done)
            return done
        finally:
            done.append(await double(left))

    engine = await stage.engine([double, tidy])
    handle = await engine.start("t", tidy, 1, [])

    # The arguments were taken before the block ran: what it appends comes too late.
    assert await handle.result() == [0]
    first, second = await chapters(handle, engine)
    assert first == ["started", "activity_scheduled", "activity_completed", "continued_as_new"]
    assert second == ["started", "activity_scheduled", "activity_completed", "completed"]


async def test_report_and_values_survive(stage: Stage) -> None:
    @orchestration
    async def keeping(left: int) -> list[Any]:
        ctx = context()
        ctx.kv["runs"] = ctx.kv.get("runs", 0) + 1
        ctx.kv[f"run-{left}"] = ctx.execution
        if left == 2:
            ctx.report({"left": left})
        if left == 1:
            del ctx.kv["run-2"]
        if left:
            keeping.continue_as_new(left - 1)
        return [dict(ctx.kv), ctx.reported]

    engine = await stage.engine([keeping])
    handle = await engine.start("k", keeping, 2)

    kept = {"run-0": 3, "run-1": 2, "runs": 3}
    assert await handle.result() == [kept, {"left": 2}]
    assert await handle.kv() == kept
    report = await handle.report()
    assert report is not None
    assert report.value == {"left": 2}


async def test_an_instance_goes_on_after_the_engine_is_replaced_between_executions(
    stage: Stage,
) -> None:
    @orchestration
    async def paced(left: int, said: list[str]) -> list[str]:
        said = [*said, await go.receive()]
        if left:
            paced.continue_as_new(left - 1, said)
        return said

    engine = await stage.engine([paced])
    await engine.start("p", paced, 3, [])
    for n in range(4):
        await waits_for(engine.handle("p"), "signal 'go'")
        await engine.close()
        engine = await stage.engine([paced])
        await engine.handle("p").send(go, str(n))

    assert await engine.handle("p").result() == ["0", "1", "2", "3"]


async def test_the_first_turn_of_the_next_execution_fails_in_its_own_history(stage: Stage) -> None:
    @orchestration
    async def failing(again: bool) -> None:
        if again:
            failing.continue_as_new(False)
        raise LookupError("nothing there")

    engine = await stage.engine([failing])
    handle = await engine.start("f", failing, True)

    with pytest.raises(InstanceFailedError, match="nothing there"):
        await handle.result()
    assert await chapters(handle, engine) == [
        ["started", "continued_as_new"],
        ["started", "failed"],
    ]


async def test_an_input_that_the_next_version_cannot_read_fails_the_next_execution(
    stage: Stage,
) -> None:
    @orchestration(name="reading", version="1.0.0")
    async def old(value: str) -> None:
        old.continue_as_new(value)

    @orchestration(name="reading", version="2.0.0")
    async def new(value: int) -> None: ...

    engine = await stage.engine([old, new])
    handle = await engine.start("r", old, "text")

    with pytest.raises(InstanceFailedError):
        await handle.result()
    assert (await chapters(handle, engine))[1] == ["started", "failed"]


async def test_a_start_under_the_same_id_joins_an_instance_that_has_continued(
    stage: Stage,
) -> None:
    """`start("poller", poller, 0)` at every boot is how eternal orchestrations are begun."""

    @orchestration
    async def polling(count: int) -> int:
        if await number.receive():
            polling.continue_as_new(count + 1)
        return count

    engine = await stage.engine([polling])
    handle = await engine.start("poller", polling, 0)
    for _ in range(3):
        await handle.send(number, 1)
    await until(lambda: _is_at(handle, 4))

    again = await engine.start("poller", polling, 0)

    with pytest.raises(AlreadyExistsError, match="another input"):
        await engine.start("poller", polling, 7)
    await again.send(number, 0)
    assert await again.result() == 3


async def _is_at(handle: Handle[Any], execution: int) -> bool:
    return (await handle.info()).execution == execution


# -------------------------------------------------------------------------- signals


async def test_signals_sent_while_it_continues_are_all_received_once_and_in_order(
    stage: Stage,
) -> None:
    @orchestration
    async def draining(got: list[int]) -> list[int]:
        for _ in range(10):
            got.append(await number.receive())
        if len(got) < 500:
            draining.continue_as_new(got)
        return got

    engine = await stage.engine([draining])
    client = await stage.client()
    handle = await engine.start("d", draining, [])
    outside = client.handle("d")
    for n in range(500):
        await (handle if n % 7 else outside).send(number, n)

    assert await handle.result() == list(range(500))
    assert (await handle.info()).execution == 50


async def test_five_hundred_signals_that_wait_together_are_received_in_order(stage: Stage) -> None:
    @orchestration
    async def sorting(got: list[int]) -> list[int]:
        got.append(await number.receive())
        if len(got) < 500:
            if len(got) % 10 == 0:
                sorting.continue_as_new(got)
            await sorting.fn(got)
        return got

    client = await stage.client()
    await client.start("s", sorting, [])
    await asyncio.gather(*(client.handle("s").send(number, n) for n in range(500)))
    await stage.engine([sorting])

    result = await client.handle("s", sorting).result()
    assert sorted(result) == list(range(500))
    assert (await client.handle("s").info()).execution == 50


async def test_signals_that_were_recorded_and_not_taken_come_before_later_ones(
    stage: Stage,
) -> None:
    @orchestration
    async def late(again: bool) -> list[int]:
        await go.receive()
        if again:
            late.continue_as_new(False)
        return [await number.receive() for _ in range(4)]

    engine = await stage.engine([late])
    handle = await engine.start("l", late, True)
    for n in (1, 2):
        await handle.send(number, n)
    await handle.send(go, "on")
    await until(lambda: _is_at(handle, 2))
    for n in (3, 4):
        await handle.send(number, n)
    await handle.send(go, "end")

    assert await handle.result() == [1, 2, 3, 4]


async def test_messages_between_the_end_of_one_execution_and_the_start_of_the_next_are_kept(
    stage: Stage,
) -> None:
    def moving(version: str) -> Orchestration[[int], list[int]]:
        @orchestration(name="moving", version=version)
        async def own(left: int) -> list[int]:
            if left:
                own.with_options(version="2.0.0").continue_as_new(left - 1)
            return [await number.receive() for _ in range(3)]

        return own

    stage.expect_log("no live worker serves orchestration 'moving' 2.0.0")
    engine = await stage.engine([moving("1.0.0")])
    handle = await engine.start("m", moving("1.0.0"), 1)
    await until(lambda: _is_at(handle, 2))
    assert (await handle.info()).version == "2.0.0"
    assert "unclaimed: needs moving 2.0.0" in await handle.explain()
    for n in range(3):
        await handle.send(number, n)

    await stage.engine([moving("2.0.0")])

    assert await handle.result() == [0, 1, 2]


# ------------------------------------------------------------------------- stopping


async def test_a_cancel_that_races_with_continuing_is_never_lost(stage: Stage) -> None:
    @orchestration
    async def spinning(count: int) -> None:
        await double(count)
        spinning.continue_as_new(count + 1)

    engine = await stage.engine([double, spinning])
    handles = [await engine.start(f"s{n}", spinning, 0) for n in range(20)]
    for n, handle in enumerate(handles):
        await until(partial(_is_past, handle, n % 5))
        await handle.cancel(f"enough {n}")

    for n, handle in enumerate(handles):
        with pytest.raises(InstanceCancelledError, match=f"enough {n}"):
            await handle.result()


async def _is_past(handle: Handle[Any], execution: int) -> bool:
    return (await handle.info()).execution > execution


async def test_a_cancel_between_two_executions_reaches_the_next_one(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def gated() -> None:
        await gate.pass_through()

    @orchestration
    async def stubborn(again: bool) -> str:
        try:
            await gated()
        except asyncio.CancelledError:
            if again:
                stubborn.continue_as_new(False)
            raise
        return "never asked"

    engine = await stage.engine([gated, stubborn])
    handle = await engine.start("s", stubborn, True)
    await gate.reached()
    await handle.cancel("first")
    await until(lambda: _is_at(handle, 2))
    await handle.cancel("second")

    with pytest.raises(InstanceCancelledError, match="second"):
        await handle.result()


async def test_a_cancel_behind_the_message_that_makes_it_continue_reaches_the_next_one(
    stage: Stage,
) -> None:
    """They wait together, so that one turn gets both; it takes only what came before its end."""

    @orchestration
    async def obedient(again: bool) -> str:
        said = await go.receive()
        if again:
            obedient.continue_as_new(False)
        return said

    client = await stage.client()
    handle = await client.start("o", obedient, True)
    await handle.send(go, "on")
    await handle.cancel("enough")
    await stage.engine([obedient])

    with pytest.raises(InstanceCancelledError, match="enough"):
        await handle.result()
    assert [kinds[-1] for kinds in await chapters(handle, client)] == [
        "continued_as_new",
        "cancelled",
    ]


async def test_a_termination_ends_it_in_any_execution(stage: Stage) -> None:
    @orchestration
    async def spinning(count: int) -> None:
        await double(count)
        spinning.continue_as_new(count + 1)

    engine = await stage.engine([double, spinning])
    handle = await engine.start("s", spinning, 0)
    await until(lambda: _is_past(handle, 3))

    await handle.terminate("enough")

    with pytest.raises(InstanceTerminatedError):
        await handle.result()
    assert (await chapters(handle, engine))[-1][-1] == "terminated"
    assert (await contents_of(stage)).live == {}


# ------------------------------------------------------------- parents and children


async def test_a_child_that_continues_answers_its_parent(stage: Stage) -> None:
    @orchestration
    async def parent() -> int:
        return await counting.with_options(instance_id="c")(5)

    engine = await stage.engine([double, counting, parent])

    assert await (await engine.start("p", parent)).result() == 12
    info = await engine.handle("c").info()
    assert (info.execution, info.parent_id) == (6, "p")


async def test_a_child_that_continues_under_another_engine_answers_its_parent(
    stage: Stage,
) -> None:
    @orchestration
    async def child(left: int) -> str:
        said = await go.receive()
        if left:
            child.continue_as_new(left - 1)
        return said

    @orchestration
    async def parent() -> str:
        return await child.with_options(instance_id="c")(2)

    engine = await stage.engine([parent, child])
    await engine.start("p", parent)
    for n in range(3):
        await waits_for(engine.handle("c"), "signal 'go'")
        await engine.close()
        engine = await stage.engine([parent, child])
        await engine.handle("c").send(go, str(n))

    assert await engine.handle("p").result() == "2"


@pytest.mark.parametrize(
    ("on_parent_close", "ends"),
    [("cancel", Status.CANCELLED), ("terminate", Status.TERMINATED), ("abandon", Status.COMPLETED)],
)
async def test_children_that_are_open_when_their_parent_continues_are_closed_as_asked(
    stage: Stage, on_parent_close: Any, ends: Status
) -> None:
    @orchestration
    async def child() -> str:
        return await go.receive()

    @orchestration
    async def parent(again: bool) -> int:
        if again:
            options = child.with_options(instance_id="c", on_parent_close=on_parent_close)
            waiting = asyncio.ensure_future(options())
            await number.receive()
            parent.continue_as_new(not waiting)
        return await number.receive()

    engine = await stage.engine([parent, child])
    handle = await engine.start("p", parent, True)
    await waits_for(engine.handle("c"), "signal 'go'")
    await handle.send(number, 1)
    await until(lambda: _is_at(handle, 2))
    if on_parent_close == "abandon":
        await engine.handle("c").send(go, "by itself")
    await until(lambda: has_ended(engine, "c"))
    await idle(engine)

    assert (await engine.handle("c").info()).status is ends
    await handle.send(number, 7)
    assert await handle.result() == 7
    assert await chapters(handle, engine) == [
        ["started", "signal_awaited", "child_scheduled", "signal_received", "continued_as_new"],
        ["started", "signal_awaited", "signal_received", "completed"],
    ]


async def test_children_of_different_executions_never_share_an_id(stage: Stage) -> None:
    """The same call at the same place of each execution must not meet the child of the last."""

    @orchestration
    async def child(n: int) -> int:
        return await double(n)

    @orchestration
    async def parent(left: int, sums: list[int]) -> list[int]:
        sums = [*sums, sum(await asyncio.gather(child(left), child(left)))]
        if left:
            parent.continue_as_new(left - 1, sums)
        return sums

    engine = await stage.engine([double, child, parent])

    assert await (await engine.start("p", parent, 3, [])).result() == [12, 8, 4, 0]
    contents = await contents_of(stage)
    assert len([row for row in contents.instances.values() if row.name == "child"]) == 8


async def test_a_child_is_answered_to_the_execution_that_called_it_after_a_restart(
    stage: Stage,
) -> None:
    @orchestration
    async def child() -> str:
        return await go.receive()

    @orchestration
    async def parent(left: int) -> str:
        if left:
            parent.continue_as_new(left - 1)
        return await child.with_options(instance_id="c")()

    engine = await stage.engine([parent, child])
    await engine.start("p", parent, 2)
    await until(lambda: is_waiting(engine, "c"))
    await engine.close()

    engine = await stage.engine([parent, child])
    await engine.handle("c").send(go, "here")

    assert await engine.handle("p").result() == "here"


async def test_a_child_that_fails_in_a_later_execution_fails_the_call(stage: Stage) -> None:
    @orchestration
    async def child(left: int) -> None:
        if left:
            child.continue_as_new(left - 1)
        raise LookupError("lost")

    @orchestration
    async def parent() -> str:
        try:
            await child(2)
        except ChildError as error:
            return str(error)
        return "no error"

    engine = await stage.engine([parent, child])

    assert "lost" in await (await engine.start("p", parent)).result()


async def test_a_detached_start_in_the_turn_that_continues_is_honoured(stage: Stage) -> None:
    @orchestration
    async def other() -> str:
        return "started"

    @orchestration
    async def starting(again: bool) -> str:
        if again:
            waiting = asyncio.ensure_future(context().start("o", other))
            await asyncio.sleep(0)
            starting.continue_as_new(not waiting)
        return "done"

    engine = await stage.engine([starting, other])

    assert await (await engine.start("s", starting, True)).result() == "done"
    assert await engine.handle("o", other).result() == "started"


# -------------------------------------------------------------------------- versions


def versioned(version: str, *, pinned: bool = False) -> Orchestration[[int, list[str]], list[str]]:
    @orchestration(name="versioned", version=version)
    async def own(left: int, ran: list[str]) -> list[str]:
        ran = [*ran, f"{version} as {context().version}"]
        if left:
            following = own.with_options(version=context().version) if pinned else own
            following.continue_as_new(left - 1, ran)
        return ran

    return own


async def test_a_plain_continue_moves_to_the_latest_version(stage: Stage) -> None:
    old = versioned("1.0.0")
    engine = await stage.engine([old, versioned("2.0.0")])

    handle = await engine.start("v", old, 2, [])

    assert await handle.result() == ["1.0.0 as 1.0.0", "2.0.0 as 2.0.0", "2.0.0 as 2.0.0"]
    assert (await handle.info()).version == "2.0.0"


async def test_a_continue_that_names_a_version_stays_on_it(stage: Stage) -> None:
    old = versioned("1.0.0", pinned=True)
    engine = await stage.engine([old, versioned("2.0.0")])

    handle = await engine.start("v", old, 2, [])

    assert await handle.result() == ["1.0.0 as 1.0.0"] * 3


async def test_the_policy_at_the_moment_of_continuing_decides(stage: Stage) -> None:
    @orchestration(name="asked", version="1.0.0")
    async def asked(ran: list[str]) -> list[str]:
        ran = [*ran, context().version]
        if await go.receive() == "on":
            asked.continue_as_new(ran)
        return ran

    newer = asked.with_options(version="2.0.0")
    engine: Engine = await stage.engine([asked, newer])
    handle = await engine.start("a", asked, [])
    for n, preferred in enumerate(["2.0.0", "1.0.0", "1.0.0", None]):
        engine.registry.prefer("asked", preferred)
        await handle.send(go, "on")
        await until(partial(_is_at, handle, n + 2))
    await handle.send(go, "end")

    assert await handle.result() == ["1.0.0", "2.0.0", "1.0.0", "1.0.0", "2.0.0"]


# ------------------------------------------------------------------------------ time


async def test_timers_of_an_execution_that_has_continued_never_fire(stage: Stage) -> None:
    clock = ManualClock()

    @orchestration
    async def ticking(again: bool) -> list[str]:
        timer = asyncio.ensure_future(asyncio.sleep(60, "tick"))
        await go.receive()
        if again:
            ticking.continue_as_new(False)
        return [await timer]

    engine = await stage.engine([ticking], clock=clock)
    handle = await engine.start("t", ticking, True)
    clock.advance(timedelta(seconds=30))
    await handle.send(go, "on")
    await until(lambda: _is_at(handle, 2))
    await handle.send(go, "end")
    await waits_for(handle, "a timer")
    clock.advance(timedelta(seconds=31))
    await idle(engine)
    assert not await has_ended(engine, "t")
    assert "timer_fired" not in kinds(await handle.history())

    clock.advance(timedelta(seconds=29))

    assert await handle.result() == ["tick"]
