"""What is new of an instance, and turns that are thought while the store keeps it as it is.

A *locked turn* is thought inside the transaction that commits it: the store locks the instance,
reads what is new since the memory of it was right, has the turn thought on the caller's loop, and
commits it. No other process can be faster, and those that wait for the lock wait in order.

User code runs while the lock is held, so its time is limited: when `HOLD_FOR_S` have passed the
store lets go, commits nothing of it, and what is thought after that is void. A turn is thought at
most once. If its transaction has to be run again, the same turn is; its commit id tells whether it
was accepted meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from time import monotonic
from typing import NamedTuple, TypeAlias

from perdure.model.histories.events import StoredEvent
from perdure.model.instances import LiveRow, Stamp
from perdure.model.messages import Message
from perdure.model.turns import Turn

logger = logging.getLogger(__name__)

HOLD_FOR_S = 1.0
"""How long the store keeps instances for their turns to be thought."""


NOTHING_KNOWN = Stamp(0, 0, 0)
"""No instance has it: of one of which nothing is remembered the row alone is news."""


class KnownInstance(NamedTuple):
    """An instance as it is remembered, if it is."""

    instance_id: str
    stamp: Stamp = NOTHING_KNOWN


class News(NamedTuple):
    """What is stored of an instance beyond what is remembered."""

    live: LiveRow | None
    """As it is now; None: it has ended, or is not there."""
    events: Sequence[StoredEvent] | None
    """Those that were recorded since. None: what is stored does not go on from what is remembered,
    which is of another execution, or of a past that the database has lost."""
    inbox: Sequence[Message] | None = None
    """All messages that wait; None: they were not wanted."""
    writer: str | None = None
    """The transaction that has written the row last, where that tells whether it has changed."""


Think: TypeAlias = Callable[[News], Turn | None]
"""Thinks a turn over what is new; None, or an error: there is none to commit. Runs on the loop, and
must not wait."""


class _Stage(Enum):
    WAITING = "waiting"
    THINKING = "thinking"
    THOUGHT = "thought"
    VOID = "void"


class LockedTurn:
    """A turn that is to be thought and committed under the lock of its instance.

    Args:
        known: What is remembered.
        think: Thinks it.
        wants_inbox: Tells from the stored row whether the messages are to be read as well. Called
            on any thread.
    """

    __slots__ = ("_guard", "_loop", "_stage", "_think", "known", "turn", "wants_inbox")

    def __init__(
        self, known: KnownInstance, think: Think, *, wants_inbox: Callable[[LiveRow], bool]
    ) -> None:
        self.known = known
        self.wants_inbox = wants_inbox
        self.turn: Turn | None = None
        """What was thought, to be committed."""
        self._think = think
        self._loop = asyncio.get_running_loop()
        self._stage = _Stage.WAITING
        self._guard = threading.Lock()

    @property
    def instance_id(self) -> str:
        """Whose turn it is."""
        return self.known.instance_id

    @property
    def is_waiting(self) -> bool:
        """Whether it was not begun to be thought, and still may be."""
        return self._stage is _Stage.WAITING

    @property
    def is_void(self) -> bool:
        """Whether it was not thought in time."""
        return self._stage is _Stage.VOID

    def think(self, news: News) -> None:
        """Think it, unless that comes too late. On the loop."""
        with self._guard:
            if self._stage is not _Stage.WAITING:
                return
            self._stage = _Stage.THINKING
        turn = self._think(news)
        with self._guard:
            if self._stage is _Stage.THINKING:
                self.turn = turn
                self._stage = _Stage.THOUGHT

    def give_up(self) -> None:
        """Commit nothing of it, unless it is thought already. On the thread that writes."""
        with self._guard:
            if self._stage is not _Stage.THOUGHT:
                self._stage = _Stage.VOID


def think_all(asked: Sequence[tuple[LockedTurn, News]], *, within_s: float) -> None:
    """Have turns thought on their loops, and wait for that; what takes too long is given up."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[LockedTurn, News]]] = {}
    for one, news in asked:
        by_loop.setdefault(one._loop, []).append((one, news))
    give_up_at = monotonic() + within_s
    waits = [_begin(loop, batch) for loop, batch in by_loop.items()]
    for is_over in waits:
        is_over.wait(max(give_up_at - monotonic(), 0))
    for one, _ in asked:
        one.give_up()


def _begin(
    loop: asyncio.AbstractEventLoop, batch: Sequence[tuple[LockedTurn, News]]
) -> threading.Event:
    is_over = threading.Event()

    def think() -> None:
        try:
            for one, news in batch:
                _think_alone(one, news)
        finally:
            is_over.set()

    try:
        loop.call_soon_threadsafe(think)
    except RuntimeError:
        is_over.set()  # The loop is closed, and with it all callers are gone.
    return is_over


def _think_alone(one: LockedTurn, news: News) -> None:
    """Have a turn thought; what goes wrong with it is no other's trouble."""
    try:
        one.think(news)
    except Exception as error:
        # A defect: what user code raises is told to its callers. Its text may quote their values.
        facts = {"instance_id": one.instance_id}
        logger.error("a locked turn could not be thought: %s", type(error).__name__, extra=facts)
