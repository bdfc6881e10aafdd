"""What callers over HTTP hear of a store whose disk is full (SEC-33)."""

from __future__ import annotations

from pathlib import Path

import pytest

import perdure.web
from perdure import Client, Engine, orchestration
from perdure.web.worker_health import worker_app
from tests.disks import fill
from tests.web.site import caller

BIG = "x" * 200_000


@orchestration
async def swallow(text: str) -> None: ...


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.client.core.PATIENCE_S", 0.2)


@pytest.mark.parametrize("kind", [Client, Engine])
async def test_a_full_disk_is_507_reading_goes_on_and_health_is_degraded(
    small_disk: Path, kind: type[Client | Engine]
) -> None:
    """Once by a server that works itself, and once by one that only asks."""
    url = f"sqlite:///{small_disk}/store.db"
    opened = Engine(url, [swallow]) if kind is Engine else Client(url, create=True)
    body = {"name": "swallow", "instance_id": "s-1", "input": [BIG]}
    async with opened as client, caller(perdure.web.app(client, insecure_no_auth=True)) as api:
        ballast = small_disk / "ballast"
        fill(ballast)

        refused = await api.post("/api/instances", json=body)
        read = await api.get("/api/instances")
        health = await api.get("/healthz")
        ballast.unlink()
        taken = await api.post("/api/instances", json=body)
        healthy = await api.get("/healthz")

    assert (refused.status_code, refused.json()["code"]) == (507, "store_full")
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.headers["retry-after"] == "5"
    assert str(small_disk) not in refused.text
    assert read.status_code == 200
    assert (health.status_code, health.text) == (200, "degraded: store_full\n")
    assert taken.status_code in (200, 201)
    assert healthy.text == "ok\n"


async def test_a_worker_whose_disk_is_full_is_not_ready(small_disk: Path) -> None:
    async with Engine(f"sqlite:///{small_disk}/store.db", [swallow]) as engine:
        ballast = small_disk / "ballast"
        fill(ballast)
        async with caller(perdure.web.app(engine, insecure_no_auth=True)) as api:
            await api.post("/api/instances", json={"name": "swallow", "input": [BIG]})
        async with caller(worker_app(engine, engine)) as probe:
            full = await probe.get("/readyz")
            alive = await probe.get("/healthz")
        ballast.unlink()

    assert (full.status_code, full.json()) == (
        503,
        {"status": "degraded", "store": "StoreFullError"},
    )
    assert alive.status_code == 200
