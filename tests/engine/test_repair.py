"""What an operator does by hand: end jobs, drop messages, run dead jobs again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from perdure import ActivityContext, Client, Handle, Retry, Signal, activity, orchestration
from perdure.errors import ActivityError, InstanceNotFoundError, PayloadError, UsageError
from tests.each import each
from tests.engine.stage import Gate, Stage, options, until, waits_for

AT_ONCE = Retry(max_attempts=2, first_delay=timedelta(0))
go = Signal("go", str)


@dataclass
class Receipt:
    amount: int


@activity
async def charge(order: str) -> Receipt:
    raise AssertionError("nobody serves it")


@orchestration
async def charged(order: str) -> str:
    try:
        receipt = await charge(order)
    except ActivityError as error:
        return str(error)
    return f"paid {receipt.amount}"


@orchestration
async def waiting() -> list[str]:
    return [await go.receive(), await go.receive()]


async def job_of(handle: Handle[Any]) -> str:
    """Return the key of the one open job."""
    await until(handle.jobs)
    [job] = await handle.jobs()
    return job.key


# -------------------------------------------------------------------------- jobs


async def test_a_job_that_nobody_can_run_is_completed_by_hand(stage: Stage) -> None:
    stage.expect_log("no live worker serves activity 'charge'")
    engine = await stage.engine([charged])
    handle = await engine.start("c", charged, "o-1")
    key = await job_of(handle)

    await engine.complete_job(key, Receipt(5), activity=charge)

    assert await handle.result() == "paid 5"
    assert await handle.jobs() == []


async def test_a_value_by_hand_may_be_plain_json(stage: Stage) -> None:
    stage.expect_log("no live worker serves activity 'charge'")
    engine = await stage.engine([charged])
    client = await stage.client()
    handle = await engine.start("c", charged, "o-1")

    await client.complete_job(await job_of(handle), {"amount": 7})

    assert await handle.result() == "paid 7"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("the bank is closed", "FailedByHand: the bank is closed"),
        (ValueError("no money"), "ValueError: no money"),
    ],
)
async def test_a_job_is_failed_by_hand(stage: Stage, error: BaseException | str, text: str) -> None:
    stage.expect_log("no live worker serves activity 'charge'")
    engine = await stage.engine([charged])
    handle = await engine.start("c", charged, "o-1")

    await engine.fail_job(await job_of(handle), error)

    assert await handle.result() == f"activity 'charge' failed: {text}"


async def test_a_job_that_runs_is_told_and_its_own_result_is_refused(stage: Stage) -> None:
    gate, told = Gate(), asyncio.Event()

    @activity
    async def stand() -> str:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            told.set()
            raise
        return "by itself"

    @orchestration
    async def stands() -> str:
        return await stand()

    engine = await stage.engine([stand, stands])
    handle = await engine.start("s", stands)
    await gate.reached()

    await engine.complete_job(await job_of(handle), "by hand")

    assert await handle.result() == "by hand"
    await until(told.is_set)


async def test_a_job_that_runs_elsewhere_is_told_too(stage: Stage) -> None:
    gate, told = Gate(), asyncio.Event()

    @activity
    async def stand(ctx: ActivityContext) -> str:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            told.set()
            raise
        return "by itself"

    @orchestration
    async def stands() -> str:
        return await stand()

    quick = options(poll_max=timedelta(milliseconds=50))
    engine = await stage.engine([stand, stands], options=quick)
    client = await stage.client()
    handle = await engine.start("s", stands)
    await gate.reached()

    await client.complete_job(await job_of(handle), "by hand")

    assert await handle.result() == "by hand"
    await until(told.is_set)


async def test_a_value_that_does_not_fit_ends_nothing(stage: Stage) -> None:
    stage.expect_log("no live worker serves activity 'charge'")
    engine = await stage.engine([charged])
    handle = await engine.start("c", charged, "o-1")
    key = await job_of(handle)

    with pytest.raises(PayloadError, match="result of job c:"):
        await engine.complete_job(key, "five", activity=charge)
    with pytest.raises(PayloadError):
        await engine.complete_job(key, object())

    assert [job.key for job in await handle.jobs()] == [key]


async def test_a_job_that_is_not_there_cannot_be_ended(stage: Stage) -> None:
    stage.expect_log("no live worker serves activity 'charge'")
    engine = await stage.engine([charged])
    handle = await engine.start("c", charged, "o-1")
    key = await job_of(handle)
    await engine.complete_job(key, {"amount": 1})
    await handle.result()

    for again in (engine.complete_job(key, {"amount": 2}), engine.fail_job(key, "no")):
        with pytest.raises(UsageError, match=r"there is no job 'c:.*it may have ended meanwhile"):
            await again
    assert await handle.result() == "paid 1"


@pytest.fixture
async def client(stage: Stage) -> Client:
    """For what is done wrong in many ways."""
    return await stage.client()


@each(["", "c", "c:1:1", "c:x:1:1", "c:1:1:one", 3, None])
async def test_a_key_that_is_none_is_refused(key: Any, client: Client) -> None:
    for asked in (
        client.complete_job(key, 1),
        client.fail_job(key, "no"),
        client.retry_dead_job(key),
        client.forget_dead_job(key),
    ):
        with pytest.raises(UsageError, match="is not the key of a job: it looks like"):
            await asked


async def test_an_id_with_colons_is_no_trouble(stage: Stage) -> None:
    stage.expect_log("no live worker serves activity 'charge'")
    engine = await stage.engine([charged])
    handle = await engine.start("a:b:1:2", charged, "o-1")

    await engine.complete_job(await job_of(handle), {"amount": 3})

    assert await handle.result() == "paid 3"


# ---------------------------------------------------------------------- messages


async def test_an_inbox_shows_what_waits(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("w", waiting)
    await handle.send(go, "first")

    start, signal = await client.inbox("w")

    assert (start.kind, signal.kind) == ("started", "signal_received")
    assert signal.data == {"name": "go", "value": "first"}
    assert signal.timer_key is None


async def test_a_message_is_dropped_by_hand(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("w", waiting)
    for said in ("one", "wrong", "two"):
        await handle.send(go, said)
    [wrong] = [one for one in await client.inbox("w") if one.data.get("value") == "wrong"]

    await client.drop_message("w", wrong.no)

    engine = await stage.engine([waiting])
    assert await engine.handle("w").result() == ["one", "two"]


async def test_a_message_for_an_id_that_was_never_started_can_be_dropped(stage: Stage) -> None:
    client = await stage.client()
    await client.handle("w").send(go, "too early")
    [message] = await client.inbox("w")

    await client.drop_message("w", message.no)

    assert (await client.metrics()).messages == 0


async def test_a_message_that_is_not_there_cannot_be_dropped(stage: Stage) -> None:
    client = await stage.client()
    await client.start("w", waiting)

    with pytest.raises(UsageError, match=r"the inbox of 'w' has no message 99: client.inbox"):
        await client.drop_message("w", 99)
    with pytest.raises(InstanceNotFoundError):
        await client.drop_message("nobody", 1)


# --------------------------------------------------------------------- dead jobs


@activity(retry=AT_ONCE)
async def fail(order: str, tries: list[str] | None = None) -> str:
    raise OSError(f"{order} on fire")


@orchestration
async def failing(order: str) -> str:
    try:
        return await fail(order)
    except ActivityError:
        return "failed"


async def make_dead(client: Client, *orders: str) -> None:
    for order in orders:
        assert await (await client.start(order, failing, order)).result() == "failed"


async def test_dead_jobs_are_listed_with_what_happened(stage: Stage) -> None:
    engine = await stage.engine([fail, failing])
    await make_dead(engine, "o-1")

    page = await engine.dead_jobs()

    [dead] = page.items
    assert page.next is None
    assert (dead.instance_id, dead.activity, dead.tag) == ("o-1", "fail", None)
    assert dead.input == {"order": "o-1"}
    assert (dead.attempts, dead.lost) == (2, 0)
    assert dead.failures == ("OSError: o-1 on fire",) * 2
    assert dead.died_at >= dead.created_at
    assert "it has 1 dead job, see client.dead_jobs()" in await engine.handle("o-1").explain()


async def test_dead_jobs_come_page_by_page(stage: Stage) -> None:
    engine = await stage.engine([fail, failing])
    await make_dead(engine, *(f"o-{number}" for number in range(5)))

    found: list[str] = []
    after = None
    for _ in range(3):
        page = await engine.dead_jobs(limit=2, after=after)
        found += [dead.instance_id for dead in page.items]
        after = page.next

    assert after is None
    assert sorted(found) == [f"o-{number}" for number in range(5)]


async def test_a_dead_job_is_run_again_by_hand(stage: Stage) -> None:
    ran: list[str] = []
    is_broken = True

    @activity(retry=AT_ONCE)
    async def mail(to: str) -> None:
        if is_broken:
            raise OSError("no route")
        ran.append(to)

    @orchestration
    async def mails(to: str) -> str:
        try:
            await mail(to)
        except ActivityError:
            return "not sent"
        return "sent"

    engine = await stage.engine([mail, mails])
    assert await (await engine.start("m", mails, "ada")).result() == "not sent"
    [dead] = (await engine.dead_jobs()).items

    is_broken = False
    await engine.retry_dead_job(dead.key)

    await until(lambda: ran == ["ada"])
    assert (await engine.dead_jobs()).items == []
    assert await engine.handle("m").result() == "not sent"
    with pytest.raises(UsageError, match=r"there is no dead job 'm:.*may have been retried"):
        await engine.retry_dead_job(dead.key)


async def test_dead_jobs_are_run_again_by_a_filter(stage: Stage) -> None:
    engine = await stage.engine([fail, failing])
    await make_dead(engine, "o-1", "o-2", "o-3")
    await engine.close()
    client = await stage.client()

    assert await client.retry_dead_jobs(activity="other") == 0
    assert await client.retry_dead_jobs(tag="gpu") == 0
    assert await client.retry_dead_jobs(instance_id="o-2") == 1
    assert await client.retry_dead_jobs(activity="fail", limit=1) == 1
    assert await client.retry_dead_jobs() == 1
    assert (await client.metrics()).dead_jobs == 0
    with pytest.raises(UsageError, match="limit must be a whole number of at least 1, got 0"):
        await client.retry_dead_jobs(limit=0)


async def test_a_dead_job_is_forgotten(stage: Stage) -> None:
    engine = await stage.engine([fail, failing])
    await make_dead(engine, "o-1")
    [dead] = (await engine.dead_jobs()).items

    await engine.forget_dead_job(dead.key)

    assert (await engine.dead_jobs()).items == []
    with pytest.raises(UsageError, match="there is no dead job"):
        await engine.forget_dead_job(dead.key)


# ------------------------------------------------------------------------ trouble


async def test_a_message_to_nobody_holds_up_nobody(stage: Stage) -> None:
    """Neither a signal nor a cancel request to an id that was never started."""
    engine = await stage.engine([waiting])
    for number in range(50):
        await engine.handle(f"nobody-{number}").send(go, "hello?")
        with pytest.raises(InstanceNotFoundError):
            await engine.handle(f"nobody-{number}").cancel()
    handle = await engine.start("w", waiting)
    await waits_for(handle, "signal 'go'")

    await handle.send(go, "a")
    await handle.send(go, "b")

    assert await handle.result() == ["a", "b"]
    assert (await engine.metrics()).unborn == 50


async def test_signals_before_the_start_wake_nobody_and_are_kept(stage: Stage) -> None:
    client = await stage.client()
    await client.handle("w").send(go, "a")

    assert await client.queues() == []
    live = await client._core.store.read_live("w")
    assert live is not None
    assert live.wake_at_ms is None

    engine = await stage.engine([waiting])
    handle = await engine.start("w", waiting)
    await handle.send(go, "b")
    assert await handle.result() == ["a", "b"]


async def test_clients_and_an_engine_at_once_never_find_the_store_locked(stage: Stage) -> None:
    """Nothing is logged, and every start and signal comes through."""
    engine = await stage.engine([waiting])
    clients = [await stage.client() for _ in range(3)]

    async def one(client: Client, name: str) -> list[str]:
        handle = await client.start(name, waiting)
        await handle.send(go, "a")
        await handle.send(go, "b")
        await client.instances()
        return await handle.result()

    everybody = [engine, *clients]
    results = await asyncio.gather(
        *(one(everybody[number % 4], f"w-{number}") for number in range(60))
    )

    assert results == [["a", "b"]] * 60
