"""The client and the handle for callers that wait instead of awaiting.

Made by `tools/make_blocking.py` from `client/client.py` and `client/handle.py`: change those, and
run it again.
"""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.signal import Signal
from perdure.authoring.update import AskedUpdate
from perdure.client.blocking import admin as blocking_admin
from perdure.client.blocking import bulk as blocking_bulk
from perdure.client.blocking import decider_json as blocking_decider_json
from perdure.client.blocking import deciders as blocking_deciders
from perdure.client.blocking import going_back as blocking_going_back
from perdure.client.blocking import kept_values as blocking_kept_values
from perdure.client.blocking import projections as blocking_projections
from perdure.client.blocking import promises as blocking_promises
from perdure.client.blocking import reading as blocking_reading
from perdure.client.blocking import schedules as blocking_schedules
from perdure.client.blocking import stream_items as blocking_stream_items
from perdure.client.blocking import updates as blocking_updates
from perdure.client.blocking.loop_thread import CallersThread, LoopThread
from perdure.client.client import Client
from perdure.client.handle import Handle
from perdure.client.histories.points import Point
from perdure.client.lifetimes import entered_without_async
from perdure.client.reading.info import InstanceInfo, InstanceTree, JobInfo, Json, Progress
from perdure.clock import Clock, system_clock
from perdure.durations import Duration
from perdure.model.admin import DeletedCounts, InstanceStats
from perdure.model.options import IfHeld
from perdure.telemetry import Metrics

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


@entered_without_async
class BlockingClient:
    """A door to the instances of one store, or of the server at an `https://` URL.

    Use it as `with BlockingClient(url) as client:`, or call `open` and `close`.

    It may be used from any thread, and from several at once. The work is done on a private thread
    while the calling one sleeps: called inside a running event loop, it holds up everything else
    there, so use `Client` where you can await. Ctrl-C breaks off the wait and nothing more.
    """

    def __init__(
        self,
        url: str,
        /,
        *,
        create: bool = False,
        clock: Clock = system_clock,
        token: str | None = None,
    ) -> None:
        self._client = Client(url, create=create, clock=clock, token=token)
        self._thread = LoopThread(type(self).__name__)

    @classmethod
    def _around(cls, client: Client, thread: LoopThread) -> Self:
        """Return a client that has another one do the work, on the loop of a thread."""
        blocking = cls.__new__(cls)
        blocking._client = client
        blocking._thread = thread
        return blocking

    @property
    def telemetry(self) -> Metrics:
        """What this client counted."""
        return self._client.telemetry

    def __enter__(self) -> Self:
        self._thread.enter()
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def within(self, connection: object, /) -> BlockingClient:
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
        # Statements run on the caller's thread: a connection may belong to it.
        thread = CallersThread(self._thread)
        return BlockingClient._around(self._client._within(connection, thread), thread)

    def open(self) -> Self:
        """Connect to the store."""
        self._thread.open(self._client.open())
        return self

    def close(self) -> None:
        """Let go of the store. In a forked child that is the parent's, and nothing happens."""
        self._thread.close(self._client.close())

    @overload
    def start(
        self,
        instance_id: str,
        orchestration: Orchestration[P, R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> BlockingHandle[R]: ...
    @overload
    def start(
        self, orchestration: Orchestration[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> BlockingHandle[R]: ...
    def start(self, first: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Start an instance, under an id that is given or made; durable when this returns.

        An id that exists with an equal definition and input gives its handle, live or finished.
        `orchestration.with_options(if_exists=...)` says otherwise; `delay=` lets it begin later.

        Raises:
            AlreadyExistsError: The id is taken by another definition or input.
            PayloadError: An argument cannot be stored.
        """
        return BlockingHandle(
            self._thread, self._thread.run(self._client.start(first, *args, **kwargs))
        )

    def send_with_start(
        self,
        signal: Signal[T],
        value: T,
        instance_id: str,
        orchestration: Orchestration[P, R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> BlockingHandle[R]:
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
        return BlockingHandle(
            self._thread,
            self._thread.run(
                self._client.send_with_start(
                    signal, value, instance_id, orchestration, *args, **kwargs
                )
            ),
        )

    def update_with_start(
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
        return self._thread.run(
            self._client.update_with_start(
                update, value, instance_id, orchestration, *args, **kwargs
            )
        )

    @overload
    def handle(
        self, instance_id: str, orchestration: Orchestration[..., R], /
    ) -> BlockingHandle[R]: ...
    @overload
    def handle(
        self, instance_id: str, decider: type[Decider[Any, Any, Any, Any]], /
    ) -> BlockingHandle[None]: ...
    @overload
    def handle(self, instance_id: str, /) -> BlockingHandle[Json]: ...
    def handle(self, instance_id: str, definition: Any = None, /) -> Any:
        """Return a handle to an instance that exists. Asks nothing.

        Args:
            instance_id: Its id; with a decider, the id that the decider gives it.
            definition: The orchestration that it runs, whose result type is known then, or the
                decider whose instance it is. `orchestration.with_options(version=...)` names the
                version that `reset` and `fork` go on with.
        """
        return BlockingHandle(self._thread, self._client.handle(instance_id, definition))

    resolve = blocking_promises.resolve
    reject = blocking_promises.reject
    execute = blocking_deciders.execute
    send = blocking_deciders.send
    execute_json = blocking_deciders.execute_json
    send_json = blocking_deciders.send_json
    state = blocking_deciders.state
    events = blocking_deciders.events
    state_json = blocking_decider_json.state_json
    events_json = blocking_decider_json.events_json
    transitions = blocking_deciders.transitions
    dry_run = blocking_deciders.dry_run
    observations = blocking_deciders.observations
    key_holder = blocking_deciders.key_holder
    put_schedule = blocking_schedules.put_schedule
    schedule = blocking_schedules.schedule
    schedules = blocking_schedules.schedules
    instances = blocking_admin.instances
    count = blocking_admin.count
    delete = blocking_admin.delete
    delete_all = blocking_admin.delete_all
    prune = blocking_admin.prune
    metrics = blocking_admin.metrics
    queues = blocking_admin.queues
    workers = blocking_admin.workers
    sessions = blocking_admin.sessions
    dead_jobs = blocking_admin.dead_jobs
    count_dead_jobs = blocking_admin.count_dead_jobs
    retry_dead_job = blocking_admin.retry_dead_job
    retry_dead_jobs = blocking_admin.retry_dead_jobs
    forget_dead_job = blocking_admin.forget_dead_job
    complete_job = blocking_admin.complete_job
    fail_job = blocking_admin.fail_job
    inbox = blocking_admin.inbox
    drop_message = blocking_admin.drop_message
    cancel_all = blocking_bulk.cancel_all
    terminate_all = blocking_bulk.terminate_all
    signal_all = blocking_bulk.signal_all
    unpark_all = blocking_bulk.unpark_all
    retry_all = blocking_bulk.retry_all
    reset_all = blocking_bulk.reset_all
    projections = blocking_projections.projections
    projection = blocking_projections.projection
    pause_projection = blocking_projections.pause_projection
    resume_projection = blocking_projections.resume_projection
    rebuild_projection = blocking_projections.rebuild_projection
    forget_projection = blocking_projections.forget_projection


class BlockingHandle(Generic[R_co]):
    """One instance. Making a handle asks nothing; every method does."""

    instance_id: str
    """Its id, as it is stored."""

    def __init__(self, thread: LoopThread, handle: Handle[R_co]) -> None:
        self.instance_id = handle.instance_id
        self._thread = thread
        self._handle = handle

    def __repr__(self) -> str:
        return f"BlockingHandle({self.instance_id!r})"

    def _repr_html_(self) -> str:
        return self._handle._repr_html_()

    def __rich__(self) -> Any:
        return self._handle.__rich__()

    def result(self, *, timeout: Duration | None = None, if_held: IfHeld = "warn") -> R_co:
        """Wait for the end and return the result.

        Args:
            timeout: How long to wait, as a timedelta or in seconds; for ever if not given. Zero
                asks for a result that is there already.
            if_held: What to do when the instance is blocked or parked, and so does not go on by
                itself: warn at once and wait (*warn*), raise an InstanceHeldError (*raise*), or
                wait without a word (*wait*).

        Raises:
            InstanceFailedError: It failed; the error names the original and where it was raised.
            InstanceCancelledError: It was cancelled.
            InstanceTerminatedError: It was terminated.
            InstanceNotFoundError: There is no such instance.
            InstanceHeldError: It is blocked or parked, and `if_held` is *raise*.
            ResultTimeoutError: It has not ended in time; the text says what it waits for.
        """
        return self._thread.run(self._handle.result(timeout=timeout, if_held=if_held))

    def info(self) -> InstanceInfo:
        """Return where the instance stands."""
        return self._thread.run(self._handle.info())

    def explain(self) -> str:
        """Return one sentence: what it waits for, since when, who holds it, why nothing moves."""
        return self._thread.run(self._handle.explain())

    def tree(self, *, calls: bool = True) -> InstanceTree:
        """Return the instance with all that it started and called, to any depth.

        What it started and waits for are `children`. Deciders that were given inputs, by
        `ctx.execute` and `ctx.send` or by the decision of another decider, are `calls` of the one
        that did so, as the histories of its newest 100 executions tell. Pages of a `for_each` are
        below its coordinator, if that is asked; there may be thousands of them.

        Args:
            calls: Whether to look for calls. Without them only rows are read, no histories.

        Raises:
            LimitExceededError: They are too many to be shown as a whole.
        """
        return self._thread.run(self._handle.tree(calls=calls))

    def stats(self) -> InstanceStats:
        """Return how much is stored for the instance."""
        return self._thread.run(self._handle.stats())

    def jobs(self) -> list[JobInfo]:
        """Return the calls of activities that have not ended: queued, running, to be retried."""
        return self._thread.run(self._handle.jobs())

    def progress(self) -> list[Progress]:
        """Return what the running activities of the instance said of their progress."""
        return self._thread.run(self._handle.progress())

    def send(self, signal: Signal[T], value: T, /, *, message_id: str | None = None) -> None:
        """Send a signal. It is kept until the orchestration receives it.

        Args:
            signal: Its name and type.
            value: Checked and encoded at once.
            message_id: Sent again with the same id, the signal is delivered once.

        Raises:
            InstanceEndedError: The instance has ended.
        """
        self._thread.run(self._handle.send(signal, value, message_id=message_id))

    def cancel(self, reason: str = "") -> None:
        """Ask the instance to stop: its code sees `CancelledError` and may clean up.

        A delayed one begins now, to be stopped. An instance that has ended stays as it is.
        """
        self._thread.run(self._handle.cancel(reason))

    def terminate(self, reason: str = "") -> None:
        """Stop the instance now; its code is not asked. Works without any worker.

        Its children hear of it as `on_parent_close` says, and theirs, down to the last one. An
        instance that has ended stays as it is.
        """
        self._thread.run(self._handle.terminate(reason))

    def restart(self) -> None:
        """Start an instance that has ended again, with the definition and input of its last
        execution. What it left behind is removed.

        Raises:
            InstanceNotFoundError: There is no such instance.
            InstanceRunningError: It has not ended.
            UsageError: It is a decider's, or a part of a `for_each` with `results=`.
        """
        self._thread.run(self._handle.restart())

    def fork(self, instance_id: str, point: Point | None = None, /) -> BlockingHandle[R_co]:
        """Start another instance that begins with what this one did up to a point. This one is left
        as it is, and may run.

        Args:
            instance_id: The id of the new one.
            point: As in `reset`, and so is the version.

        Raises:
            InstanceNotFoundError: There is no such instance.
            AlreadyExistsError: The id is taken.
            UsageError: It is a decider's, or has no such point.
        """
        return BlockingHandle(self._thread, self._thread.run(self._handle.fork(instance_id, point)))

    def unpark(self) -> bool:
        """Let a parked or blocked instance be tried again by any worker.

        Returns:
            Whether it was parked or blocked.
        """
        return self._thread.run(self._handle.unpark())

    def delete(self, *, force: bool = False) -> DeletedCounts:
        """Delete the instance and everything below it, as `client.delete` does."""
        return self._thread.run(self._handle.delete(force=force))

    def prune(self, *, keep_last: int = 1, before: datetime | None = None) -> DeletedCounts:
        """Remove the histories of earlier executions. The current one always stays.

        Args:
            keep_last: How many executions stay, the current one included.
            before: Only executions that ended earlier than that.

        Raises:
            InstanceNotFoundError: There is no such instance.
        """
        return self._thread.run(self._handle.prune(keep_last=keep_last, before=before))

    executions = blocking_reading.executions
    history = blocking_reading.history
    export = blocking_reading.export
    plan = blocking_going_back.plan
    reset = blocking_going_back.reset
    report = blocking_kept_values.report
    wait_report = blocking_kept_values.wait_report
    kv = blocking_kept_values.kv
    wait_kv = blocking_kept_values.wait_kv
    stream = blocking_stream_items.stream
    streams = blocking_stream_items.streams
    update = blocking_updates.update
    ask = blocking_updates.ask
