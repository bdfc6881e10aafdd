"""A saga: when a later step fails, or somebody cancels, the earlier ones are undone in reverse.

The list of what to undo is the standard library's `AsyncExitStack`. Whatever ends the block, an
exception or a cancellation, the stack runs what is on it from the last to the first. Each of these
is a durable call like any other: all are made, even if the process dies in between.

    python examples/saga.py
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta

from perdure import Context, Engine, Retry, activity, default_url, orchestration
from perdure.errors import InstanceCancelledError, InstanceFailedError

STORE = default_url()
UNTIL_IT_WORKS = Retry(max_attempts=None, first_delay=timedelta(milliseconds=100))

# Stands for the systems of the airline, the hotel and the car hire.
BOOKED: set[str] = set()


@dataclass(frozen=True)
class Booking:
    """One part of a trip, under a reference that we choose."""

    what: str
    city: str
    reference: str


class SoldOutError(Exception):
    """There is none left."""


@activity(raises=[SoldOutError])
async def book(booking: Booking) -> None:
    """Book one part. The same reference twice is the same booking, so a repetition does no harm."""
    await asyncio.sleep(0.1)
    if booking.what == "car" and booking.city == "Oslo":
        print("  no car left")
        raise SoldOutError("no car left in Oslo")
    BOOKED.add(booking.reference)
    print(f"  {booking.what} booked")


@activity(retry=UNTIL_IT_WORKS)
async def give_up(booking: Booking) -> None:
    """Give a booking up, if it was made at all."""
    if booking.reference in BOOKED:
        BOOKED.remove(booking.reference)
        print(f"  {booking.what} given up")


@orchestration
async def book_trip(ctx: Context, city: str) -> list[Booking]:
    """Book all parts of a trip, or leave nothing booked."""
    parts = [
        Booking(what, city, f"{ctx.instance_id}/{what}") for what in ("flight", "hotel", "car")
    ]
    async with AsyncExitStack() as undo:
        for part in parts:
            # Before, not after: when it is broken off in the middle, it may have been booked.
            undo.push_async_callback(give_up, part)
            await book(part)
        ctx.report("all booked")
        await asyncio.sleep(0.3)  # time to think it over
        undo.pop_all()  # it is settled: nothing to undo any more
    return parts


async def main() -> None:
    """Book three trips: one goes well, one cannot be had, one is cancelled."""
    async with Engine(STORE, [book_trip, book, give_up]) as engine:
        print("Ada goes to Lisbon")
        ada = await engine.start(book_trip, "Lisbon")
        print(f"  settled: {', '.join(part.what for part in await ada.result())}")

        print("Grace goes to Oslo")
        grace = await engine.start(book_trip, "Oslo")
        try:
            await grace.result()
        except InstanceFailedError as error:
            print(f"  failed: {error.message}")

        print("Joan goes to Rome, then thinks it over")
        joan = await engine.start(book_trip, "Rome")
        await joan.wait_report()
        await joan.cancel("Joan stays at home")
        try:
            await joan.result()
        except InstanceCancelledError as error:
            print(f"  cancelled: {error.reason}")


if __name__ == "__main__":
    asyncio.run(main())
