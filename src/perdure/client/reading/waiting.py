"""Lists of instances by what they wait for.

No table has that: it is the fold of a history. So a list by it looks through running instances,
newest first, and reads the history of each, at most so many of both for one page. A page that
found less is given back as it is, with the place from where to go on, as others are. Short
histories are read together; a longer one by itself, as `Summaries` does: not held whole, and from
what is new if it was read before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from perdure.client.histories.histories import key_of
from perdure.client.reading.summaries import Summaries
from perdure.core.summary import Summary
from perdure.model.admin import InstanceFilter, InstancePage, PageMark
from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.histories.events import (
    ActivityScheduled,
    AskedEvent,
    ChildScheduled,
    EffectScheduled,
    InlineScheduled,
    SignalAwaited,
    TimerScheduled,
)
from perdure.model.instances import Status
from perdure.model.promises import promise_name
from perdure.model.updates import UPDATE_PREFIX
from perdure.store.base import Store

LOOKS = 500
"""How many running instances a page looks at."""
AT_ONCE = 20
"""How many histories are read together."""
SHORT = 100
"""How many events of each are read so. One that has fewer needs no other read."""
EVENTS = 50_000
"""After how many events that were read a page is given back as it is."""


async def list_waiting(
    store: Store,
    summaries: Summaries,
    wanted: InstanceFilter,
    waits: str,
    *,
    limit: int,
    after: PageMark | None,
) -> InstancePage:
    """Return running instances that wait for something, newest first, from behind a mark on.

    Args:
        store: Where they are.
        summaries: What is kept of long histories.
        wanted: What else must hold.
        waits: A kind of what is waited for, or its name.
        limit: How many at most.
        after: Where the page before ended.
    """
    if Status.RUNNING not in (wanted.statuses or (Status.RUNNING,)):
        return InstancePage([], None)
    running = replace(wanted, statuses=(Status.RUNNING,))
    rows, following = await store.admin.list_page(running, limit=LOOKS, after=after)
    found = []
    events = 0
    for begin in range(0, len(rows), AT_ONCE):
        some = rows[begin : begin + AT_ONCE]
        beginnings = await store.read_histories([key_of(row) for row in some], limit=SHORT)
        for row, beginning in zip(some, beginnings, strict=True):
            events += len(beginning)
            if len(beginning) < SHORT:
                summary = Summary(beginning)
            else:
                summary, more = await summaries.look(store, key_of(row))
                events += more
            asked = (event for event, _ in summary.open.values())
            if any(waits in words_of(event) for event in asked):
                found.append(row)
            is_enough = len(found) == limit or events > EVENTS
            if is_enough and (row is not rows[-1] or following is not None):
                return InstancePage(found, PageMark(row.created_ms, row.instance_id))
    return InstancePage(found, following)


def words_of(event: AskedEvent) -> Iterator[str]:
    """Return the words under which something that is waited for is found: its kind, its name."""
    match event:
        case ActivityScheduled(name=name) | InlineScheduled(name=name) | EffectScheduled(name=name):
            if not name.startswith(RESERVED_PREFIX):
                yield from ("activity", name)
        case ChildScheduled(name=name, instance_id=instance_id):
            yield from ("child", name, instance_id)
        case SignalAwaited(name=name) if name.startswith(UPDATE_PREFIX):
            yield from ("update", name.removeprefix(UPDATE_PREFIX))
        case SignalAwaited(name=name):
            promise = promise_name(name)
            yield from ("signal", name) if promise is None else ("promise", promise)
        case TimerScheduled():
            yield "timer"
