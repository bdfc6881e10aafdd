"""What the users start and send to."""

from __future__ import annotations

from perdure import Signal, orchestration
from perdure.authoring.registry import GivenDefinitions
from tests.engine.shop import Basket, Order, charge

word = Signal("word", str)


@orchestration
async def double(number: int) -> int:
    return 2 * number


@orchestration
async def listen(count: int) -> list[str]:
    return [await word.receive() for _ in range(count)]


ALL: GivenDefinitions = [double, listen, Order, Basket, charge]
