"""The event loop that orchestrations run on: asyncio, made deterministic.

It has a ready queue and no clock, no selector and no threads. `time()` is the latest recorded time;
`call_later` is a durable timer. What asyncio keeps in sets (tasks, futures) hashes by creation
number, so iteration has one order in every process. A *stretch* runs everything that is ready
until nothing is; the execution then looks at what was asked for.

A few functions of asyncio go past the loop (`gather` makes a future of its own, `wait` takes any
future, `all_tasks` a set that spans the process). They are recognised by the code that calls us.

What cannot work without the outside world is refused with what to use instead.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from threading import get_ident
from types import TracebackType
from typing import Any, NoReturn, Protocol, TypeVar
from weakref import WeakValueDictionary

from perdure.authoring.call import Call
from perdure.authoring.scope import Scope, running_in
from perdure.core.orchestrations.collector import collector_pause
from perdure.core.orchestrations.numbered import (
    GATHERING,
    NumberedFuture,
    NumberedGathering,
    NumberedTask,
    ReadyHandle,
)
from perdure.errors import UsageError

T = TypeVar("T")

_WAIT = asyncio.tasks._wait.__code__  # type: ignore[attr-defined]  # private to asyncio


class LoopOwner(Protocol):
    """The execution behind a loop."""

    numbers: int
    """The last creation number, counted up here for tasks and futures."""

    @property
    def now_ms(self) -> int:
        """The latest recorded time."""
        ...

    def next_number(self) -> int:
        """Return the next creation number."""
        ...

    def timer_set(self, timer: asyncio.TimerHandle, due_ms: int) -> None:
        """The code set a timer."""
        ...

    def timer_cancelled(self, timer: asyncio.TimerHandle) -> None:
        """The code cancelled a timer, or is done with one that fired."""
        ...

    def lost_exception(self, context: dict[str, Any]) -> None:
        """Something failed in a task that is awaited nowhere."""
        ...


class DurableLoop(asyncio.AbstractEventLoop):
    """One execution's event loop."""

    def __init__(self, owner: LoopOwner, scope: Scope) -> None:
        self.perdure_scope = scope
        self._owner = owner
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: list[NumberedTask[Any]] = []
        self._open_at_last_sweep = MIN_SWEPT // 2
        # Weak, so that a generator left in the middle is noticed when the code lets go of it. Made
        # when the first one comes: few orchestrations have any.
        self._generators: WeakValueDictionary[int, AsyncGenerator[Any, Any]] | None = None
        self._settling: list[asyncio.Future[None]] = []
        self._is_running = False
        self._is_closed = False
        self._outside: Any = None
        self._is_numbering = False
        """Whether the future that is being made gets its number from us anyway."""

    # ------------------------------------------------------------- stretches

    def __enter__(self) -> None:
        """Make this the running loop of the thread, for one turn.

        The worker's own loop runs outside; its current task is set aside meanwhile. Cyclic garbage
        collection waits, since finalizers must not run user code at moments that differ.
        """
        self.enter(asyncio._get_running_loop())

    def enter(self, outer_loop: asyncio.AbstractEventLoop | None) -> None:
        """Do as `__enter__`, for a caller that knows the loop outside: asking asyncio for it is a
        system call before Python 3.12."""
        thread = get_ident()
        outer_task = asyncio.current_task(outer_loop) if outer_loop is not None else None
        if outer_loop is not None and outer_task is not None:
            asyncio._leave_task(outer_loop, outer_task)
        self._outside = (
            outer_loop,
            outer_task,
            running_in.get(thread),
            sys.get_asyncgen_hooks(),
        )
        collector_pause.begin()
        running_in[thread] = self
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=self._generator_begun, finalizer=self._generator_dropped)
        self._is_running = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        outer_loop, outer_task, place, hooks = self._outside
        self._is_running = False
        if place is None:
            del running_in[get_ident()]
        else:
            running_in[get_ident()] = place
        sys.set_asyncgen_hooks(*hooks)
        asyncio._set_running_loop(outer_loop)
        collector_pause.end()
        if outer_loop is not None and outer_task is not None:
            asyncio._enter_task(outer_loop, outer_task)

    def run_until(self, root: asyncio.Task[Any]) -> None:
        """Run what is ready until nothing is, or until the root task is done."""
        ready, settling = self._ready, self._settling
        while not root.done():
            if ready:
                handle = ready.popleft()
                if handle._cancelled:  # asyncio's own, without a call
                    continue
                try:
                    handle._run()
                except SystemExit as error:
                    self._lose_exit(handle, error)
            elif settling:
                # The youngest first: a race within a race settles before the outer one goes on.
                waiter = settling.pop()
                if not waiter.done():
                    waiter.set_result(None)
            else:
                break

    def settled(self) -> asyncio.Future[None]:
        """Return a future that is done when nothing else can run on without a message."""
        future = self.new_future()
        self._settling.append(future)
        return future

    def _lose_exit(self, handle: asyncio.Handle, error: SystemExit) -> None:
        """Report a `sys.exit()` of a callback. A task that calls it has it as its exception."""
        callback = handle._callback  # type: ignore[attr-defined]  # asyncio's own
        if not isinstance(getattr(callback, "__self__", None), asyncio.Task):
            self._owner.lost_exception({"exception": error})

    def start(self, coro: Coroutine[Any, Any, T], context: contextvars.Context) -> asyncio.Task[T]:
        """Create the root task."""
        return self.create_task(coro, name="root", context=context)

    def fire(self, timer: asyncio.TimerHandle) -> None:
        """Let a timer's callback run."""
        self._ready.append(timer)

    # ------------------------------------------------------ what asyncio uses

    def call_soon(  # type: ignore[override]  # typeshed spells the arguments out
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Queue a callback."""
        handle = ReadyHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]  # typeshed spells the arguments out
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a durable timer."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # typeshed spells the arguments out
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a durable timer for a point in `time()`; one that is past runs at once."""
        if math.isnan(when):
            raise ValueError("a timer cannot be set for NaN seconds")
        timer = asyncio.TimerHandle(when, callback, list(args), self, context)
        # A little less before rounding up: seconds as a float carry an error of a fraction of a
        # microsecond, which must not add a millisecond.
        due_ms = math.ceil(when * 1000 - 0.01) if math.isfinite(when) else sys.maxsize
        if due_ms <= self._owner.now_ms:
            self._ready.append(timer)
        elif due_ms < _NEVER_MS:
            self._owner.timer_set(timer, due_ms)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._owner.timer_cancelled(handle)

    def time(self) -> float:
        """Return the latest recorded time in seconds since the epoch."""
        return self._owner.now_ms / 1000

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future with a number."""
        frame = sys._getframe(1)
        if frame.f_code is _WAIT:
            _refuse_unnumbered(frame.f_locals["fs"])
        return self.new_future()

    def new_future(self) -> asyncio.Future[Any]:
        """Return a future with a number, to a caller that is not `asyncio.wait`."""
        self._is_numbering = True
        future: NumberedFuture[Any] = NumberedFuture(loop=self)
        self._is_numbering = False
        owner = self._owner
        owner.numbers = future.number = owner.numbers + 1
        return future

    def create_task(  # type: ignore[override]  # later Pythons pass more keywords
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_: object,
    ) -> asyncio.Task[T]:
        """Return a task with a number, and a name that is the same at every replay."""
        if not isinstance(coro, Call):
            _refuse_unordered(coro)
        owner = self._owner
        number = owner.numbers = owner.numbers + 1
        if context is None:
            context = contextvars.copy_context()
        self._is_numbering = True
        try:
            task = NumberedTask(coro, loop=self, name=name or f"task-{number}", context=context)
        finally:
            self._is_numbering = False
        task.number = number
        task.own_context = context
        if self._is_closed:
            _silence(task)
        elif len(self._tasks) > max(MIN_SWEPT, 2 * self._open_at_last_sweep):
            self._tasks = [known for known in self._tasks if not known.done()]
            self._open_at_last_sweep = len(self._tasks)
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        """Debug mode keeps tracebacks of every task; it is always off here.

        Every future asks for it when it is made. `gather` makes its own without asking for one, so
        this is where that one gets its number.
        """
        if self._is_numbering:
            return False  # Looking at frames is slow, and these are most.
        frame = sys._getframe(1)
        if frame.f_code is GATHERING:
            gathering = frame.f_locals["self"]
            gathering.__class__ = NumberedGathering
            gathering.number = self._owner.next_number()
        return False

    def set_debug(self, enabled: bool) -> None:
        """Ignore: see `get_debug`."""

    def is_running(self) -> bool:
        """Return whether a turn runs."""
        return self._is_running

    def is_closed(self) -> bool:
        """Return whether the execution was torn down."""
        return self._is_closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report what failed in a task that is awaited nowhere."""
        if not self._is_closed:  # what runs after the end never happened
            self._owner.lost_exception(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Report what failed in a task that is awaited nowhere."""
        if not self._is_closed:  # what runs after the end never happened
            self._owner.lost_exception(context)

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: generators end with the execution."""

    # -------------------------------------------------------- async generators

    def _generator_begun(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self._generators is None:
            self._generators = WeakValueDictionary()
        self._generators[self._owner.next_number()] = generator

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        # A generator that is left in the middle is finalized here. By reference count that happens
        # at the same place at every replay. Anything else (a cycle found by the collector between
        # turns) must not run user code: nothing is done, and Python frees it as it is.
        if self._is_running and not self._is_closed:
            self.create_task(generator.aclose())

    # -------------------------------------------------------------------- the end

    def report_lost(self) -> None:
        """Report the exceptions of tasks that were not awaited, now that the root has ended."""
        for task in self._tasks:
            if task.done() and task._log_traceback:
                self._owner.lost_exception({"exception": task.exception()})

    def dismantle(self) -> tuple[list[NumberedTask[Any]], list[AsyncGenerator[Any, Any]]]:
        """Close the loop; return its open tasks and its generators in order of creation.

        Tasks that are made from now on are added to the list and never run.
        """
        self._is_closed = True
        self._tasks = [task for task in self._tasks if not task.done()]
        for task in self._tasks:
            _silence(task)
        generators = [] if self._generators is None else list(self._generators.values())
        return self._tasks, generators

    def forget(self) -> None:
        """Let go of everything, when all tasks have ended."""
        self._ready.clear()
        self._settling.clear()
        self._tasks.clear()

    def release(self) -> None:
        """Let go of the execution. Nothing may run on this loop any more."""
        del self._owner
        del self.perdure_scope


def _silence(task: asyncio.Task[Any]) -> None:
    """Let a task be freed unfinished without a word."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own switch


MIN_SWEPT = 64
"""Below this many tasks, done ones are not looked for."""

_NEVER_MS = 253_402_300_800_000
"""The year 10000: a timer beyond it never fires and is not stored."""

_AS_COMPLETED = {"as_completed", "<setcomp>", "__init__"}
"""Names of the frames in which asyncio.as_completed makes tasks, over the Python versions."""


def _refuse_unordered(coro: object) -> None:
    """Refuse plain coroutines handed to as_completed, which puts them into a set by address."""
    frame = sys._getframe(2)  # the caller of create_task
    if frame.f_code.co_name == "ensure_future" or frame.f_code.co_name == "_ensure_future":
        caller = frame.f_back
        if caller is not None and caller.f_code.co_name == "ensure_future":
            caller = caller.f_back
        if (
            caller is not None
            and caller.f_code.co_name in _AS_COMPLETED
            and caller.f_globals.get("__name__") == "asyncio.tasks"
        ):
            raise UsageError(
                f"as_completed got the plain coroutine {getattr(coro, '__qualname__', coro)}, and "
                "takes such in no fixed order: make tasks first, "
                "as_completed([asyncio.create_task(c) for c in ...])"
            )


def _refuse_unnumbered(futures: set[asyncio.Future[Any]]) -> None:
    """Refuse futures made past the loop that are handed to `wait`, which returns sets of them."""
    for future in futures:
        if len(futures) > 1 and not isinstance(
            future, NumberedTask | NumberedFuture | NumberedGathering
        ):
            raise UsageError(
                f"asyncio.wait got {future!r}, which has no fixed place in a set: make futures "
                "with asyncio.get_running_loop().create_future() and tasks with "
                "asyncio.create_task(...)"
            )


_REFUSED = {
    "run_in_executor": "call an activity, or await inline(...)",
    "call_soon_threadsafe": "threads cannot reach an orchestration: send it a signal",
    "set_default_executor": "call an activity",
    "run_forever": "the loop is run by perdure",
    "run_until_complete": "await it",
    "stop": "return from the orchestration",
    "close": "return from the orchestration",
    "add_signal_handler": "send the instance a signal with handle.send(...)",
    "remove_signal_handler": "send the instance a signal with handle.send(...)",
    "set_task_factory": "tasks are made by perdure",
    "get_task_factory": "tasks are made by perdure",
    "get_exception_handler": "catch exceptions where they are awaited",
    "shutdown_default_executor": "there is none",
    "set_exception_handler": "catch exceptions where they are awaited",
    **dict.fromkeys(
        (
            "create_connection", "create_server", "create_unix_connection", "create_unix_server",
            "create_datagram_endpoint", "connect_accepted_socket", "connect_read_pipe",
            "connect_write_pipe", "subprocess_exec", "subprocess_shell", "start_tls", "sendfile",
            "getaddrinfo", "getnameinfo", "sock_accept", "sock_connect", "sock_recv",
            "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall",
            "sock_sendfile", "sock_sendto", "add_reader", "remove_reader", "add_writer",
            "remove_writer",
        ),
        "do I/O in an activity, or await inline(...)",
    ),
}  # fmt: skip


def _refusal(name: str, advice: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise UsageError(f"loop.{name}() does not work inside an orchestration: {advice}")

    return refuse


for _name, _advice in _REFUSED.items():
    setattr(DurableLoop, _name, _refusal(_name, _advice))
