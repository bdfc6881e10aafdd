"""Engine, worker and run: who serves what."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import assert_type

from perdure import Client, Engine, Handle, Orchestration, Retry, Worker, WorkerOptions, run
from perdure.clock import ManualClock
from perdure.worker.serving import Health
from typing_tests import shop
from typing_tests.shop import Order, Receipt, charge, checkout, ship


async def an_engine_is_a_client_that_works(order: Order) -> None:
    async with Engine("sqlite:///shop.db", [shop]) as engine:
        assert_type(engine, Engine)
        handle = await engine.start("o-1", checkout, order)
        assert_type(handle, Handle[Receipt])
        assert_type(await handle.result(), Receipt)
        assert_type(await engine.start(ship, order), Handle[str])
        assert_type(engine.handle("o-1", checkout), Handle[Receipt])
        assert_type(engine.health, Health)
    client: Client = Engine("sqlite:///shop.db", [shop, charge, checkout])
    assert_type(await client.open(), Client)
    engine = await Engine("sqlite:///shop.db", (charge, ship), resources=[order, "x"]).open()
    assert_type(engine, Engine)
    Engine("sqlite:///shop.db", [], options=WorkerOptions(async_jobs=3), clock=ManualClock())


async def a_worker(order: Order) -> None:
    options = WorkerOptions(threaded_jobs=3, lease_for=timedelta(seconds=10), name="w-1")
    async with Worker("sqlite:///shop.db", [shop, charge], options=options) as worker:
        assert_type(worker, Worker)
        await worker.run()
    Worker("sqlite:///shop.db", iter([checkout, ship]), resources=[order])


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


# --- misuses


def wrong_engines(url: str, order: Order) -> None:
    Engine(url)
    Engine([shop], url)
    Engine(url, charge)
    Engine(url, shop)
    Engine(url, ["charge"])
    Engine(url, [order])
    Engine(url, [charge.fn])
    Engine(url, [shop], WorkerOptions())
    Engine(url, [shop], options={"async_jobs": 3})
    Engine(url, [shop], resources=order)
    Engine(url, [shop], workers=3)
    Engine(url, definitions=[shop])


def wrong_workers(url: str) -> None:
    Worker(url)
    Worker(url, charge)
    Worker(url, ["charge"])
    Worker(url, [shop], WorkerOptions())
    Worker(url, [shop], options=Retry())
    with Worker(url, [shop]) as worker:
        print(worker)


async def workers_nobody_awaits(worker: Worker, engine: Engine) -> None:
    worker.run()
    engine.close()


async def a_worker_starts_nothing(worker: Worker, order: Order) -> None:
    await worker.start(checkout, order)


def wrong_runs(order: Order) -> None:
    run(checkout)
    run(checkout, "o-1")
    run(checkout, order, wrapped=True)
    run("o-1", checkout, order, True)
    run("o-1", checkout)
    run("o-1")
    run(charge, order)
    run(checkout.fn, order)
    run("o-1", "checkout", order)
    run(orchestration=checkout, order=order)
    asyncio.run(run(checkout, order))
    a: str = run(checkout, order)
    print(a)


def wrong_options() -> None:
    Retry(3)
    Retry(max_attempts="3")
    Retry(first_delay=1)
    Retry(backoff="random")
    Retry(attempts=3)
    Retry(no_retry=ValueError)
    WorkerOptions(3)
    WorkerOptions(lease_for=30)
    WorkerOptions(turns=3)
    WorkerOptions(watch_calls="sometimes")
    Retry().max_attempts = 3
    WorkerOptions().name = "w-1"
