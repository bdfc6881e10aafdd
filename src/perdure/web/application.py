"""The ASGI application: routes of the API and of the pages, behind the gate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from hashlib import sha256
from os import urandom
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from perdure.client.client import Client
from perdure.client.remote.client import RemoteClient
from perdure.errors import StoreFullError, UsageError
from perdure.web.access import Authorize, Token
from perdure.web.audit import Audit
from perdure.web.changes import PagePace
from perdure.web.cursors import CursorSecret
from perdure.web.gate import Gate, route_path
from perdure.web.openapi import API, document_for
from perdure.web.operations import Site, endpoint, json_response
from perdure.web.pages.recent import RecentPages
from perdure.web.pages.rendering import Renderer
from perdure.web.pages.routes import page_routes
from perdure.web.problems import RefusalError, response_of
from perdure.web.rates import Openings
from perdure.web.route_table import RouteTable
from perdure.web.settings import WebLimits, WebSettings, checked_hosts
from perdure.web.strip import strip_routes
from perdure.web.table import OPERATIONS
from perdure.web.totals import RecentByKey, RecentQueues, RecentTotals, RecentValue

CLIENT = "perdure_client"
"""Where an application keeps its client."""


def app(
    client: Client | str,
    /,
    *,
    read_only: bool = False,
    authorize: Authorize | None = None,
    tokens: Sequence[Token] = (),
    key: str | None = None,
    hosts: Collection[str] | None = None,
    insecure_no_auth: bool = False,
    mask: Collection[str] = (),
    audit: Audit | None = None,
    limits: WebLimits | None = None,
    secret: bytes | None = None,
    title: str = "",
) -> Starlette:
    """Return an ASGI application that serves a client: the API below `/api`, and the pages.

    Served by itself it opens the client when it starts and closes it when it ends. Mounted in
    another application, which does not tell it of either, that is up to `lifespan`.

    Args:
        client: A client, an engine, or the URL of a store. With an engine the pages also have what
            needs the code: states of deciders, start forms.
        read_only: Whether nothing can be changed.
        authorize: Tells what a request may do, where the application that it is mounted in knows
            who asks: an `Access`, True for everything, False or None for nothing.
        tokens: What programs may show, as `Authorization: Bearer ...`.
        key: What a browser shows once, as `?k=...`; a cookie stands for it then.
        hosts: Under which names it may be asked for. Without any: this machine alone; where
            `authorize` is given, under all names.
        insecure_no_auth: Whether everybody who reaches it may do everything.
        mask: Names of fields whose values are never shown.
        audit: Keeps an `AuditRow` of each action, before it is done and after: `audit_file(path)`,
            or a function of yours. An action whose row cannot be kept is not done.
        limits: How much callers may ask for.
        secret: Signs the forms of pages, and the places in lists where the store's role may only
            read. To be given where several processes serve them together.
        title: What the pages call the store.

    Raises:
        UsageError: No caller would have to say who it is, or a value makes no sense.
    """
    own = Client(client) if isinstance(client, str) else client
    if isinstance(own, RemoteClient):
        raise UsageError("an application serves a store, not another server: give it a store's URL")
    settings = WebSettings(
        read_only=read_only,
        authorize=authorize,
        tokens=tuple(tokens),
        key=key,
        insecure_no_auth=insecure_no_auth,
        hosts=checked_hosts(hosts, is_mounted=authorize is not None),
        mask=tuple(mask),
        audit=audit,
        limits=limits or WebLimits(),
        secret=secret or (urandom(32) if key is None else sha256(f"web\0{key}".encode()).digest()),
        title=title,
    )
    return app_of(own, settings)


def app_of(client: Client, settings: WebSettings) -> Starlette:
    """Return an application that behaves as the settings say."""
    monotonic = settings.monotonic
    return app_of_site(
        Site(
            client=client,
            settings=settings,
            streams=Openings(settings.limits.streams),
            totals=RecentTotals(monotonic),
            queues=RecentQueues(monotonic),
            pace=PagePace(),
            recent=RecentPages(monotonic),
            starts=RecentByKey(monotonic),
            cursors=CursorSecret(settings.secret),
            lately=RecentValue(monotonic),
        )
    )


def lifespan(
    served: Client | Starlette, /
) -> Callable[[Any], AbstractAsyncContextManager[dict[str, Any]]]:
    """Return a lifespan for the application that a client is used in, or that `app` is mounted in:
    `FastAPI(lifespan=perdure.web.lifespan(engine))`. Handlers find the client as
    `request.state.perdure`."""
    client: Client = served if isinstance(served, Client) else getattr(served.state, CLIENT)

    @asynccontextmanager
    async def opened(_: Any) -> AsyncIterator[dict[str, Any]]:
        was_open = client._core.is_open
        await client.open()
        try:
            yield {"perdure": client}
        finally:
            if not was_open:
                await client.close()

    return opened


def app_of_site(site: Site) -> Starlette:
    """Return the application that answers requests of a site."""
    renderer = Renderer(site)

    async def refuse(request: Request, error: Exception) -> Response:
        path = route_path(request.scope)
        wants_page = "text/html" in request.headers.get("accept", "")
        if wants_page and not path.startswith(f"{API}/"):
            return renderer.error_page(request, error)
        return response_of(error)

    async def refuse_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        texts = {404: "not_found", 405: "method_not_allowed"}
        code = texts.get(error.status_code, "http_error")
        return await refuse(
            request,
            RefusalError(error.status_code, code, f"{request.method} is not possible here")
            if code == "method_not_allowed"
            else RefusalError(error.status_code, code, "there is nothing here"),
        )

    routes = _routes(site, renderer)
    made = Starlette(
        routes=routes,
        middleware=[
            Middleware(Gate, settings=site.settings, refuse=refuse),
            Middleware(RouteTable, routes=routes),
        ],
        exception_handlers={HTTPException: refuse_http},
        lifespan=lifespan(site.client),
    )
    # A path means one thing: no second spelling with a slash behind it (SEC-5).
    made.router.redirect_slashes = False
    setattr(made.state, CLIENT, site.client)
    return made


def _routes(site: Site, renderer: Renderer) -> list[Route]:
    async def openapi(request: Request) -> Response:
        return json_response(site.settings, _api_document())

    async def healthz(request: Request) -> Response:
        # Still 200: the process answers, and another one in its place would write no better.
        core = site.client._core
        trouble = core.store.trouble if core.is_open else None
        if trouble is None:
            return PlainTextResponse("ok\n")
        is_full = isinstance(trouble, StoreFullError)
        return PlainTextResponse(f"degraded: {'store_full' if is_full else 'store_unavailable'}\n")

    return [
        Route("/healthz", healthz, methods=["GET"]),
        Route(f"{API}/openapi.json", openapi, methods=["GET"]),
        *(
            Route(f"{API}{one.path}", endpoint(one, site), methods=[one.method], name=one.name)
            for one in OPERATIONS
        ),
        *strip_routes(site.settings, site.recent),
        *page_routes(site, renderer),
    ]


@cache
def _api_document() -> dict[str, Any]:
    """Return what describes the API, made when it is first asked for."""
    return document_for(OPERATIONS)
