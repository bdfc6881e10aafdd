"""One thing done to all instances that a filter finds: expected, repeatable, each by itself."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta

import pytest

from perdure import Client, Defined, Engine, Retry, Signal, activity, orchestration
from perdure.client.acting.bulk_acts import BulkAct, act_on_all
from perdure.client.histories.points import at_event
from perdure.errors import PartlyDoneError, UnexpectedCountError, UsageError
from perdure.model.instances import LIVE, InstanceRow, Status
from perdure.store.contents import Inspectable
from tests.engine.stage import Stage, is_waiting, options, until
from tests.sizes import IS_FULL

go = Signal("go", str)

SAILORS = 10_000 if IS_FULL else 40
"""How many instances are reset at once by a process that is killed."""


@orchestration
async def waiter(name: str) -> str:
    return await go.receive()


@orchestration
async def collector(count: int) -> list[str]:
    return [await go.receive() for _ in range(count)]


@orchestration
async def returns() -> str:
    return "done"


PATIENCE = {"is_broken": True}


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(0)))
async def fragile() -> str:
    if PATIENCE["is_broken"]:
        raise ValueError("not today")
    return "mended"


@orchestration
async def tries() -> str:
    try:
        return await fragile()
    except Exception:
        return await go.receive()


class Weather:
    """As the test says."""

    is_bad = True


@activity
async def sail(number: int) -> int:
    if Weather.is_bad:
        raise ValueError("a storm")
    return number


@orchestration
async def sails(number: int) -> int:
    return await sail(number)


ALL: list[Defined] = [waiter, collector, returns, fragile, tries, sail, sails]


async def many(engine: Engine, count: int, *, prefix: str = "w") -> None:
    for number in range(count):
        await engine.start(f"{prefix}-{number}", waiter, "x")
    for number in range(count):
        await until(lambda number=number: is_waiting(engine, f"{prefix}-{number}"))  # type: ignore[misc]


async def statuses(client: Client, prefix: str) -> dict[Status, int]:
    found: dict[Status, int] = {}
    for info in (await client.instances(prefix=prefix, limit=500)).items:
        found[info.status] = found.get(info.status, 0) + 1
    return found


@pytest.mark.parametrize("hot", [1000, 0])
async def test_all_that_match_are_cancelled_and_others_are_not(stage: Stage, hot: int) -> None:
    engine = await stage.engine(ALL, options=options(hot_instances=hot))
    await many(engine, 5)
    await many(engine, 2, prefix="other")

    assert await engine.cancel_all(prefix="w-", expect=5, reason="closing") == 5

    for number in range(5):
        with pytest.raises(Exception, match="closing"):
            await engine.handle(f"w-{number}").result()
    assert await statuses(engine, "other") == {Status.RUNNING: 2}


async def test_all_that_match_are_terminated_without_a_worker(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await many(engine, 150)
    await engine.close()
    client = await stage.client()

    assert await client.terminate_all(name="waiter", expect=150, reason="over") == 150

    assert await statuses(client, "w-") == {Status.TERMINATED: 150}


async def test_a_signal_reaches_each_once_however_often_it_is_sent(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handles = [await engine.start(f"c-{number}", collector, 2) for number in range(4)]
    for handle in handles:
        await until(lambda handle=handle: is_waiting(engine, handle.instance_id))  # type: ignore[misc]

    assert await engine.signal_all(go, "one", expect=4, message_id="m-1", name="collector") == 4
    assert await engine.signal_all(go, "one", expect=4, message_id="m-1", name="collector") == 0
    assert await engine.signal_all(go, "two", expect=4, message_id="m-2", name="collector") == 4

    counted = engine.telemetry.snapshot()
    assert counted.value("perdure_client_bulk_total", action="signal") == 8
    assert [await handle.result() for handle in handles] == [["one", "two"]] * 4


async def test_dead_jobs_of_those_that_match_are_put_back(stage: Stage) -> None:
    stage.allow_log("failed")
    PATIENCE["is_broken"] = True
    engine = await stage.engine(ALL)
    for number in range(3):
        await engine.start(f"t-{number}", tries)
    await until(lambda: _count_is(engine, 3))
    PATIENCE["is_broken"] = False

    assert await engine.retry_all(prefix="t-", expect=3) == 3
    await until(lambda: _count_is(engine, 0))
    assert await engine.retry_all(prefix="t-", expect=3) == 0
    assert await engine.terminate_all(prefix="t-", expect=3) == 3


async def _count_is(client: Client, count: int) -> bool:
    return await client.count_dead_jobs() == count


async def test_an_unexpected_count_does_nothing(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await many(engine, 3)

    for expect in (0, 2, 4):
        with pytest.raises(UnexpectedCountError, match=f"expect={expect}, but .* 3 inst") as caught:
            await engine.cancel_all(prefix="w-", expect=expect)
        assert (caught.value.expected, caught.value.found) == (expect, 3)
        with pytest.raises(UnexpectedCountError):
            await engine.terminate_all(prefix="w-", expect=expect)
        with pytest.raises(UnexpectedCountError):
            await engine.signal_all(go, "x", prefix="w-", expect=expect, message_id="m")

    assert await statuses(engine, "w-") == {Status.RUNNING: 3}
    assert await engine.inbox("w-0") == []


async def test_an_empty_filter_is_refused(stage: Stage) -> None:
    client = await stage.client()

    for roots_only in (True, False):
        with pytest.raises(UsageError, match="cancel_all needs a condition"):
            await client.cancel_all(expect=0, roots_only=roots_only)
        with pytest.raises(UsageError, match="terminate_all needs a condition"):
            await client.terminate_all(expect=0, roots_only=roots_only)
        with pytest.raises(UsageError, match="signal_all needs a condition"):
            await client.signal_all(go, "x", expect=0, message_id="m", roots_only=roots_only)
        with pytest.raises(UsageError, match="unpark_all needs a condition"):
            await client.unpark_all(expect=0, roots_only=roots_only)
        with pytest.raises(UsageError, match="retry_all needs a condition"):
            await client.retry_all(expect=0, roots_only=roots_only)


async def test_what_an_act_is_not_for_is_refused_or_left_out(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await (await engine.start("r-1", returns)).result()
    await many(engine, 1, prefix="r")

    with pytest.raises(UsageError, match="status=completed: cancel_all is for instances that are"):
        await engine.cancel_all(status="completed", prefix="r", expect=1)
    assert await engine.terminate_all(status=["completed", "running"], prefix="r", expect=1) == 1
    for wrong in (-1, 1.5, "1", True, None):
        with pytest.raises(UsageError, match="expect must be a whole number"):
            await engine.cancel_all(prefix="r", expect=wrong)  # type: ignore[arg-type]


async def test_one_that_refuses_does_not_keep_the_others(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await many(engine, 3)

    async def do(row: InstanceRow) -> bool:
        if row.instance_id == "w-1":
            raise UsageError("not this one")
        return await engine._core.terminate(row.instance_id, "")

    act = BulkAct("end", LIVE, do)
    with pytest.raises(PartlyDoneError, match=r"end_all: done to 2 .*'w-1' refused: not") as caught:
        await act_on_all(engine._core, act, {"prefix": "w-"}, expect=3)

    assert (caught.value.done, caught.value.refused) == (2, {"w-1": "not this one"})
    assert await statuses(engine, "w-") == {Status.RUNNING: 1, Status.TERMINATED: 2}


@pytest.mark.parametrize("verb", ["terminate", "reset"])
async def test_one_that_was_deleted_meanwhile_refuses_nothing(stage: Stage, verb: str) -> None:
    engine = await stage.engine(ALL)
    await many(engine, 3)
    core = engine._core

    async def do(row: InstanceRow) -> bool:
        if row.instance_id == "w-1":
            await engine.delete("w-1", force=True)
        if verb == "terminate":
            return await core.terminate(row.instance_id, "", incarnation=row.incarnation)
        only = (row.incarnation, row.execution)
        return await core.reset(row.instance_id, at_event(1), "", only=only)

    assert await act_on_all(core, BulkAct(verb, LIVE, do), {"prefix": "w-"}, expect=3) == 2


async def test_an_id_that_was_used_again_meanwhile_is_left_alone(stage: Stage) -> None:
    """The filter found another instance, which had this id."""
    engine = await stage.engine(ALL)
    await many(engine, 1)
    [row] = await engine._core.store.read_instances(["w-0"])
    assert row is not None
    await engine.handle("w-0").terminate()
    await engine.handle("w-0").restart()

    assert not await engine._core.terminate("w-0", "", incarnation=row.incarnation)

    assert (await engine.handle("w-0").info()).status is Status.RUNNING


KILLED = """
import asyncio, os, signal, sys
from perdure import Client
from perdure.client.acting import bulk_acts

bulk_acts.AT_ONCE = 10

async def main():
    async with Client(sys.argv[1]) as client:
        store = client._core.store
        write, calls = getattr(store, sys.argv[3]), 0

        async def die_at_last(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls > int(sys.argv[5]) * 5 // 8:
                os.kill(os.getpid(), signal.SIGKILL)
            return await write(*args, **kwargs)

        setattr(store, sys.argv[3], die_at_last)
        await getattr(client, sys.argv[2])(name=sys.argv[4], expect=int(sys.argv[5]))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("act", "operation"), [("terminate_all", "commit"), ("cancel_all", "deliver")]
)
async def test_it_is_called_again_after_its_process_was_killed(
    stage: Stage, act: str, operation: str
) -> None:
    engine = await stage.engine(ALL)
    await many(engine, 40)
    await engine.close()

    program = [sys.executable, "-c", KILLED, stage.url, act, operation, "waiter", "40"]
    killed = await asyncio.to_thread(subprocess.run, program, capture_output=True, check=False)

    assert killed.returncode == -9, killed.stderr
    client = await stage.client()
    if act == "terminate_all":
        left = await client.count(name="waiter", status="running")
        assert 0 < left <= 20  # Ten at a time, and the third ten has begun.
        with pytest.raises(UnexpectedCountError, match=f"matches {left:,} instances") as caught:
            await client.terminate_all(name="waiter", expect=40)
        assert await client.terminate_all(name="waiter", expect=caught.value.found) == left
        assert await statuses(client, "w-") == {Status.TERMINATED: 40}
    else:
        assert await client.cancel_all(name="waiter", expect=40) == 40
        again = await stage.engine(ALL)
        await until(lambda: _all_cancelled(again))


async def _all_cancelled(client: Client) -> bool:
    return await statuses(client, "w-") == {Status.CANCELLED: 40}


@pytest.mark.timeout(1_200 if IS_FULL else 300)
async def test_a_reset_of_all_is_called_again_after_its_process_was_killed(stage: Stage) -> None:
    stage.allow_log("failed|took|ready")
    Weather.is_bad = True
    engine = await stage.engine(ALL)
    for number in range(SAILORS):
        await engine.start(f"s-{number}", sails, number)
    await all_of_them(engine, "failed")
    await engine.close()
    Weather.is_bad = False

    arguments = [stage.url, "reset_all", "commit", "sails", str(SAILORS)]
    program = [sys.executable, "-c", KILLED, *arguments]
    killed = await asyncio.to_thread(subprocess.run, program, capture_output=True, check=False)

    assert killed.returncode == -9, killed.stderr
    client = await stage.client()
    left = await client.count(name="sails", status="failed")
    assert 0 < left <= SAILORS // 2  # Ten at a time, and more than the first half has begun.
    with pytest.raises(UnexpectedCountError, match=f"matches {left:,} instances") as caught:
        await client.reset_all(name="sails", status="failed", expect=SAILORS)
    found = caught.value.found
    assert await client.reset_all(name="sails", status="failed", expect=found) == left
    again = await stage.engine(ALL)
    await all_of_them(again, "completed")
    store = client._core.store
    assert isinstance(store, Inspectable)
    rows = (await store.read_contents()).instances.values()
    assert {row.execution for row in rows if row.name == "sails"} == {2}


async def all_of_them(client: Client, status: str) -> None:
    """Wait, for some of them at a time: many take long."""
    step = min(SAILORS, 500)
    for count in range(step, SAILORS + 1, step):
        await until(lambda count=count: _count_of(client, status, count))  # type: ignore[misc]


async def _count_of(client: Client, status: str, count: int) -> bool:
    return await client.count(name="sails", status=status) >= count
