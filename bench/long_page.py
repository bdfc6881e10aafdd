"""How long does it take to open the page of an instance that waits, with 20,000 events behind it?

The first look of a server folds the history, a part at a time. Each later one, as of a page that is
open, reads what is new of it.
"""

from __future__ import annotations

import time

import httpx

import perdure.web
from bench.harness import Case, Measured, Setup, percentile
from perdure import Client, Signal, context, orchestration

EVENTS = 20_000
LOOKS = 20
MOST_S = 1.0

go_on = Signal("go_on", int)


@orchestration
async def keep_many(values: int) -> int:
    """Record an event for each value, and wait."""
    ctx = context()
    for number in range(values):
        ctx.kv["number"] = number
    ctx.report("all are kept")
    return await go_on.receive()


async def open_long_page(setup: Setup) -> list[Measured]:
    """Open it at a server that has not seen it, and then again and again."""
    async with setup.engine([keep_many]) as engine:
        handle = await engine.start("long-1", keep_many, setup.size(EVENTS, quick=600))
        await handle.wait_report()
    took_s = []
    async with Client(setup.url) as client:
        app = perdure.web.app(client, insecure_no_auth=True)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
            await browser.get("/workers")  # which does not look at the instance
            for _ in range(LOOKS):
                began_s = time.perf_counter()
                page = await browser.get("/i/long-1", headers={"accept": "text/html"})
                took_s.append(time.perf_counter() - began_s)
                assert page.status_code == 200, page.text
    row = f"page of an instance that waits after {EVENTS:,} events"
    return [
        Measured(row=f"{row}: first look", value=took_s[0], unit="s", at_most=MOST_S),
        Measured(row=f"{row}: the next", value=percentile(took_s[1:], 0.5) * 1000, unit="ms"),
    ]


CASES = (Case(name="long_page", run=open_long_page),)
