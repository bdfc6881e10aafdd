"""What would it have cost? A finished offer is forked, with another answer in place of one it got.

An offer asks for the price of the steel, then has a workshop calculate. Then the customer asks what
it would be with cheaper steel. A fork begins with the part of the history that
it shares with the original, in which one result is replaced: the steel is not asked for again, the
workshop is, and the original stays as it is. Kill it while the workshop calculates that, and run it
again: the fork goes on.

    python examples/what_if.py
    python examples/what_if.py 5      # that takes the workshop five seconds: time to kill it
"""

import asyncio
import sys

from perdure import Engine, activity, default_url, orchestration
from perdure.errors import AlreadyExistsError
from perdure.repair import after

STORE = default_url()
CALCULATING_S = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0

USUAL = 2_000


@activity
async def price_of_steel(kilos: int) -> int:
    """Ask for a price, which is another one every day."""
    print(f"asking for {kilos} kg of steel", flush=True)
    return 4 * kilos


@activity
async def calculate(steel: int) -> int:
    """Add what the work costs."""
    print(f"calculating with {steel}", flush=True)
    if steel < USUAL:
        await asyncio.sleep(CALCULATING_S)  # So cheap that it is calculated twice.
    return steel + 1_000


@orchestration
async def offer(kilos: int) -> str:
    """Say what so much of it costs."""
    return f"{kilos} kg cost {await calculate(await price_of_steel(kilos))}"


async def main() -> None:
    """Make an offer, and another one from the middle of it."""
    async with Engine(STORE, [offer, price_of_steel, calculate]) as engine:
        original = await engine.start("offer-7", offer, 500)
        print(await original.result())

        cheaper = after(price_of_steel).returning(1_500)
        plan = await original.plan(cheaper)
        print(f"would run again: {', '.join(plan.runs_again)}")
        try:
            forked = await original.fork("offer-7-cheaper", cheaper)
        except AlreadyExistsError:  # This program was killed after it had forked.
            forked = engine.handle("offer-7-cheaper", offer)
        print(f"with cheaper steel: {await forked.result()}")
        print(f"the original stays: {await original.result()}")


if __name__ == "__main__":
    asyncio.run(main())
