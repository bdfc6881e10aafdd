"""A report by a schedule: each slot once, also if the program is killed in between.

The schedule is declared by handing it to the engine. "Nightly" is every second here, so that there
is something to see; the real one is in the comment. Kill the program and start it again: a slot
that was missed meanwhile is made up for once, and no slot is reported twice.

    python examples/nightly.py        until five slots have been reported in all
    python examples/nightly.py 8      until eight have
"""

import asyncio
import sys
from datetime import timedelta

from perdure import Context, Engine, Every, Schedule, activity, default_url, orchestration


@activity
async def count_sales(slot: str, region: str) -> int:
    """Ask the shop's database."""
    await asyncio.sleep(0.1)
    return len(slot) + len(region)


@orchestration
async def report(ctx: Context, region: str) -> str:
    """Report on what was sold before a slot."""
    assert ctx.slot is not None
    slot = ctx.slot.at.isoformat()
    return f"{slot}: {await count_sales(slot, region)} sold in {region}"


# nightly = Schedule("nightly", Cron("0 2 * * *", "Europe/Berlin"), report, "eu")
nightly = Schedule("nightly", Every(timedelta(seconds=1)), report, "eu")


async def main(wanted: int) -> None:
    """Report until there are so many."""
    async with Engine(default_url(), [report, count_sales, nightly]) as engine:
        seen: set[str] = set()
        while len(seen) < wanted:
            page = await engine.instances(prefix="nightly@", status="completed")
            for one in sorted(page.items, key=lambda one: one.instance_id):
                if one.instance_id not in seen:
                    seen.add(one.instance_id)
                    print(await engine.handle(one.instance_id, report).result())
            await asyncio.sleep(0.1)
        await engine.schedule("nightly").pause("the example is over")
        print(f"{len(seen)} slots, each once")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
