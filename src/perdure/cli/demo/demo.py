"""The crash demo: a real worker process, a real SIGKILL, and the order goes on. Its pages are
served beside it, with a button that does the same."""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from perdure import Client, Handle
from perdure.cli.demo.keys import keys_heard
from perdure.cli.demo.order import STEPS
from perdure.cli.demo.page import open_browser, pages_beside
from perdure.cli.demo.stage import DemoStage
from perdure.cli.interruptible import run_interruptibly
from perdure.client.reading.info import HistoryEvent

KILL_AFTER = 2
"""How many activities have ended when the worker is killed; the next one is under way then."""
GIVE_UP_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """What the command line says."""

    seconds: float
    """How long each activity takes."""
    port: int
    stays: bool
    """Whether the pages are served on when the story is told."""
    opens: bool
    """Whether to open them in a browser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """What the demo saw."""

    completed_before: int
    """Activities whose result was recorded before the kill."""
    repeated: int
    """How many of those ran again."""
    interrupted: int
    """Activities that were under way at the kill and ran again."""


class Screen(Protocol):
    """Where the demo shows itself."""

    def line(self, text: str) -> None:
        """Say something that stays."""
        ...

    def progress(self, done: int) -> None:
        """Show how many activities are done."""
        ...


def run_demo(settings: DemoSettings) -> DemoReport | None:
    """Run the demo and print what happens; None: it was told to quit before its end."""
    with tempfile.TemporaryDirectory(prefix="perdure-demo-") as folder, _screen() as screen:
        return run_interruptibly(Demo(Path(folder), settings, screen).run())


class Demo:
    """One run of the demo."""

    def __init__(self, folder: Path, settings: DemoSettings, screen: Screen) -> None:
        self._folder = folder
        self._url = f"sqlite:///{folder / 'demo.db'}"
        self._settings = settings
        self._screen = screen
        self._shown = 0
        self._quit = asyncio.Event()
        self._page = ""
        self._presses: set[asyncio.Task[None]] = set()

    async def run(self) -> DemoReport | None:
        """Tell the story, with pages beside it; stay after its end, or until told to quit."""
        with suppress(NotImplementedError):  # Not on Windows.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._quit.set)
        async with Client(self._url, create=True) as client:
            stage = DemoStage(client, self._url, self._folder, self._settings.seconds)
            try:
                return await self._play(stage)
            finally:
                for task in self._presses:
                    task.cancel()
                stage.stop_worker()

    async def _play(self, stage: DemoStage) -> DemoReport | None:
        handle = await stage.start_order()
        stage.start_worker()
        self._screen.line(f"perdure {version('perdure')}   worker started, process {stage.pid}")
        async with AsyncExitStack() as beside:
            self._page = await beside.enter_async_context(pages_beside(stage, self._settings.port))
            has_keys = beside.enter_context(keys_heard(lambda key: self._press(stage, key)))
            self._screen.line(f"UI  {self._page}")
            if has_keys:
                self._screen.line("o opens it, c crashes the worker, n is another order, q quits")
            if self._settings.opens:
                open_browser(self._page)
            story = asyncio.ensure_future(self._tell(stage, handle))
            quitting = asyncio.ensure_future(self._quit.wait())
            await asyncio.wait((story, quitting), return_when="FIRST_COMPLETED")
            if not story.done():
                story.cancel()
                return None
            quitting.cancel()
            report = story.result()
            if self._settings.stays:
                self._screen.line("Now you: crash it on the page. Ctrl-C ends the demo.")
                await self._quit.wait()
            return report

    async def _tell(self, stage: DemoStage, handle: Handle[list[str]]) -> DemoReport:
        """Kill the worker in the middle of the order, start another one, wait for the end."""
        order = handle.instance_id
        await self._until(stage, handle, _can_be_killed)
        before = await self._show_news(handle)
        killed = stage.pid
        await stage.crash_worker()
        self._screen.line(f"process {killed} killed with SIGKILL")
        self._screen.line(f"another worker started, process {stage.pid}")
        await self._until(stage, handle, lambda done, _: done == len(STEPS))
        await handle.result()
        await self._show_news(handle)
        runs = Counter(note.activity for note in stage.notes(order) if note.word == "begin")
        names = [step.name for step in STEPS]
        report = DemoReport(
            completed_before=before,
            repeated=sum(runs[name] > 1 for name in names[:before]),
            interrupted=sum(runs[name] > 1 for name in names[before:]),
        )
        self._screen.line(
            f"{order}  went on with {report.repeated} completed activities repeated, "
            f"{report.interrupted} begun again"
        )
        self._screen.line("Next: perdure new hello.py && perdure dev hello.py")
        return report

    def _press(self, stage: DemoStage, key: str) -> None:
        match key.lower():
            case "q":
                self._quit.set()
            case "o":
                open_browser(self._page)
            case "c":
                self._keep(self._crash(stage))
            case "n":
                self._keep(self._order(stage))

    def _keep(self, pressed: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(pressed)
        self._presses.add(task)
        task.add_done_callback(self._presses.discard)

    async def _crash(self, stage: DemoStage) -> None:
        killed = stage.pid
        await stage.crash_worker()
        self._screen.line(f"process {killed} killed with SIGKILL, process {stage.pid} started")

    async def _order(self, stage: DemoStage) -> None:
        handle = await stage.start_order()
        self._screen.line(f"{handle.instance_id}  started")
        await handle.result()
        self._screen.line(f"{handle.instance_id}  completed")

    # --------------------------------------------------------------- watching

    async def _until(
        self, stage: DemoStage, handle: Handle[list[str]], reached: Callable[[int, int], bool]
    ) -> None:
        """Show the order's progress until it is where it should be."""
        give_up_s = time.monotonic() + GIVE_UP_S
        while time.monotonic() < give_up_s:
            done = await self._show_news(handle)
            notes = stage.notes(handle.instance_id)
            if reached(done, len({note.activity for note in notes if note.word == "begin"})):
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
                self._screen.line(f"{handle.instance_id}  {text}")
        self._shown = len(history)
        self._screen.progress(done)
        return done


def _can_be_killed(done: int, begun: int) -> bool:
    """Return whether an activity is under way after some others; or all of them have ended, while
    this process stood still."""
    return done >= KILL_AFTER and (begun > done or done == len(STEPS))


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
    from perdure.cli.demo.screen import PlainScreen, RichScreen

    if sys.stdout.isatty():
        return RichScreen(len(STEPS))
    return PlainScreen()
