"""The client: start instances, and get handles to them. Works without a worker."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, overload

import msgspec

from perdure.authoring.decider import Decider
from perdure.authoring.decider_definition import SEPARATOR, DeciderDefinition, definition_of
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import orchestration_key
from perdure.authoring.signal import Signal
from perdure.client.admin import Administration
from perdure.client.deciders import Deciders
from perdure.client.handle import Handle
from perdure.client.info import Json
from perdure.client.measuring import measure
from perdure.client.projections import ProjectionAdministration
from perdure.client.sending import SentWithin, signal_delivery
from perdure.client.starting import (
    as_begun,
    check_joinable,
    check_orchestration,
    check_same_definition,
    new_instance,
    split,
)
from perdure.client.watch import Watch
from perdure.clock import Clock, system_clock
from perdure.codec import JSON, ValueCodec, check_id
from perdure.errors import (
    AlreadyExistsError,
    InstanceEndedError,
    InvalidIdError,
    NondeterminismError,
    UsageError,
)
from perdure.model.admin import KvRow, ReportRow
from perdure.model.events import CancelRequested, SignalReceived, UnreadableEventError
from perdure.model.instances import InstanceRow, NewInstance
from perdure.model.jobs import JobKey
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.turns import Outcome, TurnStatus
from perdure.store.base import ExecutionKey, Store
from perdure.store.borrowing import Errands
from perdure.store.forking import ProcessMark
from perdure.store.opening import open_store
from perdure.telemetry import Metrics
from perdure.turns.endings import Endings
from perdure.turns.lone_turns import lone_turns
from perdure.turns.turns import TurnRunner
from perdure.turns.watchdog import TurnTooLongError

if TYPE_CHECKING:
    from perdure.worker.serving import Serving

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

PATIENCE_S = 10.0
"""How long a start or a signal waits for a locked, full or unreachable store before it gives up."""


class Client(Administration, Deciders, ProjectionAdministration):
    """A door to the instances of one store.

    Use it as `async with Client(url) as client:`, or call `open` and `close`.
    """

    def __init__(self, url: str, /, *, clock: Clock = system_clock) -> None:
        self.telemetry = Metrics()
        """What this client counted, and the worker beside it if there is one."""
        self._store = measure(open_store(url, clock=clock), self.telemetry)
        self._endings = Endings()
        self._beside: Serving | None = None
        self._watch = Watch(self._store, self._endings, self.is_here, self.noticed_end)
        self._alone: TurnRunner | None = None
        """Decides inputs where there is no worker, once there was one."""
        self.sent_within = SentWithin()
        """Messages that were sent inside transactions, until they have arrived."""
        self._is_open = False
        self._process = ProcessMark(type(self).__name__)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> Self:
        """Connect to the store."""
        self._process.refuse_elsewhere()
        if not self._is_open:
            await self._store.open()
            self._is_open = True
            self._process.set(self)
        return self

    async def close(self) -> None:
        """Let go of the store. In a forked child that is the parent's, and nothing happens."""
        if self._is_open and not self._process.is_elsewhere:
            self._is_open = False
            await self._watch.close()
            if self._alone is not None:
                await self._alone.close()
                self._alone = None
            await self._store.close()

    @overload
    async def start(
        self,
        instance_id: str,
        orchestration: Orchestration[P, R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Handle[R]: ...
    @overload
    async def start(
        self, orchestration: Orchestration[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]: ...
    async def start(self, first: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Start an instance, under an id that is given or made; durable when this returns.

        An id that exists with an equal definition and input gives its handle, live or finished.
        `orchestration.with_options(if_exists=...)` says otherwise; `delay=` lets it begin later.

        Raises:
            AlreadyExistsError: The id is taken by another definition or input.
            PayloadError: An argument cannot be stored.
        """
        instance_id, orchestration, rest = split(first, args)
        self._refuse_deciders_id(instance_id or orchestration.options.instance_id)
        new = new_instance(
            instance_id,
            orchestration,
            rest,
            kwargs,
            now_ms=self.store.clock(),
            code=self.code_of(orchestration.name, orchestration.version),
        )
        existing = await self.begin(new)
        if existing is not None:
            await self._settle(existing, new, orchestration)
        return self._begun(new.instance_id, orchestration.definition.codec.returns)

    async def send_with_start(
        self,
        signal: Signal[T],
        value: T,
        instance_id: str,
        orchestration: Orchestration[P, R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Handle[R]:
        """Send a signal to an instance, and start it first if it does not exist: in one commit.

        A live instance gets the signal only, whatever its input. Of an ended one
        `orchestration.with_options(if_exists=...)` decides: *restart* and *terminate* replace it,
        anything else refuses.

        Raises:
            InstanceEndedError: The instance has ended.
            AlreadyExistsError: The id is taken by another definition, or has ended and
                `if_exists="fail"` was asked for.
            PayloadError: The value or an argument cannot be stored.
        """
        asked = check_orchestration("send_with_start", orchestration)
        checked = check_id("instance id", instance_id)
        self._refuse_deciders_id(checked)
        delivery = signal_delivery(checked, signal, value)
        # Looked at before: a signal for somebody else cannot be called back.
        [found] = await self.store.read_instances([checked])
        if found is not None and not found.status.is_terminal:
            check_same_definition(found, asked)
        new = new_instance(
            checked,
            asked,
            args,
            kwargs,
            now_ms=self.store.clock(),
            code=self.code_of(asked.name, asked.version),
            messages=(delivery,),
        )
        existing = await self.begin(new)
        if existing is not None and existing.status.is_terminal:
            await self._settle_ended(existing, new, asked)
        return self._begun(checked, asked.definition.codec.returns)

    @overload
    def handle(self, instance_id: str, orchestration: Orchestration[..., R], /) -> Handle[R]: ...
    @overload
    def handle(
        self, instance_id: str, decider: type[Decider[Any, Any, Any, Any]], /
    ) -> Handle[None]: ...
    @overload
    def handle(self, instance_id: str, /) -> Handle[Json]: ...
    def handle(self, instance_id: str, definition: Any = None, /) -> Any:
        """Return a handle to an instance that exists. Asks nothing.

        Args:
            instance_id: Its id; with a decider, the id that the decider gives it.
            definition: The orchestration that it runs, whose result type is known then, or the
                decider whose instance it is.
        """
        checked = check_id("instance id", instance_id)
        if definition is None:
            return self._handle(checked, JSON)
        if isinstance(definition, type) and issubclass(definition, Decider):
            return self._handle(definition_of(definition).stored_id(checked), JSON)
        if not isinstance(definition, Orchestration):
            raise UsageError(
                f"{definition!r} is not an orchestration: handle takes an instance id and the "
                "function made with @orchestration that it runs, or a decider's class"
            )
        return self._handle(checked, definition.definition.codec.returns)

    def within(self, connection: object, /) -> Client:
        """Return this client inside the transaction that is open on a connection of yours: what it
        starts, sends and executes is committed and rolled back with that.

        Args:
            connection: To the store's database, with an open transaction: of asyncpg, psycopg 3,
                sqlite3, or a connection or session of SQLAlchemy. The handle that `start` returns
                is for the time after the commit.

        Raises:
            UsageError: It is none of these. One to another database, or without an open
                transaction, is refused when it is used.
        """
        return self.within_by(connection, None)

    # ------------------------------------------------- for handles and subclasses

    def within_by(self, connection: object, errands: Errands | None) -> Client:
        """Return this client inside a transaction.

        Args:
            connection: Where it is open.
            errands: Runs functions on the thread of a blocking connection; None: this thread.
        """
        # Late: it is a client itself.
        from perdure.client.within import ClientWithin

        return ClientWithin(self, connection, errands)

    def _handle(self, instance_id: str, codec: ValueCodec[Any]) -> Handle[Any]:
        return Handle(self, instance_id, codec)

    def _begun(self, instance_id: str, codec: ValueCodec[Any]) -> Handle[Any]:
        """Return the handle of an instance that was started."""
        return self._handle(instance_id, codec)

    @property
    def store(self) -> Store:
        """The open store."""
        self._refuse_closed()
        return self._store

    def _refuse_closed(self) -> None:
        if not self._is_open:
            raise UsageError(
                f"this {type(self).__name__} is not open: use `async with`, or await open() first"
            )
        self._process.refuse_elsewhere()

    def _refuse_deciders_id(self, instance_id: str | None) -> None:
        """Refuse an id of an orchestration that would be taken for that of a decider's instance."""
        name, separator, _ = (instance_id or "").partition(SEPARATOR)
        if separator and self.find_decider(name) is not None:
            raise InvalidIdError(
                "instance id",
                instance_id,
                f"begins with {name + SEPARATOR!r}, which is for instances of decider {name!r}: "
                "use another id",
            )

    def turns(self) -> TurnRunner:
        """Return what runs turns in this process."""
        self._refuse_closed()
        if self._beside is not None:
            return self._beside.turns
        if self._alone is None:
            self._alone = lone_turns(self._store, self._endings, self.telemetry)
        return self._alone

    def own_worker_id(self) -> str | None:
        """Return the worker of this process, if it works."""
        beside = self._beside
        return beside.worker_id if beside is not None and beside.is_serving else None

    def find_decider(self, name: str) -> DeciderDefinition | None:
        """Return a decider that was handed to the worker of this process."""
        return None if self._beside is None else self._beside.registry.deciders.get(name)

    async def deliver(self, deliveries: Sequence[Delivery]) -> list[DeliveryStatus]:
        """Put messages into inboxes."""
        await self._let_arrive(delivery.instance_id for delivery in deliveries)
        statuses = await self.store.deliver(deliveries, patience_s=PATIENCE_S)
        self.noticed_work()
        for delivery, status in zip(deliveries, statuses, strict=True):
            if status in (DeliveryStatus.DELIVERED, DeliveryStatus.BUFFERED):
                if delivery.kind == SignalReceived.kind:
                    self.telemetry.client_signals.add()
                elif delivery.kind == CancelRequested.kind:
                    self.telemetry.client_cancels.add()
        return statuses

    async def begin(self, new: NewInstance) -> InstanceRow | None:
        """Start an instance; return the row that already has its id, if one does.

        A worker beside us that has the code runs the first turn in the same commit, unless that
        turn comes later or has messages to take.
        """
        if await self._begin_beside(new):
            self._count_start(new)
            return None
        if new.messages:
            await self._let_arrive([new.instance_id])
        [existing] = await self.store.start([new], patience_s=PATIENCE_S)
        self.noticed_work()
        if existing is None:
            self._count_start(new)
        return existing

    async def _let_arrive(self, instance_ids: Iterable[str]) -> None:
        """Have what this client sent to instances inside transactions come before what it is about
        to send or execute."""
        for instance_id in await self.sent_within.arrive(instance_ids):
            self.turns().noticed_mail(instance_id)

    async def _begin_beside(self, new: NewInstance) -> bool:
        """Start an instance and run its first turn in one commit, where that can be done."""
        if self._beside is None or new.visible_at_ms or new.messages:
            return False
        own = self._beside.serves(new.definition.name, new.definition.variant)
        if own is None:
            return False
        try:
            status = await self._beside.turns.start(new, own, patience_s=PATIENCE_S)
        except (NondeterminismError, UnreadableEventError, TurnTooLongError):
            # The start itself is good. As a claimed turn the same trouble holds the instance, where
            # everybody can see it.
            return False
        return status is TurnStatus.ACCEPTED

    def _count_start(self, new: NewInstance) -> None:
        self.telemetry.client_starts.add((new.definition.name, new.definition.variant))

    async def replace(self, ended: InstanceRow, new: NewInstance) -> InstanceRow | None:
        """Start an instance in place of an ended one; return the row that has its id by now, if
        somebody else was faster."""
        await self._removal().delete_children(ended)
        return await self.begin(msgspec.structs.replace(new, replaces=ended.incarnation))

    def code_of(self, name: str, version: str) -> str:
        """Return the digest of the code, where it is known that this code will run."""
        beside = self._beside
        own = None if beside is None else beside.serves(name, version)
        if beside is None or own is None:
            return ""
        return beside.registry.code_of(own.name, own.version)

    async def wait_ended(self, instance_id: str) -> Outcome:
        """Wait until an instance has ended."""
        self._refuse_closed()
        began_s = perf_counter()
        outcome = await self._watch.ended(instance_id)
        self.telemetry.result_wait.observe((outcome.status.value,), perf_counter() - began_s)
        return outcome

    async def wait_reported(self, instance_id: str, after: int) -> ReportRow | None:
        """Wait for a report newer than a version, or the end."""
        self._refuse_closed()
        return await self._watch.reported(instance_id, after=after)

    async def wait_kept(self, instance_id: str, key: str) -> KvRow | None:
        """Wait for a value under a key, or the end."""
        self._refuse_closed()
        return await self._watch.kept(instance_id, key)

    def is_here(self, instance_id: str) -> bool:
        """Tell whether a worker of this process has the instance in memory."""
        return self._beside is not None and self._beside.turns.hot.get(instance_id) is not None

    def noticed_work(self) -> None:
        """Something was written that a worker of this process may take: let it look at once."""
        if self._beside is not None:
            self._beside.notice()

    def noticed_end(self, instance_id: str, incarnation: int, outcome: Outcome) -> None:
        """This client ended an instance itself, or found that somebody else did: stop its jobs
        here, look for what its end told."""
        self._endings.tell(instance_id, outcome)
        self._forget_here(instance_id, incarnation)

    def noticed_gone(self, instance_id: str, incarnation: int) -> None:
        """This client deleted an instance."""
        self._endings.tell_gone(instance_id)
        self._forget_here(instance_id, incarnation)
        self.stop_jobs(instance_id, incarnation)

    def noticed_job_end(self, key: JobKey) -> None:
        """This client ended a job, whoever runs it."""
        if self._beside is not None:
            self._beside.jobs.cancel([key])
            self._beside.notice()

    def stop_jobs(self, instance_id: str, incarnation: int) -> None:
        """Stop the jobs of an instance that run in this process, also if it is not in memory. What
        other processes do is found by the worker itself; what this one does is not."""
        if self._beside is not None:
            jobs = self._beside.jobs
            owner = (instance_id, incarnation)
            jobs.cancel([lease.key for lease in jobs.leases() if lease.key[:2] == owner])

    def _forget_here(self, instance_id: str, incarnation: int) -> None:
        if self._beside is not None:
            self._beside.turns.ended_from_outside(instance_id, incarnation)
            self._beside.notice()

    async def _settle(
        self, existing: InstanceRow, new: NewInstance, orchestration: Orchestration[..., Any]
    ) -> None:
        """The id exists: join it, replace it, or refuse."""
        policy = orchestration.options.if_exists
        if policy == "fail":
            raise AlreadyExistsError(new.instance_id, f"({existing.status})")
        if policy == "terminate" and not existing.status.is_terminal:
            await self.handle(new.instance_id).terminate("replaced by a new start")
            await self._settle_replaced(existing, new, orchestration)
        elif policy in ("restart", "terminate") and existing.status.is_terminal:
            await self._settle_replaced(existing, new, orchestration)
        else:
            await self._join(existing, new, orchestration)

    async def _join(
        self, existing: InstanceRow, new: NewInstance, orchestration: Orchestration[..., Any]
    ) -> None:
        if existing.execution > 1:
            key = ExecutionKey(existing.instance_id, existing.incarnation, 1)
            [first] = await self.store.read_histories([key], limit=1)
            existing = as_begun(existing, first, new)
        check_joinable(existing, new, orchestration, self._code_of(existing))

    def _code_of(self, row: InstanceRow) -> Orchestration[..., Any] | None:
        """Return the code of an instance, if it is here."""
        if self._beside is None:
            return None
        return self._beside.coverage.code_for(orchestration_key(row.name, row.version))

    async def _settle_ended(
        self, existing: InstanceRow, new: NewInstance, orchestration: Orchestration[..., Any]
    ) -> None:
        """A signal came with a start, and the id has ended: replace it, or refuse."""
        match orchestration.options.if_exists:
            case "fail":
                raise AlreadyExistsError(new.instance_id, f"({existing.status})")
            case "restart" | "terminate":
                taken = await self.replace(existing, new)
                # Somebody else replaced it meanwhile: if that one is live, it got the signal.
                if taken is None or not taken.status.is_terminal:
                    return
        raise InstanceEndedError(new.instance_id, existing.status)

    async def _settle_replaced(
        self, existing: InstanceRow, new: NewInstance, orchestration: Orchestration[..., Any]
    ) -> None:
        taken = await self.replace(existing, new)
        if taken is not None:
            await self._join(taken, new, orchestration)


def default_url() -> str:
    """Return the store to use when none is named: `$PERDURE_STORE`, or `sqlite:///perdure.db`, a
    file in the current folder. `run` uses it, and `perdure` on the command line."""
    return os.environ.get("PERDURE_STORE", "sqlite:///perdure.db")
