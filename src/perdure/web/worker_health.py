"""What is asked of a worker by those who look after its process: does it live, is it ready, what
has it counted, how much work is there.

Four paths that tell nothing of any instance: no payloads, no ids, and nothing that can be changed.
Whether a process lives is open to all who reach it, as probes have nothing to show; numbers need a
token where the worker was given any.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from time import monotonic
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.client.client import Client
from perdure.client.reading.overview import QueueInfo
from perdure.errors import PerdureError
from perdure.telemetry import Metrics, prometheus_collector
from perdure.web.access import Token
from perdure.web.gate import Gate, access_of, check_scope
from perdure.web.problems import RefusalError, response_of
from perdure.web.settings import WebSettings, checked_hosts
from perdure.web.totals import RecentQueues
from perdure.web.values import dump

PROBES = ("/healthz", "/readyz")
"""Open to all, so that whatever starts and stops processes needs no token."""


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


def worker_app(
    worker: WorkerState,
    client: Client,
    *,
    tokens: Sequence[Token] = (),
    hosts: Collection[str] | None = None,
    insecure_no_auth: bool = False,
) -> Starlette:
    """Return an ASGI application with `/healthz`, `/readyz`, `/metrics` and `/demand`.

    Args:
        worker: Whose health and numbers are told.
        client: An open client of the same store, which is asked for what waits.
        tokens: What `/metrics` and `/demand` ask for, with the scope `read`; none: nothing.
        hosts: Under which names it may be asked for. Without any: this machine alone; where there
            are tokens, or everybody may ask, under all names.
        insecure_no_auth: Whether everybody who reaches it may ask for the numbers.
    """
    settings = WebSettings(
        tokens=tuple(tokens),
        insecure_no_auth=not tokens,
        hosts=checked_hosts(hosts, is_mounted=bool(tokens) or insecure_no_auth),
    )

    probes = _Probes(worker, client)
    made = Starlette(
        routes=[
            Route("/healthz", probes.healthz, methods=["GET"]),
            Route("/readyz", probes.readyz, methods=["GET"]),
            Route("/metrics", probes.metrics, methods=["GET"]),
            Route("/demand", probes.demand, methods=["GET"]),
        ],
        middleware=[Middleware(Gate, settings=settings, refuse=_refuse, open_paths=PROBES)],
        exception_handlers={RefusalError: _refuse, PerdureError: _refuse},
    )
    made.router.redirect_slashes = False
    return made


class _Probes:
    """What each path answers."""

    def __init__(self, worker: WorkerState, client: Client) -> None:
        self._worker = worker
        self._client = client
        self._queues = RecentQueues(monotonic)

    async def healthz(self, request: Request) -> Response:
        """Answer whether the process lives and its loops run."""
        health = self._worker.health
        trouble = health.failing or health.holds_store
        return _told({"failing": health.failing, "restarts": health.restarts}, is_good=not trouble)

    async def readyz(self, request: Request) -> Response:
        """Answer whether the store answers, and can be written."""
        try:
            await self._client.workers()
        except PerdureError as error:
            return _told({"store": type(error).__name__}, is_good=False)
        trouble = self._client._core.store.trouble
        if trouble is not None:
            return _told({"store": type(trouble).__name__}, is_good=False)
        return _told({"store": "answers"}, is_good=True)

    async def metrics(self, request: Request) -> Response:
        """Tell what was counted, for Prometheus."""
        from prometheus_client import CollectorRegistry, generate_latest  # late: few need it

        check_scope(access_of(request), "read", read_only=False)
        registry = CollectorRegistry()
        registry.register(prometheus_collector(self._worker.telemetry))
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    async def demand(self, request: Request) -> Response:
        """Tell how much work runs and waits, by definition and tag, for autoscalers; with
        `?tag=...` only the activities of these tags."""
        check_scope(access_of(request), "read", read_only=False)
        queues = await self._queues.get(self._client)
        told = _demand_of(queues, request.query_params.getlist("tag"))
        return Response(dump(told), media_type="application/json")


async def _refuse(request: Request, error: Exception) -> Response:
    return response_of(error)


def _demand_of(queues: Sequence[QueueInfo], tags: Sequence[str]) -> dict[str, Any]:
    rows = [
        {
            "kind": queue.kind,
            "name": queue.name,
            "version": queue.version or "",
            "tag": queue.tag or "",
            "running": queue.leased,
            "waiting": queue.ready,
            "demand": queue.ready + queue.leased,
        }
        for queue in queues
        if not tags or (queue.kind == "activity" and (queue.tag or "") in tags)
    ]
    return {"total": sum(int(str(row["demand"])) for row in rows), "queues": rows}


def _told(content: dict[str, Any], *, is_good: bool) -> Response:
    body = dump({"status": "ok" if is_good else "degraded"} | content)
    return Response(body, status_code=200 if is_good else 503, media_type="application/json")
