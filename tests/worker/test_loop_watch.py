"""Which activity is said to keep the worker's loop busy. What it looks like to a user is in
`tests/mistakes`."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from perdure.authoring.activity import activity
from perdure.stillness import Stillness
from perdure.worker.loop_watch import LOOK_EVERY_S, LoopWatch
from tests.jobs.job_harness import bench, result_of


@pytest.mark.parametrize(
    ("used_s", "is_warned"),
    [pytest.param(0.0, False, id="stopped"), pytest.param(9.0, True, id="computing")],
)
async def test_only_what_uses_the_processor_while_nothing_is_looked_at_keeps_the_loop_busy(
    caplog: pytest.LogCaptureFixture, used_s: float, is_warned: bool
) -> None:
    """Between two looks nine seconds pass."""
    loop, thread_id = asyncio.get_running_loop(), threading.get_ident()

    @activity
    async def busy() -> int:
        watch._look(loop, thread_id)
        watch.leave_out(Stillness(LOOK_EVERY_S).of(9.0, used_s=used_s))
        watch._look(loop, thread_id)
        return 1

    async with bench(busy) as jobs:
        watch = LoopWatch(timedelta(0), jobs.runner.started)
        assert result_of(await jobs.end_of(busy)) == 1

    assert ("keeps the worker's loop busy" in caplog.text) is is_warned
