"""The application mounted in FastAPI and in Django, with the lifespan of each, below a path.

A real server runs each host and its lifespan. That pages and actions work below a path in a browser
is shown elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import django
import httpx
import pytest
from django.conf import settings as django_settings
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

import perdure.web
from perdure import Client, Context, Engine, orchestration
from perdure.web import Access, StreamEvent
from tests.web.serving import served
from tests.web.site import memory_url, quick
from tests.web.site import pack as pack_order


@orchestration
async def bake(ctx: Context) -> str:
    ctx.report("in the oven")
    return "a cake"


async def reports_of(client: Client, instance_id: str) -> AsyncIterator[StreamEvent]:
    handle = client.handle(instance_id, bake)
    yield StreamEvent("result", await handle.result(), 7)


def kitchen() -> Engine:
    return Engine(memory_url(), [bake, quick, pack_order])


STREAMED = ["id: 7", "event: result", 'data: "a cake"']

# --------------------------------------------------------------------------- FastAPI


def client_of(request: Request) -> Client:
    client = request.state.perdure
    assert isinstance(client, Client)
    return client


KnownClient = Annotated[Client, Depends(client_of)]


def by_header(request: Request) -> Access | None:
    """What a host knows its users by: here a header."""
    who = request.headers.get("x-user")
    if who is None:
        return None
    return Access(who=who) if who == "ada" else Access(who=who, scopes=frozenset({"read"}))


class Opened:
    """A lifespan that the host has already, and what it saw."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.seen: list[str] = []

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        self.seen.append("before")
        async with perdure.web.lifespan(self.engine)(app) as state:
            yield {**state, "greeting": "hello"}
        self.seen.append(f"open: {self.engine._core.is_open}")


def fastapi_host(engine: Engine, **options: Any) -> FastAPI:
    host = FastAPI(**options)

    @host.post("/cakes/{cake}", status_code=202)
    async def start(cake: str, client: KnownClient) -> dict[str, str]:
        return {"id": (await client.start(cake, bake)).instance_id}

    @host.get("/cakes/{cake}/events")
    async def follow(cake: str, client: KnownClient) -> Response:
        return perdure.web.sse(reports_of(client, cake))

    host.mount("/ops/x", perdure.web.app(engine, authorize=by_header))
    return host


async def test_fastapi_opens_the_client_for_its_handlers_and_for_what_is_mounted() -> None:
    engine = kitchen()
    host = fastapi_host(engine, lifespan=perdure.web.lifespan(engine))

    async with served(host, headers={"x-user": "ada"}) as http:
        started = await http.post("/cakes/c-1")
        streamed = await http.get("/cakes/c-1/events")
        shown = await http.get("/ops/x/api/instances/c-1/result", params={"wait": 30})

    assert (started.status_code, started.json()) == (202, {"id": "c-1"})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert [line for line in streamed.text.splitlines() if line and line[0] != ":"] == STREAMED
    assert shown.json()["result"] == "a cake"
    assert not engine._core.is_open


async def test_fastapi_keeps_its_own_lifespan_around_ours() -> None:
    own = Opened(kitchen())

    async with served(fastapi_host(own.engine, lifespan=own.lifespan)) as http:
        assert (await http.post("/cakes/c-1")).status_code == 202

    assert own.seen == ["before", "open: False"]


async def test_what_is_mounted_without_a_lifespan_says_what_is_missing() -> None:
    async with served(fastapi_host(kitchen()), headers={"x-user": "ada"}) as http:
        answer = await http.get("/ops/x/api/totals")

    assert (answer.status_code, answer.json()["code"]) == (503, "not_open")
    assert "lifespan=perdure.web.lifespan" in answer.json()["detail"]


async def mark_of(http: httpx.AsyncClient, who: dict[str, str]) -> dict[str, str]:
    """What a page of ours sends along with an action."""
    page = await http.get("/ops/x/", headers=who | {"accept": "text/html"})
    return {"x-perdure-csrf": page.text.partition('data-csrf="')[2].partition('"')[0]}


async def check_mounted(
    http: httpx.AsyncClient, ada: dict[str, str], guest: dict[str, str]
) -> None:
    """Look at pages, routes, streams and rights of an application below `/ops/x`."""
    nobody = await http.get("/ops/x/api/totals")
    read = await http.get("/ops/x/api/totals", headers=guest)
    refused = await http.post(
        "/ops/x/api/instances", json={"name": "quick"}, headers=guest | await mark_of(http, guest)
    )
    page = await http.get("/ops/x/", headers=ada | {"accept": "text/html"})
    body = {"name": "quick", "instance_id": "a/1", "input": ["toys"]}
    started = await http.post(
        "/ops/x/api/instances", json=body, headers=ada | await mark_of(http, ada)
    )
    result = await http.get(
        "/ops/x/api/instances/a%2F1/result", headers=ada | {"accept": "text/event-stream"}
    )
    own_page = await http.get("/ops/x/i/a%2F1", headers=ada | {"accept": "text/html"})
    style = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]

    assert (nobody.status_code, read.status_code) == (401, 200)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert started.status_code == 201, started.text
    assert 'data: {"' in result.text
    assert "toys packed" in result.text
    assert "a/1" in own_page.text
    assert 'href="/ops/x/' in own_page.text
    assert style.startswith("/ops/x/static/")
    assert (await http.get(style)).status_code == 200
    assert (await http.get("/ops/x/nowhere", headers=ada)).status_code == 404


async def test_in_fastapi_pages_routes_and_rights_are_below_the_path() -> None:
    engine = kitchen()
    host = fastapi_host(engine, lifespan=perdure.web.lifespan(engine))

    async with served(host) as http:
        await check_mounted(http, {"x-user": "ada"}, {"x-user": "guest"})
        document = (await http.get("/openapi.json")).json()
        assert "/ops/x" not in str(document["paths"])


# ---------------------------------------------------------------------------- Django


def login(request: HttpRequest, who: str) -> HttpResponse:
    request.session["who"] = who
    return HttpResponse("welcome")


async def start_cake(request: HttpRequest, cake: str) -> JsonResponse:
    client: Client = request.scope["state"]["perdure"]
    return JsonResponse({"id": (await client.start(cake, bake)).instance_id}, status=202)


async def follow_cake(request: HttpRequest, cake: str) -> StreamingHttpResponse:
    client: Client = request.scope["state"]["perdure"]
    events = perdure.web.sse(reports_of(client, cake))
    return StreamingHttpResponse(events.body_iterator, content_type="text/event-stream")


urlpatterns = [
    path("login/<str:who>", login),
    path("cakes/<str:cake>", start_cake),
    path("cakes/<str:cake>/events", follow_cake),
]


async def by_session(request: Request) -> Access | None:
    """What Django knows its users by: its session."""
    cookie = request.cookies.get(django_settings.SESSION_COOKIE_NAME)
    who = await SessionStore(cookie).aget("who")
    if who is None:
        return None
    return Access(who=who) if who == "ada" else Access(who=who, scopes=frozenset({"read"}))


@pytest.fixture(scope="module")
def django_app() -> Any:
    if not django_settings.configured:
        django_settings.configure(
            ROOT_URLCONF=__name__,
            SECRET_KEY="of these tests alone",
            ALLOWED_HOSTS=["*"],
            MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
            SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
        )
        django.setup(set_prefix=False)
    return get_asgi_application()


@pytest.fixture
async def django_http(django_app: Any) -> AsyncIterator[httpx.AsyncClient]:
    engine = kitchen()
    host = Starlette(
        routes=[
            Mount("/ops/x", perdure.web.app(engine, authorize=by_session)),
            Mount("/", django_app),
        ],
        lifespan=perdure.web.lifespan(engine),
    )
    async with served(host) as http:
        yield http
    assert not engine._core.is_open


async def test_django_views_have_the_client_and_stream(django_http: httpx.AsyncClient) -> None:
    started = await django_http.post("/cakes/c-1")
    streamed = await django_http.get("/cakes/c-1/events")

    assert (started.status_code, json.loads(started.content)) == (202, {"id": "c-1"})
    assert [line for line in streamed.text.splitlines() if line and line[0] != ":"] == STREAMED


async def test_in_django_pages_routes_and_rights_are_below_the_path(
    django_http: httpx.AsyncClient,
) -> None:
    cookies = {}
    for who in ("ada", "guest"):
        answer = await django_http.get(f"/login/{who}")
        cookies[who] = {"cookie": f"sessionid={answer.cookies['sessionid']}"}
    django_http.cookies.clear()

    await check_mounted(django_http, cookies["ada"], cookies["guest"])
