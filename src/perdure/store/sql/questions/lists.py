"""List and count instances of a sort.

A page costs a bounded number of rows, however many there are. Two ways lead to that.

*Among few*: ids that are named, children of an instance, those with jobs of a tag, those whose ids
begin alike, those that are alive. An index leads to each of these sets; if it has at most `FEW`
members all of them are looked at, and the answer is complete.

*By age*: an index has the instances of each definition in order of creation, and of each status
that few have as well. So a list by name begins where it must, and a list of everything is put
together from a list of each definition. Conditions that no index knows are looked for in at most
`LOOKS` instances; if those do not fill the page, it is given back as it is, with the place from
where to go on.

A count looks at all that it counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from perdure.model.admin import PAGE_MAX, InstanceFilter, InstancePage, PageMark
from perdure.model.builtins import SCHEDULE
from perdure.model.instances import DECIDER, PARTS, QUEUE_KINDS, InstanceRow, Status, part_of
from perdure.store.sql.connection import Connection, Value
from perdure.store.sql.packing import pack, unpack
from perdure.store.sql.questions.overview import read_definitions
from perdure.store.sql.questions.reading import read_instances

MAX_SKEW_MS = 3_600_000
"""By how much an instance may seem to end before it was created: two clocks wrote the times."""

FEW = 5_000
"""So many instances are all looked at for one page."""

LOOKS = 20_000
"""At how many instances a page looks, by age, for those that meet its conditions: some 10 ms."""

AT_ONCE = 16
"""How many definitions are looked through without a look at which has the newest instances."""

_FIRST_MS, _LAST_MS = -(2**63), 2**63 - 1
_ALL = -1
_PARTS, _NO_PARTS = pack(list(range(PARTS))), pack([])
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_NO_SET: dict[str, Value] = dict.fromkeys(
    ("among", "among_children", "among_tagged", "among_ids", "ids_end", "among_living")
)

AgePlace = tuple[int, str]
"""Where an instance stands in a list: its creation and its id."""


class _Walk(NamedTuple):
    """A way by age: the statement that finds, the one that tells how far, what both need."""

    find: str
    tell_age: str
    params: dict[str, Value]


class _Found(NamedTuple):
    """The newest instances of a sort, and from where on nothing was looked at."""

    places: list[AgePlace]
    reached: AgePlace | None = None
    """The last place that was looked at, if there may be more behind it."""


def list_page(
    connection: Connection, filter: InstanceFilter, *, limit: int, after: PageMark | None
) -> InstancePage:
    """Return a page of instances, newest first, after looking at a bounded number of them."""
    limit = min(limit, PAGE_MAX)
    if limit < 1 or _is_nobody(filter):
        return InstancePage([], None)
    definitions = _definitions(connection, filter)
    params = _conditions(filter, after)
    # One more than is wanted tells whether the page is the last.
    found = _find(connection, filter, params, definitions, limit + 1)
    places = sorted(found.places, reverse=True)
    if found.reached is not None:
        places = [place for place in places if place >= found.reached]
    page = places[:limit]
    following = page[-1] if len(places) > limit else found.reached
    rows = read_instances(connection, [instance_id for _, instance_id in page])
    return InstancePage(
        [row for row in rows if row is not None],
        None if following is None else PageMark(*following),
    )


def list_instances(
    connection: Connection, filter: InstanceFilter, *, limit: int, after: PageMark | None
) -> list[InstanceRow]:
    """Return instances, newest first, from behind a mark on: as many as there are up to the limit,
    however many have to be looked at for that."""
    limit = min(limit, PAGE_MAX)
    rows: list[InstanceRow] = []
    while True:
        page = list_page(connection, filter, limit=limit - len(rows), after=after)
        rows += page.rows
        after = page.next
        if after is None or len(rows) >= limit:
            return rows


def count_instances(connection: Connection, filter: InstanceFilter) -> int:
    """Return how many instances there are of a sort."""
    if _is_nobody(filter):
        return 0
    definitions = _definitions(connection, filter)
    params = {**_conditions(filter, None), "is_list": False, "limit": _ALL}
    chosen = next(_sets(filter), None)
    if chosen is not None:
        _, count, _ = _look_among(connection, chosen, params, filter, definitions, few=_ALL)
        return count
    total = 0
    for walk in _walks(filter):
        asked = {**params, **walk.params, "definitions": pack(definitions)}
        if walk.params.get("statuses") == pack([Status.RUNNING]):
            [(count,)] = connection.run("count_running", **asked)
            total += count
        else:
            texts = connection.run(walk.find, **asked, looks=_ALL)
            total += sum(unpack(text)[0] for (text,) in texts)
    return total


def _is_nobody(filter: InstanceFilter) -> bool:
    """Return whether nothing can be found: no id and no tag holds a NUL; PostgreSQL has none."""
    texts = (filter.id_prefix, filter.parent_id, filter.tag)
    return any(text is not None and "\0" in text for text in texts)


def _find(
    connection: Connection,
    filter: InstanceFilter,
    params: dict[str, Any],
    definitions: Sequence[int],
    limit: int,
) -> _Found:
    """Return the places of the newest instances, and perhaps of some more."""
    params = {**params, "is_list": True, "limit": limit}
    for chosen in _sets(filter):
        few = _ALL if "among" in chosen else FEW + 1
        seen, _, places = _look_among(connection, chosen, params, filter, definitions, few=few)
        if few == _ALL or seen < few:
            return _Found(places)
    found = [
        _look_by_age(connection, walk, {**params, **walk.params}, definitions, limit)
        if walk.params.get("statuses") != pack([Status.RUNNING])
        else _look_for_running(connection, walk, params, filter, definitions, limit)
        for walk in _walks(filter)
    ]
    return _Found(
        [place for one in found for place in one.places],
        # Of what one way has not come to, another may have found something: it has to wait.
        max((one.reached for one in found if one.reached is not None), default=None),
    )


# ---------------------------------------------------------------------- among few


def _sets(filter: InstanceFilter) -> Iterator[dict[str, Value]]:
    """Return the sets that may be few, the smallest first as far as that is known."""
    if filter.instance_ids is not None:
        ids = dict.fromkeys(filter.instance_ids)
        yield {"among": pack([(part_of(instance_id), instance_id) for instance_id in ids])}
    if filter.parent_id is not None:
        yield {"among_children": filter.parent_id}
    if filter.tag is not None:
        yield {"among_tagged": filter.tag}
    end = _end_of(filter.id_prefix or "")
    if end is not None:
        yield {"among_ids": filter.id_prefix, "ids_end": end}


def _look_among(
    connection: Connection,
    chosen: dict[str, Value],
    params: dict[str, Any],
    filter: InstanceFilter,
    definitions: Sequence[int],
    *,
    few: int,
) -> tuple[int, int, list[AgePlace]]:
    """Return how many were to be looked at, how many of them were found, and where they are."""
    is_named = filter.name is not None or filter.version is not None or not filter.with_builtins
    [(seen, text)] = connection.run(
        "list_among",
        **{**params, **_NO_SET, **chosen},
        parts=_PARTS if {"among_ids", "among_living"} & {*chosen} else _NO_PARTS,
        few=few,
        definitions=pack(definitions) if is_named else None,
    )
    count, places = unpack(text)
    return seen, count, [(created_ms, instance_id) for created_ms, instance_id in places]


def _look_for_running(
    connection: Connection,
    walk: _Walk,
    params: dict[str, Any],
    filter: InstanceFilter,
    definitions: Sequence[int],
    limit: int,
) -> _Found:
    """Look at all that are alive, if they are few."""
    params = {**params, **walk.params}
    living: dict[str, Value] = {"among_living": ""}
    seen, _, places = _look_among(connection, living, params, filter, definitions, few=FEW + 1)
    if seen <= FEW:
        return _Found(places)
    return _look_by_age(connection, walk, params, definitions, limit)


def _end_of(prefix: str) -> str | None:
    """Return the first text behind all that begin with a prefix, if there is one."""
    for length in range(len(prefix), 0, -1):
        last = ord(prefix[length - 1])
        if last < _LAST_CHARACTER:
            following = last + 1
            if following in _SURROGATES and last not in _SURROGATES:
                following = _SURROGATES.stop
            return prefix[: length - 1] + chr(following)
    return None


# ------------------------------------------------------------------------- by age


def _walks(filter: InstanceFilter) -> list[_Walk]:
    statuses = set(filter.statuses)
    if not statuses or Status.COMPLETED in statuses:
        return [_by_age(filter.statuses)]
    return [
        _by_age([status])
        if status is Status.RUNNING
        else _Walk(
            "list_in_trouble", "read_trouble_age", {"status": status.value, "statuses": None}
        )
        for status in sorted(statuses)
    ]


def _by_age(statuses: Sequence[Status]) -> _Walk:
    packed = pack([status.value for status in statuses]) if statuses else None
    return _Walk("list_instances", "read_age", {"statuses": packed})


def _look_by_age(
    connection: Connection,
    walk: _Walk,
    params: dict[str, Any],
    definitions: Sequence[int],
    limit: int,
) -> _Found:
    """Look through the instances of definitions, newest first, a bounded number of them."""
    found: list[AgePlace] = []
    reached: list[AgePlace] = []
    for group, newest_ms in _groups(connection, walk, params, definitions):
        if len(found) >= limit:
            # What is older than a whole page is not wanted.
            found = sorted(found, reverse=True)[:limit]
            params = {**params, "from_ms": max(params["from_ms"], found[-1][0])}
        from_ms = params["from_ms"]
        wanted = [number for number in group if newest_ms.get(number, from_ms) >= from_ms]
        asked = {**params, "definitions": pack(wanted)}
        looks = max(LOOKS // max(len(wanted), 1), limit) if _is_selective(params) else limit
        results = [unpack(text) for (text,) in connection.run(walk.find, **asked, looks=looks)]
        found += [(created_ms, one) for _, places in results for created_ms, one in places]
        if _is_selective(params) and any(count < limit for count, _ in results):
            ages = _ages(connection, walk, asked, places=looks - 1)
            reached += [place for _, place in ages]
    return _Found(found, max(reached, default=None))


def _groups(
    connection: Connection, walk: _Walk, params: dict[str, Any], definitions: Sequence[int]
) -> list[tuple[Sequence[int], dict[int, int]]]:
    """Return definitions in groups, and of each when its newest instance was created, as far as
    that is known: of many, most have nothing as new as the page."""
    if len(definitions) <= AT_ONCE:
        return [(definitions, {})]
    asked = {**params, "definitions": pack(definitions)}
    newest = {number: place[0] for number, place in _ages(connection, walk, asked, places=0)}
    ordered = sorted(newest, key=newest.__getitem__, reverse=True)
    groups = (ordered[:AT_ONCE], ordered[AT_ONCE:])
    return [(group, newest) for group in groups if group]


def _ages(
    connection: Connection, walk: _Walk, asked: dict[str, Any], *, places: int
) -> list[tuple[int, AgePlace]]:
    """Return of each definition that has so many instances where that one is."""
    names = ("definitions", "before_ms", "before_id", "from_ms", "status")
    told = {name: asked[name] for name in names if name in asked}
    [(text,)] = connection.run(walk.tell_age, **told, places=places)
    return [(number, (place[0], place[1])) for number, place in unpack(text) if place is not None]


def _is_selective(params: dict[str, Any]) -> bool:
    """Return whether an instance of the right definition and age may yet not be wanted."""
    names = ("statuses", "parent_id", "tag", "id_prefix", "ended_before_ms")
    return bool(params["roots_only"]) or any(params[name] is not None for name in names)


# --------------------------------------------------------------------- conditions


def _conditions(filter: InstanceFilter, after: PageMark | None) -> dict[str, Any]:
    """Return the parameters that every search has."""
    from_ms = filter.created_from_ms
    before_ms, before_id = _end(filter, after)
    statuses = [status.value for status in filter.statuses]
    return {
        "before_ms": before_ms,
        "before_id": before_id,
        "from_ms": _FIRST_MS if from_ms is None else from_ms,
        "statuses": pack(statuses) if statuses else None,
        "parent_id": filter.parent_id,
        "tag": filter.tag,
        "id_prefix": filter.id_prefix,
        "ended_before_ms": filter.ended_before_ms,
        "roots_only": filter.roots_only,
    }


def _definitions(connection: Connection, filter: InstanceFilter) -> list[int]:
    """Return the numbers of the definitions whose instances are asked for."""
    return [
        number
        for number, key in read_definitions(connection).items()
        if key.kind not in QUEUE_KINDS
        and filter.name in (None, key.name)
        and filter.version in (None, key.variant)
        and (filter.with_builtins or (key.kind, key.name) != (DECIDER, SCHEDULE))
    ]


def _end(filter: InstanceFilter, after: PageMark | None) -> AgePlace:
    """Return the place before which everything must lie, in creation and id."""
    ends: list[AgePlace] = [(_LAST_MS, "")]
    if after is not None:
        ends.append(after)
    if filter.created_before_ms is not None:
        ends.append((filter.created_before_ms, ""))
    if filter.ended_before_ms is not None:
        # What ended before a time began before it: spares a look at everything newer.
        ends.append((filter.ended_before_ms + MAX_SKEW_MS, ""))
    return min(ends)
