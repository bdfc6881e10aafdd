"""Timing the operations of a store, and counting its errors.

What the store does for many callers at once is timed as each of them sees it, waiting included.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from time import perf_counter
from typing import Any

from perdure.store.base import Store
from perdure.telemetry import Metrics

NOT_MEASURED = frozenset(
    {
        *("open", "close", "clock", "check_transaction", "borrow"),
        *("change_count", "listen_changes", "listen_feed"),
    }
)
"""Not operations: they happen once, or ask nothing of the database."""

OPERATIONS = tuple(
    name
    for name in dir(Store)
    if not name.startswith("_") and name not in NOT_MEASURED and callable(getattr(Store, name))
)
"""Every operation of the contract."""


def measure(store: Store, metrics: Metrics) -> Store:
    """Let a store count its operations from now on; return it.

    Its methods are replaced on this one object: a wrapper around it would no longer be an
    `SqliteStore`, for those who need to know.
    """
    for name in OPERATIONS:
        setattr(store, name, _timed(name, getattr(store, name), metrics))
    return store


def _timed(
    operation: str, call: Callable[..., Awaitable[Any]], metrics: Metrics
) -> Callable[..., Awaitable[Any]]:
    succeeded, failed = (operation, "ok"), (operation, "error")
    observe = metrics.store_duration.observe

    def timed(*args: Any, **kwargs: Any) -> Awaitable[Any]:
        began_s = perf_counter()
        try:
            # Not when it is awaited: `commit` is handed in at once.
            answer = call(*args, **kwargs)
        except Exception as error:
            count(error, began_s)
            raise
        return answered(answer, began_s)

    async def answered(answer: Awaitable[Any], began_s: float) -> Any:
        try:
            found = await answer
        except Exception as error:
            count(error, began_s)
            raise
        observe(succeeded, perf_counter() - began_s)
        return found

    def count(error: Exception, began_s: float) -> None:
        observe(failed, perf_counter() - began_s)
        metrics.store_errors.add((operation, type(error).__name__))

    async def timed_later(*args: Any, **kwargs: Any) -> Any:
        # Nothing is made before it is awaited: a task that is cancelled before it begins would
        # leave it behind.
        return await timed(*args, **kwargs)

    return timed_later if iscoroutinefunction(call) else timed
