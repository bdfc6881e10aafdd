"""The history of an execution, and what is said of a row that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from perdure.client.reading.lists import check_count
from perdure.errors import UsageError
from perdure.limits import PAGE_MAX
from perdure.model.histories.events import StoredEvent, UnreadableEventError
from perdure.model.instances import InstanceRow
from perdure.store.base import ExecutionKey, Store

T = TypeVar("T")


def key_of(row: InstanceRow) -> ExecutionKey:
    """Return which execution of an instance is the current one."""
    return ExecutionKey(row.instance_id, row.incarnation, row.execution)


def execution_key(row: InstanceRow, execution: int | None) -> ExecutionKey:
    """Return which execution of an instance a caller means: by its number, or the current one.

    Raises:
        UsageError: There was no such execution.
    """
    if execution is None:
        return key_of(row)
    if check_count("execution", execution, least=1) > row.execution:
        raise UsageError(
            f"instance {row.instance_id!r} has no execution {execution}: the current one is "
            f"{row.execution}"
        )
    return key_of(row)._replace(execution=execution)


async def read_history(store: Store, row: InstanceRow) -> list[StoredEvent]:
    """Return all events of an instance: for code that is run or folded again."""
    [history] = await store.read_histories([key_of(row)])
    return history


async def find_event(
    store: Store, key: ExecutionKey, take: Callable[[StoredEvent], T | None]
) -> T | None:
    """Return what a function makes of the first event that it takes; None: it takes none.

    The history is read a page at a time, as far as that event.
    """
    after = 0
    while True:
        [page] = await store.read_histories([key], after_seq=after, limit=PAGE_MAX)
        for stored in page:
            found = take(stored)
            if found is not None:
                return found
        if len(page) < PAGE_MAX:
            return None
        after = page[-1].seq


@contextmanager
def named_in_errors(row: InstanceRow | None) -> Iterator[None]:
    """Have a row of a history that cannot be read named with its instance."""
    try:
        yield
    except UnreadableEventError as error:
        raise error if row is None else error.of(row.instance_id, row.execution) from error
