"""Are the answers exact? Many clients and workers, everything that goes wrong, and an oracle.

    python -m tests.chaos.linear --store postgres [--operations N] [--seed S] [--full]

Client processes have inputs of a bank decided, by themselves and by orchestrations, ask tills by
updates, and keep promises several times at once. Meanwhile workers and clients are killed, workers
stand still, clocks are wrong for a while, lines are cut before and after commits, the server
crashes, and a copy that is behind takes its place. In every batch there may be an input that a rule
of the database refuses; user code seeds `random` and forks. In the end `oracle.violations` compares
what everybody was told with what is stored.

What goes wrong comes by progress of the calls, not by the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psycopg

from perdure.checking.invariants import check
from perdure.clock import system_clock
from perdure.store.contents import Contents, Inspectable
from perdure.store.opening import open_store
from tests.chaos import storm
from tests.chaos.bank import POISON
from tests.chaos.bank_client import HUSH
from tests.chaos.fleet import ROOT, Fleet
from tests.chaos.ledger import LedgerTail, read_ledger
from tests.chaos.oracle import Call, violations
from tests.chaos.poison import poison
from tests.chaos.stored import stored_in
from tests.chaos.told import Begun, Line, Telling, TellingTail, Told, WentBack
from tests.chaos.worker_process import LEASE
from tests.chaos.wrong_clock import wrong_times
from tests.postgres import SUPERUSER, Server, Standby
from tests.wire import Proxy, writes

CLIENTS = 3
WORKERS = 3
LOOK_EVERY_S = 0.01
IDLE_WITHIN_S = 180.0
CLIENT_ENDS_WITHIN_S = 90.0
LATE_BY_S = 0.03
BEHIND_BY = 40
"""How many calls a copy has missed when it takes over."""


EXPECTED = (
    *storm.EXPECTED,
    *("could not be committed", "has gone back", "by a time that a wrong clock wrote"),
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much of everything."""

    operations: int
    faults: Mapping[str, int]
    """How many of each kind, of those that apply."""


ANYWHERE = ("kill", "freeze", "kill a client", "wrong clock")
ON_POSTGRES = ("cut before", "cut after", "crash", "go back")

SMALL = Size(
    operations=500,
    faults={
        **dict.fromkeys(ANYWHERE, 2),
        **dict.fromkeys(("cut before", "cut after"), 8),
        "crash": 2,
        "go back": 1,
    },
)
"""What every run of the tests has time for."""
FULL = Size(
    operations=10_000,
    faults=dict.fromkeys((*ANYWHERE, *ON_POSTGRES), 100),
)


@dataclass
class Report:
    """What happened, and what is wrong after it."""

    store: str
    seed: int
    took_s: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{self.store}, seed {self.seed}, {self.took_s:.0f} s",
            f"{self.answers.total()} operations",
            *(f"  {count:7} {what}" for what, count in sorted(self.answers.items())),
            "faults",
            *(f"  {count:7} {what}" for what, count in sorted(self.faults.items())),
            f"{len(self.problems)} problems",
            *(f"  {problem}" for problem in self.problems[:100]),
        ]
        return "\n".join(lines)


class Fault(Protocol):
    """Lets one thing go wrong."""

    __name__: str

    async def __call__(self, kind: str, /) -> None: ...


class Customers:
    """The client processes."""

    def __init__(self, folder: Path, url: str, seed: int) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        """Those that run, by name."""
        self.problems: list[str] = []
        self._folder = folder
        self._url = url
        self._seed = seed
        self._count = 0

    def add(self) -> None:
        """Start one."""
        self._count += 1
        name = f"c{self._count}"
        arguments = [self._url, str(self._folder), name, str(self._seed)]
        with (self._folder / "clients").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.bank_client", *arguments],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def kill(self, name: str) -> None:
        """Kill one in the middle of its calls, and start another one."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()
        self.add()

    async def stop(self) -> None:
        """Let all of them end their calls."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                code = await asyncio.to_thread(process.wait, CLIENT_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                self.problems.append("a client waits for an answer that does not come")
                process.kill()
                process.wait()
                continue
            # One that is only starting has no ear for the signal yet, and has asked for nothing.
            if code not in (0, -signal.SIGTERM):
                log = (self._folder / "clients").read_text(errors="replace")[-2000:]
                self.problems.append(f"a client ended with {code}: {log}")
        self.processes.clear()

    def close(self) -> None:
        """Kill whoever is left."""
        for process in self.processes.values():
            process.kill()
            process.wait()


@dataclass
class Scene:
    """A store and all who use it."""

    folder: Path
    url: str
    """As clients and workers have it."""
    seed: int
    server: Server | None = None
    proxy: Proxy | None = None
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.fleet = Fleet(self.folder, self.url, starts=0, expected=EXPECTED)
        self.customers = Customers(self.folder, self.url, self.seed)
        self.telling = Telling(self.folder / "told")
        self._told = TellingTail(self.folder / "told")
        self._ledger = LedgerTail(self.fleet.ledger)
        self._at_work: set[int] = set()
        self._begun = 0
        self._callers: set[str] = set()
        """Clients that have made a call."""
        self._deadlocks = 0

    def close(self) -> None:
        self.customers.close()
        self.fleet.close()
        if self.server is not None:
            self.server.close()

    # ------------------------------------------------------------------- what goes wrong

    async def rage(self, size: Size) -> None:
        """Let everything go wrong, each sort by itself, once the calls are so far."""
        sorts: tuple[tuple[Fault, tuple[str, ...]], ...] = (
            (self.kill, ("kill",)),
            (self.freeze, ("freeze",)),
            (self.kill_client, ("kill a client",)),
            (self.jump, ("wrong clock",)),
        )
        if self.server is not None:
            sorts += (
                (self.cut, ("cut before", "cut after")),
                (self.stop_server, ("crash", "go back")),
            )
        async with asyncio.TaskGroup() as tasks:
            for do, sort in sorts:
                what = [kind for kind in sort for _ in range(size.faults.get(kind, 0))]
                self.chance.shuffle(what)
                tasks.create_task(self._rage_by(do, what, size.operations))

    async def _rage_by(self, do: Fault, what: list[str], operations: int) -> None:
        # Not at the very end: what is broken then meets no more load.
        chance = random.Random(f"{self.seed}:{do.__name__}")
        moments = sorted(chance.uniform(0.05, 0.95) * operations for _ in what)
        for kind, moment in zip(what, moments, strict=True):
            await self.until_begun(moment)
            await do(kind)
            self.counts[kind] += 1

    async def kill(self, _: str) -> None:
        """Kill a worker that is at work."""
        self.fleet.kill(await self._one_at_work())

    async def freeze(self, _: str) -> None:
        """Let a worker stand still for longer than its leases last."""
        worker = await self._one_at_work()
        await self.fleet.pause(worker, self.chance.uniform(1.1, 1.6) * LEASE.total_seconds())

    async def kill_client(self, _: str) -> None:
        """Kill a client while it waits for answers."""
        self.customers.kill(self.chance.choice(list(self.customers.processes)))
        await self.until_begun(self.begun() + 1)

    async def jump(self, _: str) -> None:
        """Let the clock of a worker or a client that is at work be wrong for a while."""
        worker = await self._one_at_work()
        clients = self.customers.processes.items()
        pids = [worker.pid, *(one.pid for name, one in clients if name in self._callers)]
        await self.fleet.jump(self.chance.choice(pids), self.chance)

    async def cut(self, kind: str) -> None:
        """Cut the line of whoever commits next: before the server has it, or before the answer."""
        assert self.proxy is not None
        proxy, cuts = self.proxy, self.proxy.cuts
        (proxy.cut_before if kind == "cut before" else proxy.cut_after)(writes)
        await self.until(lambda: proxy.cuts > cuts)

    async def stop_server(self, kind: str) -> None:
        """Crash the server; or put a copy that is behind into its place."""
        assert self.server is not None
        self.count_deadlocks()
        # A crash makes the server forget.
        self._deadlocks = 0
        if kind == "crash":
            await asyncio.to_thread(self.server.stop, "immediate")
            await asyncio.to_thread(self.server.start)
        else:
            await self._go_back(self.server)

    async def _go_back(self, server: Server) -> None:
        assert self.proxy is not None
        copied_ns = time.monotonic_ns()
        standby = await asyncio.to_thread(Standby, server)
        await self.until_begun(self.begun() + BEHIND_BY)
        await asyncio.to_thread(server.stop, "immediate")
        self.telling.note(WentBack(copied_ns=copied_ns, ended_ns=time.monotonic_ns()))
        self.server = standby
        await asyncio.to_thread(as_superuser, standby, "SELECT pg_promote()")
        self.proxy.lead_to(standby.url(self.url.rpartition("/")[2]))
        await asyncio.to_thread(server.close)

    def count_deadlocks(self) -> None:
        """Count them before the server forgets."""
        if self.server is not None:
            question = "SELECT sum(deadlocks)::int FROM pg_stat_database"
            [(count,)] = as_superuser(self.server, question)
            self.counts["deadlocks, seen"] += count - self._deadlocks
            self._deadlocks = count

    # ------------------------------------------------------------------- how far it is

    def begun(self) -> int:
        """Return how many calls have begun."""
        lines = [line for line in self._told.read() if isinstance(line, Begun)]
        self._begun += len(lines)
        self._callers |= {line.client for line in lines}
        return self._begun

    async def until_begun(self, count: float) -> None:
        """Wait until so many calls have begun."""
        await self.until(lambda: self.begun() >= count)

    @staticmethod
    async def until(is_so: Callable[[], bool]) -> None:
        """Wait for something that has no event."""
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_EVERY_S)

    async def _one_at_work(self) -> subprocess.Popen[bytes]:
        while True:
            self._at_work |= self.fleet.at_work(self._ledger.read())
            for one in self.fleet.workers:
                assert one.poll() is None, f"a worker ended by itself: see {self.fleet.log}"
            found = [one for one in self.fleet.workers if one.pid in self._at_work]
            if found:
                return self.chance.choice(found)
            await asyncio.sleep(LOOK_EVERY_S)

    async def until_idle(self) -> list[str]:
        """Wait until nothing is left to do; return what is if it takes too long."""
        began_s = time.monotonic()
        deadline_s = began_s + IDLE_WITHIN_S
        while left := left_in(await self.read_all()):
            if time.monotonic() > deadline_s:
                return left[:10]
            # To look is work, on the loop that also hands on what workers say to the store.
            await asyncio.sleep(max(0.3, 3 * (time.monotonic() - began_s)))
            began_s = time.monotonic()
        return []

    async def read_all(self) -> Contents:
        """Return all that the store holds."""
        async with opened(self.url) as store:
            return await store.read_contents()


def as_superuser(server: Server, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement on a server."""
    url = server.url("postgres", role=SUPERUSER)
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Inspectable]:
    """Open a store to look at it."""
    store = open_store(url)
    await store.open()
    try:
        assert isinstance(store, Inspectable)
        yield store
    finally:
        await store.close()


def left_in(contents: Contents) -> list[str]:
    """Return what has not been done."""
    return [
        *(f"not decided: {len(some)} messages of {one}" for one, some in contents.inboxes.items()),
        *(f"not ended: {len(some)} jobs of {one}" for one, some in contents.jobs.items()),
        *(
            f"not ended: {row.instance_id} is {row.status}"
            for row in contents.instances.values()
            if row.name == "errand" and not row.status.is_terminal
        ),
    ]


# ------------------------------------------------------------------------------- one run


async def linear(store: str, size: Size, seed: int, folder: Path) -> Report:
    """Run it; the report says what is wrong in the end."""
    report, began_s, began_ms = Report(store, seed), time.monotonic(), system_clock()
    async with set_up(store, seed, folder) as scene:
        for _ in range(WORKERS):
            scene.fleet.add()
        for _ in range(CLIENTS):
            scene.customers.add()
        await scene.rage(size)
        await scene.until_begun(size.operations)
        (folder / HUSH).touch()
        await scene.customers.stop()
        report.problems += scene.customers.problems
        report.problems += await scene.until_idle()
        scene.count_deadlocks()
        fleet = scene.fleet
        codes = await asyncio.gather(*(fleet.stop(worker) for worker in list(fleet.workers)))
        report.problems += [f"a worker ended with {code}" for code in codes if code]
        lines = TellingTail(folder / "told").read()
        contents = await scene.read_all()
        report.problems += violations(lines, stored_in(contents))
        report.problems += wrong_times(contents, began_ms, system_clock())
        async with opened(scene.url) as opened_store:
            report.problems += [str(one) for one in await check(opened_store)]  # type: ignore[arg-type] # a store too
        report.problems += fleet.complaints()
        report.faults = scene.counts
        if report.problems:
            (folder / "stored").write_text(shown(contents))
    count(report, lines, fleet)
    report.took_s = time.monotonic() - began_s
    return report


@asynccontextmanager
async def set_up(store: str, seed: int, folder: Path) -> AsyncIterator[Scene]:
    """Make a store with a rule against one account, and close everything in the end."""
    if store == "sqlite":
        url = f"sqlite:///{folder}/store.db"
        await poison(url, f"bank:{POISON}")
        scene = Scene(folder, url, seed)
        try:
            yield scene
        finally:
            scene.close()
        return
    server = await asyncio.to_thread(Server, durable=True)
    try:
        url = server.create_database()
        await poison(url, f"bank:{POISON}")
    except BaseException:
        server.close()
        raise
    async with Proxy(url) as proxy:
        proxy.late_by_s = LATE_BY_S
        scene = Scene(folder, proxy.url, seed, server, proxy)
        try:
            yield scene
        finally:
            scene.close()


def shown(contents: Contents) -> str:
    """Return what the store holds, for whoever looks for the cause of a violation."""
    lines = []
    for key, history in sorted(contents.histories.items()):
        lines.append(f"{key}: {contents.instances.get(key.instance_id)}")
        lines += [f"  {event}" for event in history]
    lines += [f"inbox of {one}: {some}" for one, some in contents.inboxes.items()]
    return "\n".join(lines)


def count(report: Report, lines: list[Line], fleet: Fleet) -> None:
    """Count calls by their answers, and what goes wrong with the load itself."""
    calls = {(line.mark, line.how): Call(line) for line in lines if isinstance(line, Begun)}
    for line in lines:
        if isinstance(line, Told):
            calls[line.mark, line.how].told = line
    for call in calls.values():
        report.answers[f"{call.begun.how}: {call.answer}"] += 1
        report.faults["poison"] += call.begun.account == POISON and call.answer == "refused"
        given_up = call.told is not None and call.told.why.startswith("TimeoutError")
        report.faults["give up"] += given_up
        report.faults["same id"] += call.begun.input_id.startswith("shared")
    report.faults["fork"] = sum(line.what == "forked" for line in read_ledger(fleet.ledger))
    report.faults["seed"] = len(calls)


def main() -> None:
    """Run it as a program."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.linear")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="postgres")
    parser.add_argument("--operations", type=int, help="how many at least")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument(
        "--faults",
        help="these alone, as in 'kill=5,cut after=20': " + ", ".join((*ANYWHERE, *ON_POSTGRES)),
    )
    parser.add_argument("--full", action="store_true", help=f"{FULL} instead of {SMALL}")
    parser.add_argument("--folder", help="where everything is written, and stays")
    given = parser.parse_args()
    size = FULL if given.full else SMALL
    faults = size.faults
    if given.faults is not None:
        named = (one.partition("=") for one in given.faults.split(",") if one)
        faults = {kind: int(count or faults[kind]) for kind, _, count in named}
    size = Size(operations=given.operations or size.operations, faults=faults)
    with tempfile.TemporaryDirectory(prefix="perdure-linear-") as passing:
        folder = Path(given.folder or passing)
        folder.mkdir(exist_ok=True)
        report = asyncio.run(linear(given.store, size, given.seed, folder))
    print(report)  # noqa: T201 - a program
    sys.exit(1 if report.problems else 0)


if __name__ == "__main__":
    main()
