"""`for_each`: the items or the source fit what is done with each."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import assert_type

from perdure import Context, Page, Stream, Tally, activity, for_each, orchestration


@dataclass(frozen=True)
class Invoice:
    number: int


@dataclass(frozen=True)
class Sent:
    number: int


@activity
async def remind(invoice: Invoice) -> Sent:
    return Sent(invoice.number)


@activity
async def remind_by(invoice: Invoice, channel: str) -> Sent:
    return Sent(invoice.number)


@activity
def unpaid(after: str | None) -> Page[Invoice]:
    return Page([Invoice(1)], next=None)


@activity
async def numbers(after: str | None) -> Page[int]:
    return Page([1], next="2")


@activity
async def all_unpaid() -> Page[Invoice]:
    return Page([Invoice(1)], next=None)


@activity
async def plain_list(after: str | None) -> list[Invoice]:
    return []


sent = Stream("sent", Sent)
words = Stream("words", str)


@orchestration
async def collect(ctx: Context, invoice: Invoice) -> Sent:
    return Sent(invoice.number)


async def good() -> None:
    invoices = [Invoice(1), Invoice(2)]
    assert_type(await for_each(remind, invoices), Tally)
    assert_type(await for_each(remind, unpaid, pages=16, max_failures=None), Tally)
    assert_type(await for_each(collect, unpaid, page_size=10), Tally)
    assert_type(await for_each(remind, unpaid, results=sent), Tally)
    assert_type(await for_each(collect, invoices, results=sent), Tally)
    few: Coroutine[object, None, Tally] = for_each(collect, tuple(invoices), max_failures=3)
    assert_type((await few).failures, tuple[str, ...])


async def bad() -> None:
    await for_each(remind, [1, 2])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(remind, ["a"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(remind, numbers)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(collect, numbers)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(remind, all_unpaid)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(remind, plain_list)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(remind_by, unpaid)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(remind_by, [Invoice(1)])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(remind.fn, [Invoice(1)])  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(remind, unpaid, max_failures="3")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(remind, {Invoice(1)})  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(remind, unpaid, results=words)  # type: ignore[misc]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(remind, [Invoice(1)], results=words)  # type: ignore[misc]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await for_each(collect, unpaid, results="sent")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    Page([Invoice(1)], next=2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
