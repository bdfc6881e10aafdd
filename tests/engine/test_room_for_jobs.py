"""Room that turns reserve for their jobs is free again, whatever becomes of the turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from perdure import Accepted, Decider, Decision, Engine, Rejected, activity, orchestration
from perdure.authoring.registry import GivenDefinitions
from perdure.errors import AlreadyExistsError, DecisionTooLongError, RowError
from perdure.jobs.slots import SlotKind
from tests.engine.stage import Stage, options, until
from tests.engine.test_shared_turns import UNSTORABLE, hold_commits, share

LIMITS = options(
    async_jobs=2, turn_warning=timedelta(milliseconds=10), turn_limit=timedelta(milliseconds=20)
)


@dataclass(frozen=True)
class Ask:
    what: str = "work"
    id: str = "a"


@dataclass(frozen=True)
class Asked:
    what: str


@activity
async def work() -> None:
    pass


class Boss(Decider[int, Ask, Asked, str]):
    """Has work done for every input but one."""

    name = "boss"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Ask, /) -> str:
        return input.id

    def decide(self, state: int, input: Ask, now: datetime, /) -> Decision[Ask, Asked, str]:
        if input.what == "nothing":
            return Decision.reject("no work")
        decision = Decision.accept(Asked(input.what)).effect(work)
        while input.what == "endless":
            pass
        return decision

    def evolve(self, state: int, event: Asked, /) -> int:
        return state + 1


@orchestration
async def done() -> None:
    await work()


@orchestration
async def hasty() -> None:
    """Ends in the turn that asks for work."""
    asked = [asyncio.create_task(work()) for _ in range(2)]
    await asyncio.sleep(0)
    asked[0].cancel()


@orchestration
async def wrong() -> None:
    """Asks for work, and then does what cannot be replayed."""
    asked = asyncio.create_task(work())
    await asyncio.sleep(0)
    time.time()
    await asked


ALL: GivenDefinitions = [Boss, work, done, hasty, wrong]


def room(engine: Engine) -> Mapping[SlotKind, int]:
    return engine._serving.jobs.room()


async def accepted(engine: Engine, stage: Stage) -> None:
    assert isinstance(await engine.execute(Boss, Ask()), Accepted)
    await (await engine.start(done)).result()


async def rejected(engine: Engine, stage: Stage) -> None:
    assert await engine.execute(Boss, Ask("nothing", "new")) == Rejected("no work")
    await engine.execute(Boss, Ask())
    assert await engine.execute(Boss, Ask("nothing")) == Rejected("no work")


async def refused(engine: Engine, stage: Stage) -> None:
    await engine.execute(Boss, Ask())
    await (await stage.client()).execute(Boss, Ask())
    assert isinstance(await engine.execute(Boss, Ask()), Accepted)


async def taken(engine: Engine, stage: Stage) -> None:
    await (await engine.start("taken", done)).result()
    with pytest.raises(AlreadyExistsError):
        await engine.start("taken", done.with_options(if_exists="fail"))


async def failed(engine: Engine, stage: Stage) -> None:
    with pytest.raises(RowError):
        await engine.execute(Boss, Ask(), correlation=UNSTORABLE)


async def too_long(engine: Engine, stage: Stage) -> None:
    stage.expect_log("computes for")
    others = [Ask(), Ask(), Ask("endless")]
    [*answers, told] = await share(engine, Boss, Ask(), [(other, {}) for other in others])
    assert all(isinstance(answer, Accepted) for answer in answers)
    assert isinstance(told, DecisionTooLongError)


async def ended(engine: Engine, stage: Stage) -> None:
    await (await engine.start(hasty)).result()


async def blocked(engine: Engine, stage: Stage) -> None:
    stage.expect_log("is blocked")
    handle = await engine.start(wrong)

    async def is_blocked() -> bool:
        return (await handle.info()).status == "blocked"

    await until(is_blocked)


async def given_up(engine: Engine, stage: Stage) -> None:
    calling = asyncio.create_task(engine.execute(Boss, Ask()))
    await asyncio.sleep(0)
    calling.cancel()
    with suppress(asyncio.CancelledError):
        await calling


WAYS: list[Callable[[Engine, Stage], Awaitable[None]]] = [
    *(accepted, rejected, refused, taken, failed, too_long, ended, blocked, given_up)
]


async def test_a_turn_has_room_for_its_job_while_it_is_being_committed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await stage.engine(ALL, options=LIMITS)
    full = room(engine)
    gate = hold_commits(monkeypatch, engine)
    calling = asyncio.create_task(engine.execute(Boss, Ask()))
    await gate.reached.wait()

    assert room(engine)[SlotKind.ASYNC] == full[SlotKind.ASYNC] - 1
    gate.opened.set()
    await calling
    await until(lambda: room(engine) == full)


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
async def test_whatever_becomes_of_a_turn_its_room_is_free_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, way: Callable[[Engine, Stage], Awaitable[None]]
) -> None:
    monkeypatch.setattr("perdure.client.deciders.deciders.check_text", lambda what, text: text)
    engine = await stage.engine(ALL, options=LIMITS)
    full = room(engine)

    for _ in range(3):
        await way(engine, stage)

    def is_idle() -> bool:
        return room(engine) == full and not any(hot.is_ahead for hot in engine._serving.turns.hot)

    await until(is_idle)
