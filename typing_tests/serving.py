"""Engine, worker and run: who serves what."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from types import ModuleType
from typing import Any, assert_type

from perdure import (
    Activity,
    Client,
    Decider,
    Defined,
    Engine,
    Handle,
    Orchestration,
    Retention,
    Retry,
    Worker,
    WorkerOptions,
    default_url,
    run,
)
from perdure.clock import ManualClock
from perdure.projection import Projection
from perdure.telemetry import Metrics
from perdure.worker.serving import Health
from typing_tests import shop
from typing_tests.shop import Order, Receipt, charge, checkout, ship, use


async def an_engine_is_a_client_that_works(order: Order) -> None:
    async with Engine("sqlite:///shop.db", [shop]) as engine:
        assert_type(engine, Engine)
        handle = await engine.start("o-1", checkout, order)
        assert_type(handle, Handle[Receipt])
        assert_type(await handle.result(), Receipt)
        assert_type(await engine.start(ship, order), Handle[str])
        assert_type(engine.handle("o-1", checkout), Handle[Receipt])
        assert_type(engine.health, Health)
        assert_type(engine.telemetry, Metrics)
    client: Client = Engine("sqlite:///shop.db", [shop, charge, checkout])
    await client.open()
    engine = await Engine("sqlite:///shop.db", (charge, ship), resources=[order, "x"]).open()
    assert_type(engine, Engine)
    Engine("sqlite:///shop.db", [], options=WorkerOptions(async_jobs=3), clock=ManualClock())


async def a_worker(order: Order) -> None:
    options = WorkerOptions(threaded_jobs=3, lease_for=timedelta(seconds=10), name="w-1")
    async with Worker("sqlite:///shop.db", [shop, charge], options=options) as worker:
        assert_type(worker, Worker)
        assert_type(worker.telemetry, Metrics)
        await worker.run()
    Worker(default_url(), {checkout, ship}, resources=[order])


def running(order: Order, remote: Orchestration[..., int]) -> None:
    assert_type(run(checkout, order), Receipt)
    assert_type(run(checkout, order, gift=True), Receipt)
    assert_type(run("o-1", checkout, order), Receipt)
    assert_type(run("o-1", ship, order, days=3), str)
    assert_type(run(ship, order), str)
    assert_type(run(remote, instance_id="x", orchestration=3), int)


def options_are_values() -> None:
    Retry()
    Retry(
        max_attempts=None,
        first_delay=timedelta(seconds=1),
        backoff="linear",
        factor=1.5,
        max_delay=timedelta(minutes=1),
        jitter=0,
        no_retry=[ValueError, "CardDeclinedError"],
    )
    assert_type(Retry().max_attempts, int | None)
    assert_type(WorkerOptions().lease_for, timedelta)


def a_number_of_seconds_is_a_duration() -> None:
    assert_type(Retry(first_delay=1, max_delay=2.5).first_delay, timedelta)
    options = WorkerOptions(lease_for=30, session_lease=0.5, retention=Retention(ended=3600))
    assert_type(options.session_lease, timedelta)
    assert_type(options.retention.ended, timedelta | None)
    assert_type(replace(options, lease_for=10).lease_for, timedelta)


def which_work_a_worker_takes() -> None:
    WorkerOptions(tags="own")
    WorkerOptions(tags="any")
    WorkerOptions(tags=["gpu"])
    WorkerOptions(tags={None, "gpu"})
    WorkerOptions(tags=())
    WorkerOptions(versions={"checkout": ">=1.2,<2"}, prefer={"checkout": "1.3.0"})
    WorkerOptions(behaviours=(1, 1), max_sessions=0, session_lease=timedelta(seconds=10))
    WorkerOptions(retention=Retention(ended=timedelta(days=30), executions=3))


def one_definition_alone(url: str) -> None:
    Engine(url, charge)
    Engine(url, shop)
    Worker(url, checkout)


def a_list_made_beforehand(url: str) -> None:
    mixed = [charge, checkout]
    Engine(url, mixed)
    Engine(url, (*mixed, ship, shop))
    Worker(url, {charge, checkout})
    named: list[ModuleType | Activity[..., Any] | Orchestration[..., Any]] = [shop, charge]
    Engine(url, named)


def a_list_that_grows(
    url: str, decider: type[Decider[int, str, str, str]], reader: Projection[str]
) -> None:
    definitions: list[Defined] = [shop, charge]
    definitions.append(checkout)
    definitions += [decider, reader, type(reader), Engine(url, definitions).registry]
    Engine(url, definitions)
    Worker(url, definitions)
    definitions.append("charge")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    definitions.append(charge.fn)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def only_mypy_refuses_modules_beside_functions_in_a_list_made_beforehand(url: str) -> None:
    # It joins the two to `object`. Say what the list holds, or write it in the call.
    mixed = [shop, checkout]
    Engine(url, mixed)  # type: ignore[arg-type]


# ----------------------------------------------- misuses: every marked line is refused


def wrong_engines(url: str, order: Order) -> None:
    Engine(url)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Engine([shop], url)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Engine(url, "shop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Engine(url, ["charge"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    Engine(url, [order])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    Engine(url, [charge.fn])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    Engine(url, [shop], WorkerOptions())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Engine(url, [shop], options={"async_jobs": 3})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Engine(url, [shop], resources=order)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Engine(url, [shop], workers=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Engine(url, definitions=[shop])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def wrong_workers(url: str) -> None:
    Worker(url)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Worker(url, "charge")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Worker(url, ["charge"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    Worker(url, [shop], WorkerOptions())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Worker(url, [shop], options=Retry())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with Worker(url, [shop]):  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
        pass


async def workers_nobody_awaits(worker: Worker, engine: Engine) -> None:
    worker.run()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    engine.close()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def a_worker_starts_nothing(worker: Worker, order: Order) -> None:
    await worker.start(checkout, order)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def wrong_runs(order: Order) -> None:
    run(checkout)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    run(checkout, "o-1")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    run(checkout, order, wrapped=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    run("o-1", checkout, order, True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    run("o-1", checkout)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    run("o-1")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    run(charge, order)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    run(checkout.fn, order)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    run("o-1", "checkout", order)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    run(orchestration=checkout, order=order)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    asyncio.run(run(checkout, order))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    a: str = run(checkout, order)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    use(a)


def wrong_options() -> None:
    Retry(3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Retry(max_attempts="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Retry(first_delay="1 s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Retry(backoff="random")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Retry(attempts=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Retry(no_retry=ValueError)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    WorkerOptions(3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    WorkerOptions(lease_for="30")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    WorkerOptions(turns=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    WorkerOptions(tags=[3])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    WorkerOptions(tags=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    WorkerOptions(versions=["checkout"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    WorkerOptions(versions={"checkout": 2})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    WorkerOptions(behaviours=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    WorkerOptions(session_lease=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    WorkerOptions(retention=timedelta(days=30))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    WorkerOptions(watch_calls="sometimes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Retention(ended="30 days")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Retry().max_attempts = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    WorkerOptions().name = "w-1"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
