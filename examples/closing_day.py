"""A shop closes, and one thing is done to many orders at once.

Sixty orders wait for money. On the last day twenty were paid on account: one signal goes to all of
them. Ten are drafts that nobody will miss: they are stopped at once. The others are cancelled, and
each gives its goods back. Every act says how many orders it expects, so a forgotten condition hits
nothing. Kill it at any moment and run it again: it goes on with those that are left.

    python examples/closing_day.py
    python examples/closing_day.py 5      # to give back takes five seconds: time to kill it
"""

import asyncio
import sys
from contextlib import suppress

from perdure import Engine, Signal, activity, default_url, orchestration
from perdure.errors import OutcomeError

STORE = default_url()
GIVING_BACK_S = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0

paid = Signal("paid", str)


@activity
async def give_back(order: str) -> None:
    """Put the goods on the shelf again."""
    await asyncio.sleep(GIVING_BACK_S)
    print(f"{order} gives back", flush=True)


@orchestration
async def order(name: str) -> str:
    """Wait for the money; whoever is told to stop gives the goods back first."""
    try:
        return f"{name} paid {await paid.receive()}"
    except asyncio.CancelledError:
        await give_back(name)
        raise


@orchestration
async def draft(name: str) -> str:
    """Wait for the money. Nothing was taken from the shelf yet."""
    return await paid.receive()


async def open_shop(engine: Engine) -> None:
    """Take all orders; one that is there already stays as it is."""
    for number in range(60):
        kind = draft if number % 6 == 5 else order
        await engine.start(f"order-{number}", kind, f"order-{number}")


async def close_shop(engine: Engine) -> None:
    """Do to all what is to be done; done again, to those that are left."""
    on_account = [f"order-{number}" for number in range(60) if number % 3 == 0]
    # Under the same message id each hears it once, however often this runs.
    left = await engine.count(ids=on_account, status="running")
    await engine.signal_all(
        paid, "on account", ids=on_account, status="running", expect=left, message_id="last-day"
    )
    for one in on_account:
        await engine.handle(one).result()

    left = await engine.count(name="draft", status="running")
    stopped = await engine.terminate_all(name="draft", expect=left, reason="the shop closes")
    print(f"{stopped} drafts stopped", flush=True)

    left = await engine.count(name="order", status="running")
    asked = await engine.cancel_all(name="order", expect=left, reason="the shop closes")
    print(f"{asked} orders asked to give back", flush=True)


async def main() -> None:
    """Open, close, and count what came of it."""
    async with Engine(STORE, [order, draft, give_back]) as engine:
        await open_shop(engine)
        await close_shop(engine)
        for number in range(60):
            with suppress(OutcomeError):
                await engine.handle(f"order-{number}").result()
        for status in ("completed", "terminated", "cancelled"):
            print(f"{await engine.count(prefix='order-', status=status)} {status}")


if __name__ == "__main__":
    asyncio.run(main())
