from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from perdure import Engine, Signal, activity, context, orchestration
from perdure.errors import (
    AlreadyExistsError,
    InstanceCancelledError,
    InstanceEndedError,
    InstanceFailedError,
    InstanceNotFoundError,
    InstanceTerminatedError,
    StoreUnavailableError,
)
from perdure.jobs.builtins import WAITING_JOBS
from perdure.jobs.slots import SlotKind
from tests import rows
from tests.engine.stage import Stage, has_ended, kinds, options, until

go = Signal("go", str)


@orchestration
async def waiting() -> str:
    return await go.receive()


@orchestration
async def broken() -> str:
    raise ValueError("no")


@orchestration
async def keeping() -> str:
    context().kv["colour"] = "red"
    return await go.receive()


@orchestration
async def outcome_of(instance_id: str) -> str:
    """Wait for another instance, and say how it ended."""
    try:
        return await context().ref(instance_id, waiting).result()
    except InstanceFailedError as error:
        return f"failed: {error.type_name}"
    except InstanceCancelledError as error:
        return f"cancelled: {error.reason}"
    except InstanceTerminatedError as error:
        return f"terminated: {error.reason}"
    except InstanceNotFoundError:
        return "not found"


def waits_here(engine: Engine) -> int:
    """Return how many results an engine waits for."""
    return engine._serving.jobs._slots[SlotKind.WAITING].running


# -------------------------------------------------------------------- results


async def test_a_result_is_waited_for_however_many_workers_are_lost_meanwhile(
    stage: Stage,
) -> None:
    """Whoever waits for a year lives through more crashes than an activity may cause."""
    engine = await stage.engine([waiting, outcome_of])
    await engine.start("w", waiting)
    await engine.start("o", outcome_of, "w")
    await until(lambda: waits_here(engine) == 1)
    await engine.close()
    rows.run(stage.url, "UPDATE jobs SET lost = 1000")

    again = await stage.engine([waiting, outcome_of])
    await until(lambda: waits_here(again) == 1)
    await again.handle("w").send(go, "at last")

    assert await again.handle("o").result() == "at last"


async def test_the_result_of_another_instance_is_waited_for(stage: Stage) -> None:
    engine = await stage.engine([waiting, outcome_of])
    other = await engine.start("w", waiting)
    handle = await engine.start("o", outcome_of, "w")
    await until(lambda: waits_here(engine) == 1)

    await other.send(go, "done")

    assert await handle.result() == "done"
    assert kinds(await handle.history()) == [
        "started",
        "activity_scheduled",
        "activity_completed",
        "completed",
    ]


@pytest.mark.parametrize("how", ["failed", "cancelled", "terminated", "not found"])
async def test_another_end_than_a_result_is_raised_as_what_it_is(stage: Stage, how: str) -> None:
    engine = await stage.engine([waiting, broken, outcome_of])
    other = await engine.start("x", broken if how == "failed" else waiting)
    match how:
        case "cancelled":
            await other.cancel("why not")
        case "terminated":
            await other.terminate("why not")
    target = "nobody" if how == "not found" else "x"

    found = await (await engine.start(outcome_of, target)).result()

    expected = {"failed": "failed: ValueError", "not found": "not found"}
    assert found == expected.get(how, f"{how}: why not")


async def test_a_result_that_came_about_elsewhere_is_heard(stage: Stage) -> None:
    engine = await stage.engine([outcome_of])
    elsewhere = await stage.engine([waiting])
    other = await elsewhere.start("w", waiting)
    handle = await engine.start(outcome_of, "w")

    await other.send(go, "from afar")

    assert await handle.result() == "from afar"


async def test_waiting_for_results_takes_no_slot_of_an_activity(stage: Stage) -> None:
    @activity
    async def work(value: int) -> int:
        return value

    @orchestration
    async def working() -> int:
        return await work(5)

    engine = await stage.engine([waiting, outcome_of, work, working], options=options(async_jobs=1))
    other = await engine.start("w", waiting)
    waiters = [await engine.start(outcome_of, "w") for _ in range(30)]
    await until(lambda: waits_here(engine) == 30)

    assert await (await engine.start(working)).result() == 5
    await other.send(go, "all")
    assert {await waiter.result() for waiter in waiters} == {"all"}
    assert WAITING_JOBS >= 10_000


async def test_many_waits_are_one_question_to_the_store(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await stage.engine([outcome_of])
    elsewhere = await stage.engine([waiting])
    other = await elsewhere.start("w", waiting)
    waiters = [await engine.start(outcome_of, "w") for _ in range(50)]
    await until(lambda: waits_here(engine) == 50)
    asked: list[int] = []
    read_ends = engine._core.store.read_ends

    async def counted(ids: list[str]) -> object:
        asked.append(len(ids))
        return await read_ends(ids)

    monkeypatch.setattr(engine._core.store, "read_ends", counted)
    await until(lambda: asked)
    assert set(asked) == {1}, "one id, however many wait for it"
    assert len(asked) < 10

    await other.send(go, "all")
    assert {await waiter.result() for waiter in waiters} == {"all"}


async def test_an_instance_that_is_cancelled_waits_no_longer(stage: Stage) -> None:
    engine = await stage.engine([waiting, outcome_of])
    other = await engine.start("w", waiting)
    handle = await engine.start(outcome_of, "w")
    await until(lambda: waits_here(engine) == 1)

    await handle.cancel("enough")

    with pytest.raises(InstanceCancelledError):
        await handle.result()
    await until(lambda: not engine._serving.jobs.leases())
    assert not await has_ended(engine, "w")
    await other.terminate()


async def test_a_worker_that_stops_leaves_the_waiting_to_others(stage: Stage) -> None:
    grace = timedelta(seconds=30)
    engine = await stage.engine([outcome_of], options=options(stop_grace=grace))
    elsewhere = await stage.engine([waiting, outcome_of])
    other = await elsewhere.start("w", waiting)
    await engine.start("p", outcome_of, "w")
    await until(lambda: waits_here(engine) == 1)

    async with asyncio.timeout(grace.total_seconds() / 2):
        await engine.close()
    await other.send(go, "done")

    assert await elsewhere.handle("p", outcome_of).result() == "done"


# -------------------------------------------------------------- sending, cancelling


async def test_a_signal_is_delivered_once_though_it_is_sent_twice(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.jobs.builtins.STORE_PAUSE_S", 0.001)

    @orchestration
    async def collecting() -> list[str]:
        first = await go.receive()
        try:
            async with asyncio.timeout(0.1):
                return [first, await go.receive()]
        except TimeoutError:
            return [first]

    @orchestration
    async def telling() -> None:
        await context().ref("c", collecting).send(go, "once")

    engine = await stage.engine([collecting, telling])
    deliver = engine._core.deliver
    tries: list[str] = []

    async def unsure(deliveries: object) -> object:
        answer = await deliver(deliveries)  # type: ignore[arg-type]  # passed on
        tries.append("sent")
        if len(tries) == 1:
            raise StoreUnavailableError("the answer was lost")
        return answer

    monkeypatch.setattr(engine._core, "deliver", unsure)
    handle = await engine.start("c", collecting)
    stage.expect_log("activity .* waits for the store")
    await (await engine.start(telling)).result()

    assert tries == ["sent", "sent"]
    assert await handle.result() == ["once"]


async def test_a_signal_is_kept_for_an_instance_that_is_not_started_yet(stage: Stage) -> None:
    @orchestration
    async def telling() -> None:
        await context().ref("later", waiting).send(go, "early")

    engine = await stage.engine([waiting, telling])
    await (await engine.start(telling)).result()

    assert await (await engine.start("later", waiting)).result() == "early"


async def test_a_signal_to_an_instance_that_has_ended_is_refused(stage: Stage) -> None:
    @orchestration
    async def telling() -> str:
        try:
            await context().ref("w", waiting).send(go, "late")
        except InstanceEndedError as error:
            return f"{error.instance_id}: {error.status}"
        return "sent"

    engine = await stage.engine([waiting, telling])
    await (await engine.start("w", waiting)).terminate()

    assert await (await engine.start(telling)).result() == "w: terminated"


@pytest.mark.parametrize("target", ["running", "ended", "nobody"])
async def test_another_instance_can_be_cancelled(stage: Stage, target: str) -> None:
    @orchestration
    async def stopping() -> str:
        try:
            await context().ref(target, waiting).cancel("told so")
        except InstanceNotFoundError:
            return "not found"
        return "asked"

    engine = await stage.engine([waiting, stopping])
    running = await engine.start("running", waiting)
    ended = await engine.start("ended", waiting)
    await ended.send(go, "done")
    await ended.result()

    answer = await (await engine.start(stopping)).result()

    assert answer == ("not found" if target == "nobody" else "asked")
    assert await ended.result() == "done"
    if target == "running":
        with pytest.raises(InstanceCancelledError, match="told so"):
            await running.result()


# ------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("instance_id", "key", "found"),
    [("k", "colour", "red"), ("k", "size", None), ("nobody", "colour", "not found")],
    ids=["there", "no such key", "no such instance"],
)
async def test_a_value_of_another_instance_can_be_read(
    stage: Stage, instance_id: str, key: str, found: str | None
) -> None:
    @orchestration
    async def reading() -> str | None:
        try:
            return await context().read_kv(instance_id, key, str)
        except InstanceNotFoundError:
            return "not found"

    engine = await stage.engine([keeping, reading])
    await engine.start("k", keeping)

    assert await (await engine.start(reading)).result() == found


# ----------------------------------------------------------------- starting


async def test_a_detached_instance_is_reached_through_the_ref_of_its_start(stage: Stage) -> None:
    @orchestration
    async def parent() -> str:
        ref = await context().start("child", waiting)
        await ref.send(go, "hello")
        return f"{ref.instance_id}: {await ref.result()}"

    engine = await stage.engine([parent, waiting])

    assert await (await engine.start(parent)).result() == "child: hello"
    assert (await engine.handle("child").info()).parent_id is None


async def test_a_detached_start_under_a_taken_id_says_so(stage: Stage) -> None:
    @orchestration
    async def parent() -> str:
        try:
            await context().start("taken", waiting)
        except AlreadyExistsError:
            return await context().ref("taken", waiting).result()
        return "started"

    engine = await stage.engine([parent, waiting])
    other = await engine.start("taken", waiting)
    handle = await engine.start(parent)
    await other.send(go, "mine")

    assert await handle.result() == "mine"
