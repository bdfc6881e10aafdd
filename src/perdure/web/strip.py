"""The buttons of the strip: a line at the head of every page, for what only the serving program can
do. The demo crashes its worker there; applications of users have none."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.web.gate import access_of, check_scope
from perdure.web.pages.recent import RecentPages
from perdure.web.problems import RefusalError, response_of
from perdure.web.settings import WebSettings

PATH = "/strip"


def strip_routes(settings: WebSettings, recent: RecentPages) -> list[Route]:
    """Return the route of the buttons; none where there is no strip."""
    strip = settings.strip
    if strip is None:
        return []
    by_name = {button.name: button for button in strip.buttons}

    async def pressed(request: Request) -> Response:
        try:
            check_scope(access_of(request), "write", read_only=settings.read_only)
            button = by_name.get(request.path_params["button"])
            if button is None:
                raise RefusalError(404, "not_found", "there is no such button")
            await button.press()
        except Exception as error:
            return response_of(error)
        finally:
            recent.clear()
        return Response(status_code=204)

    return [Route(f"{PATH}/{{button}}", pressed, methods=["POST"])]
