"""`perdure schedule`: what is started when, and steering it without a worker."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from perdure import BlockingClient, Client, Cron, Engine, Every, Orchestration, Schedule, Slot
from tests.cli.commands import lines, typed

report = Orchestration.named("report", None)
nightly = Schedule("nightly", Cron("0 2 * * *", "Europe/Berlin"), report, region="eu")


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/s.db"

    async def put() -> None:
        async with Client(url, create=True) as client:
            await client.put_schedule(nightly)

    asyncio.run(put())
    return url


def test_schedules_are_listed_and_shown(store: str) -> None:
    [row] = lines("schedule", "list", store=store)
    shown = json.loads(typed("schedule", "show", "nightly", "--json", store=store).stdout)

    assert row[:3] == ["nightly", "report", "0 2 * * * Europe/Berlin"]
    assert row[7] == "hand"
    assert shown["next"] is not None
    assert len(shown["upcoming"]) == 5
    assert lines("schedule", "show", "nightly", "-o", "ids", store=store) == [["nightly"]]


def test_a_schedule_is_put_and_changed(store: str) -> None:
    put = ("schedule", "put", "often", "report", '"eu"', "--arg", "full=true")
    assert lines(*put, "--every", "5m", "--overlap", "queue", store=store) == [["often", "put"]]
    times = ("--cron", "0 2 * * *", "--cron", "0 3 * * *", "--timezone", "Europe/Berlin")
    assert lines(*put, *times, store=store) == [["often", "put"]]

    [_, row] = lines("schedule", "list", store=store)
    assert row[:3] == ["often", "report", "0 2 * * * Europe/Berlin, 0 3 * * * Europe/Berlin"]
    [started] = lines("schedule", "trigger", "often", "--id", "t", store=store)
    with BlockingClient(store) as client:
        given = client.handle(started[0]).info().input
    assert given == {"0": "eu", "full": True}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["often", "report"], "when is it to start?"),
        (["often", "report", "--cron", "61 * * * *"], "Bad minute"),
        (["often", "report", "--cron", "0 * * * *", "--timezone", "Mars"], "no time zone 'Mars'"),
        (["often", "report", "{", "--every", "5m"], "argument 1"),
        (["often", "report", "--arg", "x", "--every", "5m"], "must be NAME=VALUE"),
        (["nightly", "other", "--every", "5m"], "already exists as a schedule of 'report'"),
    ],
)
def test_what_is_no_schedule_is_refused(store: str, words: list[str], said: str) -> None:
    done = typed("schedule", "put", *words, store=store)

    assert done.exit_code in (1, 2)
    assert said in done.stderr


def test_a_schedule_is_paused_resumed_and_deleted(store: str) -> None:
    assert lines("schedule", "pause", "nightly", "--reason", "lunch", store=store) == [
        ["nightly", "paused"]
    ]
    assert lines("schedule", "list", store=store)[0][6] == "lunch"
    assert lines("schedule", "resume", "nightly", store=store) == [["nightly", "resumed"]]
    assert lines("schedule", "delete", "nightly", store=store) == [["nightly", "deleted"]]
    assert lines("schedule", "list", store=store) == []
    gone = typed("schedule", "pause", "nightly", store=store)
    assert gone.exit_code == 3


def test_a_schedule_is_triggered_and_backfilled(store: str) -> None:
    asked = ("schedule", "trigger", "nightly", "--id", "t-1")
    assert lines(*asked, store=store) == lines(*asked, store=store) == [["nightly@trigger#t-1"]]
    asked = ("schedule", "backfill", "nightly", "2026-01-01T00:00Z", "2026-01-04T00:00+00:00")
    assert lines(*asked, store=store) == [["nightly", "3 slots"]]

    listed = lines("list", "-o", "ids", store=store)
    assert len(listed) == 4
    wrong = typed("schedule", "backfill", "nightly", "2026-01-01", "tomorrow", store=store)
    assert wrong.exit_code == 2
    assert "is no time with a zone" in wrong.stderr


def test_a_caller_that_waits_does_the_same(store: str) -> None:
    with BlockingClient(store) as client:
        handle = client.put_schedule(Schedule("often", Every(timedelta(hours=1)), report))
        handle.pause("x")
        assert client.schedule("often").info().paused == "x"
        handle.resume()
        assert [one.name for one in client.schedules()] == ["nightly", "often"]
        assert handle.trigger(trigger_id="a") == "often@trigger#a"
        last = handle.info().last
        assert isinstance(last, Slot)
        handle.delete()


def test_the_doctor_names_what_no_code_declares_any_more(store: str) -> None:
    async def declare() -> str:
        async with Engine(store, [nightly.with_options(overlap="allow")]):
            pass
        async with Engine(store, []):
            return await asyncio.to_thread(lambda: typed("doctor", "--json", store=store).stdout)

    findings = {one["check"]: one for one in json.loads(asyncio.run(declare()))["findings"]}

    assert findings["schedules"]["level"] == "warn"
    assert "nightly" in findings["schedules"]["found"]
