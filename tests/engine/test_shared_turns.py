"""Several callers of `execute` in one turn: what one of them spoils, the others do not pay for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from perdure import Accepted, Client, Decider, Decision, Engine, Rejected
from perdure.errors import DecisionTooLongError, InstanceHeldError, RowError
from perdure.model.instances import Status
from perdure.model.turns import InputReceipt
from tests.engine.stage import Stage, kinds, options, until
from tests.engine.test_execute_corners import Diary, Gate, Write, Written, hold_after

LIMITS = options(turn_warning=timedelta(milliseconds=10), turn_limit=timedelta(milliseconds=20))
UNSTORABLE = "a\0b"
"""A correlation that the feed cannot hold."""


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a client hand on texts that it would refuse: they stand for whatever a store refuses."""
    monkeypatch.setattr("perdure.client.deciders.deciders.check_text", lambda what, text: text)


@dataclass(frozen=True)
class Think:
    thinker: str
    what: str


@dataclass(frozen=True)
class Thought:
    what: str


class Thinker(Decider[tuple[str, ...], Think, Thought, str]):
    """Thinks for ever about some things."""

    name = "thinker"

    def initial(self) -> tuple[str, ...]:
        return ()

    def instance_id(self, input: Think, /) -> str:
        return input.thinker

    def decide(
        self, state: tuple[str, ...], input: Think, now: datetime, /
    ) -> Decision[Think, Thought, str]:
        while input.what == "endless":
            pass
        return Decision.accept(Thought(input.what))

    def evolve(self, state: tuple[str, ...], event: Thought, /) -> tuple[str, ...]:
        return (*state, event.what)


def hold_commits(monkeypatch: pytest.MonkeyPatch, client: Client) -> Gate:
    """Let the answer to the next commit wait at a gate."""
    store = client._core.store
    commit = store.commit
    with monkeypatch.context() as patch:
        gate = hold_after(patch, store, "commit")
        held = store.commit

    def once(*args: Any, **more: Any) -> Awaitable[Any]:
        return commit(*args, **more) if gate.reached.is_set() else held(*args, **more)

    monkeypatch.setattr(store, "commit", once)
    return gate


async def share(
    client: Client, decider: Any, first: object, others: Sequence[tuple[object, dict[str, Any]]]
) -> list[Any]:
    """Give inputs while another one is being decided, so that they share the turn after it."""
    tasks = [asyncio.create_task(client.execute(decider, first))]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(client.execute(decider, one, **how)) for one, how in others]
    return list(await asyncio.gather(*tasks, return_exceptions=True))


async def status_of(client: Client) -> Status:
    return (await client.handle("t", Thinker).info()).status


# ------------------------------------------------------------------------ too long


async def test_an_input_that_takes_too_long_is_told_so(stage: Stage) -> None:
    stage.expect_log("computes for")
    engine = await stage.engine([Thinker], options=LIMITS)
    await engine.execute(Thinker, Think("t", "first"))

    with pytest.raises(DecisionTooLongError, match=r"longer than 0\.02 s, at test_shared_turns"):
        await engine.execute(Thinker, Think("t", "endless"))

    answer = await engine.execute(Thinker, Think("t", "last"))
    assert answer == Accepted((Thought("last"),), ("first", "last"), 2)
    assert await status_of(engine) is Status.RUNNING


async def test_a_first_input_that_takes_too_long_leaves_no_instance(stage: Stage) -> None:
    stage.expect_log("computes for")
    engine = await stage.engine([Thinker], options=LIMITS)

    with pytest.raises(DecisionTooLongError):
        await engine.execute(Thinker, Think("t", "endless"))

    assert await engine.count() == 0


async def test_of_inputs_that_begin_an_instance_together_one_that_takes_too_long_spoils_no_other(
    stage: Stage,
) -> None:
    stage.expect_log("computes for")
    engine = await stage.engine([Thinker], options=LIMITS)

    answers = await asyncio.gather(
        *(engine.execute(Thinker, Think("t", what)) for what in ("endless", "a", "b")),
        return_exceptions=True,
    )

    assert isinstance(answers[0], DecisionTooLongError)
    assert all(isinstance(answer, Accepted) for answer in answers[1:])
    history = await engine.handle("t", Thinker).history()
    assert kinds(history) == ["started"] + 2 * ["input_taken", "event_recorded"]


async def test_an_input_that_takes_too_long_is_not_blamed_on_what_was_sent_before(
    stage: Stage,
) -> None:
    stage.expect_log("computes for")
    engine = await stage.engine([Thinker], options=LIMITS)
    await engine.execute(Thinker, Think("t", "first"))

    await engine.send(Thinker, Think("t", "sent"))
    with pytest.raises(DecisionTooLongError):
        await engine.execute(Thinker, Think("t", "endless"))

    assert await engine.state(Thinker, "t") == ("first", "sent")
    assert await status_of(engine) is Status.RUNNING


async def test_an_input_that_takes_too_long_does_not_park_a_claimed_instance(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim and an input come while a turn is being committed: they share the next one."""
    stage.expect_log("computes for")
    engine = await stage.engine([Thinker], options=LIMITS)
    other = await stage.client()
    await engine.execute(Thinker, Think("t", "first"))
    gate = hold_commits(monkeypatch, engine)
    second = asyncio.create_task(engine.execute(Thinker, Think("t", "second")))
    await gate.reached.wait()
    await other.send(Thinker, Think("t", "sent"))
    await until(lambda: is_claimed(engine))

    endless = asyncio.create_task(engine.execute(Thinker, Think("t", "endless")))
    await asyncio.sleep(0)
    gate.opened.set()

    await second
    with pytest.raises(DecisionTooLongError):
        await endless
    assert await status_of(engine) is Status.RUNNING
    answer = await engine.execute(Thinker, Think("t", "last"))
    assert isinstance(answer, Accepted)
    assert answer.state == ("first", "second", "sent", "last")


def is_claimed(engine: Engine) -> bool:
    hot = engine._core.turns().hot.get("thinker:t")
    return hot is not None and hot.claim is not None


async def test_who_shares_a_turn_with_an_input_that_takes_too_long_is_served(
    stage: Stage,
) -> None:
    stage.expect_log("computes for")
    engine = await stage.engine([Thinker], options=LIMITS)
    what = ("a", "endless", "b", "c")

    first, *rest = await share(
        engine, Thinker, Think("t", "first"), [(Think("t", one), {}) for one in what]
    )

    assert isinstance(first, Accepted)
    kinds = [type(one) for one in rest]
    assert kinds == [Accepted, DecisionTooLongError, Accepted, Accepted]
    state = await engine.state(Thinker, "t")
    assert sorted(state) == ["a", "b", "c", "first"]


async def test_a_message_that_takes_too_long_is_still_blamed(stage: Stage) -> None:
    stage.expect_log("computes for")
    client = await stage.client()
    client._core.turns().watchdog._warning_s, client._core.turns().watchdog._limit_s = 0.01, 0.02
    await client.execute(Thinker, Think("t", "first"))
    await client.send(Thinker, Think("t", "endless"))

    with pytest.raises(InstanceHeldError, match="a message that came before cannot be decided"):
        await client.execute(Thinker, Think("t", "mine"))


# --------------------------------------------------------- values the store refuses


@pytest.mark.usefixtures("unchecked")
async def test_only_the_input_that_the_store_refuses_fails(stage: Stage) -> None:
    client = await stage.client()
    await client.execute(Diary, Write("d", "begun"))
    others = [
        (Write("d", "a"), {"input_id": "a"}),
        (Write("d", "bad"), {"correlation": UNSTORABLE}),
        (Write("d", "b"), {}),
        (Write("d", ""), {}),
    ]

    first, *rest = await share(client, Diary, Write("d", "first"), others)

    assert isinstance(first, Accepted)
    assert [type(one) for one in rest] == [Accepted, RowError, Accepted, Rejected]
    state = await client.state(Diary, "d")
    assert sorted(state.split()) == ["a", "b", "begun", "first"]
    again = await client.execute(Diary, Write("d", "a"), input_id="a")
    assert isinstance(again, Accepted)
    assert again.version == rest[0].version


@pytest.mark.usefixtures("unchecked")
async def test_of_the_first_inputs_of_an_instance_only_the_refused_one_fails(
    stage: Stage,
) -> None:
    client = await stage.client()

    answers = await asyncio.gather(
        client.execute(Diary, Write("d", "bad"), correlation=UNSTORABLE),
        client.execute(Diary, Write("d", "good")),
        return_exceptions=True,
    )

    assert isinstance(answers[0], RowError)
    assert answers[1] == Accepted((Written("good"),), "good", 1)


@pytest.mark.usefixtures("unchecked")
async def test_a_refused_input_leaves_what_was_sent_before_it(stage: Stage) -> None:
    client = await stage.client()
    await client.execute(Diary, Write("d", "begun"))
    await client.send(Diary, Write("d", "sent"))

    with pytest.raises(RowError):
        await client.execute(Diary, Write("d", "bad"), correlation=UNSTORABLE)

    assert await client.state(Diary, "d") == "begun sent"


async def test_only_the_rejection_that_the_store_refuses_to_keep_fails(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await stage.client()
    await client.execute(Diary, Write("d", "begun"))
    settle = client._core.store.deciders.settle_inputs

    async def refuse(
        stored_id: str, receipts: Sequence[InputReceipt], *more: Any, stamp: Any
    ) -> Any:
        if any(receipt.input_id == "bad" for receipt in receipts):
            raise RowError("a value cannot be stored")
        return await settle(stored_id, receipts, *more, stamp=stamp)

    monkeypatch.setattr(client._core.store.deciders, "settle_inputs", refuse)
    others = [(Write("d", ""), {"input_id": name}) for name in ("a", "bad", "b")]

    _, *rest = await share(client, Diary, Write("d", "first"), others)

    assert [type(one) for one in rest] == [Rejected, RowError, Rejected]


# ----------------------------------------------------- inputs that were decided before


async def test_messages_claimed_with_an_input_that_was_decided_before_do_not_wait_for_the_lease(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their turn is refused for the sake of the input, under a lease that is still its own."""
    engine = await stage.engine([Diary])
    other = await stage.client()
    await engine.execute(Diary, Write("d", "begun"))
    gate = hold_commits(monkeypatch, engine)
    calling = [asyncio.create_task(engine.execute(Diary, Write("d", "more")))]
    await gate.reached.wait()
    hot = engine._serving.turns.hot.get("diary:d")
    assert hot is not None
    repeated = engine.execute(Diary, Write("d", ""), input_id="r-1")
    calling.append(asyncio.create_task(repeated))
    await until(lambda: hot.inputs)
    await other.execute(Diary, Write("d", ""), input_id="r-1")
    await other.send(Diary, Write("d", "sent"))
    engine._serving.notice()
    await until(lambda: hot.claim)
    gate.opened.set()

    assert await asyncio.gather(*calling) == [
        Accepted((Written("more"),), "begun more", 2),
        Rejected("nothing"),
    ]

    async def is_decided() -> bool:
        return not await engine._core.store.read_inbox("diary:d")

    await until(is_decided)
