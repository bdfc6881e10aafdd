"""Which route a path belongs to, found segment by segment.

Starlette tries one route after another, by a regular expression each: of more than a hundred, half
are tried before the usual one fits. Here a path is looked up among the literal segments of all, and
only routes that agree with those are asked whether they fit, in their order.

What no route here fits goes on to Starlette, which answers that there is nothing, or not by this
method. Routes that users add to the application are found there too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.web.gate import route_path

_NAMED = None
"""Stands for every segment that has a name in braces in it."""


@dataclass(slots=True)
class _Segment:
    """What may follow the first segments of a path."""

    next: dict[str | None, _Segment] = field(default_factory=dict)
    ending: list[tuple[int, Route]] = field(default_factory=list)
    """The routes that end here, each with its place among all."""


class RouteTable:
    """Hands requests to the routes that they belong to.

    Args:
        app: Answers what belongs to none.
        routes: Their endpoints answer every error themselves. Of two that fit, the first answers.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self._app = app
        self._root = _Segment()
        for place, route in enumerate(routes):
            self._add(place, route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        route = self._find(scope) if scope["type"] == "http" else None
        if route is None:
            await self._app(scope, receive, send)
            return
        response = await route.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    def _add(self, place: int, route: Route) -> None:
        segment = self._root
        for text in route.path.split("/"):
            segment = segment.next.setdefault(_NAMED if "{" in text else text, _Segment())
        segment.ending.append((place, route))

    def _find(self, scope: Scope) -> Route | None:
        """Return the first route that fits, and have the scope say how."""
        segments = [self._root]
        for text in route_path(scope).split("/"):
            segments = [
                after
                for before in segments
                for key in (text, _NAMED)
                if (after := before.next.get(key)) is not None
            ]
        for _, route in sorted((one for last in segments for one in last.ending), key=_place):
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                return route
        return None


def _place(ending: tuple[int, Route]) -> int:
    return ending[0]
