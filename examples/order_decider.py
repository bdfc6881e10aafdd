"""An order as a decider: paid in time or expired, a receipt mailed, a table to list orders by.

`decide` says what comes of an input, `evolve` what an event does to the state; both are pure. What
follows, receipt, deadline and row, happens if the event is recorded, and not otherwise.

    python examples/order_decider.py
"""

import asyncio
import os
import sqlite3
from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure import Accepted, AlreadyCompleted, Decider, Decision, Engine, Rejected, activity
from perdure.projection import EventMeta, SqlProjection, Tables

STORE = os.environ.get("PERDURE_STORE", "sqlite:///perdure.db")


@dataclass(frozen=True)
class Place:
    order: str
    cents: int


@dataclass(frozen=True)
class Pay:
    order: str
    cents: int


@dataclass(frozen=True)
class Expire:
    order: str


@dataclass(frozen=True)
class Placed:
    cents: int


@dataclass(frozen=True)
class Paid:
    cents: int


@dataclass(frozen=True)
class Expired:
    cents: int


Input = Place | Pay | Expire
Event = Placed | Paid | Expired
State = Event | None


@activity
async def mail_receipt(order: str, cents: int) -> None:
    """Stands for a mail server. May run again after a crash: mail under the order's number."""
    print(f"  receipt for {order}: {cents / 100:.2f}")


class Order(Decider[State, Input, Event, str]):
    """One order. Its last event is all the state it needs."""

    name = "order"

    def initial(self) -> State:
        return None

    def instance_id(self, input: Input, /) -> str:
        return input.order

    def decide(self, state: State, input: Input, now: datetime, /) -> Decision[Input, Event, str]:
        match state, input:
            case None, Place(order, cents):
                placed = Decision.accept(Placed(cents))
                return placed.timer("pay", after=timedelta(milliseconds=500), input=Expire(order))
            case Placed(due), Pay(order, cents):
                if cents != due:
                    return Decision.reject(f"{due} are due, not {cents}")
                paid = Decision.accept(Paid(cents)).cancel_timer("pay")
                return paid.effect(mail_receipt, order, cents)
            case Placed(cents), Expire():
                return Decision.accept(Expired(cents))
            case _:
                return Decision.reject(f"not possible now: {input}")

    def evolve(self, state: State, event: Event, /) -> Event:
        return event

    def is_terminal(self, state: State, /) -> bool:
        return isinstance(state, Paid | Expired)


class OrderTable(SqlProjection[Event]):
    """One row per order in a table of our own: each event is written down exactly once."""

    name = "order-table"
    deciders = (Order,)

    def setup(self, tables: Tables, /) -> None:
        tables.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, status TEXT)")

    def handle(self, event: Event, meta: EventMeta, tables: Tables, /) -> None:
        insert = "INSERT INTO orders VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET status = ?2"
        tables.execute(insert, (meta.instance_id, type(event).__name__))


async def main() -> None:
    """Place two orders, pay one of them, and list both."""
    run = os.urandom(3).hex()
    async with Engine(STORE, [Order, OrderTable, mail_receipt]) as engine:
        for order, cents in ((f"{run}-lamp", 4_250), (f"{run}-pen", 190)):
            await engine.execute(Order, Place(order, cents))
        for cents in (4_000, 4_250, 4_250):
            match await engine.execute(Order, Pay(f"{run}-lamp", cents)):
                case Accepted(told) | Rejected(told):
                    print(f"{cents}: {told}")
                case AlreadyCompleted():
                    print(f"{cents}: nothing is due any more")
        await engine.handle(f"{run}-pen", Order).result()  # nobody pays: it expires
        while (await engine.projection("order-table")).behind:  # noqa: ASYNC110 - soon
            await asyncio.sleep(0.01)
    # Read as by any other program: the table is in the file, or in the schema `public`.
    select, pattern = "SELECT * FROM orders WHERE id LIKE $1 ORDER BY id", f"{run}-%"
    if STORE.startswith("sqlite:"):
        with sqlite3.connect(STORE.removeprefix("sqlite:///")) as file:
            rows = file.execute(select, {"1": pattern}).fetchall()
    else:
        import asyncpg

        async with asyncpg.create_pool(STORE, min_size=1) as pool:
            rows = await pool.fetch(select, pattern)
    print("\n".join(" ".join(row) for row in rows))


if __name__ == "__main__":
    asyncio.run(main())
