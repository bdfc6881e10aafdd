"""A worker in a process of its own that comes to no end, to be killed: its leases last for long.

Run as `python -m tests.engine.mortal URL`. What hangs there does not hang where a test goes on
with it. With `far` behind the URL it is as if it ran on another host: nothing is known of its
process.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from perdure import Worker, WorkerOptions, activity, activity_context, orchestration
from perdure.authoring.registry import Defined
from perdure.model.turns import ProcessId
from perdure.projection import Subscription
from perdure.worker import serving
from tests.engine.fed import Order, Placed

LASTING = WorkerOptions(lease_for=timedelta(minutes=10), session_lease=timedelta(minutes=10))
"""A test would give up long before such a lease ends."""

hangs = False
"""Whether this is the process that will be killed."""


@activity
async def act() -> int:
    attempt = activity_context().attempt
    if hangs:
        await asyncio.Event().wait()
    return attempt


@orchestration
async def acting() -> int:
    return await act()


@orchestration
async def acting_in_session() -> int:
    return await act.with_options(session="s")()


@orchestration
async def computing() -> str:
    while hangs:
        pass
    return "computed"


@orchestration
async def parcel(event: Placed) -> str:
    return event.order_id


shipping = Subscription("shipping", Order, [Placed], start=parcel)

DEFINITIONS: list[Defined] = [act, acting, acting_in_session, computing, parcel, shipping]


async def main(url: str) -> None:
    async with Worker(url, DEFINITIONS, options=LASTING) as worker:
        await worker.run()


if __name__ == "__main__":
    # The module of this name, not the program: the definitions are there.
    from tests.engine import mortal

    mortal.hangs = True
    if "far" in sys.argv:
        vars(serving)["own_process"] = lambda: ProcessId("another host", 1, 1)
    asyncio.run(mortal.main(sys.argv[1]))
