"""Orders failed because of a bug. It is mended, and they go on from where they failed.

Monday's code cannot pack an order without a wrapping: two of four orders fail, after they were
paid for. On Tuesday the code is mended: `plan` says what would be kept, and `reset_all` lets both
go on from just before the call that failed. Nobody is charged again. Kill it while it packs, and
run it again: it goes on.

    python examples/reset_after_fix.py
    python examples/reset_after_fix.py 10      # packing takes ten seconds: time to kill it
"""

import asyncio
import sys

from perdure import Engine, activity, default_url, orchestration
from perdure.errors import InstanceFailedError

STORE = default_url()
PACKING_S = float(sys.argv[1]) if len(sys.argv) > 1 else 0.1

WRAPPINGS = {"order-1": "paper", "order-2": None, "order-3": "ribbon", "order-4": None}


@activity
async def charge(order: str) -> str:
    """Take the money. It is on record from then on."""
    print(f"  {order} is charged")
    return f"receipt for {order}"


@activity(name="pack")
async def pack_with_bug(order: str, wrapping: str | None) -> str:
    """Pack an order, as long as it is wrapped: the bug."""
    assert wrapping is not None, "what is a parcel without a wrapping?"
    return f"{order} in {wrapping}"


@activity(name="pack")
async def pack(order: str, wrapping: str | None) -> str:
    """Pack an order, with a wrapping or without."""
    print(f"  {order} is being packed")
    await asyncio.sleep(PACKING_S)
    return f"{order} in {wrapping or 'a plain box'}"


@orchestration
async def checkout(order: str, wrapping: str | None) -> str:
    """Take the money, then pack."""
    receipt = await charge(order)
    return f"{await pack(order, wrapping)}, with a {receipt}"


async def monday() -> None:
    """Serve four orders with the bug."""
    async with Engine(STORE, [checkout, charge, pack_with_bug]) as engine:
        for order, wrapping in WRAPPINGS.items():
            handle = await engine.start(order, checkout, order, wrapping)
            try:
                print(f"  {await handle.result()}")
            except InstanceFailedError as error:
                print(f"  {order} failed: {error.message}")


async def tuesday() -> None:
    """Let what has failed go on with the mended code."""
    async with Engine(STORE, [checkout, charge, pack]) as engine:
        failed = (await engine.instances(name="checkout", status="failed")).items
        for one in failed:
            plan = await engine.handle(one.instance_id).plan()
            print(f"  {one.instance_id} would run again: {', '.join(plan.runs_again)}")
        # All or none: if there are more or fewer by now, it says so and does nothing.
        count = await engine.reset_all(
            expect=len(failed), name="checkout", status="failed", reason="pack is mended"
        )
        print(f"  {count} go on")
        for order in WRAPPINGS:
            print(f"  {await engine.handle(order, checkout).result()}")


async def main() -> None:
    """Fail on Monday, go on on Tuesday."""
    print("Monday")
    await monday()
    print("Tuesday")
    await tuesday()


if __name__ == "__main__":
    asyncio.run(main())
