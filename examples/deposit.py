"""A deposit that is paid days later: the payment provider calls back with a token.

The orchestration makes a promise and gives its token away. Whoever has the token keeps the promise,
once, from anywhere: here from another part of the program, in a web application with
`perdure.web.hooks`. Kill it while it waits, and run it again: the token is still good.

    python examples/deposit.py
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perdure import Engine, Promise, activity, default_url, orchestration
from perdure.errors import PromiseRejectedError

STORE = default_url()

# Stands for the provider, who writes down whom to call back.
CALLBACKS = Path("callbacks")


@dataclass(frozen=True)
class Receipt:
    """What the provider sends when the money is there."""

    number: str
    cents: int


paid = Promise("paid", Receipt)


@activity
def ask_for_payment(order: str, token: str) -> None:
    """Tell the provider whom to call back. Told twice, it has the same token twice."""
    CALLBACKS.mkdir(exist_ok=True)
    (CALLBACKS / order).write_text(token)


@orchestration
async def deposit(order: str, cents: int) -> str:
    """Wait for three days for the money."""
    due = paid.make()
    await ask_for_payment(order, due.token)
    try:
        async with asyncio.timeout(3 * 86_400):
            receipt = await due.receive()
    except PromiseRejectedError as error:
        return f"{order}: not paid, {error.reason}"
    return f"{order}: {receipt.cents} of {cents} cents paid, receipt {receipt.number}"


async def token_of(order: str) -> str:
    """Return what the provider was given, as soon as it was."""
    while True:
        with suppress(FileNotFoundError):
            if token := (CALLBACKS / order).read_text():
                return token
        await asyncio.sleep(0.05)


async def main() -> None:
    """Let two orders be paid for: one is paid, one is declined."""
    async with Engine(STORE, [deposit, ask_for_payment]) as engine:
        chair = await engine.start("deposit-chair", deposit, "chair", 12_900)
        table = await engine.start("deposit-table", deposit, "table", 49_900)
        print("waiting for the provider")
        await asyncio.sleep(0.5)

        first = await engine.resolve(paid, await token_of("chair"), Receipt("r-1", 12_900))
        again = await engine.resolve(paid, await token_of("chair"), Receipt("r-2", 1))
        print(f"the first call counts: {first}; the second one: {again}")
        await engine.reject(await token_of("table"), "card declined")

        print(await chair.result())
        print(await table.result())


if __name__ == "__main__":
    asyncio.run(main())
