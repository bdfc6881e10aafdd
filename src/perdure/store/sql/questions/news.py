"""What is new of instances since they were remembered, and having turns thought over it.

What is remembered may be of a past that the database has lost: numbers fit then, and events do not.
So what is stored counts as its continuation only if the commit that is remembered is the one that
has written the last events before.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.model.histories.events import StoredEvent
from perdure.model.instances import LiveRow, part_of
from perdure.store.base import ExecutionKey
from perdure.store.locked_turns import HOLD_FOR_S, KnownInstance, LockedTurn, News, think_all
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import pack, unpack
from perdure.store.sql.questions.reading import live_row, read_inbox, read_lives, read_ranges


def read_news(connection: Connection, known: Sequence[KnownInstance]) -> list[News]:
    """Return what is new of instances."""
    lives = read_lives(connection, [one.instance_id for one in known])
    return _follow(connection, known, lives)


def _follow(
    connection: Connection, known: Sequence[KnownInstance], lives: Sequence[LiveRow | None]
) -> list[News]:
    """Read the events between what is remembered of instances and what they are now."""
    news = [
        News(live, () if live is not None and live.stamp == one.stamp else None)
        for one, live in zip(known, lives, strict=True)
    ]
    moved = [
        (index, one, live)
        for index, (one, live) in enumerate(zip(known, lives, strict=True))
        if live is not None and _may_follow(one, live)
    ]
    if not moved:
        return news
    keys = [ExecutionKey(one.instance_id, *one.stamp.key) for _, one, _ in moved]
    places = [
        (part_of(one.instance_id), *key, one.stamp.next_seq)
        for key, (_, one, _) in zip(keys, moved, strict=True)
    ]
    [(text,)] = connection.run("read_last_commits", keys=pack(places))
    commits = dict(unpack(text))
    ranges = [
        (key, one.stamp.next_seq - 1, live.stamp.next_seq - 1)
        for key, (_, one, live) in zip(keys, moved, strict=True)
    ]
    histories = read_ranges(connection, ranges)
    for place, ((index, one, live), events) in enumerate(zip(moved, histories, strict=True)):
        is_same_past = one.stamp.next_seq == 1 or commits[place] == one.stamp.commit_id
        if is_same_past and _is_whole(one, live, events):
            news[index] = News(live, events)
    return news


def _may_follow(one: KnownInstance, live: LiveRow) -> bool:
    return (
        live.stamp != one.stamp
        and live.stamp.key == one.stamp.key
        and live.stamp.next_seq >= one.stamp.next_seq
    )


def _is_whole(one: KnownInstance, live: LiveRow, events: Sequence[StoredEvent]) -> bool:
    return len(events) == live.stamp.next_seq - one.stamp.next_seq


# ------------------------------------------------------------------------ under the lock


def think_locked(connection: Connection, waiting: Sequence[LockedTurn]) -> None:
    """Lock instances, and have their turns thought.

    Where others write at the same time, the first instance is waited for, and nothing is locked
    meanwhile: two transactions never wait for each other. Of the others those that are free are
    taken; the turns of the rest are not thought.
    """
    held = _lock(connection, [one.instance_id for one in waiting])
    free = [one for one in waiting if one.instance_id in held]
    lives = [held[one.instance_id] for one in free]
    news = _follow(connection, [one.known for one in free], lives)
    asked = [(one, _with_inbox(connection, one, new)) for one, new in zip(free, news, strict=True)]
    think_all(asked, within_s=HOLD_FOR_S)


def _lock(connection: Connection, instance_ids: Sequence[str]) -> dict[str, LiveRow | None]:
    """Return the rows of the instances that are ours until the transaction ends."""
    if not connection.locks:
        return dict(zip(instance_ids, read_lives(connection, instance_ids), strict=True))
    first, *others = dict.fromkeys(instance_ids)
    held: dict[str, LiveRow | None] = {first: None}
    held.update(_run_lock(connection, "lock_live", [first]))
    if others:
        held.update(_run_lock(connection, "try_live", others))
    return held


def _run_lock(
    connection: Connection, statement: str, instance_ids: Sequence[str]
) -> dict[str, LiveRow]:
    keys = pack([(part_of(instance_id), instance_id) for instance_id in instance_ids])
    [text] = connection.load([(statement, keys)])
    return {
        instance_ids[index]: live_row(instance_ids[index], values)
        for index, *values in unpack(text)
    }


def _with_inbox(connection: Connection, one: LockedTurn, news: News) -> News:
    if news.live is None or not one.wants_inbox(news.live):
        return news
    return news._replace(inbox=read_inbox(connection, one.instance_id))
