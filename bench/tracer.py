"""Python calls by phase, thread and room, seen by `sys.setprofile`.

Every call of a Python function counts, and every time that a coroutine or a generator goes on. What
is written in C does not count. A run that is traced takes several times as long and is not timed.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import perdure
from bench.phases import REST, Phase, ThreadKind, find, thread_kind

HOME = f"{Path(perdure.__file__).parent}/"
ELSEWHERE = "elsewhere"
"""The room of what is not ours: asyncio, drivers, the benchmark."""


@dataclass(slots=True)
class Calls:
    """What was called on one thread."""

    thread: ThreadKind
    by_phase: Counter[str] = field(default_factory=Counter)
    by_room: Counter[str] = field(default_factory=Counter)

    def clear(self) -> None:
        """Forget what was called."""
        self.by_phase.clear()
        self.by_room.clear()


class Walk(NamedTuple):
    """How far somebody has to go who follows a piece of work."""

    calls: int
    functions: int
    files: int
    changes: int
    """How often the next call is one of another file, on the same thread."""


class Tracer:
    """Sees the calls of all threads that are started after it."""

    def __init__(self) -> None:
        self._phases: dict[CodeType, str] = {}
        self._rooms: dict[CodeType, str] = {}
        self.threads: list[Calls] = []
        self._path: list[tuple[Calls, CodeType]] = []
        """Calls of our own functions by all threads, one after the other."""

    def name(self, phases: Sequence[Phase]) -> None:
        """Count calls by these phases."""
        for phase in phases:
            for function in find(phase):
                self._phases[function.__code__] = phase.name

    def start(self) -> None:
        """Begin with this thread."""
        threading.setprofile(self._join)
        self._join(sys._getframe(), "", None)

    def stop(self) -> None:
        """See no more of this thread, nor of new ones."""
        sys.setprofile(None)
        threading.setprofile(None)

    def clear(self) -> None:
        """Forget what was called."""
        for calls in self.threads:
            calls.clear()
        self._path.clear()

    def walk(self, begins: str | None = None) -> Walk:
        """Return how long the way was; from the first call in a phase on, if that is said."""
        path = list(self._path)
        if begins is not None:
            while self._phases.get(path[0][1]) != begins:
                del path[0]
        path = [(calls, code) for calls, code in path if calls.thread != "others"]
        codes = [code for _, code in path]
        return Walk(
            calls=len(codes),
            functions=len({(code.co_filename, code.co_qualname) for code in codes}),
            files=len({code.co_filename for code in codes}),
            changes=sum(
                _changes(code for calls, code in path if calls is thread) for thread in self.threads
            ),
        )

    def _join(self, frame: FrameType, event: str, argument: Any) -> None:
        """Let a thread have a function of its own; the first event of it is the last one here."""
        calls = Calls(thread_kind())
        self.threads.append(calls)
        phases, rooms, path = self._phases, self._rooms, self._path
        open_phases: list[tuple[FrameType | None, str]] = [(None, REST)]

        def see(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call":
                code = frame.f_code
                phase = phases.get(code)
                if phase is not None:
                    open_phases.append((frame, phase))
                room = rooms.get(code)
                if room is None:
                    room = rooms[code] = room_of(code)
                calls.by_phase[open_phases[-1][1]] += 1
                calls.by_room[room] += 1
                if room is not ELSEWHERE:
                    path.append((calls, code))
            elif event == "return" and open_phases[-1][0] is frame:
                open_phases.pop()

        sys.setprofile(see)


def room_of(code: CodeType) -> str:
    """Return the folder of the package that code is in."""
    if not code.co_filename.startswith(HOME):
        return ELSEWHERE
    return str(Path(code.co_filename[len(HOME) :]).parent)


def _changes(path: Iterable[CodeType]) -> int:
    files = [code.co_filename for code in path]
    return sum(one != other for one, other in pairwise(files))
