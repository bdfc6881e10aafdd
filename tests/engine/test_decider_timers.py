"""Timers of deciders: inputs for later, under a key."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Never

import pytest

from perdure import Accepted, Client, Decider, Decision, WorkerOptions
from perdure.clock import ManualClock, to_datetime
from perdure.ids import fresh_id
from perdure.model.turns import TurnClaim
from tests.engine.shop import Expired, Order, Pay, Place
from tests.engine.stage import Stage, idle, until
from tests.sizes import IS_FULL

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Arm:
    id: str
    key: str
    text: str = ""
    after: timedelta = HOUR


@dataclass(frozen=True)
class ArmAt:
    id: str
    key: str
    at: datetime


@dataclass(frozen=True)
class Disarm:
    id: str
    key: str


@dataclass(frozen=True)
class Renew:
    """Cancel and arm again in one decision."""

    id: str
    key: str
    text: str


@dataclass(frozen=True)
class Beat:
    id: str
    left: int


@dataclass(frozen=True)
class Ring:
    id: str
    text: str


@dataclass(frozen=True)
class Changed:
    what: str


@dataclass(frozen=True)
class Rung:
    text: str
    at: datetime


@dataclass(frozen=True)
class Clockwork:
    rung: tuple[str, ...] = ()
    times: tuple[datetime, ...] = ()


Input = Arm | ArmAt | Disarm | Renew | Beat | Ring
Event = Changed | Rung


class Alarm(Decider[Clockwork, Input, Event, Never]):
    """Does what it is told with its timers."""

    name = "alarm"

    def initial(self) -> Clockwork:
        return Clockwork()

    def instance_id(self, input: Input, /) -> str:
        return input.id

    def decide(
        self, state: Clockwork, input: Input, now: datetime, /
    ) -> Decision[Input, Event, Never]:
        match input:
            case Arm(id=id, key=key, text=text, after=after):
                return Decision.accept(Changed(key)).timer(key, after=after, input=Ring(id, text))
            case ArmAt(id=id, key=key, at=at):
                return Decision.accept(Changed(key)).timer(key, at=at, input=Ring(id, key))
            case Disarm(key=key):
                return Decision.accept(Changed(key)).cancel_timer(key)
            case Renew(id=id, key=key, text=text):
                decision = Decision.accept(Changed(key)).cancel_timer(key)
                return decision.timer(key, after=HOUR, input=Ring(id, text))
            case Beat(id=id, left=left):
                beaten = Decision.accept(Rung(f"beat {left}", now))
                if not left:
                    return beaten
                return beaten.timer("beat", after=HOUR, input=Beat(id, left - 1))
            case Ring(text=text):
                return Decision.accept(Rung(text, now))

    def evolve(self, state: Clockwork, event: Event, /) -> Clockwork:
        if isinstance(event, Changed):
            return state
        return replace(state, rung=(*state.rung, event.text), times=(*state.times, event.at))


async def rings(client: Client, id: str, *texts: str) -> Clockwork:
    """Wait until an alarm has rung so often; fail if it rang otherwise."""
    found: list[Clockwork] = []

    async def look() -> bool:
        found[:] = [await client.state(Alarm, id)]
        return len(found[0].rung) >= len(texts)

    await until(look)
    assert found[0].rung == texts
    return found[0]


async def test_a_timer_delivers_its_input_when_it_is_due(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([Alarm], clock=clock)
    await engine.execute(Alarm, Arm("a", "wake", "up"))
    assert "waits for timer 'wake' due 2027" in await engine.handle("a", Alarm).explain()
    clock.advance(HOUR - timedelta(milliseconds=1))
    engine._serving.notice()
    await idle(engine)

    assert await engine.state(Alarm, "a") == Clockwork()
    clock.advance(timedelta(milliseconds=1))
    state = await rings(engine, "a", "up")

    assert state.times == (to_datetime(clock()),)
    [*_, rung] = await engine.events(Alarm, "a")
    assert (rung.cause, rung.input) == ("timer:wake", Ring("a", "up"))
    assert "waits for its next input" in await engine.handle("a", Alarm).explain()


async def test_a_timer_may_be_set_to_a_moment(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([Alarm], clock=clock)
    when = to_datetime(clock()) + timedelta(days=2)
    await engine.execute(Alarm, ArmAt("a", "later", when))
    await engine.execute(Alarm, ArmAt("a", "past", datetime(2001, 1, 1, tzinfo=UTC)))

    await rings(engine, "a", "past")
    clock.advance(timedelta(days=2))
    await rings(engine, "a", "past", "later")


async def test_arming_a_key_again_replaces_its_timer(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([Alarm], clock=clock)
    await engine.execute(Alarm, Arm("a", "k", "old"))
    await engine.execute(Alarm, Arm("a", "k", "new", after=2 * HOUR))
    await engine.execute(Alarm, Arm("a", "other", "other", after=1.5 * HOUR))
    clock.advance(2 * HOUR)

    await rings(engine, "a", "other", "new")
    assert await engine.inbox("alarm:a") == []


async def test_a_cancelled_timer_never_fires(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([Alarm], clock=clock)
    await engine.execute(Alarm, Arm("a", "k", "old"))
    await engine.execute(Alarm, Arm("a", "kept", "kept"))
    await engine.execute(Alarm, Disarm("a", "k"))
    await engine.execute(Alarm, Disarm("a", "never set"))
    clock.advance(2 * HOUR)

    await rings(engine, "a", "kept")


async def test_cancelling_and_arming_in_one_decision_gives_a_fresh_timer(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([Alarm], clock=clock)
    await engine.execute(Alarm, Arm("a", "k", "old"))
    clock.advance(HOUR / 2)
    await engine.execute(Alarm, Renew("a", "k", "new"))
    clock.advance(HOUR / 2)
    engine._serving.notice()
    await idle(engine)

    assert await engine.state(Alarm, "a") == Clockwork()
    clock.advance(HOUR / 2)
    await rings(engine, "a", "new")


async def test_a_timer_can_be_armed_again_by_its_own_firing(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([Alarm], clock=clock)
    await engine.execute(Alarm, Beat("a", 3))
    for left in (2, 1, 0):
        clock.advance(HOUR)
        await until_rung(engine, f"beat {left}")

    state = await rings(engine, "a", "beat 3", "beat 2", "beat 1", "beat 0")
    gaps = {later - earlier for earlier, later in zip(state.times, state.times[1:], strict=False)}
    assert gaps == {HOUR}


async def until_rung(client: Client, text: str) -> None:
    async def look() -> bool:
        return text in (await client.state(Alarm, "a")).rung

    await until(look)


async def test_timers_fire_in_the_order_of_their_times_after_an_outage(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([Alarm], clock=clock)
    for minutes in (3, 1, 2):
        await engine.execute(
            Alarm, Arm("a", f"k-{minutes}", str(minutes), after=timedelta(minutes=minutes))
        )
    await engine.close()
    clock.advance(HOUR)

    later = await stage.engine([Alarm], clock=clock)

    await rings(later, "a", "1", "2", "3")


@pytest.mark.parametrize("is_hot", [True, False])
@pytest.mark.parametrize("change", [Disarm("a", "k"), Arm("a", "k", "new"), Renew("a", "k", "new")])
async def test_a_timer_changed_while_it_is_being_delivered_never_fires(
    stage: Stage, change: Any, *, is_hot: bool
) -> None:
    """A worker has claimed the due timer, and an input changes it before that worker commits."""
    clock = ManualClock()
    client = await stage.client(clock=clock)
    stage.expect_log("no live worker serves decider 'alarm'")
    await client.execute(Alarm, Arm("a", "k", "old"))
    clock.advance(HOUR)
    live = await client._core.store.read_live("alarm:a")
    assert live is not None
    assert live.definition_no is not None
    claim = TurnClaim("slow", ((live.definition_no, "x"),), 10, 30_000, fresh_id())
    [claimed] = await client._core.store.claim_turns(claim)
    assert [message.timer_key for message in claimed.messages] == ["key:k"]

    door = client if is_hot else await stage.client(clock=clock)
    await door.execute(Alarm, change)
    engine = await stage.engine([Alarm], clock=clock)
    clock.advance(2 * HOUR)
    engine._serving.notice()
    await idle(engine)

    await rings(engine, "a", *([] if isinstance(change, Disarm) else ["new"]))
    live = await client._core.store.read_live("alarm:a")
    assert live is not None
    assert live.wake_at_ms is None


async def test_a_hot_timer_cancelled_by_an_input_that_was_first_never_fires(stage: Stage) -> None:
    clock = ManualClock()
    client = await stage.client(clock=clock)
    stage.expect_log("no live worker serves decider 'alarm'")
    await client.execute(Alarm, Arm("a", "k", "old"))
    await client.send(Alarm, Disarm("a", "k"))
    await until(lambda: stage.logged("no live worker serves decider 'alarm'"))
    clock.advance(HOUR)

    engine = await stage.engine([Alarm], clock=clock)
    answer = await engine.execute(Alarm, Ring("a", "now"))

    assert isinstance(answer, Accepted)
    assert answer.state.rung == ("now",)
    await idle(engine)
    assert (await engine.state(Alarm, "a")).rung == ("now",)


async def test_completion_takes_the_timers_away(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([Order], clock=clock)
    await engine.execute(Order, Place("paid"))
    await engine.execute(Order, Place("late"))
    await engine.execute(Order, Pay("paid"))
    clock.advance(HOUR)
    await engine.handle("late", Order).result()

    assert [event.event for event in await engine.events(Order, "late")][-1] == Expired()
    assert (await engine.state(Order, "paid")).status == "paid"
    assert await engine.inbox("order:paid") == []
    assert await engine.inbox("order:late") == []


async def test_very_many_due_timers_drain(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([Order], clock=clock, options=WorkerOptions())
    count = 10_000 if IS_FULL else 1_500
    for begin in range(0, count, 500):  # fewer at once than a slow machine decides in 10 s
        ids = range(begin, begin + 500)
        await asyncio.gather(*(engine.execute(Order, Place(f"o-{i}")) for i in ids))
    clock.advance(HOUR)
    engine._serving.notice()

    async def all_expired() -> bool:
        return await engine.count(status="completed") == count

    await until(all_expired)


async def test_a_timer_is_shown_under_the_key_that_its_decider_gave_it(stage: Stage) -> None:
    stage.allow_log("no live worker serves decider 'alarm'")
    client = await stage.client()

    await client.execute(Alarm, Arm("a", "k", "old"))

    assert [message.timer_key for message in await client.inbox("alarm:a")] == ["k"]
