"""A disk that fills up while an engine works: a clear error for callers, nothing lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure import Engine, activity, orchestration
from perdure.checking.invariants import check
from perdure.errors import StoreFullError
from tests.disks import fill
from tests.sizes import WITHIN_S

BIG = "x" * 50_000


@activity
async def lengthen(text: str) -> str:
    await goes_on.wait()
    return text + BIG


@orchestration
async def twice(text: str) -> int:
    return len(await lengthen(await lengthen(text)))


goes_on = asyncio.Event()


async def test_a_start_on_a_full_disk_is_told_so_and_running_work_goes_on_when_there_is_room(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on.clear()
    async with Engine(f"sqlite:///{small_disk}/store.db", [twice, lengthen]) as engine:
        running = await engine.start("before", twice, "")
        ballast = small_disk / "ballast"
        fill(ballast)

        with monkeypatch.context() as impatient:
            impatient.setattr("perdure.client.core.PATIENCE_S", 0.2)
            with pytest.raises(StoreFullError, match=r"disk is full.*start it again"):
                await engine.start("during", twice, BIG)
        goes_on.set()  # its result cannot be committed yet
        ballast.unlink()

        assert await running.result(timeout=WITHIN_S) == 2 * len(BIG)
        again = await engine.start("during", twice, BIG)
        assert await again.result(timeout=WITHIN_S) == 3 * len(BIG)
        assert await check(engine._core.store) == []
