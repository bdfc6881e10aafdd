"""How late do ten thousand schedules fire that are due at the same instant?"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

from bench.harness import Case, Measured, Meter, Setup, percentile
from perdure import Context, Every, Schedule, orchestration
from perdure.client.client import Client

PUT_AT_ONCE = 200
LOOK_EVERY_S = 0.1


@orchestration
async def note_lateness(ctx: Context) -> float:
    """Return when its slot was, in seconds since the epoch."""
    assert ctx.slot is not None
    return ctx.slot.at.timestamp()


async def together(setup: Setup) -> list[Measured]:
    """Put them all, due once. Lateness is from the slot to the first turn of its instance."""
    count = 10_000 if not setup.quick else 5
    async with setup.engine([note_lateness]) as engine:
        # So far away that all of them are put before.
        due = datetime.fromtimestamp(int(time.time()) + (90 if not setup.quick else 3), UTC)
        for begin in range(0, count, PUT_AT_ONCE):
            some = range(begin, min(begin + PUT_AT_ONCE, count))
            await asyncio.gather(*(engine.put_schedule(once(number, due)) for number in some))
        assert datetime.now(UTC) < due, "they must be there before they are due"
        await asyncio.sleep((due - datetime.now(UTC)).total_seconds())
        with Meter(engine._core.store) as meter:
            while await engine.count(prefix="s", status="completed") < count:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_EVERY_S)
        late_ms = await lateness_ms(engine, due)
    row = f"{count:,} schedules due at one instant, lateness of their instances"
    return [
        meter.measured(f"{row}, p50", percentile(late_ms, 0.5), "ms", units=count, per="schedule"),
        Measured(row=f"{row}, p99", value=percentile(late_ms, 0.99), unit="ms"),
    ]


def once(number: int, due: datetime) -> Schedule[[], float]:
    """Return a schedule with one slot."""
    every = Every(timedelta(seconds=1))
    return Schedule(f"s{number}", every, note_lateness).with_options(
        starts_at=due, ends_at=due + timedelta(seconds=1)
    )


async def lateness_ms(client: Client, due: datetime) -> list[float]:
    """Return how much after their slot instances have ended: their code takes no time."""
    found: list[float] = []
    after: str | None = None
    while True:
        page = await client.instances(prefix="s", status="completed", limit=500, after=after)
        found += [
            (one.ended_at - due).total_seconds() * 1000
            for one in page.items
            if one.ended_at is not None
        ]
        after = page.next
        if after is None:
            return found


CASES = (Case(name="schedules", run=together),)
