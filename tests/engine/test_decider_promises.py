"""What deciders promise where their ancestor had a hole, each from one end to the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Never

import pytest

from perdure import Accepted, ActivityContext, Decider, Decision, Retry, activity
from perdure.authoring.deciders.decider import DeadEffect
from perdure.authoring.deciders.decision import Acceptance
from perdure.clock import ManualClock
from perdure.errors import PayloadError
from tests.engine.stage import Stage, has_ended, idle, until
from tests.engine.test_effects import Asked, Do, Doer, Done, Ended, Log, settles

HOUR = timedelta(hours=1)
SOON = Retry(max_attempts=2, first_delay=timedelta(0), jitter=0)


@dataclass(frozen=True)
class Book:
    booking_id: str
    seat: str


@dataclass(frozen=True)
class Leave:
    booking_id: str
    why: str


@dataclass(frozen=True)
class Booked:
    seat: str


@dataclass(frozen=True)
class Left:
    why: str


@activity(retry=SOON)
async def hold_seat(booking_id: str) -> None:
    raise ConnectionError("no line to the theatre")


class Booking(Decider[str, Book | Leave, Booked | Left, Never]):
    """Has a seat as long as it is open, and two timers that would give it up."""

    name = "booking"
    reserves = False

    def initial(self) -> str:
        return "new"

    def instance_id(self, input: Book | Leave, /) -> str:
        return input.booking_id

    def unique_key(self, input: Book | Leave, /) -> str | None:
        return input.seat if isinstance(input, Book) else None

    def decide(
        self, state: str, input: Book | Leave, now: datetime, /
    ) -> Decision[Book | Leave, Booked | Left, Never]:
        if isinstance(input, Leave):
            return Decision.accept(Left(input.why))
        decision: Acceptance[Book | Leave, Booked | Left] = Decision.accept(Booked(input.seat))
        for key in ("first", "second"):
            decision = decision.timer(key, after=HOUR, input=Leave(input.booking_id, key))
        return decision.effect(hold_seat, input.booking_id) if self.reserves else decision

    def evolve(self, state: str, event: Booked | Left, /) -> str:
        return event.seat if isinstance(event, Booked) else f"left: {event.why}"

    def is_terminal(self, state: str, /) -> bool:
        return state.startswith("left")

    def on_dead(self, effect: DeadEffect, /) -> Book | Leave | None:
        return Leave(effect.instance_id, f"{effect.activity} is dead: {effect.type_name}")


class Reserving(Booking):
    name = "reserving"
    reserves = True


async def test_completion_takes_timers_away_that_were_not_due(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([Booking], clock=clock)
    await engine.execute(Booking, Book("b", "A1"))
    waiting = [message.kind for message in await engine.inbox("booking:b")]
    await engine.execute(Booking, Leave("b", "no time"))

    clock.advance(2 * HOUR)
    engine._serving.notice()
    await idle(engine)

    assert len(waiting) == 2
    assert await engine.inbox("booking:b") == []
    assert [one.cause for one in await engine.events(Booking, "b")] == ["client", "client"]
    assert await engine.state(Booking, "b") == "left: no time"


async def test_of_two_timers_that_are_due_the_one_that_completes_the_instance_is_the_last(
    stage: Stage,
) -> None:
    clock = ManualClock()
    engine = await stage.engine([Booking], clock=clock)
    await engine.execute(Booking, Book("b", "A1"))

    clock.advance(HOUR)
    engine._serving.notice()
    await until(lambda: has_ended(engine, "booking:b"))

    assert [one.cause for one in await engine.events(Booking, "b")] == ["client", "timer:first"]


async def test_a_dead_effect_can_complete_its_instance_and_free_the_key(stage: Stage) -> None:
    engine = await stage.engine([Reserving, hold_seat])
    await engine.execute(Reserving, Book("b-1", "A1"))
    await until(lambda: has_ended(engine, "reserving:b-1"))

    answer = await engine.execute(Reserving, Book("b-2", "A1"))

    assert await engine.state(Reserving, "b-1") == "left: hold_seat is dead: ConnectionError"
    assert isinstance(answer, Accepted)
    await until(lambda: has_ended(engine, "reserving:b-2"))


async def test_a_decider_that_never_rejects_cannot(stage: Stage) -> None:
    class Stubborn(Doer):
        name = "stubborn"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            reject: Any = Decision.reject
            refused: Decision[Do | Done, Asked | Ended, Never] = reject("no")
            return refused

    client = await stage.client()

    with pytest.raises(PayloadError, match=r"rejection of decider 'stubborn'.*it has none"):
        await client.execute(Stubborn, Do("a"))

    assert await client.count() == 0


async def test_a_job_keeps_the_policy_that_it_was_asked_for_with(stage: Stage) -> None:
    """Other code in the meantime moves nothing: neither is it given up earlier nor tried more."""
    tries: list[int] = []

    def fails(most: int) -> Any:
        @activity(name="fails", retry=replace(SOON, max_attempts=most))
        async def fails(ctx: ActivityContext, id: str) -> None:
            tries.append(ctx.attempt)
            raise ConnectionError

        return fails

    asked_for, at_work = fails(2), fails(7)

    class Asking(Doer):
        name = "asking"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(asked_for, input.id)

    stage.expect_log("no live worker serves")
    client = await stage.client()
    await client.execute(Asking, Do("a"))
    await until(lambda: len(stage.logged("no live worker serves")) == 2)
    engine = await stage.engine([Asking, at_work])
    await settles(engine, Asking, "a", Log(("x",), ("dead fails ConnectionError",)))

    assert tries == [1, 2]
