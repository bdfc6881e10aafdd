"""Activities with `process=True`: each slot has a process of its own, started when first needed.

A process that hangs or must stop is killed alone, with all it started, and a new one takes its
place at the next job. A crash is a failure of the attempt like any other. What crosses the border
is JSON: the name of the function, ids, the stored arguments, heartbeats and progress, the stored
result. Nothing of the user's is ever pickled, so the function must be found under its name by
importing its module.

In the child, cancellation is death: there is no `is_cancelled` to look at. The worker's resources,
its client and its logging are not there either.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import threading
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from perdure.authoring.activity import Activity, activity
from perdure.authoring.activity_context import current_activity
from perdure.clock import system_clock
from perdure.errors import DefinitionError, LimitExceededError, UsageError
from perdure.jobs.attempts import (
    AttemptResult,
    JobCode,
    Raised,
    activity_work,
    call_sync,
    raised,
    returning_input,
)
from perdure.jobs.running import Host, RunningActivity
from perdure.jobs.threads import Threads
from perdure.model.histories.events import Failure
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import ClaimedJob, JobKey

END_WITHIN_S = 1.0
"""How long a process may take to end by itself once its connection is closed."""

DIED = "WorkerProcessDied"
"""Type name of the failure of an attempt whose process ended under it."""

T = TypeVar("T")


class ProcessRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is told about an attempt. The stored arguments follow by themselves, since
    that they are JSON has not been checked yet."""

    module: str
    qualname: str
    name: str
    worker_id: str
    key: JobKey
    queue: DefinitionKey
    attempt: int
    created_ms: int
    until_ms: int | None
    session: str | None
    owner_name: str
    owner_version: str
    details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    returns_input: bool = False

    @staticmethod
    def of(context: RunningActivity, work: JobCode) -> ProcessRequest:
        """Describe an attempt of a job."""
        job = context.job
        return ProcessRequest(
            module=work.fn.__module__,
            qualname=work.fn.__qualname__,
            name=work.name,
            worker_id=context.worker_id,
            key=job.key,
            queue=job.queue,
            attempt=job.attempt,
            created_ms=job.created_ms,
            until_ms=context.until_ms,
            session=job.session,
            owner_name=job.owner_name,
            owner_version=job.owner_version,
            details=_raw(job.details),
            returns_input=work.returns_input,
        )


class Said(msgspec.Struct, frozen=True, tag=True):
    """What an attempt says while it runs."""

    details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    progress: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class SaidItem(msgspec.Struct, frozen=True, tag=True):
    """What an attempt sends to a stream."""

    stream: str
    item: msgspec.Raw


_encoder = msgspec.json.Encoder()
_requests = msgspec.json.Decoder(ProcessRequest)
_replies = msgspec.json.Decoder(AttemptResult | Said | SaidItem)


def _raw(data: bytes | None) -> msgspec.Raw | msgspec.UnsetType:
    return msgspec.UNSET if data is None else msgspec.Raw(data)


def _bytes(data: msgspec.Raw | msgspec.UnsetType) -> bytes | None:
    return bytes(data) if isinstance(data, msgspec.Raw) else None


def check_process_activity(found: Activity[..., Any]) -> None:
    """Make sure that another process can find the function of an activity.

    Raises:
        DefinitionError: It is not what its module has under its name.
    """
    fn = found.fn
    problem = None
    if "<" in fn.__qualname__:
        problem = f"{fn.__qualname__} is defined inside a function"
    elif fn.__module__ == "__main__" and not _can_import_main():
        problem = "it is defined in a session without a file"
    else:
        try:
            there = _look_up(fn.__module__, fn.__qualname__)
        except (ImportError, AttributeError) as error:
            problem = f"its function cannot be imported ({error})"
        else:
            is_it = isinstance(there, Activity) and there.definition is found.definition
            if not is_it and not (there is fn and not found.raises):
                problem = f"{fn.__module__}.{fn.__qualname__} is something else"
    if problem is not None:
        raise DefinitionError(
            f"activity {found.name!r} cannot run in a process of its own: {problem}. Write it at "
            "the top level of a module, with @activity(process=True) on it"
        )


def refuse_in_activity_process() -> None:
    """Make sure that no worker is made while an activity's process imports the main module.

    Raises:
        UsageError: It would be; the main module lacks its guard.
    """
    # See multiprocessing.spawn, which refuses to start processes in the same way.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UsageError(
            "a process of an activity imports this main module and would start a worker: put what "
            'starts one under `if __name__ == "__main__":`'
        )


def _can_import_main() -> bool:
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    return getattr(main, "__spec__", None) is not None or (
        file is not None and Path(file).is_file()
    )


def _look_up(module: str, qualname: str) -> Any:
    there: Any = importlib.import_module(module)
    for name in qualname.split("."):
        there = getattr(there, name)
    return there


# ------------------------------------------------------------ in the worker


class Processes:
    """The processes of a worker. How many there are at most is up to the caller."""

    def __init__(self) -> None:
        self._idle: list[ActivityProcess] = []
        # Waiting for a process blocks; these threads do nothing else.
        self._threads = Threads("perdure-process")

    def take(self) -> ActivityProcess:
        """Return a process that does nothing, a new one if there is none."""
        while self._idle:
            process = self._idle.pop()
            if process.is_alive():
                return process
            process.end()
        return ActivityProcess()

    async def call(
        self, process: ActivityProcess, context: RunningActivity, work: JobCode
    ) -> AttemptResult:
        """Run an attempt in a process that was taken; afterwards it is free for the next."""
        outcome = await self._threads.call(partial(process.call, context, work))
        if process.is_alive():
            self._idle.append(process)
        return outcome

    async def close(self) -> None:
        """End the processes that do nothing."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(self._threads.call(process.end) for process in idle))
        self._threads.close()


class ActivityProcess:
    """One process, from its start at the first call to its end. Any thread may kill it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None
        self._is_ended = False

    def is_alive(self) -> bool:
        """Return whether it can run another attempt."""
        with self._lock:
            return not self._is_ended and self._process is not None and self._process.is_alive()

    def call(self, context: RunningActivity, work: JobCode) -> AttemptResult:
        """Run an attempt and wait for its end. Blocks."""
        try:
            connection = self._connect()
        except OSError as error:
            return _death(f"its process could not be started: {error}")
        except EOFError:
            return _death("its process was killed before it was started")
        try:
            connection.send_bytes(_encoder.encode(ProcessRequest.of(context, work)))
            connection.send_bytes(context.job.input)
            outcome = _hear_out(connection, context)
        except (EOFError, OSError):
            return self._bury()
        except msgspec.MsgspecError:
            self.end()
            return _death("its process sent something that is no outcome")
        if isinstance(outcome, Raised) and "MemoryError" in outcome.class_names:
            # Its memory may be full of what the attempt left behind.
            self.end()
        return outcome

    def kill(self) -> None:
        """End it now, with everything that it started."""
        with self._lock:
            self._is_ended = True
            if self._process is not None and self._process.exitcode is None:
                _kill_group(self._process)

    def end(self) -> None:
        """Let it end, or kill it. Blocks for a moment."""
        if self._connection is not None:
            self._connection.close()
            self._bury()

    def _connect(self) -> Connection:
        with self._lock:
            if self._is_ended:
                raise EOFError("killed before it was started")
            if self._connection is None:
                self._process, self._connection = _start_process()
            return self._connection

    def _bury(self) -> Raised:
        """Wait for the end of the process, and say how it came."""
        assert self._process is not None, "it was started"
        wait([self._process.sentinel], END_WITHIN_S)
        self.kill()
        with self._lock:
            self._process.join()
            exitcode = self._process.exitcode
            if self._connection is not None:
                self._connection.close()
        return _death(_how_it_ended(exitcode))


def _hear_out(connection: Connection, context: RunningActivity) -> AttemptResult:
    """Pass on what an attempt says, until it has ended."""
    too_much: Raised | None = None
    while True:
        reply: AttemptResult | Said | SaidItem = _replies.decode(connection.recv_bytes())
        if isinstance(reply, Said):
            context.pass_on(_bytes(reply.details), _bytes(reply.progress))
        elif not isinstance(reply, SaidItem):
            return too_much or reply
        elif too_much is None:
            try:
                context.send_item(reply.stream, bytes(reply.item))
            except LimitExceededError as error:
                # The code went on: it hears of it as its end.
                too_much = raised(error)


def _start_process() -> tuple[multiprocessing.process.BaseProcess, Connection]:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    # A daemon, so that it is not waited for when this process exits without closing.
    process = spawn.Process(target=serve, args=(theirs,), name="perdure-activity", daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _kill_group(process: multiprocessing.process.BaseProcess) -> None:
    assert process.pid is not None, "it was started"
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # Its group does not exist before it has made it.
    process.kill()


def _how_it_ended(exitcode: int | None) -> str:
    if exitcode is None or exitcode >= 0:
        return f"its process ended with exit code {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = "a signal"
    hint = "; perhaps the machine was out of memory" if -exitcode == signal.SIGKILL else ""
    return f"its process was ended by {name} ({-exitcode}){hint}"


def _death(message: str) -> Raised:
    return Raised(Failure(DIED, message), class_names=(DIED,))


# ------------------------------------------------------------- in the child


class ProcessActivity(RunningActivity):
    """The `ActivityContext` of an attempt in a process of its own."""

    speaker: _Speaker
    """Who tells the worker."""

    def resource(self, kind: type[T], /) -> T:
        """Refuse: resources stay in the worker's process."""
        self._refuse(f"resources are not: make the {kind.__qualname__} there")

    @property
    def client(self) -> Any:
        """Refuse: the client stays in the worker's process."""
        self._refuse("client is not: open a BlockingClient there")

    def send_item(self, stream: str, item: bytes) -> None:
        """Send an item to a stream, through the worker."""
        self.speaker.send(SaidItem(stream, msgspec.Raw(item)))

    async def flush_items(self) -> None:
        """Refuse: only the worker knows what is stored."""
        self._refuse("streams are stored: flush() is for async activities")

    def _refuse(self, what: str) -> NoReturn:
        raise UsageError(
            f"{self.activity} runs in a process of its own, where the worker's {what}, or leave "
            "process=True out"
        )


class _Speaker:
    """Sends to the worker, from whichever thread of the activity."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def say(self, context: RunningActivity) -> None:
        """Pass on what an activity has said."""
        self.send(Said(_raw(context.details), _raw(context.shown)))

    def send(self, reply: AttemptResult | Said | SaidItem) -> None:
        """Send a reply, whole."""
        with self._lock:
            self._connection.send_bytes(_encoder.encode(reply))


def serve(connection: Connection) -> None:
    """Run attempts until the worker closes the connection. The main function of a process."""
    # A group of its own: Ctrl-C is the worker's business, and what an activity starts dies with it.
    os.setsid()
    threading.Thread(target=_end_with_parent, name="perdure-parent", daemon=True).start()
    speaker = _Speaker(connection)
    while True:
        try:
            request = _requests.decode(connection.recv_bytes())
            stored = connection.recv_bytes()
        except EOFError:
            return
        speaker.send(_run(request, stored, speaker))


def _run(request: ProcessRequest, input: bytes, speaker: _Speaker) -> AttemptResult:
    job = ClaimedJob(
        key=request.key,
        token=0,
        queue=request.queue,
        input=input,
        policy=b"",
        attempt=request.attempt,
        created_ms=request.created_ms,
        session=request.session,
        details=_bytes(request.details),
        owner_name=request.owner_name,
        owner_version=request.owner_version,
    )
    host = Host(request.worker_id, system_clock, notice=speaker.say)
    context = ProcessActivity(job, request.name, host)
    context.attempt_until_ms = request.until_ms
    context.speaker = speaker
    try:
        there = _look_up(request.module, request.qualname)
        found = there if isinstance(there, Activity) else activity(name=request.name)(there)
        current_activity.set(context)
        work = activity_work(found)
        if request.returns_input:
            work = returning_input(work)
        outcome = call_sync(work, input, context)
    except BaseException as error:
        return raised(error)
    if isinstance(outcome, AttemptResult):
        return outcome
    return raised(UsageError(f"{request.name}: process=True is for plain functions"), is_final=True)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.killpg(0, signal.SIGKILL)
