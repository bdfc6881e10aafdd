"""What a trial stands on: a store in memory, a clock that is moved, and one worker after another.

Time moves here and nowhere else, from due time to due time, and only while the worker is at rest.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from hashlib import blake2b

from perdure.authoring.activity_context import current_activity
from perdure.authoring.registry import GivenDefinitions, Registry
from perdure.client.engine import checked_resources
from perdure.clock import ManualClock, from_datetime, to_ms
from perdure.errors import NondeterminismError, OptionError, UsageError
from perdure.model.admin import InstanceFilter
from perdure.model.instances import Status
from perdure.store.base import Store
from perdure.store.opening import open_store
from perdure.testing.fakes import Fakes
from perdure.testing.findings import Findings
from perdure.testing.life import Life
from perdure.testing.mortal_store import CommitCount

MAX_WAKE_UPS = 100_000
"""How many moments of one `advance` may have something due."""


class World:
    """A store and what happens in it, as long as a trial lasts."""

    def __init__(
        self,
        definitions: GivenDefinitions,
        *,
        now: datetime | None,
        seed: int,
        resources: Iterable[object],
        count: CommitCount | None = None,
    ) -> None:
        self.clock = ManualClock() if now is None else ManualClock(from_datetime(now))
        self.store: Store = open_store("sqlite://:memory:", clock=self.clock)
        self.registry = Registry(definitions)
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise OptionError(f"seed must be a whole number, got {seed!r}")
        self.seed = seed
        self.secret = blake2b(b"%d" % seed).digest()
        """What tokens of promises are signed with. The store's own is made anew for each trial, and
        would be in what two runs of a test are compared by."""
        self.findings = Findings()
        self.count = count or CommitCount()
        self.fakes = Fakes(self.registry.activities, random.Random(seed) if seed else None)
        self._jitter = random.Random(seed)
        self._resources = checked_resources(resources)
        self._life: Life | None = None
        self._under_way = 0
        self._at_rest = asyncio.Event()
        self._one_moves_time = asyncio.Lock()
        self._told_held: set[str] = set()

    @property
    def life(self) -> Life:
        """The worker that lives now."""
        if self._life is None:
            raise UsageError("this Trial is not open: use `async with Trial([...]) as trial:`")
        return self._life

    @property
    def is_open(self) -> bool:
        """Whether it has a worker."""
        return self._life is not None

    # ------------------------------------------------------------------- lifetime

    async def open(self) -> None:
        """Begin with a worker. The store is open."""
        self._at_rest = asyncio.Event()  # of the loop that runs now
        self._one_moves_time = asyncio.Lock()
        self._at_rest.set()
        self._life = await self._born()

    async def close(self) -> None:
        """Replay what is in memory once more, then end the worker."""
        life, self._life = self.life, None
        if not life.is_dead:
            await life.replay_all()
        await life.die()

    async def _born(self) -> Life:
        life = Life(
            self.store,
            self.registry,
            self._resources,
            self.count,
            self.fakes,
            self.findings,
            jitter=self._jitter.random,
            secret=self.secret,
        )
        await life.open()
        return life

    async def crash(self) -> None:
        """Let the worker die as it stands, and another one take over."""
        self._refuse_within("crash")
        await self._take_over()

    async def _take_over(self) -> None:
        life = self.life
        await life.die()
        await life.release()
        self._life = await self._born()

    # -------------------------------------------------------------- time and rest

    @asynccontextmanager
    async def moving(self) -> AsyncIterator[None]:
        """Say that a call of the test moves things: a wait for a result goes on."""
        self._under_way += 1
        self._at_rest.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._at_rest.set()

    async def wait_unmoved(self) -> bool:
        """Wait until no call of the test moves things; return whether one did."""
        was_moved = not self._at_rest.is_set()
        await self._at_rest.wait()
        return was_moved

    async def settle(self) -> None:
        """Come to rest, and say what was found wrong.

        Raises:
            NondeterminismError: Code cannot be replayed, or does not fit its history.
        """
        self._refuse_within("come to rest")
        async with self.moving():
            await self._come_to_rest()
        await self._refuse_findings()

    async def advance(self, by: timedelta) -> None:
        """Let time pass, from one due time to the next, and say what was found wrong.

        Raises:
            NondeterminismError: Code cannot be replayed, or does not fit its history.
        """
        self._refuse_within("move the clock")
        async with self.moving(), self._one_moves_time:
            await self._pass_time(by)
        await self._refuse_findings()

    def _refuse_within(self, what: str) -> None:
        """Refuse what would wait for the code that asks for it.

        Raises:
            UsageError: An activity of this trial, or its fake, asks.
        """
        asking = current_activity.get(None)
        if asking is not None and asking.worker_id == self.life.serving.worker_id:
            raise UsageError(
                f"the trial cannot {what} while activity {asking.activity!r} runs, and the code of "
                "that one asks for it: do it in the test; an activity that starts or asks "
                "something itself has activity_context().client"
            )

    async def _come_to_rest(self) -> None:
        """Let the worker do all it can at this moment; if it dies, the next one."""
        while True:
            life = self.life
            resting = asyncio.ensure_future(life.come_to_rest())
            death = asyncio.ensure_future(life.store.died.wait())
            try:
                await asyncio.wait({resting, death}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                death.cancel()
                if not resting.done():
                    resting.cancel()
                await asyncio.wait({resting, death})
            if not life.is_dead:
                resting.result()
                return
            await self._take_over()

    async def _pass_time(self, by: timedelta) -> None:
        if by < timedelta(0):
            raise UsageError(f"time goes forward: advance({by!r}) is negative")
        until_ms = self.clock.now_ms + to_ms(by)
        await self._come_to_rest()
        for _ in range(MAX_WAKE_UPS):
            wake_ms = self.life.next_wake_ms()
            if wake_ms is None or wake_ms > until_ms:
                break
            if self.clock.now_ms == until_ms:
                break
            self.clock.now_ms = max(wake_ms, self.clock.now_ms + 1)
            await self.life.time_has_passed()
            await self._come_to_rest()
        else:
            raise UsageError(
                f"more than {MAX_WAKE_UPS:,} moments of advance({by!r}) had something due: does an "
                "orchestration sleep for very short times? Advance by less"
            )
        self.clock.now_ms = until_ms
        await self.life.time_has_passed()

    # -------------------------------------------------------------------- findings

    async def _refuse_findings(self) -> None:
        """Raise what was found wrong and not told yet.

        Raises:
            NondeterminismError: Code cannot be replayed, or does not fit its history.
        """
        blocked = await self.store.admin.list_instances(
            InstanceFilter(statuses=(Status.BLOCKED,)), limit=100
        )
        for row in blocked:
            if row.instance_id not in self._told_held:
                self._told_held.add(row.instance_id)
                self.findings.add(row.instance_id, NondeterminismError(row.reason or ""))
        self.findings.refuse()
