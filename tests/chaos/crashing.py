"""A store that lets its process die at a chosen call, and an engine that is driven by hand.

A `World` is what survives: the file, the clock, the ledger, what was acknowledged. A `Life` is one
process in it: an engine with a store in front that counts calls. At the chosen call the process
dies, before the call or after it took effect; nothing of that life is written from then on, and the
next life finds what is in the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast
from unittest.mock import patch

from perdure import Client, Engine, WorkerOptions
from perdure.authoring.registry import AnyDefinition
from perdure.clock import ManualClock, to_ms
from perdure.store.base import Store
from perdure.store.opening import open_store
from tests.chaos import scenario
from tests.chaos.ledger import Ledger, Line

WRITES = frozenset(
    {"commit", "start", "deliver", "claim_turns", "claim_jobs", "end_jobs", "renew"}
    | {"release_turns", "hold", "unblock", "unpark", "beat", "retire", "intern"}
)
READS = frozenset({"read_histories", "read_instances", "read_live", "next_wake_ms"})

OPTIONS = WorkerOptions(watch_calls="never", shadow_rate=0)


class Fault(NamedTuple):
    """Where a process dies."""

    call: int
    """Its so manieth writing call of the store, from 1."""
    is_after: bool
    """Whether the call takes effect."""


class FaultyStore:
    """Stands before a store, counts what is written, and dies at the chosen call."""

    def __init__(self, store: Store, fault: Fault | None) -> None:
        self.calls: list[str] = []
        self.under_way = 0
        self.is_dead = False
        self.died = asyncio.Event()
        self._store = store
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        return self._wrapped(name, value) if name in WRITES | READS else value

    def _wrapped(self, name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def counted(*args: Any, **kwargs: Any) -> Any:
            if self.is_dead:
                raise asyncio.CancelledError
            if name in WRITES:
                self.calls.append(name)
            is_last = self._fault is not None and len(self.calls) == self._fault.call
            self.under_way += 1
            try:
                if is_last and name in WRITES:
                    assert self._fault is not None
                    self.is_dead = True
                    if self._fault.is_after:
                        await call(*args, **kwargs)
                    self.died.set()
                    raise asyncio.CancelledError
                result = await call(*args, **kwargs)
            finally:
                self.under_way -= 1
            if self.is_dead:
                raise asyncio.CancelledError
            return result

        return counted


class LifeLedger(Ledger):
    """Writes for one life, as long as it lasts."""

    def __init__(self, world: World, pid: int) -> None:
        self.pid = pid
        self.store: FaultyStore | None = None
        self._world = world

    def append(self, line: Line) -> None:
        if self.store is None or not self.store.is_dead:
            self._world.ledger.append(line)


class World:
    """What survives its processes."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.ledger: list[Line] = []
        self.acknowledged = 0
        """How many steps of the script were acknowledged."""
        self.lives = 0
        self.calls: list[str] = []
        """The writing calls of the last life."""
        self._path = path

    def open_store(self) -> Store:
        return open_store(f"sqlite:///{self._path}", clock=self.clock)

    async def live(self, script: Sequence[Step], fault: Fault | None) -> bool:
        """Let a process go through what is left of the script; tell whether it survived."""
        self.lives += 1
        store = self.open_store()
        await store.open()
        faulty = FaultyStore(store, fault)
        ledger = LifeLedger(self, self.lives)
        ledger.store = faulty
        engine = HandDriven(cast(Store, faulty), scenario.DEFINITIONS, [ledger])
        life = asyncio.create_task(self._follow(script, engine))
        death = asyncio.create_task(faulty.died.wait())
        await asyncio.wait({life, death}, return_when=asyncio.FIRST_COMPLETED)
        self.calls = faulty.calls
        is_alive = not faulty.died.is_set()
        faulty.is_dead = True
        await engine.bury()
        await store.close()
        if is_alive:
            await life
        return is_alive

    async def _follow(self, script: Sequence[Step], engine: HandDriven) -> None:
        await engine.open()
        for step in script[self.acknowledged :]:
            await engine.until_idle()
            await step(engine)
            self.acknowledged += 1


Step = Callable[["HandDriven"], Awaitable[None]]
"""Something a client does. Done again in the next life if it was not acknowledged."""


class HandDriven(Engine):
    """An engine whose loops do not run: the test claims, renews and moves the clock."""

    def __init__(
        self, store: Store, definitions: Sequence[AnyDefinition], resources: Sequence[object]
    ) -> None:
        with patch("perdure.client.client.open_store", lambda url, *, clock: store):
            super().__init__(
                "", definitions, options=OPTIONS, resources=resources, clock=store.clock
            )
        self._faulty = cast(FaultyStore, store)

    async def open(self) -> HandDriven:
        """Get ready to work, without starting the loops."""
        self._is_open = True
        await self._serving.open()
        self._serving._is_serving = True
        return self

    async def until_idle(self) -> None:
        """Do everything that can be done at this moment."""
        assert self._serving.claimer is not None
        is_busy = True
        while is_busy:
            is_busy = await self._serving.claimer.run_once()
            is_busy = await self._settle() or is_busy

    async def until_ended(self) -> None:
        """Work, and move the clock from one wake-up to the next, until nothing is left."""
        for _ in range(1_000):
            await self.until_idle()
            if not await self._pass_time():
                return
        raise AssertionError("it goes on for ever")

    async def pass_time(self) -> bool:
        """Move the clock to the next wake-up; tell whether there is one."""
        await self._serving._leases.renew()
        keys = list(self._serving.registry.keys())
        numbers = await self.store.intern(keys)
        wake_ms = await self.store.next_wake_ms(numbers, numbers)
        if wake_ms is None:
            return False
        clock = self.store.clock
        assert isinstance(clock, ManualClock)
        # Due and not given to us means that it is left to its home for a moment.
        wait_ms = wake_ms - clock.now_ms if wake_ms > clock.now_ms else HOME_ADVANTAGE_MS
        # As often as a worker renews its leases.
        clock.now_ms += min(wait_ms, to_ms(OPTIONS.lease_for) // 3)
        return True
