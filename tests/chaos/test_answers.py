"""Answers that are not what the store holds are found, each kind of them; right ones are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from perdure import Accepted, Engine, Rejected
from perdure.model.instances import Status
from perdure.model.messages import DeliveryStatus
from perdure.model.turns import InstanceEnd
from perdure.store.contents import Contents, Inspectable
from tests.chaos.answers import (
    Awaited,
    Call,
    Given,
    Listener,
    Signalled,
    Start,
    answer_of,
    not_as_told,
)
from tests.chaos.decider_scenario import Move, Stock
from tests.chaos.workload import listen, note

WITHIN = timedelta(seconds=30)

Kept = tuple[list[Call], Contents]


async def kept() -> Kept:
    """Run a little of everything; return what was told and what is stored."""
    engine = Engine("sqlite://:memory:", [listen, Stock])
    calls: list[Call] = []
    Listener(engine, calls)
    async with engine:
        await engine.handle("l").send(note, "hello", message_id="m")
        handle = await engine.start("l", listen, 1)
        await handle.result(timeout=WITHIN)
        assert isinstance(await engine.execute(Stock, Move("a", -2), input_id="i"), Accepted)
        assert isinstance(await engine.execute(Stock, Move("a", -2), input_id="i"), Accepted)
        assert isinstance(await engine.execute(Stock, Move("a", 7)), Accepted)
        assert isinstance(await engine.execute(Stock, Move("a", -9)), Rejected)
        assert isinstance(await engine.execute(Stock, Move("b", -3), input_id="r"), Rejected)
        await engine.send(Stock, Move("a", 1), input_id="s")
        store = engine._core.store
        assert isinstance(store, Inspectable)
        return list(calls), await store.read_contents()


def of(calls: list[Call], kind: type[Call], number: int = 0) -> int:
    """Return where the n-th call of a kind is."""
    return [place for place, call in enumerate(calls) if isinstance(call, kind)][number]


def told(calls: list[Call], answer: str) -> int:
    """Return where the last call is that was told so."""
    return [place for place, call in enumerate(calls) if answer_of(call) == answer][-1]


# ------------------------------------------------------------------------- tampering


def lose_the_instance(calls: list[Call], contents: Contents) -> None:
    for key in [key for key in contents.histories if key.instance_id == "l"]:
        del contents.histories[key]
    del contents.instances["l"]


def start_another(calls: list[Call], contents: Contents) -> None:
    calls[of(calls, Start)] = Start("l", "another", b"", "started")


def forget_the_start(calls: list[Call], contents: Contents) -> None:
    del calls[of(calls, Start)]


def lose_the_signal(calls: list[Call], contents: Contents) -> None:
    del contents.receipts["l"]


def refuse_the_signal(calls: list[Call], contents: Contents) -> None:
    call = calls[of(calls, Signalled)]
    assert isinstance(call, Signalled)
    call.answer = DeliveryStatus.ENDED


def forget_the_signal(calls: list[Call], contents: Contents) -> None:
    del calls[of(calls, Signalled)]


def end_otherwise(calls: list[Call], contents: Contents) -> None:
    calls[of(calls, Awaited)] = Awaited("l", InstanceEnd(Status.COMPLETED, b'"no"', None, b""))


def tell_another_version(calls: list[Call], contents: Contents) -> None:
    call = calls[told(calls, "given: accepted")]
    assert isinstance(call, Given)
    call.told["version"] += 1


def reject_what_is_there(calls: list[Call], contents: Contents) -> None:
    place = told(calls, "given: accepted")
    call = calls[place]
    assert isinstance(call, Given)
    calls[place] = replace(call, answer="rejected")


def lose_the_rejection(calls: list[Call], contents: Contents) -> None:
    del contents.receipts["stock:b"]


def lose_what_was_sent(calls: list[Call], contents: Contents) -> None:
    contents.inboxes.clear()
    del contents.receipts["stock:a"]
    for key, events in contents.histories.items():
        if key.instance_id == "stock:a":
            del events[4:]


def decide_twice(calls: list[Call], contents: Contents) -> None:
    for key, events in contents.histories.items():
        if key.instance_id == "stock:a":
            events += events[:3]


def forget_an_input(calls: list[Call], contents: Contents) -> None:
    del calls[told(calls, "given: accepted")]


TAMPERING: dict[Callable[[list[Call], Contents], None], str] = {
    lose_the_instance: "not there: l was told to be started",
    start_another: "not as asked: l is listen",
    forget_the_start: "no caller: l, which nobody started",
    lose_the_signal: "not there: signal m",
    refuse_the_signal: "refused and there: signal m",
    forget_the_signal: "no caller: l received note",
    end_otherwise: "not as told: l ended with",
    tell_another_version: "not as told: Move for stock:a",
    reject_what_is_there: "rejected and there: Move for stock:a",
    lose_the_rejection: "not there: no receipt of Move with id r",
    lose_what_was_sent: "not there: Move with id s for stock:a",
    decide_twice: "twice: stock:a: input i is decided 2 times",
    forget_an_input: "no caller: stock:a: Move",
}


async def test_right_answers_are_right() -> None:
    calls, contents = await kept()

    assert not_as_told(calls, contents) == []
    assert {answer_of(call) for call in calls} == {
        *("start: started", "signalled: buffered", "awaited: completed"),
        *("given: accepted", "given: rejected", "given: sent"),
    }


@pytest.mark.parametrize(
    ("tamper", "found"), TAMPERING.items(), ids=[one.__name__ for one in TAMPERING]
)
async def test_a_wrong_answer_is_found(
    tamper: Callable[[list[Call], Contents], None], found: str
) -> None:
    calls, contents = await kept()

    tamper(calls, contents)

    assert [one for one in not_as_told(calls, contents) if one.startswith(found)]
