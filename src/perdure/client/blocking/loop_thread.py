"""A private event loop on a thread of its own, for callers that wait instead of awaiting.

Coroutines are handed over from any thread and run on the one loop; the caller's thread sleeps until
its coroutine has ended. Every coroutine that was taken is answered: closing refuses new ones first,
and cancels those still waiting before the loop goes away.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from perdure.errors import StoreError, UsageError
from perdure.store.forking import ProcessMark
from perdure.store.within.transactions import alone_in

T = TypeVar("T")

HEAR_WITHIN_S = 0.2
"""How long a wait goes on before Ctrl-C is looked for: one that is pressed at the very moment when
the thread falls asleep does not wake it."""


TELL_AFTER_S = 5.0
"""How long a wait may hold up an event loop before that is told."""

logger = logging.getLogger(__name__)


class LoopThread:
    """Runs coroutines for other threads, between `open` and `close`.

    Args:
        owner: What users call the thing that is open or closed, for messages.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        # Guards the three below, so that nothing is handed to a loop that has been told to end:
        # it would never be run, and its caller would wait for ever.
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_open = False
        self._is_entered = False
        self._was_closed = False
        self._process = ProcessMark(owner)

    def enter(self) -> None:
        """Begin the block whose end closes it.

        Raises:
            UsageError: There is one already, which would be left with nothing.
        """
        with self._lock:
            is_in_block, self._is_entered = self._is_open and self._is_entered, True
        if is_in_block:
            raise UsageError(
                f"this {self._owner} is in a block already, whose end closes it: use it there, or "
                f"make another {self._owner}(...)"
            )

    def open(self, greeting: Coroutine[Any, Any, object]) -> None:
        """Start the thread and run a first coroutine on it; if that fails, end the thread.

        When it is open already, nothing happens.

        Raises:
            UsageError: It was closed, or opened before a fork.
        """
        self._refuse_elsewhere(greeting)
        if self._was_closed:
            greeting.close()
            raise UsageError(
                f"this {self._owner} was closed and is not opened again: make a new "
                f"{self._owner}(...)"
            )
        with self._lock:
            was_open, self._is_open = self._is_open, True
            if not was_open:
                self._start()
        if was_open:
            greeting.close()
            return
        try:
            self.run(greeting)
        except BaseException:
            if self._refuse_new():
                self._end()
            raise

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; return what it returns, raise what it raises.

        An exception in the waiting thread, as Ctrl-C is one, cancels the coroutine and passes at
        once.

        Raises:
            UsageError: It is not open, was closed meanwhile, or this is the loop's own thread.
        """
        return self._wait(self.hand_over(coroutine))

    def hand_over(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Have a coroutine run on the loop, and do not wait for it.

        Raises:
            UsageError: It is not open, or this is the loop's own thread, or a forked child.
        """
        self._refuse_elsewhere(coroutine)
        with self._lock:
            problem = self._problem()
            future = None if problem else self._submit(coroutine)
        if future is None:
            coroutine.close()
            raise UsageError(f"this {self._owner} {problem}")
        return future

    def close(self, farewell: Coroutine[Any, Any, object]) -> None:
        """Refuse new coroutines, run a last one, cancel those that still wait, end the thread.

        When it is not open, or was opened before a fork, nothing happens.
        """
        if self._process.is_elsewhere or not self._refuse_new():
            farewell.close()
            return
        self._was_closed = True
        try:
            self._wait(self._submit(farewell))
        finally:
            self._end()

    # ------------------------------------------------------------------ inside

    def _start(self) -> None:
        self._process.set(self)
        self._loop = asyncio.new_event_loop()
        # A daemon: a client that was not closed must not keep the program alive.
        self._thread = threading.Thread(
            target=_serve, args=(self._loop,), name="perdure-client", daemon=True
        )
        self._thread.start()

    def _refuse_elsewhere(self, coroutine: Coroutine[Any, Any, object]) -> None:
        # Before any lock: another thread may have held it when this process was forked.
        if self._process.is_elsewhere:
            coroutine.close()
            self._process.refuse_elsewhere()

    def _problem(self) -> str | None:
        if self._was_closed:
            return (
                f"is not open any more: make a new {self._owner}(...), and use it inside its block"
            )
        if not self._is_open:
            return "is not open: use `with`, or call open() first"
        if self._thread is threading.current_thread():
            return "is used on its own thread, where the call would wait for itself"
        return None

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _wait(self, future: Future[T]) -> T:
        silent_s = 0.0
        try:
            while not future.done():
                wait([future], timeout=HEAR_WITHIN_S)
                silent_s += HEAR_WITHIN_S
                if silent_s > TELL_AFTER_S and asyncio._get_running_loop() is not None:
                    silent_s = -math.inf
                    logger.warning(
                        "a call of this %s has waited for %g s on the thread of an event loop, "
                        "which stands still meanwhile: a worker on that loop can do nothing. In "
                        "async code use `async with Client(url)`, or the engine itself",
                        self._owner,
                        TELL_AFTER_S,
                    )
            return future.result()
        except CancelledError:
            raise UsageError(f"this {self._owner} was closed while the call waited") from None
        finally:
            # Only a wait that was broken off finds it undone.
            future.cancel()

    def _refuse_new(self) -> bool:
        with self._lock:
            was_open, self._is_open = self._is_open, False
        return was_open

    def _end(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        # Behind everything that was submitted, so all of it has become a task when the loop stops.
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class LentLoop(LoopThread):
    """Runs coroutines for other threads on a loop that is there already, as a worker's is."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self._waiting: set[Future[Any]] = set()

    def lend(self) -> None:
        """Use the loop that runs here, until it is taken back."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.current_thread()
            self._is_open = True
            self._process.set(self)

    def take_back(self) -> None:
        """Refuse new coroutines, and cancel those that are waited for."""
        self._refuse_new()
        for future in list(self._waiting):
            future.cancel()

    def is_here(self) -> bool:
        """Return whether this is the loop's own thread."""
        return self._thread is threading.current_thread()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result."""
        if activity := alone_in.get():
            coroutine.close()
            raise UsageError(
                f"{activity} is a transaction that everybody waits for, and so would this call: "
                "use client.within(connection)"
            )
        return super().run(coroutine)

    def enter(self) -> None:
        """Do nothing: leaving the block closes nothing."""

    def open(self, greeting: Coroutine[Any, Any, object]) -> None:
        """Do nothing: it is open as long as the loop is lent."""
        greeting.close()

    def close(self, farewell: Coroutine[Any, Any, object]) -> None:
        """Do nothing: the engine that runs the loop takes it back."""
        farewell.close()

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        future = super()._submit(coroutine)
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future


class CallersThread(LoopThread):
    """Runs coroutines on the loop of another, and what they want done on the caller's thread there,
    while the caller waits.

    Whose thread that is changes from call to call; one calls at a time.

    Args:
        other: Has the loop.
    """

    def __init__(self, other: LoopThread) -> None:
        super().__init__(other._owner)
        self._other = other
        self._one_at_a_time = threading.Lock()
        self._errands: SimpleQueue[_Errand | None] | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and what it wants done here on this thread."""
        self._other._refuse_elsewhere(coroutine)
        with self._one_at_a_time:
            errands = self._errands = SimpleQueue[_Errand | None]()
            try:
                future = self._other.hand_over(coroutine)
                future.add_done_callback(lambda _: errands.put(None))
                try:
                    while not future.done():
                        with suppress(Empty):
                            errand = errands.get(timeout=HEAR_WITHIN_S)
                            if errand is not None:
                                errand.do()
                    return self._wait(future)
                finally:
                    future.cancel()
            finally:
                self._errands = None
                # Only a wait that was broken off leaves some.
                while not errands.empty():
                    left = errands.get()
                    if left is not None:
                        left.give_up()

    async def do(self, work: Callable[[], T]) -> T:
        """Run a function on the thread that waits for the coroutine that calls this."""
        errands = self._errands
        if errands is None:
            raise StoreError("nobody waits for the call any more")
        errand = _Errand(work)
        errands.put(errand)
        if self._errands is not errands:
            errand.give_up()
        result: T = await errand.answer
        return result

    def open(self, greeting: Coroutine[Any, Any, object]) -> None:
        """Do nothing: it is open as long as the other one is."""
        greeting.close()

    def close(self, farewell: Coroutine[Any, Any, object]) -> None:
        """Do nothing: the client that opened the other one closes it."""
        farewell.close()


class _Errand:
    """A function to be run on another thread, for a coroutine of this loop."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self._loop.create_future()

    def do(self) -> None:
        """Run it. What the thread itself is interrupted by passes, too."""
        try:
            result = self._work()
        except Exception as error:
            self._tell(partial(self._fail, error))
        except BaseException:
            self.give_up()
            raise
        else:
            self._tell(partial(self._succeed, result))

    def give_up(self) -> None:
        """It will not be run."""
        self._tell(partial(self._fail, StoreError("nobody waits for the call any more")))

    def _succeed(self, result: object) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def _fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def _tell(self, tell: Callable[[], None]) -> None:
        # The loop is closed when the client was, while the call waited.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(tell)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    # Leaving the block cancels what is left, waits for it, and closes the loop.
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
