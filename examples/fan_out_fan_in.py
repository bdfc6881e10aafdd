"""Fan out, fan in: one activity per shop, several at a time, one result from all of them.

At most three shops are asked at once, with an ordinary `asyncio.Semaphore`. A shop whose line is
busy is asked again; one that is closed is left out and named. Give it an id, kill it in the middle
and start it again: shops that have answered are not asked a second time.

    python examples/fan_out_fan_in.py              a new instance each time
    python examples/fan_out_fan_in.py november     one instance, finished once
"""

import asyncio
import sys
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

from perdure import ActivityContext, Retry, activity, orchestration, run


@dataclass(frozen=True)
class Sales:
    """What one shop sold."""

    shop: str
    cents: int


@dataclass(frozen=True)
class Summary:
    """What all shops sold together."""

    cents: int
    best: str
    missing: list[str]


class ShopClosedError(Exception):
    """Nobody will answer, however often we ask."""


# Stands for the outside world; a real activity would call the shops over the network.
BOOKS = {"Berlin": 120_050, "Lyon": 98_500, "Porto": 77_725, "Riga": 131_000, "Turku": 54_900}


@activity(
    retry=Retry(first_delay=timedelta(milliseconds=50), no_retry=[ShopClosedError]),
    timeout=timedelta(seconds=5),
    raises=[ShopClosedError],
)
async def ask_shop(ctx: ActivityContext, shop: str) -> Sales:
    """Ask one shop what it sold."""
    await asyncio.sleep(0.2)
    if shop not in BOOKS:
        print(f"{shop} is closed")
        raise ShopClosedError(shop)
    if shop == "Lyon" and ctx.attempt == 1:
        print(f"{shop} is busy")
        raise ConnectionError("line busy")
    print(f"{shop} sold {BOOKS[shop] / 100:,.2f}")
    return Sales(shop, BOOKS[shop])


@orchestration
async def sum_up(shops: list[str]) -> Summary:
    """Ask every shop and add up what they say."""
    three_at_a_time = asyncio.Semaphore(3)

    async def ask(shop: str) -> Sales | None:
        async with three_at_a_time:
            try:
                return await ask_shop(shop)
            except ShopClosedError:
                return None

    answers = await asyncio.gather(*(ask(shop) for shop in shops))
    sales = [answer for answer in answers if answer is not None]
    return Summary(
        cents=sum(each.cents for each in sales),
        best=max(sales, key=lambda each: each.cents).shop,
        missing=[shop for shop, answer in zip(shops, answers, strict=True) if answer is None],
    )


if __name__ == "__main__":
    instance_id = sys.argv[1] if len(sys.argv) > 1 else f"sales-{uuid4()}"
    summary = run(instance_id, sum_up, ["Berlin", "Lyon", "Oslo", "Porto", "Riga", "Turku"])
    print(f"Sold {summary.cents / 100:,.2f} in all, most of it in {summary.best}.")
    print(f"Without an answer: {', '.join(summary.missing)}.")
