"""`run`: one orchestration from a script, a REPL or a notebook, to its end."""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, overload

from perdure.authoring.activity import Activity
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import Defined
from perdure.client.client import default_url
from perdure.client.engine import Engine
from perdure.errors import UsageError
from perdure.model.options import WorkerOptions

P = ParamSpec("P")
R = TypeVar("R")

OPTIONS = WorkerOptions(lease_for=timedelta(seconds=5), stop_grace=timedelta(seconds=1))
"""Somebody sits before it: a run that is started again after a kill must not wait for long until
what the dead process held is free."""


@overload
def run(
    instance_id: str, orchestration: Orchestration[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> R: ...
@overload
def run(orchestration: Orchestration[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
def run(*args: Any, **kwargs: Any) -> Any:
    """Run an orchestration and return its result.

    Opens `$PERDURE_STORE` (default `sqlite:///perdure.db`) and serves the definitions of the
    orchestration's module. With an id, a run that was killed goes on where it was (after a few
    seconds, when what the dead process held is free), and one that has ended returns the recorded
    result.

    It works on a thread with its own loop, so also where a loop already runs.
    """
    orchestration = next((arg for arg in args[:2] if isinstance(arg, Orchestration)), None)
    if orchestration is None:
        raise UsageError("run takes an orchestration, or an instance id and an orchestration")
    outcome: list[Any] = []
    failure: list[BaseException] = []
    tasks: list[asyncio.Task[Any]] = []
    is_over = threading.Event()

    async def main() -> Any:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        definitions = _definitions_beside(orchestration)
        async with Engine(default_url(), definitions, options=OPTIONS) as engine:
            handle = await engine.start(*args, **kwargs)
            return await handle.result()

    def body() -> None:
        try:
            outcome.append(asyncio.run(main()))
        except BaseException as error:
            failure.append(error)
        finally:
            is_over.set()

    threading.Thread(target=body, name="perdure-run", daemon=True).start()
    _wait_for(is_over, tasks)
    if failure:
        raise failure[0]
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


def _definitions_beside(orchestration: Orchestration[..., Any]) -> list[Defined]:
    """Return every definition that the orchestration's module has or imports."""
    module = sys.modules.get(orchestration.fn.__module__)
    found: list[Defined] = [orchestration]
    for value in vars(module).values() if module is not None else ():
        if isinstance(value, Activity | Orchestration) and not value.is_elsewhere:
            found.append(value)
    return found
