from __future__ import annotations

import asyncio

import pytest

from perdure import Handle, Signal, Status, activity, context, orchestration
from perdure.errors import (
    ActivityError,
    InstanceCancelledError,
    InstanceFailedError,
    InstanceTerminatedError,
)
from tests.engine.stage import Gate, Stage, has_ended, kinds, overtake, until, waits_for

go = Signal("go", str)


@activity
async def undo(what: str) -> str:
    return f"undid {what}"


@orchestration
async def waiting() -> str:
    return await go.receive()


@activity
async def step(x: int) -> int:
    return x + 1


@orchestration
async def endless() -> int:
    x = 0
    while True:
        x = await step(x)


# --------------------------------------------------------------------- cancel


async def test_a_cancelled_instance_ends_as_cancelled_with_the_reason(stage: Stage) -> None:
    engine = await stage.engine([waiting])
    handle = await engine.start("w", waiting)

    await handle.cancel("changed my mind")

    with pytest.raises(InstanceCancelledError) as caught:
        await handle.result()
    assert str(caught.value) == "instance 'w' was cancelled: changed my mind"
    assert caught.value.reason == "changed my mind"
    info = await handle.info()
    assert (info.status, info.reason) == (Status.CANCELLED, "changed my mind")
    assert kinds(await handle.history()) == [
        "started",
        "signal_awaited",
        "cancel_requested",
        "signal_wait_cancelled",
        "cancelled",
    ]


async def test_compensation_runs_to_its_end(stage: Stage) -> None:
    undone: list[str] = []

    @activity
    async def undo_here(what: str) -> None:
        undone.append(what)

    @orchestration
    async def booking() -> None:
        try:
            await go.receive()
        finally:
            await undo_here("flight")
            await asyncio.sleep(0.001)
            await undo_here("hotel")

    engine = await stage.engine([undo_here, booking])
    handle = await engine.start(booking)
    await waits_for(handle, "signal 'go'")

    await handle.cancel("storm")

    with pytest.raises(InstanceCancelledError, match="storm"):
        await handle.result()
    assert undone == ["flight", "hotel"]


async def test_a_second_cancel_does_not_disturb_the_compensation(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def slow_undo() -> str:
        await gate.pass_through()
        return "undone"

    @orchestration
    async def booking() -> str:
        try:
            return await go.receive()
        except asyncio.CancelledError:
            await slow_undo()
            raise

    engine = await stage.engine([slow_undo, booking])
    handle = await engine.start(booking)
    await handle.cancel("first")
    await gate.reached()

    await handle.cancel("second")
    gate.opened.set()

    with pytest.raises(InstanceCancelledError, match="first"):
        await handle.result()
    assert gate.passed == 1
    assert kinds(await handle.history()).count("cancel_requested") == 1


async def test_a_swallowed_cancellation_is_on_record_and_the_code_goes_on(stage: Stage) -> None:
    @orchestration
    async def stubborn() -> str:
        try:
            await go.receive()
        except asyncio.CancelledError as error:
            return f"no: {error}, {await undo('nothing')}"
        return "sent"

    engine = await stage.engine([undo, stubborn])
    handle = await engine.start(stubborn)
    await waits_for(handle, "signal 'go'")

    await handle.cancel("please")

    assert await handle.result() == "no: please, undid nothing"
    assert "cancel_requested" in kinds(await handle.history())


async def test_a_failure_while_cleaning_up_is_a_failure(stage: Stage) -> None:
    @orchestration
    async def clumsy() -> None:
        try:
            await go.receive()
        finally:
            raise RuntimeError("dropped it")

    engine = await stage.engine([clumsy])
    handle = await engine.start(clumsy)
    await waits_for(handle, "signal 'go'")
    await handle.cancel()

    with pytest.raises(InstanceFailedError, match="RuntimeError: dropped it"):
        await handle.result()


async def test_a_cancel_before_the_first_turn_is_heard_at_the_first_await(stage: Stage) -> None:
    runs: list[str] = []

    @activity
    async def act() -> None:
        runs.append("ran")

    @orchestration
    async def acting() -> None:
        await act()

    client = await stage.client()
    handle = await client.start("a", acting)
    await handle.cancel("too early")

    await stage.engine([act, acting])

    with pytest.raises(InstanceCancelledError, match="too early"):
        await handle.result()
    assert runs == []


async def test_cancelling_ends_the_activity_that_runs(stage: Stage) -> None:
    told: list[str] = []
    gate = Gate()

    @activity
    async def long() -> None:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    @orchestration
    async def acting() -> None:
        await long()

    engine = await stage.engine([long, acting])
    handle = await engine.start(acting)
    await gate.reached()

    await handle.cancel("stop it")

    with pytest.raises(InstanceCancelledError):
        await handle.result()
    await until(lambda: told)
    assert kinds(await handle.history())[-3:] == [
        "cancel_requested",
        "activity_cancelled",
        "cancelled",
    ]


async def test_cancelling_a_finished_instance_changes_nothing(stage: Stage) -> None:
    engine = await stage.engine([waiting])
    handle = await engine.start(waiting)
    await handle.send(go, "done")
    await handle.result()

    await handle.cancel("late")
    await handle.terminate("later")

    assert await handle.result() == "done"


async def test_a_cancel_of_another_process_is_heard(stage: Stage) -> None:
    engine = await stage.engine([waiting])
    handle = await engine.start("w", waiting)
    client = await stage.client()

    await client.handle("w").cancel("from afar")

    with pytest.raises(InstanceCancelledError, match="from afar"):
        await handle.result()


@pytest.mark.parametrize("by", ["engine", "client"])
async def test_a_cancel_reaches_a_chain_that_never_pauses(stage: Stage, by: str) -> None:
    """Local results take the short way; messages must come through all the same."""
    engine = await stage.engine([step, endless])
    handle = await engine.start("e", endless)
    await until(lambda: _has_moved(handle))
    canceller = engine if by == "engine" else await stage.client()

    await canceller.handle("e").cancel("enough")

    with pytest.raises(InstanceCancelledError, match="enough"):
        await handle.result()


async def test_code_can_cancel_its_own_tasks_without_being_cancelled(stage: Stage) -> None:
    @orchestration
    async def tidy() -> list[str]:
        task = asyncio.create_task(go.receive())
        await asyncio.sleep(0)
        task.cancel()
        found = await asyncio.gather(task, return_exceptions=True)
        return [type(error).__name__ for error in found]

    engine = await stage.engine([tidy])

    assert await (await engine.start(tidy)).result() == ["CancelledError"]


async def test_a_cancelled_error_of_the_code_itself_is_a_failure(stage: Stage) -> None:
    @orchestration
    async def odd() -> None:
        raise asyncio.CancelledError("by myself")

    engine = await stage.engine([odd])

    with pytest.raises(InstanceFailedError, match="CancelledError: by myself"):
        await (await engine.start(odd)).result()


# ------------------------------------------------------------------ terminate


async def test_terminate_does_not_ask_the_code(stage: Stage) -> None:
    undone: list[str] = []

    @activity
    async def undo_here() -> None:
        undone.append("undone")

    @orchestration
    async def booking() -> None:
        try:
            await go.receive()
        finally:
            undone.append("asked" if not context().is_replaying else "torn down")
            await undo_here()

    engine = await stage.engine([undo_here, booking])
    handle = await engine.start("b", booking)
    await waits_for(handle, "signal 'go'")

    await handle.terminate("now")

    with pytest.raises(InstanceTerminatedError) as caught:
        await handle.result()
    assert str(caught.value) == "instance 'b' was terminated: now"
    assert "undone" not in undone
    assert "asked" not in undone
    assert kinds(await handle.history())[-1] == "terminated"


async def test_the_result_of_an_activity_is_refused_after_a_termination(stage: Stage) -> None:
    gate = Gate()
    finished = asyncio.Event()

    @activity
    async def deaf() -> str:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            await gate.pass_through()
        finished.set()
        return "too late"

    @orchestration
    async def acting() -> str:
        return await deaf()

    engine = await stage.engine([deaf, acting])
    handle = await engine.start("a", acting)
    await gate.reached()
    history = kinds(await handle.history())

    await handle.terminate("now")
    gate.opened.set()
    await until(finished.is_set)

    with pytest.raises(InstanceTerminatedError):
        await handle.result()
    assert kinds(await handle.history()) == [*history, "terminated"]
    assert await engine._core.store.read_jobs("a") == []


async def test_a_termination_by_another_process_refuses_the_result_of_an_activity(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    @activity
    async def act() -> str:
        return "too late"

    @orchestration
    async def acting() -> str:
        return await act()

    engine = await stage.engine([act, acting])
    client = await stage.client()
    overtake(engine, monkeypatch, lambda: client.handle("a").terminate("from afar"))
    handle = await engine.start("a", acting)

    with pytest.raises(InstanceTerminatedError, match="from afar"):
        await handle.result()
    await until(lambda: engine._serving.turns.refused)
    assert kinds(await handle.history())[-1] == "terminated"


async def test_terminate_works_without_any_worker(stage: Stage) -> None:
    engine = await stage.engine([waiting])
    await (await engine.start("w", waiting)).explain()
    await engine.close()
    client = await stage.client()

    await client.handle("w").terminate("nobody home")

    with pytest.raises(InstanceTerminatedError, match="nobody home"):
        await client.handle("w").result()


async def test_an_instance_that_never_ran_can_be_terminated(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("w", waiting)

    await handle.terminate("never mind")

    with pytest.raises(InstanceTerminatedError, match="never mind"):
        await handle.result()
    assert kinds(await handle.history()) == ["started", "terminated"]

    await stage.engine([waiting])
    assert (await handle.info()).status is Status.TERMINATED


async def test_a_termination_by_another_process_is_heard_though_the_instance_is_in_memory(
    stage: Stage,
) -> None:
    engine = await stage.engine([waiting])
    handle = await engine.start("w", waiting)
    result = asyncio.create_task(handle.result())
    await waits_for(handle, "signal 'go'")

    await (await stage.client()).handle("w").terminate("from afar")

    with pytest.raises(InstanceTerminatedError, match="from afar"):
        await result
    assert not engine._core.is_here("w")


@pytest.mark.parametrize("by", ["engine", "client"])
async def test_terminate_ends_a_chain_that_never_pauses(stage: Stage, by: str) -> None:
    engine = await stage.engine([step, endless])
    handle = await engine.start("e", endless)
    await until(lambda: _has_moved(handle))

    terminator = engine if by == "engine" else await stage.client()
    await terminator.handle("e").terminate("enough")

    with pytest.raises(InstanceTerminatedError, match="enough"):
        await handle.result()


async def test_an_id_can_be_used_again_after_a_termination(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def act(who: str) -> str:
        await gate.pass_through()
        return who

    @orchestration
    async def acting(who: str) -> str:
        return await act(who)

    engine = await stage.engine([act, acting])
    first = await engine.start("a", acting, "first")
    await gate.reached()
    await first.terminate()

    second = await engine.start("a", acting.with_options(if_exists="restart"), "second")
    gate.opened.set()

    assert await second.result() == "second"


async def test_an_activity_that_was_given_up_reports_to_nobody(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def slow() -> str:
        await gate.pass_through()
        return "late"

    @orchestration
    async def impatient() -> str:
        try:
            async with asyncio.timeout(0.02):
                return await slow()
        except TimeoutError:
            return f"gave up, {await undo('slow')}"
        except ActivityError:
            return "failed"

    engine = await stage.engine([slow, undo, impatient])
    handle = await engine.start("i", impatient)

    assert await handle.result() == "gave up, undid slow"
    gate.opened.set()
    await until(lambda: has_ended(engine, "i"))


async def _has_moved(handle: Handle[int]) -> bool:
    return len(await handle.history()) > 20
