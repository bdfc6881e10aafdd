"""`explain` and `unclaimed`: why nothing moves, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure import Context, Handle, Signal, Status, Stream, activity, orchestration
from perdure.authoring.registry import activity_key
from perdure.client.reading.explain import Evidence, explain, gather_evidence
from perdure.core.summary import Summary
from perdure.model.admin import SessionRow
from perdure.model.histories.events import ActivityScheduled, StoredEvent, write_event
from perdure.model.instances import InstanceRow, LiveRow, Stamp
from perdure.model.jobs import JobKey
from perdure.model.turns import WorkerRow
from perdure.store.base import WaitingJob
from tests.engine.stage import Gate, Stage, options, until, waits_for

go = Signal("go", str)


@orchestration
async def waiting() -> str:
    return await go.receive()


NOW_MS = 1_800_000_000_000
OWNER = JobKey("s", 7, 1, 2)
STAND = activity_key("stand", None)


def explained(call: ActivityScheduled, *, sessions: Sequence[SessionRow] = ()) -> str:
    """Return what is said of an instance that waits for a queued job of a call."""
    kind, body = write_event(call)
    row = InstanceRow(
        instance_id="s",
        incarnation=7,
        execution=1,
        kind="orchestration",
        name="stands",
        version="1.0.0",
        status=Status.RUNNING,
        input=b"{}",
        output=None,
        reason=None,
        parent_id=None,
        parent_incarnation=None,
        created_ms=NOW_MS,
        updated_ms=NOW_MS,
        ended_ms=None,
        digest=None,
    )
    live = LiveRow(
        instance_id="s",
        stamp=Stamp(7, 1, 3),
        definition_no=None,
        wake_at_ms=None,
        lease=0,
        lease_until_ms=0,
        home=None,
        last_no=1,
        last_at_ms=NOW_MS,
        attempts=0,
        blocked_by=None,
    )
    return explain(
        Evidence(
            row=row,
            live=live,
            definition=None,
            summary=Summary([StoredEvent(2, kind, NOW_MS, body)]),
            inbox=[],
            jobs=[WaitingJob(OWNER, STAND, NOW_MS, 0, None, 0, NOW_MS)],
            dead=0,
            sessions={one.session: one for one in sessions},
            workers=[WorkerRow("gpu-1", "host", 1, NOW_MS, NOW_MS, (STAND,))],
            now_ms=NOW_MS,
        )
    )


def test_a_job_whose_session_somebody_has_says_who() -> None:
    call = ActivityScheduled(name="stand", input=msgspec.Raw(b"{}"), session="cart")
    held = SessionRow("cart", "gpu-1", NOW_MS + 1, NOW_MS)
    run_out = SessionRow("cart", "gpu-1", NOW_MS, NOW_MS)

    assert explained(call, sessions=[held]).endswith(
        "activity 'stand' since 2027-01-15 08:00:00 UTC "
        "(queued, for session 'cart', which gpu-1 has)."
    )
    assert explained(call, sessions=[run_out]).endswith("UTC (queued).")


def test_a_call_that_must_start_in_time_says_until_when() -> None:
    call = ActivityScheduled(name="stand", input=msgspec.Raw(b"{}"), start_by_ms=NOW_MS + 3_600_000)

    assert explained(call).endswith("(queued, to start by 2027-01-15 09:00:00 UTC).")


async def test_what_ends_while_it_is_looked_at_is_said_to_have_ended(stage: Stage) -> None:
    engine = await stage.engine([waiting])
    handle = await engine.start("w", waiting)
    store = engine._core.store
    [row] = await store.read_instances(["w"])
    assert row is not None
    await handle.terminate("enough")

    sentence = explain(await gather_evidence(store, engine._core.summaries, row, []))

    assert sentence.startswith("w (waiting 1.0.0) terminated at ")
    assert sentence.endswith(": enough.")


async def test_a_session_in_use_is_listed_with_its_owner(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def stand() -> int:
        await gate.pass_through()
        return 1

    @orchestration
    async def stands() -> int:
        return await stand.with_options(session="cart")()

    engine = await stage.engine([stand, stands], options=options(name="gpu-1"))
    handle = await engine.start("s", stands)
    await gate.reached()

    [session] = await engine.sessions()

    assert (session.session, session.owner, session.is_held) == ("cart", "gpu-1", True)
    assert session.until > session.used_at
    gate.opened.set()
    assert await handle.result() == 1


async def test_a_tag_that_nobody_serves_is_explained(stage: Stage) -> None:
    @activity
    async def render() -> str:
        return "pixels"

    @orchestration
    async def renders() -> str:
        return await render.with_options(tag="gpu")()

    stage.expect_log("no live worker serves activity 'render' with tag 'gpu'")
    engine = await stage.engine([render, renders])
    handle = await engine.start("r", renders)

    await waits_for(handle, "cannot move: no live worker serves activity 'render' with tag 'gpu'")
    assert 'give it WorkerOptions(tags=[None, "gpu"])' in await handle.explain()
    queues = {queue.tag: queue.unclaimed for queue in await engine.queues() if queue.tag}
    assert queues == {"gpu": "needs activity render with tag gpu"}


async def test_waiting_for_another_instance_names_it(stage: Stage) -> None:
    @orchestration
    async def follows(ctx: Context) -> str:
        return await ctx.ref("w", waiting).result()

    engine = await stage.engine([waiting, follows])
    first = await engine.start("w", waiting)
    handle = await engine.start("f", follows)

    await waits_for(handle, "waits for the result of instance 'w' since")
    await first.send(go, "on")
    assert await handle.result() == "on"


async def test_an_execution_beyond_the_first_is_named(stage: Stage) -> None:
    @orchestration
    async def rounds(number: int) -> None:
        await go.receive()
        rounds.continue_as_new(number + 1)

    engine = await stage.engine([rounds])
    handle = await engine.start("r", rounds, 1)
    await waits_for(handle, "r (rounds 1.0.0) waits for signal 'go'")

    await handle.send(go, "on")

    await waits_for(handle, "r (rounds 1.0.0, execution 2) waits for signal 'go'")


async def test_an_instance_that_no_worker_knows_is_unclaimed_until_one_does(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("w", waiting)
    assert (await handle.info()).unclaimed == "needs waiting 1.0.0"
    assert "cannot move: unclaimed: needs waiting 1.0.0" in await handle.explain()
    assert (await handle.tree()).info.unclaimed == "needs waiting 1.0.0"

    await stage.engine([waiting])

    await waits_for(handle, "signal 'go'")
    await until(lambda: is_claimed(handle))


async def is_claimed(handle: Handle[Any]) -> bool:
    return (await handle.info()).unclaimed is None


async def test_what_was_sent_to_streams_is_told_until_the_end(stage: Stage) -> None:
    words = Stream("words", str)

    @orchestration
    async def saying() -> str:
        words.send("one")
        words.send("two")
        return await go.receive()

    engine = await stage.engine([saying])
    handle = await engine.start("s", saying)

    await waits_for(handle, "; has sent 2 items to stream 'words', the last at 20")
    await handle.send(go, "on")
    await handle.result()
    assert "stream" not in await handle.explain()
