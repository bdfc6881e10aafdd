"""A cart that is asked and answers: updates under ids, a key for its total, a query for a look.

Three shoppers put things into one cart at the same time, each request under an id of its own. Kill
it in the middle and run it again: every request is given again, none is done twice, and the cart
has each thing once.

    python examples/cart.py
"""

import asyncio
from dataclasses import dataclass

from perdure import Engine, Handle, Key, Query, Signal, Update, activity, default_url, orchestration
from perdure.errors import UpdateRefusedError

STORE = default_url()
THINGS = 20
"""How many things each of the shoppers wants."""


@dataclass(frozen=True)
class Item:
    """A thing in the cart."""

    name: str
    cents: int


add_item = Update("add_item", Item, int)
total = Key("total", int)
dearest = Query("dearest", Item | None)
checkout = Signal("checkout", str)


@activity
async def price_of(item: Item) -> int:
    """Ask the shop what the thing costs today."""
    return item.cents


@orchestration
async def cart(owner: str) -> str:
    """Take things until it comes to the checkout."""
    items: list[Item] = []
    dearest.answer_with(lambda: max(items, key=lambda item: item.cents, default=None))

    async def add() -> None:
        async for request in add_item:
            if request.value.cents < 0:
                request.refuse("a price is not negative")
                continue
            total.set(total.get(0) + await price_of(request.value))
            items.append(request.value)
            request.answer(len(items))

    adding = asyncio.create_task(add())
    paid_with = await checkout.receive()
    adding.cancel()
    names = {item.name for item in items}
    return f"{owner} pays {total.get(0) / 100:.2f} for {len(items)} things with a {paid_with}, " + (
        "each once" if len(names) == len(items) else "some twice"
    )


async def shop(handle: Handle[str], shopper: str) -> None:
    """Put a shopper's things into the cart, one after another."""
    for number in range(1, THINGS + 1):
        thing = f"{shopper}-{number}"
        place = await handle.update(add_item, Item(thing, 100 + number), update_id=thing)
        print(f"{thing} is number {place}")


async def main() -> None:
    """Fill one cart from three sides, and pay."""
    async with Engine(STORE, [cart, price_of]) as engine:
        handle = await engine.start("cart-7", cart, "Ada")
        await asyncio.gather(*(shop(handle, shopper) for shopper in ("ada", "bob", "cy")))
        try:
            await handle.update(add_item, Item("voucher", -500), update_id="voucher")
        except UpdateRefusedError as error:
            print(f"refused: {error.reason}")
        print(f"in the cart: {await handle.kv(total)} cents, dearest {await handle.ask(dearest)}")
        await handle.send(checkout, "card", message_id="checkout")
        print(await handle.result())


if __name__ == "__main__":
    asyncio.run(main())
