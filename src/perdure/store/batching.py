"""Group commit: whatever waits when the last transaction ends goes into the next one.

One thread per store writes. There are no timers: at low load a transaction holds one operation, at
high load thousands share one flush of the disk. A call may bring several operations; each is
decided by itself, and the call returns when all of them are through. Results go back to their event
loops with one wake-up per batch and loop.

Trouble comes in two sorts. A *value* the database refuses rolls the batch back; it is halved until
the culprit is alone and raises, and the others succeed. A *resource* that is missing (locked, full,
read-only) rolls back and is tried again, with a growing pause, for as long as it takes. A call with
finite patience that has waited long enough is told so, if nothing of it was written. A call whose
transaction has begun is never given up: its answer will come.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any

from perdure.backoff import GrowingPause
from perdure.errors import StoreCorruptError, StoreError, StoreUnavailableError
from perdure.store.counters import StoreCounters
from perdure.store.loop_calls import LoopCalls
from perdure.store.off_loop import wait_off_loop
from perdure.store.trouble import unanswered

MAX_BATCH = 5_000
"""Operations in one transaction."""
FIRST_PAUSE_S = 0.005
MAX_PAUSE_S = 1.0
TROUBLE_LASTS_S = 60.0
"""How long what kept a try from being written is told, if nothing was tried since."""
CLOSE_WITHIN_S = 10.0
"""How long closing waits for what was handed in, when the database is in trouble."""

logger = logging.getLogger(__name__)

Execute = Callable[[Sequence[Any]], list[Any]]
"""Runs operations as one transaction. Raises `StoreUnavailableError` for a missing resource and
anything else for a bad value; in both cases nothing was written."""


class _Pending:
    """Stands for a result that is not there yet."""


_PENDING = _Pending()

LATER = _Pending()
"""What an operation gives that could not be run now, because another transaction has locked what it
needs. It is run again soon; the others of its batch are through."""
FIRST_LOCK_PAUSE_S = 0.002
MAX_LOCK_PAUSE_S = 0.05


class QueuedCall:
    """Operations that were handed in together, and the future that waits for their results."""

    __slots__ = (
        "_claims",
        "_future",
        "_is_kept",
        "_open",
        "loop",
        "operations",
        "patience_s",
        "results",
    )

    def __init__(self, operations: Sequence[Any], future: asyncio.Future[list[Any]]) -> None:
        self.operations = operations
        self.results: list[Any] = [_PENDING] * len(operations)
        """Of each operation what it came to, or the error that it alone has."""
        self.loop = future.get_loop()
        self.patience_s: float | None = None
        """Set when its caller's patience ran out while it was being tried."""
        self._open = len(operations)
        self._is_kept = False
        self._future = future
        # The thread that pops it decides the call's fate: the writer by beginning, the loop by
        # giving up. A pop is atomic, so no lock is needed.
        self._claims = [True]

    def take(self) -> bool:
        """Take the right to begin it or to give it up; only one taker gets it."""
        try:
            self._claims.pop()
        except IndexError:
            return False
        return True

    def give_back(self) -> None:
        """Let it be taken again, if nothing of it was written."""
        if not self.is_begun:
            self._claims.append(True)

    def keep(self) -> None:
        """Let no caller give it up: it may have been written, and is tried until that is known."""
        self._is_kept = True

    def answer(self, index: int, result: Any) -> None:
        """Keep what became of one operation."""
        self.results[index] = result
        self._open -= 1

    @property
    def is_begun(self) -> bool:
        """Return whether some of its operations have an answer, or may have one."""
        return self._is_kept or self._open < len(self.operations)

    @property
    def is_through(self) -> bool:
        """Return whether all its operations have an answer."""
        return self._open == 0

    def give_up(self, error: Exception) -> None:
        """Answer with an error what has no answer yet. Runs on the loop, after `take`."""
        self.results = [error if one is _PENDING else one for one in self.results]
        self.settle()

    def settle(self) -> None:
        """Hand the answers to the caller. Runs on the loop."""
        if not self._future.done():  # It may have been cancelled meanwhile.
            self._future.set_result(self.results)


class Batcher:
    """The writing thread of a store, and the queue in front of it.

    Args:
        execute: Runs operations as one transaction.
        exclusive: Held around each batch, also while a batch is halved.
        finish: Runs on the thread at its end, to let go of the database.
    """

    def __init__(
        self,
        execute: Execute,
        *,
        exclusive: AbstractContextManager[None],
        finish: Callable[[], None],
        counters: StoreCounters,
        name: str,
    ) -> None:
        self._execute = execute
        self._exclusive = exclusive
        self._finish = finish
        self._queue: SimpleQueue[QueuedCall | None] = SimpleQueue()
        self._backlog: list[QueuedCall] = []
        self._ending = False
        self._closing = threading.Event()
        self._give_up_at = 0.0
        self._trouble: StoreUnavailableError | None = None
        self._last_trouble: tuple[StoreUnavailableError, float] | None = None
        """That of the last try, and when; also when all its callers have given up since."""
        self._defect: BaseException | None = None
        """What has ended the thread, if that was no one's wish."""
        self._pause = GrowingPause(FIRST_PAUSE_S, MAX_PAUSE_S)
        self._lock_pause = GrowingPause(FIRST_LOCK_PAUSE_S, MAX_LOCK_PAUSE_S)
        self._is_put_off = False
        """Whether something waits because others have locked it."""
        self._counters = counters
        self._loops = LoopCalls()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # -------------------------------------------------------------- the loop

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    @property
    def trouble(self) -> StoreUnavailableError | None:
        """What kept the last try from being written; None: nothing, or it was too long ago."""
        if self._defect is not None:
            return StoreUnavailableError(f"its thread has ended ({type(self._defect).__name__})")
        last = self._last_trouble
        return None if last is None or monotonic() - last[1] > TROUBLE_LASTS_S else last[0]

    def hand_in(self, operations: Sequence[Any]) -> asyncio.Future[list[Any]]:
        """Have operations written; the future gets an answer for each, in order: what it came to,
        or the error that it has. What one cannot have is no other's trouble.

        They are in the queue when this returns, whether or not the caller awaits the future yet.
        """
        self._refuse_if_closed()
        future: asyncio.Future[list[Any]] = self._loops.attend().create_future()
        if operations:
            self._put(QueuedCall(operations, future))
        else:
            future.set_result([])
        return future

    def _put(self, call: QueuedCall) -> None:
        self._queue.put(call)
        if self._defect is not None:
            # The thread has ended after we asked whether it has.
            self._fail_all(self._defect)

    async def submit(self, operations: Sequence[Any], patience_s: float | None = None) -> list[Any]:
        """Have operations written and return their results in order.

        Raises:
            RowError: The database refused the value of an operation; the others were written.
            StoreUnavailableError: It took longer than `patience_s`; nothing was written.
        """
        if patience_s is None or not operations:
            return _unless_failed(await self.hand_in(operations))
        self._refuse_if_closed()
        loop = self._loops.attend()
        future: asyncio.Future[list[Any]] = loop.create_future()
        call = QueuedCall(operations, future)
        self._put(call)
        timer = loop.call_later(patience_s, self._lose_patience, call, patience_s)
        try:
            return _unless_failed(await future)
        finally:
            timer.cancel()

    def _refuse_if_closed(self) -> None:
        if self._closing.is_set():
            defect = type(self._defect).__name__
            why = "" if self._defect is None else f": its thread has ended ({defect})"
            raise StoreError(f"the store is closed{why}")

    def _lose_patience(self, call: QueuedCall, patience_s: float) -> None:
        if call.take():
            call.give_up(self._too_long(patience_s))
        else:
            # It is being tried right now. If that fails too, the thread gives it up.
            call.patience_s = patience_s

    def _too_long(self, patience_s: float) -> StoreUnavailableError:
        trouble: object = self._trouble
        if trouble is None and self._is_put_off:
            trouble = "another transaction has locked it"
        elif trouble is None:
            trouble = (
                "another process keeps writing, the disk is slow, or a projection does not return "
                "(the log says which)"
            )
        text = f"nothing was written within {patience_s:g} s: {trouble}"
        return unanswered(text, self._trouble)

    async def close(self) -> None:
        """Finish what was handed in, then end the thread; in trouble, within a bounded time."""
        if self._closing.is_set():
            return
        self._give_up_at = monotonic() + CLOSE_WITHIN_S
        self._closing.set()
        self._queue.put(None)
        await wait_off_loop(partial(self._thread.join, CLOSE_WITHIN_S + MAX_PAUSE_S))
        if self._thread.is_alive():
            # It waits for another process that holds the lock and does not move, or for a
            # projection. It finds nothing left to do when it wakes up, and ends then.
            logger.error("the store was closed while something kept it from writing")
            self._give_up([*self._backlog, *self._drain()])
        else:
            self._loops.close()

    def _give_up(self, calls: Iterable[QueuedCall]) -> None:
        trouble = self._trouble or "another process holds the write lock"
        for call in calls:
            if call.is_begun:
                told = "before it was known whether this was written"
            elif call.take():
                told = "before this was written"
            else:
                continue
            error = StoreUnavailableError(f"the store was closed {told}: {trouble}")
            self._wake(call.loop, [call], error)

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            while not (self._ending and not self._backlog):
                if not self._backlog:
                    self._await_call()
                if self._backlog:
                    self._run_batch()
        except BaseException as error:
            # No caller may wait for a thread that is gone.
            self._defect = error
            self._closing.set()
            logger.critical("the thread that writes has ended: %s", type(error).__name__)
            self._fail_all(error)
        finally:
            self._finish()

    def _fail_all(self, error: BaseException) -> None:
        why = type(error).__name__
        told = StoreError(f"the thread that writes has ended ({why}); open the store again")
        for call in [*self._backlog, *self._drain()]:
            call.take()
            self._wake(call.loop, [call], told)
        self._backlog = []

    def _await_call(self) -> None:
        call = self._queue.get()
        if call is None:
            self._ending = True
        else:
            self._backlog.append(call)

    def _drain(self) -> list[QueuedCall]:
        """Return what else waits now, without waiting for more."""
        calls: list[QueuedCall] = []
        try:
            while len(calls) < MAX_BATCH:
                call = self._queue.get_nowait()
                if call is None:
                    self._ending = True
                else:
                    calls.append(call)
        except Empty:
            return calls
        return calls

    def _run_batch(self) -> None:
        """Write the backlog and whatever came while the lock was waited for."""
        trouble: StoreUnavailableError | None = None
        try:
            with self._exclusive:
                self._backlog += self._drain()
                # A call that was given up meanwhile is left out; one that is half written stays.
                self._backlog = [call for call in self._backlog if call.is_begun or call.take()]
                try:
                    self._execute_all(self._backlog)
                except StoreUnavailableError as error:
                    self._free_backlog(error.unsure)
                    raise
        except StoreUnavailableError as error:
            trouble = error
        except Exception as error:
            # Of the lock, or a defect of ours: what has no answer is tried again.
            trouble = StoreUnavailableError(f"{type(error).__name__}: {error}")
            self._free_backlog(())
        through = [call for call in self._backlog if call.is_through]
        if any(not isinstance(one, StoreCorruptError) for call in through for one in call.results):
            self._last_trouble = None
        self._backlog = [call for call in self._backlog if not call.is_through]
        self._answer(through)
        if trouble is not None:
            self._wait_out(trouble)
        else:
            self._trouble = None
            self._is_put_off = bool(self._backlog)
            if self._backlog:
                self._wait_for_locks()
            else:
                self._lock_pause.restart()

    def _free_backlog(self, unsure: Sequence[object]) -> None:
        """Let callers give up what was not written, but not what may have been."""
        unsure_ids = {id(operation) for operation in unsure}
        for call in self._backlog:
            if unsure_ids and any(id(one) in unsure_ids for one in call.operations):
                call.keep()
            else:
                call.give_back()

    def _execute_all(self, calls: Sequence[QueuedCall]) -> None:
        units = [
            (call, index)
            for call in calls
            for index, result in enumerate(call.results)
            if result is _PENDING
        ]
        for begin in range(0, len(units), MAX_BATCH):
            self._execute_halving(units[begin : begin + MAX_BATCH])

    def _execute_halving(self, units: Sequence[tuple[QueuedCall, int]]) -> None:
        try:
            results = self._execute([call.operations[index] for call, index in units])
        except StoreUnavailableError:
            raise
        except Exception as error:
            if len(units) == 1 or isinstance(error, StoreCorruptError):
                for call, index in units:
                    call.answer(index, error)
                return
            self._counters.halvings += 1
            middle = len(units) // 2
            self._execute_halving(units[:middle])
            self._execute_halving(units[middle:])
        else:
            for (call, index), result in zip(units, results, strict=True):
                if result is not LATER:
                    call.answer(index, result)

    def _wait_for_locks(self) -> None:
        """Others have locked what is left: try again soon, or as soon as there is more to do."""
        for call in self._backlog:
            call.give_back()
        self._tell_impatient()
        with suppress(Empty):
            more = self._queue.get(timeout=self._lock_pause.seconds)
            if more is None:
                self._ending = True
            else:
                self._backlog.append(more)
        self._lock_pause.grow()
        if self._closing.is_set() and monotonic() >= self._give_up_at:
            self._give_up(self._backlog)
            self._backlog = []

    def _wait_out(self, trouble: StoreUnavailableError) -> None:
        """Let the backlog be given up by its callers for a while; it is tried again after that."""
        if self._trouble is None:
            self._pause.restart()
            logger.warning("the store cannot be written now", extra={"trouble": str(trouble)})
        self._trouble = trouble
        self._last_trouble = (trouble, monotonic())
        self._counters.retries += 1
        self._tell_impatient()
        if not self._closing.wait(self._pause.seconds):
            pass
        elif monotonic() < self._give_up_at:
            sleep(self._pause.seconds)
        else:
            self._give_up(self._backlog)
            self._backlog = []
        self._pause.grow()

    def _tell_impatient(self) -> None:
        """Answer those whose patience ran out during the try."""
        for call in self._backlog:
            if call.patience_s is not None and call.take():
                self._wake(call.loop, [call], self._too_long(call.patience_s))

    def _answer(self, calls: Sequence[QueuedCall]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[QueuedCall]] = defaultdict(list)
        for call in calls:
            by_loop[call.loop].append(call)
        for loop, some in by_loop.items():
            self._wake(loop, some)

    def _wake(
        self,
        loop: asyncio.AbstractEventLoop,
        calls: Sequence[QueuedCall],
        error: Exception | None = None,
    ) -> None:
        def settle() -> None:
            for call in calls:
                if error is None:
                    call.settle()
                else:
                    call.give_up(error)

        self._loops.call(loop, settle)


def _unless_failed(answers: list[Any]) -> list[Any]:
    """Return answers, or raise the first error among them."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers
