"""`run`: one orchestration from a script, a REPL or a notebook, to its end."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any, ParamSpec, TypeVar, overload

from perdure.authoring.activity import Activity
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import AnyDefinition
from perdure.client.client import default_url
from perdure.client.engine import Engine
from perdure.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")


@overload
def run(
    instance_id: str, orchestration: Orchestration[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> R: ...
@overload
def run(orchestration: Orchestration[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
def run(*args: Any, **kwargs: Any) -> Any:
    """Run an orchestration and return its result.

    Opens `$PERDURE_STORE` (default `sqlite:///perdure.db`) and serves the definitions of the
    orchestration's module. With an id, a run that was killed goes on where it was, and one that has
    ended returns the recorded result.

    It works on a thread with its own loop, so also where a loop already runs.
    """
    orchestration = next((arg for arg in args[:2] if isinstance(arg, Orchestration)), None)
    if orchestration is None:
        raise UsageError("run takes an orchestration, or an instance id and an orchestration")
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(asyncio.run(_run(orchestration, args, kwargs)))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=body, name="perdure-run", daemon=True)
    thread.start()
    # In pieces, so that Ctrl-C is heard; the store keeps everything, a later run goes on.
    while thread.is_alive():
        thread.join(timeout=0.1)
    if failure:
        raise failure[0]
    return outcome[0]


async def _run(orchestration: Orchestration[..., Any], args: Any, kwargs: Any) -> Any:
    async with Engine(default_url(), _definitions_beside(orchestration)) as engine:
        handle = await engine.start(*args, **kwargs)
        return await handle.result()


def _definitions_beside(orchestration: Orchestration[..., Any]) -> list[AnyDefinition]:
    """Return every definition that the orchestration's module has or imports."""
    module = sys.modules.get(orchestration.fn.__module__)
    found: list[AnyDefinition] = [orchestration]
    for value in vars(module).values() if module is not None else ():
        if isinstance(value, Activity | Orchestration) and not value.is_elsewhere:
            found.append(value)
    return found
