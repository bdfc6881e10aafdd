"""What a client shares with its handles and the worker beside it: the store, and who is told what.

Users never see it. What they call is in `Client` and `Handle`, which each hold one of these; inside
a transaction of the user's own it is another one (`within.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.authoring.deciders.pure import PurePlace
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import orchestration_key
from perdure.client.acting.removal import Removal
from perdure.client.acting.sending import SentWithin
from perdure.client.acting.starting import refuse_deciders_id
from perdure.client.acting.stopping import terminate
from perdure.client.acting.update_requests import UpdateRequest, outcome_of_update
from perdure.client.histories import resetting
from perdure.client.histories.moving import OrchestrationVersion
from perdure.client.histories.points import Point
from perdure.client.histories.resetting import ResetPlan
from perdure.client.reading.summaries import Summaries
from perdure.client.reading.watch import InstanceWatch, NewsMark
from perdure.clock import to_ms
from perdure.codec import check_id
from perdure.core.orchestrations.loop import DurableLoop
from perdure.errors import NondeterminismError, UsageError
from perdure.model.admin import KvRow, ReportRow
from perdure.model.histories.events import CancelRequested, SignalReceived, UnreadableEventError
from perdure.model.instances import InstanceRow, NewInstance, Stamp
from perdure.model.jobs import JobKey
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.streams import StreamPlace
from perdure.model.turns import InstanceEnd, TurnStatus, WorkerRow
from perdure.model.updates import UPDATE_PREFIX, UpdateOutcome
from perdure.store.base import PATIENCE_S, Store
from perdure.store.forking import ProcessMark
from perdure.telemetry import Metrics
from perdure.turns.endings import Endings
from perdure.turns.lone_turns import lone_turns
from perdure.turns.turns import TurnRunner
from perdure.turns.unserved import LIVE_WORKER_MS, alive_since_ms
from perdure.turns.watchdog import TurnTooLongError

if TYPE_CHECKING:
    from perdure.worker.serving import Serving

logger = logging.getLogger(__name__)

MAX_SAID = 100
"""Signals that are warned of; a program that makes up their names is not followed further."""

SEEN_WITHIN = timedelta(milliseconds=LIVE_WORKER_MS)
"""How recent a worker's sign of life must be to count as alive."""


class ClientCore:
    """A store, what waits for its instances in this process, and the worker that is told first.

    Args:
        store: Not open yet.
        metrics: Where to count.
        owner: What users call the thing that is open or closed, for messages.
    """

    def __init__(self, store: Store, metrics: Metrics, *, owner: str) -> None:
        self.raw_store = store
        """The store, open or not."""
        self.metrics = metrics
        self.endings = Endings()
        self.sent_within = SentWithin()
        """Messages that were sent inside transactions, until they have arrived."""
        self.summaries = Summaries()
        self.beside: Serving | None = None
        """The worker of an engine."""
        self._watch: InstanceWatch | None = None
        """Looks for news, once a caller has waited for some."""
        self._alone: TurnRunner | None = None
        """Decides inputs where there is no worker, once there was one."""
        self._said_unborn: set[str] = set()
        self._secret: tuple[int, bytes] | None = None
        """Read once in an epoch of the store."""
        self._is_open = False
        self._was_closed = False
        self._is_entered = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where it was opened: what it waits for is woken there. None: anywhere."""
        self.owner = owner
        """What users call the thing that is open or closed."""
        self._process = ProcessMark(owner)

    # -------------------------------------------------------------------- lifetime

    def enter(self) -> None:
        """Begin the block whose end closes it.

        Raises:
            UsageError: There is one already, which would be left with nothing.
        """
        if self._is_open and self._is_entered:
            raise UsageError(
                f"this {self.owner} is in a block already, whose end closes it: use it there, or "
                f"make another {self.owner}(...)"
            )
        self._is_entered = True

    async def open(self) -> bool:
        """Connect to the store; return whether it was not open yet."""
        self._process.refuse_elsewhere()
        if self._is_open:
            return False
        if self._was_closed:
            raise UsageError(
                f"this {self.owner} was closed and is not opened again: make a new "
                f"{self.owner}(...)"
            )
        await self.raw_store.open()
        self._is_open = True
        self._loop = asyncio.get_running_loop()
        self._process.set(self)
        return True

    @property
    def is_open(self) -> bool:
        """Whether it is open, and not in the process that this one was forked from."""
        return self._is_open and not self._process.is_elsewhere

    async def close(self) -> None:
        """Let go of the store. In a forked child that is the parent's, and nothing happens."""
        if self.is_open:
            self._is_open = False
            self._was_closed = True
            if self._watch is not None:
                await self._watch.close()
            if self._alone is not None:
                await self._alone.close()
                self._alone = None
            await self.raw_store.close()

    def refuse_closed(self) -> None:
        """Refuse to work where nothing is open.

        Raises:
            UsageError: It is not open, or was opened before a fork.
        """
        if not self._is_open:
            advice = (
                f"is not open any more: make a new {self.owner}(...), and use it inside its block"
                if self._was_closed
                else f"is not open: use `async with {self.owner}(...)`, or await open() first"
            )
            raise UsageError(f"this {self.owner} {advice}")
        self._process.refuse_elsewhere()

    def _refuse_loop(self, loop: asyncio.AbstractEventLoop) -> NoReturn:
        """Refuse calls from where their answer would never be heard."""
        if isinstance(loop, DurableLoop | PurePlace):
            raise UsageError(
                f"this {self.owner} cannot be used inside an orchestration or a decider, whose "
                "code is replayed: use context().start, .execute, .send or .ref there, or do it in "
                "an activity"
            )
        raise UsageError(
            f"this {self.owner} was opened in another event loop, and works only there: open "
            "one in each loop, or use a BlockingClient in other threads; a fixture of "
            "pytest-asyncio needs the loop_scope of its tests"
        )

    @property
    def store(self) -> Store:
        """The open store, for what awaits it here.

        Raises:
            UsageError: It is not open here, or was opened in another event loop.
        """
        self.refuse_closed()
        if self._loop is not None:
            loop = asyncio._get_running_loop()
            if loop is not self._loop and loop is not None:
                self._refuse_loop(loop)
        return self.raw_store

    @property
    def outside(self) -> ClientCore:
        """The core of the client outside any transaction."""
        return self

    # ------------------------------------------------------- who works in this process

    def turns(self) -> TurnRunner:
        """Return what runs turns in this process."""
        self.refuse_closed()
        if self.beside is not None:
            return self.beside.turns
        if self._alone is None:
            self._alone = lone_turns(self.raw_store, self.endings, self.metrics)
        return self._alone

    def find_decider(self, name: str) -> DeciderDefinition | None:
        """Return a decider that was handed to the worker of this process.

        Raises:
            InvalidIdError: That is no name.
        """
        check_id("decider", name)
        return None if self.beside is None else self.beside.registry.deciders.get(name)

    def find_code(self, name: str, version: str) -> Orchestration[..., Any] | None:
        """Return the code of an orchestration as it is on record, if it is here."""
        if self.beside is None:
            return None
        return self.beside.coverage.code_for(orchestration_key(name, version))

    def code_of(self, name: str, version: str) -> str:
        """Return the digest of the code, where it is known that this code will run."""
        beside = self.beside
        own = None if beside is None else beside.serves(name, version)
        if beside is None or own is None:
            return ""
        return beside.registry.code_of(own.name, own.version)

    def is_here(self, instance_id: str) -> bool:
        """Return whether a worker of this process has the instance in memory."""
        return self.beside is not None and self.beside.turns.hot.get(instance_id) is not None

    async def live_workers(self, seen_within: timedelta = SEEN_WITHIN) -> list[WorkerRow]:
        """Return the workers that gave a sign of life lately, that of this process in any case:
        when the clock has moved, its last sign looks old."""
        since_ms = alive_since_ms(self.store.clock, to_ms(seen_within))
        rows = await self.store.read_workers(seen_since_ms=0)
        beside = self.beside
        own = beside.worker_id if beside is not None and beside.is_serving else None
        return [row for row in rows if row.seen_ms >= since_ms or row.worker_id == own]

    # ----------------------------------------------------------- starting and ending

    async def begin(self, new: NewInstance) -> InstanceRow | None:
        """Start an instance; return the row that already has its id, if one does.

        A worker beside us that has the code runs the first turn in the same commit, unless that
        turn comes later or has messages to take.
        """
        if await self._begin_beside(new):
            self._count_start(new)
            return None
        if new.messages:
            await self.let_arrive([new.instance_id])
        [existing] = await self.store.start([new], patience_s=PATIENCE_S)
        self.noticed_work()
        if existing is None:
            self._count_start(new)
        return existing

    async def replace(self, ended: InstanceRow, new: NewInstance) -> InstanceRow | None:
        """Start an instance in place of an ended one; return the row that has its id by now, if
        another client was faster."""
        await self.removal().delete_children(ended)
        return await self.begin(msgspec.structs.replace(new, replaces=ended.incarnation))

    async def terminate(
        self, instance_id: str, reason: str, *, incarnation: int | None = None
    ) -> bool:
        """Stop an instance now; its code is not asked. Return whether it had not ended before."""
        return await terminate(self, instance_id, reason, incarnation=incarnation)

    async def plan_reset(
        self, instance_id: str, point: Point | None, moves_to: OrchestrationVersion | None
    ) -> ResetPlan:
        """Return what a reset would do."""
        return await resetting.plan(self, instance_id, point, moves_to)

    async def reset(
        self,
        instance_id: str,
        point: Point | None,
        reason: str,
        *,
        only: tuple[int, int] | None = None,
        moves_to: OrchestrationVersion | None = None,
    ) -> bool:
        """Let an instance go on from an earlier point; only while it is of this incarnation and
        execution, and on another version, if these are given. Return whether it does."""
        return await resetting.reset(self, instance_id, point, reason, only, moves_to)

    async def fork(
        self,
        instance_id: str,
        new_id: str,
        point: Point | None,
        moves_to: OrchestrationVersion | None,
    ) -> None:
        """Start another instance from a point of this one."""
        refuse_deciders_id(self, new_id)
        await resetting.fork(self, instance_id, new_id, point, moves_to)

    def removal(self) -> Removal:
        """Return what deletes and prunes."""
        return Removal(self.store, self.noticed_gone)

    async def _begin_beside(self, new: NewInstance) -> bool:
        """Start an instance and run its first turn in one commit, where that can be done."""
        if self.beside is None or new.visible_at_ms or new.messages:
            return False
        own = self.beside.serves(new.definition.name, new.definition.variant)
        if own is None:
            return False
        try:
            status = await self.beside.turns.start(new, own, patience_s=PATIENCE_S)
        except (NondeterminismError, UnreadableEventError, TurnTooLongError):
            # The start itself is good. As a claimed turn the same trouble holds the instance, where
            # everybody can see it.
            return False
        return status is TurnStatus.ACCEPTED

    def _count_start(self, new: NewInstance) -> None:
        self.metrics.client_starts.add((new.definition.name, new.definition.variant))

    # --------------------------------------------------------------------- messages

    async def deliver(self, deliveries: Sequence[Delivery]) -> list[DeliveryStatus]:
        """Put messages into inboxes."""
        await self.let_arrive(delivery.instance_id for delivery in deliveries)
        statuses = await self.store.deliver(deliveries, patience_s=PATIENCE_S)
        if self.beside is not None:
            for delivery in deliveries:
                # An update that is asked after this must not overtake it.
                self.beside.turns.noticed_mail(delivery.instance_id)
        self.noticed_work()
        for delivery, status in zip(deliveries, statuses, strict=True):
            if status in (DeliveryStatus.DELIVERED, DeliveryStatus.BUFFERED):
                if (delivery.message_id or "").startswith(UPDATE_PREFIX):
                    self.metrics.client_updates.add()
                elif delivery.kind == SignalReceived.kind and not delivery.outlives:
                    self.metrics.client_signals.add()
                elif delivery.kind == CancelRequested.kind:
                    self.metrics.client_cancels.add()
        return statuses

    async def take_update(self, delivery: Delivery) -> bool:
        """Have an update applied by the worker of this process, in one commit, where it has the
        instance in memory; False: nothing is known to be written, and it goes by the inbox."""
        if self.beside is None or delivery.instance_id in self.sent_within.under_way:
            return False
        is_taken = await self.beside.turns.take_update(delivery)
        if is_taken:
            self.metrics.client_updates.add()
        return is_taken

    async def let_arrive(self, instance_ids: Iterable[str]) -> None:
        """Have what this client sent to instances inside transactions come before what it is about
        to send or execute."""
        if self.sent_within.under_way:
            for instance_id in await self.sent_within.arrive(instance_ids):
                self.turns().noticed_mail(instance_id)

    def say_unborn(self, signal: str, instance_id: str) -> None:
        """Say, once per signal, that it waits for an instance that there is not."""
        if signal not in self._said_unborn and len(self._said_unborn) < MAX_SAID:
            self._said_unborn.add(signal)
            logger.warning(
                "signal %r is kept for instance %r, which does not exist: it is delivered when "
                "that is started. Is the id right? send_with_start(...) does both at once",
                signal,
                instance_id,
                extra={"instance_id": instance_id},
            )

    async def read_secret(self) -> bytes:
        """Return what tokens of promises are signed with."""
        epoch = self.store.epoch.number
        if self._secret is None or self._secret[0] != epoch:
            self._secret = (epoch, await self.store.admin.read_secret())
        return self._secret[1]

    # ---------------------------------------------------------------------- waiting

    def mark_news(self) -> NewsMark | None:
        """Return what was heard so far, if a caller may wait here for what it is about to start,
        and no worker beside it tells what comes of that."""
        return self._watching().mark() if self.beside is None else None

    async def wait_ended(
        self, instance_id: str, *, hears_holds: bool = False, begun: NewsMark | None = None
    ) -> InstanceEnd:
        """Wait until an instance has ended.

        Args:
            instance_id: The instance.
            hears_holds: Whether to stop waiting when it is held.
            begun: What was heard before this process started it, if it has.

        Raises:
            InstanceNotFoundError: There is no such instance.
            InstanceHeldError: It is parked or blocked, and that is to be heard.
        """
        began_s = perf_counter()
        watch = self._watching()
        outcome = await watch.ended(instance_id, hears_holds=hears_holds, begun=begun)
        self.metrics.result_wait.observe((outcome.status.value,), perf_counter() - began_s)
        return outcome

    async def wait_reported(self, instance_id: str, after: int) -> ReportRow | None:
        """Wait for a report newer than a version, or the end."""
        return await self._watching().reported(instance_id, after=after)

    async def wait_kept(self, instance_id: str, key: str, after_ms: int = 0) -> KvRow | None:
        """Wait for a value under a key that was set after a time, or the end."""
        return await self._watching().kept(instance_id, key, after_ms=after_ms)

    async def wait_answered(
        self, instance_id: str, receipt: str, send: Callable[[], Awaitable[bool]]
    ) -> bytes | None:
        """Send an update and wait for what it comes to; see `InstanceWatch.answered`."""
        return await self._watching().answered(instance_id, receipt, send)

    async def update(
        self, instance_id: str, name: str, value: bytes, *, update_id: str
    ) -> UpdateOutcome:
        """Ask an instance, and wait for what the update comes to; for calls of orchestrations."""
        return await outcome_of_update(self, UpdateRequest(instance_id, name, update_id, value))

    async def wait_sent(self, place: StreamPlace) -> None:
        """Wait until there may be something behind a place in a stream, or for the end."""
        await self._watching().sent(place)

    def _watching(self) -> InstanceWatch:
        self.refuse_closed()
        if self._watch is None:
            self._watch = InstanceWatch(
                self.raw_store, self.endings, self.is_here, self.noticed_end
            )
        return self._watch

    # --------------------------------------------------------- what this client has done

    def noticed_work(self) -> None:
        """Something was written that a worker of this process may take: let it look at once."""
        if self.beside is not None:
            self.beside.notice()

    def noticed_mail(self, instance_id: str) -> None:
        """An input was put into an inbox: no other of this client may overtake it."""
        self.turns().noticed_mail(instance_id)
        self.noticed_work()

    def noticed_end(self, instance_id: str, incarnation: int, outcome: InstanceEnd) -> None:
        """An instance was ended by this client, or found to be ended by another: stop its jobs
        here, look for what its end told."""
        self.endings.tell(instance_id, outcome)
        self._forget_here(instance_id, incarnation)

    def noticed_gone(self, instance_id: str, incarnation: int) -> None:
        """An instance was deleted."""
        self.endings.tell_gone(instance_id)
        self._forget_here(instance_id, incarnation)
        self.stop_jobs(instance_id, incarnation)

    def noticed_reset(self, instance_id: str, stamp: Stamp) -> None:
        """An instance was reset by this client: stop the jobs that its old execution has here, and
        let a worker of this process look for the new one."""
        if self.beside is not None:
            jobs = self.beside.jobs
            owner = (instance_id, *stamp.key)
            jobs.cancel([lease.key for lease in jobs.leases() if lease.key[:3] == owner])
        self.endings.tell_change(instance_id)
        self.noticed_work()

    def noticed_job_end(self, key: JobKey) -> None:
        """A job was ended by hand, whichever worker runs it."""
        if self.beside is not None:
            self.beside.jobs.cancel([key])
            self.beside.notice()

    def stop_jobs(self, instance_id: str, incarnation: int) -> None:
        """Stop the jobs of an instance that run in this process, also if it is not in memory. What
        other processes do is found by the worker itself; what this one does is not."""
        if self.beside is not None:
            jobs = self.beside.jobs
            owner = (instance_id, incarnation)
            jobs.cancel([lease.key for lease in jobs.leases() if lease.key[:2] == owner])

    def _forget_here(self, instance_id: str, incarnation: int) -> None:
        if self.beside is not None:
            self.beside.turns.ended_from_outside(instance_id, incarnation)
            self.beside.notice()
