"""What commands print as JSON is what the HTTP API answers, thing by thing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import perdure.web
from perdure import Engine
from tests.cli.commands import typed
from tests.cli.shop import greet, say_hello
from tests.web.site import caller

SAME = {
    ("list", "--all"): "/api/instances?payloads=true",
    ("queues",): "/api/queues",
    ("workers",): "/api/workers",
    ("sessions",): "/api/sessions",
    ("job", "list", "--dead"): "/api/dead-jobs",
    ("history", "wait-1"): "/api/instances/wait-1/history",
    ("tree", "fulfil-1"): "/api/instances/fulfil-1/tree",
}
PARTS_OF_SHOW = {
    "instance": "",
    "report": "/report",
    "jobs": "/jobs",
    "events": "/history",
}
"""What `perdure show` puts together, and the routes that have it one by one."""


async def test_commands_and_routes_tell_of_the_same_things_alike(shop: str) -> None:
    """Lists are bare arrays there, and pages with `items` and `next` here. The worker has nothing
    to do, so that nothing moves between the two questions."""
    printed: dict[str, Any] = {}
    answered: dict[str, Any] = {}
    async with (
        Engine(shop, [greet, say_hello]) as engine,
        caller(perdure.web.app(engine, insecure_no_auth=True)) as api,
    ):
        for words, path in SAME.items():
            printed[path] = await in_json(shop, *words)
            answered[path] = bare((await api.get(path)).json())
        shown = await in_json(shop, "show", "pay-1")
        for name, path in PARTS_OF_SHOW.items():
            printed[name] = shown[name]
            answered[name] = bare((await api.get(f"/api/instances/pay-1{path}")).json())
        said = (await api.get("/api/instances/pay-1/explain")).json()

    assert len(printed["/api/workers"]) == 1
    assert printed["/api/workers"][0].pop("seen_at")
    assert answered["/api/workers"][0].pop("seen_at")
    for name, value in printed.items():
        theirs = answered[name]
        if isinstance(value, list):
            assert len(value) == len(theirs), name
            for one, other in zip(value, theirs, strict=True):
                assert one == other, name
        assert value == theirs, name
    assert shown["explanation"] in str(said)


async def in_json(store: str, *words: str) -> Any:
    # On a thread: a command runs a loop of its own.
    done = await asyncio.to_thread(typed, *words, "--json", store=store)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def bare(answer: Any) -> Any:
    """Return what an answer lists, without where its page ends."""
    is_page = isinstance(answer, dict) and answer.keys() == {"items", "next"}
    return answer["items"] if is_page else answer
