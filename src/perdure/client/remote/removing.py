"""Methods of the client over HTTP that remove what has ended, by a filter."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Unpack

from perdure.client.reading.lists import InstanceQuery, check_count, deletable, ended_roots
from perdure.client.remote.bulk import plain_conditions
from perdure.client.remote.values import shown_or_none
from perdure.limits import BULK_MAX
from perdure.model.admin import DeletedCounts

if TYPE_CHECKING:
    from perdure.client.remote.client import RemoteClient


async def delete_all(
    self: RemoteClient,
    *,
    expect: int | None = None,
    limit: int = BULK_MAX,
    **which: Unpack[InstanceQuery],
) -> DeletedCounts:
    """Delete ended instances, each with everything below it; see `Client.delete_all`.

    A server deletes only as many as are expected: without `expect` they are counted first.
    """
    deletable(which)
    ended = ended_roots(which)
    if expect is None:
        expect = await self.count(**ended) if ended["status"] else 0
    told = await self._connection.post(
        "instances-delete",
        where=plain_conditions(which),
        expect=check_count("expect", expect, least=0),
        limit=check_count("limit", limit, least=1),
    )
    return DeletedCounts(**told)


async def prune(
    self: RemoteClient,
    *,
    keep_last: int = 1,
    before: datetime | None = None,
    limit: int = BULK_MAX,
    **which: Unpack[InstanceQuery],
) -> DeletedCounts:
    """Remove the histories of earlier executions; see `Client.prune`."""
    told = await self._connection.post(
        "instances-prune",
        where=(where := plain_conditions(which)),
        all=not where,
        keep_last=check_count("keep_last", keep_last, least=1),
        before=shown_or_none("before", before),
        limit=check_count("limit", limit, least=1),
    )
    return DeletedCounts(**told)
