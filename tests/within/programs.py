"""What the users start and send to."""

from __future__ import annotations

from perdure import Signal, orchestration
from perdure.authoring.registry import Definitions
from tests.engine.shop import Basket, Order, charge

word = Signal("word", str)


@orchestration
async def double(number: int) -> int:
    return 2 * number


@orchestration
async def listen(count: int) -> list[str]:
    return [await word.receive() for _ in range(count)]


ALL: Definitions = [double, listen, Order, Basket, charge]
