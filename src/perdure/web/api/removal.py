"""Routes that remove what has ended: instances by a filter, histories of earlier executions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from perdure.client.reading.lists import deletable, ended_roots
from perdure.errors import UnexpectedCountError
from perdure.limits import BULK_MAX
from perdure.web.api.actions import Deleted, deleted_of
from perdure.web.api.instances import CountQuery, conditions, handle_of
from perdure.web.operations import CheckedRequest, Nothing
from perdure.web.problems import RefusalError

Most = Annotated[int, msgspec.Meta(ge=1, le=BULK_MAX)]
KeepLast = Annotated[int, msgspec.Meta(ge=1)]


class DeleteAllBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which ended instances are deleted."""

    where: CountQuery
    """At least one condition."""
    expect: Annotated[int, msgspec.Meta(ge=0)]
    """How many match that have ended and are no children. If there are more or fewer, nothing is
    deleted."""
    limit: Most = BULK_MAX
    """How many trees at most, newest first."""


class PruneBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which executions of an instance lose their histories."""

    keep_last: KeepLast = 1
    """How many stay, the current one included."""
    before: datetime | None = None
    """Only those that ended earlier than that."""


class PruneAllBody(PruneBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which executions of which instances lose their histories."""

    where: CountQuery = CountQuery()
    all: bool = False
    """Whether all instances are meant, where there is no condition."""
    limit: Most = BULK_MAX
    """Of how many instances at most something is removed."""


async def delete_instances(ask: CheckedRequest[Nothing, DeleteAllBody]) -> Deleted:
    """Delete ended instances, each with everything below it, at most 1,000.

    A tree in which something has not ended is left alone. Without a condition, or if they are not
    as many as expected, nothing is deleted.
    """
    body = ask.body
    which = conditions(body.where)
    deletable(which)
    ended = ended_roots(which)
    found = await ask.client.count(**ended) if ended["status"] else 0
    if found != body.expect:
        raise UnexpectedCountError(
            f"{found:,} ended instances match that are no children, {body.expect:,} were expected; "
            "nothing was deleted",
            expected=body.expect,
            found=found,
        )
    # Counted once more where all of them go.
    expect = found if found <= body.limit else None
    return deleted_of(await ask.client.delete_all(expect=expect, limit=body.limit, **which))


async def prune_instances(ask: CheckedRequest[Nothing, PruneAllBody]) -> Deleted:
    """Remove the histories of earlier executions, of at most 1,000 instances."""
    body = ask.body
    which = conditions(body.where)
    if not which and not body.all:
        raise RefusalError(
            400, "empty_filter", "say which instances in `where`, or that all are meant (`all`)"
        )
    counts = await ask.client.prune(
        keep_last=body.keep_last, before=body.before, limit=body.limit, **which
    )
    return deleted_of(counts)


async def prune_instance(ask: CheckedRequest[Nothing, PruneBody]) -> Deleted:
    """Remove the histories of earlier executions of an instance; the current one stays."""
    body = ask.body
    return deleted_of(await handle_of(ask).prune(keep_last=body.keep_last, before=body.before))
