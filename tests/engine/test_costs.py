"""What a one-activity orchestration is stored as: the same for those who use nothing else.

How many statements and rows it takes is in `tests/store/test_commit.py`.
"""

from __future__ import annotations

from perdure import activity, orchestration
from perdure.clock import ManualClock
from tests.engine.stage import Stage


@activity
async def say_hello(name: str) -> str:
    return f"Hello, {name}!"


@orchestration
async def greet(name: str) -> str:
    return await say_hello(name)


async def test_a_one_activity_orchestration_is_four_events_of_two_hundred_bytes(
    stage: Stage,
) -> None:
    """When an attempt began is recorded if it waited: the clock stands still."""
    engine = await stage.engine([say_hello, greet], clock=ManualClock())
    handle = await engine.start("o-1", greet, "Ada")
    await handle.result()

    stats = await handle.stats()

    assert (stats.executions, stats.events, stats.event_bytes) == (1, 4, 200)
    assert (stats.messages, stats.timers, stats.jobs, stats.kv_keys) == (0, 0, 0, 0)
