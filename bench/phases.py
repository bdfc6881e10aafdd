"""The phases of a unit of work, each with the functions that begin it.

A phase lasts from the call of such a function to its end, less what it calls of other phases. Where
code has moved, or is called otherwise than here, `find` says so.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from types import FunctionType
from typing import Literal, NamedTuple, TypeAlias

from bench.harness import StoreKind

ThreadKind: TypeAlias = Literal["loop", "writer", "others"]

PACKAGE = "perdure"
WRITERS = "perdure-write"
"""How the names of the threads begin that write."""
REST = "rest"
"""What is in no phase: the event loop itself, tasks, the benchmark."""


class Phase(NamedTuple):
    """A piece of the path, on one thread."""

    thread: ThreadKind
    name: str
    functions: tuple[str, ...]
    """Their qualified names, without the modules; in one of these the phase begins."""


PHASES = (
    Phase("loop", "asked and told", ("Client.start", "Handle.result", "InputSender.execute")),
    Phase("loop", "turn built", ("Executions.run",)),
    Phase("loop", "turn handed in", ("CommitQueue.submit", "CommitQueue.flush")),
    Phase("loop", "commit heard", ("QueuedCall.settle", "CommitQueue._heard_batch")),
    Phase("loop", "job begun", ("JobRunner.run",)),
    Phase("loop", "job run", ("_on_loop",)),
    Phase("loop", "job reported", ("JobRunner._leave",)),
    Phase("writer", "batch taken, woken", ("Batcher._run_batch",)),
    Phase("writer", "batch decided", ("run_batch",)),
    Phase("writer", "rows packed", ("flush",)),
)
"""In the order of the path; a job's report leads to the next turn."""

DATABASE: dict[StoreKind, Phase] = {
    "sqlite": Phase("writer", "database", ("SqliteConnection.run", "SqliteConnection.change_by")),
    "postgresql": Phase("writer", "database", ("PostgresConnection._wait",)),
}


class PhaseLostError(Exception):
    """A phase begins with a function that is not there, or there are several."""


def phases_of(store: StoreKind) -> tuple[Phase, ...]:
    """Return the phases of a kind of store."""
    return (*PHASES, DATABASE[store])


def find(phase: Phase) -> list[FunctionType]:
    """Return the functions that begin a phase, among the modules that are loaded.

    Raises:
        PhaseLostError: One of them is not there, or is not the only one of its name.
    """
    found = []
    for name in phase.functions:
        same = _functions().get(name, [])
        if len(same) != 1:
            places = ", ".join(f"{one.__module__}.{name}" for one in same) or "nowhere"
            raise PhaseLostError(
                f"phase {phase.name!r} begins with {name!r}, which is found {places}: "
                f"say in bench/phases.py what it is called now"
            )
        found += same
    return found


def thread_kind(thread: threading.Thread | None = None) -> ThreadKind:
    """Return what a thread is for; by default the one that asks."""
    thread = thread or threading.current_thread()
    if thread is threading.main_thread():
        return "loop"
    return "writer" if thread.name.startswith(WRITERS) else "others"


def _functions() -> Mapping[str, list[FunctionType]]:
    """Return the functions and methods of the package by their qualified names."""
    found: dict[str, dict[int, FunctionType]] = {}
    for module in modules():
        for value in list(vars(module).values()):
            inside = list(vars(value).values()) if isinstance(value, type) else [value]
            for one in inside:
                if isinstance(one, FunctionType) and one.__module__.startswith(PACKAGE):
                    found.setdefault(one.__qualname__, {})[id(one)] = one
    return {name: list(same.values()) for name, same in found.items()}


def modules() -> list[object]:
    """Return the modules of the package that are loaded."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name == PACKAGE or name.startswith(PACKAGE + ".")
    ]
