"""The worker of the demo and its orders: started, crashed, and watched from outside."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from perdure import Client, Handle
from perdure.cli.demo.order import fulfil


class Note(NamedTuple):
    """A line that an activity wrote: it began or ended, in which process."""

    at: datetime
    pid: int
    word: str
    activity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """A worker that was killed."""

    at: datetime
    pid: int
    done: frozenset[tuple[str, str]]
    """Orders and activities whose results were recorded before."""


@dataclass(slots=True)
class DemoStage:
    """What the demo plays on: a store, one worker process, and orders."""

    client: Client
    url: str
    folder: Path
    seconds: float
    """How long each activity takes."""
    orders: list[str] = field(default_factory=list)
    crash: Crash | None = None
    """The last one."""
    _worker: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The worker's process."""
        assert self._worker is not None
        return self._worker.pid

    async def start_order(self) -> Handle[list[str]]:
        """Start the next order."""
        order = f"order-{len(self.orders) + 1}"
        self.orders.append(order)
        ledger = str(self._ledger(order))
        return await self.client.start(order, fulfil, order, self.seconds, ledger)

    def start_worker(self) -> None:
        """Start a worker process."""
        command = [sys.executable, "-m", "perdure.cli.demo.order", self.url]
        self._worker = subprocess.Popen(command, stdin=subprocess.PIPE)

    async def crash_worker(self) -> None:
        """Kill the worker with SIGKILL, and start another one."""
        # Read before the kill: what is recorded in between is then not counted as completed before.
        done = await self._recorded()
        assert self._worker is not None
        self._worker.kill()
        self._end(self._worker)
        self.crash = Crash(at=datetime.now(UTC), pid=self._worker.pid, done=done)
        self.start_worker()

    def stop_worker(self) -> None:
        """End the worker in order."""
        if self._worker is not None and self._worker.poll() is None:
            self._worker.terminate()
            self._end(self._worker)

    def notes(self, order: str) -> list[Note]:
        """Return what the activities of an order wrote."""
        ledger = self._ledger(order)
        if not ledger.exists():
            return []
        lines = [line.split() for line in ledger.read_text().splitlines()]
        return [
            Note(datetime.fromtimestamp(float(line[0]), UTC), int(line[1]), line[2], line[3])
            for line in lines
            if len(line) == 4  # The last one may be half written.
        ]

    def sentence(self) -> str:
        """Return where the demo stands, for its pages."""
        crash = self.crash
        if crash is None:
            return (
                f"The worker is process {self.pid}. Crash it while an order is under way, and see "
                "the order go on."
            )
        since = [
            (order, note)
            for order in self.orders
            for note in self.notes(order)
            if note.at > crash.at and note.pid != crash.pid
        ]
        if not since:
            return (
                f"The worker, process {crash.pid}, was killed {_said(crash.at)}. Another one, "
                f"process {self.pid}, takes over."
            )
        begun = {(order, note.activity) for order, note in since if note.word == "begin"}
        repeated = len(begun & crash.done)
        return (
            f"Worker lost {_said(crash.at)}, resumed {_said(min(note.at for _, note in since))}: "
            f"{repeated} completed activities repeated."
        )

    def _end(self, worker: subprocess.Popen[bytes]) -> None:
        worker.wait(timeout=30)
        assert worker.stdin is not None
        worker.stdin.close()

    def _ledger(self, order: str) -> Path:
        return self.folder / f"{order}.txt"

    async def _recorded(self) -> frozenset[tuple[str, str]]:
        """Return the activities whose results are recorded."""
        found = set()
        for order in self.orders:
            history = await self.client.handle(order).history()
            for event in history:
                if event.kind == "activity_completed":
                    asked = history[event.data["schedule"] - 1]
                    found.add((order, str(asked.data["name"])))
        return frozenset(found)


def _said(at: datetime) -> str:
    """Return a time as pages understand it: they show it as their reader likes it."""
    return f"{at:at %Y-%m-%d %H:%M:%S} UTC"
