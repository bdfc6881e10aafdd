"""Whether the code beside a server fits a history, asked over HTTP."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import perdure.web
from perdure import Client, Engine, Signal, WorkerOptions, activity, orchestration
from perdure.client.histories import replay_check
from tests.engine.stage import waits_for
from tests.web.site import KEY, browser, engine_with_all

go = Signal("go", str)
is_endless = False


@activity
async def pack(order: str) -> str:
    return order


@orchestration(name="ship")
async def ship(order: str) -> str:
    packed = await pack(order)
    return packed + await go.receive()


@orchestration(name="ship")
async def ship_later(order: str) -> str:
    await asyncio.sleep(60)
    return await go.receive()


@orchestration(name="ship")
async def ship_or_spin(order: str) -> str:
    while is_endless:
        pass
    packed = await pack(order)
    return packed + await go.receive()


async def check(client: Client, instance_id: str, **body: Any) -> Any:
    async with browser(perdure.web.app(client, key=KEY)) as page:
        answer = await page.post(f"/api/instances/{instance_id}/replay", json=body)
        return answer.json()


async def test_code_that_fits_is_said_to_fit() -> None:
    async with engine_with_all() as engine:
        found = [
            await check(engine, one) for one in ("order%2F1", "done-1", "failed-1", "account:a-1")
        ]

    assert [one["fits"] for one in found] == [True] * 4
    assert min(one["events"] for one in found) > 2


async def test_code_that_asks_for_something_else_is_shown_beside_what_is_recorded(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    async with Engine(url, [ship, pack]) as engine:
        await waits_for(await engine.start("o-1", ship, "book"), "signal 'go'")
    async with Engine(url, [ship_later, pack]) as engine:
        found = await check(engine, "o-1")
        history = await engine.handle("o-1").history()

    assert not found["fits"]
    assert found["event"] == 2
    assert "pack" in found["recorded"]
    assert "timer" in found["asked"]
    assert "ship_later" in found["place"]
    assert [event.kind for event in history][:2] == ["started", "activity_scheduled"]


async def test_code_that_never_ends_is_ended_and_the_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = WorkerOptions(turn_warning=timedelta(seconds=0.05), turn_limit=timedelta(seconds=0.1))
    async with Engine(f"sqlite:///{tmp_path}/shop.db", [ship_or_spin, pack], options=options) as it:
        handle = await it.start("o-1", ship_or_spin, "book")
        await waits_for(handle, "signal 'go'")
        monkeypatch.setattr("tests.web.test_replay_check.is_endless", True)

        found = await check(it, "o-1")
        monkeypatch.setattr("tests.web.test_replay_check.is_endless", False)
        await handle.send(go, " gone")

        assert await handle.result() == "book gone"
    assert not found["fits"]
    assert "ship_or_spin" in found["text"]


async def test_without_code_it_is_said_what_to_do(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    async with Engine(url, [ship, pack]) as engine:
        await waits_for(await engine.start("o-1", ship, "book"), "signal 'go'")
    async with Client(url) as client:
        found = await check(client, "o-1")
        async with browser(perdure.web.app(client, key=KEY)) as page:
            shown = await page.get("/i/o-1", params={"tab": "check"})

    assert found["status"] == 404
    assert "perdure replay o-1" in found["detail"]
    assert "data-check" not in shown.text
    assert "No code here" in shown.text


async def test_a_history_that_is_too_long_is_left_to_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay_check, "EVENTS_MAX", 3)
    async with engine_with_all() as engine:
        found = [await check(engine, "done-1"), await check(engine, "done-1", execution=1)]

    assert [one["status"] for one in found] == [400, 400]
    assert "perdure replay done-1" in found[0]["detail"]


async def test_a_replay_of_many_events_comes_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_check, "SLICE_S", 0.0)
    async with engine_with_all() as engine:
        assert (await check(engine, "done-1"))["fits"]
