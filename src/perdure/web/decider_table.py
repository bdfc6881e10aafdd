"""The routes of deciders, for the table of all."""

from __future__ import annotations

from perdure.client.deciders.decisions import Tried
from perdure.client.reading.info import Json
from perdure.web.api import deciders
from perdure.web.operations import ApiRoute

DECIDER = "/deciders/{decider}"
OF_DECIDER = "/deciders/{decider}/instances/{instance_id}"

DECIDER_ROUTES: tuple[ApiRoute, ...] = (
    ApiRoute(
        method="POST",
        path=f"{DECIDER}/inputs",
        scope="write",
        handler=deciders.execute_input,
        body=deciders.InputBody,
        returns=dict[str, Json],
    ),
    ApiRoute(
        method="POST",
        path=f"{DECIDER}/messages",
        scope="write",
        handler=deciders.send_input,
        body=deciders.MessageBody,
        returns=None,
        status=202,
    ),
    ApiRoute(
        method="POST",
        path=f"{DECIDER}/tries",
        scope="read",
        handler=deciders.try_input,
        body=deciders.TryBody,
        returns=Tried,
    ),
    ApiRoute(
        method="GET",
        path=f"{OF_DECIDER}/state",
        scope="read",
        handler=deciders.show_state,
        query=deciders.StateQuery,
        returns=deciders.StateShown,
    ),
    ApiRoute(
        method="GET",
        path=f"{OF_DECIDER}/events",
        scope="read",
        handler=deciders.list_events,
        query=deciders.EventsQuery,
        returns=deciders.EventList,
    ),
    ApiRoute(
        method="GET",
        path=f"{OF_DECIDER}/observations",
        scope="read",
        handler=deciders.list_observations,
        query=deciders.ObservationsQuery,
        returns=deciders.ObservationList,
    ),
    ApiRoute(
        method="GET",
        path=f"{DECIDER}/keys/{{key}}",
        scope="read",
        handler=deciders.show_key_holder,
        returns=deciders.KeyHolder,
    ),
)
