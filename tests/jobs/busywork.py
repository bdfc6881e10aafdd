"""Activities that the tests run in processes of their own."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

from perdure.authoring.activity import Activity, activity
from perdure.authoring.activity_context import ActivityContext, activity_context
from perdure.authoring.stream import Stream
from perdure.errors import UsageError
from perdure.model.options import Retry

SHORT = timedelta(milliseconds=50)
RETRY = Retry(max_attempts=3, first_delay=timedelta(seconds=1), jitter=0)


class OddError(Exception):
    """Comes back as itself."""

    def __init__(self, number: int) -> None:
        super().__init__(f"odd: {number}")
        self.number = number


@activity(process=True)
def pid() -> int:
    return os.getpid()


@activity(process=True, retry=RETRY, raises=[OddError])
def halve(value: int) -> int:
    if value % 2:
        raise OddError(value)
    return value // 2


@activity(process=True)
def describe_context(ctx: ActivityContext) -> dict[str, object]:
    assert activity_context() is ctx
    ctx.heartbeat()
    return {
        "instance_id": ctx.instance_id,
        "activity": ctx.activity,
        "attempt": ctx.attempt,
        "idempotency_key": ctx.idempotency_key,
        "scheduled_at": ctx.scheduled_at.isoformat(),
        "is_cancelled": ctx.is_cancelled,
    }


@activity(process=True)
def want_resource(ctx: ActivityContext) -> None:
    ctx.resource(dict)


@activity(process=True, retry=RETRY)
def leave(code: int) -> None:
    os._exit(code)


@activity(process=True)
def exit_politely() -> None:
    sys.exit(3)


@activity(process=True)
def interrupt() -> None:
    raise KeyboardInterrupt


@activity(process=True, retry=RETRY)
def kill_myself(number: int) -> None:
    os.kill(os.getpid(), number)


@activity(process=True)
def eat(megabytes: int) -> int:
    """Allocate under a limit that is a little above what the process has now."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limit = used + 64 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return len(bytearray(megabytes * 2**20))


@activity(process=True)
def hang(begun: str) -> None:
    """Say on a named pipe that it has begun, with the process ids of itself and of a child."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    Path(begun).write_text(f"{os.getpid()} {child.pid}")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Event().wait()


@activity(process=True, timeout=SHORT, retry=RETRY)
def hang_briefly() -> None:
    threading.Event().wait()


@activity(process=True)
def close_everything() -> None:
    os.closerange(3, 100)
    threading.Event().wait(0.01)


@activity(process=True, retry=RETRY)
def return_garbage() -> int:
    return "text"  # type: ignore[return-value]  # that is the point


@activity(process=True)
def large(size: int) -> str:
    return "x" * size


def triple(value: int) -> int:
    return 3 * value


wrapped: Activity[[int], int] = activity(process=True, name="wrapped")(triple)


def make_local() -> Activity[[], int]:
    @activity(process=True)
    def local() -> int:
        return 1

    return local


@activity(process=True)
def copy_in_parts(ctx: ActivityContext) -> list[str]:
    done = ctx.last_details(int) or 0
    ctx.heartbeat(done + 1)
    ctx.progress({"part": done + 1})
    if done < 2:
        raise OSError("cable pulled")
    caller = f"{ctx.orchestration} {ctx.orchestration_version}"
    limit = "has a deadline" if ctx.deadline is not None else "has none"
    return [str(done + 1), ctx.worker_id, str(ctx.session), caller, limit]


@activity(process=True)
def ask_for(ctx: ActivityContext, what: str) -> str:
    try:
        ctx.client if what == "client" else ctx.resource(dict)
    except UsageError as error:
        return str(error)
    return ""


spoken = Stream("spoken", str)


@activity(process=True)
def send_items(count: int) -> None:
    """Send items from a process of its own."""
    for number in range(count):
        spoken.send(f"item {number}")
