"""Lock what is changed outside a commit, where others may write at the same time.

A commit locks the live rows of the instances it touches, and the wide rows of those that have none
or that it starts: see `rows`. An operation that changes rows of instances in another way locks both
first, in the same order, and looks at the rows after that. So a commit that was faster is seen, and
one that comes later waits, and then finds what was left.

An operation that shares a transaction waits for no lock, or others would wait too: one that cannot
have its locks now is put off, and is run again soon.

What is not there cannot be locked. An id without any row may come to life meanwhile, and so may the
successor of a row that was waited for; so the one that has locked still says which incarnation it
means, or does only what is right for any.

On SQLite there is nothing to do: one transaction writes at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.model.instances import part_of
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import pack


class PutOffError(Exception):
    """Another transaction has locked what an operation needs; it has changed nothing yet."""


def lock_instances(connection: Connection, instance_ids: Iterable[str]) -> None:
    """Keep all others from changing rows of these instances until the transaction ends.

    Raises:
        PutOffError: Another transaction has locked one of them, and locks are not waited for.
    """
    if not connection.locks:
        return
    ids = dict.fromkeys(instance_ids)
    if ids:
        keys = pack([(part_of(instance_id), instance_id) for instance_id in ids])
        if connection.waits:
            connection.run("lock_live", keys=keys)
            connection.run("lock_instances", keys=keys)
            return
        [(are_locked,)] = connection.run("try_instances", keys=keys)
        if not are_locked:
            raise PutOffError


def lock_feed(connection: Connection) -> None:
    """Keep events of the feed where they are until the transaction ends.

    An event without a position is moved when it gets one. A removal of events would miss one
    that is being moved.
    """
    if connection.locks:
        connection.run("lock_feed")
