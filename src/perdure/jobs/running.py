"""What the code of an attempt sees: the `ActivityContext` at a worker.

Most attempts ask for nothing of this, so everything is worked out when it is asked for. Threads may
use it: what they write is a single assignment each.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, MutableMapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from perdure.authoring.kv import encode_value
from perdure.clock import Clock, to_datetime
from perdure.codec import JSON, value_codec
from perdure.durations import Duration, as_duration
from perdure.errors import LimitExceededError, UsageError
from perdure.ids import chance
from perdure.jobs.sending import SendingAttempt, StreamFlusher
from perdure.limits import MAX_DETAILS_BYTES
from perdure.model.jobs import ClaimedJob

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from perdure.jobs.attempts import JobCode
    from perdure.jobs.slots import JobRun

T = TypeVar("T")


class Host(NamedTuple):
    """What all attempts at a worker share."""

    worker_id: str
    clock: Clock
    resources: tuple[object, ...] = ()
    """What activities fetch with `ctx.resource(Type)`."""
    client: Callable[[], Any] = lambda: None
    """Returns what they get with `ctx.client`, by where they run."""
    notice: Callable[[RunningActivity], None] = lambda _: None
    """Hears, from any thread, that code has said something."""
    streams: StreamFlusher | None = None
    """Stores what they send to streams; None: nothing does here."""
    chance: Callable[[], float] = chance
    """Returns a random number between 0 and 1, for the jitter of retries."""
    stand_in: Callable[[JobRun], JobCode | None] = lambda _: None
    """Hears of each attempt of an activity before its code is called. What it returns is called
    instead, on the loop; for tests of what users write."""


class RunningActivity:
    """The context of one attempt."""

    is_cancelled = False
    details: bytes | None = None
    """What the code's last heartbeat said."""
    shown: bytes | None = None
    """The progress that it showed last."""
    written: tuple[bytes | None, bytes | None] = (None, None)
    """Which details and progress the store has; kept by the task that writes them."""
    attempt_until_ms: int | None = None
    """When the attempt times out."""
    call_until_ms: int | None = None
    """When the call does."""
    sending: SendingAttempt | None = None
    """What it has sent to streams, if that is anything."""
    is_in_transaction = False
    """Whether its rows and its end are one commit."""
    _waiters: list[Callable[[], None]] | None = None

    def __init__(self, job: ClaimedJob, activity: str, host: Host) -> None:
        self.job = job
        self.activity = activity
        self._host = host

    # ------------------------------------------------------------ who and what

    @property
    def instance_id(self) -> str:
        """The instance that made the call."""
        return self.job.key.instance_id

    @property
    def execution(self) -> int:
        """Which execution of the instance made it, from 1."""
        return self.job.key.execution

    @property
    def orchestration(self) -> str:
        """The name of the orchestration that made it, or of the decider whose effect it is."""
        return self.job.owner_name

    @property
    def orchestration_version(self) -> str:
        """The version that the instance is recorded with; empty for a decider."""
        return self.job.owner_version

    @property
    def tag(self) -> str | None:
        """The tag that the call was made with."""
        queue = self.job.queue
        return queue.variant or None if queue.kind == "activity" else None

    @property
    def session(self) -> str | None:
        """The session that the call belongs to."""
        return self.job.session

    @property
    def worker_id(self) -> str:
        """The worker that runs it."""
        return self._host.worker_id

    @property
    def attempt(self) -> int:
        """Which run of this call this is, from 1."""
        return self.job.attempt

    @property
    def idempotency_key(self) -> str:
        """A string that is equal in all attempts of this call and unlike any other call's."""
        return self.job.key.idempotency_key

    @property
    def scheduled_at(self) -> datetime:
        """When the call was made."""
        return to_datetime(self.job.created_ms)

    @property
    def deadline(self) -> datetime | None:
        """When this attempt must have ended."""
        until_ms = self.until_ms
        return None if until_ms is None else to_datetime(until_ms)

    @property
    def until_ms(self) -> int | None:
        """The same in milliseconds: the sooner of its timeout and the call's deadline."""
        limits = (self.attempt_until_ms, self.call_until_ms)
        return min((limit for limit in limits if limit is not None), default=None)

    # --------------------------------------------------------------- being stopped

    def cancel(self) -> None:
        """Tell the code that its result is not waited for. For the worker, on its loop."""
        self.is_cancelled = True
        for wake in list(self._waiters or ()):
            wake()

    async def cancelled(self) -> None:
        """Wait until the result is not waited for any more."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not future.done():
                future.set_result(None)

        def wake() -> None:
            # The code may have made a loop of its own, on a thread of its own.
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle)

        waiters = self._wait_list()
        waiters.append(wake)
        try:
            if not self.is_cancelled:
                await future
        finally:
            waiters.remove(wake)

    def wait_cancelled(self, timeout: Duration | None = None) -> bool:
        """Block until the result is not waited for, or the time is over; return which."""
        if asyncio._get_running_loop() is not None:
            raise UsageError(
                f"{self.activity} is async: wait_cancelled() would block the worker; "
                "use `await ctx.cancelled()`"
            )
        limit = None if timeout is None else as_duration("timeout", timeout)
        told = threading.Event()
        waiters = self._wait_list()
        waiters.append(told.set)
        try:
            if not self.is_cancelled:
                told.wait(None if limit is None else limit.total_seconds())
        finally:
            waiters.remove(told.set)
        return self.is_cancelled

    def _wait_list(self) -> list[Callable[[], None]]:
        # setdefault is one step for all threads: all get the same list.
        waiters: list[Callable[[], None]] = self.__dict__.setdefault("_waiters", [])
        return waiters

    # ------------------------------------------------------------ saying something

    def heartbeat(self, details: object = None) -> None:
        """Say that the work goes on; raises `asyncio.CancelledError` when it was cancelled."""
        if self.is_cancelled:
            raise asyncio.CancelledError(f"nobody waits for {self.activity} any more")
        if details is not None:
            self.details = _encode(details, f"details of {self.activity}")
            self._host.notice(self)

    @overload
    def last_details(self, kind: None = None, /) -> Any: ...
    @overload
    def last_details(self, kind: TypeForm[T], /) -> T | None: ...
    def last_details(self, kind: Any = None, /) -> Any:
        """Return what the last heartbeat of an earlier attempt said."""
        details = self.job.details
        codec = JSON if kind is None else value_codec(kind)
        return None if details is None else codec.decode(details)

    def progress(self, value: object) -> None:
        """Show how far the work has come."""
        self.shown = _encode(value, f"progress of {self.activity}")
        self._host.notice(self)

    def send_item(self, stream: str, item: bytes) -> None:
        """Send an item to a stream. Any thread may."""
        streams = self._host.streams
        if streams is None:
            raise UsageError(f"{self.activity}: no worker is here that stores stream {stream!r}")
        if self.is_in_transaction:
            raise UsageError(
                f"{self.activity} cannot send to stream {stream!r}: a @transaction writes all it "
                "does in one commit, and streams are written before; send from another activity, "
                "or from the orchestration"
            )
        if self.sending is None:
            # setdefault is one step for all threads.
            begun = streams.begin(self.job, self.activity)
            self.__dict__.setdefault("sending", begun)
        assert self.sending is not None
        self.sending.send(stream, item)

    async def flush_items(self) -> None:
        """Wait until what was sent is stored."""
        if self.sending is not None:
            await self.sending.flush()

    def pass_on(self, details: bytes | None, shown: bytes | None) -> None:
        """Take over what the code said in a process of its own."""
        self.details, self.shown = details, shown
        self._host.notice(self)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that knows the instance, the execution, the activity and the attempt."""
        return _ActivityLog(self)

    # ------------------------------------------------------------- having something

    def resource(self, kind: type[T], /) -> T:
        """Return the one resource of this type."""
        resources = self._host.resources
        found = [resource for resource in resources if isinstance(resource, kind)]
        if len(found) == 1:
            return found[0]
        here = ", ".join(type(resource).__qualname__ for resource in resources) or "none"
        problem = "several resources are" if found else "no resource is"
        raise UsageError(
            f"{self.activity}: {problem} a {kind.__qualname__} (handed to the worker: {here}); "
            "hand over exactly one with resources=[...]"
        )

    @property
    def client(self) -> Any:
        """The worker's own client."""
        return self._host.client()


def _encode(value: object, what: str) -> bytes:
    data = encode_value(value, what)
    if len(data) > MAX_DETAILS_BYTES:
        raise LimitExceededError(
            f"{what} (bytes)",
            allowed=MAX_DETAILS_BYTES,
            found=len(data),
            advice="keep it elsewhere and say where",
        )
    return data


class _ActivityLog(logging.LoggerAdapter[logging.Logger]):
    def __init__(self, context: RunningActivity) -> None:
        super().__init__(logging.getLogger("perdure.activity"), {})
        self._context = context

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        extra: Mapping[str, Any] = kwargs.get("extra") or {}
        context = self._context
        kwargs["extra"] = {
            "instance_id": context.instance_id,
            "execution": context.execution,
            "activity": context.activity,
            "attempt": context.attempt,
            "definition": context.orchestration,
            "version": context.orchestration_version,
            **extra,
        }
        return msg, kwargs
