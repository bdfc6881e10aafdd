"""Processor time by phase, of each thread by itself.

The functions that begin a phase are replaced by ones that read the thread's clock before and after.
Reading it costs about as much as a small function, so what it costs is measured first, and taken
off.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Generator, Sequence
from types import FunctionType
from typing import Any, Generic, NamedTuple, TypeVar

from bench.phases import Phase, ThreadKind, find, modules, thread_kind

T = TypeVar("T")

OUTSIDE = ""
"""The phase of a thread that is in none."""
PROBES = 20_000


class Lap:
    """The phases of one thread so far."""

    def __init__(self, thread: ThreadKind) -> None:
        self.thread = thread
        self.spent_s: defaultdict[str, float] = defaultdict(float)
        self.entries: Counter[tuple[str, str]] = Counter()
        """How often a phase was entered, by where from."""
        self._phase = OUTSIDE
        self._since_s = time.thread_time()

    def enter(self, phase: str) -> str:
        """Begin a phase; return the one that it interrupts."""
        outer = self._phase
        self.entries[outer, phase] += 1
        self.change(phase)
        return outer

    def change(self, phase: str) -> None:
        """Count for another phase from now on."""
        now_s = time.thread_time()
        self.spent_s[self._phase] += now_s - self._since_s
        self._phase, self._since_s = phase, now_s


class Reading(NamedTuple):
    """What a stopwatch shows."""

    spent_s: defaultdict[tuple[ThreadKind, str], float]
    """In each phase, without what it costs to read clocks."""
    reading_s: defaultdict[ThreadKind, float]
    """What that has cost."""


class Stopwatch:
    """Measures phases on all threads."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._laps: list[Lap] = []

    def lap(self) -> Lap:
        """Return that of this thread."""
        try:
            found: Lap = self._own.lap
        except AttributeError:
            found = self._own.lap = Lap(thread_kind())
            self._laps.append(found)
        return found

    def read(self) -> Reading:
        """Return what was measured so far."""
        inner_s, outer_s = reading_costs()
        reading = Reading(defaultdict(float), defaultdict(float))
        for lap in self._laps:
            for phase, seconds in list(lap.spent_s.items()):
                reading.spent_s[lap.thread, phase] += seconds
            for (outer, phase), times in list(lap.entries.items()):
                reading.spent_s[lap.thread, phase] -= times * inner_s
                reading.spent_s[lap.thread, outer] -= times * outer_s
                reading.reading_s[lap.thread] += times * (inner_s + outer_s)
        return reading

    def watch(self, phases: Sequence[Phase]) -> None:
        """Replace the functions that begin phases, wherever they are named."""
        for phase in phases:
            for function in find(phase):
                _replace(function, self.timed(function, phase.name))

    def timed(self, function: Callable[..., Any], phase: str) -> Callable[..., Any]:
        """Return a function that does the same and counts for a phase."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def step_by_step(*args: Any, **kwargs: Any) -> Any:
                return await _Steps(function(*args, **kwargs), self, phase)

            return step_by_step

        @functools.wraps(function)
        def at_once(*args: Any, **kwargs: Any) -> Any:
            lap = self.lap()
            outer = lap.enter(phase)
            try:
                return function(*args, **kwargs)
            finally:
                lap.change(outer)

        return at_once


class _Steps(Generic[T]):
    """A coroutine of which every step counts for a phase, and no wait between them."""

    def __init__(self, inner: Coroutine[Any, Any, T], watch: Stopwatch, phase: str) -> None:
        self._inner = inner
        self._watch = watch
        self._phase = phase

    def __await__(self) -> Generator[Any, Any, T]:
        lap = self._watch.lap()
        step: Callable[[Any], Any] = self._inner.send
        value: Any = None
        while True:
            outer = lap.enter(self._phase)
            try:
                waits_for = step(value)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                lap.change(outer)
            try:
                step, value = self._inner.send, (yield waits_for)
            except BaseException as error:
                step, value = self._inner.throw, error


def _replace(function: FunctionType, by: Callable[..., Any]) -> None:
    """Put another function in the place of one, in its class and wherever it was imported."""
    for module in modules():
        for owner in (module, *[one for one in vars(module).values() if isinstance(one, type)]):
            for name, value in list(vars(owner).items()):
                if value is function:
                    setattr(owner, name, by)


@functools.cache
def reading_costs() -> tuple[float, float]:
    """Return what one entry of a phase seems to cost it, and the one around it, in seconds."""
    watch = Stopwatch()
    inner = watch.timed(_nothing, "inner")

    def probe(function: Callable[[], None]) -> None:
        for _ in range(PROBES):
            function()

    watch.timed(probe, "plain")(_nothing)
    watch.timed(probe, "outer")(inner)
    spent_s = watch.lap().spent_s
    plain_s = spent_s["plain"] / PROBES
    return spent_s["inner"] / PROBES, spent_s["outer"] / PROBES - plain_s


def _nothing() -> None: ...
