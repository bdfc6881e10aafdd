"""Every method of a client and a handle answers a value of a wrong type in words.

Nothing is listed here: arguments are made from the signatures, so that a new method is tried too.
What is not refused may be right (any object is true or false); an error that is no `PerdureError`
and comes from inside of perdure is not.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import perdure
from perdure import Client, Decider, Decision, Engine, Handle, Signal, orchestration
from perdure.errors import PerdureError
from tools.make_public_names import members

OURS = Path(perdure.__file__).parent
WRONG: tuple[object, ...] = (object(), b"x", [object()], {"a": object()}, 10**30)
ENDS = {
    "close",
    "open",
    "delete",
    "delete_all",
    "terminate",
    "cancel",
    "restart",
    "result",
    "prune",
}
"""They end or wait for what the others are tried on; what they take is on the page of mistakes."""

go = Signal("go", str)


@dataclass(frozen=True)
class Put:
    count: int


class Box(Decider[int, Put, int, str]):
    """Counts."""

    name = "box"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Put) -> str:
        return "b"

    def decide(self, state: int, input: Put, now: datetime) -> Decision[Put, int, str]:
        return Decision.accept(input.count)

    def evolve(self, state: int, event: int) -> int:
        return state + event


@orchestration
async def waiting() -> str:
    return await go.receive()


RIGHT: dict[str, object] = {
    "decider": Box,
    "input": Put(1),
    "instance_id": "i-1",
    "tag": "Put",
    "value": {"count": 1},
    "signal": go,
    "orchestration": waiting,
    "first": waiting,
    "no": 999,
    "reason": "because",
}
"""A right value by the name of a parameter; others are given a text."""


def calls_of(method: Callable[..., Any]) -> Iterator[tuple[str, list[object], dict[str, object]]]:
    """Return calls of a method in each of which one argument is wrong."""
    given = [
        one
        for one in inspect.signature(method).parameters.values()
        if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    ]
    needed = [one for one in given if one.default is one.empty]
    for tried in given:
        for wrong in WRONG:
            named = {one.name: RIGHT.get(one.name, "x") for one in needed} | {tried.name: wrong}
            if "timeout" in {one.name for one in given} and tried.name != "timeout":
                named["timeout"] = 0.001
            by_place = [one.name for one in given if one.kind is one.POSITIONAL_ONLY]
            told = [named.pop(name) for name in by_place if name in named]
            yield f"{tried.name}={wrong!r}", told, named


async def raw_error(call: Callable[[], Any]) -> str:
    """Make a call; return what came out of perdure's own code and is none of its errors."""
    try:
        done = call()
        if inspect.isawaitable(done):
            await done
    except PerdureError:
        pass
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if OURS in Path(frame.filename).parents]
        if ours:
            return f"{type(error).__name__}: {error} ({Path(ours[-1].filename).name})"
    return ""


async def test_no_method_answers_a_wrong_type_with_an_error_of_its_inside() -> None:
    raw: dict[str, str] = {}
    tried = 0
    async with asyncio.timeout(300), Engine("sqlite://:memory:", [waiting, Box]) as engine:
        handle = await engine.start("i-1", waiting)
        await engine.execute(Box, Put(1))
        for kind, thing in ((Client, engine), (Handle, handle)):
            for name in members(kind):
                method = getattr(thing, name)
                if name in ENDS or not callable(method):
                    continue
                for what, told, named in calls_of(method):
                    tried += 1
                    found = await raw_error(lambda m=method, t=told, n=named: m(*t, **n))  # type: ignore[misc]  # bound here
                    if found:
                        raw[f"{kind.__name__}.{name}({what})"] = found

    assert raw == {}
    assert tried > 300
