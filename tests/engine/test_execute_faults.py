"""`execute` where two classes have one name, and where the store fails in an unforeseen way."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from perdure import Accepted, Decision, Rejected
from perdure.store.base import Store
from perdure.store.deciders import DeciderStore
from tests.engine.stage import Stage, is_waiting, until
from tests.engine.test_execute_corners import Diary, Write, Written, hold_after
from tests.sizes import WITHIN_S


class Loud(Diary):
    """Another class of the same name, as while a module is loaded again."""

    def decide(self, state: str, input: Write, now: datetime, /) -> Decision[Write, Written, str]:
        return Decision.accept(Written(input.text.upper()))


async def test_inputs_of_two_classes_of_one_name_are_each_decided_by_their_own(
    stage: Stage,
) -> None:
    """Also when both wait for the same instance to be read."""
    await (await stage.client()).execute(Diary, Write("d", "begun"))
    client = await stage.client()

    async with asyncio.timeout(WITHIN_S):
        answers = await asyncio.gather(
            client.execute(Diary, Write("d", "low")),
            client.execute(Loud, Write("d", "high")),
            client.execute(Diary, Write("new", "low")),
            client.execute(Loud, Write("new", "high")),
        )

    written = [answer.events for answer in answers if isinstance(answer, Accepted)]
    assert written == [(Written("low"),), (Written("HIGH"),)] * 2


async def test_an_input_is_decided_by_its_own_class_though_another_came_into_memory_first(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker has the instance in memory by the time that it was read for the input."""
    engine = await stage.engine([Diary])
    gate = hold_after(monkeypatch, engine._core.store, "read_news")
    calling = asyncio.create_task(engine.execute(Loud, Write("d", "high")))
    await gate.reached.wait()

    await engine.send(Diary, Write("d", "low"))
    await until(lambda: is_waiting(engine, "diary:d"))
    gate.opened.set()
    async with asyncio.timeout(WITHIN_S):
        answer = await calling

    assert answer == Accepted((Written("HIGH"),), "low HIGH", 2)


# --------------------------------------------------------- what nobody has foreseen


def fail_once(monkeypatch: pytest.MonkeyPatch, store: Store | DeciderStore, method: str) -> None:
    """Let a method of a store, or of a part of it, raise what is none of its errors, once."""
    ask = getattr(store, method)

    async def fails(*args: Any, **more: Any) -> Any:
        monkeypatch.setattr(store, method, ask)
        raise LookupError("out of memory, perhaps")

    monkeypatch.setattr(store, method, fails)


@pytest.mark.parametrize("input_id", [None, "r-1"], ids=["read", "settle"])
async def test_a_rejection_that_cannot_be_confirmed_is_told_and_the_instance_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, input_id: str | None
) -> None:
    client = await stage.client()
    await client.execute(Diary, Write("d", "begun"))
    store = client._core.store
    if input_id is None:
        fail_once(monkeypatch, store, "read_live")
    else:
        fail_once(monkeypatch, store.deciders, "settle_inputs")

    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(LookupError, match="out of memory"):
            await client.execute(Diary, Write("d", ""), input_id=input_id)
        rejected = await client.execute(Diary, Write("d", ""), input_id=input_id)
        accepted = await client.execute(Diary, Write("d", "more"))

    assert rejected == Rejected("nothing")
    assert accepted == Accepted((Written("more"),), "begun more", 2)


@pytest.mark.parametrize("method", ["read_live", "read_inbox"])
async def test_an_inbox_that_cannot_be_read_is_told_and_the_instance_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    client = await stage.client()
    await client.execute(Diary, Write("d", "begun"))
    await client.send(Diary, Write("d", "sent"))
    fail_once(monkeypatch, client._core.store, method)

    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(LookupError, match="out of memory"):
            await client.execute(Diary, Write("d", "lost"))
        answer = await client.execute(Diary, Write("d", "more"))

    assert answer == Accepted((Written("more"),), "begun sent more", 3)
