"""Mistakes that people make, each as a program with the words that answer it.

An entry is a function that makes the mistake; its name says which. It raises what the user sees, or
returns the text that they look at; what is logged and warned of is heard beside it. The page
docs/mistakes.md is made from this table.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure import Engine, Handle, WorkerOptions

WITHIN_S = 60.0
"""No mistake may keep its program waiting for longer."""

OPTIONS = WorkerOptions(
    stop_grace=timedelta(milliseconds=20), cancel_grace=timedelta(milliseconds=20)
)


@dataclass(frozen=True)
class Mistake:
    """One mistake and its answer."""

    title: str
    subject: str
    program: Callable[[Ground], Any]
    error: type[BaseException] | None
    """What is raised; None: it is said in a log line, a warning or a text."""
    says: tuple[str, ...]
    """Words that must be in the answer."""
    before: str
    """What it said when it was first tried."""


@dataclass(frozen=True)
class ShownElsewhere:
    """A mistake that takes a process, a database or a moment of its own to make."""

    title: str
    test: str
    """Which test shows the answer."""
    now: str
    before: str


MISTAKES: list[Mistake] = []


def mistake(
    error: type[BaseException] | None, *says: str, before: str = ""
) -> Callable[[Callable[[Ground], Any]], Callable[[Ground], Any]]:
    """Put a program into the table."""

    def add(program: Callable[[Ground], Any]) -> Callable[[Ground], Any]:
        MISTAKES.append(
            Mistake(
                title=program.__name__.replace("_", " "),
                subject=program.__module__.rpartition(".")[2],
                program=program,
                error=error,
                says=says,
                before=before,
            )
        )
        return program

    return add


@dataclass
class Ground:
    """Where a mistake is made: a folder, and engines in memory."""

    folder: Path
    heard: list[str] = field(default_factory=list)
    """What was logged, as people see it."""
    _engines: list[Engine] = field(default_factory=list)

    async def engine(self, *definitions: Any, options: WorkerOptions = OPTIONS) -> Engine:
        """Open an engine that has definitions."""
        engine = Engine("sqlite://:memory:", definitions, options=options)
        self._engines.append(await engine.open())
        return engine

    async def start(self, orchestration: Any, *others: Any, args: Any = ()) -> Handle[Any]:
        """Start an orchestration in an engine that has it and others."""
        engine = await self.engine(orchestration, *others)
        handle: Handle[Any] = await engine.start("i-1", orchestration, *args)
        return handle

    async def result(self, orchestration: Any, *others: Any, args: Any = ()) -> Any:
        """Start it and wait for the result, or for what keeps it from ending."""
        handle = await self.start(orchestration, *others, args=args)
        return await handle.result(if_held="raise")

    async def close(self) -> None:
        """Close what was opened."""
        while self._engines:
            await self._engines.pop().close()

    async def until_heard(self, words: str) -> None:
        """Wait until something is logged or warned of."""
        while not any(words in line for line in self.heard):  # noqa: ASYNC110 - from any thread
            await asyncio.sleep(0.002)


class _Hearing(logging.Handler):
    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self._heard.append(record.getMessage())


@contextmanager
def listening(heard: list[str]) -> Iterator[None]:
    """Keep what perdure logs and Python warns of."""
    handler, logger = _Hearing(heard), logging.getLogger("perdure")
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *_, **__: heard.append(str(message))
            yield
    finally:
        logger.removeHandler(handler)


async def answer_to(one: Mistake, folder: Path) -> tuple[BaseException | None, str]:
    """Make a mistake; return what was raised, and all that was said."""
    ground = Ground(folder)
    os.environ["PERDURE_STORE"] = f"sqlite:///{folder}/run.db"
    raised: BaseException | None = None
    said = ""
    with listening(ground.heard):
        try:
            async with asyncio.timeout(WITHIN_S) as limit:
                if inspect.iscoroutinefunction(one.program):
                    said = await one.program(ground)
                else:
                    said = await asyncio.to_thread(one.program, ground)
        except Exception as error:
            if limit.expired():
                raise AssertionError(f"waits for ever; so far: {ground.heard}") from None
            raised = error
        finally:
            await ground.close()
            os.environ.pop("PERDURE_STORE", None)
    text = "" if raised is None else "\n".join([str(raised), *getattr(raised, "__notes__", ())])
    return raised, "\n".join([text, said if isinstance(said, str) else "", *ground.heard])
