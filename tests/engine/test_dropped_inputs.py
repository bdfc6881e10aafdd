"""Inputs that an operator takes out of an inbox: whoever gave them is let go."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Client
from perdure.errors import InputDroppedError
from tests.engine.stage import Stage, until
from tests.engine.test_execute_corners import Diary, Write


async def drop_input(client: Client) -> None:
    """Wait until an input waits in the inbox, and drop it."""

    async def has_come() -> bool:
        [row] = await client._core.store.read_instances(["diary:d"])
        return row is not None

    await until(has_come)
    [dropped] = [one for one in await client.inbox("diary:d") if one.kind == "input_taken"]
    await client.drop_message("diary:d", dropped.no)


async def test_whoever_waits_for_a_dropped_input_is_told(stage: Stage) -> None:
    client = await stage.client()
    value = {"diary_id": "d", "text": "hello"}
    asking = asyncio.create_task(
        client.execute_json("diary", "Write", value, instance_id="d", input_id="req-1")
    )

    await drop_input(client)

    with pytest.raises(InputDroppedError, match="input 'req-1' of instance 'diary:d' was dropped"):
        await asking


async def test_a_dropped_input_may_be_given_again_under_its_id(stage: Stage) -> None:
    client = await stage.client()
    await client.send(Diary, Write("d", "poison"), input_id="req-1")
    await drop_input(client)

    await client.send(Diary, Write("d", "mended"), input_id="req-1")
    await client.send(Diary, Write("d", "mended"), input_id="req-1")
    engine = await stage.engine([Diary])

    async def is_decided() -> bool:
        return await engine.state(Diary, "d") != ""

    await until(is_decided)
    again = await engine.execute(Diary, Write("d", "mended"), input_id="req-1")
    assert await engine.state(Diary, "d") == "mended"
    assert again.version == 1  # type: ignore[union-attr]  # it was accepted


async def test_what_was_decided_is_not_dropped(stage: Stage) -> None:
    """The receipt stays with its outcome, whatever is dropped later."""
    engine = await stage.engine([Diary])
    await engine.send(Diary, Write("d", "first"), input_id="req-1")

    async def is_decided() -> bool:
        return await engine.state(Diary, "d") != ""

    await until(is_decided)
    await engine.close()
    client = await stage.client()
    await client.send(Diary, Write("d", "second"), input_id="req-2")

    await drop_input(client)

    await client.send(Diary, Write("d", "first"), input_id="req-1")
    assert [one.kind for one in await client.inbox("diary:d")] == []
