"""The crash demo: a real worker process, a real SIGKILL, and the order goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from perdure import Client, Handle
from perdure.cli.demo_order import STEPS, fulfil
from perdure.client.info import HistoryEvent

ORDER = "order-1"
KILL_AFTER = 2
"""How many activities have ended when the worker is killed; the next one is under way then."""
GIVE_UP_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """What the demo saw."""

    completed_before: int
    """Activities whose result was recorded before the kill."""
    repeated: int
    """How many of those ran again."""
    interrupted: int
    """Activities that were under way at the kill and ran again."""
    took_s: float


class Screen(Protocol):
    """Where the demo shows itself."""

    def line(self, text: str) -> None:
        """Say something that stays."""
        ...

    def progress(self, done: int) -> None:
        """Show how many activities are done."""
        ...


def run_demo(seconds: float) -> DemoReport:
    """Run the demo and print what happens."""
    with tempfile.TemporaryDirectory(prefix="perdure-demo-") as folder, _screen() as screen:
        demo = Demo(Path(folder), seconds, screen)
        return asyncio.run(demo.run())


class Demo:
    """One run of the demo."""

    def __init__(self, folder: Path, seconds: float, screen: Screen) -> None:
        self._url = f"sqlite:///{folder / 'demo.db'}"
        self._ledger = folder / "ledger.txt"
        self._seconds = seconds
        self._screen = screen
        self._worker: subprocess.Popen[bytes] | None = None
        self._shown = 0

    async def run(self) -> DemoReport:
        """Start the order, kill the worker, start it again, wait for the end."""
        began_s = time.monotonic()
        async with Client(self._url, create=True) as client:
            try:
                handle = await client.start(ORDER, fulfil, ORDER, self._seconds, str(self._ledger))
                self._start_worker("worker")
                await self._until(handle, lambda done, begun: done >= KILL_AFTER and begun > done)
                before = await self._show_news(handle)
                self._kill_worker()
                self._start_worker("another worker")
                await self._until(handle, lambda done, _: done == len(STEPS))
                await handle.result()
            finally:
                self._stop_worker()
        return self._report(before, time.monotonic() - began_s)

    # ------------------------------------------------------------- the worker

    def _start_worker(self, who: str) -> None:
        command = [sys.executable, "-m", "perdure.cli.demo_order", self._url]
        self._worker = subprocess.Popen(command)
        self._screen.line(f"{who} started, process {self._worker.pid}")

    def _kill_worker(self) -> None:
        assert self._worker is not None
        self._worker.kill()
        self._worker.wait()
        self._screen.line(f"process {self._worker.pid} killed with SIGKILL")

    def _stop_worker(self) -> None:
        if self._worker is not None and self._worker.poll() is None:
            self._worker.terminate()
            self._worker.wait(timeout=30)

    # --------------------------------------------------------------- watching

    async def _until(self, handle: Handle[list[str]], reached: Callable[[int, int], bool]) -> None:
        """Show the order's progress until it is where it should be."""
        give_up_s = time.monotonic() + GIVE_UP_S
        while time.monotonic() < give_up_s:
            done = await self._show_news(handle)
            if reached(done, self._begun()):
                return
            await asyncio.sleep(0.02)
        raise TimeoutError(f"the demo got stuck: {await handle.explain()}")

    async def _show_news(self, handle: Handle[list[str]]) -> int:
        """Show what was recorded since the last time; return how many activities are done."""
        history = await handle.history()
        done = sum(event.kind == "activity_completed" for event in history)
        for event in history[self._shown :]:
            text = _news(event, history)
            if text:
                self._screen.line(f"{ORDER}  {text}")
        self._shown = len(history)
        self._screen.progress(done)
        return done

    def _begun(self) -> int:
        return len({name for word, name in self._notes() if word == "begin"})

    def _notes(self) -> list[tuple[str, str]]:
        if not self._ledger.exists():
            return []
        lines = [line.split() for line in self._ledger.read_text().splitlines()]
        return [(line[2], line[3]) for line in lines if len(line) == 4]

    def _report(self, completed_before: int, took_s: float) -> DemoReport:
        runs = Counter(name for word, name in self._notes() if word == "begin")
        names = [step.name for step in STEPS]
        repeated = sum(runs[name] > 1 for name in names[:completed_before])
        interrupted = sum(runs[name] > 1 for name in names[completed_before:])
        self._screen.line(
            f"{ORDER}  went on with {repeated} completed activities repeated, "
            f"{interrupted} begun again"
        )
        return DemoReport(
            completed_before=completed_before,
            repeated=repeated,
            interrupted=interrupted,
            took_s=took_s,
        )


def _news(event: HistoryEvent, history: list[HistoryEvent]) -> str:
    """Return a recorded fact in a few words; nothing for those that only repeat another."""
    match event.kind:
        case "started":
            return "started"
        case "activity_scheduled":
            return f"{event.data['name']} begins"
        case "activity_completed":
            return f"{history[event.data['schedule'] - 1].data['name']} done"
        case "timer_scheduled":
            return "rests a little"
        case "completed":
            return "completed"
    return ""


def _screen() -> AbstractContextManager[Screen]:
    # Late: rich is needed on a terminal only.
    from perdure.cli.demo_screen import PlainScreen, RichScreen

    if sys.stdout.isatty():
        return RichScreen(len(STEPS))
    return PlainScreen()
