"""What is new of instances since they were remembered, and having turns thought over it.

What is remembered may be of a past that the database has lost: numbers fit then, and events do not.
So what is stored counts as its continuation only if the commit that is remembered is the one that
has written the last events before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.model.histories.events import StoredEvent
from perdure.model.instances import LiveRow, part_of
from perdure.store.locked_turns import HOLD_FOR_S, KnownInstance, LockedTurn, News, think_all
from perdure.store.sql.commits.rows import (
    Change,
    LoadedRows,
    WantedRows,
    is_next,
    keep_live,
)
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import cut, pack, unpack
from perdure.store.sql.questions.reading import (
    MAX_BYTES_PER_READ,
    MAX_EVENTS_PER_READ,
    live_row,
    read_inbox,
)


def read_news(connection: Connection, known: Sequence[KnownInstance]) -> list[News]:
    """Return what is new of instances."""
    keys = [(part_of(one.instance_id), one.instance_id, *one.stamp) for one in known]
    [(rows, places, blob)] = connection.run(
        "read_news",
        keys=pack(keys),
        max_events=MAX_EVENTS_PER_READ,
        max_bytes=MAX_BYTES_PER_READ,
    )
    events = _by_key(unpack(places), blob)
    news = [News(None, None)] * len(known)
    for key, commit_id, writer, *columns in unpack(rows):
        one = known[key]
        live = live_row(one.instance_id, columns)
        missing = events.get(key, [])
        goes_on = live.stamp == one.stamp or _goes_on(one, live, commit_id, len(missing))
        news[key] = News(live, missing if goes_on else None, writer=writer)
    return news


def _by_key(places: Sequence[Sequence[Any]], blob: bytes | None) -> dict[int, list[StoredEvent]]:
    bodies = cut(blob, (place[2] for place in places))
    found: dict[int, list[StoredEvent]] = {}
    for (key, seq, _, kind, at_ms), body in zip(places, bodies, strict=True):
        found.setdefault(key, []).append(StoredEvent(seq, kind, at_ms, body))
    for some in found.values():
        some.sort(key=_seq)
    return found


def _seq(event: StoredEvent) -> int:
    return event.seq


def _goes_on(one: KnownInstance, live: LiveRow, commit_id: int | None, events: int) -> bool:
    """Return whether what is stored is the continuation of what is remembered, and all of it was
    read."""
    if live.stamp.key != one.stamp.key or live.stamp.next_seq < one.stamp.next_seq:
        return False
    is_same_past = one.stamp.next_seq == 1 or commit_id == one.stamp.commit_id
    return is_same_past and events == live.stamp.next_seq - one.stamp.next_seq


# ------------------------------------------------------------------------ under the lock


def think_locked(connection: Connection, waiting: Sequence[LockedTurn]) -> LoadedRows:
    """Lock instances, and have their turns thought; return the rows that are locked.

    Where others write at the same time, the first instance is waited for, and nothing is locked
    meanwhile: two transactions never wait for each other. Of the others those that are free are
    taken; the turns of the rest are not thought.
    """
    rows = LoadedRows()
    if connection.locks:
        free, news = _lock(connection, waiting, rows)
    else:
        free, news = waiting, read_news(connection, [one.known for one in waiting])
    asked = [(one, _with_inbox(connection, one, new)) for one, new in zip(free, news, strict=True)]
    think_all(asked, within_s=HOLD_FOR_S)
    return rows


def _lock(
    connection: Connection, waiting: Sequence[LockedTurn], rows: LoadedRows
) -> tuple[Sequence[LockedTurn], list[News]]:
    """Return the turns whose instances are ours until the transaction ends, and what is new of
    those. What has no row counts as ours: there is nothing to be kept."""
    first, *others = dict.fromkeys(one.instance_id for one in waiting)
    lives: dict[str, LiveRow | None] = {first: None}
    lives.update(_run_lock(connection, "lock_live", [first], rows))
    if others:
        lives.update(_run_lock(connection, "try_live", others, rows))
    free = [one for one in waiting if one.instance_id in lives]
    news = [News(lives[one.instance_id], None) for one in free]
    moved = []
    for place, (one, (live, *_)) in enumerate(zip(free, news, strict=True)):
        if live is not None and live.stamp == one.known.stamp:
            news[place] = News(live, ())
        elif live is not None:
            moved.append(place)
    if moved:
        found = read_news(connection, [free[place].known for place in moved])
        for place, new in zip(moved, found, strict=True):
            news[place] = new
    return free, news


def _run_lock(
    connection: Connection, statement: str, instance_ids: Sequence[str], rows: LoadedRows
) -> dict[str, LiveRow]:
    keys = [(part_of(instance_id), instance_id) for instance_id in instance_ids]
    [text] = connection.load([(statement, pack(keys))])
    found = unpack(text)
    keep_live(rows, keys, found)
    return {instance_ids[index]: live_row(instance_ids[index], values) for index, *values in found}


def _with_inbox(connection: Connection, one: LockedTurn, news: News) -> News:
    if news.live is None or not one.wants_inbox(news.live):
        return news
    return news._replace(inbox=read_inbox(connection, one.instance_id))


def find_held(changes: Sequence[Change], held: LoadedRows) -> LoadedRows | None:
    """Return the rows that changes touch, if those that are locked are all of them; None: they have
    to be loaded."""
    wanted = WantedRows()
    for change in changes:
        wanted.add(change)
    if (
        not wanted.is_plain
        or wanted.starts
        or wanted.jobs
        or not wanted.ids.keys() <= held.live.keys()
    ):
        return None
    if not all(is_next(turn, held) for turn in wanted.turns):
        # One comes too late, or again: which of the two, the history tells.
        return None
    return held
