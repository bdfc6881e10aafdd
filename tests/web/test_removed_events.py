"""Deciders that keep only their newest events, over HTTP and on the page."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Never

import pytest

import perdure.web
from perdure import Client, Decider, Decision, Engine
from perdure.cli.serving.http_server import served
from perdure.clock import ManualClock
from perdure.errors import EventsRemovedError
from tests.web.site import KEY, browser, caller, memory_url

PATH = "/api/deciders/meter/instances/m"


@dataclass(frozen=True)
class Read:
    meter: str
    liters: int


@dataclass(frozen=True)
class Flowed:
    liters: int


class Meter(Decider[int, Read, Flowed, Never]):
    name = "meter"
    snapshot_every = 5
    keep_events: ClassVar[int | None] = 4

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Read, /) -> str:
        return input.meter

    def decide(self, state: int, input: Read, now: datetime, /) -> Decision[Read, Flowed, Never]:
        return Decision.accept(Flowed(input.liters))

    def evolve(self, state: int, event: Flowed, /) -> int:
        return state + event.liters


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """Versions 1 to 6 of ten were removed."""
    clock = ManualClock()
    async with Engine(memory_url(), [Meter], clock=clock) as engine:
        for liters in range(1, 11):
            await engine.execute(Meter, Read("m", liters), input_id=f"i{liters}")
        clock.advance(timedelta(days=2))
        assert (await engine._serving.housekeeping.run_once()).events
        yield engine


async def test_what_is_asked_of_removed_events_is_gone(engine: Engine) -> None:
    async with caller(perdure.web.app(engine, insecure_no_auth=True)) as http:
        events = await http.get(f"{PATH}/events")
        state = await http.get(f"{PATH}/state", params={"at": 5})
        kept = (await http.get(f"{PATH}/events", params={"after": 6})).json()
        now = (await http.get(f"{PATH}/state")).json()

    for answer in (events, state):
        assert answer.status_code == 410
        problem = answer.json()
        assert problem["code"] == "events_removed"
        assert "the oldest that is kept is version 7" in problem["detail"]
    assert [one["version"] for one in kept["items"]] == [7, 8, 9, 10]
    assert now["state"] == 55


async def test_a_client_over_http_gets_the_same_error_and_may_go_on_from_it(
    engine: Engine,
) -> None:
    application = perdure.web.app(engine, insecure_no_auth=True)
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with served(application, [listening], drain_s=0), Client(url) as remote:
        with pytest.raises(EventsRemovedError) as told:
            await remote.events(Meter, "m")
        kept = await remote.events(Meter, "m", after=told.value.kept_after)

    assert told.value.kept_after == 6
    assert [one.version for one in kept] == [7, 8, 9, 10]


async def test_the_page_says_which_events_were_removed(engine: Engine) -> None:
    async with browser(perdure.web.app(engine, key=KEY)) as page:
        state = (await page.get("/i/meter%3Am", params={"tab": "state"})).text
        history = (await page.get("/i/meter%3Am", params={"tab": "history"})).text

    assert "Events 1 to 6 were removed" in state
    assert "events removed" in history
