"""An engine for tests: the real one, in memory, with a clock that moves when it is told to.

    async with Trial([deposit, charge]) as trial:
        trial.fake(charge).returns(None)
        handle = await trial.start("d-1", deposit, "o-1")
        await trial.advance(timedelta(days=3))
        assert len(trial.calls(charge)) == 1

Every turn is watched closely, and every instance is replayed when it ends and when the trial does:
code that cannot be replayed fails the test that shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from perdure.authoring.activity import Activity
from perdure.authoring.registry import GivenDefinitions
from perdure.client.client import Client
from perdure.client.deciders.declaring import declare
from perdure.client.deciders.inputs import InputSender
from perdure.client.lifetimes import entered_with_async
from perdure.clock import to_datetime
from perdure.durations import Duration, as_duration
from perdure.errors import UsageError
from perdure.telemetry import Metrics
from perdure.testing.fakes import CallMade, Fake
from perdure.testing.mortal_store import CommitCount
from perdure.testing.trial_core import TrialCore
from perdure.testing.world import World

P = ParamSpec("P")
R = TypeVar("R")


@entered_with_async
class Trial(Client):
    """An engine for tests: in memory, with a clock that moves when told, every turn replayed in the
    shadow. It is a client as well: start instances, send signals, execute inputs."""

    def __init__(
        self,
        definitions: GivenDefinitions,
        /,
        *,
        now: datetime | None = None,
        seed: int = 0,
        resources: Iterable[object] = (),
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            definitions: Modules, registries, and what they hold: activities, orchestrations,
                deciders, projections, subscriptions.
            now: What the clock shows first.
            seed: Of what is drawn: the jitter of retries and, if it is not 0, the order in which
                fakes answer that run at the same time.
            resources: Objects that activities fetch with `ctx.resource(Type)`.
        """
        self._begin(World(definitions, now=now, seed=seed, resources=resources))

    @classmethod
    def _counting(cls, definitions: GivenDefinitions, count: CommitCount, *, seed: int) -> Self:
        """Return a trial whose worker dies at a commit."""
        trial = cls.__new__(cls)
        trial._begin(World(definitions, now=None, seed=seed, resources=(), count=count))
        return trial

    def _begin(self, world: World) -> None:
        self._world = world
        self._core: TrialCore = TrialCore(world, Metrics())
        self._inputs = InputSender(self._core)

    # -------------------------------------------------------------------- lifetime

    async def open(self) -> Self:
        """Begin to work.

        Raises:
            UsageError: No loop of asyncio runs here.
        """
        _refuse_other_loops()
        if await self._core.open():
            try:
                await self._world.open()
                for schedule in self._world.registry.schedules.values():
                    await declare(self, schedule, by_code=True)
            except BaseException:
                await self._core.close()
                raise
        return self

    async def close(self) -> None:
        """Replay what is in memory once more, and stop.

        Raises:
            NondeterminismError: Code cannot be replayed, and no call before has said so.
        """
        await self._end()
        self._world.findings.refuse()

    async def _end(self) -> None:
        if self._core.is_open:
            try:
                if self._world.is_open:
                    await self._core.replay_all()
                    await self._world.close()
            finally:
                await self._core.close()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
            return
        await self._end()
        for finding in self._world.findings.take():
            error.add_note(f"The trial has also found: {finding}")

    # --------------------------------------------------------------------- activities

    def fake(self, activity: Activity[P, R], /) -> Fake[P, R]:
        """Return what an activity does in this trial, to be said: `trial.fake(charge).returns(3)`,
        `.raises(TimeoutError())`, or a function, also as a decorator.

        Raises:
            UsageError: It is no activity, or was not handed over.
        """
        return self._world.fakes.fake(activity)

    def calls(self, activity: Activity[..., Any], /) -> list[CallMade]:
        """Return the calls of an activity so far, one for each attempt, in order.

        Raises:
            UsageError: It is no activity, or was not handed over.
        """
        return self._world.fakes.calls(activity)

    # --------------------------------------------------------------------------- time

    @property
    def now(self) -> datetime:
        """What the clock shows."""
        return to_datetime(self._world.clock())

    async def settle(self) -> None:
        """Wait until nothing can go on before time passes or something comes from outside.

        Code of activities is waited for, however long it takes.

        Raises:
            NondeterminismError: Code cannot be replayed, or does not fit its history.
        """
        self._core.refuse_closed()
        await self._world.settle()

    async def advance(self, by: Duration, /) -> None:
        """Let time pass, from one due time to the next, and settle at each of them. Never while an
        activity runs.

        Raises:
            NondeterminismError: Code cannot be replayed, or does not fit its history.
            UsageError: It is negative, or no length of time.
        """
        self._core.refuse_closed()
        await self._world.advance(as_duration("by", by))

    async def crash(self) -> None:
        """Let the worker die as it stands, and another one take over: what it had in memory is
        gone, and activities that ran are tried again."""
        self._core.refuse_closed()
        await self._world.crash()


def _refuse_other_loops() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            "a Trial needs asyncio, and no loop of it runs here: with anyio let the backend be "
            '"asyncio"'
        ) from None
