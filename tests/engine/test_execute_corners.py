"""`execute` where callers give up, several things come at once, or nothing is accepted for long."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from perdure import Accepted, Client, Decider, Decision, Rejected
from perdure.clock import system_clock
from perdure.errors import (
    AlreadyExistsError,
    InstanceEndedError,
    InstanceNotFoundError,
    StoreError,
    UniqueKeyError,
)
from perdure.store.base import Store
from perdure.store.deciders import DeciderStore
from tests.engine.shop import Note, Order, Pay, Place
from tests.engine.stage import Stage, options, until
from tests.sizes import WITHIN_S


@dataclass(frozen=True)
class Write:
    diary_id: str
    text: str
    key: str | None = None


@dataclass(frozen=True)
class Written:
    text: str


class Diary(Decider[str, Write, Written, str]):
    """Keeps what is written, word by word; needs no worker."""

    name = "diary"

    def initial(self) -> str:
        return ""

    def instance_id(self, input: Write, /) -> str:
        return input.diary_id

    def unique_key(self, input: Write, /) -> str | None:
        return input.key

    def decide(self, state: str, input: Write, now: datetime, /) -> Decision[Write, Written, str]:
        if not input.text:
            return Decision.reject("nothing")
        return Decision.accept(Written(input.text))

    def evolve(self, state: str, event: Written, /) -> str:
        return f"{state} {event.text}".strip()


class Gate:
    """Stops what comes by until it is opened."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def pass_by(self) -> None:
        """Wait here."""
        self.reached.set()
        await self.opened.wait()


def hold_after(monkeypatch: pytest.MonkeyPatch, store: Store | DeciderStore, method: str) -> Gate:
    """Let the answers of a method of a store, or of a part of it, wait at a gate."""
    gate, ask = Gate(), getattr(store, method)

    async def late(*args: Any, **more: Any) -> Any:
        answer = await ask(*args, **more)
        await gate.pass_by()
        return answer

    monkeypatch.setattr(store, method, late)
    return gate


async def give_up(task: asyncio.Task[Any]) -> None:
    """Cancel a call and wait until it has ended."""
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def idle(client: Client) -> None:
    """Wait until nothing runs in the background of a client."""
    await client._core.turns()._background.drain()


async def test_a_caller_that_gives_up_before_anything_is_decided_leaves_no_instance(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await stage.client()
    gate = hold_after(monkeypatch, client._core.store, "read_news")
    calling = asyncio.create_task(client.execute(Diary, Write("d", "given up")))
    await gate.reached.wait()

    await give_up(calling)
    gate.opened.set()
    await idle(client)

    assert await client.count() == 0
    answer = await client.execute(Diary, Write("d", "again"))
    assert answer == Accepted((Written("again"),), "again", 1)


async def test_what_was_sent_by_a_clock_that_is_a_little_ahead_is_neither_overtaken_nor_forgotten(
    stage: Stage,
) -> None:
    """Each process knows the time of the database by answers that take their time."""
    ahead = await stage.client(clock=lambda: system_clock() + 500)
    await ahead.execute(Diary, Write("d", "one"))
    await ahead.send(Diary, Write("d", "two"))

    outcome = await (await stage.client()).execute(Diary, Write("d", "three"))

    assert isinstance(outcome, Accepted)
    assert outcome.state == "one two three"


async def test_an_input_that_joins_a_load_does_not_overtake_what_was_sent_before(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await stage.client()).execute(Diary, Write("d", "begun"))
    client = await stage.client()
    gate = hold_after(monkeypatch, client._core.store, "read_news")
    first = asyncio.create_task(client.execute(Diary, Write("d", "first")))
    await gate.reached.wait()

    await client.send(Diary, Write("d", "sent"))
    second = asyncio.create_task(client.execute(Diary, Write("d", "last")))
    await asyncio.sleep(0)
    gate.opened.set()
    await asyncio.gather(first, second)

    assert await client.state(Diary, "d") in ("begun first sent last", "begun sent first last")


async def test_rejections_alone_do_not_fill_the_memory(stage: Stage) -> None:
    names = [f"d-{number}" for number in range(12)]
    writer = await stage.client()
    await asyncio.gather(*(writer.execute(Diary, Write(name, "begun")) for name in names))
    engine = await stage.engine([Diary], options=options(hot_instances=3))

    for name in names:
        assert await engine.execute(Diary, Write(name, "")) == Rejected("nothing")

    await idle(engine)
    assert len(engine._core.turns().hot) == 3


async def test_an_instance_that_is_deleted_while_its_replay_is_tried_is_no_mismatch(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await stage.engine([Diary], options=options(hot_instances=1))
    await engine.execute(Diary, Write("d-1", "begun"))
    gate, ask = Gate(), engine._core.store.read_histories

    async def late(*args: Any, **more: Any) -> Any:
        await gate.pass_by()
        return await ask(*args, **more)

    monkeypatch.setattr(engine._core.store, "read_histories", late)
    await engine.execute(Diary, Write("d-2", "begun"))
    await gate.reached.wait()

    await (await stage.client()).handle("d-1", Diary).delete(force=True)
    gate.opened.set()
    await idle(engine)

    assert engine._core.turns().shadow.mismatches == 0


# ---------------------------------------------------------------- business keys


async def lose_the_key(client: Client, given: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Find a key taken, and give up before the input is decided again."""
    deciding = client._core.turns().deciding
    decide, is_refused = deciding.decide, asyncio.Event()

    async def decide_once(*args: Any, **more: Any) -> Any:
        if is_refused.is_set():
            await asyncio.Event().wait()
        answer = await decide(*args, **more)
        is_refused.set()
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(deciding, "decide", decide_once)
        calling = asyncio.create_task(client.execute(Diary, given))
        await is_refused.wait()
        await give_up(calling)


async def test_a_key_that_was_taken_once_is_free_when_its_holder_has_ended(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await stage.client()
    await client.execute(Diary, Write("one", "begun", "ref"))
    await client.execute(Diary, Write("two", "begun"))
    await lose_the_key(client, Write("two", "more", "ref"), monkeypatch)

    await client.handle("one", Diary).terminate()

    assert isinstance(await client.execute(Diary, Write("two", "more", "ref")), Accepted)
    assert await client.key_holder(Diary, "ref") == "two"


async def test_a_sent_input_gets_a_key_that_was_taken_when_another_wanted_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await stage.engine([Diary])
    await engine.execute(Diary, Write("one", "begun", "ref"))
    await engine.execute(Diary, Write("two", "begun"))
    await lose_the_key(engine, Write("two", "more", "ref"), monkeypatch)
    await engine.handle("one", Diary).terminate()

    await engine.send(Diary, Write("two", "more", "ref"))

    async def is_decided() -> bool:
        return await engine.state(Diary, "two") != "begun"

    await until(is_decided)
    assert await engine.key_holder(Diary, "ref") == "two"


async def test_keys_that_were_taken_are_not_kept_for_ever(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.turns.direct.taken_keys.MAX_INSTANCES", 3)
    client = await stage.client()
    await client.execute(Diary, Write("one", "begun", "ref"))
    for number in range(5):
        await client.execute(Diary, Write(f"p-{number}", "begun"))
        await lose_the_key(client, Write(f"p-{number}", "more", "ref"), monkeypatch)

    assert len(client._core.turns()._executions.taken) == 3
    with pytest.raises(UniqueKeyError, match="'one'"):
        await client.execute(Diary, Write("p-0", "more", "ref"))


async def test_reading_a_state_does_not_disturb_an_input_whose_key_is_taken(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await stage.client()
    await client.execute(Diary, Write("one", "begun", "ref"))
    await client.execute(Diary, Write("two", "begun"))
    deciding = client._core.turns().deciding
    decide, tries = deciding.decide, 0

    async def look_first(*args: Any, **more: Any) -> Any:
        nonlocal tries
        tries += 1
        await client.state(Diary, "two")
        return await decide(*args, **more)

    monkeypatch.setattr(deciding, "decide", look_first)

    with pytest.raises(UniqueKeyError, match="'one'"):
        await client.execute(Diary, Write("two", "more", "ref"))

    assert tries == 2


# ----------------------------------------------------------------------- closing


async def test_closing_answers_everybody_who_waits(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1"))
    calls = [
        asyncio.create_task(engine.execute(Order, Note(f"o-{number % 7}", str(number))))
        for number in range(200)
    ]
    await asyncio.sleep(0)

    await engine.close()

    async with asyncio.timeout(WITHIN_S):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    other = await stage.client()
    kept = (await other.state(Order, "o-1")).notes
    accepted = [answer for answer in answers if isinstance(answer, Accepted)]
    assert len(accepted) == len(kept)
    assert [a for a in answers if not isinstance(a, Accepted | Rejected | StoreError)] == []


EXPECTED = (
    AlreadyExistsError,
    InstanceEndedError,
    InstanceNotFoundError,
    UniqueKeyError,
)
"""What may come of a step when others do the opposite at the same time."""


async def do_something(client: Client, seed: int) -> None:
    """Take one step with one of a few instances."""
    name = f"o-{seed % 4}"
    handle = client.handle(name, Order)
    match seed % 7:
        case 0 | 1:
            await client.execute(Order, Place(name, reference=f"r-{seed % 3}"))
        case 2:
            await client.send(Order, Note(name, "sent"))
        case 3:
            await client.execute(Order, Note(name, "given"), input_id=f"i-{seed}")
        case 4:
            await client.execute(Order, Pay(name))
        case 5:
            await handle.terminate("enough")
        case _:
            await handle.delete(force=True)


async def test_everything_at_once_keeps_the_promises(stage: Stage) -> None:
    engines = [await stage.engine([Order], options=options(hot_instances=2)) for _ in range(2)]
    clients = [*engines, await stage.client(), await stage.client()]

    async def use(client: Client, first: int) -> None:
        for number in range(40):
            with suppress(*EXPECTED):
                await do_something(client, first + 5 * number)

    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*(use(client, 11 * turn) for turn, client in enumerate(clients)))
