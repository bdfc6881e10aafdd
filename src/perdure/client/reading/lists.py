"""Which instances: what callers say, checked and made a filter; and where a page of a list ended.

A cursor is a place in the order of the list, not a number of rows to skip: pages stay complete and
without repeats while instances come and go.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import crc32
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict, TypeVar, get_type_hints

from perdure.clock import from_datetime
from perdure.codec import check_id
from perdure.errors import UsageError
from perdure.limits import PAGE_MAX
from perdure.model.admin import DeadJob, InstanceFilter
from perdure.model.instances import Status

T = TypeVar("T")

MAX_COUNT = 2**63 - 1
"""The largest number that a database takes."""


class InstanceQuery(TypedDict, total=False):
    """Which instances; all conditions given must hold. None counts as not given."""

    status: Status | str | Collection[Status | str] | None
    """One or several statuses."""
    name: str | None
    """The orchestration's name."""
    version: str | None
    """The version that is on record."""
    prefix: str | None
    """How the instance id begins."""
    ids: Collection[str] | None
    """Only these ids."""
    created_after: datetime | None
    """Started then or later."""
    created_before: datetime | None
    """Started earlier than that."""
    ended_before: datetime | None
    """Ended earlier than that."""
    parent: str | None
    """The id of the instance that started them and waits for them."""
    tag: str | None
    """With an open job of this tag."""
    roots_only: bool
    """No children."""
    waits: str | None
    """Running, and waiting for this: *signal*, *update*, *promise*, *activity*, *child*, *timer*,
    or what is waited for by its name. For lists alone."""


class DeadJobQuery(TypedDict, total=False):
    """Which dead jobs; all conditions given must hold. None counts as not given."""

    activity: str | None
    """The activity's name."""
    tag: str | None
    """The tag of the call."""
    instance_id: str | None
    """Whose they are."""
    prefix: str | None
    """How the instance id begins: those of decider `order` begin with `order:`."""


_KNOWN = tuple(get_type_hints(InstanceQuery))
_KNOWN_OF_DEAD_JOBS = tuple(get_type_hints(DeadJobQuery))


def filter_of(query: InstanceQuery) -> InstanceFilter:
    """Return what the store is asked for.

    Raises:
        UsageError: A condition is unknown or has a value that it cannot have, or is for lists
            alone: what an instance waits for is in its history, which the store does not open.
    """
    if query.get("waits") is not None:
        raise UsageError(
            f"waits={query['waits']!r} is for lists: ask client.instances(waits=...), as perdure "
            "list does, and name the ids"
        )
    return list_filter_of(query)


def deletable(query: InstanceQuery) -> InstanceFilter:
    """Return what the store is asked for where all that match is deleted.

    Raises:
        UsageError: No condition says which, or one has a value that it cannot have.
    """
    wanted = filter_of(query)
    if replace(wanted, roots_only=False, with_builtins=True) == InstanceFilter():
        raise UsageError(
            "delete_all needs a condition that says which instances, such as "
            'ended_before=..., name="checkout" or status="completed"'
        )
    return wanted


def ended_roots(query: InstanceQuery) -> InstanceQuery:
    """Return conditions with which those are counted that have ended and are no children."""
    statuses = filter_of(query).statuses or tuple(Status)
    found: InstanceQuery = query.copy()
    found["status"] = [one for one in Status if one.is_terminal and one in statuses]
    found["roots_only"] = True
    return found


def list_filter_of(query: InstanceQuery) -> InstanceFilter:
    """Return what the store is asked for in a list, of which `waits` leaves out some more.

    Raises:
        UsageError: A condition is unknown or has a value that it cannot have.
    """
    _text("waits", query.get("waits"))
    for key in query:
        if key not in _KNOWN:
            raise UsageError(f"there is no filter {key!r}; known: {', '.join(_KNOWN)}")
    return InstanceFilter(
        instance_ids=_ids(query.get("ids")),
        statuses=_statuses(query.get("status")),
        name=_text("name", query.get("name")),
        version=_text("version", query.get("version")),
        id_prefix=_text("prefix", query.get("prefix")),
        created_from_ms=check_time("created_after", query.get("created_after")),
        created_before_ms=check_time("created_before", query.get("created_before")),
        ended_before_ms=check_time("ended_before", query.get("ended_before")),
        parent_id=_text("parent", query.get("parent")),
        tag=_text("tag", query.get("tag")),
        roots_only=_flag("roots_only", query.get("roots_only", False)),
        # Schedules have a list of their own; a question by name, id or prefix finds them.
        with_builtins=any(query.get(key) is not None for key in ("name", "ids", "prefix")),
    )


def check_dead_jobs(query: DeadJobQuery) -> DeadJobQuery:
    """Return which dead jobs a caller wants.

    Raises:
        UsageError: A condition is unknown or is no text.
    """
    for key, value in query.items():
        if key not in _KNOWN_OF_DEAD_JOBS:
            known = ", ".join(_KNOWN_OF_DEAD_JOBS)
            raise UsageError(f"there is no filter {key!r}; known: {known}")
        _text(key, value)
    return query


def is_wanted(job: DeadJob, query: DeadJobQuery) -> bool:
    """Return whether a dead job meets all conditions."""
    return (
        query.get("activity") in (None, job.queue.name)
        and query.get("tag") in (None, job.queue.variant)
        and query.get("instance_id") in (None, job.key.instance_id)
        and job.key.instance_id.startswith(query.get("prefix") or "")
    )


def check_limit(limit: object) -> int:
    """Return how long a page may be.

    Raises:
        UsageError: It is not a number from 1 to the largest page.
    """
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= PAGE_MAX:
        raise UsageError(
            f"limit must be a whole number from 1 to {PAGE_MAX}, got {limit!r}; "
            "for more, go on from page.next with after="
        )
    return limit


def check_count(what: str, count: object, *, least: int) -> int:
    """Return a number that a caller gave.

    Raises:
        UsageError: It is not a whole number, too small, or too large for a database.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < least:
        raise UsageError(f"{what} must be a whole number of at least {least}, got {count!r}")
    if count > MAX_COUNT:
        raise UsageError(f"{what} must be a whole number of at most {MAX_COUNT}, got a larger one")
    return count


def check_time(what: str, given: object) -> int | None:
    """Return a point in time that a caller gave, as stored; None for none.

    Raises:
        UsageError: It is not an aware datetime.
    """
    if given is None:
        return None
    if not isinstance(given, datetime):
        raise UsageError(f"{what} must be a datetime, got {given!r}")
    if given.tzinfo is None:
        raise UsageError(
            f"{what}={given!r} has no time zone, so it is no point in time; "
            "use datetime(..., tzinfo=UTC)"
        )
    return from_datetime(given)


# -------------------------------------------------------------------------- cursors


def write_cursor(kind: str, place: tuple[Any, ...]) -> str:
    """Return a place in a list as text that callers keep and hand back."""
    content = json.dumps([kind, *place], separators=(",", ":")).encode()
    return urlsafe_b64encode(b"%08x%b" % (crc32(content), content)).decode()


def read_cursor(kind: str, cursor: object, types: tuple[type, ...]) -> tuple[Any, ...]:
    """Return the place behind a cursor.

    Args:
        kind: Which list it is of.
        cursor: What the caller handed over.
        types: What a place in that list is made of.

    Raises:
        UsageError: It was not made by that list.
    """
    try:
        raw = urlsafe_b64decode(str(cursor).encode())
        content = raw[8:]
        if int(raw[:8], 16) != crc32(content):
            raise ValueError(f"{cursor!r} was changed")
        found, *place = json.loads(content)
        if found != kind or [type(part) for part in place] != list(types):
            raise ValueError(f"{cursor!r} is of {found}")
    except (ValueError, TypeError) as error:
        shown = repr(cursor)
        raise UsageError(
            f"after={shown[:60]} is not the `next` of an earlier page of {kind}; "
            "hand over page.next unchanged, or leave it out for the first page"
        ) from error
    return tuple(place)


# ------------------------------------------------------------------------- conditions


def _statuses(given: object) -> tuple[Status, ...]:
    if given is None:
        return ()
    values = [given] if isinstance(given, str) else given
    if not isinstance(values, Collection) or not values:
        raise UsageError(f"status must be one or several statuses, got {given!r}")
    found = []
    for value in values:
        try:
            found.append(Status(value))
        except ValueError:
            known = ", ".join(Status)
            raise UsageError(f"there is no status {value!r}; known: {known}") from None
    return tuple(dict.fromkeys(found))


def _ids(given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Collection):
        raise UsageError(f"ids must be a collection of instance ids, got {given!r}")
    if len(given) > PAGE_MAX:
        raise UsageError(
            f"ids may name at most {PAGE_MAX} instances at once, got {len(given):,}; "
            "ask for them in parts"
        )
    return tuple(dict.fromkeys(check_id("instance id", one) for one in given))


def _text(what: str, given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        raise UsageError(f"{what} must be a text that is not empty, got {given!r}")
    return check_id(what, given)


def _flag(what: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise UsageError(f"{what} must be True or False, got {given!r}")
    return given
