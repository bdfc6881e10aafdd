"""Processes that die, or stand still, at a chosen call of the store.

A `World` is what outlives its processes: database, clock, ledger, how far the script got. A
`Life` is one process in it: an engine that is driven by hand, on a store that counts the calls that
write. At the chosen call a fault comes:

- *before*: the process dies and the call never reaches the store;
- *after*: the call takes effect and the process dies before it hears of it (F4);
- *pause*: the process stands still, its call on its way, until it is let go on (F2, F5);
- *unreadable*: a call that reads fails once, and the process lives on (F3).

Nothing waits for real: an idle engine moves the clock to its next wake-up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Self, TypeVar, cast
from unittest.mock import patch

from perdure import Engine, WorkerOptions
from perdure.authoring.registry import GivenDefinitions
from perdure.checking.invariants import check
from perdure.clock import ManualClock, to_ms
from perdure.core.orchestrations.execution import Execution
from perdure.errors import InstanceEndedError, StoreUnavailableError
from perdure.jobs.slots import SlotKind
from perdure.model.worker_options import renew_every
from perdure.store.base import Store
from perdure.store.contents import Contents, Inspectable
from perdure.store.observing import PARTS
from perdure.store.opening import open_store
from tests.chaos import scenario
from tests.chaos.answers import Call as ClientCall
from tests.chaos.answers import Listener, not_as_told
from tests.chaos.everyday import stored_items
from tests.chaos.ledger import Ledger, Line

WRITES = frozenset(
    {"commit", "commit_locked", "start", "deliver", "claim_turns", "claim_jobs", "end_jobs"}
    | {"settle_inputs", "renew"}
    | {"release_turns", "hold", "unpark", "beat", "retire", "intern"}
    | {"renew_sessions", "retry_dead_jobs", "append_streams", "take_back"}
)
READS = frozenset(
    {"read_histories", "read_instances", "read_live", "read_news", "read_kv", "read_dead_jobs"}
)

OPTIONS = WorkerOptions(watch_calls="never", shadow_rate=1)
IN_MEMORY = "sqlite://:memory:"
HOME_ADVANTAGE_MS = 200
MAX_WAKE_UPS = 200
"""Many more than the script needs; a run that goes on longer makes no progress."""

T = TypeVar("T")


class FaultKind(Enum):
    """What happens to a process."""

    BEFORE = "before"
    AFTER = "after"
    PAUSE = "pause"
    UNREADABLE = "unreadable"
    """A call that reads fails once; the process lives on."""


class Fault(NamedTuple):
    """What happens at which call, counted from 1; with a name, among the calls of that name."""

    kind: FaultKind
    call: int
    name: str = ""


@dataclass
class Call:
    """A call of the store."""

    name: str
    has_effect: bool = False
    """Whether it did something, as far as its answer tells: not a claim that found nothing."""


class FaultyStore:
    """Stands before a store, counts calls, and brings the fault."""

    def __init__(self, store: Store, fault: Fault | None) -> None:
        self.writes: list[Call] = []
        self.reads: list[Call] = []
        self.is_dead = False
        self.struck = asyncio.Event()
        """Set when the fault has come."""
        self.resumed = asyncio.Event()
        self._store = store
        self._fault = fault

    async def read_contents(self) -> Contents:
        """Return everything, without faults: it is the checker that asks."""
        contents: Contents = await self._store.read_contents()  # type: ignore[attr-defined]  # both can
        return contents

    async def forget(self) -> None:
        """Let nothing of a dead process reach the database any more."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if name not in PARTS:
            return self.faulty(name, value)
        part = FaultyPart(value, self.faulty)
        setattr(self, name, part)
        return part

    def faulty(self, name: str, value: Any) -> Any:
        """Return what the store, or a part of it, has under a name, with the faults before it."""
        if name in WRITES:
            return self._watched(self.writes, name, value)
        if name in READS:
            return self._watched(self.reads, name, value)
        return value

    def _watched(
        self, calls: list[Call], name: str, call: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        async def watched(*args: Any, **kwargs: Any) -> Any:
            this = Call(name)
            calls.append(this)
            await self._stand_still()
            self._live_or_die()
            if self._is_due(calls, name):
                await self._strike(lambda: call(*args, **kwargs))
            result = await call(*args, **kwargs)
            this.has_effect = bool(result) or result is None
            await self._stand_still()
            self._live_or_die()
            return result

        return watched

    def _is_due(self, calls: list[Call], name: str) -> bool:
        if self._fault is None or self.struck.is_set():
            return False
        kind, number, wanted = self._fault
        if calls is not (self.reads if kind is FaultKind.UNREADABLE else self.writes):
            return False
        if wanted not in ("", name):
            return False
        return number == sum(wanted in ("", call.name) for call in calls)

    async def _strike(self, call: Callable[[], Awaitable[Any]]) -> None:
        assert self._fault is not None
        match self._fault.kind:
            case FaultKind.PAUSE:
                self.struck.set()
                await self._stand_still()
            case FaultKind.UNREADABLE:
                self.struck.set()
                raise StoreUnavailableError("the store cannot be read now")
            case kind:
                self.is_dead = True
                if kind is FaultKind.AFTER:
                    await call()
                self.struck.set()
                self._live_or_die()

    async def _stand_still(self) -> None:
        if self._fault is not None and self._fault.kind is FaultKind.PAUSE:
            while self.struck.is_set() and not self.resumed.is_set():
                await self.resumed.wait()

    def _live_or_die(self) -> None:
        if self.is_dead:
            # Whoever called belongs to a process that is no more.
            raise asyncio.CancelledError


class FaultyPart:
    """Stands before a part of a store, with the same faults."""

    def __init__(self, part: object, faulty: Callable[[str, Any], Any]) -> None:
        self._part = part
        self._faulty = faulty

    def __getattr__(self, name: str) -> Any:
        return self._faulty(name, getattr(self._part, name))


class LifeLedger(Ledger):
    """Writes for one process, as long as it lives."""

    def __init__(self, lines: list[Line], pid: int, store: FaultyStore) -> None:
        self.pid = pid
        self._lines = lines
        self._store = store

    def append(self, line: Line) -> None:
        if not self._store.is_dead:
            self._lines.append(line)


class HandDriven(Engine):
    """An engine whose loops do not run: the test claims, renews leases and moves the clock. What it
    tells its callers is kept."""

    def __init__(
        self,
        store: Store,
        options: WorkerOptions,
        ledger: Ledger,
        hung: scenario.Hung,
        definitions: GivenDefinitions = scenario.DEFINITIONS,
        *,
        calls: list[ClientCall],
    ) -> None:
        self.hung = hung
        with patch("perdure.client.client.open_store", lambda url, *, clock: store):
            super().__init__(
                "",
                definitions,
                options=options,
                resources=[ledger, hung],
                clock=store.clock,
            )
        self.calls = calls
        Listener(self, calls)
        self.serving = self._serving
        # How long a suspect is alone is time that passes here only by hand, too.
        for suspects in (self.serving.turns.suspects, self.serving.jobs.suspects):
            suspects._monotonic = lambda: store.clock() / 1000
        self._executions: list[Execution] = []
        executions = self.serving.turns._executions
        make = executions.new

        def remember(*args: Any, **kwargs: Any) -> Execution:
            execution = make(*args, **kwargs)
            self._executions.append(execution)
            return execution

        # A first turn that was never answered is known to nobody else, and the collector must not
        # end it.
        executions.new = remember  # type: ignore[method-assign]  # a spy

    async def open(self) -> Self:
        """Get ready to work, without the loops. The database is open already."""
        self._core._is_open = True
        await self.serving.open()
        self.serving._is_serving = True
        self._numbers = await self._core.store.intern(list(self.serving.coverage.claimable()))
        return self

    async def until_idle(self) -> None:
        """Do all that can be done at this moment."""
        is_busy = True
        while is_busy:
            try:
                is_busy = await self.serving.claimer.run_once()
            except StoreUnavailableError:
                is_busy = True  # The supervisor would start the loop again.
            is_busy = await self._come_to_rest() or is_busy

    async def until_dead(self) -> None:
        """Work until the fault comes."""
        with suppress(asyncio.CancelledError):
            await self.until_idle()
        store = cast(FaultyStore, self._core.store)
        assert store.is_dead, "the fault did not come"
        await store.struck.wait()  # The call that is its last may still be on its way.

    async def until_ended(self) -> None:
        """Work, and move the clock from one wake-up to the next, until nothing is left to do."""
        for _ in range(MAX_WAKE_UPS):
            await self.until_idle()
            assert await check(self._core.store) == []
            if not await self.pass_time():
                return
        raise AssertionError("there is no end to it")

    async def until_answered(self, *asking: Coroutine[Any, Any, T]) -> list[T]:
        """Do what callers ask for at once, and work until all have an answer."""
        asked = [asyncio.create_task(one) for one in asking]
        try:
            while not all(one.done() for one in asked):
                await self.until_idle()
                await asyncio.sleep(0)
                if not all(one.done() for one in asked):
                    await self.pass_time()
            return [one.result() for one in asked]
        finally:
            for one in asked:
                one.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def pass_time(self) -> bool:
        """Move the clock to the next wake-up, renewing leases; return whether there is one."""
        await self.serving._leases.renew()
        await self.serving._sessions.renew()
        wake_ms = await self._core.store.next_wake_ms(self._numbers, self._numbers)
        clock = self._core.store.clock
        assert isinstance(clock, ManualClock)
        if wake_ms is None:
            if not any(depth.ready for depth in await self._core.store.admin.queue_depths()):
                return False
            # Jobs of a session that somebody else had. When it ends is nobody's wake-up time.
            wake_ms = clock.now_ms + to_ms(OPTIONS.session_lease)
        # What is due and was not given to us is left to its home for a moment.
        wait_ms = wake_ms - clock.now_ms if wake_ms > clock.now_ms else HOME_ADVANTAGE_MS
        if self.serving.turns.leases() or self.serving.jobs.leases():
            wait_ms = min(wait_ms, to_ms(renew_every(OPTIONS.lease_for)))
        clock.now_ms += wait_ms
        return True

    async def bury(self) -> None:
        """End everything that this process still has in memory."""
        for hot in list(self.serving.turns.hot):
            self.serving.turns.hot.drop(hot)
        for execution in self._executions:
            execution.tear_down()
        while tasks := self._tasks():
            await asyncio.sleep(0)  # A task that has not begun would leave its coroutine behind.
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if self._core._watch is not None:
            await self._core._watch.close()
        self.serving.turns.watchdog.close()
        self._handlers.close()
        await self.serving.jobs._launcher.close()

    async def _come_to_rest(self) -> bool:
        """Wait for everything that moves by itself; return whether there was something."""
        has_waited = False
        while tasks := self._tasks() - self.hung.tasks - self._waiting():
            has_waited = True
            # Not for ever: some of them may only just find out that they hang.
            await asyncio.wait(tasks, timeout=0.005, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)
        return has_waited

    def _waiting(self) -> set[asyncio.Task[Any]]:
        """Return what waits for instances that have not ended, as far as this process knows."""
        awaited = self._core.endings.awaited()
        return {
            run.task
            for run in self.serving.jobs.started
            if run.task is not None
            and run.slots.kind is SlotKind.WAITING
            and any(one.encode() in run.job.input for one in awaited)
        }

    def _tasks(self) -> set[asyncio.Future[Any]]:
        runs = self.serving.jobs.started
        return {
            *self.serving.turns._background._tasks,
            *(run.task for run in runs if run.task is not None),
        }


Step = Callable[[HandDriven], Awaitable[None]]
"""Something a client does; done again in the next life if it was not acknowledged."""


class Life:
    """One process."""

    def __init__(self, world: World, pid: int, fault: Fault | None) -> None:
        self.pid = pid
        self._world = world
        self.on(FaultyStore(world.store, fault))

    def on(self, store: FaultyStore) -> Self:
        """Let the process work on a store; before it runs."""
        world = self._world
        self.store = store
        ledger = LifeLedger(world.ledger, self.pid, store)
        self.engine = HandDriven(
            cast(Store, store),
            world.options,
            ledger,
            scenario.Hung(),
            world.definitions,
            calls=world.calls,
        )
        return self

    async def run(self) -> bool:
        """Follow the script to its end; False means that the fault came first."""
        self._task = asyncio.create_task(self._follow())
        struck = asyncio.create_task(self._until_stopped())
        await asyncio.wait({self._task, struck}, return_when=asyncio.FIRST_COMPLETED)
        struck.cancel()
        return self._task.done() and not self.store.is_dead

    async def resume(self) -> None:
        """Let a process go on that stood still, and wait until it is through."""
        self.store.resumed.set()
        await self._task

    async def end(self) -> None:
        """Drop everything that is in memory."""
        is_through = self._task.done() and not self.store.is_dead
        self.store.is_dead = True
        await self.store.forget()
        assert await check(self._world.store) == []
        self._task.cancel()
        await asyncio.wait({self._task})
        await self.engine.bury()
        if is_through:
            self._task.result()

    async def _until_stopped(self) -> None:
        await self.store.struck.wait()
        if self.store._fault is not None and self.store._fault.kind is FaultKind.UNREADABLE:
            await asyncio.Event().wait()  # It lives on.

    async def _do(self, step: Step) -> None:
        """Do something as a client does that tries again when the store could not be had."""
        try:
            await step(self.engine)
        except StoreUnavailableError:
            await step(self.engine)

    async def _follow(self) -> None:
        await self.engine.open()
        if self._world.done and self._world.settles:
            # What the process before had begun is finished before anything else is asked for.
            self._world.clock.advance(2 * OPTIONS.lease_for)
        for number, step in enumerate(self._world.script):
            if number < self._world.done:
                continue
            await self.engine.until_idle()
            try:
                await self._do(step)
            except InstanceEndedError:
                # Said by a process that stood still: others did this and more in the meantime.
                assert self.store.resumed.is_set()
            self._world.done = max(self._world.done, number + 1)
        await self.engine.until_ended()


class World:
    """What outlives its processes."""

    def __init__(
        self,
        script: Sequence[Step] = (),
        options: WorkerOptions = OPTIONS,
        definitions: GivenDefinitions = scenario.DEFINITIONS,
        *,
        settles: bool = False,
        url: str = IN_MEMORY,
    ) -> None:
        self.script = script
        self.options = options
        self.definitions = definitions
        self.settles = settles
        """Whether a process lets the leases of the one before run out before it goes on."""
        self.done = 0
        """How many steps of the script were acknowledged."""
        self.ledger: list[Line] = []
        self.calls: list[ClientCall] = []
        """What clients asked for and were told, in all lives."""
        self.clock = ManualClock()
        self.lives = 0
        self.store = open_store(url, clock=self.clock)
        """The database, shared by all processes; in memory, for speed, unless told otherwise."""

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            # Whatever a test looks at: what was told is there.
            if kind is None:
                assert isinstance(self.store, Inspectable)
                contents = await self.store.read_contents()
                items = await stored_items(self.store, contents)
                wrong = not_as_told(self.calls, contents, items=items)
                assert not wrong, wrong
        finally:
            await self.store.close()

    @asynccontextmanager
    async def process(self, fault: Fault | None = None) -> AsyncIterator[HandDriven]:
        """Give the engine of a process that is killed at the end of the block."""
        life = self.new_life(fault)
        try:
            yield await life.engine.open()
        finally:
            life.store.is_dead = True
            await life.engine.bury()

    def new_life(self, fault: Fault | None = None) -> Life:
        """Return a new process."""
        self.lives += 1
        return Life(self, self.lives, fault)
