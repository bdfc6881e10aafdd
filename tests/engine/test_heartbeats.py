from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from perdure import ActivityContext, Client, Engine, Retry, activity, orchestration
from perdure.clock import ManualClock
from perdure.model.jobs import JobBeat
from tests.engine.stage import Gate, Stage, options, transactions, until
from tests.jobs import busywork

SOON = timedelta(milliseconds=20)
AT_ONCE = Retry(max_attempts=3, first_delay=timedelta(0))


async def shown(client: Client, instance_id: str) -> list[bytes | None]:
    """Return the progress of the running jobs of an instance."""
    return [job.progress for job in await client._core.store.admin.read_progress(instance_id)]


async def test_progress_can_be_seen_by_another_process_while_the_activity_runs(
    stage: Stage,
) -> None:
    gate = Gate()

    @activity
    async def copy(ctx: ActivityContext) -> None:
        ctx.progress({"done": 1})
        await gate.pass_through()

    @orchestration
    async def copying() -> None:
        await copy()

    engine = await stage.engine([copying, copy], options=options(heartbeat_every=SOON))
    client = await stage.client()
    handle = await engine.start("c", copying)
    await until(lambda: _is_shown(client, b'{"done":1}'))

    gate.opened.set()
    await handle.result()


async def _is_shown(client: Client, progress: bytes) -> bool:
    return progress in await shown(client, "c")


async def test_the_next_attempt_goes_on_from_the_last_heartbeat(stage: Stage) -> None:
    @activity(retry=AT_ONCE)
    async def copy(ctx: ActivityContext) -> list[int]:
        done = ctx.last_details(list[int]) or []
        ctx.heartbeat([*done, ctx.attempt])
        if ctx.attempt < 3:
            raise OSError("cable pulled")
        return done

    @orchestration
    async def copying() -> list[int]:
        return await copy()

    engine = await stage.engine([copying, copy])

    assert await (await engine.start(copying)).result() == [1, 2]


async def test_the_heartbeat_of_a_lost_worker_reaches_the_next(stage: Stage) -> None:
    clock = ManualClock()
    gate = Gate()
    seen: list[Any] = []

    @activity
    async def copy(ctx: ActivityContext) -> int:
        seen.append(ctx.last_details())
        if ctx.attempt == 1:
            ctx.heartbeat({"page": 7})
            await gate.pass_through()
        return ctx.attempt

    @orchestration
    async def copying() -> int:
        return await copy()

    first = await stage.engine(
        [copying, copy], clock=clock, options=options(heartbeat_every=SOON, name="first")
    )
    handle = await first.start("c", copying)
    await gate.reached()
    await until(lambda: _are_kept(first))

    clock.advance(timedelta(seconds=31))
    await stage.engine([copy], clock=clock, options=options(name="second"))

    assert await handle.result() == 2
    assert seen == [None, {"page": 7}]


async def _are_kept(engine: Engine) -> bool:
    jobs = await engine._core.store.admin.read_progress("c")
    return any(job.beat_ms is not None for job in jobs)


async def test_many_heartbeats_are_few_writes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[list[JobBeat]] = []
    said = asyncio.Event()
    gate = Gate()

    @activity
    async def copy(ctx: ActivityContext) -> None:
        for page in range(1_000):
            ctx.heartbeat(page)
            ctx.progress(page)
            if page == 500:
                await said.wait()
        await gate.pass_through()

    @orchestration
    async def copying() -> None:
        await asyncio.gather(*(copy() for _ in range(10)))

    engine = await stage.engine([copying, copy], options=options(heartbeat_every=SOON))
    beat_jobs = engine._core.store.beat_jobs

    async def counted(beats: Any) -> None:
        written.append(list(beats))
        await beat_jobs(beats)
        said.set()

    monkeypatch.setattr(engine._core.store, "beat_jobs", counted)
    handle = await engine.start("c", copying)
    await until(lambda: _are_all(engine, b"999"))
    gate.opened.set()
    await handle.result()

    assert len(written) <= 4, "once at first, once each time after a pause"
    assert all(len({beat.key for beat in beats}) == len(beats) for beats in written)


async def _are_all(engine: Engine, progress: bytes) -> bool:
    found = await shown(engine, "c")
    return len(found) == 10 and set(found) == {progress}


async def test_what_was_said_is_written_once(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def copy(ctx: ActivityContext) -> None:
        ctx.heartbeat({"page": 1})
        await gate.pass_through()

    @orchestration
    async def copying() -> None:
        await copy()

    engine = await stage.engine([copying, copy], options=options(heartbeat_every=SOON))
    handle = await engine.start("c", copying)
    await until(lambda: _are_kept(engine))
    before = transactions(engine)
    await engine._serving._heartbeats.write()

    assert transactions(engine) == before
    gate.opened.set()
    await handle.result()


async def test_heartbeats_that_the_store_refuses_are_written_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()

    @activity
    async def copy(ctx: ActivityContext) -> None:
        await gate.pass_through()
        ctx.heartbeat({"page": 1})
        await asyncio.Event().wait()

    @orchestration
    async def copying() -> None:
        await copy()

    engine = await stage.engine([copying, copy], options=options(heartbeat_every=SOON))
    handle = await engine.start("c", copying)
    await gate.reached()
    stage.expect_log("started again: heartbeats")

    async def refuse(_: Any) -> None:
        raise OSError("no")

    monkeypatch.setattr(engine._core.store, "beat_jobs", refuse)
    gate.opened.set()
    await until(lambda: stage.logged("started again: heartbeats"))
    monkeypatch.undo()

    await until(lambda: _are_kept(engine))
    await handle.terminate()


async def test_a_plain_function_says_something_from_its_thread(stage: Stage) -> None:
    let_go = threading.Event()

    @activity
    def copy(ctx: ActivityContext) -> None:
        ctx.progress("half")
        let_go.wait()

    @orchestration
    async def copying() -> None:
        await copy()

    engine = await stage.engine([copying, copy], options=options(heartbeat_every=SOON))
    handle = await engine.start("c", copying)
    await until(lambda: _is_shown(engine, b'"half"'))

    let_go.set()
    await handle.result()


async def test_an_activity_in_a_process_says_something_and_is_told_what_was_said(
    stage: Stage,
) -> None:
    @orchestration
    async def copying() -> list[str]:
        return await busywork.copy_in_parts.with_options(
            retry=AT_ONCE, session="s", deadline=timedelta(hours=1)
        )()

    engine = await stage.engine(
        [copying, busywork.copy_in_parts], options=options(heartbeat_every=SOON, name="here")
    )
    handle = await engine.start("c", copying)

    last, *facts = await handle.result()
    assert last == "3"
    assert facts == ["here", "s", "copying 1.0.0", "has a deadline"]


@pytest.mark.parametrize("what", ["client", "resource"])
async def test_what_a_process_cannot_have_is_refused_with_the_remedy(
    stage: Stage, what: str
) -> None:
    @orchestration
    async def asking() -> str:
        return await busywork.ask_for(what)

    engine = await stage.engine([asking, busywork.ask_for])

    assert "runs in a process of its own" in await (await engine.start(asking)).result()


async def test_activities_are_listened_to_while_their_worker_stops(stage: Stage) -> None:
    gate, said = Gate(), Gate()

    @activity
    async def copy(ctx: ActivityContext) -> str:
        await gate.pass_through()
        ctx.progress("last words")
        await said.pass_through()
        return "done"

    @orchestration
    async def copying() -> str:
        return await copy()

    engine = await stage.engine(
        [copying, copy], options=options(heartbeat_every=SOON, stop_grace=timedelta(seconds=20))
    )
    client = await stage.client()
    await engine.start("c", copying)
    await gate.reached()
    stopping = asyncio.create_task(engine.close())
    await until(lambda: not engine._serving._is_serving)

    gate.opened.set()
    await until(lambda: _is_shown(client, b'"last words"'))
    said.opened.set()
    await stopping

    assert await client.handle("c", copying).result() == "done"
