"""Everything at once on PostgreSQL: workers are killed and frozen, the server crashes under them.

    python -m tests.chaos.storm [--full] [--seed NUMBER] [--cuts NUMBER] [--no-poison]

runs it by itself and tells what happened. Lines are cut before and after commits, of the client and
of workers; clocks are wrong for a while; beside some cases there is an input that the database
refuses; every activity seeds `random`, some fork. What goes wrong comes by progress of the cases,
not by the clock: so all of it comes under load, on slow machines too.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.chaos import fleet as fleets
from tests.chaos.accounting import overtaken
from tests.chaos.cases import Book
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import LedgerTail, read_ledger
from tests.chaos.load import last_look, load
from tests.chaos.poison import poison
from tests.chaos.worker_process import LEASE
from tests.postgres import Server
from tests.wire import Proxy, writes

WORKERS = 4
POISON = "poison"
"""The account that a rule of the database refuses."""
LOOK_EVERY_S = 0.02
SAYS_WITHIN_S = 1.0
"""When a worker that goes on has usually said what was refused."""
MORE_FREEZES = 20
EXPECTED = (
    *fleets.EXPECTED,
    *fleets.OF_CLOCKS,
    "StoreUnavailableError",
    "waits for the store",
    "computes for",
    "and its turn took longer than",
)
"""What workers may say when the server crashes, or when they stood still in the midst of a turn."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much of everything."""

    cases: int
    kills: int
    crashes: int
    freezes: int
    cuts: int
    """Half of them before a commit, half after it."""
    jumps: int
    """How often a worker's clock is wrong for a while."""
    has_poison: bool = True


SMALL = Size(cases=300, kills=10, crashes=2, freezes=2, cuts=10, jumps=5)
"""What every run of the tests has time for."""
FULL = Size(cases=2_000, kills=50, crashes=5, freezes=5, cuts=100, jumps=100)


@dataclass
class Report:
    """What happened, and what is wrong after it."""

    seed: int
    size: Size
    took_s: float = 0.0
    instances: int = 0
    kills: int = 0
    crashes: int = 0
    freezes: int = 0
    cuts: int = 0
    jumps: int = 0
    forks: int = 0
    poison: int = 0
    """Inputs that the database refused."""
    down_s: float = 0.0
    """How long the server was away, all crashes together."""
    answers: Counter[str] = field(default_factory=Counter)
    """What the client was told."""
    told_to_wait: int = 0
    """Calls of the client that were told to come again later."""
    runs: int = 0
    """Runs of activities, the lost ones included."""
    overtaken: int = 0
    """Runs of a frozen worker that another one began as well."""
    refused: Counter[str] = field(default_factory=Counter)
    """What workers wanted to write and others had written."""
    refused_frozen: int = 0
    """Of that, what workers wanted that had been frozen."""
    problems: list[str] = field(default_factory=list)


class Storm:
    """What happens to a fleet and its server.

    Args:
        server: Loses no commit when it crashes.
        proxy: By which everybody reaches it.
        fleet: Its workers.
        chance: Decides who is hit, and when.
    """

    def __init__(self, server: Server, proxy: Proxy, fleet: Fleet, chance: random.Random) -> None:
        self.crashes = 0
        self.down_s = 0.0
        self._server = server
        self._proxy = proxy
        self._fleet = fleet
        self._chance = chance
        self._ledger = LedgerTail(fleet.ledger)
        self._at_work: set[int] = set()
        self._running: set[tuple[str, int, int]] = set()
        """Runs of activities that have begun and not ended: key, attempt, process."""
        self._has_refused = False
        """Whether a worker that was frozen has found its work done by others."""

    async def rage(self, size: Size, book: Book) -> None:
        """Let everything happen once the cases are so far."""
        chance = self._chance
        counts = {
            self.kill: size.kills,
            self.crash: size.crashes,
            self.freeze: size.freezes,
            self.cut: size.cuts,
            self.jump: size.jumps,
        }
        whats = [what for what, count in counts.items() for _ in range(count)]
        chance.shuffle(whats)
        # Not at the very end: what is broken then meets no more load.
        moments = sorted(chance.uniform(0.02, 0.95) * size.cases for _ in whats)
        for what, moment in zip(whats, moments, strict=True):
            while book.ended < moment:  # noqa: ASYNC110 - a number has no event
                await asyncio.sleep(LOOK_EVERY_S)
            await what()
        await self._freeze_on()

    async def kill(self) -> None:
        """Kill a worker that is at work, in the middle of whatever it does."""
        worker = await self._one_at_work()
        self._fleet.kill(worker)

    async def crash(self) -> None:
        """Stop the server as a crash does, and start it again."""
        began_s = time.monotonic()
        await asyncio.to_thread(self._server.stop, "immediate")
        await asyncio.sleep(self._chance.uniform(0, 2 * LEASE.total_seconds()))
        await asyncio.to_thread(self._server.start)
        self.crashes += 1
        self.down_s += time.monotonic() - began_s

    async def cut(self) -> None:
        """Cut the line of whoever commits next: before the server has it, or before the answer."""
        proxy, cuts = self._proxy, self._proxy.cuts
        (proxy.cut_after if cuts % 2 else proxy.cut_before)(writes)
        while proxy.cuts == cuts:  # noqa: ASYNC110 - a number has no event
            await asyncio.sleep(LOOK_EVERY_S)

    async def jump(self) -> None:
        """Let the clock of a worker be wrong for a while."""
        worker = await self._one_at_work()
        await self._fleet.jump(worker.pid, self._chance)

    async def freeze(self) -> None:
        """Let a worker that runs something stand still for longer than its leases last."""
        worker = await self._one_at_work(is_running=True)
        await self._fleet.pause(worker, self._chance.uniform(1.5, 3) * LEASE.total_seconds())

    async def _freeze_on(self) -> None:
        """Freeze more workers if none that was had anything left to say: the server may have been
        down at the time, or the worker have been killed before it said so."""
        for _ in range(MORE_FREEZES):
            await asyncio.sleep(SAYS_WITHIN_S)
            self._watch()
            if self._has_refused:
                return
            await self.freeze()

    async def _one_at_work(self, *, is_running: bool = False) -> subprocess.Popen[bytes]:
        """Return a worker that works; if there is another one, none that was frozen: what it still
        tries to write is to be refused."""
        while True:
            self._watch()
            pids = {pid for _, _, pid in self._running} if is_running else self._at_work
            found = [worker for worker in self._fleet.workers if worker.pid in pids]
            fresh = [worker for worker in found if worker.pid not in self._fleet.paused]
            if found:
                return self._chance.choice(fresh or found)
            await asyncio.sleep(LOOK_EVERY_S)

    def _watch(self) -> None:
        """Take in what the workers have done since the last time."""
        lines = self._ledger.read()
        self._at_work |= self._fleet.at_work(lines)
        for line in lines:
            if line.what == "begin":
                self._running.add((line.key, line.attempt, line.pid))
            elif line.what in ("end", "failed"):
                self._running.discard((line.key, line.attempt, line.pid))
            elif line.what == "refused":
                self._has_refused |= line.pid in self._fleet.paused


async def storm(size: Size, seed: int, folder: Path) -> Report:
    """Run it; the report says what is wrong in the end."""
    report, chance, began_s = Report(seed, size), random.Random(seed), time.monotonic()
    with await asyncio.to_thread(Server, durable=True) as server:
        url = server.create_database()
        if size.has_poison:
            await poison(url, f"account:{POISON}")
        async with Proxy(url) as proxy:
            fleet = Fleet(folder, proxy.url, expected=EXPECTED)
            raging = Storm(server, proxy, fleet, chance)
            try:
                for _ in range(WORKERS):
                    fleet.add()
                book = await load(
                    fleet,
                    chance,
                    lambda book: raging.rage(size, book),
                    at_least=size.cases,
                    poison=POISON if size.has_poison else None,
                )
                report.problems = [*book.problems, *await last_look(fleet)]
            finally:
                fleet.close()
            report.cuts = proxy.cuts
    ledger = read_ledger(fleet.ledger)
    report.took_s = time.monotonic() - began_s
    report.instances = book.ended
    report.kills, report.freezes, report.jumps = fleet.kills, fleet.pauses, fleet.jumps
    report.crashes, report.down_s = raging.crashes, raging.down_s
    report.poison = book.refused
    report.answers = book.answers
    report.told_to_wait = book.unavailable
    report.forks = sum(line.what == "forked" for line in ledger)
    report.runs = sum(line.what == "begin" for line in ledger)
    report.overtaken = len(overtaken(ledger, fleet.paused))
    for line in ledger:
        if line.what == "refused":
            report.refused[line.key] += line.attempt
            report.refused_frozen += line.attempt if line.pid in fleet.paused else 0
    return report


def main() -> None:
    """Run it as a program."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.storm")
    parser.add_argument("--full", action="store_true", help=f"{FULL} instead of {SMALL}")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--cuts", type=int, help="how many lines are cut")
    parser.add_argument("--no-poison", action="store_true", help="the database refuses nothing")
    parser.add_argument("--folder", help="where ledger and log are written, and stay")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perdure-storm-") as passing:
        folder = Path(given.folder or passing)
        folder.mkdir(exist_ok=True)
        size = replace(FULL if given.full else SMALL, has_poison=not given.no_poison)
        if given.cuts is not None:
            size = replace(size, cuts=given.cuts)
        report = asyncio.run(storm(size, given.seed, folder))
    for name, value in vars(report).items():
        if name != "problems":
            print(f"{name}: {value}")  # noqa: T201 - a program
    print(f"problems: {len(report.problems)}", *report.problems, sep="\n  ")  # noqa: T201
    sys.exit(1 if report.problems else 0)


if __name__ == "__main__":
    main()
