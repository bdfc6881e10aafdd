"""The routes that remove what has ended, for the table of all."""

from __future__ import annotations

from perdure.web.api import actions, removal
from perdure.web.operations import ApiRoute

REMOVAL_ROUTES: tuple[ApiRoute, ...] = (
    ApiRoute(
        method="POST",
        path="/instances-delete",
        scope="admin",
        handler=removal.delete_instances,
        body=removal.DeleteAllBody,
        returns=actions.Deleted,
    ),
    ApiRoute(
        method="POST",
        path="/instances-prune",
        scope="admin",
        handler=removal.prune_instances,
        body=removal.PruneAllBody,
        returns=actions.Deleted,
    ),
    ApiRoute(
        method="POST",
        path="/instances/{instance_id}/prune",
        scope="admin",
        handler=removal.prune_instance,
        body=removal.PruneBody,
        returns=actions.Deleted,
    ),
)
