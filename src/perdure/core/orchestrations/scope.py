"""The execution as its own code sees it: the scope of calls and the owner of the loop.

Calls find it as the scope of the running loop; the loop tells it of timers. Whatever is asked for
becomes an ask, which gets a number when the stretch ends. The scope of an execution that was torn
down asks for nothing any more.
"""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import datetime
from typing import Any, NoReturn
from uuid import UUID

import msgspec

from perdure.authoring.context import Context
from perdure.authoring.outbox import Outbox, refuse_too_much
from perdure.authoring.scope import (
    ActivityRequest,
    AnyRequest,
    ChildRequest,
    ContinueRequest,
    DetachedRequest,
    InlineRequest,
    Pending,
    Place,
    SignalRequest,
    View,
)
from perdure.clock import to_datetime
from perdure.core.identity import ExecutionId, child_id, made_random, made_uuid, restarted_id
from perdure.core.orchestrations.calls import OpenCalls
from perdure.core.orchestrations.ending import ContinueAsNewError
from perdure.core.orchestrations.loop import DurableLoop
from perdure.core.orchestrations.pending import (
    Ask,
    PendingCall,
    PendingTimer,
    job_event,
    user_place,
)
from perdure.core.orchestrations.teardown import TornDownError
from perdure.core.orchestrations.values import Values
from perdure.errors import UsageError
from perdure.model.histories.events import (
    AskedEvent,
    ChildScheduled,
    DetachedScheduled,
    KvEntry,
    Patched,
    PromiseMade,
    Reported,
    SignalAwaited,
    SignalTaken,
    UpdateAnswered,
)
from perdure.model.histories.lineage import Parent
from perdure.model.histories.origins import Seed
from perdure.model.histories.slot import StartedSlot
from perdure.model.promises import UNSIGNED, PromiseId, write_token
from perdure.model.streams import ForwardedItems
from perdure.telemetry import error_facts, shown_error

logger = logging.getLogger(__name__)


class ExecutionScope:
    """What one execution shows to its code, and takes from it.

    The execution sets the time, the root task and what the start says; the code reads them here.
    """

    __slots__ = (
        "__weakref__",
        "_calls",
        "_children",
        "_continued_at",
        "_promises",
        "_random",
        "_torn",
        "_uuids",
        "context",
        "execution",
        "id",
        "instance_id",
        "is_replaying",
        "loop",
        "lost",
        "name",
        "new_report",
        "now_ms",
        "numbers",
        "origin",
        "parent",
        "patches",
        "promises",
        "report",
        "root",
        "secret",
        "seed",
        "sent",
        "sent_bytes",
        "slot",
        "taken",
        "values",
        "version",
        "views",
    )

    def __init__(self, id: ExecutionId, name: str, version: str, calls: OpenCalls) -> None:
        self.id = id
        self.seed = id
        """Whose ids and random numbers it makes; of a prefix that was taken over, the origin's."""
        self.taken: set[str] = set()
        """Ids that it gave to others before it went back."""
        self.slot: StartedSlot | None = None
        self.origin: Seed | None = None
        self.instance_id, self.execution = id.instance_id, id.execution
        self.name, self.version = name, version
        self.parent: Parent | None = None
        self.context = Context(self)
        self.is_replaying = False
        self.lost: tuple[str, ...] = ()
        self.now_ms = 0
        self.values: Values | None = None
        """What the instance keeps by key; None as long as there is nothing."""
        self.report: bytes | None = None
        self.new_report: bytes | None = None
        """What was reported since the last commit."""
        self.sent: Outbox | None = None
        """What was sent to streams since the last commit; None as long as there is nothing."""
        self.sent_bytes = 0
        """How many bytes of items this stretch has sent."""
        self.patches: dict[str, bool] = {}
        """Which side of a change of the code this execution takes, by name of the change."""
        self.promises: dict[int, PromiseMade] = {}
        """The promises that are on record, by number."""
        self.secret: bytes | None = None
        """What tokens of promises are signed with; None: nothing new is given away here."""
        self.views: dict[str, View] = {}
        """What answers queries, by their names."""
        self.root: asyncio.Task[Any] | None = None
        self.numbers = 0
        """The last creation number."""
        self.loop = DurableLoop(self, self)  # type: ignore[abstract]  # refused ones: a table
        self._calls = calls
        self._children = self._promises = self._uuids = 0
        self._random: random.Random | None = None
        self._torn = 0
        self._continued_at: Place | None = None

    @property
    def has_shown(self) -> bool:
        """Whether the code has shown something to others since the last commit."""
        return (
            self.sent is not None
            or self.new_report is not None
            or (self.values is not None and bool(self.values.changed))
        )

    # ------------------------------------------- what calls ask for (authoring.Scope)

    def ask(self, request: AnyRequest) -> Pending:
        """Make a request; it gets its number when the stretch ends."""
        future = self.loop.new_future()
        if self._torn and self._is_in_vain():
            return PendingCall(SignalAwaited(name=request.label), request, future)
        self._calls.refuse_too_many()
        event: AskedEvent
        match request:
            case ActivityRequest() | InlineRequest():
                event = job_event(request, self.now_ms)
            case ChildRequest():
                event = self._child_event(request)
            case SignalRequest():
                event = self._signal_event(request, future)
            case DetachedRequest():
                event = self._detached_event(request)
        pending = PendingCall(event, request, future)
        self._calls.asks.append(pending)
        return pending

    def give_up(self, pending: Pending) -> None:
        """Undo a request, or put its cancellation on record."""
        assert isinstance(pending, PendingCall)
        if not self._torn:
            self._calls.give_up(pending)

    def _signal_event(self, request: SignalRequest, future: asyncio.Future[Any]) -> AskedEvent:
        kept = self._calls.take_signal(request.label)
        if kept is None:
            return SignalAwaited(name=request.label)
        seq, signal = kept
        self._calls.note_taken(signal, request.place)
        future.set_result(signal)
        return SignalTaken(name=request.label, signal=seq)

    def _child_event(self, request: ChildRequest) -> ChildScheduled:
        return ChildScheduled(
            name=request.label,
            version=request.version,
            instance_id=self._new_id(request),
            input=msgspec.Raw(request.input),
            on_parent_close=request.on_parent_close,
            delay_ms=request.delay_ms,
        )

    def _detached_event(self, request: DetachedRequest) -> DetachedScheduled:
        return DetachedScheduled(
            name=request.label,
            version=request.version,
            instance_id=self._new_id(request),
            input=msgspec.Raw(request.input),
            delay_ms=request.delay_ms,
        )

    def _new_id(self, request: ChildRequest | DetachedRequest) -> str:
        self._children += 1
        given = request.instance_id
        if not given:
            return child_id(self.seed, self._children)
        return restarted_id(given, self.seed) if given in self.taken else given

    # ------------------------------------------- what needs no answer (authoring.Scope)

    @property
    def kv(self) -> dict[str, KvEntry]:
        """What the instance keeps by key, as it is now."""
        if self.values is None:
            self.values = Values()
        return self.values.entries

    def note(self, event: AskedEvent) -> None:
        """Put something on record that needs no answer, and let it take effect at once."""
        self._refuse_torn()
        if isinstance(event, UpdateAnswered):
            self._calls.answer_update(event, user_place())
            return
        self._calls.asks.append(Ask(event, user_place()))
        if isinstance(event, Reported):
            self.new_report = bytes(event.value)
            self.set_report(self.new_report)
        else:
            assert self.values is not None
            self.values.apply(event, self.now_ms)

    def send_item(self, stream: str, item: bytes) -> None:
        """Send an item to a stream, with the turn's commit.

        A stretch that is on record was committed together with what it sent, so a replay sends
        nothing.
        """
        self._refuse_torn()
        # Counted in a replay too, or the code would take another path there.
        self.sent_bytes += len(item)
        advice = "let an activity send them, which stores them as it goes"
        refuse_too_much(stream, self.sent_bytes, sender=self.name, advice=advice)
        if not self.is_replaying:
            if self.sent is None:
                self.sent = Outbox()
            self.sent.add(stream, item)

    def forward(self, items: ForwardedItems) -> None:
        """Send items to a stream of another instance, with the turn's commit."""
        self._refuse_torn()
        if not self.is_replaying:
            if self.sent is None:
                self.sent = Outbox()
            self.sent.forwarded.append(items)

    def set_report(self, value: bytes) -> None:
        """Report something; null: nothing."""
        self.report = None if value == b"null" else value

    def patched(self, change: str) -> bool:
        """Return whether this execution takes the new side of a change of its code.

        The first answer counts for the rest of the execution. What is replayed without that on
        record was there before the change.
        """
        self._refuse_torn()
        if change not in self.patches:
            self.patches[change] = not self.is_replaying
            if not self.is_replaying:
                self._calls.asks.append(Ask(Patched(change=change), user_place()))
        return self.patches[change]

    def continue_as_new(self, request: ContinueRequest) -> NoReturn:
        """End this execution by an exception and begin the next one."""
        self._refuse_torn()
        if request.label != self.name:
            raise UsageError(
                f"{request.label}.continue_as_new(...) was called in an instance of {self.name!r}: "
                f"an instance keeps its orchestration; use {self.name}.continue_as_new(...), or "
                f"await ctx.start({request.label}, ...) and return"
            )
        if asyncio.current_task(self.loop) is not self.root:
            raise UsageError(
                f"{self.name}.continue_as_new(...) was called in a task of its own: only the "
                "orchestration's own task can end it; let that task await this one, and call "
                "continue_as_new there"
            )
        self._continued_at = request.place
        raise ContinueAsNewError(request)

    # ----------------------------------------------------- numbers, time, randomness

    def settled(self) -> asyncio.Future[None]:
        """Return a future that is done when nothing else can run on without a message."""
        return self.loop.settled()

    def next_number(self) -> int:
        """Return the next creation number."""
        self.numbers += 1
        return self.numbers

    def now(self) -> datetime:
        """Return the latest recorded time."""
        return to_datetime(self.now_ms)

    def make_uuid(self) -> UUID:
        """Return the next id of this execution's own series."""
        self._uuids += 1
        return made_uuid(self.seed, self._uuids)

    def make_random(self) -> random.Random:
        """Return this execution's random numbers."""
        self._random = made_random(self.seed)
        return self._random

    def reseed(self, seed: ExecutionId) -> None:
        """Make ids and random numbers of another series from now on."""
        self.seed = seed
        if self._random is not None:
            # The code may hold it.
            self._random.setstate(made_random(seed).getstate())

    # ---------------------------------------------------------------------- promises

    def make_promise(self, name: str) -> tuple[PromiseId, str]:
        """Return the next promise of this execution, and its token.

        What is on record stands: a token outlives the secret that signed it, and a history can be
        replayed where that secret is not.
        """
        self._refuse_torn()
        self._promises += 1
        made = self.promises.get(self._promises)
        if made is None or made.name != name:
            made = self._new_promise(name)
        self._calls.asks.append(Ask(made, user_place()))
        promise = PromiseId(
            self.instance_id, self.id.incarnation, made.execution, made.number, name
        )
        return promise, made.token

    def _new_promise(self, name: str) -> PromiseMade:
        secret = self.secret
        if secret is None:
            assert self.is_replaying, "tokens are signed where they are given away"
            secret = UNSIGNED
        promise = PromiseId(*self.id, self._promises, name)
        return PromiseMade(
            name=name,
            number=promise.number,
            execution=promise.execution,
            token=write_token(secret, promise),
        )

    # ------------------------------------------- what the loop tells (loop.LoopOwner)

    def timer_set(self, timer: asyncio.TimerHandle, due_ms: int) -> None:
        """Ask for a timer."""
        if self._torn and self._is_in_vain():
            return
        self._calls.refuse_too_many()
        self._calls.add_timer(PendingTimer(timer, due_ms, user_place()))

    def timer_cancelled(self, timer: asyncio.TimerHandle) -> None:
        """Undo a timer, or put its cancellation on record; nothing if it fired."""
        if not self._torn:
            self._calls.give_up_timer(timer)

    def lost_exception(self, context: dict[str, Any]) -> None:
        """Log what failed in a task that is awaited nowhere."""
        if not self._torn and not self.is_replaying:
            logger.error(
                "orchestration %s left an exception unawaited: %s (instance %r)",
                self.name,
                shown_error(context.get("exception")),
                self.instance_id,
                extra={
                    "instance_id": self.instance_id,
                    "execution": self.execution,
                    "definition": self.name,
                    "version": self.version,
                    **error_facts(context.get("exception")),
                },
            )

    def report_swallowed(self) -> None:
        """Log that the code completed although it had said that it goes on."""
        if self._continued_at is not None and not self.is_replaying:
            logger.warning(
                "instance %r (%s) completed although it called continue_as_new at %s: that works "
                "by an exception, which the code swallowed; catch Exception there, not "
                "BaseException",
                self.instance_id,
                self.name,
                self._continued_at,
                extra={
                    "instance_id": self.instance_id,
                    "execution": self.execution,
                    "definition": self.name,
                    "version": self.version,
                },
            )

    # ----------------------------------------------------------------- teardown

    def begin_tearing(self) -> None:
        """Answer nothing from now on. The next call raises `TornDownError`."""
        self._torn = 1

    def _is_in_vain(self) -> bool:
        """Return whether the execution is torn down: nothing will ever be answered.

        Raises:
            TornDownError: At the first call after each throw. The later ones wait for ever, so that
                a loop which catches everything stops.
        """
        if self._torn == 1:
            self._torn = 2
            raise TornDownError
        return self._torn > 0

    def _refuse_torn(self) -> None:
        if self._is_in_vain():
            raise TornDownError
