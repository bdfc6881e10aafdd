"""Transactions: rows of your own and the step that wrote them are one commit.

A bank settles a day: ten transfers, one after another. The accounts are a table of its own, in
the store's database. Each transfer is a transaction: the money moves and the step is recorded, or
neither. Kill the program in the middle and run it again with the same id: no transfer is missing,
none is made twice.

    python examples/bank_transfers.py
    python examples/bank_transfers.py monday
"""

import asyncio
import sqlite3
import sys
import time
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

from perdure import Engine, Retry, WorkerOptions, default_url, orchestration, transaction

STORE = default_url()
# Short, so that the next run of this program takes over soon from one that was killed.
OPTIONS = WorkerOptions(lease_for=timedelta(seconds=1), poll_max=timedelta(milliseconds=500))


class NotEnoughError(Exception):
    """There is less money than was asked for."""


@transaction
def open_accounts(connection: sqlite3.Connection) -> None:
    """Make the bank's own table, unless it is there."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS accounts (owner TEXT PRIMARY KEY, cents INTEGER)"
    )
    connection.executemany(
        "INSERT OR REPLACE INTO accounts VALUES (?, ?)", [("Ada", 10_000), ("Grace", 10_000)]
    )


@transaction(retry=Retry(max_attempts=3), raises=[NotEnoughError])
def transfer(connection: sqlite3.Connection, payer: str, payee: str, cents: int) -> int:
    """Move money; return what the payer has left."""
    change = "UPDATE accounts SET cents = cents + ? WHERE owner = ? RETURNING cents"
    connection.execute(change, (cents, payee)).fetchall()
    [(left,)] = connection.execute(change, (-cents, payer)).fetchall()
    time.sleep(0.01)  # whoever dies here has moved nothing
    if left < 0:
        raise NotEnoughError(f"{payer} has not got {cents / 100:.2f}")
    print(f"{payer} pays {payee} {cents / 100:.2f}")
    return int(left)


@transaction
def balances(connection: sqlite3.Connection) -> dict[str, int]:
    """Return what everybody has."""
    return dict(connection.execute("SELECT owner, cents FROM accounts"))


@orchestration
async def settle_day(transfers: int) -> dict[str, int]:
    """Make all transfers of a day, and one that there is no money for."""
    await open_accounts()
    for number in range(transfers):
        payer, payee = ("Ada", "Grace") if number % 2 else ("Grace", "Ada")
        await transfer(payer, payee, 100 * (number + 1))
    with suppress(NotEnoughError):
        await transfer("Ada", "Grace", 1_000_000)  # what it has written is gone
    return await balances()


async def main(day: str) -> None:
    """Settle a day, or go on with one."""
    async with Engine(
        STORE, [open_accounts, transfer, balances, settle_day], options=OPTIONS
    ) as engine:
        found = await (await engine.start(day, settle_day, 10)).result()
    for owner, cents in sorted(found.items()):
        print(f"{owner} has {cents / 100:.2f}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else f"day-{uuid4().hex[:8]}"))
