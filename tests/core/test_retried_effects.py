"""Dead effects that a person has put back, on the bare core."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Never

import msgspec
import pytest

from perdure.authoring.activity import activity
from perdure.authoring.deciders.decider import DeadEffect, Decider
from perdure.authoring.deciders.decision import Acceptance, Decision
from perdure.errors import PayloadError
from perdure.model.histories.events import (
    ActivityFailed,
    EffectRetried,
    Failure,
    InputTaken,
    read_event,
)
from perdure.model.jobs import JobPolicy
from tests.core.desk import Desk
from tests.core.harness import raw


@dataclass(frozen=True)
class Post:
    parcel: str
    count: int = 1


@dataclass(frozen=True)
class Posted:
    parcel: str
    number: str


@dataclass(frozen=True)
class NotPosted:
    parcel: str
    why: str


@dataclass(frozen=True)
class Close:
    parcel: str


@dataclass(frozen=True)
class Moved:
    to: str


Input = Post | Posted | NotPosted | Close


@activity
async def post(parcel: str, number: int) -> Posted: ...  # type: ignore[empty-body]  # never run


@activity
async def tell(parcel: str) -> None: ...


class Parcel(Decider[tuple[str, ...], Input, Moved, Never]):
    name = "parcel"
    snapshot_every = 1

    def initial(self) -> tuple[str, ...]:
        return ()

    def instance_id(self, input: Input, /) -> str:
        return input.parcel

    def decide(
        self, state: tuple[str, ...], input: Input, now: datetime, /
    ) -> Decision[Input, Moved, Never]:
        match input:
            case Post(parcel, count):
                decision: Acceptance[Input, Moved] = Decision.accept(Moved("desk"))
                for number in range(count):
                    decision = decision.effect(post, parcel, number)
                return decision.effect(tell, parcel).in_order()
            case Posted(_, to) | NotPosted(_, to):
                return Decision.accept(Moved(to))
            case Close():
                return Decision.accept(Moved("closed"))

    def evolve(self, state: tuple[str, ...], event: Moved, /) -> tuple[str, ...]:
        return (*state, event.to)

    def is_terminal(self, state: tuple[str, ...], /) -> bool:
        return "closed" in state

    def on_dead(self, effect: DeadEffect, /) -> Input | None:
        if effect.activity == "tell":
            return None
        return NotPosted(effect.instance_id, f"{effect.message} {effect.arguments}")


def posted(count: int = 1) -> Desk:
    desk = Desk(Parcel, "p")
    desk.execute(Post("p", count), correlation="cart-7")
    return desk


def returned(seq: int = 4, number: str = "n-1") -> EffectRetried:
    """The end of a retried effect that returns an input, as a worker writes it."""
    result = raw({"tag": "Posted", "input": {"parcel": "p", "number": number}})
    return EffectRetried(
        effect=seq, activity="post", result=result, returns_input=True, correlation="cart-7"
    )


def died(seq: int = 4, **facts: Any) -> EffectRetried:
    """The end of a retried effect that has failed for good again."""
    return EffectRetried(
        **{
            "effect": seq,
            "activity": "post",
            "failures": (Failure("OSError", "still"),),
            "attempts": 3,
            "returns_input": True,
            "input": raw({"parcel": "p", "number": 0}),
            "correlation": "cart-7",
            **facts,
        }
    )


def test_a_job_knows_what_its_effect_belongs_to() -> None:
    """When it is retried by hand, its decider has long forgotten that."""
    policy = msgspec.json.decode(posted().jobs[4].policy, type=JobPolicy)

    assert (policy.correlation, policy.returns_input) == ("cart-7", True)


def test_a_retried_effect_that_returns_is_decided_as_an_input() -> None:
    desk = posted()
    desk.fail(4)
    desk.reload()

    turn = desk.deliver(returned())

    kinds = [kind for kind, _ in turn.events]
    assert kinds == ["effect_retried", "input_taken", "event_recorded"]
    taken = read_event(*turn.events[1])
    assert isinstance(taken, InputTaken)
    assert (taken.tag, taken.cause, taken.correlation) == ("Posted", "retried:4", "cart-7")
    assert desk.state[-1] == "n-1"
    desk.check()


def test_a_retried_effect_that_dies_again_delivers_its_failure_again() -> None:
    desk = posted()
    desk.fail(4)

    desk.deliver(died())

    taken: Any = desk.last("input_taken")
    assert (taken.cause, taken.correlation) == ("dead:4", "cart-7")
    assert desk.state[-1] == "still {'parcel': 'p', 'number': 0}"
    desk.check()


def test_a_dead_effect_of_a_damaged_row_has_no_arguments() -> None:
    desk = posted()
    desk.fail(4)

    desk.deliver(died(input=msgspec.Raw(b"null")))

    assert desk.state[-1] == "still {}"


def test_a_retried_effect_without_an_input_is_on_record_only() -> None:
    desk = posted(0)
    desk.fail(4)
    before = desk.state

    desk.deliver(EffectRetried(effect=4, activity="tell"))
    desk.deliver(died(activity="tell", returns_input=False))

    assert desk.kinds[-2:] == ["effect_retried", "effect_retried"]
    assert desk.state == before
    desk.check()


def test_what_a_retried_effect_returns_must_be_an_input() -> None:
    desk = posted()
    desk.fail(4)

    with pytest.raises(PayloadError, match="result of effect 'post'"):
        desk.deliver(EffectRetried(effect=4, activity="post", result=raw(3), returns_input=True))


def test_a_retried_effect_of_a_row_begins_nothing_again() -> None:
    """Those behind it went on when it failed; a retry is beside the order."""
    desk = posted(2)
    desk.fail(4)
    assert set(desk.jobs) == {5}

    turn = desk.deliver(returned())

    assert turn.jobs == ()
    assert set(desk.jobs) == {5}
    desk.check()
    desk.complete(5)
    assert set(desk.jobs) == {6}
    desk.check()


def test_a_retry_that_ends_before_the_failure_is_taken_is_the_end_of_the_effect() -> None:
    desk = posted()

    desk.deliver(returned())
    turn = desk.deliver(ActivityFailed(schedule=4, failures=(Failure("E", "no"),), attempts=3))

    assert turn.events == ()
    assert desk.kinds[5:8] == ["activity_completed", "input_taken", "event_recorded"]
    assert desk.last("input_taken").cause == "effect:4"
    assert "effect_retried" not in desk.kinds
    desk.check()


def test_a_death_that_comes_before_the_first_one_is_taken_counts_once() -> None:
    desk = posted()

    desk.deliver(died())
    desk.deliver(ActivityFailed(schedule=4, failures=(Failure("E", "no"),), attempts=3))

    assert desk.kinds.count("activity_failed") == 1
    assert desk.state == ("desk", "still {'parcel': 'p', 'number': 0}")
    desk.check()


def test_an_instance_that_waits_for_its_last_effects_decides_no_retried_one() -> None:
    desk = posted()
    desk.fail(4)
    desk.execute(Close("p"))
    assert desk.execution.notes.is_closing
    before = desk.state

    desk.deliver(returned())

    assert desk.kinds[-1] == "effect_retried"
    assert desk.state == before
    desk.check()
    desk.complete(5)
    assert desk.kinds[-1] == "completed"


def test_an_instance_that_has_ended_takes_no_retried_effect() -> None:
    desk = posted(0)
    desk.fail(4)
    desk.execute(Close("p"))

    turn = desk.deliver(returned())

    assert turn.events == ()
    assert turn.consumed
