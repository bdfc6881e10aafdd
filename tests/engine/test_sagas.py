"""Sagas are the standard library's exit stack: what it does with failures, and its two traps."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from perdure import Defined, activity, orchestration
from perdure.errors import InstanceFailedError, RecordedError
from tests.engine.stage import Stage, options

DONE: list[str] = []


@activity
async def book(part: str) -> str:
    if part == "car":
        raise LookupError("no car left")
    DONE.append(f"book {part}")
    return part


@activity
async def give_up(part: str) -> None:
    DONE.append(f"give up {part}")
    if part == "hotel":
        raise OSError("the hotel does not answer")


@orchestration
async def trip(parts: list[str]) -> list[str]:
    async with AsyncExitStack() as undo:
        for part in parts:
            undo.push_async_callback(give_up, part)
            await book(part)
        undo.pop_all()
    return parts


@orchestration
async def trips(left: int) -> str:
    async with AsyncExitStack() as undo:
        undo.push_async_callback(give_up, f"flight {left}")
        await book(f"flight {left}")
        if left:
            trips.continue_as_new(left - 1)
        undo.pop_all()
    return "there"


ALL: list[Defined] = [trip, trips, book, give_up]
HOT = pytest.mark.parametrize("hot", [1000, 0])


@pytest.fixture(autouse=True)
def forget() -> None:
    DONE.clear()


@HOT
async def test_what_is_settled_is_not_undone(stage: Stage, hot: int) -> None:
    engine = await stage.engine(ALL, options=options(hot_instances=hot))

    assert await (await engine.start(trip, ["flight", "hotel"])).result() == ["flight", "hotel"]
    assert DONE == ["book flight", "book hotel"]


@HOT
async def test_a_failing_undo_does_not_keep_the_others_and_the_chain_is_on_record(
    stage: Stage, hot: int
) -> None:
    """Without the chain the instance would have failed for the hotel, and nothing of the car."""
    engine = await stage.engine(ALL, options=options(hot_instances=hot))
    handle = await engine.start("t-1", trip, ["flight", "hotel", "car"])

    with pytest.raises(InstanceFailedError, match="the hotel does not answer") as caught:
        await handle.result()

    assert ["book flight", "book hotel"] + [
        f"give up {p}" for p in ("car", "hotel", "flight")
    ] == DONE
    assert "raised while handling" in str(caught.value)
    assert "no car left" in str(caught.value)
    failed = caught.value.origin
    assert isinstance(failed, RecordedError)
    assert failed.type_name == "ActivityError"
    assert isinstance(failed.__cause__, RecordedError)
    assert failed.__cause__.type_name == "OSError"
    # What was being undone is what the undo was raised while handling.
    first = failed.__context__
    assert isinstance(first, RecordedError)
    assert "no car left" in str(first)
    assert "no car left" in await handle.explain()


@HOT
async def test_continuing_inside_the_block_undoes_what_is_on_the_stack(
    stage: Stage, hot: int
) -> None:
    """The trap that `perdure check` finds: it works by an exception, as leaving a block does."""
    engine = await stage.engine(ALL, options=options(hot_instances=hot))

    assert await (await engine.start(trips, 1)).result() == "there"
    assert DONE == ["book flight 1", "give up flight 1", "book flight 0"]
