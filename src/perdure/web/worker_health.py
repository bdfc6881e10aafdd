"""What is asked of a worker by those who look after its process: does it live, is it ready, what
has it counted, how much work is there.

Four paths that tell nothing of any instance, for the network inside a cluster: no payloads, no ids,
and nothing that can be changed. So they need no token.
"""

from __future__ import annotations

from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.client.client import Client
from perdure.errors import PerdureError
from perdure.telemetry import Metrics, prometheus_collector
from perdure.web.values import dump


class WorkerState(Protocol):
    """What a worker or an engine says of itself."""

    @property
    def health(self) -> Any:
        """Whether its parts run."""
        ...

    @property
    def telemetry(self) -> Metrics:
        """What it counted."""
        ...


def worker_app(worker: WorkerState, client: Client) -> Starlette:
    """Return an ASGI application with `/healthz`, `/readyz`, `/metrics` and `/demand`.

    Args:
        worker: Whose health and numbers are told.
        client: An open client of the same store, which is asked for what waits.
    """

    async def healthz(request: Request) -> Response:
        """Tell whether the process lives and its loops run."""
        health = worker.health
        trouble = health.failing or health.holds_store
        return _told({"failing": health.failing, "restarts": health.restarts}, is_good=not trouble)

    async def readyz(request: Request) -> Response:
        """Tell whether the store answers."""
        try:
            await client.workers()
        except PerdureError as error:
            return _told({"store": type(error).__name__}, is_good=False)
        return _told({"store": "answers"}, is_good=True)

    async def metrics(request: Request) -> Response:
        """Tell what was counted, for Prometheus."""
        from prometheus_client import CollectorRegistry, generate_latest  # late: few need it

        registry = CollectorRegistry()
        registry.register(prometheus_collector(worker.telemetry))
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    async def demand(request: Request) -> Response:
        """Tell how much work runs and waits, by definition and tag, for autoscalers."""
        rows = [
            {
                "kind": queue.kind,
                "name": queue.name,
                "tag": queue.tag or "",
                "ready": queue.ready,
                "running": queue.leased,
                "demand": queue.ready + queue.leased,
            }
            for queue in await client.queues()
        ]
        total = sum(int(str(row["demand"])) for row in rows)
        return Response(dump({"total": total, "queues": rows}), media_type="application/json")

    made = Starlette(
        routes=[
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
            Route("/demand", demand, methods=["GET"]),
        ]
    )
    made.router.redirect_slashes = False
    return made


def _told(content: dict[str, Any], *, is_good: bool) -> Response:
    body = dump({"status": "ok" if is_good else "degraded"} | content)
    return Response(body, status_code=200 if is_good else 503, media_type="application/json")
