"""SEC-23: what users hand over is never in a log line or a metric.

Ids, names of definitions, names of exception classes and places in the code are. The text of an
exception is a user's value like any other: it is kept in the history, and shown to those who ask
for the instance.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from perdure import (
    Client,
    Engine,
    Retry,
    Signal,
    activity,
    activity_context,
    context,
    inline,
    orchestration,
)
from perdure.errors import PerdureError
from perdure.telemetry import JsonFormatter, prometheus_collector
from tests.engine.stage import Stage, load, options, until

CANARY = "canary-4711"
"""In every value that these programs handle, and in nothing else."""

words = Signal("words", str)


class LeakyError(Exception):
    def __init__(self, secret: str) -> None:
        super().__init__(f"could not do it for {secret}")
        self.secret = secret


@dataclass
class Order:
    customer: str


class Everything(logging.Handler):
    """Keeps every line at every level, as people and as machines get them."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self._formatters = (
            logging.Formatter("%(name)s %(message)s"),
            JsonFormatter(),
        )

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += [formatter.format(record) for formatter in self._formatters]


@pytest.fixture
def log() -> Iterator[Everything]:
    handler, root = Everything(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


def assert_silent(log: Everything, *clients: Client) -> None:
    assert log.lines, "nothing was logged at all"
    assert [line for line in log.lines if CANARY in line] == []
    for client in clients:
        registry = CollectorRegistry()
        registry.register(prometheus_collector(client.telemetry))
        assert CANARY not in generate_latest(registry).decode()
        assert CANARY not in str(client.telemetry.snapshot())


@activity(raises=[LeakyError], retry=Retry(max_attempts=2, first_delay=timedelta(0), jitter=0))
async def leaking(order: Order) -> str:
    if activity_context().attempt == 1 or order.customer.endswith("!"):
        raise LeakyError(order.customer)
    return f"done for {order.customer}"


@activity
def in_a_thread(order: Order) -> str:
    raise LeakyError(order.customer)


@orchestration
async def all_sorts(order: Order) -> str:
    ctx = context()
    ctx.report({"for": order.customer})
    ctx.kv["customer"] = order.customer
    result = await leaking(order)
    said = await words.receive()
    shown = await inline(str.upper, said)
    return f"{result} {shown} {said}"


@orchestration
async def failing(order: Order) -> str:
    await leaking(Order(order.customer + "!"))
    return "never"


@orchestration
async def failing_in_a_thread(order: Order) -> str:
    return await in_a_thread(order)


@orchestration
async def parent(order: Order) -> str:
    return await failing(order)


@orchestration
async def careless(order: Order) -> str:
    async def on_its_own() -> None:
        raise LeakyError(order.customer)

    asyncio.get_running_loop().create_task(on_its_own())
    await asyncio.sleep(0)
    return order.customer


@orchestration
async def clumsy(order: Order) -> str:
    try:
        return await words.receive()
    finally:
        raise LeakyError(order.customer)


PROGRAMS = [all_sorts, failing, failing_in_a_thread, parent, careless, clumsy]


async def result_of(engine: Engine, program: Any, instance_id: str) -> object:
    handle = await engine.start(instance_id, program, Order(CANARY))
    try:
        return await handle.result()
    except PerdureError as error:
        return error


async def test_neither_logs_nor_metrics_show_what_instances_handle(
    stage: Stage, log: Everything
) -> None:
    """Completed, retried, failed for good, failed in a thread, failed through a child."""
    engine = await stage.engine([*PROGRAMS, leaking, in_a_thread])
    handle = await engine.start("all", all_sorts, Order(CANARY))
    await handle.send(words, CANARY)

    assert CANARY in await handle.result()
    for program in (failing, failing_in_a_thread, parent):
        assert CANARY in str(await result_of(engine, program, program.name))

    assert_silent(log, engine)
    assert any(line for line in log.lines if "instance" in line and "failed: " in line)


async def test_an_exception_that_nobody_awaits_is_logged_without_its_text(
    stage: Stage, log: Everything
) -> None:
    stage.expect_log("left an exception unawaited")
    engine = await stage.engine([careless])

    await result_of(engine, careless, "c")

    assert_silent(log, engine)
    told = [line for line in log.lines if "unawaited" in line]
    assert any("LeakyError" in line and "on_its_own" in line for line in told)


async def test_what_a_torn_down_coroutine_raises_is_logged_without_its_text(
    stage: Stage, log: Everything
) -> None:
    engine = await stage.engine([clumsy])
    await engine.start("c", clumsy, Order(CANARY))

    await engine.close()

    assert_silent(log, engine)
    assert any("while it was torn down" in line for line in log.lines)


async def test_reasons_of_cancelling_and_terminating_are_not_logged(
    stage: Stage, log: Everything
) -> None:
    engine = await stage.engine([all_sorts, leaking])
    asked = await engine.start("asked", all_sorts, Order(CANARY))
    stopped = await engine.start("stopped", all_sorts, Order(CANARY))

    await asked.cancel(CANARY)
    await stopped.terminate(CANARY)
    for handle in (asked, stopped):
        with pytest.raises(PerdureError):
            await handle.result()

    assert_silent(log, engine)


SOURCE = """
from perdure import Signal, orchestration, activity
go = Signal("go", str)
@activity
async def charge(customer: str) -> str:
    return customer
@orchestration(name="changing")
async def changing(customer: str) -> None:
    await charge(customer + "{suffix}")
    await go.receive()
"""


async def test_a_blocked_instance_is_logged_without_the_values_that_differ(
    stage: Stage, log: Everything, tmp_path: Path
) -> None:
    """The text of the mismatch shows both values: it is for those who ask for the instance."""
    old = load(tmp_path / "old", "shop", SOURCE.format(suffix=""))
    new = load(tmp_path / "new", "shop", SOURCE.format(suffix="!"))
    stage.expect_log("instance .* is blocked")
    first = await stage.engine([old])
    await first.start("c", old.changing, CANARY)
    await until(lambda: first.telemetry.snapshot().value("perdure_activity_executions_total"))
    await first.close()

    second = await stage.engine([new])
    await second.handle("c").send(old.go, CANARY)
    await until(lambda: stage.logged("instance .* is blocked"))
    await until(lambda: second.telemetry.snapshot().value("perdure_instances_held_total"))

    assert CANARY in ((await second.handle("c").info()).reason or "")
    assert_silent(log, first, second)
    [line] = [line for line in log.lines if "is blocked" in line and line.startswith("{")]
    for fact in ('"instance_id": "c"', '"definition": "changing"', '"event": 2', '"execution": 1'):
        assert fact in line


async def test_a_shadow_replay_that_differs_is_logged_without_values(
    stage: Stage, log: Everything
) -> None:
    """Code that cannot be replayed is found when its instance ends."""
    calls: list[int] = []

    @orchestration
    async def moody(customer: str) -> None:
        calls.append(1)
        await leaking(Order(f"{customer} {len(calls)}"))

    stage.expect_log("cannot be replayed .* a crash would have blocked")
    stage.expected_mismatches = 1
    engine = await stage.engine([moody, leaking])

    await (await engine.start("m", moody, CANARY)).result()
    await until(lambda: stage.logged("cannot be replayed .* a crash would have blocked"))

    assert_silent(log, engine)


async def test_a_parked_instance_is_logged_without_what_its_turn_raised(
    stage: Stage, log: Everything, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.expect_log("a turn of instance .* failed")
    stage.expect_log("instance .* is parked")
    engine = await stage.engine([all_sorts, leaking], options=options(shadow_rate=0))
    handle = await engine.start("p", all_sorts, Order(CANARY))
    await until(lambda: engine.telemetry.snapshot().value("perdure_activity_executions_total"))

    def broken(*_: Any, **__: Any) -> Any:
        raise LeakyError(CANARY)

    monkeypatch.setattr(engine._serving.turns._executions, "run", broken)
    await handle.send(words, CANARY)
    await until(lambda: engine.telemetry.snapshot().value("perdure_instances_held_total"))

    info = await handle.info()
    assert CANARY in (info.reason or "")
    assert_silent(log, engine)
    told = [line for line in log.lines if "a turn of instance" in line and line.startswith("{")]
    assert '"error_type": "LeakyError"' in told[0]
    assert '"worker_id"' in told[0]
