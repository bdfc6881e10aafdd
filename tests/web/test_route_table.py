"""A table of routes answers as Starlette's router does, which tries one after another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

import perdure.web
from perdure.web.route_table import RouteTable
from tests.each import each
from tests.web.site import memory_url

VALUES = ("seen-1", "count", "a.json", "a%2Ejson", "%2Fx", "ü", "instances", "{instance_id}")
METHODS = ("GET", "POST", "DELETE")


def numbered(number: int) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return PlainTextResponse(f"{number} {sorted(request.path_params.items())}")

    return answer


def same_paths() -> list[Route]:
    """Return routes as the application has them, each of which answers its number."""
    app = perdure.web.app(memory_url(), insecure_no_auth=True)
    return [
        Route(route.path, numbered(number), methods=list(route.methods or ()))
        for number, route in enumerate(app.routes)
        if isinstance(route, Route)
    ]


async def test_every_path_is_answered_by_the_route_that_starlette_takes() -> None:
    routes = same_paths()
    by_table = RouteTable(PlainTextResponse("none"), routes)
    by_starlette = Starlette(routes=routes)
    by_starlette.router.redirect_slashes = False
    answered = 0

    async with asking(by_table) as table, asking(by_starlette) as starlette:
        for route in routes:
            for value in VALUES:
                path = "/".join(value_in(part, value) for part in route.path.split("/"))
                for method in METHODS:
                    expected = await starlette.request(method, path)
                    found = await table.request(method, path)
                    if expected.status_code == 200:
                        assert found.text == expected.text, (method, path)
                        answered += 1
                    else:
                        assert found.text == "none", (method, path)

    assert answered > len(routes) * len(VALUES) / 2


@each(["/api/instances/", "//api/instances", "/api", "/api/instances/a/b/c/d", "/API/instances"])
async def test_what_is_no_route_goes_on(path: str) -> None:
    async with asking(RouteTable(PlainTextResponse("none"), same_paths())) as api:
        found = await api.get(httpx.URL(f"http://127.0.0.1{path}"))

    assert found.text == "none"


async def test_routes_are_found_below_the_place_where_they_are_mounted() -> None:
    table = RouteTable(PlainTextResponse("none"), [Route("/one/{name}", numbered(1))])
    async with asking(Starlette(routes=[Mount("/ops", table)])) as api:
        found = await api.get("/ops/one/x")

    assert found.text == "1 [('name', 'x')]"


async def test_a_route_that_was_added_to_the_application_is_found() -> None:
    app = perdure.web.app(memory_url(), insecure_no_auth=True)
    app.router.routes.append(Route("/mine", numbered(1)))
    async with asking(app) as api:
        found = await api.get("/mine")

    assert found.text == "1 []"


def value_in(part: str, value: str) -> str:
    """Return a segment of a path with a value where a name is in braces."""
    before, brace, rest = part.partition("{")
    return f"{before}{value}{rest.partition('}')[2]}" if brace else part


def asking(app: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app),  # type: ignore[arg-type]  # any ASGI application
        base_url="http://127.0.0.1",
    )
