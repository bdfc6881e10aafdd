"""The pages, in one table: each is served as HTML, and with `.json` behind it as its data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.web.gate import TWIN, access_of, check_scope, unescaped
from perdure.web.operations import (
    CheckedRequest,
    Nothing,
    Site,
    found_in_time,
    json_response,
    read_query,
)
from perdure.web.pages import charts, definitions, failures, instance, instances, overview
from perdure.web.pages.content import PageContent
from perdure.web.pages.recent import MadePage
from perdure.web.pages.rendering import KNOWN_TAG, Renderer, response_for_page
from perdure.web.problems import RefusalError, response_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRoute:
    """One page."""

    path: str
    handler: Callable[[CheckedRequest[Any, Any]], Awaitable[PageContent]]
    query: type[msgspec.Struct] = Nothing
    is_list: bool = False
    """As of an `ApiRoute`."""


PAGES = (
    PageRoute(path="/", handler=instances.show, query=instances.ListPageQuery, is_list=True),
    PageRoute(path="/i/{instance_id}", handler=instance.show, query=instance.InstancePageQuery),
    PageRoute(path="/failures", handler=failures.show, is_list=True),
    PageRoute(
        path="/queues", handler=overview.queues, query=overview.QueuesPageQuery, is_list=True
    ),
    PageRoute(path="/workers", handler=overview.workers, is_list=True),
    PageRoute(path="/schedules", handler=overview.schedules),
    PageRoute(path="/projections", handler=overview.projections),
    PageRoute(
        path="/definitions",
        handler=definitions.show,
        query=definitions.DefinitionsPageQuery,
        is_list=True,
    ),
    PageRoute(path="/charts", handler=charts.show, query=charts.ChartsPageQuery, is_list=True),
)


def page_routes(site: Site, renderer: Renderer) -> list[Route]:
    """Return the routes of all pages, their twins and the static files."""

    async def static(request: Request) -> Response:
        found = renderer.static.get(request.path_params["file"])
        if found is None:
            return response_of(RefusalError(404, "not_found", "there is no such file"))
        content, kind = found
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(content, media_type=kind, headers=headers)

    found = [Route("/static/{file}", static, methods=["GET"])]
    for page in PAGES:
        twin = f"/index{TWIN}" if page.path == "/" else f"{page.path}{TWIN}"
        found.append(Route(twin, _endpoint(page, site, renderer, is_json=True), methods=["GET"]))
        found.append(
            Route(page.path, _endpoint(page, site, renderer, is_json=False), methods=["GET"])
        )
    return found


def _endpoint(
    page: PageRoute, site: Site, renderer: Renderer, *, is_json: bool
) -> Callable[[Request], Awaitable[Response]]:
    async def content(request: Request) -> PageContent:
        path = {name: unescaped(value) for name, value in request.path_params.items()}
        query = read_query(page.query, request, of_form=True)
        asked = CheckedRequest(site, request, access_of(request), path, query, None)
        found = page.handler(asked)
        return await (found_in_time(site, found) if page.is_list else found)

    async def make(request: Request) -> MadePage:
        return renderer.page(request, await content(request))

    async def answer(request: Request) -> Response:
        try:
            check_scope(access_of(request), "read", read_only=site.settings.read_only)
            if not is_json:
                return await _recent(site, request, make)
            view = await content(request)
        except Exception as error:
            return response_of(error) if is_json else renderer.error_page(request, error)
        return json_response(site.settings, view.data, status=view.status)

    return answer


async def _recent(
    site: Site, request: Request, make: Callable[[Request], Awaitable[MadePage]]
) -> Response:
    """Return a page: to an open one that looks again, maybe what another has just been sent."""
    scope, access = request.scope, access_of(request)
    key = (
        *(scope.get("root_path", ""), scope["path"], scope["query_string"]),
        *(access.who, access.scopes),
    )
    took_s = 0.0

    async def timed() -> MadePage:
        nonlocal took_s
        began_s = site.settings.monotonic()
        made = await make(request)
        took_s = site.settings.monotonic() - began_s
        return made

    is_look = KNOWN_TAG in request.headers
    kept_s = site.pace.pause_s(site.streams.open) / 2 if is_look else 0.0
    made = await site.recent.get(key, timed, kept_s=kept_s)
    site.pace.note(took_s)
    return response_for_page(request, made)
