"""What the anatomy takes apart, and in which ways it is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from itertools import count as counting
from typing import Any, Literal, TypeAlias

from bench.chain import add_one, chain
from bench.deciders import Add, Counter
from bench.harness import finish, in_flight
from bench.one_activity import greet, say_hello
from perdure import Engine, Signal, orchestration
from perdure.authoring.registry import Defined

WayName: TypeAlias = Literal["alone", "together"]

CHAIN = 20
"""The length of chains that run together."""
INSTANCES = 100
"""Deciders that are asked together."""
CALLERS = 500

SIZES: dict[WayName, dict[str, int]] = {
    "alone": {"full": 400, "traced": 100, "quick": 20},
    "together": {"full": 2_000, "traced": 1_000, "quick": 100},
}
WARM_UPS: dict[WayName, dict[str, int]] = {
    "alone": {"full": 50, "traced": 50, "quick": 5},
    "together": {"full": 200, "traced": 200, "quick": 40},
}


@dataclass(frozen=True, slots=True)
class Way:
    """How many of them are under way at any time."""

    name: WayName
    do: Callable[[Engine, int], Coroutine[Any, Any, Any]]
    """Does so many."""

    def size(self, size: str) -> int:
        """Return how many to do."""
        return SIZES[self.name][size]

    def warm_up(self, size: str) -> int:
        """Return how many to do before."""
        return WARM_UPS[self.name][size]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is taken apart."""

    name: str
    title: str
    definitions: tuple[Defined, ...]
    ways: tuple[Way, ...]
    prepare: Callable[[Engine], Awaitable[Callable[[], Awaitable[Any]]]] | None = None
    """Returns what is followed when nothing but that is left to do."""
    walk_title: str = ""
    walk_begins: str | None = None
    """The phase that the walk begins with; None: where it is called."""


# --------------------------------------------------------------------- orchestrations


async def greet_alone(engine: Engine, count: int) -> None:
    await in_flight(count, 1, lambda: finish(engine, greet, "Ada"))


async def greet_together(engine: Engine, count: int) -> None:
    await in_flight(count, count, lambda: finish(engine, greet, "Ada"))


# ------------------------------------------------------------------------- activities


paid = Signal("paid", str)


@orchestration
async def greet_later() -> str:
    return await say_hello(await paid.receive())


async def one_chain(engine: Engine, count: int) -> None:
    await finish(engine, chain, count)


async def chains_together(engine: Engine, count: int) -> None:
    chains = count // CHAIN
    await in_flight(chains, chains, lambda: finish(engine, chain, CHAIN))


async def wait_for_signal(engine: Engine) -> Callable[[], Awaitable[Any]]:
    """Let an orchestration wait until it is told to call its activity."""
    handle = await engine.start(greet_later)

    async def go() -> None:
        await handle.send(paid, "Ada")
        await handle.result()

    return go


# ---------------------------------------------------------------------------- execute


async def execute_alone(engine: Engine, count: int) -> None:
    await in_flight(count, 1, lambda: engine.execute(Counter, Add("one", 1)))


async def execute_together(engine: Engine, count: int) -> None:
    numbers = counting()
    await in_flight(
        count,
        CALLERS,
        lambda: engine.execute(Counter, Add(f"c-{next(numbers) % INSTANCES}", 1)),
    )


async def have_state(engine: Engine) -> Callable[[], Awaitable[Any]]:
    """Let the decider's state be in memory."""
    await engine.execute(Counter, Add("one", 1))
    return lambda: engine.execute(Counter, Add("one", 1))


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject(
            name="orchestration",
            title="one orchestration of one activity",
            definitions=(greet, say_hello),
            ways=(Way("alone", greet_alone), Way("together", greet_together)),
        ),
        Subject(
            name="activity",
            title="one activity of a chain",
            definitions=(chain, add_one, greet_later, say_hello),
            ways=(Way("alone", one_chain), Way("together", chains_together)),
            prepare=wait_for_signal,
            walk_title="one activity call, hot",
            walk_begins="turn built",
        ),
        Subject(
            name="execute",
            title="one execute of a hot decider",
            definitions=(Counter,),
            ways=(Way("alone", execute_alone), Way("together", execute_together)),
            prepare=have_state,
            walk_title="one execute of a hot decider",
        ),
    )
}
