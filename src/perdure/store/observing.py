"""Telling an observer how long each operation of a store took, and which failed.

What a store does for many callers at once is timed as each of them sees it, waiting included. So it
is done around the operations of the contract, once per class of stores or parts of them: below that
an operation may be none, one or several transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from inspect import iscoroutinefunction
from time import perf_counter
from typing import Any, TypeVar

from perdure.store.admin import AdminStore
from perdure.store.base import Store
from perdure.store.deciders import DeciderStore
from perdure.store.feed import FeedStore
from perdure.store.observer import Observer
from perdure.store.streams import StreamStore

NOT_OBSERVED = frozenset(
    {
        *("open", "close", "clock", "check_transaction", "borrow"),
        *("change_count", "hears_changes", "listen_changes", "listen_feed"),
    }
)
"""Not operations: they happen once, or ask nothing of the database."""

PARTS: dict[str, type] = {
    "admin": AdminStore,
    "deciders": DeciderStore,
    "feed": FeedStore,
    "streams": StreamStore,
}
"""The contracts of what a store has operations in besides its own, by name."""

C = TypeVar("C", bound=type)


def operations_of(contract: type) -> tuple[str, ...]:
    """Return every operation of a contract."""
    return tuple(
        name
        for name in dir(contract)
        if not name.startswith("_")
        and name not in NOT_OBSERVED
        and callable(getattr(contract, name))
    )


OPERATIONS = frozenset(
    name for contract in (Store, *PARTS.values()) for name in operations_of(contract)
)
"""Every operation of a store and its parts. None of them has the name of another."""


def observable(contract: type) -> Callable[[C], C]:
    """Have what keeps a contract tell its observer, if it has one, of each operation."""

    def observed(cls: C) -> C:
        for name in operations_of(contract):
            setattr(cls, name, _observed(name, getattr(cls, name)))
        return cls

    return observed


def _observed(operation: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    succeeded = (operation, "ok")

    async def answered(observer: Observer, answer: Awaitable[Any], began_s: float) -> Any:
        try:
            found = await answer
        except Exception as error:
            _tell(observer, operation, error, began_s)
            raise
        observer.ended(succeeded, perf_counter() - began_s)
        return found

    @wraps(call)
    async def later(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Nothing is made before it is awaited: a task that is cancelled before it begins would
        # leave it behind.
        observer: Observer | None = self.observer
        if observer is None:
            return await call(self, *args, **kwargs)
        began_s = perf_counter()
        try:
            found = await call(self, *args, **kwargs)
        except Exception as error:
            _tell(observer, operation, error, began_s)
            raise
        observer.ended(succeeded, perf_counter() - began_s)
        return found

    @wraps(call)
    def at_once(self: Any, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        observer: Observer | None = self.observer
        if observer is None:
            return call(self, *args, **kwargs)
        began_s = perf_counter()
        try:
            answer = call(self, *args, **kwargs)
        except Exception as error:
            _tell(observer, operation, error, began_s)
            raise
        if not isinstance(answer, asyncio.Future):
            return answered(observer, answer, began_s)
        answer.add_done_callback(partial(_came, observer, succeeded, began_s))
        return answer

    return later if iscoroutinefunction(call) else at_once


def _came(
    observer: Observer, succeeded: tuple[str, str], began_s: float, answer: asyncio.Future[Any]
) -> None:
    """Tell of an answer that a future has brought."""
    if answer.cancelled():
        return
    error = answer.exception()
    if error is None:
        observer.ended(succeeded, perf_counter() - began_s)
    elif isinstance(error, Exception):
        _tell(observer, succeeded[0], error, began_s)


def _tell(observer: Observer, operation: str, error: Exception, began_s: float) -> None:
    observer.ended((operation, "error"), perf_counter() - began_s)
    observer.failed((operation, type(error).__name__))
