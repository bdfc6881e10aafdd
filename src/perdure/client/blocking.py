"""The client and the handle for callers that wait instead of awaiting.

Made by `tools/make_blocking.py` from `client.py` and `handle.py`: change those, and run it again.
"""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.signal import Signal
from perdure.client.client import Client
from perdure.client.handle import Handle
from perdure.client.info import HistoryEvent, InstanceInfo, Json
from perdure.client.loop_thread import LoopThread
from perdure.clock import Clock, system_clock

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class BlockingClient:
    """A door to the instances of one store.

    Use it as `with BlockingClient(url) as client:`, or call `open` and `close`.

    It may be used from any thread, and from several at once. The work is done on a private thread
    while the calling one sleeps: called inside a running event loop, it holds up everything else
    there, so use `Client` where you can await. Ctrl-C breaks off the wait and nothing more.
    """

    def __init__(self, url: str, /, *, clock: Clock = system_clock) -> None:
        self._client = Client(url, clock=clock)
        self._thread = LoopThread(type(self).__name__)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def open(self) -> Self:
        """Connect to the store."""
        self._thread.open(self._client.open())
        return self

    def close(self) -> None:
        """Let go of the store."""
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
        `orchestration.with_options(if_exists=...)` says otherwise.

        Raises:
            AlreadyExistsError: The id is taken by another definition or input.
            PayloadError: An argument cannot be stored.
        """
        return BlockingHandle(
            self._thread, self._thread.run(self._client.start(first, *args, **kwargs))
        )

    @overload
    def handle(
        self, instance_id: str, orchestration: Orchestration[..., R], /
    ) -> BlockingHandle[R]: ...
    @overload
    def handle(self, instance_id: str, /) -> BlockingHandle[Json]: ...
    def handle(self, instance_id: str, orchestration: Any = None, /) -> Any:
        """Return a handle to an instance that exists. Asks nothing."""
        return BlockingHandle(self._thread, self._client.handle(instance_id, orchestration))


class BlockingHandle(Generic[R_co]):
    """One instance. Making a handle asks nothing; every method does."""

    def __init__(self, thread: LoopThread, handle: Handle[R_co]) -> None:
        self.instance_id = handle.instance_id
        self._thread = thread
        self._handle = handle

    def __repr__(self) -> str:
        return f"BlockingHandle({self.instance_id!r})"

    def result(self, *, timeout: timedelta | None = None) -> R_co:
        """Wait for the end and return the result.

        Raises:
            InstanceFailedError: It failed; the error names the original.
            InstanceCancelledError: It was cancelled.
            InstanceTerminatedError: It was terminated.
            InstanceNotFoundError: There is no such instance.
            ResultTimeoutError: It has not ended in time; the text says what it waits for.
        """
        return self._thread.run(self._handle.result(timeout=timeout))

    def info(self) -> InstanceInfo:
        """Return where the instance stands."""
        return self._thread.run(self._handle.info())

    def history(self) -> list[HistoryEvent]:
        """Return everything recorded in the current execution."""
        return self._thread.run(self._handle.history())

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

        An instance that has ended stays as it is.
        """
        self._thread.run(self._handle.cancel(reason))

    def terminate(self, reason: str = "") -> None:
        """Stop the instance now; its code is not asked. Works without any worker.

        An instance that has ended stays as it is.
        """
        self._thread.run(self._handle.terminate(reason))

    def explain(self) -> str:
        """Return one sentence: what it waits for, since when, who holds it, why nothing moves."""
        return self._thread.run(self._handle.explain())
