"""What an orchestrator of containers, Prometheus and an autoscaler ask a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from perdure import Engine, Orchestration
from perdure.web.worker_health import worker_app
from tests.web.site import caller, engine_with_all


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with engine_with_all() as engine:
        yield engine


@pytest.fixture
async def probe(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    async with caller(worker_app(engine, engine)) as client:
        yield client


async def test_a_worker_whose_loops_run_is_alive_and_ready(probe: httpx.AsyncClient) -> None:
    alive, ready = await probe.get("/healthz"), await probe.get("/readyz")

    assert (alive.status_code, alive.json()["status"]) == (200, "ok")
    assert (ready.status_code, ready.json()["store"]) == (200, "answers")


async def test_a_loop_that_is_down_is_degraded(probe: httpx.AsyncClient, engine: Engine) -> None:
    engine.health.failing = "claims"

    alive = await probe.get("/healthz")

    engine.health.failing = ""
    assert (alive.status_code, alive.json()["failing"]) == (503, "claims")


async def test_what_was_counted_is_told_to_prometheus(probe: httpx.AsyncClient) -> None:
    told = (await probe.get("/metrics")).text

    assert 'perdure_client_starts_total{orchestration="ship",version="1.0.0"} 1.0' in told


async def test_demand_is_what_waits_and_what_runs(probe: httpx.AsyncClient, engine: Engine) -> None:
    named: Orchestration[..., str] = Orchestration.named("orphan", str)
    await engine.start("o-1", named)

    told = (await probe.get("/demand")).json()

    assert told["total"] == 1
    assert [(one["name"], one["demand"]) for one in told["queues"]] == [("orphan", 1)]


async def test_probes_name_no_instance(probe: httpx.AsyncClient) -> None:
    told = ""
    for path in ("/healthz", "/readyz", "/metrics", "/demand"):
        told += (await probe.get(path)).text

    assert "order/1" not in told
