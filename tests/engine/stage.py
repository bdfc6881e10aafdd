"""What the end-to-end tests stand on: engines on one store, gates for activities, a last look."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perdure import Client, Engine, Handle, WorkerOptions
from perdure.authoring.registry import GivenDefinitions
from perdure.checking.invariants import check
from perdure.client.reading.info import HistoryEvent
from perdure.clock import Clock, system_clock, to_ms
from perdure.model.turns import Turn, TurnReceipt
from perdure.store.opening import open_store
from tests.sizes import WITHIN_S

LOOK_EVERY_S = 0.002

HARMLESS = r"with an SQLite older than 3\.51\.3"
"""What the machine's SQLite may cause to be logged in every test that opens two stores."""

EARLY = r"signal .* is kept for instance .*, which does not exist"
"""What is said of signals that come before the start, which is on purpose in tests."""

BUSY = (
    r"^a turn of .* computes for|its turn took longer than|keeps the worker's loop busy for"
    r"|kept everybody else from writing for|keeps a row locked for long"
    r"|^a projection holds the store"
)
"""What is said of code that takes long: on a machine that has much else to do, that may be any."""

OPTIONS = WorkerOptions(
    shadow_rate=1,
    watch_calls="always",
    poll_max=timedelta(milliseconds=50),
    stop_grace=timedelta(milliseconds=50),
    cancel_grace=timedelta(milliseconds=50),
)
"""Every turn is watched and every instance replayed in the shadow."""

SELDOM = timedelta(minutes=5)
"""How often a worker looks by itself that is to hear of things in another way."""


def options(**changes: Any) -> WorkerOptions:
    """Return the usual options with some changed."""
    fields = {name: getattr(OPTIONS, name) for name in WorkerOptions.__dataclass_fields__}
    return WorkerOptions(**{**fields, **changes})


class LogRecords(logging.Handler):
    """Keeps what is logged by perdure and asyncio, also while the test is being torn down."""

    LOGGERS = ("perdure", "asyncio")

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []
        for name in self.LOGGERS:
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.records.append(record)

    def detach(self) -> None:
        """Listen no more."""
        for name in self.LOGGERS:
            logging.getLogger(name).removeHandler(self)


class Stage:
    """One store, and the engines and clients that a test opens on it.

    When the test is over everything is closed, and then nothing may have been reported by the
    shadow replays, no warning or error logged that the test did not expect, and no promise of the
    store be broken.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.expected_mismatches = 0
        self.expected_violations: tuple[str, ...] = ()
        """Numbers of the invariants that the test breaks on purpose."""
        self._log = LogRecords()
        self._expected: list[str] = []
        self._allowed = [HARMLESS, EARLY, BUSY]
        self._open: list[Client] = []
        self._engines: list[Engine] = []

    async def engine(
        self,
        definitions: GivenDefinitions,
        *,
        options: WorkerOptions = OPTIONS,
        resources: Iterable[object] = (),
        clock: Clock = system_clock,
    ) -> Engine:
        """Open an engine."""
        engine = Engine(self.url, definitions, options=options, resources=resources, clock=clock)
        await engine.open()
        self._open.append(engine)
        self._engines.append(engine)
        return engine

    async def client(self, *, clock: Clock = system_clock) -> Client:
        """Open a client without a worker."""
        client = await Client(self.url, create=True, clock=clock).open()
        self._open.append(client)
        return client

    def expect_log(self, pattern: str) -> None:
        """Let a warning or an error pass whose message matches; it must come."""
        self._expected.append(pattern)

    def allow_log(self, pattern: str) -> None:
        """Let a warning or an error pass whose message matches; it need not come."""
        self._allowed.append(pattern)

    def logged(self, pattern: str) -> list[str]:
        """Return the messages so far that match."""
        messages = [record.getMessage() for record in self._log.records]
        return [message for message in messages if re.search(pattern, message)]

    async def close(self) -> None:
        """Close whatever is still open."""
        while self._open:
            await self._open.pop().close()
        self._log.detach()

    async def look_over(self) -> None:
        """Fail if anything was reported that the test did not expect."""
        mismatches = sum(mismatches_of(engine) for engine in self._engines)
        assert mismatches == self.expected_mismatches
        assert self._unexpected() == []
        for pattern in self._expected:
            assert self.logged(pattern), f"nothing was logged that matches {pattern!r}"
        await self._check_store()

    def _unexpected(self) -> list[str]:
        return [
            logging.Formatter().format(record)
            for record in self._log.records
            if not any(
                re.search(pattern, record.getMessage())
                for pattern in (*self._allowed, *self._expected)
            )
        ]

    async def _check_store(self) -> None:
        store: Any = open_store(self.url)
        if store.is_server:
            # Its readers connect by themselves. What an open store has beside them costs more.
            try:
                violations = await check(store)
            finally:
                await asyncio.to_thread(store._readers.close)
        else:
            await store.open()
            try:
                violations = await check(store)
            finally:
                await store.close()
        bad = [v for v in violations if v.invariant not in self.expected_violations]
        assert not bad, bad


def complaints(stderr: str) -> list[str]:
    """Return what a program has said, but for what it may say wherever the machine is busy."""
    usual = f"{BUSY}|^run.. goes on waiting"
    return [line for line in stderr.splitlines() if not re.search(usual, line)]


def mismatches_of(engine: Engine) -> int:
    """Return how many shadow replays of an engine did not fit."""
    return engine._serving.turns.shadow.mismatches


async def until(holds: Callable[[], Awaitable[object] | object]) -> None:
    """Wait until a condition holds."""

    async def look() -> bool:
        found = holds()
        return bool(await found if isinstance(found, Awaitable) else found)

    try:
        async with asyncio.timeout(WITHIN_S):
            while True:
                if await look():
                    return
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError:
        raise AssertionError("what the test waits for did not come about") from None


async def waits_for(handle: Handle[Any], text: str) -> None:
    """Wait until `explain` says that an instance waits for something."""

    async def look() -> bool:
        return text in await handle.explain()

    await until(look)


async def is_waiting(client: Client, instance_id: str) -> bool:
    """Return whether an instance has had its first turn and not ended."""
    live = await client._core.store.read_live(instance_id)
    return live is not None and live.stamp.next_seq > 1


async def has_ended(client: Client, instance_id: str) -> bool:
    """Return whether an instance has ended."""
    return (await client.handle(instance_id).info()).status.is_terminal


async def idle(engine: Engine) -> None:
    """Wait until an engine has looked for work and found none."""
    await until(lambda: engine._serving.claimer is not None and engine._serving.claimer._fruitless)


async def are_ready(engine: Engine, name: str, count: int) -> bool:
    """Return whether so many jobs of an activity wait for a worker."""
    return count == sum(one.ready for one in await engine.queues() if one.name == name)


def overtake(
    engine: Engine, patch: pytest.MonkeyPatch, first: Callable[[], Awaitable[object]]
) -> None:
    """Have something happen when a job of an engine has ended and its result is not committed yet:
    no cancellation can reach the job any more, and the turn comes too late."""
    store = engine._core.store
    commit = store.commit

    def commit_too_late(turns: Sequence[Turn]) -> Awaitable[list[TurnReceipt]]:
        async def late() -> list[TurnReceipt]:
            if any(turn.job_ends for turn in turns):
                patch.setattr(store, "commit", commit)
                await first()
            return await commit(turns)

        return late()

    patch.setattr(store, "commit", commit_too_late)


PATIENCE = timedelta(seconds=10)
"""What a `RunningClock` is moved ahead by for a time-out, which cannot come before. No lease ends
with that."""


class RunningClock:
    """A clock that runs, and can be moved ahead: leases of a worker that has crashed run out, and
    what others wait for in real time comes."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def __call__(self) -> int:
        return system_clock() + self._ahead_ms

    def advance(self, by: timedelta) -> None:
        """Move the clock ahead."""
        self._ahead_ms += to_ms(by)


class Gate:
    """Lets a test see that an activity runs, and decide when it goes on."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.passed = 0

    async def reached(self) -> None:
        """Wait until an activity stands in the gate."""
        async with asyncio.timeout(WITHIN_S):
            await self.entered.wait()

    async def pass_through(self) -> None:
        """Stand in the gate until it is opened; called by the activity."""
        self.entered.set()
        await self.opened.wait()
        self.passed += 1


def load(folder: Path, name: str, source: str) -> ModuleType:
    """Import a module from a file of its own folder, as a deploy of that code would."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.py"
    file.write_text(source)
    unique = f"{name}_{folder.name}"
    spec = importlib.util.spec_from_file_location(unique, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    spec.loader.exec_module(module)
    return module


def kinds(history: Iterable[HistoryEvent]) -> list[str]:
    """Return the kinds of events in order."""
    return [event.kind for event in history]


def transactions(client: Client) -> int:
    """Return how many transactions the client's store has committed."""
    store: Any = client._core.store
    count: int = store.counters.transactions
    return count
