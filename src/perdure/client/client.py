"""The client: start instances, and get handles to them. Works without a worker."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import definition_of
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.signal import Signal
from perdure.authoring.update import AskedUpdate
from perdure.client import admin
from perdure.client.acting import bulk, promises
from perdure.client.acting.existing import settle
from perdure.client.acting.sending import signal_delivery
from perdure.client.acting.start_and_ask import ask_with_start, begin_with_signal
from perdure.client.acting.starting import (
    check_orchestration,
    id_for_handle,
    new_instance,
    refuse_deciders_id,
    split,
)
from perdure.client.acting.update_requests import checked_request
from perdure.client.core import ClientCore
from perdure.client.deciders import decider_json, deciders
from perdure.client.deciders import projections as readers
from perdure.client.deciders import schedules as scheduling
from perdure.client.deciders.inputs import InputSender
from perdure.client.handle import Handle
from perdure.client.histories.moving import moved_version
from perdure.client.lifetimes import entered_with_async
from perdure.client.reading.info import Json
from perdure.client.remote.urls import is_remote
from perdure.client.within import CoreWithin, SenderWithin
from perdure.clock import Clock, system_clock
from perdure.codec import JSON, check_id
from perdure.errors import UsageError
from perdure.store.observer import Observer
from perdure.store.opening import open_store
from perdure.store.within.borrowing import RunOnThread
from perdure.telemetry import Metrics

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")


@entered_with_async
class Client:
    """A door to the instances of one store, or of the server at an `https://` URL.

    Use it as `async with Client(url) as client:`, or call `open` and `close`.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a client that fits the URL: one over HTTP is of a class of its own."""
        if cls is Client and is_remote(args[0] if args else ""):
            # Late: brings what only callers over HTTP need.
            from perdure.client.remote.client import RemoteClient

            remote: Any = super().__new__(RemoteClient)
            return remote  # type: ignore[no-any-return]  # a subclass of Client, which cls is
        return super().__new__(cls)

    def __init__(
        self,
        url: str,
        /,
        *,
        create: bool = False,
        clock: Clock = system_clock,
        token: str | None = None,
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            url: Where the store is: `sqlite:///shop.db`, `sqlite://:memory:shop` (shared within the
                process), `postgresql://user@host/shop`; or the HTTP API that `perdure ui` or
                `perdure.web.app` serves: `https://shop.example/perdure`.
            create: Make the store if there is none yet, as a worker does. A client does not by
                default: a misspelled path would be a new, empty store.
            clock: The store's clock; tests hand one in.
            token: What a server asks for; a store takes none.

        Raises:
            UsageError: The URL is of no known form, or a store was given a token.
        """
        if token is not None:
            raise UsageError("token= is for the URL of a server, https://...; a store takes none")
        metrics = Metrics()
        store = open_store(url, clock=clock)
        store.creates = create
        store.observer = Observer(metrics.store_duration.observe, metrics.store_errors.add)
        self._core = ClientCore(store, metrics, owner=type(self).__name__)
        self._inputs = InputSender(self._core)

    @classmethod
    def _around(cls, core: ClientCore, inputs: InputSender) -> Self:
        """Return a client of a store that is open."""
        client = cls.__new__(cls)
        client._core = core
        client._inputs = inputs
        return client

    @property
    def telemetry(self) -> Metrics:
        """What this client counted, and the worker beside it if there is one."""
        return self._core.metrics

    async def __aenter__(self) -> Self:
        self._core.enter()
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
        await self._core.open()
        return self

    async def close(self) -> None:
        """Let go of the store. In a forked child that is the parent's, and nothing happens."""
        await self._core.close()

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
        core = self._core
        instance_id, orchestration, rest = split(first, args)
        refuse_deciders_id(core, instance_id or orchestration.options.instance_id)
        new = new_instance(
            instance_id,
            orchestration,
            rest,
            kwargs,
            now_ms=core.store.clock(),
            code=core.code_of(orchestration.name, orchestration.version),
        )
        begun = core.mark_news()
        existing = await core.begin(new)
        if existing is not None:
            begun = None
            await settle(core, existing, new, orchestration)
        # What was started inside a transaction runs after it, so its handle is for that time.
        returns = orchestration.definition.codec.returns
        return Handle(core.outside, new.instance_id, returns, begun=begun)

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
        core = self._core
        asked = check_orchestration("send_with_start", orchestration)
        delivery = signal_delivery(check_id("instance id", instance_id), signal, value)
        await begin_with_signal(core, delivery, asked, args, kwargs)
        return Handle(core.outside, delivery.instance_id, asked.definition.codec.returns)

    async def update_with_start(
        self,
        update: AskedUpdate[T, A],
        value: T,
        instance_id: str,
        orchestration: Orchestration[P, Any],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> A:
        """Ask an instance, and start it first if it does not exist: in one commit; then wait for
        the answer, as `Handle.update` does.

        A live instance is only asked, whatever its input. Of an ended one
        `orchestration.with_options(if_exists=...)` decides, unless the update was given before:
        *restart* and *terminate* replace it, anything else refuses.
        `update.with_options(update_id=..., timeout=...)` says under which id, and for how long.

        Raises:
            UpdateRefusedError: The code refused it; the error has the reason.
            UpdateUnansweredError: What took it has ended, or the instance ended before.
            InstanceEndedError: The instance has ended; nothing was sent.
            AlreadyExistsError: The id is taken by another definition, or has ended and
                `if_exists="fail"` was asked for.
            InputIdReusedError: The id of the update was given before, with another one.
            PayloadError: The value or an argument cannot be stored.
            ResultTimeoutError: There is no answer in time.
        """
        core = self._core
        asked = check_orchestration("update_with_start", orchestration)
        checked = check_id("instance id", instance_id)
        refuse_deciders_id(core, checked)
        request = checked_request(checked, update, value)
        handle: Handle[Any] = Handle(core, checked, asked.definition.codec.returns)
        waiting = ask_with_start(core, request, asked, args, kwargs)
        what = f"answer to update {update.name!r}"
        answer = await handle._within(update.options.timeout, waiting, what, starts=True)
        return update.answers_codec.decode(answer)

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
                decider whose instance it is. `orchestration.with_options(version=...)` names the
                version that `reset` and `fork` go on with.
        """
        checked = id_for_handle(instance_id)
        if definition is None:
            return Handle(self._core, checked, JSON)
        if isinstance(definition, type) and issubclass(definition, Decider):
            return Handle(self._core, definition_of(definition).stored_id(checked), JSON)
        if not isinstance(definition, Orchestration):
            raise UsageError(
                f"{definition!r} is not an orchestration: handle takes an instance id and the "
                "function made with @orchestration that it runs, or a decider's class"
            )
        returns = definition.definition.codec.returns
        return Handle(self._core, checked, returns, moved_version(definition))

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
        return self._within(connection, None)

    def _within(self, connection: object, errands: RunOnThread | None) -> Client:
        """Return this client inside a transaction.

        Args:
            connection: Where it is open.
            errands: Runs functions on the thread of a blocking connection; None: this thread.
        """
        core = CoreWithin(self._core, connection, errands)
        return Client._around(core, SenderWithin(core))

    # What follows is written where it belongs by its subject; this is the whole list.

    # Promises.
    resolve = promises.resolve
    reject = promises.reject

    # Deciders.
    execute = deciders.execute
    send = deciders.send
    execute_json = deciders.execute_json
    send_json = deciders.send_json
    state = deciders.state
    events = deciders.events
    state_json = decider_json.state_json
    events_json = decider_json.events_json
    transitions = deciders.transitions
    dry_run = deciders.dry_run
    observations = deciders.observations
    key_holder = deciders.key_holder

    # Schedules.
    put_schedule = scheduling.put_schedule
    schedule = scheduling.schedule
    schedules = scheduling.schedules

    # The whole store, for operators.
    instances = admin.instances
    count = admin.count
    delete = admin.delete
    delete_all = admin.delete_all
    prune = admin.prune
    metrics = admin.metrics
    queues = admin.queues
    workers = admin.workers
    sessions = admin.sessions
    dead_jobs = admin.dead_jobs
    count_dead_jobs = admin.count_dead_jobs
    retry_dead_job = admin.retry_dead_job
    retry_dead_jobs = admin.retry_dead_jobs
    forget_dead_job = admin.forget_dead_job
    complete_job = admin.complete_job
    fail_job = admin.fail_job
    inbox = admin.inbox
    drop_message = admin.drop_message

    # Many instances at once, by a filter.
    cancel_all = bulk.cancel_all
    terminate_all = bulk.terminate_all
    signal_all = bulk.signal_all
    unpark_all = bulk.unpark_all
    retry_all = bulk.retry_all
    reset_all = bulk.reset_all

    # Projections and subscriptions, for operators.
    projections = readers.projections
    projection = readers.projection
    pause_projection = readers.pause_projection
    resume_projection = readers.resume_projection
    rebuild_projection = readers.rebuild_projection
    forget_projection = readers.forget_projection


def default_url() -> str:
    """Return the store to use when none is named: `$PERDURE_STORE`, or `sqlite:///perdure.db`, a
    file in the current folder. `run` uses it, and `perdure` on the command line."""
    return os.environ.get("PERDURE_STORE", "sqlite:///perdure.db")
