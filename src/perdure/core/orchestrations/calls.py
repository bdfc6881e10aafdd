"""What one execution has asked for: new asks, calls without an answer, signals and due times.

The scope adds what the code asks for; the execution gives each ask its number when the stretch
ends, and answers it when its message comes. Both use the same object, and nothing here runs code.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque

from perdure.authoring.scope import Place
from perdure.core.orchestrations.pending import (
    Answering,
    Ask,
    PendingCall,
    PendingTimer,
    TakenUpdate,
    begun_again,
    cancellation,
    taken_update,
)
from perdure.errors import LimitExceededError, UsageError
from perdure.limits import MAX_OPEN_CALLS as MAX_OPEN_CALLS
from perdure.model.histories.events import (
    ActivityScheduled,
    DetachedScheduled,
    MessageEvent,
    SignalAwaited,
    SignalReceived,
    SignalTaken,
    TimerScheduled,
    UpdateAnswered,
    WentBack,
)


class OpenCalls:
    """The asks of one execution, from being made to being answered."""

    __slots__ = (
        "_answered_asks",
        "_due",
        "_has_undone",
        "_kept",
        "_starts",
        "_timers",
        "asks",
        "open",
        "updates",
        "waits",
    )

    def __init__(self) -> None:
        self.asks: list[Ask] = []
        """What was asked for in this stretch, in order; undone ones among them."""
        self.open: dict[int, Ask] = {}
        """Everything without an answer, by the number of the event that asked for it."""
        self.waits: dict[str, deque[PendingCall]] = {}
        """Who waits for a signal, by its name, the oldest first."""
        self.updates: dict[str, TakenUpdate] = {}
        """The updates that the code has taken and not answered, by their ids."""
        self._kept: dict[str, deque[tuple[int, int, SignalReceived]]] = {}
        self._timers: dict[int, PendingTimer] = {}
        self._due: list[tuple[int, int]] = []
        self._starts: list[tuple[int, int]] = []
        self._answered_asks = 0
        self._has_undone = False

    # ------------------------------------------------------------------ being asked for

    def refuse_too_many(self) -> None:
        """Refuse one more open call beyond the limit.

        Raises:
            LimitExceededError: There are as many as an instance may have.
        """
        asks = self.asks
        found = len(self.open) + len(asks) + 1 - self._answered_asks
        if found > MAX_OPEN_CALLS:
            # Kept signals that were taken, notes and cancellations are asks, but not open.
            opening = sum(isinstance(ask, PendingCall | PendingTimer) for ask in asks)
            taken = sum(isinstance(ask.event, SignalTaken) for ask in asks)
            self._answered_asks = len(asks) - opening + taken
            found = len(self.open) + opening - taken + 1
        if found > MAX_OPEN_CALLS:
            raise LimitExceededError(
                "open calls of one instance",
                allowed=MAX_OPEN_CALLS,
                found=found,
                advice="spread the work over children",
            )

    def add_timer(self, pending: PendingTimer) -> None:
        """Ask for a timer."""
        self._timers[id(pending.handle)] = pending
        self.asks.append(pending)

    def give_up(self, pending: PendingCall) -> None:
        """Undo a call that has no number yet, or ask for its cancellation."""
        if pending.undone or isinstance(pending.event, SignalTaken):
            return
        if pending.seq is None:
            pending.undone = self._has_undone = True
            return
        if isinstance(pending.event, DetachedScheduled):
            return  # It was started, and that cannot be undone: the answer will be dropped.
        if self.open.pop(pending.seq, None) is None:
            return
        if isinstance(pending.event, SignalAwaited):
            self.waits[pending.event.name].remove(pending)
        self._cancel(pending, pending.seq)

    def give_up_timer(self, timer: asyncio.TimerHandle) -> None:
        """Undo a timer that has no number yet, or ask for its cancellation; nothing if it fired."""
        pending = self._timers.pop(id(timer), None)
        if pending is None:
            return
        if pending.seq is None:
            pending.undone = self._has_undone = True
        elif self.open.pop(pending.seq, None) is not None:
            self._cancel(pending, pending.seq)

    def _cancel(self, pending: Ask, seq: int) -> None:
        cancelled = cancellation(pending.event, seq)
        self.asks.append(Ask(cancelled, pending.place, cancels=pending))

    # ------------------------------------------------------------------ getting a number

    def take(self) -> list[Ask]:
        """Return what was asked for since the last time, without what was undone."""
        asks = self.asks
        if self._has_undone:
            asks = [ask for ask in asks if not ask.undone]
            self._has_undone = False
        self.asks = []
        self._answered_asks = 0
        return asks

    def number(self, ask: Ask, seq: int, *, is_replaying: bool) -> None:
        """Make an ask part of the record under its number."""
        ask.seq = seq
        event = ask.event
        if isinstance(ask, PendingCall):
            if isinstance(event, SignalTaken):
                return
            self.open[seq] = ask
            if isinstance(event, SignalAwaited):
                self.waits.setdefault(event.name, deque()).append(ask)
            elif isinstance(event, ActivityScheduled):
                if event.deadline_ms is not None:
                    heapq.heappush(self._due, (event.deadline_ms, seq))
                if event.start_by_ms is not None and is_replaying:
                    # Whether it has a timer, or was started long ago, is not recorded.
                    self.await_start(event.start_by_ms, seq)
        elif isinstance(ask, PendingTimer):
            assert isinstance(event, TimerScheduled)
            self.open[seq] = ask
            heapq.heappush(self._due, (event.due_ms, seq))

    def reopen(self, event: WentBack, now_ms: int) -> None:
        """Let all that is open begin again, in another execution and at another time."""
        child_ids = {child.schedule: child.instance_id for child in event.children}
        for seq, ask in self.open.items():
            if isinstance(ask, PendingCall):
                ask.event = begun_again(ask, now_ms, child_ids.get(seq))
        self._due, self._starts = [], []
        for seq, ask in self.open.items():
            if isinstance(ask.event, TimerScheduled):
                self._due.append((ask.event.due_ms, seq))
            elif isinstance(ask.event, ActivityScheduled):
                if ask.event.deadline_ms is not None:
                    self._due.append((ask.event.deadline_ms, seq))
                if ask.event.start_by_ms is not None:
                    self._starts.append((ask.event.start_by_ms, seq))
        heapq.heapify(self._due)
        heapq.heapify(self._starts)

    # ------------------------------------------------------------------ being answered

    def answer(self, schedule: int, event: MessageEvent) -> None:
        """Let the code that awaits a call go on with its answer."""
        pending = self.open.pop(schedule)
        assert isinstance(pending, PendingCall)
        if not pending.future.done():
            pending.future.set_result(event)

    def take_timer(self, schedule: int) -> asyncio.TimerHandle:
        """Return a timer that has fired; it is open no more."""
        timer = self.open.pop(schedule)
        assert isinstance(timer, PendingTimer)
        del self._timers[id(timer.handle)]
        return timer.handle

    def note_taken(self, signal: SignalReceived, place: Place) -> None:
        """The code takes a signal; one that is an update is to be answered from now on."""
        update = taken_update(signal, place)
        if update is not None:
            self.updates[update.update_id] = update

    def answer_update(self, event: UpdateAnswered, place: Place | None) -> None:
        """Put the answer to an update on record, or its refusal.

        Raises:
            UsageError: It was answered or refused before.
        """
        taken = self.updates.pop(event.update_id, None)
        if taken is None:
            raise UsageError(
                f"update {event.update_id!r} was answered or refused before: a request gets one "
                "answer"
            )
        self.asks.append(Answering(event, place, taken))

    def keep_signal(self, seq: int, at_ms: int, signal: SignalReceived) -> None:
        """Keep a signal that no call waits for."""
        self._kept.setdefault(signal.name, deque()).append((seq, at_ms, signal))

    def take_signal(self, name: str) -> tuple[int, SignalReceived] | None:
        """Return the oldest signal of a name that was kept, with the number of its event."""
        kept = self._kept.get(name)
        if not kept:
            return None
        seq, _, signal = kept.popleft()
        return seq, signal

    def unread(self) -> list[tuple[int, SignalReceived]]:
        """Return the signals that came and were not received, in the order they came, each with
        the time it was recorded."""
        kept = [each for signals in self._kept.values() for each in signals]
        return [(at_ms, signal) for _, at_ms, signal in sorted(kept, key=lambda each: each[0])]

    # ------------------------------------------------------------------------- due times

    def next_due_ms(self) -> int | None:
        """Return when the next open timer becomes due."""
        due_ms = self._first_open(self._due) if self._due else None
        if self._starts:
            start_by_ms = self._first_open(self._starts)
            if due_ms is None or (start_by_ms is not None and start_by_ms < due_ms):
                return start_by_ms
        return due_ms

    def await_start(self, start_by_ms: int, seq: int) -> None:
        """Count the timer of a job that must be started in time."""
        heapq.heappush(self._starts, (start_by_ms, seq))

    def drop_start_due(self, now_ms: int) -> None:
        """Forget a start timer that is due and brought no message.

        The store removes it when a worker takes the job, and does not tell the owner.
        """
        due_ms = self._first_open(self._starts)
        if due_ms is not None and due_ms <= now_ms:
            while self._starts and self._starts[0][0] == due_ms:
                heapq.heappop(self._starts)

    def _first_open(self, due: list[tuple[int, int]]) -> int | None:
        while due:
            due_ms, seq = due[0]
            if seq in self.open:
                return due_ms
            heapq.heappop(due)
        return None
