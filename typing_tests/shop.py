"""The definitions that the other files use, and misuse."""

from __future__ import annotations

from dataclasses import dataclass

from perdure import ActivityContext, Context, Signal, activity, orchestration


def use(*values: object) -> None:
    """Make values count as used."""


@dataclass(frozen=True)
class Order:
    order_id: str
    amount: int


@dataclass(frozen=True)
class Receipt:
    order_id: str


@dataclass(frozen=True)
class Yes:
    by: str


@dataclass(frozen=True)
class No:
    why: str


@activity
async def charge(order: Order, *, currency: str = "EUR") -> Receipt:
    return Receipt(order.order_id + currency)


@activity
def price(amount: int, rate: float = 1.0) -> int:
    return round(amount * rate)


@activity
async def notify(ctx: ActivityContext, to: str, text: str = "") -> None:
    ctx.heartbeat({"to": to, "text": text})


@activity
def count(ctx: ActivityContext, words: list[str]) -> dict[str, int]:
    return dict.fromkeys(words, ctx.attempt)


@orchestration
async def checkout(order: Order, *, gift: bool = False) -> Receipt:
    return await charge(order, currency="USD" if gift else "EUR")


@orchestration
async def ship(ctx: Context, order: Order, days: int = 3) -> str:
    return f"{ctx.instance_id}:{order.order_id}:{days}"


approved = Signal("approved", bool)
answer = Signal("answer", Yes | No)
