"""Orchestrations that call deciders: what they get, and what checkers refuse."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import assert_type

from perdure import Accepted, AlreadyCompleted, Context, Decider, Decision, Rejected
from perdure.authoring.deciders.decider_ref import DeciderRef


@dataclass(frozen=True)
class Open:
    door: str


@dataclass(frozen=True)
class Opened:
    door: str


@dataclass(frozen=True)
class Closed:
    door: str


class Door(Decider[bool, Open, Opened | Closed, str]):
    name = "door"

    def initial(self) -> bool:
        return False

    def instance_id(self, input: Open, /) -> str:
        return input.door

    def decide(
        self, state: bool, input: Open, now: datetime, /
    ) -> Decision[Open, Opened | Closed, str]:
        if state:
            return Decision.reject("open")
        return Decision.accept(Opened(input.door))

    def evolve(self, state: bool, event: Opened | Closed, /) -> bool:
        return isinstance(event, Opened)


async def an_outcome_has_the_deciders_types(ctx: Context) -> None:
    outcome = await ctx.execute(Door, Open("a"))
    assert_type(outcome, Accepted[Opened | Closed, bool] | Rejected[str] | AlreadyCompleted)
    match outcome:
        case Accepted(events, state, version):
            assert_type(events[0], Opened | Closed)
            assert_type(state, bool)
            assert_type(version, int)
        case Rejected(reason):
            assert_type(reason, str)
        case AlreadyCompleted():
            pass


async def an_event_has_the_type_that_was_waited_for(ctx: Context) -> None:
    ref = ctx.ref("a", Door)
    assert_type(ref, DeciderRef[bool, Open, Opened | Closed, str])
    event, version = await ref.wait_event(Opened)
    assert_type(event, Opened)
    assert_type(version, int)
    either, _ = await ref.wait_event(Opened | Closed, after=version)
    assert_type(either, Opened | Closed)


async def only_inputs_of_the_decider_are_taken(ctx: Context) -> None:
    await ctx.send(Door, Open("a"))
    await ctx.send(Door, Opened("a"))  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await ctx.execute(Door, "a")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
