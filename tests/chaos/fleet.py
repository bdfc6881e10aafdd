"""Worker processes on one store, and what happens to them."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from perdure.clock import system_clock
from perdure.store.sql.commits.remembered_check import SWITCH
from tests.chaos import wake_faults
from tests.chaos.ledger import Line, own_id, read_ledger
from tests.chaos.wrong_clock import WRONG_FOR_S, far_off, set_clock

ROOT = Path(__file__).parents[2]
ENDS_WITHIN_S = 60.0
EXPECTED = ("is abandoned", "the store cannot be written now", "older than 3.51.3")
"""What workers may say when they are stopped in the middle of things."""
OF_CLOCKS = ("perdure.clock_watch the clock jumped",)
"""What processes may say whose clock was set."""


@dataclass
class Fleet:
    """Some worker processes. Whoever dies is replaced at once."""

    folder: Path
    url: str
    """The store they share."""
    starts: int = 20
    """How many instances each process starts itself."""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    added: int = 0
    """How many processes there were."""
    kills: int = 0
    pauses: int = 0
    expected: tuple[str, ...] = EXPECTED
    """What they may say."""
    paused: set[int] = field(default_factory=set)
    """Processes that once stood still."""
    jumps: int = 0
    """How often the clock of a process was wrong for a while."""
    began_ms: int = field(default_factory=system_clock)

    @property
    def ledger(self) -> Path:
        """What their activities did."""
        return self.folder / "ledger"

    @property
    def log(self) -> Path:
        """What they had to say."""
        return self.folder / "log"

    def add(self) -> subprocess.Popen[bytes]:
        """Start a worker process."""
        with self.log.open("ab") as log:
            arguments = [self.url, str(self.ledger), str(self.starts)]
            worker = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.worker_process", *arguments],
                cwd=ROOT,
                env={**os.environ, SWITCH: "1", **self._faults()},
                stdout=log,
                stderr=log,
            )
        self.workers.append(worker)
        return worker

    def _faults(self) -> dict[str, str]:
        """Return what has every other process hear badly of what others do."""
        self.added += 1
        return {wake_faults.SWITCH: "1"} if self.added % 2 else {}

    async def ready(self, worker: subprocess.Popen[bytes]) -> None:
        """Wait until a process works."""
        async with asyncio.timeout(ENDS_WITHIN_S):
            # A file has no event.
            while worker.pid not in self.at_work(read_ledger(self.ledger)):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    def last_starts(self) -> list[str]:
        """Return the last instance that each process starts by itself."""
        last = self.starts - 1
        return [own_id(worker.pid, last) for worker in self.workers] if self.starts else []

    @staticmethod
    def at_work(ledger: list[Line]) -> set[int]:
        """Return the processes that have begun to work."""
        return {line.pid for line in ledger if line.what == "ready"}

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """Kill a process in the middle of whatever it does, and start another one."""
        assert worker.poll() is None, f"a worker ended by itself: {worker.returncode}"
        worker.kill()
        worker.wait()
        self.workers.remove(worker)
        self.kills += 1
        self.add()

    async def kill_some(self, kills: int, chance: random.Random, *, pause_s: float) -> None:
        """Kill so many processes, each at a random moment."""
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0, 2 * pause_s))
            self.kill(chance.choice(self.workers))

    async def pause(self, worker: subprocess.Popen[bytes], for_s: float) -> None:
        """Let a process stand still for a while, as a machine does that is put to sleep."""
        self.paused.add(worker.pid)
        self.pauses += 1
        worker.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(for_s)
        finally:
            worker.send_signal(signal.SIGCONT)

    async def jump(self, pid: int, chance: random.Random) -> None:
        """Let the clock of a process that works be wrong for a while, by hours or years."""
        self.jumps += 1
        set_clock(self.folder, pid, far_off(chance))
        await asyncio.sleep(chance.uniform(*WRONG_FOR_S))
        set_clock(self.folder, pid, 0)

    async def stop(self, worker: subprocess.Popen[bytes]) -> int:
        """Ask a process to end, and return its exit code. One that is only starting has no ear for
        that yet and dies of it, as of a kill."""
        is_at_work = worker.pid in self.at_work(read_ledger(self.ledger))
        worker.terminate()
        self.workers.remove(worker)
        code = await asyncio.to_thread(worker.wait, ENDS_WITHIN_S)
        return 0 if code == -signal.SIGTERM and not is_at_work else code

    def close(self) -> None:
        """Kill whoever is left."""
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.workers.clear()

    def complaints(self) -> list[str]:
        """Return what the workers logged that they should not have to."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return [line for line in lines if not any(text in line for text in self.expected)]
