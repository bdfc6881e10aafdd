"""Limits that need an engine; the others are in the table of `tests/test_limits.py`."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from perdure import Client, activity, activity_context, orchestration
from perdure.errors import InstanceFailedError, LimitExceededError
from perdure.limits import BULK_MAX, MAX_DETAILS_BYTES
from tests.engine.stage import Stage


@activity
async def beating(size: int) -> None:
    activity_context().heartbeat("x" * (size - 2))


@orchestration
async def with_a_beat(size: int) -> None:
    await beating(size)


@orchestration
async def leaf() -> None: ...


@orchestration
async def two_leaves() -> None:
    await asyncio.gather(leaf(), leaf())


async def test_what_a_heartbeat_says_has_a_limit(stage: Stage) -> None:
    engine = await stage.engine([with_a_beat, beating])

    await (await engine.start("fits", with_a_beat, MAX_DETAILS_BYTES)).result()
    with pytest.raises(InstanceFailedError, match="limited to 262,144, found 262,145"):
        await (await engine.start("over", with_a_beat, MAX_DETAILS_BYTES + 1)).result()


async def test_a_tree_that_is_shown_has_a_limit(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await stage.engine([two_leaves, leaf])
    handle = await engine.start("root", two_leaves)
    await handle.result()

    monkeypatch.setattr("perdure.client.handle.MAX_TREE_SHOWN", 3)
    assert len(await handle.tree()) == 3

    monkeypatch.setattr("perdure.client.handle.MAX_TREE_SHOWN", 2)
    with pytest.raises(LimitExceededError, match="limited to 2, found 3"):
        await handle.tree()


@pytest.mark.parametrize("operation", [Client.delete_all, Client.prune, Client.retry_dead_jobs])
def test_a_bulk_operation_is_bounded_unless_told_otherwise(operation: object) -> None:
    assert inspect.signature(operation).parameters["limit"].default == BULK_MAX  # type: ignore[arg-type]  # a function
