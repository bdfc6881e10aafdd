"""The routes of updates and queries, for the table of all."""

from __future__ import annotations

from perdure.web.api import updates
from perdure.web.operations import ApiRoute

ONE = "/instances/{instance_id}"

UPDATE_ROUTES: tuple[ApiRoute, ...] = (
    ApiRoute(
        method="POST",
        path=f"{ONE}/updates",
        scope="write",
        handler=updates.ask_update,
        body=updates.UpdateAskedBody,
        returns=updates.UpdateAnswer,
    ),
    ApiRoute(
        method="POST",
        path=f"{ONE}/updates-with-start",
        scope="write",
        handler=updates.ask_with_start,
        body=updates.AskWithStartBody,
        returns=updates.UpdateAnswer,
    ),
    ApiRoute(
        method="GET",
        path=f"{ONE}/queries/{{query}}",
        scope="read",
        handler=updates.ask_query,
        query=updates.AtQuery,
        returns=updates.ViewAnswer,
    ),
)
