"""What another process does to an instance that this one has in memory."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import Client, Signal, orchestration
from perdure.client.reading import watch
from perdure.errors import InstanceNotFoundError, InstanceTerminatedError
from perdure.model.hints import Hint
from perdure.model.instances import InstanceRow
from perdure.model.turns import ClaimedTurn, Turn
from perdure.turns.hot import HotInstance
from tests.engine.stage import Stage, until, waits_for
from tests.sizes import WITHIN_S

go = Signal("go", str)


@orchestration
async def waiting() -> str:
    return await go.receive()


@orchestration
async def twice(left: int) -> str:
    said = await go.receive()
    if left:
        twice.continue_as_new(left - 1)
    return said


async def test_an_id_that_was_deleted_elsewhere_can_be_started_again_here(stage: Stage) -> None:
    """The coroutine of the deleted one is still in memory, and nobody has told."""
    engine = await stage.engine([waiting])
    client = await stage.client()
    await waits_for(await engine.start("w", waiting), "signal 'go'")

    await client.delete("w", force=True)
    handle = await engine.start("w", waiting)

    await handle.send(go, "on")
    assert await handle.result() == "on"


async def test_an_id_that_was_terminated_elsewhere_can_be_restarted_here(stage: Stage) -> None:
    engine = await stage.engine([waiting])
    client = await stage.client()
    await waits_for(await engine.start("w", waiting), "signal 'go'")

    await client.handle("w").terminate()
    handle = await engine.start("w", waiting.with_options(if_exists="restart"))

    await handle.send(go, "on")
    assert await handle.result() == "on"


async def test_an_execution_that_is_claimed_before_its_predecessor_was_answered_is_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may answer a claim that came after a commit before it answers the commit."""
    engine = await stage.engine([twice])
    handle = await engine.start("t", twice, 1)
    await waits_for(handle, "signal 'go'")
    claimed = asyncio.Event()
    commit, take = engine._core.store.commit, engine._serving.turns.take

    def commit_late(turns: Any) -> Any:
        answer = commit(turns)

        async def late() -> Any:
            receipts = await answer
            if any(turn.continued is not None for turn in turns):
                await claimed.wait()
            return receipts

        return late()

    async def take_and_tell(claims: list[ClaimedTurn]) -> None:
        await take(claims)
        if any(claim.stamp.execution == 2 for claim in claims):
            claimed.set()

    monkeypatch.setattr(engine._core.store, "commit", commit_late)
    monkeypatch.setattr(engine._serving.turns, "take", take_and_tell)

    await handle.send(go, "first")
    await asyncio.wait_for(claimed.wait(), WITHIN_S)
    monkeypatch.undo()
    await handle.send(go, "second")

    assert await asyncio.wait_for(handle.result(), WITHIN_S) == "second"


async def test_an_answer_that_is_lost_by_a_defect_is_lost_for_its_instance_only(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.expect_log("the answer to a turn of instance .* was lost")
    engine = await stage.engine([waiting])
    handles = [await engine.start(f"w-{number}", waiting) for number in range(3)]
    metrics = engine._serving.turns._way._metrics
    accepted = metrics.accepted

    def fail_for_one(hot: HotInstance, turn: Turn) -> None:
        if turn.instance_id == "w-0":
            raise ArithmeticError
        accepted(hot, turn)

    monkeypatch.setattr(metrics, "accepted", fail_for_one)
    await asyncio.gather(*(handle.send(go, handle.instance_id) for handle in handles))

    assert [await handle.result() for handle in handles] == ["w-0", "w-1", "w-2"]


async def test_the_end_elsewhere_of_what_is_in_memory_here_is_heard_here(stage: Stage) -> None:
    """Looking is put off for what is here, since its worker tells its end."""
    engine = await stage.engine([waiting])
    client = await stage.client()
    handle = await engine.start("w", waiting)
    await waits_for(handle, "signal 'go'")

    result = asyncio.ensure_future(handle.result())
    await asyncio.sleep(0)
    await client.handle("w").terminate("enough")

    async with asyncio.timeout(60):
        with pytest.raises(InstanceTerminatedError, match="enough"):
            await result


@pytest.mark.parametrize("waits", ["for its end", "for a report"])
async def test_what_happens_while_the_first_look_is_under_way_is_not_swallowed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, waits: str
) -> None:
    """The number that tells of news is read before the rows, or the next look would be the first to
    find it, here after a minute."""
    monkeypatch.setattr(watch, "LOOK_MIN_S", 60.0)
    monkeypatch.setattr(watch, "LOOK_MAX_S", 60.0)
    engine = await stage.engine([waiting])
    client = await stage.client()
    handle = await engine.start("w", waiting)
    await waits_for(handle, "signal 'go'")
    read = client._core.store.read_instances

    async def read_too_early(ids: Sequence[str]) -> list[InstanceRow | None]:
        monkeypatch.setattr(client._core.store, "read_instances", read)
        rows = await read(ids)
        seen = client._core.store.change_count(Hint.NEWS)
        await handle.send(go, "on")
        await handle.result()
        await until(lambda: client._core.store.change_count(Hint.NEWS) != seen)
        return rows

    monkeypatch.setattr(client._core.store, "read_instances", read_too_early)

    async with asyncio.timeout(WITHIN_S):
        if waits == "for its end":
            assert await client.handle("w", waiting).result() == "on"
        else:
            assert await client.handle("w", waiting).wait_report() is None


async def test_whoever_finds_that_an_instance_is_gone_needs_not_be_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is deleted while the first look at it is under way: asyncio reports errors that nobody
    takes."""
    client = await stage.client()
    await client.start("w", waiting)
    read = client._core.store.read_instances

    async def read_too_late(ids: Sequence[str]) -> list[InstanceRow | None]:
        monkeypatch.undo()
        await client.delete("w", force=True)
        return await read(ids)

    monkeypatch.setattr(client._core.store, "read_instances", read_too_late)
    with pytest.raises(InstanceNotFoundError):
        await client.handle("w", waiting).result()

    gc.collect()
    assert stage.logged("never retrieved") == []


async def count_reads(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the ids of instances whose rows this client reads."""
    asked: list[str] = []
    read = client._core.store.read_instances

    async def read_and_note(ids: Sequence[str]) -> list[InstanceRow | None]:
        asked.extend(ids)
        return await read(ids)

    monkeypatch.setattr(client._core.store, "read_instances", read_and_note)
    return asked


async def test_the_row_of_what_was_started_a_moment_ago_is_not_read(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "BEGUN_LASTS_S", 60.0)
    client = await stage.client()
    asked = await count_reads(client, monkeypatch)
    store = client._core.store
    if store.is_server:
        # That it begins to listen counts as news.
        await until(lambda: store.change_count(Hint.NEWS))

    handle = await client.start("w", waiting)
    result = asyncio.ensure_future(handle.result())
    await handle.send(go, "on")
    await stage.engine([waiting])

    assert await result == "on"
    assert asked == []


@pytest.mark.parametrize("ends", ["here", "elsewhere"])
async def test_the_row_of_what_was_started_is_read_if_there_was_news_since(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """It may have ended, and no look would come for a minute."""
    monkeypatch.setattr(watch, "BEGUN_LASTS_S", 60.0)
    monkeypatch.setattr(watch, "LOOK_MIN_S", 60.0)
    monkeypatch.setattr(watch, "LOOK_MAX_S", 60.0)
    client, other = await stage.client(), await stage.client()
    handle = await client.start("w", waiting)
    seen = client._core.store.change_count(Hint.NEWS)

    if ends == "here":
        await client.handle("w").terminate()
    else:
        await other.handle("w").terminate()
        await until(lambda: client._core.store.change_count(Hint.NEWS) != seen)

    async with asyncio.timeout(20):
        with pytest.raises(InstanceTerminatedError):
            await handle.result()


async def test_the_row_of_what_was_started_is_read_after_a_while(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """News may have been lost."""
    monkeypatch.setattr(watch, "BEGUN_LASTS_S", 0.0)
    client = await stage.client()
    asked = await count_reads(client, monkeypatch)
    handle = await client.start("w", waiting)

    result = asyncio.ensure_future(handle.result())
    await until(lambda: asked == ["w"])

    result.cancel()
