"""Answers about promises, streams, schedules and resets that are not what the store holds are
found, each kind of them; right ones are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from perdure import Engine, Every, Key, Promise, Retry, Schedule, Stream, activity, orchestration
from perdure.authoring.registry import Defined
from perdure.errors import PromiseRejectedError
from perdure.model.histories.events import EventRecorded, StoredEvent, read_event
from perdure.model.streams import StoredItem
from perdure.repair import at_event
from perdure.store.contents import Contents, Inspectable
from tests.chaos.answers import Call, Listener, not_as_told
from tests.chaos.everyday import Kept, Read, WentBack, read_to_the_end, stored_items
from tests.engine.stage import until

WITHIN = timedelta(seconds=30)
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)

reply = Promise("reply", str)
tokens = Key("tokens", list[str])
words = Stream("words", str)


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(0)))
async def speak() -> None:
    words.send("uh")
    await words.flush()
    if attempts_fail.pop():
        await until(has_been_shown)
        raise RuntimeError("again")
    words.send("hello")


attempts_fail: list[bool] = []
all_calls: list[list[Call]] = []


def has_been_shown() -> bool:
    """Return whether the reader has what the attempt sent that is going to fail."""
    return any(isinstance(call, Read) and len(call.items) > 1 for call in all_calls[-1])


@orchestration
async def promises() -> list[str]:
    made = [reply.make(), reply.make()]
    tokens.set([due.token for due in made])
    heard = [await made[0].receive()]
    try:
        heard.append(await made[1].receive())
    except PromiseRejectedError as error:
        heard.append(error.reason)
    return heard


@orchestration
async def tells() -> None:
    words.send("well")
    await speak()
    words.send("bye")


@orchestration
async def report() -> str:
    return "done"


DEFINITIONS: list[Defined] = [promises, speak, tells, report]


@dataclass
class Told:
    """What was told, and what is stored."""

    calls: list[Call]
    contents: Contents
    items: dict[tuple[str, str], list[StoredItem]]

    def wrong(self) -> list[str]:
        return not_as_told(self.calls, self.contents, items=self.items)

    def one(self, kind: type[Any], number: int = 0) -> Any:
        return [call for call in self.calls if isinstance(call, kind)][number]


async def told() -> Told:
    """Do a little of everything."""
    engine = Engine("sqlite://:memory:", DEFINITIONS)
    calls: list[Call] = []
    Listener(engine, calls)
    attempts_fail[:] = [False, True]
    all_calls.append(calls)
    async with engine:
        handle = await engine.start("p", promises)

        async def has_tokens() -> bool:
            return await handle.kv(tokens) is not None

        await until(has_tokens)
        first, second = await handle.kv(tokens) or []
        assert await engine.resolve(reply, first, "yes")
        assert not await engine.resolve(reply, first, "another")
        assert await engine.reject(second, "no")
        assert await handle.result(timeout=WITHIN) == ["yes", "no"]
        teller = await engine.start("t", tells)
        await read_to_the_end(teller, words, calls)
        hourly = await engine.put_schedule(Schedule("hourly", Every(HOUR), report))
        await hourly.trigger(trigger_id="t")
        assert await hourly.backfill(BEGUN, BEGUN + 3 * HOUR) == 3

        async def have_ended() -> bool:
            return await engine.count(name="report", status="completed") == 4

        await until(have_ended)
        r = await engine.start("r", report)
        await r.result(timeout=WITHIN)
        await r.reset(at_event(1), reason="once more")
        await r.result(timeout=WITHIN)
        await (await r.fork("branch", at_event(1))).result(timeout=WITHIN)
        store = engine._core.store
        assert isinstance(store, Inspectable)
        contents = await store.read_contents()
        items = await stored_items(store, contents)
        return Told(calls, contents, {key: list(found) for key, found in items.items()})


# ------------------------------------------------------------------------- tampering


def tell_two_that_they_were_first(told: Told) -> None:
    told.one(Kept, 1).answer = True


def tell_the_first_that_it_was_late(told: Told) -> None:
    told.one(Kept).answer = False


def keep_by_another(told: Told) -> None:
    told.one(Kept).said = '"other"'


def reject_otherwise(told: Told) -> None:
    told.one(Kept, 2).said = "maybe"


def forget_who_kept(told: Told) -> None:
    told.calls[:] = [call for call in told.calls if not isinstance(call, Kept)]


def lose_what_kept(told: Told) -> None:
    told.contents.receipts["p"].clear()


def show_what_is_not_there(told: Told) -> None:
    told.one(Read).items.append(StoredItem(99, 0, b'"boo"'))


def show_another_value(told: Told) -> None:
    items = told.one(Read).items
    items[-1] = items[-1]._replace(body=b'"boo"')


def show_twice(told: Told) -> None:
    items = told.one(Read).items
    items.append(items[-1])


def show_in_another_order(told: Told) -> None:
    items = told.one(Read).items
    items[-1], items[-2] = items[-2], items[-1]


def keep_an_item_back(told: Told) -> None:
    del told.one(Read).items[0]


def do_not_take_back(told: Told) -> None:
    items = told.one(Read).items
    items[:] = [one._replace(discards_from=None) for one in items]


def give_an_index_twice(told: Told) -> None:
    found = told.items["t", "words"]
    found.append(found[-1])


def lose_a_slot(told: Told) -> None:
    lose(told, "hourly@2026-01-01T01:00:00+00:00")


def lose(told: Told, instance_id: str) -> None:
    del told.contents.instances[instance_id]
    for key in [key for key in told.contents.histories if key.instance_id == instance_id]:
        del told.contents.histories[key]


def fire_twice(told: Told) -> None:
    """As if the slot had been due."""
    history, place = fired(told, "hourly@trigger#t")
    stored = history[place]
    history[place] = stored._replace(body=stored.body.replace(b'"trigger"', b'""'))
    history.append(history[place])


def do_not_fire(told: Told) -> None:
    history, place = fired(told, "hourly@trigger#t")
    del history[place]


def backfill_less(told: Told) -> None:
    history, place = fired(told, "hourly@2026-01-01T01:00:00+00:00")
    del history[place]


def fired(told: Told, instance_id: str) -> tuple[list[StoredEvent], int]:
    """Return where it is on record that a slot fired."""
    for history in told.contents.histories.values():
        for place, stored in enumerate(history):
            match read_event(stored.kind, stored.body):
                case EventRecorded(tag="SlotFired", event=event):
                    if msgspec.json.decode(event)["instance_id"] == instance_id:
                        return history, place
    raise AssertionError(f"{instance_id} did not fire")


def lose_the_reset(told: Told) -> None:
    key = max(key for key in told.contents.histories if key.instance_id == "r")
    del told.contents.histories[key]


def forget_the_reset(told: Told) -> None:
    told.calls.remove(told.one(WentBack))


def lose_the_branch(told: Told) -> None:
    lose(told, "branch")


def branch_off_from_another(told: Told) -> None:
    told.one(WentBack, 1).instance_id = "p"


TAMPERING: dict[Callable[[Told], None], str] = {
    tell_two_that_they_were_first: "twice: [Kept(",
    tell_the_first_that_it_was_late: "not as told: (False, '\"yes\"') was too late",
    keep_by_another: "not as told: Kept(",
    reject_otherwise: "not as told: Kept(",
    forget_who_kept: "no caller: promise:reply#1.1 of p",
    lose_what_kept: "not there: Kept(",
    show_what_is_not_there: "not there: a reader of words of t was shown item 99",
    show_another_value: "not as told: a reader of words of t was shown",
    show_twice: "out of order: a reader of words of t",
    show_in_another_order: "out of order: a reader of words of t",
    keep_an_item_back: "not as told: a reader of words of t has",
    do_not_take_back: "not as told: a reader of words of t has",
    give_an_index_twice: "twice: stream words of t",
    lose_a_slot: "not there: hourly@2026-01-01T01:00:00+00:00, which schedule hourly has started",
    fire_twice: "twice: hourly@trigger#t was fired 2 times",
    do_not_fire: "no caller: hourly@trigger#t is of a slot that did not fire",
    backfill_less: "not there: of 3 slots of a backfill of hourly are 2",
    lose_the_reset: "not there: 1 resets of r (once more)",
    forget_the_reset: "no caller: r was reset (once more)",
    lose_the_branch: "not there: branch, which was told to be forked from r",
    branch_off_from_another: "not there: branch, which was told to be forked from p",
}


async def test_right_answers_are_right() -> None:
    found = await told()

    assert found.wrong() == []
    assert [call.answer for call in found.calls if isinstance(call, Kept)] == [True, False, True]
    assert any(item.discards_from for item in found.one(Read).items)


@pytest.mark.parametrize(
    ("tamper", "found"), TAMPERING.items(), ids=[one.__name__ for one in TAMPERING]
)
async def test_a_wrong_answer_is_found(tamper: Callable[[Told], None], found: str) -> None:
    case = await told()

    tamper(case)

    assert [one for one in case.wrong() if one.startswith(found)], case.wrong()
