"""List and count instances of a sort.

There are four ways to them, and the filter decides which is the shortest: among a few that are
named, that are children or that have jobs; by a status that few have; through the live rows of what
runs; and by age, which always works. All of them end in the same order, so a page of several
statuses is made of a page of each.

What runs is mostly young. So a page of it is first looked for among the youngest instances, and
only if they do not fill it, in all live rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from perdure.model.admin import PAGE_MAX, InstanceFilter, PageMark
from perdure.model.instances import InstanceRow, Status, part_of
from perdure.store.sql.connection import Connection, Value
from perdure.store.sql.overview import read_definitions
from perdure.store.sql.packing import pack, unpack
from perdure.store.sql.reading import read_instances

MAX_SKEW_MS = 3_600_000
"""By how much an instance may seem to end before it was created: two clocks wrote the times."""

NEAR = 20_000
"""How many instances count as the youngest: a look at each of them takes a few milliseconds."""

_FIRST_MS, _LAST_MS = -(2**63), 2**63 - 1
_ALL = -1


class _Search(NamedTuple):
    """One way to instances: a statement, and what it needs beside the filter."""

    statement: str
    params: dict[str, Value]


_RUNNING = _Search("list_running", {})


def list_instances(
    connection: Connection, filter: InstanceFilter, *, limit: int, after: PageMark | None
) -> list[InstanceRow]:
    """Return instances, newest first, from behind a mark on."""
    limit = min(limit, PAGE_MAX)
    if limit < 1 or _is_nobody(filter):
        return []
    found = _find(connection, filter, limit, after)
    found.sort(reverse=True)
    rows = read_instances(connection, [instance_id for _, instance_id in found[:limit]])
    return [row for row in rows if row is not None]


def count_instances(connection: Connection, filter: InstanceFilter) -> int:
    """Return how many instances there are of a sort."""
    if _is_nobody(filter):
        return 0
    counted = _run(connection, _searches(filter), _conditions(connection, filter, None), _ALL)
    return sum(count for count, _ in counted)


def _is_nobody(filter: InstanceFilter) -> bool:
    """Tell whether nothing can be found: no id and no tag holds a NUL, and PostgreSQL has none."""
    texts = (filter.id_prefix, filter.parent_id, filter.tag)
    return any(text is not None and "\0" in text for text in texts)


def _find(
    connection: Connection, filter: InstanceFilter, limit: int, after: PageMark | None
) -> list[tuple[int, str]]:
    """Return the places of the newest instances, and perhaps of some more."""
    params = _conditions(connection, filter, after)
    searches = _searches(filter)
    if _RUNNING in searches:
        place = {name: params[name] for name in ("before_ms", "before_id")}
        ages = connection.run("read_age", **place, places=NEAR)
        near = {**params, "from_ms": max([params["from_ms"], *(age for (age,) in ages)])}
        found = _places(_run(connection, [_by_age(filter)], near, limit))
        if len(found) == limit or not ages:
            return found
    return _places(_run(connection, searches, params, limit))


def _places(found: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return [
        (created_ms, instance_id) for _, text in found for created_ms, instance_id in unpack(text)
    ]


def _run(
    connection: Connection, searches: Sequence[_Search], params: dict[str, Any], limit: int
) -> list[tuple[int, str]]:
    """Run searches; return of each how many it found, and which."""
    return [
        row
        for search in searches
        for row in connection.run(
            search.statement, **params, **search.params, limit=limit, is_list=limit != _ALL
        )
    ]


def _searches(filter: InstanceFilter) -> list[_Search]:
    statuses = set(filter.statuses)
    among: dict[str, Value] = {
        "among": None,
        "among_children": None,
        "among_tagged": None,
        "parent_id": filter.parent_id,
        "tag": filter.tag,
        "statuses": _statuses(filter),
    }
    if filter.instance_ids is not None:
        ids = dict.fromkeys(filter.instance_ids)
        keys = pack([(part_of(instance_id), instance_id) for instance_id in ids])
        return [_Search("list_among", {**among, "among": keys})]
    if filter.parent_id is not None:
        return [_Search("list_among", {**among, "among_children": filter.parent_id})]
    if filter.tag is not None:
        return [_Search("list_among", {**among, "among_tagged": filter.tag})]
    if not statuses or Status.COMPLETED in statuses:
        return [_by_age(filter)]
    return [
        _RUNNING
        if status is Status.RUNNING
        else _Search("list_in_trouble", {"status": status.value})
        for status in sorted(statuses)
    ]


def _by_age(filter: InstanceFilter) -> _Search:
    return _Search("list_instances", {"statuses": _statuses(filter)})


def _statuses(filter: InstanceFilter) -> str | None:
    return pack([status.value for status in filter.statuses]) if filter.statuses else None


def _conditions(
    connection: Connection, filter: InstanceFilter, after: PageMark | None
) -> dict[str, Any]:
    """Return the parameters that every search has."""
    from_ms = filter.created_from_ms
    before_ms, before_id = _end(filter, after)
    return {
        "before_ms": before_ms,
        "before_id": before_id,
        "from_ms": _FIRST_MS if from_ms is None else from_ms,
        "definitions": _definitions(connection, filter),
        "id_prefix": filter.id_prefix,
        "ended_before_ms": filter.ended_before_ms,
        "roots_only": filter.roots_only,
    }


def _definitions(connection: Connection, filter: InstanceFilter) -> str | None:
    """Return the numbers of the definitions that are asked for; None for all of them."""
    if filter.name is None and filter.version is None:
        return None
    return pack(
        [
            number
            for number, key in read_definitions(connection).items()
            if filter.name in (None, key.name) and filter.version in (None, key.variant)
        ]
    )


def _end(filter: InstanceFilter, after: PageMark | None) -> tuple[int, str]:
    """Return the place before which everything must lie, in creation and id."""
    ends: list[tuple[int, str]] = [(_LAST_MS, "")]
    if after is not None:
        ends.append(after)
    if filter.created_before_ms is not None:
        ends.append((filter.created_before_ms, ""))
    if filter.ended_before_ms is not None:
        # What ended before a time began before it: spares a look at everything newer.
        ends.append((filter.ended_before_ms + MAX_SKEW_MS, ""))
    return min(ends)
