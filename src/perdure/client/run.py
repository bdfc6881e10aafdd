"""`run`: one orchestration from a script, a REPL or a notebook, to its end."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, overload

from perdure.authoring.orchestration import Orchestration
from perdure.client.client import default_url
from perdure.client.engine import Engine
from perdure.client.obstacles import Obstacles
from perdure.client.reachable import reachable
from perdure.errors import UsageError
from perdure.model.options import WorkerOptions

P = ParamSpec("P")
R = TypeVar("R")

OPTIONS = WorkerOptions(lease_for=timedelta(seconds=5), stop_grace=timedelta(seconds=1))
"""A person sits before it: a run that is started again after a kill must not wait for long until
what the dead process held is free."""


@overload
def run(
    instance_id: str, orchestration: Orchestration[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> R: ...
@overload
def run(orchestration: Orchestration[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
def run(*args: Any, **kwargs: Any) -> Any:
    """Run an orchestration and return its result.

    Opens `$PERDURE_STORE` (default `sqlite:///perdure.db`) and serves all that the orchestration
    calls, wherever it is written. With an id, a run that was killed goes on where it was (after a
    few seconds, when what the dead process held is free), and one that has ended returns the
    recorded result.

    It works on a thread with its own loop, so also where a loop already runs.

    Raises:
        InstanceFailedError: The orchestration failed.
        InstanceHeldError: The instance, or a child of it, is blocked or parked: nothing moves until
            its code is mended. The instance is kept, and a run with its id goes on with it.
        NotServedError: It calls what no worker serves, and what is not found in its code.
    """
    orchestration = next((arg for arg in args[:2] if isinstance(arg, Orchestration)), None)
    if orchestration is None:
        raise UsageError(
            "run takes an orchestration (made with @orchestration) and its arguments, or an "
            f"instance id before them; got {', '.join(map(repr, args)) or 'nothing'}"
        )
    outcome: list[Any] = []
    failure: list[BaseException] = []
    tasks: list[asyncio.Task[Any]] = []
    begun: list[str] = []
    is_over = threading.Event()

    async def main() -> Any:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        async with Engine(default_url(), reachable(orchestration), options=OPTIONS) as engine:
            obstacles = Obstacles(engine)
            handle = await engine.start(*args, **kwargs)
            begun.append(handle.instance_id)
            return await obstacles.result_of(handle, may_exist=isinstance(args[0], str))

    def body() -> None:
        try:
            outcome.append(asyncio.run(main()))
        except BaseException as error:
            failure.append(error)
        finally:
            is_over.set()

    threading.Thread(target=body, name="perdure-run", daemon=True).start()
    try:
        _wait_for(is_over, tasks)
    except KeyboardInterrupt as error:
        for instance_id in begun:
            error.add_note(
                f"what instance {instance_id!r} has done is kept: "
                f"run({instance_id!r}, {orchestration.name}, ...) goes on with it"
            )
        raise
    if failure:
        # The frames of the thread say nothing: where it failed is in the error.
        raise failure[0].with_traceback(None)
    return outcome[0]


def _wait_for(is_over: threading.Event, tasks: list[asyncio.Task[Any]]) -> None:
    """Wait for the thread; on Ctrl-C let it give back what is under way first."""
    # An event, since `Thread.join` takes a thread for ended once Ctrl-C broke it off (before 3.13).
    try:
        # In pieces, so that Ctrl-C is heard.
        while not is_over.wait(timeout=0.1):
            pass
    except BaseException:
        for task in tasks:
            task.get_loop().call_soon_threadsafe(task.cancel)
        is_over.wait()
        raise
