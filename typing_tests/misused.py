"""Misuses of what an instance says and hears, of schedules and of points: each marked line is
refused. What is right is in the files of each subject, and in `everyday`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure import (
    BlockingClient,
    Client,
    Handle,
    Key,
    Page,
    Promise,
    Query,
    Request,
    Retention,
    Schedule,
    ScheduleHandle,
    ScheduleInfo,
    Slot,
    Stream,
    Tally,
    Update,
)
from perdure.repair import Point, ResetPlan, before
from perdure.web import sse
from typing_tests.everyday import (
    Article,
    Full,
    Receipt,
    add_item,
    cart,
    charge,
    cheapest,
    nightly,
    paid,
    report,
    sent,
    tokens,
    total,
)
from typing_tests.shop import use

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def wrong_names_and_types() -> None:
    Update("add_item", Article)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Update(Article, "add_item", int)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    Key("total")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Key(int, "total")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    Query("cheapest")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Query(name="cheapest", type=int)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Stream("tokens")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Stream(str, "tokens")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


def none_is_taken_for_a_wider_one() -> None:
    a: Update[object, int | Full] = add_item  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    b: Update[Article, object] = add_item  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    c: Key[object] = total  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    d: Query[object] = cheapest  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    e: Stream[object] = tokens  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    f: Promise[object] = paid  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    use(a, b, c, d, e, f)


async def wrong_in_an_orchestration(request: Request[Article, int]) -> None:
    request.answer(Full(1))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    request.answer()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    request.refuse()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    add_item.with_options(update_id=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    add_item.with_options(timeout="5 s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    total.set(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    total.delete("total")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    due = paid.make()
    due.token = "x"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    text: str = await due.receive()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    paid.make("token")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await tokens.flush(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    sent.send("r-1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    use(text)


async def wrong_questions(client: Client, blocking: BlockingClient, handle: Handle[int]) -> None:
    a: str = await handle.update(add_item, Article("kettle", 1))  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    b: str | None = await handle.kv(total)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    c: Article = await handle.ask(cheapest)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    await handle.update(add_item, Article("kettle", 1), update_id=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.wait_kv(total, after="3")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await handle.ask(cheapest, at="17")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.update_with_start(total, 3, "c", cart, "ada")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.update_with_start(add_item, "kettle", "c", cart, "ada")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await client.update_with_start(add_item, Article("kettle", 1), "c", charge, "ada")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    blocking.handle("c").update(add_item, "kettle")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    blocking.update_with_start(add_item, Article("kettle", 1), "c", cart)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    use(a, b, c)


async def wrong_schedules(client: Client, handle: ScheduleHandle, info: ScheduleInfo) -> None:
    Schedule("n", timedelta(minutes=5), report, "eu")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Schedule("n", nightly, report, "eu")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    nightly.with_options(within="1 day")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    nightly.with_options(starts_at="2026-01-01")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    nightly.slots(NOW, 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await handle.pause(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.resume("now")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await handle.backfill(NOW)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await handle.backfill(NOW, NOW, overlap="never")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.put_schedule("nightly")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    info.paused = "migration"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    Slot("nightly", "2026-01-01")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def wrong_points(client: Client, handle: Handle[Receipt], plan: ResetPlan) -> None:
    point: Point = "before charge"  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    await handle.plan("charge")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.fork("other", charge)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.reset(reason=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.reset(version="2.0.0")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    before(charge).returning(None)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    plan.kept_events = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    text: Handle[str] = await handle.fork("other")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    await client.reset_all("charge", expect=3, status="failed")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.retry_all(expect="3", status="failed")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    use(point, text)


async def wrong_reading(handle: Handle[str], tally: Tally) -> None:
    async for item in handle.stream(tokens):
        number: int = item.value  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
        use(number)
    await handle.stream(tokens)  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    sse("tokens")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tally.done = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    Tally(1, 0, ())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Page([1])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Retention(streams="1d")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
